package pfc

import (
	"encoding/binary"
	"slices"
)

// FrameLength is the length of the frames that Put and PutPause write, in bytes without FCS: the
// shortest Ethernet frame.
const FrameLength = 60

// Destination is the address of PAUSE and PFC frames: the MAC control multicast address, which
// never crosses a bridge (IEEE 802.3 annex 31B).
var Destination = [6]byte{
	destination >> 40, destination >> 32 & 0xff, destination >> 24 & 0xff,
	destination >> 16 & 0xff, destination >> 8 & 0xff, destination & 0xff,
}

const destination = 0x0180_c200_0001

// Layout of MAC control frames in bytes, numbers big-endian (IEEE 802.3 clause 31, annexes 31B and
// 31D):
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

// Frame is the content of a PFC frame. A PAUSE frame has the same content for all priorities. Pass
// it by pointer: copying reads it in larger pieces than it was written in, so the processor waits
// until its earlier writes have reached the cache, which delays an XOFF.
type Frame struct {
	Enable uint8     // bit n: Quanta[n] applies; otherwise priority n stays as it is
	Quanta [8]uint16 // XOFF for that many quanta; 0: XON
}

// Put writes a PFC frame to the first FrameLength bytes of b, padding included, with src as the
// source address, and returns FrameLength. It panics if b is shorter.
func (f *Frame) Put(b []byte, src [6]byte) int {
	b = putHeader(b, src, opcodePFC)
	binary.BigEndian.PutUint16(b[vectorAt:], uint16(f.Enable))
	for n := range f.Quanta {
		binary.BigEndian.PutUint16(b[timesAt+2*n:], f.Quanta[n])
	}
	clear(b[pfcEnd:])
	return FrameLength
}

// PutPause writes a PAUSE frame in the same way. PAUSE has no priorities: it stops all of them for
// the longest time in Quanta, or resumes all if every time is 0.
func (f *Frame) PutPause(b []byte, src [6]byte) int {
	b = putHeader(b, src, opcodePause)
	binary.BigEndian.PutUint16(b[pauseAt:], slices.Max(f.Quanta[:]))
	clear(b[pauseEnd:])
	return FrameLength
}

// putHeader writes a frame up to its opcode to b and returns the FrameLength bytes of the frame. It
// panics if b is shorter. It reads nothing that may be missing from the cache, since every XOFF
// waits for it.
func putHeader(b []byte, src [6]byte, opcode uint16) []byte {
	b = b[:FrameLength]
	binary.BigEndian.PutUint64(b, destination<<16|uint64(binary.BigEndian.Uint16(src[:])))
	binary.BigEndian.PutUint64(b[8:], uint64(binary.BigEndian.Uint32(src[2:]))<<32|typeMACControl<<16|uint64(opcode))
	return b
}

// Kind is the kind of a MAC control frame. A bridge consumes all kinds.
type Kind uint8

// The kinds that Decode tells apart.
const (
	Malformed    Kind = iota // truncated, or not a MAC control frame
	Misaddressed             // to another address than Destination
	Unknown                  // an opcode other than those of PFC and PAUSE
	Pause                    // IEEE 802.3x: all priorities at once
	PFC
)

// String returns the name used in counters.
func (k Kind) String() string {
	switch k {
	case Malformed:
		return "malformed"
	case Misaddressed:
		return "misaddressed"
	case Unknown:
		return "unknown_opcode"
	case Pause:
		return "pause"
	case PFC:
		return "pfc"
	}
	panic("pfc: no such kind of frame")
}

// Decode reads b, a complete untagged Ethernet frame without FCS, into f. A PAUSE frame sets its
// time for all eight priorities; frames of other kinds leave f unchanged. short reports that a PFC
// or PAUSE frame is complete but lacks some of its padding, which is accepted. Decode ignores the
// source.
//
// PFC has no other destination than Destination (IEEE 802.3 annex 31D). PAUSE may also be sent to
// the receiver's own address (annex 31B), but bridges forward such a frame, so any station behind
// one could stop the link: it is Misaddressed.
func Decode(b []byte, f *Frame) (kind Kind, short bool) {
	if len(b) < opcodeAt+2 || binary.BigEndian.Uint16(b[typeAt:]) != typeMACControl {
		return Malformed, false
	}
	if [6]byte(b) != Destination {
		return Misaddressed, false
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
		f.Enable = 0xff
		for n := range f.Quanta {
			f.Quanta[n] = binary.BigEndian.Uint16(b[pauseAt:])
		}
		return Pause, short
	}
	return Unknown, false
}
