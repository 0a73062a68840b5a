package adversary

import (
	"math/bits"

	"sluice/internal/dataplane"
)

// ambush is the worst known attack on one lossless group, step by step:
//
//  1. The peer of another port (egress) stops the group's class, so that frames from the group's
//     port stay in the switch. The group's own peer (victim) stops the class too, and a third
//     peer sends as much of it as the TX ring of the group's port takes. These frames wait in the
//     egress queue there.
//  2. The group's peer fills the group exactly to its limit.
//  3. It resumes the class. Right after the worker has received that, a longest frame arrives and
//     crosses the limit. The frames that fill the most cells follow without a gap.
//  4. Before the worker fills the TX ring with the waiting frames, it is interrupted for as long
//     as possible. So the pause comes late and waits behind all these frames.
func (w *world) ambush() {
	if len(w.peers) < 3 {
		return
	}
	order := w.rng.Perm(len(w.peers))
	for range order {
		victim, egress := w.peers[order[0]], w.peers[order[1]]
		both := w.config.Ports[victim.port].PFC & w.config.Ports[egress.port].PFC
		for ; both != 0; both &= both - 1 {
			if w.ambushGroup(victim, egress, order[2:], uint8(bits.TrailingZeros8(both))) {
				return
			}
		}
		order = append(order[1:], order[0])
	}
}

// ambushGroup attacks a group of the victim, with the help of other peers, if that is feasible.
func (w *world) ambushGroup(victim, egress *peer, helpers []int, q uint8) (feasible bool) {
	limit, queued, feasible := w.ambushable(victim, q, len(helpers))
	if !feasible {
		return false
	}
	egress.say(1<<q, 65535)
	victim.say(1<<q, 65535)
	w.run(w.gap + 20_000)
	// The last frame that waits for the TX ring is the longest; those before it are the shortest.
	for i, n := range helpers {
		helper, left := w.peers[n], queued/len(helpers)
		if i == 0 {
			left += queued % len(helpers)
		}
		helper.traffic = traffic{priorities: []uint8{q}, to: []int{victim.port}, size: shortestFrames, left: left}
		w.run(2*w.gap + int64(left+10)*helper.slot(shortest)/1000 + 20_000)
	}
	w.peers[helpers[0]].traffic = traffic{priorities: []uint8{q}, to: []int{victim.port}, size: longestFrames, left: 1}
	w.run(w.gap + 20_000)
	victim.traffic = traffic{priorities: []uint8{q}, to: []int{egress.port}, size: shortestFrames, left: limit}
	w.run(2*w.gap + int64(limit+10)*victim.slot(shortest)/1000 + 20_000)
	if w.full(victim, q, limit) {
		w.spring(victim, egress, q)
	}
	victim.traffic = traffic{}
	egress.say(1<<q, 0)
	victim.say(1<<q, 0)
	w.run(1_000_000)
	return true
}

// ambushable returns how many cells the group may hold before it needs headroom and how many of the
// shortest frames the TX ring of its port takes. It reports whether an ambush by this many helpers
// can reach both.
func (w *world) ambushable(victim *peer, q uint8, helpers int) (limit, queued int, feasible bool) {
	p := &w.params.Ports[victim.port]
	g := p.Cells.Groups[q]
	queued = (p.InFlight - 1) / shortest
	limit = g.Reserved + g.Share
	ring := p.Buffers - dataplane.ControlBuffers
	lasts := int64(8+2*helpers)*w.gap + int64(queued+limit+20+10*helpers)*victim.slot(shortest)/1000 +
		int64(80_000+20_000*helpers)
	return limit, queued, g.Alpha == 0 && queued < min(helpers*limit, w.params.Budget-64, ring-64) &&
		w.params.CellSize >= shortest &&
		w.gap > victim.slot(p.MaxLossless)/1000+1000 && lasts < victim.pause(65535)
}

// full reports whether the group is filled exactly to its limit.
func (w *world) full(victim *peer, q uint8, limit int) bool {
	p := &w.s.Ports(w.now)[victim.port]
	g := &p.Groups[q]
	return g.Reserved+g.Shared == limit && g.Headroom == 0 && p.PausedPeer == 0
}

// spring performs steps 3 and 4 of an ambush.
func (w *world) spring(victim, egress *peer, q uint8) {
	d := victim.driver
	l := d.loop
	victim.say(1<<q, 0)
	victim.traffic = traffic{}
	w.run(0) // the peer begins to send the XON
	victim.traffic = traffic{priorities: []uint8{q}, to: []int{egress.port}, size: densestFrames, left: -1, first: true}
	resumes := victim.lineFree/1000 + w.delay[victim.port]
	crosses := resumes + victim.slot(victim.longest(q))/1000
	w.run(resumes - 2 - w.now)
	l.wakeAt = crosses - 1
	d.before = func() {
		l.interrupt(w.gap, 0)
		l.rush = true
	}
	w.run(w.stopping(victim.port) + 20_000)
	d.before = nil
}
