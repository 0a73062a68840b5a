package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/bench/traffic/xdp"
	"sluice/internal/frame"
	"sluice/pmd/afxdp"
)

const (
	lossless = 3 // CoS
	lossy    = 0

	slowSpeed = 20_000_000 // bit/s
	// slowSwitch suits hosts that share their CPU: its headroom holds what one of them sends in
	// three seconds, and its pauses last more than 1.5 s. VLAN 100 includes all hosts. VLANs 101
	// and 102 connect the hosts behind ports 1 and 2 to the host behind port 3 only, so frames in
	// them are never flooded to several ports.
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

// crew is the hosts of a site, which run in the test's process.
type crew struct {
	*xdp.Hosts
	t        *testing.T
	stop     chan struct{}
	settings []func() error // restore the settings of the hosts' devices
}

// hostMAC returns the address of the host behind port n.
func hostMAC(n int) frame.MAC { return 0x0200_0000_0000 + frame.MAC(n) }

// flow returns a flow to the host behind a port: full-size frames at line rate.
func flow(id uint32, to int, pcp uint8) traffic.Flow {
	return traffic.Flow{ID: id, Dst: hostMAC(to), VID: 100, PCP: pcp, Size: 1496}
}

// target is the port of the host that both others send to.
const target = 3

// flowToTarget returns a flow to the target, in the VLAN it shares with the host behind port from.
func flowToTarget(id uint32, from int, pcp uint8) traffic.Flow {
	f := flow(id, target, pcp)
	f.VID += uint16(from)
	return f
}

// newCrew creates hosts behind the given ports, in that order, and starts the first of them, active
// in number; Start starts more. Hosts that are not started receive nothing. flows are by port.
func newCrew(t *testing.T, s program.Site, active int, ports []int, flows map[int][]traffic.Flow) *crew {
	t.Helper()
	return newCrewAt(t, s, slowSpeed, 1500, active, ports, flows)
}

// newCrewAt is newCrew for hosts of a speed, in bit/s, on devices with an MTU.
func newCrewAt(t *testing.T, s program.Site, speed uint64, mtu, active int, ports []int,
	flows map[int][]traffic.Flow) *crew {
	t.Helper()
	h, err := xdp.New(len(ports), mtu)
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
			return h.Add(program.HostDevice, traffic.Params{
				MAC: hostMAC(n), Speed: speed, InFlight: 64 << 10, CatchUp: int64(10 * time.Millisecond),
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

// leave stops the hosts. Calling it again does nothing.
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

// restore restores the devices of hosts that have left.
func (c *crew) restore() {
	for _, restore := range c.settings {
		if err := restore(); err != nil {
			c.t.Error(err)
		}
	}
}

// run steps the hosts like Hosts.Run, but yields the CPU when there is nothing to do.
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

// received returns the frames received of each flow, by ID, at any host.
func (c *crew) received() map[uint32]traffic.Received {
	all := map[uint32]traffic.Received{}
	for _, h := range c.Stats() {
		for _, r := range h.Received {
			all[r.ID] = r
		}
	}
	return all
}

// sent returns the number of frames sent of each flow, by ID.
func (c *crew) sent() map[uint32]uint64 {
	all := map[uint32]uint64{}
	for _, h := range c.Stats() {
		for _, s := range h.Sent {
			all[s.ID] = s.Frames
		}
	}
	return all
}

// more waits until that many more frames of each flow are received.
func (c *crew) more(frames uint64, flows ...uint32) {
	c.t.Helper()
	before := c.received()
	program.Until(c.t, fmt.Sprintf("%d more frames of flows %v", frames, flows), func() bool {
		now := c.received()
		return !slices.ContainsFunc(flows, func(id uint32) bool { return now[id].Frames < before[id].Frames+frames })
	})
}

// settle stops the flows and waits until all frames of the given flows have arrived, or no frame at
// all arrives for 5 s.
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
