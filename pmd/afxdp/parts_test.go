package afxdp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"sluice/bench/netns"
	"sluice/pmd"
	"sluice/pmd/transmitter"
)

const (
	jumboMTU  = 9216
	jumboMost = jumboMTU + ethernetHeader + tag // bytes of the longest frame
)

// newJumbo returns a cable for jumbo frames with prepared devices, and a port at each end. c holds
// what both ports have in common.
func newJumbo(t testing.TB, c Config, buffers, fill int) (cable, [2]*station) {
	t.Helper()
	wire := newCable(t, netns.MTU(jumboMTU))
	var s [2]*station
	for i, end := range wire.ends() {
		prepared(t, end.n, end.device, Options{})
		c.Device = end.device
		s[i] = newStation(t, end.n, c, buffers, fill)
	}
	return wire, s
}

// end is an end of a cable.
type end struct {
	n      *netns.Namespace
	device string
}

func (c cable) ends() [2]end { return [2]end{{c.left, leftDevice}, {c.right, rightDevice}} }

// jumboFrames returns frames of all lengths around the borders between one, two and more parts of
// buffers of size bytes, and n of random lengths.
func jumboFrames(size, n int) (frames [][]byte) {
	r := newRand()
	lengths := []int{minFrame, minFrame + 1, 59, 60, 1518, jumboMost - 1, jumboMost}
	for border := room(size); border < jumboMost; border += room(size) {
		for d := -2; d <= 2; d++ {
			lengths = append(lengths, border+d)
		}
	}
	for range n {
		lengths = append(lengths, minFrame+r.IntN(jumboMost-minFrame+1))
	}
	for i, length := range lengths {
		frames = append(frames, taggedFrame(r, max(length, 22), i)[:length])
	}
	return frames
}

// TestPartsCrossUnchanged sends frames of 14 to 9234 bytes there and back, in buffers of both
// sizes.
func TestPartsCrossUnchanged(t *testing.T) {
	for _, size := range []int{2048, 4096} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			_, s := newJumbo(t, Config{BufferSize: size}, 4096, 1536)
			frames := jumboFrames(size, 2000)
			equalFrames(t, frames, carry(t, s[0], s[1], frames))
			equalFrames(t, frames, carry(t, s[1], s[0], frames))
			for _, s := range s {
				if st := s.Stats(); st.Lost() != 0 || st.RXInvalid != 0 || s.Parts() != pmd.MaxParts-1 {
					t.Errorf("%d parts, statistics %+v", s.Parts(), st)
				}
			}
		})
	}
}

// TestPartsInGenericMode: without native XDP, too, frames of several parts cross.
func TestPartsInGenericMode(t *testing.T) {
	c := newCable(t, netns.MTU(jumboMTU), netns.Queues(2))
	prepared(t, c.left, leftDevice, Options{})
	left := newStation(t, c.left, Config{Device: leftDevice, BufferSize: 4096}, 4096, 1536)
	prepared(t, c.right, rightDevice, Options{})
	right := newStation(t, c.right, Config{Device: rightDevice, BufferSize: 4096}, 4096, 1536)
	if m := left.Mode(); m != Generic {
		t.Fatalf("mode %s", m)
	}
	frames := jumboFrames(4096, 500)
	equalFrames(t, frames, carry(t, left, right, frames))
	equalFrames(t, frames, carry(t, right, left, frames))
}

// TestPartsInCopyMode: a device without zero-copy mode is bound in copy mode, and the port says
// why. Zero-copy mode is refused.
func TestPartsInCopyMode(t *testing.T) {
	c := newCable(t, netns.MTU(jumboMTU))
	left := newStation(t, c.left, Config{Device: leftDevice, BufferSize: 4096}, 64, 8)
	options, err := getsockopt[uint32](left.fd, unix.SOL_XDP, unix.XDP_OPTIONS)
	if err != nil || options&unix.XDP_OPTIONS_ZEROCOPY != 0 || left.bound.Flags&unix.XDP_COPY == 0 ||
		left.bound.Flags&unix.XDP_USE_SG == 0 {
		t.Errorf("options %#x, %v, bound with %#x", options, err, left.bound.Flags)
	}
	if m, why := left.Mode(), left.Fallback(); m != "copy (native)" || !errors.Is(why, ErrZeroCopy) {
		t.Errorf("mode %s, because %v", m, why)
	}
	left.Close()
	err = c.left.Do(func() error {
		_, err := Open(Config{Device: leftDevice, BufferSize: 4096, Memory: left.mem, Mode: ZeroCopy})
		return err
	})
	if !errors.Is(err, ErrZeroCopy) || !strings.Contains(err.Error(), "choose copy mode") {
		t.Errorf("zero-copy mode: %v", err)
	}
}

// TestBurstHoldsWholeFrames: a burst ends with the last frame that fits. One too short for the
// first frame gets nothing.
func TestBurstHoldsWholeFrames(t *testing.T) {
	_, s := newJumbo(t, Config{BufferSize: 4096}, 512, 256)
	from, to := s[0], s[1]
	r := newRand()
	var frames [][]byte
	for i, length := range []int{9000, 60, 5000, 9000, 60, 9000} { // 3 + 1 + 2 + 3 + 1 + 3 parts
		frames = append(frames, taggedFrame(r, length, i))
	}
	from.send(frames...)
	until(t, "all there", func() bool { from.Flush(); from.reap(); return to.Waiting() == 13 })
	var arrived [][]byte
	for _, burst := range []struct{ room, frames, left int }{
		{0, 0, 13}, {1, 0, 13}, {2, 0, 13}, {3, 1, 10}, {2, 1, 9}, {4, 1, 7}, {3, 1, 4}, {pmd.MaxParts, 2, 0},
	} {
		got := to.receiveBurst(burst.room)
		arrived = append(arrived, got...)
		if left := to.Waiting(); len(got) != burst.frames || left != burst.left {
			t.Fatalf("a burst of %d: %d frames, %d parts left, not %+v", burst.room, len(got), left, burst)
		}
	}
	equalFrames(t, frames, arrived)
}

// TestPartsFindNoRoom: frames that do not find room for all their parts are dropped whole and
// counted. No buffer is lost.
func TestPartsFindNoRoom(t *testing.T) {
	for _, test := range []struct {
		name               string
		ring, fill         int
		frames, arrive     []int // lengths
		full, dropped, dry uint64
	}{
		{"RX ring", 8, 16, []int{9000, 9000, 9000, 60, 60, 60}, []int{9000, 9000, 60, 60}, 2, 0, 0},
		{"fill ring", 64, 8, []int{9000, 9000, 9000, 60, 60, 60}, []int{9000, 9000, 60, 60}, 0, 2, 1},
		{"one buffer", 64, 1, []int{9000, 60}, []int{60}, 0, 1, 0},
		{"no buffer", 64, 0, []int{9000, 60}, nil, 0, 2, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCable(t, netns.MTU(jumboMTU))
			left := newStation(t, c.left, Config{Device: leftDevice, BufferSize: 4096}, 64, 0)
			right := newStation(t, c.right, Config{Device: rightDevice, BufferSize: 4096, RingSize: test.ring}, 64,
				test.fill)
			var frames, want [][]byte
			r := newRand()
			for i, n := range test.frames {
				frames = append(frames, taggedFrame(r, n, i))
			}
			left.send(frames...)
			until(t, "sent", func() bool { left.Flush(); left.reap(); return left.held(inTX) == 0 })
			got := right.receive()
			for _, f := range frames {
				if i := len(want); i < len(test.arrive) && test.arrive[i] == len(f) {
					want = append(want, f)
				}
			}
			equalFrames(t, want, got)
			s := right.Stats()
			if s.RXRingFull != test.full || s.RXDropped != test.dropped || s.RXFillEmpty != test.dry {
				t.Errorf("RX ring full %d, dropped %d, fill ring empty %d: %+v", test.full, test.dropped, test.dry, s)
			}
			if int(s.Lost()) != len(frames)-len(got) {
				t.Errorf("%d of %d frames arrived, %d are counted as lost", len(got), len(frames), s.Lost())
			}
			right.refill(64) // the kernel has kept none of the others
			held := right.held(inFill)
			for range held / 3 {
				left.send(frames[0])
				until(t, "sent", func() bool { left.Flush(); left.reap(); return left.held(inTX) == 0 })
				equalFrames(t, frames[:1], right.receive())
			}
		})
	}
}

// TestTXRingHoldsWholeFrames: a frame is handed over if the TX ring has room for all of its parts.
// Frames wait while the completion ring has no room for a part, and lose nothing.
func TestTXRingHoldsWholeFrames(t *testing.T) {
	c := newCable(t, netns.MTU(jumboMTU))
	left := newStation(t, c.left, Config{Device: leftDevice, BufferSize: 4096, RingSize: 8}, 512, 0)
	right := newStation(t, c.right, Config{Device: rightDevice, BufferSize: 4096}, 512, 256)
	frames := make([][]byte, 20)
	r := newRand()
	for i := range frames {
		frames[i] = taggedFrame(r, 9000, i) // 3 parts
	}
	if n := left.send(frames...); n != 2 || left.tx.Len() != 6 {
		t.Fatalf("a ring of 8 took %d frames, %d parts", n, left.tx.Len())
	}
	if n := left.send(frames[2:]...); n != 0 {
		t.Fatalf("a ring of 8 with 6 parts took %d frames of 3", n)
	}
	sent := 2
	var arrived [][]byte
	step := func() {
		left.Flush()
		sent += left.send(frames[sent:]...)
		arrived = append(arrived, right.receive()...)
	}
	// The completion ring has 16 entries: one part of the sixth frame, which waits for the others.
	until(t, "the completion ring full", func() bool { step(); return left.completion.Len() == 15 })
	for range 1000 {
		step()
	}
	if len(arrived) != 5 || left.State() != StateRunning {
		t.Errorf("%d frames arrived before a completion, state %v", len(arrived), left.State())
	}
	until(t, "the rest there", func() bool {
		left.reap()
		step()
		return len(arrived) == len(frames) && left.held(inTX) == 0
	})
	equalFrames(t, frames, arrived)
	if s := left.Stats(); s.TXDropped+s.TXInvalid != 0 {
		t.Errorf("statistics %+v", s)
	}
}

// TestPartsAreConserved: whatever both ends do, only whole frames arrive, each frame that does not
// is counted, and every buffer comes back once.
func TestPartsAreConserved(t *testing.T) {
	const buffers = 160
	_, s := newJumbo(t, Config{BufferSize: 4096, RingSize: 32}, buffers, 32)
	r := newRand()
	var sent, arrived [2]int
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			side := rapid.IntRange(0, 1).Draw(t, "side")
			s, n := s[side], rapid.IntRange(0, 40).Draw(t, "n")
			switch rapid.SampledFrom([]string{"fill", "send", "reap", "receive", "flush"}).Draw(t, "do") {
			case "fill":
				s.refill(n)
			case "send":
				var frames [][]byte
				for range n {
					frames = append(frames, taggedFrame(r, 22+r.IntN(jumboMost-21), n))
				}
				sent[side] += s.send(frames...)
			case "reap":
				s.reap()
			case "receive":
				arrived[side] += len(s.receiveBurst(n))
			case "flush":
				s.Flush()
			}
		}
	})
	for _, s := range s {
		until(t, "everything sent is back", func() bool { s.Flush(); s.reap(); return s.held(inTX) == 0 })
	}
	for side, s := range s {
		for {
			got := len(s.receive())
			if arrived[side] += got; got == 0 {
				break
			}
		}
		if held := s.held(inFill); held+len(s.free) != buffers || s.Waiting() != 0 {
			t.Errorf("%d buffers in the fill ring and %d free are not %d, %d wait", held, len(s.free), buffers,
				s.Waiting())
		}
	}
	for side, s := range s {
		st, peer := s.Stats(), 1-side
		if lost := int(st.RXDropped + st.RXRingFull); sent[peer] != arrived[side]+lost ||
			st.RXInvalid+st.TXInvalid+st.TXDropped > 0 || arrived[side] == 0 {
			t.Errorf("%d sent, %d arrived, %d lost: %+v", sent[peer], arrived[side], lost, st)
		}
	}
}

// TestDeviceGoesAwayWithParts deletes a device while the kernel holds the first part of a frame,
// whose other parts wait. No buffer comes back twice, and a port on the same memory, on the device
// that comes after, can use them all.
func TestDeviceGoesAwayWithParts(t *testing.T) {
	c := newCable(t, netns.MTU(jumboMTU))
	right := newStation(t, c.right, Config{Device: rightDevice, BufferSize: 4096}, 512, 256)
	config := Config{Device: leftDevice, BufferSize: 4096, RingSize: 8}
	left := newStation(t, c.left, config, 64, 16)
	frames := jumboFrames(4096, 0)
	long := slices.Repeat([][]byte{taggedFrame(newRand(), 9000, 1)}, 10)
	sent := 0
	until(t, "the completion ring full", func() bool {
		sent += left.send(long[sent:]...)
		left.Flush()
		right.receive()
		return left.completion.Len() == 15 && left.tx.Len() >= 5
	})
	c.deleteLeft(t)
	for range 10 {
		left.Flush()
		left.reap() // checks each
	}
	if left.State() != StateGone {
		t.Errorf("state %v", left.State())
	}
	for _, s := range []*station{left, right} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.lab.Veth(c.left, leftDevice, c.right, rightDevice, netns.MTU(jumboMTU)); err != nil {
		t.Fatal(err)
	}
	for i := range left.where {
		if left.where[i] != free {
			left.back(uint64(i)*left.size, left.where[i])
		}
	}
	config.Memory, config.RingSize, config.Fill = left.mem, 32, left.take(32, inFill)
	if err := c.left.Do(func() (err error) { left.Port, err = Open(config); return err }); err != nil {
		t.Fatal(err)
	}
	right = newStation(t, c.right, Config{Device: rightDevice, BufferSize: 4096}, 1024, 800)
	equalFrames(t, frames, carry(t, left, right, frames))
	if len(left.free) != 32 {
		t.Errorf("%d of 64 buffers are free, and 32 are in the fill ring", len(left.free))
	}
}

// TestMTUChangesWithParts: an open port follows the MTU of its device if it was opened for frames
// of several parts; otherwise it says what it loses, and opened again, it loses nothing.
func TestMTUChangesWithParts(t *testing.T) {
	c, s := newJumbo(t, Config{BufferSize: 4096}, 1024, 256)
	left, right := s[0], s[1]
	long := [][]byte{taggedFrame(newRand(), 9000, 1), taggedFrame(newRand(), 5000, 2), taggedFrame(newRand(), 60, 3)}
	push := func(frames [][]byte) {
		left.send(frames...)
		until(t, "sent", func() bool { left.Flush(); left.reap(); return left.held(inTX) == 0 })
	}
	equalFrames(t, long, carry(t, left, right, long))
	setMTU(t, c.right, rightDevice, 1500)
	if err := right.CheckMTU(1500); err != nil {
		t.Error(err)
	}
	push(long) // the device drops frames by its peer's MTU: one EBUSY each, whatever their parts
	if st := left.Stats(); st.TXDropped != 2 {
		t.Errorf("2 frames too long for the device: %+v", st)
	}
	equalFrames(t, long[2:], right.receive())
	setMTU(t, c.right, rightDevice, jumboMTU)
	equalFrames(t, long, carry(t, left, right, long))

	right.Close()
	setMTU(t, c.right, rightDevice, 3694)
	right = newStation(t, c.right, Config{Device: rightDevice, BufferSize: 4096}, 1024, 256)
	setMTU(t, c.right, rightDevice, jumboMTU)
	push(long)
	equalFrames(t, long[2:], right.receive())
	if st := right.Stats(); st.RXDropped != 2 || st.Lost() != 2 || right.Parts() != 1 {
		t.Errorf("2 frames longer than a buffer, without parts: %+v", st)
	}
	if err := right.CheckMTU(jumboMTU); !errors.Is(err, ErrMTU) || !strings.Contains(err.Error(), "at most 3694") {
		t.Error(err)
	}
	right.Close()
	right = newStation(t, c.right, Config{Device: rightDevice, BufferSize: 4096}, 1024, 256)
	equalFrames(t, long, carry(t, left, right, long))
}

// TestScatter: with Scatter, a port in copy mode takes frames of several parts although the MTU of
// its device needed none when it was opened. One with the transmitter does not.
func TestScatter(t *testing.T) {
	c := newCable(t)
	parts, most := pmd.MaxParts-1, MaxMTU(4096)+ethernetHeader+tag
	if *txEngine == TXTransmitter {
		parts, most = 1, transmitter.LongestFrame
	}
	var s [2]*station
	for i, end := range c.ends() {
		prepared(t, end.n, end.device, Options{})
		s[i] = newStation(t, end.n, Config{Device: end.device, BufferSize: 4096, Scatter: true}, 4096, 1536)
		if longest := s[i].Longest(); s[i].Parts() != parts || longest != most {
			t.Errorf("%d parts, frames of up to %d bytes", s[i].Parts(), longest)
		}
	}
	if parts == 1 {
		return
	}
	for _, end := range c.ends() {
		setMTU(t, end.n, end.device, jumboMTU)
	}
	frames := jumboFrames(4096, 500)
	equalFrames(t, frames, carry(t, s[0], s[1], frames))
	equalFrames(t, frames, carry(t, s[1], s[0], frames))
	for _, s := range s {
		if err := s.CheckMTU(jumboMTU); err != nil || s.Stats().Lost() != 0 {
			t.Errorf("%v, %+v", err, s.Stats())
		}
	}
}

// TestProgramTakesFragments: the program of a port does not limit the MTU of the device or of its
// peer, as one without BPF_F_XDP_HAS_FRAGS does.
func TestProgramTakesFragments(t *testing.T) {
	c := newCable(t)
	plain, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "plain", Type: ebpf.XDP,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	attach := func() (l link.Link, err error) {
		err = c.right.Do(func() error {
			dev, err := findLink(rightDevice)
			if err != nil {
				return err
			}
			l, err = link.AttachXDP(link.XDPOptions{Program: plain, Interface: dev.Attrs().Index,
				Flags: link.XDPDriverMode})
			return err
		})
		return l, err
	}
	raise := func(e end) error {
		return e.n.Do(func() error {
			l, err := findLink(e.device)
			return cmp.Or(err, netlink.LinkSetMTU(l, jumboMTU))
		})
	}
	l, err := attach()
	if err != nil {
		t.Fatal(err)
	}
	left := newStation(t, c.left, Config{Device: leftDevice, BufferSize: 4096}, 64, 8)
	if err := raise(c.ends()[0]); !errors.Is(err, unix.EINVAL) {
		t.Errorf("beside a program without fragments: %v", err)
	}
	limit := func(what string, want int) {
		t.Helper()
		var most int
		err := c.left.Do(func() (err error) { most, err = LargestMTU(leftDevice); return err })
		if err != nil || most != want {
			t.Errorf("%s, the MTU is at most %d, not %d: %v", what, most, want, err)
		}
	}
	limit("beside a program without fragments", 3506)
	l.Close()
	limit("without that program", 65535)
	for _, e := range c.ends() {
		if err := raise(e); err != nil {
			t.Errorf("%s: %v", e.device, err)
		}
	}
	if _, err := attach(); !errors.Is(err, unix.ERANGE) {
		t.Errorf("a program without fragments: %v", err)
	}
	if left.Mode() != "copy (native)" {
		t.Errorf("mode %s", left.Mode())
	}
}

// TestInvalidPartsPanic: the kernel never gets a frame that it would drop for its descriptors.
func TestInvalidPartsPanic(t *testing.T) {
	c := newCable(t, netns.MTU(jumboMTU))
	p := newStation(t, c.left, Config{Device: leftDevice, BufferSize: 4096, RingSize: 64}, 32, 0)
	const more = pmd.Continued
	good := []pmd.Desc{{Addr: 0, Len: 4096, Options: more}, {Addr: 4096 + 4095, Len: 1, Options: more},
		{Addr: 8192, Len: 1}}
	part := pmd.Desc{Addr: 4096, Len: 100, Options: more}
	for name, frame := range map[string][]pmd.Desc{
		"no end":             {part},
		"empty part":         {part, {Addr: 0, Len: 0, Options: more}, {Addr: 0, Len: 60}},
		"empty last part":    {part, {Addr: 0, Len: 0}},
		"outside":            {part, {Addr: uint64(len(p.mem)), Len: 1}},
		"far outside":        {part, {Addr: ^uint64(0), Len: 1}},
		"beyond its buffer":  {part, {Addr: 4000, Len: 97}},
		"long":               {part, {Addr: 0, Len: ^uint32(0)}},
		"other option":       {part, {Addr: 0, Len: 60, Options: 2}},
		"no header":          {{Addr: 0, Len: 6, Options: more}, {Addr: 4096, Len: 7}},
		"a part too many":    append(slices.Repeat([]pmd.Desc{part}, pmd.MaxParts-1), pmd.Desc{Len: 60}),
		"short single frame": {{Addr: 0, Len: 13}},
	} {
		if !panics(func() { p.Transmit(slices.Concat(good, frame)) }) {
			t.Errorf("taken: %s", name)
		}
	}
	if p.tx.Len() != 0 {
		t.Errorf("%d parts taken", p.tx.Len())
	}
	most := append(slices.Repeat([]pmd.Desc{part}, pmd.MaxParts-2), pmd.Desc{Len: 60})
	for _, frame := range [][]pmd.Desc{good, {{Addr: 0, Len: 1, Options: more}, {Addr: 4096, Len: 13}}, most} {
		if n := p.Transmit(frame); n != len(frame) {
			t.Errorf("of a valid frame of %d parts, %d were taken", len(frame), n)
		}
	}
	until(t, "all sent", func() bool {
		var addrs [64]uint64
		p.Flush()
		p.Complete(addrs[:])
		return p.tx.Len() == 0
	})
	if s := p.Stats(); s.TXInvalid != 0 {
		t.Errorf("statistics %+v", s)
	}
}

// TestPartsDoNotAllocate: bursts of frames of several parts do not allocate.
func TestPartsDoNotAllocate(t *testing.T) {
	_, s := newJumbo(t, Config{BufferSize: 4096}, 256, 128)
	long := s[0].parted(taggedFrame(newRand(), 9000, 1))
	burst := make([]pmd.Desc, 64)
	addrs := make([]uint64, 64)
	received := 0
	step := func() {
		if s[0].held(inTX) == len(long) && s[0].tx.Len() == 0 {
			s[0].Transmit(long)
		}
		s[0].Flush()
		s[0].Complete(addrs)
		n := s[1].Receive(burst)
		for i, d := range burst[:n] {
			addrs[i] = d.Addr
		}
		s[1].Fill(addrs[:n])
		received += n
	}
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
	until(t, "something there", func() bool { step(); return received > 0 })
}
