package live

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/pfc"
)

// benchmarkSending times a frame through one or more ports, on one CPU, into sinks.
func benchmarkSending(b *testing.B, ports, flows, size int, rate float64) {
	l := newLab(b)
	host, peer := newNamespace(b, l, "host"), newNamespace(b, l, "peer")
	var p GeneratorParams
	for i := range ports {
		tx, rx := fmt.Sprint("h", i), fmt.Sprint("p", i)
		if err := l.Veth(host, tx, peer, rx); err != nil {
			b.Fatal(err)
		}
		newSink(b, peer, rx, SinkParams{Flows: flows})
		p.Ports = append(p.Ports, PortParams{Namespace: host, Device: tx})
		for id := range flows {
			p.Ports[i].Flows = append(p.Ports[i].Flows, flow(uint32(id), uint8(id%8), size, rate))
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
	for end := sent() + b.N; sent() < end; {
		time.Sleep(100 * time.Microsecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpackets/s")
	stop(b, g)
}

// BenchmarkSending: as fast as it goes, and paced at a rate that can't be reached, which costs the pacing besides.
func BenchmarkSending(b *testing.B) {
	for _, pacing := range []struct {
		name string
		rate float64
	}{{"unlimited", 0}, {"paced", 100e6}} {
		for _, ports := range []int{1, 8} {
			for _, size := range []int{60, 1514} {
				b.Run(fmt.Sprintf("%s/ports=%d/bytes=%d", pacing.name, ports, size), func(b *testing.B) {
					benchmarkSending(b, ports, 1, size, pacing.rate)
				})
			}
		}
	}
	b.Run("unlimited/ports=8/flows=64/bytes=60", func(b *testing.B) { benchmarkSending(b, 8, 8, 60, 0) })
}

// BenchmarkReaction tells a port to pause and looks for when the last frame before the pause was built. Time begins
// before the system call that sends the PFC frame.
func BenchmarkReaction(b *testing.B) {
	host, peer := newCable(b)
	pauses := newPauses(b, 1)
	newSink(b, host, hostDevice, SinkParams{Flows: 1, Priorities: 0xff, Speed: slow, Pauses: pauses})
	s := newSink(b, peer, peerDevice, SinkParams{Flows: 1})
	g := start(b, GeneratorParams{Pauses: pauses, Ports: []PortParams{port(host, flow(0, 3, 60, 0))}})
	socket, to := packetSocket(b, peer)
	defer unix.Close(socket)
	tell := func(quanta uint16) {
		f := make([]byte, pfc.FrameLength)
		pfc.Frame{Enable: 1 << 3, Quanta: [8]uint16{3: quanta}}.Put(f, peerMAC.Bytes())
		if err := unix.Sendto(socket, f, 0, to); err != nil {
			b.Fatal(err)
		}
	}
	var reactions []int64
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
		reactions = append(reactions, s.Read().Flows[0].LastSent-at)
		tell(0)
	}
	slices.Sort(reactions)
	for _, q := range []int{50, 90, 99, 100} {
		b.ReportMetric(float64(reactions[(len(reactions)-1)*q/100])/1e3, fmt.Sprintf("p%d-µs", q))
	}
	stop(b, g)
}

func packetSocket(b *testing.B, peer interface{ Do(func() error) error }) (socket int, to *unix.SockaddrLinklayer) {
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
