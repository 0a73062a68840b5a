package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/cells/headroom"
)

const onePort = "ports:\n  - {device: sw0, speed: 10G}\n"

// fataler is what testing.T and rapid.T have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func mustParse(t fataler, text string) *Config {
	t.Helper()
	c, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return c
}

// values returns a Config without the positions, to be compared.
func values(c *Config) Config {
	v := *c
	v.source = source{}
	return v
}

func TestDefaults(t *testing.T) {
	want := Config{
		Workers: []int{},
		Memory:  Memory{Buffers: 32768, BufferSize: 2048, Profile: Generic, Cell: 2048, HeadroomRatio: 1},
		Classes: []Class{{
			Name: "cos0,1,2,3,4,5,6,7", CoS: []int{0, 1, 2, 3, 4, 5, 6, 7},
			Weight: 1, Reserved: 16384, Share: 4e6, QueueLimit: 1e6,
		}},
		PFC:        PFC{Enabled: true, Quanta: 65535, Refresh: 32767},
		Watchdog:   Watchdog{Action: WatchdogAlert, Detection: 200 * time.Millisecond, Restoration: 200 * time.Millisecond},
		Forwarding: Forwarding{Mode: Bridge, Wires: []Wire{}, Ageing: 300 * time.Second, Table: 16384},
		Ports: []Port{{
			Device: "sw0", Speed: 10e9, MTU: 1500, PeerMTU: 1500, VLANs: []VLANRange{{1, 4094}}, PVID: 1,
			FlowControl: FlowPFC, Metres: 100, Medium: headroom.Fibre, Response: time.Millisecond, InFlight: 64e3, Mode: Auto,
			Peer: -1, Headroom: 16036 * 2048,
		}},
	}
	if got := values(mustParse(t, onePort)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// everything has every key, with no value that is a default.
const everything = `
workers: [4, 6]
memory:
  buffers: 131072
  buffer_size: 4KiB
  profile: nexus2000
  cell: 160B
  port_buffer: 4MB
  lossless_pool: 60%
  headroom_ratio: 1.5
classes:
  - cos: [3, 4]
    name: storage
    lossless: true
    weight: 60
    reserved: 64KB
    share: 5MB
    headroom: 1.5MB
    xon: 1MiB
    xon_offset: 2MB
  - cos: [7]
    strict: true
    queue_limit: 64KiB
  - cos: [0]
    alpha: 1/4
    queue_alpha: 8
pfc:
  enabled: false
  quanta: 1000
  refresh: 400
  asymmetric: true
watchdog:
  action: forward
  detection: 5s
  restoration: 100ms
forwarding:
  mode: wire
  wires: [[sw2, sw0], [sw1, sw3]]
  ageing: 2min
  table: 100
ports:
  - device: sw0
    speed: 2.5G
    mtu: 3694
    peer_mtu: 2158
    vlans: [100, 200-299]
    pvid: 200
    flow_control: pause
    cable: 1.5km
    medium: copper
    response: 50us
    in_flight: 32KB
    mode: zero-copy
    busy_poll: true
    worker: 1
    default_cos: 5
  - {device: sw1, speed: 500M, mode: copy}
  - {device: sw2, speed: 400G}
  - {device: sw3, speed: 0.1G}
`

func TestEveryKey(t *testing.T) {
	port := Port{ // what the ports but the first have in common
		MTU: 1500, PeerMTU: 1500, VLANs: []VLANRange{{1, 4094}}, PVID: 1, FlowControl: FlowOff,
		Metres: 100, Medium: headroom.Fibre, Response: time.Millisecond, InFlight: 64e3,
	}
	sw1, sw2, sw3 := port, port, port
	sw1.Device, sw1.Speed, sw1.Mode, sw1.Worker, sw1.Peer = "sw1", 5e8, Copy, 1, 3
	sw2.Device, sw2.Speed, sw2.Mode, sw2.Worker, sw2.Peer = "sw2", 400e9, Auto, 0, 0
	sw3.Device, sw3.Speed, sw3.Mode, sw3.Worker, sw3.Peer = "sw3", 1e8, Auto, 1, 1
	want := Config{
		Workers: []int{4, 6},
		Memory: Memory{
			Buffers: 131072, BufferSize: 4096, Profile: Nexus2000, Cell: 160, PortBuffer: 4e6, LosslessPool: 60, HeadroomRatio: 1.5,
		},
		Classes: []Class{
			{Name: "storage", CoS: []int{3, 4}, Lossless: true, Weight: 60, Reserved: 64e3, Share: 5e6, Headroom: 15e5, XON: 1 << 20, XONOffset: 2e6},
			{Name: "cos7", CoS: []int{7}, Strict: true, Reserved: 16384, Share: 4e6, QueueLimit: 65536},
			{Name: "cos0", CoS: []int{0}, Weight: 1, Reserved: 16384, Alpha: 32, QueueAlpha: 1024},
			{Name: "cos1,2,5,6", CoS: []int{1, 2, 5, 6}, Weight: 1, Reserved: 16384, Share: 4e6, QueueLimit: 1e6},
		},
		PFC:        PFC{Enabled: false, Quanta: 1000, Refresh: 400, Asymmetric: true},
		Watchdog:   Watchdog{Action: WatchdogForward, Detection: 5 * time.Second, Restoration: 100 * time.Millisecond},
		Forwarding: Forwarding{Mode: WirePairs, Wires: []Wire{{"sw2", "sw0"}, {"sw1", "sw3"}}, Ageing: 2 * time.Minute, Table: 100},
		Ports: []Port{{
			Device: "sw0", Speed: 25e8, MTU: 3694, PeerMTU: 2158, VLANs: []VLANRange{{100, 100}, {200, 299}}, PVID: 200,
			FlowControl: FlowOff, // PFC is not enabled
			Metres:      1500, Medium: headroom.Copper, Response: 50 * time.Microsecond,
			InFlight: 32e3, Mode: ZeroCopy, BusyPoll: true, Worker: 1, DefaultCoS: 5, Peer: 2,
		}, sw1, sw2, sw3},
	}
	got := values(mustParse(t, everything))
	for i := range got.Ports {
		got.Ports[i].Headroom = 0 // for TestHeadroomOfALink
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, name := range allKeys() {
		if !hasKey(everything, name) {
			t.Errorf("the test does not cover the key %s", name)
		}
	}
}

// allKeys returns the names of all keys, of all mappings.
func allKeys() []string {
	return slices.Concat(keyNames(fileKeys), keyNames(memoryKeys), keyNames(classKeys), keyNames(pfcKeys),
		keyNames(watchdogKeys), keyNames(forwardingKeys), keyNames(portKeys))
}

// hasKey tells whether a file, one key to a line, has a key.
func hasKey(text, name string) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimLeft(line, " -"), name+":")
	})
}

func TestClass(t *testing.T) {
	c := mustParse(t, everything)
	for cos, name := range []string{"cos0", "cos1,2,5,6", "cos1,2,5,6", "storage", "storage", "cos1,2,5,6", "cos1,2,5,6", "cos7"} {
		if got := c.Class(cos).Name; got != name {
			t.Errorf("CoS %d is in class %s, want %s", cos, got, name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("CoS 8 has a class")
		}
	}()
	c.Class(8)
}

// Each file of testdata/bad ends with the messages that it must give, in comments.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for line := range strings.Lines(string(data)) {
			if message, ok := strings.CutPrefix(line, "#! "); ok {
				want = append(want, strings.TrimSuffix(message, "\n"))
			}
		}
		_, err = Parse(filepath.Base(file), data)
		if err == nil {
			t.Errorf("%s is accepted", file)
			continue
		}
		if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", file, err, strings.Join(want, "\n"))
		}
	}
}

func TestProblemNamesThePosition(t *testing.T) {
	c := mustParse(t, "# comment\nclasses:\n  - cos: [3]\nports:\n  - device: sw0\n    speed: 10G\n  - {speed: 1G, device: sw1}\n")
	for _, p := range []struct {
		value any
		want  string
	}{
		{&c.Ports[0].Device, "test.yaml:5:13: p: r"},
		{&c.Ports[1].Device, "test.yaml:7:25: p: r"},
		{&c.Ports[1], "test.yaml:7:5: p: r"},
		{&c.Ports[0].Worker, "test.yaml:5:5: p: r"}, // a default: its mapping
		{&c.Memory.Buffers, "test.yaml:2:1: p: r"},  // the default of a mapping that is missing: the one that lacks it
		{&c.Classes[0].CoS[0], "test.yaml:3:11: p: r"},
		{&c.Classes[1].Headroom, "test.yaml:3:3: p: r"}, // the class of what is not listed
		{c, "test.yaml:2:1: p: r"},
	} {
		if got := c.Problem(p.value, "p", "r").Error(); got != p.want {
			t.Errorf("%T: %s, want %s", p.value, got, p.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a value from elsewhere has a position")
		}
	}()
	c.Problem(new(int), "p", "r")
}

func TestErrorsUnwrap(t *testing.T) {
	_, err := Parse("test.yaml", []byte("workers: [-1]\n"))
	var all Errors
	if !errors.As(err, &all) || len(all) != 2 {
		t.Fatalf("%#v", err)
	}
	for _, one := range all {
		if !errors.Is(err, one) {
			t.Errorf("%v is not found in %v", one, err)
		}
	}
	var first *Error
	if !errors.As(err, &first) || first.Line != 1 || first.File != "test.yaml" {
		t.Errorf("the first problem is %+v", first)
	}
}

func TestLongTextIsCut(t *testing.T) {
	_, err := Parse("test.yaml", []byte(strings.Repeat("x", 5000)+": 1\n"+onePort))
	if n := len(err.Error()); n > 200 {
		t.Errorf("a message of %d characters", n)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sluice.yaml")
	if _, err := Load(file); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory: %v", err)
	}
	write := func(data string) {
		if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(onePort)
	if c, err := Load(file); err != nil || c.Ports[0].Device != "sw0" {
		t.Errorf("%+v, %v", c, err)
	}
	write(onePort + strings.Repeat("#", MaxFileSize-len(onePort)))
	if _, err := Load(file); err != nil {
		t.Errorf("a file of the largest size: %v", err)
	}
	write(onePort + strings.Repeat("#", MaxFileSize+1-len(onePort)))
	want := file + ":1:1: the file is too large: a configuration has at most 1048576 bytes"
	if _, err := Load(file); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
	}
}

// The example with every key says that it has them and that most could be left out.
func TestBridgeExampleShowsTheDefaults(t *testing.T) {
	const file = "../../examples/bridge.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range allKeys() {
		if !hasKey(string(text), name) {
			t.Errorf("%s does not have the key %s", file, name)
		}
	}
	example, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	plain := mustParse(t, `
workers: [1]
memory: {buffers: 98304}
classes:
  - {cos: [3], name: storage, lossless: true, weight: 50, headroom: 33MB, xon: 2MB, xon_offset: 2MB}
  - {cos: [0, 1, 2, 4, 5], name: lan, weight: 50, alpha: 1/2, queue_alpha: 1}
  - {cos: [6, 7], name: control, strict: true}
ports:
  - {device: sw0, speed: 10G}
  - {device: sw1, speed: 10G}
  - {device: sw2, speed: 10G}
  - {device: sw3, speed: 10G}
`)
	if got, want := values(example), values(plain); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func BenchmarkParse(b *testing.B) {
	b.SetBytes(int64(len(everything)))
	for b.Loop() {
		if _, err := Parse("test.yaml", []byte(everything)); err != nil {
			b.Fatal(err)
		}
	}
}
