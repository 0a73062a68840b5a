package control

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/internal/dataplane"
)

// Alarm is a loss that must not happen: frames of a lossless class dropped for want of room.
type Alarm struct {
	Since, Until time.Time // when it was seen first and last: up to a second after it happened
	Device       string
	CoS          int
	Reason       string
	Frames       uint64
}

const (
	// alarmsKept bounds the journal.
	alarmsKept = 64
	// alarmQuiet is how long nothing is lost after an alarm, so that what is lost later is another
	// one.
	alarmQuiet = 10 * time.Second
	// alarmsLogged bounds the lines for alarms in one look, which is once a second.
	alarmsLogged = 8
)

// alarms is the journal of lossless drops. Run's goroutine writes it.
type alarms struct {
	lock   sync.Mutex
	latest []*Alarm              // the oldest first
	losses map[alarmSource]*loss // as the last look has found them
}

// alarmSource is one counter of lossless drops.
type alarmSource struct {
	device string
	cos    int
	why    dataplane.Drop
}

// loss is what is known of a counter.
type loss struct {
	frames uint64 // at the last look
	alarm  *Alarm // the latest, also when the journal has no room for it any more
}

// Alarms returns the latest alarms, the oldest first, to any goroutine.
func (s *Switch) Alarms() []Alarm { return s.alarms.all() }

func (a *alarms) all() (all []Alarm) {
	a.lock.Lock()
	defer a.lock.Unlock()
	for _, one := range a.latest {
		all = append(all, *one)
	}
	return all
}

// look takes in what was lost up to a state, and logs the alarms that begin: each once, however
// long it lasts.
func (a *alarms) look(log *slog.Logger, state *State) {
	a.lock.Lock()
	defer a.lock.Unlock()
	before, begun := a.losses, 0
	a.losses = make(map[alarmSource]*loss) // a port that was taken out and put in again counts from 0
	for i := range state.Ports {
		device := state.Ports[i].PortInfo.Name
		state.Ports[i].EachLosslessDrop(func(why dataplane.Drop, cos int, total uint64) {
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
		log.Error("lossless frames dropped for more reasons than are logged", "others", begun-alarmsLogged)
	}
}

// takeIn takes in what a counter shows. It returns how many frames more that is than before (nil:
// nothing), and whether a new alarm begins with them: none does while one of the same source lasts.
func (a *alarms) takeIn(source alarmSource, before *loss, total uint64, now time.Time) (frames uint64, begins bool) {
	l := &loss{frames: total}
	a.losses[source] = l
	if frames = total; before != nil {
		l.alarm = before.alarm
		if before.frames <= total { // or else it has been begun anew between two looks
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
