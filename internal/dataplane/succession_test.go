package dataplane

import (
	"testing"
	"time"

	"sluice/internal/bridge"
	"sluice/pfc"
)

// addPort adds a port behind those there are, absent.
func (r *rig) addPort(p *Params, worker int, change func(*PortParams)) {
	port := testPort(len(p.Ports), worker)
	if change != nil {
		change(&port)
	}
	p.Ports, p.Bridge.Ports = append(p.Ports, port), append(p.Bridge.Ports, bridge.PortParams{})
	r.plan.Links = append(r.plan.Links, Link{Closed: true})
}

// TestFramesForAPortThatAnotherWorkerDoesNotKnowYet: workers don't change over at the same moment, and a static entry leads to
// a port at once.
func TestFramesForAPortThatAnotherWorkerDoesNotKnowYet(t *testing.T) {
	r := newRig(t, 2, 2, nil)
	r.introduce()
	p := r.params
	p.Ports = append([]PortParams(nil), p.Ports...)
	p.Bridge.Ports = append([]bridge.PortParams(nil), p.Bridge.Ports...)
	r.addPort(&p, 1, nil)
	p.Bridge.Static = []bridge.StaticEntry{{MAC: station0(2), Port: 2}}
	g, err := r.s.Prepare(p)
	if err != nil {
		t.Fatal(err)
	}
	r.params, r.plan.Generation = p, g
	plan := r.plan
	r.s.Workers[0].plan.Store(&plan) // Publish, seen in the midst of it
	r.send(0, data(0, 2, lossless, 1000, 1))
	r.run(5000)
	r.s.Publish(&plan)
	r.run(5000)
	if n := r.port(2).Drops[DropPortDown][lossless]; n != 1 {
		t.Errorf("%d frames dropped at the port that is down, want 1", n)
	}
	r.idle()
}

// TestSnapshotForgetsWhatIsGone: a snapshot says nothing of flow control and watchdog that a port no longer has.
func TestSnapshotForgetsWhatIsGone(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) {
		p.Ports[1].Watchdog = pfc.WatchdogParams{Priorities: 1 << lossless, Detection: 1e9, Restoration: 1e9}
	})
	r.introduce()
	snapshot := func() PortSnapshot {
		got := make(chan Snapshot)
		go func() {
			s, err := r.s.Workers[0].Snapshot(time.Minute)
			if err != nil {
				t.Error(err)
			}
			got <- s
		}()
		for {
			select {
			case s := <-got:
				return s.Ports[1]
			default:
				r.run(100_000)
			}
		}
	}
	r.plan.Links[1].Storm = 1 << lossless
	r.publish()
	r.control(1, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 65535}})
	r.run(1000)
	if s := snapshot(); s.Heard.Frames != 1 || s.Watchdog.Storming == 0 || s.Guard.Priorities == 0 {
		t.Fatalf("heard %d, storming %#x, guard %+v", s.Heard.Frames, s.Watchdog.Storming, s.Guard)
	}
	r.regenerate(func(p *Params) { p.Ports[1].FlowControl = NoFlowControl })
	r.run(1000)
	if s := snapshot(); s.Heard.Frames != 0 || s.Watchdog.Storming != 0 || s.Guard.Priorities != 0 || s.Paused != 0 {
		t.Errorf("without flow control: heard %d, storming %#x, guard %+v", s.Heard.Frames, s.Watchdog.Storming, s.Guard)
	}
}
