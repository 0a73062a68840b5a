package headroom

import (
	"fmt"
	"math/big"
)

const annexOSource = "802.1Q Annex O, as in the drivers ixgbe (Intel) and txgbe (Wangxun)"

// annexODelay is the delay of the two interfaces and of the layers above, in bit times.
type annexODelay struct{ interfaces, higher int64 }

// annexODelays by speed. Those at 10G are the drivers': an interface is MAC + XAUI + PHY, the
// higher layer 6144. The drivers have no other speeds; those here use the interface delay and the
// response that 802.3 allows.
var annexODelays = map[uint64]annexODelay{
	10e9:  {4096 + 2048 + 12800, 6144},
	25e9:  {6144, 40960},
	40e9:  {24576, 60416},
	100e9: {122880, 201728},
}

// annexOBaseT is the interface delay with 10GBASE-T (ixgbe's for the X540).
const annexOBaseT = 8192 + 4096 + 25600

// annexOCable is how many bit times 100 m hold at 10G.
var annexOCable = map[Medium]int64{Fibre: 5000, Copper: 5556, BaseT: 5556}

// annexO is, in bit times and with the drivers' integer division,
//
//	36 · (8·F[link] + 672 + 2·cable + 2·interface + higher layer) / 25 + 1 + 2·8·F[class]
//
// where F is a frame's length plus 20 B of preamble and gap, and 36/25 accounts for the memory that
// frames take beyond their length. The drivers then round up to KiB.
func annexO(p Params) (Result, error) {
	d, ok := annexODelays[p.Speed]
	if !ok {
		return Result{}, fmt.Errorf("no delays for %s in its tables: choose 10G, 25G, 40G or 100G, or another method",
			rateText(p.Speed))
	}
	if p.Medium == BaseT {
		if p.Speed != tenGigabit {
			return Result{}, fmt.Errorf("medium %s is for 10G, not %s: choose copper or fibre", BaseT,
				rateText(p.Speed))
		}
		d.interfaces = annexOBaseT
	}
	var l ledger
	bits := func(name string, n int64) { l.add(name, rat(n, 8), annexOSource) }
	cable := p.atSpeed(product(p.metres(), rat(annexOCable[p.Medium], 100)))
	bits("own frame in progress, with preamble and gap", 8*int64(p.MTUOwn+preambleGap))
	bits("pause frame", 8*pauseSlot)
	bits("cable, both ways", 2*int64(ceil(cable)))
	bits("interface delay, both ends", 2*d.interfaces)
	bits("higher layer delay", d.higher)
	raw := product(&l.total, rat(8, 1)).Num().Int64() // whole: all terms are whole bit times
	rawBytes := l.bytes()
	bits("memory in addition to the frames, 36/25", 36*raw/25+1-raw)
	bits("two frames of the class, with preamble and gap", 2*8*int64(p.MTUPeer+preambleGap))

	r := l.result()
	r.Cells = (r.Bytes + p.Cell - 1) / p.Cell
	r.note("without the factor 36/25 and the frames of the class, it is %d B", rawBytes)
	r.note("the drivers round this up to %d KiB", (r.Bytes+1023)/1024)
	p.annexOCellNote(&r)
	if p.Speed != tenGigabit {
		r.note("the drivers have figures for 10G only; at %s, "+
			"those of 802.3 for interface delay and response are used, unconfirmed", rateText(p.Speed))
	}
	if p.Transceivers > 0 {
		r.note("the interface delay includes transceivers, so the %d ns given are not added", p.Transceivers)
	}
	return r, nil
}

// annexOCellNote warns if cells waste more than the factor covers.
func (p *Params) annexOCellNote(r *Result) {
	f := p.densest(preambleGap)
	if waste := rat(int64(p.cells(f)*p.Cell), int64(f+preambleGap)); waste.Cmp(big.NewRat(36, 25)) > 0 {
		r.note("the factor 1.44 is for Intel's packet buffer; in cells of %d B, "+
			"frames of %d B take %s B per byte on the wire: use method exact", p.Cell, f, waste.FloatString(2))
	}
}
