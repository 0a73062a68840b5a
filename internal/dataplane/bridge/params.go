package bridge

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"sluice/internal/frame"
)

// Mode is how a Bridge finds the egress port.
type Mode uint8

const (
	// Learning forwards by VLAN and by addresses learned from the sources of frames.
	Learning Mode = iota
	// Wire forwards everything that a port receives to its peer. It ignores VLANs, learns nothing
	// and floods nothing.
	Wire
)

const (
	// DefaultAgeing is how long an address stays known after it was last seen, in ns (802.1Q table
	// 8-6: 300 s).
	DefaultAgeing = int64(300 * time.Second)
	// MaxAgeing is the limit in 802.1Q, 1,000,000 s.
	MaxAgeing = int64(1_000_000 * time.Second)
	// DefaultCapacity is the default of Params.Capacity.
	DefaultCapacity = 16384
	// MaxCapacity bounds Params.Capacity; the table then takes 64 MiB.
	MaxCapacity = 1 << 20
	// MaxPorts bounds the number of ports.
	MaxPorts = 1 << portBits
)

// PortID identifies a port by its name for punted and captured frames, and for virtual links: its
// number may be that of another port by then. The lower bits are a place in tables of up to
// MaxPorts ports. When a port takes the place of one that is gone, the other bits change, so what
// still has the old id refers to no port.
type PortID int32

// Place returns the index of a port in tables by id, below MaxPorts.
func (id PortID) Place() int { return int(id & (MaxPorts - 1)) }

// NewPortID returns an id for a place. It is another one for each generation.
func NewPortID(place, generation int) PortID {
	return PortID((generation*MaxPorts + place) & math.MaxInt32)
}

// PortParams describe one port. The zero value is a member of all VLANs, sends frames unchanged,
// trusts their PCP and has no limits.
//
// An access port of VLAN 10 has VLANs and PVID 10, Untagged, and an empty set Tagged. A trunk has
// all VLANs in Tagged, except its native VLAN, the PVID, if there is one.
type PortParams struct {
	VLANs *VLANSet // VLANs that the port is a member of; nil: all, 1 to 4094
	PVID  uint16   // VLAN of untagged and priority-tagged frames; 0: VLAN 1
	// Learning: reject frames with a VLAN in their tag, as access ports do. A second tag behind it
	// could lead into another VLAN.
	Untagged   bool
	Tagged     *VLANSet    // Learning: VLANs whose frames leave with a tag; all others leave without; nil: unchanged
	Remark     Remark      // PCP and DSCP of frames that leave
	Peer       int         // Wire: the port at the other end; -1: none
	Limit      int         // the most addresses learned on the port; 0: as many as the table holds
	Classifier Classifier  // class of received frames; zero: PlainClassifier
	Storm      StormParams // Learning: limits on what the port may have flooded
}

// StaticEntry is an FDB entry that is set by configuration: it is never learned, never ages and
// never moves.
type StaticEntry struct {
	MAC  frame.MAC
	VID  uint16 // 0: the port's PVID
	Port int
}

// Params describe a Bridge. A port's index in Ports is its number.
type Params struct {
	Mode     Mode
	Ports    []PortParams
	Static   []StaticEntry // Learning only
	Ageing   int64         // ns, counted in units of 1024; 0: DefaultAgeing
	Capacity int           // entries, including static ones; 0: DefaultCapacity
	// Learning: FCoE VLANs, where only FCoE frames pass, and only by virtual links. Nil: FCoE is
	// ordinary traffic, which it is not if the set is empty.
	FCoE *VLANSet
	// VirtualLinks holds the virtual links, which may change at any time. Nil: there are none.
	VirtualLinks *atomic.Pointer[VirtualLinks]
	// seed of the table's hash; 0: a random one, so that a host can't choose addresses that share a
	// slot
	Seed uint64
}

// withDefaults replaces zero values by defaults, in a copy of the ports.
func (p Params) withDefaults() Params {
	if p.Ageing == 0 {
		p.Ageing = DefaultAgeing
	}
	if p.Capacity == 0 {
		p.Capacity = DefaultCapacity
	}
	if p.VirtualLinks == nil {
		p.VirtualLinks = new(atomic.Pointer[VirtualLinks])
	}
	p.Ports = append([]PortParams(nil), p.Ports...)
	for i := range p.Ports {
		pp := &p.Ports[i]
		if pp.PVID == 0 {
			pp.PVID = 1
		}
		if pp.Limit == 0 {
			pp.Limit = MaxCapacity
		}
		if pp.Classifier == (Classifier{}) {
			pp.Classifier = PlainClassifier()
		}
	}
	return p
}

func (p *Params) check() error {
	switch {
	case p.Mode > Wire:
		return fmt.Errorf("mode %d: choose Learning or Wire", p.Mode)
	case len(p.Ports) < 1 || len(p.Ports) > MaxPorts:
		return fmt.Errorf("%d ports: 1 to %d are possible", len(p.Ports), MaxPorts)
	case p.Ageing < 1 || p.Ageing > MaxAgeing:
		return fmt.Errorf("ageing of %d ns: 1 to %d are possible", p.Ageing, MaxAgeing)
	case p.Capacity < 1 || p.Capacity > MaxCapacity:
		return fmt.Errorf("capacity of %d FDB entries: 1 to %d are possible", p.Capacity, MaxCapacity)
	case len(p.Static) > p.Capacity:
		return fmt.Errorf("%d static entries in a table of %d: raise the capacity", len(p.Static), p.Capacity)
	case len(p.Static) > 0 && p.Mode == Wire:
		return fmt.Errorf("%d static entries: a wire has no FDB, remove them", len(p.Static))
	case p.FCoE != nil && p.Mode == Wire:
		return fmt.Errorf("FCoE VLANs: a wire ignores VLANs, remove them")
	case p.FCoE != nil && (p.FCoE.Has(0) || p.FCoE.Has(4095)):
		return fmt.Errorf("FCoE VLAN 0 or 4095: both are reserved, choose 1 to %d (802.1Q table 9-2)", maxVLAN)
	}
	for i := range p.Ports {
		if err := p.checkPort(i); err != nil {
			return fmt.Errorf("port %d: %w", i, err)
		}
	}
	known := make(map[uint64]bool)
	for _, s := range p.Static {
		if err := p.checkStatic(s); err != nil {
			return fmt.Errorf("static entry %v in VLAN %d on port %d: %w", s.MAC, s.VID, s.Port, err)
		}
		key := keyOf(s.MAC, p.vlanOf(s))
		if known[key] {
			return fmt.Errorf("static entry %v in VLAN %d occurs twice", s.MAC, p.vlanOf(s))
		}
		known[key] = true
	}
	return nil
}

// statics returns the ports of the static entries, by key.
func (p *Params) statics() map[uint64]int {
	ports := make(map[uint64]int, len(p.Static))
	for _, s := range p.Static {
		ports[keyOf(s.MAC, p.vlanOf(s))] = s.Port
	}
	return ports
}

func (p *Params) checkPort(i int) error {
	pp := &p.Ports[i]
	switch {
	case pp.PVID > maxVLAN:
		return fmt.Errorf("PVID %d: choose 1 to %d", pp.PVID, maxVLAN)
	case pp.VLANs != nil && (pp.VLANs.Has(0) || pp.VLANs.Has(4095)):
		return fmt.Errorf("member of VLAN 0 or 4095: both are reserved, remove it from the set (802.1Q table 9-2)")
	case p.Mode == Wire && (pp.Peer < -1 || pp.Peer >= len(p.Ports) || pp.Peer == i):
		return fmt.Errorf("peer %d: name another port, or -1 for none", pp.Peer)
	case p.Mode == Wire && pp.Tagged != nil:
		return fmt.Errorf("tagged VLANs: a wire ignores VLANs, remove them")
	case pp.Limit < 1 || pp.Limit > MaxCapacity:
		return fmt.Errorf("limit of %d FDB entries: 1 to %d are possible, 0 for none", pp.Limit, MaxCapacity)
	}
	if err := pp.Classifier.check(); err != nil {
		return err
	}
	if err := pp.Remark.check(); err != nil {
		return err
	}
	return pp.Storm.check()
}

func (p *Params) checkStatic(s StaticEntry) error {
	switch {
	case s.MAC.Group():
		return fmt.Errorf("a group address: choose a unicast address")
	case s.Port < 0 || s.Port >= len(p.Ports):
		return fmt.Errorf("no such port: choose 0 to %d", len(p.Ports)-1)
	}
	vid := p.vlanOf(s)
	if vid > maxVLAN || !p.Ports[s.Port].member(vid) {
		return fmt.Errorf("the port is not a member of the VLAN")
	}
	if p.fcoe(vid) {
		return fmt.Errorf("an FCoE VLAN has no FDB entries: remove it")
	}
	return nil
}

// vlanOf returns the VLAN of a static entry.
func (p *Params) vlanOf(s StaticEntry) uint16 {
	if s.VID == 0 {
		return p.Ports[s.Port].PVID
	}
	return s.VID
}

func (pp *PortParams) member(vid uint16) bool { return pp.VLANs == nil || pp.VLANs.Has(vid) }

// fcoe reports whether a VLAN is an FCoE VLAN.
func (p *Params) fcoe(vid uint16) bool { return p.FCoE != nil && p.FCoE.Has(vid) }

// vlans returns the VLANs that a port is a member of, ordinary ones and FCoE VLANs; 0 and 4095
// never are.
func (p *Params) vlans(port int) (ordinary, fcoe VLANSet) {
	for vid := uint16(1); vid <= maxVLAN; vid++ {
		switch {
		case !p.Ports[port].member(vid):
		case p.fcoe(vid):
			fcoe.Add(vid)
		default:
			ordinary.Add(vid)
		}
	}
	return ordinary, fcoe
}

// refused returns the VID bits that must not be set in tags of frames that the port accepts.
func (pp *PortParams) refused() uint16 {
	if pp.Untagged {
		return 4095
	}
	return 0
}
