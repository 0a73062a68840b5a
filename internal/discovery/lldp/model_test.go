package lldp

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is an LLDP agent as the state diagrams of 802.1AB clause 9.2 have it: it is called each
// second, and has the standard's variables. Its neighbours are the receive state machine's effect.
type model struct {
	p           Params
	portEnabled bool
	now         int64 // s

	// transmit state machine
	tx              string
	txNow           bool
	txShutdownWhile int64
	identity        byte // what a shutdown frame says
	frames          []string

	// transmit timer state machine
	timer                string
	txTTR                int64
	txFast, txCredit     int
	txTick, localChange  bool
	newNeighbor          bool
	tooManyNeighborsTime int64
	neighbours           []modelNeighbour
	stats                Stats
}

type modelNeighbour struct {
	id, content byte
	ttl         uint16
	rxInfoTTL   int64
}

func newModel(p Params) *model {
	return &model{p: p, tx: "TX_LLDP_INITIALIZE", timer: "TX_TIMER_BEGIN", identity: p.Local.Chassis.Value[0]}
}

// tick is one second.
func (m *model) tick() {
	m.now++
	for _, timer := range []*int64{&m.txTTR, &m.txShutdownWhile, &m.tooManyNeighborsTime} {
		*timer = max(0, *timer-1)
	}
	m.txTick = true
	var left []modelNeighbour
	for _, n := range m.neighbours {
		if n.rxInfoTTL--; n.rxInfoTTL > 0 {
			left = append(left, n)
		} else {
			m.stats.Ageouts++
			m.stats.Deletes++
		}
	}
	m.neighbours = left
	m.run()
}

func (m *model) enabled() bool {
	return m.portEnabled && (m.p.Status == TXOnly || m.p.Status == RXTX) && m.identity == m.p.Local.Chassis.Value[0]
}

// run executes both transmit machines until neither changes.
func (m *model) run() {
	for {
		before := fmt.Sprint(m.tx, m.timer)
		m.runTimer()
		m.runTX()
		if fmt.Sprint(m.tx, m.timer) == before && !(m.tx == "TX_IDLE" && m.txNow && m.txCredit > 0) {
			return
		}
	}
}

func (m *model) runTimer() {
	if m.timer == "TX_TIMER_BEGIN" || !m.portEnabled || !(m.p.Status == TXOnly || m.p.Status == RXTX) {
		m.timer = "TX_TIMER_INITIALIZE"
		m.txTick, m.txNow, m.localChange, m.newNeighbor = false, false, false, false
		m.txTTR, m.txFast, m.txCredit = 0, 0, m.p.Credits
		if !m.portEnabled {
			m.txShutdownWhile = 0
			return
		}
		if !(m.p.Status == TXOnly || m.p.Status == RXTX) {
			return
		}
	}
	m.timer = "TX_TIMER_IDLE"
	signal := func() {
		m.txNow, m.localChange = true, false
		m.txTTR = m.p.Interval / second
		if m.txFast > 0 {
			m.txTTR = m.p.FastInterval / second
		}
	}
	expires := func() {
		if m.txFast > 0 {
			m.txFast--
		}
		signal()
	}
	switch {
	case m.txTick: // before others: a credit of this second may be spent in it
		m.txTick = false
		m.txCredit = min(m.txCredit+1, m.p.Credits)
		m.runTimer()
	case m.localChange:
		signal()
	case m.txTTR == 0:
		expires()
	case m.newNeighbor:
		if m.newNeighbor = false; m.txFast == 0 {
			m.txFast = m.p.FastCount
		}
		expires()
	}
}

func (m *model) runTX() {
	if !m.portEnabled {
		m.tx, m.identity = "TX_LLDP_INITIALIZE", m.p.Local.Chassis.Value[0]
		return
	}
	switch m.tx {
	case "TX_LLDP_INITIALIZE":
		if m.identity = m.p.Local.Chassis.Value[0]; m.enabled() {
			m.tx = "TX_IDLE"
		}
	case "TX_IDLE":
		switch {
		case !m.enabled():
			m.tx, m.txShutdownWhile = "TX_SHUTDOWN_FRAME", m.p.Reinit/second
			m.frames = append(m.frames, fmt.Sprintf("%d s: %c, TTL 0", m.now, m.identity))
		case m.txNow && m.txCredit > 0:
			m.txCredit--
			m.txNow = false
			ttl := min(65535, m.p.Interval/second*int64(m.p.Hold)+1)
			m.frames = append(m.frames, fmt.Sprintf("%d s: %c, TTL %d", m.now, m.identity, ttl))
		}
	case "TX_SHUTDOWN_FRAME":
		if m.txShutdownWhile == 0 {
			m.tx = "TX_LLDP_INITIALIZE"
		}
	}
}

func (m *model) link(up bool) {
	m.portEnabled = up
	if !up {
		m.forget(0)
		m.tooManyNeighborsTime = 0
	}
	m.run()
}

// configure changes status and identity. Another identity is as if LLDP was off for a moment.
func (m *model) configure(status Status, identity byte) {
	if identity != m.p.Local.Chassis.Value[0] {
		m.p.Status = status
		m.p.Local.Chassis.Value = []byte{identity}
		m.runTX()
		m.timer = "TX_TIMER_BEGIN"
	}
	if m.p.Status = status; status != RXTX && status != RXOnly {
		m.forget(0)
		m.tooManyNeighborsTime = 0
	}
	m.run()
}

func (m *model) forget(keep int) {
	m.stats.Deletes += uint64(len(m.neighbours) - keep)
	m.neighbours = m.neighbours[:keep]
}

func (m *model) change() {
	m.localChange = m.enabled() || m.timer == "TX_TIMER_IDLE"
	m.run()
}

func (m *model) receive(id, content byte, ttl uint16) Event {
	if !m.portEnabled || m.p.Status != RXTX && m.p.Status != RXOnly {
		return Ignored
	}
	m.stats.FramesIn++
	i := slices.IndexFunc(m.neighbours, func(n modelNeighbour) bool { return n.id == id })
	n := modelNeighbour{id, content, ttl, int64(ttl)}
	switch {
	case ttl == 0 && i < 0:
		return Ignored
	case ttl == 0:
		m.neighbours = slices.Delete(m.neighbours, i, i+1)
		m.stats.Deletes++
		return Left
	case i >= 0:
		old := m.neighbours[i]
		m.neighbours[i] = n
		if old.content == content && old.ttl == ttl {
			return Refreshed
		}
		return Changed
	case len(m.neighbours) == m.p.MaxNeighbours:
		m.tooManyNeighborsTime = max(m.tooManyNeighborsTime, int64(ttl))
		m.stats.FramesDiscarded++
		m.stats.Drops++
		m.stats.Errors[ErrNeighbours]++
		return Refused
	}
	m.neighbours = append(m.neighbours, n)
	m.stats.Inserts++
	m.newNeighbor = true
	m.run()
	return New
}

// pduOf is an LLDPDU with a chassis ID of one byte and a system name.
func pduOf(id, content byte, ttl uint16) []byte {
	l := Local{MAC: mac, Chassis: ChassisID{ChassisLocal, []byte{id}}, Port: PortID{PortLocal, []byte("p")},
		SystemName: string(rune(content))}
	frame, err := l.Append(nil, ttl, nil)
	if err != nil {
		panic(err)
	}
	return frame
}

// drained sends what is due, and describes it.
func drained(t interface{ Fatal(...any) }, a *Agent, now int64) (frames []string) {
	for a.Due(now) {
		frame, err := a.Send(now, nil)
		var u LLDPDU
		if err == nil {
			err = u.Decode(frame[headerLength:], nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, fmt.Sprintf("%d s: %s, TTL %d", now/second, u.Chassis, u.TTL))
		if now%second != 0 {
			t.Fatal("sent between two seconds: ", now)
		}
	}
	if frame, err := a.Send(now, nil); frame != nil || err != nil {
		t.Fatal("nothing was due, but sent: ", frame, err)
	}
	return frames
}

func paramsOf(t *rapid.T) Params {
	seconds := func(to int, name string) int64 { return second * int64(rapid.IntRange(1, to).Draw(t, name)) }
	return Params{
		Status: RXTX, Interval: seconds(12, "interval"), Hold: rapid.IntRange(1, 4).Draw(t, "hold"),
		FastInterval: seconds(3, "fast"), FastCount: rapid.IntRange(1, 8).Draw(t, "fast count"),
		Credits: rapid.IntRange(1, 10).Draw(t, "credits"), Reinit: seconds(10, "reinit"),
		MaxNeighbours: rapid.IntRange(1, 4).Draw(t, "neighbours"),
		Local: Local{MAC: mac, Chassis: ChassisID{ChassisLocal, []byte("A")},
			Port: PortID{PortLocal, []byte("1")}},
	}
}

// TestAgentIsTheStandards compares an Agent with the state diagrams of the standard. The Agent is
// called only when something happens and at the times that Next says; the model each second.
func TestAgentIsTheStandards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := paramsOf(t)
		a, err := NewAgent(p)
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(p)
		var frames []string
		send := func() { frames = append(frames, drained(t, a, m.now*second)...) }
		t.Repeat(map[string]func(*rapid.T){
			"link": func(t *rapid.T) {
				up := rapid.Bool().Draw(t, "up")
				a.SetLink(m.now*second, up)
				send()
				m.link(up)
			},
			"configure": func(t *rapid.T) {
				p.Status = rapid.SampledFrom([]Status{Off, TXOnly, RXOnly, RXTX, RXTX}).Draw(t, "status")
				identity := rapid.SampledFrom([]byte("AAAB")).Draw(t, "identity")
				p.Local.Chassis.Value = []byte{identity}
				if err := a.Configure(m.now*second, p); err != nil {
					t.Fatal(err)
				}
				send()
				m.configure(p.Status, identity)
			},
			"change": func(t *rapid.T) {
				a.Changed(m.now * second)
				send()
				m.change()
			},
			"receive": func(t *rapid.T) {
				id, content := rapid.ByteRange('a', 'f').Draw(t, "id"), rapid.ByteRange('x', 'z').Draw(t, "content")
				ttl := rapid.SampledFrom([]uint16{0, 1, 2, 5, 30, 65535}).Draw(t, "ttl")
				got, err := a.Receive(m.now*second, pduOf(id, content, ttl))
				if want := m.receive(id, content, ttl); got != want || (err != nil) != (want == Refused) {
					t.Errorf("%v, %v, want %v", got, err, want)
				}
				send()
			},
			"wait": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "seconds") {
					ageouts := m.stats.Ageouts
					m.tick()
					aged := false
					if a.Next() <= m.now*second {
						aged = a.Advance(m.now * second)
						send()
					}
					if aged != (m.stats.Ageouts > ageouts) {
						t.Errorf("%d s: aged out: %v", m.now, aged)
					}
				}
			},
			"": func(t *rapid.T) { compare(t, a, m, frames) },
		})
	})
}

func compare(t *rapid.T, a *Agent, m *model, frames []string) {
	if !slices.Equal(frames, m.frames) {
		t.Fatalf("%d s: sent\n%q, want\n%q", m.now, frames, m.frames)
	}
	var got []modelNeighbour
	for _, n := range a.Neighbours() {
		got = append(got, modelNeighbour{n.Chassis.Value[0], n.SystemName[0], n.TTL, n.Expires/second - m.now})
	}
	if !same(got, m.neighbours) {
		t.Errorf("%d s: neighbours %v, want %v", m.now, got, m.neighbours)
	}
	want := m.stats
	want.FramesOut = uint64(len(m.frames))
	if got := a.Stats(); got != want {
		t.Errorf("%d s: counted\n%+v, want\n%+v", m.now, got, want)
	}
	if got, want := a.TooManyNeighbours(m.now*second), m.tooManyNeighborsTime > 0; got != want {
		t.Errorf("%d s: too many neighbours: %v", m.now, got)
	}
	if next := a.Next(); next < m.now*second {
		t.Errorf("%d s: next at %d ns", m.now, next)
	}
}
