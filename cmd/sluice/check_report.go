package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/internal/config"
	"sluice/internal/report/show"
	"sluice/internal/text/prose"
	"sluice/internal/text/units"
)

func (r *checkReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeDocument(w, r)
	}
	fmt.Fprintln(w, "ok")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	r.printPorts(t)
	r.printPauses(t)
	r.printLimits(t)
	r.printStatic(t)
	r.printDCBX(t)
	r.printFCoE(t)
	for i := range r.ETS {
		r.ETS[i].print(t)
	}
	for i := range r.QoS {
		r.QoS[i].print(t)
	}
	r.printClasses(t)
	r.printMemory(t)
	if len(r.Notes) > 0 {
		fmt.Fprintln(t)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(t, "note:", n)
	}
	return t.Flush()
}

func (r *checkReport) printPorts(w io.Writer) {
	fmt.Fprintln(w, "\nport\tspeed\tmtu\tlink\tvlans\tpvid\tets\tqos\tflow control\theadroom\twire to")
	for _, p := range r.Ports {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n",
			p.Device, show.Rate(p.Speed), p.MTU, p.Link, strings.Join(p.VLANs, ","), p.PVID,
			p.ETS, p.QoS, p.FlowControl, sizeText(p.Headroom), show.OrNothing(p.Wire))
	}
}

// printPauses prints the times of ports that pause their peers.
func (r *checkReport) printPauses(w io.Writer) {
	pausing := slices.DeleteFunc(slices.Clone(r.Ports), func(p checkedPort) bool { return p.Pause == nil })
	if len(pausing) == 0 {
		return
	}
	fmt.Fprintln(w, "\nport\tlink speed\tpause\trepeated after\tresponse\treceive ring\tmax wait in ring")
	for _, p := range pausing {
		t, text := p.Pause, func(ns int64) string { return units.Time(time.Duration(ns)) }
		waits := text(t.RingWaitsNS)
		if t.RingWaitsNS < t.ResponseNS {
			waits += ", less than response"
		}
		response := text(t.ResponseNS)
		if t.ResponseNS < t.LeastNS {
			response += ", but the worker may take " + text(t.LeastNS)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", p.Device, show.Rate(p.LinkSpeed), text(t.NS), text(t.RefreshNS),
			response, t.Ring, waits)
	}
}

// printLimits prints the ports whose learning or flooding is limited.
func (r *checkReport) printLimits(w io.Writer) {
	limited := slices.DeleteFunc(slices.Clone(r.Ports), func(p checkedPort) bool {
		return p.MACLimit == 0 &&
			p.Storm == checkedStorm{}
	})
	if len(limited) == 0 {
		return
	}
	fmt.Fprintln(w, "\nport\tmac limit\tbroadcast/s\tmulticast/s\tunknown/s")
	for _, p := range limited {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Device, countText(p.MACLimit),
			countText(p.Storm.Broadcast), countText(p.Storm.Multicast), countText(p.Storm.Unknown))
	}
}

func (r *checkReport) printStatic(w io.Writer) {
	if len(r.Static) == 0 {
		return
	}
	fmt.Fprintln(w, "\nstatic address\tvlan\tport")
	for _, s := range r.Static {
		fmt.Fprintf(w, "%s\t%d\t%s\n", s.MAC, s.VLAN, s.Port)
	}
}

func (p *checkedProfile) print(w io.Writer) {
	fmt.Fprintf(w, "\nets profile %s of %s\n", p.Name, strings.Join(p.Ports, ", "))
	fmt.Fprintln(w, "group\tname\tscheduling\tweight\tinside\trate\tburst\tcos")
	for _, g := range p.Groups {
		scheduling, weight := "by weight", fmt.Sprintf("%d%%", g.Weight)
		if g.Strict {
			scheduling, weight = "strict", show.Nothing
		}
		var cos []int
		for _, q := range g.Queues {
			cos = append(cos, q.CoS)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			g.PG, g.Name, scheduling, weight, g.Inner, show.Rate(g.Rate), sizeText(g.Burst), prose.Join(cos, ","))
	}
	fmt.Fprintln(w, "\nqueue\tclass\tgroup\tweight\tat least\trate\tburst")
	for cos := range 8 {
		for _, g := range p.Groups {
			for _, q := range g.Queues {
				if q.CoS != cos {
					continue
				}
				least := show.Nothing
				if q.Least > 0 {
					least = strconv.FormatFloat(q.Least, 'f', 1, 64) + "%"
				}
				fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\t%s\n",
					q.CoS, q.Class, g.PG, countText(q.Weight), least, show.Rate(q.Rate), sizeText(q.Burst))
			}
		}
	}
}

func (d *checkedDomain) print(w io.Writer) {
	fmt.Fprintf(w, "\nqos domain %s of %s: trust %s\n", d.Name, strings.Join(d.Ports, ", "), d.Trust)
	if d.Trust == config.TrustDSCP {
		fmt.Fprintf(w, "dscp to cos\t%s, others: default_cos\n", mapText(d.DSCPToCoS))
	}
	fmt.Fprintf(w, "pcp to cos\t%s\n", mapText(d.PCPToCoS))
	fmt.Fprintf(w, "cos to pcp\t%s\n", mapText(d.CoSToPCP))
	if len(d.CoSToDSCP) > 0 {
		fmt.Fprintf(w, "cos to dscp\t%s, others: unchanged\n", mapText(d.CoSToDSCP))
	}
}

func (r *checkReport) printClasses(w io.Writer) {
	fmt.Fprintln(w, "\nclass\tcos\tdrops\treserved\tshare\theadroom\txon\tqueue limit\twred\tecn")
	for _, c := range r.Classes {
		drops, headroom, xon := "yes", show.Nothing, show.Nothing
		if c.Lossless {
			drops, headroom, xon = "never", "of the port", c.resumption()
			if c.Headroom > 0 {
				headroom = sizeText(c.Headroom)
			}
		}
		wred, ecn := show.Nothing, "no"
		if c.WRED != nil {
			wred = fmt.Sprintf("%s to %s, %d%%", sizeText(c.WRED.Min), sizeText(c.WRED.Max), c.WRED.Probability)
		}
		if c.ECN {
			ecn = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, prose.Join(c.CoS, ","), drops,
			sizeText(c.Reserved),
			limitText(c.Share, c.Alpha), headroom, xon, limitText(c.QueueLimit, c.QueueAlpha), wred, ecn)
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
func (c *checkedClass) resumption() string {
	below := sizeText(c.XONOffset) + " below"
	switch {
	case c.XONOffset == 0:
		return sizeText(c.XON)
	case c.XON == 0:
		return below
	}
	return sizeText(c.XON) + " or " + below
}

// limitText formats a limit, which is static in bytes or dynamic (alpha).
func limitText(bytes int, alpha float64) string {
	if alpha > 0 {
		return fmt.Sprintf("%g × free", alpha)
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

// mapText formats pairs in the order of their keys.
func mapText(m map[string]int) string {
	var from []int
	for text := range m {
		n, _ := strconv.Atoi(text) // pairs made it from a number
		from = append(from, n)
	}
	slices.Sort(from)
	var words []string
	for _, n := range from {
		words = append(words, fmt.Sprintf("%d→%d", n, m[strconv.Itoa(n)]))
	}
	return strings.Join(words, " ")
}
