package state

// ETS is how the scheduler serves the queue of a CoS, by the ETS profile of its port (IEEE 802.1Qaz).
type ETS struct {
	Group        int     `json:"group"` // the number of its priority group
	GroupName    string  `json:"group_name"`
	GroupPercent int     `json:"group_percent"`   // of what strict groups leave; 0: the group is strict
	Strict       bool    `json:"strict"`          // the group goes before the others
	Weight       int     `json:"weight"`          // of the queue in its group; 0: the highest CoS goes first there
	LeastPercent float64 `json:"least_percent"`   // of what strict groups leave, when all queues have frames; 0: there is no such share
	Rate         uint64  `json:"rate" clear:"no"` // bit/s on the wire at the most, of queue and group; 0: no limit
}
