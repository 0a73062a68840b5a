package sched

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

var rates = []uint64{10e6, 100e6, 1e9, 2_500_000_001, 10e9, 25e9, 100e9, 400e9}

// TestRateIsExact keeps a port backlogged and serves it at irregular intervals. The bytes that
// left, including overhead and a PFC frame at times, equal the burst plus rate × time, to the bit,
// except for the last frame's excess.
func TestRateIsExact(t *testing.T) {
	const burst, overhead, rounds = 30000, 24, 2000
	for _, rate := range rates {
		p := ets(1, 1, 1)
		p.Rate, p.Burst, p.Overhead = rate, burst, overhead
		s := newSource(t, p)
		interval := max(burst/2*8*1_000_000_000/int64(rate), 1) // earns half a burst: no credit is lost
		now, frames, pfc := int64(1e12), 0, 0
		start := now
		s.fill(0b111)
		frames += len(s.dequeue(now, 0, unlimited, 64))
		for i := range rounds {
			s.fill(0b111)
			now += 1 + rand.Int64N(interval)
			if i%10 == 0 {
				s.Spend(now, 60)
				pfc++
			}
			n := len(s.dequeue(now, 0, unlimited, 64))
			if s.port.open() {
				t.Fatalf("%d bit/s: the port stopped after %d frames with credit left", rate, n)
			}
			frames += n
		}
		bytes := s.sent[0] + s.sent[1] + s.sent[2] + (60+overhead)*pfc
		got := int64(bytes-burst) * creditPerByte
		want := (now - start) * int64(rate)
		if over := got - want; over < 0 || over >= (9216+overhead)*creditPerByte {
			t.Errorf("%d bit/s: %d bit too many after %d ns, want 0 to one frame", rate, over/1_000_000_000, now-start)
		}
		if share := float64(bytes) / (float64(want) / creditPerByte); share < 0.99 || share > 1.01 {
			t.Errorf("%d bit/s: sent %.4f of the rate, want within 1 %%", rate, share)
		}
	}
}

// TestBurstAfterSilence demands that an idle time of any length earns exactly one burst.
func TestBurstAfterSilence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ets(1)
		p.Rate = rapid.SampledFrom(rates).Draw(t, "rate")
		p.Burst = rapid.IntRange(1, 20000).Draw(t, "burst")
		s := newSource(t, p)
		now := rapid.Int64Range(-1<<61, 1<<61).Draw(t, "start")
		for range 3 {
			for range 60 {
				s.add(0, 1000-24)
			}
			// A frame leaves while there is credit: the burst in frames, rounded up.
			if got, want := len(s.dequeue(now, 0, unlimited, 64)), (p.Burst+999)/1000; got != want {
				t.Fatalf("%d frames of 1000 B at once, want %d for a burst of %d B", got, want, p.Burst)
			}
			s.Drain(0, make([]uint32, 64))
			s.free = s.free[:0]
			for id := range uint32(sourceBuffers) {
				s.free = append(s.free, id)
			}
			now += rapid.Int64Range(1e9, 1<<60).Draw(t, "silence")
		}
	})
}

// TestNoCreditBeforeItsTime checks the exact nanosecond at which a debt is paid.
func TestNoCreditBeforeItsTime(t *testing.T) {
	p := ets(1)
	p.Rate, p.Burst = 10e9, 1000 // 0.8 ns a byte
	s := newSource(t, p)
	for range 3 {
		s.add(0, 1476)
	}
	// 1500 B leave a debt of 500 B, which is earned in 400 ns; a frame needs more than that.
	for _, c := range []struct {
		now  int64
		want int
	}{{5000, 1}, {5400, 0}, {5401, 1}, {5300, 0}, {5402, 0}} {
		if got := len(s.dequeue(c.now, 0, unlimited, 64)); got != c.want {
			t.Fatalf("at %d ns: %d frames, want %d", c.now, got, c.want)
		}
	}
}

// TestSpendComesOutOfTheBurst sends a PFC frame after an idle time: the frames behind it get the
// rest of the burst.
func TestSpendComesOutOfTheBurst(t *testing.T) {
	p := ets(1)
	p.Rate, p.Burst = 10e9, 5000
	s := newSource(t, p)
	for range 20 {
		s.add(0, 1000-24)
	}
	s.dequeue(1e9, 0, unlimited, 64)
	s.Spend(2e9, 2000-24)
	if got := len(s.dequeue(2e9, 0, unlimited, 64)); got != 3 {
		t.Fatalf("%d frames of 1000 B went with 5000 B of burst behind one of 2000 B, want 3", got)
	}
}

// TestCreditNeverOverflows uses the largest burst, the highest rate and the longest possible idle
// times.
func TestCreditNeverOverflows(t *testing.T) {
	s, err := newShaper(Shape{Rate: maxRate, Burst: maxBurst}, &Params{})
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []int64{1 << 40, math.MaxInt64} {
		s.spend(maxFrameLimit)
		if s.advance(now); s.credit != s.burst {
			t.Fatalf("at %d ns: credit %d, want the burst, %d", now, s.credit, s.burst)
		}
	}
}

func TestUnshaped(t *testing.T) {
	s := newSource(t, ets(1))
	for i := range 100 {
		s.fill(1)
		s.Spend(int64(i), 1<<30)
		if got := len(s.dequeue(int64(i), 0, unlimited, 16)); got != 16 {
			t.Fatalf("call %d: %d frames of 16 went", i, got)
		}
	}
}
