package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/configtest"
	"sluice/bench/testkit/fcoetest"
	"sluice/internal/dataplane/tap"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/internal/state"
	"sluice/pmd/afxdp"
)

// fabric is a yard whose switch snoops: hosts[0] is a host, hosts[1] the FCF.
type fabric struct {
	*yard
	inbox [2][][]byte // FIP and FCoE frames, without their tag
	stop  func()
}

// fabricText is the configuration of a fabric; more is for port1, then for the file.
func fabricText(more, file string) string {
	return fmt.Sprintf(`
memory: {buffers: 2048, buffer_size: 4096B}
%s
ports:
  - {device: port1, speed: 1G, flow_control: off, mtu: 2200, link: trunk, vlans: [1, %d]%s}
  - {device: port2, speed: 1G, flow_control: off, mtu: 2200, link: trunk, vlans: [1, %d], fcoe: {role: fcf}}
`, cmp.Or(file, fcoeText), fcoetest.VLAN, more, fcoetest.VLAN)
}

var fcoeText = fmt.Sprintf("fcoe: {instances: [{name: FSB, vlan: %d}]}", fcoetest.VLAN)

// newFabric runs a switch that snoops, and has the FCF advertise itself.
func newFabric(t *testing.T) *fabric {
	t.Helper()
	f := &fabric{yard: emptyYard(t, netns.MTU(2200))}
	t.Cleanup(func() {
		for _, suffix := range []string{"", ".lock"} {
			if err := os.Remove(f.file() + suffix); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		}
	})
	f.begin(fabricText("", ""))
	f.advertise()
	return f
}

// file returns the path of the file with the sessions.
func (f *fabric) file() (path string) {
	f.t.Helper()
	if err := f.home.Do(func() error {
		inode, _, err := afxdp.Namespace()
		path = filepath.Join(afxdp.RunDirectory, "fcoe", fmt.Sprintf("%d-sluice.sock.json", inode))
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// begin runs a switch until stop.
func (f *fabric) begin(text string) {
	f.t.Helper()
	f.build(text)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.home.Do(func() error { return f.Run(ctx) }) }()
	f.stop = func() {
		f.stop = func() {}
		end()
		if err := <-done; err != nil {
			f.t.Errorf("the switch did not end well: %v", err)
		}
	}
	f.t.Cleanup(func() { f.stop() })
	f.awaitUp()
}

func (f *fabric) awaitUp() {
	f.t.Helper()
	until(f.t, "all ports to be open", f.Ready)
	f.awaitState("all links to be up", func(s *State) bool {
		return !slices.ContainsFunc(s.Ports, func(p PortState) bool { return !p.Up })
	})
}

// fcoe returns what the switch knows.
func (f *fabric) fcoe() *state.FCoE { return f.state().Total().FCoE }

// advertise has the FCF advertise itself, and returns when the switch knows it.
func (f *fabric) advertise() {
	f.t.Helper()
	until(f.t, "the switch to know the FCF", func() bool {
		f.hosts[1].write(fcoetest.Advertisement(fcoe.AllENode))
		return len(f.fcoe().FCFs) == 1
	})
}

// poll reads the frames that a host has received.
func (f *fabric) poll(host int) {
	f.t.Helper()
	h := f.hosts[host]
	b := make([]byte, 4096)
	for {
		n, err := unix.Read(h.fd, b)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			return
		case err == unix.ENETDOWN:
			continue
		case err != nil:
			f.t.Fatal(err)
		}
		if kind := binary.BigEndian.Uint16(b[12:]); kind == frame.TypeFIP || kind == frame.TypeFCoE {
			f.inbox[host] = append(f.inbox[host], bytes.Clone(b[:n]))
		}
	}
}

// await returns when a host has received a frame, and removes it and those before it.
func (f *fabric) await(host int, want []byte) {
	f.t.Helper()
	bare := slices.Concat(want[:12], want[16:]) // the kernel strips the tag of received frames
	until(f.t, fmt.Sprintf("frame %x", bare), func() bool {
		f.poll(host)
		at := slices.IndexFunc(f.inbox[host], func(b []byte) bool { return bytes.Equal(b, bare) })
		f.inbox[host] = f.inbox[host][at+1:]
		return at >= 0
	})
}

// logIn logs a host in. The hosts only look at what they receive, so each frame has passed the
// switch.
func (f *fabric) logIn(n int) {
	f.t.Helper()
	f.hosts[0].write(fcoetest.Login(n))
	f.await(1, fcoetest.Login(n))
	f.hosts[1].write(fcoetest.Accept(n))
	f.await(0, fcoetest.Accept(n))
}

// talk checks that FCoE passes in both directions.
func (f *fabric) talk(n int) {
	f.t.Helper()
	to, from := fcoetest.FCoE(fcoetest.FCF, fcoetest.VN(n)), fcoetest.FCoE(fcoetest.VN(n), fcoetest.FCF)
	f.hosts[0].write(to)
	f.await(1, to)
	f.hosts[1].write(from)
	f.await(0, from)
}

// silent checks that FCoE of a host does not pass. A frame behind it shows that it was handled.
func (f *fabric) silent(n int) {
	f.t.Helper()
	before := f.blocked()
	f.hosts[0].write(fcoetest.FCoE(fcoetest.FCF, fcoetest.VN(n)))
	until(f.t, "the frame to be dropped", func() bool { return f.blocked() > before })
	f.poll(1)
	for _, b := range f.inbox[1] {
		if binary.BigEndian.Uint16(b[12:]) == frame.TypeFCoE {
			f.t.Errorf("FCoE of host %d passed", n)
		}
	}
}

// blocked returns how many FCoE frames the port of the hosts has dropped.
func (f *fabric) blocked() (frames uint64) {
	for _, d := range f.state().Total().Ports[0].Drops {
		if d.Reason == "fcoe_session" {
			frames += d.Frames
		}
	}
	return frames
}

// sessions checks which hosts are logged in.
func (f *fabric) sessions(want ...int) {
	f.t.Helper()
	var all []string
	for _, n := range want {
		all = append(all, fcoetest.VN(n).String())
	}
	var got []string
	until(f.t, fmt.Sprintf("sessions %v", all), func() bool {
		got = nil
		for _, s := range f.fcoe().Sessions {
			got = append(got, s.VNPort)
		}
		return slices.Equal(got, all)
	})
}

// TestFCoELogin: a host logs in through the switch, and FCoE passes for it and for nobody else. The
// first frame after the accept passes.
func TestFCoELogin(t *testing.T) {
	f := newFabric(t)
	f.silent(1)
	for n := 1; n <= 20; n++ {
		f.logIn(n)
		f.talk(n)
	}
	f.silent(21)
	r := f.state().Total()
	if s := r.FCoE.Sessions; len(s) != 20 || s[0].Port != "port1" || s[0].FCFPort != "port2" || s[0].Restored {
		t.Errorf("%+v", s)
	}
	if p := r.Ports[0].FCoE; p.Role != "enode" || p.Received != 20 || p.Forwarded != 20 || p.Accepted != 20 {
		t.Errorf("%+v", p)
	}
	f.hosts[1].write(fcoetest.Clear())
	f.await(0, fcoetest.Clear())
	f.silent(1)
	f.sessions()
}

// TestFCoERefusals: what only an FCF may say does not pass from a host's port. It is counted, and
// captured with its reason.
func TestFCoERefusals(t *testing.T) {
	f := newFabric(t)
	f.logIn(1)
	c, err := f.Capture(t.Context(), CaptureParams{Drops: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	bad := fcoetest.Advertisement(fcoe.AllENode)
	f.hosts[0].write(bad)
	f.hosts[0].write(fcoetest.Clear())
	until(t, "the refusals", func() bool { return f.state().Ports[0].FCoE.Refused == 2 })
	f.talk(1)
	if p := f.state().Ports[0].FCoE; len(p.Refusals) != 1 || p.Refusals[0].Reason != "rogue_fcf" ||
		p.Refusals[0].Frames != 2 || p.Refusals[0].Last == nil {
		t.Errorf("%+v", p.Refusals)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	var seen []string
	if _, err := c.Take(10, func(_ int64, r *tap.Record, b []byte) error {
		seen = append(seen, fmt.Sprintf("%v %s %t", r.Verdict, r.Reason(), bytes.Equal(b, bad)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(seen, ", "); got != "dropped rogue_fcf true, dropped rogue_fcf false" {
		t.Errorf("captured: %s", got)
	}
}

// TestFCoERestart: a switch that is started again lets the sessions go on that it had, without a
// new login. It compares each port with what it was.
func TestFCoERestart(t *testing.T) {
	f := newFabric(t)
	f.logIn(1)
	f.logIn(2)
	f.stop()
	f.begin(fabricText("", ""))
	f.sessions(1, 2)
	f.talk(1)
	f.talk(2)
	r := f.fcoe()
	if s := r.StateFile; s.Path != f.file() || s.Restored != 2 || s.LeftOut != 0 || s.Error != "" {
		t.Errorf("%+v", s)
	}
	if !r.Sessions[0].Restored || !r.FCFs[0].Restored {
		t.Errorf("%+v", r)
	}
	text, err := os.ReadFile(f.file())
	if err != nil {
		t.Fatal(err)
	}
	f.stop()
	f.setLink("port1", false)
	f.setLink("port1", true)
	if err := os.WriteFile(f.file(), text, 0o600); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	f.begin(fabricText("", ""))
	f.sessions()
	f.silent(1)
	f.logIn(1) // the FCF is still known: its port has kept its carrier
	f.talk(1)
}

// TestFCoEPortDown: a port that is shut, or loses its link, ends its sessions. They are not back
// when the port is.
func TestFCoEPortDown(t *testing.T) {
	f := newFabric(t)
	for _, test := range []struct {
		port     string
		down, up func(port string)
	}{
		{"port1", f.shut, f.open}, {"port2", f.shut, f.open},
		{"port1", func(p string) { f.setLink(p, false) }, func(p string) { f.setLink(p, true) }},
	} {
		f.logIn(1)
		f.talk(1)
		test.down(test.port)
		f.sessions()
		test.up(test.port)
		f.awaitUp()
		f.sessions()
		if test.port == "port2" {
			f.advertise()
		}
		f.silent(1)
	}
	f.logIn(1)
	flap := func() error { f.plan.Links[f.port("port1").number].Flaps++; return nil }
	if err := f.order(t.Context(), flap); err != nil {
		t.Fatal(err)
	}
	f.sessions() // it was down for a moment
}

func (f *fabric) shut(port string) {
	f.t.Helper()
	if err := f.Shut(f.t.Context(), port); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fabric) open(port string) {
	f.t.Helper()
	if waits, err := f.Open(f.t.Context(), port); err != nil {
		f.t.Fatal(waits, err)
	}
}

// TestFCoEReload: a reload keeps the sessions that fit it, one that is refused keeps all of them,
// and one that turns snooping off and on again ends them. A preview says so before, and ends none.
func TestFCoEReload(t *testing.T) {
	f := newFabric(t)
	f.logIn(1)
	reload := func(text string) error {
		p, err := f.Preview(t.Context(), configtest.Parse(t, text))
		before := f.fcoe()
		if same := f.Reload(t.Context(), configtest.Parse(t, text)); (err == nil) != (same == nil) || err != nil {
			return same
		}
		ending, left := 0, f.fcoe()
		for _, e := range p.Ending {
			ending += e.Sessions
		}
		if left == nil {
			left = new(state.FCoE)
		}
		if before == nil && (p.Sessions != nil || ending > 0 || len(p.Changes) != 2) ||
			before != nil && (len(before.Sessions) != *p.Sessions || *p.Sessions-ending != len(left.Sessions)) {
			t.Errorf("%s: before %+v, then %+v; in the preview %+v", text, before, left, p)
		}
		return nil
	}
	for _, text := range []string{
		fabricText("", ""),
		fabricText(", fcoe: {max_sessions: 1}", ""),
		fabricText("", strings.Replace(fcoeText, "FSB, ", "renamed, age_multiplier: 4, ", 1)),
	} {
		if err := reload(text); err != nil {
			t.Fatal(err)
		}
		f.sessions(1)
		f.talk(1)
	}
	err := reload(strings.Replace(fabricText(", fcoe: {role: fcf}", ""), "buffers: 2048", "buffers: 4096", 1))
	if err == nil {
		t.Fatal("the reload is not refused")
	}
	f.sessions(1)
	f.talk(1)
	for _, text := range []string{
		fabricText(", fcoe: {role: fcf}", ""),
		fabricText("", strings.Replace(fcoeText, "}]", ", fc_map: 0EFC01}]", 1)),
		fabricText("", "forwarding: {ageing: 60s}"),
	} {
		if err := reload(text); err != nil {
			t.Fatal(err)
		}
		if r := f.fcoe(); r != nil && len(r.Sessions) != 0 {
			t.Errorf("%+v", r.Sessions)
		}
		if err := reload(fabricText("", "")); err != nil {
			t.Fatal(err)
		}
		f.sessions()
		f.advertise()
		f.logIn(1)
		f.talk(1)
	}
}

// TestClearCountersOfFIP: after clearing counters, snooping that is turned off and on again counts
// from 0. None of its new counts are missing, even when they are more than those cleared.
func TestClearCountersOfFIP(t *testing.T) {
	f := newFabric(t)
	f.logIn(1)
	if err := f.ClearCounters(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fabricText("", "forwarding: {ageing: 60s}"), fabricText("", "")} {
		if err := f.Reload(t.Context(), configtest.Parse(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	f.advertise()
	f.logIn(1)
	f.logIn(2)
	all, since := f.state().Total(), f.state().Report("", nil)
	for i := range all.Ports {
		a, b := all.Ports[i].FCoE, since.Ports[i].FCoE
		if a.Received < 2 || a.Received != b.Received || a.Forwarded != b.Forwarded || a.Accepted != b.Accepted {
			t.Errorf("%+v\nsince counters were cleared: %+v", a, b)
		}
	}
}

// TestFCoENumberReuse: a port that gets the number of one that has left gets none of its sessions,
// and neither does the same port when it comes back.
func TestFCoENumberReuse(t *testing.T) {
	f := newFabric(t)
	f.logIn(1)
	number := f.state().Ports[0].Number
	whole := fabricText("", "")
	alone := strings.Join(slices.DeleteFunc(strings.Split(whole, "\n"), func(line string) bool {
		return strings.Contains(line, "device: port1")
	}), "\n")
	if err := f.Reload(t.Context(), configtest.Parse(t, alone)); err != nil {
		t.Fatal(err)
	}
	f.sessions()
	if err := f.Reload(t.Context(), configtest.Parse(t, whole)); err != nil {
		t.Fatal(err)
	}
	f.awaitUp()
	if is := f.state().Ports[0].Number; is != number {
		t.Fatalf("the port has number %d, not %d: the test tests nothing", is, number)
	}
	f.silent(1)
	f.sessions()
	f.logIn(1)
	f.talk(1)
}

// TestFCoEWhileStopping: hosts log in and out until the switch has drained.
func TestFCoEWhileStopping(t *testing.T) {
	f := newFabric(t)
	f.logIn(1)
	if err := f.order(t.Context(), func() (err error) {
		f.hosts[0].write(fcoetest.Login(2))
		until(t, "the login", func() bool {
			err = errors.Join(err, f.followLinks(leaveTime)) // as when it drains
			f.poll(1)
			return len(f.inbox[1]) > 0
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.stop()
	text, err := os.ReadFile(f.file())
	if err != nil || !strings.Contains(string(text), fmt.Sprint(uint64(fcoetest.VN(1)))) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestNoFCoE: without FIP snooping there is neither a report nor a file, and FIP passes like other
// frames.
func TestNoFCoE(t *testing.T) {
	f := &fabric{yard: emptyYard(t, netns.MTU(2200))}
	f.begin(fabricText("", "forwarding: {ageing: 60s}"))
	f.hosts[0].write(fcoetest.Login(1))
	f.await(1, fcoetest.Login(1))
	if r := f.state().Total(); r.FCoE != nil || r.Ports[0].FCoE != nil {
		t.Errorf("%+v, %+v", r.FCoE, r.Ports[0].FCoE)
	}
	if _, err := os.Stat(f.file() + ".lock"); !os.IsNotExist(err) {
		t.Errorf("a file: %v", err)
	}
}

// TestFCoEParams: each key of the configuration reaches the engine.
func TestFCoEParams(t *testing.T) {
	c := configtest.Parse(t, strings.Replace(fabricText(", fcoe: {max_enodes: 5, max_sessions: 6, max_pending: 7}", `
fcoe:
  max_fcfs: 1
  max_enodes: 30
  max_sessions: 40
  max_pending: 50
  instances:
    - {name: FSB, vlan: 2094, fc_map: 0EFC0A, fcfs: ["02:00:00:01:00:00"], age_multiplier: 3.5, spma: true}
`), "role: fcf", "role: trusted", 1))
	p := fcoeParams(c)
	if p.MaxFCFs != 1 || p.MaxENodes != 30 || p.MaxLinks != 40 || p.MaxPending != 50 || len(p.Instances) != 1 ||
		len(p.Ports) != 2 {
		t.Fatalf("%+v", p)
	}
	i := p.Instances[0]
	if i.Name != "FSB" || i.VLAN != 2094 || i.FCMap != 0x0efc0a || !slices.Equal(i.FCFs, []frame.MAC{fcoetest.FCF}) ||
		i.AgeTenths != 35 || !i.SPMA {
		t.Errorf("%+v", i)
	}
	a, b := p.Ports[0], p.Ports[1]
	if a.Name != "port1" || a.Role.String() != "enode" || a.MaxENodes != 5 || a.MaxLinks != 6 || a.MaxPending != 7 ||
		!a.Member(2094) || !a.Member(1) || a.Member(2) || b.Role.String() != "trusted" || b.MaxLinks != 40 {
		t.Errorf("%+v, %+v", a, b)
	}
	for role, is := range fcoeRoles {
		if string(role) != is.String() {
			t.Errorf("role %s is %v", role, is)
		}
	}
	without := configtest.Parse(t, fabricText("", "lldp: {enabled: false}"))
	if p := fcoeParams(without); len(p.Instances)+len(p.Ports) != 0 {
		t.Errorf("without FCoE: %+v", p)
	}
}
