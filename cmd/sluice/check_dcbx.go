package main

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/config"
	"sluice/internal/discovery/dcbx"
)

// dcbxNotes says which settings of DCBX have no effect, or probably not the intended one.
func dcbxNotes(c *config.Config) []string {
	if !c.LLDP.Enabled { // so DCBX is off, and the report says so
		return nil
	}
	return append(roleNotes(c), applicationNotes(c)...)
}

// nameOf returns the name of an application; empty: it has none.
func nameOf(a *config.Application) string {
	return dcbx.App{Selector: a.Selector, Protocol: a.Protocol}.Name()
}

// roleNotes says where ports get nothing from an upstream port, or have nothing to agree on.
func roleNotes(c *config.Config) (notes []string) {
	upstream := func(p config.Port) bool {
		return p.DCBX.Version != config.DCBXOff && p.DCBX.Role == config.Upstream
	}
	takes := func(p config.Port) bool { return upstream(p) && p.DCBX.Takes(config.FeaturePFC) }
	lossless := slices.ContainsFunc(c.Classes, func(class config.Class) bool { return class.Lossless })
	var downstream []string
	for i := range c.Ports {
		p := &c.Ports[i]
		given := p.DCBX.Role == config.Downstream && slices.ContainsFunc(c.Ports, takes)
		switch {
		case p.DCBX.Version == config.DCBXOff && p.DCBX.Role != config.Manual:
			notes = append(notes, fmt.Sprintf("port %s has the role %s, but its DCBX is off: add version: auto to its "+
				"dcbx, or remove the role", p.Device, p.DCBX.Role))
		case p.FlowControl == config.FlowAuto && !lossless && !takes(*p) && !given:
			notes = append(notes, fmt.Sprintf("port %s has flow_control auto, but no class is lossless, and no "+
				"upstream port gives it priorities: it offers no PFC. Set lossless: true for a class, or role: "+
				"upstream for a port to the core", p.Device))
		}
		if p.DCBX.Version != config.DCBXOff && p.DCBX.Role == config.Downstream {
			downstream = append(downstream, p.Device)
		}
	}
	if len(downstream) > 0 && !slices.ContainsFunc(c.Ports, upstream) {
		notes = append(notes, fmt.Sprintf("no port has the role upstream, so the downstream ports tell the settings "+
			"of this file (%s): set role: upstream for the ports to the core", strings.Join(downstream, ", ")))
	}
	return notes
}

// applicationNotes says which applications are probably not meant as they are.
func applicationNotes(c *config.Config) (notes []string) {
	slips := map[uint16]uint16{8906: 0x8906, 8914: 0x8914, 8915: 0x8915}
	for i := range c.DCBX.Applications {
		a := &c.DCBX.Applications[i]
		if meant := slips[a.Protocol]; a.Selector == dcbx.SelectEthertype && meant > 0 {
			notes = append(notes, fmt.Sprintf("an application has the EtherType %d, which is %#04x: if %#04x is "+
				"meant, write ethertype: %#04[3]x", a.Protocol, a.Protocol, meant))
		}
		if name := nameOf(a); name != "" && !c.Class(int(a.Priority)).Lossless {
			notes = append(notes, fmt.Sprintf("the application %s has priority %d, which is in no lossless class: put "+
				"the priority into a class with lossless: true, or change it", name, a.Priority))
		}
	}
	return notes
}
