package control

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/internal/dataplane/drop"
)

// Alarm is a loss that must not happen: frames of a lossless class dropped for lack of room.
type Alarm struct {
	Since, Until time.Time // first and last seen, up to a second after it happened
	Device       string
	CoS          int
	Reason       string
	Frames       uint64
}

const (
	// alarmsKept bounds the number of alarms that are kept.
	alarmsKept = 64
	// alarmQuiet is the time without a loss after which the next loss is a new alarm.
	alarmQuiet = 10 * time.Second
	// alarmsLogged bounds the lines logged per look, which happens once a second.
	alarmsLogged = 8
)

// alarms keeps the latest lossless drops. Only Run's goroutine writes it.
type alarms struct {
	lock   sync.Mutex
	latest []*Alarm              // oldest first
	losses map[alarmSource]*loss // as of the last look
}

// alarmSource is one counter of lossless drops.
type alarmSource struct {
	device string
	cos    int
	why    drop.Reason
}

// loss is the state of one counter.
type loss struct {
	frames uint64 // at the last look
	alarm  *Alarm // the latest, even if it was removed to make room
}

// Alarms returns the latest alarms, oldest first. Any goroutine may call it.
func (s *Switch) Alarms() []Alarm { return s.alarms.all() }

func (a *alarms) all() (all []Alarm) {
	a.lock.Lock()
	defer a.lock.Unlock()
	for _, one := range a.latest {
		all = append(all, *one)
	}
	return all
}

// look records what was lost up to a state. It logs each alarm once, when it begins.
func (a *alarms) look(log *slog.Logger, state *State) {
	a.lock.Lock()
	defer a.lock.Unlock()
	before, begun := a.losses, 0
	a.losses = make(map[alarmSource]*loss) // a port that was removed and added again counts from 0
	for i := range state.Ports {
		device := state.Ports[i].PortInfo.Name
		state.Ports[i].EachLosslessDrop(func(why drop.Reason, cos int, total uint64) {
			source := alarmSource{device, cos, why}
			frames, begins := a.takeIn(source, before[source], total, state.Time)
			if !begins {
				return
			}
			if begun++; begun <= alarmsLogged {
				log.Error("lossless frames dropped", "port", device, "cos", cos, "reason", why, "frames", frames)
			}
		})
	}
	if begun > alarmsLogged {
		log.Error("lossless frames dropped: more alarms than are logged, see sluice show drops", "alarms",
			begun-alarmsLogged)
	}
}

// takeIn records the value of a counter; before is its last state, nil if there is none. It returns
// the increase, and whether a new alarm begins: none does while one of the same source lasts.
func (a *alarms) takeIn(source alarmSource, before *loss, total uint64, now time.Time) (frames uint64, begins bool) {
	l := &loss{frames: total}
	a.losses[source] = l
	if frames = total; before != nil {
		l.alarm = before.alarm
		if before.frames <= total { // otherwise it restarted from 0 between two looks
			frames -= before.frames
		}
	}
	switch {
	case frames == 0:
		return 0, false
	case l.alarm != nil && now.Sub(l.alarm.Until) <= alarmQuiet:
		l.alarm.Until, l.alarm.Frames = now, l.alarm.Frames+frames
		return frames, false
	}
	l.alarm = &Alarm{Since: now, Until: now, Device: source.device, CoS: source.cos, Reason: source.why.String(),
		Frames: frames}
	if len(a.latest) == alarmsKept {
		a.latest = slices.Delete(a.latest, 0, 1)
	}
	a.latest = append(a.latest, l.alarm)
	return frames, true
}
