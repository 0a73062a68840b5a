package bench

import (
	"fmt"
	"testing"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/internal/gen"
)

const (
	lossless = 3 // CoS
	lossy    = 0
	gbit     = uint64(1e9)
)

// testSwitch adds a switch of so many ports at 10 Gbit/s, dealt out to workers in turn.
func testSwitch(t *testing.T, f *Fabric, name string, ports, workers int) *FabricSwitch {
	t.Helper()
	memory, err := cells.Map(16384, 2048)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	p := dataplane.Params{Memory: memory, CellSize: 160, Workers: workers}
	for i := range ports {
		port := losslessPort(fmt.Sprintf("%s.%d", name, i), 10*gbit, 512)
		port.Worker = i % workers
		port.InFlight = 16 << 10
		port.Sched.Burst = 1600
		port.Cells.Groups[lossless].Headroom = 700
		p.Ports = append(p.Ports, port)
		p.Bridge.Ports = append(p.Bridge.Ports, bridge.PortParams{})
	}
	s, err := f.AddSwitch(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testHost adds a host with flows that each offer rate.
func testHost(t *testing.T, f *Fabric, s *FabricSwitch, port int, mac frame.MAC, speed uint64, flows ...gen.Flow) *FabricHost {
	t.Helper()
	h, err := f.AddHost(fmt.Sprintf("host %v", mac), s, port, Cable{Rate: speed, Metres: 300}, gen.Params{
		MAC: mac, Speed: speed, InFlight: 16 << 10, Flows: flows, Priorities: 1 << lossless,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const target = frame.MAC(0x0200_0000_00ff)

// testFlow leads to the target.
func testFlow(id uint32, pcp uint8, size int, rate uint64) gen.Flow {
	return gen.Flow{ID: id, Dst: target, VID: 100, PCP: pcp, Size: size, Rate: rate}
}

// verify settles the fabric and compares what every flow sent with what the target received.
func verify(t *testing.T, f *Fabric, sink *FabricHost, senders ...*FabricHost) (lostByPCP [8]uint64) {
	t.Helper()
	if err := f.Settle(50e6); err != nil {
		t.Error(err)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	received := map[uint32]gen.Received{}
	for _, r := range sink.Stats(f.Now()).Received {
		received[r.ID] = r
		if r.Reordered+r.Duplicates+r.Stale > 0 {
			t.Errorf("flow %d: %d reordered, %d duplicates, %d stale", r.ID, r.Reordered, r.Duplicates, r.Stale)
		}
	}
	if s := sink.Stats(f.Now()); s.Corrupt > 0 {
		t.Errorf("%d corrupt frames", s.Corrupt)
	}
	for _, h := range senders {
		for _, s := range h.Stats(f.Now()).Sent {
			r := received[s.ID]
			if s.Frames == 0 || r.Frames == 0 {
				t.Errorf("flow %d: sent %d, received %d: the test tests nothing", s.ID, s.Frames, r.Frames)
			}
			lostByPCP[s.ID%8] += s.Frames - r.Frames
		}
	}
	return lostByPCP
}

// chain is two hosts, three switches in a row and a target whose link is a tenth as fast; the flows are such that
// the congestion at the far end must reach the hosts.
func chain(t *testing.T, seed uint64) (f *Fabric, switches [3]*FabricSwitch, lost [8]uint64) {
	t.Helper()
	f = NewFabric(seed)
	for i := range switches {
		switches[i] = testSwitch(t, f, fmt.Sprintf("sw%d", i+1), 3, 1)
	}
	for i := range 2 {
		if err := f.Join(switches[i], 2, switches[i+1], 0, Cable{Rate: 10 * gbit, Metres: 300}); err != nil {
			t.Fatal(err)
		}
	}
	var senders []*FabricHost
	for i := range 2 {
		id := uint32(8 * i)
		senders = append(senders, testHost(t, f, switches[0], i, frame.MAC(0x0200_0000_0001+i), 10*gbit,
			testFlow(id+lossless, lossless, 60+f.rng.IntN(1400), 4*gbit),
			testFlow(id+lossy, lossy, 60+f.rng.IntN(1400), 2*gbit)))
	}
	sink := testHost(t, f, switches[2], 2, target, gbit)
	f.Run(3e6)
	lost = verify(t, f, sink, senders...)
	return f, switches, lost
}

func TestCongestionTravelsUpAChainWithoutLoss(t *testing.T) {
	for seed := range uint64(3) {
		f, switches, lost := chain(t, seed)
		if lost[lossless] != 0 {
			t.Errorf("seed %d: %d lossless frames lost", seed, lost[lossless])
		}
		if lost[lossy] == 0 {
			t.Errorf("seed %d: no lossy frame lost: there was no congestion", seed)
		}
		for i, s := range switches {
			ports := s.Ports(f.Now())
			upstream := ports[:1]
			if i == 0 {
				upstream = ports[:2] // both hosts
			}
			for _, p := range upstream {
				if p.Sent.XOFF[lossless] == 0 || p.Sent.XON[lossless] == 0 {
					t.Errorf("seed %d: %s sent %d XOFF and %d XON: the pressure stopped there",
						seed, p.Name, p.Sent.XOFF[lossless], p.Sent.XON[lossless])
				}
			}
			for _, p := range ports {
				if p.LosslessDrops() != 0 || p.Sent.XOFF[lossy] != 0 {
					t.Errorf("seed %d: %s: %d lossless drops, %d XOFF for the lossy class", seed, p.Name, p.LosslessDrops(), p.Sent.XOFF[lossy])
				}
			}
		}
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	trace := func(seed uint64) uint64 {
		f, _, _ := chain(t, seed)
		return f.Trace()
	}
	a, b, c := trace(7), trace(7), trace(8)
	if a != b {
		t.Errorf("seed 7 gave the traces %x and %x", a, b)
	}
	if a == c {
		t.Errorf("seeds 7 and 8 gave the same trace %x", a)
	}
}

// TestThreeWorkers has each sender, and the target, on a port of another worker, so that every frame crosses.
func TestThreeWorkers(t *testing.T) {
	f := NewFabric(3)
	s := testSwitch(t, f, "sw", 3, 3)
	var senders []*FabricHost
	for i := range 2 {
		id := uint32(8 * i)
		senders = append(senders, testHost(t, f, s, i, frame.MAC(0x0200_0000_0001+i), 10*gbit,
			testFlow(id+lossless, lossless, 300, 6*gbit), testFlow(id+lossy, lossy, 1000, 4*gbit)))
	}
	// The target says something, so that its address is learnt on its own worker and announced to the others.
	hello := gen.Flow{ID: 40, Dst: 0x0200_0000_0001, VID: 100, PCP: 1, Size: 60, Rate: 1e6}
	sink := testHost(t, f, s, 2, target, 10*gbit, hello)
	f.Run(5e6)
	lost := verify(t, f, sink, senders...)
	if lost[lossless] != 0 || lost[lossy] == 0 {
		t.Errorf("lost %d lossless and %d lossy frames, want none and some", lost[lossless], lost[lossy])
	}
	for i, p := range s.Ports(f.Now())[:2] {
		if p.Sent.XOFF[lossless] == 0 {
			t.Errorf("port %d never sent XOFF", i)
		}
		if p.FloodCopies > 100 {
			t.Errorf("port %d flooded %d copies: what one worker learnt did not reach the others", i, p.FloodCopies)
		}
	}
}

// TestStepAllocatesNothing runs every kind of work: forwarding, flooding, congestion, PFC both ways.
func TestStepAllocatesNothing(t *testing.T) {
	f := NewFabric(1)
	s := testSwitch(t, f, "sw", 3, 1)
	for i := range 2 {
		testHost(t, f, s, i, frame.MAC(0x0200_0000_0001+i), 10*gbit, testFlow(uint32(8*i)+lossless, lossless, 200, 8*gbit),
			testFlow(uint32(8*i)+lossy, lossy, 200, 8*gbit))
	}
	testHost(t, f, s, 2, target, gbit)
	f.Run(200_000)
	if n := testing.AllocsPerRun(2000, func() {
		for _, w := range f.wires {
			w.Advance(f.now)
		}
		for _, h := range f.hosts {
			h.Step(f.now)
		}
		f.now += 300
		s.Workers[0].Step(f.now)
	}); n != 0 {
		t.Errorf("a step allocates %v times", n)
	}
	if p := s.Ports(f.Now())[0]; p.Sent.XOFF[lossless] == 0 || p.FloodCopies == 0 {
		t.Error("the load provoked no PFC or no flooding: the test tests too little")
	}
}
