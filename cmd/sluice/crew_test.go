package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/bench/host"
	"sluice/bench/host/xdp"
	"sluice/bench/program"
	"sluice/internal/frame"
	"sluice/pmd/afxdp"
)

const (
	lossless = 3 // CoS
	lossy    = 0

	slowSpeed = 20_000_000 // bit/s
	// slowSwitch is a switch for hosts that share their CPU: its headroom holds what one of them
	// sends in three seconds, and a pause that it asks for lasts more than one and a half. VLAN 100
	// is everybody's. The hosts behind ports 1 and 2 have one more each that is theirs and that of
	// the host behind port 3 alone, so that nothing in there ever goes to more than one port.
	slowSwitch = `
classes:
  - {cos: [3], name: storage, lossless: true, share: 256KB, xon: 128KB, headroom: 8MB}
  - {cos: [0], name: lan, share: 512KB, queue_limit: 256KB}
ports:
  - {device: port1, speed: 20M, vlans: [1, 100, 101]}
  - {device: port2, speed: 20M, vlans: [1, 100, 102]}
  - {device: port3, speed: 20M, vlans: [1, 100-102]}
`
)

// crew is hosts of a site, stepped in the test's own process.
type crew struct {
	*xdp.Hosts
	t        *testing.T
	stop     chan struct{}
	settings []func() error // puts back those of the hosts' devices
}

// hostMAC is the address of the host behind port n.
func hostMAC(n int) frame.MAC { return 0x0200_0000_0000 + frame.MAC(n) }

// flow leads to the host behind a port: full frames, as fast as the line.
func flow(id uint32, to int, pcp uint8) host.Flow {
	return host.Flow{ID: id, Dst: hostMAC(to), VID: 100, PCP: pcp, Size: 1496}
}

// target is the host behind port 3.
const target = 3

// flowToTarget leads to the target, in the VLAN that it has with the host behind another port.
func flowToTarget(id uint32, from int, pcp uint8) host.Flow {
	f := flow(id, target, pcp)
	f.VID += uint16(from)
	return f
}

// newCrew puts hosts behind the ports of a site, in the order given, and starts so many of them;
// start adds the others. Those that have not started receive nothing. flows are by port.
func newCrew(t *testing.T, s program.Site, active int, ports []int, flows map[int][]host.Flow) *crew {
	t.Helper()
	h, err := xdp.New(len(ports))
	if err != nil {
		t.Fatal(err)
	}
	h.Active = active
	c := &crew{Hosts: h, t: t, stop: make(chan struct{})}
	t.Cleanup(c.restore)
	for _, n := range ports {
		at := s.Hosts[n-1]
		err := at.Do(func() error {
			settings, err := afxdp.Prepare(program.HostDevice, afxdp.Options{})
			if err != nil {
				return err
			}
			c.settings = append(c.settings, func() error { return at.Do(settings.Restore) })
			return h.Add(program.HostDevice, host.Params{
				MAC: hostMAC(n), Speed: slowSpeed, InFlight: 64 << 10, CatchUp: int64(10 * time.Millisecond),
				Flows: flows[n], Priorities: 1 << lossless,
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	go c.run(c.stop)
	t.Cleanup(c.leave)
	return c
}

// leave ends the hosts. Leaving again does nothing.
func (c *crew) leave() {
	if c.stop == nil {
		return
	}
	close(c.stop)
	<-c.Done
	c.stop = nil
	if err := c.Close(); err != nil {
		c.t.Error(err)
	}
}

// restore gives the devices of hosts that have left back as they were.
func (c *crew) restore() {
	for _, restore := range c.settings {
		if err := restore(); err != nil {
			c.t.Error(err)
		}
	}
}

// run steps the hosts, as hosts.run does, but leaves the CPU to others when there is nothing to do.
func (c *crew) run(stop <-chan struct{}) {
	defer close(c.Done)
	for {
		select {
		case <-stop:
			return
		case call := <-c.Calls:
			call(xdp.Monotonic())
		default:
		}
		now, work := xdp.Monotonic(), 0
		for _, h := range c.List[:c.Active] {
			work += h.Step(now)
		}
		if work == 0 {
			time.Sleep(200 * time.Microsecond)
		}
	}
}

// received returns what was received of each flow, by ID, whoever received it.
func (c *crew) received() map[uint32]host.Received {
	all := map[uint32]host.Received{}
	for _, h := range c.Stats() {
		for _, r := range h.Received {
			all[r.ID] = r
		}
	}
	return all
}

// sent returns how many frames of each flow were sent, by ID.
func (c *crew) sent() map[uint32]uint64 {
	all := map[uint32]uint64{}
	for _, h := range c.Stats() {
		for _, s := range h.Sent {
			all[s.ID] = s.Frames
		}
	}
	return all
}

// more waits until further frames of each flow are received.
func (c *crew) more(frames uint64, flows ...uint32) {
	c.t.Helper()
	before := c.received()
	program.Until(c.t, fmt.Sprintf("%d more frames of flows %v", frames, flows), func() bool {
		now := c.received()
		return !slices.ContainsFunc(flows, func(id uint32) bool { return now[id].Frames < before[id].Frames+frames })
	})
}

// settle stops the flows and waits until all frames of some have arrived, or nothing at all does
// for a long time.
func (c *crew) settle(flows ...uint32) {
	c.t.Helper()
	c.StopSending()
	last, since := uint64(0), time.Now()
	program.Until(c.t, "an end of what is received", func() bool {
		sent, got, n := c.sent(), c.received(), uint64(0)
		for _, r := range got {
			n += r.Frames
		}
		if n != last {
			last, since = n, time.Now()
		}
		missing := slices.ContainsFunc(flows, func(id uint32) bool { return got[id].Frames != sent[id] })
		return !missing || time.Since(since) > 5*time.Second
	})
}
