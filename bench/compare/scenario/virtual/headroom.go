package virtual

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice/bench/compare"
	"sluice/bench/sim"
	"sluice/bench/traffic"
	"sluice/cells/headroom"
	"sluice/internal/frame"
)

// Headroom is how much headroom a switch needs, computed by each method and measured under siege.
var Headroom = compare.Scenario{
	Name:   "headroom",
	Shows:  "headroom used and computed, by the peer's reaction delay",
	Peers:  "the formulas of Cisco, DC Farm, 802.1Q Annex O and SONiC",
	Page:   "scheduling-and-buffers",
	Short:  true,
	OneCPU: true,
	Run:    runHeadroom,
}

const (
	headroomWire   = "worst link partner"
	headroomSwitch = "switch under siege"
)

// peerDelays are the times from the arrival of a PFC frame at a peer to its effect, ns. 3072 ns are
// the standard's 60 quanta at 10 Gbit/s.
var peerDelays = []int64{100, 500, 1000, 2000, 3072, 5000, 10_000, 20_000, 50_000, 100_000}

func headroomMetric(delay int64) string {
	return fmt.Sprintf("headroom used / computed, peer reacts after %d ns", delay)
}

func runHeadroom(ctx context.Context, o compare.Options, r *compare.Report) error {
	if err := addAttacks(ctx, o, r); err != nil {
		return err
	}
	if err := addSieges(ctx, o, r); err != nil {
		return err
	}
	return addMethods(ctx, o, r)
}

// headroomLink is a link of 10 Gbit/s over 100 m of fibre with a peer that responds after delay ns.
func headroomLink(delay int64) headroom.Params {
	const bitsPerNS = 10
	return headroom.Params{
		Speed: 10e9, MTUOwn: 1522, MTUPeer: 1522, Metres: 100, Medium: headroom.Fibre, Cell: sim.CellSize,
		Unstored:     frame.FCS,
		ResponseBits: int(delay * bitsPerNS), SONiC: headroom.SONiCDefaults(),
	}
}

// addAttacks lets the worst link partner attack the headroom of the exact method, and that headroom
// less one longest frame.
func addAttacks(ctx context.Context, o compare.Options, r *compare.Report) error {
	t := compare.Table{
		Title: "Headroom under the worst link partner: 10 Gbit/s, 100 m, MTU 1500, cells of 160 B",
		Head:  []string{"peer reacts after", "computed", "used", "dropped", "dropped with one longest frame less"},
	}
	computed, used := compare.Series{Name: "computed"}, compare.Series{Name: "used"}
	defer func() {
		r.Table(t)
		r.Plot(compare.Plot{
			Name: "delay", Title: "Headroom over the peer's reaction delay", X: "reaction delay (ns)",
			Y:    "cells of 160 B",
			LogX: true, LogY: true, Series: []compare.Series{computed, used},
		})
	}()
	for _, delay := range peerDelays {
		if err := ctx.Err(); err != nil {
			return err
		}
		a := sim.LinkAttack{Link: headroomLink(delay), Limit: 100, Seed: o.Seed}
		c, err := headroom.Compute(headroom.Exact, a.Link)
		if err != nil {
			return err
		}
		a.Headroom = c.Cells
		full, err := a.Run()
		if err != nil {
			return err
		}
		a.Headroom -= sim.DivideUp(a.Link.MTUPeer-frame.FCS, a.Link.Cell)
		short, err := a.Run()
		if err != nil {
			return err
		}
		r.Add(compare.Trial{
			Name: headroomWire, Metric: headroomMetric(delay), Value: float64(full.Used) / float64(c.Cells),
			Detail: map[string]float64{
				"computed": float64(c.Cells), "used": float64(full.Used), "dropped": float64(full.Dropped),
				"dropped_short": float64(short.Dropped),
			},
		})
		t.Rows = append(t.Rows, []string{
			fmt.Sprintf("%d ns", delay), fmt.Sprint(c.Cells), fmt.Sprint(full.Used), fmt.Sprint(full.Dropped),
			fmt.Sprint(short.Dropped),
		})
		computed.Points = append(computed.Points, [2]float64{float64(delay), float64(c.Cells)})
		used.Points = append(used.Points, [2]float64{float64(delay), float64(full.Used)})
	}
	return nil
}

// addSieges attacks a whole switch, with another seed in each round.
func addSieges(ctx context.Context, o compare.Options, r *compare.Report) error {
	for round := range o.Trials {
		for _, delay := range []int64{1000, 3072, 20_000} {
			if err := ctx.Err(); err != nil {
				return err
			}
			o.Progress("switch under siege, peer reacts after %d ns: %s", delay, compare.OfRounds(round, o.Trials))
			s := siege{PeerDelay: delay, Seed: o.Seed + uint64(round)}
			damage, err := s.Run()
			if err != nil {
				return err
			}
			s.Short = damage.Headroom / 4
			short, err := s.Run()
			if err != nil {
				return err
			}
			r.Add(compare.Trial{
				Name: headroomSwitch, Metric: headroomMetric(delay), Round: round,
				Value: float64(damage.Used) / float64(damage.Headroom),
				Detail: map[string]float64{
					"computed": float64(damage.Headroom), "used": float64(damage.Used),
					"dropped":       float64(damage.Dropped),
					"dropped_short": float64(short.Dropped),
				},
			})
		}
	}
	return nil
}

// addMethods compares the headroom that each formula gives random links with their real need.
func addMethods(ctx context.Context, o compare.Options, r *compare.Report) error {
	links := 1000
	if o.Quick {
		links = 50
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	o.Progress("%d random links", links)
	samples, err := sim.HeadroomUse(o.Seed, links)
	if err != nil {
		return err
	}
	t := compare.Table{
		Title: fmt.Sprintf("Headroom computed per cell needed, on %d random links of 10 Gbit/s", links),
		Head:  []string{"method", "min", "median", "max", "links that lose frames"},
	}
	ratios := map[headroom.Method][]float64{}
	for _, s := range samples {
		ratios[s.Method] = append(ratios[s.Method], s.Ratio())
	}
	for _, m := range headroom.Methods() {
		given := ratios[m]
		if len(given) == 0 {
			continue
		}
		slices.Sort(given)
		short, _ := slices.BinarySearch(given, 1)
		sum := compare.Summarise(given)
		t.Rows = append(t.Rows, []string{
			string(m), fmt.Sprintf("%.3f", sum.Min), fmt.Sprintf("%.3f", sum.Median), fmt.Sprintf("%.3f", sum.Max),
			fmt.Sprintf("%d of %d", short, links),
		})
		r.Add(compare.Trial{
			Name: string(m), Metric: "headroom computed / needed, random links, median", Value: sum.Median,
			Detail: map[string]float64{"least": sum.Min, "most": sum.Max, "short": float64(short),
				"links": float64(links)},
		})
	}
	r.Table(t)
	return nil
}

// siege is an attack on a port of a whole switch in a fabric. The sender's lossless frames have the
// worst length, the port's own TX ring is full of shortest lossy frames, and the target stops and
// resumes the lossless class repeatedly.
//
//	sender ── sw ── target
//	           └─── other
type siege struct {
	PeerDelay int64 // ns from the arrival of a PFC frame at the sender to its effect
	Short     int   // cells of headroom that the switch lacks
	Seed      uint64
}

// siegeDamage is the result of a siege.
type siegeDamage struct {
	Headroom int // cells that the switch computed
	Used     int // most cells in use
	Dropped  uint64
}

// Run runs the siege.
func (x siege) Run() (d siegeDamage, err error) {
	const sender, other, target = frame.MAC(0x0200_0000_000a), frame.MAC(0x0200_0000_000b), frame.MAC(0x0200_0000_00ff)
	f := sim.NewFabric(x.Seed)
	f.Untraced = true
	defer func() { err = errors.Join(err, f.Close()) }()
	cable := sim.Cable{Rate: 10e9, Metres: 100}
	s, err := f.AddLosslessSwitch("sw", sim.LosslessSwitch{Ports: 3, Cable: cable, PeerDelay: x.PeerDelay,
		Spare: -x.Short})
	if err != nil {
		return d, err
	}
	addHost := func(port int, mac frame.MAC, delay int64, flow traffic.Flow) *sim.Host {
		h, failed := f.AddHost(fmt.Sprintf("host %v", mac), s, port, cable, traffic.Params{
			MAC: mac, Speed: cable.Rate, InFlight: cable.InFlight(), Flows: []traffic.Flow{flow},
			Priorities: 1 << sim.LosslessCoS, ReactionDelay: delay,
		})
		err = errors.Join(err, failed)
		return h
	}
	lossy := traffic.Flow{Dst: sender, VID: 100, Size: traffic.MinSize}
	addHost(0, sender, x.PeerDelay, traffic.Flow{ID: 0, Dst: target, VID: 100, PCP: sim.LosslessCoS,
		Size: traffic.MinSize})
	lossy.ID = 1
	addHost(1, other, 0, lossy)
	lossy.ID = 2
	sink := addHost(2, target, 0, lossy)
	if err != nil {
		return d, err
	}
	if err := sim.Refuse(f, sink); err != nil {
		return d, err
	}
	p := s.Ports(f.Now())[0]
	if p.PFCSent.XOFF[sim.LosslessCoS] < 4 || p.PFCSent.XON[sim.LosslessCoS] < 3 {
		return d, fmt.Errorf("bench: the siege caused only %d XOFF and %d XON", p.PFCSent.XOFF[sim.LosslessCoS],
			p.PFCSent.XON[sim.LosslessCoS])
	}
	g := p.Groups[sim.LosslessCoS]
	d = siegeDamage{Used: g.PeakHeadroom, Dropped: p.LosslessDrops()}
	d.Headroom = s.Params.Ports[0].Cells.Groups[sim.LosslessCoS].Headroom + x.Short
	return d, f.Check()
}
