package bed

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

	"sluice/bench/netns"
	"sluice/internal/linux/thread"
)

// Process is a program running in a namespace.
type Process struct {
	cmd    *exec.Cmd
	output lines
	exited chan struct{}
	err    error // how it ended; written before exited is closed
}

// startProcess starts a program inside a namespace, or in that of this process if n is nil. Each
// line of its output goes to watch, in order, on a separate goroutine.
func startProcess(n *netns.Namespace, watch func(line string), path string, args ...string) (*Process, error) {
	return startCommand(n, watch, anyCPU, exec.Command(path, args...))
}

// anyCPU is for a process that may use all CPUs of this one.
const anyCPU = -1

// startCommand is startProcess for a prepared command. Its threads start on one CPU, or on any.
func startCommand(n *netns.Namespace, watch func(line string), cpu int, cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{}), output: lines{watch: watch}}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = stopLimit
	// The process spins on a CPU, so it must not outlive this one, however this one ends. The
	// kernel sends the signal when the thread that started the process dies (prctl(2),
	// PR_SET_PDEATHSIG), so that thread waits for the process. The process has its own group, so
	// that an interrupt from the terminal reaches only this process, which then stops it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.startOn(cpu, n)
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// startOn starts the process on a CPU: a child inherits the CPUs of the thread that forks it.
func (p *Process) startOn(cpu int, n *netns.Namespace) (err error) {
	if cpu == anyCPU {
		return p.start(n)
	}
	if pinned := thread.OnCPU(cpu, func() { err = p.start(n) }); pinned != nil {
		return pinned
	}
	return err
}

func (p *Process) start(n *netns.Namespace) error {
	if n == nil {
		return p.cmd.Start()
	}
	return n.Start(p.cmd)
}

// await waits for the process to be ready, and stops it if it does not become ready.
func (p *Process) await(ctx context.Context, ready <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, StartLimit)
	defer cancel()
	select {
	case <-ready:
		return nil
	case <-p.exited:
		return p.ended()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("bench: %s did not become ready: %w", p.cmd.Path, ctx.Err()), p.Stop())
	}
}

// wait waits for the process to exit, and stops it early if ctx is done.
func (p *Process) wait(ctx context.Context) error {
	select {
	case <-p.exited:
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.Stop())
	}
	if p.err != nil {
		return p.ended()
	}
	return nil
}

// running reports whether the process has not ended.
func (p *Process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Stop ends the process and waits for it. It fails if the process had ended before or had to be
// killed.
func (p *Process) Stop() error {
	if !p.running() {
		return p.ended()
	}
	_ = p.cmd.Process.Signal(os.Interrupt) // fails if it has just ended
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Kill() // as above
		<-p.exited
		return fmt.Errorf("bench: %s was killed: it had not exited %v after an interrupt", p.cmd.Path, stopLimit)
	}
}

// Thread is how a thread has spent its time since its start.
type Thread struct {
	Ran             time.Duration
	Waited          time.Duration // ready to run, without a CPU
	Program, Kernel time.Duration // parts of Ran in the program and in the kernel, to 10 ms
	Sleeps          bool          // it sleeps when there is nothing to do
	// name of its only CPU, where it takes turns with others; "": unknown, or more than one
	CPU string
}

// readThread reads a thread's times from its directory in /proc.
func readThread(directory string) (t Thread, err error) {
	if t.Ran, t.Waited, err = thread.Spent(directory); err != nil {
		return t, fmt.Errorf("bench: %w", err)
	}
	// utime and stime are fields 14 and 15 of proc_pid_stat(5). The fields are counted after the
	// second one, a name that may contain blanks.
	text, err := os.ReadFile(directory + "/stat")
	if err != nil {
		return t, err
	}
	const afterName, utime, stime, tick = 3, 14, 15, 10 * time.Millisecond // a tick is 1/USER_HZ in userspace
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= stime-afterName {
		return t, fmt.Errorf("bench: %s/stat has only %d fields", directory, len(fields))
	}
	user, err1 := strconv.Atoi(fields[utime-afterName])
	system, err2 := strconv.Atoi(fields[stime-afterName])
	t.Program, t.Kernel = time.Duration(user)*tick, time.Duration(system)*tick
	return t, errors.Join(err1, err2)
}

// threads returns the process's threads by their numbers.
func (p *Process) threads() (map[string]Thread, error) {
	directories, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	all := map[string]Thread{}
	for _, d := range directories {
		t, err := readThread(d)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) { // it has just ended
			continue
		}
		if err != nil {
			return nil, err
		}
		number := filepath.Base(d)
		t.CPU = boundTo(number)
		all[number] = t
	}
	return all, nil
}

// boundTo returns the name of the only CPU that a thread may use; "" if there are more.
func boundTo(thread string) string {
	var set unix.CPUSet
	number, err := strconv.Atoi(thread)
	if err != nil || unix.SchedGetaffinity(number, &set) != nil || set.Count() != 1 {
		return ""
	}
	cpu := 0
	for !set.IsSet(cpu) {
		cpu++
	}
	return cpuName(cpu)
}

func cpuName(cpu int) string { return fmt.Sprintf("CPU %d", cpu) }

// Since returns how a thread has spent its time since before.
func (t Thread) Since(before Thread) Thread {
	t.Ran, t.Waited = t.Ran-before.Ran, t.Waited-before.Waited
	t.Program, t.Kernel = t.Program-before.Program, t.Kernel-before.Kernel
	return t
}

// inTurns combines threads that take turns on one CPU into one. It waited for as long as any of its
// threads waited while none of the others ran.
func inTurns(list []Thread) (all Thread) {
	all.Sleeps = len(list) > 0
	for _, t := range list {
		all.Ran += t.Ran
		all.Program += t.Program
		all.Kernel += t.Kernel
		all.Sleeps = all.Sleeps && t.Sleeps
	}
	for _, t := range list {
		all.Waited = max(all.Waited, t.Waited-(all.Ran-t.Ran))
	}
	return all
}

// Ended returns an error for a process that has ended unexpectedly. Call it when the process has
// ended.
func (p *Process) ended() error {
	return fmt.Errorf("bench: %s has exited unexpectedly (%w); its last output:\n%s", p.cmd.Path, p.err,
		p.output.words())
}

// lines splits its input into lines. It has one writer at a time.
type lines struct {
	watch func(line string)
	rest  []byte // of a line that is not complete

	mu   sync.Mutex
	last []string
}

// words returns the last lines.
func (l *lines) words() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, "\n")
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, complete := bytes.Cut(l.rest, []byte("\n"))
		if !complete {
			return len(b), nil
		}
		l.rest = rest
		l.mu.Lock()
		if l.last = append(l.last, string(line)); len(l.last) > lastLines {
			l.last = l.last[1:]
		}
		l.mu.Unlock()
		if l.watch != nil {
			l.watch(string(line))
		}
	}
}
