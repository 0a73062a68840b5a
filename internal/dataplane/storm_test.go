package dataplane

import (
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/internal/dataplane/drop"
	"sluice/pfc"
	"sluice/pmd/mem"
	"sluice/sched"
)

const stormTime = 100_000 // ns: detection and restoration in these tests

// stormRig returns a switch of two ports whose watchdogs take an action.
func stormRig(t *testing.T, action pfc.Action) *rig {
	t.Helper()
	r := newRig(t, 2, 1, func(p *Params) {
		for i := range p.Ports {
			port := &p.Ports[i]
			port.Receiver.Priorities = 0xff // asymmetric: the peer may pause any priority
			port.Watchdog = pfc.WatchdogParams{Priorities: 0xff, Detection: stormTime, Restoration: stormTime,
				Action: action}
		}
	})
	r.introduce()
	return r
}

// pause makes the partner of a port pause priorities for some ns, with one frame.
func (r *rig) pause(port int, priorities uint8, ns int64) {
	f := pfc.Frame{Enable: priorities}
	for n := range f.Quanta {
		f.Quanta[n] = uint16(ns * speed / 1e9 / pfc.QuantumBits)
	}
	r.control(port, f)
}

// resume ends a pause.
func (r *rig) resume(port int, priorities uint8) { r.control(port, pfc.Frame{Enable: priorities}) }

// lost returns all frames that the switch dropped for a reason.
func (r *rig) lost(why drop.Reason) (n uint64) {
	for i := range r.wires {
		for _, d := range r.port(i).Drops[why] {
			n += d
		}
	}
	return n
}

func TestStormIsDropped(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	r.pause(1, 1<<lossless, 3*stormTime)
	r.run(2000)
	for n := range 12 { // two of them in headroom: XOFF to the sender
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(stormTime - 4000)
	if n := r.lost(drop.Storm); n != 0 || r.port(0).PFCSent.XOFF[lossless] != 1 {
		t.Fatalf("before detection: %d frames dropped, XOFF %d", n, r.port(0).PFCSent.XOFF[lossless])
	}
	r.run(5000)
	if n := r.lost(drop.Storm); n != 12 {
		t.Errorf("detected: %d frames dropped, want the 12 that waited", n)
	}
	if r.port(0).PFCSent.XON[lossless] != 1 {
		t.Error("detected: the sender is still stopped, so the storm goes on upstream")
	}
	for n := range 3 { // to the stormed port, from it, and of another class
		r.send(0, data(0, 1, lossless, 60, n))
		r.send(1, data(1, 0, lossless, 60, n))
		r.send(0, data(0, 1, 0, 60, n))
	}
	r.run(5000)
	frames, _ := r.received(1)
	back, _ := r.received(0)
	if n := r.lost(drop.Storm); n != 12+6 || len(frames) != 3 || len(back) != 0 {
		t.Errorf("during the storm: %d dropped, want 18; %d frames of another class arrived, want 3; %d came "+
			"back, want 0", n, len(frames), len(back))
	}
	stormed := r.port(1)
	if in, out := stormed.ClassDrops(lossless); in != 3 || out != 12+3 {
		t.Errorf("the stormed port dropped %d frames that came in and %d from its queue, want 3 and 15", in, out)
	}
	if n := r.port(1).PFCSent.Frames; n != 0 {
		t.Errorf("%d PFC frames from the stormed port", n)
	}
	r.run(3*stormTime + 2000) // the pause ends, and the restoration time passes
	r.send(0, data(0, 1, lossless, 60, 99))
	r.run(3000)
	if frames, _ := r.received(1); len(frames) != 4 || r.lost(drop.Storm) != 18 {
		t.Errorf("restored: %d frames arrived in all, want 4; %d dropped, want 18", len(frames), r.lost(drop.Storm))
	}
	if w := r.port(1).Watchdog; w.Storms[lossless] != 1 || w.Restorations[lossless] != 1 || w.Storming != 0 {
		t.Errorf("%+v, want one storm, over", w)
	}
	r.idle()
}

func TestStormIsNotHonoured(t *testing.T) {
	r := stormRig(t, pfc.Forward)
	r.pause(1, 1<<lossless, 3*stormTime)
	r.run(2000)
	for n := range 5 {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(stormTime + 5000)
	r.send(0, data(0, 1, lossless, 60, 5))
	r.run(5000)
	p := r.port(1)
	if frames, _ := r.received(1); len(frames) != 6 || p.StormForwarded[lossless] != 6 {
		t.Errorf("%d frames arrived, %d counted as forwarded, want all 6", len(frames), p.StormForwarded[lossless])
	}
	if p.PFCReceived.PausedNS[lossless] < stormTime {
		t.Errorf("paused for %d ns: the count stopped in the storm", p.PFCReceived.PausedNS[lossless])
	}
	r.run(5 * stormTime)
	r.pause(1, 1<<lossless, stormTime/2) // restored: the next pause is honoured
	r.run(1000)
	r.send(0, data(0, 1, lossless, 60, 6))
	r.run(5000)
	if frames, _ := r.received(1); len(frames) != 6 {
		t.Errorf("restored: %d frames arrived during a pause, want the 6 before it", len(frames))
	}
	r.run(stormTime)
	if r.lost(drop.Storm) != 0 {
		t.Errorf("%d frames dropped", r.lost(drop.Storm))
	}
	r.idle()
}

func TestStormIsReportedOnly(t *testing.T) {
	r := stormRig(t, pfc.Alert)
	r.pause(1, 1<<lossless, 2*stormTime)
	r.run(2000)
	r.send(0, data(0, 1, lossless, 60, 0))
	r.run(stormTime + 10_000)
	frames, _ := r.received(1)
	if w := r.port(1).Watchdog; w.Storming != 1<<lossless || len(frames) != 0 {
		t.Errorf("storming %#x, %d frames arrived; want an event and an honoured pause", w.Storming, len(frames))
	}
	r.run(stormTime)
	if frames, _ := r.received(1); len(frames) != 1 || r.lost(drop.Storm) != 0 {
		t.Errorf("%d frames arrived, %d dropped, want 1 and 0", len(frames), r.lost(drop.Storm))
	}
	r.idle()
}

// TestStormTimes raises 20 storms at random times, and checks when each is detected and restored.
func TestStormTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r := stormRig(t, pfc.Drop)
	var detection, restoration []int64
	for storm := range 20 {
		r.run(rng.Int64N(10_000))
		r.send(0, data(0, 1, lossless, 60, storm))
		r.pause(1, 1<<lossless, 2*stormTime)
		r.run(100)
		from := r.now
		r.run(4 * stormTime)
		p := r.port(1)
		if len(p.Watchdog.History.All()) < 2*min(storm+1, 8) {
			t.Fatalf("storm %d: history %+v", storm, p.Watchdog.History.All())
		}
		events, received := p.Watchdog.History.All(), p.PFCReceived.History.All()
		began, ended := events[len(events)-2], events[len(events)-1]
		paused, expired := received[len(received)-2], received[len(received)-1]
		if !began.Storming || ended.Storming || paused.At < from-200 {
			t.Fatalf("storm %d: %+v, %+v", storm, events, received)
		}
		detection = append(detection, began.At-paused.At)
		restoration = append(restoration, ended.At-expired.At)
	}
	for name, times := range map[string][]int64{"detection": detection, "restoration": restoration} {
		slices.Sort(times)
		if times[0] < stormTime || times[len(times)-1] > stormTime+2000 {
			t.Errorf("%s after %d to %d ns, want %d and a few iterations", name, times[0], times[len(times)-1],
				stormTime)
		}
	}
	r.run(5000)
	r.idle()
}

// TestHalfAStormLosesNothing pauses repeatedly for half the detection time.
func TestHalfAStormLosesNothing(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	for n := range 20 {
		r.pause(1, 1<<lossless, stormTime/2)
		r.run(1000)
		r.send(0, data(0, 1, lossless, 60, n))
		r.run(stormTime)
	}
	if frames, _ := r.received(1); len(frames) != 20 || r.port(1).Watchdog.Storms[lossless] != 0 {
		t.Errorf("%d frames of 20 arrived, %d storms", len(frames), r.port(1).Watchdog.Storms[lossless])
	}
	r.idle()
}

// TestAllPrioritiesStormAtOnce pauses all priorities, and resumes them for a moment only: one
// lasting storm of each.
func TestAllPrioritiesStormAtOnce(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	r.pause(1, 0xff, stormTime+stormTime/2)
	r.run(1000)
	for range 20 {
		for priority := range uint8(8) {
			r.send(0, data(0, 1, priority, 60, 0))
		}
		r.run(stormTime / 2)
		r.resume(1, 0xff)
		r.run(200)
		r.pause(1, 0xff, stormTime)
	}
	w := r.port(1).Watchdog
	for n := range Priorities {
		if w.Storms[n] != 1 || w.Restorations[n] != 0 {
			t.Errorf("priority %d: %d storms, %d restorations, want one that lasts", n, w.Storms[n], w.Restorations[n])
		}
	}
	r.run(3 * stormTime)
	if w := r.port(1).Watchdog; w.Storming != 0 {
		t.Errorf("storming %#x after the storm", w.Storming)
	}
	r.idle()
}

// TestOverride holds a priority in a storm by hand.
func TestOverride(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	held := r.plan.Links[1]
	held.Storm = 1 << lossless
	r.relink(1, held, 1000)
	r.send(0, data(0, 1, lossless, 60, 0))
	r.send(0, data(0, 1, 0, 60, 0))
	r.run(10 * stormTime)
	if frames, _ := r.received(1); len(frames) != 1 || r.lost(drop.Storm) != 1 {
		t.Errorf("held: %d frames arrived, %d dropped, want 1 of each", len(frames), r.lost(drop.Storm))
	}
	held.Storm = 0
	r.relink(1, held, 1000)
	r.send(0, data(0, 1, lossless, 60, 1))
	r.run(5000)
	if frames, _ := r.received(1); len(frames) != 2 {
		t.Errorf("let go: %d frames arrived in all, want 2", len(frames))
	}
	r.idle()
}

// TestStormEndsWithTheLink takes the link down during a storm.
func TestStormEndsWithTheLink(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	r.pause(1, 1<<lossless, 10*stormTime)
	r.run(1000)
	r.send(0, data(0, 1, lossless, 60, 0))
	r.run(2 * stormTime)
	if r.port(1).Watchdog.Storming != 1<<lossless {
		t.Fatal("no storm")
	}
	link := r.plan.Links[1]
	link.Up = false
	r.relink(1, link, 1000)
	link.Up = true
	r.relink(1, link, 1000)
	r.introduce()
	r.send(0, data(0, 1, lossless, 60, 1))
	r.run(5000)
	if frames, _ := r.received(1); len(frames) != 1 || r.port(1).Watchdog.Storming != 0 {
		t.Errorf("%d frames arrived on the new link, storming %#x", len(frames), r.port(1).Watchdog.Storming)
	}
	r.idle()
}

// TestOwnStallIsNoStorm stalls the worker for longer than the detection time. The pause before the
// stall ended long ago, and another has just begun.
func TestOwnStallIsNoStorm(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	r.pause(1, 1<<lossless, 5000)
	r.run(1000)
	r.send(0, data(0, 1, lossless, 60, 0))
	r.run(1000)
	r.pause(1, 1<<lossless, 5000) // on the wire while the worker stalls
	r.now += 3 * stormTime
	r.run(10_000)
	if w := r.port(1).Watchdog; w.Storms[lossless] != 0 || len(r.inboxes[1]) != 1 {
		t.Errorf("%d storms, %d frames arrived; want 0 and 1", w.Storms[lossless], len(r.inboxes[1]))
	}
	r.idle()
}

// runSlowly is run with an iteration per every ns. One iteration sees all that arrived since the
// one before.
func (r *rig) runSlowly(ns, every int64) {
	for end := r.now + ns; r.now < end; {
		r.now += every - 100
		r.run(100)
	}
}

// TestXONThatXOFFFollowsIsAStorm checks that a partner which sends XOFF right after each XON causes
// a storm, like one that only pauses, and that the storm lasts as long as it does so.
func TestXONThatXOFFFollowsIsAStorm(t *testing.T) {
	for _, every := range []int64{5000, 20_000, stormTime / 2} {
		r := stormRig(t, pfc.Drop)
		r.pause(1, 1<<lossless, 20*stormTime)
		r.run(1000)
		for n := range 12 {
			r.send(0, data(0, 1, lossless, 60, n))
		}
		r.runSlowly(4000, 4000)
		if frames, _ := r.received(1); len(frames) != 0 {
			t.Fatalf("%d frames passed a pause", len(frames))
		}
		from := r.now
		for r.now < from+20*stormTime {
			r.resume(1, 1<<lossless)
			r.pause(1, 1<<lossless, 20*stormTime)
			r.runSlowly(every, 400)
		}
		p := r.port(1)
		events := p.Watchdog.History.All()
		if len(events) != 1 || events[0].At-from > stormTime+5000 || r.lost(drop.Storm)+p.TX[lossless] != 12 ||
			p.TX[lossless] > 6 {
			t.Fatalf("every %d ns: from %d on %+v, %d frames dropped, %d sent", every, from, events, r.lost(drop.Storm),
				p.TX[lossless])
		}
		r.resume(1, 1<<lossless)
		r.run(stormTime)
		if r.port(1).Watchdog.Storming != 1<<lossless {
			t.Error("the storm ended before its time")
		}
		r.run(1000)
		r.send(0, data(0, 1, lossless, 60, 99))
		r.run(3000)
		if now := r.port(1); now.Watchdog.Storming != 0 || now.TX[lossless] != p.TX[lossless]+1 {
			t.Error("the storm did not end")
		}
		r.idle()
	}
}

// TestStormEndsWhenFramesMayLeave has a partner that pauses more often than the restoration time,
// but for half of the time only.
func TestStormEndsWhenFramesMayLeave(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	r.pause(1, 1<<lossless, stormTime+stormTime/2)
	r.run(1000)
	r.send(0, data(0, 1, lossless, 60, 0))
	r.run(2 * stormTime)
	for n := range 20 {
		r.pause(1, 1<<lossless, stormTime/10)
		r.run(1000)
		r.send(0, data(0, 1, lossless, 60, n))
		r.run(stormTime / 5)
	}
	w := r.port(1).Watchdog
	if w.Storms[lossless] != 1 || w.Restorations[lossless] != 1 || w.StormNS[lossless] > 2*stormTime {
		t.Errorf("%+v, want a storm that ended", w)
	}
	if frames, _ := r.received(1); len(frames)+int(r.lost(drop.Storm)) != 21 || len(frames) < 15 {
		t.Errorf("%d frames of 21 arrived, %d dropped", len(frames), r.lost(drop.Storm))
	}
	r.idle()
}

// TestQuickPausesAreNoStorm has a partner that accepts one frame at a time, and pauses before and
// after it.
func TestQuickPausesAreNoStorm(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	r.pause(1, 1<<lossless, 20*stormTime)
	r.run(1000)
	sent := 0
	for range 40 { // the queue is never empty
		for r.port(1).Queues[lossless].Used < 8 {
			r.send(0, data(0, 1, lossless, 60, sent))
			sent++
			r.run(200)
		}
		r.resume(1, 1<<lossless)
		r.run(300)
		r.pause(1, 1<<lossless, 20*stormTime)
		r.run(stormTime / 4)
	}
	p := r.port(1)
	if paused := p.PFCReceived.PausedNS[lossless]; p.Watchdog.Storms[lossless] != 0 || paused < r.now*9/10 ||
		p.TX[lossless] < 40 {
		t.Errorf("%d storms, %d of %d ns paused, %d frames sent", p.Watchdog.Storms[lossless], paused, r.now,
			p.TX[lossless])
	}
	r.resume(1, 1<<lossless)
	r.run(20_000)
	if frames, _ := r.received(1); len(frames) != sent || r.lost(drop.Storm) != 0 {
		t.Errorf("%d frames of %d arrived, %d dropped", len(frames), sent, r.lost(drop.Storm))
	}
	r.idle()
}

// starve makes a partner pause for half of the time, in short pauses, and returns how many frames
// the queue sends meanwhile.
func (r *rig) starve(do func()) (sent uint64) {
	before := r.port(1).TX[lossless]
	for range 200 {
		r.pause(1, 1<<lossless, 5000)
		for range 50 {
			do()
			r.run(200)
		}
	}
	return r.port(1).TX[lossless] - before
}

// wantStarved checks that a queue with a frame has sent nothing for long and is not in a storm.
func (r *rig) wantStarved(sent uint64) {
	r.t.Helper()
	p := r.port(1)
	if paused := p.PFCReceived.PausedNS[lossless]; p.Watchdog.Storms[lossless] != 0 || sent != 0 ||
		p.Queues[lossless].Used != 1 || paused < 9*stormTime {
		r.t.Errorf("%d storms, %d sent, %d cells wait, paused for %d ns; want a queue that starves in no storm",
			p.Watchdog.Storms[lossless], sent, p.Queues[lossless].Used, paused)
	}
}

// TestStrictPriorityIsNoStorm has a strict class that takes the whole line, so that a queue which
// is paused now and then sends nothing.
func TestStrictPriorityIsNoStorm(t *testing.T) {
	r := newRig(t, 3, 1, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Watchdog = pfc.WatchdogParams{Priorities: 0xff, Detection: stormTime, Restoration: stormTime,
				Action: pfc.Drop}
			p.Ports[i].Sched.Queues[7] = sched.QueueParams{TSA: sched.StrictPriority}
			p.Ports[i].InFlight = 3000
		}
	})
	r.introduce()
	overload := func() { // twice 10 Gbit/s, for 200 ns
		r.send(0, data(0, 1, 7, 226, 0))
		r.send(2, data(2, 1, 7, 226, 0))
	}
	for range 50 {
		overload()
		r.run(200)
	}
	r.send(0, data(0, 1, lossless, 60, 0))
	r.wantStarved(r.starve(overload))
	r.run(20_000)
	if frames, _ := r.received(1); r.port(1).TX[lossless] != 1 || len(frames) == 0 || r.lost(drop.Storm) != 0 {
		t.Errorf("after the overload %d frames of the class were sent, %d dropped", r.port(1).TX[lossless],
			r.lost(drop.Storm))
	}
	r.idle()
}

// stuck is a driver that completes nothing while now is set.
type stuck struct {
	*mem.Port
	now bool
}

func (s *stuck) Complete(addrs []uint64) int {
	if s.now {
		return 0
	}
	return s.Port.Complete(addrs)
}

// TestFullTXRingIsNoStorm has a device that sends nothing, of any class, so a queue that is paused
// now and then sends nothing either.
func TestFullTXRingIsNoStorm(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	driver := &stuck{Port: r.wires[1].A, now: true}
	r.s.Workers[0].ports[1].driver, r.plan.Links[1].Driver = driver, driver
	r.publish()
	for n := range 12 { // 16 KiB may be in flight
		r.send(0, data(0, 1, uint8(n%3), 1518, n))
	}
	r.run(20_000)
	r.send(0, data(0, 1, lossless, 60, 0))
	r.run(1000)
	r.wantStarved(r.starve(func() {}))
	driver.now = false
	r.run(20_000)
	if frames, _ := r.received(1); len(frames) != 13 || r.lost(drop.Storm) != 0 {
		t.Errorf("%d frames of 13 arrived, %d dropped", len(frames), r.lost(drop.Storm))
	}
	r.idle()
}

// TestOwnStallsAreNoStorm stalls the worker repeatedly. In each of these stalls the partner resumes
// and pauses again, so the worker receives XON and XOFF together.
func TestOwnStallsAreNoStorm(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	r.pause(1, 1<<lossless, 20*stormTime)
	r.run(1000)
	r.send(0, data(0, 1, lossless, 60, 0))
	r.run(1000)
	for range 10 {
		r.resume(1, 1<<lossless)
		r.pause(1, 1<<lossless, 20*stormTime)
		r.runSlowly(stormTime/3, stormTime/3)
	}
	if w := r.port(1).Watchdog; w.Storms[lossless] != 0 {
		t.Errorf("%d storms", w.Storms[lossless])
	}
	r.resume(1, 1<<lossless)
	r.run(3000)
	if frames, _ := r.received(1); len(frames) != 1 || r.lost(drop.Storm) != 0 {
		t.Errorf("%d frames arrived, %d dropped; want 1 and 0", len(frames), r.lost(drop.Storm))
	}
	r.idle()
}

// TestActionOfAStorm reloads with another action while a priority is in a storm: the new action
// applies at once, and ends with the storm.
func TestActionOfAStorm(t *testing.T) {
	for _, from := range []pfc.Action{pfc.Alert, pfc.Drop, pfc.Forward} {
		for _, to := range []pfc.Action{pfc.Alert, pfc.Drop, pfc.Forward} {
			r := stormRig(t, from)
			r.pause(1, 1<<lossless, 4*stormTime)
			r.run(2000)
			r.send(0, data(0, 1, lossless, 60, 1))
			r.run(2 * stormTime)
			sent, lost := len(r.inboxes[1]), r.lost(drop.Storm)
			if w := r.port(1).Watchdog; w.Storming != 1<<lossless || sent != oneIf(from == pfc.Forward) ||
				int(lost) != oneIf(from == pfc.Drop) {
				t.Fatalf("%v: storming %#x, %d frames arrived, %d dropped", from, w.Storming, sent, lost)
			}
			if from == pfc.Alert {
				r.resume(1, 1<<lossless) // lets the frame go
				r.run(200)
				r.pause(1, 1<<lossless, 2*stormTime)
				r.run(2000)
				sent = len(r.inboxes[1])
			}
			r.regenerate(func(p *Params) { p.Ports[1].Watchdog.Action = to })
			r.send(0, data(0, 1, lossless, 60, 2))
			r.run(5000)
			if len(r.inboxes[1])-sent != oneIf(to == pfc.Forward) ||
				int(r.lost(drop.Storm)-lost) != oneIf(to == pfc.Drop) {
				t.Errorf("%v, then %v: %d frames arrived, %d dropped", from, to, len(r.inboxes[1])-sent,
					r.lost(drop.Storm)-lost)
			}
			r.run(6 * stormTime)
			sent, lost = len(r.inboxes[1]), r.lost(drop.Storm)
			r.send(0, data(0, 1, lossless, 60, 3))
			r.run(5000)
			if w := r.port(1).Watchdog; w.Storming != 0 || len(r.inboxes[1]) != sent+1 || r.lost(drop.Storm) != lost {
				t.Errorf("%v, then %v: after the storm %d frames arrived, %d dropped", from, to, len(r.inboxes[1])-sent,
					r.lost(drop.Storm)-lost)
			}
			r.idle()
		}
	}
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestHeldUpIterationIsNoStorm interrupts the worker for longer than the detection time within an
// iteration, before it reads a short pause.
func TestHeldUpIterationIsNoStorm(t *testing.T) {
	for _, late := range []int64{stormTime - 10_000, stormTime + 5000, 30 * stormTime} {
		r := stormRig(t, pfc.Drop)
		w := r.s.Workers[0]
		r.pause(1, 1<<lossless, stormTime/10)
		r.send(0, data(0, 1, lossless, 60, 0))
		w.UseClock(func() int64 { return r.now + late })
		for range 10 { // the interrupted iteration is one of these
			r.run(100)
			if r.port(1).PFCReceived.Frames > 0 {
				break
			}
		}
		w.UseClock(nil)
		r.now += late
		r.run(stormTime)
		p := r.port(1)
		if frames, _ := r.received(1); p.Watchdog.Storms[lossless] != 0 || len(frames) != 1 ||
			r.lost(drop.Storm) != 0 || p.PFCReceived.PausedNS[lossless] < late {
			t.Errorf("interrupted for %d ns: %d storms, %d frames arrived, paused for %d ns", late,
				p.Watchdog.Storms[lossless], len(frames), p.PFCReceived.PausedNS[lossless])
		}
		r.idle()
	}
}

// TestStormedPortStaysSilent detects a storm while the stormed port's own group is in XOFF.
func TestStormedPortStaysSilent(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	r.pause(0, 1<<lossless, 50*stormTime) // so that frames from port 1 stay in its group
	r.pause(1, 1<<lossless, 3*stormTime)
	r.run(2000)
	r.send(0, data(0, 1, lossless, 60, 0)) // waits for port 1: a storm there
	for n := range 13 {
		r.send(1, data(1, 0, lossless, 60, n)) // waits for port 0, in the group of port 1
	}
	r.run(stormTime / 2)
	if s := r.port(1).PFCSent; s.XOFF[lossless] != 1 || s.XON[lossless] != 0 {
		t.Fatalf("before the storm: %d XOFF, %d XON", s.XOFF[lossless], s.XON[lossless])
	}
	r.run(stormTime)
	if w := r.port(1).Watchdog; w.Storming != 1<<lossless {
		t.Fatal("no storm")
	}
	sent := r.port(1).PFCSent
	if sent.XON[lossless] != 1 {
		t.Errorf("%d XON to the peer of a port that drops what it sends, want 1", sent.XON[lossless])
	}
	r.run(stormTime)
	if now := r.port(1).PFCSent; now.XOFF[lossless] != 1 || now.Refreshes[lossless] != sent.Refreshes[lossless] {
		t.Errorf("PFC went on during the storm: %+v", now)
	}
}

// TestStormEndsWithTheDevice replaces the driver during a storm: the first frame passes.
func TestStormEndsWithTheDevice(t *testing.T) {
	r := stormRig(t, pfc.Drop)
	r.pause(1, 1<<lossless, 10*stormTime)
	r.run(1000)
	r.send(0, data(0, 1, lossless, 60, 0))
	r.run(2 * stormTime)
	if r.port(1).Watchdog.Storming != 1<<lossless {
		t.Fatal("no storm")
	}
	r.relink(1, Link{}, 1000)
	r.relink(1, Link{Closed: true}, 1000)
	r.wires[1] = r.newWire(1)
	r.wires[1].A.Fill(r.s.Parked(1))
	r.send(1, data(1, 0, lossless, 60, 1)) // received together with the new link
	r.wires[1].Advance(r.now + 2000)
	r.relink(1, Link{Driver: r.wires[1].A, Up: true, TXRing: ringSize}, 5000)
	if frames, _ := r.received(0); len(frames) != 1 || r.lost(drop.Storm) != 1 {
		t.Errorf("%d frames arrived from the new link, %d dropped; want 1, and 1 in the storm", len(frames),
			r.lost(drop.Storm))
	}
}
