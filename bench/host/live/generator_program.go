package live

import (
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"sluice/internal/xdprun"
)

// What the generator's program knows of a flow, in words.
const (
	flowStep     = iota // from one frame to the next: ns << stepShift; 0: no time; stopped. Written by SetRate, …
	flowNext            // … ns, when the next frame is due; 0: there is no schedule. From here to flowForgone written by the program, …
	flowFraction        // … what is left of that beyond ns, in 1/1<<stepShift ns
	flowFrames          // frames handed over, hence the next sequence number
	flowForgone         // ns
	flowCatchUp         // ns; written by SetCatchUp
	flowPause           // … the rest by Start: offset in the pauses of the flow's port and priority, bytes
	flowPort            // key in the map of devices
	flowTail            // how much longer, below 0, a frame is than those that the kernel makes: bytes
	flowHeader          // bytes before the stamp
	flowFront           // the first bytes of a frame, as they are in it
	flowBack     = flowFront + frontWords
	flowWords    = 16

	frontWords = (headerMost + sequenceAt + xdprun.WordSize - 1) / xdprun.WordSize

	stepShift = 24
	stopped   = -1 // of flowStep
)

// Behind the records of the flows are a word that says whose turn it is, and all the flows in turn, twice over: offsets
// of their records, bytes. So whoever begins anywhere meets each flow once and never has to begin again from 0; the
// verifier would follow a wrap at every step, on ways that are as many as the square of the flows.
func turnWord(flows int) int       { return flows * flowWords }
func orderWord(flows int) int      { return turnWord(flows) + 1 }
func generatorWords(flows int) int { return orderWord(flows) + 2*flows }

// generatorCode is what happens to a frame that the kernel makes for the generator: it becomes the next frame of the
// first flow that may send, from the one whose turn it is on, or is dropped if there is none.
//
// While it looks for a flow:        Once it has found one:
//
//	R0 flows still to be looked at
//	R6 context                       the same
//	R7 now, ns                       the same
//	R8 the flow                      the same
//	R9 place in the order            when the frame was due, ns
func generatorCode(flows, pauses *xdprun.Shared, devices *ebpf.Map, number int) []asm.Instructions {
	return []asm.Instructions{
		beginLooking(flows, number),
		lookAtFlow(flows, number),
		isDue(),
		mayResume(pauses),
		lookFurther(),
		xdprun.Drop("drop"),
		takeTurn(flows, number),
		giveUp(),
		advanceSchedule(),
		shortenFrame(),
		writeHeader(),
		writeStamp(),
		redirect(devices),
	}
}

func beginLooking(flows *xdprun.Shared, number int) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadMapValue(asm.R1, flows.FD(), uint32(turnWord(number)*xdprun.WordSize)),
		xdprun.Load(asm.R9, asm.R1, 0),
		asm.JGE.Imm(asm.R9, int32(number), "drop"), // never; the verifier wants it said
		asm.Mov.Imm(asm.R0, int32(number)),
	}
}

// lookAtFlow points R8 to the next flow in the order.
func lookAtFlow(flows *xdprun.Shared, number int) asm.Instructions {
	return xdprun.Block("look",
		asm.LoadMapValue(asm.R1, flows.FD(), uint32(orderWord(number)*xdprun.WordSize)),
		asm.Mov.Reg(asm.R2, asm.R9),
		asm.LSh.Imm(asm.R2, 3),
		asm.Add.Reg(asm.R1, asm.R2),
		xdprun.Load(asm.R1, asm.R1, 0),
		asm.JGT.Imm(asm.R1, int32((number-1)*flowWords*xdprun.WordSize), "drop"), // never
		asm.LoadMapValue(asm.R8, flows.FD(), 0),
		asm.Add.Reg(asm.R8, asm.R1),
		asm.Add.Imm(asm.R9, 1),
	)
}

// isDue goes to "due" if the flow may send by its rate, or else to "further". The schedule of a flow that has none, because
// it was stopped, begins now, and again and again if it sends as fast as it goes; so does that of a flow whose next frame
// is further away than its rate allows, because the rate was raised. A flow that is stopped gives its schedule up.
func isDue() asm.Instructions {
	return slices.Concat(
		asm.Instructions{
			xdprun.Load(asm.R1, asm.R8, flowStep),
			xdprun.Load(asm.R2, asm.R8, flowNext),
			asm.JEq.Imm(asm.R1, stopped, "stopped"),
			asm.JEq.Imm(asm.R1, 0, "begin"),
			asm.JEq.Imm(asm.R2, 0, "begin"),
			asm.JLE.Reg(asm.R2, asm.R7, "due"),
			asm.Sub.Reg(asm.R2, asm.R7), // until it is due
			asm.RSh.Imm(asm.R1, stepShift),
			asm.Add.Imm(asm.R1, 1),
			asm.JLE.Reg(asm.R2, asm.R1, "further"),
		},
		xdprun.Block("begin",
			xdprun.Store(asm.R8, flowNext, asm.R7),
			asm.Ja.Label("due"),
		),
		xdprun.Block("stopped",
			asm.JEq.Imm(asm.R2, 0, "further"),
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.Sub.Reg(asm.R1, asm.R2),
		),
		forgo("no schedule"),
		xdprun.Block("no schedule",
			asm.Mov.Imm(asm.R1, 0),
			xdprun.Store(asm.R8, flowNext, asm.R1),
			asm.Ja.Label("further"),
		),
	)
}

// mayResume goes to "take" unless the flow's priority is paused.
func mayResume(pauses *xdprun.Shared) asm.Instructions {
	const record = pauseWords * xdprun.WordSize
	return slices.Concat(
		xdprun.Block("due",
			xdprun.Load(asm.R1, asm.R8, flowPause),
			asm.JGT.Imm(asm.R1, int32(len(pauses.Memory)-record), "further"), // never; the verifier wants it said
			asm.LoadMapValue(asm.R2, pauses.FD(), 0),
			asm.Add.Reg(asm.R2, asm.R1),
			xdprun.Load(asm.R1, asm.R2, pauseEnd),
			asm.JGE.Reg(asm.R7, asm.R1, "take"),
			xdprun.Load(asm.R1, asm.R2, pauseBegin),
			asm.JLT.Reg(asm.R7, asm.R1, "take"),
		),
	)
}

func lookFurther() asm.Instructions {
	return xdprun.Block("further",
		asm.Sub.Imm(asm.R0, 1),
		asm.JNE.Imm(asm.R0, 0, "look"),
	)
}

// takeTurn makes it the next flow's turn.
func takeTurn(flows *xdprun.Shared, number int) asm.Instructions {
	return slices.Concat(
		xdprun.Block("take",
			asm.JLT.Imm(asm.R9, int32(number), "taken"),
			asm.Sub.Imm(asm.R9, int32(number)),
		),
		xdprun.Block("taken",
			asm.LoadMapValue(asm.R1, flows.FD(), uint32(turnWord(number)*xdprun.WordSize)),
			xdprun.Store(asm.R1, 0, asm.R9),
		),
	)
}

// giveUp sets R9 to when the frame was due, and gives up what is behind by more than the flow may catch up.
func giveUp() asm.Instructions {
	return slices.Concat(
		asm.Instructions{
			xdprun.Load(asm.R9, asm.R8, flowNext),
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.Sub.Reg(asm.R1, asm.R9),
		},
		forgo("caught up"),
		asm.Instructions{asm.Add.Reg(asm.R9, asm.R1)},
	)
}

// forgo takes what the flow may catch up from R1, by how much it is behind, and counts what is left; if nothing is, it goes
// to none.
func forgo(none string) asm.Instructions {
	return append(
		asm.Instructions{
			xdprun.Load(asm.R2, asm.R8, flowCatchUp),
			asm.JSLE.Reg(asm.R1, asm.R2, none),
			asm.Sub.Reg(asm.R1, asm.R2),
		},
		xdprun.Increase(asm.R8, flowForgone, asm.R1, asm.R3)...,
	)
}

// advanceSchedule works out when the next frame is due.
func advanceSchedule() asm.Instructions {
	const fraction = 1<<stepShift - 1
	return xdprun.Block("caught up",
		xdprun.Load(asm.R1, asm.R8, flowStep),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.And.Imm(asm.R2, fraction),
		xdprun.Load(asm.R3, asm.R8, flowFraction),
		asm.Add.Reg(asm.R2, asm.R3),
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.And.Imm(asm.R3, fraction),
		xdprun.Store(asm.R8, flowFraction, asm.R3),
		asm.RSh.Imm(asm.R2, stepShift), // what is carried
		asm.RSh.Imm(asm.R1, stepShift),
		asm.Add.Reg(asm.R1, asm.R2),
		asm.Add.Reg(asm.R1, asm.R9),
		xdprun.Store(asm.R8, flowNext, asm.R1),
	)
}

// shortenFrame gives the frame its flow's length.
func shortenFrame() asm.Instructions {
	return asm.Instructions{
		xdprun.Load(asm.R2, asm.R8, flowTail),
		asm.JEq.Imm(asm.R2, 0, "write"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnXdpAdjustTail.Call(),
		asm.JNE.Imm(asm.R0, 0, "drop"),
	}
}

// writeHeader writes the front of the frame, and points R1 to the stamp; R2 is the end of the frame.
func writeHeader() asm.Instructions {
	code := xdprun.Block("write",
		asm.LoadMem(asm.R1, asm.R6, xdprun.ContextData, asm.Word),
		asm.LoadMem(asm.R2, asm.R6, xdprun.ContextDataEnd, asm.Word),
		asm.Mov.Reg(asm.R3, asm.R1),
		asm.Add.Imm(asm.R3, MinSize),
		asm.JGT.Reg(asm.R3, asm.R2, "drop"),
	)
	for w := range frontWords { // a few bytes too many: the stamp follows
		code = append(code,
			xdprun.Load(asm.R3, asm.R8, flowFront+w),
			xdprun.Store(asm.R1, w, asm.R3),
		)
	}
	return append(code,
		xdprun.Load(asm.R3, asm.R8, flowHeader),
		asm.JGT.Imm(asm.R3, headerMost, "drop"),
		asm.Add.Reg(asm.R1, asm.R3),
	)
}

// writeStamp writes what of the stamp differs from frame to frame, and how it ends.
func writeStamp() asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R3, asm.R1),
		asm.Add.Imm(asm.R3, stampLength),
		asm.JGT.Reg(asm.R3, asm.R2, "drop"),
		xdprun.Load(asm.R3, asm.R8, flowFrames),
		asm.HostTo(asm.BE, asm.R3, asm.DWord),
		asm.StoreMem(asm.R1, sequenceAt, asm.R3, asm.DWord),
		asm.HostTo(asm.BE, asm.R9, asm.DWord),
		asm.StoreMem(asm.R1, scheduledAt, asm.R9, asm.DWord),
		asm.HostTo(asm.BE, asm.R7, asm.DWord),
		asm.StoreMem(asm.R1, sentAt, asm.R7, asm.DWord),
		xdprun.Load(asm.R3, asm.R8, flowBack),
		asm.StoreMem(asm.R1, lengthAt, asm.R3, asm.DWord),
	}
}

// redirect sends the frame through the flow's device and counts it. If the device is gone, it is dropped and was never
// sent.
func redirect(devices *ebpf.Map) asm.Instructions {
	return slices.Concat(
		asm.Instructions{
			asm.LoadMapPtr(asm.R1, devices.FD()),
			xdprun.Load(asm.R2, asm.R8, flowPort),
			asm.Mov.Imm(asm.R3, xdprun.XDPDrop),
			asm.FnRedirectMap.Call(),
			asm.JEq.Imm(asm.R0, xdprun.XDPDrop, "drop"),
		},
		xdprun.Count(asm.R8, flowFrames, asm.R1),
		asm.Instructions{asm.Return()},
	)
}
