package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/internal/cli"
)

// problemLine matches an error in a configuration: position, problem, remedy.
var problemLine = regexp.MustCompile(`^\S+:\d+:\d+: .+: .+$`)

// checkProblems checks that a program printed nothing but errors in the file, with position and
// remedy.
func checkProblems(t *testing.T, p *program.Running, file string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(strings.Join(p.Log.All(), "\n"), "\n"), "\n")
	for i, line := range lines {
		more := i == len(lines)-1 && strings.HasPrefix(line, "and ") && strings.HasSuffix(line, " more")
		if !more && (!problemLine.MatchString(line) || !strings.HasPrefix(line, file+":")) {
			t.Errorf("not FILE:LINE:COLUMN: PROBLEM: REMEDY: %q", line)
		}
	}
	if len(lines) > 21 || p.Output.Len() > 0 {
		t.Errorf("%d lines, and on standard output: %q", len(lines), &p.Output)
	}
}

// TestBadFiles checks that check reports the expected error, and only errors in that file, for
// every bad file.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("../../internal/config/testdata/bad/*.yaml")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		p := program.Launch(t, nil, "check", "-c", file)
		if code := p.ExitCode(); code != cli.ExitConfiguration {
			t.Errorf("%s: exit code %d", file, code)
		}
		checkProblems(t, p, file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) { // the file ends with the expected error
			if want, ok := strings.CutPrefix(line, "#! "+filepath.Base(file)); ok &&
				!strings.Contains("\n"+strings.Join(p.Log.All(), "\n")+"\n", "\n"+file+want) {
				t.Errorf("%s: not said: %s", file, want)
			}
		}
	}
}

// bomb returns a document of 10^9 words if its aliases are expanded.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [lol]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10),
			", "))
	}
	return b.String() + "ports: *a9\n"
}

// badInput is a file that is not a valid configuration.
type badInput struct {
	name, text string
	make       func(file string) error // instead of writing text
	without    string                  // what the program lacks
	say        []string
}

const onePort = "ports:\n  - {device: port1, speed: 1G}\n"

// unreadables are files that don't exist or that this user can't read.
var unreadables = []badInput{
	{name: "missing", make: os.Remove, say: []string{unix.ENOENT.Error(), "starting from one of examples/"}},
	{name: "a directory", say: []string{unix.EISDIR.Error(), "name a file in this directory"},
		make: func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o755)) }},
	{name: "unreadable", make: func(file string) error { return os.Chmod(file, 0) }, without: root,
		say: []string{unix.EACCES.Error(), "make it readable for this user, or run as root"}},
}

// mendables are files with errors. program is the beginning of an executable.
func mendables(program []byte) []badInput {
	return []badInput{
		{name: "empty", text: "", say: []string{":1:1: the file is empty", `under "ports:"`}},
		{name: "comments only", text: "# nothing\n", say: []string{":1:1: the file is empty"}},
		{name: "null", text: "~\n", say: []string{":1:1: the file has no value"}},
		{name: "a word", text: "switch\n", say: []string{":1:1: the file is not a mapping"}},
		{name: "10 MB", text: onePort + strings.Repeat("# nothing here\n", 10_000_000/15),
			say: []string{":1:1: the file is too large", "1048576 bytes"}},
		{name: "endless", say: []string{":1:1: the file is too large"}, make: func(file string) error {
			return errors.Join(os.Remove(file), os.Symlink("/dev/zero", file))
		}},
		{name: "a FIFO that nobody writes to", say: []string{":1:1: the file is empty"}, make: func(file string) error {
			return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600))
		}},
		{name: "a program", text: string(program), say: []string{": the file is not text", "YAML in UTF-8"}},
		{name: "UTF-16", text: "\xff\xfep\x00o\x00r\x00t\x00s\x00:\x00", say: []string{":1:1: the file is not text"}},
		{name: "a control character", text: onePort + "\a", say: []string{":3:1: the character U+0007 is not allowed"}},
		{name: "duplicate key", text: onePort + "ports: []\n", say: []string{`:3:1: "ports" occurs twice`, "line 1"}},
		{name: "wrong unit", text: strings.Replace(onePort, "1G", "1Gbit/s", 1),
			say: []string{`:2:28: speed "1Gbit/s" has the unknown unit "Gbit/s"`, "like 500M, 2.5G or 10G"}},
		{name: "no unit", text: onePort + "classes: [{cos: [3], share: 4000}]\n",
			say: []string{`:3:29: share "4000" has no unit`, "like 160B"}},
		{name: "negative size", text: onePort + "classes: [{cos: [3], share: -4MB}]\n",
			say: []string{`:3:29: share "-4MB" is negative`, "from 0B to 100GB"}},
		{name: "aliases in aliases", text: bomb(), say: []string{":11:8: ports is an alias: write the value itself"}},
		{name: "lists in lists", text: "ports: " + strings.Repeat("[", 1e6), say: []string{"not valid YAML", "depth"}},
		{name: "mappings in mappings", text: strings.Repeat("{a: ", 250e3), say: []string{"not valid YAML", "depth"}},
		{name: "keys without number", text: manyKeys(), say: []string{`"k0" is not a key of the file`, "more"}},
		{name: "errors without number", text: "ports: [" + strings.Repeat("{},", 1024) + "]",
			say: []string{"port has no device", "and 2028 more"}},
	}
}

// TestBadInput runs check and run on invalid files. Both must fail quickly and say what to do.
func TestBadInput(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "run"} {
		for _, input := range unreadables {
			t.Run(command+" "+input.name, func(t *testing.T) { input.check(t, command, cli.ExitNoInput) })
		}
		for _, input := range mendables(self[:64<<10]) {
			t.Run(command+" "+input.name, func(t *testing.T) { input.check(t, command, cli.ExitConfiguration) })
		}
	}
}

// TestPipe checks that a configuration can be read from a pipe.
func TestPipe(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", `(sleep 0.2; cat "$1") | exec "$0" check -c /dev/stdin`, self, readable(t, onePort))
	c.Env = append(os.Environ(), program.AsProgram+"=1")
	p := program.LaunchCommand(t, nil, c)
	if code := p.ExitCode(); code != 0 || !strings.HasPrefix(p.Output.String(), "ok\n") {
		t.Errorf("exit code %d, %s", code, &p.Output)
	}
}

// check runs a command on the input and checks its exit code.
func (b *badInput) check(t *testing.T, command string, code int) {
	if b.without == root {
		program.NeedRoot(t)
	}
	file := readable(t, b.text)
	if b.make != nil {
		if err := b.make(file); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(without, b.without)
	p := program.Launch(t, nil, command, "-c", file)
	checkRefusal(t, p, code, append(b.say, file))
	if took := time.Since(p.Began); took > program.Patience/3 {
		t.Errorf("said after %v", took)
	}
	if code == cli.ExitConfiguration {
		checkProblems(t, p, file)
	}
}

// manyKeys returns as many unknown keys as fit in a file.
func manyKeys() string {
	var b strings.Builder
	for i := 0; b.Len() < 1<<20-20; i++ {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}
