package bridge

import (
	"fmt"

	"sluice/internal/frame"
)

// FloodKind is the reason why a frame is flooded.
type FloodKind uint8

// The kinds.
const (
	UnknownUnicast FloodKind = iota // the destination is not in the FDB
	Multicast
	Broadcast
	// FloodKinds is how many there are.
	FloodKinds
)

// String returns the name used in counters; it is stable.
func (k FloodKind) String() string {
	return [FloodKinds]string{"unknown_unicast", "multicast", "broadcast"}[k]
}

// KindOf returns the kind of a flooded frame, by its destination.
func KindOf(dst frame.MAC) FloodKind {
	switch {
	case dst == frame.Broadcast:
		return Broadcast
	case dst.Group():
		return Multicast
	}
	return UnknownUnicast
}

// FloodLimit bounds the frames of one kind that a port has flooded: Burst at once, and Rate per
// second in the long run. It counts received frames, not their copies.
type FloodLimit struct {
	Rate  uint64 // frames/s; 0: unlimited
	Burst int    // frames; 0: those of 10 ms at Rate, at least one
}

// StormParams are the limits of a port, by kind.
type StormParams [FloodKinds]FloodLimit

const (
	maxFloodRate  = 1_000_000_000 // frames/s: more than 400 Gbit/s carry
	maxFloodBurst = 1_000_000_000 // frames: keeps the bucket's credit from overflowing
)

func (s *StormParams) check() error {
	for kind, l := range s {
		switch {
		case l.Rate > maxFloodRate:
			return fmt.Errorf("storm limit of %d frames/s for %v: at most %d, or 0 for none", l.Rate, FloodKind(kind),
				maxFloodRate)
		case l.Burst < 0 || l.Burst > maxFloodBurst:
			return fmt.Errorf("storm burst of %d frames for %v: 1 to %d are possible", l.Burst, FloodKind(kind),
				maxFloodBurst)
		}
	}
	return nil
}

// storm is the buckets of a port.
type storm [FloodKinds]bucket

// newStorms returns the buckets of all ports, or nil if no port has a limit.
func newStorms(ports []PortParams) []storm {
	storms := make([]storm, len(ports))
	limited := false
	for i := range ports {
		for kind, l := range ports[i].Storm {
			storms[i][kind] = newBucket(l)
			limited = limited || l.Rate > 0
		}
	}
	if !limited {
		return nil
	}
	return storms
}

// calm reports whether a port may have one more frame flooded, and counts a refusal.
func (b *Bridge) calm(now int64, in int, dst frame.MAC) bool {
	kind := KindOf(dst)
	if b.storms[in][kind].take(now) {
		return true
	}
	b.stats.Stormy[kind]++
	return false
}

// bucket is a token bucket in exact integers: a nanosecond earns the rate, and a frame costs 1e9.
type bucket struct {
	rate   int64 // frames/s; 0: unlimited
	most   int64 // most credit
	credit int64
	last   int64 // ns
}

const creditPerFrame = 1_000_000_000

// Control is the class of BPDUs, network control (IEEE 802.1Q table I-1).
const Control = 7

// bpduLimit bounds the BPDUs of a port that have class Control and no storm limit, so that a host
// can't get around its limits by the address. A bridge sends a few per second and spanning tree.
var bpduLimit = FloodLimit{Rate: 100, Burst: 100}

// newBucket returns a full bucket.
func newBucket(l FloodLimit) bucket {
	if l.Burst == 0 {
		l.Burst = max(1, int(l.Rate/100))
	}
	most := int64(l.Burst) * creditPerFrame
	return bucket{rate: int64(l.Rate), most: most, credit: most}
}

// takeOver continues with the credit of old, if that has a limit.
func (b *bucket) takeOver(old *bucket) {
	if old.rate > 0 {
		b.credit, b.last = min(old.credit, b.most), old.last
	}
}

// take spends a frame's credit, if there is enough.
func (b *bucket) take(now int64) bool {
	if b.rate == 0 {
		return true
	}
	elapsed := max(0, now-b.last)
	b.last = now
	if elapsed > b.most/b.rate { // more than fills the bucket; the product could overflow
		b.credit = b.most
	} else {
		b.credit = min(b.most, b.credit+elapsed*b.rate)
	}
	if b.credit < creditPerFrame {
		return false
	}
	b.credit -= creditPerFrame
	return true
}
