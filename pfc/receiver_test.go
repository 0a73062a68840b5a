package pfc

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

const gigabit = 1_000_000_000

// speeds in bit/s; the last one divides nothing.
var speeds = []uint64{
	10_000_000, gigabit, 2_500_000_000, 10 * gigabit, 25 * gigabit, 100 * gigabit, 400 * gigabit, 999_999_937,
}

// exact returns quanta at speed in ns as a fraction.
func exact(quanta uint16, speed uint64) *big.Rat {
	bits := new(big.Int).SetUint64(uint64(quanta) * 512 * 1_000_000_000)
	return new(big.Rat).SetFrac(bits, new(big.Int).SetUint64(speed))
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ceil(r *big.Rat) int64 { return -floor(new(big.Rat).Neg(r)) }

func newReceiver(t interface{ Fatal(...any) }, enabled uint8, speed uint64) *Receiver {
	r, err := NewReceiver(ReceiverParams{Priorities: enabled, Speed: speed})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tell returns a frame for one priority.
func tell(n int, quanta uint16) *Frame {
	f := &Frame{Enable: 1 << n}
	f.Quanta[n] = quanta
	return f
}

func TestReceiverNeedsSpeed(t *testing.T) {
	if _, err := NewReceiver(ReceiverParams{Priorities: 0xff}); err == nil {
		t.Error("speed 0 accepted")
	}
}

// TestPauseLength has pause times from documents on lossless Ethernet as golden values.
func TestPauseLength(t *testing.T) {
	for _, c := range []struct {
		quanta uint16
		speed  uint64
		ns     int64
	}{
		{100, gigabit, 51_200},
		{100, 10 * gigabit, 5_120},
		{100, 100 * gigabit, 512},
		{1, gigabit, 512},
		{1, 10 * gigabit, 52},  // 51.2
		{1, 100 * gigabit, 6},  // 5.12
		{1, 1000 * gigabit, 1}, // 0.512
		{65535, gigabit, 33_553_920},
		{65535, 10 * gigabit, 3_355_392},
		{65535, 25 * gigabit, 1_342_157}, // 1,342,156.8
		{65535, 100 * gigabit, 335_540},  // 335,539.2
		{65535, 1, 65535 * 512 * 1_000_000_000},
	} {
		for _, start := range []int64{0, 1_234_567, -1_000_000_000} {
			r := newReceiver(t, 0x08, c.speed)
			if r.Paused(start) != 0 {
				t.Errorf("paused at the start")
			}
			r.Receive(start, tell(3, c.quanta))
			for _, at := range []int64{0, c.ns / 2, c.ns - 1} {
				if r.Paused(start+at) != 0x08 {
					t.Errorf("%d quanta at %d bit/s: not paused after %d ns of %d", c.quanta, c.speed, at, c.ns)
				}
			}
			if r.Paused(start+c.ns) != 0 {
				t.Errorf("%d quanta at %d bit/s: still paused after %d ns", c.quanta, c.speed, c.ns)
			}
			if got := r.Stats(start + c.ns + 1000).PausedNS[3]; got != c.ns {
				t.Errorf("%d quanta at %d bit/s: paused %d ns, want %d", c.quanta, c.speed, got, c.ns)
			}
		}
	}
}

// TestRefresh: 100 quanta count from each frame on, and the refresh is part of the same pause.
func TestRefresh(t *testing.T) {
	const start, refresh, quanta100 = 1000, 40_000, 51_200
	r := newReceiver(t, 0xff, gigabit)
	r.Receive(start, tell(3, 100))
	r.Receive(start+refresh, tell(3, 100))
	for _, at := range []int64{refresh, quanta100, refresh + quanta100 - 1} {
		if r.Paused(start+at) != 0x08 {
			t.Errorf("not paused %d ns after the first of two frames", at)
		}
	}
	if r.Paused(start+refresh+quanta100) != 0 {
		t.Error("still paused 100 quanta after the refresh")
	}
	if s := r.Stats(1e9); s.PausedNS[3] != refresh+quanta100 || s.Transitions[3] != 1 || s.LastPause[3] != start {
		t.Errorf("stats %+v", s)
	}
}

// TestTenFrames: each frame counts once, and only for the priority that it names.
func TestTenFrames(t *testing.T) {
	r := newReceiver(t, 0xff, gigabit)
	for i := range int64(10) {
		r.Receive(i*1000, tell(3, 100))
	}
	s := r.Stats(10_000)
	if s.Frames != 10 || s.XOFF != [8]uint64{3: 10} || s.XON != [8]uint64{} || s.Ignored != [8]uint64{} ||
		s.Transitions != [8]uint64{3: 1} || s.PausedNS != [8]int64{3: 10_000} {
		t.Errorf("stats %+v", s)
	}
}

// TestSeveralPriorities: one frame may pause some priorities for different times, resume another,
// and leave the rest unchanged.
func TestSeveralPriorities(t *testing.T) {
	r := newReceiver(t, 0xff, gigabit)
	r.Receive(0, &Frame{Enable: 0x60, Quanta: [8]uint16{5: 1000, 6: 1000}})
	r.Receive(100, &Frame{Enable: 0x27, Quanta: [8]uint16{0: 1, 1: 3, 2: 2, 5: 0, 7: 9}})
	for _, c := range []struct {
		at   int64
		want uint8
	}{{100, 0x47}, {100 + 512, 0x46}, {100 + 2*512, 0x42}, {100 + 3*512, 0x40}, {1000 * 512, 0}} {
		if got := r.Paused(c.at); got != c.want {
			t.Errorf("at %d: paused %08b, want %08b", c.at, got, c.want)
		}
	}
}

// TestReceivedPause: a PAUSE frame from the wire stops and resumes all eight priorities.
func TestReceivedPause(t *testing.T) {
	r := newReceiver(t, 0xff, gigabit)
	var f Frame
	Decode(goldenPause, &f)
	r.Receive(0, &f)
	if r.Paused(0x203*512-1) != 0xff || r.Paused(0x203*512) != 0 {
		t.Error("the pause did not end for all priorities after 0x203 quanta")
	}
	r.Receive(1_000_000, &f)
	Decode(bytesOf("0180c2000001 02005e100001 8808 0001 0000"), &f)
	if r.Receive(1_000_100, &f); r.Paused(1_000_100) != 0 {
		t.Error("PAUSE with time 0 did not resume")
	}
}

func TestShorterValueShortens(t *testing.T) {
	r := newReceiver(t, 0xff, gigabit)
	r.Receive(0, tell(3, 1000))
	r.Receive(100, tell(3, 1))
	if r.Paused(611) != 0x08 || r.Paused(612) != 0 {
		t.Error("the pause did not end 512 ns after the second frame")
	}
	s := r.Stats(10_000)
	if s.PausedNS[3] != 612 || s.XOFF[3] != 2 || s.Transitions[3] != 1 || s.LastPause[3] != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestLongerValueLengthens(t *testing.T) {
	r := newReceiver(t, 0xff, gigabit)
	r.Receive(0, tell(3, 1))
	r.Receive(100, tell(3, 1000))
	if r.Paused(512_099) != 0x08 || r.Paused(512_100) != 0 {
		t.Error("the pause did not end 512 us after the second frame")
	}
}

func TestXONResumesAtOnce(t *testing.T) {
	r := newReceiver(t, 0xff, gigabit)
	r.Receive(0, &Frame{Enable: 0x18, Quanta: [8]uint16{3: 65535, 4: 65535}})
	r.Receive(77, tell(3, 0))
	if got := r.Paused(77); got != 0x10 {
		t.Errorf("paused %08b, want only priority 4", got)
	}
	s := r.Stats(1000)
	if s.PausedNS[3] != 77 || s.PausedNS[4] != 1000 || s.XON[3] != 1 || s.XON[4] != 0 {
		t.Errorf("stats %+v", s)
	}
	r.Receive(1000, tell(3, 0)) // resumes a running priority: counted, without effect
	if s := r.Stats(2000); s.PausedNS[3] != 77 || s.XON[3] != 2 || s.Transitions[3] != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestBitClearLeavesAlone(t *testing.T) {
	r := newReceiver(t, 0xff, gigabit)
	r.Receive(0, tell(3, 10))
	r.Receive(100, &Frame{Enable: 0x01, Quanta: [8]uint16{0: 1, 3: 0, 5: 99}})
	if got := r.Paused(100); got != 0x09 {
		t.Errorf("paused %08b, want priorities 0 and 3", got)
	}
	r.Receive(200, &Frame{Quanta: [8]uint16{3: 1000}})
	if r.Paused(5119) != 0x08 || r.Paused(5120) != 0 {
		t.Error("priority 3's pause changed")
	}
	if s := r.Stats(6000); s.Frames != 3 || s.XON != [8]uint64{} || s.XOFF != [8]uint64{0: 1, 3: 1} ||
		s.Ignored != [8]uint64{} {
		t.Errorf("stats %+v", s)
	}
}

func TestPriorityWithoutPFCIgnores(t *testing.T) {
	r := newReceiver(t, 0x08, gigabit)
	r.Receive(0, &Frame{Enable: 0xff, Quanta: [8]uint16{1, 1, 1, 1, 0, 1, 1, 1}})
	if got := r.Paused(0); got != 0x08 {
		t.Errorf("paused %08b, want only priority 3", got)
	}
	s := r.Stats(0)
	if s.Ignored != [8]uint64{1, 1, 1, 0, 1, 1, 1, 1} || s.XOFF != [8]uint64{3: 1} || s.XON != [8]uint64{} {
		t.Errorf("stats %+v", s)
	}
}

// TestTransitions: XOFF during a pause lengthens it; XOFF after its end, noticed or not, begins a
// new one.
func TestTransitions(t *testing.T) {
	r := newReceiver(t, 0xff, gigabit)
	r.Receive(0, tell(2, 1))
	r.Receive(511, tell(2, 1))
	r.Receive(511+512, tell(2, 1))
	s := r.Stats(511 + 512)
	if s.Transitions[2] != 2 || s.LastPause[2] != 511+512 || s.XOFF[2] != 3 || s.PausedNS[2] != 511+512 {
		t.Errorf("stats %+v", s)
	}
}

// receiverModel keeps every pause as an interval.
type receiverModel struct {
	params ReceiverParams
	pauses [8][]interval
	stats  ReceiverStats
}

// interval is the time from from (included) to to (excluded).
type interval struct{ from, to int64 }

func (m *receiverModel) pausedAt(n int, at int64) bool {
	for _, p := range m.pauses[n] {
		if p.from <= at && at < p.to {
			return true
		}
	}
	return false
}

func (m *receiverModel) receive(now int64, f Frame) {
	m.stats.Frames++
	for n := range 8 {
		switch {
		case f.Enable>>n&1 == 0:
			continue
		case m.params.Priorities>>n&1 == 0:
			m.stats.Ignored[n]++
			continue
		case f.Quanta[n] == 0:
			m.stats.XON[n]++
		default:
			m.stats.XOFF[n]++
			if !m.pausedAt(n, now) {
				m.stats.Transitions[n]++
				m.stats.LastPause[n] = now
			}
		}
		for i := range m.pauses[n] {
			m.pauses[n][i].to = min(m.pauses[n][i].to, now)
		}
		m.pauses[n] = append(m.pauses[n], interval{now, now + ceil(exact(f.Quanta[n], m.params.Speed))})
	}
}

func (m *receiverModel) paused(now int64) (mask uint8) {
	for n := range 8 {
		if m.pausedAt(n, now) {
			mask |= 1 << n
		}
	}
	return mask
}

func (m *receiverModel) statsAt(now int64) ReceiverStats {
	s := m.stats
	for n, pauses := range m.pauses {
		for _, p := range pauses {
			s.PausedNS[n] += min(p.to, now) - p.from
		}
	}
	return s
}

// drawLater draws a time at or after now: near the end of a pause, or within two of the longest
// pauses.
func (m *receiverModel) drawLater(t *rapid.T, now int64) int64 {
	if pauses := m.pauses[rapid.IntRange(0, 7).Draw(t, "end of priority")]; len(pauses) > 0 &&
		rapid.Bool().Draw(t, "near an end") {
		return max(now, pauses[len(pauses)-1].to+rapid.Int64Range(-1, 1).Draw(t, "off"))
	}
	longest := ceil(exact(65535, m.params.Speed))
	return now + rapid.Int64Range(0, 2*longest).Draw(t, "ns")
}

func TestReceiverModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ReceiverParams{Priorities: rapid.Uint8().Draw(t, "enabled"),
			Speed: rapid.SampledFrom(speeds).Draw(t, "speed")}
		r, m := newReceiver(t, p.Priorities, p.Speed), receiverModel{params: p}
		now := rapid.Int64Range(-1e12, 1e12).Draw(t, "start")
		var log journal
		t.Repeat(map[string]func(*rapid.T){
			"receive": func(t *rapid.T) {
				f := drawFrame(t)
				r.Receive(now, &f)
				m.receive(now, f)
			},
			"resume": func(t *rapid.T) {
				f := Frame{Enable: rapid.Uint8().Draw(t, "enable")}
				r.Receive(now, &f)
				m.receive(now, f)
			},
			"wait": func(t *rapid.T) {
				now = m.drawLater(t, now)
			},
			"take over": func(t *rapid.T) { // same parameters: nothing changes
				next := newReceiver(t, p.Priorities, p.Speed)
				next.TakeOver(now, r)
				r = next
			},
			"look": func(t *rapid.T) { // not after every step: Paused need not be called before the next frame
				if got, want := r.Paused(now), m.paused(now); got != want {
					t.Fatalf("at %d paused %08b, want %08b", now, got, want)
				}
			},
			"": func(t *rapid.T) {
				got, want := r.Stats(now), m.statsAt(now)
				log.follow(t, now, &got.History)
				if ns := log.pausedNS(now); ns != want.PausedNS {
					t.Fatalf("at %d: paused %d ns by the history, want %d", now, ns, want.PausedNS)
				}
				if mask := log.paused(now); mask != m.paused(now) {
					t.Fatalf("at %d: paused %08b by the history, want %08b", now, mask, m.paused(now))
				}
				got.History = History[Transition]{} // checked above
				if got != want {
					t.Fatalf("at %d\n%+v, want\n%+v", now, got, want)
				}
			},
		})
	})
}

func TestReceiverAllocatesNothing(t *testing.T) {
	r := newReceiver(t, 0xff, gigabit)
	var now int64
	if allocs := testing.AllocsPerRun(100, func() {
		now += 100
		r.Receive(now, tell(3, 1))
		r.Paused(now + 700)
		r.Stats(now + 700)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkPaused(b *testing.B) {
	b.Run("none", func(b *testing.B) {
		r := newReceiver(b, 0xff, gigabit)
		for now := int64(0); b.Loop(); now++ {
			r.Paused(now)
		}
	})
	b.Run("one", func(b *testing.B) {
		r := newReceiver(b, 0xff, 1)
		r.Receive(0, tell(3, 65535))
		for now := int64(0); b.Loop(); now++ {
			r.Paused(now)
		}
	})
}

func BenchmarkReceive(b *testing.B) {
	for name, f := range map[string]*Frame{
		"one":   tell(3, 65535),
		"eight": {Enable: 0xff, Quanta: [8]uint16{1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		b.Run(name, func(b *testing.B) {
			r := newReceiver(b, 0xff, 10*gigabit)
			for now := int64(0); b.Loop(); now += 1000 {
				r.Receive(now, f)
			}
		})
	}
}

func TestReceiverReset(t *testing.T) {
	r := newReceiver(t, 0xff, gigabit)
	r.Receive(0, tell(3, 100))
	r.Reset(1000)
	if p := r.Paused(1000); p != 0 {
		t.Errorf("paused %#x after Reset", p)
	}
	if s := r.Stats(50_000); s.PausedNS[3] != 1000 || s.Frames != 1 {
		t.Errorf("after Reset: %d ns paused and %d frames, want 1000 and 1", s.PausedNS[3], s.Frames)
	}
}

// TestResumed: XON resumes, and so does a pause that runs out before XOFF, unless the partner had
// asked for enough time.
func TestResumed(t *testing.T) {
	const pause = 51_200 // ns of 1000 quanta at 10 Gbit/s
	type events []struct {
		at     int64
		quanta uint16
	}
	const reset, takeOver = 1, 2
	for name, c := range map[string]struct {
		before events
		do     int // after that
		then   events
		want   uint8
	}{
		"XOFF again":         {events{{0, 1000}}, 0, events{{pause - 1, 1000}}, 0},
		"XOFF at the end":    {events{{0, 1000}}, 0, events{{pause, 1000}}, 0},
		"XOFF after the end": {events{{0, 1000}}, 0, events{{pause + 1, 1000}}, 8},
		"the end":            {events{{0, 1000}}, 0, nil, 0},
		"XON":                {events{{0, 1000}}, 0, events{{20, 0}}, 8},
		"XON and XOFF":       {events{{0, 1000}}, 0, events{{20, 0}, {20, 1000}}, 8},
		"repeated, late":     {events{{0, 1000}, {pause / 2, 1000}}, 0, events{{2 * pause, 1000}}, 0},
		"repeated, later":    {events{{0, 1000}, {pause / 2, 1000}}, 0, events{{2*pause + 1, 1000}}, 8},
		"repeated, then XON": {events{{0, 1000}, {1, 1000}, {2, 0}, {2, 1000}}, 0, events{{pause + 3, 1000}}, 8},
		"link down":          {events{{0, 1000}, {1, 1000}}, reset, events{{pause + 3, 1000}}, 8},
		"reload":             {events{{0, 1000}, {1, 1000}}, takeOver, events{{pause + 3, 1000}}, 0},
		"XON, reload":        {events{{0, 1000}}, takeOver, events{{20, 0}}, 8},
	} {
		r := newReceiver(t, 0xff, 10*gigabit)
		receive := func(all events) {
			for _, e := range all {
				r.Receive(e.at, tell(3, e.quanta))
			}
		}
		replace := func(now int64) {
			old := r
			r = newReceiver(t, 0xff, gigabit)
			r.TakeOver(now, old)
		}
		receive(c.before)
		r.Resumed()
		switch c.do {
		case reset:
			r.Reset(10)
		case takeOver:
			replace(10)
		}
		receive(c.then)
		replace(3 * pause)
		if got := r.Resumed(); got != c.want {
			t.Errorf("%s: resumed %08b, want %08b", name, got, c.want)
		}
		if r.Resumed() != 0 {
			t.Errorf("%s: reported twice", name)
		}
	}
}
