package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
)

// viewer is a program on its own terminal, and the user in front of it.
type viewer struct {
	t             *testing.T
	cmd           *exec.Cmd
	user, program *os.File      // the two ends of the terminal; user has screen and keyboard
	found         unix.Termios  // settings of the terminal before
	ended         chan struct{} // closed when the program has ended
	drained       chan struct{} // closed when all output is on the screen

	lock   sync.Mutex
	screen *emulator
	wrote  strings.Builder
	wrong  error // error of the screen
}

// onTerminal starts sluice on a new terminal of 80 by 24 (see commandOnTerminal).
func onTerminal(t *testing.T, args ...string) *viewer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return commandOnTerminal(t, exec.Command(self, args...))
}

// commandOnTerminal starts a program as session leader on a new terminal, so that keys become
// signals. The end of the test kills the program, and prints its screen if the test failed.
func commandOnTerminal(t *testing.T, c *exec.Cmd) *viewer {
	t.Helper()
	v := &viewer{t: t, cmd: c, ended: make(chan struct{}), drained: make(chan struct{}), screen: newEmulator(80, 24)}
	v.user, v.program = program.OpenTerminal(t, 80)
	v.found = v.settings()
	c.Env = append(os.Environ(), program.AsProgram+"=1", "TERM=xterm")
	c.Stdin, c.Stdout, c.Stderr = v.program, v.program, v.program
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.Wait() // ProcessState has the result
		close(v.ended)
	}()
	go v.watch()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-v.ended
		if t.Failed() {
			t.Logf("screen of %s:\n%s", c, strings.Join(v.lines(), "\n"))
		}
	})
	return v
}

// settings returns the terminal's settings.
func (v *viewer) settings() unix.Termios {
	v.t.Helper()
	s, err := unix.IoctlGetTermios(int(v.program.Fd()), unix.TCGETS)
	if err != nil {
		v.t.Fatal(err)
	}
	return *s
}

// watch draws the program's output on the screen.
func (v *viewer) watch() {
	defer close(v.drained)
	for b := make([]byte, 4096); ; {
		n, err := v.user.Read(b)
		v.lock.Lock()
		v.wrote.Write(b[:n])
		v.wrong = errors.Join(v.wrong, v.screen.write(string(b[:n])))
		v.lock.Unlock()
		if err != nil {
			return
		}
	}
}

// lines returns the lines on the screen.
func (v *viewer) lines() []string {
	v.lock.Lock()
	defer v.lock.Unlock()
	return v.screen.text()
}

// written returns the program's output.
func (v *viewer) written() string {
	v.lock.Lock()
	defer v.lock.Unlock()
	return v.wrote.String()
}

// await waits until shown accepts the lines on the screen, and returns them.
func (v *viewer) await(what string, shown func(lines []string) bool) []string {
	v.t.Helper()
	var lines []string
	program.Until(v.t, what, func() bool {
		lines = v.lines()
		return shown(lines)
	})
	return lines
}

// awaitText waits until a line of the screen contains text.
func (v *viewer) awaitText(text string) []string {
	v.t.Helper()
	return v.await(fmt.Sprintf("%q on the screen", text), func(lines []string) bool { return onScreen(lines, text) })
}

func onScreen(lines []string, text string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, text) })
}

// press types keys.
func (v *viewer) press(keys string) {
	v.t.Helper()
	if _, err := v.user.WriteString(keys); err != nil {
		v.t.Fatal(err)
	}
}

// resize changes the size of the window; the kernel notifies the program.
func (v *viewer) resize(width, height int) {
	v.t.Helper()
	v.lock.Lock()
	v.screen.resize(width, height)
	v.lock.Unlock()
	if err := unix.IoctlSetWinsize(int(v.user.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Col: uint16(width), Row: uint16(height)}); err != nil {
		v.t.Fatal(err)
	}
}

// exitCode waits until the program ends, checks that the terminal is restored, and returns the exit
// code.
func (v *viewer) exitCode() int {
	v.t.Helper()
	select {
	case <-v.ended:
	case <-time.After(program.Patience):
		v.t.Fatalf("has not ended within %v", program.Patience)
	}
	if after := v.settings(); after != v.found {
		v.t.Errorf("the terminal's settings were %+v, are %+v", v.found, after)
	}
	v.program.Close() // so that watch reaches the end
	<-v.drained
	s := v.screen
	if s.alternate || s.hidden || s.nowrap || v.wrong != nil {
		v.t.Errorf("left with the alternate screen %t, no cursor %t, no wrapping %t; not understood: %v", s.alternate,
			s.hidden, s.nowrap, v.wrong)
	}
	return v.cmd.ProcessState.ExitCode()
}
