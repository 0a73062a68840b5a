package live

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"sluice/bench/netns"
	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd/xdprun"
)

// testFrame returns a frame as a generator sends it.
func testFrame(f Flow, seq uint64, scheduled, sent int64) []byte {
	b := make([]byte, f.Size)
	line.Stamp{Flow: f.ID, Seq: seq, Scheduled: scheduled, Sent: sent}.PutFields(b[f.Put(b):])
	return b
}

// give runs the sink's program on a frame, without a device.
func give(t *testing.T, s *Sink, b []byte) {
	t.Helper()
	verdict, err := s.program.Run(&ebpf.RunOptions{Data: b})
	if err != nil {
		t.Fatal(err)
	}
	if verdict != xdprun.XDPDrop {
		t.Fatalf("verdict %d on frame %x", verdict, b)
	}
}

// TestSinkTellsOrder gives a sink and a track the same frames in every order.
func TestSinkTellsOrder(t *testing.T) {
	_, peer := newCable(t)
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 2})
	f := flow(1, 0, 60, 0)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3 {
		first := rng.Uint64N(1 << 40)
		var track line.Track
		var want Counters
		for i := range 3000 {
			seq, behind := track.Next, track.Next-first
			switch n := rng.IntN(8); {
			case i == 0:
				seq = first
			case n == 0:
				seq += rng.Uint64N(200) // loss
			case n == 1:
				seq -= min(rng.Uint64N(300), behind) // late, or a duplicate
			case n == 2:
				seq = first + rng.Uint64N(behind+1)
			case n == 3 && rng.IntN(50) == 0:
				seq += rng.Uint64N(10_000)
			}
			give(t, s, testFrame(f, seq, 0, int64(seq)))
			track.Count(seq)
			want = Counters{Frames: track.Frames, Bytes: track.Frames * 60, First: first, Next: track.Next,
				Lost: track.Next - first - track.Frames, Reordered: track.Reordered, Duplicates: track.Duplicates,
				Stale: track.Stale}
			got := s.Read().Flows[1].Counters
			if c := s.Counters()[1]; c != got {
				t.Fatalf("after %d: counters %+v, read as %+v", seq, c, got)
			}
			if got.LastSent = 0; got != want {
				t.Fatalf("after %d: %+v, want %+v", seq, got, want)
			}
		}
		if want.Lost == 0 || want.Reordered == 0 || want.Duplicates == 0 || want.Stale == 0 {
			t.Errorf("nothing to see: %+v", want)
		}
		give(t, s, testFrame(f, first-1, 0, 0))
		if got := s.Read().Flows[1]; got.Stale != want.Stale+1 || got.Lost != want.Lost {
			t.Errorf("a frame from before the first: %d stale, want %d", got.Stale, want.Stale+1)
		}
		s.Clear()
		if got := s.Read().Flows[1]; got != (Received{}) {
			t.Fatalf("cleared: %+v", got)
		}
	}
}

// TestSinkMeasuresLatency: each latency is in its bucket, mean and maximum are exact.
func TestSinkMeasuresLatency(t *testing.T) {
	_, peer := newCable(t)
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 1})
	f := flow(0, 0, 60, 0)
	for i := range 200 {
		ago := int64(math.Exp2(float64(i) / 5))
		now := int64(monotonic())
		give(t, s, testFrame(f, 0, now-ago, now))
		r := s.Read().Flows[0]
		for _, h := range []line.Histogram{r.FromSchedule, r.FromWire} {
			var want line.Histogram
			want.Record(h.Max, 1)
			if h != want {
				t.Fatalf("%d ns ago: %d ns at the most, %d in all, in buckets %v", ago, h.Max, h.Sum, h.Counts)
			}
		}
		if r.FromSchedule.Max-r.FromWire.Max != ago || r.LastSent != now {
			t.Errorf("%d ns between schedule and wire, not %d; sent at %d, not %d",
				r.FromSchedule.Max-r.FromWire.Max, ago, r.LastSent, now)
		}
		s.Clear()
	}
	give(t, s, testFrame(f, 0, math.MaxInt64, 0))
	if h := s.Read().Flows[0].FromSchedule; h.Counts[0] != 1 || h.Max != 0 {
		t.Errorf("from the future: %+v", h)
	}
}

// TestSinkKnowsFrames gives a sink frames of every kind.
func TestSinkKnowsFrames(t *testing.T) {
	_, peer := newCable(t)
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 2})
	tagged := testFrame(flow(1, 5, 1514, 0), 7, 0, 0)
	untagged := append([]byte(nil), tagged[frame.Pop(tagged):]...)
	other := testFrame(flow(1, 5, 60, 0), 0, 0, 0)
	other[18]++ // magic
	control := make([]byte, 60)
	(&pfc.Frame{}).Put(control, [6]byte{})
	control[15]++ // opcode
	cut := make([]byte, 60)
	(&pfc.Frame{}).Put(cut, [6]byte{})
	strangers := [2][]byte{make([]byte, 60), make([]byte, 60)} // control frames for another address
	for i, at := range [2]int{0, 5} {
		(&pfc.Frame{Enable: 0xff}).Put(strangers[i], [6]byte{})
		strangers[i][at]++
	}
	bytes := 0
	for _, b := range [][]byte{
		testFrame(flow(1, 5, 1514, 0), 6, 0, 0), untagged, testFrame(flow(2, 0, 60, 0), 0, 0, 0), other,
		make([]byte, 14), control, cut[:pfcEnd-1], strangers[0], strangers[1],
	} {
		give(t, s, b)
		bytes += len(b)
	}
	got := s.Read()
	if got.Bytes != uint64(bytes) {
		t.Errorf("%d bytes, not %d", got.Bytes, bytes)
	}
	if r := got.Flows[1]; r.Frames != 2 || r.Bytes != 1514+1510 || r.First != 6 || r.Next != 8 || r.Lost != 0 {
		t.Errorf("flow 1: %+v", r)
	}
	if got.Untracked != 1 || got.Unknown != 2 || got.Control.Other != 4 || got.Control.PFC != 0 {
		t.Errorf("untracked %d, unknown %d, control %+v", got.Untracked, got.Unknown, got.Control)
	}
}

// TestSinkHearsPFC compares a sink with a receiver of package pfc that receives the same frames.
func TestSinkHearsPFC(t *testing.T) {
	const speed, obey = 3_000_000_000, 0b0101_1111
	_, peer := newCable(t)
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 1, Priorities: obey, Speed: speed})
	receiver, err := pfc.NewReceiver(pfc.ReceiverParams{Priorities: obey, Speed: speed})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	pauses, now := uint64(0), int64(0)
	tell := func(f pfc.Frame, put func(*pfc.Frame, []byte, [6]byte) int) {
		b := make([]byte, pfc.FrameLength)
		put(&f, b, [6]byte{})
		pfc.Decode(b, &f)
		give(t, s, b)
		for n := range priorities { // the receiver's time is that of the sink's pauses
			if f.Enable&obey&(1<<n) != 0 {
				end := int64(s.pauses.look(n * pauseWords)[pauseEnd])
				now = max(now, end-(int64(f.Quanta[n])*512*1e9+speed-1)/speed)
			}
		}
		receiver.Receive(now, &f)
	}
	for range 499 {
		f := pfc.Frame{Enable: uint8(rng.Uint32())}
		for n := range f.Quanta {
			if rng.IntN(3) > 0 {
				f.Quanta[n] = uint16(rng.Uint32())
			}
		}
		if rng.IntN(10) > 0 {
			tell(f, (*pfc.Frame).Put)
		} else {
			tell(f, (*pfc.Frame).PutPause)
			pauses++
		}
	}
	tell(pfc.Frame{Enable: 0xff}, (*pfc.Frame).Put) // no pause continues, so the clock does not matter
	got, want := s.Read().Control, receiver.Stats(now)
	if got.PFC != 500-pauses || got.Pause != pauses || got.Other != 0 {
		t.Errorf("heard %d PFC frames and %d PAUSE, and %d others; want %d and %d", got.PFC, got.Pause, got.Other,
			500-pauses, pauses)
	}
	for n := range priorities {
		if got.XON[n]+got.XOFF[n] != want.XON[n]+want.XOFF[n]+want.Ignored[n] || obey&(1<<n) != 0 &&
			got.XON[n] != want.XON[n] {
			t.Errorf("priority %d: XOFF %d, XON %d; want %d, %d, ignored %d", n, got.XOFF[n], got.XON[n], want.XOFF[n],
				want.XON[n], want.Ignored[n])
		}
		if got.Paused[n] != time.Duration(want.PausedNS[n]) {
			t.Errorf("priority %d: paused for %v, want %v", n, got.Paused[n], time.Duration(want.PausedNS[n]))
		}
	}
	s.Clear()
	if got := s.Read().Control; got.PFC != 0 || got.XOFF != [8]uint64{} || got.Paused[7] != 0 {
		t.Errorf("cleared: %+v", got)
	}
}

// TestPausesInADelayAreOne: XOFF, XON and XOFF, all within the delay, make one pause until the end
// of the last.
func TestPausesInADelayAreOne(t *testing.T) {
	const delay = time.Hour
	_, peer := newCable(t)
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 1, Priorities: 1, Delay: delay, Speed: slow})
	tell := func(quanta uint16) (begin, end time.Duration) {
		b := make([]byte, pfc.FrameLength)
		(&pfc.Frame{Enable: 1, Quanta: [8]uint16{quanta}}).Put(b, [6]byte{})
		give(t, s, b)
		w := s.pauses.look(0)
		return time.Duration(w[pauseBegin]), time.Duration(w[pauseEnd])
	}
	before := time.Duration(monotonic())
	begin, end := tell(1000)
	if begin < before+delay || end != begin+1000*quantum {
		t.Errorf("XOFF at %v: from %v to %v", before, begin, end)
	}
	if begun, resumed := tell(0); begun != begin || resumed < begin || resumed >= end {
		t.Errorf("XON: from %v to %v", begun, resumed)
	}
	if begun, again := tell(1000); begun != begin || again <= end {
		t.Errorf("XOFF again: from %v to %v", begun, again)
	}
	if got := s.Read().Control.Paused[0]; got != 0 {
		t.Errorf("paused for %v before the delay is over", got)
	}
}

func TestSinkRefusesNonsense(t *testing.T) {
	l := newLab(t)
	_, peer := newCable(t)
	a, b := newNamespace(t, l, "a"), newNamespace(t, l, "b")
	if err := l.Veth(a, hostDevice, b, peerDevice, netns.Queues(2)); err != nil {
		t.Fatal(err)
	}
	pauses := newPauses(t, 2)
	for _, p := range []SinkParams{{Flows: -1}, {Flows: 1 << 20}, {Delay: -1}, {Pauses: pauses, Port: 2},
		{Pauses: pauses, Port: -1}} {
		if s, err := NewSink(peer, peerDevice, p); err == nil {
			t.Errorf("%+v: no error", p)
			s.Close()
		}
	}
	if _, err := NewSink(peer, "nowhere", SinkParams{}); err == nil {
		t.Error("a device that is not there: no error")
	}
	if _, err := NewSink(b, peerDevice, SinkParams{}); err == nil {
		t.Error("a device with two queues: no error")
	}
	newSink(t, peer, peerDevice, SinkParams{})
	if _, err := NewSink(peer, peerDevice, SinkParams{}); err == nil {
		t.Error("a device that has a sink: no error")
	}
}
