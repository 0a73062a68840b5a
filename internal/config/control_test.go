package config

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/config/scalar"
)

// TestViewersNeedASocket: viewers need a control socket, with a name that leaves room for the
// suffix of theirs.
func TestViewersNeedASocket(t *testing.T) {
	longest := "/" + strings.Repeat("x", scalar.LongestSocket-1-len(viewSuffix))
	for socket, problem := range map[string]string{
		"none": "viewers is set, but socket is none", longest: "", longest + "x": "is too long with viewers",
	} {
		_, err := Parse("test.yaml", fmt.Appendf(nil, "control: {socket: %s, viewers: users}\n%s", socket, onePort))
		if got := fmt.Sprint(err); (err != nil) != (problem != "") || !strings.Contains(got, problem) {
			t.Errorf("%s: %v, want %q", socket, err, problem)
		}
	}
}
