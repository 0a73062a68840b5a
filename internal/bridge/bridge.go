// Package bridge decides where a frame goes: to the other end of a wire, or by VLAN membership and learned
// addresses to one port or to all of its VLAN (IEEE 802.1Q clauses 8.6 to 8.8).
//
// A Bridge has a single owner and takes no locks. With several workers each has its own; what one learns from its
// ports it tells the others, which take it in with Learn. All memory is allocated at construction.
package bridge

import (
	"fmt"
	"math"
	"time"

	"sluice/internal/frame"
)

// Mode is how a Bridge finds the egress port.
type Mode uint8

const (
	// Learning forwards by VLAN and by the addresses learned from the frames' sources.
	Learning Mode = iota
	// Wire forwards everything that a port receives to its peer. VLANs are not looked at and nothing is learned.
	Wire
)

const (
	// DefaultAgeing is how long an address stays known after it was last seen, in ns (802.1Q table 8-6: 300 s).
	DefaultAgeing = int64(300 * time.Second)
	// DefaultCapacity is how many addresses a Bridge knows at the most.
	DefaultCapacity = 16384
	// MaxCapacity bounds Params.Capacity; the table then takes 48 MiB.
	MaxCapacity = 1 << 20
	// MaxPorts bounds the number of ports.
	MaxPorts = 4096
)

// Values of Decision.Out that are no port.
const (
	Flood   = -1 // to every port in Decision.Flood
	Nowhere = -2 // dropped for Decision.Reason
)

// PortParams describe one port.
type PortParams struct {
	VLANs *VLANSet // the VLANs the port is a member of; nil: all, 1 to 4094
	PVID  uint16   // the VLAN of its untagged and priority-tagged frames; 0: VLAN 1
	Peer  int      // Wire: the port at the other end; -1: none
}

// Params describe a Bridge. A port's index in Ports is its number.
type Params struct {
	Mode     Mode
	Ports    []PortParams
	Ageing   int64  // ns; 0: DefaultAgeing
	Capacity int    // addresses; 0: DefaultCapacity
	Seed     uint64 // of the table's hash; 0: a random one, so that no station can choose addresses that share a slot
}

// Reason says why a frame is dropped.
type Reason uint8

const (
	// Forwarded is the zero Reason: the frame is not dropped.
	Forwarded Reason = iota
	// ReservedAddress: the destination is one of 01-80-C2-00-00-00 to -0F, which no bridge relays (802.1Q table 8-1).
	ReservedAddress
	// VLANIngress: the port is no member of the frame's VLAN.
	VLANIngress
	// NoDestination: the wire has no peer, the station is on the port that the frame came from, or the VLAN has no
	// other member.
	NoDestination
	// Reasons is how many there are.
	Reasons
)

// String returns the stable name that counters use.
func (r Reason) String() string {
	switch r {
	case Forwarded:
		return "forwarded"
	case ReservedAddress:
		return "reserved_address"
	case VLANIngress:
		return "vlan_ingress"
	case NoDestination:
		return "no_destination"
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
	Learned   uint64 // addresses that entered the table; Learned - Removed are in it
	Removed   uint64 // addresses that left it: not seen for the ageing time, or their port was forgotten
	Moved     uint64 // addresses seen on another port than before
	TableFull uint64 // frames whose source could not be learned for want of room
	Unknown   uint64 // frames to an individual address that was not known
}

// Bridge forwards the frames of one worker. Its owner writes all fields.
type Bridge struct {
	// Used for every frame.
	mode       Mode
	ageing     int64
	nextUpkeep int64 // when to do the next piece of upkeep
	periodFrom int64 // sightings before this time have not been announced in this period
	table      table
	ports      []port
	groups     []group
	groupOf    [4096]uint16 // index into groups, by VLAN
	stats      Stats

	// Used now and then.
	capacity    int
	sweepEvery  int64 // ns between two pieces of upkeep
	sweepCursor uint
	periodUntil int64
}

type port struct {
	pvid uint16
	// forgotten counts how often the port was forgotten; addresses learned before the last time carry a lower count.
	forgotten uint32
	peer      int
}

// A quarter of the ageing time is the period in which the whole table is swept once and each known station is
// announced once to the other workers, whose own sighting of it is then older by no more than that.
const periodsPerAgeing = 4

// sweepBurst is how many slots one piece of upkeep looks at.
const sweepBurst = 16

// New builds a Bridge. It refuses parameters that can't work.
func New(p Params) (*Bridge, error) {
	if p.Ageing == 0 {
		p.Ageing = DefaultAgeing
	}
	if p.Capacity == 0 {
		p.Capacity = DefaultCapacity
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	b := &Bridge{
		mode: p.Mode, ageing: p.Ageing, capacity: p.Capacity,
		nextUpkeep: math.MinInt64, periodFrom: math.MinInt64, periodUntil: math.MinInt64,
	}
	for _, pp := range p.Ports {
		if pp.PVID == 0 {
			pp.PVID = 1
		}
		b.ports = append(b.ports, port{pvid: pp.PVID, peer: pp.Peer})
	}
	if p.Mode == Wire {
		return b, nil
	}
	b.groups, b.groupOf = groupVLANs(p.Ports)
	b.table = newTable(p.Capacity, p.Seed)
	bursts := int64(len(b.table.slots) / sweepBurst)
	b.sweepEvery = max(1, p.Ageing/periodsPerAgeing/bursts)
	return b, nil
}

func (p *Params) check() error {
	switch {
	case p.Mode > Wire:
		return fmt.Errorf("mode %d: choose Learning or Wire", p.Mode)
	case len(p.Ports) < 1 || len(p.Ports) > MaxPorts:
		return fmt.Errorf("%d ports: 1 to %d are possible", len(p.Ports), MaxPorts)
	case p.Ageing < 0:
		return fmt.Errorf("ageing of %d ns: it can't be negative", p.Ageing)
	case p.Capacity < 0 || p.Capacity > MaxCapacity:
		return fmt.Errorf("capacity of %d addresses: 1 to %d are possible", p.Capacity, MaxCapacity)
	}
	for i, pp := range p.Ports {
		if err := p.checkPort(i, pp); err != nil {
			return fmt.Errorf("port %d: %w", i, err)
		}
	}
	return nil
}

func (p *Params) checkPort(i int, pp PortParams) error {
	switch {
	case pp.PVID > maxVLAN:
		return fmt.Errorf("PVID %d: choose 1 to %d", pp.PVID, maxVLAN)
	case pp.VLANs != nil && (pp.VLANs.Has(0) || pp.VLANs.Has(4095)):
		return fmt.Errorf("member of VLAN 0 or 4095: both are reserved, take it out of the set (802.1Q table 9-2)")
	case p.Mode == Wire && (pp.Peer < -1 || pp.Peer >= len(p.Ports) || pp.Peer == i):
		return fmt.Errorf("peer %d: name another port, or -1 for none", pp.Peer)
	}
	return nil
}

// Forward decides where a frame that port in received at time now (ns) goes, and learns its source. Ageing is exact:
// an address seen ageing ns ago is still known, one ns later it is not.
func (b *Bridge) Forward(now int64, in int, h *frame.Header) Decision {
	if h.Dst.Reserved() {
		return Decision{Out: Nowhere, Reason: ReservedAddress}
	}
	if b.mode == Wire {
		return b.wire(in)
	}
	vid := b.vlan(in, h.VID)
	g := &b.groups[b.groupOf[vid]]
	place := g.place[in]
	if place < 0 {
		return Decision{Out: Nowhere, Reason: VLANIngress}
	}
	if now >= b.nextUpkeep {
		b.upkeep(now)
	}
	learned := false
	if !h.Src.Group() {
		learned = b.learn(now, keyOf(h.Src, vid), in)
	}
	if !h.Dst.Group() {
		if e := b.table.find(keyOf(h.Dst, vid)); e != nil && b.alive(now, e) {
			if int(e.port) == in {
				return Decision{Out: Nowhere, Reason: NoDestination, Learned: learned}
			}
			return Decision{Out: int32(e.port), Learned: learned}
		}
		b.stats.Unknown++
	}
	others := g.others(place)
	if len(others) == 0 {
		return Decision{Out: Nowhere, Reason: NoDestination, Learned: learned}
	}
	return Decision{Out: Flood, Flood: others, Learned: learned}
}

// vlan returns the VLAN of a frame from its tag, 0 without one.
func (b *Bridge) vlan(port int, tag uint16) uint16 {
	if tag == 0 {
		return b.ports[port].pvid
	}
	return tag
}

func (b *Bridge) wire(in int) Decision {
	peer := b.ports[in].peer
	if peer < 0 {
		return Decision{Out: Nowhere, Reason: NoDestination}
	}
	return Decision{Out: int32(peer)}
}

// Learn takes in that another worker has seen an address on one of its ports, as that worker's Forward told it. VLAN
// 0 stands for the port's PVID. What this Bridge can't have learned itself is ignored: a group address, a VLAN that
// the port is no member of.
func (b *Bridge) Learn(now int64, mac frame.MAC, vid uint16, port int) {
	if b.mode == Wire || mac.Group() {
		return
	}
	vid = b.vlan(port, vid)
	if b.groups[b.groupOf[vid]].place[port] < 0 {
		return
	}
	b.learn(now, keyOf(mac, vid), port)
}

// learn notes that an address was seen and tells whether that is news for other workers.
func (b *Bridge) learn(now int64, key uint64, port int) bool {
	e := b.table.find(key)
	if e != nil && b.alive(now, e) && int(e.port) == port {
		news := e.seen < b.periodFrom
		e.seen = now
		return news
	}
	switch {
	case e == nil:
		if b.table.used == b.capacity && !b.sweep(now) {
			b.stats.TableFull++
			return false
		}
		e = b.table.insert(key)
		b.stats.Learned++
	case b.alive(now, e):
		b.stats.Moved++
	default:
		b.stats.Removed++
		b.stats.Learned++
	}
	e.seen, e.port, e.forgotten = now, uint16(port), b.ports[port].forgotten
	return true
}

// alive tells whether an entry still counts.
func (b *Bridge) alive(now int64, e *entry) bool {
	return now-e.seen <= b.ageing && e.forgotten == b.ports[e.port].forgotten
}

// upkeep does the next piece of what must be done once per period, whatever the traffic.
func (b *Bridge) upkeep(now int64) {
	b.nextUpkeep = now + b.sweepEvery
	b.sweep(now)
	if now >= b.periodUntil {
		b.periodFrom, b.periodUntil = now, now+b.ageing/periodsPerAgeing
	}
}

// sweep removes the dead entries among the next few slots and tells whether there were any. Nothing depends on how
// soon it comes round, as entries are judged when looked up; it only makes room.
func (b *Bridge) sweep(now int64) bool {
	before := b.table.used
	for range sweepBurst {
		e := &b.table.slots[b.sweepCursor]
		if e.key != 0 && !b.alive(now, e) {
			b.table.remove(b.sweepCursor)
			continue // what moved into the slot is looked at next
		}
		b.sweepCursor = b.table.after(b.sweepCursor)
	}
	removed := before - b.table.used
	b.stats.Removed += uint64(removed)
	return removed > 0
}

// Forget drops all addresses learned on a port, because it went down. It takes the same short time whatever their
// number.
func (b *Bridge) Forget(port int) { b.ports[port].forgotten++ }

// Len returns how many addresses the table holds. Those that have aged or were forgotten count until they are
// removed, which while there is traffic takes less than half the ageing time.
func (b *Bridge) Len() int { return b.table.used }

// Stats returns the counts so far.
func (b *Bridge) Stats() Stats { return b.stats }

// Classify returns the priority of a frame: its PCP when tagged, priority-tagged (VLAN 0) included, and def otherwise.
func Classify(h *frame.Header, def uint8) uint8 {
	if h.Tagged {
		return h.PCP
	}
	return def
}
