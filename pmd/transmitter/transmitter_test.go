package transmitter

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/internal/linux/thread"
	"sluice/pmd/xdprun"
)

// Sending ports are tested with their driver: pmd/afxdp.

const testCPU = 1

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: BPF_PROG_RUN on live frames")
	}
}

// pin binds the calling thread to a CPU.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// descriptors returns the number of open files of this process, including maps and programs.
func descriptors(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestStartRefuses tries to start transmitters with invalid parameters. Nothing may be left behind.
func TestStartRefuses(t *testing.T) {
	needsRoot(t)
	good := Params{CPU: testCPU, Memory: 1 << 20, Ports: 2, Ring: 64}
	before := 0
	for _, test := range []struct {
		name  string
		lacks []int
		of    func(*Params)
		want  string
	}{
		{"too much memory", nil, func(p *Params) { p.Memory = MostMemory + 4096 }, "lower memory.buffers"},
		{"no such CPU", nil, func(p *Params) { p.CPU = 4000 }, "choose a CPU"},
		{"without CAP_BPF", []int{unix.CAP_BPF, unix.CAP_SYS_ADMIN}, nil, "lacks cap_bpf:"},
		{"without CAP_NET_ADMIN", []int{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}, nil, "lacks cap_net_admin:"},
		{"without CAP_PERFMON", []int{unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}, nil, "lacks cap_perfmon:"},
	} {
		p := good
		if test.of != nil {
			test.of(&p)
		}
		var x *Transmitter
		err := netns.Without(func() (err error) { x, err = Start(p); return err }, test.lacks...)
		if err == nil {
			t.Errorf("%s: started", test.name)
			x.Stop()
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
		if before == 0 {
			before = descriptors(t) // includes files that the runtime and probes keep open
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

// TestVerifierRefuses loads a program that reaches beyond the frames.
func TestVerifierRefuses(t *testing.T) {
	needsRoot(t)
	x := &Transmitter{params: Params{CPU: testCPU, Memory: 1 << 20, Ports: 2, Ring: 64}}
	x.layout = layout{slots: 2, ring: 64, memory: 1 << 20, frame: margin + 1000, cpu: testCPU}
	err := x.start()
	if err == nil || !strings.Contains(err.Error(), "transmit") {
		t.Errorf("it took it: %v", err)
	}
	if err := x.release(); err != nil {
		t.Error(err)
	}
}

// TestBellWakes: a thread that waits on the program's CPU sleeps while the program has work, and is
// woken when it has none. Without a program, it wakes up on its own.
func TestBellWakes(t *testing.T) {
	needsRoot(t)
	const work, done, words = bellWords, bellWords + 1, bellWords + 2 // number of runs requested and done
	s, err := xdprun.NewShared("work", words)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBell("bell")
	if err != nil {
		t.Fatal(err)
	}
	p, err := xdprun.NewProgram("work",
		asm.Instructions{
			asm.LoadMapValue(asm.R9, s.FD(), 0),
			xdprun.Load(asm.R1, asm.R9, work),
			xdprun.Load(asm.R2, asm.R9, done),
			asm.JEq.Reg(asm.R1, asm.R2, "ring"),
		},
		xdprun.Count(asm.R9, done, asm.R1),
		xdprun.Block("drop", asm.Mov.Imm(asm.R0, xdprun.XDPDrop), asm.Return()),
		xdprun.Block("ring", b.ring(asm.R9, "drop")...),
		asm.Instructions{asm.Ja.Label("drop")},
	)
	if err != nil {
		t.Fatal(err)
	}
	r, err := xdprun.Start(xdprun.Params{Program: p, Frame: make([]byte, 60), CPU: testCPU, Shared: true})
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
			b.await(s.Words[:bellWords], 100*time.Millisecond)
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
	if s.Load(bellRang) < waits*99/100 {
		t.Errorf("it rang for %d of %d waits", s.Load(bellRang), waits)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	rang := s.Load(bellRang)
	b.await(s.Words[:bellWords], time.Millisecond)
	if s.Load(bellRang) != rang {
		t.Error("it rang after its end")
	}
	if err := errors.Join(p.Close(), b.close(), s.Close()); err != nil {
		t.Error(err)
	}
}
