package ring

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// testLayout is a layout like the kernel's: indices on separate cache lines, slots behind them.
var testLayout = Layout{Producer: 0, Consumer: 64, Slots: 128}

// ringAt returns an empty ring of uint64 whose indices start at start, and the memory under it. t
// is a *testing.T or a *rapid.T.
func ringAt(t interface{ Fatal(...any) }, start uint32, size int) (*Ring[uint64], []byte) {
	mem := make([]byte, int(testLayout.Slots)+8*size)
	binary.NativeEndian.PutUint32(mem[testLayout.Producer:], start)
	binary.NativeEndian.PutUint32(mem[testLayout.Consumer:], start)
	r, err := Over[uint64](mem, testLayout, size)
	if err != nil {
		t.Fatal(err)
	}
	return r, mem
}

// nearWrap draws a start shortly before 2^32, so that a short run crosses it, or any start.
func nearWrap(t *rapid.T) uint32 {
	if rapid.Bool().Draw(t, "near the wrap") {
		return math.MaxUint32 - rapid.Uint32Range(0, 200).Draw(t, "before the wrap")
	}
	return rapid.Uint32().Draw(t, "start")
}

func TestSizes(t *testing.T) {
	for _, size := range []int{math.MinInt, -1, 0, 3, 6, 1000, 1<<31 + 1, 1 << 32, math.MaxInt} {
		if _, err := New[byte](size); err == nil {
			t.Errorf("New(%d) succeeded", size)
		}
		if _, err := Over[byte](make([]byte, 4096), testLayout, size); err == nil {
			t.Errorf("Over(%d) succeeded", size)
		}
	}
	if r, err := New[struct{}](1 << 31); err != nil || r.Cap() != 1<<31 || r.Free() != 1<<31 {
		t.Errorf("New(2^31): %v", err)
	}
	for _, size := range []int{1, 2, 64, 4096} {
		r, err := New[byte](size)
		if err != nil {
			t.Fatal(err)
		}
		if r.Cap() != size || r.Free() != size || r.Len() != 0 {
			t.Errorf("size %d: cap %d, free %d, len %d", size, r.Cap(), r.Free(), r.Len())
		}
	}
}

// TestModel compares the ring with a slice: values are appended at its end and cut off at its
// front.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 1 << rapid.IntRange(0, 6).Draw(t, "log2 size")
		r, _ := ringAt(t, nearWrap(t), size)
		var model []uint64
		last, first := uint64(0), r.Produced()
		draw := func(t *rapid.T, room int) (n, fits int) {
			n = rapid.IntRange(-1, size+2).Draw(t, "n")
			return n, max(0, min(n, room))
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve and submit": func(t *rapid.T) {
				n, fits := draw(t, size-len(model))
				r.Reserve(n) // must change nothing
				a, b := r.Reserve(n)
				if got := len(a) + len(b); got != fits {
					t.Fatalf("Reserve(%d) with %d of %d used: %d slots, want %d", n, len(model), size, got, fits)
				}
				use := rapid.IntRange(0, fits).Draw(t, "submitted")
				for i := range use {
					last++
					if i < len(a) {
						a[i] = last
					} else {
						b[i-len(a)] = last
					}
					model = append(model, last)
				}
				r.Submit(use)
			},
			"push": func(t *rapid.T) {
				n, fits := draw(t, size-len(model))
				src := make([]uint64, max(0, n))
				for i := range src {
					src[i] = last + 1 + uint64(i)
				}
				if got := r.Push(src); got != fits {
					t.Fatalf("Push of %d into %d free: %d", n, size-len(model), got)
				}
				model = append(model, src[:fits]...)
				last += uint64(fits)
			},
			"peek and release": func(t *rapid.T) {
				n, fits := draw(t, len(model))
				r.Peek(n)
				a, b := r.Peek(n)
				if got := slices.Concat(a, b); !slices.Equal(got, model[:fits]) {
					t.Fatalf("Peek(%d): %v, want %v", n, got, model[:fits])
				}
				use := rapid.IntRange(0, fits).Draw(t, "released")
				r.Release(use)
				model = model[use:]
			},
			"pop": func(t *rapid.T) {
				n, fits := draw(t, len(model))
				dst := slices.Repeat([]uint64{math.MaxUint64}, max(0, n))
				want := append(slices.Clone(model[:fits]), dst[fits:]...) // nothing from free slots
				if got := r.Pop(dst); got != fits || !slices.Equal(dst, want) {
					t.Fatalf("Pop(%d): %d %v, want %v", n, got, dst, want)
				}
				model = model[fits:]
			},
			"": func(t *rapid.T) {
				if r.Len() != len(model) || r.Free() != size-len(model) || r.Produced()-first != uint32(last) {
					t.Fatalf("len %d, free %d, %d made; %d of %d used", r.Len(), r.Free(), last, len(model), size)
				}
			},
		})
	})
}

// TestPublishedOnlyOnHandover checks the memory as the kernel sees it.
func TestPublishedOnlyOnHandover(t *testing.T) {
	r, mem := ringAt(t, math.MaxUint32, 8)
	indices := func() [2]uint32 {
		return [2]uint32{
			binary.NativeEndian.Uint32(mem[testLayout.Producer:]),
			binary.NativeEndian.Uint32(mem[testLayout.Consumer:]),
		}
	}
	check := func(step string, producer, consumer uint32) {
		t.Helper()
		if got := indices(); got != [2]uint32{producer, consumer} {
			t.Errorf("after %s: indices %v, want %v", step, got, [2]uint32{producer, consumer})
		}
	}
	a, b := r.Reserve(3)
	if len(a) != 1 || len(b) != 2 {
		t.Fatalf("3 slots at the wrap: %d and %d, want 1 and 2", len(a), len(b))
	}
	a[0], b[0], b[1] = 10, 11, 12
	check("Reserve", math.MaxUint32, math.MaxUint32)
	r.Submit(3)
	check("Submit", 2, math.MaxUint32)
	if got := binary.NativeEndian.Uint64(mem[testLayout.Slots+7*8:]); got != 10 {
		t.Errorf("last slot holds %d, want 10", got)
	}
	r.Peek(3)
	check("Peek", 2, math.MaxUint32)
	r.Release(2)
	check("Release", 2, 1)
}

// TestTwoViews is the situation of AF_XDP: each end has its own mapping of the same memory.
func TestTwoViews(t *testing.T) {
	ours, mem := ringAt(t, math.MaxUint32-2, 4)
	theirs, err := Over[uint64](mem, testLayout, 4)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]uint64, 4)
	for v := uint64(0); v < 20; v += 2 {
		if n := ours.Push([]uint64{v, v + 1}); n != 2 {
			t.Fatalf("pushed %d of 2", n)
		}
		if n := theirs.Pop(dst); n != 2 || dst[0] != v || dst[1] != v+1 {
			t.Fatalf("popped %v, want %d and %d", dst[:n], v, v+1)
		}
	}
}

// TestOverStartsFromIndices attaches to a ring in use.
func TestOverStartsFromIndices(t *testing.T) {
	first, mem := ringAt(t, math.MaxUint32, 4)
	var want []uint64
	for len(want) < 4 {
		want = append(want, uint64(len(want)))
		first.Push(want[len(want)-1:])
		second, err := Over[uint64](mem, testLayout, 4)
		if err != nil {
			t.Fatal(err)
		}
		if second.Len() != len(want) || second.Free() != 4-len(want) {
			t.Errorf("len %d, free %d with %d values", second.Len(), second.Free(), len(want))
		}
		if a, b := second.Peek(4); !slices.Equal(slices.Concat(a, b), want) {
			t.Errorf("found %v %v, want %v", a, b, want)
		}
	}
}

// TestPartsMayTouch: the parts of a ring may lie side by side, in any order.
func TestPartsMayTouch(t *testing.T) {
	for _, at := range []Layout{{0, 4, 8}, {4, 0, 8}, {32, 36, 0}, {36, 32, 0}} {
		if _, err := Over[uint64](make([]byte, 8+4*8), at, 4); err != nil {
			t.Errorf("%+v: %v", at, err)
		}
	}
}

// TestMappedRingsAreFenced: only a producer whose consumer may be the kernel pays for the fence.
// TestSubmitBeforeNeedWakeup shows what it is for.
func TestMappedRingsAreFenced(t *testing.T) {
	mapped, _ := ringAt(t, 0, 4)
	heap, err := New[uint64](4)
	if err != nil {
		t.Fatal(err)
	}
	if !mapped.producer.fenced || mapped.consumer.fenced || heap.producer.fenced || heap.consumer.fenced {
		t.Errorf("fences: %t and %t over mapped memory, %t and %t between workers; want the first alone",
			mapped.producer.fenced, mapped.consumer.fenced, heap.producer.fenced, heap.consumer.fenced)
	}
}

func TestOverRefuses(t *testing.T) {
	mem := make([]byte, 128+4*8)
	apart := make([]byte, len(mem))
	binary.NativeEndian.PutUint32(apart, 5)
	for _, c := range []struct {
		name string
		mem  []byte
		at   Layout
		want string
	}{
		{"no memory", nil, testLayout, "outside"},
		{"slots end one byte late", mem[:len(mem)-1], testLayout, "outside"},
		{"producer outside", mem, Layout{uint64(len(mem)) - 3, 64, 128}, "outside"},
		{"consumer far outside", mem, Layout{0, math.MaxUint64 - 3, 128}, "outside"},
		{"slots far outside", mem, Layout{0, 64, math.MaxUint64 - 7}, "outside"},
		{"producer misaligned", mem, Layout{2, 64, 128}, "aligned"},
		{"consumer misaligned", mem, Layout{0, 65, 128}, "aligned"},
		{"slots misaligned", mem, Layout{0, 64, 124}, "aligned"},
		{"memory misaligned", mem[1:], Layout{0, 64, 120}, "aligned"},
		{"one index twice", mem, Layout{64, 64, 128}, "overlaps"},
		{"index among the slots", mem, Layout{0, 156, 128}, "overlaps"},
		{"indices too far apart", apart, testLayout, "further apart"},
	} {
		if _, err := Over[uint64](c.mem, c.at, 4); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestOverRefusesPointers(t *testing.T) {
	refused := func(name string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s accepted", name)
		}
	}
	mem := make([]byte, 1024)
	_, err := Over[*int](mem, testLayout, 1)
	refused("pointer", err)
	_, err = Over[string](mem, testLayout, 1)
	refused("string", err)
	_, err = Over[[1]struct{ a, b any }](mem, testLayout, 1)
	refused("array of structs with pointers", err)
	_, err = Over[struct{}](mem, testLayout, 1)
	refused("empty value", err)
	if _, err = Over[struct {
		a [2]uint64
		b complex128
		c [0]*int
	}](mem, testLayout, 1); err != nil {
		t.Errorf("plain value: %v", err)
	}
}

func TestBrokenInvariantsPanic(t *testing.T) {
	panics := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s did not panic", name)
			}
		}()
		f()
	}
	r, mem := ringAt(t, 0, 4)
	r.Push([]uint64{1, 2})
	r.Reserve(2)
	r.Peek(2)
	panics("submit of more than reserved", func() { r.Submit(3) })
	panics("negative submit", func() { r.Submit(-1) })
	panics("release of more than peeked", func() { r.Release(3) })
	panics("release of a multiple of 2^32", func() { r.Release(1 << 32) })
	binary.NativeEndian.PutUint32(mem[testLayout.Consumer:], 3)
	panics("consumer ahead of the producer", func() { r.Reserve(4) })
	binary.NativeEndian.PutUint32(mem[testLayout.Producer:], 9)
	panics("producer too far ahead", func() { r.Peek(4) })
}

// TestTwoGoroutines moves consecutive numbers through small rings, across the index wrap. They
// arrive in order, without loss or duplicates. Under -race it also checks that the indices order
// accesses to the slots.
func TestTwoGoroutines(t *testing.T) {
	const values = 100_000
	for _, size := range []int{1, 8, 256} {
		r, _ := ringAt(t, math.MaxUint32-values/2, size)
		go produce(r, values)
		rng := rand.New(rand.NewPCG(1, uint64(size)))
		var want uint64
		for want < values {
			if used := r.Len(); used < 0 || used > size {
				t.Fatalf("len %d of %d", used, size)
			}
			a, b := r.Peek(1 + rng.IntN(size))
			for _, v := range slices.Concat(a, b) {
				if v != want {
					t.Fatalf("size %d: got %d, want %d", size, v, want)
				}
				want++
			}
			r.Release(len(a) + len(b))
			if len(a) == 0 {
				runtime.Gosched()
			}
		}
		if a, _ := r.Peek(1); len(a) != 0 {
			t.Errorf("size %d: %d is too much", size, a[0])
		}
	}
}

// produce pushes 0 to values-1 in bursts of random length.
func produce(r *Ring[uint64], values uint64) {
	rng := rand.New(rand.NewPCG(2, uint64(r.Cap())))
	burst := make([]uint64, r.Cap())
	for next := uint64(0); next < values; {
		n := min(1+rng.IntN(len(burst)), int(values-next))
		for i := range n {
			burst[i] = next + uint64(i)
		}
		pushed := r.Push(burst[:n])
		if pushed == 0 {
			runtime.Gosched()
		}
		next += uint64(pushed)
	}
}

func TestAllocatesNothing(t *testing.T) {
	r, err := New[uint64](64)
	if err != nil {
		t.Fatal(err)
	}
	burst := make([]uint64, 48)
	if allocs := testing.AllocsPerRun(100, func() {
		r.Push(burst)
		r.Pop(burst)
		a, b := r.Reserve(40)
		r.Submit(len(a) + len(b))
		a, b = r.Peek(40)
		r.Release(len(a) + len(b))
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
