// Package headroom computes how much buffer a lossless priority group needs beyond its XOFF
// threshold. It is room for the frames that still arrive until the link partner has stopped.
//
// There is no single formula. Each method below reproduces that of a document, a driver or a switch
// to the byte, including its errors, which Result.Notes names. exact and measured are this
// project's own.
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
// Of the peer's frames, one is the frame that it has just begun when it stops; the other is the
// frame that crosses the threshold, all cells of which may be in headroom. Where a method omits the
// latter, Result.Partial has it.
//
// A byte time is the time of one byte at the speed of the link. Sums are exact fractions, rounded
// up at the end.
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

// nsPerMetre is the propagation delay of a medium: at 65 % of the speed of light in vacuum in fibre
// and 70 % in twinax (Cisco 2009), at 60 % in twisted pair (802.1Q Annex O, as the drivers have it:
// 5556 bit times in 100 m at 10G).
var nsPerMetre = map[Medium]*big.Rat{Fibre: rat(513, 100), Copper: rat(476, 100), BaseT: rat(5556, 1000)}

const (
	shortestFrame = 64 // bytes with FCS
	longestFrame  = 65535
	preambleGap   = 20 // bytes on the wire in addition to each frame: preamble and delimiter 8, gap 12
	pauseSlot     = shortestFrame + preambleGap
)

// Params are the link and its two ends; each method uses the fields that it knows. Own is the end
// that has the buffer and sends the pause, the peer is the end that must stop.
type Params struct {
	Speed   uint64  // bit/s, 1M to 400G
	MTUOwn  int     // bytes with FCS: the longest frame of any class that may be in front of the pause
	MTUPeer int     // bytes with FCS: the longest frame of the paused class
	Metres  float64 // length of the cable, to the millimetre
	Medium  Medium  // "": fibre

	Cell int // bytes of accounting cell
	// bytes of a frame that are not stored: 4 if the FCS is stripped, as in this switch; 0 in the
	// documents
	Unstored int

	// Transceivers is the delay that the transceivers of both ends together add to a frame on its
	// way from one end to the other, ns.
	Transceivers int64
	// ResponseBits are the bit times from the arrival of the pause until the peer begins no more
	// frames, for exact and measured. 0: what the standard allows at this speed.
	ResponseBits int

	OwnGap       int64 // ns, measured: the worst time between two polls of the ports by the own end's loop
	OwnInFlight  int   // bytes without FCS, measured: frames that the own TX ring may hold in front of the pause
	OwnControl   int   // measured: PFC frames that may be in the own TX ring in addition
	PeerGap      int64 // ns, measured: as OwnGap, for a peer in software
	PeerInFlight int   // bytes without FCS, measured: frames that the peer's TX ring may hold when it sees the pause

	SONiC SONiCParams // sonic; all zero: SONiCDefaults
}

// Reversed returns the same link as seen from the peer, to compute the headroom that the peer
// needs. It swaps gaps and rings; OwnControl becomes 0, since the peer's PFC frames are not known.
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
	Cells       int      `json:"cells"`         // Bytes in cells
	BufferBytes int      `json:"buffer_bytes"`  // Cells × cell size
	WorstFrame  int      `json:"worst_frame"`   // bytes with FCS: the frame size that takes most cells; 0: none known
	Partial     int      `json:"partial_cells"` // cells that the frame that crosses the threshold may take in addition
	XON         int      `json:"xon,omitempty"` // sonic: bytes kept for the group below its threshold
	Terms       []Term   `json:"terms"`         // a byte shared by two terms counts in the later one
	Notes       []string `json:"notes"`         // what the document gets wrong, what the method leaves out
}

// Compute returns the headroom by one method. Its error says what to change when a parameter makes
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
		r.note("the frame that crosses the threshold is not counted: it may take up to %d cells (%d B) of "+
			"headroom in addition",
			r.Partial, r.Partial*p.Cell)
	}
	return r, nil
}

func (p *Params) check() error {
	const maxSpeed, maxMetres = 400e9, 1e8
	switch {
	case p.Speed < 1e6 || p.Speed > maxSpeed:
		return fmt.Errorf("speed %d bit/s is out of range: choose 1M to 400G", p.Speed)
	case !(p.Metres >= 0 && p.Metres <= maxMetres): // NaN is neither
		return fmt.Errorf("cable length %v m is out of range: give 0 or more, up to 100,000 km", p.Metres)
	case !slices.Contains(Media(), p.Medium):
		return fmt.Errorf("unknown medium %q: choose one of %v", p.Medium, Media())
	case p.Cell < 1 || p.Cell > longestFrame:
		return fmt.Errorf("cell size %d B is out of range: choose 1 to %d B, such as 160 (Nexus 5000) or 80 "+
			"(Nexus 2000)",
			p.Cell, longestFrame)
	case p.Unstored < 0 || p.Unstored >= shortestFrame:
		return fmt.Errorf("unstored bytes per frame, %d B, are out of range: choose 4 if the FCS is not stored, "+
			"otherwise 0",
			p.Unstored)
	}
	for _, mtu := range []int{p.MTUOwn, p.MTUPeer} {
		if mtu < shortestFrame || mtu > longestFrame {
			return fmt.Errorf("MTU %d B is out of range: give the longest frame of each end including the FCS, "+
				"%d to %d B",
				mtu, shortestFrame, longestFrame)
		}
	}
	const most = 1e12 // a quarter of an hour, a terabyte
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"transceiver delay", p.Transceivers}, {"own gap", p.OwnGap}, {"peer's gap", p.PeerGap},
		{"response", int64(p.ResponseBits)}, {"number of bytes in the own TX ring", int64(p.OwnInFlight)},
		{"number of bytes in the peer's TX ring", int64(p.PeerInFlight)},
		{"number of PFC frames in the own TX ring", int64(p.OwnControl)},
	} {
		if n.value < 0 || n.value > most {
			return fmt.Errorf("%s %d is out of range: give 0 or more, up to %.0f", n.name, n.value, most)
		}
	}
	return nil
}

// cells returns the cells of a frame of that many bytes with FCS.
func (p *Params) cells(frame int) int { return max(1, (frame-p.Unstored+p.Cell-1)/p.Cell) }

// densest returns the frame size of the paused class that takes the most cells for its time on the
// wire, where each frame takes overhead bytes in addition. With cells of 160 B that is 64 B, with
// cells of 80 B it is 81 B (Cisco 2009).
func (p *Params) densest(overhead int) (frame int) {
	frame = shortestFrame
	for f := frame + 1; f <= p.MTUPeer; f++ {
		if p.cells(f)*(frame+overhead) > p.cells(frame)*(f+overhead) {
			frame = f
		}
	}
	return frame
}

// mostCells returns the most cells that frames of a single size can take when they fill that many
// bytes, and that size. A last frame that has begun counts whole.
func (p *Params) mostCells(bytes, overhead int) (cells, frame int) {
	for f := shortestFrame; f <= p.MTUPeer; f++ {
		slot := f + overhead
		if n := (bytes + slot - 1) / slot * p.cells(f); n > cells {
			cells, frame = n, f
		}
	}
	return cells, frame
}

// inTime returns how many bytes pass in ns.
func (p *Params) inTime(ns *big.Rat) *big.Rat {
	return product(ns, rat(int64(p.Speed), 8e9))
}

// metres returns the length of the cable.
func (p *Params) metres() *big.Rat { return rat(int64(math.Round(p.Metres*1000)), 1000) }

// bothWays returns the bytes under way in the cable, in both directions.
func (p *Params) bothWays() *big.Rat {
	return product(rat(2, 1), p.inTime(product(p.metres(), nsPerMetre[p.Medium])))
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}
