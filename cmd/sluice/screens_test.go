package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/report/console"
)

var updateScreens = flag.Bool("update-screens", false,
	"write docs/screens.md anew, from a switch that runs here and now")

// screensFile is the document that TestScreens writes and checks.
const screensFile = "../../docs/screens.md"

// screensIntroduction is the text above the screens.
const screensIntroduction = `# Screens

This page shows what ` + "`sluice top` and `sluice show`" + ` print on a terminal of 80 by 24 characters.
Meanwhile, two hosts send at line rate to a third one, each in CoS 3, which is lossless, and in
CoS 0, which is lossy. [Operations](operations.md) explains the numbers, and what to do about them.

A test writes this page: it runs the switch and records the terminal
(` + "`go test ./cmd/sluice -run TestScreens -update-screens`" + `). Without that flag, it checks that the
program still prints the same, apart from numbers.
`

// documented lists the commands whose screens are documented, with a description.
var documented = []struct{ args, says string }{
	{"top", "Everything, refreshed every second. `q` quits; `1` to `5` show one section."},
	{"show", "An overview."},
	{"show ports", "Received, sent and dropped frames of each port, and rates, averaged over `--interval`."},
	{"show pfc --history --port port1", "PFC frames by priority, and the pauses that resulted."},
	{"show pg --nonzero", "Usage, watermarks and drops of the priority groups. `--nonzero` hides empty ones."},
	{"show queues --nonzero", "Depth, sent frames and drops of the egress queues."},
	{"show watermarks --port port1", "The highest usage since the last clear; with `--persistent`, since the start."},
	{"show pfcwd", "The watchdogs, and pause storms."},
	{"show fdb", "The FDB entries, and counters of learning."},
	{"show ets --port port3", "Groups, weights and sent frames of the egress queues of a port."},
	{"show workers", "The load of the workers, and the gaps of their loops."},
	{"show drops", "Which frames were dropped, and why."},
	{"show lldp", "Counters of LLDP, which is off here. [DCBX](dcbx.md) and [FCoE](fcoe.md) have their own views."},
	{"show config", "The configuration as the switch loaded it."},
}

// screensSwitch is slowSwitch in a form for readers.
const screensSwitch = `# three hosts; two of them send to the third as fast as they can
classes:
  - cos: [3]
    name: storage
    lossless: true
    share: 256KB # of each port, before its peer is paused
    xon: 128KB
    headroom: 8MB
  - cos: [0]
    name: lan
    share: 512KB
    queue_limit: 256KB
watchdog: {action: drop}
ports:
  - {device: port1, speed: 20M, vlans: [1, 100, 101]}
  - {device: port2, speed: 20M, vlans: [1, 100, 102]}
  - {device: port3, speed: 20M, vlans: [1, 100-102]}
`

// busy reports whether top shows a switch with all kinds of activity: rates, and pauses that come
// and go.
func busy(lines []string) bool {
	paused := regexp.MustCompile(`^port[12] +\. +\. +\. +[1-9][0-9] `)
	n := 0
	for _, l := range lines {
		if paused.MatchString(l) {
			n++
		}
	}
	return n == 2 && onScreen(lines, "sent xoff") && onScreen(lines, "sent xon after")
}

// TestScreens runs a switch with traffic and compares the screens of commands with those in the
// document. There, a screen is the indented text below the heading of its command.
func TestScreens(t *testing.T) {
	s := program.NewSite(t, 3)
	socket := program.SocketPath(t)
	p := program.StartSwitch(t, s.Home, screensSwitch+"control: {socket: "+socket+"}\n")
	c := newCrew(t, s, 3, []int{target, 1, 2}, map[int][]traffic.Flow{
		1: {flowToTarget(1, 1, lossless), flowToTarget(2, 1, lossy)},
		2: {flowToTarget(3, 2, lossless), flowToTarget(4, 2, lossy)}})
	c.more(300, 1, 2, 3, 4)
	places := strings.NewReplacer(socket, console.DefaultSocket, filepath.Dir(p.Args[3])+"/", "/etc/sluice/",
		"sluice "+version+",", "sluice v1.0,")
	var b strings.Builder
	b.WriteString(screensIntroduction)
	for _, d := range documented {
		fmt.Fprintf(&b, "\n## `sluice %s`\n\n%s\n\n", d.args, d.says)
		for _, l := range screenshot(t, socket, d.args, places) {
			b.WriteString(strings.TrimRight("    "+l, " ") + "\n")
		}
	}
	c.settle(1, 3)
	if r := p.Stop(); r.LosslessDrops != 0 {
		t.Errorf("%d lossless drops", r.LosslessDrops)
	}
	if *updateScreens {
		if err := os.WriteFile(screensFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	compareScreens(t, b.String())
}

// compareScreens compares the shapes of screens with those in the document.
func compareScreens(t *testing.T, seen string) {
	t.Helper()
	file, err := os.ReadFile(screensFile)
	if err != nil {
		t.Fatal(err)
	}
	now, then := shapes(seen), shapes(string(file))
	for heading, shape := range now {
		if !slices.Equal(shape, then[heading]) {
			t.Errorf("%s: now looks like\n%s\nin %s it is\n%s\nif that was meant: go test ./cmd/sluice -run "+
				"TestScreens -update-screens",
				heading, strings.Join(shape, "\n"), screensFile, strings.Join(then[heading], "\n"))
		}
		delete(then, heading)
	}
	for heading := range then {
		t.Errorf("%s is in %s, and nowhere else", heading, screensFile)
	}
}

// screenshot returns what a command shows on a terminal of 80 by 24, with the usual names of files:
// the screen of top, or the whole output of other commands.
func screenshot(t *testing.T, socket, args string, places *strings.Replacer) []string {
	t.Helper()
	v := onTerminal(t, append(strings.Fields(args), "--socket", socket)...)
	if args == "top" {
		lines := v.await("a busy switch", busy)
		v.press("q")
		v.exitCode()
		return lines
	}
	if code := v.exitCode(); code != 0 {
		t.Errorf("sluice %s: exit code %d", args, code)
	}
	text := places.Replace(v.written())
	screen := newEmulator(80, 24)
	if err := screen.write(text); err != nil {
		t.Error(err)
	}
	if lines := strings.Count(text, "\n"); lines != len(screen.all()) {
		t.Errorf("sluice %s: %d lines take %d on a terminal: some are longer than 80 characters", args, lines,
			len(screen.all()))
	}
	return screen.all()
}

var (
	barShape    = regexp.MustCompile(`\[[#| ]*\]`)
	numberShape = regexp.MustCompile(`^[<>]?[0-9]\S*$|^[-–]$|^paused$`)
	portShape   = regexp.MustCompile(`^port[0-9]$`)
	dashShape   = regexp.MustCompile(`^--+$`)
)

// shapes returns the kinds of lines in the indented text below each heading: lines without their
// numbers, bars and widths. It ignores how many lines of a kind there are, and treats the start and
// the end of a pause alike.
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
		case portShape.MatchString(w):
			words[i] = "port"
		case w == "xon", w == "expired":
			words[i] = "xoff"
		case dashShape.MatchString(w):
			words[i] = "--"
		}
	}
	return strings.Join(words, " ")
}
