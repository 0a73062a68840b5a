package show

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/state"
	"sluice/internal/text/prose"
)

// LLDP shows the counters of LLDP.
var LLDP = View{Draws: PartPorts, tables: lldpTables}

const lldpOff = "LLDP is off at these ports."

func lldpTables(r *state.Switch) []table {
	t := table{apart: byPort, none: lldpOff, columns: []column{
		text("PORT"), text("MODE"), number("NEIGHBORS"), count("TX"), count("RX"), count("MALFORMED"), count("BAD TLV"),
		count("AGED OUT"), count("NO ROOM"),
	}}
	for i := range r.Ports {
		p := &r.Ports[i]
		l := p.LLDP
		if l == nil {
			continue
		}
		t.rows = append(t.rows, []any{p.Name, l.Mode, len(l.Neighbors), l.Sent, l.Received, l.Malformed, l.BadTLVs,
			l.AgedOut, l.NoRoom})
		if l.LastProblem != "" {
			t.notes = append(t.notes, p.Name+": the last malformed LLDPDU or TLV: "+l.LastProblem)
		}
	}
	return []table{t}
}

// LLDPNeighbors shows the neighbours of each port: one line each, or all that they said.
func LLDPNeighbors(detail bool) View {
	if detail {
		return View{Draws: PartPorts, tables: neighborDetails}
	}
	return View{Draws: PartPorts, tables: neighborTable}
}

func neighborTable(r *state.Switch) []table {
	t := table{apart: byPort, none: "none", columns: []column{
		text("PORT"), long("SYSTEM"), long("PORT ID"), long("DESCRIPTION"), text("CAP"), number("TTL"), number("AGE"),
	}}
	var seen []string
	eachNeighbor(r, func(p *state.Port, n *state.Neighbor) {
		t.rows = append(t.rows, []any{p.Name, systemOf(n), n.PortID, n.PortDescription,
			letters(n.EnabledCapabilities), seconds(n.TTLNS), age(n.LLDPDU.AgeNS)})
		seen = append(seen, n.EnabledCapabilities...)
	})
	if !anyLLDP(r) {
		t.none = lldpOff
	}
	if legend := capabilityLegend(seen); legend != "" {
		t.notes = []string{legend}
	}
	return []table{t}
}

// eachNeighbor calls a function for each neighbour of each port.
func eachNeighbor(r *state.Switch, do func(*state.Port, *state.Neighbor)) {
	for i := range r.Ports {
		if p := &r.Ports[i]; p.LLDP != nil {
			for j := range p.LLDP.Neighbors {
				do(p, &p.LLDP.Neighbors[j])
			}
		}
	}
}

func anyLLDP(r *state.Switch) bool {
	return slices.ContainsFunc(r.Ports, func(p state.Port) bool { return p.LLDP != nil })
}

// systemOf names a neighbour: by its system name, or by its chassis ID.
func systemOf(n *state.Neighbor) string { return cmp.Or(n.SystemName, n.ChassisID) }

// capabilityLetters are the letters that switches show for capabilities (IEEE 802.1AB table 8-4).
var capabilityLetters = []struct{ name, letter string }{
	{"bridge", "B"}, {"router", "R"}, {"station", "S"}, {"wlan", "W"}, {"telephone", "T"}, {"repeater", "P"},
	{"docsis", "C"},
}

const otherCapability = "O"

// letters returns the letters of capabilities.
func letters(capabilities []string) (all string) {
	for _, c := range capabilityLetters {
		if slices.Contains(capabilities, c.name) {
			all += c.letter
		}
	}
	if len(all) < len(capabilities) {
		all += otherCapability
	}
	return all
}

// capabilityLegend explains the letters of these capabilities.
func capabilityLegend(capabilities []string) string {
	var words []string
	for letter := range strings.SplitSeq(letters(slices.Compact(slices.Sorted(slices.Values(capabilities)))), "") {
		name := "other"
		for _, c := range capabilityLetters {
			if c.letter == letter {
				name = c.name
			}
		}
		words = append(words, letter+" "+name)
	}
	if len(words) == 0 {
		return ""
	}
	return "CAP: " + strings.Join(words, ", ")
}

// seconds is a time in ns, printed in s.
type seconds int64

func (s seconds) String() string { return fmt.Sprintf("%ds", time.Duration(s)/time.Second) }

// age is a time in ns, printed rounded to seconds.
type age int64

func (a age) String() string { return time.Duration(a).Round(time.Second).String() }

func neighborDetails(r *state.Switch) (all []table) {
	eachNeighbor(r, func(p *state.Port, n *state.Neighbor) {
		t := table{title: fmt.Sprintf("%s: %s, %s", p.Name, systemOf(n), n.PortID), apart: byPort}
		pairs := []fact{
			{"MAC address", n.MAC},
			{"known for", age(n.KnownNS).String()},
			{"received", fmt.Sprintf("%v ago; valid for %v, %v left", age(n.LLDPDU.AgeNS), seconds(n.TTLNS),
				seconds(n.ExpiresInNS))},
		}
		for _, tlv := range n.LLDPDU.TLVs {
			if tlv.Type != tlvEnd {
				pairs = append(pairs, fact{tlv.Name, valueOf(&tlv)})
			}
		}
		t.body = facts(pairs)
		all = append(all, t)
	})
	if len(all) == 0 {
		return neighborTable(r) // that says why there is none
	}
	return all
}

// valueOf returns the decoded value of a TLV, or the value in hexadecimal, and what is wrong with
// it.
func valueOf(t *state.TLV) string {
	value := cmp.Or(t.Text, t.Hex)
	if t.Wrong != "" {
		value = strings.TrimSpace(value + " (not valid: " + t.Wrong + ")")
	}
	return value
}

// fact is a named value.
type fact struct{ name, value string }

// facts returns one paragraph per fact: the names in a column, the values wrapped beside it.
func facts(all []fact) (lines []string) {
	width := 0
	for _, f := range all {
		width = max(width, utf8.RuneCountInString(f.name))
	}
	width = min(width, Width/3)
	for _, f := range all {
		for i, value := range wrapped(OrNothing(f.value), Width-width-4) {
			name := f.name
			if i > 0 {
				name = ""
			}
			lines = append(lines, fmt.Sprintf("  %-*s  %s", width, name, value))
		}
	}
	return lines
}

// wrapped breaks text into lines that are at most width wide, within words if they are longer.
func wrapped(text string, width int) (lines []string) {
	for line := range strings.SplitSeq(prose.Wrap(printable(text), width, ""), "\n") {
		runes := []rune(line)
		for ; len(runes) > width; runes = runes[width:] {
			lines = append(lines, string(runes[:width]))
		}
		lines = append(lines, string(runes))
	}
	return lines
}

// rawTables shows the last LLDPDUs of each port, decoded and in hexadecimal.
func rawTables(r *state.Switch) (all []table) {
	add := func(title string, d *state.LLDPDU) {
		all = append(all, table{title: fmt.Sprintf("%s, %v ago, %d bytes:", title, age(d.AgeNS), len(d.Hex)/2),
			apart: byPort, body: dump(d)})
	}
	for i := range r.Ports {
		p := &r.Ports[i]
		if p.LLDP == nil {
			continue
		}
		for j := range p.LLDP.Neighbors {
			n := &p.LLDP.Neighbors[j]
			add(fmt.Sprintf("%s: received from %s, %s", p.Name, systemOf(n), n.PortID), &n.LLDPDU)
		}
		if len(p.LLDP.Neighbors) == 0 {
			all = append(all, table{title: p.Name + ": received:", apart: byPort, none: "none: no neighbour is known"})
		}
		if d := p.LLDP.LastSent; d != nil {
			add(p.Name+": sent", d)
		} else {
			all = append(all, table{title: p.Name + ": sent:", apart: byPort, none: "none"})
		}
	}
	if len(all) == 0 {
		all = []table{{apart: byPort, none: lldpOff}}
	}
	return all
}

const (
	tlvEnd    = 0 // type of the last TLV
	tlvHeader = 2 // bytes of a TLV's type and length
)

// dump returns the lines of an LLDPDU: each TLV decoded, and below it its bytes with their offsets.
func dump(d *state.LLDPDU) (lines []string) {
	bytes, err := hex.DecodeString(d.Hex)
	if err != nil {
		return []string{"  " + err.Error()}
	}
	at := 0
	for i := range d.TLVs {
		t := &d.TLVs[i]
		if t.Type == tlvEnd {
			break
		}
		length := len(t.Hex) / 2
		end := min(at+tlvHeader+length, len(bytes))
		head := fmt.Sprintf("%s (type %d, %s)", t.Name, t.Type, prose.Count(length, "byte"))
		if value := valueOf(t); value != "" {
			head += ": " + value
		}
		for j, line := range wrapped(head, Width-4) {
			lines = append(lines, "  "+strings.Repeat("  ", min(j, 1))+line)
		}
		lines = append(lines, hexLines(bytes, at, end)...)
		at = end
	}
	if at+tlvHeader <= len(bytes) && bytes[at] == tlvEnd && bytes[at+1] == 0 {
		lines = append(append(lines, "  end"), hexLines(bytes, at, at+tlvHeader)...)
		at += tlvHeader
	}
	if at < len(bytes) {
		lines = append(append(lines, "  after the end"), hexLines(bytes, at, len(bytes))...)
	}
	return lines
}

// hexLines returns bytes from one offset to another in hexadecimal, 16 in a line.
func hexLines(bytes []byte, from, to int) (lines []string) {
	const perLine = 16
	for ; from < to; from += perLine {
		lines = append(lines, fmt.Sprintf("    %04x  % x", from, bytes[from:min(from+perLine, to)]))
	}
	return lines
}
