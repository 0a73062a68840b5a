package netdev

import (
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/bench/netns"
	"sluice/internal/linux/ethtool"
)

// TestVeth queries a veth device while its peer's GRO is turned on and off, and gives it a thread.
func TestVeth(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: devices in network namespaces")
	}
	l, err := netns.New("netdev")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	n, err := l.Namespace("both")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Veth(n, "a0", n, "b0"); err != nil {
		t.Fatal(err)
	}
	err = n.Do(func() error {
		device, err := net.InterfaceByName("a0")
		if err != nil {
			return err
		}
		tool, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer tool.Close()
		f, err := FeaturesOf(device.Index)
		if err != nil || f&(Basic|Redirect|Fragments) != Basic|Redirect|Fragments || f&ZeroCopy != 0 {
			t.Errorf("features %#x, %v", f, err)
		}
		if n, err := Segments(device.Index); err != nil || n != 1 {
			t.Errorf("%d segments without zero-copy mode, %v", n, err)
		}
		for range 20 { // repeated, because the last 16 bits of header were once uninitialized
			for _, on := range []bool{false, true} {
				if err := tool.SetFeatures("b0", map[string]bool{"rx-gro": on}); err != nil {
					return err
				}
				if takes, err := TakesRedirects(device.Index); err != nil || takes != on {
					t.Errorf("GRO of its peer %v: %v, %v", on, takes, err)
				}
			}
		}
		if threads, err := ThreadNAPI("b0", 0); err != nil || len(threads) != 1 {
			t.Errorf("threads %v, %v", threads, err)
		}
		if takes, err := TakesRedirects(4711); err == nil {
			t.Errorf("of no device: %v", takes)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRequestsReadTheirOwnMemory asks while others use the memory beside that of requests: the race
// detector finds a request that reads it. Package nl's header does.
func TestRequestsReadTheirOwnMemory(t *testing.T) {
	var over atomic.Bool
	var others sync.WaitGroup
	others.Go(func() {
		for !over.Load() {
			for range 1000 {
				block := make([]byte, 16) // as large as the block that holds a small header
				for i := range block {
					block[i]++
				}
				elsewhere.Store(&block)
			}
			runtime.GC()
		}
	})
	for range 1000 {
		if _, err := FeaturesOf(1); err != nil { // loopback
			t.Fatal(err)
		}
	}
	over.Store(true)
	others.Wait()
}

var elsewhere atomic.Pointer[[]byte] // keeps the compiler from putting blocks on the stack
