package fcoe

import (
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/bench/testkit/tshark"
	"sluice/internal/frame"
)

// expectation is what tshark must find in a frame: by field, the values in their order.
type expectation map[string]string

func (e expectation) add(field, format string, values ...any) {
	s := fmt.Sprintf(format, values...)
	if e[field] != "" {
		s = e[field] + "," + s
	}
	e[field] = s
}

func (e expectation) bit(field string, on bool) {
	value := "0"
	if on {
		value = "1"
	}
	e.add(field, "%s", value)
}

var seedFlag = flag.Int("seed", 0, "seed of random packets; 0: another each time")

// firstExample returns the seed of the first of some random packets.
func firstExample(t *testing.T) int {
	first := *seedFlag
	if first == 0 {
		first = rand.IntN(1 << 30)
	}
	t.Logf("-seed %d", first)
	return first
}

// compare compares what tshark decodes of frames with what is expected: all fields that some
// expectation names, and no complaint of tshark.
func compare(t *testing.T, frames [][]byte, want []expectation) {
	t.Helper()
	fields := []string{"_ws.expert.message", "_ws.malformed"}
	for _, w := range want {
		for f := range w {
			if !slices.Contains(fields, f) {
				fields = append(fields, f)
			}
		}
	}
	for i, row := range tshark.Fields(t, frames, fields...) {
		for n, got := range row {
			got = strings.NewReplacer("True", "1", "False", "0").Replace(got) // tshark 4.2 and later
			if got != want[i][fields[n]] {
				t.Fatalf("%s is %q, want %q: %x", fields[n], got, want[i][fields[n]], frames[i])
			}
		}
	}
}

// frameOf returns a tagged frame of the FCoE VLAN.
func frameOf(etherType uint16, payload []byte) []byte {
	b := make([]byte, 18)
	frame.PutHeader(b, AllFCF, enode, 2094, 3, true, etherType)
	return append(b, payload...)
}

// TestTsharkDecodesFIP compares a hundred random packets of each operation, and of each service and
// answer, field by field with what tshark decodes.
func TestTsharkDecodesFIP(t *testing.T) {
	first := firstExample(t)
	for _, op := range operations {
		t.Run(strings.ReplaceAll(op.String(), " ", "-"), func(t *testing.T) {
			var frames [][]byte
			var want []expectation
			add := func(p *Packet) {
				// With this feature, tshark expects a payload of 256 bytes, and with a count it
				// waits for other frames of the sequence.
				p.ELS.Parameters.Features &^= 1
				p.ELS.Header.SeqCount = 0
				b := p.Append(nil)
				w := expectation{}
				w.packet(p, (len(b)-fipHeader)/word)
				if op == Advertisement && p.Flags&Solicited != 0 {
					b = Pad(b, MaxPayload)
				}
				frames, want = append(frames, frameOf(frame.TypeFIP, b)), append(want, w)
			}
			packets := rapid.Custom(func(t *rapid.T) Packet { return drawPacket(t, op) })
			for i := range 100 {
				p := packets.Example(first + i)
				if op == LoginReply { // tshark decodes an answer only if it knows the request
					h := p.ELS.Header
					add(&Packet{Op: LoginRequest, Service: p.Service, ELS: ELS{Command: requests[p.Service],
						HasParameters: p.Service != DescLOGO, Header: Header{RCtl: RCtlELSRequest, Type: TypeELS,
							FCtl: FCtlRequest, D: h.S, S: h.D, OXID: h.OXID, RXID: NoExchange}}})
				}
				add(&p)
			}
			compare(t, frames, want)
		})
	}
}

// packet is what tshark must find in a packet, its list of descriptors that many words long.
func (e expectation) packet(p *Packet, words int) {
	subcode := map[Operation]string{1: "fip.disc_subcode", 2: "fip.ls.subcode", 3: "fip.ctrl_subcode",
		4: "fip.vlan_subcode", 5: "fip.vn2vn_subcode"}[p.Op>>8]
	e.add("fip.ver", "1")
	e.add("fip.opcode", "0x%04x", uint16(p.Op>>8))
	e.add(subcode, "0x%02x", uint8(p.Op))
	e.add("fip.dl_len", "%d", words)
	e.add("fip.flags", "0x%04x", uint16(p.Flags))
	e.bit("fip.flags.fpma", p.Flags&FP != 0)
	e.bit("fip.flags.spma", p.Flags&SP != 0)
	e.bit("fip.flags.rec_p2p", p.Flags&RECP2P != 0)
	e.bit("fip.flags.available", p.Flags&Available != 0)
	e.bit("fip.flags.sol", p.Flags&Solicited != 0)
	e.bit("fip.flags.fport", p.Flags&FromFCF != 0)
	if p.Service != 0 {
		e.add("fip.desc_type", "0x%02x", uint8(p.Service))
		e.add("fip.desc_len", "%d", (serviceStart+len(p.ELS.Append(nil)))/word)
		e.els(&p.ELS)
	}
	for d := DescPriority; d < known; d++ {
		if (contents[p.Op].must | contents[p.Op].may&p.filled()).has(d) {
			e.descriptor(p, d)
		}
	}
}

func (e expectation) descriptor(p *Packet, d Descriptor) {
	repeat := map[Descriptor]int{DescVLAN: len(p.VLANs), DescVxPort: len(p.VxPorts)}[d]
	for range max(repeat, 1) {
		e.add("fip.desc_type", "0x%02x", uint8(d))
		e.add("fip.desc_len", "%d", lengths[d][0])
	}
	switch d {
	case DescPriority:
		e.add("fip.pri", "%d", p.Priority)
	case DescMAC:
		e.add("fip.mac", "%v", p.MAC)
	case DescFCMap:
		e.add("fip.map", "%s", dotted(p.FCMap))
	case DescName:
		e.add("fip.name", "%v", p.Name)
	case DescFabric:
		e.add("fip.fab.vfid", "%d", p.Fabric.VFID)
		e.add("fip.fab.map", "%s", dotted(p.Fabric.FCMap))
		e.add("fip.fab.name", "%v", p.Fabric.Name)
	case DescMaxSize:
		e.add("fip.fcoe_size", "%d", p.MaxSize)
	case DescPeriod:
		e.add("fip.fka", "%d", p.Period.Millis)
	case DescVendor:
		e.add("fip.vendor", "%016x", p.Vendor)
	}
	if d == DescVLAN {
		for _, v := range p.VLANs {
			e.add("fip.vlan", "%d", v)
		}
	}
	if d == DescVxPort {
		for _, v := range p.VxPorts {
			e.add("fip.vn.mac", "%v", v.MAC)
			e.add("fip.vn.fc_id", "0x%08x", uint32(v.ID))
			e.add("fip.vn.pwwn", "%v", v.Name)
		}
	}
}

// els is what tshark must find in a link service.
func (e expectation) els(s *ELS) {
	e.header(&s.Header)
	e.add("fcels.opcode", "0x%02x", uint8(s.Command))
	switch {
	case s.HasParameters:
		e.add("fcels.logi.b2b", "%d", s.Parameters.Credit)
		e.add("fcels.logi.cmnfeatures", "0x%04x", uint16(s.Parameters.Features))
		e.add("fcels.logi.rcvsize", "%d", s.Parameters.ReceiveSize)
		e.add("fcels.npname", "%v", s.Port)
		e.add("fcels.fnname", "%v", s.Node)
	case s.Command == LOGO:
		e.add("fcels.npname", "%v", s.Port)
	case s.Command == Reject:
		e.add("fcels.rjt.reason", "0x%02x", s.Reason)
		e.add("fcels.rjt.detail", "0x%02x", s.Explanation)
	}
}

// TestTsharkDecodesFCoE compares a hundred random FCoE frames field by field with what tshark
// decodes; it finds their CRC good, and that of one damaged frame bad.
func TestTsharkDecodesFCoE(t *testing.T) {
	first := firstExample(t)
	sofs := []SOF{SOFf, SOFi4, SOFi2, SOFi3, SOFn4, SOFn2, SOFn3, SOFc4}
	eofs := []EOF{EOFn, EOFt, EOFrt, EOFdt, EOFni, EOFdti, EOFrti, EOFa}
	frames, want := make([][]byte, 101), make([]expectation, 101)
	for i := range frames {
		r := rand.New(rand.NewPCG(uint64(first), uint64(i)))
		h := Header{D: FCID(r.IntN(1 << 24)), S: FCID(r.IntN(1 << 24)), CSCtl: uint8(r.Uint32()),
			Type: 0xe0, // vendor's
			FCtl: 0x290000, SeqID: uint8(r.Uint32()), SeqCount: uint16(r.Uint32()), OXID: uint16(r.Uint32()),
			RXID: uint16(r.Uint32()), Param: r.Uint32()}
		fc := h.Append(nil)
		for range 4 * r.IntN(529) {
			fc = append(fc, byte(r.Uint32()))
		}
		sof, eof := sofs[r.IntN(8)], eofs[r.IntN(8)]
		b, good := AppendFCoE(nil, sof, eof, fc), i < 100
		w := expectation{}
		if !good {
			b[fcoeHeader+23] ^= 1 // of the parameter
			fc[23] ^= 1
			w.add("_ws.expert.message", "Bad checksum [should be 0x%08x]", bits.ReverseBytes32(CRC(fc)))
			fc[23] ^= 1
		}
		w.header(&h)
		w.add("fcoe.ver", "0")
		w.add("fcoe.sof", "0x%02x", uint8(sof))
		w.add("fcoe.eof", "0x%02x", uint8(eof))
		w.add("fcoe.crc", "0x%08x", bits.ReverseBytes32(CRC(fc))) // as a big-endian number
		w.bit("fcoe.crc.status", good)
		frames[i], want[i] = frameOf(frame.TypeFCoE, b), w
	}
	compare(t, frames, want)
}

// header is what tshark must find in a Fibre Channel header.
func (e expectation) header(h *Header) {
	e.add("fc.r_ctl", "0x%02x", h.RCtl)
	e.add("fc.type", "0x%02x", h.Type)
	e.add("fc.d_id", "%s", dotted(uint32(h.D)))
	e.add("fc.s_id", "%s", dotted(uint32(h.S)))
	e.add("fc.f_ctl", "0x%06x", h.FCtl)
	e.add("fc.seq_id", "0x%02x", h.SeqID)
	e.add("fc.df_ctl", "0x%02x", h.DFCtl)
	e.add("fc.seq_cnt", "%d", h.SeqCount)
	e.add("fc.ox_id", "0x%04x", h.OXID)
	e.add("fc.rx_id", "0x%04x", h.RXID)
}

// dotted returns 24 bits as tshark shows them.
func dotted(v uint32) string { return fmt.Sprintf("%02x.%02x.%02x", byte(v>>16), byte(v>>8), byte(v)) }
