package control

import (
	"context"
	"testing"
	"time"

	"sluice/bench/testkit/configtest"
	"sluice/bench/traffic"
	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd/mem"
)

// A line is two hosts on links of 1G and a switch between them that sends slower, in virtual time.
type line struct {
	now    int64
	worker *dataplane.Worker
	plane  *dataplane.Switch
	wires  [2]*mem.Wire
	hosts  [2]*traffic.Host
	pauses [2]pauses // that the hosts received
}

// pauses are the pauses of the lossless class that a host received.
type pauses struct {
	xoff, xon int
	since     int64 // time of the last XOFF, until XON
	longest   int64 // longest time from one XOFF to the next
}

func (p *pauses) add(at int64, quanta uint16) {
	switch {
	case quanta == 0:
		p.xon++
		p.since = 0
		return
	case p.since > 0:
		p.longest = max(p.longest, at-p.since)
	}
	p.xoff++
	p.since = at
}

const lineRate = 1_000_000_000

var lineMACs = [2]frame.MAC{0x0200_0000_0001, 0x0200_0000_0002}

// newLine makes a line. The first host sends lossless frames to the second at line rate, and the
// second pauses the switch once.
func newLine(t *testing.T, c *config.Config) *line {
	t.Helper()
	memory := configtest.Memory(t, c)
	translated, err := params.Of(c, memory)
	if err != nil {
		t.Fatal(err)
	}
	l := &line{}
	if l.plane, err = dataplane.NewSwitch(translated); err != nil {
		t.Fatal(err)
	}
	l.worker = l.plane.Workers[0]
	plan := &dataplane.Plan{}
	for i, p := range translated.Ports {
		plan.Links = append(plan.Links, dataplane.Link{Driver: l.connect(t, memory, i, p.Buffers), Up: true,
			TXRing: p.Buffers})
	}
	l.plane.Publish(plan)
	return l
}

// connect connects a host to a port and returns the switch's end of the wire.
func (l *line) connect(t *testing.T, memory *umem.Memory, port, ring int) *mem.Port {
	t.Helper()
	const buffers, size = 1024, 2048
	end := mem.End{Memory: make([]byte, buffers*size), Buffer: size}
	tap := func(at int64, toB bool, b []byte) {
		var f pfc.Frame
		if b[12] != 0x88 || b[13] != 0x08 || toB {
			return
		}
		if kind, _ := pfc.Decode(b, &f); kind == pfc.PFC && f.Enable>>lossless&1 == 1 {
			l.pauses[port].add(at, f.Quanta[lossless])
		}
	}
	w, err := mem.NewWire(mem.Params{Rate: lineRate, Delay: mem.Length(100), Ring: ring, Tap: tap}, end,
		mem.End{Memory: memory.Bytes(), Buffer: memory.BufferSize()})
	if err != nil {
		t.Fatal(err)
	}
	p := traffic.Params{Port: w.A, Memory: end.Memory, BufferSize: size, Buffers: buffers, MAC: lineMACs[port],
		Speed: lineRate, InFlight: 16 << 10, Priorities: 1 << lossless}
	if port == 0 {
		p.Flows = []traffic.Flow{{ID: 1, Dst: lineMACs[1], PCP: lossless, Size: 1000}}
	} else {
		p.Injection.Frame.Enable = 1 << lossless
		p.Injection.Frame.Quanta[lossless] = 65535
	}
	if l.hosts[port], err = traffic.New(p); err != nil {
		t.Fatal(err)
	}
	w.B.Fill(l.plane.Parked(port))
	l.wires[port] = w
	return w.B
}

// run lets ns pass.
func (l *line) run(ns int64) {
	for end := l.now + ns; l.now < end; l.now += 2000 {
		for _, w := range l.wires {
			w.Advance(l.now)
		}
		for _, h := range l.hosts {
			h.Step(l.now)
		}
		l.worker.Step(l.now)
	}
}

// TestSlowerThanTheLink: the peer of a port that sends slower than its link still counts pauses,
// and sends, at the rate of the link. So nothing lossless is lost, and a pause is refreshed before
// it expires. The pauses of the peer are counted at that rate too.
func TestSlowerThanTheLink(t *testing.T) {
	const text = `
memory: {buffers: 16384}
classes: [{cos: [3], lossless: true, share: 1MB, xon: 100KB}]
ports:
  - {device: a, speed: 20M, in_flight: 4KB, response: 50us}
  - {device: b, speed: 20M, in_flight: 4KB, response: 50us}
`
	c, err := configtest.Parse(t, text).OnLinks(config.AtRates(map[string]uint64{"a": lineRate, "b": lineRate}))
	if err != nil {
		t.Fatal(err)
	}
	l := newLine(t, c)
	l.run(1e9)
	l.hosts[0].Stop()
	l.run(5e8)

	snapshot := l.worker.Look(l.now)
	a, b := &snapshot.Ports[0], &snapshot.Ports[1]
	sent, got := l.hosts[0].Stats(l.now).Sent[0], l.hosts[1].Stats(l.now).Received
	var received, bits uint64
	for _, r := range got {
		received, bits = received+r.Frames, bits+8*(r.Bytes+frame.WireOverhead*r.Frames)
	}
	if a.LosslessDrops() > 0 || received != sent.Frames || received < 1000 {
		t.Errorf("%d lossless drops; sent %d frames, received %d", a.LosslessDrops(), sent.Frames, received)
	}
	const pause = 65535 * pfc.QuantumBits * 1_000_000_000 / lineRate // ns, 33.6 ms
	if p, g := l.pauses[0], &a.PFCSent; p.xoff < 30 || p.xon == 0 || p.longest > pause*6/10 ||
		g.Refreshes[lossless] < 20 || g.Lapses[lossless] > 0 {
		t.Errorf("%d XOFF, %d XON, at the most %v apart; %d repetitions, %d too late", p.xoff, p.xon,
			time.Duration(p.longest),
			g.Refreshes[lossless], g.Lapses[lossless])
	}
	if was := b.PFCReceived.PausedNS[lossless]; was < pause || was > pause+1 {
		t.Errorf("b was paused for %v, and asked for %v", time.Duration(was), time.Duration(pause))
	}
	if bits > 20e6*16/10 {
		t.Errorf("%d bits left b in 1.5 s, which are more than 20M a second", bits)
	}
}

// TestEndedWhileStarting: a switch that is ended before it has opened its devices, each of which
// may take seconds, opens none.
func TestEndedWhileStarting(t *testing.T) {
	y := emptyYard(t)
	y.build("ports: [{device: port1, speed: 1M}, {device: port2, speed: 1M}]")
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := y.home.Do(func() error { return y.Run(ctx) }); err != nil {
		t.Fatal(err)
	}
	for _, p := range y.Final().Ports {
		if p.driver != nil {
			t.Errorf("%s was opened", p.PortInfo.Name)
		}
	}
	if y.Ready() {
		t.Error("a switch that was ended says that it is ready")
	}
}
