package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"sluice/cells/headroom"
)

// headroomReport is the headroom by one method; method measured adds its measurement and the
// headroom that the peer needs.
type headroomReport struct {
	headroom.Result
	Gap     *gapReport       `json:"measured_gap,omitempty"`
	ForPeer *headroom.Result `json:"for_peer,omitempty"` // what the peer must reserve for the switch
}

// gapReport is the measurement of a worker's loop; times are in ns.
type gapReport struct {
	CPU        int    `json:"cpu"`
	Iterations uint64 `json:"iterations"`
	P50        int64  `json:"p50_ns"`
	P999       int64  `json:"p999_ns"`
	Max        int64  `json:"max_ns"`
	Wait       int64  `json:"wait_ns"` // the longest two gaps in a row
}

func (g *gapReport) String() string {
	return fmt.Sprintf(
		"measured on CPU %d over %d iterations: median gap %v, 99.9 %% within %v, longest %v, longest two in a row, "+
			"which count, %v",
		g.CPU, g.Iterations, time.Duration(g.P50), time.Duration(g.P999), time.Duration(g.Max), time.Duration(g.Wait))
}

// comparison is a row of the table of all methods: a headroom, or why there is none.
type comparison struct {
	Method headroom.Method  `json:"method"`
	Result *headroom.Result `json:"result,omitempty"`
	Error  string           `json:"error,omitempty"`
}

func (o *headroomOptions) print(w io.Writer, r *headroomReport) error {
	if o.json {
		return json.NewEncoder(w).Encode(r)
	}
	o.printLink(w)
	if r.Gap != nil {
		fmt.Fprintln(w, r.Gap)
	}
	fmt.Fprintln(w)
	if r.ForPeer != nil {
		fmt.Fprintln(w, "what the switch needs:")
	}
	o.printResult(w, &r.Result)
	if r.ForPeer != nil {
		fmt.Fprintln(w, "\nwhat the peer needs for the switch, in cells of the same size (from its point of "+
			"view: \"own\" is the peer, and \"peer\" the switch):")
		o.printResult(w, r.ForPeer)
	}
	return nil
}

func (o *headroomOptions) printLink(w io.Writer) {
	p := &o.params
	fmt.Fprintf(w, "link: %s, %s of %s; frames up to %d B from the switch, up to %d B of the class from the peer; "+
		"cells of %d B\n",
		o.speed.String(), o.cable.String(), p.Medium, p.MTUOwn, p.MTUPeer, p.Cell)
}

func (o *headroomOptions) printResult(w io.Writer, r *headroom.Result) {
	total := string(r.Method)
	widest := utf8.RuneCountInString(total)
	for _, t := range r.Terms {
		widest = max(widest, utf8.RuneCountInString(t.Name))
	}
	for _, t := range r.Terms {
		fmt.Fprintf(w, "  %-*s %12d B  (%s)\n", widest, t.Name, t.Bytes, t.Source)
	}
	fmt.Fprintf(w, "  %-*s %12d B\n", widest, total, r.Bytes)
	fmt.Fprintf(w, "headroom: %d cells of %d B = %d B", r.Cells, o.params.Cell, r.BufferBytes)
	if r.WorstFrame > 0 {
		fmt.Fprintf(w, "; the worst case has frames of %d B", r.WorstFrame)
	}
	fmt.Fprintln(w)
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note:", n)
	}
}

// compare prints all methods side by side.
func (o *headroomOptions) compare(w io.Writer, gap *gapReport) error {
	var all []comparison
	for _, m := range headroom.Methods() {
		c := comparison{Method: m}
		if r, err := o.compute(m, o.params); err != nil {
			c.Error = err.Error()
		} else {
			c.Result = &r
		}
		all = append(all, c)
	}
	if o.json {
		return json.NewEncoder(w).Encode(all)
	}
	o.printLink(w)
	if gap != nil {
		fmt.Fprintln(w, gap)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "method\tbytes\tcells\t+ crossing frame\ttotal\tbuffer\tworst frame\t")
	for _, c := range all {
		r := c.Result
		if r == nil {
			fmt.Fprintf(t, "%s\t–\t–\t–\t–\t–\t–\t\n", c.Method)
			continue
		}
		worst := "–"
		if r.WorstFrame > 0 {
			worst = fmt.Sprintf("%d B", r.WorstFrame)
		}
		together := r.Cells + r.Partial
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d B\t%s\t\n",
			c.Method, r.Bytes, r.Cells, r.Partial, together, together*o.params.Cell, worst)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range all {
		if c.Error != "" {
			fmt.Fprintln(w, "note:", c.Error)
		}
	}
	fmt.Fprintln(w, "note: `--method NAME` shows the terms of one method, and the errors of its document")
	return nil
}
