package fc

import (
	"bytes"
	"encoding/binary"
	"testing"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/pmd/mem"
)

// peer is a host that speaks to an FCF frame by frame, written from the formats: it shares the
// codec with the FCF, and nothing else.
type peer struct {
	t        *testing.T
	now      int64
	link     *mem.Wire
	fcf      *FCF
	port     *port
	ox       uint16   // of the last request: tshark wants exchanges with numbers of their own
	received [][]byte // frames with FIP and FCoE that have arrived
	all      [][]byte // frames in both directions, for tshark
}

func newPeer(t *testing.T, f FCFParams) *peer {
	t.Helper()
	s := &peer{t: t, now: 1_000_000_007}
	var ends [2]mem.End
	for i := range ends {
		ends[i] = mem.End{Memory: make([]byte, testBuffers*testBuffer), Buffer: testBuffer}
	}
	var err error
	s.link, err = mem.NewWire(mem.Params{Rate: 1e10, Delay: 1000, MTU: fcoe.MaxPayload,
		Tap: func(_ int64, _ bool, b []byte) { s.all = append(s.all, bytes.Clone(b)) }}, ends[0], ends[1])
	if err != nil {
		t.Fatal(err)
	}
	p := PortParams{Port: s.link.A, Memory: ends[0].Memory, BufferSize: testBuffer, Buffers: testBuffers, MAC: fcfMAC,
		Speed: 1e10, InFlight: 64 << 10, Priority: 3, PFC: true}
	f.Port = p
	if s.fcf, err = NewFCF(f); err != nil {
		t.Fatal(err)
	}
	p.Port, p.Memory, p.MAC = s.link.B, ends[1].Memory, hostMAC
	if s.port, err = newPort(p); err != nil {
		t.Fatal(err)
	}
	s.run(10 * millisecond)
	return s
}

func (s *peer) run(ns int64) {
	for end := s.now + ns; s.now < end; {
		s.now += millisecond / 10
		s.link.Advance(s.now)
		s.fcf.Step(s.now)
		s.port.receive(s.now, func(_ int64, b []byte, _ *frame.Header) {
			s.received = append(s.received, bytes.Clone(b))
		})
		s.port.transmit(s.now)
	}
}

// tell sends a frame and returns what has arrived within a millisecond.
func (s *peer) tell(b []byte) [][]byte {
	s.received = nil
	s.port.send(b, true)
	s.run(millisecond)
	return s.received
}

// fip sends a FIP packet and returns the packets that come back, with their Ethernet headers.
func (s *peer) fip(e envelope, p fcoe.Packet) (packets []fcoe.Packet, headers []frame.Header) {
	s.t.Helper()
	for _, b := range s.tell(appendFIP(nil, e, &p, 0)) {
		var h frame.Header
		var p fcoe.Packet
		if frame.Parse(b, &h) != frame.OK || h.Type != frame.TypeFIP || fcoe.Parse(b[h.Payload:], &p) != fcoe.OK {
			s.t.Fatalf("not FIP: % x", b)
		}
		packets, headers = append(packets, p), append(headers, h)
	}
	return packets, headers
}

// host returns the header of a frame from an address to the FCF.
func host(src frame.MAC) envelope {
	return envelope{dst: fcfMAC, src: src, vid: testVLAN, pcp: 3, tagged: true}
}

// loginAs sends FLOGI or FDISC for a port from an address, and returns the answer.
func (s *peer) loginAs(src frame.MAC, name fcoe.WWN, service fcoe.Descriptor) fcoe.Packet {
	s.t.Helper()
	s.ox++
	p := fcoe.Packet{Op: fcoe.LoginRequest, Flags: fcoe.FP, Service: service, ELS: fcoe.ELS{
		Header:  fcoe.Header{D: fcoe.FabricPort, OXID: s.ox, RXID: fcoe.NoExchange},
		Command: fcoe.FLOGI, HasParameters: true, Port: name, Node: name + 1,
		Parameters: fcoe.Parameters{ReceiveSize: 512, Class3: true, Credit: 10, Features: fcoe.FeatureMultipleIDs},
	}}
	if service == fcoe.DescFDISC {
		p.ELS.Command = fcoe.FDISC
	}
	all, _ := s.fip(host(src), p)
	for _, q := range all {
		if q.Op == fcoe.LoginReply && q.ELS.Header.OXID == s.ox {
			return q
		}
	}
	s.t.Fatalf("no answer to the login of %v: %+v", name, all)
	return p
}

// portOf logs a port in and returns it.
func (s *peer) portOf(src frame.MAC, name fcoe.WWN, service fcoe.Descriptor) peerPort {
	s.t.Helper()
	p := s.loginAs(src, name, service)
	if p.ELS.Command != fcoe.Accept || p.MAC != fcoe.FPMA(fcoe.DefaultFCMap, p.ELS.Header.D) {
		s.t.Fatalf("login of %v: %s", name, p.Describe())
	}
	return peerPort{s, src, p.MAC, p.ELS.Header.D, name}
}

// peerPort is a VN_Port of a peer.
type peerPort struct {
	*peer
	enode, mac frame.MAC
	id         fcoe.FCID
	name       fcoe.WWN
}

// fcFrame is a Fibre Channel frame that has arrived.
type fcFrame struct {
	fcoe.Header
	dst     frame.MAC
	sof     fcoe.SOF
	eof     fcoe.EOF
	payload []byte
}

// ask sends a request to a service and returns the frames of the answer.
func (v peerPort) ask(h fcoe.Header, payload []byte) (all []fcFrame) {
	v.t.Helper()
	v.ox++
	h.S, h.FCtl, h.OXID, h.RXID = v.id, fcoe.FCtlRequest, v.ox, fcoe.NoExchange
	for _, b := range v.tell(appendFCoE(nil, host(v.mac), fcoe.SOFi3, fcoe.EOFt, append(h.Append(nil), payload...))) {
		all = append(all, v.parse(b))
	}
	return all
}

func (s *peer) parse(b []byte) (x fcFrame) {
	s.t.Helper()
	var h frame.Header
	frame.Parse(b, &h)
	f, problem := fcoe.ParseFCoE(b[h.Payload:])
	if h.Type != frame.TypeFCoE || problem != fcoe.OK || f.CRC != fcoe.CRC(f.FC) || h.VID != testVLAN || h.PCP != 3 ||
		h.Src != fcfMAC {
		s.t.Fatalf("not FCoE of the FCF: %v: % x", problem, b)
	}
	fcoe.ParseHeader(f.FC, &x.Header)
	x.dst, x.sof, x.eof, x.payload = h.Dst, f.SOF, f.EOF, f.FC[fcoe.HeaderLength:]
	return x
}

// query sends a request of the name server and returns the code of the answer, reason and
// explanation, and the rest of all its frames.
func (v peerPort) query(command uint16, arguments ...byte) (code uint16, why [2]byte, rest []byte) {
	v.t.Helper()
	ct := make([]byte, 16, 16+len(arguments))
	ct[0], ct[4], ct[5] = 1, 0xfc, 2
	binary.BigEndian.PutUint16(ct[8:], command)
	frames := v.ask(fcoe.Header{RCtl: 2, D: fcoe.DirectoryServer, Type: 0x20}, append(ct, arguments...))
	for i, f := range frames {
		sof, eof, fctl := fcoe.SOFn3, fcoe.EOFn, uint32(0x900000)
		if i == 0 {
			sof = fcoe.SOFi3
		}
		if i == len(frames)-1 {
			eof, fctl = fcoe.EOFt, 0x990000
		}
		if f.RCtl != 3 || f.Type != 0x20 || f.S != fcoe.DirectoryServer || f.D != v.id || f.dst != v.mac ||
			f.OXID != v.ox || int(f.SeqCount) != i || f.sof != sof || f.eof != eof || f.FCtl != fctl {
			v.t.Fatalf("frame %d of %d: %+v", i, len(frames), f)
		}
		rest = append(rest, f.payload...)
	}
	if len(rest) < 16 {
		v.t.Fatalf("no answer to %#04x", command)
	}
	return binary.BigEndian.Uint16(rest[8:]), [2]byte{rest[13], rest[14]}, rest[16:]
}

func id24(id fcoe.FCID) []byte { return []byte{0, byte(id >> 16), byte(id >> 8), byte(id)} }
