package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/console"
	"sluice/internal/state"
)

func showPFCCommand(o *showOptions) *cobra.Command {
	var history bool
	c := &cobra.Command{
		Use:   "pfc",
		Short: "PFC frames by priority, both ways, and how long they paused whom",
		Long: `PFC frames that name each priority, sent (TX) and received (RX), and the pauses that came of them: how many, how long in all, and
whether one lasts now. MAC control frames that the port did not obey are counted apart: cut off, of an unknown kind, of a flow control
that it does not do (IGNORED), or to another station (MISADDRESSED). With --history, the latest of them one by one, for each port.`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, tablesOf(only(func(r *state.Switch) []table {
				tables := pfcTables(r)
				if history {
					tables = append(tables, pfcHistory(r))
				}
				return tables
			})))
		},
	}
	c.Flags().BoolVar(&history, "history", false, "the latest pauses, one by one")
	return c
}

func pfcTables(r *state.Switch) []table {
	return []table{
		byPriority(r, "pfc_sent", "", "PORT TX", "PFC", func(c *state.CoS) uint64 {
			return c.PauseSent.XOFF + c.PauseSent.XON + c.PauseSent.Refreshes
		}),
		byPriority(r, "pfc_received", "", "PORT RX", "PFC", func(c *state.CoS) uint64 {
			return c.PauseReceived.XOFF + c.PauseReceived.XON + c.PauseReceived.Ignored
		}),
		pauseTable(r),
		controlTable(r),
	}
}

// controlTable shows which MAC control frames a port has received, and those that it did not obey, or not without a word.
func controlTable(r *state.Switch) table {
	t := table{key: "control", title: "MAC control frames received, none of which is forwarded:", none: "none", columns: []column{
		text("port", "PORT"), count("frames", "FRAMES"), count("short", "SHORT"), count("malformed", "MALFORMED"),
		count("unknown", "UNKNOWN"), count("ignored", "IGNORED"), count("misaddressed", "MISADDRESSED"),
	}}
	for i := range r.Ports {
		c := &r.Ports[i].Control
		t.rows = append(t.rows, []any{r.Ports[i].Name, c.Frames, c.Short, c.Malformed, c.Unknown, c.Ignored, c.Misaddressed})
	}
	return t
}

// pauseTable shows what the frames came to, for the priorities that may be paused or were.
func pauseTable(r *state.Switch) table {
	t := table{key: "pauses", title: "Pauses, of the peer (TX) and of us (RX):", none: "none", columns: []column{
		text("port", "PORT"), number("priority", "PRIORITY"), count("tx_pauses", "TX PAUSES"), count("tx_paused_ns", "TX TIME"),
		text("tx_now", "TX NOW"), count("rx_pauses", "RX PAUSES"), count("rx_paused_ns", "RX TIME"), text("rx_now", "RX NOW"),
		detail("tx_refreshes"), detail("tx_lapses"), detail("rx_ignored"),
	}}
	t.perCoS(r, func(p *state.Port, cos int, c *state.CoS) []any {
		sent, heard := &c.PauseSent, &c.PauseReceived
		if !c.Lossless && sent.XOFF+heard.Pauses+heard.Ignored == 0 {
			return nil
		}
		return []any{
			p.Name, cos, sent.XOFF, span(sent.PausedNS), yes{sent.Now, "paused"}, heard.Pauses, span(heard.PausedNS), yes{heard.Now, "paused"},
			sent.Refreshes, sent.Lapses, heard.Ignored,
		}
	})
	return t
}

// pfcHistory shows the latest pauses of each port and direction, the oldest first.
func pfcHistory(r *state.Switch) table {
	t := table{key: "history", title: "The latest, of the peer (TX) and of us (RX):", none: "none", columns: []column{
		text("port", "PORT"), text("direction", "DIR"), number("priority", "PRIORITY"), number("ago_ns", "AGO"), text("event", "EVENT"),
		number("quanta", "QUANTA"),
	}}
	for i := range r.Ports {
		p := &r.Ports[i]
		add := func(direction string, all []state.Transition) {
			for _, e := range all {
				t.rows = append(t.rows, []any{p.Name, direction, e.CoS, span(p.NowNS - e.AtNS), e.Cause, e.Quanta})
			}
		}
		add("tx", p.PausedPeer)
		add("rx", p.Paused)
	}
	return t
}

func showWatermarksCommand(o *showOptions) *cobra.Command {
	var persistent bool
	c := &cobra.Command{
		Use:   "watermarks",
		Short: "The most that groups, queues and pools have held",
		Long: `The most that priority groups, egress queues and pools have held since the watermarks were
cleared (sluice clear watermarks), or with --persistent since the start.`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, tablesOf(only(func(r *state.Switch) []table { return watermarkTables(r, persistent) })))
		},
	}
	c.Flags().BoolVar(&persistent, "persistent", false, "since the start, whatever was cleared")
	c.AddCommand(&cobra.Command{
		Use:   "clear",
		Short: "The same as sluice clear watermarks",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := console.Dial(o.socket).ClearWatermarks(c.Context())
			return err
		},
	})
	return c
}

func watermarkTables(r *state.Switch, persistent bool) []table {
	since, of := "since they were cleared", func(l *state.Level) int { return l.Peak }
	if persistent {
		since, of = "since the start", func(l *state.Level) int { return l.Max }
	}
	title := func(what string) string { return fmt.Sprintf("%s, cells of %d bytes, %s:", what, r.CellBytes, since) }
	most := func(level func(*state.CoS) *state.Level) func(*state.CoS) uint64 {
		return func(c *state.CoS) uint64 { return uint64(of(level(c))) }
	}
	pools := table{key: "pools", title: title("Pools"), columns: []column{
		number("worker", "WORKER"), text("pool", "POOL"), count("shared", "SHARED"), count("headroom", "HEADROOM"),
	}}
	for i := range r.Workers {
		w := &r.Workers[i]
		add := func(kind string, all []state.Pool) {
			for n := range all {
				pools.rows = append(pools.rows, []any{w.Number, fmt.Sprint(kind, n), of(&all[n].Shared), of(&all[n].Headroom)})
			}
		}
		add("ingress", w.Pools)
		add("egress", w.Egress)
	}
	return []table{
		byPriority(r, "shared", title("Shared cells of priority groups"), "PORT", "PG", most(func(c *state.CoS) *state.Level { return &c.Group.Shared })),
		byPriority(r, "headroom", title("Headroom of priority groups"), "PORT", "PG", most(func(c *state.CoS) *state.Level { return &c.Group.Headroom })),
		byPriority(r, "queues", title("Egress queues"), "PORT", "UC", most(func(c *state.CoS) *state.Level { return &c.Queue })),
		pools,
	}
}
