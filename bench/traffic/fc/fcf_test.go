package fc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/bench/testkit/tshark"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

const (
	enodeA frame.MAC = 0x0200_00aa_0001
	enodeB frame.MAC = 0x0200_00bb_0001

	portA  fcoe.WWN = 0x2000_0200_00aa_0001
	portA2 fcoe.WWN = 0x2001_0200_00aa_0001
	portB  fcoe.WWN = 0x2000_0200_00bb_0001
)

// TestDiscovery: VLAN discovery is answered in the VLAN of the request, a solicitation with an
// advertisement of the length that it names, and all ENodes get one each period.
func TestDiscovery(t *testing.T) {
	p := fcfParams()
	p.VLANs = []uint16{testVLAN, 7}
	s := newPeer(t, p)
	packets, headers := s.fip(envelope{dst: fcoe.AllFCF, src: enodeA}, fcoe.Packet{Op: fcoe.VLANRequest, MAC: enodeA})
	if len(packets) != 1 || packets[0].Op != fcoe.VLANNotification || fmt.Sprint(packets[0].VLANs) != "[2094 7]" ||
		headers[0].Tagged || headers[0].Dst != enodeA || packets[0].MAC != fcfMAC {
		t.Errorf("VLAN request: %+v %+v", packets, headers)
	}
	e := envelope{dst: fcoe.AllFCF, src: enodeA, vid: testVLAN, pcp: 3, tagged: true}
	packets, headers = s.fip(e, fcoe.Packet{Op: fcoe.Solicitation, Flags: fcoe.FP, MAC: enodeA, Name: 1, MaxSize: 2158})
	if len(packets) != 1 || packets[0].Op != fcoe.Advertisement || packets[0].Flags != 0x8007 ||
		packets[0].Fabric.FCMap != 0x0efc00 || packets[0].Period.Millis != 8000 || packets[0].Priority != 128 ||
		headers[0].Dst != enodeA || headers[0].VID != testVLAN || headers[0].PCP != 3 || len(s.received[0]) != 18+2158 {
		t.Errorf("solicitation: %+v %+v", packets, headers)
	}
	s.received = nil
	s.run(80*second + second/2)
	if len(s.received) != 20 {
		t.Errorf("%d advertisements in 80.5 s in two VLANs", len(s.received))
	}
	for _, b := range s.received {
		if frame.MACFrom(b) != fcoe.AllENode || len(b) > 100 {
			t.Errorf("advertisement of %d bytes to %v", len(b), frame.MACFrom(b))
		}
	}
	s.judge()
}

// TestFabric: VN_Ports log in, find each other by the name server, exchange frames, hear of each
// other's coming and going, and log out.
func TestFabric(t *testing.T) {
	s := newPeer(t, fcfParams())
	a := s.portOf(enodeA, portA, fcoe.DescFLOGI)
	a2 := s.portOf(enodeA, portA2, fcoe.DescFDISC)
	plogi := make([]byte, 116)
	plogi[0], plogi[7], plogi[10], plogi[11] = 3, 10, 0x08, 0x40
	binary.BigEndian.PutUint64(plogi[20:], uint64(portA))
	binary.BigEndian.PutUint64(plogi[28:], uint64(portA+1))
	plogi[68] = 0x80
	if r := a.ask(fcoe.Header{RCtl: 0x22, D: fcoe.DirectoryServer, Type: 1}, plogi); len(r) != 1 ||
		len(r[0].payload) != 116 || r[0].payload[0] != 2 || r[0].RCtl != 0x23 || r[0].FCtl != 0x990000 ||
		!bytes.Equal(r[0].payload[4:20], plogi[4:20]) || bytes.Equal(r[0].payload[20:28], plogi[20:28]) {
		t.Errorf("PLOGI: %+v", r)
	}
	a.registerChanges(3)
	registerFCP(t, a, 2)
	registerFCP(t, a2, 2)
	s.run(100 * millisecond)
	s.received = nil
	b := s.portOf(enodeB, portB, fcoe.DescFLOGI)
	registerFCP(t, b, 1)
	s.received = nil
	s.run(100 * millisecond)
	s.wantRSCN(a, b.id)
	if code, _, rest := a.query(0x0172, 0, 0, 0, 8); code != 0x8002 || len(rest) != 48 || rest[32] != 0x80 ||
		!bytes.Equal(rest[33:36], id24(b.id)[1:]) || binary.BigEndian.Uint64(rest[40:]) != uint64(portB) {
		t.Errorf("GPN_FT: %#x % x", code, rest)
	}
	h := fcoe.Header{RCtl: 1, D: b.id, Type: 8}
	if r := a.ask(h, bytes.Repeat([]byte{0xaa}, 2112)); len(r) != 1 || r[0].dst != b.mac || r[0].S != a.id ||
		len(r[0].payload) != 2112 {
		t.Errorf("data: %+v", r)
	}
	logout := fcoe.Packet{Op: fcoe.LoginRequest, Flags: fcoe.FP, Service: fcoe.DescLOGO, MAC: b.mac, ELS: fcoe.ELS{
		Header:  fcoe.Header{D: fcoe.FabricPort, S: b.id, OXID: 9999, RXID: fcoe.NoExchange},
		Command: fcoe.LOGO, LoggedOut: b.id, Port: portB}}
	if r, _ := s.fip(host(enodeB), logout); len(r) != 1 || r[0].ELS.Command != fcoe.Accept {
		t.Errorf("LOGO: %+v", r)
	}
	s.received = nil
	s.run(100 * millisecond)
	s.wantRSCN(a, b.id)
	if r := a.ask(h, make([]byte, 8)); len(r) != 0 || s.fcf.counts.UnknownDestination != 1 {
		t.Errorf("data to a port that has logged out: %+v", r)
	}
	if code, why, _ := a.query(0x0112, id24(b.id)...); code != 0x8001 || why != [2]byte{9, 1} {
		t.Errorf("GPN_ID of a port that has logged out: %#x %v", code, why)
	}
	s.judge()
}

// wantRSCN checks that exactly one notification of exactly one change has arrived, at a.
func (s *peer) wantRSCN(a peerPort, changed fcoe.FCID) {
	s.t.Helper()
	if len(s.received) != 1 {
		s.t.Fatalf("%d frames, not one RSCN", len(s.received))
	}
	f := s.parse(s.received[0])
	if f.dst != a.mac || f.S != fcoe.FabricController || f.RCtl != 0x22 ||
		!bytes.Equal(f.payload, append([]byte{0x61, 4, 0, 8}, id24(changed)...)) {
		s.t.Errorf("RSCN: %+v", f)
	}
}

// registerChanges sends SCR with a function: 3 for all changes, 255 for none.
func (v peerPort) registerChanges(function byte) {
	v.t.Helper()
	r := v.ask(fcoe.Header{RCtl: 0x22, D: fcoe.FabricController, Type: 1}, []byte{0x62, 0, 0, 0, 0, 0, 0, function})
	if len(r) != 1 || !bytes.Equal(r[0].payload, []byte{2, 0, 0, 0}) {
		v.t.Errorf("SCR: %+v", r)
	}
}

// registerFCP registers a port as Linux does. features are 1 for a target, 2 for an initiator.
func registerFCP(t *testing.T, v peerPort, features byte) {
	t.Helper()
	node := binary.BigEndian.AppendUint64(nil, uint64(v.name+1))
	types := make([]byte, 32)
	types[2] = 1 // FC-4 type 8
	for command, arguments := range map[uint16][]byte{
		0x0213: append(id24(v.id), node...),
		0x0239: append(node, append([]byte{6}, "a node\x00"...)...),
		0x0218: append(id24(v.id), append([]byte{6}, "a port\x00"...)...),
		0x0217: append(id24(v.id), types...),
		0x021f: append(id24(v.id), 0, 0, features, 8),
	} {
		if code, why, _ := v.query(command, arguments...); code != 0x8002 {
			t.Errorf("registration %#04x: %#x %v", command, code, why)
		}
	}
}

// TestNameServer asks everything that the name server knows, and some that it does not.
func TestNameServer(t *testing.T) {
	s := newPeer(t, fcfParams())
	a, b := s.portOf(enodeA, portA, fcoe.DescFLOGI), s.portOf(enodeB, portB, fcoe.DescFLOGI)
	if code, why, _ := a.query(0x0172, 0, 0, 0, 8); code != 0x8001 || why != [2]byte{9, 7} {
		t.Errorf("GPN_FT without registrations: %#x %v", code, why)
	}
	registerFCP(t, a, 2)
	registerFCP(t, b, 1)
	types, features := make([]byte, 32), make([]byte, 128)
	types[2], features[7] = 1, 1
	symbol := make([]byte, 256)
	copy(symbol, "\x06a port")
	entry := func(v peerPort, flags byte) []byte { return append([]byte{flags}, id24(v.id)[1:]...) }
	name := func(w fcoe.WWN) []byte { return binary.BigEndian.AppendUint64(nil, uint64(w)) }
	for _, c := range []struct {
		command   uint16
		arguments []byte
		answer    []byte // nil: a reject
		why       [2]byte
	}{
		{0x0112, id24(b.id), name(portB), [2]byte{}},
		{0x0113, id24(b.id), name(portB + 1), [2]byte{}},
		{0x0117, id24(b.id), types, [2]byte{}},
		{0x0118, id24(b.id), symbol, [2]byte{}},
		{0x011f, id24(b.id), features, [2]byte{}},
		{0x0121, name(portB), entry(b, 0), [2]byte{}},
		{0x0131, name(portB + 1), entry(b, 0x80), [2]byte{}},
		{0x0171, []byte{0, 0, 0, 8}, append(entry(a, 0), entry(b, 0x80)...), [2]byte{}},
		{0x0171, []byte{0, 1, 0, 8}, append(entry(a, 0), entry(b, 0x80)...), [2]byte{}},
		{0x0171, []byte{0, 2, 0, 8}, nil, [2]byte{9, 7}},
		{0x01a1, []byte{1, 0, 0, 0}, append(entry(a, 0), entry(b, 0x80)...), [2]byte{}},
		{0x0112, id24(0x010999), nil, [2]byte{9, 1}},
		{0x0112, id24(0x020001), nil, [2]byte{9, 1}},
		{0x0121, name(99), nil, [2]byte{9, 2}},
		{0x0131, name(99), nil, [2]byte{9, 3}},
		{0x0100, id24(b.id), nil, [2]byte{0x0b, 0}},
		{0x0217, id24(b.id), nil, [2]byte{4, 0}},
		{0x0217, append(id24(b.id), types...), nil, [2]byte{9, 1}}, // of another port
		{0x0112, nil, nil, [2]byte{4, 0}},
	} {
		code, why, rest := a.query(c.command, c.arguments...)
		if (code == 0x8002) != (c.answer != nil) || why != c.why || c.answer != nil && !bytes.Equal(rest, c.answer) {
			t.Errorf("%#04x of % x: %#x %v % x, want % x", c.command, c.arguments, code, why, rest, c.answer)
		}
	}
	if code, _, _ := b.query(0x0300, id24(b.id)...); code != 0x8002 {
		t.Errorf("DA_ID: %#x", code)
	}
	if _, _, rest := a.query(0x0171, 0, 0, 0, 8); !bytes.Equal(rest, entry(a, 0x80)) {
		t.Errorf("after DA_ID: % x", rest)
	}
	s.judge()
}

// TestLongAnswer: the name server's answers take as many frames as the port's size needs, and stop
// at the size that the request allows. (tshark does not put the frames of such an answer together.)
func TestLongAnswer(t *testing.T) {
	s := newPeer(t, fcfParams())
	var v peerPort
	for i := range fcoe.WWN(100) {
		v = s.portOf(enodeA+frame.MAC(i), portA+i, fcoe.DescFLOGI)
		registerFCP(t, v, 1)
	}
	code, _, rest := v.query(0x0172, 0, 0, 0, 8)
	if code != 0x8002 || len(rest) != 1600 || len(s.received) != 4 { // of 512 bytes, with the header
		t.Errorf("%#x, %d bytes in %d frames", code, len(rest), len(s.received))
	}
	for i := range 100 {
		if last := i == 99; rest[16*i]>>7 == 1 != last {
			t.Errorf("entry %d is the last: %v", i, !last)
		}
	}
	ct := []byte{1, 0, 0, 0, 0xfc, 2, 0, 0, 0x01, 0x72, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8} // 8 words
	r := v.ask(fcoe.Header{RCtl: 2, D: fcoe.DirectoryServer, Type: 0x20}, ct)
	if len(r) != 1 || len(r[0].payload) != 16+32 || binary.BigEndian.Uint16(r[0].payload[10:]) != 400-8 {
		t.Errorf("with room for 8 words: %+v", r)
	}
}

// TestManyChanges: of more changes than an RSCN lists, it says that the fabric has changed.
func TestManyChanges(t *testing.T) {
	s := newPeer(t, fcfParams())
	a := s.portOf(enodeA, portA, fcoe.DescFLOGI)
	a.registerChanges(3)
	s.run(100 * millisecond)
	s.fcf.notify = s.now + second // gather all of them
	for i := range fcoe.WWN(50) {
		s.loginAs(enodeB+frame.MAC(i), portB+i, fcoe.DescFLOGI)
	}
	s.received = nil
	s.run(2 * second)
	if len(s.received) != 1 || !bytes.Equal(s.parse(s.received[0]).payload, []byte{0x61, 4, 0, 8, 3, 0, 0, 0}) {
		t.Errorf("%d frames: % x", len(s.received), s.received)
	}
	a.registerChanges(255)
	s.loginAs(enodeB, portB, fcoe.DescFLOGI)
	s.received = nil
	s.run(100 * millisecond)
	if len(s.received) != 0 {
		t.Errorf("after the registration was cleared: % x", s.received)
	}
	s.judge()
}

// TestRefusedLogins: what is not a login of this FCF is rejected, or ignored.
func TestRefusedLogins(t *testing.T) {
	p := fcfParams()
	p.MaxPorts = 2
	s := newPeer(t, p)
	want := func(p fcoe.Packet, reason, explanation uint8) {
		t.Helper()
		if p.ELS.Command != fcoe.Reject || p.ELS.Reason != reason || p.ELS.Explanation != explanation {
			t.Errorf("%s", p.Describe())
		}
	}
	want(s.loginAs(enodeA, portA2, fcoe.DescFDISC), 9, 0x1e) // without FLOGI
	a := s.portOf(enodeA, portA, fcoe.DescFLOGI)
	a2 := s.portOf(enodeA, portA2, fcoe.DescFDISC)
	want(s.loginAs(enodeB, portB, fcoe.DescFLOGI), 9, 0x29) // the table is full
	again := s.portOf(enodeA, portA, fcoe.DescFLOGI)        // ends a and a2
	if again.id != a.id || s.fcf.Active() != 1 {
		t.Errorf("FLOGI again: %v after %v, %d VN_Ports", again.id, a.id, s.fcf.Active())
	}
	b := s.portOf(enodeB, portB, fcoe.DescFLOGI) // in place of a2
	if b.id != a2.id {
		t.Errorf("%v, not %v", b.id, a2.id)
	}
	moved := s.portOf(enodeB+1, portB, fcoe.DescFLOGI)
	if moved.id != b.id || len(s.fcf.enodes) != 2 || s.fcf.Active() != 2 {
		t.Errorf("moved to %v, %d ENodes, %d VN_Ports", moved.id, len(s.fcf.enodes), s.fcf.Active())
	}
	// FCoE from the old place, with another's FC_ID, in another VLAN, with a wrong CRC
	before := s.fcf.counts
	data := func(e envelope, id fcoe.FCID) []byte {
		h := fcoe.Header{RCtl: 1, S: id, D: again.id, Type: 8}
		return appendFCoE(nil, e, fcoe.SOFi3, fcoe.EOFt, h.Append(nil))
	}
	otherVLAN := host(moved.mac)
	otherVLAN.vid = 9
	damaged := data(host(moved.mac), moved.id)
	damaged[40] ^= 1
	for _, b := range [][]byte{data(host(enodeB), moved.id), data(host(again.mac), moved.id), data(otherVLAN, moved.id),
		damaged, damaged[:50]} {
		if r := s.tell(b); len(r) != 0 {
			t.Errorf("delivered: % x", r)
		}
	}
	after := s.fcf.counts
	if after.NoLink-before.NoLink != 2 || after.Strays-before.Strays != 1 || after.Damaged-before.Damaged != 1 ||
		after.Malformed-before.Malformed != 1 || after.Forwarded != before.Forwarded {
		t.Errorf("counted %+v", after)
	}
}

// judge checks that tshark finds nothing wrong with the frames that the FCF has sent. In FIP its
// warnings don't count: it does not find the request to which the accept of FDISC belongs.
func (s *peer) judge() {
	s.t.Helper()
	program.NeedTshark(s.t)
	name := tshark.Capture(s.t, s.all)
	wrong := `eth.src == ` + fcfMAC.String() +
		` && (_ws.malformed || fcoe && _ws.expert.severity >= "Warning" || fcoe.crc.status == "Bad")`
	if out := program.Tshark(s.t, name, wrong, "-V"); len(bytes.TrimSpace(out)) > 0 {
		s.t.Errorf("tshark finds fault with:\n%s", out)
	}
	seen := strings.Fields(string(program.Tshark(s.t, name, "fip || fcoe", "-T", "fields", "-e", "frame.number")))
	if len(seen) != len(s.all) {
		s.t.Errorf("tshark knows %d of %d frames", len(seen), len(s.all))
	}
}
