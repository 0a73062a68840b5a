package lossless

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sluice/bench/compare/figure"
	"sluice/bench/sim"
)

const farthest = 60 // km

// distance draws the use of a link against its length, under PFC and under buffer-to-buffer
// credits. Below, it draws how the length affects the receiver's buffer.
func distance(seed uint64) (figure.Figure, error) {
	l := sim.NewLongLink(seed)
	reach, err := l.Reach()
	if err != nil {
		return figure.Figure{}, err
	}
	use := figure.NewPanel("Use of the link, and of 480 KiB of buffer, by distance", "", "use of the link (%)")
	use.X.Min, use.X.Max, use.Y.Min, use.Y.Max = 0, farthest, 0, 100
	buffer := figure.NewPanel("", "distance between sender and receiver (km)", "buffer under PFC (KiB)")
	buffer.X.Min, buffer.X.Max, buffer.Y.Min, buffer.Y.Max = 0, farthest, 0, kib(l, l.Buffer)
	figure.EvenTicks(&use.X, 10)
	figure.EvenTicks(&use.Y, 20)
	figure.EvenTicks(&buffer.X, 10)
	figure.EvenTicks(&buffer.Y, 80)
	if err := drawPFC(l, reach, use, buffer); err != nil {
		return figure.Figure{}, err
	}
	var credits plotter.XYs
	for km := 0.0; km <= farthest; km += 2 {
		credits = append(credits, plotter.XY{X: km, Y: 100 * l.Credits(1000*km).Use})
	}
	circles := figure.Look{Color: figure.Blue, Shape: draw.CircleGlyph{}}
	if err := figure.Add(use, "buffer-to-buffer credits", circles, credits); err != nil {
		return figure.Figure{}, err
	}
	use.Legend.YOffs, use.Legend.XOffs = 4, -6
	buffer.Legend.Top, buffer.Legend.XOffs, buffer.Legend.YOffs = true, -6, -20
	return figure.Figure{Width: 17 * vg.Centimeter, Height: 17 * vg.Centimeter,
		Panels: [][]*plot.Plot{{use}, {buffer}}}, nil
}

// drawPFC draws the curves that end where PFC can't be lossless any more.
func drawPFC(l sim.LongLink, reach float64, use, buffer *plot.Plot) error {
	var used, headroom, threshold plotter.XYs
	for i := range 13 {
		p, err := l.PFC(float64(int(reach * float64(i) / 12)))
		if err != nil {
			return err
		}
		if p.Lost > 0 {
			return fmt.Errorf("%.0f m: lost %d frames, expected none", p.Metres, p.Lost)
		}
		km := p.Metres / 1000
		used = append(used, plotter.XY{X: km, Y: 100 * p.Use})
		headroom = append(headroom, plotter.XY{X: km, Y: kib(l, p.Headroom)})
		threshold = append(threshold, plotter.XY{X: km, Y: kib(l, p.Threshold)})
	}
	end := reach / 1000
	for _, p := range []*plot.Plot{use, buffer} {
		if err := figure.Mark(p, plotter.XY{X: end}, plotter.XY{X: end, Y: p.Y.Max}); err != nil {
			return err
		}
	}
	words := fmt.Sprintf("%.1f km: all of the buffer is headroom.\nBeyond that, PFC can't be lossless.", end)
	if err := figure.Note(use, plotter.XY{X: end, Y: 40}, 1, figure.Grey, words); err != nil {
		return err
	}
	if err := figure.Add(use, "PFC", figure.Look{Color: figure.Vermillion, Shape: draw.PyramidGlyph{}},
		used); err != nil {
		return err
	}
	dashed := figure.Look{Color: figure.Vermillion, Dashes: []vg.Length{6, 3}}
	if err := figure.Add(buffer, "headroom for frames that arrive after XOFF", dashed, headroom); err != nil {
		return err
	}
	return figure.Add(buffer, "threshold: buffer in use at XOFF", figure.Look{Color: figure.Green}, threshold)
}

func kib(l sim.LongLink, cells int) float64 { return float64(cells*l.Cell) / 1024 }
