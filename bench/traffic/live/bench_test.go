package live

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/pfc"
	"sluice/pmd/xdprun"
)

// sending describes how to send.
type sending struct {
	ports, flows, size int
	rate               float64
	drop               bool // the peers drop without counting
}

// run sends b.N frames. In addition to the elapsed time it reports the part for which the thread
// had a CPU, which includes the peers' programs.
func (w sending) run(b *testing.B) {
	l := newLab(b)
	host, peer := newNamespace(b, l, "host"), newNamespace(b, l, "peer")
	var p GeneratorParams
	for i := range w.ports {
		tx, rx := fmt.Sprint("h", i), fmt.Sprint("p", i)
		if err := l.Veth(host, tx, peer, rx); err != nil {
			b.Fatal(err)
		}
		if w.drop {
			attach(b, peer, rx, xdprun.Drop("drop"))
		} else {
			newSink(b, peer, rx, SinkParams{Flows: w.flows})
		}
		p.Ports = append(p.Ports, PortParams{Namespace: host, Device: tx})
		for id := range w.flows {
			p.Ports[i].Flows = append(p.Ports[i].Flows, flow(uint32(id), uint8(id%8), w.size, w.rate))
		}
	}
	g := start(b, p)
	sent := func() (n int) {
		for _, s := range g.Sent() {
			n += int(s.Frames)
		}
		return n
	}
	until(b, "frames", func() bool { return sent() > 10_000 })
	b.ResetTimer()
	first, from := sent(), ran(b, g)
	for sent() < first+b.N {
		time.Sleep(100 * time.Microsecond)
	}
	frames, to := sent()-first, ran(b, g)
	b.StopTimer()
	b.ReportMetric(float64((to-from).Nanoseconds())/float64(frames), "CPU-ns/frame")
	stop(b, g)
}

func ran(b *testing.B, g *Generator) time.Duration {
	b.Helper()
	t, err := g.Thread()
	if err != nil {
		b.Fatal(err)
	}
	return t.Ran
}

// attach attaches a program to a device until the benchmark ends.
func attach(b *testing.B, n *netns.Namespace, device string, code asm.Instructions) {
	b.Helper()
	p, err := xdprun.NewProgram("test", code)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	err = n.Do(func() error {
		d, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		on, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: d.Attrs().Index, Flags: link.XDPDriverMode})
		if err == nil {
			b.Cleanup(func() { on.Close() })
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSending sends as fast as possible, to peers that drop and to sinks. It also sends paced
// at an unreachable rate, so that pacing is the only difference.
func BenchmarkSending(b *testing.B) {
	for _, ports := range []int{1, 8} {
		for _, size := range []int{60, 1514} {
			w := sending{ports: ports, flows: 1, size: size, drop: true}
			name := fmt.Sprintf("ports=%d/bytes=%d/", ports, size)
			b.Run(name+"dropped", w.run)
			w.rate = 100e6
			b.Run(name+"dropped,paced", w.run)
			w.rate, w.drop = 0, false
			b.Run(name+"counted", w.run)
		}
	}
	b.Run("ports=8/flows=64/bytes=60/dropped", sending{ports: 8, flows: 8, size: 60, drop: true}.run)
}

// BenchmarkIdle times a pass over flows that are not due, which bounds the precision of pacing.
func BenchmarkIdle(b *testing.B) {
	host, _ := newCable(b)
	for _, flows := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("flows=%d", flows), func(b *testing.B) {
			p := port(host)
			for i := range flows {
				p.Flows = append(p.Flows, flow(uint32(i), 0, 60, 0.01))
			}
			g := newStillGenerator(b, time.Second, p)
			for range flows {
				g.make()
			}
			b.ResetTimer()
			if err := xdprun.Run(g.program.FD(), make([]byte, 60), uint32(b.N)); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkReaction pauses a port and measures when the generator built the last frame before the
// pause. It measures from before the system call that sends the PFC frame, on a CPU other than the
// generator's, and from the arrival of the PFC frame.
func BenchmarkReaction(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, only unix.CPUSet
	only.Set(0)
	if err := errors.Join(unix.SchedGetaffinity(0, &before), unix.SchedSetaffinity(0, &only)); err != nil {
		b.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &before)
	host, peer := newCable(b)
	pauses := newPauses(b, 1)
	newSink(b, host, hostDevice, SinkParams{Flows: 1, Priorities: 0xff, Speed: slow, Pauses: pauses})
	s := newSink(b, peer, peerDevice, SinkParams{Flows: 1})
	g := start(b, GeneratorParams{Pauses: pauses, Ports: []PortParams{port(host, flow(0, 3, 60, 0))}})
	socket, to := packetSocket(b, peer)
	defer unix.Close(socket)
	tell := func(quanta uint16) {
		f := make([]byte, pfc.FrameLength)
		(&pfc.Frame{Enable: 1 << 3, Quanta: [8]uint16{3: quanta}}).Put(f, peerMAC.Bytes())
		if err := unix.Sendto(socket, f, 0, to); err != nil {
			b.Fatal(err)
		}
	}
	var reactions, afterArrival []int64
	for range b.N {
		before := g.Sent()[0].Frames
		until(b, "frames", func() bool { return g.Sent()[0].Frames > before+1000 })
		at := int64(monotonic())
		tell(65535)
		still := g.Sent()[0].Frames
		until(b, "the pause", func() bool {
			last := still
			still = g.Sent()[0].Frames
			return still == last && s.Read().Flows[0].Next == still
		})
		last := s.Read().Flows[0].LastSent
		reactions = append(reactions, last-at)
		afterArrival = append(afterArrival, last-int64(pauses.look(3 * pauseWords)[pauseBegin]))
		tell(0)
	}
	stop(b, g)
	slices.Sort(reactions)
	slices.Sort(afterArrival)
	for _, percent := range []int{50, 90, 99} {
		i := (len(reactions) - 1) * percent / 100
		b.ReportMetric(float64(reactions[i]), fmt.Sprintf("p%d-ns", percent))
		b.ReportMetric(float64(afterArrival[i]), fmt.Sprintf("arrived-p%d-ns", percent))
	}
}

func packetSocket(b *testing.B, peer *netns.Namespace) (socket int, to *unix.SockaddrLinklayer) {
	b.Helper()
	err := peer.Do(func() (err error) {
		d, err := netlink.LinkByName(peerDevice)
		if err != nil {
			return err
		}
		to = &unix.SockaddrLinklayer{Ifindex: d.Attrs().Index}
		socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return socket, to
}
