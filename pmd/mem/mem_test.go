package mem

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
	"sluice/pmd"
)

const size = 2048 // bytes per buffer

// testWire returns a wire between two memories. End A sends from its first buffers; end B receives
// into all of its own.
func testWire(t testing.TB, p Params) (w *Wire, a, b []byte) {
	t.Helper()
	a, b = make([]byte, 64*size), make([]byte, 64*size)
	w, err := NewWire(p, End{a, size}, End{b, size})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(64) {
		w.B.Fill([]uint64{i * size})
	}
	return w, a, b
}

// TestTimes: a frame of 60 bytes takes 84 byte times, 67.2 ns at 10 Gbit/s, and then the delay of
// the cable. It arrives at the next whole nanosecond; its buffer completes when the last bit has
// left.
func TestTimes(t *testing.T) {
	w, _, _ := testWire(t, Params{Rate: 10e9, Delay: Length(100)})
	if d := Length(100); d != 513 {
		t.Errorf("100 m of fibre delay by %d ns, not 513", d)
	}
	w.Advance(1000)
	w.A.Transmit([]pmd.Desc{{Addr: 0, Len: 60}, {Addr: size, Len: 60}})
	var addrs [4]uint64
	var burst [4]pmd.Desc
	for _, step := range []struct {
		now                 int64
		completed, received int
	}{
		{1067, 0, 0}, {1068, 1, 0}, {1134, 0, 0}, {1135, 1, 0}, // 67.2, 134.4
		{1580, 0, 0}, {1581, 0, 1}, {1647, 0, 0}, {1648, 0, 1}, // 580.2, 647.4
	} {
		w.Advance(step.now)
		if n := w.A.Complete(addrs[:]); n != step.completed {
			t.Errorf("at %d ns %d frames completed, want %d", step.now, n, step.completed)
		}
		if n := w.B.Receive(burst[:]); n != step.received {
			t.Errorf("at %d ns %d frames arrived, want %d", step.now, n, step.received)
		}
	}
}

func TestNextIsWhenSomethingHappens(t *testing.T) {
	w, _, _ := testWire(t, Params{Rate: 10e9, Delay: 500})
	if _, any := w.Next(); any {
		t.Error("an empty wire is about to do something")
	}
	w.A.Transmit([]pmd.Desc{{Addr: 0, Len: 60}})
	for _, want := range []int64{68, 568} {
		at, any := w.Next()
		if !any || at != want {
			t.Errorf("next at %d ns (%t), want %d", at, any, want)
		}
		w.Advance(at)
	}
	if w.InFlight() != 0 {
		t.Errorf("%d frames still on the wire", w.InFlight())
	}
}

func TestLosesUnderANameOnly(t *testing.T) {
	w, _, _ := testWire(t, Params{Rate: 1e9, MTU: 100})
	send := func(length uint32) {
		w.A.Transmit([]pmd.Desc{{Addr: 0, Len: length}})
		w.Advance(w.A.now + 100_000)
	}
	send(118)
	send(119) // longer than MTU, header and tag
	if s := w.B.Stats(); s.RXDropped != 1 || s.Lost() != 1 {
		t.Errorf("after a frame too long: %+v", s)
	}
	for range 64 { // 1 of 64 buffers is full, and no frame is fetched
		send(60)
	}
	if s := w.B.Stats(); s.RXFillEmpty != 1 || s.Lost() != 2 {
		t.Errorf("after one frame more than buffers: %+v", s)
	}
	var burst [64]pmd.Desc
	if n := w.B.Receive(burst[:]); n != 64 {
		t.Errorf("received %d frames, want 64", n)
	}
}

// bothWays runs a test with a wire on which frames go from A to B, and with one on which they go
// from B to A. Both ends have 64 buffers, and handed over those from 32 on to receive into.
func bothWays(t *testing.T, p Params, test func(t *testing.T, w *Wire, from, to *Port, sent, received []byte)) {
	for _, toB := range []bool{true, false} {
		t.Run(fmt.Sprintf("to B %t", toB), func(t *testing.T) {
			a, b := make([]byte, 64*size), make([]byte, 64*size)
			w, err := NewWire(p, End{a, size}, End{b, size})
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint64(32) {
				w.A.Fill([]uint64{(32 + i) * size})
				w.B.Fill([]uint64{(32 + i) * size})
			}
			if toB {
				test(t, w, w.A, w.B, a, b)
			} else {
				test(t, w, w.B, w.A, b, a)
			}
		})
	}
}

// TestBothWays: a frame arrives with its bytes at the other end, after the time that it takes, and
// nothing happens at its own.
func TestBothWays(t *testing.T) {
	bothWays(t, Params{Rate: 10e9, Delay: 500}, func(t *testing.T, w *Wire, from, to *Port, sent, received []byte) {
		for i := range 60 {
			sent[size+i] = byte(i + 1)
		}
		if n := from.Transmit([]pmd.Desc{{Addr: size, Len: 60}}); n != 1 || w.InFlight() != 1 {
			t.Fatalf("%d frames taken, %d in flight", n, w.InFlight())
		}
		var burst [4]pmd.Desc
		var addrs [4]uint64
		for _, step := range []struct {
			now                 int64
			completed, received int
		}{{67, 0, 0}, {68, 1, 0}, {567, 0, 0}, {568, 0, 1}} {
			w.Advance(step.now)
			if n := from.Complete(addrs[:]); n != step.completed {
				t.Errorf("at %d ns %d frames completed, want %d", step.now, n, step.completed)
			}
			if n := to.Receive(burst[:]); n != step.received {
				t.Errorf("at %d ns %d frames arrived, want %d", step.now, n, step.received)
			}
		}
		if got := received[burst[0].Addr:][:burst[0].Len]; !bytes.Equal(got, sent[size:size+60]) {
			t.Errorf("got % x", got)
		}
		if from.Receive(burst[:])+to.Complete(addrs[:])+w.InFlight() != 0 {
			t.Error("something happened at the wrong end")
		}
	})
}

// TestSetUp: a wire that is pulled out loses the frames on it and all that are sent, but completes
// them. Those sent when it is in again arrive.
func TestSetUp(t *testing.T) {
	bothWays(t, Params{Rate: 1e9, Delay: 1000}, func(t *testing.T, w *Wire, from, to *Port, _, _ []byte) {
		now := int64(0)
		send := func() {
			from.Transmit([]pmd.Desc{{Addr: 0, Len: 60}})
			now += 672
			w.Advance(now)
		}
		expect := func(what string, dropped uint64, received int) {
			t.Helper()
			now += 1000
			w.Advance(now)
			var burst [4]pmd.Desc
			var addrs [4]uint64
			if n := to.Receive(burst[:]); n != received {
				t.Errorf("%s: %d frames arrived, want %d", what, n, received)
			}
			if n := from.Complete(addrs[:]); n != 1 {
				t.Errorf("%s: %d frames of 1 completed", what, n)
			}
			if a, b := from.Stats(), to.Stats(); a.Lost() != 0 || b.RXDropped != dropped || b.Lost() != dropped {
				t.Errorf("%s: %d and %d frames lost, %d dropped; want 0, %d, %d", what, a.Lost(), b.Lost(), b.RXDropped,
					dropped, dropped)
			}
		}
		send()
		expect("in", 0, 1)
		send()
		w.SetUp(false)
		expect("pulled out while a frame was on it", 1, 0)
		send()
		expect("out", 2, 0)
		w.SetUp(true)
		send()
		expect("in again", 2, 1)
		if n := to.empty.len(); n != 30 {
			t.Errorf("%d buffers of 32 are empty, and 2 frames have arrived", n)
		}
	})
}

// TestNextIsTheEarliest: the next event is the earlier one of both directions. Frames of 100 and
// 200 bytes leave after 99.2 and 179.2 ns, and arrive 500 ns later.
func TestNextIsTheEarliest(t *testing.T) {
	bothWays(t, Params{Rate: 10e9, Delay: 500}, func(t *testing.T, w *Wire, from, to *Port, _, _ []byte) {
		from.Transmit([]pmd.Desc{{Addr: 0, Len: 200}})
		to.Transmit([]pmd.Desc{{Addr: 0, Len: 100}})
		for _, want := range []int64{100, 180, 600, 680} {
			at, any := w.Next()
			if !any || at != want {
				t.Errorf("next at %d ns (%t), want %d", at, any, want)
			}
			w.Advance(at)
		}
		if at, any := w.Next(); any || at != 0 {
			t.Errorf("next at %d ns (%t), and nothing is left", at, any)
		}
	})
}

// TestBytesOrderAndBuffers sends random frames at random times. The same frames arrive, in order,
// no faster than the rate, and every buffer is returned.
func TestBytesOrderAndBuffers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		rate := rapid.SampledFrom([]uint64{1e7, 1e9, 10e9, 25e9, 400e9}).Draw(rt, "rate")
		w, a, b := testWire(t, Params{Rate: rate, Delay: rng.Int64N(10_000), Ring: 64})
		free := make([]uint64, 0, 64)
		for i := range uint64(64) {
			free = append(free, i*size)
		}
		var sent [][]byte
		now, bits := int64(0), uint64(0)
		received := 0
		for range 300 {
			now += rng.Int64N(int64(3e12/rate) + 2)
			w.Advance(now)
			if n := len(free); n > 0 && rng.IntN(3) > 0 {
				d := pmd.Desc{Addr: free[n-1], Len: uint32(60 + rng.IntN(1450))}
				frame := a[d.Addr : d.Addr+uint64(d.Len)]
				for i := range frame {
					frame[i] = byte(rng.Uint32())
				}
				if w.A.Transmit([]pmd.Desc{d}) == 1 {
					free = free[:n-1]
					sent = append(sent, bytes.Clone(frame))
				}
			}
			var addrs [8]uint64
			free = append(free, addrs[:w.A.Complete(addrs[:])]...)
			var burst [8]pmd.Desc
			for _, d := range burst[:w.B.Receive(burst[:])] {
				if !bytes.Equal(b[d.Addr:d.Addr+uint64(d.Len)], sent[received]) {
					rt.Fatalf("frame %d arrived changed or out of order", received)
				}
				received++
				bits += uint64(d.Len+frame.WireOverhead) * 8
				w.B.Fill([]uint64{d.Addr})
			}
			if uint64(now) < bits*1e9/rate {
				rt.Fatalf("%d bits arrived within %d ns at %d bit/s", bits, now, rate)
			}
		}
		w.Advance(now + 1e12)
		var addrs [64]uint64
		free = append(free, addrs[:w.A.Complete(addrs[:])]...)
		if len(free) != 64 || w.InFlight() != 0 {
			rt.Fatalf("%d buffers of 64 came back, %d frames on the wire", len(free), w.InFlight())
		}
	})
}

// TestLongFastWire keeps 100 km at 400 Gbit/s full: about 300,000 of the shortest frames are in
// flight at once, and each arrives as it was sent.
func TestLongFastWire(t *testing.T) {
	w, a, b := testWire(t, Params{Rate: 400e9, Delay: Length(100e3), Ring: 64})
	var sent, received, most uint64
	var burst [64]pmd.Desc
	var addrs [64]uint64
	for now := int64(0); now < 1_500_000; now += 100 {
		w.Advance(now)
		n := 64
		if now > 0 {
			n = w.A.Complete(addrs[:])
		}
		for i := range burst[:n] {
			burst[i] = pmd.Desc{Addr: uint64(i * size), Len: 60}
			binary.BigEndian.PutUint64(a[i*size:], sent+uint64(i))
		}
		sent += uint64(w.A.Transmit(burst[:n]))
		most = max(most, uint64(w.InFlight()))
		for _, d := range burst[:w.B.Receive(burst[:])] {
			if got := binary.BigEndian.Uint64(b[d.Addr:]); got != received {
				t.Fatalf("frame %d arrived in place of %d", got, received)
			}
			received++
			w.B.Fill([]uint64{d.Addr})
		}
	}
	const onWire = 513_000 * 1000 / 1680 // delay by slot, ps
	if most < onWire || received < onWire {
		t.Errorf("at most %d frames were on the wire and %d arrived, want more than %d of each", most, received, onWire)
	}
	if s := w.B.Stats(); s.Lost() != 0 {
		t.Errorf("frames were lost: %+v", s)
	}
}

func TestNewWireRefuses(t *testing.T) {
	good := End{make([]byte, 4*size), size}
	for name, c := range map[string]struct {
		p    Params
		a, b End
	}{
		"no rate":                       {Params{}, good, good},
		"negative delay":                {Params{Rate: 1, Delay: -1}, good, good},
		"odd buffers":                   {Params{Rate: 1}, good, End{make([]byte, 3000), 1000}},
		"MTU over a buffer":             {Params{Rate: 1, MTU: size}, good, good},
		"MTU over the room in a buffer": {Params{Rate: 1, MTU: size - 32 - 18 + 1}, good, good},
	} {
		if _, err := NewWire(c.p, c.a, c.b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, p := range []Params{{Rate: 1, MTU: size - 32 - 18}, {Rate: 1, MTU: 9000, Part: size - 32}} {
		if _, err := NewWire(p, good, good); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestNullCompletesInOrder: frames are complete in the order in which they were sent, wherever in
// the ring they are.
func TestNullCompletesInOrder(t *testing.T) {
	const ring = 8
	n := NewNull(make([]byte, size), ring, 60, nil)
	next := uint64(0)
	for k := 1; k <= ring; k++ {
		var burst [ring]pmd.Desc
		for i := range burst[:k] {
			burst[i].Addr = next + uint64(i)
		}
		if sent := n.Transmit(burst[:k]); sent != k {
			t.Fatalf("took %d frames to send of %d", sent, k)
		}
		var addrs [ring]uint64
		if done := n.Complete(addrs[:]); done != k {
			t.Fatalf("completed %d frames of %d", done, k)
		}
		for _, addr := range addrs[:k] {
			if addr != next {
				t.Fatalf("of %d frames: %d is complete, want %d", k, addr, next)
			}
			next++
		}
	}
}

func TestNullReceivesForEver(t *testing.T) {
	memory := make([]byte, 4*size)
	n := NewNull(memory, 4, 60, []byte("first"), []byte("other"))
	if k := n.Fill([]uint64{0, size, 2 * size, 3 * size, 0}); k != 4 {
		t.Errorf("took %d buffers, want 4", k)
	}
	var burst [8]pmd.Desc
	if k := n.Receive(burst[:]); k != 4 || burst[0].Len != 60 {
		t.Errorf("received %d frames of %d bytes", k, burst[0].Len)
	}
	for i, want := range []string{"first", "other", "first", "other"} {
		d := burst[i]
		if got := string(memory[d.Addr:][:len(want)]); got != want || d.Options != 0 {
			t.Errorf("frame %d begins with %q, want %q", i, got, want)
		}
	}
	const tag = 4
	for i, d := range burst[:4] {
		if d.Addr < uint64(i*size+tag) || d.Addr+uint64(d.Len) > uint64((i+1)*size) {
			t.Errorf("frame %d at %d: no room for a tag in front, or not in its buffer", i, d.Addr)
		}
	}
	if k := n.Transmit(burst[:4]); k != 4 {
		t.Errorf("took %d frames to send", k)
	}
	var addrs [8]uint64
	if k := n.Complete(addrs[:]); k != 4 || addrs[1]/size != 1 {
		t.Errorf("completed %d frames, the second at %d", k, addrs[1])
	}
}
