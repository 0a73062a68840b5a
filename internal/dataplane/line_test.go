package dataplane

import (
	"math/rand/v2"
	"testing"

	"sluice/cells"
	"sluice/cells/headroom"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
)

// lines is a switch whose partners send at line rate, and stop as soon as they are sent XOFF, in
// virtual time.
type lines struct {
	t       *testing.T
	now     int64
	s       *Switch
	wires   []*mem.Wire
	memory  []byte    // of the partners: each has 64 buffers to receive into, and one to send from
	free    []int64   // ps, by port: when the partner's line is free
	stopped []uint8   // by port: priorities that the partner was told to stop
	got     [][16]int // frames received, by port and by their ingress port
	every   int64     // ns between iterations; roughly, if there are several workers
	rng     *rand.Rand
	next    []int64 // ns, by worker: when its next iteration is due
}

const partnerBuffers = 65

func newLines(t *testing.T, ports int, every int64, configure func(*Params)) *lines {
	t.Helper()
	memory, err := umem.Map(32768, bufferSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	p := Params{Memory: memory, CellSize: 160, Workers: 1}
	for i := range ports {
		q := testPort(i, 0)
		q.Sched.Burst, q.Buffers, q.Generator.Quanta = 200_000, 1024, 65535
		q.Cells.Groups[0], q.Cells.Queues[0] = cells.GroupParams{Share: 2000}, cells.QueueParams{Limit: 1000}
		p.Ports = append(p.Ports, q)
		p.Bridge.Ports = append(p.Bridge.Ports, bridge.PortParams{})
	}
	configure(&p)
	x := &lines{t: t, every: every, rng: rand.New(rand.NewPCG(1, 0)),
		memory: make([]byte, ports*partnerBuffers*bufferSize)}
	if x.s, err = NewSwitch(p); err != nil {
		t.Fatal(err)
	}
	x.next = make([]int64, p.Workers)
	x.free, x.stopped, x.got = make([]int64, ports), make([]uint8, ports), make([][16]int, ports)
	plan := &Plan{}
	for i := range ports {
		w, err := mem.NewWire(mem.Params{Rate: speed, Delay: 100, Ring: 4096},
			mem.End{Memory: memory.Bytes(), Buffer: bufferSize}, mem.End{Memory: x.memory, Buffer: bufferSize})
		if err != nil {
			t.Fatal(err)
		}
		for n := range partnerBuffers - 1 {
			w.B.Fill([]uint64{uint64((i*partnerBuffers + n) * bufferSize)})
		}
		w.A.Fill(x.s.Parked(i))
		x.wires = append(x.wires, w)
		plan.Links = append(plan.Links, Link{Driver: w.A, Up: true, TXRing: 2048})
	}
	x.s.Publish(plan)
	for i := range ports {
		b := data(i, i, 1, 60, 0)
		frame.Broadcast.Put(b)
		x.send(i, b)
	}
	x.run(20_000, nil)
	return x
}

func (x *lines) send(port int, b []byte) {
	x.t.Helper()
	addr := uint64(((port+1)*partnerBuffers - 1) * bufferSize)
	copy(x.memory[addr:], b)
	if x.wires[port].B.Transmit([]pmd.Desc{{Addr: addr, Len: uint32(len(b))}}) != 1 {
		x.t.Fatal("the wire takes no more")
	}
	x.free[port] = max(x.free[port], x.now*1000) + int64(len(b)+24)*800
}

// fill makes a partner send copies of a frame at line rate until 100 ns from now, unless it was
// told to stop the frame's priority.
func (x *lines) fill(port int, priority uint8, b []byte) {
	for x.stopped[port]>>priority&1 == 0 && x.free[port] < (x.now+100)*1000 {
		x.send(port, b)
	}
}

// pause makes a partner pause the lossless priority, or resume it.
func (x *lines) pause(port int, quanta uint16) {
	b := make([]byte, pfc.FrameLength)
	f := pfc.Frame{Enable: 1 << lossless}
	f.Quanta[lossless] = quanta
	f.Put(b, [6]byte{2, 0, 0, 0, 0, byte(port)})
	x.send(port, b)
}

// run lets ns pass in steps of 100 ns. It calls do before each step, and ends early when do returns
// true.
func (x *lines) run(ns int64, do func() (enough bool)) {
	for end := x.now + ns; x.now < end; {
		if do != nil && do() {
			return
		}
		x.now += 100
		for _, w := range x.wires {
			w.Advance(x.now)
		}
		for i, w := range x.s.Workers {
			if x.now < x.next[i] {
				continue
			}
			w.Step(x.now)
			x.next[i] = x.now + x.every
			if len(x.s.Workers) > 1 { // so that they don't run in step
				x.next[i] += x.rng.Int64N(2*x.every) - x.every/2
			}
		}
		for i := range x.wires {
			x.collect(i)
		}
	}
}

// collect takes the frames that have arrived at a partner.
func (x *lines) collect(port int) {
	var d [64]pmd.Desc
	var done [64]uint64
	b := x.wires[port].B
	b.Complete(done[:])
	for _, d := range d[:b.Receive(d[:])] {
		var h frame.Header
		var f pfc.Frame
		bytes := x.memory[d.Addr : d.Addr+uint64(d.Len)]
		if kind, _ := pfc.Decode(bytes, &f); kind == pfc.PFC {
			for n := range f.Quanta {
				if f.Enable>>n&1 == 1 {
					x.stopped[port] &^= 1 << n
					if f.Quanta[n] > 0 {
						x.stopped[port] |= 1 << n
					}
				}
			}
		} else if frame.Parse(bytes, &h) == frame.OK && h.Src >= station0(0) && h.Src < station0(16) {
			x.got[port][h.Src-station0(0)]++
		}
		b.Fill([]uint64{d.Addr})
	}
}

// port returns the state of a port.
func (x *lines) port(number int) PortSnapshot {
	for _, w := range x.s.Workers {
		for _, p := range w.Look(x.now).Ports {
			if p.Number == number {
				return p
			}
		}
	}
	x.t.Fatalf("no port %d", number)
	return PortSnapshot{}
}

// losslessLost returns how many lossless frames of a port were lost in the switch or in the driver.
func (x *lines) losslessLost(port int) uint64 {
	p := x.port(port)
	return p.LosslessDrops() + x.wires[port].A.Stats().Lost()
}

// roomFor returns the headroom, in cells, of a port with this gap and this many bytes in flight.
func roomFor(t *testing.T, gap int64, inFlight int) int {
	t.Helper()
	r, err := headroom.Compute(headroom.Measured, headroom.Params{
		Speed: speed, MTUOwn: 1522, MTUPeer: 1522, Metres: 20, Cell: 160, Unstored: 4,
		OwnGap: gap, OwnInFlight: inFlight, OwnControl: ControlAhead(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Cells
}
