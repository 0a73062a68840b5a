package adversary

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"sluice/cells/headroom"
	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/internal/params"
	"sluice/internal/prose"
	"sluice/internal/umem"
)

// drawn is a random configuration that the switch accepts, with the values computed from it.
type drawn struct {
	text   string
	config *config.Config
	memory *umem.Memory
	params dataplane.Params
	part   int // bytes of a frame that the drivers store in a buffer, if it goes on in another; 0: frames fit

	lossless uint8   // priorities
	gap      int64   // ns: the longest time between two polls of the same port by a worker
	reaction []int64 // ns, by port: from a PFC frame's arrival at the peer to the last frame that the peer may begin
	dense    []int   // by port: length of the frames that fill the most cells in a given time, bytes without FCS
}

const slot64 = 84 // wire bytes of a shortest frame

var errNone = errors.New("sim: no random configuration was accepted and met the assumptions of docs/lossless.md")

// draw draws configurations until the switch accepts one. It then draws the loop's gap and the
// peers' reaction time. Together these are the configured response, or the part of it that
// docs/lossless.md promises for the size of the receive ring.
func draw(rng *rand.Rand, jumbo bool) (*drawn, error) {
	for range 1000 {
		d := &drawn{text: drawText(rng, jumbo)}
		var err error
		if d.config, err = config.Parse("adversary.yaml", []byte(d.text)); err != nil {
			continue
		}
		if jumbo {
			d.part = drawPart(rng, d.config.Memory.BufferSize)
		}
		if d.memory, err = umem.Map(d.config.Memory.Buffers, d.config.Memory.BufferSize); err != nil {
			return nil, err
		}
		if d.params, err = params.Of(d.config, d.memory); err == nil && d.divide(rng) {
			return d, nil
		}
		if err := d.memory.Close(); err != nil {
			return nil, err
		}
	}
	return nil, errNone
}

// drawPart draws the driver's part of a frame: that of AF_XDP with and without copying.
func drawPart(rng *rand.Rand, bufferSize int) int {
	if bufferSize == 2048 {
		return 1664
	}
	return pick(rng, 3328, 3712)
}

// drawText returns the text of a configuration.
func drawText(rng *rand.Rand, jumbo bool) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	ports, workers := 2+rng.IntN(6), 1
	if rng.IntN(4) == 0 {
		ports = 2 + rng.IntN(15)
	}
	if rng.IntN(3) == 0 {
		workers = 1 + rng.IntN(min(ports, 3))
	}
	line("workers: [%s]", list(workers))
	if buffers := 4096 << rng.IntN(4); jumbo {
		size := pick(rng, 2048, 4096)
		line("memory: {buffers: %d, buffer_size: %dB, cell: %dB}", buffers, size,
			pick(rng, 80, 160, 160, 512, map[int]int{2048: 1664, 4096: 3328}[size]))
	} else {
		line("memory: {buffers: %d, cell: %dB}", buffers, pick(rng, 80, 160, 160, 240, 512, 2048))
	}
	line("classes:")
	drawClasses(rng, line)
	line("ets: [{name: default, groups: [{pg: 0, cos: [0, 1, 2, 3, 4, 5, 6, 7], weight: 100}]}]")
	line("pfc: {quanta: %d, asymmetric: %t}", pick(rng, 65535, 65535, 8192), rng.IntN(4) == 0)
	line("watchdog: {action: off}")
	line("forwarding:")
	line("  static:")
	for i := range ports {
		line("    - {mac: %q, port: p%d}", hostOf(i), i)
	}
	line("ports:")
	speed := pick(rng, "1G", "10G", "10G", "10G", "25G", "40G", "100G")
	mtu := pick(rng, 1500, 1500, 68+rng.IntN(1800))
	if jumbo {
		mtu = pick(rng, 4200, 9000, 9216, 9216, 9500, 3700+rng.IntN(5801))
	}
	response := int64(between(rng, 5_000, 500_000))
	inFlight := int(between(rng, 2_000, pick(rng, 4_000., 64_000.)))
	shorter := rng.IntN(2) // whether lossless frames may be limited to a shorter length than others
	for i := range ports {
		if rng.IntN(8) == 0 {
			speed = pick(rng, "1G", "10G", "25G")
		}
		line("  - {device: p%d, speed: %s, mtu: %d, peer_mtu: %d, cable: %dm, response: %dns, in_flight: %dB, "+
			"worker: %d, link: transparent}",
			i, speed, mtu, max(68, mtu-shorter*rng.IntN(mtu)), int(between(rng, 1, 2000)), response, inFlight,
			i%workers)
	}
	return b.String()
}

// drawClasses writes one class of lossless priorities and one of the other priorities.
func drawClasses(rng *rand.Rand, line func(string, ...any)) {
	k := 1
	if rng.IntN(2) == 0 {
		k = 1 + rng.IntN(8)
	}
	order := rng.Perm(8)
	limit := fmt.Sprintf("share: %dB", int(between(rng, 4_000, 400_000)))
	if rng.IntN(4) == 0 {
		limit = fmt.Sprintf("alpha: %s", pick(rng, "1/8", "1/2", "1", "4"))
	} else if rng.IntN(4) == 0 {
		limit += ", xon_offset: 2000B"
	}
	line("  - {cos: [%s], lossless: true, reserved: %dB, %s}", prose.Join(order[:k], ", "), rng.IntN(3)*rng.IntN(4000),
		limit)
	if k == 8 {
		return
	}
	queue := fmt.Sprintf("queue_limit: %dB", int(between(rng, 4_000, 400_000)))
	if rng.IntN(4) == 0 {
		queue = fmt.Sprintf("queue_alpha: %s", pick(rng, "1/8", "1", "4"))
	}
	line("  - {cos: [%s], reserved: %dB, share: %dB, %s}", prose.Join(order[k:], ", "), rng.IntN(3)*rng.IntN(4000),
		int(between(rng, 4_000, 400_000)), queue)
}

// divide divides the response between the loop and the peers. It reports whether that leaves the
// loop a useful gap.
func (d *drawn) divide(rng *rand.Rand) bool {
	for i := range d.config.Classes {
		if class := &d.config.Classes[i]; class.Lossless {
			for _, cos := range class.CoS {
				d.lossless |= 1 << cos
			}
		}
	}
	patient := rng.IntN(2) == 0 // gap and reaction are the whole response; the gap is as short as the ring requires
	waits := func(p *config.Port) int64 {
		if patient {
			return int64(p.Response)
		}
		return min(int64(p.Response), d.ringTime(p))
	}
	d.gap = math.MaxInt64
	for i := range d.config.Ports {
		p := &d.config.Ports[i]
		if d.gap = min(d.gap, waits(p)); patient {
			d.gap = min(d.gap, d.spareTime(p))
		}
	}
	if d.gap < 2_000 {
		return false
	}
	d.gap -= rng.Int64N(1+rng.Int64N(d.gap/2)) * int64(rng.IntN(2))
	for i := range d.config.Ports {
		p := &d.config.Ports[i]
		d.dense = append(d.dense, d.densestOf(d.params.Ports[i].MaxLossless))
		d.reaction = append(d.reaction, waits(p)-d.gap+int64(headroom.ResponseBits(p.Speed))*1e9/int64(p.Speed)-1)
	}
	return true
}

// ringTime returns how long frames may wait in the receive ring of a port until its peer is paused,
// ns.
func (d *drawn) ringTime(p *config.Port) int64 { return int64(p.RingTime(d.params.Ports[0].Buffers)) }

// spareTime returns how long the loop may leave frames in the receive ring of a port whose peer
// uses the whole response to stop, ns. If the budget of an iteration empties all rings, a ring only
// has to take the frames that arrive in between.
func (d *drawn) spareTime(p *config.Port) int64 {
	ring := d.params.Ports[0].Buffers
	if rings := ring * (len(d.config.Ports)/max(1, len(d.config.Workers)) + 1); rings > d.params.Budget {
		return d.ringTime(p) - int64(p.Response)
	}
	return int64(ring-1) * slot64 * 8e9 / int64(p.Speed)
}

// densestOf returns the length up to longest that fills the most cells in a given time.
func (d *drawn) densestOf(longest int) int {
	cells := func(length int) int { return (length + d.params.CellSize - 1) / d.params.CellSize }
	dense := shortest
	for length := dense; length <= longest; length++ {
		if cells(length)*(dense+frame.WireOverhead) > cells(dense)*(length+frame.WireOverhead) {
			dense = length
		}
	}
	return dense
}

// Silence returns how long after sending an XOFF a peer may still receive frames of that priority,
// ns: until the worker has polled and the contents of its TX ring have been sent and have arrived.
func (d *drawn) Silence(port int) int64 {
	p := &d.config.Ports[port]
	bytes := p.InFlight + p.InFlight/shortest*frame.WireOverhead + d.params.Ports[port].MaxFrame + frame.WireOverhead +
		dataplane.ControlBuffers*slot64
	return d.gap + 2*delay(p) + int64(bytes+2*slot64)*8e9/int64(p.Speed) + 100
}

// honoured returns the priorities whose pauses the switch honours.
func (d *drawn) honoured() uint8 { return d.params.Ports[0].Receiver.Priorities }

// hostOf returns the address of the host behind a port.
func hostOf(port int) frame.MAC { return 0x0200_0000_0100 + frame.MAC(port) }

// longest returns the longest frame that the peer of a port may send in a priority, in bytes
// without FCS.
func (d *drawn) longest(port int, priority uint8) int {
	p := &d.params.Ports[port]
	if d.lossless>>priority&1 == 1 {
		return p.MaxLossless
	}
	return p.MaxFrame
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// between draws a number log-uniformly.
func between(rng *rand.Rand, least, most float64) float64 {
	return least * math.Pow(most/least, rng.Float64())
}

func list(n int) string {
	var numbers []int
	for i := range n {
		numbers = append(numbers, i)
	}
	return prose.Join(numbers, ", ")
}
