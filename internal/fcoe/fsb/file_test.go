package fsb

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/bench/testkit/fcoetest"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/fcoe"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
)

// again ends a rig as a kill does, and starts another one with its file, some time later.
func (r *rig) again(t *testing.T, later int64, change ...func(*rig)) *rig {
	t.Helper()
	path := r.file.store.Path()
	r.end()
	return startedRig(t, path, 5*second, r.boot+later, change...)
}

// TestRestart: what was logged in when the switch was killed may go on, before any frame has come.
// Its timers go on, too.
func TestRestart(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	r.logInAt("b", 2)
	next := r.again(t, 10*second)
	if !next.open(1) || !next.open(2) || next.sessions() != 2 {
		t.Fatalf("links %+v\n%s", next.links, next.text.String())
	}
	f := next.Report()
	if !f.Sessions[0].Restored || f.StateFile.Restored != 2 || f.StateFile.LeftOut != 0 || f.StateFile.Error != "" {
		t.Errorf("%+v", f)
	}
	if strings.Contains(next.text.String(), "level=WARN") {
		t.Errorf("%s", next.text.String())
	}
	next.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	next.receive("a", fcoetest.KeepAlive(1))
	next.tick()
	next.pass(11 * second) // 21 s after its last keep-alive, host 2 is gone
	if !next.open(1) || next.open(2) {
		t.Errorf("links %+v", next.links)
	}
	third := next.again(t, second)
	if !third.open(1) || third.open(2) || third.sessions() != 1 {
		t.Errorf("links %+v\n%s", third.links, third.text.String())
	}
}

// TestRestartElsewhere: sessions whose host, cable or rights may be other ones now end. The others
// go on.
func TestRestartElsewhere(t *testing.T) {
	none := func(uint16) bool { return false }
	for name, test := range map[string]struct {
		change   func(*rig)
		one, two bool   // what goes on: a session at port a, and one at port b
		why      string // what the log says of the port
	}{
		"same": {func(*rig) {}, true, true, ""},
		"other device": {func(r *rig) { r.is[0].Index++ }, false, true,
			"port=a because=\"it has another device now"},
		"carrier lost": {func(r *rig) { r.is[1].Losses++ }, true, false,
			"port=b because=\"it has lost its link"},
		"no device": {func(r *rig) { r.is[1] = Port{Name: "b", ID: 1} }, true, false,
			"port=b because=\"its device is absent"},
		"carrier of FCF lost": {func(r *rig) { r.is[2].Losses++ }, false, false,
			"port=f because=\"it has lost its link"},
		"other role": {func(r *rig) { r.params.Ports[0].Role = snoop.Trusted }, false, true,
			"port=a because=\"it had the role enode, and has the role trusted"},
		"other role of FCF": {func(r *rig) { r.params.Ports[2].Role = snoop.Trusted }, false, false,
			"port=f because=\"it had the role fcf, and"},
		"other VLANs":     {func(r *rig) { r.params.Ports[0].Member = none }, false, true, ""},
		"other FC-MAP":    {func(r *rig) { r.params.Instances[0].FCMap = 0x0efc01 }, false, false, ""},
		"FCF not allowed": {func(r *rig) { r.params.Instances[0].FCFs = []frame.MAC{2} }, false, false, ""},
		"port removed": {func(r *rig) { r.params.Ports, r.is = r.params.Ports[1:], r.is[1:] }, false, true,
			"port=a because=\"it has no FIP snooping"},
		"snooping turned off": {func(r *rig) { r.params.Instances, r.params.Ports = nil, nil }, false, false,
			"port=a because=\"it has no FIP snooping"},
		"longer than ENodes":   {func(r *rig) { r.boot += 21 * second }, false, false, ""},
		"after another reboot": {func(*rig) { here.Boot = "next" }, false, false, ""},
		"other namespace":      {func(*rig) { here.Namespace++ }, false, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			defer func(was Place) { here = was }(here)
			r := newRig(t)
			r.logIn(1)
			r.logInAt("b", 2)
			next := r.again(t, second, test.change)
			if next.open(1) != test.one || next.open(2) != test.two {
				t.Errorf("links %+v\n%s", next.links, next.text.String())
			}
			if len(next.params.Instances) > 0 && next.sessions() != len(next.links) {
				t.Errorf("%d sessions", next.sessions())
			}
			if n := next.keptLinks(); n != len(next.links) {
				t.Errorf("%d sessions in the file", n)
			}
			if f := next.file.report.Load(); f.Restored != len(next.links) {
				t.Errorf("%d sessions reported as restored, %d are open", f.Restored, len(next.links))
			}
			checkWhy(t, next.text.String(), test.why)
		})
	}
}

// checkWhy checks that the log gives a reason for a port, and then no other for its sessions.
func checkWhy(t *testing.T, log, why string) {
	t.Helper()
	if !strings.Contains(log, why) {
		t.Errorf("no %s in\n%s", why, log)
	}
	if strings.Contains(log, "is missing") {
		t.Errorf("a riddle in\n%s", log)
	}
}

// TestRestartBeforePortsAreUp: a switch that is killed while its ports still open loses nothing,
// and forgets nothing of what it has to compare them with.
func TestRestartBeforePortsAreUp(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	r.logInAt("b", 2)
	down := func(r *rig) {
		for i := range r.is {
			r.is[i].Up = false
		}
	}
	next := r.again(t, second, down)
	next.is[0].Up = true
	next.tick()
	third := next.again(t, second, down)
	if third.sessions() != 2 {
		t.Fatalf("%d sessions\n%s", third.sessions(), third.text.String())
	}
	last := third.again(t, second, func(r *rig) { r.is[1].Losses++ })
	if !last.open(1) || last.open(2) {
		t.Errorf("links %+v\n%s", last.links, last.text.String())
	}
}

// TestRestartWithoutFrames: what an opened device counts since then is in the file, although no
// frame has come.
func TestRestartWithoutFrames(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	next := r.again(t, second, func(r *rig) { r.is[0].Up = false })
	next.is[0].Up = true
	next.is[0].Losses++ // opening has reset the device
	next.pass(2 * second)
	third := next.again(t, second, func(r *rig) { r.is[0].Losses++ })
	if !next.open(1) || !third.open(1) {
		t.Errorf("links %+v\n%s", third.links, third.text.String())
	}
}

// TestBadFile: a file that can't be used costs the sessions, with a reason in the log, and is
// replaced.
func TestBadFile(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	path := r.file.store.Path()
	r.end()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	next := startedRig(t, path, 0, r.boot)
	if next.sessions() != 0 || !strings.Contains(next.text.String(), path+" is damaged") {
		t.Errorf("%d sessions: %s", next.sessions(), next.text.String())
	}
	if f := next.kept(); f != nil {
		t.Errorf("the file is still there: %+v", f)
	}
	next.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	next.logIn(1)
	if n := next.keptLinks(); n != 1 {
		t.Errorf("%d sessions in the file", n)
	}
}

// TestFileOfAnEarlierRun: with snooping that is turned on by a reload, what a file holds is from an
// earlier run and counts no more.
func TestFileOfAnEarlierRun(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	path := r.file.store.Path()
	r.end()
	next := &rig{t: t}
	next.Bridge = New(r.log, next, nil)
	if err := next.Configure(0, params()); err != nil {
		t.Fatal(err)
	}
	next.Keep(path, here)
	t.Cleanup(next.end)
	next.boot = r.boot
	next.tick()
	if f := next.kept(); f != nil || next.sessions() != 0 {
		t.Errorf("%+v", f)
	}
}

// TestFileInUse: a switch whose file another one has goes on without it, and says so.
func TestFileInUse(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	next := startedRig(t, r.file.store.Path(), 0, r.boot)
	next.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	next.logIn(2)
	if f := next.Report().StateFile; !strings.Contains(f.Error, "another switch") || next.sessions() != 1 {
		t.Errorf("%+v", f)
	}
	if n := r.keptLinks(); n != 1 {
		t.Errorf("%d sessions in the file of the first", n)
	}
}

// TestFailedWrites: if the file can't be written, logins go on. That is reported once, and over as
// soon as the file can be written again.
func TestFailedWrites(t *testing.T) {
	r := newRig(t)
	at := filepath.Dir(r.file.store.Path())
	if err := os.Rename(at, at+"2"); err != nil {
		t.Fatal(err)
	}
	r.logIn(1)
	r.logIn(2)
	if n := strings.Count(r.text.String(), "can't be written"); n != 1 || r.Report().StateFile.Error == "" {
		t.Errorf("%d times in the log: %s", n, r.text.String())
	}
	if err := os.Rename(at+"2", at); err != nil {
		t.Fatal(err)
	}
	r.pass(2 * second) // without any frame
	if n := r.keptLinks(); n != 2 || r.Report().StateFile.Error != "" {
		t.Errorf("%d sessions in the file: %s", n, r.text.String())
	}
}

// TestKeepAlivesAreWrittenOnceASecond: they change only when sessions expire.
func TestKeepAlivesAreWrittenOnceASecond(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	written := map[int64]bool{}
	for range 2500 { // 5 s
		r.receive("a", fcoetest.KeepAlive(1))
		r.tick()
		written[r.kept().Written] = true
	}
	if len(written) < 5 || len(written) > 6 {
		t.Errorf("written %d times in 5 s", len(written))
	}
}

// TestFileWithoutSessions: a switch that knows nobody leaves no file.
func TestFileWithoutSessions(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	r.pass(25 * second)
	if f := r.kept(); r.sessions() != 0 || f != nil {
		t.Errorf("%d sessions, %+v in the file", r.sessions(), f)
	}
}

// TestReload: sessions that fit other parameters go on, the others end, and their number is logged.
// Parameters that are refused change nothing.
func TestReload(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	r.logInAt("b", 2)
	bad := params()
	bad.Instances[0].AgeTenths = 7
	if _, err := r.Ending(bad, nil); err == nil || r.Configure(r.now, bad) == nil {
		t.Fatal("bad parameters are taken")
	}
	p := params()
	p.Instances[0].AgeTenths = 50
	if err := r.Configure(r.now, p); err != nil {
		t.Fatal(err)
	}
	if r.tick(); !r.open(1) || !r.open(2) || strings.Contains(r.text.String(), "they do not fit") {
		t.Fatalf("links %+v\n%s", r.links, r.text.String())
	}
	r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	r.receive("b", fcoetest.KeepAlive(2))
	r.tick()
	p.Instances[0].AgeTenths = 25
	if err := r.Configure(r.now, p); err != nil {
		t.Fatal(err)
	}
	if r.pass(20*second + 100_000_000); r.open(1) || r.open(2) {
		t.Errorf("sessions do not expire by the new parameters: %+v", r.links)
	}
	r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	r.logIn(1)
	r.logInAt("b", 2)
	p.Ports[0].Role = snoop.FCF
	if err := r.Configure(r.now, p); err != nil {
		t.Fatal(err)
	}
	if r.tick(); r.open(1) || !r.open(2) || !strings.Contains(r.text.String(), "sessions=1") {
		t.Errorf("links %+v\n%s", r.links, r.text.String())
	}
	if err := r.Configure(r.now, snoop.Params{MaxFCFs: 1, MaxENodes: 1, MaxLinks: 1, MaxPending: 1}); err != nil {
		t.Fatal(err)
	}
	if r.tick(); len(r.links) != 0 || r.Report() != nil || r.kept() != nil {
		t.Errorf("turned off: %+v, %+v, %+v", r.links, r.Report(), r.kept())
	}
}

// TestTurnedOnWhileUp: snooping that a reload turns on knows which links are up.
func TestTurnedOnWhileUp(t *testing.T) {
	r := startedRig(t, filepath.Join(t.TempDir(), "fcoe", "1.json"), 0, second, func(r *rig) {
		r.params.Instances, r.params.Ports = nil, nil
	})
	if err := r.Configure(r.now, params()); err != nil {
		t.Fatal(err)
	}
	r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
	r.logIn(1)
	r.is[0].Up = false
	if r.tick(); r.open(1) {
		t.Error("the session goes on while its port is down")
	}
}

// TestStall: a control loop that is held up ends no session: keep-alives may have been lost.
func TestStall(t *testing.T) {
	r := newRig(t)
	r.logIn(1)
	r.now += 100 * second
	r.boot += 100 * second
	if r.tick(); !r.open(1) {
		t.Fatal("the session has ended")
	}
	r.pass(21 * second)
	if r.open(1) {
		t.Error("the session does not end at all")
	}
}

// sorted returns the links in the dataplane by address.
func (r *rig) sorted() []bridge.VirtualLink {
	byVN := func(a, b bridge.VirtualLink) int { return cmp.Compare(a.VN, b.VN) }
	return slices.SortedFunc(slices.Values(r.links), byVN)
}

// TestAnyCourse: whatever happens, the links in the dataplane are those in the file when a frame
// leaves, they are between ports that are up, and a restart at any time keeps all of them.
func TestAnyCourse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		check := func() {
			kept := map[string]bool{}
			if f := r.kept(); f != nil {
				for _, l := range f.Sessions.Links {
					kept[l.VN.String()] = true
				}
			}
			for _, l := range r.links {
				if !kept[l.VN.String()] || !r.is[l.ENodePort].Up || !r.is[l.FCFPort].Up {
					rt.Fatalf("link %+v, file %v, ports %+v", l, kept, r.is)
				}
			}
			if len(kept) != len(r.links) {
				rt.Fatalf("%d links, file %v", len(r.links), kept)
			}
		}
		r.before = check
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			n := rapid.IntRange(0, 5).Draw(rt, "host")
			port := names[n%2]
			switch rapid.IntRange(0, 12).Draw(rt, "what") {
			case 0, 1, 2:
				r.receive(port, fcoetest.Login(n))
			case 3, 4, 5:
				r.receive("f", fcoetest.Accept(n))
			case 6:
				r.receive(port, fcoetest.KeepAlive(n))
			case 7:
				r.receive("f", fcoetest.Advertisement(fcoe.AllENode))
			case 8:
				p := &r.is[rapid.IntRange(0, 2).Draw(rt, "port")]
				if p.Up = !p.Up; p.Up {
					p.Flaps++
				}
				p.Losses++
			case 9:
				r.pass(rapid.Int64Range(1, 9*second).Draw(rt, "time"))
			case 10:
				r.tick()
			case 11:
				r.full[port] = !r.full[port]
			case 12:
				r.tick()
				was, is := r.sorted(), r.is
				up := true
				for i := range is {
					up = up && is[i].Up
				}
				r = r.again(t, 0, func(r *rig) { r.is = is })
				if r.before = check; up && !slices.Equal(r.sorted(), was) {
					rt.Fatalf("links %v, before the restart %v\n%s", r.links, was, r.text.String())
				}
			}
		}
		r.tick()
		check()
		r.end()
	})
}
