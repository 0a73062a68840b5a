package live

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// XDP programs are written in the instructions of cilium/ebpf/asm, so that nothing but Go builds them. What they
// know of linux/bpf.h:
const (
	xdpDrop        = 1 // enum xdp_action
	contextData    = 0 // struct xdp_md: offset of the address of the frame's first byte…
	contextDataEnd = 4 // … and of the one behind its last
)

// A helper function keeps R6 to R9 and leaves nothing of use in R1 to R5; R0 is what it returns.

func newXDP(name string, parts ...asm.Instructions) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.XDP, Instructions: slices.Concat(parts...), License: "Dual MIT/GPL",
	})
	if err != nil {
		return nil, fmt.Errorf("XDP program %s: %w", name, err)
	}
	return p, nil
}

// at returns the offset of a word of a record: bytes.
func at(word int) int16 { return int16(word * wordSize) }

// load reads word w of the record at base.
func load(to, base asm.Register, w int) asm.Instruction {
	return asm.LoadMem(to, base, at(w), asm.DWord)
}

// store writes word w of the record at base.
func store(base asm.Register, w int, from asm.Register) asm.Instruction {
	return asm.StoreMem(base, at(w), from, asm.DWord)
}

// increase adds amount to word w of the record at base; scratch is lost.
func increase(base asm.Register, w int, amount, scratch asm.Register) asm.Instructions {
	return asm.Instructions{load(scratch, base, w), asm.Add.Reg(scratch, amount), store(base, w, scratch)}
}

// count adds 1 to word w of the record at base; scratch is lost.
func count(base asm.Register, w int, scratch asm.Register) asm.Instructions {
	return asm.Instructions{load(scratch, base, w), asm.Add.Imm(scratch, 1), store(base, w, scratch)}
}

// block names the place where code begins, for jumps.
func block(name string, code ...asm.Instruction) asm.Instructions {
	code[0] = code[0].WithSymbol(name)
	return code
}

// drop ends a program: the frame goes no further.
func drop(name string) asm.Instructions {
	return block(name, asm.Mov.Imm(asm.R0, xdpDrop), asm.Return())
}
