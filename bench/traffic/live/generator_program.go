package live

import (
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"sluice/bench/traffic/line"
	"sluice/pmd/xdprun"
)

// A flow's record, in words. Start writes it, except where noted.
const (
	flowStep = iota // ns << stepShift from one frame to the next; 0: no pacing; stopped. Written by SetRate
	// ns, when the next frame is due; 0: no schedule. flowNext to flowForgone are written by the
	// program.
	flowNext
	flowFraction // fraction of a ns of flowNext, in 1/1<<stepShift ns
	flowFrames   // frames handed over, so also the next sequence number
	flowForgone  // ns
	flowCatchUp  // ns; written by SetCatchUp
	flowPause    // offset in the pauses of the flow's port and priority, bytes
	flowPort     // key in the map of devices
	flowTail     // frame length minus that of the kernel's frames, bytes; 0 or below
	flowHeader   // bytes before the stamp
	flowFront    // first bytes of a frame
	flowBack     = flowFront + frontWords
	flowWords    = 16

	frontWords = (headerMost + line.SequenceAt + xdprun.WordSize - 1) / xdprun.WordSize

	stepShift = 24
	stopped   = -1 // of flowStep
)

// After the flows' records come a word with the current turn and the order of the flows
// (xdprun.Turns).
func turnWord(flows int) int       { return flows * flowWords }
func orderWord(flows int) int      { return turnWord(flows) + 1 }
func generatorWords(flows int) int { return orderWord(flows) + 2*flows }

// The generator's program runs once for each frame that the kernel makes. It turns the frame into
// the next frame of the first flow that may send, starting with the flow whose turn it is. If no
// flow may send, it drops the frame:
//
//	begin:                                                                    beginLooking
//		place, left = turn, number of flows
//	look:                                                                     lookAtFlow
//		flow = order[place++]
//		if flow.step is stopped:                                          isDue
//			flow.forgone += delay of the flow beyond flow.catchUp
//			flow.next = 0; goto further
//		if flow.step == 0, flow.next == 0, or flow.next is more than flow.step away:
//			flow.next = now; goto due
//		if flow.next > now: goto further
//	due:                                                                      isUnpaused
//		if now is not within the pause of flow.pause: goto take
//	further:                                                                  lookFurther
//		if --left > 0: goto look
//	drop:
//		return XDP_DROP
//	take:                                                                     takeTurn
//		turn = place, modulo number of flows
//		due = flow.next                                                   giveUp
//		flow.forgone += delay of the flow beyond flow.catchUp, due += the same
//		flow.next, flow.fraction = due + flow.step + flow.fraction        advanceSchedule
//		shorten the frame by flow.tail                                    shortenFrame
//		write flow.front, sequence number, due, now and flow.back         writeHeader, writeStamp
//		if flow.port has no device: drop                                  sendFrame
//		flow.frames++
//		return XDP_REDIRECT
//
// Jumps to drop that never happen (xdprun.AtMost, Below, Within) are omitted.
func generatorCode(flows, pauses *xdprun.Shared, devices *ebpf.Map, number int) []asm.Instructions {
	return []asm.Instructions{
		beginLooking(flows, number),
		lookAtFlow(flows, number),
		isDue(),
		isUnpaused(pauses),
		lookFurther(),
		xdprun.Drop("drop"),
		takeTurn(flows, number),
		giveUp(),
		advanceSchedule(),
		shortenFrame(),
		writeHeader(),
		writeStamp(),
		sendFrame(devices),
	}
}

// generating names the registers with fixed contents, as in the pseudo-code.
var generating = struct{ left, ctx, now, flow, place, due asm.Register }{
	ctx: asm.R6, now: asm.R7, flow: asm.R8,
	left: asm.R0, place: asm.R9, // while it looks for a flow
	due: asm.R9, // once it has found one
}

func beginLooking(flows *xdprun.Shared, number int) asm.Instructions {
	r := generating
	return slices.Concat(
		asm.Instructions{asm.Mov.Reg(r.ctx, asm.R1)},
		xdprun.Now(r.now),
		asm.Instructions{
			xdprun.Point(asm.R1, flows, turnWord(number)),
			xdprun.Load(r.place, asm.R1, 0),
			xdprun.Below(r.place, number, "drop"),
			asm.Mov.Imm(r.left, int32(number)),
		},
	)
}

func lookAtFlow(flows *xdprun.Shared, number int) asm.Instructions {
	turns := xdprun.Turns{Map: flows, Order: orderWord(number), Last: (number - 1) * flowWords * xdprun.WordSize}
	return xdprun.Block("look", turns.Next(generating.flow, generating.place)...)
}

// isDue jumps to "due" if the flow may send by its rate, else to "further". The schedule begins now
// in three cases: the flow was stopped, it sends as fast as possible, or its next frame is further
// away than its rate allows, because the rate was raised. A stopped flow gives up its schedule.
func isDue() asm.Instructions {
	r := generating
	return slices.Concat(
		asm.Instructions{
			xdprun.Load(asm.R1, r.flow, flowStep),
			xdprun.Load(asm.R2, r.flow, flowNext),
			asm.JEq.Imm(asm.R1, stopped, "stopped"),
			asm.JEq.Imm(asm.R1, 0, "begin"),
			asm.JEq.Imm(asm.R2, 0, "begin"),
			asm.JLE.Reg(asm.R2, r.now, "due"),
			asm.Sub.Reg(asm.R2, r.now), // time until it is due
			asm.RSh.Imm(asm.R1, stepShift),
			asm.Add.Imm(asm.R1, 1),
			asm.JLE.Reg(asm.R2, asm.R1, "further"),
		},
		xdprun.Block("begin",
			xdprun.Store(r.flow, flowNext, r.now),
			asm.Ja.Label("due"),
		),
		xdprun.Block("stopped",
			asm.JEq.Imm(asm.R2, 0, "further"),
			asm.Mov.Reg(asm.R1, r.now),
			asm.Sub.Reg(asm.R1, asm.R2),
		),
		forgo("no schedule"),
		xdprun.Block("no schedule",
			asm.Mov.Imm(asm.R1, 0),
			xdprun.Store(r.flow, flowNext, asm.R1),
			asm.Ja.Label("further"),
		),
	)
}

// isUnpaused jumps to "take" unless the flow's priority is paused.
func isUnpaused(pauses *xdprun.Shared) asm.Instructions {
	r := generating
	const record = pauseWords * xdprun.WordSize
	return slices.Concat(
		xdprun.Block("due",
			xdprun.Load(asm.R1, r.flow, flowPause),
			xdprun.AtMost(asm.R1, len(pauses.Memory)-record, "further"),
			xdprun.Point(asm.R2, pauses, 0),
			asm.Add.Reg(asm.R2, asm.R1),
			xdprun.Load(asm.R1, asm.R2, pauseEnd),
			asm.JGE.Reg(r.now, asm.R1, "take"),
			xdprun.Load(asm.R1, asm.R2, pauseBegin),
			asm.JLT.Reg(r.now, asm.R1, "take"),
		),
	)
}

func lookFurther() asm.Instructions {
	return xdprun.Block("further", xdprun.Again(generating.left, "look")...)
}

// takeTurn gives the turn to the next flow.
func takeTurn(flows *xdprun.Shared, number int) asm.Instructions {
	r := generating
	return slices.Concat(
		xdprun.Block("take",
			asm.JLT.Imm(r.place, int32(number), "taken"),
			asm.Sub.Imm(r.place, int32(number)),
		),
		xdprun.Block("taken",
			xdprun.Point(asm.R1, flows, turnWord(number)),
			xdprun.Store(asm.R1, 0, r.place),
		),
	)
}

// giveUp sets due to the time when the frame was due, later if the flow may not catch up by that
// much.
func giveUp() asm.Instructions {
	r := generating
	return slices.Concat(
		asm.Instructions{
			xdprun.Load(r.due, r.flow, flowNext),
			asm.Mov.Reg(asm.R1, r.now),
			asm.Sub.Reg(asm.R1, r.due),
		},
		forgo("caught up"),
		asm.Instructions{asm.Add.Reg(r.due, asm.R1)},
	)
}

// forgo subtracts the flow's catch-up time from its delay in R1 and adds the rest to flowForgone.
// If there is no rest, it jumps to none.
func forgo(none string) asm.Instructions {
	r := generating
	return append(
		asm.Instructions{
			xdprun.Load(asm.R2, r.flow, flowCatchUp),
			asm.JSLE.Reg(asm.R1, asm.R2, none),
			asm.Sub.Reg(asm.R1, asm.R2),
		},
		xdprun.Increase(r.flow, flowForgone, asm.R1, asm.R3)...,
	)
}

// advanceSchedule computes when the next frame is due.
func advanceSchedule() asm.Instructions {
	r := generating
	const fraction = 1<<stepShift - 1
	return xdprun.Block("caught up",
		xdprun.Load(asm.R1, r.flow, flowStep),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.And.Imm(asm.R2, fraction),
		xdprun.Load(asm.R3, r.flow, flowFraction),
		asm.Add.Reg(asm.R2, asm.R3),
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.And.Imm(asm.R3, fraction),
		xdprun.Store(r.flow, flowFraction, asm.R3),
		asm.RSh.Imm(asm.R2, stepShift), // carry
		asm.RSh.Imm(asm.R1, stepShift),
		asm.Add.Reg(asm.R1, asm.R2),
		asm.Add.Reg(asm.R1, r.due),
		xdprun.Store(r.flow, flowNext, asm.R1),
	)
}

// shortenFrame gives the frame its flow's length.
func shortenFrame() asm.Instructions {
	r := generating
	return asm.Instructions{
		xdprun.Load(asm.R2, r.flow, flowTail),
		asm.JEq.Imm(asm.R2, 0, "write"),
		asm.Mov.Reg(asm.R1, r.ctx),
		asm.FnXdpAdjustTail.Call(),
		asm.JNE.Imm(asm.R0, 0, "drop"),
	}
}

// writeHeader writes the front of the frame and points R1 to the stamp; R2 is the end of the frame.
func writeHeader() asm.Instructions {
	r := generating
	code := slices.Concat(
		xdprun.Block("write", xdprun.Bounds(asm.R1, asm.R2, r.ctx)...),
		xdprun.Within(asm.R3, asm.R1, MinSize, asm.R2, "drop"),
	)
	for w := range frontWords { // a few bytes too many: the stamp overwrites them
		code = append(code,
			xdprun.Load(asm.R3, r.flow, flowFront+w),
			xdprun.Store(asm.R1, w, asm.R3),
		)
	}
	return append(code,
		xdprun.Load(asm.R3, r.flow, flowHeader),
		xdprun.AtMost(asm.R3, headerMost, "drop"),
		asm.Add.Reg(asm.R1, asm.R3),
	)
}

// writeStamp writes the sequence number, the times and the end of the stamp. It overwrites the
// registers of the times.
func writeStamp() asm.Instructions {
	r := generating
	return slices.Concat(
		xdprun.Within(asm.R3, asm.R1, line.StampLength, asm.R2, "drop"),
		asm.Instructions{xdprun.Load(asm.R3, r.flow, flowFrames)},
		xdprun.StoreBE(asm.R1, line.SequenceAt, asm.R3),
		xdprun.StoreBE(asm.R1, line.ScheduledAt, r.due),
		xdprun.StoreBE(asm.R1, line.SentAt, r.now),
		asm.Instructions{
			xdprun.Load(asm.R3, r.flow, flowBack),
			asm.StoreMem(asm.R1, line.LengthAt, asm.R3, asm.DWord), // already big-endian
		},
	)
}

// sendFrame sends the frame through the flow's device and counts it. If the device is gone, the
// frame is dropped and does not count as sent.
func sendFrame(devices *ebpf.Map) asm.Instructions {
	return slices.Concat(
		xdprun.Redirect(devices, generating.flow, flowPort, "drop"),
		xdprun.Count(generating.flow, flowFrames, asm.R1),
		asm.Instructions{asm.Return()},
	)
}
