package snooptest

import (
	"slices"

	"sluice/internal/frame"
)

// address returns one that means something to somebody.
func (t *Traffic) address() frame.MAC {
	at, l := t.link()
	return pick(t.r, []frame.MAC{0, frame.Broadcast, AllENodes, AllFCFs, AllFCoE, AllVN2VN, AllP2P, at.mac, l.enode,
		l.fcf, pick(t.r, enodes), pick(t.r, fcfs), 0x0efc_0001_0001, 0x0efc_0101_0002, 0x0efd_0001_0001})
}

// spoil makes one thing of a frame wrong, or at least other, and says which.
func (t *Traffic) spoil(d *draft) string {
	if d.Service != nil && t.chance(30) {
		return t.spoilELS(d.Service)
	}
	switch t.r.IntN(9) {
	case 0:
		d.port = pick(t.r, t.m.c.Ports).Name
		return "at another port"
	case 1:
		d.vid = pick(t.r, []uint16{100, 200, 1, 300})
		return "in another VLAN"
	case 2:
		d.Dst = t.address()
		return "to another address"
	case 3:
		d.Src = t.address()
		return "from another address"
	case 4:
		d.Flags ^= pick(t.r, []int{FlagFP, FlagSP, FlagFCF, FlagA, FlagS, FlagF})
		return "with another flag"
	case 5:
		if t.chance(60) {
			return "as it is"
		}
		d.Op = pick(t.r, []Op{Solicitation, Advertisement, Request, Reply, KeepAlive, ClearLinks, VLANRequest,
			VLANNotification, {2, 3}, {9, 1}, {0, 0}})
		return "as another operation"
	case 6:
		d.Pad = t.r.IntN(100)
		return "padded"
	}
	return t.spoilList(d)
}

func (t *Traffic) spoilList(d *draft) string {
	d.List = slices.Clone(d.List)
	n := len(d.List)
	other := t.descriptor()
	switch t.r.IntN(7) {
	case 0:
		d.List = slices.Insert(d.List, t.r.IntN(n+1), other)
		return "with a further descriptor"
	case 1:
		if n > 0 {
			i := t.r.IntN(n)
			d.List = slices.Delete(d.List, i, i+1)
		}
		return "without a descriptor"
	case 2:
		if n > 0 {
			d.List = append(d.List, d.List[t.r.IntN(n)])
		}
		return "with a descriptor twice"
	case 3:
		t.r.Shuffle(n, func(i, j int) { d.List[i], d.List[j] = d.List[j], d.List[i] })
		return "in another order"
	case 4:
		if d.Service != nil && n > 0 {
			d.List = slices.Insert(d.List, 1+t.r.IntN(n), d.Service.Bytes())
			d.Service = nil
		}
		return "with the link service later"
	}
	for i, b := range d.List {
		if b[0] == other[0] || t.chance(20) {
			d.List[i] = other
		}
	}
	return "with another descriptor"
}

// descriptor returns some descriptor, the unknown ones included.
func (t *Traffic) descriptor() []byte {
	at, l := t.link()
	all := [][]byte{
		Priority(1), MAC(t.address()), MAC(t.address()), MAC(t.address()), FCMap(0x0efc00),
		Name(pick(t.r, []uint64{0, NameOf(pick(t.r, fcfs)), NameOf(l.fcf)})),
		Fabric(pick(t.r, []uint16{0, 1}), pick(t.r, []uint32{0x0efc00, 0x0efc01, 0x0efd00, 0}), 8), MaxSize(1500),
		VxPort(t.address(), pick(t.r, ids), l.wwpn), VxPort(at.mac, l.id, 1), VxPort(at.mac, pick(t.r, ids), l.wwpn),
		Period(pick(t.r, []uint32{0, 1, 499, 500, 1000, 8000, 0xffff_ffff}), t.chance(50)), VLAN(4095),
		descriptor(13, make([]byte, 10)...), descriptor(16, 0, 0), descriptor(0, 0, 0), descriptor(127, 0, 0),
		descriptor(128, 0, 0), descriptor(200, make([]byte, 10)...), descriptor(elp, make([]byte, 130)...),
		descriptor(15, make([]byte, 162)...), descriptor(2, make([]byte, 10)...),
	}
	return pick(t.r, all)
}

func (t *Traffic) spoilELS(e *ELS) string {
	_, l := t.link()
	x, _ := t.login()
	switch t.r.IntN(9) {
	case 0:
		e.RCTL = pick(t.r, []byte{0x22, 0x23, 0})
		return "with another R_CTL"
	case 1:
		e.Type = byte(t.r.IntN(3))
		return "with another type"
	case 2:
		e.Command = pick(t.r, []byte{cmdFLOGI, cmdFDISC, cmdLOGO, cmdAccept, cmdReject, 0x03})
		return "with another command"
	case 3:
		e.SID = pick(t.r, []uint32{0, l.id, pick(t.r, ids), FabricPort})
		return "with another S_ID"
	case 4:
		e.DID = pick(t.r, []uint32{0, l.id, pick(t.r, ids), FabricPort, 0x00ffff, 0x010000, 0xefffff, 0xf00000})
		return "with another D_ID"
	case 5:
		e.OXID = pick(t.r, []uint16{x.oxid, uint16(t.r.IntN(4))})
		return "with another OX_ID"
	case 6:
		e.Kind = pick(t.r, []int{FLOGI, FDISC, LOGO, elp})
		return "as another link service"
	case 7:
		e.Payload = pick(t.r, []int{4, 8, 16, 116, 112, 0})
		e.Payload = max(e.Payload, 4)
		return "with another length"
	}
	e.ID = pick(t.r, ids)
	return "with another N_Port_ID"
}

// damage changes bytes, or cuts the frame off.
func (t *Traffic) damage(b []byte) []byte {
	b = slices.Clone(b)
	switch t.r.IntN(3) {
	case 0:
		return b[:14+t.r.IntN(len(b)-13)]
	case 1:
		b[14+t.r.IntN(len(b)-14)] ^= 1 << t.r.IntN(8)
	default:
		b[14+t.r.IntN(len(b)-14)] = pick(t.r, []byte{0, 1, 0xff})
	}
	return b
}
