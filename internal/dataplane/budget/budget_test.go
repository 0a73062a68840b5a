package budget

import "testing"

// TestOf checks that two iterations, each of twice the budget, take no longer than the response
// that the budget is for.
func TestOf(t *testing.T) {
	for ns, want := range map[int64]int{0: 64, 25_600: 64, 100_000: 250, 1_000_000: Default,
		1e12: Default} {
		if got := Of(ns); got != want || got > Least && int64(4*FrameCost*got) > ns {
			t.Errorf("for %d ns: %d, want %d", ns, got, want)
		}
	}
}
