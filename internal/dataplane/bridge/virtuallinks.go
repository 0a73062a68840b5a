package bridge

import (
	"fmt"

	"sluice/internal/frame"
)

// On an FCoE VLAN (Params.FCoE) the bridge learns nothing and floods nothing. FCoE frames pass
// where a virtual link leads, and no other frame passes. FIP frames, by which hosts log in, never
// reach Forward: its owner hands them to the control plane, which sets the links.

// VirtualLink is a session of FC-BB-5: it lets a VN_Port, behind the port of its ENode, and an FCF
// exchange FCoE frames.
type VirtualLink struct {
	VID       uint16
	VN        frame.MAC // address of the VN_Port
	ENode     frame.MAC // address from which the ENode sends FIP
	FCF       frame.MAC
	ENodePort int
	FCFPort   int
}

// VirtualLinks is an immutable set of virtual links. Any goroutine may use it.
type VirtualLinks struct {
	links []VirtualLink
	byVN  table // place in links, by VN_Port address and VLAN
	known table // port, by address and VLAN
}

// NewVirtualLinks returns a set of links, one for each VLAN and address of a VN_Port. It keeps the
// slice.
func NewVirtualLinks(links []VirtualLink) (*VirtualLinks, error) {
	l := &VirtualLinks{
		links: links, byVN: newTable(max(1, len(links)), 0), known: newTable(max(1, 3*len(links)), 0),
	}
	for i := range links {
		k := &links[i]
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("bridge: virtual link of %v in VLAN %d: %w", k.VN, k.VID, err)
		}
		key := keyOf(k.VN, k.VID)
		if l.byVN.find(key) != nil {
			return nil, fmt.Errorf("bridge: two virtual links of %v in VLAN %d: a VN_Port has one", k.VN, k.VID)
		}
		l.byVN.insert(key).seen = lastSeen(i)
		l.know(k.VN, k.VID, k.ENodePort)
		l.know(k.ENode, k.VID, k.ENodePort)
		l.know(k.FCF, k.VID, k.FCFPort)
	}
	return l, nil
}

func (k *VirtualLink) check() error {
	switch {
	case k.VID < 1 || k.VID > maxVLAN:
		return fmt.Errorf("choose a VLAN from 1 to %d", maxVLAN)
	case k.VN == 0 || k.VN.Group() || k.FCF == 0 || k.FCF.Group():
		return fmt.Errorf("the address of a VN_Port or an FCF (%v) is zero or a group's", k.FCF)
	case k.ENodePort < 0 || k.ENodePort >= MaxPorts || k.FCFPort < 0 || k.FCFPort >= MaxPorts:
		return fmt.Errorf("ports %d and %d: 0 to %d are possible", k.ENodePort, k.FCFPort, MaxPorts-1)
	}
	return nil
}

// know records where the frames of an address come in.
func (l *VirtualLinks) know(mac frame.MAC, vid uint16, port int) {
	if key := keyOf(mac, vid); l.known.find(key) == nil {
		l.known.insert(key).seen = lastSeen(port)
	}
}

// Know reports whether frames from an address in a VLAN are expected on a port: it is that of the
// VN_Port, the ENode or the FCF of a link there. On nil it returns false.
func (l *VirtualLinks) Know(mac frame.MAC, vid uint16, port int) bool {
	if l == nil {
		return false
	}
	e := l.known.find(keyOf(mac, vid))
	return e != nil && e.seen.port() == port
}

// egress returns the port to which a link leads a frame with the header h that port in received in
// a VLAN, or -1.
func (l *VirtualLinks) egress(in int, vid uint16, h *frame.Header) int {
	if l == nil {
		return -1
	}
	if e := l.byVN.find(keyOf(h.Src, vid)); e != nil {
		if k := &l.links[e.seen]; k.ENodePort == in && k.FCF == h.Dst {
			return k.FCFPort
		}
	}
	if e := l.byVN.find(keyOf(h.Dst, vid)); e != nil {
		if k := &l.links[e.seen]; k.FCFPort == in && k.FCF == h.Src {
			return k.ENodePort
		}
	}
	return -1
}

// apart decides on a frame in a VLAN that is no ordinary VLAN of port in, or whose tag the port
// refuses. It is not inlined, to keep Forward small.
//
//go:noinline
func (b *Bridge) apart(in int, vid uint16, h *frame.Header) (out int32, why Reason) {
	if b.fcoe == nil || h.VID&b.ports[in].refused != 0 || !b.fcoe[in].Has(vid&0xfff) {
		return Nowhere, VLANIngress
	}
	if h.Type != frame.TypeFCoE {
		return Nowhere, FCoEVLAN
	}
	// The links may be newer than the ports: a port may not be known here, or may have left.
	switch to := b.links.Load().egress(in, vid, h); {
	case to < 0 || to >= len(b.fcoe) || !b.fcoe[to].Has(vid):
		return Nowhere, FCoESession
	case to == in:
		return Nowhere, NoDestination
	default:
		return int32(to), Forwarded
	}
}

// Member reports whether a port is a member of a VLAN, FCoE VLANs included. It never changes.
func (b *Bridge) Member(port int, vid uint16) bool {
	return b.ports[port].vlans.Has(vid) || b.fcoe != nil && b.fcoe[port].Has(vid)
}

// Takes reports whether a port takes frames with a VID in their tag; 0 stands for none. It never
// changes.
func (b *Bridge) Takes(port int, vid uint16) bool {
	return vid&b.ports[port].refused == 0 && b.Member(port, b.VLAN(port, vid))
}

// Expects reports whether frames with the header h are expected on a port: see VirtualLinks.Know.
func (b *Bridge) Expects(port int, h *frame.Header) bool {
	return b.links.Load().Know(h.Src, b.VLAN(port, h.VID), port)
}
