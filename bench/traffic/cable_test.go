package traffic

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pmd"
)

const (
	testBuffer  = 2048
	testBuffers = 256

	macA = frame.MAC(0x0200_0000_000a)
	macB = frame.MAC(0x0200_0000_000b)

	gigabit = 1_000_000_000
)

// fakePort is one end of a cable. Frames that the host hands over wait in tx until the cable
// carries them.
type fakePort struct {
	memory []byte
	fill   []uint64
	rx, tx []pmd.Desc
	done   []uint64
	room   func() int // how many descriptors the next Fill or Transmit takes; nil: all
	held   bool       // the cable carries nothing from here
	missed int        // frames that found too few buffers
	part   int        // bytes of a frame that arrive in one buffer
}

func newFakePort() *fakePort {
	return &fakePort{
		memory: make([]byte, testBuffer*testBuffers),
		fill:   make([]uint64, 0, testBuffers),
		rx:     make([]pmd.Desc, 0, testBuffers),
		tx:     make([]pmd.Desc, 0, testBuffers),
		done:   make([]uint64, 0, testBuffers),
		part:   testBuffer - 256,
	}
}

func (p *fakePort) Fill(addrs []uint64) int {
	n := p.taken(len(addrs))
	p.fill = append(p.fill, addrs[:n]...)
	return n
}

func (p *fakePort) taken(n int) int {
	if p.room != nil {
		n = min(n, p.room())
	}
	return n
}

func (p *fakePort) Receive(burst []pmd.Desc) int {
	n := whole(burst[:copy(burst, p.rx)])
	p.rx = p.rx[:copy(p.rx, p.rx[n:])]
	return n
}

// whole returns how many descriptors of a burst belong to whole frames.
func whole(burst []pmd.Desc) int {
	n := len(burst)
	for n > 0 && burst[n-1].Options&pmd.Continued != 0 {
		n--
	}
	return n
}

func (p *fakePort) Transmit(burst []pmd.Desc) int {
	n := whole(burst[:p.taken(len(burst))])
	p.tx = append(p.tx, burst[:n]...)
	return n
}

func (p *fakePort) Complete(addrs []uint64) int {
	n := copy(addrs, p.done)
	p.done = p.done[:copy(p.done, p.done[n:])]
	return n
}

func (p *fakePort) Flush()           {}
func (p *fakePort) Waiting() int     { return len(p.rx) }
func (p *fakePort) Stats() pmd.Stats { return pmd.Stats{} }

// deliver receives a frame at an offset inside the buffers, as the kernel does.
func (p *fakePort) deliver(b []byte) {
	if len(p.fill)*p.part < len(b) {
		p.missed++
		return
	}
	for len(b) > 0 {
		addr := p.fill[len(p.fill)-1] + 256
		p.fill = p.fill[:len(p.fill)-1]
		d := pmd.Desc{Addr: addr, Len: uint32(copy(p.memory[addr:addr+uint64(p.part)], b))}
		if b = b[d.Len:]; len(b) > 0 {
			d.Options = pmd.Continued
		}
		p.rx = append(p.rx, d)
	}
}

// rig is two hosts joined by a cable without delay, in virtual time.
type rig struct {
	t            rapid.TB
	now          int64
	a, b         *Host
	portA, portB *fakePort
	tap          func(b []byte)          // sees what A sends
	fault        func(b []byte) [][]byte // returns what arrives of a frame that A sends; nil: the frame itself
}

func newRig(t rapid.TB, a, b Params) *rig {
	t.Helper()
	r := &rig{t: t, portA: newFakePort(), portB: newFakePort(), now: 1_000_000_007}
	a.MAC, b.MAC = macA, macB
	r.a, r.b = newHost(t, a, r.portA), newHost(t, b, r.portB)
	return r
}

func newHost(t rapid.TB, p Params, port *fakePort) *Host {
	t.Helper()
	p.Port, p.Memory, p.BufferSize, p.Buffers = port, port.memory, testBuffer, testBuffers
	if p.InFlight == 0 {
		p.InFlight = 64_000
	}
	h, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// step steps both hosts, carries the frames that they sent, and advances time by ns.
func (r *rig) step(ns int64) {
	r.a.Step(r.now)
	r.b.Step(r.now)
	r.carry(r.portA, r.portB, r.tap, r.fault)
	r.carry(r.portB, r.portA, nil, nil)
	r.now += ns
	r.conserved(r.a, r.portA)
	r.conserved(r.b, r.portB)
}

func (r *rig) carry(from, to *fakePort, tap func([]byte), fault func([]byte) [][]byte) {
	if from.held {
		return
	}
	bytes := line.NewWhole(from.memory)
	for rest := from.tx; len(rest) > 0; {
		parts := rest[:line.Parts(rest)]
		rest = rest[len(parts):]
		b := bytes.Frame(parts)
		if tap != nil {
			tap(b)
		}
		if fault == nil {
			to.deliver(b)
		} else {
			for _, b := range fault(b) {
				to.deliver(b)
			}
		}
		for _, d := range parts {
			from.done = append(from.done, d.Addr+uint64(d.Len)/2) // anywhere inside the buffer
		}
	}
	from.tx = from.tx[:0]
}

// conserved checks that every buffer is where its host believes it to be.
func (r *rig) conserved(h *Host, p *fakePort) {
	b := &h.buffers
	if len(b.Free)+b.InFill+b.InTX != testBuffers || b.InFill != len(p.fill)+len(p.rx) ||
		b.InTX != len(p.tx)+len(p.done) {
		r.t.Fatalf("buffers: free %d, fill %d (port: %d + %d), TX %d (port: %d), of %d",
			len(b.Free), b.InFill, len(p.fill), len(p.rx), b.InTX, len(p.tx)+len(p.done), testBuffers)
	}
}

// run steps for ns nanoseconds.
func (r *rig) run(ns, step int64) {
	for end := r.now + ns; r.now < end; {
		r.step(step)
	}
}

// settle stops both hosts and steps until neither has work.
func (r *rig) settle() {
	r.a.Stop()
	r.b.Stop()
	for i := 0; r.a.Step(r.now)+r.b.Step(r.now) > 0; i++ {
		r.step(1000)
		if i > 1000 {
			r.t.Fatal("hosts did not become idle")
		}
	}
	if !r.a.Finished() || !r.b.Finished() {
		r.t.Fatal("hosts are idle and not finished")
	}
	seen := map[uint64]bool{}
	for _, addr := range slices.Concat(r.a.buffers.Free, r.portA.fill) {
		if seen[addr] || addr%testBuffer != 0 {
			r.t.Fatalf("buffer %#x is held twice, or is none", addr)
		}
		seen[addr] = true
	}
}

func (r *rig) received(flow uint32) Received {
	r.t.Helper()
	for _, f := range r.b.Stats(r.now).Received {
		if f.ID == flow {
			return f
		}
	}
	r.t.Fatalf("nothing received of flow %d", flow)
	return Received{}
}

func mustAllocateNothing(t *testing.T, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(1000, f); n != 0 {
		t.Fatalf("%v allocations, want 0", n)
	}
}

// Finished reports whether every flow has sent all its frames and the port holds none of the host's
// frames.
func (h *Host) Finished() bool {
	for i := range h.flows {
		if h.flows[i].sent < h.flows[i].limit {
			return false
		}
	}
	return h.buffers.InTX == 0 && h.injectHead == h.injectTail && h.announcement == nil
}
