package control

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/cells"
	"sluice/internal/config"
	"sluice/internal/dataplane/drop"
	"sluice/pfc"
)

const (
	detection, restoration = 100 * time.Millisecond, 100 * time.Millisecond
	// late is how late the watchdog may often be, jitter included. It looks every iteration,
	// microseconds apart, but the worker may lose its CPU for a while, which does not count in
	// full, and a frame takes time to reach its queue.
	late = 10*time.Millisecond + detection/16

	// short is a pause too short for a storm.
	short = int64(detection) / 2 / quantumNS // quanta
)

// storming reports whether the lossless class of port2 is in a storm.
func storming(s *State) bool { return s.Ports[1].Watchdog.Storming>>lossless&1 == 1 }

func (y *yard) awaitStorm() *State { y.t.Helper(); return y.awaitState("a storm", storming) }

func (y *yard) awaitCalm() *State {
	y.t.Helper()
	return y.awaitState("the end of a storm", func(s *State) bool { return !storming(s) })
}

// stormDrops returns how many frames of a CoS a port dropped because of a storm.
func stormDrops(p *PortState, cos int) uint64 { return p.Drops[drop.Storm][cos] }

// delays returns how long after the start of the last pause the last storm was detected, how long
// after the pause's end, which may be a frame or not, it was over, and how long it lasted.
func delays(t *testing.T, p *PortState, end pfc.Cause) (detected, restored, lasted time.Duration) {
	t.Helper()
	events, received := p.Watchdog.History.All(), p.PFCReceived.History.All()
	storm, calm := events[len(events)-2], events[len(events)-1]
	xoff, over := received[len(received)-2], received[len(received)-1]
	if storm != (pfc.StormEvent{At: storm.At, Priority: lossless, Storming: true}) ||
		calm != (pfc.StormEvent{At: calm.At, Priority: lossless}) {
		t.Fatalf("not a storm of CoS %d and its end: %+v", lossless, events)
	}
	if xoff.Priority != lossless || xoff.Cause != pfc.XOFF || over.Priority != lossless || over.Cause != end {
		t.Fatalf("not a pause of CoS %d and its end (%v): %+v", lossless, end, received)
	}
	return time.Duration(storm.At - xoff.At), time.Duration(calm.At - over.At), time.Duration(calm.At - storm.At)
}

// TestStormsAreSeenInTime: by the worker's clock, the watchdog never detects or ends a storm too
// early, and often not much too late.
func TestStormsAreSeenInTime(t *testing.T) {
	const storms, frames = 20, 3
	y := newYard(t, config.WatchdogAlert, detection)
	var detected, restored []time.Duration
	var lasted time.Duration
	for i := range storms {
		y.pause(forever)
		y.send(frames, lossless)
		y.awaitStorm()
		end := pfc.XON
		if i%2 == 0 {
			y.pause(0)
		} else {
			end = pfc.Expired
			y.pause(20)
		}
		s := y.awaitCalm()
		d, r, l := delays(t, &s.Ports[1], end)
		detected, restored, lasted = append(detected, d), append(restored, r), lasted+l
	}
	checkDelays(t, "detected", detected, detection)
	checkDelays(t, "restored", restored, restoration)
	y.hosts[1].await(lossless, storms*frames)
	y.checkReceived(lossless, 0, storms*frames)
	s := y.state()
	w := &s.Ports[1].Watchdog
	if w.Storms[lossless] != storms || w.Restorations[lossless] != storms || w.StormNS[lossless] != int64(lasted) ||
		s.Storms() != storms {
		t.Errorf("%+v, want %d storms that lasted %v together", w, storms, lasted)
	}
	if n := s.Ports[0].Dropped() + s.Ports[1].Dropped(); n != 0 {
		t.Errorf("dropped %d frames", n)
	}
}

// checkDelays compares delays with what they should be.
func checkDelays(t *testing.T, what string, delays []time.Duration, want time.Duration) {
	t.Helper()
	slices.Sort(delays)
	least, often, most := delays[0], delays[len(delays)/4], delays[len(delays)-1]
	t.Logf("%s after %v to %v, a quarter of them by %v; set to %v", what, least, most, often, want)
	if least < want || often > want+late {
		t.Errorf("want nothing %s before %v, and a quarter of them by %v", what, want, want+late)
	}
}

// TestShortStormLosesNothing: repeated pauses of half the detection time lose nothing, though the
// watchdog's action is to drop. Between them the peer lets frames out for a tenth of the time; with
// less than a hundredth, it would be a storm.
func TestShortStormLosesNothing(t *testing.T) {
	const rounds, frames, open = 8, shareFrames + 4, detection / 20
	y := newYard(t, config.WatchdogDrop, detection)
	for i := range rounds {
		y.pause(uint16(short))
		y.send(frames, lossless)
		y.hosts[1].send(y.hosts[0], lossless, uint32(i))
		y.hosts[1].await(lossless, frames*(i+1))
		time.Sleep(open)
	}
	y.checkReceived(lossless, 0, rounds*frames)
	y.hosts[0].await(lossless, rounds)
	s := y.state()
	if s.Storms() != 0 || s.Ports[0].Dropped()+s.Ports[1].Dropped() != 0 {
		t.Errorf("%d storms, %d and %d frames dropped", s.Storms(), s.Ports[0].Dropped(), s.Ports[1].Dropped())
	}
	// Each pause lasts at least its quanta from when its frame was read.
	if received := &s.Ports[1].PFCReceived; received.PausedNS[lossless] < rounds*short*quantumNS {
		t.Errorf("paused for %d ns, less than %d times %d quanta of %d ns", received.PausedNS[lossless], rounds, short,
			quantumNS)
	}
}

// TestStormIsDropped: waiting and arriving frames are dropped as storm drops, in both directions.
// Other classes are not affected, and the sender is released. After the storm all is as before.
func TestStormIsDropped(t *testing.T) {
	const waiting, toward, back, others, after = shareFrames + 4, 5, 3, 6, 7
	y := newYard(t, config.WatchdogDrop, 5*detection) // time to send the frames that are to wait
	y.pause(forever)
	y.send(waiting, lossless)
	y.awaitStorm()
	until(t, "the sender to be stopped and let go", func() bool { y.hosts[0].poll(); return len(y.hosts[0].told) == 2 })
	if told := y.hosts[0].told; !slices.Equal(told, []uint16{65535, 0}) {
		t.Errorf("the sender was told quanta %v", told)
	}
	y.send(toward, lossless)
	for i := range uint32(back) {
		y.hosts[1].send(y.hosts[0], lossless, i)
	}
	y.send(others, lossy)
	y.hosts[1].await(lossy, others)
	y.greet(0, 1)
	y.greet(1, 0)
	y.checkReceived(lossless, 0, 0)
	s := y.state()
	if n := stormDrops(&s.Ports[1], lossless); n != waiting+toward+back || s.Ports[0].Dropped() != 0 {
		t.Errorf("dropped %d because of the storm, want %d; %d at the other port, want none",
			n, waiting+toward+back, s.Ports[0].Dropped())
	}

	y.pause(0)
	y.awaitCalm()
	y.send(after, lossless)
	y.hosts[1].await(lossless, after)
	y.checkReceived(lossless, waiting+toward, waiting+toward+after)
	y.checkReceived(lossy, 0, others)
	s = y.state()
	if n := s.Ports[1].Dropped(); n != waiting+toward+back || s.LosslessDrops() != 0 {
		t.Errorf("dropped %d in the end, want %d; %d of them for lack of room", n, waiting+toward+back,
			s.LosslessDrops())
	}
	if h := y.hosts[0]; len(h.received[lossless]) > 0 || len(h.told) != 2 {
		t.Errorf("frames %v went back through the storm, and the sender was told quanta %v", h.received[lossless],
			h.told)
	}
}

// TestStormIsNotHonoured: frames arrive during the pause, and are counted.
func TestStormIsNotHonoured(t *testing.T) {
	const waiting, toward, after = shareFrames + 4, 5, 3
	y := newYard(t, config.WatchdogForward, detection)
	y.pause(forever)
	y.send(waiting, lossless)
	y.hosts[1].await(lossless, waiting)
	y.send(toward, lossless)
	y.hosts[1].await(lossless, waiting+toward)
	s := y.state()
	received := &s.Ports[1].PFCReceived
	if received.XON[lossless] != 0 || !storming(s) || s.Ports[1].StormForwarded[lossless] != waiting+toward {
		t.Errorf("XON %d, storming %t, forwarded %d: want %d, during the pause",
			received.XON[lossless], storming(s), s.Ports[1].StormForwarded[lossless], waiting+toward)
	}

	y.pause(0)
	y.awaitCalm()
	y.pause(uint16(short)) // which is honoured
	y.send(after, lossless)
	y.hosts[1].await(lossless, waiting+toward+after)
	y.checkReceived(lossless, 0, waiting+toward+after)
	s = y.state()
	if n := s.Ports[1].StormForwarded[lossless]; n != waiting+toward || s.Ports[0].Dropped()+s.Ports[1].Dropped() != 0 {
		t.Errorf("%d frames counted as forwarded, want %d; dropped %d and %d",
			n, waiting+toward, s.Ports[0].Dropped(), s.Ports[1].Dropped())
	}
}

// TestStormIsReported: the pause is honoured, however long it is, and nothing is lost.
func TestStormIsReported(t *testing.T) {
	const waiting, others = shareFrames + 4, 6
	y := newYard(t, config.WatchdogAlert, detection)
	y.pause(forever)
	y.send(waiting, lossless)
	y.awaitStorm()
	y.send(others, lossy)
	y.hosts[1].await(lossy, others)
	y.greet(0, 1)
	y.checkReceived(lossless, 0, 0)
	y.greet(1, 0)
	if told := y.hosts[0].told; !slices.Equal(told, []uint16{65535}) {
		t.Errorf("the sender was told quanta %v, want it to be stopped", told)
	}
	y.pause(0)
	y.hosts[1].await(lossless, waiting)
	y.checkReceived(lossless, 0, waiting)
	s := y.awaitCalm()
	p := &s.Ports[1]
	if p.Watchdog.Storms[lossless] != 1 || p.Dropped()+s.Ports[0].Dropped()+p.StormForwarded[lossless] != 0 {
		t.Errorf("%d storms, dropped %d and %d, forwarded %d",
			p.Watchdog.Storms[lossless], p.Dropped(), s.Ports[0].Dropped(), p.StormForwarded[lossless])
	}
}

// TestOverride: Override makes a storm without any pause, until it ends that.
func TestOverride(t *testing.T) {
	const dropped, after = 5, 4
	y := newYard(t, config.WatchdogDrop, detection)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	press := func(priorities uint8, on bool) {
		t.Helper()
		if err := y.Override(ctx, "port2", priorities, on); err != nil {
			t.Fatal(err)
		}
	}
	if err := y.Override(ctx, "port3", 1<<lossless, true); err == nil {
		t.Error("took an order about a port that there is not")
	}
	press(1<<lossless, true)
	y.awaitStorm()
	y.send(dropped, lossless)
	y.send(after, lossy)
	y.hosts[1].await(lossy, after)
	y.greet(0, 1)
	s := y.state()
	if n := stormDrops(&s.Ports[1], lossless); n != dropped || s.Ports[1].Watchdog.Held != 1<<lossless {
		t.Errorf("dropped %d, want %d; held %08b", n, dropped, s.Ports[1].Watchdog.Held)
	}
	press(0xff, false)
	s = y.awaitCalm()
	y.send(after, lossless)
	y.hosts[1].await(lossless, after)
	y.checkReceived(lossless, dropped, dropped+after)
	events := s.Ports[1].Watchdog.History.All()
	if len(events) != 2 || !events[0].Manual || !events[0].Storming || !events[1].Manual || events[1].Storming {
		t.Errorf("events %+v, want a storm made and ended by hand", events)
	}
}

// TestOverrideOneByOne: an order changes only the priorities that it names.
func TestOverrideOneByOne(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	for _, order := range []struct {
		priorities uint8
		on         bool
		held       uint8
	}{{1 << lossless, true, 1 << lossless}, {1, true, 1<<lossless | 1}, {1<<lossless | 1<<7, false, 1},
		{0xff, false, 0}} {
		if err := y.Override(t.Context(), "port2", order.priorities, order.on); err != nil {
			t.Fatal(err)
		}
		if held := y.state().Ports[1].Watchdog.Held; held != order.held {
			t.Errorf("after %08b %t: held %08b, want %08b", order.priorities, order.on, held, order.held)
		}
	}
}

// TestOverrideNeedsAWatchdog: a switch without a watchdog returns an error.
func TestOverrideNeedsAWatchdog(t *testing.T) {
	y := newYard(t, `"off"`, detection)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := y.Override(ctx, "port2", 1<<lossless, true); err == nil ||
		!strings.Contains(err.Error(), "watchdog.action") {
		t.Errorf("got %v, want an error that names watchdog.action", err)
	}
}

// TestClearWatermarks: peaks restart from the current usage; the highest values ever are kept.
func TestClearWatermarks(t *testing.T) {
	const headroom, fewer = 3, 5
	y := newYard(t, config.WatchdogOff, detection)
	group := func() cells.GroupUsage { t.Helper(); return y.state().Ports[0].Groups[lossless] }
	check := func(when string, want cells.GroupUsage) {
		t.Helper()
		if got := group(); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	marks := cells.GroupUsage{
		PeakShared: shareFrames, PeakHeadroom: headroom, MaxShared: shareFrames, MaxHeadroom: headroom,
	}

	y.pause(forever)
	y.send(shareFrames+headroom, lossless)
	y.greet(0, 1)
	full := marks
	full.Shared, full.Headroom = shareFrames, headroom
	check("held", full)
	y.pause(0)
	y.hosts[1].await(lossless, shareFrames+headroom)
	y.awaitState("an empty switch", func(s *State) bool { return s.Workers[0].CellsInUse == 0 })
	check("sent", marks)

	y.pause(forever)
	y.send(fewer, lossless)
	y.greet(0, 1)
	marks.Shared = fewer
	check("fewer held", marks)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := y.ClearWatermarks(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, "an end of the headroom's peak", func() bool { return group().PeakHeadroom == 0 })
	marks.PeakShared, marks.PeakHeadroom = fewer, 0
	check("cleared", marks)
	y.send(1, lossless)
	y.greet(0, 1)
	marks.Shared, marks.PeakShared = fewer+1, fewer+1
	check("one more", marks)
	y.pause(0)
	y.hosts[1].await(lossless, shareFrames+headroom+fewer+1)
}
