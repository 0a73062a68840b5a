package bed

import (
	"errors"
	"math"
	"testing"
	"time"

	"sluice/bench/testkit/benchtest"
	"sluice/bench/traffic/live"
)

// TestLongFrames sends frames that no generator in the kernel makes through the forwarders that
// take them, at a rate that any machine forwards. The longest ones have the largest MTU and a tag.
func TestLongFrames(t *testing.T) {
	benchtest.NeedRoot(t)
	forwarders := []Forwarder{&XDPRedirect{}, &LinuxBridge{}}
	if p, err := NewTestpmdPackets(); err == nil {
		forwarders = append(forwarders, p)
	} else if !errors.Is(err, ErrAbsent) {
		t.Fatal(err)
	}
	for _, f := range forwarders {
		t.Run(f.Name(), func(t *testing.T) { testLength(t, f, live.MaxSize+1); testLength(t, f, 9518) })
	}
}

// TestTestpmdLongest: testpmd's AF_XDP driver takes frames as long as it says.
func TestTestpmdLongest(t *testing.T) {
	benchtest.NeedRoot(t)
	f := testpmd(t)
	most, why := f.Longest()
	if most <= 1518 || why == "" {
		t.Fatalf("%d bytes, because %q", most, why)
	}
	testLength(t, f, most)
}

// testLength checks that frames of a length pass a forwarder in both directions.
func testLength(t *testing.T, f Forwarder, length int) {
	t.Helper()
	b, err := New(Params{Ports: 2, CPUs: [2]int{0, 1}, Streams: []Stream{
		{From: 0, To: 1, Priority: LosslessPriority, Length: length}, {From: 1, To: 0, Length: length}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := b.Start(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	begun := b.Begin()
	for i := range b.Streams {
		if err := b.SetRate(i, 200); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(Pause(t.Context(), 300*time.Millisecond), b.Silence(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n := b.count().Since(begun); n.Sent < 10 || n.Received != n.Sent {
		t.Errorf("%d B: %d of %d frames arrived", length, n.Received, n.Sent)
	}
	for i, c := range b.received() {
		if c.Bytes != c.Frames*uint64(length) || c.Reordered+c.Duplicates+c.Stale > 0 {
			t.Errorf("%d B, stream %d: %+v", length, i, c)
		}
	}
}

// TestSenderKeepsToItsSchedule: a flow makes up for what it is behind by, up to its catch-up time,
// and gives up the rest.
func TestSenderKeepsToItsSchedule(t *testing.T) {
	const rate, catchUp = 1e6, 5000 // a frame every 1000 ns
	f := &packetFlow{}
	for _, c := range []struct{ now, want int64 }{
		{100, 100}, {100, 1100}, {1100, 1100}, {4100, 2100}, {4100, 3100}, {4100, 4100}, {4100, 5100}, {20_100, 15_100},
	} {
		if got := f.due(rate, c.now, catchUp); got != c.want {
			t.Fatalf("at %d: due at %d, not %d", c.now, got, c.want)
		}
	}
	if got := f.forgone.Load(); got != 10_000 {
		t.Errorf("gave up %d ns", got)
	}
	if got := f.due(0, 7, catchUp); got != 7 {
		t.Errorf("without a rate: due at %d", got)
	}
}

// TestLimits: forwarders that take frames of any length have no limit.
func TestLimits(t *testing.T) {
	for f, want := range map[Limited]int{
		NewSluice(""): math.MaxInt, NewBaseline(""): baselineMaxFrame, &Testpmd{}: math.MaxInt, &OpenVSwitch{}: 3520,
		&OpenVSwitch{dpdk: true}:                        1518,
		NewTransmitterSluice("", "", TransmitterConfig): 3400,
	} {
		if got, why := f.Longest(); got != want || (why == "") != (want == math.MaxInt) {
			t.Errorf("%T: %d, because %q", f, got, why)
		}
	}
}
