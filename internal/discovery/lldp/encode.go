package lldp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Local is what a port sends about itself.
type Local struct {
	MAC     [6]byte // source address of the frames
	Chassis ChassisID
	Port    PortID

	// "": not sent. Up to 255 bytes.
	PortDescription, SystemName, SystemDescription string

	Capabilities Capabilities // not sent without supported ones
	Management   []ManagementAddress
	PVID         uint16 // 0: not sent
	MaxFrameSize uint16 // bytes with header and FCS; 0: not sent
}

// sameSystemPort returns whether both identify the same port of the same system to neighbours,
// which know it by chassis ID and port ID.
func (l *Local) sameSystemPort(o *Local) bool {
	return l.Chassis.Subtype == o.Chassis.Subtype && bytes.Equal(l.Chassis.Value, o.Chassis.Value) &&
		l.Port.Subtype == o.Port.Subtype && bytes.Equal(l.Port.Value, o.Port.Value)
}

// check returns what keeps an LLDPDU from being sent at all.
func (l *Local) check() error {
	for _, id := range []struct {
		name  string
		value []byte
	}{{"chassis ID", l.Chassis.Value}, {"port ID", l.Port.Value}} {
		if n := len(id.value); n == 0 || n > maxText {
			return fmt.Errorf("LLDP %s of %d bytes: give it 1 to %d", id.name, n, maxText)
		}
	}
	return nil
}

// Append appends an Ethernet frame with an LLDPDU to dst, padded to 60 bytes. organizational has
// the values (OUI, subtype, body) of further TLVs of type 127. With a TTL of 0 s, the LLDPDU has
// only the mandatory TLVs.
//
// An error names the TLV that is not in the LLDPDU because it is invalid or did not fit into
// MaxLength. The frame is valid nevertheless, and has all others. It is missing only if the chassis
// ID or port ID is invalid.
func (l *Local) Append(dst []byte, ttl uint16, organizational [][]byte) ([]byte, error) {
	if err := l.check(); err != nil {
		return dst, err
	}
	frame := len(dst)
	dst = append(dst, Destination[:]...)
	dst = append(dst, l.MAC[:]...)
	w := writer{b: binary.BigEndian.AppendUint16(dst, EtherType), limit: frame + headerLength + MaxLength}
	w.add("chassis ID", typeChassisID, []byte{l.Chassis.Subtype}, l.Chassis.Value)
	w.add("port ID", typePortID, []byte{l.Port.Subtype}, l.Port.Value)
	w.add("TTL", typeTTL, binary.BigEndian.AppendUint16(nil, ttl))
	if ttl > 0 {
		l.appendOptional(&w, organizational)
	}
	w.b = append(w.b, typeEnd, 0)
	for len(w.b) < frame+minFrame {
		w.b = append(w.b, 0)
	}
	return w.b, errors.Join(w.errors...)
}

func (l *Local) appendOptional(w *writer, organizational [][]byte) {
	w.addText("port description", typePortDescription, l.PortDescription)
	w.addText("system name", typeSystemName, l.SystemName)
	w.addText("system description", typeSystemDescription, l.SystemDescription)
	if c := l.Capabilities; c.Supported != 0 {
		v := binary.BigEndian.AppendUint16(nil, uint16(c.Supported))
		w.add("capabilities", typeCapabilities, binary.BigEndian.AppendUint16(v, uint16(c.Enabled)))
	}
	for _, m := range l.Management {
		w.addManagement(m)
	}
	if l.PVID != 0 {
		w.addOrganizational("port VLAN ID", orgPVID, l.PVID)
	}
	if l.MaxFrameSize != 0 {
		w.addOrganizational("maximum frame size", orgMaxFrameSize, l.MaxFrameSize)
	}
	for _, value := range organizational {
		if len(value) < orgHeader || len(value) > maxValue {
			w.refuse("organizational TLV % x: it has %d bytes, not %d to %d", value[:min(len(value), orgHeader)],
				len(value), orgHeader, maxValue)
			continue
		}
		w.add(fmt.Sprintf("organizational TLV % x", value[:orgHeader]), typeOrganizational, value)
	}
}

// writer appends TLVs while they fit.
type writer struct {
	b      []byte
	limit  int // of len(b), including the End TLV
	errors []error
}

func (w *writer) refuse(format string, args ...any) {
	w.errors = append(w.errors, fmt.Errorf("LLDPDU without "+format, args...))
}

// add appends a TLV whose value has the parts. Their length is right.
func (w *writer) add(name string, kind uint8, parts ...[]byte) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if room := w.limit - len(w.b) - 2; 2+n > room { // End takes 2
		w.refuse("%s: it needs %d bytes, and %d of %d are left: shorten descriptions, or send fewer TLVs", name, 2+n,
			room, MaxLength)
		return
	}
	w.b = binary.BigEndian.AppendUint16(w.b, uint16(kind)<<9|uint16(n))
	for _, p := range parts {
		w.b = append(w.b, p...)
	}
}

func (w *writer) addText(name string, kind uint8, text string) {
	switch n := len(text); {
	case n == 0:
	case n > maxText:
		w.refuse("%s: it has %d bytes: shorten it to %d", name, n, maxText)
	default:
		w.add(name, kind, []byte(text))
	}
}

func (w *writer) addManagement(m ManagementAddress) {
	if n := len(m.Address); n < 1 || n > 31 || len(m.OID) > 128 {
		w.refuse("management address: it has %d bytes, not 1 to 31, and its OID %d, not up to 128", n, len(m.OID))
		return
	}
	number := binary.BigEndian.AppendUint32([]byte{m.Numbering}, m.Number)
	w.add("management address "+m.String(), typeManagement, []byte{1 + byte(len(m.Address)), m.Subtype}, m.Address,
		append(number, byte(len(m.OID))), m.OID)
}

func (w *writer) addOrganizational(name string, of uint32, body uint16) {
	w.add(name, typeOrganizational, binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, of), body))
}
