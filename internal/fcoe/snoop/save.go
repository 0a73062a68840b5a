package snoop

import (
	"fmt"
	"math"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// Snapshot is what has to survive a restart: plain data, with ages instead of times. Logins that
// wait for a reply are not part of it: an ENode that gets none tries again.
type Snapshot struct {
	FCFs   []SavedFCF   `json:"fcfs"`
	ENodes []SavedENode `json:"enodes"`
	Links  []SavedLink  `json:"links"`
}

// SavedFCF is an FCF. Ages are in ns.
type SavedFCF struct {
	VID       uint16      `json:"vid"`
	MAC       frame.MAC   `json:"mac"`
	Port      string      `json:"port"`
	Priority  uint8       `json:"priority"`
	Name      fcoe.WWN    `json:"name"`
	Fabric    fcoe.Fabric `json:"fabric"`
	Period    fcoe.Period `json:"period"`
	Available bool        `json:"available"`
	Refreshed int64       `json:"refreshed"` // age of its last advertisement that counts
	Since     int64       `json:"since"`     // and of the first one
}

// SavedENode is an ENode that has logged in to an FCF. Its port is that of its links.
type SavedENode struct {
	VID       uint16    `json:"vid"`
	MAC       frame.MAC `json:"mac"`
	FCF       frame.MAC `json:"fcf"`
	Port      string    `json:"port"`
	Refreshed int64     `json:"refreshed"` // age of its last keep-alive
	Since     int64     `json:"since"`     // and of its login
}

// SavedLink is a virtual link of an ENode with an FCF.
type SavedLink struct {
	VID       uint16    `json:"vid"`
	VN        frame.MAC `json:"vn"`
	ENode     frame.MAC `json:"enode"`
	FCF       frame.MAC `json:"fcf"`
	ID        fcoe.FCID `json:"id"`
	Port      fcoe.WWN  `json:"port"` // WWPN
	Node      fcoe.WWN  `json:"node"` // WWNN
	FDISC     bool      `json:"fdisc"`
	SPMA      bool      `json:"spma"`
	Refreshed int64     `json:"refreshed"` // age of its last keep-alive
	Since     int64     `json:"since"`     // and of its login
}

// Save returns what is known at now.
func (s *System) Save(now int64) Snapshot {
	s.lock.Lock()
	defer s.lock.Unlock()
	all := Snapshot{FCFs: []SavedFCF{}, ENodes: []SavedENode{}, Links: []SavedLink{}}
	for _, f := range sorted(s.fcfs, compareFCFs) {
		all.FCFs = append(all.FCFs, SavedFCF{VID: f.vid, MAC: f.mac, Port: f.port.Name, Priority: f.priority,
			Name: f.name, Fabric: f.fabric, Period: f.period, Available: f.available,
			Refreshed: now - f.refreshed, Since: now - f.since})
	}
	for _, e := range sorted(s.enodes, compareENodes) {
		all.ENodes = append(all.ENodes, SavedENode{VID: e.vid, MAC: e.mac, FCF: e.peer, Port: e.port.Name,
			Refreshed: now - e.refreshed, Since: now - e.since})
	}
	for _, l := range sorted(s.links, compareLinks) {
		all.Links = append(all.Links, SavedLink{VID: l.vid, VN: l.mac, ENode: l.enode.mac, FCF: l.enode.peer, ID: l.id,
			Port: l.wwpn, Node: l.wwnn, FDISC: l.fdisc, SPMA: l.server,
			Refreshed: now - l.refreshed, Since: now - l.since})
	}
	return all
}

// Restore adds what a Snapshot holds, elapsed ns after it was taken. Every entry is checked against
// the parameters, the limits and what is known already, as if it came in a frame; an entry that
// doesn't fit, or has expired meanwhile, is left out. Restore returns how many virtual links it has
// restored, and a sentence for each entry that was left out.
func (s *System) Restore(now, elapsed int64, from Snapshot) (restored int, leftOut []string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.advance(now)
	leave := func(vid uint16, what string, mac frame.MAC, why string) {
		if why != "" {
			leftOut = append(leftOut, fmt.Sprintf("%s %v in VLAN %d: %s", what, mac, vid, why))
		}
	}
	for i := range from.FCFs {
		one := &from.FCFs[i]
		leave(one.VID, "FCF", one.MAC, s.restoreFCF(now, elapsed, one))
	}
	ports := map[pair]*SavedENode{}
	for i := range from.ENodes {
		one := &from.ENodes[i]
		ports[pair{address{one.VID, one.MAC}, one.FCF}] = one
	}
	for i := range from.Links {
		one := &from.Links[i]
		why := s.restoreLink(now, elapsed, one, ports[pair{address{one.VID, one.ENode}, one.FCF}])
		if leave(one.VID, "VN_Port", one.VN, why); why == "" {
			restored++
		}
	}
	return restored, leftOut
}

// expired is why most entries are left out.
const expired = "it has expired"

// aged returns when something happened that a Snapshot gives the age of, and whether that is
// possible. It can't overflow.
func aged(now, elapsed, age int64) (at int64, ok bool) {
	const most = math.MaxInt64 / 4
	return now - age - elapsed, 0 <= elapsed && elapsed <= most && 0 <= age && age <= most
}

// restoreFCF adds an FCF, or says why not.
func (s *System) restoreFCF(now, elapsed int64, from *SavedFCF) (why string) {
	f := &fcf{address: address{from.VID, from.MAC}, port: s.port(from.Port), name: from.Name, fabric: from.Fabric,
		priority: from.Priority, period: from.Period, available: from.Available, restored: true}
	var ok, ok2 bool
	f.refreshed, ok = aged(now, elapsed, from.Refreshed)
	f.since, ok2 = aged(now, elapsed, from.Since)
	switch {
	case !ok || !ok2:
		return "its ages are not valid"
	case f.port == nil || f.port.Role == ENode || s.misfitFCF(f) != "" || !s.usable(f.vid, f.mac):
		return "it does not fit the configuration"
	case s.fcfs[f.address] != nil || s.claims[f.address] != nil:
		return "its address is in use"
	case len(s.fcfs) >= s.params.MaxFCFs:
		return "there is no room for it"
	case s.deadlineOfFCF(f) <= now:
		return expired
	}
	s.fcfs[f.address] = f
	s.due(s.deadlineOfFCF(f))
	s.updates++
	return ""
}

// restoreLink adds a virtual link, and its ENode with the first one, or says why not.
func (s *System) restoreLink(now, elapsed int64, from *SavedLink, of *SavedENode) (why string) {
	if of == nil {
		return "its ENode is missing"
	}
	e, why := s.restoreENode(now, elapsed, of)
	if why != "" {
		return why
	}
	l := &link{address: address{from.VID, from.VN}, enode: e, id: from.ID, wwpn: from.Port, wwnn: from.Node,
		fdisc: from.FDISC, server: from.SPMA, restored: true}
	var ok, ok2 bool
	l.refreshed, ok = aged(now, elapsed, from.Refreshed)
	l.since, ok2 = aged(now, elapsed, from.Since)
	known := s.enodes[e.pair]
	switch {
	case !ok || !ok2:
		return "its ages are not valid"
	case s.judgeAddress(l) != Passed:
		return "its address or FC_ID is not valid"
	case s.misfitLink(l) != "":
		return "it does not fit the configuration"
	case s.links[l.address] != nil:
		return "its address is in use"
	case s.room(e.port, known, nil) != Passed:
		return "there is no room for it"
	case s.deadlineOf(e) <= now || s.deadlineOfLink(l) <= now:
		return expired
	}
	if known == nil {
		s.addENode(e)
	}
	e.links = append(e.links, l)
	s.addLink(l)
	e.port.counts.restored++
	return ""
}

// restoreENode returns the ENode of a virtual link, which is in no table yet if this is its first
// one, or says why there can't be one.
func (s *System) restoreENode(now, elapsed int64, from *SavedENode) (e *enode, why string) {
	e = &enode{pair: pair{address{from.VID, from.MAC}, from.FCF}, port: s.port(from.Port), restored: true,
		fcf: s.fcfs[address{from.VID, from.FCF}]}
	if known := s.enodes[e.pair]; known != nil {
		if known.port != e.port {
			return nil, "its ENode is at another port"
		}
		return known, ""
	}
	var ok, ok2 bool
	e.refreshed, ok = aged(now, elapsed, from.Refreshed)
	e.since, ok2 = aged(now, elapsed, from.Since)
	switch {
	case !ok || !ok2:
		return nil, "the ages of its ENode are not valid"
	case e.fcf == nil:
		return nil, "its FCF is not known"
	case e.port == nil || e.port.Role == FCF || e.port == e.fcf.port || !e.port.Member(e.vid):
		return nil, "its port does not fit the configuration"
	case !s.usable(e.vid, e.mac) || s.isFCF(e.vid, e.mac) || s.taken(e.address, e.port):
		return nil, "the address of its ENode is not valid, or in use"
	}
	return e, ""
}
