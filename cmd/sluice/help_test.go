package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commands returns all commands that help shows, topics left out.
func commands(t *testing.T) (all []*cobra.Command) {
	t.Helper()
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			if below.Hidden || below.IsAdditionalHelpTopicCommand() {
				continue
			}
			all = append(all, below)
			look(below)
		}
	}
	look(command())
	if len(all) < 12 {
		t.Fatalf("only %d commands", len(all))
	}
	return all
}

// TestHelp: every command says in a line what it is for and shows how it is called, or the one above it does, and every call shown
// is one that is taken.
func TestHelp(t *testing.T) {
	for _, c := range commands(t) {
		name := c.CommandPath()
		if c.Short == "" || len(c.Short) > 80-len("  completion  ") || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: its purpose is no line of 80 columns: %q", name, c.Short)
		}
		if c.Runnable() && !hasExample(c) {
			t.Errorf("neither %s nor a command above it has an example", name)
		}
		for line := range strings.Lines(c.Example) {
			checkExample(t, c, line)
		}
	}
}

// hasExample tells whether a command or one above it has an example. That of the program itself does not count.
func hasExample(c *cobra.Command) bool {
	return c.HasParent() && (c.Example != "" || hasExample(c.Parent()))
}

// checkExample tests a line of an example. It may end with a comment, and its output may go to a file or to another program.
func checkExample(t *testing.T, c *cobra.Command, line string) {
	t.Helper()
	call, _, _ := strings.Cut(line, " #")
	call, _, _ = strings.Cut(call, " > ")
	call, _, _ = strings.Cut(call, " | ")
	words := strings.Fields(call)
	if len(words) == 0 || words[0] != "sluice" {
		t.Errorf("%s: no call: %q", c.CommandPath(), line)
		return
	}
	of, flags, err := command().Find(words[1:])
	if err == nil && !strings.HasPrefix(of.CommandPath(), c.CommandPath()) {
		t.Errorf("%s has an example of %s", c.CommandPath(), of.CommandPath())
	}
	if err == nil {
		err = of.ParseFlags(flags)
	}
	if err == nil {
		err = of.ValidateArgs(of.Flags().Args())
	}
	if err == nil {
		err = of.ValidateRequiredFlags()
	}
	if err != nil {
		t.Errorf("%q: %v", strings.TrimSpace(line), err)
	}
}

// output runs the program and returns what it prints.
func output(t *testing.T, args ...string) string {
	t.Helper()
	p := launch(t, nil, args...)
	if code := p.exitCode(); code != 0 {
		t.Fatalf("%v: exit code %d", args, code)
	}
	return p.stdout.String()
}

// TestHelpOfAll: the overview groups the commands and names each with its purpose; the topic is found by help.
func TestHelpOfAll(t *testing.T) {
	text := output(t, "help")
	for _, c := range commands(t) {
		if !c.Parent().HasParent() && !regexp.MustCompile(`(?m)^  `+c.Name()+` +`+regexp.QuoteMeta(c.Short)+`$`).MatchString(text) {
			t.Errorf("help does not show %s", c.Name())
		}
	}
	for _, words := range []string{"\nRun a switch:\n", "\nExamples:\n", "conventions "} {
		if !strings.Contains(text, words) {
			t.Errorf("help does not show %q:\n%s", words, text)
		}
	}
	topic := output(t, "help", "conventions")
	for _, words := range []string{"FILE:LINE:COLUMN: PROBLEM: REMEDY", "\n  0  ", "\n  1  ", "\n  2  ", "\n  3  ", "\n 64  ", "\n 66  ", "SIGTERM", "Environment\n", "KiB"} {
		if !strings.Contains(topic, words) {
			t.Errorf("the conventions do not tell of %q", words)
		}
	}
}

// TestManual writes the pages and has man show them, where it is there.
func TestManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	directory := filepath.Join(t.TempDir(), "share", "man1")
	output(t, "docs", "--man", directory)
	pages, err := filepath.Glob(filepath.Join(directory, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]string{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		byName[strings.TrimSuffix(filepath.Base(page), ".1")] = string(text)
	}
	for _, c := range append(commands(t), command()) {
		text := byName[strings.ReplaceAll(c.CommandPath(), " ", "-")]
		for _, words := range []string{".TH", "Nov 2023", ".SH NAME", c.Name(), ".SH SYNOPSIS", ".SH DESCRIPTION"} {
			if !strings.Contains(text, words) {
				t.Errorf("the page of %s has no %q", c.CommandPath(), words)
			}
		}
	}
	if !strings.Contains(byName["sluice-conventions"], "FILE:LINE:COLUMN: PROBLEM: REMEDY") || byName["sluice-docs"] != "" {
		t.Error("there is no page of the conventions, or one of what packagers need alone")
	}
	man, err := exec.LookPath("man")
	if err != nil {
		t.Skip("man is not installed: nobody has tried to show the pages")
	}
	for _, page := range pages {
		c := exec.Command(man, "--warnings", "-E", "UTF-8", "-l", page)
		c.Env = append(os.Environ(), "MANWIDTH=100", "LC_ALL=C.UTF-8")
		var warnings strings.Builder
		c.Stderr = &warnings
		if text, err := c.Output(); err != nil || warnings.Len() > 0 || len(text) < 200 {
			t.Errorf("%s: %v, %d bytes, %s", filepath.Base(page), err, len(text), &warnings)
		}
	}
	p := launch(t, nil, "docs", "--man", "/proc/nowhere")
	checkRefusal(t, p, exitFailure, []string{"--man /proc/nowhere", "may write to"})
}

// TestCompletion asks as the scripts of shells do.
func TestCompletion(t *testing.T) {
	for _, test := range []struct {
		words []string
		offer []string
	}{
		{[]string{""}, []string{"run\t", "check\t", "bench\t", "completion\t"}},
		{[]string{"bench", "run", ""}, []string{"veth\t", "ring\t"}},
		{[]string{"gen", "--mode", "m"}, []string{"macswap\t"}},
		{[]string{"gen", "--engine", ""}, []string{"af_xdp", "live"}},
		{[]string{"headroom", "--method", ""}, []string{"annex-o", "all"}},
		{[]string{"headroom", "--medium", ""}, []string{"fibre"}},
		{[]string{"run", "--config", ""}, []string{"yaml", "yml", ":8"}}, // files that end so
		{[]string{"bench", "run", "--out", ""}, []string{":16"}},         // directories
		{[]string{"help", ""}, []string{"check\t"}},
	} {
		got := output(t, append([]string{"__complete"}, test.words...)...)
		for _, word := range test.offer {
			if !strings.Contains("\n"+got, "\n"+word) {
				t.Errorf("%q does not offer %q:\n%s", test.words, word, got)
			}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		file := filepath.Join(t.TempDir(), shell)
		if err := os.WriteFile(file, []byte(output(t, "completion", shell)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed: nobody has read its script", shell)
		} else if complaint, err := exec.Command(shell, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("the script for %s: %v, %s", shell, err, complaint)
		}
	}
}

// TestDevicesComplete: the devices offered are those of the place where the shell is.
func TestDevicesComplete(t *testing.T) {
	s := newSite(t, 2)
	p := launch(t, s.home, "__complete", "gen", "--device", "")
	if p.exitCode() != 0 || !strings.Contains(p.stdout.String(), "port1\nport2\n") || strings.Contains(p.stdout.String(), "lo\n") {
		t.Errorf("offered: %s", &p.stdout)
	}
}

// TestPortsComplete: the ports offered are those of the switch that is asked; where there is none, so are they.
func TestPortsComplete(t *testing.T) {
	s, socket := newSite(t, 2), socketPath(t)
	ask := func() string {
		p := launch(t, nil, "__complete", "storm", "on", "--cos", "3", "--socket", socket, "")
		p.exitCode()
		return p.stdout.String()
	}
	if got := ask(); got != ":4\n" {
		t.Errorf("offered without a switch: %q", got)
	}
	startSwitch(t, s.home, fmt.Sprintf("ports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}]\ncontrol: {socket: %s}\n", socket))
	if got := ask(); got != "port1\nport2\n:4\n" {
		t.Errorf("offered: %q", got)
	}
}

// TestSchemaCommand: what is printed is what is published.
func TestSchemaCommand(t *testing.T) {
	published, err := os.ReadFile("../../docs/sluice.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if output(t, "schema") != string(published) {
		t.Error("schema prints something else than docs/sluice.schema.json")
	}
}
