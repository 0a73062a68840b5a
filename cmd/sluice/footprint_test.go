package main

import (
	"testing"
	"time"

	"sluice/bench/testkit/program"
)

// TestFootprint measures the memory and the start time of a switch with three ports and default
// memory.
func TestFootprint(t *testing.T) {
	const (
		mostMemory = 200e6           // bytes
		mostStart  = 5 * time.Second // 0.1 s on an idle machine
	)
	p := program.StartSwitch(t, program.NewSite(t, 3).Home, `
ports:
  - {device: port1, speed: 10G}
  - {device: port2, speed: 10G}
  - {device: port3, speed: 10G}
`)
	start := p.Await(1, "msg=forwarding")
	now, peak := p.Memory("VmRSS"), p.Memory("VmHWM")
	t.Logf("forwards after %v; resident %.1f MB, at the most %.1f MB (race detector: %v)", start, now/1e6, peak/1e6,
		program.UnderRace())
	if start > mostStart {
		t.Errorf("forwards only after %v", start)
	}
	if peak > mostMemory && !program.UnderRace() {
		t.Errorf("%.1f MB resident, more than %.0f", peak/1e6, mostMemory/1e6)
	}
	p.Stop()
}
