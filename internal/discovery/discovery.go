// Package discovery speaks LLDP and DCBX at all ports of a switch. It finds out what is at the
// other end of each link, agrees with it on PFC, ETS and applications, and says in words where the
// two ends disagree. It has no clock, no devices and no goroutine: frames go in and out, times are
// in ns since an arbitrary start, and what is agreed (Agreements) is for the control plane to put
// into effect, which tells when it has (Runs).
package discovery

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
)

// Role is how a port treats what its peer says.
type Role uint8

// The roles.
const (
	Manual     Role = iota // has its own settings and says them
	Upstream               // takes the settings of its peer; one such port is the source
	Downstream             // passes on what the source took
)

// String returns the name used in the configuration.
func (r Role) String() string { return [...]string{"manual", "upstream", "downstream"}[r] }

// Params describe a switch.
type Params struct {
	Interval    int64 // ns between LLDPDUs
	Hold        int   // how many of them a neighbour may miss
	Name        string
	Description string
	Management  netip.Addr // not valid: not sent
	Chassis     [6]byte    // MAC address that identifies the switch; zero: its name does
	Bridge      bool       // it forwards by address; otherwise between two ports
	// SourceHold is how long, in ns, what a source gave stays when the source is gone.
	SourceHold int64
	Ports      []PortParams
}

// PortParams describe a port.
type PortParams struct {
	Name     string
	LLDP     lldp.Status
	PVID     uint16 // 0: not told
	MaxFrame int    // bytes with FCS
	DCBX     bool
	Role     Role
	// Local are the port's own settings; the MAC address is filled in. Willing counts for Upstream
	// ports only.
	Local dcbx.Config
	// Auto: the port does PFC for the priorities that are agreed, and so takes those of a source.
	Auto bool
}

// Agreement is what a port is to run after DCBX.
type Agreement struct {
	PFC uint8     // priorities with PFC
	ETS *dcbx.ETS // nil: its own
}

// Equal reports whether two agreements are the same.
func (a Agreement) Equal(b Agreement) bool {
	if a.ETS != nil && b.ETS != nil {
		return a.PFC == b.PFC && *a.ETS == *b.ETS
	}
	return a.PFC == b.PFC && a.ETS == b.ETS
}

// System is the LLDP and DCBX of a switch. Any goroutine may call its methods.
type System struct {
	lock   sync.Mutex
	log    *slog.Logger
	send   func(port string, frame []byte)
	params Params
	ports  []*port // in the order of params
	byName map[string]*port
	source source
	next   int64  // time of the next event; of now, if something has happened
	serial uint64 // number of times that settle was called
}

// port is the LLDP and DCBX of a port.
type port struct {
	PortParams
	agent   *lldp.Agent
	machine *dcbx.Machine // nil: no DCBX
	link    link
	since   int64 // since when the link is in its state
	peers   int   // neighbours that speak DCBX
	met     bool  // there was one since the link came up
	looped  bool  // what the port sends came back since then
	heard   int64 // when the first of these appeared
	tlvs    [][]byte
	problem string   // of the last frame or TLV that was discarded
	sent    sentUnit // the last LLDPDU

	refused       refusals
	agreed        Agreement // as of the last settle
	changes       uint64    // of agreed
	runs          Agreement // that the switch has put into effect
	unlogged      int       // changes of runs since runsLog
	runsLog       edge
	disagreements [kinds]disagreement
}

// link is the state of a port's link.
type link struct {
	up    bool
	mac   [6]byte
	flaps uint32
}

// sentUnit is the last LLDPDU that a port sent.
type sentUnit struct {
	at   int64
	data []byte // without Ethernet header; empty: none was sent
}

// New returns a System without ports. send is called with the frames to send; it must not call the
// System, nor keep the frame.
func New(log *slog.Logger, send func(port string, frame []byte)) *System {
	return &System{log: log, send: send, next: lldp.Never}
}

// Configure changes over to other parameters. Ports that stay keep their neighbours. A port that
// leaves, or no longer sends, says so to its neighbours.
func (s *System) Configure(now int64, p Params) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	var ports []*port
	byName := make(map[string]*port)
	for i := range p.Ports {
		one := cmp.Or(s.byName[p.Ports[i].Name], &port{})
		if err := s.configurePort(now, one, &p, p.Ports[i]); err != nil {
			return err
		}
		one.refused = refusals{} // the memory may be another
		ports, byName[one.Name] = append(ports, one), one
	}
	for _, old := range s.ports {
		if byName[old.Name] == nil {
			s.leave(now, old)
			s.endAll(old, "the port was removed")
		}
	}
	s.ports, s.byName, s.params = ports, byName, p
	if !slices.Contains(ports, s.source.port) {
		s.source.lose(now)
	}
	s.settle(now)
	return nil
}

// configurePort gives a port, old or new, its parameters.
func (s *System) configurePort(now int64, p *port, of *Params, params PortParams) (err error) {
	p.PortParams = params
	unit := lldp.Params{
		Status: params.LLDP, Interval: of.Interval, Hold: of.Hold, Local: p.announcement(of),
		Recognized: dcbx.Recognizes,
	}
	if p.agent == nil {
		p.agent, err = lldp.NewAgent(unit)
		p.since = now
	} else {
		err = p.agent.Configure(now, unit)
	}
	switch {
	case err != nil:
		return err
	case !params.DCBX:
		p.machine, p.agreed, p.runs = nil, Agreement{}, Agreement{}
		s.endAll(p, "DCBX is off")
	case p.machine == nil:
		p.machine = dcbx.NewMachine(p.local(nil))
		p.tellRuns()
		p.meet(now)
	default:
		p.tellRuns()
	}
	return nil
}

// announcement is what a port tells of itself and the switch, apart from DCBX.
func (p *port) announcement(of *Params) lldp.Local {
	l := lldp.Local{
		MAC: p.link.mac, Chassis: lldp.ChassisID{Subtype: lldp.ChassisMAC, Value: of.Chassis[:]},
		Port:            lldp.PortID{Subtype: lldp.PortInterfaceName, Value: []byte(p.Name)},
		PortDescription: p.Name, SystemName: of.Name, SystemDescription: of.Description,
		PVID: p.PVID, MaxFrameSize: uint16(p.MaxFrame),
	}
	if of.Chassis == [6]byte{} {
		l.Chassis = lldp.ChassisID{Subtype: lldp.ChassisLocal, Value: []byte(of.Name)}
	}
	kind := lldp.Repeater
	if of.Bridge {
		kind = lldp.Bridge
	}
	l.Capabilities = lldp.Capabilities{Supported: kind, Enabled: kind}
	if of.Management.IsValid() {
		l.Management = []lldp.ManagementAddress{lldp.ManagementIP(of.Management, 0, 0)}
	}
	return l
}

// SetLink tells the state of a port's link: whether it is up, the address of its device, and how
// often it is known to have been down for a moment. It takes effect with the next Advance.
func (s *System) SetLink(now int64, name string, up bool, mac [6]byte, flaps uint32) {
	s.lock.Lock()
	defer s.lock.Unlock()
	p := s.byName[name]
	is := link{up, mac, flaps}
	if p == nil || p.link == is {
		return
	}
	was := p.link
	p.link = is
	if was.mac != mac {
		if err := s.configurePort(now, p, &s.params, p.PortParams); err != nil {
			panic(err) // it was valid before
		}
	}
	if was.up != up || was.flaps != flaps {
		p.since, p.met, p.looped = now, false, false
		p.agent.SetLink(now, false)
		p.agent.SetLink(now, up)
		if p.machine != nil {
			p.machine.LinkDown()
			p.meet(now)
		}
	}
	s.next = now
}

// Receive takes a frame that a port has received. What follows from it, the next Advance does: so a
// burst of frames costs little more than one.
func (s *System) Receive(now int64, name string, frame []byte) {
	s.lock.Lock()
	defer s.lock.Unlock()
	p := s.byName[name]
	if p == nil {
		return
	}
	if p.reflected(frame) {
		p.looped, p.problem = true, "the port's own LLDPDU came back: there is a loop"
		return
	}
	event, err := p.agent.Receive(now, frame)
	switch event {
	case lldp.Refused:
		p.problem = err.Error()
	case lldp.New, lldp.Changed, lldp.Left, lldp.Refreshed: // a peer that repeats itself may have ignored this end
		if p.machine != nil {
			p.meet(now)
		}
		s.next = now
	}
}

// reflected reports whether a frame is from the port itself: it has the same chassis ID and port
// ID, the first two TLVs.
func (p *port) reflected(frame []byte) bool {
	_, data, err := lldp.Unwrap(frame)
	own := p.sent.data
	if err != nil || len(own) == 0 {
		return false
	}
	chassis := 2 + int(own[1])
	return bytes.HasPrefix(data, own[:chassis+2+int(own[chassis+1])])
}

// Advance does what is due until now, and returns when it has to be called again.
func (s *System) Advance(now int64) (next int64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if now < s.next {
		return s.next
	}
	for _, p := range s.ports {
		if p.agent.Advance(now) && p.machine != nil {
			p.meet(now)
		}
	}
	s.settle(now)
	return s.next
}

// Shutdown tells the neighbours of a port, or of all ports if name is empty, that it stops.
func (s *System) Shutdown(now int64, name string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, p := range s.ports {
		if name == "" || p.Name == name {
			s.leave(now, p)
		}
	}
}

// leave sends the last LLDPDU of a port.
func (s *System) leave(now int64, p *port) {
	if frame := p.agent.Shutdown(now); frame != nil {
		s.transmit(now, p, frame)
	}
}

// Peer returns the address of a port's DCBX peer, or else of its first neighbour; zero: it has
// none.
func (s *System) Peer(name string) (mac [6]byte) {
	s.lock.Lock()
	defer s.lock.Unlock()
	p := s.byName[name]
	if p == nil {
		return mac
	}
	for _, all := range [][]*lldp.Neighbour{p.speakers(), p.agent.Neighbours()} {
		if len(all) > 0 {
			return all[0].MAC
		}
	}
	return mac
}

// Serial returns a number that grows with whatever may change Agreements.
func (s *System) Serial() uint64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.serial
}

// settle follows a change: it elects the source, has all machines work with what it gave, notes
// where the ends of links disagree, and sends what is due.
func (s *System) settle(now int64) {
	s.serial++
	for more := len(s.ports) + 1; more > 0; more-- { // a port that is willing again may be the next source
		if !s.elect(now) {
			more = 0
		}
		for _, p := range s.ports {
			if p.machine != nil {
				p.machine.Configure(p.local(s.passedOn(p)))
				p.refuseAgain(s.passedOn(p))
			}
		}
	}
	s.next = min(s.source.over(s.params.SourceHold), s.source.next)
	for _, p := range s.ports {
		if p.machine != nil {
			s.next = min(s.next, s.judge(now, p), s.logRuns(now, p))
			if p.machine.Pending() {
				p.agent.Changed(now)
			}
			if is := p.agreement(); !is.Equal(p.agreed) {
				p.agreed = is
				p.changes++
			}
		}
		if p.agent.Due(now) {
			p.tlvs = p.tlvs[:0]
			if p.machine != nil {
				p.tlvs = p.machine.TLVs(p.tlvs)
			}
			frame, err := p.agent.Send(now, p.tlvs)
			if err != nil {
				s.log.Error("LLDPDU is incomplete", "port", p.Name, "error", err)
			}
			s.transmit(now, p, frame)
		}
		s.next = min(s.next, p.agent.Next())
	}
}

// transmit sends a frame of a port.
func (s *System) transmit(now int64, p *port, frame []byte) {
	const header = 14 // bytes: addresses and ethertype
	p.sent.at, p.sent.data = now, append(p.sent.data[:0], frame[header:]...)
	s.send(p.Name, frame)
}

// meet tells a port's machine who its peer is.
func (p *port) meet(now int64) {
	all := p.speakers()
	if p.peers == 0 {
		p.heard = now
	}
	p.peers = len(all)
	p.met = p.met || p.peers > 0
	p.machine.SetMultiplePeers(p.peers > 1)
	switch p.peers {
	case 0:
		p.machine.Expire()
	case 1:
		p.machine.Receive(all[0].MAC, all[0].Organizational)
	}
}

// speakers returns the neighbours that speak DCBX.
func (p *port) speakers() (all []*lldp.Neighbour) {
	for _, n := range p.agent.Neighbours() {
		if slices.ContainsFunc(n.Organizational, dcbx.Recognizes) {
			all = append(all, n)
		}
	}
	return all
}

// local returns the settings that a port says it has: its own, or those that the source gave.
func (p *port) local(given *gift) dcbx.Config {
	c := p.Local
	c.MAC = p.link.mac
	if p.Role != Upstream {
		c.Willing = [dcbx.Features]bool{}
	}
	if given == nil {
		return c
	}
	if given.lasts { // no other port takes anything
		c.Willing = [dcbx.Features]bool{}
	}
	if p.gets(given, dcbx.FeaturePFC) {
		c.PFC.Priorities = given.pfc
	}
	if p.gets(given, dcbx.FeatureETS) {
		c.ETS.TC, c.ETS.Bandwidth, c.ETS.TSA = given.ets.TC, given.ets.Bandwidth, given.ets.TSA
	}
	if p.gets(given, dcbx.FeatureApp) {
		c.Apps = given.apps
	}
	return c
}

// gets reports whether a port has its settings of a feature from the source.
func (p *port) gets(given *gift, f dcbx.Feature) bool {
	return p.mayGet(given, f) && p.refused[f][bySource].why == ""
}

// mayGet reports whether the source offers a port settings of a feature.
func (p *port) mayGet(given *gift, f dcbx.Feature) bool {
	return given != nil && given.has[f] && (f != dcbx.FeaturePFC || p.Auto)
}

// Agreements returns what each port with DCBX is to run, by name.
func (s *System) Agreements() map[string]Agreement {
	s.lock.Lock()
	defer s.lock.Unlock()
	all := make(map[string]Agreement)
	for _, p := range s.ports {
		if p.machine != nil {
			all[p.Name] = p.agreed
		}
	}
	return all
}

func (p *port) agreement() (a Agreement) {
	status := p.machine.Status()
	if pfc := &status.Features[dcbx.FeaturePFC]; pfc.Source != dcbx.Off {
		a.PFC = pfc.Agreed.PFC.Priorities
	}
	if ets := &status.Features[dcbx.FeatureETS]; ets.Source != dcbx.Off && !ets.Agreed.ETS.Same(&p.Local.ETS) {
		a.ETS = &ets.Agreed.ETS
	}
	return a
}

// Runs tells what a port runs, once all workers do; before the first call, its own settings.
func (s *System) Runs(now int64, name string, a Agreement) {
	s.lock.Lock()
	defer s.lock.Unlock()
	p := s.byName[name]
	if p == nil || p.runs.Equal(a) {
		return
	}
	if p.runs = a; p.machine != nil {
		p.unlogged++
		p.tellRuns()
		s.settle(now)
	}
}

// logRuns logs what a port runs if that has changed. It returns when that is due if not now.
func (s *System) logRuns(now int64, p *port) (next int64) {
	if p.unlogged == 0 {
		return never
	}
	pfc, ets := priorities(func(n int) bool { return p.runs.PFC>>n&1 == 1 }), "its own"
	if p.runs.ETS != nil {
		ets = "as agreed"
	}
	log, next := p.runsLog.due(now, fmt.Sprint(pfc, p.runs.ETS))
	if log {
		s.log.Info("DCBX agreement changed", "port", p.Name, "pfc", pfc, "ets", ets, "changes", p.unlogged)
		p.unlogged = 0
	}
	return next
}

// tellRuns tells a port's machine what the port runs. Where DCBX does not decide on PFC, agreed
// priorities have run all along.
func (p *port) tellRuns() {
	pfc := dcbx.Running{Values: dcbx.Values{PFC: p.Local.PFC}, Agreed: p.runs.PFC != 0}
	ets := dcbx.Running{Values: dcbx.Values{ETS: p.Local.ETS}, Agreed: p.runs.ETS != nil}
	if ets.Agreed {
		ets.ETS = *p.runs.ETS
	}
	p.machine.Runs(dcbx.FeatureETS, &ets)
	if pfc.PFC.Priorities = p.runs.PFC; p.Auto {
		p.machine.Runs(dcbx.FeaturePFC, &pfc)
	} else {
		p.machine.Runs(dcbx.FeaturePFC, nil)
	}
}
