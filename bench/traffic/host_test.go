package traffic

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pfc"
)

func TestSentIsReceived(t *testing.T) {
	r := newRig(t,
		Params{Speed: 10 * gigabit, Flows: []Flow{
			{ID: 1, Dst: macB, Size: 60},
			{ID: 2, Dst: macB, Size: 1514, VID: 100, PCP: 3},
			{ID: 3, Dst: 0x0100_5e00_0001, Size: 777, PCP: 5, Count: 10},
		}},
		Params{Speed: 10 * gigabit, Flows: []Flow{{ID: 4, Dst: macA, Size: 300, Rate: gigabit}}})
	r.run(1_000_000, 1000)
	r.settle()

	sent, got := r.a.Stats(r.now), r.b.Stats(r.now)
	for i, s := range sent.Sent {
		want := Received{ID: s.ID, Frames: s.Frames, Bytes: s.Bytes}
		f := got.Received[i]
		f.FromSchedule, f.FromWire = Latency{}, Latency{}
		if s.Frames == 0 || f != want {
			t.Errorf("flow %d: sent %d frames, received %+v", s.ID, s.Frames, f)
		}
	}
	if n := sent.Sent[2].Frames; n != 10 {
		t.Errorf("flow of 10 frames sent %d", n)
	}
	if back := sent.Received; len(back) != 1 || back[0].Frames != got.Sent[0].Frames {
		t.Errorf("A received %+v, B sent %+v", back, got.Sent)
	}
	if want := (Buffers{Free: testBuffers / 2, Fill: testBuffers / 2}); sent.Buffers != want || got.Buffers != want {
		t.Errorf("buffers at rest: %+v and %+v, want %+v", sent.Buffers, got.Buffers, want)
	}
}

func TestFramesCarryTheirTag(t *testing.T) {
	for _, c := range []struct {
		flow   Flow
		tagged bool
	}{
		{Flow{Dst: macB, Size: 60}, false},
		{Flow{Dst: macB, Size: 61, PCP: 4}, true},
		{Flow{Dst: macB, Size: 62, VID: 7, PCP: 4}, true},
	} {
		c.flow.Count = 1
		r := newRig(t, Params{Speed: gigabit, Flows: []Flow{c.flow}}, Params{Speed: gigabit})
		seen := 0
		r.tap = func(b []byte) {
			seen++
			var h frame.Header
			if frame.Parse(b, &h) != frame.OK || h.Dst != macB || h.Src != macA || h.VID != c.flow.VID ||
				h.PCP != c.flow.PCP || h.Tagged != c.tagged || h.Type != line.TestType || len(b) != c.flow.Size {
				t.Errorf("flow %+v: frame of %d bytes, %+v", c.flow, len(b), h)
			}
		}
		r.step(1000)
		if seen != 1 {
			t.Errorf("flow %+v: %d frames", c.flow, seen)
		}
	}
}

// TestPortThatTakesLess: a port that takes only some of the frames changes only the rate. There are
// no gaps and no repetitions.
func TestPortThatTakesLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, Params{Speed: 10 * gigabit, Flows: []Flow{
			{ID: 1, Dst: macB, Size: 60},
			{ID: 2, Dst: macB, Size: 500, Rate: gigabit},
		}}, Params{Speed: 10 * gigabit, Priorities: 0xff})
		room := rapid.IntRange(0, 20)
		r.portA.room = func() int { return room.Draw(t, "room") }
		start, injected := r.now, uint64(0)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			if r.a.Inject(pfc.Frame{Enable: 1}) {
				injected++
			}
			r.step(2000)
		}
		r.portA.room = nil
		for range 100 { // the delayed frames are made up for
			r.step(2000)
		}
		if n, due := r.a.flows[1].sent, uint64(r.now-2000-start)/4192+1; n != due && n != due-1 {
			t.Fatalf("flow of a frame every 4192 ns sent %d, %d were due", n, due)
		}
		r.settle()
		sent, got := r.a.Stats(r.now), r.b.Stats(r.now)
		if sent.Injected != injected || got.PFC.Frames != injected {
			t.Fatalf("PFC frames: queued %d, sent %d, received %d", injected, sent.Injected, got.PFC.Frames)
		}
		for _, s := range sent.Sent {
			if s.Frames == 0 {
				continue
			}
			if f := r.received(s.ID); f.Frames != s.Frames || f.Missing+f.Duplicates+f.Reordered+f.Stale != 0 {
				t.Fatalf("sent %+v, received %+v", s, f)
			}
		}
		if r.a.inFlight != 0 {
			t.Fatalf("%d bytes in flight at rest", r.a.inFlight)
		}
	})
}

func TestRefusedFlowKeepsItsTurn(t *testing.T) {
	r := newRig(t, Params{Speed: 10 * gigabit, Flows: []Flow{
		{ID: 1, Dst: macB, Size: 60}, {ID: 2, Dst: macB, Size: 60}, {ID: 3, Dst: macB, Size: 60},
	}}, Params{Speed: 10 * gigabit})
	r.run(1000, 1000)
	r.portA.room = func() int { return 1 }
	r.run(299_000, 1000)
	f := r.a.flows
	if f[0].sent-f[1].sent+1 > 2 || f[1].sent-f[2].sent+1 > 2 || f[0].sent < 100 {
		t.Fatalf("flows sent %d, %d and %d frames", f[0].sent, f[1].sent, f[2].sent)
	}
}

func TestInFlightIsBounded(t *testing.T) {
	const bound = 5150
	port := newFakePort()
	h := newHost(t, Params{MAC: macA, Speed: 10 * gigabit, InFlight: bound, Flows: []Flow{
		{ID: 1, Dst: macB, Size: 1000}, {ID: 2, Dst: macB, Size: 300},
	}}, port)
	bytes := func() (n int) {
		for _, d := range port.tx {
			n += int(d.Len)
		}
		return n
	}
	for now := int64(0); now < 100_000; now += 1000 {
		h.Step(now)
	}
	if n := bytes(); n > bound || n <= bound-1000 {
		t.Fatalf("%d bytes in flight, bound %d", n, bound)
	}
	before := len(port.tx)
	port.done = append(port.done, port.tx[0].Addr) // room for 1000 bytes
	port.tx = port.tx[1:]
	h.Step(100_000)
	if n := bytes(); n > bound || len(port.tx) < before {
		t.Fatalf("after a completion: %d frames, %d bytes in flight; before: %d frames", len(port.tx), n, before)
	}
}

// TestSendingNeverStarvesReception: buffers for reception stay reserved, whatever the flows demand.
func TestSendingNeverStarvesReception(t *testing.T) {
	port := newFakePort()
	h := newHost(t, Params{MAC: macA, Speed: 100 * gigabit, InFlight: 1 << 30,
		Flows: []Flow{{ID: 1, Dst: macB, Size: 60}}}, port)
	for now := int64(0); now < 100_000; now += 1000 {
		h.Step(now)
	}
	if want := testBuffers/2 - injectReserve; len(port.tx) != want || len(port.fill) != testBuffers/2 {
		t.Fatalf("sending %d, want %d; filling %d, want %d", len(port.tx), want, len(port.fill), testBuffers/2)
	}
	if h.Inject(pfc.Frame{}); h.Step(200_000) != 1 {
		t.Fatal("the reserve for PFC frames was not there")
	}
}

func TestStopAndFinished(t *testing.T) {
	r := newRig(t, Params{Speed: gigabit, Flows: []Flow{{ID: 1, Dst: macB, Size: 60}}}, Params{Speed: gigabit})
	r.run(10_000, 1000)
	if r.a.Finished() {
		t.Fatal("an endless flow has finished")
	}
	r.a.Stop()
	r.run(10_000, 1000)
	before := r.a.Stats(r.now).Sent[0].Frames
	r.run(10_000, 1000)
	if after := r.a.Stats(r.now).Sent[0].Frames; after != before || !r.a.Finished() {
		t.Fatalf("stopped host went from %d to %d frames, finished: %v", before, after, r.a.Finished())
	}
}

func TestNewRefuses(t *testing.T) {
	good := func() Params {
		return Params{Port: newFakePort(), Memory: make([]byte, 8*2048), BufferSize: 2048, Buffers: 8, MAC: macA,
			Speed: gigabit, InFlight: 3000, Flows: []Flow{{Dst: macB, Size: 60}}}
	}
	if _, err := New(good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Params){
		"no port":            func(p *Params) { p.Port = nil },
		"power of two":       func(p *Params) { p.BufferSize = 2000 },
		"4 or more":          func(p *Params) { p.Buffers = 3 },
		"bytes of memory":    func(p *Params) { p.First = 1 },
		"group address":      func(p *Params) { p.MAC = 0x0100_5e00_0001 },
		"above 0 bit/s":      func(p *Params) { p.Speed = 0 },
		"not be negative":    func(p *Params) { p.ReactionDelay = -1 },
		"60..6144 bytes":     func(p *Params) { p.Flows[0].Size = 59 },
		"to fit the buffers": func(p *Params) { p.Flows[0].Size = 6145 },
		"60..2048 bytes":     func(p *Params) { p.Flows[0].Size, p.Parts = 2049, 1 },
		"allowed in flight":  func(p *Params) { p.InFlight = 59 },
		"VLAN 4095 must be":  func(p *Params) { p.Flows[0].VID = 4095 },
		"priority 8 must be": func(p *Params) { p.Flows[0].PCP = 8 },
		"02:00:00:00:00:0a:": func(p *Params) { p.Speed = 0 },
	} {
		p := good()
		spoil(&p)
		if _, err := New(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	both := func(dst frame.MAC, id uint32) Params {
		return Params{Speed: 10 * gigabit, Priorities: 8, ReactionDelay: 700, Flows: []Flow{
			{ID: id, Dst: dst, Size: 60, PCP: 3}, {ID: id + 1, Dst: dst, Size: 1514, Rate: gigabit},
			{ID: id + 10, Dst: dst, Sizes: []int{100, 1000}, Streams: 3, UDP: testUDP(), Rate: gigabit},
		}}
	}
	r := newRig(t, both(macB, 1), both(macA, 3))
	mustAllocateNothing(t, func() {
		r.b.Inject(pfc.Frame{Enable: 8, Quanta: [8]uint16{3: 10}})
		r.step(1000)
	})
	if r.received(1).Frames == 0 || r.a.Stats(r.now).PFC.Frames == 0 {
		t.Fatal("nothing was exchanged")
	}
}

// BenchmarkStep measures a frame's whole life: building, sending, copying by the fake cable,
// receiving and checking.
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
	}{{"60", 60}, {"1514", 1514}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b, Params{Speed: 400 * gigabit, InFlight: 1 << 20, Flows: []Flow{
				{ID: 1, Dst: macB, Size: c.size, PCP: 3}, {ID: 2, Dst: macB, Size: c.size, PCP: 4},
			}}, Params{Speed: 400 * gigabit})
			b.ReportAllocs()
			frames := func() uint64 { return r.a.flows[0].sent + r.a.flows[1].sent }
			for frames() < uint64(b.N) {
				r.step(5000)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(frames()), "ns/frame")
		})
	}
}

// BenchmarkIdleStep measures a Step without work.
func BenchmarkIdleStep(b *testing.B) {
	r := newRig(b, Params{Speed: gigabit, Flows: []Flow{{ID: 1, Dst: macB, Size: 60, Rate: 1}}}, Params{Speed: gigabit})
	r.run(10_000, 1000)
	for b.Loop() {
		r.a.Step(r.now)
	}
}

// TestHostTakesBuffersBackOnce: a buffer that is completed twice is taken back once and counted.
func TestHostTakesBuffersBackOnce(t *testing.T) {
	port := newFakePort()
	h := newHost(t, Params{MAC: macA, Speed: 10 * gigabit, Flows: []Flow{{Dst: macB, Size: 60, Count: 200}}}, port)
	for now := int64(0); now < 1_000_000; now += 1000 {
		h.Step(now)
		completeTwice(port)
		freeOnce(t, h.buffers.Free)
	}
	h.Step(1_000_000)
	s := h.Stats(1_000_000)
	if s.Port.TXPackets != 200 || s.Port.DuplicateCompletions != 200-uint64(len(port.done)) || s.Buffers.TX != 0 ||
		h.inFlight != 0 || !h.Finished() {
		t.Errorf("%d bytes in flight, %+v", h.inFlight, s)
	}
}
