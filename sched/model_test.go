package sched

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// waiting is one frame in a queue of the model.
type waiting struct {
	id     uint32
	length int
	wire   int // its bytes on the wire
}

// slowLevel is one level of the model: the rules of the package comment, one frame at a time, in
// plain arrays.
type slowLevel struct {
	strict   [Queues]bool
	quanta   [Queues]int
	deficits [Queues]int
	owed     [Queues]bool
	turn     int
}

func (l *slowLevel) weigh(weights [Queues]int, longest int) {
	least := 0
	for i, w := range weights {
		if !l.strict[i] && w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	for i, w := range weights {
		if l.quanta[i] = longest; w > 0 && !l.strict[i] {
			l.quanta[i] = int(float64(longest)*float64(w)/float64(least) + 0.5)
		}
		l.deficits[i] = min(l.deficits[i], l.quanta[i]+longest-1)
	}
}

// pick returns the member that sends next among those that may; has is those that have something to
// send.
func (l *slowLevel) pick(may, has [Queues]bool) int {
	for i := Queues - 1; i >= 0; i-- {
		if may[i] && l.strict[i] {
			return i
		}
	}
	for i := range may {
		if may[i] && l.owed[i] {
			return i
		}
	}
	for ; !may[l.turn]; l.turn = (l.turn + 1) % Queues {
		if has[l.turn] && !l.strict[l.turn] {
			l.owed[l.turn] = true
		}
	}
	return l.turn
}

// sent takes a frame off a deficit, and ends the turn if the next frame is not covered.
func (l *slowLevel) sent(i, wire int, next waiting, has [Queues]bool) {
	if l.deficits[i] -= wire; !l.covers(i, next) {
		l.deficits[i] += l.quanta[i]
		l.endTurn(i, has)
	}
}

func (l *slowLevel) covers(i int, w waiting) bool { return l.strict[i] || l.deficits[i] >= w.wire }

// endTurn passes the turn to the next member that has something to send.
func (l *slowLevel) endTurn(i int, has [Queues]bool) {
	l.owed[i] = false
	if l.turn != i {
		return
	}
	l.turn = (i + 1) % Queues
	for range Queues {
		if has[l.turn] && !l.strict[l.turn] {
			return
		}
		l.turn = (l.turn + 1) % Queues
	}
}

// bucket is a shaper of the model; credit is in bit*ns/s.
type bucket struct{ rate, most, credit, last int64 }

func newBucket(to Shape) *bucket {
	most := int64(to.Burst) * 8e9
	return &bucket{rate: int64(to.Rate), most: most, credit: most}
}

func (b *bucket) open() bool { return b.rate == 0 || b.credit > 0 }

func (b *bucket) advance(now int64) {
	b.credit, b.last = min(b.most, b.credit+(now-b.last)*b.rate), now
}

// model is a port that is slow, and simple enough to be seen to be right. Its groups are those that
// have queues.
type model struct {
	params  Params
	queues  [Queues][]waiting
	numbers []int       // of each group, in Params.Groups
	group   [Queues]int // of each queue
	groups  slowLevel
	within  [Queues]slowLevel

	port             *bucket
	ofGroup, ofQueue [Queues]*bucket
}

func newModel(p Params) *model {
	m := &model{params: p, port: newBucket(Shape{p.Rate, p.Burst})}
	for number, g := range p.Groups {
		group := len(m.numbers)
		for queue, q := range p.Queues {
			if q.Group == number {
				m.group[queue] = group
				m.within[group].strict[queue] = q.TSA == StrictPriority
				m.numbers = append(m.numbers[:group], number)
			}
		}
		if len(m.numbers) > group {
			m.groups.strict[group] = g.TSA == StrictPriority
		}
	}
	for i := range Queues {
		m.ofGroup[i], m.ofQueue[i] = newBucket(Shape{}), newBucket(p.Queues[i].Shape)
		if i < len(m.numbers) {
			m.ofGroup[i] = newBucket(p.Groups[m.numbers[i]].Shape)
		}
	}
	m.weigh()
	return m
}

// weigh applies the weights of params.
func (m *model) weigh() {
	var groups [Queues]int
	for g, number := range m.numbers {
		groups[g] = m.params.Groups[number].Weight
		var queues [Queues]int
		for i, q := range m.params.Queues {
			if m.group[i] == g {
				queues[i] = q.Weight
			}
		}
		m.within[g].weigh(queues, m.params.MaxFrame+m.params.Overhead)
	}
	m.groups.weigh(groups, m.params.MaxFrame+m.params.Overhead)
}

// queue returns which queues have frames, and which of those may send one.
func (m *model) queue(paused uint8) (has, may [Queues]bool) {
	for i := range has {
		has[i] = len(m.queues[i]) > 0
		may[i] = has[i] && paused>>i&1 == 0 && m.ofQueue[i].open() && m.ofGroup[m.group[i]].open()
	}
	return has, may
}

// of keeps the queues that are in a group.
func (m *model) of(group int, queues [Queues]bool) [Queues]bool {
	for i := range queues {
		queues[i] = queues[i] && m.group[i] == group
	}
	return queues
}

// groupsOf returns the groups that have any of these queues.
func (m *model) groupsOf(queues [Queues]bool) (groups [Queues]bool) {
	for i, group := range m.group {
		groups[group] = groups[group] || queues[i]
	}
	return groups
}

func (m *model) enqueue(queue int, w waiting) {
	group := m.group[queue]
	has, _ := m.queue(0)
	if !m.groupsOf(has)[group] {
		m.groups.deficits[group] = m.groups.quanta[group]
	}
	if !has[queue] {
		m.within[group].deficits[queue] = m.within[group].quanta[queue]
	}
	m.queues[queue] = append(m.queues[queue], w)
}

// next takes the next frame, if any queue may send one.
func (m *model) next(paused uint8) (waiting, bool) {
	has, may := m.queue(paused)
	if !slices.Contains(may[:], true) {
		return waiting{}, false
	}
	for {
		group := m.groups.pick(m.groupsOf(may), m.groupsOf(has))
		within := &m.within[group]
		queue := within.pick(m.of(group, may), m.of(group, has))
		w := m.queues[queue][0]
		if within.covers(queue, w) && m.groups.covers(group, w) {
			m.sent(group, queue, w)
			return w, true
		}
		within.sent(queue, 0, w, m.of(group, has))
		m.groups.sent(group, 0, w, m.groupsOf(has))
	}
}

// sent updates the model after a frame has left.
func (m *model) sent(group, queue int, w waiting) {
	for _, b := range []*bucket{m.port, m.ofGroup[group], m.ofQueue[queue]} {
		b.credit -= int64(w.wire) * 8e9
	}
	m.drop(queue, 1)
	has, _ := m.queue(0)
	if has[queue] {
		m.within[group].sent(queue, w.wire, m.queues[queue][0], m.of(group, has))
		m.groups.sent(group, w.wire, m.queues[queue][0], m.groupsOf(has))
	} else {
		m.groups.deficits[group] -= w.wire
	}
}

// drop removes frames from a queue. If the queue is then empty, its turn ends, and so does that of
// an empty group.
func (m *model) drop(queue, n int) {
	if m.queues[queue] = m.queues[queue][n:]; n == 0 || len(m.queues[queue]) > 0 {
		return
	}
	group := m.group[queue]
	has, _ := m.queue(0)
	m.within[group].endTurn(queue, m.of(group, has))
	if !m.groupsOf(has)[group] {
		m.groups.endTurn(group, m.groupsOf(has))
	}
}

func (m *model) dequeue(now int64, paused uint8, budget, most int) (ids []uint32) {
	m.port.advance(now)
	for i := range Queues {
		m.ofGroup[i].advance(now)
		m.ofQueue[i].advance(now)
	}
	for len(ids) < most && budget > 0 && m.port.open() {
		w, ok := m.next(paused)
		if !ok {
			break
		}
		ids = append(ids, w.id)
		budget -= w.length
	}
	return ids
}

// compare demands that scheduler and model agree on what waits.
func (m *model) compare(t *rapid.T, s *Scheduler) {
	t.Helper()
	for queue, q := range m.queues {
		bytes := 0
		for _, w := range q {
			bytes += w.length
		}
		if s.Frames(queue) != len(q) || s.Bytes(queue) != bytes || (s.Backlogged()>>queue&1 == 1) != (len(q) > 0) {
			t.Fatalf("queue %d: %d frames, %d B, backlog %08b; want %d frames, %d B",
				queue, s.Frames(queue), s.Bytes(queue), s.Backlogged(), len(q), bytes)
		}
	}
}

// drawShape draws no limit more often than not, and rates of 0.1 to 10 bytes per ns.
func drawShape(t *rapid.T, of string) Shape {
	if rapid.IntRange(0, 3).Draw(t, of+" shaped") > 0 {
		return Shape{}
	}
	return Shape{Rate: rapid.Uint64Range(1e9, 80e9).Draw(t, of+" rate"),
		Burst: rapid.IntRange(1, 20000).Draw(t, of+" burst")}
}

func drawTSA(t *rapid.T) TSA {
	return rapid.SampledFrom([]TSA{ETS, ETS, ETS, StrictPriority}).Draw(t, "TSA")
}

func drawParams(t *rapid.T) Params {
	p := Params{MaxFrame: rapid.IntRange(100, 9216).Draw(t, "max frame"),
		Overhead: rapid.IntRange(0, 24).Draw(t, "overhead")}
	port := drawShape(t, "port")
	p.Rate, p.Burst = port.Rate, port.Burst
	for range rapid.IntRange(1, 5).Draw(t, "groups") {
		p.Groups = append(p.Groups, GroupParams{
			TSA: drawTSA(t), Weight: rapid.IntRange(0, 20).Draw(t, "group weight"), Shape: drawShape(t, "group"),
		})
	}
	for i := range p.Queues {
		p.Queues[i] = QueueParams{
			Group: rapid.IntRange(0, len(p.Groups)-1).Draw(t, "group"), TSA: drawTSA(t),
			Weight: rapid.IntRange(0, 20).Draw(t, "weight"), Shape: drawShape(t, "queue"),
		}
	}
	return p
}

const modelBuffers = 60

// ports is two schedulers that share an arena, each with its model.
type ports struct {
	now    int64
	arena  *Arena
	real   [2]*Scheduler
	models [2]*model
	free   []uint32
}

// draw chooses a port for the next action.
func (p *ports) draw(t *rapid.T) (*Scheduler, *model) {
	i := rapid.IntRange(0, 1).Draw(t, "port")
	return p.real[i], p.models[i]
}

func (p *ports) enqueue(t *rapid.T) {
	s, m := p.draw(t)
	queue := rapid.IntRange(0, Queues-1).Draw(t, "queue")
	together := rapid.Bool().Draw(t, "together")
	var chain Chain
	for range rapid.IntRange(0, len(p.free)).Draw(t, "frames") {
		w := waiting{id: p.free[0], length: rapid.IntRange(1, m.params.MaxFrame).Draw(t, "length")}
		w.wire = w.length + m.params.Overhead
		p.free = p.free[1:]
		m.enqueue(queue, w)
		if together {
			p.arena.Append(&chain, w.id, w.length)
		} else {
			s.Enqueue(queue, w.id, w.length)
		}
	}
	s.EnqueueChain(queue, &chain)
	if chain != (Chain{}) {
		t.Fatalf("a chain that was queued still has %d frames", chain.Frames())
	}
}

func (p *ports) dequeue(t *rapid.T) {
	s, m := p.draw(t)
	p.now += rapid.Int64Range(0, 5000).Draw(t, "ns")
	paused := rapid.OneOf(rapid.Uint8(), rapid.Just(uint8(0))).Draw(t, "paused")
	budget := rapid.OneOf(rapid.IntRange(-1, 30000), rapid.Just(unlimited)).Draw(t, "budget")
	out := make([]uint32, rapid.IntRange(0, 64).Draw(t, "burst"))
	want := m.dequeue(p.now, paused, budget, len(out))
	if got := out[:s.Dequeue(p.now, paused, budget, out)]; !slices.Equal(got, want) {
		t.Fatalf("at %d ns, paused %08b, budget %d B, burst %d: sent %v, want %v", p.now, paused, budget, len(out), got,
			want)
	}
	p.free = append(p.free, want...)
}

func (p *ports) drain(t *rapid.T) {
	s, m := p.draw(t)
	queue := rapid.IntRange(0, Queues-1).Draw(t, "queue")
	out := make([]uint32, rapid.IntRange(0, 64).Draw(t, "burst"))
	n := min(len(out), len(m.queues[queue]))
	var want []uint32
	for _, w := range m.queues[queue][:n] {
		want = append(want, w.id)
	}
	if got := out[:s.Drain(queue, out)]; !slices.Equal(got, want) {
		t.Fatalf("drained %v, want %v", got, want)
	}
	m.drop(queue, n)
	p.free = append(p.free, want...)
}

func (p *ports) reweigh(t *rapid.T) {
	s, m := p.draw(t)
	for g := range m.params.Groups {
		m.params.Groups[g].Weight = rapid.IntRange(0, 20).Draw(t, "group weight")
	}
	for q := range m.params.Queues {
		m.params.Queues[q].Weight = rapid.IntRange(0, 20).Draw(t, "weight")
	}
	replace(t, s, m.params)
	m.weigh()
}

// empty takes all frames out of both ports.
func (p *ports) empty(t *rapid.T) {
	for i, s := range p.real {
		for range 100 * modelBuffers {
			if s.Backlogged() == 0 {
				break
			}
			p.now += 10_000
			out := make([]uint32, modelBuffers)
			want := p.models[i].dequeue(p.now, 0, unlimited, modelBuffers)
			if got := out[:s.Dequeue(p.now, 0, unlimited, out)]; !slices.Equal(got, want) {
				t.Fatalf("at %d ns: sent %v, want %v", p.now, got, want)
			}
		}
		if left := s.Backlogged(); left != 0 {
			t.Fatalf("port %d: frames in %d queues never came out", i, bits.OnesCount8(left))
		}
	}
}

// TestAgainstModel drives two ports that share an arena with random actions: they send the same
// frames in the same order as their models.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &ports{arena: NewArena(modelBuffers)}
		for i := range p.real {
			params := drawParams(t)
			p.models[i] = newModel(params)
			p.real[i] = newScheduler(t, params, p.arena)
		}
		p.free = rapid.Permutation(ids(modelBuffers)).Draw(t, "free")
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": p.enqueue,
			"dequeue": p.dequeue,
			"drain":   p.drain,
			"reweigh": p.reweigh,
			"": func(t *rapid.T) {
				for i := range p.real {
					p.models[i].compare(t, p.real[i])
				}
			},
		})
		p.empty(t)
	})
}

func ids(n int) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = uint32(i)
	}
	return s
}
