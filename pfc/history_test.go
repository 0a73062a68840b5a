package pfc

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// journal collects everything that successive copies of a History show.
type journal struct{ all []Transition }

// follow appends the entries of h that are new at now. It fails if entries were lost in between, if
// their times go back, or if a priority does not alternate between running and paused.
func (j *journal) follow(t *rapid.T, now int64, h *History[Transition]) {
	kept, fresh := h.All(), int(h.written)-len(j.all)
	if fresh > len(kept) {
		t.Fatalf("%d new entries at once, only %d kept: look more often", fresh, len(kept))
	}
	for _, e := range kept[len(kept)-fresh:] {
		if len(j.all) > 0 && e.At < j.all[len(j.all)-1].At {
			t.Fatalf("%+v follows %+v", e, j.all[len(j.all)-1])
		}
		if pauses := e.Cause == XOFF; e.At > now || pauses == j.isPaused(e.Priority) || pauses != (e.Quanta > 0) {
			t.Fatalf("at %d: %+v follows %+v", now, e, j.all)
		}
		j.all = append(j.all, e)
	}
}

func (j *journal) isPaused(priority uint8) bool {
	for _, e := range slices.Backward(j.all) {
		if e.Priority == priority {
			return e.Cause == XOFF
		}
	}
	return false
}

// paused replays the journal and returns the priorities that are paused at now. The journal must
// contain everything up to now.
func (j *journal) paused(now int64) (mask uint8) {
	for n := range uint8(8) {
		if j.isPaused(n) {
			mask |= 1 << n
		}
	}
	return mask
}

// pausedNS adds up the times from each pause to its end, or to now.
func (j *journal) pausedNS(now int64) (ns [8]int64) {
	for _, e := range j.all {
		if e.Cause == XOFF {
			ns[e.Priority] += now - e.At
		} else {
			ns[e.Priority] -= now - e.At
		}
	}
	return ns
}

func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h History[int]
		var want []int
		for i := range rapid.IntRange(0, 5*HistoryLength).Draw(t, "entries") {
			h.add(i)
			want = append(want, i)
		}
		if got := h.All(); !slices.Equal(got, want[max(0, len(want)-16):]) {
			t.Fatalf("%v", got)
		}
	})
}

func expectHistory(t *testing.T, h History[Transition], want ...Transition) {
	t.Helper()
	if got := h.All(); !slices.Equal(got, want) {
		t.Errorf("history\n%+v, want\n%+v", got, want)
	}
}

// TestReceiverHistory: a pause that ran out has its exact time and its place in the order, even if
// it is noticed long after.
func TestReceiverHistory(t *testing.T) {
	r := newReceiver(t, 0x7f, gigabit)
	r.Receive(0, &Frame{Enable: 0xff, Quanta: [8]uint16{0: 3, 1: 1, 2: 2, 3: 100, 4: 0, 7: 5}})
	r.Receive(100, tell(3, 200)) // no transition
	r.Receive(50_000, &Frame{Enable: 0x18, Quanta: [8]uint16{4: 9}})
	r.Reset(50_001)
	r.Receive(60_000, tell(6, 7))
	s := r.Stats(1e9) // without a call of Paused
	expectHistory(t, s.History,
		Transition{0, 0, XOFF, 3}, Transition{0, 1, XOFF, 1}, Transition{0, 2, XOFF, 2}, Transition{0, 3, XOFF, 100},
		Transition{512, 1, Expired, 0}, Transition{1024, 2, Expired, 0}, Transition{1536, 0, Expired, 0},
		Transition{50_000, 3, XON, 0}, Transition{50_000, 4, XOFF, 9}, Transition{50_001, 4, Reset, 0},
		Transition{60_000, 6, XOFF, 7}, Transition{63_584, 6, Expired, 0})
}

// TestGeneratorHistory: a refresh is no transition unless the pause had lapsed.
func TestGeneratorHistory(t *testing.T) {
	const pause, refresh = 51_200, 25_600
	g := newGenerator(t, GeneratorParams{Priorities: 0x18, Quanta: 100, Speed: gigabit})
	expect(t, g, 0, 0x08, *tell(3, 100))
	expect(t, g, refresh, 0x08, *tell(3, 100))
	late := int64(refresh + pause + 7)
	expect(t, g, late, 0x08, *tell(3, 100))
	expect(t, g, late+10, 0x10, Frame{Enable: 0x18, Quanta: [8]uint16{4: 100}})
	g.Reset(late + 20)
	expectHistory(t, g.Stats(1e9).History,
		Transition{0, 3, XOFF, 100}, Transition{refresh + pause, 3, Expired, 0}, Transition{late, 3, XOFF, 100},
		Transition{late + 10, 3, XON, 0}, Transition{late + 10, 4, XOFF, 100}, Transition{late + 20, 4, Reset, 0})
}

func TestCauseNames(t *testing.T) {
	for c, want := range map[Cause]string{XOFF: "xoff", XON: "xon", Expired: "expired", Reset: "reset"} {
		if c.String() != want {
			t.Errorf("%d: %q, want %q", c, c, want)
		}
	}
}
