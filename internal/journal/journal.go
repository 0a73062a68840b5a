// Package journal is where the program's log goes: records of slog, as text or JSON, from a level
// on, and each message about each port only so often, since thousands of the same hide what
// matters. Logging never blocks.
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
	// burst and interval bound one message about one port: so many at once, then one each interval.
	burst    = 1000
	interval = 10 * time.Millisecond
	// maxMessages bounds what is remembered: of which kinds so much has come lately that there is
	// something to remember. When they are more, those beyond share a bound.
	maxMessages = 1024
	// silence is how long no record has come with a message before it is said how many were kept
	// back.
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
		return nil, nil, fmt.Errorf("a log format %q: choose %s or %s", format, Text, JSON)
	}
	w := newWriter(to, func(lost uint64) error {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines lost", 0)
		r.AddAttrs(slog.Uint64("lines", lost))
		return handler(to).Handle(context.Background(), r)
	})
	return slog.New(limit(handler(w))), w, nil
}

// limiter passes on so many records with one message about one port. How many it has kept back it
// says with the next of them, or when none has come for a while, before the next record of any
// kind.
type limiter struct {
	slog.Handler
	*messages // shared with those made by With
}

// messages is what a limiter remembers.
type messages struct {
	lock sync.Mutex
	all  map[subject]*bucket
}

// subject is what a bound is for: a port that comes and goes all the time does not hide another.
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

// bucket is what is left of a bound.
type bucket struct {
	left       int       // records that may pass at once
	at         time.Time // when left was counted
	suppressed int       // since the last that passed
	last       slog.Record
}

func limit(h slog.Handler) slog.Handler {
	return &limiter{h, &messages{all: map[subject]*bucket{}}}
}

// Handle implements slog.Handler. The time is that of the record.
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

// take tells whether a record may pass, how many before it about the same did not, and what others
// were kept back whose burst is over.
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

// bucket returns what a record's subject may still do.
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
		key = subject{} // which all others share
	}
	if b = m.all[key]; b == nil {
		b = &bucket{left: burst, at: r.Time}
		m.all[key] = b
	}
	return b
}

// forget drops the bounds that are whole again, which are like new ones: so that the first record
// of a kind does not share a bound with others, however many kinds there have been.
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
