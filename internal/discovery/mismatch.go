package discovery

import (
	"fmt"
	"math"
	"strings"

	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
)

// kind is a way in which the two ends of a link can disagree. The first three are features.
type kind uint8

// The kinds.
const (
	kindPFC     = kind(dcbx.FeaturePFC)
	kindETS     = kind(dcbx.FeatureETS)
	kindApp     = kind(dcbx.FeatureApp)
	kindVersion = kind(dcbx.Features + iota - 3)
	kindMultiple
	kindNoPeer
	kindRefused
	kinds
)

var kindNames = [kinds]string{"pfc", "ets", "app", "version", "multiple-peers", "no-peer", "refused"}

// String returns the stable name, for metrics and reports.
func (k kind) String() string { return kindNames[k] }

// disagreement is one kind at one port.
type disagreement struct {
	text  string // what each end has, and who would have to change what; empty: they agree
	since int64  // ns
	log   edge
}

// patience is how long, in ns, a link may be up without DCBX from the peer before that is reported,
// and how long a peer may speak another version. A peer sends its first LLDPDU when its link comes
// up, and one that chooses the version automatically begins with IEEE.
const patience = 10e9

// judge keeps in which ways a port and its peer disagree, and logs what has changed. It returns the
// time at which it has to be called again although nothing has happened: to report what has lasted
// too long, or to log what changes too often.
func (s *System) judge(now int64, p *port) (next int64) {
	texts, next := s.disagree(now, p)
	ended := "the two ends agree, or have no say in it"
	if !p.link.up {
		ended = "the link is down"
	}
	for k := range p.disagreements {
		d := &p.disagreements[k]
		if d.text == "" {
			d.since = now
		}
		d.text = texts[k]
		log, at := d.log.due(now, d.text)
		next = min(next, at)
		switch {
		case !log:
		case d.text != "":
			s.log.Warn("DCBX mismatch", "port", p.Name, "kind", kind(k), "because", d.text)
		default:
			s.logEnd(p, kind(k), ended)
		}
	}
	return next
}

// endAll ends all disagreements of a port at which DCBX ends.
func (s *System) endAll(p *port, because string) {
	for k := range p.disagreements {
		if p.disagreements[k].log.text != "" { // now or never
			s.logEnd(p, kind(k), because)
		}
	}
	p.disagreements = [kinds]disagreement{}
}

func (s *System) logEnd(p *port, k kind, because string) {
	s.log.Info("DCBX mismatch ended", "port", p.Name, "kind", k, "because", because)
}

// never is the time of what does not happen.
const never = math.MaxInt64

// disagree says in which ways a port and its peer disagree now.
func (s *System) disagree(now int64, p *port) (texts [kinds]string, next int64) {
	next = never
	if !p.link.up {
		return texts, next
	}
	switch {
	case p.peers > 1:
		texts[kindMultiple] = p.tellPeers()
	case p.peers == 0:
		if at := p.since + patience; !p.met && now < at {
			next = at
			break
		}
		texts[kindNoPeer] = p.tellNoPeer(now)
	default:
		s.disagreeOnFeatures(p, &texts)
		if at := p.heard + patience; texts[kindVersion] != "" && now < at {
			texts[kindVersion], next = "", at
		}
	}
	return texts, next
}

// disagreeOnFeatures does so for a port with one peer.
func (s *System) disagreeOnFeatures(p *port, texts *[kinds]string) {
	status, given := p.machine.Status(), s.passedOn(p)
	var refused []string
	for i := range status.Features {
		f := &status.Features[i]
		if r := &p.refused[i][bySource]; r.why != "" && given != nil && given.has[i] {
			refused = append(refused, fmt.Sprintf("%v from the peer of %s: the settings of the file run instead: %s",
				dcbx.Feature(i), r.from, r.why))
		}
		text := fmt.Sprintf("%s: %s", p.peerName(), f.Why)
		switch {
		case f.State == dcbx.StateVersion:
			texts[kindVersion] = text
		case f.State == dcbx.StateRefused:
			refused = append(refused, fmt.Sprintf("%v with %s", dcbx.Feature(i), text))
		case f.State.Alarming(), f.State == dcbx.StateAbsent && f.Error != 0,
			f.State == dcbx.StateAbsent && i == int(dcbx.FeaturePFC) && p.Auto:
			if texts[i] = text; p.gets(given, dcbx.Feature(i)) {
				texts[i] += fmt.Sprintf("; this port has its settings from the peer of %s", given.from)
			}
		}
	}
	texts[kindRefused] = strings.Join(refused, "; ")
}

// tellNoPeer says that no neighbour speaks DCBX.
func (p *port) tellNoPeer(now int64) string {
	who := "no neighbour sends LLDP"
	all := p.agent.Neighbours()
	switch {
	case p.agent.TooManyNeighbours(now):
		who = fmt.Sprintf("none of the %d neighbours sends DCBX, and there is no room for more", len(all))
	case len(all) > 0:
		who = fmt.Sprintf("%s sends LLDP without DCBX", nameOf(all[0]))
	case p.looped:
		who = "no neighbour sends LLDP, and what the port sends comes back: there is a loop"
	}
	if p.Auto {
		return who + ", so no PFC is agreed: turn on DCBX at the link partner, or write `dcbx: {version: off}` " +
			"and `flow_control: pfc` for the port"
	}
	return who + ": turn on DCBX at the link partner, or write `dcbx: {version: off}` for the port"
}

// tellPeers names the neighbours that speak DCBX.
func (p *port) tellPeers() string {
	var names []string
	for _, n := range p.speakers() {
		names = append(names, fmt.Sprintf("%s, TTL %d s", nameOf(n), n.TTL))
	}
	return fmt.Sprintf("%d neighbours speak DCBX (%s), and it works between two ends only: remove the bridge or hub "+
		"between them, or turn off all but one; it works again when the TTL of the others has ended, or after "+
		"`sluice port shut` and `sluice port open`", len(names), strings.Join(names, "; "))
}

// peerNames names the neighbours that speak DCBX.
func (p *port) peerNames() []string {
	names := []string{}
	for _, n := range p.speakers() {
		names = append(names, nameOf(n))
	}
	return names
}

// peerName names the port's only peer.
func (p *port) peerName() string {
	if all := p.speakers(); len(all) > 0 {
		return nameOf(all[0])
	}
	return "the peer"
}

// nameOf names a neighbour by system and port, or by the MAC address that identifies both.
func nameOf(n *lldp.Neighbour) string {
	system, port := lldp.Printable(n.SystemName), n.Port.String()
	if system == "" {
		if system = n.Chassis.String(); system == port {
			return brief(port)
		}
	}
	return fmt.Sprintf("%s (%s)", brief(system), brief(port))
}

// brief cuts a name to a length that fits a sentence: it may have 255 bytes.
func brief(name string) string {
	const longest = 32
	if runes := []rune(name); len(runes) > longest {
		return string(runes[:longest-1]) + "…"
	}
	return name
}
