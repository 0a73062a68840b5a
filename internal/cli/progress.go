package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress tells somebody who waits what is going on: on a terminal in one line that changes, with
// the time since the start, so that a long trial does not look like a hang; elsewhere in a line for
// each thing.
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

// StartProgress begins; Stop ends it.
func StartProgress(out io.Writer, name string) *Progress {
	p := &Progress{name: name, out: out, width: terminalWidth(out), began: time.Now(), done: make(chan struct{})}
	if p.width > 0 {
		go p.tick()
	}
	return p
}

// terminalWidth returns 0 if it is not a terminal that is written to.
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

// Say replaces what is going on.
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

const eraseLine = "\r\x1b[K" // back to the beginning, and erase to the end (ECMA-48, EL)

// draw rewrites the line. Nobody draws after Stop.
func (p *Progress) draw() {
	if p.stopped {
		return
	}
	elapsed := time.Since(p.began).Truncate(time.Second)
	line := []rune(fmt.Sprintf("%s %v: %s", p.name, elapsed, p.doing))
	fmt.Fprintf(p.out, "%s%s", eraseLine, string(line[:min(len(line), p.width-1)]))
}

// Stop leaves the terminal as it was.
func (p *Progress) Stop() {
	close(p.done)
	p.lock.Lock()
	defer p.lock.Unlock()
	p.stopped = true
	if p.width > 0 {
		fmt.Fprint(p.out, eraseLine)
	}
}
