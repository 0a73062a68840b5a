package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"sluice/cells"
	"sluice/cells/headroom"
	"sluice/internal/frame"
	"sluice/pfc"
)

// LinkAttack is the worst that a link partner can do to the headroom of a lossless priority group
// while keeping to the standard. It runs on one link, in virtual time that is exact to the
// femtosecond. The accounting, the PFC engines and the PFC frame are the real ones; the wire and
// the link partner's malice are simulated. Package adversary attacks a whole switch.
//
// The sender S has filled the group of the receiver R to its limit. Now a frame of maximum length
// crosses the limit. At that instant R has just begun to send a longest frame of its own, and the
// pause must wait for its end. S sends without a gap until the pause has reached it and its
// response time is over. S knows in advance when that will be.
//
// If both ends are software, the worst case is worse. The frame crosses the limit just after R has
// polled its ports, so R notices a gap later. R has just filled its TX ring, so the pause waits for
// the whole ring: shortest frames, followed by one longest frame. The pause reaches S just after S
// has polled, and when S finally sees it, S still sends the contents of its own TX ring. Both fill
// their rings as the dataplane does: a frame is sent while any budget is left, so the last frame
// exceeds the budget.
//
// The wire is that of pmd/mem: a frame of n bytes, FCS included, takes a slot of n+20 byte times.
// It arrives one propagation delay, transceivers included, after the end of its slot.
type LinkAttack struct {
	Link     headroom.Params // SONiC is not used; ResponseBits must be given
	Headroom int             // cells
	Limit    int             // cells that the group may hold before it uses headroom, ≥ 1
	Sizes    Sizes
	Seed     uint64 // for Mixed
}

// Sizes is how the sender of a LinkAttack chooses frame lengths.
type Sizes uint8

const (
	// Worst is the length that fills the most cells in a given time, or in a given TX ring,
	// followed by one frame of maximum length at the very end.
	Worst Sizes = iota
	// Mixed is random lengths.
	Mixed
	// Longest is the maximum length only.
	Longest
)

// Damage is the result of a LinkAttack.
type Damage struct {
	Used    int // headroom cells in use when everything had arrived
	Frames  int // frames that arrived after the group was full, those dropped included
	Dropped int // frames dropped because the headroom was full
}

const (
	attacked = 3 // priority
	// overhead of a slot beyond its frame, bytes: preamble, delimiter and gap
	slotOverhead = frame.WireOverhead - frame.FCS
	shortest     = 64  // bytes, FCS included
	fsPerNS      = 1e6 // femtoseconds; at 400 Gbit/s a bit takes 2500
)

// attackedLink is the state of a LinkAttack. Times are in fs since S began to send the frame that
// crosses the limit.
type attackedLink struct {
	LinkAttack
	rng         *rand.Rand
	worst       int   // frame length on the wire
	worstInRing int   // frame length in the TX ring of S
	byteTime    int64 // fs
	oneWay      int64 // fs from the end of a slot to the arrival
	ahead       int64 // fs for which the contents of R's TX ring delay the pause
	response    int64 // fs from the arrival of a pause to its effect

	// Sender
	receiver *pfc.Receiver
	sendAt   int64    // when the line is free for the next frame; never: S has stopped
	budget   int      // bytes without FCS: S fills its TX ring, or did before it stopped, while this is above 0
	sent     []uint16 // lengths of all frames

	// Return path
	pauses  []flyingPause // PFC frames
	honours int           // how many of pauses, from the first on, have taken effect

	// Receiver
	accounts  *cells.Manager
	generator *pfc.Generator
	lookAt    int64 // when R polls next and sees what has arrived; never: nothing is new
	arriveAt  int64 // when the frame with index arrived reaches R
	arrived   int
	damage    Damage
}

// flyingPause is a PFC frame and the time when it takes effect.
type flyingPause struct {
	at    int64
	bytes [pfc.FrameLength]byte
}

const never = math.MaxInt64

// Run attacks until S has stopped and all its frames have arrived.
func (a LinkAttack) Run() (Damage, error) {
	x, err := a.prepare()
	if err != nil {
		return Damage{}, fmt.Errorf("bench: attack: %w", err)
	}
	for x.sendAt != never || x.arrived < len(x.sent) {
		honourAt := x.honourAt()
		now := min(honourAt, x.sendAt, x.lookAt, x.arriveAt)
		if x.honours > 0 && x.receiver.Paused(now/fsPerNS) == 0 {
			return x.damage, errors.New("bench: attack: a pause expired before it was repeated")
		}
		switch now {
		case honourAt: // before a frame that could begin at the same time: S must stop
			x.honour()
		case x.sendAt:
			x.send()
		case x.lookAt: // before a frame that arrives at the same time: that frame waits for the next poll
			x.look()
		default:
			x.arrive()
		}
	}
	x.damage.Used = x.accounts.Group(0, attacked).Headroom
	return x.damage, x.accounts.Check()
}

func (a LinkAttack) prepare() (*attackedLink, error) {
	l := a.Link
	switch _, known := fsPerMillimetre[l.Medium]; {
	case !known:
		return nil, fmt.Errorf("unknown medium %q: choose one of %v", l.Medium, headroom.Media())
	case l.Speed == 0 || 1e15%l.Speed != 0:
		return nil, fmt.Errorf("speed %d bit/s: a bit must take a whole number of femtoseconds", l.Speed)
	case l.ResponseBits <= 0:
		return nil, fmt.Errorf("response %d bits: must be above 0", l.ResponseBits)
	case min(l.MTUOwn, l.MTUPeer) < shortest || max(l.MTUOwn, l.MTUPeer) > math.MaxUint16:
		return nil, fmt.Errorf("MTU %d and %d bytes: must be %d to %d", l.MTUOwn, l.MTUPeer, shortest, math.MaxUint16)
	case min(l.OwnGap, l.PeerGap) < 0 || min(l.OwnInFlight, l.PeerInFlight) < 0:
		return nil, fmt.Errorf("gaps of %d and %d ns, %d and %d bytes in flight: must not be negative",
			l.OwnGap, l.PeerGap, l.OwnInFlight, l.PeerInFlight)
	}
	bitTime := int64(1e15 / l.Speed)
	x := &attackedLink{
		LinkAttack: a, rng: rand.New(rand.NewPCG(a.Seed, 0)),
		worst: WorstFrame(l, slotOverhead), worstInRing: WorstFrame(l, -frame.FCS),
		byteTime: 8 * bitTime, response: l.PeerGap*fsPerNS + int64(l.ResponseBits)*bitTime,
		oneWay: Propagation(l.Medium, l.Metres) + l.Transceivers*fsPerNS,
		lookAt: never, budget: l.PeerInFlight,
	}
	x.ahead = int64(ringSlots(l.OwnInFlight, l.MTUOwn))*x.byteTime + int64(l.OwnControl)*x.slot(shortest)
	x.arriveAt = x.slot(l.MTUPeer) + x.oneWay
	var err error
	if x.receiver, err = pfc.NewReceiver(pfc.ReceiverParams{Priorities: 1 << attacked, Speed: l.Speed}); err != nil {
		return nil, err
	}
	x.generator, err = pfc.NewGenerator(pfc.GeneratorParams{Priorities: 1 << attacked, Quanta: 65535, Speed: l.Speed})
	if err != nil {
		return nil, err
	}
	return x, x.fill()
}

// fill builds the accounts and fills the group to its limit, half of it reserved.
func (x *attackedLink) fill() (err error) {
	p := cells.Params{CellSize: x.Link.Cell, Cells: x.Limit + x.Headroom, Ports: make([]cells.PortParams, 1)}
	p.Ports[0].Groups[attacked] = cells.GroupParams{
		Lossless: true, Reserved: x.Limit / 2, Share: x.Limit - x.Limit/2, Headroom: x.Headroom,
	}
	if x.accounts, err = cells.NewManager(p); err != nil {
		return err
	}
	for range x.Limit {
		n := x.accounts.Cells(shortest - x.Link.Unstored)
		if why := x.accounts.Admit(0, attacked, n); n != 1 || why != cells.Admitted || x.accounts.Congested(0) != 0 {
			return fmt.Errorf("a group of %d cells of %d bytes can't be filled with the shortest frames", x.Limit,
				x.Link.Cell)
		}
	}
	return nil
}

func (x *attackedLink) slot(length int) int64 { return int64(length+slotOverhead) * x.byteTime }

// ringSlots returns the longest time, in byte times, that a TX ring can take to drain if all frames
// but the last have less than budget bytes together, FCS excluded. That means as many shortest
// frames as possible and a longest frame at the end. The rest of the budget lengthens the short
// frames.
func ringSlots(budget, longest int) int {
	const stored = shortest - frame.FCS
	n := max(0, budget-1) / stored
	rest := min(max(0, budget-1)%stored, n*(longest-shortest))
	return n*(shortest+slotOverhead) + rest + longest + slotOverhead
}

// send puts the next frame on the wire, or stops S for good.
func (x *attackedLink) send() {
	if x.honours > 0 && x.budget <= 0 {
		x.sendAt = never
		return
	}
	length := x.nextLength()
	if x.honours > 0 {
		x.budget -= length - frame.FCS
	}
	x.sent = append(x.sent, uint16(length))
	x.sendAt += x.slot(length)
}

func (x *attackedLink) nextLength() int {
	switch {
	case len(x.sent) == 0 || x.Sizes == Longest:
		return x.Link.MTUPeer
	case x.Sizes == Mixed:
		return shortest + x.rng.IntN(x.Link.MTUPeer-shortest+1)
	case x.honours > 0 && x.budget <= x.worstInRing-frame.FCS: // the last one in the ring
		return x.Link.MTUPeer
	case x.honours > 0:
		return x.worstInRing
	// The last frame that can begin before S must stop.
	case x.budget <= x.worst-frame.FCS && x.honourAt()-x.sendAt <= x.slot(x.worst):
		return x.Link.MTUPeer
	}
	return x.worst
}

// arrive charges the next frame. R sees it at its next poll.
func (x *attackedLink) arrive() {
	n := x.accounts.Cells(int(x.sent[x.arrived]) - x.Link.Unstored)
	if x.accounts.Admit(0, attacked, n) != cells.Admitted {
		x.damage.Dropped++
	}
	x.damage.Frames++
	if x.lookAt == never {
		x.lookAt = x.arriveAt + x.Link.OwnGap*fsPerNS
	}
	// S leaves no gap: if there is a next frame, it is already on the wire and arrives one slot
	// later.
	if x.arrived++; x.arrived < len(x.sent) {
		x.arriveAt += x.slot(int(x.sent[x.arrived]))
	} else {
		x.arriveAt = never
	}
}

// look polls: R sends a PFC frame if the frames that have arrived require one.
func (x *attackedLink) look() {
	now := x.lookAt / fsPerNS
	var f pfc.Frame
	if x.generator.Due(now, x.accounts.Congested(0), &f) {
		x.pause(f)
		x.generator.Sent(now, &f)
	}
	x.lookAt = never
}

// pause sends a PFC frame, which waits behind the longest frame that R has just begun, or behind a
// full TX ring.
func (x *attackedLink) pause(f pfc.Frame) {
	p := flyingPause{at: x.lookAt + x.ahead + x.slot(pfc.FrameLength+frame.FCS) + x.oneWay + x.response}
	f.Put(p.bytes[:], [6]byte{0x02})
	x.pauses = append(x.pauses, p)
}

// honourAt returns when the next pause takes effect.
func (x *attackedLink) honourAt() int64 {
	if x.honours == len(x.pauses) {
		return never
	}
	return x.pauses[x.honours].at
}

func (x *attackedLink) honour() {
	p := &x.pauses[x.honours]
	var f pfc.Frame
	if kind, _ := pfc.Decode(p.bytes[:], &f); kind != pfc.PFC {
		panic("bench: R sent a PFC frame that S can't read")
	}
	x.receiver.Receive(p.at/fsPerNS, &f)
	if x.honours++; x.honours == 1 && x.sendAt > p.at {
		x.budget -= int(x.sent[len(x.sent)-1]) - frame.FCS // the frame being sent has not left the ring
	}
}

// fsPerMillimetre is the delay of each medium. The signal propagates at 65 % (fibre) or 70 %
// (copper) of the speed of light in vacuum (Cisco, Priority Flow Control: Build Reliable Layer 2
// Infrastructure, 2009), in twisted pair at 60 % (IEEE 802.1Q Annex O).
var fsPerMillimetre = map[headroom.Medium]int64{headroom.Fibre: 5130, headroom.Copper: 4760, headroom.BaseT: 5556}

// Propagation returns how long a signal takes over a cable, fs.
func Propagation(over headroom.Medium, metres float64) int64 {
	return int64(math.Round(metres*1000)) * fsPerMillimetre[over]
}

// WorstFrame returns the length, FCS included, that fills the most cells of a link's receiver in a
// given space. In that space a frame takes overhead bytes in addition to its own: preamble and gap
// on the wire, -frame.FCS in a TX ring. Among lengths that fill the same number of cells, the
// shortest is the worst.
func WorstFrame(l headroom.Params, overhead int) int {
	worst, cellsOfWorst := shortest, DivideUp(shortest-l.Unstored, l.Cell)
	for length := worst; length <= l.MTUPeer; {
		n := DivideUp(length-l.Unstored, l.Cell)
		if n*(worst+overhead) > cellsOfWorst*(length+overhead) {
			worst, cellsOfWorst = length, n
		}
		length = n*l.Cell + l.Unstored + 1
	}
	return worst
}

// DivideUp returns a/b, rounded up.
func DivideUp(a, b int) int { return (a + b - 1) / b }
