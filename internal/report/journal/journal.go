// Package journal writes the program's log: slog records of a minimum level, as text or JSON. It
// limits each message about each port, because thousands of the same message hide the others: in
// the queue of lines, and in journald, whose own limit counts the lines of the whole service.
// Logging never blocks.
package journal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Format is how records are written.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
)

const (
	// burst and interval limit one message about one port: burst records at once, then one per
	// interval.
	burst    = 1000
	interval = 10 * time.Millisecond
	// maxMessages limits the number of buckets. Further kinds of messages share one.
	maxMessages = 1024
	// silence is the time without a record of a kind after which the number of suppressed ones is
	// logged.
	silence = time.Second
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
		return nil, nil, fmt.Errorf("log format %q does not exist: choose %s or %s", format, Text, JSON)
	}
	w := newWriter(to, func(lost uint64) error {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines lost", 0)
		r.AddAttrs(slog.Uint64("lines", lost))
		return handler(to).Handle(context.Background(), r)
	})
	return slog.New(limit(handler(w))), w, nil
}

// limiter limits the records with one message about one port. It reports the number of suppressed
// records with the next one that passes or, after a silence, before the next record of any kind.
type limiter struct {
	slog.Handler
	*messages // shared with the handlers that WithAttrs and WithGroup return
}

// messages holds the buckets of a log.
type messages struct {
	lock sync.Mutex
	all  map[subject]*bucket
}

// subject is what a bucket limits. It has the port, so that one flapping port does not hide
// another.
type subject struct{ message, port string }

func subjectOf(r slog.Record) subject {
	s := subject{message: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "port" {
			s.port = a.Value.String()
		}
		return s.port == ""
	})
	return s
}

// bucket is a token bucket.
type bucket struct {
	left       int       // records that may pass now
	at         time.Time // when left was updated
	suppressed int       // since the last record that passed
	last       slog.Record
}

func limit(h slog.Handler) slog.Handler {
	return &limiter{h, &messages{all: map[subject]*bucket{}}}
}

// Handle implements slog.Handler. It takes the time from the record.
func (l *limiter) Handle(ctx context.Context, r slog.Record) error {
	passes, suppressed, over := l.take(r)
	for _, b := range over {
		note := slog.NewRecord(r.Time, b.last.Level, "log messages suppressed", 0)
		about := subjectOf(b.last)
		note.AddAttrs(slog.String("message", about.message), slog.String("port", about.port),
			slog.Int("suppressed", b.suppressed))
		if err := l.Handler.Handle(ctx, note); err != nil {
			return err
		}
	}
	if !passes {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return l.Handler.Handle(ctx, r)
}

// take reports whether a record may pass, how many records of its kind were suppressed before it,
// and the kinds with suppressed records that have been silent since.
func (m *messages) take(r slog.Record) (passes bool, suppressed int, over []bucket) {
	m.lock.Lock()
	defer m.lock.Unlock()
	b := m.bucket(r)
	for _, other := range m.all {
		if other != b && other.suppressed > 0 && r.Time.Sub(other.last.Time) > silence {
			over = append(over, *other)
			other.suppressed = 0
		}
	}
	if n := int(r.Time.Sub(b.at) / interval); n > 0 {
		b.left, b.at = min(burst, b.left+n), b.at.Add(time.Duration(n)*interval)
	}
	b.last = r
	if b.left == 0 {
		b.suppressed++
		return false, 0, over
	}
	b.left--
	suppressed, b.suppressed = b.suppressed, 0
	return true, suppressed, over
}

// bucket returns the bucket of a record.
func (m *messages) bucket(r slog.Record) *bucket {
	key := subjectOf(r)
	b := m.all[key]
	if b != nil {
		return b
	}
	if len(m.all) >= maxMessages {
		m.forget(r.Time)
	}
	if len(m.all) >= maxMessages {
		key = subject{} // the shared one
	}
	if b = m.all[key]; b == nil {
		b = &bucket{left: burst, at: r.Time}
		m.all[key] = b
	}
	return b
}

// forget deletes full buckets, which are like new ones. So the first record of a new kind gets a
// bucket of its own, however many kinds there have been.
func (m *messages) forget(now time.Time) {
	for key, b := range m.all {
		if b.suppressed == 0 && b.left+int(now.Sub(b.at)/interval) >= burst {
			delete(m.all, key)
		}
	}
}

// WithAttrs implements slog.Handler.
func (l *limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limiter{l.Handler.WithAttrs(attrs), l.messages}
}

// WithGroup implements slog.Handler.
func (l *limiter) WithGroup(name string) slog.Handler {
	return &limiter{l.Handler.WithGroup(name), l.messages}
}
