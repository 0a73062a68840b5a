package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// at logs a record with a given time.
func at(t *testing.T, log *slog.Logger, ms int, message string, args ...any) {
	t.Helper()
	r := slog.NewRecord(time.Unix(1000, 0).Add(time.Duration(ms)*time.Millisecond), slog.LevelWarn, message, 0)
	r.Add(args...)
	if err := log.Handler().Handle(context.Background(), r); err != nil {
		t.Fatal(err)
	}
}

// written returns the lines written so far.
func written(w *Writer, out *bytes.Buffer) string {
	w.Flush(time.Minute)
	return out.String()
}

func TestMessageIsLimited(t *testing.T) {
	var out bytes.Buffer
	log, w, err := New(&out, slog.LevelInfo, Text)
	if err != nil {
		t.Fatal(err)
	}
	for range burst + 900 {
		at(t, log, 0, "storm", "port", "a")
	}
	if n := strings.Count(written(w, &out), "msg=storm"); n != burst {
		t.Errorf("%d of 900 more at once have passed, want %d", n, burst)
	}
	out.Reset()
	at(t, log, 10, "storm", "port", "b")
	if text := written(w, &out); !strings.HasSuffix(text, "port=b\n") {
		t.Errorf("of another port: %q", text)
	}
	out.Reset()
	at(t, log, 10, "storm", "port", "a", "x", 1)
	if text := written(w, &out); !strings.Contains(text, "x=1 suppressed=900\n") {
		t.Errorf("after the interval: %q", text)
	}
	out.Reset()
	at(t, log, 10, "storm", "port", "a")
	at(t, log, 900, "link changed") // too soon for an account of the other
	if text := written(w, &out); strings.Count(text, "\n") != 1 || !strings.Contains(text, `msg="link changed"`) ||
		strings.Contains(text, "suppressed") {
		t.Errorf("of another message: %q", text)
	}
	out.Reset()
	at(t, log, 1200, "link changed")
	if text := written(w, &out); strings.Count(text, "\n") != 2 ||
		!strings.Contains(text, `msg="log messages suppressed" message=storm port=a suppressed=1`) {
		t.Errorf("after the silence: %q", text)
	}
	out.Reset()
	const ms = 2000
	for i := range ms {
		at(t, log, 1_000_000+i, "storm", "port", "a")
	}
	if n, most := strings.Count(written(w, &out), "msg=storm"), burst+ms/10; n < most-1 || n > most+1 {
		t.Errorf("%d of %d in as many ms have passed, after a long silence: want %d and one each %v", n, ms, burst,
			interval)
	}
}

// TestMessagesAreBounded checks that messages that all differ use bounded memory.
func TestMessagesAreBounded(t *testing.T) {
	var out bytes.Buffer
	h := limit(slog.NewTextHandler(&out, nil)).(*limiter)
	log := slog.New(h)
	for i := range 10 * maxMessages {
		at(t, log, 0, fmt.Sprint("message ", i))
	}
	if len(h.all) > maxMessages+1 {
		t.Errorf("%d messages are remembered", len(h.all))
	}
	if n := strings.Count(out.String(), "\n"); n != maxMessages+burst {
		t.Errorf("%d records, want %d and a burst", n, maxMessages)
	}
}

// TestFirstOfAKindPasses checks that the first message of a kind passes after any number of other
// kinds, as with a thousand ports, and whatever is suppressed of them.
func TestFirstOfAKindPasses(t *testing.T) {
	var out bytes.Buffer
	h := limit(slog.NewTextHandler(&out, nil)).(*limiter)
	log := slog.New(h)
	const ports = 10 * maxMessages
	for i := range ports {
		at(t, log, i, "link changed", "port", fmt.Sprint("sw", i))
		at(t, log, i, "storm", "port", "a") // ten times as often as may be
	}
	if n := strings.Count(out.String(), `msg="link changed"`); n != ports {
		t.Errorf("%d of the first records of %d ports have passed", n, ports)
	}
	if n, most := strings.Count(out.String(), "msg=storm"), burst+ports/10; n < most-1 || n > most+1 {
		t.Errorf("%d records of a storm have passed meanwhile, want %d", n, most)
	}
	if len(h.all) > maxMessages {
		t.Errorf("%d kinds are remembered", len(h.all))
	}
}

// TestDescendantsShareTheLimit checks that a logger with attributes shares the limit.
func TestDescendantsShareTheLimit(t *testing.T) {
	var out bytes.Buffer
	log, w, err := New(&out, slog.LevelInfo, JSON)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * burst {
		at(t, log.With("i", i).WithGroup("g"), 0, "same", "x", 1)
	}
	lines := strings.Split(strings.TrimSpace(written(w, &out)), "\n")
	if len(lines) != burst {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}

func TestLevelAndFormat(t *testing.T) {
	var out bytes.Buffer
	log, w, err := New(&out, slog.LevelError, Text)
	if err != nil {
		t.Fatal(err)
	}
	log.Warn("not this")
	log.Error("this")
	if text := written(w, &out); strings.Contains(text, "not") || !strings.Contains(text, "this") {
		t.Errorf("%q", text)
	}
	if _, _, err := New(&out, slog.LevelError, "xml"); err == nil || !strings.Contains(err.Error(), "text or json") {
		t.Errorf("of a format that there is not: %v", err)
	}
}
