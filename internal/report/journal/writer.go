package journal

import (
	"io"
	"sync/atomic"
	"time"
)

// maxWaiting bounds the queued lines. A start or a drain logs fewer.
const maxWaiting = 4096

// Writer writes lines to another writer from its own goroutine, so logging never blocks. It drops
// and counts lines while maxWaiting are queued, and lines that the other writer rejects.
type Writer struct {
	to    io.Writer
	lines chan line
	lost  atomic.Uint64
}

type line struct {
	text []byte
	turn chan<- struct{} // of a Flush: closed instead of writing text
}

// newWriter returns a Writer to to. say logs the number of lines lost since its last call.
func newWriter(to io.Writer, say func(lost uint64) error) *Writer {
	w := &Writer{to: to, lines: make(chan line, maxWaiting)}
	go w.run(say)
	return w
}

func (w *Writer) run(say func(lost uint64) error) {
	said := uint64(0)
	for l := range w.lines {
		if l.turn != nil {
			close(l.turn)
			continue
		}
		if lost := w.lost.Load(); lost > said && say(lost-said) == nil {
			said = lost
		}
		if _, err := w.to.Write(l.text); err != nil {
			w.lost.Add(1)
		}
	}
}

// Write implements io.Writer. It never waits and never fails.
func (w *Writer) Write(text []byte) (int, error) {
	select {
	case w.lines <- line{text: append([]byte(nil), text...)}:
	default:
		w.lost.Add(1)
	}
	return len(text), nil
}

// Lost returns how many lines have been lost so far.
func (w *Writer) Lost() uint64 { return w.lost.Load() }

// Flush waits until all earlier lines are written, for up to patience. It reports whether they are.
func (w *Writer) Flush(patience time.Duration) bool {
	over, turn := time.After(patience), make(chan struct{})
	select {
	case w.lines <- line{turn: turn}:
	case <-over:
		return false
	}
	select {
	case <-turn:
		return true
	case <-over:
		return false
	}
}
