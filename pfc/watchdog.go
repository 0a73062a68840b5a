package pfc

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
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
// many times the loop's usual gap: see gapShare.
type WatchdogParams struct {
	Priorities  uint8 // bit n: priority n is watched
	Detection   int64 // ns that a priority is paused with frames to send: a storm
	Restoration int64 // ns for which a partner must let frames out until a storm ends
	Action      Action
	Seed        uint64 // of the jitter that lengthens Detection by up to 1/jitterShare; 0: none
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
// Each priority has a leaky bucket. Time in which the priority is paused and has frames to send
// fills it. Time in which it is not paused drains it, openShare times as fast, whether or not it
// sends anything: what else holds it up is not the partner's fault. A pause without frames does
// neither. Detection fills the bucket, and a full bucket is a storm. So a partner that lets frames
// out for more than 1/openShare of the time is never in a storm, and one that lets them out for
// less is, however it divides that time. XON counts for nothing by itself, only by the time until
// the next XOFF.
//
// A storm ends when the priority is not paused and its bucket has not been full for Restoration. In
// a storm any pause fills the bucket, since the state of the queue depends on the action.
//
// An iteration counts for the time until the next one. If that is long, the loop was held up, and
// does not know what happened meanwhile: see gapShare.
//
// Switches in a circle that stop each other see their storms begin at the same time. One that drops
// its frames resumes the others, so the jitter lets one be the first.
type Watchdog struct {
	attention uint8 // stuck | storming, and those whose bucket is not empty: observed even if not paused
	watched   uint8

	storming uint8
	held     uint8 // bit n: held manually; a subset of storming

	stuck   uint8 // at last: paused with frames to send, or in a storm
	paused  uint8 // at last
	resumed uint8 // Sight.Resumed of all observes at last, and what was not paused just before
	last    int64 // ns: the last observe
	doubted int64 // ns: the end of the first gap whose frames may be unread
	doubt   int64 // ns: frames that arrived in a gap are read by then

	bucket [8]int64 // ns, 0 to full
	full   [8]int64 // ns: Detection with jitter, drawn anew after each storm
	calm   [8]int64 // ns that the bucket has not been full, if storming
	began  [8]int64 // ns: when the storm began, if storming

	detection, restoration int64
	gapMost, countMost     int64 // ns; see gapShare and countShare
	action                 Action
	jitter                 *rand.Rand    // nil: none
	stats                  WatchdogStats // without Storming, Held and the running storms' part of StormNS
}

// These are fractions of Detection, but for openShare.
const (
	openShare   = 100
	jitterShare = 16
	// A time of more than 1/gapShare between two iterations is a gap: the loop was held up. If the
	// partner resumed the priority in it and paused it again, it may have done so for nearly all of
	// the gap, which empties the bucket. What arrived in a gap was read in the iteration before it,
	// if that was held up, or is read after it, in at most as much time again. No storm begins in
	// that time.
	gapShare = 200
	// A gap counts for up to 1/countShare: the RX ring may not hold what arrived in a longer one.
	// To read what it holds takes as long at most, even if other gaps follow.
	countShare = 16
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
	w := &Watchdog{
		watched: p.Priorities, detection: p.Detection, restoration: p.Restoration, action: p.Action,
		gapMost: p.Detection / gapShare, countMost: p.Detection / countShare, doubt: math.MinInt64,
	}
	if p.Seed != 0 {
		w.jitter = rand.New(rand.NewPCG(p.Seed, 0))
	}
	for n := range w.full {
		w.empty(n)
	}
	return w, nil
}

// empty empties the bucket of priority n and draws its size.
func (w *Watchdog) empty(n int) {
	w.bucket[n], w.full[n] = 0, w.detection
	if w.jitter != nil {
		w.full[n] += w.jitter.Int64N(w.detection/jitterShare + 1)
	}
}

// Action returns the action for the priorities that Observe returns.
func (w *Watchdog) Action() Action { return w.action }

// Storming returns the priorities in a storm, as Observe last did.
func (w *Watchdog) Storming() uint8 { return w.storming }

// Sight is the state of a port's priorities in an iteration of the loop, one bit each.
type Sight struct {
	Paused  uint8 // by the link partner: Receiver.Paused, never masked
	Resumed uint8 // since the last Observe, perhaps paused again: Receiver.Resumed
	Waiting uint8 // with frames in the queue
}

// Observe returns the priorities in a storm. Call it once per iteration of the loop, or more often
// if the state may change within one.
func (w *Watchdog) Observe(now int64, s Sight) (stormed uint8) {
	if s.Paused&s.Waiting&w.watched|w.attention == 0 {
		return 0
	}
	return w.observe(now, s)
}

// Idle reports whether no priority is in a storm and no bucket is filled. As long as none is paused
// either, Observe need not be called; the next call may include or omit what was resumed in
// between.
func (w *Watchdog) Idle() bool { return w.attention == 0 }

// observe is Observe when there is something to look at.
func (w *Watchdog) observe(now int64, s Sight) uint8 {
	elapsed, excused := now-w.last, uint8(0)
	w.last = now
	if w.attention == 0 { // nothing has been looked at, so no time counts, and what was resumed is unknown
		elapsed, w.resumed = 0, allPriorities
	}
	if resumed := s.Resumed | s.Paused&^w.paused; elapsed > w.gapMost || w.resumed|resumed != 0 {
		excused = w.doubts(now, elapsed, resumed)
	}
	counted := min(elapsed, w.countMost)
	filled, full := w.account(elapsed, counted, excused)
	if full|w.storming != 0 {
		filled &^= w.judge(now, counted, full, excused, &s)
	}
	w.paused, w.stuck = s.Paused, s.Paused&w.watched&(s.Waiting|w.storming)
	w.attention = w.stuck | filled | w.storming
	return w.storming
}

// doubts returns the priorities that the partner may have resumed for nearly all of the time since
// the last observe, and notes those that it has resumed now.
func (w *Watchdog) doubts(now, elapsed int64, resumed uint8) (excused uint8) {
	if elapsed > w.gapMost {
		if now > w.doubt {
			w.doubted = now
		}
		excused, w.doubt = w.resumed, max(w.doubt, now+min(elapsed, w.countMost))
	}
	if now <= w.doubt {
		excused |= resumed
	}
	if elapsed > 0 {
		w.resumed = 0
	}
	w.resumed |= resumed
	return excused
}

// account fills and drains the buckets, and returns which of them are not empty, and which full.
func (w *Watchdog) account(elapsed, counted int64, excused uint8) (filled, full uint8) {
	for left := w.attention; left != 0; left &= left - 1 {
		n := bits.TrailingZeros8(left) % 8
		bit, ns := uint8(1)<<n, w.bucket[n]
		switch {
		case excused&bit != 0:
			ns = 0
		case w.stuck&bit != 0:
			ns = min(ns+counted, w.full[n])
		case w.paused&bit == 0:
			ns = max(ns-openShare*elapsed, 0)
		}
		w.bucket[n] = ns
		if ns > 0 {
			filled |= bit
		}
		if ns == w.full[n] {
			full |= bit
		}
	}
	return filled, full
}

// judge begins and ends storms, and returns which have ended.
func (w *Watchdog) judge(now, counted int64, full, excused uint8, s *Sight) (ended uint8) {
	certain := now > w.doubt || now-w.doubted >= w.countMost
	for left := full | w.storming; left != 0; left &= left - 1 {
		n := bits.TrailingZeros8(left)
		bit := uint8(1) << n
		switch {
		case full&bit != 0:
			w.calm[n] = 0
		case excused&bit == 0:
			w.calm[n] += counted
		}
		switch {
		case w.storming&bit == 0 && s.Paused&s.Waiting&bit != 0 && certain:
			w.begin(now, n, false)
		case w.storming&^(w.held|s.Paused)&bit != 0 && w.calm[n] >= w.restoration:
			w.end(now, n, false)
			ended |= bit
		}
	}
	return ended
}

// begin starts a storm.
func (w *Watchdog) begin(now int64, n int, manual bool) {
	w.storming |= 1 << n
	w.began[n] = now
	w.stats.Storms[n]++
	w.stats.History.add(StormEvent{At: now, Priority: uint8(n), Storming: true, Manual: manual})
}

// end ends a storm.
func (w *Watchdog) end(now int64, n int, manual bool) {
	w.storming &^= 1 << n
	w.empty(n)
	w.stats.StormNS[n] += now - w.began[n]
	w.stats.Restorations[n]++
	w.stats.History.add(StormEvent{At: now, Priority: uint8(n), Manual: manual})
}

// Override is the manual control: the priorities given, watched or not, are in a storm whatever the
// link partner does, until a call without them ends it at once. If the partner still pauses them,
// detection then starts over. Other priorities' storms are not affected.
func (w *Watchdog) Override(now int64, priorities uint8) {
	if w.attention == 0 {
		w.last = now
	}
	for press := priorities &^ w.storming; press != 0; press &= press - 1 {
		w.begin(now, bits.TrailingZeros8(press), true)
	}
	for release := w.held &^ priorities; release != 0; release &= release - 1 {
		w.end(now, bits.TrailingZeros8(release), true)
	}
	w.held = priorities
	w.attention |= w.storming
}

// TakeOver makes w continue from old, which it replaces with other parameters: with its storms, its
// buckets and the counters. The storm of a priority that is no longer watched ends, unless it is
// held manually. w must be new; old must not be used afterwards.
func (w *Watchdog) TakeOver(now int64, old *Watchdog) {
	w.storming, w.held, w.began, w.calm, w.stats = old.storming, old.held, old.began, old.calm, old.stats
	w.attention, w.stuck, w.paused, w.resumed = old.attention, old.stuck&w.watched, old.paused, old.resumed
	w.last, w.doubted, w.doubt = old.last, old.doubted, old.doubt
	for n, ns := range old.bucket {
		if w.bucket[n] = min(ns, w.full[n]); ns == old.full[n] {
			w.bucket[n] = w.full[n]
		}
	}
	for off := w.attention &^ w.watched; off != 0; off &= off - 1 {
		n := bits.TrailingZeros8(off)
		if w.empty(n); (w.storming&^w.held)>>n&1 != 0 {
			w.end(now, n, false)
		}
	}
}

// Reset ends all storms except those held manually, because the link went down: the next partner
// may be another one.
func (w *Watchdog) Reset(now int64) {
	for over := w.storming &^ w.held; over != 0; over &= over - 1 {
		w.end(now, bits.TrailingZeros8(over), false)
	}
	for n := range w.bucket {
		w.empty(n)
	}
	w.paused, w.attention = 0, w.storming
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
