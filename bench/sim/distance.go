package sim

import (
	"errors"
	"fmt"

	"sluice/bench/traffic"
	"sluice/cells"
	"sluice/cells/headroom"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
)

// LongLink is a link of any length between a sender that always has frames to send and a receiver
// with a buffer of fixed size. It compares the throughput under PFC and under buffer-to-buffer
// credits (the question of Cisco, "Priority Flow Control: Build Reliable Layer 2 Infrastructure",
// 2009, figures 3 and 4).
//
// Under PFC the receiver is a switch with the real engines. It forwards everything to a faster link
// whose far end stops it with PFC of its own whenever the Drain stalls. The headroom for the
// distance (headroom.Exact) is set aside from the buffer; the rest is the XOFF threshold.
type LongLink struct {
	Rate   uint64 // bit/s
	Buffer int    // of the receiver, cells
	Cell   int    // bytes
	Frame  int    // bytes without FCS, a VLAN tag included
	Jumbo  int    // bytes without FCS: the longest frame of any class that may be ahead of an XOFF
	Drain  Drain
	Seed   uint64
	Time   int64 // ns of virtual time for which each point is observed
}

// NewLongLink returns FCoE over 10 Gbit/s into a port of a Cisco Nexus 5000: frames of 2240 bytes
// beside classes with 9216, and a buffer of 480 KiB in cells of 160 bytes, by the same document.
// The receiver stalls for 50 µs on average, long enough to fill an eighth of the buffer, then
// drains at twice the link's rate for 75 µs. So it could take 120 % of the link's rate.
func NewLongLink(seed uint64) LongLink {
	return LongLink{
		Rate: 10e9, Buffer: 480 << 10 / 160, Cell: 160, Frame: 2240 - frame.FCS, Jumbo: 9216 - frame.FCS,
		Drain: Drain{Rate: 20e9, Stall: 50e3, Run: 75e3},
		Seed:  seed, Time: 100e6,
	}
}

// LinkPoint is the result at one distance.
type LinkPoint struct {
	Metres    float64
	Headroom  int     // cells; 0 under credits
	Threshold int     // cells in use at which XOFF is sent; under credits the whole buffer
	Use       float64 // of the link, 0 to 1
	XOFF      float64 // sent per second
	Lost      uint64  // frames
}

// Reach returns the largest distance, in whole metres, at which PFC can be lossless. Beyond it the
// headroom exceeds the buffer.
func (l LongLink) Reach() (float64, error) {
	reach := 0
	for step := 1 << 24; step > 0; step >>= 1 {
		threshold, err := l.Threshold(float64(reach + step))
		if err != nil {
			return 0, err
		}
		if threshold >= 0 {
			reach += step
		}
	}
	return float64(reach), nil
}

// headroom returns the headroom for a distance, in cells.
func (l LongLink) headroom(metres float64) (int, error) {
	r, err := headroom.Compute(headroom.Exact, headroom.Params{
		Speed: l.Rate, MTUOwn: l.Jumbo + frame.FCS, MTUPeer: l.Frame + frame.FCS,
		Metres: metres, Medium: headroom.Fibre, Cell: l.Cell, Unstored: frame.FCS,
	})
	return r.Cells, err
}

// Credits returns the point under credits, one for each frame that fits the buffer.
func (l LongLink) Credits(metres float64) LinkPoint {
	link := CreditLink{
		Rate: l.Rate, Metres: metres, Credits: l.Buffer / l.frameCells(), Frame: l.Frame + frame.WireOverhead,
		Drain: l.Drain,
	}
	return LinkPoint{Metres: metres, Threshold: l.Buffer, Use: link.Run(l.Seed, l.Time).Use}
}

func (l LongLink) frameCells() int { return DivideUp(l.Frame, l.Cell) }

// PFC returns the point under PFC with the highest threshold that leaves room for the headroom. It
// fails beyond Reach.
func (l LongLink) PFC(metres float64) (LinkPoint, error) {
	threshold, err := l.Threshold(metres)
	if err != nil {
		return LinkPoint{}, err
	}
	return l.PFCAt(metres, threshold)
}

// Threshold returns the highest threshold, in cells, that leaves room for the headroom. Beyond
// Reach it is negative.
func (l LongLink) Threshold(metres float64) (int, error) {
	room, err := l.headroom(metres)
	return l.Buffer - room, err
}

// PFCAt returns the point under PFC with a threshold in cells. It fails if threshold and headroom
// together exceed the buffer.
func (l LongLink) PFCAt(metres float64, threshold int) (p LinkPoint, err error) {
	p = LinkPoint{Metres: metres, Threshold: threshold}
	if p.Headroom, err = l.headroom(metres); err != nil {
		return p, err
	}
	if threshold < 0 || threshold+p.Headroom > l.Buffer {
		return p, fmt.Errorf("bench: %.0f m: a threshold of %d cells and a headroom of %d must fit into a buffer of %d",
			metres, threshold, p.Headroom, l.Buffer)
	}
	memory, err := umem.Map(8192, 4096)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	f := NewFabric(l.Seed)
	receiver, err := f.AddSwitch("receiver", l.receiver(memory, p))
	if err != nil {
		return p, err
	}
	const source, sink = frame.MAC(0x0200_0000_0001), frame.MAC(0x0200_0000_0002)
	sender, err := f.AddHost("sender", receiver, 0, Cable{Rate: l.Rate, Metres: metres, MTU: l.Frame}, traffic.Params{
		MAC: source, Speed: l.Rate, InFlight: 2 * l.Frame, Priorities: 1 << LosslessCoS,
		Flows: []traffic.Flow{{Dst: sink, PCP: LosslessCoS, Size: l.Frame}},
	})
	if err != nil {
		return p, err
	}
	drain, err := f.AddHost("drain", receiver, 1, Cable{Rate: l.Drain.Rate, Metres: 1, MTU: l.Frame},
		traffic.Params{MAC: sink, Speed: l.Drain.Rate})
	if err != nil {
		return p, err
	}
	l.stall(f, drain)

	slots := int64(sender.Stats(f.Now()).Sent[0].Frames) * WireTime(l.Frame+frame.WireOverhead, l.Rate)
	p.Use = float64(slots) / float64(f.Now()*1000)
	ports := receiver.Ports(f.Now())
	p.XOFF = float64(ports[0].PFCSent.XOFF[LosslessCoS]) / float64(f.Now()) * 1e9
	p.Lost = ports[0].Dropped() + ports[1].Dropped()
	return p, f.Check()
}

// stall runs a fabric whose drain stops the switch with PFC for each stall.
func (l LongLink) stall(f *Fabric, drain *Host) {
	for s := l.Drain.stalls(l.Seed); f.Now() < l.Time; s.next() {
		f.Run(min(s.from, l.Time) - f.Now())
		drain.Pause(65535)
		f.Run(min(s.to, l.Time) - f.Now())
		drain.Pause(0)
	}
}

// receiver returns the switch: port 0 towards the sender, port 1 towards the drain. It resumes the
// sender as soon as there is room for two frames below the threshold. Frames in flight to the drain
// can't be called back and shorten each stall, so the limit is low: one frame being sent and one
// behind it.
func (l LongLink) receiver(memory *umem.Memory, at LinkPoint) dataplane.Params {
	p := dataplane.Params{
		Memory: memory, CellSize: l.Cell, Workers: 1,
		Bridge: bridge.Params{Mode: bridge.Wire, Ports: []bridge.PortParams{{Peer: 1}, {Peer: 0}}},
	}
	for i, rate := range []uint64{l.Rate, l.Drain.Rate} {
		p.Ports = append(p.Ports, losslessPort(fmt.Sprint(i), l.Frame, 2*l.Frame, rate))
	}
	p.Ports[0].Cells.Groups[LosslessCoS] = cells.GroupParams{
		Lossless: true, Share: at.Threshold, Headroom: at.Headroom, XON: max(0, at.Threshold-2*l.frameCells()),
	}
	return p
}
