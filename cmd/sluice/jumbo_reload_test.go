package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/host"
	"sluice/bench/program"
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
	file := p.Args[len(p.Args)-2]
	slow := flow(1, 2, lossless)
	slow.Size, slow.Rate = 512, 100_000_000
	back := flow(2, 1, lossless)
	back.Size, back.Rate = 512, 1_000_000
	c := newCrewAt(t, s, speed, 1500, 2, []int{1, 2}, map[int][]host.Flow{1: {slow}, 2: {back}})
	c.more(100, 1, 2)
	for i, n := range s.Hosts {
		mtu := func(l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) }
		program.OnLink(t, s.Home, fmt.Sprintf("port%d", i+1), mtu)
		program.OnLink(t, n, program.HostDevice, mtu)
	}
	write(t, file, text(9000)+socket)
	p.Signal(unix.SIGHUP)
	p.Await(1, "msg=\"configuration reloaded\"")
	time.Sleep(time.Second)
	c.settle(1, 2)
	sent, got := c.sent(), c.received()
	c.leave()
	r := p.Stop()
	for _, id := range []uint32{1, 2} {
		if f := got[id]; sent[id] == 0 || f.Frames != sent[id] {
			t.Errorf("flow %d: sent %d, received %+v", id, sent[id], f)
		}
	}
	if r.LosslessDrops > 0 {
		t.Errorf("the switch counted %d lossless drops", r.LosslessDrops)
	}
}
