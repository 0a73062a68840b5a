package adversary

import (
	"errors"
	"math"
	"math/rand/v2"

	"sluice/bench/sim"
	"sluice/cells"
	"sluice/cells/headroom"
	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
)

// drawn is a random configuration that the switch accepts, with the values computed from it.
type drawn struct {
	settings *settings
	config   *config.Config
	memory   *umem.Memory
	params   dataplane.Params
	less     int // Attack.Less
	part     int // bytes of a frame that the drivers store in a buffer, if it goes on in another one; 0: frames fit

	lossless uint8   // priorities that are lossless at some port
	patient  bool    // gap and reaction are the whole response; the gap is as short as the ring requires
	waiting  []int64 // ns, by port: the response, or the part of it that the size of the ring allows
	gap      int64   // ns: the longest time between two polls of the same port by a worker
	reaction []int64 // ns, by port: from a PFC frame's arrival at the peer to the last frame that the peer may begin
	delay    []int64 // ns, by port: of its cable
	dense    []int   // by port: length of the frames that fill the most cells in a given time, bytes without FCS
	inFlight []int   // by port: bytes that may be in its TX ring, in all configurations so far
}

const slot64 = 84 // wire bytes of a shortest frame

var errNone = errors.New("sim: no random configuration was accepted and met the assumptions of docs/lossless.md")

// draw draws configurations until the switch accepts one. It then draws the loop's gap and the
// peers' reaction time. Together these are the configured response, or the part of it that
// docs/lossless.md promises for the size of the receive ring.
func draw(rng *rand.Rand, a Attack) (*drawn, error) {
	for range 1000 {
		d := &drawn{settings: drawSettings(rng, a.Jumbo), less: a.Less}
		var err error
		if d.config, err = d.settings.parse(); err != nil {
			continue
		}
		if a.Jumbo {
			d.part = drawPart(rng, d.config.Memory.BufferSize)
		}
		if d.memory, err = umem.Map(d.config.Memory.Buffers, d.config.Memory.BufferSize); err != nil {
			return nil, err
		}
		if d.params, err = d.translate(d.config, params.RingSize(d.config)); err == nil && d.divide(rng) {
			return d, nil
		}
		if err := d.memory.Close(); err != nil {
			return nil, err
		}
	}
	return nil, errNone
}

// translate returns the parameters of a configuration, with less headroom as the attack demands.
func (d *drawn) translate(c *config.Config, ring int) (dataplane.Params, error) {
	p, err := params.WithRings(c, d.memory, ring)
	if err != nil || d.less == 0 {
		return p, err
	}
	for i := range p.Ports {
		port := &p.Ports[i]
		less := d.less * sim.DivideUp(port.MaxLossless, p.CellSize)
		for n := range cells.Priorities {
			if g := &port.Cells.Groups[n]; g.Lossless {
				kept := max(1, g.Headroom-less)
				p.Accounts[port.Worker].Pools[g.Pool].Headroom -= g.Headroom - kept
				g.Headroom = kept
			}
		}
	}
	return p, nil
}

// drawPart draws the driver's part of a frame: that of AF_XDP with and without copying.
func drawPart(rng *rand.Rand, bufferSize int) int {
	if bufferSize == 2048 {
		return 1664
	}
	return pick(rng, 3328, 3712)
}

// divide divides the response between the loop and the peers. It reports whether that leaves the
// loop a useful gap.
func (d *drawn) divide(rng *rand.Rand) bool {
	if d.lossless = losslessIn(d.config); d.lossless == 0 {
		return false
	}
	d.patient = rng.IntN(2) == 0
	d.gap = math.MaxInt64
	for i := range d.config.Ports {
		p := &d.config.Ports[i]
		d.waiting = append(d.waiting, d.waits(p, &d.params))
		if d.gap = min(d.gap, d.waiting[i]); d.patient {
			d.gap = min(d.gap, d.spareTime(d.config, &d.params, p))
		}
	}
	if d.gap < 2_000 {
		return false
	}
	d.gap -= rng.Int64N(1+rng.Int64N(d.gap/2)) * int64(rng.IntN(2))
	for i := range d.config.Ports {
		p := &d.config.Ports[i]
		d.delay = append(d.delay, sim.Propagation(p.Medium, p.Metres)/1e6) // at most that in the headroom
		d.dense = append(d.dense, sim.WorstFrame(headroom.Params{MTUPeer: d.params.Ports[i].MaxLossless + frame.FCS,
			Cell: d.params.CellSize, Unstored: frame.FCS}, frame.WireOverhead-frame.FCS)-frame.FCS)
		d.inFlight = append(d.inFlight, p.InFlight)
		standard := int64(headroom.ResponseBits(p.LinkSpeed)) * 1e9 / int64(p.LinkSpeed)
		d.reaction = append(d.reaction, d.waiting[i]-d.gap+standard-1)
	}
	return true
}

// losslessIn returns the priorities that are lossless at some port.
func losslessIn(c *config.Config) (set uint8) {
	for i := range c.Ports {
		set |= c.Ports[i].PFC
	}
	return set
}

// waits returns how long a frame may wait at a port until its peer is paused, and how much longer
// than the standard allows that peer may take to stop, in all, ns.
func (d *drawn) waits(p *config.Port, params *dataplane.Params) int64 {
	if d.patient {
		return int64(p.Response)
	}
	return min(int64(p.Response), int64(p.RingTime(params.Ports[0].Buffers)))
}

// spareTime returns how long the loop may leave frames in the receive ring of a port whose peer
// uses the whole response to stop, ns. If the budget of an iteration empties all rings, a ring only
// has to take the frames that arrive in between.
func (d *drawn) spareTime(c *config.Config, params *dataplane.Params, p *config.Port) int64 {
	ring := params.Ports[0].Buffers
	if rings := ring * (len(c.Ports)/max(1, len(c.Workers)) + 1); rings > params.Budget {
		return int64(p.RingTime(ring)) - int64(p.Response)
	}
	return int64(ring-1) * slot64 * 8e9 / int64(p.LinkSpeed)
}

// silence returns how long after sending an XOFF a peer may still receive frames of that priority,
// ns: until the worker has polled and the contents of its TX ring have been sent and have arrived.
func (d *drawn) silence(port int) int64 {
	bytes := d.inFlight[port] + d.inFlight[port]/shortest*frame.WireOverhead + d.params.Ports[port].MaxFrame +
		frame.WireOverhead + dataplane.ControlBuffers*slot64
	return d.gap + 2*d.delay[port] + int64(bytes+2*slot64)*8e9/int64(d.config.Ports[port].LinkSpeed) + 100
}

// stopping returns within which time the switch stops the peer of a port after a new plan, ns.
func (d *drawn) stopping(port int) int64 { return 2*d.gap + d.silence(port) + d.reaction[port] }

// honours returns the priorities of a port whose pauses the switch honours.
func (d *drawn) honours(port int) uint8 {
	p := &d.params.Ports[port]
	if p.FlowControl == dataplane.NoFlowControl {
		return 0
	}
	return p.Receiver.Priorities
}

// hostOf returns the address of the host behind a port.
func hostOf(port int) frame.MAC { return 0x0200_0000_0100 + frame.MAC(port) }

// longest returns the longest frame that the peer of a port may send in a priority, in bytes
// without FCS.
func longest(params *dataplane.Params, port int, priority uint8) int {
	p := &params.Ports[port]
	if p.Cells.Groups[priority].Lossless {
		return p.MaxLossless
	}
	return p.MaxFrame
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// between draws a number log-uniformly.
func between(rng *rand.Rand, least, most float64) float64 {
	return least * math.Pow(most/least, rng.Float64())
}
