// Package transmitter sends frames from inside the kernel, for devices on which an AF_XDP socket
// can send only by making a socket buffer of each frame. That costs more than all the rest of a
// forwarder.
//
// An XDP program runs all the time (package xdprun). It takes descriptors from rings that workers
// fill, copies each frame from the workers' memory into a page, and redirects the page to the
// device:
//
//	worker ── descriptors ──► ring ──► program ── bpf_redirect_map ──► device
//	   └───── frames ──────► memory ────┘ copies
//
// The memory is the value of a BPF array map. The process maps it, and AF_XDP sockets use it as
// their UMEM, so the program sends the frames that the sockets receive. One program serves many
// ports (Join). Each port has a slot with a ring, and slots take turns; program.go has the program
// and its memory layout.
//
// # Who sends
//
// A device may accept no frames from programs, stop accepting them, or drop some because its peer
// has no room. Then the port's socket sends: the program lets go of the port's slot, and the worker
// moves the descriptors from the slot's ring to the socket's. The program sends again once the
// device accepts its frames and the socket has sent all of its own. Order is kept in both
// directions. A driver with a Port hands it all frames (Transmit), gets all buffers from it
// (Complete) and has it serve the socket's ring (Flush). It need not know which one sends.
//
// # Whose CPU
//
// The program spins like a worker. It has its own CPU, or shares that of one worker
// (Params.Shared). A worker that shares its CPU sleeps (Yield) when it has handed over frames and
// has nothing else to do. When all rings are empty and all frames are with their devices, the
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

	"sluice/pmd/xdprun"
)

// Params holds the parameters of a transmitter.
type Params struct {
	CPU    int  // the CPU on which it spins
	Shared bool // with a worker that calls Yield; otherwise the CPU is its own
	Memory int  // bytes of frames, whole pages
	Ports  int  // maximum number
	Ring   int  // descriptors per port, a power of two
}

// Transmitter is a running transmitter.
type Transmitter struct {
	layout
	params  Params
	memory  *xdprun.Shared
	rings   *xdprun.Shared
	devices *ebpf.Map
	bell    *bell
	program *ebpf.Program
	runner  *xdprun.Runner

	handed int // see Waiting; belongs to the worker on the same CPU

	mu    sync.Mutex // guards the rest
	taken []bool     // by slot
}

const (
	// LongestFrame is in bytes without FCS: the kernel makes each frame in a page of 4096 bytes,
	// together with its own data about the frame (TEST_MAX_PKT_SIZE, net/bpf/test_run.c, is 8 bytes
	// more).
	LongestFrame = 3400

	// MostMemory is the maximum number of bytes of frames: the part of a map's value that a program
	// can reach (BPF_MAX_VAR_OFF, linux/bpf_verifier.h), less a page.
	MostMemory = 1<<29 - margin

	margin = 4096 // behind the frames: the verifier assumes that the last frame may reach so far
)

// Start starts a transmitter without ports. It needs Linux 6.3, CAP_BPF, CAP_NET_ADMIN and
// CAP_PERFMON (its program computes addresses). Without CAP_SYS_ADMIN, it Pauses.
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
			"the frames take %d MiB, more than the %d MiB that a BPF program can reach: lower memory.buffers",
			p.Memory>>20, MostMemory>>20)
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

// Memory returns the memory of the frames, for registration by AF_XDP sockets.
func (t *Transmitter) Memory() []byte { return t.memory.Memory[:t.params.Memory] }

// CPU returns the CPU on which it runs.
func (t *Transmitter) CPU() int { return t.params.CPU }

// Waiting returns the number of frames handed to a shared transmitter since it last had nothing to
// send. Only the worker on its CPU may call Waiting and Yield, and all ports must belong to that
// worker.
func (t *Transmitter) Waiting() int { return t.handed }

// countHanded counts frames for Waiting. A transmitter with its own CPU has ports of several
// workers. They would all write the same word, and none of them reads it.
func (t *Transmitter) countHanded(frames int) {
	if t.params.Shared {
		t.handed += frames
	}
}

// longestTurn bounds the time for which a worker leaves the CPU to the program. It is longer than a
// tick: with a shorter one, the kernel would set its timer in each turn, which takes as long as the
// turn on a virtual machine.
const longestTurn = 5 * time.Millisecond

// Yield leaves the CPU to a shared transmitter until it has nothing to send, which takes some
// microseconds. If other threads have the CPU, Yield returns earlier and Waiting is unchanged.
func (t *Transmitter) Yield() {
	if t.failed() != nil || t.bell.await(t.rings.Words[wordBell:][:bellWords], longestTurn) {
		t.handed = 0
	}
}

var errEnded = errors.New("the transmitter has ended: the kernel no longer runs its program")

// HandOver ends one run of the program and starts the next one. This also happens automatically
// when a run has made its maximum number of frames, after some minutes at least.
func (t *Transmitter) HandOver() { t.runner.HandOver() }

// Pauses reports whether nothing is sent for about 20 ms, not even PFC frames, between one run of
// the program and the next.
func (t *Transmitter) Pauses() bool { return t.runner.Pauses() }

// Thread returns the ID of its OS thread.
func (t *Transmitter) Thread() int { return t.runner.Thread() }

// failed returns why it no longer sends, or nil while it does. Its ports switch to their sockets
// when they Reconsider.
func (t *Transmitter) failed() error {
	select {
	case <-t.runner.Ended():
		return errEnded
	default:
		return nil
	}
}

// Stop ends the transmitter. Its ports must be closed, and its memory must be unused.
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

// arrange writes the order of the taken slots. A program that reads it meanwhile sees valid slots,
// but may miss one: its frames wait for a moment.
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

// settle waits until every batch that began before has ended: the program has then seen what was
// written, and its redirected frames are with the devices. It does not wait for a program that has
// ended for good.
func (t *Transmitter) settle() error {
	for range 100 {
		if t.flushed() || t.failed() != nil {
			return nil
		}
	}
	return fmt.Errorf("the transmitter did not run for a second: other threads use CPU %d", t.params.CPU)
}

// flushed waits until the current batch has ended, which takes some microseconds. It returns false
// after 10 ms, when other threads have the CPU.
func (t *Transmitter) flushed() bool {
	const soon = 1000 // number of looks before it sleeps between them
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
