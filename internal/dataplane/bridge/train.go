package bridge

import "encoding/binary"

// TrainHeader is how many bytes of the frames of a train are alike, but for the PCP: addresses, tag
// and type. A shorter frame is a train of one.
const TrainHeader = 18

// Likeness is what the headers of a train have in common: successive frames that differ only in the
// priority of the tag.
type Likeness struct {
	First  uint64 // bytes 0 to 7
	Second uint16 // bytes 8 and 9
	Third  uint64 // bytes 10 to 17, compared under Mask
	Mask   uint64
	ByPCP  [8]uint8 // class of a frame, by the bits where a tag would have its PCP
}

// In bytes 10 to 17 of a frame, read as a little-endian number:
const (
	PCPPlace  = 37        // the first bit of the PCP of a tag
	beforeTag = 1<<32 - 1 // the bytes before a tag, or of the header of an untagged frame
)

// LikenessOf returns what a frame must have in common with b, whose header is that of f.
func LikenessOf(c *Classifier, f *Frame, b []byte) Likeness {
	l := Likeness{
		First: binary.LittleEndian.Uint64(b[:8]), Second: binary.LittleEndian.Uint16(b[8:10]),
		Third: binary.LittleEndian.Uint64(b[10:TrainHeader]), Mask: ^uint64(7 << PCPPlace), ByPCP: c.PCP,
	}
	if !f.Header.Tagged {
		l.Mask = beforeTag
		for i := range l.ByPCP {
			l.ByPCP[i] = c.Default
		}
	}
	return l
}
