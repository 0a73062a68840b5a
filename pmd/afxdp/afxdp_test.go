package afxdp

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"sluice/bench/netns"
	"sluice/internal/linux/ethtool"
	"sluice/pmd"
	"sluice/pmd/transmitter"
)

// txEngine is the sender in the tests of ports: -tx resident runs all of them with the transmitter.
var txEngine = flag.String("tx", TXSocket, "who transmits: "+TXSocket+" or "+TXTransmitter)

// transmitterCPU is shared with all other threads: test machines have two CPUs.
const transmitterCPU = 1

// newTransmitter starts a transmitter that runs until the test ends.
func newTransmitter(t testing.TB, memory, ring int) *transmitter.Transmitter {
	t.Helper()
	r, err := transmitter.Start(transmitter.Params{CPU: transmitterCPU, Memory: memory, Ports: 4, Ring: ring})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// takeRedirects makes the device's peer accept redirected frames or not, wherever the peer is.
func takeRedirects(t testing.TB, n *netns.Namespace, device string, yes bool) {
	t.Helper()
	err := n.Do(func() error {
		tool, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer tool.Close()
		return tool.SetFeatures(device, map[string]bool{"rx-gro": yes})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// cable is two namespaces with a veth pair between them.
type cable struct {
	lab         *netns.Lab
	left, right *netns.Namespace
}

const leftDevice, rightDevice = "left0", "right0"

// deleteLeft deletes the left device, and so the right one.
func (c *cable) deleteLeft(t *testing.T) {
	t.Helper()
	if err := c.left.Do(func() error {
		l, err := findLink(leftDevice)
		return errors.Join(err, netlink.LinkDel(l))
	}); err != nil {
		t.Fatal(err)
	}
}

func newCable(t testing.TB, options ...netns.Option) cable {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: AF_XDP sockets on devices in network namespaces")
	}
	l, err := netns.New("afxdp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	c := cable{lab: l}
	for name, n := range map[string]**netns.Namespace{"left": &c.left, "right": &c.right} {
		if *n, err = l.Namespace(name); err != nil {
			t.Fatal(err)
		}
	}
	if *txEngine == TXTransmitter {
		options = append(options, netns.GRO())
	}
	if err := l.Veth(c.left, leftDevice, c.right, rightDevice, options...); err != nil {
		t.Fatal(err)
	}
	return c
}

func newMemory(t testing.TB, bytes int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	return mem
}

const bufferSize = 2048

// station is a port and its owner, who tracks where each buffer is.
type station struct {
	*Port
	t     testing.TB
	mem   []byte
	size  uint64   // bytes of a buffer
	free  []uint64 // addresses of buffers
	where []place  // by buffer number
}

type place uint8

const (
	free place = iota
	inFill
	inTX
)

// newStation opens a port with its own memory, and fills it with the first fill buffers.
func newStation(t testing.TB, n *netns.Namespace, c Config, buffers, fill int) *station {
	t.Helper()
	return newStationAt(t, n, c, 0, buffers, fill)
}

// newStationAt uses the buffers from first on, in a memory that it may share with others.
func newStationAt(t testing.TB, n *netns.Namespace, c Config, first, buffers, fill int) *station {
	t.Helper()
	c.BufferSize = cmp.Or(c.BufferSize, bufferSize)
	size := c.BufferSize
	switch {
	case c.Transmitter != nil: // the test's own
		c.Memory = c.Transmitter.Memory()
	case *txEngine == TXTransmitter:
		c.Transmitter = newTransmitter(t, buffers*size, cmp.Or(c.RingSize, defaultRingSize))
		c.Memory = c.Transmitter.Memory()
	default:
		c.Memory = newMemory(t, buffers*size)
	}
	s := &station{t: t, mem: c.Memory, size: uint64(size), where: make([]place, first+buffers)}
	for i := range buffers {
		s.free = append(s.free, uint64((first+i)*size))
	}
	c.Fill = s.take(fill, inFill)
	err := n.Do(func() (err error) {
		s.Port, err = Open(c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if who, why := s.TX(); who == TXSocket && *txEngine == TXTransmitter && s.program.native {
		t.Logf("%s transmits: %v", who, why)
	}
	return s
}

// transmitted reports whether the transmitter is the sender.
func (s *station) transmitted() bool {
	who, _ := s.TX()
	return who == TXTransmitter
}

func (s *station) take(n int, to place) []uint64 {
	n = min(n, len(s.free))
	taken := slices.Clone(s.free[len(s.free)-n:])
	s.free = s.free[:len(s.free)-n]
	for _, a := range taken {
		s.where[a/s.size] = to
	}
	return taken
}

// back takes back a buffer, which must have been in the given place.
func (s *station) back(addr uint64, from place) {
	s.t.Helper()
	i := addr / s.size
	if s.where[i] != from {
		s.t.Fatalf("buffer %d came back from %d, it was in %d", i, from, s.where[i])
	}
	s.where[i] = free
	s.free = append(s.free, i*s.size)
}

func (s *station) held(in place) (n int) {
	for _, w := range s.where {
		if w == in {
			n++
		}
	}
	return n
}

func (s *station) refill(n int) {
	addrs := s.take(n, inFill)
	took := s.Fill(addrs)
	for _, a := range addrs[took:] {
		s.back(a, inFill)
	}
}

// send hands over as many frames as fit and returns their number.
func (s *station) send(frames ...[]byte) int {
	var burst []pmd.Desc
	for _, f := range frames {
		parts := s.parted(f)
		if parts == nil {
			break
		}
		burst = append(burst, parts...)
	}
	took, sent := s.Transmit(burst), 0
	for i, d := range burst {
		switch {
		case i >= took:
			s.back(d.Addr, inTX)
		case d.Options == 0:
			sent++
		}
	}
	return sent
}

// parted puts a frame into as few free buffers as hold it, or returns nil if there are too few.
func (s *station) parted(frame []byte) (burst []pmd.Desc) {
	addrs := s.take((len(frame)+int(s.size)-1)/int(s.size), inTX)
	for _, a := range addrs {
		n := copy(s.mem[a:a+s.size], frame)
		frame = frame[n:]
		burst = append(burst, pmd.Desc{Addr: a, Len: uint32(n), Options: pmd.Continued})
	}
	if len(frame) > 0 {
		for _, a := range addrs {
			s.back(a, inTX)
		}
		return nil
	}
	burst[len(burst)-1].Options = 0
	return burst
}

func (s *station) reap() (n int) {
	var addrs [64]uint64
	n = s.Complete(addrs[:])
	for _, a := range addrs[:n] {
		s.back(a, inTX)
	}
	return n
}

func (s *station) receive() (frames [][]byte) { return s.receiveBurst(64) }

// receiveBurst receives whole frames of up to n parts together. Each part but the last fills its
// buffer.
func (s *station) receiveBurst(n int) (frames [][]byte) {
	burst := make([]pmd.Desc, n)
	var frame []byte
	for _, d := range burst[:s.Receive(burst)] {
		if d.Options&^pmd.Continued != 0 || d.Addr/s.size != (d.Addr+uint64(d.Len)-1)/s.size ||
			d.Options != 0 && int(d.Len) != room(int(s.size)) {
			s.t.Fatalf("not a part of a frame in one buffer: %+v", d)
		}
		frame = append(frame, s.mem[d.Addr:d.Addr+uint64(d.Len)]...)
		s.back(d.Addr, inFill)
		if d.Options == 0 {
			frames, frame = append(frames, frame), nil
		}
	}
	if frame != nil {
		s.t.Fatalf("a frame without its end: %d bytes", len(frame))
	}
	return frames
}

// until repeats step until it returns true, for up to 5 seconds.
func until(t testing.TB, what string, step func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !step(); {
		if time.Now().After(end) {
			t.Fatalf("after 5 s still not: %s", what)
		}
	}
}

// carry sends frames from one station to the other, completes all, and returns those that arrived.
// A slow receiver does not push back, because veth's NAPI drops frames that its rings can't take.
// So the sender is never ahead by more than the length of veth's ring.
func carry(t testing.TB, from, to *station, frames [][]byte) (arrived [][]byte) {
	t.Helper()
	sent := 0
	until(t, "all frames there", func() bool {
		from.reap()
		if room := vethRing - (sent - len(arrived)); room >= 64 {
			sent += from.send(frames[sent:min(sent+64, len(frames))]...)
		}
		from.Flush()
		got := to.receive()
		arrived = append(arrived, got...)
		to.refill(buffersOf(got, room(int(to.size))))
		to.Flush()
		return len(arrived) >= len(frames)
	})
	until(t, "all frames completed", func() bool { from.Flush(); from.reap(); return from.held(inTX) == 0 })
	return arrived
}

// buffersOf returns how many parts of up to part bytes frames have.
func buffersOf(frames [][]byte, part int) (n int) {
	for _, f := range frames {
		n += (len(f) + part - 1) / part
	}
	return n
}

// vethRing is the length of veth's receive ring in frames (VETH_RING_SIZE, drivers/net/veth.c).
const vethRing = 256

// taggedFrame returns a frame with an 802.1Q tag, random content and a number.
func taggedFrame(r *rand.Rand, length, number int) []byte {
	f := make([]byte, length)
	for i := range f {
		f[i] = byte(r.Uint32())
	}
	f[0] &^= 1
	binary.BigEndian.PutUint16(f[12:], 0x8100)
	binary.BigEndian.PutUint16(f[14:], uint16(number)) // every priority and VLAN in turn
	binary.BigEndian.PutUint32(f[18:], uint32(number))
	return f
}

func taggedFrames(n int) (frames [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		frames = append(frames, taggedFrame(r, 60+r.IntN(1518+1-60), i))
	}
	return frames
}

func equalFrames(t testing.TB, want, got [][]byte) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if !bytes.Equal(want[i], got[i]) {
			t.Fatalf("frame %d differs:\nsent     %x\nreceived %x", i, want[i], got[i])
		}
	}
	if len(want) != len(got) {
		t.Fatalf("%d frames sent, %d received", len(want), len(got))
	}
}

// prepared prepares a device until the test ends. Call it before the device's station, so that the
// port is closed first.
func prepared(t testing.TB, n *netns.Namespace, device string, o Options) (s *Settings) {
	t.Helper()
	err := n.Do(func() (err error) {
		s, err = Prepare(device, o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Do(s.Restore); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestFramesCrossUnchangedAndInOrder(t *testing.T) {
	for _, test := range []struct {
		name, mode string
		left       Config
		options    Options
		queues     int // if > 1, left's peer has more transmit queues than left has receive queues
	}{
		{"native", "copy (native)", Config{}, Options{}, 1},
		{"generic", "copy (generic)", Config{Mode: Copy}, Options{}, 2},
		{"busy polling", "copy (native)", Config{RingSize: 512}, Options{BusyPoll: true}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCable(t, netns.Queues(test.queues))
			prepared(t, c.left, leftDevice, test.options)
			test.left.Device = leftDevice
			left := newStation(t, c.left, test.left, 4096, 1024)
			prepared(t, c.right, rightDevice, Options{})
			right := newStation(t, c.right, Config{Device: rightDevice}, 4096, 1024)
			left.busyPoll = test.options.BusyPoll // as of a socket that the kernel polls for
			if m := left.Mode(); m != test.mode || right.Mode() != "copy (native)" {
				t.Errorf("modes %q, %q", m, right.Mode())
			}
			frames := taggedFrames(3000)
			equalFrames(t, frames, carry(t, left, right, frames))
			equalFrames(t, frames, carry(t, right, left, frames))
			for _, s := range []*station{left, right} {
				if st := s.Stats(); st.Lost() != 0 || st.TXWakeups == 0 && !s.transmitted() ||
					s.State() != StateRunning {
					t.Errorf("state %v, statistics %+v", s.State(), st)
				}
			}
			if (left.Stats().RXWakeups > 0) != test.options.BusyPoll {
				t.Errorf("busy polling: statistics %+v", left.Stats())
			}
			if napi, err := unix.GetsockoptInt(left.fd, unix.SOL_SOCKET, unix.SO_INCOMING_NAPI_ID); err != nil ||
				(napi != 0) != olderThan(6, 13) {
				t.Errorf("after frames, the kernel polls NAPI %d for the socket, %v", napi, err)
			}
		})
	}
}

func TestBuffersAreConserved(t *testing.T) {
	c := newCable(t)
	const buffers = 200
	left := newStation(t, c.left, Config{Device: leftDevice, RingSize: 64}, buffers, 32)
	right := newStation(t, c.right, Config{Device: rightDevice, RingSize: 64}, buffers, 32)
	r := rand.New(rand.NewPCG(3, 4))
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s := []*station{left, right}[rapid.IntRange(0, 1).Draw(t, "side")]
			n := rapid.IntRange(0, 100).Draw(t, "n")
			switch rapid.SampledFrom([]string{"fill", "send", "reap", "receive", "flush"}).Draw(t, "do") {
			case "fill":
				s.refill(n)
			case "send":
				var frames [][]byte
				for range n {
					frames = append(frames, taggedFrame(r, 60+r.IntN(1000), n))
				}
				s.send(frames...)
			case "reap":
				s.reap()
			case "receive":
				s.receive()
			case "flush":
				s.Flush()
			}
		}
	})
	// At rest, all buffers handed over for sending are back, and the missing ones are held by the
	// fill ring. back has checked each return.
	for _, s := range []*station{left, right} {
		until(t, "everything sent is back", func() bool { s.Flush(); s.reap(); return s.held(inTX) == 0 })
	}
	for _, s := range []*station{left, right} {
		for len(s.receive()) > 0 {
		}
		if held := s.held(inFill); held+len(s.free) != buffers {
			t.Errorf("%d buffers in the fill ring and %d free are not %d", held, len(s.free), buffers)
		}
		if st := s.Stats(); st.RXInvalid+st.TXInvalid > 0 {
			t.Errorf("invalid descriptors: %+v", st)
		}
	}
	// Each buffer held by the fill ring can still receive a frame: the kernel lost none.
	for _, pair := range [][2]*station{{left, right}, {right, left}} {
		from, to, got := pair[0], pair[1], 0
		want := to.held(inFill)
		until(t, "a frame in each buffer", func() bool {
			from.reap()
			if from.held(inTX) == 0 {
				from.send(taggedFrame(r, 60, 0))
			}
			from.Flush()
			got += len(to.receive())
			return got >= want
		})
		until(t, "everything sent is back", func() bool { from.Flush(); from.reap(); return from.held(inTX) == 0 })
	}
}

func TestFullTXRingDrains(t *testing.T) {
	c := newCable(t)
	left := newStation(t, c.left, Config{Device: leftDevice, RingSize: 64}, 512, 0)
	right := newStation(t, c.right, Config{Device: rightDevice}, 1024, 1024)
	frames := taggedFrames(200)
	if n := left.send(frames...); n != 64 {
		t.Fatalf("a ring of 64 took %d frames", n)
	}
	if n := left.send(frames[64:]...); n != 0 {
		t.Fatalf("a full ring took %d frames", n)
	}
	sent, uncompleted := 64, 128
	if left.transmitted() {
		uncompleted = 64 // its ring also holds the completions
	}
	var arrived [][]byte
	until(t, "frames there as long as there is room for completions", func() bool { // without a Complete
		left.Flush()
		sent += left.send(frames[sent:]...)
		arrived = append(arrived, right.receive()...)
		return len(arrived) == uncompleted
	})
	left.Flush()
	if n := left.tx.Len(); n == 0 && !left.transmitted() || left.State() != StateRunning {
		t.Errorf("%d frames wait for room in the completion ring, state %v", n, left.State())
	}
	until(t, "the rest there", func() bool {
		left.reap()
		sent += left.send(frames[sent:]...)
		left.Flush()
		arrived = append(arrived, right.receive()...)
		return len(arrived) == 200 && left.held(inTX) == 0
	})
	equalFrames(t, frames, arrived)
	if s := left.Stats(); s.TXDropped != 0 {
		t.Errorf("statistics %+v", s)
	}
}

// rawSocket returns an AF_PACKET socket on a device: a host without AF_XDP.
func rawSocket(t testing.TB, n *netns.Namespace, device string) int {
	t.Helper()
	var fd int
	err := n.Do(func() error {
		link, err := findLink(device)
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // network order
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return err
		}
		// A redirected frame counts as the whole page that holds it, whatever its length.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestKernelStackPeer checks the frames with an independent implementation, the kernel's own stack.
func TestKernelStackPeer(t *testing.T) {
	c := newCable(t)
	port := newStation(t, c.left, Config{Device: leftDevice}, 1024, 512)
	host := rawSocket(t, c.right, rightDevice)
	frames := taggedFrames(60)
	for _, f := range frames {
		f[13] = 0x08 // not 802.1Q: the stack would take the tag out before it shows the frame to a packet socket
		f[12] = 0x88 // also tests MAC control (trap 17)
	}
	port.send(frames...)
	port.Flush()
	b := make([]byte, 4096)
	for i, f := range frames {
		n, _, err := unix.Recvfrom(host, b, 0)
		if n = max(n, 0); err != nil || !bytes.Equal(f, b[:n]) {
			t.Fatalf("frame %d: %v\nsent     %x\nreceived %x", i, err, f, b[:n])
		}
	}
	frames = taggedFrames(60)
	for _, f := range frames {
		if _, err := unix.Write(host, f); err != nil {
			t.Fatal(err)
		}
	}
	var arrived [][]byte
	until(t, "the host's frames there", func() bool {
		arrived = append(arrived, port.receive()...)
		return len(arrived) == len(frames)
	})
	equalFrames(t, frames, arrived)
}

func TestLossIsCounted(t *testing.T) {
	c := newCable(t)
	left := newStation(t, c.left, Config{Device: leftDevice}, 512, 0)
	right := newStation(t, c.right, Config{Device: rightDevice, RingSize: 32}, 512, 0)
	push := func(n int) {
		left.send(taggedFrames(n)...)
		until(t, "sent", func() bool { left.Flush(); left.reap(); return left.held(inTX) == 0 })
	}
	dropped := func(n uint64) { // a transmitter's frames arrive with a delay
		t.Helper()
		until(t, "dropped", func() bool { s := right.Stats(); return s.RXDropped+s.RXRingFull >= n })
	}
	push(10) // no buffers
	dropped(10)
	if s := right.Stats(); s.RXFillEmpty != 10 || s.RXDropped != 10 || s.RXRingFull != 0 || s.Lost() == 0 {
		t.Errorf("10 frames and an empty fill ring: %+v", s)
	}
	right.refill(50) // an RX ring of 32
	push(40)
	dropped(18)
	if s := right.Stats(); s.RXRingFull != 8 || s.RXFillEmpty != 10 {
		t.Errorf("40 frames and an RX ring of 32: %+v", s)
	}
	for n := 0; n < 32; {
		n += len(right.receive())
	}
	before := left.Stats()
	if err := setDown(c.right, rightDevice); err != nil {
		t.Fatal(err)
	}
	push(5) // no carrier: each frame is dropped, with one EBUSY each
	if left.transmitted() {
		until(t, "5 frames and no carrier", func() bool { return left.Stats().TXDropped == 5 })
		return
	}
	if s := left.Stats(); s.TXDropped != 5 || s.TXWakeups < before.TXWakeups+5 || left.State() != StateRunning {
		t.Errorf("5 frames and no carrier: %+v, state %v", s, left.State())
	}
}

func setDown(n *netns.Namespace, device string) error {
	return n.Do(func() error {
		link, err := findLink(device)
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	})
}

func TestDeviceGoesDownAndAway(t *testing.T) {
	c := newCable(t)
	left := newStation(t, c.left, Config{Device: leftDevice}, 512, 64)
	right := newStation(t, c.right, Config{Device: rightDevice}, 512, 64)
	frames := taggedFrames(10)
	if err := setDown(c.left, leftDevice); err != nil {
		t.Fatal(err)
	}
	left.SetLink(false) // as the control plane does
	left.send(frames...)
	left.Flush()
	if s := left.State(); !left.transmitted() && (s != StateDown || left.tx.Len() != 10) {
		t.Errorf("down: state %v, %d frames wait", s, left.tx.Len())
	}
	err := c.left.Do(func() error {
		link, err := findLink(leftDevice)
		return errors.Join(err, netlink.LinkSetUp(link))
	})
	if err != nil {
		t.Fatal(err)
	}
	if left.transmitted() { // it keeps no frames
		until(t, "10 frames for no link", func() bool { left.reap(); return left.held(inTX) == 0 })
		left.SetLink(true)
		equalFrames(t, frames, carry(t, left, right, frames))
		if s := left.Stats(); s.TXDropped != 10 {
			t.Errorf("up again: %+v", s)
		}
	} else {
		equalFrames(t, frames, carry(t, left, right, frames)[:10]) // waiting frames come first
	}
	if s := left.State(); s != StateRunning {
		t.Errorf("up again: state %v", s)
	}
	c.deleteLeft(t)
	for range 3 {
		left.send(frames...)
		left.refill(10)
		left.Flush()
		left.receive()
		left.reap()
	}
	if s := left.State(); s != StateGone && !left.transmitted() {
		t.Errorf("deleted: state %v", s)
	}
	if left.transmitted() {
		until(t, "30 frames for no device", func() bool { left.reap(); return left.Stats().TXDropped >= 30 })
	}
	for _, s := range []*station{left, right} {
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestStatsWhileClosing(t *testing.T) {
	c := newCable(t)
	left := newStation(t, c.left, Config{Device: leftDevice}, 64, 0)
	var done sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					left.Stats()
					left.State()
				}
			}
		})
	}
	left.send(taggedFrames(8)...)
	until(t, "8 frames gone", func() bool { left.Flush(); left.reap(); return left.held(inTX) == 0 })
	before := left.Stats()
	if err := left.Close(); err != nil {
		t.Error(err)
	}
	close(stop)
	done.Wait()
	if s := left.Stats(); s.TXWakeups == 0 && *txEngine == TXSocket || s.TXWakeups != before.TXWakeups {
		t.Errorf("after Close %+v, before %+v", s, before)
	}
}

// xdpOf returns the mode in which an XDP program is attached to a device, "" if none is.
func xdpOf(t testing.TB, n *netns.Namespace, device string) (mode string) {
	t.Helper()
	err := n.Do(func() error {
		d, err := findDevice(device)
		mode = d.xdpMode
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return mode
}

func TestCloseLeavesNothing(t *testing.T) {
	c := newCable(t)
	for range 5 { // in quick succession: the queue must be free again
		left := newStation(t, c.left, Config{Device: leftDevice}, 64, 32)
		if m := xdpOf(t, c.left, leftDevice); m != "native" {
			t.Fatalf("attached %q", m)
		}
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
		if m := xdpOf(t, c.left, leftDevice); m != "" {
			t.Fatalf("after Close a program is still attached (%s)", m)
		}
	}
}

func TestWaitFree(t *testing.T) {
	c := newCable(t)
	left := newStation(t, c.left, Config{Device: leftDevice}, 64, 0)
	at := left.bound
	if err := c.left.Do(func() error { return waitFree(at, 1) }); err == nil {
		t.Error("a queue that a socket is bound to is free")
	}
	left.Close()
	if err := c.left.Do(func() error { return waitFree(at, bindTries) }); err != nil {
		t.Error(err)
	}
	if err := c.left.Do(func() error { return waitFree(&unix.SockaddrXDP{Ifindex: 4711}, 1) }); err != nil {
		t.Errorf("a device that is gone: %v", err)
	}
}

// TestCloseOfAHeldQueue: Close fails until the kernel has freed the queue of a zero-copy port. Here
// another socket has the queue.
func TestCloseOfAHeldQueue(t *testing.T) {
	c := newCable(t)
	left := newStation(t, c.left, Config{Device: leftDevice}, 64, 0)
	s, err := newSocket(Config{Memory: left.mem, BufferSize: bufferSize, RingSize: 64}, 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.zeroCopy, s.bound = true, left.bound
	p := &Port{socket: s}
	for range 2 {
		if err := c.left.Do(p.Close); !errors.Is(err, ErrHeld) {
			t.Errorf("the queue is in use: %v", err)
		}
	}
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the queue is free", func() bool { return c.left.Do(p.Close) == nil })
	if err := c.left.Do(p.Close); err != nil {
		t.Errorf("once more: %v", err)
	}
}

func TestInvalidDescriptorsPanic(t *testing.T) {
	c := newCable(t)
	p := newStation(t, c.left, Config{Device: leftDevice, RingSize: 64}, 4, 0)
	end := uint64(len(p.mem))
	good := pmd.Desc{Addr: bufferSize, Len: 60}
	for _, d := range []pmd.Desc{
		{Addr: end, Len: 60}, {Addr: 1 << 63, Len: 60}, {Addr: ^uint64(0), Len: 1}, // outside
		// beyond its buffer
		{Addr: end - 59, Len: 60}, {Addr: bufferSize - 1, Len: 60}, {Addr: 0, Len: bufferSize + 1},
		{Addr: 0, Len: ^uint32(0)},
		{Addr: 0, Len: 0}, {Addr: 0, Len: 13}, // no frame
		{Addr: 0, Len: 60, Options: unix.XDP_PKT_CONTD}, {Addr: 0, Len: 60, Options: 1 << 31}, // not whole
	} {
		if !panics(func() { p.Transmit([]pmd.Desc{good, d, good}) }) {
			t.Errorf("taken: %+v", d)
		}
	}
	for _, a := range []uint64{end, 1 << 63, ^uint64(0)} {
		if !panics(func() { p.Fill([]uint64{0, a}) }) {
			t.Errorf("taken for the fill ring: %#x", a)
		}
	}
	if n := p.Transmit([]pmd.Desc{{Addr: 0, Len: bufferSize}, {Addr: end - 60, Len: 60},
		{Addr: 100, Len: 14}}); n != 3 {
		t.Errorf("of 3 valid frames %d were taken", n)
	}
	if n := p.Fill([]uint64{0, end - 1}); n != 2 {
		t.Errorf("of 2 valid addresses %d were taken", n)
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestBurstsDoNotAllocate(t *testing.T) {
	c := newCable(t)
	left := newStation(t, c.left, Config{Device: leftDevice}, 1024, 256)
	right := newStation(t, c.right, Config{Device: rightDevice}, 1024, 256)
	pump := newPump(left, right)
	if n := testing.AllocsPerRun(100, func() { pump.step() }); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
	until(t, "something there", func() bool { pump.step(); return pump.received > 0 })
}

func TestFillSize(t *testing.T) {
	for _, test := range []struct{ rings, device, want int }{
		{2048, 0, 4096}, {2048, 512, 4096}, {2048, 2048, 4096}, {2048, 4096, 8192}, {64, 64, 128}, {64, 256, 512},
		{1, 0, 2},
	} {
		if got := fillSize(test.rings, test.device); got != test.want {
			t.Errorf("fillSize(%d, %d) = %d, not %d", test.rings, test.device, got, test.want)
		}
	}
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(5, 6)) }
