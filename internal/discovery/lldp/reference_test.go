package lldp

import (
	"bytes"
	"fmt"
	"slices"
)

// referenceTLV is a TLV as an independent, simple decoder sees it.
type referenceTLV struct {
	kind  int
	value []byte
}

// referencePDU is what that decoder finds in an LLDPDU.
type referencePDU struct {
	tlvs          []referenceTLV // all that end within the LLDPDU, without End
	facts         []string       // of TLVs that count, sorted
	cut, badEnd   bool
	length, twice int // TLVs with a wrong length; with a type that was there
	unrecognized  int
}

// reference decodes an LLDPDU in another way than Decode does: first all TLVs, then their
// meaning. isPFC recognizes organizational TLVs.
func reference(b []byte) (r referencePDU, err error) {
	if len(b) > 1500 {
		return r, ErrTooLong
	}
	for at := 0; at < len(b); {
		if at+2 > len(b) {
			r.cut = true
			break
		}
		kind, length := int(b[at])/2, int(b[at])%2*256+int(b[at+1])
		if kind == 0 {
			r.badEnd = length != 0
			break
		}
		if at += 2; at+length > len(b) {
			r.cut = true
			break
		}
		r.tlvs = append(r.tlvs, referenceTLV{kind, b[at : at+length]})
		at += length
	}
	for i := range 3 {
		if len(r.tlvs) <= i || r.tlvs[i].kind != i+1 {
			return r, ErrOrder
		}
	}
	for i, wrong := range []error{ErrChassisID, ErrPortID} {
		if n := len(r.tlvs[i].value) - 1; n < 1 || n > 255 {
			return r, wrong
		}
	}
	ttl := r.tlvs[2].value
	if len(ttl) < 2 {
		return r, ErrTTL
	}
	r.facts = append(r.facts, fmt.Sprintf("chassis %x", r.tlvs[0].value), fmt.Sprintf("port %x", r.tlvs[1].value),
		fmt.Sprintf("ttl %d", int(ttl[0])<<8+int(ttl[1])))
	if ttl[0] == 0 && ttl[1] == 0 {
		r.tlvs, r.cut, r.badEnd = r.tlvs[:3], false, false
	}
	seen := map[string]bool{}
	for _, tlv := range r.tlvs[3:] {
		if tlv.kind <= 3 {
			return r, ErrRepeated
		}
		r.add(tlv, seen)
	}
	slices.Sort(r.facts)
	return r, nil
}

func (r *referencePDU) add(tlv referenceTLV, seen map[string]bool) {
	v := tlv.value
	name := fmt.Sprint(tlv.kind)
	var valid bool
	once := tlv.kind != 8
	switch tlv.kind {
	case 4, 5, 6:
		valid = len(v) < 256
	case 7:
		valid = len(v) == 4
	case 8:
		valid = len(v) >= 9 && len(v) <= 167 && v[0] >= 2 && v[0] <= 32 && len(v) >= int(v[0])+7 &&
			v[v[0]+6] <= 128 && len(v) == int(v[0])+7+int(v[v[0]+6])
	case 127:
		if valid = len(v) >= 4; !valid {
			break
		}
		name = fmt.Sprintf("127 %x", v[:4])
		switch name {
		case "127 0080c201", "127 00120f04":
			valid = len(v) == 6
		case "127 00120f01":
			valid = len(v) == 9
		default:
			if once = false; name != "127 0080c20b" {
				r.unrecognized++
			}
		}
	default:
		r.unrecognized++
		return
	}
	switch {
	case !valid:
		r.length++
	case once && seen[name]:
		r.twice++
	default:
		seen[name] = true
		r.facts = append(r.facts, fmt.Sprintf("%s %x", name, v))
	}
}

// same returns whether Decode found the same.
func (r *referencePDU) same(u *LLDPDU) bool {
	facts := []string{
		fmt.Sprintf("chassis %02x%x", u.Chassis.Subtype, u.Chassis.Value),
		fmt.Sprintf("port %02x%x", u.Port.Subtype, u.Port.Value), fmt.Sprintf("ttl %d", u.TTL),
	}
	for kind, text := range map[int][]byte{4: u.PortDescription, 5: u.SystemName, 6: u.SystemDescription} {
		if text != nil {
			facts = append(facts, fmt.Sprintf("%d %x", kind, text))
		}
	}
	if c := u.Capabilities; u.HasCapabilities {
		facts = append(facts, fmt.Sprintf("7 %04x%04x", uint16(c.Supported), uint16(c.Enabled)))
	}
	for _, m := range u.Management {
		facts = append(facts, fmt.Sprintf("8 %02x%02x%x%02x%08x%02x%x", len(m.Address)+1, m.Subtype, m.Address,
			m.Numbering, m.Number, len(m.OID), m.OID))
	}
	var decoded []string
	for _, v := range u.Organizational {
		facts = append(facts, fmt.Sprintf("127 %x %x", v[:4], v))
		switch id := fmt.Sprintf("%x", v[:4]); id {
		case "0080c201", "00120f01", "00120f04":
			decoded = append(decoded, fmt.Sprintf("%s%x", id, v[4:]))
		}
	}
	slices.Sort(facts)
	slices.Sort(decoded)
	var fields []string
	if u.HasPVID {
		fields = append(fields, fmt.Sprintf("0080c201%04x", u.PVID))
	}
	if m := u.MACPHY; u.HasMACPHY {
		fields = append(fields, fmt.Sprintf("00120f01%02x%04x%04x", m.AutoNegotiation, m.Advertised, m.MAU))
	}
	if sent := slices.ContainsFunc(decoded, func(s string) bool { return s[:8] == "00120f04" }); sent {
		fields = append(fields, fmt.Sprintf("00120f04%04x", u.MaxFrameSize))
	}
	slices.Sort(fields)
	length := r.length
	if r.badEnd {
		length++
	}
	cut := 0
	if r.cut {
		cut = 1
	}
	i := 0
	for kind, value := range u.TLVs() {
		if i == len(r.tlvs) || r.tlvs[i].kind != int(kind) || !bytes.Equal(r.tlvs[i].value, value) {
			return false
		}
		i++
	}
	return i == len(r.tlvs) && slices.Equal(facts, r.facts) && slices.Equal(decoded, fields) &&
		u.Errors == [NumErrors]uint16{ErrLength: uint16(length), ErrCut: uint16(cut), ErrDuplicate: uint16(r.twice)} &&
		u.Unrecognized == r.unrecognized
}
