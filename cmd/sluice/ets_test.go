package main

import (
	"fmt"
	"math"
	"testing"
	"time"

	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/frame"
)

const (
	switchAFile = "../../examples/switcha.yaml"
	switchAVLAN = 2094
	ipc         = 7 // CoS

	// switchAFCoE is its FIP snooping. Tests with other traffic in its VLAN leave it out.
	switchAFCoE = "fcoe:\n  instances:\n    - {name: FSB, vlan: 2094}\n"

	etsPeriod = 6 * time.Second
)

// slowSwitchA adapts the example SwitchA to hosts that share their CPU and have no DCBX: it is
// slower, uses the devices of a site, has PFC without an agreement, no FIP snooping, headroom for
// two seconds of a host's traffic, and longer queues, so that none runs empty while its hosts wait
// for the CPU. The address behind port1 is static. No probes go to hosts that have no buffers yet.
func slowSwitchA(t *testing.T) string {
	t.Helper()
	text := example(t, switchAFile,
		"10ge1-0-", "port", "mtu: 2158", "mtu: 1500", switchAFCoE, "",
		"speed: 10G", "speed: 20M", "flow_control: auto", "flow_control: pfc",
		"cos: [3]\n    lossless: true", "cos: [3]\n    lossless: true\n    share: 2MB\n    headroom: 16MB",
		"alpha: 1", "share: 16MB\n    queue_limit: 8MB")
	return text + fmt.Sprintf("forwarding: {loop_guard: off, static: [{mac: \"%v\", vlan: %d, port: port1}]}\n",
		hostMAC(1), switchAVLAN)
}

// etsFlow returns a flow from a host to the one behind port1. Its ID encodes host and CoS.
func etsFlow(from int, pcp uint8, rate uint64) traffic.Flow {
	return traffic.Flow{ID: etsID(from, pcp), Dst: hostMAC(1), VID: switchAVLAN, PCP: pcp, Size: 1496, Rate: rate}
}

func etsID(from int, pcp uint8) uint32 { return uint32(8*from) + uint32(pcp) }

// TestSwitchADividesAPort overloads the port of a server from two hosts with LAN, SAN and IPC
// traffic. IPC must get all its traffic through; LAN and SAN share the rest 60:40. LAN loses its
// excess, and SAN is paused.
func TestSwitchADividesAPort(t *testing.T) {
	s := program.NewSite(t, 3)
	p := program.StartSwitch(t, s.Home, slowSwitchA(t))
	flows := map[int][]traffic.Flow{}
	for _, from := range []int{2, 3} {
		flows[from] = []traffic.Flow{
			etsFlow(from, lossy, 9_500_000), etsFlow(from, lossless, 9_500_000), etsFlow(from, ipc, 900_000),
		}
	}
	c := newCrew(t, s, 3, []int{1, 2, 3}, flows)
	program.Until(t, "both hosts to be stopped", func() bool {
		hosts := c.Stats()
		return hosts[1].PFC.XOFF[lossless] > 0 && hosts[2].PFC.XOFF[lossless] > 0
	})
	before := c.sample()
	time.Sleep(etsPeriod)
	after := c.sample()
	checkShares(t, before, after)
	c.settle(etsID(2, lossless), etsID(3, lossless), etsID(2, ipc), etsID(3, ipc))
	checkSwitchALosses(t, c, p.Stop())
}

// checkShares compares the frames that each class got through. All frames have the same length.
func checkShares(t *testing.T, before, after sample) {
	t.Helper()
	count := func(pcp uint8, at func(sample) map[uint32]uint64) float64 {
		n := uint64(0)
		for _, from := range []int{2, 3} {
			n += at(after)[etsID(from, pcp)] - at(before)[etsID(from, pcp)]
		}
		return float64(n)
	}
	got := func(s sample) map[uint32]uint64 { return s.got }
	sent := func(s sample) map[uint32]uint64 { return s.sent }
	lan, san := count(lossy, got), count(lossless, got)
	asked, granted := count(ipc, sent), count(ipc, got)
	seconds := float64(after.at-before.at) / 1e9
	t.Logf("in %.1f s, frames of LAN %.0f, SAN %.0f: %.2f to %.2f %%; IPC %.0f of %.0f; %.2f Mbit/s", seconds,
		lan, san, 100*lan/(lan+san), 100*san/(lan+san), granted, asked,
		(lan+san+granted)*(1496+frame.WireOverhead)*8/seconds/1e6)
	if share := lan / (lan + san); math.Abs(share-.6) > .03*.6 || math.Abs(1-share-.4) > .03*.4 {
		t.Errorf("LAN has %.2f %% of what LAN and SAN have, want 60 within 3 %%", 100*share)
	}
	if asked == 0 || granted < .97*asked {
		t.Errorf("IPC gets %.0f frames of %.0f", granted, asked)
	}
}

// checkSwitchALosses checks that SAN and IPC arrive completely, that LAN misses exactly the frames
// that the switch counted as dropped, and that all frames are in order.
func checkSwitchALosses(t *testing.T, c *crew, r program.Report) {
	t.Helper()
	sent, lan := c.sent(), uint64(0)
	for id, got := range c.received() {
		if got.Reordered+got.Duplicates+got.Stale > 0 {
			t.Errorf("flow %d: %+v", id, got)
		}
		switch missing := sent[id] - got.Frames; {
		case id%8 == lossy:
			lan += missing
		case missing > 0:
			t.Errorf("flow %d: sent %d, received %d", id, sent[id], got.Frames)
		}
	}
	if drops := r.Drops(lossy); lan == 0 || lan != drops {
		t.Errorf("LAN misses %d frames, the switch dropped %d; want the same, and some", lan, drops)
	}
	if n := c.Lost(); n > 0 {
		t.Errorf("hosts lost %d frames", n)
	}
	for _, port := range []string{"port2", "port3"} {
		p := r.Port(t, port)
		t.Logf("%s: %d XOFF, %d XON, headroom at most %d cells", port, p.PFC.XOFF, p.PFC.XON,
			p.ByCoS[lossless].Group.Headroom.Max)
		if p.PFC.XOFF == 0 || p.Driver.Lost() > 0 {
			t.Errorf("%s: %d XOFF, lost %d frames", port, p.PFC.XOFF, p.Driver.Lost())
		}
	}
	if r.LosslessDrops > 0 || r.Drops(ipc) > 0 {
		t.Errorf("dropped %d lossless frames and %d of IPC", r.LosslessDrops, r.Drops(ipc))
	}
}
