package pfc

import "math/bits"

// ReceiverParams describes the receiving port.
type ReceiverParams struct {
	Priorities uint8  // bit n: PFC is enabled on priority n; others ignore pauses. PAUSE: all
	Speed      uint64 // of the port, in bit/s
}

// ReceiverStats counts since NewReceiver. Indices are priorities.
type ReceiverStats struct {
	Frames      uint64    // PFC or PAUSE frames
	Ignored     [8]uint64 // frames that named a priority without PFC
	XOFF        [8]uint64 // frames that paused the priority, refreshes included
	XON         [8]uint64 // frames that resumed it, paused or not
	Transitions [8]uint64 // times that it went from running to paused
	PausedNS    [8]int64  // ns that it was paused, exact, including a running pause
	LastPause   [8]int64  // when it was last paused, ns as in now; undefined before the first transition

	History History[Transition] // of all priorities; a pause that ran out is in it with its exact end
}

// Receiver knows which priorities of a port the link partner has paused (IEEE 802.1Q clause 36).
type Receiver struct {
	timers     timers
	priorities uint8
	resumed    uint8         // see Resumed
	asked      [8]int64      // ns: when priority n is resumed if each XOFF prolongs the pause before it
	stats      ReceiverStats // without PausedNS and History, which timers holds
}

// NewReceiver returns a receiver with no priority paused.
func NewReceiver(p ReceiverParams) (*Receiver, error) {
	if p.Speed == 0 {
		return nil, errSpeed
	}
	return &Receiver{timers: newTimers(p.Speed), priorities: p.Priorities}, nil
}

// Receive applies the frame f: a time replaces what is left of an earlier one, longer or shorter; 0
// resumes at once; priorities that f does not enable stay as they are.
func (r *Receiver) Receive(now int64, f *Frame) { r.ReceiveLate(now, 0, f) }

// ReceiveLate is Receive for a frame that may have arrived up to late ns before the iteration saw
// it at now. Its pauses begin at now and are late ns longer than requested.
func (r *Receiver) ReceiveLate(now, late int64, f *Frame) {
	r.timers.expire(now)
	r.stats.Frames++
	for meant := f.Enable; meant != 0; meant &= meant - 1 {
		n := bits.TrailingZeros8(meant)
		r.note(now, n, f.Quanta[n])
	}
	r.timers.apply(now, late, f.Enable&r.priorities, &f.Quanta)
}

// note counts what a received frame says about one priority.
func (r *Receiver) note(now int64, n int, quanta uint16) {
	bit := uint8(1) << n
	switch {
	case r.priorities&bit == 0:
		r.stats.Ignored[n]++
	case quanta == 0:
		r.stats.XON[n]++
		r.resumed |= bit
		r.asked[n] = now
	default:
		r.stats.XOFF[n]++
		if r.timers.paused&bit == 0 {
			r.stats.Transitions[n]++
			r.stats.LastPause[n] = now
			if r.asked[n] < now {
				r.resumed |= bit
			}
		}
		r.asked[n] = max(r.asked[n], now) + pauseTime(quanta, r.timers.speed)
	}
}

// Paused returns the priorities that must not send at now: bit n is priority n. A frame already on
// its way is finished, and PFC frames are never paused.
func (r *Receiver) Paused(now int64) uint8 {
	if now >= r.timers.next {
		r.timers.expire(now)
	}
	return r.timers.paused
}

// Resumed returns the priorities that received XON since the last call, or XOFF after a pause that
// had run out, unless their XOFFs had asked for enough time: then the partner repeated them before
// the pause ran out, but the loop was held up and read them after that.
func (r *Receiver) Resumed() uint8 {
	resumed := r.resumed
	r.resumed = 0
	return resumed
}

// Reset ends all pauses, because the link went down. The counters go on.
func (r *Receiver) Reset(now int64) {
	r.timers.reset(now)
	r.asked = [8]int64{}
}

// TakeOver makes r continue from old, which it replaces with other parameters: with the running
// pauses, which keep their ends, and the counters. A priority that is no longer in Priorities is
// resumed. r must be new; old must not be used afterwards.
func (r *Receiver) TakeOver(now int64, old *Receiver) {
	r.timers.takeOver(&old.timers)
	r.resumed, r.asked, r.stats = old.resumed, old.asked, old.stats
	r.timers.end(now, ^r.priorities)
}

// Stats returns the counters as of now.
func (r *Receiver) Stats(now int64) ReceiverStats {
	s := r.stats
	s.PausedNS, s.History = r.timers.total(now), r.timers.journal(now)
	return s
}
