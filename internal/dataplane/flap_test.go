package dataplane

import "testing"

// TestFlapForgets: a link that was down and up again between two plans may have another peer. What
// was learned behind it is forgotten, and pauses that its peer was told count as not sent. Other
// links are not affected.
func TestFlapForgets(t *testing.T) {
	for _, workers := range []int{1, 2} {
		r := newRig(t, 3, workers, nil)
		r.introduce()
		for flaps := 1; flaps <= 2; flaps++ {
			r.introduce()
			r.plan.Links[1].Flaps++
			r.publish()
			r.run(2000)
			r.send(0, data(0, 1, 0, 60, flaps)) // unknown: flooded
			r.send(0, data(0, 2, 0, 60, flaps)) // still known
			r.run(5000)
			if one, two := len(r.inboxes[1]), len(r.inboxes[2]); one != 1 || two != 2 {
				t.Errorf("%d workers, flap %d: %d frames at the link that flapped and %d at another, want 1 and 2",
					workers, flaps, one, two)
			}
			r.publish() // the number has not changed
			r.introduce()
			r.send(0, data(0, 1, 0, 60, flaps))
			r.run(5000)
			if n := len(r.inboxes[2]); n != 0 {
				t.Errorf("%d workers, flap %d: what was learned since is forgotten", workers, flaps)
			}
		}
	}
}

// TestFlapSendsPausesAgain: the peer of a link that flapped knows of no pause; it is told at once.
func TestFlapSendsPausesAgain(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	r.hold(1)
	r.run(1000)
	for n := range 11 {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(3000)
	if _, told := r.received(0); len(told) != 1 {
		t.Fatalf("told %+v, want one XOFF", told)
	}
	r.plan.Links[0].Flaps++
	r.publish()
	r.run(1000) // much less than the refresh of a pause takes
	if _, told := r.received(0); len(told) != 2 || told[1].Quanta[lossless] == 0 {
		t.Errorf("told %+v, want a second XOFF", told)
	}
}
