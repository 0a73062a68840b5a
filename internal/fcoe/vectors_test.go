package fcoe

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// bytesOf decodes hex with spaces.
func bytesOf(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

const (
	enode = 0x02000000_0011
	fcf   = 0x00112233_4455
	fpma  = 0x0efc0001_0203

	macOfENode = " 0202 020000000011"
	macOfFCF   = " 0202 001122334455"
	noMAC      = " 0202 000000000000"
	granted    = " 0202 0efc00010203"
	nodeName   = " 0403 0000 20000000c9000011"
	switchName = " 0403 0000 2001000dec000001"
	vnPort     = " 0b05 0efc00010203 00 010203 10000000c9000011"

	// Service parameters: version, credit 10, features, size, 8 bytes of timeouts; names; 3 classes
	// of 16 bytes; 16 reserved; vendor version.
	names      = " 10000000c9000011 20000000c9000011"
	class3     = " 00000000000000000000000000000000 00000000000000000000000000000000 80000000000000000000000000000000"
	zeros32    = " 0000000000000000000000000000000000000000000000000000000000000000"
	askHeader  = " 22 fffffe 00 000000 01 290000 00 00 0000 1234 ffff 00000000"
	okHeader   = " 23 010203 00 fffffe 01 990000 00 00 0000 1234 ffff 00000000"
	rejectTo   = " 23 000000 00 fffffe 01 990000 00 00 0000 1234 ffff 00000000"
	flogi      = askHeader + " 04000000 2020 000a 8000 0840 00000000 00000000" + names + class3 + zeros32
	fdisc      = askHeader + " 51000000 2020 000a 0000 0840 00000000 00000000" + names + class3 + zeros32
	accept     = okHeader + " 02000000 2020 000a 3000 0840 00002710 000007d0" + names + class3 + zeros32
	rejection  = rejectTo + " 01000000 00 03 01 00"
	logo       = " 22 fffffe 00 010203 01 290000 00 00 0000 1235 ffff 00000000 05000000 00010203 10000000c9000011"
	logoAccept = " 23 010203 00 fffffe 01 990000 00 00 0000 1235 ffff 00000000 02000000"
	elp        = " 02 fffffd 00 fffffd 22 290000 00 00 0000 1236 ffff 00000000 10000000" + zeros32 + zeros32 + zeros32 +
		" 00000000"
)

func loginELS(command Command, features Features) ELS {
	return ELS{Header: Header{RCtl: 0x22, D: FabricPort, Type: 1, FCtl: 0x290000, OXID: 0x1234, RXID: 0xffff},
		Command: command, HasParameters: true, Port: 0x10000000_c9000011, Node: 0x20000000_c9000011,
		Parameters: Parameters{Credit: 10, Features: features, ReceiveSize: 2112, Class3: true}}
}

func replyELS(command Command, to FCID) ELS {
	return ELS{Header: Header{RCtl: 0x23, D: to, S: FabricPort, Type: 1, FCtl: 0x990000, OXID: 0x1234, RXID: 0xffff},
		Command: command}
}

func acceptELS() ELS {
	e := replyELS(Accept, 0x010203)
	e.HasParameters, e.Port, e.Node = true, 0x10000000_c9000011, 0x20000000_c9000011
	e.Parameters = Parameters{Credit: 10, Features: FeatureAcceptsIDs | FeatureFPort, ReceiveSize: 2112, RATOV: 10000,
		EDTOV: 2000, Class3: true}
	return e
}

func rejectELS() ELS {
	e := replyELS(Reject, 0)
	e.Reason, e.Explanation = 3, 1
	return e
}

var oneVxPort = []VxPort{{MAC: fpma, ID: 0x010203, Name: 0x10000000_c9000011}}

// vectors are packets written by hand from the formats.
var vectors = []struct {
	payload, describe string
	want              Packet
}{
	{"1000 0004 0001 0002 0000" + macOfENode, "VLAN request from 02:00:00:00:00:11",
		Packet{Op: VLANRequest, MAC: enode}},
	{"1000 0004 0001 0005 0000" + macOfENode + nodeName, "VLAN request from 02:00:00:00:00:11",
		Packet{Op: VLANRequest, MAC: enode, Name: 0x20000000_c9000011}},
	{"1000 0004 0002 0004 0000" + macOfFCF + " 0e01 082e 0e01 0064",
		"VLAN notification from FCF 00:11:22:33:44:55: 2094, 100",
		Packet{Op: VLANNotification, MAC: fcf, VLANs: []uint16{2094, 100}}},
	{"1000 0001 0001 0006 8000" + macOfENode + nodeName + " 0601 086e",
		"solicitation from 02:00:00:00:00:11, name 20:00:00:00:c9:00:00:11, frames of 2158 bytes",
		Packet{Op: Solicitation, Flags: FP, MAC: enode, Name: 0x20000000_c9000011, MaxSize: 2158}},
	{"1000 0001 0001 0008 c001" + macOfFCF + " 0302 000000 0efc01" + switchName + " 0601 086e",
		"solicitation from 00:11:22:33:44:55, name 20:01:00:0d:ec:00:00:01, frames of 2158 bytes",
		Packet{Op: Solicitation, Flags: FP | SP | FromFCF, MAC: fcf, FCMap: 0x0efc01, Name: 0x2001000d_ec000001,
			MaxSize: 2158}},
	{"1000 0001 0002 000c 8007 0101 0080" + macOfFCF + switchName + " 0504 0002 00 0efc00 2001000dec0000ff" +
		" 0c02 0000 00001f40",
		"advertisement of FCF 00:11:22:33:44:55, switch 20:01:00:0d:ec:00:00:01, fabric 20:01:00:0d:ec:00:00:ff, " +
			"FC-MAP 0EFC00, priority 128, every 8000 ms",
		Packet{Op: Advertisement, Flags: FP | Available | Solicited | FromFCF, Priority: 128, MAC: fcf,
			Name: 0x2001000d_ec000001, Fabric: Fabric{2, 0x0efc00, 0x2001000d_ec0000ff}, Period: Period{Millis: 8000}}},
	{"1000 0001 0002 000f 8005 0101 0001" + macOfFCF + switchName + " 0504 0000 00 0efcff 2001000dec0000ff" +
		" 0c02 0001 ffffffff 0d03 0000 0102030405060708",
		"advertisement of FCF 00:11:22:33:44:55, switch 20:01:00:0d:ec:00:00:01, fabric 20:01:00:0d:ec:00:00:ff, " +
			"FC-MAP 0EFCFF, priority 1, every 4294967295 ms without keep-alives",
		Packet{Op: Advertisement, Flags: FP | Available | FromFCF, Priority: 1, MAC: fcf, Name: 0x2001000d_ec000001,
			Fabric: Fabric{0, 0x0efcff, 0x2001000d_ec0000ff}, Period: Period{1<<32 - 1, true},
			Vendor: 0x01020304_05060708}},
	{"1000 0002 0001 0026 8000 0724 0000" + flogi + noMAC,
		"FLOGI of port 10:00:00:00:c9:00:00:11, node 20:00:00:00:c9:00:00:11, exchange 1234",
		Packet{Op: LoginRequest, Flags: FP, Service: DescFLOGI, ELS: loginELS(FLOGI, FeatureMultipleIDs)}},
	{"1000 0002 0001 0026 4000 0824 0000" + fdisc + macOfENode,
		"FDISC of port 10:00:00:00:c9:00:00:11, node 20:00:00:00:c9:00:00:11, exchange 1234",
		Packet{Op: LoginRequest, Flags: SP, Service: DescFDISC, ELS: loginELS(FDISC, 0), MAC: enode}},
	{"1000 0002 0002 0026 8000 0724 0000" + accept + granted,
		"LS_ACC of FLOGI, exchange 1234: FC_ID 0x010203, address 0e:fc:00:01:02:03",
		Packet{Op: LoginReply, Flags: FP, Service: DescFLOGI, ELS: acceptELS(), MAC: fpma}},
	{"1000 0002 0002 0026 8000 0824 0000" + accept + granted,
		"LS_ACC of FDISC, exchange 1234: FC_ID 0x010203, address 0e:fc:00:01:02:03",
		Packet{Op: LoginReply, Flags: FP, Service: DescFDISC, ELS: acceptELS(), MAC: fpma}},
	{"1000 0002 0002 0009 8000 0709 0000" + rejection,
		"LS_RJT of FLOGI, exchange 1234: reason 3, explanation 1",
		Packet{Op: LoginReply, Flags: FP, Service: DescFLOGI, ELS: rejectELS()}},
	{"1000 0002 0002 000b 8000 0909 0000" + rejection + granted,
		"LS_RJT of LOGO, exchange 1234: reason 3, explanation 1",
		Packet{Op: LoginReply, Flags: FP, Service: DescLOGO, ELS: rejectELS(), MAC: fpma}},
	{"1000 0002 0001 000d 8000 090b 0000" + logo + granted,
		"LOGO of FC_ID 0x010203, port 10:00:00:00:c9:00:00:11, exchange 1235",
		Packet{Op: LoginRequest, Flags: FP, Service: DescLOGO, MAC: fpma, ELS: ELS{Command: LOGO, LoggedOut: 0x010203,
			Port: 0x10000000_c9000011, Header: Header{RCtl: 0x22, D: FabricPort, S: 0x010203, Type: 1, FCtl: 0x290000,
				OXID: 0x1235, RXID: 0xffff}}}},
	{"1000 0002 0002 0008 8000 0908 0000" + logoAccept, "LS_ACC of LOGO, exchange 1235",
		Packet{Op: LoginReply, Flags: FP, Service: DescLOGO, ELS: ELS{Command: Accept, Header: Header{RCtl: 0x23,
			D: 0x010203, S: FabricPort, Type: 1, FCtl: 0x990000, OXID: 0x1235, RXID: 0xffff}}}},
	{"1000 0002 0001 0023 8001 0a21 0000" + elp + macOfFCF, "ELP (link service request)",
		Packet{Op: LoginRequest, Flags: FP | FromFCF, Service: DescELP, MAC: fcf}},
	{"1000 0003 0001 0002 8000" + macOfENode, "keep-alive of ENode 02:00:00:00:00:11",
		Packet{Op: KeepAlive, Flags: FP, MAC: enode}},
	{"1000 0003 0001 0007 8000" + macOfENode + vnPort,
		"keep-alive of VN_Port 0e:fc:00:01:02:03 (FC_ID 0x010203) of ENode 02:00:00:00:00:11",
		Packet{Op: KeepAlive, Flags: FP, MAC: enode, VxPorts: oneVxPort}},
	{"1000 0003 0002 0005 8000" + macOfFCF + switchName, "clear virtual links: all of FCF 00:11:22:33:44:55",
		Packet{Op: ClearVirtualLinks, Flags: FP, MAC: fcf, Name: 0x2001000d_ec000001}},
	{"1000 0003 0002 000f 8000" + macOfFCF + switchName + vnPort + vnPort,
		"clear virtual links of FCF 00:11:22:33:44:55: 2, first 0e:fc:00:01:02:03 (FC_ID 0x010203)",
		Packet{Op: ClearVirtualLinks, Flags: FP, MAC: fcf, Name: 0x2001000d_ec000001,
			VxPorts: append(oneVxPort, oneVxPort...)}},
	{"1000 0005 0001 000a 0008" + macOfENode + nodeName + vnPort, "VN2VN probe request from 02:00:00:00:00:11",
		Packet{Op: VN2VNProbe, Flags: RECP2P, MAC: enode, Name: 0x20000000_c9000011, VxPorts: oneVxPort}},
}

// plain returns p without what Parse adds for its own use.
func plain(p Packet) Packet {
	p.has, p.FC = 0, nil
	if len(p.VLANs) == 0 {
		p.VLANs = nil
	}
	if len(p.VxPorts) == 0 {
		p.VxPorts = nil
	}
	return p
}

// TestDescribeManyVLANs: one frame does not fill the screen.
func TestDescribeManyVLANs(t *testing.T) {
	p := Packet{Op: VLANNotification, MAC: 0x001122334455}
	for vid := range uint16(537) {
		p.VLANs = append(p.VLANs, vid+1)
	}
	for n, want := range map[int]string{1: "1", 8: "1, 2, 3, 4, 5, 6, 7, 8",
		9: "9 VLANs, the first are 1, 2, 3, 4, 5, 6, 7, 8", 537: "537 VLANs, the first are 1, 2, 3, 4, 5, 6, 7, 8"} {
		of := p
		of.VLANs = p.VLANs[:n]
		if got := of.Describe(); got != "VLAN notification from FCF 00:11:22:33:44:55: "+want {
			t.Errorf("%d VLANs: %s", n, got)
		}
	}
}

func TestVectors(t *testing.T) {
	var p Packet // of the vector before: Parse must leave nothing of it
	for _, v := range vectors {
		b := bytesOf(v.payload)
		if problem := Parse(b, &p); problem != OK {
			t.Errorf("%v: %s", problem, v.payload)
			continue
		}
		if got := plain(p); !reflect.DeepEqual(got, v.want) {
			t.Errorf("%s\n%+v, want\n%+v", v.payload, got, v.want)
		}
		if got := p.Describe(); got != v.describe {
			t.Errorf("%q, want %q", got, v.describe)
		}
		if got := p.Append([]byte{1}); !bytes.Equal(got[1:], b) {
			t.Errorf("%v written again: %x, want %x", p.Op, got[1:], b)
		}
		if problem := Parse(Pad(b, MaxPayload), &p); problem != OK || !reflect.DeepEqual(plain(p), v.want) {
			t.Errorf("%v padded: %v", v.want.Op, problem)
		}
		if problem := Parse(Pad(b, MaxPayload+1), &p); problem != BadLength {
			t.Errorf("%v padded too far: %v", v.want.Op, problem)
		}
	}
}

// TestCut: no packet survives the loss of its end, whether the length of its list is the old one or
// that of what is left, unless what is left is a packet too.
func TestCut(t *testing.T) {
	complete := map[int]map[int]bool{1: {2: true}, 2: {2: true, 3: true}, 6: {12: true}, 12: {9: true},
		17: {2: true}, 19: {5: true, 10: true}}
	for i, v := range vectors {
		b := bytesOf(v.payload)
		for n := range b {
			var p Packet
			if problem := Parse(b[:n], &p); problem != Truncated {
				t.Errorf("%v cut to %d bytes: %v", v.want.Op, n, problem)
			}
			words := (n - fipHeader) / word
			if n < fipHeader || (n-fipHeader)%word != 0 {
				continue
			}
			cut := bytes.Clone(b[:n])
			binary.BigEndian.PutUint16(cut[6:], uint16(words))
			if problem := Parse(cut, &p); (problem == OK) != complete[i][words] {
				t.Errorf("vector %d, %v, with %d words: %v", i, v.want.Op, words, problem)
			}
		}
	}
}

func TestProblems(t *testing.T) {
	const solicitation, keepAlive = "1000 0001 0001 0006 8000", "1000 0003 0001 "
	for _, c := range []struct {
		name, payload string
		want          Problem
	}{
		{"version 0", "0000 0004 0001 0002 0000" + macOfENode, BadVersion},
		{"version 2", "2000 0004 0001 0002 0000" + macOfENode, BadVersion},
		{"reserved bits", "1fff 0004 ff01 0002 0000" + macOfENode, OK},
		{"operation 0", "1000 0000 0001 0002 0000" + macOfENode, BadOperation},
		{"suboperation 3 of discovery", "1000 0001 0003 0002 0000" + macOfENode, BadOperation},
		{"operation 0101", "1000 0101 0001 0006 8000" + macOfENode + nodeName + " 0601 086e", BadOperation},
		{"vendor's operation", "1000 fff8 0001 0002 0000" + macOfENode, BadOperation},
		{"no descriptors", "1000 0004 0001 0000 0000", Missing},
		{"padding does not count", "1000 0004 0001 0000 0000" + macOfENode, Missing},
		{"descriptor of length 0", keepAlive + "0003 8000" + macOfENode + " 8000 0000", BadLength},
		{"critical one of length 0", keepAlive + "0002 8000 0200 020000000011", BadLength},
		{"longer than the list", keepAlive + "0002 8000 0203 020000000011 00000000", BadLength},
		{"MAC of one word", keepAlive + "0003 8000 0201 0000" + macOfENode, BadDescriptor},
		{"MAC of three words", keepAlive + "0003 8000 0203 020000000011 00000000", BadDescriptor},
		{"type 0", keepAlive + "0003 8000" + macOfENode + " 0001 0000", UnknownCritical},
		{"unknown critical 16", keepAlive + "0003 8000" + macOfENode + " 1001 0000", UnknownCritical},
		{"unknown critical 127", keepAlive + "0003 8000" + macOfENode + " 7f01 0000", UnknownCritical},
		{"non-critical 128", keepAlive + "0003 8000" + macOfENode + " 8001 0000", OK},
		{"non-critical 200, twice, first", keepAlive + "0005 8000 c802 0000 00000000 c801 0000" + macOfENode, OK},
		{"MAC twice", keepAlive + "0004 8000" + macOfENode + macOfENode, Duplicate},
		{"two VN_Ports alive", keepAlive + "000c 8000" + macOfENode + vnPort + vnPort, Duplicate},
		{"VLAN in a keep-alive", keepAlive + "0003 8000" + macOfENode + " 0e01 0001", Unexpected},
		{"FLOGI in an advertisement", "1000 0001 0002 0024 8000 0724 0000" + flogi, Unexpected},
		{"FC-4 in a keep-alive", keepAlive + "002b 8000" + macOfENode + " 0f29 0000" + strings.Repeat("00", 160),
			Unexpected},
		{"solicitation without a size", "1000 0001 0001 0005 8000" + macOfENode + nodeName, Missing},
		{"solicitation in another order", solicitation + " 0601 086e" + nodeName + macOfENode, OK},
		{"MAC before FLOGI", "1000 0002 0001 0026 8000" + noMAC + " 0724 0000" + flogi, BadOrder},
		{"optional one before FLOGI", "1000 0002 0001 0027 8000 c801 0000 0724 0000" + flogi + noMAC, BadOrder},
		{"FLOGI without MAC", "1000 0002 0001 0024 8000 0724 0000" + flogi, Missing},
		{"accept without MAC", "1000 0002 0002 0024 8000 0724 0000" + accept, Missing},
		{"MAC without FLOGI", "1000 0002 0001 0002 8000" + noMAC, Missing},
		{"reply without a service", "1000 0002 0002 0002 8000" + granted, Missing},
		{"two services", "1000 0002 0001 004a 8000 0724 0000" + flogi + " 0824 0000" + fdisc + noMAC, Duplicate},
		{"FLOGI described as FDISC", "1000 0002 0001 0026 8000 0824 0000" + flogi + noMAC, BadELS},
		{"accept as request", "1000 0002 0001 0026 8000 0724 0000" + accept + granted, BadELS},
		{"FLOGI as reply", "1000 0002 0002 0026 8000 0724 0000" + flogi + granted, BadELS},
		{"reject as request", "1000 0002 0001 000b 8000 0709 0000" + rejection + noMAC, BadELS},
		{"FLOGI of 8 words", "1000 0002 0002 000a 8000 0708 0000" + logoAccept + granted, BadDescriptor},
		{"LOGO in FLOGI's descriptor", "1000 0002 0001 000d 8000 070b 0000" + logo + granted, BadDescriptor},
		{"LOGO accepted like FLOGI", "1000 0002 0002 0026 8000 0924 0000" + accept + granted, BadDescriptor},
		{"LOGO of the length of its accept", "1000 0002 0001 000a 8000 0908 0000" + logo[:len(logo)-26] + granted,
			BadELS},
		{"wrong R_CTL", "1000 0002 0001 000d 8000 090b 0000 23" + logo[3:] + granted, BadELS},
		{"wrong type", "1000 0002 0001 000d 8000 090b 0000" + strings.Replace(logo, " 01 29", " 08 29", 1) +
			granted, BadELS},
		{"optional FC headers", "1000 0002 0001 000d 8000 090b 0000" +
			strings.Replace(logo, "00 00 0000", "00 10 0000", 1) + granted, BadELS},
		{"ELP of the length of its reject", "1000 0002 0001 000b 8000 0a09 0000" + rejection + macOfFCF, BadDescriptor},
		{"ELP rejected", "1000 0002 0002 0009 8000 0a09 0000" + rejection, OK},
		{"list of 65535 words", "1000 0004 0001 ffff 0000" + macOfENode, Truncated},
	} {
		var p Packet
		if got := Parse(bytesOf(c.payload), &p); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestProblemNames: counters and documents rely on distinct names.
func TestProblemNames(t *testing.T) {
	seen := map[string]bool{}
	for p := range Problems {
		name := p.String()
		if seen[name] || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("problem %d is named %q", p, name)
		}
		seen[name] = true
	}
}

func TestHas(t *testing.T) {
	var p Packet
	if problem := Parse(bytesOf("1000 0003 0001 0003 8000"+macOfENode+" c801 0000"), &p); problem != OK {
		t.Fatal(problem)
	}
	for d := range 256 {
		if got := p.Has(Descriptor(d)); got != (d == 2) {
			t.Errorf("descriptor %d: %v", d, got)
		}
	}
}

func TestVN2VN(t *testing.T) {
	for op, want := range map[Operation]bool{VN2VNVLANs: true, VN2VNProbe: true, VN2VNBeacon: true, 5<<8 | 9: true,
		VLANRequest: false, VLANNotification: false, ClearVirtualLinks: false} {
		if op.VN2VN() != want {
			t.Errorf("%v: %v", op, !want)
		}
	}
	if got := Operation(6<<8 | 2).String(); got != "operation 6.2" {
		t.Error(got)
	}
}

func TestFPMA(t *testing.T) {
	if got := FPMA(DefaultFCMap, 0x010203).String(); got != "0e:fc:00:01:02:03" {
		t.Error(got)
	}
	if got := FPMA(0xff0efc00, 0xff010203); got != fpma {
		t.Errorf("excess bits: %v", got)
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	var p Packet
	payloads := make([][]byte, len(vectors))
	for i, v := range vectors {
		payloads[i] = bytesOf(v.payload)
	}
	if allocs := testing.AllocsPerRun(100, func() {
		for _, b := range payloads {
			if Parse(b, &p) != OK {
				panic(fmt.Sprintf("%x", b))
			}
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// minimal is an FCoE frame of the minimum length: a link service without payload would not fit, but
// an acknowledgement does. Its CRC comes from zlib.crc32 of Python.
const minimal = "00 000000000000000000000000 2e" + fcHeaderOfMinimal + "2580aeff 42 000000"

const fcHeaderOfMinimal = " c0 010203 00 010204 00 980000 01 00 0000 1234 5678 00000001 "

func TestParseFCoE(t *testing.T) {
	f, problem := ParseFCoE(bytesOf(minimal))
	if problem != OK || f.SOF != SOFi3 || f.EOF != EOFt || !bytes.Equal(f.FC, bytesOf(fcHeaderOfMinimal)) ||
		f.CRC != CRC(f.FC) {
		t.Errorf("%v %+v, CRC %08x", problem, f, CRC(f.FC))
	}
	var h Header
	want := Header{RCtl: 0xc0, D: 0x010203, S: 0x010204, FCtl: 0x980000, SeqID: 1, OXID: 0x1234, RXID: 0x5678, Param: 1}
	if problem := ParseHeader(f.FC, &h); problem != OK || h != want {
		t.Errorf("%v %+v", problem, h)
	}
	if got := AppendFCoE([]byte{1}, SOFi3, EOFt, h.Append(nil)); !bytes.Equal(got[1:], bytesOf(minimal)) {
		t.Errorf("%x, want %x", got[1:], bytesOf(minimal))
	}
	longest := AppendFCoE(nil, SOFn3, EOFn, make([]byte, MaxFC))
	for _, c := range []struct {
		name    string
		payload []byte
		want    Problem
	}{
		{"longest", longest, OK},
		{"too long", AppendFCoE(nil, SOFn3, EOFn, make([]byte, MaxFC+4)), BadLength},
		{"not words", AppendFCoE(nil, SOFn3, EOFn, make([]byte, 25)), BadLength},
		{"version 1", bytesOf("10" + minimal[2:]), BadVersion},
		{"unknown SOF", AppendFCoE(nil, 0x27, EOFn, make([]byte, 24)), BadSOF},
		{"unknown EOF", AppendFCoE(nil, SOFf, 0x43, make([]byte, 24)), BadEOF},
		{"wrong CRC", AppendFCoE(nil, SOFf, EOFa, make([]byte, 24)), OK},
	} {
		if _, problem := ParseFCoE(c.payload); problem != c.want {
			t.Errorf("%s: %v, want %v", c.name, problem, c.want)
		}
	}
	for n := range bytesOf(minimal) {
		if _, problem := ParseFCoE(bytesOf(minimal)[:n]); problem != Truncated {
			t.Errorf("cut to %d bytes: %v", n, problem)
		}
	}
	known := 0
	for d := range 256 {
		if SOF(d).known() {
			known++
		}
		if EOF(d).known() {
			known++
		}
	}
	if known != 16 {
		t.Errorf("%d delimiters", known)
	}
}
