package dataplane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"sluice/internal/bridge"
	"sluice/internal/frame"
)

// packet is an IPv4 packet in a frame, written and read by gopacket, so that what the switch makes
// of it has another judge.
type packet struct {
	dst, src frame.MAC
	tagged   bool
	vid      uint16
	pcp      uint8
	class    uint8 // DSCP and ECN
	payload  string
}

func (p packet) bytes(t *testing.T) []byte {
	t.Helper()
	eth := &layers.Ethernet{DstMAC: hardware(p.dst), SrcMAC: hardware(p.src), EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, TOS: p.class, TTL: 64, Protocol: layers.IPProtocolSCTP, SrcIP: net.IP{10, 0, 0, 1},
		DstIP: net.IP{10, 0, 0, 2}}
	stack := []gopacket.SerializableLayer{eth}
	if p.tagged {
		eth.EthernetType = layers.EthernetTypeDot1Q
		stack = append(stack, &layers.Dot1Q{VLANIdentifier: p.vid, Priority: p.pcp, Type: layers.EthernetTypeIPv4})
	}
	b := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(b, options, append(stack, ip, gopacket.Payload(p.payload))...); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b.Bytes())
}

func hardware(m frame.MAC) net.HardwareAddr {
	b := make([]byte, 6)
	m.Put(b)
	return b
}

// decode reads a frame of packet.bytes. The IPv4 checksum must be that of the header as it is.
func decode(t *testing.T, b []byte) (p packet) {
	t.Helper()
	read := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
	eth := read.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	ip, ok := read.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
	if !ok || len(b) < 60 {
		t.Fatalf("no packet, or one of less than 60 bytes: % x", b)
	}
	p = packet{dst: frame.MACFrom(eth.DstMAC), src: frame.MACFrom(eth.SrcMAC), class: ip.TOS,
		payload: string(ip.Payload)}
	if tag, ok := read.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q); ok {
		p.tagged, p.vid, p.pcp = true, tag.VLANIdentifier, tag.Priority
	}
	sum := uint32(0) // RFC 1071: over a header with its checksum, all ones
	for h := ip.Contents; len(h) > 0; h = h[2:] {
		sum += uint32(binary.BigEndian.Uint16(h))
	}
	if sum>>16+sum&0xffff != 0xffff {
		t.Fatalf("wrong IPv4 checksum: % x", ip.Contents)
	}
	return p
}

// tagging is a port of kindsRig as a person would describe it.
type tagging struct {
	name  string
	pvid  uint16
	cos   uint8 // of untagged frames
	vlans []uint16
	tags  bool  // a trunk
	as    bool  // frames leave as they came
	marks uint8 // taken from 7 to find the PCP of a tag that leaves: 7, or 0 for a port that doesn't remark
}

var kinds = []tagging{
	{name: "access 10", pvid: 10, cos: 2, vlans: []uint16{10}},
	{name: "trunk with native 10", pvid: 10, cos: 1, vlans: []uint16{10, 20}, tags: true},
	{name: "trunk that remarks", pvid: 30, vlans: []uint16{10, 20, 30}, tags: true, marks: 7},
	{name: "access 20", pvid: 20, cos: 5, vlans: []uint16{20}},
	{name: "transparent", pvid: 10, cos: 4, vlans: []uint16{10, 20, 30}, as: true},
}

func (k tagging) member(vid uint16) bool { return bytes.Contains(vidBytes(k.vlans...), vidBytes(vid)) }

// vidBytes writes VLANs below 256 as a string of bytes.
func vidBytes(vids ...uint16) (b []byte) {
	for _, v := range vids {
		b = append(b, byte(v))
	}
	return b
}

// leaves is what a packet that came in at a port is when it leaves at another.
func (k tagging) leaves(p packet, in tagging) packet {
	vid, cos := in.sees(p)
	switch {
	case k.as:
		return p
	case !k.tags || vid == k.pvid:
		p.tagged, p.vid, p.pcp = false, 0, 0
		return p
	case !p.tagged:
		p.pcp = cos
	}
	p.tagged, p.vid = true, vid
	if k.marks != 0 {
		p.pcp = k.marks - cos
	}
	return p
}

// sees is the VLAN and the class of a packet that comes in.
func (k tagging) sees(p packet) (vid uint16, cos uint8) {
	vid, cos = p.vid, k.cos
	if vid == 0 {
		vid = k.pvid
	}
	if p.tagged {
		cos = p.pcp
	}
	return vid, cos
}

// kindsRig has a port of each kind.
func kindsRig(t *testing.T, workers int) *rig {
	return newRig(t, len(kinds), workers, func(p *Params) {
		for i, k := range kinds {
			port := &p.Bridge.Ports[i]
			port.PVID, port.VLANs, port.Classifier = k.pvid, new(bridge.VLANSet), bridge.PlainClassifier()
			port.Classifier.Default = k.cos
			if !k.as {
				port.Tagged = new(bridge.VLANSet)
			}
			for _, vid := range k.vlans {
				port.VLANs.Add(vid)
				if k.tags && vid != k.pvid {
					port.Tagged.Add(vid)
				}
			}
			if k.marks != 0 {
				port.Remark.PCP = &[8]uint8{7, 6, 5, 4, 3, 2, 1, 0}
			}
		}
	})
}

// TestLinkKinds sends packets in at every kind of port, known and unknown, tagged and not, and says
// for every port what is to come out of it. A flooded one leaves in a form of its own everywhere.
func TestLinkKinds(t *testing.T) {
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			r := kindsRig(t, workers)
			r.introduceKinds()
			rng := rand.New(rand.NewPCG(1, uint64(workers)))
			flooded, unicast, refused := 0, 0, uint64(0)
			for n := range 600 {
				in, to := rng.IntN(len(kinds)), rng.IntN(len(kinds)+2) // the last two are nobody and everybody
				p := packet{src: station0(in), dst: station0(to), class: uint8(rng.UintN(256)),
					payload: fmt.Sprint("packet ", n)}
				if to == len(kinds)+1 {
					p.dst = frame.Broadcast
				}
				if p.tagged = rng.IntN(2) == 0; p.tagged {
					p.vid, p.pcp = []uint16{0, 10, 20, 30}[rng.IntN(4)], uint8(rng.UintN(8))
				}
				vid, _ := kinds[in].sees(p)
				for i := range r.inboxes {
					r.inboxes[i] = nil
				}
				r.send(in, p.bytes(t))
				r.run(4000)
				if !kinds[in].member(vid) {
					refused++
				}
				known := to < len(kinds) && kinds[to].member(vid)
				for out, k := range kinds {
					goes := kinds[in].member(vid) && k.member(vid) && out != in && (!known || out == to)
					r.wantPacket(out, goes, k.leaves(p, kinds[in]), fmt.Sprintf("%s to %s: %+v", kinds[in].name, k.name,
						p))
					if goes && known {
						unicast++
					} else if goes {
						flooded++
					}
				}
			}
			if got := r.lost(DropVLANIngress); got != refused || refused == 0 || flooded < 100 || unicast < 100 {
				t.Errorf("%d frames refused, want %d; %d flooded, %d not", got, refused, flooded, unicast)
			}
			r.idle()
		})
	}
}

// introduceKinds teaches the switch where the stations are, in each VLAN.
func (r *rig) introduceKinds() {
	for i, k := range kinds {
		for _, vid := range k.vlans {
			r.send(i, packet{dst: frame.Broadcast, src: station0(i), tagged: true, vid: vid}.bytes(r.t))
		}
	}
	r.run(20_000)
}

// wantPacket tests that a port has sent a packet, or nothing.
func (r *rig) wantPacket(port int, any bool, want packet, what string) {
	r.t.Helper()
	switch got := r.inboxes[port]; {
	case !any && len(got) != 0:
		r.t.Fatalf("%s: must not pass", what)
	case any && len(got) != 1:
		r.t.Fatalf("%s: %d frames arrived, want one", what, len(got))
	case any:
		if got := decode(r.t, got[0]); got != want {
			r.t.Fatalf("%s:\nleft as %+v\nwant    %+v", what, got, want)
		}
	}
}

// sTag returns a frame with an S-tag in front of the tag that it may have.
func sTag(b []byte, vid uint16, pcp uint8) []byte {
	tagged := append(make([]byte, frame.TagLength), b...)
	frame.Push(tagged, vid, pcp)
	binary.BigEndian.PutUint16(tagged[12:], frame.TypeSTag)
	return tagged
}

// sTagRig has ports that take S-tags: one of VLAN 10 whose frames leave as they came, an access
// port and a native trunk of it, a trunk that tags it, and one of another VLAN.
func sTagRig(t *testing.T) *rig {
	return newRig(t, 5, 1, func(p *Params) {
		for i := range p.Ports {
			port := &p.Bridge.Ports[i]
			port.PVID, port.VLANs, port.Classifier = 10, new(bridge.VLANSet), bridge.PlainClassifier()
			port.VLANs.Add(10)
			port.Classifier.Default, port.Classifier.STags, port.Remark.PCP = 1, true, &[8]uint8{7, 6, 5, 4, 3, 2, 1, 0}
			p.Ports[i].MaxFrame = 1104
		}
		p.Ports[1].MaxFrame = 1100
		p.Bridge.Ports[1].Tagged = new(bridge.VLANSet)
		p.Bridge.Ports[2].Tagged = new(bridge.VLANSet)
		p.Bridge.Ports[2].VLANs.Add(20)
		p.Bridge.Ports[2].Tagged.Add(20)
		trunk, other := &p.Bridge.Ports[3], &p.Bridge.Ports[4]
		trunk.PVID, trunk.Tagged = 20, new(bridge.VLANSet)
		trunk.VLANs.Add(20)
		trunk.Tagged.Add(10)
		other.PVID, other.VLANs = 20, new(bridge.VLANSet)
		other.VLANs.Add(20)
	})
}

// TestSTags: the S-tag tells the class and nothing else. To a bridge of C-VLANs the frame is
// untagged, so it is in the VLAN of the port where it comes in, whatever its tags say, and leaves
// with the S-tag as it came; where that VLAN leaves with a tag, behind a C-tag.
func TestSTags(t *testing.T) {
	for _, trust := range []bridge.Trust{bridge.TrustPCP, bridge.TrustDSCP} {
		for pcp := range uint8(8) {
			for _, vid := range []uint16{0, 1, 20, 4094} {
				for _, inner := range [][]byte{
					data(0, 9, 7-pcp, 200, 1), packet{dst: station0(9), src: station0(0), class: 0xb8,
						payload: "an IP packet that is long enough"}.bytes(t),
				} {
					r := sTagRig(t)
					r.s.Workers[0].ports[0].classifier.Trust = trust
					b := sTag(inner, vid, pcp)
					r.send(0, b)
					r.run(5000)
					p := r.port(0)
					if p.RX[pcp] != 1 || p.Dropped() != 0 {
						t.Fatalf("PCP %d: received by class %v, %d dropped", pcp, p.RX, p.Dropped())
					}
					cTag := append(make([]byte, frame.TagLength), b...)
					frame.Push(cTag, 10, 7-pcp)
					for out, want := range [][]byte{nil, b, b, cTag, nil} {
						got := r.inboxes[out]
						if want == nil && len(got) != 0 || want != nil &&
							(len(got) != 1 || !bytes.Equal(got[0], want)) {
							t.Fatalf("PCP %d, VLAN %d of the S-tag, port %d: % x, want % x", pcp, vid, out, got, want)
						}
					}
					r.idle()
				}
			}
		}
	}
}

// TestSTagsOnAWire: a wire lets them through as they are, if the port where they come in takes
// them.
func TestSTagsOnAWire(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) {
		p.Bridge.Mode = bridge.Wire
		p.Bridge.Ports[0].Peer, p.Bridge.Ports[1].Peer = 1, 0
		p.Bridge.Ports[0].Classifier = bridge.PlainClassifier()
		p.Bridge.Ports[0].Classifier.STags = true
	})
	b := sTag(data(0, 1, 0, 100, 0), 100, lossless)
	r.send(0, b)
	r.send(1, b)
	r.run(3000)
	if len(r.inboxes[1]) != 1 || !bytes.Equal(r.inboxes[1][0], b) || r.port(0).RX[lossless] != 1 {
		t.Errorf("arrived % x, want % x; received by class %v", r.inboxes[1], b, r.port(0).RX)
	}
	r.wantDrops(1, map[string]uint64{"s_tag/0": 1})
	r.idle()
}

// TestOtherTagsAreTypes: a TPID that is neither that of C-tags nor that of S-tags is an EtherType
// like any other.
func TestOtherTagsAreTypes(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	b := sTag(data(0, 1, 0, 100, 0), 100, 6)
	binary.BigEndian.PutUint16(b[12:], 0x9100)
	r.send(0, b)
	r.run(3000)
	if len(r.inboxes[1]) != 1 || !bytes.Equal(r.inboxes[1][0], b) || r.port(0).RX[0] != 1 {
		t.Errorf("arrived % x, want % x; received by class %v", r.inboxes[1], b, r.port(0).RX)
	}
	r.idle()
}

// TestLongestWithTwoTags: a port that takes frames with an S-tag and a C-tag takes longer ones. Its
// neighbour may not, and to a trunk they are untagged: it has to have room for the C-tag that it
// may put in front.
func TestLongestWithTwoTags(t *testing.T) {
	r := sTagRig(t)
	for _, length := range []int{1096, 1097, 1100, 1101} {
		r.send(0, sTag(data(0, 9, 0, length, 0), 100, 0))
	}
	r.run(20_000)
	var got [5][]int
	for i := range got {
		for _, b := range r.inboxes[i] {
			got[i] = append(got[i], len(b))
		}
	}
	if fmt.Sprint(got) != "[[] [1100] [1100] [1104] []]" {
		t.Errorf("lengths that arrived: %v", got)
	}
	r.wantDrops(0, map[string]uint64{"oversize/0": 7}) // two copies for each of the three, and the last frame
	r.idle()
}

// TestShortFramesThroughTags has frames of every length from the shortest on, with a tag put on and
// taken off. What gets shorter than 60 bytes has zeros at its end, not what was in the buffer
// before.
func TestShortFramesThroughTags(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) {
		p.Bridge.Ports[0].Tagged = new(bridge.VLANSet) // access to VLAN 1
		p.Bridge.Ports[1].PVID, p.Bridge.Ports[1].Tagged = 2, new(bridge.VLANSet)
		p.Bridge.Ports[1].Tagged.Add(1)
	})
	r.introduce()
	for length := 14; length <= 80; length++ {
		plain := bytes.Repeat([]byte{0xee}, length)
		frame.PutHeader(plain, station0(1), station0(0), 0, 0, false, frame.TypeFCoE)
		tagged := make([]byte, 4+length)
		frame.PutHeader(tagged, station0(1), station0(0), 1, 0, true, frame.TypeFCoE)
		copy(tagged[18:], plain[14:])
		back := bytes.Clone(tagged)
		station0(0).Put(back[0:])
		station0(1).Put(back[6:])
		popped := append(bytes.Clone(back[:12]), back[16:]...)
		if length < 60 {
			popped = append(popped, 0, 0, 0, 0)
		}
		r.inboxes[0], r.inboxes[1] = nil, nil
		r.send(0, plain)
		r.send(1, back)
		r.run(3000)
		if len(r.inboxes[1]) != 1 || !bytes.Equal(r.inboxes[1][0], tagged) {
			t.Fatalf("%d bytes, pushed: % x", length, r.inboxes[1])
		}
		if len(r.inboxes[0]) != 1 || !bytes.Equal(r.inboxes[0][0], popped) {
			t.Fatalf("%d bytes and a tag, popped: % x", length, r.inboxes[0])
		}
	}
	r.idle()
}

// TestOversizeAfterPush: a port whose frames get tags takes untagged ones that are a tag shorter.
// Where none gets one, nothing is taken off.
func TestOversizeAfterPush(t *testing.T) {
	r := newRig(t, 5, 2, func(p *Params) {
		p.Bridge.Ports[1].PVID, p.Bridge.Ports[1].Tagged = 2, new(bridge.VLANSet)
		p.Bridge.Ports[1].Tagged.Add(1)
		p.Bridge.Ports[3].Tagged = new(bridge.VLANSet)
		p.Bridge.Ports[4].Remark.PCP = new([8]uint8)
	})
	for _, length := range []int{1514, 1515, 1518} {
		b := make([]byte, length)
		frame.PutHeader(b, station0(9), station0(0), 0, 0, false, frame.TypeFCoE)
		r.send(0, b)
	}
	r.send(0, data(0, 9, 0, 1518, 0)) // has its tag already
	r.run(20_000)
	var got [5][]int
	for i := range got {
		for _, b := range r.inboxes[i] {
			got[i] = append(got[i], len(b))
		}
	}
	if fmt.Sprint(got) != "[[] [1518 1518] [1514 1515 1518 1518] [1514 1515 1518 1514] [1514 1515 1518 1518]]" {
		t.Errorf("lengths that arrived: %v", got)
	}
	r.wantDrops(0, map[string]uint64{"oversize/0": 2})
	r.idle()
}
