package params

import (
	"testing"

	"sluice/cells"
	"sluice/sched"
)

// TestSchedule has every kind of group and queue, and shapers with and without a burst of their
// own.
func TestSchedule(t *testing.T) {
	p := translate(t, `
ets:
  - name: default
    groups:
      - {pg: 0, cos: [0, 1, 2], weight: 60, rate: 4G}
      - {pg: 3, cos: [3, 4], weight: 40, inner: strict, rate: 1G, burst: 200KB}
      - {pg: 15, cos: [5, 6, 7], inner: drr, rate: 2G}
    queues:
      - {cos: 1, weight: 7, rate: 800M}
      - {cos: 4, rate: 80M, burst: 30KB}
      - {cos: 7, weight: 2}
ports: [{device: sw0, speed: 10G, mtu: 1500}]
`).Ports[0].Sched
	const frame = 1518 + 24 // bytes of the longest frame on the wire
	if p.Rate != 10e9 || p.Burst != frame+125_000 || p.Overhead != 24 || p.MaxFrame != 1518 {
		t.Errorf("port: %d bit/s, burst %d, overhead %d, longest frame %d", p.Rate, p.Burst, p.Overhead, p.MaxFrame)
	}
	groups := map[int]sched.GroupParams{ // 100 µs of 4 Gbit/s are 50000 bytes
		0:  {TSA: sched.ETS, Weight: 60, Shape: sched.Shape{Rate: 4e9, Burst: frame + 50_000}},
		3:  {TSA: sched.ETS, Weight: 40, Shape: sched.Shape{Rate: 1e9, Burst: 200_000}},
		15: {TSA: sched.StrictPriority, Shape: sched.Shape{Rate: 2e9, Burst: frame + 25_000}},
	}
	for i, got := range p.Groups {
		if want, used := groups[i]; used && got != want {
			t.Errorf("group %d: %+v, want %+v", i, got, want)
		}
	}
	queues := [8]sched.QueueParams{
		{Group: 0, TSA: sched.ETS, Weight: 1},
		{Group: 0, TSA: sched.ETS, Weight: 7, Shape: sched.Shape{Rate: 8e8, Burst: frame + 10_000}},
		{Group: 0, TSA: sched.ETS, Weight: 1},
		{Group: 3, TSA: sched.StrictPriority},
		{Group: 3, TSA: sched.StrictPriority, Shape: sched.Shape{Rate: 8e7, Burst: 30_000}},
		{Group: 15, TSA: sched.ETS, Weight: 1},
		{Group: 15, TSA: sched.ETS, Weight: 1},
		{Group: 15, TSA: sched.ETS, Weight: 2},
	}
	for i, got := range p.Queues {
		if got != queues[i] {
			t.Errorf("queue %d: %+v, want %+v", i, got, queues[i])
		}
	}
}

// TestPortsHaveTheirProfiles: each port has the profile that it names.
func TestPortsHaveTheirProfiles(t *testing.T) {
	p := translate(t, `
ets: [{name: flat, groups: [{pg: 2, cos: [0, 1, 2, 3, 4, 5, 6, 7], weight: 100}]}]
ports: [{device: sw0, speed: 1G, ets: flat}, {device: sw1, speed: 1G}]
`)
	for cos := range 8 {
		if g := p.Ports[0].Sched.Queues[cos].Group; g != 2 {
			t.Errorf("flat: CoS %d is in group %d", cos, g)
		}
		if got, want := p.Ports[1].Sched.Queues[cos].Group, [8]int{0, 0, 0, 1, 0, 0, 15, 15}[cos]; got != want {
			t.Errorf("default: CoS %d is in group %d, want %d", cos, got, want)
		}
	}
}

// TestRED: thresholds in cells are rounded such that nothing is dropped below min, and everything
// above max.
func TestRED(t *testing.T) {
	p := translate(t, `
memory: {cell: 160B}
classes:
  - {cos: [0], queue_limit: 100KB, wred: {min: 1000B, max: 2000B, probability: 25%}, ecn: true}
  - {cos: [1], queue_limit: 100KB, wred: {min: 16000B, max: 32000B, smoothing: 9}}
  - {cos: [3], lossless: true, ecn: true, wred: {min: 64B, max: 8GB, probability: 100%}}
ports: [{device: sw0, speed: 1G, cable: 1m, response: 0s}]
`).Ports[0]
	for cos, want := range map[int]cells.REDParams{
		0: {Min: 6, Max: 13, Probability: .25},
		1: {Min: 100, Max: 200, Probability: .1, Smoothing: 9},
		2: {},
		3: {Min: 0, Max: 50_000_000, Probability: 1},
	} {
		if got := p.Cells.Queues[cos].RED; got != want {
			t.Errorf("CoS %d: %+v, want %+v", cos, got, want)
		}
	}
	if p.ECN != 1<<0|1<<3 {
		t.Errorf("ECN for priorities %#b, want 0 and 3", p.ECN)
	}
}
