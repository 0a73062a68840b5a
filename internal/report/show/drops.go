package show

import "sluice/internal/state"

func dropTables(r *state.Switch) []table {
	drops := table{title: "Dropped by the switch:", apart: byPort | byCoS, none: "none", columns: []column{
		text("PORT"), number("COS"), text("CLASS"), text("LOSSLESS"), text("REASON"), count("FRAMES"),
	}}
	lost := table{title: "Lost between device and switch:", apart: byPort, columns: []column{
		text("PORT"), count("RX_DROPPED"), count("RX_RING_FULL"), count("TX_INVALID"), count("TX_DROPPED"),
		count("TX_REFUSED"),
		count("RX_CORRUPT"),
	}, none: "none"}
	alarms := table{title: "Alarms (lossless frames dropped for lack of room):", apart: byPort | byCoS, none: "none",
		columns: []column{
			text("SINCE"), text("UNTIL"), text("PORT"), number("COS"), text("CLASS"), text("REASON"), number("FRAMES"),
		}}
	for i := range r.Ports {
		p := &r.Ports[i]
		for _, d := range p.Drops {
			c := p.CoS(d.CoS)
			drops.rows = append(drops.rows, []any{p.Name, d.CoS, c.Class, yes{c.Lossless, "yes"}, d.Reason, d.Frames})
		}
		d := &p.Driver
		lost.rows = append(lost.rows, []any{p.Name, d.RXDropped, d.RXRingFull, d.TXInvalid, d.TXDropped, d.TXRefused,
			d.RXCorrupt})
	}
	for _, a := range r.Alarms {
		alarms.rows = append(alarms.rows, []any{moment{a.Since, r.Time}, moment{a.Until, r.Time}, a.Port, a.CoS,
			a.Class, a.Reason, a.Frames})
	}
	return []table{drops, lost, alarms}
}
