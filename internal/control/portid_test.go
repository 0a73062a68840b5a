package control

import (
	"fmt"
	"strings"
	"testing"

	"sluice/bench/testkit/configtest"
)

// TestPortsWithRandomNames: of thousands of ports with new names, as containers have them, neither
// numbers nor ids are left over.
func TestPortsWithRandomNames(t *testing.T) {
	const ports, rounds = 64, 32
	file := func(round int) string {
		var b strings.Builder
		b.WriteString("memory: {buffers: 16384}\nports:\n")
		for n := range ports {
			fmt.Fprintf(&b, "  - {device: v%dx%d, speed: 1M}\n", round, n)
		}
		return b.String()
	}
	x := newPeerNet(t, file(0))
	for round := 1; round <= rounds; round++ {
		if err := x.reload(configtest.Parse(t, file(round))); err != nil {
			t.Fatal(err)
		}
		x.tick()
	}
	places := 0
	for _, p := range x.ports {
		id := x.plane.PortID(p.number)
		if places = max(places, id.Place()+1); x.plane.PortName(id) != p.Device || x.port(p.Device) != p {
			t.Errorf("port %s is known as %q", p.Device, x.plane.PortName(id))
		}
	}
	if numbers := len(x.plan.Links); numbers > 2*ports || places > 3*ports {
		t.Errorf("%d numbers and %d places of ids for %d ports", numbers, places, ports)
	}
}
