package xdprun

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// XDP programs are written in the instructions of cilium/ebpf/asm, so that nothing but Go builds them. What they
// know of linux/bpf.h:
const (
	XDPDrop        = 1 // enum xdp_action
	ContextData    = 0 // struct xdp_md: offset of the address of the frame's first byte…
	ContextDataEnd = 4 // … and of the one behind its last
)

// A helper function keeps R6 to R9 and leaves nothing of use in R1 to R5; R0 is what it returns.

// NewProgram loads an XDP program.
func NewProgram(name string, parts ...asm.Instructions) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.XDP, Instructions: slices.Concat(parts...), License: "Dual MIT/GPL",
	})
	if err != nil {
		return nil, fmt.Errorf("XDP program %s: %w", name, err)
	}
	return p, nil
}

// at returns the offset of a word of a record: bytes.
func at(word int) int16 { return int16(word * WordSize) }

// Load reads word w of the record at base.
func Load(to, base asm.Register, w int) asm.Instruction {
	return asm.LoadMem(to, base, at(w), asm.DWord)
}

// Store writes word w of the record at base.
func Store(base asm.Register, w int, from asm.Register) asm.Instruction {
	return asm.StoreMem(base, at(w), from, asm.DWord)
}

// Increase adds amount to word w of the record at base; scratch is lost.
func Increase(base asm.Register, w int, amount, scratch asm.Register) asm.Instructions {
	return asm.Instructions{Load(scratch, base, w), asm.Add.Reg(scratch, amount), Store(base, w, scratch)}
}

// Count adds 1 to word w of the record at base; scratch is lost.
func Count(base asm.Register, w int, scratch asm.Register) asm.Instructions {
	return asm.Instructions{Load(scratch, base, w), asm.Add.Imm(scratch, 1), Store(base, w, scratch)}
}

// Block names the place where code begins, for jumps.
func Block(name string, code ...asm.Instruction) asm.Instructions {
	code[0] = code[0].WithSymbol(name)
	return code
}

// Drop ends a program: the frame goes no further.
func Drop(name string) asm.Instructions {
	return Block(name, asm.Mov.Imm(asm.R0, XDPDrop), asm.Return())
}
