package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"sluice/internal/config"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestSummarise(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Summary
	}{
		{[]float64{7}, Summary{7, 7, 7, 0}},
		{[]float64{3, 1, 2}, Summary{2, 1, 3, 0.5}},                         // mean 2, variance (1+0+1)/2 = 1
		{[]float64{4, 1, 3, 2}, Summary{2.5, 1, 4, math.Sqrt(5.0/3) / 2.5}}, // variance 5/3
		{[]float64{2, 4, 4, 4, 5, 5, 7, 9}, Summary{4.5, 2, 9, math.Sqrt(32.0/7) / 5}},
		{[]float64{0, 0}, Summary{}},
	} {
		given := append([]float64(nil), c.values...)
		got := Summarise(c.values)
		if !near(got.Median, c.want.Median) || got.Min != c.want.Min || got.Max != c.want.Max || !near(got.CV, c.want.CV) {
			t.Errorf("%v: %+v, not %+v", c.values, got, c.want)
		}
		for i := range given {
			if given[i] != c.values[i] {
				t.Fatalf("%v became %v", given, c.values)
			}
		}
	}
}

// TestReport sums up trials whose figures are known.
func TestReport(t *testing.T) {
	r := &Report{Scenario: "veth", Machine: Machine{CPU: "some", Cores: 2, Kernel: "6", Versions: map[string]string{}},
		Absent: map[string]string{"testpmd": "not installed"}, Ratios: map[string]Ratio{}}
	for round, rates := range [][2]float64{{2e6, 1e6}, {3e6, 1e6}, {1e6, 1e6}} {
		for i, name := range []string{"a", "b"} {
			r.Trials = append(r.Trials, Trial{Forwarder: name, Length: 60, Round: round, Rate: rates[i]})
		}
	}
	r.summarise()
	ratio, ok := r.Ratios["a/b 64 B"]
	if !ok || len(r.Ratios) != 1 || ratio.Median != 2 || ratio.Min != 1 || ratio.Max != 3 || ratio.CV != 0.5 || ratio.Pairs[1] != 3 {
		t.Errorf("ratios %+v", r.Ratios)
	}
	if len(r.Results) != 2 || r.Results[0].Name != "a" || r.Results[0].Median != 2e6 || r.Results[1].CV != 0 {
		t.Errorf("results %+v", r.Results)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"absent: testpmd: not installed", "2.000", "50.0 %!", "0.0 % ", "a/b 64 B"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"scenario":"veth"`, `"results":[{"name":"a","metric":`, `"unit":"packets/s","median":2000000,"min":1000000,"max":3000000,"cv":0.5}`} {
		if !bytes.Contains(encoded, []byte(want)) {
			t.Errorf("no %s in %s", want, encoded)
		}
	}
}

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

// TestRunVeth measures two forwarders, one in the kernel and one that is a process, and looks at the report's sums.
func TestRunVeth(t *testing.T) {
	newLab(t)
	var log bytes.Buffer
	r, err := RunVeth(t.Context(), VethOptions{
		Forwarders: []Forwarder{NewBaseline(os.Args[0]), &kernelForwarder{name: "kernel"}},
		Trials:     2, Attempts: 10, Duration: 100 * time.Millisecond, WarmUp: 50 * time.Millisecond, Log: &log,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Trials) != 8 || len(r.Results) != 4 || len(r.Ratios) != 2 || bytes.Count(log.Bytes(), []byte("\n")) != 8 {
		t.Fatalf("%+v\n%s", r, &log)
	}
	for i, c := range r.Trials {
		if c.Forwarder != []string{"baseline", "kernel"}[i%2] || c.Round != i/2%2 || c.Length != []int{60, 1496}[i/4] {
			t.Errorf("trial %d is %+v: forwarders must take turns", i, c)
		}
		if c.Rate <= 0 || c.Offered <= 0 || c.Seconds < 0.1 || c.Disturbed < 0 || c.Disturbed > 1 || c.Attempts < 1 || c.Attempts > 10 {
			t.Errorf("%+v", c)
		}
	}
	t.Logf("\n%s", &log)
}

// TestRunVethFails has a forwarder that ends at once and one that forwards nothing.
func TestRunVethFails(t *testing.T) {
	newLab(t)
	short := VethOptions{Trials: 1, Lengths: []int{60}, Duration: time.Millisecond, WarmUp: time.Millisecond}
	short.Forwarders = []Forwarder{&Program{name: "gone", path: "/bin/false", arguments: func(Site) []string { return nil }}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := RunVeth(ctx, short); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("a forwarder that ends at once: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	short.Forwarders = []Forwarder{&Program{name: "idle", path: "/bin/sleep", arguments: func(Site) []string { return []string{"1000"} }}}
	if _, err := RunVeth(ctx, short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not a frame") {
		t.Errorf("a forwarder that forwards nothing: %v", err)
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
		if s := c.elapsed.Seconds(); !near(got.Disturbed, c.want) || !near(got.Rate*s, 200) || !near(got.Offered*s, 1000) || got.Seconds != s {
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

func TestMachineNamesNobody(t *testing.T) {
	m := thisMachine()
	encoded, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if m.Cores < 1 || m.CPU == "unknown" || m.Kernel == "unknown" || bytes.Contains(encoded, []byte(`"`+host+`"`)) {
		t.Errorf("%s", encoded)
	}
}
