package show

import (
	"fmt"
	"slices"

	"sluice/internal/state"
)

// The views without options.
var (
	Overview = View{Draws: PartPorts | PartAlarms | PartWorkers | PartFCoE, lead: conditions,
		tables: func(r *state.Switch) []table { return slices.Concat(portTables(r), poolTables(r), workerTables(r)) }}
	PriorityGroups = View{Draws: PartPorts, tables: groupTables}
	Queues         = View{Draws: PartPorts, tables: queueTables}
	Watchdogs      = View{Draws: PartPorts, tables: watchdogTables}
	FDB            = View{Draws: PartFDB | PartWorkers | PartPorts, tables: fdbTables}
	ETS            = View{Draws: PartPorts, tables: etsTables}
	Workers        = View{Draws: PartWorkers, tables: workerTables}
	Drops          = View{Draws: PartPorts | PartAlarms, tables: dropTables}
)

// byPriority returns a table with a row per port and a column per priority.
func byPriority(r *state.Switch, title, port, prefix string, value func(*state.CoS) uint64) table {
	t := table{title: title, apart: byPort | byCoS, columns: []column{text(port)}}
	for i := range r.Ports {
		row := []any{r.Ports[i].Name}
		for j := range r.Ports[i].ByCoS {
			c := &r.Ports[i].ByCoS[j]
			if row = append(row, value(c)); i == 0 { // all ports have the same classes
				t.columns = append(t.columns, count(fmt.Sprint(prefix, c.CoS)))
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// perCoS adds the row that a function returns for each port and CoS, unless it is nil.
func (t *table) perCoS(r *state.Switch, row func(*state.Port, *state.CoS) []any) {
	t.apart = byPort | byCoS
	for i := range r.Ports {
		for j := range r.Ports[i].ByCoS {
			if values := row(&r.Ports[i], &r.Ports[i].ByCoS[j]); values != nil {
				t.rows = append(t.rows, values)
			}
		}
	}
}

func groupTables(r *state.Switch) []table {
	t := table{title: fmt.Sprintf("Priority groups, cells of %d bytes:", r.CellBytes), columns: []column{
		text("PORT"), number("PG"), text("CLASS"), count("RESERVED"), count("SHARED"), count("PEAK"), count("HEADROOM"),
		count("PEAK"), count("DROPS"), text("PEER"),
	}}
	t.perCoS(r, func(p *state.Port, c *state.CoS) []any {
		g := &c.Group
		return []any{
			p.Name, c.CoS, c.Class, of{g.Reserved, g.ReservedLimit, false}, used(&g.Shared), g.Shared.Peak,
			used(&g.Headroom), g.Headroom.Peak, c.GroupDropped, yes{c.PauseSent.Now, "paused"},
		}
	})
	return []table{t}
}

func queueTables(r *state.Switch) []table {
	t := table{title: fmt.Sprintf("Egress queues, cells of %d bytes:", r.CellBytes), columns: []column{
		text("PORT"), number("QUEUE"), text("CLASS"), count("DEPTH"), count("PEAK"), count("TX_OK"), count("TX_BYTES"),
		count("DROPS"), count("ECN"), text("PAUSED"),
	}}
	t.perCoS(r, func(p *state.Port, c *state.CoS) []any {
		return []any{
			p.Name, c.CoS, c.Class, of{c.Queue.Used, c.Queue.Limit, true}, c.Queue.Peak,
			c.Sent, c.SentBytes, c.QueueDropped, c.Marked, yes{c.PauseReceived.Now, "paused"},
		}
	})
	return []table{t}
}

func used(l *state.Level) of { return of{l.Used, l.Limit, false} }

// poolTables shows the memory that priority groups and queues share.
func poolTables(r *state.Switch) []table {
	t := table{title: fmt.Sprintf("Buffer pools, cells of %d bytes:", r.CellBytes), columns: []column{
		number("WORKER"), text("POOL"), count("SHARED"), number("PEAK"), count("HEADROOM"), number("PEAK"),
	}}
	for i := range r.Workers {
		w := &r.Workers[i]
		add := func(kind string, pools []state.Pool) {
			for n, p := range pools {
				t.rows = append(t.rows, []any{
					w.Number, fmt.Sprint(kind, n), used(&p.Shared), p.Shared.Peak, used(&p.Headroom), p.Headroom.Peak,
				})
			}
		}
		add("ingress", w.Pools)
		add("egress", w.Egress)
	}
	return []table{t}
}

func watchdogTables(r *state.Switch) []table {
	now := table{none: "No class is watched.", columns: []column{
		text("QUEUE"), text("STATUS"), count("STORM DETECTED/RESTORED"), count("TX OK/DROP"), count("IN STORM"),
	}}
	now.perCoS(r, func(p *state.Port, c *state.CoS) []any {
		if p.Watchdog == nil || !slices.Contains(p.Watchdog.CoS, c.CoS) && c.Storms == 0 {
			return nil
		}
		return []any{
			fmt.Sprintf("%s:%d", p.Name, c.CoS), stormStatus(c), pair{c.Storms, c.StormsOver},
			pair{c.StormForwarded, c.StormDropped}, span(c.StormNS),
		}
	})
	settings := table{apart: byPort, none: "No port has a watchdog.", columns: []column{
		text("PORT"), text("ACTION"), number("DETECTION"), number("RESTORATION"),
	}}
	events := table{title: "Latest storms:", apart: byPort | byCoS, none: "none", columns: []column{
		text("PORT"), number("COS"), text("EVENT"), number("AGO"), text("MANUAL"),
	}}
	for i := range r.Ports {
		p := &r.Ports[i]
		if w := p.Watchdog; w != nil {
			settings.rows = append(settings.rows, []any{p.Name, w.Action, span(w.DetectionNS), span(w.RestorationNS)})
		}
		for _, e := range p.Storms {
			event := "restored"
			if e.Begins {
				event = "detected"
			}
			events.rows = append(events.rows, []any{p.Name, e.CoS, event, span(p.NowNS - e.AtNS), yes{e.Manual, "yes"}})
		}
	}
	return []table{now, settings, events}
}

func stormStatus(c *state.CoS) string {
	switch {
	case c.StormManual:
		return "manual"
	case c.Storming:
		return "stormed"
	}
	return "operational"
}

func fdbTables(r *state.Switch) []table {
	t := table{title: fmt.Sprintf("FDB entries: %d", len(r.FDB)), apart: byPort | byVLAN, none: "none",
		columns: []column{number("VLAN"), text("MAC ADDRESS"), text("PORT"), text("TYPE"), number("AGE")}}
	for _, e := range r.FDB {
		kind := "dynamic"
		if e.Static {
			kind = "static"
		}
		t.rows = append(t.rows, []any{e.VLAN, e.MAC, e.Port, kind, span(e.AgeNS)})
	}
	learning := table{title: "FDB by worker:", columns: []column{
		number("WORKER"), count("ENTRIES"), count("LEARNED"), count("MOVED"), count("REMOVED"), count("NO ROOM"),
		count("PINNED"), count("OWN"), count("UNKNOWN"),
	}}
	for _, w := range r.Workers {
		f := &w.FDB
		learning.rows = append(learning.rows, []any{
			w.Number, f.Entries, f.Learned, f.Moved, f.Removed, f.TableFull + f.PortFull, f.Pinned, f.Own, f.Unknown,
		})
	}
	return []table{t, learning, sourceTable(r)}
}

// sourceTable shows, for each port, the source addresses that indicate a loop, an address flood or
// a misconfiguration.
func sourceTable(r *state.Switch) table {
	t := table{title: "Source addresses by port:", apart: byPort, columns: []column{
		text("PORT"), count("MOVED"), count("NO ROOM"), count("PINNED"), count("OWN"),
	}}
	for i := range r.Ports {
		p := &r.Ports[i]
		t.rows = append(t.rows, []any{p.Name, p.Sources.Moved, p.Sources.NoRoom, p.Sources.Pinned, p.Sources.Own})
	}
	return t
}

func etsTables(r *state.Switch) []table {
	t := table{columns: []column{
		text("PORT"), number("QUEUE"), text("CLASS"), number("PG"), number("PG %"), number("WEIGHT"), number("LEAST %"),
		number("RATE"), count("TX_OK"), text("PAUSED"),
	}}
	t.perCoS(r, func(p *state.Port, c *state.CoS) []any {
		if p.ETS == "" { // the port is leaving
			return nil
		}
		e := &c.ETS
		return []any{
			p.Name, c.CoS, c.Class, e.Group, weight{e.GroupPercent, e.Strict}, weight{e.Weight, e.Strict ||
				e.Weight == 0},
			fixed{e.LeastPercent, 1, e.LeastPercent == 0}, bits(e.Rate), c.Sent, yes{c.PauseReceived.Now, "paused"},
		}
	})
	return []table{t}
}

func workerTables(r *state.Switch) []table {
	t := table{title: "Workers (gaps between two iterations in µs):", columns: []column{
		number("WORKER"), number("CPU"), number("BUSY %"), number("NS/FRAME"), number("CYCLES"), number("BURST"),
		number("P50"),
		number("P99.99"), number("WAIT"), number("FREE"), number("OF"),
	}}
	for i := range r.Workers {
		w := &r.Workers[i]
		perFrame := float64(w.BusyNS) / float64(w.Frames)
		t.rows = append(t.rows, []any{
			w.Number, w.CPU, fixed{100 * float64(w.BusyNS) / float64(w.NowNS), 1, w.NowNS == 0},
			fixed{perFrame, 0, w.Frames == 0}, fixed{perFrame * w.Hz / 1e9, 0, w.Frames == 0 || w.Hz == 0},
			fixed{float64(w.Frames) / float64(w.Bursts), 1, w.Bursts == 0}, micros{w.GapP50NS, 2},
			micros{w.GapP9999NS, 1},
			micros{w.GapWaitNS, 0}, w.Free, w.Buffers,
		})
	}
	return []table{t}
}
