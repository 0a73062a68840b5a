package afxdp

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"sluice/internal/xdprun"
	"sluice/pmd"
	"sluice/ring"
)

// ResidentParams says what a Resident is to be.
type ResidentParams struct {
	CPU    int // that it spins on
	Memory int // bytes of frames
	Ports  int // at the most
	Ring   int // descriptors of each port, a power of two
}

// Resident is a transmitter inside the kernel, for devices that AF_XDP can't send through without making a socket buffer of
// each frame, which costs more than all the rest of a forwarder. An XDP program that runs all the time (package xdprun) on a
// CPU of its own takes descriptors out of rings that workers fill, copies the frame out of the workers' memory into a page
// and redirects it to the device. The memory is one that both know: the value of a BPF array map, which AF_XDP sockets take
// for their UMEM.
type Resident struct {
	residentLayout
	memory  *xdprun.Shared
	rings   *xdprun.Shared
	devices *ebpf.Map
	program *ebpf.Program
	runner  *xdprun.Runner

	mu    sync.Mutex // of the rest
	taken []bool     // by slot
}

// longestResident is the longest frame, in bytes without FCS: the kernel makes each in a page, beside what it needs to know
// of it.
const longestResident = 3300

// mostResident is how far a program may reach into a map's value, in bytes (BPF_MAX_VAR_OFF, linux/bpf_verifier.h).
const mostResident = 1 << 29

// StartResident starts a transmitter. It has no ports yet.
func StartResident(p ResidentParams) (*Resident, error) {
	r := &Resident{taken: make([]bool, p.Ports)}
	r.residentLayout = residentLayout{slots: p.Ports, ring: p.Ring, memory: p.Memory, frame: longestResident, cpu: p.CPU}
	if err := r.start(); err != nil {
		return nil, fmt.Errorf("afxdp: resident transmitter: %w", errors.Join(err, r.release()))
	}
	return r, nil
}

func (r *Resident) start() (err error) {
	const page = 4096
	if r.residentLayout.memory+page > mostResident {
		return fmt.Errorf("a memory of %d MiB: a program reaches %d MiB: give the switch fewer buffers", r.residentLayout.memory>>20, mostResident>>20-1)
	}
	if r.memory, err = xdprun.NewShared("frames", (r.residentLayout.memory+page)/xdprun.WordSize); err != nil {
		return err
	}
	if r.rings, err = xdprun.NewShared("rings", r.size()/xdprun.WordSize); err != nil {
		return err
	}
	r.devices, err = ebpf.NewMap(&ebpf.MapSpec{Name: "devices", Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(r.slots)})
	if err != nil {
		return err
	}
	if r.program, err = xdprun.NewProgram("transmit", residentCode(r.residentLayout, r.rings, r.memory, r.devices)...); err != nil {
		return err
	}
	r.runner, err = xdprun.Start(xdprun.Params{Program: r.program, Frame: make([]byte, r.frame), CPU: r.cpu})
	return err
}

// Memory returns the memory of the frames, for Config.Memory of all ports.
func (r *Resident) Memory() []byte { return r.memory.Memory[:r.residentLayout.memory] }

// HandOver has another thread take over now; see xdprun.Runner.
func (r *Resident) HandOver() error { return r.runner.HandOver() }

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
	for _, s := range []*xdprun.Shared{r.rings, r.memory} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// residentPort is a port's slot of a Resident. Three indices run over one ring of descriptors: the worker's, up to which
// frames are handed over; the program's, up to which they have been copied; and that up to which the worker has taken their
// buffers back, up to which it may put in new ones.
type residentPort struct {
	engine     *Resident
	number     int
	tx         *ring.Ring[pmd.Desc] // from the worker's index to what is done
	completion *ring.Ring[pmd.Desc] // from the program's index to what is done
	word       int                  // of the slot, in the engine's rings
}

// join gives a device a slot.
func (r *Resident) join(device int) (*residentPort, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := slices.Index(r.taken, false)
	if n < 0 {
		return nil, fmt.Errorf("all %d ports of the transmitter are taken", r.slots)
	}
	if err := r.devices.Put(uint32(n), uint32(device)); err != nil {
		return nil, fmt.Errorf("give the transmitter device %d: %w", device, err)
	}
	slot := r.rings.Memory[r.slot(n):r.slot(n+1)]
	clear(slot)
	p := &residentPort{engine: r, number: n, word: r.slot(n) / xdprun.WordSize}
	var err error
	if p.tx, err = ring.Over[pmd.Desc](slot, ring.Layout{Producer: slotProducer, Consumer: slotDone, Slots: slotRing}, r.ring); err != nil {
		return nil, err
	}
	if p.completion, err = ring.Over[pmd.Desc](slot, ring.Layout{Producer: slotConsumer, Consumer: slotDone, Slots: slotRing}, r.ring); err != nil {
		return nil, err
	}
	r.rings.Store(p.word+slotNumber/xdprun.WordSize, uint64(n))
	r.taken[n] = true
	r.arrange()
	return p, nil
}

// leave gives the slot back.
func (p *residentPort) leave() error {
	r := p.engine
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken[p.number] = false
	r.arrange()
	return r.devices.Delete(uint32(p.number))
}

// arrange writes the order of the slots that are taken. Whatever the program reads of it meanwhile are slots.
func (r *Resident) arrange() {
	var order []uint64
	for n, taken := range r.taken {
		if taken {
			order = append(order, uint64(r.slot(n)))
		}
	}
	r.rings.Store(residentCount/xdprun.WordSize, 0)
	for i, slot := range slices.Concat(order, order) {
		r.rings.Store(residentOrder/xdprun.WordSize+i, slot)
	}
	r.rings.Store(residentTurn/xdprun.WordSize, 0)
	r.rings.Store(residentCount/xdprun.WordSize, uint64(len(order)))
}

// complete stores the addresses of up to len(addrs) frames that have been copied.
func (p *residentPort) complete(addrs []uint64) int {
	a, b := p.completion.Peek(len(addrs))
	for i := range a {
		addrs[i] = a[i].Addr
	}
	for i := range b {
		addrs[len(a)+i] = b[i].Addr
	}
	p.completion.Release(len(a) + len(b))
	return len(a) + len(b)
}

func (p *residentPort) word64(offset int) uint64 {
	return p.engine.rings.Load(p.word + offset/xdprun.WordSize)
}
