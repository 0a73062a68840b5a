// Package adversary has the adversary of the whole switch: the workers that forward, between link
// partners that keep to the standard and do their worst otherwise. All time is virtual.
//
// It draws a configuration that the switch accepts, and then what docs/lossless.md assumes: how the
// response is divided between the worker's loop and its peers, and what a frame costs the worker.
// The adversary chooses who sends what and when, in which sizes, who stops the switch and for how
// long, where the worker is interrupted, when links flap and parameters change. What must come of
// it is one thing: no frame of a lossless class is lost, by the accounts or in a driver.
package adversary

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"sluice/cells"
	"sluice/internal/dataplane"
	"sluice/pfc"
)

// Attack is what one seed brings upon one switch.
type Attack struct {
	Seed uint64
	Less int    // by how many of the longest frames the headroom of every group is smaller than computed
	Omit Tricks // that the adversary does without
}

// Tricks are what an adversary may do, as bits.
type Tricks uint16

// The tricks.
const (
	Interruptions Tricks = 1 << iota // of the worker: between iterations, before it receives, and before it sends
	Cost                             // frames take the worker time
	Ambush                           // the worst that is known, step by step
	Toggling                         // congestion comes and goes as the switch stops and resumes a peer
	Pauses                           // peers stop the switch
	Reloads
	Flaps
	Lossy            // frames of lossy classes beside
	AllTricks Tricks = 1<<iota - 1
)

var trickNames = []string{"interruptions", "cost", "ambush", "toggling", "pauses", "reloads", "flaps", "lossy"}

// Names returns the names of the tricks.
func (t Tricks) Names() (names []string) {
	for i, name := range trickNames {
		if t>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// ParseTricks returns the tricks of these names.
func ParseTricks(names []string) (t Tricks, err error) {
	for _, name := range names {
		at := slices.Index(trickNames, name)
		if at < 0 {
			return 0, fmt.Errorf("unknown trick %q: choose of %s", name, strings.Join(trickNames, ", "))
		}
		t |= 1 << at
	}
	return t, nil
}

// Result is what an attack did.
type Result struct {
	Frames        uint64 `json:"frames"`         // that the peers sent
	Lossless      uint64 `json:"lossless"`       // of these, data frames of lossless priorities
	XOFF          uint64 `json:"xoff"`           // that the switch sent
	Behind        uint64 `json:"behind"`         // iterations that left frames in a ring and stopped their sender
	LosslessDrops uint64 `json:"lossless_drops"` // by the accounts
	DriverLosses  uint64 `json:"driver_losses"`  // of lossless frames, in a driver that had no buffer for them
	Late          uint64 `json:"late"`           // frames that a peer got after it had stopped their priority
	// switches of which a worker left frames in a ring for longer than assumed
	Slow   uint64 `json:"slow"`
	config string
}

// Lost tells whether the switch has broken its promise.
func (r *Result) Lost() bool { return r.LosslessDrops+r.DriverLosses+r.Late+r.Slow > 0 }

func (r *Result) add(o *Result) {
	r.Frames, r.Lossless, r.XOFF, r.Behind = r.Frames+o.Frames, r.Lossless+o.Lossless, r.XOFF+o.XOFF, r.Behind+o.Behind
	r.LosslessDrops, r.DriverLosses = r.LosslessDrops+o.LosslessDrops, r.DriverLosses+o.DriverLosses
	r.Late, r.Slow = r.Late+o.Late, r.Slow+o.Slow
}

// framesPerAttack is about how many frames the peers send in the random part of an attack.
const framesPerAttack = 6_000

// Run attacks. It fails when the switch's accounts do not add up afterwards, or frames are neither
// sent nor dropped for ever.
func (a Attack) Run() (Result, error) {
	rng := rand.New(rand.NewPCG(a.Seed, 0))
	d, err := draw(rng)
	if err != nil {
		return Result{}, err
	}
	defer d.memory.Close()
	a.lower(d)
	w, err := newWorld(d, rng)
	if err != nil {
		return Result{}, fmt.Errorf("sim: seed %d: %w", a.Seed, err)
	}
	defer w.close()
	if !a.omits(Ambush) {
		w.ambush()
	}
	w.play(a)
	if err := w.settle(); err != nil {
		return Result{}, fmt.Errorf("sim: seed %d: %w\n%s", a.Seed, err, d.text)
	}
	return w.result(), nil
}

func (a Attack) omits(t Tricks) bool { return a.Omit&t != 0 }

// lower takes so many of the longest frames off the headroom of each group.
func (a Attack) lower(d *drawn) {
	for i := range d.params.Ports {
		p := &d.params.Ports[i]
		less := a.Less * ((p.MaxLossless + d.params.CellSize - 1) / d.params.CellSize)
		for n := range cells.Priorities {
			if g := &p.Cells.Groups[n]; g.Lossless {
				kept := max(1, g.Headroom-less)
				d.params.Accounts[p.Worker].Pools[g.Pool].Headroom -= g.Headroom - kept
				g.Headroom = kept
			}
		}
	}
}

// play is the random part of an attack: phase after phase, in each of which the peers do something
// else.
func (w *world) play(a Attack) {
	var rate float64 // frames a ns, about
	for _, p := range w.peers {
		rate += float64(p.speed) / 8e9 / 400
	}
	duration := int64(framesPerAttack / rate)
	if cost := w.rng.IntN(2) == 0; cost && !a.omits(Cost) {
		w.cost = w.rng.Int64N(1 + w.gap/int64(12*w.params.Budget))
	}
	for _, l := range w.loops {
		if idle := pick(w.rng, 0, .001, .02, .3, 1); !a.omits(Interruptions) {
			l.idle = idle
		}
	}
	for end := w.now + duration; w.now < end; {
		w.phase(a)
		w.run(1 + int64(between(w.rng, float64(duration)/100, float64(duration)/2)))
		if w.rng.IntN(6) == 0 && !a.omits(Reloads) {
			w.Reload()
		}
		if w.rng.IntN(6) == 0 && !a.omits(Flaps) {
			w.flap(w.rng.IntN(len(w.peers)))
		}
	}
	for _, l := range w.loops {
		l.idle = 0
	}
	w.cost = 0
}

// phase draws what each peer does next.
func (w *world) phase(a Attack) {
	target := w.rng.IntN(len(w.peers))
	for _, p := range w.peers {
		p.traffic = w.drawTraffic(a, p.port, target)
		p.onPause = nil
		stop, quanta := uint8(w.rng.IntN(256)), pick(w.rng, 0, 0, uint16(1+w.rng.IntN(2000)), 65535)
		if w.rng.IntN(3) == 0 && !a.omits(Pauses) {
			p.say(stop, quanta)
		}
	}
	if w.rng.IntN(2) == 0 && !a.omits(Toggling) {
		w.toggle(w.peers[target], w.peers[(target+1+w.rng.IntN(len(w.peers)-1))%len(w.peers)])
	}
}

// toggle has a peer send a lossless class to a target, which takes it as soon as the switch has put
// an XOFF for it into its TX ring, and no more as soon as that has put an XON there. All others
// overload that ring with other frames. So the frames that stop and resume the peer follow each
// other while the first of them is still in the ring.
func (w *world) toggle(target, stopped *peer) {
	q := w.anyOf(w.lossless)
	others := w.lossless &^ (1 << q)
	if w.lossless != 0xff {
		others = ^w.lossless
	}
	for _, p := range w.peers {
		p.traffic = traffic{priorities: []uint8{q}, to: []int{stopped.port}, size: shortestFrames, left: -1}
		if others != 0 {
			p.priorities[0] = w.anyOf(others)
		}
	}
	stopped.traffic = traffic{priorities: []uint8{q}, to: []int{target.port}, size: densestFrames, left: -1}
	target.say(1<<q, 65535)
	stopped.onPause = func(f pfc.Frame) {
		if f.Enable>>q&1 == 1 && len(target.outbox) < 4 {
			target.say(1<<q, ^f.Quanta[q])
		}
	}
}

// anyOf draws one of a set of priorities.
func (w *world) anyOf(set uint8) uint8 {
	n := w.rng.IntN(bits.OnesCount8(set))
	for ; n > 0; n-- {
		set &= set - 1
	}
	return uint8(bits.TrailingZeros8(set))
}

// drawTraffic draws what a peer sends. Most send to one target, so that it is congested.
func (w *world) drawTraffic(a Attack, port, target int) traffic {
	t := traffic{size: size(w.rng.IntN(int(sizes))), left: -1}
	if w.rng.IntN(2) == 0 {
		t.share = w.rng.Float64()
	}
	for n := range uint8(8) {
		if at := w.rng.IntN(6); w.lossless>>n&1 == 1 && at > 1 || w.lossless>>n&1 == 0 && at == 0 && !a.omits(Lossy) {
			t.priorities = append(t.priorities, n)
		}
	}
	w.rng.Shuffle(len(t.priorities), func(i, j int) {
		t.priorities[i], t.priorities[j] = t.priorities[j],
			t.priorities[i]
	})
	for range 1 + w.rng.IntN(3) {
		to := target
		if to == port || w.rng.IntN(4) == 0 {
			to = (port + 1 + w.rng.IntN(len(w.peers)-1)) % len(w.peers)
		}
		t.to = append(t.to, to)
	}
	return t
}

// Reload changes what may change without loss: shares, marks, limits of queues.
func (w *world) Reload() {
	p := w.params
	p.Ports = append([]dataplane.PortParams(nil), p.Ports...)
	for i := range p.Ports {
		for n := range cells.Priorities {
			g := &p.Ports[i].Cells.Groups[n]
			if g.Share > 2*g.XON+100 && w.rng.IntN(2) == 0 {
				g.Share -= w.rng.IntN(g.Share / 4)
			}
			g.XON = min(g.XON, g.Share)
		}
	}
	g, err := w.s.Prepare(p)
	if err != nil {
		return // too small for a frame of a class: as a reload would say
	}
	w.publish(g)
	w.run(2*w.gap + 10_000) // until all workers have changed over
}

// flap pulls a port's cable and plugs it in again. Its peer begins anew when the switch knows and
// has told it what it must.
func (w *world) flap(port int) {
	p := w.peers[port]
	kept, onPause := p.traffic, p.onPause
	p.traffic, p.onPause, p.down = traffic{}, nil, true
	p.reset()
	w.run(w.rng.Int64N(20_000))
	w.plan.Links[port].Up = false
	w.publish(nil)
	w.run(2*w.gap + w.rng.Int64N(20_000))
	p.down = false
	w.plan.Links[port].Up = true
	w.publish(nil)
	w.run(2*w.gap + w.Silence(port) + w.reaction[port])
	p.traffic, p.onPause = kept, onPause
}

// settle has the peers send no more and take everything, and waits until nothing is under way.
func (w *world) settle() error {
	for _, p := range w.peers {
		p.traffic, p.onPause, p.outbox = traffic{}, nil, nil
		p.say(0xff, 0)
	}
	for range 10_000 {
		w.run(100_000)
		if w.idle() {
			return w.s.Check()
		}
	}
	return errors.New("frames are still held when a second has passed")
}

// idle tells whether the switch holds no frame.
func (w *world) idle() bool {
	for _, l := range w.loops {
		s := l.worker.Look(w.now)
		if s.CellsInUse > 0 {
			return false
		}
		for i := range s.Ports {
			if s.Ports[i].Buffers.Sending > 0 {
				return false
			}
		}
	}
	for _, p := range w.peers {
		if p.wire.InFlight() > 0 {
			return false
		}
	}
	return true
}

func (w *world) result() Result {
	r := Result{Frames: w.frames, config: w.text}
	if w.slow > w.gap {
		r.Slow = 1
	}
	for _, l := range w.loops {
		s := l.worker.Look(w.now)
		for i := range s.Ports {
			p := &s.Ports[i]
			r.LosslessDrops += p.LosslessDrops()
			r.Behind += p.Behind
			if p.Behind == 0 { // else a PFC frame of the peer's may have waited behind what an overload has left
				r.Late += w.peers[p.Number].late
			}
			for _, n := range p.PFCSent.XOFF {
				r.XOFF += n
			}
		}
	}
	for _, p := range w.peers {
		losses := uint64(0)
		for n := range 8 {
			if w.lossless>>n&1 == 1 {
				r.Lossless += p.sent[n]
				losses += p.sent[n] - p.lost[n] - p.rx[n]
			}
		}
		r.DriverLosses += losses
	}
	return r
}
