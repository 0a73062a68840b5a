package sched

import (
	"testing"

	"pgregory.net/rapid"
)

// twoLevels drives a whole scheduler and compares all pairs of queues in a group, and all pairs of
// groups.
type twoLevels struct {
	*Scheduler
	params  Params
	longest int // bytes on the wire
	paused  uint8
	free    []uint32
	home    [twoLevelBuffers]int
	queues  [Queues][Queues]ledger
	groups  [Queues][Queues]ledger
}

const twoLevelBuffers = 64

// able returns the queues, and the groups, that compete for turns at the moment.
func (f *twoLevels) able() (queues, groups [Queues]bool) {
	for i, q := range f.params.Queues {
		may := f.Frames(i) > 0 && f.paused>>i&1 == 0
		queues[i] = may && q.TSA == ETS
		groups[q.Group] = groups[q.Group] || may && f.params.Groups[q.Group].TSA == ETS
	}
	return queues, groups
}

// update starts the ledgers of pairs that compete, and stops the others.
func (f *twoLevels) update() {
	queues, groups := f.able()
	for i := range Queues {
		for j := range i {
			same := f.params.Queues[i].Group == f.params.Queues[j].Group
			f.queues[i][j].run(queues[i] && queues[j] && same)
			f.groups[i][j].run(groups[i] && groups[j])
		}
	}
}

// enter adds a frame of member i to its ledgers; quantum returns the quantum of each other member.
func enter(ledgers *[Queues][Queues]ledger, i, wire int, quantum func(int) int) {
	for j := range Queues {
		switch {
		case j < i && ledgers[i][j].running:
			ledgers[i][j].add(wire * quantum(j))
		case j > i && ledgers[j][i].running:
			ledgers[j][i].add(-wire * quantum(j))
		}
	}
}

// fair demands that no pair was further apart, over any interval, than the given number of turns
// and one longest frame of each.
func fair(t *rapid.T, of string, ledgers *[Queues][Queues]ledger, turns, longest int, quantum func(int) int) {
	for i := range Queues {
		for j := range i {
			qi, qj := quantum(i), quantum(j)
			if l := ledgers[i][j]; l.high-l.low > turns*qi*qj+longest*(qi+qj) {
				t.Fatalf("%s %d and %d, quanta %d and %d: unfair by %d turns' worth", of, i, j, qi, qj,
					(l.high-l.low)/qi/qj)
			}
		}
	}
}

// queueQuantum and groupQuantum compute quanta independently: the longest frame for the smallest
// weight among competitors, and the others in proportion.
func (f *twoLevels) queueQuantum(i int) int {
	least := f.params.Queues[i].Weight
	for _, q := range f.params.Queues {
		if q.TSA == ETS && q.Group == f.params.Queues[i].Group {
			least = min(least, q.Weight)
		}
	}
	return f.params.Queues[i].Weight * f.longest / least
}

func (f *twoLevels) groupQuantum(i int) int {
	if i >= len(f.params.Groups) {
		return f.longest // there is no such group
	}
	least := f.params.Groups[i].Weight
	for _, q := range f.params.Queues {
		if g := f.params.Groups[q.Group]; g.TSA == ETS {
			least = min(least, g.Weight)
		}
	}
	return f.params.Groups[i].Weight * f.longest / least
}

func (f *twoLevels) arrive(t *rapid.T, queue int) {
	if len(f.free) == 0 {
		return
	}
	id := f.free[0]
	f.free = f.free[1:]
	f.home[id] = queue
	f.Enqueue(queue, id, rapid.OneOf(rapid.IntRange(1, f.params.MaxFrame), rapid.Just(f.params.MaxFrame)).Draw(t,
		"length"))
	f.update()
}

func (f *twoLevels) send(t *rapid.T, turns int) {
	var out [1]uint32
	if f.Dequeue(0, f.paused, unlimited, out[:]) == 0 {
		return
	}
	queue := f.home[out[0]]
	wire := f.arena.Length(out[0]) + f.overhead
	enter(&f.queues, queue, wire, f.queueQuantum)
	enter(&f.groups, f.params.Queues[queue].Group, wire, f.groupQuantum)
	f.free = append(f.free, out[0])
	fair(t, "queues", &f.queues, turns, f.longest, f.queueQuantum)
	fair(t, "groups", &f.groups, turns, f.longest, f.groupQuantum)
	f.update()
}

// drawTwoLevels has weights that divide each other, so that turns are whole numbers of longest
// frames.
func drawTwoLevels(t *rapid.T) *twoLevels {
	p := Params{MaxFrame: rapid.IntRange(50, 300).Draw(t, "max frame"), Overhead: wireOverhead}
	weight := rapid.SampledFrom([]int{1, 2, 4, 8})
	for range rapid.IntRange(1, 4).Draw(t, "groups") {
		p.Groups = append(p.Groups, GroupParams{TSA: drawTSA(t), Weight: weight.Draw(t, "group weight")})
	}
	for i := range p.Queues {
		p.Queues[i] = QueueParams{
			Group: rapid.IntRange(0, len(p.Groups)-1).Draw(t, "group"), TSA: drawTSA(t),
			Weight: weight.Draw(t, "weight"),
		}
	}
	return &twoLevels{
		Scheduler: newScheduler(t, p, NewArena(twoLevelBuffers)), params: p,
		longest: p.MaxFrame + wireOverhead, free: ids(twoLevelBuffers),
	}
}

// driveTwoLevels keeps four queues backlogged; the others run empty at times, and pauses, if any,
// come and go.
func driveTwoLevels(t *rapid.T, pauses bool) {
	f := drawTwoLevels(t)
	turns := 1
	if pauses {
		turns = 2 // the one owed from before the interval
	}
	for range rapid.IntRange(50, 300).Draw(t, "steps") {
		for queue := range 4 {
			for f.Frames(queue) < 2 {
				f.arrive(t, queue)
			}
		}
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0:
			if len(f.free) > 16 {
				f.arrive(t, rapid.IntRange(4, Queues-1).Draw(t, "queue"))
			}
		case 1:
			if pauses {
				f.paused = rapid.Uint8().Draw(t, "paused")
				f.update()
			}
		default:
			f.send(t, turns)
		}
	}
}

// TestTwoLevelFairness demands of all pairs of queues in a group, and of groups, what TestFairness
// demands of members.
func TestTwoLevelFairness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { driveTwoLevels(t, false) })
}

func TestTwoLevelFairnessUnderPauses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { driveTwoLevels(t, true) })
}
