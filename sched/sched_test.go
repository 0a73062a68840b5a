package sched

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// fataler is the part of *testing.T, *testing.B and *rapid.T that helpers use.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newScheduler(t fataler, p Params, a *Arena) *Scheduler {
	t.Helper()
	s, err := New(p, a)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	return s
}

// source keeps queues of a scheduler backlogged with frames of random sizes, and counts the bytes
// on the wire that leave.
type source struct {
	*Scheduler
	random *rand.Rand
	free   []uint32
	home   map[uint32]int // the queue of each waiting frame
	sent   [Queues]int    // bytes
}

const sourceBuffers = 1024

func newSource(t fataler, p Params) *source {
	t.Helper()
	return &source{
		Scheduler: newScheduler(t, p, NewArena(sourceBuffers)), random: rand.New(rand.NewPCG(1, 2)),
		free: ids(sourceBuffers), home: map[uint32]int{},
	}
}

func (s *source) add(queue, length int) {
	id := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.home[id] = queue
	s.Enqueue(queue, id, length)
}

// fill tops up the queues in the mask to at least 40 frames, so that no burst of 32 empties one.
// Sizes differ by queue: the first has small frames, the second large ones, the others any between
// 64 and 9216 bytes.
func (s *source) fill(mask uint8) {
	for queue := range Queues {
		for mask>>queue&1 == 1 && s.Frames(queue) < 40 {
			switch queue {
			case 0:
				s.add(queue, 64+s.random.IntN(1455))
			case 1:
				s.add(queue, 9000+s.random.IntN(217))
			default:
				s.add(queue, 64+s.random.IntN(9153))
			}
		}
	}
}

// dequeue takes out a burst, counts it by queue and returns the queues that it came from, in order.
func (s *source) dequeue(now int64, paused uint8, budget, burst int) []int {
	out := make([]uint32, burst)
	var from []int
	for _, id := range out[:s.Dequeue(now, paused, budget, out)] {
		queue := s.home[id]
		delete(s.home, id)
		s.free = append(s.free, id)
		s.sent[queue] += s.arena.Length(id) + s.overhead
		from = append(from, queue)
	}
	return from
}

const unlimited = 1 << 40 // a budget

// ets returns an unshaped port of one group, with the weights in queues 0, 1, …; the queues after
// them are strict.
func ets(weights ...int) Params {
	p := Params{Overhead: 24, MaxFrame: 9216}
	for i, w := range weights {
		p.Queues[i] = QueueParams{TSA: ETS, Weight: w}
	}
	return p
}

// wantShares demands that the first queues have sent bytes in proportion to the weights, within 1
// %.
func (s *source) wantShares(t *testing.T, weights []int) {
	t.Helper()
	bytes, sum := 0, 0
	for i, w := range weights {
		bytes += s.sent[i]
		sum += w
	}
	for i, w := range weights {
		ideal := float64(w) / float64(sum)
		if got := float64(s.sent[i]) / float64(bytes); got < 0.99*ideal || got > 1.01*ideal {
			t.Errorf("weights %v: queue %d sent %.4f of the bytes, want %.4f within 1 %%", weights, i, got, ideal)
		}
	}
}

// etsMixes are the weights of the kernel's sch_ets self-test, and some harder ones.
var etsMixes = [][]int{
	{3300, 3300, 3300}, {5000, 3500, 1500}, {5000, 2500}, {5000, 2500, 1500}, {1, 100}, {60, 40},
	{7, 1, 3, 1, 2, 5, 1, 1},
}

func TestSharesFollowWeights(t *testing.T) {
	for _, weights := range etsMixes {
		s := newSource(t, ets(weights...))
		for range 2000 {
			s.fill(1<<len(weights) - 1)
			s.dequeue(0, 0, unlimited, 32)
		}
		s.wantShares(t, weights)
	}
}

// TestStrictBesideShares has a strict queue that offers 3 Gbit/s to a port of 10 Gbit/s: it gets
// all of it, and the other queues share the rest.
func TestStrictBesideShares(t *testing.T) {
	weights := []int{5000, 2500, 1500}
	p := ets(weights...)
	p.Rate, p.Burst = 10e9, 20000
	s := newSource(t, p)
	const step, steps, strictLength = 4000, 20000, 1500 - 24 // one frame of 1500 B of wire in 4 µs: 3 Gbit/s
	for i := range int64(steps) {
		s.fill(0b111)
		s.add(7, strictLength)
		s.dequeue(i*step, 0, unlimited, 64)
	}
	if want := steps * 1500; s.sent[7] < want-20*1500 {
		t.Errorf("the strict queue sent %d of %d B", s.sent[7], want)
	}
	s.wantShares(t, weights)
}

func TestStrictGoesFirst(t *testing.T) {
	p := ets(1, 1)
	p.Queues[4] = QueueParams{TSA: ETS, Weight: 1}
	s := newSource(t, p)
	for range 3 {
		for queue := range Queues {
			s.add(queue, 1000)
		}
	}
	from := s.dequeue(0, 0, unlimited, 64)
	if want := []int{7, 7, 7, 6, 6, 6, 5, 5, 5, 3, 3, 3, 2, 2, 2}; !slices.Equal(from[:15], want) {
		t.Fatalf("strict queues sent in the order %v, want %v", from[:15], want)
	}
	for _, queue := range from[15:] {
		if queue != 0 && queue != 1 && queue != 4 {
			t.Fatalf("queue %d sent among the last: %v", queue, from)
		}
	}
	// A strict queue that gets a frame sends it next.
	s.add(0, 1000)
	s.add(0, 1000)
	s.dequeue(0, 0, unlimited, 1)
	s.add(3, 1000)
	if from := s.dequeue(0, 0, unlimited, 2); !slices.Equal(from, []int{3, 0}) {
		t.Fatalf("sent from %v, want 3, then 0", from)
	}
}

// TestQueueWithoutWeight demands that weight 0 is served like the smallest weight and doesn't
// lengthen the others' turns.
func TestQueueWithoutWeight(t *testing.T) {
	s := newSource(t, ets(5000, 2500, 0))
	for range 2000 {
		s.fill(0b111)
		s.dequeue(0, 0, unlimited, 32)
	}
	s.wantShares(t, []int{5000, 2500, 2500})
	if got, want := s.within[0].quanta[:3], []int32{2 * 9240, 9240, 9240}; !slices.Equal(got, want) {
		t.Errorf("quanta %v, want %v", got, want)
	}
}

// TestPauseMidTurn pauses a queue during its turn. The queue keeps the rest of the turn and the
// others go on; when resumed, it sends only that rest before the round continues where it was.
func TestPauseMidTurn(t *testing.T) {
	p := ets(3, 3, 3)
	p.MaxFrame, p.Overhead = 3000, 0 // quantum: three frames of 1000
	s := newSource(t, p)
	for range 20 {
		for queue := range 3 {
			s.add(queue, 1000)
		}
	}
	for i, step := range []struct {
		paused uint8
		want   []int
	}{
		{0b000, []int{0}},
		{0b001, []int{1, 1, 1, 2, 2, 2, 1, 1}},
		{0b000, []int{0, 0, 1, 2, 2, 2, 0, 0, 0, 1, 1, 1}},
	} {
		if from := s.dequeue(0, step.paused, unlimited, len(step.want)); !slices.Equal(from, step.want) {
			t.Fatalf("step %d, paused %03b: sent from %v, want %v", i, step.paused, from, step.want)
		}
	}
}

// TestPauseOwesOneTurn: however long a queue was paused, it is owed only one turn.
func TestPauseOwesOneTurn(t *testing.T) {
	p := ets(1, 1)
	p.MaxFrame, p.Overhead = 2000, 0
	s := newSource(t, p)
	for range 100 {
		s.add(0, 1000)
		s.add(1, 1000)
	}
	s.dequeue(0, 0b01, unlimited, 51) // the other queue is in the middle of a turn
	if from, want := s.dequeue(0, 0, unlimited, 9), []int{0, 0, 1, 0, 0, 1, 1, 0, 0}; !slices.Equal(from, want) {
		t.Fatalf("after a long pause: sent from %v, want %v", from, want)
	}
}

func TestPausedQueueHoldsUpNobody(t *testing.T) {
	s := newSource(t, ets(5000, 3500, 1500))
	for range 2000 {
		s.fill(0b111)
		if from := s.dequeue(0, 0b100, unlimited, 32); len(from) != 32 || slices.Contains(from, 2) {
			t.Fatalf("queue 2 is paused: %d frames from %v", len(from), from)
		}
	}
	s.wantShares(t, []int{5000, 3500})
}

// TestPauseInStepWithTurns pauses a queue whenever its turn comes, and resumes it only during the
// other queue's turn. It must still get its share.
func TestPauseInStepWithTurns(t *testing.T) {
	s := newSource(t, ets(1, 1))
	for range 50000 {
		s.fill(0b11)
		paused := uint8(0b10)
		if fresh := s.within[0].quanta[0] / 2; s.within[0].cursor == 0 && s.within[0].deficits[0] < fresh {
			paused = 0
		}
		s.dequeue(0, paused, unlimited, 1)
	}
	s.wantShares(t, []int{1, 1})
}

// TestOneFrameAtATime has a queue that never holds more than one frame but always gets the next one
// at once. It must not have one turn after the other.
func TestOneFrameAtATime(t *testing.T) {
	s := newSource(t, ets(1, 1))
	for range 1000 {
		s.fill(0b10)
		if s.Frames(0) == 0 {
			s.add(0, 9216)
		}
		s.dequeue(0, 0, unlimited, 1)
	}
	if s.sent[0] > s.sent[1]+2*9240 {
		t.Fatalf("a queue of single frames sent %d B, its competitor %d B", s.sent[0], s.sent[1])
	}
}

// TestEmptiedQueueLosesItsDeficit lets a queue run empty repeatedly with most of its deficit left.
// When it has more to send, it waits for the other queue's turn, and then has one quantum per turn,
// like the other.
func TestEmptiedQueueLosesItsDeficit(t *testing.T) {
	p := ets(1, 1)
	p.MaxFrame, p.Overhead = 2000, 0
	s := newSource(t, p)
	for range 50 {
		s.add(1, 1000)
	}
	for range 10 {
		s.add(0, 1)
		s.dequeue(0, 0, unlimited, 3)
	}
	for range 10 {
		s.add(0, 1000)
	}
	if from, want := s.dequeue(0, 0, unlimited, 6), []int{1, 1, 0, 0, 1, 1}; !slices.Equal(from, want) {
		t.Fatalf("sent from %v, want %v", from, want)
	}
}

// TestDrainLeavesTheTurnAlone drains a queue during another queue's turn, which continues.
func TestDrainLeavesTheTurnAlone(t *testing.T) {
	p := ets(1, 1, 1)
	p.MaxFrame, p.Overhead = 2000, 0
	s := newSource(t, p)
	for range 5 {
		for queue := range 3 {
			s.add(queue, 1000)
		}
	}
	s.dequeue(0, 0, unlimited, 1)
	if n := s.Drain(1, make([]uint32, 64)); n != 5 {
		t.Fatalf("drained %d frames of 5", n)
	}
	if from, want := s.dequeue(0, 0, unlimited, 4), []int{0, 2, 2, 0}; !slices.Equal(from, want) {
		t.Fatalf("sent from %v, want %v", from, want)
	}
}

func TestBudget(t *testing.T) {
	s := newSource(t, ets(1))
	for range 10 {
		s.add(0, 1000)
	}
	for _, c := range []struct{ budget, want int }{{-5, 0}, {0, 0}, {1, 1}, {1000, 1}, {1001, 2}, {2999, 3},
		{unlimited, 3}} {
		if got := len(s.dequeue(0, 0, c.budget, 64)); got != c.want {
			t.Fatalf("budget %d B let %d frames of 1000 B go, want %d", c.budget, got, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	with := func(change func(*Params)) Params {
		p := ets(60, 40)
		p.Rate, p.Burst = 10e9, 20000
		p.Groups = []GroupParams{{TSA: ETS, Weight: 60}, {TSA: ETS, Weight: 40}, {TSA: ETS, Weight: 1}}
		p.Queues[0].Group, p.Queues[1].Group, p.Queues[2] = 1, 1, QueueParams{TSA: ETS, Weight: 1, Group: 1}
		change(&p)
		return p
	}
	newScheduler(t, with(func(*Params) {}), NewArena(1))
	for _, c := range []struct {
		params Params
		want   string
	}{
		{with(func(p *Params) { p.MaxFrame = 0 }), "longest frame 0 B: must be 1 to 65535"},
		{with(func(p *Params) { p.MaxFrame = 65536 }), "must be 1 to 65535"},
		{with(func(p *Params) { p.Queues[1].Weight = -1 }), "queues of group 1: weight -1: must be 0 to"},
		{with(func(p *Params) { p.Queues[1].Weight = 1<<30 + 1 }), "weight 1073741825: must be 0 to 1073741824"},
		{
			with(func(p *Params) { p.Queues[1].Weight = 1e6 }),
			"queues of group 1: weight 1000000 beside a weight of 1: must be at most 116205",
		},
		{with(func(p *Params) { p.Groups[0].Weight = -1 }), "groups: weight -1: must be 0 to"},
		{
			with(func(p *Params) { p.Groups[0].Weight = 1e7 }),
			"groups: weight 10000000 beside a weight of 40: must be at most 4648200",
		},
		{with(func(p *Params) { p.Groups = make([]GroupParams, 17) }), "17 groups: must be 1 to 16"},
		{
			with(func(p *Params) { p.Groups[2].TSA = CreditBased }),
			"group 2: transmission selection 1 (credit-based): must be 0 (strict) or 2 (ets)",
		},
		{with(func(p *Params) { p.Queues[7].TSA = VendorSpecific }),
			"queue 7: transmission selection 255 (vendor): must be"},
		{with(func(p *Params) { p.Queues[7].TSA = 3 }), "queue 7: transmission selection 3 (reserved): must be"},
		{with(func(p *Params) { p.Queues[3].Group = 3 }), "queue 3: group 3: choose 0 to 2"},
		{with(func(p *Params) { p.Queues[3].Group = -1 }), "queue 3: group -1: choose 0 to 2"},
		{with(func(p *Params) { p.Overhead = -1 }), "overhead -1 B: must be 0 to"},
		{with(func(p *Params) { p.Rate = 400e9 + 1 }), "rate 400000000001 bit/s: must be at most 400000000000"},
		{with(func(p *Params) { p.Burst = 0 }), "port: burst 0 B: must be 1 to 268435456; 21740 keeps the rate"},
		{with(func(p *Params) { p.Burst = 1<<28 + 1 }), "must be 1 to 268435456"},
		{with(func(p *Params) { p.Groups[1].Shape = Shape{Rate: 1e9} }), "group 1: burst 0 B: must be"},
		{with(func(p *Params) { p.Queues[6].Shape = Shape{Rate: 401e9, Burst: 1} }),
			"queue 6: rate 401000000000 bit/s: must be"},
	} {
		_, err := New(c.params, NewArena(1))
		if err == nil || !strings.HasPrefix(err.Error(), "sched: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
	if _, err := New(with(func(*Params) {}), nil); err == nil {
		t.Error("no arena, no error")
	}
}

// TestRanges: the least and the most value of each parameter are accepted, those beyond are not.
func TestRanges(t *testing.T) {
	for name, c := range map[string]struct {
		least, most int
		set         func(p *Params, v int)
	}{
		"longest frame": {1, 65535, func(p *Params, v int) { p.MaxFrame = v }},
		"overhead":      {0, 1024, func(p *Params, v int) { p.Overhead = v }},
		"group":         {0, 1, func(p *Params, v int) { p.Queues[7].Group = v }},
		"queue weight":  {0, 1 << 30, func(p *Params, v int) { p.Queues[0].Weight = v }},
		"group weight":  {0, 1 << 30, func(p *Params, v int) { p.Groups[0].Weight = v }},
		"rate":          {0, 400e9, func(p *Params, v int) { p.Rate = uint64(v) }},
		"burst":         {1, 1 << 28, func(p *Params, v int) { p.Burst = v }},
	} {
		for v, good := range map[int]bool{c.least - 1: false, c.least: true, c.most: true, c.most + 1: false} {
			p := Params{Rate: 10e9, Burst: 20000, MaxFrame: 1514, Groups: make([]GroupParams, 2)}
			p.Groups[0], p.Queues[0] = GroupParams{TSA: ETS}, QueueParams{TSA: ETS}
			c.set(&p, v)
			if _, err := New(p, NewArena(1)); (err == nil) != good {
				t.Errorf("%s %d: %v", name, v, err)
			}
		}
	}
}

// TestTakeOverOtherGroups: if groups and algorithms change, all frames are kept, in order in their
// queue, and are served by the new groups.
func TestTakeOverOtherGroups(t *testing.T) {
	before := ets(60, 40)
	s := newScheduler(t, before, NewArena(64))
	for id := range uint32(40) {
		s.Enqueue(int(id%4), id, 1000)
	}
	s.Dequeue(0, 0, unlimited, make([]uint32, 7)) // in the middle of turns
	after := Params{MaxFrame: 2000, Groups: []GroupParams{{TSA: ETS, Weight: 1}, {TSA: StrictPriority}}}
	after.Queues[2].Group, after.Queues[3].Group = 1, 1
	frames, length := s.Frames(2), s.Bytes(3)
	replace(t, s, after)
	if s.Frames(2) != frames || s.Bytes(3) != length || s.Backlogged() != 0x0f {
		t.Fatalf("%d frames in queue 2 and %d B in queue 3, backlog %08b", s.Frames(2), s.Bytes(3), s.Backlogged())
	}
	out := make([]uint32, 64)
	n := s.Dequeue(1e9, 0, unlimited, out)
	last, order := map[uint32]uint32{}, []uint32{}
	for _, id := range out[:n] {
		if before, seen := last[id%4]; seen && before >= id {
			t.Errorf("frame %d of queue %d left behind frame %d", id, id%4, before)
		}
		last[id%4] = id
		if len(order) == 0 || order[len(order)-1] != id%4 {
			order = append(order, id%4)
		}
	}
	if n != 33 || order[0] != 3 || order[1] != 2 {
		t.Errorf("%d frames left, from queues %v: want 33, those of queue 3 and then 2 first", n, order)
	}
}

// TestTakeOverBeginsANewRound: if a group or queue becomes strict, ceases to be strict, or moves to
// another group, frames leave in the order of a new scheduler that has the same frames. If nothing
// changes, they leave as if nothing had been taken over.
func TestTakeOverBeginsANewRound(t *testing.T) {
	base := Params{MaxFrame: 1000, Groups: []GroupParams{{TSA: ETS, Weight: 1}, {TSA: ETS, Weight: 2}}}
	for queue := range base.Queues {
		base.Queues[queue] = QueueParams{TSA: ETS, Weight: 1 + queue%2, Group: queue / 4}
	}
	changes := map[string]func(*Params){
		"nothing":        func(*Params) {},
		"strict group":   func(p *Params) { p.Groups[1].TSA = StrictPriority },
		"strict queue 0": func(p *Params) { p.Queues[1].TSA = StrictPriority },
		"strict queue 5": func(p *Params) { p.Queues[5].TSA = StrictPriority },
		"moved queue":    func(p *Params) { p.Queues[2].Group = 1 },
	}
	params := func(change string) Params {
		p := base
		p.Groups = slices.Clone(base.Groups)
		changes[change](&p)
		return p
	}
	const frames = 200
	enqueue := func(s *Scheduler, but []uint32) {
		for id := range uint32(frames) {
			if !slices.Contains(but, id) {
				s.Enqueue(int(id%Queues), id, 500)
			}
		}
	}
	dequeue := func(s *Scheduler, n int) []uint32 {
		out := make([]uint32, n)
		return out[:s.Dequeue(0, 0, unlimited, out)]
	}
	for before := range changes {
		for after := range changes {
			old := newScheduler(t, params(before), NewArena(frames))
			enqueue(old, nil)
			left := dequeue(old, 7)
			next, other := newScheduler(t, params(after), old.arena), newScheduler(t, params(after), NewArena(frames))
			if before == after {
				enqueue(other, nil)
				dequeue(other, len(left))
			} else {
				enqueue(other, left)
			}
			next.TakeOver(old)
			if got, want := dequeue(next, frames), dequeue(other, frames); !slices.Equal(got, want) {
				t.Errorf("%s, then %s: sent %v, want %v", before, after, got, want)
			}
		}
	}
}

// TestTakeOverKeepsCredit: spent credit is not granted again, however often parameters change.
func TestTakeOverKeepsCredit(t *testing.T) {
	p := lanSANIPC(60, 40, 6)
	p.Rate, p.Burst = 1e9, 20000
	p.Queues[1].Shape = Shape{Rate: 1e8, Burst: 5000}
	p.Groups[1].Shape = Shape{Rate: 5e8, Burst: 9000}
	s := newScheduler(t, p, NewArena(1024))
	for id := range uint32(1024) {
		s.Enqueue(int(id%8), id, 1000)
	}
	sent := 0
	for i := range 100 {
		p.Groups[1].Shape.Rate = uint64(5e8 + i%2)
		replace(t, s, p)
		sent += s.Dequeue(1, 0, unlimited, make([]uint32, 64))
	}
	if most := 20000/(1000+p.Overhead) + 1; sent > most {
		t.Errorf("%d frames left at once, with credit for %d", sent, most)
	}
}

// TestStrictGroupsGoByNumber has strict groups whose numbers are in a different order than their
// queues.
func TestStrictGroupsGoByNumber(t *testing.T) {
	p := Params{MaxFrame: 2000, Groups: make([]GroupParams, MaxGroups)}
	p.Groups[3] = GroupParams{TSA: ETS, Weight: 1}
	for queue, group := range []int{15, 3, 0, 15, 3, 14, 0, 7} {
		p.Queues[queue].Group = group
	}
	s := newSource(t, p)
	for queue := range Queues {
		s.add(queue, 1000)
	}
	if from, want := s.dequeue(0, 0, unlimited, 64), []int{3, 0, 5, 7, 6, 2, 4, 1}; !slices.Equal(from, want) {
		t.Fatalf("sent from %v, want %v", from, want)
	}
}

// TestShapedQueueKeepsItsTurn has a shaper stop a queue during its turn. The others go on; when
// there is credit, the queue sends the rest of that turn before the round continues.
func TestShapedQueueKeepsItsTurn(t *testing.T) {
	p := ets(3, 3, 3)
	p.MaxFrame, p.Overhead = 3000, 0                      // a turn: three frames of 1000
	p.Queues[0].Shape = Shape{Rate: 8e9, Burst: 2000 - 1} // a byte a nanosecond
	s := newSource(t, p)
	for range 20 {
		for queue := range 3 {
			s.add(queue, 1000)
		}
	}
	for i, step := range []struct {
		now  int64
		want []int
	}{
		{0, []int{0, 0, 1, 1, 1, 2, 2}},
		{1, []int{2, 1}},
		{2, []int{0, 1, 1, 2, 2, 2, 1}},
	} {
		if from := s.dequeue(step.now, 0, unlimited, len(step.want)); !slices.Equal(from, step.want) {
			t.Fatalf("step %d: sent from %v, want %v", i, from, step.want)
		}
	}
}

func TestFramePathAllocatesNothing(t *testing.T) {
	p := lanSANIPC(60, 40, 6)
	p.Queues[1].Shape = Shape{Rate: 1e9, Burst: 20000}
	p.Groups[1].Shape = Shape{Rate: 1e9, Burst: 20000}
	s := newScheduler(t, p, NewArena(64))
	out := make([]uint32, 64)
	now := int64(0)
	next := newScheduler(t, p, s.arena)
	n := testing.AllocsPerRun(100, func() {
		for id := range uint32(64) {
			s.Enqueue(int(id%8), id, 1000)
		}
		now += 1e6
		s.Spend(now, 60)
		s.Dequeue(now, 1, 30000, out)
		next.TakeOver(s)
		s, next = next, s
		for queue := range Queues {
			s.Drain(queue, out)
		}
	})
	if n != 0 {
		t.Fatalf("%v allocations a round", n)
	}
}
