package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a pseudo-terminal (pty(7)) that is so many characters wide.
func openTerminal(t *testing.T, width uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}); err != nil {
		t.Fatal(err)
	}
	return user, program
}

// TestProgressOnATerminal rewrites one line that never wraps, goes on while nothing is said, and is gone at the end.
func TestProgressOnATerminal(t *testing.T) {
	const width = 40
	user, program := openTerminal(t, width)
	p := startProgress(program, "some")
	p.say("a thing whose description is much longer than the terminal is wide, by %d %%", 200)
	p.say("short")
	time.Sleep(1100 * time.Millisecond)
	p.stop()
	p.say("too late")
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := io.ReadAll(user)
	if !errors.Is(err, unix.EIO) { // which says that the program has closed its end
		t.Fatal(err)
	}
	lines := strings.Split(string(written), eraseLine)
	for _, l := range lines {
		if len([]rune(l)) >= width || strings.Contains(l, "\n") {
			t.Errorf("%q wraps", l)
		}
	}
	if len(lines) < 5 || lines[0] != "" || lines[2] != "some 0s: short" || lines[3] != "some 1s: short" || lines[len(lines)-1] != "" {
		t.Errorf("%q", lines)
	}
}

func TestProgressElsewhere(t *testing.T) {
	var b bytes.Buffer
	p := startProgress(&b, "some")
	p.say("round %d", 1)
	p.say("round %d", 2)
	p.stop()
	if b.String() != "some: round 1\nsome: round 2\n" {
		t.Errorf("%q", &b)
	}
}
