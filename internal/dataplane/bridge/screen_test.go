package bridge

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

// layered is a frame with tags, the outermost first.
type layered struct {
	tags []layer
	kind uint16 // EtherType behind them
}

type layer struct{ kind, vid uint16 }

func drawLayered(t *rapid.T) (l layered) {
	kinds := rapid.SampledFrom([]uint16{frame.TypeVLAN, frame.TypeSTag, frame.TypeQinQ})
	vids := rapid.SampledFrom([]uint16{0, 1, 10, fcoeVLAN})
	most := rapid.SampledFrom([]int{0, 1, 1, 2, 3, 12}).Draw(t, "most tags")
	for range rapid.IntRange(min(1, most), most).Draw(t, "tags") {
		l.tags = append(l.tags, layer{kinds.Draw(t, "kind"), vids.Draw(t, "VID")})
	}
	l.kind = rapid.SampledFrom([]uint16{frame.TypeIPv4, frame.TypeIPv6, 0x0806, frame.TypeMACControl, frame.TypeFCoE,
		frame.TypeFCoE, frame.TypeFIP, frame.TypeLLDP, frame.TypeLoopback}).Draw(t, "type")
	return l
}

func (l layered) bytes() []byte {
	b := make([]byte, 12)
	for _, tag := range l.tags {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, tag.kind), tag.vid)
	}
	return append(binary.BigEndian.AppendUint16(b, l.kind), make([]byte, 46)...)
}

// stops reports whether a frame stops at a port with a PVID. fcoe is nil if FCoE is ordinary
// traffic.
func (l layered) stops(wire bool, fcoe *VLANSet, pvid uint16) bool {
	vlan, behind := pvid, l.tags
	if len(behind) > 0 && behind[0].kind == frame.TypeVLAN {
		priority := behind[0].vid == 0
		if !priority {
			vlan = behind[0].vid
		}
		behind = behind[1:]
		if len(behind) > 0 && priority && !wire {
			return true
		}
	}
	storage := l.kind == frame.TypeFCoE || l.kind == frame.TypeFIP
	switch {
	case len(behind) > 0:
		return fcoe != nil && (storage || len(behind) > 8)
	case storage:
		return fcoe != nil && (l.kind == frame.TypeFIP || !fcoe.Has(vlan))
	}
	return l.kind == frame.TypeMACControl
}

// TestScreen compares a Screen with the rules for frames with any tags: MAC control and FIP stop at
// their port, and so does FCoE off its VLANs, or behind tags that could lead there. No other type
// stops, and the frames of most traffic don't even seem to.
func TestScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pvid := rapid.SampledFrom([]uint16{1, fcoeVLAN}).Draw(t, "PVID")
		p := Params{Ports: []PortParams{{PVID: pvid, Peer: -1}}}
		switch rapid.IntRange(0, 3).Draw(t, "bridge") {
		case 0:
			p.Mode = Wire
		case 1:
			p.FCoE = new(VLANSet)
		case 2:
			p.FCoE = vlans(10, fcoeVLAN)
		}
		s := mustNew(t, p).Screen(0)
		if s.FCoE() != (p.FCoE != nil) {
			t.Fatalf("FCoE: %v, with the FCoE VLANs %v", s.FCoE(), p.FCoE)
		}
		for range 50 {
			l := drawLayered(t)
			b := l.bytes()
			var h frame.Header
			if problem := frame.Parse(b, &h); problem != frame.OK && problem != frame.STagged {
				t.Fatal(problem)
			}
			want := l.stops(p.Mode == Wire, p.FCoE, pvid)
			if got := s.Stops(b, &h); got != want {
				t.Fatalf("%+v at a port with PVID %d, FCoE VLANs %v, mode %d: stops %v", l, pvid, p.FCoE, p.Mode, got)
			}
			plain := slices.Contains([]uint16{frame.TypeIPv4, frame.TypeIPv6, 0x0806}, h.Type)
			if may := s.MayStop(&h); want && !may || plain && may {
				t.Fatalf("%+v: may stop %v", l, may)
			}
		}
	})
}

// TestScreenOfCutTags: a frame that ends in its second tag leads into no FCoE VLAN.
func TestScreenOfCutTags(t *testing.T) {
	s := mustNew(t, Params{Ports: make([]PortParams, 1), FCoE: vlans(fcoeVLAN)}).Screen(0)
	b := layered{[]layer{{frame.TypeVLAN, 10}, {frame.TypeVLAN, 10}}, frame.TypeFCoE}.bytes()
	var h frame.Header
	frame.Parse(b, &h)
	if whole, cut := s.Stops(b, &h), s.Stops(b[:20], &h); !whole || cut {
		t.Errorf("stops %v, cut off in the second tag %v; want true, false", whole, cut)
	}
}
