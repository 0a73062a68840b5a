package fc

import (
	"errors"
	"fmt"
	"slices"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// FCFParams describes an FCF.
type FCFParams struct {
	Port  PortParams
	VLANs []uint16 // FCoE VLANs, 1 to 4094: all of one fabric

	Name        fcoe.WWN // of the switch; 0: made of the MAC address
	Fabric      fcoe.WWN // 0: as Name
	FCMap       uint32   // 0x0efc00 to 0x0efcff
	Priority    uint8    // of the FCF; ENodes prefer the lowest
	Period      uint32   // FKA_ADV_Period in ms: between advertisements, and between keep-alives; 500 or more
	NoKeepAlive bool     // D: ENodes need not send keep-alives
	Domain      uint8    // upper byte of FC_IDs, 1 to 239
	MaxPorts    int      // most VN_Ports at a time, 1 to 65535
}

// Check reports parameters that make no sense, apart from the port.
func (p *FCFParams) Check() error {
	switch {
	case len(p.VLANs) == 0:
		return errors.New("give one FCoE VLAN or more")
	case p.FCMap>>8 != fcoe.DefaultFCMap>>8:
		return fmt.Errorf("FC-MAP %06X: must be 0EFC00 to 0EFCFF", p.FCMap)
	case p.Period < shortestPeriod:
		return fmt.Errorf("%d ms between advertisements: must be %d or more", p.Period, shortestPeriod)
	case p.Domain == 0 || p.Domain > 239:
		return fmt.Errorf("domain %d: must be 1 to 239", p.Domain)
	case p.MaxPorts < 1 || p.MaxPorts > 65535:
		return fmt.Errorf("%d VN_Ports: must be 1 to 65535", p.MaxPorts)
	}
	for i, vid := range p.VLANs {
		if vid == 0 || vid > 4094 || slices.Contains(p.VLANs[:i], vid) {
			return fmt.Errorf("VLAN %d: must be 1 to 4094, and given once", vid)
		}
	}
	return nil
}

// FCF is a Fibre Channel forwarder on one port.
type FCF struct {
	p    FCFParams
	port *port
	up   bool // the link

	ports  []vnPort // by the lower two bytes of the FC_ID, from 1 on
	byName map[fcoe.WWN]int
	enodes map[enodeKey]*fabricENode // those with a login
	active int

	advertise int64 // when to advertise next
	age       int64 // when to look for expired links next
	notify    int64 // when to notify of changes; never: there are none
	changes   []fcoe.FCID
	exchange  uint16 // of the last request of the FCF

	packet fcoe.Packet
	frame  []byte // being built
	fc     []byte // likewise
	counts FCFCounts
}

type enodeKey struct {
	vid uint16
	mac frame.MAC
}

// fabricENode is what the FCF knows of an ENode.
type fabricENode struct {
	refreshed int64 // when it last sent a keep-alive or logged in
	links     int   // its VN_Ports
}

// vnPort is a VN_Port that is or was logged in. A port that logs in again gets the same FC_ID.
type vnPort struct {
	name, node fcoe.WWN
	id         fcoe.FCID
	mac        frame.MAC // its own
	enode      enodeKey
	host       *fabricENode // of enode; valid while up
	up, flogi  bool
	since      int64 // when it logged in, or out
	refreshed  int64 // when it last sent a keep-alive or logged in
	size       int   // longest payload that it receives, in bytes

	directory directory
	notified  bool // registered for state changes
}

// changesMost is how many changes an RSCN lists; of more, it says that the fabric has changed.
const changesMost = 32

// NewFCF returns an FCF, which advertises itself from its first Step on.
func NewFCF(p FCFParams) (*FCF, error) {
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("FCF: %w", err)
	}
	x, err := newPort(p.Port)
	if err != nil {
		return nil, fmt.Errorf("FCF: %w", err)
	}
	if p.Name == 0 {
		p.Name = fcoe.WWN(p.Port.MAC) | 1<<60
	}
	if p.Fabric == 0 {
		p.Fabric = p.Name
	}
	return &FCF{p: p, port: x, up: true, byName: map[fcoe.WWN]int{}, enodes: map[enodeKey]*fabricENode{},
		ports: make([]vnPort, 1, 64), notify: never}, nil
}

// Step receives, answers, forwards, ages and sends. It returns the number of buffers and frames
// moved.
func (x *FCF) Step(now int64) int {
	work := x.port.receive(now, x.receive)
	if x.up {
		x.advance(now)
	}
	return work + x.port.transmit(now)
}

// SetLink says whether the link is up. While it is down, ENodes expire as they do otherwise.
func (x *FCF) SetLink(now int64, up bool) {
	if x.up == up {
		return
	}
	x.up = up
	if !up {
		x.port.reset(now)
	}
	x.advertise = now
}

func (x *FCF) advance(now int64) {
	if now >= x.advertise {
		x.advertise = now + int64(x.p.Period)*millisecond
		for _, vid := range x.p.VLANs {
			x.sendAdvertisement(x.envelope(fcoe.AllENode, vid), 0, 0)
		}
	}
	if now >= x.age {
		x.age = now + 10*millisecond
		x.expire(now)
	}
	if now >= x.notify {
		x.notifyAll()
	}
}

// expire ends the virtual links whose keep-alives have not come, and clears them.
func (x *FCF) expire(now int64) {
	if x.p.NoKeepAlive {
		return
	}
	for i := range x.ports {
		v := &x.ports[i]
		switch {
		case !v.up:
		case now-v.host.refreshed > patience(int64(x.p.Period)*millisecond):
			x.clear(now, v.enode, nil)
			x.counts.Expired++
		case now-v.refreshed > patience(vnPortPeriod):
			x.clear(now, v.enode, v)
			x.counts.Expired++
		}
	}
}

// Clear ends all virtual links with Clear Virtual Links.
func (x *FCF) Clear(now int64) {
	for i := range x.ports {
		if v := &x.ports[i]; v.up && v.flogi {
			x.clear(now, v.enode, nil)
		}
	}
}

// clear ends the virtual link of a VN_Port, or all of an ENode, and says so to the ENode.
func (x *FCF) clear(now int64, e enodeKey, v *vnPort) {
	p := fcoe.Packet{Op: fcoe.ClearVirtualLinks, Flags: fcoe.FP | fcoe.FromFCF, MAC: x.p.Port.MAC, Name: x.p.Name}
	if v != nil && !v.flogi {
		p.VxPorts = append(p.VxPorts, fcoe.VxPort{MAC: v.mac, ID: v.id, Name: v.name})
		x.end(now, v)
	} else {
		x.endAll(now, e)
	}
	x.counts.Cleared++
	x.sendFIP(x.envelope(e.mac, e.vid), &p, 0)
}

// endAll ends all virtual links of an ENode.
func (x *FCF) endAll(now int64, e enodeKey) {
	for i := range x.ports {
		if v := &x.ports[i]; v.up && v.enode == e {
			x.end(now, v)
		}
	}
}

// end ends a virtual link.
func (x *FCF) end(now int64, v *vnPort) {
	v.up, v.since, v.notified, v.directory = false, now, false, directory{}
	x.active--
	if v.host.links--; v.host.links == 0 {
		delete(x.enodes, v.enode)
	}
	x.changed(now, v.id)
}

// byID returns the VN_Port that is logged in with an FC_ID, or nil.
func (x *FCF) byID(id fcoe.FCID) *vnPort {
	i := int(id & 0xffff)
	if id>>16 != fcoe.FCID(x.p.Domain) || i == 0 || i >= len(x.ports) || !x.ports[i].up {
		return nil
	}
	return &x.ports[i]
}

// allocate returns the place of a VN_Port by its name: the one that it had before, a new one, or
// the one that is free for longest; 0 if there is none.
func (x *FCF) allocate(name fcoe.WWN) int {
	if i, known := x.byName[name]; known {
		return i
	}
	best := 0
	if len(x.ports) <= x.p.MaxPorts {
		best = len(x.ports)
		x.ports = append(x.ports, vnPort{})
	} else {
		for i := 1; i < len(x.ports); i++ {
			if !x.ports[i].up && (best == 0 || x.ports[i].since < x.ports[best].since) {
				best = i
			}
		}
		if best == 0 {
			return 0
		}
		delete(x.byName, x.ports[best].name)
	}
	x.byName[name] = best
	return best
}

// envelope returns the header of a frame on an FCoE VLAN.
func (x *FCF) envelope(dst frame.MAC, vid uint16) envelope {
	return envelope{dst: dst, src: x.p.Port.MAC, vid: vid, pcp: x.p.Port.Priority, tagged: true}
}

// sendFIP sends a packet whose payload is at least size bytes long.
func (x *FCF) sendFIP(e envelope, p *fcoe.Packet, size int) {
	x.frame = appendFIP(x.frame[:0], e, p, size)
	x.port.send(x.frame, e.tagged && e.pcp == x.p.Port.Priority)
}

// sendAdvertisement sends an advertisement, padded to size bytes of payload.
func (x *FCF) sendAdvertisement(e envelope, flags fcoe.Flags, size int) {
	p := fcoe.Packet{
		Op: fcoe.Advertisement, Flags: fcoe.FP | fcoe.Available | fcoe.FromFCF | flags,
		Priority: x.p.Priority, MAC: x.p.Port.MAC, Name: x.p.Name,
		Fabric: fcoe.Fabric{FCMap: x.p.FCMap, Name: x.p.Fabric},
		Period: fcoe.Period{Millis: x.p.Period, NoKeepAlive: x.p.NoKeepAlive},
	}
	x.counts.Advertisements++
	x.sendFIP(e, &p, size)
}
