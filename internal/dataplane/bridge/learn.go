package bridge

import (
	"math"
	"slices"

	"sluice/internal/frame"
)

// lastSeen is where and when an address was last seen, in a word that compares like the time. From
// the top it has ticks of 1024 ns, a bit that marks a static entry (whose time is atLast), and 12
// bits of port number. Without the lower bits it is a time. Ageing is exact to the tick.
type lastSeen int64

// Tick is the resolution of the time at which an address was last seen, in ns.
const Tick = 1 << tickShift

const (
	tickShift = 10 // ns >> tickShift: ticks
	portBits  = 12
	pinned    = 1 << portBits // the bit of a static entry
	oneTick   = 2 * pinned

	// 36 years away from 0.
	longAgo lastSeen = math.MinInt64 / 2
	atLast  lastSeen = math.MaxInt64 / 2 &^ (oneTick - 1)
)

// at returns a time in ns as a lastSeen.
func at(now int64) lastSeen { return lastSeen(now>>tickShift) * oneTick }

func (s lastSeen) port() int    { return int(s & (pinned - 1)) }
func (s lastSeen) static() bool { return s&pinned != 0 }

// place returns the port number or, for a static entry, a number that no port has.
func (s lastSeen) place() int { return int(s & (oneTick - 1)) }

// periodsPerAgeing makes a period a quarter of the ageing time. In each period the whole table is
// swept once, and each known address is announced once to the other workers, whose own lastSeen of
// it is then older by one period at most.
const periodsPerAgeing = 4

const (
	// sweepBurst is how many slots one upkeep examines.
	sweepBurst    = 1 << logSweepBurst
	logSweepBurst = 4
	// tidyBurst is how many slots Tidy examines.
	tidyBurst = 256
)

// keptPart is the part of the table that is reserved for the ports, in equal shares: a quarter. The
// rest is first come, first served. So no port can take the whole table, and a port that leads to
// most of the network is not limited much.
const keptPart = 4

// share is a port's account of table entries.
type share struct {
	used  int  // learned addresses in the table, including aged and forgotten ones
	kept  int  // addresses for which the table always has room, whatever other ports do
	limit int  // most addresses
	stale bool // see Stale
}

// divide reserves a part of the table, which has capacity for learned addresses, for each port: at
// least one entry, if there are as many.
func (b *Bridge) divide(capacity int) {
	b.commonMost = capacity
	if capacity < len(b.shares) {
		return
	}
	for i := range b.shares {
		p := &b.shares[i]
		p.kept = min(p.limit, max(1, capacity/keptPart/len(b.shares)))
		b.commonMost -= p.kept
	}
}

// hasRoom reports whether a port may have one more address.
func (b *Bridge) hasRoom(p *share) bool {
	return p.used < p.limit && (p.used < p.kept || b.common < b.commonMost)
}

// take and give count an address of a port in and out.
func (b *Bridge) take(p *share) {
	if p.used >= p.kept {
		b.common++
	}
	p.used++
}

func (b *Bridge) give(p *share) {
	p.used--
	if p.used >= p.kept {
		b.common--
	}
}

// Learn adds an address that another worker has seen on one of its ports and announced
// (Frame.Learned), at a time in ns. VLAN 0 stands for the port's PVID. Learn ignores an address
// that was seen elsewhere since, and what this Bridge could not have learned itself: a group
// address, or a VLAN of which the port is not a member. What Learn adds is known even if the port
// has forgotten its addresses since it was seen.
func (b *Bridge) Learn(seen int64, mac frame.MAC, vid uint16, port int) {
	if b.mode == Wire {
		return
	}
	vid = b.VLAN(port, vid)
	if !b.ports[port].vlans.Has(vid) {
		return
	}
	key, tick := keyOf(mac, vid), at(seen)
	if e := b.table.find(key); e != nil && !e.seen.static() && e.seen >= tick+oneTick && b.alive(tick, e) {
		return
	}
	b.learn(tick, key, port, frame.Broadcast)
	if e := b.table.find(key); e != nil && e.seen.place() == port {
		e.seen = max(e.seen, b.ports[port].since|lastSeen(port))
	}
}

// learn records that an address was seen as the source of a frame to dst. It reports whether that
// is news for other workers, whether the address was known to be on that port, and whether no
// station there can have it (SourceAddress).
func (b *Bridge) learn(now lastSeen, key uint64, in int, dst frame.MAC) (news, known, impossible bool) {
	e := b.table.find(key)
	if e != nil {
		if last := e.seen; last.place() == in && b.alive(now, e) {
			e.seen = max(last, now|lastSeen(in)) // last may be ahead of now: see Learn
			return last < b.periodFrom, true, false
		}
	}
	if src := macOf(key); src == 0 || src.Group() || src == dst {
		return false, false, true
	}
	news, impossible = b.learnPlace(now, key, in, e)
	return news, false, impossible
}

// learnPlace learns an address that was not known on port in; e is its entry, or nil.
func (b *Bridge) learnPlace(now lastSeen, key uint64, in int, e *entry) (news, impossible bool) {
	p := &b.shares[in]
	switch {
	case p.stale:
		return false, false
	case e != nil && e.seen.static():
		if at := e.seen.port(); at != in {
			b.stats.Pinned++
			b.note(in, Pinned, key, at)
		}
		return false, false
	case e != nil && b.alive(now, e):
		at := e.seen.port()
		from := &b.shares[at]
		b.give(from)
		if !b.makeRoom(now, in, key) {
			b.take(from) // the address stays: else a port could evict others' addresses by sending frames from them
			return false, false
		}
		e = b.table.find(key) // making room moves entries
		b.stats.Moved++
		b.note(in, Moved, key, at)
	default:
		if e != nil {
			b.remove(b.table.position(key))
		}
		if of := slices.Index(b.own, macOf(key)); of >= 0 { // there are few
			b.stats.Own++
			b.note(in, Own, key, of)
			return false, true
		}
		if !b.makeRoom(now, in, key) {
			return false, false
		}
		e = b.table.insert(key)
		b.stats.Learned++
	}
	b.take(p)
	e.seen = now | lastSeen(in)
	return true, false
}

// makeRoom reports whether a port may have one more address, that of key, and counts a refusal. It
// first tries to remove aged or forgotten entries.
func (b *Bridge) makeRoom(now lastSeen, in int, key uint64) bool {
	p := &b.shares[in]
	if b.hasRoom(p) {
		return true
	}
	if b.sweep(now, sweepBurst); b.hasRoom(p) {
		return true
	}
	if p.used >= p.limit {
		b.stats.PortFull++
	} else {
		b.stats.TableFull++
	}
	b.note(in, NoRoom, key, -1)
	return false
}

// Stale says whether the frames that a port receives from now on are from before its addresses were
// forgotten: it learns no address from them.
func (b *Bridge) Stale(port int, stale bool) { b.shares[port].stale = stale }

// SetOwn sets the switch's own address on a port; 0: none. Own addresses are not learned. If one
// was learned before, its entry ages.
func (b *Bridge) SetOwn(port int, mac frame.MAC) { b.own[port] = mac }

// alive reports whether an entry is valid at now. Its port and VLAN matter only if something was
// forgotten since it was last seen.
func (b *Bridge) alive(now lastSeen, e *entry) bool {
	return e.seen >= now-b.ageing && (e.seen >= b.forgot || b.remembered(e.key, e.seen))
}

// upkeep does the next part of the work of a period. It runs with the first frame of a tick, so
// entries seen before a new period were seen in an earlier tick.
func (b *Bridge) upkeep(now int64) {
	b.nextUpkeep = (now>>tickShift + b.sweepEvery) << tickShift
	b.sweep(at(now), sweepBurst)
	if at(now) >= b.periodUntil {
		b.periodFrom, b.periodUntil = at(now), at(now)+b.ageing/periodsPerAgeing
	}
}

// Tidy removes some of the forgotten addresses. A port's forgotten addresses count while they are
// in the table, and may keep it at its limit. Tidy does nothing after it has examined the whole
// table.
func (b *Bridge) Tidy(now int64) {
	if b.untidy > 0 {
		b.sweep(at(now), tidyBurst)
	}
}

// sweep removes aged and forgotten entries from the next slots. Entries are also judged when looked
// up, so the pace of the sweep matters only for ports without room.
func (b *Bridge) sweep(now lastSeen, slots int) {
	for range slots {
		e := &b.table.slots[b.sweepCursor]
		if e.key != 0 && !b.alive(now, e) {
			b.remove(b.sweepCursor)
			continue // next, examine the entry that moved into the slot
		}
		b.sweepCursor = b.table.after(b.sweepCursor)
		b.untidy = max(0, b.untidy-1)
	}
}

// remove removes the learned address in a slot from the table.
func (b *Bridge) remove(slot uint) {
	b.give(&b.shares[b.table.slots[slot].seen.port()])
	b.table.remove(slot)
	b.stats.Removed++
}

// Forget forgets all addresses learned on a port so far, because it went down; static entries stay.
// It forgets those seen in the same Tick, too. Its cost does not depend on their number.
func (b *Bridge) Forget(now int64, port int) {
	b.ports[port].since = at(now) + oneTick
	b.forgot = max(b.forgot, b.ports[port].since)
	b.untidy = len(b.table.slots)
}
