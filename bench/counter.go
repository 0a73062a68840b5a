package bench

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"sluice/internal/lab"
)

// Tally is how much has passed somewhere.
type Tally struct {
	Frames uint64
	Bytes  uint64 // without FCS
}

// Counter is a sink that costs the machine as little as a sink can: an XDP program on a device that counts each frame
// and drops it before the kernel's stack has seen it.
type Counter struct {
	program *ebpf.Program
	tally   *ebpf.Map
	link    link.Link
}

// NewCounter starts counting what a device in a namespace receives.
func NewCounter(n *lab.Namespace, device string) (*Counter, error) {
	c, err := newCounter(n, device)
	if err != nil {
		return nil, fmt.Errorf("bench: counter on %s: %w", device, err)
	}
	return c, nil
}

func newCounter(n *lab.Namespace, device string) (*Counter, error) {
	c := &Counter{}
	var err error
	if c.tally, err = newTally(); err != nil {
		return nil, err
	}
	code := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	code = append(code, countFrame(c.tally)...)
	code = append(code,
		asm.Mov.Imm(asm.R0, xdpDrop),
		asm.Return(),
	)
	if c.program, err = newXDP("count", code); err != nil {
		return nil, errors.Join(err, c.tally.Close())
	}
	err = n.Do(func() error {
		index, err := deviceIndex(device)
		if err != nil {
			return err
		}
		c.link, err = link.AttachXDP(link.XDPOptions{Program: c.program, Interface: index, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		return nil, errors.Join(err, c.program.Close(), c.tally.Close())
	}
	return c, nil
}

// Read returns what was received so far.
func (c *Counter) Read() (Tally, error) { return readTally(c.tally) }

// Close stops counting; the device is then as it was.
func (c *Counter) Close() error {
	return errors.Join(c.link.Close(), c.program.Close(), c.tally.Close())
}

// XDP programs are written in the instructions of cilium/ebpf/asm, so that nothing but Go builds them. What they
// know of linux/bpf.h:
const (
	xdpDrop         = 1 // enum xdp_action
	contextData     = 0 // struct xdp_md: offset of the address of the frame's first byte…
	contextDataEnd  = 4 // … and of the one behind its last
	tallyEntrySize  = 16
	tallyEntryBytes = 8 // offset of Tally.Bytes
)

func newXDP(name string, code asm.Instructions) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.XDP, Instructions: code, License: "Dual MIT/GPL"})
}

// newTally returns a map of one Tally a CPU, so that counting needs no atomic operation.
func newTally() (*ebpf.Map, error) {
	return ebpf.NewMap(&ebpf.MapSpec{
		Name: "tally", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: tallyEntrySize, MaxEntries: 1,
	})
}

// countFrame is a part of an XDP program: it adds the frame to this CPU's entry of the tally. R6 holds the context.
func countFrame(tally *ebpf.Map) asm.Instructions {
	const key = -4 // on the stack
	return asm.Instructions{
		asm.StoreImm(asm.RFP, key, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.LoadMapPtr(asm.R1, tally.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "counted"), // never; the verifier wants it said
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.LoadMem(asm.R2, asm.R6, contextData, asm.Word),
		asm.LoadMem(asm.R3, asm.R6, contextDataEnd, asm.Word),
		asm.Sub.Reg(asm.R3, asm.R2),
		asm.LoadMem(asm.R1, asm.R0, tallyEntryBytes, asm.DWord),
		asm.Add.Reg(asm.R1, asm.R3),
		asm.StoreMem(asm.R0, tallyEntryBytes, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("counted"),
	}
}

func readTally(m *ebpf.Map) (Tally, error) {
	var sum Tally
	var perCPU []Tally
	if err := m.Lookup(uint32(0), &perCPU); err != nil {
		return sum, fmt.Errorf("bench: reading a counter: %w", err)
	}
	for _, t := range perCPU {
		sum.Frames += t.Frames
		sum.Bytes += t.Bytes
	}
	return sum, nil
}

func deviceIndex(device string) (int, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return 0, err
	}
	return i.Index, nil
}
