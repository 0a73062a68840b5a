package pfc

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// link is one direction of a link: a generator, a wire with a delay, and the receiver at its end.
type link struct {
	from  *Generator
	to    *Receiver
	write putter
	delay int64 // ns
}

// step sends what is due at now, if anything. It reports whether a frame was sent.
func (l *link) step(now int64, congested uint8) bool {
	f, due := frameDue(l.from, now, congested)
	if due {
		l.from.Sent(now, &f)
		b, arrived := make([]byte, FrameLength), Frame{}
		l.write(&f, b, source)
		Decode(b, &arrived)
		l.to.Receive(now+l.delay, &arrived)
	}
	return due
}

func drawLink(t *rapid.T, p GeneratorParams) *link {
	delay := rapid.Int64Range(0, 1_000_000).Draw(t, "delay")
	l := &link{newGenerator(t, p), newReceiver(t, p.Priorities, p.Speed), (*Frame).Put, delay}
	if p.Pause {
		l.to, l.write = newReceiver(t, 0xff, p.Speed), (*Frame).PutPause
	}
	return l
}

// told returns the priorities that a link partner pauses when it knows of congested.
func (p GeneratorParams) told(congested uint8) uint8 {
	congested &= p.Priorities
	if p.Pause && congested != 0 {
		return 0xff
	}
	return congested
}

// TestLink: while the generator is congested, the receiver is paused without a gap, provided that
// the loop is never too late for a refresh.
func TestLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawGeneratorParams(t)
		l := drawLink(t, p)
		refresh := (&generatorModel{params: p}).period()
		spare := max(1, ceil(exact(p.Quanta, p.Speed))-refresh) // a step of this length is never too late
		var now int64
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			congested := rapid.Uint8().Draw(t, "congested")
			l.step(now, congested)
			for _, at := range []int64{now, now + rapid.Int64Range(0, spare-1).Draw(t, "ns")} {
				if now = at; l.to.Paused(now+l.delay) != p.told(congested) {
					t.Fatalf("at %d: paused %08b, want %08b", now, l.to.Paused(now+l.delay), p.told(congested))
				}
			}
		}
		if s := l.from.Stats(now); s.Lapses != [8]uint64{} {
			t.Fatalf("in time, but %+v", s)
		}
	})
}

// TestBothEndsAgree: however late the loop is, both ends count the same pauses and record the same
// history, apart from the delay.
func TestBothEndsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawGeneratorParams(t)
		l := drawLink(t, p)
		longest := ceil(exact(p.Quanta, p.Speed))
		var now int64
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			l.step(now, rapid.Uint8().Draw(t, "congested"))
			now += rapid.Int64Range(0, 2*longest).Draw(t, "ns")
		}
		sent, received := l.from.Stats(now), l.to.Stats(now+l.delay)
		shifted := sent.History.All()
		for i := range shifted {
			shifted[i].At += l.delay
		}
		if !slices.Equal(shifted, received.History.All()) {
			t.Fatalf("sent\n%+v, received\n%+v", sent.History.All(), received.History.All())
		}
		for n := range 8 {
			if sent.Frames != received.Frames || sent.PausedNS[n] != received.PausedNS[n] ||
				sent.XON[n] != received.XON[n] || sent.XOFF[n]+sent.Lapses[n] != received.Transitions[n] {
				t.Fatalf("priority %d: sent\n%+v, received\n%+v", n, sent, received)
			}
		}
	})
}

// TestAsymmetric: each direction of a link has its own priorities, which do not affect the other.
func TestAsymmetric(t *testing.T) {
	for name, c := range map[string]struct{ generates, obeys uint8 }{
		"different priorities":       {0x08, 0x30},
		"generates, but obeys none":  {0x08, 0},
		"obeys, but generates none":  {0, 0x30},
		"more generated than obeyed": {0xff, 0x01},
	} {
		out := &link{newGenerator(t, GeneratorParams{Priorities: c.generates, Quanta: 100, Speed: gigabit}),
			newReceiver(t, 0xff, gigabit), (*Frame).Put, 500}
		in := &link{newGenerator(t, GeneratorParams{Priorities: 0xff, Quanta: 100, Speed: gigabit}),
			newReceiver(t, c.obeys, gigabit), (*Frame).Put, 500}
		sends := out.step(0, 0xff)
		in.step(0, 0xff)
		if sends != (c.generates != 0) || out.to.Paused(500) != c.generates {
			t.Errorf("%s: the partner is paused on %08b, want %08b", name, out.to.Paused(500), c.generates)
		}
		if got := in.to.Paused(500); got != c.obeys {
			t.Errorf("%s: paused on %08b, want %08b", name, got, c.obeys)
		}
		for n, ignored := range in.to.Stats(500).Ignored {
			if want := uint64(1 - c.obeys>>n&1); ignored != want {
				t.Errorf("%s: priority %d ignored %d frames, want %d", name, n, ignored, want)
			}
		}
	}
}
