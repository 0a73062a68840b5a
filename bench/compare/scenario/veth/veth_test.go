package veth

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/bench/testkit/benchtest"
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
