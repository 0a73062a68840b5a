package rigtest

import (
	"errors"
	"testing"
	"time"

	"sluice/bench/vm/rig"
	"sluice/internal/state"
)

// Net is a switch's peers, with the flows between them.
type Net struct {
	Peers  []*rig.Peer
	flows  uint32
	judged map[*rig.Flow]string // what they are
}

// Close ends the peers.
func (n *Net) Close(t testing.TB) {
	t.Helper()
	for _, p := range n.Peers {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Flow returns a new flow between two peers, for which the second is prepared.
func (n *Net) Flow(from, to int, shape func(int) rig.Shape) *rig.Flow {
	n.flows++
	f := &rig.Flow{ID: n.flows, Src: n.Peers[from].MAC, Dst: n.Peers[to].MAC, Shape: shape}
	n.Peers[to].Expect(f)
	return f
}

// Send sends a flow of some frames in the background; the channel has the result.
func (n *Net) Send(from int, f *rig.Flow, frames int, rate float64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- n.Peers[from].Send(f, frames, rate) }()
	return done
}

// Drain waits until so many frames of each flow have arrived at a peer, or none arrive any more. A
// negative number is for flows that may lose some: then a short silence is enough.
func (n *Net) Drain(t testing.TB, at int, frames int, flows ...*rig.Flow) {
	t.Helper()
	quiet := 10 * time.Second
	if frames < 0 {
		quiet = 2 * time.Second
	}
	last, since := -1, time.Now()
	Until(t, "no more frames arrive", func() bool {
		arrived, complete := 0, true
		for _, f := range flows {
			a := n.Peers[at].Got(f)
			arrived += a.Frames + a.Twice + a.Damaged
			complete = complete && a.Frames == frames
		}
		if arrived != last {
			last, since = arrived, time.Now()
		}
		return complete || time.Since(since) > quiet
	})
}

// judge returns what has arrived of a flow. Later faults are for Conserves to report.
func (n *Net) judge(at int, f *rig.Flow, what string) rig.Arrivals {
	if n.judged == nil {
		n.judged = map[*rig.Flow]string{}
	}
	n.judged[f] = what
	return n.Peers[at].Judge(f)
}

// Exact reports what of a flow did not arrive exactly once, unharmed and in order.
func (n *Net) Exact(t testing.TB, at int, f *rig.Flow, frames int, what string) {
	t.Helper()
	if a := n.judge(at, f, what); a.Frames != frames || a.Faults() > 0 {
		received, sent, err := n.Peers[at].Lost()
		t.Errorf("%s: %d of %d frames arrived; %d damaged, %d twice, %d out of order; lost by the host: %d, "+
			"%d, %v", what, a.Frames, frames, a.Damaged, a.Twice, a.Disordered, received, sent, err)
	}
}

// Intact reports frames that arrived damaged, twice or out of order. Others may be lost.
func (n *Net) Intact(t testing.TB, at int, f *rig.Flow, what string) {
	t.Helper()
	if a := n.judge(at, f, what); a.Faults() > 0 {
		t.Errorf("%s: %d frames arrived; %d damaged, %d twice, %d out of order", what, a.Frames, a.Damaged, a.Twice,
			a.Disordered)
	}
}

// Conserves checks that a switch accounts for every frame and every buffer, and that no flow has
// had faults since it was judged. No frame may be under way.
func (n *Net) Conserves(t testing.TB, get func() state.Switch) {
	t.Helper()
	Conserves(t, get)
	for _, p := range n.Peers {
		for _, f := range p.Late() {
			a := p.Got(f)
			t.Errorf("%s: more faults afterwards: %d frames damaged, %d twice, %d out of order", n.judged[f], a.Damaged,
				a.Twice, a.Disordered)
		}
	}
}

// Whole sends frames of all lengths and tags both ways between two peers, all of which must arrive,
// and no others.
func (n *Net) Whole(t testing.TB, a, b, frames int) {
	t.Helper()
	there, back := n.Flow(a, b, rig.Every), n.Flow(b, a, rig.Every)
	const rate = 800
	one, other := n.Send(a, there, frames, rate), n.Send(b, back, frames, rate)
	Must(t, errors.Join(<-one, <-other))
	n.Drain(t, b, frames, there)
	n.Drain(t, a, frames, back)
	n.Exact(t, b, there, frames, "one way")
	n.Exact(t, a, back, frames, "the other way")
	for i, p := range n.Peers {
		if strange := p.Strange(); len(strange) > 0 {
			f := strange[0]
			t.Errorf("peer %d got frames of no flow; the first has %d bytes: %x…", i, len(f), f[:min(len(f), 48)])
		}
	}
}
