package bridge

import (
	"fmt"

	"sluice/internal/frame"
)

// Trust says what determines the class of service of a received frame.
type Trust uint8

const (
	// TrustPCP reads the priority of the tag.
	TrustPCP Trust = iota
	// TrustDSCP reads the codepoint of the IP header, and the priority of the tag if there is none.
	TrustDSCP
	// TrustNothing gives each frame the default class.
	TrustNothing
)

// Classifier determines the class of service, 0 to 7, of frames that a port receives. Start from
// PlainClassifier and change what differs: an omitted table maps everything to class 0.
type Classifier struct {
	Trust   Trust
	Default uint8     // class of frames without a value that is trusted
	PCP     [8]uint8  // class by PCP, also for priority-tagged frames (VLAN 0)
	DSCP    [64]uint8 // class by DSCP
	STags   bool      // the port accepts frames with an S-tag (802.1ad); see sTagCoS
}

// PlainClassifier trusts the PCP, which is the class; untagged frames have class 0. It maps a DSCP
// to its upper three bits, to which RFC 2474 (clause 4.2.2) gave the meaning of the IP precedence.
func PlainClassifier() Classifier {
	var c Classifier
	for pcp := range c.PCP {
		c.PCP[pcp] = uint8(pcp)
	}
	for dscp := range c.DSCP {
		c.DSCP[dscp] = uint8(dscp >> 3)
	}
	return c
}

func (c *Classifier) check() error {
	if c.Trust > TrustNothing {
		return fmt.Errorf("trust %d: choose TrustPCP, TrustDSCP or TrustNothing", c.Trust)
	}
	if c.Default > 7 {
		return fmt.Errorf("default class %d: 0 to 7 are possible", c.Default)
	}
	for pcp, cos := range c.PCP {
		if cos > 7 {
			return fmt.Errorf("class %d for PCP %d: 0 to 7 are possible", cos, pcp)
		}
	}
	for dscp, cos := range c.DSCP {
		if cos > 7 {
			return fmt.Errorf("class %d for DSCP %d: 0 to 7 are possible", cos, dscp)
		}
	}
	return nil
}

// Takes reports whether the port takes a frame with this problem: none, or an S-tag.
func (c *Classifier) Takes(problem frame.Problem) bool {
	return problem == frame.OK || problem == frame.STagged && c.STags
}

// Class returns the class of the frame b with the header h, which may begin with an S-tag.
func (c *Classifier) Class(b []byte, h *frame.Header) uint8 {
	if h.Type == frame.TypeSTag && !h.Tagged {
		return c.sTagCoS(h)
	}
	return c.CoS(b, h)
}

// CoS returns the class of the frame b with the header h.
func (c *Classifier) CoS(b []byte, h *frame.Header) uint8 {
	if c.Trust != TrustPCP {
		return c.beyondPCP(b, h)
	}
	return c.ByPCP(h)
}

// ByPCP is CoS for a port that trusts the PCP first, for a frame with the header h.
func (c *Classifier) ByPCP(h *frame.Header) uint8 {
	if h.Tagged {
		return c.PCP[h.PCP&7]
	}
	return c.Default
}

// beyondPCP is CoS for a port that does not trust the PCP first.
func (c *Classifier) beyondPCP(b []byte, h *frame.Header) uint8 {
	if c.Trust == TrustNothing {
		return c.Default
	}
	if dscp, ok := frame.DSCP(b, h); ok {
		return c.DSCP[dscp&63]
	}
	return c.ByPCP(h)
}

// sTagCoS returns the class of a frame that is frame.STagged, with the header h, by the PCP of its
// S-tag, which counts like that of a C-tag. What follows the S-tag, even an IP header, is left to
// another bridge.
func (c *Classifier) sTagCoS(h *frame.Header) uint8 {
	if c.Trust == TrustNothing {
		return c.Default
	}
	return c.PCP[h.PCP&7]
}

// QueueMap is the egress queue by class of service.
type QueueMap [8]uint8

// UnicastQueues maps frames to a single known port: one queue per class.
func UnicastQueues() QueueMap { return QueueMap{0, 1, 2, 3, 4, 5, 6, 7} }

// FloodQueues maps flooded frames (unknown unicast, multicast and broadcast): four queues for the
// eight classes (Huawei, CX11x, CX31x and CX91x Series Switch Modules, Configuration Guide 12,
// table 10-10). Class 3 shares its queue with classes 1 and 2; if class 3 is lossless, its flooded
// frames need UnicastQueues.
func FloodQueues() QueueMap { return QueueMap{0, 1, 1, 1, 2, 2, 6, 6} }
