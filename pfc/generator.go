package pfc

import (
	"errors"
	"fmt"
	"math/bits"
)

// GeneratorParams describes the port that sends.
type GeneratorParams struct {
	Priorities uint8  // bit n: priority n is lossless and may be paused; others never are
	Quanta     uint16 // the time to ask for in XOFF; 65535 is right unless something speaks against it
	Refresh    uint16 // quanta after which XOFF is repeated while congestion lasts; 0 is half of Quanta
	Speed      uint64 // of the port, in bit/s

	// Pause says that the frames will be written with PutPause: as soon as one of Priorities is
	// congested all eight are stopped, and resumed when none is. Each of the eight then counts each
	// frame in GeneratorStats, its History included.
	Pause bool
}

// GeneratorStats counts since NewGenerator. Indices are priorities.
type GeneratorStats struct {
	Frames    uint64    // PFC or PAUSE frames sent
	XOFF      [8]uint64 // transitions to XOFF
	XON       [8]uint64 // transitions to XON
	Refreshes [8]uint64 // repetitions of XOFF
	Lapses    [8]uint64 // repetitions that came after the pause had run out, so the partner may have sent
	PausedNS  [8]int64  // ns for which the link partner had to pause, a running pause included, lapses not

	// History is how the link partner went from running to paused and back, by the frames that it
	// was sent and when that was sent. A pause that lapsed is in it with its end, and again with
	// the repetition that came too late.
	History History[Transition]
}

// Generator decides which PFC frames a port sends: it tells the link partner about each change of
// congestion and repeats XOFF while congestion lasts (IEEE 802.1Q clause 36).
//
// It has two steps, since a frame may not find room to be sent: Due says what should go out, Sent
// that it did.
type Generator struct {
	priorities uint8
	paused     uint8 // bit n: the last word on priority n was XOFF
	next       int64 // when the first of the refreshes is due, or never

	pause     bool // always all eight priorities at once
	quanta    uint16
	refreshNS int64          // rounded down: a refresh is never later than asked for
	refreshAt [8]int64       // when priority n's XOFF is to be repeated, while n is paused
	timers    timers         // the pauses as the link partner counts them, but for the delay of the link
	stats     GeneratorStats // but PausedNS and History, which the timers hold
}

// NewGenerator returns a generator that has sent the link partner nothing yet. It fails if the
// pause would run out before it is repeated, or would be repeated without a break.
func NewGenerator(p GeneratorParams) (*Generator, error) {
	if p.Speed == 0 {
		return nil, errSpeed
	}
	if p.Quanta == 0 {
		return nil, errors.New("pfc: 0 quanta would resume, not pause: choose up to 65535, the usual value")
	}
	if p.Refresh >= p.Quanta {
		return nil, fmt.Errorf("pfc: refresh after %d quanta, when a pause of %d quanta has run out: choose half of it",
			p.Refresh, p.Quanta)
	}
	halfQuanta := 2 * uint64(p.Refresh)
	if p.Refresh == 0 {
		halfQuanta = uint64(p.Quanta)
	}
	refreshNS := int64(halfQuanta * (QuantumBits / 2) * 1e9 / p.Speed)
	if refreshNS == 0 {
		return nil, fmt.Errorf("pfc: at %d bit/s a refresh would be due every 0 ns: choose more quanta", p.Speed)
	}
	return &Generator{
		priorities: p.Priorities,
		next:       never,
		pause:      p.Pause,
		quanta:     p.Quanta,
		refreshNS:  refreshNS,
		timers:     newTimers(p.Speed),
	}, nil
}

// Due tells whether a frame must be sent at now, given the congested priorities (bit n: priority
// n's group is in XOFF), and stores it in f if so. The frame names every enabled priority that
// changed since the last word on it (a released one with time 0) and every congested one whose
// refresh is due. Due changes nothing in g: until Sent, the same question has the same answer.
//
// However late Due is called, what it stores brings the link partner up to date with one frame.
func (g *Generator) Due(now int64, congested uint8, f *Frame) bool {
	congested &= g.priorities
	if g.pause && congested != 0 {
		congested = 0xff
	}
	if congested == g.paused && now < g.next {
		return false
	}
	*f = Frame{}
	f.Enable = congested ^ g.paused
	for paused := g.paused; paused != 0; paused &= paused - 1 {
		if n := bits.TrailingZeros8(paused); now >= g.refreshAt[n] {
			f.Enable |= 1 << n
		}
	}
	for xoff := f.Enable & congested; xoff != 0; xoff &= xoff - 1 {
		f.Quanta[bits.TrailingZeros8(xoff)] = g.quanta
	}
	return true
}

// Sent takes note that f, from Due, was sent at now. The next refresh counts from here, not from
// when this one was due.
func (g *Generator) Sent(now int64, f *Frame) {
	g.timers.expire(now)
	g.stats.Frames++
	for meant := f.Enable; meant != 0; meant &= meant - 1 {
		n := bits.TrailingZeros8(meant)
		g.note(n, f.Quanta[n])
		g.refreshAt[n] = now + g.refreshNS
	}
	g.timers.apply(now, 0, f.Enable, &f.Quanta)
	g.next = never
	for paused := g.paused; paused != 0; paused &= paused - 1 {
		g.next = min(g.next, g.refreshAt[bits.TrailingZeros8(paused)])
	}
}

// note counts what a frame that is being sent says about one priority.
func (g *Generator) note(n int, quanta uint16) {
	bit := uint8(1) << n
	switch {
	case quanta == 0:
		g.stats.XON[n]++
		g.paused &^= bit
	case g.paused&bit == 0:
		g.stats.XOFF[n]++
		g.paused |= bit
	default:
		g.stats.Refreshes[n]++
		if g.timers.paused&bit == 0 {
			g.stats.Lapses[n]++
		}
	}
}

// Reset forgets what the link partner was sent, because the link went down. The counts go on.
func (g *Generator) Reset(now int64) {
	g.paused, g.next = 0, never
	g.timers.reset(now)
}

// TakeOver makes g go on where old stands, whose parameters it is to replace: with what the link
// partner was told, the counts, and the refreshes, which come no later than old's. A priority that
// is no longer one of Priorities is resumed with the next frame, which is due at once. g must be
// new; old is not to be used afterwards.
func (g *Generator) TakeOver(now int64, old *Generator) {
	g.timers.takeOver(&old.timers)
	g.paused, g.stats = old.paused, old.stats
	for paused := g.paused; paused != 0; paused &= paused - 1 {
		n := bits.TrailingZeros8(paused)
		g.refreshAt[n] = min(old.refreshAt[n], now+g.refreshNS)
		g.next = min(g.next, g.refreshAt[n])
	}
}

// Paused returns the priorities that the link partner is to pause: the last that was sent is XOFF.
func (g *Generator) Paused() uint8 { return g.paused }

// Stats returns the counts as of now.
func (g *Generator) Stats(now int64) GeneratorStats {
	s := g.stats
	s.PausedNS, s.History = g.timers.total(now), g.timers.journal(now)
	return s
}
