package bridge

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

const (
	alice frame.MAC = 0x0200_0000_000a
	bob   frame.MAC = 0x0200_0000_000b
	carol frame.MAC = 0x0200_0000_000c
)

func mustNew(t rapid.TB, p Params) *Bridge {
	t.Helper()
	b, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// untagged returns a frame without a tag.
func untagged(src, dst frame.MAC) *frame.Header {
	return &frame.Header{Src: src, Dst: dst, Type: frame.TypeIPv4, Payload: 14}
}

// tagged returns a frame in a VLAN, or a priority-tagged one with vid 0.
func tagged(src, dst frame.MAC, vid uint16) *frame.Header {
	return &frame.Header{Src: src, Dst: dst, Type: frame.TypeIPv4, Payload: 18, Tagged: true, VID: vid}
}

func vlans(vids ...uint16) *VLANSet {
	var s VLANSet
	for _, vid := range vids {
		s.Add(vid)
	}
	return &s
}

// sorted returns a flood list in order of port numbers.
func sorted(ports []uint16) []uint16 {
	s := slices.Clone(ports)
	slices.Sort(s)
	return s
}

func TestLearnsAndForwards(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 3)})
	d := b.decide(0, 0, untagged(alice, bob))
	if d.Out != Flood || !slices.Equal(sorted(d.Flood), []uint16{1, 2}) || !d.Learned {
		t.Fatalf("the first frame, to a station not known yet: %+v; want it flooded to 1 and 2, and learned", d)
	}
	if d = b.decide(1, 1, untagged(bob, alice)); d.Out != 0 || !d.Learned || d.Reason != Forwarded {
		t.Fatalf("the answer: %+v; want port 0", d)
	}
	if d = b.decide(2, 0, untagged(alice, bob)); d.Out != 1 || d.Learned {
		t.Fatalf("the next frame: %+v; want port 1 and nothing learned", d)
	}
	if d = b.decide(3, 1, untagged(carol, bob)); d.Out != Nowhere || d.Reason != NoDestination || !d.Learned {
		t.Fatalf("to a station on the ingress port: %+v; want it dropped, its source learned", d)
	}
}

// us is the bridge's unit of time, in ns: nearly a microsecond.
const us = 1 << tickShift

func TestAgeingIsExact(t *testing.T) {
	const ageing = 1000 * us
	for _, at := range []struct {
		age int64
		out int32
	}{{0, 0}, {ageing - 1, 0}, {ageing, 0}, {ageing + us - 1, 0}, {ageing + us, Flood}, {10 * ageing, Flood}} {
		b := mustNew(t, Params{Ports: make([]PortParams, 2), Ageing: ageing})
		const seen = -77 * us // the start of time is arbitrary
		b.decide(seen, 0, untagged(alice, bob))
		if d := b.decide(seen+at.age, 1, untagged(carol, alice)); d.Out != at.out {
			t.Errorf("%d ns after the station was seen: out %d, want %d", at.age, d.Out, at.out)
		}
	}
}

// TestAgeingToTheSecond: an address that falls silent is known for 300 s, even a year after the
// start, and one that sends every 299 s is always known.
func TestAgeingToTheSecond(t *testing.T) {
	for _, start := range []int64{0, -1e9, 365 * 86400e9} {
		b := mustNew(t, Params{Ports: make([]PortParams, 3)})
		b.decide(start, 0, untagged(alice, bob))
		for s := range int64(600) {
			if s%299 == 0 {
				b.decide(start+s*1e9, 1, untagged(bob, carol))
			}
			want := int32(0)
			if s > 300 {
				want = Flood
			}
			if d := b.decide(start+s*1e9, 2, untagged(carol, alice)); d.Out != want {
				t.Fatalf("start %d: %d s after the last frame: out %d, want %d", start, s, d.Out, want)
			}
			if d := b.decide(start+s*1e9, 2, untagged(carol, bob)); d.Out != 1 {
				t.Fatalf("start %d: %d s: %+v for a station that still sends", start, s, d)
			}
		}
	}
}

func TestMoveIsFollowedAndCounted(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 3)})
	b.decide(0, 0, untagged(alice, bob))
	if d := b.decide(1, 2, untagged(alice, bob)); !d.Learned {
		t.Errorf("a station that moved is no news: %+v", d)
	}
	if d := b.decide(2, 1, untagged(bob, alice)); d.Out != 2 {
		t.Errorf("a frame to a station that moved: %+v, want port 2", d)
	}
	if s := b.Stats(); s.Moved != 1 || s.Learned != 2 || b.Len() != 2 {
		t.Errorf("%+v with %d entries; want one move, two learned", s, b.Len())
	}
}

func TestAgedEntriesLeaveTheTable(t *testing.T) {
	const ageing = int64(1e9)
	b := mustNew(t, Params{Ports: make([]PortParams, 2), Ageing: ageing})
	for i := range frame.MAC(5000) {
		b.decide(0, 0, untagged(alice+i<<8, frame.Broadcast))
	}
	if b.Len() != 5000 {
		t.Fatalf("%d entries, want 5000", b.Len())
	}
	for now := ageing + us; now <= ageing+ageing/2; now += 50 * us {
		b.decide(now, 1, untagged(bob, alice))
	}
	if s := b.Stats(); b.Len() != 1 || s.Removed != 5000 {
		t.Errorf("%d entries and %+v half the ageing time later; want only the one that still sends", b.Len(), s)
	}
}

func TestForget(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 3)})
	b.decide(0, 0, untagged(alice, frame.Broadcast))
	b.decide(0, 1, untagged(bob, frame.Broadcast))
	b.Forget(us/2, 0)
	if d := b.decide(us/2, 2, untagged(carol, alice)); d.Out != Flood {
		t.Errorf("to a station of the forgotten port: %+v, want a flood", d)
	}
	if d := b.decide(us/2, 2, untagged(carol, bob)); d.Out != 1 {
		t.Errorf("to a station of another port: %+v, want port 1", d)
	}
	if d := b.decide(us, 0, untagged(alice, frame.Broadcast)); !d.Learned {
		t.Errorf("the station is back and that is no news: %+v", d)
	}
	if d := b.decide(us, 2, untagged(carol, alice)); d.Out != 0 {
		t.Errorf("to a station that is back: %+v, want port 0", d)
	}
}

func TestGroupAddressesAreNotLearned(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 2)})
	const group frame.MAC = 0x0300_0000_0001
	if d := b.decide(0, 0, untagged(group, alice)); d.Learned || d.Out != Nowhere {
		t.Errorf("from a group address: %+v", d)
	}
	b.Learn(0, group, 1, 0)
	if d := b.decide(0, 1, untagged(alice, group)); d.Out != Flood {
		t.Errorf("to a group address: %+v, want a flood", d)
	}
	if b.Len() != 1 {
		t.Errorf("%d entries, want only alice", b.Len())
	}
}

// TestReservedAddresses: a bridge filters the addresses of 802.1Q table 8-1, except that of BPDUs;
// a wire filters those of table 8-3.
func TestReservedAddresses(t *testing.T) {
	for mode, stops := range map[Mode][]frame.MAC{
		Learning: {1, 2, 3, 4, 5, 6, 7, 8, 9, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf},
		Wire:     {1, 2, 4, 0xe},
	} {
		b := mustNew(t, Params{Mode: mode, Ports: []PortParams{{Peer: 1}, {Peer: 0}}})
		for last := frame.MAC(0); last <= 0x10; last++ {
			for _, h := range []*frame.Header{untagged(alice, 0x0180_c200_0000+last),
				tagged(alice, 0x0180_c200_0000+last, 7)} {
				d, want := b.decide(0, 0, h), Forwarded
				if slices.Contains(stops, last) {
					want = ReservedAddress
				}
				if stops := want != Forwarded; d.Reason != want || (d.Out == Nowhere) != stops || stops && d.Learned {
					t.Errorf("mode %d, to %v: %+v, want %v", mode, h.Dst, d, want)
				}
			}
		}
		if d := b.decide(0, 0, untagged(alice, 0x0180_c1ff_ffff)); d.Reason != Forwarded {
			t.Errorf("mode %d, to an address before the reserved ones: %+v", mode, d)
		}
	}
}

// TestBPDUsHaveTheirOwnLimit: up to a limit BPDUs have class Control and none of the port's storm
// limits; beyond it, in the same port, they are multicast frames like others.
func TestBPDUsHaveTheirOwnLimit(t *testing.T) {
	for _, mode := range []Mode{Learning, Wire} {
		p := Params{Mode: mode, Ports: []PortParams{{Peer: 1}, {Peer: 0}}}
		if mode == Learning {
			p.Ports[0].Storm = StormParams{Multicast: {Rate: 1, Burst: 3}}
		}
		b := mustNew(t, p)
		send := func(now int64, port int) *Frame {
			f := []Frame{{Header: *untagged(alice+frame.MAC(port), frame.BridgeGroup), Class: 2}}
			b.Forward(now, port, f)
			return &f[0]
		}
		for i := range 100 {
			if f := send(0, 0); f.Reason != Forwarded || f.Class != Control {
				t.Fatalf("mode %d: BPDU %d: %v, class %d", mode, i, f.Reason, f.Class)
			}
		}
		for i := range 4 {
			want := Forwarded
			if i == 3 && mode == Learning {
				want = StormLimit
			}
			if f := send(0, 0); f.Reason != want || f.Class != 2 {
				t.Errorf("mode %d: BPDU %d beyond the limit: %v, class %d; want %v", mode, i, f.Reason, f.Class, want)
			}
		}
		if f := send(0, 1); f.Class != Control {
			t.Errorf("mode %d: the other port's BPDU has class %d", mode, f.Class)
		}
		next, err := b.Successor(b.params)
		if err != nil {
			t.Fatal(err)
		}
		next.TakeOver(0, b)
		if b = next; send(9_999_999, 0).Class != 2 || send(10_000_000, 0).Class != Control {
			t.Errorf("mode %d: want one more BPDU after 10 ms, even with new parameters", mode)
		}
	}
}

// decision is the result for one frame.
type decision struct {
	Out     int32
	Reason  Reason
	Learned bool
}

// verdict is a decision and, for a flooded frame, its egress ports.
type verdict struct {
	decision
	Flood []uint16
}

// decide forwards one frame.
func (b *Bridge) decide(now int64, in int, h *frame.Header) verdict {
	burst := [1]Frame{{Header: *h}}
	b.Forward(now, in, burst[:])
	f := &burst[0]
	v := verdict{decision: decision{f.Out, f.Reason, f.Learned}}
	if v.Out == Flood {
		v.Flood = b.Others(in, h.VID)
	}
	return v
}

// place returns the port of an address in VLAN 1, or Flood. It changes nothing.
func (b *Bridge) place(now int64, mac frame.MAC) int32 {
	if e := b.table.find(keyOf(mac, 1)); e != nil && b.alive(at(now), e) {
		return int32(e.seen.port())
	}
	return Flood
}

func TestWire(t *testing.T) {
	b := mustNew(t, Params{Mode: Wire, Ports: []PortParams{{Peer: 2, VLANs: vlans(1)}, {Peer: -1}, {Peer: 0}}})
	for _, h := range []*frame.Header{
		untagged(alice, bob), tagged(alice, bob, 0), tagged(bob, alice, 4094), untagged(alice, frame.Broadcast),
	} {
		for in, want := range []decision{{Out: 2}, {Out: Nowhere, Reason: NoDestination}, {Out: 0}} {
			if d := b.decide(0, in, h); d.decision != want {
				t.Errorf("%+v from port %d: %+v, want %+v", *h, in, d, want)
			}
		}
	}
	b.Learn(0, alice, 1, 0)
	b.Forget(0, 0)
	if s := b.Stats(); b.Len() != 0 || s != (Stats{}) {
		t.Errorf("a wire learned: %d entries, %+v", b.Len(), s)
	}
}

func TestLearnFromAnotherWorker(t *testing.T) {
	b := mustNew(t, Params{Ports: []PortParams{{}, {VLANs: vlans(1, 5), PVID: 5}}})
	b.Learn(0, alice, 0, 1) // untagged: the port's PVID
	if d := b.decide(0, 0, tagged(carol, alice, 5)); d.Out != 1 {
		t.Errorf("in the port's own VLAN: %+v, want port 1", d)
	}
	if d := b.decide(0, 0, tagged(carol, alice, 1)); d.Out != Flood {
		t.Errorf("in another VLAN: %+v, want a flood", d)
	}
	before := b.Len()
	b.Learn(0, bob, 6, 1)
	if b.Len() != before {
		t.Error("learned in a VLAN that the port is not a member of")
	}
}

// TestLateAnnouncements: an address that was seen elsewhere since stays there. In the same tick, or
// after it has been forgotten, it moves.
func TestLateAnnouncements(t *testing.T) {
	for _, c := range []struct {
		seen, announced int64 // ticks
		forget          bool
		want            int32
	}{{1, 0, false, 0}, {9, 0, false, 0}, {0, 0, false, 1}, {0, 1, false, 1}, {1, 0, true, 1}} {
		b := mustNew(t, Params{Ports: make([]PortParams, 2)})
		b.decide(c.seen*us, 0, untagged(alice, bob))
		if c.forget {
			b.Forget(c.seen*us, 0)
		}
		b.Learn(c.announced*us, alice, 1, 1)
		if out := b.place(c.seen*us, alice); out != c.want {
			t.Errorf("%+v: %d", c, out)
		}
	}
}

// TestAnnouncedInTheTickOfForget: an address that another worker announces is known, although its
// port has forgotten all addresses in the same tick. Frames from it don't change that.
func TestAnnouncedInTheTickOfForget(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 2)})
	b.Forget(0, 0)
	b.Learn(0, alice, 1, 0)
	b.decide(1, 0, untagged(alice, bob))
	if out := b.place(2, alice); out != 0 {
		t.Errorf("to the address after a frame from it: %d, want port 0", out)
	}
	if d := b.decide(3, 0, untagged(alice, alice)); d.Reason != SourceAddress {
		t.Errorf("from the address to itself: %+v", d)
	}
}

func TestNewRefuses(t *testing.T) {
	two := make([]PortParams, 2)
	for _, c := range []struct {
		want string
		p    Params
	}{
		{"mode 2", Params{Mode: 2, Ports: two}},
		{"0 ports", Params{}},
		{"4097 ports", Params{Ports: make([]PortParams, MaxPorts+1)}},
		{"ageing of -1 ns", Params{Ports: two, Ageing: -1}},
		{"ageing of 1000000000000001 ns", Params{Ports: two, Ageing: MaxAgeing + 1}},
		{"capacity of -1", Params{Ports: two, Capacity: -1}},
		{"capacity of 1048577", Params{Ports: two, Capacity: MaxCapacity + 1}},
		{"port 1: PVID 4095", Params{Ports: []PortParams{{}, {PVID: 4095}}}},
		{"port 0: member of VLAN 0", Params{Ports: []PortParams{{VLANs: vlans(0)}}}},
		{"port 0: member of VLAN 0 or 4095", Params{Ports: []PortParams{{VLANs: vlans(4095)}}}},
		{"port 0: peer 2", Params{Mode: Wire, Ports: []PortParams{{Peer: 2}, {}}}},
		{"port 1: peer 1", Params{Mode: Wire, Ports: []PortParams{{Peer: 1}, {Peer: 1}}}},
		{"port 0: peer -2", Params{Mode: Wire, Ports: []PortParams{{Peer: -2}}}},
		{"port 1: tagged VLANs", Params{Mode: Wire, Ports: []PortParams{{Peer: 1}, {Tagged: vlans(5)}}}},
		{"port 0: limit of -1", Params{Ports: []PortParams{{Limit: -1}}}},
		{"port 0: limit of 1048577", Params{Ports: []PortParams{{Limit: MaxCapacity + 1}}}},
		{"port 0: trust 3", Params{Ports: []PortParams{{Classifier: Classifier{Trust: 3}}}}},
		{"port 0: default class 8", Params{Ports: []PortParams{{Classifier: Classifier{Default: 8}}}}},
		{"port 0: class 9 for PCP 2", Params{Ports: []PortParams{{Classifier: Classifier{PCP: [8]uint8{2: 9}}}}}},
		{"port 0: class 8 for DSCP 63", Params{Ports: []PortParams{{Classifier: Classifier{DSCP: [64]uint8{63: 8}}}}}},
		{"port 0: PCP 8 for class 1", Params{Ports: []PortParams{{Remark: Remark{PCP: &[8]uint8{1: 8}}}}}},
		{"port 0: DSCP 64 for class 7", Params{Ports: []PortParams{{Remark: Remark{DSCP: &[8]uint8{7: 64}}}}}},
		{"port 0: storm limit of 1000000001 frames/s for broadcast",
			Params{Ports: []PortParams{{Storm: StormParams{Broadcast: {Rate: 1e9 + 1}}}}}},
		{"port 0: storm burst of -1 frames for multicast",
			Params{Ports: []PortParams{{Storm: StormParams{Multicast: {Rate: 1, Burst: -1}}}}}},
		{"2 static entries in a table of 1", Params{Ports: two, Capacity: 1, Static: make([]StaticEntry, 2)}},
		{"1 static entries: a wire", Params{Mode: Wire, Ports: []PortParams{{Peer: -1}},
			Static: []StaticEntry{{MAC: alice}}}},
		{"static entry 02:00:00:00:00:0a in VLAN 7 on port 2: no such port: choose 0 to 1",
			Params{Ports: two, Static: []StaticEntry{{alice, 7, 2}}}},
		{"static entry 01:00:5e:00:00:01 in VLAN 0 on port 0: a group",
			Params{Ports: two, Static: []StaticEntry{{MAC: 0x0100_5e00_0001}}}},
		{"static entry 02:00:00:00:00:0a in VLAN 4095 on port 0: the port is not a member",
			Params{Ports: two, Static: []StaticEntry{{alice, 4095, 0}}}},
		{"static entry 02:00:00:00:00:0a in VLAN 0 on port 0: the port is not a member",
			Params{Ports: []PortParams{{VLANs: vlans(9)}}, Static: []StaticEntry{{MAC: alice}}}},
		{"static entry 02:00:00:00:00:0a in VLAN 1 occurs twice",
			Params{Ports: two, Static: []StaticEntry{{alice, 0, 0}, {alice, 1, 1}}}},
	} {
		if b, err := New(c.p); b != nil || err == nil || !strings.HasPrefix(err.Error(), "bridge: "+c.want) {
			t.Errorf("error %v, want one about %s", err, c.want)
		}
	}
}

// TestNewTakesExtremes: the ends of all ranges are valid.
func TestNewTakesExtremes(t *testing.T) {
	most := func() PortParams {
		return PortParams{
			PVID: maxVLAN, VLANs: vlans(1, maxVLAN), Tagged: vlans(1, maxVLAN), Limit: MaxCapacity,
			Classifier: Classifier{Trust: TrustNothing, Default: 7, PCP: [8]uint8{7: 7}, DSCP: [64]uint8{63: 7}},
			Remark:     Remark{PCP: &[8]uint8{7: 7}, DSCP: &[8]uint8{6: 63, 7: Keep}},
			Storm:      StormParams{Broadcast: {Rate: maxFloodRate, Burst: maxFloodBurst}},
		}
	}
	for name, p := range map[string]Params{
		"lowest": {Ports: []PortParams{{PVID: 1, Limit: 1, Storm: StormParams{Broadcast: {Rate: 1, Burst: 1}}}},
			Ageing: 1, Capacity: 1, Static: []StaticEntry{{alice, 1, 0}}},
		"highest": {Ports: []PortParams{most(), most()}, Ageing: MaxAgeing, Capacity: MaxCapacity,
			Static: []StaticEntry{{alice, 0, 1}, {bob, maxVLAN, 0}}, FCoE: vlans(1)},
		"ports": {Mode: Wire, Ports: append([]PortParams{{Peer: -1}}, slices.Repeat([]PortParams{{}}, MaxPorts-1)...)},
		"wire":  {Mode: Wire, Ports: []PortParams{{Peer: 2}, {Peer: -1}, {Peer: 0}}},
	} {
		if _, err := New(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnomalyNames(t *testing.T) {
	for i, want := range []string{"moved", "no_room", "pinned", "own"} {
		if got := Anomaly(i).String(); got != want {
			t.Errorf("anomaly %d is called %s, want %s", i, got, want)
		}
	}
}

func TestReasonNames(t *testing.T) {
	want := []string{"forwarded", "reserved_address", "vlan_ingress", "fcoe_vlan", "fcoe_session",
		"source_address", "no_destination", "storm_limit", "reason(8)"}
	for r := range Reasons + 1 {
		if r.String() != want[r] {
			t.Errorf("reason %d is called %s, want %s", uint8(r), r, want[r])
		}
	}
}

func TestNoAllocations(t *testing.T) {
	learning := mustNew(t, Params{Ports: make([]PortParams, 4), Capacity: 64, Ageing: 1000})
	wire := mustNew(t, Params{Mode: Wire, Ports: []PortParams{{Peer: 1}, {Peer: 0}}})
	var now int64
	src := alice
	allocs := testing.AllocsPerRun(10_000, func() {
		now += 7
		src = (src + 0x100) & 0x02ff_ffff_ffff
		in := int(now) & 3
		learning.decide(now, in, untagged(src, src-0x300)) // new addresses, known and unknown ones, a full table
		learning.decide(now, in, untagged(alice, frame.Broadcast))
		learning.Learn(now, src, 0, in)
		if now%100 == 0 {
			learning.Forget(now, in)
		}
		wire.decide(now, 0, untagged(src, bob))
	})
	if allocs != 0 {
		t.Errorf("%v allocations per run, want none", allocs)
	}
	if s := learning.Stats(); s.TableFull == 0 || s.Removed == 0 || s.Moved == 0 || s.Unknown == 0 {
		t.Errorf("not everything was exercised: %+v", s)
	}
}

// TestForwardEndsWhereFollowersDiffer: Forward decides for followers wherever its decision holds
// for each of them, and otherwise ends behind the frame that it has decided alone.
func TestForwardEndsWhereFollowersDiffer(t *testing.T) {
	last := Frame{Header: *untagged(alice, bob)}
	for name, c := range map[string]struct {
		h     *frame.Header
		alone bool
	}{
		"known to known":    {untagged(alice, bob), false},
		"not a member":      {tagged(alice, bob, 4095), false},
		"reserved":          {untagged(alice, 0x0180_c200_000e), false},
		"broadcast":         {untagged(alice, frame.Broadcast), true},
		"to an unknown one": {untagged(alice, stranger(2)), true},
		"from an unknown":   {untagged(stranger(3), bob), true},
		"to its own port":   {untagged(carol, alice), true},
		"to itself":         {untagged(alice, alice), true},
		"of the switch":     {untagged(stranger(1), bob), true}, // each counts as one of a loop
		"from a group":      {untagged(frame.Broadcast, bob), true},
	} {
		for _, followers := range []uint8{0, 3} {
			b := mustNew(t, Params{Ports: []PortParams{{}, {}, {VLANs: vlans(5)}}})
			b.SetOwn(1, stranger(1))
			b.decide(0, 0, untagged(alice, frame.Broadcast))
			b.decide(0, 1, untagged(bob, frame.Broadcast))
			frames := []Frame{last, {Header: *c.h, Followers: followers}, last}
			want, alone := 3, false
			if c.alone && followers > 0 {
				want, alone = 2, true
			}
			if n, is := b.Forward(1, 0, frames); n != want || is != alone {
				t.Errorf("%s, %d followers: %d decided, alone %v; want %d, %v", name, followers, n, is, want, alone)
			}
		}
	}
	wire := mustNew(t, Params{Mode: Wire, Ports: []PortParams{{Peer: 1}, {Peer: 0}}})
	if n, alone := wire.Forward(0, 0, []Frame{{Followers: 3}, last}); n != 2 || alone {
		t.Errorf("on a wire: %d decided, alone %v", n, alone)
	}
}
