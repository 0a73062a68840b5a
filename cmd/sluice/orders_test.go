package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/config"
	"sluice/internal/report/capture"
	"sluice/internal/report/console"
	"sluice/internal/state"
)

// order runs a command on a switch and decodes its JSON document, which must have a schema version,
// into v.
func order(t *testing.T, socket string, v any, args ...string) {
	t.Helper()
	text := program.Output(t, append(args, "--json", "--socket", socket)...)
	var document struct {
		Schema int `json:"schema"`
	}
	if err := errors.Join(json.Unmarshal([]byte(text), v), json.Unmarshal([]byte(text), &document)); err != nil ||
		document.Schema != schemaVersion {
		t.Fatalf("%v: %v, schema %d\n%s", args, err, document.Schema, text)
	}
}

// socketOf returns the control socket of a switch that StartSwitch started.
func socketOf(t *testing.T, p *program.Running) string {
	t.Helper()
	c, err := config.Load(p.Args[len(p.Args)-2])
	if err != nil {
		t.Fatal(err)
	}
	return c.Control.Socket
}

// TestShutUnderLoad shuts and opens a port repeatedly while two hosts overload a third. No lossless
// frame may be lost. The device must be restored each time, and the confined switch must open it
// again.
func TestShutUnderLoad(t *testing.T) {
	const rounds = 10
	s := program.NewSite(t, 4)
	before, files := statesOf(t, s), program.Remembered(t, s)
	p := program.StartSwitch(t, s.Home, reloadable(rand.New(rand.NewPCG(1, 2)), true))
	socket := socketOf(t, p)
	c := newCrew(t, s, 3, []int{target, 1, 2}, map[int][]traffic.Flow{
		1: {flowToTarget(1, 1, lossless)}, 2: {flowToTarget(3, 2, lossless)}})
	c.more(100, 1, 3)
	for i := range rounds {
		var done console.PortDone
		if order(t, socket, &done, "port", "shut", "port4"); done != (console.PortDone{Device: "port4", Shut: true}) {
			t.Fatalf("%+v", done)
		}
		if now := stateOf(t, s.Home, "port4"); now.Program != 0 {
			t.Error("the device of a port that was shut has a program still")
		}
		sameStates(t, before[3:], statesOf(t, s)[3:])
		shown := program.Output(t, "show", "--socket", socket)
		if !strings.Contains(shown, "3 of 4 ports up") || !strings.Contains(shown, "shut by the operator: port4") {
			t.Errorf("not in view:\n%s", shown)
		}
		if order(t, socket, &done, "port", "open", "port4"); done.Shut {
			t.Fatalf("%+v", done)
		}
		p.Await(i+2, `msg="link changed"`, "port=port4", "up=true")
	}
	c.more(100, 1, 3)
	c.settle(1, 3)
	sent, got := c.sent(), c.received()
	c.leave()
	r := p.Stop()
	checkRestored(t, s, before, files)
	checkLossless(t, r, sent, got, 1, 3)
}

// TestOrdersPrintJSON checks that every command that changes something does so and prints what it
// did.
func TestOrdersPrintJSON(t *testing.T) {
	s := program.NewSite(t, 2)
	p := program.StartSwitch(t, s.Home, "classes: [{cos: [3], lossless: true}]\n"+
		"ports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}]\n")
	socket := socketOf(t, p)
	for _, what := range []string{"counters", "watermarks", "fdb"} {
		var done console.Cleared
		if order(t, socket, &done, "clear", what); done.What != what || done.At.IsZero() {
			t.Errorf("%s: %+v", what, done)
		}
	}
	var shown struct {
		Cleared *string `json:"counters_cleared"`
		Total   *uint64 `json:"lossless_drops_total"`
	}
	if order(t, socket, &shown, "show", "drops"); shown.Cleared == nil || shown.Total == nil {
		t.Errorf("%+v", shown)
	}
	if text := program.Output(t, "show", "--socket", socket); !strings.Contains(text, "counters cleared at ") {
		t.Errorf("%s", text)
	}
	var storm console.StormOrder
	if order(t, socket, &storm, "storm", "on", "port1", "--cos", "3"); !storm.On || !slices.Equal(storm.CoS, []int{3}) {
		t.Errorf("%+v", storm)
	}
	var loaded state.Configuration
	if order(t, socket, &loaded, "reload"); loaded.Generation != 2 {
		t.Errorf("%+v", loaded)
	}
	for _, wrong := range [][]string{
		{"clear", "fdb", "--vlan", "4095"}, {"clear", "fdb", "--port", ""}, {"clear", "fdb", "--port", "port9"},
		{"port", "shut", "port9"},
		{"capture", "--json", "-w", "-"},
	} {
		if code := program.Launch(t, nil, append(wrong, "--socket", socket)...).ExitCode(); code == 0 {
			t.Errorf("%q is no mistake", wrong)
		}
	}
	if r := p.Stop(); r.CountersCleared != nil {
		t.Error("the final report counts from when counters were cleared")
	}
}

// TestSilentClientsOfASwitch opens 300 silent connections each to the control socket, the viewers'
// socket and the metrics port. Show and scrapes must still work, and the switch must end normally.
func TestSilentClientsOfASwitch(t *testing.T) {
	const silent = 300
	s := program.NewSite(t, 2)
	before, files := statesOf(t, s), program.Remembered(t, s)
	socket := program.SocketPath(t)
	p := program.StartSwitch(t, s.Home, fmt.Sprintf("metrics: {listen: %q}\ncontrol: {socket: %s, viewers: 65534}\n"+
		"ports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}]\n", metricsAddress, socket))
	p.Await(1, "msg=confined")
	for _, at := range [][2]string{{"unix", socket}, {"unix", config.ViewSocket(socket)}, {"tcp", metricsAddress}} {
		for range silent {
			err := s.Home.Do(func() error {
				c, err := net.Dial(at[0], at[1])
				if err == nil {
					t.Cleanup(func() { c.Close() })
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 5 {
		if text := program.Output(t, "show", "--socket", socket); !strings.Contains(text, "2 of 2 ports up") {
			t.Errorf("%s", text)
		}
		body := getIn(clientIn(s.Home), "http://"+metricsAddress+"/metrics")
		if !strings.Contains(string(body), "\nsluice_up 1") {
			t.Errorf("%s", body)
		}
	}
	p.Stop()
	checkRestored(t, s, before, files)
}

// TestCaptureOntoAWideFile checks that an existing file that everybody can read becomes private
// before frames are written to it, and that the log says who captured.
func TestCaptureOntoAWideFile(t *testing.T) {
	s := program.NewSite(t, 2)
	p := program.StartSwitch(t, s.Home, "ports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}]\n")
	socket := socketOf(t, p)
	file := filepath.Join(t.TempDir(), "wide.pcapng")
	if err := os.WriteFile(file, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	c := program.Launch(t, nil, "capture", "--socket", socket, "--json", "-w", file)
	who := []string{"uid=0", "pid="}
	p.Await(1, append(who, `msg="capture started"`)...)
	c.Signal(unix.SIGINT)
	if code := c.ExitCode(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	p.Await(1, append(who, `msg="capture ended"`)...)
	var summary capture.Summary
	c.Document(&summary)
	info, err := os.Stat(file)
	if err != nil || info.Mode() != fs.FileMode(0o600) || info.Size() >= 1<<20 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Chown(file, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if code := program.Launch(t, nil, "capture", "--socket", socket, "-w", file).ExitCode(); code != 1 {
		t.Errorf("onto another user's file: exit code %d", code)
	}
	p.Stop()
}
