package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/report/console"
	"sluice/internal/report/show"
	"sluice/internal/state"
	"sluice/internal/text/prose"
)

// checkedFCoE is FIP snooping.
type checkedFCoE struct {
	Instances   []checkedInstance `json:"instances"`
	MaxFCFs     int               `json:"max_fcfs"`
	MaxENodes   int               `json:"max_enodes"`
	MaxSessions int               `json:"max_sessions"`
	MaxPending  int               `json:"max_pending"`
	// with --running: the FCoE sessions of the running switch that a reload would end, by reason
	Ending []snoop.Ending `json:"ending,omitempty"`
}

type checkedInstance struct {
	Name          string   `json:"name"`
	VLAN          uint16   `json:"vlan"`
	FCMap         string   `json:"fc_map"`
	FCFs          []string `json:"fcfs"` // empty: all are accepted
	AgeMultiplier float64  `json:"age_multiplier"`
	SPMA          bool     `json:"spma"`
}

// checkedPortFCoE is FIP snooping on a port in an FCoE VLAN.
type checkedPortFCoE struct {
	Role        config.FCoERole `json:"role"`
	VLANs       []uint16        `json:"vlans"`  // FCoE VLANs of the port
	ENodes      []string        `json:"enodes"` // hosts that may log in; empty: all that no other port lists
	MaxENodes   int             `json:"max_enodes"`
	MaxSessions int             `json:"max_sessions"`
	MaxPending  int             `json:"max_pending"`
}

// addFCoE reports FIP snooping.
func (r *checkReport) addFCoE(c *config.Config) {
	f := &c.FCoE
	for i := range c.Ports {
		p := &c.Ports[i]
		var vlans []uint16
		for _, in := range c.FCoEInstances(p) {
			vlans = append(vlans, in.VLAN)
		}
		if vlans != nil {
			r.Ports[i].FCoE = &checkedPortFCoE{p.FCoE.Role, vlans, texts(p.FCoE.ENodes), p.FCoE.MaxENodes,
				p.FCoE.MaxSessions, p.FCoE.MaxPending}
		} else if p.FCoE.Role != config.FCoEENode {
			r.Notes = append(r.Notes, fmt.Sprintf("port %s has the role %s of fcoe, but is in no FCoE VLAN: add one "+
				"to its vlans, or remove the role", p.Device, p.FCoE.Role))
		}
	}
	if len(f.Instances) == 0 {
		return
	}
	r.FCoE = &checkedFCoE{MaxFCFs: f.MaxFCFs, MaxENodes: f.MaxENodes, MaxSessions: f.MaxSessions,
		MaxPending: f.MaxPending}
	for i := range f.Instances {
		in := &f.Instances[i]
		r.FCoE.Instances = append(r.FCoE.Instances, checkedInstance{in.Name, in.VLAN, fcMap(in), texts(in.FCFs),
			in.AgeMultiplier, in.SPMA})
		r.Notes = append(r.Notes, instanceNotes(c, in)...)
	}
	r.Notes = append(r.Notes, losslessNotes(c)...)
}

// texts returns the texts of values; not nil.
func texts[V fmt.Stringer](values []V) []string {
	all := []string{}
	for _, v := range values {
		all = append(all, v.String())
	}
	return all
}

func fcMap(in *config.FCoEInstance) string { return fmt.Sprintf("%06X", in.FCMap) }

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

// printFCoE prints the instances and the ports of FIP snooping.
func (r *checkReport) printFCoE(w io.Writer) {
	f := r.FCoE
	if f == nil {
		return
	}
	fmt.Fprintln(w, "\nfcoe instance\tvlan\tfc-map\tfcfs\tforgets after\tspma")
	for _, in := range f.Instances {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%g keep-alive periods\t%v\n", in.Name, in.VLAN, in.FCMap,
			cmp.Or(strings.Join(in.FCFs, ","), "all"), in.AgeMultiplier, in.SPMA)
	}
	fmt.Fprintln(w, "\nport\tfcoe role\tfcoe vlans\tenodes\tmax enodes\tmax sessions\tmax pending")
	for _, p := range r.Ports {
		switch x := p.FCoE; {
		case x == nil:
		case x.Role == config.FCoEFCF:
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%[4]s\t%[4]s\t%[4]s\n", p.Device, x.Role, prose.Join(x.VLANs, ","),
				show.Nothing)
		default:
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\n", p.Device, x.Role, prose.Join(x.VLANs, ","),
				cmp.Or(strings.Join(x.ENodes, ","), "all"), x.MaxENodes, x.MaxSessions, x.MaxPending)
		}
	}
	fmt.Fprintf(w, "switch\t%s\t%[1]s\t%[1]s\t%d\t%d\t%d\n", show.Nothing, f.MaxENodes, f.MaxSessions, f.MaxPending)
	fmt.Fprintln(w, "\nFIP snooping knows a session from its login: when it begins on a VLAN, hosts that are already\n"+
		"logged in lose their sessions until they log in again.\n"+
		"FCoE in VLANs without an instance is dropped.")
}

// addEnding asks the running switch for its FCoE sessions, and reports those that a reload would
// end.
func (r *checkReport) addEnding(ctx context.Context, c *config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if c.Control.Socket == "" {
		return fmt.Errorf("--running: the configuration has no control socket: set control.socket, or leave out " +
			"--running")
	}
	now, err := console.Dial(c.Control.Socket).State(ctx)
	if errors.Is(err, console.ErrNoSwitch) {
		return fmt.Errorf("--running: %w at %s: set control.socket to that of the switch, or leave out --running",
			console.ErrNoSwitch, c.Control.Socket)
	}
	if err != nil {
		return fmt.Errorf("--running: %w", err)
	}
	ending, err := snoop.Reported(now).Ending(control.FCoEParams(c))
	if err != nil {
		return fmt.Errorf("--running: %w", err)
	}
	if r.FCoE != nil {
		r.FCoE.Ending = ending
	}
	for _, e := range ending {
		r.Notes = append(r.Notes, fmt.Sprintf("a reload ends %s: %s", prose.Count(e.Sessions, "FCoE session"), e.Why))
	}
	r.Notes = append(r.Notes, beginnings(now, c)...)
	if len(ending) == 0 && now.FCoE != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("a reload ends no FCoE session; there are %d now",
			len(now.FCoE.Sessions)))
	}
	return nil
}

// beginnings names the VLANs in which snooping would begin, and says what that does to the others.
func beginnings(now *state.Switch, c *config.Config) (notes []string) {
	if now.FCoE == nil && len(c.FCoE.Instances) > 0 {
		notes = append(notes, "from this reload on, FCoE in VLANs without an instance is dropped: give each VLAN that "+
			"has FCoE an instance")
	}
	for i := range c.FCoE.Instances {
		in := &c.FCoE.Instances[i]
		if now.FCoE != nil && slices.ContainsFunc(now.FCoE.Instances, func(of state.FCoEInstance) bool {
			return of.VLAN == in.VLAN
		}) {
			continue
		}
		notes = append(notes, fmt.Sprintf("a reload begins FIP snooping on VLAN %d: hosts that are logged in there "+
			"lose their sessions until they log in again", in.VLAN))
	}
	return notes
}
