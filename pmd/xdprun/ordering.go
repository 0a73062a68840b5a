package xdprun

import (
	"fmt"
	"runtime"

	"github.com/cilium/ebpf/asm"
)

// Ordering is how a program accesses words that synchronize it with Go code, such as the indices of
// a ring: a reader of a word sees all that its writer did before the store. The Go side uses
// sync/atomic.
//
// Linux 6.15 has instructions for this. Without them, plain instructions suffice on processors that
// keep the order of loads and of stores.
type Ordering struct{ instructions bool }

// ProbeOrdering determines what this kernel supports by loading a program.
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

// fallback returns the Ordering for a kernel without the instructions.
func fallback(processor string, refusal error) (Ordering, error) {
	if processor == "amd64" {
		return Ordering{}, nil
	}
	return Ordering{},
		fmt.Errorf("BPF of this kernel lacks load-acquire and store-release, which %s needs: use Linux 6.15 or "+
			"later: %w",
			processor, refusal)
}

// Load reads word w of the record at base, or its first bytes if size is smaller: later reads
// return values at least as new.
func (o Ordering) Load(to, base asm.Register, w int, size asm.Size) asm.Instruction {
	if o.instructions {
		return atomically(asm.LoadAcquire(to, base, size, at(w)), loadAcquire)
	}
	return asm.LoadMem(to, base, at(w), size)
}

// Store writes word w of the record at base, or its first bytes if size is smaller: a reader sees
// all earlier reads and writes.
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

// atomically stores the operation of an atomic instruction in its constant: asm keeps it only in
// the opcode, but Instruction.Marshal of cilium/ebpf 0.22 reads the constant.
func atomically(i asm.Instruction, operation int64) asm.Instruction {
	i.Constant = operation
	return i
}
