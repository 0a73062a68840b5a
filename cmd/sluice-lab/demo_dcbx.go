package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/bench/traffic"
	"sluice/internal/cli"
	"sluice/internal/state"
	"sluice/internal/text/prose"
)

// demoAgreement is what the switch and the host at a port have agreed on.
type demoAgreement struct {
	Port     string `json:"port"`
	State    string `json:"state"`        // of PFC, as in `sluice show dcbx`
	Lossless []int  `json:"lossless"`     // CoS that are lossless at the port
	Honoured []int  `json:"host_honours"` // priorities on which the host honours PFC
}

// pfc says who has PFC.
func (o *demoOptions) pfc() string {
	switch {
	case o.noPFC:
		return "off"
	case o.dcbx == dcbxOn:
		return "as agreed by DCBX"
	case o.dcbx == dcbxOff:
		return "off: hosts without DCBX"
	}
	return "on"
}

// negotiate has host i honour PFC as --dcbx says.
func (d *demo) negotiate(i int, p *traffic.Params) (err error) {
	switch d.dcbx {
	case dcbxOn:
		p.Priorities, p.Held = 0, i != demoSenders
		p.DCBX, err = traffic.NewNegotiator(traffic.NegotiatorParams{MAC: p.MAC, Name: fmt.Sprintf("host%d", i+1)})
	case dcbxOff:
		p.Priorities = 0
	}
	return err
}

// agree waits until switch and hosts have agreed that CoS 3 is lossless, and begins to send.
func (d *demo) agree(ctx context.Context) error {
	if d.dcbx != dcbxOn {
		return nil
	}
	const patience = 20 * time.Second
	for began := time.Now(); ; {
		if err := cli.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		all, err := d.agreements()
		switch {
		case err != nil:
			return err
		case !slices.ContainsFunc(all, func(a demoAgreement) bool { return !a.complete() }):
			fmt.Fprintf(d.out, "DCBX: all hosts have learned from the switch that CoS %d is lossless\n", demoLossless)
			d.hosts.Begin()
			return nil
		case time.Since(began) > patience:
			return errors.New("demo: DCBX has not agreed within " + patience.String() + ":\n" + agreementTable(all))
		}
	}
}

// complete reports whether both ends have PFC for the lossless class.
func (a *demoAgreement) complete() bool {
	return slices.Contains(a.Lossless, demoLossless) && slices.Contains(a.Honoured, demoLossless)
}

// agreements returns what is agreed at each port.
func (d *demo) agreements() (all []demoAgreement, err error) {
	r, err := d.sw.Total()
	if err != nil {
		return nil, err
	}
	hosts := map[string][]int{} // priorities by port
	for i, s := range d.hosts.Stats() {
		if s.DCBX != nil {
			hosts[d.sw.config.Ports[demoOrder[i]].Device] = s.DCBX.PFC
		}
	}
	for i := range r.Ports {
		p := &r.Ports[i]
		a := demoAgreement{Port: p.Name, Lossless: []int{}, Honoured: append([]int{}, hosts[p.Name]...)}
		if p.DCBX != nil {
			pfc := slices.IndexFunc(p.DCBX.Features, func(f state.DCBXFeature) bool { return f.Feature == "pfc" })
			a.State = p.DCBX.Features[pfc].State
		}
		for _, c := range p.ByCoS {
			if c.Lossless {
				a.Lossless = append(a.Lossless, c.CoS)
			}
		}
		all = append(all, a)
	}
	return all, nil
}

// agreementTable returns a table of agreements, or nothing if there are none.
func agreementTable(all []demoAgreement) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PORT\tDCBX\tLOSSLESS AT THE PORT\tHONOURED BY THE HOST")
	for _, a := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", a.Port, a.State, priorities(a.Lossless), priorities(a.Honoured))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// priorities lists priorities as `sluice show` does.
func priorities(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	return prose.Join(list, ",")
}
