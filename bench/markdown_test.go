package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMarkdown compares a report to one that was read and found good.
func TestMarkdown(t *testing.T) {
	want, err := os.ReadFile("testdata/report.md")
	if err != nil {
		t.Fatal(err)
	}
	if got := someReport(t).Markdown(); !bytes.Equal(got, want) {
		t.Errorf("testdata/report.md is not what is written now:\n%s", got)
	}
	partial := Report{Scenario: "some", Partial: true}
	if got := string(partial.Markdown()); !strings.Contains(got, "**Partial: ") || strings.Contains(got, "|") {
		t.Errorf("a report without trials:\n%s", got)
	}
}

func TestText(t *testing.T) {
	r := someReport(t)
	r.Partial = true
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"some on some CPU, 2 cores, Linux 6.1", "partial: ", "absent: nobody: it is not installed",
		"subject, rate 64 B       2      1      3  50.0 %!       Mpps", "peer, time       2      2      2    0.0 %         µs",
		"vs_peer_64B", "× as good", "A table", "Nothing is shown but this.",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 33: "33", 0.00123: "0.0012", 1.0284: "1.028", 59.34: "59.34", 592.66: "592.7", 1234567.8: "1234568", -2.5: "-2.500",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, not %s", v, got, want)
		}
	}
}

// TestSave writes a report with two plots, one of which has nothing to show: all else is there.
func TestSave(t *testing.T) {
	r := someReport(t)
	r.Plot(Plot{Name: "log", LogX: true, LogY: true, X: "x", Y: "y", Series: []Series{{"a", [][2]float64{{1, 5}, {100, 4e6}, {0, 1}}}, {"b", nil}}})
	r.Plot(Plot{Name: "flat", Series: []Series{{"a", [][2]float64{{0, 0}}}}})
	directory := t.TempDir()
	if err := r.Save(directory); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"some.json", "some.md", "some-rates.svg", "some-log.svg", "some-flat.svg"} {
		content, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil || len(content) == 0 {
			t.Errorf("%s has %d bytes: %v", name, len(content), err)
		}
		if strings.HasSuffix(name, ".svg") {
			wellFormed(t, name, content)
		}
	}
	r.Plot(Plot{Name: "empty", LogY: true, Series: []Series{{"a", [][2]float64{{1, 0}}}}})
	if err := r.Save(directory); err == nil || !strings.Contains(err.Error(), "plot empty has no points") {
		t.Errorf("%v", err)
	}
	if err := r.Save(filepath.Join(directory, "missing")); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("%v", err)
	}
}

func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// TestLatency knows all of its times: 1 to 100,000 ns, each once.
func TestLatency(t *testing.T) {
	all, half := NewLatency(), NewLatency()
	for ns := int64(1); ns <= 100_000; ns++ {
		[]*Latency{all, half}[ns%2].Record(ns, 1)
	}
	all.Merge(half)
	r := &Report{}
	r.AddLatency("some", "latency", 3, all, map[string]float64{"offered": 5})
	want := map[string]float64{"p50": 50_000, "p90": 90_000, "p99": 99_000, "p99.9": 99_900, "p99.99": 99_990, "max": 100_000}
	for _, trial := range r.Trials {
		name, rest, _ := strings.Cut(trial.Metric, " ")
		if math.Abs(trial.Value/want[name]-1) > 0.001 || rest != "latency" || trial.Unit != "ns" || trial.Round != 3 ||
			trial.Detail["count"] != 100_000 || trial.Detail["offered"] != 5 {
			t.Errorf("%+v, not %v", trial, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
	points := all.Points()
	if last := points[len(points)-1]; len(points) != 5*8+1 || math.Abs(last[0]-1e5) > 1 || math.Abs(last[1]/1e5-1) > 0.001 {
		t.Errorf("%v", points)
	}
}

// TestLatencyOfFew reports no quantile beyond which nothing was seen, and keeps times that are out of range.
func TestLatencyOfFew(t *testing.T) {
	l, r := NewLatency(), &Report{}
	r.AddLatency("some", "latency", 0, l, nil)
	if len(r.Trials) != 0 || len(l.Points()) != 0 {
		t.Errorf("of nothing: %+v %v", r.Trials, l.Points())
	}
	l.Record(-5, 9)
	l.Record(math.MaxInt64, 1)
	r.AddLatency("some", "latency", 0, l, nil)
	if len(r.Trials) != 3 || r.Trials[1].Metric != "p90 latency" || r.Trials[2].Metric != "max latency" || r.Trials[0].Value != 0 ||
		math.Abs(r.Trials[2].Value/longest-1) > 0.001 {
		t.Errorf("%+v", r.Trials)
	}
}
