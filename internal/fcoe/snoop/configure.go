package snoop

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// Configure changes over to other parameters. What still fits them stays; the rest ends: what is at
// a port that leaves, has another role or is no longer a member of the VLAN, all of an instance
// that leaves or has another FC-MAP, FCFs that are no longer allowed, hosts with the address of an
// FCF that is, logins that Port.ENodes does not allow, and server-provided addresses if SPMA no
// longer is. Ports are told apart by name, instances by VLAN. Lower limits end nothing. Configure
// returns how many virtual links have ended. An error says which parameter is invalid; then nothing
// has changed.
func (s *System) Configure(now int64, p Params) (ended int, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	next, err := newSetup(p)
	if err != nil {
		return 0, err
	}
	s.advance(now)
	before := len(s.links)
	s.endMisfits(now, next)
	ended = before - len(s.links)
	var ports []*port
	byName := make(map[string]*port)
	for _, one := range p.Ports {
		at := cmp.Or(s.byName[one.Name], &port{Port: one})
		at.Role, at.Member = one.Role, one.Member // Name stays untouched: reports read it at any time
		at.MaxENodes, at.MaxLinks, at.MaxPending = one.MaxENodes, one.MaxLinks, one.MaxPending
		ports, byName[one.Name] = append(ports, at), at
	}
	s.params, s.ports, s.byName, s.setup = p, ports, byName, next
	s.next = now // the time after which something is forgotten may be another one
	return ended, nil
}

// Ending is sessions, which are virtual links, that a reload ends for the same reason.
type Ending struct {
	Sessions int    `json:"sessions"`
	Why      string `json:"why"`
}

// Ending returns the virtual links that Configure would end, without changing anything, and those
// that end because the links of some ports go down.
func (s *System) Ending(p Params, down ...string) (all []Ending, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	next, err := newSetup(p)
	if err != nil {
		return nil, err
	}
	for _, l := range sorted(s.links, compareLinks) {
		why := next.misfitLink(l)
		for _, p := range []*port{l.enode.port, l.enode.fcf.port} {
			if why == "" && slices.Contains(down, p.Name) {
				why = fmt.Sprintf("the link of port %s goes down", p.Name)
			}
		}
		at := slices.IndexFunc(all, func(e Ending) bool { return e.Why == why })
		switch {
		case why == "":
		case at < 0:
			all = append(all, Ending{1, why})
		default:
			all[at].Sessions++
		}
	}
	return all, nil
}

// setup is Params to be looked things up in.
type setup struct {
	instances map[uint16]*Instance
	named     map[string]*Port
	listed    map[ENodeName]bool // by some port
}

func newSetup(p Params) (*setup, error) {
	s := &setup{map[uint16]*Instance{}, map[string]*Port{}, map[ENodeName]bool{}}
	if len(p.Instances) > 0 && min(p.MaxFCFs, p.MaxENodes, p.MaxLinks, p.MaxPending) < 1 {
		return nil, errors.New("a limit of the switch is below 1: allow at least one FCF, ENode, session and login")
	}
	for i := range p.Instances {
		one := &p.Instances[i]
		if err := one.check(); err != nil {
			return nil, fmt.Errorf("FCoE instance %s: %w", one.Name, err)
		}
		if other := s.instances[one.VLAN]; other != nil {
			return nil, fmt.Errorf("FCoE instances %s and %s both have VLAN %d: give each its own", other.Name,
				one.Name, one.VLAN)
		}
		s.instances[one.VLAN] = one
	}
	for i := range p.Ports {
		one := &p.Ports[i]
		switch {
		case s.named[one.Name] != nil:
			return nil, fmt.Errorf("two ports have the name %s: give each its own", one.Name)
		case one.Role > Trusted || one.Member == nil:
			return nil, fmt.Errorf("port %s has no role or no VLANs: set both", one.Name)
		case len(p.Instances) > 0 && min(one.MaxENodes, one.MaxLinks, one.MaxPending) < 1:
			return nil, fmt.Errorf("a limit of port %s is below 1: allow at least one ENode, session and login",
				one.Name)
		}
		s.named[one.Name] = one
		for _, name := range one.ENodes {
			s.listed[name] = true
		}
	}
	return s, nil
}

func (i *Instance) check() error {
	const lastVLAN, lastMap = 4094, fcoe.DefaultFCMap | 0xff
	switch {
	case i.VLAN < 1 || i.VLAN > lastVLAN:
		return fmt.Errorf("VLAN %d is not from 1 to %d", i.VLAN, lastVLAN)
	case i.fcMap() < fcoe.DefaultFCMap || i.fcMap() > lastMap:
		return fmt.Errorf("FC-MAP %06X is not from %06X to %06X", i.FCMap, fcoe.DefaultFCMap, lastMap)
	case i.AgeTenths != 0 && (i.AgeTenths < 25 || i.AgeTenths > 50):
		return fmt.Errorf("the age multiplier %d/10 is not from 2.5 to 5", i.AgeTenths)
	}
	for _, mac := range i.FCFs {
		if mac == 0 || mac.Group() || uint32(mac>>24) == i.fcMap() {
			return fmt.Errorf("%v is no address of an FCF: use a unicast address outside FC-MAP %06X", mac, i.fcMap())
		}
	}
	return nil
}

// endMisfits ends what does not fit other parameters.
func (s *System) endMisfits(now int64, next *setup) {
	for _, f := range sorted(s.fcfs, compareFCFs) {
		if next.misfitFCF(f) != "" {
			s.endFCF(now, f, Reconfigured)
		}
	}
	for _, l := range s.logins {
		if next.misfitHost(l.fcf, l.port, l.address, l.wwpn, l.wanted) != "" {
			s.endLogin(l)
		}
	}
	for _, l := range sorted(s.links, compareLinks) {
		if next.misfitLink(l) != "" {
			s.endLink(now, l, Reconfigured)
		}
	}
}

// misfitPort says why what is behind a port in a VLAN does not fit the parameters; empty: it does.
func (s *setup) misfitPort(p *port, vid uint16) string {
	switch next := s.named[p.Name]; {
	case next == nil:
		return fmt.Sprintf("port %s is removed", p.Name)
	case !next.Member(vid):
		return fmt.Sprintf("port %s is no longer in VLAN %d", p.Name, vid)
	case next.Role != p.Role:
		return fmt.Sprintf("port %s has another role", p.Name)
	}
	return ""
}

func (s *setup) misfitFCF(f *fcf) string {
	switch i := s.instances[f.vid]; {
	case i == nil:
		return fmt.Sprintf("VLAN %d has no instance", f.vid)
	case i.fcMap() != f.fabric.FCMap:
		return fmt.Sprintf("VLAN %d has another fc_map", f.vid)
	case len(i.FCFs) > 0 && !slices.Contains(i.FCFs, f.mac):
		return fmt.Sprintf("FCF %v is not in fcfs", f.mac)
	}
	return s.misfitPort(f.port, f.vid)
}

func (s *setup) misfitHost(f *fcf, p *port, host address, wwpn fcoe.WWN, spma frame.MAC) string {
	why := cmp.Or(s.misfitFCF(f), s.misfitPort(p, host.vid))
	switch {
	case why != "":
	case slices.Contains(s.instances[host.vid].FCFs, host.mac):
		why = fmt.Sprintf("%v, the address of a host, is in fcfs", host.mac)
	case !s.admits(p, host.mac, wwpn, spma):
		why = fmt.Sprintf("enodes does not allow its host at port %s", p.Name)
	}
	return why
}

// admits reports whether an ENode may log in behind a port, and have an SPMA there; 0: none. No
// host can take the place of a listed one while its link is down: its names are accepted only
// behind a port that lists them.
func (s *setup) admits(p *port, mac frame.MAC, wwpn fcoe.WWN, spma frame.MAC) bool {
	list := s.named[p.Name].ENodes
	admitted := len(list) == 0
	for _, name := range []ENodeName{{MAC: mac}, {WWPN: wwpn}, {MAC: spma}} {
		switch {
		case slices.Contains(list, name):
			admitted = true
		case s.listed[name]:
			return false
		}
	}
	return admitted
}

func (s *setup) misfitLink(l *link) string {
	var spma frame.MAC
	if l.server {
		spma = l.mac
	}
	why := s.misfitHost(l.enode.fcf, l.enode.port, l.enode.address, l.wwpn, spma)
	switch i := s.instances[l.vid]; {
	case why != "":
		return why
	case l.server && !i.SPMA:
		return fmt.Sprintf("spma is off in VLAN %d", l.vid)
	case slices.Contains(i.FCFs, l.mac):
		return fmt.Sprintf("%v, the address of a VN_Port, is in fcfs", l.mac)
	}
	return ""
}
