package memory

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/bench"
	"sluice/internal/dataplane"
	"sluice/internal/dcbx"
	"sluice/internal/discovery"
	"sluice/internal/drop"
	"sluice/internal/lldp"
	"sluice/internal/loopgap"
	"sluice/internal/punt"
	"sluice/internal/thread"
	"sluice/internal/umem"
	"sluice/pmd"
	"sluice/pmd/mem"
)

const (
	lldpStormRate = 100_000 // LLDPDUs a second
	lldpStormPort = 2
	lldpCalmPort  = 3 // of a peer that sends an LLDPDU a second
)

// BenchmarkGapsUnderLLDPStorm measures the gaps of a loop that forwards between two busy ports,
// while a third port receives 100,000 LLDPDUs a second of 1000 neighbours, and while it does not.
// The control plane takes its frames 50 times a second, in either case. One operation is a pair of
// slices of a second, in random order. The metrics are medians, over all pairs, of the gaps' p99.99
// and of its ratio, with the spread that reportRatios describes. The benchmark fails if an LLDPDU
// is dropped without a reason, memory grows, or the peer at a fourth port is lost.
func BenchmarkGapsUnderLLDPStorm(b *testing.B) {
	memory, err := umem.Map(loopgap.Buffers, 2048)
	if err != nil {
		b.Fatal(err)
	}
	defer memory.Close()
	x := startLLDPStorm(b, memory)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go x.control(stop, stopped)
	x.slice(b, false) // the peer becomes known
	x.slice(b, true)
	before := heapInUse()
	var ratios []float64
	var gaps [2][]float64 // p99.99, without and with
	for b.Loop() {
		var of [2]float64
		first := rand.IntN(2)
		for _, storm := range []int{first, 1 - first} {
			of[storm] = x.slice(b, storm == 1)
			gaps[storm] = append(gaps[storm], of[storm])
		}
		ratios = append(ratios, of[1]/of[0])
	}
	close(stop)
	<-stopped
	x.collect()
	if after := heapInUse(); after > before+1<<20 {
		b.Errorf("memory in use grew from %d to %d bytes", before, after)
	}
	x.check(b)
	for i, name := range []string{"ns-without", "ns-with"} {
		slices.Sort(gaps[i])
		b.ReportMetric(gaps[i][len(gaps[i])/2], name)
	}
	reportRatios(b, "with/without", ratios)
	b.ReportMetric(float64(x.storm.sent.Load())/x.stormed.Seconds(), "LLDPDUs/s")
}

// lldpStorm is a switch in memory, in real time, with its control plane.
type lldpStorm struct {
	s         *dataplane.Switch
	discovery *discovery.System
	began     time.Time
	start     int64 // ns, time of the switch when began
	storm     *lldpSource
	calm      *lldpSource
	read      uint64
	stormed   time.Duration // how long the storm lasted, in all
}

// lldpSource is a driver that receives LLDPDUs at a rate.
type lldpSource struct {
	*mem.Null
	memory []byte
	now    *int64
	frames [][]byte // in turn
	every  int64    // ns
	due    int64    // when the next one arrives; math.MaxInt64: never
	sent   atomic.Uint64
}

// Receive implements pmd.Port.
func (l *lldpSource) Receive(burst []pmd.Desc) int {
	due := 0
	for ; due < len(burst) && l.due <= *l.now; due++ {
		l.due += l.every
	}
	n := l.Null.Receive(burst[:due])
	for i := range burst[:n] {
		f := l.frames[l.sent.Load()%uint64(len(l.frames))]
		burst[i].Len = uint32(copy(l.memory[burst[i].Addr:], f))
		l.sent.Add(1)
	}
	return n
}

func startLLDPStorm(b *testing.B, memory *umem.Memory) *lldpStorm {
	x := &lldpStorm{}
	source := func(d *mem.Null, every int64, numbers ...int) *lldpSource {
		l := &lldpSource{Null: d, memory: memory.Bytes(), every: every, due: math.MaxInt64, now: new(int64)}
		for _, n := range numbers {
			l.frames = append(l.frames, lldpduOf(b, n))
		}
		return l
	}
	var storm []int
	for i := range 1000 {
		storm = append(storm, i)
	}
	subscribe := []punt.Subscription{punt.SubscribeLLDP(punt.Limit{Rate: 100, Burst: 50})}
	s, start, err := loopgap.Load{
		Ports: 4, Lengths: []int{60},
		Tune: func(p *dataplane.Params) {
			for i := range p.Ports {
				p.Ports[i].Punt = subscribe
			}
		},
		Wrap: func(port int, d *mem.Null) pmd.Port {
			switch port {
			case lldpStormPort:
				x.storm = source(d, int64(time.Second)/lldpStormRate, storm...)
				return x.storm
			case lldpCalmPort:
				x.calm = source(d, int64(time.Second), 1000)
				return x.calm
			}
			return d
		},
	}.Start(memory, busyStep)
	if err != nil {
		b.Fatal(err)
	}
	x.s, x.start, x.began = s, start, time.Now()
	x.calm.due = start
	x.configure(b)
	return x
}

// configure has discovery speak for all ports.
func (x *lldpStorm) configure(b *testing.B) {
	x.discovery = discovery.New(slog.New(slog.DiscardHandler), func(port string, frame []byte) {
		x.s.Inject(slices.Index(x.s.Names(), port), frame)
	})
	p := discovery.Params{Interval: 30e9, Hold: 4, Name: "storm", Bridge: true}
	for _, name := range x.s.Names() {
		p.Ports = append(p.Ports, discovery.PortParams{Name: name, LLDP: lldp.RXTX, MaxFrame: 1518, DCBX: true,
			Local: dcbxSettings([6]byte{})})
	}
	if err := x.discovery.Configure(x.now(), p); err != nil {
		b.Fatal(err)
	}
	for i, name := range x.s.Names() {
		x.discovery.SetLink(x.now(), name, true, [6]byte{2, 0xff, 5: byte(i)}, 0)
	}
}

func dcbxSettings(mac [6]byte) dcbx.Config {
	return dcbx.Config{MAC: mac, Enabled: [dcbx.Features]bool{true, true, true},
		PFC: dcbx.PFC{Priorities: 1 << 3, Capability: 8},
		ETS: dcbx.ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{dcbx.TSAETS}, MaxTCs: 8}}
}

// lldpduOf returns an LLDPDU of a neighbour with a number, with a TTL of 5 s.
func lldpduOf(b *testing.B, number int) []byte {
	mac := [6]byte{2, 1, 0, 0, byte(number >> 8), byte(number)}
	l := lldp.Local{MAC: mac, Chassis: lldp.ChassisID{Subtype: lldp.ChassisMAC, Value: mac[:]},
		Port:       lldp.PortID{Subtype: lldp.PortInterfaceName, Value: []byte("eth0")},
		SystemName: fmt.Sprintf("neighbour%d", number)}
	f, err := l.Append(nil, 5, dcbx.NewMachine(dcbxSettings(mac)).TLVs(nil))
	if err != nil {
		b.Fatal(err)
	}
	return f
}

func (x *lldpStorm) now() int64 { return x.start + int64(time.Since(x.began)) }

// control is the control plane's part: it takes the frames 50 times a second.
func (x *lldpStorm) control(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			x.collect()
		case <-stop:
			return
		}
	}
}

func (x *lldpStorm) collect() {
	now, names := x.now(), x.s.Names()
	x.read += uint64(x.s.Punted(func(f punt.Frame) { x.discovery.Receive(now, names[f.Port], f.Bytes) }))
	x.discovery.Advance(now)
}

// slice returns the p99.99 of the gaps in a second, in ns.
func (x *lldpStorm) slice(b *testing.B, storm bool) float64 {
	const length = time.Second
	all := bench.NewTimes()
	runtime.GC()
	err := thread.OnCPU(0, func() {
		w := x.s.Workers[0]
		now := x.now()
		if x.storm.due = math.MaxInt64; storm {
			x.storm.due = now
			x.stormed += length
		}
		for end := now + int64(length); now < end; {
			*x.storm.now, *x.calm.now = now, now
			w.Step(now)
			next := x.now()
			all.Record(next-now, 1)
			now = next
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return all.At(.9999)
}

// check checks what became of the LLDPDUs.
func (x *lldpStorm) check(b *testing.B) {
	ports := x.s.Workers[0].Look(x.now()).Ports
	punted := uint64(0)
	for i, l := range map[int]*lldpSource{lldpStormPort: x.storm, lldpCalmPort: x.calm} {
		c := ports[i].PortCounters
		rate, full := uint64(0), uint64(0)
		for class := range dataplane.Priorities {
			rate += c.Drops[drop.PuntRate][class]
			full += c.Drops[drop.PuntFull][class]
		}
		punted += c.Punted[punt.LLDP]
		if c.Dropped() != rate+full || c.Punted[punt.LLDP]+rate+full != l.sent.Load() || ports[i].LosslessDrops() != 0 {
			b.Errorf("port %d: %d LLDPDUs arrived, %d punted, %d dropped for their rate, %d for lack of room; %d drops",
				i, l.sent.Load(), c.Punted[punt.LLDP], rate, full, c.Dropped())
		}
	}
	for i := range 2 {
		if n := ports[i].Dropped(); n != 0 {
			b.Errorf("port %d: %d frames dropped", i, n)
		}
	}
	r, _ := x.discovery.Report(x.now(), x.s.Names()[lldpCalmPort])
	if x.read != punted || len(r.Neighbors) != 1 || r.AgedOut != 0 {
		b.Errorf("%d LLDPDUs read of %d punted; the other port has %d neighbours, %d aged out", x.read, punted,
			len(r.Neighbors), r.AgedOut)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
