package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
)

const (
	jumboMTU   = 9216
	jumboSpeed = 100_000_000 // bit/s
)

// jumboSizes are the lengths of frames without FCS: the shortest and the longest, and some around
// the borders of one, two and three buffers of 2048 and 4096 bytes.
var jumboSizes = []int{60, 1514, 1664, 1665, 3328, 3329, 3712, 3713, 4214, 4993, 6657, 7424, 7425, 9014, jumboMTU + 18}

// jumboSwitch is slowSwitch for jumbo frames: faster, with headroom for as long. It has a worker on
// each of the CPUs.
func jumboSwitch(bufferSize int, cpus ...int) string {
	workers := ""
	if len(cpus) > 0 {
		workers = "workers: " + strings.ReplaceAll(fmt.Sprintln(cpus), " ", ", ")
	}
	return fmt.Sprintf(`%smemory: {buffers: 65536, buffer_size: %dB}
classes:
  - {cos: [3], name: storage, lossless: true, share: 512KB, xon: 256KB, headroom: 20MB}
  - {cos: [0], name: lan, share: 1MB, queue_limit: 512KB}
ports:
  - {device: port1, speed: 100M, mtu: 9216, vlans: [1, 100, 101]}
  - {device: port2, speed: 100M, mtu: 9216, vlans: [1, 100, 102]}
  - {device: port3, speed: 100M, mtu: 9216, vlans: [1, 100-102]}
`, workers, bufferSize)
}

// jumboFlow gives a flow all sizes in turn.
func jumboFlow(f traffic.Flow) traffic.Flow {
	f.Sizes = jumboSizes
	return f
}

func newJumboCrew(t *testing.T, s program.Site, active int, ports []int, flows map[int][]traffic.Flow) *crew {
	t.Helper()
	return newCrewAt(t, s, jumboSpeed, jumboMTU, active, ports, flows)
}

// TestJumboOverload has two hosts send to a third at its speed, each in both classes: the lossless
// one loses nothing and keeps its order, and no byte of any frame changes. With few buffers, hardly
// more than check demands, the receive rings are short, and the lossy class is dropped at ingress.
func TestJumboOverload(t *testing.T) {
	few := strings.NewReplacer("buffers: 65536", "buffers: 7800", "headroom: 20MB", "headroom: 5MB")
	for _, c := range []struct {
		name, text string
		full       drop.Reason
	}{
		{"buffer=4096", jumboSwitch(4096, 0), drop.QueueFull},
		{"buffer=2048/workers=2", jumboSwitch(2048, 0, 1), drop.QueueFull},
		{"few", few.Replace(jumboSwitch(4096, 0)), drop.IngressFull},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.text
			s := program.NewSite(t, 3, netns.MTU(jumboMTU))
			p := program.StartSwitch(t, s.Home, text)
			crew := newJumboCrew(t, s, 3, []int{target, 1, 2}, map[int][]traffic.Flow{
				1: {jumboFlow(flowToTarget(1, 1, lossless)), jumboFlow(flowToTarget(2, 1, lossy))},
				2: {jumboFlow(flowToTarget(3, 2, lossless)), jumboFlow(flowToTarget(4, 2, lossy))}})
			crew.more(3000, 1, 3)
			crew.settle(1, 3)
			sent, got := crew.sent(), crew.received()
			checkArrived(t, sent, got, 1, 3)
			for _, id := range []uint32{2, 4} {
				if f := got[id]; f.Reordered+f.Duplicates+f.Stale > 0 {
					t.Errorf("flow %d: sent %d, received %+v", id, sent[id], f)
				}
			}
			checkUnchanged(t, crew)
			crew.leave()
			r := p.Stop()
			checkBuffers(t, text, r)
			checkOverload(t, r, sent[2]+sent[4], c.full)
			t.Logf("lossless: %d and %d frames", sent[1], sent[3])
		})
	}
}

// TestJumboFloodUnderOverload has two hosts broadcast lossless frames through two workers, so that
// the third one's port has twice as much to send as it can. Every other host receives every
// broadcast, in order and unchanged.
func TestJumboFloodUnderOverload(t *testing.T) {
	text := jumboSwitch(4096, 0, 1)
	s := program.NewSite(t, 3, netns.MTU(jumboMTU))
	p := program.StartSwitch(t, s.Home, text)
	broadcast := func(id uint32) traffic.Flow {
		f := jumboFlow(flow(id, target, lossless))
		f.Dst = frame.Broadcast
		return f
	}
	crew := newJumboCrew(t, s, 3, []int{target, 1, 2}, map[int][]traffic.Flow{
		1: {broadcast(1), jumboFlow(flowToTarget(3, 1, lossy))},
		2: {broadcast(2), jumboFlow(flowToTarget(4, 2, lossy))}})
	crew.more(2000, 1, 2)
	crew.settle(1, 2)
	sent := crew.sent()
	for i, flows := range [][]uint32{{1, 2}, {2}, {1}} { // by host
		for _, id := range flows {
			var got traffic.Received
			program.Until(t, fmt.Sprintf("%d broadcasts %d at host %d", sent[id], id, i), func() bool {
				for _, r := range crew.Stats()[i].Received {
					if r.ID == id {
						got = r
					}
				}
				return got.Frames == sent[id]
			})
			if got.Missing+got.Reordered+got.Duplicates+got.Stale > 0 {
				t.Errorf("host %d: sent %d broadcasts, received %+v", i, sent[id], got)
			}
		}
	}
	checkUnchanged(t, crew)
	crew.leave()
	r := p.Stop()
	checkBuffers(t, text, r)
	checkOverload(t, r, sent[3]+sent[4], drop.QueueFull)
	t.Logf("broadcasts: %d and %d", sent[1], sent[2])
}

// checkUnchanged checks every byte that the hosts have received.
func checkUnchanged(t *testing.T, c *crew) {
	t.Helper()
	for i, h := range c.Stats() {
		if h.Corrupt > 0 {
			t.Errorf("host %d: %d frames arrived changed", i, h.Corrupt)
		}
	}
}

// checkOverload checks that a switch under overload lost no frame uncounted, and only lossy ones;
// and that it paused the peers of ports 1 and 2. The hosts sent that many lossy frames, some of
// which were dropped because of what was full.
func checkOverload(t *testing.T, r program.Report, sentLossy uint64, full drop.Reason) {
	t.Helper()
	in, out, drops := r.Class(lossy)
	dropped := uint64(0)
	for _, n := range drops {
		dropped += n
	}
	if r.LosslessDrops > 0 || drops[full.String()] == 0 || in < sentLossy || in > out+dropped {
		t.Errorf("%d lossless drops; lossy: the hosts sent %d, received %d, sent %d, dropped %v", r.LosslessDrops,
			sentLossy, in, out, drops)
	}
	for _, p := range r.Ports {
		pauses := p.Name != fmt.Sprintf("port%d", target)
		if p.Driver.Lost() > 0 || pauses && p.PFC.XOFF == 0 {
			t.Errorf("%s: %d frames lost before the switch, %d XOFF", p.Name, p.Driver.Lost(), p.PFC.XOFF)
		}
	}
	t.Logf("lossy: %d dropped of %d", dropped, in)
}

// TestJumboDeviceGoesAndComes is TestDeviceGoesAndComes with frames of several parts, while a
// capture runs: it has frames of the port that goes, and says so of those that are dropped.
func TestJumboDeviceGoesAndComes(t *testing.T) {
	socket, file := program.SocketPath(t), filepath.Join(t.TempDir(), "gone.pcapng")
	text := jumboSwitch(4096) + fmt.Sprintf("control: {socket: %s}\n", socket)
	s := program.NewSite(t, 3, netns.MTU(jumboMTU))
	p := program.StartSwitch(t, s.Home, text)
	half := func(f traffic.Flow) traffic.Flow { f.Rate = jumboSpeed / 2; return jumboFlow(f) }
	c := newJumboCrew(t, s, 2, []int{1, 2}, map[int][]traffic.Flow{
		1: {half(flow(1, 2, lossless)), half(flow(2, target, lossless))},
		2: {half(flow(3, 1, lossless)), half(flow(4, target, lossless))}})
	capture := startCapture(t, p, 1, socket, "-w", file)
	goAndCome(t, s, p, c, text)
	if code := capture.ExitCode(); code != 0 { // it ends with the switch
		t.Errorf("the capture has exit code %d", code)
	}
	for _, verdict := range []string{"verdict=forwarded", "reason=port_"} { // port_down or port_gone
		filter := fmt.Sprintf(`frame.comment contains "%s" && frame.len > 4096`, verdict)
		if frames := tsharkFields(t, file, filter, "frame.len"); len(frames) == 0 {
			t.Errorf("the capture has no long frame with %s", verdict)
		}
	}
}

// TestJumboKilled is TestKilled with frames of several parts.
func TestJumboKilled(t *testing.T) {
	s := program.NewSite(t, 2, netns.MTU(jumboMTU), netns.Queues(2))
	before, files := statesOf(t, s), program.Remembered(t, s)
	c := newJumboCrew(t, s, 2, []int{1, 2}, map[int][]traffic.Flow{
		1: {jumboFlow(flow(1, 2, lossless)), jumboFlow(flow(2, 2, lossy))},
		2: {jumboFlow(flow(3, 1, lossless)), jumboFlow(flow(4, 1, lossy))}})
	text, _, _ := strings.Cut(jumboSwitch(4096), "  - {device: port3")
	killUnderLoad(t, s, c, text, 20)
	checkRestored(t, s, before, files)
}

// TestTCPOverJumbo transfers 200 MB between the kernel's stacks of two hosts with an MTU of 9000.
func TestTCPOverJumbo(t *testing.T) {
	const bytesSent = 200 << 20
	s := program.NewSite(t, 2, netns.MTU(9000), netns.NoOffloads())
	p := program.StartSwitch(t, s.Home, `
memory: {buffer_size: 4096B}
ports:
  - {device: port1, speed: 10G, mtu: 9000}
  - {device: port2, speed: 10G, mtu: 9000}
`)
	for i, n := range s.Hosts {
		address, err := netlink.ParseAddr(fmt.Sprintf("10.0.0.%d/24", i+1))
		program.Must(t, err)
		program.OnLink(t, n, program.HostDevice, func(l netlink.Link) error { return netlink.AddrAdd(l, address) })
	}
	l, err := listenIn(s.Hosts[1], "10.0.0.2:5001")
	program.Must(t, err)
	defer l.Close()
	var sent, got [sha256.Size]byte
	received := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			hash := sha256.New()
			_, err = io.Copy(hash, c)
			got = [sha256.Size]byte(hash.Sum(nil))
			err = errors.Join(err, c.Close())
		}
		received <- err
	}()
	var c net.Conn
	program.Must(t, s.Hosts[0].Do(func() (err error) { c, err = net.Dial("tcp", "10.0.0.2:5001"); return err }))
	hash, random, b := sha256.New(), rand.NewChaCha8([32]byte{1}), make([]byte, 1<<20)
	for range bytesSent / len(b) {
		_, _ = random.Read(b) // never fails
		_, _ = hash.Write(b)
		_, err := io.Copy(c, bytes.NewReader(b))
		program.Must(t, err)
	}
	sent = [sha256.Size]byte(hash.Sum(nil))
	program.Must(t, c.Close())
	program.Must(t, <-received)
	r := p.Stop()
	in := r.Port(t, "port1")
	if sent != got || r.LosslessDrops > 0 {
		t.Errorf("sent %x, received %x", sent, got)
	}
	// The longest segments have 8948 bytes of data: two time stamps take 12 of 8960.
	if mean := in.ReceivedBytes / in.Received; mean < 4000 {
		t.Errorf("%d bytes a frame: the hosts did not use the MTU", mean)
	}
	t.Logf("%d frames, %d bytes; drops %v", in.Received, in.ReceivedBytes,
		slices.Concat(in.Drops, r.Port(t, "port2").Drops))
}
