package config

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"sluice/cells/headroom"
	"sluice/internal/frame"
	"sluice/internal/text/units"
)

// The rules that keep lossless classes lossless: marks, headroom, and the memory for it.

const (
	quantum      = 512 / 8 // the unit of pauses, in byte times (IEEE 802.1Q clause 36)
	shortestSlot = 84      // bytes on the wire of the shortest frame, with preamble and gap
	// The range of the headroom calculator, bit/s.
	slowestLink, fastestLink = 1_000_000, 400_000_000_000
	// The default of in_flight is leastInFlight, in bytes, or defaultInFlight, in ns at the port's
	// speed, whichever is larger. It keeps the line busy for the longest usual iteration of a
	// worker.
	leastInFlight   = 64_000
	defaultInFlight = 50_000
	// usualResponse is the default of a port, unless its pauses require less. Only a measurement
	// justifies less than leastResponse for a program.
	usualResponse, leastResponse = time.Millisecond, 100 * time.Microsecond
	// defaultXONOffset is the hysteresis of a class with a dynamic limit, which could fall below a
	// fixed mark.
	defaultXONOffset = 32 << 10
)

// checkLink applies the rules for a port's link and peer, and computes the port's headroom.
func checkLink(d *decoder, c *Config, p *Port) {
	if d.sound(&c.PFC.Enabled) && !c.PFC.Enabled {
		p.FlowControl = FlowOff
	}
	p.setLossless(d)
	checkLinkSpeed(d, p)
	if !d.given(&p.Response) {
		p.Response = usualResponse
		d.unsound[&p.Response] = !d.sound(&c.PFC.Quanta)
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
		d.fail(&p.PeerMTU, fmt.Sprintf("peer_mtu %d is above the mtu of %d", p.PeerMTU, p.MTU),
			"lower peer_mtu, or raise mtu")
	}
	if !p.known(d, c) {
		return
	}
	if p.FlowControl == FlowOff {
		p.Headroom = c.Memory.Cell // nothing is paused, so more would not help
		return
	}
	p.ControlAhead = p.controlAhead()
	if longest := p.longestResponse(c.PFC.Quanta, c.PFC.Quarter()).Truncate(time.Microsecond); !d.given(&p.Response) &&
		longest >= leastResponse {
		p.Response = min(usualResponse, longest)
	}
	p.Headroom = compute(p.Calculation(c.Memory.Cell, p.Response)).BufferBytes
}

// known reports whether all inputs of the headroom calculator for a port could be read.
func (p *Port) known(d *decoder, c *Config) bool {
	return d.sound(&c.Memory.Cell, &p.LinkSpeed, &p.MTU, &p.PeerMTU, &p.STag, &p.Metres, &p.Medium, &p.Response,
		&p.InFlight)
}

// checkLinkSpeed sets the rate of a port's link: what its device reports, otherwise what the file
// says, otherwise the rate at which the port sends. A link that is slower than speed is no error of
// the file, as the rate may have been negotiated: see SendRate.
func checkLinkSpeed(d *decoder, p *Port) {
	reported := d.facts[p.Device].Rate
	switch {
	case reported > fastestLink && d.sound(&p.FlowControl) && p.FlowControl == FlowOff:
		p.LinkSpeed = fastestLink // not used
	case reported > 0 && (reported < slowestLink || reported > fastestLink):
		d.unsound[&p.LinkSpeed] = true
		d.fail(&p.Device, fmt.Sprintf("the link of device %s has %s, for which headroom can't be computed", p.Device,
			units.Rate(reported)),
			fmt.Sprintf("set the link to a rate from %s to %s, or write flow_control: off", units.Rate(slowestLink),
				units.Rate(fastestLink)))
	case reported > 0:
		p.LinkSpeed = reported
	case !d.given(&p.LinkSpeed):
		p.LinkSpeed = p.Speed
		d.unsound[&p.LinkSpeed] = !d.sound(&p.Speed)
	case d.sound(&p.Speed, &p.LinkSpeed) && p.Speed > p.LinkSpeed:
		d.fail(&p.Speed, fmt.Sprintf("speed of %s is above the link_speed of %s, so frames would wait in the "+
			"device, where a pause can't stop them",
			units.Rate(p.Speed), units.Rate(p.LinkSpeed)), "lower speed, or raise link_speed")
	}
}

// Calculation returns the inputs of the headroom calculator for a port whose peer stops later by
// gap than the standard allows. All of gap counts as the gap of the worker's loop, since it does
// not matter where it passes. cell is in bytes.
func (p *Port) Calculation(cell int, gap time.Duration) headroom.Params {
	return headroom.Params{
		Speed: p.LinkSpeed, MTUOwn: p.MaxFrame() + frame.FCS, MTUPeer: p.MaxLossless() + frame.FCS,
		Metres: p.Metres, Medium: p.Medium, Cell: cell, Unstored: frame.FCS,
		OwnGap: gap.Nanoseconds(), OwnInFlight: p.InFlight, OwnControl: p.ControlAhead,
	}
}

// compute computes headroom from checked values.
func compute(p headroom.Params) headroom.Result {
	result, err := headroom.Compute(headroom.Measured, p)
	if err != nil {
		panic(fmt.Sprintf("config: %v", err))
	}
	return result
}

// LatestRefresh returns after how many quanta a pause must be repeated at the latest for the peer
// to stay paused, if the repetition is late by gap beyond what the standard allows; below 1: no
// repetition is early enough. The peer counts a pause at the rate of the link, from the arrival of
// the PFC frame. In byte times of the link,
//
//	64·refresh + gap + 2·TX ring + PFC frames + response of the standard ≤ 64·quanta
//
// The repetition is due after refresh. Then it waits for the worker's loop, and for the frames that
// the device holds, at worst the shortest ones: twice, since it waits until other PFC frames there
// have left (ControlAhead). The peer may act on the repetition as late as the standard allows, but
// may have acted on the previous frame at once. This is the window of the headroom, with the TX
// ring twice and without the cable, which delays both frames alike. So does the transmission time
// of the PFC frame, which is the margin.
func (p *Port) LatestRefresh(quanta uint16, gap time.Duration) int {
	return int(quanta) - ceil(p.repetitionDelay(gap), quantum)
}

// repetitionDelay returns how long after it was due a repeated pause takes effect at the latest, in
// byte times.
func (p *Port) repetitionDelay(gap time.Duration) int {
	link := p.Calculation(anyCell, gap)
	link.Metres = 0
	return window(link) + link.OwnRing()
}

// anyCell stands for the size of a cell where only bytes matter.
const anyCell = 64

// window returns how long a peer may go on sending after the switch should stop it, in byte times
// of the link.
func window(p headroom.Params) int {
	return compute(p).Bytes - 2*p.MTUPeer // without the frame that crosses the threshold and the last one
}

// LongestResponse returns the longest response of a port with which its pauses are repeated in
// time; below 0: none is short enough.
func (c *Config) LongestResponse(p *Port) time.Duration {
	return p.longestResponse(c.PFC.Quanta, c.source.earliestRefresh(&c.PFC))
}

// earliestRefresh returns after how many quanta a port repeats a pause at the earliest: the refresh
// of the file, otherwise a quarter of the pause.
func (s *source) earliestRefresh(f *PFC) int {
	if s.at[&f.Refresh].given {
		return int(f.Refresh)
	}
	return f.Quarter()
}

// Quarter returns a quarter of a pause, in quanta. By default no port repeats pauses earlier: more
// PFC frames would cost the link and both ends more than they gain.
func (f *PFC) Quarter() int { return max(1, int(f.Quanta)/4) }

// longestResponse is LongestResponse with a given refresh, in quanta.
func (p *Port) longestResponse(quanta uint16, refresh int) time.Duration {
	return p.lasts((p.LatestRefresh(quanta, 0) - refresh) * quantum)
}

// RingTime returns how long frames may wait in a receive ring with a given number of entries when
// the shortest frames arrive at the rate of the link. The ring must also hold what arrives
// afterwards, from when the peer is told to stop until its last frame. Each buffer of a frame takes
// an entry, and a frame is lost unless all of its buffers find one.
func (p *Port) RingTime(entries int) time.Duration {
	return p.lasts(max(0, (entries-p.Parts)*shortestSlot-window(p.Calculation(anyCell, 0))))
}

// PauseTime returns how long a pause of a number of quanta lasts.
func (p *Port) PauseTime(quanta uint16) time.Duration { return p.lasts(int(quanta) * quantum) }

// lasts returns how long a number of bytes takes on the link.
func (p *Port) lasts(bytes int) time.Duration {
	return time.Duration(float64(bytes) * 8 / float64(p.LinkSpeed) * float64(time.Second))
}

// checkRefresh ensures that a pause is repeated before it expires at the peer. If the file does not
// set refresh, a port repeats pauses as early as it must, but not before a quarter of their
// duration.
func checkRefresh(d *decoder, c *Config) {
	sound := soundClasses(d, c)
	var worst *Port // of the ports for which the refresh of the file is too late
	least := math.MaxUint16
	for i := range c.Ports {
		p := &c.Ports[i]
		p.Refresh = c.PFC.Refresh
		if !sound || p.kept == 0 || p.FlowControl == FlowOff || !p.known(d, c) ||
			!d.sound(&p.FlowControl, &c.PFC.Quanta, &c.PFC.Refresh) {
			continue
		}
		given, latest := d.given(&c.PFC.Refresh), p.LatestRefresh(c.PFC.Quanta, p.Response)
		switch {
		case latest >= int(p.Refresh):
		case latest < 1 || !given && latest < d.earliestRefresh(&c.PFC):
			d.failPause(c, p)
		case !given:
			p.Refresh = uint16(latest)
		case latest < least:
			worst, least = p, latest
		}
	}
	if worst != nil {
		d.fail(&c.PFC.Refresh, fmt.Sprintf("refresh after %d quanta, %s, is too late for port %s: %s", c.PFC.Refresh,
			units.Time(worst.PauseTime(c.PFC.Refresh)), worst.Device, worst.lapse(&c.PFC)),
			fmt.Sprintf("choose at most %d, leave it out, or lower the port's response or in_flight", least))
	}
}

// failPause reports that a pause expires before its repetition takes effect, or that it would have
// to be repeated too often.
func (d *decoder) failPause(c *Config, p *Port) {
	remedy := "lower in_flight"
	if longest := p.longestResponse(c.PFC.Quanta, d.earliestRefresh(&c.PFC)); longest >= 0 {
		remedy = fmt.Sprintf("lower response to %s or less, if `sluice doctor` measures no more, or in_flight",
			units.Time(longest))
	}
	late := ceil(p.repetitionDelay(p.Response), quantum)
	enough, repeated := late+int(c.PFC.Refresh), ""
	if !d.given(&c.PFC.Refresh) {
		enough = (late-1)*4/3 + 1 // a quarter of which is late
		repeated = "; it is repeated after a quarter of its duration at the earliest"
	}
	if enough <= math.MaxUint16 {
		remedy = fmt.Sprintf("raise pfc.quanta to %d or more, or %s", enough, remedy)
	}
	d.fail(&p.Response, fmt.Sprintf("port %s can't keep its peer paused: %s%s", p.Device, p.lapse(&c.PFC), repeated),
		remedy)
}

// lapse explains in numbers how a pause expires.
func (p *Port) lapse(f *PFC) string {
	return fmt.Sprintf("at %s a pause of %d quanta lasts %s, and its repetition may take effect %s after it was due "+
		"(response %s, in_flight %d bytes)",
		units.Rate(p.LinkSpeed), f.Quanta, units.Time(p.PauseTime(f.Quanta)),
		units.Time(p.lasts(p.repetitionDelay(p.Response))),
		units.Time(p.Response), p.InFlight)
}

// controlAhead returns how many PFC frames a port's device may hold ahead of one that stops another
// priority: one for each other priority, and two more (dataplane.ControlAhead).
func (p *Port) controlAhead() int {
	lossless := bits.OnesCount8(p.kept)
	if p.FlowControl == FlowPause {
		lossless = min(lossless, 1)
	}
	return lossless + 1
}

func checkLossless(d *decoder, c *Config, class *Class) {
	for _, limit := range []struct {
		value any
		name  string
	}{{&class.QueueLimit, "queue_limit"}, {&class.QueueAlpha, "queue_alpha"}} {
		if d.given(limit.value) {
			d.fail(limit.value, "a lossless class has a "+limit.name,
				"remove it: lossless queues never drop; share or alpha is their limit")
		}
	}
	class.QueueLimit = 0
	checkXON(d, class)
	checkHeadroom(d, c, class)
}

// checkXON applies the rules for when a paused sender may go on.
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
	case dynamic: // the limit varies, so marks can't be compared with it
	case class.XON > class.Share:
		d.fail(&class.XON,
			fmt.Sprintf("xon of %d bytes is above the share of %d, so a paused sender would resume immediately",
				class.XON, class.Share),
			"lower xon, or raise share")
	case class.XONOffset > class.Share:
		d.fail(&class.XONOffset, fmt.Sprintf("xon_offset of %d bytes is above the share of %d: use can't fall so far "+
			"below the limit", class.XONOffset, class.Share),
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
			"headroom of %d bytes is %d cells, fewer than the %d that port %s may fill at %s before its peer stops",
			class.Headroom, ceil(class.Headroom, c.Memory.Cell), need, most.Device, units.Rate(most.LinkSpeed)),
			fmt.Sprintf("raise it to %dB or more, leave it out, so that each port gets what it needs, or lower the "+
				"port's response or in_flight",
				most.Headroom))
	}
}

// checkFlowControl refuses ports that should pause everything if no class is lossless.
func checkFlowControl(d *decoder, c *Config) {
	if !soundClasses(d, c) || d.lossless != 0 {
		return
	}
	for i := range c.Ports {
		if p := &c.Ports[i]; d.sound(&p.FlowControl) && p.FlowControl == FlowPause {
			d.fail(&p.FlowControl, fmt.Sprintf("port %s has flow_control pause, but no class is lossless", p.Device),
				`add "lossless: true" to the class to pause for, or remove flow_control`)
		}
	}
}

// checkPools applies the rules for dividing the memory.
func checkPools(d *decoder, c *Config) {
	if !soundClasses(d, c) {
		return
	}
	m := &c.Memory
	auto := slices.ContainsFunc(c.Ports, func(p Port) bool { return p.FlowControl == FlowAuto })
	switch {
	case m.LosslessPool > 0 && d.lossless == 0 && !auto:
		d.fail(&m.LosslessPool, fmt.Sprintf("no class is lossless, so %d%% of the shared memory would be unused",
			m.LosslessPool),
			`add "lossless: true" to a class, or remove lossless_pool`)
	case m.LosslessPool > 0 && d.lossless == 0xff && !auto:
		d.fail(&m.LosslessPool, fmt.Sprintf("all classes are lossless, so %d%% of the shared memory would be unused",
			100-m.LosslessPool),
			"remove lossless_pool")
	}
	if m.PortBuffer > 0 && d.sound(&m.Cell, &m.PortBuffer, &m.HeadroomRatio) {
		checkPortBuffer(d, c)
	}
}

// soundClasses reports whether it is known which classes are lossless and what memory they are
// promised.
func soundClasses(d *decoder, c *Config) bool {
	for i := range c.Classes {
		class := &c.Classes[i]
		if !d.sound(class, &class.CoS, &class.Lossless, &class.Reserved, &class.Headroom) {
			return false
		}
	}
	return d.sound(&c.Classes)
}

// checkPortBuffer refuses a port buffer that can't hold what is promised. It names the most
// demanding port.
func checkPortBuffer(d *decoder, c *Config) {
	m := &c.Memory
	worst, most := 0, 0
	for i := range c.Ports {
		if n := promised(c, &c.Ports[i]); n > most {
			worst, most = i, n
		}
	}
	if has := m.PortBuffer / m.Cell; most > has {
		d.fail(&m.PortBuffer,
			fmt.Sprintf("port_buffer of %d bytes is %d cells, fewer than the %d that port %s needs for reserved and "+
				"headroom",
				m.PortBuffer, has, most, c.Ports[worst].Device),
			fmt.Sprintf("lower reserved, headroom or the port's response or in_flight, or raise port_buffer to %dB "+
				"or more", most*m.Cell))
	}
}

// promised returns the cells that a port keeps for its groups: for each its reserved cells, or a
// frame of maximum length if that is more; and headroom, over-subscribed but enough for the largest
// group.
func promised(c *Config, p *Port) int {
	reserved, sum, largest := 0, 0, 0
	for cos := range 8 {
		headroom, frame := c.Keeps(p, cos)
		reserved += ceil(max(c.Class(cos).Reserved, frame), c.Memory.Cell)
		own := ceil(headroom, c.Memory.Cell)
		sum += own
		largest = max(largest, own)
	}
	return reserved + max(largest, int(math.Ceil(float64(sum)/c.Memory.HeadroomRatio)))
}
