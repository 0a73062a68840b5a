package bridge

import (
	"cmp"
	"math/bits"
	"math/rand/v2"

	"sluice/internal/frame"
)

// table maps an address in a VLAN to where and when it was last seen. It is a hash table with
// linear probing in one flat slice, with at least four times as many slots as entries. So a search
// rarely goes beyond its first slot, and the processor predicts that; a misprediction waits for
// memory and costs more than all the rest. With fewer slots, look-ups of scattered addresses cost a
// third more; with more slots, the table outgrows the caches. Removal moves later entries of the
// run back (Knuth, The Art of Computer Programming 6.4, algorithm R), so there are no tombstones,
// and a search ends at the first empty slot.
type table struct {
	slots []entry
	shift uint8  // of a hash, to get a slot
	seed  uint64 // see Params.Seed
	used  int
}

// entry is 16 bytes: four share a cache line.
type entry struct {
	key  uint64 // keyOf; 0: the slot is empty
	seen lastSeen
}

// keyOf returns the key of an address in a VLAN. It is never 0, since no frame is in VLAN 0.
func keyOf(mac frame.MAC, vid uint16) uint64 { return uint64(mac)<<12 | uint64(vid) }

// macOf returns the address of a key.
func macOf(key uint64) frame.MAC { return frame.MAC(key >> 12) }

// logSlots returns the base-2 logarithm of the number of slots for capacity entries.
func logSlots(capacity int) int { return max(2+bits.Len(uint(capacity-1)), logSweepBurst) }

func newTable(capacity int, seed uint64) table {
	logSlots := logSlots(capacity)
	return table{slots: make([]entry, 1<<logSlots), shift: uint8(64 - logSlots), seed: cmp.Or(seed, rand.Uint64())}
}

// home returns the slot at which the search for a key starts. It uses both halves of the product,
// so every bit of the key counts. The multiplier is one of wyhash's: with 2^64 divided by the
// golden ratio, the halves are correlated for addresses a power of two apart.
func (t *table) home(key uint64) uint {
	hi, lo := bits.Mul64(key^t.seed, 0xa0761d6478bd642f)
	return uint((hi ^ lo) >> (t.shift & 63))
}

func (t *table) after(i uint) uint { return (i + 1) & uint(len(t.slots)-1) }

// find returns the entry of a key, or nil.
func (t *table) find(key uint64) *entry {
	for i := t.home(key); ; i = t.after(i) {
		e := &t.slots[i]
		if e.key == key {
			return e
		}
		if e.key == 0 {
			return nil
		}
	}
}

// position returns the slot of a key that is in the table.
func (t *table) position(key uint64) uint {
	i := t.home(key)
	for t.slots[i].key != key {
		i = t.after(i)
	}
	return i
}

// insert adds a key that is not in the table. The caller observes the capacity, so most slots are
// empty.
func (t *table) insert(key uint64) *entry {
	i := t.home(key)
	for t.slots[i].key != 0 {
		i = t.after(i)
	}
	t.used++
	t.slots[i].key = key
	return &t.slots[i]
}

// remove empties slot i and closes the gap in the run of entries after it.
func (t *table) remove(i uint) {
	mask := uint(len(t.slots) - 1)
	gap := i
	for i = t.after(i); t.slots[i].key != 0; i = t.after(i) {
		// An entry may move back to the gap unless its search starts behind the gap.
		if (i-t.home(t.slots[i].key))&mask >= (i-gap)&mask {
			t.slots[gap] = t.slots[i]
			gap = i
		}
	}
	t.slots[gap] = entry{}
	t.used--
}
