package snoop

import (
	"cmp"
	"maps"
	"slices"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// tables hold what is known. All are bounded: by the limits of Params, and claims by them all.
type tables struct {
	fcfs   map[address]*fcf
	enodes map[pair]*enode
	links  map[address]*link
	logins map[exchange]*login
	claims map[address]*claim
}

func newTables() tables {
	return tables{fcfs: map[address]*fcf{}, enodes: map[pair]*enode{}, links: map[address]*link{},
		logins: map[exchange]*login{}, claims: map[address]*claim{}}
}

// address is a MAC address in a VLAN.
type address struct {
	vid uint16
	mac frame.MAC
}

// pair is an ENode and an FCF to which it has logged in, or wants to.
type pair struct {
	address // of the ENode
	peer    frame.MAC
}

// exchange identifies a request until it is answered.
type exchange struct {
	pair
	oxid uint16
}

// fcf is an FCF that advertises itself.
type fcf struct {
	address
	port      *port
	name      fcoe.WWN // of the switch
	fabric    fcoe.Fabric
	priority  uint8
	period    fcoe.Period // as advertised
	available bool
	since     int64 // time of its first advertisement
	refreshed int64 // and of the last one that counts
	restored  bool  // not seen since Restore
}

// enode is an ENode that has logged in to an FCF: it has one virtual link at least. An ENode that
// has logged in to two FCFs is two, as it sends keep-alives to each.
type enode struct {
	pair
	fcf       *fcf
	port      *port
	links     []*link
	since     int64 // time of its FLOGI
	refreshed int64 // of its last keep-alive
	restored  bool
}

// link is a virtual link. Its address is that of the VN_Port.
type link struct {
	address
	enode         *enode
	id            fcoe.FCID
	wwpn, wwnn    fcoe.WWN
	fdisc, server bool  // made by FDISC; the address is server-provided (SPMA)
	since         int64 // time of the accept
	refreshed     int64 // of the last keep-alive of the VN_Port
	restored      bool
}

// login is a FLOGI, FDISC or LOGO that waits for its reply.
type login struct {
	exchange
	service    fcoe.Descriptor // DescFLOGI, DescFDISC or DescLOGO
	fcf        *fcf
	port       *port
	wanted     frame.MAC // SPMA that is asked for; 0: none
	wwpn, wwnn fcoe.WWN
	link       *link // to log out
	since      int64
}

// claim binds an address to the port behind which it has logged in. It is what keeps one ENode port
// from using the addresses of another one.
type claim struct {
	port  *port
	users int // ENodes and VN_Ports that have it
}

func (s *System) claim(at address, p *port) {
	c := s.claims[at]
	if c == nil {
		c = &claim{port: p}
		s.claims[at] = c
	}
	c.users++
}

// release takes back a claim.
func (s *System) release(at address) {
	if c := s.claims[at]; c.users > 1 {
		c.users--
	} else {
		delete(s.claims, at)
	}
}

// taken reports whether an address is bound to another port.
func (s *System) taken(at address, p *port) bool {
	c := s.claims[at]
	return c != nil && c.port != p
}

// addLogin adds a login. It takes the place of one with the same OX_ID, which the ENode has given
// up, or which another port has sent in its name.
func (s *System) addLogin(l *login) {
	if old := s.logins[l.exchange]; old != nil {
		s.endLogin(old)
	}
	s.logins[l.exchange] = l
	l.port.pending++
	s.due(l.deadline())
}

func (s *System) endLogin(l *login) {
	delete(s.logins, l.exchange)
	l.port.pending--
}

// addENode adds an ENode, to which the caller adds its first virtual link.
func (s *System) addENode(e *enode) {
	s.enodes[e.pair] = e
	e.port.enodes++
	s.claim(e.address, e.port)
	s.due(s.deadlineOf(e))
}

// addLink adds a virtual link that its ENode has listed. One with the same address has ended.
func (s *System) addLink(l *link) {
	s.links[l.address] = l
	l.enode.port.links++
	s.claim(l.address, l.enode.port)
	s.due(s.deadlineOfLink(l))
	s.serial++
	s.updates++
}

// endLink ends a virtual link, and with its last one the ENode.
func (s *System) endLink(now int64, l *link, why Cause) {
	e := l.enode
	delete(s.links, l.address)
	e.links = slices.DeleteFunc(e.links, func(o *link) bool { return o == l })
	e.port.links--
	e.port.counts.ended[why]++
	s.release(l.address)
	s.serial++
	s.updates++
	s.logEnded(now, l, why)
	if len(e.links) == 0 {
		s.removeENode(e)
	}
}

func (s *System) removeENode(e *enode) {
	delete(s.enodes, e.pair)
	e.port.enodes--
	s.release(e.address)
}

// endENode ends all virtual links of an ENode with its FCF.
func (s *System) endENode(now int64, e *enode, why Cause) {
	for _, l := range slices.Clone(e.links) {
		s.endLink(now, l, why)
	}
}

// endFCF forgets an FCF, and ends all that depends on it.
func (s *System) endFCF(now int64, f *fcf, why Cause) {
	s.endWhere(now, why, func(p *pair) bool { return p.vid == f.vid && p.peer == f.mac })
	delete(s.fcfs, f.address)
	s.updates++
	s.logFCF(now, f, "FCF is gone", "why", why.String())
}

// endWhere ends the ENodes and logins of all pairs for which is holds.
func (s *System) endWhere(now int64, why Cause, is func(*pair) bool) {
	for _, l := range s.logins {
		if is(&l.pair) {
			s.endLogin(l)
		}
	}
	for _, e := range matching(s.enodes, compareENodes, func(e *enode) bool { return is(&e.pair) }) {
		s.endENode(now, e, why)
	}
}

// clear ends everything at a port.
func (s *System) clear(now int64, p *port, why Cause) {
	for _, f := range matching(s.fcfs, compareFCFs, func(f *fcf) bool { return f.port == p }) {
		s.endFCF(now, f, why)
	}
	for _, l := range s.logins {
		if l.port == p {
			s.endLogin(l)
		}
	}
	for _, e := range matching(s.enodes, compareENodes, func(e *enode) bool { return e.port == p }) {
		s.endENode(now, e, why)
	}
}

// sorted returns the entries of a table in an order that does not change from run to run.
func sorted[K comparable, V any](table map[K]V, order func(V, V) int) []V {
	return slices.SortedFunc(maps.Values(table), order)
}

// matching returns those for which is holds, in such an order.
func matching[K comparable, V any](table map[K]V, order func(V, V) int, is func(V) bool) (all []V) {
	for _, one := range table {
		if is(one) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, order)
	return all
}

func compare(a, b address) int { return cmp.Or(cmp.Compare(a.vid, b.vid), cmp.Compare(a.mac, b.mac)) }

func comparePairs(a, b pair) int {
	return cmp.Or(compare(a.address, b.address), cmp.Compare(a.peer, b.peer))
}

func compareFCFs(a, b *fcf) int { return compare(a.address, b.address) }

func compareENodes(a, b *enode) int { return comparePairs(a.pair, b.pair) }

func compareLinks(a, b *link) int { return compare(a.address, b.address) }

func compareLogins(a, b *login) int {
	return cmp.Or(comparePairs(a.pair, b.pair), cmp.Compare(a.oxid, b.oxid))
}
