package pfc

import (
	"errors"
	"fmt"
	"math/bits"
)

// GeneratorParams describes the sending port.
type GeneratorParams struct {
	Priorities uint8  // bit n: priority n is lossless and may be paused; others are never paused
	Quanta     uint16 // time that XOFF requests; 65535 unless there is a reason against it
	Refresh    uint16 // quanta after which XOFF is repeated while congestion lasts; 0 is half of Quanta
	Speed      uint64 // of the port, in bit/s

	// Pause says that frames are written with PutPause: all eight priorities are paused as soon as
	// one of Priorities is congested, and resumed when none is. Each of the eight then counts each
	// frame in GeneratorStats and its History.
	Pause bool
}

// GeneratorStats counts since NewGenerator. Indices are priorities.
type GeneratorStats struct {
	Frames    uint64    // PFC or PAUSE frames sent
	XOFF      [8]uint64 // transitions to XOFF
	XON       [8]uint64 // transitions to XON
	Refreshes [8]uint64 // XOFFs repeated
	Lapses    [8]uint64 // repetitions sent after the pause had run out: the link partner may have sent
	PausedNS  [8]int64  // ns that the link partner had to pause, including a running pause, excluding lapses

	// History is the link partner's transitions between running and paused, by the frames sent and
	// their times. A pause that lapsed is in it with its end, and again with the repetition that
	// came too late.
	History History[Transition]
}

// Generator decides which PFC frames a port sends: it reports each change of congestion to the link
// partner and repeats XOFF while congestion lasts (IEEE 802.1Q clause 36).
//
// It works in two steps, since there may be no room to send a frame: Due says what should be sent,
// Sent that it was.
type Generator struct {
	priorities uint8
	paused     uint8 // bit n: the last frame for priority n was XOFF
	next       int64 // when the first refresh is due, or never

	pause     bool // all eight priorities together
	quanta    uint16
	refreshNS int64          // rounded down: a refresh is never late
	refreshAt [8]int64       // when priority n's XOFF is to be repeated, while n is paused
	timers    timers         // the pauses as the link partner counts them, without the delay of the link
	stats     GeneratorStats // without PausedNS and History, which timers holds
}

// NewGenerator returns a generator that has sent nothing. It fails if a pause would run out before
// its refresh, or if refreshes would follow each other without a pause in between.
func NewGenerator(p GeneratorParams) (*Generator, error) {
	if p.Speed == 0 {
		return nil, errSpeed
	}
	if p.Quanta == 0 {
		return nil, errors.New("pfc: 0 quanta would resume, not pause: choose up to 65535, the usual value")
	}
	if p.Refresh >= p.Quanta {
		return nil, fmt.Errorf("pfc: refresh after %d quanta is too late for a pause of %d: choose half of the pause",
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

// Due reports whether a frame must be sent at now, given the congested priorities (bit n: priority
// n's group is in XOFF), and stores it in f if so. The frame names every enabled priority that has
// changed since the last frame for it (time 0 if it is released) and every congested one whose
// refresh is due. Due does not change g: until Sent, the same call returns the same.
//
// However late Due is called, one frame brings the link partner up to date.
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

// Sent records that f, from Due, was sent at now. The next refresh counts from now, not from when
// this one was due.
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

// note counts what a sent frame says about one priority.
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

// Reset forgets what the link partner was sent, because the link went down. The counters go on.
func (g *Generator) Reset(now int64) {
	g.paused, g.next = 0, never
	g.timers.reset(now)
}

// TakeOver makes g continue from old, which it replaces with other parameters: with what the link
// partner was sent, the counters, and the refreshes, which come no later than old's. A priority
// that is no longer in Priorities is resumed with the next frame, which is due at once. g must be
// new; old must not be used afterwards.
func (g *Generator) TakeOver(now int64, old *Generator) {
	g.timers.takeOver(&old.timers)
	g.paused, g.stats = old.paused, old.stats
	for paused := g.paused; paused != 0; paused &= paused - 1 {
		n := bits.TrailingZeros8(paused)
		g.refreshAt[n] = min(old.refreshAt[n], now+g.refreshNS)
		g.next = min(g.next, g.refreshAt[n])
	}
}

// Paused returns the priorities that the link partner is to pause: the last frame sent was XOFF.
func (g *Generator) Paused() uint8 { return g.paused }

// Stats returns the counters as of now.
func (g *Generator) Stats(now int64) GeneratorStats {
	s := g.stats
	s.PausedNS, s.History = g.timers.total(now), g.timers.journal(now)
	return s
}
