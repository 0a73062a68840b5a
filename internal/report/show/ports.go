package show

import (
	"fmt"

	"sluice/internal/report/screen"
	"sluice/internal/state"
)

// Ports shows the counters of each port, and its rates since the state before. before is nil, for
// no rates, or of the same switch.
func Ports(before *state.Switch) View {
	v := View{Draws: PartPorts, tables: portTables}
	if before != nil {
		v.tables = func(r *state.Switch) []table { return append(portTables(r), rateTable(r, before)) }
	}
	return v
}

func portTables(r *state.Switch) []table {
	t := table{apart: byPort, columns: []column{
		text("PORT"), text("STATE"), number("SPEED"), count("RX_OK"), count("TX_OK"), count("DROPS"), count("LOST"),
		text("FC"),
		text("MODE"), text("TX"),
	}}
	for i := range r.Ports {
		p := &r.Ports[i]
		t.rows = append(t.rows, []any{
			p.Name, portState(p), bits(p.Speed), p.Received, p.Sent, p.Dropped, p.Driver.Lost(), p.FlowControl, p.Mode,
			p.TX,
		})
		if p.DownWhy != "" {
			t.notes = append(t.notes, p.Name+": "+p.DownWhy)
		}
		if p.TXWhy != "" {
			t.notes = append(t.notes, fmt.Sprintf("%s: its socket sends instead of the transmitter: %s",
				p.Name, p.TXWhy))
		}
		if p.Stalled {
			t.notes = append(t.notes, p.Name+": lossless frames may stall there: its headroom has no memory yet, or "+
				"is in use from before its link came up")
		}
		for _, m := range p.Missing {
			t.notes = append(t.notes, fmt.Sprintf("%s: %s", p.Name, m.Text))
		}
		if p.Behind > 0 {
			t.notes = append(t.notes, fmt.Sprintf("%s: worker %d can't keep up: in %d iterations it left frames in "+
				"the receive ring, and paused the peer",
				p.Name, p.Worker, p.Behind))
		}
		if p.GivenTwice > 0 {
			t.notes = append(t.notes, fmt.Sprintf("%s: its driver returned %d buffers that it did not hold, and the "+
				"switch refused them: with `mode: copy`, the kernel holds the buffers instead of the driver",
				p.Name, p.GivenTwice))
		}
		if p.LinkSpeed != p.Speed && p.LinkSpeed > 0 { // older switches don't report it
			t.notes = append(t.notes, fmt.Sprintf("%s: its link runs at %s, and pauses and headroom follow that "+
				"rate", p.Name, Rate(p.LinkSpeed)))
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
	case p.Mode == state.Absent, p.Mode == state.SetDown:
		return p.Mode
	}
	return "down"
}

// rateTable shows the rates of ports between two reports.
func rateTable(now, before *state.Switch) table {
	title := fmt.Sprintf("Rates over the last %v:", span(now.Time.Sub(before.Time)))
	t := table{title: title, apart: byPort, columns: []column{
		text("PORT"), count("RX bit/s"), count("RX frame/s"), number("RX %"), count("TX bit/s"), count("TX frame/s"),
		number("TX %"), count("DROP/s"),
	}}
	for i, r := range screen.Rates(now, before) {
		t.rows = append(t.rows, []any{
			now.Ports[i].Name, perSecond(r.Received.Bits), perSecond(r.Received.Frames),
			fixedRate(100 * r.Received.Share),
			perSecond(r.Sent.Bits), perSecond(r.Sent.Frames), fixedRate(100 * r.Sent.Share), perSecond(r.Dropped),
		})
	}
	return t
}

// perSecond is a rate per second, printed without decimals.
type perSecond float64

func (r perSecond) String() string {
	if !screen.Known(float64(r)) {
		return Nothing
	}
	return screen.Number(float64(r))
}

// fixedRate is a percentage with one decimal, or nothing if unknown.
func fixedRate(x float64) fixed { return fixed{x, 1, !screen.Known(x)} }
