package bridge

import (
	"fmt"

	"sluice/internal/frame"
)

// Remark sets the PCP and DSCP of frames that leave a port, by class of service. If frames come
// from ports that trust the DSCP, the next switch pauses the right class only if it also reads the
// DSCP, or if PCP is set here.
type Remark struct {
	PCP  *[8]uint8 // PCP by class; nil: an existing tag keeps its PCP, a new one has the class
	DSCP *[8]uint8 // DSCP of IP frames by class, or Keep; nil: unchanged
}

// Keep leaves the DSCP of a class unchanged (Remark.DSCP).
const Keep = 0xff

func (r *Remark) check() error {
	for cos := range 8 {
		switch {
		case r.PCP != nil && r.PCP[cos] > 7:
			return fmt.Errorf("PCP %d for class %d: 0 to 7 are possible", r.PCP[cos], cos)
		case r.DSCP != nil && r.DSCP[cos] > 63 && r.DSCP[cos] != Keep:
			return fmt.Errorf("DSCP %d for class %d: 0 to 63 are possible", r.DSCP[cos], cos)
		}
	}
	return nil
}

// Egress is how frames that leave by a port are changed.
type Egress struct {
	tagged *VLANSet // nil: frames keep their tag, or none
	remark Remark
}

// newEgress returns nil if frames leave unchanged.
func newEgress(p *PortParams) *Egress {
	if p.Tagged == nil && p.Remark == (Remark{}) {
		return nil
	}
	return &Egress{tagged: p.Tagged, remark: p.Remark}
}

// Growth returns by how many bytes an untagged frame may grow.
func (e *Egress) Growth() int {
	if e == nil || e.tagged == nil || *e.tagged == (VLANSet{}) {
		return 0
	}
	return frame.TagLength
}

// Rewrite changes a frame for its egress port. vid is its VLAN (Bridge.VLAN at the ingress port),
// cos its class. The frame must be one that frame.Parse accepts; it begins at room[frame.TagLength]
// and ends with room. Rewrite returns where in room it begins afterwards; it still ends with room.
func (e *Egress) Rewrite(room []byte, vid uint16, cos uint8) (start int) {
	b := room[frame.TagLength:]
	if e.remark.DSCP != nil && e.remark.DSCP[cos&7] != Keep {
		frame.SetDSCP(b, e.remark.DSCP[cos&7])
	}
	tagged := frame.Tagged(b)
	if e.tagged == nil {
		if tagged && e.remark.PCP != nil {
			frame.SetPCP(b, e.remark.PCP[cos&7])
		}
		return frame.TagLength
	}
	switch keep := e.tagged.Has(vid); {
	case keep && tagged:
		frame.SetVID(b, vid) // it may have been a priority tag
		if e.remark.PCP != nil {
			frame.SetPCP(b, e.remark.PCP[cos&7])
		}
	case keep:
		if e.remark.PCP != nil {
			cos = e.remark.PCP[cos&7]
		}
		frame.Push(room, vid, cos)
		return 0
	case tagged:
		return frame.TagLength + frame.Pop(b)
	}
	return frame.TagLength
}
