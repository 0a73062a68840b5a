package headroom

import "math/big"

const (
	ciscoSource  = "Cisco, Priority Flow Control, 2009"
	dcFarmSource = "DC Farm, In-depth analysis of PFC processing"

	// sixtyQuanta is the time that a peer may take to respond, 60 × 512 bit, in bytes.
	sixtyQuanta = 60 * quantum
	// transceiverUnit is the unit of transceiver latency in both documents, ns.
	transceiverUnit = 512
	// tenGigabit is the only speed that the two documents compute, bit/s. Bytes under way grow with
	// the speed.
	tenGigabit = 10e9
)

// atSpeed scales a number of bytes at 10G to the speed of the link.
func (p *Params) atSpeed(bytes *big.Rat) *big.Rat {
	return product(bytes, rat(int64(p.Speed), tenGigabit))
}

// ciscoBytes is
//
//	MTU[R] + MTU[S] + 3840 + 1300 per 100 m + 1280 per 512 ns of transceivers
//
// in bytes: the frame that the receiver R is sending, the frame that the sender S has begun, 60
// quanta to respond, and the bytes under way in both directions. The cable counts as 1300 instead
// of 1282 B per 100 m, in any medium.
func (p *Params) ciscoBytes() *ledger {
	var l ledger
	l.addBytes("own frame in progress (MTU[R])", p.MTUOwn, ciscoSource)
	l.addBytes("peer's frame in progress (MTU[S])", p.MTUPeer, ciscoSource)
	l.addBytes("response, 60 quanta", sixtyQuanta, ciscoSource+"; 802.1Qbb")
	l.add("cable, both ways, 13 B/m at 10G", p.atSpeed(product(p.metres(), rat(13, 1))), ciscoSource)
	if p.Transceivers > 0 {
		l.add("transceivers, both ways", p.atSpeed(rat(1280*p.Transceivers, transceiverUnit)), ciscoSource)
	}
	return &l
}

// cisco treats the bytes as contiguous frames, without preamble and gap.
func cisco(p Params) (Result, error) {
	r := p.ciscoBytes().result()
	r.Cells, r.WorstFrame = p.mostCells(r.Bytes, 0)
	r.note("preamble and gap are not counted, so it is more cells than %d B on the wire can fill: see cisco-wire",
		r.Bytes)
	p.ciscoNotes(&r)
	return r, nil
}

// ciscoWire treats the same bytes as time on the wire, where each frame takes 20 B more than its
// length.
func ciscoWire(p Params) (Result, error) {
	r := p.ciscoBytes().result()
	r.Cells, r.WorstFrame = p.mostCells(r.Bytes, preambleGap)
	r.note("preamble and gap, %d B per frame, are counted; the document does not count them", preambleGap)
	p.ciscoNotes(&r)
	return r, nil
}

func (p *Params) ciscoNotes(r *Result) {
	r.Partial = p.cells(p.MTUPeer)
	r.note("the time of the pause frame itself, %d B on the wire, is not counted", pauseSlot)
	if p.Medium != Fibre {
		r.note("the document treats every cable as fibre, its slowest medium")
	}
	if p.Speed != tenGigabit {
		r.note("the document's figures are for 10G; the bytes in transit are scaled to %s here", rateText(p.Speed))
	}
	if allowed := responseBytes(p.Speed); allowed > sixtyQuanta {
		r.note("the limit at 10G is 60 quanta; at %s, it is %d quanta, %d B", rateText(p.Speed), allowed/quantum,
			allowed)
	}
	if p.Transceivers > 0 {
		r.note("the document says that 2.5 µs in each 10GBASE-T transceiver make 12,800 B, but that takes 2.56 µs")
		p.transceiverNote(r)
	}
}

func (p *Params) transceiverNote(r *Result) {
	r.note("the %d ns of transceivers are counted in both directions; give half if they already "+
		"are both", p.Transceivers)
}

// dcFarm is
//
//	MTU + MTU + 641 per 100 m + 640 × 2 per 512 ns of transceivers
//
// in bytes. The document's own sum is 9216·2 + 641·3 + 640·2 = 21,635 B, for 300 m and 512 ns.
func dcFarm(p Params) (Result, error) {
	ns := max(p.Transceivers, transceiverUnit)
	cable := p.atSpeed(product(p.metres(), rat(641, 100)))
	var l ledger
	l.addBytes("own frame in progress", p.MTUOwn, dcFarmSource)
	l.addBytes("peer's frame in progress", p.MTUPeer, dcFarmSource)
	l.add("transceivers, both ways", p.atSpeed(rat(1280*ns, transceiverUnit)), dcFarmSource)
	l.add("cable, one way, 641 B per 100 m at 10G", cable, dcFarmSource)
	r := l.result()
	r.Cells, r.WorstFrame = p.mostCells(r.Bytes, 0)
	r.Partial = p.cells(p.MTUPeer)

	l.addBytes("response, 60 quanta", sixtyQuanta, "")
	l.add("cable, the way back", cable, "")
	r.note("the sum is correct, but the model is not: it omits its own factor 4, the response of 60 quanta × 64 "+
		"B = %d B",
		sixtyQuanta)
	r.note("the cable is counted one way, but both the pause and the frames sent in the meantime travel it")
	r.note("with both errors corrected, it is %d B", l.bytes())
	r.note("the time of the pause frame itself, preamble and gap are not counted")
	if p.Transceivers < transceiverUnit {
		r.note("the document always counts 512 ns of transceivers")
	}
	if p.Speed != tenGigabit {
		r.note("the document's figures are for 10G; the bytes in transit are scaled to %s here", rateText(p.Speed))
	}
	return r, nil
}
