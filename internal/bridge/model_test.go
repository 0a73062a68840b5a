package bridge

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

// model says what a bridge must decide: a map with timestamps.
type model struct {
	ageing  int64
	ports   []PortParams
	station map[place]sighting
	want    Stats // Removed stays 0: when dead entries leave the table is not laid down
}

type place struct {
	mac frame.MAC
	vid uint16
}

type sighting struct {
	port int
	seen int64
}

func (m *model) vlan(in int, h *frame.Header) uint16 {
	if h.Tagged && h.VID > 0 {
		return h.VID
	}
	return m.ports[in].PVID
}

func (m *model) member(port int, vid uint16) bool { return m.ports[port].VLANs.Has(vid) }

// find returns where a station is, or -1.
func (m *model) find(now int64, p place) int {
	if s, ok := m.station[p]; ok && now-s.seen <= m.ageing {
		return s.port
	}
	return -1
}

// learn notes a sighting. full says that the bridge may lack the room for a new station, and then refused it.
func (m *model) learn(now int64, p place, port int, full bool) {
	switch m.find(now, p) {
	case -1:
		if full {
			m.want.TableFull++
			return
		}
	case port:
	default:
		m.want.Moved++
	}
	m.station[p] = sighting{port, now}
}

// forward returns the decision, without Learned.
func (m *model) forward(now int64, in int, h *frame.Header) Decision {
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
			return Decision{Out: Nowhere, Reason: NoDestination}
		default:
			return Decision{Out: int32(out)}
		}
	}
	if len(others) == 0 {
		return Decision{Out: Nowhere, Reason: NoDestination}
	}
	return Decision{Out: Flood, Flood: others}
}

// subject is a bridge beside its model, at one time.
type subject struct {
	*model
	b        *Bridge
	capacity int
	now      int64
}

func drawSubject(t *rapid.T) *subject {
	s := &subject{
		model: &model{ageing: rapid.Int64Range(1, 40).Draw(t, "ageing"), station: map[place]sighting{}},
		now:   rapid.Int64Range(-1000, 1000).Draw(t, "start"),
		// Small enough to be full often, large enough to hold all stations sometimes.
		capacity: rapid.IntRange(1, 40).Draw(t, "capacity"),
	}
	for range rapid.IntRange(1, 5).Draw(t, "ports") {
		s.ports = append(s.ports, PortParams{
			VLANs: vlans(rapid.SliceOf(rapid.Uint16Range(1, 3)).Draw(t, "vlans")...),
			PVID:  rapid.Uint16Range(1, 3).Draw(t, "pvid"),
		})
	}
	b, err := New(Params{Ports: s.ports, Ageing: s.ageing, Capacity: s.capacity})
	if err != nil {
		t.Fatal(err)
	}
	s.b = b
	return s
}

var (
	anyStation = rapid.SampledFrom([]frame.MAC{
		alice, bob, carol, alice + 0x100, bob + 0x100, carol + 0x100, 0, 0x0200_ffff_ffff, 0x0100_5e00_0001, frame.Broadcast,
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
	fullBefore := s.b.Stats().TableFull
	got := s.b.Forward(s.now, in, h)
	if !s.member(in, vid) {
		if got.Reason != VLANIngress || got.Out != Nowhere || got.Flood != nil || got.Learned {
			t.Fatalf("VLAN %d from port %d, which is no member: %+v", vid, in, got)
		}
		return
	}
	refused := s.b.Stats().TableFull > fullBefore
	if refused && s.b.Len() != s.capacity {
		t.Fatalf("no room with %d entries of %d", s.b.Len(), s.capacity)
	}
	if !h.Src.Group() {
		s.learn(s.now, key, in, refused)
	}
	if news := !h.Src.Group() && !refused && known != in; news && !got.Learned {
		t.Fatalf("%v, before on port %d, is no news on port %d", h.Src, known, in)
	}
	if (refused || h.Src.Group()) && got.Learned {
		t.Fatalf("%v was learned: no room or a group address", h.Src)
	}
	want := s.model.forward(s.now, in, h)
	if got.Out != want.Out || got.Reason != want.Reason || !slices.Equal(sorted(got.Flood), want.Flood) {
		t.Fatalf("%+v from port %d: %+v, want %+v", *h, in, got, want)
	}
}

func (s *subject) learnRemote(t *rapid.T) {
	mac, vid, port := anyStation.Draw(t, "mac"), anyVID.Draw(t, "vid"), s.drawPort(t)
	before := s.b.Stats().TableFull
	s.b.Learn(s.now, mac, vid, port)
	if vid == 0 {
		vid = s.ports[port].PVID
	}
	if !mac.Group() && s.member(port, vid) {
		s.learn(s.now, place{mac, vid}, port, s.b.Stats().TableFull > before)
	}
}

func (s *subject) forget(t *rapid.T) {
	port := s.drawPort(t)
	s.b.Forget(port)
	for p, at := range s.station {
		if at.port == port {
			delete(s.station, p)
		}
	}
}

func (s *subject) wait(t *rapid.T) {
	step := []int64{1, s.ageing / 4, s.ageing - 1, s.ageing, s.ageing + 1}
	s.now += rapid.SampledFrom(step).Draw(t, "ns")
}

// check compares what can be compared at any time.
func (s *subject) check(t *rapid.T) {
	live := 0
	for p := range s.station {
		if s.find(s.now, p) >= 0 {
			live++
		}
	}
	if n := s.b.Len(); n < live || n > s.capacity {
		t.Fatalf("%d entries with %d live ones and room for %d", n, live, s.capacity)
	}
	got := s.b.Stats()
	if got.Learned-got.Removed != uint64(s.b.Len()) {
		t.Fatalf("%+v don't add up to %d entries", got, s.b.Len())
	}
	if got.Moved != s.want.Moved || got.TableFull != s.want.TableFull || got.Unknown != s.want.Unknown {
		t.Fatalf("%+v, want %+v", got, s.want)
	}
}

func TestBridgeAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSubject(t)
		t.Repeat(map[string]func(*rapid.T){
			"forward": s.forward,
			"answer":  s.forward, // half of what happens is frames
			"traffic": s.forward,
			"learn":   s.learnRemote,
			"forget":  s.forget,
			"wait":    s.wait,
			"":        s.check,
		})
	})
}

// Two workers, each with its own bridge and ports, tell each other what Forward reports as learned and nothing else.
// The other one must then know every station that its own worker saw in the last half of the ageing time.
func TestWorkersKeepEachOtherInformed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const ports, ageing, perWorker = 4, 4000, 2
		var workers [2]*Bridge
		for i := range workers {
			b, err := New(Params{Ports: make([]PortParams, ports), Ageing: ageing, Capacity: 64})
			if err != nil {
				t.Fatal(err)
			}
			workers[i] = b
		}
		seen := map[frame.MAC]sighting{}
		var now int64
		told := 0
		for range rapid.IntRange(1, 300).Draw(t, "frames") {
			now += rapid.Int64Range(0, ageing/3).Draw(t, "ns")
			h := untagged(rapid.SampledFrom([]frame.MAC{alice, bob, carol}).Draw(t, "src"), frame.Broadcast)
			in := rapid.IntRange(0, ports-1).Draw(t, "port")
			here, there := workers[in/perWorker], workers[1-in/perWorker]
			if here.Forward(now, in, h).Learned {
				there.Learn(now, h.Src, h.VID, in)
				told++
			}
			seen[h.Src] = sighting{in, now}
			for mac, at := range seen {
				if d := there.Forward(now, 3-in, untagged(0x0300_0000_0000, mac)); now-at.seen <= ageing/2 && at.port != 3-in && d.Out != int32(at.port) {
					t.Fatalf("%v, on port %d %d ns ago: the other worker says %+v", mac, at.port, now-at.seen, d)
				}
			}
		}
	})
}

// A station that sends all the time is announced four times per ageing time, not with every frame.
func TestAnnouncementsAreRare(t *testing.T) {
	const ageing = 1_000_000
	b := mustNew(t, Params{Ports: make([]PortParams, 2), Ageing: ageing})
	told := 0
	for now := int64(0); now < 10*ageing; now += 100 {
		if b.Forward(now, 0, untagged(alice, bob)).Learned {
			told++
		}
	}
	if told < 39 || told > 41 {
		t.Errorf("announced %d times in ten ageing times, want about 40", told)
	}
}
