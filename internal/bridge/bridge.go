// Package bridge decides where a frame goes: to the other end of a wire, or by VLAN membership and learned
// addresses to one port or to all of its VLAN (IEEE 802.1Q clauses 8.6 to 8.8). It also says in which class a frame
// is (Classifier) and what it looks like when it leaves (Egress).
//
// A Bridge has a single owner and takes no locks. With several workers each has its own; what one learns from its
// ports it tells the others, which take it in with Learn. All memory is allocated at construction.
package bridge

import (
	"fmt"
	"math"

	"sluice/internal/frame"
)

// Values of Decision.Out that are no port.
const (
	Flood   = -1 // to every port in Decision.Flood
	Nowhere = -2 // dropped for Decision.Reason
)

// Reason says why a frame is dropped.
type Reason uint8

const (
	// Forwarded is the zero Reason: the frame is not dropped.
	Forwarded Reason = iota
	// ReservedAddress: the destination is one of 01-80-C2-00-00-00 to -0F, which no bridge relays (802.1Q table 8-1).
	ReservedAddress
	// VLANIngress: the port is no member of the frame's VLAN, or takes no frames with a tag.
	VLANIngress
	// NoDestination: the wire has no peer, the station is on the port that the frame came from, or the VLAN has no
	// other member.
	NoDestination
	// StormLimit: the frame would be flooded, and its port has had as many of its kind flooded as it may.
	StormLimit
	// Reasons is how many there are.
	Reasons
)

var reasonNames = [Reasons]string{"forwarded", "reserved_address", "vlan_ingress", "no_destination", "storm_limit"}

// String returns the stable name that counters use.
func (r Reason) String() string {
	if r < Reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Decision is what becomes of a frame. It is no larger than what the compiler keeps in registers (32 bytes, four
// fields): one returned through memory costs as much again as the decision.
type Decision struct {
	// Flood is, when Out is Flood, the egress ports: at least one, in no fixed order; shared, not to be written.
	Flood []uint16
	Out   int32 // egress port, Flood or Nowhere
	// Reason is other than Forwarded when the frame is dropped.
	Reason Reason
	// Learned asks the owner to tell the other workers about the source: it is new, has moved, or is seen for the
	// first time in this quarter of the ageing time, so that they do not age out a station that still sends.
	Learned bool
}

// Stats count since construction.
type Stats struct {
	Learned   uint64 // addresses that entered the table; Learned - Removed are in it beside the static entries
	Removed   uint64 // addresses that left it: not seen for the ageing time, or their port was forgotten
	Moved     uint64 // addresses seen on another port than before, and followed there
	TableFull uint64 // frames whose source could not be learned for want of room in the table
	PortFull  uint64 // frames whose source could not be learned since its port is at its limit
	Pinned    uint64 // frames from a station with a static entry for another port, which stays
	Own       uint64 // frames from an address of the switch itself: they have come round a loop
	Unknown   uint64 // frames to an individual address that was not known
	// Stormy are frames not flooded for the storm limit, by kind.
	Stormy [FloodKinds]uint64
}

// Bridge forwards the frames of one worker. Its owner writes all fields.
type Bridge struct {
	// Used for every frame.
	mode       Mode
	ageing     sighting // as a time
	nextUpkeep int64    // ns; when to do the next piece of upkeep
	periodFrom sighting // sightings before this time have not been announced in this period
	table      table
	ports      []port
	groups     []group
	groupOf    [4096]uint16 // index into groups, by VLAN
	storms     []storm      // by port; none: no port has a limit
	stats      Stats

	// Used now and then.
	shares      []share // of the table, by port
	common      int     // addresses that ports have learned beyond what is kept for each
	commonMost  int
	own         []frame.MAC // the switch's own address, by port
	sweepEvery  int64       // ticks between two pieces of upkeep
	sweepCursor uint
	periodUntil sighting
	classifiers []Classifier
	egress      []*Egress // nil: frames leave as they came
}

// port is what every frame needs to know of a port.
type port struct {
	pvid    uint16
	refused uint16 // bits of a tag's VLAN that must not be set: all, if it takes no tagged frames
	peer    int32
	since   sighting // what was seen on the port before is forgotten
}

// New builds a Bridge. It refuses parameters that can't work.
func New(p Params) (*Bridge, error) {
	p = p.withDefaults()
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	b := &Bridge{
		own: make([]frame.MAC, len(p.Ports)), mode: p.Mode, ageing: at(p.Ageing),
		nextUpkeep: math.MinInt64, periodFrom: longAgo, periodUntil: longAgo,
	}
	for i := range p.Ports {
		pp := &p.Ports[i]
		b.ports = append(b.ports, port{pvid: pp.PVID, peer: int32(pp.Peer), since: longAgo, refused: pp.refused()})
		b.shares = append(b.shares, share{limit: pp.Limit})
		b.classifiers = append(b.classifiers, pp.Classifier)
		b.egress = append(b.egress, newEgress(pp))
	}
	if p.Mode == Wire {
		return b, nil
	}
	b.groups, b.groupOf = groupVLANs(p.Ports)
	b.storms = newStorms(p.Ports)
	b.divide(p.Capacity - len(p.Static))
	b.table = newTable(p.Capacity, p.Seed)
	bursts := int64(len(b.table.slots) / sweepBurst)
	b.sweepEvery = max(1, p.Ageing>>tickShift/periodsPerAgeing/bursts)
	if err := b.pin(&p); err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	return b, nil
}

// Forward decides where a frame that port in received at time now (ns) goes, and learns its source.
func (b *Bridge) Forward(now int64, in int, h *frame.Header) Decision {
	if h.Dst.Reserved() {
		return Decision{Out: Nowhere, Reason: ReservedAddress}
	}
	if b.mode == Wire {
		return b.wire(in)
	}
	vid := b.VLAN(in, h.VID)
	g := &b.groups[b.groupOf[vid]]
	place := g.place[in]
	if place < 0 || h.VID&b.ports[in].refused != 0 {
		return Decision{Out: Nowhere, Reason: VLANIngress}
	}
	if now >= b.nextUpkeep {
		b.upkeep(now)
	}
	learned := false
	if !h.Src.Group() {
		learned = b.learn(at(now), keyOf(h.Src, vid), in)
	}
	if !h.Dst.Group() {
		if e := b.table.find(keyOf(h.Dst, vid)); e != nil && b.alive(at(now), e.seen) {
			out := e.seen.port()
			if out == in {
				return Decision{Out: Nowhere, Reason: NoDestination, Learned: learned}
			}
			return Decision{Out: int32(out), Learned: learned}
		}
		b.stats.Unknown++
	}
	others := g.others(place)
	if len(others) == 0 {
		return Decision{Out: Nowhere, Reason: NoDestination, Learned: learned}
	}
	if b.storms != nil && !b.calm(now, in, h.Dst) {
		return Decision{Out: Nowhere, Reason: StormLimit, Learned: learned}
	}
	return Decision{Out: Flood, Flood: others, Learned: learned}
}

// VLAN returns the VLAN of a frame that a port received, from the VID of its tag; 0 stands for none.
func (b *Bridge) VLAN(port int, vid uint16) uint16 {
	if vid == 0 {
		return b.ports[port].pvid
	}
	return vid
}

func (b *Bridge) wire(in int) Decision {
	peer := b.ports[in].peer
	if peer < 0 {
		return Decision{Out: Nowhere, Reason: NoDestination}
	}
	return Decision{Out: peer}
}

// Classifier returns what tells the class of frames that a port receives. It never changes.
func (b *Bridge) Classifier(port int) *Classifier { return &b.classifiers[port] }

// Egress returns what is done to frames that leave by a port; nil: nothing. It never changes.
func (b *Bridge) Egress(port int) *Egress { return b.egress[port] }

// Len returns how many addresses the table holds. Those that have aged or were forgotten count until they are
// removed, which while there is traffic takes less than half the ageing time.
func (b *Bridge) Len() int { return b.table.used }

// LearnedOn returns how many of them were learned on a port.
func (b *Bridge) LearnedOn(port int) int { return b.shares[port].used }

// Stats returns the counts so far.
func (b *Bridge) Stats() Stats { return b.stats }
