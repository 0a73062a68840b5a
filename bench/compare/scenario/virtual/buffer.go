package virtual

import (
	"context"
	"errors"
	"fmt"

	"sluice/bench/compare"
	"sluice/bench/sim"
	"sluice/bench/traffic"
	"sluice/internal/frame"
)

// Buffer is how large a burst the buffers hold.
var Buffer = compare.Scenario{
	Name: "buffer",
	Shows: "buffer size at RFC 8239's point of inflection, and the largest microburst without " +
		"loss",
	Peers:  "the configured limits",
	Page:   "scheduling-and-buffers",
	Short:  true,
	OneCPU: true,
	Run:    runBuffer,
}

const (
	bufferLossy    = "lossy class"
	bufferLossless = "lossless class"

	bufferRate  = 10e9
	bufferQueue = 256     // cells of the lossy egress queue
	bufferShare = 512     // cells that a port's traffic in a class may hold: not a limit here
	bufferGrain = 2000    // ns of virtual time between two readings of the counters
	bufferQuiet = 100_000 // ns until the switch has learned the target's address
	bufferMAC   = frame.MAC(0x0200_0000_0001)
)

// bufferSizes are the sizes of RFC 2544 and some that fill their cells, in bytes with FCS.
var bufferSizes = []int{64, 128, 164, 256, 512, 1024, 1280, 1444, 1518}

func runBuffer(ctx context.Context, o compare.Options, r *compare.Report) error {
	sizes, senders := bufferSizes, []int{2, 4, 8}
	if o.Quick {
		sizes, senders = []int{64, 1518}, []int{2}
	}
	if err := addInflections(ctx, o, r, sizes); err != nil {
		return err
	}
	return addMicrobursts(ctx, o, r, senders)
}

// addInflections measures the buffer by frame size.
func addInflections(ctx context.Context, o compare.Options, r *compare.Report, sizes []int) error {
	t := compare.Table{
		Title: "Buffer size at the point of inflection (RFC 8239, section 3)",
		Head: []string{"frame", "class", "frames", "bytes", "buffer used", "configured",
			"latency at first loss, µs", "latency at the end, µs", "lost at the end"},
	}
	plot := compare.Plot{Name: "inflection", Title: "Latency until the buffer is full",
		X: "frames of the oversubscribing port", Y: "latency (µs)"}
	defer func() { r.Table(t); r.Plot(plot) }()
	for _, size := range sizes {
		for _, class := range []string{bufferLossy, bufferLossless} {
			if err := ctx.Err(); err != nil {
				return err
			}
			o.Progress("buffer, frames of %d bytes, %s", size, class)
			x, err := measureInflection(size, class == bufferLossless, o.Seed)
			if err != nil {
				return err
			}
			metric := fmt.Sprintf("buffer, frames of %d B", size)
			if class == bufferLossy {
				r.Add(compare.Trial{
					Name: class, Metric: metric, Unit: "frames", Value: float64(x.frames),
					Detail: map[string]float64{"bytes": float64(x.frames * size), "latency_ns": float64(x.latency),
						"latency_later_ns": float64(x.latencyLater)},
				})
				r.Limit(fmt.Sprintf("vs_configured_%dB", size), metric, class, float64(bufferHolds(size)),
					compare.Equal)
			}
			r.Add(compare.Trial{Name: class, Metric: fmt.Sprintf("lost of twice as many, frames of %d B", size),
				Unit: "frames", Value: float64(x.lost)})
			row := []string{fmt.Sprintf("%d B", size), class, "no loss", "", "", "", "",
				fmt.Sprintf("%.1f", float64(x.latencyLater)/1e3), fmt.Sprint(x.lost)}
			if x.frames > 0 {
				row[2], row[3], row[5] = fmt.Sprint(x.frames), fmt.Sprint(x.frames*size), fmt.Sprint(bufferHolds(size))
				row[4] = fmt.Sprintf("%.0f %%", 100*float64(x.frames*(size-frame.FCS))/(bufferQueue*sim.CellSize))
				row[6] = fmt.Sprintf("%.1f", float64(x.latency)/1e3)
			}
			t.Rows = append(t.Rows, row)
			if size == 64 || size == 1518 {
				plot.Series = append(plot.Series, compare.Series{Name: fmt.Sprintf("%d B, %s", size, class),
					Points: x.points})
			}
		}
	}
	return nil
}

// bufferHolds returns how many frames of a size fit the configured queue.
func bufferHolds(size int) int { return bufferQueue / sim.DivideUp(size-frame.FCS, sim.CellSize) }

// inflection is the point at which the latency stops growing.
type inflection struct {
	frames       int // sent by the oversubscribing port up to the first loss; 0: no loss
	latency      int64
	latencyLater int64 // ns, the maximum when twice as many were sent
	lost         int
	points       [][2]float64
}

// bufferLab is a switch with a target behind port 0, whose address it knows, and senders behind the
// other ports.
type bufferLab struct {
	*sim.Fabric
	sw      *sim.Switch
	target  *sim.Host
	senders []*sim.Host
}

func newBufferLab(lossless bool, flows []traffic.Flow, seed uint64) (*bufferLab, error) {
	x := &bufferLab{Fabric: sim.NewFabric(seed)}
	x.Untraced = true
	cable := sim.Cable{Rate: bufferRate, Metres: 10}
	var err error
	x.sw, err = x.AddLosslessSwitch("sw", sim.LosslessSwitch{Ports: 1 + len(flows), Cable: cable, XOFF: bufferShare,
		Queue: bufferQueue})
	if err != nil {
		return x, err
	}
	addHost := func(port int, f traffic.Flow) *sim.Host {
		h, failed := x.AddHost(fmt.Sprintf("host %d", port), x.sw, port, cable, traffic.Params{
			MAC: bufferMAC + frame.MAC(port), Speed: bufferRate, InFlight: cable.InFlight(), Flows: []traffic.Flow{f},
			Priorities: 1 << sim.LosslessCoS,
		})
		err = errors.Join(err, failed)
		return h
	}
	x.target = addHost(0, traffic.Flow{ID: 63, Dst: bufferMAC + 1, VID: 100, Size: traffic.MinSize, Count: 1})
	x.Run(bufferQuiet)
	for i, f := range flows {
		f.ID, f.Dst, f.VID = uint32(i), bufferMAC, 100
		if lossless {
			f.PCP = sim.LosslessCoS
		}
		x.senders = append(x.senders, addHost(1+i, f))
	}
	return x, err
}

// sent returns how many frames a sender has sent so far.
func (x *bufferLab) sent(sender int) int { return int(x.senders[sender].Stats(x.Now()).Sent[0].Frames) }

// Latency returns the longest latency of a sender's frames from the wire, ns.
func (x *bufferLab) Latency(sender uint32) int64 {
	for _, f := range x.target.Stats(x.Now()).Received {
		if f.ID == sender {
			return f.FromWire.Max
		}
	}
	return 0
}

// dropped returns how many frames the switch has dropped.
func (x *bufferLab) dropped() (n int) {
	ports := x.sw.Ports(x.Now())
	for i := range ports {
		n += int(ports[i].Dropped())
	}
	return n
}

// measureInflection oversubscribes a port by 1 % until a frame is lost, and for as long again.
func measureInflection(size int, lossless bool, seed uint64) (p inflection, err error) {
	stored := size - frame.FCS
	x, err := newBufferLab(lossless, []traffic.Flow{{Size: stored}, {Size: stored, Rate: bufferRate / 100}}, seed)
	defer func() { err = errors.Join(err, x.Close()) }()
	if err != nil {
		return p, err
	}
	before := x.dropped()
	for end := 3 * bufferHolds(size); x.sent(1) < end; {
		x.Run(bufferGrain * int64(max(1, stored/200)))
		p.latencyLater = x.Latency(0)
		if n := x.sent(1); len(p.points) == 0 || float64(n) > p.points[len(p.points)-1][0] {
			p.points = append(p.points, [2]float64{float64(n), float64(p.latencyLater) / 1e3})
		}
		if p.frames == 0 && x.dropped() > before {
			p.frames, p.latency = x.sent(1), p.latencyLater
			end = 2 * p.frames
		}
	}
	p.lost = x.dropped() - before
	return p, x.Check()
}

// addMicrobursts searches for the largest bursts without loss.
func addMicrobursts(ctx context.Context, o compare.Options, r *compare.Report, senders []int) error {
	t := compare.Table{
		Title: "Largest microburst without loss (RFC 8239, section 4), frames of all senders together",
		Head:  []string{"frame", "senders", "lossy class", "configured", "lossless class, lost of ten times as many"},
	}
	defer func() { r.Table(t) }()
	for _, size := range []int{64, 1518} {
		for _, n := range senders {
			if err := ctx.Err(); err != nil {
				return err
			}
			o.Progress("microbursts, frames of %d bytes, %d senders", size, n)
			largest, err := largestBurst(n, size, o.Seed)
			if err != nil {
				return err
			}
			lost, err := burstLoss(n, 10*largest, size, true, o.Seed)
			if err != nil {
				return err
			}
			configured := n * bufferHolds(size) / (n - 1)
			metric := fmt.Sprintf("microburst of %d senders, frames of %d B", n, size)
			r.Add(compare.Trial{
				Name: bufferLossy, Metric: metric, Unit: "frames", Value: float64(n * largest),
				Detail: map[string]float64{"bytes": float64(n * largest * size), "configured": float64(configured)},
			})
			r.Add(compare.Trial{
				Name: bufferLossless, Metric: "lost of ten times the " + metric, Unit: "frames", Value: float64(lost),
				Detail: map[string]float64{"sent": float64(10 * n * largest)},
			})
			t.Rows = append(t.Rows, []string{
				fmt.Sprintf("%d B", size), fmt.Sprint(n), fmt.Sprint(n * largest), fmt.Sprint(configured),
				fmt.Sprint(lost),
			})
		}
	}
	return nil
}

// largestBurst returns the most frames per sender without loss.
func largestBurst(senders, size int, seed uint64) (int, error) {
	good, bad := 0, 4*bufferQueue
	for bad-good > 1 {
		k := (good + bad) / 2
		lost, err := burstLoss(senders, k, size, false, seed)
		if err != nil {
			return 0, err
		}
		if lost == 0 {
			good = k
		} else {
			bad = k
		}
	}
	return good, nil
}

// burstLoss returns how many frames are lost of simultaneous bursts from all senders.
func burstLoss(senders, frames, size int, lossless bool, seed uint64) (lost int, err error) {
	flows := make([]traffic.Flow, senders)
	for i := range flows {
		flows[i] = traffic.Flow{Size: size - frame.FCS, Count: uint64(frames)}
	}
	x, err := newBufferLab(lossless, flows, seed)
	defer func() { err = errors.Join(err, x.Close()) }()
	if err != nil {
		return 0, err
	}
	x.Run(sim.WireTime(senders*frames*(size-frame.FCS+frame.WireOverhead), bufferRate) / 1000)
	if err := x.Settle(10e6); err != nil {
		return 0, err
	}
	for i := range x.senders {
		lost += x.sent(i)
	}
	for _, f := range x.target.Stats(x.Now()).Received {
		lost -= int(f.Frames)
	}
	return lost, x.Check()
}
