package show

import (
	"fmt"

	"sluice/internal/state"
)

// PFC shows PFC frames and pauses by priority; with history also the latest pauses, one by one.
func PFC(history bool) View {
	v := View{Draws: PartPorts, tables: pfcTables}
	if history {
		v.tables = func(r *state.Switch) []table { return append(pfcTables(r), pfcHistory(r)) }
	}
	return v
}

func pfcTables(r *state.Switch) []table {
	return []table{
		byPriority(r, "", "PORT TX", "PFC", func(c *state.CoS) uint64 {
			return c.PauseSent.XOFF + c.PauseSent.XON + c.PauseSent.Refreshes
		}),
		byPriority(r, "", "PORT RX", "PFC", func(c *state.CoS) uint64 {
			return c.PauseReceived.XOFF + c.PauseReceived.XON + c.PauseReceived.Ignored
		}),
		pauseTable(r),
		controlTable(r),
	}
}

// controlTable shows the MAC control frames that each port received, and those with faults.
func controlTable(r *state.Switch) table {
	t := table{title: "MAC control frames received, none of which is forwarded:", apart: byPort, none: "none",
		columns: []column{
			text("PORT"), count("FRAMES"), count("SHORT"), count("MALFORMED"), count("UNKNOWN"), count("IGNORED"),
			count("MISADDRESSED"),
		}}
	for i := range r.Ports {
		c := &r.Ports[i].Control
		t.rows = append(t.rows, []any{r.Ports[i].Name, c.Frames, c.Short, c.Malformed, c.Unknown, c.Ignored,
			c.Misaddressed})
	}
	return t
}

// pauseTable shows the resulting pauses, for lossless priorities and others that were paused.
func pauseTable(r *state.Switch) table {
	t := table{title: "Pauses of the peer (TX) and of the switch (RX):", none: "none", columns: []column{
		text("PORT"), number("PRIORITY"), count("TX PAUSES"), count("TX TIME"), text("TX NOW"), count("RX PAUSES"),
		count("RX TIME"), text("RX NOW"),
	}}
	t.perCoS(r, func(p *state.Port, c *state.CoS) []any {
		sent, received := &c.PauseSent, &c.PauseReceived
		if !c.Lossless && sent.XOFF+received.Pauses+received.Ignored == 0 {
			return nil
		}
		return []any{
			p.Name, c.CoS, sent.XOFF, span(sent.PausedNS), yes{sent.Now, "paused"},
			received.Pauses, span(received.PausedNS), yes{received.Now, "paused"},
		}
	})
	return t
}

// pfcHistory shows the latest pauses of each port and direction, the oldest first.
func pfcHistory(r *state.Switch) table {
	t := table{title: "Latest pauses of the peer (TX) and of the switch (RX):", apart: byPort | byCoS, none: "none",
		columns: []column{
			text("PORT"), text("DIR"), number("PRIORITY"), number("AGO"), text("EVENT"), number("QUANTA"),
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

// Watermarks shows the highest usage of priority groups, queues and pools since the watermarks were
// cleared, or if persistent since the start.
func Watermarks(persistent bool) View {
	return View{Draws: PartPorts | PartWorkers,
		tables: func(r *state.Switch) []table { return watermarkTables(r, persistent) }}
}

func watermarkTables(r *state.Switch, persistent bool) []table {
	since, of := "since last cleared", func(l *state.Level) int { return l.Peak }
	if persistent {
		since, of = "since the start", func(l *state.Level) int { return l.Max }
	}
	title := func(what string) string { return fmt.Sprintf("%s, cells of %d bytes, %s:", what, r.CellBytes, since) }
	most := func(level func(*state.CoS) *state.Level) func(*state.CoS) uint64 {
		return func(c *state.CoS) uint64 { return uint64(of(level(c))) }
	}
	pools := table{title: title("Pools"), columns: []column{
		number("WORKER"), text("POOL"), count("SHARED"), count("HEADROOM"),
	}}
	for i := range r.Workers {
		w := &r.Workers[i]
		add := func(kind string, all []state.Pool) {
			for n := range all {
				pools.rows = append(pools.rows, []any{w.Number, fmt.Sprint(kind, n), of(&all[n].Shared),
					of(&all[n].Headroom)})
			}
		}
		add("ingress", w.Pools)
		add("egress", w.Egress)
	}
	return []table{
		byPriority(r, title("Shared cells of priority groups"), "PORT", "PG",
			most(func(c *state.CoS) *state.Level { return &c.Group.Shared })),
		byPriority(r, title("Headroom of priority groups"), "PORT", "PG",
			most(func(c *state.CoS) *state.Level { return &c.Group.Headroom })),
		byPriority(r, title("Egress queues"), "PORT", "UC", most(func(c *state.CoS) *state.Level { return &c.Queue })),
		pools,
	}
}
