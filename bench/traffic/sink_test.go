package traffic

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"slices"
	"testing"

	"sluice/internal/frame"
	"sluice/pfc"
)

// testFrame returns frame seq of a flow.
func testFrame(dst frame.MAC, flow uint32, seq uint64, size int, tagged bool) []byte {
	b := make([]byte, size)
	n := frame.PutHeader(b, dst, macA, 5, 3, tagged, TestType)
	putStamp(b[n:], stamp{flow: flow, seq: seq, scheduled: 1000, sent: 2000})
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
		"good": {testFrame(macB, 1, 0, 100, true), func(k *sink) uint64 { return k.flows[1].received }},
		"group": {testFrame(0xffff_ffff_ffff, 1, 0, 60, false),
			func(k *sink) uint64 { return k.flows[1].received }},
		"stale":     {stale, func(k *sink) uint64 { return k.flows[2].stale }},
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
		k.flows[2].order.Next = 100_000
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
			n += f.received + f.duplicates + f.stale
		}
	}
	return n
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	for _, size := range []int{42, 46, 60, 500, 9216} {
		p := make([]byte, size)
		putStamp(p, stamp{flow: 7, seq: 1 << 40, scheduled: -1, sent: 1 << 50})
		var got stamp
		if !readStamp(p, size+14, &got) || got != (stamp{flow: 7, seq: 1 << 40, scheduled: -1, sent: 1 << 50}) {
			t.Fatalf("%d bytes: read %+v", size, got)
		}
		for bit := range size * 8 {
			p[bit/8] ^= 1 << (bit % 8)
			if readStamp(p, size+14, &got) {
				t.Errorf("%d bytes: flipped bit %d was not found", size, bit)
			}
			p[bit/8] ^= 1 << (bit % 8)
		}
		for n := range size {
			if readStamp(p[:n], n+14, &got) {
				t.Errorf("%d bytes cut to %d were accepted", size, n)
			}
		}
		binary.BigEndian.PutUint32(p, magic+1)
		binary.BigEndian.PutUint32(p[36:], crc32.Checksum(p[:36], castagnoli))
		if readStamp(p, size+14, &got) {
			t.Errorf("%d bytes: a wrong magic was accepted", size)
		}
		putStamp(p, stamp{})
		if size > 46 && readStamp(append(p, 0), size+15, &got) {
			t.Errorf("%d bytes and one more were accepted", size)
		}
	}
}

// TestFramesWithoutACheck: a frame whose check is 0 is accepted if its body is 0 too. Apart from
// that, only a wrong magic or length is detected.
func TestFramesWithoutACheck(t *testing.T) {
	const size = 100
	p := make([]byte, size)
	putStamp(p, stamp{flow: 7, seq: 9, scheduled: 1, sent: 2})
	clear(p[36:])
	var s stamp
	if !readStamp(p, size+14, &s) || s != (stamp{flow: 7, seq: 9, scheduled: 1, sent: 2}) {
		t.Errorf("read %+v", s)
	}
	for i := range p {
		if i >= 4 && i < 32 {
			continue
		}
		p[i] ^= 1
		if readStamp(p, size+14, &s) {
			t.Errorf("a change of byte %d was not found", i)
		}
		p[i] ^= 1
	}
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
	if n := after.TotalAlloc - before.TotalAlloc; n > 200_000 || k.flows[flows-1].received != 100 {
		t.Errorf("%d bytes for one flow; received %d frames", n, k.flows[flows-1].received)
	}
}

// TestBodiesDiffer: the body of another frame is detected.
func TestBodiesDiffer(t *testing.T) {
	a, b := testFrame(macB, 1, 5, 100, false), testFrame(macB, 1, 6, 100, false)
	copy(a[14+stampLength:], b[14+stampLength:])
	var s stamp
	if readStamp(a[14:], len(a), &s) {
		t.Error("a frame with the next one's body was accepted")
	}
}

// TestPaddingAfterLostTag: a switch pads a minimum-size frame when it removes the tag.
func TestPaddingAfterLostTag(t *testing.T) {
	p := make([]byte, 60-18)
	putStamp(p, stamp{flow: 1})
	padded := append(p, 0, 0, 0, 0)
	var s stamp
	if !readStamp(padded, 60, &s) {
		t.Error("padded frame was taken for corrupt")
	}
	if readStamp(append(padded, 0), 61, &s) {
		t.Error("frame that is too long was accepted")
	}
}

// FuzzReceive: every frame is counted exactly once. Only frames that putStamp could have written
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
			var s stamp
			readStamp(b[h.Payload:], len(b), &s)
			again := make([]byte, len(b)-int(h.Payload))
			putStamp(again, s)
			if binary.BigEndian.Uint32(b[h.Payload+36:]) == 0 {
				clear(again[36:])
			}
			if len(b) > MinSize && !bytes.Equal(again, b[h.Payload:]) || s.flow != uint32(flow) {
				t.Fatalf("accepted % x", b)
			}
		}
	})
}
