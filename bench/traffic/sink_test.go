package traffic

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pfc"
)

// testFrame returns frame seq of a flow.
func testFrame(dst frame.MAC, flow uint32, seq uint64, size int, tagged bool) []byte {
	b := make([]byte, size)
	n := frame.PutHeader(b, dst, macA, 5, 3, tagged, line.TestType)
	line.Stamp{Flow: flow, Seq: seq, Scheduled: 1000, Sent: 2000}.Put(b[n:])
	return b
}

func TestFaultsAreFound(t *testing.T) {
	r := newRig(t, Params{Speed: 10 * gigabit, Flows: []Flow{{ID: 9, Dst: macB, Size: 200, Count: 500}}},
		Params{Speed: 10 * gigabit})
	n := -1
	var late []byte
	r.fault = func(b []byte) [][]byte {
		n++
		switch n {
		case 10, 11, 12: // lost
			return nil
		case 20:
			return [][]byte{b, b}
		case 30:
			late = slices.Clone(b)
			return nil
		case 33:
			return [][]byte{b, late}
		case 40:
			b = slices.Clone(b)
			b[150] ^= 0x10
			return [][]byte{b}
		}
		return [][]byte{b}
	}
	r.run(500_000, 1000)
	got := r.received(9)
	got.FromSchedule, got.FromWire = Latency{}, Latency{}
	want := Received{ID: 9, Frames: 496, Bytes: 496 * 200, Missing: 4, Reordered: 1, Duplicates: 1}
	if got != want {
		t.Errorf("received %+v, want %+v", got, want)
	}
	if s := r.b.Stats(r.now); s.Corrupt != 1 || s.Others+s.Strangers+s.Untracked+s.Control != 0 {
		t.Errorf("%+v", s)
	}
}

func TestEveryFrameHasItsCounter(t *testing.T) {
	pause := make([]byte, 60)
	frame.PutHeader(pause, macB, macA, 0, 0, false, frame.TypeMACControl)
	pause[15] = 1
	stale := testFrame(macB, 2, 1, 60, true)
	for name, c := range map[string]struct {
		b       []byte
		counter func(*sink) uint64
	}{
		"good": {testFrame(macB, 1, 0, 100, true), func(k *sink) uint64 { return k.flows[1].Frames }},
		"group": {testFrame(0xffff_ffff_ffff, 1, 0, 60, false),
			func(k *sink) uint64 { return k.flows[1].Frames }},
		"stale":     {stale, func(k *sink) uint64 { return k.flows[2].Stale }},
		"flooded":   {testFrame(macA, 1, 0, 100, true), func(k *sink) uint64 { return k.strangers }},
		"untracked": {testFrame(macB, 3, 0, 100, true), func(k *sink) uint64 { return k.untracked }},
		"short":     {testFrame(macB, 1, 0, 60, true)[:30], func(k *sink) uint64 { return k.corrupt }},
		"runt":      {make([]byte, 5), func(k *sink) uint64 { return k.others }},
		"foreign":   {make([]byte, 60), func(k *sink) uint64 { return k.others }},
		"PAUSE":     {pause, func(k *sink) uint64 { return k.control }},
	} {
		k := newSink(macB, 3)
		for id := range k.flows {
			k.flows[id] = &track{}
		}
		k.flows[2].Count(64 * line.Blocks) // replaces the block of frame 1
		k.flows[2].Frames = 0
		var f pfc.Frame
		if k.receive(5000, c.b, &f) != sunk || c.counter(&k) != 1 || total(&k) != 1 {
			t.Errorf("%s: counted elsewhere: %+v", name, k)
		}
	}
}

// total returns the number of frames that a sink has counted.
func total(k *sink) uint64 {
	n := k.control + k.others + k.strangers + k.corrupt + k.untracked
	for _, f := range k.flows {
		if f != nil {
			n += f.Frames + f.Duplicates + f.Stale
		}
	}
	return n
}

// TestFlowsTakeMemoryAsTheyCome: a sink allocates memory only for flows that it receives.
func TestFlowsTakeMemoryAsTheyCome(t *testing.T) {
	const flows = 4096
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	k := newSink(macB, flows)
	var f pfc.Frame
	for seq := range uint64(100) {
		k.receive(0, testFrame(macB, flows-1, seq, 60, false), &f)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 200_000 || k.flows[flows-1].Frames != 100 {
		t.Errorf("%d bytes for one flow; received %d frames", n, k.flows[flows-1].Frames)
	}
}

// FuzzReceive: every frame is counted exactly once. Only frames that Stamp.Put could have written
// count as received, with or without check and body.
func FuzzReceive(f *testing.F) {
	f.Add(testFrame(macB, 1, 0, 60, true))
	f.Add(testFrame(macB, 1, 77, 300, false))
	f.Add(testFrame(macB, 1, 77, 300, false)[:50])
	f.Add([]byte{1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 8, 1, 1, 0, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		k := newSink(macB, 3)
		var control pfc.Frame
		before := slices.Clone(b)
		if k.receive(1, b, &control) == sunk && total(&k) != 1 {
			t.Fatalf("counted %d times", total(&k))
		}
		if !bytes.Equal(b, before) {
			t.Fatal("the frame was changed")
		}
		for flow := range k.flows {
			if k.flows[flow] == nil {
				continue
			}
			var h frame.Header
			frame.Parse(b, &h)
			s, _ := line.ReadStamp(b[h.Payload:], len(b))
			again := make([]byte, len(b)-int(h.Payload))
			s.Put(again)
			if binary.BigEndian.Uint32(b[h.Payload+36:]) == 0 {
				clear(again[36:])
			}
			if len(b) > MinSize && !bytes.Equal(again, b[h.Payload:]) || s.Flow != uint32(flow) {
				t.Fatalf("accepted % x", b)
			}
		}
	})
}
