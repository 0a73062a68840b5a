package traffic

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/pmd"
	"sluice/pmd/mem"
)

// TestFramesOfSeveralParts joins two hosts by a wire on which frames arrive in up to six parts,
// with rings too short for some bursts. The sink receives every frame whole, with all its bytes, or
// the wire has counted it as lost; no buffer is missing.
func TestFramesOfSeveralParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size, buffers = 2048, 128
		mtu := 9216
		part := rapid.SampledFrom([]int{0, 1540, 1664, 1800}).Draw(t, "part")
		if part == 0 {
			mtu = 1500
		}
		longest := mtu + ethernetLength
		p := mem.Params{Rate: 10 * gigabit, MTU: mtu, Part: part, Ring: buffers / 2,
			RXRing: rapid.SampledFrom([]int{8, 20, buffers / 2}).Draw(t, "RX ring")}
		end := func() mem.End { return mem.End{Memory: make([]byte, size*buffers), Buffer: size} }
		a, b := end(), end()
		w, err := mem.NewWire(p, a, b)
		if err != nil {
			t.Fatal(err)
		}
		newEnd := func(e mem.End, port pmd.Port, p Params) *Host {
			p.Port, p.Memory, p.BufferSize, p.Buffers = port, e.Memory, size, buffers
			p.Speed, p.InFlight = 10*gigabit, 128<<10
			h, err := New(p)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		flow := Flow{ID: 1, Dst: macB, PCP: 3, Count: rapid.Uint64Range(1, 60).Draw(t, "count"),
			Sizes: rapid.SliceOfN(rapid.IntRange(MinSize, longest), 1, 6).Draw(t, "sizes")}
		bursts := rapid.IntRange(1, 64)
		portA, portB := &countingPort{Port: w.A}, &countingPort{Port: w.B}
		source := newEnd(a, portA, Params{MAC: macA, Flows: []Flow{flow}, Burst: bursts.Draw(t, "burst of the source")})
		burst := bursts.Draw(t, "burst of the sink")
		sink := newEnd(b, portB, Params{MAC: macB, Burst: burst})

		pause := rapid.SampledFrom([]int64{1, 10, 40}).Draw(t, "µs between steps of the sink") * 1000
		now := int64(1_000_000)
		for next := now; now < 5_000_000; now += 1000 {
			source.Step(now)
			if now >= next {
				sink.Step(now)
				next = now + pause
			}
			w.Advance(now)
		}
		checkConserved(t, source, buffers, portA)
		checkConserved(t, sink, buffers, portB)
		if !source.Finished() {
			t.Fatal("the source has not finished")
		}
		sent, stats := source.Stats(now).Sent[0], sink.Stats(now)
		lost := w.B.Stats().RXDropped + w.B.Stats().RXRingFull
		received := uint64(0)
		for _, f := range stats.Received {
			received += f.Frames
			if f.Reordered+f.Duplicates > 0 {
				t.Fatalf("%+v", f)
			}
		}
		if stats.Corrupt+stats.Others > 0 || sent.Frames != flow.Count || received+lost != sent.Frames {
			t.Fatalf("sent %d frames, received %d, lost %d; corrupt %d, others %d", sent.Frames, received, lost,
				stats.Corrupt, stats.Others)
		}
		if burst >= 16 && p.RXRing == buffers/2 && pause == 1000 && lost > 0 { // 15 frames fit 1 µs
			t.Fatalf("lost %d frames with time and room for all", lost)
		}
	})
}

// countingPort counts the buffers that a port has for reception.
type countingPort struct {
	*mem.Port
	filled int
}

func (p *countingPort) Fill(addrs []uint64) int {
	n := p.Port.Fill(addrs)
	p.filled += n
	return n
}

func (p *countingPort) Receive(burst []pmd.Desc) int {
	n := p.Port.Receive(burst)
	p.filled -= n
	return n
}

// checkConserved checks that a host at rest has all its buffers: free, or in the fill ring.
func checkConserved(t *rapid.T, h *Host, buffers int, port *countingPort) {
	t.Helper()
	b := &h.buffers
	if len(b.Free)+b.InFill != buffers || b.InFill != port.filled || b.InTX != 0 || port.Waiting() != 0 {
		t.Fatalf("buffers: free %d, in the fill ring %d (port: %d), sent %d, of %d; %d wait", len(b.Free), b.InFill,
			port.filled, b.InTX, buffers, port.Waiting())
	}
}
