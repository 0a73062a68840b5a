package bench

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"sluice/internal/config"
)

// kernelForwarder redirects in the kernel, from the first device to the second: a forwarder that needs no program.
type kernelForwarder struct {
	name  string
	close func() error
}

func (k *kernelForwarder) Name() string { return k.name }

func (k *kernelForwarder) Start(_ context.Context, s Site) error {
	return s.Namespace.Do(func() error {
		from, err1 := deviceIndex(s.Devices[0])
		to, err2 := deviceIndex(s.Devices[1])
		p, err3 := newXDP("forward", asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return(),
		})
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: from, Flags: link.XDPDriverMode})
		k.close = func() error { return errors.Join(l.Close(), p.Close()) }
		return err
	})
}

func (k *kernelForwarder) Stop() error { return k.close() }

// TestScenarioVeth measures two forwarders, one in the kernel and one that is a process, and looks at the report's sums.
func TestScenarioVeth(t *testing.T) {
	newLab(t)
	two := Scenario{Name: "veth", Run: func(ctx context.Context, o Options, r *Report) error {
		v := veth{Options: o, attempts: 10, warmUp: 50 * time.Millisecond}
		v.forwarders = []Forwarder{NewBaseline(os.Args[0]), &kernelForwarder{name: "kernel"}}
		return v.run(ctx, r)
	}}
	r, err := Run(t.Context(), two, Options{Quick: true, Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Trials) != 8 || len(r.Results) != 4 || len(r.Ratios) != 2 {
		t.Fatalf("%+v", r)
	}
	for _, c := range r.Trials {
		attempts, disturbed := c.Detail["attempts"], c.Detail["disturbed"]
		if c.Value <= 0 || c.Detail["offered"] <= 0 || c.Detail["seconds"] < 0.1 || disturbed < 0 || disturbed > 1 || attempts < 1 || attempts > 10 {
			t.Errorf("%+v", c)
		}
	}
}

// TestVethFails has a forwarder that ends at once and one that forwards nothing.
func TestVethFails(t *testing.T) {
	newLab(t)
	for _, c := range []struct {
		what, program, argument, want string
	}{
		{"a forwarder that ends at once", "/bin/false", "", "ended by itself"},
		{"a forwarder that forwards nothing", "/bin/sleep", "1000", "not a frame"},
	} {
		f := &Program{name: "some", path: c.program, arguments: func(Site) []string { return []string{c.argument} }}
		v := veth{lengths: []int{60}, forwarders: []Forwarder{f}, warmUp: time.Millisecond}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := Scenario{Name: "veth", Run: func(ctx context.Context, o Options, r *Report) error {
			v.Options = o
			return v.run(ctx, r)
		}}
		if r, err := Run(ctx, s, Options{Quick: true}); err == nil || !strings.Contains(err.Error(), c.want) || !r.Partial {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestBetween has looks whose figures are known.
func TestBetween(t *testing.T) {
	start := time.Now()
	from := look{
		at: start, received: Tally{Frames: 100}, sent: Tally{Frames: 1000}, generator: Thread{Ran: 5, Waited: 5},
		forwarder: map[string]Thread{"1": {Ran: 900, Waited: 50}, "2": {Ran: 10, Waited: 1}},
	}
	threads := map[string]Thread{"1": {Ran: 910, Waited: 80}, "2": {Ran: 100, Waited: 4}, "3": {Ran: 20, Waited: 7}}
	for _, c := range []struct {
		what      string
		elapsed   time.Duration
		generator Thread
		forwarder map[string]Thread
		want      float64
	}{
		{"2 forwards, and waited 3", 100, Thread{Ran: 100, Waited: 6}, threads, 0.03},
		{"the generator waited 10", 100, Thread{Ran: 95, Waited: 15}, threads, 0.1},
		{"2 ran for 90 and waits ever since", 1000, Thread{Ran: 995, Waited: 6}, threads, 0.91},
		{"of the forwarder nothing is known", 100, Thread{Ran: 100, Waited: 6}, nil, 0.01},
	} {
		to := look{at: start.Add(c.elapsed), received: Tally{Frames: 300}, sent: Tally{Frames: 2000}, generator: c.generator, forwarder: c.forwarder}
		got := between(from, to)
		if s := c.elapsed.Seconds(); !near(got.disturbed, c.want) || !near(got.rate*s, 200) || !near(got.offered*s, 1000) || got.seconds != s {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

func TestWireConfig(t *testing.T) {
	c, err := config.Parse("test", []byte(wireConfig(Site{Devices: switchDevices, CPU: 1})))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Workers) != 1 || c.Workers[0] != 1 || c.Ports[0].Peer != 1 || c.Ports[1].Peer != 0 || c.Ports[1].Device != "s1" {
		t.Errorf("%+v", c)
	}
}
