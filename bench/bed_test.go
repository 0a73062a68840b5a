package bench

import (
	"os"
	"testing"

	"sluice/bench/netns"
)

// newLab returns a lab that goes with the test.
func newLab(t *testing.T) *netns.Lab {
	t.Helper()
	needRoot(t)
	l, err := netns.New("bench")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and XDP")
	}
}

func newNamespace(t *testing.T, l *netns.Lab, name string) *netns.Namespace {
	t.Helper()
	n, err := l.Namespace(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
