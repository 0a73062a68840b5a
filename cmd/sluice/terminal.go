package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"sluice/internal/screen"
)

// What a terminal is told, in the sequences of ECMA-48 and, with a question mark, of DEC's
// terminals, which all that call themselves xterm, screen, tmux or linux obey.
const (
	// takeScreen goes to the alternate screen, so that what was there before comes back at the end;
	// it hides the cursor and cuts lines that are too long, as they are for a moment when the
	// window becomes narrower, instead of wrapping them.
	takeScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	giveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"

	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[2K"
	clearBelow  = "\x1b[J" // and what is behind the cursor
	styleNormal = "\x1b[m"
)

// styleCodes are what makes a line look other than plain.
var styleCodes = map[screen.Style]string{
	screen.Heading: "\x1b[1m",    // bold
	screen.Good:    "\x1b[32m",   // green
	screen.Bad:     "\x1b[1;31m", // bold and red
	screen.Faint:   "\x1b[2m",
}

// terminal is the window that somebody looks at, and the keys under their fingers.
type terminal struct {
	in, out *os.File
	styles  bool          // lines may have styles
	taken   bool          // by us
	found   *unix.Termios // how the keyboard was before; nil if there is none, or it is not taken
}

// newTerminal returns the terminal that the program writes to, or nil if it writes to something
// else, or to a terminal that is said to be dumb. Colours and the like are used unless the
// environment says NO_COLOR (no-color.org).
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

// size returns how many characters and lines the window has. A terminal that does not know is taken
// for one of 80 by 24.
func (t *terminal) size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width == 0 || height == 0 {
		return 80, 24
	}
	return width, height
}

// take makes the window ours until give. Keys come one by one and are not shown; Ctrl-C and Ctrl-\
// go on sending signals, and Ctrl-Z is a key. To take it again does no harm, and mends what others
// have done to it meanwhile.
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
		ours.Cc[unix.VMIN], ours.Cc[unix.VTIME], ours.Cc[unix.VSUSP] = 1, 0, 0 // none (_POSIX_VDISABLE)
		if err := unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, &ours); err != nil {
			return err
		}
	}
	t.taken = true
	_, err := t.out.WriteString(takeScreen)
	return err
}

// give leaves window and keyboard as they were found. Keys that nobody has read are forgotten: they
// were not meant for whoever reads the keyboard next.
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

// suspend gives the window to the shell, stops, and takes the window again when the program goes
// on. The signal is the one that the terminal itself would send (Ctrl-Z is only a key while the
// window is ours), to whom it would send it: the kernel ignores it where there is no shell that
// could let us go on.
func (t *terminal) suspend() error {
	err := errors.Join(t.give(), unix.Kill(0, unix.SIGTSTP))
	time.Sleep(50 * time.Millisecond) // in which it comes
	return errors.Join(err, t.take())
}

// draw replaces what the window shows by as many lines as it has, in one write, so that no half of
// it is ever seen.
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

// keys sends what is typed, as it comes, until the terminal is gone; then it closes the channel.
// Without a keyboard it never sends anything.
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
