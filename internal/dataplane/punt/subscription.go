package punt

import (
	"fmt"

	"sluice/internal/frame"
)

// Subscription says that the control plane receives the frames of a protocol that arrive at a port.
// The switch does not forward them.
type Subscription struct {
	Kind      Kind
	Dst       frame.MAC // an address that no bridge forwards (frame.MAC.Reserved); of FIP: 0, any
	EtherType uint16    // behind the C-tag, if there is one
	Limits    Limits    // of the frames of the kind at the port
}

// Class is what is known of a frame before the control plane reads it. The classes of a kind have
// limits of their own, so that no flood of one takes anything from another.
type Class uint8

// The classes.
const (
	Other     Class = iota
	Known           // from a station that the control plane has dealings with, such as a neighbour
	Discovery       // FIP that is part of no session: fcoe.Discovers
	Classes         // how many there are
)

// Limits are those of the classes of a kind.
type Limits [Classes]Limit

// SubscribeLLDP returns the subscription to LLDP of the nearest bridge (IEEE 802.1AB table 7-1).
func SubscribeLLDP(l Limit) Subscription {
	return Subscription{Kind: LLDP, Dst: 0x0180_c200_000e, EtherType: frame.TypeLLDP, Limits: Limits{l, l, l}}
}

// SubscribeFIP returns the subscription to FIP of a port with ENodes, or of a trusted one, with an
// FCF or another FIP snooping switch.
//
// An FCF answers each solicitation, and each answer to a stranger goes to all ENodes. So the limit
// of discovery is low on a port with ENodes; 200 hosts that start at once, each with a VLAN request
// and a solicitation, are within its burst. Their logins are within the burst of the others. Known
// ones send keep-alives, and further logins: there may be thousands, in step. The limit of a
// trusted port is that much higher that what all others may send can't make the answers exceed it.
func SubscribeFIP(trusted bool) Subscription {
	s := Subscription{Kind: FIP, EtherType: frame.TypeFIP, Limits: Limits{
		Other: {Rate: 500, Burst: 2048}, Known: {Rate: 2000, Burst: 512}, Discovery: {Rate: 100, Burst: 512},
	}}
	if trusted {
		l := Limit{Rate: 20_000, Burst: 2048}
		s.Limits = Limits{l, l, l}
	}
	return s
}

// Subscriber finds and limits the frames of one port that the control plane has subscribed to. It
// has one bucket for each kind and class, so the subscriptions of a kind have the same limits.
type Subscriber struct {
	subscriptions []Subscription
	buckets       [Kinds][Classes]bucket
	peer          frame.MAC
}

// NewSubscriber returns a Subscriber with full buckets. It rejects invalid subscriptions.
func NewSubscriber(subscriptions []Subscription) (s Subscriber, err error) {
	s.subscriptions = subscriptions
	for _, one := range subscriptions {
		if one.Kind >= Kinds {
			return s, fmt.Errorf("subscription to %v: there is no such kind", one.Kind)
		}
		if one.Kind != FIP && !one.Dst.Reserved() {
			return s, fmt.Errorf("subscription to %v at %v: choose an address that no bridge forwards", one.Kind,
				one.Dst)
		}
		for c, l := range one.Limits {
			if err := l.check(); err != nil {
				return s, fmt.Errorf("subscription to %v: %w", one.Kind, err)
			}
			b := &s.buckets[one.Kind][c]
			if b.limit != (Limit{}) && b.limit != l {
				return s, fmt.Errorf("two limits for %v: give its subscriptions the same one", one.Kind)
			}
			*b = newBucket(l)
		}
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

// Favour makes the frames from an address known: then no other station can crowd out those of the
// port's peer.
func (s *Subscriber) Favour(peer frame.MAC) { s.peer = peer }

// ClassOf returns the class of frames from an address: Known if it is the favoured one.
func (s *Subscriber) ClassOf(src frame.MAC) Class {
	if src == s.peer {
		return Known
	}
	return Other
}

// Take reports whether a frame of a kind and class may pass at now, in ns, and counts it if so.
func (s *Subscriber) Take(k Kind, c Class, now int64) bool { return s.buckets[k][c].take(now) }

// TakeOver continues from the subscriber before: with the credit of its buckets, as far as the new
// bursts allow. So new parameters are no way around a limit.
func (s *Subscriber) TakeOver(old *Subscriber) {
	s.peer = old.peer
	for k := range s.buckets {
		for c := range s.buckets[k] {
			s.buckets[k][c].takeOver(&old.buckets[k][c])
		}
	}
}
