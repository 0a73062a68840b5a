package pfc

import "testing"

// TestGeneratorTakeOver: a priority that is no longer lossless is resumed at once; one that stays
// lossless is refreshed in time.
func TestGeneratorTakeOver(t *testing.T) {
	old := newGenerator(t, GeneratorParams{Priorities: 0x18, Quanta: 65535, Speed: 10e9})
	f, _ := frameDue(old, 0, 0x18)
	old.Sent(0, &f)
	g := newGenerator(t, GeneratorParams{Priorities: 0x08, Quanta: 1000, Speed: 10e9})
	g.TakeOver(100, old)
	f, due := frameDue(g, 100, 0x18)
	if want := (Frame{Enable: 0x10}); !due || f != want {
		t.Fatalf("due %v: %+v, want XON of priority 4", due, f)
	}
	g.Sent(100, &f)
	// 500 quanta are 25,600 ns: the new refresh counts from the takeover.
	if f, due := frameDue(g, 25_699, 0x08); due {
		t.Errorf("%+v is due before its time", f)
	}
	if f, due := frameDue(g, 25_700, 0x08); !due || f.Quanta[3] != 1000 {
		t.Errorf("due %v: %+v, want a refresh of 1000 quanta", due, f)
	}
	if s := g.Stats(25_700); s.Frames != 2 || s.XOFF[4] != 1 || s.XON[4] != 1 {
		t.Errorf("counts do not go on: %+v", s)
	}
}

// TestReceiverTakeOver: a pause keeps its end, unless its priority may no longer be paused.
func TestReceiverTakeOver(t *testing.T) {
	old := newReceiver(t, 0x18, 10e9)
	old.Receive(0, &Frame{Enable: 0x18, Quanta: [8]uint16{3: 1000, 4: 1000}})
	r := newReceiver(t, 0x08, 1e9)
	r.TakeOver(100, old)
	if p := r.Paused(51_199); p != 0x08 {
		t.Errorf("paused %08b, want priority 3", p)
	}
	if p := r.Paused(51_200); p != 0 {
		t.Errorf("paused %08b after the end that the pause had", p)
	}
	s := r.Stats(51_200)
	if events := s.History.All(); len(events) != 4 || events[2] != (Transition{At: 100, Priority: 4, Cause: Reset}) {
		t.Errorf("%+v: want priority 4 reset at 100 ns", events)
	}
	if s.PausedNS[3] != 51_200 || s.PausedNS[4] != 100 {
		t.Errorf("paused for %v ns", s.PausedNS)
	}
}

// TestWatchdogTakeOver: storms continue, those of priorities that are no longer watched end, and
// those held by hand stay. A full bucket stays full, however large it is, and one that is no longer
// watched is emptied.
func TestWatchdogTakeOver(t *testing.T) {
	p := WatchdogParams{Priorities: 0x1c, Detection: 1000, Restoration: 1000, Action: Drop}
	old := newWatchdog(t, p)
	old.Override(0, 1)
	watch(old, 0, 500, 5, Sight{Paused: 0x18, Waiting: 0x18})
	if storming := watch(old, 500, 1000, 5, Sight{Paused: 0x1c, Waiting: 0x1c}); storming != 0x19 {
		t.Fatalf("in a storm: %08b", storming)
	}
	p.Priorities, p.Detection, p.Action = 0x08, 10_000, Alert
	w := newWatchdog(t, p)
	w.TakeOver(1050, old)
	if w.Storming() != 0x09 || w.Action() != Alert {
		t.Fatalf("in a storm: %08b, action %v", w.Storming(), w.Action())
	}
	if s := w.Stats(1100); s.StormNS != [8]int64{1100, 0, 0, 100, 50} || s.Restorations[4] != 1 || s.Storms[3] != 1 {
		t.Errorf("%+v", s)
	}
	watch(w, 1050, 1100, 50, Sight{Paused: 0x1c, Waiting: 0x1c})
	if storming := watch(w, 1100, 2099, 50, Sight{}); storming != 0x09 {
		t.Errorf("%08b: the storm ended too early", storming)
	}
	if storming := w.Observe(2100, Sight{}); storming != 0x01 {
		t.Errorf("after the storm: %08b, want the one by hand", storming)
	}
}

// TestWatchdogTakeOverOfBuckets: a filled bucket is kept, unless its priority is not watched. A
// partner that may have been open in a gap is excused after a takeover too.
func TestWatchdogTakeOverOfBuckets(t *testing.T) {
	stuck := Sight{Paused: 8, Waiting: 8}
	for name, c := range map[string]struct {
		between []uint8 // watched, one takeover each
		gap     int64
		want    int64 // ns in the bucket
	}{
		"watched":          {[]uint8{8}, 5, 505},
		"not watched":      {[]uint8{0, 8}, 5, 0},
		"excused in a gap": {[]uint8{8}, 6, 0},
	} {
		p := WatchdogParams{Detection: 1000, Restoration: 1000, Priorities: 8}
		w := newWatchdog(t, p)
		watch(w, 0, 500, 5, stuck)
		w.Observe(500+c.gap, stuck)
		for _, p.Priorities = range c.between {
			next := newWatchdog(t, p)
			next.TakeOver(500+c.gap, w)
			w = next
		}
		now := 500 + c.gap
		w.Observe(now, Sight{Paused: 8, Resumed: 8, Waiting: 8})
		full := now + 1000 - c.want
		if watch(w, now, full-1, 5, stuck) != 0 || w.Observe(full, stuck) != 8 {
			t.Errorf("%s: the storm does not begin %d ns later", name, 1000-c.want)
		}
	}
}

// TestWatchdogTakeOverInDoubt: no storm begins while frames that arrived in a gap may be unread.
func TestWatchdogTakeOverInDoubt(t *testing.T) {
	p := WatchdogParams{Detection: 1000, Restoration: 1000, Priorities: 8}
	old, w := newWatchdog(t, p), newWatchdog(t, p)
	watch(old, 0, 990, 5, Sight{Paused: 8, Waiting: 8})
	old.Observe(1000, Sight{Paused: 8, Waiting: 8})
	w.TakeOver(1000, old)
	if watch(w, 1000, 1010, 5, Sight{Paused: 8, Waiting: 8}) != 0 {
		t.Error("a storm too early")
	}
}
