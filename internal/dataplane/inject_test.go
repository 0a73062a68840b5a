package dataplane

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
)

// mustInject injects an LLDP frame with a number.
func (r *rig) mustInject(port, length, number int) []byte {
	r.t.Helper()
	b := lldp(-1, length, number)
	if !r.s.Inject(bridge.PortID(port), b) {
		r.t.Fatalf("port %d does not take frame %d", port, number)
	}
	return b
}

// numbers returns the numbers of the LLDP frames that arrived from a port, and the place of the
// first among all frames; -1: none.
func (r *rig) numbers(port int) (all []int, place int) {
	place = -1
	for i, b := range r.inboxes[port] {
		if len(b) >= 18 && binary.BigEndian.Uint16(b[12:]) == frame.TypeLLDP {
			if place < 0 {
				place = i
			}
			all = append(all, int(binary.BigEndian.Uint32(b[14:])))
		}
	}
	return all, place
}

// TestInjectedFrameLeaves checks that injected frames leave as they are, or padded, in their order,
// at the ports of both workers, and are counted and captured.
func TestInjectedFrameLeaves(t *testing.T) {
	for _, workers := range []int{1, 2} {
		r := newRig(t, 2, workers, nil)
		r.introduce()
		taps := r.tap(r.everything())
		var want [2][][]byte
		for number, length := range []int{60, 1518, 20, 14, 200, 60, 61} {
			for port := range 2 {
				b := lldp(-1, max(length, 18), number)[:length]
				if !r.s.Inject(bridge.PortID(port), b) {
					t.Fatalf("%d bytes were refused", length)
				}
				want[port] = append(want[port], append(b, make([]byte, max(0, 60-length))...))
			}
		}
		r.run(20_000)
		captured := drain(taps)
		for port := range 2 {
			if !slices.EqualFunc(r.inboxes[port], want[port], bytes.Equal) {
				t.Errorf("port %d sent %d frames of 7, or others", port, len(r.inboxes[port]))
			}
			c := r.port(port).PortCounters
			if c.Injected != 7 || c.InjectedBytes != 60+1518+60+60+200+60+61 || c.InjectDropped != 0 ||
				c.TXFrames != 1 {
				t.Errorf("%+v", c)
			}
			got := slices.Collect(func(yield func([]byte) bool) {
				for _, c := range captured {
					if int(c.Port) == port && c.say() == string(rune('0'+port))+" tx originated" && !yield(c.frame) {
						return
					}
				}
			})
			if !slices.EqualFunc(got, want[port], bytes.Equal) {
				t.Errorf("port %d: %d frames captured: %q", port, len(got), says(captured))
			}
		}
		r.idle()
	}
}

// TestInjectRefuses covers ports that there are not, frames of a wrong length, and too many.
func TestInjectRefuses(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) { p.Ports[0].MaxFrame = 1000 })
	r.introduce()
	for _, test := range []struct {
		port   bridge.PortID
		length int
		want   bool
	}{{-1, 60, false}, {2, 60, false}, {0, 1001, false}, {0, 13, false}, {0, 1000, true}, {1, 1001, true}} {
		if got := r.s.Inject(test.port, make([]byte, test.length)); got != test.want {
			t.Errorf("port %d took %d bytes: %v", test.port, test.length, got)
		}
	}
	r.run(10_000)
	for n := range injectSlots + 1 {
		if got := r.s.Inject(0, make([]byte, 60)); got != (n < injectSlots) {
			t.Errorf("took frame %d: %v", n+1, got)
		}
	}
	r.run(10_000)
	if n := r.port(0).Injected; n != injectSlots+1 {
		t.Errorf("%d frames sent", n)
	}
	r.idle()
}

// TestPFCDoesNotHoldInjectedFrames checks that frames of the control plane leave while all
// priorities are paused, and frames of the queues do not.
func TestPFCDoesNotHoldInjectedFrames(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) { p.Ports[1].Receiver.Priorities = 0xff })
	r.introduce()
	all := pfc.Frame{Enable: 0xff}
	for n := range all.Quanta {
		all.Quanta[n] = 65535
	}
	r.control(1, all)
	r.run(1000)
	r.send(0, data(0, 1, 0, 60, 0))
	r.run(5000)
	r.mustInject(1, 60, 1)
	r.run(5000)
	if got, _ := r.numbers(1); !slices.Equal(got, []int{1}) || len(r.inboxes[1]) != 1 {
		t.Errorf("%d frames left, of the control plane %v", len(r.inboxes[1]), got)
	}
}

// TestPauseHoldsInjectedFrames checks that PAUSE stops frames of the control plane, too, that they
// leave first when it ends, and that further ones are refused meanwhile.
func TestPauseHoldsInjectedFrames(t *testing.T) {
	r := pauseRig(t)
	r.stop(1, 1000) // 51.2 µs
	r.run(1000)
	r.send(0, data(0, 1, 0, 60, 0))
	for n := range injectSlots {
		r.mustInject(1, 60, n)
	}
	r.run(40_000)
	if n := len(r.inboxes[1]); n != 0 || r.s.Inject(1, lldp(-1, 60, 0)) {
		t.Errorf("%d frames left during the pause, or another one was taken", n)
	}
	r.run(20_000)
	if got, place := r.numbers(1); len(got) != injectSlots || !slices.IsSorted(got) || place != 0 ||
		len(r.inboxes[1]) != injectSlots+1 {
		t.Errorf("%v left after the pause, from place %d on; %d frames in all", got, place, len(r.inboxes[1]))
	}
	r.idle()
}

// TestNoLinkDropsInjectedFrames covers ports without a link and without a driver, also for frames
// that a PAUSE held before.
func TestNoLinkDropsInjectedFrames(t *testing.T) {
	r := pauseRig(t)
	r.stop(1, 65535)
	r.run(1000)
	for n := range 5 {
		r.mustInject(1, 60, n)
	}
	r.run(1000)
	r.down(1)
	r.mustInject(1, 60, 5)
	r.run(5000)
	l := r.plan.Links[1]
	r.relink(1, Link{}, 1000)
	r.mustInject(1, 60, 6)
	r.relink(1, Link{Closed: true}, 1000)
	r.mustInject(1, 60, 7)
	r.run(5000)
	if c := r.port(1).PortCounters; c.InjectDropped != 8 || c.Injected != 0 {
		t.Errorf("%d dropped of 8, %d sent", c.InjectDropped, c.Injected)
	}
	l.Up, r.wires[1] = true, r.newWire(1)
	l.Driver = r.wires[1].A
	r.wires[1].A.Fill(r.s.Parked(1))
	r.relink(1, l, 1000)
	r.mustInject(1, 60, 8)
	r.run(5000)
	if got, _ := r.numbers(1); !slices.Equal(got, []int{8}) {
		t.Errorf("%v left when the link was back", got)
	}
	r.idle()
}

// TestInjectedFramesInADriverThatCloses checks that frames which a closed driver held are dropped,
// and that their buffers come back.
func TestInjectedFramesInADriverThatCloses(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	r.mustInject(1, 1500, 1)
	r.run(200)
	if n := r.port(1).Buffers; n.Sending != 1 || n.InFlight != 1500 || n.Spare != OwnBuffers-1 {
		t.Fatalf("%+v: the frame is not with the driver", n)
	}
	r.plan.Links[1] = Link{}
	r.publish()
	r.run(100)
	r.relink(1, Link{Closed: true}, 1000)
	if c := r.port(1).PortCounters; c.InjectDropped != 1 || c.Injected != 0 {
		t.Errorf("%d dropped, %d sent", c.InjectDropped, c.Injected)
	}
	r.idle()
}

// TestSuccessorSendsNoFramesOfAnother checks that frames which wait when a port leaves are not sent
// by the port that gets its number, that they can't be injected afterwards, and that a port with
// the former name starts afresh.
func TestSuccessorSendsNoFramesOfAnother(t *testing.T) {
	r := newRig(t, 3, 1, nil)
	r.introduce()
	id := func(name string) int {
		for id, is := range *r.s.names.Load() {
			if is == name {
				return int(id)
			}
		}
		return NoPort
	}
	leave := func() {
		r.mustInject(id(r.params.Ports[2].Name), 60, 1)
		r.plan.Links[2] = Link{}
		r.publish() // a worker adopts this plan before it looks for injected frames: it drops this one
		r.run(1000)
		r.plan.Links[2] = Link{Closed: true}
		r.publish()
		r.run(1000)
		// These wait when the worker changes over.
		r.mustInject(id(r.params.Ports[2].Name), 60, 2)
		r.mustInject(id(r.params.Ports[2].Name), 60, 3)
	}
	arrive := func(name string) {
		r.regenerate(func(p *Params) {
			p.Ports[2] = PortParams{Vacant: true}
			p.Bridge.Ports[2] = bridge.PortParams{VLANs: new(bridge.VLANSet), Peer: -1}
		})
		if r.s.Inject(bridge.PortID(id("c")), lldp(-1, 60, 4)) {
			t.Error("a port that is gone takes frames")
		}
		r.run(1000)
		r.regenerate(func(p *Params) {
			p.Ports[2], p.Bridge.Ports[2] = testPort(2, 0), bridge.PortParams{}
			p.Ports[2].Name = name
		})
		if name != "c" && r.s.Inject(bridge.PortID(id("c")), lldp(-1, 60, 5)) {
			t.Error("a port that is gone takes frames")
		}
		r.run(1000)
		r.wires[2], r.sent[2] = r.newWire(2), 0
		r.wires[2].A.Fill(r.s.Parked(2))
		r.relink(2, Link{Driver: r.wires[2].A, Up: true, TXRing: ringSize}, 1000)
		r.run(10_000)
	}
	leave()
	arrive("z")
	if len(r.inboxes[2]) != 0 {
		t.Errorf("port z sent %d frames of port c", len(r.inboxes[2]))
	}
	r.mustInject(id("z"), 60, 6)
	r.run(5000)
	leave()
	arrive("c")
	r.mustInject(id("c"), 60, 7)
	r.run(5000)
	if got, _ := r.numbers(2); !slices.Equal(got, []int{6, 7}) {
		t.Errorf("%v were sent", got)
	}
	if c := r.port(2).PortCounters; c.Injected != 1 || c.InjectDropped != 0 {
		t.Errorf("the port that came back has sent %d and dropped %d", c.Injected, c.InjectDropped)
	}
	r.idle()
}

// TestFrameThatAReloadMakesTooLong lowers MaxFrame while a frame waits.
func TestFrameThatAReloadMakesTooLong(t *testing.T) {
	r := pauseRig(t)
	r.stop(1, 1000)
	r.run(1000)
	r.mustInject(1, 1000, 1)
	r.mustInject(1, 999, 2)
	r.regenerate(func(p *Params) { p.Ports[1].MaxFrame = 999 })
	if r.s.Inject(1, make([]byte, 1000)) {
		t.Error("a frame that is too long by now was taken")
	}
	r.run(100_000)
	if got, _ := r.numbers(1); !slices.Equal(got, []int{2}) || r.port(1).InjectDropped != 1 {
		t.Errorf("%v were sent, %d dropped", got, r.port(1).InjectDropped)
	}
	r.idle()
}

// TestDriverRefusesInjectedFrames checks that frames which a failing driver does not take are
// dropped, and hold up nothing.
func TestDriverRefusesInjectedFrames(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	w := r.s.Workers[0]
	driver := w.ports[1].driver
	w.ports[1].driver, r.plan.Links[1].Driver = failing{driver}, failing{driver}
	for n := range 5 {
		r.mustInject(1, 60, n)
	}
	r.send(0, data(0, 1, 0, 60, 1))
	for range 50 {
		r.now += 100
		r.wires[0].Advance(r.now)
		w.pass(r.now)
	}
	w.ports[1].driver, r.plan.Links[1].Driver = driver, driver
	if c := r.port(1).PortCounters; c.InjectDropped != 5 || c.Injected != 0 || c.Drops[drop.RefusedByDriver][0] != 1 {
		t.Errorf("%d dropped, %d sent, %d data frames refused", c.InjectDropped, c.Injected,
			c.Drops[drop.RefusedByDriver][0])
	}
	r.mustInject(1, 60, 9)
	r.run(5000)
	if got, _ := r.numbers(1); !slices.Equal(got, []int{9}) {
		t.Errorf("%v were sent", got)
	}
	r.idle()
}

// TestInjectedFramesDoNotStarve checks, at a port that is overloaded, that no more frames precede
// an injected one than may be in flight when it comes.
func TestInjectedFramesDoNotStarve(t *testing.T) {
	for _, length := range []int{60, 700, 1500} {
		const inFlight = 8000
		r := newRig(t, 3, 1, func(p *Params) { // the shaper lets the TX ring fill up
			p.Ports[2].InFlight, p.Ports[2].Sched.Rate, p.Ports[2].Sched.Burst = inFlight, 2*speed, 200_000
			p.Ports[2].Cells.Queues[0].Limit = 500
			for i := range p.Ports {
				p.Ports[i].Cells.Groups[0].Share = 500
			}
		})
		r.introduce()
		for n := range 400 {
			for from := range 2 {
				for r.wires[from].InFlight() < 60 {
					r.send(from, data(from, 2, 0, length, n))
				}
			}
			if n%10 == 9 {
				r.inboxes[2] = nil
				r.run(100)
				r.inboxes[2] = nil
				r.mustInject(2, 1518, n)
				for range 500 {
					if r.run(100); len(r.inboxes[2]) > 0 {
						if _, place := r.numbers(2); place >= 0 {
							break
						}
					}
					for from := range 2 {
						for r.wires[from].InFlight() < 60 {
							r.send(from, data(from, 2, 0, length, n))
						}
					}
				}
				// Those on the wire come on top: 100 ns of them, and the one that is arriving.
				most := (inFlight-1)/length + 1 + 125/(length+24) + 2
				if _, place := r.numbers(2); place < 0 || place > most {
					t.Fatalf("%d frames of %d bytes before the injected one, want at most %d", place, length, most)
				}
				continue
			}
			r.run(2000)
			r.inboxes[2] = nil
		}
		if p := r.port(2); p.Drops[drop.QueueFull][0] == 0 || p.Injected < 35 || p.Buffers.InFlight < inFlight-length {
			t.Errorf("%d frames dropped, %d injected, %d bytes in flight: the test tests nothing",
				p.Drops[drop.QueueFull][0], p.Injected, p.Buffers.InFlight)
		}
		r.run(1_000_000)
		r.idle()
	}
}

// TestInjectedFramesCountForTheShaper checks that a port sends no more than its rate when frames of
// the control plane are among its frames.
func TestInjectedFramesCountForTheShaper(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) { p.Ports[1].Sched.Rate = speed / 10 })
	r.introduce()
	r.run(100_000)
	began, bytes, injected := r.now, 0, 0
	for n := range 1000 {
		for r.wires[0].InFlight() < 60 {
			r.send(0, data(0, 1, 0, 1000, n))
		}
		if n%10 == 0 && r.s.Inject(1, lldp(-1, 1000, n)) {
			injected++
		}
		r.run(2000)
		for _, b := range r.inboxes[1] {
			bytes += len(b) + frame.WireOverhead
		}
		r.inboxes[1] = nil
	}
	line := int(r.now-began) * (speed / 10) / 8e9
	if bytes > line+1600+2*1100 || bytes < line*9/10 || injected < 90 {
		t.Errorf("%d bytes in the time of %d, %d injected frames", bytes, line, injected)
	}
}

// TestXOFFBehindInjectedFrames checks, with random congestion, data, and frames of the control
// plane, that each new XOFF is sent at once, and that it never has more ahead of it than the
// headroom counts: PortParams.InFlight bytes less one, a frame of maximum size, and ControlAhead
// PFC frames.
func TestXOFFBehindInjectedFrames(t *testing.T) {
	injected, full := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		priorities := uint8(rapid.IntRange(1, 255).Draw(t, "lossless priorities"))
		s, w, p := portWithPriorities(t, priorities)
		p.InFlight = rapid.IntRange(1, 8000).Draw(t, "in flight")
		if rapid.Bool().Draw(t, "short ring") {
			p.txRing = ControlBuffers + rapid.IntRange(1, 6).Draw(t, "ring")
		}
		var k int
		for n := range Priorities {
			k += int(priorities >> n & 1)
		}
		length := rapid.IntRange(14, p.MaxFrame)
		for now := int64(1000); now < 300_000; now += 1000 {
			for range rapid.IntRange(0, 4).Draw(t, "injected") {
				s.Inject(p.id, make([]byte, length.Draw(t, "length")))
			}
			before := p.flow.sending
			for n := range Priorities {
				if priorities>>n&1 == 1 && rapid.Bool().Draw(t, "toggles") {
					toggleGroup(w, p, n)
				}
			}
			ahead := p.inFlight - before*pfc.FrameLength
			if rapid.Bool().Draw(t, "at once") {
				w.sendPauses(p, now)
			} else if w.inject(now); p.injection.waiting.Len() == 0 {
				w.sendPauses(p, now)
			}
			if late := w.accounts.Congested(p.number) &^ p.flow.generator.Paused(); late != 0 {
				t.Fatalf("%d PFC frames and %d others with the driver: priorities %#x are not stopped", p.flow.sending,
					p.sending-p.flow.sending, late)
			}
			if p.flow.sending > before && (before > ControlAhead(k) || ahead > p.InFlight-1+p.MaxFrame) {
				t.Fatalf("a PFC frame behind %d others and %d bytes; %d and %d+%d are counted", before, ahead,
					ControlAhead(k), p.InFlight-1, p.MaxFrame)
			}
			if ahead >= p.InFlight {
				full++
			}
			w.inject(now)
			if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
				leave(w, p, holdingControl)
			}
			for range rapid.IntRange(0, 2).Draw(t, "injected ones leave") {
				leave(w, p, holdingInjected)
			}
			injected = max(injected, int(p.count.Injected))
		}
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
	})
	if injected == 0 || full == 0 {
		t.Errorf("%d frames injected, %d times a full ring: the test tests nothing", injected, full)
	}
}

// TestInjectedFramesAreConserved injects at random into a switch whose links go up and down, with
// pauses, ports that leave and come back, and drivers that refuse. Each frame is sent in order,
// dropped and counted, or still there, and no buffer is missing.
func TestInjectedFramesAreConserved(t *testing.T) {
	for _, workers := range []int{1, 2} {
		seed := rand.Uint64()
		t.Logf("%d workers, seed %d", workers, seed)
		random := rand.New(rand.NewPCG(seed, 0))
		r := newRig(t, 3, workers, func(p *Params) {
			p.Ports[1].FlowControl, p.Ports[1].Receiver.Priorities = LinkPause, 0xff
			p.Ports[2].InFlight = 2000
			subscribed(1000, 5)(p)
		})
		r.introduce()
		var taken, seen [3]int
		for range 3000 {
			from := random.IntN(3)
			for range random.IntN(4) {
				if b := lldp(-1, 60+random.IntN(1400), taken[from]+1); r.s.Inject(bridge.PortID(from), b) {
					taken[from]++
				}
			}
			r.disturb(random, from, workers)
			r.run(1 + int64(random.IntN(3000))) // at least one iteration, so that a generation is adopted
			r.s.Punted(punt.LLDP, func(punt.Frame) {})
			for port := range 3 {
				numbers, _ := r.numbers(port)
				for _, n := range numbers {
					if n <= seen[port] || n > taken[port] {
						t.Fatalf("port %d sent frame %d after %d", port, n, seen[port])
					}
					seen[port] = n
				}
				r.inboxes[port] = nil
				c, w := r.port(port).PortCounters, r.s.Workers[port%workers]
				there := w.ports[port].injection.waiting.Len() + InjectBuffers - w.ports[port].injection.spare.N
				if int(c.Injected+c.InjectDropped)+there != taken[port] {
					t.Fatalf("port %d took %d frames: %d sent, %d dropped, %d are there", port, taken[port], c.Injected,
						c.InjectDropped, there)
				}
			}
			if err := r.s.Check(); err != nil {
				t.Fatal(err)
			}
		}
		for port := range 3 {
			l := r.plan.Links[port]
			l.Up = true
			r.relink(port, l, 1000)
			if c := r.port(port).PortCounters; c.Injected < 100 || c.InjectDropped < 100 {
				t.Errorf("port %d: %d sent, %d dropped: the test tests nothing", port, c.Injected, c.InjectDropped)
			}
		}
		r.run(3_000_000)
		r.idle()
	}
}

// disturb changes something at a port, or sends frames to it.
func (r *rig) disturb(random *rand.Rand, port, workers int) {
	switch random.IntN(8) {
	case 0:
		l := r.plan.Links[port]
		l.Up = !l.Up
		r.relink(port, l, 0)
	case 1:
		r.stop(1, uint16(random.IntN(50)))
	case 2:
		r.regenerate(func(p *Params) { p.Ports[port].InFlight = 500 + random.IntN(9000) })
	case 3:
		w := r.s.Workers[port%workers]
		driver := w.ports[port].driver
		w.ports[port].driver = failing{driver}
		w.pass(r.now)
		w.ports[port].driver = driver
	default:
		for range random.IntN(10) {
			r.send(port, data(port, random.IntN(3), uint8(random.IntN(8)), 60+random.IntN(1400), 0))
		}
	}
}

// slowest is a driver that completes nothing for a time.
type slowest struct {
	pmd.Port
	held bool
}

func (d *slowest) Complete(addrs []uint64) int {
	if d.held {
		return 0
	}
	return d.Port.Complete(addrs)
}

// TestInjectionHasItsOwnBuffers checks that no more frames of the control plane are with the driver
// than there are buffers for them, that they keep none of those for PFC, and that data does not
// wait for them.
func TestInjectionHasItsOwnBuffers(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	d := &slowest{Port: r.wires[1].A, held: true}
	r.s.Workers[0].ports[1].driver, r.plan.Links[1].Driver = d, d
	for n := range injectSlots {
		r.mustInject(1, 60, n)
	}
	r.run(2000)
	r.send(0, data(0, 1, 0, 60, 1))
	r.run(2000)
	p := r.s.Workers[0].ports[1]
	if got, _ := r.numbers(1); len(got) != InjectBuffers || len(r.inboxes[1]) != InjectBuffers+1 ||
		p.flow.spare.N != ControlBuffers || p.injection.spare.N != 0 {
		t.Errorf("%v of %d frames left; %d and %d buffers are free", got, len(r.inboxes[1]), p.flow.spare.N,
			p.injection.spare.N)
	}
	d.held = false
	r.run(10_000)
	if got, _ := r.numbers(1); len(got) != injectSlots {
		t.Errorf("%v left", got)
	}
	r.idle()
}

// TestInjectionLeavesSlotsForPFC checks that frames of the control plane leave ControlBuffers slots
// of a TX ring free.
func TestInjectionLeavesSlotsForPFC(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	d := &slowest{Port: r.wires[1].A, held: true}
	p := r.s.Workers[0].ports[1]
	p.driver, r.plan.Links[1].Driver, p.txRing = d, d, ControlBuffers+2
	for n := range 4 {
		r.mustInject(1, 60, n)
	}
	r.run(2000)
	if got, _ := r.numbers(1); len(got) != 2 || p.sending != 2 {
		t.Errorf("%v left, %d are with the driver", got, p.sending)
	}
	d.held = false
	r.run(5000)
	if got, _ := r.numbers(1); len(got) != 4 {
		t.Errorf("%v left", got)
	}
	r.idle()
}

// TestFrameForAPortThatTheWorkerDoesNotKnowYet injects at a new port before its worker runs the
// generation that has it.
func TestFrameForAPortThatTheWorkerDoesNotKnowYet(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	p := r.params
	p.Ports, p.Bridge.Ports = slices.Clone(p.Ports), slices.Clone(p.Bridge.Ports)
	r.addPort(&p, 0, nil)
	g, err := r.s.Prepare(p)
	if err != nil {
		t.Fatal(err)
	}
	r.s.openGates(g) // half of Publish
	r.mustInject(int(g.portIDs[2]), 60, 1)
	r.run(1000)
	r.params, r.plan.Generation = p, g
	r.publish()
	r.run(1000)
	if c := r.port(2).PortCounters; c.InjectDropped != 1 {
		t.Errorf("%d frames dropped at the port, which has no driver yet, want 1", c.InjectDropped)
	}
	r.idle()
}
