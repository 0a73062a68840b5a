package bridge

import "sluice/internal/frame"

// FDBEntry is an address and the port to which it belongs.
type FDBEntry struct {
	MAC    frame.MAC
	VID    uint16
	Port   int
	Static bool
	Age    int64 // ns since the last frame from it, to within a tick of 1024 ns; 0 if static
}

// Dump appends to into the entries in the next slots of the table, starting with slot from, and
// returns the slot to continue with, 0 at the end. It examines that many slots, however many
// entries they hold. Entries that are learned, moved or removed between two calls may be missed or
// appear twice.
func (b *Bridge) Dump(now int64, from, slots int, into []FDBEntry) (entries []FDBEntry, next int) {
	from = min(from, len(b.table.slots))
	to := min(from+slots, len(b.table.slots))
	for i := range b.table.slots[from:to] {
		e := &b.table.slots[from+i]
		if e.key == 0 || !b.alive(at(now), e) {
			continue
		}
		into = append(into, e.describe(now))
	}
	if to == len(b.table.slots) {
		return into, 0
	}
	return into, to
}

// Find returns the entry of an address in a VLAN.
func (b *Bridge) Find(now int64, mac frame.MAC, vid uint16) (e FDBEntry, known bool) {
	found := b.table.find(keyOf(mac, vid))
	if found == nil || !b.alive(at(now), found) {
		return e, false
	}
	return found.describe(now), true
}

func (e *entry) describe(now int64) FDBEntry {
	s := FDBEntry{MAC: macOf(e.key), VID: uint16(e.key & 0xfff), Port: e.seen.port(), Static: e.seen.static()}
	if !s.Static {
		s.Age = max(0, int64((at(now)-e.seen&^(oneTick-1))/oneTick)<<tickShift)
	}
	return s
}
