package live

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pmd/xdprun"
)

// TestEveryFrameIsAccountedFor sends as fast as possible through two devices. Every frame has
// arrived, in order, or the device reports that its peer had no room for it. The missing sequence
// numbers are exactly those frames.
func TestEveryFrameIsAccountedFor(t *testing.T) {
	l := newLab(t)
	host, peer := newNamespace(t, l, "host"), newNamespace(t, l, "peer")
	var p GeneratorParams
	var sinks []*Sink
	for i := range 2 {
		tx, rx := fmt.Sprint("h", i), fmt.Sprint("p", i)
		if err := l.Veth(host, tx, peer, rx); err != nil {
			t.Fatal(err)
		}
		sinks = append(sinks, newSink(t, peer, rx, SinkParams{Flows: 2}))
		p.Ports = append(p.Ports,
			PortParams{Namespace: host, Device: tx, Flows: []Flow{flow(0, 0, 60, 0), flow(1, 3, 1514, 0)}})
	}
	g := start(t, p)
	until(t, "10000 frames", func() bool { return g.Sent()[3].Frames > 10_000 })
	begun := time.Now()
	sent := stop(t, g)
	t.Logf("stopped within %v", time.Since(begun))
	for i, s := range sinks {
		missing, lost := uint64(0), uint64(0)
		until(t, "all frames", func() bool {
			received := s.Counters()
			missing = sent[2*i].Frames + sent[2*i+1].Frames - received[0].Frames - received[1].Frames
			return missing == refused(t, host, p.Ports[i].Device)
		})
		for j, r := range s.Read().Flows {
			of := sent[2*i+j]
			lost += r.First + r.Lost + of.Frames - r.Next
			if r.Reordered+r.Duplicates+r.Stale > 0 || r.Bytes != r.Frames*uint64(p.Ports[i].Flows[j].Size) {
				t.Errorf("sent %+v, received %d frames, %d B, reordered %d, duplicates %d, stale %d",
					of, r.Frames, r.Bytes, r.Reordered, r.Duplicates, r.Stale)
			}
		}
		if lost != missing {
			t.Errorf("port %d: %d sequence numbers are missing, but %d frames", i, lost, missing)
		}
		t.Logf("port %d: %d and %d frames, no room for %d", i, sent[2*i].Frames, sent[2*i+1].Frames, missing)
	}
}

// TestLongestFrames alternates frames of MaxSize and short ones.
func TestLongestFrames(t *testing.T) {
	l := newLab(t)
	host, peer := newNamespace(t, l, "host"), newNamespace(t, l, "peer")
	if err := l.Veth(host, hostDevice, peer, peerDevice, netns.MTU(MaxSize)); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 2})
	g := start(t,
		GeneratorParams{Ports: []PortParams{port(host, flow(0, 0, MaxSize, 10_000), flow(1, 0, MinSize, 10_000))}})
	until(t, "frames", func() bool { return g.Sent()[1].Frames > 500 })
	for i, sent := range stop(t, g) {
		until(t, "all frames", func() bool {
			r := s.Read().Flows[i]
			return r.Frames == sent.Frames && r.Bytes == sent.Bytes && r.Lost == 0
		})
	}
}

// TestJumboFrames: a sink counts frames that no generator makes, which have several buffers.
func TestJumboFrames(t *testing.T) {
	l := newLab(t)
	host, peer := newNamespace(t, l, "host"), newNamespace(t, l, "peer")
	const mtu = 9216
	if err := l.Veth(host, hostDevice, peer, peerDevice, netns.MTU(mtu)); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 1})
	const frames = 100
	bytes := uint64(0)
	for seq := range uint64(frames) {
		f := flow(0, 0, mtu+headerMost-frame.TagLength-int(seq)*90, 0)
		inject(t, host, hostDevice, testFrame(f, seq, 0, 0))
		bytes += uint64(f.Size)
	}
	until(t, "all frames", func() bool {
		r := s.Read()
		return r.Flows[0].Frames == frames && r.Flows[0].Bytes == bytes && r.Flows[0].Lost == 0
	})
}

// lossyWire is an XDP program that forwards all frames to a device, except those whose sequence
// number is a multiple of 8.
func lossyWire(t *testing.T, n *netns.Namespace, from, to string) {
	t.Helper()
	const sequenceEnd = headerMost + line.SequenceAt + 8
	var attached link.Link
	err := n.Do(func() error {
		in, err1 := netlink.LinkByName(from)
		out, err2 := netlink.LinkByName(to)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		p, err := xdprun.NewProgram("lossy", xdprun.Bounds(asm.R2, asm.R3, asm.R1),
			xdprun.Within(asm.R4, asm.R2, sequenceEnd, asm.R3, "drop"), asm.Instructions{
				asm.LoadMem(asm.R2, asm.R2, sequenceEnd-1, asm.Byte),
				asm.And.Imm(asm.R2, 7),
				asm.JEq.Imm(asm.R2, 0, "drop"),
				asm.Mov.Imm(asm.R1, int32(out.Attrs().Index)),
				asm.Mov.Imm(asm.R2, 0),
				asm.FnRedirect.Call(),
				asm.Return(),
			}, xdprun.Drop("drop"))
		if err != nil {
			return err
		}
		defer p.Close()
		attached, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: in.Attrs().Index,
			Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { attached.Close() })
}

// TestLossIsExact has a wire in the middle that loses every eighth frame.
func TestLossIsExact(t *testing.T) {
	l := newLab(t)
	host, middle, peer := newNamespace(t, l, "host"), newNamespace(t, l, "middle"), newNamespace(t, l, "peer")
	if err := errors.Join(l.Veth(host, hostDevice, middle, "m0"), l.Veth(middle, "m1", peer, peerDevice)); err != nil {
		t.Fatal(err)
	}
	lossyWire(t, middle, "m0", "m1")
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 1})
	g := start(t, GeneratorParams{Ports: []PortParams{port(host, flow(0, 0, 60, 50_000))}})
	until(t, "5000 frames", func() bool { return g.Sent()[0].Frames >= 5000 })
	sent := stop(t, g)[0].Frames
	var r Received
	until(t, "the last frame", func() bool {
		r = s.Read().Flows[0]
		return r.Next >= sent-1
	})
	// Frame 0 is lost before any frame has arrived, and the last one may be lost after all others.
	if want := (r.Next - 1) / 8; r.First != 1 || r.Lost != want || r.Frames != r.Next-1-want ||
		r.Reordered+r.Duplicates > 0 {
		t.Errorf("of %d sent, %d from %d on: lost %d, want %d; reordered %d, duplicates %d",
			sent, r.Frames, r.First, r.Lost, want, r.Reordered, r.Duplicates)
	}
}

// TestDisorderIsSeen sends frames in another order, and some of them twice.
func TestDisorderIsSeen(t *testing.T) {
	host, peer := newCable(t)
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 4})
	f := flow(3, 6, 100, 0)
	for _, seq := range []uint64{10, 11, 14, 12, 12, 15, 14, 300, 13, 200, 299, 9} {
		inject(t, host, hostDevice, testFrame(f, seq, 0, 0))
	}
	var r Received
	until(t, "12 frames", func() bool {
		r = s.Read().Flows[3]
		return r.Frames+r.Duplicates+r.Stale == 12
	})
	if r.Frames != 9 || r.First != 10 || r.Next != 301 || r.Lost != 282 || r.Reordered != 4 || r.Duplicates != 2 ||
		r.Stale != 1 {
		t.Errorf("%d frames from %d to %d: lost %d, reordered %d, duplicates %d, stale %d",
			r.Frames, r.First, r.Next, r.Lost, r.Reordered, r.Duplicates, r.Stale)
	}
}

// TestSignalsEndNoFrame interrupts a generator repeatedly: its sequence continues.
func TestSignalsEndNoFrame(t *testing.T) {
	host, peer := newCable(t)
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 1})
	g := start(t, GeneratorParams{Ports: []PortParams{port(host, flow(0, 0, 60, 10_000))}, CatchUp: time.Minute})
	for i := range uint64(5) {
		until(t, "more frames", func() bool { return g.Sent()[0].Frames > 100*i })
		unix.Tgkill(os.Getpid(), g.runner.Thread(), unix.SIGURG)
		unix.Tgkill(os.Getpid(), g.runner.Thread(), unix.SIGUSR1) // blocked
	}
	until(t, "500 frames", func() bool { return g.Sent()[0].Frames > 500 })
	sent := stop(t, g)[0]
	until(t, "all frames", func() bool { return s.Read().Flows[0].Frames == sent.Frames })
	r := s.Read().Flows[0]
	if r.First != 0 || r.Lost+r.Reordered+r.Duplicates > 0 || sent.Forgone > 0 {
		t.Errorf("sent %+v; lost %d, reordered %d, duplicates %d", sent, r.Lost, r.Reordered, r.Duplicates)
	}
	t.Logf("the longest silence: %v", time.Duration(r.FromSchedule.Max))
}

// TestCallsFollowEachOther runs a generator in many system calls with few frames each.
func TestCallsFollowEachOther(t *testing.T) {
	host, peer := newCable(t)
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 1})
	g := newStillGenerator(t, time.Minute, port(host, flow(0, 0, 60, -1)))
	r, err := xdprun.Start(xdprun.Params{Program: g.program, Frame: make([]byte, 60), CPU: 1, Repeat: 1 << 14})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.SetRate(0, 0, 50_000); err != nil {
		t.Fatal(err)
	}
	until(t, "2000 frames", func() bool { return g.Sent()[0].Frames > 10_000 })
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	sent := g.Sent()[0].Frames
	until(t, "all frames", func() bool { return s.Read().Flows[0].Frames == sent })
	got := s.Read().Flows[0]
	if got.First != 0 || got.Lost+got.Reordered+got.Duplicates > 0 {
		t.Errorf("lost %d, reordered %d, duplicates %d", got.Lost, got.Reordered, got.Duplicates)
	}
	late := got.FromSchedule
	t.Logf("late, between calls too: %v in the median, p99 %v, at most %v",
		time.Duration(late.Quantile(0.5)), time.Duration(late.Quantile(0.99)), time.Duration(late.Max))
}

// TestLeavesNothingBehind kills a process with a generator and a sink: the device is as before, and
// no frame arrives.
func TestLeavesNothingBehind(t *testing.T) {
	if os.Getenv("LIVE_CHILD") != "" {
		child(t)
	}
	host, peer := newCable(t)
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 1})
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestLeavesNothingBehind$")
	cmd.Env = append(os.Environ(), "LIVE_CHILD=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := host.Start(cmd); err != nil {
		t.Fatal(err)
	}
	until(t, "frames", func() bool { return s.Read().Flows[0].Frames > 1000 })
	if !hasProgram(t, host, hostDevice) {
		t.Fatal("the other process has no sink")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	until(t, "the program off the device", func() bool { return !hasProgram(t, host, hostDevice) })
	before := s.Read().Flows[0].Frames
	time.Sleep(20 * time.Millisecond)
	if after := s.Read().Flows[0].Frames; after != before {
		t.Errorf("%d frames came after the generator was killed", after-before)
	}
}

// child generates and sinks in its namespace until it is killed.
func child(t *testing.T) {
	if _, err := NewSink(nil, hostDevice, SinkParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(GeneratorParams{CPU: 1, Ports: []PortParams{port(nil, flow(0, 0, 60, 0))}}); err != nil {
		t.Fatal(err)
	}
	select {}
}

func hasProgram(t *testing.T, n *netns.Namespace, device string) (has bool) {
	t.Helper()
	err := n.Do(func() error {
		d, err := netlink.LinkByName(device)
		has = err == nil && d.Attrs().Xdp != nil && d.Attrs().Xdp.Attached
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return has
}

// TestDeviceThatGoes: when a device is gone, the generator counts no more frames for it and
// continues with the other one.
func TestDeviceThatGoes(t *testing.T) {
	l := newLab(t)
	host, peer := newNamespace(t, l, "host"), newNamespace(t, l, "peer")
	var p GeneratorParams
	for i := range 2 {
		tx, rx := fmt.Sprint("h", i), fmt.Sprint("p", i)
		if err := l.Veth(host, tx, peer, rx); err != nil {
			t.Fatal(err)
		}
		newSink(t, peer, rx, SinkParams{Flows: 1})
		p.Ports = append(p.Ports, PortParams{Namespace: host, Device: tx, Flows: []Flow{flow(0, 0, 60, 100_000)}})
	}
	g := start(t, p)
	goOn := func(port int) {
		before := g.Sent()[port].Frames
		until(t, "more frames", func() bool { return g.Sent()[port].Frames > before+1000 })
	}
	goOn(0)
	err := host.Do(func() error {
		d, err := netlink.LinkByName("h0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(d)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.devices.Lookup(uint32(0), new(uint32)); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("the device is still known: %v", err)
	}
	goOn(1) // counts a frame that was being made when the device went
	before := g.Sent()[0].Frames
	goOn(1)
	if after := g.Sent()[0].Frames; after != before {
		t.Errorf("%d frames sent through a device that is gone", after-before)
	}
	if _, known := g.Refused(0); known {
		t.Error("a device that is gone counts")
	}
	stop(t, g)
}

// TestRefusedFramesAreKnown: the peer does not take frames as long as those of one flow, and the
// device reports that. It also refuses the frames behind them in a batch.
func TestRefusedFramesAreKnown(t *testing.T) {
	host, peer := newCable(t)
	err := peer.Do(func() error {
		d, err := netlink.LinkByName(peerDevice)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(d, 500)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 2})
	for range 2 { // the second generator counts only its own
		s.Clear()
		g := start(t,
			GeneratorParams{Ports: []PortParams{port(host, flow(0, 0, 1000, 20_000), flow(1, 0, 100, 20_000))}})
		until(t, "frames", func() bool { return g.Sent()[0].Frames > 200 && g.Sent()[1].Frames > 200 })
		for i := range 2 {
			if err := g.SetRate(0, i, -1); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "all frames received or refused", func() bool {
			n, known := g.Refused(0)
			sent, counters := g.Sent(), s.Counters()
			received := counters[0].Frames + counters[1].Frames
			return known && n >= sent[0].Frames && received > 0 && n == sent[0].Frames+sent[1].Frames-received
		})
		stop(t, g)
	}
}
