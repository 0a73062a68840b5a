package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkDequeue measures the cost of taking a frame out and queueing it again, by the number of
// queues that have frames and of ports that share an arena. The queues are in two groups; both
// levels share by weight. In all, 4096 frames of 64 to 1518 bytes wait; buffer ids are in random
// order, as after a while of traffic.
func BenchmarkDequeue(b *testing.B) {
	for _, queues := range []int{1, 2, 8} {
		for _, ports := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("queues=%d/ports=%d", queues, ports),
				func(b *testing.B) { benchmarkDequeue(b, queues, ports) })
		}
	}
}

func benchmarkDequeue(b *testing.B, queues, ports int) {
	const buffers, burst = 4096, 32
	depth := buffers / ports / queues
	arena := NewArena(buffers)
	ids := rand.Perm(buffers)
	p := Params{Rate: 400e9, Burst: 1 << 20, Overhead: 24, MaxFrame: 1514}
	p.Groups = []GroupParams{{TSA: ETS, Weight: 60}, {TSA: ETS, Weight: 40}}
	for i := range p.Queues {
		p.Queues[i] = QueueParams{Group: i % len(p.Groups), TSA: ETS, Weight: 1 + i}
	}
	home := make([]uint8, buffers) // the queue to which a buffer always returns
	schedulers := make([]*Scheduler, ports)
	for n := range schedulers {
		schedulers[n] = newScheduler(b, p, arena)
		for i := range queues * depth {
			id := ids[n*queues*depth+i]
			home[id] = uint8(i % queues)
			schedulers[n].Enqueue(int(home[id]), uint32(id), 60+id%1455)
		}
	}
	out := make([]uint32, burst)
	now, frames := int64(0), 0
	b.ResetTimer()
	for i := range b.N {
		s := schedulers[i%ports]
		now += 1e6
		n := s.Dequeue(now, 0, 1<<30, out)
		for _, id := range out[:n] {
			s.Enqueue(int(home[id]), id, arena.Length(id))
		}
		frames += n
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(frames), "ns/frame")
}
