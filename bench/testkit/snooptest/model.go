// Package snooptest has an independent model of a FIP snooping bridge for the tests of package
// snoop and of what puts its decisions into effect. It is written from the rules alone, with a
// reader of FIP of its own, and cares for neither speed nor memory: it keeps plain maps, searches
// all of them, and collects every rule that a frame breaks.
package snooptest

import (
	"cmp"
	"slices"

	"sluice/internal/frame"
)

// Role is what a port expects at its other end.
type Role int

// The roles.
const (
	ENodePort Role = iota
	FCFPort
	TrustedPort
)

// Config describes a switch.
type Config struct {
	Instances                                []Instance
	Ports                                    []Port
	MaxFCFs, MaxENodes, MaxLinks, MaxPending int
}

// Instance is an FCoE VLAN.
type Instance struct {
	VLAN      uint16
	FCMap     uint32
	FCFs      []frame.MAC // allowed; empty: all
	SPMA      bool
	AgeTenths int
}

// Port is a port of the switch.
type Port struct {
	Name                            string
	Role                            Role
	VLANs                           []uint16
	MaxENodes, MaxLinks, MaxPending int
}

// station is an address in a VLAN.
type station struct {
	vid uint16
	mac frame.MAC
}

// pair is an ENode that is logged in to an FCF.
type pair struct {
	vid        uint16
	enode, fcf frame.MAC
}

type exchange struct {
	pair
	oxid uint16
}

type fcf struct {
	port   string
	name   uint64
	period int64 // ns
	noKeep bool
	heard  int64 // last advertisement that counts
}

type enode struct {
	port   string
	heard  int64
	period int64 // ns; 0: does not expire
}

type login struct {
	port       string
	kind       int       // FLOGI, FDISC or LOGO
	link       *link     // LOGO: the one to end
	asked      frame.MAC // SPMA; 0: none
	wwpn, wwnn uint64
	since      int64
}

type link struct {
	pair
	port  string
	id    uint32
	wwpn  uint64
	spma  bool
	heard int64
}

// Model is the bridge.
type Model struct {
	c      Config
	up     map[string]bool
	fcfs   map[station]*fcf
	enodes map[pair]*enode
	logins map[exchange]*login
	links  map[station]*link

	Made, Ended int // virtual links so far
	Counts      map[Count]int
}

// Count is what is counted at a port: logins accepted, rejected and unanswered, and virtual links
// ended, by cause.
type Count struct{ Port, What string }

// New returns a Model.
func New(c Config) *Model {
	return &Model{c: c, up: map[string]bool{}, fcfs: map[station]*fcf{}, enodes: map[pair]*enode{},
		logins: map[exchange]*login{}, links: map[station]*link{}, Counts: map[Count]int{}}
}

const (
	ms, second   = int64(1e6), int64(1e9)
	loginTime    = 20 * second
	vnPeriod     = 90 * second
	linuxPeriod  = 8000 // ms, if the advertised one is too short to be meant
	leastPeriod  = 500  // ms
	mostPeriod   = 90000
	graceTime    = 100 * ms
	firstID      = uint32(0x010000)
	lastID       = uint32(0xefffff)
	defaultTenth = 25
)

func (m *Model) instance(vid uint16) *Instance {
	for i := range m.c.Instances {
		if m.c.Instances[i].VLAN == vid {
			return &m.c.Instances[i]
		}
	}
	return nil
}

func (m *Model) port(name string) *Port {
	for i := range m.c.Ports {
		if m.c.Ports[i].Name == name {
			return &m.c.Ports[i]
		}
	}
	return nil
}

func (p *Port) member(vid uint16) bool { return p != nil && slices.Contains(p.VLANs, vid) }

// deadline returns when something of a VLAN that is due each period and was last heard at heard has
// expired.
func (m *Model) deadline(vid uint16, heard, period int64) int64 {
	tenths := m.instance(vid).AgeTenths
	if tenths == 0 {
		tenths = defaultTenth
	}
	return heard + period/10*int64(tenths) + graceTime
}

// Advance ends what has expired at now, in the order in which it has.
func (m *Model) Advance(now int64) {
	for {
		next := m.Deadlines()
		if len(next) == 0 || next[0] > now {
			return
		}
		m.expire(next[0])
	}
}

func (m *Model) expire(now int64) {
	for at, f := range m.fcfs {
		if now >= m.deadline(at.vid, f.heard, f.period) {
			m.endFCF(at, "fcf_expired")
		}
	}
	for at, e := range m.enodes {
		if e.period > 0 && now >= m.deadline(at.vid, e.heard, e.period) {
			m.endENode(at, "enode_expired")
		}
	}
	for at, l := range m.links {
		if !m.fcfs[station{at.vid, l.fcf}].noKeep && now >= m.deadline(at.vid, l.heard, vnPeriod) {
			m.endLink(at, "session_expired")
		}
	}
	for at, l := range m.logins {
		if now >= l.since+loginTime {
			delete(m.logins, at)
			if l.kind != LOGO {
				m.Counts[Count{l.port, "unanswered"}]++
			}
		}
	}
}

// Deadlines returns all times at which something expires.
func (m *Model) Deadlines() (at []int64) {
	for k, f := range m.fcfs {
		at = append(at, m.deadline(k.vid, f.heard, f.period))
	}
	for k, e := range m.enodes {
		if e.period > 0 {
			at = append(at, m.deadline(k.vid, e.heard, e.period))
		}
	}
	for k, l := range m.links {
		if !m.fcfs[station{k.vid, l.fcf}].noKeep {
			at = append(at, m.deadline(k.vid, l.heard, vnPeriod))
		}
	}
	for _, l := range m.logins {
		at = append(at, l.since+loginTime)
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// endLink ends a virtual link, and its ENode's login if it was the last one.
func (m *Model) endLink(at station, cause string) {
	l := m.links[at]
	m.Counts[Count{l.port, cause}]++
	delete(m.links, at)
	m.Ended++
	if len(m.linksOf(l.pair)) == 0 {
		delete(m.enodes, l.pair)
	}
}

func (m *Model) linksOf(p pair) (all []station) {
	for at, l := range m.links {
		if l.pair == p {
			all = append(all, at)
		}
	}
	return all
}

func (m *Model) endENode(p pair, cause string) {
	for _, at := range m.linksOf(p) {
		m.endLink(at, cause)
	}
	delete(m.enodes, p)
}

func (m *Model) endFCF(at station, cause string) {
	for p := range m.enodes {
		if p.vid == at.vid && p.fcf == at.mac {
			m.endENode(p, cause)
		}
	}
	for x := range m.logins {
		if x.vid == at.vid && x.fcf == at.mac {
			delete(m.logins, x)
		}
	}
	delete(m.fcfs, at)
}

// endOf ends everything in VLAN vid at a port.
func (m *Model) endOf(port string, vid uint16, cause string) {
	for at, f := range m.fcfs {
		if at.vid == vid && f.port == port {
			m.endFCF(at, cause)
		}
	}
	for p, e := range m.enodes {
		if p.vid == vid && e.port == port {
			m.endENode(p, cause)
		}
	}
	for x, l := range m.logins {
		if x.vid == vid && l.port == port {
			delete(m.logins, x)
		}
	}
}

// SetLink is a change of a port's link.
func (m *Model) SetLink(now int64, port string, up bool) {
	m.Advance(now)
	if m.port(port) == nil {
		return
	}
	if m.up[port] && !up {
		for _, i := range m.c.Instances {
			m.endOf(port, i.VLAN, "port_down")
		}
	}
	m.up[port] = up
}

// Configure changes the configuration.
func (m *Model) Configure(now int64, c Config) {
	m.Advance(now)
	old := m.c
	next := New(c)
	for _, i := range old.Instances {
		n := next.instance(i.VLAN)
		for _, p := range old.Ports {
			q := next.port(p.Name)
			if n == nil || n.FCMap != i.FCMap || q == nil || q.Role != p.Role || !q.member(i.VLAN) {
				m.endOf(p.Name, i.VLAN, "reconfigured")
			}
		}
		if n == nil {
			continue
		}
		for at := range m.fcfs {
			if at.vid == i.VLAN && !n.allows(at.mac) {
				m.endFCF(at, "reconfigured")
			}
		}
		for at, l := range m.links {
			if at.vid == i.VLAN && l.spma && !n.SPMA {
				m.endLink(at, "reconfigured")
			}
		}
	}
	for _, p := range old.Ports {
		if next.port(p.Name) == nil {
			delete(m.up, p.Name)
		}
	}
	m.c = c
}

func (i *Instance) allows(mac frame.MAC) bool {
	return len(i.FCFs) == 0 || slices.Contains(i.FCFs, mac)
}

// Restart is a restart of the switch that has kept its state.
func (m *Model) Restart(now int64) {
	m.Advance(now)
	m.logins = map[exchange]*login{}
	m.up = map[string]bool{}
}

// Full returns whether a table has more entries than the limits allow, after they became lower.
func (m *Model) Full() bool {
	if len(m.fcfs) > m.c.MaxFCFs || len(m.enodes) > m.c.MaxENodes || len(m.links) > m.c.MaxLinks {
		return true
	}
	for _, p := range m.c.Ports {
		if m.enodesAt(p.Name) > p.MaxENodes || m.linksAt(p.Name) > p.MaxLinks {
			return true
		}
	}
	return false
}

func (m *Model) enodesAt(port string) (n int) {
	for _, e := range m.enodes {
		if e.port == port {
			n++
		}
	}
	return n
}

func (m *Model) linksAt(port string) (n int) {
	for _, l := range m.links {
		if l.port == port {
			n++
		}
	}
	return n
}

func (m *Model) loginsAt(port string) (n int) {
	for _, l := range m.logins {
		if l.port == port {
			n++
		}
	}
	return n
}

// Apply lets an Event happen at now, Step included; the Judgement is that of a frame.
func (m *Model) Apply(now int64, e Event) (j Judgement) {
	switch e.Kind {
	case Receives:
		return m.Receive(now, e.Port, e.VID, e.Bytes)
	case Links:
		m.SetLink(now, e.Port, e.Up)
	case Configures:
		m.Configure(now, e.Config)
	case Restarts:
		m.Restart(now)
	}
	return j
}

// Standing is a virtual link that stands.
type Standing struct {
	VID            uint16
	VN, ENode, FCF frame.MAC
	ENodePort      string
	FCFPort        string
	Age            int64 // ns since the last keep-alive
	Lasts          int64 // ns until it expires; 0: it does not
}

// Standing returns the virtual links, in the order of VLAN and VN_Port MAC.
func (m *Model) Standing(now int64) (all []Standing) {
	for at, l := range m.links {
		f := m.fcfs[station{at.vid, l.fcf}]
		s := Standing{VID: at.vid, VN: at.mac, ENode: l.enode, FCF: l.fcf, ENodePort: l.port, FCFPort: f.port,
			Age: now - l.heard}
		if !f.noKeep {
			s.Lasts = m.deadline(at.vid, l.heard, vnPeriod) - now
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Standing) int { return cmp.Or(cmp.Compare(a.VID, b.VID), cmp.Compare(a.VN, b.VN)) })
	return all
}

// Aged is an FCF or, with FCF as well, an ENode, and how long ago it was heard.
type Aged struct {
	VID      uint16
	MAC, FCF frame.MAC
	Port     string
	Age      int64
	Lasts    int64 // ns until it expires; 0: it does not
}

// Aged returns FCFs and ENodes in the order of VLAN and addresses.
func (m *Model) Aged(now int64) (all []Aged) {
	for at, f := range m.fcfs {
		all = append(all, Aged{VID: at.vid, MAC: at.mac, Port: f.port, Age: now - f.heard,
			Lasts: m.deadline(at.vid, f.heard, f.period) - now})
	}
	for p, e := range m.enodes {
		a := Aged{VID: p.vid, MAC: p.enode, FCF: p.fcf, Port: e.port, Age: now - e.heard}
		if e.period > 0 {
			a.Lasts = m.deadline(p.vid, e.heard, e.period) - now
		}
		all = append(all, a)
	}
	SortAged(all)
	return all
}

// SortAged sorts as Aged does.
func SortAged(all []Aged) {
	slices.SortFunc(all, func(a, b Aged) int {
		return cmp.Or(cmp.Compare(a.VID, b.VID), cmp.Compare(a.MAC, b.MAC), cmp.Compare(a.FCF, b.FCF))
	})
}

// Pending returns how many requests wait for a reply.
func (m *Model) Pending() int { return len(m.logins) }

// FCoE returns the port to which an FCoE frame goes that has arrived at a port; "": nowhere.
func (m *Model) FCoE(port string, vid uint16, dst, src frame.MAC) string {
	for at, l := range m.links {
		if at.vid != vid {
			continue
		}
		fcfPort := m.fcfs[station{vid, l.fcf}].port
		if src == at.mac && dst == l.fcf && port == l.port {
			return fcfPort
		}
		if src == l.fcf && dst == at.mac && port == fcfPort {
			return l.port
		}
	}
	return ""
}
