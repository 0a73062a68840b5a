package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"sluice/bench/traffic"
	"sluice/cells"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/pfc"
)

// Chain is the usual picture of PFC: two hosts with converged adapters, each behind a switch, a
// third switch that joins the two, and behind it a target that is too slow for the lossless class.
// The target stops that class with PFC; the pressure travels up, hop by hop, to the adapters. All
// links have the same speed.
//
//	CNA1 ── sw1 ──┐
//	              sw3 ── target
//	CNA2 ── sw2 ──┘
type Chain struct {
	Seed     uint64 // also chooses the frame sizes of the flows
	Time     int64  // ns for which the adapters send
	Cable    Cable
	Lossless uint64  // bit/s on the wire that each adapter offers in the lossless class; 0: none
	Lossy    uint64  // the same in a lossy class
	Pause    float64 // share of the time in which the target refuses the lossless class
}

// NewChain returns a chain of 300 m links at 10 Gbit/s whose target accepts the lossless class for
// a quarter of the time. The lossy class has room on every link.
func NewChain(seed uint64) Chain {
	return Chain{
		Seed: seed, Time: 3e6, Cable: Cable{Rate: 10e9, Metres: 300}, Lossless: 4e9, Lossy: 2e9, Pause: 0.75,
	}
}

// ChainResult is the result of a Chain.
type ChainResult struct {
	Hops     []ChainHop `json:"hops"` // from the target to the adapters, in the direction of the pressure
	Lossless ChainClass `json:"lossless"`
	Lossy    ChainClass `json:"lossy"`
	Trace    uint64     `json:"trace"` // Fabric.Trace
}

// ChainHop is one link, on which From pauses To.
type ChainHop struct {
	From          string `json:"from"`
	To            string `json:"to"`
	XOFF          uint64 `json:"xoff"`           // frames that To received, refreshes included
	XON           uint64 `json:"xon"`            // frames that To received
	PausedNS      int64  `json:"paused_ns"`      // that To was paused
	LosslessDrops uint64 `json:"lossless_drops"` // at From's end of the link
	Headroom      int    `json:"headroom"`       // most cells of headroom that From used; 0 for the target
}

// ChainClass counts the frames of one class from both adapters together.
type ChainClass struct {
	Sent      uint64  `json:"sent"`
	Lost      uint64  `json:"lost"`
	Reordered uint64  `json:"reordered"`
	Rate      float64 `json:"rate"` // bit/s on the wire that reached the target within Time
}

const (
	chainLossy  = 0 // class
	chainVLAN   = 100
	chainTarget = frame.MAC(0x0200_0000_00ff)
	chainPeriod = 100_000 // ns: one stop and one resume of the lossless class by the target
)

// chainFabric is the fabric of a Chain.
type chainFabric struct {
	*Fabric
	switches [3]*Switch // sw1, sw2, sw3
	adapters [2]*Host
	target   *Host
}

// Run builds and runs the chain. First the target sends a frame, so that the switches learn its
// address; then the adapters send for Time; then Run waits until every frame has arrived.
func (c Chain) Run() (r ChainResult, err error) {
	if err := c.Check(); err != nil {
		return r, err
	}
	x := &chainFabric{Fabric: NewFabric(c.Seed)}
	defer func() { err = errors.Join(err, x.Close()) }()
	if err := x.build(c); err != nil {
		return r, err
	}
	c.send(x)
	r.Lossless.Rate, r.Lossy.Rate = x.rate(LosslessCoS, c.Time), x.rate(chainLossy, c.Time)
	if err := errors.Join(x.Settle(50e6), x.Check()); err != nil {
		return r, err
	}
	r.Lossless.count(x, LosslessCoS)
	r.Lossy.count(x, chainLossy)
	r.Hops, r.Trace = x.hops(), x.Trace()
	return r, nil
}

// Check rejects chains that would run for ever or make no sense.
func (c Chain) Check() error {
	switch {
	case c.Time <= 0 || c.Time > 10e9:
		return fmt.Errorf("bench: chain: a time of %v: choose more than 0, up to 10s", time.Duration(c.Time))
	case !(c.Pause >= 0 && c.Pause <= 1): // nor NaN
		return fmt.Errorf("bench: chain: a target that pauses for a share of %v of the time: choose 0 to 1", c.Pause)
	case c.Cable.Rate < 1e6 || c.Cable.Rate > 400e9:
		return fmt.Errorf("bench: chain: links of %d bit/s: choose a speed from 1M to 400G", c.Cable.Rate)
	case !(c.Cable.Metres >= 0 && c.Cable.Metres <= 100e3):
		return fmt.Errorf("bench: chain: cables of %v m: choose 0 to 100 km", c.Cable.Metres)
	}
	return nil
}

func (x *chainFabric) build(c Chain) (err error) {
	for i := range x.switches {
		name := fmt.Sprintf("sw%d", i+1)
		if x.switches[i], err = x.AddLosslessSwitch(name, LosslessSwitch{Ports: 3, Cable: c.Cable}); err != nil {
			return err
		}
	}
	sw3 := x.switches[2]
	for i, s := range x.switches[:2] {
		if err := x.Join(s, 1, sw3, i, c.Cable); err != nil {
			return err
		}
	}
	hello := traffic.Flow{ID: 2 * cells.Priorities, Dst: chainAdapter(0), VID: chainVLAN, Size: traffic.MinSize,
		Count: 1}
	if x.target, err = x.host("target", sw3, 2, chainTarget, c, hello); err != nil {
		return err
	}
	x.Run(2 * chainPeriod) // the target's frame reaches every switch
	for i, s := range x.switches[:2] {
		name := fmt.Sprintf("CNA%d", i+1)
		if x.adapters[i], err = x.host(name, s, 0, chainAdapter(i), c, x.flows(i, c)...); err != nil {
			return err
		}
	}
	return nil
}

func chainAdapter(i int) frame.MAC { return frame.MAC(0x0200_0000_0001 + i) }

func (x *chainFabric) host(
	name string, s *Switch, port int, mac frame.MAC, c Chain, flows ...traffic.Flow,
) (*Host, error) {
	return x.AddHost(name, s, port, c.Cable, traffic.Params{
		MAC: mac, Speed: c.Cable.Rate, InFlight: c.Cable.InFlight(), Flows: flows, Priorities: 1 << LosslessCoS,
	})
}

// flows returns the flows of adapter i. It drops a flow of rate 0 only after drawing its size, so
// that the other flow keeps its size.
func (x *chainFabric) flows(i int, c Chain) (flows []traffic.Flow) {
	for _, f := range []traffic.Flow{{PCP: LosslessCoS, Rate: c.Lossless}, {PCP: chainLossy, Rate: c.Lossy}} {
		f.ID, f.Dst, f.VID = chainFlow(i, f.PCP), chainTarget, chainVLAN
		f.Size = traffic.MinSize + x.rng.IntN(cmp.Or(c.Cable.MTU, 1500)-100)
		if f.Rate > 0 {
			flows = append(flows, f)
		}
	}
	return flows
}

// chainFlow returns the ID of adapter i's flow in a class.
func chainFlow(i int, class uint8) uint32 { return uint32(i*cells.Priorities) + uint32(class) }

// send runs the adapters for the chain's Time while the target stops and resumes them.
func (c Chain) send(x *chainFabric) {
	refuse := int64(c.Pause * chainPeriod)
	for end := x.now + c.Time; x.now < end; {
		if refuse > 0 {
			x.target.Pause(math.MaxUint16)
			x.Run(refuse)
			x.target.Pause(0)
		}
		x.Run(chainPeriod - refuse)
	}
}

// received returns the target's counters for a class, by adapter.
func (x *chainFabric) received(class uint8) (all [2]traffic.Received) {
	for _, r := range x.target.Stats(x.now).Received {
		for i := range all {
			if r.ID == chainFlow(i, class) {
				all[i] = r
			}
		}
	}
	return all
}

func (x *chainFabric) rate(class uint8, ns int64) float64 {
	bytes := uint64(0)
	for _, r := range x.received(class) {
		bytes += r.Bytes + r.Frames*frame.WireOverhead
	}
	return float64(8*bytes) / float64(ns) * 1e9
}

func (c *ChainClass) count(x *chainFabric, class uint8) {
	for i, r := range x.received(class) {
		for _, s := range x.adapters[i].Stats(x.now).Sent {
			if s.ID == chainFlow(i, class) {
				c.Sent += s.Frames
				c.Lost += s.Frames - r.Frames
			}
		}
		c.Reordered += r.Reordered + r.Duplicates + r.Stale
	}
}

func (x *chainFabric) hops() []ChainHop {
	var ports [3][]dataplane.PortSnapshot
	for i, s := range x.switches {
		ports[i] = s.Ports(x.now)
	}
	hops := []ChainHop{newChainHop("target", "sw3", nil, ports[2][2].PFCReceived)}
	for i, s := range x.switches[:2] {
		hops = append(hops, newChainHop("sw3", s.Name, &ports[2][i], ports[i][1].PFCReceived))
	}
	for i, h := range x.adapters {
		hops = append(hops, newChainHop(x.switches[i].Name, h.Name, &ports[i][0], h.Stats(x.now).PFC))
	}
	return hops
}

// newChainHop combines from's port counters with to's counters of received PFC frames.
func newChainHop(from, to string, p *dataplane.PortSnapshot, received pfc.ReceiverStats) ChainHop {
	h := ChainHop{From: from, To: to,
		XOFF: received.XOFF[LosslessCoS], XON: received.XON[LosslessCoS], PausedNS: received.PausedNS[LosslessCoS]}
	if p != nil {
		h.LosslessDrops, h.Headroom = p.LosslessDrops(), p.Groups[LosslessCoS].PeakHeadroom
	}
	return h
}
