package fcoe

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

func drawMAC(t *rapid.T, name string) frame.MAC {
	return frame.MAC(rapid.Uint64Range(0, 1<<48-1).Draw(t, name))
}

func drawWWN(t *rapid.T, name string) WWN { return WWN(rapid.Uint64Range(1, 1<<64-1).Draw(t, name)) }

// drawFCID draws any address but broadcast, from which tshark expects no link service.
func drawFCID(t *rapid.T, name string) FCID {
	return FCID(rapid.Uint32Range(0, 0xfffffe).Draw(t, name))
}

func draw24(t *rapid.T, name string) uint32 { return rapid.Uint32Range(1, 0xffffff).Draw(t, name) }

// drawELS draws a request, or an answer to it, that the descriptor may have.
func drawELS(t *rapid.T, service Descriptor, reply bool) ELS {
	e := ELS{Command: requests[service], HasParameters: service != DescLOGO,
		Header: Header{RCtl: RCtlELSRequest, Type: TypeELS, FCtl: FCtlRequest, D: drawFCID(t, "D"), S: drawFCID(t, "S"),
			OXID: rapid.Uint16().Draw(t, "OX_ID"), RXID: rapid.Uint16().Draw(t, "RX_ID"),
			SeqID: rapid.Uint8().Draw(t, "SEQ_ID"), SeqCount: rapid.Uint16().Draw(t, "SEQ_CNT"),
			CSCtl: rapid.Uint8().Draw(t, "CS_CTL"), Param: rapid.Uint32().Draw(t, "parameter")}}
	if reply {
		e.Header.RCtl, e.Header.FCtl = RCtlELSReply, FCtlReply
		e.Command = rapid.SampledFrom([]Command{Accept, Reject}).Draw(t, "command")
	}
	switch {
	case e.Command == Reject:
		e.HasParameters = false
		e.Reason, e.Explanation = rapid.Uint8().Draw(t, "reason"), rapid.Uint8().Draw(t, "explanation")
	case e.Command == LOGO:
		e.LoggedOut, e.Port = drawFCID(t, "who"), drawWWN(t, "port")
	case e.HasParameters:
		e.Port, e.Node = drawWWN(t, "port"), drawWWN(t, "node")
		e.Parameters = Parameters{Credit: rapid.Uint16().Draw(t, "credit"),
			Features:    Features(rapid.Uint16().Draw(t, "features")),
			ReceiveSize: rapid.Uint16Range(0, 0xfff).Draw(t, "size"), RATOV: rapid.Uint32().Draw(t, "R_A_TOV"),
			EDTOV: rapid.Uint32().Draw(t, "E_D_TOV"), Class3: rapid.Bool().Draw(t, "class 3")}
	}
	return e
}

// drawPacket draws a packet of an operation with all that it may have.
func drawPacket(t *rapid.T, op Operation) Packet {
	p := Packet{Op: op, Flags: Flags(rapid.Uint16().Draw(t, "flags")), MAC: drawMAC(t, "MAC")}
	all := contents[op].must | contents[op].may
	has := func(d Descriptor) bool {
		return contents[op].must.has(d) || all.has(d) && rapid.Bool().Draw(t, "optional")
	}
	if has(DescPriority) {
		p.Priority = rapid.Uint8().Draw(t, "priority")
	}
	if has(DescFCMap) {
		p.FCMap = draw24(t, "FC-MAP")
	}
	if has(DescName) {
		p.Name = drawWWN(t, "name")
	}
	if has(DescFabric) {
		p.Fabric = Fabric{rapid.Uint16().Draw(t, "VFID"), draw24(t, "FC-MAP"), drawWWN(t, "fabric")}
	}
	if has(DescMaxSize) {
		p.MaxSize = rapid.Uint16Range(1, 1<<16-1).Draw(t, "size")
	}
	if has(DescPeriod) {
		p.Period = Period{rapid.Uint32().Draw(t, "period"), rapid.Bool().Draw(t, "D")}
	}
	if has(DescVendor) {
		p.Vendor = rapid.Uint64Range(1, 1<<64-1).Draw(t, "vendor")
	}
	if has(DescVLAN) {
		p.VLANs = rapid.SliceOfN(rapid.Uint16Range(0, 4095), 1, 20).Draw(t, "VLANs")
	}
	if has(DescVxPort) {
		most := 20
		if op == KeepAlive {
			most = 1
		}
		for range rapid.IntRange(1, most).Draw(t, "ports") {
			p.VxPorts = append(p.VxPorts, VxPort{drawMAC(t, "VN_Port"), drawFCID(t, "FC_ID"), drawWWN(t, "port name")})
		}
	}
	if all&services != 0 {
		p.Service = rapid.SampledFrom([]Descriptor{DescFLOGI, DescFDISC, DescLOGO}).Draw(t, "service")
		p.ELS = drawELS(t, p.Service, op == LoginReply)
		if op == LoginReply && p.ELS.Command == Reject && rapid.Bool().Draw(t, "without MAC") {
			p.MAC = 0
		}
	}
	return p
}

var operations = []Operation{Solicitation, Advertisement, LoginRequest, LoginReply, KeepAlive, ClearVirtualLinks,
	VLANRequest, VLANNotification, VN2VNVLANs, VN2VNProbe, VN2VNProbeReply, VN2VNClaim, VN2VNClaimReply, VN2VNBeacon}

// TestParseReadsWhatAppendWrites for every operation, with padding and without.
func TestParseReadsWhatAppendWrites(t *testing.T) {
	if len(operations) != len(contents) {
		t.Fatalf("%d operations of %d", len(operations), len(contents))
	}
	rapid.Check(t, func(t *rapid.T) {
		want := drawPacket(t, rapid.SampledFrom(operations).Draw(t, "operation"))
		b := want.Append(nil)
		if rapid.Bool().Draw(t, "padded") {
			b = Pad(b, len(b)+rapid.IntRange(1, 50).Draw(t, "padding"))
		}
		var got Packet
		if problem := Parse(b, &got); problem != OK || !reflect.DeepEqual(plain(got), plain(want)) {
			t.Fatalf("%v: %x\n%+v, want\n%+v", problem, b, plain(got), plain(want))
		}
	})
}

func TestParseHeaderReadsWhatAppendWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), HeaderLength, HeaderLength).Draw(t, "header")
		var h Header
		if problem := ParseHeader(b, &h); problem != OK || !bytes.Equal(h.Append(nil), b) {
			t.Fatalf("%v %x: %+v", problem, b, h)
		}
	})
	var h Header
	if problem := ParseHeader(make([]byte, HeaderLength-1), &h); problem != Truncated {
		t.Error(problem)
	}
}

// TestReply: an answer goes back to who asked, in the same exchange.
func TestReply(t *testing.T) {
	request := loginELS(FDISC, 0)
	accept := request.Reply(Accept, 0x010203)
	want := ELS{Command: Accept, HasParameters: true,
		Header: Header{D: 0x010203, S: FabricPort, OXID: 0x1234, RXID: 0xffff}}
	if accept != want {
		t.Errorf("%+v, want %+v", accept, want)
	}
	reject := request.Reply(Reject, 0)
	if reject.HasParameters || len(reject.Append(nil)) != HeaderLength+rejectLength {
		t.Errorf("%+v", reject)
	}
	logo := ELS{Command: LOGO}
	if accept := logo.Reply(Accept, 1); accept.HasParameters || len(accept.Append(nil)) != HeaderLength+acceptLength {
		t.Errorf("%+v", accept)
	}
}
