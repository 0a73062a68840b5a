package doctor

import (
	"errors"
	"fmt"
	"os"

	"sluice/internal/config"
	"sluice/internal/control/memory"
)

// A line of configuration is suggested only if `sluice check` accepts the file with it.

// refused returns why the configuration with edits would be rejected, by check or by a switch on
// the present links; nil if it would not.
func (e *examination) refused(edits ...config.Edit) error {
	next, err := e.Config.Amended(edits...)
	if err != nil {
		return err
	}
	if err := e.check(next); err != nil || e.rates == nil {
		return err
	}
	if next, err = next.OnLinks(config.AtRates(e.rates)); err != nil {
		return err
	}
	return e.check(next)
}

// check runs the checks of a configuration beyond those of the file.
func (e *examination) check(c *config.Config) error {
	if e.Check == nil {
		return nil
	}
	return e.Check(c)
}

// configured adds a finding that a line of the configuration fixes. The line belongs to value, a
// pointer into the Config. If check would reject it, the line is omitted and the text says why.
func (e *examination) configured(s Status, subject string, value any, line, format string, args ...any) {
	at := e.Config.Problem(value, "", "")
	text := fmt.Sprintf(format, args...)
	if line != "" {
		if err := e.refused(config.Edit{Value: value, Line: line}); err != nil {
			text, line = fmt.Sprintf("%s. `%s` alone would be refused: %s", text, line, problemOf(err)), ""
		}
	}
	e.add(Finding{Status: s, Subject: subject, Text: text, Fix: line, At: fmt.Sprintf("%s:%d:%d", at.File, at.Line,
		at.Column)})
}

// withRoom is configured for a line that takes memory. If the line needs more buffers and the
// machine has memory for them, the fix is to add these first.
func (e *examination) withRoom(s Status, subject string, value any, line, format string, args ...any) {
	edit := config.Edit{Value: value, Line: line}
	if e.refused(edit) == nil {
		e.configured(s, subject, value, line, format, args...)
		return
	}
	m := &e.Config.Memory
	for buffers := uint64(2 * m.Buffers); buffers <= e.mostBuffers(); buffers *= 2 {
		more := config.Edit{Value: &m.Buffers, Line: e.in(m, "memory", fmt.Sprintf("buffers: %d", buffers))}
		if e.refused(more) == nil && e.refused(more, edit) == nil {
			text := fmt.Sprintf(format, args...)
			e.configured(s, subject, more.Value, more.Line,
				"%s. First add buffers, which needs a restart, then set `%s`", text, line)
			return
		}
	}
	e.configured(s, subject, value, line, format, args...)
}

// mostBuffers returns the number of buffers for which the machine has memory, as far as known.
func (e *examination) mostBuffers() uint64 {
	m := &e.Config.Memory
	if m.BufferSize > os.Getpagesize() {
		return uint64(m.Buffers) // of hugepages, which are checked elsewhere
	}
	least := e.least()
	if least.Place == "" {
		return config.MaxBuffers
	}
	need, available := memory.Of(e.Config), least.Free
	if e.Running != nil {
		available += need.Total() // the switch's own memory
	}
	return min(config.MaxBuffers, need.Most(available))
}

// fewerBuffers adds a finding about too little memory. The fix is half of the buffers that fit, to
// leave memory for the rest of the machine, or more if the configuration needs them.
func (e *examination) fewerBuffers(subject string, most uint64, format string, args ...any) {
	m := &e.Config.Memory
	line := func(buffers uint64) string { return e.in(m, "memory", fmt.Sprintf("buffers: %d", buffers)) }
	best := line(most / 2)
	for _, buffers := range []uint64{most / 8 * 5, most / 4 * 3, most / 8 * 7} {
		if e.refused(config.Edit{Value: &m.Buffers, Line: best}) == nil {
			break
		}
		best = line(buffers)
	}
	e.configured(Error, subject, &m.Buffers, best, format, args...)
}

// problemOf returns the first problem of a configuration and its fix.
func problemOf(err error) string {
	var one *config.Error
	if !errors.As(err, &one) {
		return err.Error()
	}
	return one.Problem + ": " + one.Remedy
}
