package main

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/config"
)

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
