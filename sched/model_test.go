package sched

import (
	"testing"

	"pgregory.net/rapid"
)

// waiting is one frame in a queue of the model.
type waiting struct {
	id     uint32
	length int
}

// model is what any scheduler of strict and other queues must respect: each queue is a plain FIFO.
type model struct {
	params Params
	queues [Queues][]waiting
}

// took checks one frame that left, and forgets it. Which of the queues that are not strict it came from is theirs to say.
func (m *model) took(t *rapid.T, id uint32, paused uint8) int {
	t.Helper()
	for queue := range Queues {
		q := m.queues[queue]
		if len(q) == 0 || q[0].id != id {
			continue
		}
		if paused>>queue&1 == 1 {
			t.Fatalf("frame %d left the paused queue %d", id, queue)
		}
		for other := Queues - 1; other >= 0 && other != queue; other-- {
			if m.params.Queues[other].Strict && paused>>other&1 == 0 && len(m.queues[other]) > 0 {
				t.Fatalf("frame %d left queue %d though the strict queue %d had one", id, queue, other)
			}
		}
		m.queues[queue] = q[1:]
		return q[0].length
	}
	t.Fatalf("frame %d left, but is at the head of no queue: %v", id, m.queues)
	return 0
}

// eligible returns how many frames wait in queues that are not paused.
func (m *model) eligible(paused uint8) int {
	n := 0
	for queue, q := range m.queues {
		if paused>>queue&1 == 0 {
			n += len(q)
		}
	}
	return n
}

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

func drawParams(t *rapid.T) Params {
	p := Params{MaxFrame: rapid.IntRange(100, 9216).Draw(t, "max frame")}
	for i := range p.Queues {
		p.Queues[i] = QueueParams{Strict: rapid.Bool().Draw(t, "strict"), Weight: rapid.IntRange(0, 20).Draw(t, "weight")}
	}
	return p
}

const modelBuffers = 60

// ports is two schedulers that share an arena, each beside its model.
type ports struct {
	arena  *Arena
	real   [2]*Scheduler
	models [2]model
	free   []uint32
}

// draw chooses the port of the next action.
func (p *ports) draw(t *rapid.T) (*Scheduler, *model) {
	i := rapid.IntRange(0, 1).Draw(t, "port")
	return p.real[i], &p.models[i]
}

func (p *ports) enqueue(t *rapid.T) {
	s, m := p.draw(t)
	queue := rapid.IntRange(0, Queues-1).Draw(t, "queue")
	for range rapid.IntRange(0, len(p.free)).Draw(t, "frames") {
		w := waiting{p.free[0], rapid.IntRange(1, m.params.MaxFrame).Draw(t, "length")}
		p.free = p.free[1:]
		s.Enqueue(queue, w.id, w.length)
		m.queues[queue] = append(m.queues[queue], w)
	}
}

func (p *ports) dequeue(t *rapid.T) {
	s, m := p.draw(t)
	paused := rapid.Uint8().Draw(t, "paused")
	budget := rapid.OneOf(rapid.IntRange(-1, 30000), rapid.Just(unlimited)).Draw(t, "budget")
	out := make([]uint32, rapid.IntRange(0, 64).Draw(t, "burst"))
	eligible := m.eligible(paused)
	n := s.Dequeue(0, paused, budget, out)
	for i, id := range out[:n] {
		if budget <= 0 {
			t.Fatalf("frame %d of %d went without budget", i, n)
		}
		length := m.took(t, id, paused)
		if got := p.arena.Length(id); got != length {
			t.Fatalf("frame %d is %d B long, want %d", id, got, length)
		}
		budget -= length
	}
	if n < min(len(out), eligible) && budget > 0 {
		t.Fatalf("%d frames left, %d might have, and %d B of budget are left", n, eligible, budget)
	}
	p.free = append(p.free, out[:n]...)
}

func (p *ports) drain(t *rapid.T) {
	s, m := p.draw(t)
	queue := rapid.IntRange(0, Queues-1).Draw(t, "queue")
	out := make([]uint32, rapid.IntRange(0, 64).Draw(t, "burst"))
	want := min(len(out), len(m.queues[queue]))
	if n := s.Drain(queue, out); n != want {
		t.Fatalf("drained %d frames, want %d", n, want)
	}
	for _, id := range out[:want] {
		if head := m.queues[queue][0].id; id != head {
			t.Fatalf("drained frame %d, want %d", id, head)
		}
		m.queues[queue] = m.queues[queue][1:]
	}
	p.free = append(p.free, out[:want]...)
}

// empty takes everything out of both ports.
func (p *ports) empty(t *rapid.T) {
	for i, s := range p.real {
		out := make([]uint32, modelBuffers)
		for _, id := range out[:s.Dequeue(0, 0, unlimited, out)] {
			p.models[i].took(t, id, 0)
		}
		if s.Backlogged() != 0 || p.models[i].eligible(0) != 0 {
			t.Fatalf("port %d: %d frames never came out", i, p.models[i].eligible(0))
		}
	}
}

// TestAgainstModel drives two ports that share an arena. Each frame comes out exactly once, in the order of its
// queue, behind all strict queues; a call stops short only for a reason; and nothing waits while it may go.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &ports{arena: NewArena(modelBuffers)}
		for i := range p.real {
			p.models[i].params = drawParams(t)
			p.real[i] = newScheduler(t, p.models[i].params, p.arena)
		}
		p.free = rapid.Permutation(ids(modelBuffers)).Draw(t, "free")
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": p.enqueue,
			"dequeue": p.dequeue,
			"drain":   p.drain,
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
