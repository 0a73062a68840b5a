package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/cells"
	"sluice/internal/config"
	"sluice/internal/control/memory"
	"sluice/internal/discovery"
	"sluice/internal/discovery/dcbx"
	"sluice/internal/report/show"
	"sluice/internal/text/prose"
	"sluice/internal/text/units"
)

// print prints the report as tables.
func (r *checkReport) print(w io.Writer) error {
	fmt.Fprintln(w, "ok")
	t, c := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), r.Configuration
	r.printPorts(t)
	r.printPauses(t)
	printLimits(t, c)
	printStatic(t, c)
	printDCBX(t, c)
	printFCoE(t, c)
	for i := range c.ETS {
		printProfile(t, c, &c.ETS[i])
	}
	for i := range c.QoS {
		printDomain(t, c, &c.QoS[i])
	}
	printClasses(t, c)
	m := &r.Memory
	fmt.Fprintln(t, "\nmemory\tframes\tprogram\tkernel")
	row(t, memory.Text(m.Total()), memory.Text(m.Frames), memory.Text(m.Program), memory.Text(m.Kernel))
	if len(r.Notes) > 0 {
		fmt.Fprintln(t)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(t, "note:", n)
	}
	return t.Flush()
}

func row(w io.Writer, cells ...any) { fmt.Fprintln(w, prose.Join(cells, "\t")) }

func (r *checkReport) printPorts(w io.Writer) {
	fmt.Fprintln(w, "\nport\tspeed\tmtu\tlink\tvlans\tpvid\tets\tqos\tflow control\theadroom\twire to")
	c := r.Configuration
	for i := range c.Ports {
		p, wire := &c.Ports[i], show.Nothing
		if p.Peer >= 0 {
			wire = c.Ports[p.Peer].Device
		}
		row(w, p.Device, show.Rate(p.Speed), p.MTU, p.Link, prose.Join(p.VLANs, ","), p.PVID, p.ETSName, p.QoSName,
			p.FlowControl, sizeText(r.Ports[i].Headroom), wire)
	}
}

// printPauses prints the times of ports that pause their peers.
func (r *checkReport) printPauses(w io.Writer) {
	head := "\nport\tlink speed\tpause\trepeated after\tresponse\treceive ring\tmax wait in ring\n"
	text := func(ns int64) string { return units.Time(time.Duration(ns)) }
	for i, p := range r.Configuration.Ports {
		t := r.Ports[i].Pause
		if t == nil {
			continue
		}
		waits, response := text(t.RingWaitsNS), text(t.ResponseNS)
		if t.RingWaitsNS < t.ResponseNS {
			waits += ", less than response"
		}
		if t.ResponseNS < t.LeastNS {
			response += ", but the worker may take " + text(t.LeastNS)
		}
		fmt.Fprint(w, head)
		row(w, p.Device, show.Rate(p.LinkSpeed), text(t.NS), text(t.RefreshNS), response, t.Ring, waits)
		head = ""
	}
}

// printLimits prints the ports whose learning or flooding is limited.
func printLimits(w io.Writer, c *config.Config) {
	head := "\nport\tmac limit\tbroadcast/s\tmulticast/s\tunknown/s\n"
	for i := range c.Ports {
		p := &c.Ports[i]
		if p.MACLimit > 0 || p.Storm != (config.Storm{}) {
			fmt.Fprint(w, head)
			row(w, p.Device, countText(p.MACLimit), countText(p.Storm.Broadcast), countText(p.Storm.Multicast),
				countText(p.Storm.Unknown))
			head = ""
		}
	}
}

func printStatic(w io.Writer, c *config.Config) {
	if len(c.Forwarding.Static) > 0 {
		fmt.Fprintln(w, "\nstatic address\tvlan\tport")
	}
	for _, s := range c.Forwarding.Static {
		row(w, s.MAC, s.VLAN, s.Device)
	}
}

// printDCBX prints LLDP, and the ports and applications of DCBX.
func printDCBX(w io.Writer, c *config.Config) {
	if !c.LLDP.Enabled {
		fmt.Fprintln(w, "\nlldp\toff")
		return
	}
	fmt.Fprintf(w, "\nlldp\ton, system name: %s\n", cmp.Or(c.LLDP.SystemName, "the host name"))
	head := "\nport\tdcbx\trole\twilling\n"
	for i := range c.Ports {
		if p := &c.Ports[i]; p.DCBX.Version != config.DCBXOff {
			fmt.Fprint(w, head)
			row(w, p.Device, p.DCBX.Version, p.DCBX.Role, show.OrNothing(prose.Join(p.DCBX.Willing, ",")))
			head = ""
		}
	}
	if head != "" || len(c.DCBX.Applications) == 0 {
		return
	}
	fmt.Fprintln(w, "\napplication\tpriority")
	for _, a := range c.DCBX.Applications {
		known := discovery.Application(dcbx.App{Selector: a.Selector, Protocol: a.Protocol})
		row(w, show.ApplicationName(&known), a.Priority)
	}
}

// printFCoE prints the instances and the ports of FIP snooping.
func printFCoE(w io.Writer, c *config.Config) {
	f := &c.FCoE
	if len(f.Instances) == 0 {
		return
	}
	fmt.Fprintln(w, "\nfcoe instance\tvlan\tfc-map\tfcfs\tforgets after\tspma")
	for i := range f.Instances {
		in := &f.Instances[i]
		row(w, in.Name, in.VLAN, fmt.Sprintf("%06X", in.FCMap), cmp.Or(prose.Join(in.FCFs, ","), "all"),
			fmt.Sprintf("%g keep-alive periods", in.AgeMultiplier), in.SPMA)
	}
	fmt.Fprintln(w, "\nport\tfcoe role\tfcoe vlans\tenodes\tmax enodes\tmax sessions\tmax pending")
	for i := range c.Ports {
		p := &c.Ports[i]
		x, vlans := &p.FCoE, []uint16(nil)
		for _, in := range c.FCoEInstances(p) {
			vlans = append(vlans, in.VLAN)
		}
		switch {
		case vlans == nil:
		case x.Role == config.FCoEFCF:
			row(w, p.Device, x.Role, prose.Join(vlans, ","), show.Nothing, show.Nothing, show.Nothing, show.Nothing)
		default:
			row(w, p.Device, x.Role, prose.Join(vlans, ","), cmp.Or(prose.Join(x.ENodes, ","), "all"), x.MaxENodes,
				x.MaxSessions, x.MaxPending)
		}
	}
	row(w, "switch", show.Nothing, show.Nothing, show.Nothing, f.MaxENodes, f.MaxSessions, f.MaxPending)
	fmt.Fprintln(w, "\nFIP snooping knows a session from its login: when it begins on a VLAN, hosts that are already\n"+
		"logged in lose their sessions until they log in again.\n"+
		"FCoE in VLANs without an instance is dropped.")
}

// printProfile prints a profile that ports use, group 15 first.
func printProfile(w io.Writer, c *config.Config, e *config.ETSProfile) {
	ports := users(c, e.Name, etsOf)
	if ports == nil {
		return
	}
	fmt.Fprintf(w, "\nets profile %s of %s\n", e.Name, strings.Join(ports, ", "))
	fmt.Fprintln(w, "group\tname\tscheduling\tweight\tinside\trate\tburst\tcos")
	place := func(g config.PriorityGroup) int { return (g.PG + 1) % (config.StrictGroup + 1) }
	for _, g := range slices.SortedFunc(slices.Values(e.Groups), func(a, b config.PriorityGroup) int {
		return place(a) - place(b)
	}) {
		scheduling, weight := "by weight", fmt.Sprintf("%d%%", g.Weight)
		if g.PG == config.StrictGroup {
			scheduling, weight = "strict", show.Nothing
		}
		row(w, g.PG, g.Name, scheduling, weight, g.Inner, show.Rate(g.Rate), sizeText(g.Burst),
			prose.Join(slices.Sorted(slices.Values(g.CoS)), ","))
	}
	fmt.Fprintln(w, "\nqueue\tclass\tgroup\tweight\tat least\trate\tburst")
	for cos := range 8 {
		q, least := e.Queue(cos), show.Nothing
		if percent := e.Least(cos); percent > 0 {
			least = fmt.Sprintf("%.1f%%", percent)
		}
		row(w, cos, c.Class(cos).Name, e.Group(cos).PG, countText(q.Weight), least, show.Rate(q.Rate),
			sizeText(q.Burst))
	}
}

// printDomain prints a domain that ports use.
func printDomain(w io.Writer, c *config.Config, q *config.QoSDomain) {
	ports := users(c, q.Name, qosOf)
	if ports == nil {
		return
	}
	fmt.Fprintf(w, "\nqos domain %s of %s: trust %s\n", q.Name, strings.Join(ports, ", "), q.Trust)
	if q.Trust == config.TrustDSCP {
		fmt.Fprintf(w, "dscp to cos\t%s, others: default_cos\n", tableText(q.DSCPToCoS))
	}
	fmt.Fprintf(w, "pcp to cos\t%s\n", tableText(q.PCPToCoS))
	fmt.Fprintf(w, "cos to pcp\t%s\n", tableText(q.CoSToPCP))
	if marks := tableText(q.CoSToDSCP); marks != "" {
		fmt.Fprintf(w, "cos to dscp\t%s, others: unchanged\n", marks)
	}
}

func printClasses(w io.Writer, c *config.Config) {
	fmt.Fprintln(w, "\nclass\tcos\tdrops\treserved\tshare\theadroom\txon\tqueue limit\twred\tecn")
	for i := range c.Classes {
		class := &c.Classes[i]
		drops, headroom, xon := "yes", show.Nothing, show.Nothing
		if class.Lossless {
			drops, headroom, xon = "never", "of the port", resumption(class.XON, class.XONOffset)
			if class.Headroom > 0 {
				headroom = sizeText(class.Headroom)
			}
		}
		wred, ecn := show.Nothing, "no"
		if w := &class.WRED; w.Max > 0 {
			wred = fmt.Sprintf("%s to %s, %d%%", sizeText(w.Min), sizeText(w.Max), w.Probability)
		}
		if class.ECN {
			ecn = "yes"
		}
		row(w, class.Name, prose.Join(class.CoS, ","), drops, sizeText(class.Reserved),
			limitText(class.Share, class.Alpha), headroom, xon, limitText(class.QueueLimit, class.QueueAlpha), wred,
			ecn)
	}
}

func countText(n int) string {
	if n == 0 {
		return show.Nothing
	}
	return fmt.Sprint(n)
}

// resumption formats when a sender may resume: at an absolute level, or at an offset below the
// limit.
func resumption(xon, offset int) string {
	below := sizeText(offset) + " below"
	switch {
	case offset == 0:
		return sizeText(xon)
	case xon == 0:
		return below
	}
	return sizeText(xon) + " or " + below
}

// limitText formats a limit, which is static in bytes or dynamic (alpha).
func limitText(bytes, alpha int) string {
	if alpha > 0 {
		return fmt.Sprintf("%g × free", float64(alpha)/cells.AlphaUnit)
	}
	return sizeText(bytes)
}

// sizeText formats a number of bytes as the configuration writes it; 0 is nothing.
func sizeText(bytes int) string {
	if bytes == 0 {
		return show.Nothing
	}
	return units.Size(bytes)
}

// tableText formats the pairs of a table of a domain.
func tableText(table []int) string {
	var pairs []string
	for from, to := range table {
		if to != config.Unmapped {
			pairs = append(pairs, fmt.Sprintf("%d→%d", from, to))
		}
	}
	return strings.Join(pairs, " ")
}
