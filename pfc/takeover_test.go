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
// those held by hand stay.
func TestWatchdogTakeOver(t *testing.T) {
	p := WatchdogParams{Priorities: 0x18, Detection: 100, Restoration: 100, Action: Drop}
	old := newWatchdog(t, p)
	old.Override(0, 1)
	old.Observe(0, Sight{Paused: 0x18, Waiting: 0x18})
	if storming := old.Observe(100, Sight{Paused: 0x18, Waiting: 0x18}); storming != 0x19 {
		t.Fatalf("in a storm: %08b", storming)
	}
	p.Priorities, p.Detection, p.Action = 0x08, 1000, Alert
	w := newWatchdog(t, p)
	w.TakeOver(150, old)
	if w.Storming() != 0x09 || w.Action() != Alert {
		t.Fatalf("in a storm: %08b, action %v", w.Storming(), w.Action())
	}
	if s := w.Stats(200); s.StormNS != [8]int64{200, 0, 0, 100, 50} || s.Restorations[4] != 1 || s.Storms[3] != 1 {
		t.Errorf("%+v", s)
	}
	w.Observe(300, Sight{Changed: 0x08})
	if storming := w.Observe(400, Sight{}); storming != 0x01 {
		t.Errorf("after the storm: %08b, want the one by hand", storming)
	}
}
