package punt

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/dataplane/bridge"
)

func newInjector(t interface{ Fatal(...any) }, size int) *Injector {
	i, err := NewInjector(size)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestInjectorIsAQueue compares an injector with a slice: frames come out in order, unchanged but
// for the padding, which is zeros even in a slot that held a longer frame.
func TestInjectorIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 1 << rapid.IntRange(0, 4).Draw(t, "size")
		i := newInjector(t, size)
		var model [][]byte
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			default:
				b := rapid.SliceOfN(rapid.ByteRange(1, 255), 10, 100).Draw(t, "frame")
				pushed := i.Push(b)
				if want := len(model) < size && len(b) >= 14; pushed != want {
					t.Fatalf("%d bytes with %d of %d frames waiting: pushed %v", len(b), len(model), size, pushed)
				}
				if pushed {
					model = append(model, append(bytes.Clone(b), make([]byte, max(0, 60-len(b)))...))
				}
				clear(b) // the injector has a copy
			case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9:
				got := i.Peek()
				if len(model) == 0 {
					if got != nil {
						t.Fatalf("%x out of an empty injector", got)
					}
					continue
				}
				if !bytes.Equal(got, model[0]) || !bytes.Equal(i.Peek(), got) {
					t.Fatalf("%x, want %x", got, model[0])
				}
				i.Release()
				model = model[1:]
			}
			if i.Len() != len(model) {
				t.Fatalf("%d frames wait, want %d", i.Len(), len(model))
			}
		}
	})
}

// TestInjectorBetweenGoroutines moves numbered frames from a goroutine to another one.
func TestInjectorBetweenGoroutines(t *testing.T) {
	const frames = 50_000
	i := newInjector(t, 16)
	go func() {
		b := make([]byte, 200)
		for n := uint64(0); n < frames; {
			binary.BigEndian.PutUint64(b, n)
			if i.Push(b[:60+n%140]) {
				n++
			}
		}
	}()
	for next := uint64(0); next < frames; {
		b := i.Peek()
		if b == nil {
			continue
		}
		if binary.BigEndian.Uint64(b) != next || len(b) != int(60+next%140) {
			t.Fatalf("frame %d: %x", next, b)
		}
		i.Release()
		next++
	}
}

func TestGates(t *testing.T) {
	var g Gates
	var wanted [2]atomic.Bool
	one, two := newInjector(t, 2), newInjector(t, 2)
	frame := make([]byte, 100)
	if g.Inject(0, frame) == nil || g.Inject(-1, frame) == nil {
		t.Error("a frame for a port that there is not")
	}
	g.Set(map[bridge.PortID]Gate{0: {one, 100, &wanted[0]}, 2: {two, 99, &wanted[1]}})
	for port, want := range map[bridge.PortID]bool{-1: false, 0: true, 1: false, 2: false, 3: false} {
		if got := g.Inject(port, frame) == nil; got != want {
			t.Errorf("port %d took a frame of 100 bytes: %v", port, got)
		}
	}
	if !wanted[0].Load() || wanted[1].Load() || one.Len() != 1 || two.Len() != 0 {
		t.Errorf("wanted at port 0: %v, port 2: %v; %d and %d frames wait", wanted[0].Load(), wanted[1].Load(),
			one.Len(), two.Len())
	}
	if g.Inject(0, frame) != nil || g.Inject(0, frame) != ErrFull {
		t.Error("an injector of 2 does not take 2 frames")
	}
	g.Set(map[bridge.PortID]Gate{2: {two, 100, &wanted[1]}})
	if g.Inject(0, frame) == nil || g.Inject(2, frame) != nil || one.Len() != 2 {
		t.Errorf("gates did not change: %d and %d frames wait", one.Len(), two.Len())
	}
}
