package pfc

import (
	"errors"
	"fmt"
	"math/bits"
)

// Action is what to do with a priority in a storm. The Watchdog only stores it; the dataplane
// applies it to the priorities that Observe returns, until Observe no longer returns them.
type Action uint8

// The actions. None affects the Receiver, which keeps honouring and counting pauses: Observe must
// get its Paused unmasked, and the scheduler gets a masked copy.
const (
	// Alert demands nothing: the storm is reported, and the pause is honoured.
	Alert Action = iota
	// Drop demands that the dataplane empties the port's queue of the priority and drops frames
	// that arrive for it, or at this port in this priority, under a reason of their own. The port's
	// Generator gets the priority as not congested, so the storm does not spread upstream.
	Drop
	// Forward demands that the pause is not honoured: the scheduler gets the paused priorities
	// without those in a storm.
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

// WatchdogParams defines when a pause becomes a storm. SONiC, whose watchdog this one follows,
// allows a detection time of 100 to 5000 ms and a restoration time of 100 to 60000 ms. Both must be
// many times the loop's worst gap, since the watchdog does not see what happens between two
// iterations.
type WatchdogParams struct {
	Priorities  uint8 // bit n: priority n is watched
	Detection   int64 // ns that a priority is paused with frames to send, without sending any: a storm
	Restoration int64 // ns without a pause that end a storm
	Action      Action
}

// WatchdogStats counts since NewWatchdog. Indices are priorities. While a storm lasts, Storms is 1
// more than Restorations.
type WatchdogStats struct {
	Storming     uint8     // bit n: priority n is in a storm, including manual ones
	Held         uint8     // bit n: held manually (Override)
	Storms       [8]uint64 // begun, manual ones included
	Restorations [8]uint64
	StormNS      [8]int64 // ns in storms, including a running one
	History      History[StormEvent]
}

// StormEvent is the start or end of a storm of one priority.
type StormEvent struct {
	At       int64 // ns, as in now
	Priority uint8
	Storming bool // true: the storm begins; false: it ends
	Manual   bool // Override did it
}

// Watchdog detects pause storms: a broken or malicious link partner pauses a priority permanently,
// which stops all senders to it, and then all senders to those. The Watchdog judges each priority
// separately, by what it sees in each iteration of the loop.
//
// A priority is suspected from the moment that it is paused and has frames to send, until it sends
// one or has none left. Only time in which it is paused counts. XON followed by XOFF before the
// next iteration does not end a pause, so a partner can't evade detection with bursts of both. Time
// in which the priority may send but sends nothing does not count, since something else holds it
// up, such as other queues or a full TX ring. When that time adds up to more than 1/openShare of
// Detection, the pause is not the cause, and suspicion starts over.
//
// A storm ends when the partner has not paused the priority for Restoration. XOFF restarts that
// time even if XON follows before the next iteration, so storms do not flap. The state of the queue
// can't end a storm, since it depends on the action.
type Watchdog struct {
	attention uint8 // counting | storming: observed even if not paused
	watched   uint8

	storming uint8
	held     uint8    // bit n: held manually; a subset of storming
	counting uint8    // bit n: priority n is suspected or, in a storm, not paused
	since    [8]int64 // ns: when that began; for a suspected priority, plus the time that does not count
	open     [8]int64 // ns in which a suspected priority could have sent
	last     int64    // ns: the last observe
	began    [8]int64 // ns: when the storm began, if storming

	detection, restoration int64
	openMost, gapMost      int64 // ns; see openShare
	action                 Action
	stats                  WatchdogStats // without Storming, Held and the running storms' part of StormNS
}

// These are fractions of Detection. A suspected priority may have been able to send for 1/openShare
// of it. If a priority was resumed and paused again between two iterations, the time between them
// counts as paused if it is at most 1/gapShare of Detection; such a storm takes that many
// iterations to detect.
const (
	openShare = 100
	gapShare  = 16
)

// NewWatchdog returns a watchdog that has seen no storm. It fails if a duration is not positive or
// the action is unknown.
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

// Action returns the action for the priorities that Observe returns.
func (w *Watchdog) Action() Action { return w.action }

// Storming returns the priorities in a storm, as Observe last did.
func (w *Watchdog) Storming() uint8 { return w.storming }

// Sight is the state of a port's priorities in an iteration of the loop, one bit each.
type Sight struct {
	Paused  uint8 // by the link partner: Receiver.Paused, never masked
	Changed uint8 // paused or resumed since the last Observe: Receiver.Changed
	Waiting uint8 // with frames in the queue
	Sent    uint8 // with frames sent since the last Observe
}

// Observe returns the priorities in a storm. Call it once per iteration of the loop.
func (w *Watchdog) Observe(now int64, s Sight) (stormed uint8) {
	if s.Paused&s.Waiting&w.watched|w.attention == 0 {
		return 0
	}
	return w.observe(now, s)
}

// Idle reports whether no priority is in a storm or suspected. As long as none is paused either,
// Observe need not be called; the next call may include or omit what changed and was sent in
// between.
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

// stillSuspected returns the suspected priorities that remain so after elapsed ns. stuck is the
// priorities that have frames and sent none in that time.
//
// A priority that is paused now counts as paused all that time, with one exception: if it was
// resumed during a long gap of the loop, it may have been so for most of the gap, which is not the
// partner's fault.
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

// begin starts a storm.
func (w *Watchdog) begin(now int64, n int, manual bool) {
	w.storming |= 1 << n
	w.counting &^= 1 << n
	w.began[n] = now
	w.stats.Storms[n]++
	w.stats.History.add(StormEvent{At: now, Priority: uint8(n), Storming: true, Manual: manual})
}

// end ends a storm.
func (w *Watchdog) end(now int64, n int, manual bool) {
	w.storming &^= 1 << n
	w.counting &^= 1 << n
	w.stats.StormNS[n] += now - w.began[n]
	w.stats.Restorations[n]++
	w.stats.History.add(StormEvent{At: now, Priority: uint8(n), Manual: manual})
}

// Override is the manual control: the priorities given, watched or not, are in a storm whatever the
// link partner does, until a call without them ends it at once. If the partner still pauses them,
// detection then starts over. Other priorities' storms are not affected.
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

// TakeOver makes w continue from old, which it replaces with other parameters: with its storms, its
// suspicions and the counters. The storm of a priority that is no longer watched ends, unless it is
// held manually. w must be new; old must not be used afterwards.
func (w *Watchdog) TakeOver(now int64, old *Watchdog) {
	w.storming, w.held, w.counting, w.began, w.stats = old.storming, old.held, old.counting, old.began, old.stats
	w.since, w.open, w.last = old.since, old.open, old.last
	for over := w.storming &^ (w.watched | w.held); over != 0; over &= over - 1 {
		w.end(now, bits.TrailingZeros8(over), false)
	}
	w.counting &= w.watched
	w.attention = w.counting | w.storming
}

// Reset ends all storms except those held manually, because the link went down: the next partner
// may be another one.
func (w *Watchdog) Reset(now int64) {
	for over := w.storming &^ w.held; over != 0; over &= over - 1 {
		w.end(now, bits.TrailingZeros8(over), false)
	}
	w.counting = 0
	w.attention = w.storming
}

// Stats returns the counters as of now.
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
