// Package pfc is flow control on one port: the frames that stop and resume single priorities (PFC,
// IEEE 802.1Q clause 36, IEEE 802.3 annex 31D) or the whole link (PAUSE, IEEE 802.3 annex 31B),
// when to send them (Generator), what received ones mean (Receiver), and when to stop believing
// them (Watchdog).
//
// A pause is a promise with an end: the sender of the frame names a time in quanta, the receiver
// counts it down. Congestion of unknown length is therefore XOFF with a long time, repeated before
// it runs out, and XON, a time of 0, when it is over. XOFF and XON are the same frame with
// different times.
//
// A port does either PFC or PAUSE. PAUSE is a PFC frame that always means all eight priorities
// alike: Decode returns it as that, a Generator with the parameter Pause asks for nothing else, and
// a Receiver that obeys it needs all priorities enabled.
//
// The two directions of a link are independent. Asymmetric flow control, such as a storage port
// that is told to pause but need not obey, is a Generator and a Receiver with different Priorities,
// or one of them with none.
//
// Nothing here knows the time: now is in nanoseconds since any start, the same for all calls on one
// object, and never goes back. A Generator, Receiver or Watchdog has one owner and is not safe for
// concurrent use. No call on the frame path allocates.
package pfc

import (
	"errors"
	"math"
)

const (
	// QuantumBits is the unit of pause times: a quantum is the time of that many bits at the port's
	// speed.
	QuantumBits = 512

	// never is a time that no now reaches.
	never = math.MaxInt64
)

var errSpeed = errors.New("pfc: speed 0: pause times are bit times, so give the port's speed in bit/s")

// pauseTime returns the nanoseconds that quanta take at speed bit/s, rounded up: a pause is never
// shorter than was asked for.
func pauseTime(quanta uint16, speed uint64) int64 {
	bitNS := uint64(quanta) * QuantumBits * 1e9 // less than 2^55
	ns := bitNS / speed
	if bitNS%speed != 0 {
		ns++
	}
	return int64(ns)
}
