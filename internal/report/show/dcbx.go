package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/state"
)

const dcbxOff = "DCBX is off at these ports."

// DCBX shows the negotiation of each port, one line each; with detail, both ends side by side; with
// raw, the LLDPDUs that they exchanged.
func DCBX(detail, raw bool) View {
	v := View{Draws: PartPorts, tables: dcbxTable}
	if detail {
		v.tables = dcbxDetails
	}
	if !raw {
		return v
	}
	above := v.tables
	v.tables = func(r *state.Switch) []table { return append(above(r), rawTables(r)...) }
	return v
}

// The states of a DCBX peer.
const (
	onePeer   = "one"
	manyPeers = "multiple"
)

func dcbxTable(r *state.Switch) []table {
	t := table{apart: byPort, none: dcbxOff, columns: []column{
		text("PORT"), text("VERSION"), text("ROLE"), long("PEER"), text("LOSSLESS"), text("PFC"), text("ETS"),
		text("APP"),
	}}
	for i := range r.Ports {
		p := &r.Ports[i]
		d := p.DCBX
		if d == nil {
			continue
		}
		row := []any{p.Name, d.Version, d.Role, peerName(&d.Peer), losslessText(p)}
		for _, f := range []feature{pfcFeature, etsFeature, appFeature} {
			row = append(row, featureState(d, f))
		}
		t.rows = append(t.rows, row)
		t.notes = append(t.notes, dcbxNotes(p)...)
	}
	return []table{t}
}

// losslessText lists the priorities that are lossless at a port now, whether DCBX or the
// configuration says so.
func losslessText(p *state.Port) string {
	var all []int
	for i := range p.ByCoS {
		if c := &p.ByCoS[i]; c.Lossless && p.FlowControl != "off" {
			all = append(all, c.CoS)
		}
	}
	return cmp.Or(ranges(all), "none")
}

// featureState is the state of a feature, unless PEER says it: there is no peer, or several.
func featureState(d *state.DCBX, f feature) string {
	if d.Peer.State != onePeer {
		return Nothing
	}
	return featureOf(d, f).State
}

// dcbxNotes says which port is the source, and what the ends of a link disagree on.
func dcbxNotes(p *state.Port) (notes []string) {
	if p.DCBX.Source {
		notes = append(notes, p.Name+": the source: downstream ports recommend what it took from its peer")
	}
	for _, m := range p.DCBX.Mismatches {
		if m.Active {
			notes = append(notes, fmt.Sprintf("%s %s: %s", p.Name, m.Kind, m.Text))
		}
	}
	return notes
}

// feature is a feature of DCBX: its name in the state, and as a title.
type feature struct{ name, title string }

var (
	pfcFeature = feature{"pfc", "PFC"}
	etsFeature = feature{"ets", "ETS"}
	appFeature = feature{"app", "Applications"}
)

// featureOf returns a feature of a port, which is empty if the switch does not report it.
func featureOf(d *state.DCBX, f feature) *state.DCBXFeature {
	for i := range d.Features {
		if d.Features[i].Feature == f.name {
			return &d.Features[i]
		}
	}
	return &state.DCBXFeature{}
}

// peerName names the peer of a port.
func peerName(p *state.DCBXPeer) string {
	switch {
	case p.State == onePeer && len(p.Names) == 1:
		return p.Names[0]
	case p.State == manyPeers && len(p.Names) > 1:
		return fmt.Sprintf("%d peers", len(p.Names))
	}
	return p.State
}

func dcbxDetails(r *state.Switch) (all []table) {
	for i := range r.Ports {
		if p := &r.Ports[i]; p.DCBX != nil {
			all = append(all, dcbxSummary(p), pfcSides(p.DCBX), etsSides(p.DCBX), applicationSides(p.DCBX))
		}
	}
	if len(all) == 0 {
		return dcbxTable(r) // that says so
	}
	for i := range all {
		all[i].apart = byPort
	}
	return all
}

// dcbxSummary is what concerns all features of a port.
func dcbxSummary(p *state.Port) table {
	d := p.DCBX
	role := d.Role
	switch {
	case d.Source:
		role += ", the source: downstream ports recommend what it took from its peer"
	case d.SourcePort != "":
		role += ", with the settings that " + d.SourcePort + " took from its peer"
		if d.SourceKeptNS > 0 {
			role += fmt.Sprintf(", which is gone; they stay for %v", age(d.SourceKeptNS))
		}
	}
	of := []fact{{"version", fmt.Sprintf("%s (%s)", d.Version, cmp.Or(d.Why, d.Configured))}, {"role", role},
		{"peer", peerText(&d.Peer)},
		{"lossless", fmt.Sprintf("%s (flow_control: %s)", losslessText(p), p.FlowControl)}}
	if c := d.Peer.Control; c != nil {
		of = append(of, fact{"sequence", fmt.Sprintf("%d sent, acknowledged up to %d", c.Seq, c.PeerAck)})
		if c.PeerSeq > 0 { // numbers begin with 1: the peer has sent them
			of = append(of,
				fact{"peer's sequence", fmt.Sprintf("%d received, acknowledged up to %d", c.PeerSeq, c.Ack)},
				fact{"peer's version", fmt.Sprintf("%d, at most %d", c.OperVersion, c.MaxVersion)})
		}
	}
	for _, m := range d.Mismatches {
		if m.Active {
			of = append(of, fact{"mismatch", fmt.Sprintf("%s, for %v: %s", m.Kind, age(m.SinceNS), m.Text)})
		}
	}
	return table{title: p.Name + ":", body: facts(of)}
}

func peerText(p *state.DCBXPeer) string {
	switch p.State {
	case onePeer:
		return peerName(p)
	case manyPeers:
		return "several, so DCBX is off: " + strings.Join(p.Names, ", ")
	}
	return "none: no neighbour sends DCBX"
}

// sides returns the table of a feature, with a column for each end and for what runs, and the flags
// of the feature. further are the columns between.
func sides(d *state.DCBX, of feature, further ...string) table {
	f := featureOf(d, of)
	t := table{title: of.title + ": " + OrNothing(f.State),
		columns: []column{long(of.title), text("LOCAL"), text("PEER")}}
	for _, head := range append(further, "OPERATIONAL") {
		t.columns = append(t.columns, text(head))
	}
	disagree := func(m state.Mismatch) bool { return m.Active && m.Kind == of.name }
	said := d.Peer.State != onePeer || slices.ContainsFunc(d.Mismatches, disagree) // in the summary
	if f.Why != "" && !said {
		t.body = wrapped(f.Why, Width)
	}
	flag := func(name string, local, peer bool, runs string) {
		row := slices.Repeat([]any{Nothing}, len(t.columns))
		row[0], row[1], row[len(row)-1] = name, word(local), runs
		if f.PeerPresent {
			row[2] = word(peer)
		}
		t.rows = append(t.rows, row)
	}
	flag("enabled", f.Enabled, f.PeerEnabled, word(f.Operational))
	flag("willing", f.Willing, f.PeerWilling, Nothing)
	flag("error", f.Error, f.PeerError, Nothing)
	return t
}

func word(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// side returns a row of a feature: a value of the settings of each end, which are nil if unknown.
func side[Settings any](name string, ends []*Settings, value func(*Settings) string) []any {
	row := []any{name}
	for _, end := range ends {
		if end == nil {
			row = append(row, Nothing)
		} else {
			row = append(row, value(end))
		}
	}
	return row
}

func pfcSides(d *state.DCBX) table {
	t, ends := sides(d, pfcFeature), []*state.PFCSettings{d.Local.PFC, d.Remote.PFC, d.Operational.PFC}
	t.rows = append(t.rows, side("priorities", ends, pfcText),
		side("at most", ends, func(s *state.PFCSettings) string { return orUnknown(s.Capability) }),
		side("MACsec bypass", ends, func(s *state.PFCSettings) string { return word(s.MBC) }))
	return t
}

// pfcText lists the priorities with PFC.
func pfcText(s *state.PFCSettings) string {
	if s == nil {
		return Nothing
	}
	return cmp.Or(ranges(s.Priorities), "none")
}

func orUnknown(n int) string {
	if n == 0 {
		return Nothing
	}
	return fmt.Sprint(n)
}

func etsSides(d *state.DCBX) table {
	ends, further := []*state.ETSSettings{d.Local.ETS, d.Remote.ETS}, []string{}
	if d.Recommended.ETS != nil {
		ends, further = append(ends, d.Recommended.ETS), []string{"RECOMMENDED"}
	}
	ends = append(ends, d.Operational.ETS)
	t := sides(d, etsFeature, further...)
	for number := range 16 {
		row := side(fmt.Sprintf("TC %d", number), ends,
			func(s *state.ETSSettings) string { return trafficClass(s, number) })
		if slices.ContainsFunc(row[1:], func(value any) bool { return value != Nothing }) {
			t.rows = append(t.rows, row)
		}
	}
	t.rows = append(t.rows,
		side("TCs at most", ends, func(s *state.ETSSettings) string { return orUnknown(s.Capability) }),
		side("CBS", ends, func(s *state.ETSSettings) string { return word(s.CBS) }))
	return t
}

// trafficClass formats a traffic class as its priorities, and its share or how it is selected.
func trafficClass(s *state.ETSSettings, number int) string {
	for _, c := range s.TrafficClasses {
		if c.TC != number {
			continue
		}
		how := c.Algorithm
		if how == "ets" {
			how = fmt.Sprintf("%d%%", c.Bandwidth)
		}
		return fmt.Sprintf("%s: %s", OrNothing(ranges(c.Priorities)), how)
	}
	return Nothing
}

func applicationSides(d *state.DCBX) table {
	t := sides(d, appFeature)
	type protocol struct {
		selector string
		number   uint16
	}
	ends := [][]state.Application{d.Local.Applications, d.Remote.Applications, d.Operational.Applications}
	var order []protocol
	names, priorities := map[protocol]string{}, map[protocol][3][]int{}
	for end, all := range ends {
		for _, a := range all {
			p := protocol{a.Selector, a.Protocol}
			of, known := priorities[p]
			if !known {
				order = append(order, p)
			}
			of[end] = append(of[end], a.Priority)
			priorities[p], names[p] = of, ApplicationName(&a)
		}
	}
	for _, p := range order {
		cells := []any{names[p]}
		for _, list := range priorities[p] {
			cells = append(cells, ranges(list))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// ApplicationName names a protocol, with its number.
func ApplicationName(a *state.Application) string {
	number := fmt.Sprintf("%s %d", a.Selector, a.Protocol)
	if a.Selector == "ethertype" {
		number = fmt.Sprintf("ethertype 0x%04x", a.Protocol)
	}
	if a.Name == "" {
		return number
	}
	return fmt.Sprintf("%s (%s)", a.Name, number)
}

// ranges formats numbers in order, such as 0-2,4.
func ranges(numbers []int) string {
	var words []string
	all := slices.Compact(slices.Sorted(slices.Values(numbers)))
	for i := 0; i < len(all); {
		last := i
		for last+1 < len(all) && all[last+1] == all[last]+1 {
			last++
		}
		switch last - i {
		case 0:
			words = append(words, fmt.Sprint(all[i]))
		case 1:
			words = append(words, fmt.Sprint(all[i]), fmt.Sprint(all[last]))
		default:
			words = append(words, fmt.Sprintf("%d-%d", all[i], all[last]))
		}
		i = last + 1
	}
	return strings.Join(words, ",")
}
