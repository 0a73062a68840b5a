package lossless

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"sluice/bench/compare/figure"
)

const published = "../../../../docs/figures"

// TestFiguresAreThoseOfTheDocumentation draws all figures again and compares them byte by byte with
// docs/figures.
func TestFiguresAreThoseOfTheDocumentation(t *testing.T) {
	directory := t.TempDir()
	if err := Draw(directory, 1, func(string) {}); err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		fresh, err := os.ReadFile(filepath.Join(directory, f.name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		old, err := os.ReadFile(filepath.Join(published, f.name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fresh, old) {
			t.Errorf("%s.svg is not what the program draws: look at the difference, then run `sluice-lab figures`",
				f.name)
		}
		wellFormed(t, f.name, fresh)
	}
}

// wellFormed parses an SVG and checks that both axes have labels.
func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	words := 0
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s.svg: %v", name, err)
		}
		if s, ok := token.(xml.StartElement); ok && s.Name.Local == "text" {
			words++
		}
	}
	if words < 10 {
		t.Errorf("%s.svg has %d texts: axes, ticks and legend are more", name, words)
	}
}

// TestNoFigureIsForgotten checks that the program draws every published figure and that the
// document explains every drawn one.
func TestNoFigureIsForgotten(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/lossless.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range figures {
		known[f.name] = true
		if !strings.Contains(string(text), "figures/"+f.name+".svg") {
			t.Errorf("docs/lossless.md does not show figures/%s.svg", f.name)
		}
	}
	files, err := os.ReadDir(published)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(file.Name(), filepath.Ext(file.Name())); !known[name] {
			t.Errorf("docs/figures/%s is drawn by nobody", file.Name())
		}
	}
}

// TestUnwritable expects an error with the name of the file.
func TestUnwritable(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	p := figure.NewPanel("title", "x", "y")
	p.X.Max, p.Y.Max = 1, 1
	err := save(figure.Figure{Width: 100, Height: 100, Panels: [][]*plot.Plot{{p}}}, filepath.Join(missing, "x"))
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("saved into a directory that does not exist: %v", err)
	}
}
