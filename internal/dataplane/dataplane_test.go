package dataplane

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd/mem"
)

// dropped returns the drops of a port, keyed by "reason/priority".
func dropped(p PortSnapshot) map[string]uint64 {
	m := map[string]uint64{}
	for why := range p.Drops {
		for priority, n := range p.Drops[why] {
			if n > 0 {
				m[fmt.Sprintf("%v/%d", drop.Reason(why), priority)] = n
			}
		}
	}
	return m
}

func (r *rig) wantDrops(port int, want map[string]uint64) {
	r.t.Helper()
	if got := dropped(r.port(port)); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("port %d dropped %v, want %v", port, got, want)
	}
}

func TestForwardsUnchanged(t *testing.T) {
	r := newRig(t, 3, 1, nil)
	r.introduce()
	var sent [][]byte
	for i, length := range []int{18, 42, 60, 64, 300, 1518} {
		sent = append(sent, data(0, 1, uint8(5), length+4, i)[:length])
	}
	for _, b := range sent {
		r.send(0, b)
	}
	r.run(20_000)
	frames, _ := r.received(1)
	if len(frames) != len(sent) {
		t.Fatalf("%d frames arrived of %d", len(frames), len(sent))
	}
	for i := range sent {
		if !bytes.Equal(frames[i], sent[i]) {
			t.Errorf("frame %d changed:\n%x\n%x", i, sent[i], frames[i])
		}
	}
	if len(r.inboxes[2]) != 0 {
		t.Errorf("%d frames arrived at a port that had nothing to do with it", len(r.inboxes[2]))
	}
	r.idle()
}

func TestFloodsCopies(t *testing.T) {
	r := newRig(t, 4, 2, nil)
	b := data(0, 9, 2, 100, 1) // to an unknown address
	r.send(0, b)
	r.run(5000)
	for port := 1; port < 4; port++ {
		if len(r.inboxes[port]) != 1 || !bytes.Equal(r.inboxes[port][0], b) {
			t.Errorf("port %d got %d frames, want the one", port, len(r.inboxes[port]))
		}
	}
	if p := r.port(0); p.FloodCopies != 2 {
		t.Errorf("%d copies, want 2", p.FloodCopies)
	}
	r.idle()
}

// TestDropsHaveNames provokes each reason for which a single frame can be dropped.
func TestDropsHaveNames(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"runt", make([]byte, 13), "runt/0"},
		{"tag cut off", append(data(0, 1, 0, 60, 0)[:12], 0x81, 0x00, 0x00), "bad_tag/0"},
		{"VLAN 4095", func() []byte {
			b := data(0, 1, 0, 60, 0)
			frame.PutHeader(b, station0(1), station0(0), 4095, 6, true, frame.TypeIPv4)
			return b
		}(), "bad_tag/0"},
		{"S-tag", sTag(data(0, 1, 5, 60, 0), 100, 6), "s_tag/0"},
		{"S-tag cut off", sTag(data(0, 1, 0, 60, 0), 100, 6)[:17], "bad_tag/0"},
		{"S-tag of VLAN 4095", sTag(data(0, 1, 0, 60, 0), 4095, 6), "bad_tag/0"},
		{"oversize", data(0, 1, 2, 1200, 0), "oversize/2"},
		{"oversize for a lossless class", data(0, 1, lossless, 1050, 0), "oversize/3"},
		{"reserved address", func() []byte {
			b := data(0, 1, 7, 60, 0)
			frame.PutHeader(b, 0x0180c200000e, station0(0), 1, 7, true, frame.TypeLLDP)
			return b
		}(), "reserved_address/7"},
		{"second tag", behind(frame.TypeVLAN, 0xa000, data(0, 1, 1, 60, 0)), "second_tag/5"},
		{"to itself", data(0, 0, 1, 60, 0), "source_address/1"},
		{"from nobody", data(-0x0200_0000_0000, 1, 1, 60, 0), "source_address/1"},
		{"to a neighbour on the same port", data(8, 0, 1, 60, 0), "no_destination/1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 2, 1, func(p *Params) { p.Ports[0].MaxFrame, p.Ports[0].MaxLossless = 1100, 1000 })
			r.send(0, data(0, 1, 0, 60, 0))
			r.run(2000)
			r.send(0, c.b)
			r.run(5000)
			r.wantDrops(0, map[string]uint64{c.want: 1})
			if len(r.inboxes[1]) != 1 {
				t.Errorf("%d frames arrived, want the first only", len(r.inboxes[1]))
			}
			r.idle()
		})
	}
}

// TestThresholds fills one lossless group frame by frame, through its share and its headroom, while
// its egress is paused.
func TestThresholds(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	pause := pfc.Frame{Enable: 1 << lossless}
	pause.Quanta[lossless] = 65535 // 3.4 ms, longer than the test
	r.control(1, pause)
	r.run(2000)
	for n := 1; n <= 17; n++ {
		r.send(0, data(0, 1, lossless, 60, n)) // one cell
		r.run(1000)
		p := r.port(0)
		_, told := r.received(0)
		g := p.Groups[lossless]
		wantShared, wantHeadroom, wantPFC := min(n, 10), min(max(n-10, 0), 5), 0
		if n > 10 {
			wantPFC = 1
		}
		if g.Shared != wantShared || g.Headroom != wantHeadroom || g.PeakShared != wantShared ||
			g.PeakHeadroom != wantHeadroom {
			t.Errorf("after frame %d: %+v, want %d shared and %d of headroom", n, g, wantShared, wantHeadroom)
		}
		if len(told) != wantPFC || p.PFCSent.XOFF[lossless] != uint64(wantPFC) {
			t.Errorf("after frame %d: %d PFC frames, want %d", n, len(told), wantPFC)
		}
		if drops := p.LosslessDrops(); drops != uint64(max(n-15, 0)) {
			t.Errorf("after frame %d: %d lossless drops, want %d", n, drops, max(n-15, 0))
		}
	}
	r.wantDrops(0, map[string]uint64{"headroom_full/3": 2})
	r.wantDrops(1, map[string]uint64{})
	r.control(1, pfc.Frame{Enable: 1 << lossless}) // XON
	r.run(5000)
	frames, _ := r.received(1)
	_, told := r.received(0)
	if len(frames) != 15 {
		t.Errorf("%d frames arrived, want the 15 that were admitted", len(frames))
	}
	if last := told[len(told)-1]; len(told) != 2 || last.Enable != 1<<lossless || last.Quanta[lossless] != 0 {
		t.Errorf("partner was told %+v, want XOFF and then XON", told)
	}
	r.idle()
}

// TestRefreshesWhileCongested expects refreshes after half the pause time: half of 1000 quanta at
// 10 Gbit/s is 25.6 µs.
func TestRefreshesWhileCongested(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	pause := pfc.Frame{Enable: 1 << lossless}
	pause.Quanta[lossless] = 65535
	r.control(1, pause)
	for n := range 12 {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(10*25_600 + 2000)
	if p := r.port(0); p.PFCSent.XOFF[lossless] != 1 || p.PFCSent.Refreshes[lossless] != 10 &&
		p.PFCSent.Refreshes[lossless] != 9 {
		t.Errorf("%d XOFF and %d refreshes in ten intervals", p.PFCSent.XOFF[lossless], p.PFCSent.Refreshes[lossless])
	}
}

// TestPauseHoldsOnePriority checks that a paused class delays neither other classes nor PFC frames.
func TestPauseHoldsOnePriority(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	pause := pfc.Frame{Enable: 1 << lossless}
	pause.Quanta[lossless] = 100 // 5.12 µs
	r.control(1, pause)
	r.run(1000)
	for n := range 5 {
		r.send(0, data(0, 1, lossless, 60, n))
		r.send(0, data(0, 1, 0, 60, n))
	}
	r.run(3000)
	if frames, _ := r.received(1); len(frames) != 5 {
		t.Errorf("%d frames arrived during the pause, want the 5 of the other class", len(frames))
	}
	r.run(5000)
	if frames, _ := r.received(1); len(frames) != 10 {
		t.Errorf("%d frames arrived after the pause had run out, want all 10", len(frames))
	}
	if p := r.port(1); p.PFCReceived.PausedNS[lossless] != 5120 {
		t.Errorf("paused for %d ns, want 5120", p.PFCReceived.PausedNS[lossless])
	}
	r.idle()
}

func TestLossyQueueDropsAtItsLimit(t *testing.T) {
	r := newRig(t, 3, 1, func(p *Params) {
		p.Ports[2].Sched.Rate, p.Ports[2].Sched.Burst = 1_000_000, 1 // almost nothing leaves
	})
	r.introduce()
	for n := range 40 {
		r.send(0, data(0, 2, 0, 60, n))
		r.send(1, data(1, 2, 0, 60, n))
	}
	r.run(20_000)
	p := r.port(2)
	if drops := p.Drops[drop.QueueFull][0]; drops != 80-50 {
		t.Errorf("%d frames dropped of 80, the queue takes 50", drops)
	}
	if p := r.port(0); p.PFCSent.Frames != 0 {
		t.Errorf("%d PFC frames for a lossy class", p.PFCSent.Frames)
	}
	if err := r.s.Check(); err != nil {
		t.Error(err)
	}
}

func TestMACControlIsConsumed(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	short := make([]byte, pfc.FrameLength)
	pause := pfc.Frame{Enable: 1 << lossless}
	pause.Quanta[lossless] = 10
	pause.Put(short, [6]byte{})
	r.send(0, short[:34])
	unknown := append([]byte(nil), short...)
	unknown[15] = 0x77
	r.send(0, unknown)
	plain := append([]byte(nil), short...)
	plain[14], plain[15] = 0, 1 // PAUSE
	r.send(0, plain)
	r.send(0, short[:20])
	r.run(5000)
	p := r.port(0)
	if p.PFCReceived.Frames != 1 || p.ControlShort != 1 || p.ControlUnknown != 1 || p.ControlIgnored != 1 ||
		p.ControlMalformed != 1 {
		t.Errorf("received %d, short %d, unknown %d, ignored %d, malformed %d; want 1 each",
			p.PFCReceived.Frames, p.ControlShort, p.ControlUnknown, p.ControlIgnored, p.ControlMalformed)
	}
	if len(r.inboxes[1]) != 0 {
		t.Error("a MAC control frame was forwarded")
	}
	r.idle()
}

// TestPortGoesAndComesBack removes a port's driver under load, in the same steps as the control
// plane.
func TestPortGoesAndComesBack(t *testing.T) {
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			r := newRig(t, 3, workers, nil)
			r.introduce()
			load := func(n int) {
				r.send(0, data(0, 2, lossless, 200, n))
				r.send(0, data(0, 1, lossless, 200, n))
			}
			pause := pfc.Frame{Enable: 1 << lossless}
			pause.Quanta[lossless] = 65535
			r.control(2, pause) // so that frames wait in its queue
			r.run(1000)
			for n := range 4 {
				load(n)
			}
			r.run(500)
			r.plan.Links[2] = Link{}
			r.publish()
			for n := 4; n < 8; n++ {
				load(n)
			}
			r.run(20_000)
			r.relink(2, Link{Closed: true}, 1000)
			r.idle()
			if p := r.port(2); p.Up || p.Buffers.Filled > 128 || p.Drops[drop.PortDown][lossless] == 0 {
				t.Errorf("absent port: up %t, %+v, drops %v", p.Up, p.Buffers, dropped(p))
			}
			r.wires[2] = r.newWire(2)
			r.wires[2].A.Fill(r.s.Parked(2))
			r.plan.Links[2] = Link{Driver: r.wires[2].A, Up: true, TXRing: ringSize}
			r.publish()
			r.inboxes[2] = nil
			r.run(1000)
			for n := 8; n < 12; n++ {
				load(n)
			}
			r.run(20_000)
			if frames, _ := r.received(2); len(frames) != 4 {
				t.Errorf("%d frames arrived at the port that came back, want 4", len(frames))
			}
			own := 0 // without frames that are flooded because the other address was forgotten
			for _, b := range r.inboxes[1] {
				if frame.MACFrom(b) == station0(1) {
					own++
				}
			}
			if own != 12 {
				t.Errorf("%d frames arrived at the port that stayed, want all 12", own)
			}
			r.idle()
		})
	}
}

// TestReclaimsWhatTheDriverHeld removes a port while frames are with its driver.
func TestReclaimsWhatTheDriverHeld(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	for n := range 8 {
		r.send(0, data(0, 1, lossless, 1000, n))
	}
	r.run(3000) // some have arrived, others are being sent
	held := r.port(1).Buffers.Sending
	if held == 0 {
		t.Fatal("the driver holds nothing: the test tests nothing")
	}
	r.relink(1, Link{}, 10_000)
	r.relink(1, Link{Closed: true}, 1000)
	if n := r.port(1).Drops[drop.PortGone][lossless]; n != uint64(held) {
		t.Errorf("%d frames dropped as port_gone, the driver held %d", n, held)
	}
	r.idle()
}

// TestDrain checks both stages: first peers are held in XOFF, lossy frames refused and lossless
// ones under way forwarded; then all frames are refused.
func TestDrain(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	r.drain(HoldPeers)
	r.run(500)
	r.send(0, data(0, 1, lossless, 60, 1))
	r.send(0, data(0, 1, 0, 60, 2))
	r.run(5000)
	for port := range 2 {
		if _, told := r.received(port); len(told) != 1 || told[0].Enable != 1<<lossless ||
			told[0].Quanta[lossless] == 0 {
			t.Errorf("port %d: partner was told %+v, want XOFF", port, told)
		}
	}
	if frames, _ := r.received(1); len(frames) != 1 {
		t.Errorf("%d frames arrived, want the lossless one", len(frames))
	}
	r.wantDrops(0, map[string]uint64{"draining/0": 1})
	r.drain(Refuse)
	r.run(200)
	r.send(0, data(0, 1, lossless, 60, 3))
	r.run(5000)
	r.wantDrops(0, map[string]uint64{"draining/0": 1, "draining/3": 1})
	r.idle()
}

// twice completes every buffer twice, like kernels that published a completion before they had
// taken the frame.
type twice struct {
	*mem.Port
	again []uint64
}

func (p *twice) Complete(addrs []uint64) int {
	n := copy(addrs, p.again)
	p.again = p.again[n:]
	k := p.Port.Complete(addrs[n:])
	p.again = append(p.again, addrs[n:n+k]...)
	return n + k
}

func TestTwiceCompletedBuffersAreCounted(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	r.relink(1, Link{}, 200)
	r.relink(1, Link{Closed: true}, 200)
	r.wires[1] = r.newWire(1)
	r.wires[1].A.Fill(r.s.Parked(1))
	r.relink(1, Link{Driver: &twice{Port: r.wires[1].A}, Up: true, TXRing: ringSize}, 1000)
	for n := range 20 {
		r.send(0, data(0, 1, 0, 500, n))
	}
	r.run(20_000)
	if n := r.port(1).DuplicateCompletions; n == 0 {
		t.Error("no duplicate completion counted")
	}
	if frames, _ := r.received(1); len(frames) != 20 {
		t.Errorf("%d frames arrived, want 20", len(frames))
	}
	r.idle()
}

func TestNewSwitchRefuses(t *testing.T) {
	memory, err := umem.Map(64, bufferSize)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for want, change := range map[string]func(*Params){
		"0 workers, 1 ports":            func(p *Params) { p.Workers = 0 },
		"1 workers, 0 ports":            func(p *Params) { p.Ports = nil },
		"a budget of -1 frames":         func(p *Params) { p.Budget = -1 },
		"memory in cells -":             func(p *Params) { p.Ports[0].Buffers = 1000 },
		"worker 1 of 1":                 func(p *Params) { p.Ports[0].Worker = 1 },
		"worker -1 of 1":                func(p *Params) { p.Ports[0].Worker = -1 },
		"give the port's speed":         func(p *Params) { p.Ports[0].Generator.Speed = 0 },
		"at most 16383":                 func(p *Params) { p.Ports[0].MaxFrame = 16384 },
		"lossless frames of 1519 bytes": func(p *Params) { p.Ports[0].MaxLossless = 1519 },
		"would occupy more buffers":     func(p *Params) { p.Part, p.CellSize, p.Ports[0].Parts = 512, 513, 2 },
	} {
		port := testPort(0, 0)
		port.Buffers = 16
		p := Params{Memory: memory, CellSize: 160, Workers: 1, Ports: []PortParams{port}}
		p.Bridge.Ports = append(p.Bridge.Ports, bridge.PortParams{})
		change(&p)
		if _, err := NewSwitch(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// TestEgressTakesNoLongerFramesThanItsMTU checks that the switch drops and counts frames that the
// device would drop silently.
func TestEgressTakesNoLongerFramesThanItsMTU(t *testing.T) {
	r := newRig(t, 3, 1, func(p *Params) { p.Ports[1].MaxFrame = 1000 })
	r.introduce()
	r.send(0, data(0, 1, lossless, 1000, 1))
	r.send(0, data(0, 1, lossless, 1001, 2))
	r.send(0, data(0, 9, 0, 1001, 3)) // flooded: to port 2 only
	r.run(10_000)
	r.wantDrops(0, map[string]uint64{"oversize/0": 1, "oversize/3": 1})
	if len(r.inboxes[1]) != 1 || len(r.inboxes[2]) != 1 {
		t.Errorf("%d and %d frames arrived, want 1 and 1", len(r.inboxes[1]), len(r.inboxes[2]))
	}
	r.idle()
}

// TestLinkThatGoesIsEmptiedFirst checks that when a link goes, frames that have arrived are still
// forwarded, frames that have left do not count as lost, and no address is learned behind the link.
func TestLinkThatGoesIsEmptiedFirst(t *testing.T) {
	r := newRig(t, 3, 2, nil)
	r.introduce()
	for n := range 5 {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.wires[0].Advance(r.now + 10_000) // they are in the ring, before the worker's next iteration
	r.relink(0, Link{}, 20_000)
	if frames, _ := r.received(1); len(frames) != 5 {
		t.Errorf("%d frames arrived of the 5 that had arrived at the port before it went", len(frames))
	}
	r.relink(0, Link{Closed: true}, 1000)
	r.inboxes[2] = nil
	r.send(1, data(1, 0, 0, 60, 9))
	r.run(5000)
	if len(r.inboxes[2]) != 1 {
		t.Error("a frame for a station behind the link that is gone was not flooded")
	}
	r.idle()
}

// TestBothLinksOfAPairGo takes both links down in one plan. The last frames received on one must
// not stay queued at the other.
func TestBothLinksOfAPairGo(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) {
		p.Bridge = bridge.Params{Mode: bridge.Wire, Ports: []bridge.PortParams{{Peer: 1}, {Peer: 0}}}
	})
	for i := range 10 {
		r.send(1, data(1, 0, 0, 60, i))
	}
	r.now += 20_000
	r.wires[1].Advance(r.now)
	r.plan.Links[0].Up, r.plan.Links[1].Up = false, false
	r.publish()
	r.s.Workers[0].Step(r.now)
	if n := r.queued(0); n != [Priorities]int{} || r.port(0).Drops[drop.PortDown][0]+
		r.port(1).Drops[drop.PortDown][0] != 10 {
		t.Errorf("%v wait, drops %v and %v", n, dropped(r.port(0)), dropped(r.port(1)))
	}
	if err := r.s.Check(); err != nil {
		t.Error(err)
	}
}

// TestManyPortsCross checks that an iteration moves as many frames when all of them cross between
// two workers.
func TestManyPortsCross(t *testing.T) {
	const ports, each = 8, 40
	r := newRig(t, ports, 2, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Worker = i / (ports / 2)
			p.Ports[i].Cells.Groups[1].Share = each
			p.Ports[i].Sched.Rate = 0
		}
	})
	r.introduce()
	for n := range each {
		for i := range ports {
			r.send(i, data(i, (i+ports/2)%ports, 1, 60, n))
		}
	}
	for _, w := range r.wires {
		w.Advance(r.now + 100_000)
	}
	r.now += 100_000
	r.s.Workers[0].Step(r.now)
	r.s.Workers[1].Step(r.now)
	r.s.Workers[0].Step(r.now)
	sent := uint64(0)
	for i := range ports {
		sent += r.port(i).TXFrames - uint64(ports-1) // from introduce
	}
	if sent < ports*each*9/10 {
		t.Errorf("%d of %d frames were sent after an iteration of each worker", sent, ports*each)
	}
	r.run(100_000)
	r.idle()
}
