// Package dcbxtest models a DCBX peer for tests: Peer speaks CEE 1.01 and CIN 1.00, IEEEPeer speaks
// IEEE 802.1Qaz. The models are written from the formats and the rules of the state machines, and
// share no code with package dcbx. Link connects two ends, and Audit checks their numbers.
package dcbxtest

import (
	"cmp"
	"fmt"
	"slices"
)

// Config is the configuration of a Peer.
type Config struct {
	Version    Version
	MaxVersion uint8
	Advertise  [Features]bool // its sub-TLV is sent
	Enable     [Features]bool
	Willing    [Features]bool

	PFC    uint8
	PFCTCs uint8 // CEE: number of classes that can have PFC
	Groups Groups
	Apps   []Application // in CIN, each Protocol once

	Fail       [Features]bool // cannot run: off, with Error
	Twice      [Features]bool // its sub-TLV is sent twice, an error
	NexusOrder bool           // sub-TLVs in the order 1, 3, 4, 2
	Extra      []byte         // more sub-TLVs, with headers
}

// Running is what runs for a feature.
type Running struct {
	On       bool
	FromPeer bool // the values of the other end, not the own ones
	Error    bool // advertised

	// Values of the feature; meaningless unless On.
	PFC    uint8
	Groups Groups
	Apps   []Application // sorted
}

// Peer is one end of a link that speaks CEE or CIN.
type Peer struct {
	config  Config // as configured
	sent    Config // as sent with sequence number seq
	changed bool   // config needs the next number; true at the start: the first LLDPDU has number 1
	pending bool

	oper            uint8 // OperVersion of the control protocol
	seq, ack, myAck uint32

	other   *message // its latest LLDPDU; nil: none, or expired
	known   bool     // there was an LLDPDU of another end since the start
	running [Features]Running
	operOf  [Features]uint8 // OperVersion of each feature

	seqsSent, acksSent map[uint32]bool // including those before restarts
	violations         []string
}

// NewPeer returns a Peer that has received nothing.
func NewPeer(c Config) *Peer {
	p := &Peer{seqsSent: map[uint32]bool{}, acksSent: map[uint32]bool{0: true}}
	p.Restart(c)
	return p
}

// Restart makes the Peer forget everything but the numbers it has ever sent. LLDPDUs from before
// the restart may still arrive, and must not count as violations.
func (p *Peer) Restart(c Config) {
	*p = Peer{config: c, sent: c, oper: c.MaxVersion, changed: true, pending: true,
		seqsSent: p.seqsSent, acksSent: p.acksSent, violations: p.violations}
	p.run()
}

// Configure changes the configuration, but not the versions.
func (p *Peer) Configure(c Config) {
	c.Version, c.MaxVersion = p.config.Version, p.config.MaxVersion
	p.config = c
	p.changed = true
	if p.seq == p.myAck {
		p.pending = true
	}
	p.run()
}

// Expire forgets the other end: its information has aged out, or it has shut down.
func (p *Peer) Expire() {
	if p.other == nil {
		return
	}
	p.other = nil
	p.oper = p.config.MaxVersion
	p.seq, p.ack, p.myAck = 0, 0, 0
	p.changed = true // new to the next peer
	pending := p.pending
	p.run()
	p.pending = pending || p.config.Version == CIN // CEE stays silent
}

// Receive takes the values of all type-127 TLVs of an LLDPDU.
func (p *Peer) Receive(tlvs [][]byte) {
	m, wrong := parse(p.config.Version, tlvs)
	for _, w := range wrong {
		p.violate("%s", w)
	}
	if m == nil {
		p.Expire()
		return
	}
	p.judge(m)
	p.other, p.known = m, true

	if oper := min(m.max, p.config.MaxVersion); p.oper != oper {
		p.oper = oper
		p.pending = true
	}
	// An end with another OperVersion has not received this end's MaxVersion yet.
	if m.oper == p.oper {
		p.myAck = m.ack
		if p.ack != m.seq || p.myAck == 0 {
			p.ack = m.seq
			p.pending = true
		}
	}
	if p.changed && p.seq == p.myAck {
		p.pending = true
	}
	p.run()
}

// judge checks the numbers of the other end, as far as a receiver can if LLDPDUs are lost, repeated
// and reordered. The other end can only acknowledge numbers that this end has sent, and needs an
// acknowledgement of each of its numbers before it takes the next.
func (p *Peer) judge(m *message) {
	if m.ack != 0 && !p.seqsSent[m.ack] {
		p.violate("it acknowledges %d, which was never sent", m.ack)
	}
	if m.seq != 0 && !p.acksSent[m.seq-1] {
		p.violate("it sends number %d, but %d was never acknowledged", m.seq, m.seq-1)
	}
}

func (p *Peer) violate(format string, args ...any) {
	p.violations = append(p.violations, fmt.Sprintf(format, args...))
}

// TLVs returns the value of the TLV to send now.
func (p *Peer) TLVs() [][]byte {
	if p.changed && p.seq == p.myAck {
		p.seq++
		p.sent = p.config
		p.changed = false
	}
	p.pending = false
	p.seqsSent[p.seq], p.acksSent[p.ack] = true, true

	m := message{max: p.config.MaxVersion, oper: p.oper, seq: p.seq, ack: p.ack}
	for f := range Features {
		m.features[f] = advertOf(&p.sent, f)
		m.features[f].oper, m.features[f].error = p.operOf[f], p.running[f].Error
	}
	return [][]byte{m.build(p.config.Version, &p.sent)}
}

// advertOf returns what a configuration says about a feature.
func advertOf(c *Config, f Feature) advert {
	a := advert{present: c.Advertise[f], twice: c.Twice[f], max: c.MaxVersion,
		enable: c.Enable[f], willing: c.Willing[f]}
	switch f {
	case PFC:
		a.pfc, a.pfcTCs = c.PFC, c.PFCTCs
	case PG:
		a.groups = c.Groups
	case App:
		a.apps = c.Apps
		if c.Version == CIN && len(c.Apps) == 0 {
			a.present = false // without applications, CIN has nothing to send
		}
	}
	return a
}

// Pending reports whether an LLDPDU must be sent at once.
func (p *Peer) Pending() bool { return p.pending }

// Numbers returns the sequence number, the number of the other end that is acknowledged, and the
// own number that the other end has acknowledged.
func (p *Peer) Numbers() (seq, ack, myAck uint32) { return p.seq, p.ack, p.myAck }

// MaxVersion returns the highest version of the control protocol and of all features.
func (p *Peer) MaxVersion() uint8 { return p.config.MaxVersion }

// Said is the content of the other end's latest LLDPDU.
func (p *Peer) Said() (s Said, ok bool) {
	if p.other == nil {
		return s, false
	}
	return said(p.config.Version, p.other), true
}

// Running returns what runs for a feature.
func (p *Peer) Running(f Feature) Running { return p.running[f] }

// Violations returns the violations of formats and rules by the other end.
func (p *Peer) Violations() []string { return p.violations }

func (p *Peer) run() {
	for f := range Features {
		own := advertOf(&p.config, f)
		var other *advert
		if p.other != nil {
			other = &p.other.features[f]
		}
		now := decide(p.config.Version, f, own, other)
		if !p.known {
			now.Error = false // no other end yet is no error
		}
		if p.config.Fail[f] && own.present && other != nil {
			agreed := *other
			agreed.error = false // two ends that cannot run it both say so, and do not wait for each other
			if decide(p.config.Version, f, own, &agreed).On {
				now.On, now.FromPeer, now.Error = false, false, true
			}
		}
		oper := own.max
		if other != nil && other.present {
			oper = min(own.max, other.max)
		}
		if now.Error != p.running[f].Error || oper != p.operOf[f] {
			p.pending = true
		}
		p.running[f], p.operOf[f] = now, oper
	}
}

// decide applies the rules of the feature state machine in order. Other is nil without another end.
func decide(v Version, f Feature, own advert, other *advert) Running {
	local := Running{PFC: own.pfc, Groups: own.groups, Apps: sorted(own.apps)}
	if !own.present {
		local.On = true
		return local
	}
	if other == nil || !other.present && !other.twice {
		local.Error = v == CEE
		return local
	}
	if other.twice {
		local.Error = true
		return local
	}
	if !own.enable || !other.enable {
		return local
	}
	if own.willing && !other.willing {
		return Running{On: !other.error, FromPeer: true,
			PFC: other.pfc, Groups: other.groups, Apps: sorted(other.apps)}
	}
	if !own.willing && other.willing {
		local.On = !other.error
		return local
	}
	if compatible(v, f, own, *other) {
		local.On = !other.error
	} else {
		local.Error = true
	}
	return local
}

func compatible(v Version, f Feature, a, b advert) bool {
	switch {
	case f == PFC:
		return a.pfc == b.pfc
	case f == App:
		return !slices.ContainsFunc(a.apps, func(app Application) bool {
			own, other := priorities(a.apps, app), priorities(b.apps, app)
			return own != 0 && other != 0 && own != other
		})
	case v == CEE:
		return true
	}
	return a.groups == b.groups
}

// priorities returns the priorities that a list has for an application; 0: it does not list it.
func priorities(list []Application, of Application) (all uint8) {
	for _, a := range list {
		if of.Priorities = a.Priorities; a == of {
			all |= a.Priorities
		}
	}
	return all
}

func sorted(apps []Application) []Application {
	apps = slices.DeleteFunc(slices.Clone(apps), func(a Application) bool { return a.Priorities == 0 })
	slices.SortFunc(apps, func(a, b Application) int {
		return cmp.Or(cmp.Compare(a.Selector, b.Selector), cmp.Compare(a.Protocol, b.Protocol),
			cmp.Compare(a.OUI, b.OUI), cmp.Compare(a.Priorities, b.Priorities))
	})
	return apps
}
