package dataplane

// DefaultBudget is the largest Params.Budget, and the one that 0 stands for. A larger budget gains
// nothing: an iteration that moves this many frames takes tens of microseconds, and for that long a
// port's device is busy with what it already has.
const DefaultBudget = 1024

const (
	// leastBudget is the smallest budget that Budget returns. With less, an iteration would spend
	// most of its time on other things than frames.
	leastBudget = burstSize
	// leastBurst is the smallest burst that a port may receive in a pass, unless the budget is
	// smaller.
	leastBurst = 8
)

// FrameCost bounds the time, in ns, that an iteration takes per frame of its budget: to receive,
// send and take back a frame with cold caches, or to drop it. It converts a response time into a
// budget. `sluice-lab bench run pipeline` and BenchmarkOverload measure a third of it.
const FrameCost = 100

// LeastResponse returns the shortest time, in ns, that Budget can keep to for a worker with this
// many ports.
func LeastResponse(ports int) int64 { return 4 * FrameCost * int64(max(leastBudget, leastBurst*ports)) }

// Budget returns the Params.Budget with which the loop looks at each port at least once every ns
// nanoseconds. A port may come first in one iteration and last in the next, so two iterations may
// pass in between. Each of them may exceed its budget by one pass, which is as much again.
func Budget(ns int64) int {
	return int(max(leastBudget, min(DefaultBudget, ns/(4*FrameCost))))
}

// budget bounds an iteration over all ports: frames received and copies made of them, frames sent,
// buffers taken back, frames that other workers sent, and buffers that they returned. It is spent
// burst by burst. In the first pass of an iteration every port may send a burst and take one back,
// whatever is left.
type budget struct {
	receive, send, reap, cross, home int // left
	first                            bool
	size                             int
}

func (b *budget) renew() {
	b.receive, b.send, b.reap, b.cross, b.home, b.first = b.size, b.size, b.size, b.size, b.size, true
}

// grants reports whether another burst may be spent when this much is left.
func (b *budget) grants(left int) bool { return b.first || left > 0 }

// quantum returns the most frames that each of this many ports receives in a pass. A pass exceeds
// the budget by no more than the smallest bursts require.
func (b *budget) quantum(ports int) int {
	return max(min(leastBurst, b.size), min(burstSize, b.size/max(1, ports)))
}

// holdUnread stops all lossless priorities of the peers of ports where frames still wait after the
// iteration's budget is spent. It no longer stops those of other ports. Waiting frames are charged
// to no group, so no group can become congested by them. The peer sends no more than these until it
// has stopped, and the headroom has room for that.
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
