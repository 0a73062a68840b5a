package dcbx

import (
	"bytes"
	"slices"
)

// judge works out what every feature has come to.
func (m *Machine) judge() {
	for f := range Feature(Features) {
		m.results[f] = m.refuse(f, m.result(f))
	}
	if pfc := &m.results[FeaturePFC]; pfc.source != Peer || !m.lags(FeaturePFC) {
		m.shown = pfc.shown
	}
}

func (m *Machine) result(f Feature) result {
	if m.version.legacy() {
		return m.legacyResult(f)
	}
	return m.ieeeResult(f)
}

// refuse replaces a result that the switch has refused, and ends a refusal of another.
func (m *Machine) refuse(f Feature, r result) result {
	no := &m.refusals[f]
	if no.why == "" {
		return r
	}
	if r.source == Off || !r.values.same(&no.values) {
		if r.state == StateWaiting {
			return r
		}
		*no = refusal{}
		return m.result(f) // the peer's error counts again
	}
	r.state, r.source, r.shown, r.values = StateRefused, Local, m.cfg.PFC.Priorities, m.own(f)
	if m.version.legacy() {
		r.source, r.failed, r.values.PFC, r.values.Apps = Off, true, PFC{}, nil
		return r
	}
	if f == FeaturePFC {
		if r.values.PFC.Priorities = r.shown & m.peer.pfc.Priorities; r.values.same(&no.values) {
			r.source, r.values.PFC.Priorities = Off, 0
		}
	}
	return r
}

// own returns the port's own values of a feature.
func (m *Machine) own(f Feature) (v Values) {
	switch f {
	case FeaturePFC:
		v.PFC = m.cfg.PFC
	case FeatureETS:
		v.ETS = m.cfg.ETS
	case FeatureApp:
		v.Apps = m.cfg.Apps
	}
	return v
}

// off is the result of a feature that does not run. Without ETS, the port's own table stays.
func (m *Machine) off(f Feature, state State) result {
	r := result{state: state, source: Off, shown: m.cfg.PFC.Priorities}
	if f == FeatureETS {
		r.values.ETS = m.cfg.ETS
	}
	return r
}

// missing returns the state of a feature that the peer does not send.
func (m *Machine) missing(f Feature) State {
	switch {
	case m.multiple:
		return StateMultiple
	case m.peer != nil && m.peer.features[f].twice:
		return StateDuplicate
	case m.peer != nil:
		return StateAbsent
	case m.sent != [versions]bool{}:
		return StateVersion
	}
	return StateNoPeer
}

// legacyResult is the state machine of a feature of CEE and CIN.
func (m *Machine) legacyResult(f Feature) result {
	in := facts{advertised: m.advertises(f), willing: m.cfg.Willing[f]}
	if m.peer != nil && !m.multiple {
		r := &m.peer.features[f]
		in.present, in.twice = r.present || r.twice, r.twice
		in.enabled, in.peerWilling = m.cfg.Enabled[f] && r.enabled, r.willing
		// If both ends refuse the same, each keeps its error whatever the other reports.
		in.peerError = r.failed && m.refusals[f].why == ""
		in.compatible = r.present && m.compatible(f)
		if in.advertised && in.present && !in.twice &&
			(!m.synced[f] || m.peer.control.oper != operVersion || r.oper != operVersion) {
			last := m.results[f]
			last.state = StateWaiting
			return last
		}
	}
	rule := decide(in)
	r := m.off(f, rule.state)
	switch r.source = rule.source; rule.source {
	case Local:
		if r.values, r.state = m.own(f), StateLocal; in.present && m.same(f) {
			r.state = StateAgreed
		}
	case Peer:
		if r.values = m.theirs(f); m.same(f) && (f != FeatureApp || slices.Equal(m.listed(), m.peer.apps)) {
			r.state = StateAgreed
		}
	case Off:
		if rule.state == StateAbsent {
			r.state = m.missing(f)
		}
	}
	r.failed = rule.fault == always || rule.fault == inCEE && m.version == CEE && m.known
	return m.capable(f, r)
}

// theirs returns the peer's values of a feature.
func (m *Machine) theirs(f Feature) (v Values) {
	switch f {
	case FeaturePFC:
		v.PFC = m.peer.pfc
	case FeatureETS:
		v.ETS = m.peer.ets
	case FeatureApp:
		v.Apps = m.peer.apps
	}
	return v
}

// compatible reports whether both ends have the same values in the terms of CEE or CIN. In CEE,
// different priority groups are compatible: each end schedules what it sends.
func (m *Machine) compatible(f Feature) bool {
	switch f {
	case FeaturePFC:
		return m.cfg.PFC.Priorities == m.peer.pfc.Priorities
	case FeatureApp:
		return !contradict(m.listed(), m.peer.apps)
	}
	if m.version == CEE {
		return true
	}
	g, _ := m.cfg.ETS.cin()
	return g == m.peer.cin
}

// same reports whether both ends have the same values.
func (m *Machine) same(f Feature) bool {
	if f == FeatureETS && m.version == CEE {
		return m.cfg.ETS.Same(&m.peer.ets)
	}
	return m.compatible(f)
}

// listed returns the applications of this end as the peer sees them: sorted, without those that the
// version cannot carry.
func (m *Machine) listed() []App {
	if m.version.legacy() {
		return carried(m.version, m.cfg.Apps)
	}
	return slices.SortedFunc(slices.Values(m.cfg.Apps), compareApps)
}

// capable makes a mismatch of PFC for more priorities than the peer says it can. A peer that says 0
// but has PFC for some does not tell.
func (m *Machine) capable(f Feature, r result) result {
	if f != FeaturePFC || m.version == CIN || r.source == Off || m.peer == nil {
		return r
	}
	can, runs := int(m.peer.pfc.Capability), r.values.PFC.Priorities
	if m.version == IEEE {
		runs = r.shown
	}
	if count(runs) > can && (can > 0 || m.peer.pfc.Priorities == 0) {
		r.state = StateMismatch
	}
	return r
}

// ieeeResult is the state machine of a feature of IEEE.
func (m *Machine) ieeeResult(f Feature) result {
	if !m.cfg.Enabled[f] {
		return m.off(f, StateOff)
	}
	if m.peer == nil || m.multiple || !m.peer.features[f].present && (f != FeatureETS || !m.peer.recommends) {
		if f == FeatureApp && m.peer != nil && !m.multiple && !m.advertises(f) && !m.cfg.Willing[f] {
			return m.off(f, StateOff)
		}
		return m.off(f, m.missing(f))
	}
	var r result
	switch f {
	case FeaturePFC:
		r = m.ieeePFC()
	case FeatureETS:
		r = m.ieeeETS()
	case FeatureApp:
		return m.ieeeApp() // the peer shows its own list and not what it took
	}
	ownTable := f == FeatureETS && !m.peer.features[f].willing // which the peer is not to follow
	if r.state != StateLocal || ownTable {
		m.ignored[f] = 0
	} else if m.ignored[f] >= maxIgnored {
		r.state = StateMismatch
	}
	return m.capable(f, r)
}

// maxIgnored is the number of LLDPDUs after which a willing peer that does not show this end's
// configuration counts as one that does not take it. A peer may need seconds until it runs, and
// sends an LLDPDU in each.
const maxIgnored = 8

// ieeePFC is symmetric: one end takes the other's priorities. Those that both ends have are agreed:
// an end that takes others has yet to show them, and ends that differ for good pause only these for
// each other.
func (m *Machine) ieeePFC() result {
	own, theirs := m.cfg.PFC.Priorities, m.peer.pfc.Priorities
	willing := m.peer.features[FeaturePFC].willing
	r := result{source: Local, shown: own, values: m.own(FeaturePFC)}
	switch {
	case m.follows(FeaturePFC, willing):
		r.source, r.shown, r.state = Peer, theirs, StatePeer
	case willing && (!m.cfg.Willing[FeaturePFC] || !m.givesWay() && !m.chase.on):
		r.state = StateLocal
	default:
		r.state = StateMismatch
	}
	if own == theirs {
		r.state = StateAgreed
	}
	r.values.PFC.Priorities = r.shown & theirs
	return r
}

// follows reports whether this end takes the peer's configuration of a symmetric feature of IEEE:
// it is willing and the peer is not, or both are and this end gives way.
func (m *Machine) follows(f Feature, peerWilling bool) bool {
	return m.cfg.Willing[f] && (!peerWilling || m.givesWay() && !m.chase.on)
}

// givesWay breaks a tie. Ends with the same address both stay.
func (m *Machine) givesWay() bool {
	order := bytes.Compare(m.cfg.MAC[:], m.mac[:])
	if m.cfg.Tie == TieHigher {
		return order > 0
	}
	return order < 0
}

// ieeeETS is asymmetric: a willing end runs what the peer recommends, any other its own. So
// different tables are no mismatch, but a willing end without a recommendation is one.
func (m *Machine) ieeeETS() result {
	r := result{source: Local, state: StateLocal, shown: m.cfg.PFC.Priorities, values: m.own(FeatureETS)}
	theirs := &m.peer.ets
	switch {
	case m.cfg.Willing[FeatureETS] && m.peer.recommends:
		r.source, r.state, r.values.ETS = Peer, StatePeer, m.peer.recommend
		theirs = &m.peer.recommend
	case m.cfg.Willing[FeatureETS]:
		r.state = StateMismatch
	case !m.peer.features[FeatureETS].present:
		theirs = &m.peer.recommend
	}
	if theirs.Same(&m.cfg.ETS) {
		r.state = StateAgreed
	}
	return r
}

// ieeeApp is symmetric like PFC. As the TLV has no willing bit, the peer counts as willing if it is
// so for PFC or ETS. Lists that do not contradict each other agree.
func (m *Machine) ieeeApp() result {
	willing := m.peer.features[FeaturePFC].willing || m.peer.features[FeatureETS].willing
	r := result{source: Local, state: StateMismatch, shown: m.cfg.PFC.Priorities, values: m.own(FeatureApp)}
	same := m.compatible(FeatureApp)
	switch {
	case m.follows(FeatureApp, willing):
		r.source, r.state, r.values = Peer, StatePeer, m.theirs(FeatureApp)
		same = slices.Equal(m.listed(), m.peer.apps)
	case willing:
		r.state = StateLocal
	}
	if same {
		r.state = StateAgreed
	}
	return r
}

// contradict reports whether an application has other priorities in one list than in the other.
func contradict(a, b []App) bool {
	priorities := func(list []App, of App) (all uint8) {
		for _, a := range list {
			if a.Selector == of.Selector && a.Protocol == of.Protocol {
				all |= 1 << (a.Priority & 7)
			}
		}
		return all
	}
	return slices.ContainsFunc(a, func(app App) bool {
		theirs := priorities(b, app)
		return theirs != 0 && theirs != priorities(a, app)
	})
}

// chase finds two ends that are both willing and both give way, since they break ties in different
// ways: each runs after what the other had, and the priorities of both swap with every LLDPDU.
type chase struct {
	before uint8 // priorities of the peer before the latest
	swaps  int   // in a row
	on     bool  // this end stands still
	wrong  int   // LLDPDUs since then in a row that do not show this end's priorities
	right  int   // and that do
}

const maxSwaps = 4

// watch compares an LLDPDU of a peer with the one before it. Swaps may have another cause: the peer
// changed its configuration, or LLDPDUs were repeated out of order. A peer like that does not take
// own, the priorities of the end that stands still, so this end gives way again after patience
// LLDPDUs, or at once if the peer happened to have the same for a while. Two ends that both stand
// still must not do so at the same time: see patience.
func (c *chase) watch(before, now *message, own uint8, patience int) {
	if before == nil {
		*c = chase{before: now.pfc.Priorities}
		return
	}
	old, latest := before.pfc.Priorities, now.pfc.Priorities
	switch {
	case !now.features[FeaturePFC].willing:
		*c = chase{}
	case c.on && latest != own:
		if c.wrong++; c.wrong == patience || c.right >= maxSwaps {
			*c = chase{}
		}
		c.right = 0
	case c.on:
		c.wrong = 0
		c.right++
	case latest != old && latest == c.before:
		if c.swaps++; c.swaps == maxSwaps {
			c.on = true
		}
	default:
		c.swaps = 0
	}
	c.before = old
}

// patience is the number of LLDPDUs for which an end stands still. The end with the lower address
// has less, whichever way the ends break ties, and so takes the other's priorities while that still
// stands.
func (m *Machine) patience() int {
	if bytes.Compare(m.cfg.MAC[:], m.mac[:]) < 0 {
		return maxIgnored
	}
	return 4 * maxIgnored
}

// Same reports whether two tables treat all priorities alike: the same priorities share a class,
// with the same algorithm and bandwidth, and strict classes have the same order. The numbers of the
// classes, MaxTCs and CBS do not count.
func (e *ETS) Same(o *ETS) bool { return e.canonical() == o.canonical() }

func (e *ETS) canonical() (all [8]struct{ first, tsa, value uint8 }) {
	var used [8]bool
	for p := range e.TC {
		used[e.TC[p]&7] = true
	}
	for p := range all {
		tc := e.TC[p] & 7
		c := &all[p]
		for c.first = 0; e.TC[c.first]&7 != tc; {
			c.first++
		}
		switch c.tsa = e.TSA[tc]; c.tsa {
		case TSAETS:
			c.value = e.Bandwidth[tc]
		case TSAStrict:
			for lower := range tc {
				if used[lower] && e.TSA[lower] == TSAStrict {
					c.value++
				}
			}
		}
	}
	return all
}
