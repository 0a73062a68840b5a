package afxdp

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"sluice/internal/xdprun"
)

// ResidentParams says what a Resident is to be.
type ResidentParams struct {
	CPU    int  // that it spins on
	Shared bool // with a worker, who calls Yield; else it has the CPU for itself
	Memory int  // bytes of frames, whole pages
	Ports  int  // at the most
	Ring   int  // descriptors of each port, a power of two
}

// Resident is a transmitter inside the kernel, for devices that AF_XDP can't send through without making a socket buffer of
// each frame, which costs more than all the rest of a forwarder. An XDP program that runs all the time (package xdprun) takes
// descriptors out of rings that workers fill, copies each frame out of the workers' memory into a page, and redirects that to
// the device:
//
//	worker ── descriptors ──► ring ──► program ── bpf_redirect_map ──► device
//	   └───── frames ──────► memory ────┘ copies
//
// The memory is one that both know: the value of a BPF array map, which AF_XDP sockets take for their UMEM. One program
// serves many ports.
type Resident struct {
	residentLayout
	params  ResidentParams
	memory  *xdprun.Shared
	rings   *xdprun.Shared
	devices *ebpf.Map
	bell    *xdprun.Bell
	program *ebpf.Program
	runner  *xdprun.Runner

	handed int // see Waiting; the worker's whose CPU it shares

	mu    sync.Mutex // of the rest
	taken []bool     // by slot
}

// Limits of a Resident.
const (
	// LongestResident is the longest frame in bytes without FCS: the kernel makes each in a page of 4096, beside what it needs
	// to know of it (TEST_MAX_PKT_SIZE, net/bpf/test_run.c, is 8 more).
	LongestResident = 3400

	// MostResident is the most bytes of frames: as far as a program reaches into a map's value (BPF_MAX_VAR_OFF,
	// linux/bpf_verifier.h), less a page.
	MostResident = 1<<29 - residentMargin

	residentMargin = 4096 // behind the frames: what the verifier takes for within reach of the last one
)

// StartResident starts a transmitter. It has no ports yet. It needs Linux 6.3, CAP_BPF, CAP_NET_ADMIN and, as its program
// computes addresses, CAP_PERFMON; and CAP_SYS_ADMIN, or it Pauses.
func StartResident(p ResidentParams) (*Resident, error) {
	r := &Resident{params: p, taken: make([]bool, p.Ports)}
	r.residentLayout = residentLayout{slots: p.Ports, ring: p.Ring, memory: p.Memory, frame: LongestResident, cpu: p.CPU}
	if err := r.start(); err != nil {
		return nil, fmt.Errorf("afxdp: transmitter: %w", errors.Join(err, r.release()))
	}
	return r, nil
}

func (r *Resident) start() (err error) {
	p := r.params
	switch {
	case runtime.GOARCH != "amd64":
		return fmt.Errorf("its program counts on amd64's order of loads and stores, and this is %s", runtime.GOARCH)
	case p.Memory > MostResident:
		return fmt.Errorf("a program reaches no more than %d MiB of frames, and there are %d: give the switch fewer buffers", MostResident>>20, p.Memory>>20)
	}
	if r.memory, err = xdprun.NewShared("frames", (p.Memory+residentMargin)/xdprun.WordSize); err != nil {
		return err
	}
	if r.rings, err = xdprun.NewShared("rings", r.size()/xdprun.WordSize); err != nil {
		return err
	}
	r.devices, err = ebpf.NewMap(&ebpf.MapSpec{Name: "devices", Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(r.slots)})
	if err != nil {
		return err
	}
	if r.bell, err = xdprun.NewBell("bell"); err != nil {
		return err
	}
	if r.program, err = xdprun.NewProgram("transmit", residentCode(r.residentLayout, r.rings, r.memory, r.devices, r.bell)...); err != nil {
		return err
	}
	r.runner, err = xdprun.Start(xdprun.Params{Program: r.program, Frame: make([]byte, r.frame), CPU: p.CPU, Shared: p.Shared})
	return err
}

// Memory returns the memory of the frames: Config.Memory of all ports.
func (r *Resident) Memory() []byte { return r.memory.Memory[:r.params.Memory] }

// CPU returns where it runs.
func (r *Resident) CPU() int { return r.params.CPU }

// Waiting returns how many frames were handed to a Resident that is Shared since it had nothing to transmit. It is for the worker on
// its CPU, as Yield is; all of its ports must be that worker's.
func (r *Resident) Waiting() int { return r.handed }

// countHanded counts frames as Waiting. A Resident with a CPU of its own has ports of several workers, which would all write to
// one word, and none of them asks.
func (r *Resident) countHanded(frames int) {
	if r.params.Shared {
		r.handed += frames
	}
}

// longestTurn is for how long a worker leaves the CPU to a Resident at the most. It is longer than a tick, for a shorter one has the
// kernel set its timer in each turn: on a virtual machine that takes as long as the turn.
const longestTurn = 5 * time.Millisecond

// Yield leaves the CPU to a Resident that is Shared, until that has nothing to transmit, some microseconds. If others have the CPU, it
// returns before, and as many frames are Waiting as were.
func (r *Resident) Yield() {
	if r.Failed() != nil || r.bell.Await(r.rings.Words[residentBell/xdprun.WordSize:][:xdprun.BellWords], longestTurn) {
		r.handed = 0
	}
}

var errEnded = errors.New("afxdp: the transmitter has ended: the kernel runs its program no more")

// HandOver has one run of the program end and the next one begin, which happens by itself whenever a run has made as many frames as it may,
// after some minutes at least.
func (r *Resident) HandOver() { r.runner.HandOver() }

// Pauses tells whether nothing is sent for some 20 ms, PFC frames neither, when a run of the program ends and the next one begins.
func (r *Resident) Pauses() bool { return r.runner.Pauses() }

// Times returns how its thread has spent its time.
func (r *Resident) Times() (xdprun.Times, error) { return r.runner.Times() }

// Failed returns why it transmits no more, or nil as long as it does. Its ports leave it when they Reconsider.
func (r *Resident) Failed() error {
	select {
	case <-r.runner.Ended():
		return errEnded
	default:
		return nil
	}
}

// Stop ends the transmitter. Its ports must be closed, and its memory used no more.
func (r *Resident) Stop() error { return errors.Join(r.runner.Stop(), r.release()) }

func (r *Resident) release() error {
	var errs []error
	if r.program != nil {
		errs = append(errs, r.program.Close())
	}
	if r.devices != nil {
		errs = append(errs, r.devices.Close())
	}
	if r.bell != nil {
		errs = append(errs, r.bell.Close())
	}
	for _, s := range []*xdprun.Shared{r.rings, r.memory} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// arrange writes the order of the slots that are taken. What the program reads of it meanwhile are slots, though one of them may be
// missing: its frames wait for a moment.
func (r *Resident) arrange() {
	var order []uint64
	for n, taken := range r.taken {
		if taken {
			order = append(order, uint64(r.slot(n)))
		}
	}
	store := func(offset int, v uint64) { r.rings.Store(offset/xdprun.WordSize, v) }
	for i, slot := range slices.Concat(order, order) {
		store(residentOrder+i*xdprun.WordSize, slot)
	}
	store(residentCount, uint64(len(order)))
}

// settle returns once no batch goes on that began before: what the program was told is what it does, and what it redirected
// is with the devices. It does not wait for one that has ended for good.
func (r *Resident) settle() error {
	for range 100 {
		if r.flushed() || r.Failed() != nil {
			return nil
		}
	}
	return fmt.Errorf("the transmitter did not run for a second: CPU %d has other things to do", r.params.CPU)
}

// flushed waits until the batch has ended that goes on, some microseconds, or reports false after 10 ms: others have the CPU.
func (r *Resident) flushed() bool {
	const soon = 1000 // looks, after which it sleeps between them
	runs := func() uint64 { return r.rings.Load(residentRuns / xdprun.WordSize) }
	for before, tries := runs(), 0; runs()-before < 2*xdprun.Batch && r.Failed() == nil; tries++ {
		switch {
		case tries < soon:
			runtime.Gosched()
		case tries < soon+10:
			pause(1)
		default:
			return false
		}
	}
	return true
}
