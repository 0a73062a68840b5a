package state

import (
	"testing"
	"time"
)

// TestClearBehindPointers checks that clearing counters includes those behind a pointer, and that a
// port without them, now or before, is left alone.
func TestClearBehindPointers(t *testing.T) {
	before := &Switch{Ports: []Port{{Name: "a", LLDP: &LLDP{Received: 5, Sent: 9}}, {Name: "b"},
		{Name: "c", LLDP: &LLDP{Received: 1}}}}
	now := &Switch{Ports: []Port{{Name: "a", LLDP: &LLDP{Received: 7, Sent: 2}}, {Name: "b", LLDP: &LLDP{Received: 4}},
		{Name: "c"}}}
	now.CountFrom(time.Unix(1, 0), before, 0)
	if a := now.Ports[0].LLDP; a.Received != 2 || a.Sent != 2 { // the counter of sent frames has restarted
		t.Errorf("%+v", a)
	}
	if b := now.Ports[1].LLDP; b.Received != 4 {
		t.Errorf("%+v", b)
	}
	if before.Ports[0].LLDP.Received != 5 {
		t.Error("the earlier state has changed")
	}
}
