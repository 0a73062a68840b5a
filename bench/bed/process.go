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
	"sluice/internal/thread"
)

// Process is a program of its own, in a namespace, that is stopped by its number.
type Process struct {
	cmd    *exec.Cmd
	output lines
	Exited chan struct{}
	err    error // how it ended; written before exited is closed
}

// StartProcess starts a program inside a namespace, or in this process's if n is nil. Each line
// that it writes goes to watch, in order, on a goroutine of its own.
func StartProcess(n *netns.Namespace, watch func(line string), path string, args ...string) (*Process, error) {
	return startCommand(n, watch, anyCPU, exec.Command(path, args...))
}

// anyCPU is for a process that may use all CPUs that this one may use.
const anyCPU = -1

// startCommand is startProcess for a command that is made already. Its threads begin on one CPU, or
// on any.
func startCommand(n *netns.Namespace, watch func(line string), cpu int, cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, Exited: make(chan struct{}), output: lines{watch: watch}}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = stopLimit
	// It spins on a CPU, so it must not outlive us, whatever ends us. The kernel takes the death of
	// the thread that started it for ours (prctl(2), PR_SET_PDEATHSIG), so that thread waits for
	// it. It is in a group of its own, for an interrupt from the terminal is ours: we stop it in
	// our own time.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.startOn(cpu, n)
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.Exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// startOn starts the process on a CPU: a child may use those of the thread that forks it.
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

// await waits for the process to be ready, and stops it if it never is.
func (p *Process) await(ctx context.Context, ready <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, StartLimit)
	defer cancel()
	select {
	case <-ready:
		return nil
	case <-p.Exited:
		return p.Ended()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("bench: %s is not ready: %w", p.cmd.Path, ctx.Err()), p.Stop())
	}
}

// wait waits until the process has done what it was started for, and ends it early when ctx is
// done.
func (p *Process) wait(ctx context.Context) error {
	select {
	case <-p.Exited:
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.Stop())
	}
	if p.err != nil {
		return p.Ended()
	}
	return nil
}

// running tells whether the process has not ended, by itself or otherwise.
func (p *Process) running() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// Stop ends the process and waits until it has ended. It fails if the process had ended before or
// had to be killed.
func (p *Process) Stop() error {
	if !p.running() {
		return p.Ended()
	}
	_ = p.cmd.Process.Signal(os.Interrupt) // fails if it has just ended
	select {
	case <-p.Exited:
		return nil
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Kill() // as above
		<-p.Exited
		return fmt.Errorf("bench: %s was killed: it had not ended %v after an interrupt", p.cmd.Path, stopLimit)
	}
}

// Thread is how a thread has spent its time since it began.
type Thread struct {
	Ran             time.Duration
	Waited          time.Duration // ready to run, without a CPU
	Program, Kernel time.Duration // parts of Ran: in the program itself and in the kernel, to 10 ms
	Sleeps          bool          // it rests when there is nothing to do
	// the name of the only one that it may use, where it takes turns with others; "" is none known
	CPU string
}

// ReadThread reads about a thread from its directory in /proc.
func ReadThread(directory string) (t Thread, err error) {
	if t.Ran, t.Waited, err = thread.Spent(directory); err != nil {
		return t, fmt.Errorf("bench: %w", err)
	}
	// utime and stime, fields 14 and 15 of proc_pid_stat(5), counted from behind the second: a
	// name, which may hold blanks.
	text, err := os.ReadFile(directory + "/stat")
	if err != nil {
		return t, err
	}
	const afterName, utime, stime, tick = 3, 14, 15, 10 * time.Millisecond // a tick is 1/USER_HZ for whoever asks
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= stime-afterName {
		return t, fmt.Errorf("bench: %s/stat has %d fields", directory, len(fields))
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
		t, err := ReadThread(d)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) { // it has ended meanwhile
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

// boundTo returns the name of the only CPU that a thread may use; "" if there are others.
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

// Since returns how a thread has spent its time since it was as before.
func (t Thread) Since(before Thread) Thread {
	t.Ran, t.Waited = t.Ran-before.Ran, t.Waited-before.Waited
	t.Program, t.Kernel = t.Program-before.Program, t.Kernel-before.Kernel
	return t
}

// inTurns makes threads that take turns on one CPU look like one. Of the time for which each of
// them has waited, that is left in which none of the others ran.
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

// Ended says how a process ended that should not have. To be called once it has.
func (p *Process) Ended() error {
	return fmt.Errorf("bench: %s has ended by itself (%w); its last words:\n%s", p.cmd.Path, p.err, p.output.words())
}

// lines cuts what is written to it into lines. It has one writer at a time.
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
