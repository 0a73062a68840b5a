package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"

	"sluice/internal/dataplane"
	"sluice/internal/gen"
	"sluice/pmd/mem"
)

// Fabric is hosts and switches joined by wires, in virtual time: the engines are the real ones, the seconds are not.
// Everything that is left to chance, the time between two polls above all, comes from the seed, so that the same
// seed gives the same trace.
type Fabric struct {
	rng      *rand.Rand
	now      int64 // ns
	wires    []*mem.Wire
	hosts    []*FabricHost
	switches []*FabricSwitch
	trace    hash.Hash64
	head     [16]byte // of the trace's next record

	// PollMin and PollMax bound the time between two iterations of the nodes, ns.
	PollMin, PollMax int64
}

// FabricSwitch is a switch of a Fabric.
type FabricSwitch struct {
	*dataplane.Switch
	Name   string
	params dataplane.Params
	links  []dataplane.Link
}

// FabricHost is a host of a Fabric.
type FabricHost struct {
	*gen.Host
	Name string
	end  mem.End
}

// Cable says what joins two ports of a Fabric.
type Cable struct {
	Rate   uint64 // bit/s
	Metres float64
	MTU    int // 0: 1500
}

// fabricRing is how many frames a port of a Fabric takes each way.
const fabricRing = 1024

// NewFabric returns an empty fabric whose nodes poll every 100 to 500 ns.
func NewFabric(seed uint64) *Fabric {
	return &Fabric{rng: rand.New(rand.NewPCG(seed, 0)), trace: fnv.New64a(), PollMin: 100, PollMax: 500}
}

// AddSwitch adds a switch whose ports are not joined to anything yet.
func (f *Fabric) AddSwitch(name string, p dataplane.Params) (*FabricSwitch, error) {
	p.Bridge.Seed = f.rng.Uint64()
	d, err := dataplane.NewSwitch(p)
	if err != nil {
		return nil, fmt.Errorf("bench: switch %s: %w", name, err)
	}
	s := &FabricSwitch{Switch: d, Name: name, params: p, links: make([]dataplane.Link, len(p.Ports))}
	f.switches = append(f.switches, s)
	return s, nil
}

// AddHost adds a host at the end of a cable to a port of a switch. Of p, what concerns port and memory is filled in.
func (f *Fabric) AddHost(name string, s *FabricSwitch, port int, c Cable, p gen.Params) (*FabricHost, error) {
	const buffers, size = 2048, 2048
	h := &FabricHost{Name: name, end: mem.End{Memory: make([]byte, buffers*size), Buffer: size}}
	w, err := f.join(c, h.end, s.end())
	if err != nil {
		return nil, fmt.Errorf("bench: host %s: %w", name, err)
	}
	s.plug(port, w.B)
	p.Port, p.Memory, p.BufferSize, p.Buffers = w.A, h.end.Memory, size, buffers
	if h.Host, err = gen.New(p); err != nil {
		return nil, fmt.Errorf("bench: host %s: %w", name, err)
	}
	f.hosts = append(f.hosts, h)
	return h, nil
}

// Join lays a cable between two ports of two switches.
func (f *Fabric) Join(a *FabricSwitch, portA int, b *FabricSwitch, portB int, c Cable) error {
	w, err := f.join(c, a.end(), b.end())
	if err != nil {
		return fmt.Errorf("bench: %s to %s: %w", a.Name, b.Name, err)
	}
	a.plug(portA, w.A)
	b.plug(portB, w.B)
	return nil
}

func (f *Fabric) join(c Cable, a, b mem.End) (*mem.Wire, error) {
	number := uint64(len(f.wires))
	w, err := mem.NewWire(mem.Params{
		Rate: c.Rate, Delay: mem.Length(c.Metres), MTU: c.MTU, Ring: fabricRing,
		Tap: func(at int64, toB bool, frame []byte) { f.record(number, at, toB, frame) },
	}, a, b)
	if err == nil {
		f.wires = append(f.wires, w)
	}
	return w, err
}

// record adds a frame that has arrived to the trace.
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

func (s *FabricSwitch) end() mem.End {
	return mem.End{Memory: s.params.Memory.Bytes(), Buffer: s.params.Memory.BufferSize()}
}

func (s *FabricSwitch) plug(port int, p *mem.Port) {
	p.Fill(s.Parked(port))
	s.links[port] = dataplane.Link{Driver: p, Up: true, TXRing: fabricRing}
	s.Publish(&dataplane.Plan{Links: append([]dataplane.Link(nil), s.links...)})
}

// Run lets the fabric live for so many ns.
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

// Settle stops the senders and runs until nothing moves any more; it fails when that takes longer than limit ns.
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

// Trace returns a hash of every frame that has arrived anywhere, with its wire, direction and time.
func (f *Fabric) Trace() uint64 { return f.trace.Sum64() }

// Check tests the conservation of buffers in every switch and host.
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
			errs = append(errs, fmt.Errorf("host %s: buffers %+v are not %d", h.Name, b, total))
		}
	}
	return errors.Join(errs...)
}

// Ports returns the state of all ports of a switch, by port number.
func (s *FabricSwitch) Ports(now int64) []dataplane.PortSnapshot {
	ports := make([]dataplane.PortSnapshot, len(s.params.Ports))
	for _, w := range s.Workers {
		for _, p := range w.Look(now).Ports {
			ports[p.Number] = p
		}
	}
	return ports
}
