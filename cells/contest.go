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
	// patience is how many frames a contest refuses at the most. It would have no end where room is kept for a port that has
	// nothing to send any more, and nothing else leaves.
	patience = 1 << 16
)

// admits tells whether a frame of a port is let in. It is not if it does not fit, or if the room is left to others. used is
// what the queue or pool holds, room what it can take for several frames, all in cells.
func (c *contest) admits(port int, cells int32, fits bool, used, room int32) bool {
	if fits && (!c.on || c.over(cells, used, room)) {
		c.on = false
		return true
	}
	if !c.on {
		*c = contest{on: true}
	}
	n := port % contestants
	if c.ports>>n&1 == 0 {
		c.ports |= 1 << n
		c.taken[n] = c.level
	}
	if !fits || c.leaves(port, cells, room) {
		c.refused++
		return false
	}
	c.take(n, cells)
	return true
}

// over tells whether the contest is: half of the queue, or pool, is free, or it has gone on for long.
func (c *contest) over(cells, used, room int32) bool {
	return used+cells <= room || c.refused >= patience
}

// leaves tells whether a port is to leave so many cells to others.
func (c *contest) leaves(port int, cells, room int32) bool {
	n := port % contestants
	due := int32(0)
	if c.ports>>n&1 != 0 {
		due = int32(c.level - c.taken[n])
	}
	if cells <= due {
		return false
	}
	others := int32(bits.OnesCount64(c.ports &^ (1 << n)))
	theirs := c.due - due + others*(cells-due)
	return theirs > 0 && cells+theirs > room
}

// take takes note of cells that a port takes.
func (c *contest) take(n int, cells int32) {
	c.taken[n] += uint32(cells)
	if more := int32(c.taken[n] - c.level); more > 0 { // which the others may take, too
		c.level += uint32(more)
		c.due += int32(bits.OnesCount64(c.ports)) * more
	}
	c.due -= cells
}
