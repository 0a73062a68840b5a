package control

import (
	"time"

	"sluice/internal/dataplane"
	"sluice/pfc"
)

// reportStorms logs which pause storms have begun and ended since its last call, and how long ago.
// Since it looks at all ports, it logs lossless drops too.
func (s *Switch) reportStorms() {
	state, err := s.State()
	if err != nil {
		s.log.Warn("can't check the ports for pause storms and losses", "error", err)
		return
	}
	s.alarms.look(s.log, state)
	for _, w := range state.Workers {
		for i := range w.Ports {
			s.reportPort(&w.Ports[i], w.Now)
		}
	}
}

func (s *Switch) reportPort(seen *dataplane.PortSnapshot, now int64) {
	p := s.port(seen.Name)
	if p == nil {
		return // vacant
	}
	s.reportSources(p, seen, now)
	since := p.reported // several events may have the same time
	for _, e := range seen.Watchdog.History.All() {
		if e.At > since {
			p.reported = e.At
			s.reportStorm(p, e, time.Duration(now-e.At))
		}
	}
	var storms uint64
	for _, n := range seen.Watchdog.Storms {
		storms += n
	}
	if storms > p.storms { // fewer if its watchdog was replaced or removed
		s.log.Warn("more pause storms than the history holds", "port", p.Device, "storms", storms-p.storms)
	}
	p.storms = storms
}

func (s *Switch) reportStorm(p *port, e pfc.StormEvent, ago time.Duration) {
	about := []any{"port", p.Device, "cos", e.Priority, "ago", ago.Round(time.Millisecond), "manual", e.Manual}
	if e.Storming {
		p.storms++
		s.log.Warn("pause storm", append(about, "action", s.config.Watchdog.Action)...)
		return
	}
	s.log.Info("pause storm ended", about...)
}
