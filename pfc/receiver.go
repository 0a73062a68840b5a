package pfc

import "math/bits"

// ReceiverParams describes the port that receives.
type ReceiverParams struct {
	Priorities uint8  // bit n: PFC is enabled on priority n; others ignore what they are told
	Speed      uint64 // of the port, in bit/s
}

// ReceiverStats counts since NewReceiver. Indices are priorities.
type ReceiverStats struct {
	Frames      uint64    // PFC frames
	Ignored     [8]uint64 // frames that meant a priority without PFC
	XOFF        [8]uint64 // frames that paused the priority, refreshes included
	XON         [8]uint64 // frames that resumed it, paused or not
	Transitions [8]uint64 // times that it went from running to paused
	PausedNS    [8]int64  // ns that it was paused, exact, a running pause included
	LastPause   [8]int64  // when it was last paused, ns as in now; of no meaning before a first transition
}

// Receiver knows which priorities of a port the link partner has paused (IEEE 802.1Q clause 36).
type Receiver struct {
	paused uint8 // bit n: priority n was paused at the last Receive or expiry
	next   int64 // when the first of the running pauses ends, or never

	priorities uint8
	speed      uint64
	timers     [8]timer
	stats      ReceiverStats // but PausedNS, which the timers hold
}

// NewReceiver returns a receiver with no priority paused.
func NewReceiver(p ReceiverParams) (*Receiver, error) {
	if p.Speed == 0 {
		return nil, errSpeed
	}
	r := &Receiver{priorities: p.Priorities, speed: p.Speed, next: never}
	for n := range r.timers {
		r.timers[n] = stoppedTimer
	}
	return r, nil
}

// Receive does what the PFC frame f says: a time replaces what is left of an earlier one, be it longer or shorter;
// 0 resumes at once; a priority that is not meant stays as it is.
func (r *Receiver) Receive(now int64, f *Frame) {
	r.stats.Frames++
	for meant := f.Enable; meant != 0; meant &= meant - 1 {
		n := bits.TrailingZeros8(meant)
		if r.priorities&(1<<n) == 0 {
			r.stats.Ignored[n]++
			continue
		}
		r.set(now, n, f.Quanta[n])
	}
	r.expire(now)
}

func (r *Receiver) set(now int64, n int, quanta uint16) {
	t := &r.timers[n]
	if quanta == 0 {
		r.stats.XON[n]++
	} else {
		r.stats.XOFF[n]++
		if !t.running(now) {
			r.stats.Transitions[n]++
			r.stats.LastPause[n] = now
		}
	}
	t.restart(now, pauseTime(quanta, r.speed))
}

// Paused returns the priorities that must not send at now: bit n is priority n. A frame being sent is finished,
// and PFC frames are never paused.
func (r *Receiver) Paused(now int64) uint8 {
	if now >= r.next {
		r.expire(now)
	}
	return r.paused
}

// expire works out paused and next from the timers.
func (r *Receiver) expire(now int64) {
	r.paused, r.next = 0, never
	for n := range r.timers {
		if t := &r.timers[n]; t.running(now) {
			r.paused |= 1 << n
			r.next = min(r.next, t.until)
		}
	}
}

// Reset ends all pauses, because the link went down. The counts go on.
func (r *Receiver) Reset(now int64) {
	for n := range r.timers {
		r.timers[n].restart(now, 0)
	}
	r.expire(now)
}

// Stats returns the counts as of now.
func (r *Receiver) Stats(now int64) ReceiverStats {
	s := r.stats
	for n := range r.timers {
		s.PausedNS[n] = r.timers[n].total(now)
	}
	return s
}
