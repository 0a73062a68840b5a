package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/report/console"
	"sluice/internal/report/show"
	"sluice/internal/state"
)

// showOptions are the flags common to all views of show.
type showOptions struct {
	socket string
	asJSON bool
	watch  time.Duration // 0: once
	text   show.Options
}

// views are the sub-commands of show without flags of their own.
var views = []struct {
	use, short string
	aliases    []string // some of them from SONiC
	view       show.View
}{
	{"pg", "Show usage, watermarks and drops of priority groups", []string{"priority-groups", "priority-group"},
		show.PriorityGroups},
	{"queues", "Show depth, sent frames and drops of egress queues", []string{"queue"}, show.Queues},
	{"pfcwd", "Show the watchdogs, and pause storms now and so far", nil, show.Watchdogs},
	{"fdb", "Show the FDB entries, and counters of learning", []string{"mac"}, show.FDB},
	{"ets", "Show groups, weights and sent frames of egress queues", nil, show.ETS},
	{"workers", "Show the load of the workers, and the gaps of their loops", nil, show.Workers},
}

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
  sluice show pg --port eth0 --cos 3,4
  sluice show dcbx --port eth0      # what both ends have, and what runs
  sluice show fcoe                  # FCoE sessions, and what was refused`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c, draw(show.Overview)) },
	}
	flags := c.PersistentFlags()
	socketFlag(c, &o.socket)
	flags.BoolVar(&o.asJSON, "json", false, "print one JSON document, or with --watch one per line")
	flags.BoolVar(&o.text.Nonzero, "nonzero", false, "hide rows that count nothing")
	flags.DurationVar(&o.watch, "watch", 0, "refresh at this interval, until interrupted or no switch answers")
	flags.Lookup("watch").NoOptDefVal = "1s"
	for _, v := range views {
		c.AddCommand(&cobra.Command{Use: v.use, Aliases: v.aliases, Short: v.short, Args: o.interval,
			RunE: func(c *cobra.Command, _ []string) error { return o.run(c, draw(v.view)) }})
	}
	c.AddCommand(showPortsCommand(&o), showDropsCommand(&o), showPFCCommand(&o), showWatermarksCommand(&o),
		showConfigCommand(&o), showLLDPCommand(&o), showDCBXCommand(&o), showFCoECommand(&o))
	for _, view := range c.Commands() {
		declareFilters(view, "", &o.text.Filter)
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
	if err := checkRanges(&o.text.Filter); err != nil {
		return err
	}
	if o.asJSON && o.text.Nonzero {
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

// draw returns the drawing of a view.
func draw(v show.View) drawing {
	return func(ctx context.Context, o *showOptions, c *console.Client, out io.Writer) error {
		r, headline, err := o.ask(ctx, c, v.Draws)
		if err != nil {
			return err
		}
		return o.print(out, r, headline, v)
	}
}

// ask returns the part of the state that a view draws, filtered, and the first line of all views,
// which covers the whole switch.
func (o *showOptions) ask(ctx context.Context, c *console.Client, draws show.Part) (r *state.Switch, headline string,
	err error) {
	if r, err = c.State(ctx); err != nil {
		return nil, "", err
	}
	if err := o.text.Filter.CheckPorts(r); err != nil {
		return nil, "", err
	}
	headline = r.Headline()
	if draws&show.PartFDB != 0 {
		r.FDB, err = c.FDB(ctx)
	}
	draws.Cut(r)
	o.text.Filter.Apply(r)
	return r, headline, err
}

// print writes the state as JSON, or a view of it.
func (o *showOptions) print(out io.Writer, r *state.Switch, headline string, v show.View) error {
	if o.asJSON {
		return writeDocument(out, r)
	}
	return v.Print(out, r, headline, &o.text)
}
