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

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
)

// packet is an IPv4 packet in a frame. gopacket writes and reads it, as an independent check of the
// frames that the switch makes.
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

// decode reads a frame of packet.bytes. The checksum of the IPv4 header must be right.
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
	sum := uint32(0) // RFC 1071: all ones, over a header with its checksum
	for h := ip.Contents; len(h) > 0; h = h[2:] {
		sum += uint32(binary.BigEndian.Uint16(h))
	}
	if sum>>16+sum&0xffff != 0xffff {
		t.Fatalf("wrong IPv4 checksum: % x", ip.Contents)
	}
	return p
}

// tagging describes a port of kindsRig.
type tagging struct {
	name  string
	pvid  uint16
	cos   uint8 // of untagged frames
	vlans []uint16
	tags  bool  // a trunk
	as    bool  // frames leave as they came
	marks uint8 // if not 0, the PCP of a tag on egress is this minus the CoS
}

var kinds = []tagging{
	{name: "access 10", pvid: 10, cos: 2, vlans: []uint16{10}},
	{name: "trunk with native 10", pvid: 10, cos: 1, vlans: []uint16{10, 20}, tags: true},
	{name: "trunk that remarks", pvid: 30, vlans: []uint16{10, 20, 30}, tags: true, marks: 7},
	{name: "access 20", pvid: 20, cos: 5, vlans: []uint16{20}},
	{name: "transparent", pvid: 10, cos: 4, vlans: []uint16{10, 20, 30}, as: true},
}

func (k tagging) member(vid uint16) bool { return bytes.Contains(vidBytes(k.vlans...), vidBytes(vid)) }

// vidBytes returns VLANs below 256 as bytes.
func vidBytes(vids ...uint16) (b []byte) {
	for _, v := range vids {
		b = append(b, byte(v))
	}
	return b
}

// leaves returns the packet that the port sends for one received at another.
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

// sees returns the VLAN and the class of a received packet.
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

// kindsRig returns a rig with a port of each kind.
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

// TestLinkKinds sends packets into every kind of port, to known and unknown addresses, tagged and
// untagged, and checks what each port sends. A flooded packet has its own form at each port.
func TestLinkKinds(t *testing.T) {
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			r := kindsRig(t, workers)
			r.introduceKinds()
			rng := rand.New(rand.NewPCG(1, uint64(workers)))
			flooded, unicast, refused := 0, 0, uint64(0)
			for n := range 600 {
				in, to := rng.IntN(len(kinds)), rng.IntN(len(kinds)+2) // the last two: unknown, and broadcast
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
			if got := r.lost(drop.VLANIngress); got != refused || refused == 0 || flooded < 100 || unicast < 100 {
				t.Errorf("%d frames refused, want %d; %d flooded, %d not", got, refused, flooded, unicast)
			}
			r.idle()
		})
	}
}

// introduceKinds makes the switch learn the addresses of all ports in each of their VLANs.
func (r *rig) introduceKinds() {
	for i, k := range kinds {
		for _, vid := range k.vlans {
			r.send(i, packet{dst: frame.Broadcast, src: station0(i), tagged: true, vid: vid}.bytes(r.t))
		}
	}
	r.run(20_000)
}

// wantPacket checks that a port has sent a packet, or none.
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

// sTag returns a frame with an S-tag in front of its other tag, if any.
func sTag(b []byte, vid uint16, pcp uint8) []byte {
	tagged := append(make([]byte, frame.TagLength), b...)
	frame.Push(tagged, vid, pcp)
	binary.BigEndian.PutUint16(tagged[12:], frame.TypeSTag)
	return tagged
}

// sTagRig returns a rig whose ports take S-tags: in VLAN 10, one whose frames leave as they came,
// an access port, a trunk with that VLAN native, and a trunk that tags it; and a port of another
// VLAN.
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

// TestSTags checks that only the class comes from the S-tag. To a C-VLAN bridge the frame is
// untagged, so its VLAN is that of the ingress port, whatever its tags say. It leaves with its
// S-tag unchanged, behind a C-tag where the VLAN leaves tagged.
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

// TestSTagsOnAWire checks that a wire forwards S-tags unchanged, if the ingress port takes them.
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

// TestSecondTags: a further tag behind a priority tag can't lead into another VLAN, through
// whatever ports it passes. Behind a tag with a VLAN it is payload, and on a wire everything is.
func TestSecondTags(t *testing.T) {
	for in := range kinds {
		for _, tpid := range []uint16{frame.TypeVLAN, frame.TypeSTag, frame.TypeQinQ} {
			for _, priority := range []uint16{0, 0xa000} {
				r := kindsRig(t, 1)
				r.introduceKinds()
				clear(r.inboxes)
				inner := behind(tpid, 20, packet{src: station0(in), dst: frame.Broadcast}.bytes(t))
				r.send(in, behind(frame.TypeVLAN, priority, inner))
				r.run(4000)
				for out, sent := range r.inboxes {
					if len(sent) != 0 {
						t.Errorf("%#x from %s: %s sent % x", tpid, kinds[in].name, kinds[out].name, sent[0])
					}
				}
				r.wantDrops(in, map[string]uint64{fmt.Sprint("second_tag/", priority>>13): 1})
			}
		}
	}
	r := kindsRig(t, 1)
	r.introduceKinds()
	clear(r.inboxes)
	inner := behind(frame.TypeVLAN, 5, packet{src: station0(1), dst: frame.Broadcast}.bytes(t))
	r.send(1, behind(frame.TypeVLAN, 20, inner))
	r.run(4000)
	if got := r.inboxes[2]; len(got) != 1 || !bytes.Equal(got[0][16:], behind(frame.TypeVLAN, 20, inner)[16:]) {
		t.Errorf("two tags with VLANs: trunk to trunk % x", got)
	}
	r = newRig(t, 2, 1, func(p *Params) {
		p.Bridge.Mode, p.Bridge.Ports[0].Peer, p.Bridge.Ports[1].Peer = bridge.Wire, 1, 0
	})
	b := behind(frame.TypeVLAN, 0, inner)
	r.send(0, b)
	r.run(4000)
	if got := r.inboxes[1]; len(got) != 1 || !bytes.Equal(got[0], b) {
		t.Errorf("on a wire: % x, want % x", got, b)
	}
}

// TestOtherTagsAreTypes checks that any TPID other than those of C-tags and S-tags is an ordinary
// EtherType.
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

// TestLongestWithTwoTags checks that a port which takes frames with an S-tag and a C-tag takes
// longer ones. Other ports may not, and for a trunk these frames are untagged: it needs room for
// the C-tag that it may put in front.
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
	r.wantDrops(0, map[string]uint64{"oversize/0": 7}) // two copies of each of three frames, and the last frame
	r.idle()
}

// TestShortFramesThroughTags pushes and pops a tag for all frame lengths from the shortest on. A
// frame that becomes shorter than 60 bytes is padded with zeros, not with old bytes of the buffer.
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

// TestOversizeAfterPush checks that a port which tags frames takes untagged ones only if they are a
// tag shorter. Ports that tag none take the full length.
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
	r.send(0, data(0, 9, 0, 1518, 0)) // already tagged
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
