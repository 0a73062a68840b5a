package lossless

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sluice/bench/compare/figure"
	"sluice/bench/sim"
	"sluice/cells/headroom"
)

// least is the ratio at which the axis begins; lower ratios are drawn there.
const least = 0.05

// headroomUse draws the headroom that each method gives many random links, as a ratio to what the
// worst sender can use on that link. Each method has a row; within it, longer cables are higher.
func headroomUse(seed uint64) (figure.Figure, error) {
	const links = 200
	samples, err := sim.HeadroomUse(seed, links)
	if err != nil {
		return figure.Figure{}, err
	}
	methods := methodsOf(samples)
	p := figure.NewPanel(fmt.Sprintf("Headroom by method, on %d random links of 10 Gbit/s", links),
		"headroom computed / headroom that the worst sender uses", "")
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = math.Log10(least), math.Log10(4), 0, float64(len(methods))
	figure.LogTicks(&p.X, map[float64]string{least: "0.05", 0.1: "0.1", 0.2: "0.2", 0.5: "0.5", 1: "1", 2: "2", 4: "4"})
	var rows plot.ConstantTicks
	var fine, coarse plotter.XYs
	for i, m := range methods {
		row := float64(len(methods) - 1 - i)
		f, c, short := methodRow(m, samples, row)
		fine, coarse = append(fine, f...), append(coarse, c...)
		rows = append(rows, plot.Tick{Value: row + 0.5, Label: fmt.Sprintf("%s\nshort on %d", m, short)})
	}
	p.Y.Tick.Marker = rows
	if err := figure.Mark(p, plotter.XY{}, plotter.XY{Y: p.Y.Max}); err != nil {
		return figure.Figure{}, err
	}
	dots := figure.Look{Color: figure.Blue, Shape: draw.CircleGlyph{}, Bare: true}
	if err := figure.Add(p, "cells of 256 bytes and less", dots, fine); err != nil {
		return figure.Figure{}, err
	}
	crosses := figure.Look{Color: figure.Vermillion, Shape: draw.CrossGlyph{}, Bare: true}
	if err := figure.Add(p, "larger cells", crosses, coarse); err != nil {
		return figure.Figure{}, err
	}
	if err := figure.Note(p, plotter.XY{Y: 0.08}, -1, figure.Grey, "too small: frames are lost"); err != nil {
		return figure.Figure{}, err
	}
	if err := figure.Note(p, plotter.XY{Y: 0.08}, 1, figure.Grey, "more than needed"); err != nil {
		return figure.Figure{}, err
	}
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.YOffs = true, true, 6, -8
	return figure.Figure{Width: 17 * vg.Centimeter, Height: 17 * vg.Centimeter, Panels: [][]*plot.Plot{{p}}}, nil
}

// methodsOf returns the methods in the order in which they first appear.
func methodsOf(samples []sim.HeadroomSample) (methods []headroom.Method) {
	seen := map[headroom.Method]bool{}
	for _, s := range samples {
		if !seen[s.Method] {
			seen[s.Method] = true
			methods = append(methods, s.Method)
		}
	}
	return methods
}

// methodRow returns a method's points, separated into links with small cells and others, and the
// number of ratios below 1.
func methodRow(m headroom.Method, samples []sim.HeadroomSample, row float64) (fine, coarse plotter.XYs, short int) {
	for _, s := range samples {
		if s.Method != m {
			continue
		}
		const decades = 5 // from 1 m to 100 km
		height := math.Log10(max(s.Link.Metres, 1)) / decades
		at := plotter.XY{X: math.Log10(max(s.Ratio(), least)), Y: row + 0.15 + 0.7*height}
		if s.Ratio() < 1 {
			short++
		}
		if s.Link.Cell <= 256 {
			fine = append(fine, at)
		} else {
			coarse = append(coarse, at)
		}
	}
	return fine, coarse, short
}
