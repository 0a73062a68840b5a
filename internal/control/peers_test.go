package control

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/testkit/configtest"
	"sluice/internal/discovery"
	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
)

// peerNet is a switch with a running worker, without devices, and peers with DCBX at its ports.
type peerNet struct {
	*Switch
	t     *testing.T
	log   bytes.Buffer
	peers map[string]*discovery.System // by port of the switch; their port is "1"
	wire  []func()                     // receives a frame that is on its way
}

func newPeerNet(t *testing.T, text string) *peerNet {
	t.Helper()
	x := &peerNet{t: t, peers: make(map[string]*discovery.System)}
	x.Switch = started(t, text, func(string) (uint64, bool) { return 10e9, true })
	x.Switch.log = slog.New(slog.NewTextHandler(&x.log, nil))
	x.Switch.discovery = discovery.New(x.Switch.log, func(port string, frame []byte) {
		if p := x.peers[port]; p != nil {
			x.carry(p, "1", frame)
		}
	})
	if err := x.introduce(configtest.Parse(t, text), nil); err != nil {
		t.Fatal(err)
	}
	x.listening.Stop()
	t.Cleanup(x.startWorkers())
	for i := range x.config.Ports {
		x.discovery.SetLink(x.now(), x.config.Ports[i].Device, true, [6]byte{2, 1, 5: byte(i)}, 0)
	}
	return x
}

// carry puts a frame on its way to a port.
func (x *peerNet) carry(to *discovery.System, port string, frame []byte) {
	frame = slices.Clone(frame)
	x.wire = append(x.wire, func() { to.Receive(x.now(), port, frame) })
}

// peerMAC is the address of the peer at a port.
func peerMAC(port string) [6]byte { return [6]byte{2, 9, 5: port[0]} }

// peer adds the peer at a port. It takes settings if it has none of its own.
func (x *peerNet) peer(port string, pfc uint8, ets dcbx.ETS) {
	x.t.Helper()
	p := discovery.PortParams{Name: "1", LLDP: lldp.RXTX, DCBX: true, Auto: true}
	p.Local = dcbx.Config{Enabled: [dcbx.Features]bool{true, true, true}, ETS: ets,
		PFC: dcbx.PFC{Priorities: pfc, Capability: 8}}
	if pfc == 0 {
		p.Role, p.Local.Willing = discovery.Upstream, p.Local.Enabled
	}
	s := discovery.New(slog.New(slog.DiscardHandler),
		func(_ string, frame []byte) { x.carry(x.discovery, port, frame) })
	if err := s.Configure(x.now(), discovery.Params{Interval: 30e9, Hold: 4, Name: "peer-" + port, SourceHold: 120e9,
		Ports: []discovery.PortParams{p}}); err != nil {
		x.t.Fatal(err)
	}
	s.SetLink(x.now(), "1", true, peerMAC(port), 0)
	x.peers[port] = s
}

// tick does what Run does at each tick of listening, and delivers frames.
func (x *peerNet) tick() {
	x.t.Helper()
	for _, p := range x.peers {
		p.Advance(x.now())
		for port, agreed := range p.Agreements() {
			p.Runs(x.now(), port, agreed)
		}
	}
	arrived := x.wire
	x.wire = nil
	for _, receive := range arrived {
		receive()
	}
	x.discovery.Advance(x.now())
	if err := x.favourPeers(); err != nil {
		x.t.Fatal(err)
	}
	if err := x.agree(); err != nil {
		x.t.Fatal(err)
	}
	x.turn()
}

// changes returns how often the ports have lately changed what they run, or refused to.
func (x *peerNet) changes() (count int) {
	for _, p := range x.ports {
		count += int((time.Until(time.Time(p.allowance)) + changeInterval - 1) / changeInterval)
	}
	return count
}

// runs reports whether these priorities have PFC at a port, as its two ends have agreed.
func (x *peerNet) runs(port string, pfc uint8) bool {
	return x.port(port).PFC == pfc && x.discovery.Agreements()[port].PFC == pfc &&
		x.peers[port].Agreements()["1"].PFC == pfc
}

// TestWarningsOfAPeerThatChanges: a warning about a port comes once, however often its peer turns
// PFC on and off, and again after a reload.
func TestWarningsOfAPeerThatChanges(t *testing.T) {
	text := "workers: [1]" + configtest.Auto
	x := newPeerNet(t, text)
	x.peer("a", 8, dcbx.ETS{})
	warnings := func() int { return strings.Count(x.log.String(), `raise it" port=a`) }
	until := func(pfc uint8) {
		t.Helper()
		for begin := time.Now(); x.port("a").PFC != pfc; x.tick() {
			if time.Since(begin) > 20*time.Second {
				t.Fatalf("PFC for %08b:\n%s", x.port("a").PFC, x.log.String())
			}
			time.Sleep(listenInterval)
		}
	}
	for range 2 {
		until(8)
		x.peers["a"].Shutdown(x.now(), "")
		until(0)
		x.peer("a", 8, dcbx.ETS{})
	}
	until(8)
	if n := warnings(); n != 1 {
		t.Errorf("%d warnings:\n%s", n, x.log.String())
	}
	if err := x.reload(configtest.Parse(t, text)); err != nil {
		t.Fatal(err)
	}
	if n := warnings(); n != 2 {
		t.Errorf("%d warnings after a reload:\n%s", n, x.log.String())
	}
}

// TestRefusalsHoldUpNoOtherPort: a peer offers PFC that the memory can't hold, and an ETS table
// that the switch lacks. It is refused a few times, and the other ports run what they agree on.
func TestRefusalsHoldUpNoOtherPort(t *testing.T) {
	text := "workers: [1]" + strings.Replace(configtest.Auto, "{device: c, speed: 10G, in_flight: 9KB, response: 0s",
		"{device: c, speed: 10G, in_flight: 9KB, response: 0s, flow_control: auto, dcbx: {version: auto}", 1)
	for _, role := range []string{"upstream", "downstream"} {
		text = strings.Replace(text, "dcbx: {version: auto}", "dcbx: {version: auto, role: "+role+"}", 1)
	}
	exchanged := strings.NewReplacer("upstream", "downstream", "downstream", "upstream")
	for _, up := range []string{"a", "b"} {
		down := "b"
		if up == "b" {
			text, down = exchanged.Replace(text), "a"
		}
		x := newPeerNet(t, text)
		x.peer(up, 0xff, dcbx.ETS{TC: shaped.TC, TSA: shaped.TSA})
		x.peer(down, 0, dcbx.ETS{})
		x.peer("c", 0, dcbx.ETS{})
		refused := func() bool { return strings.Contains(x.log.String(), "kind=refused because=\"pfc") }
		for begin := time.Now(); !refused() || !x.runs("c", 8) || !x.runs(down, 8) || !x.runs(up, 8); {
			if time.Since(begin) > 20*time.Second {
				t.Fatalf("PFC at the ports: %08b, %08b, %08b, want priority 3; agreed: %+v\n%s", x.port(up).PFC,
					x.port(down).PFC, x.port("c").PFC, x.discovery.Agreements(), x.log.String())
			}
			time.Sleep(listenInterval)
			x.tick()
		}
		for range 50 {
			time.Sleep(listenInterval)
			x.tick()
		}
		if n := x.changes(); n > 6 {
			t.Errorf("%d changes:\n%s", n, x.log.String())
		}
		for port := range x.peers {
			if got := x.plan.Links[x.port(port).number].Peer; got != peerMAC(port) {
				t.Errorf("port %s: the workers favour %x", port, got)
			}
		}
	}
}
