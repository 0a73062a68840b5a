package snooptest

import (
	"encoding/binary"
	"slices"

	"sluice/internal/frame"
)

// words is the length of each known descriptor in 4-byte words; nil: checked with its content.
var words = map[int][]int{
	1: {1}, 2: {2}, 3: {2}, 4: {3}, 5: {4}, 6: {1}, 7: {36, 9}, 8: {36, 9}, 9: {11, 8, 9}, 10: {33, 9},
	11: {5}, 12: {2}, 13: {3}, 14: {1}, 15: {41},
}

// message is a FIP frame as read. The reader is apart from package fcoe's on purpose.
type message struct {
	dst, src frame.MAC
	op       Op
	flags    int
	order    []int            // types of the descriptors in the order of the list
	all      map[int][][]byte // their values, behind type and length
}

// content is what the descriptors of an operation are: what must and what may be there.
var content = map[Op]struct{ must, may []int }{
	Solicitation:     {[]int{2, 4, 6}, []int{3}},
	Advertisement:    {[]int{1, 2, 4, 5, 12}, nil},
	Request:          {[]int{2}, []int{7, 8, 9, 10}},
	Reply:            {nil, []int{2, 7, 8, 9, 10}},
	KeepAlive:        {[]int{2}, []int{11}},
	ClearLinks:       {[]int{2, 4}, []int{11}},
	VLANRequest:      {[]int{2}, []int{4}},
	VLANNotification: {[]int{2}, []int{4, 14}},
}

// read reads the FIP frame b, untagged. bad has what is wrong with its format, by the names in the
// counters; nothing: it is well-formed.
func read(b []byte) (m message, bad []string) {
	m = message{dst: frame.MACFrom(b), src: frame.MACFrom(b[6:]), all: map[int][][]byte{}}
	b = b[14:]
	if len(b) < 10 {
		return m, []string{"truncated"}
	}
	if b[0]>>4 != 1 {
		return m, []string{"bad_version"}
	}
	m.op = Op{int(binary.BigEndian.Uint16(b[2:])), int(b[5])}
	m.flags = int(binary.BigEndian.Uint16(b[8:]))
	n := 4 * int(binary.BigEndian.Uint16(b[6:]))
	list := b[10:]
	if _, ok := content[m.op]; !ok && !m.betweenENodes() {
		bad = append(bad, "bad_operation")
	}
	if n > len(list) {
		return m, append(bad, "truncated")
	}
	for list = list[:n]; len(list) > 0; {
		kind, size := int(list[0]), 4*int(list[1])
		if size == 0 || size > len(list) {
			return m, append(bad, "bad_length")
		}
		bad = append(bad, m.take(kind, list[2:size])...)
		list = list[size:]
	}
	return m, append(bad, m.complete()...)
}

// take adds one descriptor.
func (m *message) take(kind int, value []byte) (bad []string) {
	first := len(m.order) == 0
	again := slices.Contains(m.order, kind) || isService(kind) && slices.ContainsFunc(m.order, isService)
	m.order = append(m.order, kind)
	allowed, known := words[kind]
	if !known && kind >= 128 {
		return nil
	}
	if !known {
		return []string{"unknown_critical"}
	}
	c := content[m.op]
	if !m.betweenENodes() && kind != 13 && !slices.Contains(c.must, kind) && !slices.Contains(c.may, kind) {
		bad = append(bad, "unexpected")
	}
	if again && (kind != 11 && kind != 14 || kind == 11 && m.op == KeepAlive) {
		bad = append(bad, "duplicate")
	}
	if isService(kind) && !first {
		bad = append(bad, "bad_order")
	}
	if !slices.Contains(allowed, (len(value)+2)/4) {
		return append(bad, "bad_descriptor")
	}
	m.all[kind] = append(m.all[kind], value)
	return bad
}

// betweenENodes returns whether it serves virtual links without an FCF.
func (m *message) betweenENodes() bool { return m.op.Op == 5 || m.op == VN2VNVLAN }

func isService(kind int) bool { return kind >= FLOGI && kind <= elp }

const elp = 10

// complete returns what is missing, and what is wrong with a link service.
func (m *message) complete() (bad []string) {
	for _, k := range content[m.op].must {
		if !m.has(k) {
			bad = append(bad, "missing")
		}
	}
	if m.op != Request && m.op != Reply {
		return bad
	}
	e, ok := m.els()
	if !ok {
		return append(bad, "missing", "duplicate", "bad_order")
	}
	if e.kind == elp {
		if m.op == Request && len(m.all[elp][0]) < 4*33-2 {
			bad = append(bad, "bad_descriptor", "bad_els")
		}
		return bad
	}
	length := map[int]int{FLOGI: 116, FDISC: 116, LOGO: 16}[e.kind]
	switch {
	case e.typ != 1 || e.dfctl != 0:
	case m.op == Request && e.rctl == 0x22 && e.command == commands[e.kind] && e.payloadLength == length:
		return bad
	case m.op == Reply && e.rctl == 0x23 && e.command == cmdReject && e.payloadLength == 8:
		return bad
	case m.op == Reply && e.rctl == 0x23 && e.command == cmdAccept && e.kind == LOGO && e.payloadLength == 4:
		return bad
	case m.op == Reply && e.rctl == 0x23 && e.command == cmdAccept && e.kind != LOGO && e.payloadLength == length:
		if !m.has(2) {
			bad = append(bad, "missing")
		}
		return bad
	}
	return append(bad, "bad_els", "bad_length", "bad_descriptor")
}

func (m *message) has(kinds ...int) bool {
	for _, k := range kinds {
		if len(m.all[k]) == 0 {
			return false
		}
	}
	return true
}

func mac(v []byte) frame.MAC { return frame.MAC(number(v[:6])) }

func number(v []byte) (n uint64) {
	for _, b := range v {
		n = n<<8 | uint64(b)
	}
	return n
}

func (m *message) mac() frame.MAC { return mac(m.all[2][0]) }
func (m *message) name() uint64   { return number(m.all[4][0][2:]) }

// els is the link service of a message.
type els struct {
	kind          int
	rctl, typ     byte
	dfctl         byte // optional headers
	command       byte
	sid, did, id  uint32
	oxid          uint16
	wwpn, wwnn    uint64
	payloadLength int
}

// els returns the link service in a message that has exactly one.
func (m *message) els() (e els, ok bool) {
	found := 0
	for _, kind := range []int{FLOGI, FDISC, LOGO, 10} {
		if !m.has(kind) {
			continue
		}
		found++
		fc := m.all[kind][0][2:]
		e = els{kind: kind, rctl: fc[0], did: uint32(number(fc[1:4])), sid: uint32(number(fc[5:8])), typ: fc[8],
			dfctl: fc[13], oxid: uint16(number(fc[16:18])), command: fc[24], payloadLength: len(fc) - 24}
		switch p := fc[24:]; e.payloadLength {
		case 116:
			e.wwpn, e.wwnn = number(p[20:28]), number(p[28:36])
		case 16:
			e.id, e.wwpn = uint32(number(p[5:8])), number(p[8:16])
		}
	}
	return e, found == 1
}
