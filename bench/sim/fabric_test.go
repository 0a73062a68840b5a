package sim

import (
	"fmt"
	"testing"

	"sluice/bench/traffic"
	"sluice/internal/frame"
)

const (
	lossless = LosslessCoS
	lossy    = 0
	gbit     = uint64(1e9)
)

// testSwitch adds a switch with ports of 10 Gbit/s, assigned to workers in turn.
func testSwitch(t *testing.T, f *Fabric, name string, ports, workers int) *Switch {
	t.Helper()
	s, err := f.AddLosslessSwitch(name, LosslessSwitch{
		Ports: ports, Workers: workers, Cable: Cable{Rate: 10 * gbit, Metres: 300},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return s
}

// testHost adds a host with flows.
func testHost(t *testing.T, f *Fabric, s *Switch, port int, mac frame.MAC, speed uint64, flows ...traffic.Flow) *Host {
	t.Helper()
	h, err := f.AddHost(fmt.Sprintf("host %v", mac), s, port, Cable{Rate: speed, Metres: 300}, traffic.Params{
		MAC: mac, Speed: speed, InFlight: 16 << 10, Flows: flows, Priorities: 1 << lossless,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const target = frame.MAC(0x0200_0000_00ff)

// testFlow returns a flow to the target.
func testFlow(id uint32, pcp uint8, size int, rate uint64) traffic.Flow {
	return traffic.Flow{ID: id, Dst: target, VID: 100, PCP: pcp, Size: size, Rate: rate}
}

// verify settles the fabric and compares what each flow sent with what the target received.
func verify(t *testing.T, f *Fabric, sink *Host, senders ...*Host) (lostByPCP [8]uint64) {
	t.Helper()
	if err := f.Settle(50e6); err != nil {
		t.Error(err)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	received := map[uint32]traffic.Received{}
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

// TestThreeWorkers puts each sender and the target on ports of different workers, so every frame
// crosses.
func TestThreeWorkers(t *testing.T) {
	f := NewFabric(3)
	s := testSwitch(t, f, "sw", 3, 3)
	var senders []*Host
	for i := range 2 {
		id := uint32(8 * i)
		senders = append(senders, testHost(t, f, s, i, frame.MAC(0x0200_0000_0001+i), 10*gbit,
			testFlow(id+lossless, lossless, 300, 6*gbit), testFlow(id+lossy, lossy, 1000, 4*gbit)))
	}
	// The target sends a frame, so that its own worker learns its address and announces it to the
	// others.
	hello := traffic.Flow{ID: 40, Dst: 0x0200_0000_0001, VID: 100, PCP: 1, Size: 60, Rate: 1e6}
	sink := testHost(t, f, s, 2, target, 10*gbit, hello)
	f.Run(5e6)
	lost := verify(t, f, sink, senders...)
	if lost[lossless] != 0 || lost[lossy] == 0 {
		t.Errorf("lost %d lossless and %d lossy frames, want none and some", lost[lossless], lost[lossy])
	}
	for i, p := range s.Ports(f.Now())[:2] {
		if p.PFCSent.XOFF[lossless] == 0 {
			t.Errorf("port %d never sent XOFF", i)
		}
		if p.FloodCopies > 100 {
			t.Errorf("port %d flooded %d copies: what one worker learnt did not reach the others", i, p.FloodCopies)
		}
	}
}

// TestStepAllocatesNothing exercises forwarding, flooding, congestion, and PFC in both directions.
func TestStepAllocatesNothing(t *testing.T) {
	f := NewFabric(1)
	s := testSwitch(t, f, "sw", 3, 1)
	for i := range 2 {
		testHost(t, f, s, i, frame.MAC(0x0200_0000_0001+i), 10*gbit, testFlow(uint32(8*i)+lossless, lossless, 200,
			8*gbit),
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
	if p := s.Ports(f.Now())[0]; p.PFCSent.XOFF[lossless] == 0 || p.FloodCopies == 0 {
		t.Error("the load provoked no PFC or no flooding: the test tests too little")
	}
}

// TestLongFastCable loads 100 km at 400 Gbit/s between a host and a switch to 95 %. No frame is
// lost, and each takes the cable's delay and a few polls.
func TestLongFastCable(t *testing.T) {
	const rate, oneWay = 400 * gbit, 513_000
	f := NewFabric(1)
	defer f.Close()
	short, long := Cable{Rate: rate, Metres: 1}, Cable{Rate: rate, Metres: 100e3, Transceivers: 1000}
	s, err := f.AddLosslessSwitch("sw", LosslessSwitch{Ports: 2, Cable: short, XOFF: 1024})
	if err != nil {
		t.Fatal(err)
	}
	addHost := func(port int, c Cable, mac frame.MAC, flows ...traffic.Flow) *Host {
		h, err := f.AddHost("host", s, port, c, traffic.Params{MAC: mac, Speed: rate, InFlight: c.InFlight(),
			Flows: flows})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	sender, sink := addHost(0, long, 0x0200_0000_0001, testFlow(0, lossy, 1514, rate*95/100)), addHost(1, short, target)
	f.Run(2 * oneWay)
	sent, got := sender.Stats(f.Now()).Sent[0], sink.Stats(f.Now()).Received[0]
	perFrame := float64(1514+frame.WireOverhead) * 8e9 / float64(rate)
	if busy := perFrame * float64(sent.Frames) / float64(f.Now()); busy < 0.94 {
		t.Errorf("the host kept its line busy for %.1f %% of the time", 100*busy)
	}
	if least := int64(oneWay + 1000 + 2*perFrame); got.FromWire.Mean < least || got.FromWire.Max > least+5*PollMax {
		t.Errorf("frames took %+v ns, want %d and a few polls", got.FromWire, least)
	}
	if lost := verify(t, f, sink, sender); lost[lossy] != 0 {
		t.Errorf("%d frames lost", lost[lossy])
	}
}
