package snoop

import (
	"fmt"
	"slices"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/internal/state"
)

// known is a copy of an entry of a table, and when the entry expires.
type known[T any] struct {
	entry    T
	deadline int64
}

// copies returns the entries of a table in no particular order.
func copies[K comparable, T any](table map[K]*T, deadline func(*T) int64) []known[T] {
	all := make([]known[T], 0, len(table))
	for _, one := range table {
		all = append(all, known[T]{*one, deadline(one)})
	}
	return all
}

// sort sorts copies.
func sort[T any](all []known[T], order func(a, b *T) int) {
	slices.SortFunc(all, func(a, b known[T]) int { return order(&a.entry, &b.entry) })
}

// contents is what the tables hold. What reports read behind the pointers of entries never changes:
// addresses and names of ports.
type contents struct {
	now    int64
	fcfs   []known[fcf]
	enodes []known[enode]
	links  []known[link]
	logins []known[login]
}

// Report returns what is known, without the state file, which is not the System's. Frames wait only
// while it copies the tables, not while it sorts and formats thousands of sessions.
func (s *System) Report(now int64) state.FCoE {
	s.lock.Lock()
	p := s.params
	c := contents{now, copies(s.fcfs, s.deadlineOfFCF), copies(s.enodes, s.deadlineOf),
		copies(s.links, s.endOfLink), copies(s.logins, (*login).deadline)}
	s.lock.Unlock()
	sort(c.fcfs, compareFCFs)
	sort(c.enodes, compareENodes)
	sort(c.links, compareLinks)
	sort(c.logins, compareLogins)
	r := state.FCoE{
		Instances: []state.FCoEInstance{}, FCFs: []state.FCF{}, ENodes: []state.ENode{},
		Sessions: []state.FCoESession{}, Pending: []state.FCoELogin{},
		Tables: state.FCoETables{
			FCFs:     state.FCoETable{Used: len(c.fcfs), Limit: p.MaxFCFs},
			ENodes:   state.FCoETable{Used: len(c.enodes), Limit: p.MaxENodes},
			Sessions: state.FCoETable{Used: len(c.links), Limit: p.MaxLinks},
			Pending:  state.FCoETable{Used: len(c.logins), Limit: p.MaxPending},
		},
	}
	for i := range p.Instances {
		r.Instances = append(r.Instances, c.reportInstance(&p.Instances[i]))
	}
	c.reportFCFs(&r)
	for i := range c.enodes {
		e := &c.enodes[i].entry
		r.ENodes = append(r.ENodes, state.ENode{
			VLAN: e.vid, MAC: e.mac.String(), Port: e.port.Name, FCF: e.peer.String(), Restored: e.restored,
			SinceNS: now - e.since, ExpiresInNS: left(now, c.enodes[i].deadline), Sessions: len(e.links),
		})
	}
	for i := range c.links {
		r.Sessions = append(r.Sessions, c.reportLink(&c.links[i]))
	}
	for i := range c.logins {
		l := &c.logins[i].entry
		r.Pending = append(r.Pending, state.FCoELogin{
			VLAN: l.vid, ENode: l.mac.String(), Port: l.port.Name, FCF: l.peer.String(), Login: loginName(l.service),
			OXID: fmt.Sprintf("%04x", l.oxid), WWPN: l.wwpn.String(),
			SinceNS: now - l.since, ExpiresInNS: left(now, l.deadline()),
		})
	}
	return r
}

// left returns the time left until a deadline; 0: there is none.
func left(now, deadline int64) int64 {
	if deadline == never {
		return 0
	}
	return max(1, deadline-now)
}

func loginName(service fcoe.Descriptor) string {
	switch service {
	case fcoe.DescFLOGI:
		return "flogi"
	case fcoe.DescFDISC:
		return "fdisc"
	}
	return "logo"
}

func (c *contents) reportInstance(i *Instance) state.FCoEInstance {
	r := state.FCoEInstance{Name: i.Name, VLAN: i.VLAN, FCMap: fmt.Sprintf("%06X", i.fcMap())}
	for n := range c.fcfs {
		if c.fcfs[n].entry.vid == i.VLAN {
			r.FCFs++
		}
	}
	for n := range c.enodes {
		if c.enodes[n].entry.vid == i.VLAN {
			r.ENodes++
		}
	}
	for n := range c.links {
		if c.links[n].entry.vid == i.VLAN {
			r.Sessions++
		}
	}
	return r
}

func (c *contents) reportFCFs(r *state.FCoE) {
	sessions := map[address]int{}
	for i := range c.enodes {
		e := &c.enodes[i].entry
		sessions[address{e.vid, e.peer}] += len(e.links)
	}
	for i := range c.fcfs {
		f := &c.fcfs[i].entry
		r.FCFs = append(r.FCFs, state.FCF{
			VLAN: f.vid, MAC: f.mac.String(), Port: f.port.Name, Name: f.name.String(), Fabric: f.fabric.Name.String(),
			VFID: f.fabric.VFID, FCMap: fmt.Sprintf("%06X", f.fabric.FCMap), Priority: f.priority,
			FKANS: int64(f.period.Millis) * millisecond, NoKeepAlive: f.period.NoKeepAlive, Available: f.available,
			Restored: f.restored, SinceNS: c.now - f.since, ExpiresInNS: left(c.now, c.fcfs[i].deadline),
			Sessions: sessions[f.address],
		})
	}
}

func (c *contents) reportLink(k *known[link]) state.FCoESession {
	l, e := &k.entry, k.entry.enode
	r := state.FCoESession{
		VLAN: l.vid, VNPort: l.mac.String(), FCID: l.id.String(), WWPN: l.wwpn.String(), WWNN: l.wwnn.String(),
		ENode: e.mac.String(), Port: e.port.Name, FCF: e.peer.String(), FCFPort: e.fcf.port.Name, Login: "flogi",
		Restored: l.restored, SinceNS: c.now - l.since, ExpiresInNS: left(c.now, k.deadline),
	}
	if l.fdisc {
		r.Login = "fdisc"
	}
	return r
}

// ReportPort returns what is known of a port; nil: it is not configured.
func (s *System) ReportPort(now int64, port string) *state.PortFCoE {
	s.lock.Lock()
	defer s.lock.Unlock()
	p := s.port(port)
	if p == nil {
		return nil
	}
	n := &p.counts
	r := &state.PortFCoE{
		Role: p.Role.String(), Listed: len(s.named[port].ENodes),
		ENodes:   state.FCoETable{Used: p.enodes, Limit: p.MaxENodes},
		Sessions: state.FCoETable{Used: p.links, Limit: p.MaxLinks}, Received: n.received, Forwarded: n.forwarded,
		Accepted: n.accepted, Rejected: n.rejected, Unanswered: n.unanswered,
		Refusals: []state.FCoERefusal{}, Endings: []state.FCoEEnding{},
	}
	for reason, frames := range n.refused {
		if r.Refused += frames; frames > 0 {
			r.Refusals = append(r.Refusals, state.FCoERefusal{Reason: Reason(reason).String(),
				Serious: Reason(reason).Serious(), Frames: frames, Last: p.last[reason].report(now)})
		}
	}
	for why, links := range n.ended {
		if links > 0 {
			r.Endings = append(r.Endings, state.FCoEEnding{Reason: Cause(why).String(), Sessions: links})
		}
	}
	return r
}

// report returns nil if there was none.
func (r *refusal) report(now int64) *state.FCoERefusedFrame {
	if r.frame == nil {
		return nil
	}
	source, text := r.describe()
	return &state.FCoERefusedFrame{AgoNS: now - r.at, VLAN: r.vid, Source: source, Text: text}
}

// describe returns the source address of a refused frame, and what it says as far as it can be
// read.
func (r *refusal) describe() (source, text string) {
	var h frame.Header
	if frame.Parse(r.frame, &h) != frame.OK {
		return "", "no valid Ethernet header"
	}
	source = h.Src.String()
	var packet fcoe.Packet
	switch problem := fcoe.Parse(r.frame[h.Payload:], &packet); {
	case h.Type != frame.TypeFIP:
		return source, fmt.Sprintf("EtherType %04x", h.Type)
	case problem == fcoe.OK:
		return source, packet.Describe()
	case packet.Op == 0:
		return source, "FIP frame that can't be read"
	}
	return source, packet.Op.String() + " that can't be read"
}
