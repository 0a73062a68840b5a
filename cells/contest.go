package cells

import "math/bits"

// contest is about the room of a queue, or of a pool, that has refused a lossy frame: which ports are to have it.
//
// If it went to whoever asks first after a frame has left, then where senders and receiver keep step that would always be
// the same one (S. Floyd, V. Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", Internetworking: Research
// and Experience 3(3), 1992). So a port may take as much as any other has taken in the contest; and more only if enough is
// left for all others to follow. The contest ends when the queue, or pool, is no more than half full. Lossless groups take
// no part: they are not to wait.
type contest struct {
	on      bool
	ports   uint64              // that have asked: bit n is port n, n + contestants, …
	taken   [contestants]uint32 // cells, by port
	level   uint32              // the most that any has taken
	due     int32               // what they are below it, added up
	refused int32               // frames
}

const (
	contestants = 64
	// lead: by one in so many of all cells more may be due than there is room for. So bursts are let in whole as long as nobody lags far behind.
	lead = 8
	// patience is how many frames a contest refuses at the most. It would have no end where room is kept for a port that has
	// nothing to send any more, and nothing else leaves.
	patience = 1 << 16
)

// admits tells whether a frame of a port is let in. It is not if it does not fit, or if the room is left to others. used is
// what the queue or pool holds, room what it can take for several frames, all in cells.
func (c *contest) admits(port int, cells int32, fits bool, used, room int32) bool {
	if fits && c.over(cells, used, room) {
		return true
	}
	grant := c.grant(port, used, room)
	alone := c.ports&(c.ports-1) == 0
	if !fits || cells > grant && !alone {
		c.refused++
		return false
	}
	c.take(port, cells)
	return true
}

// over tells whether there is no contest, since none has begun, or half of the queue, or pool, is free, or it has gone on
// for long.
func (c *contest) over(cells, used, room int32) bool {
	if c.on && (used+cells <= room || c.refused >= patience) {
		c.on = false
	}
	return !c.on
}

// grant returns how many cells a port may take, and begins the contest if there is none.
func (c *contest) grant(port int, used, room int32) int32 {
	if !c.on {
		*c = contest{on: true}
	}
	n := uint(port) % contestants
	if c.ports>>n&1 == 0 {
		c.ports |= 1 << n
		c.taken[n] = c.level
	}
	due, others := int32(c.level-c.taken[n]), int32(bits.OnesCount64(c.ports))-1
	// The most, x, after which what is due to the others, c.due - due + others * (x - due), is no more than the rest of the
	// room and the lead.
	most := (room + (used+room)/lead - c.due + due + others*due) / (1 + others)
	return min(room, max(due, most))
}

// take takes note of cells that a port takes.
func (c *contest) take(port int, cells int32) {
	n := uint(port) % contestants
	c.taken[n] += uint32(cells)
	if more := int32(c.taken[n] - c.level); more > 0 { // which the others may take, too
		c.level += uint32(more)
		c.due += int32(bits.OnesCount64(c.ports)) * more
	}
	c.due -= cells
}
