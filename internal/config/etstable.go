package config

import (
	"fmt"
)

// ETSTable is ETS in the terms of IEEE 802.1Qaz, as its TLVs have it.
type ETSTable struct {
	TC        [8]uint8 // traffic class, by priority
	Bandwidth [8]uint8 // percent, by traffic class
	TSA       [8]uint8 // by traffic class: one of the constants below
}

// The transmission selection algorithms.
const (
	TSAStrict uint8 = 0
	TSACBS    uint8 = 1 // credit-based shaper
	TSAETS    uint8 = 2
	TSAVendor uint8 = 255
)

// AgreedName is the name of the profile of a port that sends as its peer recommends.
const AgreedName = "dcbx"

// Table returns the profile as a table. Group n is traffic class n. StrictGroup is the traffic
// class above all others, or the highest free one if there is none above.
func (e *ETSProfile) Table() ETSTable {
	var t ETSTable
	var used [9]bool
	highest := -1
	for i := range e.Groups {
		if g := &e.Groups[i]; g.PG != StrictGroup {
			used[g.PG] = true
			highest = max(highest, g.PG)
			t.Bandwidth[g.PG], t.TSA[g.PG] = uint8(g.Weight), TSAETS
		}
	}
	strict := highest + 1
	for strict == len(t.TSA) || used[strict] {
		strict-- // there is a free one: each of the groups has one of eight CoS values
	}
	for i := range e.Groups {
		for _, cos := range e.Groups[i].CoS {
			if t.TC[cos] = uint8(e.Groups[i].PG); e.Groups[i].PG == StrictGroup {
				t.TC[cos] = uint8(strict)
			}
		}
	}
	return t
}

// groups returns the priority groups that the table describes, or why the switch can't send by it.
// Strict traffic classes, and those with an algorithm of a vendor, become StrictGroup, which sends
// the highest CoS first. Bandwidth of a traffic class without priorities stays unused: the others
// share it by their weights.
func (t *ETSTable) groups() (groups []PriorityGroup, problem string) {
	sum, shared, strict := 0, false, PriorityGroup{PG: StrictGroup}
	for tc, tsa := range t.TSA {
		if tsa == TSAETS {
			sum += int(t.Bandwidth[tc])
			shared = shared || t.Bandwidth[tc] > 0
		}
	}
	last := uint8(0)
	for cos, tc := range t.TC {
		switch {
		case int(tc) >= len(t.TSA):
			return nil, fmt.Sprintf("it maps priority %d to traffic class %d, which does not exist", cos, tc)
		case t.TSA[tc] == TSAStrict || t.TSA[tc] == TSAVendor:
			if tc < last {
				return nil, fmt.Sprintf("it sends priority %d after lower ones that are strict, too; this switch sends "+
					"the highest first", cos)
			}
			last = tc
			strict.CoS = append(strict.CoS, cos)
		case t.TSA[tc] == TSACBS:
			return nil, fmt.Sprintf("traffic class %d has the credit-based shaper, which this switch does not have", tc)
		case t.TSA[tc] != TSAETS:
			return nil, fmt.Sprintf("traffic class %d has algorithm %d, which is unknown", tc, t.TSA[tc])
		case t.Bandwidth[tc] == 0:
			return nil, fmt.Sprintf("traffic class %d shares bandwidth, but gets 0%%", tc)
		}
	}
	if shared && sum != 100 {
		return nil, fmt.Sprintf("its bandwidths sum to %d%%, not to 100%%", sum)
	}
	for tc := range t.TSA {
		if cos := t.members(tc); t.TSA[tc] == TSAETS && cos != nil {
			groups = append(groups, PriorityGroup{PG: tc, CoS: cos, Weight: int(t.Bandwidth[tc])})
		}
	}
	if strict.CoS != nil {
		groups = append(groups, strict)
	}
	return groups, ""
}

// members returns the priorities of a traffic class.
func (t *ETSTable) members(tc int) (cos []int) {
	for i, of := range t.TC {
		if int(of) == tc {
			cos = append(cos, i)
		}
	}
	return cos
}

// takeETS has ports send as their peers recommend.
func takeETS(d *decoder, c *Config) {
	for i := range c.Ports {
		p := &c.Ports[i]
		a := d.agreed(p)
		if a == nil || a.ETS == nil {
			continue
		}
		groups, problem := a.ETS.groups()
		if problem != "" {
			d.fail(&p.ETSName, problem, "correct the peer, or remove ets from willing in the port's dcbx")
			continue
		}
		at := d.at[&p.ETSName]
		one := make([]ETSProfile, 0, 1)
		add(d, &one, at, etsKeys, func(e *ETSProfile) {
			e.Name = AgreedName
			setGroups(d, e, at, groups)
			checkGroups(d, e)
		})
		p.ETSName, p.ETS = AgreedName, &one[0]
	}
}
