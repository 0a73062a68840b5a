package config

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sort"

	"sluice/internal/config/ets"
	"sluice/internal/text/prose"
)

// LinkFacts is what is known of a port's link beside the file.
type LinkFacts struct {
	Rate uint64  // bit/s; 0: not reported
	DCB  *Agreed // nil: as the file says (no DCBX, or not yet run)
}

// Agreed is what a port and its peer agreed on by DCBX.
type Agreed struct {
	PFC uint8     // bit n: priority n is lossless; counts where flow_control is auto
	ETS *ETSTable // the peer's recommendation that runs; nil: the port's profile
}

// ETSTable is ETS in the terms of IEEE 802.1Qaz, as its TLVs have it.
type ETSTable = ets.Table

// AgreedName is the name of the profile of a port that sends as its peer recommends.
const AgreedName = "dcbx"

// Equal reports whether two agreements are the same.
func (a *Agreed) Equal(b *Agreed) bool {
	same := a.ETS == b.ETS || a.ETS != nil && b.ETS != nil && *a.ETS == *b.ETS
	return a.PFC == b.PFC && same
}

// AtRates returns facts of links of which only the rates are known, in bit/s by device.
func AtRates(rates map[string]uint64) map[string]LinkFacts {
	facts := make(map[string]LinkFacts, len(rates))
	for device, rate := range rates {
		facts[device] = LinkFacts{Rate: rate}
	}
	return facts
}

// agreed returns what a port and its peer agreed on, nil if that is not known.
func (d *decoder) agreed(p *Port) *Agreed { return d.facts[p.Device].DCB }

// losslessCoS returns the CoS values of the lossless classes.
func losslessCoS(c *Config) (set uint8) {
	for i := range c.Classes {
		if c.Classes[i].Lossless {
			for _, cos := range c.Classes[i].CoS {
				set |= 1 << cos
			}
		}
	}
	return set
}

// LosslessCoS returns the CoS values of the lossless classes of the file, whatever ports have
// agreed on.
func (c *Config) LosslessCoS() uint8 { return c.source.lossless }

// setLossless finds the priorities that are lossless on a port. Without an agreement, a port with
// FlowAuto counts as if it had agreed on all lossless classes of the file. Its memory is kept even
// if it has agreed on less, so that a later agreement on them always fits.
func (p *Port) setLossless(d *decoder) {
	p.PFC = d.lossless
	if a := d.agreed(p); a != nil && p.FlowControl == FlowAuto {
		p.PFC = a.PFC
	}
	p.kept = p.PFC
	if p.FlowControl == FlowAuto {
		p.kept |= d.lossless
	}
}

// Lossless reports whether a CoS is lossless on a port.
func (p *Port) Lossless(cos int) bool { return p.PFC>>cos&1 == 1 }

// Keeps returns how many bytes the memory keeps for a CoS of a port: headroom, and room for its
// longest frame. On a port with FlowAuto they don't depend on whether it has agreed on the CoS.
func (c *Config) Keeps(p *Port, cos int) (headroom, frame int) {
	frame = p.MaxFrame()
	if p.kept>>cos&1 == 0 {
		return 0, frame
	}
	if p.FlowControl != FlowAuto {
		frame = p.MaxLossless()
	}
	return p.HeadroomOf(c.Class(cos)), frame
}

// Priorities returns the numbers of the bits that are set.
func Priorities(set uint8) (all []int) {
	for ; set != 0; set &= set - 1 {
		all = append(all, bits.TrailingZeros8(set))
	}
	return all
}

// moveAgreed makes each CoS lossless that a port has agreed on, but whose class is lossy in the
// file: the class, if ports have agreed on all of its CoS values, or else a new class of this CoS
// alone. A CoS that is lossless on one port has no queue limit on any.
func moveAgreed(d *decoder, c *Config) {
	if !soundClasses(d, c) || len(d.errors) > 0 {
		return
	}
	var agreed uint8
	for i := range c.Ports {
		agreed |= c.Ports[i].PFC
	}
	for i := range len(c.Classes) {
		class := &c.Classes[i]
		if class.Lossless {
			continue
		}
		isAgreed := func(cos int) bool { return agreed>>cos&1 == 1 }
		rest := slices.DeleteFunc(slices.Clone(class.CoS), isAgreed)
		switch len(rest) {
		case 0:
			makeLossless(class)
			continue
		case len(class.CoS):
			continue
		}
		for _, cos := range class.CoS {
			if !isAgreed(cos) {
				continue
			}
			add(d, &c.Classes, d.at[class], classKeys, func(to *Class) {
				*to = *class
				to.Name, to.CoS = freeName(c, nameOf([]int{cos})), []int{cos}
				makeLossless(to)
			})
		}
		for j, old := range class.CoS {
			if at := slices.Index(rest, old); at >= 0 {
				d.at[&rest[at]] = d.at[&class.CoS[j]]
			}
		}
		class.CoS = rest
	}
}

// makeLossless makes a lossy class lossless.
func makeLossless(class *Class) {
	class.Lossless, class.QueueLimit, class.QueueAlpha = true, 0, 0
	if !class.ECN {
		class.WRED = WRED{}
	}
	class.XON, class.XONOffset = class.Share/2, 0
	if class.Alpha > 0 {
		class.XONOffset = defaultXONOffset
	}
}

// freeName returns a name that no class has: the given one, if that is free.
func freeName(c *Config, name string) string {
	for slices.ContainsFunc(c.Classes, func(class Class) bool { return class.Name == name }) {
		name += "-lossless"
	}
	return name
}

// Table returns the profile as a table: group n is traffic class n, and StrictGroup one above these
// or, if there is none above, the highest free one.
func (e *ETSProfile) Table() ETSTable {
	var groups []ets.Group
	for _, g := range e.Groups {
		groups = append(groups, ets.Group{Number: g.PG, CoS: g.CoS, Weight: g.Weight})
	}
	return ets.TableOf(groups)
}

// takeETS has ports send as their peers recommend, without limits of rate.
func takeETS(d *decoder, c *Config) {
	for i := range c.Ports {
		p := &c.Ports[i]
		a := d.agreed(p)
		if a == nil || a.ETS == nil {
			continue
		}
		groups, problem := a.ETS.Groups()
		if problem != "" {
			d.fail(&p.ETSName, problem, "correct the peer, or remove ets from willing in the port's dcbx")
			continue
		}
		var own []PriorityGroup
		for _, g := range groups {
			own = append(own, PriorityGroup{PG: g.Number, CoS: g.CoS, Weight: g.Weight})
		}
		at, one := d.at[&p.ETSName], make([]ETSProfile, 0, 1)
		add(d, &one, at, etsKeys, func(e *ETSProfile) {
			e.Name = AgreedName
			setGroups(d, e, at, own)
			checkGroups(d, e)
		})
		p.ETSName, p.ETS = AgreedName, &one[0]
	}
}

// Blame attributes err to the DCBX agreement that caused it, by setting Error.Port and
// Error.Feature. try says whether the configuration fits other links.
func (c *Config) Blame(facts map[string]LinkFacts, err error, try func(map[string]LinkFacts) error) error {
	var one *Error
	if err == nil || errors.As(err, &one) && one.Port != "" {
		return err
	}
	steps := c.steps(facts)
	reasons := map[int]error{len(steps): err}
	at := sort.Search(len(steps), func(n int) bool {
		reasons[n] = try(c.without(facts, steps[n:]))
		return reasons[n] != nil
	})
	if at == 0 {
		return reasons[0]
	}
	return steps[at-1].explain(reasons[at])
}

// step is a part of the agreements that may not fit a file.
type step struct {
	device     string
	feature    DCBXFeature
	priorities []int // of FeaturePFC
}

// steps returns the parts of agreements that may not fit: lossless priorities beyond those of the
// file, and ETS.
func (c *Config) steps(facts map[string]LinkFacts) (all []step) {
	for i := range c.Ports {
		p := &c.Ports[i]
		a := facts[p.Device].DCB
		if a == nil {
			continue
		}
		if more := a.PFC &^ c.source.lossless; more != 0 && p.FlowControl == FlowAuto {
			all = append(all, step{p.Device, FeaturePFC, Priorities(more)})
		}
		if a.ETS != nil {
			all = append(all, step{p.Device, FeatureETS, nil})
		}
	}
	return all
}

// without returns facts without some parts of the agreements.
func (c *Config) without(facts map[string]LinkFacts, steps []step) map[string]LinkFacts {
	less := maps.Clone(facts)
	for _, s := range steps {
		fact := less[s.device]
		a := *fact.DCB
		if s.feature == FeatureETS {
			a.ETS = nil
		} else {
			a.PFC &= c.source.lossless
		}
		fact.DCB = &a
		less[s.device] = fact
	}
	return less
}

// explain returns an error of a file as one of an agreement.
func (s *step) explain(err error) error {
	wants, remedy := "recommends an ETS table", ""
	if s.feature == FeaturePFC {
		which := "priority "
		if len(s.priorities) > 1 {
			which = "priorities "
		}
		which += prose.Join(s.priorities, ", ")
		wants = fmt.Sprintf("wants %s lossless", which)
		remedy = fmt.Sprintf(", or turn off PFC for %s at the peer", which)
	}
	var all Errors
	var one *Error
	switch {
	case errors.As(err, &all):
	case errors.As(err, &one):
		all = Errors{one}
	default:
		return fmt.Errorf("port %s: its peer %s, but %w", s.device, wants, err)
	}
	explained := make(Errors, len(all))
	for i, e := range all {
		reworded := *e
		reworded.Problem = fmt.Sprintf("port %s: its peer %s, but %s", s.device, wants, e.Problem)
		reworded.Remedy += remedy
		reworded.Port, reworded.Feature = s.device, s.feature
		explained[i] = &reworded
	}
	return explained
}
