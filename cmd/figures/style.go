package main

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
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

// figure is panels in rows and columns, all rows of the same length.
type figure struct {
	width, height vg.Length
	panels        [][]*plot.Plot
}

// The colours are those of M. Okabe and K. Ito ("Color Universal Design", 2008), which people with any colour vision
// tell apart; shapes and dashes differ too, for print in grey.
var (
	blue       = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	vermillion = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	green      = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	grey       = color.RGBA{0x60, 0x60, 0x60, 0xff}
	paleGrey   = color.RGBA{0xd8, 0xd8, 0xd8, 0xff}
)

// look is how a series is drawn.
type look struct {
	color  color.RGBA
	shape  draw.GlyphDrawer // nil: no points
	dashes []vg.Length
	bare   bool // no line, and smaller points, for there are many
}

// sans is the type that all text is set in; its measures are those of Arial.
var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

func init() {
	plot.DefaultFont = sans
	plotter.DefaultFont = sans
}

// newPanel returns an empty panel with a grid.
func newPanel(title, x, y string) *plot.Plot {
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

// evenTicks labels an axis from its minimum to its maximum in steps.
func evenTicks(a *plot.Axis, step float64) {
	var ticks plot.ConstantTicks
	for at := a.Min; at <= a.Max; at += step {
		ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprintf("%g", at)})
	}
	a.Tick.Marker = ticks
}

// logTicks labels an axis that shows logarithms to the base of 10, with the numbers themselves.
func logTicks(a *plot.Axis, labels map[float64]string) {
	var ticks plot.ConstantTicks
	for value, label := range labels {
		ticks = append(ticks, plot.Tick{Value: math.Log10(value), Label: label})
	}
	slices.SortFunc(ticks, func(a, b plot.Tick) int { return cmp.Compare(a.Value, b.Value) })
	a.Tick.Marker = ticks
}

// add draws a series; name is its entry in the legend, "" for none.
func add(p *plot.Plot, name string, l look, points plotter.XYs) error {
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Width, line.Color, line.Dashes = 1.8, l.color, l.dashes
	dots.GlyphStyle = draw.GlyphStyle{Color: l.color, Radius: 3, Shape: l.shape}
	var thumbnails []plot.Thumbnailer
	if l.bare {
		dots.Radius = 2.2
	} else {
		p.Add(line)
		thumbnails = append(thumbnails, line)
	}
	if l.shape != nil {
		p.Add(dots)
		thumbnails = append(thumbnails, dots)
	}
	if name != "" {
		p.Legend.Add(name, thumbnails...)
	}
	return nil
}

// mark draws a thin dashed line between two points.
func mark(p *plot.Plot, from, to plotter.XY) error {
	line, err := plotter.NewLine(plotter.XYs{from, to})
	if err != nil {
		return err
	}
	line.Width, line.Color, line.Dashes = 1.2, grey, []vg.Length{4, 3}
	p.Add(line)
	return nil
}

// note writes text beside a point, to the right of it or, with align -1, to the left.
func note(p *plot.Plot, at plotter.XY, align float64, color color.Color, words string) error {
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

// save writes the figure to path.svg and path.png.
func (f figure) save(path string) error {
	svg := vgsvg.New(f.width, f.height)
	f.draw(svg)
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return err
	}
	// A reader without the Liberation fonts gets one with the same measures, or at least without serifs.
	const named, wanted = "font-family:Liberation Sans", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif"
	content := bytes.ReplaceAll(b.Bytes(), []byte(named), []byte(wanted))
	if err := os.WriteFile(path+".svg", content, 0o644); err != nil {
		return err
	}
	png := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(f.width, f.height), vgimg.UseDPI(144))}
	f.draw(png)
	return writeFile(path+".png", png)
}

func writeFile(path string, content io.WriterTo) error {
	var b bytes.Buffer
	if _, err := content.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func (f figure) draw(c vg.CanvasSizer) {
	dc := draw.New(c)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	tiles := draw.Tiles{
		Rows: len(f.panels), Cols: len(f.panels[0]),
		PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 14, PadX: 12, PadY: 12,
	}
	for i, row := range plot.Align(f.panels, tiles, dc) {
		for j, tile := range row {
			f.panels[i][j].Draw(tile)
		}
	}
}
