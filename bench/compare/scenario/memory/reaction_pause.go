package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"sluice/bench/sim"
	"sluice/bench/traffic"
	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pmd/mem"
)

// pauseResponse is a switch with two senders that overload a host's line with lossless frames. The
// host stops them at unpredictable times. All lines have 10 Gbit/s.
type pauseResponse struct {
	InFlight int // bytes that a port may hand to its driver
	Size     int // of the frames, bytes without FCS
	Pauses   int
	Seed     uint64
}

// Bound returns the longest response, ns: the longest time between two polls plus the wire time of
// all frames in flight, including the frame that exceeds the limit.
func (x pauseResponse) Bound() int64 {
	frames := (x.InFlight + x.Size - 1) / x.Size
	return sim.PollMax + sim.WireTime(frames*(x.Size+frame.WireOverhead), reactionSpeed)/1000
}

// Run returns the times from the arrival of an XOFF at the switch to the end of the last frame
// before the pause.
func (x pauseResponse) Run() (l *line.Histogram, err error) {
	const metres, quiet = 10, 20_000
	const receiver, sender = frame.MAC(0x0200_0000_0001), frame.MAC(0x0200_0000_0002) // and the next
	f := sim.NewFabric(x.Seed)
	f.Untraced = true
	defer func() { err = errors.Join(err, f.Close()) }()
	cable := sim.Cable{Rate: reactionSpeed, Metres: metres, Ring: 2048}
	s, err := f.AddLosslessSwitch("sw", sim.LosslessSwitch{Ports: 3, Cable: cable, InFlight: x.InFlight})
	if err != nil {
		return nil, err
	}
	var receivedAt, leftAt int64
	watched := cable
	watched.Fault = func(at int64, toSwitch bool, b []byte) mem.Fault {
		var h frame.Header
		frame.Parse(b, &h)
		switch {
		case toSwitch && h.Type == frame.TypeMACControl:
			receivedAt = at
		case !toSwitch && h.Type == line.TestType:
			leftAt = at - mem.Length(metres)
		}
		return mem.Deliver
	}
	hello := traffic.Flow{ID: 2, Dst: sender, VID: 100, Size: traffic.MinSize, Count: 1}
	receiving, err := f.AddHost("receiver", s, 0, watched, traffic.Params{
		MAC: receiver, Speed: reactionSpeed, InFlight: 1 << 14, Flows: []traffic.Flow{hello},
	})
	if err != nil {
		return nil, err
	}
	f.Run(quiet) // the receiver announces its address
	for i := range 2 {
		flow := traffic.Flow{ID: uint32(i), Dst: receiver, VID: 100, PCP: sim.LosslessCoS, Size: x.Size}
		if _, err = f.AddHost("sender", s, 1+i, cable, traffic.Params{
			MAC: sender + frame.MAC(i), Speed: reactionSpeed, InFlight: 1 << 14, Flows: []traffic.Flow{flow},
			Priorities: 1 << sim.LosslessCoS,
		}); err != nil {
			return nil, err
		}
	}
	l, rng := new(line.Histogram), rand.New(rand.NewPCG(x.Seed, 2))
	for range x.Pauses {
		for _, quanta := range []uint16{65535, 0} {
			if !receiving.Pause(quanta) {
				return nil, errors.New("bench: inject a PFC frame: the last one has not been sent yet")
			}
			f.Run(x.Bound() + quiet + rng.Int64N(quiet))
			if quanta > 0 {
				l.Record(leftAt-receivedAt, 1)
			}
		}
	}
	ports := s.Ports(f.Now())
	for i := range ports {
		if n := ports[i].LosslessDrops(); n > 0 {
			return nil, fmt.Errorf("bench: port %d dropped %d lossless frames", i, n)
		}
	}
	return l, f.Check()
}
