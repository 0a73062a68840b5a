package bridge

import (
	"bytes"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"

	"sluice/internal/frame"
)

// leave gives a frame the room that Rewrite needs, and returns the frame as it leaves.
func leave(e *Egress, b []byte, vid uint16, cos uint8) []byte {
	room := append(make([]byte, frame.TagLength), b...)
	if e == nil {
		return b
	}
	return room[e.Rewrite(room, vid, cos):]
}

// drawArrival draws a received frame: the sample, its VLAN and its class.
func drawArrival(t *rapid.T) (s sample, vid uint16, cos uint8) {
	s = drawSample(t)
	vid = s.vid
	if !s.tagged || vid == 0 {
		vid = rapid.Uint16Range(1, maxVLAN).Draw(t, "PVID")
	}
	return s, vid, rapid.Uint8Range(0, 7).Draw(t, "class of service")
}

func drawRemark(t *rapid.T) (r Remark) {
	if rapid.Bool().Draw(t, "remark PCP") {
		r.PCP = new([8]uint8)
		copy(r.PCP[:], rapid.SliceOfN(rapid.Uint8Range(0, 7), 8, 8).Draw(t, "PCP"))
	}
	if rapid.Bool().Draw(t, "remark DSCP") {
		r.DSCP = new([8]uint8)
		copy(r.DSCP[:], rapid.SliceOfN(rapid.Uint8Range(0, 63), 8, 8).Draw(t, "DSCP"))
	}
	return r
}

// TestRewrite: the frame that leaves is the one that gopacket builds from the expected values.
func TestRewrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, vid, cos := drawArrival(t)
		p := PortParams{Remark: drawRemark(t)}
		came := s.bytes()
		want := s
		switch rapid.SampledFrom([]string{"as it came", "tagged", "untagged"}).Draw(t, "leaves") {
		case "tagged":
			p.Tagged = vlans(vid)
			if want.tagged, want.vid = true, vid; !s.tagged {
				want.pcp = cos
			}
		case "untagged":
			p.Tagged = vlans(vid%maxVLAN + 1)
			want.tagged = false
		}
		if p.Remark.PCP != nil {
			want.pcp = p.Remark.PCP[cos]
		}
		if p.Remark.DSCP != nil {
			want.class = p.Remark.DSCP[cos]<<2 | s.class&3
		}
		got := leave(newEgress(&p), came, vid, cos)
		// Both are padded to 60 bytes with zeros; a frame without its tag may have a few more.
		wanted := want.bytes()
		if len(got) < 60 || !bytes.Equal(bytes.TrimRight(got, "\x00"), bytes.TrimRight(wanted, "\x00")) {
			t.Fatalf("%+v in VLAN %d of class %d through %+v:\n% x, want\n% x", s, vid, cos, p, got, wanted)
		}
	})
}

// TestPlainPortsHaveNoEgress: a port that changes nothing adds no cost to its frames.
func TestPlainPortsHaveNoEgress(t *testing.T) {
	b := mustNew(t, Params{Ports: []PortParams{
		{}, {Tagged: new(VLANSet)}, {Remark: Remark{PCP: new([8]uint8)}}, {VLANs: vlans(7), PVID: 7},
	}})
	for port, want := range []bool{false, true, true, false} {
		if got := b.Egress(port) != nil; got != want {
			t.Errorf("port %d: %v", port, got)
		}
	}
}

// TestGrowth: frames can grow only on a port on which some VLAN leaves with a tag.
func TestGrowth(t *testing.T) {
	b := mustNew(t, Params{Ports: []PortParams{
		{}, {Tagged: new(VLANSet)}, {Remark: Remark{PCP: new([8]uint8)}}, {Tagged: vlans(4094)},
	}})
	for port, want := range []int{0, 0, 0, 4} {
		if got := b.Egress(port).Growth(); got != want {
			t.Errorf("port %d: %d bytes, want %d", port, got, want)
		}
	}
}

// TestAccessAndTrunk has, for each VLAN, a host on an access port, one on a port whose native VLAN
// it is, and a trunk. Each receives what the others send, tagged as its port requires, and a host
// in another VLAN receives nothing.
func TestAccessAndTrunk(t *testing.T) {
	const access, native, trunk, stranger = 0, 1, 2, 3
	for vid := uint16(1); vid <= maxVLAN; vid++ {
		other := vid%maxVLAN + 1
		allBut := new(VLANSet)
		allBut.AddRange(1, vid-1)
		allBut.AddRange(vid+1, maxVLAN)
		all := new(VLANSet)
		all.AddRange(1, maxVLAN)
		ports := []PortParams{
			access:   {VLANs: vlans(vid), PVID: vid, Tagged: new(VLANSet)},
			native:   {PVID: vid, Tagged: allBut},
			trunk:    {PVID: other, Tagged: all},
			stranger: {VLANs: vlans(other), PVID: other, Tagged: new(VLANSet)},
		}
		b := mustNew(t, Params{Ports: ports, Capacity: 16})
		for in := range ports[:stranger] {
			sent := sample{src: alice, dst: frame.Broadcast, tagged: in == trunk, vid: vid, ip: 4,
				payload: make([]byte, 40)}.bytes()
			d := b.decide(0, in, header(sent))
			if len(d.Flood) != 2 {
				t.Fatalf("VLAN %d from port %d: %+v", vid, in, d)
			}
			for _, out := range d.Flood {
				got := header(leave(b.Egress(int(out)), sent, b.VLAN(in, header(sent).VID), 0))
				if out == stranger || got.Tagged != (out == trunk) || got.Tagged && got.VID != vid ||
					got.Type != frame.TypeIPv4 {
					t.Fatalf("VLAN %d from port %d to %d: %+v", vid, in, out, got)
				}
			}
		}
		wrong := tagged(alice, frame.Broadcast, other)
		if d := b.decide(0, access, wrong); d.Reason != VLANIngress {
			t.Fatalf("VLAN %d into the access port of VLAN %d: %+v", other, vid, d)
		}
	}
}

// FuzzRewrite sends every frame that Parse accepts through every kind of port. None panics, and for
// gopacket the frame leaves with the same addresses and type, and with the tag that the port
// requires.
func FuzzRewrite(f *testing.F) {
	f.Add(sample{tagged: true, vid: 5, ip: 4, class: 1}.bytes(), uint16(5), uint8(3), uint8(0))
	f.Add(sample{ip: 6, payload: make([]byte, 9)}.bytes(), uint16(5), uint8(3), uint8(1))
	f.Add(sample{tagged: true}.bytes()[:18], uint16(4094), uint8(7), uint8(2))
	f.Fuzz(func(t *testing.T, came []byte, vid uint16, cos, kind uint8) {
		var h frame.Header
		if frame.Parse(came, &h) != frame.OK || h.Type == frame.TypeVLAN || h.Type == frame.TypeSTag {
			return // gopacket would go on behind a second tag
		}
		vid = vid%maxVLAN + 1
		p := PortParams{Remark: Remark{PCP: &[8]uint8{3: 1}, DSCP: &[8]uint8{3: 46}}}
		wantTag := h.Tagged
		switch kind % 3 {
		case 1:
			p.Tagged, wantTag = vlans(vid), true
		case 2:
			p.Tagged, wantTag = new(VLANSet), false
		}
		got := leave(newEgress(&p), came, vid, cos)
		packet := gopacket.NewPacket(got, layers.LayerTypeEthernet, gopacket.NoCopy)
		tag, isTagged := packet.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q)
		if isTagged != wantTag || isTagged && kind%3 == 1 && tag.VLANIdentifier != vid {
			t.Fatalf("% x left as % x: tag %v, want %v", came, got, tag, wantTag)
		}
		after := header(got)
		if after.Dst != h.Dst || after.Src != h.Src || after.Type != h.Type {
			t.Fatalf("%+v left as %+v", h, after)
		}
	})
}

func TestRewriteAllocatesNothing(t *testing.T) {
	push := newEgress(&PortParams{Tagged: vlans(5), Remark: Remark{DSCP: new([8]uint8), PCP: new([8]uint8)}})
	pop := newEgress(&PortParams{Tagged: new(VLANSet)})
	room := append(make([]byte, frame.TagLength), sample{ip: 4, payload: make([]byte, 60)}.bytes()...)
	if allocs := testing.AllocsPerRun(100, func() {
		if push.Rewrite(room, 5, 3) != 0 {
			t.Fatal("not pushed")
		}
		frame.Pop(room)
		pop.Rewrite(room, 5, 3)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkRewrite(b *testing.B) {
	room := append(make([]byte, frame.TagLength), sample{ip: 4, payload: make([]byte, 60)}.bytes()...)
	for _, c := range []struct {
		name string
		p    PortParams
	}{
		{"push", PortParams{Tagged: vlans(5)}},
		{"nothing to pop", PortParams{Tagged: new(VLANSet)}},
		{"DSCP", PortParams{Remark: Remark{DSCP: new([8]uint8)}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := newEgress(&c.p)
			for b.Loop() {
				if e.Rewrite(room, 5, 3) == 0 {
					frame.Pop(room)
				}
			}
		})
	}
}
