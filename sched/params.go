package sched

import "fmt"

// Queues is the number of queues of a port.
const Queues = 8

// MaxGroups is the number of priority groups that a port may have: PG0 to PG15.
const MaxGroups = 16

// maxFrameLimit is the longest frame that may be configured, in bytes.
const maxFrameLimit = 1<<16 - 1

// TSA is a transmission selection algorithm, by its number in the TSA table of IEEE 802.1Qaz
// (802.1Q, table 8-5). The zero value is strict priority, as in the table.
type TSA uint8

// The algorithms. A scheduler supports StrictPriority and ETS.
const (
	StrictPriority TSA = 0   // goes first, the highest number before the others
	CreditBased    TSA = 1   // the shaper of audio and video bridging; rejected
	ETS            TSA = 2   // has a share, by weight, of what strict ones leave
	VendorSpecific TSA = 255 // rejected
)

// String returns the algorithm's name.
func (t TSA) String() string {
	switch t {
	case StrictPriority:
		return "strict"
	case CreditBased:
		return "credit-based"
	case ETS:
		return "ets"
	case VendorSpecific:
		return "vendor"
	}
	return "reserved"
}

// check rejects algorithms that this scheduler does not have.
func (t TSA) check() error {
	if t != StrictPriority && t != ETS {
		return fmt.Errorf("transmission selection %d (%s): must be %d (%s) or %d (%s)",
			uint8(t), t, uint8(StrictPriority), StrictPriority, uint8(ETS), ETS)
	}
	return nil
}

// GroupParams describes how a priority group is served.
type GroupParams struct {
	TSA TSA // strict: before all groups that are not strict, and before strict groups with lower numbers
	// Weight is an ETS group's share, in bytes on the wire, relative to the other ETS groups that
	// have queues. 0 counts as the smallest of their weights, so that frames of a group without
	// weight are served too. Ignored for a strict group.
	Weight int
	Shape  Shape
}

// QueueParams describes how a queue is served within its group.
type QueueParams struct {
	Group  int // index into Params.Groups
	TSA    TSA // as in GroupParams, among the queues of the group
	Weight int // as in GroupParams
	Shape  Shape
}

// Params is one port.
type Params struct {
	Rate  uint64 // bit/s on the wire; 0: unshaped
	Burst int    // bytes on the wire that may leave at once after an idle time; required with a rate
	// bytes on the wire beyond a frame's length, counted in shares and rates: 24 for FCS, preamble
	// and gap
	Overhead int
	MaxFrame int // bytes; the longest frame, without FCS
	// Groups are the priority groups, at most MaxGroups; those without queues are ignored. If there
	// are none, all queues are in one group, number 0, and there is only one level.
	Groups []GroupParams
	Queues [Queues]QueueParams
}

// check rejects invalid values; weights and shapes are checked where they are used.
func (p *Params) check() error {
	if p.MaxFrame < 1 || p.MaxFrame > maxFrameLimit {
		return fmt.Errorf("longest frame %d B: must be 1 to %d, for example 1514", p.MaxFrame, maxFrameLimit)
	}
	if p.Overhead < 0 || p.Overhead > maxOverhead {
		return fmt.Errorf("overhead %d B: must be 0 to %d; Ethernet's is 24", p.Overhead, maxOverhead)
	}
	if len(p.Groups) < 1 || len(p.Groups) > MaxGroups {
		return fmt.Errorf("%d groups: must be 1 to %d", len(p.Groups), MaxGroups)
	}
	for i, g := range p.Groups {
		if err := g.TSA.check(); err != nil {
			return fmt.Errorf("group %d: %w", i, err)
		}
	}
	for i, q := range p.Queues {
		if err := q.TSA.check(); err != nil {
			return fmt.Errorf("queue %d: %w", i, err)
		}
		if q.Group < 0 || q.Group >= len(p.Groups) {
			return fmt.Errorf("queue %d: group %d: choose 0 to %d", i, q.Group, len(p.Groups)-1)
		}
	}
	return nil
}
