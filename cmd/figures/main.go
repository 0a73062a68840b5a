// Figures draws the figures of the documentation from simulations in virtual time: the same seed gives the same
// figures, byte by byte. It is a program for developers:
//
//	go run ./cmd/figures
//
// writes each figure as SVG and as PNG into docs/figures.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"sluice/bench/figure"
)

// figures is all there are, in the order of docs/lossless.md.
var figures = []struct {
	name string // of the files, without extension
	draw func(seed uint64) (figure.Figure, error)
}{
	{"headroom", headroomUse},
	{"distance", distance},
	{"pause-frequency", pauseFrequency},
	{"lost-pause", lostPause},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("figures: ")
	out := flag.String("out", filepath.FromSlash("docs/figures"), "`directory` to write to, which exists")
	seed := flag.Uint64("seed", 1, "`number` from which all chance follows")
	flag.Parse()
	for _, f := range figures {
		if err := write(*out, f.name, f.draw, *seed); err != nil {
			log.Fatalf("%s: %v", f.name, err)
		}
		fmt.Println(filepath.Join(*out, f.name+".svg"))
	}
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
		if err := os.WriteFile(path+format.extension, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
