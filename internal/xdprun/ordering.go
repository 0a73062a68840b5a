package xdprun

import (
	"fmt"
	"runtime"

	"github.com/cilium/ebpf/asm"
)

// Ordering is how a program reads and writes words by which it and Go code tell each other what
// they have done, as the indices of a ring do: whoever reads what the other has stored sees all
// that the other did before. Go's side of it is sync/atomic.
//
// Linux 6.15 has instructions for that. Where there are none, plain ones will do on processors that
// keep the order of loads and of stores anyhow.
type Ordering struct{ instructions bool }

// ProbeOrdering finds out what this kernel has, by loading a program.
func ProbeOrdering() (Ordering, error) {
	o := Ordering{instructions: true}
	const onStack = -1 // word
	p, err := NewProgram("ordering",
		asm.Instructions{
			asm.Mov.Imm(asm.R1, 0),
			Store(asm.RFP, onStack, asm.R1),
			o.Store(asm.RFP, onStack, asm.R1, asm.DWord),
			o.Load(asm.R1, asm.RFP, onStack, asm.DWord),
		},
		Drop("drop"),
	)
	if err == nil {
		return o, p.Close()
	}
	return fallback(runtime.GOARCH, err)
}

// fallback is for a kernel that does not take the instructions.
func fallback(processor string, refusal error) (Ordering, error) {
	if processor == "amd64" {
		return Ordering{}, nil
	}
	return Ordering{},
		fmt.Errorf("this kernel's BPF has no load-acquire and store-release, which %s needs: take Linux 6.15 or "+
			"later: %w", processor, refusal)
}

// Load reads word w of the record at base, or its first bytes if the size is less: what is read
// further on is at least as new.
func (o Ordering) Load(to, base asm.Register, w int, size asm.Size) asm.Instruction {
	if o.instructions {
		return atomically(asm.LoadAcquire(to, base, size, at(w)), loadAcquire)
	}
	return asm.LoadMem(to, base, at(w), size)
}

// Store writes word w of the record at base, or its first bytes if the size is less: whoever reads
// it sees what was read and written before.
func (o Ordering) Store(base asm.Register, w int, from asm.Register, size asm.Size) asm.Instruction {
	if o.instructions {
		return atomically(asm.StoreRelease(base, from, size, at(w)), storeRelease)
	}
	return asm.StoreMem(base, at(w), from, size)
}

// Atomic operations of linux/bpf.h.
const (
	loadAcquire  = 0x100 // BPF_LOAD_ACQ
	storeRelease = 0x110 // BPF_STORE_REL
)

// atomically says again which operation an atomic instruction is: asm keeps that in the opcode
// alone, and Instruction.Marshal of cilium/ebpf 0.22 takes it from the constant.
func atomically(i asm.Instruction, operation int64) asm.Instruction {
	i.Constant = operation
	return i
}
