package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/console"
	"sluice/internal/state"
)

// showOptions are the flags common to all views of show.
type showOptions struct {
	socket  string
	asJSON  bool
	nonzero bool
	watch   time.Duration // 0: once
	filter  filter
}

// view is one view of show. Its JSON is a part of the switch's state, and its tables are made from
// that part.
type view struct {
	use, short string
	draws      part
	tables     func(*state.Switch) []table
}

// part is a set of fields of state.Switch that not all views have. The other fields are in every
// view's JSON.
type part uint8

const (
	partPorts part = 1 << iota
	partAlarms
	partWorkers
	partFDB // needs a request of its own
)

func showCommand() *cobra.Command {
	var o showOptions
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the state of a running switch: ports, pauses, queues, drops",
		Long: `Prints the state of a running switch on this machine as tables. The first line has
the number of lossless frames dropped for lack of room, which must be 0. Without a
sub-command, show prints an overview; with --json, that is the whole state except for
the FDB.

Sizes of priority groups, queues and pools are in cells, as used/limit. A watermark is the highest
value since the watermarks were cleared (in SONiC: a user watermark); a persistent watermark is the
highest value since the start.

Filters limit a view to some ports, classes of service or VLANs. Each may be given several times, or
with several values separated by commas. Tables that do not distinguish what a filter names are left
out; the first line is always that of the whole switch. The views that take each filter:

` + filterHelp(),
		Example: `  sluice show                       # an overview
  sluice show pfc --history         # which port paused whom, and when
  sluice show drops --nonzero       # what was dropped, and why
  sluice show queues --watch 500ms  # refresh every 500 ms, until interrupted
  sluice show pg --port eth0 --cos 3,4`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c, overview) },
	}
	flags := c.PersistentFlags()
	socketFlag(c, &o.socket)
	flags.BoolVar(&o.asJSON, "json", false, "print one JSON document, or with --watch one per line")
	flags.BoolVar(&o.nonzero, "nonzero", false, "hide rows that count nothing")
	flags.DurationVar(&o.watch, "watch", 0, "refresh at this interval, until interrupted or no switch answers")
	flags.Lookup("watch").NoOptDefVal = "1s"
	for _, v := range views {
		c.AddCommand(&cobra.Command{Use: v.use, Aliases: aliases[v.use], Short: v.short, Args: o.interval,
			RunE: func(c *cobra.Command, _ []string) error {
				return o.run(c, v.draw)
			}})
	}
	c.AddCommand(showPortsCommand(&o), showDropsCommand(&o), showPFCCommand(&o), showWatermarksCommand(&o),
		showConfigCommand(&o))
	for _, view := range c.Commands() {
		o.filter.declare(view)
	}
	return c
}

// socketFlag declares --socket for a command and its sub-commands.
func socketFlag(c *cobra.Command, socket *string) {
	c.PersistentFlags().StringVar(socket, "socket", console.DefaultSocket,
		"control.socket of the switch")
}

// interval accepts a time that follows --watch after a space, and rejects any other argument.
func (o *showOptions) interval(c *cobra.Command, args []string) error {
	if len(args) > 0 && c.Flags().Changed("watch") {
		if d, err := time.ParseDuration(args[0]); err == nil {
			if len(args) > 1 { // a sub-command that cobra took for an argument
				return fmt.Errorf("write --watch %s after %s, or --watch=%s", args[0], args[1], args[0])
			}
			o.watch = d
			return nil
		}
	}
	return cobra.NoArgs(c, args)
}

// drawing requests the state of the switch and writes it to out.
type drawing func(ctx context.Context, o *showOptions, c *console.Client, out io.Writer) error

// run draws once, or repeatedly with --watch. Interrupting a watch is not an error.
func (o *showOptions) run(c *cobra.Command, draw drawing) error {
	if err := o.filter.checkRanges(); err != nil {
		return err
	}
	if o.asJSON && o.nonzero {
		return cli.Usage(errors.New("--nonzero hides rows of tables, and --json prints none: leave one of them out"))
	}
	client := console.Dial(o.socket)
	ctx, out := c.Context(), c.OutOrStdout()
	if !c.Flags().Changed("watch") {
		return draw(ctx, o, client, out)
	}
	if err := checkInterval("--watch", o.watch); err != nil {
		return err
	}
	window := newTerminal(c.InOrStdin(), out)
	if o.asJSON {
		window = nil
	}
	for next := time.NewTicker(o.watch); ; {
		var b bytes.Buffer
		failure := draw(ctx, o, client, &b)
		var losses lossError
		if failure != nil && !errors.As(failure, &losses) { // lossError: the view was drawn, so show it
			if ctx.Err() != nil {
				return nil
			}
			return failure
		}
		switch {
		case window != nil:
			width, height := window.size()
			redraw(&b, width, height)
		case !o.asJSON:
			b.WriteByte('\n')
		}
		if _, err := out.Write(b.Bytes()); err != nil || failure != nil {
			return cmp.Or(failure, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

// redraw converts a drawing to one that overwrites the previous one in the window (ECMA-48: cursor
// home, erase each line, and at the last line all below). Lines that are too long continue on the
// next line. Lines that don't fit in the window are left out at the end, so that the first line
// stays visible.
func redraw(b *bytes.Buffer, width, height int) {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(b.String(), "\n"), "\n") {
		lines = append(lines, folded(line, width)...)
	}
	room := max(height-1, 1) // the cursor stays on the last line
	if len(lines) > room {
		seen := max(room-1, 1)
		more := folded(fmt.Sprintf("… and %d more lines", len(lines)-seen), width)[0]
		lines = append(lines[:seen], more)[:room]
	}
	b.Reset()
	b.WriteString(cursorHome)
	last := len(lines) - 1
	for _, line := range lines[:last] {
		b.WriteString(clearLine + line + "\n")
	}
	b.WriteString(clearBelow + lines[last])
	if height > 1 {
		b.WriteByte('\n')
	}
}

// folded splits a line into pieces as wide as the window.
func folded(line string, width int) (pieces []string) {
	all := []rune(line)
	for ; len(all) > width; all = all[width:] {
		pieces = append(pieces, string(all[:width]))
	}
	return append(pieces, string(all))
}

// draw requests the state and prints the view.
func (v *view) draw(ctx context.Context, o *showOptions, c *console.Client, out io.Writer) error {
	r, headline, err := o.ask(ctx, c, v.draws)
	if err != nil {
		return err
	}
	return o.print(out, r, headline, v.tables)
}

// ask returns the part of the state that a view draws, filtered, and the first line of all views,
// which covers the whole switch.
func (o *showOptions) ask(ctx context.Context, c *console.Client, draws part) (r *state.Switch, headline string,
	err error) {
	if r, err = c.State(ctx); err != nil {
		return nil, "", err
	}
	if err := o.filter.checkPorts(r); err != nil {
		return nil, "", err
	}
	headline = r.Headline()
	if draws&partPorts == 0 {
		r.Ports = nil
	}
	if draws&partAlarms == 0 {
		r.Alarms = nil
	}
	if draws&partWorkers == 0 {
		r.Workers = nil
	}
	if draws&partFDB != 0 {
		r.FDB, err = c.FDB(ctx)
	}
	o.filter.apply(r)
	return r, headline, err
}

// print writes the state as JSON, or the text first and then the tables.
func (o *showOptions) print(out io.Writer, r *state.Switch, first string, tables func(*state.Switch) []table) error {
	if o.asJSON {
		return writeDocument(out, r)
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, first)
	for _, t := range tables(r) {
		if !o.filter.passes(&t) {
			continue
		}
		if o.nonzero {
			t.hideZeros()
		}
		fmt.Fprintln(&b)
		t.print(&b)
	}
	_, err := out.Write(b.Bytes())
	return err
}

// overview draws the most important tables. Its JSON has no FDB.
func overview(ctx context.Context, o *showOptions, c *console.Client, out io.Writer) error {
	r, headline, err := o.ask(ctx, c, partPorts|partAlarms|partWorkers)
	if err != nil {
		return err
	}
	return o.print(out, r, headline+"\n"+conditions(r), func(r *state.Switch) []table {
		return slices.Concat(portTables(r), poolTables(r), workerTables(r))
	})
}

// conditions returns the lines about the switch as a whole.
func conditions(r *state.Switch) string {
	var out strings.Builder
	up, shut := 0, ""
	for i := range r.Ports {
		p := &r.Ports[i]
		if p.Up {
			up++
		}
		if p.Shut {
			shut += " " + p.Name
		}
	}
	if r.Version != "" { // older switches don't report it
		fmt.Fprintf(&out, "sluice %s, ", r.Version)
	}
	fmt.Fprintf(&out, "running for %s, %d of %d ports up, pause storms: %d\n", span(r.UptimeNS), up, len(r.Ports),
		r.PauseStorms)
	if shut != "" {
		fmt.Fprintf(&out, "shut by the operator:%s\n", shut)
	}
	if r.CountersCleared != nil {
		fmt.Fprintf(&out, "counters cleared at %s\n", state.Clock(*r.CountersCleared, r.Time))
	}
	k := &r.Configuration
	fmt.Fprintf(&out, "configuration %s, number %d, loaded at %s\n", k.File, k.Generation,
		state.Clock(k.LoadedAt, r.Time))
	if k.Error != "" {
		fmt.Fprintf(&out, "the last reload, at %s, was refused and changed nothing:\n%s\n",
			state.Clock(k.TriedAt, r.Time), k.Error)
	}
	return strings.TrimSuffix(out.String(), "\n")
}
