package veth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/bench/testkit/benchtest"
)

// highest returns the highest value of a metric and checks that there is a value for each trial.
func highest(t *testing.T, r *compare.Report, name, metric string) float64 {
	t.Helper()
	values := r.Values(name, metric)
	if len(values) != r.Settings.Trials {
		t.Fatalf("%s, %s: %d values", name, metric, len(values))
	}
	return compare.Summarise(values).Max
}

// Limits of the share of time for which other processes may have the CPU in a trial that counts.
const (
	littleDisturbed = compare.Disturbed
	// A quick trial takes 0.5 s, or 1 s if no thread gets a CPU in time; a pause at 100 Mbit/s
	// lasts a third of a second. So no thread is without a CPU for longer than it can pause its
	// peers.
	someDisturbed = 0.2
	anyDisturbed  = 1 // for what must hold in any trial
)

// undisturbed returns a metric's values of trials that other processes disturbed for at most the
// given share of the time.
func undisturbed(t *testing.T, r *compare.Report, name, metric string, most float64) (values []float64) {
	t.Helper()
	highest(t, r, name, metric)
	for _, trial := range benchtest.TrialsOf(t, r, name, metric) {
		if share := trial.Detail["disturbed"]; share > most {
			t.Logf("%s, %s, round %d: %g counts for nothing, for others had the CPU for %.0f %% of the time", name,
				metric, trial.Round+1, trial.Value, 100*share)
		} else {
			values = append(values, trial.Value)
		}
	}
	return values
}

// wantNone checks that a metric is 0, except in trials disturbed for more than the given share of
// the time.
func wantNone(t *testing.T, r *compare.Report, name, metric string, most float64) {
	t.Helper()
	for _, v := range undisturbed(t, r, name, metric, most) {
		if v != 0 {
			t.Errorf("%s, %s: %g", name, metric, v)
		}
	}
}

// wantSome checks that a metric is not 0, except in disturbed trials.
func wantSome(t *testing.T, r *compare.Report, name, metric string) {
	t.Helper()
	for _, v := range undisturbed(t, r, name, metric, littleDisturbed) {
		if v == 0 {
			t.Errorf("%s, %s: none", name, metric)
		}
	}
}

// present returns the peers that are not absent.
func present(r *compare.Report, peers ...string) []string {
	return slices.DeleteFunc(peers, r.IsAbsent)
}

func TestScenarioVeth(t *testing.T) {
	r := benchtest.QuickOnDevices(t, Veth)
	pairs := func(name string) (n int) {
		pairs, _ := r.Pairs(compare.Ratio{Metric: of(metricMRR, 60), Subject: "sluice", Peer: name})
		for _, pair := range pairs {
			n += min(1, int(pair[1]))
		}
		return n
	}
	peers := present(r, "testpmd", bed.OpenVSwitchDPDKName, bed.OpenVSwitchAFXDPName, "xdp_redirect", "linux_bridge",
		"baseline",
		bed.VethTransmitter)
	for _, name := range append(peers, "sluice") {
		if highest(t, r, name, of(metricMRR, 60)) <= 0 {
			t.Errorf("%s forwarded nothing", name)
		}
		if lost := highest(t, r, name, of(metricLost, 60)); lost < 0 || lost >= 1 {
			t.Errorf("%s lost %g under overload", name, lost)
		}
		if ndr, pdr := highest(t, r, name, of(metricNDR, 60)), highest(t, r, name, of(metricPDR, 60)); ndr < 0 ||
			pdr < ndr {
			t.Errorf("%s: NDR %g, PDR %g", name, ndr, pdr)
		}
		if _, ok := r.Ratios["vs_"+name+"_MRR_64B"]; ok != (name != "sluice" && pairs(name) > 0) {
			t.Errorf("%s: %v", name, r.Ratios)
		}
		highest(t, r, name, of(compare.MetricDiscarded, 60))
	}
	for _, trial := range r.Trials {
		if strings.Contains(trial.Metric, "latency") && (trial.Detail["sent"] == 0 || trial.Detail["put off ns"] != 0) {
			t.Errorf("a schedule that was put off hides latency: %+v", trial)
		}
	}
	for _, what := range []string{"sluice was started as: ", "forwarding:\n    "} {
		if !slices.ContainsFunc(r.Notes, func(note string) bool { return strings.Contains(note, what) }) {
			t.Errorf("%q is not in the notes", what)
		}
	}
	if highest(t, r, "sluice_lossless", of(metricMRR, 60)) <= 0 {
		t.Error("nothing came through the lossless one")
	}
}

func TestScenarioIncast(t *testing.T) { withBothEngines(t, Incast, checkIncast) }

func checkIncast(t *testing.T, r *compare.Report) {
	t.Helper()
	lossy := append(present(r, "linux_bridge", "testpmd"), "sluice, no PFC")
	for _, n := range []int{2, 8} {
		wantNone(t, r, "sluice", with(incastLost, n), someDisturbed)
		wantSome(t, r, "sluice", with(incastPaused, n))
		for _, name := range append(lossy, "sluice") {
			wantNone(t, r, name, with(incastDisorder, n), anyDisturbed)
			highest(t, r, name, with(compare.MetricDiscarded, n))
		}
	}
	for _, name := range lossy {
		// two senders may not fill every buffer this soon
		quiet := undisturbed(t, r, name, with(incastLost, 8), littleDisturbed)
		if len(quiet) > 0 && highest(t, r, name, with(incastLost, 8)) == 0 {
			t.Errorf("%s lost nothing", name)
		}
	}
	if len(r.Tables) != 1 || len(r.Tables[0].Rows) != 2*(1+len(lossy)) {
		t.Errorf("%+v", r.Tables)
	}
}

func TestScenarioHOL(t *testing.T) { withBothEngines(t, HOL, checkHOL) }

func checkHOL(t *testing.T, r *compare.Report) {
	t.Helper()
	for _, k := range holKinds {
		if k.flow == "off" {
			wantSome(t, r, k.name, holLost)
		} else {
			wantNone(t, r, k.name, holLost, someDisturbed)
		}
		most := littleDisturbed
		if k.victim == bed.LosslessPriority {
			most = someDisturbed // it is lossless, too
		}
		wantNone(t, r, k.name, holLostToo, most)
		highest(t, r, k.name, compare.MetricDiscarded)
	}
	if len(r.Tables) != 1 || len(r.Tables[0].Rows) != len(holKinds) {
		t.Errorf("%+v", r.Tables)
	}
}

func TestScenarioSoak(t *testing.T) { withBothEngines(t, Soak, checkSoak) }

func checkSoak(t *testing.T, r *compare.Report) {
	t.Helper()
	for _, metric := range []string{soakLost, soakDisorder, soakDrops, soakFlapsCount, soakReloads} {
		sum := 0.0
		for _, part := range benchtest.TrialsOf(t, r, "sluice", metric) {
			sum += part.Value
		}
		if all := r.Values("sluice", inAll(metric)); len(all) != 1 || all[0] != sum {
			t.Errorf("%s: %g, in all %g", metric, sum, all)
		}
		if happens := metric == soakFlapsCount || metric == soakReloads; happens != (sum > 0) {
			t.Errorf("%s: %g", metric, sum)
		}
	}
	if highest(t, r, "sluice", soakPFC) == 0 {
		t.Error("no PFC")
	}
	if open := compare.Summarise(r.Values("sluice", soakOpen)); open.Max-open.Min > 2 {
		t.Errorf("%g to %g descriptors", open.Min, open.Max)
	}
	if grown := r.Values("sluice", soakMemory+soakGrown); len(grown) != 1 || grown[0] > soakGrowth {
		t.Errorf("memory has grown: %g", grown)
	}
	benchtest.WantRatios(t, r, "vs_limit_growth_of_memory_besides_the_buffers", "vs_limit_growth_of_open_descriptors")
}

// withBothEngines runs a scenario with sockets and with a transmitter.
func withBothEngines(t *testing.T, s compare.Scenario, check func(t *testing.T, r *compare.Report)) {
	t.Helper()
	for name, transmitter := range map[string]bool{"sockets": false, "transmitter": true} {
		t.Run(name, func(t *testing.T) {
			benchtest.NeedRoot(t)
			r := benchtest.Measure(t, s, compare.Options{Program: os.Args[0], Quick: true, Transmitter: transmitter})
			if slices.ContainsFunc(r.Notes, func(note string) bool { return strings.Contains(note, bed.FellBack) }) {
				t.Errorf("%q", r.Notes)
			}
			check(t, r)
		})
	}
}

// TestCancelled cancels scenarios: the trials so far are kept, and nothing is left behind.
func TestCancelled(t *testing.T) {
	benchtest.NeedRoot(t)
	for _, s := range []compare.Scenario{Veth, Incast, HOL, Soak} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for len(namespaces(t)) == 0 && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Second) // in the middle of the scenario
			cancel()
		}()
		r, err := compare.Run(ctx, s, compare.Options{Program: os.Args[0], Lab: os.Args[0], Quick: true, Trials: 1000,
			Progress: t.Logf})
		if !errors.Is(err, context.Canceled) || !r.Partial {
			t.Errorf("%s: %v, partial: %t", s.Name, err, r.Partial)
		}
		cancel()
		if left := namespaces(t); len(left) > 0 {
			t.Errorf("%s: left %v", s.Name, left)
		}
	}
}

// namespaces returns the network namespaces that this process has created and not removed.
func namespaces(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/run/netns/sluice-*-%d-*", os.Getpid()))
	if err != nil {
		t.Error(err)
	}
	return names
}
