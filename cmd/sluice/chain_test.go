package main

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/frame"
	"sluice/pfc"
)

// A chain of switches: two hosts, each on its own switch, and a third switch with the target of
// both. Pauses of the target must reach the hosts hop by hop. The VLAN of each host leads to the
// target only.
//
//	host 1 --- port1 [1] port2 --- port1 [3] port3 --- target
//	host 2 --- port1 [2] port2 --- port2 [3]
const (
	// By default the two classes are in groups of equal weight, so their frames alternate.
	chainClasses = `
classes:
  - {cos: [3], name: storage, lossless: true, share: 64KB, xon: 32KB, headroom: 8MB}
  - {cos: [0], name: lan, share: 4MB, queue_limit: 4MB}
forwarding: {loop_guard: off} # a frame that comes before a host has buffers is one that the host lost
`
	edgeSwitch = chainClasses + `
workers: [0]
ports:
  - {device: port1, speed: 20M}
  - {device: port2, speed: 20M}
`
	coreSwitch = chainClasses + `
workers: [1]
ports:
  - {device: port1, speed: 20M, vlans: [1, 101]}
  - {device: port2, speed: 20M, vlans: [1, 102]}
  - {device: port3, speed: 2M, vlans: [1, 101, 102]}
`
	// Per host. The two lossless flows alone are four times what the target can receive. Lossy
	// frames are short: a port that was not served for a while may send many of them at once, and
	// so keeps up with their rate even if its worker shares a CPU.
	storageFrames, storageRate = 400, 4_000_000 // bit/s on the wire
	lanSize, lanRate           = 60, 40_320     // 60 frames/s

	chainPeriod = 3 * time.Second
)

// chain is a running chain; its site has only the hosts.
type chain struct {
	program.Site
	switches [3]*program.Running
}

func newChain(t *testing.T) *chain {
	t.Helper()
	k := &chain{Site: program.NewSite(t, 0)}
	homes := [3]*netns.Namespace{}
	for i := range homes {
		homes[i] = k.Namespace(t, fmt.Sprintf("switch%d", i+1))
		k.Hosts = append(k.Hosts, k.Namespace(t, fmt.Sprintf("host%d", i+1)))
	}
	for _, cable := range []struct {
		a      *netns.Namespace
		device string
		b      *netns.Namespace
		other  string
	}{
		{homes[0], "port1", k.Hosts[0], program.HostDevice}, {homes[0], "port2", homes[2], "port1"},
		{homes[1], "port1", k.Hosts[1], program.HostDevice}, {homes[1], "port2", homes[2], "port2"},
		{homes[2], "port3", k.Hosts[2], program.HostDevice},
	} {
		k.Veth(t, cable.a, cable.device, cable.b, cable.other)
	}
	for i, text := range []string{edgeSwitch, edgeSwitch, coreSwitch} {
		k.switches[i] = program.StartSwitch(t, homes[i], text)
	}
	return k
}

// tell makes the target send a PFC frame for the lossless class.
func (c *crew) tell(quanta uint16) {
	f := pfc.Frame{Enable: 1 << lossless}
	f.Quanta[lossless] = quanta
	c.Calls <- func(int64) { c.List[0].Inject(f) }
}

// sample is the number of frames sent and received at one time.
type sample struct {
	at        int64             // ns
	sent, got map[uint32]uint64 // frames, by flow
}

func (c *crew) sample() sample {
	s := sample{sent: map[uint32]uint64{}, got: map[uint32]uint64{}}
	done := make(chan struct{})
	c.Calls <- func(now int64) {
		defer close(done)
		s.at = now
		for _, h := range c.List {
			stats := h.Stats(now)
			for _, f := range stats.Sent {
				s.sent[f.ID] = f.Frames
			}
			for _, f := range stats.Received {
				s.got[f.ID] = f.Frames
			}
		}
	}
	<-done
	return s
}

// period waits for chainPeriod, calls do every 200 ms, and returns samples from its start and end.
func (c *crew) period(do func()) (before, after sample) {
	before = c.sample()
	for end := time.Now().Add(chainPeriod); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		do()
	}
	return before, c.sample()
}

// lossyRate returns the rate at which the target received the lossy flows 2 and 4, in frames/s.
func lossyRate(before, after sample) float64 {
	frames := after.got[2] + after.got[4] - before.got[2] - before.got[4]
	return float64(frames) / (float64(after.at-before.at) / 1e9)
}

// TestChain measures the lossy rate while the target pauses the lossless class, while the lossless
// senders are faster than the target, and without lossless frames. The three rates must be the
// same, and no hop may lose a lossless frame.
func TestChain(t *testing.T) {
	k := newChain(t)
	flows := func(id uint32, from int) []traffic.Flow {
		storage, lan := flowToTarget(id, from, lossless), flowToTarget(id+1, from, lossy)
		storage.Count, storage.Rate = storageFrames, storageRate
		lan.Size, lan.Rate = lanSize, lanRate
		return []traffic.Flow{storage, lan}
	}
	c := newCrew(t, k.Site, 1, []int{target, 1, 2}, map[int][]traffic.Flow{1: flows(1, 1), 2: flows(3, 2)})
	c.tell(0xffff)
	program.Until(t, "the target to have sent its pause", func() bool { return c.Stats()[0].Injected == 1 })
	c.Start(2)
	program.Until(t, "the pause to reach both hosts", func() bool {
		hosts := c.Stats()
		return hosts[1].PFC.XOFF[lossless] > 0 && hosts[2].PFC.XOFF[lossless] > 0
	})
	before, after := c.period(func() { c.tell(0xffff) })
	for _, id := range []uint32{1, 3} {
		if after.got[id] > 0 {
			t.Errorf("flow %d in the pause: received %d frames", id, after.got[id])
		}
	}
	paused := lossyRate(before, after)

	c.tell(0)
	before = c.sample()
	program.Until(t, "all lossless frames", func() bool {
		after = c.sample()
		return after.got[1]+
			after.got[3] == 2*storageFrames
	})
	slow := lossyRate(before, after)
	solo := lossyRate(c.period(func() {}))
	const offered = 2 * lanRate / 8 / float64(lanSize+frame.WireOverhead)
	t.Logf("lossy frames/s: %.1f offered; received %.1f while the lossless class was paused, %.1f while it was too "+
		"fast, %.1f alone",
		offered, paused, slow, solo)
	if paused < .95*solo || slow < .95*solo || solo < .95*offered {
		t.Error("the lossy class has less than 95 % of what it has alone")
	}
	k.end(t, c)
}

// end stops the hosts and switches, and compares their counters.
func (k *chain) end(t *testing.T, c *crew) {
	t.Helper()
	c.settle(1, 2, 3, 4)
	core := k.switches[2].Stop() // first, so that the edges receive its last PFC frames
	edges := []program.Report{k.switches[0].Stop(), k.switches[1].Stop()}
	var told []uint64 // PFC frames that each edge sent to its host
	for _, r := range edges {
		told = append(told, r.Port(t, "port1").PFC.Frames)
	}
	program.Until(t, "the hosts to hear all that they were told", func() bool {
		hosts := c.Stats()
		return hosts[1].PFC.Frames == told[0] && hosts[2].PFC.Frames == told[1]
	})
	for id, r := range c.received() {
		if r.Frames != c.sent()[id] || r.Missing+r.Reordered+r.Duplicates+r.Stale > 0 {
			t.Errorf("flow %d: sent %d, received %+v", id, c.sent()[id], r)
		}
	}
	if n := c.Lost(); n > 0 {
		t.Errorf("hosts lost %d frames", n)
	}
	checkHop(t, "switch 1", edges[0], storageFrames)
	checkHop(t, "switch 2", edges[1], storageFrames)
	checkHop(t, "switch 3", core, 2*storageFrames)
	checkBuffers(t, coreSwitch, core)
	logChain(t, core, edges)
}

// checkHop checks that a switch forwarded all lossless frames.
func checkHop(t *testing.T, name string, r program.Report, frames uint64) {
	t.Helper()
	received, sent, drops := r.Class(lossless)
	if received != frames || sent != frames || len(drops) > 0 || r.LosslessDrops > 0 {
		t.Errorf("%s: received %d lossless frames, sent %d, dropped %v; want %d to pass", name, received, sent, drops,
			frames)
	}
	for _, p := range r.Ports {
		if n := p.Driver.Lost(); n > 0 {
			t.Errorf("%s: %d frames lost between %s and switch", name, n, p.Name)
		}
	}
}

// logChain logs the PFC frames of each hop, and checks that there were some and that they were
// received.
func logChain(t *testing.T, core program.Report, edges []program.Report) {
	t.Helper()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	t.Logf("iterations of switch 1 to 3 were at the most %.0f, %.0f and %.0f ms apart",
		float64(edges[0].Workers[0].GapMaxNS)/1e6, float64(edges[1].Workers[0].GapMaxNS)/1e6,
		float64(core.Workers[0].GapMaxNS)/1e6)
	fmt.Fprintln(w, "from\tto\tXOFF\tXON\trefreshes\tpaused for ms\tpeak shared\theadroom\t")
	row := func(from, to string, p program.PortReport) {
		cos := p.ByCoS[lossless]
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.0f\t%d\t%d\t\n", from, to, p.PFC.XOFF, p.PFC.XON, p.PFC.Refreshes,
			float64(p.PFC.PausedPeerNS)/1e6,
			cos.Group.Shared.Max, cos.Group.Headroom.Max)
		if p.PFC.XOFF == 0 || p.PFC.XON == 0 { // XON: the pauses did not only come from the end of the switch
			t.Errorf("%s to %s: %d XOFF, %d XON", from, to, p.PFC.XOFF, p.PFC.XON)
		}
	}
	for i, edge := range edges {
		name := fmt.Sprintf("switch %d", i+1)
		up, down := core.Port(t, fmt.Sprintf("port%d", i+1)), edge.Port(t, "port2")
		row("switch 3", name, up)
		row(name, fmt.Sprintf("host %d", i+1), edge.Port(t, "port1"))
		if up.PFC.Frames != down.PFC.Received {
			t.Errorf("switch 3 sent %d PFC frames to %s, which received %d", up.PFC.Frames, name, down.PFC.Received)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &table)
}
