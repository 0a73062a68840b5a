package bridge

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

// TestBucketAgainstFractions compares the bucket with one that counts fractions of frames.
func TestBucketAgainstFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := FloodLimit{
			Rate:  rapid.OneOf(rapid.Uint64Range(1, 20), rapid.Uint64Range(1, maxFloodRate)).Draw(t, "rate"),
			Burst: rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, maxFloodBurst)).Draw(t, "burst"),
		}
		b := newBucket(l)
		most := big.NewRat(int64(l.Burst), 1)
		tokens, one := new(big.Rat).Set(most), big.NewRat(1, 1)
		now := int64(0)
		interval := int64(creditPerFrame / l.Rate) // about the time of one frame
		for range rapid.IntRange(1, 100).Draw(t, "frames") {
			step := rapid.OneOf(rapid.Int64Range(0, 2*interval+2),
				rapid.SampledFrom([]int64{0, 1, interval, 1 << 60})).Draw(t, "ns")
			step = min(step, 1<<62-now)
			now += step
			earned := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(step), big.NewInt(int64(l.Rate))),
				big.NewInt(1e9))
			if tokens.Add(tokens, earned); tokens.Cmp(most) > 0 {
				tokens.Set(most)
			}
			want := tokens.Cmp(one) >= 0
			if want {
				tokens.Sub(tokens, one)
			}
			if got := b.take(now); got != want {
				t.Fatalf("at %d ns with %v frames in the bucket: %v", now, tokens, got)
			}
		}
	})
}

func TestStormLimits(t *testing.T) {
	limits := StormParams{UnknownUnicast: {Rate: 1000, Burst: 3}, Broadcast: {Rate: 1000}}
	b := mustNew(t, Params{Ports: []PortParams{{Storm: limits}, {}, {}}})
	b.decide(0, 1, untagged(bob, frame.Broadcast))
	const multicast frame.MAC = 0x0100_5e00_0001
	send := func(now int64, in int, dst frame.MAC, n int) (flooded int) {
		for range n {
			switch d := b.decide(now, in, untagged(alice, dst)); {
			case d.Out == Flood:
				flooded++
			case d.Reason != StormLimit || d.Out != Nowhere || d.Flood != nil:
				t.Fatalf("%+v", d)
			}
		}
		return flooded
	}
	for _, c := range []struct {
		name string
		now  int64
		in   int
		dst  frame.MAC
		want int
	}{
		{"unknown unicast: the burst", 0, 0, carol, 3},
		{"broadcast: a burst of 10 ms, beside it", 0, 0, frame.Broadcast, 10},
		{"multicast is not limited", 0, 0, multicast, 100},
		{"another port is not limited", 0, 1, carol, 100},
		{"1 ms later: the rate", 1e6, 0, carol, 1},
		{"2.5 ms later", 3_500_000, 0, carol, 2},
		{"the half that was left", 4e6, 0, carol, 1},
		{"an hour later: no more than the burst", 3600e9, 0, carol, 3},
	} {
		if got := send(c.now, c.in, c.dst, 100); got != c.want {
			t.Errorf("%s: %d of 100 flooded, want %d", c.name, got, c.want)
		}
	}
	if d := b.decide(3600e9, 2, untagged(carol, alice)); d.Out < 0 {
		t.Errorf("to a station whose frames met the limit: %+v, want it known", d)
	}
	if s := b.Stats(); s.Stormy != [FloodKinds]uint64{UnknownUnicast: 490, Broadcast: 90} {
		t.Errorf("%v not flooded", s.Stormy)
	}
}

// TestEverythingLimited: limits hold where no port and no kind is without one.
func TestEverythingLimited(t *testing.T) {
	limit := FloodLimit{Rate: 1, Burst: 1}
	p := PortParams{Storm: StormParams{limit, limit, limit}}
	b := mustNew(t, Params{Ports: []PortParams{p, p}})
	for _, dst := range []frame.MAC{bob, frame.Broadcast, 0x0100_5e00_0001} {
		for i, want := range []Reason{Forwarded, StormLimit} {
			if d := b.decide(0, 0, untagged(alice, dst)); d.Reason != want {
				t.Errorf("frame %d to %v: %+v, want %v", i, dst, d, want)
			}
		}
	}
}

func TestFloodKinds(t *testing.T) {
	for dst, want := range map[frame.MAC]string{
		alice: "unknown_unicast", frame.Broadcast: "broadcast", 0x0100_5e00_0001: "multicast",
		0x3333_0000_0001: "multicast",
	} {
		if got := KindOf(dst).String(); got != want {
			t.Errorf("%v: %s, want %s", dst, got, want)
		}
	}
}

// loop is two switches with two cables between them and one host each. Ports 0 and 1 belong to the
// cables, port 2 to the host. Each port receives one frame per µs, and each cable queues up to
// loopQueue frames.
type loop struct {
	t        *rapid.T
	switches [2]*Bridge
	queues   [2][3][]frame.Header // frames on their way to a switch, by ingress port
	heard    [2]int               // unicast frames received by each host
	flooded  [2][3]int            // by switch and ingress port
	lost     int                  // frames that found a cable's queue full
}

const loopQueue = 64 // frames

func (l *loop) step(now int64) {
	for s, b := range l.switches {
		for in := range 3 {
			if len(l.queues[s][in]) == 0 {
				continue
			}
			h := l.queues[s][in][0]
			l.queues[s][in] = l.queues[s][in][1:]
			switch d := b.decide(now, in, &h); {
			case d.Out == Flood:
				l.flooded[s][in]++
				for _, out := range d.Flood {
					l.send(s, int(out), h)
				}
			case d.Out >= 0:
				l.send(s, int(d.Out), h)
			}
		}
	}
}

func (l *loop) send(s, out int, h frame.Header) {
	if out == 2 {
		if !h.Dst.Group() {
			l.heard[s]++
		}
		return
	}
	q := &l.queues[1-s][out]
	if len(*q) == loopQueue {
		l.lost++
		return
	}
	*q = append(*q, h)
}

// TestLoopStaysAlive: two switches joined by two cables are a loop in which every broadcast
// circulates forever. With a storm limit on the cables the switches flood no more than that, count
// the rest, and the hosts can communicate. Without one the cables' queues overflow.
func TestLoopStaysAlive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := FloodLimit{Rate: rapid.Uint64Range(1000, 50_000).Draw(t, "rate"),
			Burst: rapid.IntRange(1, 20).Draw(t, "burst")}
		every := rapid.Int64Range(10, 100).Draw(t, "us between broadcasts")
		limited, calm := rapid.Bool().Draw(t, "limited"), StormParams{limit, limit, limit}
		if !limited {
			calm = StormParams{}
		}
		l := &loop{t: t}
		for i := range l.switches {
			// Static entries pin the path between the hosts to the first cable: learned addresses
			// move around with the storm.
			static := []StaticEntry{{alice, 1, 2 * (1 - i)}, {bob, 1, 2 * i}}
			l.switches[i] = mustNew(t, Params{Ports: []PortParams{{Storm: calm}, {Storm: calm}, {}}, Static: static})
		}
		const steps, talkEvery = 10_000, 10 // of a microsecond
		for now := range int64(steps) {
			if now%every == 0 {
				l.queues[0][2] = append(l.queues[0][2], *untagged(alice, frame.Broadcast))
			}
			if now%talkEvery == 0 {
				l.queues[0][2] = append(l.queues[0][2], *untagged(alice, bob))
			}
			l.step(now * 1000)
		}
		l.verdict(limited, limit, steps, steps/talkEvery)
	})
}

func (l *loop) verdict(limited bool, limit FloodLimit, steps, talk int) {
	most := limit.Burst + int(limit.Rate)*steps/1e6 + 1
	said := uint64(0)
	for s, b := range l.switches {
		for in := range 2 {
			n := l.flooded[s][in]
			if limited && n > most {
				l.t.Fatalf("switch %d flooded %d frames of cable %d, the limit allows %d", s, n, in, most)
			}
			if !limited && n < steps*3/4 {
				l.t.Fatalf("no storm without a limit: %d frames of cable %d flooded in %d steps: this test shows "+
					"nothing", n, in, steps)
			}
		}
		said += b.Stats().Stormy[Broadcast]
	}
	if limited != (said > 0) {
		l.t.Fatalf("%d broadcasts counted as not flooded", said)
	}
	if limited && (l.lost > 0 || l.heard[1] < talk-loopQueue) {
		l.t.Fatalf("%d lost for lack of room, %d of %d unicast frames arrived", l.lost, l.heard[1], talk)
	}
	if !limited && l.lost == 0 {
		l.t.Fatal("no storm without a limit: nothing lost: this test shows nothing")
	}
}
