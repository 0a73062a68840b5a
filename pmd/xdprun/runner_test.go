package xdprun

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// The words that the program of these tests writes.
const (
	runs    = iota
	last    // time of the last run, ns
	longest // between two runs, ns
	elsewhere
	words
)

const testCPU = 1

// needRoot skips the test if it may not run programs in the kernel.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: BPF programs")
	}
}

// newCounter returns a program that counts its runs and drops every frame.
func newCounter(t *testing.T) (*Shared, *ebpf.Program) {
	t.Helper()
	needRoot(t)
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

// TestRunnerRunsOn keeps a program running through calls that end on their own, hand-overs and
// signals.
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
	t.Logf("%d runs, the longest silence %v; stopped in %v", s.Load(runs), time.Duration(s.Load(longest)),
		time.Since(began))
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

// TestSilenceOfHandOvers logs the longest silence with and without hand-overs.
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
			t.Logf("hand-overs %v: longest silence %v in %d runs", over, time.Duration(s.Load(longest)),
				s.Load(runs)-before)
		}
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
}

// TestStartRefuses tries to start with invalid parameters.
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
