package bridge

import "sluice/internal/frame"

// The types of frames that a Screen may stop are among those with these bits. IPv4, ARP and IPv6
// are not.
const (
	unusualMask = 0xe600
	unusualType = frame.TypeMACControl & unusualMask
)

// Screen finds the frames that go no further than the port that received them. Its owner asks it
// before Forward.
type Screen struct {
	fcoe *VLANSet // VIDs of frames in FCoE VLANs; nil: FCoE is ordinary traffic
	wire bool     // there are no VLANs
}

// newScreen returns the Screen of a port. VID 0 stands for the port's PVID.
func newScreen(p *Params, pvid uint16) Screen {
	s := Screen{p.FCoE, p.Mode == Wire}
	if p.FCoE != nil && p.FCoE.Has(pvid) {
		own := *p.FCoE
		own.Add(0)
		s.fcoe = &own
	}
	return s
}

// Screen returns the Screen of a port. It never changes.
func (b *Bridge) Screen(port int) Screen { return b.screens[port] }

// FCoE reports whether FCoE is more than ordinary traffic, so that FIP is for the control plane.
func (s Screen) FCoE() bool { return s.fcoe != nil }

// MayStop reports whether a frame with the header h may be one that stops. It is inlined, since
// the loop over a burst has no registers to spare for a call.
func (s *Screen) MayStop(h *frame.Header) bool {
	return h.Type&unusualMask == unusualType && s.mayStop(h)
}

func (s *Screen) mayStop(h *frame.Header) bool {
	switch h.Type {
	case frame.TypeMACControl:
		return true
	case frame.TypeFCoE:
		return s.fcoe != nil && !s.fcoe.Has(h.VID&0xfff)
	case frame.TypeFIP:
		return s.fcoe != nil
	case frame.TypeVLAN, frame.TypeSTag, frame.TypeQinQ:
		return s.fcoe != nil || s.opens(h)
	}
	return false
}

// opens reports whether a tag behind the first one of the header h may lead into any VLAN: the
// first one is a priority tag, which access ports take, too.
func (s *Screen) opens(h *frame.Header) bool { return h.Tagged && h.VID == 0 && !s.wire }

// Stops reports whether the frame b, with the header h, stops at its port: it is a MAC control
// frame or, if there may be FCoE VLANs, a FIP frame, or an FCoE frame off those VLANs. Where the
// first tag of a frame is removed, the next one counts, and leads into its VLAN. So a frame stops
// if that could be any VLAN, or if FCoE or FIP, behind further tags, could enter an FCoE VLAN.
func (s *Screen) Stops(b []byte, h *frame.Header) bool {
	if !s.MayStop(h) {
		return false
	}
	switch h.Type {
	case frame.TypeVLAN, frame.TypeSTag, frame.TypeQinQ:
		t, ok := frame.Innermost(b, h)
		return s.opens(h) || t == frame.TypeFCoE || t == frame.TypeFIP || !ok
	}
	return true
}
