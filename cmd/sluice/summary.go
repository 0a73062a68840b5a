package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"sluice/internal/state"
)

// summary prints the final counters of a switch.
func summary(w io.Writer, r *state.Switch, asJSON bool) error {
	if asJSON {
		return writeDocument(w, r)
	}
	fmt.Fprintln(w, r.Headline())
	if r.PauseStorms > 0 {
		fmt.Fprintf(w, "pause storms: %d\n", r.PauseStorms)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "port\treceived\tsent\tdropped\tPFC sent\tPFC received\tlost in driver\t")
	for i := range r.Ports {
		p := &r.Ports[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", p.Name, p.Received, p.Sent, p.Dropped, p.PFC.Frames,
			p.PFC.Received, p.Driver.Lost())
	}
	return t.Flush()
}
