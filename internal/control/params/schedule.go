package params

import (
	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/sched"
)

// burstTime is the default burst of a shaper: how long it may be left unserved and still keep its
// rate, ns.
const burstTime = 100_000

// innerTSA is the algorithm among the queues of a group.
var innerTSA = map[config.Inner]sched.TSA{config.InnerDRR: sched.ETS, config.InnerStrict: sched.StrictPriority}

// schedule translates the ETS profile of a port. The scheduler's groups have the profile's numbers.
func schedule(port *config.Port) sched.Params {
	longest := port.MaxFrame()
	p := sched.Params{
		Rate: port.SendRate(), Burst: burst(port.SendRate(), longest), Overhead: frame.WireOverhead, MaxFrame: longest,
		Groups: make([]sched.GroupParams, config.StrictGroup+1),
	}
	for _, g := range port.ETS.Groups {
		group := sched.GroupParams{TSA: sched.ETS, Weight: g.Weight, Shape: shape(g.Rate, g.Burst, longest)}
		if g.PG == config.StrictGroup {
			group = sched.GroupParams{TSA: sched.StrictPriority, Shape: group.Shape}
		}
		p.Groups[g.PG] = group
	}
	for cos := range dataplane.Priorities {
		g, q := port.ETS.Group(cos), port.ETS.Queue(cos)
		p.Queues[cos] = sched.QueueParams{
			Group: g.PG, TSA: innerTSA[g.Inner], Weight: q.Weight, Shape: shape(q.Rate, q.Burst, longest),
		}
	}
	return p
}

// shape translates a shaper; a rate of 0 means none.
func shape(rate uint64, bytes, longest int) sched.Shape {
	if rate > 0 && bytes == 0 {
		bytes = burst(rate, longest)
	}
	return sched.Shape{Rate: rate, Burst: bytes}
}

// burst returns the default burst of a shaper: a frame, and what its rate sends in burstTime.
func burst(rate uint64, longest int) int {
	return longest + frame.WireOverhead + int(rate/8*burstTime/1e9)
}
