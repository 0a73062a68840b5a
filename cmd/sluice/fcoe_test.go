package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/internal/state"
)

// awaitFCF waits until the switch knows the FCF.
func (x *fcoeSwitch) awaitFCF(n int) {
	x.T.Helper()
	program.Until(x.T, fmt.Sprintf("%d FCFs in the state of the switch", n),
		func() bool { return len(x.state().FCoE.FCFs) == n })
}

// TestFirstFrameAfterTheAccept: a thousand times, a VN_Port sends FCoE the moment its accept
// arrives, and the FCF sends the frame back. Both arrive every time.
func TestFirstFrameAfterTheAccept(t *testing.T) {
	const logins = 1000
	s := newFCoESite(t, 2)
	x := startFCoESwitch(t, s, fcoePorts(2, "400M"))
	fabric := newFCFabric(t, s.Hosts[0], time.Minute) // so the ENodes need no keep-alives
	x.awaitFCF(1)
	var h *fcHost
	returned := make(chan struct{}, logins)
	h = newFCHost(t, s.Hosts[1], func(f fcFrame) {
		var p fcoe.Packet
		switch {
		case f.Type == frame.TypeFCoE:
			returned <- struct{}{}
		case fcoe.Parse(f.payload, &p) == fcoe.OK && p.Op == fcoe.LoginReply && p.ELS.Command == fcoe.Accept:
			id := p.ELS.Header.D
			if err := h.write(fcoeFrame(fabric.mac, p.MAC, fcoeVLAN, id, id, uint32(id), 100)); err != nil {
				t.Error(err)
			}
		}
	})
	began := time.Now()
	for i := range logins {
		command, enode := fcoe.FDISC, frame.MAC(0x0200_0001_0000+i/4)
		if i%4 == 0 {
			command = fcoe.FLOGI
		}
		program.Must(t, h.write(fipFrame(fabric.mac, enode, fcoeVLAN,
			loginRequest(command, uint16(i), fcoe.WWN(0x1000_0000_0000_0000+i)))))
		select {
		case <-returned:
		case <-time.After(program.Patience):
			t.Fatalf("the frame of login %d has not come back; port2: %v", i, counters(x, "port2"))
		}
	}
	took := time.Since(began)
	got, damaged, requests := fabric.counts()
	t.Logf("%d logins one after the other, each with a frame to the FCF and back: %v, %.0f a second", requests, took,
		logins/took.Seconds())
	if got != logins || damaged != 0 || requests != logins {
		t.Errorf("%d logins; the FCF received %d first frames, %d damaged", requests, got, damaged)
	}
	if d := dropped(x.port("port2")); len(d) > 0 {
		t.Errorf("port2 dropped %v", d)
	}
	if n := len(x.state().FCoE.Sessions); n != logins {
		t.Errorf("%d sessions", n)
	}
	x.Stop()
}

// fcStream is FCoE between two VN_Ports through an FCF.
type fcStream struct {
	from, to vnPort
	host     *fcHost
	fcf      frame.MAC
	sent     uint32
}

// send sends frames of all lengths in turn.
func (s *fcStream) send(n int) error {
	for range n {
		s.sent++
		b := fcoeFrame(s.fcf, s.from.mac, fcoeVLAN, s.from.id, s.to.id, s.sent, 4*int(s.sent*67%529))
		if err := s.host.write(b); err != nil {
			return err
		}
	}
	return nil
}

// numbers returns the numbers of the FCoE frames for a VN_Port, in the order of arrival.
func numbers(t *testing.T, frames []fcFrame, to vnPort) (all []uint32) {
	t.Helper()
	for _, f := range frames {
		if f.Type != frame.TypeFCoE || f.Dst != to.mac {
			continue
		}
		var h fcoe.Header
		x, problem := fcoe.ParseFCoE(f.payload)
		if problem != fcoe.OK || x.CRC != fcoe.CRC(x.FC) || fcoe.ParseHeader(x.FC, &h) != fcoe.OK || h.D != to.id {
			t.Errorf("%v: %v", problem, f)
			continue
		}
		all = append(all, h.Param)
	}
	return all
}

// pairOnFabric is two ENodes at ports 2 and 3, an FCF at port1, and streams in both directions.
type pairOnFabric struct {
	program.Site
	*fcoeSwitch
	fabric *fcFabric
	hosts  [2]*fcENode
	flows  [2]*fcStream
	got    [2][]uint32 // numbers that have arrived, of each flow
}

// newPairOnFabric starts the switch with that many of four ports, an FCF with that FKA_ADV_Period,
// and logs both ENodes in.
func newPairOnFabric(t *testing.T, ports int, period time.Duration) *pairOnFabric {
	t.Helper()
	s := newFCoESite(t, 4)
	p := &pairOnFabric{Site: s, fcoeSwitch: startFCoESwitch(t, s, fcoePorts(ports, "400M"))}
	p.fabric = newFCFabric(t, s.Hosts[0], period)
	p.awaitFCF(1)
	var at [2]vnPort
	for i := range p.hosts {
		p.hosts[i] = &fcENode{fcHost: newFCHost(t, s.Hosts[i+1], nil), fcf: p.fabric.mac}
		enode := frame.MAC(0x0200_0000_2000 + i)
		p.hosts[i].login(fcoe.FLOGI, enode, fcoe.WWN(0x1000_0000_0000_2000+i))
		at[i] = p.hosts[i].login(fcoe.FDISC, enode, fcoe.WWN(0x1000_0000_0000_2100+i))
		keepAlives(p.hosts[i], enode, period/2)
	}
	for i := range p.flows {
		p.flows[i] = &fcStream{from: at[i], to: at[1-i], host: p.hosts[i].fcHost, fcf: p.fabric.mac}
	}
	return p
}

// keepAlives sends those of an ENode until the test ends.
func keepAlives(h *fcENode, enode frame.MAC, every time.Duration) {
	f := fipFrame(h.fcf, enode, fcoeVLAN, &fcoe.Packet{Op: fcoe.KeepAlive, Flags: fcoe.FP, MAC: enode})
	ticker := time.NewTicker(every)
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = h.write(f)
			case <-h.stopped:
				return
			}
		}
	}()
}

// stream sends until stop is called.
func (p *pairOnFabric) stream() (stop func()) {
	return repeat(p.T, func() error {
		for _, f := range p.flows {
			if err := f.send(1); err != nil {
				return err
			}
		}
		time.Sleep(500 * time.Microsecond)
		return nil
	})
}

// collect reads what has arrived.
func (p *pairOnFabric) collect() {
	p.T.Helper()
	for i := range p.hosts {
		frames := p.hosts[1-i].take()
		p.got[i] = append(p.got[i], numbers(p.T, frames, p.flows[i].to)...)
	}
}

// more waits until n more frames of each flow have arrived.
func (p *pairOnFabric) more(n int) {
	p.T.Helper()
	p.collect()
	before := [2]int{len(p.got[0]), len(p.got[1])}
	program.Until(p.T, fmt.Sprintf("%d more frames of both streams", n), func() bool {
		p.collect()
		return len(p.got[0]) >= before[0]+n && len(p.got[1]) >= before[1]+n
	})
}

// complete waits until all that was sent has arrived.
func (p *pairOnFabric) complete() {
	p.T.Helper()
	program.Until(p.T, "the end of both streams", func() bool {
		p.collect()
		return len(p.got[0]) == int(p.flows[0].sent) && len(p.got[1]) == int(p.flows[1].sent)
	})
}

// sessions returns the sessions of a switch without their ages, and how many were restored.
func sessions(of state.Switch) (list []state.FCoESession, restored int) {
	for _, s := range of.FCoE.Sessions {
		if s.Restored {
			restored++
		}
		s.Restored, s.SinceNS, s.ExpiresInNS = false, 0, 0
		list = append(list, s)
	}
	return list, restored
}

// TestFCoEBothWays: FCoE between two VN_Ports through the FCF, in both directions. Each frame
// arrives once, in order and, as tshark finds, with its CRC.
func TestFCoEBothWays(t *testing.T) {
	program.NeedTshark(t)
	p := newPairOnFabric(t, 3, time.Second)
	var captures []*program.Capture
	for _, h := range p.Hosts[:3] {
		captures = append(captures, program.StartCapture(t, h, program.HostDevice))
	}
	const n = 1000
	for range n {
		for _, f := range p.flows {
			program.Must(t, f.send(1))
		}
		time.Sleep(200 * time.Microsecond)
	}
	p.complete()
	for i, got := range p.got {
		if len(got) != n || !slices.IsSorted(got) || got[n-1] != n {
			t.Errorf("stream %d: %d frames arrived, in order: %v", i+1, len(got), slices.IsSorted(got))
		}
	}
	x := p.Stop()
	program.EndCaptures(captures...)
	for i, c := range captures {
		rows := c.Decode("fcoe", "fcoe.crc.status", "vlan.id", "vlan.priority", "_ws.malformed")
		good := []string{"1", fmt.Sprint(fcoeVLAN), fmt.Sprint(fcoeCoS), ""}
		bad := slices.DeleteFunc(slices.Clone(rows), func(row []string) bool { return slices.Equal(row, good) })
		want := 2 * n // sent and received
		if i == 0 {
			want *= 2
		}
		if len(rows) != want || len(bad) > 0 {
			t.Errorf("host %d: %d frames, want %d; others than %q: %q", i+1, len(rows), want, good,
				bad[:min(3, len(bad))])
		}
	}
	if x.LosslessDrops != 0 {
		t.Errorf("%d lossless drops", x.LosslessDrops)
	}
}

// TestKilledUnderFCoE kills a switch and starts it again, while FCoE goes both ways. It knows all
// sessions again, and FCoE passes without a further login.
func TestKilledUnderFCoE(t *testing.T) {
	p := newPairOnFabric(t, 3, 4*time.Second)
	stop := p.stream()
	p.more(200)
	before, _ := sessions(p.state())
	_, _, requests := p.fabric.counts()
	if len(before) != 4 {
		t.Fatalf("%d sessions: %v", len(before), before)
	}
	for range 5 {
		p.Signal(unix.SIGKILL)
		if code := p.ExitCode(); code != -1 {
			t.Fatalf("exit code %d of a killed process", code)
		}
		p.collect()
		p.Running = program.StartSwitch(t, p.Home, p.text)
		now, restored := sessions(p.state())
		if !slices.Equal(now, before) || restored != len(before) {
			t.Fatalf("%d sessions restored; now\n%+v\nbefore\n%+v", restored, now, before)
		}
		p.more(200)
	}
	stop()
	if _, damaged, now := p.fabric.counts(); now != requests || damaged > 0 {
		t.Errorf("%d logins, then %d; %d frames damaged", requests, now, damaged)
	}
	for i, got := range p.got {
		if !slices.IsSorted(got) {
			t.Errorf("stream %d is out of order", i+1)
		}
		t.Logf("stream %d: %d of %d frames arrived around 5 kills", i+1, len(got), p.flows[i].sent)
	}
	p.Stop()
}

// TestUnplugged unplugs a host: its sessions end, and those of others do not. Plugged in again, it
// must log in again before its FCoE passes.
func TestUnplugged(t *testing.T) {
	p := newPairOnFabric(t, 3, 4*time.Second)
	own := p.flows[0].from
	behind := func(port string) (n int) {
		for _, s := range p.state().FCoE.Sessions {
			if s.Port == port {
				n++
			}
		}
		return n
	}
	program.OnLink(t, p.Hosts[1], program.HostDevice, netlink.LinkSetDown)
	program.Until(t, "the end of the sessions of port2", func() bool { return behind("port2") == 0 })
	if n := behind("port3"); n != 2 {
		t.Errorf("%d sessions of port3", n)
	}
	program.OnLink(t, p.Hosts[1], program.HostDevice, netlink.LinkSetUp)
	p.Await(2, `msg="link changed"`, "port=port2", "up=true")
	stray := fcoeFrame(p.fabric.mac, own.mac, fcoeVLAN, own.id, own.id, 1, 100)
	program.Must(t, p.hosts[0].write(stray))
	program.Until(t, "the drop of a frame without a session", func() bool {
		return counters(p.fcoeSwitch, "port2")["fcoe_session"] == 1
	})
	again := p.hosts[0].login(fcoe.FLOGI, own.enode, own.name)
	f := &fcStream{from: again, to: p.flows[1].from, host: p.hosts[0].fcHost, fcf: p.fabric.mac}
	program.Must(t, f.send(1))
	p.hosts[1].await("a frame after the new login", func(x *fcFrame) bool { return x.Type == frame.TypeFCoE })
	if got, _, _ := p.fabric.counts(); got != 1 {
		t.Errorf("the FCF received %d FCoE frames", got)
	}
	p.Stop()
}

// TestReloadsUnderFCoE reloads the configuration while FCoE goes both ways, with and without a
// fourth port. No session ends, and no frame is lost.
func TestReloadsUnderFCoE(t *testing.T) {
	const reloads = 20
	p := newPairOnFabric(t, 3, time.Second)
	control := p.text[strings.Index(p.text, "control:"):]
	file := p.Args[len(p.Args)-2]
	stop := p.stream()
	p.more(100)
	before := p.state()
	for i := range reloads {
		write(t, file, program.WithTransmitter(t, program.WithSocket(t, fcoePorts(3+(i+1)%2, "400M")+control)))
		p.Signal(unix.SIGHUP)
		p.Await(i+1, `msg="configuration reloaded"`)
		p.more(20)
	}
	stop()
	now := p.state()
	was, _ := sessions(before)
	are, restored := sessions(now)
	if !slices.Equal(was, are) || restored > 0 {
		t.Errorf("%d sessions restored; now\n%+v\nbefore\n%+v", restored, are, was)
	}
	for i, s := range now.FCoE.Sessions {
		if i < len(before.FCoE.Sessions) && s.SinceNS < before.FCoE.Sessions[i].SinceNS {
			t.Errorf("session of %s is younger than before: it ended and came again", s.VNPort)
		}
	}
	p.complete()
	if r := p.Stop(); r.LosslessDrops != 0 {
		t.Errorf("%d lossless drops", r.LosslessDrops)
	}
}

// TestFIPFlood: a host floods the switch with solicitations, and then with FLOGIs, of thousands of
// ENodes, while FCoE goes both ways between others and their keep-alives hold their sessions. The
// tables stay within their limits, the memory of the switch settles, and no session of the others
// ends.
func TestFIPFlood(t *testing.T) {
	p := newPairOnFabric(t, 4, time.Second) // a starved keep-alive ends a session after 2.6 s
	before, _ := sessions(p.state())
	attacker := newDeafHost(t, p.Hosts[3])
	for _, flood := range []struct {
		name   string
		frames [][]byte
	}{{"solicitations", floodSolicitations()}, {"FLOGIs", floodLogins(p.fabric.mac)}} {
		stop, end := p.stream(), stormOf(t, attacker, flood.frames)
		p.flooded(2 * time.Second)
		settled, alive := p.Memory("VmRSS"), p.fabric.alive()
		p.flooded(4 * time.Second)
		grown, heard := p.Memory("VmRSS")-settled, p.fabric.alive()-alive
		rate := end()
		stop()
		x := p.state()
		t.Logf("%s: %.0f a second; %.1f MB more resident; %d keep-alives heard by the FCF; tables %+v; port4 %v",
			flood.name, rate, grown/1e6, heard, x.FCoE.Tables, counters(p.fcoeSwitch, "port4"))
		if grown > 16e6 && !program.UnderRace() {
			t.Errorf("%s: %.1f MB more resident", flood.name, grown/1e6)
		}
		if heard == 0 {
			t.Errorf("%s: no keep-alive of the other hosts reached the FCF", flood.name)
		}
		for _, port := range []string{"port2", "port3"} {
			if c := counters(p.fcoeSwitch, port); len(c) > 0 {
				t.Errorf("%s: frames of %s were dropped or refused: %v", flood.name, port, c)
			}
		}
		checkTables(t, x)
		now, _ := sessions(x)
		for _, s := range before {
			if !slices.Contains(now, s) {
				t.Errorf("%s: the session of %s has ended", flood.name, s.VNPort)
			}
		}
	}
	p.complete()
	for i, s := range p.state().FCoE.Sessions {
		if i < len(before) && s.SinceNS < int64(10*time.Second) {
			t.Errorf("the session of %s ended and began again", s.VNPort)
		}
	}
	if r := p.Stop(); r.LosslessDrops != 0 {
		t.Errorf("%d lossless drops", r.LosslessDrops)
	}
}

// flooded waits while FCoE goes on.
func (p *pairOnFabric) flooded(d time.Duration) {
	p.T.Helper()
	for began := time.Now(); time.Since(began) < d; {
		p.more(100)
	}
}

// checkTables checks that no table has more entries than it may have.
func checkTables(t *testing.T, s state.Switch) {
	t.Helper()
	all := []state.FCoETable{s.FCoE.Tables.FCFs, s.FCoE.Tables.ENodes, s.FCoE.Tables.Sessions, s.FCoE.Tables.Pending}
	for _, p := range s.Ports {
		if p.FCoE != nil && p.FCoE.Role != "fcf" {
			all = append(all, p.FCoE.ENodes, p.FCoE.Sessions)
		}
	}
	for _, table := range all {
		if table.Used > table.Limit {
			t.Errorf("a table is overfull: %+v", table)
		}
	}
}

// floodENodes is how many ENodes a flood comes from.
const floodENodes = 5000

func floodSolicitations() (frames [][]byte) {
	for i := range floodENodes {
		enode := frame.MAC(0x0200_0004_0000 + i)
		frames = append(frames, fipFrame(fcoe.AllFCF, enode, fcoeVLAN, &fcoe.Packet{Op: fcoe.Solicitation,
			Flags: fcoe.FP, MAC: enode, Name: 1, MaxSize: fcoe.MaxPayload}))
	}
	return frames
}

func floodLogins(fcf frame.MAC) (frames [][]byte) {
	for i := range floodENodes {
		frames = append(frames, fipFrame(fcf, frame.MAC(0x0200_0004_0000+i), fcoeVLAN,
			loginRequest(fcoe.FLOGI, uint16(i), fcoe.WWN(0x1000_0000_0004_0000+i))))
	}
	return frames
}
