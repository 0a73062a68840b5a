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
)

// lostPause draws the cost of losing one PFC frame, by the quanta that XOFF asks for: lost frames
// for an XOFF, time for an XON.
func lostPause(seed uint64) (figure.Figure, error) {
	frames := figure.NewPanel("Cost of one lost PFC frame, by the pause time of XOFF", "",
		"XOFF lost: frames lost")
	frames.Y.Min, frames.Y.Max = 0, 5
	figure.LogTicks(&frames.Y, map[float64]string{
		1: "none", 10: "10", 100: "100", 1e3: "1,000", 1e4: "10,000", 1e5: "100,000",
	})
	idle := figure.NewPanel("", "quanta, and how long they pause at 10 Gbit/s", "XON lost: sender idle (µs)")
	idle.Y.Min, idle.Y.Max = 0, 4
	figure.LogTicks(&idle.Y, map[float64]string{1: "1", 10: "10", 100: "100", 1e3: "1,000", 1e4: "10,000"})

	var lost, waits, pauses plotter.XYs
	times := map[float64]string{}
	for quanta := 64; quanta <= 1<<16; quanta *= 2 {
		asked := uint16(min(quanta, math.MaxUint16))
		x := math.Log10(float64(asked))
		for i := range uint64(6) {
			c, err := sim.HealingCost(seed+i, asked)
			if err != nil {
				return figure.Figure{}, err
			}
			if i == 0 {
				lost = append(lost, plotter.XY{X: x, Y: math.Log10(float64(max(c.Dropped, 1)))})
				pauses = append(pauses, plotter.XY{X: x, Y: math.Log10(float64(c.Pause) / 1e3)})
				times[float64(asked)] = quantaLabel(asked, c.Pause)
			}
			waits = append(waits, plotter.XY{X: x, Y: math.Log10(float64(c.Idle) / 1e3)})
		}
	}
	for _, p := range []*plot.Plot{frames, idle} {
		p.X.Min, p.X.Max = math.Log10(64), math.Log10(math.MaxUint16)
		figure.LogTicks(&p.X, times)
	}
	return figure.Figure{Width: 17 * vg.Centimeter, Height: 17 * vg.Centimeter,
			Panels: [][]*plot.Plot{{frames}, {idle}}},
		addHealing(frames, idle, lost, waits, pauses)
}

func addHealing(frames, idle *plot.Plot, lost, waits, pauses plotter.XYs) error {
	dropped := figure.Look{Color: figure.Vermillion, Shape: draw.PyramidGlyph{}}
	if err := figure.Add(frames, "64-byte frames at line rate, until XOFF is repeated", dropped, lost); err != nil {
		return err
	}
	bound := figure.Look{Color: figure.Grey, Dashes: []vg.Length{2, 2}}
	if err := figure.Add(idle, "the whole pause", bound, pauses); err != nil {
		return err
	}
	waited := figure.Look{Color: figure.Blue, Shape: draw.CircleGlyph{}, Bare: true}
	if err := figure.Add(idle, "XON lost at a random moment", waited, waits); err != nil {
		return err
	}
	for _, p := range []*plot.Plot{frames, idle} {
		p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.YOffs = true, true, 6, -8
	}
	return nil
}

// quantaLabel labels every other power of two, so that labels do not overlap.
func quantaLabel(quanta uint16, ns int64) string {
	labels := map[uint16]string{64: "64", 256: "256", 1024: "1,024", 4096: "4,096", 16384: "16,384", 65535: "65,535"}
	words, ok := labels[quanta]
	if !ok {
		return ""
	}
	if ns < 1e6 {
		return fmt.Sprintf("%s\n%.3g µs", words, float64(ns)/1e3)
	}
	return fmt.Sprintf("%s\n%.3g ms", words, float64(ns)/1e6)
}
