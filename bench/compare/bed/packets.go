package bed

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/traffic/line"
	"sluice/bench/traffic/live"
	"sluice/internal/linux/thread"
	"sluice/pmd/xdprun"
)

// sender sends the streams of a bed; its methods are those of live.Generator.
type sender interface {
	SetRate(port, flow int, rate float64) error
	SetCatchUp(d time.Duration)
	Sent() []live.Sent
	Thread() (xdprun.Times, error)
	Stop() error
}

// startSender starts a generator in the kernel, or packets if frames are longer than it makes.
func startSender(p live.GeneratorParams) (sender, error) {
	for _, port := range p.Ports {
		for _, f := range port.Flows {
			if f.Size > live.MaxSize {
				return startPackets(p)
			}
		}
	}
	return live.Start(p)
}

// packets sends flows from a thread of this process through packet sockets.
type packets struct {
	flows    []*packetFlow
	catchUp  atomic.Int64 // ns
	thread   atomic.Int64 // its number
	stopping atomic.Bool
	ended    chan error
}

// packetFlow is one flow. Only the thread writes to it, except rate.
type packetFlow struct {
	live.Sent
	ring    *packetRing
	rate    atomic.Uint64 // bits of a float64, as for live.Generator.SetRate
	frames  atomic.Uint64
	forgone atomic.Int64 // ns
	next    float64      // ns: when the next frame is due; 0: the flow has no schedule yet
}

func startPackets(p live.GeneratorParams) (*packets, error) {
	s := &packets{ended: make(chan error, 1)}
	s.SetCatchUp(p.CatchUp)
	for i, port := range p.Ports {
		for j := range port.Flows {
			f := &packetFlow{Sent: live.Sent{Port: i, Flow: j, ID: port.Flows[j].ID}}
			f.rate.Store(math.Float64bits(port.Flows[j].Rate))
			err := port.Namespace.Do(func() (err error) {
				f.ring, err = newPacketRing(port.Device, &port.Flows[j])
				return err
			})
			if err != nil {
				return nil, errors.Join(err, s.close())
			}
			s.flows = append(s.flows, f)
		}
	}
	go func() { s.ended <- thread.OnCPU(p.CPU, s.run) }()
	return s, nil
}

func (s *packets) run() {
	s.thread.Store(int64(unix.Gettid()))
	clock := newClock()
	for !s.stopping.Load() {
		for _, f := range s.flows {
			f.send(&clock, s.catchUp.Load())
		}
	}
}

// send sends a burst of the frames that are due.
func (f *packetFlow) send(c *clock, catchUp int64) {
	const burst = 32
	rate := math.Float64frombits(f.rate.Load())
	if rate < 0 {
		f.next = 0
		return
	}
	n := 0
	for ; n < burst; n++ {
		stamp, now := f.ring.free(), c.now()
		if stamp == nil {
			break
		}
		due := f.due(rate, now, catchUp)
		if due > now {
			break
		}
		line.Stamp{Flow: f.ID, Seq: f.frames.Load(), Scheduled: due, Sent: now}.PutFields(stamp)
		f.frames.Add(1)
		f.ring.push()
	}
	if n > 0 {
		f.ring.flush()
	}
}

// due returns when the next frame is due, in ns. If it is due now, the next call is about the one
// after it.
func (f *packetFlow) due(rate float64, now, catchUp int64) int64 {
	if rate == 0 {
		return now
	}
	if f.next == 0 {
		f.next = float64(now)
	}
	if late := now - int64(f.next) - catchUp; late > 0 {
		f.next += float64(late)
		f.forgone.Add(late)
	}
	due := int64(f.next)
	if due <= now {
		f.next += 1e9 / rate
	}
	return due
}

// clock reads CLOCK_MONOTONIC, the time of programs in the kernel, as Go's own clock does: without
// a system call.
type clock struct {
	began time.Time
	ns    int64 // at that time
}

func newClock() clock {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // can't fail
	return clock{time.Now(), t.Nano()}
}

func (c *clock) now() int64 { return c.ns + int64(time.Since(c.began)) }

// SetRate implements sender.
func (s *packets) SetRate(port, flow int, rate float64) error {
	for _, f := range s.flows {
		if f.Port == port && f.Flow == flow {
			f.rate.Store(math.Float64bits(rate))
		}
	}
	return nil
}

// SetCatchUp implements sender.
func (s *packets) SetCatchUp(d time.Duration) { s.catchUp.Store(int64(d)) }

// Sent implements sender.
func (s *packets) Sent() (all []live.Sent) {
	for _, f := range s.flows {
		n := f.Sent
		n.Frames, n.Forgone = f.frames.Load(), time.Duration(f.forgone.Load())
		n.Bytes = n.Frames * uint64(f.ring.length)
		all = append(all, n)
	}
	return all
}

// Thread implements sender.
func (s *packets) Thread() (t xdprun.Times, err error) {
	t.Ran, t.Waited, err = thread.Spent(fmt.Sprintf("/proc/self/task/%d", s.thread.Load()))
	return t, err
}

// Stop implements sender.
func (s *packets) Stop() error {
	s.stopping.Store(true)
	return errors.Join(<-s.ended, s.close())
}

func (s *packets) close() error {
	var errs []error
	for _, f := range s.flows {
		errs = append(errs, f.ring.close())
	}
	return errors.Join(errs...)
}
