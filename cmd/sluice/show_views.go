package main

import (
	"context"
	"fmt"
	"slices"

	"sluice/internal/config"
	"sluice/internal/console"
	"sluice/internal/state"
)

// views are the sub-commands of `show` that have no flags of their own.
var views = []view{
	{"pg", "What priority groups hold, held at most, and have dropped", only(groupTables)},
	{"queues", "What waits in the egress queues, was sent and was dropped", only(queueTables)},
	{"pfcwd", "The watchdogs: pause storms now and so far", only(watchdogTables)},
	{"fdb", "The addresses that the bridge knows", stationTables},
	{"ets", "Which group and queue sends next, and what each has sent", etsTables},
	{"workers", "Where the workers' time goes, and the longest gaps of their loops", only(workerTables)},
}

// aliases are further names of views, some of them SONiC's.
var aliases = map[string][]string{
	"fdb":    {"mac"},
	"pg":     {"priority-groups", "priority-group"},
	"queues": {"queue"},
}

func portTables(r *state.Switch) []table {
	t := table{key: "ports", columns: []column{
		text("port", "PORT"), text("state", "STATE"), number("speed", "SPEED"), count("received", "RX_OK"), count("sent", "TX_OK"),
		count("dropped", "DROPS"), count("lost_in_driver", "LOST"), text("flow_control", "FC"), text("mode", "MODE"), text("tx", "TX"),
		detail("tx_why"), detail("link_speed"), detail("number"), detail("worker"), detail("mtu"), detail("received_bytes"), detail("sent_bytes"), detail("flood_copies"),
	}}
	for i := range r.Ports {
		p := &r.Ports[i]
		t.rows = append(t.rows, []any{
			p.Name, portState(p), bits(p.Speed), p.Received, p.Sent, p.Dropped, p.Driver.Lost(), p.FlowControl, p.Mode, p.TX,
			p.TXWhy, p.LinkSpeed, p.Number, p.Worker, p.MTU, p.ReceivedBytes, p.SentBytes, p.FloodCopies,
		})
		if p.TXWhy != "" {
			t.notes = append(t.notes, fmt.Sprintf("%s: its socket sends, and not the transmitter: %s", p.Name, p.TXWhy))
		}
		if p.Behind > 0 {
			t.notes = append(t.notes, fmt.Sprintf("%s: %d iterations of worker %d left frames in its receive ring and paused its peer: the worker can't keep up",
				p.Name, p.Behind, p.Worker))
		}
		if p.GivenTwice > 0 {
			t.notes = append(t.notes, fmt.Sprintf("%s: its driver gave back %d buffers that it did not have; they were refused: mode: copy does without such a driver",
				p.Name, p.GivenTwice))
		}
		if p.LinkSpeed != p.Speed && p.LinkSpeed > 0 { // an older switch does not say
			t.notes = append(t.notes, fmt.Sprintf("%s: its link has %s, by which pauses and headroom count", p.Name, rateText(p.LinkSpeed)))
		}
	}
	return []table{t}
}

func portState(p *state.Port) string {
	switch {
	case p.Up:
		return "up"
	case p.Shut:
		return "shut"
	case p.Mode == "absent":
		return p.Mode
	}
	return "down"
}

// byPriority returns a table with a row for each port and a column for each priority.
func byPriority(r *state.Switch, key, title, port, prefix string, value func(*state.CoS) uint64) table {
	t := table{key: key, title: title, columns: []column{text("port", port)}}
	for cos := range 8 {
		t.columns = append(t.columns, count(priorityKey(cos), fmt.Sprint(prefix, cos)))
	}
	for i := range r.Ports {
		row := []any{r.Ports[i].Name}
		for cos := range r.Ports[i].ByCoS {
			row = append(row, value(&r.Ports[i].ByCoS[cos]))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// perCoS adds the rows that a function has for each port and CoS; nil is none.
func (t *table) perCoS(r *state.Switch, row func(p *state.Port, cos int, c *state.CoS) []any) {
	for i := range r.Ports {
		for cos := range r.Ports[i].ByCoS {
			if values := row(&r.Ports[i], cos, &r.Ports[i].ByCoS[cos]); values != nil {
				t.rows = append(t.rows, values)
			}
		}
	}
}

func groupTables(r *state.Switch) []table {
	t := table{key: "pg", title: fmt.Sprintf("Priority groups, cells of %d bytes:", r.CellBytes), columns: []column{
		text("port", "PORT"), number("pg", "PG"), text("class", "CLASS"),
		count("reserved", "RESERVED"), count("shared", "SHARED"), count("shared_peak", "PEAK"),
		count("headroom", "HEADROOM"), count("headroom_peak", "PEAK"), count("dropped", "DROPS"), text("xoff", "PEER"),
		detail("lossless"), detail("received"), detail("shared_max"), detail("headroom_max"),
	}}
	t.perCoS(r, func(p *state.Port, cos int, c *state.CoS) []any {
		g := &c.Group
		return []any{
			p.Name, cos, c.Class, of{Used: g.Reserved, Limit: g.ReservedLimit},
			of{Used: g.Shared.Used, Limit: g.Shared.Limit}, g.Shared.Peak,
			of{Used: g.Headroom.Used, Limit: g.Headroom.Limit}, g.Headroom.Peak, c.GroupDropped, yes{c.PauseSent.Now, "paused"},
			c.Lossless, c.Received, g.Shared.Max, g.Headroom.Max,
		}
	})
	return []table{t}
}

func queueTables(r *state.Switch) []table {
	t := table{key: "queues", title: fmt.Sprintf("Egress queues, cells of %d bytes:", r.CellBytes), columns: []column{
		text("port", "PORT"), number("queue", "QUEUE"), text("class", "CLASS"), count("depth", "DEPTH"), count("peak", "PEAK"),
		count("sent", "TX_OK"), count("sent_bytes", "TX_BYTES"), count("dropped", "DROPS"), count("marked", "ECN"),
		text("paused", "PAUSED"), detail("lossless"), detail("max"),
	}}
	t.perCoS(r, func(p *state.Port, cos int, c *state.CoS) []any {
		return []any{
			p.Name, cos, c.Class, of{Used: c.Queue.Used, Limit: c.Queue.Limit, open: true}, c.Queue.Peak,
			c.Sent, c.SentBytes, c.QueueDropped, c.Marked, yes{c.PauseReceived.Now, "paused"}, c.Lossless, c.Queue.Max,
		}
	})
	return []table{t}
}

// poolTables shows the memory that groups and queues share.
func poolTables(r *state.Switch) []table {
	t := table{key: "pools", title: fmt.Sprintf("Buffer pools, cells of %d bytes:", r.CellBytes), columns: []column{
		number("worker", "WORKER"), text("pool", "POOL"), count("shared", "SHARED"), number("shared_peak", "PEAK"),
		count("headroom", "HEADROOM"), number("headroom_peak", "PEAK"), detail("shared_max"), detail("headroom_max"),
	}}
	for i := range r.Workers {
		w := &r.Workers[i]
		add := func(kind string, pools []state.Pool) {
			for n, p := range pools {
				t.rows = append(t.rows, []any{
					w.Number, fmt.Sprint(kind, n), of{Used: p.Shared.Used, Limit: p.Shared.Limit}, p.Shared.Peak,
					of{Used: p.Headroom.Used, Limit: p.Headroom.Limit}, p.Headroom.Peak, p.Shared.Max, p.Headroom.Max,
				})
			}
		}
		add("ingress", w.Pools)
		add("egress", w.Egress)
	}
	return []table{t}
}

func watchdogTables(r *state.Switch) []table {
	now := table{key: "pfcwd", none: "No class is watched.", columns: []column{
		text("queue", "QUEUE"), text("status", "STATUS"), count("storms", "STORM DETECTED/RESTORED"),
		count("frames", "TX OK/DROP"), count("storm_ns", "IN STORM"), detail("port"), detail("cos"), detail("by_hand"),
	}}
	now.perCoS(r, func(p *state.Port, cos int, c *state.CoS) []any {
		if p.Watchdog == nil || !slices.Contains(p.Watchdog.CoS, cos) && c.Storms == 0 {
			return nil
		}
		return []any{
			fmt.Sprintf("%s:%d", p.Name, cos), stormStatus(c), pair{[2]string{"detected", "restored"}, [2]uint64{c.Storms, c.StormsOver}},
			pair{[2]string{"forwarded", "dropped"}, [2]uint64{c.StormForwarded, stormDrops(p, cos)}}, span(c.StormNS), p.Name, cos, c.StormByHand,
		}
	})
	settings := table{key: "pfcwd_config", none: "No port has a watchdog.", columns: []column{
		text("port", "PORT"), text("action", "ACTION"), number("detection_ns", "DETECTION"), number("restoration_ns", "RESTORATION"),
	}}
	events := table{key: "storms", title: "The latest storms:", none: "none", columns: []column{
		text("port", "PORT"), number("cos", "COS"), text("event", "EVENT"), number("ago_ns", "AGO"), text("by_hand", "BY HAND"),
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
			events.rows = append(events.rows, []any{p.Name, e.CoS, event, span(p.NowNS - e.AtNS), yes{e.ByHand, "yes"}})
		}
	}
	return []table{now, settings, events}
}

func stormStatus(c *state.CoS) string {
	switch {
	case c.StormByHand:
		return "by hand"
	case c.Storming:
		return "stormed"
	}
	return "operational"
}

// stormDrops returns what the watchdog of a port had dropped of a CoS.
func stormDrops(p *state.Port, cos int) uint64 {
	for _, d := range p.Drops {
		if d.CoS == cos && d.Reason == "storm" {
			return d.Frames
		}
	}
	return 0
}

func stationTables(ctx context.Context, c *console.Client, r *state.Switch) ([]table, error) {
	known, err := c.Stations(ctx)
	if err != nil {
		return nil, err
	}
	t := table{key: "fdb", title: fmt.Sprintf("Addresses: %d", len(known)), none: "none", columns: []column{
		number("vlan", "VLAN"), text("mac", "MAC ADDRESS"), text("port", "PORT"), text("type", "TYPE"), number("age_ns", "AGE"),
	}}
	for _, s := range known {
		kind := "dynamic"
		if s.Static {
			kind = "static"
		}
		t.rows = append(t.rows, []any{s.VLAN, s.MAC, s.Port, kind, span(s.AgeNS)})
	}
	learning := table{key: "learning", title: "Tables of the workers:", columns: []column{
		number("worker", "WORKER"), count("addresses", "ADDRESSES"), count("learned", "LEARNED"), count("moved", "MOVED"),
		count("removed", "REMOVED"), count("no_room", "NO ROOM"), count("pinned", "PINNED"), count("own", "OWN"), count("flooded", "UNKNOWN"),
	}}
	for _, w := range r.Workers {
		learning.rows = append(learning.rows, []any{
			w.Number, w.Stations, w.Learned, w.Moved, w.Removed, w.NoRoom, w.Pinned, w.OwnAddresses, w.Unknown,
		})
	}
	return []table{t, learning, sourceTable(r)}, nil
}

// sourceTable shows by which ports frames came whose source addresses point to a loop, a flood of addresses or a wrong
// configuration.
func sourceTable(r *state.Switch) table {
	t := table{key: "sources", title: "Source addresses by port:", columns: []column{
		text("port", "PORT"), count("moved", "MOVED"), count("no_room", "NO ROOM"), count("pinned", "PINNED"), count("own", "OWN"),
	}}
	for i := range r.Ports {
		p := &r.Ports[i]
		t.rows = append(t.rows, []any{p.Name, p.Sources.Moved, p.Sources.NoRoom, p.Sources.Pinned, p.Sources.OwnAddress})
	}
	return t
}

func etsTables(ctx context.Context, c *console.Client, r *state.Switch) ([]table, error) {
	file, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}
	configuration, err := config.Parse(file.File, []byte(file.Text))
	if err != nil {
		return nil, fmt.Errorf("the switch runs by a configuration that this program does not know: is it of another version? %w", err)
	}
	profiles := make(map[string]checkedProfile)
	for i := range configuration.ETS {
		e := &configuration.ETS[i]
		profiles[e.Name] = newCheckedProfile(configuration, e, nil)
	}
	t := table{key: "ets", columns: []column{
		text("port", "PORT"), number("queue", "QUEUE"), text("class", "CLASS"), number("pg", "PG"), number("group_percent", "PG %"),
		number("weight", "WEIGHT"), number("least_percent", "LEAST %"), number("rate", "RATE"), count("sent", "TX_OK"), text("paused", "PAUSED"),
		detail("group"), detail("strict"), detail("profile"),
	}}
	t.perCoS(r, func(p *state.Port, cos int, state *state.CoS) []any {
		for _, g := range profiles[p.ETS].Groups {
			for _, q := range g.Queues {
				if q.CoS != cos {
					continue
				}
				return []any{
					p.Name, cos, q.Class, g.PG, weight{g.Weight, g.Strict}, weight{q.Weight, g.Strict || q.Weight == 0}, fixed{q.Least, 1, q.Least == 0},
					bits(leastRate(g.Rate, q.Rate)), state.Sent, yes{state.PauseReceived.Now, "paused"}, g.Name, g.Strict, p.ETS,
				}
			}
		}
		return nil
	})
	return []table{t}, nil
}

// leastRate returns the lower of two limits, of which 0 is none.
func leastRate(a, b uint64) uint64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func workerTables(r *state.Switch) []table {
	t := table{key: "workers", title: "Workers; gaps between two iterations in µs:", columns: []column{
		number("worker", "WORKER"), number("cpu", "CPU"), number("busy_percent", "BUSY %"), number("ns_per_frame", "NS/FRAME"),
		number("cycles_per_frame", "CYCLES"), number("frames_per_burst", "BURST"), number("gap_p50_ns", "P50"), number("gap_p9999_ns", "P99.99"),
		number("gap_wait_ns", "WAIT"), number("free_buffers", "FREE"), number("buffers", "OF"),
		detail("iterations"), detail("busy_iterations"), detail("busy_ns"), detail("frames"), detail("bursts"), detail("burst_size"), detail("gap_max_ns"), detail("gap_recent_ns"),
	}}
	for i := range r.Workers {
		w := &r.Workers[i]
		perFrame := float64(w.BusyNS) / float64(w.Frames)
		t.rows = append(t.rows, []any{
			w.Number, w.CPU, fixed{100 * float64(w.BusyNS) / float64(w.NowNS), 1, w.NowNS == 0},
			fixed{perFrame, 0, w.Frames == 0}, fixed{perFrame * w.Hz / 1e9, 0, w.Frames == 0 || w.Hz == 0},
			fixed{float64(w.Frames) / float64(w.Bursts), 1, w.Bursts == 0}, micros{w.GapP50NS, 2}, micros{w.GapP9999NS, 1},
			micros{w.GapWaitNS, 0}, w.Free, w.Buffers, w.Iterations, w.Busy, w.BusyNS, w.Frames, w.Bursts, w.BurstSize, micros{w.GapMaxNS, 0},
			micros{w.GapRecentNS, 0},
		})
	}
	return []table{t}
}

func dropTables(r *state.Switch) []table {
	drops := table{key: "drops", title: "Dropped by the switch:", none: "none", columns: []column{
		text("port", "PORT"), number("cos", "COS"), text("class", "CLASS"), text("lossless", "LOSSLESS"), text("reason", "REASON"), count("frames", "FRAMES"),
	}}
	lost := table{key: "driver", title: "Lost between device and switch:", columns: []column{
		text("port", "PORT"), count("rx_dropped", "RX_DROPPED"), count("rx_ring_full", "RX_RING_FULL"), count("tx_invalid", "TX_INVALID"),
		count("tx_dropped", "TX_DROPPED"), count("tx_refused", "TX_REFUSED"), count("rx_corrupt", "RX_CORRUPT"),
	}, none: "none"}
	alarms := table{key: "alarms", title: "Alarms, lossless frames dropped for want of room:", none: "none", columns: []column{
		text("since", "SINCE"), text("until", "UNTIL"), text("port", "PORT"), number("cos", "COS"), text("class", "CLASS"), text("reason", "REASON"),
		number("frames", "FRAMES"),
	}}
	for i := range r.Ports {
		p := &r.Ports[i]
		for _, d := range p.Drops {
			c := &p.ByCoS[d.CoS]
			drops.rows = append(drops.rows, []any{p.Name, d.CoS, c.Class, yes{c.Lossless, "yes"}, d.Reason, d.Frames})
		}
		d := &p.Driver
		lost.rows = append(lost.rows, []any{p.Name, d.RXDropped, d.RXRingFull, d.TXInvalid, d.TXDropped, d.TXRefused, d.RXCorrupt})
	}
	for _, a := range r.Alarms {
		alarms.rows = append(alarms.rows, []any{moment{a.Since, r.Time}, moment{a.Until, r.Time}, a.Port, a.CoS, a.Class, a.Reason, a.Frames})
	}
	return []table{drops, lost, alarms}
}
