package sim

import (
	"math"
	"testing"
)

// TestPFCAgreesWithFluid compares the engines with the fluid model at almost no distance.
func TestPFCAgreesWithFluid(t *testing.T) {
	l := NewLongLink(1)
	for _, threshold := range []int{50, 200, 500} {
		p, err := l.PFCAt(10, threshold)
		if err != nil {
			t.Fatal(err)
		}
		use, stops := l.Drain.Fluid(l.Rate, float64(threshold)/14*2260) // a frame: 14 cells, 2260 bytes on the wire
		if math.Abs(p.Use-use) > 0.03 || p.XOFF < 0.75*stops || p.XOFF > 1.25*stops {
			t.Errorf("threshold of %d cells: use %.3f and %.0f XOFF a second, the fluid model says %.3f and %.0f",
				threshold, p.Use, p.XOFF, use, stops)
		}
		if p.Lost != 0 {
			t.Errorf("threshold of %d cells: lost %d frames", threshold, p.Lost)
		}
	}
}

// TestCreditsAgreeWithFluid compares credits with the fluid model, including the case θ = 0.
func TestCreditsAgreeWithFluid(t *testing.T) {
	for _, run := range []float64{40e3, 50e3, 75e3} {
		l := NewLongLink(2)
		l.Drain.Run, l.Time = run, 500e6
		for _, credits := range []int{20, 100, 219} {
			l.Buffer = 14 * credits
			use, _ := l.Drain.Fluid(l.Rate, float64(credits*2260))
			if p := l.Credits(0); math.Abs(p.Use-use) > 0.03 {
				t.Errorf("run %.0f ns, %d credits: use %.3f, the fluid model says %.3f", run, credits, p.Use, use)
			}
		}
	}
}

// TestReach calculates the headroom by hand. 480 KiB are 3072 cells. The frame that crosses the
// threshold and the last frame take 14 cells each. Between them arrive the frames that begin within
// a window, not counting the one that begins as the window ends. In the worst case they have 64
// bytes and take one cell per 84 bytes of wire, so the window is 3045·84 bytes. Without the frame
// ahead of the XOFF (9236), the XOFF (84) and the response time (3840), that leaves 242,620 bytes
// for twice the distance. A metre holds 5.13 ns, or 6.4125 bytes.
func TestReach(t *testing.T) {
	got, err := NewLongLink(1).Reach()
	if want := 242_620 / 2 / 6.4125; err != nil || math.Abs(got-want) > 1 {
		t.Errorf("reach %.0f m (%v), want %.0f", got, err, want)
	}
}

// TestUseFallsWithDistance checks what the figures show: under PFC the use falls to a low value at
// the reach, without loss up to there; under credits it falls too, later, and has no limit.
func TestUseFallsWithDistance(t *testing.T) {
	l := NewLongLink(3)
	reach, err := l.Reach()
	if err != nil {
		t.Fatal(err)
	}
	before := LinkPoint{Use: 1, Threshold: l.Buffer}
	for _, part := range []float64{0.05, 0.5, 0.75, 0.9, 1} {
		p, err := l.PFC(math.Floor(part * reach))
		if err != nil {
			t.Fatal(err)
		}
		c := l.Credits(p.Metres)
		if p.Lost != 0 || p.Threshold+p.Headroom != l.Buffer {
			t.Errorf("%+v: lost frames, or buffer not used up", p)
		}
		if p.Use >= before.Use || p.XOFF <= before.XOFF || p.Threshold >= before.Threshold {
			t.Errorf("%+v after %+v: further away, yet more use, less XOFF, or more room", p, before)
		}
		if part >= 0.5 && c.Use <= p.Use {
			t.Errorf("%.0f m: use %.3f under credits, %.3f under PFC", p.Metres, c.Use, p.Use)
		}
		before = p
	}
	if _, err := l.PFC(reach + 1); err == nil {
		t.Error("lossless beyond the reach")
	}
	// At this distance credits cover only a part of the loop, whatever the receiver does.
	loop := 200e3 * 5.13 * 2
	if c, want := l.Credits(200e3), 219*1808/loop; c.Use > want || c.Use < want*0.8 {
		t.Errorf("200 km: use %.3f under credits, at most %.3f is possible", c.Use, want)
	}
}

func TestLongLinkIsDeterministic(t *testing.T) {
	l := NewLongLink(4)
	l.Time = 10e6
	a, errA := l.PFC(5000)
	b, errB := l.PFC(5000)
	if errA != nil || errB != nil || a != b {
		t.Errorf("the same seed gave %+v (%v) and %+v (%v)", a, errA, b, errB)
	}
	l.Seed = 5
	if c, err := l.PFC(5000); err != nil || c.Use == a.Use {
		t.Errorf("another seed gave the same use %v (%v)", c.Use, err)
	}
}
