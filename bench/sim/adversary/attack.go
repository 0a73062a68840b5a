// Package adversary attacks a whole switch in virtual time. Real workers forward between link
// partners that keep to the standard and otherwise do their worst.
//
// It draws a configuration that the switch accepts. Within the assumptions of docs/lossless.md it
// then draws how the response time is divided between the worker's loop and its peers, and what a
// frame costs the worker. The adversary chooses who sends which frames and when, their sizes, who
// pauses the switch and for how long, where the worker is interrupted, and when links flap and
// parameters change. Whatever it does, no frame of a lossless class may be lost, by the accounting
// or in a driver.
package adversary

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"sluice/pfc"
)

// Attack is one seed's attack on one switch.
type Attack struct {
	Seed uint64
	Less int    // number of longest frames by which the headroom of every group is smaller than computed
	Omit Tricks // tricks that the adversary does not use
	// Jumbo draws an MTU above what a buffer holds, so that frames have up to six parts.
	Jumbo bool
}

// Tricks is a set of tricks of the adversary.
type Tricks uint16

// The adversary's tricks.
const (
	Interruptions Tricks = 1 << iota // of the worker: between iterations, before receiving, and before sending
	Cost                             // frames take the worker time
	Ambush                           // the worst known attack, step by step
	Toggling                         // congestion alternates as the switch stops and resumes a peer
	Pauses                           // peers stop the switch
	Reloads
	Flaps
	Lossy               // frames of lossy classes as well
	Injection           // of frames of the switch's control plane
	Surprises           // reloads at the worst moment
	Downs               // the switch holds a port down whose peer sends on
	Moves               // hosts move to other ports
	Replacements        // ports lose their drivers and get new ones
	AllTricks    Tricks = 1<<iota - 1
)

var trickNames = []string{"interruptions", "cost", "ambush", "toggling", "pauses", "reloads", "flaps", "lossy",
	"injection", "surprises", "downs",
	"moves", "replacements"}

// Names returns the names of the tricks.
func (t Tricks) Names() (names []string) {
	for i, name := range trickNames {
		if t>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// ParseTricks returns the tricks with the given names.
func ParseTricks(names []string) (t Tricks, err error) {
	for _, name := range names {
		at := slices.Index(trickNames, name)
		if at < 0 {
			return 0, fmt.Errorf("unknown trick %q: choose from %s", name, strings.Join(trickNames, ", "))
		}
		t |= 1 << at
	}
	return t, nil
}

// Result is the result of an attack.
type Result struct {
	Frames        uint64 `json:"frames"`         // sent by the peers
	Lossless      uint64 `json:"lossless"`       // of these, data frames of priorities that are lossless where they came in
	XOFF          uint64 `json:"xoff"`           // sent by the switch
	Behind        uint64 `json:"behind"`         // iterations that left frames in a ring and stopped their sender
	LosslessDrops uint64 `json:"lossless_drops"` // by the accounting
	DriverLosses  uint64 `json:"driver_losses"`  // lossless frames lost in a driver without a buffer for them
	Late          uint64 `json:"late"`           // frames that a peer received after it had stopped their priority
	Misdirected   uint64 `json:"misdirected"`    // frames at a port other than that of their known destination
	Duplicated    uint64 `json:"duplicated"`     // frames that arrived twice at a port
	Reordered     uint64 `json:"reordered"`      // behind a later one of the same source, destination and class
	Corrupted     uint64 `json:"corrupted"`      // with other bytes, or another tag, than they must have
	Uncounted     uint64 `json:"uncounted"`      // losses that no counter shows
	// switches with a worker that left frames in a ring for longer than assumed
	Slow   uint64 `json:"slow"`
	config string
}

// Lost reports whether the switch has broken its promise.
func (r *Result) Lost() bool {
	return r.LosslessDrops+r.DriverLosses+r.Late+r.Slow+r.Misdirected+r.Duplicated+r.Reordered+r.Corrupted+
		r.Uncounted > 0
}

func (r *Result) add(o *Result) {
	r.Frames, r.Lossless, r.XOFF, r.Behind = r.Frames+o.Frames, r.Lossless+o.Lossless, r.XOFF+o.XOFF, r.Behind+o.Behind
	r.LosslessDrops, r.DriverLosses = r.LosslessDrops+o.LosslessDrops, r.DriverLosses+o.DriverLosses
	r.Late, r.Slow = r.Late+o.Late, r.Slow+o.Slow
	r.Misdirected, r.Duplicated = r.Misdirected+o.Misdirected, r.Duplicated+o.Duplicated
	r.Reordered, r.Corrupted = r.Reordered+o.Reordered, r.Corrupted+o.Corrupted
	r.Uncounted += o.Uncounted
}

// framesPerAttack is the approximate number of frames in the random part of an attack.
const framesPerAttack = 6_000

// Run attacks. It fails if the switch's accounts do not add up afterwards, or if frames stay in the
// switch for ever.
func (a Attack) Run() (Result, error) {
	rng := rand.New(rand.NewPCG(a.Seed, 0))
	d, err := draw(rng, a)
	if err != nil {
		return Result{}, err
	}
	defer d.memory.Close()
	w, err := newWorld(d, rng)
	if err != nil {
		return Result{}, fmt.Errorf("sim: seed %d: %w", a.Seed, err)
	}
	defer w.close()
	if err := w.attack(a); err != nil {
		return Result{}, fmt.Errorf("sim: seed %d: %w\n%s", a.Seed, err, w.base.text())
	}
	w.conclude()
	return w.found, nil
}

// attack is the whole attack on a switch, until it holds no frame any more.
func (w *world) attack(a Attack) error {
	if !a.omits(Ambush) {
		w.ambush()
	}
	if len(w.peers) > 2 && !a.omits(Surprises) {
		w.surprise()
	}
	if err := w.play(a); err != nil {
		return err
	}
	return w.settle()
}

func (a Attack) omits(t Tricks) bool { return a.Omit&t != 0 }

// play is the random part of an attack. It consists of phases in which the peers behave
// differently.
func (w *world) play(a Attack) error {
	var rate float64 // frames a ns, about
	for _, p := range w.peers {
		rate += float64(p.speed) / 8e9 / 400
	}
	w.duration = int64(framesPerAttack / rate)
	if cost := w.rng.IntN(2) == 0; cost && !a.omits(Cost) {
		w.cost = w.rng.Int64N(1 + w.gap/int64(12*w.params.Budget))
	}
	for _, l := range w.loops {
		if idle := pick(w.rng, 0, .001, .02, .3, 1); !a.omits(Interruptions) {
			l.idle = idle
		}
		if injects := pick(w.rng, 0, .01, .3, 1); !a.omits(Injection) {
			l.injects = injects
		}
	}
	for end := w.now + w.duration; w.now < end; {
		w.phase(a)
		w.run(1 + int64(between(w.rng, float64(w.duration)/100, float64(w.duration)/2)))
		if w.rng.IntN(6) == 0 && !a.omits(Reloads) {
			w.reload()
		}
		if w.rng.IntN(6) == 0 && !a.omits(Flaps) {
			w.flap(w.rng.IntN(len(w.peers)))
		}
		if w.rng.IntN(6) == 0 && !a.omits(Downs) {
			w.holdDown(w.rng.IntN(len(w.peers)))
		}
		if w.rng.IntN(6) == 0 && !w.settings.static && !a.omits(Moves) {
			at := w.rng.Perm(len(w.peers))
			w.swap(w.peers[at[0]], w.peers[at[1]])
		}
		if w.rng.IntN(8) == 0 && !a.omits(Replacements) {
			if err := w.replace(w.rng.IntN(len(w.peers))); err != nil {
				return err
			}
		}
	}
	for _, l := range w.loops {
		l.idle, l.injects = 0, 0
	}
	w.cost = 0
	return nil
}

// phase draws the behaviour of each peer.
func (w *world) phase(a Attack) {
	target := w.rng.IntN(len(w.peers))
	for _, p := range w.peers {
		p.traffic = w.drawTraffic(a, p.port, target)
		stop, quanta := uint8(w.rng.IntN(256)), pick(w.rng, 0, 0, uint16(1+w.rng.IntN(2000)), 65535)
		if w.rng.IntN(3) == 0 && !a.omits(Pauses) {
			p.say(stop, quanta)
		}
	}
	if w.rng.IntN(2) == 0 && !a.omits(Toggling) {
		w.toggle(w.peers[target], w.peers[(target+1+w.rng.IntN(len(w.peers)-1))%len(w.peers)])
	}
}

// toggle has a peer send a lossless class to a target. As soon as the switch puts an XOFF to the
// sender into its TX ring, the target resumes the class, and as soon as the switch puts an XON
// there, the target stops it again. All other peers overload that TX ring with other frames. So
// XOFF and XON follow each other while the first of them is still in the ring.
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
			quanta := uint16(0)
			if f.Quanta[q] == 0 {
				quanta = 65535
			}
			target.say(1<<q, quanta)
		}
	}
}

// anyOf draws a priority from a set.
func (w *world) anyOf(set uint8) uint8 {
	n := w.rng.IntN(bits.OnesCount8(set))
	for ; n > 0; n-- {
		set &= set - 1
	}
	return uint8(bits.TrailingZeros8(set))
}

// drawTraffic draws a peer's traffic. Most peers send to one target, so that it is congested.
func (w *world) drawTraffic(a Attack, port, target int) traffic {
	t := traffic{size: size(w.rng.IntN(int(sizes))), left: -1}
	if w.rng.IntN(2) == 0 {
		t.share = w.rng.Float64()
	}
	for n, lossless := uint8(0), w.config.Ports[port].PFC; n < 8; n++ {
		if at := w.rng.IntN(6); lossless>>n&1 == 1 && at > 1 || lossless>>n&1 == 0 && at == 0 && !a.omits(Lossy) {
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

// settle stops the peers' traffic and pauses, and waits until no frame is in flight.
func (w *world) settle() error {
	for _, p := range w.peers {
		p.traffic, p.outbox = traffic{}, nil
		p.say(0xff, 0)
	}
	for range 10_000 {
		w.run(100_000)
		if w.idle() {
			return w.s.Check()
		}
	}
	return errors.New("switch and wires still hold frames after a second")
}

// idle reports whether the switch and the wires hold no frame.
func (w *world) idle() bool {
	for _, l := range w.loops {
		if l.worker.Look(w.now).CellsInUse > 0 {
			return false
		}
	}
	for i, p := range w.s.Ports(w.now) {
		if p.Buffers.Sending > 0 || p.Up && !p.Reads || w.peers[i].wire.InFlight() > 0 {
			return false
		}
	}
	return true
}

// conclude completes what the peers have found.
func (w *world) conclude() {
	r := &w.found
	r.config = w.base.text()
	if w.slow > w.gap {
		r.Slow = 1
	}
	for i, p := range w.s.Ports(w.now) {
		r.Behind += p.Behind
		if p.Behind == 0 { // else a PFC frame of the peer may have waited behind the rest of an overload
			r.Late += w.peers[i].late
		}
		for _, n := range p.PFCSent.XOFF {
			r.XOFF += n
		}
	}
	w.sum()
}
