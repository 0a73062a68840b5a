package dcbx

import (
	"encoding/binary"
	"slices"
)

// Sub-TLVs of CEE and CIN: 7 bits of type, 9 of length. A feature begins with a header of four
// bytes: operating version, highest version, flags, subtype. Bytes from the header on:
//
//	control, 10     operating version, highest version, 4 bytes SeqNo, 4 bytes AckNo
//	groups CEE, 17  4: 4 bytes of priority groups, one nibble a priority; 8 percentages by group; 16 number of classes
//	groups CIN, 28  4: percentages by bandwidth group; 12 two bytes a priority: bits 7-5 group, bits 4-3 strict; share
//	PFC             4: priorities; CEE only: 5 number of classes
//	apps CEE, 4+6n  4: protocol; bits 7-2 of the OUI's first byte, bits 1-0 selector; its rest; priorities
//	apps CIN, 5     4: priorities; the subtype says which application
const (
	subControl = 1
	subGroups  = 2
	subPFC     = 3
	subAppCEE  = 4
	subAppCIN  = 5

	lengthControl   = 10
	lengthHeader    = 4
	lengthGroupsCEE = 17
	lengthGroupsCIN = 28
	lengthPFCCEE    = 6
	lengthPFCCIN    = 5
	lengthAppCEE    = 6 // each, without the header
	lengthAppCIN    = 5

	flagEnable  = 0x80
	flagWilling = 0x40
	flagError   = 0x20

	// operVersion is the operating and the highest version of the control protocol and of all
	// features. The operating version is the lower of both ends' highest, so it is 0, too.
	operVersion = 0

	selectorCEEEthertype = 0
	selectorCEEPort      = 1
)

// cinApps are the applications of CIN, by subtype.
var cinApps = [...]App{
	{SelectEthertype, EthertypeFCoE, 0}, {SelectTCP, PortISCSI, 0}, {SelectEthertype, EthertypeFIP, 0},
}

// control is the control sub-TLV.
type control struct {
	oper, max uint8
	seq, ack  uint32
}

func (c control) append(b []byte) []byte {
	value := [lengthControl]byte{c.oper, c.max}
	binary.BigEndian.PutUint32(value[2:], c.seq)
	binary.BigEndian.PutUint32(value[6:], c.ack)
	return appendTLV(b, subControl, value[:])
}

func decodeControl(b []byte) (c control, err Error) {
	if len(b) != lengthControl {
		return c, ErrLength
	}
	return control{oper: b[0], max: b[1], seq: binary.BigEndian.Uint32(b[2:]), ack: binary.BigEndian.Uint32(b[6:])}, 0
}

// header is the header of a feature of CEE and CIN.
type header struct {
	enabled, willing, failed bool // failed is the Error flag
	oper                     uint8
	subtype                  uint8
}

func (h header) append(b []byte) []byte {
	return append(b, operVersion, operVersion,
		bitIf(h.enabled, flagEnable)|bitIf(h.willing, flagWilling)|bitIf(h.failed, flagError), h.subtype)
}

// decodeHeader decodes the header of a feature, which b is long enough for.
func decodeHeader(b []byte) header {
	return header{enabled: b[2]&flagEnable != 0, willing: b[2]&flagWilling != 0, failed: b[2]&flagError != 0,
		oper: b[0], subtype: b[3]}
}

func (g *ceeGroups) append(b []byte, h header) []byte {
	value := h.append(make([]byte, 0, lengthGroupsCEE))
	for p := 0; p < 8; p += 2 {
		value = append(value, g.pgid[p]<<4|g.pgid[p+1]&0xf)
	}
	value = append(append(value, g.percent[:]...), g.classes)
	return appendTLV(b, subGroups, value)
}

func decodeGroupsCEE(b []byte) (g ceeGroups, err Error) {
	if len(b) != lengthGroupsCEE {
		return g, ErrLength
	}
	for p := range g.pgid {
		g.pgid[p] = b[4+p/2] >> (4 - p%2*4) & 0xf
	}
	copy(g.percent[:], b[8:])
	g.classes = b[16]
	return g, g.check()
}

func (g *cinGroups) append(b []byte, h header) []byte {
	value := h.append(make([]byte, 0, lengthGroupsCIN))
	value = append(value, g.percent[:]...)
	for p := range g.group {
		value = append(value, g.group[p]<<5|g.strict[p]<<3, g.share[p])
	}
	return appendTLV(b, subGroups, value)
}

func decodeGroupsCIN(b []byte) (g cinGroups, err Error) {
	if len(b) != lengthGroupsCIN {
		return g, ErrLength
	}
	copy(g.percent[:], b[4:])
	for p := range g.group {
		g.group[p], g.strict[p], g.share[p] = b[12+2*p]>>5, b[12+2*p]>>3&3, b[13+2*p]
	}
	return g, g.check()
}

func appendPFCLegacy(b []byte, v Version, h header, p PFC) []byte {
	value := append(h.append(make([]byte, 0, lengthPFCCEE)), p.Priorities)
	if v == CEE {
		value = append(value, p.Capability)
	}
	return appendTLV(b, subPFC, value)
}

func decodePFCLegacy(v Version, b []byte) (p PFC, err Error) {
	if v == CEE && len(b) == lengthPFCCEE {
		return PFC{Priorities: b[4], Capability: b[5]}, 0
	}
	if v == CIN && len(b) == lengthPFCCIN {
		return PFC{Priorities: b[4]}, 0
	}
	return p, ErrLength
}

// legacyApp is an application in the terms of CEE and CIN: its priorities are a map.
type legacyApp struct {
	App
	priorities uint8
}

// legacyApps returns the applications that a version can carry, one entry for each protocol, in
// the order in which they come first. CEE knows ethertypes and ports, CIN only FCoE, iSCSI and FIP;
// neither distinguishes ports of TCP and UDP.
func legacyApps(v Version, apps []App) (all []legacyApp) {
	for _, a := range apps {
		switch a.Selector {
		case SelectEthertype:
		case SelectTCP, SelectUDP, SelectPort:
			a.Selector = SelectPort
		default:
			continue
		}
		bit, key := uint8(1)<<(a.Priority&7), App{a.Selector, a.Protocol, 0}
		if v == CIN && cinSubtype(key) < 0 {
			continue
		}
		i := slices.IndexFunc(all, func(o legacyApp) bool { return o.App == key })
		if i < 0 {
			if i = len(all); i == MaxApps {
				continue
			}
			all = append(all, legacyApp{App: key})
		}
		all[i].priorities |= bit
	}
	return all
}

// cinSubtype returns the subtype of an application in CIN, or -1.
func cinSubtype(a App) int {
	return slices.IndexFunc(cinApps[:], func(known App) bool {
		return known.Protocol == a.Protocol && (known.Selector == SelectEthertype) == (a.Selector == SelectEthertype)
	})
}

// carried returns apps as a peer sees them if a version carries them: sorted, without those that it
// cannot carry.
func carried(v Version, apps []App) (all []App) {
	for _, a := range legacyApps(v, apps) {
		all = appendPriorities(all, a.App, a.priorities)
	}
	slices.SortFunc(all, compareApps)
	return all
}

// appendPriorities appends an application once for each of its priorities.
func appendPriorities(apps []App, a App, priorities uint8) []App {
	for p := range uint8(8) {
		if priorities>>p&1 == 1 {
			a.Priority = p
			apps = append(apps, a)
		}
	}
	return apps
}

func compareApps(a, b App) int {
	key := func(a App) int { return int(a.Selector)<<24 | int(a.Protocol)<<8 | int(a.Priority) }
	return key(a) - key(b)
}

// appendAppsLegacy appends the sub-TLVs of applications: one in CEE, one for each application in
// CIN. Without any application it appends an empty one, which carries the flags.
func appendAppsLegacy(b []byte, v Version, h header, apps []App) []byte {
	all := legacyApps(v, apps)
	if v == CIN {
		for subtype, known := range cinApps {
			i := slices.IndexFunc(all, func(a legacyApp) bool { return cinSubtype(a.App) == cinSubtype(known) })
			if h.subtype = uint8(subtype); i >= 0 {
				b = appendTLV(b, subAppCIN, append(h.append(make([]byte, 0, lengthAppCIN)), all[i].priorities))
			}
		}
		if len(all) == 0 {
			h.subtype = 0
			b = appendTLV(b, subAppCIN, append(h.append(make([]byte, 0, lengthAppCIN)), 0))
		}
		return b
	}
	value := h.append(make([]byte, 0, lengthHeader+len(all)*lengthAppCEE))
	for _, a := range all {
		selector := uint8(selectorCEEEthertype)
		if a.Selector != SelectEthertype {
			selector = selectorCEEPort
		}
		value = binary.BigEndian.AppendUint16(value, a.Protocol)
		value = append(value, ouiLegacy[0]&0xfc|selector, ouiLegacy[1], ouiLegacy[2], a.priorities)
	}
	return appendTLV(b, subAppCEE, value)
}

// decodeAppsCEE returns the applications of a sub-TLV. It skips those of other organizations and
// those with a reserved selector.
func decodeAppsCEE(b []byte) (apps []App, err Error) {
	if len(b) < lengthHeader || (len(b)-lengthHeader)%lengthAppCEE != 0 {
		return nil, ErrLength
	}
	for b = b[lengthHeader:]; len(b) > 0; b = b[lengthAppCEE:] {
		if b[2]&0xfc != ouiLegacy[0]&0xfc || b[3] != ouiLegacy[1] || b[4] != ouiLegacy[2] {
			continue
		}
		a := App{Protocol: binary.BigEndian.Uint16(b)}
		switch b[2] & 3 {
		case selectorCEEEthertype:
			a.Selector = SelectEthertype
		case selectorCEEPort:
			a.Selector = SelectPort
		default:
			continue
		}
		apps = appendPriorities(apps, a, b[5])
	}
	return apps, 0
}
