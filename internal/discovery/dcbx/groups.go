package dcbx

// strictPGID is the priority group of CEE that is served first and without limit; 8 to 14 are
// reserved.
const strictPGID = 15

// ceeGroups is ETS as CEE has it: priorities in groups.
type ceeGroups struct {
	pgid    [8]uint8 // by priority
	percent [8]uint8 // by group
	classes uint8    // traffic classes that the sender has
}

// cee returns e in the terms of CEE: an ETS class is the priority group of its number, priorities
// of strict classes are in group 15, which does not carry the order of several strict classes.
// Tables with the credit-based shaper or a vendor's algorithm are not expressible.
func (e *ETS) cee() (g ceeGroups, ok bool) {
	for p, tc := range e.TC {
		switch {
		case tc > 7:
			return g, false
		case e.TSA[tc] == TSAStrict:
			g.pgid[p] = strictPGID
		case e.TSA[tc] == TSAETS:
			g.pgid[p] = tc
		default:
			return g, false
		}
	}
	for tc, tsa := range e.TSA {
		if tsa == TSAETS {
			g.percent[tc] = e.Bandwidth[tc]
		}
	}
	if g.classes = e.MaxTCs; g.classes == 0 {
		g.classes = 8
	}
	return g, g.check() == 0
}

// check reports what is wrong with groups of a peer.
func (g *ceeGroups) check() Error {
	strict, sum := true, 0
	for p, id := range g.pgid {
		if id > 7 && id != strictPGID {
			return ErrGroup
		}
		strict = strict && id == strictPGID
		sum += int(g.percent[p])
	}
	if sum != 100 && (sum != 0 || !strict) {
		return ErrBandwidth
	}
	return 0
}

// ets returns g in the terms of IEEE: group n is class n, group 15 is the strict class freeClass.
func (g *ceeGroups) ets() (e ETS, err Error) {
	used := make([]bool, 8)
	for _, id := range g.pgid {
		if id != strictPGID {
			used[id] = true
		}
	}
	free, err := freeClass(used, g.percent)
	for p, id := range g.pgid {
		if id != strictPGID {
			e.TC[p] = id
			continue
		}
		if err != 0 {
			return e, err
		}
		e.TC[p] = free
	}
	e.weigh(used, g.percent)
	e.MaxTCs = min(g.classes, 8)
	return e, 0
}

// weigh makes the classes that are used by priorities or have a bandwidth TSAETS.
func (e *ETS) weigh(used []bool, percent [8]uint8) {
	for tc := range e.TSA {
		if used[tc] || percent[tc] > 0 {
			e.TSA[tc], e.Bandwidth[tc] = TSAETS, percent[tc]
		}
	}
}

// freeClass returns the class for priorities that are served first: the one above all that are used
// or have a bandwidth, or else the highest free one. If all have one or the other, the bandwidths
// include some of groups without priorities, so that they do not sum to 100 where it counts.
func freeClass(used []bool, percent [8]uint8) (uint8, Error) {
	taken := func(tc int) bool { return used[tc] || percent[tc] > 0 }
	top := 7
	for top >= 0 && !taken(top) {
		top--
	}
	if top < 7 {
		return uint8(top + 1), 0
	}
	for tc := 7; tc >= 0; tc-- {
		if !taken(tc) {
			return uint8(tc), 0
		}
	}
	return 0, ErrBandwidth
}

// Strict bits of CIN.
const (
	cinNone        = 0
	cinGroupStrict = 1 // first within its bandwidth group
	cinLinkStrict  = 2 // before all groups, without limit
)

// cinGroups is ETS as CIN has it: priorities with shares of bandwidth groups.
type cinGroups struct {
	percent [8]uint8 // by bandwidth group
	group   [8]uint8 // by priority
	strict  [8]uint8
	share   [8]uint8 // % of the group
}

// cin returns e in the terms of CIN: a class is the bandwidth group of its number, of which its
// priorities get equal shares; priorities of strict classes are link strict and have no share.
// Tables with the credit-based shaper or a vendor's algorithm are not expressible.
func (e *ETS) cin() (g cinGroups, ok bool) {
	var members [8]uint8
	for p, tc := range e.TC {
		if tc > 7 || e.TSA[tc] != TSAStrict && e.TSA[tc] != TSAETS {
			return g, false
		}
		g.group[p] = tc
		if e.TSA[tc] == TSAStrict {
			g.strict[p] = cinLinkStrict
		}
		members[tc]++
	}
	var seen [8]uint8
	for p, tc := range e.TC {
		if e.TSA[tc] == TSAETS {
			if g.share[p] = 100 / members[tc]; seen[tc] < 100%members[tc] { // the first ones get the rest
				g.share[p]++
			}
			seen[tc]++
		}
	}
	for tc, tsa := range e.TSA {
		if tsa == TSAETS {
			g.percent[tc] = e.Bandwidth[tc]
		}
	}
	return g, g.check() == 0
}

// check reports what is wrong with groups of a peer: bandwidths that do not sum to 100 %, or shares
// that do not sum to 100 % of their group. Priorities that are link strict have no share; a group
// may leave out the shares if all its priorities are strict.
func (g *cinGroups) check() Error {
	var shares [8]int
	var weighted, present [8]bool
	sum, strict := 0, true
	for p, group := range g.group {
		sum += int(g.percent[p])
		switch g.strict[p] {
		case cinNone:
			weighted[group] = true
			fallthrough
		case cinGroupStrict:
			present[group], strict = true, false
			shares[group] += int(g.share[p])
		case cinLinkStrict:
		default:
			return ErrStrict
		}
	}
	if sum != 100 && (sum != 0 || !strict) {
		return ErrBandwidth
	}
	for group, share := range shares {
		if present[group] && share != 100 && (share != 0 || weighted[group]) {
			return ErrBandwidth
		}
	}
	return 0
}

// ets returns g in the terms of IEEE: bandwidth group n is class n, strict if all its priorities
// are link strict; link strict priorities of other groups are in freeClass. Shares within a group
// and group strict have no counterpart in IEEE and are lost.
func (g *cinGroups) ets() (e ETS, err Error) {
	used, link := make([]bool, 8), make([]bool, 8)
	for p, group := range g.group {
		if g.strict[p] == cinLinkStrict {
			link[group] = true
		} else {
			used[group] = true
		}
	}
	taken := make([]bool, 8)
	for tc := range taken {
		taken[tc] = used[tc] || link[tc] && g.percent[tc] == 0
	}
	free, none := freeClass(taken, g.percent)
	for p, group := range g.group {
		e.TC[p] = group
		if g.strict[p] == cinLinkStrict && (used[group] || g.percent[group] > 0) {
			if none != 0 {
				return e, none
			}
			e.TC[p] = free
		}
	}
	e.weigh(used, g.percent)
	return e, 0
}
