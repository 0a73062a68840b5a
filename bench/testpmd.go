package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/lab"
)

// ErrAbsent says that a peer is not installed. It is reported so; its figures are never made up.
var ErrAbsent = errors.New("not installed")

const (
	testpmdProgram  = "dpdk-testpmd"
	testpmdMemory   = 256 // MiB
	highestPriority = -20 // setpriority(2)
	startLimit      = 20 * time.Second
	stopLimit       = 15 * time.Second
)

// Testpmd is DPDK's forwarder with its AF_XDP driver, in mode io: frames go out as they came in.
type Testpmd struct {
	path    string
	process *process
	version string
}

// NewTestpmd fails with ErrAbsent where there is no testpmd.
func NewTestpmd() (*Testpmd, error) {
	path, err := exec.LookPath(testpmdProgram)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w (scripts/install-peers installs it)", testpmdProgram, ErrAbsent)
	}
	return &Testpmd{path: path}, nil
}

// Name implements Forwarder.
func (t *Testpmd) Name() string { return "testpmd" }

// Version returns what testpmd has said of itself, once it was started.
func (t *Testpmd) Version() string { return t.version }

// Start implements Forwarder.
func (t *Testpmd) Start(ctx context.Context, s Site) error {
	var devices []string
	for i, d := range s.Devices {
		devices = append(devices, fmt.Sprintf("net_af_xdp%d,iface=%s", i, d))
	}
	forwarding := make(chan struct{})
	var once sync.Once
	watch := func(line string) {
		if _, version, found := strings.Cut(line, "RTE Version: "); found {
			t.version = strings.Trim(version, "' ")
		}
		if strings.HasPrefix(line, testpmdStatistics) {
			once.Do(func() { close(forwarding) })
		}
	}
	var err error
	if t.process, err = startProcess(s.Namespace, watch, t.path, testpmdArguments("io", devices, s.CPU, s.OtherCPU)...); err != nil {
		return err
	}
	return t.process.await(ctx, forwarding)
}

// Stop implements Forwarder.
func (t *Testpmd) Stop() error { return t.process.stop() }

// Threads returns testpmd's threads by their numbers.
func (t *Testpmd) Threads() (map[string]Thread, error) { return t.process.threads() }

// testpmdStatistics begins the statistics that testpmd prints, the first time as soon as it forwards.
const testpmdStatistics = "Port statistics ="

// testpmdArguments gives the forwarding core one CPU and the main core, which prints, another. Without a terminal
// testpmd goes on only for as long as it has statistics to print.
func testpmdArguments(mode string, devices []string, cpu, otherCPU int) []string {
	args := []string{"-v", "--no-pci", "--no-telemetry", "--main-lcore=0", fmt.Sprintf("--lcores=0@%d,1@%d", otherCPU, cpu),
		"-m", strconv.Itoa(testpmdMemory)}
	if freeHugepages() >= testpmdMemory/2 {
		args = append(args, "--in-memory")
	} else {
		args = append(args, "--no-huge", "--no-shconf")
	}
	for _, d := range devices {
		args = append(args, "--vdev="+d)
	}
	return append(args, "--", "--total-num-mbufs=16384", "--nb-cores=1", "--stats-period=1", "--forward-mode="+mode)
}

// freeHugepages returns the number of free pages of 2 MiB, 0 where the kernel has none.
func freeHugepages() int {
	text, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// TestpmdNull measures what testpmd forwards between two ports that cost nothing (net_null), in packets/s of both
// directions together, one sample a second. Modes are testpmd's: io leaves the frames alone, macswap rewrites their
// addresses. It is the peer of the path between memory ports.
func TestpmdNull(ctx context.Context, mode string, cpu, otherCPU, samples int) ([]float64, error) {
	t, err := NewTestpmd()
	if err != nil {
		return nil, err
	}
	const unsettled = 1 // the first statistics are printed before there is a rate
	var rates testpmdRates
	enough := make(chan struct{})
	var once sync.Once
	watch := func(line string) {
		if rates.read(line); len(rates.complete) == unsettled+samples {
			once.Do(func() { close(enough) })
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit+time.Duration(unsettled+samples)*time.Second)
	defer cancel()
	p, err := startProcess(nil, watch, t.path, testpmdArguments(mode, []string{"net_null0", "net_null1"}, cpu, otherCPU)...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.await(ctx, enough), p.stop()); err != nil {
		return nil, err
	}
	return rates.complete[unsettled:][:samples], nil
}

// testpmdRates reads the packets/s sent by all ports out of the statistics that testpmd prints.
type testpmdRates struct {
	complete []float64 // by statistics
	sum      float64   // of the statistics being read
	open     bool
}

func (r *testpmdRates) read(line string) {
	if strings.HasPrefix(line, testpmdStatistics) {
		if r.open {
			r.complete = append(r.complete, r.sum)
		}
		r.open, r.sum = true, 0
		return
	}
	if f := strings.Fields(line); len(f) >= 2 && f[0] == "Tx-pps:" {
		n, _ := strconv.ParseFloat(f[1], 64)
		r.sum += n
	}
}

// process is a program of its own, in a namespace, that is stopped by its number.
type process struct {
	cmd    *exec.Cmd
	output lines
	exited chan struct{}
	err    error // how it ended; written before exited is closed
}

// startProcess starts a program inside a namespace, or in this process's if n is nil. It gets the highest priority:
// that is what sluice gives its workers, so all that is compared with it gets the same. Each line that it writes goes
// to watch, in order, on a goroutine of its own.
func startProcess(n *lab.Namespace, watch func(line string), path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{}), output: lines{watch: watch}}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = stopLimit
	// It spins on a CPU, so it must not outlive us, whatever ends us. The kernel takes the death of the thread that
	// started it for ours (prctl(2), PR_SET_PDEATHSIG), so that thread waits for it. The thread then goes with its
	// goroutine, which never unlocks it: nobody else may run with its priority.
	//
	// A session of its own, because the kernel shares CPUs out among sessions before it looks at priorities (sched(7),
	// autogroup): in ours, it would take the other CPU from the generator.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.start(n)
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", path, err)
	}
	return p, nil
}

// start starts the process, which inherits the calling thread's priority.
func (p *process) start(n *lab.Namespace) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, highestPriority); err != nil {
		return err
	}
	start := p.cmd.Start
	if n != nil {
		start = func() error { return n.Start(p.cmd) }
	}
	if err := start(); err != nil {
		return err
	}
	preferSession(p.cmd.Process.Pid)
	return nil
}

// preferSession gives a process's session the highest priority among sessions, where the kernel knows such a thing
// (sched(7), autogroup), and returns what takes it back. A machine that measures has nothing better to do meanwhile.
func preferSession(pid int) (restore func()) {
	file := fmt.Sprintf("/proc/%d/autogroup", pid)
	text, err := os.ReadFile(file) // "/autogroup-12 nice 0"
	fields := strings.Fields(string(text))
	if err != nil || len(fields) == 0 {
		return func() {}
	}
	set := func(nice string) { _ = os.WriteFile(file, []byte(nice), 0) } // not having it is no failure: see Trial.Disturbed
	set(strconv.Itoa(highestPriority))
	return func() { set(fields[len(fields)-1]) }
}

// await waits for the process to be ready, and stops it if it never is.
func (p *process) await(ctx context.Context, ready <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	select {
	case <-ready:
		return nil
	case <-p.exited:
		return p.ended()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("bench: %s is not ready: %w", p.cmd.Path, ctx.Err()), p.stop())
	}
}

// stop ends the process and waits until it has ended. It fails if the process had ended before or had to be killed.
func (p *process) stop() error {
	select {
	case <-p.exited:
		return p.ended()
	default:
	}
	p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopLimit):
		p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("bench: %s was killed: it had not ended %v after an interrupt", p.cmd.Path, stopLimit)
	}
}

// Thread is how a thread has spent its time since it began.
type Thread struct {
	Ran    time.Duration
	Waited time.Duration // ready to run, without a CPU
}

// readThread reads a schedstat file: both times in ns, and something else (Documentation/scheduler/sched-stats.rst).
func readThread(schedstat string) (t Thread, err error) {
	text, err := os.ReadFile(schedstat)
	if err != nil {
		return t, err
	}
	if _, err := fmt.Sscan(string(text), &t.Ran, &t.Waited); err != nil {
		return t, fmt.Errorf("bench: %s: %w", schedstat, err)
	}
	return t, nil
}

// threads returns the process's threads by their numbers.
func (p *process) threads() (map[string]Thread, error) {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	all := map[string]Thread{}
	for _, path := range paths {
		t, err := readThread(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) { // it has ended meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all[filepath.Base(filepath.Dir(path))] = t
	}
	return all, nil
}

// ended says how a process ended that should not have. To be called once it has.
func (p *process) ended() error {
	return fmt.Errorf("bench: %s has ended by itself (%v); its last words:\n%s", p.cmd.Path, p.err, strings.Join(p.output.last, "\n"))
}

// lines cuts what is written to it into lines. It has one writer at a time.
type lines struct {
	watch func(line string)
	last  []string
	rest  []byte // of a line that is not complete
}

const lastLines = 20

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, complete := bytes.Cut(l.rest, []byte("\n"))
		if !complete {
			return len(b), nil
		}
		l.rest = rest
		if l.last = append(l.last, string(line)); len(l.last) > lastLines {
			l.last = l.last[1:]
		}
		if l.watch != nil {
			l.watch(string(line))
		}
	}
}
