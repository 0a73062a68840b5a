package journal

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// gate is a writer that blocks until it is opened, like a pipe without a reader.
type gate struct {
	open chan struct{}
	bytes.Buffer
}

func (g *gate) Write(text []byte) (int, error) {
	<-g.open
	return g.Buffer.Write(text)
}

// TestNobodyReads: logging never blocks, and when reading resumes, the lost lines are reported.
func TestNobodyReads(t *testing.T) {
	for _, format := range []Format{Text, JSON} {
		g := &gate{open: make(chan struct{})}
		log, w, err := New(g, slog.LevelInfo, format)
		if err != nil {
			t.Fatal(err)
		}
		const more = 100
		for i := range maxWaiting + 1 + more { // one is being written
			log.Info("message", "port", i)
		}
		if lost := w.Lost(); lost < more || lost > more+1 {
			t.Errorf("%s: %d lines lost, want %d or one more", format, lost, more)
		}
		if w.Flush(time.Millisecond) {
			t.Errorf("%s: what nobody has read was handed on", format)
		}
		close(g.open)
		if !w.Flush(time.Minute) {
			t.Fatalf("%s: not handed on", format)
		}
		log.Info("the last")
		w.Flush(time.Minute)
		text := g.String()
		if n := strings.Count(text, "log lines lost"); n != 1 {
			t.Errorf("%s: it is said %d times that lines were lost", format, n)
		}
		if n := strings.Count(text, "message"); n < maxWaiting {
			t.Errorf("%s: %d lines have arrived", format, n)
		}
	}
}

// broken is a writer that fails a number of times, like a full disk.
type broken struct {
	bytes.Buffer
	times int
}

func (b *broken) Write(text []byte) (int, error) {
	if b.times--; b.times >= 0 {
		return 0, errors.New("no space left")
	}
	return b.Buffer.Write(text)
}

// TestNobodyTakes: lines that can't be written are counted, and later ones are written.
func TestNobodyTakes(t *testing.T) {
	b := &broken{times: 3}
	log, w, err := New(b, slog.LevelInfo, Text)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("one")
	log.Info("two") // before it, the loss of the first is reported in vain
	log.Info("three")
	log.Info("four")
	if !w.Flush(time.Minute) {
		t.Fatal("not handed on")
	}
	text := b.String()
	if w.Lost() == 0 || !strings.Contains(text, "four") || !strings.Contains(text, "lines=") {
		t.Errorf("%d lines lost: %s", w.Lost(), text)
	}
}
