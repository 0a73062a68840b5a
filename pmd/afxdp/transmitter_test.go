package afxdp

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/internal/linux/netdev"
	"sluice/internal/linux/thread"
	"sluice/pmd"
	"sluice/pmd/transmitter"
	"sluice/pmd/xdprun"
)

func setMTU(t testing.TB, n *netns.Namespace, device string, mtu int) {
	in(t, n, device, func(l netlink.Link) error { return netlink.LinkSetMTU(l, mtu) })
}

// newTransmitted returns a cable with a port on a transmitter at its left end and a port on a
// socket at its right end.
func newTransmitted(t testing.TB, ring int) (c cable, r *transmitter.Transmitter, left, right *station) {
	t.Helper()
	const buffers = 2048
	c = newCable(t)
	takeRedirects(t, c.right, rightDevice, true)
	r = newTransmitter(t, buffers*bufferSize, ring)
	left = newStation(t, c.left, Config{Device: leftDevice, Transmitter: r}, buffers, 64)
	if !left.transmitted() {
		_, why := left.TX()
		t.Fatal(why)
	}
	right = newStation(t, c.right, Config{Device: rightDevice}, 4096, 2048)
	return c, r, left, right
}

// pinThread binds the calling thread to a CPU.
func pinThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// TestTransmitterHandsOver carries frames while hand-overs and signals repeatedly end one run of
// the program and start the next.
func TestTransmitterHandsOver(t *testing.T) {
	_, r, left, right := newTransmitted(t, 256)
	var over atomic.Bool
	var others sync.WaitGroup
	others.Go(func() {
		for !over.Load() {
			r.HandOver()
		}
	})
	others.Go(func() {
		for ; !over.Load(); time.Sleep(time.Millisecond) {
			_ = unix.Tgkill(os.Getpid(), r.Thread(), unix.SIGURG) // it may have just ended
			_ = unix.Tgkill(os.Getpid(), r.Thread(), unix.SIGUSR1)
		}
	})
	for range 10 {
		frames := taggedFrames(2000)
		equalFrames(t, frames, carry(t, left, right, frames))
	}
	over.Store(true)
	others.Wait()
	if s := left.Stats(); s.Lost() > 0 {
		t.Errorf("%+v", s)
	}
}

// TestTransmitterTakesTurns runs a worker and the transmitter on one CPU: when the worker has the
// CPU again, the frames that it handed over have left.
func TestTransmitterTakesTurns(t *testing.T) {
	c := newCable(t)
	takeRedirects(t, c.right, rightDevice, true)
	r, err := transmitter.Start(transmitter.Params{CPU: transmitterCPU, Shared: true, Memory: 6144 * bufferSize,
		Ports: 4, Ring: 256})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	left := newStation(t, c.left, Config{Device: leftDevice, Transmitter: r}, 2048, 64)
	// another transmitter might spin here
	right := newStationAt(t, c.right, Config{Device: rightDevice, Transmitter: r}, 2048, 4096, 2048)
	thread.Own(func() {
		if err := pinThread(transmitterCPU); err != nil {
			t.Error(err)
			return
		}
		random := newRand()
		for range 200 {
			frames := taggedFrames(1 + random.IntN(64))
			if left.send(frames...) < len(frames) {
				t.Error("the ring is full")
			}
			for r.Waiting() > 0 { // others may have the CPU for longer than one turn
				r.Yield()
			}
			if left.reap(); left.held(inTX) > 0 {
				t.Errorf("of %d frames %d are still to be sent", len(frames), left.held(inTX))
			}
			var arrived [][]byte
			until(t, "all frames there", func() bool {
				left.reap()
				arrived = append(arrived, right.receive()...)
				right.refill(64)
				right.Flush()
				return len(arrived) == len(frames)
			})
			equalFrames(t, frames, arrived)
		}
	})
	if s := left.Stats(); s.Lost() > 0 {
		t.Errorf("%+v", s)
	}
}

// TestTransmitterServesManyPorts uses one transmitter for the ports of three cables; one of them
// leaves and returns.
func TestTransmitterServesManyPorts(t *testing.T) {
	const each = 512
	r := newTransmitter(t, 3*each*bufferSize, 64)
	var cables [3]cable
	var left, right [3]*station
	open := func(i int) {
		left[i] = newStationAt(t, cables[i].left, Config{Device: leftDevice, Transmitter: r}, i*each, each, 64)
		if !left[i].transmitted() {
			_, why := left[i].TX()
			t.Fatal(why)
		}
	}
	for i := range cables {
		cables[i] = newCable(t)
		takeRedirects(t, cables[i].right, rightDevice, true)
		open(i)
		right[i] = newStation(t, cables[i].right, Config{Device: rightDevice}, 2048, 1024)
	}
	for range 3 {
		frames := taggedFrames(500)
		sent, arrived := [3]int{}, [3][][]byte{}
		until(t, "all frames there", func() (all bool) {
			all = true
			for i := range cables {
				left[i].reap()
				sent[i] += left[i].send(frames[sent[i]:min(sent[i]+40*(i+1), len(frames))]...)
				left[i].Flush()
				arrived[i] = append(arrived[i], right[i].receive()...)
				right[i].refill(64)
				right[i].Flush()
				all = all && len(arrived[i]) == len(frames) && left[i].held(inTX) == 0
			}
			return all
		})
		for i := range cables {
			equalFrames(t, frames, arrived[i])
		}
		if err := left[1].Close(); err != nil {
			t.Fatal(err)
		}
		open(1)
	}
}

// TestPortsLeave closes all ports but one, whichever had the last turn: the remaining one is still
// served.
func TestPortsLeave(t *testing.T) {
	const ports, each = 3, 128
	r := newTransmitter(t, ports*each*bufferSize, 64)
	var cables [ports]cable
	var left, right [ports]*station
	open := func(i int) {
		left[i] = newStationAt(t, cables[i].left, Config{Device: leftDevice, Transmitter: r}, i*each, each, 64)
	}
	for i := range ports {
		cables[i] = newCable(t)
		takeRedirects(t, cables[i].right, rightDevice, true)
		open(i)
		right[i] = newStation(t, cables[i].right, Config{Device: rightDevice}, 256, 128)
	}
	frames := taggedFrames(10)
	for last := range ports {
		for stays := range ports {
			equalFrames(t, frames, carry(t, left[last], right[last], frames))
			for i := range ports {
				if i == stays {
					continue
				}
				if err := left[i].Close(); err != nil {
					t.Fatal(err)
				}
			}
			equalFrames(t, frames, carry(t, left[stays], right[stays], frames))
			for i := range ports {
				if i != stays {
					open(i)
				}
			}
		}
	}
}

// TestTurns alternates between socket and transmitter while frames flow: none is lost, duplicated
// or reordered.
func TestTurns(t *testing.T) {
	c, _, left, right := newTransmitted(t, 256)
	var meter *xdprun.Meter
	if err := c.left.Do(func() (err error) { meter, err = xdprun.NewMeter(leftDevice); return err }); err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	var over atomic.Bool
	var turns atomic.Int32
	var control sync.WaitGroup
	control.Go(func() {
		for ; !over.Load(); turns.Add(1) {
			if err := left.transmitter.Decline(transmitter.ErrRedirect); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(newRand().IntN(1000)) * time.Microsecond)
			left.transmitter.Accept()
			time.Sleep(time.Duration(newRand().IntN(1000)) * time.Microsecond)
		}
	})
	until(t, "20 turns", func() bool {
		frames := taggedFrames(1000)
		equalFrames(t, frames, carry(t, left, right, frames))
		return turns.Load() >= 20
	})
	over.Store(true)
	control.Wait()
	sent, _ := meter.Read()
	if s := left.Stats(); s.Lost() > 0 || s.TXWakeups == 0 || sent.Taken == 0 {
		t.Errorf("%d frames by the program, %+v", sent.Taken, s)
	}
}

// TestLinkDownGivesBuffersBack removes the carrier from a port whose transmitter has frames and
// gets more: all buffers return, each frame is counted, and frames arrive again once the carrier is
// back.
func TestLinkDownGivesBuffersBack(t *testing.T) {
	const ring, each = 256, 1024
	r := newTransmitter(t, 2*each*bufferSize, ring)
	open := func(i int) (c cable, left, right *station) {
		c = newCable(t)
		takeRedirects(t, c.right, rightDevice, true)
		left = newStationAt(t, c.left, Config{Device: leftDevice, Transmitter: r}, i*each, each, 64)
		return c, left, newStation(t, c.right, Config{Device: rightDevice}, 4096, 2048)
	}
	c, left, right := open(0)
	_, otherLeft, otherRight := open(1) // a port that keeps its link
	if !left.transmitted() || !otherLeft.transmitted() {
		t.Fatal("the sockets transmit, so this test shows nothing")
	}
	frames := taggedFrames(ring)
	for round := range uint64(3) {
		// so the link goes down while the ring is full
		if err := left.transmitter.Decline(transmitter.ErrRedirect); err != nil {
			t.Fatal(err)
		}
		if sent := left.send(frames...); sent != ring {
			t.Fatalf("the ring took %d frames", sent)
		}
		in(t, c.right, rightDevice, netlink.LinkSetDown)
		left.SetLink(false)       // as the control plane does
		left.transmitter.Accept() // before the socket got any frame
		backFrom := func(count uint64) {
			t.Helper()
			until(t, "all buffers back", func() bool { left.Flush(); left.reap(); return left.held(inTX) == 0 })
			if s := left.Stats(); s.TXDropped != round*(ring+20)+count || s.Lost() != s.TXDropped {
				t.Errorf("round %d: %d frames not sent, %+v", round, count, s)
			}
		}
		backFrom(ring)
		left.send(frames[:20]...) // before the worker knows it
		backFrom(ring + 20)
		equalFrames(t, frames, carry(t, otherLeft, otherRight, frames))
		in(t, c.right, rightDevice, netlink.LinkSetUp)
		left.SetLink(true)
		equalFrames(t, frames, carry(t, left, right, frames))
	}
}

// TestWorkersOfOneTransmitter has two workers take their rings back from the sockets at the same
// time. The transmitter has its own CPU, so neither worker may write the counter that serves a
// worker on a shared CPU.
func TestWorkersOfOneTransmitter(t *testing.T) {
	const each = 512
	r := newTransmitter(t, 2*each*bufferSize, 64)
	var workers sync.WaitGroup
	for i := range 2 {
		c := newCable(t)
		takeRedirects(t, c.right, rightDevice, true)
		s := newStationAt(t, c.left, Config{Device: leftDevice, Transmitter: r}, i*each, each, 64)
		if !s.transmitted() {
			_, why := s.TX()
			t.Fatal(why)
		}
		workers.Go(func() {
			frames := taggedFrames(10)
			for range 20 {
				if err := s.transmitter.Decline(transmitter.ErrRedirect); err != nil {
					t.Error(err)
				}
				s.Flush()
				s.transmitter.Accept()
				for s.send(frames...); s.held(inTX) > 0; s.reap() {
					s.Flush()
				}
			}
		})
	}
	workers.Wait()
	if n := r.Waiting(); n != 0 {
		t.Errorf("%d frames wait for a turn, and it takes none", n)
	}
}

// TestPeerTakesNoRedirects has a peer start and stop accepting redirected frames, through GRO and
// through its own program.
func TestPeerTakesNoRedirects(t *testing.T) {
	c := newCable(t)
	takeRedirects(t, c.right, rightDevice, false)
	r := newTransmitter(t, 512*bufferSize, 64)
	left := newStation(t, c.left, Config{Device: leftDevice, Transmitter: r}, 512, 64)
	is := func(wanted string, reason error) {
		t.Helper()
		if err := c.left.Do(left.Reconsider); err != nil {
			t.Fatal(err)
		}
		if who, why := left.TX(); who != wanted || !errors.Is(why, reason) {
			t.Errorf("%s transmits: %v", who, why)
		}
	}
	is(TXSocket, transmitter.ErrRedirect)
	frames := taggedFrames(1000)
	for range 3 {
		// the socket sends until Reconsider
		right := newStation(t, c.right, Config{Device: rightDevice}, 4096, 2048)
		equalFrames(t, frames, carry(t, left, right, frames))
		is(TXTransmitter, nil)
		equalFrames(t, frames, carry(t, left, right, frames))
		if err := right.Close(); err != nil {
			t.Fatal(err)
		}
		is(TXSocket, transmitter.ErrRedirect)
	}
	takeRedirects(t, c.right, rightDevice, true)
	is(TXTransmitter, nil)
	if s := left.Stats(); s.Lost() > 0 {
		t.Errorf("%+v", s)
	}
	takeRedirects(t, c.right, rightDevice, false)
	left.send(frames[:20]...)
	until(t, "20 frames for nobody", func() bool { left.Flush(); left.reap(); return left.held(inTX) == 0 })
	until(t, "counted", func() bool { return left.Stats().TXDropped == 20 })
}

// TestPeerRingFull has a peer that is too slow to empty its ring: its thread shares a CPU with a
// thread that never rests.
func TestPeerRingFull(t *testing.T) {
	c, _, left, right := newTransmitted(t, 2048)
	if err := c.right.Do(func() error {
		threads, err := netdev.ThreadNAPI(rightDevice, 0)
		for _, thread := range threads {
			err = errors.Join(err, unix.Setpriority(unix.PRIO_PROCESS, thread, 19))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var hog sync.WaitGroup
	hog.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := pinThread(0); err != nil {
			t.Error(err)
		}
		for !over.Load() {
		}
	})
	frames := taggedFrames(1800)
	sent, arrived := 0, 0
	until(t, "frames refused, and all others there", func() bool {
		left.reap()
		if left.Stats().TXRefused == 0 {
			sent += left.send(frames...)
		}
		left.Flush()
		arrived += len(right.receive())
		right.refill(64)
		return left.held(inTX) == 0 && left.Stats().TXRefused > 0 && arrived+int(left.Stats().TXRefused) == sent
	})
	over.Store(true)
	hog.Wait()
	if s := left.Stats(); s.TXDropped > 0 || s.Lost() != s.TXRefused {
		t.Errorf("sent %d, arrived %d: %+v", sent, arrived, s)
	}
	if err := c.left.Do(left.Reconsider); err != nil {
		t.Fatal(err)
	}
	if who, why := left.TX(); who != TXSocket || !strings.Contains(why.Error(), "no room") {
		t.Fatalf("%s transmits: %v", who, why)
	}
	right.refill(4096)
	frames = frames[:vethRing/2]
	equalFrames(t, frames, carry(t, left, right, frames))
}

// TestLongestTransmitted sends frames of up to the length that a page can hold, and leaves devices
// with longer frames to the socket.
func TestLongestTransmitted(t *testing.T) {
	c := newCable(t)
	for _, end := range []struct {
		n      *netns.Namespace
		device string
	}{{c.left, leftDevice}, {c.right, rightDevice}} {
		setMTU(t, end.n, end.device, transmitter.LongestFrame-ethernetHeader-tag)
		takeRedirects(t, end.n, end.device, true)
	}
	r := newTransmitter(t, 512*4096, 64)
	fill := []uint64{0, 4096, 2 * 4096}
	open := func(n *netns.Namespace, c Config) (p *Port) {
		c.BufferSize = 4096
		if err := n.Do(func() (err error) { p, err = Open(c); return err }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	left := open(c.left, Config{Device: leftDevice, Transmitter: r, Memory: r.Memory()})
	if who, why := left.TX(); who != TXTransmitter {
		t.Fatal(why)
	}
	mem := newMemory(t, 16*4096)
	right := open(c.right, Config{Device: rightDevice, Memory: mem, Fill: fill})
	frame := taggedFrame(newRand(), transmitter.LongestFrame, 7)
	copy(r.Memory()[4096*9:], frame)
	left.Transmit([]pmd.Desc{{Addr: 4096 * 9, Len: transmitter.LongestFrame}})
	var got [1]pmd.Desc
	until(t, "the longest frame there", func() bool { return right.Receive(got[:]) == 1 })
	equalFrames(t, [][]byte{frame}, [][]byte{mem[got[0].Addr : got[0].Addr+uint64(got[0].Len)]})
	left.Close()
	setMTU(t, c.left, leftDevice, transmitter.LongestFrame)
	left = open(c.left, Config{Device: leftDevice, Transmitter: r, Memory: r.Memory()})
	if who, why := left.TX(); who != TXSocket || !strings.Contains(why.Error(), "MTU") {
		t.Errorf("%s transmits: %v", who, why)
	}
}

// TestTransmitterBesideParts: a port with frames of several parts uses its socket and says why,
// while the transmitter sends for a port with short frames. Both share one memory, and frames pass
// from one to the other in their buffers.
func TestTransmitterBesideParts(t *testing.T) {
	const each = 1024
	for _, test := range []struct {
		size, mtu int
		say       []string
	}{
		{4096, jumboMTU, []string{"MTU of 9216", "9234 bytes", "maximum of 3400", "MTU to 3382", "tx: xsk"}},
		{2048, 2000, []string{"MTU of 2000", "2018 bytes", "fit one buffer, which holds 1664", "MTU to 1646",
			"larger buffers, or set tx: xsk"}},
	} {
		t.Run(fmt.Sprint(test.size), func(t *testing.T) {
			c := newCable(t, netns.MTU(test.mtu))
			if err := c.lab.Veth(c.left, "left1", c.right, "right1"); err != nil {
				t.Fatal(err)
			}
			r := newTransmitter(t, 2*each*test.size, 64)
			open := func(n *netns.Namespace, device string, c Config, first int) *station {
				c.Device, c.BufferSize = device, test.size
				prepared(t, n, device, Options{})
				return newStationAt(t, n, c, first, each, each/2)
			}
			far, farShort := open(c.right, rightDevice, Config{}, 0), open(c.right, "right1", Config{}, 0)
			long := open(c.left, leftDevice, Config{Transmitter: r}, 0)
			short := open(c.left, "left1", Config{Transmitter: r}, each)
			who, why := long.TX()
			if who != TXSocket || why == nil {
				t.Fatalf("%s transmits frames of several parts: %v", who, why)
			}
			for _, say := range test.say {
				if !strings.Contains(why.Error(), say) {
					t.Errorf("%v does not say %q", why, say)
				}
			}
			if who, why := short.TX(); who != TXTransmitter || long.Parts() == 1 || short.Parts() != 1 {
				t.Fatalf("%s transmits short frames, because %v; frames of %d and %d parts", who, why, long.Parts(),
					short.Parts())
			}
			frames := [][]byte{taggedFrame(newRand(), test.mtu+18, 0), taggedFrame(newRand(), 700, 1)}
			equalFrames(t, frames, carry(t, long, far, frames))
			equalFrames(t, frames, carry(t, far, long, frames))
			frames = taggedFrames(500)
			equalFrames(t, frames, forward(t, far, long, short, farShort, frames))
			equalFrames(t, frames, forward(t, farShort, short, long, far, frames))
		})
	}
}

// forward sends frames from one station to another through two ports that share a memory. It
// returns those that arrived.
func forward(t *testing.T, from, in, out, to *station, frames [][]byte) (arrived [][]byte) {
	t.Helper()
	burst, addrs := make([]pmd.Desc, 64), make([]uint64, 64)
	sent := 0
	until(t, "all frames there", func() bool {
		if sent-len(arrived) < vethRing/4 {
			sent += from.send(frames[sent:min(sent+32, len(frames))]...)
		}
		from.Flush()
		from.reap()
		burst := burst[:in.Receive(burst)]
		for n := 0; n < len(burst); out.Flush() {
			n += out.Transmit(burst[n:])
			in.Fill(addrs[:out.Complete(addrs)])
		}
		in.Fill(addrs[:out.Complete(addrs)])
		in.Flush()
		out.Flush()
		got := to.receive()
		arrived = append(arrived, got...)
		to.refill(len(got))
		return len(arrived) >= len(frames)
	})
	until(t, "all frames completed", func() bool { from.Flush(); from.reap(); return from.held(inTX) == 0 })
	return arrived
}
