// Package lossless draws the figures of docs/lossless.md from simulations in virtual time. The same
// seed gives the same bytes.
package lossless

import (
	"fmt"
	"path/filepath"

	"sluice/bench/compare/figure"
	"sluice/internal/linux/ownfile"
)

// figures lists all figures, in the order of docs/lossless.md.
var figures = []struct {
	name string // of the files, without extension
	draw func(seed uint64) (figure.Figure, error)
}{
	{"headroom", headroomUse},
	{"distance", distance},
	{"pause-frequency", pauseFrequency},
	{"lost-pause", lostPause},
}

// Draw writes each figure as SVG and as PNG into a directory, and calls tell after each file.
func Draw(directory string, seed uint64, tell func(file string)) error {
	for _, f := range figures {
		if err := write(directory, f.name, f.draw, seed); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		tell(filepath.Join(directory, f.name+".svg"))
	}
	return nil
}

// write draws one figure in both formats.
func write(directory, name string, draw func(uint64) (figure.Figure, error), seed uint64) error {
	f, err := draw(seed)
	if err != nil {
		return err
	}
	return save(f, filepath.Join(directory, name))
}

// save writes a figure to path.svg and path.png.
func save(f figure.Figure, path string) error {
	for _, format := range []struct {
		extension string
		encode    func() ([]byte, error)
	}{{".svg", f.SVG}, {".png", f.PNG}} {
		content, err := format.encode()
		if err != nil {
			return err
		}
		if err := ownfile.Write(path+format.extension, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
