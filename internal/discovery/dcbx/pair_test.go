package dcbx

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// seedFlag repeats random exchanges: the log has the seed.
var seedFlag = flag.Uint64("seed", 0, "seed of random exchanges; 0: another each time")

// node is an end of a link: a Machine and what is under way to it.
type node struct {
	m      *Machine
	c      Config
	inbox  [][][]byte
	sent   int
	silent int // turns since it has last sent
}

// link is two ends and a medium that may lose, duplicate and reorder LLDPDUs.
type link struct {
	ends                  [2]*node
	r                     *rand.Rand
	lose, double, reorder float64
}

func newLink(a, b Config, r *rand.Rand) *link {
	l := &link{r: r}
	for i, c := range []Config{a, b} {
		l.ends[i] = &node{m: NewMachine(c), c: c}
	}
	return l
}

// periodic is the interval in turns after which an end sends although nothing has changed.
const periodic = 30

// turn lets both ends send, if something is pending or the interval is over, and receive.
func (l *link) turn() {
	for i, n := range l.ends {
		if n.silent++; !n.m.Pending() && n.silent < periodic {
			continue
		}
		n.silent = 0
		n.sent++
		tlvs, peer := n.m.TLVs(nil), l.ends[1-i]
		for copies := 1; copies > 0; copies-- {
			if l.chance(l.double) {
				copies++
			}
			if l.chance(l.lose) {
				continue
			}
			at := len(peer.inbox)
			if l.chance(l.reorder) {
				at = l.r.IntN(at + 1)
			}
			peer.inbox = slices.Insert(peer.inbox, at, tlvs)
		}
	}
	for i, n := range l.ends {
		if len(n.inbox) > 0 && !l.chance(l.reorder) { // it may also be late
			tlvs := n.inbox[0]
			n.inbox = n.inbox[1:]
			n.m.Receive(l.ends[1-i].c.MAC, tlvs)
		}
	}
}

func (l *link) chance(p float64) bool { return p > 0 && l.r.Float64() < p }

// patient is the most LLDPDUs after which both ends have judged each other for good: one may still
// stand still for a chase that is over, and then wait to see if the other takes its priorities.
const patient = 4*maxIgnored + maxIgnored + 1

// settles runs a perfect medium until nothing is pending and under way, sends everything twice more
// as LLDP does, and reports whether all that took a bounded number of LLDPDUs and stayed as it was.
func (l *link) settles(t *testing.T) bool {
	t.Helper()
	l.lose, l.double, l.reorder = 0, 0, 0
	before := l.ends[0].sent + l.ends[1].sent
	var last [2]Status
	for turns := range (patient + 2) * periodic {
		l.turn()
		if turns == patient*periodic {
			last = l.status()
		}
	}
	n := l.ends[0].sent + l.ends[1].sent - before
	if now := l.status(); !reflect.DeepEqual(now, last) {
		t.Errorf("still changes: %+v, %+v", last, now)
		return false
	}
	if n > 2*(patient+2)+34 {
		t.Errorf("%d LLDPDUs", n)
		return false
	}
	return true
}

func (l *link) status() (s [2]Status) {
	for i, n := range l.ends {
		s[i] = n.m.Status()
	}
	return s
}

// pairConfig returns a configuration of one of two ends.
func pairConfig(v Version, end int, priorities uint8) Config {
	c := testConfig(v)
	c.MAC[5], c.PFC.Priorities = byte(end+1), priorities
	return c
}

func willing(on bool) [Features]bool { return [Features]bool{on, on, on} }

// TestWilling: all combinations of willing, in every version, between two Machines with different
// values.
func TestWilling(t *testing.T) {
	for _, v := range []Version{IEEE, CEE, CIN} {
		for combination := range 4 {
			a, b := pairConfig(v, 0, 0x08), pairConfig(v, 1, 0x30)
			a.Willing, b.Willing = willing(combination&1 == 1), willing(combination&2 == 2)
			b.ETS = ETS{TC: [8]uint8{7: 1}, Bandwidth: [8]uint8{100}, TSA: [8]uint8{TSAETS}, MaxTCs: 8}
			b.Apps = []App{{SelectEthertype, EthertypeFCoE, 5}}
			l := newLink(a, b, nil)
			l.settles(t)
			name := fmt.Sprintf("%v, willing %v and %v", v, a.Willing[0], b.Willing[0])
			checkWilling(t, name, v, a, b, l.status())
		}
	}
}

func checkWilling(t *testing.T, name string, v Version, a, b Config, s [2]Status) {
	t.Helper()
	want, states := uint8(0), [2]State{StateMismatch, StateMismatch}
	switch {
	case a.Willing[0] == b.Willing[0] && v.legacy(): // differ, off at both ends
	case !a.Willing[0] && !b.Willing[0]: // IEEE: each its own, of which nothing is common
	case a.Willing[0] && !b.Willing[0], a.Willing[0] && b.Willing[0]: // a has the lower address and gives way
		want, states = 0x30, [2]State{StatePeer, StateLocal}
	default:
		want, states = 0x08, [2]State{StateLocal, StatePeer}
	}
	for i := range s {
		f := &s[i].Features
		if states[i] == StateLocal && v == IEEE {
			states[i] = StateAgreed // the peer shows what it has taken
		}
		if f[FeaturePFC].State != states[i] || f[FeaturePFC].Operational.PFC.Priorities != want {
			t.Errorf("%s: end %d: %+v, want %v and %#x", name, i, f[FeaturePFC], states[i], want)
		}
	}
	// ETS is asymmetric with IEEE; with CIN it is like PFC; with CEE ends that are equally willing
	// agree.
	for i, pair := range [][2]Config{{a, b}, {b, a}} {
		own, other := pair[0], pair[1]
		runs, got := own.ETS, s[i].Features[FeatureETS]
		if own.Willing[0] && (v == IEEE || !other.Willing[0]) {
			runs = other.ETS
		}
		if !got.Operational.ETS.Same(&runs) || v == CIN && own.Willing == other.Willing && got.State != StateMismatch {
			t.Errorf("%s: end %d: ETS %+v", name, i, got)
		}
	}
	for i, pair := range [][2]Config{{a, b}, {b, a}} {
		own, other := pair[0], pair[1]
		got := s[i].Features[FeatureApp]
		takes := own.Willing[0] && (!other.Willing[0] || v == IEEE && i == 0)
		if takes != (got.Source == Peer) || takes && !slices.Equal(got.Operational.Apps, carriedBy(v, other.Apps)) {
			t.Errorf("%s: end %d: applications %+v", name, i, got)
		}
	}
}

// carriedBy returns applications as a peer sees them.
func carriedBy(v Version, apps []App) []App {
	if v.legacy() {
		return carried(v, apps)
	}
	return slices.SortedFunc(slices.Values(apps), compareApps)
}

// TestVersions: every pair of versions. Two that differ have no DCBX, and say so.
func TestVersions(t *testing.T) {
	for a := range Version(versions) {
		for b := range Version(versions) {
			x, y := pairConfig(a, 0, 0x08), pairConfig(b, 1, 0x18)
			y.Willing = willing(true)
			l := newLink(x, y, nil)
			l.settles(t)
			s := l.status()
			name := fmt.Sprintf("%v and %v", a, b)
			if a != b && a != Auto && b != Auto {
				for i, want := range []Version{a, b} {
					f := s[i].Features[FeaturePFC]
					if s[i].Version != want || f.State != StateVersion || f.Source != Off || s[i].Why != "configured" {
						t.Errorf("%s: end %d: %+v", name, i, s[i])
					}
				}
				continue
			}
			want := max(a, b, IEEE)
			for i, f := range []State{StateLocal, StatePeer} {
				if want == IEEE && i == 0 {
					f = StateAgreed
				}
				if got := s[i].Features[FeaturePFC]; s[i].Version != want || got.State != f ||
					got.Operational.PFC.Priorities != 0x08 || s[i].Why == "" {
					t.Errorf("%s: end %d: %+v", name, i, s[i])
				}
			}
		}
	}
}

// TestTies: both ends willing, with all ways to break the tie. Ends that disagree about the tie
// settle, too.
func TestTies(t *testing.T) {
	for _, c := range []struct {
		a, b    Tie
		sameMAC bool
		runs    uint8
		states  [2]State
	}{
		{TieLower, TieLower, false, 0x30, [2]State{StatePeer, StateAgreed}},
		{TieHigher, TieHigher, false, 0x08, [2]State{StateAgreed, StatePeer}},
		{TieHigher, TieLower, false, 0, [2]State{StateMismatch, StateMismatch}}, // neither gives way
		{TieLower, TieLower, true, 0, [2]State{StateMismatch, StateMismatch}},
	} {
		a, b := pairConfig(IEEE, 0, 0x08), pairConfig(IEEE, 1, 0x30)
		a.Willing, b.Willing, a.Tie, b.Tie = willing(true), willing(true), c.a, c.b
		if c.sameMAC {
			b.MAC = a.MAC
		}
		l := newLink(a, b, nil)
		l.settles(t)
		for i, s := range l.status() {
			if f := s.Features[FeaturePFC]; f.Operational.PFC.Priorities != c.runs || f.State != c.states[i] {
				t.Errorf("%v and %v: end %d: %+v", c.a, c.b, i, f)
			}
		}
	}
	a, b := pairConfig(IEEE, 0, 0x08), pairConfig(IEEE, 1, 0x30)
	a.Willing, b.Willing, a.Tie, b.Tie = willing(true), willing(true), TieLower, TieHigher // both give way
	l := newLink(a, b, nil)
	for range 2 * 4 * maxIgnored * periodic { // as long as both could stand still, twice
		l.turn()
	}
	l.settles(t)
	for i, want := range []State{StatePeer, StateAgreed} {
		if f := l.status()[i].Features[FeaturePFC]; f.State != want || f.Operational.PFC.Priorities != 0x30 {
			t.Errorf("end %d: %+v", i, f)
		}
	}
}

// randomConfig draws a configuration of an end.
func randomConfig(r *rand.Rand, v Version, end int) Config {
	c := pairConfig(v, end, []uint8{0, 0x08, 0x08, 0x18, 0x30}[r.IntN(5)])
	for f := range c.Willing {
		c.Enabled[f] = r.IntN(6) > 0
	}
	c.Willing = willing(r.IntN(2) == 0)
	if r.IntN(2) == 0 {
		c.ETS = ETS{TC: [8]uint8{7: 1}, Bandwidth: [8]uint8{100}, TSA: [8]uint8{TSAETS}, MaxTCs: 8}
	}
	c.Apps = c.Apps[:r.IntN(4)]
	if c.PFC.Capability = 8; r.IntN(10) == 0 {
		c.PFC.Capability = 1
	}
	return c
}

// disturb changes something at an end.
func (l *link) disturb(version func() Version) {
	n := l.ends[l.r.IntN(2)]
	end := slices.Index(l.ends[:], n)
	switch l.r.IntN(8) {
	case 0, 1, 2, 3:
		n.c = randomConfig(l.r, version(), end)
		n.m.Configure(n.c)
	case 4:
		n.m.Expire()
	case 5:
		f := Feature(l.r.IntN(Features))
		n.m.Refuse(f, "no memory")
	case 6:
		n.m.SetMultiplePeers(l.r.IntN(2) == 0)
	case 7:
		if l.r.IntN(4) == 0 { // the link goes down for both
			for _, n := range l.ends {
				n.m.LinkDown()
				n.inbox = nil
			}
		}
	}
}

// TestLossDuplicationReordering: two Machines over a bad medium, with changes of configuration,
// expiry, refusals and lost links between. Afterwards both settle on the same.
func TestLossDuplicationReordering(t *testing.T) {
	first := *seedFlag
	if first == 0 {
		first = rand.Uint64()
	}
	t.Logf("-seed %d", first)
	for n := range uint64(2000) {
		seed := first + n
		r := rand.New(rand.NewPCG(seed, 0))
		pair := []Version{Auto, IEEE, CEE, CIN}
		v := pair[r.IntN(4)]
		l := newLink(randomConfig(r, v, 0), randomConfig(r, v, 1), r)
		l.lose, l.double, l.reorder = r.Float64()*0.5, r.Float64()*0.3, r.Float64()*0.5
		for range 200 {
			if l.chance(0.05) {
				l.disturb(func() Version { return v })
			}
			l.turn()
		}
		for _, n := range l.ends {
			n.m.SetMultiplePeers(false)
			for f := range Feature(Features) {
				n.m.Refuse(f, "")
			}
		}
		if !l.settles(t) {
			t.Fatalf("-seed %d, %v", seed, v)
		}
		if a, b := l.ends[0], l.ends[1]; !agree(t, a, b) {
			t.Fatalf("-seed %d, %v: %+v\n%+v\n%+v\n%+v", seed, v, a.c, b.c, a.m.Status(), b.m.Status())
		}
	}
}

// agree reports whether two ends that have settled fit together.
func agree(t *testing.T, a, b *node) bool {
	t.Helper()
	x, y := a.m.Status(), b.m.Status()
	if x.Version != y.Version {
		t.Errorf("versions %v, %v", x.Version, y.Version)
		return false
	}
	ok := true
	if c, d := x.Control, y.Control; c != nil && (c.SeqNo == 0 || c.SeqNo != d.AckNo || c.MyAckNo != d.AckNo ||
		d.SeqNo != c.AckNo || d.MyAckNo != c.AckNo || !c.Acknowledged || !d.Acknowledged) {
		t.Errorf("control %+v, %+v", c, d)
		ok = false
	}
	for f := range Features {
		p, q := x.Features[f], y.Features[f]
		both := Feature(f) == FeaturePFC || x.Version.legacy() && a.m.advertises(Feature(f)) &&
			b.m.advertises(Feature(f))
		if both && (p.Source == Off) != (q.Source == Off) || p.Source == Peer && q.Source == Peer &&
			x.Version.legacy() {
			t.Errorf("%v: runs %v, %v", Feature(f), p.Source, q.Source)
			ok = false
		}
		if p.Operational.PFC.Priorities != q.Operational.PFC.Priorities {
			t.Errorf("PFC %#x, %#x", p.Operational.PFC.Priorities, q.Operational.PFC.Priorities)
			ok = false
		}
	}
	return ok
}

// TestConfigurationIsFollowed: a change of one end reaches the other with one LLDPDU, in both
// directions, in every version, while the rest stays as it is.
func TestConfigurationIsFollowed(t *testing.T) {
	for _, v := range []Version{IEEE, CEE, CIN} {
		a, b := pairConfig(v, 0, 0x08), pairConfig(v, 1, 0)
		b.Willing = willing(true)
		l := newLink(a, b, nil)
		l.settles(t)
		for _, priorities := range []uint8{0x18, 0x10, 0, 0x08} {
			a.PFC.Priorities = priorities
			sent := l.ends[0].sent + l.ends[1].sent
			l.ends[0].m.Configure(a)
			for range 5 {
				l.turn()
			}
			if n := l.ends[0].sent + l.ends[1].sent - sent; n > 3 {
				t.Errorf("%v: %d LLDPDUs", v, n)
			}
			for i, s := range l.status() {
				if got := s.Features[FeaturePFC].Operational.PFC.Priorities; got != priorities {
					t.Errorf("%v: end %d: %#x, want %#x", v, i, got, priorities)
				}
			}
		}
	}
}
