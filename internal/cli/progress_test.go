package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
)

// TestProgressOnATerminal checks that a terminal shows one line that never wraps, updates every
// second, and disappears at the end.
func TestProgressOnATerminal(t *testing.T) {
	const width = 40
	user, program := program.OpenTerminal(t, width)
	p := StartProgress(program, "some")
	p.Say("a thing whose description is much longer than the terminal is wide, by %d %%", 200)
	p.Say("short")
	time.Sleep(1100 * time.Millisecond)
	p.Stop()
	p.Say("too late")
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := io.ReadAll(user)
	if !errors.Is(err, unix.EIO) { // EIO: the program has closed its end
		t.Fatal(err)
	}
	lines := strings.Split(string(written), eraseLine)
	for _, l := range lines {
		if len([]rune(l)) >= width || strings.Contains(l, "\n") {
			t.Errorf("%q wraps", l)
		}
	}
	if len(lines) < 5 || lines[0] != "" || lines[2] != "some 0s: short" || lines[3] != "some 1s: short" ||
		lines[len(lines)-1] != "" {
		t.Errorf("%q", lines)
	}
}

func TestProgressElsewhere(t *testing.T) {
	var b bytes.Buffer
	p := StartProgress(&b, "some")
	p.Say("round %d", 1)
	p.Say("round %d", 2)
	p.Stop()
	if b.String() != "some: round 1\nsome: round 2\n" {
		t.Errorf("%q", &b)
	}
}
