package fc

import (
	"errors"
	"fmt"

	"sluice/bench/traffic/line"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// ENodesParams describes ENodes, which share ports: ENode i is on port i modulo their number.
type ENodesParams struct {
	Ports  []PortParams
	ENodes int       // 1 to 4096
	Logins int       // VN_Ports of each: one FLOGI, then FDISC; 1 to 255
	MAC    frame.MAC // of ENode 0; the others follow. Names of nodes and ports are made of it
	VLAN   uint16    // FCoE VLAN; 0: ask for it with VLAN discovery
	FCMap  uint32    // that a granted address must have; 0: any
	Size   int       // Max_FCoE_Size: longest payload of an Ethernet frame in bytes, up to 2158
	Spread int64     // ns between the first frames of one ENode and the next

	Rate    uint64 // bit/s on the wire of each port that all its VN_Ports send together; 0: no data
	Payload int    // bytes of each Fibre Channel frame's payload: 32 to 2112, a multiple of 4
}

// vnPortsMost bounds the VN_Ports of a set of ENodes.
const vnPortsMost = 65535

// Check reports parameters that make no sense, apart from the ports.
func (p *ENodesParams) Check() error {
	switch last := p.MAC + frame.MAC(p.ENodes); {
	case p.ENodes < 1 || p.ENodes > 4096 || p.Logins < 1 || p.Logins > 255 || p.ENodes*p.Logins > vnPortsMost:
		return fmt.Errorf("%d ENodes with %d logins each: must be 1 to 4096 and 1 to 255, together %d VN_Ports at most",
			p.ENodes, p.Logins, vnPortsMost)
	case p.MAC == 0 || p.MAC.Group() || last>>24 != p.MAC>>24:
		return fmt.Errorf("MAC address %v: must not be zero or a group address, and its last three bytes must leave "+
			"room for %d ENodes", p.MAC,
			p.ENodes)
	case p.VLAN > 4094:
		return fmt.Errorf("VLAN %d: must be 1 to 4094, or 0 to ask for it", p.VLAN)
	case p.Size < 256+overhead || p.Size > fcoe.MaxPayload:
		return fmt.Errorf("%d bytes of payload of an Ethernet frame: must be %d to %d", p.Size, 256+overhead,
			fcoe.MaxPayload)
	case p.Payload < line.FieldsLength || p.Payload > p.Size-overhead || p.Payload%4 != 0:
		return fmt.Errorf("payload of %d bytes: must be %d to %d, a multiple of 4", p.Payload, line.FieldsLength,
			p.Size-overhead)
	case p.Spread < 0:
		return fmt.Errorf("%d ns between ENodes: must not be negative", p.Spread)
	}
	return nil
}

// state is what an ENode is doing.
type state uint8

const (
	waiting    state = iota // for its turn to begin, or for the link
	discovery               // it asks for FCoE VLANs
	soliciting              // it looks for an FCF
	loggingIn               // its VN_Ports log in, one by one
	up                      // all of them are logged in
	leaving                 // its VN_Ports log out, one by one
	left                    // it says no more
)

var stateNames = [...]string{waiting: "waiting", discovery: "vlan-discovery", soliciting: "solicitation",
	loggingIn: "login", up: "up", leaving: "logout", left: "logged-out"}

// retry is how long, in ns, an ENode waits for an answer, and after a reject.
const retry = second

// attempts is how often an ENode repeats a login before it looks for an FCF again.
const attempts = 5

// enode is one ENode.
type enode struct {
	mac   frame.MAC
	port  int
	state state
	at    int64 // when it acts next, because of its state

	vid        uint16
	fcf        frame.MAC
	fcfName    fcoe.WWN
	period     int64 // FKA_ADV_Period in ns
	quiet      bool  // the FCF wants no keep-alives
	advertised int64 // when the FCF last advertised itself to all
	keepAlive  int64 // when the next one is due

	links []link // its VN_Ports; 0 logs in with FLOGI
	turn  int    // the one that logs in or out
	tries int    // of its request
}

// link is a VN_Port of an ENode.
type link struct {
	name      fcoe.WWN
	id        fcoe.FCID
	mac       frame.MAC
	up        bool
	exchange  uint16 // of its last request
	asked     int64  // when its first request for this login was sent
	keepAlive int64  // when the next one is due

	peer     int    // index of the VN_Port that it sends to and receives from; -1: none
	sent     uint64 // frames
	received line.Track
}

// ENodes are hosts that log in with an FCF and exchange data.
type ENodes struct {
	p       ENodesParams
	ports   []*port
	senders []sender                                     // by port
	arrive  []func(now int64, b []byte, h *frame.Header) // by port: takes what has arrived there
	linkUp  []bool                                       // by port
	enodes  []enode
	byMAC   map[frame.MAC]int // ENodes
	byVN    map[frame.MAC]int // VN_Ports that are logged in: their index
	sending bool

	began    int64 // the first Step
	started  bool
	next     int64 // when any ENode acts
	active   int   // VN_Ports that are logged in
	complete int   // how often all of them became so
	exchange uint16

	packet fcoe.Packet
	frame  []byte // being built
	fc     []byte // likewise
	counts ENodesCounts
}

// NewENodes returns ENodes that begin with the first Step.
func NewENodes(p ENodesParams) (*ENodes, error) {
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("ENodes: %w", err)
	}
	if len(p.Ports) == 0 {
		return nil, errors.New("ENodes: no port")
	}
	x := &ENodes{p: p, byMAC: map[frame.MAC]int{}, byVN: map[frame.MAC]int{}}
	for i, port := range p.Ports {
		q, err := newPort(port)
		if err != nil {
			return nil, fmt.Errorf("ENodes: %w", err)
		}
		x.ports, x.linkUp = append(x.ports, q), append(x.linkUp, true)
		x.senders = append(x.senders, sender{})
		x.arrive = append(x.arrive, func(now int64, b []byte, h *frame.Header) { x.receive(now, i, b, h) })
	}
	x.enodes = make([]enode, p.ENodes)
	for i := range x.enodes {
		e := &x.enodes[i]
		e.mac, e.port = p.MAC+frame.MAC(i), i%len(x.ports)
		x.byMAC[e.mac] = i
		e.links = make([]link, p.Logins)
		for k := range e.links {
			e.links[k] = link{name: fcoe.WWN(e.mac) | fcoe.WWN(0x2000+k)<<48, peer: x.peer(i, k)}
			x.senders[e.port].links = append(x.senders[e.port].links, x.index(i, k))
		}
	}
	return x, nil
}

// index returns the index of VN_Port k of ENode i: first come those of FLOGI.
func (x *ENodes) index(i, k int) int { return k*x.p.ENodes + i }

// at returns a VN_Port by its index, and its ENode.
func (x *ENodes) at(index int) (*enode, *link) {
	e := &x.enodes[index%x.p.ENodes]
	return e, &e.links[index/x.p.ENodes]
}

// peer returns the index of the VN_Port with which VN_Port k of ENode i exchanges data: the ENodes
// 0 and 1, 2 and 3 and so on are pairs. The VN_Ports of an ENode that is left over are pairs, too.
func (x *ENodes) peer(i, k int) int {
	switch {
	case i^1 < x.p.ENodes:
		return x.index(i^1, k)
	case k^1 < x.p.Logins:
		return x.index(i, k^1)
	}
	return -1
}

// Step receives, acts and sends. It returns the number of buffers and frames moved.
func (x *ENodes) Step(now int64) int {
	if !x.started {
		x.started, x.began = true, now
		for i := range x.enodes {
			x.enodes[i].at = now + int64(i)*x.p.Spread
		}
	}
	work := 0
	for i, port := range x.ports {
		work += port.receive(now, x.arrive[i])
	}
	if now >= x.next {
		x.act(now)
	}
	for i, port := range x.ports {
		x.generate(now, i)
		work += port.transmit(now)
	}
	return work
}

// SetLink says whether the link of a port is up. When it goes down, all virtual links there end;
// when it comes back, the ENodes log in again.
func (x *ENodes) SetLink(now int64, port int, isUp bool) {
	if x.linkUp[port] == isUp {
		return
	}
	x.linkUp[port] = isUp
	if !isUp {
		x.ports[port].reset(now)
	}
	for i := range x.enodes {
		e := &x.enodes[i]
		switch {
		case e.port != port || e.state == left:
		case isUp:
			x.begin(e, now)
		case e.state == leaving:
			x.endAll(e)
			e.state, e.at = left, never
		default:
			x.endAll(e)
			e.state, e.at = waiting, never
		}
	}
	x.next = now
}

// Leave logs all VN_Ports out. The ENodes then say no more.
func (x *ENodes) Leave(now int64) {
	x.sending = false
	for i := range x.enodes {
		e := &x.enodes[i]
		e.state, e.turn, e.tries, e.at = leaving, len(e.links)-1, 0, now
		if !x.linkUp[e.port] {
			e.state = left
		}
	}
	x.next = now
}

// Send begins or ends the data.
func (x *ENodes) Send(on bool) { x.sending = on }

// Active returns how many VN_Ports are logged in.
func (x *ENodes) Active() int { return x.active }

// Complete returns how often it has happened that all VN_Ports were logged in.
func (x *ENodes) Complete() int { return x.complete }

// VNPorts returns how many there are.
func (x *ENodes) VNPorts() int { return x.p.ENodes * x.p.Logins }

// Left returns whether all ENodes have logged out, or given up.
func (x *ENodes) Left() bool {
	for i := range x.enodes {
		if x.enodes[i].state != left {
			return false
		}
	}
	return true
}

// act does what is due, for each ENode.
func (x *ENodes) act(now int64) {
	x.next = never
	for i := range x.enodes {
		e := &x.enodes[i]
		if !x.linkUp[e.port] {
			continue
		}
		if e.logged() {
			x.watch(e, now)
		}
		if now >= e.at {
			x.proceed(e, now)
		}
		x.next = min(x.next, e.at)
		if e.logged() {
			x.next = min(x.next, e.due())
		}
	}
}

// logged returns whether an ENode is logged in to stay. One that is leaving sends no keep-alives:
// they might arrive after its LOGO.
func (e *enode) logged() bool { return e.links[0].up && e.state != leaving }

// due returns when an ENode that is logged in has to send a keep-alive or misses its FCF.
func (e *enode) due() int64 {
	at := e.advertised + patience(e.period) + 1
	if e.quiet {
		return at
	}
	at = min(at, e.keepAlive)
	for k := range e.links {
		if e.links[k].up {
			at = min(at, e.links[k].keepAlive)
		}
	}
	return at
}

// watch sends the keep-alives that are due, and ends the virtual links of an FCF that is gone.
func (x *ENodes) watch(e *enode, now int64) {
	if now-e.advertised > patience(e.period) {
		x.counts.FCFsLost++
		x.endAll(e)
		x.begin(e, now)
		return
	}
	if e.quiet {
		return
	}
	if now >= e.keepAlive && x.keepAlive(e, e.mac, nil) {
		e.keepAlive = now + e.period
	}
	for k := range e.links {
		l := &e.links[k]
		if l.up && now >= l.keepAlive && x.keepAlive(e, l.mac, []fcoe.VxPort{{MAC: l.mac, ID: l.id, Name: l.name}}) {
			l.keepAlive = now + vnPortPeriod
		}
	}
}

// keepAlive sends the keep-alive of an ENode or of one of its VN_Ports. It returns false if the
// port has no room now.
func (x *ENodes) keepAlive(e *enode, src frame.MAC, v []fcoe.VxPort) bool {
	sent := x.sendFIP(e, src, e.fcf, &fcoe.Packet{Op: fcoe.KeepAlive, Flags: fcoe.FP, MAC: e.mac, VxPorts: v})
	if sent {
		x.counts.KeepAlives++
	}
	return sent
}

// begin has an ENode look for its VLAN or its FCF, at once.
func (x *ENodes) begin(e *enode, now int64) {
	e.state, e.vid, e.at = discovery, 0, now
	if x.p.VLAN != 0 {
		e.state, e.vid = soliciting, x.p.VLAN
	}
	x.next = min(x.next, now)
}

// proceed does the next step of an ENode's state, or repeats the last one that was not answered.
func (x *ENodes) proceed(e *enode, now int64) {
	e.at = now + retry
	switch e.state {
	case waiting:
		x.begin(e, now)
	case discovery:
		x.counts.VLANRequests++
		x.frame = appendFIP(x.frame[:0], envelope{dst: fcoe.AllFCF, src: e.mac},
			&fcoe.Packet{Op: fcoe.VLANRequest, Flags: fcoe.FP, MAC: e.mac}, 0)
		x.ports[e.port].send(x.frame, false)
	case soliciting:
		x.counts.Solicitations++
		x.sendFIP(e, e.mac, fcoe.AllFCF, &fcoe.Packet{Op: fcoe.Solicitation, Flags: fcoe.FP, MAC: e.mac,
			Name: e.name(), MaxSize: uint16(x.p.Size)})
	case loggingIn:
		x.logIn(e, now)
	case leaving:
		x.logOut(e)
	case up, left:
		e.at = never
	}
}

// setPeriod takes FKA_ADV_Period from an advertisement. As in Linux, the default takes the place of
// one that is too short.
func (e *enode) setPeriod(p fcoe.Period) {
	e.period, e.quiet = int64(p.Millis)*millisecond, p.NoKeepAlive
	if p.Millis < shortestPeriod {
		e.period = defaultPeriod
	}
}

// name returns the name of an ENode's node.
func (e *enode) name() fcoe.WWN { return fcoe.WWN(e.mac) | 1<<60 }

// logIn sends the request of the next VN_Port that is not logged in.
func (x *ENodes) logIn(e *enode, now int64) {
	if e.tries == attempts {
		x.counts.GivenUp++
		x.endAll(e)
		x.begin(e, now)
		return
	}
	for e.turn < len(e.links) && e.links[e.turn].up {
		e.turn++
	}
	if e.turn == len(e.links) {
		e.state, e.at = up, never
		return
	}
	l := &e.links[e.turn]
	if e.tries++; e.tries == 1 {
		l.asked = now
	} else {
		x.counts.Repeated++
	}
	l.exchange = x.newExchange()
	p := fcoe.Packet{Op: fcoe.LoginRequest, Flags: fcoe.FP, Service: fcoe.DescFLOGI, ELS: fcoe.ELS{
		Header:  fcoe.Header{D: fcoe.FabricPort, OXID: l.exchange, RXID: fcoe.NoExchange},
		Command: fcoe.FLOGI, HasParameters: true, Port: l.name, Node: e.name(),
		Parameters: fcoe.Parameters{Features: fcoe.FeatureMultipleIDs, Credit: 10, Class3: true,
			ReceiveSize: uint16(x.p.Size - overhead)},
	}}
	if e.turn > 0 {
		p.Service, p.ELS.Command, p.ELS.Parameters.Features = fcoe.DescFDISC, fcoe.FDISC, 0
	}
	x.sendFIP(e, e.mac, e.fcf, &p)
}

// logOut sends LOGO of the last VN_Port that is logged in.
func (x *ENodes) logOut(e *enode) {
	for e.turn >= 0 && !e.links[e.turn].up {
		e.turn, e.tries = e.turn-1, 0
	}
	if e.turn < 0 || e.tries == attempts {
		x.endAll(e)
		e.state, e.at = left, never
		return
	}
	e.tries++
	l := &e.links[e.turn]
	l.exchange = x.newExchange()
	x.sendFIP(e, e.mac, e.fcf, &fcoe.Packet{Op: fcoe.LoginRequest, Flags: fcoe.FP, MAC: l.mac, Service: fcoe.DescLOGO,
		ELS: fcoe.ELS{Header: fcoe.Header{D: fcoe.FabricPort, S: l.id, OXID: l.exchange, RXID: fcoe.NoExchange},
			Command: fcoe.LOGO, LoggedOut: l.id, Port: l.name}})
}

func (x *ENodes) newExchange() uint16 {
	if x.exchange++; x.exchange == fcoe.NoExchange {
		x.exchange = 0
	}
	return x.exchange
}

// end ends a virtual link.
func (x *ENodes) end(l *link) {
	if l.up {
		l.up = false
		delete(x.byVN, l.mac)
		x.active--
	}
}

// endAll ends all virtual links of an ENode.
func (x *ENodes) endAll(e *enode) {
	for k := range e.links {
		x.end(&e.links[k])
	}
	e.turn, e.tries = 0, 0
}

// sendFIP sends a packet in the FCoE VLAN of an ENode. It returns false if the port has no room.
func (x *ENodes) sendFIP(e *enode, src, dst frame.MAC, p *fcoe.Packet) bool {
	x.frame = appendFIP(x.frame[:0], x.envelope(e, src, dst), p, 0)
	return x.ports[e.port].send(x.frame, true)
}

// envelope returns the header of a frame in the FCoE VLAN of an ENode.
func (x *ENodes) envelope(e *enode, src, dst frame.MAC) envelope {
	return envelope{dst: dst, src: src, vid: e.vid, pcp: x.p.Ports[e.port].Priority, tagged: true}
}
