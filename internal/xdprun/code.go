package xdprun

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// XDP programs are written in the instructions of cilium/ebpf/asm, so that nothing but Go builds
// them. How to read one:
//
//   - Its file begins with pseudo-code and names for its registers; a function below is a few lines of that.
//   - A helper function of the kernel takes R1 to R5, returns R0 and keeps R6 to R9. So R6 to R9 have names, and the others hold
//     what the next lines need. RFP is the end of the stack.
//   - A Block is a place to jump to. Code that does not jump goes on with the next function.
//   - The verifier (kernel/bpf/verifier.c) follows every way through a program, and refuses one that it can't prove to stay within
//     its memory and to end. What is there only for the verifier's sake is an AtMost or Below.
//
// The functions of this file are what programs have in common.

// NewProgram loads an XDP program.
func NewProgram(name string, parts ...asm.Instructions) (*ebpf.Program, error) {
	code := slices.Concat(parts...)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.XDP, Instructions: code,
		License: "Dual MIT/GPL"})
	if err != nil {
		return nil, fmt.Errorf("XDP program %s: %w", name, explain(err, code))
	}
	return p, nil
}

// Memory that is shared with Go code: words of records (Shared).

// at returns the offset of a word of a record: bytes.
func at(word int) int16 { return int16(word * WordSize) }

// Point points to to word w of a map's value.
func Point(to asm.Register, s *Shared, w int) asm.Instruction {
	return asm.LoadMapValue(to, s.FD(), uint32(w*WordSize))
}

// Load reads word w of the record at base.
func Load(to, base asm.Register, w int) asm.Instruction {
	return asm.LoadMem(to, base, at(w), asm.DWord)
}

// Store writes word w of the record at base.
func Store(base asm.Register, w int, from asm.Register) asm.Instruction {
	return asm.StoreMem(base, at(w), from, asm.DWord)
}

// Load32 reads the first 32 bits of a word, as the indices of rings are.
func Load32(to, base asm.Register, w int) asm.Instruction {
	return asm.LoadMem(to, base, at(w), asm.Word)
}

// Increase adds amount to word w of the record at base; scratch is lost.
func Increase(base asm.Register, w int, amount, scratch asm.Register) asm.Instructions {
	return asm.Instructions{Load(scratch, base, w), asm.Add.Reg(scratch, amount), Store(base, w, scratch)}
}

// Count adds 1 to word w of the record at base; scratch is lost.
func Count(base asm.Register, w int, scratch asm.Register) asm.Instructions {
	return asm.Instructions{Load(scratch, base, w), asm.Add.Imm(scratch, 1), Store(base, w, scratch)}
}

// Turns is in which order a program looks at records of a map: their offsets in bytes, all of them
// twice over. So a program that begins at any place among the first ones meets each record once and
// never goes back to the first; the verifier would follow such a step back wherever it may be, on
// ways that are as many as the square of the records.
type Turns struct {
	Map   *Shared
	Order int // word of the map's value: where the offsets begin
	Last  int // the highest offset, bytes
}

// Next points record to the record at a place of the order, and moves the place on. R1 and R2 are
// lost.
func (t Turns) Next(record, place asm.Register) asm.Instructions {
	return asm.Instructions{
		Point(asm.R1, t.Map, t.Order),
		asm.Mov.Reg(asm.R2, place),
		asm.LSh.Imm(asm.R2, 3), // WordSize
		asm.Add.Reg(asm.R1, asm.R2),
		Load(asm.R1, asm.R1, 0),
		// it is a multiple, which the verifier could not know, and wants for an Ordering
		asm.And.Imm(asm.R1, -WordSize),
		AtMost(asm.R1, t.Last, "drop"),
		Point(record, t.Map, 0),
		asm.Add.Reg(record, asm.R1),
		asm.Add.Imm(place, 1),
	}
}

// The way through a program.

// Block names the place where code begins, for jumps.
func Block(name string, code ...asm.Instruction) asm.Instructions {
	code[0] = code[0].WithSymbol(name)
	return code
}

// Here is a Block without code: an instruction that leaves the register as it is.
func Here(name string, r asm.Register) asm.Instructions {
	return Block(name, asm.Mov.Reg(r, r))
}

// Again goes back to a block as many times as the counter says: it counts it down.
func Again(counter asm.Register, block string) asm.Instructions {
	return asm.Instructions{
		asm.Sub.Imm(counter, 1),
		asm.JNE.Imm(counter, 0, block),
	}
}

// AtMost says that a register is no higher than a limit, which the verifier could not know; it goes
// elsewhere if it is.
func AtMost(r asm.Register, limit int, elsewhere string) asm.Instruction {
	return asm.JGT.Imm(r, int32(limit), elsewhere)
}

// Below says that a register is lower than a limit, like AtMost.
func Below(r asm.Register, limit int, elsewhere string) asm.Instruction {
	return asm.JGE.Imm(r, int32(limit), elsewhere)
}

// Frames, and where they go. What programs know of linux/bpf.h:
const (
	XDPDrop = 1 // enum xdp_action

	contextData    = 0 // struct xdp_md: offset of the address of the frame's first byte …
	contextDataEnd = 4 // … and of the one behind its last
)

// Bounds sets start and end to the addresses of a frame's first byte and of the one behind its
// last.
func Bounds(start, end, context asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(start, context, contextData, asm.Word),
		asm.LoadMem(end, context, contextDataEnd, asm.Word),
	}
}

// Within goes elsewhere if the frame ends less than so many bytes behind from, which the verifier
// wants checked before any of these is read or written. It leaves the address behind them in
// behind.
func Within(behind, from asm.Register, bytes int, end asm.Register, elsewhere string) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(behind, from),
		asm.Add.Imm(behind, int32(bytes)),
		asm.JGT.Reg(behind, end, elsewhere),
	}
}

// LoadBE reads a big-endian number, as frames have them.
func LoadBE(to, base asm.Register, offset int16, size asm.Size) asm.Instructions {
	return asm.Instructions{asm.LoadMem(to, base, offset, size), asm.HostTo(asm.BE, to, size)}
}

// StoreBE writes a big-endian number of 64 bits to a frame; from is lost.
func StoreBE(base asm.Register, offset int16, from asm.Register) asm.Instructions {
	return asm.Instructions{asm.HostTo(asm.BE, from, asm.DWord), asm.StoreMem(base, offset, from, asm.DWord)}
}

// Now sets a register to the time, ns (CLOCK_MONOTONIC).
func Now(to asm.Register) asm.Instructions {
	return asm.Instructions{asm.FnKtimeGetNs.Call(), asm.Mov.Reg(to, asm.R0)}
}

// Redirect sends the frame to a device, once the program returns: the one whose key in the map is
// word w of the record at base. R0 is what the program is to return. It goes elsewhere if there is
// no such device.
func Redirect(devices *ebpf.Map, base asm.Register, w int, elsewhere string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, devices.FD()),
		Load(asm.R2, base, w),
		asm.Mov.Imm(asm.R3, XDPDrop),
		asm.FnRedirectMap.Call(),
		asm.JEq.Imm(asm.R0, XDPDrop, elsewhere),
	}
}

// Drop ends a program: the frame goes no further.
func Drop(name string) asm.Instructions {
	return Block(name, asm.Mov.Imm(asm.R0, XDPDrop), asm.Return())
}
