// Package headroom computes how much buffer a lossless priority group needs beyond the threshold at
// which it tells the link partner to stop: room for what still arrives until that has happened.
//
// There is no one formula. Each method below is one that a document, a driver or a switch uses,
// reproduced to the byte, its errors included (Result.Notes names them); exact and measured are
// this project's own.
//
//	method      source                     frames begun  cable  pause  answer of     20 B more   into cells by
//	                                       own  peer's          frame  the peer      a frame
//	cisco       Cisco 2009                 yes  one      twice  no     60 quanta     no          worst frame size
//	cisco-wire  the same, cells put right  yes  one      twice  no     60 quanta     yes         worst frame size
//	dc-farm     DC Farm                    yes  one      once   no     no            no          worst frame size
//	annex-o     802.1Q Annex O in drivers  yes  two      twice  yes    by interface  in part     bytes × 36/25
//	sonic       SONiC, Mellanox            yes  one      twice  no     by speed      no          share of small frames
//	exact       the wire itself            yes  two      twice  yes    by speed      yes         worst frame size
//	measured    exact, software ends       ring two      twice  yes    + gap, ring   yes         worst frame size
//
// Cisco 2009 is "Priority Flow Control: Build Reliable Layer 2 Infrastructure"; DC Farm is
// "In-depth analysis of PFC processing", in Chinese; the drivers are ixgbe (Intel) and txgbe
// (Wangxun); SONiC's is buffer_headroom_mellanox.lua.
//
// Of the peer's frames, one is the frame it has just begun when it stops; the other is the frame
// that crosses the threshold and may lie in the headroom with all its cells. Where a method leaves
// that one out, Result.Partial has it.
//
// A byte time is what one byte takes at the speed of the link. All sums are exact fractions,
// rounded up at the end.
package headroom

import (
	"fmt"
	"math"
	"math/big"
	"slices"
)

// Method is a way to compute headroom; the package comment says what each counts.
type Method string

// The methods.
const (
	Cisco     Method = "cisco"
	CiscoWire Method = "cisco-wire"
	DCFarm    Method = "dc-farm"
	AnnexO    Method = "annex-o"
	SONiC     Method = "sonic"
	Exact     Method = "exact"
	Measured  Method = "measured"
)

// Methods returns all methods, those of documents first.
func Methods() []Method { return []Method{Cisco, CiscoWire, DCFarm, AnnexO, SONiC, Exact, Measured} }

// Medium is what a cable is made of.
type Medium string

// The media. BaseT is twisted pair with 10GBASE-T transceivers, Copper is twinax.
const (
	Fibre  Medium = "fibre"
	Copper Medium = "copper"
	BaseT  Medium = "base-t"
)

// Media returns all media.
func Media() []Medium { return []Medium{Fibre, Copper, BaseT} }

// nsPerMetre is how long light or a signal takes in a medium: at 65 % of its speed in vacuum in
// fibre and 70 % in twinax (Cisco 2009), at 60 % in twisted pair (802.1Q Annex O, as drivers have
// it: 5556 bit times in 100 m at 10G).
var nsPerMetre = map[Medium]*big.Rat{Fibre: rat(513, 100), Copper: rat(476, 100), BaseT: rat(5556, 1000)}

const (
	shortestFrame = 64 // bytes with FCS
	longestFrame  = 65535
	preambleGap   = 20 // bytes that each frame takes on the wire besides: preamble and delimiter 8, gap 12
	pauseSlot     = shortestFrame + preambleGap
)

// Params are the link and its two ends; each method takes from them what it knows of. Own is the
// end that has the buffer and sends the pause, the peer is the end that is to stop.
type Params struct {
	Speed   uint64  // bit/s, 1M to 400G
	MTUOwn  int     // bytes with FCS: the longest frame of any class that may be leaving when the pause is to go out
	MTUPeer int     // bytes with FCS: the longest frame of the paused class
	Metres  float64 // of cable, counted to the millimetre
	Medium  Medium  // "": fibre

	Cell int // bytes of accounting cell
	// bytes of a frame that are not stored: 4 where the FCS is cut off, as in this switch; 0 in the
	// documents
	Unstored int

	// Transceivers is what those of both ends together delay a frame on its way from one end to the
	// other, ns.
	Transceivers int64
	// ResponseBits are the bit times from the pause's arrival until the peer begins no frame more,
	// for exact and measured. 0: what the standard allows at this speed.
	ResponseBits int

	OwnGap       int64 // ns, measured: the worst time between two looks of our loop at its ports
	OwnInFlight  int   // bytes without FCS, measured: what our TX ring may hold of frames in front of the pause
	OwnControl   int   // measured: PFC frames of ours that may be in the TX ring besides
	PeerGap      int64 // ns, measured: as OwnGap, of a peer in software
	PeerInFlight int   // bytes without FCS, measured: what the peer's TX ring may hold when it hears the pause

	SONiC SONiCParams // sonic; all zero: SONiCDefaults
}

// Reversed returns the same link as seen from the peer: how much headroom it needs for us. How many
// PFC frames of its own are in its way is not known.
func (p Params) Reversed() Params {
	p.OwnGap, p.PeerGap = p.PeerGap, p.OwnGap
	p.OwnInFlight, p.PeerInFlight = p.PeerInFlight, p.OwnInFlight
	p.OwnControl = 0
	return p
}

// Term is one summand of a headroom.
type Term struct {
	Name   string `json:"name"`
	Bytes  int    `json:"bytes"` // of frames, or of time on the wire
	Source string `json:"source"`
}

// Result is a headroom.
type Result struct {
	Method      Method   `json:"method"`
	Bytes       int      `json:"bytes"`         // the sum of Terms
	Cells       int      `json:"cells"`         // what that becomes in cells
	BufferBytes int      `json:"buffer_bytes"`  // Cells × cell size
	WorstFrame  int      `json:"worst_frame"`   // bytes with FCS: those that take most cells; 0: none known
	Partial     int      `json:"partial_cells"` // cells that the frame that crosses the threshold may take besides
	XON         int      `json:"xon,omitempty"` // sonic: bytes kept for the group below its threshold
	Terms       []Term   `json:"terms"`         // a byte that two share is in the one that completes it
	Notes       []string `json:"notes"`         // what the document gets wrong, what the method leaves out
}

// Compute returns the headroom by one method. It fails, saying what to do, when a parameter makes
// no sense or is not in the method's tables.
func Compute(m Method, p Params) (Result, error) {
	if p.Medium == "" {
		p.Medium = Fibre
	}
	if p.SONiC == (SONiCParams{}) {
		p.SONiC = SONiCDefaults()
	}
	if err := p.check(); err != nil {
		return Result{}, fmt.Errorf("headroom: %w", err)
	}
	compute := map[Method]func(Params) (Result, error){
		Cisco: cisco, CiscoWire: ciscoWire, DCFarm: dcFarm, AnnexO: annexO, SONiC: sonic, Exact: exact,
		Measured: measured,
	}[m]
	if compute == nil {
		return Result{}, fmt.Errorf("headroom: unknown method %q: choose one of %v", m, Methods())
	}
	r, err := compute(p)
	if err != nil {
		return Result{}, fmt.Errorf("headroom: %s: %w", m, err)
	}
	r.Method = m
	r.BufferBytes = r.Cells * p.Cell
	if r.Partial > 0 {
		r.note("the frame that crosses the threshold is not counted: it may take up to %d cells (%d B) of the "+
			"headroom besides",
			r.Partial, r.Partial*p.Cell)
	}
	return r, nil
}

func (p *Params) check() error {
	const maxSpeed, maxMetres = 400e9, 1e8
	switch {
	case p.Speed < 1e6 || p.Speed > maxSpeed:
		return fmt.Errorf("a speed of %d bit/s: choose one from 1M to 400G", p.Speed)
	case !(p.Metres >= 0 && p.Metres <= maxMetres): // NaN is neither
		return fmt.Errorf("a cable of %v m: give its length, 0 or more, up to 100,000 km", p.Metres)
	case !slices.Contains(Media(), p.Medium):
		return fmt.Errorf("unknown medium %q: choose one of %v", p.Medium, Media())
	case p.Cell < 1 || p.Cell > longestFrame:
		return fmt.Errorf("cells of %d B: choose 1 to %d B, such as 160 (Nexus 5000) or 80 (Nexus 2000)", p.Cell,
			longestFrame)
	case p.Unstored < 0 || p.Unstored >= shortestFrame:
		return fmt.Errorf("%d B of each frame not stored: choose 4 where the FCS is cut off, 0 where it is not",
			p.Unstored)
	}
	for _, mtu := range []int{p.MTUOwn, p.MTUPeer} {
		if mtu < shortestFrame || mtu > longestFrame {
			return fmt.Errorf("an MTU of %d B: give the longest frame of either end with its FCS, %d to %d B",
				mtu, shortestFrame, longestFrame)
		}
	}
	const most = 1e12 // a quarter of an hour, a terabyte
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"transceiver delay", p.Transceivers}, {"gap of our loop", p.OwnGap}, {"gap of the peer's loop", p.PeerGap},
		{"response", int64(p.ResponseBits)}, {"number of bytes in our TX ring", int64(p.OwnInFlight)},
		{"number of bytes in the peer's TX ring", int64(p.PeerInFlight)},
		{"number of PFC frames in our TX ring", int64(p.OwnControl)},
	} {
		if n.value < 0 || n.value > most {
			return fmt.Errorf("a %s of %d: give 0 or more, up to %.0f", n.name, n.value, most)
		}
	}
	return nil
}

// cells returns what a frame of so many bytes with FCS takes.
func (p *Params) cells(frame int) int { return max(1, (frame-p.Unstored+p.Cell-1)/p.Cell) }

// densest returns the frame size of the paused class that takes the most cells for its time on the
// wire, where each frame takes overhead bytes besides its own. With cells of 160 B that is 64 B,
// with cells of 80 B 81 B (Cisco 2009).
func (p *Params) densest(overhead int) (frame int) {
	frame = shortestFrame
	for f := frame + 1; f <= p.MTUPeer; f++ {
		if p.cells(f)*(frame+overhead) > p.cells(frame)*(f+overhead) {
			frame = f
		}
	}
	return frame
}

// mostCells returns the most cells that frames of one size can take that fill so many bytes, the
// last of them begun counted whole, and that size.
func (p *Params) mostCells(bytes, overhead int) (cells, frame int) {
	for f := shortestFrame; f <= p.MTUPeer; f++ {
		slot := f + overhead
		if n := (bytes + slot - 1) / slot * p.cells(f); n > cells {
			cells, frame = n, f
		}
	}
	return cells, frame
}

// inTime returns what passes in so many ns, in bytes.
func (p *Params) inTime(ns *big.Rat) *big.Rat {
	return product(ns, rat(int64(p.Speed), 8e9))
}

// metres returns the length of the cable.
func (p *Params) metres() *big.Rat { return rat(int64(math.Round(p.Metres*1000)), 1000) }

// bothWays returns what is under way in the cable, there and back, in bytes.
func (p *Params) bothWays() *big.Rat {
	return product(rat(2, 1), p.inTime(product(p.metres(), nsPerMetre[p.Medium])))
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}
