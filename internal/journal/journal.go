// Package journal is where the program's log goes: records of slog, as text or JSON, from a level
// on. Logging never blocks. How many lines are kept is for whoever reads the log to say, as
// journald does (RateLimitBurst= of journald.conf).
package journal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Format is how records are written.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
)

// New returns a logger that writes to to through a Writer. It fails on an unknown format.
func New(to io.Writer, level slog.Level, format Format) (*slog.Logger, *Writer, error) {
	options := &slog.HandlerOptions{Level: level}
	var handler func(io.Writer) slog.Handler
	switch format {
	case Text:
		handler = func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, options) }
	case JSON:
		handler = func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, options) }
	default:
		return nil, nil, fmt.Errorf("a log format %q: choose %s or %s", format, Text, JSON)
	}
	w := newWriter(to, func(lost uint64) error {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines lost", 0)
		r.AddAttrs(slog.Uint64("lines", lost))
		return handler(to).Handle(context.Background(), r)
	})
	return slog.New(handler(w)), w, nil
}
