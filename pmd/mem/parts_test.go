package mem

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/pmd"
)

// jumboWire returns a wire for frames of several parts with 64 buffers at each end; B has handed
// over the first fill of its own.
func jumboWire(t testing.TB, p Params, fill uint64) (w *Wire, a, b []byte) {
	t.Helper()
	a, b = make([]byte, 64*size), make([]byte, 64*size)
	p.Rate, p.MTU, p.Part = 1e9, 9216, 1664
	w, err := NewWire(p, End{a, size}, End{b, size})
	if err != nil {
		t.Fatal(err)
	}
	for i := range fill {
		w.B.Fill([]uint64{i * size})
	}
	return w, a, b
}

// chain returns the descriptors of a frame with parts of these lengths in the buffers from first.
func chain(first uint64, lengths ...uint32) []pmd.Desc {
	var parts []pmd.Desc
	for i, l := range lengths {
		parts = append(parts, pmd.Desc{Addr: (first + uint64(i)) * size, Len: l, Options: pmd.Continued})
	}
	parts[len(parts)-1].Options = 0
	return parts
}

// TestPartsOnTheWire: parts of 100, 1 and 1700 bytes leave one after the other, 8 ns a byte behind
// 8 bytes of preamble. They arrive as one frame, cut at 1664 bytes.
func TestPartsOnTheWire(t *testing.T) {
	w, a, b := jumboWire(t, Params{Delay: 1000}, 64)
	for i := range a {
		a[i] = byte(i * 7 / 5)
	}
	if n := w.A.Transmit(append(chain(0, 100, 1, 1700), pmd.Desc{Len: 60, Options: pmd.Continued})); n != 3 {
		t.Fatalf("%d descriptors of a whole frame and a started one were taken, want 3", n)
	}
	var addrs [4]uint64
	for _, step := range []struct {
		now       int64
		completed int
	}{
		{8 * 107, 0}, {8 * 108, 1}, {8*109 - 1, 0}, {8 * 109, 1}, {8*1825 - 1, 0}, {8 * 1825, 1},
	} {
		if at, any := w.Next(); step.completed > 0 && (!any || at != step.now) {
			t.Errorf("next at %d ns (%t), want %d", at, any, step.now)
		}
		w.Advance(step.now)
		if n := w.A.Complete(addrs[:]); n != step.completed {
			t.Errorf("at %d ns %d parts completed, want %d", step.now, n, step.completed)
		}
	}
	var burst [4]pmd.Desc
	w.Advance(8*1825 + 999)
	if n := w.B.Receive(burst[:]); n != 0 {
		t.Errorf("%d parts arrived too early", n)
	}
	w.Advance(8*1825 + 1000)
	if n := w.B.Receive(burst[:1]); n != 0 || w.B.Waiting() != 2 {
		t.Errorf("a burst of 1 took %d parts of a frame in 2, %d wait", n, w.B.Waiting())
	}
	if n := w.B.Receive(burst[:]); n != 2 || burst[0].Len != 1664 || burst[0].Options != pmd.Continued ||
		burst[1].Len != 137 || burst[1].Options != 0 {
		t.Fatalf("received %d parts: %+v", n, burst)
	}
	want := slices.Concat(a[:100], a[size:size+1], a[2*size:2*size+1700])
	if got := slices.Concat(b[burst[0].Addr:][:1664], b[burst[1].Addr:][:137]); !bytes.Equal(got, want) {
		t.Error("the frame arrived with other bytes")
	}
}

// TestPartsDroppedWhole: a frame that doesn't find all its buffers, or room for all its parts, is
// lost whole under the kernel's names, and takes no buffer; a shorter one behind it still passes.
func TestPartsDroppedWhole(t *testing.T) {
	send := func(w *Wire, lengths ...uint32) {
		w.A.Transmit(chain(0, lengths...))
		w.Advance(w.A.now + 1e6)
	}
	w, _, _ := jumboWire(t, Params{}, 3)
	send(w, 1664, 1664, 1664, 1) // 4 parts, 3 buffers
	if s := w.B.Stats(); s.RXDropped != 1 || s.RXFillEmpty != 0 || w.B.Waiting() != 0 {
		t.Errorf("after a frame of more parts than buffers: %+v, %d wait", s, w.B.Waiting())
	}
	send(w, 1664, 1664, 1664)
	send(w, 60)
	if s := w.B.Stats(); s.RXDropped != 2 || s.RXFillEmpty != 1 || w.B.Waiting() != 3 {
		t.Errorf("after a frame that fits and one that found no buffer: %+v, %d wait", s, w.B.Waiting())
	}

	w, _, _ = jumboWire(t, Params{RXRing: 3}, 64)
	send(w, 1664, 1664)
	send(w, 1664, 1)
	send(w, 1664)
	if s := w.B.Stats(); s.RXRingFull != 1 || s.Lost() != 1 || w.B.Waiting() != 3 || w.B.empty.len() != 61 {
		t.Errorf("after a frame longer than the room in the RX ring: %+v, %d wait, %d buffers are empty",
			s, w.B.Waiting(), w.B.empty.len())
	}
}

// TestInvalidParts: as in Linux, a frame with an empty part or too many is dropped and all its
// buffers return.
func TestInvalidParts(t *testing.T) {
	w, _, _ := jumboWire(t, Params{}, 64)
	w.A.Transmit(slices.Concat(chain(0, 60, 0, 60), chain(3, make([]uint32, 19)...), chain(22, 60)))
	w.Advance(1e6)
	if n := w.A.Complete(make([]uint64, 64)); n != 23 {
		t.Errorf("%d of 23 buffers returned", n)
	}
	if s := w.A.Stats(); s.TXInvalid != 2 || w.B.Waiting() != 1 {
		t.Errorf("after two invalid frames: %+v, %d arrived", s, w.B.Waiting())
	}
}

func TestNewWireRefusesParts(t *testing.T) {
	good := End{make([]byte, 4*size), size}
	for name, p := range map[string]Params{
		"negative part":      {Rate: 1, Part: -1},
		"part over a buffer": {Rate: 1, Part: size - room + 1},
		"too many parts":     {Rate: 1, MTU: 18*100 - 17, Part: 100},
	} {
		if _, err := NewWire(p, good, good); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := NewWire(Params{Rate: 1, MTU: 18*100 - 18, Part: 100}, good, good); err != nil {
		t.Errorf("18 parts: %v", err)
	}
}

// naive is what a wire from A to B should do, in slices.
type naive struct {
	t        *rapid.T
	p        Params
	now      int64
	lineFree int64
	leaving  []naivePart
	done     []uint64
	flying   []naiveFrame
	empty    []uint64
	waiting  []naiveFrame
	stats    pmd.Stats
}

type naivePart struct {
	addr uint64
	left int64
}

type naiveFrame struct {
	b       []byte
	arrives int64
	into    []uint64 // buffers that it lies in when it waits
}

// parts counts the buffers of a frame one by one.
func (m *naive) parts(b []byte) int {
	n := 1
	for left := len(b); left > m.p.Part; left -= m.p.Part {
		n++
	}
	return n
}

func (m *naive) count() (parts int) {
	for _, f := range m.waiting {
		parts += len(f.into)
	}
	return parts
}

func (m *naive) transmit(frames [][]pmd.Desc, memory []byte) (taken int) {
	for _, f := range frames {
		if len(m.leaving)+len(m.done)+len(f) > m.p.Ring {
			return taken
		}
		start, sent := max(m.now, m.lineFree), []byte(nil)
		for i, d := range f {
			sent = append(sent, memory[d.Addr:d.Addr+uint64(d.Len)]...)
			left := start + 8*int64(8+len(sent))
			if i == len(f)-1 {
				left = start + 8*int64(24+len(sent))
				m.lineFree = left
			}
			m.leaving = append(m.leaving, naivePart{d.Addr, left})
		}
		m.flying = append(m.flying, naiveFrame{b: sent, arrives: m.lineFree + m.p.Delay})
		taken += len(f)
	}
	return taken
}

func (m *naive) advance(now int64) {
	m.now = now
	for len(m.leaving) > 0 && m.leaving[0].left <= now {
		m.done = append(m.done, m.leaving[0].addr)
		m.leaving = m.leaving[1:]
	}
	for len(m.flying) > 0 && m.flying[0].arrives <= now {
		f := m.flying[0]
		m.flying = m.flying[1:]
		n := m.parts(f.b)
		switch {
		case len(f.b) > m.p.MTU+18:
			m.stats.RXDropped++
		case n > len(m.empty):
			m.stats.RXDropped++
			if len(m.empty) == 0 {
				m.stats.RXFillEmpty++
			}
		case m.count()+n > m.p.RXRing:
			m.stats.RXRingFull++
		default:
			f.into = m.empty[:n]
			m.empty = m.empty[n:]
			m.waiting = append(m.waiting, f)
		}
	}
}

// receive checks a burst of B against the frames that wait and returns its buffers.
func (m *naive) receive(burst []pmd.Desc, room int, memory []byte) (buffers []uint64) {
	for len(m.waiting) > 0 && len(m.waiting[0].into) <= room {
		f := m.waiting[0]
		m.waiting = m.waiting[1:]
		room -= len(f.into)
		if len(burst) < len(f.into) {
			m.t.Fatalf("%d parts received where a frame of %d was due", len(burst), len(f.into))
		}
		var b []byte
		for i, d := range burst[:len(f.into)] {
			end := i == len(f.into)-1
			if d.Addr&^(size-1) != f.into[i] || d.Addr&(size-1) < 4 || (d.Options == 0) != end ||
				!end && int(d.Len) != m.p.Part {
				m.t.Fatalf("part %d of %d: %+v, want it in the buffer at %d", i, len(f.into), d, f.into[i])
			}
			b = append(b, memory[d.Addr:d.Addr+uint64(d.Len)]...)
		}
		if !bytes.Equal(b, f.b) {
			m.t.Fatalf("a frame of %d bytes arrived with %d, or others", len(f.b), len(b))
		}
		burst, buffers = burst[len(f.into):], append(buffers, f.into...)
	}
	if len(burst) > 0 {
		m.t.Fatalf("%d parts too many were received", len(burst))
	}
	return buffers
}

// TestPartsModel drives a wire and a naive model of it with the same calls: frames of up to 18
// parts of any length, rings too short for them, buffers handed over late. Every answer is the
// model's, and every buffer of both ends is somewhere at all times.
func TestPartsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		p := Params{
			Rate: 1e9, Delay: rng.Int64N(20_000), Ring: 1 + rng.IntN(40), RXRing: 1 + rng.IntN(40),
			Part: []int{64, 700, 1664}[rng.IntN(3)],
		}
		p.MTU = 50 + rng.IntN(18*p.Part-68)
		a, b := make([]byte, 64*size), make([]byte, 64*size)
		for i := range a {
			a[i] = byte(rng.Uint32())
		}
		w, err := NewWire(p, End{a, size}, End{b, size})
		if err != nil {
			rt.Fatal(err)
		}
		m := &naive{t: rt, p: p}
		freeA, freeB := make([]uint64, 64), make([]uint64, 64)
		for i := range freeA {
			freeA[i], freeB[i] = uint64(i)*size, uint64(i)*size
		}
		for range 200 {
			m.now += rng.Int64N(8 * 3 * int64(p.Part))
			w.Advance(m.now)
			m.advance(m.now)
			frames := randomFrames(rng, freeA)
			n := w.A.Transmit(slices.Concat(frames...))
			if want := m.transmit(frames, a); n != want {
				rt.Fatalf("%d parts taken, want %d", n, want)
			}
			freeA = freeA[n:]
			n = w.B.Fill(freeB[:rng.IntN(len(freeB)+1)])
			m.empty, freeB = append(m.empty, freeB[:n]...), freeB[n:]
			if len(m.empty)+m.count() > p.Ring {
				rt.Fatalf("%d buffers taken for reception in a ring of %d", len(m.empty)+m.count(), p.Ring)
			}
			burst := make([]pmd.Desc, rng.IntN(24))
			freeB = append(freeB, m.receive(burst[:w.B.Receive(burst)], len(burst), b)...)
			addrs := make([]uint64, rng.IntN(24))
			n = w.A.Complete(addrs)
			if !slices.Equal(addrs[:n], m.done[:min(len(m.done), len(addrs))]) {
				rt.Fatalf("completed %v, want the first of %v", addrs[:n], m.done)
			}
			m.done = m.done[n:]
			for _, addr := range addrs[:n] {
				freeA = append(freeA, addr&^(size-1))
			}
			m.compare(w, len(freeA), len(freeB))
		}
	})
}

// randomFrames returns frames in the first buffers of free.
func randomFrames(rng *rand.Rand, free []uint64) (frames [][]pmd.Desc) {
	for range rng.IntN(3) {
		n := 1 + rng.IntN(4)
		if rng.IntN(8) == 0 {
			n = pmd.MaxParts
		}
		if n > len(free) {
			break
		}
		var f []pmd.Desc
		for i, addr := range free[:n] {
			at, d := rng.IntN(size/2), pmd.Desc{Options: pmd.Continued}
			if i == n-1 {
				d.Options = 0
			}
			d.Addr, d.Len = addr+uint64(at), 1+uint32(rng.IntN([]int{60, size - at}[rng.IntN(2)]))
			f = append(f, d)
		}
		frames, free = append(frames, f), free[n:]
	}
	return frames
}

// compare checks what the wire says about itself and that no buffer is lost.
func (m *naive) compare(w *Wire, freeA, freeB int) {
	if s := w.B.Stats(); s != m.stats {
		m.t.Fatalf("statistics %+v, want %+v", s, m.stats)
	}
	if w.B.Waiting() != m.count() || w.InFlight() != len(m.flying) {
		m.t.Fatalf("%d parts wait and %d frames fly, want %d and %d",
			w.B.Waiting(), w.InFlight(), m.count(), len(m.flying))
	}
	at, want := fmt.Sprint(w.Next()), fmt.Sprint(0, false)
	if len(m.flying) > 0 {
		next := m.flying[0].arrives
		if len(m.leaving) > 0 {
			next = min(next, m.leaving[0].left)
		}
		want = fmt.Sprint(next, true)
	}
	if at != want {
		m.t.Fatalf("next event %s, want %s", at, want)
	}
	if n := freeA + len(m.leaving) + len(m.done); n != 64 {
		m.t.Fatalf("%d of 64 buffers of the sender are accounted for", n)
	}
	if n := freeB + len(m.empty) + m.count(); n != 64 || w.B.empty.len() != len(m.empty) {
		m.t.Fatalf("%d of 64 buffers of the receiver are accounted for, %d are empty, want %d",
			n, w.B.empty.len(), len(m.empty))
	}
}
