package state

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Headline returns the first line of every view of a switch: that there were no lossless drops, or
// how many, where, why and when. Drops before counters were cleared remain as a total. It also says
// if the control loop is stalled, which ports are part of a loop, and where DCBX has found a
// mismatch.
func (r *Switch) Headline() string {
	line := r.losses() + r.OtherLosses()
	if r.StalledNS > 0 {
		line += fmt.Sprintf("  STALLED: the control loop has not run for %v: link changes and commands wait",
			time.Duration(r.StalledNS).Round(time.Second))
	}
	before := "  LOOP: "
	for _, p := range r.Loops() {
		if line += before + p.Name; p.Shut {
			line += " (shut)"
		}
		before = ", "
	}
	if all := r.Mismatches(); len(all) > 0 {
		line += fmt.Sprintf("  DCBX: %s %s", all[0].Port, all[0].Kind)
		if others := len(all) - 1; others > 0 {
			line += fmt.Sprintf(" and %d more", others)
		}
	}
	return line
}

// Loops returns the ports that are part of a loop.
func (r *Switch) Loops() (all []*Port) {
	for i := range r.Ports {
		if p := &r.Ports[i]; p.Loop {
			all = append(all, p)
		}
	}
	return all
}

// PortMismatch is a mismatch at a port.
type PortMismatch struct {
	Port string
	Peer string // name of its only peer; empty: it has none, or several
	Mismatch
}

// Mismatches returns the active mismatches of all ports.
func (r *Switch) Mismatches() (all []PortMismatch) {
	for i := range r.Ports {
		p := &r.Ports[i]
		if p.DCBX == nil {
			continue
		}
		peer := ""
		if names := p.DCBX.Peer.Names; len(names) == 1 {
			peer = names[0]
		}
		for _, m := range p.DCBX.Mismatches {
			if m.Active {
				all = append(all, PortMismatch{p.Name, peer, m})
			}
		}
	}
	return all
}

// losses returns the part of the headline about lossless drops.
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
	if last == nil { // the ports have not been checked since
		return line
	}
	line += fmt.Sprintf(": %s cos %d (%s) %s at %s", last.Port, last.CoS, last.Class, last.Reason,
		Clock(last.Until, r.Time))
	if others > 0 {
		line += fmt.Sprintf(" and %d more", others)
	}
	return line
}

// OtherLosses returns the part of the headline about lossless frames that were lost although there
// was room for them, and about frames that were lost between the switch and the devices of ports
// with lossless classes, which don't know the class.
func (r *Switch) OtherLosses() (text string) {
	failed, devices, reasons := uint64(0), uint64(0), []string{}
	for i := range r.Ports {
		p := &r.Ports[i]
		for _, d := range p.Drops {
			if failed += d.Failed; d.Failed > 0 && !slices.Contains(reasons, d.Reason) {
				reasons = append(reasons, d.Reason)
			}
		}
		if slices.ContainsFunc(p.ByCoS, func(c CoS) bool { return c.Lossless }) {
			devices += p.Driver.Lost()
		}
	}
	departed := uint64(0)
	for i := range r.Workers {
		departed += r.Workers[i].DepartedFailed
	}
	if failed += departed; departed > 0 {
		reasons = append(reasons, "at ports since removed")
	}
	if failed > 0 {
		text = fmt.Sprintf("  also lost: %d lossless frames (%s)", failed, strings.Join(reasons, ", "))
	}
	if devices > 0 {
		text += fmt.Sprintf("  lost by devices: %d frames of any class", devices)
	}
	return text
}

// lastAlarm returns the latest alarm since counters were cleared, nil if there is none, and the
// number of others since then.
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

// Clock formats t for a reader at now: with the date if that differs.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
