package dataplane

// DefaultBudget is the most frames that Params.Budget may allow, and what it allows if it is 0.
// More gain nothing: an iteration that has so many frames to move lasts for some tens of
// microseconds, and so long a port's device is busy with what it was given before.
const DefaultBudget = 1024

const (
	// leastBudget is what Budget returns at the least: with less, most of an iteration would be
	// spent on other things than frames.
	leastBudget = burstSize
	// leastBurst is how many frames a port may take in a pass at the least, if the budget is not
	// smaller still.
	leastBurst = 8
)

// FrameCost bounds what an iteration takes for a frame of its budget, in ns: to receive, to send
// and to take back a frame with cold caches, or to drop it. Iterations are bounded by their budget,
// and a budget by the time that it may take, so this is what joins the two; `sluice-lab bench run
// pipeline` and BenchmarkOverload measure a third of it.
const FrameCost = 100

// LeastResponse returns the shortest time, ns, that Budget can keep to with so many ports of a
// worker.
func LeastResponse(ports int) int64 { return 4 * FrameCost * int64(max(leastBudget, leastBurst*ports)) }

// Budget returns Params.Budget for a loop that is to look at each port at least once in so many ns.
// A port is looked at again in the iteration after, whose passes may reach it last where the one
// before began with it: that makes two iterations. Each of them may exceed its budget by a pass,
// which is as much again.
func Budget(ns int64) int {
	return int(max(leastBudget, min(DefaultBudget, ns/(4*FrameCost))))
}

// budget bounds an iteration, over all ports: frames received and copies made of them, frames sent,
// buffers taken back, frames that other workers sent and buffers that they gave back. It is spent
// burst by burst. In an iteration's first pass every port may send a burst and take one back,
// whatever is left.
type budget struct {
	receive, send, reap, cross, home int // left
	first                            bool
	size                             int
}

func (b *budget) renew() {
	b.receive, b.send, b.reap, b.cross, b.home, b.first = b.size, b.size, b.size, b.size, b.size, true
}

// grants tells whether another burst may be spent, where so much is left.
func (b *budget) grants(left int) bool { return b.first || left > 0 }

// quantum is how many frames a port receives in a pass at the most, given how many ports there are:
// a pass is not to exceed the budget by more than what the smallest bursts make inevitable.
func (b *budget) quantum(ports int) int {
	return max(min(leastBurst, b.size), min(burstSize, b.size/max(1, ports)))
}

// holdUnread stops the peers, in all lossless priorities, of ports where frames still wait though
// the iteration's budget is spent, and no longer those of others. What waits with a driver is
// charged to no group, so no group could say so; it is no more than the peer sends until it has
// stopped, which the headroom has room for.
func (w *Worker) holdUnread(now int64) {
	w.behind = w.unread
	for _, p := range w.own {
		if p.behind = p.unread && p.driver != nil && p.flow.on() && p.up; p.behind {
			p.count.Behind++
			w.sendPauses(p, now)
			p.driver.Flush()
		}
	}
}
