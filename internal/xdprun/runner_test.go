package xdprun

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"sluice/internal/thread"
)

// What the program of these tests writes, in words.
const (
	runs    = iota
	last    // when it ran last, ns
	longest // between two runs, ns
	elsewhere
	words
)

const testCPU = 1

// newCounter returns a program that counts its runs and drops every frame.
func newCounter(t *testing.T) (*Shared, *ebpf.Program) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: BPF_PROG_RUN on live frames")
	}
	s, err := NewShared("counter", words)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := NewProgram("count",
		asm.Instructions{
			asm.LoadMapValue(asm.R9, s.FD(), 0),
			asm.FnGetSmpProcessorId.Call(),
			asm.JEq.Imm(asm.R0, testCPU, "here"),
		},
		Count(asm.R9, elsewhere, asm.R1),
		Block("here", Count(asm.R9, runs, asm.R1)...),
		asm.Instructions{
			asm.FnKtimeGetNs.Call(),
			Load(asm.R1, asm.R9, last),
			Store(asm.R9, last, asm.R0),
			asm.JEq.Imm(asm.R1, 0, "drop"),
			asm.Sub.Reg(asm.R0, asm.R1),
			Load(asm.R1, asm.R9, longest),
			asm.JLE.Reg(asm.R0, asm.R1, "drop"),
			Store(asm.R9, longest, asm.R0),
		},
		Drop("drop"),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, p
}

func awaitRuns(t *testing.T, s *Shared, n uint64) {
	t.Helper()
	from := s.Load(runs)
	for range 5000 {
		if s.Load(runs)-from >= n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d runs in 5 s, not %d", s.Load(runs)-from, n)
}

// TestRunnerRunsOn runs a program through calls that end by themselves, hand-overs and signals.
func TestRunnerRunsOn(t *testing.T) {
	s, p := newCounter(t)
	r, err := Start(Params{Program: p, Frame: make([]byte, 60), CPU: testCPU, Repeat: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		r.HandOver()
		_ = unix.Tgkill(os.Getpid(), r.Thread(), stopSignal)
		_ = unix.Tgkill(os.Getpid(), r.Thread(), unix.SIGUSR1) // blocked
		awaitRuns(t, s, 1<<17)
	}
	times, err := r.Times()
	if err != nil || times.Ran <= 0 {
		t.Errorf("times %+v, %v", times, err)
	}
	began := time.Now()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs, the longest silence %v; stopped in %v", s.Load(runs), time.Duration(s.Load(longest)), time.Since(began))
	stopped := s.Load(runs)
	time.Sleep(20 * time.Millisecond)
	if s.Load(runs) != stopped || s.Load(elsewhere) != 0 {
		t.Errorf("%d runs after Stop, %d on other CPUs", s.Load(runs)-stopped, s.Load(elsewhere))
	}
	select {
	case <-r.Ended():
	default:
		t.Error("stopped and not ended")
	}
}

// TestSilenceOfHandOvers compares the longest silence with and without hand-overs; see the log.
func TestSilenceOfHandOvers(t *testing.T) {
	s, p := newCounter(t)
	r, err := Start(Params{Program: p, Frame: make([]byte, 60), CPU: testCPU})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, over := range []bool{false, true} {
			awaitRuns(t, s, 1<<20)
			s.Store(longest, 0)
			before := s.Load(runs)
			for range 5 {
				if over {
					r.HandOver()
				}
				awaitRuns(t, s, 1<<20)
			}
			t.Logf("hand-overs %v: longest silence %v in %d runs", over, time.Duration(s.Load(longest)), s.Load(runs)-before)
		}
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
}

// TestBellWakes: who waits on the program's CPU sleeps while it has something to do, and is woken when it has not; without a
// program he wakes up by himself.
func TestBellWakes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: BPF_PROG_RUN on live frames")
	}
	const work, done, words = BellWords, BellWords + 1, BellWords + 2 // what is to be done and what is, in runs
	s, err := NewShared("work", words)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBell("bell")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProgram("work",
		asm.Instructions{
			asm.LoadMapValue(asm.R9, s.FD(), 0),
			Load(asm.R1, asm.R9, work),
			Load(asm.R2, asm.R9, done),
			asm.JEq.Reg(asm.R1, asm.R2, "ring"),
		},
		Count(asm.R9, done, asm.R1),
		Block("drop", asm.Mov.Imm(asm.R0, XDPDrop), asm.Return()),
		Block("ring", b.Ring("drop")...),
		asm.Instructions{asm.Ja.Label("drop")},
	)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Start(Params{Program: p, Frame: make([]byte, 60), CPU: testCPU, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	const waits = 1000
	early, longest := 0, time.Duration(0)
	thread.Own(func() {
		if err := pin(testCPU); err != nil {
			t.Error(err)
		}
		for range waits {
			s.Store(work, s.Load(work)+100)
			began := time.Now()
			b.Await(s.Words[:BellWords], 100*time.Millisecond)
			longest = max(longest, time.Since(began))
			if s.Load(done) != s.Load(work) {
				early++
			}
		}
	})
	t.Logf("%d of %d waits ended early; the longest took %v", early, waits, longest)
	if early > waits/100 { // others may have the CPU
		t.Error("the program was not done")
	}
	if s.Load(BellRang) < waits*99/100 {
		t.Errorf("it rang for %d of %d waits", s.Load(BellRang), waits)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	rang := s.Load(BellRang)
	b.Await(s.Words[:BellWords], time.Millisecond)
	if s.Load(BellRang) != rang {
		t.Error("it rang after its end")
	}
	if err := errors.Join(p.Close(), b.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// TestStartRefuses asks for what can't run.
func TestStartRefuses(t *testing.T) {
	_, p := newCounter(t)
	for want, params := range map[string]Params{
		"choose a CPU":   {Program: p, Frame: make([]byte, 60), CPU: 4000},
		"on frames of 5": {Program: p, Frame: make([]byte, 5), CPU: testCPU},
	} {
		r, err := Start(params)
		if err == nil {
			r.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not %q: %v", want, err)
		}
	}
}
