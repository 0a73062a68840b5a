package sim

import (
	"errors"
	"fmt"
	"math"

	"sluice/bench/host"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd/mem"
)

// Healing is a link between a host that sends a lossless class at line rate, in the shortest
// frames, and a switch whose way out is stopped for a while. One PFC frame of the switch does not
// reach the host. PFC has no acknowledgement: a lost XOFF is healed by its repetition, a lost XON
// by the end of the pause.
type Healing struct {
	Seed    uint64
	Cable   Cable
	Quanta  uint16    // that XOFF asks for
	Refresh uint16    // quanta after which it is repeated; 0: half of Quanta
	Spare   int       // cells of headroom that the switch has beyond what the cable and the two ends need
	LoseXON bool      // lose the first XON, not the first XOFF
	Fault   mem.Fault // what becomes of that frame: Lose or Corrupt
}

// NewHealing returns a link of 300 m and 10 Gbit/s on which the first XOFF is lost.
func NewHealing(seed uint64, quanta uint16) Healing {
	return Healing{Seed: seed, Cable: Cable{Rate: 10e9, Metres: 300}, Quanta: quanta, Fault: mem.Lose}
}

// Healed is how it went. Times are in ns, at the host's end of the cable.
type Healed struct {
	Headroom int    // cells that the lossless group had
	Sent     uint64 // frames of the host
	Dropped  uint64 // of them, for want of headroom
	Later    uint64 // of those, dropped after the host had stopped

	Repeated int64 // from when the lost XOFF should have come until the next one came
	Idle     int64 // from when the lost XON should have come until the host sent again
	Paused   int64 // from the last XOFF until the host sent again
}

// Cost is what the loss of a PFC frame costs, by the quanta that XOFF asks for.
type Cost struct {
	Quanta   uint16
	Pause    int64  // ns
	Dropped  uint64 // lossless frames that a lost XOFF cost, with the headroom that a link without faults needs
	Headroom int    // cells of that
	Spare    int    // cells more, with which a lost XOFF costs nothing
	Idle     int64  // ns for which a lost XON made the sender wait
}

// HealingCost measures it on the link of NewHealing. The XON is lost at a moment that the seed
// chooses.
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
	slot := float64(host.MinSize+frame.WireOverhead) * 8e9 / float64(h.Cable.Rate)
	return int(math.Ceil(float64(h.refresh()+PollMax)/slot)) + 1
}

// healingFabric is a Healing under way.
type healingFabric struct {
	*Fabric
	Healing
	sw           *Switch
	host, target *Host

	refusing bool  // the target
	refuseAt int64 // when it says so again, ns

	// What the cable between host and switch has seen, ns; 0: nothing yet.
	lostAt   int64 // the frame that was lost, at the host's end
	repeatAt int64 // the first XOFF after that
	xoffAt   int64 // the last XOFF
	resumeAt int64 // the first frame of the host after that, at the switch
}

// Run builds the link and lets the way out stop and go on.
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
	p := host.Params{
		MAC: 0x0200_0000_0001, Speed: x.Cable.Rate, InFlight: x.Cable.InFlight(), Priorities: 1 << LosslessCoS,
		Flows: []host.Flow{{Dst: healingTarget, PCP: LosslessCoS, Size: host.MinSize}},
	}
	if x.host, err = x.AddHost("host", x.sw, 0, faulty, p); err != nil {
		return err
	}
	p.MAC, p.Flows = healingTarget, nil
	x.target, err = x.AddHost("target", x.sw, 1, x.Cable, p)
	return err
}

// watch sees every frame between host and switch, and loses the one that is to be lost.
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

// refuse has the target stop the lossless class until accept.
func (x *healingFabric) refuse() { x.refusing, x.refuseAt = true, x.now }

// accept has the target take the lossless class again.
func (x *healingFabric) accept() {
	x.refusing = false
	x.target.Inject(pfc.Frame{Enable: 1 << LosslessCoS})
}

// run is Fabric.Run with a target that repeats its XOFF before a pause of it can run out.
func (x *healingFabric) run(ns int64) {
	const repeat = 1e6 // ns; 65535 quanta take 3.4 ms at 10 Gbit/s
	for end := x.now + ns; x.now < end; x.Fabric.Run(1000) {
		if x.refusing && x.now >= x.refuseAt {
			f := pfc.Frame{Enable: 1 << LosslessCoS}
			f.Quanta[LosslessCoS] = math.MaxUint16
			x.target.Inject(f)
			x.refuseAt += repeat
		}
	}
}

// until runs until the cable has seen something, or fails after so many ns.
func (x *healingFabric) until(what string, seen *int64, limit int64) error {
	for end := x.now + limit; *seen == 0; x.run(1000) {
		if x.now > end {
			return fmt.Errorf("bench: healing: no %s within %d ns", what, limit)
		}
	}
	return nil
}

// healingReaction is more than it takes any queue to fill or to drain and both ends to tell and to
// obey, ns.
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
	if err := x.until("frame of the host", &x.resumeAt, x.pause()+healingReaction); err != nil {
		return err
	}
	x.run(healingReaction)
	// Back from the frame's arrival to when the host began to send it.
	slot := int64((host.MinSize + frame.WireOverhead) * 8e9 / x.Cable.Rate)
	began := x.resumeAt - slot - mem.Length(x.Cable.Metres) - x.Cable.Transceivers
	r.Idle, r.Paused, r.Dropped = began-x.lostAt, began-x.xoffAt, x.drops()
	return nil
}

func (x *healingFabric) drops() uint64 {
	ports := x.sw.Ports(x.now)
	return ports[0].LosslessDrops() + ports[1].LosslessDrops()
}
