package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// highest returns the highest value of a metric; that there are values is checked.
func highest(t *testing.T, r *Report, name, metric string) float64 {
	t.Helper()
	values := r.Values(name, metric)
	if len(values) != r.Settings.Trials {
		t.Fatalf("%s, %s: %d values", name, metric, len(values))
	}
	return Summarise(values).Max
}

func TestScenarioVeth(t *testing.T) {
	r := quickOnDevices(t, vethScenario)
	names := []string{"sluice", "linux_bridge", "baseline"}
	if r.Absent["testpmd"] == "" {
		names = append(names, "testpmd")
	}
	for _, name := range names {
		for _, metric := range []string{metricMRR, metricLost} {
			if highest(t, r, name, of(metric, 60)) <= 0 {
				t.Errorf("%s: no %s", name, metric)
			}
		}
		if ndr, pdr := highest(t, r, name, of(metricNDR, 60)), highest(t, r, name, of(metricPDR, 60)); ndr < 0 || pdr < ndr {
			t.Errorf("%s: NDR %g, PDR %g", name, ndr, pdr)
		}
		if _, ok := r.Ratios["vs_"+name+"_MRR_64B"]; ok != (name != "sluice") {
			t.Errorf("%s: %v", name, r.Ratios)
		}
	}
	if highest(t, r, "sluice_lossless", of(metricMRR, 60)) <= 0 {
		t.Error("nothing came through the lossless one")
	}
}

func TestScenarioIncast(t *testing.T) {
	r := quickOnDevices(t, incastScenario)
	lossy := []string{"sluice, no PFC", "linux_bridge"}
	if r.Absent["testpmd"] == "" {
		lossy = append(lossy, "testpmd")
	}
	lost := map[string]float64{}
	paused := 0.0
	for _, n := range []int{2, 8} {
		if lost := highest(t, r, "sluice", with(incastLost, n)); lost != 0 {
			t.Errorf("%d senders: sluice lost %g lossless frames", n, lost)
		}
		paused += highest(t, r, "sluice", with(incastPaused, n))
		for _, name := range lossy {
			lost[name] += highest(t, r, name, with(incastLost, n))
		}
		for _, name := range append(lossy, "sluice") {
			if disordered := highest(t, r, name, with(incastDisorder, n)); disordered != 0 {
				t.Errorf("%d senders: %s has %g frames out of order", n, name, disordered)
			}
		}
	}
	for _, name := range lossy {
		if lost[name] == 0 {
			t.Errorf("%s lost nothing", name)
		}
	}
	if paused == 0 || len(r.Tables) != 1 || len(r.Tables[0].Rows) != 2*(1+len(lossy)) {
		t.Errorf("senders were paused for %g of the time; %+v", paused, r.Tables)
	}
}

func TestScenarioHOL(t *testing.T) {
	r := quickOnDevices(t, holScenario)
	for _, k := range holKinds {
		lost := highest(t, r, k.name, holLost)
		if flow := k.flow != "off"; flow != (lost == 0) {
			t.Errorf("%s: lost %g", k.name, lost)
		}
	}
	if len(r.Tables) != 1 || len(r.Tables[0].Rows) != len(holKinds) {
		t.Errorf("%+v", r.Tables)
	}
}

func TestScenarioSoak(t *testing.T) {
	r := quickOnDevices(t, soakScenario)
	for _, metric := range []string{soakLost, soakDisorder, soakDrops} {
		if n := highest(t, r, "sluice", metric); n != 0 {
			t.Errorf("%s: %g", metric, n)
		}
	}
	if highest(t, r, "sluice", soakFlapsCount) == 0 || highest(t, r, "sluice", soakPFC) == 0 {
		t.Error("no flaps, or no PFC")
	}
	if open := Summarise(r.Values("sluice", soakOpen)); open.Max-open.Min > 2 {
		t.Errorf("%g to %g descriptors", open.Min, open.Max)
	}
}

// TestCancelled ends scenarios in the middle: what was measured is kept, and nothing is left behind.
func TestCancelled(t *testing.T) {
	needRoot(t)
	for _, s := range []Scenario{vethScenario, incastScenario, holScenario, soakScenario} {
		ctx, cancel := context.WithCancel(t.Context())
		begun := false
		time.AfterFunc(1500*time.Millisecond, func() {
			begun = len(namespaces(t)) > 0
			cancel()
		})
		r, err := Run(ctx, s, Options{Program: os.Args[0], Quick: true, Trials: 1000, Progress: t.Logf})
		if !errors.Is(err, context.Canceled) || !r.Partial || !begun {
			t.Errorf("%s: %v, partial: %t, had begun: %t", s.Name, err, r.Partial, begun)
		}
		if left := namespaces(t); len(left) > 0 {
			t.Errorf("%s: left %v", s.Name, left)
		}
	}
}

// namespaces returns the network namespaces that this process has made and not removed.
func namespaces(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/run/netns/sluice-*-%d-*", os.Getpid()))
	if err != nil {
		t.Error(err)
	}
	return names
}
