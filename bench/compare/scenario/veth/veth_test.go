package veth

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/bench/testkit/benchtest"
	"sluice/internal/config"
)

func TestMain(m *testing.M) { benchtest.Main(m, bed.RunBaseline) }

// TestVethFails has a forwarder that ends at once and one that forwards nothing.
func TestVethFails(t *testing.T) {
	benchtest.NewLab(t)
	for _, c := range []struct {
		what, program, argument, want string
	}{
		{"a forwarder that ends at once", "/bin/false", "", "exited unexpectedly"},
		{"a forwarder that forwards nothing", "/bin/sleep", "1000", "no frame"},
	} {
		f := bed.NewProgram("some", c.program, func(bed.Site) []string { return []string{c.argument} })
		v := veth{lengths: []int{60}, forwarders: []bed.Forwarder{f}, attempts: 1}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := compare.Scenario{Name: "veth", Run: func(ctx context.Context, o compare.Options, r *compare.Report) error {
			v.Options = o
			return v.run(ctx, r)
		}}
		if r, err := compare.Run(ctx, s, compare.Options{Quick: true}); err == nil ||
			!strings.Contains(err.Error(), c.want) || !r.Partial {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestVethGoesOn without a peer that does not start, and without one that forwards nothing.
func TestVethGoesOn(t *testing.T) {
	benchtest.NewLab(t)
	broken := bed.NewProgram("broken", "/bin/false", func(bed.Site) []string { return nil })
	absent := bed.NewProgram("absent", "/bin/none", func(bed.Site) []string { return nil })
	v := veth{lengths: []int{60}, forwarders: []bed.Forwarder{&bed.XDPRedirect{}, absent, broken}}
	s := compare.Scenario{Name: "veth", Run: func(ctx context.Context, o compare.Options, r *compare.Report) error {
		v.Options = o
		return v.run(ctx, r)
	}}
	r, err := compare.Run(t.Context(), s, compare.Options{Quick: true, Trials: 1, Progress: t.Logf})
	if err != nil || r.Partial {
		t.Fatalf("%v", err)
	}
	if !strings.Contains(r.Absent["absent"], "start") || !strings.Contains(r.Absent["broken"], "exited unexpectedly") ||
		len(r.Absent) != 2 {
		t.Errorf("absent: %v", r.Absent)
	}
	name := (&bed.XDPRedirect{}).Name()
	if len(r.Values(name, of(metricMRR, 60))) != 1 ||
		len(r.Values(name, of(latencyMetric(commonLoad, "p50"), 60))) != 1 {
		t.Errorf("%+v", r.Results)
	}
}

// limited is an XDPRedirect that claims to take only short frames.
type limited struct{ bed.XDPRedirect }

func (*limited) Name() string           { return "limited" }
func (*limited) Longest() (int, string) { return 60, "it takes no others" }

// TestVethJumbo measures sluice with frames of several buffers beside a forwarder that takes them
// and one that does not.
func TestVethJumbo(t *testing.T) {
	benchtest.NeedRoot(t)
	const length = 9014
	v := veth{lengths: []int{60, length}, lossless: true,
		forwarders: []bed.Forwarder{bed.NewSluice(os.Args[0]), &limited{}, &bed.XDPRedirect{}}}
	s := compare.Scenario{Name: "veth", Run: func(ctx context.Context, o compare.Options, r *compare.Report) error {
		v.Options = o
		return v.run(ctx, r)
	}}
	r := benchtest.Measure(t, s, compare.Options{Program: os.Args[0], Lab: os.Args[0], Quick: true, Trials: 1})
	for _, name := range []string{"sluice", "xdp_redirect", vethLossless} {
		highest(t, r, name, of(metricMRR, length))
	}
	wantNone(t, r, vethLossless, of(metricLost, length), anyDisturbed)
	if len(r.Absent) != 1 || !strings.Contains(r.Absent["limited, frames above 64 B"], "no others") ||
		len(r.Values("limited", of(metricMRR, 60))) != 1 || len(r.Values("limited", of(metricMRR, length))) != 0 {
		t.Errorf("absent: %v; %+v", r.Absent, r.Results)
	}
}

// someTurn returns a turn without measurements, for given figures.
func someTurn(round int, r *compare.Report) *turn {
	r.Absent = map[string]string{}
	return &turn{veth: &veth{}, report: r, forwarder: bed.NewProgram("some", "", nil), length: 60, round: round}
}

// TestGeneratorIsNotMeasured: if the generator was the bottleneck, MRR and NDR are marked as
// bounds, and have no ratio.
func TestGeneratorIsNotMeasured(t *testing.T) {
	for _, c := range []struct {
		what               string
		offered            float64
		ndrBound           bool
		mrr, ndr, hasRatio bool
	}{
		{"plenty was offered", 200, false, false, false, true},
		{"hardly more was offered than came through", 109, false, true, false, false},
		{"nothing failed that was offered", 200, true, false, true, false},
	} {
		r := &compare.Report{}
		turn := someTurn(0, r)
		o := bed.Overloaded{Rate: 100, Offered: c.offered, Seconds: 1}
		turn.addOverload(&o, o.GeneratorBound())
		turn.addSearched(&o, &compare.Searched{Goals: []compare.Found{{Rate: 90, Bound: c.ndrBound}, {Rate: 95}}})
		mrr, ndr := benchtest.TrialsOf(t, r, "some", of(metricMRR, 60))[0],
			benchtest.TrialsOf(t, r, "some", of(metricNDR, 60))[0]
		if mrr.Bound != c.mrr || ndr.Bound != c.ndr || (len(r.Values("some", of(metricNDRMRR, 60))) > 0) != c.hasRatio {
			t.Errorf("%s: %+v", c.what, r.Trials)
		}
		if noted := len(r.Notes) > 0; noted != (c.mrr || c.ndr) {
			t.Errorf("%s: notes %q", c.what, r.Notes)
		}
	}
}

// TestVethSizes are chosen with FCS, and appear in the command that repeats the measurement.
func TestVethSizes(t *testing.T) {
	r := &compare.Report{Scenario: "veth", Absent: map[string]string{}, Settings: compare.Settings{Sizes: []int{64,
		1280}}}
	v := &veth{Options: compare.Options{Sizes: r.Settings.Sizes}}
	v.setDefaults(r)
	if !slices.Equal(v.lengths, []int{60, 1276}) || !strings.Contains(r.Command(), "veth --sizes 64,1280 ") {
		t.Errorf("%v, %s", v.lengths, r.Command())
	}
}

// TestSearchRangeIsTheGenerators: the range ends at what the generator can offer.
func TestSearchRangeIsTheGenerators(t *testing.T) {
	v := &veth{Options: compare.Options{Duration: time.Second}}
	if p := v.search(&bed.Overloaded{Rate: 100, Offered: 700}); p.Max != 700 || p.Min != 1 {
		t.Errorf("%+v", p)
	}
}

// TestBetween has looks with known figures.
func TestBetween(t *testing.T) {
	start := time.Now()
	from := bed.Look{
		At: start, Frames: bed.Tally{Received: 100, Sent: 1000}, Generator: bed.Thread{Ran: 5, Waited: 5},
		Forwarder: map[string]bed.Thread{"1": {Ran: 900, Waited: 50}, "2": {Ran: 10, Waited: 1, Program: 7, Kernel: 3}},
	}
	threads := map[string]bed.Thread{"1": {Ran: 910, Waited: 80}, "2": {Ran: 100, Waited: 4, Program: 10, Kernel: 90},
		"3": {Ran: 20, Waited: 7}}
	for _, c := range []struct {
		what            string
		elapsed         time.Duration
		generator       bed.Thread
		forwarder       map[string]bed.Thread
		want            float64
		program, kernel time.Duration
	}{
		{"2 forwards, and waited 3", 100, bed.Thread{Ran: 100, Waited: 6}, threads, 0.03, 3, 87},
		{"the generator waited 10", 100, bed.Thread{Ran: 95, Waited: 15}, threads, 0.1, 3, 87},
		{"2 ran for 90 and waits ever since", 1000, bed.Thread{Ran: 995, Waited: 6}, threads, 0.91, 3, 87},
		{"of the forwarder nothing is known", 100, bed.Thread{Ran: 100, Waited: 6}, nil, 0.01, 0, 0},
	} {
		to := bed.Look{At: start.Add(c.elapsed), Frames: bed.Tally{Received: 300, Sent: 2000}, Generator: c.generator,
			Forwarder: c.forwarder}
		got, s := bed.Between(from, to), c.elapsed.Seconds()
		if !benchtest.Near(got.Disturbed, c.want) || !benchtest.Near(got.Rate*s, 200) ||
			!benchtest.Near(got.Offered*s, 1000) || got.Seconds != s ||
			got.Program != c.program || got.Kernel != c.kernel {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

// TestTurnsDoNotDisturb: the time that threads sharing a CPU by design wait for each other is not a
// disturbance.
func TestTurnsDoNotDisturb(t *testing.T) {
	const here, there = "CPU 0", "CPU 1"
	start := time.Now()
	for _, c := range []struct {
		what      string
		threads   []bed.Thread // of the forwarder
		generator bed.Thread
		want      float64
	}{
		{"one thread", []bed.Thread{{Ran: 97, Waited: 3, CPU: here}}, bed.Thread{Ran: 99, Waited: 1, CPU: there}, 0.03},
		{"the transmitter waits for the worker, which sleeps meanwhile; others ran for 1",
			[]bed.Thread{{Ran: 40, Waited: 60, CPU: here}, {Ran: 59, CPU: here}}, bed.Thread{Ran: 100, CPU: there},
			0.01},
		{"both wait for others", []bed.Thread{{Ran: 40, Waited: 60, CPU: here}, {Ran: 55, Waited: 2, CPU: here}},
			bed.Thread{Ran: 100, CPU: there}, 0.05},
	} {
		from, to := bed.Look{At: start}, bed.Look{At: start.Add(100), Generator: c.generator,
			Forwarder: map[string]bed.Thread{}}
		for i, thread := range c.threads {
			to.Forwarder[strconv.Itoa(i)] = thread
		}
		if got := bed.Between(from, to).Disturbed; !benchtest.Near(got, c.want) {
			t.Errorf("%s: disturbed for %v, want %v", c.what, got, c.want)
		}
	}
}

// TestFallbackIsTold has a switch report ports served by their sockets.
func TestFallbackIsTold(t *testing.T) {
	r := bed.NewTransmitterSluice(bed.VethTransmitter, "", bed.TransmitterConfig)
	r.Watch("port open")
	if said := r.Fallback(); said != "" {
		t.Error(said)
	}
	r.Watch("WARN port switched to its socket port=s1")
	if said := r.Fallback(); !strings.Contains(said, "port=s1") || r.Fallback() != "" {
		t.Error(said)
	}
}

func TestTransmitterConfig(t *testing.T) {
	site := bed.Site{Devices: []string{"s0", "s1"}, CPU: 1, OtherCPU: 0}
	c, err := config.Parse("test", []byte(bed.TransmitterConfig(site)))
	if err != nil {
		t.Fatal(err)
	}
	if c.Transmitter.CPU != site.CPU || !c.SharesCPU(c.Workers) || c.Ports[1].TX != config.TXTransmitter {
		t.Errorf("%+v", c.Transmitter)
	}
}

func TestWireConfig(t *testing.T) {
	site := bed.Site{Devices: []string{"s0", "s1"}, CPU: 1, MTU: 1500}
	c, err := config.Parse("test", []byte(bed.WireConfig(site)))
	if err != nil {
		t.Fatal(err)
	}
	site.MTU = 9000
	for _, text := range []string{bed.WireConfig(site), bed.LosslessWireConfig(10e9)(site)} {
		if jumbo, err := config.Parse("test", []byte(text)); err != nil || jumbo.Ports[1].MTU != 9000 ||
			jumbo.Memory.BufferSize != 4096 || c.Memory.BufferSize != 2048 {
			t.Errorf("%+v, %v", jumbo, err)
		}
	}
	if len(c.Workers) != 1 || c.Workers[0] != 1 || c.Ports[0].Peer != 1 || c.Ports[1].Peer != 0 ||
		c.Ports[1].Device != "s1" {
		t.Errorf("%+v", c)
	}
}
