// Package bridge decides where a frame goes. It goes to the other end of a wire, or by VLAN
// membership and learned addresses to one port or to all ports of its VLAN (IEEE 802.1Q clauses 8.6
// to 8.8). It also determines the class of a frame (Classifier) and how it looks when it leaves
// (Egress).
//
// A Bridge has a single owner and takes no locks. With several workers, each has its own; a worker
// announces what it learns from its ports to the others, which pass it to Learn. All memory is
// allocated at construction.
package bridge

import (
	"fmt"
	"math"
	"sync/atomic"

	"sluice/internal/frame"
)

// Values of Frame.Out other than ports.
const (
	Flood   = -1 // to every port of Others
	Nowhere = -2 // dropped for Frame.Reason
)

// Reason says why a frame is dropped.
type Reason uint8

const (
	// Forwarded is the zero Reason: the frame is not dropped.
	Forwarded Reason = iota
	// ReservedAddress: the destination is one that no bridge forwards (frame.MAC.Reserved), or on a
	// wire one that no relay does (frame.MAC.OneLink).
	ReservedAddress
	// VLANIngress: the port is not a member of the frame's VLAN, or accepts no frames with a tag.
	VLANIngress
	// FCoEVLAN: the VLAN is an FCoE VLAN, and the frame neither FCoE nor FIP.
	FCoEVLAN
	// FCoESession: an FCoE frame that no virtual link lets pass.
	FCoESession
	// SourceAddress: no station behind the port can have sent the frame. Its source is zero, a
	// group address, its destination, or one of the switch's own addresses.
	SourceAddress
	// NoDestination: the wire has no peer, the address is on the ingress port, or the VLAN has no
	// other member.
	NoDestination
	// StormLimit: the frame would be flooded, but its port has reached its limit for floods of this
	// kind.
	StormLimit
	// Reasons is how many there are.
	Reasons
)

var reasonNames = [Reasons]string{
	"forwarded", "reserved_address", "vlan_ingress", "fcoe_vlan", "fcoe_session", "source_address", "no_destination",
	"storm_limit",
}

// String returns the name used in counters; it is stable.
func (r Reason) String() string {
	if r < Reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Frame is a frame on its way through a switch. The owner fills in Header and Class; Forward
// decides the rest, and raises the Class of BPDUs (Control). It is 32 bytes.
type Frame struct {
	Header frame.Header
	Out    int32 // egress port, Flood or Nowhere
	// Reason is other than Forwarded if the frame is dropped.
	Reason Reason
	// Learned asks the owner to announce the source to the other workers: it is new, has moved, or
	// is seen for the first time in this quarter of the ageing time. Without the latter they would
	// age out an address that still sends.
	Learned bool
	Class   uint8 // of service
	// Followers is how many frames follow this one that have the same header, except for the PCP.
	// The owner fills it in.
	Followers uint8
}

// Stats are counters since construction.
type Stats struct {
	Learned   uint64 // FDB entries added; Learned - Removed is the number of entries that are not static
	Removed   uint64 // FDB entries removed: aged, forgotten, or replaced by a static entry
	Moved     uint64 // entries moved to the port on which their address was seen last
	TableFull uint64 // frames whose source was not learned because the table is full
	PortFull  uint64 // frames whose source was not learned because the port is at its limit
	Pinned    uint64 // frames whose source has a static entry for another port; the entry stays
	Own       uint64 // frames from one of the switch's own addresses: they came through a loop
	Unknown   uint64 // frames to an individual address that is not in the FDB
	// Stormy are frames that were not flooded because of the storm limit, by kind.
	Stormy [FloodKinds]uint64
}

// Bridge forwards the frames of one worker. Its owner writes all fields.
type Bridge struct {
	// Used for every frame.
	mode       Mode
	ageing     lastSeen // as a time span
	forgot     lastSeen // the latest port.since or flush.before
	nextUpkeep int64    // ns: time of the next upkeep
	periodFrom lastSeen // entries last seen before this time have not been announced in this period
	table      table
	ports      []port
	groups     []group
	groupOf    [4096]uint16 // index into groups, by VLAN
	storms     []storm      // by port; nil: no port has a limit
	bpdus      []bucket     // by port
	warmed     uint64       // result of warm, never read
	stats      Stats

	// Used now and then.
	shares      []share     // of the table's room, by port
	anomalies   []PortStats // by port
	common      int         // addresses that ports have learned beyond what is reserved for each
	commonMost  int
	own         []frame.MAC // the switch's own addresses, by port
	sweepEvery  int64       // ticks between two upkeeps
	sweepCursor uint
	untidy      int // slots that the sweep has not reached since addresses were last forgotten
	periodUntil lastSeen
	classifiers []Classifier
	egress      []*Egress // nil: frames leave unchanged
	screens     []Screen
	flushes     []flush // of single VLANs, the oldest first; with capacity maxFlushes
	params      Params  // with defaults; never changes
	succession  succession

	// Used on FCoE VLANs.
	fcoe  []VLANSet                     // by port: FCoE VLANs that it is a member of; nil: FCoE is ordinary traffic
	links *atomic.Pointer[VirtualLinks] // shared: the links that hold now
}

// port is the part of a port that every frame needs.
type port struct {
	vlans   VLANSet // ordinary VLANs that the port is a member of
	pvid    uint16
	refused uint16 // VID bits that a tag must not have; all, if the port accepts no tagged frames
	peer    int32
	since   lastSeen // entries last seen on the port before this time are forgotten
}

// New returns a Bridge. It rejects invalid parameters.
func New(p Params) (*Bridge, error) {
	b, err := build(p.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	if b.mode == Wire {
		return b, nil
	}
	b.table = newTable(b.params.Capacity, b.params.Seed)
	for key, port := range b.params.statics() {
		b.table.insert(key).seen = atLast | pinned | lastSeen(port)
	}
	return b, nil
}

// build makes a Bridge without its table. p has its defaults.
func build(p Params) (*Bridge, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	b := &Bridge{
		params: p,
		own:    make([]frame.MAC, len(p.Ports)), mode: p.Mode, ageing: at(p.Ageing), forgot: longAgo,
		nextUpkeep: math.MinInt64, periodFrom: longAgo, periodUntil: longAgo, flushes: make([]flush, 0, maxFlushes),
		links: p.VirtualLinks,
	}
	for i := range p.Ports {
		pp := &p.Ports[i]
		ordinary, fcoe := p.vlans(i)
		if p.FCoE != nil {
			b.fcoe = append(b.fcoe, fcoe)
		}
		b.ports = append(b.ports, port{
			vlans: ordinary, pvid: pp.PVID, refused: pp.refused(), peer: int32(pp.Peer), since: longAgo,
		})
		b.shares = append(b.shares, share{limit: pp.Limit})
		b.anomalies = append(b.anomalies, PortStats{})
		b.classifiers = append(b.classifiers, pp.Classifier)
		b.egress = append(b.egress, newEgress(pp))
		b.screens = append(b.screens, newScreen(&p, pp.PVID))
		b.bpdus = append(b.bpdus, newBucket(bpduLimit))
	}
	if p.Mode == Wire {
		return b, nil
	}
	b.groups, b.groupOf = groupVLANs(b.ports)
	b.storms = newStorms(p.Ports)
	b.divide(p.Capacity - len(p.Static))
	logBursts := logSlots(p.Capacity) - logSweepBurst
	b.sweepEvery = max(1, p.Ageing>>tickShift/periodsPerAgeing>>logBursts)
	return b, nil
}

// Forward decides where the frames of a burst go that port in received at time now (ns), and learns
// their sources.
//
// Traffic comes in trains. If a frame has the same addresses as the last frame between two known
// addresses, there is nothing to learn or to look up (as in VPP's l2-learn and l2-fwd nodes), and
// the decision for a frame holds for its followers. Forward ends where that need not hold: it
// returns how many frames it has decided, and whether the last one was decided alone, so that its
// followers need a Forward of their own.
//
//go:noinline
func (b *Bridge) Forward(now int64, in int, frames []Frame) (decided int, alone bool) {
	if b.mode == Wire {
		b.wire(now, in, frames)
		return len(frames), false
	}
	if now >= b.nextUpkeep {
		b.upkeep(now)
	}
	p, tick := &b.ports[in], at(now)
	if b.table.used > nearStations {
		b.warm(p, frames)
	}
	train := noTrain
	for i := range frames {
		f := &frames[i]
		if f.Header.Dst == train.Header.Dst && f.Header.Src == train.Header.Src && f.Header.VID == train.Header.VID {
			f.Out, f.Reason, f.Learned = train.Out, Forwarded, false
			continue
		}
		vid := f.Header.VID
		if vid == 0 {
			vid = p.pvid
		}
		f.Reason, f.Learned = Forwarded, false
		if f.Header.Dst.Reserved() {
			f.Out, f.Reason = Nowhere, ReservedAddress
			continue
		}
		if !p.vlans.Has(vid&0xfff) || f.Header.VID&p.refused != 0 {
			f.Out, f.Reason = b.apart(in, vid, &f.Header)
			continue
		}
		learned, known, impossible := b.learn(tick, keyOf(f.Header.Src, vid), in, f.Header.Dst)
		if f.Learned = learned; !known {
			train = noTrain // its destination may be the address that has just moved
		}
		out := int32(Flood)
		if !f.Header.Dst.Group() && !impossible {
			if e := b.table.find(keyOf(f.Header.Dst, vid)); e != nil && b.alive(tick, e) {
				out = int32(e.seen.port())
			} else {
				b.stats.Unknown++
			}
		}
		switch f.Out = out; {
		case impossible || int(out) == in && f.Header.Src == f.Header.Dst:
			f.Out, f.Reason = Nowhere, SourceAddress
		case out < 0:
			b.flood(now, in, f)
		case int(out) == in:
			f.Out, f.Reason = Nowhere, NoDestination
		case known:
			train = f
			continue
		}
		if f.Followers > 0 {
			return i + 1, true
		}
	}
	return len(frames), false
}

// nearStations is the number of entries up to which the table is expected to be in a cache near the
// core.
const nearStations = 4096

// warm reads the slots at which the searches for the frames of a burst begin. These reads do not
// depend on each other, so a burst waits for memory about as long as one frame would.
func (b *Bridge) warm(p *port, frames []Frame) {
	sum := uint64(0)
	for i := range frames {
		h := &frames[i].Header
		vid := h.VID
		if vid == 0 {
			vid = p.pvid
		}
		sum += b.table.slots[b.table.home(keyOf(h.Src, vid))].key + b.table.slots[b.table.home(keyOf(h.Dst, vid))].key
	}
	b.warmed = sum // keeps the compiler from removing the reads
}

// noTrain is a frame that equals no other.
var noTrain = &Frame{Header: frame.Header{Dst: math.MaxUint64}}

// flood decides on a frame to a group address, or to an address that is not in the FDB.
func (b *Bridge) flood(now int64, in int, f *Frame) {
	switch {
	case len(b.Others(in, f.Header.VID)) == 0:
		f.Out, f.Reason = Nowhere, NoDestination
	case f.Header.Dst == frame.BridgeGroup && b.raise(now, in, f):
		f.Out = Flood
	case b.storms != nil && !b.calm(now, in, f.Header.Dst):
		f.Out, f.Reason = Nowhere, StormLimit
	default:
		f.Out = Flood
	}
}

// Others returns the ports to which a frame with a VID that a port received is flooded: all other
// members of its VLAN, in no fixed order. The slice is shared and must not be written.
func (b *Bridge) Others(port int, vid uint16) []uint16 {
	g := &b.groups[b.groupOf[b.VLAN(port, vid)]]
	place := g.place[port]
	if place < 0 {
		return nil
	}
	return g.others(place)
}

// VLAN returns the VLAN of a frame that a port received, by the VID of its tag; 0 stands for none.
func (b *Bridge) VLAN(port int, vid uint16) uint16 {
	if vid == 0 {
		return b.ports[port].pvid
	}
	return vid
}

// raise raises the class of a BPDU, so that no other traffic delays it until the spanning tree of
// its senders takes a loop for an open end. It reports false if the port is beyond its limit: the
// frame then is an ordinary one.
func (b *Bridge) raise(now int64, in int, f *Frame) bool {
	if !b.bpdus[in].take(now) {
		return false
	}
	f.Class = Control
	return true
}

// wire is Forward for wires.
func (b *Bridge) wire(now int64, in int, frames []Frame) {
	peer := b.ports[in].peer
	for i := range frames {
		f := &frames[i]
		f.Out, f.Reason, f.Learned = peer, Forwarded, false
		switch {
		case f.Header.Dst.OneLink():
			f.Out, f.Reason = Nowhere, ReservedAddress
		case peer < 0:
			f.Out, f.Reason = Nowhere, NoDestination
		case f.Header.Dst == frame.BridgeGroup:
			b.raise(now, in, f)
		}
	}
}

// Classifier returns the classifier of frames that a port receives. It never changes.
func (b *Bridge) Classifier(port int) *Classifier { return &b.classifiers[port] }

// Egress returns how frames that leave by a port are changed; nil: not at all. It never changes.
func (b *Bridge) Egress(port int) *Egress { return b.egress[port] }

// Len returns the number of FDB entries. Aged and forgotten ones count until they are removed,
// which takes less than half the ageing time while there is traffic.
func (b *Bridge) Len() int { return b.table.used }

// LearnedOn returns how many of them were learned on a port.
func (b *Bridge) LearnedOn(port int) int { return b.shares[port].used }

// Stats returns the counters.
func (b *Bridge) Stats() Stats { return b.stats }
