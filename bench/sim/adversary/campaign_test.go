package adversary

import (
	"flag"
	"testing"
)

var (
	first    = flag.Uint64("adversary.seed", 1, "the seed of the first switch to attack")
	switches = flag.Int("adversary.switches", 100, "how many switches to attack")
)

// TestNothingLosslessIsLost: whatever the adversary does within the assumptions of
// docs/lossless.md, no lossless frame is lost, by the accounting or in a driver, no pause is
// disregarded, and no port waits for longer than the budget of an iteration allows.
func TestNothingLosslessIsLost(t *testing.T) {
	losesNothing(t, Campaign{First: *first, Switches: *switches})
}

// TestNoJumboFrameIsLost does the same with frames of up to six parts.
func TestNoJumboFrameIsLost(t *testing.T) {
	losesNothing(t, Campaign{First: *first, Switches: max(1, *switches/4), Jumbo: true})
}

func losesNothing(t *testing.T, c Campaign) {
	t.Helper()
	o, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.Loss != nil {
		t.Fatalf("seed %d, also without %v: %+v\n%s", o.Loss.Seed, o.Loss.Omit, o.Loss.Result, o.Loss.Config)
	}
	t.Logf("from seed %d on: %+v", *first, o)
	if o.XOFF == 0 || o.Behind == 0 || o.Lossless == 0 {
		t.Errorf("the adversary has not tried: %+v", o)
	}
}

// TestHeadroomIsNotFat: with headroom for one longest frame less, some switch loses a frame, even
// if the adversary uses no trick but the ambush.
func TestHeadroomIsNotFat(t *testing.T) {
	losesOneFrameLess(t, Campaign{First: 301, Switches: 300, Less: 1})
}

// TestJumboHeadroomIsNotFat does the same with frames of up to six parts.
func TestJumboHeadroomIsNotFat(t *testing.T) {
	losesOneFrameLess(t, Campaign{First: 1, Switches: 300, Less: 1, Jumbo: true})
}

func losesOneFrameLess(t *testing.T, c Campaign) {
	t.Helper()
	o, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.Loss == nil || o.Loss.Result.LosslessDrops == 0 {
		t.Fatalf("%+v: the adversary has grown tame, or the headroom fat", o)
	}
	t.Logf("seed %d, also without %v: %+v", o.Loss.Seed, o.Loss.Omit, o.Loss.Result)
	c.First, c.Switches = o.Loss.Seed, 1
	again, err := c.Run(t.Context())
	if err != nil || again.Loss == nil || again.Loss.Result != o.Loss.Result {
		t.Errorf("the same seed again: %+v, %v", again, err)
	}
}
