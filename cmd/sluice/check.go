package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"sluice/cells"
	"sluice/internal/config"
	"sluice/internal/control/memory"
	"sluice/internal/control/params"
	"sluice/internal/state"
)

func checkCommand() *cobra.Command {
	var file string
	var asJSON, running bool
	c := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Validate a configuration, and print what it means",
		Long: `Reads a configuration as run does, validates it without touching a device, and prints
what it means: ports, priority groups with their weights, queues, QoS domains,
classes, memory, LLDP, DCBX and FIP snooping.

If the file has errors, check prints all of them, each with its line, column and a fix, and ends
with exit code 2.

A note warns if this machine, or the control group of this process, has too little memory left: run
would refuse to start here. Another one warns if the file is in a directory that holds much else,
such as /etc: a confined switch can read all of it.

With --running, asks the switch that runs, at the control socket of the file, for its FCoE sessions,
and notes which of them a reload of this file would end. If no switch answers there, check prints the
rest and ends with exit code 1.`,
		Example: `  sluice check -c switch.yaml
  sluice check -c examples/bridge.yaml --json   # for programs`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			configuration, err := config.Load(file)
			if err != nil {
				return err
			}
			if _, err := params.Of(configuration, nil); err != nil { // counts memory, allocates none
				return err
			}
			r := newCheckReport(configuration)
			r.addParts(configuration)
			r.addDCBX(configuration)
			r.addFCoE(configuration)
			var unasked error // what the file means is printed all the same
			if running {
				unasked = r.addEnding(c.Context(), configuration)
			}
			r.addMemory(configuration, memory.Read)
			r.Notes = append(r.Notes, sharedNotes(configurationDirectories(configuration, file))...)
			if err := r.print(c.OutOrStdout(), asJSON); err != nil {
				return err
			}
			return unasked
		},
	}
	configurationFlag(c, &file)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&running, "running", false, "note which FCoE sessions of the running switch a reload would end")
	return c
}

// checkReport is the switch that a configuration describes. Sizes are in bytes, rates in bit/s; 0
// means none.
type checkReport struct {
	OK      bool             `json:"ok"`
	Ports   []checkedPort    `json:"ports"`
	ETS     []checkedProfile `json:"ets"` // profiles that ports use
	QoS     []checkedDomain  `json:"qos"` // domains that ports use
	Classes []checkedClass   `json:"classes"`
	Static  []checkedStatic  `json:"static,omitempty"`
	LLDP    *checkedLLDP     `json:"lldp"` // null: it is off
	FCoE    *checkedFCoE     `json:"fcoe"` // null: there is no FIP snooping
	// that ports with DCBX tell their peers
	Applications []state.Application `json:"applications,omitempty"`
	Memory       checkedMemory       `json:"memory"`
	Notes        []string            `json:"notes,omitempty"`
}

type checkedPort struct {
	Device      string             `json:"device"`
	Speed       uint64             `json:"speed"`
	LinkSpeed   uint64             `json:"link_speed"` // used unless the device reports another rate
	MTU         int                `json:"mtu"`
	Parts       int                `json:"parts"` // maximum number of buffers that a frame occupies
	Link        config.Link        `json:"link"`
	VLANs       []string           `json:"vlans"`
	PVID        uint16             `json:"pvid"`
	ETS         string             `json:"ets"`
	QoS         string             `json:"qos"`
	DefaultCoS  uint8              `json:"default_cos"`
	STag        config.STag        `json:"s_tag"`
	FlowControl config.FlowControl `json:"flow_control"`
	Headroom    int                `json:"headroom"` // of lossless classes without a headroom of their own
	Wire        string             `json:"wire,omitempty"`
	MACLimit    int                `json:"mac_limit,omitempty"`
	Storm       checkedStorm       `json:"storm"`
	Pause       *checkedPause      `json:"pause,omitempty"` // of ports that pause their peers
	DCBX        *checkedDCBX       `json:"dcbx,omitempty"`  // of ports with DCBX
	FCoE        *checkedPortFCoE   `json:"fcoe,omitempty"`  // of ports in FCoE VLANs
}

// checkedPause has the times that keep the lossless classes of a port lossless, in ns at the rate
// of the link.
type checkedPause struct {
	NS          int64 `json:"ns"`            // how long a pause lasts
	RefreshNS   int64 `json:"refresh_ns"`    // how long after its start a pause is repeated
	ResponseNS  int64 `json:"response_ns"`   // how much longer than the standard allows it may take to stop the peer
	LeastNS     int64 `json:"least_ns"`      // the shortest response that the worker can keep to
	Ring        int   `json:"ring"`          // entries of the receive ring
	RingWaitsNS int64 `json:"ring_waits_ns"` // how long the shortest frames may wait in it at line rate
}

// checkedStorm is in frames a second.
type checkedStorm struct {
	Broadcast int `json:"broadcast,omitempty"`
	Multicast int `json:"multicast,omitempty"`
	Unknown   int `json:"unknown,omitempty"`
}

type checkedStatic struct {
	MAC  string `json:"mac"`
	VLAN uint16 `json:"vlan"`
	Port string `json:"port"`
}

type checkedProfile struct {
	Name   string         `json:"name"`
	Ports  []string       `json:"ports"`
	Groups []checkedGroup `json:"groups"` // strict groups come first
}

type checkedGroup struct {
	PG     int            `json:"pg"`
	Name   string         `json:"name"`
	Strict bool           `json:"strict"`           // sends before the other groups
	Weight int            `json:"weight,omitempty"` // percent
	Inner  config.Inner   `json:"inner"`
	Rate   uint64         `json:"rate,omitempty"`
	Burst  int            `json:"burst,omitempty"`
	Queues []checkedQueue `json:"queues"` // by CoS
}

type checkedQueue struct {
	CoS    int     `json:"cos"`
	Class  string  `json:"class"`
	Weight int     `json:"weight,omitempty"` // in the group
	Least  float64 `json:"least,omitempty"`  // percent of what strict groups leave while all queues have frames
	Rate   uint64  `json:"rate,omitempty"`
	Burst  int     `json:"burst,omitempty"`
}

type checkedDomain struct {
	Name      string         `json:"name"`
	Ports     []string       `json:"ports"`
	Trust     config.Trust   `json:"trust"`
	PCPToCoS  map[string]int `json:"pcp_to_cos"`
	DSCPToCoS map[string]int `json:"dscp_to_cos"` // others: default_cos
	CoSToPCP  map[string]int `json:"cos_to_pcp"`
	CoSToDSCP map[string]int `json:"cos_to_dscp"` // others: unchanged
}

type checkedClass struct {
	Name       string       `json:"name"`
	CoS        []int        `json:"cos"`
	Lossless   bool         `json:"lossless"`
	Reserved   int          `json:"reserved"`
	Share      int          `json:"share,omitempty"`
	Alpha      float64      `json:"alpha,omitempty"`
	Headroom   int          `json:"headroom,omitempty"`
	XON        int          `json:"xon,omitempty"`
	XONOffset  int          `json:"xon_offset,omitempty"`
	QueueLimit int          `json:"queue_limit,omitempty"`
	QueueAlpha float64      `json:"queue_alpha,omitempty"`
	WRED       *checkedWRED `json:"wred,omitempty"`
	ECN        bool         `json:"ecn"`
}

type checkedWRED struct {
	Min         int `json:"min"`
	Max         int `json:"max"`
	Probability int `json:"probability"` // percent
}

func newCheckReport(c *config.Config) *checkReport {
	r := &checkReport{OK: true}
	byETS, byQoS := map[string][]string{}, map[string][]string{} // device names, by profile and by domain
	for i := range c.Ports {
		p := &c.Ports[i]
		byETS[p.ETSName] = append(byETS[p.ETSName], p.Device)
		byQoS[p.QoSName] = append(byQoS[p.QoSName], p.Device)
		r.Ports = append(r.Ports, newCheckedPort(c, p))
	}
	unused := func(what, name string) {
		if name != config.DefaultName {
			r.Notes = append(r.Notes, fmt.Sprintf("no port uses the %s %s", what, name))
		}
	}
	for i := range c.ETS {
		e := &c.ETS[i]
		if byETS[e.Name] == nil {
			unused("ets profile", e.Name)
			continue
		}
		r.ETS = append(r.ETS, newCheckedProfile(c, e, byETS[e.Name]))
	}
	for i := range c.QoS {
		q := &c.QoS[i]
		if byQoS[q.Name] == nil {
			unused("qos domain", q.Name)
			continue
		}
		r.QoS = append(r.QoS, checkedDomain{
			Name: q.Name, Ports: byQoS[q.Name], Trust: q.Trust,
			PCPToCoS: pairs(q.PCPToCoS), DSCPToCoS: pairs(q.DSCPToCoS), CoSToPCP: pairs(q.CoSToPCP),
			CoSToDSCP: pairs(q.CoSToDSCP),
		})
	}
	for i := range c.Classes {
		r.Classes = append(r.Classes, newCheckedClass(&c.Classes[i]))
	}
	for _, s := range c.Forwarding.Static {
		r.Static = append(r.Static, checkedStatic{s.MAC.String(), s.VLAN, s.Device})
	}
	return r
}

func newCheckedPort(c *config.Config, p *config.Port) checkedPort {
	checked := checkedPort{
		Device: p.Device, Speed: p.Speed, LinkSpeed: p.LinkSpeed, MTU: p.MTU, Parts: p.Parts,
		Link: p.Link, PVID: p.PVID,
		ETS: p.ETSName, QoS: p.QoSName,
		DefaultCoS: p.DefaultCoS, STag: p.STag, FlowControl: p.FlowControl, MACLimit: p.MACLimit,
		Storm: checkedStorm(p.Storm),
	}
	for _, v := range p.VLANs {
		text := fmt.Sprint(v.First)
		if v.First < v.Last {
			text += fmt.Sprintf("-%d", v.Last)
		}
		checked.VLANs = append(checked.VLANs, text)
	}
	if slices.ContainsFunc(c.Classes, func(class config.Class) bool { return class.Lossless && class.Headroom == 0 }) {
		checked.Headroom = p.Headroom
	}
	if p.Peer >= 0 {
		checked.Wire = c.Ports[p.Peer].Device
	}
	if p.Pauses() {
		ring := params.RingSize(c)
		checked.Pause = &checkedPause{
			NS: int64(p.PauseTime(c.PFC.Quanta)), RefreshNS: int64(p.PauseTime(p.Refresh)),
			ResponseNS: int64(p.Response),
			LeastNS:    int64(params.LeastResponse(c, p)), Ring: ring, RingWaitsNS: int64(p.RingTime(ring)),
		}
	}
	return checked
}

func newCheckedProfile(c *config.Config, e *config.ETSProfile, ports []string) checkedProfile {
	profile := checkedProfile{Name: e.Name, Ports: ports}
	for _, g := range e.Groups {
		group := checkedGroup{
			PG: g.PG, Name: g.Name, Strict: g.PG == config.StrictGroup, Weight: g.Weight, Inner: g.Inner, Rate: g.Rate,
			Burst: g.Burst,
		}
		for _, cos := range slices.Sorted(slices.Values(g.CoS)) {
			q := e.Queue(cos)
			group.Queues = append(group.Queues, checkedQueue{
				CoS: cos, Class: c.Class(cos).Name, Weight: q.Weight, Least: e.Least(cos), Rate: q.Rate, Burst: q.Burst,
			})
		}
		profile.Groups = append(profile.Groups, group)
	}
	slices.SortFunc(profile.Groups, func(a, b checkedGroup) int {
		switch {
		case a.Strict:
			return -1
		case b.Strict:
			return 1
		}
		return a.PG - b.PG
	})
	return profile
}

func newCheckedClass(c *config.Class) checkedClass {
	checked := checkedClass{
		Name: c.Name, CoS: c.CoS, Lossless: c.Lossless, Reserved: c.Reserved,
		Share: c.Share, Alpha: float64(c.Alpha) / cells.AlphaUnit, Headroom: c.Headroom, XON: c.XON,
		XONOffset:  c.XONOffset,
		QueueLimit: c.QueueLimit, QueueAlpha: float64(c.QueueAlpha) / cells.AlphaUnit, ECN: c.ECN,
	}
	if w := c.WRED; w.Max > 0 {
		checked.WRED = &checkedWRED{Min: w.Min, Max: w.Max, Probability: w.Probability}
	}
	return checked
}

// pairs converts a table of a domain to a map, without the unmapped values.
func pairs(table []int) map[string]int {
	m := map[string]int{}
	for from, to := range table {
		if to != config.Unmapped {
			m[fmt.Sprint(from)] = to
		}
	}
	return m
}
