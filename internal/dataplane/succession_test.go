package dataplane

import (
	"testing"

	"sluice/internal/bridge"
)

// addPort adds a port behind those there are, absent.
func (r *rig) addPort(p *Params, worker int, change func(*PortParams)) {
	port := testPort(len(p.Ports), worker)
	if change != nil {
		change(&port)
	}
	p.Ports, p.Bridge.Ports = append(p.Ports, port), append(p.Bridge.Ports, bridge.PortParams{})
	r.plan.Links = append(r.plan.Links, Link{Closed: true})
}

// TestFramesForAPortThatAnotherWorkerDoesNotKnowYet: workers don't change over at the same moment, and a static entry leads to
// a port at once.
func TestFramesForAPortThatAnotherWorkerDoesNotKnowYet(t *testing.T) {
	r := newRig(t, 2, 2, nil)
	r.introduce()
	p := r.params
	p.Ports = append([]PortParams(nil), p.Ports...)
	p.Bridge.Ports = append([]bridge.PortParams(nil), p.Bridge.Ports...)
	r.addPort(&p, 1, nil)
	p.Bridge.Static = []bridge.StaticEntry{{MAC: station0(2), Port: 2}}
	g, err := r.s.Prepare(p)
	if err != nil {
		t.Fatal(err)
	}
	r.params, r.plan.Generation = p, g
	plan := r.plan
	r.s.Workers[0].plan.Store(&plan) // Publish, seen in the midst of it
	r.send(0, data(0, 2, lossless, 1000, 1))
	r.run(5000)
	r.s.Publish(&plan)
	r.run(5000)
	if n := r.port(2).Drops[DropPortDown][lossless]; n != 1 {
		t.Errorf("%d frames dropped at the port that is down, want 1", n)
	}
	r.idle()
}
