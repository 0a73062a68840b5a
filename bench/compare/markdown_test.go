package compare

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"
)

// TestMarkdown compares a report with a reviewed one.
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
		"subject, rate 64 B       2      1      3  50.0 %!       Mpps",
		"peer, time               2      2      2    0.0 %         µs",
		"vs_peer_64B", "× as good", "A table", "Nothing is shown but this:\n\n    a: b\n    c: [d]\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 33: "33", 0.00123: "0.0012", 1.0284: "1.028", 59.34: "59.34", 592.66: "592.7", 1234567.8: "1234568",
		-2.5: "-2.500",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, not %s", v, got, want)
		}
	}
}

// TestSave writes a report with two plots, one of them without points: all other files exist.
func TestSave(t *testing.T) {
	r := someReport(t)
	r.Plot(Plot{Name: "log", LogX: true, LogY: true, X: "x", Y: "y",
		Series: []Series{{"a", [][2]float64{{1, 5}, {100, 4e6}, {0, 1}}}, {"b", nil}}})
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
	if err := r.Save(directory); err == nil || !strings.Contains(err.Error(), "draw plot empty: it has no points") {
		t.Errorf("%v", err)
	}
	if err := r.Save(filepath.Join(directory, "missing")); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("%v", err)
	}
}

// TestThin draws a line of 1000 points with few of them, from its first to its last.
func TestThin(t *testing.T) {
	var line plotter.XYs
	for i := range 1000 {
		line = append(line, plotter.XY{X: float64(i), Y: 7})
	}
	if kept := thin(line, 1000, 0); len(kept) != 51 || kept[0] != line[0] || kept[50] != line[999] {
		t.Errorf("%d points: %v", len(kept), kept)
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
