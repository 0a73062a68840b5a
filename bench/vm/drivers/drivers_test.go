package drivers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"sluice/bench/testkit/rigtest"
	"sluice/bench/vm/rig"
	"sluice/internal/state"
)

type check struct {
	name string
	do   func(*testing.T, *site)
}

// checks are what every rig is tested for, in this order, by one guest.
var checks = []check{
	{"mode", checkMode},
	{"identity", checkIdentity},
	{"overload", checkOverload},
	{"pause", checkPause},
	{"reload", checkReload},
	{"capture", checkCapture},
	{"cable", checkCable},
	{"device", checkDevice},
	{"mtu", checkMTU},
	{"burst", checkBurst},
	{"stall", checkStall},
	{"kill", checkKill},
	{"restore", checkRestore},
}

func (r rigged) test(t *testing.T) { newSite(t, r).test(t) }

// test runs some checks, and then those of every rig.
func (s *site) test(t *testing.T, first ...check) {
	s.start(t)
	for _, c := range slices.Concat(first, checks) {
		t.Run(c.name, func(t *testing.T) {
			if s.sw == nil {
				t.Fatal("the switch has ended before")
			}
			c.do(t, s)
		})
	}
}

func TestVirtioZeroCopy(t *testing.T) {
	rigged{driver: rig.VirtioNet, mode: "zero-copy", shows: "zero-copy", buffer: 2048}.test(t)
}

func TestVirtioCopy(t *testing.T) {
	rigged{driver: rig.VirtioNetPlain, mode: "auto", shows: "copy (native)", buffer: 2048}.test(t)
}

// TestVirtioDirect: without indirect descriptors, virtio_net would lose frames in zero-copy mode.
// No port opens if that is demanded, and auto copies.
func TestVirtioDirect(t *testing.T) {
	const why = "without indirect descriptors, and"
	s := newSite(t, rigged{driver: rig.VirtioNetDirect, mode: "zero-copy", buffer: 2048})
	t.Run("zero-copy", func(t *testing.T) {
		checkForeseen(t, s, why)
		s.opensNoPort(t, "port stays down", why, "indirect_desc=on", "choose copy mode")
	})
	s.mode, s.shows = "auto", "copy (native)"
	s.start(t)
	checkMode(t, s)
	rigtest.Must(t, s.sw.Await(rigtest.Patience, len(s.devices), "port uses a slower mode", why))
	checkIdentity(t, s)
	checkOverload(t, s)
	checkRestore(t, s)
}

func TestVirtioQueues(t *testing.T) {
	rigged{driver: rig.VirtioNet, mode: "auto", shows: "zero-copy", buffer: 2048, queues: 2, cpus: 2}.test(t)
}

func TestIGB(t *testing.T) {
	s := newSite(t, rigged{driver: rig.IGB, mode: "zero-copy", shows: "zero-copy", buffer: 4096})
	t.Run("buffers", func(t *testing.T) { checkBuffers(t, s, 2048, 4096) })
	s.test(t, check{"ring", checkRing})
}

// In zero-copy mode igb fills only 1024 bytes of such buffers and would split longer frames, and it
// delivers buffers twice: auto leaves it to copy mode.
func TestIGBAuto(t *testing.T) {
	rigged{driver: rig.IGB, mode: "auto", shows: "copy (native)", buffer: 2048}.test(t)
}

func TestVMXNET3(t *testing.T) {
	rigged{driver: rig.VMXNET3, mode: "auto", shows: "copy (native)", buffer: 2048}.test(t)
}

func TestE1000E(t *testing.T) {
	rigged{driver: rig.E1000E, mode: "auto", shows: "copy (generic)", buffer: 2048}.test(t)
}

// checkBuffers: with buffers in which frames would not arrive whole no port opens, and the log says
// which would do. The devices stay as they were.
func checkBuffers(t *testing.T, s *site, size, enough int) {
	small := *s
	small.buffer = size
	small.opensNoPort(t, "port stays down", "buffers are too small for zero-copy mode",
		fmt.Sprintf("set memory.buffer_size to %dB", enough))
}

// checkRing: with a longer receive ring, igb would run short of buffers and deliver some twice. The
// port is opened again, with a shorter ring of its own.
func checkRing(t *testing.T, s *site) {
	s.run(t, "ethtool", "-G", "eth2", "rx", "1024")
	rigtest.Must(t, s.sw.Await(rigtest.Patience, 1, "port closed", "has grown from 256 to 1024"))
	s.awaitPorts(t, true, true, true)
	s.announce(t)
	s.Whole(t, 0, 2, 400)
	s.run(t, "ethtool", "-G", "eth2", "rx", "256")
	s.awaitCarrier(t, "eth2", false)
	s.awaitCarrier(t, "eth2", true)
	s.awaitPorts(t, true, true, true)
	s.announce(t)
	s.Whole(t, 0, 2, 400)
}

// checkMode: the switch uses the driver in the mode that it can.
func checkMode(t *testing.T, s *site) {
	driver := s.run(t, "ethtool", "-i", "eth0")
	if !strings.Contains(driver, "driver: "+s.driver.Name+"\n") {
		t.Errorf("not the driver %s: %s", s.driver.Name, driver)
	}
	for _, p := range s.state(t).Ports {
		if p.Mode != s.shows {
			t.Errorf("%s: mode %s, not %s", p.Name, p.Mode, s.shows)
		}
	}
}

// checkIdentity: frames of all lengths and tags pass unchanged.
func checkIdentity(t *testing.T, s *site) {
	s.Whole(t, 0, 1, rig.Lengths)
	s.conserves(t)
}

// checkOverload: two senders of the lossless class, at the receiver's rate each, beside a lossy
// one: they are paused, and lose nothing. Each sends 14000 frames in 5.8 s if nothing pauses it,
// and at most half of them leave meanwhile, so a group with room for 6064 frames would lose some.
func checkOverload(t *testing.T, s *site) {
	const size, rate, frames = 1000, 2400, 14000 // 98 % of the line
	a, b := s.Flow(0, 2, rig.Fixed(size, lossless)), s.Flow(1, 2, rig.Fixed(size, lossless))
	c := s.Flow(0, 2, rig.Fixed(size, lossy))
	x, y, z := s.Send(0, a, frames, rate), s.Send(1, b, frames, rate), s.Send(0, c, frames, rate)
	rigtest.Must(t, errors.Join(<-x, <-y, <-z))
	s.Drain(t, 2, frames, a, b)
	s.Drain(t, 2, -1, c)
	s.Exact(t, 2, a, frames, "lossless, first sender")
	s.Exact(t, 2, b, frames, "lossless, second sender")
	s.Intact(t, 2, c, "lossy")
	for n := range 2 {
		if xoff, xon := s.Peers[n].Pauses(lossless); xoff == 0 || xon == 0 {
			t.Errorf("sender %d was paused %d times and resumed %d times", n, xoff, xon)
		}
		if xoff, _ := s.Peers[n].Pauses(lossy); xoff > 0 {
			t.Errorf("sender %d was paused %d times in a lossy class", n, xoff)
		}
	}
	s.conserves(t)
}

// checkPause: the switch stops sending a class that a peer pauses, and no other, and then sends
// what it held.
func checkPause(t *testing.T, s *site) {
	const rate, seconds, size = 300, 3, 300
	const frames = rate * seconds
	paused, other := s.Flow(0, 2, rig.Fixed(size, lossless)), s.Flow(0, 2, rig.Fixed(size, lossy))
	resume := keepPaused(s.Peers[2], lossless)
	defer func() { _ = resume() }() // in case the test fails before
	time.Sleep(time.Second)
	x, y := s.Send(0, paused, frames, rate), s.Send(0, other, frames, rate)
	rigtest.Must(t, <-y) // x is paused in turn
	s.Drain(t, 2, frames, other)
	s.Exact(t, 2, other, frames, "class that is not paused")
	held := s.Peers[2].Got(paused).Frames
	rigtest.Must(t, errors.Join(resume(), <-x))
	t.Logf("%d of %d frames arrived while their class was paused", held, frames)
	if held > frames/20 { // a guest that is late may let a pause lapse
		t.Errorf("%d of %d frames arrived while their class was paused", held, frames)
	}
	s.Drain(t, 2, frames, paused)
	s.Exact(t, 2, paused, frames, "class that was paused")
	if p := s.state(t).Ports[2].ByCoS[lossless].PauseReceived; p.Pauses == 0 || p.PausedNS < int64(time.Second) {
		t.Errorf("the switch says of the pause: %+v", p)
	}
	s.conserves(t)
}

// keepPaused has a peer pause a class until resume is called, as a peer does whose pauses last: it
// repeats them before they end.
func keepPaused(p *rig.Peer, cos int) (resume func() error) {
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- p.Pause(1<<cos, 0)
				return
			case <-time.After(p.PauseTime() / 8):
				if err := p.Pause(1<<cos, 65535); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	return sync.OnceValue(func() error {
		close(stop)
		return <-stopped
	})
}

// checkReload: a reload changes the speed of a port while lossless frames pass.
func checkReload(t *testing.T, s *site) {
	const frames, rate = 1200, 400
	f := s.Flow(0, 2, rig.Fixed(300, lossless))
	done := s.Send(0, f, frames, rate)
	before := s.state(t).Configuration.Generation
	rigtest.Must(t, s.guest.WriteFile(file, []byte(s.configuration(outRate/2)), 0o644))
	s.run(t, "sluice", "reload")
	rigtest.Must(t, <-done)
	s.Drain(t, 2, frames, f)
	s.Exact(t, 2, f, frames, "over a reload")
	now := s.state(t)
	if now.Configuration.Generation != before+1 || now.Ports[2].Speed != outRate/2 {
		t.Errorf("generation %d after %d, speed %d", now.Configuration.Generation, before, now.Ports[2].Speed)
	}
	rigtest.Must(t, s.guest.WriteFile(file, []byte(s.configuration(outRate)), 0o644))
	s.run(t, "sluice", "reload")
	s.conserves(t)
}

// checkCapture: a capture has the frames as they came.
func checkCapture(t *testing.T, s *site) {
	const frames, path = 200, "/tmp/capture.pcapng"
	f := s.Flow(0, 1, rig.Every)
	c, err := s.guest.Start("sluice", "capture", "--port", "eth0", "--direction", "rx", "--count", "200",
		"--duration", "30s", "-w", path)
	rigtest.Must(t, err)
	rigtest.Until(t, "the capture has begun", func() bool {
		if c.HasEnded() {
			t.Fatalf("the capture has ended: %+v", c.Result())
		}
		_, err := s.guest.ReadFile(path)
		return err == nil
	})
	time.Sleep(time.Second)
	rigtest.Must(t, <-s.Send(0, f, frames, 400))
	r, err := c.Wait(rigtest.Patience)
	rigtest.Must(t, err)
	if r.Status != 0 {
		t.Fatalf("status %d: %s", r.Status, r.Stderr)
	}
	data, err := s.guest.ReadFile(path)
	rigtest.Must(t, err)
	reader, err := pcapgo.NewNgReader(bytes.NewReader(data), pcapgo.DefaultNgReaderOptions)
	rigtest.Must(t, err)
	for n := 0; ; n++ {
		frame, _, err := reader.ReadPacketData()
		if errors.Is(err, io.EOF) && n == frames {
			break
		}
		rigtest.Must(t, err)
		if !bytes.Equal(frame, f.Frame(n)) {
			t.Fatalf("frame %d was captured as %x, not %x", n, frame, f.Frame(n))
		}
	}
	if n := bytes.Count(data, []byte("verdict=forwarded")); n != frames {
		t.Errorf("the capture says of %d frames that they were forwarded, not of %d", n, frames)
	}
	s.Drain(t, 1, frames, f)
	s.Exact(t, 1, f, frames, "captured")
	s.conserves(t)
}

// checkCable: a port is down while its cable is out, and forwards when it is back. The cable is
// pulled while the port is overloaded: frames that its device keeps until then would keep the
// sender paused. Because another port has lost its link just before, the kernel reports this loss
// up to a second late, so the device gets many of them. The headroom holds all frames, so none is
// lost for lack of room, however late the guest is.
func checkCable(t *testing.T, s *site) {
	const size, rate, frames = 1000, 4000, 3000 // 32 Mbit/s
	f := s.Flow(0, 2, rig.Fixed(size, lossless))
	before, _ := s.Peers[0].Pauses(lossless)
	sent := s.Send(0, f, frames, rate)
	rigtest.Until(t, "the sender is paused", func() bool {
		xoff, _ := s.Peers[0].Pauses(lossless)
		return xoff > before
	})
	rigtest.Must(t, s.guest.SetLink(1, false))
	s.awaitCarrier(t, "eth1", false)
	rigtest.Must(t, s.guest.SetLink(2, false))
	s.awaitPorts(t, true, false, false)
	t.Logf("the device has %d frames without a carrier", s.state(t).Ports[2].Buffers.Sending)
	rigtest.Until(t, "the device has no frames", func() bool { return s.state(t).Ports[2].Buffers.Sending == 0 })
	rigtest.Until(t, "the sender may send the rest", func() bool { return len(sent) > 0 })
	rigtest.Must(t, <-sent)
	s.Drain(t, 2, -1, f)
	s.Intact(t, 2, f, "until the cable was pulled")
	rigtest.Must(t, s.guest.SetLink(1, true))
	s.awaitPorts(t, true, true, false)
	s.Whole(t, 0, 1, 200)
	rigtest.Must(t, s.guest.SetLink(2, true))
	s.awaitPorts(t, true, true, true)
	s.announce(t)
	s.Whole(t, 0, 2, 400)
	s.accounts(t) // in copy mode, the kernel has dropped frames
}

// checkDevice: the same when somebody sets the device down and up; show says so, and what to do.
func checkDevice(t *testing.T, s *site) {
	s.run(t, "ip", "link", "set", "eth2", "down")
	s.awaitPorts(t, true, true, false)
	rigtest.Until(t, "the port is set down", func() bool { return s.state(t).Ports[2].Mode == state.SetDown })
	if shown := s.run(t, "sluice", "show"); !strings.Contains(shown, "`ip link set dev eth2 up`") {
		t.Errorf("show says of a device that is set down:\n%s", shown)
	}
	s.Whole(t, 0, 1, 200)
	s.run(t, "ip", "link", "set", "eth2", "up")
	s.awaitPorts(t, true, true, true)
	s.announce(t)
	s.Whole(t, 2, 1, 400)
	s.conserves(t)
}

// checkMTU: a port is closed while the MTU of its device does not allow its frames.
func checkMTU(t *testing.T, s *site) {
	s.run(t, "ip", "link", "set", "eth2", "mtu", "1400")
	rigtest.Until(t, "the port is closed because of the MTU", func() bool {
		p := s.state(t).Ports[2]
		return p.Mode == state.Closed && strings.Contains(p.DownWhy, "more than the 1400 of device eth2")
	})
	s.Whole(t, 0, 1, 200)
	s.run(t, "ip", "link", "set", "eth2", "mtu", "1500")
	s.awaitPorts(t, true, true, true)
	s.announce(t)
	s.Whole(t, 2, 1, 400)
	s.conserves(t)
}

// checkBurst: frames that come faster than the switch takes them, so that the driver runs short of
// buffers; then the same while the switch does not run. Most are lost before the switch, but none
// arrives twice or torn, and then all is well. Lossless frames of another port, which the switch
// forwards during the first burst, all arrive. igb would deliver buffers twice if it ran short of
// them: its receive ring is shorter than its number of buffers for that reason.
func checkBurst(t *testing.T, s *site) {
	s.burst(t, "burst", 300000, func(burst func() error) {
		const frames, rate = 400, 400
		f := s.Flow(2, 1, rig.Fixed(300, lossless))
		sent := s.Send(2, f, frames, rate)
		rigtest.Must(t, errors.Join(burst(), <-sent))
		s.Drain(t, 1, frames, f)
		s.Exact(t, 1, f, frames, "lossless beside a burst")
	})
	s.burst(t, "burst into a stopped switch", 30000, func(burst func() error) {
		rigtest.Must(t, s.sw.Signal(unix.SIGSTOP))
		rigtest.Must(t, errors.Join(burst(), s.sw.Signal(unix.SIGCONT)))
	})
}

// burst has a function send some frames as fast as possible, and checks that all is well after
// them.
func (s *site) burst(t *testing.T, what string, frames int, do func(burst func() error)) {
	t.Helper()
	f := s.Flow(0, 1, rig.Fixed(64, lossy))
	do(func() error { return <-s.Send(0, f, frames, 0) })
	s.Drain(t, 1, -1, f)
	s.Intact(t, 1, f, what)
	d := s.state(t).Ports[0].Driver
	t.Logf("%s: %d of %d frames arrived; so far fill ring empty %d, receive ring full %d", what,
		s.Peers[1].Got(f).Frames, frames, d.RXFillEmpty, d.RXRingFull)
	s.Whole(t, 0, 1, 400)
	s.accounts(t)
}

// checkStall: the process is stopped while frames come in.
func checkStall(t *testing.T, s *site) {
	const frames, rate = 6000, 3000
	a, b := s.Flow(0, 1, rig.Every), s.Flow(1, 0, rig.Every)
	x, y := s.Send(0, a, frames, rate), s.Send(1, b, frames, rate)
	for range 3 {
		rigtest.Must(t, s.sw.Signal(unix.SIGSTOP))
		time.Sleep(400 * time.Millisecond)
		rigtest.Must(t, s.sw.Signal(unix.SIGCONT))
		time.Sleep(200 * time.Millisecond)
	}
	rigtest.Must(t, errors.Join(<-x, <-y))
	s.Drain(t, 1, -1, a)
	s.Drain(t, 0, -1, b)
	s.Intact(t, 1, a, "stalled, one way")
	s.Intact(t, 0, b, "stalled, the other way")
	s.Whole(t, 0, 1, 400)
	s.accounts(t)
}

// checkKill: a switch that was killed leaves devices that the next one takes over.
func checkKill(t *testing.T, s *site) {
	if r := s.stop(t, unix.SIGKILL); r.Status != 128+int(unix.SIGKILL) {
		t.Errorf("status %d", r.Status)
	}
	s.start(t)
	s.Whole(t, 0, 1, 400)
	s.Whole(t, 1, 2, 200)
	s.conserves(t)
}

// checkRestore: on SIGTERM the switch gives the devices back as they were before the first one.
func checkRestore(t *testing.T, s *site) {
	log := s.sw
	if r := s.stop(t, unix.SIGTERM); r.Status != 0 {
		t.Errorf("status %d: %s", r.Status, log.Result().Stderr)
	}
	if left := s.run(t, "ls", "-A", "/run/sluice/devices"); left != "" {
		t.Errorf("settings of devices that nobody has restored: %s", left)
	}
	s.awaitCarrier(t, "eth1", true)
	time.Sleep(time.Second)
	if now := s.settings(t); now != s.initial {
		t.Errorf("settings before:\n%s\nand after:\n%s", s.initial, now)
	}
	rigtest.CheckKernel(t, s.guest)
}
