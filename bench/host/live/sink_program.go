package live

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"sluice/internal/xdprun"
)

// The sink's memory, in words: which of two banks is counted in, and the banks. A bank has a head and the flows' records.
const (
	sinkBank  = 0
	sinkBanks = 8
)

// The head of a bank.
const (
	headUnknown = iota
	headUntracked
	headPFC
	headPause
	headControl
	headBytes
	headXOFF  = 8 // eight words, by priority
	headXON   = headXOFF + priorities
	headWords = headXON + priorities
)

// The record of a flow.
const (
	trackFrames = iota
	trackBytes
	trackFirst
	trackNext
	trackReordered
	trackDuplicates
	trackStale
	trackLastSent
	trackWindow   = 8 // which of the latest sequence numbers have come: see windowCode
	trackSchedule = trackWindow + windowBlocks*blockWords
	trackWire     = trackSchedule + latencyWords
	trackArrived  = trackWire + latencyWords // ns, when the frame that came last came
	trackSilence  = trackArrived + 1         // ns
	trackWords    = trackSilence + 1
)

// A record's latencies.
const (
	latencySum = iota
	latencyMax
	latencyCounts
	latencyWords = latencyCounts + buckets
)

// Of the latest sequence numbers, windowBlocks blocks of 64 are remembered: block b in slot b % windowBlocks, which says
// whose it is. So a block that is new to a slot needs nobody to clear those that were left out (compare RFC 6479).
const (
	windowBlocks = 64

	blockNumber = 0
	blockBits   = 1
	blockWords  = 2
)

const (
	typeVLAN       = 0x8100
	typeMACControl = 0x8808
)

// sinkCode is what happens to a frame that a sink receives. Only one CPU at a time runs it, for the device has one
// receive queue: the program is the only writer of what it counts.
//
// While it parses:         With a test frame:            With MAC control:
//
//	R6 the bank             the flow's record             the bank
//	R7 start of the frame   length of the frame           priorities that are meant
//	R8 its end              number of the block           the port's pauses
//	R9 now, ns              now                           when the frame is obeyed
func sinkCode(memory *xdprun.Shared, p SinkParams) []asm.Instructions {
	return []asm.Instructions{
		beginParsing(memory, p.Flows),
		parseType(),
		findFlow(p.Flows),
		placeInWindow(),
		placeBehind(),
		countFrame(),
		countLatency("schedule", trackSchedule, scheduledAt),
		countLatency("wire", trackWire, sentAt),
		countSilence(),
		xdprun.Drop("drop"),
		countAndDrop("duplicate", trackDuplicates),
		countAndDrop("stale", trackStale),
		countAndDrop("unknown", headUnknown),
		countAndDrop("untracked", headUntracked),
		countAndDrop("other control", headControl),
		parseControl(p),
		obeyControl(p),
		xdprun.Drop("obeyed"),
	}
}

// beginParsing counts the frame's bytes, whatever it is.
func beginParsing(memory *xdprun.Shared, flows int) asm.Instructions {
	return append(asm.Instructions{
		asm.LoadMem(asm.R7, asm.R1, xdprun.ContextData, asm.Word),
		asm.LoadMem(asm.R8, asm.R1, xdprun.ContextDataEnd, asm.Word),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMapValue(asm.R6, memory.FD(), 0),
		xdprun.Load(asm.R1, asm.R6, sinkBank),
		asm.And.Imm(asm.R1, 1),
		asm.Mul.Imm(asm.R1, int32(bankWords(flows)*xdprun.WordSize)),
		asm.Add.Reg(asm.R6, asm.R1),
		asm.Add.Imm(asm.R6, sinkBanks*xdprun.WordSize),
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.Sub.Reg(asm.R1, asm.R7),
	}, xdprun.Increase(asm.R6, headBytes, asm.R1, asm.R2)...)
}

func bankWords(flows int) int { return headWords + flows*trackWords }

// parseType points R3 to what is behind the EtherType of a test frame.
func parseType() asm.Instructions {
	return slices.Concat(
		readType(typeAt),
		asm.Instructions{
			asm.JEq.Imm(asm.R2, typeMACControl, "control"),
			asm.JNE.Imm(asm.R2, typeVLAN, "typed"),
		},
		readType(typeAt+tagLength),
		xdprun.Block("typed",
			asm.JNE.Imm(asm.R2, testType, "unknown"),
		),
	)
}

// readType reads the EtherType at an offset of the frame to R2, and points R3 behind it.
func readType(at int16) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R3, asm.R7),
		asm.Add.Imm(asm.R3, int32(at)+2),
		asm.JGT.Reg(asm.R3, asm.R8, "unknown"),
		asm.LoadMem(asm.R2, asm.R7, at, asm.Half),
		asm.HostTo(asm.BE, asm.R2, asm.Half),
	}
}

// findFlow sets R6, R7 and R8 to what they are with a test frame, and R1 to its sequence number. R3 points to the stamp.
func findFlow(flows int) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R3),
		asm.Add.Imm(asm.R1, stampLength),
		asm.JGT.Reg(asm.R1, asm.R8, "unknown"),
		asm.LoadMem(asm.R1, asm.R3, magicAt, asm.Word),
		asm.HostTo(asm.BE, asm.R1, asm.Word),
		asm.JNE.Imm(asm.R1, magic, "unknown"),
		asm.LoadMem(asm.R1, asm.R3, flowAt, asm.Word),
		asm.HostTo(asm.BE, asm.R1, asm.Word),
		asm.JGE.Imm(asm.R1, int32(flows), "untracked"),
		asm.Mul.Imm(asm.R1, trackWords*xdprun.WordSize),
		asm.Add.Reg(asm.R6, asm.R1),
		asm.Add.Imm(asm.R6, headWords*xdprun.WordSize),
		asm.Sub.Reg(asm.R8, asm.R7),
		asm.Mov.Reg(asm.R7, asm.R8),
		asm.LoadMem(asm.R1, asm.R3, sequenceAt, asm.DWord),
		asm.HostTo(asm.BE, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R8, asm.R1),
		asm.RSh.Imm(asm.R8, 6),
	}
}

// placeInWindow goes to "behind" with a sequence number R1 that is not higher than all before, and else notes it in the
// window. It sets R4 to the block's slot and R5 to the number's bit in it.
func placeInWindow() asm.Instructions {
	return slices.Concat(
		asm.Instructions{
			asm.Mov.Reg(asm.R4, asm.R8),
			asm.And.Imm(asm.R4, windowBlocks-1),
			asm.Mul.Imm(asm.R4, blockWords*xdprun.WordSize),
			asm.Add.Reg(asm.R4, asm.R6),
			asm.Add.Imm(asm.R4, trackWindow*xdprun.WordSize),
			asm.Mov.Reg(asm.R2, asm.R1),
			asm.And.Imm(asm.R2, 63),
			asm.Mov.Imm(asm.R5, 1),
			asm.LSh.Reg(asm.R5, asm.R2),
			xdprun.Load(asm.R2, asm.R6, trackFrames),
			asm.JNE.Imm(asm.R2, 0, "known"),
			xdprun.Store(asm.R6, trackFirst, asm.R1), // the first frame
			xdprun.Store(asm.R6, trackNext, asm.R1),
		},
		xdprun.Block("known",
			xdprun.Load(asm.R2, asm.R6, trackNext),
			asm.JLT.Reg(asm.R1, asm.R2, "behind"),
			asm.Add.Imm(asm.R1, 1),
			xdprun.Store(asm.R6, trackNext, asm.R1),
			xdprun.Load(asm.R2, asm.R4, blockNumber),
			asm.JEq.Reg(asm.R2, asm.R8, "mark"),
		),
		enterBlock(),
		xdprun.Block("mark",
			xdprun.Load(asm.R2, asm.R4, blockBits),
			asm.Or.Reg(asm.R2, asm.R5),
			xdprun.Store(asm.R4, blockBits, asm.R2),
			asm.Ja.Label("count"),
		),
	)
}

// enterBlock makes the slot R4 that of block R8, none of which has come yet.
func enterBlock() asm.Instructions {
	return asm.Instructions{
		xdprun.Store(asm.R4, blockNumber, asm.R8),
		asm.Mov.Imm(asm.R2, 0),
		xdprun.Store(asm.R4, blockBits, asm.R2),
	}
}

// placeBehind decides what a frame is that came after one with a higher sequence number.
func placeBehind() asm.Instructions {
	return slices.Concat(
		xdprun.Block("behind",
			xdprun.Load(asm.R2, asm.R6, trackFirst),
			asm.JLT.Reg(asm.R1, asm.R2, "stale"),
			xdprun.Load(asm.R2, asm.R4, blockNumber),
			asm.JGT.Reg(asm.R2, asm.R8, "stale"),
			asm.JEq.Reg(asm.R2, asm.R8, "late"),
		),
		enterBlock(),
		xdprun.Block("late",
			xdprun.Load(asm.R2, asm.R4, blockBits),
			asm.Mov.Reg(asm.R1, asm.R2),
			asm.And.Reg(asm.R1, asm.R5),
			asm.JNE.Imm(asm.R1, 0, "duplicate"),
			asm.Or.Reg(asm.R2, asm.R5),
			xdprun.Store(asm.R4, blockBits, asm.R2),
		),
		xdprun.Count(asm.R6, trackReordered, asm.R1),
	)
}

// countFrame counts a frame that came for the first time.
func countFrame() asm.Instructions {
	return slices.Concat(
		xdprun.Block("count", xdprun.Count(asm.R6, trackFrames, asm.R1)...),
		xdprun.Increase(asm.R6, trackBytes, asm.R7, asm.R1),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R3, sentAt, asm.DWord),
			asm.HostTo(asm.BE, asm.R1, asm.DWord),
			xdprun.Store(asm.R6, trackLastSent, asm.R1),
		},
	)
}

// countLatency counts the time from one that is in the stamp, at an offset, until now.
//
//	R1 the latency
//	R2 how many bits of it are cut off
//	R4 its leading bits, to begin with from the octave's on
func countLatency(name string, latency int, at int16) asm.Instructions {
	code := slices.Concat(
		asm.Instructions{
			asm.LoadMem(asm.R4, asm.R3, at, asm.DWord),
			asm.HostTo(asm.BE, asm.R4, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R9),
			asm.Sub.Reg(asm.R1, asm.R4),
			asm.JSGE.Imm(asm.R1, 0, name+" passed"),
			asm.Mov.Imm(asm.R1, 0), // the sender has another clock
		},
		xdprun.Block(name+" passed", xdprun.Increase(asm.R6, latency+latencySum, asm.R1, asm.R2)...),
		asm.Instructions{
			xdprun.Load(asm.R2, asm.R6, latency+latencyMax),
			asm.JLE.Reg(asm.R1, asm.R2, name+" bounded"),
			xdprun.Store(asm.R6, latency+latencyMax, asm.R1),
		},
		xdprun.Block(name+" bounded",
			asm.LoadImm(asm.R2, MaxLatency, asm.DWord),
			asm.JLE.Reg(asm.R1, asm.R2, name+" cut 32"),
			asm.Mov.Reg(asm.R1, asm.R2),
		),
		xdprun.Block(name+" cut 32",
			asm.Mov.Reg(asm.R4, asm.R1),
			asm.RSh.Imm(asm.R4, octaveBits),
			asm.Mov.Imm(asm.R2, 0),
		),
	)
	for bits := int32(16); bits > 0; bits /= 2 {
		next := fmt.Sprint(name, " cut ", bits)
		code = slices.Concat(code,
			asm.Instructions{
				asm.JLT.Imm(asm.R4, 1<<bits, next),
				asm.RSh.Imm(asm.R4, bits),
				asm.Add.Imm(asm.R2, bits),
			},
			xdprun.Block(next, asm.Mov.Reg(asm.R4, asm.R4)),
		)
	}
	return slices.Concat(code,
		asm.Instructions{
			asm.RSh.Reg(asm.R1, asm.R2),
			asm.LSh.Imm(asm.R2, octaveBits),
			asm.Add.Reg(asm.R1, asm.R2),
			asm.And.Imm(asm.R1, buckets-1), // it is no more; the verifier wants it said
			asm.LSh.Imm(asm.R1, 3),
			asm.Add.Reg(asm.R1, asm.R6),
		},
		xdprun.Count(asm.R1, latency+latencyCounts, asm.R2),
	)
}

// countSilence keeps the longest time between a frame and the one before.
func countSilence() asm.Instructions {
	return slices.Concat(
		asm.Instructions{
			xdprun.Load(asm.R1, asm.R6, trackArrived),
			xdprun.Store(asm.R6, trackArrived, asm.R9),
			asm.JEq.Imm(asm.R1, 0, "no silence"), // it is the first
			asm.Mov.Reg(asm.R2, asm.R9),
			asm.Sub.Reg(asm.R2, asm.R1),
			xdprun.Load(asm.R1, asm.R6, trackSilence),
			asm.JLE.Reg(asm.R2, asm.R1, "no silence"),
			xdprun.Store(asm.R6, trackSilence, asm.R2),
		},
		xdprun.Block("no silence", asm.Mov.Reg(asm.R6, asm.R6)),
	)
}

// countAndDrop counts in a word of R6 and ends.
func countAndDrop(name string, word int) asm.Instructions {
	return append(xdprun.Block(name, xdprun.Count(asm.R6, word, asm.R1)...), asm.Ja.Label("drop"))
}

// MAC control frames (IEEE 802.3 annexes 31B and 31D; pfc/frame.go has the layout).
const (
	opcodeAt = 14
	vectorAt = 16
	timesAt  = 18
	pfcEnd   = timesAt + 2*priorities
	timeAt   = 16 // of a PAUSE
	timeEnd  = timeAt + 2

	opcodePause = 0x0001
	opcodePFC   = 0x0101

	quanta = -16 // where on the stack the times of the priorities are
)

// parseControl copies the times that a PFC frame says to the stack, big-endian, and sets R7, R8 and R9 to what they are
// with MAC control. A PAUSE says the same of all priorities.
func parseControl(p SinkParams) asm.Instructions {
	const all, each = 0xff, 0x0001_0001_0001_0001
	return slices.Concat(
		atLeast("control", opcodeAt+2),
		asm.Instructions{
			asm.LoadMem(asm.R2, asm.R7, opcodeAt, asm.Half),
			asm.HostTo(asm.BE, asm.R2, asm.Half),
			asm.JEq.Imm(asm.R2, opcodePFC, "PFC"),
			asm.JNE.Imm(asm.R2, opcodePause, "other control"),
		},
		atLeast("PAUSE", timeEnd),
		xdprun.Count(asm.R6, headPause, asm.R1),
		asm.Instructions{
			asm.LoadMem(asm.R2, asm.R7, timeAt, asm.Half),
			asm.LoadImm(asm.R3, each, asm.DWord),
			asm.Mul.Reg(asm.R2, asm.R3),
			asm.Mov.Reg(asm.R3, asm.R2),
			asm.Mov.Imm(asm.R7, all),
			asm.Ja.Label("obey"),
		},
		atLeast("PFC", pfcEnd),
		xdprun.Count(asm.R6, headPFC, asm.R1),
		asm.Instructions{
			asm.LoadMem(asm.R2, asm.R7, timesAt, asm.DWord),
			asm.LoadMem(asm.R3, asm.R7, timesAt+8, asm.DWord),
			asm.LoadMem(asm.R7, asm.R7, vectorAt+1, asm.Byte),
		},
		xdprun.Block("obey",
			asm.StoreMem(asm.RFP, quanta, asm.R2, asm.DWord),
			asm.StoreMem(asm.RFP, quanta+8, asm.R3, asm.DWord),
			asm.LoadMapValue(asm.R8, p.Pauses.shared.FD(), uint32(p.Port*portPauseWords*xdprun.WordSize)),
			asm.LoadImm(asm.R1, int64(p.Delay), asm.DWord),
			asm.Add.Reg(asm.R9, asm.R1),
		),
	)
}

// atLeast goes to "other control" with a frame of fewer bytes.
func atLeast(name string, bytes int32) asm.Instructions {
	return xdprun.Block(name,
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.Add.Imm(asm.R1, bytes),
		asm.JGT.Reg(asm.R1, asm.R8, "other control"),
	)
}

// obeyControl does what the frame says to each priority, if the priority obeys, and then counts it: who has seen the count
// sees the pause too.
func obeyControl(p SinkParams) (code asm.Instructions) {
	for n := range priorities {
		done, resume, resumed := fmt.Sprint("done ", n), fmt.Sprint("resume ", n), fmt.Sprint("resumed ", n)
		code = slices.Concat(code,
			asm.Instructions{
				asm.Mov.Reg(asm.R1, asm.R7),
				asm.And.Imm(asm.R1, 1<<n),
				asm.JEq.Imm(asm.R1, 0, done),
				asm.LoadMem(asm.R1, asm.RFP, int16(quanta+2*n), asm.Half),
				asm.HostTo(asm.BE, asm.R1, asm.Half),
				asm.JEq.Imm(asm.R1, 0, resume),
			},
			pausePriority(p, n),
			xdprun.Count(asm.R6, headXOFF+n, asm.R2),
			asm.Instructions{asm.Ja.Label(done)},
			xdprun.Block(resume, asm.Mov.Reg(asm.R7, asm.R7)),
			resumePriority(p, n, resumed),
			xdprun.Block(resumed, xdprun.Count(asm.R6, headXON+n, asm.R2)...),
			xdprun.Block(done, asm.Mov.Reg(asm.R7, asm.R7)),
		)
	}
	return code
}

// pausePriority pauses a priority for R1 quanta from R9 on. A pause that is not over, or, with a delay, not begun, is
// prolonged or cut: of two pauses in a delay it makes one, and so never sends too early.
func pausePriority(p SinkParams, n int) asm.Instructions {
	if p.Priorities&(1<<n) == 0 {
		return nil
	}
	const quantumBits = 512
	first, prolong := n*pauseWords, fmt.Sprint("prolong ", n)
	return slices.Concat(
		asm.Instructions{ // R1: when the pause ends, rounded up
			asm.LoadImm(asm.R2, quantumBits*1e9, asm.DWord),
			asm.Mul.Reg(asm.R1, asm.R2),
			asm.LoadImm(asm.R2, int64(p.Speed), asm.DWord),
			asm.Add.Reg(asm.R1, asm.R2),
			asm.Sub.Imm(asm.R1, 1),
			asm.Div.Reg(asm.R1, asm.R2),
			asm.Add.Reg(asm.R1, asm.R9),

			xdprun.Load(asm.R2, asm.R8, first+pauseEnd),
			asm.Mov.Reg(asm.R3, asm.R9),
			asm.LoadImm(asm.R4, int64(p.Delay), asm.DWord),
			asm.Sub.Reg(asm.R3, asm.R4), // now
			asm.JGT.Reg(asm.R2, asm.R3, prolong),
			xdprun.Load(asm.R3, asm.R8, first+pauseBegin),
			asm.Sub.Reg(asm.R2, asm.R3),
		},
		xdprun.Increase(asm.R8, first+pauseBooked, asm.R2, asm.R3),
		asm.Instructions{xdprun.Store(asm.R8, first+pauseBegin, asm.R9)},
		xdprun.Block(prolong, xdprun.Store(asm.R8, first+pauseEnd, asm.R1)),
	)
}

// resumePriority ends a pause at R9, or goes to over if it ends before.
func resumePriority(p SinkParams, n int, over string) asm.Instructions {
	if p.Priorities&(1<<n) == 0 {
		return nil
	}
	end := n*pauseWords + pauseEnd
	return asm.Instructions{
		xdprun.Load(asm.R2, asm.R8, end),
		asm.JLE.Reg(asm.R2, asm.R9, over),
		xdprun.Store(asm.R8, end, asm.R9),
	}
}
