package discovery

import (
	"encoding/hex"
	"time"

	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
	"sluice/internal/state"
)

// Report fills in what is known of a port's neighbours and peer: nil where LLDP or DCBX is off.
func (s *System) Report(now int64, name string) (*state.LLDP, *state.DCBX) {
	s.lock.Lock()
	defer s.lock.Unlock()
	p := s.byName[name]
	if p == nil || p.LLDP == lldp.Off {
		return nil, nil
	}
	if p.machine == nil {
		return p.reportLLDP(now), nil
	}
	return p.reportLLDP(now), s.reportDCBX(now, p)
}

func (p *port) reportLLDP(now int64) *state.LLDP {
	n := p.agent.Stats()
	r := &state.LLDP{
		Mode: p.LLDP.String(), Sent: n.FramesOut, Received: n.FramesIn, Discarded: n.FramesDiscarded,
		Malformed: n.FramesInErrors, BadTLVs: n.TLVsDiscarded, UnknownTLVs: n.TLVsUnrecognized, AgedOut: n.Ageouts,
		NoRoom: n.Drops, LastProblem: p.problem, Neighbors: []state.Neighbor{},
	}
	if len(p.sent.data) > 0 {
		var u lldp.LLDPDU
		if u.Decode(p.sent.data, dcbx.Recognizes) == nil {
			one := unitOf(&u, now-p.sent.at)
			r.LastSent = &one
		}
	}
	for _, n := range p.agent.Neighbours() {
		r.Neighbors = append(r.Neighbors, neighbourOf(n, now))
	}
	return r
}

func neighbourOf(n *lldp.Neighbour, now int64) state.Neighbor {
	r := state.Neighbor{
		ChassisID: n.Chassis.String(), ChassisIDKind: n.Chassis.Kind(), PortID: n.Port.String(),
		PortIDKind: n.Port.Kind(), PortDescription: lldp.Printable(n.PortDescription),
		SystemName: lldp.Printable(n.SystemName), SystemDescription: lldp.Printable(n.SystemDescription),
		Capabilities: named(n.Capabilities.Supported), EnabledCapabilities: named(n.Capabilities.Enabled),
		ManagementAddresses: []string{}, PVID: n.PVID, MaxFrame: int(n.MaxFrameSize), MAC: lldp.MACText(n.MAC[:]),
		TTLNS: int64(n.TTL) * int64(time.Second), ExpiresInNS: max(0, n.Expires-now), KnownNS: now - n.Since,
		LLDPDU: unitOf(&n.LLDPDU, now-n.Received),
	}
	for _, m := range n.Management {
		r.ManagementAddresses = append(r.ManagementAddresses, m.String())
	}
	return r
}

// named lists capabilities; none is an empty list.
func named(c lldp.Capability) []string { return append([]string{}, c.Names()...) }

// maxTLVs bounds how many TLVs of an LLDPDU are reported: it may have hundreds of empty ones.
const maxTLVs = 64

// unitOf returns an LLDPDU of a given age with its TLVs described.
func unitOf(u *lldp.LLDPDU, age int64) state.LLDPDU {
	r := state.LLDPDU{AgeNS: age, TLVs: []state.TLV{}, Hex: hex.EncodeToString(u.Raw)}
	for kind, value := range u.TLVs() {
		if len(r.TLVs) == maxTLVs {
			r.TLVs[maxTLVs-1] = state.TLV{Name: "further TLVs", Text: "not listed; see the bytes"}
			break
		}
		t := state.TLV{Type: kind, Hex: hex.EncodeToString(value)}
		var err error
		if kind == lldp.Organizational && dcbx.Recognizes(value) {
			t.Name, t.Text, err = dcbx.Describe(value)
		} else {
			t.Name, t.Text, err = lldp.Describe(kind, value)
		}
		if err != nil {
			t.Wrong = err.Error()
		}
		r.TLVs = append(r.TLVs, t)
	}
	return r
}

func (s *System) reportDCBX(now int64, p *port) *state.DCBX {
	status := p.machine.Status()
	r := &state.DCBX{
		Configured: p.Local.Version.String(), Version: status.Version.String(), Why: status.Why, Role: p.Role.String(),
		Source: p == s.source.port, Changes: p.changes,
		Peer:     state.DCBXPeer{State: peerState(p.peers), Names: p.peerNames(), Control: controlOf(&status)},
		Features: []state.DCBXFeature{}, Mismatches: []state.Mismatch{},
	}
	if given := s.passedOn(p); given != nil {
		r.SourcePort = given.from
		if !given.lasts {
			r.SourceKeptNS = max(1, s.source.over(s.params.SourceHold)-now)
		}
	}
	for f := range status.Features {
		r.Features = append(r.Features, featureOf(dcbx.Feature(f), &status.Features[f]))
	}
	for k := range p.disagreements {
		d := &p.disagreements[k]
		m := state.Mismatch{Kind: kind(k).String(), Active: d.text != "", Text: d.text}
		if m.Active {
			m.SinceNS = now - d.since
		}
		r.Mismatches = append(r.Mismatches, m)
	}
	for f := range status.Features {
		one := &status.Features[f]
		settings(&r.Local, dcbx.Feature(f), &one.Local.Values, true)
		settings(&r.Remote, dcbx.Feature(f), &one.Peer.Values, one.Peer.Present)
		settings(&r.Operational, dcbx.Feature(f), &one.Operational, one.Runs)
	}
	if ets := &status.Features[dcbx.FeatureETS].Peer; ets.Recommends {
		settings(&r.Recommended, dcbx.FeatureETS, &dcbx.Values{ETS: ets.Recommend}, true)
	}
	for _, one := range []*state.DCBSettings{&r.Local, &r.Remote, &r.Recommended, &r.Operational} {
		if one.Applications == nil {
			one.Applications = []state.Application{}
		}
	}
	return r
}

// peerState names how many neighbours speak DCBX.
func peerState(peers int) string { return [...]string{"none", "one", "multiple"}[min(peers, 2)] }

func controlOf(status *dcbx.Status) *state.DCBXControl {
	c := status.Control
	if c == nil {
		return nil
	}
	return &state.DCBXControl{OperVersion: c.PeerOperVersion, MaxVersion: c.PeerMaxVersion, Seq: c.SeqNo, Ack: c.AckNo,
		PeerSeq: c.PeerSeqNo, PeerAck: c.MyAckNo}
}

func featureOf(f dcbx.Feature, of *dcbx.FeatureStatus) state.DCBXFeature {
	why := of.Why
	if of.Still != "" {
		why += "; the switch still runs " + of.Still
	}
	return state.DCBXFeature{
		Feature: f.String(), State: string(of.State), Why: why, Operational: of.Runs,
		Enabled: of.Local.Enabled, Willing: of.Local.Willing, Error: of.Local.Error,
		PeerPresent: of.Peer.Present, PeerWilling: of.Peer.Willing, PeerEnabled: of.Peer.Enabled,
		PeerError: of.Peer.Error,
	}
}

// settings adds the values of a feature to settings, if they are known.
func settings(to *state.DCBSettings, f dcbx.Feature, v *dcbx.Values, known bool) {
	if !known {
		return
	}
	switch f {
	case dcbx.FeaturePFC:
		to.PFC = &state.PFCSettings{Priorities: priorities(func(p int) bool { return v.PFC.Priorities>>p&1 == 1 }),
			Capability: int(v.PFC.Capability), MBC: v.PFC.MBC}
	case dcbx.FeatureETS:
		to.ETS = etsOf(&v.ETS)
	case dcbx.FeatureApp:
		for _, a := range v.Apps {
			to.Applications = append(to.Applications, Application(a))
		}
	}
}

// priorities lists the priorities for which is holds.
func priorities(is func(int) bool) []int {
	all := []int{}
	for p := range 8 {
		if is(p) {
			all = append(all, p)
		}
	}
	return all
}

func etsOf(e *dcbx.ETS) *state.ETSSettings {
	r := &state.ETSSettings{TrafficClasses: []state.TrafficClass{}, Capability: int(e.MaxTCs), CBS: e.CBS}
	for tc := range 8 {
		members := priorities(func(p int) bool { return int(e.TC[p]) == tc })
		if len(members) == 0 {
			continue
		}
		one := state.TrafficClass{TC: tc, Priorities: members, Algorithm: dcbx.AlgorithmName(e.TSA[tc])}
		if e.TSA[tc] == dcbx.TSAETS {
			one.Bandwidth = int(e.Bandwidth[tc])
		}
		r.TrafficClasses = append(r.TrafficClasses, one)
	}
	return r
}

var selectors = [...]string{dcbx.SelectEthertype: "ethertype", dcbx.SelectTCP: "tcp", dcbx.SelectUDP: "udp",
	dcbx.SelectPort: "port", dcbx.SelectDSCP: "dscp"}

// Application returns an application with its name and the name of its selector.
func Application(a dcbx.App) state.Application {
	r := state.Application{Name: a.Name(), Protocol: a.Protocol, Priority: int(a.Priority)}
	if int(a.Selector) < len(selectors) {
		r.Selector = selectors[a.Selector]
	}
	return r
}
