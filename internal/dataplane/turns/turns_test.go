package turns

import "testing"

// fakePartner counts its turns. It leaves up to left frames unsent.
type fakePartner struct{ waiting, turns, left int }

func (p *fakePartner) Waiting() int { return p.waiting }
func (p *fakePartner) Yield()       { p.turns++; p.waiting = min(p.waiting, p.left) }

// TestTurns checks that a worker yields as soon as it has nothing to do but what its partner is to
// send, or when a frame is urgent, and never polls for long without yielding.
func TestTurns(t *testing.T) {
	const begin = 1_000_000 // ns: when the partner's last turn ended
	for _, test := range []struct {
		what         string
		waiting      int
		urgent, idle bool
		now          int64
		want         bool
	}{
		{"nothing to do", 0, false, true, begin + 1, false},
		{"nothing to do for long", 0, false, true, begin + turnPause, true},
		{"frames to send, and more to do", 1, false, false, begin + 1, false},
		{"frames to send, and nothing else to do", 1, false, true, begin + 1, true},
		{"many frames to send, and more to do", turnFrames, false, false, begin + 1, true},
		{"an urgent frame, and more to do", 1, true, false, begin + 1, true},
		{"an urgent frame that its partner has not got", 0, true, false, begin + 1, false},
		{"work without frames for long", 0, false, false, begin + turnPause, true},
	} {
		p := &fakePartner{waiting: test.waiting}
		turns := Turns{Partner: p, Urgent: test.urgent, last: begin}
		sent := turns.Take(test.now, test.idle)
		if (p.turns == 1) != test.want || sent != (test.want && test.waiting > 0) {
			t.Errorf("%s: %d turns, sent: %v", test.what, p.turns, sent)
		}
		if test.want {
			const long = 10 * turnPause // how long the turn lasts
			turns.Take(test.now+long, true)
			turns.Take(test.now+long+turnPause-1, true)
			if p.turns != 1 {
				t.Errorf("%s: another turn, for the first one was long", test.what)
			}
		}
	}
	if (&Turns{}).Take(begin, true) {
		t.Error("frames were sent by nobody")
	}
}

// TestFutileTurns checks that the worker polls for a while after a turn in which other threads had
// the CPU, but not after one that a signal ended early. A frame stays urgent until it is sent.
func TestFutileTurns(t *testing.T) {
	const long = 10 * turnPause // how long a turn lasts that other threads take
	p := &fakePartner{waiting: turnFrames, left: turnFrames}
	turns := Turns{Partner: p, Urgent: true}
	now, given := int64(1), 0
	take := func(after int64, want bool) {
		t.Helper()
		if now += after; want {
			given++
		}
		if turns.Take(now, false) || p.turns != given || !turns.Urgent {
			t.Errorf("%d turns of %d, urgent: %v", p.turns, given, turns.Urgent)
		}
	}
	take(0, true)
	for range 3 {
		take(1000, true) // because a signal ended the turn before
		take(long, false)
		take(turnPause-1, false)
		take(1, true)
	}
	p.left = 0
	if now += 1000; !turns.Take(now, false) || turns.Urgent {
		t.Errorf("all frames were sent, urgent: %v", turns.Urgent)
	}
}

// TestControlFramesWaitForNobody checks that a PFC frame is sent at once, even after a turn that
// other threads took.
func TestControlFramesWaitForNobody(t *testing.T) {
	p := &fakePartner{waiting: 1, left: 1}
	turns := Turns{Partner: p}
	turns.Take(1, true)               // other threads take it
	turns.Take(10*turnPause, false)   // the worker polls
	turns.Take(10*turnPause+1, false) // and keeps polling
	if p.turns != 1 {
		t.Fatalf("%d turns", p.turns)
	}
	turns.Control, p.left = true, 0
	if turns.Take(10*turnPause+2, false); p.turns != 2 || turns.Control {
		t.Errorf("%d turns, a PFC frame waits: %v", p.turns, turns.Control)
	}
}
