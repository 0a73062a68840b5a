package discovery

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
	"sluice/internal/state"
)

// net is switches on wires, in virtual time.
type net struct {
	t     *testing.T
	now   int64
	all   map[string]*System
	wires map[string]string // from "switch port" to the other end
	lost  func(from string) bool
	queue []transit
	sent  int
	delay map[string]int64       // ns that a switch takes to run what it agrees on
	runs  map[string]*changeover // by "switch port"
}

// changeover is what a port runs, and since when something else is agreed.
type changeover struct {
	is    Agreement
	since int64
	lags  bool

	changes int // of is
}

// transit is a frame on a wire.
type transit struct {
	to    string
	frame []byte
}

func newNet(t *testing.T) *net {
	return &net{t: t, all: make(map[string]*System), wires: make(map[string]string), delay: make(map[string]int64),
		runs: make(map[string]*changeover)}
}

// add adds a switch with the ports.
func (n *net) add(name string, ports ...PortParams) *System {
	n.t.Helper()
	s := New(slog.New(slog.DiscardHandler), func(port string, frame []byte) {
		n.sent++
		from := name + " " + port
		if to, is := n.wires[from]; is && (n.lost == nil || !n.lost(from)) {
			n.queue = append(n.queue, transit{to, slices.Clone(frame)})
		}
	})
	n.all[name] = s
	n.configure(name, ports...)
	for i := range ports {
		s.SetLink(n.now, ports[i].Name, true, n.mac(name, ports[i].Name), 0)
	}
	return s
}

// configure configures a switch anew.
func (n *net) configure(name string, ports ...PortParams) {
	n.t.Helper()
	p := Params{Interval: 30e9, Hold: 4, Name: name, Description: "test", Chassis: n.mac(name, ""), Bridge: true,
		SourceHold: 120e9, Ports: ports}
	if err := n.all[name].Configure(n.now, p); err != nil {
		n.t.Fatal(err)
	}
}

// mac returns an address that is the same for a switch and port in each run.
func (n *net) mac(name, port string) (mac [6]byte) {
	copy(mac[:], "\x02"+name+port)
	return mac
}

// wire joins two ports.
func (n *net) wire(a, b string) { n.wires[a], n.wires[b] = b, a }

// run lets time pass.
func (n *net) run(d time.Duration) {
	for end := n.now + d.Nanoseconds(); ; {
		for len(n.queue) > 0 {
			one := n.queue[0]
			n.queue = n.queue[1:]
			name, port, _ := strings.Cut(one.to, " ")
			if s := n.all[name]; s != nil {
				s.Receive(n.now, port, one.frame)
			}
		}
		next := end
		for name, s := range n.all {
			next = min(next, s.Advance(n.now), n.apply(name))
		}
		if len(n.queue) > 0 {
			continue
		}
		if n.now == end {
			return
		}
		if next <= n.now {
			next = n.now + 1
		}
		n.now = next
	}
}

// apply has a switch run what it has agreed on, with its delay, and returns when that is next due.
func (n *net) apply(name string) (next int64) {
	next = never
	for port, agreed := range n.all[name].Agreements() {
		c := n.runs[name+" "+port]
		if c == nil {
			c = &changeover{}
			n.runs[name+" "+port] = c
		}
		if !agreed.Equal(c.is) && !c.lags {
			c.since, c.lags = n.now, true
		}
		switch due := c.since + n.delay[name]; {
		case !c.lags:
		case n.now < due:
			next = min(next, due)
		default:
			c.is, c.lags = agreed, false
			c.changes++
			n.all[name].Runs(n.now, port, agreed)
			next = n.now
		}
	}
	return next
}

// dcbx returns the report of a port.
func (n *net) dcbx(name, port string) *state.DCBX {
	n.t.Helper()
	_, d := n.all[name].Report(n.now, port)
	if d == nil {
		n.t.Fatalf("%s %s: no DCBX", name, port)
	}
	return d
}

// wantPFC fails the test unless these priorities have been agreed on.
func (n *net) wantPFC(name, port string, want uint8) {
	n.t.Helper()
	if got := n.all[name].Agreements()[port].PFC; got != want {
		n.t.Errorf("%s %s: PFC for %08b, want %08b", name, port, got, want)
	}
}

// wantMismatches fails the test unless exactly these kinds are active.
func (n *net) wantMismatches(name, port string, want ...string) {
	n.t.Helper()
	var got []string
	for _, m := range n.dcbx(name, port).Mismatches {
		if m.Active {
			got = append(got, m.Kind)
			if m.Text == "" {
				n.t.Errorf("%s: no text", m.Kind)
			}
		}
	}
	if !slices.Equal(got, want) {
		n.t.Errorf("%s %s: mismatches %v, want %v", name, port, got, want)
	}
}

// table is ETS with the priority 3 in a class of its own that has a share.
func table(share uint8) dcbx.ETS {
	return dcbx.ETS{TC: [8]uint8{3: 1}, Bandwidth: [8]uint8{100 - share, share}, TSA: [8]uint8{2, 2},
		MaxTCs: 8}
}

// at returns a port with PFC by DCBX.
func at(name string, role Role, pfc uint8) PortParams {
	p := PortParams{Name: name, LLDP: lldp.RXTX, DCBX: true, Role: role, Auto: true}
	all := [dcbx.Features]bool{true, true, true}
	p.Local = dcbx.Config{Enabled: all, PFC: dcbx.PFC{Priorities: pfc, Capability: 8}, ETS: table(50)}
	if role == Upstream {
		p.Local.Willing = all
	}
	return p
}

// TestAgreement: two switches agree on what one of them has, in each version.
func TestAgreement(t *testing.T) {
	for _, v := range []dcbx.Version{dcbx.Auto, dcbx.IEEE, dcbx.CEE, dcbx.CIN} {
		t.Run(v.String(), func(t *testing.T) {
			n := newNet(t)
			core, edge := at("1", Manual, 8), at("1", Upstream, 0)
			core.Local.Version, core.Local.ETS, edge.Local.Version = v, table(30), v
			core.Local.Apps = []dcbx.App{{Selector: dcbx.SelectEthertype, Protocol: dcbx.EthertypeFCoE, Priority: 3}}
			n.wire("core 1", "edge 1")
			n.add("core", core)
			n.add("edge", edge)
			n.wantPFC("core", "1", 0)
			n.run(5 * time.Second)
			n.wantPFC("core", "1", 8)
			n.wantPFC("edge", "1", 8)
			n.wantMismatches("core", "1")
			n.wantMismatches("edge", "1")
			if ets := n.all["edge"].Agreements()["1"].ETS; ets == nil || ets.Bandwidth[1] != 30 {
				t.Errorf("edge: ETS %+v", ets)
			}
			if ets := n.all["core"].Agreements()["1"].ETS; ets != nil {
				t.Errorf("core: ETS %+v instead of its own", ets)
			}
			apps := n.dcbx("edge", "1").Operational.Applications
			if len(apps) != 1 || apps[0].Name != "fcoe" || apps[0].Priority != 3 {
				t.Errorf("edge: applications %+v", apps)
			}
			sent := n.sent
			n.run(600 * time.Second)
			if more := n.sent - sent; more > 45 {
				t.Errorf("%d LLDPDUs in 600 s after both ends have agreed", more)
			}
		})
	}
}

// TestWilling: all combinations of willing at the two ends of a link.
func TestWilling(t *testing.T) {
	for _, test := range []struct {
		a, b       Role
		pfc        uint8
		mismatches []string
	}{
		{Manual, Upstream, 8, nil},
		{Upstream, Manual, 16, nil},
		{Upstream, Upstream, 16, nil}, // a has the lower address, so it takes what b has
		{Manual, Manual, 0, []string{"pfc"}},
	} {
		n := newNet(t)
		n.wire("a 1", "b 1")
		n.add("a", at("1", test.a, 8))
		n.add("b", at("1", test.b, 16))
		n.run(5 * time.Second)
		for _, name := range []string{"a", "b"} {
			n.wantPFC(name, "1", test.pfc)
			n.wantMismatches(name, "1", test.mismatches...)
		}
	}
}

// TestChange: a change at one end arrives at the other at once, not at the next interval.
func TestChange(t *testing.T) {
	n := newNet(t)
	n.wire("a 1", "b 1")
	n.add("a", at("1", Manual, 8))
	n.add("b", at("1", Upstream, 0))
	n.run(20 * time.Second)
	n.configure("a", at("1", Manual, 0x18))
	n.run(10 * time.Millisecond)
	n.wantPFC("a", "1", 0x18)
	n.wantPFC("b", "1", 0x18)
}

// TestPeerGone: a peer that says nothing any more is forgotten when its TTL ends; one that stops is
// forgotten at once. Neither changes other ports.
func TestPeerGone(t *testing.T) {
	for _, stop := range []bool{false, true} {
		n := newNet(t)
		n.wire("a 1", "b 1")
		n.wire("a 2", "c 1")
		n.add("a", at("1", Manual, 8), at("2", Manual, 8))
		n.add("b", at("1", Upstream, 0))
		n.add("c", at("1", Upstream, 0))
		n.run(40 * time.Second)
		n.wantPFC("a", "1", 8)
		if stop {
			n.all["b"].Shutdown(n.now, "")
			n.run(time.Millisecond)
		} else {
			n.lost = func(from string) bool { return from == "b 1" }
			n.run(85 * time.Second) // its last LLDPDU is at most 30 s old
			n.wantPFC("a", "1", 8)
			n.run(40 * time.Second)
		}
		n.wantPFC("a", "1", 0)
		n.wantMismatches("a", "1", "no-peer")
		n.wantPFC("a", "2", 8)
		n.wantMismatches("a", "2")
	}
}

// TestNoPeer: a link partner without DCBX is reported once it had time to speak.
func TestNoPeer(t *testing.T) {
	n := newNet(t)
	n.add("a", at("1", Manual, 8))
	n.run(9 * time.Second)
	n.wantMismatches("a", "1")
	n.run(2 * time.Second)
	n.wantMismatches("a", "1", "no-peer")
	quiet := at("1", Manual, 0)
	quiet.DCBX = false
	n.wire("a 1", "b 1")
	n.add("b", quiet)
	n.run(5 * time.Second)
	n.wantMismatches("a", "1", "no-peer")
	if text := n.dcbx("a", "1").Mismatches[kindNoPeer].Text; !strings.Contains(text, "b (1) sends LLDP without DCBX") {
		t.Error(text)
	}
	n.all["a"].SetLink(n.now, "1", false, n.mac("a", "1"), 0)
	n.all["a"].Advance(n.now)
	n.wantMismatches("a", "1")
}

// TestMultiplePeers: with two peers at a port DCBX is off until one has aged out.
func TestMultiplePeers(t *testing.T) {
	n := newNet(t)
	n.wire("a 1", "b 1")
	n.add("a", at("1", Manual, 8))
	n.add("b", at("1", Upstream, 0))
	n.run(5 * time.Second)
	n.wires["c 1"] = "a 1"
	n.add("c", at("1", Upstream, 0))
	n.run(5 * time.Second)
	n.wantPFC("a", "1", 0)
	n.wantMismatches("a", "1", "multiple-peers")
	text := n.dcbx("a", "1").Mismatches[kindMultiple].Text
	if !strings.Contains(text, "b (1), TTL 121 s; c (1), TTL 121 s") {
		t.Error(text)
	}
	delete(n.wires, "c 1")
	n.run(130 * time.Second)
	n.wantPFC("a", "1", 8)
	n.wantMismatches("a", "1")
}

// TestFlap: a link that was down for a moment begins anew, with the version, too.
func TestFlap(t *testing.T) {
	n := newNet(t)
	n.wire("a 1", "b 1")
	old := at("1", Upstream, 0)
	old.Local.Version = dcbx.CEE
	n.add("a", at("1", Manual, 8))
	n.add("b", old)
	n.run(5 * time.Second)
	if v := n.dcbx("a", "1").Version; v != "cee" {
		t.Fatalf("version %s with a peer that speaks CEE", v)
	}
	delete(n.wires, "b 1")
	n.all["a"].SetLink(n.now, "1", true, n.mac("a", "1"), 1)
	n.all["a"].Advance(n.now)
	n.wantPFC("a", "1", 0)
	if v := n.dcbx("a", "1").Version; v != "ieee" {
		t.Errorf("version %s after the link was down", v)
	}
}

// TestAddressChanges: a port's device may get another address; its peer keeps what is agreed.
func TestAddressChanges(t *testing.T) {
	n := newNet(t)
	n.wire("a 1", "b 1")
	n.add("a", at("1", Manual, 8))
	n.add("b", at("1", Upstream, 0))
	n.run(5 * time.Second)
	n.all["a"].SetLink(n.now, "1", true, [6]byte{2, 9}, 0)
	n.run(time.Second)
	n.wantPFC("a", "1", 8)
	n.wantPFC("b", "1", 8)
	if l, _ := n.all["b"].Report(n.now, "1"); len(l.Neighbors) != 1 || l.Neighbors[0].MAC != "02:09:00:00:00:00" {
		t.Errorf("%+v", l.Neighbors)
	}
}

// TestVersions: a port with a configured version and a peer with another one say so.
func TestVersions(t *testing.T) {
	n := newNet(t)
	n.wire("a 1", "b 1")
	a, b := at("1", Manual, 8), at("1", Upstream, 0)
	a.Local.Version, b.Local.Version = dcbx.CIN, dcbx.IEEE
	n.add("a", a)
	n.add("b", b)
	n.run(5 * time.Second)
	n.wantPFC("a", "1", 0)
	n.wantMismatches("a", "1")
	n.run(6 * time.Second)
	n.wantMismatches("a", "1", "version")
	n.wantMismatches("b", "1", "version")
}

// TestSource: what an upstream port takes is what downstream ports recommend. It stays when the
// source is gone, until another is elected or the time is over.
func TestSource(t *testing.T) {
	n := newNet(t)
	core := func(pfc, share uint8) PortParams {
		p := at("1", Manual, pfc)
		p.Local.ETS = table(share)
		return p
	}
	n.wire("core 1", "edge up1")
	n.wire("other 1", "edge up2")
	n.wire("server 1", "edge down")
	n.add("core", core(8, 30))
	n.add("edge", at("up1", Upstream, 0), at("up2", Upstream, 0), at("down", Downstream, 1), at("own", Manual, 1))
	n.add("server", at("1", Upstream, 0))
	n.run(5 * time.Second)
	wants := func(pfc, share uint8) {
		t.Helper()
		n.wantPFC("edge", "down", pfc)
		n.wantPFC("server", "1", pfc)
		for name, port := range map[string]string{"edge": "down", "server": "1"} {
			if ets := n.all[name].Agreements()[port].ETS; ets == nil || ets.Bandwidth[1] != share {
				t.Errorf("%s: ETS %+v, want %d %%", name, ets, share)
			}
		}
	}
	wants(8, 30)
	if d := n.dcbx("edge", "up1"); !d.Source || d.SourcePort != "" {
		t.Errorf("up1: %+v", d)
	}
	if d := n.dcbx("edge", "down"); d.Source || d.SourcePort != "up1" {
		t.Errorf("down: %+v", d)
	}
	if own := n.dcbx("edge", "own"); own.SourcePort != "" || own.Local.PFC.Priorities[0] != 0 {
		t.Errorf("a manual port has settings of the source: %+v", own.Local)
	}

	// a second upstream port takes nothing while there is a source
	n.add("other", core(16, 70))
	n.run(5 * time.Second)
	wants(8, 30)
	n.wantMismatches("edge", "up2", "pfc")

	// the source goes: the other becomes it
	n.all["core"].Shutdown(n.now, "")
	n.run(5 * time.Second)
	wants(16, 70)
	if d := n.dcbx("edge", "up2"); !d.Source {
		t.Errorf("up2: %+v", d)
	}
	n.all["other"].Shutdown(n.now, "")
	n.run(119 * time.Second)
	wants(16, 70)
	if d := n.dcbx("edge", "down"); d.SourcePort != "up2" || d.SourceKeptNS != 1e9 {
		t.Errorf("down: %+v", d)
	}
	n.run(5 * time.Second)
	n.wantPFC("edge", "down", 1)
}

// TestRefusal: what the switch can't run is refused, and tried again when something else is agreed.
func TestRefusal(t *testing.T) {
	n := newNet(t)
	n.wire("a 1", "b 1")
	n.add("a", at("1", Manual, 8))
	taking := at("1", Upstream, 0)
	taking.Local.Willing = [dcbx.Features]bool{dcbx.FeaturePFC: true}
	n.add("b", taking) // it takes nothing else, so it is no source once it refuses PFC
	n.run(5 * time.Second)
	n.all["b"].Refuse(n.now, "1", dcbx.FeaturePFC, "there is no memory for it")
	n.run(time.Millisecond)
	n.wantPFC("b", "1", 0)
	n.wantPFC("a", "1", 0)
	n.wantMismatches("b", "1", "refused")
	if text := n.dcbx("b", "1").Mismatches[kindRefused].Text; !strings.Contains(text, "no memory") {
		t.Error(text)
	}
	n.run(100 * time.Second)
	n.wantMismatches("b", "1", "refused")
	n.configure("a", at("1", Manual, 4))
	n.run(5 * time.Second)
	n.wantPFC("b", "1", 4)
	n.wantMismatches("b", "1")
}

// TestLossOfFrames: with LLDPDUs lost at random, both ends agree in the end.
func TestLossOfFrames(t *testing.T) {
	for seed := range uint64(200) {
		n := newNet(t)
		random := seed
		n.lost = func(string) bool {
			random = random*6364136223846793005 + 1442695040888963407
			return random>>60 < 8
		}
		v := []dcbx.Version{dcbx.IEEE, dcbx.CEE, dcbx.CIN}[seed%3]
		a, b := at("1", Manual, 8), at("1", Upstream, 0)
		a.Local.Version, b.Local.Version = v, dcbx.Auto
		n.wire("a 1", "b 1")
		n.add("a", a)
		n.add("b", b)
		n.run(time.Duration(seed) * time.Second)
		n.lost = nil
		n.run(65 * time.Second)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		n.wantPFC("a", "1", 8)
		n.wantPFC("b", "1", 8)
	}
}

// TestNames: sentences cut long names, and have a MAC address that identifies system and port once.
func TestNames(t *testing.T) {
	mac := []byte{0x52, 0x91, 0, 0, 0, 1}
	long := strings.Repeat("ä", 100)
	for _, test := range []struct{ system, port, want string }{
		{"n5k-a", "Ethernet1/1", "n5k-a (Ethernet1/1)"},
		{long, long, strings.Repeat("ä", 31) + "… (" + strings.Repeat("ä", 31) + "…)"},
		{"", "Ethernet1/1", "52:91:00:00:00:01 (Ethernet1/1)"},
		{"", "", "52:91:00:00:00:01"},
	} {
		n := lldp.Neighbour{}
		n.SystemName, n.Chassis = []byte(test.system), lldp.ChassisID{Subtype: lldp.ChassisMAC, Value: mac}
		n.Port = lldp.PortID{Subtype: lldp.PortMAC, Value: mac}
		if test.port != "" {
			n.Port = lldp.PortID{Subtype: lldp.PortLocal, Value: []byte(test.port)}
		}
		if got := nameOf(&n); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestReportOfHostileNeighbour: what a neighbour sends is shown without control characters, and a
// broken LLDPDU leaves a problem.
func TestReportOfHostileNeighbour(t *testing.T) {
	n := newNet(t)
	s := n.add("a", at("1", Manual, 8))
	l := lldp.Local{MAC: [6]byte{2}, Chassis: lldp.ChassisID{Subtype: lldp.ChassisLocal, Value: []byte("\x1b[2J")},
		Port: lldp.PortID{Subtype: lldp.PortLocal, Value: []byte{0}}, SystemName: "x\r\n\x07"}
	frame, err := l.Append(nil, 120, [][]byte{{0, 0x80, 0xc2, 11, 0x80}})
	if err != nil {
		t.Fatal(err)
	}
	s.Receive(n.now, "1", frame)
	s.Receive(n.now, "1", frame[:17])
	r, d := s.Report(n.now, "1")
	if len(r.Neighbors) != 1 || r.Neighbors[0].SystemName != `x\r\n\x07` || r.Neighbors[0].ChassisID != `\x1b[2J` {
		t.Errorf("%+v", r.Neighbors)
	}
	if r.LastProblem == "" || r.Malformed == 0 {
		t.Errorf("no problem with a frame that is cut off: %+v", r)
	}
	tlvs := r.Neighbors[0].LLDPDU.TLVs
	if last := tlvs[len(tlvs)-1]; last.Name != "PFC configuration" || last.Wrong == "" {
		t.Errorf("%+v", last)
	}
	if pfc := d.Features[dcbx.FeaturePFC]; pfc.PeerPresent || pfc.State != "absent" {
		t.Errorf("%+v", pfc)
	}
	for _, m := range d.Mismatches {
		if strings.ContainsFunc(m.Text, func(r rune) bool { return r < ' ' }) {
			t.Errorf("%q", m.Text)
		}
	}
}

// TestManyTLVs: the report of an LLDPDU with hundreds of TLVs is bounded.
func TestManyTLVs(t *testing.T) {
	n := newNet(t)
	s := n.add("a", at("1", Manual, 8))
	l := lldp.Local{MAC: [6]byte{2}, Chassis: lldp.ChassisID{Subtype: lldp.ChassisLocal, Value: []byte("c")},
		Port: lldp.PortID{Subtype: lldp.PortLocal, Value: []byte("p")}}
	frame, err := l.Append(nil, 120, nil)
	if err != nil {
		t.Fatal(err)
	}
	frame = frame[:14+4+4+4] // up to the TTL
	for len(frame) < 1500 {
		frame = append(frame, 4<<1, 0) // an empty port description
	}
	s.Receive(n.now, "1", frame)
	r, _ := s.Report(n.now, "1")
	if len(r.Neighbors) != 1 {
		t.Fatalf("%d neighbours: %s", len(r.Neighbors), r.LastProblem)
	}
	if tlvs := r.Neighbors[0].LLDPDU.TLVs; len(tlvs) != maxTLVs || tlvs[maxTLVs-1].Name != "further TLVs" {
		t.Errorf("%d TLVs, the last is %+v", len(tlvs), tlvs[len(tlvs)-1])
	}
}

// stranger returns an LLDPDU of a neighbour without DCBX that has a number.
func stranger(t *testing.T, number int) []byte {
	t.Helper()
	l := lldp.Local{MAC: [6]byte{2},
		Chassis: lldp.ChassisID{Subtype: lldp.ChassisLocal, Value: fmt.Appendf(nil, "%d", number)},
		Port:    lldp.PortID{Subtype: lldp.PortLocal, Value: []byte("p")}}
	frame, err := l.Append(nil, 120, nil)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// TestManyNeighbours: a thousand neighbours on a port take bounded memory, and the others go on.
func TestManyNeighbours(t *testing.T) {
	n := newNet(t)
	s := n.add("a", at("1", Manual, 8), at("2", Manual, 8))
	n.wire("a 2", "b 1")
	n.add("b", at("1", Upstream, 0))
	for i := range 1000 {
		s.Receive(n.now, "1", stranger(t, i))
	}
	n.run(5 * time.Second)
	r, _ := s.Report(n.now, "1")
	if len(r.Neighbors) != 16 || r.NoRoom != 984 {
		t.Errorf("%d neighbours, %d without room", len(r.Neighbors), r.NoRoom)
	}
	n.wantPFC("a", "2", 8)
}

// TestPeerAmongManyNeighbours: a peer with DCBX finds room at a port with too many neighbours
// without it.
func TestPeerAmongManyNeighbours(t *testing.T) {
	n := newNet(t)
	a := n.add("a", at("1", Manual, 8))
	for i := range 16 {
		a.Receive(n.now, "1", stranger(t, i))
	}
	n.run(20 * time.Second)
	n.wantMismatches("a", "1", "no-peer")
	n.wire("a 1", "b 1")
	n.add("b", at("1", Upstream, 0))
	n.run(5 * time.Second)
	n.wantPFC("a", "1", 8)
	n.wantPFC("b", "1", 8)
	n.wantMismatches("a", "1")
}

// TestOwnLLDPDU: an LLDPDU that comes back to its port is no neighbour, and changes nothing for the
// peer if there is one. The report names the loop.
func TestOwnLLDPDU(t *testing.T) {
	n := newNet(t)
	n.wires["a 1"] = "a 1"
	n.add("a", at("1", Manual, 8))
	n.run(20 * time.Second)
	n.wantPFC("a", "1", 0)
	n.wantMismatches("a", "1", "no-peer")
	if text := n.dcbx("a", "1").Mismatches[kindNoPeer].Text; !strings.Contains(text, "there is a loop") {
		t.Error(text)
	}
	n.wire("a 1", "b 1")
	n.add("b", at("1", Upstream, 0))
	n.run(20 * time.Second)
	header := []byte("\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x07\x88\xcc")
	n.all["a"].Receive(n.now, "1", append(header, n.all["a"].ports[0].sent.data...))
	n.run(time.Second)
	n.wantPFC("a", "1", 8)
	n.wantMismatches("a", "1")
	r, _ := n.all["a"].Report(n.now, "1")
	if len(r.Neighbors) != 1 || !strings.Contains(r.LastProblem, "there is a loop") {
		t.Errorf("%d neighbours; %s", len(r.Neighbors), r.LastProblem)
	}
}

// TestOff: a port without LLDP says nothing and has nothing to report.
func TestOff(t *testing.T) {
	n := newNet(t)
	p := at("1", Manual, 8)
	p.LLDP, p.DCBX = lldp.Off, false
	s := n.add("a", p)
	n.run(100 * time.Second)
	l, d := s.Report(n.now, "1")
	if n.sent != 0 || l != nil || d != nil || len(s.Agreements()) != 0 {
		t.Errorf("%d frames, %v, %v, %v", n.sent, l, d, s.Agreements())
	}
	if next := s.Advance(n.now); next != lldp.Never {
		t.Errorf("something is due at %d", next)
	}
}
