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
}

// newScreen returns the Screen of a port. VID 0 stands for the port's PVID.
func newScreen(fcoe *VLANSet, pvid uint16) Screen {
	if fcoe == nil || !fcoe.Has(pvid) {
		return Screen{fcoe}
	}
	own := *fcoe
	own.Add(0)
	return Screen{&own}
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
	case frame.TypeFIP, frame.TypeVLAN, frame.TypeSTag, frame.TypeQinQ:
		return s.fcoe != nil
	}
	return false
}

// Stops reports whether the frame b, with the header h, stops at its port: it is a MAC control
// frame or, if there may be FCoE VLANs, a FIP frame, or an FCoE frame off those VLANs. Where the
// first tag of a frame is removed, the next one would count, and lead into an FCoE VLAN. So FCoE
// and FIP behind further tags stop on all VLANs.
func (s *Screen) Stops(b []byte, h *frame.Header) bool {
	if !s.MayStop(h) {
		return false
	}
	switch h.Type {
	case frame.TypeVLAN, frame.TypeSTag, frame.TypeQinQ:
		t, ok := frame.Innermost(b, h)
		return t == frame.TypeFCoE || t == frame.TypeFIP || !ok
	}
	return true
}
