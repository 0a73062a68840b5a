package discovery

import (
	"fmt"
	"math"
	"strings"

	"sluice/internal/dcbx"
	"sluice/internal/lldp"
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
}

// patience is how long, in ns, a link may be up without DCBX from the peer before that is reported,
// and how long a peer may speak another version. A peer sends its first LLDPDU when its link comes
// up, and one that chooses the version automatically begins with IEEE.
const patience = 10e9

// judge notes in which ways a port and its peer disagree, and logs what has changed. It returns the
// time at which it has to be called again although nothing has happened.
func (s *System) judge(now int64, p *port) (next int64) {
	texts, next := p.disagree(now)
	for k := range p.disagreements {
		was := &p.disagreements[k]
		switch text := texts[k]; {
		case text != "" && was.text == "":
			was.since = now
			s.log.Warn("DCBX mismatch", "port", p.Name, "kind", kind(k), "because", text)
		case text == "" && was.text != "":
			s.log.Info("DCBX mismatch ended", "port", p.Name, "kind", kind(k))
		}
		was.text = texts[k]
	}
	return next
}

// disagree says in which ways a port and its peer disagree now.
func (p *port) disagree(now int64) (texts [kinds]string, next int64) {
	next = math.MaxInt64
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
		texts[kindNoPeer] = p.tellNoPeer()
	default:
		p.disagreeOnFeatures(&texts)
		if at := p.heard + patience; texts[kindVersion] != "" && now < at {
			texts[kindVersion], next = "", at
		}
	}
	return texts, next
}

// disagreeOnFeatures does so for a port with one peer.
func (p *port) disagreeOnFeatures(texts *[kinds]string) {
	status := p.machine.Status()
	var refused []string
	for i := range status.Features {
		f := &status.Features[i]
		text := fmt.Sprintf("%s: %s", p.peerName(), f.Why)
		switch {
		case f.State == dcbx.StateVersion:
			texts[kindVersion] = text
		case f.State == dcbx.StateRefused:
			refused = append(refused, fmt.Sprintf("%v with %s", dcbx.Feature(i), text))
		case f.State.Alarming(), f.State == dcbx.StateAbsent && f.Error != 0,
			f.State == dcbx.StateAbsent && i == int(dcbx.FeaturePFC) && p.Auto:
			texts[i] = text
		}
	}
	texts[kindRefused] = strings.Join(refused, "; ")
}

// tellNoPeer says that no neighbour speaks DCBX.
func (p *port) tellNoPeer() string {
	who := "no neighbour sends LLDP"
	if all := p.agent.Neighbours(); len(all) > 0 {
		who = fmt.Sprintf("%s sends LLDP without DCBX", nameOf(all[0]))
	}
	effect := ""
	if p.Auto {
		effect = ", so the port does no PFC"
	}
	return fmt.Sprintf("%s%s: turn on DCBX at the link partner, or write `dcbx: {version: off}` for the port", who,
		effect)
}

// tellPeers says that there are several peers.
func (p *port) tellPeers() string {
	names := p.peerNames()
	return fmt.Sprintf("%d neighbours speak DCBX (%s), and it works between two ends only: remove the bridge or hub "+
		"between them, or turn off all but one; it works again when the others have aged out", len(names),
		strings.Join(names, ", "))
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

// nameOf names a neighbour by system and port.
func nameOf(n *lldp.Neighbour) string {
	system := lldp.Printable(n.SystemName)
	if system == "" {
		system = n.Chassis.String()
	}
	return fmt.Sprintf("%s (%s)", system, n.Port)
}
