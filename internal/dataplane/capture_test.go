package dataplane

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
	"sluice/internal/dataplane/tap"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
)

const bothWays = tap.RX | tap.TX

// captured is a record and the bytes of its frame.
type captured struct {
	tap.Record
	frame []byte
}

// say returns the record in the short form that tests compare.
func (c captured) say() string {
	text := fmt.Sprintf("%d %v %v", c.Port, c.Direction, c.Verdict)
	if c.Verdict == tap.Dropped {
		text += " " + c.Why.String()
	}
	switch {
	case c.Class != tap.NoClass:
		text += fmt.Sprint(" cos ", c.Class)
	case c.Control != tap.NoControl:
		text += " " + c.Control.String()
	}
	if c.Queue != tap.NoQueue {
		text += fmt.Sprint(" queue ", c.Queue)
	}
	if c.Other != tap.NoPort {
		text += fmt.Sprint(" other ", c.Other)
	}
	return text
}

// everything selects all frames of a rig's ports, in full length.
func (r *rig) everything() tap.Params {
	return tap.Params{Ports: slices.Repeat([]tap.Direction{bothWays}, len(r.wires)), Classes: 0xff}
}

// tap starts a capture.
func (r *rig) tap(p tap.Params) []*Tap {
	r.t.Helper()
	taps, err := r.s.NewTaps(p)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		for _, t := range taps {
			if err := t.Close(); err != nil {
				r.t.Error(err)
			}
		}
	})
	r.plan.Taps = taps
	r.publish()
	r.run(100)
	return taps
}

// untap ends it.
func (r *rig) untap() {
	r.plan.Taps = nil
	r.publish()
	r.run(100)
}

// drain returns the records that wait in taps.
func drain(taps []*Tap) (all []captured) {
	for _, t := range taps {
		for rec := t.Peek(); rec != nil; rec = t.Peek() {
			all = append(all, captured{*rec, bytes.Clone(t.Frame(rec))})
			t.Release()
		}
	}
	return all
}

func says(all []captured) (texts []string) {
	for _, c := range all {
		texts = append(texts, c.say())
	}
	return texts
}

// TestCaptureSaysWhatBecomesOfFrames provokes each verdict, and each reason to drop that can be
// provoked alone.
func TestCaptureSaysWhatBecomesOfFrames(t *testing.T) {
	for _, c := range []struct {
		name string
		send []byte
		tune func(r *rig)
		want []string
	}{
		{name: "forwarded", send: data(0, 1, 5, 200, 7), want: []string{"0 rx forwarded cos 5 queue 5 other 1",
			"1 tx forwarded cos 5 queue 5 other 0"}},
		{name: "flooded", send: data(0, 9, 5, 200, 7),
			want: []string{"0 rx flooded cos 5", "1 tx forwarded cos 5 queue 5 other 0",
				"2 tx forwarded cos 5 queue 5 other 0"}},
		{name: "runt", send: make([]byte, 13), want: []string{"0 rx dropped runt cos 0"}},
		{name: "oversize", send: data(0, 1, 2, 1300, 7), want: []string{"0 rx dropped oversize cos 2"}},
		{name: "back to where it came from", send: data(9, 0, 2, 100, 7),
			want: []string{"0 rx dropped no_destination cos 2"}},
		{name: "to itself", send: data(0, 0, 2, 100, 7), want: []string{"0 rx dropped source_address cos 2"}},
		{name: "reserved address", send: reserved(), want: []string{"0 rx dropped reserved_address cos 0"}},
		{name: "for the control plane", send: lldp(5<<13, 60, 7), tune: func(r *rig) {
			r.regenerate(subscribed(1, 1))
			r.run(1000)
		}, want: []string{"0 rx punted cos 5"}},
		{name: "nobody to flood to", send: data(0, 9, 2, 100, 7), tune: func(r *rig) { r.down(1); r.down(2) },
			want: []string{"0 rx dropped no_destination cos 2"}},
		{name: "PFC", send: pfcFrame(3), want: []string{"0 rx consumed pfc"}},
		{name: "PAUSE at a port that does PFC", send: pauseFrame(), want: []string{"0 rx ignored pause"}},
		{name: "PFC to another station", send: unicastPFC(), want: []string{"0 rx ignored misaddressed"}},
		{name: "PFC for no class", send: pfcFrame(-1), want: []string{"0 rx consumed pfc"}},
		{name: "an unknown MAC control frame", send: unknownControl(), want: []string{"0 rx ignored unknown_opcode"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 3, 1, shortFrames)
			r.introduce()
			if c.tune != nil {
				c.tune(r)
			}
			taps := r.tap(r.everything())
			r.send(0, c.send)
			r.run(10_000)
			all := drain(taps)
			// Which of two ports sends first is random.
			if got := says(all); !slices.Equal(slices.Sorted(slices.Values(got)), c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			for _, got := range all {
				if !bytes.Equal(got.frame, c.send) || int(got.Length) != len(c.send) {
					t.Errorf("%s: %x, was %x", got.say(), got.frame, c.send)
				}
			}
			r.idle()
		})
	}
}

// shortFrames makes ports drop as oversize some frames that the wires carry.
func shortFrames(p *Params) {
	for i := range p.Ports {
		p.Ports[i].MaxFrame = 1200
	}
}

// down takes a port's link away.
func (r *rig) down(port int) {
	l := r.plan.Links[port]
	l.Up = false
	r.relink(port, l, 1000)
}

func reserved() []byte {
	b := data(0, 1, 0, 60, 0)
	copy(b, []byte{1, 0x80, 0xc2, 0, 0, 0x0e})
	return b
}

// pfcFrame returns a PFC frame for a priority, or for none if it is -1.
func pfcFrame(priority int) []byte {
	b, f := make([]byte, pfc.FrameLength), pfc.Frame{}
	if priority >= 0 {
		f.Enable = 1 << priority
	}
	f.Put(b, [6]byte{2})
	return b
}

func pauseFrame() []byte {
	b := make([]byte, pfc.FrameLength)
	(&pfc.Frame{Enable: 0xff}).PutPause(b, [6]byte{2})
	return b
}

func unicastPFC() []byte {
	b := pfcFrame(3)
	station0(1).Put(b)
	return b
}

func unknownControl() []byte {
	b := pfcFrame(0)
	b[15] = 0x77
	return b
}

// TestCaptureOfDropsAlone checks that DropsOnly captures nothing but drops, and that a MAC control
// frame which the port ignores counts as one.
func TestCaptureOfDropsAlone(t *testing.T) {
	r := newRig(t, 3, 1, nil)
	r.introduce()
	p := r.everything()
	p.DropsOnly = true
	taps := r.tap(p)
	r.send(0, data(0, 1, 5, 200, 7))
	r.send(0, pfcFrame(3))
	r.send(0, make([]byte, 13))
	r.send(1, pauseFrame())
	r.run(10_000)
	if got, want := says(drain(taps)), []string{"1 rx ignored pause", "0 rx dropped runt cos 0"}; !sameSet(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// TestCaptureFilters covers ports, directions, classes and the length kept. A PFC frame has the
// classes that it names.
func TestCaptureFilters(t *testing.T) {
	for _, c := range []struct {
		name string
		p    tap.Params
		want []string
	}{
		{"a port", tap.Params{Ports: []tap.Direction{1: bothWays, 2: 0}, Classes: 0xff},
			[]string{"1 tx forwarded cos 5 queue 5 other 0"}},
		{"a direction", tap.Params{Ports: []tap.Direction{tap.RX, tap.RX, tap.RX}, Classes: 0xff},
			[]string{"0 rx forwarded cos 5 queue 5 other 1", "0 rx consumed pfc", "0 rx dropped runt cos 0"}},
		{"a class", tap.Params{Ports: []tap.Direction{tap.RX, tap.RX, tap.RX}, Classes: 1 << 3},
			[]string{"0 rx consumed pfc"}},
		{"another", tap.Params{Ports: []tap.Direction{tap.RX, tap.RX, tap.RX}, Classes: 1 << 5},
			[]string{"0 rx forwarded cos 5 queue 5 other 1"}},
		{"fewer ports than there are", tap.Params{Ports: []tap.Direction{tap.RX}, Classes: 1 << 0},
			[]string{"0 rx dropped runt cos 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 3, 1, nil)
			r.introduce()
			c.p.SnapLength = 50
			taps := r.tap(c.p)
			whole := data(0, 1, 5, 200, 7)
			r.send(0, whole)
			r.send(0, pfcFrame(3))
			r.send(0, make([]byte, 13))
			r.run(10_000)
			all := drain(taps)
			if got := says(all); !sameSet(got, c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			for _, got := range all {
				if int(got.Kept) != min(50, int(got.Length)) || len(got.frame) != int(got.Kept) ||
					got.Verdict == tap.Forwarded && !bytes.Equal(got.frame, whole[:50]) {
					t.Errorf("%s: %d of %d bytes kept: %x", got.say(), got.Kept, got.Length, got.frame)
				}
			}
		})
	}
}

// TestCaptureAgreesWithTheCounters checks, with random rates, floods, overload, links that go up
// and down and PFC storms, on one worker and on two, that there is one record for each frame
// received, for each frame sent, and for each drop, with its reason, class and port.
func TestCaptureAgreesWithTheCounters(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ports := rapid.IntRange(2, 4).Draw(rt, "ports")
		workers := rapid.IntRange(1, 2).Draw(rt, "workers")
		scarce := rapid.Bool().Draw(rt, "scarce")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		r := newRig(t, ports, workers, func(p *Params) {
			shortFrames(p)
			subscribed(1, 10)(p)
			if scarce {
				for i := range p.Ports {
					p.Ports[i].Cells.Groups[0].Share = 3
					p.Ports[i].Sched.Rate = speed / 10
				}
			}
		})
		r.introduce()
		before := r.counters()
		p := r.everything()
		p.SnapLength = 64
		taps := r.tap(p)
		var all []captured
		for range rapid.IntRange(1, 30).Draw(rt, "rounds") {
			for _, t := range taps {
				t.Budget = tap.MaxBudget // hardly any virtual time passes
			}
			r.mischief(random)
			r.run(int64(random.IntN(3000)))
			all = append(all, drain(taps)...)
		}
		for i := range r.wires {
			l := r.plan.Links[i]
			l.Up = true
			r.relink(i, l, 1000)
		}
		r.run(1_000_000) // until nothing is left to send
		r.untap()
		all = append(all, drain(taps)...)
		r.compare(rt, before, all)
		lost := 0
		for _, c := range all {
			lost += int(c.Beyond + c.Full)
		}
		for port := range r.wires {
			for _, t := range taps {
				if n := t.CountOf(bridge.PortID(port)); n.Beyond+n.Full != 0 || lost != 0 {
					rt.Errorf("port %d: %+v lost", port, n)
				}
			}
		}
		if err := r.s.Check(); err != nil {
			rt.Error(err)
		}
	})
}

// mischief sends a few frames of any kind, or changes a link.
func (r *rig) mischief(random *rand.Rand) {
	from := random.IntN(len(r.wires))
	switch random.IntN(12) {
	case 0:
		l := r.plan.Links[from]
		l.Up = !l.Up
		r.relink(from, l, 0)
	case 1:
		r.control(from, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: uint16(random.IntN(3))}})
	case 2:
		r.send(from, [][]byte{make([]byte, 13), pauseFrame(), pfcFrame(-1), unknownControl(), reserved(),
			data(from, 0, 1, 1300, 0)}[random.IntN(6)])
	case 3:
		r.send(from, lldp(random.IntN(9)<<13-1, 60+random.IntN(1000), 0))
	case 4:
		r.s.Inject(r.s.PortID(from), lldp(-1, 60+random.IntN(1000), 0))
	default:
		for range random.IntN(30) {
			r.send(from, data(from, random.IntN(len(r.wires)+1), uint8(random.IntN(2)*random.IntN(8)),
				60+random.IntN(1100), 0))
		}
	}
}

func (r *rig) counters() (all []PortCounters) {
	for i := range r.wires {
		all = append(all, r.port(i).PortCounters)
	}
	return all
}

// compare compares a capture with the counters of the same time.
func (r *rig) compare(t *rapid.T, before []PortCounters, all []captured) {
	type kind struct {
		direction tap.Direction
		verdict   tap.Verdict
	}
	drops, kinds := make([][drop.Reasons][Priorities]uint64, len(r.wires)), make([]map[kind]uint64, len(r.wires))
	for i := range kinds {
		kinds[i] = map[kind]uint64{}
	}
	injected := make([]uint64, len(r.wires))
	for _, c := range all {
		kinds[c.Port][kind{c.Direction, c.Verdict}]++
		if c.Verdict == tap.Originated && c.Control == tap.NoControl {
			injected[c.Port]++
		}
		if c.Verdict == tap.Dropped {
			drops[c.Port][c.Why][c.Class]++
		}
	}
	for i, n := range r.counters() {
		was := before[i]
		for why := range n.Drops {
			for class := range n.Drops[why] {
				if got, want := drops[i][why][class], n.Drops[why][class]-was.Drops[why][class]; got != want {
					t.Errorf("port %d: %d frames captured as %v in class %d, %d counted", i, got, drop.Reason(why),
						class, want)
				}
			}
		}
		k := kinds[i]
		ingress := k[kind{tap.RX, tap.Forwarded}] + k[kind{tap.RX, tap.Flooded}] + k[kind{tap.RX, tap.Dropped}] +
			k[kind{tap.RX, tap.Consumed}] +
			k[kind{tap.RX, tap.Ignored}] + k[kind{tap.RX, tap.Punted}]
		// A flooded frame has one record, and another for each copy that is refused. One of the
		// copies is the frame itself.
		copies := n.FloodCopies - was.FloodCopies + k[kind{tap.RX, tap.Flooded}]
		if received := n.RXFrames - was.RXFrames; ingress < received || ingress > received+copies {
			t.Errorf("port %d: %d frames received, and %d copied; %d captured: %v", i, received, copies, ingress, k)
		}
		if sent := n.TXFrames - was.TXFrames; k[kind{tap.TX, tap.Forwarded}] != sent {
			t.Errorf("port %d: %d frames sent, %d captured", i, sent, k[kind{tap.TX, tap.Forwarded}])
		}
		if punted := n.Punted[punt.LLDP] - was.Punted[punt.LLDP]; k[kind{tap.RX, tap.Punted}] != punted {
			t.Errorf("port %d: %d frames punted, %d captured", i, punted, k[kind{tap.RX, tap.Punted}])
		}
		if n := n.Injected - was.Injected; injected[i] != n {
			t.Errorf("port %d: %d frames of the control plane, %d captured", i, n, injected[i])
		}
		if control := n.Control - was.Control; k[kind{tap.RX, tap.Consumed}]+k[kind{tap.RX, tap.Ignored}] != control {
			t.Errorf("port %d: %d MAC control frames, %v captured", i, control, k)
		}
	}
}

// TestCaptureOfAdmission checks that a frame which its priority group refuses has one record, as
// dropped, with the bytes that arrived even if a tag was to be pushed. The refused copies of a
// flooded frame have records of their own.
func TestCaptureOfAdmission(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) {
		p.Bridge.Ports[1].Tagged = new(bridge.VLANSet)
		p.Bridge.Ports[1].Tagged.Add(1)
		p.Ports[0].Cells.Groups[0] = cells.GroupParams{Share: 1}
	})
	r.introduce()
	taps := r.tap(r.everything())
	var sent [][]byte
	for n := range 10 {
		b := make([]byte, 100)
		frame.PutHeader(b, station0(1), station0(0), 0, 0, false, frame.TypeIPv4)
		b[99] = byte(n)
		sent = append(sent, b)
		r.send(0, b)
	}
	r.run(20_000)
	var received [][]byte
	dropped := 0
	for _, c := range drain(taps) {
		if c.Direction == tap.RX && c.Port == 0 {
			received = append(received, c.frame)
			if c.Verdict == tap.Dropped && c.Why == drop.IngressFull {
				dropped++
				if c.Queue != tap.NoQueue || c.Other != tap.NoPort {
					t.Errorf("%s: it got nowhere", c.say())
				}
			}
		}
	}
	if !slices.EqualFunc(received, sent, bytes.Equal) {
		t.Errorf("captured %d frames, not the %d that came in", len(received), len(sent))
	}
	if want := r.port(0).Drops[drop.IngressFull][0]; uint64(dropped) != want || want == 0 {
		t.Errorf("%d captured as refused, %d counted", dropped, want)
	}
}

// TestCaptureIsBounded sends frames of full length while nothing drains. The ring fills, no
// iteration copies more than its budget, frames that are not captured are counted, and the switch
// forwards as usual.
func TestCaptureIsBounded(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	taps := r.tap(r.everything())
	w := r.s.Workers[0]
	const frames = 20_000
	for n := 0; n < frames; {
		for range 40 {
			r.send(0, data(0, 1, 1, 1500, n))
			n++
		}
		r.run(100_000)
		if taken := len(taps[0].Kept()); taken != 0 {
			t.Fatalf("%d records are kept from an iteration to the next", taken)
		}
	}
	r.run(100_000)
	frames1, _ := r.received(1)
	r.untap()
	var n tap.Count
	for port := range r.wires {
		of := taps[0].CountOf(bridge.PortID(port))
		n.Seen, n.Beyond, n.Full = n.Seen+of.Seen, n.Beyond+of.Beyond, n.Full+of.Full
	}
	all := drain(taps)
	if n.Beyond == 0 {
		t.Error("all of it was within the budget")
	}
	if len(frames1) != frames || w.Look(r.now).Ports[0].Dropped() != 0 {
		t.Errorf("%d of %d frames arrived", len(frames1), frames)
	}
	if n.Seen != 2*frames || len(all) != tap.Slots || uint64(len(all)) != n.Seen-n.Beyond-n.Full || n.Full == 0 {
		t.Errorf("%d records; %+v", len(all), n)
	}
	for i, c := range all {
		if c.Beyond+c.Full != 0 && i < 100 {
			t.Errorf("record %d: %d, %d lost before it", i, c.Beyond, c.Full)
		}
	}
}

// TestCaptureKeepsItsBudget checks that of a burst that arrives at once, an iteration captures what
// its budget allows, and that the next record says how many frames are missing before it.
func TestCaptureKeepsItsBudget(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	p := r.everything()
	p.Ports[1] = 0
	taps := r.tap(p)
	const burst, length = 60, 1500
	for i := range burst {
		r.send(0, data(0, 1, 1, length, i))
	}
	const left = 16 << 10           // of the budget
	r.wires[0].Advance(r.now + 1e6) // all frames have arrived
	r.now += 1e6
	taps[0].Budget, taps[0].Last = left, r.now
	r.run(1000)
	all := drain(taps)
	fit := left / (length + tap.Overhead)
	if len(all) != fit {
		t.Fatalf("%d of %d frames captured, want %d", len(all), burst, fit)
	}
	r.send(0, data(0, 1, 1, 100, 0))
	r.run(10_000)
	r.untap()
	all = drain(taps)
	if n := taps[0].CountOf(0); len(all) != 1 || int(all[0].Beyond) != burst-fit || all[0].Full != 0 ||
		n != (tap.Count{Seen: burst + 1, Beyond: burst - uint64(fit)}) {
		t.Errorf("%+v, %+v", all, n)
	}
}

// TestCaptureAllocatesNothing checks for allocations, while records are drained and with a full
// ring.
func TestCaptureAllocatesNothing(t *testing.T) {
	r := newRig(t, 2, 1, shortFrames)
	r.introduce()
	taps := r.tap(r.everything())
	b := data(0, 1, 1, 300, 0)
	oversize := data(0, 1, 1, 1300, 0)
	addrs := [2]uint64{uint64(ringSize * bufferSize), uint64((ringSize + 1) * bufferSize)}
	copy(r.memory[addrs[0]:], b)
	copy(r.memory[addrs[1]:], oversize)
	far := r.wires[0].B
	n := testing.AllocsPerRun(2000, func() {
		far.Transmit([]pmd.Desc{{Addr: addrs[0], Len: 300}, {Addr: addrs[1], Len: 1300}})
		for range 30 {
			r.now += 100
			for _, w := range r.wires {
				w.Advance(r.now)
			}
			r.s.Workers[0].Step(r.now)
		}
		r.wires[0].B.Complete(r.addrs[:])
		r.discardAll(1)
		if r.now/3000%2 == 0 {
			for taps[0].Peek() != nil {
				taps[0].Release()
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for an iteration", n)
	}
}

// TestCaptureOfFloodsWithoutBuffer checks that a frame is flooded as far as buffers go, and that
// each copy without a buffer is a drop.
func TestCaptureOfFloodsWithoutBuffer(t *testing.T) {
	r := newRig(t, 3, 1, nil)
	r.introduce()
	taps := r.tap(r.everything())
	pool := r.s.Workers[0].pool
	ids := make([]uint32, pool.Free())
	pool.Get(ids)
	r.send(0, data(0, 9, 5, 200, 7))
	r.run(10_000)
	pool.Put(ids)
	all := drain(taps)
	want := []string{"0 rx flooded cos 5", "0 rx dropped no_buffer cos 5", "2 tx forwarded cos 5 queue 5 other 0"}
	if got := says(all); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, c := range all {
		if !bytes.Equal(c.frame, data(0, 9, 5, 200, 7)) {
			t.Errorf("%s: %x", c.say(), c.frame)
		}
	}
	r.run(10_000)
	r.idle()
}

// failing is a driver that takes no frames.
type failing struct{ pmd.Port }

func (failing) Transmit([]pmd.Desc) int { return 0 }

// TestCaptureOfADriverThatRefuses checks that the frame is received and forwarded, and dropped at
// its egress port.
func TestCaptureOfADriverThatRefuses(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	taps := r.tap(r.everything())
	w := r.s.Workers[0]
	driver := w.ports[1].driver
	w.ports[1].driver = failing{driver}
	r.send(0, data(0, 1, 5, 200, 7))
	for range 50 {
		r.now += 100
		for _, wire := range r.wires {
			wire.Advance(r.now)
		}
		w.Step(r.now)
	}
	w.ports[1].driver = driver
	want := []string{"0 rx forwarded cos 5 queue 5 other 1", "1 tx dropped refused_by_driver cos 5 queue 5 other 0"}
	if got := says(drain(taps)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCaptureOfEgressDrops checks that frames dropped at a full queue, or at a port that is down,
// are drops of the egress port.
func TestCaptureOfEgressDrops(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) { p.Ports[1].Cells.Queues[2] = cells.QueueParams{Limit: 1} })
	r.introduce()
	p := r.everything()
	p.DropsOnly = true
	taps := r.tap(p)
	for i := range 5 {
		r.send(0, data(0, 1, 2, 60, i))
	}
	r.wires[0].Advance(r.now + 1e6)
	r.now += 1e6
	r.run(100)
	r.control(1, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 60000}})
	r.run(2000)
	r.send(0, data(0, 1, lossless, 60, 9)) // has to wait
	r.run(2000)
	r.down(1)
	full, down := 0, 0
	for _, c := range drain(taps) {
		switch c.say() {
		case "1 tx dropped queue_full cos 2 queue 2 other 0":
			full++
		case "1 tx dropped port_down cos 3 queue 3 other 0":
			down++
		default:
			t.Errorf("%s", c.say())
		}
	}
	n := r.port(1).Drops
	if uint64(full) != n[drop.QueueFull][2] || full == 0 || uint64(down) != n[drop.PortDown][lossless] || down == 0 {
		t.Errorf("captured %d for a full queue and %d for a port that is down; counted %d and %d", full, down,
			n[drop.QueueFull][2], n[drop.PortDown][lossless])
	}
}

// TestCaptureOfOurOwnPFC checks that the switch's own PFC frames are captured as sent.
func TestCaptureOfOurOwnPFC(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	taps := r.tap(r.everything())
	r.control(1, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 1000}})
	r.run(2000)
	for i := range 14 {
		r.send(0, data(0, 1, lossless, 160, i))
	}
	r.run(10_000)
	n := 0
	for _, c := range drain(taps) {
		if c.say() == "0 tx originated pfc" {
			n++
		}
	}
	if sent := r.port(0).PFCSent.Frames; uint64(n) != sent || n == 0 {
		t.Errorf("%d PFC frames captured, %d sent", n, sent)
	}
}

// TestCaptureCountsAFrameOnce checks that a frame which found no room in the capture, and then none
// in its group, counts once as missing. A refused copy of a flooded frame counts separately.
func TestCaptureCountsAFrameOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		to   int
		seen uint64 // per frame; all its copies are dropped
	}{{"forwarded", 1, 1}, {"flooded", 9, 1 + 2}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 3, 1, func(p *Params) {
				p.Ports[0].Cells.Groups[1] = cells.GroupParams{}
				for i := range p.Ports {
					p.Ports[i].Cells.Queues[1].Limit = 1000
				}
			})
			r.introduce()
			p := r.everything()
			p.Ports[1], p.Ports[2] = 0, 0
			taps := r.tap(p)
			const frames, length = 40, 500
			before := r.port(0).Drops[drop.IngressFull][1]
			for i := range frames {
				r.send(0, data(0, c.to, 1, length, i))
			}
			r.wires[0].Advance(r.now + 1e6) // all of them have arrived
			r.now += 1e6
			taps[0].Budget, taps[0].Last = 10*(length+tap.Overhead), r.now
			r.run(100)
			r.untap()
			if n := r.port(0).Drops[drop.IngressFull][1] - before; n != frames*max(1, c.seen-1) {
				t.Fatalf("%d frames dropped: the test tests nothing", n)
			}
			if n := taps[0].CountOf(0); n.Seen != frames*c.seen || n.Seen-n.Beyond != 10 || len(drain(taps)) != 10 {
				t.Errorf("%+v, want %d seen and 10 kept", n, frames*c.seen)
			}
		})
	}
}

// TestCaptureForgetsBurstsLongPast checks that when the burst numbers start over, a frame is not
// mistaken for one that had its buffer in an earlier burst of the same number.
func TestCaptureForgetsBurstsLongPast(t *testing.T) {
	r := newRig(t, 2, 1, shortFrames)
	r.introduce()
	taps := r.tap(r.everything())
	for id := range taps[0].of {
		taps[0].of[id] = tapPlaces // the first record of the first burst
	}
	taps[0].burst = 1<<32 - tapPlaces
	r.send(0, data(0, 1, 5, 200, 7))
	r.run(10_000)
	r.send(0, make([]byte, 13))
	r.run(10_000)
	want := []string{"0 rx forwarded cos 5 queue 5 other 1", "1 tx forwarded cos 5 queue 5 other 0",
		"0 rx dropped runt cos 0"}
	if got := says(drain(taps)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// replace removes a port and gives its number to another one.
func (r *rig) replace(number int, name string) {
	r.relink(number, Link{}, 1000)
	r.relink(number, Link{Closed: true}, 1000)
	r.regenerate(func(p *Params) {
		p.Ports[number], p.Bridge.Ports[number] = PortParams{Vacant: true},
			bridge.PortParams{VLANs: new(bridge.VLANSet), Peer: -1}
	})
	r.run(1000)
	r.regenerate(func(p *Params) {
		p.Ports[number], p.Bridge.Ports[number] = testPort(number, 0), bridge.PortParams{}
		p.Ports[number].Name = name
	})
	r.run(1000)
	r.wires[number], r.sent[number] = r.newWire(number), 0
	r.wires[number].A.Fill(r.s.Parked(number))
	r.relink(number, Link{Driver: r.wires[number].A, Up: true, TXRing: ringSize}, 1000)
}

// TestCaptureOfANumberThatPassesOn checks that a capture selects ports, not numbers. Another port
// that gets the number is not captured, and records of frames to it or from it have its own name.
// When the captured port comes back, under any number, it is captured again.
func TestCaptureOfANumberThatPassesOn(t *testing.T) {
	r := newRig(t, 3, 1, nil)
	r.introduce()
	taps := r.tap(r.everything())
	exchange := func() (named []string) {
		r.introduce()
		drain(taps)
		r.send(2, data(2, 1, 5, 200, 7))
		r.run(10_000)
		r.send(1, data(1, 2, 4, 200, 7))
		r.run(10_000)
		for _, c := range drain(taps) {
			named = append(named, fmt.Sprintf("%s %v %s", r.s.PortName(c.Port), c.Direction, r.s.PortName(c.Other)))
		}
		return named
	}
	for _, c := range []struct {
		change func()
		want   []string
	}{
		{func() {}, []string{"c rx b", "b tx c", "b rx c", "c tx b"}},
		{func() { r.replace(2, "other") }, []string{"b tx other", "b rx other"}},
		{func() { r.replace(0, "c") }, []string{"b tx other", "b rx other"}},
		{func() { r.replace(2, "a") }, []string{"a rx b", "b tx a", "b rx a", "a tx b"}},
		{func() { r.replace(0, "other"); r.replace(2, "c") }, []string{"c rx b", "b tx c", "b rx c", "c tx b"}},
	} {
		c.change()
		if got := exchange(); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if err := r.s.Check(); err != nil {
		t.Error(err)
	}
}
