package line

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// intact reports whether a payload of a frame of size bytes is accepted.
func intact(p []byte, size int) bool {
	_, ok := ReadStamp(p, size)
	return ok
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	for _, size := range []int{42, 46, 60, 500, 9216} {
		p := make([]byte, size)
		want := Stamp{Flow: 7, Seq: 1 << 40, Scheduled: -1, Sent: 1 << 50}
		want.Put(p)
		if got, ok := ReadStamp(p, size+14); !ok || got != want {
			t.Fatalf("%d bytes: read %+v", size, got)
		}
		for bit := range size * 8 {
			p[bit/8] ^= 1 << (bit % 8)
			if intact(p, size+14) {
				t.Errorf("%d bytes: flipped bit %d was not found", size, bit)
			}
			p[bit/8] ^= 1 << (bit % 8)
		}
		for n := range size {
			if intact(p[:n], n+14) {
				t.Errorf("%d bytes cut to %d were accepted", size, n)
			}
		}
		binary.BigEndian.PutUint32(p, Magic+1)
		binary.BigEndian.PutUint32(p[36:], crc32.Checksum(p[:36], castagnoli))
		if intact(p, size+14) {
			t.Errorf("%d bytes: a wrong magic was accepted", size)
		}
		Stamp{}.Put(p)
		if size > 46 && intact(append(p, 0), size+15) {
			t.Errorf("%d bytes and one more were accepted", size)
		}
	}
}

// TestFramesWithoutACheck: a frame whose check is 0 is accepted if its body is 0 too. Apart from
// that, only a wrong magic or length is detected.
func TestFramesWithoutACheck(t *testing.T) {
	const size = 100
	p := make([]byte, size)
	Stamp{Flow: 7, Seq: 9, Scheduled: 1, Sent: 2}.Put(p)
	clear(p[36:])
	if s, ok := ReadStamp(p, size+14); !ok || s != (Stamp{Flow: 7, Seq: 9, Scheduled: 1, Sent: 2}) {
		t.Errorf("read %+v", s)
	}
	for i := range p {
		if i >= 4 && i < 32 {
			continue
		}
		p[i] ^= 1
		if intact(p, size+14) {
			t.Errorf("a change of byte %d was not found", i)
		}
		p[i] ^= 1
	}
}

// TestBodiesDiffer: the body of another frame is detected.
func TestBodiesDiffer(t *testing.T) {
	a, b := make([]byte, 86), make([]byte, 86)
	Stamp{Flow: 1, Seq: 5}.Put(a)
	Stamp{Flow: 1, Seq: 6}.Put(b)
	copy(a[StampLength:], b[StampLength:])
	if intact(a, 100) {
		t.Error("a frame with the next one's body was accepted")
	}
}

// TestPaddingAfterLostTag: a switch pads a minimum-size frame when it removes the tag.
func TestPaddingAfterLostTag(t *testing.T) {
	p := make([]byte, 60-18)
	Stamp{Flow: 1}.Put(p)
	padded := append(p, 0, 0, 0, 0)
	if !intact(padded, 60) {
		t.Error("padded frame was taken for corrupt")
	}
	if intact(append(padded, 0), 61) {
		t.Error("frame that is too long was accepted")
	}
}
