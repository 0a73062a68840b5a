package screen

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/state"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

const lossless = 3 // the lossless CoS

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// twoReports returns two reports a second apart, in which two senders send at line rate to one
// port, as in the demo.
func twoReports() (before, now *state.Switch) {
	return reportAt(10), reportAt(11)
}

// reportAt returns the report that many seconds after the start.
func reportAt(seconds int) *state.Switch {
	n := uint64(seconds)
	r := &state.Switch{
		Time: noon.Add(time.Duration(seconds) * time.Second), UptimeNS: int64(seconds) * 1e9, CellBytes: 256,
		Configuration: state.Configuration{File: "switch.yaml", Generation: 1, LoadedAt: noon, TriedAt: noon},
		Workers: []state.Worker{{CPU: 1, NowNS: int64(seconds) * 1e9, BusyNS: int64(n) * 250e6, Frames: n * 250_000,
			Bursts:    n * 20_000,
			BurstSize: 64, GapP50NS: 850, GapP999NS: 21_000, GapMaxNS: 3_120_000, Buffers: 16384, Free: 9000,
			FDB: state.FDB{Entries: 3},
			Pools: []state.Pool{{Shared: state.Level{Used: 4000, Peak: 6000, Max: 6000, Limit: 8192},
				Headroom: state.Level{Used: 900, Peak: 1200, Max: 1200, Limit: 98304}}}}},
	}
	for i := range 3 {
		p := state.Port{Name: fmt.Sprintf("port%d", i+1), Number: i, NowNS: r.UptimeNS, Up: true, Mode: "copy (native)",
			Speed:       1e9,
			FlowControl: "pfc", Received: n * 81_000, ReceivedBytes: n * 81_000 * 1496, Dropped: n * 1234}
		p.ByCoS = []state.CoS{{CoS: lossless, Class: "storage", Lossless: true,
			Group: state.Group{Reserved: 6, ReservedLimit: 6, Shared: state.Level{Used: 3900, Peak: 3906, Max: 3906,
				Limit: 3906},
				Headroom: state.Level{Used: 450, Peak: 600, Max: 700, Limit: 31250}},
			PauseSent: state.PauseSent{Now: true, PausedNS: int64(n) * 513e6, XOFF: n * 90}}}
		p.PausedPeer = []state.Transition{{AgoNS: 412_500_000, CoS: 3, Cause: "xoff", Quanta: 65535},
			{AgoNS: 407_250_000, CoS: 3, Cause: "xon"},
			{AgoNS: int64(5+i) * 1e6, CoS: 3, Cause: "xoff", Quanta: 65535}}
		r.Ports = append(r.Ports, p)
	}
	target := &r.Ports[2]
	target.Received, target.ReceivedBytes, target.Sent, target.SentBytes = n/3, 60*n/3, n*81_000, n*81_000*1496
	target.Dropped, target.PausedPeer = 0, nil
	held := &target.CoS(lossless).Group
	held.Shared.Used, held.Headroom = 0, state.Level{Limit: 31250}
	return r
}

// rich returns reports that contain everything a report can show.
func rich() (before, now *state.Switch) {
	before, now = twoReports()
	now.LosslessDrops = 12
	now.Alarms = []state.Alarm{{Since: noon, Until: now.Time.Add(-2300 * time.Millisecond), Port: "port1", CoS: 3,
		Class:  "storage",
		Reason: "headroom_full", Frames: 12}}
	now.Ports[0].Name, before.Ports[0].Name = "enp129s0f1np1v", "enp129s0f1np1v"
	stormed := now.Ports[1].CoS(lossless)
	stormed.Storming, stormed.PauseReceived.PausedNS = true, 1e9
	now.Ports[1].Paused = []state.Transition{{AgoNS: 912_000_000, CoS: 3, Cause: "xoff", Quanta: 65535}}
	now.Ports[1].Storms = []state.StormEvent{{AgoNS: 700_000_000, CoS: 3, Begins: true},
		{AgoNS: 90_000_000_000, CoS: 3, Manual: true}}
	now.Ports[2].Up = false
	now.Ports = append(now.Ports, state.Port{Name: "port4", Mode: "absent", Speed: 2_500_000_000, FlowControl: "off"})
	now.Workers = append(now.Workers, state.Worker{Number: 1, CPU: 3, BurstSize: 64})
	now.Configuration.Error = "switch.yaml:4:7: unknown key sped: did you mean speed?\nand more"
	return before, now
}

// lossOfLongAgo returns a report whose headline does not fit in one line.
func lossOfLongAgo() *state.Switch {
	_, r := rich()
	a := &r.Alarms[0]
	a.Port, a.Class, a.Reason, a.Until = r.Ports[0].Name, "storage-of-the-cluster", "refused_by_driver",
		noon.AddDate(0, 0, -3)
	r.Alarms = append(r.Alarms, *a)
	return r
}

func TestGolden(t *testing.T) {
	time.Local = time.UTC
	before, now := twoReports()
	richBefore, richNow := rich()
	otherBefore, otherNow := disagreeing()
	lost := "no switch answers at /run/sluice/sluice.sock: start one with `sluice run -c FILE`, or name its socket " +
		"with --socket; retrying"
	for name, v := range map[string]View{
		"demo":       {Now: now, Before: before, Width: 80, Height: 24},
		"first":      {Now: now, Width: 80, Height: 24},
		"wide":       {Now: richNow, Before: richBefore, Width: 132, Height: 43},
		"trouble":    {Now: richNow, Before: richBefore, Width: 80, Height: 24},
		"small":      {Now: richNow, Before: richBefore, Width: 40, Height: 10, Scroll: 1},
		"events":     {Now: richNow, Before: richBefore, Width: 80, Height: 24, Section: Events},
		"dcbx":       {Now: otherNow, Before: otherBefore, Width: 80, Height: 24, Section: Events},
		"plain":      {Now: richNow, Before: richBefore, Width: 80},
		"silent":     {Now: now, Before: before, Trouble: lost, Silence: 5 * time.Second, Width: 80, Height: 24},
		"never":      {Trouble: lost, Width: 80, Height: 24},
		"restarted":  {Now: now, Before: reportAt(3600), Width: 80, Height: 24},
		"not so yet": {Width: 80, Height: 24},
		"loss":       {Now: lossOfLongAgo(), Width: 80, Height: 24},
	} {
		t.Run(name, func(t *testing.T) {
			lines, _ := v.Draw()
			golden(t, name, lines)
		})
	}
}

// golden compares the lines with a golden file, or writes the file with -update.
func golden(t *testing.T, name string, lines []Line) {
	t.Helper()
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text + "\n")
	}
	file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("is\n%s\n%s says\n%s\nif the first is right: go test ./internal/report/screen -update", b.String(),
			file, want)
	}
}

// disagreeing returns reports of a switch whose peers have other settings.
func disagreeing() (before, now *state.Switch) {
	before, now = twoReports()
	now.Ports[0].DCBX = &state.DCBX{Mismatches: []state.Mismatch{
		{Kind: "pfc", Active: true, SinceNS: 407e6,
			Text: "this end has priority 3, the peer \x1b[2J priority 4: change one"},
		{Kind: "ets", Text: "no longer"}}}
	now.Ports[2].DCBX = &state.DCBX{Mismatches: []state.Mismatch{
		{Kind: "no-peer", Active: true, SinceNS: 3723e9, Text: "the link partner sends no DCBX"}}}
	return before, now
}

// TestMismatch checks that a mismatch is bad news in the headline.
func TestMismatch(t *testing.T) {
	_, now := disagreeing()
	v := View{Now: now, Width: 80, Height: 24}
	lines := v.headline()
	if want := (Line{"lossless drops: 0  DCBX: port1 pfc and 1 more", Bad}); len(lines) != 1 || lines[0] != want {
		t.Errorf("%+v, want %+v", lines, want)
	}
	now.Ports[0].DCBX.Mismatches[0].Active, now.Ports[2].DCBX = false, nil
	if lines := v.headline(); lines[0].Style != Good {
		t.Errorf("%+v", lines)
	}
}

// TestMismatchEvent checks that a narrow window shows the start of a mismatch: its kind and what
// the port has, not the name of its peer.
func TestMismatchEvent(t *testing.T) {
	_, now := disagreeing()
	peer := "a-server-with-a-rather-long-name (00:1b:21:d9:d5:72)"
	now.Ports[0].DCBX.Peer.Names = []string{peer}
	now.Ports[0].DCBX.Mismatches[0].Text = peer + ": this port has 3, the peer 4: neither is willing: make one willing"
	frame, _ := (&View{Now: now, Width: 80, Height: 40}).Draw()
	const want = "  407ms ago  port1            dcbx  pfc: this port has 3, the peer 4: neither i~"
	if !slices.ContainsFunc(frame, func(l Line) bool { return l.Text == want }) {
		t.Errorf("%q is not in %+v", want, frame)
	}
}

// TestRefusalEvent checks that events have what FIP snooping refused last, and that only some of it
// is bad news.
func TestRefusalEvent(t *testing.T) {
	_, now := twoReports()
	for i, reason := range []string{"rogue_fcf", "no_session"} {
		now.Ports[i].FCoE = &state.PortFCoE{Refusals: []state.FCoERefusal{{Reason: reason, Frames: 1, Serious: i == 0,
			Last: &state.FCoERefusedFrame{AgoNS: 407e6, Source: "00:1b:21:d9:d5:72", Text: "keep-alive"}}}}
	}
	frame, _ := (&View{Now: now, Width: 80, Height: 40}).Draw()
	for _, want := range []Line{
		{"  407ms ago  port1            fip   rogue_fcf from 00:1b:21:d9:d5:72: keep-alive", Bad},
		{"  407ms ago  port2            fip   no_session from 00:1b:21:d9:d5:72: keep-ali~", Plain},
	} {
		if !slices.Contains(frame, want) {
			t.Errorf("%+v is not in %+v", want, frame)
		}
	}
}

// TestStalled checks that a stalled control loop is reported in the headline, and completely even
// in a narrow window.
func TestStalled(t *testing.T) {
	before, now := twoReports()
	now.StalledNS = 7e9
	for _, width := range []int{40, 80, 200} {
		v := View{Before: before, Now: now, Width: width, Height: 24}
		var said strings.Builder
		for _, line := range v.headline() {
			if line.Style != Bad {
				t.Errorf("%q is drawn as if all were well", line.Text)
			}
			said.WriteString(" " + strings.TrimSpace(line.Text))
		}
		if text := said.String(); !strings.Contains(text, "STALLED") || !strings.Contains(text, "commands wait") {
			t.Errorf("in %d columns: %s", width, text)
		}
	}
}

// TestLinkNamesTheMode: a port that is not open has the words that show uses, in full.
func TestLinkNamesTheMode(t *testing.T) {
	for _, mode := range []string{state.Absent, state.SetDown, state.Closed} {
		v := View{Now: &state.Switch{Ports: []state.Port{{Name: "port1", Mode: mode}}}, Width: normal}
		if row := v.ports().rows[0].Text; !strings.Contains(row, " "+mode+" ") {
			t.Errorf("%s: %q", mode, row)
		}
	}
}
