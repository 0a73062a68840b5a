package bench

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"sluice/internal/frame"
	"sluice/internal/lab"
)

// liveFrames is BPF_F_TEST_XDP_LIVE_FRAMES (linux/bpf.h): the program's verdicts are carried out on real frames.
const liveFrames = 1 << 1

const (
	overloadBatch = 64 // frames allocated at a time
	// overloadCall is how many frames one system call sends. 25 ms of silence and more lie between two calls, so calls
	// must be seconds long; but Stop has to wait until the rest of one is thrown away, 50 ns a frame.
	overloadCall = 1 << 24
)

// Overload loads a device beyond what any forwarder behind it sustains. An XDP program runs in the kernel on frames
// that the kernel makes (BPF_PROG_RUN, Documentation/bpf/bpf_prog_run.rst) and redirects each to the device. A
// sender that uses sockets is slower than the forwarders it should test.
type Overload struct {
	program *ebpf.Program
	tally   *ebpf.Map
	halt    *ebpf.Map // one word, written by Stop: other than 0, and the rest of a call is not sent
	frame   []byte
	thread  int         // the number of the OS thread that sends
	stop    atomic.Bool // written by Stop
	ended   chan struct{}
	err     error // written before ended is closed
}

// TestFrame returns a frame of length bytes without FCS, at least 18: a tagged frame of VLAN 1 and the given priority
// from one locally administered station to another. The type is one for local experiments (IEEE 802 clause 9.2.3).
func TestFrame(length int, priority uint8) []byte {
	const to, from, experimental = 0x0200_0000_0002, 0x0200_0000_0001, 0x88b5
	b := make([]byte, length)
	frame.PutHeader(b, to, from, 1, priority, true, experimental)
	return b
}

// StartOverload sends a frame over and over through a device of a namespace, from an OS thread of its own on the
// given CPU, until Stop. The peer of a veth device takes nothing before it runs an XDP program.
func StartOverload(n *lab.Namespace, device string, cpu int, frame []byte) (*Overload, error) {
	o := &Overload{frame: frame, ended: make(chan struct{})}
	if err := o.load(n, device); err != nil {
		return nil, fmt.Errorf("bench: generator on %s: %w", device, err)
	}
	started := make(chan struct{})
	go func() {
		defer close(o.ended)
		runtime.LockOSThread() // and never unlocked: the thread goes with the goroutine, for nobody else may have its CPU
		o.thread = unix.Gettid()
		close(started)
		if o.err = pin(cpu); o.err == nil {
			o.err = n.Do(o.send) // the redirect looks for the device in the namespace of whoever sends
		}
	}()
	<-started
	return o, nil
}

func (o *Overload) load(n *lab.Namespace, device string) error {
	var index int
	err := n.Do(func() (err error) {
		index, err = deviceIndex(device)
		return err
	})
	if err != nil {
		return err
	}
	if o.tally, err = newTally(); err != nil {
		return err
	}
	o.halt, err = ebpf.NewMap(&ebpf.MapSpec{Name: "halt", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return errors.Join(err, o.tally.Close())
	}
	if o.program, err = newXDP("overload", overloadCode(o.tally, o.halt, index)); err != nil {
		return errors.Join(err, o.tally.Close(), o.halt.Close())
	}
	return nil
}

// overloadCode counts a frame and redirects it to a device, or throws it away once halted.
func overloadCode(tally, halt *ebpf.Map, device int) asm.Instructions {
	const halted = "halted"
	code := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMapValue(asm.R1, halt.FD(), 0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.Word),
		asm.JNE.Imm(asm.R1, 0, halted),
	}
	code = append(code, countFrame(tally)...)
	return append(code,
		asm.Mov.Imm(asm.R1, int32(device)),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol(halted),
		asm.Return(),
	)
}

func (o *Overload) send() error {
	for !o.stop.Load() {
		_, err := o.program.Run(&ebpf.RunOptions{Data: o.frame, Repeat: overloadCall, Flags: liveFrames, BatchSize: overloadBatch})
		if err != nil {
			return fmt.Errorf("bench: generator: %w", err)
		}
	}
	return nil
}

// Sent returns what was handed to the device so far, whether the peer had room for it or not.
func (o *Overload) Sent() (Tally, error) { return readTally(o.tally) }

// Stop ends the sending, waits until it has ended and returns what was sent in all.
func (o *Overload) Stop() (Tally, error) {
	o.stop.Store(true)
	halted := o.halt.Put(uint32(0), uint32(1))
	<-o.ended
	sent, err := o.Sent()
	return sent, errors.Join(o.err, halted, err, o.program.Close(), o.tally.Close(), o.halt.Close())
}

// Thread tells how the thread that sends has spent its time.
func (o *Overload) Thread() (Thread, error) {
	return readThread(fmt.Sprintf("/proc/self/task/%d/schedstat", o.thread))
}

// pin moves the calling thread to one CPU.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("bench: CPU %d: %w (choose a CPU that this process may use)", cpu, err)
	}
	return nil
}
