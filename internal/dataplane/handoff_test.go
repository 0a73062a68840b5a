package dataplane

import (
	"slices"
	"strings"
	"testing"
)

// TestOutbox: ids arrive in order once they are published, a burst at a time or by Flush, and
// Waiting finds all of them.
func TestOutbox(t *testing.T) {
	l, err := newHandoff(100)
	if err != nil {
		t.Fatal(err)
	}
	o := newOutbox(1, l)
	var frames, home []uint32
	for id := range uint32(70) {
		o.SendFrame(id)
		frames = append(frames, id)
		if id < 30 {
			o.SendHome(100 + id)
			home = append(home, 100+id)
		}
	}
	if l.Frames.Len() != outboxBurst || l.Home.Len() != 0 {
		t.Errorf("%d frames and %d to go home are published, want %d and 0", l.Frames.Len(), l.Home.Len(), outboxBurst)
	}
	if a, b := o.Waiting(); !slices.Equal(a, frames) || !slices.Equal(b, home) {
		t.Errorf("%v and %v are under way", a, b)
	}
	o.Flush()
	var ids [128]uint32
	if n := l.Frames.Pop(ids[:]); !slices.Equal(ids[:n], frames) {
		t.Errorf("frames %v arrived", ids[:n])
	}
	if n := l.Home.Pop(ids[:]); !slices.Equal(ids[:n], home) {
		t.Errorf("%v came home", ids[:n])
	}
	if a, b := o.Waiting(); len(a)+len(b) != 0 {
		t.Errorf("%v and %v are left", a, b)
	}
}

// TestMoreBuffersThanThereAre: a ring has room for all buffers; more is a fault of the worker.
func TestMoreBuffersThanThereAre(t *testing.T) {
	l, err := newHandoff(64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		const want = "more buffers than its worker has (0 of 1 taken)"
		if r := recover(); r == nil || !strings.Contains(r.(string), want) {
			t.Errorf("%v", r)
		}
	}()
	o := newOutbox(1, l)
	for id := range uint32(65) {
		o.SendFrame(id)
	}
	o.Flush()
}
