package pfc

import "encoding/binary"

// FrameLength is the length of the frames that Put writes, in bytes without FCS: the shortest Ethernet frame.
const FrameLength = 60

// Destination is the address of PAUSE and PFC frames: the MAC control multicast address, which never crosses a
// bridge (IEEE 802.3 annex 31B).
var Destination = [6]byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x01}

// Layout of MAC control frames in bytes, numbers big-endian (IEEE 802.3 clause 31, annexes 31B and 31D):
//
//	 0 destination, 6 source, 12 type, 14 opcode
//	16 PFC: priority enable vector, its upper byte reserved; 18 times of priorities 0 to 7; 34 zeros to 60
//	16 PAUSE: time; 18 zeros to 60
const (
	typeAt   = 12
	opcodeAt = 14
	vectorAt = 16
	timesAt  = 18
	pfcEnd   = timesAt + 2*8
	pauseAt  = 16
	pauseEnd = pauseAt + 2

	typeMACControl = 0x8808
	opcodePause    = 0x0001
	opcodePFC      = 0x0101
)

// Frame is what a PFC frame says.
type Frame struct {
	Enable uint8     // bit n: Quanta[n] is meant; otherwise priority n stays as it is
	Quanta [8]uint16 // XOFF for that many quanta, or XON if 0
}

// Put writes the frame to the first FrameLength bytes of b, zero padding included, with src as its source address,
// and returns FrameLength. It panics if b is shorter.
func (f Frame) Put(b []byte, src [6]byte) int {
	b = b[:FrameLength]
	copy(b, Destination[:])
	copy(b[6:], src[:])
	binary.BigEndian.PutUint16(b[typeAt:], typeMACControl)
	binary.BigEndian.PutUint16(b[opcodeAt:], opcodePFC)
	binary.BigEndian.PutUint16(b[vectorAt:], uint16(f.Enable))
	for n, quanta := range f.Quanta {
		binary.BigEndian.PutUint16(b[timesAt+2*n:], quanta)
	}
	clear(b[pfcEnd:])
	return FrameLength
}

// Kind is what a MAC control frame is. Whatever it is, a bridge consumes it.
type Kind uint8

// The kinds that Decode tells apart.
const (
	Malformed Kind = iota // cut off before its end, or not a MAC control frame
	Unknown               // an opcode other than those of PFC and PAUSE
	Pause                 // IEEE 802.3x: all priorities at once
	PFC
)

// String returns the name under which such frames are counted.
func (k Kind) String() string {
	switch k {
	case Malformed:
		return "malformed"
	case Unknown:
		return "unknown_opcode"
	case Pause:
		return "pause"
	case PFC:
		return "pfc"
	}
	panic("pfc: no such kind of frame")
}

// Decode reads b, a whole untagged Ethernet frame without FCS. Of a PFC frame it stores everything in f, of a PAUSE
// frame the time in f.Quanta[0]; otherwise it leaves f alone. short reports that a PFC or PAUSE frame was complete
// but lacked some of its padding, which is accepted. The addresses are not looked at.
func Decode(b []byte, f *Frame) (kind Kind, short bool) {
	if len(b) < opcodeAt+2 || binary.BigEndian.Uint16(b[typeAt:]) != typeMACControl {
		return Malformed, false
	}
	short = len(b) < FrameLength
	switch binary.BigEndian.Uint16(b[opcodeAt:]) {
	case opcodePFC:
		if len(b) < pfcEnd {
			return Malformed, false
		}
		f.Enable = b[vectorAt+1]
		for n := range f.Quanta {
			f.Quanta[n] = binary.BigEndian.Uint16(b[timesAt+2*n:])
		}
		return PFC, short
	case opcodePause:
		if len(b) < pauseEnd {
			return Malformed, false
		}
		*f = Frame{Quanta: [8]uint16{binary.BigEndian.Uint16(b[pauseAt:])}}
		return Pause, short
	}
	return Unknown, false
}
