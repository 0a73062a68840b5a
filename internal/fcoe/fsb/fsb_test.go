package fsb

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/bench/testkit/fcoetest"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/punt"
	"sluice/internal/fcoe"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/state"
)

const second = 1_000_000_000 // ns

// rig is a Bridge beside a dataplane of the test: port a has hosts, b more of them, f an FCF.
type rig struct {
	*Bridge
	t         *testing.T
	now, boot int64
	params    snoop.Params
	is        []Port

	waiting []punt.Frame // received, not taken yet
	links   []bridge.VirtualLink
	opened  int               // calls of SetVirtualLinks
	sent    map[string][]byte // the last frame forwarded, by port
	number  map[string]int    // of frames forwarded, by port
	full    map[string]bool   // ports without room
	broken  error             // what Forward returns otherwise
	before  func()            // called before a frame is forwarded
	passes  func([]byte)      // called with each frame that is forwarded
	cost    int64             // ns that SetVirtualLinks takes
	refused []string
	text    bytes.Buffer
}

var names = []string{"a", "b", "f"}

func (r *rig) Punted(kind punt.Kind, do func(punt.Frame)) (n int) {
	taken := r.waiting
	r.waiting = nil
	for _, f := range taken {
		if kind != punt.FIP {
			r.t.Fatalf("%v asked for", kind)
		}
		do(f)
		clear(f.Bytes)
	}
	return len(taken)
}

func (r *rig) SetVirtualLinks(links []bridge.VirtualLink) error {
	r.opened++
	r.now, r.boot = r.now+r.cost, r.boot+r.cost
	if r.links = links; len(links) > 0 {
		_, err := bridge.NewVirtualLinks(links)
		return err
	}
	return nil
}

func (r *rig) Forward(port bridge.PortID, f *punt.Frame) error {
	name := names[port]
	if r.full[name] {
		return fmt.Errorf("test: %w", punt.ErrFull)
	}
	if r.before != nil {
		r.before()
	}
	if r.passes != nil {
		r.passes(f.Bytes)
	}
	r.sent[name] = f.Bytes
	r.number[name]++
	return r.broken
}

// here is where the tests take place.
var here = Place{Boot: "this", Namespace: 7}

// newRig returns a rig with an FCF that has advertised itself.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := startedRig(t, filepath.Join(t.TempDir(), "fcoe", "1.json"), 1000*second, 5000*second)
	r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	r.tick()
	if n := len(r.Report().FCFs); n != 1 {
		t.Fatalf("%d FCFs: %s", n, r.text.String())
	}
	return r
}

// startedRig starts with a file, and with the ports up.
func startedRig(t *testing.T, path string, now, boot int64, change ...func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, now: now, boot: boot, full: map[string]bool{}, sent: map[string][]byte{}, number: map[string]int{}}
	r.Bridge = New(slog.New(slog.NewTextHandler(&r.text, nil)), r, func(_ *punt.Frame, why string) {
		r.refused = append(r.refused, why)
	})
	r.params = params()
	for i, name := range names {
		r.is = append(r.is, Port{Name: name, ID: bridge.PortID(i), Up: true, Index: 10 + i, Losses: 3})
	}
	for _, one := range change {
		one(r)
	}
	if err := r.Configure(r.now, r.params); err != nil {
		t.Fatal(err)
	}
	r.Keep(path, here)
	r.Recall(r.now, r.boot, func(port string) (int, uint32) {
		for _, is := range r.is {
			if is.Name == port {
				return is.Index, is.Losses
			}
		}
		return 0, 0
	})
	t.Cleanup(r.end)
	up := r.is
	r.is = slices.Clone(up)
	for i := range r.is {
		r.is[i].Up = false
	}
	r.tick()
	for i := range up {
		r.Reopen(r.now, up[i].Name, up[i].Index, up[i].Losses)
	}
	r.is = up
	r.tick()
	return r
}

// end ends a run as a kill does.
func (r *rig) end() {
	if err := r.Close(); err != nil {
		r.t.Error(err)
	}
}

func params() snoop.Params {
	all := func(vid uint16) bool { return vid == fcoetest.VLAN || vid == 1 }
	p := snoop.Params{MaxFCFs: 4, MaxENodes: 600, MaxLinks: 600, MaxPending: 600,
		Instances: []snoop.Instance{{Name: "FSB", VLAN: fcoetest.VLAN}}}
	for _, name := range names {
		role := snoop.ENode
		if name == "f" {
			role = snoop.FCF
		}
		p.Ports = append(p.Ports, snoop.Port{Name: name, Role: role, Member: all, MaxENodes: 600, MaxLinks: 600,
			MaxPending: 600})
	}
	return p
}

// tick looks at the ports and exchanges frames, 2 ms after the last time.
func (r *rig) tick() {
	const interval = 2_000_000
	r.now += interval
	r.boot += interval
	r.SetPorts(r.now, r.is)
	r.Exchange(r.clock, r.boot)
}

func (r *rig) clock() int64 { return r.now }

// settle ticks until Exchange has rested.
func (r *rig) settle() {
	for end := r.now + shortestRest; r.now < end; {
		r.tick()
	}
}

// pass lets time pass as in a switch whose loop runs.
func (r *rig) pass(ns int64) {
	for ; ns > 0; ns -= second / 2 {
		r.now, r.boot = r.now+min(ns, second/2), r.boot+min(ns, second/2)
		r.tick()
	}
}

// receive has a port receive a frame.
func (r *rig) receive(port string, b []byte) {
	id := bridge.PortID(slices.Index(names, port))
	r.waiting = append(r.waiting,
		punt.Frame{Port: id, VLAN: fcoetest.VLAN, Kind: punt.FIP, Length: len(b), Bytes: b})
}

func (r *rig) logIn(n int)   { r.logInAt("a", n) }
func (r *rig) sessions() int { return len(r.Report().Sessions) }

// logInAt logs in a host behind a port.
func (r *rig) logInAt(port string, n int) {
	r.t.Helper()
	r.receive(port, fcoetest.Login(n))
	r.tick()
	r.receive("f", fcoetest.Accept(n))
	r.settle()
	if !r.open(n) {
		r.t.Fatalf("host %d is not logged in: %v\n%s", n, r.refused, r.text.String())
	}
}

// open reports whether the dataplane has the virtual link of a host.
func (r *rig) open(n int) bool {
	return slices.ContainsFunc(r.links, func(l bridge.VirtualLink) bool { return l.VN == fcoetest.VN(n) })
}

// kept returns what is in the file.
func (r *rig) kept() *record {
	r.t.Helper()
	f, err := r.file.store.Read()
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

// TestLinkIsOpenBeforeTheAccept: when an accept leaves, its virtual link is open and in the file.
// When the end of a session leaves, it is closed.
func TestLinkIsOpenBeforeTheAccept(t *testing.T) {
	r := newRig(t)
	r.receive("a", fcoetest.Login(1))
	r.receive("f", fcoetest.Accept(1)) // both in one batch
	checked := 0
	r.before = func() {
		checked++
		if !r.open(1) || len(r.kept().Sessions.Links) != 1 {
			t.Errorf("a frame leaves while the links are %+v", r.links)
		}
	}
	r.tick()
	if checked != 2 || !bytes.Equal(r.sent["a"], fcoetest.Accept(1)) || !bytes.Equal(r.sent["f"], fcoetest.Login(1)) {
		t.Fatalf("%d frames forwarded: %v", checked, r.sent)
	}
	want := bridge.VirtualLink{VID: fcoetest.VLAN, VN: fcoetest.VN(1), ENode: fcoetest.Host(1), FCF: fcoetest.FCF,
		ENodePort: 0, FCFPort: 2}
	if l := r.links[0]; l != want {
		t.Errorf("%+v", l)
	}
	r.receive("f", fcoetest.Clear())
	r.before = func() {
		checked++
		if r.open(1) || len(r.kept().Sessions.Links) != 0 {
			t.Errorf("the end leaves while the links are %+v", r.links)
		}
	}
	r.settle()
	if checked != 4 {
		t.Errorf("%d frames forwarded, want 4: the end goes to both ports with hosts; %v", checked, r.refused)
	}
}

// TestIdle: without frames and without anything that expires, nothing is done.
func TestIdle(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	opened, written := r.opened, r.kept().Written
	r.pass(5 * second)
	if r.opened != opened || r.kept().Written != written {
		t.Errorf("links set %d times, file written at %d", r.opened-opened, r.kept().Written)
	}
}

// TestRefused: a refused frame is forwarded nowhere, changes nothing, and is captured with its
// reason.
func TestRefused(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	forwarded := r.number["f"] + r.number["a"] + r.number["b"]
	r.receive("b", fcoetest.Advertisement(fcoe.AllENode))
	r.receive("b", fcoetest.Accept(2))
	r.receive("a", []byte{1, 2, 3})
	r.tick()
	if got := strings.Join(r.refused, " "); got != "rogue_fcf rogue_fcf bad_header" {
		t.Errorf("refused: %s", got)
	}
	if n := r.number["f"] + r.number["a"] + r.number["b"]; n != forwarded || len(r.links) != 1 {
		t.Errorf("%d frames forwarded, links %v", n-forwarded, r.links)
	}
	if p := r.ReportPort("b"); p.Refused != 2 || p.LastRefusals()[0].Reason != "rogue_fcf" {
		t.Errorf("%+v", p)
	}
}

// TestPortWithoutRoom: frames for a port whose injector is full wait, as many as there is room for,
// and leave in order. The others are counted. Other ports go on.
func TestPortWithoutRoom(t *testing.T) {
	r := newRig(t)
	const most = queueSlots + 10
	r.full["f"] = true
	var want [][]byte
	for n := range most {
		r.receive("a", fcoetest.Login(n))
		want = append(want, fcoetest.Login(n))
		if n%100 == 99 {
			r.tick()
		}
	}
	r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	r.tick()
	if p := r.ReportPort("a"); p.Received != most || p.Forwarded != queueSlots || len(p.Refusals) != 1 ||
		p.Refusals[0] != (state.FCoERefusal{Reason: "congested", Frames: most - queueSlots}) {
		t.Errorf("%+v", p)
	}
	if len(r.refused) != most-queueSlots || r.refused[0] != "congested" {
		t.Errorf("captured: %v", r.refused)
	}
	if r.number["f"] != 0 || r.number["b"] != 2 { // two advertisements
		t.Errorf("forwarded: %v", r.number)
	}
	r.full["f"] = false
	r.before = func() { r.full["f"] = r.number["f"]%16 == 15 } // an injector takes 16 at once
	for n := range queueSlots {
		if n%16 == 0 {
			r.full["f"] = false
			r.tick()
		}
	}
	if r.number["f"] != queueSlots || !bytes.Equal(r.sent["f"], want[queueSlots-1]) {
		t.Errorf("%d frames forwarded, the last one %x", r.number["f"], r.sent["f"])
	}
}

// TestFrameThatNobodyGets: a frame counts as refused if all ports that should have it are down or
// have no room, and as forwarded if one of them takes it.
func TestFrameThatNobodyGets(t *testing.T) {
	r := newRig(t)
	r.full["a"] = true
	for range queueSlots + 1 {
		r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
		r.tick()
	}
	if p := r.ReportPort("f"); p.Refused != 0 || r.number["b"] != queueSlots+2 {
		t.Errorf("%d refused, %d forwarded to the port with room", p.Refused, r.number["b"])
	}
	r.is[1].Up = false // b
	r.tick()
	r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	r.tick()
	r.is[0].Up = false // a
	r.tick()
	r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	r.tick()
	want := []string{"congested", "no_egress"}
	if p := r.ReportPort("f"); p.Refused != 2 || p.Received != p.Forwarded+2 || !slices.Equal(r.refused, want) {
		t.Errorf("%+v, refused %v, want %v", p, r.refused, want)
	}
}

// TestFloodDelaysOnlyItself: a port that sends more than another one takes has its own frames
// refused. Those of 20 hosts at a further port leave within the tick in which they came.
func TestFloodDelaysOnlyItself(t *testing.T) {
	r := newRig(t)
	for n := 1; n <= 20; n++ {
		r.logInAt("b", n)
	}
	const room, flood, ticks = 64, 200, 1000
	kept, forwarded := 0, r.number["f"]
	r.passes = func(b []byte) {
		if bytes.Equal(b, fcoetest.KeepAlive(1+kept%20)) {
			kept++
		}
	}
	r.before = func() { r.full["f"] = (r.number["f"]-forwarded)%room == room-1 }
	for tick := range ticks {
		r.full["f"] = false
		for n := range flood {
			r.receive("a", solicitation(1000+n))
		}
		r.receive("b", fcoetest.KeepAlive(1+tick%20))
		r.tick()
		if kept != tick+1 {
			t.Fatalf("tick %d: %d keep-alives have left", tick, kept)
		}
	}
	p, q := r.ReportPort("a"), r.ReportPort("b")
	if q.Refused != 0 || r.number["f"] != forwarded+room*ticks {
		t.Errorf("%d frames refused, %d forwarded: %+v", q.Refused, r.number["f"], q)
	}
	if want := uint64(flood*ticks - (room-1)*(ticks-1) - queueSlots); p.Refused != want {
		t.Errorf("%d frames of the flood refused, want %d: %+v", p.Refused, want, p.Refusals)
	}
}

// solicitation returns a solicitation of a host.
func solicitation(n int) []byte {
	return fcoetest.FIP(fcoe.AllFCF, fcoetest.Host(n), fcoe.Packet{Op: fcoe.Solicitation, Flags: fcoe.FP,
		MAC: fcoetest.Host(n), Name: fcoe.WWN(n), MaxSize: fcoe.MaxPayload})
}

// TestChurnIsBounded: however fast hosts log in and however long it takes to set links, that takes
// no more than a fifth of the time. No frame is refused or lost, each accept leaves behind its
// link, and keep-alives of others wait no longer than the rest and a change.
func TestChurnIsBounded(t *testing.T) {
	for _, cost := range []int64{0, 1_000_000, 25_000_000} {
		r := newRig(t)
		r.logInAt("b", 599)
		rest := max(shortestRest, restFactor*cost)
		accepts, keepAlives := 0, 0
		var sent int64
		r.passes = func(b []byte) {
			switch {
			case bytes.Equal(b, fcoetest.Accept(1+accepts)):
				if accepts++; !r.open(accepts) {
					t.Fatalf("the accept of host %d leaves before its link is open", accepts)
				}
			case bytes.Equal(b, fcoetest.KeepAlive(599)):
				if keepAlives++; r.now-sent > rest+cost+2_000_000 {
					t.Errorf("cost %d: a keep-alive waits for %d ns", cost, r.now-sent)
				}
			}
		}
		r.cost = cost
		began, opened := r.now, r.opened
		for n := 1; n <= 500; n++ {
			r.receive("a", fcoetest.Login(n))
			r.receive("f", fcoetest.Accept(n))
			if n%100 == 0 {
				r.receive("b", fcoetest.KeepAlive(599))
				sent = r.now
			}
			r.tick()
		}
		took := r.now - began
		if changes := int64(r.opened - opened); changes > 1+took/(rest+cost) || changes < took/(rest+cost+2_000_000) {
			t.Errorf("cost %d: links changed %d times in %d ns", cost, changes, took)
		}
		for end := r.now + rest + cost; r.now < end; {
			r.tick()
		}
		if accepts != 500 || keepAlives != 5 || len(r.refused) > 0 || r.keptLinks() != 501 {
			t.Errorf("cost %d: %d accepts, %d keep-alives, %d sessions kept; refused: %v", cost, accepts, keepAlives,
				r.keptLinks(), r.refused)
		}
	}
}

// TestFrameThatCanNotLeave: a frame that a port can't send is dropped, and the next ones leave. The
// log says so once a minute.
func TestFrameThatCanNotLeave(t *testing.T) {
	r := newRig(t)
	r.broken = errors.New("too long")
	r.receive("a", fcoetest.Login(1))
	r.receive("a", fcoetest.Login(2))
	r.tick()
	if r.number["f"] != 2 || strings.Count(r.text.String(), "too long") != 1 {
		t.Errorf("%d frames were tried: %s", r.number["f"], r.text.String())
	}
	r.broken = nil
	for range 10 {
		r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
		r.pass(6 * second)
	}
	r.broken = errors.New("too long")
	r.receive("a", fcoetest.Login(3))
	r.tick()
	if strings.Count(r.text.String(), "too long") != 2 || !strings.Contains(r.text.String(), "frames=2") {
		t.Errorf("a minute later: %s", r.text.String())
	}
}

// TestPorts: sessions end when a port of theirs goes down, flaps, or goes. Frames that waited there
// are not sent to whoever comes next.
func TestPorts(t *testing.T) {
	for name, change := range map[string]func(*rig, *Port){
		"down":  func(_ *rig, p *Port) { p.Up = false },
		"flap":  func(_ *rig, p *Port) { p.Flaps++ },
		"loss":  func(_ *rig, p *Port) { p.Losses++ }, // down and up between two looks
		"other": func(r *rig, p *Port) { p.Name = "c" },
	} {
		for i, port := range names {
			if port == "b" {
				continue
			}
			r := newRig(t)
			r.logIn(1)
			r.logInAt("b", 2)
			was := slices.Clone(r.is)
			r.full["a"], r.full["f"] = true, true
			r.receive("f", fcoetest.Advertisement(fcoetest.Host(1)))
			r.receive("a", fcoetest.KeepAlive(1))
			r.tick()
			change(r, &r.is[i])
			r.tick()
			if r.open(1) || r.open(2) != (port == "a") || r.keptLinks() != len(r.links) {
				t.Errorf("%s of port %s: links %+v", name, port, r.links)
			}
			r.is = was
			r.full = map[string]bool{}
			sent := r.number[port]
			r.tick()
			if r.number[port] != sent {
				t.Errorf("%s of port %s: frames from before were sent", name, port)
			}
		}
	}
}

// keptLinks returns how many sessions are in the file.
func (r *rig) keptLinks() int {
	if f := r.kept(); f != nil {
		return len(f.Sessions.Links)
	}
	return 0
}

// TestFramesOfAPortThatIsDown: a login that was received before a port went down logs nobody in who
// comes to that port later.
func TestFramesOfAPortThatIsDown(t *testing.T) {
	r := newRig(t)
	r.receive("a", fcoetest.Login(1))
	r.receive("f", fcoetest.Accept(1))
	r.is[0].Up = false
	r.tick()
	r.is[0].Up = true
	r.tick()
	if got := strings.Join(r.refused, " "); r.open(1) || r.number["f"] != 0 || got != "port_down no_request" {
		t.Errorf("links %+v, refused: %s", r.links, got)
	}
}

// BenchmarkIdle is what a switch with 64 ports and 600 sessions does every 2 ms.
func BenchmarkIdle(b *testing.B) {
	r := &rig{sent: map[string][]byte{}, number: map[string]int{}}
	r.Bridge = New(slog.New(slog.DiscardHandler), r, nil)
	p := params()
	for i := range 64 {
		r.is = append(r.is, Port{Name: fmt.Sprint("port", i), ID: bridge.PortID(i), Up: true})
	}
	for i, name := range names {
		r.is[i].Name = name
	}
	if err := r.Configure(0, p); err != nil {
		b.Fatal(err)
	}
	r.tick()
	r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	for n := range 600 {
		r.receive("a", fcoetest.Login(n))
		r.receive("f", fcoetest.Accept(n))
		r.tick()
	}
	if len(r.links) != 600 {
		b.Fatalf("%d links", len(r.links))
	}
	for b.Loop() {
		r.SetPorts(r.now, r.is)
		r.Exchange(r.clock, r.boot)
	}
}
