package discovery

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sluice/internal/discovery/dcbx"
)

// Upstream ports take the settings of their peers. The first that does is the source: all other
// upstream ports and the downstream ports have its settings as their own, and take nothing from
// their peers. So a switch passes on the settings of one core switch or forwarder to its servers.
// When the source is gone, its settings stay until another is elected or SourceHold has passed.

// source is the elected source.
type source struct {
	gift
	log  edge
	port *port // nil: none
	gone int64 // time at which it was lost, if port is nil
	next int64 // time at which the log needs a line
}

// gift is what a source gave.
type gift struct {
	from  string              // the source
	lasts bool                // the source is there
	has   [dcbx.Features]bool // the features that it took from its peer
	pfc   uint8
	ets   dcbx.ETS
	apps  []dcbx.App
}

// any reports whether a source gave anything.
func (g *gift) any() bool { return g.has != [dcbx.Features]bool{} }

// lose notes that the source is gone.
func (s *source) lose(now int64) {
	if s.port != nil {
		s.port, s.lasts, s.gone = nil, false, now
	}
}

// over returns the time at which what a lost source gave is forgotten.
func (s *source) over(hold int64) int64 {
	if s.port != nil || !s.any() {
		return math.MaxInt64
	}
	return s.gone + hold
}

// elect elects the source and reports whether it is another one than before, or none. A source
// stays one for as long as it takes settings from its peer.
func (s *System) elect(now int64) (another bool) {
	before := s.source.port
	if s.source.port == nil || !s.source.port.takes() {
		s.source.lose(now)
		if at := slices.IndexFunc(s.ports, (*port).takes); at >= 0 {
			s.source.port = s.ports[at]
		}
	}
	if p := s.source.port; p != nil {
		s.source.gift = p.gives()
	} else if s.source.over(s.params.SourceHold) <= now {
		s.source.gift = gift{}
	}
	s.logSource(now)
	return s.source.port != before
}

// logSource logs which port is the source.
func (s *System) logSource(now int64) {
	text := ""
	switch {
	case s.source.port != nil:
		text = s.source.from + " has taken settings from its peer: downstream ports recommend them"
	case s.source.any():
		text = s.source.from + " has lost its peer: what it gave stays for " +
			time.Duration(s.params.SourceHold).String()
	}
	log, at := s.source.log.due(now, text)
	if s.source.next = at; log {
		s.log.Info("DCBX source", "is", cmp.Or(text, "none: ports have the settings of the file"))
	}
}

// takes reports whether a port can be the source: it runs settings of its peer.
func (p *port) takes() bool {
	if p.machine == nil || p.Role != Upstream {
		return false
	}
	for _, f := range p.machine.Status().Features {
		if f.Source == dcbx.Peer {
			return true
		}
	}
	return false
}

// gives returns what a port took from its peer.
func (p *port) gives() gift {
	status := p.machine.Status()
	g := gift{
		from: p.Name, lasts: true,
		pfc:  status.Features[dcbx.FeaturePFC].Agreed.PFC.Priorities,
		ets:  status.Features[dcbx.FeatureETS].Agreed.ETS,
		apps: status.Features[dcbx.FeatureApp].Agreed.Apps,
	}
	for f := range g.has {
		g.has[f] = status.Features[f].Source == dcbx.Peer
	}
	return g
}

// passedOn returns what a port has from the source; nil: nothing. The port that gave it has its own
// settings, even when it is no longer the source.
func (s *System) passedOn(p *port) *gift {
	if p.Name == s.source.from || p.Role == Manual || !s.source.any() {
		return nil
	}
	return &s.source.gift
}
