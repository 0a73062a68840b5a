package dcbx

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Status is what a Machine has come to.
type Status struct {
	Version Version   // that runs, not Auto
	Why     string    // it was chosen
	Sent    []Version // of which the peer sends TLVs

	HasPeer bool // the peer speaks Version
	PeerMAC [6]byte

	Control  *Control // CEE and CIN
	Features [Features]FeatureStatus
	Omitted  []App          // own applications that Version cannot carry
	Errors   [Errors]uint64 // TLVs with an Error since NewMachine
}

// Control is the state of the control sub-TLV.
type Control struct {
	SeqNo, AckNo     uint32 // that this end sends
	MyAckNo          uint32 // SeqNo that the peer has acknowledged
	PeerOperVersion  uint8
	PeerMaxVersion   uint8
	PeerSeqNo        uint32
	PeerHasControl   bool // the peer's fields count
	Acknowledged     bool // the peer has all that this end has to say
	UnsentConfigured bool // a change waits until the peer has acknowledged the one before
}

// FeatureStatus is the state of a feature.
type FeatureStatus struct {
	State  State
	Why    string // what each end has, in words
	Source Source // of what the ends have come to
	Synced bool   // CEE and CIN: the peer has acknowledged this end's values; IEEE: true
	Error  Error  // why the peer's values are not usable, 0 if they are or were not sent

	Local, Peer End
	Agreed      Values // what the ends have come to; of PFC: none if Source is Off
	Operational Values // what runs
	Runs        bool   // Operational runs by DCBX
	Still       string // Operational in words if that is not Agreed, otherwise ""
}

// End is what one end of the link says of a feature.
type End struct {
	Present bool // it sends the feature, and what it sends is usable
	Willing bool
	Enabled bool // IEEE: Present
	Error   bool // CEE and CIN: the Error flag
	Values

	Recommends bool // IEEE: the peer recommends a table
	Recommend  ETS
}

// Status returns the state. It shares nothing with the Machine.
func (m *Machine) Status() Status {
	s := Status{Version: m.version, Why: m.why, HasPeer: m.peer != nil, PeerMAC: m.mac, Errors: m.counts,
		Omitted: m.omitted()}
	for v, sent := range m.sent {
		if sent {
			s.Sent = append(s.Sent, Version(v))
		}
	}
	if m.version.legacy() {
		s.Control = &Control{SeqNo: m.seq, AckNo: m.ack, MyAckNo: m.myAck, Acknowledged: true}
		for f, synced := range m.synced {
			s.Control.Acknowledged = s.Control.Acknowledged && synced
			if m.started && !bytes.Equal(m.advertised[f], m.encode(Feature(f))) {
				s.Control.UnsentConfigured = true
			}
		}
		if m.peer != nil && m.peer.control != nil {
			c := m.peer.control
			s.Control.PeerHasControl = true
			s.Control.PeerOperVersion, s.Control.PeerMaxVersion, s.Control.PeerSeqNo = c.oper, c.max, c.seq
		}
	}
	for f := range s.Features {
		s.Features[f] = m.featureStatus(Feature(f))
	}
	return s
}

// omitted returns the applications that the version cannot carry.
func (m *Machine) omitted() (out []App) {
	if !m.version.legacy() {
		return append(out, m.cfg.Apps[min(len(m.cfg.Apps), MaxApps):]...)
	}
	can := legacyApps(m.version, m.cfg.Apps)
	for _, a := range m.cfg.Apps {
		if !slices.ContainsFunc(can, func(c legacyApp) bool {
			return c.Protocol == a.Protocol && a.Selector != SelectDSCP &&
				(c.Selector == SelectEthertype) == (a.Selector == SelectEthertype)
		}) {
			out = append(out, a)
		}
	}
	return out
}

// settled are the states in which the ends fit together.
var settled = []State{StateAgreed, StatePeer, StateLocal}

func (m *Machine) featureStatus(f Feature) FeatureStatus {
	r := &m.results[f]
	s := FeatureStatus{State: r.state, Source: r.source, Synced: m.synced[f] || !m.version.legacy(),
		Agreed: r.values, Runs: r.source != Off}
	s.Agreed.Apps = slices.Clone(r.values.Apps)
	if s.Operational = s.Agreed; m.lags(f) {
		s.Operational, s.Runs = m.running[f].Values, m.running[f].Agreed
		if s.Still = s.Operational.words(f); r.source != Off && slices.Contains(settled, r.state) {
			s.State = StateApplying
		}
	}
	s.Local = End{Present: m.advertises(f), Willing: m.cfg.Willing[f], Enabled: m.cfg.Enabled[f], Error: r.failed,
		Values: m.own(f)}
	s.Local.Apps = slices.Clone(s.Local.Apps)
	if p := m.peer; p != nil {
		h := &p.features[f]
		s.Error = h.err
		s.Peer = End{Present: h.present, Willing: h.willing, Enabled: h.enabled, Error: h.failed}
		if h.present {
			s.Peer.Values = m.theirs(f)
			s.Peer.Apps = slices.Clone(s.Peer.Apps)
		}
		if f == FeatureETS {
			s.Peer.Recommends, s.Peer.Recommend = p.recommends, p.recommend
			if s.Error == 0 {
				s.Error = p.recommendErr
			}
		}
	}
	s.Why = m.words(f, &s)
	return s
}

// words says what each end has and, if that does not fit, what to do.
func (m *Machine) words(f Feature, s *FeatureStatus) string {
	own, theirs := s.Local.Values.words(f), s.Peer.Values.words(f)
	if f == FeatureETS && !s.Peer.Present && s.Peer.Recommends {
		theirs = s.Peer.Recommend.words()
	}
	both := fmt.Sprintf("this port has %s, the peer %s", own, theirs)
	switch s.State {
	case StateOff:
		return m.wordsOff(f, s)
	case StateNoPeer:
		return "the link partner does not speak DCBX"
	case StateMultiple:
		return "the port has several link partners, and DCBX works with one: find the hub or bridge between them"
	case StateVersion:
		return fmt.Sprintf("this port speaks %s, the peer %s: configure the same version at both ends",
			m.version.Title(), m.peerVersions())
	case StateAbsent:
		if s.Error != 0 {
			return "what the peer sends is not usable: " + s.Error.Error()
		}
		return "the peer does not send it: enable it there"
	case StateDuplicate:
		return s.Error.Error() + ": correct the peer"
	case StateWaiting:
		return "the peer has yet to acknowledge; what ran before still runs"
	case StateApplying:
		return fmt.Sprintf("%s; the switch changes over to %s", both, s.Agreed.words(f))
	case StateAgreed:
		if f == FeatureApp {
			return m.wordsListed()
		}
		return "both ends have " + own
	case StatePeer:
		return fmt.Sprintf("the peer's %s runs instead of the port's %s", s.Agreed.words(f), own)
	case StateLocal:
		if !s.Peer.Present && !s.Peer.Recommends {
			return "the port's " + own + " runs; " + m.version.Title() + " does not carry it"
		}
		switch {
		case f == FeatureETS && m.version == IEEE && !s.Peer.Willing:
			return both + "; each end schedules what it sends"
		case m.version == IEEE:
			return both + "; the port's runs, and the peer has yet to show it"
		case s.Peer.Willing && !s.Local.Willing:
			return both + "; the port's runs, and the peer takes it"
		}
		return both + "; each end schedules what it sends"
	case StatePeerError:
		return both + "; the peer reports an error: look for the cause there"
	case StateRefused:
		return both + "; the switch cannot run what was agreed: " + m.refusals[f].why
	}
	return both + ": " + m.wordsMismatch(f, s)
}

// wordsListed says which applications both ends list, and which only one of them does.
func (m *Machine) wordsListed() string {
	own, theirs := m.listed(), m.peer.apps
	both, alone, peer := Values{}, Values{}, Values{}
	for _, a := range own {
		if slices.Contains(theirs, a) {
			both.Apps = append(both.Apps, a)
		} else {
			alone.Apps = append(alone.Apps, a)
		}
	}
	for _, a := range theirs {
		if !slices.Contains(own, a) {
			peer.Apps = append(peer.Apps, a)
		}
	}
	var all []string
	for _, of := range []struct {
		who string
		Values
	}{{"both ends have ", both}, {"only this port lists ", alone}, {"only the peer lists ", peer}} {
		if len(of.Apps) > 0 {
			all = append(all, of.who+of.words(FeatureApp))
		}
	}
	return cmp.Or(strings.Join(all, "; "), "neither end lists applications")
}

// peerVersions names the versions that the peer speaks.
func (m *Machine) peerVersions() string {
	var all []string
	for v, sent := range m.sent {
		if sent {
			all = append(all, Version(v).Title())
		}
	}
	return strings.Join(all, " and ")
}

func (m *Machine) wordsOff(f Feature, s *FeatureStatus) string {
	switch {
	case !s.Local.Enabled && s.Peer.Present && !s.Peer.Enabled:
		return "disabled at both ends"
	case !s.Local.Enabled:
		return "disabled at this port"
	case f == FeatureApp && !s.Local.Present:
		return "neither end has applications"
	}
	return "disabled at the peer"
}

// wordsMismatch says who would have to change what.
func (m *Machine) wordsMismatch(f Feature, s *FeatureStatus) string {
	if f == FeaturePFC && m.version != CIN {
		can, runs := int(s.Peer.PFC.Capability), m.results[f].shown
		if m.version == CEE {
			runs = s.Agreed.PFC.Priorities
		}
		if count(runs) > can && (can > 0 || s.Peer.PFC.Priorities == 0) {
			if can == 1 {
				return "the peer can have PFC for 1 priority only: configure fewer"
			}
			return fmt.Sprintf("the peer can have PFC for %d priorities only: configure fewer", can)
		}
	}
	switch {
	case s.Local.Willing && s.Peer.Willing && m.version == IEEE && m.chase.on:
		return "both are willing and each takes the other's: break the tie in the same way at both ends"
	case s.Local.Willing && s.Peer.Willing && m.version == IEEE && f == FeaturePFC:
		return "both are willing and neither takes the other's: break the tie in the same way at both ends"
	case s.Local.Willing && s.Peer.Willing:
		return "both are willing and neither takes the other's: make one of them unwilling"
	case s.Local.Willing:
		return "this port is willing, but the peer recommends nothing: enable recommendations there"
	case s.Peer.Willing:
		return "the peer is willing, but does not take what this port has: look for the cause there"
	}
	return "neither is willing: configure both alike, or make one willing"
}

func (v *Values) words(f Feature) string {
	switch f {
	case FeaturePFC:
		return list(v.PFC.Priorities)
	case FeatureETS:
		return v.ETS.words()
	}
	if len(v.Apps) == 0 {
		return "no applications"
	}
	var all []string
	for _, a := range v.Apps {
		all = append(all, a.String())
	}
	return strings.Join(all, ", ")
}

// words lists the classes that have priorities.
func (e *ETS) words() string {
	var all []string
	for tc := range uint8(8) {
		var priorities uint8
		for p, of := range e.TC {
			if of == tc {
				priorities |= 1 << p
			}
		}
		if priorities == 0 {
			continue
		}
		how := fmt.Sprintf("TSA %d", e.TSA[tc])
		switch e.TSA[tc] {
		case TSAStrict:
			how = "strict"
		case TSACBS:
			how = "credit-based"
		case TSAETS:
			how = fmt.Sprintf("%d %%", e.Bandwidth[tc])
		}
		all = append(all, fmt.Sprintf("TC %d (%s) %s", tc, list(priorities), how))
	}
	return strings.Join(all, ", ")
}

// String returns for example "ethertype 0x8906 with priority 3".
func (a App) String() string {
	protocol := fmt.Sprintf("selector %d protocol %d", a.Selector, a.Protocol)
	switch a.Selector {
	case SelectEthertype:
		protocol = fmt.Sprintf("ethertype %#04x", a.Protocol)
	case SelectTCP:
		protocol = fmt.Sprintf("TCP port %d", a.Protocol)
	case SelectUDP:
		protocol = fmt.Sprintf("UDP port %d", a.Protocol)
	case SelectPort:
		protocol = fmt.Sprintf("port %d", a.Protocol)
	case SelectDSCP:
		protocol = fmt.Sprintf("DSCP %d", a.Protocol)
	}
	return fmt.Sprintf("%s with priority %d", protocol, a.Priority)
}
