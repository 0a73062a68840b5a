package control

import (
	"log/slog"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/discovery"
	"sluice/internal/linux/umem"
	"sluice/sched"
)

// TestAwaitALateWorker: a worker that does not answer for longer than a second is waited for.
func TestAwaitALateWorker(t *testing.T) {
	memory, err := umem.Map(1024, 2048)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	port := dataplane.PortParams{Name: "port1", MaxFrame: 1518, InFlight: 16 << 10, Buffers: 64,
		Sched: sched.Params{Rate: 1e10, Burst: 1600, MaxFrame: 1518}}
	for queue := range port.Sched.Queues {
		port.Sched.Queues[queue] = sched.QueueParams{TSA: sched.ETS, Weight: 1}
	}
	plane, err := dataplane.NewSwitch(dataplane.Params{Memory: memory, CellSize: 160, Workers: 1,
		Ports: []dataplane.PortParams{port}, Bridge: bridge.Params{Ports: []bridge.PortParams{{}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Switch{plane: plane, discovery: discovery.New(slog.New(slog.DiscardHandler), nil)}
	s.snooping = time.NewTicker(time.Hour)
	s.running.Store(&running{&config.Config{}, nil})
	stop, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		time.Sleep(1300 * time.Millisecond)
		for {
			select {
			case <-stop:
				return
			default:
				plane.Workers[0].Step(time.Now().UnixNano())
				time.Sleep(time.Millisecond)
			}
		}
	}()
	if state, err := s.await(time.Now().Add(patience), func(s *State) bool { return len(s.Workers) == 1 }); err != nil {
		t.Error(state, err)
	}
	close(stop)
	<-done
}
