package sim

import (
	"errors"
	"fmt"
	"math"

	"sluice/bench/traffic"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd/mem"
)

// Healing is a link between a host that sends a lossless class at line rate, in the shortest
// frames, and a switch whose egress is stopped for a while. One PFC frame of the switch does not
// reach the host. PFC has no acknowledgement: the next XOFF makes up for a lost XOFF, and the end
// of the pause for a lost XON.
type Healing struct {
	Seed    uint64
	Cable   Cable
	Quanta  uint16    // requested by XOFF
	Refresh uint16    // quanta until XOFF is repeated; 0: half of Quanta
	Spare   int       // cells of headroom beyond the need of the cable and the two ends
	LoseXON bool      // lose the first XON, not the first XOFF
	Fault   mem.Fault // fate of that frame: Lose or Corrupt
}

// NewHealing returns a link of 300 m and 10 Gbit/s on which the first XOFF is lost.
func NewHealing(seed uint64, quanta uint16) Healing {
	return Healing{Seed: seed, Cable: Cable{Rate: 10e9, Metres: 300}, Quanta: quanta, Fault: mem.Lose}
}

// Healed is the result of a Healing. Times are in ns, at the host's end of the cable.
type Healed struct {
	Headroom int    // cells that the lossless group had
	Sent     uint64 // frames of the host
	Dropped  uint64 // frames dropped because the headroom was full
	Later    uint64 // frames of those dropped after the host had stopped

	Repeated int64 // from when the lost XOFF would have arrived until the next one arrived
	Idle     int64 // from when the lost XON would have arrived until the host sent again
	Paused   int64 // from the last XOFF until the host sent again
}

// Cost is the cost of a lost PFC frame, by the quanta that XOFF asks for.
type Cost struct {
	Quanta   uint16
	Pause    int64  // ns
	Dropped  uint64 // lossless frames lost after a lost XOFF, with the headroom for a link without faults
	Headroom int    // that headroom, cells
	Spare    int    // additional cells with which a lost XOFF costs nothing
	Idle     int64  // ns that the sender waits after a lost XON
}

// HealingCost measures the cost on the link of NewHealing. The seed chooses when the XON is lost.
func HealingCost(seed uint64, quanta uint16) (Cost, error) {
	h := NewHealing(seed, quanta)
	c := Cost{Quanta: quanta, Pause: h.pause(), Spare: h.spare()}
	lost, err := h.Run()
	if err != nil {
		return c, err
	}
	c.Dropped, c.Headroom = lost.Dropped, lost.Headroom
	h.LoseXON = true
	lost, err = h.Run()
	c.Idle = lost.Idle
	return c, err
}

// pause returns how long one XOFF stops the host, ns.
func (h Healing) pause() int64 {
	return int64(math.Ceil(float64(h.Quanta) * pfc.QuantumBits * 1e9 / float64(h.Cable.Rate)))
}

// refresh returns the time from one XOFF to the next, ns.
func (h Healing) refresh() int64 {
	if h.Refresh == 0 {
		return h.pause() / 2
	}
	return int64(uint64(h.Refresh) * pfc.QuantumBits * 1e9 / h.Cable.Rate)
}

// spare returns the cells that arrive between an XOFF and its repetition.
func (h Healing) spare() int {
	slot := float64(traffic.MinSize+frame.WireOverhead) * 8e9 / float64(h.Cable.Rate)
	return int(math.Ceil(float64(h.refresh()+PollMax)/slot)) + 1
}

// healingFabric is the fabric of a Healing.
type healingFabric struct {
	*Fabric
	Healing
	sw           *Switch
	host, target *Host

	refusing bool  // the target
	refuseAt int64 // when it repeats its XOFF, ns

	// Events on the cable between host and switch, ns; 0: not yet seen.
	lostAt   int64 // the lost frame, at the host's end
	repeatAt int64 // the first XOFF after that
	xoffAt   int64 // the last XOFF
	resumeAt int64 // the host's first frame after that, at the switch
}

// Run builds the link, stops its egress and resumes it.
func (h Healing) Run() (r Healed, err error) {
	x := &healingFabric{Fabric: NewFabric(h.Seed), Healing: h}
	defer func() { err = errors.Join(err, x.Close()) }()
	if err := x.build(); err != nil {
		return r, err
	}
	r.Headroom = x.sw.Params.Ports[0].Cells.Groups[LosslessCoS].Headroom
	x.run(20_000)
	if h.LoseXON {
		err = x.loseXON(&r)
	} else {
		err = x.loseXOFF(&r)
	}
	if err != nil {
		return r, err
	}
	if err := errors.Join(x.Settle(50e6), x.Check()); err != nil {
		return r, err
	}
	r.Sent = x.host.Stats(x.now).Sent[0].Frames
	if got := x.target.Stats(x.now).Received[0]; got.Frames+r.Dropped != r.Sent || got.Reordered != 0 {
		return r, fmt.Errorf("bench: healing: of %d frames %d arrived, %d were dropped, %d reordered",
			r.Sent, got.Frames, r.Dropped, got.Reordered)
	}
	return r, nil
}

const healingTarget = frame.MAC(0x0200_0000_00ff)

func (x *healingFabric) build() (err error) {
	if x.Quanta == 0 {
		return errors.New("bench: healing: 0 quanta would resume, not pause: choose 1 to 65535")
	}
	x.sw, err = x.AddLosslessSwitch("sw", LosslessSwitch{
		Ports: 2, Cable: x.Cable, Quanta: x.Quanta, Refresh: x.Refresh, Spare: x.Spare,
	})
	if err != nil {
		return err
	}
	faulty := x.Cable
	faulty.Fault = x.watch
	p := traffic.Params{
		MAC: 0x0200_0000_0001, Speed: x.Cable.Rate, InFlight: x.Cable.InFlight(), Priorities: 1 << LosslessCoS,
		Flows: []traffic.Flow{{Dst: healingTarget, PCP: LosslessCoS, Size: traffic.MinSize}},
	}
	if x.host, err = x.AddHost("host", x.sw, 0, faulty, p); err != nil {
		return err
	}
	p.MAC, p.Flows = healingTarget, nil
	x.target, err = x.AddHost("target", x.sw, 1, x.Cable, p)
	return err
}

// watch sees every frame between host and switch and loses the chosen one.
func (x *healingFabric) watch(at int64, toSwitch bool, b []byte) mem.Fault {
	if toSwitch {
		if x.lostAt > 0 && x.resumeAt == 0 {
			x.resumeAt = at
		}
		return mem.Deliver
	}
	var f pfc.Frame
	if kind, _ := pfc.Decode(b, &f); kind != pfc.PFC || f.Enable>>LosslessCoS&1 == 0 {
		return mem.Deliver
	}
	xon := f.Quanta[LosslessCoS] == 0
	if x.lostAt == 0 && xon == x.LoseXON {
		x.lostAt = at
		return x.Healing.Fault
	}
	if !xon {
		x.xoffAt = at
		if x.lostAt > 0 && x.repeatAt == 0 {
			x.repeatAt = at
		}
	}
	return mem.Deliver
}

// refuse has the target pause the lossless class until accept.
func (x *healingFabric) refuse() { x.refusing, x.refuseAt = true, x.now }

// accept has the target resume the lossless class.
func (x *healingFabric) accept() {
	x.refusing = false
	x.target.Pause(0)
}

// run is Fabric.Run with a target that repeats its XOFF before a pause expires.
func (x *healingFabric) run(ns int64) {
	const repeat = 1e6 // ns; 65535 quanta take 3.4 ms at 10 Gbit/s
	for end := x.now + ns; x.now < end; x.Fabric.Run(1000) {
		if x.refusing && x.now >= x.refuseAt {
			x.target.Pause(math.MaxUint16)
			x.refuseAt += repeat
		}
	}
}

// until runs until *seen is set. It fails after limit ns.
func (x *healingFabric) until(what string, seen *int64, limit int64) error {
	for end := x.now + limit; *seen == 0; x.run(1000) {
		if x.now > end {
			return fmt.Errorf("bench: healing: no %s within %d ns", what, limit)
		}
	}
	return nil
}

// healingReaction is longer than any queue takes to fill or drain and both ends take to send and
// honour PFC frames, ns.
const healingReaction = 100_000

func (x *healingFabric) loseXOFF(r *Healed) error {
	x.refuse()
	if err := x.until("XOFF", &x.lostAt, healingReaction); err != nil {
		return err
	}
	if err := x.until("repetition of XOFF", &x.repeatAt, x.pause()); err != nil {
		return err
	}
	x.run(healingReaction)
	stopped := x.drops()
	x.run(2 * x.pause())
	x.accept()
	r.Repeated, r.Dropped = x.repeatAt-x.lostAt, x.drops()
	r.Later = r.Dropped - stopped
	return nil
}

func (x *healingFabric) loseXON(r *Healed) error {
	x.refuse()
	x.run(healingReaction + x.rng.Int64N(x.pause()))
	x.accept()
	if err := x.until("XON", &x.lostAt, healingReaction); err != nil {
		return err
	}
	if err := x.until("frame from the host", &x.resumeAt, x.pause()+healingReaction); err != nil {
		return err
	}
	x.run(healingReaction)
	// Subtract slot and delay from the arrival to get the time when the host began to send.
	slot := int64((traffic.MinSize + frame.WireOverhead) * 8e9 / x.Cable.Rate)
	began := x.resumeAt - slot - mem.Length(x.Cable.Metres) - x.Cable.Transceivers
	r.Idle, r.Paused, r.Dropped = began-x.lostAt, began-x.xoffAt, x.drops()
	return nil
}

func (x *healingFabric) drops() uint64 {
	ports := x.sw.Ports(x.now)
	return ports[0].LosslessDrops() + ports[1].LosslessDrops()
}
