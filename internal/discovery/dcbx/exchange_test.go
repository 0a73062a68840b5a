package dcbx_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"sluice/bench/testkit/dcbxtest"
	"sluice/internal/discovery/dcbx"
)

var exchanges = flag.Uint64("exchanges", 10_000, "number of random exchanges of each kind")

// end is a Machine as an end of a link.
type end struct {
	*dcbx.Machine
	config dcbx.Config
	other  [6]byte  // MAC address of the other end
	got    [][]byte // LLDPDU received last
}

func (e *end) TLVs() [][]byte { return e.Machine.TLVs(nil) }

func (e *end) Receive(tlvs [][]byte) {
	e.got = tlvs
	e.Machine.Receive(e.other, tlvs)
}

func (e *end) restart(c dcbx.Config) {
	e.config = c
	e.Machine = dcbx.NewMachine(c)
}

// wire is the version in terms of dcbxtest.
var wire = map[dcbx.Version]dcbxtest.Version{dcbx.CEE: dcbxtest.CEE, dcbx.CIN: dcbxtest.CIN}

// feature is a feature in terms of dcbxtest.
var feature = [dcbx.Features]dcbxtest.Feature{dcbxtest.PFC, dcbxtest.PG, dcbxtest.App}

var macs = [2][6]byte{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}

// random runs a number of random exchanges, and shows the failures of the first one that fails.
func random(t *testing.T, exchanges uint64, exchange func(*rand.Rand) (failures, log []string)) {
	t.Helper()
	seed := flag.Lookup("seed").Value.(flag.Getter).Get().(uint64)
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	if testing.Short() {
		exchanges /= 10
	}
	for n := range exchanges {
		failures, log := exchange(rand.New(rand.NewPCG(seed, n)))
		if len(failures) == 0 {
			continue
		}
		for _, line := range log {
			t.Log(line)
		}
		for _, f := range failures {
			t.Error(f)
		}
		t.Fatalf("exchange %d, -seed %d", n, seed)
	}
}

// maxMessages is more than the LLDPDUs of both ends until they agree.
const maxMessages = 20

// TestModel exchanges random LLDPDUs between a Machine and a model of a peer with CEE and CIN.
func TestModel(t *testing.T) {
	for _, v := range []dcbx.Version{dcbx.CEE, dcbx.CIN} {
		t.Run(v.String(), func(t *testing.T) {
			most, states := 0, map[dcbx.State]int{}
			random(t, *exchanges, func(r *rand.Rand) ([]string, []string) {
				return withModel(r, v, v, &most, states)
			})
			t.Logf("at most %d LLDPDUs to settle; %v", most, states)
			for _, s := range []dcbx.State{dcbx.StateAgreed, dcbx.StateLocal, dcbx.StatePeer, dcbx.StateMismatch,
				dcbx.StateOff, dcbx.StateAbsent, dcbx.StateDuplicate, dcbx.StatePeerError, dcbx.StateRefused} {
				if states[s] == 0 && *exchanges >= 10_000 && !testing.Short() {
					t.Errorf("state %s never occurred", s)
				}
			}
		})
	}
}

// withModel is an exchange between a Machine with version own and a model with version v.
func withModel(r *rand.Rand, own, v dcbx.Version, most *int, states map[dcbx.State]int) (failures, log []string) {
	l := dcbxtest.NewLink(r)
	m := &end{other: macs[1]}
	m.restart(randomConfig(r, own))
	p := dcbxtest.NewPeer(dcbxtest.Random(r, wire[v]))
	l.Attach(0, m, wire[own], 0)
	l.Attach(1, p, wire[v], p.MaxVersion())
	upset := func() {
		if r.IntN(2) == 0 {
			upsetMachine(r, l, 0, m, func() dcbx.Config { return randomConfig(r, own) })
		} else {
			upsetPeer(r, l, 1, p, like(r, wire[v], m))
		}
	}
	if own == v {
		failures = m.alone(v, nil)
	}
	for range r.IntN(10) {
		l.Disturb(r.IntN(20))
		upset()
	}
	m.SetMultiplePeers(false)
	l.Changed(0)
	*most = max(*most, l.Settle(maxMessages))
	check := func() bool {
		failures = append(append(failures, l.Failures()...), p.Violations()...)
		failures = append(failures, m.settled(v, modelOf(p))...)
		for _, f := range m.Status().Features {
			states[f.State]++
		}
		return len(failures) == 0
	}
	for range 2 {
		if l.Quiet(); !check() {
			return failures, l.Log()
		}
		if r.IntN(2) == 0 {
			m.configure(l, 0, randomConfig(r, own))
		} else {
			p.Configure(like(r, wire[v], m))
			l.Changed(1)
		}
		*most = max(*most, l.Follow(maxMessages))
	}
	if check() {
		m.Expire()
		failures = m.alone(v, p.TLVs())
	}
	return failures, l.Log()
}

// TestModelOfUnknownVersion is TestModel with a Machine that has to find the version.
func TestModelOfUnknownVersion(t *testing.T) {
	for _, v := range []dcbx.Version{dcbx.CEE, dcbx.CIN} {
		t.Run(v.String(), func(t *testing.T) {
			most, states := 0, map[dcbx.State]int{}
			random(t, *exchanges/4, func(r *rand.Rand) ([]string, []string) {
				return withModel(r, dcbx.Auto, v, &most, states)
			})
			t.Logf("at most %d LLDPDUs to settle; %v", most, states)
		})
	}
}

// like returns a random configuration, often with the priority groups of a Machine.
func like(r *rand.Rand, v dcbxtest.Version, m *end) dcbxtest.Config {
	c := dcbxtest.Random(r, v)
	if s, _, ok := dcbxtest.Read(v, dcbx.NewMachine(m.config).TLVs(nil)); ok && r.IntN(2) == 0 {
		c.Groups = s.Groups
	}
	return c
}

// upsetMachine changes something at a Machine.
func upsetMachine(r *rand.Rand, l *dcbxtest.Link, i int, m *end, config func() dcbx.Config) {
	v := m.config.Version
	switch r.IntN(7) {
	case 0:
		m.restart(config())
		l.Attach(i, m, wire[v], 0)
	case 1:
		m.LinkDown()
		l.Attach(i, m, wire[v], 0)
	case 2:
		l.Expire(i)
	case 3:
		m.SetMultiplePeers(r.IntN(2) == 0)
		l.Changed(i)
	case 4:
		m.Refuse(dcbx.Feature(r.IntN(dcbx.Features)), []string{"", "no memory", "no memory"}[r.IntN(3)])
		l.Changed(i)
	default:
		m.configure(l, i, config())
	}
}

func (e *end) configure(l *dcbxtest.Link, i int, c dcbx.Config) {
	e.config = c
	e.Machine.Configure(c)
	l.Changed(i)
}

// upsetPeer changes something at a model.
func upsetPeer(r *rand.Rand, l *dcbxtest.Link, i int, p *dcbxtest.Peer, c dcbxtest.Config) {
	switch r.IntN(4) {
	case 0:
		p.Restart(c)
		l.Attach(i, p, c.Version, c.MaxVersion)
	case 1:
		l.Expire(i)
	default:
		p.Configure(c)
		l.Changed(i)
	}
}

// randomConfig returns a random configuration of a Machine, with values that a random model may
// have, too.
func randomConfig(r *rand.Rand, v dcbx.Version) dcbx.Config {
	c := dcbx.Config{
		Version: v, MAC: macs[0], Tie: dcbx.Tie(r.IntN(2)),
		PFC: dcbx.PFC{Priorities: []uint8{0, 0x08, 0x08, 0x18, 0xff}[r.IntN(5)], Capability: 8, MBC: r.IntN(2) == 0},
		ETS: dcbx.ETS{TC: [8]uint8{3: 1}, Bandwidth: [8]uint8{50, 50}, TSA: [8]uint8{2, 2},
			MaxTCs: uint8(1 + r.IntN(8)), CBS: r.IntN(2) == 0},
	}
	if r.IntN(2) == 0 {
		c.ETS.TC[4], c.ETS.Bandwidth, c.ETS.TSA[2] = 2, [8]uint8{40, 30, 30}, dcbx.TSAETS
	}
	if r.IntN(2) == 0 {
		c.ETS.TC[7] = 3
	}
	for f := range dcbx.Features {
		c.Enabled[f] = r.IntN(10) != 0
		c.Willing[f] = r.IntN(2) == 0
	}
	for _, a := range []dcbx.App{{Selector: dcbx.SelectEthertype, Protocol: 0x8906},
		{Selector: dcbx.SelectTCP, Protocol: 3260}, {Selector: dcbx.SelectEthertype, Protocol: 0x8914},
		{Selector: dcbx.SelectUDP, Protocol: 4791}, {Selector: dcbx.SelectDSCP, Protocol: 46}} {
		often := 2
		if a.Protocol == 4791 || a.Protocol == 46 {
			often = 6
		}
		if a.Priority = uint8(3 + r.IntN(2)); r.IntN(often) == 0 {
			if c.Apps = append(c.Apps, a); r.IntN(8) == 0 {
				a.Priority ^= 7 // 3 or 4, too
				c.Apps = append(c.Apps, a)
			}
		}
	}
	r.Shuffle(len(c.Apps), func(i, j int) { c.Apps[i], c.Apps[j] = c.Apps[j], c.Apps[i] })
	return c
}

// opposite is the state of a Machine's peer.
type opposite struct {
	seq, ack, myAck uint32
	tlvs            [][]byte
	received        dcbxtest.Said // by the peer, from the Machine
}

func modelOf(p *dcbxtest.Peer) (o opposite) {
	o.seq, o.ack, o.myAck = p.Numbers()
	o.tlvs = p.TLVs()
	o.received, _ = p.Said()
	return o
}

// settled checks a Machine against the other end it has settled with.
func (e *end) settled(v dcbx.Version, o opposite) (failures []string) {
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	s := e.Status()
	tlvs := e.TLVs()
	said, wrong, ok := dcbxtest.Read(wire[v], tlvs)
	if !ok || len(wrong) > 0 || s.Version != v {
		fail("version %v, sends % x: %v", s.Version, tlvs, wrong)
		return failures
	}
	if !reflect.DeepEqual(said, o.received) {
		fail("says %+v, but the peer received %+v", said, o.received)
	}
	c := s.Control
	if c.SeqNo == 0 || c.SeqNo != c.MyAckNo || c.SeqNo != o.ack || !c.Acknowledged || c.UnsentConfigured {
		fail("numbers %+v, acknowledged %d", *c, o.ack)
	}
	if o.seq == 0 || o.seq != o.myAck || o.seq != c.AckNo {
		fail("numbers %d, %d, %d of the peer, acknowledged %d", o.seq, o.ack, o.myAck, c.AckNo)
	}
	e.saysConfig(v, &said, fail)
	twin := dcbxtest.NewPeer(said.Config)
	twin.Receive(o.tlvs)
	for f := range dcbx.Feature(dcbx.Features) {
		e.runs(f, &s.Features[f], twin.Running(feature[f]), said.Error[feature[f]], fail)
	}
	return failures
}

// alone checks a Machine without a peer: there has been none yet, or what it sent has expired.
func (e *end) alone(v dcbx.Version, expired [][]byte) (failures []string) {
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	s := e.Status()
	said, _, ok := dcbxtest.Read(wire[v], e.TLVs())
	if c := s.Control; !ok || c.AckNo != 0 || c.MyAckNo != 0 || expired != nil && c.SeqNo != 0 {
		fail("alone: %+v", s.Control)
	}
	twin := dcbxtest.NewPeer(said.Config)
	if expired != nil {
		twin.Receive(expired)
		twin.Expire()
	}
	for f := range dcbx.Feature(dcbx.Features) {
		want := twin.Running(feature[f])
		if s.Features[f].State == dcbx.StateRefused {
			continue // features that are not sent run without a peer, and can be refused
		}
		if on := s.Features[f].Source != dcbx.Off; on != want.On || said.Error[feature[f]] != want.Error {
			fail("alone: %v runs: %v, error %v; %+v", f, on, said.Error[feature[f]], want)
		}
	}
	return failures
}

// runs checks that a feature runs as in a model in place of the Machine.
func (e *end) runs(f dcbx.Feature, s *dcbx.FeatureStatus, want dcbxtest.Running, said bool,
	fail func(string, ...any)) {
	if s.State == dcbx.StateRefused {
		if said != s.Local.Present || s.Source != dcbx.Off {
			fail("%v is refused, but runs as %v; error sent: %v", f, s.Source, said)
		}
		return
	}
	source := dcbx.Off
	if want.On && want.FromPeer {
		source = dcbx.Peer
	} else if want.On {
		source = dcbx.Local
	}
	if s.Source != source || said != want.Error || s.Local.Error != want.Error {
		fail("%v: source %v, error sent %v and shown %v; %+v", f, s.Source, said, s.Local.Error, want)
		return
	}
	if s.Local.Present && !s.Synced {
		fail("%v: not synchronized", f)
	}
	o := &s.Operational
	switch {
	case source == dcbx.Off && (o.PFC.Priorities != 0 || len(o.Apps) != 0):
		fail("%v is off, but runs %+v", f, o)
	case f == dcbx.FeaturePFC && source != dcbx.Off && o.PFC.Priorities != want.PFC:
		fail("PFC: runs %#x, not %#x", o.PFC.Priorities, want.PFC)
	case f == dcbx.FeatureETS && source != dcbx.Peer && o.ETS != e.config.ETS:
		fail("ETS: runs %+v, not its own %+v", o.ETS, e.config.ETS)
	case f == dcbx.FeatureETS && source == dcbx.Peer:
		sameGroups(&o.ETS, &want.Groups, fail)
	case f == dcbx.FeatureApp && source == dcbx.Local && !slices.Equal(o.Apps, e.config.Apps):
		fail("applications: runs %+v, not its own %+v", o.Apps, e.config.Apps)
	case f == dcbx.FeatureApp && source == dcbx.Peer:
		if v := e.Status().Version; !maps.Equal(applications(v, o.Apps), received(v, want.Apps)) {
			fail("applications: runs %+v, not %+v", o.Apps, want.Apps)
		}
	}
}

// saysConfig checks that a Machine advertises its configuration.
func (e *end) saysConfig(v dcbx.Version, said *dcbxtest.Said, fail func(string, ...any)) {
	c := &e.config
	for f := range dcbx.Feature(dcbx.Features) {
		w := feature[f]
		own := f != dcbx.FeatureApp || c.Willing[f] || len(applications(v, c.Apps)) > 0
		if said.Advertise[w] != own || said.Twice[w] {
			fail("%v is advertised: %v", f, said.Advertise[w])
		} else if own && (said.Enable[w] != c.Enabled[f] || said.Willing[w] != c.Willing[f]) {
			fail("%v: says enabled %v, willing %v", f, said.Enable[w], said.Willing[w])
		}
	}
	if said.PFC != c.PFC.Priorities || v == dcbx.CEE && said.PFCTCs != c.PFC.Capability {
		fail("says PFC %#x, %d classes", said.PFC, said.PFCTCs)
	}
	if got := received(v, said.Apps); !maps.Equal(got, applications(v, c.Apps)) {
		fail("says applications %+v", said.Apps)
	}
	g := &said.Groups
	if v == dcbx.CEE && g.TCs != c.ETS.MaxTCs {
		fail("says %d traffic classes", g.TCs)
	}
	var shares, members [8]int
	for p, tc := range c.ETS.TC {
		group, strict := tc, uint8(0)
		if c.ETS.TSA[tc] == dcbx.TSAStrict {
			if strict = 2; v == dcbx.CEE {
				group, strict = 15, 0
			}
		} else {
			shares[tc], members[tc] = shares[tc]+int(g.Share[p]), members[tc]+1
		}
		if g.Group[p] != group || g.Strict[p] != strict {
			fail("priority %d in group %d, strict %d", p, g.Group[p], g.Strict[p])
		}
	}
	for tc := range 8 {
		if c.ETS.TSA[tc] == dcbx.TSAETS && g.Percent[tc] != c.ETS.Bandwidth[tc] ||
			v == dcbx.CIN && members[tc] > 0 && shares[tc] != 100 {
			fail("group %d: %d %%, shares %d %%", tc, g.Percent[tc], shares[tc])
		}
	}
}

// sameGroups checks that a table is what the peer's priority groups are in terms of IEEE: strict
// priorities in strict classes, others in the class of their group with its bandwidth.
func sameGroups(e *dcbx.ETS, g *dcbxtest.Groups, fail func(string, ...any)) {
	for p, tc := range e.TC {
		if strict := g.Group[p] == 15 || g.Strict[p] == 2; strict != (e.TSA[tc] == dcbx.TSAStrict) {
			fail("ETS: priority %d in class %d with TSA %d", p, tc, e.TSA[tc])
		} else if !strict && (tc != g.Group[p] || e.Bandwidth[tc] != g.Percent[tc] || e.TSA[tc] != dcbx.TSAETS) {
			fail("ETS: priority %d in class %d with TSA %d, %d %%", p, tc, e.TSA[tc], e.Bandwidth[tc])
		}
	}
}

// application is a protocol that CEE can name.
type application struct {
	socket   bool
	protocol uint16
}

// cin are the applications of CIN, by subtype.
var cin = []application{{false, 0x8906}, {true, 3260}, {false, 0x8914}}

// applications returns the priorities of those applications that a version can carry.
func applications(v dcbx.Version, apps []dcbx.App) map[application]uint8 {
	all := map[application]uint8{}
	for _, a := range apps {
		key := application{a.Selector != dcbx.SelectEthertype, a.Protocol}
		if a.Selector != dcbx.SelectDSCP && (v == dcbx.CEE || slices.Contains(cin, key)) {
			all[key] |= 1 << a.Priority
		}
	}
	return all
}

// received returns the priorities of applications on the wire.
func received(v dcbx.Version, apps []dcbxtest.Application) map[application]uint8 {
	all := map[application]uint8{}
	for _, a := range apps {
		key := application{a.Selector == 1, a.Protocol}
		if v == dcbx.CIN {
			key = cin[a.Protocol]
		}
		if a.Priorities != 0 {
			all[key] |= a.Priorities
		}
	}
	return all
}

// TestTwoMachines exchanges random LLDPDUs between two Machines in CEE and CIN.
func TestTwoMachines(t *testing.T) {
	for _, v := range []dcbx.Version{dcbx.CEE, dcbx.CIN} {
		t.Run(v.String(), func(t *testing.T) {
			most := 0
			random(t, *exchanges/4, func(r *rand.Rand) ([]string, []string) { return twoMachines(r, v, &most) })
			t.Logf("at most %d LLDPDUs to settle", most)
		})
	}
}

func twoMachines(r *rand.Rand, v dcbx.Version, most *int) (failures, log []string) {
	l := dcbxtest.NewLink(r)
	var ends [2]*end
	for i := range ends {
		ends[i] = &end{other: macs[1-i]}
		ends[i].restart(randomConfig(r, v))
		l.Attach(i, ends[i], wire[v], 0)
	}
	for range r.IntN(10) {
		l.Disturb(r.IntN(20))
		i := r.IntN(2)
		upsetMachine(r, l, i, ends[i], func() dcbx.Config { return randomConfig(r, v) })
	}
	for i, e := range ends {
		e.SetMultiplePeers(false)
		l.Changed(i)
	}
	*most = max(*most, l.Settle(maxMessages))
	check := func() bool {
		failures = l.Failures()
		for i, e := range ends {
			for _, f := range e.settledWith(v, ends[1-i]) {
				failures = append(failures, fmt.Sprintf("end %d: %s", i, f))
			}
		}
		return len(failures) == 0
	}
	for range 2 {
		if l.Quiet(); !check() {
			break
		}
		i := r.IntN(2)
		ends[i].configure(l, i, randomConfig(r, v))
		*most = max(*most, l.Follow(maxMessages))
	}
	check()
	return failures, l.Log()
}

// settledWith checks a Machine against another that it has settled with.
func (e *end) settledWith(v dcbx.Version, other *end) []string {
	c := other.Status().Control
	o := opposite{seq: c.SeqNo, ack: c.AckNo, myAck: c.MyAckNo, tlvs: other.TLVs()}
	o.received, _, _ = dcbxtest.Read(wire[v], other.got)
	return e.settled(v, o)
}

// TestBothRefuse: two switches that cannot run what they agree on refuse it once. If an end took
// its refusal back because the other reports an error, both would agree, refuse and send forever.
func TestBothRefuse(t *testing.T) {
	for _, v := range []dcbx.Version{dcbx.IEEE, dcbx.CEE, dcbx.CIN} {
		l := dcbxtest.NewLink(nil)
		var ends [2]*end
		for i := range ends {
			c := dcbx.Config{Version: v, MAC: macs[i], PFC: dcbx.PFC{Priorities: 0x08, Capability: 8},
				ETS:     dcbx.ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{dcbx.TSAETS}},
				Enabled: [dcbx.Features]bool{true, true, true}}
			ends[i] = &end{other: macs[1-i]}
			ends[i].restart(c)
			l.Attach(i, ends[i], wire[v], 0)
		}
		l.Settle(maxMessages)
		refused := 0
		for range 10 {
			for i, e := range ends {
				if e.Status().Features[dcbx.FeaturePFC].Operational.PFC.Priorities != 0 {
					e.Refuse(dcbx.FeaturePFC, "no memory")
					refused++
					l.Changed(i)
				}
			}
			l.Follow(maxMessages)
		}
		for _, f := range l.Failures() {
			t.Errorf("%v: %s", v, f)
		}
		for i, e := range ends {
			s := e.Status().Features[dcbx.FeaturePFC]
			if refused > 2 || s.State != dcbx.StateRefused {
				t.Errorf("%v: end %d: %v %v after %d refusals", v, i, s.State, s.Source, refused)
			}
		}
	}
}
