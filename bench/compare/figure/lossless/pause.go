package lossless

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sluice/bench/compare/figure"
	"sluice/bench/sim"
)

// pauseFrequency draws how often a receiver must stop its sender as its threshold falls, and what
// that costs, over a short and over a long link. The dotted line is the fluid model, which ignores
// distance; a frame takes as much of the wire as of cells, to within a hundredth.
func pauseFrequency(seed uint64) (figure.Figure, error) {
	l := sim.NewLongLink(seed)
	l.Time *= 2        // with a high threshold, XOFF is rare
	const most = 300.0 // KiB
	often := figure.NewPanel("XOFF rate and use of the link, by threshold", "", "XOFF per second")
	often.X.Min, often.X.Max, often.Y.Min, often.Y.Max = 0, most, 2, 6
	use := figure.NewPanel("", "threshold: buffer in use at which XOFF is sent (KiB)", "use of the link (%)")
	use.X.Min, use.X.Max, use.Y.Min, use.Y.Max = 0, most, 0, 100
	figure.LogTicks(&often.Y, map[float64]string{1e2: "100", 1e3: "1,000", 1e4: "10,000", 1e5: "100,000",
		1e6: "1,000,000"})
	figure.EvenTicks(&often.X, 50)
	figure.EvenTicks(&use.X, 50)
	figure.EvenTicks(&use.Y, 20)
	var stops, uses plotter.XYs
	for at := 0.0; at <= most; at += 5 {
		part, often := l.Drain.Fluid(l.Rate, at*1024)
		stops = append(stops, plotter.XY{X: at, Y: math.Log10(often)})
		uses = append(uses, plotter.XY{X: at, Y: 100 * part})
	}
	fluid := figure.Look{Color: figure.Grey, Dashes: []vg.Length{2, 2}}
	if err := addBoth(often, use, "fluid model, 0 m", fluid, stops, uses); err != nil {
		return figure.Figure{}, err
	}
	for _, link := range []struct {
		metres float64
		name   string
		look   figure.Look
	}{
		{300, "300 m", figure.Look{Color: figure.Blue, Shape: draw.CircleGlyph{}}},
		{10_000, "10 km", figure.Look{Color: figure.Vermillion, Shape: draw.PyramidGlyph{}}},
	} {
		stops, uses, err := pauses(l, link.metres, most)
		if err != nil {
			return figure.Figure{}, err
		}
		if err := addBoth(often, use, link.name, link.look, stops, uses); err != nil {
			return figure.Figure{}, err
		}
	}
	often.Legend.Top, often.Legend.XOffs, often.Legend.YOffs = true, -6, -8
	use.Legend.XOffs, use.Legend.YOffs = -6, 4
	return figure.Figure{Width: 17 * vg.Centimeter, Height: 17 * vg.Centimeter, Panels: [][]*plot.Plot{{often}, {use}}},
		nil
}

// pauses returns the logarithm of XOFFs per second and the use of the link, for thresholds up to
// most KiB.
func pauses(l sim.LongLink, metres, most float64) (stops, uses plotter.XYs, err error) {
	highest, err := l.Threshold(metres)
	if err != nil {
		return nil, nil, err
	}
	for _, threshold := range []int{0, 14, 28, 112, 224, 448, 672, 896, 1344, 1920} {
		if threshold > highest || kib(l, threshold) > most {
			break
		}
		p, err := l.PFCAt(metres, threshold)
		if err != nil {
			return nil, nil, err
		}
		stops = append(stops, plotter.XY{X: kib(l, threshold), Y: math.Log10(p.XOFF)})
		uses = append(uses, plotter.XY{X: kib(l, threshold), Y: 100 * p.Use})
	}
	return stops, uses, nil
}

func addBoth(a, b *plot.Plot, name string, l figure.Look, ofA, ofB plotter.XYs) error {
	if err := figure.Add(a, name, l, ofA); err != nil {
		return err
	}
	return figure.Add(b, name, l, ofB)
}
