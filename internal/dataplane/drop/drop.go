// Package drop lists the reasons for which the switch drops frames.
package drop

import "slices"

// Reason is the reason why a frame was dropped. Every dropped frame has one.
type Reason uint8

// The reasons, in the order in which a frame meets them.
const (
	// in parts that do not make up a frame, or in more buffers than it costs cells
	Parts           Reason = iota
	Runt                   // shorter than an Ethernet header
	BadTag                 // VLAN tag cut off, or VLAN 4095
	STag                   // S-tag (802.1ad) at a port that does not take them
	Oversize               // longer than the port's MTU allows, or than the control plane takes
	LinkDown               // the port has no link, is held down or has no headroom, so it could not stop its peer
	Draining               // the switch is stopping
	Storm                  // the priority is in a storm at this port, and the watchdog drops it
	ReservedAddress        // 01-80-C2-00-00-01 to -0F, or those of them that a wire does not forward
	SecondTag              // a further tag that could lead into another VLAN
	PuntRate               // for the control plane, but beyond the limit of its kind at the port
	PuntFull               // for the control plane, which has not taken those before it
	VLANIngress            // the port is not a member of the frame's VLAN
	FCoEVLAN               // on an FCoE VLAN neither FCoE nor FIP, or FCoE elsewhere
	FCoESession            // FCoE without a virtual link that lets it pass
	SourceAddress          // from an address that no station behind the port has
	NoDestination          // no egress port but the ingress port
	StormLimit             // over the port's limit for flooding frames of this kind
	NoBuffer               // no buffer for the copy of a flooded frame
	IngressFull            // lossy priority group has used its share
	HeadroomFull           // lossless priority group has used its headroom: the alarm
	// lossy egress queue at its limit, or at the ingress port's part while others need room
	QueueFull
	Early           // lossy egress queue, by early detection before its limit
	PortDown        // egress port has no link
	PortGone        // with the driver when its device went away
	RefusedByDriver // driver took no more although its ring had room
	reasons
)

// Reasons is how many reasons there are.
const Reasons = int(reasons)

// names are the stable names, for counters and tables.
var names = [Reasons]string{
	"parts", "runt", "bad_tag", "s_tag", "oversize", "link_down", "draining", "storm", "reserved_address",
	"second_tag", "punt_rate", "punt_full", "vlan_ingress", "fcoe_vlan", "fcoe_session", "source_address",
	"no_destination", "storm_limit", "no_buffer", "ingress_full", "headroom_full", "queue_full", "early",
	"port_down", "port_gone", "refused_by_driver",
}

// String returns the stable name.
func (r Reason) String() string {
	if r >= reasons {
		return "unknown"
	}
	return names[r]
}

// Of returns the reasons that an engine has for a drop, from the first up to end, by number. They
// have the same names here. Of panics if there is none of a name.
func Of[R interface {
	~uint8
	String() string
}](first, end R) (of [16]Reason) {
	for r := first; r < end; r++ {
		at := slices.Index(names[:], r.String())
		if at < 0 {
			panic("drop: no reason is called " + r.String())
		}
		of[r] = Reason(at)
	}
	return of
}

// Congestion reports whether a reason is lack of room, rather than a bad frame, a configuration or
// a link.
func (r Reason) Congestion() bool { return r.Limit() || r.Loss() }

// Limit reports whether a reason is a limit that lossy priorities have, and lossless ones have not.
func (r Reason) Limit() bool { return r == IngressFull || r == QueueFull || r == Early }

// Loss reports whether a reason is lack of room even for a lossless priority.
func (r Reason) Loss() bool { return r == HeadroomFull || r == NoBuffer || r == RefusedByDriver }

// Punt reports whether a reason is that the control plane does not take the frame.
func (r Reason) Punt() bool { return r == PuntRate || r == PuntFull }

// Failure reports whether a reason is that the switch could not or would not keep a frame that it
// was to forward, other than lack of room: a port went down, the watchdog acted, the switch
// stopped.
func (r Reason) Failure() bool {
	switch r {
	case Oversize, LinkDown, Draining, Storm, StormLimit, PortDown, PortGone:
		return true
	}
	return false
}

// AtEgress reports whether frames dropped for a reason are counted at the port that they were bound
// for. Storms drop frames at both ports.
func (r Reason) AtEgress() bool {
	switch r {
	case QueueFull, Early, PortDown, PortGone, RefusedByDriver:
		return true
	}
	return false
}
