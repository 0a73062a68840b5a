// Package scenario lists the scenarios of the benchmarks.
package scenario

import (
	"sluice/bench"
	"sluice/bench/scenario/memory"
	"sluice/bench/scenario/veth"
	"sluice/bench/scenario/virtual"
)

// All returns all scenarios, in the order of the documentation.
func All() []bench.Scenario {
	return []bench.Scenario{
		memory.Pipeline, veth.Veth, veth.VethAlone, veth.TXOnly, veth.Handover, memory.Ring, memory.Schedule,
		veth.Incast, veth.HOL, virtual.ETS, memory.Reaction, virtual.Headroom, virtual.Buffer, memory.Scale,
		veth.Operate, veth.Soak,
	}
}
