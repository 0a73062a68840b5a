package pfc

import (
	"errors"
	"fmt"
	"math/bits"
)

// Action is what is to happen to a priority in a storm. The Watchdog only remembers it; it is the
// dataplane that acts, on the priorities that Observe returns, from that call on and until a call
// no longer returns them.
type Action uint8

// The actions. None touches the Receiver, which goes on obeying and counting: its answer to Paused
// is what Observe must see, and what the scheduler gets is a masked copy.
const (
	// Alert demands nothing: the storm is reported, and the pause is honoured.
	Alert Action = iota
	// Drop demands that the port's queue of the priority is emptied and that what arrives for it,
	// or at this port in this priority, is discarded, under a reason of its own; and that the
	// port's Generator gets the priority as not congested, so that the storm travels no further
	// upstream.
	Drop
	// Forward demands that the pause is not honoured: the scheduler gets the paused priorities
	// without these.
	Forward
)

// String returns the action's name in configurations.
func (a Action) String() string {
	switch a {
	case Alert:
		return "alert"
	case Drop:
		return "drop"
	case Forward:
		return "forward"
	}
	panic("pfc: no such action")
}

// WatchdogParams says when a port's link partner is no longer to be believed. SONiC, whose watchdog
// this one follows, allows a detection of 100 to 5000 ms and a restoration of 100 to 60000 ms. Both
// must be many times the loop's worst gap, for what happens between two iterations is not seen.
type WatchdogParams struct {
	Priorities  uint8 // bit n: priority n is watched
	Detection   int64 // ns that a priority is paused while it has frames to send and sends none: a storm
	Restoration int64 // ns without a break that a priority in a storm is not paused: the storm is over
	Action      Action
}

// WatchdogStats counts since NewWatchdog. Indices are priorities. Storms exceed Restorations by 1
// while a storm lasts.
type WatchdogStats struct {
	Storming     uint8     // bit n: priority n is in a storm, held ones included
	Held         uint8     // bit n: by hand (Override)
	Storms       [8]uint64 // begun, by hand or not
	Restorations [8]uint64
	StormNS      [8]int64 // ns in storms, a running one included
	History      History[StormEvent]
}

// StormEvent is the beginning or end of a storm of one priority.
type StormEvent struct {
	At       int64 // ns, as in now
	Priority uint8
	Storming bool // from now on; false: restored
	ByHand   bool // Override did it
}

// Watchdog finds pause storms: a link partner, broken or malicious, that pauses a priority for good
// and so stops all who send to it, and then all who send to them. It decides on each priority
// apart, by what is true at each iteration of the loop.
//
// A priority is suspected from the moment that it is paused and has frames to send, until it sends
// one or has none. The time that it was paused meanwhile counts, and XON that XOFF follows before
// the loop has looked ends no pause: a partner can't evade detection by bursts of both. While it
// may send and sends nothing, something else holds it up, such as other queues or a full TX ring.
// That time does not count, and when it adds up to more than 1/openShare of Detection the pause is
// not the cause: suspicion begins anew.
//
// A storm ends when the partner has not paused the priority for Restoration. XOFF restarts that
// time even if XON follows before the loop has looked, so a storm does not flap. What becomes of
// the queue, which is the action's doing, can't end it.
type Watchdog struct {
	attention uint8 // counting | storming: to be looked at even if not paused
	watched   uint8

	storming uint8
	held     uint8    // by hand, part of storming
	counting uint8    // bit n: priority n is suspected or, in a storm, not paused
	since    [8]int64 // ns: when that began; for a suspected priority moved on by the time that does not count
	open     [8]int64 // ns that a suspected priority could have sent
	last     int64    // ns: the latest observe
	began    [8]int64 // when the storm began, ns, if storming

	detection, restoration int64
	openMost, gapMost      int64 // ns; see openShare
	action                 Action
	stats                  WatchdogStats // but Storming, Held and the running storms' part of StormNS
}

// These divide Detection. For 1/openShare of it a suspected priority may have been able to send. A
// gap of the loop in which it was resumed and paused again counts as paused up to 1/gapShare, so
// that it takes as many looks to find a storm.
const (
	openShare = 100
	gapShare  = 16
)

// NewWatchdog returns a watchdog that has seen no storm. It fails if a duration is not positive, or
// the action is not one of those above.
func NewWatchdog(p WatchdogParams) (*Watchdog, error) {
	if p.Detection <= 0 || p.Restoration <= 0 {
		return nil, errors.New("pfc: a watchdog needs a detection and a restoration time: 200 ms is usual for both")
	}
	if p.Action > Forward {
		return nil, fmt.Errorf("pfc: watchdog action %d: choose Alert, Drop or Forward", uint8(p.Action))
	}
	return &Watchdog{
		watched: p.Priorities, detection: p.Detection, restoration: p.Restoration, action: p.Action,
		openMost: p.Detection / openShare, gapMost: p.Detection / gapShare,
	}, nil
}

// Action returns what is to happen to the priorities that Observe returns.
func (w *Watchdog) Action() Action { return w.action }

// Storming returns the priorities in a storm, as Observe did.
func (w *Watchdog) Storming() uint8 { return w.storming }

// Sight is what there is to see of a port's priorities, one bit each, in an iteration of the loop.
type Sight struct {
	Paused  uint8 // by the link partner, as from Receiver.Paused and never masked
	Changed uint8 // paused or resumed since the last Observe, as from Receiver.Changed
	Waiting uint8 // with frames in their queue
	Sent    uint8 // queue has sent frames since the last Observe
}

// Observe is called once in each iteration of the loop and returns the priorities in a storm.
func (w *Watchdog) Observe(now int64, s Sight) (stormed uint8) {
	if s.Paused&s.Waiting&w.watched|w.attention == 0 {
		return 0
	}
	return w.observe(now, s)
}

// Idle tells that nothing is in a storm or suspected of one. As long as nothing is paused either,
// Observe need not be called: what has changed and was sent meanwhile may be told to the next call,
// or not.
func (w *Watchdog) Idle() bool { return w.attention == 0 }

// observe is Observe when there is something to look at.
func (w *Watchdog) observe(now int64, s Sight) uint8 {
	elapsed := now - w.last
	w.last = now
	waiting := s.Waiting & w.watched &^ w.storming
	suspected := w.stillSuspected(elapsed, waiting&^s.Sent, &s)
	calm := w.storming &^ (s.Paused | w.held)
	goesOn := suspected | w.counting&calm&^s.Changed
	w.counting = goesOn | waiting&s.Paused | calm
	for begins := w.counting &^ goesOn; begins != 0; begins &= begins - 1 {
		n := bits.TrailingZeros8(begins)
		w.since[n], w.open[n] = now, 0
	}
	for counting := goesOn; counting != 0; counting &= counting - 1 {
		n := bits.TrailingZeros8(counting)
		switch counted := now - w.since[n]; {
		case suspected&(1<<n) != 0 && counted >= w.detection:
			w.begin(now, n, false)
		case calm&(1<<n) != 0 && counted >= w.restoration:
			w.end(now, n, false)
		}
	}
	w.attention = w.counting | w.storming
	return w.storming
}

// stillSuspected returns the suspected priorities that the time since the last observation leaves
// so. stuck are those with frames of which none was sent meanwhile.
//
// Of that time the priority was paused if it is now. But it may have been resumed for most of a
// long gap of the loop, which is no fault of the partner.
func (w *Watchdog) stillSuspected(elapsed int64, stuck uint8, s *Sight) (still uint8) {
	still = w.counting & stuck
	for suspected := still; suspected != 0; suspected &= suspected - 1 {
		n := bits.TrailingZeros8(suspected)
		bit := uint8(1) << n
		switch {
		case s.Paused&bit == 0:
			w.since[n] += elapsed
			if w.open[n] += elapsed; w.open[n] > w.openMost {
				still &^= bit
			}
		case s.Changed&bit != 0 && elapsed > w.gapMost:
			w.since[n] += elapsed
		}
	}
	return still
}

// begin is the beginning of a storm.
func (w *Watchdog) begin(now int64, n int, byHand bool) {
	w.storming |= 1 << n
	w.counting &^= 1 << n
	w.began[n] = now
	w.stats.Storms[n]++
	w.stats.History.add(StormEvent{At: now, Priority: uint8(n), Storming: true, ByHand: byHand})
}

// end is the end of a storm.
func (w *Watchdog) end(now int64, n int, byHand bool) {
	w.storming &^= 1 << n
	w.counting &^= 1 << n
	w.stats.StormNS[n] += now - w.began[n]
	w.stats.Restorations[n]++
	w.stats.History.add(StormEvent{At: now, Priority: uint8(n), ByHand: byHand})
}

// Override is the big red switch: from now on the priorities are treated as in a storm, watched or
// not, whatever the link partner does, until a call without them, which ends the storm at once. If
// the partner still pauses them, detection then starts from the beginning. Storms of other
// priorities are left alone.
func (w *Watchdog) Override(now int64, priorities uint8) {
	for press := priorities &^ w.storming; press != 0; press &= press - 1 {
		w.begin(now, bits.TrailingZeros8(press), true)
	}
	for release := w.held &^ priorities; release != 0; release &= release - 1 {
		w.end(now, bits.TrailingZeros8(release), true)
	}
	w.held = priorities
	w.attention = w.counting | w.storming
}

// TakeOver makes w go on where old stands, whose parameters it is to replace: with its storms, what
// it suspects, and the counts. A storm of a priority that is no longer watched is over, unless it
// is held by hand. w must be new; old is not to be used afterwards.
func (w *Watchdog) TakeOver(now int64, old *Watchdog) {
	w.storming, w.held, w.counting, w.began, w.stats = old.storming, old.held, old.counting, old.began, old.stats
	w.since, w.open, w.last = old.since, old.open, old.last
	for over := w.storming &^ (w.watched | w.held); over != 0; over &= over - 1 {
		w.end(now, bits.TrailingZeros8(over), false)
	}
	w.counting &= w.watched
	w.attention = w.counting | w.storming
}

// Reset ends all storms but those held by hand, because the link went down: the next partner may be
// another.
func (w *Watchdog) Reset(now int64) {
	for over := w.storming &^ w.held; over != 0; over &= over - 1 {
		w.end(now, bits.TrailingZeros8(over), false)
	}
	w.counting = 0
	w.attention = w.storming
}

// Stats returns the counts as of now.
func (w *Watchdog) Stats(now int64) WatchdogStats {
	s := w.stats
	s.Storming, s.Held = w.storming, w.held
	for n := range s.StormNS {
		if w.storming&(1<<n) != 0 {
			s.StormNS[n] += now - w.began[n]
		}
	}
	return s
}
