package live

import (
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"sluice/internal/xdprun"
)

// What the generator's program knows of a flow, in words.
const (
	flowStep = iota // from one frame to the next: ns << stepShift; 0: no time; stopped. Written by SetRate, …
	// … ns, when the next frame is due; 0: there is no schedule. From here to flowForgone written
	// by the program, …
	flowNext
	flowFraction // … what is left of that beyond ns, in 1/1<<stepShift ns
	flowFrames   // frames handed over, hence the next sequence number
	flowForgone  // ns
	flowCatchUp  // ns; written by SetCatchUp
	flowPause    // … the rest by Start: offset in the pauses of the flow's port and priority, bytes
	flowPort     // key in the map of devices
	flowTail     // how much longer, below 0, a frame is than those that the kernel makes: bytes
	flowHeader   // bytes before the stamp
	flowFront    // the first bytes of a frame, as they are in it
	flowBack     = flowFront + frontWords
	flowWords    = 16

	frontWords = (headerMost + sequenceAt + xdprun.WordSize - 1) / xdprun.WordSize

	stepShift = 24
	stopped   = -1 // of flowStep
)

// Behind the records of the flows are a word that says whose turn it is, and the order of the flows
// (xdprun.Turns).
func turnWord(flows int) int       { return flows * flowWords }
func orderWord(flows int) int      { return turnWord(flows) + 1 }
func generatorWords(flows int) int { return orderWord(flows) + 2*flows }

// The generator's program runs once for each frame that the kernel makes. The frame becomes the
// next one of the first flow that may send, from the one whose turn it is on, or is dropped:
//
//	begin:                                                                    beginLooking
//		place, left = turn, number of flows
//	look:                                                                     lookAtFlow
//		flow = order[place++]
//		if flow.step is stopped:                                          isDue
//			flow.forgone += what it is behind by, beyond flow.catchUp
//			flow.next = 0; goto further
//		if flow.step == 0, flow.next == 0, or flow.next is further away than flow.step:
//			flow.next = now; goto due
//		if flow.next > now: goto further
//	due:                                                                      isUnpaused
//		if now is not within the pause of flow.pause: goto take
//	further:                                                                  lookFurther
//		if --left > 0: goto look
//	drop:
//		return XDP_DROP
//	take:                                                                     takeTurn
//		turn = place, among the first ones
//		due = flow.next                                                   giveUp
//		forgo what the flow is behind by, beyond flow.catchUp: due += that
//		flow.next, flow.fraction = due + flow.step + flow.fraction        advanceSchedule
//		shorten the frame by flow.tail                                    shortenFrame
//		write flow.front, sequence number, due, now and flow.back         writeHeader, writeStamp
//		if flow.port is no device: drop                                   sendFrame
//		flow.frames++
//		return XDP_REDIRECT
//
// Jumps to drop that never happen (xdprun.AtMost, Below, Within) are left out.
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

// generating names the registers that keep their values, as in the pseudo-code.
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

// isDue goes to "due" if the flow may send by its rate, or else to "further". The schedule of a
// flow that has none, because it was stopped, begins now, and again and again if it sends as fast
// as it goes; so does that of a flow whose next frame is further away than its rate allows, because
// the rate was raised. A flow that is stopped gives its schedule up.
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
			asm.Sub.Reg(asm.R2, r.now), // until it is due
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

// isUnpaused goes to "take" unless the flow's priority is paused.
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

// takeTurn makes it the next flow's turn.
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

// giveUp sets due to when the frame was due, and gives up what is behind by more than the flow may
// catch up.
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

// forgo takes what the flow may catch up from R1, by how much it is behind, and counts what is
// left; if nothing is, it goes to none.
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

// advanceSchedule works out when the next frame is due.
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
		asm.RSh.Imm(asm.R2, stepShift), // what is carried
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

// writeHeader writes the front of the frame, and points R1 to the stamp; R2 is the end of the
// frame.
func writeHeader() asm.Instructions {
	r := generating
	code := slices.Concat(
		xdprun.Block("write", xdprun.Bounds(asm.R1, asm.R2, r.ctx)...),
		xdprun.Within(asm.R3, asm.R1, MinSize, asm.R2, "drop"),
	)
	for w := range frontWords { // a few bytes too many: the stamp follows
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

// writeStamp writes what of the stamp differs from frame to frame, and how it ends. The times are
// lost.
func writeStamp() asm.Instructions {
	r := generating
	return slices.Concat(
		xdprun.Within(asm.R3, asm.R1, stampLength, asm.R2, "drop"),
		asm.Instructions{xdprun.Load(asm.R3, r.flow, flowFrames)},
		xdprun.StoreBE(asm.R1, sequenceAt, asm.R3),
		xdprun.StoreBE(asm.R1, scheduledAt, r.due),
		xdprun.StoreBE(asm.R1, sentAt, r.now),
		asm.Instructions{
			xdprun.Load(asm.R3, r.flow, flowBack),
			asm.StoreMem(asm.R1, lengthAt, asm.R3, asm.DWord), // big-endian already
		},
	)
}

// sendFrame sends the frame through the flow's device and counts it. If the device is gone, it is
// dropped and was never sent.
func sendFrame(devices *ebpf.Map) asm.Instructions {
	return slices.Concat(
		xdprun.Redirect(devices, generating.flow, flowPort, "drop"),
		xdprun.Count(generating.flow, flowFrames, asm.R1),
		asm.Instructions{asm.Return()},
	)
}
