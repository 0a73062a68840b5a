package show

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sluice/internal/state"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

const second = 1e9

// hostile is what a neighbour may send as its name: control characters, an escape sequence, text
// from right to left, and no end.
var hostile = "\x1b[2J\x07evil\r\n\u202eretsam\xff" + strings.Repeat("x", 200)

// pdu returns an LLDPDU of TLVs that are given as type, name, text and value.
func pdu(age int64, tlvs ...state.TLV) state.LLDPDU {
	var all strings.Builder
	for _, t := range tlvs {
		length := len(t.Hex) / 2
		fmt.Fprintf(&all, "%04x%s", int(t.Type)<<9|length, t.Hex)
	}
	return state.LLDPDU{AgeNS: age, TLVs: tlvs, Hex: all.String()}
}

func tlv(kind uint8, name, text, value string) state.TLV {
	return state.TLV{Type: kind, Name: name, Text: text, Hex: hex.EncodeToString([]byte(value))}
}

// neighbor returns a switch that is a neighbour.
func neighbor(name, port string, last byte) state.Neighbor {
	mac := fmt.Sprintf("54:7f:ee:0c:11:%02x", last)
	return state.Neighbor{ChassisID: mac, ChassisIDKind: "mac", PortID: port, PortIDKind: "interface name",
		PortDescription: "to switcha", SystemName: name,
		SystemDescription: "Nexus 5000", Capabilities: []string{"bridge", "router"},
		EnabledCapabilities: []string{"bridge", "router"}, MAC: mac, TTLNS: 120 * second, ExpiresInNS: 108 * second,
		KnownNS: 3723 * second,
		LLDPDU: pdu(12*second,
			tlv(1, "chassis ID", mac+" (mac)", "\x04\x54\x7f\xee\x0c\x11"+string(rune(last))),
			tlv(2, "port ID", port+" (interface name)", "\x05"+port),
			tlv(3, "TTL", "120 s", "\x00\x78"),
			tlv(4, "port description", "to switcha", "to switcha"),
			tlv(5, "system name", name, name),
			tlv(7, "system capabilities", "bridge, router; enabled: bridge, router", "\x00\x14\x00\x14"),
			tlv(127, "IEEE ETS configuration", "not willing; TC 0: 0-2,4-7, 50% ets; TC 1: 3, 50% ets; at most 8 TCs",
				"\x00\x80\xc2\x09\x00\x00\x01\x00\x00\x32\x32\x00\x00\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x00\x00"),
			tlv(127, "IEEE PFC configuration", "not willing; priorities 3; at most 8", "\x00\x80\xc2\x0b\x08\x08"),
			tlv(127, "unknown", "", "\x00\x1b\x21\x09\xde\xad"),
			tlv(0, "end", "", ""))}
}

// converged are the settings of FCoE: PFC for priority 3 and half of the bandwidth.
func converged() state.DCBSettings {
	return state.DCBSettings{
		PFC: &state.PFCSettings{Priorities: []int{3}, Capability: 8},
		ETS: &state.ETSSettings{Capability: 8, TrafficClasses: []state.TrafficClass{
			{TC: 0, Priorities: []int{0, 1, 2, 4, 5, 6, 7}, Bandwidth: 50, Algorithm: "ets"},
			{TC: 1, Priorities: []int{3}, Bandwidth: 50, Algorithm: "ets"}}},
		Applications: []state.Application{{Name: "fcoe", Selector: "ethertype", Protocol: 0x8906, Priority: 3},
			{Name: "fip", Selector: "ethertype", Protocol: 0x8914, Priority: 3}},
	}
}

// features returns the features of a port in these states.
func features(pfc, ets, app string) (all []state.DCBXFeature) {
	for i, s := range []string{pfc, ets, app} {
		there := s != "no-peer" && s != "multiple-peers" && s != "version" && s != "absent"
		all = append(all, state.DCBXFeature{Feature: []string{"pfc", "ets", "app"}[i], State: s, Enabled: true,
			Operational: s == "agreed" || s == "peer" || s == "local", Willing: s == "peer", Error: s == "mismatch",
			PeerPresent: there, PeerEnabled: there, PeerWilling: s == "local"})
	}
	return all
}

// mismatches returns all ways to disagree, active where there is a text.
func mismatches(texts map[string]string) (all []state.Mismatch) {
	for _, kind := range []string{"pfc", "ets", "app", "version", "multiple-peers", "no-peer", "refused"} {
		m := state.Mismatch{Kind: kind, Text: texts[kind], Active: texts[kind] != ""}
		if m.Active {
			m.SinceNS = 754 * second
		}
		all = append(all, m)
	}
	return all
}

// lossless returns settings that have PFC for these priorities only.
func lossless(priorities ...int) state.DCBSettings {
	return state.DCBSettings{PFC: &state.PFCSettings{Priorities: priorities, Capability: 4}}
}

// named is a peer whose name does not fit its column.
const named = "server-1.storage.example.com (00:1b:21:d9:d5:70)"

// source returns DCBX of a port that takes the settings of its peer.
func source() *state.DCBX {
	d := &state.DCBX{Configured: "auto", Version: "ieee",
		Why:  "auto: the peer sends IEEE and CEE, and IEEE is preferred",
		Role: "upstream", Source: true, Peer: state.DCBXPeer{State: "one", Names: []string{"n5k-a (Ethernet1/1)"}},
		Features: features("peer", "peer", "agreed"), Mismatches: mismatches(nil),
		Local: lossless(), Remote: converged(), Operational: converged()}
	d.Features[0].Why = "the peer's 3 runs instead of the port's none"
	d.Recommended.ETS = d.Remote.ETS
	d.Local.ETS = &state.ETSSettings{Capability: 8, TrafficClasses: []state.TrafficClass{
		{TC: 0, Priorities: []int{0, 1, 2, 3, 4, 5, 6}, Bandwidth: 100, Algorithm: "ets"},
		{TC: 1, Priorities: []int{7}, Algorithm: "strict"}}}
	d.Local.Applications = converged().Applications
	return d
}

// unequal returns DCBX of a port whose peer has other settings, by CEE.
func unequal() *state.DCBX {
	d := &state.DCBX{Configured: "cee", Version: "cee", Why: "configured", Role: "downstream",
		SourcePort: "eth0", Peer: state.DCBXPeer{State: "one", Names: []string{named},
			Control: &state.DCBXControl{Seq: 3, Ack: 2, PeerSeq: 2, PeerAck: 2}},
		Features: features("mismatch", "agreed", "mismatch"),
		Local:    converged(), Remote: converged(),
		Operational: state.DCBSettings{PFC: lossless().PFC, ETS: converged().ETS},
		Mismatches: mismatches(map[string]string{
			"pfc": named + ": this port has 3, the peer 4-6: neither is willing: configure both alike, or make one " +
				"willing",
			"app": named + ": this port has ethertype 0x8906 with priority 3, the peer ethertype 0x8906 with " +
				"priority 4: neither is willing: configure both alike, or make one willing"})}
	d.Features[0].Why = "the same as the mismatch"
	d.Remote.PFC = &state.PFCSettings{Priorities: []int{4, 5, 6}, Capability: 8}
	d.Remote.Applications = []state.Application{
		{Name: "fcoe", Selector: "ethertype", Protocol: 0x8906, Priority: 4},
		{Name: "iscsi", Selector: "tcp", Protocol: 3260, Priority: 4}, {Selector: "dscp", Protocol: 46, Priority: 5}}
	return d
}

// alone returns DCBX of a port without a peer, or with one that does not count, in a state.
func alone(how string, peer state.DCBXPeer, kind, text string) *state.DCBX {
	d := &state.DCBX{Configured: "auto", Version: "ieee", Role: "manual",
		Why:  "auto: IEEE until the peer sends only an older version",
		Peer: peer, Features: features(how, how, how), Local: converged(), Operational: lossless(),
		Mismatches: mismatches(map[string]string{kind: text})}
	d.Features[0].Why = "why PFC is " + how
	return d
}

// refused returns DCBX of a port that can't run what was agreed.
func refused() *state.DCBX {
	d := unequal()
	d.Version, d.Configured, d.Features = "ieee", "auto", features("refused", "agreed", "absent")
	d.Peer = state.DCBXPeer{State: "one", Names: []string{"server-2 (1)"}}
	d.Why, d.Remote.Applications = "auto: the peer sends IEEE", nil
	d.Mismatches = mismatches(map[string]string{
		"refused": "server-2 (1): the switch cannot run what was agreed: priorities 3,4 need 412 cells of headroom " +
			"more than memory.buffers has: raise it to 32768"})
	return d
}

// otherVersion returns DCBX of a port whose peer speaks another version.
func otherVersion() *state.DCBX {
	d := alone("version", state.DCBXPeer{State: "one", Names: []string{"n5k-b (Ethernet1/2)"},
		Control: &state.DCBXControl{Seq: 1}}, "", "")
	d.Configured, d.Version, d.Why = "cin", "cin", "configured"
	d.Mismatches = mismatches(map[string]string{
		"ets": "this port has TC 1 (3) 50 %, the peer TC 1 (3) 60 %: neither is willing",
		"version": "n5k-b (Ethernet1/2): this port speaks CIN, the peer IEEE and CEE: configure the same version at " +
			"both ends"})
	return d
}

// discovered returns a switch with a port in each state that discovery knows.
func discovered() *state.Switch {
	lldp := func(neighbors ...state.Neighbor) *state.LLDP {
		sent := pdu(3*second, tlv(1, "chassis ID", "02:00:00:00:00:01 (mac)", "\x04\x02\x00\x00\x00\x00\x01"),
			tlv(2, "port ID", "eth0 (interface name)", "\x05eth0"), tlv(3, "TTL", "121 s", "\x00\x79"),
			tlv(0, "end", "", ""))
		sent.TLVs = sent.TLVs[:3] // the end need not be there
		return &state.LLDP{Mode: "rxtx", Sent: 125, Received: 124, LastSent: &sent, Neighbors: neighbors}
	}
	none := alone("no-peer", state.DCBXPeer{State: "none"}, "no-peer",
		"no neighbour sends LLDP, so no PFC is agreed: turn on DCBX at the link partner, or write "+
			"`dcbx: {version: off}` for the port")
	crowd := alone("multiple-peers",
		state.DCBXPeer{State: "multiple", Names: []string{hostile, "54:7f:ee:0c:11:77 (Ethernet1/3)"}},
		"multiple-peers",
		"2 neighbours speak DCBX, and it works between two ends only: remove the bridge or hub between them")
	evil := neighbor(hostile, hostile, 0x66)
	evil.PortDescription, evil.LLDPDU.TLVs[4].Wrong = hostile, "not text: "+hostile
	nameless := neighbor("", "Ethernet1/3", 0x77)
	nameless.EnabledCapabilities = []string{"station", "tpmr"}
	broken := &state.LLDP{Mode: "tx", Sent: 5, Malformed: 7, BadTLVs: 2, AgedOut: 1, NoRoom: 3,
		LastProblem: "the port ID is not 1 to 255 bytes long " + hostile[:20]}
	r := &state.Switch{Ports: []state.Port{
		{Name: "eth0", LLDP: lldp(neighbor("n5k-a", "Ethernet1/1", 0x01)), DCBX: source()},
		{Name: "eth1", LLDP: lldp(neighbor("server-1.storage.example.com", "00:1b:21:d9:d5:70", 0x02)),
			DCBX: unequal()},
		{Name: "eth2", LLDP: lldp(), DCBX: none},
		{Name: "eth3", LLDP: lldp(nameless, evil), DCBX: crowd},
		{Name: "eth4", LLDP: lldp(neighbor("server-2", "1", 0x04)), DCBX: refused()},
		{Name: "eth5", LLDP: broken},
		{Name: "eth6", LLDP: lldp(neighbor("n5k-b", "Ethernet1/2", 0x06)), DCBX: otherVersion()},
		{Name: "eth7"},
	}}
	runs(r)
	return r
}

// runs makes the priorities that DCBX agreed lossless at the ports.
func runs(r *state.Switch) {
	for i := range r.Ports {
		p := &r.Ports[i]
		p.FlowControl = "auto"
		for cos := range 8 {
			agreed := p.DCBX != nil && p.DCBX.Operational.PFC != nil &&
				slices.Contains(p.DCBX.Operational.PFC.Priorities, cos)
			p.ByCoS = append(p.ByCoS, state.CoS{CoS: cos, Lossless: agreed})
		}
	}
}

// drawn returns the text of a view of some ports, or of all.
func drawn(t *testing.T, v View, r *state.Switch, o Options) string {
	t.Helper()
	first := r.Headline()
	o.Filter.Apply(r)
	var b strings.Builder
	if err := v.Print(&b, r, first, &o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestDiscoveryGolden draws the views of LLDP and DCBX.
func TestDiscoveryGolden(t *testing.T) {
	for name, c := range map[string]struct {
		view  View
		ports []string
	}{
		"lldp":             {view: LLDP},
		"neighbors":        {view: LLDPNeighbors(false)},
		"neighbors-none":   {view: LLDPNeighbors(false), ports: []string{"eth2"}},
		"neighbors-off":    {view: LLDPNeighbors(true), ports: []string{"eth7"}},
		"neighbors-detail": {view: LLDPNeighbors(true), ports: []string{"eth0", "eth2", "eth3"}},
		"dcbx":             {view: DCBX(false, false)},
		"dcbx-off":         {view: DCBX(true, true), ports: []string{"eth7"}},
		"dcbx-peer":        {view: DCBX(true, false), ports: []string{"eth0"}},
		"dcbx-cee":         {view: DCBX(true, false), ports: []string{"eth1"}},
		"dcbx-others":      {view: DCBX(true, false), ports: []string{"eth2", "eth3", "eth4", "eth6"}},
		"dcbx-raw":         {view: DCBX(false, true), ports: []string{"eth0", "eth2", "eth3", "eth5"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := drawn(t, c.view, discovered(), Options{Filter: Filter{Ports: c.ports}})
			checkText(t, got)
			checkGolden(t, name, got)
		})
	}
}

// checkText checks that text has only what a terminal prints, and fits 80 columns.
func checkText(t interface{ Errorf(string, ...any) }, text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > Width {
			t.Errorf("%d columns: %s", n, line)
		}
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("not printable: %q", line)
		}
	}
}

// TestDiscoveryNonzero checks that --nonzero hides ports whose LLDP has counted nothing.
func TestDiscoveryNonzero(t *testing.T) {
	r := &state.Switch{Ports: []state.Port{{Name: "idle", LLDP: &state.LLDP{Mode: "rx"}},
		{Name: "busy", LLDP: &state.LLDP{Mode: "rx", AgedOut: 1}}}}
	got := drawn(t, LLDP, r, Options{Nonzero: true})
	if strings.Contains(got, "idle") || !strings.Contains(got, "busy") {
		t.Error(got)
	}
}

// TestDiscoveryOfAnything draws random states of LLDP and DCBX: they may contain anything, but the
// text nothing that a terminal interprets.
func TestDiscoveryOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r := &state.Switch{Ports: make([]state.Port, 3)}
		for i := range r.Ports {
			p := &r.Ports[i]
			fill(random, reflect.ValueOf(&p.Name).Elem())
			fill(random, reflect.ValueOf(&p.LLDP).Elem())
			fill(random, reflect.ValueOf(&p.DCBX).Elem())
		}
		for _, v := range []View{LLDP, LLDPNeighbors(false), LLDPNeighbors(true), DCBX(false, true),
			DCBX(true, false)} {
			var b strings.Builder
			if err := v.Print(&b, r, "", &Options{}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if line = strings.TrimSuffix(line, "\n"); strings.ContainsFunc(line, unicode.IsControl) {
					t.Fatalf("%q", line)
				}
			}
		}
	})
}

// fill sets everything in v to a random value.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, -1, 7, int64(r.Uint64())}[r.IntN(4)])
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(64) & (1<<v.Type().Bits() - 1))
	case reflect.String:
		v.SetString([]string{"", "one", "multiple", "pfc", "ets", "0104ab", "0", "two\nlines", hostile}[r.IntN(9)])
	case reflect.Pointer:
		if r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	default:
		panic(v.Kind())
	}
}

func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{"": nil, "3": {3}, "0-7": {7, 6, 5, 4, 3, 2, 1, 0}, "3,4": {4, 3, 3},
		"0-2,4,6,7": {0, 1, 2, 4, 6, 7}, "-1,1": {1, -1}} {
		if got := ranges(numbers); got != want {
			t.Errorf("%v: %q, want %q", numbers, got, want)
		}
	}
}

// TestLetters checks that each capability has its letter and that the legend explains those that
// appear.
func TestLetters(t *testing.T) {
	some := []string{"router", "bridge", "tpmr", "s-vlan"}
	if got := letters(some); got != "BRO" {
		t.Error(got)
	}
	if got := capabilityLegend(slices.Concat(some, some)); got != "CAP: B bridge, R router, O other" {
		t.Error(got)
	}
	if got := letters(nil) + capabilityLegend(nil); got != "" {
		t.Error(got)
	}
}
