package punt

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

func limits(t *rapid.T, name string) Limit {
	one := rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, maxLimit), rapid.SampledFrom([]int{1, 3, 7, maxLimit}))
	return Limit{Rate: one.Draw(t, name+" rate"), Burst: one.Draw(t, name+" burst")}
}

// TestBucketIsExact compares a bucket with one that has rational numbers.
func TestBucketIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits(t, "limit")
		b := newBucket(l)
		full, one := big.NewRat(int64(l.Burst), 1), big.NewRat(1, 1)
		credit := new(big.Rat).Set(full)
		now := rapid.Int64Range(0, 1e15).Draw(t, "start")
		gap := rapid.OneOf(rapid.Int64Range(0, 10), rapid.Int64Range(0, 1e6), rapid.Int64Range(0, 3e9),
			rapid.Int64Range(0, 1e17), rapid.SampledFrom([]int64{second / int64(l.Rate), second/int64(l.Rate) + 1}))
		for last := now; ; {
			earned := new(big.Rat).Mul(big.NewRat(now-last, second), big.NewRat(int64(l.Rate), 1))
			credit.Add(credit, earned)
			if credit.Cmp(full) > 0 {
				credit.Set(full)
			}
			want := credit.Cmp(one) >= 0
			if want {
				credit.Sub(credit, one)
			}
			if got := b.take(now); got != want {
				t.Fatalf("at %d: %v, with a credit of %v", now, got, credit)
			}
			if last = now; rapid.IntRange(0, 100).Draw(t, "end") == 0 {
				return
			}
			now += gap.Draw(t, "gap")
		}
	})
}

// TestStormIsCutToTheLimit: of 100,000 frames a second, the burst and the rate pass, not one more
// or less.
func TestStormIsCutToTheLimit(t *testing.T) {
	for _, l := range []Limit{{10, 20}, {100, 1}, {3, 7}, {99_999, 5}, {1_000_000, 1}} {
		b, passed := newBucket(l), 0
		const seconds, rate = 10, 100_000
		for n := range int64(seconds * rate) {
			if b.take(n * (second / rate)) {
				passed++
			}
		}
		// the last frame comes one gap before the end
		if want := min(seconds*rate, l.Burst+int((seconds*rate-1)*int64(l.Rate)/rate)); passed != want {
			t.Errorf("%+v: %d frames passed, want %d", l, passed, want)
		}
	}
}

// TestTakeOverGivesNoCredit checks that a change of limits gives no credit that the old bucket did
// not have, and that a bucket after none is full.
func TestTakeOverGivesNoCredit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, next := newBucket(limits(t, "old")), newBucket(limits(t, "new"))
		now := rapid.Int64Range(0, 1e12).Draw(t, "now")
		for range rapid.IntRange(0, 50).Draw(t, "frames") {
			old.take(now)
		}
		before := old.credit
		next.takeOver(&old)
		if next.credit > before || next.credit > int64(next.limit.Burst)*second || next.last != old.last {
			t.Fatalf("%+v took over %+v", next, old)
		}
	})
	b := newBucket(Limit{Rate: 1, Burst: 2})
	b.takeOver(&bucket{})
	for n := range 3 {
		if got := b.take(0); got != (n < 2) {
			t.Errorf("a bucket of 2 after none: frame %d passed: %v", n+1, got)
		}
	}
}

func TestSubscriptions(t *testing.T) {
	l := Limit{Rate: 10, Burst: 5}
	other := SubscribeLLDP(l)
	other.Dst = 0x0180_c200_0003
	s, err := NewSubscriber([]Subscription{SubscribeLLDP(l), other})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		dst  frame.MAC
		typ  uint16
		want bool
	}{
		{0x0180_c200_000e, 0x88cc, true}, {0x0180_c200_0003, 0x88cc, true}, {0x0180_c200_0000, 0x88cc, false},
		{0x0180_c200_000e, 0x88cb, false}, {0x0180_c200_0003, 0x8100, false},
	} {
		if k, is := s.Match(test.dst, test.typ); k != LLDP || is != test.want {
			t.Errorf("%v %#x: %v, %v", test.dst, test.typ, k, is)
		}
	}
	for range l.Burst {
		if !s.Take(LLDP, Other, 0) {
			t.Error("less than a burst passed")
		}
	}
	if s.Take(LLDP, Other, 0) {
		t.Error("more than a burst passed: addresses of a kind have buckets of their own")
	}
	next, _ := NewSubscriber([]Subscription{SubscribeLLDP(Limit{Rate: 10, Burst: 50})})
	if next.TakeOver(&s); next.Take(LLDP, Other, 0) {
		t.Error("new parameters gave credit")
	}
	if none, err := NewSubscriber(nil); err != nil {
		t.Error(err)
	} else if _, is := none.Match(0x0180_c200_000e, 0x88cc); is {
		t.Error("a match without subscriptions")
	}
}

// TestFavouredFramesPass: a flood from other addresses, at any rate, takes nothing from the frames
// of the favoured one, which have a limit of their own.
func TestFavouredFramesPass(t *testing.T) {
	const peer, other frame.MAC = 1, 2
	l := Limit{Rate: 10, Burst: 5}
	for _, rate := range []int64{100, 10_000, 1_000_000} {
		s, err := NewSubscriber([]Subscription{SubscribeLLDP(l)})
		if err != nil {
			t.Fatal(err)
		}
		s.Favour(peer)
		passed := 0
		for n := range rate { // for a second
			now := n * (second / rate)
			if s.Take(LLDP, s.ClassOf(other), now) {
				passed++
			}
			if n%(rate/10) == 0 && !s.Take(LLDP, s.ClassOf(peer), now) {
				t.Errorf("%d others a second: the frame of the peer at %d ns does not pass", rate, now)
			}
		}
		if want := l.Burst + int((rate-1)*int64(l.Rate)/rate); passed != want {
			t.Errorf("%d others a second: %d passed, want %d", rate, passed, want)
		}
		passed = 0
		for range 100 {
			if s.Take(LLDP, s.ClassOf(peer), second) {
				passed++
			}
		}
		if passed != l.Burst {
			t.Errorf("a burst of %d frames of the peer passed, want %d", passed, l.Burst)
		}
	}
}

// TestTakeOverKeepsTheFavouredAddress: neither new parameters nor another peer give credit.
func TestTakeOverKeepsTheFavouredAddress(t *testing.T) {
	const peer, other, third frame.MAC = 1, 2, 3
	l := Limit{Rate: 1, Burst: 3}
	old, err := NewSubscriber([]Subscription{SubscribeLLDP(l)})
	if err != nil {
		t.Fatal(err)
	}
	next, _ := NewSubscriber([]Subscription{SubscribeLLDP(l)})
	old.Favour(peer)
	old.Take(LLDP, old.ClassOf(peer), 0)
	for range 2 {
		old.Take(LLDP, old.ClassOf(other), 0)
	}
	next.TakeOver(&old)
	for n, want := range []bool{true, true, false} {
		if got := next.Take(LLDP, next.ClassOf(peer), 0); got != want {
			t.Errorf("frame %d of the peer passed: %v", n+1, got)
		}
	}
	for n, want := range []bool{true, false} {
		if got := next.Take(LLDP, next.ClassOf(other), 0); got != want {
			t.Errorf("frame %d of another address passed: %v", n+1, got)
		}
	}
	if next.Favour(third); next.Take(LLDP, next.ClassOf(third), 0) || next.Take(LLDP, next.ClassOf(peer), 0) {
		t.Error("another favoured address gave credit")
	}
}

func TestInvalidSubscriptions(t *testing.T) {
	l := Limit{Rate: 10, Burst: 5}
	with := func(change func(*Subscription)) []Subscription {
		s := []Subscription{SubscribeLLDP(l), SubscribeLLDP(l)}
		change(&s[1])
		return s
	}
	for want, s := range map[string][]Subscription{
		"no such kind":               with(func(s *Subscription) { s.Kind = Kinds }),
		"that no bridge forwards":    with(func(s *Subscription) { s.Dst = frame.Broadcast }),
		"0 frames a second":          with(func(s *Subscription) { s.Limits[Known].Rate = 0 }),
		"1000001 frames a second":    with(func(s *Subscription) { s.Limits[Known].Rate = maxLimit + 1 }),
		"in bursts of 0":             with(func(s *Subscription) { s.Limits[Known].Burst = 0 }),
		"in bursts of 1000001":       with(func(s *Subscription) { s.Limits[Known].Burst = maxLimit + 1 }),
		"give its subscriptions the": with(func(s *Subscription) { s.Limits[Known].Burst = 6 }),
	} {
		if _, err := NewSubscriber(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestSubscriptionToFIP: the owner finds FIP by its type and says which class it is of. No class
// takes anything from another, and each has the limit of its subscription.
func TestSubscriptionToFIP(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		fip := SubscribeFIP(trusted)
		s, err := NewSubscriber([]Subscription{SubscribeLLDP(Limit{Rate: 10, Burst: 5}), fip})
		if err != nil {
			t.Fatal(err)
		}
		if _, is := s.Match(0, frame.TypeFIP+1); is {
			t.Error("a frame to no address is for the control plane")
		}
		var passed, want [Classes]int
		const rate, seconds = 100_000, 2
		for n := range int64(rate * seconds) {
			for c := range Classes {
				if s.Take(FIP, c, n*(second/rate)) {
					passed[c]++
				}
			}
		}
		for c, l := range fip.Limits {
			want[c] = l.Burst + l.Rate*(rate*seconds-1)/rate // the last frame comes one gap before the end
		}
		if passed != want {
			t.Errorf("trusted %v: %v frames of each class passed, want %v", trusted, passed, want)
		}
		if !s.Take(LLDP, Other, 0) {
			t.Error("FIP has used up the limit of LLDP")
		}
	}
}

// TestReflectedFIPIsWithinTheLimit: the answers to what strangers on 63 ports may send, after their
// first bursts, are fewer than the FCF's port lets pass.
func TestReflectedFIPIsWithinTheLimit(t *testing.T) {
	host, fcf := SubscribeFIP(false).Limits, SubscribeFIP(true).Limits
	if sent := 63 * host[Discovery].Rate; sent >= fcf[Other].Rate || sent >= fcf[Known].Rate {
		t.Errorf("%d solicitations a second are answered, of which %+v pass", sent, fcf)
	}
}
