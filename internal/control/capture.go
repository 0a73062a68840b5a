package control

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"sluice/internal/control/memory"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/punt"
	"sluice/internal/dataplane/tap"
)

// ErrCapturing is returned by Capture while another capture runs.
var ErrCapturing = errors.New("control: another capture is running, and a switch runs only one: end that one first")

// untapTimeout bounds how long Stop waits for the workers, which may be draining.
const untapTimeout = drainTimeout + adoptTimeout

const (
	captureBuffers = 4 << 20 // bytes that a capture takes besides its taps: the file on its way to the client
	shortestKept   = 64      // smallest snap length to recommend when memory is short, bytes
	// refusalSlots is how many frames that the control plane refused may wait to be taken.
	refusalSlots = 256
)

// CaptureParams selects the frames to capture. The zero value captures all frames whole.
type CaptureParams struct {
	Devices    []string      // ports; empty: all
	Directions tap.Direction // 0: both
	CoS        uint8         // bit n: CoS n; 0: all
	Drops      bool          // only dropped frames
	SnapLength int           // bytes kept of a frame; 0: all
}

// CapturePort is a port whose frames are captured.
type CapturePort struct {
	Name  string
	Label bridge.PortID // in a tap.Record
	Speed uint64        // bit/s, when the capture began
}

// Capture is a running capture. Only one goroutine may use it.
type Capture struct {
	s       *Switch
	ports   []CapturePort
	taps    []*dataplane.Tap // nil: not started, or closed
	started []int64          // by worker: the time at which its clock was 0, ns since 1970
	refused *tap.Tap         // of the control plane, whose clock counts from 1970; nil with taps
	stopped bool             // nobody writes to the taps
}

// Capture starts a capture. Frames wait in the capture's own memory until Take reads them; frames
// that find no room there are counted, and the switch goes on. It fails with ErrCapturing while
// another capture runs. The caller must Close it. Any goroutine may call it, like Override.
func (s *Switch) Capture(ctx context.Context, p CaptureParams) (*Capture, error) {
	c := &Capture{s: s}
	if err := s.order(ctx, func() error { return c.begin(p) }); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	now := time.Now()
	for _, w := range s.plane.Workers {
		c.started = append(c.started, now.UnixNano()-int64(now.Sub(*w.Started())))
	}
	return c, nil
}

// begin has the workers run a plan with taps. It runs on Run's goroutine, so the ports are those of
// that plan and no reload comes in between.
func (c *Capture) begin(p CaptureParams) error {
	params, err := c.params(p)
	if err != nil {
		return err
	}
	if !c.s.capturing.CompareAndSwap(false, true) {
		return ErrCapturing
	}
	if err = c.s.roomFor(params); err == nil {
		c.refused, err = tap.New(refusals(params), refusalSlots)
	}
	if err == nil {
		if c.taps, err = c.s.plane.NewTaps(params); err != nil {
			_ = c.refused.Close() // err matters more
		}
	}
	if err != nil {
		c.s.capturing.Store(false)
		return err
	}
	c.s.plan.Taps, c.s.refused = c.taps, c.refused
	return c.s.publish()
}

// refusals returns the parameters of the control plane's tap: those of the workers' taps, but the
// frames are at most as long as those that the control plane receives.
func refusals(p tap.Params) tap.Params {
	if p.SnapLength <= 0 || p.SnapLength > dataplane.PuntLongest {
		p.SnapLength = dataplane.PuntLongest
	}
	return p
}

// captureRefusal captures that the control plane does not forward a frame that a port has received,
// and why: the stable name of a reason. Only Run's goroutine may call it.
func (s *Switch) captureRefusal(f *punt.Frame, why string) {
	if s.refused != nil && s.plane.PortName(f.Port) != "" {
		s.refused.Refuse(time.Now().UnixNano(), f.Port, f.Class, why, f.Bytes)
	}
}

// roomFor refuses a capture if the machine or the process's control group has too little memory for
// it: the kernel would kill the switch.
func (s *Switch) roomFor(p tap.Params) error {
	takes := func(snap int) (slab, rest uint64) {
		p.SnapLength = snap
		a, b := s.plane.TapMemory(p)
		return uint64(a), uint64(b)
	}
	workers := uint64(len(s.plane.Workers))
	slab, rest := takes(p.SnapLength)
	slots, records := tap.Memory(new(refusals(p)), refusalSlots)
	more := captureBuffers + uint64(slots+records)
	short := memory.Room(s.read, workers, slab, workers*rest+more)
	if short == nil {
		return nil
	}
	remedy := short.Limit.Remedy()
	longest := 0 // bytes
	for _, p := range s.ports {
		longest = max(longest, p.MaxFrame())
	}
	for snap := 1 << (bits.Len(uint(longest)) - 1); snap >= shortestKept; snap /= 2 {
		if slab, _ := takes(snap); workers*(slab+rest)+more <= short.Limit.Free {
			remedy = fmt.Sprintf("capture at most %d bytes of each frame (sluice capture --snaplen %d), or %s", snap,
				snap, remedy)
			break
		}
	}
	return fmt.Errorf("control: the capture needs %s of memory, but %s has only %s left of %s: %s",
		memory.Text(short.Takes), short.Limit.Place, memory.Text(short.Limit.Free), memory.Text(short.Limit.Size),
		remedy)
}

// params returns the parameters of the taps and fills in the captured ports.
func (c *Capture) params(p CaptureParams) (tap.Params, error) {
	if p.Directions == 0 {
		p.Directions = tap.RX | tap.TX
	}
	if p.CoS == 0 {
		p.CoS = 0xff
	}
	t := tap.Params{Classes: p.CoS, DropsOnly: p.Drops, SnapLength: p.SnapLength}
	for _, device := range p.Devices {
		if c.s.port(device) == nil {
			return t, c.s.noPort(device)
		}
	}
	for _, port := range c.s.ports {
		if len(p.Devices) == 0 || slices.Contains(p.Devices, port.Device) {
			id := c.s.plane.PortID(port.number)
			t.Ports = append(t.Ports, make([]tap.Direction, max(0, id.Place()+1-len(t.Ports)))...)
			t.Ports[id.Place()] = p.Directions
			c.ports = append(c.ports, CapturePort{port.Device, id, port.Speed})
		}
	}
	return t, nil
}

// Ports returns the captured ports.
func (c *Capture) Ports() []CapturePort { return c.ports }

// PortName returns the name of the port with an id, including ports that joined or left after the
// capture started.
func (c *Capture) PortName(id bridge.PortID) string { return c.s.plane.PortName(id) }

// Ended is closed when the switch has ended; then the capture can only be drained.
func (c *Capture) Ended() <-chan struct{} { return c.s.ended }

// Take passes waiting frames to see, at most most of them, and returns their number. at is when a
// worker saw the frame, in ns since 1970, the same for all frames of one iteration, or when the
// control plane refused it. Frames of one worker come in the order in which it saw them; waiting
// frames of several workers, and of the control plane, are merged by time. The arguments of see are
// valid until it returns; its error ends Take.
func (c *Capture) Take(most int, see func(at int64, r *tap.Record, frame []byte) error) (n int, err error) {
	for ; n < most && err == nil; n++ {
		t, r, at := c.oldest()
		if r == nil {
			break
		}
		err = see(at, r, t.Frame(r))
		t.Release()
	}
	return n, err
}

func (c *Capture) oldest() (from *tap.Tap, oldest *tap.Record, at int64) {
	look := func(t *tap.Tap, started int64) {
		if r := t.Peek(); r != nil && (oldest == nil || started+r.At < at) {
			from, oldest, at = t, r, started+r.At
		}
	}
	for i, t := range c.taps {
		look(t.Tap, c.started[i])
	}
	if c.refused != nil {
		look(c.refused, 0)
	}
	return from, oldest, at
}

// Stop ends the capture. Waiting frames can still be taken.
func (c *Capture) Stop() error {
	if c.stopped || c.taps == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), untapTimeout)
	defer cancel()
	err := c.s.order(ctx, func() error {
		c.s.plan.Taps, c.s.refused = nil, nil
		return c.s.publish()
	})
	if errors.Is(err, errEnded) {
		err = nil
	}
	c.stopped = err == nil
	return err
}

// Count returns the counts of the port with an id. Call it after Stop.
func (c *Capture) Count(id bridge.PortID) (n tap.Count) {
	add := func(of tap.Count) {
		n.Seen, n.Beyond, n.Full = n.Seen+of.Seen, n.Beyond+of.Beyond, n.Full+of.Full
	}
	for _, t := range c.taps {
		add(t.CountOf(id))
	}
	add(c.refused.CountOf(id))
	return n
}

// Close ends the capture and frees its memory. If the workers can't be stopped from writing there,
// the memory stays, and no other capture can start.
func (c *Capture) Close() error {
	if err := c.Stop(); err != nil {
		return fmt.Errorf("control: can't free the memory of the capture: %w", err)
	}
	if c.taps == nil {
		return nil // it was not started, or is closed
	}
	var errs []error
	for _, t := range c.taps {
		errs = append(errs, t.Close())
	}
	errs = append(errs, c.refused.Close())
	c.taps, c.refused = nil, nil
	c.s.capturing.Store(false)
	return errors.Join(errs...)
}
