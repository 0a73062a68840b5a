package fcoe

import (
	"encoding/binary"
	"hash/crc32"
)

// Header is the header of a Fibre Channel frame (FC-FS-3 clause 9).
type Header struct {
	RCtl     uint8 // routing and information category
	D, S     FCID  // destination and source
	CSCtl    uint8 // class-specific control or priority
	Type     uint8
	FCtl     uint32 // 24 bits
	SeqID    uint8
	DFCtl    uint8 // optional headers before the payload
	SeqCount uint16
	OXID     uint16 // exchange of the originator
	RXID     uint16 // and of the responder; 0xffff: not assigned
	Param    uint32
}

// Values of Header for requests and replies of extended link services.
const (
	RCtlELSRequest = 0x22
	RCtlELSReply   = 0x23

	TypeELS = 0x01

	FCtlRequest = 0x290000 // first sequence, its last frame, passes the initiative
	FCtlReply   = 0x990000 // of the responder: last sequence, its last frame, passes the initiative

	NoExchange = 0xffff // RXID of a request
)

// HeaderLength is the length of a Fibre Channel header in bytes.
const HeaderLength = 24

// MaxFC is the longest Fibre Channel frame without delimiters and CRC, in bytes.
const MaxFC = HeaderLength + 2112

// ParseHeader reads the header of a Fibre Channel frame without its delimiters. The rest of fc is
// optional headers and payload.
func ParseHeader(fc []byte, h *Header) Problem {
	if len(fc) < HeaderLength {
		return Truncated
	}
	*h = Header{
		RCtl: fc[0], D: FCID(get24(fc[1:])), CSCtl: fc[4], S: FCID(get24(fc[5:])), Type: fc[8], FCtl: get24(fc[9:]),
		SeqID: fc[12], DFCtl: fc[13], SeqCount: binary.BigEndian.Uint16(fc[14:]),
		OXID: binary.BigEndian.Uint16(fc[16:]), RXID: binary.BigEndian.Uint16(fc[18:]),
		Param: binary.BigEndian.Uint32(fc[20:]),
	}
	return OK
}

// Append appends the header to b.
func (h *Header) Append(b []byte) []byte {
	var w [HeaderLength]byte
	w[0], w[4], w[8], w[12], w[13] = h.RCtl, h.CSCtl, h.Type, h.SeqID, h.DFCtl
	put24(w[1:], uint32(h.D))
	put24(w[5:], uint32(h.S))
	put24(w[9:], h.FCtl)
	binary.BigEndian.PutUint16(w[14:], h.SeqCount)
	binary.BigEndian.PutUint16(w[16:], h.OXID)
	binary.BigEndian.PutUint16(w[18:], h.RXID)
	binary.BigEndian.PutUint32(w[20:], h.Param)
	return append(b, w[:]...)
}

// SOF is a start of frame delimiter, EOF an end of frame delimiter, in the codes of RFC 3643.
type (
	SOF uint8
	EOF uint8
)

// Delimiters of FCoE. Class 3, which carries storage, uses SOFi3 for the first frame of a sequence,
// SOFn3 for the others, EOFt for the last and EOFn for the others.
const (
	SOFf  SOF = 0x28
	SOFi4 SOF = 0x29
	SOFi2 SOF = 0x2d
	SOFi3 SOF = 0x2e
	SOFn4 SOF = 0x31
	SOFn2 SOF = 0x35
	SOFn3 SOF = 0x36
	SOFc4 SOF = 0x39

	EOFn   EOF = 0x41
	EOFt   EOF = 0x42
	EOFrt  EOF = 0x44
	EOFdt  EOF = 0x46
	EOFni  EOF = 0x49
	EOFdti EOF = 0x4e
	EOFrti EOF = 0x4f
	EOFa   EOF = 0x50
)

func (s SOF) known() bool {
	switch s {
	case SOFf, SOFi4, SOFi2, SOFi3, SOFn4, SOFn2, SOFn3, SOFc4:
		return true
	}
	return false
}

func (e EOF) known() bool {
	switch e {
	case EOFn, EOFt, EOFrt, EOFdt, EOFni, EOFdti, EOFrti, EOFa:
		return true
	}
	return false
}

// FCFrame is what an Ethernet frame with FCoE carries.
type FCFrame struct {
	SOF SOF
	EOF EOF
	FC  []byte // header and payload; aliases what was parsed
	CRC uint32 // as received; CRC(FC) is the right one
}

const (
	fcoeHeader  = 14 // version in the upper half of the first byte, reserved bytes, SOF
	fcoeTrailer = 8  // CRC, EOF, reserved bytes
	fcoeVersion = 0
)

// ParseFCoE reads what follows the EtherType of FCoE, without the FCS. It does not check the CRC.
// FCoE has no length field: the trailer is at the end of the payload, whose minimum of 46 bytes is
// that of Ethernet.
func ParseFCoE(payload []byte) (f FCFrame, problem Problem) {
	end := len(payload) - fcoeTrailer
	switch {
	case end < fcoeHeader+HeaderLength:
		return f, Truncated
	case payload[0]>>4 != fcoeVersion:
		return f, BadVersion
	case len(payload) > MaxPayload || (end-fcoeHeader)%4 != 0:
		return f, BadLength
	}
	f = FCFrame{SOF: SOF(payload[fcoeHeader-1]), EOF: EOF(payload[end+4]), FC: payload[fcoeHeader:end:end],
		CRC: binary.LittleEndian.Uint32(payload[end:])}
	switch {
	case !f.SOF.known():
		return f, BadSOF
	case !f.EOF.known():
		return f, BadEOF
	}
	return f, OK
}

// AppendFCoE appends what follows the EtherType of FCoE: header, fc (a Fibre Channel header and a
// payload, together a multiple of 4 bytes) and a trailer with the CRC.
func AppendFCoE(b []byte, sof SOF, eof EOF, fc []byte) []byte {
	b = append(b, fcoeVersion<<4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(sof))
	b = append(b, fc...)
	b = binary.LittleEndian.AppendUint32(b, CRC(fc))
	return append(b, byte(eof), 0, 0, 0)
}

// CRC returns the CRC of a Fibre Channel frame, given its header and payload: that of IEEE 802.3,
// which FCoE writes in little-endian.
func CRC(fc []byte) uint32 { return crc32.ChecksumIEEE(fc) }
