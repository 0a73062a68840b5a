package sched

import (
	"fmt"
	"math/bits"
)

const (
	maxWeight  = 1 << 30
	maxQuantum = 1 << 30 // bytes a turn; leaves room for a deficit in int32
)

// round is one deficit round robin among eight members, of which it knows nothing but that they want to send bytes.
// Members have turns in the order of their numbers. In its turn a member sends while its next frame fits its
// deficit; then the turn ends and the deficit grows by the quantum, ready for the next turn. Quanta are at least one
// maximum frame, so that every turn sends something and the cost of a frame does not depend on the weights.
//
// A member whose turn comes, or is running, while it may not send (it is paused) does not hold up the others: the
// round goes on and owes it the turn, one at most, with the deficit it has. It takes that turn as soon as it may send
// again, ahead of whose turn it is, so that a member is not starved by pauses that keep coinciding with its turns.
type round struct {
	members  uint8         // bit n: member n has something to send
	owed     uint8         // bit n: member n missed (the rest of) its turn
	cursor   uint8         // the member whose turn it is; if it has nothing to send, the next one that has
	quanta   [Queues]int32 // bytes a turn; never changes
	deficits [Queues]int32 // bytes a member may still send in this turn, or in its next one
}

// newRound turns weights into quanta: the smallest becomes one maximum frame, so that turns are as short as they can
// be, and the rest are in proportion. A weight of 0 counts as the smallest.
func newRound(weights [Queues]int, maxFrame int) (round, error) {
	least := 0
	for i, w := range weights {
		if w < 0 || w > maxWeight {
			return round{}, fmt.Errorf("queue %d: weight %d: must be 0 to %d", i, w, maxWeight)
		}
		if w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	var r round
	for i, w := range weights {
		if w == 0 {
			r.quanta[i] = int32(maxFrame)
			continue
		}
		if most := maxQuantum / maxFrame * least; w > most {
			return round{}, fmt.Errorf("queue %d: weight %d beside a weight of %d: must be at most %d", i, w, least, most)
		}
		r.quanta[i] = int32((maxFrame*w + least/2) / least)
	}
	return r, nil
}

// join makes a member that had nothing to send take part, with a fresh deficit.
func (r *round) join(member int) {
	r.members |= 1 << member
	r.deficits[member] = r.quanta[member]
}

// leave ends the part of a member that has nothing left to send. Its turn, if it had it, is over: coming back with
// the next frame, it waits for the others.
func (r *round) leave(member int) {
	r.members &^= 1 << member
	r.endTurn(member)
}

// turn returns the member whose turn it is among those in ready: members that may send, at least one.
func (r *round) turn(ready uint8) int {
	if owed := r.owed & ready; owed != 0 {
		return bits.TrailingZeros8(owed)
	}
	// Seen from the cursor, in the order of turns: the members that the round passes over are owed theirs.
	members := bits.RotateLeft8(r.members, -int(r.cursor))
	first := bits.TrailingZeros8(bits.RotateLeft8(ready, -int(r.cursor)))
	passed := members & (1<<first - 1)
	r.owed |= bits.RotateLeft8(passed, int(r.cursor))
	r.cursor = (r.cursor + uint8(first)) % Queues
	return int(r.cursor)
}

// charge takes a frame of length bytes off the deficit of the member whose turn it is, or else ends the turn.
func (r *round) charge(member, length int) bool {
	if int(r.deficits[member]) < length {
		r.deficits[member] += r.quanta[member]
		r.endTurn(member)
		return false
	}
	r.deficits[member] -= int32(length)
	return true
}

// endTurn ends the member's turn: the one it was owed, the one it has, or both, if the round came by meanwhile.
func (r *round) endTurn(member int) {
	r.owed &^= 1 << member
	if int(r.cursor) == member {
		r.cursor = (r.cursor + 1) % Queues
	}
}
