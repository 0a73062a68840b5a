package headroom

import "math/big"

const (
	wireSource     = "IEEE 802.3: slot of a frame with preamble and gap"
	responseSource = "802.1Qbb: 60 quanta up to 10G; 802.3 clause 31B.3.7 above"
	givenSource    = "given"
)

// exact needs no document but the wire: a frame of n bytes with FCS takes n + 20 byte times, the
// gap included, and has arrived when these are over plus the propagation delay. At time 0 a frame
// has arrived and crossed the threshold. From then on arrives whatever begins to arrive within the
// window
//
//	W = own frame just begun + pause frame + cable, both ways + transceivers, both ways + response   (byte times)
//
// and the last of it may have begun just before the end of W. So, with c(f) the cells of a frame of
// f bytes and ρ the largest c(f) / (f + 20) for f from 64 to the longest of the class,
//
//	cells = c(longest), which crosses + ⌈ρ·W⌉ − 1 + c(longest), the last
//
// No sequence of frames takes more: the slots of all but the last are shorter than W together, so
// their cells are fewer than ρ·W. Frames of the worst size alone reach it to within their cells
// less one.
func exact(p Params) (Result, error) {
	var l ledger
	l.addBytes("own frame just begun", p.MTUOwn+preambleGap, wireSource)
	return p.window(&l), nil
}

// measured is exact between ends in software, of which W knows more:
//
//   - Frames wait in a ring until our loop looks, at most its worst gap; so does the pause until the peer's looks.
//   - The pause leaves behind all that our TX ring holds, pauses for other classes among it, and after the peer has heard it,
//     all that is in its TX ring leaves yet. In the shortest frames, 60 B without FCS take 84 on the wire.
//
// A gap counts once, although a frame that comes just after its ring was looked at waits for the
// rest of one iteration and is answered at the end of the next: the worst gap is an interruption,
// and two of those in a row are not covered.
func measured(p Params) (Result, error) {
	const source = "measured or given"
	var l ledger
	if p.OwnInFlight == 0 {
		l.addBytes("own frame just begun", p.MTUOwn+preambleGap, wireSource)
	} else {
		l.addBytes("TX ring, in front of the pause", p.OwnRing(), source)
	}
	if p.OwnControl > 0 {
		l.addBytes("PFC frames, in front of the pause", p.OwnControl*pauseSlot, source)
	}
	if p.OwnGap > 0 {
		l.add("worst gap of our loop", p.inTime(rat(p.OwnGap, 1)), source)
	}
	if p.PeerGap > 0 {
		l.add("worst gap of the peer's loop", p.inTime(rat(p.PeerGap, 1)), source)
	}
	if p.PeerInFlight > 0 {
		l.add("peer's TX ring", inShortest(p.PeerInFlight), source)
	}
	r := p.window(&l)
	r.note("each worst gap is counted once: two interruptions in a row are not covered")
	if p.OwnGap == 0 && p.PeerGap == 0 {
		r.note("both gaps are 0, which no loop in software has: give what was measured")
	}
	return r, nil
}

// OwnRing returns how long our TX ring takes to empty at the worst, in bytes on the wire. A frame
// enters it as long as those in it have fewer than OwnInFlight bytes: so the last one may be the
// longest, and those before it the shortest, 60 B without FCS, each of which takes 24 B more on the
// wire.
func (p *Params) OwnRing() int {
	before := p.OwnInFlight - 1
	return before + before/(shortestFrame-4)*(pauseSlot-shortestFrame+4) + p.MTUOwn + preambleGap
}

// inShortest returns how long so many bytes of frames may take on the wire, at the worst: as frames
// of 60 B without FCS.
func inShortest(bytes int) *big.Rat { return rat(int64(bytes)*pauseSlot, shortestFrame-4) }

// window finishes exact's formula, given how long it takes our end to begin the pause frame, and
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
	l.addBytes("peer's last frame", p.MTUPeer, "the worst case: begun just before it stops")
	r := l.result()
	r.Cells = inside + 2*p.cells(p.MTUPeer)
	r.WorstFrame = frame
	r.note("cells: %d of the frame that crosses, %d of frames of %d B within the window, %d of the last frame",
		p.cells(p.MTUPeer), inside, frame, p.cells(p.MTUPeer))
	if p.Transceivers > 0 {
		p.transceiverNote(&r)
	}
	return r
}
