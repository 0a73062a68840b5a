package bridge

import (
	"math"
	"slices"

	"sluice/internal/frame"
)

// lastSeen is where and when a station was last seen, in a word that compares like the time: upmost
// ticks of 1024 ns, then a bit that is set in a static entry, whose time is the last there is, then
// 12 bits of port number. Without the lower bits it is a time. Ageing is exact in ticks.
type lastSeen int64

const (
	tickShift = 10 // ns >> tickShift: ticks
	portBits  = 12
	pinned    = 1 << portBits // the bit of a static entry
	oneTick   = 2 * pinned

	// 36 years away from 0.
	longAgo lastSeen = math.MinInt64 / 2
	atLast  lastSeen = math.MaxInt64 / 2 &^ (oneTick - 1)
)

// at is a time given in ns.
func at(now int64) lastSeen { return lastSeen(now>>tickShift) * oneTick }

func (s lastSeen) port() int    { return int(s & (pinned - 1)) }
func (s lastSeen) static() bool { return s&pinned != 0 }

// place is the port number, or a number that no port has for a static entry.
func (s lastSeen) place() int { return int(s & (oneTick - 1)) }

// A quarter of the ageing time is the period in which the whole table is swept once and each known
// station is announced once to the other workers, whose own lastSeen of it is then older by no more
// than that.
const periodsPerAgeing = 4

const (
	// sweepBurst is how many slots one piece of upkeep looks at.
	sweepBurst = 16
	// tidyBurst is how many Tidy looks at.
	tidyBurst = 256
)

// keptPart is which part of the table is kept for the ports, in equal shares: a quarter. The rest
// goes to whoever comes first. So no port can take all, and one that leads to most of the network
// is not held back much.
const keptPart = 4

// share is what a port has of the table.
type share struct {
	used  int // learned addresses in the table, dead ones included
	kept  int // for so many the table always has room, whatever other ports do
	limit int // addresses at the most
}

// divide lays down how much of a table for capacity learned addresses each port has for itself: one
// at least, if there are as many.
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

// hasRoom tells whether a port may have one more address.
func (b *Bridge) hasRoom(p *share) bool {
	return p.used < p.limit && (p.used < p.kept || b.common < b.commonMost)
}

// take and give keep the accounts of who has how many addresses.
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

// Learn takes in that another worker has seen an address on one of its ports, as that worker's
// Forward told it. VLAN 0 stands for the port's PVID. What this Bridge can't have learned itself is
// ignored: a group address, a VLAN that the port is no member of.
func (b *Bridge) Learn(now int64, mac frame.MAC, vid uint16, port int) {
	if b.mode == Wire || mac.Group() {
		return
	}
	vid = b.VLAN(port, vid)
	if !b.ports[port].vlans.Has(vid) {
		return
	}
	b.learn(at(now), keyOf(mac, vid), port)
}

// learn notes that an address was seen. It tells whether that is news for other workers, and
// whether the station was known to be there.
func (b *Bridge) learn(now lastSeen, key uint64, in int) (news, known bool) {
	e := b.table.find(key)
	if e != nil {
		if last := e.seen; last.place() == in && b.alive(now, e) {
			e.seen = now | lastSeen(in)
			return last < b.periodFrom, true
		}
	}
	return b.learnPlace(now, key, in, e), false
}

// learnPlace learns a station that is not where it was, if it was anywhere: e is its entry or nil.
func (b *Bridge) learnPlace(now lastSeen, key uint64, in int, e *entry) bool {
	p := &b.shares[in]
	switch {
	case e != nil && e.seen.static():
		if at := e.seen.port(); at != in {
			b.stats.Pinned++
			b.note(in, Pinned, key, at)
		}
		return false
	case e != nil && b.alive(now, e):
		at := e.seen.port()
		from := &b.shares[at]
		b.give(from)
		if !b.makeRoom(now, in, key) {
			b.take(from) // the station stays where it was: or else a port could evict others' with frames in their name
			return false
		}
		e = b.table.find(key) // making room moves entries
		b.stats.Moved++
		b.note(in, Moved, key, at)
	default:
		if e != nil {
			b.remove(b.table.position(key))
		}
		if b.isOwn(macOf(key)) {
			b.stats.Own++
			b.note(in, Own, key, -1)
			return false
		}
		if !b.makeRoom(now, in, key) {
			return false
		}
		e = b.table.insert(key)
		b.stats.Learned++
	}
	b.take(p)
	e.seen = now | lastSeen(in)
	return true
}

// makeRoom tells whether a port may have one more address, that of a key, and counts when it may
// not. If dead entries are in the way it looks for some.
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

// SetOwn says which address a port of the switch has itself; 0: none. Such an address is not
// learned. One that was learned before ages.
func (b *Bridge) SetOwn(port int, mac frame.MAC) { b.own[port] = mac }

// isOwn is asked only for a new address. Ports are a handful.
func (b *Bridge) isOwn(mac frame.MAC) bool {
	return mac != 0 && slices.Contains(b.own, mac)
}

// alive tells whether an entry still counts at a time. Only if something was forgotten since it was
// seen must it be known where that was.
func (b *Bridge) alive(now lastSeen, e *entry) bool {
	return e.seen >= now-b.ageing && (e.seen >= b.forgot || b.remembered(e.key, e.seen))
}

// upkeep does the next piece of what must be done once per period, whatever the traffic. It comes
// with the first frame of a tick: what was seen before the new period is then seen in an earlier
// tick.
func (b *Bridge) upkeep(now int64) {
	b.nextUpkeep = (now>>tickShift + b.sweepEvery) << tickShift
	b.sweep(at(now), sweepBurst)
	if at(now) >= b.periodUntil {
		b.periodFrom, b.periodUntil = at(now), at(now)+b.ageing/periodsPerAgeing
	}
}

// Tidy removes the next few of the addresses that were forgotten: those of a port count as long as
// they are in the table, and may keep it at its limit. It does nothing once the whole table has
// been looked at.
func (b *Bridge) Tidy(now int64) {
	if b.untidy > 0 {
		b.sweep(at(now), tidyBurst)
	}
}

// sweep removes the dead entries among the next few slots. Entries are judged when looked up, so
// how soon it comes round matters only to ports without room.
func (b *Bridge) sweep(now lastSeen, slots int) {
	for range slots {
		e := &b.table.slots[b.sweepCursor]
		if e.key != 0 && !b.alive(now, e) {
			b.remove(b.sweepCursor)
			continue // what moved into the slot is looked at next
		}
		b.sweepCursor = b.table.after(b.sweepCursor)
		b.untidy = max(0, b.untidy-1)
	}
}

// remove takes the learned address in a slot out of the table.
func (b *Bridge) remove(slot uint) {
	b.give(&b.shares[b.table.slots[slot].seen.port()])
	b.table.remove(slot)
	b.stats.Removed++
}

// Forget drops all addresses learned on a port up to now, because it went down; static entries
// stay. It takes the same short time whatever their number.
func (b *Bridge) Forget(now int64, port int) {
	b.ports[port].since = at(now) + oneTick
	b.forgot = max(b.forgot, b.ports[port].since)
	b.untidy = len(b.table.slots)
}
