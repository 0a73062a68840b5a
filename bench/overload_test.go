package bench

import (
	"os"
	"testing"
	"time"

	"github.com/safchain/ethtool"

	"sluice/internal/lab"
)

// newLab returns a lab that goes with the test.
func newLab(t *testing.T) *lab.Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and XDP")
	}
	l, err := lab.New("bench")
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

func newNamespace(t *testing.T, l *lab.Lab, name string) *lab.Namespace {
	t.Helper()
	n, err := l.Namespace(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOverloadConserves sends into a veth pair: what the generator has sent is what the counter at the other end has
// seen and what the pair says it had no room for, frame by frame and byte by byte.
func TestOverloadConserves(t *testing.T) {
	for _, length := range []int{60, 1496} {
		l := newLab(t)
		a, b := newNamespace(t, l, "a"), newNamespace(t, l, "b")
		if err := l.Veth(a, "tx", b, "rx"); err != nil {
			t.Fatal(err)
		}
		c, err := NewCounter(b, "rx")
		if err != nil {
			t.Fatal(err)
		}
		o, err := StartOverload(a, "tx", 1, TestFrame(length, 0))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		stopping := time.Now()
		sent, err := o.Stop()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes: %d frames, stopped within %v", length, sent.Frames, time.Since(stopping))
		time.Sleep(20 * time.Millisecond)
		got, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		refused := xmitErrors(t, a, "tx")
		if sent.Frames == 0 || got.Frames+refused != sent.Frames || got.Bytes != got.Frames*uint64(length) {
			t.Errorf("%d bytes: sent %+v, received %+v, no room for %d", length, sent, got, refused)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func xmitErrors(t *testing.T, n *lab.Namespace, device string) (refused uint64) {
	t.Helper()
	err := n.Do(func() error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		stats, err := tool.Stats(device)
		refused = stats["tx_queue_0_xdp_xmit_errors"]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return refused
}
