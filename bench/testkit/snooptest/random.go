package snooptest

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"sluice/internal/frame"
)

// Kind is what happens in an Event.
type Kind int

// The kinds.
const (
	Receives Kind = iota // a frame arrives
	Links                // a port's link changes
	Configures
	Restarts // the switch restarts with the state that it has saved
)

// Event is one thing that happens to a switch.
type Event struct {
	Step   int64 // ns after the event before
	Kind   Kind
	Port   string
	VID    uint16
	Bytes  []byte
	Up     bool
	Config Config
	Down   int64  // Restarts: ns until the switch is there again
	Note   string // what it is meant to be
}

func (e Event) String() string {
	at := fmt.Sprintf("+%d.%06d ms ", e.Step/ms, e.Step%ms)
	switch e.Kind {
	case Receives:
		return at + fmt.Sprintf("%s vlan %d %s %x…", e.Port, e.VID, e.Note, bytes.TrimRight(e.Bytes, "\x00"))
	case Links:
		return at + fmt.Sprintf("%s up=%v", e.Port, e.Up)
	case Configures:
		return at + fmt.Sprintf("configure %+v", e.Config)
	}
	return at + fmt.Sprintf("restart after %d ns", e.Down)
}

// Traffic makes random events of a fabric with some ENodes and FCFs: most of them as they should
// be, many with something wrong.
type Traffic struct {
	r    *rand.Rand
	m    *Model
	calm bool // less goes wrong, so tables fill
}

// NewTraffic returns the traffic that a seed stands for. It looks into m, which the events must be
// applied to, to log in, out and in again where that is possible.
func NewTraffic(seed uint64, m *Model) *Traffic {
	return &Traffic{rand.New(rand.NewPCG(seed, 24)), m, seed%3 == 0}
}

// The cast. The VLANs are two for FCoE and an ordinary one.
var (
	enodes = []frame.MAC{0x0200_0000_0001, 0x0200_0000_0002, 0x0200_0000_0003, 0x0200_0000_0004, 0x0200_0000_0005}
	fcfs   = []frame.MAC{0x0011_2233_4401, 0x0011_2233_4402, 0x0011_2233_4403}
	vlans  = []uint16{100, 200, 1}
	ids    = []uint32{0x010001, 0x010002, 0x010003, 0x010004, 0x010005, 0x010006, 0x010007, 0x010008, 0x020001}
)

// DefaultConfig is the switch at the start.
func DefaultConfig() Config {
	c := Config{
		Instances: []Instance{{VLAN: 100, FCMap: 0x0efc00, AgeTenths: 25},
			{VLAN: 200, FCMap: 0x0efc01, AgeTenths: 30, SPMA: true}},
		MaxFCFs: 4, MaxENodes: 8, MaxLinks: 12, MaxPending: 10,
	}
	for _, p := range []struct {
		name string
		role Role
	}{{"e1", ENodePort}, {"e2", ENodePort}, {"e3", ENodePort}, {"f1", FCFPort}, {"f2", FCFPort}, {"t1", TrustedPort}} {
		c.Ports = append(c.Ports, Port{Name: p.name, Role: p.role, VLANs: vlans,
			MaxENodes: 4, MaxLinks: 6, MaxPending: 5})
	}
	return c
}

func pick[T any](r *rand.Rand, of []T) (v T) {
	if len(of) > 0 {
		v = of[r.IntN(len(of))]
	}
	return v
}

func (t *Traffic) chance(percent int) bool { return t.r.IntN(100) < percent }

// Next returns the next event after now.
func (t *Traffic) Next(now int64) Event {
	e := Event{Step: t.step(now)}
	switch n := t.r.IntN(1000); {
	case n < 6 && t.calm: // neither changes of links nor of the configuration
		t.frame(&e)
	case n < 2:
		e.Kind, e.Port, e.Up = Links, pick(t.r, t.m.c.Ports).Name, t.chance(60)
	case n < 4:
		e.Kind, e.Config = Configures, t.Config()
	case n < 7 && !t.m.Full():
		e.Kind, e.Down = Restarts, t.down(now+e.Step)
	default:
		t.frame(&e)
	}
	return e
}

// step is short, or leads to where something expires, or a bit before or behind.
func (t *Traffic) step(now int64) int64 {
	switch n := t.r.IntN(100); {
	case n < 95:
		return t.r.Int64N(100 * ms)
	case n < 98:
		next := t.m.Deadlines()
		if t.chance(90) && len(next) > 0 {
			next = next[:1]
		}
		at := pick(t.r, next) + pick(t.r, []int64{-ms, -1, 0, 1, ms}) - now
		if at >= 0 && at < 60*second {
			return at
		}
		return 0
	}
	return t.r.Int64N(5 * second)
}

// down is how long the switch is away: for some time, or until something expires.
func (t *Traffic) down(now int64) int64 {
	at := pick(t.r, t.m.Deadlines()) + pick(t.r, []int64{-1, 0, 0, 1}) - now
	if at < 0 || at > 300*second || t.chance(40) {
		return pick(t.r, []int64{0, second, t.r.Int64N(30 * second)})
	}
	return at
}

// Config returns a configuration other than the default one in some respects.
func (t *Traffic) Config() Config {
	c := DefaultConfig()
	for range t.r.IntN(3) {
		p, i := &c.Ports[t.r.IntN(len(c.Ports))], &c.Instances[t.r.IntN(2)]
		switch t.r.IntN(9) {
		case 0:
			p.Role = Role(t.r.IntN(3))
		case 1:
			p.VLANs = pick(t.r, [][]uint16{{100, 1}, {200, 1}, {100, 200}, {1}})
		case 2:
			i.FCMap = pick(t.r, []uint32{0x0efc00, 0x0efc01, 0x0efc02})
		case 3:
			i.FCFs = fcfs[:1+t.r.IntN(2)]
		case 4:
			i.SPMA = !i.SPMA
		case 5:
			i.AgeTenths = pick(t.r, []int{25, 30, 50, 0})
		case 6:
			p.MaxENodes, p.MaxLinks, p.MaxPending = 1+t.r.IntN(4), 1+t.r.IntN(6), 1+t.r.IntN(5)
		case 7:
			c.MaxFCFs, c.MaxENodes = 1+t.r.IntN(4), 1+t.r.IntN(8)
			c.MaxLinks, c.MaxPending = 1+t.r.IntN(12), 1+t.r.IntN(9)
		case 8:
			if t.chance(50) {
				c.Instances = c.Instances[:1]
				return c
			}
			c.Ports = slices.Delete(c.Ports, 0, 1)
		}
	}
	return c
}

// draft is a frame in the making.
type draft struct {
	Message
	port string
	vid  uint16
}

func (t *Traffic) frame(e *Event) {
	d, note := t.draft()
	wrong := 0
	if t.chance(30) && (!t.calm || t.chance(20)) {
		wrong = 1 + t.r.IntN(2)
	}
	for range wrong {
		note += " " + t.spoil(&d)
	}
	e.Port, e.VID, e.Bytes, e.Note = d.port, d.vid, d.Bytes(), note
	if t.chance(3) && !t.calm {
		e.Bytes, e.Note = t.damage(e.Bytes), note+" damaged"
	}
}

func (t *Traffic) vid() uint16 { return vlans[min(t.r.IntN(4)/2, 1)] }

// home returns the port at which an ENode or FCF of the cast is.
func home(m frame.MAC) string {
	if i := slices.Index(fcfs, m); i >= 0 {
		return []string{"f1", "f2", "t1"}[i]
	}
	return []string{"e1", "e1", "e1", "e2", "e3", "t1"}[slices.Index(enodes, m)+1]
}

func wwpn(e frame.MAC, n int) uint64 { return 0x2000_0000_0000_0000 | uint64(n)<<48 | uint64(e) }

func (t *Traffic) fcMap(vid uint16) uint32 {
	if i := t.m.instance(vid); i != nil {
		return i.FCMap
	}
	return 0x0efc00
}

// draft returns a frame that makes sense.
func (t *Traffic) draft() (draft, string) {
	all := []struct {
		weight int
		make   func() (draft, string)
	}{
		{14, t.advertisement}, {4, t.solicitation}, {4, t.vlanDiscovery}, {16, t.loginRequest}, {1, t.logout},
		{24, t.answer}, {12, t.keepAlive}, {14, t.vnKeepAlive}, {1, t.clear}, {1, t.vn2vn},
	}
	sum := 0
	for _, a := range all {
		sum += a.weight
	}
	n := t.r.IntN(sum)
	for _, a := range all {
		if n -= a.weight; n < 0 {
			return a.make()
		}
	}
	panic("the weights do not add up")
}

func (t *Traffic) advertisement() (draft, string) {
	f, vid, period := pick(t.r, fcfs), t.vid(), uint32(8000)
	if t.chance(3) {
		period = pick(t.r, []uint32{2000, 500, 499, 0, 1, 0xffff_ffff})
	}
	m := Advertise(f, t.fcMap(vid), period, t.chance(4))
	switch t.r.IntN(10) {
	case 0:
		m.Dst = AllFCFs
	case 1, 2:
		m.Dst, m.Pad, m.Flags = pick(t.r, enodes), 500, m.Flags|FlagS
	}
	return draft{m, home(f), vid}, "advertisement"
}

func (t *Traffic) solicitation() (draft, string) {
	m := Solicit(pick(t.r, enodes))
	switch t.r.IntN(4) {
	case 0:
		m.Dst = pick(t.r, fcfs)
	case 1:
		m = Solicit(pick(t.r, fcfs))
		m.Flags |= FlagF
	}
	return draft{m, home(m.Src), t.vid()}, "solicitation"
}

func (t *Traffic) vlanDiscovery() (draft, string) {
	m := AskVLAN(pick(t.r, enodes))
	if t.chance(50) {
		m = TellVLAN(pick(t.r, fcfs), m.Src)
	}
	return draft{m, home(m.Src), pick(t.r, vlans)}, "VLAN discovery"
}

func (t *Traffic) loginRequest() (draft, string) {
	e, f, vid, kind := pick(t.r, enodes), pick(t.r, fcfs), t.vid(), FLOGI
	if at := pick(t.r, t.fcfsIn(vid)); at != 0 {
		f = at
	}
	if t.m.enodes[pair{vid, e, f}] != nil && t.chance(60) {
		e = pick(t.r, enodes)
	}
	if p := pick(t.r, t.pairs()); p.enode != 0 && t.chance(70) {
		e, f, vid, kind = p.enode, p.fcf, p.vid, FDISC
	}
	m := Login(kind, e, f, uint16(t.r.IntN(4)), wwpn(e, t.r.IntN(3)))
	if t.chance(15) {
		m.Flags, m.List[0] = FlagFP|FlagSP, MAC(pick(t.r, []frame.MAC{e, e, e + 0x1000, fcfs[0], enodes[0]}))
	}
	return draft{m, home(e), vid}, "request of " + service(kind)
}

func service(kind int) string {
	return map[int]string{FLOGI: "FLOGI", FDISC: "FDISC", LOGO: "LOGO"}[kind]
}

func (t *Traffic) logout() (draft, string) {
	at, l := t.link()
	return draft{Logout(l.enode, l.fcf, uint16(t.r.IntN(4)), at.mac, l.id), l.port, at.vid}, "request of LOGO"
}

// answer is one of an FCF to a request.
func (t *Traffic) answer() (draft, string) {
	x, l := t.login()
	d := draft{port: t.fcfPort(x.vid, x.fcf), vid: x.vid}
	switch {
	case t.chance(15):
		d.Message = Reject(l.kind, x.fcf, x.enode, x.oxid)
		return d, "reject of " + service(l.kind)
	case l.kind == LOGO:
		d.Message = AcceptLogout(x.fcf, x.enode, x.oxid)
	default:
		id := pick(t.r, ids)
		d.Message = Accept(l.kind, x.fcf, x.enode, x.oxid, frame.MAC(t.fcMap(x.vid))<<24|frame.MAC(id), id)
		if l.asked != 0 && t.chance(70) {
			d.Flags, d.List[0] = FlagSP, MAC(l.asked)
		}
	}
	return d, "accept of " + service(l.kind)
}

func (t *Traffic) keepAlive() (draft, string) {
	p := pick(t.r, t.pairs())
	port := "e1"
	if e := t.m.enodes[p]; e != nil {
		port = e.port
	}
	return draft{Keep(p.enode, p.fcf), port, p.vid}, "keep-alive"
}

func (t *Traffic) vnKeepAlive() (draft, string) {
	at, l := t.link()
	return draft{KeepVN(l.enode, l.fcf, at.mac, l.id, l.wwpn), l.port, at.vid}, "keep-alive of a VN_Port"
}

func (t *Traffic) clear() (draft, string) {
	at, l := t.link()
	d := draft{Clear(l.fcf, l.enode), t.fcfPort(at.vid, l.fcf), at.vid}
	for range (4 + t.r.IntN(16)) / 6 {
		d.List = append(d.List, VxPort(at.mac, l.id, l.wwpn))
		at, l = t.link()
	}
	if t.chance(20) {
		d.Dst = AllENodes
	}
	return d, "clear virtual links"
}

func (t *Traffic) vn2vn() (draft, string) {
	e := pick(t.r, enodes)
	return draft{Message{Dst: AllVN2VN, Src: e, Op: pick(t.r, []Op{VN2VNVLAN, VN2VNBeacon, {5, 1}, {5, 3}}),
		List: [][]byte{MAC(e)}}, home(e), t.vid()}, "VN2VN"
}

// The maps of the model in an order that the seed decides alone.

func (t *Traffic) fcfsIn(vid uint16) (all []frame.MAC) {
	for _, f := range fcfs {
		if t.m.fcfs[station{vid, f}] != nil {
			all = append(all, f)
		}
	}
	return all
}

func (t *Traffic) fcfPort(vid uint16, f frame.MAC) string {
	if at := t.m.fcfs[station{vid, f}]; at != nil {
		return at.port
	}
	return "f1"
}

func (t *Traffic) pairs() (all []pair) {
	for p := range t.m.enodes {
		all = append(all, p)
	}
	slices.SortFunc(all, pair.compare)
	return all
}

func (p pair) compare(q pair) int {
	return cmp.Or(cmp.Compare(p.vid, q.vid), cmp.Compare(p.enode, q.enode), cmp.Compare(p.fcf, q.fcf))
}

func (t *Traffic) link() (station, link) {
	var all []station
	for at := range t.m.links {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b station) int { return cmp.Or(cmp.Compare(a.vid, b.vid), cmp.Compare(a.mac, b.mac)) })
	if len(all) == 0 {
		none := link{pair: pair{100, enodes[0], fcfs[0]}, port: "e1", id: ids[0]}
		return station{100, 0x0efc_0001_0001}, none
	}
	at := pick(t.r, all)
	return at, *t.m.links[at]
}

func (t *Traffic) login() (exchange, login) {
	var all []exchange
	for x := range t.m.logins {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b exchange) int { return cmp.Or(a.compare(b.pair), cmp.Compare(a.oxid, b.oxid)) })
	if len(all) == 0 {
		return exchange{pair{100, enodes[0], fcfs[0]}, 1}, login{kind: FLOGI}
	}
	x := pick(t.r, all)
	return x, *t.m.logins[x]
}

// FCoE returns where an FCoE frame might arrive and its addresses: those of a virtual link in one
// direction or the other, and in most cases something else in place of one of them.
func (t *Traffic) FCoE() (port string, vid uint16, dst, src frame.MAC) {
	at, l := t.link()
	port, vid, dst, src = l.port, at.vid, l.fcf, at.mac
	if t.chance(50) {
		port, dst, src = t.fcfPort(at.vid, l.fcf), at.mac, l.fcf
	}
	switch t.r.IntN(6) {
	case 0:
		port = pick(t.r, t.m.c.Ports).Name
	case 1:
		vid = pick(t.r, vlans[:2])
	case 2:
		dst = t.address()
	case 3:
		src = t.address()
	}
	return port, vid, dst, src
}
