package dataplane

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pfc"
)

// hold makes the partner of a port pause all priorities for longer than any of these tests takes;
// release ends the pause.
func (r *rig) hold(port int) {
	r.pause(port, 0xff, 3_000_000)
	r.run(1000)
}

func (r *rig) release(port int) {
	r.resume(port, 0xff)
	r.run(50_000)
}

// holdable lets the peers pause every priority of every port.
func holdable(p *Params) {
	for i := range p.Ports {
		p.Ports[i].Receiver.Priorities = 0xff
	}
}

// trustDSCP makes a port classify by DSCP: 26 is the lossless class, 46 is class 5, all others are
// class 0.
func trustDSCP(p *bridge.PortParams) {
	p.Classifier = bridge.Classifier{Trust: bridge.TrustDSCP}
	p.Classifier.DSCP[26], p.Classifier.DSCP[46] = lossless, 5
}

// TestDSCPIsPaused checks that untagged frames get the lossless class from their DSCP, and that the
// switch sends XOFF for this class alone, before it loses any of its frames. Other classes
// continue.
func TestDSCPIsPaused(t *testing.T) {
	for _, workers := range []int{1, 2} {
		r := newRig(t, 2, workers, func(p *Params) { trustDSCP(&p.Bridge.Ports[0]) })
		r.introduce()
		r.pause(1, 1<<lossless, 3_000_000)
		r.run(1000)
		for n := range 12 { // the group takes 10 frames of one cell before it uses headroom
			r.send(0, packet{src: station0(0), dst: station0(1), class: 26<<2 | uint8(n%4),
				payload: fmt.Sprint(n)}.bytes(t))
		}
		for n := range 3 {
			r.send(0, packet{src: station0(0), dst: station0(1), class: 46 << 2, payload: fmt.Sprint(n)}.bytes(t))
			r.send(0, packet{src: station0(0), dst: station0(1), class: 10 << 2, payload: fmt.Sprint(n)}.bytes(t))
		}
		r.run(10_000)
		p, before := r.port(0), uint64(1) // the one from which the switch learned the address
		_, told := r.received(0)
		if len(told) != 1 || told[0].Enable != 1<<lossless || told[0].Quanta[lossless] == 0 {
			t.Errorf("%d workers: told %+v, want to stop the lossless class alone", workers, told)
		}
		if p.RX[lossless] != 12 || p.RX[5] != 3 || p.RX[0] != before+3 || len(r.inboxes[1]) != 6 {
			t.Errorf("%d workers: classes %v, %d frames passed; want 12 in class %d, 3 in 5, 3 in 0, of which 6 pass",
				workers, p.RX, len(r.inboxes[1]), lossless)
		}
		r.resume(1, 1<<lossless)
		r.run(10_000)
		if len(r.inboxes[1]) != 18 || p.LosslessDrops() != 0 {
			t.Errorf("%d workers: %d frames of 18 arrived, %v", workers, len(r.inboxes[1]), dropped(r.port(0)))
		}
		r.idle()
	}
}

// TestRemarkDSCP checks that a frame leaves with the DSCP that its egress port gives its class, and
// with its ECN bits unchanged.
func TestRemarkDSCP(t *testing.T) {
	r := newRig(t, 3, 2, func(p *Params) {
		trustDSCP(&p.Bridge.Ports[0])
		p.Bridge.Ports[1].Remark.DSCP = &[8]uint8{bridge.Keep, 10, 18, 26, 34, 40, 48, 56}
	})
	for class := range 256 { // to an unknown address: a copy leaves at each port
		p := packet{src: station0(0), dst: station0(9), class: uint8(class), payload: fmt.Sprint(class)}
		r.send(0, p.bytes(t))
		r.run(2000)
		want := p
		switch class >> 2 {
		case 26:
			want.class = 26<<2 | p.class&3
		case 46:
			want.class = 40<<2 | p.class&3
		}
		r.wantPacket(1, true, want, "remarked")
		r.wantPacket(2, true, p, "as it came")
		r.inboxes[1], r.inboxes[2] = nil, nil
	}
	r.idle()
}

// queued returns how many frames of one cell wait in each queue of a port.
func (r *rig) queued(port int) (n [Priorities]int) {
	for i, q := range r.port(port).Queues {
		n[i] = q.Used
	}
	return n
}

// TestFloodQueues checks that flooded frames wait in the queues of the map, and others in those of
// their class. Lossless frames never share a queue with lossy ones, whatever the map says.
func TestFloodQueues(t *testing.T) {
	huawei := bridge.FloodQueues()
	for _, c := range []struct {
		name     string
		floods   *bridge.QueueMap
		lossless int
		want     [Priorities]int // where one frame of each class waits
	}{
		{"no map", nil, lossless, [8]int{1, 1, 1, 1, 1, 1, 1, 1}},
		{"table 10-10", &huawei, lossless, [8]int{1, 2, 2, 1, 0, 0, 2, 0}},
		{"table 10-10 with a lossless class 6", &huawei, 6, [8]int{1, 3, 2, 0, 0, 0, 1, 1}},
	} {
		for _, workers := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d workers", c.name, workers), func(t *testing.T) {
				r := newRig(t, 3, workers, func(p *Params) {
					holdable(p)
					p.Floods = c.floods
					for i := range p.Ports {
						moveLossless(&p.Ports[i], c.lossless)
					}
				})
				r.introduce()
				r.hold(1)
				r.hold(2)
				for class := range uint8(8) {
					r.send(0, data(0, 9, class, 60, int(class)))
				}
				r.run(5000)
				for port := 1; port <= 2; port++ {
					if got := r.queued(port); got != c.want {
						t.Errorf("port %d: flooded frames wait in %v, want %v", port, got, c.want)
					}
				}
				for class := range uint8(8) {
					r.send(0, data(0, 1, class, 60, int(class)))
				}
				r.run(5000)
				for i, n := range r.queued(1) {
					if n != c.want[i]+1 {
						t.Errorf("queue %d: %d frames with one to a known address, %d without", i, n, c.want[i])
					}
				}
				r.release(1)
				r.release(2)
				if len(r.inboxes[1]) != 16 || len(r.inboxes[2]) != 8 {
					t.Errorf("%d and %d frames arrived, want 16 and 8", len(r.inboxes[1]), len(r.inboxes[2]))
				}
				r.idle()
			})
		}
	}
}

// moveLossless makes another class the lossless one instead of testPort's.
func moveLossless(p *PortParams, class int) {
	g, q := &p.Cells.Groups, &p.Cells.Queues
	g[lossless], g[class] = g[class], g[lossless]
	q[lossless], q[class] = q[class], q[lossless]
	p.Generator.Priorities = 1 << class
}

// floodStormRig returns a rig whose watchdogs take an action, with a storm of priority 1 at port 1.
// Flooded frames of priority 2 use the queue of priority 1, and one waits there.
func floodStormRig(t *testing.T, action pfc.Action) *rig {
	r := newRig(t, 2, 1, func(p *Params) {
		holdable(p)
		huawei := bridge.FloodQueues()
		p.Floods = &huawei
		for i := range p.Ports {
			p.Ports[i].Watchdog = pfc.WatchdogParams{
				Priorities: 0xff, Detection: stormTime, Restoration: stormTime, Action: action,
			}
		}
	})
	r.introduce()
	r.pause(1, 1<<1, 3*stormTime)
	r.run(1000)
	r.send(0, data(0, 9, 2, 60, 0))
	r.run(2 * stormTime)
	return r
}

// TestFloodQueueInAStorm checks that frames in the queue of a stormed priority are dropped, even if
// their own priority is another.
func TestFloodQueueInAStorm(t *testing.T) {
	r := floodStormRig(t, pfc.Drop)
	r.send(0, data(0, 9, 2, 60, 1)) // during the storm: dropped at once
	r.send(0, data(0, 1, 2, 60, 2)) // in queue 2, which is not paused
	r.run(5000)
	r.wantDrops(1, map[string]uint64{"storm/2": 2})
	if len(r.inboxes[1]) != 1 {
		t.Errorf("%d frames arrived, want the one to a known address", len(r.inboxes[1]))
	}
	r.idle()
}

// TestFloodQueueForwardedInAStorm checks the same frames when the pause is not honoured: they are
// sent.
func TestFloodQueueForwardedInAStorm(t *testing.T) {
	r := floodStormRig(t, pfc.Forward)
	r.send(0, data(0, 9, 2, 60, 1))
	r.send(0, data(0, 1, 2, 60, 2))
	r.run(5000)
	if p := r.port(1); len(r.inboxes[1]) != 3 || p.StormForwarded != [Priorities]uint64{2: 2} {
		t.Errorf("%d frames arrived, %v were sent in the storm; want 3, and the 2 flooded ones", len(r.inboxes[1]),
			p.StormForwarded)
	}
	r.idle()
}

// TestOwnAddressIsNotLearned checks that the bridge does not learn the switch's own addresses. A
// frame from one has come back through a loop, and learning from it would misdirect frames that are
// for the switch.
func TestOwnAddressIsNotLearned(t *testing.T) {
	for _, workers := range []int{1, 3} {
		r := newRig(t, 3, workers, nil)
		for i := range r.plan.Links {
			own := station0(0x50 + i)
			own.Put(r.plan.Links[i].MAC[:])
		}
		r.publish()
		r.run(1000)
		looped, learned := station0(0x51), station0(7) // source addresses of frames into port 0
		for _, src := range []frame.MAC{looped, learned} {
			b := data(0, 9, 0, 60, 0)
			src.Put(b[6:])
			r.send(0, b)
		}
		r.run(5000)
		r.inboxes[0], r.inboxes[1] = nil, nil
		r.send(2, data(2, 0x51, 0, 60, 1))
		r.send(2, data(2, 7, 0, 60, 2))
		r.run(5000)
		if len(r.inboxes[0]) != 2 || len(r.inboxes[1]) != 1 {
			t.Errorf("%d workers: %d and %d frames arrived, want that to the switch's address on both ports and the "+
				"other on one",
				workers, len(r.inboxes[0]), len(r.inboxes[1]))
		}
		own := uint64(0)
		for _, w := range r.s.Workers {
			own += w.Look(r.now).Bridge.Own
		}
		if own != 1 {
			t.Errorf("%d workers: %d frames counted as from an address of the switch, want 1", workers, own)
		}
		r.idle()
	}
}

// TestNewSwitchRefusesFloodQueues checks that a queue number out of range is an error.
func TestNewSwitchRefusesFloodQueues(t *testing.T) {
	memory, err := umem.Map(4096, bufferSize)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	p := Params{Memory: memory, CellSize: 160, Workers: 1, Ports: []PortParams{testPort(0, 0)},
		Floods: &bridge.QueueMap{0, 8}}
	p.Bridge.Ports = make([]bridge.PortParams, 1)
	if _, err := NewSwitch(p); err == nil {
		t.Error("accepted queue 8")
	}
	p.Floods[1] = 7
	if _, err := NewSwitch(p); err != nil {
		t.Error(err)
	}
}

// TestBurstKeepsTheOrderOfAQueue checks that the frames of one queue leave in the order of their
// arrival, although a burst is admitted by class and flooded frames of another class are among
// them.
func TestBurstKeepsTheOrderOfAQueue(t *testing.T) {
	huawei := bridge.FloodQueues()
	r := newRig(t, 3, 1, func(p *Params) { p.Floods = &huawei })
	r.introduce()
	var want []int
	for i := range 24 {
		class, to := uint8(1), 1
		if i%3 == 1 {
			class, to = 2, 9 // flooded: to queue 1
		}
		r.send(0, data(0, to, class, 60, i))
		want = append(want, i)
	}
	r.now += 5000 // all of them have arrived at the next iteration
	r.wires[0].Advance(r.now)
	r.run(10_000)
	var got []int
	for _, b := range r.inboxes[1] {
		got = append(got, int(binary.BigEndian.Uint32(b[18:])))
	}
	if !slices.Equal(got, want) {
		t.Errorf("left as %v", got)
	}
	r.idle()
}
