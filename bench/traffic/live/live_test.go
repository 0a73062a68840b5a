package live

import (
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/internal/frame"
	"sluice/internal/linux/ethtool"
)

const (
	hostDevice, peerDevice = "h", "p"

	hostMAC = frame.MAC(0x0200_0000_0001)
	peerMAC = frame.MAC(0x0200_0000_0002)
)

// newLab returns a lab that is closed with the test.
func newLab(t testing.TB) *netns.Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and XDP")
	}
	l, err := netns.New("live")
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

func newNamespace(t testing.TB, l *netns.Lab, name string) *netns.Namespace {
	t.Helper()
	n, err := l.Namespace(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// newCable connects a host and its peer.
func newCable(t testing.TB) (host, peer *netns.Namespace) {
	t.Helper()
	l := newLab(t)
	host, peer = newNamespace(t, l, "host"), newNamespace(t, l, "peer")
	if err := l.Veth(host, hostDevice, peer, peerDevice); err != nil {
		t.Fatal(err)
	}
	return host, peer
}

func newSink(t testing.TB, n *netns.Namespace, device string, p SinkParams) *Sink {
	t.Helper()
	s, err := NewSink(n, device, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openSocket(t testing.TB, n *netns.Namespace, device string) *LLDPSocket {
	t.Helper()
	s, err := OpenLLDP(n, device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newPauses(t testing.TB, ports int) *Pauses {
	t.Helper()
	p, err := NewPauses(ports)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// start starts a generator. The test may stop it; otherwise it is stopped when the test ends.
func start(t testing.TB, p GeneratorParams) *Generator {
	t.Helper()
	p.CPU = 1
	g, err := Start(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g.flows != nil {
			stop(t, g)
		}
	})
	return g
}

func stop(t testing.TB, g *Generator) []Sent {
	t.Helper()
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	return g.Sent()
}

// flow returns flow number id of a host: tagged, with priority pcp.
func flow(id uint32, pcp uint8, size int, rate float64) Flow {
	return Flow{ID: id, Dst: peerMAC, Src: hostMAC, VID: 1, PCP: pcp, Size: size, Rate: rate}
}

func port(n *netns.Namespace, flows ...Flow) PortParams {
	return PortParams{Namespace: n, Device: hostDevice, Flows: flows}
}

// until waits for an event.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happened(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 20 s, still not: %s", what)
		}
	}
}

// inject sends frames through a device, bypassing generator and sink.
func inject(t testing.TB, n *netns.Namespace, device string, frames ...[]byte) {
	t.Helper()
	err := n.Do(func() error {
		d, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		for _, b := range frames {
			if err := unix.Sendto(socket, b, 0, &unix.SockaddrLinklayer{Ifindex: d.Attrs().Index}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// refused returns how many frames a veth device dropped because its peer had no room.
func refused(t testing.TB, n *netns.Namespace, device string) (frames uint64) {
	t.Helper()
	err := n.Do(func() error {
		tool, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer tool.Close()
		stats, err := tool.Statistics(device)
		frames = stats["tx_queue_0_xdp_xmit_errors"]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return frames
}
