package memory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/bench/testkit/benchtest"
)

// BenchmarkPipeline is the whole lossless path: receive, parse, learn, look up, charge, queue,
// schedule, send, complete, with ETS, learning bridge, dynamic limits, pools, PFC and watchdog
// enabled, on one core. One operation is one iteration of the worker; the result is ns/frame. 10GbE
// at line rate leaves 67.2 ns for a frame of 64 bytes, or 33.6 ns with both directions.
func BenchmarkPipeline(b *testing.B) {
	for _, l := range pipelineLoads {
		b.Run(strings.ReplaceAll(l.name, " ", ""), func(b *testing.B) {
			x, memory, err := l.start()
			if err != nil {
				b.Fatal(err)
			}
			defer memory.Close()
			for range busyWarmUp {
				x.step()
			}
			before := x.count().sent
			for b.Loop() {
				x.step()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(x.count().sent-before), "ns/frame")
		})
	}
}

func TestScenarioPipeline(t *testing.T) {
	r := benchtest.Quick(t, Pipeline)
	for _, l := range pipelineLoads {
		for _, trial := range benchtest.TrialsOf(t, r, pipelineSluice, l.metric()) {
			d := trial.Detail
			if d["frames"] < 1000 || d["dropped"] != 0 || d["flooded"] != 0 || d["allocations"]/d["frames"] > 0.001 {
				t.Errorf("%s: %v", l.metric(), d)
			}
			if queued := int(d["queued"]); queued < l.queued || queued > l.queued+128 {
				t.Errorf("%s: %d frames wait at the end, want %d", l.metric(), queued, l.queued)
			}
		}
	}
	benchtest.WantRatios(t, r, "vs_limit_33.6ns", "vs_limit_67.2ns", "vs_limit_33.6ns_stations",
		"vs_limit_33.6ns_queued", "vs_limit_67.2ns_queued")
	if len(r.Plots) != 1 {
		t.Errorf("%d plots", len(r.Plots))
	}
	benchtest.SkipWithout(t, r, "testpmd")
	if !strings.HasPrefix(r.Machine.Versions["testpmd"], "DPDK ") {
		t.Errorf("versions %v", r.Machine.Versions)
	}
	benchtest.WantRatios(t, r, "vs_testpmd_io", "vs_testpmd_macswap")
}

// TestPeersThatCannotStart: such peers are reported as missing, with their output, and everything
// else is measured.
func TestPeersThatCannotStart(t *testing.T) {
	directory := t.TempDir()
	for _, program := range []string{bed.TestpmdProgram, bed.DPDKTestProgram} {
		if err := os.WriteFile(filepath.Join(directory, program), []byte("#!/bin/sh\necho no memory for me\nexit 1\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", directory)
	for _, c := range []struct {
		compare.Scenario
		peers []string
	}{{Pipeline, []string{"testpmd_io", "testpmd_macswap"}}, {Ring, []string{"rte_ring"}}} {
		r := benchtest.Quick(t, c.Scenario)
		for _, peer := range c.peers {
			if why := r.Absent[peer]; !strings.Contains(why, "no memory for me") {
				t.Errorf("%s, %s: %q", c.Name, peer, why)
			}
		}
		if len(r.Values("sluice", r.Results[0].Metric)) == 0 {
			t.Errorf("%s: nothing was measured", c.Name)
		}
	}
}
