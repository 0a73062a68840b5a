package state

import (
	"fmt"
	"time"
)

// Headline is the first line of all that is shown of a switch: that nothing was lost that must not
// be, or what, where, why and when. Losses before counters were cleared stay in it as a total. A
// control loop that does not run is in it too.
func (r *Switch) Headline() string {
	line := r.losses()
	if r.StalledNS > 0 {
		line += fmt.Sprintf("  STALLED: the control loop has not run for %v: links are not followed, orders wait",
			time.Duration(r.StalledNS).Round(time.Second))
	}
	return line
}

// losses is what the headline says of lossless drops.
func (r *Switch) losses() string {
	line := fmt.Sprintf("lossless drops: %d", r.LosslessDrops)
	if r.CountersCleared != nil && r.LosslessDropsTotal > r.LosslessDrops {
		line += fmt.Sprintf(" since %s (%d since the start)", Clock(*r.CountersCleared, r.Time), r.LosslessDropsTotal)
	}
	if r.LosslessDrops == 0 {
		return line
	}
	line += "  ALARM"
	last, others := r.lastAlarm()
	if last == nil { // not looked at yet
		return line
	}
	line += fmt.Sprintf(": %s cos %d (%s) %s at %s", last.Port, last.CoS, last.Class, last.Reason,
		Clock(last.Until, r.Time))
	if others > 0 {
		line += fmt.Sprintf(" and %d more", others)
	}
	return line
}

// lastAlarm returns the latest alarm since counters were cleared, and how many others there are
// since; nil: none.
func (r *Switch) lastAlarm() (last *Alarm, others int) {
	for i := range r.Alarms {
		a := &r.Alarms[i]
		if r.CountersCleared != nil && a.Until.Before(*r.CountersCleared) {
			continue
		}
		if others++; last == nil || !a.Until.Before(last.Until) {
			last = a
		}
	}
	return last, others - 1
}

// Clock shows a time to someone who looks at another one: with the date if that is not the same.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
