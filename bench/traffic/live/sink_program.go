package live

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pmd/xdprun"
)

// The sink's memory, in words: the number of the active bank, the priorities that honour PFC, and
// two banks. A bank has a head and the flows' records.
const (
	sinkBank     = 0
	sinkHonoured = 1 // bit n: priority n; written by SetPriorities
	sinkBanks    = 8
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
	trackWindow   = 8 // which of the latest sequence numbers have arrived: see placeInWindow
	trackSchedule = trackWindow + line.Blocks*blockWords
	trackWire     = trackSchedule + latencyWords
	trackWords    = trackWire + latencyWords
)

// A record's latencies.
const (
	latencySum = iota
	latencyMax
	latencyCounts
	latencyWords = latencyCounts + line.Buckets
)

// The window is that of line.Track.
const (
	blockNumber = 0
	blockBits   = 1
	blockWords  = 2
)

const (
	typeAt     = 12                           // of a frame without a tag
	headerMost = typeAt + frame.TagLength + 2 // bytes before the stamp
	typeLLDP   = 0x88cc
)

// The sink's program runs once for each frame that the device receives. The device has one receive
// queue, so only one CPU at a time runs the program: it is the only writer of its counters.
//
//	begin:                                                            beginParsing
//		bank = the active bank
//		bank.bytes += length of the frame
//		if it is MAC control: goto control                        parseType
//		if it is LLDP, and that is asked for: return XDP_PASS     parseType
//		if it is not a test frame: bank.unknown++, drop           parseType, findFlow
//		track = the record of its flow, or bank.untracked++, drop
//		block = its sequence number / 64
//		if the number is below track.next: goto behind            placeInWindow
//		track.next = the number + 1
//		mark it in the window; goto count
//	behind:                                                           placeBehind
//		if it is below track.first, or the window has moved on: track.stale++, drop
//		if it is marked in the window: track.duplicates++, drop
//		mark it; track.reordered++
//	count:
//		track.frames++, track.bytes += length                     countFrame
//		count now - scheduled and now - sent                      countLatency
//	drop:
//		return XDP_DROP
//	control:                                                          parseControl
//		if it is PAUSE: bank.pause++; it means all priorities, for the same time
//		if it is PFC: bank.PFC++; it means the priorities of its vector, each for its own time
//		if it is neither: bank.control++, drop
//		obeyed = now + delay
//		for each priority that is meant:                          obeyControl
//			if its time is 0: end its pause if it honours PFC; bank.XON[priority]++
//			else begin or extend it if it honours PFC; bank.XOFF[priority]++
//		return XDP_DROP
//
// Jumps of xdprun.Within are part of "it is not a test frame" and "it is neither".
func sinkCode(memory *xdprun.Shared, p SinkParams) []asm.Instructions {
	code := []asm.Instructions{
		beginParsing(memory, p.Flows),
		parseType(p.LLDP),
		findFlow(p.Flows),
		placeInWindow(),
		placeBehind(),
		countFrame(),
		countLatency("schedule", trackSchedule, line.ScheduledAt),
		countLatency("wire", trackWire, line.SentAt),
		xdprun.Drop("drop"),
		countAndDrop("duplicate", trackDuplicates),
		countAndDrop("stale", trackStale),
		countAndDrop("unknown", headUnknown),
		countAndDrop("untracked", headUntracked),
		countAndDrop("other control", headControl),
		parseControl(memory, p),
		obeyControl(p),
		xdprun.Drop("obeyed"),
	}
	if p.LLDP {
		const xdpPass = 2 // enum xdp_action
		code = append(code, xdprun.Block("pass", asm.Mov.Imm(asm.R0, xdpPass), asm.Return()))
	}
	return code
}

// sinking names the registers with fixed contents.
var sinking = struct {
	bank, start, end, now asm.Register // while parsing: bounds of the frame
	track, length, block  asm.Register // with a test frame
	stamp, window, bit    asm.Register // … overwritten by calls of helper functions, of which there are none
	meant, pauses, obeyed asm.Register // with MAC control: priorities, their records, ns
}{
	bank: asm.R6, start: asm.R7, end: asm.R8, now: asm.R9,
	track: asm.R6, length: asm.R7, block: asm.R8,
	stamp: asm.R3, window: asm.R4, bit: asm.R5,
	meant: asm.R7, pauses: asm.R8, obeyed: asm.R9,
}

// frameLength is where the length of the frame is on the stack, in bytes from its end. The bounds
// only cover the first buffer of a frame that has several.
const frameLength = -8

// beginParsing counts the bytes of the frame, whatever its type.
func beginParsing(memory *xdprun.Shared, flows int) asm.Instructions {
	r := sinking
	return slices.Concat(
		xdprun.Bounds(r.start, r.end, asm.R1),
		asm.Instructions{
			asm.FnXdpGetBuffLen.Call(),
			asm.StoreMem(asm.R10, frameLength, asm.R0, asm.DWord),
		},
		xdprun.Now(r.now),
		asm.Instructions{
			xdprun.Point(r.bank, memory, 0),
			xdprun.Load(asm.R1, r.bank, sinkBank),
			asm.And.Imm(asm.R1, 1),
			asm.Mul.Imm(asm.R1, int32(bankWords(flows)*xdprun.WordSize)),
			asm.Add.Reg(r.bank, asm.R1),
			asm.Add.Imm(r.bank, sinkBanks*xdprun.WordSize),
			asm.LoadMem(asm.R1, asm.R10, frameLength, asm.DWord),
		},
		xdprun.Increase(r.bank, headBytes, asm.R1, asm.R2),
	)
}

func bankWords(flows int) int { return headWords + flows*trackWords }

// parseType points stamp behind the EtherType of a test frame. With lldp, LLDP jumps to "pass".
func parseType(lldp bool) asm.Instructions {
	var pass asm.Instructions
	if lldp {
		pass = asm.Instructions{asm.JEq.Imm(asm.R2, typeLLDP, "pass")}
	}
	return slices.Concat(
		readType(typeAt),
		asm.Instructions{
			asm.JEq.Imm(asm.R2, frame.TypeMACControl, "control"),
			asm.JNE.Imm(asm.R2, frame.TypeVLAN, "typed"),
		},
		readType(typeAt+frame.TagLength),
		xdprun.Here("typed", asm.R2),
		pass,
		asm.Instructions{asm.JNE.Imm(asm.R2, line.TestType, "unknown")},
	)
}

// readType loads the EtherType at an offset of the frame into R2 and points stamp behind it.
func readType(at int16) asm.Instructions {
	r := sinking
	return slices.Concat(
		xdprun.Within(r.stamp, r.start, int(at)+2, r.end, "unknown"),
		xdprun.LoadBE(asm.R2, r.start, at, asm.Half),
	)
}

// findFlow finds the record of a test frame, its length and its block, and sets R1 to its sequence
// number.
func findFlow(flows int) asm.Instructions {
	r := sinking
	return slices.Concat(
		xdprun.Within(asm.R1, r.stamp, line.StampLength, r.end, "unknown"),
		xdprun.LoadBE(asm.R1, r.stamp, line.MagicAt, asm.Word),
		asm.Instructions{asm.JNE.Imm(asm.R1, line.Magic, "unknown")},
		xdprun.LoadBE(asm.R1, r.stamp, line.FlowAt, asm.Word),
		asm.Instructions{
			xdprun.Below(asm.R1, flows, "untracked"),
			asm.Mul.Imm(asm.R1, trackWords*xdprun.WordSize),
			asm.Add.Reg(r.track, asm.R1), // was the bank
			asm.Add.Imm(r.track, headWords*xdprun.WordSize),
			asm.LoadMem(r.length, asm.R10, frameLength, asm.DWord), // was the start
		},
		xdprun.LoadBE(asm.R1, r.stamp, line.SequenceAt, asm.DWord),
		asm.Instructions{
			asm.Mov.Reg(r.block, asm.R1),
			asm.RSh.Imm(r.block, 6),
		},
	)
}

// placeInWindow jumps to "behind" if the sequence number R1 is not the highest so far, else it
// marks the number in the window. It points window to the block's slot and sets bit to the number's
// bit in it.
func placeInWindow() asm.Instructions {
	r := sinking
	return slices.Concat(
		asm.Instructions{
			asm.Mov.Reg(r.window, r.block),
			asm.And.Imm(r.window, line.Blocks-1),
			asm.Mul.Imm(r.window, blockWords*xdprun.WordSize),
			asm.Add.Reg(r.window, r.track),
			asm.Add.Imm(r.window, trackWindow*xdprun.WordSize),
			asm.Mov.Reg(asm.R2, asm.R1),
			asm.And.Imm(asm.R2, 63),
			asm.Mov.Imm(r.bit, 1),
			asm.LSh.Reg(r.bit, asm.R2),
			xdprun.Load(asm.R2, r.track, trackFrames),
			asm.JNE.Imm(asm.R2, 0, "known"),
			xdprun.Store(r.track, trackFirst, asm.R1), // the first frame
			xdprun.Store(r.track, trackNext, asm.R1),
		},
		xdprun.Block("known",
			xdprun.Load(asm.R2, r.track, trackNext),
			asm.JLT.Reg(asm.R1, asm.R2, "behind"),
			asm.Add.Imm(asm.R1, 1),
			xdprun.Store(r.track, trackNext, asm.R1),
			xdprun.Load(asm.R2, r.window, blockNumber),
			asm.JEq.Reg(asm.R2, r.block, "mark"),
		),
		enterBlock(),
		xdprun.Block("mark",
			xdprun.Load(asm.R2, r.window, blockBits),
			asm.Or.Reg(asm.R2, r.bit),
			xdprun.Store(r.window, blockBits, asm.R2),
			asm.Ja.Label("count"),
		),
	)
}

// enterBlock assigns the slot to the block, with no sequence number marked.
func enterBlock() asm.Instructions {
	r := sinking
	return asm.Instructions{
		xdprun.Store(r.window, blockNumber, r.block),
		asm.Mov.Imm(asm.R2, 0),
		xdprun.Store(r.window, blockBits, asm.R2),
	}
}

// placeBehind classifies a frame that arrived after one with a higher sequence number.
func placeBehind() asm.Instructions {
	r := sinking
	return slices.Concat(
		xdprun.Block("behind",
			xdprun.Load(asm.R2, r.track, trackFirst),
			asm.JLT.Reg(asm.R1, asm.R2, "stale"),
			xdprun.Load(asm.R2, r.window, blockNumber),
			asm.JGT.Reg(asm.R2, r.block, "stale"),
			asm.JEq.Reg(asm.R2, r.block, "late"),
		),
		enterBlock(),
		xdprun.Block("late",
			xdprun.Load(asm.R2, r.window, blockBits),
			asm.Mov.Reg(asm.R1, asm.R2),
			asm.And.Reg(asm.R1, r.bit),
			asm.JNE.Imm(asm.R1, 0, "duplicate"),
			asm.Or.Reg(asm.R2, r.bit),
			xdprun.Store(r.window, blockBits, asm.R2),
		),
		xdprun.Count(r.track, trackReordered, asm.R1),
	)
}

// countFrame counts a frame that arrives for the first time.
func countFrame() asm.Instructions {
	r := sinking
	return slices.Concat(
		xdprun.Block("count", xdprun.Count(r.track, trackFrames, asm.R1)...),
		xdprun.Increase(r.track, trackBytes, r.length, asm.R1),
		xdprun.LoadBE(asm.R1, r.stamp, line.SentAt, asm.DWord),
		asm.Instructions{xdprun.Store(r.track, trackLastSent, asm.R1)},
	)
}

// countLatency counts the time since the one at an offset of the stamp.
//
//	R1 the latency
//	R2 number of bits to cut off
//	R4 its leading bits, including those of the octave at first
func countLatency(name string, latency int, at int16) asm.Instructions {
	r := sinking
	code := slices.Concat(
		xdprun.LoadBE(asm.R4, r.stamp, at, asm.DWord),
		asm.Instructions{
			asm.Mov.Reg(asm.R1, r.now),
			asm.Sub.Reg(asm.R1, asm.R4),
			asm.JSGE.Imm(asm.R1, 0, name+" passed"),
			asm.Mov.Imm(asm.R1, 0), // the sender has another clock
		},
		xdprun.Block(name+" passed", xdprun.Increase(r.track, latency+latencySum, asm.R1, asm.R2)...),
		asm.Instructions{
			xdprun.Load(asm.R2, r.track, latency+latencyMax),
			asm.JLE.Reg(asm.R1, asm.R2, name+" bounded"),
			xdprun.Store(r.track, latency+latencyMax, asm.R1),
		},
		xdprun.Block(name+" bounded",
			asm.LoadImm(asm.R2, line.MaxTime, asm.DWord),
			asm.JLE.Reg(asm.R1, asm.R2, name+" cut 32"),
			asm.Mov.Reg(asm.R1, asm.R2),
		),
		xdprun.Block(name+" cut 32",
			asm.Mov.Reg(asm.R4, asm.R1),
			asm.RSh.Imm(asm.R4, line.OctaveBits),
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
			xdprun.Here(next, asm.R4),
		)
	}
	return slices.Concat(code,
		asm.Instructions{
			asm.RSh.Reg(asm.R1, asm.R2),
			asm.LSh.Imm(asm.R2, line.OctaveBits),
			asm.Add.Reg(asm.R1, asm.R2),
			asm.And.Imm(asm.R1, line.Buckets-1), // no effect, but the verifier can't know that
			asm.LSh.Imm(asm.R1, 3),
			asm.Add.Reg(asm.R1, r.track),
		},
		xdprun.Count(asm.R1, latency+latencyCounts, asm.R2),
	)
}

// countAndDrop counts in a word of the bank or of the track, which share a register, and drops the
// frame.
func countAndDrop(name string, word int) asm.Instructions {
	r := sinking
	return append(xdprun.Block(name, xdprun.Count(r.bank, word, asm.R1)...), asm.Ja.Label("drop"))
}

// MAC control frames (IEEE 802.3 annexes 31B and 31D; layout in pfc/frame.go).
const (
	destinationHigh = 0x0180_c200 // of pfc.Destination
	destinationLow  = 0x0001

	opcodeAt = 14
	vectorAt = 16
	timesAt  = 18
	pfcEnd   = timesAt + 2*priorities
	timeAt   = 16 // in a PAUSE
	timeEnd  = timeAt + 2

	opcodePause = 0x0001
	opcodePFC   = 0x0101

	quanta = -16 // offset of the priorities' times on the stack
)

// parseControl copies the times of a PFC frame to the stack, big-endian, and sets the registers for
// MAC control. A PAUSE gives all priorities the same time. In r.meant, the priorities that honour
// PFC are above those that are meant.
func parseControl(memory *xdprun.Shared, p SinkParams) asm.Instructions {
	r := sinking
	const all, each = 0xff, 0x0001_0001_0001_0001
	return slices.Concat(
		atLeast("control", opcodeAt+2),
		xdprun.LoadBE(asm.R2, r.start, 0, asm.Word),
		asm.Instructions{asm.JNE.Imm(asm.R2, destinationHigh, "other control")},
		xdprun.LoadBE(asm.R2, r.start, 4, asm.Half),
		asm.Instructions{asm.JNE.Imm(asm.R2, destinationLow, "other control")},
		xdprun.LoadBE(asm.R2, r.start, opcodeAt, asm.Half),
		asm.Instructions{
			asm.JEq.Imm(asm.R2, opcodePFC, "PFC"),
			asm.JNE.Imm(asm.R2, opcodePause, "other control"),
		},
		atLeast("PAUSE", timeEnd),
		xdprun.Count(r.bank, headPause, asm.R1),
		asm.Instructions{
			asm.LoadMem(asm.R2, r.start, timeAt, asm.Half),
			asm.LoadImm(asm.R3, each, asm.DWord),
			asm.Mul.Reg(asm.R2, asm.R3),
			asm.Mov.Reg(asm.R3, asm.R2),
			asm.Mov.Imm(r.meant, all),
			asm.Ja.Label("obey"),
		},
		atLeast("PFC", pfcEnd),
		xdprun.Count(r.bank, headPFC, asm.R1),
		asm.Instructions{
			asm.LoadMem(asm.R2, r.start, timesAt, asm.DWord),
			asm.LoadMem(asm.R3, r.start, timesAt+8, asm.DWord),
			asm.LoadMem(r.meant, r.start, vectorAt+1, asm.Byte),
		},
		xdprun.Block("obey",
			asm.StoreMem(asm.RFP, quanta, asm.R2, asm.DWord),
			asm.StoreMem(asm.RFP, quanta+8, asm.R3, asm.DWord),
			xdprun.Point(asm.R1, memory, sinkHonoured),
			xdprun.Load(asm.R1, asm.R1, 0),
			asm.LSh.Imm(asm.R1, priorities),
			asm.Or.Reg(r.meant, asm.R1),
			xdprun.Point(r.pauses, p.Pauses.shared, p.Port*portPauseWords),
			asm.LoadImm(asm.R1, int64(p.Delay), asm.DWord),
			asm.Add.Reg(r.obeyed, asm.R1),
		),
	)
}

// atLeast jumps to "other control" if the frame has fewer bytes.
func atLeast(name string, bytes int) asm.Instructions {
	r := sinking
	return xdprun.Block(name, xdprun.Within(asm.R1, r.start, bytes, r.end, "other control")...)
}

// honours jumps elsewhere unless priority n honours PFC.
func honours(n int, elsewhere string) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R2, sinking.meant),
		asm.And.Imm(asm.R2, 1<<(priorities+n)),
		asm.JEq.Imm(asm.R2, 0, elsewhere),
	}
}

// obeyControl applies the frame to each priority that honours PFC, and then counts it, so a reader
// that sees the count sees the pause too.
func obeyControl(p SinkParams) (code asm.Instructions) {
	r := sinking
	for n := range priorities {
		done, paused := fmt.Sprint("done ", n), fmt.Sprint("paused ", n)
		resume, resumed := fmt.Sprint("resume ", n), fmt.Sprint("resumed ", n)
		code = slices.Concat(code,
			asm.Instructions{
				asm.Mov.Reg(asm.R1, r.meant),
				asm.And.Imm(asm.R1, 1<<n),
				asm.JEq.Imm(asm.R1, 0, done),
			},
			xdprun.LoadBE(asm.R1, asm.RFP, int16(quanta+2*n), asm.Half),
			asm.Instructions{asm.JEq.Imm(asm.R1, 0, resume)},
			pausePriority(p, n, paused),
			xdprun.Block(paused, xdprun.Count(r.bank, headXOFF+n, asm.R2)...),
			asm.Instructions{asm.Ja.Label(done)},
			xdprun.Here(resume, r.meant),
			resumePriority(n, resumed),
			xdprun.Block(resumed, xdprun.Count(r.bank, headXON+n, asm.R2)...),
			xdprun.Here(done, r.meant),
		)
	}
	return code
}

// pausePriority pauses a priority for R1 quanta from obeyed on, or jumps to elsewhere if it does
// not honour PFC. A pause that is not over, or that has not begun because of the delay, gets the
// new end. Two pauses within a delay become one, so the generator never sends too early.
func pausePriority(p SinkParams, n int, elsewhere string) asm.Instructions {
	r := sinking
	const quantumBits = 512
	first, prolong := n*pauseWords, fmt.Sprint("prolong ", n)
	return slices.Concat(
		honours(n, elsewhere),
		asm.Instructions{ // R1: end of the pause, rounded up
			asm.LoadImm(asm.R2, quantumBits*1e9, asm.DWord),
			asm.Mul.Reg(asm.R1, asm.R2),
			asm.LoadImm(asm.R2, int64(p.Speed), asm.DWord),
			asm.Add.Reg(asm.R1, asm.R2),
			asm.Sub.Imm(asm.R1, 1),
			asm.Div.Reg(asm.R1, asm.R2),
			asm.Add.Reg(asm.R1, r.obeyed),

			xdprun.Load(asm.R2, r.pauses, first+pauseEnd),
			asm.Mov.Reg(asm.R3, r.obeyed),
			asm.LoadImm(asm.R4, int64(p.Delay), asm.DWord),
			asm.Sub.Reg(asm.R3, asm.R4), // now
			asm.JGT.Reg(asm.R2, asm.R3, prolong),
			xdprun.Load(asm.R3, r.pauses, first+pauseBegin),
			asm.Sub.Reg(asm.R2, asm.R3),
		},
		xdprun.Increase(r.pauses, first+pauseBooked, asm.R2, asm.R3),
		asm.Instructions{xdprun.Store(r.pauses, first+pauseBegin, r.obeyed)},
		xdprun.Block(prolong, xdprun.Store(r.pauses, first+pauseEnd, asm.R1)),
	)
}

// resumePriority ends a pause at obeyed, or jumps to over if it ends earlier, or if the priority
// does not honour PFC.
func resumePriority(n int, over string) asm.Instructions {
	r := sinking
	end := n*pauseWords + pauseEnd
	return slices.Concat(honours(n, over), asm.Instructions{
		xdprun.Load(asm.R2, r.pauses, end),
		asm.JLE.Reg(asm.R2, r.obeyed, over),
		xdprun.Store(r.pauses, end, r.obeyed),
	})
}
