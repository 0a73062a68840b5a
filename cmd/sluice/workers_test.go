package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/linux/umem"
	"sluice/pmd/mem"
)

// TestTwoWorkers runs a switch with two workers. One sender is on the target's worker; the frames
// of the other cross from worker to worker. On a machine with two CPUs the hosts take their time
// from the workers.
func TestTwoWorkers(t *testing.T) {
	s := program.NewSite(t, 3)
	before, files := statesOf(t, s), program.Remembered(t, s)
	const text = "workers: [0, 1]\n" + slowSwitch
	p := program.StartSwitch(t, s.Home, text)
	t.Logf("forwards after %v", p.Await(1, "msg=forwarding"))
	c := newCrew(t, s, 3, []int{target, 1, 2}, map[int][]traffic.Flow{
		1: {flowToTarget(1, 1, lossless), flowToTarget(2, 1, lossy)},
		2: {flowToTarget(3, 2, lossless), flowToTarget(4, 2, lossy)}})
	c.more(300, 1, 2, 3, 4)
	c.settle(1, 3)
	sent, got := c.sent(), c.received()
	c.leave()
	r := p.Stop()
	checkRestored(t, s, before, files)
	checkLossless(t, r, sent, got, 1, 3)
	checkBuffers(t, text, r)
	if len(r.Workers) != 2 {
		t.Errorf("%d workers", len(r.Workers))
	}
	for _, id := range []uint32{2, 4} {
		if f := got[id]; f.Missing == 0 || f.Reordered+f.Duplicates+f.Stale > 0 {
			t.Errorf("lossy flow %d: sent %d, received %+v: want some lost, and order", id, sent[id], f)
		}
	}
	if r.Port(t, "port1").PFC.XON == 0 || r.Port(t, "port2").PFC.XON == 0 {
		t.Error("nobody was told to go on")
	}
	t.Logf("%+v", r.Workers)
}

// stage is a switch with three workers of two ports each and a host on each port, in virtual time.
// Each worker has its own times of iteration.
type stage struct {
	rng   *rand.Rand
	now   int64
	plane *dataplane.Switch
	next  []int64 // by worker
	wires []*mem.Wire
	hosts []*traffic.Host
}

const (
	stagePorts = 6
	stageSpeed = 1_000_000_000
)

// newStage makes each host send to the last one, in a VLAN that only the two share.
func newStage(t *testing.T, memory *umem.Memory, seed uint64) *stage {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "workers: [0, 1, 2]\nmemory: {buffers: %d}\nclasses:\n", memory.Buffers())
	text.WriteString("  - {cos: [3], lossless: true, share: 64KB, headroom: 1MB}\n  - {cos: [0], share: 128KB, " +
		"queue_limit: 128KB}\nports:\n")
	for i := 1; i < stagePorts; i++ {
		fmt.Fprintf(&text, "  - {device: port%d, speed: 1G, in_flight: 16KB, response: 20us, vlans: [1, %d]}\n", i,
			100+i)
	}
	fmt.Fprintf(&text, "  - {device: port%d, speed: 1G, in_flight: 16KB, response: 20us, vlans: [1, 101-199]}\n",
		stagePorts)
	c, err := config.Parse("stage", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	p, err := params.Of(c, memory)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{rng: rand.New(rand.NewPCG(seed, 0)), next: make([]int64, p.Workers)}
	if s.plane, err = dataplane.NewSwitch(p); err != nil {
		t.Fatal(err)
	}
	plan := &dataplane.Plan{}
	for i, port := range p.Ports {
		plan.Links = append(plan.Links, dataplane.Link{Driver: s.connect(t, memory, i+1, port.Buffers), Up: true,
			TXRing: port.Buffers})
	}
	s.plane.Publish(plan)
	return s
}

// connect attaches a host to a port through a wire, and returns the switch's end.
func (s *stage) connect(t *testing.T, memory *umem.Memory, port, ring int) *mem.Port {
	t.Helper()
	const buffers, size = 1024, 2048
	end := mem.End{Memory: make([]byte, buffers*size), Buffer: size}
	w, err := mem.NewWire(mem.Params{Rate: stageSpeed, Delay: mem.Length(100), Ring: ring}, end,
		mem.End{Memory: memory.Bytes(), Buffer: size})
	if err != nil {
		t.Fatal(err)
	}
	p := traffic.Params{Port: w.A, Memory: end.Memory, BufferSize: size, Buffers: buffers,
		MAC: hostMAC(port), Speed: stageSpeed, InFlight: 16 << 10, Priorities: 1 << lossless}
	if port != stagePorts {
		for _, pcp := range []uint8{lossless, lossy} {
			p.Flows = append(p.Flows, traffic.Flow{ID: uint32(8*port) + uint32(pcp), Dst: hostMAC(stagePorts),
				VID: uint16(100 + port), PCP: pcp, Size: 100 + s.rng.IntN(1396)})
		}
	}
	h, err := traffic.New(p)
	if err != nil {
		t.Fatal(err)
	}
	w.B.Fill(s.plane.Parked(port - 1))
	s.wires, s.hosts = append(s.wires, w), append(s.hosts, h)
	return w.B
}

// run advances time by ns. A worker's iteration takes 0.1 to 0.6 µs, occasionally up to 50 µs.
func (s *stage) run(ns int64) {
	for end := s.now + ns; s.now < end; s.now += 200 {
		for _, w := range s.wires {
			w.Advance(s.now)
		}
		for _, h := range s.hosts {
			h.Step(s.now)
		}
		for i, w := range s.plane.Workers {
			if s.now < s.next[i] {
				continue
			}
			w.Step(s.now)
			s.next[i] = s.now + 100 + s.rng.Int64N(500)
			if s.rng.IntN(500) == 0 {
				s.next[i] += s.rng.Int64N(50_000)
			}
		}
	}
}

// held returns the number of cells in use and frames on wires.
func (s *stage) held() (n int) {
	for _, w := range s.plane.Workers {
		n += w.Look(s.now).CellsInUse
	}
	for _, w := range s.wires {
		n += w.InFlight()
	}
	return n
}

// TestWorkersOutOfStep sends 5:1 across three workers that are late at random.
func TestWorkersOutOfStep(t *testing.T) {
	memory, err := umem.Map(16384, 2048)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	for seed := range uint64(8) {
		s := newStage(t, memory, seed)
		s.run(20e6)
		for _, h := range s.hosts {
			h.Stop()
		}
		for limit := s.now + 100e6; s.held() > 0 && s.now < limit; {
			s.run(100_000)
		}
		s.check(t, seed)
	}
}

// check checks conservation and the frames that the target received.
func (s *stage) check(t *testing.T, seed uint64) {
	t.Helper()
	if err := s.plane.Check(); err != nil || s.held() > 0 {
		t.Errorf("seed %d: %d cells and frames are left; %v", seed, s.held(), err)
	}
	got := map[uint32]traffic.Received{}
	for _, r := range s.hosts[stagePorts-1].Stats(s.now).Received {
		got[r.ID] = r
	}
	var lost [8]uint64
	for _, h := range s.hosts {
		for _, f := range h.Stats(s.now).Sent {
			r := got[f.ID]
			lost[f.ID%8] += f.Frames - r.Frames
			if r.Frames == 0 || r.Reordered+r.Duplicates+r.Stale > 0 {
				t.Errorf("seed %d: flow %d: sent %d, received %+v", seed, f.ID, f.Frames, r)
			}
		}
	}
	if lost[lossless] > 0 || lost[lossy] == 0 {
		t.Errorf("seed %d: lost %d lossless and %d lossy frames: want none, and some", seed, lost[lossless],
			lost[lossy])
	}
	for _, w := range s.plane.Workers {
		for _, p := range w.Look(s.now).Ports {
			if p.LosslessDrops() > 0 || p.FloodCopies > 0 || p.Number != stagePorts-1 && p.PFCSent.XOFF[lossless] == 0 {
				t.Errorf("seed %d: %s: %d lossless drops, %d flooded, %d XOFF", seed, p.Name, p.LosslessDrops(),
					p.FloodCopies, p.PFCSent.XOFF[lossless])
			}
		}
	}
}
