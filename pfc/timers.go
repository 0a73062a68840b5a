package pfc

import (
	"math"
	"math/bits"
)

// timers are the pauses of the eight priorities in one direction of a link, and their history.
type timers struct {
	paused uint8 // bit n: priority n was paused at the last expire, apply or reset
	next   int64 // when the first of these pauses ends, or never

	speed   uint64 // bit/s
	each    [8]timer
	history History[Transition]
}

func newTimers(speed uint64) timers {
	t := timers{next: never, speed: speed}
	for n := range t.each {
		t.each[n] = stoppedTimer
	}
	return t
}

// expire ends the pauses that have run out by now. However late it is called, history gets them in
// the order and with the times of their ends.
func (t *timers) expire(now int64) {
	for t.paused != 0 && t.next <= now {
		for n := range t.each {
			if bit := uint8(1) << n; t.paused&bit != 0 && t.each[n].until == t.next {
				t.paused &^= bit
				t.history.add(Transition{At: t.next, Priority: uint8(n), Cause: Expired})
			}
		}
		t.schedule()
	}
}

// apply replaces the pauses of the priorities in mask by quanta, plus late ns where quanta are not
// 0; 0 ends a pause. Call expire first.
func (t *timers) apply(now, late int64, mask uint8, quanta *[8]uint16) {
	for ; mask != 0; mask &= mask - 1 {
		n := bits.TrailingZeros8(mask)
		bit := uint8(1) << n
		switch {
		case quanta[n] == 0 && t.paused&bit != 0:
			t.paused &^= bit
			t.history.add(Transition{At: now, Priority: uint8(n), Cause: XON})
		case quanta[n] != 0 && t.paused&bit == 0:
			t.paused |= bit
			t.history.add(Transition{At: now, Priority: uint8(n), Cause: XOFF, Quanta: quanta[n]})
		}
		pause := pauseTime(quanta[n], t.speed)
		if pause > 0 {
			pause += late
		}
		t.each[n].restart(now, pause)
	}
	t.schedule()
}

// takeOver continues the pauses of old, possibly at another speed: a running pause keeps its end.
func (t *timers) takeOver(old *timers) {
	speed := t.speed
	*t = *old
	t.speed = speed
}

// reset ends all pauses.
func (t *timers) reset(now int64) { t.end(now, allPriorities) }

const allPriorities = 0xff

// end ends the pauses of the priorities in mask without an XON.
func (t *timers) end(now int64, mask uint8) {
	t.expire(now)
	for over := t.paused & mask; over != 0; over &= over - 1 {
		n := bits.TrailingZeros8(over)
		t.history.add(Transition{At: now, Priority: uint8(n), Cause: Reset})
		t.each[n].restart(now, 0)
	}
	t.paused &^= mask
	t.schedule()
}

// schedule sets next.
func (t *timers) schedule() {
	t.next = never
	for paused := t.paused; paused != 0; paused &= paused - 1 {
		t.next = min(t.next, t.each[bits.TrailingZeros8(paused)].until)
	}
}

// total returns the nanoseconds that each priority was paused so far, including running pauses.
func (t *timers) total(now int64) (ns [8]int64) {
	for n := range t.each {
		ns[n] = t.each[n].total(now)
	}
	return ns
}

// journal returns the history as of now.
func (t *timers) journal(now int64) History[Transition] {
	t.expire(now)
	return t.history
}

// timer is the pause of one priority, from since (included) to until (excluded).
type timer struct {
	since, until int64
	booked       int64 // ns paused before since
}

// stoppedTimer ended before any now, even a negative one.
var stoppedTimer = timer{since: math.MinInt64, until: math.MinInt64}

// restart ends a running pause and begins one of ns nanoseconds; 0 begins none.
func (t *timer) restart(now, ns int64) {
	t.booked = t.total(now)
	t.since, t.until = now, now+ns
}

// total returns the nanoseconds paused so far, including a running pause.
func (t *timer) total(now int64) int64 {
	return t.booked + min(now, t.until) - t.since
}
