package prose

import (
	"testing"

	"pgregory.net/rapid"
)

// The edit distance matches its definition.
func TestEditDistance(t *testing.T) {
	var defined func(a, b string) int
	defined = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		if a[0] == b[0] {
			return defined(a[1:], b[1:])
		}
		return 1 + min(defined(a[1:], b), defined(a, b[1:]), defined(a[1:], b[1:]))
	}
	word := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := editDistance(a, b), defined(a, b); got != want {
			t.Fatalf("%q to %q: %d, want %d", a, b, got, want)
		}
	})
}
