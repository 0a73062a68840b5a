package control

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/bench/netns"
	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/internal/linux/ethtool"
	"sluice/internal/state"
	"sluice/pmd/afxdp"
)

// TestFindLoop: a loop shows with the first look that finds frames, and yields the last of its
// ports with the second one in a row, whichever direction came first. Ports count as part of it for
// 10 s.
func TestFindLoop(t *testing.T) {
	type look struct {
		at     time.Duration
		frames [3]uint64 // by port
		found  string
		active string // ports, after the look
	}
	for name, looks := range map[string][]look{
		"none":            {{0, [3]uint64{}, "", ""}, {1e9, [3]uint64{}, "", ""}},
		"both directions": {{0, [3]uint64{1, 0, 1}, "", "0 2"}, {3e8, [3]uint64{2, 0, 2}, "port2", "0 2"}},
		"one later":       {{0, [3]uint64{1}, "", "0"}, {3e8, [3]uint64{2, 1}, "port1", "0 1"}},
		"one earlier":     {{0, [3]uint64{0, 1}, "", "1"}, {3e8, [3]uint64{2, 2}, "port1", "0 1"}},
		"at one port":     {{0, [3]uint64{0, 1}, "", "1"}, {3e8, [3]uint64{0, 2}, "port1", "1"}},
		"once":            {{0, [3]uint64{1}, "", "0"}, {3e8, [3]uint64{1}, "", "0"}, {1e10, [3]uint64{1}, "", ""}},
		"twice":           {{0, [3]uint64{1}, "", "0"}, {3e8, [3]uint64{1}, "", "0"}, {6e8, [3]uint64{2}, "", "0"}},
		"9.9 s":           {{0, [3]uint64{1}, "", "0"}, {99e8, [3]uint64{1}, "", "0"}},
		"10 s":            {{0, [3]uint64{1}, "", "0"}, {100e8, [3]uint64{1}, "", ""}},
		"counts restart": {{0, [3]uint64{9}, "", "0"}, {3e8, [3]uint64{0}, "", "0"}, {6e8, [3]uint64{1}, "", "0"},
			{9e8, [3]uint64{2}, "port0", "0"}},
	} {
		s := &Switch{}
		for i := range 3 {
			s.ports = append(s.ports, newPort(&config.Port{Device: fmt.Sprint("port", i)}, i))
		}
		start := time.Unix(1e9, 0)
		for _, l := range looks {
			now, frames := start.Add(l.at), map[string]uint64{}
			for i, n := range l.frames {
				frames[fmt.Sprint("port", i)] = n
			}
			found, active := "", ""
			if p := s.findLoop(now, frames); p != nil {
				found = p.Device
			}
			for i, p := range s.ports {
				if p.loop.active(now) {
					active += fmt.Sprint(" ", i)
				}
			}
			if active = strings.TrimSpace(active); found != l.found || active != l.active {
				t.Errorf("%s, at %v: %q found, %q looped; want %q, %q", name, l.at, found, active, l.found, l.active)
			}
		}
	}
}

// TestShutPortsAreNoLoop: a port that is shut is not found again, nor is another port because of
// it.
func TestShutPortsAreNoLoop(t *testing.T) {
	s := &Switch{ports: []*port{newPort(&config.Port{Device: "port0"}, 0), newPort(&config.Port{Device: "port1"}, 1)}}
	s.ports[1].shut = true
	for n := range uint64(5) {
		if p := s.findLoop(time.Unix(int64(n), 0), map[string]uint64{"port1": n}); p != nil {
			t.Errorf("%s found", p.Device)
		}
	}
}

// TestProbe pins the bytes of probes: replies of the Configuration Testing Protocol.
func TestProbe(t *testing.T) {
	mac := [6]byte{2, 0, 0, 0, 0, 9}
	const data = "Sluice loop guard"
	for vid, want := range map[uint16]string{
		0:    "\xcf\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x09\x90\x00\x00\x00\x01\x00\x00\x00" + data,
		4094: "\xcf\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x09\x81\x00\xef\xfe\x90\x00\x00\x00\x01\x00\x00\x00" + data,
	} {
		if got := probe(mac, vid); string(got) != want+strings.Repeat("\x00", 60-len(want)) {
			t.Errorf("VLAN %d: %x", vid, got)
		}
	}
}

// loopYard is a yard whose hosts can make a loop: both send frames from the address of port1 while
// both ports are up.
type loopYard struct {
	*yard
	mac  [6]byte // of port1
	loop bool
}

func loopConfiguration(guard config.LoopGuard) string {
	return fmt.Sprintf("memory: {buffers: 2048, buffer_size: 2048B}\nforwarding: {loop_guard: %s}\n"+
		"ports: [{device: port1, speed: 1M, in_flight: 2KB}, {device: port2, speed: 1M, in_flight: 2KB}]\n", guard)
}

func newLoopYard(t *testing.T) *loopYard {
	y := &loopYard{yard: emptyYard(t), loop: true}
	y.start(loopConfiguration(config.LoopAlert))
	y.awaitState("all links to be up", func(s *State) bool { return s.Ports[0].Up && s.Ports[1].Up })
	err := y.home.Do(func() error {
		device, err := net.InterfaceByName("port1")
		if err == nil {
			y.mac = [6]byte(device.HardwareAddr)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// await returns the first report that is wanted. The loop goes on meanwhile.
func (y *loopYard) await(what string, wanted func(*state.Switch) bool) (r *state.Switch) {
	y.t.Helper()
	until(y.t, what, func() bool {
		s, err := y.State()
		if err != nil { // the worker is late
			return false
		}
		for _, h := range y.hosts {
			if y.loop && s.Ports[0].Up && s.Ports[1].Up && !s.Ports[1].Shut {
				h.write(probe(y.mac, 0))
			}
		}
		time.Sleep(20 * time.Millisecond)
		r = s.Total()
		return wanted(r)
	})
	return r
}

// TestLoopGuard: frames of the switch that come back to its ports are reported; with loop_guard
// shut they shut one port, which an operator opens, or the guard once its time is over.
func TestLoopGuard(t *testing.T) {
	y := newLoopYard(t)
	shut := func(r *state.Switch) bool { return r.Ports[1].Shut && !r.Ports[1].Up }
	r := y.await("a report of the loop", func(r *state.Switch) bool { return len(r.Loops()) == 2 })
	again := r.Ports[1].Sources.Own + 20 // frames, over more than one look
	r = y.await("more frames of the loop", func(r *state.Switch) bool { return r.Ports[1].Sources.Own > again })
	if r.Ports[0].Shut || r.Ports[1].Shut {
		t.Error("a port is shut, although the guard is to report only")
	}
	if err := y.Reload(t.Context(), configtest.Parse(t, loopConfiguration(config.LoopShut))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r = y.await("the last port to be shut", shut)
		if p := r.Ports[1]; !p.Loop || !strings.Contains(p.DownWhy, "loop guard") || r.Ports[0].Shut {
			t.Errorf("%+v; the other port is shut: %v", p, r.Ports[0].Shut)
		}
		if waits, err := y.Open(t.Context(), "port2"); err != nil || waits != "" {
			t.Fatal(waits, err)
		}
	}
	y.await("the port to be shut again", shut)
	y.loop = false
	if err := y.order(t.Context(), func() error {
		y.port("port2").loop.reopen = time.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	y.await("the guard to open the port", func(r *state.Switch) bool { return r.Ports[1].Up && !r.Ports[1].Loop })
	y.loop = true
	y.await("the port to be shut once more", shut)
	if err := y.Shut(t.Context(), "port2"); err != nil {
		t.Fatal(err)
	}
	r = y.await("a report", func(*state.Switch) bool { return true })
	if p := r.Ports[1]; !p.Shut || p.Loop || p.DownWhy != "" {
		t.Errorf("shut by the operator: %+v", p)
	}
}

// TestGuardThatIsOff: without the guard a port that it has shut opens, and loops are not reported.
func TestGuardThatIsOff(t *testing.T) {
	y := newLoopYard(t)
	if err := y.Reload(t.Context(), configtest.Parse(t, loopConfiguration(config.LoopShut))); err != nil {
		t.Fatal(err)
	}
	y.await("the last port to be shut", func(r *state.Switch) bool { return r.Ports[1].Shut && !r.Ports[1].Up })
	if err := y.Reload(t.Context(), configtest.Parse(t, loopConfiguration(config.LoopOff))); err != nil {
		t.Fatal(err)
	}
	r := y.await("the port to open", func(r *state.Switch) bool { return r.Ports[1].Up })
	again, sent := r.Ports[1].Sources.Own+20, r.Ports[1].Own.Sent
	r = y.await("more frames of the loop", func(r *state.Switch) bool { return r.Ports[1].Sources.Own > again })
	if p := r.Ports[1]; p.Loop || p.Shut || p.Own.Sent != sent {
		t.Errorf("%+v", p)
	}
}

// TestPeerWithoutGROLosesNoProbe: with tx: resident, no probe goes to a peer that has stopped to
// take redirected frames, such as a host that is about to attach its own program.
func TestPeerWithoutGROLosesNoProbe(t *testing.T) {
	y := emptyYard(t, netns.GRO())
	y.start(`
memory: {buffers: 2048, buffer_size: 2048B}
transmitter: {cpu: worker}
ports:
  - {device: port1, speed: 1G, tx: resident}
  - {device: port2, speed: 1G, tx: resident}
`)
	y.awaitState("all links to be up", func(s *State) bool { return s.Ports[0].Up && s.Ports[1].Up })
	gro := func(on bool) {
		if err := y.hosts[0].at.Do(func() error {
			tool, err := ethtool.Open()
			if err != nil {
				return err
			}
			defer tool.Close()
			return tool.SetFeatures(hostDevice, map[string]bool{"rx-gro": on})
		}); err != nil {
			t.Fatal(err)
		}
	}
	probed := func(by string) {
		t.Helper()
		was := y.state().Total().Ports[0].Own.Sent
		until(t, "probes from the "+by, func() bool {
			p := y.state().Total().Ports[0]
			return p.TX == by && p.Own.Sent >= was+2
		})
	}
	for range 3 {
		probed(afxdp.TXTransmitter)
		gro(false)
		probed(afxdp.TXSocket)
		gro(true)
	}
	if p := y.state().Total().Ports[0]; p.Driver.Lost() > 0 {
		t.Errorf("lost %+v", p.Driver)
	}
}

// TestProbesTakeTurns: on a trunk, each VLAN but the untagged one has its turn, 16 at a time.
func TestProbesTakeTurns(t *testing.T) {
	p := newPort(&config.Port{Device: "port0", Link: config.Trunk, PVID: 5,
		VLANs: []config.VLANRange{{First: 1, Last: 5}, {First: 101, Last: 120}, {First: 4094, Last: 4094}}}, 0)
	var all []uint16
	for range 25 {
		some := p.nextVLANs()
		if len(some) != probesAtOnce {
			t.Fatalf("%d VLANs at once", len(some))
		}
		all = append(all, some...)
	}
	for at, vid := range all {
		want := uint16(at%25 + 1) // 4 and 20 VLANs, and 4094
		switch {
		case want == 25:
			want = 4094
		case want > 4:
			want += 96
		}
		if vid != want {
			t.Fatalf("turn %d: VLAN %d, want %d", at, vid, want)
		}
	}
	few := newPort(&config.Port{Device: "port0", Link: config.Trunk, PVID: 5,
		VLANs: []config.VLANRange{{First: 4, Last: 6}}}, 0)
	if got := fmt.Sprint(few.nextVLANs(), few.nextVLANs()); got != "[4 6] [4 6]" {
		t.Errorf("of two VLANs: %s", got)
	}
	access := newPort(&config.Port{Device: "port0", Link: config.Access, PVID: 5,
		VLANs: []config.VLANRange{{First: 5, Last: 5}}}, 0)
	if got := access.nextVLANs(); len(got) != 0 {
		t.Errorf("at an access port: %v", got)
	}
}
