package bench

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sluice/internal/figure"
)

// looks tell the series of a plot apart; the ninth looks like the first.
var looks = func() (all []figure.Look) {
	for i, c := range []color.RGBA{figure.Blue, figure.Vermillion, figure.Green, figure.Grey} {
		shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.PyramidGlyph{}, draw.BoxGlyph{}, draw.CrossGlyph{}}
		all = append(all, figure.Look{Color: c, Shape: shapes[i]})
	}
	for _, l := range all[:4] {
		l.Dashes = []vg.Length{5, 3}
		all = append(all, l)
	}
	return all
}()

// SVG draws the plot. Points that have no place on a logarithmic axis are left out.
func (p Plot) SVG() ([]byte, error) {
	panel := figure.NewPanel(p.Title, p.X, p.Y)
	drawn := 0
	for i, s := range p.Series {
		points := p.place(s.Points)
		if len(points) == 0 {
			continue
		}
		drawn++
		if err := figure.Add(panel, s.Name, looks[i%len(looks)], points); err != nil {
			return nil, fmt.Errorf("plot %s, %s: %w", p.Name, s.Name, err)
		}
	}
	if drawn == 0 {
		return nil, fmt.Errorf("plot %s has no points", p.Name)
	}
	setAxis(&panel.X, p.LogX)
	setAxis(&panel.Y, p.LogY)
	panel.Legend.Top, panel.Legend.Left, panel.Legend.XOffs, panel.Legend.YOffs = true, true, 6, -8
	return figure.Figure{Width: 17 * vg.Centimeter, Height: 11 * vg.Centimeter, Panels: [][]*plot.Plot{{panel}}}.SVG()
}

// place returns points as they are drawn: logarithms where the axis is one of them.
func (p Plot) place(points [][2]float64) (placed plotter.XYs) {
	for _, point := range points {
		x, y := point[0], point[1]
		if p.LogX {
			x = math.Log10(x)
		}
		if p.LogY {
			y = math.Log10(y)
		}
		if finite(x) && finite(y) {
			placed = append(placed, plotter.XY{X: x, Y: y})
		}
	}
	return placed
}

// setAxis makes an axis begin and end at whole powers of ten, or at 0, with room above for the legend.
func setAxis(a *plot.Axis, logarithmic bool) {
	if !logarithmic {
		a.Min, a.Max = min(a.Min, 0), 1.15*max(a.Max, 0)
		if a.Max == a.Min {
			a.Max++
		}
		return
	}
	a.Min, a.Max = math.Floor(a.Min), math.Ceil(a.Max)
	if a.Max == a.Min {
		a.Max++
	}
	labels := map[float64]string{}
	for power := a.Min; power <= a.Max; power++ {
		value := math.Pow(10, power)
		labels[value] = powerLabel(value)
	}
	figure.LogTicks(a, labels)
}

// powerLabel writes a power of ten so that it stays short.
func powerLabel(value float64) string {
	for _, s := range []struct {
		scale  float64
		suffix string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if value >= s.scale*0.999 {
			return fmt.Sprintf("%.0f%s", value/s.scale, s.suffix)
		}
	}
	return fmt.Sprintf("%.6g", value)
}
