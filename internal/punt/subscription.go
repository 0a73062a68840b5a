package punt

import (
	"fmt"

	"sluice/internal/frame"
)

// Subscription says that the control plane receives the frames of a protocol that arrive at a port.
// The switch does not forward them.
type Subscription struct {
	Kind      Kind
	Dst       frame.MAC // an address that no bridge forwards (frame.MAC.Reserved)
	EtherType uint16    // behind the C-tag, if there is one
	Limit     Limit     // of all frames of the kind at the port
}

// SubscribeLLDP returns the subscription to LLDP of the nearest bridge (IEEE 802.1AB table 7-1).
func SubscribeLLDP(l Limit) Subscription {
	return Subscription{Kind: LLDP, Dst: 0x0180_c200_000e, EtherType: frame.TypeLLDP, Limit: l}
}

// Subscriber finds and limits the frames of one port that the control plane has subscribed to. It
// has one bucket for each kind, so the subscriptions of a kind have the same limit.
type Subscriber struct {
	subscriptions []Subscription
	buckets       [Kinds]bucket
	favoured      [Kinds]bucket // of frames from peer
	peer          frame.MAC
}

// NewSubscriber returns a Subscriber with full buckets. It rejects invalid subscriptions.
func NewSubscriber(subscriptions []Subscription) (s Subscriber, err error) {
	s.subscriptions = subscriptions
	for _, one := range subscriptions {
		if one.Kind >= Kinds {
			return s, fmt.Errorf("subscription to %v: there is no such kind", one.Kind)
		}
		if !one.Dst.Reserved() {
			return s, fmt.Errorf("subscription to %v at %v: choose an address that no bridge forwards", one.Kind,
				one.Dst)
		}
		if err := one.Limit.check(); err != nil {
			return s, fmt.Errorf("subscription to %v: %w", one.Kind, err)
		}
		b := &s.buckets[one.Kind]
		if b.limit != (Limit{}) && b.limit != one.Limit {
			return s, fmt.Errorf("two limits for %v: give its subscriptions the same one", one.Kind)
		}
		*b = newBucket(one.Limit)
		s.favoured[one.Kind] = newBucket(one.Limit)
	}
	return s, nil
}

// Match returns the kind of frames with this destination and EtherType, and whether there is a
// subscription to them.
func (s *Subscriber) Match(dst frame.MAC, etherType uint16) (Kind, bool) {
	for i := range s.subscriptions {
		if one := &s.subscriptions[i]; one.Dst == dst && one.EtherType == etherType {
			return one.Kind, true
		}
	}
	return 0, false
}

// Favour gives the frames from an address limits of their own, which are as high: then no other
// station can crowd out those of the port's peer.
func (s *Subscriber) Favour(peer frame.MAC) { s.peer = peer }

// Take reports whether a frame of a kind from an address may pass at now, in ns, and counts it if
// so.
func (s *Subscriber) Take(k Kind, src frame.MAC, now int64) bool {
	if src == s.peer {
		return s.favoured[k].take(now)
	}
	return s.buckets[k].take(now)
}

// TakeOver continues from the subscriber before: with the credit of its buckets, as far as the new
// bursts allow. So new parameters are no way around a limit.
func (s *Subscriber) TakeOver(old *Subscriber) {
	s.peer = old.peer
	for k := range s.buckets {
		s.buckets[k].takeOver(&old.buckets[k])
		s.favoured[k].takeOver(&old.favoured[k])
	}
}
