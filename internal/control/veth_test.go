package control

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/internal/frame"
	"sluice/pfc"
)

// These tests run a Switch in the test's process on real devices, so that a test may call all its
// methods and read all its counters. Hosts are packet sockets of the kernel: they honour no pause,
// and send one only when a test has them do so.

const (
	// patience bounds every wait for events that take well below a second on an idle machine.
	patience   = 30 * time.Second
	hostDevice = "host0" // each in its own namespace

	lossless = 3 // CoS
	lossy    = 0
	greeting = 7 // CoS of frames that only show that the frames before them were handled

	// The lowest speed makes the longest pause: more than half a minute, so that none expires
	// during a test.
	speed     = 1_000_000 // bit/s
	forever   = 65535     // quanta
	quantumNS = pfc.QuantumBits * 1_000_000_000 / speed

	shareFrames = 8 // a port's share of a lossless class before headroom: each frame takes a cell of 2 KiB
)

// yard is a running switch with ports port1 and port2, connected to hosts[0] and hosts[1].
type yard struct {
	*Switch
	t     *testing.T
	home  *netns.Namespace // of the switch
	hosts [2]*station
	sent  [8]uint32 // frames from hosts[0], by CoS
	rates sync.Map  // that devices report, bit/s, by name; veth reports nothing
	asked func()    // called when Run's goroutine asks for a rate; nil: nothing
}

// newYard runs a switch with a watchdog action. The switch ends with the test, without a frame left
// in it.
func newYard(t *testing.T, action config.WatchdogAction, detection time.Duration) *yard {
	t.Helper()
	y := emptyYard(t)
	y.start(fmt.Sprintf(`
memory: {buffers: 2048, buffer_size: 2048B}
classes:
  - {cos: [%d], lossless: true, reserved: 0B, share: %dKiB, headroom: 256KiB}
watchdog: {action: %s, detection: %v, restoration: %v}
ports: [{device: port1, speed: 1M, in_flight: 2KB}, {device: port2, speed: 1M, in_flight: 2KB}]
`, lossless, 2*shareFrames, action, detection, restoration))
	y.awaitState("all links to be up", func(s *State) bool { return s.Ports[0].Up && s.Ports[1].Up })
	y.greet(1, 0) // so that addresses are learned
	y.greet(0, 1)
	return y
}

// emptyYard makes a yard without a switch. The options are for its devices.
func emptyYard(t *testing.T, options ...netns.Option) *yard {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and AF_XDP sockets")
	}
	l, err := netns.New("control")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	home := newNamespace(t, l, "switch")
	y := &yard{t: t, home: home}
	for i := range y.hosts {
		at := newNamespace(t, l, fmt.Sprintf("host%d", i+1))
		if err := l.Veth(home, fmt.Sprintf("port%d", i+1), at, hostDevice, options...); err != nil {
			t.Fatal(err)
		}
		y.hosts[i] = newStation(t, at, i+1)
	}
	return y
}

func newNamespace(t *testing.T, l *netns.Lab, name string) *netns.Namespace {
	t.Helper()
	n, err := l.Namespace(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// build makes a switch, but does not run it.
func (y *yard) build(text string) {
	y.t.Helper()
	c := configtest.Parse(y.t, text)
	err := y.home.Do(func() (err error) {
		y.Switch, err = newSwitch(c, "test", slog.New(slog.NewTextHandler(y.t.Output(), nil)),
			func(device string) (uint64, bool) {
				if y.asked != nil {
					y.asked()
				}
				rate, _ := y.rates.Load(device)
				reported, _ := rate.(uint64)
				return reported, false
			})
		return err
	})
	if err != nil {
		y.t.Fatal(err)
	}
}

// start runs a switch and returns when its ports are open.
func (y *yard) start(text string) {
	y.t.Helper()
	y.build(text)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- y.home.Do(func() error { return y.Run(ctx) }) }()
	y.t.Cleanup(func() {
		// Nothing is on its way to the switch any more.
		_ = y.order(context.Background(), func() error { y.holdTime = 0; return nil }) // fails if it has ended
		end()
		if err := <-done; err != nil {
			y.t.Errorf("the switch did not end well: %v", err)
		}
	})
	until(y.t, "all ports to be open", y.Ready)
}

// state returns the state of the switch.
func (y *yard) state() *State {
	y.t.Helper()
	s, err := y.State()
	if err != nil {
		y.t.Fatal(err)
	}
	return s
}

// awaitState returns the first state for which wanted is true.
func (y *yard) awaitState(what string, wanted func(*State) bool) (s *State) {
	y.t.Helper()
	until(y.t, what, func() bool { s = y.state(); return wanted(s) })
	return s
}

// send sends more frames of a CoS from the first host to the second.
func (y *yard) send(frames int, cos uint8) {
	y.t.Helper()
	for range frames {
		y.hosts[0].send(y.hosts[1], cos, y.sent[cos])
		y.sent[cos]++
	}
}

// greet returns when the switch has handled all that a host has sent so far: the other host has
// received its last frame.
func (y *yard) greet(from, to int) {
	y.t.Helper()
	heard := len(y.hosts[to].received[greeting])
	y.hosts[from].send(y.hosts[to], greeting, 0)
	y.hosts[to].await(greeting, heard+1)
}

// pause has the second host pause the lossless class (0 quanta end the pause), and returns when the
// switch has received that.
func (y *yard) pause(quanta uint16) {
	y.t.Helper()
	y.tell(quanta)
	y.greet(1, 0)
}

// tell is pause without the wait.
func (y *yard) tell(quanta uint16) {
	y.t.Helper()
	h := y.hosts[1]
	b := make([]byte, pfc.FrameLength)
	f := pfc.Frame{Enable: 1 << lossless}
	f.Quanta[lossless] = quanta
	f.Put(b, h.mac)
	h.write(b)
}

// checkReceived checks that the second host has received exactly the frames [from, to) of a CoS.
func (y *yard) checkReceived(cos uint8, from, to uint32) {
	y.t.Helper()
	h := y.hosts[1]
	if h.poll(); len(h.received[cos]) != int(to-from) {
		y.t.Errorf("CoS %d: received %d frames, want %d", cos, len(h.received[cos]), to-from)
	}
	for i, number := range h.received[cos] {
		if number != from+uint32(i) {
			y.t.Fatalf("CoS %d: received frames %v, want %d to %d", cos, h.received[cos], from, to-1)
		}
	}
}

// station sends and receives whole frames through the kernel's stack.
type station struct {
	t        *testing.T
	at       *netns.Namespace
	mac      [6]byte
	fd       int
	received [8][]uint32 // numbers of the frames received, by CoS
	told     []uint16    // quanta for the lossless class in the PFC frames received
	teller   [6]byte     // source address of the last of them
	b        [9600]byte
}

const testType = 0x88b5 // for experiments (IEEE 802)

func newStation(t *testing.T, at *netns.Namespace, number int) *station {
	t.Helper()
	h := &station{t: t, at: at, mac: [6]byte{2, 0, 0, 0, 0, byte(number)}}
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network order
	err := at.Do(func() error {
		device, err := net.InterfaceByName(hostDevice)
		if err != nil {
			return err
		}
		if h.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
			all); err != nil {
			return err
		}
		return unix.Bind(h.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: device.Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(h.fd) })
	return h
}

// send sends a frame of minimum length.
func (h *station) send(to *station, cos uint8, number uint32) {
	h.t.Helper()
	h.sendLong(to, cos, number, 60)
}

// sendLong sends a frame of a length in bytes. The kernel strips the VLAN tag of received frames,
// so the payload repeats the CoS.
func (h *station) sendLong(to *station, cos uint8, number uint32, length int) {
	h.t.Helper()
	b := slices.Concat(to.mac[:], h.mac[:], []byte{0x81, 0, cos << 5, 100, testType >> 8, testType & 0xff, cos})
	b = binary.BigEndian.AppendUint32(b, number)
	for len(b) < length {
		b = append(b, byte(len(b)*251>>8))
	}
	h.write(b)
}

func (h *station) write(b []byte) {
	h.t.Helper()
	if _, err := unix.Write(h.fd, b); err != nil {
		h.t.Fatal(err)
	}
}

// poll reads the frames that have arrived.
func (h *station) poll() {
	h.t.Helper()
	for {
		n, err := unix.Read(h.fd, h.b[:])
		if err == unix.EAGAIN || err == unix.EINTR {
			return
		}
		if err == unix.ENETDOWN { // told once after its device was set down
			continue
		}
		if err != nil {
			h.t.Fatal(err)
		}
		b := h.b[:n]
		switch kind := binary.BigEndian.Uint16(b[12:]); kind {
		case testType:
			for i := 19; i < n; i++ {
				if b[i] != byte((i+4)*251>>8) { // it was sent with a tag
					h.t.Fatalf("byte %d of a frame of %d bytes has changed", i, n)
				}
			}
			h.received[b[14]] = append(h.received[b[14]], binary.BigEndian.Uint32(b[15:]))
		case unix.ETH_P_PAUSE:
			var f pfc.Frame
			if what, _ := pfc.Decode(b, &f); what != pfc.PFC || f.Enable != 1<<lossless {
				h.t.Fatalf("received %v for priorities %08b", what, f.Enable)
			}
			h.told, h.teller = append(h.told, f.Quanta[lossless]), [6]byte(b[6:])
		case frame.TypeLoopback: // a probe of the loop guard
		default:
			h.t.Fatalf("received a frame of type %#x, which nobody sent", kind)
		}
	}
}

// await returns when a given number of frames of a CoS have arrived in total.
func (h *station) await(cos uint8, frames int) {
	h.t.Helper()
	until(h.t, fmt.Sprintf("%d frames of CoS %d", frames, cos), func() bool {
		h.poll()
		return len(h.received[cos]) >= frames
	})
}

// until waits until done returns true.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(500 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
