package punt

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/dataplane/bridge"
)

func newChannel(t interface{ Fatal(...any) }, size, longest int) *Channel {
	c, err := NewChannel(size, longest)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestKindNames(t *testing.T) {
	for kind, want := range map[Kind]string{LLDP: "lldp", Kinds: "kind(2)"} {
		if got := kind.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, err := NewChannel(3, 100); err == nil {
		t.Error("a channel of 3 frames")
	}
	if _, err := NewInjector(3); err == nil {
		t.Error("an injector of 3 frames")
	}
}

// TestChannelIsAQueue compares a channel with a slice: every frame that Put takes arrives once, in
// order and unchanged, and Put refuses frames only if they leave too little room or are too long.
func TestChannelIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 1 << rapid.IntRange(0, 5).Draw(t, "size")
		longest := rapid.IntRange(1, 300).Draw(t, "longest")
		c := newChannel(t, size, longest)
		var model []Frame
		for n := range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.IntRange(0, size).Draw(t, "read") == 0 {
				got := c.Each(func(f Frame) {
					if len(model) == 0 {
						t.Fatalf("a frame that was never put: %+v", f)
					}
					want := model[0]
					if model = model[1:]; !bytes.Equal(f.Bytes, want.Bytes) || f.At != want.At || f.Port != want.Port ||
						f.VID != want.VID || f.Kind != want.Kind || f.PCP != want.PCP || f.Class != want.Class ||
						f.Tagged != want.Tagged || f.Length != len(want.Bytes) {
						t.Fatalf("%+v, want %+v", f, want)
					}
				})
				if len(model) != 0 {
					t.Fatalf("%d frames read, %d left", got, len(model))
				}
				continue
			}
			b := rapid.SliceOfN(rapid.Byte(), 0, longest+1).Draw(t, "bytes")
			f := Frame{At: int64(n), Port: bridge.PortID(n) + 1, VID: uint16(n) + 2, PCP: uint8(n) & 7,
				Class: uint8(n) & 6, Tagged: n&1 != 0}
			spare := rapid.IntRange(0, size).Draw(t, "spare")
			put := c.Put(f, b, spare)
			if want := len(model)+spare < size && len(b) <= c.Longest(); put != want {
				t.Fatalf("%d bytes, %d of %d frames waiting, spare %d: put %v", len(b), len(model), size, spare, put)
			}
			if put {
				f.Bytes = bytes.Clone(b)
				model = append(model, f)
			}
			clear(b) // the channel has a copy
		}
	})
}

// TestEachEnds checks that Each returns although each frame is followed by another one.
func TestEachEnds(t *testing.T) {
	c := newChannel(t, 8, 60)
	put := func() {
		if !c.Put(Frame{}, make([]byte, 60), 0) {
			t.Fatal("no room")
		}
	}
	for range 3 {
		put()
	}
	if n := c.Each(func(Frame) { put() }); n != 3 || c.ring.Len() != 3 {
		t.Errorf("%d frames of 3 that waited; %d wait now", n, c.ring.Len())
	}
}

// TestChannelBetweenGoroutines moves numbered frames from a goroutine to another one.
func TestChannelBetweenGoroutines(t *testing.T) {
	const frames = 100_000
	c := newChannel(t, 256, 64)
	go func() {
		b := make([]byte, 64)
		for n := uint64(0); n < frames; {
			binary.BigEndian.PutUint64(b[n%8*8:], n)
			if c.Put(Frame{At: int64(n)}, b[:n%8*8+8], 0) {
				n++
			}
		}
	}()
	for next := uint64(0); next < frames; {
		c.Each(func(f Frame) {
			if f.At != int64(next) || f.Length != int(next%8*8+8) ||
				binary.BigEndian.Uint64(f.Bytes[next%8*8:]) != next {
				t.Fatalf("frame %d at %d: %x", next, f.At, f.Bytes)
			}
			next++
		})
	}
}

// TestNothingIsAllocated covers both ways and the policer, once slots have seen the longest frame.
func TestNothingIsAllocated(t *testing.T) {
	c, b := newChannel(t, 4, 2176), make([]byte, 2176)
	i, err := NewInjector(4)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSubscriber([]Subscription{SubscribeLLDP(Limit{Rate: 100, Burst: 10})})
	if err != nil {
		t.Fatal(err)
	}
	now, read := int64(0), 0
	round := func() {
		for range 4 {
			now += 5e6
			kind, is := s.Match(0x0180_c200_000e, 0x88cc)
			s.Take(kind, Other, now)
			if !is || !c.Put(Frame{}, b, 0) || !i.Push(b) {
				t.Fatal("refused")
			}
		}
		c.Each(func(Frame) { read++ })
		for i.Peek() != nil {
			i.Release()
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 || read < 400 {
		t.Errorf("%v allocations a round, %d frames", n, read)
	}
}
