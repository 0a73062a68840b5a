// Package snoop is FIP snooping. It reads the FIP frames that pass a switch on its FCoE VLANs,
// decides which of them may, and knows from them which virtual links exist: which VN_Port MAC may
// exchange FCoE frames with which FCF, and at which ports the two are. It has no clock, no devices
// and no goroutine: frames go in, verdicts come out, times are in ns since an arbitrary start, and
// what the virtual links open is for the control plane to put into effect.
//
// Sources: Linux drivers/scsi/fcoe/fcoe_ctlr.c (an ENode), the manuals of Cisco, Dell, H3C and
// Juniper for what bridges do, and FC-BB-5 for the terms. docs/notes/fip-snooping.md says what was
// decided where they leave a choice.
package snoop

import (
	"log/slog"
	"sync"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// Role is what a port has at its other end.
type Role uint8

// The roles.
const (
	ENode Role = iota // servers: what they send is checked against what they have logged in
	FCF               // an FCF, or the fabric's side of another bridge
	// Trusted is a bridge that snoops itself. Frames of both kinds may come from there, and go
	// there as to an ENode port and an FCF port at once. All other rules hold: what came in there
	// must not harm what is at other ports.
	Trusted
)

var roleNames = [...]string{"enode", "fcf", "trusted"}

// String returns the name used in the configuration.
func (r Role) String() string { return roleNames[r] }

// Params describe a switch.
type Params struct {
	Instances []Instance
	Ports     []Port
	// What the switch remembers at most, 1 or more each. A frame that needs more is refused; what
	// is alive never makes room.
	MaxFCFs, MaxENodes, MaxLinks, MaxPending int
}

// Instance is an FCoE VLAN.
type Instance struct {
	Name  string
	VLAN  uint16 // 1 to 4094, one instance each
	FCMap uint32 // 0x0efc00 to 0x0efcff; 0: fcoe.DefaultFCMap
	// FCFs are the addresses of the FCFs that are allowed; empty: all that advertise themselves at
	// an FCF port or a trusted port.
	FCFs []frame.MAC
	SPMA bool // an FCF may grant a server the MAC address that it has asked for
	// AgeTenths is for how many tenths of a period a sender may be silent, 25 to 50; 0: 25, which
	// is the 2.5 periods of FC-BB-5. It is forgotten 100 ms after that.
	AgeTenths int
}

// Port is a port of the switch.
type Port struct {
	Name string
	Role Role
	// Member reports whether the port is a member of a VLAN, an FCoE VLAN or another one.
	Member func(vid uint16) bool
	// ENodes are those that may log in behind the port, and behind no port that does not list them;
	// empty: all that no other port lists.
	ENodes []ENodeName
	// What there may be of ENodes behind the port, 1 or more each, besides the limits of the
	// switch.
	MaxENodes, MaxLinks, MaxPending int
}

// ENodeName is the MAC address of an ENode, or the WWPN of a login; the other one is 0.
type ENodeName struct {
	MAC  frame.MAC
	WWPN fcoe.WWN
}

// System is the FIP snooping of a switch. Any goroutine may call its methods.
type System struct {
	lock   sync.Mutex
	log    *slog.Logger
	params Params
	*setup         // of params
	ports  []*port // in their order
	byName map[string]*port

	tables
	next    int64  // time at which something expires or is to be logged, or earlier
	serial  uint64 // see Serial
	updates uint64 // see Updates

	packet fcoe.Packet // that Receive looks at
	to     []string    // ports to which it goes
}

// port is what is known of a port.
type port struct {
	Port
	up     bool // its link, as told last
	counts counts
	last   [Reasons]refusal // by reason
	logs   logs

	enodes, links, pending int // of what is in the tables
}

// counts are the counters of a port. Logins and ends are those of ENodes behind it.
type counts struct {
	received, forwarded            uint64
	refused                        [Reasons]uint64
	accepted, rejected, unanswered uint64 // FLOGI and FDISC
	restored                       uint64 // virtual links
	ended                          [Causes]uint64
}

// refusal is the last frame that was refused for a reason.
type refusal struct {
	at    int64
	vid   uint16
	frame []byte // nil: there was none
}

// New returns a System without ports.
func New(log *slog.Logger) *System {
	return &System{log: log, setup: &setup{}, tables: newTables(), next: never}
}

// port returns the port of a name, or nil.
func (s *System) port(name string) *port { return s.byName[name] }

// SetLink says whether the link of a port is up. If it was up and is down now, the FCFs, logins and
// virtual links of the port end. A port that was never up ends nothing, so that what was restored
// survives the start.
func (s *System) SetLink(now int64, port string, up bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.advance(now) // what has expired did not end because the port is down
	p := s.port(port)
	if p == nil || p.up == up {
		return
	}
	p.up = up
	if !up {
		s.clear(now, p, PortDown)
	}
}

// Link is a virtual link. FCoE frames pass from VN to FCF that are received at ENodePort, and from
// FCF to VN that are received at FCFPort.
type Link struct {
	VID                uint16
	VN, ENode, FCF     frame.MAC
	ENodePort, FCFPort string
}

// Links returns the virtual links in no particular order. No two have the same VID and VN.
func (s *System) Links() []Link {
	s.lock.Lock()
	defer s.lock.Unlock()
	all := make([]Link, 0, len(s.links))
	for _, l := range s.links {
		e := l.enode
		all = append(all, Link{VID: l.vid, VN: l.mac, ENode: e.mac, FCF: e.fcf.mac, ENodePort: e.port.Name,
			FCFPort: e.fcf.port.Name})
	}
	return all
}

// Serial returns a number that grows with whatever changes Links.
func (s *System) Serial() uint64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.serial
}

// Updates returns a number that grows with whatever changes the result of Save, including the times
// of keep-alives.
func (s *System) Updates() uint64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.updates
}
