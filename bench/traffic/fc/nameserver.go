package fc

import (
	"bytes"
	"encoding/binary"

	"sluice/internal/fcoe"
)

// directory is what a VN_Port has registered with the name server.
type directory struct {
	types    [32]byte  // FC-4 types, in the order of RFT_ID: words of 32 bits
	features [128]byte // of each type, half a byte, in the order of GFF_ID
	symbol   []byte    // symbolic port name
}

func (d *directory) has(fc4 byte) bool { return d.types[typeByte(fc4)]>>(fc4%8)&1 == 1 }

// typeByte returns the byte of the map of FC-4 types with the bit of a type: the map is of
// big-endian words of 32 bits.
func typeByte(fc4 byte) int { return int(fc4/32*4 + 3 - fc4%32/8) }

// setFeatures sets the features of a type, such as being an FCP target.
func (d *directory) setFeatures(fc4, bits byte) {
	at, shift := fc4/8*4+3-fc4%8/2, fc4%2*4
	d.features[at] = d.features[at]&^(0xf<<shift) | bits&0xf<<shift
}

// ctHeader is the length of the header of the common transport (FC-GS-6 clause 4.3), in bytes.
const ctHeader = 16

// Reasons and explanations of the rejects of the common transport (FC-GS-6 tables 12 and 70).
const (
	ctInvalidVersion = 0x02
	ctInvalidSize    = 0x04
	ctUnable         = 0x09
	ctUnsupported    = 0x0b

	noExplanation          = 0x00
	noPortID               = 0x01 // not registered
	noPortName             = 0x02
	noNodeName             = 0x03
	noTypes                = 0x07
	accessDenied           = 0xf0
	nameServerType         = 0xfc
	nameServerSubtype      = 0x02
	lastObject        byte = 0x80 // in the first byte of an entry
)

// Commands of the name server (FC-GS-6 table 56).
const (
	nsGPNID  = 0x0112 // names and more by FC_ID
	nsGNNID  = 0x0113
	nsGFTID  = 0x0117
	nsGSPNID = 0x0118
	nsGFFID  = 0x011f
	nsGIDPN  = 0x0121 // FC_IDs by name, FC-4 type or kind of port
	nsGIDNN  = 0x0131
	nsGIDFT  = 0x0171
	nsGPNFT  = 0x0172
	nsGIDPT  = 0x01a1
	nsRPNID  = 0x0212 // registration
	nsRNNID  = 0x0213
	nsRFTID  = 0x0217
	nsRSPNID = 0x0218
	nsRFFID  = 0x021f
	nsRSNNNN = 0x0239
	nsDAID   = 0x0300 // deregister all

	ctReject = 0x8001
	ctAccept = 0x8002
)

// refusal is why the name server rejects a request; the zero value accepts it.
type refusal struct{ reason, explanation byte }

// serveCT answers a request of the common transport.
func (x *FCF) serveCT(now int64, from *vnPort, h *fcoe.Header, payload []byte) {
	if len(payload) < ctHeader {
		x.counts.Ignored++
		return
	}
	command := binary.BigEndian.Uint16(payload[8:])
	var refused refusal
	var result []byte
	switch {
	case payload[0] != 1 && payload[0] != 2 && payload[0] != 3:
		refused = refusal{ctInvalidVersion, noExplanation}
	case h.D != fcoe.DirectoryServer || payload[4] != nameServerType || payload[5] != nameServerSubtype:
		refused = refusal{ctUnsupported, noExplanation}
	case command>>8 == 2 || command == nsDAID:
		x.counts.Registrations++
		refused = x.register(now, from, command, payload[ctHeader:])
	default:
		x.counts.Queries++
		result, refused = x.query(command, payload[ctHeader:])
	}
	answer := make([]byte, ctHeader, ctHeader+len(result))
	copy(answer, payload[:8])
	code, residual := uint16(ctAccept), 0
	if refused != (refusal{}) {
		code, answer[13], answer[14], result = ctReject, refused.reason, refused.explanation, nil
		x.counts.QueriesRejected++
	}
	if most := int(binary.BigEndian.Uint16(payload[10:])) * 4; most > 0 && len(result) > most {
		residual = (len(result) - most) / 4
		result = result[:most]
	}
	binary.BigEndian.PutUint16(answer[8:], code)
	binary.BigEndian.PutUint16(answer[10:], uint16(residual))
	x.answer(from, h, rctlCTReply, append(answer, result...))
}

// register takes what a VN_Port says of itself.
func (x *FCF) register(now int64, from *vnPort, command uint16, arguments []byte) refusal {
	shortest := map[uint16]int{nsRPNID: 12, nsRNNID: 12, nsRFTID: 36, nsRSPNID: 5, nsRFFID: 8, nsRSNNNN: 9, nsDAID: 4}
	length, known := shortest[command]
	switch {
	case !known:
		return refusal{ctUnsupported, noExplanation}
	case len(arguments) < length:
		return refusal{ctInvalidSize, noExplanation}
	}
	if command == nsRSNNNN { // the symbolic name of a node, which no query asks for
		if fcoe.WWN(binary.BigEndian.Uint64(arguments)) != from.node {
			return refusal{ctUnable, noNodeName}
		}
		return refusal{}
	}
	if fcoe.FCID(binary.BigEndian.Uint32(arguments)&0xffffff) != from.id {
		return refusal{ctUnable, noPortID}
	}
	d := &from.directory
	before := d.types
	switch command {
	case nsRPNID, nsRNNID: // names are those of the login
		if name := fcoe.WWN(binary.BigEndian.Uint64(arguments[4:])); name != from.name && name != from.node {
			return refusal{ctUnable, accessDenied}
		}
	case nsRFTID:
		copy(d.types[:], arguments[4:])
	case nsRFFID:
		d.types[typeByte(arguments[7])] |= 1 << (arguments[7] % 8)
		d.setFeatures(arguments[7], arguments[6])
		x.changed(now, from.id)
	case nsRSPNID:
		d.symbol = text(arguments[4:])
	case nsDAID:
		*d = directory{}
	}
	if d.types != before {
		x.changed(now, from.id)
	}
	return refusal{}
}

// text returns a copy of a text behind its length, of as much of it as is there.
func text(b []byte) []byte { return bytes.Clone(b[1:][:min(int(b[0]), len(b)-1)]) }

// query answers a question.
func (x *FCF) query(command uint16, arguments []byte) ([]byte, refusal) {
	if len(arguments) < 4 {
		return nil, refusal{ctInvalidSize, noExplanation}
	}
	switch command {
	case nsGPNID, nsGNNID, nsGFTID, nsGSPNID, nsGFFID:
		v := x.byID(fcoe.FCID(binary.BigEndian.Uint32(arguments) & 0xffffff))
		if v == nil {
			return nil, refusal{ctUnable, noPortID}
		}
		return v.describe(command), refusal{}
	case nsGIDPN, nsGIDNN:
		if len(arguments) < 8 {
			return nil, refusal{ctInvalidSize, noExplanation}
		}
		return x.byWWN(command, fcoe.WWN(binary.BigEndian.Uint64(arguments)))
	case nsGIDFT, nsGPNFT:
		domain, fc4 := arguments[1], arguments[3]
		return x.list(command == nsGPNFT, noTypes, func(v *vnPort) bool {
			return (domain == 0 || domain == x.p.Domain) && v.directory.has(fc4)
		})
	case nsGIDPT:
		kind := arguments[0] // 0x01: N_Port, 0x7f: any Nx_Port
		return x.list(false, noPortID, func(*vnPort) bool { return kind == 0x01 || kind == 0x7f })
	}
	return nil, refusal{ctUnsupported, noExplanation}
}

// describe returns one thing that the name server knows of a VN_Port.
func (v *vnPort) describe(command uint16) []byte {
	switch command {
	case nsGPNID:
		return binary.BigEndian.AppendUint64(nil, uint64(v.name))
	case nsGNNID:
		return binary.BigEndian.AppendUint64(nil, uint64(v.node))
	case nsGFTID:
		return bytes.Clone(v.directory.types[:])
	case nsGFFID:
		return bytes.Clone(v.directory.features[:])
	}
	b := make([]byte, 256) // GSPN_ID
	b[0] = byte(copy(b[1:], v.directory.symbol))
	return b
}

func (x *FCF) byWWN(command uint16, name fcoe.WWN) ([]byte, refusal) {
	if command == nsGIDPN {
		i := x.byName[name]
		if i == 0 || !x.ports[i].up {
			return nil, refusal{ctUnable, noPortName}
		}
		return binary.BigEndian.AppendUint32(nil, uint32(x.ports[i].id)), refusal{}
	}
	return x.list(false, noNodeName, func(v *vnPort) bool { return v.node == name })
}

// list returns the FC_IDs of the VN_Ports for which is returns true, with their names if asked for.
// missing is the explanation if there are none.
func (x *FCF) list(names bool, missing byte, is func(*vnPort) bool) ([]byte, refusal) {
	var b []byte
	last := -1
	for i := range x.ports {
		if v := &x.ports[i]; v.up && is(v) {
			last = len(b)
			b = binary.BigEndian.AppendUint32(b, uint32(v.id))
			if names {
				b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 0), uint64(v.name))
			}
		}
	}
	if last < 0 {
		return nil, refusal{ctUnable, missing}
	}
	b[last] |= lastObject
	return b, refusal{}
}
