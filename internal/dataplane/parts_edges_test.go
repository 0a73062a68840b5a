package dataplane

import (
	"slices"
	"testing"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/pmd"
)

// TestLongerFramesWaitForTheReload: a reload raises the MTU while the worker of the egress port is
// in the middle of an iteration. Longer frames are refused until both workers can have them.
func TestLongerFramesWaitForTheReload(t *testing.T) {
	r := jumboRig(t, 2, 2, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].MaxFrame, p.Ports[i].Parts = 1518, 1
		}
	})
	r.params.Ports = append([]PortParams(nil), r.params.Ports...)
	for i := range r.plan.Links { // devices that have jumbo frames already
		r.params.Ports[i].MaxFrame = jumbo
		r.relink(i, Link{}, 2000)
		r.relink(i, Link{Closed: true}, 2000)
		r.wires[i] = r.newWire(i)
		r.wires[i].A.Fill(r.s.Parked(i))
		r.relink(i, Link{Driver: r.wires[i].A, Up: true, TXRing: ringSize, Parts: 17}, 1000)
	}
	r.introduce()
	p := r.params
	p.Ports = append([]PortParams(nil), r.params.Ports...)
	for i := range p.Ports {
		p.Ports[i].MaxFrame, p.Ports[i].Parts = jumbo, 6
	}
	g, err := r.s.Prepare(p)
	if err != nil {
		t.Fatal(err)
	}
	r.plan.Generation = g
	r.publish()
	a, b := r.s.Workers[0], r.s.Workers[1]
	r.send(0, patterned(0, 1, lossless, jumbo, 1))
	r.now += 20_000
	for _, w := range r.wires {
		w.Advance(r.now)
	}
	a.Step(r.now) // adopts
	b.pass(r.now) // a later pass of the iteration that began before
	r.run(100_000)
	r.send(0, patterned(0, 1, lossless, jumbo, 2))
	r.run(100_000)
	frames, _ := r.received(1)
	if d := dropped(r.port(0)); len(frames) != 1 || len(d) != 1 || d["oversize/3"] != 1 {
		t.Errorf("%d frames arrived, dropped %v", len(frames), d)
	}
	r.idle()
}

// TestLongFramesAreOversize: the device's MTU is above the port's, and a cell is a buffer. Frames
// in more buffers than they cost cells are still only too long.
func TestLongFramesAreOversize(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) { p.CellSize, p.Part = bufferSize, jumboPart })
	r.introduce()
	r.relink(0, Link{}, 1000)
	r.relink(0, Link{Closed: true}, 1000)
	d := &scripted{Port: r.newWire(0).A, empty: r.s.Parked(0)}
	r.relink(0, Link{Driver: d, Up: true, TXRing: ringSize, Parts: 17}, 1000)
	for _, lengths := range [][]uint32{{jumboPart, 100}, {jumboPart, jumboPart}, {jumboPart, jumboPart, 100},
		{jumboPart, jumboPart, jumboPart}} {
		f := d.frame(lengths...)
		copy(r.params.Memory.Bytes()[f[0].Addr:], data(0, 1, lossless, 64, 1))
		d.next = append(d.next, f)
	}
	r.run(5000)
	if p := r.port(0); p.Drops[drop.Oversize][lossless] != 4 {
		t.Errorf("oversize %v, parts %v: want 4 oversize frames, of their class", p.Drops[drop.Oversize],
			p.Drops[drop.Parts])
	}
}

// crowded is a driver that receives as many of the frames that a test says as fit a burst.
type crowded struct{ *scripted }

func (c crowded) Receive(burst []pmd.Desc) (n int) {
	for n < len(burst) {
		more := c.scripted.Receive(burst[n:])
		if more == 0 {
			break
		}
		n += more
	}
	return n
}

// TestNothingLearnedFromBefore: frames from before a link went down are forwarded, however few a
// port takes at a time, but it learns no address from them, even if the link is up again.
func TestNothingLearnedFromBefore(t *testing.T) {
	for _, test := range []struct {
		quantum, burst int
		up             bool
	}{{8, 8, false}, {17, 17, true}, {64, 64, false}, {64, 20, true}, {64, 1, false}} {
		r, s := scriptedRig(t, 160)
		w, p := r.s.Workers[0], r.s.Workers[0].ports[0]
		known := func() bool {
			all, _ := w.bridge.Dump(r.now, 0, 1<<20, nil)
			return slices.ContainsFunc(all, func(s bridge.FDBEntry) bool { return s.Port == 0 && !s.Static })
		}
		arrive := func(n int) {
			f := s.frame(60)
			copy(r.params.Memory.Frame(f[0].Addr, 60), data(50+n, 1, 1, 60, n))
			s.next = append(s.next, f)
		}
		for n := range 30 {
			arrive(n)
		}
		p.driver = crowded{s}
		w.changeLink(p, &Link{Driver: p.driver, epoch: p.epoch + 1, Up: test.up}, r.now)
		w.quantum, p.burst = test.quantum, test.burst // less than the quantum: after a flood
		for len(s.next) > 0 {
			r.now += 2000 // so that the bridge tells apart what it has learned in each pass
			if w.budget.Renew(); w.take(p, r.now) == 0 {
				t.Fatalf("%+v: %d frames wait and are not taken", test, len(s.next))
			}
		}
		if w.take(p, r.now); known() {
			t.Errorf("%+v: knows an address from before", test)
		}
		p.up, p.reads = true, true
		p.gates()
		arrive(30)
		if w.take(p, r.now); !known() {
			t.Errorf("%+v: does not learn any more", test)
		}
	}
}
