package bridge

// maxVLAN is the highest VLAN of a frame: 4095 is reserved, 0 marks a priority tag (802.1Q table
// 9-2).
const maxVLAN = 4094

// VLANSet is a set of VLAN identifiers, 0 to 4095; the zero value is empty. Higher values panic.
type VLANSet struct{ bits [64]uint64 }

// Add adds a VLAN to the set.
func (s *VLANSet) Add(vid uint16) { s.bits[vid/64] |= 1 << (vid % 64) }

// AddRange adds the VLANs from first to last, both included, to the set.
func (s *VLANSet) AddRange(first, last uint16) {
	for vid := int(first); vid <= int(last); vid++ {
		s.Add(uint16(vid))
	}
}

// Has reports whether a VLAN is in the set.
func (s *VLANSet) Has(vid uint16) bool { return s.bits[vid/64]>>(vid%64)&1 != 0 }

// group is the set of ports that are members of a VLAN. VLANs with the same members share a group.
type group struct {
	// ring holds all members twice in a row, so all other members follow a member's first place in
	// it.
	ring []uint16
	// place is the first place in ring by port number, -1 for a port that is not a member.
	place []int16
}

// others returns all members except the one at a place.
func (g *group) others(place int16) []uint16 {
	from := int(place) + 1
	to := int(place) + len(g.ring)/2
	return g.ring[from:to:to]
}

// groupVLANs returns the groups, and each VLAN's index among them. VLANs 0 and 4095, and FCoE
// VLANs, get group 0, which has no members: nothing is flooded there.
func groupVLANs(ports []port) (groups []group, of [4096]uint16) {
	known := make(map[string]uint16)
	members := make([]byte, len(ports)) // 1 for a member; as a string it identifies the group
	for vid := range uint16(4096) {
		for i := range ports {
			members[i] = 0
			if ports[i].vlans.Has(vid) {
				members[i] = 1
			}
		}
		index, ok := known[string(members)]
		if !ok {
			index = uint16(len(groups))
			known[string(members)] = index
			groups = append(groups, newGroup(members))
		}
		of[vid] = index
	}
	return groups, of
}

func newGroup(members []byte) group {
	g := group{place: make([]int16, len(members))}
	for i, member := range members {
		g.place[i] = -1
		if member == 1 {
			g.place[i] = int16(len(g.ring))
			g.ring = append(g.ring, uint16(i))
		}
	}
	g.ring = append(g.ring, g.ring...)
	return g
}
