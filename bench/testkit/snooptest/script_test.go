package snooptest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/testkit/snooptest"
	"sluice/internal/frame"
)

// The cast of the cases. The ENodes are behind e1, e2 and t1, the FCFs behind f1, f2 and t1.
const (
	enode1, enode2, enodeT frame.MAC = 0x0200_0000_0001, 0x0200_0000_0002, 0x0200_0000_0005
	fcf1, fcf2, fcfT       frame.MAC = 0x0011_2233_4401, 0x0011_2233_4402, 0x0011_2233_4403

	fcMap = 0x0efc00
	id1   = 0x010001
	id2   = 0x010002

	vn1 frame.MAC = fcMap<<24 | id1
	vn2 frame.MAC = fcMap<<24 | id2

	name1, name2 = 0x2000_0000_0000_0001, 0x2000_0000_0000_0002 // WWPNs
)

// step is one line of a case: what happens, and what has to come of it.
type step struct {
	event snooptest.Event
	data  [2]frame.MAC // an FCoE frame instead: source and destination
	want  string       // egress ports, or why the frame is refused
	links int          // virtual links afterwards; -1: as many as before
}

// on is a FIP frame that a port receives in VLAN 100.
func on(port string, m snooptest.Message, want string) step {
	return step{snooptest.Event{Port: port, VID: 100, Bytes: m.Bytes()}, [2]frame.MAC{}, want, -1}
}

// in is on in another VLAN.
func in(vid uint16, port string, m snooptest.Message, want string) step {
	s := on(port, m, want)
	s.event.VID = vid
	return s
}

// data is an FCoE frame in VLAN 100, which goes to a port, or to none: "".
func data(port string, src, dst frame.MAC, want string) step {
	return step{snooptest.Event{Port: port, VID: 100}, [2]frame.MAC{src, dst}, want, -1}
}

// after lets time pass before a step.
func after(d time.Duration, s step) step {
	s.event.Step = int64(d)
	return s
}

// leaves says how many virtual links there are after a step.
func leaves(links int, s step) step {
	s.links = links
	return s
}

// wait lets time pass.
func wait(d time.Duration) step {
	return after(d, step{event: snooptest.Event{Kind: snooptest.Links, Port: "none"}, links: -1})
}

func up(port string) step   { return flap(port, true) }
func down(port string) step { return flap(port, false) }

func flap(port string, up bool) step {
	return step{event: snooptest.Event{Kind: snooptest.Links, Port: port, Up: up}, links: -1}
}

func restart() step { return step{event: snooptest.Event{Kind: snooptest.Restarts}, links: -1} }

// configure changes the default configuration.
func configure(change func(c *snooptest.Config)) step {
	c := snooptest.DefaultConfig()
	change(&c)
	return step{event: snooptest.Event{Kind: snooptest.Configures, Config: c}, links: -1}
}

// with changes a message.
func with(m snooptest.Message, change func(m *snooptest.Message)) snooptest.Message {
	change(&m)
	return m
}

func from(src frame.MAC, m snooptest.Message) snooptest.Message { m.Src = src; return m }
func to(dst frame.MAC, m snooptest.Message) snooptest.Message   { m.Dst = dst; return m }

func flags(flags int, m snooptest.Message) snooptest.Message { m.Flags = flags; return m }

// plus adds descriptors to a message.
func plus(m snooptest.Message, d ...[]byte) snooptest.Message {
	m.List = append(slices.Clone(m.List), d...)
	return m
}

// advert is that of an FCF with the period of 8 s.
func advert(f frame.MAC) snooptest.Message { return snooptest.Advertise(f, fcMap, 8000, false) }

// known makes FCF 1 known.
func known() []step { return []step{on("f1", advert(fcf1), "e1 e2 e3 t1")} }

// loggedIn has one virtual link: ENode 1 has logged in to FCF 1 and is vn1.
func loggedIn() []step {
	return append(known(),
		on("e1", snooptest.Login(snooptest.FLOGI, enode1, fcf1, 1, name1), "f1"),
		leaves(1, on("f1", snooptest.Accept(snooptest.FLOGI, fcf1, enode1, 1, vn1, id1), "e1")))
}

// twoLinks has another one of the same ENode, vn2, by FDISC.
func twoLinks() []step {
	return append(loggedIn(),
		on("e1", snooptest.Login(snooptest.FDISC, enode1, fcf1, 2, name2), "f1"),
		leaves(2, on("f1", snooptest.Accept(snooptest.FDISC, fcf1, enode1, 2, vn2, id2), "e1")))
}

// twoHosts has vn1 of ENode 1 at e1 and vn2 of ENode 2 at e2, both with FCF 1, and FCF 2 is known.
func twoHosts() []step {
	return append(loggedIn(), on("f2", advert(fcf2), "e1 e2 e3 t1"),
		on("e2", snooptest.Login(snooptest.FLOGI, enode2, fcf1, 1, name2), "f1"),
		leaves(2, on("f1", snooptest.Accept(snooptest.FLOGI, fcf1, enode2, 1, vn2, id2), "e2")))
}

// script is a case: what is so before, and what is tried then.
type script struct {
	name string
	once []step
	then []step
}

// run plays a case to the engine, to the model and, with the engine's links, to the bridge.
func (s script) run(t *testing.T) {
	p := newPair()
	d := newPlane(t, p.config)
	for i, e := range append(slices.Clone(s.once), s.then...) {
		links := e.links
		if links < 0 && e.event.Kind == snooptest.Receives {
			links = len(p.engine.Links())
		}
		where := fmt.Sprintf("step %d of %q: %s", i+1, s.name, e.event)
		if e.data != [2]frame.MAC{} {
			p.now += e.event.Step
			p.engine.Advance(p.now)
			p.model.Advance(p.now)
			d.set(t, p.engine.Links())
			got := d.forward(t, e.event.Port, 100, e.data[1], e.data[0])
			model := p.model.FCoE(e.event.Port, 100, e.data[1], e.data[0])
			if got != e.want || model != e.want {
				t.Fatalf("%s\nFCoE from %v to %v goes to %q, in the model to %q, want %q", where, e.data[0], e.data[1],
					got, model, e.want)
			}
			continue
		}
		if problem := p.apply(e.event); problem != "" {
			t.Fatalf("%s\n%s", where, problem)
		}
		if e.event.Kind == snooptest.Configures {
			d = newPlane(t, p.config)
		}
		if e.event.Kind == snooptest.Receives && p.last != e.want {
			t.Fatalf("%s\ngot %q, want %q", where, p.last, e.want)
		}
		if n := len(p.engine.Links()); links >= 0 && n != links {
			t.Fatalf("%s\nleaves %d links, want %d", where, n, links)
		}
	}
}

func runAll(t *testing.T, all []script) {
	t.Helper()
	for _, s := range all {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), s.run)
	}
}
