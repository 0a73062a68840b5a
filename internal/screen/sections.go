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

// columns are how wide the cells of a row are, blanks between them included: those of 0 or more to
// the right, the others, which have names, to the left.
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

// normal is the width that rows are made for, longName what any name of a port has room in
// (IFNAMSIZ).
const (
	normal   = 80
	longName = 17
)

// name is how wide a name is that has so many characters in a normal window.
func (v *View) name(width int) int { return max(width, min(longName, width+v.Width-normal)) }

// ports shows what goes through each port. Where there is room, PFC frames too.
func (v *View) ports() (t table) {
	const wide = 104
	c := columns{-v.name(13), 5, 7, 7, 8, 5, 8, 7, 8, 5, 7, 8, 8, 8}
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

// link is the speed of a port that is up, or why it is none.
func link(p *state.Port) string {
	switch {
	case p.Shut:
		return "shut"
	case p.Mode == "absent":
		return "gone"
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

// priorities is how many classes of service there are.
const priorities = 8

// pauses shows for what share of the time each class of each link partner was paused by what we
// sent, and for what share ours was by what we received. A point is a class that can't be paused.
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

// buffers shows what is held of the pools and by the priority groups: first those of lossless
// classes, then others that have ever needed what is shared.
func (v *View) buffers() (t table) {
	const numbers = 3 + 2*levelWidth // what a row takes beside the name and the two bars
	name := v.name(13)
	width := max(6, (v.Width-name-numbers)/2-1) // of a bar
	c := columns{-name, 3, 1 + width, levelWidth, 1 + width, levelWidth}
	add := func(of, cos string, share, headroom state.Level) {
		shareBar, shareLevel := v.level(width, share)
		headroomBar, headroomLevel := v.level(width, headroom)
		t.rows = append(t.rows, Line{c.line(of, cos, shareBar, shareLevel, headroomBar, headroomLevel), Plain})
	}
	t.heading = c.line("BUFFERS", "cos", left("reserved, shared", width), "held/limit B", left("headroom", width),
		"held/limit B")
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

// poolName names a pool, by its worker too if there are several.
func (v *View) poolName(w *state.Worker, kind string, n int) string {
	if len(v.Now.Workers) == 1 {
		return fmt.Sprintf("%s %d", kind, n)
	}
	return fmt.Sprintf("%s %d of w%d", kind, n, w.Number)
}

// whole is what a group holds but for headroom: what is reserved for it and what it shares. How
// much was held of what is reserved is not remembered, so there is a watermark only above that.
func whole(g *state.Group) state.Level {
	l := state.Level{Used: g.Reserved + g.Shared.Used, Limit: g.ReservedLimit + g.Shared.Limit}
	if g.Shared.Peak > 0 {
		l.Peak = g.ReservedLimit + g.Shared.Peak
	}
	return l
}

// levelWidth is what held/limit takes, in bytes and with a blank before it.
const levelWidth = 12

// level returns the bar of a level, and in bytes what it shows.
func (v *View) level(width int, l state.Level) (drawn, bytes string) {
	if l.Limit <= 0 && l.Used <= 0 {
		return "", ""
	}
	size := float64(v.Now.CellBytes)
	return bar(width, l.Used, l.Peak, l.Limit), number(size*float64(l.Used)) + "/" + number(size*float64(l.Limit))
}

// event is something that happened to a class of a port.
type event struct {
	ago  float64 // ns
	port string
	cos  int
	what string
	bad  bool
}

// events shows what has happened, the latest first: pauses that we asked for or were asked for and
// their ends, storms, losses.
func (v *View) events() (t table) {
	var all []event
	for i := range v.Now.Ports {
		p := &v.Now.Ports[i]
		all = append(all, transitions(p.Name, "sent", p.PausedPeer)...)
		all = append(all, transitions(p.Name, "received", p.Paused)...)
		for _, s := range p.Storms {
			all = append(all, event{float64(s.AgoNS), p.Name, int(s.CoS), stormEvent(s), s.Begins})
		}
	}
	for _, a := range v.Now.Alarms {
		ago := max(0, float64(v.Now.Time.Sub(a.Until))) // it may have been seen while the report was made
		all = append(all, event{ago, a.Port, a.CoS, fmt.Sprintf("LOST %d frames: %s", a.Frames, a.Reason), true})
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.ago, b.ago) })
	if v.Height <= 0 {
		all = all[:min(len(all), plainEvents)]
	}
	c := columns{7, 6, -longName, -6, -max(v.Width, 2)}
	t.heading = "EVENTS, latest first"
	for _, e := range all {
		style := Plain
		if e.bad {
			style = Bad
		}
		t.rows = append(t.rows, Line{c.line(span(e.ago), "ago  ", e.port, fmt.Sprintf("cos %d", e.cos), e.what), style})
	}
	return t
}

// transitions returns the events of one direction of a port. The end of a pause says how long that
// was, if its beginning is still remembered.
func transitions(port, direction string, history []state.Transition) (all []event) {
	var since [priorities]float64 // ns ago that the pause began
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
		all = append(all, event{ago, port, int(h.CoS), what, false})
	}
	return all
}

func stormEvent(s state.StormEvent) string {
	what := "pause storm is over"
	if s.Begins {
		what = "PAUSE STORM begins"
	}
	if s.ByHand {
		what += " (by hand)"
	}
	return what
}

// workers shows what the loops do: which share of the time they move something, what a frame takes
// of it, how full bursts are, and how long it was between two iterations; and how many buffers are
// free.
func (v *View) workers() (t table) {
	c := columns{-8, 4, 6, 9, 9, 10, 9, 8, 8, 9, 9, 10}
	headings := []string{"WORKERS", "cpu", "busy%", "frame/s", "ns/frame", "burst", "gap p50", "p99.9", "max", "free",
		"buffers", "stations"}
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
