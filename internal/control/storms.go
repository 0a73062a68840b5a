package control

import "sluice/pfc"

// reportStorms logs which pause storms have begun and ended since it last did.
func (s *Switch) reportStorms() {
	state, err := s.State()
	if err != nil {
		s.log.Warn("no look at the ports for pause storms", "error", err)
		return
	}
	for i, p := range s.ports {
		since := p.reported // several events may have the same time
		for _, e := range state.Ports[i].Watchdog.History.All() {
			if e.At > since {
				s.reportStorm(p, e)
			}
		}
	}
}

func (s *Switch) reportStorm(p *port, e pfc.StormEvent) {
	p.reported = e.At
	if e.Storming {
		s.log.Warn("pause storm", "port", p.Device, "cos", e.Priority, "action", s.config.Watchdog.Action, "by_hand", e.ByHand)
		return
	}
	s.log.Info("pause storm over", "port", p.Device, "cos", e.Priority, "by_hand", e.ByHand)
}
