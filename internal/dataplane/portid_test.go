package dataplane

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/dataplane/bridge"
)

// TestPortIDsAreBounded: thousands of ports come and go under one number. Few places are used for
// their ids, an id never means a later port, and a capture knows all ports that it has seen.
func TestPortIDsAreBounded(t *testing.T) {
	r := newRig(t, 3, 1, subscribed(1000, 10))
	r.introduce()
	places := func() int { return len(*r.s.names.Load()) }
	first := r.s.PortID(2)
	r.send(2, lldp(-1, 60, 1)) // nobody takes it before the end
	r.run(5000)
	const many = 2000
	for n := range many {
		r.replace(2, fmt.Sprint("veth", n))
	}
	if n := places(); n > 4 {
		t.Errorf("%d places for 3 ports", n)
	}
	if name := r.s.PortName(first); name != "" || r.s.generation.number(first) != NoPort {
		t.Errorf("the id of the first port now is that of %q", name)
	}
	if r.s.Inject(first, lldp(-1, 60, 2)) {
		t.Error("a port that is gone takes frames")
	}
	if all := r.punted(); len(all) != 1 || all[0].Port != first {
		t.Errorf("%+v was punted", all)
	}
	if last := r.s.PortID(2); r.s.PortName(last) != fmt.Sprint("veth", many-1) || !r.s.Inject(last, lldp(-1, 60, 3)) {
		t.Error("the last port is not known")
	}

	r.tap(r.everything())
	before := places()
	var seen []bridge.PortID
	for n := range 10 {
		r.replace(2, fmt.Sprint("seen", n))
		seen = append(seen, r.s.PortID(2))
	}
	for n, id := range seen {
		if name := r.s.PortName(id); name != fmt.Sprint("seen", n) {
			t.Errorf("the capture takes port seen%d for %q", n, name)
		}
	}
	r.plan.Taps = nil
	for n := range 100 {
		r.replace(2, fmt.Sprint("later", n))
	}
	if n := places(); n != before+10 {
		t.Errorf("%d places after the capture, %d before it", n, before)
	}
	r.idle()
}

// TestTooManyPortsDuringACapture: an error says what to do. Without a capture, ids do not run out.
func TestTooManyPortsDuringACapture(t *testing.T) {
	s := &Switch{generation: &Generation{}, capturing: true}
	s.names.Store(&map[bridge.PortID]string{})
	serial := 0
	add := func(name string) (bridge.PortID, error) {
		g := &Generation{serial: serial, numbers: map[bridge.PortID]int{}}
		g.params.Ports = []PortParams{{Name: name}}
		err := s.identify(g)
		return g.portIDs[0], err
	}
	for n := range bridge.MaxPorts - 1 {
		if id, err := add(fmt.Sprint(n)); err != nil || id != bridge.PortID(n) {
			t.Fatal(id, err)
		}
	}
	if _, err := add("one more"); err == nil || !strings.Contains(err.Error(), "end the one that runs") {
		t.Error(err)
	}
	s.capturing = false
	for serial = range 1 << 20 { // more often than an id has bits for
		if id := bridge.NewPortID(7, serial); id < 0 || id.Place() != 7 {
			t.Fatal(id)
		}
	}
	id, err := add("one more")
	if err != nil || id.Place() != 0 || id == 0 || len(*s.names.Load()) != bridge.MaxPorts-1 {
		t.Error(id, err)
	}
}
