package config

import (
	"fmt"
	"math"
	"slices"

	"sluice/cells/headroom"
)

// The rules that keep a lossless class lossless: marks, headroom, and memory to keep it in.

const (
	fcs = 4 // bytes of a frame that are on the wire but not stored
	// leastInFlight, in bytes, and defaultInFlight, in ns at the port's speed: the larger may be with the device. It is to
	// keep the line busy for the longest usual iteration of a worker.
	leastInFlight   = 64_000
	defaultInFlight = 50_000
	// defaultXONOffset is the hysteresis of a class whose limit moves: a fixed mark could lie above it.
	defaultXONOffset = 32 << 10
)

// checkLink applies the rules of what is at the other end of a port's cable, and computes what its headroom must hold.
func checkLink(d *decoder, c *Config, p *Port) {
	if d.sound(&c.PFC.Enabled) && !c.PFC.Enabled {
		p.FlowControl = FlowOff
	}
	if !d.sound(&p.MTU) {
		return
	}
	if !d.given(&p.PeerMTU) {
		p.PeerMTU = p.MTU
	}
	if !d.given(&p.InFlight) && d.sound(&p.Speed) {
		p.InFlight = max(leastInFlight, int(p.Speed/8*defaultInFlight/1e9))
	}
	if p.PeerMTU > p.MTU {
		d.fail(&p.PeerMTU, fmt.Sprintf("peer_mtu %d is above the mtu of %d", p.PeerMTU, p.MTU), "lower peer_mtu, or raise mtu")
	}
	if !d.sound(&c.Memory.Cell, &p.Speed, &p.PeerMTU, &p.STag, &p.Metres, &p.Medium, &p.Response, &p.InFlight) {
		return
	}
	if p.FlowControl == FlowOff {
		p.Headroom = c.Memory.Cell // nobody is paused, so more would not help
		return
	}
	p.Headroom = p.headroom(c.Memory.Cell)
}

// headroom computes room, in bytes of whole cells, for what the peer may still send after it was to be told to stop. All
// of Response counts as the gap of our loop: it is one time, wherever it passes.
func (p *Port) headroom(cell int) int {
	result, err := headroom.Compute(headroom.Measured, headroom.Params{
		Speed: p.Speed, MTUOwn: p.MTU + p.Overhead() + fcs, MTUPeer: p.PeerMTU + p.Overhead() + fcs,
		Metres: p.Metres, Medium: p.Medium, Cell: cell, Unstored: fcs,
		OwnGap: p.Response.Nanoseconds(), OwnInFlight: p.InFlight,
	})
	if err != nil {
		panic(fmt.Sprintf("config: headroom of port %s: %v", p.Device, err)) // every value has been checked
	}
	return result.BufferBytes
}

func checkLossless(d *decoder, c *Config, class *Class) {
	for _, limit := range []struct {
		value any
		name  string
	}{{&class.QueueLimit, "queue_limit"}, {&class.QueueAlpha, "queue_alpha"}} {
		if d.given(limit.value) {
			d.fail(limit.value, "a lossless class has a "+limit.name, "remove it: lossless queues never drop; share or alpha is their limit")
		}
	}
	class.QueueLimit = 0
	checkXON(d, class)
	checkHeadroom(d, c, class)
}

// checkXON applies the rules of when a paused sender may go on.
func checkXON(d *decoder, class *Class) {
	if !d.sound(&class.Share, &class.Alpha, &class.XON, &class.XONOffset) {
		return
	}
	dynamic := d.given(&class.Alpha)
	if !d.given(&class.XON) && !d.given(&class.XONOffset) {
		if dynamic {
			class.XONOffset = defaultXONOffset
		} else {
			class.XON = class.Share / 2
		}
	}
	switch {
	case dynamic: // the limit moves, so marks can't be compared with it
	case class.XON > class.Share:
		d.fail(&class.XON, fmt.Sprintf("xon at %d bytes is above the share of %d, so a paused sender would go on at once", class.XON, class.Share),
			"lower xon, or raise share")
	case class.XONOffset > class.Share:
		d.fail(&class.XONOffset, fmt.Sprintf("xon_offset of %d bytes is above the share of %d, which can't fall so far", class.XONOffset, class.Share),
			"lower xon_offset, or raise share")
	}
}

// checkHeadroom refuses headroom that the peer of the most demanding port can overrun.
func checkHeadroom(d *decoder, c *Config, class *Class) {
	if !d.given(&class.Headroom) || !d.sound(&class.Headroom, &c.Memory.Cell) || len(c.Ports) == 0 {
		return
	}
	most := slices.MaxFunc(c.Ports, func(a, b Port) int { return a.Headroom - b.Headroom })
	if need := most.Headroom / c.Memory.Cell; ceil(class.Headroom, c.Memory.Cell) < need {
		d.fail(&class.Headroom, fmt.Sprintf(
			"headroom of %d bytes is %d cells, fewer than the %d that port %s fills before its peer has stopped",
			class.Headroom, ceil(class.Headroom, c.Memory.Cell), need, most.Device),
			fmt.Sprintf("raise it to %dB or more, leave it out, so that each port gets what it needs, or lower the port's response or in_flight",
				most.Headroom))
	}
}

// checkFlowControl refuses ports that are to pause everything but have nothing to pause for.
func checkFlowControl(d *decoder, c *Config) {
	if !soundClasses(d, c) || slices.ContainsFunc(c.Classes, func(class Class) bool { return class.Lossless }) {
		return
	}
	for i := range c.Ports {
		if p := &c.Ports[i]; d.sound(&p.FlowControl) && p.FlowControl == FlowPause {
			d.fail(&p.FlowControl, fmt.Sprintf("port %s is to pause its peer, but no class is lossless", p.Device),
				`add "lossless: true" to the class to pause for, or remove flow_control`)
		}
	}
}

// checkPools applies the rules of how memory is divided.
func checkPools(d *decoder, c *Config) {
	if !soundClasses(d, c) {
		return
	}
	m := &c.Memory
	lossless := slices.ContainsFunc(c.Classes, func(class Class) bool { return class.Lossless })
	lossy := slices.ContainsFunc(c.Classes, func(class Class) bool { return !class.Lossless })
	switch {
	case m.LosslessPool > 0 && !lossless:
		d.fail(&m.LosslessPool, fmt.Sprintf("no class is lossless, so %d%% of the shared memory would lie idle", m.LosslessPool),
			`add "lossless: true" to a class, or remove lossless_pool`)
	case m.LosslessPool > 0 && !lossy:
		d.fail(&m.LosslessPool, fmt.Sprintf("all classes are lossless, so %d%% of the shared memory would lie idle", 100-m.LosslessPool),
			"remove lossless_pool")
	}
	if m.PortBuffer > 0 && d.sound(&m.Cell, &m.PortBuffer, &m.HeadroomRatio) {
		checkPortBuffer(d, c)
	}
}

// soundClasses tells whether all could be read that says which classes are lossless and what memory they are promised.
func soundClasses(d *decoder, c *Config) bool {
	for i := range c.Classes {
		class := &c.Classes[i]
		if !d.sound(class, &class.CoS, &class.Lossless, &class.Reserved, &class.Headroom) {
			return false
		}
	}
	return d.sound(&c.Classes)
}

// checkPortBuffer refuses a port buffer that can't hold what is promised; the most demanding port is named.
func checkPortBuffer(d *decoder, c *Config) {
	m := &c.Memory
	worst, most := 0, 0
	for i := range c.Ports {
		if n := promised(c, &c.Ports[i]); n > most {
			worst, most = i, n
		}
	}
	if has := m.PortBuffer / m.Cell; most > has {
		d.fail(&m.PortBuffer, fmt.Sprintf("port_buffer of %d bytes is %d cells, fewer than the %d that port %s keeps as reserved and headroom",
			m.PortBuffer, has, most, c.Ports[worst].Device),
			fmt.Sprintf("lower reserved, headroom or the port's response or in_flight, or raise port_buffer to %dB or more", most*m.Cell))
	}
}

// promised returns the cells that a port keeps for its groups: what each has reserved, or a longest frame if that is
// more, and headroom, over-subscribed as it may be but with room for the largest.
func promised(c *Config, p *Port) int {
	reserved, sum, largest := 0, 0, 0
	for i := range c.Classes {
		class := &c.Classes[i]
		longest := p.MTU
		if class.Lossless {
			longest = p.PeerMTU
		}
		reserved += len(class.CoS) * max(ceil(class.Reserved, c.Memory.Cell), ceil(longest+p.Overhead(), c.Memory.Cell))
		if class.Lossless {
			own := ceil(p.HeadroomOf(class), c.Memory.Cell)
			sum += len(class.CoS) * own
			largest = max(largest, own)
		}
	}
	return reserved + max(largest, int(math.Ceil(float64(sum)/c.Memory.HeadroomRatio)))
}
