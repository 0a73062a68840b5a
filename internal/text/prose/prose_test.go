package prose

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text   string
		width  int
		indent string
		want   string
	}{
		{"", 9, "  ", ""}, {"one two", 9, "  ", "one two"}, {"one two three", 9, "  ", "one two\n  three"},
		{"one twothree four", 9, "  ", "one\n  twothree\n  four"}, {"µµµ – µµµ", 9, "  ", "µµµ – µµµ"},
		{"a", 5, "", "a"}, {"ab cde f", 5, "", "ab\ncde f"}, {"abcdefgh i", 5, "", "abcdefgh\ni"},
		{"µµ µµ µ", 5, "", "µµ µµ\nµ"},
	} {
		if got := Wrap(c.text, c.width, c.indent); got != c.want {
			t.Errorf("%q in %d becomes %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// TestWrapKeepsWords checks that wrapping keeps all words, and that only lines of a single word
// exceed the width.
func TestWrapKeepsWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-z–µ]{1,12}`)).Draw(t, "words")
		width := rapid.IntRange(1, 40).Draw(t, "width")
		text := Wrap(strings.Join(words, " "), width, rapid.SampledFrom([]string{"", "  "}).Draw(t, "indent"))
		if !slices.Equal(strings.Fields(text), words) {
			t.Fatalf("%q becomes %q", words, text)
		}
		for line := range strings.SplitSeq(text, "\n") {
			if utf8.RuneCountInString(line) > width && len(strings.Fields(line)) > 1 {
				t.Fatalf("%q has more than %d columns", line, width)
			}
		}
	})
}

func TestCount(t *testing.T) {
	for n, want := range []string{"0 ports", "1 port", "2 ports"} {
		if got := Count(n, "port"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestJoin(t *testing.T) {
	if none, one, more := Join([]int(nil), ", "), Join([]int{7}, ", "), Join([]any{0, "a"}, "|"); none != "" ||
		one != "7" || more != "0|a" {
		t.Errorf("%q, %q, %q", none, one, more)
	}
}
