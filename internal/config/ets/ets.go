// Package ets translates between priority groups and the tables in which DCBX has them (IEEE
// 802.1Qaz).
package ets

import "fmt"

// Table is ETS as the TLVs of IEEE 802.1Qaz have it.
type Table struct {
	TC        [8]uint8 // traffic class, by priority
	Bandwidth [8]uint8 // percent, by traffic class
	TSA       [8]uint8 // by traffic class: one of the constants below
}

// The transmission selection algorithms.
const (
	Strict   uint8 = 0
	CBS      uint8 = 1 // credit-based shaper
	Weighted uint8 = 2
	Vendor   uint8 = 255
)

// StrictGroup is the number of the priority group that is sent before all others.
const StrictGroup = 15

// Group is a priority group.
type Group struct {
	Number int // 0 to 7, or StrictGroup
	CoS    []int
	Weight int // percent; 0 for StrictGroup
}

// TableOf returns groups as a table. Group n is traffic class n.
func TableOf(groups []Group) Table {
	var t Table
	for _, g := range groups {
		tc := g.Number
		if tc == StrictGroup {
			tc = strictClass(groups)
		} else {
			t.Bandwidth[tc], t.TSA[tc] = uint8(g.Weight), Weighted
		}
		for _, cos := range g.CoS {
			t.TC[cos] = uint8(tc)
		}
	}
	return t
}

// strictClass returns the traffic class of StrictGroup, which is among groups: the one above all
// others or, if there is none above, the highest free one. One is free, since each group has at
// least one of eight CoS values.
func strictClass(groups []Group) int {
	var used [8]bool
	above := 0
	for _, g := range groups {
		if g.Number != StrictGroup {
			used[g.Number], above = true, max(above, g.Number+1)
		}
	}
	tc := min(above, len(used)-1)
	for used[tc] {
		tc--
	}
	return tc
}

// Groups returns the groups that a table describes, or why no groups describe it. Strict traffic
// classes, and those with an algorithm of a vendor, become StrictGroup, which sends the highest CoS
// first. A traffic class without priorities becomes no group, so the others share its bandwidth by
// their weights.
func (t *Table) Groups() (groups []Group, problem string) {
	last := uint8(0) // traffic class of the strict priority before
	for priority, tc := range t.TC {
		switch {
		case int(tc) >= len(t.TSA):
			return nil, fmt.Sprintf("priority %d is in traffic class %d, which does not exist", priority, tc)
		case t.TSA[tc] == CBS:
			return nil, fmt.Sprintf("traffic class %d has the credit-based shaper, which this switch lacks", tc)
		case t.TSA[tc] == Weighted && t.Bandwidth[tc] == 0:
			return nil, fmt.Sprintf("traffic class %d has ETS, but a bandwidth of 0%%", tc)
		case t.TSA[tc] == Weighted:
		case t.TSA[tc] != Strict && t.TSA[tc] != Vendor:
			return nil, fmt.Sprintf("traffic class %d has algorithm %d, which is not known", tc, t.TSA[tc])
		case tc < last:
			return nil, fmt.Sprintf("priority %d is strict, but sent after a lower one that is strict, too; this "+
				"switch sends the highest first", priority)
		default:
			last = tc
		}
	}
	if sum := t.sum(); sum != 0 && sum != 100 {
		return nil, fmt.Sprintf("its bandwidths sum to %d%%, not to 100%%", sum)
	}
	strict := Group{Number: StrictGroup}
	for tc, tsa := range t.TSA {
		g := Group{Number: tc, Weight: int(t.Bandwidth[tc])}
		for priority, of := range t.TC {
			if int(of) == tc {
				g.CoS = append(g.CoS, priority)
			}
		}
		switch {
		case g.CoS == nil:
		case tsa == Weighted:
			groups = append(groups, g)
		default:
			strict.CoS = append(strict.CoS, g.CoS...)
		}
	}
	if strict.CoS != nil {
		groups = append(groups, strict)
	}
	return groups, ""
}

// sum returns the bandwidth of all traffic classes that share it, in percent.
func (t *Table) sum() (percent int) {
	for tc, tsa := range t.TSA {
		if tsa == Weighted {
			percent += int(t.Bandwidth[tc])
		}
	}
	return percent
}
