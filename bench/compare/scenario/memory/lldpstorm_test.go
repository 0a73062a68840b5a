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

	"sluice/bench/traffic/line"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
	"sluice/internal/discovery"
	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/linux/thread"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/pmd/mem"
)

const (
	lldpPorts     = 4
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
	compareGaps(b, func(storm bool) float64 { return x.slice(b, storm) }, func() {
		close(stop)
		<-stopped
		x.collect()
	})
	x.check(b)
	b.ReportMetric(float64(x.storm.sent.Load())/x.stormed.Seconds(), "LLDPDUs/s")
}

// compareGaps measures slices of a loop with a flood and without, which return the p99.99 of its
// gaps in ns, in pairs of random order, and reports the medians and their ratio. It calls end
// behind the last slice, and fails if memory has grown.
func compareGaps(b *testing.B, slice func(flood bool) float64, end func()) {
	slice(false) // peers become known
	slice(true)
	before := heapInUse()
	var ratios []float64
	var gaps [2][]float64 // without and with
	for b.Loop() {
		var of [2]float64
		first := rand.IntN(2)
		for _, flood := range []int{first, 1 - first} {
			of[flood] = slice(flood == 1)
			gaps[flood] = append(gaps[flood], of[flood])
		}
		ratios = append(ratios, of[1]/of[0])
	}
	end()
	if after := heapInUse(); after > before+1<<20 {
		b.Errorf("memory in use grew from %d to %d bytes", before, after)
	}
	for i, name := range []string{"ns-without", "ns-with"} {
		slices.Sort(gaps[i])
		b.ReportMetric(gaps[i][len(gaps[i])/2], name)
	}
	reportRatios(b, "with/without", ratios)
}

// lldpStorm is a switch in memory, in real time, with its control plane.
type lldpStorm struct {
	s         *dataplane.Switch
	discovery *discovery.System
	began     time.Time
	start     int64 // ns, time of the switch when began
	storm     *frameSource
	calm      *frameSource
	read      uint64
	stormed   time.Duration // how long the storm lasted, in all
}

// frameSource is a driver that receives frames for the control plane at a rate.
type frameSource struct {
	*mem.Null
	memory []byte
	now    *int64
	frames [][]byte // in turn
	every  int64    // ns
	due    int64    // when the next one arrives; math.MaxInt64: never
	sent   atomic.Uint64
}

// Receive implements pmd.Port.
func (l *frameSource) Receive(burst []pmd.Desc) int {
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

// newFrameSource returns a driver without frames, which receives one every so many ns once it is
// due.
func newFrameSource(memory *umem.Memory, d *mem.Null, every int64) *frameSource {
	return &frameSource{Null: d, memory: memory.Bytes(), every: every, due: math.MaxInt64, now: new(int64)}
}

func startLLDPStorm(b *testing.B, memory *umem.Memory) *lldpStorm {
	x := &lldpStorm{}
	source := func(d *mem.Null, every int64, numbers ...int) *frameSource {
		l := newFrameSource(memory, d, every)
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
		Ports: lldpPorts, Lengths: []int{60},
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
	ids := map[string]bridge.PortID{}
	x.discovery = discovery.New(slog.New(slog.DiscardHandler), func(port string, frame []byte) {
		x.s.Inject(ids[port], frame)
	})
	p := discovery.Params{Interval: 30e9, Hold: 4, Name: "storm", Bridge: true}
	for i := range lldpPorts {
		id := x.s.PortID(i)
		name := x.s.PortName(id)
		ids[name] = id
		p.Ports = append(p.Ports, discovery.PortParams{Name: name, LLDP: lldp.RXTX, MaxFrame: 1518, DCBX: true,
			Local: dcbxSettings([6]byte{})})
	}
	if err := x.discovery.Configure(x.now(), p); err != nil {
		b.Fatal(err)
	}
	for i := range lldpPorts {
		x.discovery.SetLink(x.now(), p.Ports[i].Name, true, [6]byte{2, 0xff, 5: byte(i)}, 0)
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
	now := x.now()
	x.read += uint64(x.s.Punted(punt.LLDP, func(f punt.Frame) {
		x.discovery.Receive(now, x.s.PortName(f.Port), f.Bytes)
	}))
	x.discovery.Advance(now)
}

// slice returns the p99.99 of the gaps in a second, in ns.
func (x *lldpStorm) slice(b *testing.B, storm bool) float64 {
	if storm {
		x.stormed += gapSlice
	}
	return x.storm.gaps(b, x.s.Workers[0], x.now, storm, x.calm)
}

// gapSlice is how long gaps measures.
const gapSlice = time.Second

// gaps steps a worker for a slice, while the driver receives its frames or does not, and returns
// the p99.99 of the gaps in ns. The worker has the others too.
func (l *frameSource) gaps(b *testing.B, w *dataplane.Worker, clock func() int64, storm bool,
	others ...*frameSource) float64 {
	all := new(line.Histogram)
	runtime.GC()
	err := thread.OnCPU(0, func() {
		now := clock()
		if l.due = math.MaxInt64; storm {
			l.due = now
		}
		for end := now + int64(gapSlice); now < end; {
			*l.now = now
			for _, o := range others {
				*o.now = now
			}
			w.Step(now)
			next := clock()
			all.Record(next-now, 1)
			now = next
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return all.Quantile(.9999)
}

// check checks what became of the LLDPDUs.
func (x *lldpStorm) check(b *testing.B) {
	ports := x.s.Workers[0].Look(x.now()).Ports
	punted := uint64(0)
	for i, l := range map[int]*frameSource{lldpStormPort: x.storm, lldpCalmPort: x.calm} {
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
	r, _ := x.discovery.Report(x.now(), x.s.PortName(x.s.PortID(lldpCalmPort)))
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
