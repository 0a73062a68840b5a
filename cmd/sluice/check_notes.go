package main

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/config"
	"sluice/internal/discovery/dcbx"
	"sluice/pmd/afxdp"
	"sluice/pmd/transmitter"
)

// unusedNotes names the profiles and domains that no port uses.
func unusedNotes(c *config.Config) (notes []string) {
	for i := range c.ETS {
		if name := c.ETS[i].Name; name != config.DefaultName && users(c, name, etsOf) == nil {
			notes = append(notes, "no port uses the ets profile "+name)
		}
	}
	for i := range c.QoS {
		if name := c.QoS[i].Name; name != config.DefaultName && users(c, name, qosOf) == nil {
			notes = append(notes, "no port uses the qos domain "+name)
		}
	}
	return notes
}

// partsNotes says what a port can't do because of the length of its frames, as far as that does not
// depend on the machine.
func partsNotes(c *config.Config) (notes []string) {
	note := func(p *config.Port, format string, arguments ...any) {
		notes = append(notes, fmt.Sprintf("port %s: ", p.Device)+fmt.Sprintf(format, arguments...))
	}
	const page = 4096
	for i := range c.Ports {
		p := &c.Ports[i]
		most := min(transmitter.LongestFrame, c.Memory.Whole())
		if p.TX == config.TXTransmitter && p.MaxFrame() > most {
			note(p, "tx is resident, but its socket will send, since with mtu %d frames have up to %d bytes, and the "+
				"transmitter sends at most %d: lower mtu to %d, or set tx: xsk", p.MTU, p.MaxFrame(), most,
				most-p.Overhead())
		}
		switch {
		case p.Mode != config.ZeroCopy || p.Parts == 1:
		case c.Memory.BufferSize < page:
			note(p, "mode is zero-copy, but with buffers of %d bytes and mtu %d it won't open, as a frame occupies %d "+
				"of them: set memory.buffer_size to %dB, lower mtu to %d, or choose mode: auto",
				c.Memory.BufferSize, p.MTU, p.Parts, page, afxdp.KernelMTU(c.Memory.BufferSize)-p.DeviceMTU()+p.MTU)
		default:
			note(p, "mode is zero-copy, and a frame of its mtu occupies %d buffers: its driver must be able to have "+
				"it in as many, as i40e and ice are, and all others that are known are not; sluice doctor says what "+
				"the device can do", p.Parts)
		}
	}
	return notes
}

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

// fcoeNotes says why hosts could not log in, and where FCoE may be lost.
func fcoeNotes(c *config.Config) (notes []string) {
	for i := range c.Ports {
		if p := &c.Ports[i]; len(c.FCoEInstances(p)) == 0 && p.FCoE.Role != config.FCoEENode {
			notes = append(notes, fmt.Sprintf("port %s has the role %s of fcoe, but is in no FCoE VLAN: add one to "+
				"its vlans, or remove the role", p.Device, p.FCoE.Role))
		}
	}
	if len(c.FCoE.Instances) == 0 {
		return notes
	}
	for i := range c.FCoE.Instances {
		notes = append(notes, instanceNotes(c, &c.FCoE.Instances[i])...)
	}
	return append(notes, losslessNotes(c)...)
}

// towardsFCFs reports whether a port may have FCFs behind it.
func towardsFCFs(p *config.Port) bool { return p.FCoE.Role != config.FCoEENode }

// instanceNotes says why hosts could not log in in an FCoE VLAN.
func instanceNotes(c *config.Config, in *config.FCoEInstance) (notes []string) {
	member := func(p *config.Port) bool { return slices.Contains(c.FCoEInstances(p), in) }
	if !slices.ContainsFunc(c.Ports, func(p config.Port) bool { return member(&p) && towardsFCFs(&p) }) {
		return []string{fmt.Sprintf("no port in VLAN %d has the role fcf or trusted, so no host can log in: write "+
			"fcoe: {role: fcf} for the port to the FCF", in.VLAN)}
	}
	for i := range c.Ports {
		p := &c.Ports[i]
		if !member(p) || p.FCoE.Role != config.FCoEENode {
			continue
		}
		if p.PVID == in.VLAN {
			note := fmt.Sprintf("port %s has FCoE VLAN %d as its pvid, so frames without a tag pass "+
				"only if they are FCoE or FIP: set another pvid if the port has LAN traffic too", p.Device, in.VLAN)
			if !c.Class(int(p.DefaultCoS)).Lossless {
				note += fmt.Sprintf(". FCoE without a tag may be lost, since it has CoS %d, which is in no lossless "+
					"class: set default_cos of the port", p.DefaultCoS)
			}
			notes = append(notes, note)
		} else if !slices.ContainsFunc(c.Ports, func(f config.Port) bool {
			return towardsFCFs(&f) && f.Member(p.PVID)
		}) {
			notes = append(notes, fmt.Sprintf("hosts at port %s can't ask for the FCoE VLAN: they do so without a "+
				"tag, in VLAN %d, of which no port to an FCF is a member. Add it to the vlans of that port, or "+
				"configure VLAN %d on the hosts", p.Device, p.PVID, in.VLAN))
		}
	}
	return notes
}

// fcoePriority is the priority of FCoE unless hosts are told another, as with Linux's fcoemon.
const fcoePriority = 3

// losslessNotes says where FCoE may be lost.
func losslessNotes(c *config.Config) (notes []string) {
	told := slices.IndexFunc(c.DCBX.Applications, func(a config.Application) bool { return nameOf(&a) == "fcoe" })
	priority := fcoePriority
	if told >= 0 {
		priority = int(c.DCBX.Applications[told].Priority)
	}
	if told < 0 && !c.Class(fcoePriority).Lossless { // applicationNotes has the rest
		notes = append(notes, fmt.Sprintf("FCoE usually has priority %d, which is in no lossless class: add "+
			"lossless: true to its class, or tell hosts another priority with dcbx.applications", fcoePriority))
	}
	var off []string
	for i := range c.Ports {
		p := &c.Ports[i]
		if len(c.FCoEInstances(p)) == 0 {
			continue
		}
		if p.FlowControl == config.FlowOff {
			off = append(off, p.Device)
		}
		if cos := p.QoS.PCPToCoS[priority]; c.Class(priority).Lossless && !c.Class(cos).Lossless {
			notes = append(notes, fmt.Sprintf("FCoE that port %s receives may be lost: qos domain %s gives its "+
				"priority %d the CoS %d, which is in no lossless class: remove %[3]d from pcp_to_cos", p.Device,
				p.QoS.Name, priority, cos))
		}
	}
	if off != nil {
		notes = append(notes, fmt.Sprintf("ports in FCoE VLANs have no flow control, so FCoE may be lost (%s): set "+
			"flow_control to pfc or auto, with pfc.enabled", strings.Join(off, ", ")))
	}
	return notes
}
