package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/bench/testkit/program"
)

// tourPrelude gives the shell an unused machine: no devices but lo, no namespaces, no switch.
const tourPrelude = "mount -t tmpfs none /run\nmount -t sysfs none /sys\nip link set lo up\n"

// tourStops are, for each block of the tour, patterns that its output must and must not match.
var tourStops = []struct{ prints, not string }{
	{`^$`, ``},
	{`(?s)^ok\n.*cos3 +3 +never.*lossless drops: 0\n.*2 of 2 ports up`, ``},
	{`^$`, ``},
	{`(?s)lossless drops: 0\n.*to-receiver +0 .* queue_full +[1-9].*` + // show drops
		`PORT TX.*to-sender +0 +0 +0 +[1-9].*` + // show pfc
		`sent xoff for.*` + // top
		`100 of [0-9]+ frames captured.*` + // capture
		`ok +switch +running.*errors: `, `ALARM`}, // doctor
	{`^$`, ``},
	{`(?s)to-receiver:3 +stormed +1/0.*alertname="SluicePauseStorm", alertstate="firing", device="to-receiver"`,
		`SluiceLosslessDrop`},
	{`(?s)lossless drops: 0\n.*flow 0: sent [1-9].*PFC frames: [1-9].*` +
		`flow 0: received [1-9][0-9]* frames, [0-9]+ bytes; 0 missing`, ``},
	{`(?s)port1 +agreed +3 +3\n.*pass: lossless lost 0 of [1-9].*port1 +no-peer +none +none\n.*` +
		`fail: lossless lost [1-9].* 0 of them lossless for lack of room`, ``},
	{`frames of 60 to 9234 bytes(?s:.*)\npass: lossless lost 0 of [1-9]`, ``},
}

// tourEnd prints what is left after the tour, which must be nothing.
const tourEnd = "\necho '= end'; ip netns; ls -d tour 2>/dev/null; ip -o link | grep -v ' lo:'; jobs\n"

// TestTour pastes the blocks of docs/tutorial.md into a shell one by one.
func TestTour(t *testing.T) {
	program.NeedRoot(t)
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s (scripts/install-peers): %v", program, err)
		}
	}
	blocks := tourBlocks(t)
	if len(blocks) != len(tourStops) {
		t.Fatalf("the tour has %d blocks, and the test knows %d", len(blocks), len(tourStops))
	}
	var script strings.Builder
	script.WriteString(tourPrelude)
	for i, b := range blocks {
		fmt.Fprintf(&script, "echo '= %d'\n%s", i, b)
	}
	script.WriteString(tourEnd)
	said := strings.Split(paste(t, script.String()), "\n= ")
	if len(said) != len(blocks)+2 {
		t.Fatalf("%d blocks have said:\n%s", len(said)-2, strings.Join(said, "\n"))
	}
	for i, stop := range tourStops {
		_, text, _ := strings.Cut(said[i+1], "\n")
		if !regexp.MustCompile(stop.prints).MatchString(text) {
			t.Errorf("%s\nprints\n%s\nand is to print %s", blocks[i], text, stop.prints)
		}
		if stop.not != "" && strings.Contains(text, stop.not) {
			t.Errorf("%s\nprints %s:\n%s", blocks[i], stop.not, text)
		}
	}
	if last := strings.TrimSpace(said[len(said)-1]); last != "end" {
		t.Errorf("left behind: %s", last)
	}
}

// tourBlocks returns the blocks of docs/tutorial.md to paste, without indentation.
func tourBlocks(t *testing.T) (blocks []string) {
	t.Helper()
	tutorial, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(tutorial), "\n## Two hosts\n")
	section, _, _ = strings.Cut(section, "\n## Your own switch\n")
	within := false
	for line := range strings.Lines(section) {
		command, indented := strings.CutPrefix(line, "    ")
		if indented && !within {
			blocks = append(blocks, "")
		}
		if within = indented; indented {
			blocks[len(blocks)-1] += command
		}
	}
	return blocks
}

// paste runs a script in its own namespaces and directory, with the programs where `make build`
// puts them, and returns the output. All its processes end with it.
func paste(t *testing.T, script string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	clone := t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(clone, "bin"), 0o755),
		os.Symlink(self, filepath.Join(clone, "bin/sluice")),
		os.Symlink(program.Path(t, "sluice-lab"), filepath.Join(clone, "bin/sluice-lab")),
		os.Symlink(deploy, filepath.Join(clone, "deploy")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		"bash", "-s")
	shell.Dir, shell.Env, shell.Stdin = clone, append(os.Environ(), program.AsProgram+"=1"), strings.NewReader(script)
	shell.WaitDelay = time.Second
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return "\n" + string(out)
}
