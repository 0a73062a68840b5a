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
	// alarmQuiet is how long nothing is lost after an alarm, so that what is lost later is another one.
	alarmQuiet = 10 * time.Second
	// alarmsLogged bounds the lines for alarms in one look, which is once a second.
	alarmsLogged = 8
)

// alarms is the journal of lossless drops. Run's goroutine writes it.
type alarms struct {
	lock   sync.Mutex
	latest []Alarm // the oldest first
	known  map[alarmSource]uint64
}

// alarmSource is one counter of lossless drops.
type alarmSource struct {
	device string
	cos    int
	why    dataplane.Drop
}

// Alarms returns the latest alarms, the oldest first, to any goroutine.
func (s *Switch) Alarms() []Alarm {
	s.alarms.lock.Lock()
	defer s.alarms.lock.Unlock()
	return slices.Clone(s.alarms.latest)
}

// look takes in what was lost up to a state, and logs the alarms that begin: each once, however long it lasts.
func (a *alarms) look(log *slog.Logger, state *State) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.known == nil {
		a.known = make(map[alarmSource]uint64)
	}
	begun := 0
	for i := range state.Ports {
		device := state.Ports[i].PortInfo.Name
		state.Ports[i].EachLosslessDrop(func(why dataplane.Drop, cos int, total uint64) {
			source := alarmSource{device, cos, why}
			frames := total
			if known := a.known[source]; known <= total { // or else the port is a new one, which counts from 0
				frames -= known
			}
			if a.known[source] = total; frames == 0 || !a.begins(state.Time, source, frames) {
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

// begins takes in that frames were lost, and tells whether that is a new alarm: it is not while one of the same source lasts.
func (a *alarms) begins(now time.Time, source alarmSource, frames uint64) bool {
	for i := len(a.latest) - 1; i >= 0; i-- {
		last := &a.latest[i]
		if last.Device == source.device && last.CoS == source.cos && last.Reason == source.why.String() {
			if now.Sub(last.Until) > alarmQuiet {
				break
			}
			last.Until, last.Frames = now, last.Frames+frames
			return false
		}
	}
	if len(a.latest) == alarmsKept {
		a.latest = slices.Delete(a.latest, 0, 1)
	}
	a.latest = append(a.latest, Alarm{Since: now, Until: now, Device: source.device, CoS: source.cos, Reason: source.why.String(), Frames: frames})
	return true
}
