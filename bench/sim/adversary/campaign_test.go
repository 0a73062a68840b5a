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
	losesNothing(t, Attack{Seed: *first}, *switches)
}

// TestNoJumboFrameIsLost does the same with frames of up to six parts.
func TestNoJumboFrameIsLost(t *testing.T) {
	losesNothing(t, Attack{Seed: *first, Jumbo: true}, max(1, *switches/4))
}

func losesNothing(t *testing.T, a Attack, switches int) {
	t.Helper()
	o, err := a.Campaign(t.Context(), switches)
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
	losesOneFrameLess(t, Attack{Seed: 301, Less: 1})
}

// TestJumboHeadroomIsNotFat does the same with frames of up to six parts.
func TestJumboHeadroomIsNotFat(t *testing.T) {
	losesOneFrameLess(t, Attack{Seed: 1, Less: 1, Jumbo: true})
}

func losesOneFrameLess(t *testing.T, a Attack) {
	t.Helper()
	o, err := a.Campaign(t.Context(), 300)
	if err != nil {
		t.Fatal(err)
	}
	if o.Loss == nil || o.Loss.Result.LosslessDrops == 0 {
		t.Fatalf("%+v: the adversary has grown tame, or the headroom fat", o)
	}
	t.Logf("seed %d, also without %v: %+v", o.Loss.Seed, o.Loss.Omit, o.Loss.Result)
	a.Seed = o.Loss.Seed
	again, err := a.Campaign(t.Context(), 1)
	if err != nil || again.Loss == nil || again.Loss.Result != o.Loss.Result {
		t.Errorf("the same seed again: %+v, %v", again, err)
	}
}
