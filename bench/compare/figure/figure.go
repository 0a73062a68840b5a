// Package figure draws charts in one style for documentation and reports.
package figure

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure consists of panels in rows of equal length.
type Figure struct {
	Width, Height vg.Length
	Panels        [][]*plot.Plot
}

// The colours are those of M. Okabe and K. Ito ("Color Universal Design", 2008), which can be told
// apart with any colour vision. Shapes and dashes differ too, for print in grey.
var (
	Blue       = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	Vermillion = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	Green      = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	Grey       = color.RGBA{0x60, 0x60, 0x60, 0xff}
	paleGrey   = color.RGBA{0xd8, 0xd8, 0xd8, 0xff}
)

// Look is how a series is drawn.
type Look struct {
	Color  color.RGBA
	Shape  draw.GlyphDrawer // nil: no points
	Dashes []vg.Length
	Bare   bool // no line, and smaller points, for many points
}

// sans is the font of all text. It has the metrics of Arial.
var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

func init() {
	plot.DefaultFont = sans
	plotter.DefaultFont = sans
}

// NewPanel returns an empty panel with a grid.
func NewPanel(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size = 13
	p.Title.Padding = 6
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font.Size = 12
		a.Label.Padding = 5
		a.Tick.Label.Font.Size = 11
		a.Padding = 0
	}
	p.Legend.TextStyle.Font.Size = 11
	p.Legend.Padding = 3
	p.Legend.ThumbnailWidth = 28
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = paleGrey, paleGrey
	p.Add(grid)
	return p
}

// EvenTicks labels an axis from its minimum to its maximum in steps.
func EvenTicks(a *plot.Axis, step float64) {
	var ticks plot.ConstantTicks
	for at := a.Min; at <= a.Max; at += step {
		ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprintf("%g", at)})
	}
	a.Tick.Marker = ticks
}

// LogTicks labels an axis of base-10 logarithms with the original numbers.
func LogTicks(a *plot.Axis, labels map[float64]string) {
	var ticks plot.ConstantTicks
	for value, label := range labels {
		ticks = append(ticks, plot.Tick{Value: math.Log10(value), Label: label})
	}
	slices.SortFunc(ticks, func(a, b plot.Tick) int { return cmp.Compare(a.Value, b.Value) })
	a.Tick.Marker = ticks
}

// Add draws a series; name is its entry in the legend, "" for none.
func Add(p *plot.Plot, name string, l Look, points plotter.XYs) error {
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Width, line.Color, line.Dashes = 1.8, l.Color, l.Dashes
	dots.GlyphStyle = draw.GlyphStyle{Color: l.Color, Radius: 3, Shape: l.Shape}
	var thumbnails []plot.Thumbnailer
	if l.Bare {
		dots.Radius = 2.2
	} else {
		p.Add(line)
		thumbnails = append(thumbnails, line)
	}
	if l.Shape != nil {
		p.Add(dots)
		thumbnails = append(thumbnails, dots)
	}
	if name != "" {
		p.Legend.Add(name, thumbnails...)
	}
	return nil
}

// Mark draws a thin dashed line between two points.
func Mark(p *plot.Plot, from, to plotter.XY) error {
	line, err := plotter.NewLine(plotter.XYs{from, to})
	if err != nil {
		return err
	}
	line.Width, line.Color, line.Dashes = 1.2, Grey, []vg.Length{4, 3}
	p.Add(line)
	return nil
}

// Note writes text next to a point: to its right or, with align -1, to its left.
func Note(p *plot.Plot, at plotter.XY, align float64, color color.Color, words string) error {
	l, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{at}, Labels: []string{words}})
	if err != nil {
		return err
	}
	l.TextStyle[0].Font.Size = 11
	l.TextStyle[0].Color = color
	l.Offset.X = 6
	if align < 0 {
		l.TextStyle[0].XAlign = text.XRight
		l.Offset.X = -6
	}
	p.Add(l)
	return nil
}

// SVG returns the figure as an SVG file. Without the Liberation fonts, a viewer uses a font of the
// same metrics, or at least without serifs.
func (f Figure) SVG() ([]byte, error) {
	svg := vgsvg.New(f.Width, f.Height)
	f.draw(svg)
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return nil, err
	}
	const named, wanted = "font-family:Liberation Sans", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif"
	return bytes.ReplaceAll(b.Bytes(), []byte(named), []byte(wanted)), nil
}

// PNG returns the figure as a PNG file.
func (f Figure) PNG() ([]byte, error) {
	png := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(f.Width, f.Height), vgimg.UseDPI(144))}
	f.draw(png)
	var b bytes.Buffer
	_, err := png.WriteTo(&b)
	return b.Bytes(), err
}

func (f Figure) draw(c vg.CanvasSizer) {
	dc := draw.New(c)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	tiles := draw.Tiles{
		Rows: len(f.Panels), Cols: len(f.Panels[0]),
		PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 14, PadX: 12, PadY: 12,
	}
	for i, row := range plot.Align(f.Panels, tiles, dc) {
		for j, tile := range row {
			f.Panels[i][j].Draw(tile)
		}
	}
}
