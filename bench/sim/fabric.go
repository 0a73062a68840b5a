// Package sim simulates networks in virtual time: hosts and switches with the real engines, joined
// in a Fabric, and models of single links with faults.
package sim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"sluice/bench/traffic"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
)

// Fabric is hosts and switches joined by wires, in virtual time, with the real engines. All random
// choices, above all the time between two polls, follow from the seed, so the same seed gives the
// same trace.
type Fabric struct {
	rng      *rand.Rand
	now      int64 // ns
	wires    []*mem.Wire
	hosts    []*Host
	switches []*Switch
	memories []*umem.Memory // that Close gives back
	trace    hash.Hash64
	head     [16]byte // of the trace's next record

	// PollMin and PollMax bound the time between two iterations of the nodes, ns.
	PollMin, PollMax int64

	// Untraced, set before hosts and cables are added, leaves frames out of the trace, which saves
	// half of the run time.
	Untraced bool
}

// Switch is a switch of a Fabric.
type Switch struct {
	*dataplane.Switch
	Name   string
	Params dataplane.Params
	links  []dataplane.Link
}

// Host is a host of a Fabric.
type Host struct {
	*traffic.Host
	Name string
	end  mem.End
}

// Cable describes what joins two ports of a Fabric.
type Cable struct {
	Rate         uint64 // bit/s
	Metres       float64
	Transceivers int64 // ns: delay of a frame by the transceivers of both ends together
	MTU          int   // 0: 1500
	Ring         int   // buffers that the driver of each end holds, each way; 0: 1024
	RXRing       int   // parts of frames that wait at each end to be received; 0: Ring
	Buffer       int   // bytes per buffer at both ends; longer frames have several parts. 0: every frame fits one

	// Fault, if set, decides the fate of each frame that reaches the far end. A is the end that
	// Join or AddHost names first. A random Fault uses its own seeded generator.
	Fault func(at int64, toB bool, frame []byte) mem.Fault
}

// ring returns Ring or its default.
func (c Cable) ring() int { return cmp.Or(c.Ring, 1024) }

// maxFrame returns the longest frame, in bytes, with an 802.1Q tag and FCS.
func (c Cable) maxFrame() int { return cmp.Or(c.MTU, 1500) + 18 + frame.FCS }

// part returns how many bytes of a frame arrive in one buffer if the frame has several parts, as
// from AF_XDP; 0: every frame fits one buffer.
func (c Cable) part() int {
	if c.Buffer == 0 {
		return 0
	}
	return c.Buffer - afxdpRoom
}

// buffer returns the size of the buffers for frames of the cable: Buffer, or a power of two, at
// least 2048 bytes, for whole frames.
func (c Cable) buffer() int {
	if c.Buffer > 0 {
		return c.Buffer
	}
	size := 2048
	for size < c.maxFrame() {
		size *= 2
	}
	return size
}

const (
	fabricPollMin, PollMax = 100, 500 // ns

	// afxdpRoom is the room in front of each part of a frame in a buffer of AF_XDP.
	afxdpRoom = 384
)

// NewFabric returns an empty fabric whose nodes poll every 100 to 500 ns.
func NewFabric(seed uint64) *Fabric {
	return &Fabric{
		rng: rand.New(rand.NewPCG(seed, 0)), trace: fnv.New64a(), PollMin: fabricPollMin, PollMax: PollMax,
	}
}

// Close frees the memory of the switches that AddLosslessSwitch and AddConfigured added.
func (f *Fabric) Close() error {
	var errs []error
	for _, m := range f.memories {
		errs = append(errs, m.Close())
	}
	f.memories = nil
	return errors.Join(errs...)
}

// AddSwitch adds a switch whose ports are not connected yet.
func (f *Fabric) AddSwitch(name string, p dataplane.Params) (*Switch, error) {
	p.Bridge.Seed = f.rng.Uint64()
	d, err := dataplane.NewSwitch(p)
	if err != nil {
		return nil, fmt.Errorf("bench: add switch %s: %w", name, err)
	}
	s := &Switch{Switch: d, Name: name, Params: p, links: make([]dataplane.Link, len(p.Ports))}
	f.switches = append(f.switches, s)
	return s, nil
}

// AddHost adds a host at the end of a cable to a port of a switch. It fills in the port and memory
// fields of p.
func (f *Fabric) AddHost(name string, s *Switch, port int, c Cable, p traffic.Params) (*Host, error) {
	buffers, size := 2*c.ring(), c.buffer() // half to receive into, half to send
	h := &Host{Name: name, end: mem.End{Memory: make([]byte, buffers*size), Buffer: size}}
	w, err := f.join(c, h.end, s.end())
	if err != nil {
		return nil, fmt.Errorf("bench: add host %s: %w", name, err)
	}
	s.plug(port, w.B, c)
	p.Port, p.Memory, p.BufferSize, p.Buffers = w.A, h.end.Memory, size, buffers
	if h.Host, err = traffic.New(p); err != nil {
		return nil, fmt.Errorf("bench: add host %s: %w", name, err)
	}
	f.hosts = append(f.hosts, h)
	return h, nil
}

// Join connects two ports of two switches by a cable.
func (f *Fabric) Join(a *Switch, portA int, b *Switch, portB int, c Cable) error {
	w, err := f.join(c, a.end(), b.end())
	if err != nil {
		return fmt.Errorf("bench: connect %s to %s: %w", a.Name, b.Name, err)
	}
	a.plug(portA, w.A, c)
	b.plug(portB, w.B, c)
	return nil
}

func (f *Fabric) join(c Cable, a, b mem.End) (*mem.Wire, error) {
	number := uint64(len(f.wires))
	p := mem.Params{Rate: c.Rate, Delay: mem.Length(c.Metres) + c.Transceivers, MTU: c.MTU, Ring: c.ring(),
		RXRing: c.RXRing, Part: c.part(), Fault: c.Fault}
	if !f.Untraced {
		p.Tap = func(at int64, toB bool, frame []byte) { f.record(number, at, toB, frame) }
	}
	w, err := mem.NewWire(p, a, b)
	if err == nil {
		f.wires = append(f.wires, w)
	}
	return w, err
}

// record adds a frame that has arrived intact to the trace.
func (f *Fabric) record(wire uint64, at int64, toB bool, frame []byte) {
	head := &f.head
	binary.BigEndian.PutUint64(head[:], wire<<1)
	if toB {
		head[7] |= 1
	}
	binary.BigEndian.PutUint64(head[8:], uint64(at))
	f.trace.Write(head[:])
	f.trace.Write(frame)
}

func (s *Switch) end() mem.End {
	return mem.End{Memory: s.Params.Memory.Bytes(), Buffer: s.Params.Memory.BufferSize()}
}

func (s *Switch) plug(port int, p *mem.Port, c Cable) {
	p.Fill(s.Parked(port))
	s.links[port] = dataplane.Link{Driver: p, Up: true, TXRing: c.ring(), Parts: pmd.MaxParts}
	s.Publish(&dataplane.Plan{Links: append([]dataplane.Link(nil), s.links...)})
}

// Run advances the fabric by ns nanoseconds.
func (f *Fabric) Run(ns int64) {
	for end := f.now + ns; f.now < end; {
		f.now += f.PollMin + f.rng.Int64N(f.PollMax-f.PollMin+1)
		for _, w := range f.wires {
			w.Advance(f.now)
		}
		for _, h := range f.hosts {
			h.Step(f.now)
		}
		for _, s := range f.switches {
			for _, w := range s.Workers {
				w.Step(f.now)
			}
		}
	}
}

// Settle stops the senders and runs until no frame moves any more. It fails if that takes longer
// than limit ns.
func (f *Fabric) Settle(limit int64) error {
	for _, h := range f.hosts {
		h.Stop()
	}
	for end := f.now + limit; f.now < end; {
		f.Run(100_000)
		if f.held() == 0 {
			return nil
		}
	}
	return fmt.Errorf("bench: after %d ns, %d frames are still on the wires and in the switches", limit, f.held())
}

// held counts the frames on the wires and in the switches.
func (f *Fabric) held() int {
	n := 0
	for _, w := range f.wires {
		n += w.InFlight()
	}
	for _, s := range f.switches {
		for _, w := range s.Workers {
			n += w.Look(f.now).CellsInUse
		}
	}
	return n
}

// Now returns the virtual time, ns.
func (f *Fabric) Now() int64 { return f.now }

// Trace returns a hash of every frame that has arrived intact anywhere, with its wire, direction
// and time.
func (f *Fabric) Trace() uint64 { return f.trace.Sum64() }

// Check verifies that no switch or host has lost or duplicated a buffer.
func (f *Fabric) Check() error {
	var errs []error
	for _, s := range f.switches {
		if err := s.Switch.Check(); err != nil {
			errs = append(errs, fmt.Errorf("switch %s: %w", s.Name, err))
		}
	}
	for _, h := range f.hosts {
		b := h.Stats(f.now).Buffers
		if total := len(h.end.Memory) / h.end.Buffer; b.Free+b.Fill+b.TX != total {
			errs = append(errs, fmt.Errorf("host %s: buffers %+v do not add up to %d", h.Name, b, total))
		}
	}
	return errors.Join(errs...)
}

// Ports returns the state of all ports of a switch, by port number.
func (s *Switch) Ports(now int64) []dataplane.PortSnapshot {
	ports := make([]dataplane.PortSnapshot, len(s.Params.Ports))
	for _, w := range s.Workers {
		for _, p := range w.Look(now).Ports {
			ports[p.Number] = p
		}
	}
	return ports
}

// Pause has a host stop the lossless class for that many quanta; 0 resumes it. Pause returns false
// if too many such frames wait to be sent.
func (h *Host) Pause(quanta uint16) bool {
	return h.Inject(pfc.Frame{Enable: 1 << LosslessCoS, Quanta: [8]uint16{LosslessCoS: quanta}})
}

// Refuse has a host stop and resume the lossless class several times. Each phase lasts a quarter of
// a millisecond: enough to fill the queues towards the host, and to drain them.
func Refuse(f *Fabric, host *Host) error {
	for range 4 {
		for _, quanta := range []uint16{math.MaxUint16, 0} {
			if !host.Pause(quanta) {
				return errors.New("bench: inject a PFC frame: the last one has not been sent yet")
			}
			f.Run(250_000)
		}
	}
	return nil
}
