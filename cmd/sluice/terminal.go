package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"sluice/internal/report/screen"
)

// Terminal sequences from ECMA-48 and, with a question mark, from DEC. All terminals named xterm,
// screen, tmux or linux understand them.
const (
	// takeScreen switches to the alternate screen, so that giveScreen restores what was there
	// before. It hides the cursor, and cuts long lines instead of wrapping them: lines are briefly
	// too long when the window gets narrower.
	takeScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	giveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"

	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[2K"
	clearBelow  = "\x1b[J" // erase all after the cursor
	styleNormal = "\x1b[m"
)

// styleCodes are the sequences that start a style.
var styleCodes = map[screen.Style]string{
	screen.Heading: "\x1b[1m",    // bold
	screen.Good:    "\x1b[32m",   // green
	screen.Bad:     "\x1b[1;31m", // bold and red
	screen.Faint:   "\x1b[2m",
}

// terminal is a window and its keyboard.
type terminal struct {
	in, out *os.File
	styles  bool          // use colours and bold
	taken   bool          // between take and give
	found   *unix.Termios // settings of the keyboard before take; nil: not taken, or no keyboard
}

// newTerminal returns the terminal that the program writes to, or nil if out is not a terminal or a
// dumb one. Styles are off if NO_COLOR is set (no-color.org).
func newTerminal(in io.Reader, out io.Writer) *terminal {
	o, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(o.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	t := &terminal{out: o, styles: os.Getenv("NO_COLOR") == ""}
	if i, ok := in.(*os.File); ok && term.IsTerminal(int(i.Fd())) {
		t.in = i
	}
	return t
}

// size returns the width and height of the window in characters, or 80 by 24 if the terminal does
// not know.
func (t *terminal) size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width == 0 || height == 0 {
		return 80, 24
	}
	return width, height
}

// take takes over the window until give. Keys arrive one by one and are not echoed; Ctrl-C and
// Ctrl-\ still send signals, but Ctrl-Z is a key. Taking the window again is safe, and undoes what
// other programs have changed.
func (t *terminal) take() error {
	if t.in != nil {
		if t.found == nil {
			found, err := unix.IoctlGetTermios(int(t.in.Fd()), unix.TCGETS)
			if err != nil {
				return err
			}
			t.found = found
		}
		ours := *t.found
		ours.Lflag &^= unix.ICANON | unix.ECHO
		ours.Cc[unix.VMIN], ours.Cc[unix.VTIME], ours.Cc[unix.VSUSP] = 1, 0, 0 // no suspend key (_POSIX_VDISABLE)
		if err := unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, &ours); err != nil {
			return err
		}
	}
	t.taken = true
	_, err := t.out.WriteString(takeScreen)
	return err
}

// give restores the window and the keyboard. It discards unread keys, which were not meant for the
// next program.
func (t *terminal) give() (err error) {
	if t.taken {
		t.taken = false
		_, err = t.out.WriteString(giveScreen)
	}
	if t.found != nil {
		err = errors.Join(err, unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETSF, t.found))
		t.found = nil
	}
	return err
}

// suspend gives the window back, stops the process, and takes the window again when the process
// continues. It signals its process group with SIGTSTP as the terminal does for Ctrl-Z, which take
// has made a key. The kernel ignores the signal if no shell could continue the process.
func (t *terminal) suspend() error {
	err := errors.Join(t.give(), unix.Kill(0, unix.SIGTSTP))
	time.Sleep(50 * time.Millisecond) // until the signal arrives
	return errors.Join(err, t.take())
}

// draw replaces the contents of the window in one write, so that no partial screen is visible.
func (t *terminal) draw(lines []screen.Line) error {
	var b strings.Builder
	b.WriteString(cursorHome)
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(clearLine)
		if code := styleCodes[l.Style]; t.styles && code != "" {
			b.WriteString(code + l.Text + styleNormal)
		} else {
			b.WriteString(l.Text)
		}
	}
	_, err := t.out.WriteString(b.String())
	return err
}

// keys returns a channel of typed characters, closed when the terminal is gone. Without a keyboard
// nothing is ever sent.
func (t *terminal) keys() <-chan string {
	typed := make(chan string)
	if t.in == nil {
		return typed
	}
	go func() {
		defer close(typed)
		for buffer := make([]byte, 64); ; {
			n, err := t.in.Read(buffer)
			if err != nil || n == 0 {
				return
			}
			typed <- string(buffer[:n])
		}
	}()
	return typed
}
