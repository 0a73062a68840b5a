package live

import (
	"fmt"
	"math/bits"
	"testing"
	"time"

	"sluice/bench/netns"
	"sluice/pfc"
)

// slow is a speed with long pauses: a quantum takes 512 µs, 65535 of them more than half a minute.
const slow = 1_000_000

const quantum = 512 * time.Microsecond

// pfcHosts are a generator with two ports whose peers can pause it. Each port has a flow of
// priority 3, ID 0, and one of priority 4, ID 1.
type pfcHosts struct {
	t         *testing.T
	peer      *netns.Namespace
	generator *Generator
	ears      [2]*Sink // at the generator's end
	sinks     [2]*Sink
}

func newPFCHosts(t *testing.T, p SinkParams) *pfcHosts {
	t.Helper()
	l := newLab(t)
	host := newNamespace(t, l, "host")
	h := &pfcHosts{t: t, peer: newNamespace(t, l, "peer")}
	g := GeneratorParams{Pauses: newPauses(t, 2), CatchUp: time.Minute}
	for i := range h.ears {
		tx, rx := fmt.Sprint("h", i), fmt.Sprint("p", i)
		if err := l.Veth(host, tx, h.peer, rx); err != nil {
			t.Fatal(err)
		}
		p.Pauses, p.Port, p.Flows = g.Pauses, i, 1
		h.ears[i] = newSink(t, host, tx, p)
		h.sinks[i] = newSink(t, h.peer, rx, SinkParams{Flows: 2})
		g.Ports = append(g.Ports,
			PortParams{Namespace: host, Device: tx, Flows: []Flow{flow(0, 3, 60, 20_000), flow(1, 4, 60, 20_000)}})
	}
	h.generator = start(t, g)
	h.goOn(0, 0)
	return h
}

// tell sends a PFC frame or a PAUSE to port 0 and waits until it has taken effect.
func (h *pfcHosts) tell(f pfc.Frame, put func(*pfc.Frame, []byte, [6]byte) int) {
	h.t.Helper()
	b := make([]byte, pfc.FrameLength)
	put(&f, b, peerMAC.Bytes())
	pfc.Decode(b, &f)
	heard := func() (n uint64) {
		c := h.ears[0].Read().Control
		for priority := range priorities {
			n += c.XOFF[priority] + c.XON[priority]
		}
		return n
	}
	before := heard()
	inject(h.t, h.peer, "p0", b)
	until(h.t, "the frame obeyed", func() bool { return heard() == before+uint64(bits.OnesCount8(f.Enable)) })
}

// goOn waits until a flow has sent more frames.
func (h *pfcHosts) goOn(port, flow int) {
	h.t.Helper()
	before := h.generator.Sent()[2*port+flow].Frames
	until(h.t, fmt.Sprintf("flow %d of port %d going on", flow, port), func() bool {
		return h.generator.Sent()[2*port+flow].Frames > before+500
	})
}

// standStill fails unless the flows of port 0 send nothing while port 1 sends.
func (h *pfcHosts) standStill(flows ...int) {
	h.t.Helper()
	h.goOn(1, 0) // by now a frame that was being made when the pause began has been sent
	before := h.generator.Sent()
	h.goOn(1, 0)
	h.goOn(1, 1)
	after := h.generator.Sent()
	for _, f := range flows {
		if n := after[f].Frames - before[f].Frames; n > 0 {
			h.t.Errorf("flow %d has sent %d frames in a pause", f, n)
		}
	}
}

// settled stops the generator and fails unless every frame has arrived in order.
func (h *pfcHosts) settled() {
	h.t.Helper()
	for i, s := range stop(h.t, h.generator) {
		var r Received
		until(h.t, "all frames", func() bool {
			r = h.sinks[s.Port].Read().Flows[s.Flow]
			return r.Frames == s.Frames
		})
		if r.First != 0 || r.Lost+r.Reordered+r.Duplicates > 0 || s.Forgone > 0 {
			h.t.Errorf("flow %d: sent %+v; lost %d, reordered %d, duplicates %d", i, s, r.Lost, r.Reordered,
				r.Duplicates)
		}
	}
}

// TestPFCStopsItsPriority: a PFC frame pauses only its priority, on its port, until XON.
func TestPFCStopsItsPriority(t *testing.T) {
	h := newPFCHosts(t, SinkParams{Priorities: 0b1000, Speed: slow})
	h.tell(pfc.Frame{Enable: 0b11000, Quanta: [8]uint16{3: 65535, 4: 65535}}, (*pfc.Frame).Put) // 4 ignores it
	h.standStill(0)
	h.goOn(0, 1)
	h.tell(pfc.Frame{Enable: 0b10000, Quanta: [8]uint16{}}, (*pfc.Frame).Put) // not for priority 3
	h.standStill(0)
	h.tell(pfc.Frame{Enable: 0b01000}, (*pfc.Frame).Put)
	h.goOn(0, 0)
	h.settled()
	heard := h.ears[0].Read().Control
	if heard.PFC != 3 || heard.XOFF != [8]uint64{3: 1, 4: 1} || heard.XON != [8]uint64{3: 1, 4: 1} ||
		heard.Paused[4] != 0 {
		t.Errorf("%+v", heard)
	}
	// The frames that the pause held back were due long before they were sent.
	paused, r := heard.Paused[3], h.sinks[0].Read().Flows[0]
	if late := time.Duration(r.FromSchedule.Max); late < paused-time.Millisecond {
		t.Errorf("paused for %v, but no frame was late by more than %v", paused, late)
	}
}

// TestPauseEndsByItself: a pause ends exactly after its quanta; a refresh extends it.
func TestPauseEndsByItself(t *testing.T) {
	h := newPFCHosts(t, SinkParams{Priorities: 0b1000, Speed: slow})
	for i := range uint64(3) {
		h.tell(pfc.Frame{Enable: 0b1000, Quanta: [8]uint16{3: 40}}, (*pfc.Frame).Put)
		h.goOn(0, 0)
		if got, want := h.ears[0].Read().Control.Paused[3], time.Duration(i+1)*40*quantum; got != want {
			t.Fatalf("paused for %v after %d pauses, want %v", got, i+1, want)
		}
	}
	// The second frame arrives before the first pause is over: one pause, until the second one's
	// quanta are over.
	h.tell(pfc.Frame{Enable: 0b1000, Quanta: [8]uint16{3: 65535}}, (*pfc.Frame).Put)
	h.standStill(0)
	h.tell(pfc.Frame{Enable: 0b1000, Quanta: [8]uint16{3: 40}}, (*pfc.Frame).Put)
	h.goOn(0, 0)
	w := h.generatorWords()
	if got, want := h.ears[0].Read().Control.Paused[3], 3*40*quantum+
		time.Duration(w[pauseEnd]-w[pauseBegin]); got != want {
		t.Errorf("paused for %v, want %v", got, want)
	}
	h.settled()
}

// generatorWords returns the generator's view of priority 3 on port 0.
func (h *pfcHosts) generatorWords() [pauseWords]uint64 { return h.ears[0].pauses.look(3 * pauseWords) }

// TestPauseStopsAll: PAUSE stops all priorities.
func TestPauseStopsAll(t *testing.T) {
	h := newPFCHosts(t, SinkParams{Priorities: 0xff, Speed: slow})
	h.tell(pfc.Frame{Quanta: [8]uint16{65535}}, (*pfc.Frame).PutPause)
	h.standStill(0, 1)
	h.tell(pfc.Frame{}, (*pfc.Frame).PutPause)
	h.goOn(0, 0)
	h.goOn(0, 1)
	h.settled()
	if heard := h.ears[0].Read().Control; heard.Pause != 2 || heard.XOFF[0] != 1 || heard.XON[7] != 1 {
		t.Errorf("%+v", heard)
	}
}

// TestReactionTakesItsTime: a delay postpones both the beginning and the end of a pause.
func TestReactionTakesItsTime(t *testing.T) {
	const delay = 50 * time.Millisecond
	h := newPFCHosts(t, SinkParams{Priorities: 0b1000, Speed: slow, Delay: delay})
	before := int64(monotonic())
	h.tell(pfc.Frame{Enable: 0b1000, Quanta: [8]uint16{3: 65535}}, (*pfc.Frame).Put)
	if begin := int64(h.generatorWords()[pauseBegin]); begin < before+int64(delay) {
		t.Errorf("the pause begins %v after the frame", time.Duration(begin-before))
	}
	until(t, "the pause", func() bool { return h.ears[0].Read().Control.Paused[3] > 0 })
	h.standStill(0)
	before = int64(monotonic())
	h.tell(pfc.Frame{Enable: 0b1000}, (*pfc.Frame).Put)
	if end := int64(h.generatorWords()[pauseEnd]); end < before+int64(delay) {
		t.Errorf("the pause ends %v after the frame", time.Duration(end-before))
	}
	h.goOn(0, 0)
	h.settled()
}
