package state

// ETS is how the scheduler serves the queue of a CoS, by the ETS profile of its port (IEEE
// 802.1Qaz).
type ETS struct {
	Group        int     `json:"group" help:"Number of its priority group"`
	GroupName    string  `json:"group_name" help:"Name of its priority group"`
	GroupPercent int     `json:"group_percent" help:"Share of the group, in percent of what strict groups leave; 0: the group is strict"`
	Strict       bool    `json:"strict" help:"Whether the group is sent before all others"`
	Weight       int     `json:"weight" help:"Weight of the queue in its group; 0: the group sends the highest CoS first"`
	LeastPercent float64 `json:"least_percent" help:"Minimum share of the queue, in percent of what strict groups leave, while all queues have frames; 0: no minimum"`
	Rate         uint64  `json:"rate_bps" clear:"no" help:"Maximum rate of queue and group in bit/s on the wire; 0: no limit"`
}
