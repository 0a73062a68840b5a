package state

// ETS is how the scheduler serves the queue of a CoS, by the ETS profile of its port (IEEE
// 802.1Qaz).
type ETS struct {
	Group        int     `json:"group" help:"The number of its priority group"`
	GroupName    string  `json:"group_name" help:"The name of its priority group"`
	GroupPercent int     `json:"group_percent" help:"Share of the group of what strict groups leave; 0: the group is strict"`
	Strict       bool    `json:"strict" help:"Whether the group goes before the others"`
	Weight       int     `json:"weight" help:"Of the queue in its group; 0: the highest CoS goes first there"`
	LeastPercent float64 `json:"least_percent" help:"Share of the queue of what strict groups leave, when all queues have frames; 0: there is no such share"`
	Rate         uint64  `json:"rate_bps" clear:"no" help:"Bit/s on the wire at the most, of queue and group; 0: no limit"`
}
