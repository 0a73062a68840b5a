package afxdp

import (
	"testing"

	"sluice/bench/netns"
	"sluice/pmd"
	"sluice/ring"
)

// pump sends bursts of equal frames from one station to the other without inspecting them.
type pump struct {
	from, to       *station
	tx, rx         [64]pmd.Desc
	addrs          [64]uint64
	free           []uint64
	sent, received int
}

func newPump(from, to *station) *pump {
	p := &pump{from: from, to: to, free: from.take(len(from.free), inTX)}
	frame := make([]byte, 60)
	frame[12], frame[13] = 0x88, 0xb5 // IEEE 802 local experimental EtherType
	for _, a := range p.free {
		copy(from.mem[a:], frame)
	}
	return p
}

func (p *pump) step() {
	n := p.from.Complete(p.addrs[:])
	p.free = append(p.free, p.addrs[:n]...)
	k := min(len(p.tx), len(p.free))
	for i, a := range p.free[len(p.free)-k:] {
		p.tx[i] = pmd.Desc{Addr: a, Len: 60}
	}
	k = p.from.Transmit(p.tx[:k])
	p.sent += k
	p.free = p.free[:len(p.free)-k] // frames are equal, so any may stay
	p.from.Flush()
	for m := len(p.rx); m == len(p.rx); { // one wake-up can deliver many bursts
		m = p.to.Receive(p.rx[:])
		for i, d := range p.rx[:m] {
			p.addrs[i] = d.Addr
		}
		p.received += m
		p.to.Fill(p.addrs[:m])
	}
	p.to.Flush()
}

// BenchmarkVeth sends minimum-size frames from one port to another through the kernel, on one
// goroutine. An operation is one received frame. With "parts", frames may have several.
func BenchmarkVeth(b *testing.B) {
	for _, bench := range []struct {
		name   string
		config Config
		qdisc  bool
		mtu    int
	}{{"plain", Config{}, false, 1500}, {"prepared", Config{}, true, 1500},
		{"whole", Config{BufferSize: 4096}, true, 1500},
		{"parts", Config{BufferSize: 4096}, true, jumboMTU}} {
		b.Run(bench.name, func(b *testing.B) {
			c := newCable(b, netns.MTU(bench.mtu))
			ends := []struct {
				n      *netns.Namespace
				device string
				*station
			}{{n: c.left, device: leftDevice}, {n: c.right, device: rightDevice}}
			for i := range ends {
				e := &ends[i]
				if bench.qdisc {
					prepared(b, e.n, e.device, Options{BusyPoll: bench.config.BusyPoll})
				}
				bench.config.Device = e.device
				e.station = newStation(b, e.n, bench.config, 8192, 4096)
			}
			p := newPump(ends[0].station, ends[1].station)
			b.ResetTimer()
			for p.received < b.N {
				p.step()
			}
			b.ReportMetric(float64(p.received)/b.Elapsed().Seconds(), "frames/s")
			b.ReportMetric(float64(ends[1].Stats().Lost()+ends[0].Stats().Lost()), "lost")
		})
	}
}

// BenchmarkBurst receives and sends bursts of 64 descriptors without a kernel. An operation is one
// burst: of frames in one buffer on a port for these, of such frames on a port for several parts,
// and of frames with three.
func BenchmarkBurst(b *testing.B) {
	for _, bench := range []struct {
		name           string
		scatter, parts bool
	}{{"whole", false, false}, {"scatter", true, false}, {"parts", true, true}} {
		b.Run(bench.name, func(b *testing.B) {
			rx, failed := ring.New[pmd.Desc](64)
			tx, _ := ring.New[pmd.Desc](64)
			if failed != nil {
				b.Fatal(failed)
			}
			p := &Port{socket: &socket{scatter: bench.scatter}, offsetMask: 4096 - 1, memoryBytes: 1 << 30,
				parts: pmd.MaxParts}
			p.rx.Ring, p.tx.Ring = rx, tx
			var in, out [64]pmd.Desc
			for i := range in {
				in[i] = pmd.Desc{Addr: uint64(i) * 4096, Len: 60}
				if bench.parts && i%3 < 2 && i < 63 {
					in[i].Options = pmd.Continued
				}
			}
			for b.Loop() {
				p.rx.Push(in[:])
				p.Transmit(out[:p.Receive(out[:])])
				p.tx.Pop(out[:])
			}
		})
	}
}
