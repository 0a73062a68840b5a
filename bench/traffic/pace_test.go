package traffic

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pfc"
)

func TestSpansAddUpExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Uint64Range(1, 400*gigabit).Draw(t, "rate")
		size := rapid.IntRange(MinSize, MaxSize).Draw(t, "size")
		n := rapid.IntRange(0, 5000).Draw(t, "frames")
		var m line.Moment
		for range n {
			m = m.Add(line.WireTime(size, rate))
		}
		want := new(big.Int).Mul(big.NewInt(int64(n)), big.NewInt(int64(size+frame.WireOverhead)*8*1e9))
		want.Div(want, new(big.Int).SetUint64(rate))
		if want.Cmp(big.NewInt(m.NS)) != 0 {
			t.Fatalf("%d frames end at %d ns, want %v", n, m.NS, want)
		}
	})
}

// bucket models a line independently: a leaky bucket that drains at the line's speed.
type bucket struct {
	speed, level, total float64 // bit/s, bits, bits
	last                int64
	highest             float64
}

func (l *bucket) carry(now int64, size int) {
	bits := float64(size+24) * 8
	l.level = max(0, l.level-float64(now-l.last)*l.speed/1e9) + bits
	l.highest = max(l.highest, l.level)
	l.last = now
	l.total += bits
}

// drawRandom returns a source for values too numerous to draw one by one.
func drawRandom(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
}

func TestRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		speed := rapid.SampledFrom([]uint64{gigabit / 10, gigabit, 10 * gigabit, 100 * gigabit}).Draw(t, "speed")
		var flows []Flow
		shortest, longest, left := int64(1<<62), int64(0), speed/100*98
		for id := range rapid.IntRange(1, 5).Draw(t, "flows") {
			f := Flow{ID: uint32(id), Dst: macB, PCP: uint8(id), Size: rapid.IntRange(60, 1600).Draw(t, "size")}
			f.Rate = rapid.Uint64Range(speed/50, left-(4-uint64(id))*(speed/50)).Draw(t, "rate")
			left -= f.Rate
			shortest = min(shortest, line.WireTime(f.Size, speed).NS)
			longest = max(longest, line.WireTime(f.Size, f.Rate).NS)
			flows = append(flows, f)
		}
		catchUp := 40 * shortest
		r := newRig(t, Params{Speed: speed, Flows: flows, CatchUp: catchUp}, Params{Speed: speed})
		wire := bucket{speed: float64(speed), last: r.now}
		r.tap = func(b []byte) { wire.carry(r.now, len(b)) }
		random := drawRandom(t)
		start := r.now
		last := start
		for end := start + 150*longest; r.now < end; {
			last = r.now
			r.step(1 + random.Int64N(32*shortest))
		}
		for i, s := range r.a.Stats(r.now).Sent { // rounded down to whole ns, so a frame may be 1 ns early
			due := float64(last-start+1)*float64(flows[i].Rate)/float64(flows[i].Size+24)/8e9 + 1
			if n := float64(s.Frames); n > due || n < due*0.99-2 {
				t.Fatalf("flow %+v sent %v frames, %v were due", flows[i], n, due)
			}
		}
		if most := float64(catchUp)*wire.speed/1e9 + 1624*8 + 1; wire.highest > most {
			t.Fatalf("%v bits ahead of the line, at most %v allowed", wire.highest, most)
		}
	})
}

func TestFullLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		speed := rapid.SampledFrom([]uint64{gigabit, 10 * gigabit}).Draw(t, "speed")
		flows := []Flow{
			{ID: 0, Dst: macB, Size: 60},
			{ID: 1, Dst: macB, Size: rapid.IntRange(60, 1600).Draw(t, "size"), PCP: 3},
			{ID: 2, Dst: macB, Size: 60},
			{ID: 3, Dst: macB, Size: 60, Rate: speed / 50},
		}
		shortest := line.WireTime(60, speed).NS
		catchUp := 20 * shortest
		r := newRig(t, Params{Speed: speed, Flows: flows, CatchUp: catchUp}, Params{Speed: speed, Priorities: 0xff})
		wire := bucket{speed: float64(speed), last: r.now}
		r.tap = func(b []byte) { wire.carry(r.now, len(b)) }
		random := drawRandom(t)
		start := r.now
		for r.now < start+3000*shortest {
			if random.IntN(4) == 0 {
				r.a.Inject(pfc.Frame{Enable: 1})
			}
			r.step(1 + random.Int64N(16*shortest))
		}
		most := float64(catchUp)*wire.speed/1e9 + 1624*8 + 1
		if wire.highest > most {
			t.Fatalf("%v bits ahead of the line, at most %v allowed", wire.highest, most)
		}
		if full := float64(r.now-start) * wire.speed / 1e9; wire.total < 0.985*full {
			t.Fatalf("the line carried %v bits of %v", wire.total, full)
		}
		s := r.a.Stats(r.now).Sent
		if d := int64(s[0].Frames - s[1].Frames); d < -1 || d > 1 || s[0].Frames-s[2].Frames+1 > 2 {
			t.Fatalf("not round robin: %+v", s)
		}
		if due := uint64(3000 * shortest * int64(speed/50) / (84 * 8 * 1e9)); s[3].Frames < due-1 {
			t.Fatalf("slow flow beside full ones sent %d of %d frames", s[3].Frames, due)
		}
	})
}

// TestNoBurstAfterSilence: line time that passes while something other than the line holds frames
// back is not made up for.
func TestNoBurstAfterSilence(t *testing.T) {
	for name, silence := range map[string]func(r *rig, on bool){
		"paused": func(r *rig, on bool) {
			f := pfc.Frame{Enable: 8}
			if on {
				f.Quanta[3] = 65535
			}
			r.b.Inject(f)
		},
		"port takes none": func(r *rig, on bool) {
			r.portA.room = nil
			if on {
				r.portA.room = func() int { return 0 }
			}
		},
		"nothing completes": func(r *rig, on bool) {
			r.portA.held = on
		},
	} {
		r := newRig(t, Params{Speed: 10 * gigabit, Priorities: 8, InFlight: 2000,
			Flows: []Flow{{ID: 1, Dst: macB, Size: 60, PCP: 3}}}, Params{Speed: 10 * gigabit})
		r.run(5000, grid)
		silence(r, true)
		r.run(50_000, grid)
		before := r.a.flows[0].sent
		r.run(10_000, grid)
		if n := r.a.flows[0].sent - before; n != 0 {
			t.Errorf("%s: %d frames in silence", name, n)
		}
		silence(r, false)
		before = r.a.flows[0].sent
		r.run(1200, grid)                                      // some take a Step or two until A notices
		if n := r.a.flows[0].sent - before; n < 14 || n > 18 { // 67.2 ns each
			t.Errorf("%s: %d frames in the first 1.2 µs afterwards, want 14 to 18", name, n)
		}
	}
}

// TestRefusedFramesUseNoLine: frames that the port did not take are not made up for in a burst.
func TestRefusedFramesUseNoLine(t *testing.T) {
	r := newRig(t, Params{Speed: 10 * gigabit, Flows: []Flow{{ID: 1, Dst: macB, Size: 60}}},
		Params{Speed: 10 * gigabit})
	r.run(1000, grid)
	r.now += 3000 // 45 frames
	r.portA.room = func() int { return 0 }
	r.step(1000)
	r.portA.room = nil
	before := r.a.flows[0].sent
	r.step(0)
	if n := r.a.flows[0].sent - before; n < 14 || n > 16 {
		t.Errorf("%d frames a microsecond after a refusal, want 15", n)
	}
}

// TestCatchUpIsBounded: after a stall a host makes up for CatchUp and no more.
func TestCatchUpIsBounded(t *testing.T) {
	r := newRig(t, Params{Speed: gigabit, CatchUp: 10_000, Flows: []Flow{{ID: 1, Dst: macB, Size: 60}}},
		Params{Speed: gigabit})
	r.run(5000, 100)
	frames := 0
	r.tap = func(b []byte) { frames++ }
	r.now += 10_000_000
	r.step(0)
	if frames < 14 || frames > 16 { // 672 ns each
		t.Fatalf("%d frames after 10 ms of standstill, want 15", frames)
	}
}

func TestInjectedFramesGoFirst(t *testing.T) {
	r := newRig(t, Params{Speed: gigabit, Flows: []Flow{{ID: 1, Dst: macB, Size: 60}}}, Params{Speed: gigabit})
	r.run(100_000, 1000)
	want := pfc.Frame{Enable: 0x21, Quanta: [8]uint16{0: 0x4321, 5: 0x1234}}
	for i := range injectMost {
		if !r.a.Inject(want) {
			t.Fatalf("queue full after %d frames", i)
		}
	}
	if r.a.Inject(want) {
		t.Fatalf("%d frames fitted the queue", injectMost+1)
	}
	n := 0
	r.tap = func(b []byte) {
		var f pfc.Frame
		if kind, _ := pfc.Decode(b, &f); n < injectMost &&
			(kind != pfc.PFC || f != want || frame.MACFrom(b[6:]) != macA) {
			t.Errorf("frame %d on the wire is % x", n, b)
		}
		n++
	}
	r.step(500)
	if n > 2 { // 672 ns each
		t.Errorf("%d frames at once", n)
	}
	r.run(20_000, 500)
	if n < injectMost || r.a.Stats(r.now).Injected != injectMost {
		t.Fatalf("%d frames sent", n)
	}
}
