package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/benchtest"
	"sluice/bench/traffic/live"
	"sluice/pmd"
)

// wire is a host with two devices, each cabled to a port of a switch.
type wire struct {
	host    *netns.Namespace
	site    Site
	sockets [2]int // of the host's devices
}

func TestMain(m *testing.M) { benchtest.Main(m, RunBaseline) }

// newWire creates the devices of a bed, with a host that uses the kernel's stack.
func newWire(t *testing.T) *wire {
	t.Helper()
	l := benchtest.NewLab(t)
	w := &wire{host: benchtest.NewNamespace(t, l, "hosts")}
	w.site.Namespace = benchtest.NewNamespace(t, l, "switch")
	for i := range w.sockets {
		port := fmt.Sprintf("s%d", i)
		w.site.Devices = append(w.site.Devices, port)
		if err := l.Veth(w.site.Namespace, port, w.host, HostDevice(i)); err != nil {
			t.Fatal(err)
		}
		if err := w.site.Namespace.Do(func() error { return addQueue(port, 0) }); err != nil {
			t.Fatal(err)
		}
		err := w.host.Do(func() (err error) {
			w.sockets[i], err = packetSocket(HostDevice(i))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(w.sockets[i]) })
	}
	return w
}

// packetSocket opens a socket for whole frames on a device. It does not receive the frames it
// sends.
func packetSocket(device string) (int, error) {
	const allProtocols = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // big endian
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, allProtocols)
	if err != nil {
		return -1, err
	}
	i, err := net.InterfaceByName(device)
	if err != nil {
		return -1, err
	}
	wait := unix.Timeval{Usec: 100_000}
	return fd, errors.Join(
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: i.Index}),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
	)
}

// probe is a frame that tests for connectivity. Late ones do not matter.
var probe = []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}

// send sends a frame at one end.
func (w *wire) send(t *testing.T, end int, frame []byte) {
	t.Helper()
	if _, err := unix.Write(w.sockets[end], frame); err != nil {
		t.Fatal(err)
	}
}

// receive returns a frame that arrives at one end in time, or nil. It skips probes unless they are
// wanted.
func (w *wire) receive(t *testing.T, end int, probes bool, within time.Duration) []byte {
	t.Helper()
	b := make([]byte, 4096)
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		n, err := unix.Read(w.sockets[end], b)
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if probes || n != len(probe) {
			return b[:n]
		}
	}
	return nil
}

// through reports whether a probe gets through the switch.
func (w *wire) through(t *testing.T, from int) bool {
	t.Helper()
	w.send(t, from, probe)
	return w.receive(t, 1-from, true, 100*time.Millisecond) != nil
}

// startBaseline runs a baseline between the two ends until the test ends or stop is called, which
// waits for its end.
func (w *wire) startBaseline(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := w.site.Namespace.Do(func() error { return RunBaseline(ctx, [2]string(w.site.Devices), 0) })
		if err != nil {
			t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	for range 100 {
		if w.through(t, 0) && w.through(t, 1) {
			return stop
		}
	}
	t.Fatal("nothing comes through")
	return nil
}

// TestBaselineForwards sends frames of many lengths in both directions, more than the rings have
// entries, and compares them byte by byte.
func TestBaselineForwards(t *testing.T) {
	w := newWire(t)
	stop := w.startBaseline(t)
	rng := rand.New(rand.NewPCG(1, 2))
	const burst = 64
	for i := range 3 * baselineRing / burst {
		var sent [burst][]byte
		for n := range sent {
			sent[n] = make([]byte, len(probe)+1+rng.IntN(1500))
			for i := range sent[n] {
				sent[n][i] = byte(rng.Uint32())
			}
			copy(sent[n], probe)
			w.send(t, i%2, sent[n])
		}
		for n := range sent {
			if got := w.receive(t, 1-i%2, false, 5*time.Second); !bytes.Equal(got, sent[n]) {
				t.Fatalf("burst %d, frame %d: sent %d bytes, received %d, or others:\n%x\n%x", i, n, len(sent[n]),
					len(got), sent[n], got)
			}
		}
	}
	stop()
	if w.through(t, 0) {
		t.Error("it has ended and still forwards")
	}
}

func TestBaselineWithoutDevice(t *testing.T) {
	w := newWire(t)
	err := w.site.Namespace.Do(func() error { return RunBaseline(t.Context(), [2]string{"s0", "none"}, 0) })
	if err == nil {
		t.Error("opened a device that is not there")
	}
}

// descriptors returns the frames from one number up to another, one per buffer.
func descriptors(from, to, size, length int) (burst []pmd.Desc) {
	for i := from; i < to; i++ {
		burst = append(burst, pmd.Desc{Addr: uint64(i * size), Len: uint32(length)})
	}
	return burst
}

// TestBaselineTransmitBound gives a port more frames than its ring holds. The port completes the
// frames that it takes, each once and in order, and loses none.
func TestBaselineTransmitBound(t *testing.T) {
	w := newWire(t)
	c, err := live.NewSink(w.host, HostDevice(0), live.SinkParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const frames, size, length = 2 * baselineRing, 2048, 100
	memory := make([]byte, frames*size)
	var p *baselinePort
	err = w.site.Namespace.Do(func() (err error) {
		p, err = openBaseline(w.site.Devices[0], memory, size)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.site.Namespace.Do(p.Close); err != nil {
			t.Error(err)
		}
	}()
	sent, completed := 0, 0
	for deadline := time.Now().Add(5 * time.Second); completed < frames && time.Now().Before(deadline); {
		sent += p.Transmit(descriptors(sent, frames, size, length))
		p.Flush()
		var addrs [100]uint64
		for _, a := range addrs[:p.Complete(addrs[:])] {
			if a != uint64(completed*size) {
				t.Fatalf("completion %d is of buffer %d", completed, a/size)
			}
			completed++
		}
	}
	if got := c.Read().Unknown; sent != frames || completed != frames || got != frames {
		t.Errorf("%d frames: sent %d, completed %d, arrived %d", frames, sent, completed, got)
	}
	if s := p.Stats(); s.TXInvalid != 0 {
		t.Errorf("%+v", s)
	}
}
