package lldppeer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// LLDPDU is an LLDPDU as lldptool decodes it. A nil pointer means that a TLV is absent.
type LLDPDU struct {
	Text              map[string]string // all TLVs: the lines below each name, without indentation
	PFC               *PFC
	ETS               *ETSConfiguration
	ETSRecommendation *ETS
	Apps              []App // sorted
}

// PFC is the PFC configuration TLV (IEEE 802.1Qaz).
type PFC struct {
	Willing    bool
	MBC        bool  // MACsec bypass capability
	Capability int   // how many traffic classes may have PFC
	Enabled    uint8 // bitmap of priorities
}

// ETSConfiguration is the ETS configuration TLV (IEEE 802.1Qaz).
type ETSConfiguration struct {
	Willing bool
	CBS     bool // credit-based shaper supported
	MaxTCs  int
	ETS
}

// parseLLDPDU parses the output of lldptool -t: the name of each TLV in a line, its contents in
// indented lines below.
func parseLLDPDU(t *testing.T, text string) (d LLDPDU) {
	t.Helper()
	d.Text = map[string]string{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		contents := strings.TrimLeft(line, "\t ")
		// After an empty application table, the next name is in the same line.
		if empty := d.Text[name] == "" && strings.HasSuffix(contents, " TLV"); contents != line && !empty {
			d.Text[name] += contents + "\n"
			continue
		}
		name = contents
		if _, twice := d.Text[name]; twice {
			t.Fatalf("lldptool prints %q twice:\n%s", name, text)
		}
		d.Text[name] = ""
	}
	if err := d.decode(); err != nil {
		t.Fatalf("unexpected output of lldptool: %v\n%s", err, text)
	}
	return d
}

// decode decodes the TLVs of DCBX.
func (d *LLDPDU) decode() error {
	var errs []error
	if text, found := d.Text["IEEE 8021QAZ PFC TLV"]; found {
		d.PFC = &PFC{Willing: value(text, "Willing") == "yes", MBC: value(text, "MACsec Bypass Capable") == "yes"}
		errs = append(errs, scan(value(text, "PFC capable traffic classes"), "%d", &d.PFC.Capability),
			d.PFC.parsePriorities(value(text, "PFC enabled")))
	}
	if text, found := d.Text["IEEE 8021QAZ ETS Configuration TLV"]; found {
		d.ETS = &ETSConfiguration{Willing: value(text, "Willing") == "yes", CBS: value(text, "CBS") == "supported"}
		errs = append(errs, scan(value(text, "MAX_TCS"), "%d", &d.ETS.MaxTCs), d.ETS.ETS.parse(text))
	}
	if text, found := d.Text["IEEE 8021QAZ ETS Recommendation TLV"]; found {
		d.ETSRecommendation = &ETS{}
		errs = append(errs, d.ETSRecommendation.parse(text))
	}
	for line := range strings.Lines(d.Text["IEEE 8021QAZ APP TLV"]) {
		errs = append(errs, d.parseApps(strings.Join(strings.Fields(line), " ")))
	}
	d.Apps = sorted(d.Apps)
	return errors.Join(errs...)
}

// value returns what follows "key:" in a line.
func value(text, key string) string {
	for line := range strings.Lines(text) {
		if v, found := strings.CutPrefix(line, key+":"); found {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func scan(text, format string, to ...any) error {
	if _, err := fmt.Sscanf(text, format, to...); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}

// parsePriorities parses a list such as "3 4", or "none".
func (p *PFC) parsePriorities(list string) error {
	if list == "none" {
		return nil
	}
	for _, word := range strings.Fields(list) {
		var priority uint
		if err := scan(word, "%d", &priority); err != nil {
			return err
		}
		p.Enabled |= 1 << priority
	}
	return nil
}

// parse parses the lines of a table: "PRIO_MAP: 0:0 1:0 …", "TC Bandwidth: 50% 50% …" and
// "TSA_MAP: 0:ets 1:strict …".
func (e *ETS) parse(text string) error {
	algorithms := map[string]uint8{"strict": Strict, "cbshaper": CreditBased, "ets": Weighted, "vendor": Vendor}
	tc, bandwidth := strings.Fields(value(text, "PRIO_MAP")), strings.Fields(value(text, "TC Bandwidth"))
	tsa := strings.Fields(value(text, "TSA_MAP"))
	if len(tc) != 8 || len(bandwidth) != 8 || len(tsa) != 8 {
		return fmt.Errorf("a table without 8 entries in each line: %q", text)
	}
	for i := range 8 {
		if err := scan(tc[i], fmt.Sprint(i, ":%d"), &e.TC[i]); err != nil {
			return err
		}
		if err := scan(bandwidth[i], "%d%%", &e.Bandwidth[i]); err != nil {
			return err
		}
		algorithm, found := algorithms[strings.TrimPrefix(tsa[i], fmt.Sprint(i, ":"))]
		if !found {
			return fmt.Errorf("unknown algorithm %q", tsa[i])
		}
		e.TSA[i] = algorithm
	}
	return nil
}

// parseApps parses a line of applications, such as "App# 0 Prio 3 Sel 1 P-ID Ethertype: 0x8906" or
// "Prio:3 dscp: 46, 48\b", which has all codepoints of a priority.
func (d *LLDPDU) parseApps(line string) error {
	head, protocols, _ := strings.Cut(line, ": ")
	a := App{Selector: DSCP}
	if scan(head, "Prio:%d dscp", &a.Priority) != nil {
		var number int
		head, _, _ = strings.Cut(head, " P-ID")
		if err := scan(head, "App# %d Prio %d Sel %d", &number, &a.Priority, &a.Selector); err != nil {
			return err
		}
	}
	for protocol := range strings.SplitSeq(strings.TrimRight(protocols, ",\b "), ", ") {
		format := "%v" // decimal or 0x…
		if a.Selector == DSCP {
			format = "%d" // with a leading 0
		}
		if err := scan(protocol, format, &a.Protocol); err != nil {
			return err
		}
		d.Apps = append(d.Apps, a)
	}
	return nil
}
