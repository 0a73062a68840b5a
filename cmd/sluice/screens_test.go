package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/gen"
)

var updateScreens = flag.Bool("update-screens", false, "write docs/screens.md anew, from a switch that runs here and now")

// screensFile is what TestScreens writes and verifies.
const screensFile = "../../docs/screens.md"

// screensIntroduction is what stands above the screens.
const screensIntroduction = `# Screens

What ` + "`sluice top` and `sluice show`" + ` print on a terminal of 80 by 24 characters, while two hosts send at line rate into the port of a
third, on CoS 3, which is lossless, and on CoS 0, which is not. [operations.md](operations.md) says what the numbers mean and what to do about
them.

This file is written by a test, which runs the switch and looks at the terminal: ` +
	"`go test ./cmd/sluice -run TestScreens -update-screens`" + `. In all other
runs it verifies that the program still looks like this, whatever the numbers.
`

// screen is a command whose screen is in the documents.
type screenOf struct {
	args string
	says string // what for
}

var documentedScreens = []screenOf{
	{"top", "All that goes on, again each second; `q` quits, `1` to `5` show one part of it."},
}

// busyTop tells whether top shows a switch on which all of it happens.
func busyTop(lines []string) bool {
	last := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "port2 ") && strings.HasSuffix(l, "0") })
	return last >= 0 && onScreen(lines, "told xoff") && onScreen(lines, "after")
}

// TestScreens runs a switch with traffic, and compares what is on a terminal with what the documents show. A screen in the
// documents is an indented text below a heading with its command.
func TestScreens(t *testing.T) {
	s := newSite(t, 3)
	socket := newSocket(t)
	p := startSwitch(t, s.home, slowSwitch+"control: {socket: "+socket+"}\n")
	c := newCrew(t, s, 3, []int{target, 1, 2}, map[int][]gen.Flow{
		1: {flowToTarget(1, 1, lossless), flowToTarget(2, 1, lossy)}, 2: {flowToTarget(3, 2, lossless), flowToTarget(4, 2, lossy)}})
	c.more(100, 1, 2, 3, 4)
	var b strings.Builder
	b.WriteString(screensIntroduction)
	for _, screen := range documentedScreens {
		fmt.Fprintf(&b, "\n## `sluice %s`\n\n%s\n\n", screen.args, screen.says)
		for _, l := range screenshot(t, socket, screen.args) {
			b.WriteString(strings.TrimRight("    "+l, " ") + "\n")
		}
	}
	c.settle(1, 3)
	p.stop()
	if *updateScreens {
		if err := os.WriteFile(screensFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	documented, err := os.ReadFile(screensFile)
	if err != nil {
		t.Fatal(err)
	}
	now, then := shapes(b.String()), shapes(string(documented))
	for heading, shape := range now {
		if !slices.Equal(shape, then[heading]) {
			t.Errorf("%s: now looks like\n%s\nin %s it is\n%s\nif that was meant: go test ./cmd/sluice -run TestScreens -update-screens",
				heading, strings.Join(shape, "\n"), screensFile, strings.Join(then[heading], "\n"))
		}
		delete(then, heading)
	}
	for heading := range then {
		t.Errorf("%s is in %s, and nowhere else", heading, screensFile)
	}
}

// screenshot returns what a command shows on a terminal of 80 by 24: of top the screen, of others all that they print.
func screenshot(t *testing.T, socket, args string) []string {
	t.Helper()
	v := onTerminal(t, append(strings.Fields(args), "--socket", socket)...)
	if args == "top" {
		lines := v.await("a busy switch", busyTop)
		v.press("q")
		v.exitCode()
		return lines
	}
	if code := v.exitCode(); code != 0 {
		t.Errorf("sluice %s: exit code %d", args, code)
	}
	if len(v.screen.left) != strings.Count(v.written(), "\n")-len(v.screen.all())+len(v.screen.left) {
		t.Errorf("sluice %s: lines are longer than 80 characters", args)
	}
	return v.screen.all()
}

var (
	barShape    = regexp.MustCompile(`\[[#| ]*\]`)
	numberShape = regexp.MustCompile(`^[<>]?[0-9]\S*$|^-$`)
	dashShape   = regexp.MustCompile(`^--+$`)
)

// shapes returns, for each heading of a document, which kinds of lines there are in what is indented below it: a line without
// its numbers, bars and widths. Of kinds that happen, rather than are, it does not matter how many there are, or whether the
// pause of a port began or ended last.
func shapes(document string) map[string][]string {
	all := map[string][]string{}
	heading := ""
	for line := range strings.Lines(document) {
		line = strings.TrimRight(line, "\n")
		if h, ok := strings.CutPrefix(line, "## "); ok {
			heading = h
		}
		screen, indented := strings.CutPrefix(line, "    ")
		if shape := shapeOf(screen); indented && !slices.Contains(all[heading], shape) {
			all[heading] = append(all[heading], shape)
		}
	}
	for _, shapes := range all {
		slices.Sort(shapes)
	}
	return all
}

func shapeOf(line string) string {
	if strings.Contains(line, " ago ") {
		return "something that happened"
	}
	words := strings.Fields(barShape.ReplaceAllString(line, "[]"))
	for i, w := range words {
		switch {
		case numberShape.MatchString(w):
			words[i] = "N"
		case dashShape.MatchString(w):
			words[i] = "--"
		}
	}
	return strings.Join(words, " ")
}
