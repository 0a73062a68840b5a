package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commands returns all commands in the help, without topics.
func commands(t *testing.T, root *cobra.Command) (all []*cobra.Command) {
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
	look(root)
	if len(all) < 8 {
		t.Fatalf("only %d commands", len(all))
	}
	return all
}

var spaces = regexp.MustCompile(` +`)

// CheckHelp tests that every command has a one-line description and an example, its own or its
// parent's, and that every example is a valid call.
func CheckHelp(t *testing.T, command func() *cobra.Command) {
	t.Helper()
	overview := Output(t, "help")
	for _, c := range commands(t, command()) {
		name := c.CommandPath()
		if c.Short == "" || len(c.Short) > 80-len("  completion  ") || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: Short must be one line without a full stop that fits 80 columns: %q", name, c.Short)
		}
		if c.Runnable() && !hasExample(c) {
			t.Errorf("neither %s nor a command above it has an example", name)
		}
		if !c.Parent().HasParent() && !strings.Contains(spaces.ReplaceAllString(overview, " "), "\n "+c.Name()+" "+
			c.Short+"\n") {
			t.Errorf("help does not show %s", c.Name())
		}
		for line := range strings.Lines(c.Example) {
			checkExample(t, command(), c, line)
		}
	}
}

// hasExample reports whether a command or a parent of it has an example. The root command does not
// count.
func hasExample(c *cobra.Command) bool {
	return c.HasParent() && (c.Example != "" || hasExample(c.Parent()))
}

// checkExample tests one line of an example. The line may end with a comment and redirect or pipe
// its output.
func checkExample(t *testing.T, root, c *cobra.Command, line string) {
	t.Helper()
	call, _, _ := strings.Cut(line, " #")
	call, _, _ = strings.Cut(call, " > ")
	call, _, _ = strings.Cut(call, " | ")
	words := strings.Fields(call)
	if len(words) == 0 || words[0] != root.Name() {
		t.Errorf("%s: the example is not a call of the program: %q", c.CommandPath(), line)
		return
	}
	of, flags, err := root.Find(words[1:])
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

// CheckManual has the program write its manual pages, and man show them if it is installed.
func CheckManual(t *testing.T, command func() *cobra.Command) {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	directory := filepath.Join(t.TempDir(), "share", "man1")
	Output(t, "docs", "--man", directory)
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
	for _, c := range append(commands(t, command()), command()) {
		text := byName[strings.ReplaceAll(c.CommandPath(), " ", "-")]
		for _, words := range []string{".TH", "Nov 2023", ".SH NAME", c.Name(), ".SH SYNOPSIS", ".SH DESCRIPTION"} {
			if !strings.Contains(text, words) {
				t.Errorf("the page of %s has no %q", c.CommandPath(), words)
			}
		}
	}
	if !strings.Contains(byName[command().Name()+"-conventions"], "FILE:LINE:COLUMN: PROBLEM: REMEDY") ||
		byName[command().Name()+"-docs"] != "" {
		t.Error("there is no page on conventions, or there is one on docs, which only packagers need")
	}
	man, err := exec.LookPath("man")
	if err != nil {
		t.Skip("man is not installed: the pages were not displayed")
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
}

// Output runs the program and returns what it prints.
func Output(t *testing.T, args ...string) string {
	t.Helper()
	p := Launch(t, nil, args...)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("%v: exit code %d", args, code)
	}
	return p.Output.String()
}

// Offer is what a shell should offer after some words.
type Offer struct{ Words, Offered []string }

// CheckCompletion asks for completions as shell scripts do, and has installed shells parse their
// scripts.
func CheckCompletion(t *testing.T, offers []Offer) {
	t.Helper()
	for _, o := range offers {
		got := Output(t, append([]string{"__complete"}, o.Words...)...)
		for _, word := range o.Offered {
			if !strings.Contains("\n"+got, "\n"+word) {
				t.Errorf("%q does not offer %q:\n%s", o.Words, word, got)
			}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		file := filepath.Join(t.TempDir(), shell)
		Must(t, os.WriteFile(file, []byte(Output(t, "completion", shell)), 0o644))
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed: its script was not parsed", shell)
		} else if complaint, err := exec.Command(shell, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("the script for %s: %v, %s", shell, err, complaint)
		}
	}
}
