package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/dataplane/drop"
)

// TestReloadToJumboLosesNothing raises the mtu of two ports by a reload while hosts, which honour
// pauses no longer than they last, send lossless frames.
func TestReloadToJumboLosesNothing(t *testing.T) {
	const speed = 1_000_000_000
	text := func(mtu int) string {
		return fmt.Sprintf(`memory: {buffers: 65536, buffer_size: 4096B, cell: 3328B}
classes:
  - {cos: [3], name: storage, lossless: true}
  - {cos: [0], name: lan}
ports:
  - {device: port1, speed: 1G, mtu: %d, vlans: [1, 100]}
  - {device: port2, speed: 1G, mtu: %[1]d, vlans: [1, 100]}
`, mtu)
	}
	s, socket := program.NewSite(t, 2), program.WithSocket(t, "")
	p := program.StartSwitch(t, s.Home, text(1500)+socket)
	slow := flow(1, 2, lossless)
	slow.Size, slow.Rate = 512, 100_000_000
	back := flow(2, 1, lossless)
	back.Size, back.Rate = 512, 1_000_000
	c := newCrewAt(t, s, speed, 1500, 2, []int{1, 2}, map[int][]traffic.Flow{1: {slow}, 2: {back}})
	c.more(100, 1, 2)
	for i, n := range s.Hosts {
		mtu := func(l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) }
		program.OnLink(t, s.Home, fmt.Sprintf("port%d", i+1), mtu)
		program.OnLink(t, n, program.HostDevice, mtu)
	}
	reloadTo(t, p, text(9000)+socket, 1)
	time.Sleep(time.Second)
	c.settle(1, 2)
	sent, got := c.sent(), c.received()
	c.leave()
	r := p.Stop()
	checkArrived(t, sent, got, 1, 2)
	if r.LosslessDrops > 0 {
		t.Errorf("the switch counted %d lossless drops", r.LosslessDrops)
	}
}

// TestReloadBelowFramesThatWait lowers the mtu of ports by a reload while lossless frames that are
// then too long wait in the queue of a congested port, and more of them come; later it raises the
// mtu again. No short frame is lost. Of the long ones, those that wait are sent, and those that
// come are dropped as oversize until the mtu allows them.
func TestReloadBelowFramesThatWait(t *testing.T) {
	text := func(mtu string) string {
		short := strings.NewReplacer("mtu: 9216", "mtu: "+mtu, "buffer_size: 4096B", "buffer_size: 4096B, cell: 3328B")
		return short.Replace(jumboSwitch(4096, 0, 1))
	}
	s, socket := program.NewSite(t, 3, netns.MTU(jumboMTU)), program.WithSocket(t, "")
	p := program.StartSwitch(t, s.Home, text("9216")+socket)
	short, back := flowToTarget(1, 1, lossless), flow(2, 1, lossless)
	short.Size, back.Size, back.Rate = 512, 512, 1_000_000
	long := flowToTarget(3, 2, lossless)
	long.Size = 9014
	c := newJumboCrew(t, s, 3, []int{target, 1, 2}, map[int][]traffic.Flow{1: {short}, target: {back}, 2: {long}})
	c.more(500, 1, 2, 3)
	for cycle := range 5 {
		reloadTo(t, p, text("1500")+socket, 2*cycle+1)
		c.more(300, 1)
		reloadTo(t, p, text("9216")+socket, 2*cycle+2)
		c.more(300, 1, 3)
	}
	c.settle(1, 2, 3) // of flow 3, not all arrive
	sent, got := c.sent(), c.received()
	checkUnchanged(t, c)
	c.leave()
	r := p.Stop()
	checkArrived(t, sent, got, 1, 2)
	_, _, drops := r.Class(lossless)
	if f, dropped := got[3], drops[drop.Oversize.String()]; dropped == 0 || len(drops) != 1 ||
		f.Frames+dropped != sent[3] || f.Missing != dropped || f.Reordered+f.Duplicates+f.Stale > 0 {
		t.Errorf("long frames: %d sent, %+v, drops %v", sent[3], f, drops)
	}
	for _, port := range r.Ports {
		if port.Driver.Lost() > 0 {
			t.Errorf("%s: %d frames lost before the switch", port.Name, port.Driver.Lost())
		}
	}
	checkBuffers(t, text("9216"), r)
	t.Logf("long frames: %d sent, %d received; drops %v", sent[3], got[3].Frames, drops)
}

// reloadTo gives a switch another configuration, its nth reload.
func reloadTo(t *testing.T, p *program.Running, text string, n int) {
	t.Helper()
	write(t, p.Args[len(p.Args)-2], text)
	p.Signal(unix.SIGHUP)
	p.Await(n, "msg=\"configuration reloaded\"")
}

// checkArrived checks that every frame of these flows has arrived.
func checkArrived(t *testing.T, sent map[uint32]uint64, got map[uint32]traffic.Received, flows ...uint32) {
	t.Helper()
	for _, id := range flows {
		f := got[id]
		if sent[id] == 0 || f.Frames != sent[id] || f.Missing+f.Reordered+f.Duplicates+f.Stale > 0 {
			t.Errorf("flow %d: sent %d, received %+v", id, sent[id], f)
		}
	}
}
