package headroom

const (
	wireSource     = "IEEE 802.3: slot of a frame with preamble and gap"
	responseSource = "802.1Qbb: 60 quanta up to 10G; 802.3 clause 31B.3.7 above"
	givenSource    = "given"
)

// exact needs no document but the wire: a frame of n bytes with FCS takes n + 20 byte times, the gap included, and has
// arrived when these are over plus the propagation delay. At time 0 a frame has arrived and crossed the threshold. From then
// on arrives whatever the peer begins within the window
//
//	W = own frame just begun + pause frame + cable, both ways + transceivers, both ways + response   (byte times)
//
// and the last of it may have begun just before the end of W. So, with c(f) the cells of a frame of f bytes and
// ρ the largest c(f) / (f + 20) for f from 64 to the longest of the class,
//
//	cells = c(longest), which crosses + ⌈ρ·W⌉ − 1 + c(longest), the last
//
// No sequence of frames takes more: the slots of all but the last are shorter than W together, so their cells are fewer than
// ρ·W. Frames of the worst size alone reach it to within their cells less one.
func exact(p Params) (Result, error) {
	return p.window(exactEnds), nil
}

// measured is exact between ends in software, of which W knows more:
//
//   - Frames wait in a ring until our loop looks, at most its worst gap; so does the pause until the peer's looks.
//   - The pause leaves behind all that our TX ring holds, and after the peer has heard it, all that is in its TX ring
//     leaves yet. In the shortest frames, 60 B without FCS take 84 on the wire.
//
// A gap counts once. A frame that comes just after its ring was looked at waits for the rest of a gap and is answered at
// the end of the iteration that follows: two gaps, if both were worst, which one that lasts because the thread was
// interrupted never was.
func measured(p Params) (Result, error) {
	r := p.window(measuredEnds)
	r.note("a gap is counted once: what interrupts a loop twice in a row for its worst gap is not covered")
	if p.OwnGap == 0 && p.PeerGap == 0 {
		r.note("with gaps of 0 this is exact with rings: give the worst gap of the loop")
	}
	return r, nil
}

// ends says how the window counts what the two ends do.
type ends func(p *Params, l *ledger)

// window computes exact's formula. What the ends add comes between the crossing frame and the wire.
func (p *Params) window(add ends) Result {
	var l ledger
	add(p, &l)
	l.addBytes("pause frame", pauseSlot, wireSource)
	l.add("cable, both ways", p.bothWays(), "propagation: "+nsPerMetre[p.Medium].FloatString(2)+" ns/m")
	if p.Transceivers > 0 {
		l.add("transceivers, both ways", p.inTime(rat(2*p.Transceivers, 1)), givenSource)
	}
	source := responseSource
	if p.ResponseBits > 0 {
		source = givenSource
	}
	l.add("response", rat(int64(p.responseBits()), 8), source)

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
		r.note("%d ns of transceivers are counted there and back; if the figure already has both directions, give half", p.Transceivers)
	}
	return r
}

func exactEnds(p *Params, l *ledger) {
	l.addBytes("own frame just begun", p.MTUOwn+preambleGap, wireSource)
}

func measuredEnds(p *Params, l *ledger) {
	const source = "measured or given"
	// 84/60: the wire time of bytes without FCS in the shortest frames.
	if p.OwnInFlight == 0 {
		exactEnds(p, l)
	} else {
		l.add("own TX ring in front of the pause", rat(int64(p.OwnInFlight+p.MTUOwn)*84, 60), source)
	}
	if p.OwnGap > 0 {
		l.add("worst gap of our loop", p.inTime(rat(p.OwnGap, 1)), source)
	}
	if p.PeerGap > 0 {
		l.add("worst gap of the peer's loop", p.inTime(rat(p.PeerGap, 1)), source)
	}
	if p.PeerInFlight > 0 {
		l.add("peer's TX ring", rat(int64(p.PeerInFlight)*84, 60), source)
	}
}
