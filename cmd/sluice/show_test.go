package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/internal/cli"
	"sluice/internal/report/console"
	"sluice/internal/report/show"
	"sluice/internal/state"
)

// shownConfiguration has room for 8 cells of a lossless class, and 90 in its headroom. A pause of
// 65535 quanta lasts more than half a minute.
const shownConfiguration = `# as it was written
memory: {buffers: 2048, buffer_size: 2048B}
classes:
  - {cos: [3], name: storage, lossless: true, reserved: 0B, share: 16KiB, xon: 8KiB, headroom: 180KiB}
  - {cos: [0, 1, 2, 4, 5, 6, 7], name: lan, reserved: 0B}
watchdog: {action: alert, detection: 5s}
forwarding: {static: [{mac: "02:00:00:00:00:2a", vlan: 7, port: port2}]}
ports:
  - {device: port1, speed: 1M, mtu: 128, in_flight: 2KB}
  - {device: port2, speed: 1M, mtu: 128, in_flight: 2KB}
`

// shop is a switch in a known state: the host at port2 has paused it for a long time, and the host
// at port1 has sent one lossless frame more than there is room for.
type shop struct {
	*program.Running
	socket   string
	file     string // the configuration
	one, two *plainHost
}

func openShop(t *testing.T) *shop {
	t.Helper()
	s := program.NewSite(t, 2)
	h := &shop{socket: program.SocketPath(t)}
	h.Running = program.StartSwitch(t, s.Home, shownConfiguration+fmt.Sprintf("control: {socket: %s}\n", h.socket))
	h.file = h.Args[slices.Index(h.Args, "-c")+1]
	h.one, h.two = newDeafHost(t, s.Hosts[0]), newDeafHost(t, s.Hosts[1])
	c := console.Dial(h.socket)
	program.Until(t, "the worker to know that both ports are up", func() bool {
		r, err := c.State(t.Context())
		return err == nil && r.Ports[0].Up && r.Ports[1].Up
	})
	h.two.send(pauseFrame(0xffff))
	h.greet(1)
	for _, f := range testFrames(rand.New(rand.NewPCG(1, 0)), 99, lossless) {
		h.one.send(f[:60])
	}
	h.greet(2)
	h.Await(1, `msg="lossless frames dropped"`, "port=port1", "cos=3", "reason=headroom_full", "frames=1")
	return h
}

// greet sends the n-th frame of another class in each direction. When it has arrived, the switch
// has processed everything before it.
func (h *shop) greet(n uint64) {
	h.T.Helper()
	h.one.send(greeting(receiverMAC, senderMAC))
	h.two.awaitReceived(n)
	h.two.send(greeting(senderMAC, receiverMAC))
	h.one.awaitReceived(n)
}

// ask runs a command of sluice on the switch and returns its output.
func (h *shop) ask(args ...string) string {
	h.T.Helper()
	p := program.Launch(h.T, nil, append(args, "--socket", h.socket)...)
	if code := p.ExitCode(); code != 0 {
		h.T.Fatalf("exit code %d of %v: %s", code, args, strings.Join(p.Log.All(), "\n"))
	}
	return p.Output.String()
}

// TestShow runs all views on a switch that is paused by one peer, has paused another, and has
// nevertheless lost a frame.
func TestShow(t *testing.T) {
	h := openShop(t)
	for _, view := range []showing{
		{"pfc", show.PartPorts, []string{"PORT TX PFC0", "port1 0 0 0 1 0 0 0 0", "PORT RX PFC0",
			"port2 0 0 0 1 0 0 0 0", "port1 3 1", "paused"}},
		{"pfc --history", show.PartPorts, []string{"port1 tx 3", "port2 rx 3", "xoff 65535"}},
		{"pg --nonzero", show.PartPorts, []string{"port1 3 storage 0/0 8/8 8 90/90 90 1 paused"}},
		{"queues --nonzero", show.PartPorts, []string{"port2 3 storage 98 98 0 0 0 0 paused", "port2 7 lan 0/"}},
		{"watermarks", show.PartPorts | show.PartWorkers, []string{"port1 0 0 0 8 0", "port1 0 0 0 90 0",
			"port2 0 0 0 98 0", "0 ingress0"}},
		{"watermarks --persistent", show.PartPorts | show.PartWorkers, []string{"since the start", "port1 0 0 0 90 0"}},
		{"watermarks --port port1", show.PartPorts, []string{"port1 0 0 0 8 0"}},
		{"pfcwd --nonzero", show.PartPorts, []string{"all are 0", "port1 alert 5s 200ms"}},
		{"pfcwd", show.PartPorts, []string{"QUEUE STATUS STORM DETECTED/RESTORED", "port2:3 operational 0/0 0/0 0",
			"port1 alert 5s 200ms"}},
		{"fdb", show.PartFDB | show.PartPorts | show.PartWorkers,
			[]string{"FDB entries: 3", "7 02:00:00:00:00:2a port2 static 0", "100 02:00:00:00:00:01 port1 dynamic"}},
		{"fdb --vlan 7", show.PartFDB, []string{"7 02:00:00:00:00:2a port2 static 0"}},
		{"ets", show.PartPorts, []string{"port1 3 storage 1 50 1 50.0 – 0 –", "port2 7 lan 15 strict strict – – 2 –"}},
		{"workers", show.PartWorkers, []string{"WORKER CPU BUSY"}},
		{"drops", show.PartPorts | show.PartAlarms,
			[]string{"port1 3 storage yes headroom_full 1", "Lost between device and switch",
				" TX_DROPPED TX_REFUSED RX_CORRUPT"}},
		{"", show.PartPorts | show.PartAlarms | show.PartWorkers,
			[]string{"\nsluice " + version + ", running for ", "2 of 2 ports up", "configuration /", "port1 up 1M",
				"Buffer pools", "WORKER CPU"}},
		{"ports", show.PartPorts, []string{"PORT STATE SPEED RX_OK TX_OK", "PORT RX bit/s RX frame/s RX %",
			"Rates over the last ",
			"port2 0 0 0.0 0 0 0.0 0\n", "port1 up 1M 101 2 1 0 pfc", "port2 up 1M 3 2 0 0 pfc copy (native) xsk\n"}},
		{"ports --interval=0", show.PartPorts, []string{"port1 up 1M 101 2 1 0 pfc"}},
		{"priority-groups --nonzero", show.PartPorts, []string{"port1 3 storage 0/0 8/8 8 90/90 90 1 paused"}},
		{"mac", show.PartFDB | show.PartPorts | show.PartWorkers, []string{"FDB entries: 3"}},
		{"queue --port port2 --cos 7", show.PartPorts, []string{"port2 7 lan 0/"}},
	} {
		t.Run(view.args, func(t *testing.T) { h.check(t, view) })
	}
	h.checkDocuments(t)
	h.checkFilters(t)
	h.checkFail(t)
	h.checkOrders(t)
	h.checkReloads(t)
	h.two.send(pauseFrame(0))
	if r := h.Stop(); r.LosslessDrops != 1 || len(r.Alarms) != 1 || r.Alarms[0].Frames != 1 {
		t.Errorf("%+v", r.Switch)
	}
	// a confined switch can't remove a socket in another directory
	if _, err := console.Dial(h.socket).State(t.Context()); err == nil {
		t.Error("the socket is still answered")
	}
}

// showing is the expected output of a view.
type showing struct {
	args  string
	draws show.Part // what its JSON contains
	lines []string  // parts of lines, with single spaces
}

func (h *shop) check(t *testing.T, view showing) {
	text := h.ask(append([]string{"show"}, strings.Fields(view.args)...)...)
	t.Log("\n" + text)
	first, _, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(first, "lossless drops: 1  ALARM: port1 cos 3 (storage) headroom_full at ") {
		t.Errorf("the first line is %q", first)
	}
	plain := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' }), " ")
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 && !strings.HasPrefix(line, "configuration ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, line := range view.lines {
		if !strings.Contains(plain, line) {
			t.Errorf("no %q", line)
		}
	}
	r := h.document(t, strings.ReplaceAll(view.args, "--nonzero", ""))
	var draws show.Part
	for p, is := range map[show.Part]bool{show.PartPorts: r.Ports != nil, show.PartAlarms: r.Alarms != nil,
		show.PartWorkers: r.Workers != nil, show.PartFDB: r.FDB != nil} {
		if is {
			draws |= p
		}
	}
	if draws != view.draws || r.Version != version || r.LosslessDrops != 1 || r.CellBytes == 0 {
		t.Errorf("draws %b, want %b: %+v", draws, view.draws, r)
	}
}

// document returns the JSON of a view, which may contain only fields of the state of a switch.
func (h *shop) document(t *testing.T, args string) *state.Switch {
	t.Helper()
	text := h.ask(append([]string{"show", "--json"}, strings.Fields(args)...)...)
	var r struct {
		Schema int `json:"schema"`
		state.Switch
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || r.Schema != schemaVersion || strings.Count(text, "\n") != 1 {
		t.Fatalf("%v: not one document of the state: %s", err, text)
	}
	return &r.Switch
}

// checkDocuments checks the contents of the JSON of filtered views.
func (h *shop) checkDocuments(t *testing.T) {
	p := &h.document(t, "pg --port port1 --cos 3").Ports
	if len(*p) != 1 || len((*p)[0].ByCoS) != 1 {
		t.Fatalf("%+v", *p)
	}
	c := &(*p)[0].ByCoS[0]
	if c.CoS != lossless || c.Group.Headroom.Used != 90 || c.Group.Shared.Used != 8 || !c.PauseSent.Now ||
		c.GroupDropped != 1 {
		t.Errorf("%+v", c)
	}
	if want := (state.ETS{Group: 1, GroupName: "san", GroupPercent: 50, Weight: 1, LeastPercent: 50}); c.ETS != want {
		t.Errorf("%+v, want %+v", c.ETS, want)
	}
	if all := h.document(t, "fdb --port port2 --vlan 7").FDB; len(all) != 1 ||
		all[0] != (state.FDBEntry{MAC: "02:00:00:00:00:2a", VLAN: 7, Port: "port2", Static: true}) {
		t.Errorf("%+v", all)
	}
	if r := h.document(t, "drops --port port2"); r.LosslessDrops != 1 || len(r.Alarms) != 0 {
		t.Errorf("%d lossless drops, alarms of port2 %+v", r.LosslessDrops, r.Alarms)
	}
	h.refused(cli.ExitUsage, []string{"show", "pg", "--json", "--nonzero"}, "--nonzero hides rows of tables")
}

// checkOrders runs the commands that change the switch.
func (h *shop) checkOrders(t *testing.T) {
	h.ask("show", "watermarks", "clear")
	// 8 cells are still in use.
	for since, words := range map[string]string{"": "port1 0 0 0 8 0 0 0 0", "--persistent": "port1 0 0 0 8 0 0 0 1"} {
		if text := h.ask(strings.Fields("show watermarks " + since)...); !strings.Contains(
			strings.Join(strings.Fields(text), " "), words) {
			t.Errorf("no %q after watermarks were cleared:\n%s", words, text)
		}
	}
	h.ask("storm", "on", "port2", "--cos", "3,0")
	if text := h.ask("show", "pfcwd"); strings.Count(text, "manual") != 2 || !strings.Contains(text, "detected") {
		t.Errorf("two manual storms are not shown:\n%s", text)
	}
	h.ask("storm", "off", "port2", "--cos", "0")
	if text := h.ask("show", "pfcwd"); strings.Count(text, "manual") != 1 || !strings.Contains(text, "restored") {
		t.Errorf("one manual storm, and one that is over, are not shown:\n%s", text)
	}
	h.ask("storm", "off", "port2", "--cos", "3")
	if text := h.ask("show", "config"); !strings.HasPrefix(text, shownConfiguration) {
		t.Errorf("the configuration is shown as\n%s", text)
	}
	var file console.File
	if err := json.Unmarshal([]byte(h.ask("show", "config", "--json")), &file); err != nil || file.File != h.file ||
		!strings.HasPrefix(file.Text, shownConfiguration) {
		t.Errorf("%+v, %v", file, err)
	}
	h.refused(cli.ExitFailure, []string{"storm", "on", "port9", "--cos", "3"}, "port9 is not a port", "port1")
	h.refused(cli.ExitUsage, []string{"storm", "on", "port1", "--cos", "8"}, "--cos 8", "0 to 7")
	h.refused(cli.ExitUsage, []string{"storm", "on", "port1"}, "cos")
	h.refused(cli.ExitUsage, []string{"show", "--watch=0s"}, "--watch 0s is too short: choose 100ms or more")
	h.refused(cli.ExitUsage, []string{"show", "ports", "--watch=-1s"}, "--watch -1s is too short")
	h.refused(cli.ExitUsage, []string{"show", "ports", "--interval=1ms"}, "--interval 1ms is too short")
	h.refused(cli.ExitUsage, []string{"show", "--watch", "2s", "ports"}, "write --watch 2s after ports, or --watch=2s")
	h.refused(cli.ExitUsage, []string{"show", "ports", "--watch", "soon"}, `"soon"`)
	h.refused(cli.ExitUsage, []string{"show", "ports", "2s"}, `"2s"`)
	h.refused(cli.ExitUsage, []string{"show", "prots"}, `"prots"`)
}

// rewrite replaces the configuration but keeps the control socket.
func (h *shop) rewrite(text string) {
	h.T.Helper()
	write(h.T, h.file, program.WithSocket(h.T, fmt.Sprintf("%s\ncontrol: {socket: %s}\n", strings.TrimRight(text, "\n"),
		h.socket)))
}

// checkReloads reloads configurations that are invalid, that can't be applied while running, and
// that are good.
func (h *shop) checkReloads(t *testing.T) {
	h.rewrite("ports: [{device: port1, sped: 1G}]")
	h.refused(cli.ExitConfiguration, []string{"reload"}, h.file+":1:25: ", `did you mean "speed"?`)
	if text := h.ask("show"); !strings.Contains(text, "was refused and changed nothing") ||
		!strings.Contains(text, ":1:25: ") {
		t.Errorf("the overview does not say that a reload was refused:\n%s", text)
	}
	h.rewrite(strings.Replace(shownConfiguration, "buffers: 2048", "buffers: 4096", 1))
	h.refused(cli.ExitConfiguration, []string{"reload"}, h.file+
		":2:19: memory.buffers can't change while the switch runs", "2048")
	write(t, h.file, shownConfiguration+"control: {socket: none}\n")
	h.refused(cli.ExitConfiguration, []string{"reload"}, "control.socket can't change while the switch runs", h.socket)
	if text := h.ask("show", "config"); !strings.HasPrefix(text, shownConfiguration) {
		t.Errorf("after a reload that was refused the configuration is\n%s", text)
	}
	h.rewrite(strings.Replace(shownConfiguration, "action: alert", "action: drop", 1))
	if text := h.ask("reload"); text != fmt.Sprintf("configuration %s, number 2, loaded\n", h.file) {
		t.Errorf("reloaded: %q", text)
	}
	if text := h.ask("show", "pfcwd"); !strings.Contains(text, "drop ") || strings.Contains(text, "alert") {
		t.Errorf("the watchdog is as before:\n%s", text)
	}
	if text := h.ask("show"); strings.Contains(text, "refused") || !strings.Contains(text, "number 2") {
		t.Errorf("the overview after a reload:\n%s", text)
	}
	h.rewrite(shownConfiguration)
	h.Signal(unix.SIGHUP)
	h.Await(2, `msg="configuration reloaded"`)
	program.Until(t, "the third configuration", func() bool { return strings.Contains(h.ask("show"), "number 3") })
}

func (h *shop) refused(code int, args []string, say ...string) {
	h.T.Helper()
	checkRefusal(h.T, program.Launch(h.T, nil, append(args, "--socket", h.socket)...), code, say)
}

// TestWatch checks that a watch continues until it is interrupted, which is not an error, and that
// --json prints one document per line.
func TestWatch(t *testing.T) {
	s := program.NewSite(t, 1)
	socket := program.SocketPath(t)
	p := program.StartSwitch(t, s.Home, fmt.Sprintf("ports: [{device: port1, speed: 1G}]\ncontrol: {socket: %s}\n",
		socket))
	watches := [][]string{
		{"ports", "--watch=100ms"}, {"ports", "--json", "--watch", "100ms"},
		{"workers", "--watch", "100ms", "--nonzero"}, {"--watch", "100ms"},
	}
	var all []*program.Running
	for _, args := range watches {
		args = slices.Concat([]string{"show"}, args, []string{"--socket", socket})
		all = append(all, program.Launch(t, nil, args...))
	}
	time.Sleep(time.Second)
	for i, w := range all {
		args := watches[i]
		w.Signal(unix.SIGINT)
		if code := w.ExitCode(); code != 0 {
			t.Errorf("%v: exit code %d: %v", args, code, w.Log.All())
		}
		text := w.Output.String()
		if slices.Contains(args, "--json") {
			d, n := json.NewDecoder(strings.NewReader(text)), 0
			for ; d.More(); n++ {
				var document struct{ Ports []map[string]any }
				if err := d.Decode(&document); err != nil || len(document.Ports) != 1 {
					t.Fatalf("%v: %+v", err, document)
				}
			}
			if n < 3 || strings.Count(text, "\n") != n {
				t.Errorf("%d documents in %d lines", n, strings.Count(text, "\n"))
			}
		} else if n := strings.Count(text, "lossless drops: 0\n"); n < 3 || strings.Contains(text, "\x1b") {
			t.Errorf("%v: %d times:\n%s", args, n, text)
		}
	}
	if p.Stop(); p.ProcessState.ExitCode() != 0 {
		t.Error("the switch that was watched has failed")
	}
	checkRefusal(t, program.Launch(t, nil, "show", "--socket", socket), cli.ExitFailure,
		[]string{"no switch answers at " + socket, "sluice run", "--socket"})
}

// TestRedraw checks that redrawing leaves nothing of the previous contents, and keeps the first
// line visible.
func TestRedraw(t *testing.T) {
	for _, c := range []struct {
		text          string
		width, height int
		want          []string
	}{
		{"one\ntwo\n", 9, 3, []string{"one", "two", ""}},
		{"one\ntwo\nthree\nfour\n", 20, 4, []string{"one", "two", "… and 2 more lines", ""}},
		{"one\ntwo\nthree\n", 20, 3, []string{"one", "… and 2 more lines", ""}},
		{"one\n\nthree\n", 5, 3, []string{"one", "… and", ""}},
		{"as wide as it\ntwo\n", 13, 3, []string{"as wide as it", "two", ""}},
		{"one\nas wide as it\n", 13, 3, []string{"one", "as wide as it", ""}},
		{"wider than it – is\ntwo\n", 9, 4, []string{"wider tha", "n it – is", "two", ""}},
		{"wider than it\ntwo\n", 9, 3, []string{"wider tha", "… and 2 m", ""}},
		{"one\ntwo\n", 9, 2, []string{"one", ""}},
		{"one\ntwo\n", 2, 1, []string{"on"}},
	} {
		screen := newEmulator(c.width, c.height)
		for _, text := range []string{strings.Repeat("before and after\n", 7), c.text, c.text} { // a full screen before
			b := bytes.NewBufferString(text)
			redraw(b, c.width, c.height)
			if err := screen.write(strings.ReplaceAll(b.String(), "\n", "\r\n")); err != nil {
				t.Fatal(err)
			}
		}
		if got := screen.text(); !slices.Equal(got, c.want) || len(screen.left) > 0 {
			t.Errorf("%q in %d by %d: %q, want %q; left at the top: %q", c.text, c.width, c.height, got, c.want,
				screen.left)
		}
	}
}

// TestWatchWindow runs a watch in windows of several sizes, and without a terminal.
func TestWatchWindow(t *testing.T) {
	s := newStandIn(t)
	v := onTerminal(t, "show", "pfc", "--watch=100ms", "--socket", s.path)
	v.awaitText("more lines")
	for _, size := range [][2]int{{30, 10}, {100, 200}, {1, 1}, {80, 24}} {
		v.resize(size[0], size[1])
		v.await(fmt.Sprintf("a window of %v", size), func(lines []string) bool {
			first := "lossless drops: 0"
			return lines[0] == first[:min(len(first), size[0])] &&
				(size[1] == 1 || onScreen(lines, "more lines") != onScreen(lines, "TX TIME"))
		})
	}
	v.press("\x03")
	if code := v.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	v = commandOnTerminal(t, exec.Command("/bin/sh", "-c", "TERM=dumb exec "+self+" show ports --watch=100ms --socket "+
		s.path))
	v.await("text without end", func([]string) bool { return strings.Count(v.written(), "lossless drops: 0\r\n") > 2 })
	v.press("\x03")
	v.exitCode()
	if strings.Contains(v.written(), "\x1b") {
		t.Errorf("a dumb terminal was told %q", v.written())
	}
}

// TestSocketOfTwoSwitches checks that a second switch with the same socket fails before it touches
// a device.
func TestSocketOfTwoSwitches(t *testing.T) {
	s := program.NewSite(t, 2)
	socket := program.SocketPath(t)
	text := fmt.Sprintf("ports: [{device: port1, speed: 1G}]\ncontrol: {socket: %s}\n", socket)
	p := program.StartSwitch(t, s.Home, text)
	before := statesOf(t, s)
	second := readable(t, strings.Replace(text, "port1", "port2", 1))
	checkRefusal(t, program.Launch(t, s.Home, "run", "-c", second), cli.ExitFailure,
		[]string{socket, "in use", "stop the switch"})
	sameStates(t, before, statesOf(t, s))
	p.Signal(unix.SIGKILL) // it leaves its socket behind
	p.ExitCode()
	if _, err := os.Lstat(socket); err != nil {
		t.Fatal(err)
	}
	program.StartSwitch(t, s.Home, text).Stop()
	bad := readable(t, fmt.Sprintf("ports: [{device: port1, speed: 1G}]\ncontrol: {socket: %s}\n",
		filepath.Join("/proc", "sluice.sock")))
	checkRefusal(t, program.Launch(t, s.Home, "run", "-c", bad), cli.ExitFailure,
		[]string{"/proc/sluice.sock", "can't be created", "directory /proc"})
}

// TestShowHelp checks that every view has a description and the common flags.
func TestShowHelp(t *testing.T) {
	root := command()
	show, _, err := root.Find([]string{"show"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range show.Commands() {
		names = append(names, c.Name())
		if c.Short == "" {
			t.Errorf("%s says nothing", c.Name())
		}
		for _, flag := range []string{"socket", "json", "nonzero", "watch"} {
			if c.InheritedFlags().Lookup(flag) == nil {
				t.Errorf("%s has no --%s", c.Name(), flag)
			}
		}
	}
	slices.Sort(names)
	want := []string{"config", "dcbx", "drops", "ets", "fcoe", "fdb", "lldp", "pfc", "pfcwd", "pg", "ports", "queues",
		"watermarks", "workers"}
	if !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"show", "--help"})
	if err := root.ExecuteContext(context.Background()); err != nil ||
		!strings.Contains(out.String(), "lossless frames dropped for lack of room") {
		t.Errorf("%v\n%s", err, &out)
	}
}
