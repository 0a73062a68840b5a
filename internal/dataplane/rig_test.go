package dataplane

import (
	"encoding/binary"
	"testing"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
	"sluice/sched"
)

const (
	bufferSize = 2048
	speed      = 10_000_000_000
	ringSize   = 256
	lossless   = 3 // priority
)

// wirePart is how many bytes of a frame arrive in one buffer, at both ends of a rig's wires; 0: all
// of them. TestAgainInParts sets it.
var wirePart int

// rig is a switch with a bare wire at each port, in virtual time: the test is the link partner.
type rig struct {
	t       *testing.T
	now     int64
	s       *Switch
	params  Params
	plan    Plan
	wires   []*mem.Wire // A is the switch, B the test
	memory  []byte      // of the test's ends: each has ringSize buffers to receive into and as many to send from
	sent    []int       // by port
	parts   []pmd.Desc  // memory of send
	inboxes [][][]byte  // by port: frames received
	descs   [16]pmd.Desc
	addrs   [16]uint64
}

// newRig returns a switch with the parameters of testPort, as changed by configure.
func newRig(t *testing.T, ports, workers int, configure func(*Params)) *rig {
	t.Helper()
	memory, err := umem.Over(make([]byte, 4096*bufferSize), bufferSize, "")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, params: Params{Memory: memory, CellSize: 160, Part: wirePart, Workers: workers}}
	for i := range ports {
		r.params.Ports = append(r.params.Ports, testPort(i, i%workers))
		r.params.Bridge.Ports = append(r.params.Bridge.Ports, bridge.PortParams{})
	}
	if configure != nil {
		configure(&r.params)
	}
	for i := range r.params.Ports {
		if p := &r.params.Ports[i]; p.Parts == 0 && r.params.Part > 0 {
			p.Parts = (p.MaxFrame + r.params.Part - 1) / r.params.Part
		}
	}
	if r.s, err = NewSwitch(r.params); err != nil {
		t.Fatal(err)
	}
	r.memory = make([]byte, ports*2*ringSize*bufferSize)
	r.sent, r.inboxes = make([]int, ports), make([][][]byte, ports)
	for i := range ports {
		r.wires = append(r.wires, r.newWire(i))
		r.wires[i].A.Fill(r.s.Parked(i))
		r.plan.Links = append(r.plan.Links, Link{Driver: r.wires[i].A, Up: true, TXRing: ringSize, Parts: pmd.MaxParts})
	}
	r.publish()
	r.run(1000)
	return r
}

func testPort(i, worker int) PortParams {
	p := PortParams{
		Name: string(rune('a' + i)), Worker: worker,
		MaxFrame: 1518, InFlight: 16 << 10, Buffers: 128,
		Sched:       sched.Params{Rate: speed, Burst: 1600, Overhead: 24, MaxFrame: 1518},
		FlowControl: PriorityFlowControl,
		Generator: pfc.GeneratorParams{
			Priorities: 1 << lossless, Quanta: 1000, Speed: speed,
		},
		Receiver: pfc.ReceiverParams{Priorities: 1 << lossless, Speed: speed},
	}
	for q := range Priorities {
		p.Cells.Groups[q] = cells.GroupParams{Share: 100}
		p.Cells.Queues[q] = cells.QueueParams{Limit: 50}
		p.Sched.Queues[q] = sched.QueueParams{TSA: sched.ETS, Weight: 1}
	}
	p.Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 10, Headroom: 5, XON: 4}
	p.Cells.Queues[lossless] = cells.QueueParams{}
	return p
}

func (r *rig) newWire(port int) *mem.Wire {
	r.t.Helper()
	w, err := mem.NewWire(mem.Params{
		Rate: speed, Delay: 100, Ring: ringSize, Part: r.params.Part, MTU: max(1500, r.params.Ports[port].MaxFrame-18),
	},
		mem.End{Memory: r.params.Memory.Bytes(), Buffer: bufferSize}, mem.End{Memory: r.memory, Buffer: bufferSize})
	if err != nil {
		r.t.Fatal(err)
	}
	w.Advance(r.now)
	for i := range ringSize {
		w.B.Fill([]uint64{uint64((port*2*ringSize + i) * bufferSize)})
	}
	return w
}

func (r *rig) publish() {
	p := r.plan
	p.Links = append([]Link(nil), r.plan.Links...)
	r.s.Publish(&p)
}

// drain publishes a stage of draining for all ports.
func (r *rig) drain(d Drain) {
	for i := range r.plan.Links {
		r.plan.Links[i].Drain = d
	}
	r.publish()
}

// relink changes a port's link and lets ns pass.
func (r *rig) relink(port int, l Link, ns int64) {
	r.plan.Links[port] = l
	r.publish()
	r.run(ns)
}

// run lets ns pass, with an iteration of each worker every 100 ns.
func (r *rig) run(ns int64) {
	for end := r.now + ns; r.now < end; {
		r.now += 100
		for _, w := range r.wires {
			w.Advance(r.now)
		}
		for _, w := range r.s.Workers {
			w.Step(r.now)
		}
		for i := range r.wires {
			r.collect(i)
		}
	}
}

// collect takes the frames that have arrived at the far end of a port's wire.
func (r *rig) collect(port int) {
	var d [32]pmd.Desc
	var done [32]uint64
	b := r.wires[port].B
	b.Complete(done[:])
	var received []byte
	for _, d := range d[:b.Receive(d[:])] {
		received = append(received, r.memory[d.Addr:d.Addr+uint64(d.Len)]...)
		b.Fill([]uint64{d.Addr})
		if d.Options == 0 {
			r.inboxes[port] = append(r.inboxes[port], received)
			received = nil
		}
	}
}

// send puts bytes on the wire to a port.
func (r *rig) send(port int, b []byte) {
	r.t.Helper()
	parts := r.parts[:0]
	for more := true; more; more = len(b) > 0 {
		addr := uint64((port*2*ringSize + ringSize + r.sent[port]%ringSize) * bufferSize)
		n := copy(r.memory[addr:][:bufferSize], b)
		b = b[n:]
		parts = append(parts, pmd.Desc{Addr: addr, Len: uint32(n), Options: pmd.Continued})
		r.sent[port]++
	}
	parts[len(parts)-1].Options = 0
	r.parts = parts
	if r.wires[port].B.Transmit(parts) != len(parts) {
		r.t.Fatal("the wire takes no more")
	}
}

// data returns a frame of VLAN 1 from the address of one port to that of another, with a number in
// its payload.
func data(from, to int, pcp uint8, length, number int) []byte {
	b := make([]byte, length)
	n := frame.PutHeader(b, station0(to), station0(from), 1, pcp, true, frame.TypeIPv4)
	binary.BigEndian.PutUint32(b[n:], uint32(number))
	return b
}

func station0(port int) frame.MAC { return 0x0200_0000_0000 + frame.MAC(port) }

// introduce makes the switch learn the addresses of all ports.
func (r *rig) introduce() {
	for i := range r.wires {
		b := data(i, i, 1, 60, 0)
		frame.Broadcast.Put(b)
		r.send(i, b)
	}
	r.run(5000)
	for i := range r.inboxes {
		r.inboxes[i] = nil
	}
}

// control sends a PFC frame from the partner of a port.
func (r *rig) control(port int, f pfc.Frame) {
	b := make([]byte, pfc.FrameLength)
	f.Put(b, [6]byte{2, 0, 0, 0, 0, byte(port)})
	r.send(port, b)
}

// received splits the frames that arrived from a port into data frames and PFC frames.
func (r *rig) received(port int) (frames [][]byte, told []pfc.Frame) {
	r.t.Helper()
	for _, b := range r.inboxes[port] {
		var f pfc.Frame
		if kind, _ := pfc.Decode(b, &f); kind == pfc.PFC {
			told = append(told, f)
		} else {
			frames = append(frames, b)
		}
	}
	return frames, told
}

func (r *rig) port(number int) PortSnapshot {
	for _, w := range r.s.Workers {
		for _, p := range w.Look(r.now).Ports {
			if p.Number == number {
				return p
			}
		}
	}
	r.t.Fatalf("no port %d", number)
	return PortSnapshot{}
}

// idle checks that nothing is charged or queued, and that buffers are conserved.
func (r *rig) idle() {
	r.t.Helper()
	if err := r.s.Check(); err != nil {
		r.t.Error(err)
	}
	for _, w := range r.s.Workers {
		s := w.Look(r.now)
		if s.CellsInUse != 0 {
			r.t.Errorf("worker %d: %d cells are charged though nothing is under way", s.Worker, s.CellsInUse)
		}
		for _, p := range s.Ports {
			if p.Buffers.Queued != 0 || p.Buffers.Sending != 0 || p.Buffers.InFlight != 0 ||
				p.Buffers.Spare != OwnBuffers {
				r.t.Errorf("port %s: %+v though nothing is under way", p.Name, p.Buffers)
			}
			r.sums(&p)
		}
	}
}

// sums checks that the counts of the classes add up to those of the port.
func (r *rig) sums(p *PortSnapshot) {
	r.t.Helper()
	var frames, bytes, dropped uint64
	for class := range Priorities {
		in, out := p.ClassDrops(class)
		frames, bytes, dropped = frames+p.TX[class], bytes+p.TXClassBytes[class], dropped+in+out
	}
	if frames != p.TXFrames || bytes != p.TXBytes || dropped != p.Dropped() {
		r.t.Errorf("port %s: classes sent %d frames, %d bytes and dropped %d, the port %d, %d and %d",
			p.Name, frames, bytes, dropped, p.TXFrames, p.TXBytes, p.Dropped())
	}
}

// discardAll returns the buffers of frames that have arrived at the far end of a port's wire. It
// does not read the frames and does not allocate.
func (r *rig) discardAll(port int) {
	b := r.wires[port].B
	b.Complete(r.addrs[:])
	for _, d := range r.descs[:b.Receive(r.descs[:])] {
		r.addrs[0] = d.Addr
		b.Fill(r.addrs[:1])
	}
}
