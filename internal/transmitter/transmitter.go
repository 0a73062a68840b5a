// Package transmitter sends frames from inside the kernel, for devices through which an AF_XDP
// socket can't send without making a socket buffer of each frame, which costs more than all the
// rest of a forwarder.
//
// An XDP program runs all the time (package xdprun). It takes descriptors out of rings that workers
// fill, copies each frame out of the workers' memory into a page, and redirects that to the device:
//
//	worker ── descriptors ──► ring ──► program ── bpf_redirect_map ──► device
//	   └───── frames ──────► memory ────┘ copies
//
// The memory is the value of a BPF array map, which the process maps and AF_XDP sockets take for
// their UMEM: so sockets receive the frames that the program sends. One program serves many ports
// (Join). Each has a slot with a ring, and slots take turns; program.go has the program and its
// memory.
//
// # Who sends
//
// A device may take no frames from programs, or stop taking them, or drop some for lack of room.
// Then the port's socket sends: the program lets go of the port's slot, and the worker moves the
// descriptors from the slot's ring to that of the socket. The program sends again once the device
// takes its frames and the socket has sent what it has. Order is kept in both directions. So a
// driver that has a Port hands it all frames (Transmit), asks it for all buffers (Complete), and
// has it serve the socket's ring (Flush); it need not know who sends.
//
// # Whose CPU
//
// The program spins like a worker. Either it has a CPU of its own, or it takes turns with the one
// worker whose CPU it shares (Params.Shared): a worker that has handed frames over and has nothing
// else to do sleeps (Yield). When all rings are empty and all frames are with their devices, the
// program wakes the worker (bell_unsafe.go).
package transmitter

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/internal/xdprun"
)

// Params says what a transmitter is to be.
type Params struct {
	CPU    int  // that it spins on
	Shared bool // with a worker, who calls Yield; else it has the CPU for itself
	Memory int  // bytes of frames, whole pages
	Ports  int  // at the most
	Ring   int  // descriptors of each port, a power of two
}

// Transmitter is one that runs.
type Transmitter struct {
	layout
	params  Params
	memory  *xdprun.Shared
	rings   *xdprun.Shared
	devices *ebpf.Map
	bell    *bell
	program *ebpf.Program
	runner  *xdprun.Runner

	handed int // see Waiting; belongs to the worker whose CPU it shares

	mu    sync.Mutex // of the rest
	taken []bool     // by slot
}

const (
	// LongestFrame is in bytes without FCS: the kernel makes each frame in a page of 4096, beside
	// what it needs to know of it (TEST_MAX_PKT_SIZE, net/bpf/test_run.c, is 8 more).
	LongestFrame = 3400

	// MostMemory is the most bytes of frames: as far as a program reaches into a map's value
	// (BPF_MAX_VAR_OFF, linux/bpf_verifier.h), less a page.
	MostMemory = 1<<29 - margin

	margin = 4096 // behind the frames: what the verifier takes for within reach of the last one
)

// Start starts a transmitter without ports. It needs Linux 6.3, CAP_BPF, CAP_NET_ADMIN and, as its
// program computes addresses, CAP_PERFMON; and CAP_SYS_ADMIN, or it Pauses.
func Start(p Params) (*Transmitter, error) {
	t := &Transmitter{params: p, taken: make([]bool, p.Ports)}
	t.layout = layout{slots: p.Ports, ring: p.Ring, memory: p.Memory, frame: LongestFrame, cpu: p.CPU}
	if err := t.start(); err != nil {
		return nil, fmt.Errorf("transmitter: %w", errors.Join(err, t.release()))
	}
	return t, nil
}

func (t *Transmitter) start() (err error) {
	p := t.params
	if p.Memory > MostMemory {
		return fmt.Errorf(
			"a program reaches no more than %d MiB of frames, and there are %d: give the switch fewer buffers",
			MostMemory>>20, p.Memory>>20)
	}
	if err := xdprun.Permitted(xdprun.BPF, xdprun.NetAdmin, xdprun.PerfMon); err != nil {
		return err
	}
	order, err := xdprun.ProbeOrdering()
	if err != nil {
		return err
	}
	if t.memory, err = xdprun.NewShared("frames", (p.Memory+margin)/xdprun.WordSize); err != nil {
		return err
	}
	if t.rings, err = xdprun.NewShared("rings", t.words()); err != nil {
		return err
	}
	t.devices, err = ebpf.NewMap(&ebpf.MapSpec{Name: "devices", Type: ebpf.DevMap, KeySize: 4, ValueSize: 4,
		MaxEntries: uint32(t.slots)})
	if err != nil {
		return err
	}
	if t.bell, err = newBell("bell"); err != nil {
		return err
	}
	if t.program, err = xdprun.NewProgram("transmit", code(t.layout, order, t.rings, t.memory, t.devices,
		t.bell)...); err != nil {
		return err
	}
	t.runner, err = xdprun.Start(xdprun.Params{Program: t.program, Frame: make([]byte, t.frame), CPU: p.CPU,
		Shared: p.Shared})
	return err
}

// Memory returns the memory of the frames, for AF_XDP sockets to register.
func (t *Transmitter) Memory() []byte { return t.memory.Memory[:t.params.Memory] }

// CPU returns where it runs.
func (t *Transmitter) CPU() int { return t.params.CPU }

// Waiting returns how many frames a shared transmitter was handed since it had nothing to send.
// Only the worker on its CPU may call this and Yield, and all ports must be that worker's.
func (t *Transmitter) Waiting() int { return t.handed }

// countHanded counts frames as Waiting. A transmitter with a CPU of its own has ports of several
// workers, which would all write to one word, and none of them asks.
func (t *Transmitter) countHanded(frames int) {
	if t.params.Shared {
		t.handed += frames
	}
}

// longestTurn bounds how long a worker leaves the CPU to the program. It is longer than a tick, for
// a shorter one has the kernel set its timer in each turn: on a virtual machine that takes as long
// as the turn.
const longestTurn = 5 * time.Millisecond

// Yield leaves the CPU to a shared transmitter until that has nothing to send, some microseconds.
// If others have the CPU, it returns before, and as many frames are Waiting as were.
func (t *Transmitter) Yield() {
	if t.failed() != nil || t.bell.await(t.rings.Words[wordBell:][:bellWords], longestTurn) {
		t.handed = 0
	}
}

var errEnded = errors.New("the transmitter has ended: the kernel runs its program no more")

// HandOver ends one run of the program and begins the next one, which happens by itself whenever a
// run has made as many frames as it may, after some minutes at least.
func (t *Transmitter) HandOver() { t.runner.HandOver() }

// Pauses tells whether nothing is sent for some 20 ms, PFC frames neither, when a run of the
// program ends and the next one begins.
func (t *Transmitter) Pauses() bool { return t.runner.Pauses() }

// Times returns how its thread has spent its time.
func (t *Transmitter) Times() (xdprun.Times, error) { return t.runner.Times() }

// Thread returns the number of its OS thread.
func (t *Transmitter) Thread() int { return t.runner.Thread() }

// failed returns why it sends no more, or nil as long as it does. Its ports leave it when they
// Reconsider.
func (t *Transmitter) failed() error {
	select {
	case <-t.runner.Ended():
		return errEnded
	default:
		return nil
	}
}

// Stop ends the transmitter. Its ports must be closed, and its memory used no more.
func (t *Transmitter) Stop() error { return errors.Join(t.runner.Stop(), t.release()) }

func (t *Transmitter) release() error {
	var errs []error
	if t.program != nil {
		errs = append(errs, t.program.Close())
	}
	if t.devices != nil {
		errs = append(errs, t.devices.Close())
	}
	if t.bell != nil {
		errs = append(errs, t.bell.close())
	}
	for _, s := range []*xdprun.Shared{t.rings, t.memory} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// arrange writes the order of the slots that are taken. What the program reads of it meanwhile are
// slots, though one of them may be missing: its frames wait for a moment.
func (t *Transmitter) arrange() {
	var order []uint64
	for n, taken := range t.taken {
		if taken {
			order = append(order, uint64(t.slot(n)*xdprun.WordSize))
		}
	}
	for i, slot := range slices.Concat(order, order) {
		t.rings.Store(wordOrder+i, slot)
	}
	t.rings.Store(wordCount, uint64(len(order)))
}

// settle returns once no batch goes on that began before: the program has seen what was written,
// and what it redirected is with the devices. It does not wait for one that has ended for good.
func (t *Transmitter) settle() error {
	for range 100 {
		if t.flushed() || t.failed() != nil {
			return nil
		}
	}
	return fmt.Errorf("the transmitter did not run for a second: CPU %d has other things to do", t.params.CPU)
}

// flushed waits until the current batch has ended, some microseconds, or reports false after 10 ms:
// others have the CPU.
func (t *Transmitter) flushed() bool {
	const soon = 1000 // looks, after which it sleeps between them
	runs := func() uint64 { return t.rings.Load(wordRuns) }
	for before, tries := runs(), 0; runs()-before < 2*xdprun.Batch && t.failed() == nil; tries++ {
		switch {
		case tries < soon:
			runtime.Gosched()
		case tries < soon+10:
			_, _ = unix.Poll(nil, 1) // ms
		default:
			return false
		}
	}
	return true
}
