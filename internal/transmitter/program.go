package transmitter

import (
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"sluice/internal/xdprun"
)

// What the program shares with others, in words: how often the program has run, whose turn it is, the record of
// the bell, how many slots there are, all slots in turn, twice over, as offsets in bytes, and the slots. So the program begins wherever it
// left off, and looks at each slot once without ever going back to the first.
const (
	wordRuns  = 0 // written by the program
	wordTurn  = 1 // written by the program
	wordBell  = 1 * line
	wordCount = 2 * line
	wordOrder = wordCount + 1

	line = 128 / xdprun.WordSize // words apart: what the program and what others write
)

// A slot: what one port and the program share, in words from its beginning. An index is that of a ring, the first 32 bits of its word.
const (
	slotConsumer = 0 * line         // index, written by the program: frames before it have been copied, and their buffers are free …
	slotFrames   = slotConsumer + 1 // … redirected
	slotInvalid  = slotConsumer + 2
	slotGone     = slotConsumer + 3 // … that no device took, for there is none
	slotUnsent   = slotConsumer + 4 // … dropped unsent, because the link is down
	slotProducer = 1 * line         // index, written by the worker
	slotDone     = 2 * line         // index, written by the worker: completions that it has taken
	slotNumber   = 3 * line         // written by the control plane: key in the map of devices …
	slotDown     = slotNumber + 1   // … whether the link is down …
	slotAway     = slotNumber + 2   // … and whether the frames are the socket's; the worker writes that they no longer are
	slotRing     = 4 * line         // descriptors
)

// A descriptor (pmd.Desc), in words; the length is the first 32 bits of its word.
const (
	descAddress = 0
	descLength  = 1
	descWords   = 2
)

// layout is the sizes that a program is made for.
type layout struct {
	slots  int // ports, at the most
	ring   int // descriptors of each, a power of two
	memory int // bytes of frames; as many as a frame may have follow
	frame  int // bytes of the longest frame
	cpu    int
}

// slot returns where slot n begins, words returns how many there are; both in words.
func (l layout) slot(n int) int {
	first := (wordOrder + 2*l.slots + line - 1) / line * line
	return first + n*(slotRing+l.ring*descWords)
}
func (l layout) words() int { return l.slot(l.slots) }

// code is what happens to a frame that the kernel makes for the transmitter: it becomes the next frame of the first port
// that has one, from the port whose turn it is on, or is dropped if none has, and whoever waits for that is woken.
//
// While it looks for a port:    Once it has found one:
//
//	R6 context                   the same
//	R7 ports still to look at    address of the frame in the memory
//	R8 the slot                  the same
//	R9 place in the order        length of the frame
func code(l layout, rings, memory *xdprun.Shared, devices *ebpf.Map, b *bell) []asm.Instructions {
	return []asm.Instructions{
		beginLooking(l, rings),
		lookAtSlot(l, rings),
		wakeWorker(rings, b),
		xdprun.Drop("drop"),
		takeDescriptor(l, rings),
		copyFrame(l, memory),
		redirect(devices),
		passOver(),
	}
}

func beginLooking(l layout, rings *xdprun.Shared) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetSmpProcessorId.Call(),
		asm.JNE.Imm(asm.R0, int32(l.cpu), "drop"), // whoever moved the thread
		asm.LoadMapValue(asm.R1, rings.FD(), 0),
		xdprun.Load(asm.R2, asm.R1, wordRuns),
		asm.Add.Imm(asm.R2, 1),
		xdprun.Store(asm.R1, wordRuns, asm.R2),
		xdprun.Load(asm.R9, asm.R1, wordTurn),
		xdprun.Load(asm.R7, asm.R1, wordCount),
		asm.JEq.Imm(asm.R7, 0, "ring"),
		asm.JGT.Imm(asm.R7, int32(l.slots), "drop"), // never; the verifier wants it said
		asm.JLT.Reg(asm.R9, asm.R7, "look"),
		asm.Sub.Reg(asm.R9, asm.R7), // among the slots for the second time
		asm.JLT.Reg(asm.R9, asm.R7, "look"),
		asm.Mov.Imm(asm.R9, 0), // there are fewer than there were
	}
}

// lookAtSlot points R8 to the next slot in the order, and goes to "take" if it has a frame.
func lookAtSlot(l layout, rings *xdprun.Shared) asm.Instructions {
	return slices.Concat(
		xdprun.Block("look",
			asm.JGE.Imm(asm.R9, int32(2*l.slots), "drop"), // never
			asm.LoadMapValue(asm.R1, rings.FD(), wordOrder*xdprun.WordSize),
			asm.Mov.Reg(asm.R2, asm.R9),
			asm.LSh.Imm(asm.R2, 3),
			asm.Add.Reg(asm.R1, asm.R2),
			xdprun.Load(asm.R1, asm.R1, 0),
			asm.JGT.Imm(asm.R1, int32(l.slot(l.slots-1)*xdprun.WordSize), "drop"), // never
			asm.LoadMapValue(asm.R8, rings.FD(), 0),
			asm.Add.Reg(asm.R8, asm.R1),
			asm.Add.Imm(asm.R9, 1),
			asm.LoadMem(asm.R1, asm.R8, slotProducer*xdprun.WordSize, asm.Word),
			asm.LoadMem(asm.R2, asm.R8, slotConsumer*xdprun.WordSize, asm.Word),
			asm.JEq.Reg(asm.R1, asm.R2, "further"),
			xdprun.Load(asm.R1, asm.R8, slotAway),
			asm.JEq.Imm(asm.R1, 0, "take"),
		),
		xdprun.Block("further",
			asm.Sub.Imm(asm.R7, 1),
			asm.JNE.Imm(asm.R7, 0, "look"),
		),
	)
}

// wakeWorker wakes who waits until there is nothing to do. It does so as a batch begins: what was redirected in the one before
// is gone then, while in the middle of a batch frames would wait for the interrupt.
func wakeWorker(rings *xdprun.Shared, b *bell) asm.Instructions {
	return slices.Concat(
		xdprun.Block("ring",
			asm.LoadMapValue(asm.R9, rings.FD(), wordBell*xdprun.WordSize),
			asm.LoadMapValue(asm.R1, rings.FD(), wordRuns*xdprun.WordSize),
			xdprun.Load(asm.R1, asm.R1, 0),
			asm.And.Imm(asm.R1, xdprun.Batch-1),
			asm.JNE.Imm(asm.R1, 1, "drop"), // this run is counted already
		),
		b.ring("drop"),
	)
}

// takeDescriptor makes it the next slot's turn, and reads the descriptor, R7 and R9, unless the link is down.
func takeDescriptor(l layout, rings *xdprun.Shared) asm.Instructions {
	return xdprun.Block("take",
		asm.LoadMapValue(asm.R1, rings.FD(), 0),
		xdprun.Store(asm.R1, wordTurn, asm.R9),
		xdprun.Load(asm.R1, asm.R8, slotDown),
		asm.JNE.Imm(asm.R1, 0, "unsent"),
		asm.And.Imm(asm.R2, int32(l.ring-1)),
		asm.LSh.Imm(asm.R2, 4), // descSize
		asm.Add.Reg(asm.R2, asm.R8),
		asm.LoadMem(asm.R7, asm.R2, slotRing*xdprun.WordSize, asm.DWord),
		asm.LoadMem(asm.R9, asm.R2, (slotRing+1)*xdprun.WordSize, asm.Word),
		asm.JGE.Imm(asm.R7, int32(l.memory), "invalid"),
		asm.JGT.Imm(asm.R9, int32(l.frame), "invalid"),
		asm.JLT.Imm(asm.R9, ethernetHeader, "invalid"),
	)
}

// copyFrame makes the frame. From then on its buffer is the worker's.
func copyFrame(l layout, memory *xdprun.Shared) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Reg(asm.R2, asm.R9),
		asm.Sub.Imm(asm.R2, int32(l.frame)),
		asm.FnXdpAdjustTail.Call(),
		asm.JNE.Imm(asm.R0, 0, "invalid"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, 0),
		asm.LoadMapValue(asm.R3, memory.FD(), 0),
		asm.Add.Reg(asm.R3, asm.R7),
		asm.Mov.Reg(asm.R4, asm.R9),
		asm.FnXdpStoreBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "invalid"),
		asm.LoadMem(asm.R1, asm.R8, slotConsumer*xdprun.WordSize, asm.Word),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R8, slotConsumer*xdprun.WordSize, asm.R1, asm.Word),
	}
}

func redirect(devices *ebpf.Map) asm.Instructions {
	return slices.Concat(
		asm.Instructions{
			asm.LoadMapPtr(asm.R1, devices.FD()),
			xdprun.Load(asm.R2, asm.R8, slotNumber),
			asm.Mov.Imm(asm.R3, xdprun.XDPDrop),
			asm.FnRedirectMap.Call(),
			asm.JEq.Imm(asm.R0, xdprun.XDPDrop, "gone"),
		},
		xdprun.Count(asm.R8, slotFrames, asm.R1),
		asm.Instructions{asm.Return()},
		xdprun.Block("gone", xdprun.Count(asm.R8, slotGone, asm.R1)...),
		asm.Instructions{asm.Return()},
	)
}

// passOver passes over a descriptor that is not sent, and its buffer is the worker's again: the link is down, or the
// descriptor is none, so that a worker's own check has failed.
func passOver() asm.Instructions {
	return slices.Concat(
		xdprun.Block("unsent", xdprun.Count(asm.R8, slotUnsent, asm.R1)...),
		asm.Instructions{asm.Ja.Label("pass")},
		xdprun.Block("invalid", xdprun.Count(asm.R8, slotInvalid, asm.R1)...),
		xdprun.Block("pass",
			asm.LoadMem(asm.R1, asm.R8, slotConsumer*xdprun.WordSize, asm.Word),
			asm.Add.Imm(asm.R1, 1),
			asm.StoreMem(asm.R8, slotConsumer*xdprun.WordSize, asm.R1, asm.Word),
			asm.Mov.Imm(asm.R0, xdprun.XDPDrop),
			asm.Return(),
		),
	)
}
