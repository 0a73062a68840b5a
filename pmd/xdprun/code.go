package xdprun

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// XDP programs are written in the instructions of cilium/ebpf/asm, so that they build with Go
// alone. How to read one:
//
//   - Its file begins with pseudo-code and names for its registers. Each function below stands for
//     a few lines of the pseudo-code.
//   - A helper function of the kernel takes R1 to R5, returns R0 and keeps R6 to R9. So R6 to R9
//     have names, and the others hold values for the next lines. RFP is the end of the stack.
//   - A Block is a place to jump to. Code that does not jump continues with the next function.
//   - The verifier (kernel/bpf/verifier.c) follows every path through a program. It rejects a
//     program unless it can prove that it ends and stays within its memory. AtMost and Below exist
//     only for the verifier.
//
// The functions of this file are common to all programs.

// NewProgram loads an XDP program. It may run for frames in several fragments (Linux 5.18); without
// that flag, it would limit the MTU of the device, and on veth that of the peer, to about 3500.
func NewProgram(name string, parts ...asm.Instructions) (*ebpf.Program, error) {
	code := slices.Concat(parts...)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.XDP, Instructions: code,
		License: "Dual MIT/GPL", Flags: unix.BPF_F_XDP_HAS_FRAGS})
	if err != nil {
		return nil, fmt.Errorf("load XDP program %s: %w", name, explain(err, code))
	}
	return p, nil
}

// Memory shared with Go code: words of records (Shared).

// at returns the offset of a word of a record, in bytes.
func at(word int) int16 { return int16(word * WordSize) }

// Point sets to to the address of word w of a map's value.
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

// Load32 reads the first 32 bits of a word, such as the index of a ring.
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

// Turns is the order in which a program looks at records of a map: the list of their offsets in
// bytes, twice in a row. A program that begins at any place in the first copy meets each record
// once and never returns to the start. The verifier would follow such a return from every place;
// the number of paths grows with the square of the number of records.
type Turns struct {
	Map   *Shared
	Order int // word of the map's value at which the offsets begin
	Last  int // the highest offset, bytes
}

// Next sets record to the address of the record at a place of the order, and advances the place. R1
// and R2 are lost.
func (t Turns) Next(record, place asm.Register) asm.Instructions {
	return asm.Instructions{
		Point(asm.R1, t.Map, t.Order),
		asm.Mov.Reg(asm.R2, place),
		asm.LSh.Imm(asm.R2, 3), // WordSize
		asm.Add.Reg(asm.R1, asm.R2),
		Load(asm.R1, asm.R1, 0),
		// it is a multiple; the verifier can't know that, and an Ordering requires it
		asm.And.Imm(asm.R1, -WordSize),
		AtMost(asm.R1, t.Last, "drop"),
		Point(record, t.Map, 0),
		asm.Add.Reg(record, asm.R1),
		asm.Add.Imm(place, 1),
	}
}

// Control flow.

// Block gives code a name as the target of jumps.
func Block(name string, code ...asm.Instruction) asm.Instructions {
	code[0] = code[0].WithSymbol(name)
	return code
}

// Here is an empty Block: an instruction that does not change the register.
func Here(name string, r asm.Register) asm.Instructions {
	return Block(name, asm.Mov.Reg(r, r))
}

// Again decrements a counter and jumps back to a block until it is 0.
func Again(counter asm.Register, block string) asm.Instructions {
	return asm.Instructions{
		asm.Sub.Imm(counter, 1),
		asm.JNE.Imm(counter, 0, block),
	}
}

// AtMost tells the verifier that a register does not exceed a limit, by jumping elsewhere if it
// does.
func AtMost(r asm.Register, limit int, elsewhere string) asm.Instruction {
	return asm.JGT.Imm(r, int32(limit), elsewhere)
}

// Below tells the verifier that a register is below a limit, like AtMost.
func Below(r asm.Register, limit int, elsewhere string) asm.Instruction {
	return asm.JGE.Imm(r, int32(limit), elsewhere)
}

// Frames and redirection. Constants of linux/bpf.h:
const (
	XDPDrop = 1 // enum xdp_action

	contextData    = 0 // struct xdp_md: offset of the address of the frame's first byte
	contextDataEnd = 4 // offset of the address behind its last byte
)

// Bounds sets start to the address of the frame's first byte, and end to that behind its last.
func Bounds(start, end, context asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(start, context, contextData, asm.Word),
		asm.LoadMem(end, context, contextDataEnd, asm.Word),
	}
}

// Within jumps elsewhere if the frame ends less than the given number of bytes behind from. The
// verifier requires this check before any of them is read or written. behind is set to the address
// behind them.
func Within(behind, from asm.Register, bytes int, end asm.Register, elsewhere string) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(behind, from),
		asm.Add.Imm(behind, int32(bytes)),
		asm.JGT.Reg(behind, end, elsewhere),
	}
}

// LoadBE reads a big-endian number from a frame.
func LoadBE(to, base asm.Register, offset int16, size asm.Size) asm.Instructions {
	return asm.Instructions{asm.LoadMem(to, base, offset, size), asm.HostTo(asm.BE, to, size)}
}

// StoreBE writes a 64-bit big-endian number to a frame; from is lost.
func StoreBE(base asm.Register, offset int16, from asm.Register) asm.Instructions {
	return asm.Instructions{asm.HostTo(asm.BE, from, asm.DWord), asm.StoreMem(base, offset, from, asm.DWord)}
}

// Now sets a register to the time in ns (CLOCK_MONOTONIC).
func Now(to asm.Register) asm.Instructions {
	return asm.Instructions{asm.FnKtimeGetNs.Call(), asm.Mov.Reg(to, asm.R0)}
}

// Redirect sends the frame to a device after the program returns R0. The device's key in the map is
// word w of the record at base. Redirect jumps elsewhere if there is no such device.
func Redirect(devices *ebpf.Map, base asm.Register, w int, elsewhere string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, devices.FD()),
		Load(asm.R2, base, w),
		asm.Mov.Imm(asm.R3, XDPDrop),
		asm.FnRedirectMap.Call(),
		asm.JEq.Imm(asm.R0, XDPDrop, elsewhere),
	}
}

// Drop ends a program and drops the frame.
func Drop(name string) asm.Instructions {
	return Block(name, asm.Mov.Imm(asm.R0, XDPDrop), asm.Return())
}
