package bridge

import (
	"slices"
	"testing"

	"sluice/internal/frame"
)

func TestVLANSet(t *testing.T) {
	var s VLANSet
	s.Add(0)
	s.Add(100)
	s.AddRange(62, 66)
	s.AddRange(4090, 4095)
	s.AddRange(9, 8) // empty
	for vid := range uint16(4096) {
		want := vid == 0 || vid == 100 || vid >= 62 && vid <= 66 || vid >= 4090
		if s.Has(vid) != want {
			t.Errorf("Has(%d) = %v", vid, !want)
		}
	}
}

// memberships are those of a few ports, as sets and as rules to compare them with.
var memberships = []struct {
	set    *VLANSet
	member func(vid int) bool
}{
	{nil, func(int) bool { return true }},
	{every(2, 1), func(vid int) bool { return vid%2 == 1 }},
	{every(3, 0), func(vid int) bool { return vid%3 == 0 }},
	{every(4094, 100), func(vid int) bool { return vid == 100 }},
	{new(VLANSet), func(int) bool { return false }},
	{every(5, 2), func(vid int) bool { return vid%5 == 2 }},
}

// every returns the VLANs with vid % n == rest.
func every(n, rest uint16) *VLANSet {
	var s VLANSet
	for vid := uint16(1); vid <= maxVLAN; vid++ {
		if vid%n == rest {
			s.Add(vid)
		}
	}
	return &s
}

// TestVLANIsolation tests all VLANs with all pairs of ports: no frame leaves by or enters through a
// port that is not a member, and an address learned in one VLAN is unknown in all others.
func TestVLANIsolation(t *testing.T) {
	var ports []PortParams
	for _, m := range memberships {
		ports = append(ports, PortParams{VLANs: m.set})
	}
	b := mustNew(t, Params{Ports: ports})
	home := func(vid int) (port int) { // alice's port: in each VLAN its last member
		for p, m := range memberships {
			if m.member(vid) {
				port = p
			}
		}
		return port
	}
	for vid := 1; vid <= maxVLAN; vid++ {
		// Before alice is learned in this VLAN: she is known in all lower ones, and must not be
		// found through them.
		checkVLAN(t, b, vid, -1)
		b.decide(0, home(vid), tagged(alice, frame.Broadcast, uint16(vid)))
	}
	for vid := 1; vid <= maxVLAN; vid++ {
		checkVLAN(t, b, vid, home(vid))
	}
}

// checkVLAN sends a broadcast, and a frame to alice, into every port. alice is on port home; -1:
// not known.
func checkVLAN(t *testing.T, b *Bridge, vid, home int) {
	t.Helper()
	for in, m := range memberships {
		var others []uint16
		for p, m := range memberships {
			if p != in && m.member(vid) {
				others = append(others, uint16(p))
			}
		}
		for _, dst := range []frame.MAC{frame.Broadcast, alice} {
			got := b.decide(0, in, tagged(carol, dst, uint16(vid)))
			want := verdict{decision{Out: Flood}, others}
			switch {
			case !m.member(vid):
				want = verdict{decision: decision{Out: Nowhere, Reason: VLANIngress}}
			case dst == alice && home == in, len(others) == 0:
				want = verdict{decision: decision{Out: Nowhere, Reason: NoDestination}}
			case dst == alice && home >= 0:
				want = verdict{decision: decision{Out: int32(home)}}
			}
			if got.Out != want.Out || got.Reason != want.Reason || !slices.Equal(sorted(got.Flood), want.Flood) {
				t.Fatalf("VLAN %d, port %d to %v: %+v, want %+v", vid, in, dst, got, want)
			}
		}
	}
}

// TestNoFloodWithoutMembership: where a port has no ordinary VLAN, there are no other members.
func TestNoFloodWithoutMembership(t *testing.T) {
	some := PortParams{VLANs: vlans(1, 10, 20)}
	b := mustNew(t, Params{Ports: []PortParams{{}, some, some}, FCoE: vlans(20)})
	for _, c := range []struct {
		port int
		vid  uint16
		want []uint16
	}{
		{1, 10, []uint16{0, 2}}, {1, 30, nil}, {1, 20, nil}, {0, 20, nil}, {0, 4095, nil}, {1, 4095, nil},
		{0, 30, nil},
	} {
		if got := sorted(b.Others(c.port, c.vid)); !slices.Equal(got, c.want) {
			t.Errorf("port %d, VLAN %d: %d, want %d", c.port, c.vid, got, c.want)
		}
	}
}

func TestUntaggedFramesAreInThePVID(t *testing.T) {
	b := mustNew(t,
		Params{Ports: []PortParams{{}, {PVID: 20}, {VLANs: vlans(20)}, {VLANs: vlans(1)},
			{VLANs: vlans(30), PVID: 31}}})
	for _, c := range []struct {
		in  int
		out []uint16
	}{{0, []uint16{1, 3}}, {1, []uint16{0, 2}}} {
		for _, h := range []*frame.Header{untagged(alice, frame.Broadcast), tagged(alice, frame.Broadcast, 0)} {
			if d := b.decide(0, c.in, h); !slices.Equal(sorted(d.Flood), c.out) {
				t.Errorf("port %d, tagged %v: %+v, want ports %d", c.in, h.Tagged, d, c.out)
			}
		}
	}
	if d := b.decide(0, 4, untagged(alice, frame.Broadcast)); d.Reason != VLANIngress {
		t.Errorf("untagged on a port that is no member of its PVID: %+v", d)
	}
	if d := b.decide(0, 0, &frame.Header{Src: alice, Dst: bob, Tagged: true, VID: 4095}); d.Reason != VLANIngress {
		t.Errorf("VLAN 4095: %+v", d)
	}
}

// TestUntaggedPort accepts only frames without a VLAN in their tag; even its own VLAN is refused.
// Behind that tag there could be another one, which would count after a trunk has removed the
// first.
func TestUntaggedPort(t *testing.T) {
	access := new(VLANSet)
	access.Add(10)
	b, err := New(Params{Ports: []PortParams{{VLANs: access, PVID: 10, Untagged: true, Tagged: new(VLANSet)}, {}}})
	if err != nil {
		t.Fatal(err)
	}
	for vid, want := range map[uint16]Reason{0: Forwarded, 10: VLANIngress, 11: VLANIngress} {
		h := frame.Header{Dst: frame.Broadcast, Src: 0x0200_0000_0001, VID: vid, Tagged: vid != 0}
		if got := b.decide(0, 0, &h).Reason; got != want {
			t.Errorf("VLAN %d in the tag: %v, want %v", vid, got, want)
		}
	}
}
