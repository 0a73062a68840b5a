// Package pfc is priority-based flow control on one port: the frames that stop and resume single priorities (IEEE
// 802.1Q clause 36, IEEE 802.3 annex 31D), when to send them (Generator) and what received ones mean (Receiver).
//
// A pause is a promise with an end: the sender of the frame names a time in quanta, the receiver counts it down.
// Congestion of unknown length is therefore XOFF with a long time, repeated before it runs out, and XON, a time of
// 0, when it is over. XOFF and XON are the same frame with different times.
//
// Nothing here knows the time: now is in nanoseconds since any start, the same for all calls on one object, and
// never goes back. A Generator or Receiver has one owner and is not safe for concurrent use. No call on the frame
// path allocates.
package pfc

import (
	"errors"
	"math"
)

const (
	// QuantumBits is the unit of pause times: a quantum is the time of that many bits at the port's speed.
	QuantumBits = 512

	// never is a time that no now reaches.
	never = math.MaxInt64
)

var errSpeed = errors.New("pfc: speed 0: pause times are bit times, so give the port's speed in bit/s")

// pauseTime returns the nanoseconds that quanta take at speed bit/s, rounded up: a pause is never shorter than was
// asked for.
func pauseTime(quanta uint16, speed uint64) int64 {
	bitNS := uint64(quanta) * QuantumBits * 1e9 // less than 2^55
	ns := bitNS / speed
	if bitNS%speed != 0 {
		ns++
	}
	return int64(ns)
}

// timer is the pause of one priority: it lasts from since until until, the latter not included.
type timer struct {
	since, until int64
	booked       int64 // ns paused before since
}

// stoppedTimer has ended before any now, negative ones included.
var stoppedTimer = timer{since: math.MinInt64, until: math.MinInt64}

func (t *timer) running(now int64) bool {
	return now < t.until
}

// restart ends the pause that may be running and begins one of ns nanoseconds; 0 begins none.
func (t *timer) restart(now, ns int64) {
	t.booked = t.total(now)
	t.since, t.until = now, now+ns
}

// total returns the nanoseconds paused so far, a running pause included.
func (t *timer) total(now int64) int64 {
	return t.booked + min(now, t.until) - t.since
}
