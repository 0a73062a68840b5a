package dataplane

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/linux/umem"
	"sluice/pmd"
)

const testBufferSize = 2048 // bytes of a buffer

// testMemory returns 64 buffers with random bytes.
func testMemory(t testing.TB, rng *rand.Rand) *umem.Memory {
	b := make([]byte, 64*testBufferSize)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	m, err := umem.Over(b, testBufferSize, "")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// drawParts returns the descriptors of a frame in random buffers, with parts of random lengths at
// random places, and its bytes.
func drawParts(rng *rand.Rand, m *umem.Memory, buffers []int) (descs []pmd.Desc, b []byte) {
	for i, id := range buffers {
		least := 1
		if i == 0 {
			least = leastHead
		}
		at := rng.IntN(testBufferSize - least + 1)
		n := least + rng.IntN(testBufferSize-at-least+1)
		d := pmd.Desc{Addr: uint64(id*testBufferSize + at), Len: uint32(n), Options: pmd.Continued}
		descs, b = append(descs, d), append(b, m.Frame(d.Addr, d.Len)...)
	}
	descs[len(descs)-1].Options = 0
	return descs, b
}

// joinParts returns the bytes of descriptors.
func joinParts(m *umem.Memory, descs []pmd.Desc) (b []byte) {
	for _, d := range descs {
		b = append(b, m.Frame(d.Addr, d.Len)...)
	}
	return b
}

// TestParts: what is said of a frame is true of its parts, before and after it is copied and
// packed. Packed, it has as few parts as possible, and keeps its buffers.
func TestParts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		m := testMemory(t, rng)
		p, ids, n := newPartTable(m), rng.Perm(64), 2+rng.IntN(pmd.MaxParts-1)
		descs, b := drawParts(rng, m, ids[:n])
		frame, valid := p.Link(descs)
		if !valid || frame.Addr != descs[0].Addr || int(frame.Len) != len(b) || frame.Options != pmd.Continued {
			rt.Fatalf("%+v, valid %t, of %+v", frame, valid, descs)
		}
		whole := func(frame pmd.Desc, buffers []int) []pmd.Desc {
			got := p.Descriptors(nil, frame)
			head := uint32(buffers[0])
			later := []uint32{head}
			for _, id := range p.Later(head, nil) {
				later = append(later, id)
				if p.Head(id) != head {
					rt.Fatalf("buffer %d belongs to %d, want %d", id, p.Head(id), head)
				}
			}
			for i, id := range buffers {
				if later[i] != uint32(id) || p.Buffers(head) != n || len(later) != n {
					rt.Fatalf("buffers %v of %v", later, buffers)
				}
			}
			for i, d := range got {
				if (d.Options == 0) != (i == len(got)-1) || d.Len == 0 || d.Addr/testBufferSize != uint64(buffers[i]) ||
					(d.Addr+uint64(d.Len)-1)/testBufferSize != d.Addr/testBufferSize {
					rt.Fatalf("part %d of %d: %+v in buffer %d", i, len(got), d, buffers[i])
				}
			}
			gathered := make([]byte, rng.IntN(len(b)+100))
			k := p.Gather(gathered, &frame)
			if !bytes.Equal(joinParts(m, got), b) || !bytes.Equal(gathered[:k], b[:min(len(b), len(gathered))]) ||
				!bytes.HasPrefix(b, p.Bytes(&frame)) || len(p.Bytes(&frame)) != int(got[0].Len) {
				rt.Fatal("the frame has other bytes")
			}
			return got
		}
		if got := whole(frame, ids[:n]); !slices.Equal(got, descs) {
			rt.Fatalf("%+v of %+v", got, descs)
		}
		var to []uint32
		for _, id := range ids[n : 2*n] {
			to = append(to, uint32(id))
		}
		c := p.Copy(to, &frame)
		whole(c, ids[n:2*n])
		packed := p.Pack(frame)
		if got := whole(packed, ids[:n]); len(got) != (len(b)+testBufferSize-1)/testBufferSize {
			rt.Fatalf("%d bytes packed into %d parts", len(b), len(got))
		}
		whole(c, ids[n:2*n]) // unchanged
	})
}

// TestInvalidFrames: what is no frame is linked all the same, so that its buffers can be freed.
func TestInvalidFrames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := testMemory(t, rng)
	p := newPartTable(m)
	for name, change := range map[string]func(d []pmd.Desc) []pmd.Desc{
		"incomplete":      func(d []pmd.Desc) []pmd.Desc { d[2].Options = pmd.Continued; return d },
		"one part":        func(d []pmd.Desc) []pmd.Desc { return d[:1] },
		"short head":      func(d []pmd.Desc) []pmd.Desc { d[0].Len = leastHead - 1; return d },
		"empty part":      func(d []pmd.Desc) []pmd.Desc { d[1].Len = 0; return d },
		"beyond a buffer": func(d []pmd.Desc) []pmd.Desc { d[1].Len = testBufferSize; d[1].Addr |= 1; return d },
		"beyond all":      func(d []pmd.Desc) []pmd.Desc { d[0].Len = 1 << 31; d[1].Len = 1 << 31; return d },
		"too many parts": func([]pmd.Desc) (d []pmd.Desc) {
			for i := range uint64(pmd.MaxParts + 1) {
				d = append(d, pmd.Desc{Addr: i * testBufferSize, Len: 200, Options: pmd.Continued})
			}
			d[pmd.MaxParts].Options = 0
			return d
		},
	} {
		d, _ := drawParts(rng, m, []int{9, 4, 7})
		d = change(d)
		frame, valid := p.Link(d)
		if valid || p.Buffers(p.id(frame.Addr)) != len(d) || len(p.Later(p.id(frame.Addr), nil)) != len(d)-1 {
			t.Errorf("%s: valid %t, %d buffers", name, valid, p.Buffers(p.id(frame.Addr)))
		}
		p.Gather(make([]byte, 1<<17), &frame) // stays within the memory
	}
}

// TestPartsComplete: a frame is complete with its last part, in any order.
func TestPartsComplete(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := testMemory(t, rng)
	p := newPartTable(m)
	d, _ := drawParts(rng, m, []int{9, 4, 7})
	p.Link(d)
	p.Send(9, 3)
	for i, id := range []uint32{7, 9, 4} {
		if head, last := p.Complete(id); head != 9 || last != (i == 2) || p.Sending(9) != 2-i {
			t.Errorf("after buffer %d: head %d, last %t, %d are being sent", id, head, last, p.Sending(9))
		}
	}
}
