package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"sluice/cells/headroom"
	"sluice/internal/config/schema"
)

const onePort = "ports:\n  - {device: sw0, speed: 10G}\n"

// fataler is the common part of testing.T and rapid.T.
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

// values returns a Config without positions, for comparison.
func values(c *Config) Config {
	v := *c
	v.source = source{}
	return v
}

// The profile and domain of ports that name none. The profile is table 10-12 of Huawei's guide.
var (
	builtInETS = ETSProfile{
		Name: "default",
		Groups: []PriorityGroup{
			{PG: 0, Name: "lan", CoS: []int{0, 1, 2, 4, 5}, Weight: 50, Inner: InnerDRR},
			{PG: 1, Name: "san", CoS: []int{3}, Weight: 50, Inner: InnerDRR},
			{PG: 15, Name: "ipc", CoS: []int{6, 7}, Inner: InnerStrict},
		},
		Queues: []ETSQueue{},
	}
	builtInQoS = QoSDomain{
		Name: "default", Trust: TrustPCP, PCPToCoS: identity(), DSCPToCoS: nothing(64), CoSToPCP: identity(),
		CoSToDSCP: nothing(8),
	}
)

func identity() []int { return []int{0, 1, 2, 3, 4, 5, 6, 7} }

// nothing returns a map of n values to nothing.
func nothing(n int) []int { return slices.Repeat([]int{Unmapped}, n) }

func TestDefaults(t *testing.T) {
	want := Config{
		Workers:     []int{},
		Memory:      Memory{Buffers: 32768, BufferSize: 2048, Profile: Generic, Cell: 2048, HeadroomRatio: 1},
		Transmitter: Transmitter{CPU: -1, Ring: 2048},
		Classes: []Class{{
			Name: "cos0,1,2,3,4,5,6,7", CoS: []int{0, 1, 2, 3, 4, 5, 6, 7},
			Reserved: 16384, Share: 4e6, QueueLimit: 1e6,
		}},
		ETS: []ETSProfile{builtInETS},
		QoS: []QoSDomain{builtInQoS},
		PFC: PFC{Enabled: true, Quanta: 65535, Refresh: 32767},
		Watchdog: Watchdog{Action: WatchdogAlert, Detection: 200 * time.Millisecond,
			Restoration: 200 * time.Millisecond},
		Forwarding: Forwarding{Mode: Bridge, Wires: []Wire{}, Ageing: 300 * time.Second, Table: 16384,
			LoopGuard: LoopAlert,
			Static:    []StaticEntry{}},
		Control: Control{Socket: DefaultSocket},
		Metrics: Metrics{Listen: "127.0.0.1:9473"},
		LLDP:    LLDP{Interval: 30 * time.Second, Hold: 4},
		DCBX:    DCBX{Tie: LowerGivesWay, Hold: 2 * time.Minute, Applications: []Application{}},
		FCoE: FCoE{MaxFCFs: 32, MaxENodes: 1024, MaxSessions: 4096, MaxPending: 4096,
			Instances: []FCoEInstance{}},
		Ports: []Port{{
			Device: "sw0", Speed: 10e9, LinkSpeed: 10e9, MTU: 1500, PeerMTU: 1500, Link: Transparent,
			VLANs: []VLANRange{{1, 4094}}, PVID: 1, STag: STagDrop,
			ETSName: "default", QoSName: "default", ETS: &builtInETS, QoS: &builtInQoS,
			FlowControl: FlowPFC, Metres: 100, Medium: headroom.Fibre, Response: time.Millisecond, InFlight: 64e3,
			Mode: Auto, TX: TXAuto, LLDP: LLDPBoth, DCBX: PortDCBX{Version: DCBXOff, Role: Manual},
			FCoE: PortFCoE{Role: FCoEENode, ENodes: []ENode{}, MaxENodes: 64, MaxSessions: 256, MaxPending: 256},
			Peer: -1, Headroom: 16030 * 2048, Parts: 1, Refresh: 32767, ControlAhead: 1,
		}},
	}
	if got := values(mustParse(t, onePort)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestInFlightFollowsTheSpeed: by default the device holds frames for 50 µs, and at least 64 KB.
func TestInFlightFollowsTheSpeed(t *testing.T) {
	for speed, want := range map[string]int{"1G": 64_000, "10G": 64_000, "25G": 156_250, "100G": 625_000,
		"100G, in_flight: 3KB": 3000} {
		c := mustParse(t, "forwarding: {mode: bridge}\nports: [{device: sw0, speed: "+speed+"}]")
		if got := c.Ports[0].InFlight; got != want {
			t.Errorf("%s: %d bytes in flight, want %d", speed, got, want)
		}
	}
}

// everything has every key, with no default values except those that bridge mode requires.
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
transmitter:
  cpu: 5
  ring: 512
classes:
  - cos: [3, 4]
    name: storage
    lossless: true
    reserved: 64KB
    share: 5MB
    headroom: 1.5MB
    xon: 1MiB
    xon_offset: 2MB
  - cos: [7]
    queue_limit: 64KiB
    wred: {min: 16KiB, max: 32KiB, probability: 25%, smoothing: 9}
    ecn: true
  - cos: [0]
    alpha: 1/4
    queue_alpha: 8
ets:
  - name: ets1
    groups:
      - {pg: 0, cos: [0, 1, 2, 4, 5, 6], weight: 60, name: everyone, inner: strict, rate: 1.5G, burst: 64KB}
      - {pg: 1, cos: [3], weight: 40}
      - {pg: 15, cos: [7], inner: drr}
    queues:
      - {cos: 3, weight: 2, rate: 400M, burst: 32KB}
  - {name: lists, prio_tc: all:0 3:1 7:2, tc_tsa: 2:strict, tc_bw: {0: 60, 1: 40}}
qos:
  - name: roce
    trust: dscp
    pcp_to_cos: {1: 0}
    dscp_to_cos: 26:3 48:6
    cos_to_pcp: {6: 7}
    cos_to_dscp: {6: 48}
pfc:
  enabled: false
  prio_pfc: {3: on, 4: on}
  quanta: 1000
  refresh: 400
  asymmetric: true
watchdog:
  action: forward
  detection: 5s
  restoration: 100ms
forwarding:
  mode: bridge
  wires: []
  ageing: 2min
  table: 100
  static: [{mac: "02:00:00:00:00:2a", vlan: 201, port: sw0}, {mac: 04-00-00-00-00-01, port: sw2}]
  flood_queues: true
  loop_guard: shut
control:
  socket: /tmp/sluice.sock
  group: adm
  viewers: 100
metrics:
  listen: "[::1]:9000"
  web_config: tls/web.yaml
lldp:
  enabled: true
  interval: 5s
  hold: 10
  system_name: switch a
  system_description: a switch, ½ lossless
  management_address: 2001:db8::1
dcbx:
  tie: higher
  hold: 0s
  applications:
    - {protocol: fcoe, priority: 3}
    - {ethertype: 0x8914, priority: 4}
    - {ethertype: 35095, priority: 5}
    - {tcp: 3260, priority: 4}
    - {udp: 4791, priority: 3}
    - {port: 860, priority: 4}
    - {dscp: 0, priority: 0}
fcoe:
  instances:
    - {name: a, vlan: 250, fc_map: 0EFC1d, fcfs: [00-11-22-33-44-55], age_multiplier: 3.7, spma: true}
  max_fcfs: 2
  max_enodes: 100
  max_sessions: 200
  max_pending: 50
ports:
  - device: sw0
    speed: 2.5G
    link_speed: 10G
    mtu: 3690
    peer_mtu: 2158
    link: trunk
    vlans: [100, 200-299]
    pvid: 200
    s_tag: pcp
    mac_limit: 50
    storm: {broadcast: 1000, multicast: 2000, unknown: 3000}
    ets: ets1
    qos: roce
    flow_control: pause
    cable: 1.5km
    medium: copper
    response: 50us
    in_flight: 32KB
    mode: zero-copy
    tx: xsk
    busy_poll: true
    worker: 1
    default_cos: 5
    lldp: rxtx
    dcbx: {version: cee, role: upstream, willing: [app]}
    fcoe: {role: trusted, enodes: [2000.1b21.d9d5.7001, 00-1b-21-d9-d5-71], max_enodes: 7, max_sessions: 8,
      max_pending: 9}
  - {device: sw1, speed: 500M, mode: copy, tx: resident, link: access, pvid: 7, lldp: tx, fcoe: {role: vnp}}
  - {device: sw2, speed: 400G, dcbx: {version: auto, role: upstream}, vlans: [1-249, 251-4094]}
  - {device: sw3, speed: 0.1G, vlans: [1-249, 251-4094], fcoe: {role: trusted}}
`

// The profiles of everything.
var (
	ets1 = ETSProfile{
		Name: "ets1",
		Groups: []PriorityGroup{
			{PG: 0, Name: "everyone", CoS: []int{0, 1, 2, 4, 5, 6}, Weight: 60, Inner: InnerStrict, Rate: 15e8,
				Burst: 64e3},
			{PG: 1, Name: "pg1", CoS: []int{3}, Weight: 40, Inner: InnerDRR},
			{PG: 15, Name: "pg15", CoS: []int{7}, Inner: InnerDRR},
		},
		Queues: []ETSQueue{{CoS: 3, Weight: 2, Rate: 4e8, Burst: 32e3}},
	}
	lists = ETSProfile{
		Name: "lists",
		Groups: []PriorityGroup{
			{PG: 0, Name: "pg0", CoS: []int{0, 1, 2, 4, 5, 6}, Weight: 60, Inner: InnerDRR},
			{PG: 1, Name: "pg1", CoS: []int{3}, Weight: 40, Inner: InnerDRR},
			{PG: 15, Name: "pg15", CoS: []int{7}, Inner: InnerStrict},
		},
		Queues: []ETSQueue{},
	}
)

// The FIP snooping of everything.
var enodes = []ENode{{WWPN: [8]byte{0x20, 0, 0x1b, 0x21, 0xd9, 0xd5, 0x70, 1}},
	{MAC: MAC{0, 0x1b, 0x21, 0xd9, 0xd5, 0x71}}}

var fcoe = FCoE{MaxFCFs: 2, MaxENodes: 100, MaxSessions: 200, MaxPending: 50, Instances: []FCoEInstance{
	{Name: "a", VLAN: 250, FCMap: 0x0efc1d, FCFs: []MAC{{0, 0x11, 0x22, 0x33, 0x44, 0x55}}, AgeMultiplier: 3.7,
		SPMA: true},
}}

// The LLDP and DCBX of everything.
var (
	lldp = LLDP{
		Enabled: true, Interval: 5 * time.Second, Hold: 10, SystemName: "switch a",
		SystemDescription: "a switch, ½ lossless", Management: netip.MustParseAddr("2001:db8::1"),
	}
	dcbx = DCBX{Tie: HigherGivesWay, Applications: []Application{
		{Selector: 1, Protocol: 0x8906, Priority: 3}, {Selector: 1, Protocol: 0x8914, Priority: 4},
		{Selector: 1, Protocol: 35095, Priority: 5}, {Selector: 2, Protocol: 3260, Priority: 4},
		{Selector: 3, Protocol: 4791, Priority: 3}, {Selector: 4, Protocol: 860, Priority: 4}, {Selector: 5},
	}}
)

// roceDomain is the QoS domain of everything.
func roceDomain() QoSDomain {
	qos := QoSDomain{
		Name: "roce", Trust: TrustDSCP, PCPToCoS: []int{0, 0, 2, 3, 4, 5, 6, 7}, DSCPToCoS: nothing(64),
		CoSToPCP: []int{0, 1, 2, 3, 4, 5, 7, 7}, CoSToDSCP: nothing(8),
	}
	qos.DSCPToCoS[26], qos.DSCPToCoS[48], qos.CoSToDSCP[6] = 3, 6, 48
	return qos
}

func TestEveryKey(t *testing.T) {
	qos := roceDomain()
	port := Port{ // what all ports but the first have in common
		MTU: 1500, PeerMTU: 1500, Link: Transparent, VLANs: []VLANRange{{1, 249}, {251, 4094}}, PVID: 1, STag: STagDrop,
		FCoE:        PortFCoE{Role: FCoEENode, ENodes: []ENode{}, MaxENodes: 64, MaxSessions: 200, MaxPending: 50},
		FlowControl: FlowOff, LLDP: LLDPBoth, DCBX: PortDCBX{Version: DCBXOff, Role: Manual}, PFC: 0x18, kept: 0x18,
		Metres: 100, Medium: headroom.Fibre, Response: time.Millisecond, InFlight: 64e3, TX: TXAuto,
		ETSName: "default", QoSName: "default", ETS: &builtInETS, QoS: &builtInQoS, Peer: -1, Refresh: 400,
	}
	sw1, sw2, sw3 := port, port, port
	sw1.Device, sw1.Speed, sw1.Mode, sw1.TX, sw1.Worker, sw1.Link = "sw1", 5e8, Copy, TXTransmitter, 1, Access
	sw1.VLANs, sw1.PVID, sw1.LinkSpeed = []VLANRange{{7, 7}}, 7, 5e8
	sw2.Device, sw2.Speed, sw2.InFlight, sw2.Mode, sw2.Worker = "sw2", 400e9, 2_500_000, Auto, 0
	sw2.LinkSpeed, sw3.LinkSpeed = 400e9, 1e8
	sw3.Device, sw3.Speed, sw3.Mode, sw3.Worker = "sw3", 1e8, Auto, 1
	sw1.LLDP, sw1.FCoE.Role = LLDPTransmit, FCoEFCF
	sw3.FCoE = PortFCoE{Role: FCoETrusted, ENodes: []ENode{}, MaxENodes: 100, MaxSessions: 200, MaxPending: 50}
	sw2.DCBX = PortDCBX{Version: DCBXAuto, Role: Upstream, Willing: []DCBXFeature{FeatureETS, FeatureApp}}
	want := Config{
		Workers: []int{4, 6},
		Memory: Memory{
			Buffers: 131072, BufferSize: 4096, Profile: Nexus2000, Cell: 160, PortBuffer: 4e6, LosslessPool: 60,
			HeadroomRatio: 1.5,
		},
		Transmitter: Transmitter{CPU: 5, Ring: 512},
		Classes: []Class{
			{Name: "storage", CoS: []int{3, 4}, Lossless: true, Reserved: 64e3, Share: 5e6, Headroom: 15e5,
				XON: 1 << 20, XONOffset: 2e6},
			{Name: "cos7", CoS: []int{7}, Reserved: 16384, Share: 4e6, QueueLimit: 65536,
				WRED: WRED{16384, 32768, 25, 9}, ECN: true},
			{Name: "cos0", CoS: []int{0}, Reserved: 16384, Alpha: 32, QueueAlpha: 1024},
			{Name: "cos1,2,5,6", CoS: []int{1, 2, 5, 6}, Reserved: 16384, Share: 4e6, QueueLimit: 1e6},
		},
		ETS:      []ETSProfile{ets1, lists, builtInETS},
		QoS:      []QoSDomain{qos, builtInQoS},
		PFC:      PFC{Enabled: false, Quanta: 1000, Refresh: 400, Asymmetric: true},
		Watchdog: Watchdog{Action: WatchdogForward, Detection: 5 * time.Second, Restoration: 100 * time.Millisecond},
		Forwarding: Forwarding{
			Mode: Bridge, Wires: []Wire{}, Ageing: 2 * time.Minute, Table: 100,
			Static:      []StaticEntry{{MAC{2, 0, 0, 0, 0, 42}, 201, "sw0", 0}, {MAC{4, 0, 0, 0, 0, 1}, 1, "sw2", 2}},
			FloodQueues: true, LoopGuard: LoopShut,
		},
		Control: Control{Socket: "/tmp/sluice.sock", Group: "adm", Viewers: "100"},
		Metrics: Metrics{Listen: "[::1]:9000", WebConfig: "tls/web.yaml"},
		LLDP:    lldp,
		DCBX:    dcbx,
		FCoE:    fcoe,
		Ports: []Port{{
			Device: "sw0", Speed: 25e8, LinkSpeed: 10e9, MTU: 3690, PeerMTU: 2158, Link: Trunk,
			VLANs: []VLANRange{{100, 100}, {200, 299}}, PVID: 200,
			STag: STagPCP, MACLimit: 50, Storm: Storm{1000, 2000, 3000}, ETSName: "ets1", QoSName: "roce", ETS: &ets1,
			QoS:         &qos,
			FlowControl: FlowOff, // PFC is not enabled
			Metres:      1500, Medium: headroom.Copper, Response: 50 * time.Microsecond,
			InFlight: 32e3, Mode: ZeroCopy, TX: TXSocket, BusyPoll: true, Worker: 1, DefaultCoS: 5, Peer: -1,
			Refresh: 400, LLDP: LLDPBoth, PFC: 0x18, kept: 0x18,
			DCBX: PortDCBX{Version: DCBXCEE, Role: Upstream, Willing: []DCBXFeature{FeatureApp}},
			FCoE: PortFCoE{Role: FCoETrusted, ENodes: enodes, MaxENodes: 7, MaxSessions: 8, MaxPending: 9},
		}, sw1, sw2, sw3},
	}
	got := values(mustParse(t, everything))
	for i := range got.Ports {
		got.Ports[i].Headroom, got.Ports[i].Parts = 0, 0 // checked by TestHeadroomOfALink and TestParts
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	checkKeys(t, "the test", everything)
}

// checkKeys fails the test if a file lacks a key.
func checkKeys(t *testing.T, who, text string) {
	t.Helper()
	has := make(map[string]bool)
	addPaths(has, "", schema.Node(text))
	for _, path := range keyPaths("", mapping("the file", fileKeys).schema) {
		if !has[path] {
			t.Errorf("%s does not have the key %s", who, path)
		}
	}
}

// TestJSON: the JSON of a Config has every key that it sets, except those that are only another way
// to write other keys.
func TestJSON(t *testing.T) {
	c := mustParse(t, everything)
	checkJSON(t, c)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	has := make(map[string]bool)
	addPaths(has, "", schema.Node(string(text)))
	others := []string{"pfc.prio_pfc", "ets.prio_tc", "ets.tc_tsa", "ets.tc_bw", "dcbx.applications.protocol"}
	for _, path := range keyPaths("", mapping("the file", fileKeys).schema) {
		if has[path] == slices.Contains(others, path) {
			t.Errorf("%s: %v\nin:\n%s", path, has[path], text)
		}
	}
	for _, want := range []string{`{"alpha":"1/4","cos":[0],"ecn":false,`, `"buffer_size":"4KiB",`,
		`"cable":"1500m",`, `{"port":860,"priority":4}`, `"fcfs":["00:11:22:33:44:55"]`, `"fc_map":"0EFC1D"`,
		`"enodes":["20:00:1b:21:d9:d5:70:01","00:1b:21:d9:d5:71"]`, `"rate":"1.5G"`, `"mac_limit":"none"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

// addPaths records which keys a node has, each with the path of mappings that leads to it.
func addPaths(paths map[string]bool, path string, n *yaml.Node) {
	for i, content := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			addPaths(paths, path, content)
		case i%2 == 0:
			paths[path+content.Value] = true
		default:
			addPaths(paths, path+n.Content[i-1].Value+".", content)
		}
	}
}

// keyPaths returns all keys of a mapping and of the mappings in it, in the same form.
func keyPaths(path string, of *schema.Schema) (paths []string) {
	for _, key := range of.Properties {
		paths = append(paths, path+key.Name)
		if inner, _ := key.Mapping(""); inner != nil {
			paths = append(paths, keyPaths(path+key.Name+".", inner)...)
		}
	}
	return paths
}

func TestWires(t *testing.T) {
	c := mustParse(t, `
forwarding: {mode: wire, wires: [[sw2, sw0], [sw1, sw3]]}
ports: [{device: sw0, speed: 1G}, {device: sw1, speed: 1G}, {device: sw2, speed: 1G}, {device: sw3, speed: 1G}]
`)
	if f := c.Forwarding; f.Mode != WirePairs || f.LoopGuard != LoopOff ||
		!slices.Equal(f.Wires, []Wire{{"sw2", "sw0"}, {"sw1", "sw3"}}) {
		t.Errorf("%+v", f)
	}
	for i, peer := range []int{2, 3, 0, 1} {
		if c.Ports[i].Peer != peer {
			t.Errorf("the peer of port %d is %d, want %d", i, c.Ports[i].Peer, peer)
		}
	}
}

func TestClass(t *testing.T) {
	c := mustParse(t, everything)
	for cos, name := range []string{"cos0", "cos1,2,5,6", "cos1,2,5,6", "storage", "storage", "cos1,2,5,6",
		"cos1,2,5,6", "cos7"} {
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

// Each file of testdata/bad ends with its expected messages, as comments.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 100 {
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
	c := mustParse(t, "# comment\nclasses:\n  - cos: [3]\nports:\n  - device: sw0\n    speed: 10G\n  - {speed: 1G, "+
		"device: sw1}\n")
	for _, p := range []struct {
		value any
		want  string
	}{
		{&c.Ports[0].Device, "test.yaml:5:13: p: r"},
		{&c.Ports[1].Device, "test.yaml:7:25: p: r"},
		{&c.Ports[1], "test.yaml:7:5: p: r"},
		{&c.Ports[0].Worker, "test.yaml:5:5: p: r"}, // a default: its mapping
		{&c.Memory.Buffers, "test.yaml:2:1: p: r"},  // the default of a missing mapping: the mapping that lacks it
		{&c.Classes[0].CoS[0], "test.yaml:3:11: p: r"},
		{&c.Classes[1].Headroom, "test.yaml:3:3: p: r"}, // the class of the CoS values that are not listed
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

// TestPositions: an error is where an editor has its cursor: columns are characters, whatever comes
// before them, and words of a list have their own positions.
func TestPositions(t *testing.T) {
	for name, test := range map[string]struct{ text, at string }{
		"first":                         {"worker: 1\n", "1:1"},
		"behind a byte order mark":      {"\ufeffworker: 1\n", "1:1"},
		"further behind one":            {"\ufeffworkers: [x]\n", "1:11"},
		"a word of a list behind one":   {"\ufeffpfc: {prio_pfc: all:off 3:yes}", "1:27"},
		"lines that end in CR LF":       {"# a\r\nworkers:\r\n  - x\r\n", "3:5"},
		"behind characters of 2 bytes":  {`metrics: {web_config: "ééé", listen: x}`, "1:38"},
		"behind characters of 4 bytes":  {`metrics: {web_config: "𝄞𝄞𝄞", listen: x}`, "1:38"},
		"a syntax error behind some":    {"metrics: {web_config: \"𝄞𝄞𝄞\", listen: ]}", "1:38"},
		"a word of a list":              {"pfc: {prio_pfc: all:off 3:yes}", "1:27"},
		"in quotes":                     {`pfc: {prio_pfc: 'all:off 3:yes'}`, "1:28"},
		"behind characters of 2 in one": {`pfc: {prio_pfc: "é  x"}`, "1:18"},
		"a key of 2-byte characters":    {`pfc: {prio_pfc: "3:on éé:on"}`, "1:23"},
		"the second of two":             {"pfc: {prio_pfc: 3:on 3:on}", "1:22"},
		"a list of several lines":       {"pfc:\n  prio_pfc: all:off\n    3:on\n    9:on\n", "4:5"},
		"a block":                       {"pfc:\n  prio_pfc: |\n    all:off 3:on\n    4:yes\n", "4:7"},
		"a folded block":                {"pfc:\n  prio_pfc: >-\n    all:off\n      3:maybe\n", "4:9"},
		"behind CR LF in a block":       {"pfc:\r\n  prio_pfc: |\r\n    all:off\r\n    4:yes\r\n", "4:7"},
		"with escapes":                  {`pfc: {prio_pfc: "\x39:\x6fn"}`, "1:17"},
	} {
		_, err := Parse("test.yaml", []byte(test.text))
		if err == nil || !strings.Contains("\n"+err.Error(), "\ntest.yaml:"+test.at+": ") {
			t.Errorf("%s: %v, want it at %s", name, err, test.at)
		}
	}
}

// TestStrict: YAML that other readers accept, but not this one.
func TestStrict(t *testing.T) {
	for name, text := range map[string]string{
		"a key with a tag":                     "!!str pfc: {}\n" + onePort,
		"a key with a tag of its own":          "!mine pfc: {}\n" + onePort,
		"an alias for all":                     "control: {group: &all adm}\npfc: {prio_pfc: {*all : on}}\n" + onePort,
		"a tag on all":                         "pfc: {prio_pfc: {!!str all: on}}\n" + onePort,
		"an alias as a key":                    "control: {group: &pfc adm}\n*pfc : {}\n" + onePort,
		"the root directory for a socket":      "control: {socket: /tmp/..}\n" + onePort,
		"a space of another kind":              "pfc: {prio_pfc: \"3:on\u00a04:on\"}\n" + onePort,
		"an infinite ratio":                    "memory: {headroom_ratio: .inf}\n" + onePort,
		"no ratio":                             "memory: {headroom_ratio: .nan}\n" + onePort,
		"an exponent":                          "memory: {buffers: 1e5}\n" + onePort,
		"hexadecimal":                          "memory: {buffers: 0x10000}\n" + onePort,
		"groups of digits":                     "memory: {buffers: 100_000}\n" + onePort,
		"more than 64 bits":                    "memory: {buffers: 18446744073709551617}\n" + onePort,
		"more than 64 bits of bytes":           "memory: {cell: 18446744073709551680B}\n" + onePort,
		"more than 64 bits of GiB":             "memory: {cell: 17179869184.00000007GiB}\n" + onePort,
		"bits for bytes":                       "memory: {buffer_size: 16Kb}\n" + onePort,
		"a small k":                            "memory: {buffer_size: 2kB}\n" + onePort,
		"digits of another script":             "memory: {buffer_size: ٢٠٤٨B}\n" + onePort,
		"a sign":                               "memory: {buffer_size: +2048B}\n" + onePort,
		"a tab for a space":                    "memory:\n\tbuffers: 32768\n" + onePort,
		"a list that has itself in it":         "ports: &a [*a]\n",
		"a merge that has itself in it":        "ports: &a\n  - &b {<<: *b}\n",
		"yes for true":                         "pfc: {enabled: yes}\n" + onePort,
		"a document behind the end of another": onePort + "...\nports: []\n",
	} {
		var all Errors
		if _, err := Parse("test.yaml", []byte(text)); !errors.As(err, &all) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestQuoteCutsCharacters: a text that is shown whole has no ellipsis.
func TestQuoteCutsCharacters(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("é", 40): `"` + strings.Repeat("é", 40) + `"`, strings.Repeat("é", 41): `"` +
			strings.Repeat("é", 40) + `"…`,
	} {
		if got := quote(text); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
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

// TestAtFault: AtFault is true only if every error is about the file.
func TestAtFault(t *testing.T) {
	_, file := Parse("test.yaml", []byte("workers: [-1]\n"))
	other := errors.New("a worker does not run")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":               {nil, false},
		"something else":        {other, false},
		"the file":              {file, true},
		"a line of it":          {&Error{}, true},
		"it, in other words":    {fmt.Errorf("reload: %w", file), true},
		"twice":                 {errors.Join(file, &Error{}), true},
		"it and something else": {errors.Join(file, other), false},
		"both in one sentence":  {fmt.Errorf("%w: %w", other, &Error{}), false},
		"both within another":   {fmt.Errorf("port1: %w", errors.Join(&Error{}, other)), false},
	} {
		if got := AtFault(c.err); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestLongTextIsCut(t *testing.T) {
	_, err := Parse("test.yaml", []byte(strings.Repeat("x", 5000)+": 1\n"+onePort))
	if n := len(err.Error()); n > 250 {
		t.Errorf("a message of %d characters", n)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sluice.yaml")
	if _, err := Load(file); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file) ||
		!strings.HasSuffix(err.Error(), "examples/") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), dir) ||
		!strings.HasSuffix(err.Error(), "name a file in this directory") {
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
	want := file + ":1:1: the file is too large: shorten it to at most 1048576 bytes"
	if _, err := Load(file); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
	}
}

// The example with every key says that it has them all and that most could be left out.
func TestBridgeExampleShowsTheDefaults(t *testing.T) {
	const file = "../../examples/bridge.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	checkKeys(t, file, string(text))
	example, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	plain := mustParse(t, `
workers: [1]
memory: {buffers: 98304, buffer_size: 4KiB, cell: 2KiB}
classes:
  - {cos: [3], name: storage, lossless: true, headroom: 33MB, xon: 2MB, xon_offset: 2MB}
  - {cos: [0, 1, 2, 4, 5], name: lan, alpha: 1/2, queue_alpha: 1}
  - {cos: [6, 7], name: control, wred: {min: 100KB, max: 400KB}, ecn: true}
ets:
  - name: default
    groups:
      - {pg: 0, name: lan, cos: [0, 1, 2, 4, 5], weight: 50}
      - {pg: 1, name: san, cos: [3], weight: 50}
      - {pg: 15, name: ipc, cos: [6, 7], rate: 2G, burst: 256KB}
    queues: [{cos: 5, weight: 2, rate: 1G, burst: 64KB}]
  - name: lists
    groups: [{pg: 0, cos: [0, 1, 2, 4, 5], weight: 50}, {pg: 1, cos: [3], weight: 50}, {pg: 15, cos: [6, 7]}]
forwarding: {static: [{mac: 02:00:00:00:00:01, port: sw0}]}
control: {group: adm, viewers: users}
lldp: {system_name: switch1, system_description: Rack 4}
dcbx:
  applications:
    - {protocol: fcoe, priority: 3}
    - {protocol: fip, priority: 3}
    - {tcp: 3260, priority: 4}
    - {udp: 4791, priority: 5}
    - {port: 860, priority: 4}
    - {dscp: 46, priority: 5}
fcoe: {instances: [{name: FSB, vlan: 2094}]}
ports:
  - {device: sw0, speed: 10G, mtu: 2158, dcbx: {role: upstream, willing: [ets, app]}}
  - {device: sw1, speed: 10G, vlans: [1-2093]}
  - {device: sw2, speed: 10G, vlans: [1-2093]}
  - {device: sw3, speed: 10G, mtu: 2158, ets: lists, fcoe: {role: fcf}}
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

// TestControlsFlow: a port does flow control if it pauses its peer, or honours its pauses, or may
// agree on that.
func TestControlsFlow(t *testing.T) {
	const lossless, asymmetric = "classes: [{cos: [3], lossless: true}]\n", "pfc: {asymmetric: true}\n"
	for _, test := range []struct {
		text, port string
		want       bool
	}{
		{"", "", false},
		{lossless, "", true},
		{lossless, ", flow_control: pause", true},
		{lossless, ", flow_control: off", false},
		{"lldp: {enabled: true}\n", ", flow_control: auto, dcbx: {version: auto}", true},
		{asymmetric, "", true},
		{asymmetric, ", flow_control: off", false},
		{lossless + "pfc: {enabled: false}\n", "", false},
	} {
		c := mustParse(t, test.text+"ports: [{device: sw0, speed: 1G"+test.port+"}]\n")
		p := &c.Ports[0]
		if got := p.Pauses(); got != (test.want && (p.PFC != 0 || p.FlowControl == FlowAuto)) {
			t.Errorf("%q, %q pauses its peer: %v", test.text, test.port, got)
		}
		if got := c.ControlsFlow(p); got != test.want {
			t.Errorf("%q, %q: %v", test.text, test.port, got)
		}
	}
}
