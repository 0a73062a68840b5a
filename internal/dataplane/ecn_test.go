package dataplane

import (
	"fmt"
	"testing"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
)

const ce = 3 // congestion experienced (RFC 3168)

// earlyRig marks or drops every frame that finds 5 cells or more in its queue, in three classes:
// class 0 marks, class 2 does not, and the lossless class marks. Frames that leave at port 1 get a
// tag.
func earlyRig(t *testing.T, workers int) *rig {
	r := newRig(t, 2, workers, func(p *Params) {
		holdable(p)
		for i := range p.Ports {
			for _, class := range []int{0, 2, lossless} {
				p.Ports[i].Cells.Queues[class].RED = cells.REDParams{Min: 5, Max: 5, Probability: 1}
			}
			p.Ports[i].ECN = 1<<0 | 1<<lossless
		}
		p.Bridge.Ports[0].Classifier = bridge.PlainClassifier()
		p.Bridge.Ports[0].Classifier.Trust = bridge.TrustDSCP // upper three bits: class 0, 2 or 3
		p.Bridge.Ports[1].PVID, p.Bridge.Ports[1].Tagged = 2, new(bridge.VLANSet)
		p.Bridge.Ports[1].Tagged.Add(1)
	})
	r.introduce()
	return r
}

// TestEarlyDetection fills the queues of the three classes with frames of all four ECN codepoints.
// The first five find too few frames ahead of them. Of the others, those that can be marked are
// marked, if their class does that. The rest is dropped, except in the lossless class, where it
// passes.
func TestEarlyDetection(t *testing.T) {
	for _, workers := range []int{1, 2} {
		for _, class := range []uint8{0, 2, lossless} {
			t.Run(fmt.Sprintf("class %d, %d workers", class, workers), func(t *testing.T) {
				r := earlyRig(t, workers)
				r.hold(1)
				var want []packet
				marked, early := uint64(0), uint64(0)
				for n := range 12 {
					p := packet{src: station0(0), dst: station0(1), class: class<<5 | uint8(n%4),
						payload: fmt.Sprint(n)}
					r.send(0, p.bytes(t))
					p.tagged, p.vid, p.pcp = true, 1, class
					switch ect := n%4 != 0; {
					case n < 5:
					case class != 2 && ect:
						p.class |= ce
						marked++
					case class != lossless:
						early++
						continue
					}
					want = append(want, p)
				}
				r.run(10_000)
				r.release(1)
				frames, _ := r.received(1)
				if len(frames) != len(want) {
					t.Fatalf("%d frames arrived, want %d", len(frames), len(want))
				}
				for i, b := range frames {
					if got := decode(t, b); got != want[i] {
						t.Errorf("arrived %+v\nwant    %+v", got, want[i])
					}
				}
				p := r.port(1)
				if p.Marked[class] != marked || p.Drops[drop.Early][class] != early || r.lost(drop.Early) != early {
					t.Errorf("%d marked and %d dropped, want %d and %d", p.Marked[class], p.Drops[drop.Early][class],
						marked, early)
				}
				if in := r.port(0); in.LosslessDrops()+p.LosslessDrops() != 0 {
					t.Error("lossless frames were dropped")
				}
				r.idle()
			})
		}
	}
}

// TestREDOnTheWire counts the marks in sent frames while a queue is kept at a constant depth. Its
// criteria are those of the Linux kernel's self-test of sch_red (sch_red_core.sh): no marks at 2/3
// of the limit, and at least 95 % at 3/2 of it. Where marking is random, it expects the line of
// Floyd and Jacobson.
func TestREDOnTheWire(t *testing.T) {
	const limit = 300 // cells, and frames
	steep := cells.REDParams{Min: limit, Max: limit + 1, Probability: 1}
	gentle := cells.REDParams{Min: limit / 2, Max: limit * 3 / 2, Probability: .2}
	for _, c := range []struct {
		red         cells.REDParams
		depth       int
		least, most float64
	}{
		{steep, limit * 2 / 3, 0, 0},
		{steep, limit * 3 / 2, .95, 1},
		{gentle, limit / 2, 0, .005},
		{gentle, limit, .08, .12}, // half way: 10 %; 2 % are more than four standard deviations
		{gentle, limit*3/2 + 10, .95, 1},
	} {
		if share := markedAt(t, c.red, c.depth); share < c.least || share > c.most {
			t.Errorf("%+v, %d frames wait: %.2f %% leave with a mark, want %v to %v", c.red, c.depth, 100*share,
				c.least, c.most)
		}
	}
}

// markedAt keeps a queue at a depth and returns the share of frames marked at that depth.
func markedAt(t *testing.T, red cells.REDParams, depth int) float64 {
	const frames = 4000
	r := newRig(t, 2, 1, func(p *Params) {
		p.Ports[0].Cells.Groups[0].Share = 1000
		p.Ports[1].Sched.Rate, p.Ports[1].Sched.Burst = 84*8*1_000_000, 84 // a shortest frame per 1000 ns
		p.Ports[1].ECN = 1
		p.Ports[1].Cells.Queues[0] = cells.QueueParams{Limit: 1000, RED: red}
	})
	r.introduce()
	ect := packet{src: station0(0), dst: station0(1), class: 2}.bytes(t)
	before := 0 // frames sent until that depth is reached
	for ; r.queued(1)[0] < depth; before++ {
		r.send(0, ect)
		r.run(300)
	}
	least, most := depth, depth
	for range frames { // one arrives for each that leaves
		r.send(0, ect)
		r.run(1000)
		now := r.queued(1)[0]
		least, most = min(least, now), max(most, now)
	}
	r.run(int64(depth+5) * 1000)
	got, _ := r.received(1)
	if len(got) != before+frames || least < depth-2 || most > depth {
		t.Errorf("%d frames left of %d; %d to %d waited, want %d", len(got), before+frames, least, most, depth)
	}
	marked := 0
	for _, b := range got[before:] {
		if decode(t, b).class&3 == ce {
			marked++
		}
	}
	r.idle()
	return float64(marked) / frames
}

// TestTagsAndMarksAllocateNothing covers everything that changes a frame on its way:
// classification, copies with a tag and without, remarks, and congestion marks.
func TestTagsAndMarksAllocateNothing(t *testing.T) {
	r := newRig(t, 3, 2, func(p *Params) {
		trustDSCP(&p.Bridge.Ports[0])
		p.Bridge.Ports[1].PVID, p.Bridge.Ports[1].Tagged = 2, new(bridge.VLANSet)
		p.Bridge.Ports[1].Tagged.Add(1)
		p.Bridge.Ports[1].Remark.PCP, p.Bridge.Ports[1].Remark.DSCP = new([8]uint8), new([8]uint8)
		p.Bridge.Ports[2].Tagged = new(bridge.VLANSet)
		p.Bridge.Ports[2].Storm[bridge.Broadcast].Rate = 1
		huawei := bridge.FloodQueues()
		p.Floods = &huawei
		for i := range p.Ports {
			p.Ports[i].ECN = 0xff
			p.Ports[i].Sched.Rate = speed / 10
			p.Ports[i].Cells.Queues[0].RED = cells.REDParams{Min: 0, Max: 1, Probability: 1}
		}
	})
	known := packet{src: station0(0), dst: station0(1), class: 1}.bytes(t)
	unknown := packet{src: station0(1), dst: station0(9), class: 26 << 2, tagged: true, vid: 1}.bytes(t)
	storm := packet{src: station0(2), dst: frame.Broadcast}.bytes(t)
	for i := range r.inboxes {
		r.inboxes[i] = make([][]byte, 0, 1<<16)
	}
	n := testing.AllocsPerRun(500, func() {
		r.send(0, known)
		r.send(0, known) // more than can leave
		r.send(1, unknown)
		r.send(2, storm)
		for range 10 {
			r.now += 100
			for _, w := range r.wires {
				w.Advance(r.now)
			}
			for _, w := range r.s.Workers {
				w.Step(r.now)
			}
			for i := range r.wires {
				r.discardAll(i)
			}
		}
	})
	if n != 0 {
		t.Errorf("a frame of each kind allocates %v times", n)
	}
	r.run(100_000)
	if p := r.port(1); p.Marked[0] == 0 || r.port(1).FloodCopies == 0 || r.lost(drop.StormLimit) == 0 {
		t.Errorf("%d marked, %d copies, %d beyond the storm limit: the test tests nothing", p.Marked[0], p.FloodCopies,
			r.lost(drop.StormLimit))
	}
	r.idle()
}
