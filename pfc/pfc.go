// Package pfc is flow control on one port. It has the frames that stop and resume single priorities
// (PFC, IEEE 802.1Q clause 36, IEEE 802.3 annex 31D) or the whole link (PAUSE, IEEE 802.3 annex
// 31B), when to send them (Generator), what received ones mean (Receiver), and when to stop
// honouring them (Watchdog).
//
// A pause has a limited time, in quanta: the frame that requests it carries the time, and the
// receiver counts it down. Congestion of unknown length is therefore signalled by XOFF, a long time
// that is repeated before it runs out, and then by XON, a time of 0. XOFF and XON are the same
// frame with different times.
//
// A port uses either PFC or PAUSE. A PAUSE frame is treated as a PFC frame with the same time for
// all eight priorities: Decode returns it in that form, a Generator with the parameter Pause
// requests nothing else, and a Receiver that honours it needs all priorities enabled.
//
// The two directions of a link are independent. For asymmetric flow control, for instance a port
// that sends pauses but honours none, give the Generator and the Receiver different Priorities, or
// none to one of them.
//
// The package reads no clock: now is in nanoseconds since any start, the same for all calls on one
// object, and never goes back. A Generator, Receiver or Watchdog has one owner and is not safe for
// concurrent use. No call on the frame path allocates.
package pfc

import (
	"errors"
	"math"
)

const (
	// QuantumBits is the unit of pause times: a quantum is the time of 512 bits at the port's
	// speed.
	QuantumBits = 512

	// never is a time that no now reaches.
	never = math.MaxInt64
)

var errSpeed = errors.New("pfc: speed 0: pause times are bit times, so give the port's speed in bit/s")

// pauseTime returns the nanoseconds that quanta take at speed bit/s, rounded up, so that no pause
// is shorter than requested.
func pauseTime(quanta uint16, speed uint64) int64 {
	bitNS := uint64(quanta) * QuantumBits * 1e9 // less than 2^55
	ns := bitNS / speed
	if bitNS%speed != 0 {
		ns++
	}
	return int64(ns)
}
