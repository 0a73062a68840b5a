package dataplane

import (
	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/frame"
)

// Drop is the reason why a frame was dropped. Every dropped frame has one.
type Drop uint8

// The reasons, in the order in which a frame meets them.
const (
	DropRunt            Drop = iota // shorter than an Ethernet header
	DropBadTag                      // VLAN tag cut off, or VLAN 4095
	DropSTag                        // S-tag (802.1ad) at a port that does not take them
	DropOversize                    // longer than the port's MTU allows, or than the control plane takes
	DropDraining                    // the switch is stopping
	DropStorm                       // the priority is in a storm at this port, and the watchdog drops it
	DropReservedAddress             // 01-80-C2-00-00-0x, never forwarded
	DropPuntRate                    // for the control plane, but beyond the limit of its kind at the port
	DropPuntFull                    // for the control plane, which has not taken those before it
	DropVLANIngress                 // the port is not a member of the frame's VLAN
	DropNoDestination               // no egress port but the ingress port
	DropStormLimit                  // over the port's limit for flooding frames of this kind
	DropNoBuffer                    // no buffer for the copy of a flooded frame
	DropIngressFull                 // lossy priority group has used its share
	DropHeadroomFull                // lossless priority group has used its headroom: the alarm
	// lossy egress queue at its limit, or at the ingress port's part while others need room
	DropQueueFull
	DropEarly           // lossy egress queue, by early detection before its limit
	DropPortDown        // egress port has no link
	DropPortGone        // with the driver when its device went away
	DropRefusedByDriver // driver took no more although its ring had room
	dropReasons
)

// DropReasons is how many reasons there are.
const DropReasons = int(dropReasons)

// dropNames are the stable names, for counters and tables.
var dropNames = [DropReasons]string{
	"runt", "bad_tag", "s_tag", "oversize", "draining", "storm", "reserved_address", "punt_rate", "punt_full",
	"vlan_ingress", "no_destination", "storm_limit",
	"no_buffer", "ingress_full", "headroom_full", "queue_full", "early", "port_down", "port_gone", "refused_by_driver",
}

// String returns the stable name.
func (d Drop) String() string {
	if d >= dropReasons {
		return "unknown"
	}
	return dropNames[d]
}

// Translations of the reasons of the engines.
var (
	dropOfProblem = [frame.Problems]Drop{frame.Runt: DropRunt, frame.BadTag: DropBadTag, frame.STagged: DropSTag}
	dropOfBridge  = [...]Drop{
		bridge.ReservedAddress: DropReservedAddress,
		bridge.VLANIngress:     DropVLANIngress,
		bridge.NoDestination:   DropNoDestination,
		bridge.StormLimit:      DropStormLimit,
	}
	dropOfCells = [...]Drop{
		cells.IngressFull:  DropIngressFull,
		cells.HeadroomFull: DropHeadroomFull,
		cells.QueueFull:    DropQueueFull,
	}
)
