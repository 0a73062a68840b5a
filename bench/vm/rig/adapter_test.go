package rig

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
)

// adapterSite is an adapter between a guest's NIC and a switch's port, both played by the test.
type adapterSite struct {
	*Adapter
	nic  net.Conn
	port *Peer // only its methods that send
}

// newAdapterSite builds one, with a link of some bit/s.
func newAdapterSite(t *testing.T, rate uint64) *adapterSite {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	lab, err := netns.New("adapter")
	must(t, err)
	t.Cleanup(func() { must(t, lab.Close()) })
	host, err := lab.Namespace("host")
	must(t, err)
	home, err := lab.Namespace("switch")
	must(t, err)
	must(t, lab.Veth(host, "nic", home, "port"))
	awaitLink(t, host, "nic")
	awaitLink(t, home, "port")
	guest, theirs, err := socketPair(unix.SOCK_DGRAM)
	must(t, err)
	defer theirs.Close()
	s := &adapterSite{port: &Peer{MAC: 2}}
	s.nic, err = net.FileConn(theirs)
	must(t, err)
	t.Cleanup(func() { s.nic.Close() })
	must(t, home.Do(func() (err error) {
		s.port.fd, err = openRaw("port")
		return err
	}))
	t.Cleanup(func() { must(t, unix.Close(s.port.fd)) })
	s.Adapter, err = newAdapter(guest, host, "nic", rate)
	must(t, err)
	t.Cleanup(func() {
		received, sent, err := s.Lost()
		must(t, errors.Join(err, s.Close()))
		if received+sent > 0 {
			t.Errorf("lost %d frames to the guest and %d from it", received, sent)
		}
	})
	return s
}

// awaitLink waits until the kernel has noticed that a device has a link. Before, it discards what
// is sent.
func awaitLink(t *testing.T, in *netns.Namespace, device string) {
	t.Helper()
	for deadline := time.Now().Add(adapterPatience); ; time.Sleep(time.Millisecond) {
		var link netlink.Link
		must(t, in.Do(func() (err error) {
			link, err = netlink.LinkByName(device)
			return err
		}))
		if link.Attrs().OperState == netlink.OperUp {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no link: %v", device, link.Attrs().OperState)
		}
	}
}

// adapterPatience bounds waits of tests that succeed.
const adapterPatience = 20 * time.Second

// send sends a frame as the guest.
func (s *adapterSite) send(t *testing.T, f []byte) {
	t.Helper()
	must(t, s.nic.SetWriteDeadline(time.Now().Add(adapterPatience)))
	_, err := s.nic.Write(f)
	must(t, err)
}

// atPort receives a frame at the switch.
func (s *adapterSite) atPort(t *testing.T) []byte {
	t.Helper()
	b, control := make([]byte, adapterFrame), make([]byte, 128)
	for deadline := time.Now().Add(adapterPatience); time.Now().Before(deadline); {
		if n, c, _, _, err := unix.Recvmsg(s.port.fd, b[4:], control, 0); err == nil {
			return restoreTag(b, n, control[:c])
		}
	}
	t.Fatal("no frame arrives at the switch")
	return nil
}

// expectAtPort receives frames of a priority at the switch, by their numbers.
func (s *adapterSite) expectAtPort(t *testing.T, pcp uint8, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if got, want := s.atPort(t), numbered(pcp, n); !bytes.Equal(got, want) {
			t.Fatalf("at the switch: %x, not %x", got, want)
		}
	}
}

// numbered is a frame with a tag and a number.
func numbered(pcp uint8, n int) []byte {
	b := tagged(pcp, 200)
	binary.BigEndian.PutUint64(b[20:], uint64(n))
	return b
}

func tagged(pcp uint8, size int) []byte {
	f := Flow{Src: 1, Dst: 2, Shape: Fixed(size, pcp)}
	return f.Frame(0)
}

func TestAdapterPassesFrames(t *testing.T) {
	s := newAdapterSite(t, 1e9)
	plain := (&Flow{Src: 1, Dst: 2, Shape: func(int) Shape { return Shape{Bytes: 1514} }}).Frame(0)
	for _, f := range [][]byte{plain, plain[:42], tagged(3, 1518), tagged(0, 60), tagged(7, 46)} {
		s.send(t, f)
		padded := append(bytes.Clone(f), make([]byte, max(0, shortest-len(f)))...)
		if got := s.atPort(t); !bytes.Equal(got, padded) {
			t.Errorf("at the switch: %x, not %x", got, padded)
		}
		must(t, s.port.Pause(0, 0)) // which the guest doesn't see
		must(t, s.port.Transmit(padded))
		got := make([]byte, adapterFrame)
		must(t, s.nic.SetReadDeadline(time.Now().Add(adapterPatience)))
		n, err := s.nic.Read(got)
		must(t, err)
		if !bytes.Equal(got[:n], padded) {
			t.Errorf("at the guest: %x, not %x", got[:n], padded)
		}
	}
	if sent := s.Sent(); sent != [8]uint64{0: 3, 3: 1, 7: 1} {
		t.Errorf("sent by priority: %d", sent)
	}
}

// pause pauses priority 3 and waits until the adapter knows.
func (s *adapterSite) pause(t *testing.T, quanta uint16) {
	t.Helper()
	before, _ := s.Pauses(3)
	must(t, s.port.Pause(1<<3, quanta))
	for deadline := time.Now().Add(adapterPatience); ; time.Sleep(time.Millisecond) {
		if xoff, _ := s.Pauses(3); xoff > before {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the adapter ignores the pause")
		}
	}
}

// TestAdapterIsPaused: a pause holds its priority and no other, until XON.
func TestAdapterIsPaused(t *testing.T) {
	s := newAdapterSite(t, 1e6) // pauses for up to 33 s
	s.pause(t, 65535)
	for n := range 4 {
		s.send(t, numbered(3, n))
		s.send(t, numbered(4, n))
	}
	s.expectAtPort(t, 4, 0, 4)
	must(t, s.port.Pause(1<<4, 0))
	s.send(t, numbered(4, 4))
	s.expectAtPort(t, 4, 4, 5)
	must(t, s.port.Pause(1<<3, 0))
	s.expectAtPort(t, 3, 0, 4)
	if xoff, xon := s.Pauses(3); xoff != 1 || xon != 1 {
		t.Errorf("paused %d times, resumed %d times", xoff, xon)
	}
}

// TestAdapterPauseExpires: without XON, a pause ends after its time.
func TestAdapterPauseExpires(t *testing.T) {
	s := newAdapterSite(t, 1e6)
	const quanta = 400 // 0.2 s
	began := time.Now()
	s.pause(t, quanta)
	s.send(t, numbered(3, 0))
	s.expectAtPort(t, 3, 0, 1)
	if took := time.Since(began); took < quanta*512*time.Microsecond {
		t.Errorf("the frame left after %v", took)
	}
}

// TestAdapterStopsGuest: while a priority is paused, the guest can send until the queue is full;
// then all that it has sent leaves, in order.
func TestAdapterStopsGuest(t *testing.T) {
	s := newAdapterSite(t, 1e6)
	s.pause(t, 65535)
	sent := 0
	for ; ; sent++ {
		must(t, s.nic.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
		if _, err := s.nic.Write(numbered(3, sent)); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
		if sent > 100*adapterQueue {
			t.Fatalf("the guest has sent %d frames into a queue of %d", sent, adapterQueue)
		}
	}
	if sent < adapterQueue {
		t.Errorf("the guest could send only %d frames", sent)
	}
	must(t, s.port.Pause(1<<3, 0))
	s.expectAtPort(t, 3, 0, sent)
}
