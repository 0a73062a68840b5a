package sched

import (
	"fmt"
	"math/bits"
)

const (
	maxWeight  = 1 << 30
	maxQuantum = 1 << 30 // bytes a turn; leaves room for a deficit in int32
)

// level is one of the two decisions for each frame: which group, or which queue of a group. It
// chooses among eight members, of which it knows only whether they have something to send. Strict
// members go first, the highest number before the others; the rest share by deficit round robin.
//
// Members of the round take turns in the order of their numbers. In its turn a member sends while
// its next frame fits its deficit; then the turn ends, and the deficit grows by the quantum for the
// next turn. Quanta are at least one maximum frame, so every turn sends something, and the cost of
// a frame does not depend on the weights.
//
// A member that may not send (it is paused or shaped) when its turn comes, or during its turn, does
// not hold up the others. The round goes on and owes it the turn, with the deficit it has; at most
// one turn is owed. The member takes that turn as soon as it may send again, before the member
// whose turn it is, so it does not starve if pauses keep coinciding with its turns.
type level struct {
	strict   uint8         // bit n: member n is strict; never changes
	members  uint8         // bit n: member n has something to send and is not strict, so it is in the round
	ahead    uint8         // bit n: member n goes before the cursor: it is strict, or owed (the rest of) a turn
	cursor   uint8         // the member whose turn it is, or where the search for it begins
	deficits [Queues]int32 // bytes that a member may still send in this turn, or in its next one
	quanta   [Queues]int32 // bytes per turn; maxQuantum for strict members, which take no turns
}

// prefer makes a member strict.
func (l *level) prefer(member uint8) {
	l.strict |= 1 << member
	l.ahead |= 1 << member
}

// weigh converts the weights of the members in the set all to quanta. The smallest weight gets one
// longest frame, which makes turns as short as possible, and the others are in proportion. A weight
// of 0 counts as the smallest. Strict members, and a member without competitors, need no turns.
func (l *level) weigh(all uint8, weights [Queues]int, longest int) error {
	shared := all &^ l.strict
	least := 0
	for i, w := range weights {
		if shared>>i&1 == 0 {
			continue
		}
		if w < 0 || w > maxWeight {
			return fmt.Errorf("weight %d: must be 0 to %d", w, maxWeight)
		}
		if w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	for i, w := range weights {
		quantum := longest
		switch {
		case shared>>i&1 == 0 || shared == 1<<i:
			quantum = maxQuantum
		case w > maxQuantum/longest*least:
			return fmt.Errorf("weight %d beside a weight of %d: must be at most %d", w, least, maxQuantum/longest*least)
		case w > 0:
			quantum = (longest*w + least/2) / least
		}
		l.quanta[i] = int32(quantum)
	}
	return nil
}

// takeOver continues the turns of old, which has the same members. A running or owed turn
// continues, but not beyond what the new quantum allows.
func (l *level) takeOver(old *level, longest int) {
	l.members, l.ahead, l.cursor = old.members, old.ahead, old.cursor
	for i, deficit := range old.deficits {
		l.deficits[i] = min(deficit, l.quanta[i]+int32(longest-1))
	}
}

// join adds a member that had nothing to send, with a fresh deficit.
func (l *level) join(member uint8) {
	l.members |= 1 << member &^ l.strict
	l.deficits[member%Queues] = l.quanta[member%Queues]
}

// leave removes a member that has nothing left to send and ends its turn: when it joins again with
// its next frame, it waits for the others.
func (l *level) leave(member uint8) {
	l.members &^= 1 << member
	l.endTurn(member)
}

// turn returns the member whose turn it is among ready, the members that may send; there is at
// least one.
func (l *level) turn(ready uint8) uint8 {
	if ready&l.ahead == 0 && ready>>l.cursor&1 == 1 {
		return l.cursor // the usual case: choose would return the same
	}
	return l.choose(ready)
}

// choose is turn for every case.
func (l *level) choose(ready uint8) uint8 {
	if strict := ready & l.strict; strict != 0 {
		return uint8(bits.Len8(strict) - 1)
	}
	if owed := ready & l.ahead; owed != 0 {
		return uint8(bits.TrailingZeros8(owed))
	}
	away := bits.TrailingZeros8(bits.RotateLeft8(ready, -int(l.cursor)))
	// members that the round passes over are owed their turns
	if waiting := l.members &^ ready; waiting != 0 {
		l.ahead |= waiting & bits.RotateLeft8(1<<away-1, int(l.cursor))
	}
	l.cursor = (l.cursor + uint8(away)) % Queues
	return l.cursor
}

// left returns how many bytes the member may still send in this turn.
func (l *level) left(member uint8) int { return int(l.deficits[member%Queues]) }

// spend takes bytes off the deficit, and ends the turn if the rest does not cover the next frame.
func (l *level) spend(member uint8, bytes, next int) {
	d := &l.deficits[member%Queues]
	if *d -= int32(bytes); int(*d) < next {
		*d += l.quanta[member%Queues]
		l.endTurn(member)
	}
}

// endTurn ends the member's turn: the one that it was owed, the one that it has, or both, if the
// round has reached it in the meantime.
func (l *level) endTurn(member uint8) {
	l.ahead = l.ahead&^(1<<member) | l.strict
	if l.cursor == member {
		after := member + 1
		l.cursor = (after + uint8(bits.TrailingZeros8(bits.RotateLeft8(l.members, -int(after))))) % Queues
	}
}
