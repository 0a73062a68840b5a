package dataplane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
	"sluice/internal/dataplane/tap"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/pfc"
)

const (
	fcoeVLAN           = 2094
	enode    frame.MAC = 0x0200_0000_0e00 // of port 0
	fcfMAC   frame.MAC = 0x0200_0000_0f00 // of port 1
	vnMAC    frame.MAC = 0x0efc_0001_0001 // of port 0
	accessVN frame.MAC = 0x0efc_0001_0002 // of port 2
	pfcPCP             = lossless << 13
)

// fcoeLinks are the links of port 0, a trunk, and port 2, an access port, with the FCF at port 1.
func fcoeLinks() []bridge.VirtualLink {
	return []bridge.VirtualLink{
		{VID: fcoeVLAN, VN: vnMAC, ENode: enode, FCF: fcfMAC, ENodePort: 0, FCFPort: 1},
		{VID: fcoeVLAN, VN: accessVN, ENode: enode + 2, FCF: fcfMAC, ENodePort: 2, FCFPort: 1},
	}
}

func vlanSet(vids ...uint16) *bridge.VLANSet {
	var s bridge.VLANSet
	for _, vid := range vids {
		s.Add(vid)
	}
	return &s
}

// fcoeRig returns a switch with FCoE VLAN 2094. Ports 0, 1 and 3 are trunks with the native VLAN 1
// and VLANs 10 and 2094, port 2 is an access port of VLAN 2094.
func fcoeRig(t *testing.T, workers int, change func(*Params)) *rig {
	return newRig(t, 4, workers, func(p *Params) {
		fcoePorts(p)
		p.Bridge.FCoE = vlanSet(fcoeVLAN)
		if change != nil {
			change(p)
		}
	})
}

func fcoePorts(p *Params) {
	for i := range p.Bridge.Ports {
		p.Bridge.Ports[i] = bridge.PortParams{VLANs: vlanSet(1, 10, fcoeVLAN), Tagged: vlanSet(10, fcoeVLAN)}
		if i == 2 {
			p.Bridge.Ports[i] = bridge.PortParams{VLANs: vlanSet(fcoeVLAN), PVID: fcoeVLAN, Untagged: true,
				Tagged: vlanSet()}
		}
		c := bridge.PlainClassifier()
		c.STags = true
		p.Bridge.Ports[i].Classifier = c
	}
}

func (r *rig) setLinks(links ...bridge.VirtualLink) {
	r.t.Helper()
	if err := r.s.SetVirtualLinks(links); err != nil {
		r.t.Fatal(err)
	}
}

// storage returns a frame of 100 bytes with a number at its end, and with a tag if tci is not
// negative.
func storage(src, dst frame.MAC, tci int, etherType uint16, number int) []byte {
	b := make([]byte, 100)
	frame.PutHeader(b, dst, src, uint16(max(0, tci)&4095), uint8(max(0, tci)>>13), tci >= 0, etherType)
	binary.BigEndian.PutUint32(b[96:], uint32(number))
	return b
}

// behind returns a frame with another tag, of type tpid, behind its addresses.
func behind(tpid, tci uint16, b []byte) []byte {
	tag := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, tpid), tci)
	return append(append(bytes.Clone(b[:12]), tag...), b[12:]...)
}

// TestFCoEPassesByVirtualLinks sends the first frames right after the links are set, both ways,
// between ports of one worker and of two. They leave with the tag that the port asks for.
func TestFCoEPassesByVirtualLinks(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		r := fcoeRig(t, workers, nil)
		r.send(0, storage(vnMAC, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 1))
		r.run(5000)
		r.setLinks(fcoeLinks()...)
		r.send(0, storage(vnMAC, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 2))
		r.send(1, storage(fcfMAC, vnMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 3))
		r.run(5000)
		r.send(2, storage(accessVN, fcfMAC, -1, frame.TypeFCoE, 4))
		r.send(2, storage(accessVN, fcfMAC, pfcPCP, frame.TypeFCoE, 5))
		r.send(1, storage(fcfMAC, accessVN, pfcPCP|fcoeVLAN, frame.TypeFCoE, 6))
		r.run(5000)
		for port, want := range [][][]byte{
			{storage(fcfMAC, vnMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 3)},
			{
				storage(vnMAC, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 2),
				behind(frame.TypeVLAN, fcoeVLAN, storage(accessVN, fcfMAC, -1, frame.TypeFCoE, 4)),
				storage(accessVN, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 5),
			},
			{storage(fcfMAC, accessVN, -1, frame.TypeFCoE, 6)},
			nil,
		} {
			got, _ := r.received(port)
			for i := range got {
				if i < len(want) && port == 2 { // the tag is gone, and with it 4 bytes
					got[i], want[i] = got[i][:14], want[i][:14]
				}
			}
			if fmt.Sprintf("%x", got) != fmt.Sprintf("%x", want) {
				t.Errorf("%d workers, port %d: %x, want %x", workers, port, got, want)
			}
		}
		if p := r.port(0); p.Drops[drop.FCoESession][lossless] != 1 || p.Dropped() != 1 {
			t.Errorf("%d workers: %d frames without a link dropped, %d in all", workers,
				p.Drops[drop.FCoESession][lossless], p.Dropped())
		}
		for _, w := range r.s.Workers {
			if n := w.bridge.Len(); n != 0 {
				t.Errorf("%d workers: %d addresses learned on an FCoE VLAN", workers, n)
			}
		}
		r.idle()
	}
}

// gated is a frame for a port, and what becomes of it.
type gated struct {
	port int
	b    []byte
	why  drop.Reason // Reasons: punted
	vlan uint16      // then
}

// TestWhatAnFCoESwitchDrops: each frame is counted once, nothing leaves, and no drop is a lossless
// one. Punted frames reach the control plane in the VLAN that they are in.
func TestWhatAnFCoESwitchDrops(t *testing.T) {
	fc := func(tci int) []byte { return storage(vnMAC, fcfMAC, tci, frame.TypeFCoE, 0) }
	fip := func(tci int) []byte { return storage(enode, fcfMAC, tci, frame.TypeFIP, 0) }
	reserved := fip(-1)
	frame.MAC(0x0180_c200_0003).Put(reserved)
	tags := fc(-1)
	for range 9 {
		tags = behind(frame.TypeVLAN, 10, tags)
	}
	for name, c := range map[string]gated{
		"FCoE untagged":              {0, fc(-1), drop.FCoEVLAN, 0},
		"FCoE with a priority":       {0, fc(pfcPCP), drop.FCoEVLAN, 0},
		"FCoE in another VLAN":       {0, fc(pfcPCP | 10), drop.FCoEVLAN, 0},
		"FCoE in a VLAN not here":    {0, fc(pfcPCP | 11), drop.VLANIngress, 0},
		"FCoE, tag at access port":   {2, fc(pfcPCP | fcoeVLAN), drop.VLANIngress, 0},
		"FCoE from another port":     {3, fc(pfcPCP | fcoeVLAN), drop.FCoESession, 0},
		"FCoE behind a second tag":   {0, behind(frame.TypeVLAN, 10, fc(fcoeVLAN)), drop.SecondTag, 0},
		"FIP behind a second tag":    {0, behind(frame.TypeVLAN, 10, fip(fcoeVLAN)), drop.SecondTag, 0},
		"FIP behind an S-tag":        {0, behind(0x8100, 10, behind(frame.TypeSTag, 1, fip(-1))), drop.SecondTag, 0},
		"FCoE behind an S-tag first": {0, behind(frame.TypeSTag, 10, fc(fcoeVLAN)), drop.SecondTag, 0},
		"FCoE behind 9100":           {0, behind(frame.TypeQinQ, 10, fc(fcoeVLAN)), drop.SecondTag, 0},
		"priority tag and a second":  {0, behind(0x8100, pfcPCP, storage(1, 2, 10, 0x0800, 0)), drop.SecondTag, 0},
		"FCoE behind nine tags":      {0, tags, drop.SecondTag, 0},
		"second tag, FCoE VLAN":      {0, behind(frame.TypeVLAN, fcoeVLAN, fc(fcoeVLAN)), drop.SecondTag, 0},
		"IP on the FCoE VLAN":        {0, storage(vnMAC, fcfMAC, fcoeVLAN, frame.TypeIPv4, 0), drop.FCoEVLAN, 0},
		"broadcast on the FCoE VLAN": {2, storage(vnMAC, frame.Broadcast, -1, 0x0806, 0), drop.FCoEVLAN, 0},
		"S-tag on the FCoE VLAN":     {2, behind(frame.TypeSTag, 10, storage(1, 2, -1, 0x0800, 0)), drop.FCoEVLAN, 0},
		"FIP on the FCoE VLAN":       {0, fip(pfcPCP | fcoeVLAN), drop.Reason(drop.Reasons), fcoeVLAN},
		"FIP at an access port":      {2, fip(-1), drop.Reason(drop.Reasons), fcoeVLAN},
		"FIP untagged":               {0, fip(-1), drop.Reason(drop.Reasons), 1},
		"FIP with a priority":        {0, fip(pfcPCP), drop.Reason(drop.Reasons), 1},
		"FIP in another VLAN":        {0, fip(pfcPCP | 10), drop.Reason(drop.Reasons), 10},
		"FIP in a VLAN not here":     {0, fip(pfcPCP | 11), drop.VLANIngress, 0},
		"FIP, tag at access port":    {2, fip(pfcPCP | fcoeVLAN), drop.VLANIngress, 0},
		"FIP to a reserved address":  {0, reserved, drop.ReservedAddress, 0},
		"FIP too long for the port":  {0, append(fip(fcoeVLAN), make([]byte, 901)...), drop.Oversize, 0},
	} {
		for _, trust := range []bridge.Trust{bridge.TrustPCP, bridge.TrustDSCP} {
			t.Run(fmt.Sprint(name, trust), func(t *testing.T) { c.check(t, trust) })
		}
	}
}

func (c gated) check(t *testing.T, trust bridge.Trust) {
	r := fcoeRig(t, 2, func(p *Params) {
		for i := range p.Bridge.Ports {
			p.Ports[i].MaxFrame = 1000
			p.Bridge.Ports[i].Classifier.Trust = trust
		}
	})
	r.setLinks(fcoeLinks()...)
	r.send(c.port, c.b)
	r.run(5000)
	p := r.port(c.port)
	punted := uint64(0)
	if int(c.why) == drop.Reasons {
		punted = 1
	} else if sum := p.Drops[c.why]; sum[0]+sum[lossless] != 1 {
		t.Errorf("%v dropped as %v", sum, c.why)
	}
	if p.Dropped() != 1-punted || p.Punted[punt.FIP] != punted || p.RXFrames != 1 || p.LosslessDrops() != 0 {
		t.Errorf("%d dropped, %d punted of %d; %d lossless drops", p.Dropped(), p.Punted[punt.FIP],
			p.RXFrames, p.LosslessDrops())
	}
	n := r.s.Punted(punt.FIP, func(f punt.Frame) {
		if !bytes.Equal(f.Bytes, c.b) || f.VLAN != c.vlan || int(f.Port) != c.port || f.Kind != punt.FIP {
			t.Errorf("%+v", f)
		}
	})
	if uint64(n) != punted || r.s.Punted(punt.LLDP, func(punt.Frame) {}) != 0 {
		t.Errorf("%d frames for the control plane", n)
	}
	for port := range r.inboxes {
		if len(r.inboxes[port]) != 0 {
			t.Errorf("port %d sent %x", port, r.inboxes[port])
		}
	}
	r.idle()
}

// TestOrdinaryFramesOnAnFCoESwitch: types near those of FCoE, and frames with two tags, pass on
// ordinary VLANs. Without FCoE VLANs all frames do.
func TestOrdinaryFramesOnAnFCoESwitch(t *testing.T) {
	for _, on := range []bool{true, false} {
		r := fcoeRig(t, 1, func(p *Params) {
			if !on {
				p.Bridge.FCoE = nil
			}
		})
		all := [][]byte{
			storage(1, 2, 10, frame.TypeIPv4, 1), storage(1, 2, 10, frame.TypeIPv6, 2), storage(1, 2, 10, 0x8915, 3),
			storage(1, 2, 10, 0x8847, 4), storage(1, 2, 10, frame.TypeLLDP, 5), storage(1, 2, 10, 0x8907, 6),
			behind(frame.TypeVLAN, 10, storage(1, 2, 20, frame.TypeIPv4, 7)),
			behind(0x8100, 10, behind(frame.TypeQinQ, 1, behind(frame.TypeSTag, 1, storage(1, 2, -1, 0x0800, 8)))),
			behind(frame.TypeVLAN, 10, storage(1, 2, -1, frame.TypeSTag, 9)[:16]), // cut off in the second tag
		}
		if !on {
			all = append(all, storage(vnMAC, fcfMAC, 10, frame.TypeFCoE, 10), storage(1, 2, 10, frame.TypeFIP, 11),
				behind(frame.TypeVLAN, 10, storage(vnMAC, fcfMAC, fcoeVLAN, frame.TypeFCoE, 12)),
				storage(vnMAC, fcfMAC, fcoeVLAN, frame.TypeFCoE, 13))
		}
		for _, b := range all {
			r.send(0, b)
		}
		r.run(20_000)
		if got, _ := r.received(1); fmt.Sprintf("%x", got) != fmt.Sprintf("%x", all) {
			t.Errorf("FCoE VLANs %v: %d frames of %d:\n%x\nwant\n%x", on, len(got), len(all), got, all)
		}
		r.idle()
	}
}

// TestFCoETrains: the frames of trains pass in order, or are dropped one by one; FIP is punted one
// by one.
func TestFCoETrains(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		for _, changed := range []bool{false, true} { // on their way out: a PCP by class
			r := fcoeRig(t, workers, func(p *Params) {
				if !changed {
					for i := range p.Bridge.Ports {
						p.Bridge.Ports[i].Tagged = nil
					}
				}
			})
			r.setLinks(fcoeLinks()...)
			const burst, tci = 40, 2<<13 | fcoeVLAN // of a lossy class
			for n := range burst {
				r.send(0, storage(vnMAC, fcfMAC, tci, frame.TypeFCoE, n))
				r.send(1, storage(fcfMAC, vnMAC+7, tci, frame.TypeFCoE, n)) // no such VN_Port
				r.send(3, storage(enode, fcfMAC, tci, frame.TypeFIP, n))
			}
			r.now += burst * 200 // all have arrived when the next iteration begins
			r.run(20_000)
			got, _ := r.received(1)
			for n, b := range got {
				if binary.BigEndian.Uint32(b[96:]) != uint32(n) {
					t.Errorf("frame %d: %x", n, b)
				}
			}
			next := 0
			r.s.Punted(punt.FIP, func(f punt.Frame) {
				if binary.BigEndian.Uint32(f.Bytes[96:]) != uint32(next) {
					t.Errorf("punted frame %d: %x", next, f.Bytes)
				}
				next++
			})
			if n := r.port(1).Drops[drop.FCoESession][2]; len(got) != burst || n != burst || next != burst {
				t.Errorf("%d workers: %d passed, %d dropped, %d punted of %d each", workers, len(got), n, next, burst)
			}
			if countFollowers(r) == 0 {
				t.Error("no trains: the test is void")
			}
			r.idle()
		}
	}
}

// fip returns a FIP frame of an operation with a number.
func fip(src, dst frame.MAC, op fcoe.Operation, number int) []byte {
	b := storage(src, dst, pfcPCP|fcoeVLAN, frame.TypeFIP, number)
	p := fcoe.Packet{Op: op, MAC: src}
	copy(b[18:96], p.Append(nil))
	return b
}

// TestFloodOfFIP: whatever comes in, the known hosts of a port get their frames through, but no
// more solicitations than others, and LLDP has a channel of its own.
func TestFloodOfFIP(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		r := fcoeRig(t, 1, func(p *Params) {
			subscribed(100, 20)(p)
			p.Ports[0].FIPTrusted = trusted
		})
		r.setLinks(fcoeLinks()...)
		limits := punt.SubscribeFIP(trusted).Limits
		const every, frames = 10_000, 30_000 // for 300 ms, of each kind
		var got [punt.Classes]int
		late := 0
		count := func(f punt.Frame) {
			var h frame.Header
			switch problem := frame.Parse(f.Bytes, &h); {
			case problem != frame.OK:
				t.Error(problem)
			case fcoe.Discovers(f.Bytes[18:], h.Dst):
				got[punt.Discovery]++
			case h.Src == enode || h.Src == vnMAC:
				got[punt.Known]++
			default:
				got[punt.Other]++
			}
		}
		for n := range frames {
			r.send(0, fip(enode+frame.MAC(1+n), fcfMAC, fcoe.LoginRequest, n))
			switch n % 3 {
			case 0:
				r.send(0, fip(enode, fcoe.AllFCF, fcoe.Solicitation, n))
			case 1:
				r.send(0, fip(enode+frame.MAC(1+n), fcoe.AllFCF, fcoe.VLANRequest, n))
			default:
				r.send(0, fip(fcfMAC, fcoe.AllENode, fcoe.Advertisement, n))
			}
			if n%1000 == 0 {
				r.send(0, fip(enode, fcfMAC, fcoe.KeepAlive, n))
				r.send(0, fip(vnMAC, fcfMAC, fcoe.KeepAlive, n))
				r.send(0, lldp(7<<13, 60, n))
			}
			r.stride(every)
			if n%100 == 0 {
				r.s.Punted(punt.FIP, count)
				late += r.s.Punted(punt.LLDP, func(punt.Frame) {})
			}
		}
		r.run(10_000)
		r.s.Punted(punt.FIP, count)
		c := r.port(0).PortCounters
		want := [punt.Classes]int{punt.Known: 2 * frames / 1000}
		for _, class := range []punt.Class{punt.Other, punt.Discovery} {
			want[class] = limits[class].Burst + (frames-1)*every*limits[class].Rate/1_000_000_000
		}
		lost := uint64(2*frames + want[punt.Known])
		for _, n := range want {
			lost -= uint64(n)
		}
		if got != want || late != frames/1000 || c.Dropped() != lost || c.Drops[drop.PuntRate][lossless] != lost {
			t.Errorf("trusted %v: %v frames of each class, want %v; %d LLDP; %d dropped, want %d: %v", trusted, got,
				want, late, c.Dropped(), lost, c.Drops)
		}
		r.idle()
	}
}

// TestStrangersLeaveRoom: while the control plane reads nothing, strangers fill half of the
// channel. Known hosts, and a trusted port, fill the rest.
func TestStrangersLeaveRoom(t *testing.T) {
	r := fcoeRig(t, 1, func(p *Params) { p.Ports[1].FIPTrusted = true })
	r.setLinks(fcoeLinks()...)
	want := map[string]int{}
	send := func(who string, port int, src frame.MAC, frames, pass int) {
		for n := range frames {
			r.send(port, fip(src, fcfMAC, fcoe.LoginRequest, n))
			r.stride(10_000)
		}
		want[who] = pass
	}
	send("stranger", 0, enode+1, fipSlots, fipSlots/2)
	send("known", 0, enode, fipSlots/4, fipSlots/4)
	send("trusted", 1, enode+2, fipSlots, fipSlots/4)
	r.run(10_000)
	got := map[string]int{}
	r.s.Punted(punt.FIP, func(f punt.Frame) {
		got[map[byte]string{0: "known", 1: "stranger", 2: "trusted"}[f.Bytes[11]-byte(enode&0xff)]]++
	})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	r.idle()
}

// TestForwardedFIP: a frame that the control plane forwards leaves in the form of the port, or is
// refused with an error that says whether trying again helps.
func TestForwardedFIP(t *testing.T) {
	remark := [8]uint8{0, 1, 2, 4, 4, 5, 6, 7}
	for workers := 1; workers <= 2; workers++ {
		r := fcoeRig(t, workers, func(p *Params) {
			p.Bridge.Ports[1].Remark.PCP = &remark
			p.Bridge.Ports[3].Tagged = nil
			p.Ports[3].MaxFrame = 1000
		})
		tagged, plain := storage(enode, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFIP, 1),
			storage(enode+2, fcfMAC, -1, frame.TypeFIP, 2)
		r.send(0, tagged)
		r.send(2, plain)
		r.run(5000)
		n := r.s.Punted(punt.FIP, func(f punt.Frame) {
			for _, port := range []bridge.PortID{0, 1, 2, 3} {
				if err := r.s.Forward(port, &f); err != nil {
					t.Error(err)
				}
			}
			long := f
			long.Bytes = append(bytes.Clone(f.Bytes), make([]byte, 997-len(f.Bytes))...)
			if err := r.s.Forward(3, &long); err != nil {
				t.Error(err)
			}
			long.Bytes = append(long.Bytes, 0, 0, 0, 0)
			elsewhere := f
			elsewhere.VLAN = 11
			for _, err := range []error{r.s.Forward(3, &long), r.s.Forward(4, &f), r.s.Forward(-1, &f),
				r.s.Forward(0, &elsewhere)} {
				if err == nil || err == punt.ErrFull {
					t.Errorf("a frame that can't leave: %v", err)
				}
			}
		})
		if n != 2 {
			t.Fatalf("%d frames for the control plane", n)
		}
		r.run(20_000)
		for port, want := range [][][]byte{
			{tagged, behind(frame.TypeVLAN, fcoeVLAN, plain)},
			{storage(enode, fcfMAC, 4<<13|fcoeVLAN, frame.TypeFIP, 1), behind(frame.TypeVLAN, fcoeVLAN, plain)},
			{storage(enode, fcfMAC, -1, frame.TypeFIP, 0)[:96], plain},
		} {
			got, _ := r.received(port)
			if port == 2 && len(got) == 2 {
				copy(want[0][92:], tagged[96:]) // the tag is gone, and what followed it moved up
			}
			if fmt.Sprintf("%x", sortedFrames(got)) != fmt.Sprintf("%x", sortedFrames(want)) {
				t.Errorf("%d workers, port %d:\n%x, want\n%x", workers, port, got, want)
			}
		}
		if got, _ := r.received(3); len(got) != 4 {
			t.Errorf("port 3 sent %d frames of 4", len(got))
		}
		f := punt.Frame{VLAN: fcoeVLAN, Class: lossless, Bytes: tagged}
		full := 0
		for range injectSlots + 4 {
			if r.s.Forward(0, &f) == punt.ErrFull {
				full++
			}
		}
		if full != 4 {
			t.Errorf("%d frames found no room, want 4", full)
		}
		r.run(20_000)
		r.idle()
	}
}

func sortedFrames(all [][]byte) [][]byte {
	if len(all) == 2 && bytes.Compare(all[0], all[1]) > 0 {
		return [][]byte{all[1], all[0]}
	}
	return all
}

// TestLinksBelongToPorts: a port that leaves takes its links with it, another port with its number
// has none of them, and the port has them again when it is back under another number.
func TestLinksBelongToPorts(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		r := fcoeRig(t, workers, nil)
		r.setLinks(fcoeLinks()...)
		try := func(in int, want int) {
			t.Helper()
			got, _ := r.received(1)
			r.send(in, storage(vnMAC, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 1))
			r.run(5000)
			if now, _ := r.received(1); len(now)-len(got) != want {
				t.Errorf("%d workers: %d frames from port %d passed, want %d", workers, len(now)-len(got), in, want)
			}
		}
		try(0, 1)
		r.retire(0)
		try(3, 0)
		r.regenerate(func(p *Params) { // another port gets the number
			p.Ports[0] = testPort(0, 0)
			p.Ports[0].Name = "new"
			p.Bridge.Ports[0] = p.Bridge.Ports[1]
		})
		r.reopen(0)
		try(0, 0)
		r.setLinks(fcoeLinks()...) // still of the port that left
		try(0, 0)
		r.retire(0)
		r.regenerate(func(p *Params) {
			p.Ports[0] = testPort(0, 0)
			p.Bridge.Ports[0] = p.Bridge.Ports[1]
		})
		r.reopen(0)
		try(0, 1)
		r.send(1, storage(fcfMAC, vnMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 1))
		r.run(5000)
		if got, _ := r.received(0); len(got) != 1 {
			t.Errorf("%d workers: %d frames to port 0", workers, len(got))
		}
		if err := r.s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// retire removes a port, which leaves its number.
func (r *rig) retire(number int) {
	r.t.Helper()
	r.relink(number, Link{}, 1000)
	r.relink(number, Link{Closed: true}, 1000)
	r.regenerate(func(p *Params) {
		p.Ports[number] = PortParams{Vacant: true, Worker: p.Ports[number].Worker}
		p.Bridge.Ports[number] = bridge.PortParams{VLANs: vlanSet()}
	})
	r.run(1000)
}

// reopen gives the port with a number a driver.
func (r *rig) reopen(number int) {
	r.t.Helper()
	r.run(1000)
	r.wires[number] = r.newWire(number)
	r.sent[number] = 0
	r.wires[number].A.Fill(r.s.Parked(number))
	r.relink(number, Link{Driver: r.wires[number].A, Up: true, TXRing: ringSize}, 1000)
}

// TestReloadOfFCoEVLANs: under traffic, a VLAN becomes an FCoE VLAN and an ordinary one again. From
// one generation to the next, no frame is flooded or passes without a link, and none is lost.
func TestReloadOfFCoEVLANs(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		r := fcoeRig(t, workers, func(p *Params) { p.Bridge.FCoE = nil })
		r.setLinks(fcoeLinks()...)
		both := func() {
			r.send(0, storage(vnMAC, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 0))
			r.send(0, storage(vnMAC+1, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 1)) // no link
			r.send(0, storage(1, 2, 10, frame.TypeIPv4, 2))
			r.run(5000)
		}
		count := func(port int) (n [3]int) {
			got, _ := r.received(port)
			for _, b := range got {
				n[binary.BigEndian.Uint32(b[len(b)-4:])]++
			}
			r.inboxes[port] = nil
			return n
		}
		both()
		if count(1) != [3]int{1, 1, 1} || count(3) != [3]int{1, 1, 1} {
			t.Error("ordinary VLANs: not flooded")
		}
		r.regenerate(func(p *Params) { p.Bridge.FCoE = vlanSet(fcoeVLAN) })
		r.run(1000)
		both()
		if a, b := count(1), count(3); a != [3]int{1, 0, 1} || b != [3]int{0, 0, 1} {
			t.Errorf("an FCoE VLAN: %v at the FCF, %v elsewhere", a, b)
		}
		r.regenerate(func(p *Params) { p.Bridge.FCoE = nil })
		r.run(1000)
		both()
		if a, b := count(1), count(3); a != [3]int{1, 1, 1} || b != [3]int{1, 1, 1} {
			t.Errorf("ordinary again: %v, %v", a, b)
		}
		r.idle()
	}
}

// TestFCoEToPortsThatCannotTakeIt: what is dropped at its egress port has that port's reasons.
func TestFCoEToPortsThatCannotTakeIt(t *testing.T) {
	r := fcoeRig(t, 2, func(p *Params) { p.Ports[1].MaxFrame = 99 })
	r.setLinks(fcoeLinks()...)
	r.send(0, storage(vnMAC, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 0))
	r.run(5000)
	if n := r.port(0).Drops[drop.Oversize][lossless]; n != 1 {
		t.Errorf("%d frames too long", n)
	}
	r.down(0)
	r.run(1000)
	r.send(1, storage(fcfMAC, vnMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 0)[:90])
	r.run(5000)
	if p := r.port(0); p.Drops[drop.PortDown][lossless] != 1 || p.LosslessDrops() != 0 {
		t.Errorf("%d frames for a port without a link", p.Drops[drop.PortDown][lossless])
	}
	r.idle()
}

// TestCaptureOnAnFCoESwitch: each frame that comes in has one record, with what the counters say.
func TestCaptureOnAnFCoESwitch(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		r := fcoeRig(t, workers, nil)
		r.setLinks(fcoeLinks()...)
		taps := r.tap(r.everything())
		for range 50 {
			for port := range 4 {
				for range random.IntN(10) {
					r.send(port, randomStorage(random))
				}
			}
			r.run(10_000)
		}
		r.run(30_000)
		r.untap()
		records := map[string]uint64{}
		for _, c := range drain(taps) {
			if c.Direction == tap.RX {
				records[fmt.Sprint(c.Port, c.Verdict)]++
				if c.Verdict == tap.Dropped {
					records[fmt.Sprint(c.Port, c.Why)]++
				}
			}
		}
		for port := range 4 {
			p := r.port(port)
			if n := records[fmt.Sprint(port, tap.Punted)]; n != p.Punted[punt.FIP] || n == 0 {
				t.Errorf("port %d: %d records of %d punted frames", port, n, p.Punted[punt.FIP])
			}
			for why := range p.Drops {
				n := uint64(0)
				for _, of := range p.Drops[why] {
					n += of
				}
				if got := records[fmt.Sprint(port, drop.Reason(why))]; got != n && !drop.Reason(why).AtEgress() {
					t.Errorf("port %d: %d records of %d frames dropped as %v", port, got, n, drop.Reason(why))
				}
			}
			flooded := records[fmt.Sprint(port, tap.Flooded)] // each copy that is refused has another record
			all := records[fmt.Sprint(port, tap.Punted)] + records[fmt.Sprint(port, tap.Dropped)] +
				records[fmt.Sprint(port, tap.Forwarded)] + flooded
			if all < p.RXFrames || all > p.RXFrames+flooded+p.FloodCopies {
				t.Errorf("port %d: %d records of %d frames", port, all, p.RXFrames)
			}
		}
		r.idle()
	}
}

// randomStorage returns a frame that may be of storage, on the right VLAN or not, with further tags
// or not.
func randomStorage(random *rand.Rand) []byte {
	macs := []frame.MAC{enode, fcfMAC, vnMAC, accessVN, frame.Broadcast}
	tcis := []int{-1, pfcPCP, pfcPCP | fcoeVLAN, 10, 11}
	types := []uint16{frame.TypeFCoE, frame.TypeFIP, frame.TypeIPv4}
	b := storage(macs[random.IntN(5)], macs[random.IntN(5)], tcis[random.IntN(5)], types[random.IntN(3)], 0)
	if tpids := []uint16{0x8100, 0x88a8, 0x9100}; random.IntN(6) == 0 {
		b = behind(tpids[random.IntN(3)], 10, b)
	}
	return b
}

// TestLinksChangeUnderTraffic sets links in a goroutine while the workers run: each frame passes or
// is dropped for lack of a session, and the race detector finds nothing.
func TestLinksChangeUnderTraffic(t *testing.T) {
	r := fcoeRig(t, 2, nil)
	var stop sync.WaitGroup
	done := make(chan struct{})
	stop.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			if err := r.s.SetVirtualLinks(fcoeLinks()[:n%3]); err != nil {
				t.Error(err)
			}
		}
	})
	frames, passed := 0, 0
	// on a busy machine, the links may change late
	for frames < 5000 || frames < 500_000 && (passed == 0 || passed == frames) {
		r.send(0, storage(vnMAC, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, frames))
		r.run(300)
		frames++
		if got, _ := r.received(1); len(got) > 0 {
			passed += len(got)
			r.inboxes[1] = nil
		}
	}
	r.run(5000)
	close(done)
	stop.Wait()
	got, _ := r.received(1)
	passed += len(got)
	c := r.port(0)
	dropped := int(c.Drops[drop.FCoESession][lossless])
	if passed+dropped != frames || int(c.Dropped()) != dropped || passed == 0 || dropped == 0 {
		t.Errorf("%d passed and %d dropped of %d", passed, dropped, frames)
	}
	r.idle()
}

// TestWireTakesNoFCoEVLANs: a wire forwards FCoE like everything else.
func TestWireTakesNoFCoEVLANs(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) {
		p.Bridge.Mode = bridge.Wire
		p.Bridge.Ports[0].Peer, p.Bridge.Ports[1].Peer = 1, 0
	})
	r.send(0, storage(vnMAC, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFCoE, 1))
	r.send(0, storage(vnMAC, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFIP, 2))
	r.run(5000)
	if got, _ := r.received(1); len(got) != 2 {
		t.Errorf("%d frames of 2", len(got))
	}
	p := r.params
	p.Bridge.FCoE = vlanSet(fcoeVLAN)
	if _, err := r.s.Prepare(p); err == nil {
		t.Error("a wire with FCoE VLANs")
	}
}

// TestPFCHoldsForwardedFIP: while its peer pauses a priority, a port sends no forwarded frame with
// that priority in its tag. Then they leave in order. Frames without a tag, and those of Inject, do
// not wait, not even for those that do.
func TestPFCHoldsForwardedFIP(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		r := fcoeRig(t, workers, nil)
		fip := func(n int) *punt.Frame {
			return &punt.Frame{VLAN: fcoeVLAN, Class: lossless,
				Bytes: storage(enode, fcfMAC, pfcPCP|fcoeVLAN, frame.TypeFIP, n)}
		}
		xoff := pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 1000}} // 51.2 µs
		r.control(1, xoff)
		r.control(2, xoff) // whose frames leave without a tag
		r.run(1000)
		for n := range 3 {
			if err := r.s.Forward(1, fip(n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.s.Forward(2, fip(3)); err != nil {
			t.Fatal(err)
		}
		r.mustInject(1, 60, 9)
		r.run(40_000)
		if got, _ := r.received(1); len(got) != 1 || len(r.inboxes[2]) != 1 {
			t.Errorf("%d workers: %d frames left during the pause, and %d without a tag", workers, len(got),
				len(r.inboxes[2]))
		}
		for range injectSlots - 3 {
			if err := r.s.Forward(1, fip(4)); err != nil {
				t.Error(err)
			}
		}
		if err := r.s.Forward(1, fip(4)); err != punt.ErrFull {
			t.Errorf("%d workers: a frame behind %d that wait: %v", workers, injectSlots, err)
		}
		r.run(100_000) // the pause has ended
		got, _ := r.received(1)
		if len(got) != injectSlots+1 {
			t.Fatalf("%d workers: %d frames left in all", workers, len(got))
		}
		for n, b := range got[1:4] {
			if !bytes.Equal(b, fip(n).Bytes) {
				t.Errorf("%d workers: frame %d: %x", workers, n, b)
			}
		}
		r.control(1, xoff)
		r.run(1000)
		other := fip(5)
		other.Bytes[14] = 4 << 5 // a priority that is not paused
		if err := r.s.Forward(1, other); err != nil {
			t.Fatal(err)
		}
		r.run(5000)
		if got, _ := r.received(1); len(got) != injectSlots+2 {
			t.Errorf("%d workers: a frame of another priority waits", workers)
		}
		if err := r.s.Forward(1, fip(6)); err != nil {
			t.Fatal(err)
		}
		r.run(1000)
		r.down(1) // a frame that waits is dropped
		r.run(1000)
		if c := r.port(1); c.InjectDropped != 1 || c.Injected != injectSlots+2 {
			t.Errorf("%d workers: %d dropped, %d sent", workers, c.InjectDropped, c.Injected)
		}
		r.idle()
	}
}
