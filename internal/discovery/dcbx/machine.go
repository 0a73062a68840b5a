package dcbx

import (
	"bytes"
	"reflect"
	"slices"
)

// Machine is DCBX of one port. It is not safe for concurrent use.
//
// What the ends agree on and what runs are two things: the switch takes its time to change over
// (Runs). With IEEE, an end that takes the peer's settings shows them only when they run, so the
// peer does not begin before. An end that keeps its own shows them at once: of two ends that both
// waited for the other's TLV, neither would ever begin. CEE and CIN have no such means. Their TLVs
// have the configuration alone, and an acknowledgement says that a TLV was received.
type Machine struct {
	cfg      Config
	version  Version // that runs; not Auto
	why      string  // version was chosen
	settled  bool    // an older version was chosen and stays until the link goes down
	multiple bool
	counts   [Errors]uint64

	mac   [6]byte        // of the peer
	raw   [][]byte       // the peer's DCBX TLVs of all versions
	sent  [versions]bool // versions of which the peer sends TLVs
	peer  *message       // what the peer says in version; nil: nothing
	known bool           // peer has been there since the version was chosen

	seq, ack, myAck uint32 // CEE and CIN: SeqNo and AckNo of this end; AckNo of the peer

	results  [Features]result
	refusals [Features]refusal
	running  [Features]*Running
	shown    uint8 // IEEE: priorities in the PFC TLV
	chase    chase
	ignored  [Features]int // IEEE: LLDPDUs of a willing peer that do not show this end's configuration

	advertised [Features][]byte // sub-TLVs (IEEE: TLVs) of SeqNo
	started    bool             // advertised is in use
	synced     [Features]bool   // the peer has acknowledged the feature as it is now
	pending    bool
}

// result is what a feature has come to.
type result struct {
	state  State
	source Source
	failed bool   // the Error flag of this end
	shown  uint8  // IEEE: priorities that the PFC TLV shows, of a peer's configuration only once it runs
	values Values // that are to run
}

// Values are values of one feature; those of the others are zero.
type Values struct {
	PFC  PFC
	ETS  ETS
	Apps []App
}

// Running is what the switch runs of a feature.
type Running struct {
	Values
	Agreed bool // by DCBX; otherwise the port has these values without it
}

func (v *Values) same(o *Values) bool {
	return v.PFC.Priorities == o.PFC.Priorities && v.ETS.Same(&o.ETS) && slices.Equal(v.Apps, o.Apps)
}

// refusal is of values, and ends when others would run.
type refusal struct {
	why    string // "": none
	values Values
}

// NewMachine returns a Machine without a peer. It has something to send.
func NewMachine(c Config) *Machine {
	m := &Machine{}
	m.adopt(c)
	m.restart()
	return m
}

// adopt takes a configuration, without references to it.
func (m *Machine) adopt(c Config) {
	c.Apps = slices.Clone(c.Apps)
	for p := range c.ETS.TC {
		c.ETS.TC[p] &= 7
	}
	c.PFC.Capability = min(c.PFC.Capability, 15)
	for i := range c.Apps {
		c.Apps[i].Priority &= 7
	}
	m.cfg = c
}

// restart begins without a peer and, where the version is not configured, with IEEE.
func (m *Machine) restart() {
	m.settled = false
	m.forget()
	if m.cfg.Version == Auto {
		m.begin(IEEE, "auto: IEEE until the peer sends only an older version")
	} else {
		m.begin(m.cfg.Version, "configured")
	}
}

// begin begins with a version.
func (m *Machine) begin(v Version, why string) {
	m.version, m.why = v, why
	m.peer, m.known = nil, false
	m.reset()
	m.refusals = [Features]refusal{}
	m.judge()
	m.advertise()
}

// reset starts the numbers of the control sub-TLV over.
func (m *Machine) reset() {
	m.seq, m.ack, m.myAck = 0, 0, 0
	m.started, m.synced = false, [Features]bool{}
}

// forget drops what the peer has said.
func (m *Machine) forget() {
	m.peer, m.raw, m.sent, m.mac = nil, nil, [versions]bool{}, [6]byte{}
	m.chase, m.ignored = chase{}, [Features]int{}
}

// Configure replaces the configuration. A configuration that differs takes back all refusals.
func (m *Machine) Configure(c Config) {
	before := m.cfg
	if m.adopt(c); reflect.DeepEqual(before, m.cfg) {
		return
	}
	if m.cfg.Version != before.Version {
		mac, raw := m.mac, m.raw
		if m.restart(); raw != nil {
			m.Receive(mac, raw)
		}
		return
	}
	m.chase, m.ignored = chase{}, [Features]int{}
	m.refusals = [Features]refusal{}
	m.unsync()
	m.judge()
	m.advertise()
}

// LinkDown forgets the peer, the version that auto has chosen, and refusals.
func (m *Machine) LinkDown() { m.restart() }

// Expire tells that the peer's information aged out or was shut down.
func (m *Machine) Expire() {
	if m.raw == nil {
		return
	}
	was := m.peer != nil
	m.forget()
	m.lost(was)
}

// lost does what is due when a peer has stopped to speak the version; was is whether it did before.
func (m *Machine) lost(was bool) {
	if !m.version.legacy() {
		m.judge()
		m.advertise()
		return
	}
	if was {
		m.reset()
		m.pending = m.pending || m.version == CIN
	}
	m.judge()
}

// SetMultiplePeers turns DCBX off while the port has several link partners.
func (m *Machine) SetMultiplePeers(on bool) {
	if m.multiple != on {
		m.multiple = on
		m.judge()
		m.advertise()
	}
}

// Refuse tells that the switch cannot run the values of a feature: the port's own run instead, and
// the peer gets the Error flag in CEE and CIN. The refusal is of these values: it ends when others
// would run, when the configuration changes, when the link goes down, and with why "". A further
// call only replaces why. A feature that is off cannot be refused.
func (m *Machine) Refuse(f Feature, why string) {
	r := &m.refusals[f]
	if why != "" && r.why == "" {
		if m.results[f].source == Off {
			return
		}
		r.values = m.results[f].values
	}
	r.why = why
	m.judge()
	m.advertise()
}

// Runs tells what the switch runs of a feature; nil, as before the first call: whatever the ends
// have come to, from the same moment on.
func (m *Machine) Runs(f Feature, is *Running) {
	m.running[f] = is
	m.judge()
	m.advertise()
}

// lags reports whether the switch still runs something else than what the ends have come to.
func (m *Machine) lags(f Feature) bool {
	is, r := m.running[f], &m.results[f]
	switch {
	case is == nil:
		return false
	case r.source == Off:
		return is.Agreed
	}
	return !is.same(&r.values)
}

// Receive takes the values of all TLVs of type 127 (OUI, subtype, body) of the latest LLDPDU of the
// only peer, in their order, and keeps no reference to them.
func (m *Machine) Receive(peer [6]byte, tlvs [][]byte) {
	raw, sent := dcbxOf(tlvs)
	m.mac, m.raw, m.sent = peer, raw, sent
	m.choose()
	before := m.peer
	if !sent[m.version] {
		m.peer = nil
		m.lost(before != nil)
		return
	}
	m.peer, m.known = parse(m.version, raw), true
	for e, n := range m.peer.counts {
		m.counts[e] += n
	}
	if m.version.legacy() {
		m.acknowledge()
	} else {
		m.chase.watch(before, m.peer, m.cfg.PFC.Priorities, m.patience())
		for f := range m.ignored {
			m.ignored[f]++
		}
	}
	m.judge()
	m.advertise()
}

// maxRaw bounds the DCBX TLVs that are read of an LLDPDU; a correct one has at most six.
const maxRaw = 16

// dcbxOf returns copies of the TLVs that are DCBX, and the versions of which there are any.
func dcbxOf(tlvs [][]byte) (raw [][]byte, sent [versions]bool) {
	raw = make([][]byte, 0, 4)
	for _, tlv := range tlvs {
		if v, _ := identify(tlv); v != Auto && len(raw) < maxRaw {
			raw = append(raw, bytes.Clone(tlv[:min(len(tlv), maxLength+1)]))
			sent[v] = true
		}
	}
	return raw, sent
}

// choose changes to an older version if the version is auto and the peer sends nothing else.
func (m *Machine) choose() {
	if m.cfg.Version != Auto || m.settled {
		return
	}
	older := CIN
	if m.sent[CEE] {
		older = CEE
	}
	switch {
	case m.sent[IEEE] && m.sent[older]:
		m.why = "auto: the peer sends IEEE and " + older.Title() + ", and IEEE is preferred"
	case m.sent[IEEE]:
		m.why = "auto: the peer sends IEEE"
	case m.sent[older]:
		m.settled = true
		m.begin(older, "auto: the peer sent "+older.Title()+" but not IEEE; this stays until the link goes down")
	}
}

// acknowledge handles the control sub-TLV of the peer. A peer whose operating version is not the
// lower of both ends' highest has yet to receive ours.
func (m *Machine) acknowledge() {
	c := m.peer.control
	if c == nil || c.oper != operVersion {
		return
	}
	m.myAck = c.ack
	if m.ack != c.seq || m.myAck == 0 { // AckNo 0: the peer has started over
		m.ack, m.pending = c.seq, true
	}
	if m.started && m.myAck == m.seq {
		for f := range m.synced {
			m.synced[f] = bytes.Equal(m.advertised[f], m.encode(Feature(f)))
		}
	}
}

// unsync notes which features differ from what was advertised, and reports whether any does.
func (m *Machine) unsync() (changed bool) {
	for f := range m.synced {
		if !bytes.Equal(m.advertised[f], m.encode(Feature(f))) {
			m.synced[f], changed = false, true
		}
	}
	return changed
}

// advertise makes what this end has to say what it says: with IEEE at once, otherwise under the
// next SeqNo when the peer has acknowledged the one before.
func (m *Machine) advertise() {
	if changed := m.unsync(); m.started && !changed {
		return
	}
	if m.version.legacy() {
		if m.seq != m.myAck {
			return
		}
		m.seq++
	}
	for f := range m.advertised {
		m.advertised[f] = m.encode(Feature(f))
	}
	m.started, m.pending = true, true
}

// Pending reports that something changed since TLVs was called, so that an LLDPDU must be sent at
// once.
func (m *Machine) Pending() bool { return m.pending }

// TLVs appends the values of the TLVs of type 127 to send now.
func (m *Machine) TLVs(dst [][]byte) [][]byte {
	m.pending = false
	all := m.advertised
	if !m.started {
		for f := range all {
			all[f] = m.encode(Feature(f))
		}
	}
	order := [...]Feature{FeatureETS, FeaturePFC, FeatureApp}
	if m.version.legacy() {
		subtype := uint8(2)
		if m.version == CIN {
			subtype = 1
		}
		tlv := append(append([]byte(nil), ouiLegacy[:]...), subtype)
		tlv = control{oper: operVersion, max: operVersion, seq: m.seq, ack: m.ack}.append(tlv)
		for _, f := range order {
			tlv = append(tlv, all[f]...)
		}
		return append(dst, tlv)
	}
	for _, f := range order {
		for b := all[f]; len(b) > 0; {
			var value []byte
			_, value, b, _ = cutTLV(b)
			dst = append(dst, bytes.Clone(value))
		}
	}
	return dst
}

// encode returns what this end has to say of a feature, as TLVs or sub-TLVs.
func (m *Machine) encode(f Feature) []byte {
	switch {
	case !m.advertises(f):
		return nil
	case m.version.legacy():
		return m.encodeLegacy(f)
	}
	willing := m.cfg.Willing[f]
	switch f {
	case FeaturePFC:
		p := m.cfg.PFC
		p.Priorities = m.shown
		return appendTLV(nil, typeOrg, appendPFC(nil, willing, p))
	case FeatureETS:
		first := bitIf(willing, 0x80) | bitIf(m.cfg.ETS.CBS, 0x40) | m.cfg.ETS.MaxTCs&7
		runs := &m.results[f].values.ETS
		if m.lags(f) {
			runs = &m.running[f].ETS
		}
		b := appendTLV(nil, typeOrg, appendETS(nil, subtypeETS, first, runs))
		return appendTLV(b, typeOrg, appendETS(nil, subtypeRecommend, 0, &m.cfg.ETS))
	}
	return appendTLV(nil, typeOrg, appendApps(nil, m.cfg.Apps[:min(len(m.cfg.Apps), MaxApps)]))
}

func (m *Machine) encodeLegacy(f Feature) []byte {
	h := header{enabled: m.cfg.Enabled[f], willing: m.cfg.Willing[f], failed: m.results[f].failed}
	switch f {
	case FeaturePFC:
		return appendPFCLegacy(nil, m.version, h, m.cfg.PFC)
	case FeatureETS:
		if m.version == CEE {
			g, _ := m.cfg.ETS.cee()
			return g.append(nil, h)
		}
		g, _ := m.cfg.ETS.cin()
		return g.append(nil, h)
	}
	return appendAppsLegacy(nil, m.version, h, m.cfg.Apps)
}

// advertises reports whether this end sends a feature. With IEEE that is whether it is enabled, as
// there is no flag for it. An ETS table that CEE or CIN cannot express is not sent, nor is a table
// without applications, unless the port is willing to take some.
func (m *Machine) advertises(f Feature) bool {
	if !m.version.legacy() && !m.cfg.Enabled[f] {
		return false
	}
	ok := true
	switch {
	case f == FeatureApp && m.version == IEEE:
		ok = len(m.cfg.Apps) > 0
	case f == FeatureApp:
		ok = m.cfg.Willing[f] || len(legacyApps(m.version, m.cfg.Apps)) > 0
	case f == FeatureETS && m.version == CEE:
		_, ok = m.cfg.ETS.cee()
	case f == FeatureETS && m.version == CIN:
		_, ok = m.cfg.ETS.cin()
	}
	return ok
}
