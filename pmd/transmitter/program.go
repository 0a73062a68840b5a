package transmitter

import (
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"sluice/pmd/xdprun"
)

// The program runs once per frame that the kernel makes. The frame becomes the next frame of the
// first port that has one, starting with the port whose turn it is, or is dropped:
//
//	begin:                                                       beginLooking
//		if this is another CPU: drop
//		runs++
//		left, place = count, turn, or 0 if there are fewer slots now
//		if left == 0: goto ring
//	look:                                                        lookAtSlot
//		slot = order[place++]
//		if !slot.away && slot.producer != slot.consumer: goto take
//		if --left > 0: goto look
//	ring:                                                        wakeWorker
//		if a batch begins and a worker waits: wake it
//	drop:
//		return XDP_DROP
//	take:                                                        takeDescriptor
//		turn = place
//		if slot.down: goto unsent
//		address, length = slot.ring[slot.consumer % ring]
//		if they are not a frame: goto invalid
//		frame = memory[address:][:length]                    copyFrame
//		slot.consumer++           // the buffer is the worker's
//		if slot.number is no device: slot.gone++, drop       redirectFrame
//		slot.frames++
//		return XDP_REDIRECT
//	unsent, invalid:                                             passOver
//		count it
//		slot.consumer++
//		return XDP_DROP
//
// Jumps to drop that never happen (AtMost, Below) are omitted.
//
// Words that synchronize the program and Go code are accessed in order (o). Each has a partner:
//
//	runs       the program's stores     a waiter for runs (flushed) sees the effects of earlier runs
//	count      arrange's store          the order has at least count slots
//	away       Port.Flush's store       the indices are as new as the worker left them
//	producer   ring.Ring's store        the descriptors and their frames are written
//	consumer   the program's stores     the worker (ring.Ring) may reuse the buffers: they were read
func code(l layout, o xdprun.Ordering, rings, memory *xdprun.Shared, devices *ebpf.Map, b *bell) []asm.Instructions {
	return []asm.Instructions{
		beginLooking(l, o, rings),
		lookAtSlot(l, o, rings),
		wakeWorker(rings, b),
		xdprun.Drop("drop"),
		takeDescriptor(l, rings),
		copyFrame(l, o, memory),
		redirectFrame(devices),
		passOver(o),
	}
}

// Registers that keep their values, with their names in the pseudo-code.
const (
	ctx  = asm.R6 // of the frame
	slot = asm.R8
	// while looking for a slot with a frame:
	left  = asm.R7 // slots still to look at
	place = asm.R9 // in the order
	// after finding one:
	address = asm.R7 // of the frame in the memory
	length  = asm.R9
)

// The memory that the program shares with others, in words: the number of its runs, whose turn it
// is, the record of the bell, the number of slots in the order, the order of the taken slots
// (xdprun.Turns), and the slots.
const (
	wordRuns  = 0 // written by the program
	wordTurn  = 1 // written by the program: a place in the order
	wordBell  = 1 * line
	wordCount = 2 * line // written by the control plane, like the order
	wordOrder = wordCount + 1

	line = 128 / xdprun.WordSize // words between those that the program writes and those that others write
)

// A slot is the memory that one port shares with the program. Offsets are in words from its start.
// An index of a ring is the first 32 bits of its word.
const (
	// Written by the program. The first is an index: frames before it have been copied, and their
	// buffers are free. The others count frames.
	slotConsumer = 0 * line
	slotFrames   = slotConsumer + 1 // redirected
	slotInvalid  = slotConsumer + 2
	slotGone     = slotConsumer + 3 // without a device
	slotUnsent   = slotConsumer + 4 // dropped because the link is down
	slotProducer = 1 * line         // index, written by the worker
	slotDone     = 2 * line         // index, written by the worker: completions that it has taken
	slotNumber   = 3 * line         // written by the control plane: key in the map of devices
	slotDown     = slotNumber + 1   // written by the control plane: whether the link is down
	// whether the socket sends: set by the control plane, cleared by the worker
	slotAway = slotNumber + 2
	slotRing = 4 * line // descriptors
)

// A descriptor (pmd.Desc), in words; the length is the first 32 bits of its word.
const (
	descAddress = 0
	descLength  = 1
	descWords   = 1 << descShift
	descShift   = 1
)

// layout holds the sizes for which a program is built.
type layout struct {
	slots  int // maximum number of ports
	ring   int // descriptors per port, a power of two
	memory int // bytes of frames; behind them come as many as a frame may have
	frame  int // bytes of the longest frame
	cpu    int
}

// slot returns the offset of slot n; words returns the total size. Both are in words.
func (l layout) slot(n int) int {
	first := (wordOrder + 2*l.slots + line - 1) / line * line
	return first + n*(slotRing+l.ring*descWords)
}
func (l layout) words() int { return l.slot(l.slots) }

func beginLooking(l layout, o xdprun.Ordering, rings *xdprun.Shared) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(ctx, asm.R1),
		asm.FnGetSmpProcessorId.Call(),
		asm.JNE.Imm(asm.R0, int32(l.cpu), "drop"), // the thread was moved
		xdprun.Point(asm.R1, rings, 0),
		xdprun.Load(asm.R2, asm.R1, wordRuns),
		asm.Add.Imm(asm.R2, 1),
		o.Store(asm.R1, wordRuns, asm.R2, asm.DWord),
		xdprun.Load(place, asm.R1, wordTurn),
		o.Load(left, asm.R1, wordCount, asm.DWord),
		asm.JEq.Imm(left, 0, "ring"),
		xdprun.AtMost(left, l.slots, "drop"),
		asm.JLT.Reg(place, left, "look"),
		asm.Sub.Reg(place, left), // it is in the second copy of the order
		asm.JLT.Reg(place, left, "look"),
		asm.Mov.Imm(place, 0), // there are fewer slots than before
	}
}

// lookAtSlot jumps to "take" with the slot and its consumer in R2 when a slot has a frame.
func lookAtSlot(l layout, o xdprun.Ordering, rings *xdprun.Shared) asm.Instructions {
	turns := xdprun.Turns{Map: rings, Order: wordOrder, Last: l.slot(l.slots-1) * xdprun.WordSize}
	return slices.Concat(
		xdprun.Block("look", xdprun.Below(place, 2*l.slots, "drop")),
		turns.Next(slot, place),
		asm.Instructions{
			// first, so that later changes of the indices by the worker are not missed
			o.Load(asm.R1, slot, slotAway, asm.DWord),
			asm.JNE.Imm(asm.R1, 0, "further"),
			o.Load(asm.R1, slot, slotProducer, asm.Word),
			xdprun.Load32(asm.R2, slot, slotConsumer),
			asm.JNE.Reg(asm.R1, asm.R2, "take"),
		},
		xdprun.Block("further", xdprun.Again(left, "look")...),
	)
}

// wakeWorker wakes the worker that waits until there is nothing to send. It does so at the start of
// a batch, when the frames redirected in the previous one have left. In the middle of a batch,
// frames would wait for the interrupt.
func wakeWorker(rings *xdprun.Shared, b *bell) asm.Instructions {
	return slices.Concat(
		xdprun.Block("ring",
			xdprun.Point(asm.R9, rings, wordBell),
			xdprun.Point(asm.R1, rings, wordRuns),
			xdprun.Load(asm.R1, asm.R1, 0),
			asm.And.Imm(asm.R1, xdprun.Batch-1),
			asm.JNE.Imm(asm.R1, 1, "drop"), // this run is already counted
		),
		b.ring(asm.R9, "drop"),
	)
}

// takeDescriptor gives the turn to the next slot and reads the descriptor at R2, unless the link is
// down.
func takeDescriptor(l layout, rings *xdprun.Shared) asm.Instructions {
	return xdprun.Block("take",
		xdprun.Point(asm.R1, rings, 0),
		xdprun.Store(asm.R1, wordTurn, place),
		xdprun.Load(asm.R1, slot, slotDown),
		asm.JNE.Imm(asm.R1, 0, "unsent"),
		asm.And.Imm(asm.R2, int32(l.ring-1)),
		asm.LSh.Imm(asm.R2, descShift+3), // bytes
		asm.Add.Reg(asm.R2, slot),
		xdprun.Load(address, asm.R2, slotRing+descAddress),
		xdprun.Load32(length, asm.R2, slotRing+descLength),
		xdprun.Below(address, l.memory, "invalid"),
		xdprun.AtMost(length, l.frame, "invalid"),
		asm.JLT.Imm(length, ethernetHeader, "invalid"),
	)
}

// copyFrame copies the frame. After that, its buffer belongs to the worker.
func copyFrame(l layout, o xdprun.Ordering, memory *xdprun.Shared) asm.Instructions {
	return slices.Concat(
		asm.Instructions{
			asm.Mov.Reg(asm.R1, ctx),
			asm.Mov.Reg(asm.R2, length),
			asm.Sub.Imm(asm.R2, int32(l.frame)), // length difference to the frame that the kernel made
			asm.FnXdpAdjustTail.Call(),
			asm.JNE.Imm(asm.R0, 0, "invalid"),
			asm.Mov.Reg(asm.R1, ctx),
			asm.Mov.Imm(asm.R2, 0), // starting at its first byte
			xdprun.Point(asm.R3, memory, 0),
			asm.Add.Reg(asm.R3, address),
			asm.Mov.Reg(asm.R4, length),
			asm.FnXdpStoreBytes.Call(),
			asm.JNE.Imm(asm.R0, 0, "invalid"),
		},
		giveBack(o),
	)
}

// giveBack returns the descriptor's buffer to the worker. R1 is lost.
func giveBack(o xdprun.Ordering) asm.Instructions {
	return asm.Instructions{
		xdprun.Load32(asm.R1, slot, slotConsumer),
		asm.Add.Imm(asm.R1, 1),
		o.Store(slot, slotConsumer, asm.R1, asm.Word),
	}
}

func redirectFrame(devices *ebpf.Map) asm.Instructions {
	return slices.Concat(
		xdprun.Redirect(devices, slot, slotNumber, "gone"),
		xdprun.Count(slot, slotFrames, asm.R1),
		asm.Instructions{asm.Return()},
		xdprun.Block("gone", xdprun.Count(slot, slotGone, asm.R1)...),
		asm.Instructions{asm.Return()},
	)
}

// passOver skips a descriptor without sending it: the link is down, or the descriptor is invalid,
// so a driver's own check has failed.
func passOver(o xdprun.Ordering) asm.Instructions {
	return slices.Concat(
		xdprun.Block("unsent", xdprun.Count(slot, slotUnsent, asm.R1)...),
		asm.Instructions{asm.Ja.Label("pass")},
		xdprun.Block("invalid", xdprun.Count(slot, slotInvalid, asm.R1)...),
		xdprun.Block("pass", giveBack(o)...),
		xdprun.Drop("passed"),
	)
}
