package headroom

import "math/big"

const (
	wireSource     = "IEEE 802.3: slot of a frame with preamble and gap"
	responseSource = "802.1Qbb: 60 quanta up to 10G; 802.3 clause 31B.3.7 above"
	givenSource    = "given"
)

// exact computes the headroom from the wire alone. A frame of n bytes with FCS takes n + 20 byte
// times, gap included, and has arrived after these and the propagation delay. At time 0 a frame has
// arrived and crossed the threshold. From then on, headroom takes every frame that begins to arrive
// within the window
//
//	W = own frame just begun + pause frame + cable, both ways + transceivers, both ways + response   (byte times)
//
// The last of them may begin just before the end of W. So, with c(f) the cells of a frame of f
// bytes and ρ the largest c(f) / (f + 20) for f from 64 to the longest of the class,
//
//	cells = c(longest), which crosses + ⌈ρ·W⌉ − 1 + c(longest), the last
//
// No sequence of frames takes more: the slots of all frames but the last add up to less than W, so
// they have fewer cells than ρ·W. Frames of the worst size alone fall short of this by at most
// their cells minus one.
func exact(p Params) (Result, error) {
	var l ledger
	l.addBytes("own frame in progress", p.MTUOwn+preambleGap, wireSource)
	return p.window(&l), nil
}

// measured is exact for ends in software, which add to W:
//
//   - Frames wait in a ring until the own end's loop polls it, at most its worst gap; the pause
//     waits likewise for the peer's loop.
//   - The pause leaves after everything in the own TX ring, including pauses for other classes.
//     After the peer has received it, everything in the peer's TX ring still leaves. In the
//     shortest frames, 60 B without FCS take 84 on the wire.
//
// A gap counts once. A frame that comes just after its ring was polled waits for the rest of one
// iteration and is answered at the end of the next, but the worst gap is an interruption, and two
// interruptions in a row are not covered.
func measured(p Params) (Result, error) {
	const source = "measured or given"
	var l ledger
	if p.OwnInFlight == 0 {
		l.addBytes("own frame in progress", p.MTUOwn+preambleGap, wireSource)
	} else {
		l.addBytes("own TX ring, ahead of the pause", p.OwnRing(), source)
	}
	if p.OwnControl > 0 {
		l.addBytes("PFC frames ahead of the pause", p.OwnControl*pauseSlot, source)
	}
	if p.OwnGap > 0 {
		l.add("own worst gap", p.inTime(rat(p.OwnGap, 1)), source)
	}
	if p.PeerGap > 0 {
		l.add("peer's worst gap", p.inTime(rat(p.PeerGap, 1)), source)
	}
	if p.PeerInFlight > 0 {
		l.add("peer's TX ring", inShortest(p.PeerInFlight), source)
	}
	r := p.window(&l)
	r.note("each worst gap is counted once: two consecutive interruptions are not covered")
	if p.OwnGap == 0 && p.PeerGap == 0 {
		r.note("both gaps are 0, but every loop in software has gaps: give measured ones")
	}
	return r, nil
}

// OwnRing returns how long the own TX ring takes to empty in the worst case, in bytes on the wire.
// The ring accepts a frame while it holds fewer than OwnInFlight bytes. So the last frame may be
// the longest, and those before it the shortest: 60 B without FCS, each with 24 B more on the wire.
func (p *Params) OwnRing() int {
	before := p.OwnInFlight - 1
	return before + before/(shortestFrame-4)*(pauseSlot-shortestFrame+4) + p.MTUOwn + preambleGap
}

// inShortest returns how long that many bytes of frames take on the wire in the worst case, as
// frames of 60 B without FCS.
func inShortest(bytes int) *big.Rat { return rat(int64(bytes)*pauseSlot, shortestFrame-4) }

// window completes exact's formula. l has the time until the own end begins the pause frame, and
// what a peer in software adds to its response.
func (p *Params) window(l *ledger) Result {
	l.addBytes("pause frame", pauseSlot, wireSource)
	l.add("cable, both ways", p.bothWays(), "propagation: "+nsPerMetre[p.Medium].FloatString(2)+" ns/m")
	if p.Transceivers > 0 {
		l.add("transceivers, both ways", p.inTime(rat(2*p.Transceivers, 1)), givenSource)
	}
	if p.ResponseBits > 0 {
		l.add("response", rat(int64(p.ResponseBits), 8), givenSource)
	} else {
		l.addBytes("response", responseBytes(p.Speed), responseSource)
	}

	frame := p.densest(preambleGap)
	inside := ceil(product(&l.total, rat(int64(p.cells(frame)), int64(frame+preambleGap)))) - 1
	l.addBytes("frame that crosses the threshold", p.MTUPeer, "the worst case: all of it in headroom")
	l.addBytes("peer's last frame", p.MTUPeer, "the worst case: it begins just before the peer stops")
	r := l.result()
	r.Cells = inside + 2*p.cells(p.MTUPeer)
	r.WorstFrame = frame
	r.note("cells: %d for the frame that crosses, %d for frames of %d B within the window, %d for the last frame",
		p.cells(p.MTUPeer), inside, frame, p.cells(p.MTUPeer))
	if p.Transceivers > 0 {
		p.transceiverNote(&r)
	}
	return r
}
