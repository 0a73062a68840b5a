package sim

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func drawCreditLink(t *rapid.T) CreditLink {
	rate := rapid.Uint64Range(1e9, 100e9).Draw(t, "rate")
	return CreditLink{
		Rate:    rate,
		Metres:  rapid.Float64Range(0, 100e3).Draw(t, "metres"),
		Credits: rapid.IntRange(1, 400).Draw(t, "credits"),
		Frame:   rapid.IntRange(60, 2172).Draw(t, "frame"),
		Drain:   Drain{Rate: rate},
	}
}

// TestCreditsClosedForm has the receiver drain at the rate of the link. A credit then returns after
// one loop: the frame's way there, its draining, and the R_RDY's way back. So in each loop the
// sender sends one frame per credit, or as many as fit: the use of the link is min(1,
// credits·frame / loop).
func TestCreditsClosedForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawCreditLink(t)
		ns := rapid.Int64Range(1, 2e6).Draw(t, "ns")
		slot, ready := int64(uint64(l.Frame)*8e12/l.Rate), int64(4*8e12/l.Rate)
		loop := 2*slot + 2*int64(l.Metres*5.13)*1000 + ready
		perLoop, period := int64(l.Credits), loop
		if int64(l.Credits)*slot >= loop { // more credits than the sender ever spends
			perLoop, period = 1, slot
		}
		rest := ns * 1000 % period
		want := ns*1000/period*perLoop + min(perLoop, (rest+slot-1)/slot)
		got := l.Run(1, ns)
		if int64(got.Frames) != want {
			t.Errorf("%d frames in %d ns, want %d", got.Frames, ns, want)
		}
		use := min(1, float64(l.Credits)*float64(slot)/float64(loop))
		if slack := float64(perLoop*slot) / float64(ns*1000); math.Abs(got.Use-use) > slack {
			t.Errorf("use %.4f, want %.4f within %.4f", got.Use, use, slack)
		}
	})
}

// TestOneCreditAKilometre checks a vendor's rule of thumb: at 2 Gbit/s, one credit per kilometre
// keeps the link full with full frames of 2148 bytes (Brocade, Fabric OS Administrator's Guide,
// "Buffer credit allocation based on full-size frames"). The line runs at 2.125 Gbaud, which leaves
// 1.7 Gbit/s after 8b/10b; FC-FS wants six words between two frames.
func TestOneCreditAKilometre(t *testing.T) {
	l := CreditLink{Rate: 1.7e9, Metres: 100e3, Credits: 100, Frame: 2148 + 6*4, Drain: Drain{Rate: 1.7e9}}
	if use := l.Run(1, 1e9).Use; use < 0.96 || use > 1 {
		t.Errorf("100 km, 100 credits: use %.3f", use)
	}
	l.Credits = 50
	if use := l.Run(1, 1e9).Use; use < 0.48 || use > 0.5 {
		t.Errorf("100 km, 50 credits: use %.3f", use)
	}
}

// countingLink models the same link differently: a sender that counts its credits down to 0, a
// receiver that counts its full buffers, and events in the order of time, in ps. It follows frames
// begun before the end until they are drained.
func countingLink(l CreditLink, seed uint64, end int64) (frames, held int) {
	var (
		slot, out = WireTime(l.Frame, l.Rate), WireTime(l.Frame, l.Drain.Rate)
		flight    = int64(l.Metres*5.13) * 1000
		stalls    = l.Drain.stalls(seed)
		credits   = l.Credits
		full      int
		arriving  []int64 // on the wire
		returning []int64 // R_RDYs on the wire
		waiting   int     // frames in buffers, not being drained
		line      int64   // free from then on
		drained   = int64(math.MaxInt64)
	)
	first := func(q []int64) int64 {
		if len(q) == 0 {
			return math.MaxInt64
		}
		return q[0]
	}
	for now := int64(0); ; {
		send := int64(math.MaxInt64)
		if at := max(now, line); credits > 0 && at < end {
			send = at
		}
		// At equal times, events that free a buffer come before events that fill one.
		switch now = min(send, drained, first(arriving), first(returning)); {
		case now == math.MaxInt64:
			return frames, held
		case now == drained:
			full--
			returning = append(returning, now+WireTime(readyBytes, l.Rate)+flight)
			drained = math.MaxInt64
		case now == first(returning):
			returning = returning[1:]
			credits++
		case now == first(arriving):
			arriving = arriving[1:]
			waiting++
			full++
			held = max(held, full)
		default:
			credits--
			frames++
			line = now + slot
			arriving = append(arriving, line+flight)
		}
		if waiting > 0 && drained == math.MaxInt64 {
			waiting--
			drained = stalls.pass(now) + out
		}
	}
}

// TestCreditsNeverLose compares Run with countingLink while the receiver stalls at random: buffers
// never overflow.
func TestCreditsNeverLose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawCreditLink(t)
		l.Drain = Drain{
			Rate:  rapid.Uint64Range(l.Rate/2, 3*l.Rate).Draw(t, "drain"),
			Stall: rapid.Float64Range(1, 100e3).Draw(t, "stall"),
			Run:   rapid.Float64Range(1, 100e3).Draw(t, "run"),
		}
		seed := rapid.Uint64().Draw(t, "seed")
		got := l.Run(seed, 500e3)
		frames, held := countingLink(l, seed, 500e6)
		if got.Frames != frames || got.Held != held {
			t.Errorf("%d frames, %d buffers at most; the link that counts says %d, %d", got.Frames, got.Held, frames,
				held)
		}
		if got.Held > l.Credits {
			t.Errorf("%d of %d buffers in use", got.Held, l.Credits)
		}
	})
}
