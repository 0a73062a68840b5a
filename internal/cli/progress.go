package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress shows what a long command is doing. On a terminal it rewrites one line with the time
// since the start, so that a long trial does not look like a hang. Elsewhere it prints a line per
// message.
type Progress struct {
	name  string
	out   io.Writer
	width int // of the terminal, in characters; 0: not a terminal
	began time.Time
	done  chan struct{}

	lock    sync.Mutex
	doing   string
	stopped bool
}

// StartProgress starts a progress display; call Stop to end it.
func StartProgress(out io.Writer, name string) *Progress {
	p := &Progress{name: name, out: out, width: terminalWidth(out), began: time.Now(), done: make(chan struct{})}
	if p.width > 0 {
		go p.tick()
	}
	return p
}

// terminalWidth returns the width of the terminal w, at least 20, or 0 if w is not a terminal.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return max(width, 20)
}

func (p *Progress) tick() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-t.C:
			p.lock.Lock()
			p.draw()
			p.lock.Unlock()
		}
	}
}

// Say replaces the message.
func (p *Progress) Say(format string, args ...any) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.doing = fmt.Sprintf(format, args...)
	if p.width == 0 {
		fmt.Fprintf(p.out, "%s: %s\n", p.name, p.doing)
		return
	}
	p.draw()
}

const eraseLine = "\r\x1b[K" // carriage return, then erase to the end of the line (ECMA-48, EL)

// draw rewrites the line, and does nothing after Stop.
func (p *Progress) draw() {
	if p.stopped {
		return
	}
	elapsed := time.Since(p.began).Truncate(time.Second)
	line := []rune(fmt.Sprintf("%s %v: %s", p.name, elapsed, p.doing))
	fmt.Fprintf(p.out, "%s%s", eraseLine, string(line[:min(len(line), p.width-1)]))
}

// Stop ends the display and erases its line.
func (p *Progress) Stop() {
	close(p.done)
	p.lock.Lock()
	defer p.lock.Unlock()
	p.stopped = true
	if p.width > 0 {
		fmt.Fprint(p.out, eraseLine)
	}
}
