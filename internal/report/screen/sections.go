package screen

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/state"
)

// columns are the widths of a row's cells, including the blank between them: positive ones are
// right-aligned, negative ones, for names, left-aligned.
type columns []int

func (c columns) line(cells ...string) string {
	var b strings.Builder
	for i, cell := range cells {
		if width := c[i]; width < 0 {
			b.WriteString(left(ending(cell, -width-1), -width))
		} else {
			b.WriteString(right(cell, width))
		}
	}
	return b.String()
}

// normal is the width the rows are designed for. longName holds any port name (IFNAMSIZ) and a
// blank.
const (
	normal   = 80
	longName = 17
)

// name returns the width of a name column that is width wide in a normal window.
func (v *View) name(width int) int { return max(width, min(longName, width+v.Width-normal)) }

// ports shows the traffic of each port, with PFC frames if there is room.
func (v *View) ports() (t table) {
	const wide = 104
	c := columns{-v.name(13), 8, 6, 6, 8, 5, 7, 7, 8, 5, 7, 8, 8, 8}
	headings := []string{"PORTS bit/s", "link", "in L1", "in L2", "frame/s", "%", "out L1", "out L2", "frame/s", "%",
		"drop/s", "drops", "PFC out", "in /s"}
	shown := len(headings)
	if v.Width < wide {
		shown -= 3
	}
	t.heading = c.line(headings[:shown]...)
	for i := range v.Now.Ports {
		now, before := v.port(i)
		r := ratesOf(now, before)
		cells := []string{now.Name, link(now),
			number(r.in.l1), number(r.in.l2), number(r.in.frames), percent(r.in.share),
			number(r.out.l1), number(r.out.l2), number(r.out.frames), percent(r.out.share),
			number(r.dropped), number(float64(now.Dropped)), number(r.pfcSent), number(r.pfcReceived)}
		t.rows = append(t.rows, Line{c.line(cells[:shown]...), Plain})
	}
	return t
}

// link returns the speed of a port that is up, or the reason why it is not.
func link(p *state.Port) string {
	switch {
	case p.Shut:
		return "shut"
	case !state.Open(p.Mode):
		return p.Mode
	case !p.Up:
		return "down"
	}
	speed, units := float64(p.Speed), []string{"", "k", "M", "G", "T"}
	unit := 0
	for ; speed >= 1000 && unit < len(units)-1; unit++ {
		speed /= 1000
	}
	return strconv.FormatFloat(speed, 'f', -1, 64) + units[unit]
}

// priorities is the number of classes of service.
const priorities = 8

// pauses shows the share of the time that each class was paused: that of the link partner by pauses
// the switch sent, and that of the port by pauses it received. "." is a class that can't be paused.
func (v *View) pauses() (t table) {
	c := columns{-v.name(10), 6, 4, 4, 4, 4, 4, 4, 4, 8, 4, 4, 4, 4, 4, 4, 4}
	t.heading = c.line("PAUSED %", "sent 0", "1", "2", "3", "4", "5", "6", "7", "rcvd 0", "1", "2", "3", "4", "5", "6",
		"7")
	for i := range v.Now.Ports {
		now, before := v.port(i)
		if now.FlowControl == "off" {
			continue
		}
		cells := []string{now.Name}
		for cos := range priorities {
			cells = append(cells,
				pauseShare(now, before, cos, func(c *state.CoS) int64 { return c.PauseSent.PausedNS }))
		}
		for cos := range priorities {
			cells = append(cells,
				pauseShare(now, before, cos, func(c *state.CoS) int64 { return c.PauseReceived.PausedNS }))
		}
		t.rows = append(t.rows, Line{c.line(cells...), Plain})
	}
	return t
}

func pauseShare(now, before *state.Port, cos int, paused func(*state.CoS) int64) string {
	c := now.CoS(cos)
	if c == nil || !c.Lossless && paused(c) == 0 {
		return "."
	}
	if before == nil || before.CoS(cos) == nil {
		return unknown
	}
	ns := paused(c) - paused(before.CoS(cos))
	return percent(min(1, float64(ns)/float64(now.NowNS-before.NowNS)))
}

// buffers shows the use of the pools and the priority groups: the lossless groups first, then those
// of lossy classes that have ever used shared memory.
func (v *View) buffers() (t table) {
	const numbers = 3 + 2*levelWidth // width without the name and the two bars
	name := v.name(13)
	width := max(6, (v.Width-name-numbers)/2-1) // of a bar
	c := columns{-name, 3, 1 + width, levelWidth, 1 + width, levelWidth}
	add := func(of, cos string, share, headroom state.Level) {
		shareBar, shareLevel := v.level(width, share)
		headroomBar, headroomLevel := v.level(width, headroom)
		t.rows = append(t.rows, Line{c.line(of, cos, shareBar, shareLevel, headroomBar, headroomLevel), Plain})
	}
	t.heading = c.line("BUFFERS", "cos", left("reserved, shared", width), "used/limit B", left("headroom", width),
		"used/limit B")
	for i := range v.Now.Workers {
		w := &v.Now.Workers[i]
		for n := range w.Pools {
			add(v.poolName(w, "pool", n), "", w.Pools[n].Shared, w.Pools[n].Headroom)
		}
		for n := range w.Egress {
			add(v.poolName(w, "egress", n), "", w.Egress[n].Shared, w.Egress[n].Headroom)
		}
	}
	for _, lossless := range []bool{true, false} {
		for i := range v.Now.Ports {
			p := &v.Now.Ports[i]
			for i := range p.ByCoS {
				if c := &p.ByCoS[i]; c.Lossless == lossless && (lossless || c.Group.Shared.Max > 0) {
					add(p.Name, strconv.Itoa(c.CoS), whole(&c.Group), c.Group.Headroom)
				}
			}
		}
	}
	return t
}

// poolName names a pool, with its worker if there are several.
func (v *View) poolName(w *state.Worker, kind string, n int) string {
	if len(v.Now.Workers) == 1 {
		return fmt.Sprintf("%s %d", kind, n)
	}
	return fmt.Sprintf("%s %d of w%d", kind, n, w.Number)
}

// whole returns the level of a group without its headroom: reserved plus shared memory. The
// watermark of reserved memory is not kept, so there is one only where shared memory was used.
func whole(g *state.Group) state.Level {
	l := state.Level{Used: g.Reserved + g.Shared.Used, Limit: g.ReservedLimit + g.Shared.Limit}
	if g.Shared.Peak > 0 {
		l.Peak = g.ReservedLimit + g.Shared.Peak
	}
	return l
}

// levelWidth is the width of used/limit in bytes, with a blank before it.
const levelWidth = 12

// level returns the bar of a level, and its size and limit in bytes.
func (v *View) level(width int, l state.Level) (drawn, bytes string) {
	if l.Limit <= 0 && l.Used <= 0 {
		return "", ""
	}
	size := float64(v.Now.CellBytes)
	return bar(width, l.Used, l.Peak, l.Limit), number(size*float64(l.Used)) + "/" + number(size*float64(l.Limit))
}

// event is something that happened at a port.
type event struct {
	ago  float64 // ns
	port string
	to   string // the class that it happened to, dcbx or fip
	what string
	bad  bool
}

func class(cos int) string { return fmt.Sprintf("cos %d", cos) }

// events shows recent events, the latest first: pauses sent and received, their ends, pause storms,
// losses, mismatches that DCBX has found, and what FIP snooping refused last at each port.
func (v *View) events() (t table) {
	var all []event
	for i := range v.Now.Ports {
		p := &v.Now.Ports[i]
		all = append(all, transitions(p.Name, "sent", p.PausedPeer)...)
		all = append(all, transitions(p.Name, "received", p.Paused)...)
		if p.FCoE != nil {
			for _, r := range p.FCoE.LastRefusals() {
				all = append(all, event{float64(r.Last.AgoNS), p.Name, "fip", fmt.Sprintf("%s from %s: %s", r.Reason,
					r.Last.Source, r.Last.Text), r.Serious})
			}
		}
		for _, s := range p.Storms {
			all = append(all, event{float64(s.AgoNS), p.Name, class(int(s.CoS)), stormEvent(s), s.Begins})
		}
	}
	for _, a := range v.Now.Alarms {
		ago := max(0, float64(v.Now.Time.Sub(a.Until))) // the loss may be newer than the report's time
		all = append(all, event{ago, a.Port, class(a.CoS), fmt.Sprintf("LOST %d frames: %s", a.Frames, a.Reason), true})
	}
	for _, m := range v.Now.Mismatches() {
		what := m.Kind + ": " + strings.TrimPrefix(m.Text, m.Peer+": ") // there is no room for its name
		all = append(all, event{float64(m.SinceNS), m.Port, "dcbx", what, true})
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.ago, b.ago) })
	if v.Height <= 0 {
		all = all[:min(len(all), plainEvents)]
	}
	c := columns{7, 6, -longName, -6}
	t.heading = "EVENTS, latest first"
	for _, e := range all {
		style := Plain
		if e.bad {
			style = Bad
		}
		t.rows = append(t.rows, Line{c.line(span(e.ago), "ago  ", e.port, e.to) + e.what, style})
	}
	return t
}

// transitions returns the pause events of one direction of a port. The end of a pause says how long
// the pause was, if its start is still in the history.
func transitions(port, direction string, history []state.Transition) (all []event) {
	var since [priorities]float64 // when the pause began, in ns ago
	for cos := range since {
		since[cos] = math.NaN()
	}
	for _, h := range history {
		ago, what := float64(h.AgoNS), direction+" "+h.Cause
		cos := h.CoS & 7
		if h.Cause == "xoff" {
			what += fmt.Sprintf(" for %d quanta", h.Quanta)
			since[cos] = ago
		} else {
			if length := since[cos] - ago; length >= 0 {
				what += " after " + span(length)
			}
			since[cos] = math.NaN()
		}
		all = append(all, event{ago, port, class(int(h.CoS)), what, false})
	}
	return all
}

func stormEvent(s state.StormEvent) string {
	what := "pause storm ends"
	if s.Begins {
		what = "PAUSE STORM begins"
	}
	if s.Manual {
		what += " (manual)"
	}
	return what
}

// workers shows the load of each worker: the share of time it was busy, the time per frame, the
// fill of bursts, the gaps between iterations, and its free buffers; if there is room, also all its
// buffers and its FDB entries.
func (v *View) workers() (t table) {
	c := columns{-8, 4, 6, 9, 9, 10, 9, 8, 8, 9, 9, 10}
	headings := []string{"WORKERS", "cpu", "busy%", "frame/s", "ns/frame", "burst", "gap p50", "p99.9", "max", "free",
		"buffers", "FDB"}
	shown := len(headings)
	if v.Width < 99 {
		shown -= 2
	}
	t.heading = c.line(headings[:shown]...)
	for i := range v.Now.Workers {
		now, before := v.worker(i)
		frames, busy, perFrame, burst := math.NaN(), math.NaN(), math.NaN(), unknown
		if before != nil {
			ns := now.NowNS - before.NowNS
			frames = perSecond(now.Frames, before.Frames, ns)
			busy = float64(now.BusyNS-before.BusyNS) / float64(ns)
			perFrame = 1e9 * busy / frames
			burst = number(frames / perSecond(now.Bursts, before.Bursts, ns))
		}
		cells := []string{strconv.Itoa(now.Number), strconv.Itoa(now.CPU), percent(busy), number(frames),
			number(perFrame),
			burst + "/" + strconv.Itoa(now.BurstSize), span(float64(now.GapP50NS)), span(float64(now.GapP999NS)),
			span(float64(now.GapMaxNS)),
			number(float64(now.Free)), number(float64(now.Buffers)), number(float64(now.FDB.Entries))}
		t.rows = append(t.rows, Line{c.line(cells[:shown]...), Plain})
	}
	return t
}
