package snoop

import (
	"context"
	"log/slog"

	"sluice/internal/fcoe"
)

// A port may have so many lines in the log about one thing in that time. What happens more often is
// counted, so that a flood of frames does not become one of lines.
const (
	logInterval  = 10e9 // ns
	refusalLines = 1    // for each reason
	changeLines  = 16   // FCFs that come or go, virtual links that open, and those that end
)

// logs limit the lines about a port.
type logs struct {
	refusals             [Reasons]limiter
	fcfs, opened, closed limiter
}

// limiter limits the lines about one thing.
type limiter struct {
	since   int64  // begin of the interval, if lines is not 0
	lines   int    // in it
	skipped uint64 // lines that were not
}

// allow reports whether there may be a line, and counts it.
func (s *System) allow(now int64, l *limiter, most int) bool {
	if now >= l.since+logInterval && l.skipped == 0 {
		l.lines = 0
	}
	if l.lines == 0 {
		l.since = now
	}
	if l.lines < most {
		l.lines++
		return true
	}
	l.skipped++
	s.due(l.since + logInterval)
	return false
}

// ended returns how many lines were skipped in an interval that is over, and begins another one.
func (s *System) ended(now int64, l *limiter) (skipped uint64) {
	if l.skipped == 0 {
		return 0
	}
	if over := l.since + logInterval; now < over {
		s.due(over)
		return 0
	}
	skipped = l.skipped
	*l = limiter{since: now, lines: 1}
	return skipped
}

// flushLogs logs how much was skipped.
func (s *System) flushLogs(now int64) {
	for _, p := range s.ports {
		for reason := range p.logs.refusals {
			if n := s.ended(now, &p.logs.refusals[reason]); n > 0 {
				s.log.Warn("FIP frames refused", "port", p.Name, "reason", Reason(reason).String(), "frames", n)
			}
		}
		if n := s.ended(now, &p.logs.fcfs); n > 0 {
			s.log.Warn("FCFs have come and gone", "port", p.Name, "times", n)
		}
		if n := s.ended(now, &p.logs.opened); n > 0 {
			s.log.Info("FCoE sessions began", "port", p.Name, "sessions", n)
		}
		if n := s.ended(now, &p.logs.closed); n > 0 {
			s.log.Info("FCoE sessions ended", "port", p.Name, "sessions", n)
		}
	}
}

// logRefusal logs the frame that a port has refused last. Frames without a receiver get no
// line: an FCF sends them all the time.
func (s *System) logRefusal(now int64, p *port, reason Reason) {
	if reason == NoEgress || !s.allow(now, &p.logs.refusals[reason], refusalLines) {
		return
	}
	last := &p.last[reason]
	source, text := last.describe()
	s.log.Warn("FIP frame refused", "port", p.Name, "reason", reason.String(), "vlan", last.vid, "source", source,
		"frame", text)
}

// logFCF logs that an FCF has come or gone.
func (s *System) logFCF(now int64, f *fcf, what string, attributes ...any) {
	if s.allow(now, &f.port.logs.fcfs, changeLines) {
		s.log.Info(what, append([]any{"port", f.port.Name, "vlan", f.vid, "fcf", f.mac.String()}, attributes...)...)
	}
}

// logPeriod logs that an FCF advertises a period that the switch does not take at its word.
func (s *System) logPeriod(now int64, f *fcf, p fcoe.Period) {
	used := periodOf(p) / millisecond
	if used != int64(p.Millis) && s.allow(now, &f.port.logs.fcfs, changeLines) {
		s.log.Warn("FKA_ADV_PERIOD of an FCF is out of range", "port", f.port.Name, "vlan", f.vid, "fcf",
			f.mac.String(), "advertised_ms", p.Millis, "used_ms", used)
	}
}

// logOpened logs that a virtual link has opened.
func (s *System) logOpened(now int64, l *link) {
	if s.allow(now, &l.enode.port.logs.opened, changeLines) {
		s.log.Info("FCoE session began", l.attributes()...)
	}
}

// logEnded logs that a virtual link has ended.
func (s *System) logEnded(now int64, l *link, why Cause) {
	if !s.allow(now, &l.enode.port.logs.closed, changeLines) {
		return
	}
	level := slog.LevelInfo
	if why.Alerts() {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, "FCoE session ended", append(l.attributes(), "why", why.String())...)
}

func (l *link) attributes() []any {
	e := l.enode
	return []any{"port", e.port.Name, "vlan", l.vid, "vn_port", l.mac.String(), "wwpn", l.wwpn.String(),
		"enode", e.mac.String(), "fcf", e.fcf.mac.String()}
}
