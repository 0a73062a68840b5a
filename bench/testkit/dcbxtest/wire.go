package dcbxtest

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Version is a version of DCBX; for CEE and CIN, the subtype of the TLV.
type Version uint8

// Versions of DCBX with sequence numbers: CIN is 1.00, CEE is 1.01.
const (
	CIN Version = 1
	CEE Version = 2
)

// Feature is a feature that two ends agree on.
type Feature uint8

// Features of both versions.
const (
	PFC Feature = iota
	PG
	App
	Features
)

// Types of sub-TLVs.
const (
	typeControl = 1
	typePG      = 2
	typePFC     = 3
	typeAppCEE  = 4
	typeAppCIN  = 5
)

// Groups is the table of priority groups. CEE has no Strict and Share; CIN has no TCs, and groups
// 0 to 7 only.
type Groups struct {
	Group   [8]uint8 // by priority; 15: strict, without limit
	Percent [8]uint8 // of the link, by group
	Strict  [8]uint8 // by priority, 2 bits
	Share   [8]uint8 // by priority, % of its group
	TCs     uint8
}

// Application is an entry of the application table. In CIN, Protocol is the SubType (0 FCoE,
// 1 iSCSI, 2 FIP), and Selector and OUI are 0.
type Application struct {
	Protocol   uint16
	Selector   uint8  // 0 Ethertype, 1 socket
	OUI        uint32 // 24 bits; the two lowest of the first byte can't be sent
	Priorities uint8  // bitmap
}

// advert is the content of a feature's sub-TLV.
type advert struct {
	present, twice         bool
	oper, max              uint8
	enable, willing, error bool

	pfc    uint8
	pfcTCs uint8
	groups Groups
	apps   []Application
}

// message is the content of an LLDPDU in one version.
type message struct {
	oper, max uint8
	seq, ack  uint32
	features  [Features]advert
	raw       []byte // all sub-TLVs of features, OperVersion and Error masked
	rawFlags  []byte // the same without the mask
}

var oui = []byte{0x00, 0x1b, 0x21}

// parse finds the TLV of version v among the values of the type-127 TLVs of an LLDPDU. It returns
// nil if there is none or it is unusable, and all violations of the format. A feature whose sub-TLV
// violates it counts as missing.
func parse(v Version, tlvs [][]byte) (m *message, wrong []string) {
	for _, tlv := range tlvs {
		if len(tlv) < 4 || string(tlv[:3]) != string(oui) || tlv[3] != byte(v) {
			continue
		}
		if m != nil {
			wrong = append(wrong, "two TLVs of the version in one LLDPDU")
			continue
		}
		var w []string
		m, w = parseSubs(v, tlv[4:])
		wrong = append(wrong, w...)
	}
	return m, wrong
}

func parseSubs(v Version, body []byte) (m *message, wrong []string) {
	m = &message{}
	seen := map[string]bool{}
	control := 0
	for len(body) > 0 {
		if len(body) < 2 {
			return nil, append(wrong, "a sub-TLV of one byte")
		}
		head := int(binary.BigEndian.Uint16(body))
		kind, length := head>>9, head&0x1ff
		if len(body) < 2+length {
			return nil, append(wrong, fmt.Sprintf("sub-TLV %d is cut", kind))
		}
		value := body[2 : 2+length]
		if kind == typeControl {
			control++
			if length != 10 {
				return nil, append(wrong, fmt.Sprintf("control has length %d", length))
			}
			m.oper, m.max = value[0], value[1]
			m.seq, m.ack = binary.BigEndian.Uint32(value[2:]), binary.BigEndian.Uint32(value[6:])
			if m.oper > m.max {
				wrong = append(wrong, "control: OperVersion is above MaxVersion")
			}
		} else {
			wrong = append(wrong, m.feature(v, kind, value, seen)...)
			m.keep(body[:2+length])
		}
		body = body[2+length:]
	}
	if control != 1 {
		return nil, append(wrong, fmt.Sprintf("%d control sub-TLVs", control))
	}
	return m, wrong
}

// keep appends a feature's sub-TLV to raw, without the fields that may change while the sequence
// number stays, and to rawFlags.
func (m *message) keep(sub []byte) {
	m.rawFlags = append(m.rawFlags, sub...)
	masked := slices.Clone(sub)
	if len(masked) >= 5 {
		masked[2] = 0      // OperVersion
		masked[4] &^= 0x20 // Error
	}
	m.raw = append(m.raw, masked...)
}

func (m *message) feature(v Version, kind int, value []byte, seen map[string]bool) (wrong []string) {
	var f Feature
	switch {
	case kind == typePFC:
		f = PFC
	case kind == typePG:
		f = PG
	case v == CEE && kind == typeAppCEE, v == CIN && kind == typeAppCIN:
		f = App
	default:
		return nil // of other features
	}
	if len(value) < 4 {
		return []string{fmt.Sprintf("sub-TLV %d has length %d", kind, len(value))}
	}
	a := &m.features[f]
	name := fmt.Sprint(kind, " ", value[3])
	if seen[name] {
		a.twice = true
		return nil
	}
	seen[name] = true

	first := !a.present
	enable, willing, failed := value[2]&0x80 != 0, value[2]&0x40 != 0, value[2]&0x20 != 0
	if value[2]&0x1f != 0 {
		wrong = append(wrong, fmt.Sprintf("sub-TLV %d: reserved flags %#x", kind, value[2]))
	}
	if value[0] > value[1] {
		wrong = append(wrong, fmt.Sprintf("sub-TLV %d: OperVersion is above MaxVersion", kind))
	}
	if !first && (a.enable != enable || a.willing != willing || a.error != failed) {
		wrong = append(wrong, "applications with different flags")
	}
	w := a.values(v, f, value)
	if w != "" {
		return append(wrong, fmt.Sprintf("sub-TLV %d: %s", kind, w))
	}
	a.present, a.oper, a.max = true, value[0], value[1]
	a.enable, a.willing, a.error = enable, willing, failed
	return wrong
}

// values reads the bytes after the header of a feature, and checks their number.
func (a *advert) values(v Version, f Feature, value []byte) (wrong string) {
	body := value[4:]
	want := map[Feature]int{PFC: 2, PG: 13, App: len(body) / 6 * 6}
	if v == CIN {
		want = map[Feature]int{PFC: 1, PG: 24, App: 1}
	}
	if len(body) != want[f] {
		return fmt.Sprintf("length %d", len(value))
	}
	switch {
	case f == PFC:
		if a.pfc = body[0]; v == CEE {
			a.pfcTCs = body[1]
		}
	case f == PG && v == CEE:
		a.groups = groupsCEE(body)
		return a.groups.check(v)
	case f == PG:
		a.groups = groupsCIN(body)
		return a.groups.check(v)
	case v == CEE:
		a.apps = nil
		for e := body; len(e) > 0; e = e[6:] {
			a.apps = append(a.apps, Application{
				Protocol:   binary.BigEndian.Uint16(e),
				Selector:   e[2] & 3,
				OUI:        uint32(e[2]&0xfc)<<16 | uint32(e[3])<<8 | uint32(e[4]),
				Priorities: e[5],
			})
		}
	default:
		a.apps = append(a.apps, Application{Protocol: uint16(value[3]), Priorities: body[0]})
	}
	return ""
}

func groupsCEE(body []byte) (g Groups) {
	for p := range 8 {
		g.Group[p] = body[p/2] >> 4
		if p%2 == 1 {
			g.Group[p] = body[p/2] & 0xf
		}
	}
	copy(g.Percent[:], body[4:12])
	g.TCs = body[12]
	return g
}

func groupsCIN(body []byte) (g Groups) {
	copy(g.Percent[:], body[:8])
	for p := range 8 {
		g.Group[p] = body[8+2*p] >> 5
		g.Strict[p] = body[8+2*p] >> 3 & 3
		g.Share[p] = body[9+2*p]
	}
	return g
}

func (g *Groups) check(v Version) string {
	sum, strict := 0, 0
	for i := range 8 {
		sum += int(g.Percent[i])
		if g.Group[i] == 15 || g.Strict[i] != 0 {
			strict++
		}
		if g.Group[i] > 7 && g.Group[i] != 15 {
			return fmt.Sprintf("priority %d is in the reserved group %d", i, g.Group[i])
		}
		if v == CIN && g.Share[i] > 100 {
			return fmt.Sprintf("priority %d has %d %% of its group", i, g.Share[i])
		}
	}
	if sum != 100 && (sum != 0 || strict != 8) {
		return fmt.Sprintf("bandwidths sum to %d", sum)
	}
	return ""
}

// Said is the content of an LLDPDU in CEE or CIN.
type Said struct {
	Config
	Error [Features]bool
}

// Read returns the content of an LLDPDU in version v, and the violations of the format. Ok is false
// if there is none in this version.
func Read(v Version, tlvs [][]byte) (s Said, wrong []string, ok bool) {
	m, wrong := parse(v, tlvs)
	if m == nil {
		return s, wrong, false
	}
	return said(v, m), wrong, true
}

func said(v Version, m *message) (s Said) {
	s.Version, s.MaxVersion = v, m.max
	for f, a := range m.features {
		s.Advertise[f], s.Twice[f], s.Error[f] = a.present, a.twice, a.error
		s.Enable[f], s.Willing[f] = a.enable, a.willing
	}
	s.PFC, s.PFCTCs = m.features[PFC].pfc, m.features[PFC].pfcTCs
	s.Groups, s.Apps = m.features[PG].groups, m.features[App].apps
	return s
}

// build is the inverse of parse.
func (m *message) build(v Version, c *Config) []byte {
	value := append(slices.Clone(oui), byte(v))
	control := []byte{m.oper, m.max}
	control = binary.BigEndian.AppendUint32(control, m.seq)
	control = binary.BigEndian.AppendUint32(control, m.ack)
	value = append(value, sub(typeControl, control)...)
	order := []Feature{PG, PFC, App}
	if c.NexusOrder {
		order = []Feature{PFC, App, PG}
	}
	for _, f := range order {
		for i, s := range m.features[f].build(v, f) {
			value = append(value, s...)
			if m.features[f].twice && i == 0 {
				value = append(value, s...)
			}
		}
	}
	return append(value, c.Extra...)
}

func sub(kind int, value []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(kind<<9|len(value))), value...)
}

// build returns the sub-TLVs of a feature: one, except for the applications of CIN.
func (a *advert) build(v Version, f Feature) (subs [][]byte) {
	if !a.present {
		return nil
	}
	switch {
	case f == PFC && v == CEE:
		return [][]byte{sub(typePFC, append(a.header(0), a.pfc, a.pfcTCs))}
	case f == PFC:
		return [][]byte{sub(typePFC, append(a.header(0), a.pfc))}
	case f == PG:
		return [][]byte{sub(typePG, append(a.header(0), a.groups.build(v)...))}
	case v == CEE:
		value := a.header(0)
		for _, e := range a.apps {
			value = binary.BigEndian.AppendUint16(value, e.Protocol)
			value = append(value, byte(e.OUI>>16)&0xfc|e.Selector, byte(e.OUI>>8), byte(e.OUI), e.Priorities)
		}
		return [][]byte{sub(typeAppCEE, value)}
	}
	for _, e := range a.apps {
		subs = append(subs, sub(typeAppCIN, append(a.header(byte(e.Protocol)), e.Priorities)))
	}
	return subs
}

func (a *advert) header(subType byte) []byte {
	flags := byte(0)
	if a.enable {
		flags |= 0x80
	}
	if a.willing {
		flags |= 0x40
	}
	if a.error {
		flags |= 0x20
	}
	return []byte{a.oper, a.max, flags, subType}
}

func (g *Groups) build(v Version) (body []byte) {
	if v == CEE {
		for p := 0; p < 8; p += 2 {
			body = append(body, g.Group[p]<<4|g.Group[p+1])
		}
		return append(append(body, g.Percent[:]...), g.TCs)
	}
	body = append(body, g.Percent[:]...)
	for p := range 8 {
		body = append(body, g.Group[p]<<5|g.Strict[p]<<3, g.Share[p])
	}
	return body
}
