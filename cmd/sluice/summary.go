package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"sluice/internal/control"
	"sluice/internal/dataplane"
	"sluice/pfc"
	"sluice/pmd"
)

// summary prints what a switch has done.
func summary(w io.Writer, s *control.State, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(newReport(s))
	}
	fmt.Fprintf(w, "lossless drops: %d\n", s.LosslessDrops())
	if n := s.Storms(); n > 0 {
		fmt.Fprintf(w, "pause storms: %d\n", n)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "port\treceived\tsent\tdropped\tPFC sent\tPFC received\tlost in driver\t")
	for i := range s.Ports {
		p := &s.Ports[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", p.PortSnapshot.Name, p.RXFrames, p.TXFrames, p.Dropped(),
			p.PortSnapshot.Sent.Frames, p.Heard.Frames, p.Driver.Lost())
	}
	return t.Flush()
}

// report is a State for programs.
type report struct {
	LosslessDrops uint64         `json:"lossless_drops"`
	CellBytes     int            `json:"cell_bytes"`
	Ports         []portReport   `json:"ports"`
	Workers       []workerReport `json:"workers"`
}

type portReport struct {
	Name     string       `json:"name"`
	Received uint64       `json:"received"` // frames
	Sent     uint64       `json:"sent"`
	ByCoS    [8]cosReport `json:"by_cos"`
	Drops    []dropReport `json:"drops"`
	PFC      pfcReport    `json:"pfc"`
	Driver   pmd.Stats    `json:"driver"`

	// The latest, the oldest first.
	PausedPeer []transitionReport `json:"paused_peer"`
	Paused     []transitionReport `json:"paused"`
	Storms     []stormReport      `json:"storms"`
}

// transitionReport is when a CoS was paused or resumed, and why.
type transitionReport struct {
	AgoMS  float64 `json:"ago_ms"` // before the report
	CoS    uint8   `json:"cos"`
	Cause  string  `json:"cause"`
	Quanta uint16  `json:"quanta,omitempty"` // asked for
}

type stormReport struct {
	AgoMS  float64 `json:"ago_ms"`
	CoS    uint8   `json:"cos"`
	Begins bool    `json:"begins"`
	ByHand bool    `json:"by_hand"`
}

type poolReport struct {
	Cells        int `json:"cells"`
	Peak         int `json:"peak_cells"`
	Headroom     int `json:"headroom_cells"`
	PeakHeadroom int `json:"peak_headroom_cells"`
}

type cosReport struct {
	Received     uint64 `json:"received"`
	Sent         uint64 `json:"sent"`
	PeakShared   int    `json:"peak_shared_cells"`
	PeakHeadroom int    `json:"peak_headroom_cells"`
	PeakQueue    int    `json:"peak_queue_cells"`

	Storms         uint64 `json:"storms"`
	StormsOver     uint64 `json:"storms_over"`
	StormForwarded uint64 `json:"storm_forwarded"` // frames; those dropped are among the port's drops
}

type dropReport struct {
	Reason string `json:"reason"`
	CoS    int    `json:"cos"`
	Frames uint64 `json:"frames"`
}

type pfcReport struct {
	Frames       uint64  `json:"frames"` // sent
	XOFF         uint64  `json:"xoff"`
	XON          uint64  `json:"xon"`
	Refreshes    uint64  `json:"refreshes"`
	PausedPeerMS float64 `json:"paused_peer_ms"`
	Received     uint64  `json:"received"`
	PausedMS     float64 `json:"paused_ms"`
}

type workerReport struct {
	Buffers int     `json:"buffers"`
	Free    int     `json:"free"`
	GapP50  float64 `json:"gap_p50_us"`
	GapP999 float64 `json:"gap_p999_us"`
	GapMax  float64 `json:"gap_max_us"`

	Pools []poolReport `json:"pools"`

	Stations int    `json:"stations"`       // addresses in the bridge's table
	Moved    uint64 `json:"stations_moved"` // to another port
	NoRoom   uint64 `json:"stations_no_room"`
}

func newReport(s *control.State) report {
	r := report{LosslessDrops: s.LosslessDrops()}
	now := make(map[int]int64) // by port, of its worker's clock
	for i := range s.Workers {
		w := &s.Workers[i]
		r.CellBytes = w.CellSize
		r.Workers = append(r.Workers, newWorkerReport(w))
		for _, p := range w.Ports {
			now[p.Number] = w.Now
		}
	}
	for i := range s.Ports {
		r.Ports = append(r.Ports, newPortReport(&s.Ports[i], now[i]))
	}
	return r
}

func newWorkerReport(w *dataplane.Snapshot) workerReport {
	r := workerReport{
		Buffers: w.Buffers, Free: w.Free,
		GapP50: us(w.Gap.Quantile(.5)), GapP999: us(w.Gap.Quantile(.999)), GapMax: us(w.Gap.Max),
		Stations: w.Stations, Moved: w.Bridge.Moved, NoRoom: w.Bridge.TableFull + w.Bridge.PortFull,
	}
	for _, p := range w.Pools {
		r.Pools = append(r.Pools, poolReport{p.Size, p.Ever, p.HeadroomSize, p.EverHeadroom})
	}
	return r
}

func newPortReport(p *control.PortState, now int64) portReport {
	r := portReport{
		Name: p.PortSnapshot.Name, Received: p.RXFrames, Sent: p.TXFrames, Driver: p.Driver,
		Drops: []dropReport{},
		PFC:   pfcReport{Frames: p.PortSnapshot.Sent.Frames, Received: p.Heard.Frames},

		PausedPeer: transitions(&p.PortSnapshot.Sent.History, now), Paused: transitions(&p.Heard.History, now),
		Storms: []stormReport{},
	}
	for _, e := range p.Watchdog.History.All() {
		r.Storms = append(r.Storms, stormReport{ms(now - e.At), e.Priority, e.Storming, e.ByHand})
	}
	for cos := range dataplane.Priorities {
		r.ByCoS[cos] = cosReport{
			Received: p.RX[cos], Sent: p.TX[cos],
			PeakShared: p.Groups[cos].EverShared, PeakHeadroom: p.Groups[cos].EverHeadroom, PeakQueue: p.Queues[cos].Ever,
			Storms: p.Watchdog.Storms[cos], StormsOver: p.Watchdog.Restorations[cos], StormForwarded: p.StormForwarded[cos],
		}
		sent := &p.PortSnapshot.Sent
		r.PFC.XOFF += sent.XOFF[cos]
		r.PFC.XON += sent.XON[cos]
		r.PFC.Refreshes += sent.Refreshes[cos]
		r.PFC.PausedPeerMS += float64(sent.PausedNS[cos]) / 1e6
		r.PFC.PausedMS += float64(p.Heard.PausedNS[cos]) / 1e6
		for why := range p.Drops {
			if n := p.Drops[why][cos]; n > 0 {
				r.Drops = append(r.Drops, dropReport{dataplane.Drop(why).String(), cos, n})
			}
		}
	}
	return r
}

func transitions(h *pfc.History[pfc.Transition], now int64) []transitionReport {
	all := []transitionReport{}
	for _, t := range h.All() {
		all = append(all, transitionReport{ms(now - t.At), t.Priority, t.Cause.String(), t.Quanta})
	}
	return all
}

func us(ns int64) float64 { return float64(ns) / 1e3 }

func ms(ns int64) float64 { return float64(ns) / 1e6 }
