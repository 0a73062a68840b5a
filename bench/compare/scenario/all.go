// Package scenario lists the scenarios of the benchmarks.
package scenario

import (
	"sluice/bench/compare"
	"sluice/bench/compare/scenario/memory"
	"sluice/bench/compare/scenario/veth"
	"sluice/bench/compare/scenario/virtual"
)

// All returns all scenarios, in the order of the documentation.
func All() []compare.Scenario {
	return []compare.Scenario{
		memory.Pipeline, veth.Veth, memory.Ring, memory.Schedule,
		veth.Incast, veth.HOL, virtual.ETS, memory.Reaction, virtual.Headroom, virtual.Buffer, memory.Scale,
		veth.Soak,
	}
}
