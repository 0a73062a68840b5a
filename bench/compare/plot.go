package compare

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sluice/bench/compare/figure"
)

// looks distinguish the series of a plot. The ninth series looks like the first.
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

// SVG draws the plot. It leaves out points that a logarithmic axis can't show.
func (p Plot) SVG() ([]byte, error) {
	panel := figure.NewPanel(p.Title, p.X, p.Y)
	var placed []plotter.XYs // by series
	for _, s := range p.Series {
		placed = append(placed, p.place(s.Points))
	}
	left, right, bottom, top := plotter.XYRange(slices.Concat(placed...))
	drawn := 0
	for i, s := range p.Series {
		points := thin(placed[i], right-left, top-bottom)
		if len(points) == 0 {
			continue
		}
		drawn++
		if err := figure.Add(panel, s.Name, looks[i%len(looks)], points); err != nil {
			return nil, fmt.Errorf("draw plot %s, %s: %w", p.Name, s.Name, err)
		}
	}
	if drawn == 0 {
		return nil, fmt.Errorf("draw plot %s: it has no points that the axes can show", p.Name)
	}
	const line = 0.06 // share of the panel's height per legend entry
	setAxis(&panel.X, p.LogX, 0)
	setAxis(&panel.Y, p.LogY, min(line*float64(1+drawn), 0.5))
	panel.Legend.Top, panel.Legend.Left, panel.Legend.XOffs, panel.Legend.YOffs = true, true, 6, -8
	return figure.Figure{Width: 17 * vg.Centimeter, Height: 11 * vg.Centimeter, Panels: [][]*plot.Plot{{panel}}}.SVG()
}

// place returns the points to draw: logarithms where an axis is logarithmic.
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

// thin leaves out points that can't be told from the one before, as a distribution has hundreds.
func thin(points plotter.XYs, width, height float64) (kept plotter.XYs) {
	const apart = 0.02 // share of the panel
	for i, at := range points {
		if i > 0 && i < len(points)-1 {
			last := kept[len(kept)-1]
			x, y := (at.X-last.X)/cmp.Or(width, 1), (at.Y-last.Y)/cmp.Or(height, 1)
			if math.Hypot(x, y) < apart {
				continue
			}
		}
		kept = append(kept, at)
	}
	return kept
}

// setAxis makes an axis begin and end at whole powers of ten, or begin at 0. It adds room, a share
// of the axis, at the end.
func setAxis(a *plot.Axis, logarithmic bool, room float64) {
	if logarithmic {
		a.Min, a.Max = math.Floor(a.Min), math.Ceil(a.Max)
		labels := map[float64]string{}
		for power := a.Min; power <= a.Max; power++ {
			value := math.Pow(10, power)
			labels[value] = short(value)
		}
		figure.LogTicks(a, labels)
	} else {
		a.Min, a.Max = min(a.Min, 0), max(a.Max, 0)
		a.Tick.Marker = shortTicks{}
	}
	if a.Max == a.Min {
		a.Max++
	}
	a.Max += (a.Max - a.Min) * room / (1 - room)
}

// shortTicks are the ticks of a linear axis with short labels.
type shortTicks struct{ plot.DefaultTicks }

// Ticks implements plot.Ticker.
func (s shortTicks) Ticks(from, to float64) []plot.Tick {
	ticks := s.DefaultTicks.Ticks(from, to)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = short(ticks[i].Value)
		}
	}
	return ticks
}

// short formats a value on an axis.
func short(value float64) string {
	for _, s := range []step{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if math.Abs(value) >= s.scale {
			return fmt.Sprintf("%.4g%s", value/s.scale, s.name)
		}
	}
	return fmt.Sprintf("%.4g", value)
}
