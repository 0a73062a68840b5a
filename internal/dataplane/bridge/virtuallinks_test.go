package bridge

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

const (
	fcoeVLAN           = 2094
	enode    frame.MAC = 0x0200_0000_0e00
	fcf      frame.MAC = 0x0200_0000_0f00
	other    frame.MAC = 0x0200_0000_0f01 // FCF
	vn       frame.MAC = 0x0efc_0001_0001
	vn2      frame.MAC = 0x0efc_0001_0002
)

// fcoe returns an FCoE frame, without a tag if vid is 0.
func fcoe(src, dst frame.MAC, vid uint16) *frame.Header {
	h := untagged(src, dst)
	if vid != 0 {
		h = tagged(src, dst, vid)
	}
	h.Type = frame.TypeFCoE
	return h
}

// storage returns a bridge with these links and FCoE VLANs 2094 and 2095. Port 0 has an ENode, port
// 1 the FCF. Port 2 is an access port of VLAN 2094 with an ENode, port 3 a trunk, port 4 is in no
// FCoE VLAN.
func storage(t rapid.TB, links ...VirtualLink) (*Bridge, *atomic.Pointer[VirtualLinks]) {
	t.Helper()
	trunk := PortParams{VLANs: vlans(1, 10, fcoeVLAN, 2095)}
	held := new(atomic.Pointer[VirtualLinks])
	b := mustNew(t, Params{Ports: []PortParams{trunk, trunk,
		{VLANs: vlans(fcoeVLAN), PVID: fcoeVLAN, Untagged: true}, trunk, {VLANs: vlans(1, 10)}},
		FCoE: vlans(fcoeVLAN, 2095), VirtualLinks: held})
	set, err := NewVirtualLinks(links)
	if err != nil {
		t.Fatal(err)
	}
	held.Store(set)
	return b, held
}

var link = VirtualLink{VID: fcoeVLAN, VN: vn, ENode: enode, FCF: fcf, ENodePort: 0, FCFPort: 1}

func TestDecisionsOnFCoEVLANs(t *testing.T) {
	atAccess := link
	atAccess.VN, atAccess.ENodePort = vn2, 2
	ip, lldp := tagged(vn, fcf, fcoeVLAN), untagged(vn, 0x0180_c200_000e)
	fip := fcoe(vn, fcf, fcoeVLAN)
	fip.Type = frame.TypeFIP
	priority := fcoe(vn2, fcf, 0)
	priority.Tagged = true
	for name, c := range map[string]struct {
		in   int
		h    *frame.Header
		want string
	}{
		"to the FCF":                         {0, fcoe(vn, fcf, fcoeVLAN), "1 forwarded"},
		"from the FCF":                       {1, fcoe(fcf, vn, fcoeVLAN), "0 forwarded"},
		"from an access port":                {2, fcoe(vn2, fcf, 0), "1 forwarded"},
		"from an access port, priority tag":  {2, priority, "1 forwarded"},
		"to an access port":                  {1, fcoe(fcf, vn2, fcoeVLAN), "2 forwarded"},
		"from an access port, tag":           {2, fcoe(vn2, fcf, fcoeVLAN), "-2 vlan_ingress"},
		"another port's VN_Port":             {3, fcoe(vn, fcf, fcoeVLAN), "-2 fcoe_session"},
		"the FCF's port's VN_Port":           {1, fcoe(vn, fcf, fcoeVLAN), "-2 fcoe_session"},
		"the FCF's address from an ENode":    {0, fcoe(fcf, vn2, fcoeVLAN), "-2 fcoe_session"},
		"the FCF's address from this ENode":  {0, fcoe(fcf, vn, fcoeVLAN), "-2 fcoe_session"},
		"to another ENode":                   {0, fcoe(vn, vn2, fcoeVLAN), "-2 fcoe_session"},
		"to another FCF":                     {0, fcoe(vn, other, fcoeVLAN), "-2 fcoe_session"},
		"from another FCF":                   {1, fcoe(other, vn, fcoeVLAN), "-2 fcoe_session"},
		"the ENode's own address":            {0, fcoe(enode, fcf, fcoeVLAN), "-2 fcoe_session"},
		"not logged in":                      {0, fcoe(vn+9, fcf, fcoeVLAN), "-2 fcoe_session"},
		"a group source":                     {0, fcoe(vn|1<<40, fcf, fcoeVLAN), "-2 fcoe_session"},
		"a group destination":                {0, fcoe(vn, 0x0110_1801_0000, fcoeVLAN), "-2 fcoe_session"},
		"broadcast":                          {0, fcoe(vn, frame.Broadcast, fcoeVLAN), "-2 fcoe_session"},
		"another FCoE VLAN":                  {0, fcoe(vn, fcf, 2095), "-2 fcoe_session"},
		"a VLAN that the port does not have": {4, fcoe(vn, fcf, fcoeVLAN), "-2 vlan_ingress"},
		"a reserved address":                 {2, lldp, "-2 reserved_address"},
		"IP":                                 {0, ip, "-2 fcoe_vlan"},
		"FIP, which its owner keeps away":    {0, fip, "-2 fcoe_vlan"},
	} {
		b, _ := storage(t, link, atAccess)
		d := b.decide(0, c.in, c.h)
		if got := fmt.Sprint(d.Out, " ", d.Reason); got != c.want || d.Learned || len(d.Flood) != 0 {
			t.Errorf("%s: %s, learned %v, want %s", name, got, d.Learned, c.want)
		}
		if b.Len() != 0 || b.Stats() != (Stats{}) {
			t.Errorf("%s: %d addresses learned, %+v", name, b.Len(), b.Stats())
		}
	}
}

// TestLinksToPortsThatAreNot: a link may be newer than the bridge's ports. Ordinary frames pass as
// without FCoE VLANs.
func TestLinksToPortsThatAreNot(t *testing.T) {
	for to, want := range map[int]string{1: "1 forwarded", 4: "-2 fcoe_session", 5: "-2 fcoe_session",
		MaxPorts - 1: "-2 fcoe_session", 0: "-2 no_destination"} {
		l := link
		l.FCFPort = to
		b, held := storage(t, l)
		if d := b.decide(0, 0, fcoe(vn, fcf, fcoeVLAN)); fmt.Sprint(d.Out, " ", d.Reason) != want {
			t.Errorf("to port %d: %+v, want %s", to, d, want)
		}
		held.Store(nil)
		if d := b.decide(0, 0, fcoe(vn, fcf, fcoeVLAN)); d.Reason != FCoESession {
			t.Errorf("without links: %+v", d)
		}
		b.decide(0, 0, tagged(alice, bob, 10))
		if d := b.decide(0, 4, tagged(bob, alice, 10)); d.Out != 0 || b.Len() != 2 {
			t.Errorf("an ordinary frame: %+v", d)
		}
	}
}

// TestVirtualLinksAsAMap compares the decisions with those that a search through all links gives.
func TestVirtualLinksAsAMap(t *testing.T) {
	mac := rapid.SampledFrom([]frame.MAC{vn, vn + 1, vn + 2, vn + 1<<24, fcf, other, enode})
	vid := rapid.SampledFrom([]uint16{fcoeVLAN, 2095})
	port := rapid.SampledFrom([]int{0, 1, 3})
	rapid.Check(t, func(t *rapid.T) {
		type key struct {
			mac frame.MAC
			vid uint16
		}
		known := map[key]VirtualLink{}
		var links []VirtualLink
		for range rapid.IntRange(0, 12).Draw(t, "links") {
			l := VirtualLink{VID: vid.Draw(t, "VLAN"), VN: mac.Draw(t, "VN"), ENode: enode, FCF: mac.Draw(t, "FCF"),
				ENodePort: port.Draw(t, "ENode port"), FCFPort: port.Draw(t, "FCF port")}
			if _, twice := known[key{l.VN, l.VID}]; !twice {
				known[key{l.VN, l.VID}] = l
				links = append(links, l)
			}
		}
		b, held := storage(t, links...)
		for range 50 {
			in, v, src, dst := port.Draw(t, "in"), vid.Draw(t, "VLAN"), mac.Draw(t, "src"), mac.Draw(t, "dst")
			want := decision{Out: Nowhere, Reason: FCoESession}
			out := -1
			if l, is := known[key{src, v}]; is && l.ENodePort == in && l.FCF == dst {
				out = l.FCFPort
			} else if l, is := known[key{dst, v}]; is && l.FCFPort == in && l.FCF == src {
				out = l.ENodePort
			}
			switch {
			case out == in:
				want.Reason = NoDestination
			case out >= 0:
				want = decision{Out: int32(out)}
			}
			if d := b.decide(0, in, fcoe(src, dst, v)); d.decision != want {
				t.Fatalf("from %v to %v in VLAN %d at port %d: %+v, want %+v; links %+v", src, dst, v, in, d, want,
					links)
			}
			expected := false
			for _, l := range links {
				expected = expected || l.VID == v && (in == l.ENodePort && (src == l.VN || src == l.ENode) ||
					in == l.FCFPort && src == l.FCF)
			}
			// An address is expected at one port, the first.
			if got := held.Load().Know(src, v, in); got && !expected {
				t.Fatalf("%v in VLAN %d is expected at port %d; links %+v", src, v, in, links)
			}
		}
	})
}

// TestWithoutVirtualLinks: a bridge that is given no links, or none yet, passes no FCoE frame.
func TestWithoutVirtualLinks(t *testing.T) {
	for name, held := range map[string]*atomic.Pointer[VirtualLinks]{"none": nil, "none yet": {}} {
		b := mustNew(t, Params{Ports: []PortParams{{VLANs: vlans(1, fcoeVLAN)}, {VLANs: vlans(1, fcoeVLAN)}},
			FCoE: vlans(fcoeVLAN), VirtualLinks: held})
		frames := []Frame{{Header: *fcoe(vn, fcf, fcoeVLAN)}}
		if b.Forward(0, 0, frames); frames[0].Out != Nowhere {
			t.Errorf("%s: to %d", name, frames[0].Out)
		}
		if b.Expects(0, &frames[0].Header) {
			t.Errorf("%s: the frame is expected", name)
		}
	}
}

func TestInvalidVirtualLinks(t *testing.T) {
	with := func(change func(*VirtualLink)) VirtualLink {
		l := link
		change(&l)
		return l
	}
	for want, l := range map[string]VirtualLink{
		"a VLAN from 1":   with(func(l *VirtualLink) { l.VID = 0 }),
		"from 1 to 4094":  with(func(l *VirtualLink) { l.VID = 4095 }),
		"is zero or":      with(func(l *VirtualLink) { l.VN = 0 }),
		"or a group's":    with(func(l *VirtualLink) { l.VN |= 1 << 40 }),
		"an FCF (01:":     with(func(l *VirtualLink) { l.FCF = 0x0110_1801_0002 }),
		"an FCF (00:":     with(func(l *VirtualLink) { l.FCF = 0 }),
		"ports -1 and":    with(func(l *VirtualLink) { l.ENodePort = -1 }),
		"ports 4096 and":  with(func(l *VirtualLink) { l.ENodePort = MaxPorts }),
		"and -1: 0 to ":   with(func(l *VirtualLink) { l.FCFPort = -1 }),
		"4096: 0 to 4095": with(func(l *VirtualLink) { l.FCFPort = MaxPorts }),
	} {
		if _, err := NewVirtualLinks([]VirtualLink{l}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, l := range []VirtualLink{
		with(func(l *VirtualLink) { l.VID, l.ENodePort, l.FCFPort = 1, 0, MaxPorts-1 }),
		with(func(l *VirtualLink) { l.VID, l.ENodePort, l.FCFPort = 4094, MaxPorts-1, 0 }),
	} {
		if _, err := NewVirtualLinks([]VirtualLink{l}); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
	elsewhere := with(func(l *VirtualLink) { l.ENodePort = 3 })
	if _, err := NewVirtualLinks([]VirtualLink{link, elsewhere}); err == nil {
		t.Error("a VN_Port with two links")
	}
	if _, err := NewVirtualLinks([]VirtualLink{link, with(func(l *VirtualLink) { l.VID = 2095 })}); err != nil {
		t.Error(err)
	}
	for want, p := range map[string]Params{
		"a wire":       {Mode: Wire, FCoE: vlans(fcoeVLAN), Ports: []PortParams{{Peer: -1}}},
		"VLAN 0":       {FCoE: vlans(0), Ports: make([]PortParams, 2)},
		"or 4095":      {FCoE: vlans(4095), Ports: make([]PortParams, 2)},
		"no FDB entri": {FCoE: vlans(9), Ports: make([]PortParams, 2), Static: []StaticEntry{{MAC: alice, VID: 9}}},
	} {
		if _, err := New(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestExpectedSources: VN_Ports, ENodes and FCFs, at their ports.
func TestExpectedSources(t *testing.T) {
	b, _ := storage(t, link)
	for _, c := range []struct {
		port int
		h    *frame.Header
		want bool
	}{
		{0, fcoe(vn, 0, fcoeVLAN), true}, {0, fcoe(enode, 0, fcoeVLAN), true}, {1, fcoe(fcf, 0, fcoeVLAN), true},
		{1, fcoe(vn, 0, fcoeVLAN), false}, {0, fcoe(fcf, 0, fcoeVLAN), false}, {0, fcoe(vn, 0, 2095), false},
		{0, fcoe(vn, 0, 0), false}, {2, fcoe(other, 0, 0), false},
	} {
		if got := b.Expects(c.port, c.h); got != c.want {
			t.Errorf("%v in VLAN %d at port %d: %v", c.h.Src, c.h.VID, c.port, got)
		}
	}
	for _, c := range []struct {
		port   int
		vid    uint16
		member bool
		takes  bool
	}{
		{0, fcoeVLAN, true, true}, {0, 10, true, true}, {0, 11, false, false}, {4, fcoeVLAN, false, false},
		{2, fcoeVLAN, true, false}, {2, 0, false, true}, {0, 0, false, true},
	} {
		if member, takes := b.Member(c.port, c.vid), b.Takes(c.port, c.vid); member != c.member || takes != c.takes {
			t.Errorf("port %d, VLAN %d: member %v, takes %v", c.port, c.vid, member, takes)
		}
	}
}

// TestVLANBecomesAnFCoEVLAN: what was learned in it is forgotten, and nothing else. When it is an
// ordinary VLAN again, it floods until it has learned.
func TestVLANBecomesAnFCoEVLAN(t *testing.T) {
	for _, vid := range []uint16{1, 10, maxVLAN} {
		testVLANBecomesAnFCoEVLAN(t, vid)
	}
}

func testVLANBecomesAnFCoEVLAN(t *testing.T, storage uint16) {
	with := func(fcoe *VLANSet) Params { return Params{Ports: make([]PortParams, 3), FCoE: fcoe} }
	b := mustNew(t, with(nil))
	for _, vid := range []uint16{storage, 20} {
		b.decide(0, 0, tagged(alice, bob, vid))
		b.decide(0, 1, tagged(bob, alice, vid))
	}
	next := succeeded(t, 10_000, b, with(vlans(storage)))
	next.Learn(15_000, carol, storage, 1) // from a worker that does not know yet
	if d := next.decide(20_000, 0, tagged(alice, bob, storage)); d.Reason != FCoEVLAN {
		t.Errorf("on the FCoE VLAN: %+v", d)
	}
	if d := next.decide(20_000, 0, tagged(alice, bob, 20)); d.Out != 1 {
		t.Errorf("in another VLAN: %+v", d)
	}
	next.Tidy(30_000)
	for next.untidy > 0 {
		next.Tidy(30_000)
	}
	if next.Len() != 2 {
		t.Errorf("%d addresses are known, of 2", next.Len())
	}
	last := succeeded(t, 40_000, next, with(nil))
	if d := last.decide(50_000, 0, tagged(alice, bob, storage)); d.Out != Flood || len(d.Flood) != 2 {
		t.Errorf("an ordinary VLAN again: %+v", d)
	}
	if d := last.decide(50_000, 0, tagged(alice, bob, 20)); d.Out != 1 {
		t.Errorf("in another VLAN: %+v", d)
	}
}

// TestPortOfAnFCoEVLANOnly is not vacant, so its anomalies go on.
func TestPortOfAnFCoEVLANOnly(t *testing.T) {
	b := mustNew(t, Params{Ports: []PortParams{{VLANs: vlans(fcoeVLAN)}, {VLANs: new(VLANSet)}}, FCoE: vlans(fcoeVLAN)})
	if b.vacant(0) || !b.vacant(1) {
		t.Errorf("vacant: %v, %v", b.vacant(0), b.vacant(1))
	}
}

func BenchmarkVirtualLinks(b *testing.B) {
	for _, n := range []int{1, 256, 4096} {
		var links []VirtualLink
		for i := range n {
			l := link
			l.VN += frame.MAC(i)
			l.ENode += frame.MAC(i / 4)
			links = append(links, l)
		}
		b.Run(fmt.Sprint("set/", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := NewVirtualLinks(links); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("frame/", n), func(b *testing.B) {
			bridge, _ := storage(b, links...)
			frames := make([]Frame, 64)
			for i := range frames {
				frames[i].Header = *fcoe(links[i%n].VN, fcf, fcoeVLAN)
			}
			for i := 0; b.Loop(); i++ {
				bridge.Forward(int64(i), 0, frames)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/frame")
		})
		b.Run(fmt.Sprint("stray/", n), func(b *testing.B) {
			bridge, _ := storage(b, links...)
			frames := make([]Frame, 64)
			for i := range frames {
				frames[i].Header = *fcoe(links[i%n].VN, other, fcoeVLAN)
			}
			for i := 0; b.Loop(); i++ {
				bridge.Forward(int64(i), 0, frames)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/frame")
		})
	}
}
