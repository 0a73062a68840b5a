package main

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sluice/bench"
)

const farthest = 60 // km

// distance draws the use of a link against its length, for PFC and for buffer-to-buffer credits, and below what the
// length does to the receiver's buffer.
func distance(seed uint64) (figure, error) {
	l := bench.NewLongLink(seed)
	reach, err := l.Reach()
	if err != nil {
		return figure{}, err
	}
	use := newPanel("The same 480 KiB of buffer behind a longer and longer link", "", "use of the link (%)")
	use.X.Min, use.X.Max, use.Y.Min, use.Y.Max = 0, farthest, 0, 100
	buffer := newPanel("", "distance between sender and receiver (km)", "buffer under PFC (KiB)")
	buffer.X.Min, buffer.X.Max, buffer.Y.Min, buffer.Y.Max = 0, farthest, 0, kib(l, l.Buffer)
	evenTicks(&use.X, 10)
	evenTicks(&use.Y, 20)
	evenTicks(&buffer.X, 10)
	evenTicks(&buffer.Y, 80)
	if err := drawPFC(l, reach, use, buffer); err != nil {
		return figure{}, err
	}
	var credits plotter.XYs
	for km := 0.0; km <= farthest; km += 2 {
		credits = append(credits, plotter.XY{X: km, Y: 100 * l.Credits(1000*km).Use})
	}
	if err := add(use, "buffer-to-buffer credits", look{color: blue, shape: draw.CircleGlyph{}}, credits); err != nil {
		return figure{}, err
	}
	use.Legend.YOffs, use.Legend.XOffs = 4, -6
	buffer.Legend.Top, buffer.Legend.XOffs, buffer.Legend.YOffs = true, -6, -20
	return figure{17 * vg.Centimeter, 17 * vg.Centimeter, [][]*plot.Plot{{use}, {buffer}}}, nil
}

// drawPFC draws what ends where PFC can't be lossless any more.
func drawPFC(l bench.LongLink, reach float64, use, buffer *plot.Plot) error {
	var used, headroom, threshold plotter.XYs
	for i := range 13 {
		p, err := l.PFC(float64(int(reach * float64(i) / 12)))
		if err != nil {
			return err
		}
		if p.Lost > 0 {
			return fmt.Errorf("%.0f m: lost %d frames, and none should be", p.Metres, p.Lost)
		}
		km := p.Metres / 1000
		used = append(used, plotter.XY{X: km, Y: 100 * p.Use})
		headroom = append(headroom, plotter.XY{X: km, Y: kib(l, p.Headroom)})
		threshold = append(threshold, plotter.XY{X: km, Y: kib(l, p.Threshold)})
	}
	end := reach / 1000
	for _, p := range []*plot.Plot{use, buffer} {
		if err := mark(p, plotter.XY{X: end}, plotter.XY{X: end, Y: p.Y.Max}); err != nil {
			return err
		}
	}
	words := fmt.Sprintf("%.1f km: all of the buffer is headroom.\nFarther away PFC can't be lossless.", end)
	if err := note(use, plotter.XY{X: end, Y: 40}, 1, grey, words); err != nil {
		return err
	}
	if err := add(use, "PFC", look{color: vermillion, shape: draw.PyramidGlyph{}}, used); err != nil {
		return err
	}
	dashed := look{color: vermillion, dashes: []vg.Length{6, 3}}
	if err := add(buffer, "headroom for what arrives after XOFF", dashed, headroom); err != nil {
		return err
	}
	return add(buffer, "threshold: what may wait before XOFF", look{color: green}, threshold)
}

func kib(l bench.LongLink, cells int) float64 { return float64(cells*l.Cell) / 1024 }
