package bridge

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

// model determines what a bridge must decide, with a map of timestamps. Its time is in ticks.
type model struct {
	ageing    int64
	ports     []PortParams
	static    map[place]int
	station   map[place]visit
	since     []int64 // by port: entries seen before are forgotten
	flushed   []flushed
	own       []frame.MAC
	want      Stats       // Removed stays 0: when dead entries leave the table is not specified
	anomalies []PortStats // by port
}

type place struct {
	mac frame.MAC
	vid uint16
}

// visit records where and when an address was seen.
type visit struct {
	port int
	seen int64
}

// flushed records that addresses seen before a time were forgotten: in a VLAN, or in all if vid is
// 0, on a port or on AnyPort.
type flushed struct {
	before int64
	port   int
	vid    uint16
}

// forgets reports whether a visit was forgotten on request.
func (m *model) forgets(p place, v visit) bool {
	return slices.ContainsFunc(m.flushed, func(f flushed) bool {
		return v.seen < f.before && (f.vid == 0 || f.vid == p.vid) && (f.port == AnyPort || f.port == v.port)
	})
}

func (m *model) vlan(in int, h *frame.Header) uint16 {
	if h.Tagged && h.VID > 0 {
		return h.VID
	}
	return m.ports[in].PVID
}

func (m *model) member(port int, vid uint16) bool { return m.ports[port].VLANs.Has(vid) }

// find returns the port of an address, or -1.
func (m *model) find(now int64, p place) int {
	if port, ok := m.static[p]; ok {
		return port
	}
	if s, ok := m.station[p]; ok && now-s.seen <= m.ageing && s.seen >= m.since[s.port] && !m.forgets(p, s) {
		return s.port
	}
	return -1
}

// note counts an anomaly of a frame from an address on a port.
func (m *model) note(port int, what Anomaly, p place, from int) {
	s := &m.anomalies[port][what]
	*s = AnomalyCount{s.Frames + 1, p.mac, p.vid, from}
}

// learn records that an address was seen, and reports whether the bridge must know it there now.
// full says that the bridge had no room for it.
func (m *model) learn(now int64, p place, port int, full bool) (learned bool) {
	if at, ok := m.static[p]; ok {
		if at != port {
			m.want.Pinned++
			m.note(port, Pinned, p, at)
		}
		return false
	}
	switch known := m.find(now, p); {
	case known != port && full:
		m.note(port, NoRoom, p, -1)
		return false
	case known < 0 && slices.Contains(m.own, p.mac):
		m.want.Own++
		m.note(port, Own, p, slices.Index(m.own, p.mac))
		return false
	case known >= 0 && known != port:
		m.want.Moved++
		m.note(port, Moved, p, known)
	case known == port:
		now = max(now, m.station[p].seen) // what another worker has announced may be ahead
	}
	m.station[p] = visit{port, now}
	return true
}

// forward returns the decision, without Learned.
func (m *model) forward(now int64, in int, h *frame.Header) verdict {
	vid := m.vlan(in, h)
	var others []uint16
	for p := range m.ports {
		if p != in && m.member(p, vid) {
			others = append(others, uint16(p))
		}
	}
	if !h.Dst.Group() {
		switch out := m.find(now, place{h.Dst, vid}); out {
		case -1:
			m.want.Unknown++
		case in:
			return verdict{decision: decision{Out: Nowhere, Reason: NoDestination}}
		default:
			return verdict{decision: decision{Out: int32(out)}}
		}
	}
	if len(others) == 0 {
		return verdict{decision: decision{Out: Nowhere, Reason: NoDestination}}
	}
	return verdict{decision{Out: Flood}, others}
}

// subject is a bridge with its model, at one time.
type subject struct {
	*model
	b        *Bridge
	capacity int
	now      int64 // ticks
	part     int64 // ns since the tick began
}

func (s *subject) ns() int64 { return s.now*us + s.part }

func drawSubject(t *rapid.T) *subject {
	s := &subject{
		model: &model{ageing: rapid.Int64Range(1, 40).Draw(t, "ageing"), static: map[place]int{},
			station: map[place]visit{}},
		now: rapid.Int64Range(-1000, 1000).Draw(t, "start"),
		// Small enough to be full often, large enough to hold all addresses sometimes.
		capacity: rapid.IntRange(4, 40).Draw(t, "capacity"),
	}
	for range rapid.IntRange(1, 5).Draw(t, "ports") {
		s.ports = append(s.ports, PortParams{
			VLANs: vlans(rapid.SliceOf(rapid.Uint16Range(1, 3)).Draw(t, "vlans")...),
			PVID:  rapid.Uint16Range(1, 3).Draw(t, "pvid"),
			Limit: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "limit"),
		})
		s.since = append(s.since, math.MinInt64)
	}
	s.own = make([]frame.MAC, len(s.ports))
	s.anomalies = make([]PortStats, len(s.ports))
	b, err := New(Params{Ports: s.ports, Ageing: s.ageing * us, Capacity: s.capacity, Static: s.drawStatic(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.b = b
	return s
}

func (s *subject) drawStatic(t *rapid.T) (entries []StaticEntry) {
	for range rapid.IntRange(0, 2).Draw(t, "static entries") {
		port, mac := s.drawPort(t), rapid.SampledFrom([]frame.MAC{alice, bob}).Draw(t, "mac")
		at := place{mac, rapid.Uint16Range(1, 3).Draw(t, "vid")}
		if _, twice := s.static[at]; !twice && s.member(port, at.vid) {
			s.static[at] = port
			entries = append(entries, StaticEntry{at.mac, at.vid, port})
		}
	}
	return entries
}

var (
	anyStation = rapid.SampledFrom([]frame.MAC{
		alice, bob, carol, alice + 0x100, bob + 0x100, carol + 0x100, 0, 0x0200_ffff_ffff, 0x0100_5e00_0001,
		frame.Broadcast,
	})
	anyVID = rapid.Uint16Range(0, 4)
)

func (s *subject) drawPort(t *rapid.T) int { return rapid.IntRange(0, len(s.ports)-1).Draw(t, "port") }

func (s *subject) forward(t *rapid.T) {
	in := s.drawPort(t)
	h := tagged(anyStation.Draw(t, "src"), anyStation.Draw(t, "dst"), anyVID.Draw(t, "vid"))
	if h.VID == 0 {
		h.Tagged = rapid.Bool().Draw(t, "tagged")
	}
	vid := s.vlan(in, h)
	key := place{h.Src, vid}
	known := s.find(s.now, key)
	before := s.b.Stats()
	got := s.b.decide(s.ns(), in, h)
	if !s.member(in, vid) {
		if got.Reason != VLANIngress || got.Out != Nowhere || got.Flood != nil || got.Learned {
			t.Fatalf("VLAN %d from port %d, which is no member: %+v", vid, in, got)
		}
		return
	}
	own := s.want.Own
	real := h.Src != 0 && !h.Src.Group() && h.Src != h.Dst
	learned := (real || known == in) && s.learn(s.now, key, in, s.refused(t, before, in))
	if learned && known != in && !got.Learned {
		t.Fatalf("%v, before on port %d, is no news on port %d", h.Src, known, in)
	}
	if !learned && got.Learned {
		t.Fatalf("%v was learned", h.Src)
	}
	if !real || s.want.Own > own {
		if got.Reason != SourceAddress || got.Out != Nowhere || got.Flood != nil {
			t.Fatalf("%+v from port %d: %+v; no station there can have the address", *h, in, got)
		}
		return
	}
	want := s.model.forward(s.now, in, h)
	if got.Out != want.Out || got.Reason != want.Reason || !slices.Equal(sorted(got.Flood), want.Flood) {
		t.Fatalf("%+v from port %d: %+v, want %+v", *h, in, got, want)
	}
}

// refused reports whether the bridge has lacked room for an address of a port since before, and
// checks that it really had none.
func (s *subject) refused(t *rapid.T, before Stats, port int) bool {
	after, p := s.b.Stats(), s.b.shares[port]
	if after.PortFull > before.PortFull {
		if s.b.LearnedOn(port) != s.ports[port].Limit {
			t.Fatalf("port %d was refused at %d addresses", port, s.b.LearnedOn(port))
		}
		return true
	}
	if after.TableFull > before.TableFull {
		if p.used < p.kept || s.b.common < s.b.commonMost {
			t.Fatalf("no room for port %d, which has %d addresses of %d; %d of %d in common",
				port, p.used, p.kept, s.b.common, s.b.commonMost)
		}
		return true
	}
	return false
}

func (s *subject) learnRemote(t *rapid.T) {
	mac, vid, port := anyStation.Draw(t, "mac"), anyVID.Draw(t, "vid"), s.drawPort(t)
	before := s.b.Stats()
	s.b.Learn(s.ns(), mac, vid, port)
	if vid == 0 {
		vid = s.ports[port].PVID
	}
	key := place{mac, vid}
	_, static := s.static[key]
	newer := !static && s.station[key].seen > s.now && s.find(s.now, key) >= 0
	if mac == 0 || mac.Group() || !s.member(port, vid) || newer ||
		!s.learn(s.now, key, port, s.refused(t, before, port)) {
		return
	}
	seen := max(s.now, s.since[port]) // it is known although the port has forgotten all addresses since
	for _, f := range s.flushed {
		if f.vid == 0 && (f.port == AnyPort || f.port == port) {
			seen = max(seen, f.before)
		}
	}
	s.station[key] = visit{port, seen}
}

func (s *subject) forget(t *rapid.T) {
	port := s.drawPort(t)
	s.b.Forget(s.ns(), port)
	s.since[port] = s.now + 1
}

func (s *subject) flush(t *rapid.T) {
	port, vid := rapid.IntRange(AnyPort, len(s.ports)-1).Draw(t, "port"), rapid.Uint16Range(0, 3).Draw(t, "vid")
	f := flushed{s.now + 1, port, vid}
	over := func(o flush) bool { return o.before < at(s.ns())-s.b.ageing }
	if vid != 0 && len(s.b.flushes) == maxFlushes && !slices.ContainsFunc(s.b.flushes, over) {
		s.flushed = append(s.flushed, flushed{s.now + 1, AnyPort, 0})
	}
	s.flushed = append(s.flushed, f)
	s.b.Flush(s.ns(), f.port, f.vid)
	if rapid.Bool().Draw(t, "announce") {
		s.b.Announce(s.ns())
	}
}

// succeed has a bridge with the same parameters take over: nothing changes, except that ports in no
// VLAN count as gone.
func (s *subject) succeed(t *rapid.T) {
	next, err := s.b.Successor(s.b.params)
	if err != nil {
		t.Fatal(err)
	}
	next.TakeOver(s.ns(), s.b)
	s.b = next
	for port := range s.anomalies {
		if own := &s.anomalies[port][Own]; own.Frames > 0 && own.From >= 0 && next.vacant(own.From) {
			own.From = -1
		}
	}
}

func (s *subject) setOwn(t *rapid.T) {
	port, mac := s.drawPort(t), rapid.SampledFrom([]frame.MAC{0, alice, bob}).Draw(t, "own address")
	s.b.SetOwn(port, mac)
	s.own[port] = mac
}

func (s *subject) wait(t *rapid.T) {
	step := []int64{1, s.ageing / 4, s.ageing - 1, s.ageing, s.ageing + 1}
	if n := rapid.SampledFrom(step).Draw(t, "ticks"); n > 0 {
		s.now, s.part = s.now+n, 0
	}
	s.part = rapid.Int64Range(s.part, us-1).Draw(t, "ns")
}

// check compares what can be compared at any time.
func (s *subject) check(t *rapid.T) {
	live := make([]int, len(s.ports))
	for p, at := range s.station {
		if _, static := s.static[p]; !static && s.find(s.now, p) >= 0 {
			live[at.port]++
		}
	}
	all, kept, common := len(s.static), 0, 0
	for port, n := range live {
		if got := s.b.LearnedOn(port); got < n || s.ports[port].Limit > 0 && got > s.ports[port].Limit {
			t.Fatalf("port %d: %d entries with %d live ones, limit %d", port, got, n, s.ports[port].Limit)
		}
		all += s.b.LearnedOn(port)
		kept += max(s.b.LearnedOn(port), s.b.shares[port].kept)
		common += max(0, s.b.LearnedOn(port)-s.b.shares[port].kept)
	}
	if s.b.common != common {
		t.Fatalf("%d entries of the common part are counted, %d are there", s.b.common, common)
	}
	if n := s.b.Len(); n != all || n > s.capacity || kept > s.capacity-len(s.static) {
		t.Fatalf("%d entries, %d by port, room for %d; with what is kept for ports %d", n, all, s.capacity, kept)
	}
	got := s.b.Stats()
	if got.Learned-got.Removed != uint64(s.b.Len()-len(s.static)) {
		t.Fatalf("%+v don't add up to %d entries", got, s.b.Len())
	}
	s.want.Learned, s.want.Removed, s.want.TableFull, s.want.PortFull = got.Learned, got.Removed, got.TableFull,
		got.PortFull
	if got != s.want {
		t.Fatalf("%+v, want %+v", got, s.want)
	}
	for port, want := range s.anomalies {
		if got := s.b.PortStats(port); got != want {
			t.Fatalf("port %d: %+v, want %+v", port, got, want)
		}
	}
}

func TestBridgeAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSubject(t)
		t.Repeat(map[string]func(*rapid.T){
			"forward": s.forward,
			"answer":  s.forward, // half of the actions are frames
			"traffic": s.forward,
			"learn":   s.learnRemote,
			"forget":  s.forget,
			"flush":   s.flush,
			"own":     s.setOwn,
			"wait":    s.wait,
			"succeed": s.succeed,
			"":        s.check,
		})
	})
}

// TestWorkersKeepEachOtherInformed: two workers, each with its own bridge and ports, announce to
// each other only what Forward reports as learned. Each must then know every address that the other
// worker saw in the last half of the ageing time.
func TestWorkersKeepEachOtherInformed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const ports, ageing, perWorker = 4, 4000 * us, 2
		var workers [2]*Bridge
		for i := range workers {
			b, err := New(Params{Ports: make([]PortParams, ports), Ageing: ageing, Capacity: 64})
			if err != nil {
				t.Fatal(err)
			}
			workers[i] = b
		}
		seen := map[frame.MAC]visit{}
		var now int64
		told := 0
		for range rapid.IntRange(1, 300).Draw(t, "frames") {
			now += rapid.Int64Range(0, ageing/3).Draw(t, "ns")
			h := untagged(rapid.SampledFrom([]frame.MAC{alice, bob, carol}).Draw(t, "src"), frame.Broadcast)
			in := rapid.IntRange(0, ports-1).Draw(t, "port")
			here, there := workers[in/perWorker], workers[1-in/perWorker]
			if here.decide(now, in, h).Learned {
				there.Learn(now, h.Src, h.VID, in)
				told++
			}
			seen[h.Src] = visit{in, now}
			for mac, at := range seen {
				if out := there.place(now, mac); now-at.seen <= ageing/2-us && out != int32(at.port) {
					t.Fatalf("%v, on port %d %d ns ago: the other worker says %d", mac, at.port, now-at.seen, out)
				}
			}
		}
	})
}

// TestAnnouncementsAreRare: an address that sends all the time is announced four times per ageing
// time, not with every frame.
func TestAnnouncementsAreRare(t *testing.T) {
	const ageing = 1_000_000
	b := mustNew(t, Params{Ports: make([]PortParams, 2), Ageing: ageing})
	told := 0
	for now := int64(0); now < 10*ageing; now += 100 {
		if b.decide(now, 0, untagged(alice, bob)).Learned {
			told++
		}
	}
	if told < 39 || told > 41 {
		t.Errorf("announced %d times in ten ageing times, want about 40", told)
	}
}

// TestAnnouncedInEachQuarter: an address is news again with its first frame after a quarter of the
// ageing time, whether other bridges take over meanwhile or not.
func TestAnnouncedInEachQuarter(t *testing.T) {
	const quarter = 256
	for _, takeovers := range []int64{math.MaxInt64, 10} { // ticks between two
		b := mustNew(t, Params{Ports: make([]PortParams, 2), Ageing: 4 * quarter * us, Capacity: 16})
		for tick := range int64(3 * quarter) {
			for part := range int64(2) {
				want := tick%quarter == 0 && part == 0
				if got := b.decide(tick*us+part, 0, untagged(alice, bob)).Learned; got != want {
					t.Errorf("tick %d, frame %d: news %v, want %v", tick, part, got, want)
				}
			}
			if tick%takeovers == 1 {
				b = succeeded(t, tick*us, b, b.params)
			}
		}
	}
}

// TestBurstIsAsOneByOne: bursts of frames between few hosts, which form trains, are decided,
// learned and counted like the same frames one at a time.
func TestBurstIsAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Params{
			Ports: []PortParams{{}, {VLANs: vlans(1), Limit: 2}, {PVID: 2},
				{Storm: StormParams{UnknownUnicast: {Rate: 1000, Burst: 3}}}},
			Ageing: 8 * us, Capacity: rapid.IntRange(4, 20).Draw(t, "capacity"), Seed: 1,
			Static: []StaticEntry{{MAC: carol, VID: 1, Port: 2}},
		}
		together, apart := mustNew(t, p), mustNew(t, p)
		stale := Frame{Out: 99, Reason: Reasons, Learned: true} // decided before
		now := int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "bursts") {
			now += rapid.Int64Range(0, 4*us).Draw(t, "ns")
			in := rapid.IntRange(0, 3).Draw(t, "port")
			burst := make([]Frame, rapid.IntRange(1, 12).Draw(t, "frames"))
			for i := range burst {
				if i > 0 && rapid.IntRange(0, 2).Draw(t, "another") > 0 {
					burst[i] = burst[rapid.IntRange(0, i-1).Draw(t, "again")]
					continue
				}
				burst[i] = stale
				burst[i].Header = *tagged(anyStation.Draw(t, "src"), anyStation.Draw(t, "dst"), anyVID.Draw(t, "vid"))
			}
			together.Forward(now, in, burst)
			for i := range burst {
				f := &burst[i]
				if one := apart.decide(now, in, &f.Header); one.decision != (decision{f.Out, f.Reason, f.Learned}) {
					t.Fatalf("frame %d from port %d: %+v, alone %+v", i, in, *f, one)
				}
			}
			if together.Stats() != apart.Stats() || together.Len() != apart.Len() {
				t.Fatalf("%+v and %d stations, one by one %+v and %d", together.Stats(), together.Len(), apart.Stats(),
					apart.Len())
			}
			if !slices.Equal(together.anomalies, apart.anomalies) {
				t.Fatalf("anomalies %+v, one by one %+v", together.anomalies, apart.anomalies)
			}
		}
	})
}
