package console

import (
	"fmt"
	"time"
)

// Headline is the first line of all that is shown of a switch: that nothing was lost that must not be, or what, where, why
// and when.
func (r *Report) Headline() string {
	line := fmt.Sprintf("lossless drops: %d", r.LosslessDrops)
	if r.LosslessDrops == 0 {
		return line
	}
	line += "  ALARM"
	if len(r.Alarms) == 0 { // not looked at yet
		return line
	}
	last := r.Alarms[0]
	for _, a := range r.Alarms {
		if !a.Until.Before(last.Until) {
			last = a
		}
	}
	line += fmt.Sprintf(": %s cos %d (%s) %s at %s", last.Port, last.CoS, last.Class, last.Reason, Clock(last.Until, r.Time))
	if others := len(r.Alarms) - 1; others > 0 {
		line += fmt.Sprintf(" and %d more", others)
	}
	return line
}

// Clock shows a time to someone who looks at another one: with the date if that is not the same.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
