package pfc

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const (
	millisecond = 1_000_000
	detection   = 200 * millisecond
	restoration = 300 * millisecond
	// tenGigabitPause is how long 65535 quanta last at 10 Gbit/s.
	tenGigabitPause = 3_355_392
)

func newWatchdog(t interface{ Fatal(...any) }, p WatchdogParams) *Watchdog {
	w, err := NewWatchdog(p)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// arrival is a frame from the link partner.
type arrival struct {
	at int64
	f  Frame
}

// pausing returns the frames of a partner that pauses the priorities of mask from from to to: XOFF,
// repeated after each half of its time, then XON.
func pausing(mask uint8, from, to int64) (a []arrival) {
	xoff := all(65535)
	xoff.Enable = mask
	for at := from; at < to; at += tenGigabitPause / 2 {
		a = append(a, arrival{at, xoff})
	}
	return append(a, arrival{to, Frame{Enable: mask}})
}

// loop is a 10G port that iterates at random intervals of up to 1 ms. Its queues always have frames
// unless waiting says otherwise. It applies the watchdog's action.
type loop struct {
	now      int64
	random   *rand.Rand
	receiver *Receiver
	watchdog *Watchdog
	arrivals []arrival // to come, in order
	waiting  uint8
	dropped  uint8 // priorities whose frames are dropped, so none wait
}

func newLoop(t *testing.T, seed uint64, action Action) *loop {
	return &loop{
		random:   rand.New(rand.NewPCG(seed, 7)),
		receiver: newReceiver(t, 0xff, 10*gigabit),
		watchdog: newWatchdog(t, WatchdogParams{
			Priorities:  0xff,
			Detection:   detection,
			Restoration: restoration,
			Action:      action,
		}),
		waiting: 0xff,
	}
}

// step runs one iteration. It returns the priorities in a storm.
func (l *loop) step() uint8 {
	l.now += 1 + l.random.Int64N(millisecond)
	for len(l.arrivals) > 0 && l.arrivals[0].at <= l.now {
		l.receiver.Receive(l.now, &l.arrivals[0].f)
		l.arrivals = l.arrivals[1:]
	}
	stormed := l.watchdog.Observe(l.now, Sight{
		Paused: l.receiver.Paused(l.now), Resumed: l.receiver.Resumed(), Waiting: l.waiting &^ l.dropped,
	})
	if l.watchdog.Action() == Drop {
		l.dropped = stormed
	}
	return stormed
}

func (l *loop) runUntil(end int64) {
	for l.now < end {
		l.step()
	}
}

func (l *loop) events() []StormEvent {
	s := l.watchdog.Stats(l.now)
	return s.History.All()
}

// median returns the middle value, or the mean of the two middle values of an even number.
func median(v []int64) int64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

var actions = []Action{Alert, Drop, Forward}

// TestTwentyStorms measures from the arrival of the partner's first and last frame. A frame takes
// two iterations to have an effect: one that sees it, one that sees that the time is over.
func TestTwentyStorms(t *testing.T) {
	for _, action := range actions {
		var detected, restored []int64
		for seed := range uint64(20) {
			l := newLoop(t, seed, action)
			from := 50*millisecond + l.random.Int64N(10*millisecond)
			to := from + 2*detection + l.random.Int64N(10*millisecond)
			l.arrivals = pausing(0x08, from, to)
			l.runUntil(to + 2*restoration)
			e := l.events()
			if len(e) != 2 || e[0].Priority != 3 || !e[0].Storming || e[1].Storming || e[0].Manual || e[1].Manual {
				t.Fatalf("%v, seed %d: %+v", action, seed, e)
			}
			detected, restored = append(detected, e[0].At-from), append(restored, e[1].At-to)
		}
		for _, c := range []struct {
			what      string
			want      int64
			durations []int64
		}{{"detection", detection, detected}, {"restoration", restoration, restored}} {
			m, first, last := median(c.durations), slices.Min(c.durations), slices.Max(c.durations)
			t.Logf("%v: %s %d ms: shortest +%d ns, median +%d, longest +%d", action, c.what, c.want/millisecond,
				first-c.want, m-c.want, last-c.want)
			if first < c.want || m > c.want+millisecond || last > c.want+2*millisecond {
				t.Errorf("%v: %s outside [%d, %[3]d + 1 ms]", action, c.what, c.want)
			}
		}
	}
}

// TestLongPauseIsNoStorm has repeated pauses of half the detection time, with a moment to send in
// between.
func TestLongPauseIsNoStorm(t *testing.T) {
	for seed := range uint64(20) {
		l := newLoop(t, seed, Drop)
		for from := int64(millisecond); from < 10*detection; from += detection/2 + 3*millisecond {
			l.arrivals = append(l.arrivals, pausing(0xff, from, from+detection/2)...)
		}
		l.runUntil(11 * detection)
		if s := l.watchdog.Stats(l.now); s.Storms != [8]uint64{} || len(l.events()) != 0 {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
}

// bursts returns the frames f, sent together, repeatedly and at random intervals of at most most
// ns.
func (l *loop) bursts(from, to, most int64, f ...Frame) (a []arrival) {
	for at := from; at < to; at += 1 + l.random.Int64N(most) {
		for _, f := range f {
			a = append(a, arrival{at, f})
		}
	}
	return a
}

var (
	xoff3 = *tell(3, 65535)
	xon3  = *tell(3, 0)
)

// TestXONThatXOFFFollows: a partner that resumes and pauses at the same moment holds up a priority
// as much as one that only pauses. The storm lasts while this goes on; restoration counts from the
// partner's last frame, an XON.
func TestXONThatXOFFFollows(t *testing.T) {
	for _, action := range actions {
		for _, most := range []int64{20_000, millisecond, 3 * millisecond} {
			var detected, restored []int64
			for seed := range uint64(20) {
				l := newLoop(t, seed, action)
				from := 50*millisecond + l.random.Int64N(10*millisecond)
				to := from + 4*detection
				l.arrivals = append(l.bursts(from, to, most, xon3, xoff3), arrival{to, xon3})
				l.runUntil(to + 2*restoration)
				e := l.events()
				if len(e) != 2 || e[0].Priority != 3 || !e[0].Storming || e[1].Storming {
					t.Fatalf("%v, every %d ns, seed %d: %+v", action, most, seed, e)
				}
				detected, restored = append(detected, e[0].At-from), append(restored, e[1].At-to)
			}
			for _, c := range []struct {
				want      int64
				durations []int64
			}{{detection, detected}, {restoration, restored}} {
				m, first, last := median(c.durations), slices.Min(c.durations), slices.Max(c.durations)
				if first < c.want || m > c.want+millisecond || last > c.want+2*millisecond {
					t.Errorf("%v, every %d ns: %d to %d, median %d ns, want [%d, %[6]d + 1 ms]", action, most, first,
						last, m, c.want)
				}
			}
		}
	}
}

// TestXOFFThatXONFollows: XOFF has no effect, in a storm or outside one, if XON follows at once.
func TestXOFFThatXONFollows(t *testing.T) {
	for _, action := range actions {
		l := newLoop(t, 3, action)
		const calm, last = 2 * detection, 2*detection + 20*restoration
		l.arrivals = append(pausing(0x08, 0, calm), l.bursts(calm, last, restoration-2*millisecond, xoff3, xon3)...)
		l.arrivals = append(l.arrivals, l.bursts(last+2*restoration, last+20*restoration, restoration/2, xoff3,
			xon3)...)
		l.runUntil(last + 20*restoration)
		e := l.events()
		if len(e) != 2 || e[1].At < calm+restoration || e[1].At > calm+restoration+2*millisecond {
			t.Errorf("%v: the last pause of the storm ended at %d, %+v", action, calm, e)
		}
	}
}

// watch has w see the same from from to to, in iterations of step ns, the last possibly shorter. It
// returns the priorities in a storm.
func watch(w *Watchdog, from, to, step int64, s Sight) (stormed uint8) {
	for now := from; ; now = min(now+step, to) {
		if stormed = w.Observe(now, s); now == to {
			return stormed
		}
	}
}

// TestDrip: a partner that resumes for one iteration, just before a pause would be a storm, is
// found all the same. The storm lasts as long as it does so.
func TestDrip(t *testing.T) {
	const iteration, second = 50_000, 1000 * millisecond
	for _, closed := range []int64{50, 150, 199} {
		w := newWatchdog(t, WatchdogParams{Priorities: 8, Detection: detection, Restoration: restoration, Action: Drop})
		for now, stop := int64(0), int64(0); now < 10*second; now += iteration {
			s := Sight{Paused: 8, Waiting: 8}
			if now-stop >= closed*millisecond {
				s, stop = Sight{Resumed: 8, Waiting: 8}, now
			}
			w.Observe(now, s)
		}
		if s := w.Stats(10 * second); s.Storms[3] != 1 || s.StormNS[3] < 10*second-2*detection {
			t.Errorf("closed for %d ms: %+v", closed, s)
		}
	}
}

// TestShare: a partner that stops a priority for 100 times as long as it lets it run never makes a
// storm; for a nanosecond longer, it does at last.
func TestShare(t *testing.T) {
	for extra, storms := range []uint64{0, 1} {
		w := newWatchdog(t, WatchdogParams{Priorities: 8, Detection: 1000, Restoration: 1000})
		now := int64(0)
		for range 2000 {
			closed := now + 3*openShare + int64(extra)
			watch(w, now, closed, 5, Sight{Paused: 8, Waiting: 8})
			now = closed + 3
			w.Observe(closed, Sight{Waiting: 8})
		}
		if s := w.Stats(now); s.Storms[3] != storms {
			t.Errorf("%d ns longer: %d storms, want %d", extra, s.Storms[3], storms)
		}
	}
}

// TestGapCounts: what a gap counts, at the boundaries. The time for which the priority is paused
// without a gap tells how full its bucket was.
func TestGapCounts(t *testing.T) {
	const filled = 500 // ns of 1000, in iterations of 5 ns
	stuck, xon := Sight{Paused: 8, Waiting: 8}, Sight{Paused: 8, Resumed: 8, Waiting: 8}
	open, empty := Sight{Waiting: 8}, Sight{Paused: 8}
	type iteration struct {
		after int64 // ns
		Sight
	}
	for name, c := range map[string]struct {
		seen []iteration
		want int64 // ns in the bucket
	}{
		"no gap":                   {[]iteration{{5, stuck}}, filled + 5},
		"no gap, XON and XOFF":     {[]iteration{{5, xon}}, filled + 5},
		"gap":                      {[]iteration{{6, stuck}}, filled + 6},
		"longest gap that counts":  {[]iteration{{62, stuck}}, filled + 62},
		"longer gap":               {[]iteration{{63, stuck}}, filled + 62},
		"XOFF, gap":                {[]iteration{{0, open}, {1, stuck}, {6, stuck}}, 0},
		"gap, XOFF":                {[]iteration{{6, open}, {6, stuck}}, 0},
		"gap, XON and XOFF":        {[]iteration{{6, xon}}, 0},
		"XON and XOFF, gap":        {[]iteration{{0, xon}, {6, stuck}}, 0},
		"XON and XOFF, pass, gap":  {[]iteration{{0, xon}, {0, stuck}, {6, stuck}}, 0},
		"XON and XOFF before, gap": {[]iteration{{0, xon}, {1, stuck}, {6, stuck}}, filled + 7},
		"gap, XON read late":       {[]iteration{{6, stuck}, {5, stuck}, {1, xon}}, 0},
		"gap, XON after that":      {[]iteration{{6, stuck}, {5, stuck}, {2, xon}}, filled + 13},
		"long gap, short gap, XON": {[]iteration{{20, stuck}, {6, stuck}, {5, stuck}, {5, xon}}, 0},
		"open in a gap":            {[]iteration{{2, open}, {6, stuck}}, 0},
		"open":                     {[]iteration{{0, open}, {2, stuck}}, filled - 200},
		"no frames":                {[]iteration{{0, empty}, {100, stuck}}, filled},
	} {
		w := newWatchdog(t, WatchdogParams{Priorities: 8, Detection: 1000, Restoration: 1000})
		watch(w, 0, filled, 5, stuck)
		now := int64(filled)
		for _, i := range c.seen {
			now += i.after
			w.Observe(now, i.Sight)
		}
		full := now + 1000 - c.want
		if watch(w, now, full-1, 5, stuck) != 0 || w.Observe(full, stuck) != 8 {
			t.Errorf("%s: the storm does not begin %d ns later", name, 1000-c.want)
		}
	}
}

// TestPauseOfDetection: a pause that ends, or whose last frame is dropped, when its bucket is full
// is no storm. One that goes on is, as soon as frames wait again.
func TestPauseOfDetection(t *testing.T) {
	for _, end := range []Sight{{Waiting: 8}, {Paused: 8}} {
		w := newWatchdog(t, WatchdogParams{Priorities: 8, Detection: 1000, Restoration: 100})
		watch(w, 0, 995, 5, Sight{Paused: 8, Waiting: 8})
		if w.Observe(1000, end) != 0 {
			t.Errorf("a storm, though it ended with %+v", end)
		}
		if want := end.Paused; w.Observe(1001, Sight{Paused: 8, Waiting: 8}) != want {
			t.Errorf("after %+v: want %08b", end, want)
		}
	}
}

// TestIdleWatchdog: a watchdog is idle as soon as a storm has ended, and the time in which it was
// idle is no gap.
func TestIdleWatchdog(t *testing.T) {
	w := newWatchdog(t, WatchdogParams{Priorities: 8, Detection: 1000, Restoration: 100})
	watch(w, 0, 1000, 5, Sight{Paused: 8, Waiting: 8})
	watch(w, 1000, 1005, 5, Sight{}) // half empty
	if watch(w, 1005, 1200, 5, Sight{Paused: 8}) != 8 || w.Idle() {
		t.Fatal("no storm, or idle in one")
	}
	if w.Observe(1200, Sight{}) != 0 || !w.Idle() {
		t.Error("a storm, or not idle after one")
	}
	w.Override(1_000_000, 1)
	resumed := Sight{Paused: 8, Resumed: 8, Waiting: 8}
	if watch(w, 1_000_000, 1_000_999, 5, resumed) != 1 || w.Observe(1_001_000, resumed) != 9 {
		t.Error("after Override, a partner that sends XON and XOFF is not found in time")
	}
}

// TestGapThatFills: no storm begins while frames that arrived in a gap may be unread, in as much
// time again. A loop with nothing but gaps finds a storm all the same.
func TestGapThatFills(t *testing.T) {
	stuck := Sight{Paused: 8, Waiting: 8}
	for _, resumed := range []bool{false, true} {
		w := newWatchdog(t, WatchdogParams{Priorities: 8, Detection: 1000, Restoration: 100})
		watch(w, 0, 990, 5, stuck)
		if watch(w, 1000, 1010, 5, stuck) != 0 {
			t.Fatal("a storm in a gap, or too early after it")
		}
		if resumed {
			w.Observe(1010, Sight{Paused: 8, Resumed: 8, Waiting: 8})
		}
		if got := w.Observe(1011, stuck); (got == 0) != resumed {
			t.Errorf("XON and XOFF in the gap %v: in a storm: %08b", resumed, got)
		}
	}
	for _, gap := range []int64{6, 50, 62} {
		w := newWatchdog(t, WatchdogParams{Priorities: 8, Detection: 1000, Restoration: 100})
		var now int64
		for ; w.Observe(now, stuck) == 0 && now < 5000; now += gap {
		}
		if now < 1000 || now > 1000+1000/countShare+2*gap {
			t.Errorf("iterations of %d ns: storm at %d", gap, now)
		}
	}
}

// TestGapIsNoStorm: the loop is held up repeatedly, so it finds the priority paused in each
// iteration and sends nothing for long. The priority was resumed in each of these gaps, for an
// unknown time.
func TestGapIsNoStorm(t *testing.T) {
	for _, gap := range []int64{6, 63, 100, 999, 5000} {
		w := newWatchdog(t, WatchdogParams{Priorities: 0xff, Detection: 1000, Restoration: 1000})
		for now := int64(0); now < 100_000; now += gap {
			if w.Observe(now, Sight{Paused: 0x08, Resumed: 0x08, Waiting: 0x08}) != 0 {
				t.Fatalf("gaps of %d ns: storm at %d", gap, now)
			}
		}
	}
}

// TestEmptyQueueIsNoStorm: while no frame waits, nothing is held up; the first frame starts the
// time.
func TestEmptyQueueIsNoStorm(t *testing.T) {
	for seed := range uint64(20) {
		l := newLoop(t, seed, Forward)
		l.waiting = 0
		l.arrivals = pausing(0x08, 0, 10*detection)
		l.runUntil(5 * detection)
		if len(l.events()) != 0 {
			t.Fatalf("seed %d: %+v", seed, l.events())
		}
		first := l.now
		l.waiting = 0x08
		l.runUntil(7 * detection)
		if e := l.events(); len(e) != 1 || e[0].At < first+detection || e[0].At > first+detection+2*millisecond {
			t.Errorf("seed %d: first frame at %d, %+v", seed, first, e)
		}
	}
}

// TestAllEightDoNotFlap: a partner puts all priorities into a storm at once, and then resumes each
// of them now and then, for too short a time. Each priority has one storm and one restoration.
func TestAllEightDoNotFlap(t *testing.T) {
	for _, action := range actions {
		l := newLoop(t, 42, action)
		const calm, noisy = 2 * detection, 2*detection + 20*restoration
		l.arrivals = pausing(0xff, 0, calm)
		for n := range 8 {
			l.arrivals = append(l.arrivals, pausing(1<<n, calm, noisy)...)
			for at := int64(calm); at < noisy; at += restoration + l.random.Int64N(restoration) {
				l.arrivals = append(l.arrivals, arrival{at, *tell(n, 0)}, arrival{at + millisecond, *tell(n, 65535)})
			}
		}
		slices.SortStableFunc(l.arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
		l.runUntil(noisy + 3*restoration)
		s := l.watchdog.Stats(l.now)
		for n := range 8 {
			if s.Storms[n] != 1 || s.Restorations[n] != 1 || s.StormNS[n] < noisy-calm {
				t.Errorf("%v: priority %d: %+v", action, n, s)
			}
		}
		if holes := l.receiver.Stats(l.now).Transitions; slices.Min(holes[:]) < 10 {
			t.Errorf("the partner was not noisy: %d holes", holes)
		}
	}
}

// TestCountersNeverStop: during a storm, with any action, the receiver keeps counting and the
// storm's time grows.
func TestCountersNeverStop(t *testing.T) {
	for _, action := range actions {
		l := newLoop(t, 1, action)
		l.arrivals = pausing(0x08, 0, 3*detection)
		for l.step() == 0 {
		}
		begin := l.now
		for l.now < 2*detection {
			before, frames := l.now, l.receiver.Stats(l.now)
			for l.now < before+tenGigabitPause {
				l.step()
			}
			after := l.receiver.Stats(l.now)
			if after.XOFF[3] == frames.XOFF[3] || after.PausedNS[3]-frames.PausedNS[3] != l.now-before {
				t.Fatalf("%v: the receiver stopped counting at %d", action, l.now)
			}
			if ns := l.watchdog.Stats(l.now).StormNS; ns != [8]int64{3: l.now - begin} {
				t.Fatalf("%v: %d ns in the storm, want %d", action, ns, l.now-begin)
			}
		}
		l.runUntil(3*detection + 2*restoration)
		if e, s := l.events(), l.watchdog.Stats(l.now); s.StormNS[3] != e[1].At-e[0].At || s.Storming != 0 {
			t.Errorf("%v: %+v", action, s)
		}
	}
}

// TestUnwatchedPriorities: they never storm.
func TestUnwatchedPriorities(t *testing.T) {
	w := newWatchdog(t, WatchdogParams{Priorities: 0x18, Detection: 1000, Restoration: 1000})
	if got := watch(w, 0, 1000, 5, Sight{Paused: 0xff, Waiting: 0xff}); got != 0x18 {
		t.Errorf("in a storm: %08b, want 00011000", got)
	}
}

// TestOverride: a priority held by hand is in a storm without a pause and beyond any restoration
// time, and leaves it at once when released. Other priorities are not affected.
func TestOverride(t *testing.T) {
	w := newWatchdog(t, WatchdogParams{Priorities: 0x08, Detection: 1000, Restoration: 1000})
	watch(w, 0, 1000, 5, Sight{Paused: 0x08, Waiting: 0x08}) // 3 storms on its own
	w.Override(1100, 0x21)                                   // 0 and 5, not watched
	for _, now := range []int64{1100, 5000, 1_000_000} {
		if got := w.Observe(now, Sight{Paused: 0x08}); got != 0x29 {
			t.Errorf("at %d: %08b, want 00101001", now, got)
		}
	}
	w.Override(2_000_000, 0x28) // 0 is released; 3, already in a storm, is held; 5 still is
	w.Observe(2_000_000, Sight{})
	if got := w.Observe(3_000_000, Sight{Waiting: 0xff}); got != 0x28 {
		t.Errorf("held: %08b, want 00101000", got)
	}
	if s := w.Stats(3_000_000); s.Storming != 0x28 || s.Held != 0x28 {
		t.Errorf("%+v", s)
	}
	w.Override(4_000_000, 0)
	if got := w.Observe(4_000_000, Sight{Paused: 0x08, Waiting: 0x08}); got != 0 {
		t.Errorf("let go: %08b", got)
	}
	if watch(w, 4_000_000, 4_000_999, 5, Sight{Paused: 0x08, Waiting: 0x08}) != 0 ||
		w.Observe(4_001_000, Sight{Paused: 0x08, Waiting: 0x08}) != 0x08 {
		t.Error("let go while paused: detection must start from the beginning")
	}
	w.Override(4_001_100, 0) // releases nothing, so ends nothing
	s := w.Stats(4_001_100)
	want := []StormEvent{{1000, 3, true, false}, {1100, 0, true, true}, {1100, 5, true, true},
		{2_000_000, 0, false, true},
		{4_000_000, 3, false, true}, {4_000_000, 5, false, true}, {4_001_000, 3, true, false}}
	if got := s.History.All(); !slices.Equal(got, want) {
		t.Errorf("history\n%+v, want\n%+v", got, want)
	}
	if s.StormNS != [8]int64{0: 2_000_000 - 1100, 3: 4_000_000 - 1000 + 100, 5: 4_000_000 - 1100} {
		t.Errorf("%+v", s)
	}
}

// TestWatchdogReset: when a link goes down, its storms and suspicions end, but not what is held by
// hand.
func TestWatchdogReset(t *testing.T) {
	w := newWatchdog(t, WatchdogParams{Priorities: 0xff, Detection: 1000, Restoration: 1000})
	watch(w, 0, 900, 5, Sight{Paused: 0x01, Waiting: 0x01})
	watch(w, 900, 1000, 5, Sight{Paused: 0x03, Waiting: 0x03}) // 0 is in a storm, 1 has a filled bucket
	w.Override(1000, 0x80)
	w.Reset(1500)
	if got := w.Observe(2000, Sight{Paused: 0x03, Waiting: 0x03}); got != 0x80 {
		t.Errorf("after Reset: %08b, want only what is held", got)
	}
	if watch(w, 2000, 2999, 5, Sight{Paused: 0x03, Waiting: 0x03}) != 0x80 ||
		w.Observe(3000, Sight{Paused: 0x03, Waiting: 0x03}) != 0x83 {
		t.Error("after Reset detection must start from the beginning")
	}
	if s := w.Stats(3000); s.Restorations != [8]uint64{0: 1} || s.StormNS != [8]int64{0: 500, 7: 2000} {
		t.Errorf("%+v", s)
	}
}

// TestGapAfterReset: a gap does not count if the partner's first pause on a new link was read in
// the iteration before it.
func TestGapAfterReset(t *testing.T) {
	w := newWatchdog(t, WatchdogParams{Priorities: 8, Detection: 1000, Restoration: 1000})
	stuck := Sight{Paused: 8, Waiting: 8}
	w.Override(0, 1)
	w.Observe(0, stuck)
	w.Reset(0)
	w.Observe(1, stuck)
	if watch(w, 7, 1006, 5, stuck) != 1 || w.Observe(1007, stuck) != 9 {
		t.Error("the gap counts")
	}
}

func TestWatchdogParams(t *testing.T) {
	for name, p := range map[string]WatchdogParams{
		"no detection":       {Restoration: 1},
		"no restoration":     {Detection: 1},
		"negative detection": {Detection: -1, Restoration: 1},
		"unknown action":     {Detection: 1, Restoration: 1, Action: 3},
	} {
		if _, err := NewWatchdog(p); err == nil {
			t.Errorf("%s accepted", name)
		}
	}
	for a, want := range map[Action]string{Alert: "alert", Drop: "drop", Forward: "forward"} {
		if w := newWatchdog(t, WatchdogParams{Detection: 1, Restoration: 1, Action: a}); w.Action() != a ||
			a.String() != want {
			t.Errorf("%v, want %s", w.Action(), want)
		}
	}
}

// watchdogModel is the rule for one priority at a time, with booleans and without shortcuts.
type watchdogModel struct {
	params         WatchdogParams
	last           sample // that was looked at
	then           uint8  // resumed or newly paused at the time of last, in whatever sample
	doubted, doubt int64
	bucket, calm   [8]int64
	storming, held uint8
	awake          bool // something was begun or ended by hand since last
	events         []StormEvent
}

type sample struct {
	at int64
	Sight
	storming uint8
}

// stuck reports whether priority n is stopped in a sample.
func (m *watchdogModel) stuck(s *sample, n int) bool {
	return (s.Paused&m.params.Priorities&(s.Waiting|s.storming))>>n&1 == 1
}

func (m *watchdogModel) idle() bool {
	for n := range 8 {
		if m.bucket[n] > 0 || m.stuck(&m.last, n) {
			return false
		}
	}
	return m.storming == 0 && !m.awake
}

func (m *watchdogModel) change(at int64, n int, byHand bool) {
	m.storming ^= 1 << n
	storming := m.storming>>n&1 == 1
	m.events = append(m.events, StormEvent{at, uint8(n), storming, byHand})
	if m.calm[n] = 0; !storming {
		m.bucket[n] = 0
	}
}

func (m *watchdogModel) observe(s sample) uint8 {
	ns, most, counts := s.at-m.last.at, m.params.Detection/200, m.params.Detection/16
	resumed := s.Resumed | s.Paused&^m.last.Paused
	if m.idle() {
		if s.Paused&s.Waiting&m.params.Priorities == 0 {
			return 0
		}
		ns, m.then = 0, 0xff
	}
	if ns > most {
		if s.at > m.doubt {
			m.doubted = s.at
		}
		m.doubt = max(m.doubt, s.at+min(ns, counts))
	}
	for n := range 8 {
		excused := false
		switch {
		case ns > most && m.then>>n&1 == 1, s.at <= m.doubt && resumed>>n&1 == 1:
			m.bucket[n] = 0
			excused = true
		case m.last.Paused>>n&1 == 0:
			m.bucket[n] = max(m.bucket[n]-100*ns, 0)
		case m.stuck(&m.last, n):
			m.bucket[n] = min(m.bucket[n]+min(ns, counts), m.params.Detection)
		}
		full, paused, waiting := m.bucket[n] == m.params.Detection, s.Paused>>n&1 == 1, s.Waiting>>n&1 == 1
		if full {
			m.calm[n] = 0
		} else if !excused {
			m.calm[n] += min(ns, counts)
		}
		doubtful := s.at <= m.doubt && s.at < m.doubted+counts
		switch storming, held := m.storming>>n&1 == 1, m.held>>n&1 == 1; {
		case !storming && full && paused && waiting && !doubtful,
			storming && !held && !paused && m.calm[n] >= m.params.Restoration:
			m.change(s.at, n, false)
		}
	}
	if ns > 0 {
		m.then = 0
	}
	m.then |= resumed
	m.last, m.last.storming, m.awake = s, m.storming, false
	return m.storming
}

// override begins all storms before it ends any, as the order of events shows.
func (m *watchdogModel) override(now int64, priorities uint8) {
	if m.idle() {
		m.last.at = now
	}
	for n := range 8 {
		if priorities>>n&1 == 1 && m.storming>>n&1 == 0 {
			m.change(now, n, true)
		}
	}
	for n := range 8 {
		if priorities>>n&1 == 0 && m.held>>n&1 == 1 {
			m.change(now, n, true)
		}
	}
	m.awake = m.awake || m.held != priorities
	m.held = priorities
}

func (m *watchdogModel) reset(now int64) {
	for n := range 8 {
		if m.storming>>n&1 == 1 && m.held>>n&1 == 0 {
			m.change(now, n, false)
		}
	}
	m.bucket, m.last.Sight, m.awake = [8]int64{}, Sight{}, false
}

// stats replays the events.
func (m *watchdogModel) stats(now int64) WatchdogStats {
	s := WatchdogStats{Storming: m.storming, Held: m.held}
	for _, e := range m.events {
		if e.Storming {
			s.Storms[e.Priority]++
			s.StormNS[e.Priority] += now - e.At
		} else {
			s.Restorations[e.Priority]++
			s.StormNS[e.Priority] -= now - e.At
		}
		s.History.add(e)
	}
	return s
}

// rarely draws a byte that is mostly 0, so that long stretches have no break.
func rarely(t *rapid.T, label string) uint8 {
	if rapid.IntRange(0, 3).Draw(t, label+" at all") > 0 {
		return 0
	}
	return rapid.Uint8().Draw(t, label)
}

func TestWatchdogModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := WatchdogParams{
			Priorities:  rapid.Uint8().Draw(t, "watched"),
			Detection:   rapid.OneOf(rapid.Int64Range(1, 200), rapid.Int64Range(200, 2000)).Draw(t, "detection"),
			Restoration: rapid.Int64Range(1, 2000).Draw(t, "restoration"),
		}
		w, m := newWatchdog(t, p), watchdogModel{params: p, doubt: math.MinInt64}
		s := sample{at: rapid.Int64Range(-1e12, 1e12).Draw(t, "start")}
		look := func(t *rapid.T, ns int64) {
			s.at += ns
			want := m.observe(s)
			if s.Paused == 0 && w.Idle() && rapid.Bool().Draw(t, "left out") {
				if want != 0 {
					t.Fatalf("%+v: idle in a storm of %08b", s, want)
				}
				return
			}
			if got := w.Observe(s.at, s.Sight); got != want {
				t.Fatalf("%+v: in a storm %08b, want %08b", s, got, want)
			}
		}
		observe := func(t *rapid.T) {
			s.Paused ^= rarely(t, "paused or not")
			s.Waiting ^= rarely(t, "waiting or not")
			s.Resumed = rarely(t, "resumed")
			ns := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, p.Detection/2)).Draw(t, "ns")
			look(t, ns)
			s.Resumed &= rarely(t, "resumed all the time")
			for range rapid.SampledFrom([]int{0, 0, 3, 100, 190, 199, 200, 201}).Draw(t, "iterations") {
				look(t, p.Detection/200)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"observe": observe, "observe, again": observe, "and again": observe, "and once more": observe,
			"override": func(t *rapid.T) {
				s.at += rapid.Int64Range(0, 20).Draw(t, "ns")
				held := rarely(t, "held")
				w.Override(s.at, held)
				m.override(s.at, held)
			},
			"reset": func(t *rapid.T) {
				if rarely(t, "link down") != 0 {
					w.Reset(s.at)
					m.reset(s.at)
				}
			},
			"take over": func(t *rapid.T) { // same parameters: nothing changes
				next := newWatchdog(t, p)
				next.TakeOver(s.at, w)
				w = next
			},
			"": func(t *rapid.T) {
				if got, want := w.Stats(s.at), m.stats(s.at); got != want {
					t.Fatalf("at %d\n%+v, want\n%+v", s.at, got, want)
				}
			},
		})
	})
}

func TestWatchdogAllocatesNothing(t *testing.T) {
	w := newWatchdog(t, WatchdogParams{Priorities: 0xff, Detection: 1000, Restoration: 900, Seed: 1})
	var now int64
	if allocs := testing.AllocsPerRun(100, func() {
		for _, paused := range []uint8{0x18, 0} {
			watch(w, now, now+1100, 5, Sight{Paused: paused, Waiting: 0xff})
			now += 1100
		}
		w.Stats(now)
	}); allocs != 0 || w.Stats(now).Storms[3] < 100 {
		t.Errorf("%v allocations, %d storms", allocs, w.Stats(now).Storms[3])
	}
}

func BenchmarkObserve(b *testing.B) {
	for name, paused := range map[string]uint8{"nothing paused": 0, "one paused": 0x08, "all paused": 0xff} {
		b.Run(name, func(b *testing.B) {
			w := newWatchdog(b, WatchdogParams{Priorities: 0xff, Detection: 1 << 60, Restoration: 1})
			for now := int64(0); b.Loop(); now++ {
				w.Observe(now, Sight{Paused: paused, Waiting: 0xff})
			}
		})
	}
}
