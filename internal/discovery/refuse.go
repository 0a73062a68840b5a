package discovery

import (
	"slices"

	"sluice/internal/discovery/dcbx"
)

// What a port can't run, it refuses: the settings of the file run instead, and its peer is told. A
// refusal is of one offer, and lasts until the same end offers something else. A refused offer is
// not tried again, and is not passed on to other ports.

// giver is who offers settings to a port.
type giver uint8

const (
	byPeer giver = iota
	bySource
	givers
)

// refusals are those of one port.
type refusals [dcbx.Features][givers]refusal

// refusal is of one offer.
type refusal struct {
	why   string // empty: nothing is refused
	offer offer
	from  string // the source that offered it
}

// offer is what a port was to run of a feature.
type offer struct {
	pfc       uint8
	ets       dcbx.ETS
	recommend dcbx.ETS
	apps      []dcbx.App
}

func (o *offer) equal(b *offer) bool {
	return o.pfc == b.pfc && o.ets == b.ets && o.recommend == b.recommend && slices.Equal(o.apps, b.apps)
}

// Refuse tells that a port can't run what was agreed on a feature, and why.
func (s *System) Refuse(now int64, name string, f dcbx.Feature, why string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	p := s.byName[name]
	if p == nil || p.machine == nil {
		return
	}
	given := s.passedOn(p)
	if p.mayGet(given, f) { // even if it is refused: the port has it until its peer follows
		p.refused[f][bySource] = refusal{why, given.offers(f), given.from}
	} else {
		p.refused[f][byPeer] = refusal{why: why, offer: p.peerOffers(f)}
	}
	p.refuseAgain(given)
	if s.source.from == p.Name {
		s.source.has[f] = false
	}
	s.settle(now)
}

// offers returns what a source gives of a feature.
func (g *gift) offers(f dcbx.Feature) (o offer) {
	switch f {
	case dcbx.FeaturePFC:
		o.pfc = g.pfc
	case dcbx.FeatureETS:
		o.ets = g.ets
	case dcbx.FeatureApp:
		o.apps = g.apps
	}
	return o
}

// peerOffers returns what the peer of a port has of a feature.
func (p *port) peerOffers(f dcbx.Feature) offer {
	status := p.machine.Status()
	peer := &status.Features[f].Peer
	return offer{peer.PFC.Priorities, peer.ETS, peer.Recommend, peer.Apps}
}

// refuseAgain has the machine of a port refuse what the port has refused before, and forgets
// refusals of other offers.
func (p *port) refuseAgain(given *gift) {
	for f := range dcbx.Feature(dcbx.Features) {
		if r := &p.refused[f][bySource]; r.why != "" && given != nil && given.has[f] {
			if now := given.offers(f); !r.offer.equal(&now) {
				*r = refusal{}
			}
			p.machine.Configure(p.local(given))
		}
		if r := &p.refused[f][byPeer]; r.why != "" {
			if now := p.peerOffers(f); !r.offer.equal(&now) {
				*r = refusal{}
				p.machine.Refuse(f, "")
			} else if p.machine.Status().Features[f].Source == dcbx.Peer {
				p.machine.Refuse(f, r.why)
			}
		}
	}
}
