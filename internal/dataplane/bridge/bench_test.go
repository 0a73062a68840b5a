package bridge

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/internal/frame"
)

const benchPorts = 4

// station returns the address of host i, which is on port i % benchPorts. Addresses are scattered:
// consecutive ones spread over a hash table more evenly than random ones, so look-ups would seem
// cheaper than they are.
func station(i uint32) frame.MAC {
	x := (uint64(i) + 1) * 0xbf58476d1ce4e5b9
	return frame.MAC((x^x>>29)*0x94d049bb133111eb>>16) &^ (1 << 40)
}

// conversation is a pair of hosts on different ports.
type conversation struct{ src, dst uint32 }

const benchBurst = 64 // frames

// fill sets the addresses of a frame from src to dst and returns its ingress port.
func (c conversation) fill(h *frame.Header) (in int) {
	h.Src, h.Dst = station(c.src), station(c.dst)
	return int(c.src % benchPorts)
}

// busy returns a bridge that knows a number of hosts, and random conversations between them: most
// frames in a bridge have a known source and a known destination.
func busy(tb testing.TB, stations uint32) (*Bridge, []conversation) {
	tb.Helper()
	b, err := New(Params{Ports: make([]PortParams, benchPorts), Capacity: max(DefaultCapacity, int(stations))})
	if err != nil {
		tb.Fatal(err)
	}
	for i := range stations {
		b.Learn(0, station(i), 1, int(i%benchPorts))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	talk := make([]conversation, 1<<16)
	for i := range talk {
		src := rng.Uint32N(stations)
		dst := rng.Uint32N(stations)
		if dst%benchPorts == src%benchPorts {
			dst ^= 1
		}
		talk[i] = conversation{src, dst}
	}
	return b, talk
}

// BenchmarkForward forwards bursts of frames with known sources and destinations, chosen at random.
// The cost grows with the number of hosts due to cache misses and to searches beyond the first
// slot. An operation is a frame, including the cost of writing its header.
func BenchmarkForward(b *testing.B) {
	for _, stations := range []uint32{100, 1000, 16_000, 100_000} {
		b.Run(fmt.Sprintf("stations=%d", stations), func(b *testing.B) {
			bridge, talk := busy(b, stations)
			for i := range talk { // all frames of a burst come in by one port
				talk[i].src = (talk[i].src &^ (benchPorts - 1)) % (stations - benchPorts)
			}
			var burst [benchBurst]Frame
			for i := 0; b.Loop(); i++ {
				at := i & (benchBurst - 1)
				if talk[i&(len(talk)-1)].fill(&burst[at].Header); at < benchBurst-1 {
					continue
				}
				f := &burst[0] // its destination may be behind the same port, or be itself
				bridge.Forward(int64(i), 0, burst[:])
				if f.Out < 0 && f.Reason != NoDestination && f.Reason != SourceAddress {
					b.Fatal(*f)
				}
			}
		})
	}
}

// BenchmarkFlood floods frames with a known source and the broadcast address as destination.
func BenchmarkFlood(b *testing.B) {
	bridge, talk := busy(b, 1000)
	var h frame.Header
	var now int64
	for b.Loop() {
		in := talk[now&int64(len(talk)-1)].fill(&h)
		h.Dst = frame.Broadcast
		if d := bridge.decide(now, in, &h); d.Out != Flood {
			b.Fatal(d)
		}
		now++
	}
}

// BenchmarkTableFull has only frames whose source finds no room, as in an attack on the table.
func BenchmarkTableFull(b *testing.B) {
	for _, stations := range []uint32{DefaultCapacity, 100_000} {
		b.Run(fmt.Sprintf("stations=%d", stations), func(b *testing.B) {
			bridge, talk := busy(b, stations)
			var h frame.Header
			talk[0].fill(&h)
			var now int64
			for b.Loop() {
				h.Src = 0x0600_0000_0000 + frame.MAC(now&0xffff_ffff)<<1
				if d := bridge.decide(now, 0, &h); d.Learned {
					b.Fatal(d)
				}
				now++
			}
		})
	}
}

func BenchmarkWire(b *testing.B) {
	bridge, err := New(Params{Mode: Wire, Ports: []PortParams{{Peer: 1}, {Peer: 0}}})
	if err != nil {
		b.Fatal(err)
	}
	h := frame.Header{Src: 0x0200_0000_0001, Dst: 0x0200_0000_0002}
	for b.Loop() {
		if d := bridge.decide(0, 0, &h); d.Out != 1 {
			b.Fatal(d)
		}
	}
}
