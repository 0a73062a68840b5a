package config

import (
	"fmt"
	"slices"

	"sluice/internal/text/prose"
)

// The rules for forwarding: VLANs, wires, static FDB entries.

// checkVLANs applies the rules for the VLANs and FDB limit of a port.
func checkVLANs(d *decoder, c *Config, p *Port) {
	f := &c.Forwarding
	if d.sound(&f.Table, &p.MACLimit) && p.MACLimit > f.Table {
		d.fail(&p.MACLimit, fmt.Sprintf("mac_limit %d is above forwarding.table, which is %d", p.MACLimit, f.Table),
			"lower it, or raise forwarding.table")
	}
	if d.sound(&p.Link, &p.STag) && p.Link == Access && p.STag != STagDrop {
		d.fail(&p.STag, fmt.Sprintf("access port %s accepts no tagged frames, so none with an S-tag", p.Device),
			`remove s_tag, or set "link: transparent" or "link: trunk"`)
	}
	if !d.sound(&f.Mode, &p.Link, &p.PVID, &p.VLANs) {
		return
	}
	if f.Mode == WirePairs && p.Link != Transparent {
		d.fail(&p.Link, fmt.Sprintf("a wire does not change tags, so port %s can't have link %s", p.Device, p.Link),
			`set "mode: bridge" under forwarding, or remove link`)
		return
	}
	own := VLANRange{p.PVID, p.PVID}
	switch {
	case p.Link == Access && !d.given(&p.VLANs):
		p.VLANs = []VLANRange{own}
	case p.Link == Access && slices.ContainsFunc(p.VLANs, func(r VLANRange) bool { return r != own }):
		d.fail(&p.VLANs, fmt.Sprintf("access port %s has other vlans than its pvid, %d", p.Device, p.PVID),
			`remove vlans and set pvid, or set "link: trunk"`)
	case !p.Member(p.PVID):
		d.fail(&p.PVID, fmt.Sprintf("pvid %d is not among the port's vlans", p.PVID),
			"add it to vlans, or set pvid to one of them")
	}
}

// Member reports whether a port is a member of a VLAN.
func (p *Port) Member(vid uint16) bool {
	return slices.ContainsFunc(p.VLANs, func(r VLANRange) bool { return r.First <= vid && vid <= r.Last })
}

func checkWires(d *decoder, c *Config) {
	f := &c.Forwarding
	if !d.sound(&f.Mode) {
		return
	}
	switch {
	case f.Mode == Bridge && d.given(&f.Wires) && len(f.Wires) > 0:
		d.fail(&f.Wires, "wires have no effect in bridge mode", `set "mode: wire", or remove wires`)
		return
	case f.Mode == Bridge:
		return
	}
	ok := d.sound(&f.Wires)
	for i := range f.Wires {
		ok = checkWire(d, c, &f.Wires[i]) && ok
	}
	for i := range c.Ports {
		p := &c.Ports[i]
		if ok && p.Peer < 0 && d.sound(&p.Device) {
			d.fail(&p.Device, fmt.Sprintf("port %s is not in a wire", p.Device),
				"add a pair with it to forwarding.wires, or remove the port")
		}
	}
}

// checkWire makes the ports at the two ends of a wire each other's peers.
func checkWire(d *decoder, c *Config, w *Wire) (ok bool) {
	if !d.sound(w) {
		return false
	}
	var ends [2]int
	for i := range w {
		n := portOf(c, w[i])
		switch {
		case n < 0:
			d.fail(&w[i], fmt.Sprintf("a wire ends at %s, which is not a port", w[i]),
				prose.Suggestion(w[i], devices(c), "add it to ports, or name another device"))
			return false
		case c.Ports[n].Peer >= 0 || i == 1 && n == ends[0]:
			d.fail(&w[i], fmt.Sprintf("%s is already at the end of a wire", w[i]),
				"list each device in one wire, once")
			return false
		}
		ends[i] = n
	}
	c.Ports[ends[0]].Peer = ends[1]
	c.Ports[ends[1]].Peer = ends[0]
	return true
}

func devices(c *Config) []string {
	var names []string
	for _, p := range c.Ports {
		names = append(names, p.Device)
	}
	return names
}

// portOf returns the number of a device's port, or -1.
func portOf(c *Config, device string) int {
	return slices.IndexFunc(c.Ports, func(p Port) bool { return p.Device == device })
}

// checkStatic finds the ports of the static entries.
func checkStatic(d *decoder, c *Config) {
	f := &c.Forwarding
	if !d.sound(&f.Mode) {
		return
	}
	if f.Mode == WirePairs && len(f.Static) > 0 {
		d.fail(&f.Static, "static entries have no effect in wire mode", `set "mode: bridge", or remove static`)
		return
	}
	if d.sound(&f.Table) && len(f.Static) > f.Table {
		d.fail(&f.Static, fmt.Sprintf("%d static entries do not fit a table of %d", len(f.Static), f.Table),
			"raise table")
	}
	type place struct {
		mac  MAC
		vlan uint16
	}
	lines := make(map[place]int)
	for i := range f.Static {
		s := &f.Static[i]
		checkStaticPort(d, c, s)
		if !d.sound(&s.MAC, &s.VLAN) {
			continue
		}
		at := place{s.MAC, s.VLAN}
		if line, twice := lines[at]; twice {
			d.fail(&s.MAC, fmt.Sprintf("%v already has an entry in VLAN %d (line %d)", s.MAC, s.VLAN, line),
				"remove one of the two: an address is behind one port")
			continue
		}
		lines[at] = d.at[&s.MAC].line
	}
}

// checkFloods refuses flood_queues and loop_guard in wire mode, which has no floods.
func checkFloods(d *decoder, c *Config) {
	f := &c.Forwarding
	if d.sound(&f.Mode, &f.LoopGuard) && f.Mode == WirePairs {
		if d.given(&f.LoopGuard) && f.LoopGuard != LoopOff {
			d.fail(&f.LoopGuard, "loop_guard has no effect in wire mode, where the bridges at both ends look for loops",
				`set "mode: bridge", or remove loop_guard`)
		}
		f.LoopGuard = LoopOff
	}
	if d.sound(&f.Mode, &f.FloodQueues) && f.Mode == WirePairs && f.FloodQueues {
		d.fail(&f.FloodQueues, "flood_queues has no effect in wire mode, which floods nothing",
			`set "mode: bridge", or remove flood_queues`)
	}
}

// checkStaticPort finds the port of a static entry.
func checkStaticPort(d *decoder, c *Config, s *StaticEntry) {
	if !d.sound(&s.Device, &c.Ports) {
		return
	}
	if s.Port = portOf(c, s.Device); s.Port < 0 {
		d.fail(&s.Device, fmt.Sprintf("a static entry names %s, which is not a port", s.Device),
			prose.Suggestion(s.Device, devices(c), "add it to ports, or name another device"))
		return
	}
	p := &c.Ports[s.Port]
	if d.sound(&s.VLAN, &p.VLANs, &p.PVID) && !p.Member(s.VLAN) {
		d.fail(&s.VLAN, fmt.Sprintf("port %s is not in VLAN %d", s.Device, s.VLAN),
			"add it to the vlans of the port, or choose one of them")
	}
}
