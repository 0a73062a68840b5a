package dataplane

import (
	"fmt"
	"testing"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/pmd/mem"
	"sluice/sched"
)

// flooding is a port at which frames always wait. received counts the frames of all ports that
// share it.
type flooding struct {
	*mem.Null
	received *int
}

func (flooding) Waiting() int { return 1 << 20 }

func (d flooding) Receive(burst []pmd.Desc) int {
	n := d.Null.Receive(burst)
	*d.received += n
	return n
}

// quarter is a port whose line sends one frame for every four that its senders' ports received.
type quarter struct {
	*mem.Null
	received *int
	left     int
}

func (*quarter) Receive([]pmd.Desc) int { return 0 }

func (d *quarter) Complete(addrs []uint64) int {
	n := d.Null.Complete(addrs[:min(len(addrs), max(0, *d.received/4-d.left))])
	d.left += n
	return n
}

// BenchmarkOverload measures the cost per frame sent, and the time of an iteration, when ports with
// a lossless class receive four times as many lossy frames of 64 B as can be sent.
func BenchmarkOverload(b *testing.B) {
	for _, senders := range []int{4, 8, 16} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			memory, err := umem.Map(65536, bufferSize)
			if err != nil {
				b.Fatal(err)
			}
			defer memory.Close()
			params := Params{Memory: memory, CellSize: 160, Workers: 1}
			plan, received := &Plan{}, 0
			ports := senders + senders/4 // four send to each of the last ones
			for i := range ports {
				p := testPort(i, 0)
				p.Buffers, p.InFlight = 1024, 64_000
				p.Sched = sched.Params{Overhead: 24, MaxFrame: 1518, Queues: p.Sched.Queues}
				p.Cells.Groups[0], p.Cells.Queues[0] = cells.GroupParams{Share: 2000}, cells.QueueParams{Limit: 2000}
				params.Ports = append(params.Ports, p)
				params.Bridge.Ports = append(params.Bridge.Ports, bridge.PortParams{})
			}
			s, err := NewSwitch(params)
			if err != nil {
				b.Fatal(err)
			}
			for i := range ports {
				n := mem.NewNull(memory.Bytes(), 2048, 60, data(i, senders+i/4, 0, 60, 0))
				var d pmd.Port = flooding{n, &received}
				if i >= senders {
					d = &quarter{Null: n, received: new(int)}
					s.Workers[0].bridge.Learn(0, station0(i), 1, i)
				}
				n.Fill(s.Parked(i))
				plan.Links = append(plan.Links, Link{Driver: d, Up: true, TXRing: 2048})
			}
			// Each of the last ports counts the frames of its own four senders.
			for i := range ports - senders {
				d := plan.Links[senders+i].Driver.(*quarter)
				for j := range 4 {
					plan.Links[4*i+j].Driver = flooding{plan.Links[4*i+j].Driver.(flooding).Null, d.received}
				}
			}
			s.Publish(plan)
			w, now := s.Workers[0], int64(0)
			run := func(steps int) (sent uint64) {
				for _, p := range w.own {
					sent -= p.count.TXFrames
				}
				for range steps {
					now += 1000
					w.Step(now)
				}
				for _, p := range w.own {
					sent += p.count.TXFrames
				}
				return sent
			}
			run(2000)
			b.ResetTimer()
			n := run(b.N)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/sent")
			b.ReportMetric(float64(n)/float64(b.N), "sent/iteration")
		})
	}
}
