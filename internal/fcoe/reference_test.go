package fcoe

import (
	"fmt"
	"slices"
	"strings"
)

// rules are the contents of packets by operation and suboperation, written apart from the code:
// descriptors by their number in the formats, with ! once, ? up to once, * any number. E stands for
// one of 7 to 10, which must come first.
var rules = map[string]string{
	"0001 01": "2! 4! 6! 3? 13?", "0001 02": "1! 2! 4! 5! 12! 13?",
	"0002 01": "E 2! 13?", "0002 02": "E 2? 13?",
	"0003 01": "2! 11? 13?", "0003 02": "2! 4! 11* 13?",
	"0004 01": "2! 4? 13?", "0004 02": "2! 14* 4? 13?", "0004 03": "2! 14* 4? 13?",
	"0005 01": "2! 4! 11+ 6? 15? 13?", "0005 02": "2! 4! 11+ 6? 15? 13?", "0005 03": "2! 4! 11+ 6? 15? 13?",
	"0005 04": "2! 4! 11+ 6? 15? 13?", "0005 05": "2! 4! 11+ 6? 15? 13?",
}

// sizes are the bytes of descriptors.
var sizes = map[byte]int{1: 4, 2: 8, 3: 8, 4: 12, 5: 16, 6: 4, 11: 20, 12: 8, 13: 12, 14: 4, 15: 164}

// referenceServices are the link services: descriptor, direction, command, bytes of payload.
var referenceServices = []string{"7 request 04 116", "8 request 51 116", "9 request 05 16", "7 reply 02 116",
	"8 reply 02 116", "9 reply 02 4", "7 reply 01 8", "8 reply 01 8", "9 reply 01 8"}

// reference reads a FIP packet slowly. It returns what the packet says, or that it is invalid.
func reference(b []byte) (facts []string, valid bool) {
	if len(b) < 10 || len(b) > 2158 || b[0]&0xf0 != 0x10 {
		return nil, false
	}
	rule, known := rules[fmt.Sprintf("%x %x", b[2:4], b[5:6])]
	end := 10 + 4*(int(b[6])*256+int(b[7]))
	if !known || end > len(b) {
		return nil, false
	}
	facts = append(facts, fmt.Sprintf("flags %x", b[8:10]))
	count := map[byte]int{}
	for at := 10; at < end; at += 4 * int(b[at+1]) {
		if b[at+1] == 0 || at+4*int(b[at+1]) > end {
			return nil, false
		}
		kind, d := b[at], b[at:at+4*int(b[at+1])]
		if kind >= 128 {
			continue
		}
		count[kind]++
		switch size, plain := sizes[kind]; {
		case kind >= 7 && kind <= 10:
			if at != 10 || !strings.Contains(rule, "E") || !referenceService(d, b[5] == 1) {
				return nil, false
			}
		case !plain || len(d) != size || !slices.ContainsFunc(strings.Fields(rule), func(want string) bool {
			return strings.TrimRight(want, "!?*+") == fmt.Sprint(kind)
		}):
			return nil, false
		}
		facts = append(facts, referenceFact(kind, d))
	}
	for _, want := range strings.Fields(rule) {
		var kind byte
		var how string
		fmt.Sscanf(want, "%d%s", &kind, &how)
		switch n := count[kind]; {
		case want == "E" && count[7]+count[8]+count[9]+count[10] != 1,
			how == "!" && n != 1, how == "?" && n > 1, how == "+" && n == 0:
			return nil, false
		}
	}
	if login := count[7]+count[8] == 1 && len(b) > 38 && b[38] == 2; login && count[2] == 0 {
		return nil, false
	}
	return facts, true
}

// referenceService returns whether a descriptor is a link service that its operation may have.
func referenceService(d []byte, request bool) bool {
	direction := "reply"
	if request {
		direction = "request"
	}
	if d[0] == 10 {
		return len(d) == 4*33 || len(d) == 4*9 && !request
	}
	if len(d) < 4+24+4 {
		return false
	}
	of := fmt.Sprintf("%d %s %02x %d", d[0], direction, d[28], len(d)-28)
	rctl := map[string]byte{"request": 0x22, "reply": 0x23}[direction]
	return slices.Contains(referenceServices, of) && d[4] == rctl && d[12] == 1 && d[17] == 0
}

func referenceFact(kind byte, d []byte) string {
	at := map[byte]string{1: "3:4", 2: "2:8", 3: "5:8", 4: "4:12", 5: "2:4 5:8 8:16", 6: "2:4", 11: "2:8 9:12 12:20",
		12: "4:8", 13: "4:12"}[kind]
	fact := fmt.Sprint(kind)
	for _, part := range strings.Fields(at) {
		var from, to int
		fmt.Sscanf(part, "%d:%d", &from, &to)
		fact += fmt.Sprintf(" %x", d[from:to])
	}
	switch kind {
	case 12:
		fact += fmt.Sprintf(" %d", d[3]&1)
	case 14:
		fact += fmt.Sprintf(" %x", []byte{d[2] & 0xf, d[3]})
	case 7, 8, 9, 10:
		fact += fmt.Sprintf(" %x", d[4:])
	}
	return fact
}

// factsOf returns what Parse read, in the form of the reference.
func factsOf(p *Packet) []string {
	facts := []string{fmt.Sprintf("flags %04x", uint16(p.Flags))}
	mac := func(m interface{ Bytes() [6]byte }) []byte { b := m.Bytes(); return b[:] }
	add := func(d Descriptor, format string, values ...any) {
		if p.Has(d) {
			facts = append(facts, fmt.Sprintf("%d "+format, append([]any{d}, values...)...))
		}
	}
	add(DescPriority, "%02x", p.Priority)
	add(DescMAC, "%x", mac(p.MAC))
	add(DescFCMap, "%06x", p.FCMap)
	add(DescName, "%016x", uint64(p.Name))
	add(DescFabric, "%04x %06x %016x", p.Fabric.VFID, p.Fabric.FCMap, uint64(p.Fabric.Name))
	add(DescMaxSize, "%04x", p.MaxSize)
	d := 0
	if p.Period.NoKeepAlive {
		d = 1
	}
	add(DescPeriod, "%08x %d", p.Period.Millis, d)
	add(DescVendor, "%016x", p.Vendor)
	if p.Has(DescFC4) {
		facts = append(facts, "15")
	}
	for _, v := range p.VLANs {
		add(DescVLAN, "%04x", v)
	}
	for _, v := range p.VxPorts {
		add(DescVxPort, "%x %06x %016x", mac(v.MAC), uint32(v.ID), uint64(v.Name))
	}
	if p.Service != 0 {
		add(p.Service, "%x", p.FC)
	}
	return facts
}
