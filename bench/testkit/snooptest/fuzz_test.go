package snooptest_test

import (
	"encoding/binary"
	"testing"

	"sluice/bench/testkit/snooptest"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
)

// FuzzFrame: engine and model agree about any bytes behind addresses and EtherType, at any port.
func FuzzFrame(f *testing.F) {
	ports := []string{"e1", "e2", "f1", "f2", "t1"}
	for _, s := range valid() {
		for i := range ports {
			f.Add(uint8(i), uint8(0), s.event.Bytes)
		}
	}
	f.Fuzz(func(t *testing.T, port, vlan uint8, b []byte) {
		if len(b) < 14 || len(b) > 2200 {
			return
		}
		binary.BigEndian.PutUint16(b[12:], frame.TypeFIP)
		p := newPair()
		for _, s := range before() {
			p.apply(s.event)
		}
		vid := []uint16{100, 200, 1, 300}[vlan%4]
		e := snooptest.Event{Port: ports[int(port)%len(ports)], VID: vid, Bytes: b}
		if d := p.apply(e); d != "" {
			t.Fatalf("%s\n%s", e, d)
		}
	})
}

// TestHeaders: a frame without a whole header of FIP, or with another one, is refused and changes
// nothing.
func TestHeaders(t *testing.T) {
	p := newPair()
	for _, s := range twoHosts() {
		p.apply(s.event)
	}
	clear := on("f1", snooptest.Clear(fcf1, snooptest.AllENodes), "").event.Bytes
	tagged := append(make([]byte, 4), clear...)
	frame.Push(tagged, 100, 3)
	twice := append(make([]byte, 4), tagged...)
	frame.Push(twice, 100, 3)
	other := append([]byte{}, clear...)
	binary.BigEndian.PutUint16(other[12:], frame.TypeFCoE)
	bad := [][]byte{nil, other, twice}
	for n := range clear {
		bad = append(bad, clear[:n])
	}
	for n := range tagged {
		bad = append(bad, tagged[:n])
	}
	for _, b := range bad {
		if v := p.engine.Receive(p.now, snoop.Frame{Port: "f1", VID: 100, Bytes: b}); v.Reason == snoop.Passed {
			t.Errorf("%x passes", b)
		}
		if d := p.state(); d != "" {
			t.Fatal(d)
		}
	}
	if v := p.engine.Receive(p.now, snoop.Frame{Port: "f1", VID: 100, Bytes: tagged}); v.Reason != snoop.Passed {
		t.Errorf("the whole frame is refused: %v", v.Reason)
	}
}
