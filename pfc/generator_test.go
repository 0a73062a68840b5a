package pfc

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func newGenerator(t interface{ Fatal(...any) }, p GeneratorParams) *Generator {
	g, err := NewGenerator(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// frameDue is Due for tests that compare the frame.
func frameDue(g *Generator, now int64, congested uint8) (f Frame, due bool) {
	due = g.Due(now, congested, &f)
	return f, due
}

// tenGigabit pauses for 3,355,392 ns and refreshes after 1,677,696 ns.
var tenGigabit = GeneratorParams{Priorities: 0x18, Quanta: 65535, Speed: 10 * gigabit}

// expect checks what is due, and sends it if want is a frame (Enable is not 0).
func expect(t *testing.T, g *Generator, now int64, congested uint8, want Frame) {
	t.Helper()
	before := *g
	f, ok := frameDue(g, now, congested)
	if *g != before {
		t.Errorf("at %d: Due changed the generator", now)
	}
	if ok != (want.Enable != 0) || f != want {
		t.Errorf("at %d: due %v %+v, want %+v", now, ok, f, want)
	}
	if ok {
		g.Sent(now, &f)
	}
}

func TestGeneratorParams(t *testing.T) {
	for name, p := range map[string]GeneratorParams{
		"no speed":                 {Quanta: 65535},
		"no quanta":                {Speed: gigabit},
		"refresh at the end":       {Quanta: 100, Refresh: 100, Speed: gigabit},
		"refresh after the end":    {Quanta: 100, Refresh: 101, Speed: gigabit},
		"refresh every nanosecond": {Quanta: 1, Speed: 400 * gigabit},
	} {
		if _, err := NewGenerator(p); err == nil {
			t.Errorf("%s accepted", name)
		}
	}
	newGenerator(t, GeneratorParams{Quanta: 2, Refresh: 1, Speed: gigabit})
	newGenerator(t, GeneratorParams{Quanta: 1, Speed: gigabit})
}

func TestRefreshAtHalf(t *testing.T) {
	for _, c := range []struct {
		quanta, refresh uint16
		speed           uint64
		ns              int64
	}{
		{65535, 0, gigabit, 16_776_960},
		{65535, 0, 10 * gigabit, 1_677_696},
		{65535, 0, 100 * gigabit, 167_769},     // 167,769.6
		{65535, 65534, 100 * gigabit, 335_534}, // 335,534.08
		{1000, 100, 10 * gigabit, 5_120},
		{3, 0, gigabit, 768},
	} {
		g := newGenerator(t, GeneratorParams{Priorities: 1, Quanta: c.quanta, Refresh: c.refresh, Speed: c.speed})
		xoff := *tell(0, c.quanta)
		expect(t, g, 0, 1, xoff)
		for _, start := range []int64{0, c.ns, 2 * c.ns} {
			expect(t, g, start, 1, Frame{})
			expect(t, g, start+c.ns-1, 1, Frame{})
			expect(t, g, start+c.ns, 1, xoff)
		}
		if s := g.Stats(3 * c.ns); s.Frames != 4 || s.XOFF[0] != 1 || s.Refreshes[0] != 3 || s.XON[0] != 0 ||
			s.Lapses[0] != 0 {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}

func TestXOFFAndXON(t *testing.T) {
	g := newGenerator(t, tenGigabit)
	expect(t, g, 0, 0, Frame{})
	expect(t, g, 10, 0x08, *tell(3, 65535))
	expect(t, g, 20, 0x08, Frame{})
	expect(t, g, 30, 0, *tell(3, 0))
	expect(t, g, 1e12, 0, Frame{}) // nothing to refresh
	if g.next != never {
		t.Error("idle, but each Due looks for refreshes")
	}
	if s := g.Stats(1e12); s.Frames != 2 || s.XOFF[3] != 1 || s.XON[3] != 1 || s.PausedNS[3] != 20 {
		t.Errorf("%+v", s)
	}
}

// TestOneFrame: changes, due refreshes and releases share a frame, which names no other priority.
func TestOneFrame(t *testing.T) {
	p := tenGigabit
	p.Priorities = 0x0f
	g := newGenerator(t, p)
	expect(t, g, 0, 0x03, Frame{Enable: 0x03, Quanta: [8]uint16{65535, 65535}})
	expect(t, g, 500_000, 0x07, *tell(2, 65535))
	expect(t, g, 1_677_696, 0x0d, Frame{Enable: 0x0b, Quanta: [8]uint16{0: 65535, 1: 0, 3: 65535}})
	if s := g.Stats(1_677_696); s.Frames != 3 || s.XOFF != [8]uint64{1, 1, 1, 1} || s.XON != [8]uint64{1: 1} ||
		s.Refreshes != [8]uint64{0: 1} {
		t.Errorf("%+v", s)
	}
}

func TestLossyPrioritiesNeverPause(t *testing.T) {
	g := newGenerator(t, tenGigabit)
	expect(t, g, 0, ^tenGigabit.Priorities, Frame{})
	expect(t, g, 10, 0xff, Frame{Enable: 0x18, Quanta: [8]uint16{3: 65535, 4: 65535}})
}

// TestPauseMode: with PAUSE one congested priority stops all eight; they resume when none is
// congested.
func TestPauseMode(t *testing.T) {
	p := tenGigabit
	p.Pause = true
	g := newGenerator(t, p)
	expect(t, g, 0, ^p.Priorities, Frame{}) // lossy
	expect(t, g, 100, 0x08, all(65535))
	expect(t, g, 200, 0x18, Frame{}) // one more: all are stopped already
	expect(t, g, 300, 0x10, Frame{})
	expect(t, g, 100+1_677_695, 0x10, Frame{})
	expect(t, g, 100+1_677_696, 0x10, all(65535))
	expect(t, g, 2_000_000, ^p.Priorities, all(0))
	s := g.Stats(3_000_000)
	for n := range 8 {
		if s.XOFF[n] != 1 || s.Refreshes[n] != 1 || s.XON[n] != 1 || s.PausedNS[n] != 2_000_000-100 {
			t.Errorf("priority %d: %+v", n, s)
		}
	}
	if s.Frames != 3 {
		t.Errorf("%d frames, want 3", s.Frames)
	}
}

// TestUnsentStaysDue: a frame that could not be sent stays due; only Sent starts the timers.
func TestUnsentStaysDue(t *testing.T) {
	g := newGenerator(t, tenGigabit)
	for now := range int64(5) {
		if f, ok := frameDue(g, now, 0x08); !ok || f != *tell(3, 65535) {
			t.Fatalf("at %d: due %v %+v", now, ok, f)
		}
	}
	if _, ok := frameDue(g, 5, 0); ok {
		t.Error("congestion came and went untold, but a frame is due")
	}
	expect(t, g, 100, 0x08, *tell(3, 65535))
	if s := g.Stats(100 + 50); s.Frames != 1 || s.PausedNS[3] != 50 {
		t.Errorf("%+v", s)
	}
}

// TestLateLoop: however many refreshes were missed, one frame follows, and the next is due a full
// period later.
func TestLateLoop(t *testing.T) {
	const period, pause = 1_677_696, 3_355_392
	g := newGenerator(t, tenGigabit)
	expect(t, g, 0, 0x08, *tell(3, 65535))
	late := int64(10*period + 5)
	expect(t, g, late, 0x08, *tell(3, 65535))
	expect(t, g, late, 0x08, Frame{})
	expect(t, g, late+period-1, 0x08, Frame{})
	expect(t, g, late+period, 0x08, *tell(3, 65535))
	s := g.Stats(late + period)
	if s.Refreshes[3] != 2 || s.Lapses[3] != 1 || s.PausedNS[3] != pause+period {
		t.Errorf("%+v", s)
	}
	// Released in the meantime: XON is due, late or not, and no refresh.
	expect(t, g, late+10*period, 0, *tell(3, 0))
}

// generatorModel keeps every time sent, by priority.
type generatorModel struct {
	params GeneratorParams
	words  [8][]word
	frames uint64
}

type word struct {
	at     int64
	quanta uint16
}

// last returns the last time sent for priority n; if there is none, an XON long ago.
func (m *generatorModel) last(n int) word {
	if len(m.words[n]) == 0 {
		return word{}
	}
	return m.words[n][len(m.words[n])-1]
}

func (m *generatorModel) period() int64 {
	if m.params.Refresh != 0 {
		return floor(exact(m.params.Refresh, m.params.Speed))
	}
	return floor(new(big.Rat).Quo(exact(m.params.Quanta, m.params.Speed), big.NewRat(2, 1)))
}

func (m *generatorModel) due(now int64, congested uint8) (f Frame) {
	for n := range 8 {
		full := m.params.Priorities&congested>>n&1 == 1
		if m.params.Pause {
			full = m.params.Priorities&congested != 0
		}
		last := m.last(n)
		switch {
		case full && (last.quanta == 0 || now >= last.at+m.period()):
			f.Enable |= 1 << n
			f.Quanta[n] = m.params.Quanta
		case !full && last.quanta != 0:
			f.Enable |= 1 << n
		}
	}
	return f
}

func (m *generatorModel) sent(now int64, f Frame) {
	m.frames++
	for n := range 8 {
		if f.Enable>>n&1 == 1 {
			m.words[n] = append(m.words[n], word{now, f.Quanta[n]})
		}
	}
}

// stats replays all times sent.
func (m *generatorModel) stats(now int64) GeneratorStats {
	s := GeneratorStats{Frames: m.frames}
	for n, words := range m.words {
		var previous word
		for i, w := range words {
			length := ceil(exact(w.quanta, m.params.Speed))
			end := now
			if i+1 < len(words) {
				end = words[i+1].at
			}
			s.PausedNS[n] += min(length, end-w.at)
			switch {
			case w.quanta == 0:
				s.XON[n]++
			case previous.quanta == 0:
				s.XOFF[n]++
			default:
				s.Refreshes[n]++
				if w.at-previous.at >= length {
					s.Lapses[n]++
				}
			}
			previous = w
		}
	}
	return s
}

func drawGeneratorParams(t *rapid.T) GeneratorParams {
	p := GeneratorParams{
		Priorities: rapid.Uint8().Draw(t, "enabled"),
		Quanta:     rapid.Uint16Range(4, 65535).Draw(t, "quanta"),
		Speed:      rapid.SampledFrom(speeds).Draw(t, "speed"),
	}
	p.Pause = rapid.Bool().Draw(t, "pause")
	if rapid.Bool().Draw(t, "own refresh") {
		p.Refresh = rapid.Uint16Range(1, p.Quanta-1).Draw(t, "refresh")
	}
	return p
}

func TestGeneratorModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawGeneratorParams(t)
		g, m := newGenerator(t, p), generatorModel{params: p}
		now := rapid.Int64Range(-1e12, 1e12).Draw(t, "start")
		var congested uint8
		var log journal
		t.Repeat(map[string]func(*rapid.T){
			"congestion": func(t *rapid.T) { congested = rapid.Uint8().Draw(t, "congested") },
			"wait": func(t *rapid.T) {
				now += rapid.Int64Range(0, 3*m.period()).Draw(t, "ns")
			},
			"wait for a refresh": func(t *rapid.T) {
				n := rapid.IntRange(0, 7).Draw(t, "priority")
				now = max(now, m.last(n).at+m.period()+rapid.Int64Range(-1, 1).Draw(t, "off"))
			},
			"send": func(t *rapid.T) {
				if f, ok := frameDue(g, now, congested); ok {
					g.Sent(now, &f)
					m.sent(now, f)
				}
			},
			"take over": func(t *rapid.T) { // same parameters: nothing changes
				next := newGenerator(t, p)
				next.TakeOver(now, g)
				g = next
			},
			"": func(t *rapid.T) {
				before := *g
				f, ok := frameDue(g, now, congested)
				if want := m.due(now, congested); f != want || ok != (want.Enable != 0) {
					t.Fatalf("at %d: due %v %+v, want %+v", now, ok, f, want)
				}
				if *g != before {
					t.Fatalf("Due changed the generator")
				}
				got, want := g.Stats(now), m.stats(now)
				log.follow(t, now, &got.History)
				if paused := log.pausedNS(now); paused != got.PausedNS {
					t.Fatalf("at %d: paused %d ns by the history, %d by the counters", now, paused, got.PausedNS)
				}
				got.History = History[Transition]{} // checked above
				if got != want {
					t.Fatalf("at %d\n%+v, want\n%+v", now, got, want)
				}
			},
		})
	})
}

func TestGeneratorAllocatesNothing(t *testing.T) {
	g := newGenerator(t, tenGigabit)
	var now int64
	if allocs := testing.AllocsPerRun(100, func() {
		now += 1000
		f, _ := frameDue(g, now, uint8(now/1000)<<3)
		g.Sent(now, &f)
		g.Stats(now)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkDue(b *testing.B) {
	b.Run("idle", func(b *testing.B) {
		g := newGenerator(b, tenGigabit)
		var f Frame
		for now := int64(0); b.Loop(); now++ {
			g.Due(now, 0, &f)
		}
	})
	b.Run("congested", func(b *testing.B) {
		g := newGenerator(b, GeneratorParams{Priorities: 0xff, Quanta: 65535, Speed: 1})
		f, _ := frameDue(g, 0, 0xff)
		g.Sent(0, &f)
		for now := int64(0); b.Loop(); now++ {
			g.Due(now, 0xff, &f)
		}
	})
	b.Run("refresh and sent", func(b *testing.B) {
		g := newGenerator(b, tenGigabit)
		var f Frame
		for now := int64(0); b.Loop(); now += 2_000_000 {
			g.Due(now, 0x08, &f)
			g.Sent(now, &f)
		}
	})
}

// TestGeneratorReset: the partner on a new link knows nothing, so XOFF is sent again for what is
// still congested.
func TestGeneratorReset(t *testing.T) {
	g, err := NewGenerator(GeneratorParams{Priorities: 0xff, Quanta: 100, Speed: gigabit})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := frameDue(g, 0, 1<<3)
	g.Sent(0, &f)
	g.Reset(1000)
	if _, due := frameDue(g, 1000, 0); due {
		t.Error("XON is due on a link on which nothing was said")
	}
	f, due := frameDue(g, 1000, 1<<3)
	if !due || f.Enable != 1<<3 || f.Quanta[3] != 100 {
		t.Errorf("after Reset, congestion gives %+v, %t", f, due)
	}
	if s := g.Stats(2000); s.PausedNS[3] != 1000 || s.XOFF[3] != 1 {
		t.Errorf("after Reset: %d ns paused, %d XOFF, want 1000 and 1", s.PausedNS[3], s.XOFF[3])
	}
}
