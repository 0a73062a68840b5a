package snooptest_test

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

	"sluice/bench/testkit/snooptest"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
	"sluice/internal/state"
)

// pair is the engine and the model, to which the same happens.
type pair struct {
	now    int64
	engine *snoop.System
	model  *snooptest.Model
	config snooptest.Config
	count  int
	last   string // the engine's decision about the last frame: its ports, or the reason
	reason string // the reason alone

	links  string // as they were after the event before
	saved  string // the same of Save, by times instead of ages; "": not compared
	serial uint64
	update uint64

	seldom int // the reports are compared after each so many events only

	// Of the engine when it started or changed: links made less ended, links standing, and counters
	// less the model's.
	made, standing int
	counts         map[snooptest.Count]int
}

func newPair() *pair {
	c := snooptest.DefaultConfig()
	p := &pair{engine: snoop.New(slog.New(slog.DiscardHandler)), model: snooptest.New(c), config: c, seldom: 1}
	if _, err := p.engine.Configure(0, params(c)); err != nil {
		panic(err)
	}
	return p
}

// params is a configuration in the engine's words.
func params(c snooptest.Config) snoop.Params {
	p := snoop.Params{MaxFCFs: c.MaxFCFs, MaxENodes: c.MaxENodes, MaxLinks: c.MaxLinks, MaxPending: c.MaxPending}
	for _, i := range c.Instances {
		p.Instances = append(p.Instances, snoop.Instance{Name: fmt.Sprint("FSB", i.VLAN), VLAN: i.VLAN, FCMap: i.FCMap,
			FCFs: i.FCFs, SPMA: i.SPMA, AgeTenths: i.AgeTenths})
	}
	for _, o := range c.Ports {
		role := map[snooptest.Role]snoop.Role{snooptest.ENodePort: snoop.ENode, snooptest.FCFPort: snoop.FCF,
			snooptest.TrustedPort: snoop.Trusted}[o.Role]
		vlans := o.VLANs
		p.Ports = append(p.Ports, snoop.Port{Name: o.Name, Role: role, MaxENodes: o.MaxENodes, MaxLinks: o.MaxLinks,
			MaxPending: o.MaxPending, Member: func(vid uint16) bool { return slices.Contains(vlans, vid) }})
	}
	return p
}

// apply lets an event happen to both and returns on what they disagree; "": on nothing.
func (p *pair) apply(e snooptest.Event) string {
	p.now += e.Step
	p.count++
	switch e.Kind {
	case snooptest.Receives:
		j := p.model.Receive(p.now, e.Port, e.VID, e.Bytes)
		v := p.engine.Receive(p.now, snoop.Frame{Port: e.Port, VID: e.VID, Bytes: p.tagged(e)})
		if d := p.verdict(v, j); d != "" {
			return d
		}
	case snooptest.Links:
		p.model.SetLink(p.now, e.Port, e.Up)
		p.engine.Advance(p.now) // as the control plane does every few ms
		p.engine.SetLink(p.now, e.Port, e.Up)
	case snooptest.Configures:
		if d := p.configure(e.Config); d != "" {
			return d
		}
	case snooptest.Restarts:
		if d := p.restart(e.Down); d != "" {
			return d
		}
	}
	return p.state()
}

// tagged returns every second frame with a tag.
func (p *pair) tagged(e snooptest.Event) []byte {
	if p.count%2 == 0 {
		return e.Bytes
	}
	b := append(make([]byte, 4), e.Bytes...)
	frame.Push(b, e.VID, 3)
	return b
}

func (p *pair) verdict(v snoop.Verdict, j snooptest.Judgement) string {
	p.reason = v.Reason.String()
	p.last = strings.Join(slices.Sorted(slices.Values(v.Ports)), " ")
	if v.Reason != snoop.Passed {
		p.last = v.Reason.String()
		if !slices.Contains(j.Reasons, v.Reason.String()) {
			return fmt.Sprintf("the engine refuses it: %v, the model: %v, or to %v", v.Reason, j.Reasons, j.Ports)
		}
		return ""
	}
	ports := slices.Sorted(slices.Values(v.Ports))
	if len(j.Reasons) > 0 || !slices.Equal(ports, j.Ports) {
		return fmt.Sprintf("the engine forwards it to %v, the model to %v, or refuses it: %v", ports, j.Ports,
			j.Reasons)
	}
	return ""
}

func (p *pair) configure(c snooptest.Config) string {
	next := params(c)
	p.model.Advance(p.now)
	ended := p.model.Ended
	p.model.Configure(p.now, c)
	p.config = c
	want := p.model.Ended - ended
	if p.count%2 == 0 { // it must not matter whether the time is known already
		p.engine.Advance(p.now)
		ending, err := p.engine.Ending(next)
		sessions := 0
		for _, e := range ending {
			sessions += e.Sessions
		}
		if sessions != want || err != nil {
			return fmt.Sprintf("Ending says %v (%v), the model ends %d", ending, err, want)
		}
	}
	got, err := p.engine.Configure(p.now, next)
	p.restartCounts() // ports may have left with their counters
	if got != want || err != nil {
		return fmt.Sprintf("Configure ends %d (%v), the model %d", got, err, want)
	}
	return ""
}

// restart replaces the engine with one that has what it has saved, and is there after some time.
func (p *pair) restart(down int64) string {
	p.model.Restart(p.now)
	saved := p.engine.Save(p.now)
	p.now += down
	p.model.Advance(p.now)
	p.engine = snoop.New(slog.New(slog.DiscardHandler))
	if _, err := p.engine.Configure(p.now, params(p.config)); err != nil {
		return fmt.Sprint("Configure: ", err)
	}
	n, left := p.engine.Restore(p.now, down, saved)
	links := p.model.Standing(p.now)
	fcfs := slices.DeleteFunc(p.model.Aged(p.now), func(a snooptest.Aged) bool { return a.FCF != 0 })
	if want := len(saved.FCFs) - len(fcfs) + len(saved.Links) - len(links); n != len(links) || len(left) != want {
		return fmt.Sprintf("Restore restores %d links, not %d; leaves out %d, not %d: %v", n, len(links), len(left),
			want, left)
	}
	p.restartCounts()
	p.saved = ""
	return ""
}

// state compares what both know, ages to the nanosecond.
func (p *pair) state() string {
	p.model.Advance(p.now)
	next := p.engine.Advance(p.now)
	due := int64(math.MaxInt64)
	if d := p.model.Deadlines(); len(d) > 0 {
		due = d[0]
	}
	if next <= p.now || next > due {
		return fmt.Sprintf("Advance at %d wants to be called again at %d, but something expires at %d", p.now,
			next, due)
	}
	if a, b := engineLinks(p.engine), modelLinks(p.model.Standing(p.now)); a != b {
		return fmt.Sprintf("links of the engine:\n%s\nof the model:\n%s", a, b)
	}
	s := p.engine.Save(p.now)
	if a, b := engineAged(s), p.model.Aged(p.now); !slices.EqualFunc(a, b, sameAge) {
		return fmt.Sprintf("the engine knows:\n%v\nthe model:\n%v", a, b)
	}
	if a, b := engineAges(s), modelAges(p.model.Standing(p.now)); a != b {
		return fmt.Sprintf("ages of links of the engine:\n%s\nof the model:\n%s", a, b)
	}
	if d := p.numbers(s); d != "" || p.count%p.seldom != 0 {
		return d
	}
	return p.tables()
}

func sameAge(a, b snooptest.Aged) bool {
	b.Lasts = a.Lasts // of a report, see tables
	return a == b
}

// numbers checks that Serial and Updates say when there is something to do.
func (p *pair) numbers(s snoop.Snapshot) string {
	links := engineLinks(p.engine)
	for i := range s.FCFs {
		s.FCFs[i].Refreshed, s.FCFs[i].Since = p.now-s.FCFs[i].Refreshed, p.now-s.FCFs[i].Since
	}
	for i := range s.ENodes {
		s.ENodes[i].Refreshed, s.ENodes[i].Since = p.now-s.ENodes[i].Refreshed, p.now-s.ENodes[i].Since
	}
	for i := range s.Links {
		s.Links[i].Refreshed, s.Links[i].Since = p.now-s.Links[i].Refreshed, p.now-s.Links[i].Since
	}
	saved := fmt.Sprint(s)
	serial, update := p.engine.Serial(), p.engine.Updates()
	known := p.saved != ""
	sameLinks, same := links == p.links, saved == p.saved
	if known && serial == p.serial && !sameLinks || known && update == p.update && !same {
		return fmt.Sprintf("the links are the same: %v, the serial is: %v; what is saved: %v, the updates: %v",
			sameLinks, serial == p.serial, same, update == p.update)
	}
	p.links, p.saved, p.serial, p.update = links, saved, serial, update
	return ""
}

// tables compares how full they are, with the limits.
func (p *pair) tables() string {
	r := p.engine.Report(p.now)
	if r.Tables.Pending.Used != p.model.Pending() {
		return fmt.Sprintf("the engine has %d pending, the model %d", r.Tables.Pending.Used, p.model.Pending())
	}
	if a, b := reported(r), p.lasting(); a != b {
		return fmt.Sprintf("the engine reports these to last:\n%s\nthe model:\n%s", a, b)
	}
	if d := p.compareCounts(); d != "" {
		return d
	}
	if stand := len(p.engine.Links()); stand-p.standing != p.counted()-p.made {
		return fmt.Sprintf("the engine has %d links, had %d, and counts %d more made than ended since", stand,
			p.standing, p.counted()-p.made)
	}
	if p.model.Made != p.model.Ended+len(p.model.Standing(p.now)) {
		return fmt.Sprintf("of the model's %d links, %d have ended and %d stand", p.model.Made, p.model.Ended,
			len(p.model.Standing(p.now)))
	}
	return ""
}

// reported says how long everything lasts by the engine's report.
func reported(r state.FCoE) string {
	var all []string
	for _, f := range r.FCFs {
		all = append(all, fmt.Sprint(f.VLAN, f.MAC, " ", f.Port, f.ExpiresInNS, f.Sessions))
	}
	for _, e := range r.ENodes {
		all = append(all, fmt.Sprint(e.VLAN, e.MAC, " ", e.FCF, " ", e.Port, e.ExpiresInNS, e.Sessions))
	}
	for _, s := range r.Sessions {
		all = append(all, fmt.Sprint(s.VLAN, s.VNPort, " ", s.ENode, " ", s.FCF, " ", s.Port, " ", s.FCFPort,
			s.ExpiresInNS))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// lasting is reported by the model.
func (p *pair) lasting() string {
	var all []string
	links := p.model.Standing(p.now)
	for _, a := range p.model.Aged(p.now) {
		n := 0
		for i := range links {
			l := &links[i]
			if l.VID == a.VID && (l.FCF == a.MAC || l.FCF == a.FCF && l.ENode == a.MAC) {
				n++
				if l.Lasts == 0 || a.Lasts != 0 && a.Lasts < l.Lasts {
					l.Lasts = a.Lasts
				}
			}
		}
		if a.FCF == 0 {
			all = append(all, fmt.Sprint(a.VID, a.MAC.String(), " ", a.Port, a.Lasts, n))
		} else {
			all = append(all, fmt.Sprint(a.VID, a.MAC.String(), " ", a.FCF.String(), " ", a.Port, a.Lasts, n))
		}
	}
	for _, l := range links {
		all = append(all, fmt.Sprint(l.VID, l.VN.String(), " ", l.ENode.String(), " ", l.FCF.String(), " ", l.ENodePort,
			" ", l.FCFPort, l.Lasts))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// counted returns the engine's accepted logins less its ended virtual links.
func (p *pair) counted() (n int) {
	for _, o := range p.config.Ports {
		r := p.engine.ReportPort(p.now, o.Name)
		n += int(r.Accepted)
		for _, e := range r.Endings {
			n -= int(e.Sessions)
		}
	}
	return n
}

func (p *pair) restartCounts() {
	p.made, p.standing = p.counted(), len(p.engine.Links())
	p.counts = p.engineCounts()
	for c, n := range p.model.Counts {
		p.counts[c] -= n
	}
}

func (p *pair) engineCounts() map[snooptest.Count]int {
	counts := map[snooptest.Count]int{}
	for _, o := range p.config.Ports {
		r := p.engine.ReportPort(p.now, o.Name)
		logins := map[string]uint64{"accepted": r.Accepted, "rejected": r.Rejected, "unanswered": r.Unanswered}
		for what, n := range logins {
			counts[snooptest.Count{Port: o.Name, What: what}] = int(n)
		}
		for _, e := range r.Endings {
			counts[snooptest.Count{Port: o.Name, What: e.Reason}] = int(e.Sessions)
		}
	}
	return counts
}

// compareCounts compares what has been counted at the ports since the start or the last change.
func (p *pair) compareCounts() string {
	engine := p.engineCounts()
	for c := range engine {
		if engine[c] != p.counts[c]+p.model.Counts[c] {
			return fmt.Sprintf("%s on %s: the engine counts %d, which should be %d", c.What, c.Port, engine[c],
				p.counts[c]+p.model.Counts[c])
		}
	}
	for c, n := range p.model.Counts {
		left := !slices.ContainsFunc(p.config.Ports, func(o snooptest.Port) bool { return o.Name == c.Port })
		if !left && engine[c] != p.counts[c]+n {
			return fmt.Sprintf("%s on %s: the engine counts %d, which should be %d", c.What, c.Port, engine[c],
				p.counts[c]+n)
		}
	}
	return ""
}

// lines returns the lines of all elements, in order.
func lines[T any](of []T, line func(T) string) string {
	var all []string
	for _, e := range of {
		all = append(all, line(e))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func engineLinks(s *snoop.System) string {
	return lines(s.Links(), func(l snoop.Link) string {
		return fmt.Sprintf("%d %v %v %s %s", l.VID, l.VN, l.FCF, l.ENodePort, l.FCFPort)
	})
}

func modelLinks(of []snooptest.Standing) string {
	return lines(of, func(l snooptest.Standing) string {
		return fmt.Sprintf("%d %v %v %s %s", l.VID, l.VN, l.FCF, l.ENodePort, l.FCFPort)
	})
}

func engineAges(s snoop.Snapshot) string {
	return lines(s.Links, func(l snoop.SavedLink) string {
		return fmt.Sprintf("%d %v %v %v %d", l.VID, l.VN, l.ENode, l.FCF, l.Refreshed)
	})
}

func modelAges(of []snooptest.Standing) string {
	return lines(of, func(l snooptest.Standing) string {
		return fmt.Sprintf("%d %v %v %v %d", l.VID, l.VN, l.ENode, l.FCF, l.Age)
	})
}

func engineAged(s snoop.Snapshot) (all []snooptest.Aged) {
	for _, f := range s.FCFs {
		all = append(all, snooptest.Aged{VID: f.VID, MAC: f.MAC, Port: f.Port, Age: f.Refreshed})
	}
	for _, e := range s.ENodes {
		all = append(all, snooptest.Aged{VID: e.VID, MAC: e.MAC, FCF: e.FCF, Port: e.Port, Age: e.Refreshed})
	}
	snooptest.SortAged(all)
	return all
}
