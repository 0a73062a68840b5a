package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"sluice/cells"
	"sluice/cells/headroom"
	"sluice/internal/text/prose"
)

// A Config that is written to a file is read as the same Config.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawConfig(t)
		text := write(&want)
		got, err := Parse("test.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v\nin:\n%s", err, text)
		}
		checkConfig(t, got)
		v := values(got)
		for i := range v.Ports {

			p := &v.Ports[i]
			p.Headroom, p.Parts, p.ControlAhead, p.PFC, p.kept = 0, 0, 0, 0, 0 // not in the file
		}
		if !reflect.DeepEqual(v, want) {
			t.Fatalf("got  %+v\nwant %+v\nin:\n%s", v, want, text)
		}
		checkJSON(t, got)
	})
}

// checkJSON checks that the keys of a Config in JSON have, read as those of a file, the values of
// the Config.
func checkJSON(t fataler, c *Config) {
	t.Helper()
	said, err := json.Marshal(c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	d := &decoder{source: source{at: make(map[any]position)}, unsound: make(map[any]bool)}
	again := new(Config)
	read(d, d.document(said), mapping("the file", fileKeys), "the file", again)
	checkApplications(d, &again.DCBX)
	var want, got any
	repeated, err := json.Marshal(again)
	if err != nil || len(d.errors) > 0 {
		t.Fatalf("%v, %v\nin:\n%s", err, d.errors, said)
	}
	if err := errors.Join(json.Unmarshal(said, &want), json.Unmarshal(repeated, &got)); err != nil {
		t.Fatalf("%v", err)
	}
	if !contains(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", repeated, said)
	}
}

// contains reports whether a JSON value has all that another one has. It may have the defaults of
// further keys, as those that have no effect are left out.
func contains(v, part any) bool {
	switch part := part.(type) {
	case map[string]any:
		of := v.(map[string]any)
		for key, value := range part {
			if !contains(of[key], value) {
				return false
			}
		}
		return true
	case []any:
		return slices.EqualFunc(v.([]any), part, contains)
	}
	return v == part
}

func drawConfig(t *rapid.T) Config {
	number := func(low, high int, label string) int { return rapid.IntRange(low, high).Draw(t, label) }
	between := func(low, high time.Duration, label string) time.Duration {
		return time.Duration(number(int(low), int(high), label))
	}
	c := Config{
		Workers: rapid.SliceOfNDistinct(rapid.IntRange(0, 100), 1, 4, rapid.ID).Draw(t, "workers"),
		Memory: Memory{
			Buffers: 1 << 24, BufferSize: 1 << number(11, 16, "buffer_size"),
			HeadroomRatio: float64(number(1000, 100000, "headroom_ratio")) / 1000,
			Profile:       rapid.SampledFrom([]MemoryProfile{Generic, Nexus5000, Nexus2000}).Draw(t, "profile"),
		},
		Transmitter: Transmitter{
			CPU: rapid.OneOf(rapid.Just(NoTransmitter), rapid.Just(WithWorker), rapid.IntRange(0, 4095)).Draw(t,
				"transmitter"), Ring: 1 << number(6, 15, "ring"),
		},
		PFC: PFC{
			Enabled: rapid.Bool().Draw(t, "enabled"), Quanta: uint16(number(2, 65535, "quanta")),
			Asymmetric: rapid.Bool().Draw(t, "asymmetric"),
		},
		Watchdog: Watchdog{
			Action: rapid.SampledFrom([]WatchdogAction{WatchdogAlert, WatchdogDrop, WatchdogForward,
				WatchdogOff}).Draw(t, "action"),
			Detection:   between(100*time.Millisecond, 5*time.Second, "detection"),
			Restoration: between(100*time.Millisecond, time.Minute, "restoration"),
		},
		Forwarding: Forwarding{
			Mode: Bridge, Wires: []Wire{}, Ageing: time.Duration(number(1e6, 1e15, "ageing")),
			Table:       number(8, 1<<20, "table"),
			FloodQueues: rapid.Bool().Draw(t, "flood_queues"),
			LoopGuard:   rapid.SampledFrom([]LoopGuard{LoopAlert, LoopShut, LoopOff}).Draw(t, "loop_guard"),
		},
		Control: Control{
			Socket: rapid.OneOf(rapid.Just(""), rapid.StringMatching(`/([a-z.]{0,9}[a-z]/){0,9}[a-z]{1,9}`)).Draw(t,
				"socket"),
			Group: rapid.StringMatching(`[a-z0-9_-]{1,32}`).Draw(t, "group"),
		},
	}
	c.Memory.Cell = number(64, min(c.Memory.BufferSize, 65535), "cell")
	cos := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "cos")
	lossless, lossy := false, false
	for n := 0; n < 8; {
		some := min(8-n, number(1, 8, "many"))
		class := drawClass(t, cos[n:n+some])
		lossless, lossy = lossless || class.Lossless, lossy || !class.Lossless
		c.Classes = append(c.Classes, class)
		n += some
	}
	if lossless && lossy {
		c.Memory.LosslessPool = number(0, 99, "lossless_pool")
	}
	for _, name := range profileNames {
		c.ETS = append(c.ETS, drawETS(t, name))
		c.QoS = append(c.QoS, drawQoS(t, name, &c))
	}
	for i := range number(1, 5, "ports") {
		c.Ports = append(c.Ports, drawPort(t, &c, i, lossless))
	}
	drawRefresh(t, &c, lossless)
	drawDCBX(t, &c)
	c.Forwarding.Static = drawStatic(t, c.Ports)
	drawFCoE(t, &c)
	c.Metrics.Listen = rapid.SampledFrom([]string{"", "127.0.0.1:9473", ":1", "[::]:65535"}).Draw(t, "listen")
	if !slices.ContainsFunc(c.Classes, func(class Class) bool { return class.Lossless && class.Headroom == 0 }) {
		// Enough for eight of the headrooms that drawClass draws.
		c.Memory.PortBuffer = rapid.OneOf(rapid.Just(0), rapid.IntRange(9e10, 1e11)).Draw(t, "port_buffer")
	}
	return c
}

func drawPort(t *rapid.T, c *Config, n int, lossless bool) Port {
	number := func(low, high int, label string) int { return rapid.IntRange(low, high).Draw(t, label) }
	first := number(1, 4094, "first")
	last := number(first, 4094, "last")
	sTag := rapid.SampledFrom([]STag{STagDrop, STagPCP}).Draw(t, "s_tag")
	overhead := FrameOverhead
	if sTag == STagPCP {
		overhead += 4
	}
	mtu := number(68, maxMTU, "mtu")
	if c.Memory.Cell > c.Memory.Part() {
		mtu = min(mtu, c.Memory.Whole()-overhead)
	}
	p := Port{
		STag:   sTag,
		Device: fmt.Sprint("sw", n), Speed: rapid.Uint64Range(1e3, 400e6).Draw(t, "speed") * 1e3, MTU: mtu,
		PeerMTU: number(68, mtu, "peer_mtu"),
		VLANs:   []VLANRange{{uint16(first), uint16(last)}}, PVID: uint16(number(first, last, "pvid")),
		FlowControl: FlowOff,
		Metres:      float64(number(0, 1e6, "mm")) / 1000,
		Medium:      rapid.SampledFrom([]headroom.Medium{headroom.Fibre, headroom.Copper}).Draw(t, "medium"),
		Response:    time.Duration(number(0, 1e4, "response")),
		InFlight:    number(2000, 64e3, "in_flight"), Mode: rapid.SampledFrom([]XDPMode{Auto, Copy, ZeroCopy}).Draw(t,
			"mode"),
		Worker: number(0, len(c.Workers)-1, "worker"), DefaultCoS: uint8(number(0, 7, "default_cos")), Peer: -1,
	}
	p.LinkSpeed = rapid.Uint64Range(p.Speed/1e3, 400e6).Draw(t, "link_speed") * 1e3
	senders := []TXEngine{TXAuto, TXSocket}
	if c.Transmitter.CPU >= 0 {
		senders = append(senders, TXTransmitter)
	}
	p.TX = rapid.SampledFrom(senders).Draw(t, "tx")
	p.MACLimit = number(0, c.Forwarding.Table, "mac_limit")
	p.Storm = Storm{number(0, 1e9, "broadcast"), number(0, 1e9, "multicast"), number(0, 1e9, "unknown")}
	if p.Link = rapid.SampledFrom([]Link{Transparent, Access, Trunk}).Draw(t, "link"); p.Link == Access {
		p.VLANs, p.STag = []VLANRange{{p.PVID, p.PVID}}, STagDrop
	}
	ets, qos := number(0, len(c.ETS)-1, "ets"), number(0, len(c.QoS)-1, "qos")
	p.ETS, p.ETSName, p.QoS, p.QoSName = &c.ETS[ets], c.ETS[ets].Name, &c.QoS[qos], c.QoS[qos].Name
	switch {
	case c.PFC.Enabled && lossless:
		p.FlowControl = rapid.SampledFrom([]FlowControl{FlowPFC, FlowPause, FlowOff}).Draw(t, "flow_control")
	case c.PFC.Enabled:
		p.FlowControl = rapid.SampledFrom([]FlowControl{FlowPFC, FlowOff}).Draw(t, "flow_control")
	}
	return p
}

// drawDCBX draws LLDP and DCBX. Some ports with PFC get FlowAuto.
func drawDCBX(t *rapid.T, c *Config) {
	name := rapid.StringMatching(`([a-z½][a-z ½]{0,30}[a-z½])?`)
	c.LLDP = LLDP{
		Enabled: rapid.Bool().Draw(t, "lldp"), Hold: rapid.IntRange(1, 100).Draw(t, "lldp hold"),
		Interval:   time.Duration(rapid.IntRange(1e9, 3600e9).Draw(t, "interval")),
		SystemName: name.Draw(t, "system_name"), SystemDescription: name.Draw(t, "system_description"),
		Management: rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::1")}).
			Draw(t, "management_address"),
	}
	c.DCBX = DCBX{
		Tie:          rapid.SampledFrom([]Tie{LowerGivesWay, HigherGivesWay}).Draw(t, "tie"),
		Hold:         time.Duration(rapid.IntRange(0, 3600e9).Draw(t, "dcbx hold")),
		Applications: []Application{},
	}
	for i, priority := range rapid.SliceOfN(rapid.Uint8Range(0, 7), 0, 10).Draw(t, "applications") {
		c.DCBX.Applications = append(c.DCBX.Applications,
			Application{Selector: uint8(1 + i%5), Protocol: uint16(0x600 + i), Priority: priority})
		if a := &c.DCBX.Applications[i]; a.Selector == 5 {
			a.Protocol = uint16(i)
		}
	}
	for i := range c.Ports {
		p := &c.Ports[i]
		p.LLDP = rapid.SampledFrom([]LLDPMode{LLDPBoth, LLDPTransmit, LLDPReceive, LLDPOff}).Draw(t, "lldp of a port")
		p.DCBX.Version = DCBXOff
		p.DCBX.Role = rapid.SampledFrom([]DCBXRole{Manual, Upstream, Downstream}).Draw(t, "role")
		if c.LLDP.Enabled && p.LLDP == LLDPBoth {
			p.DCBX.Version = rapid.SampledFrom([]DCBXVersion{DCBXOff, DCBXAuto, DCBXIEEE, DCBXCEE, DCBXCIN}).
				Draw(t, "version")
		}
		features := []DCBXFeature{FeatureETS, FeatureApp}
		if p.FlowControl == FlowPFC && p.DCBX.Version != DCBXOff && rapid.Bool().Draw(t, "auto") {
			p.FlowControl, features = FlowAuto, append(features, FeaturePFC)
		}
		if p.DCBX.Role == Upstream {
			order := rapid.Permutation(features).Draw(t, "willing")
			p.DCBX.Willing = order[:rapid.IntRange(0, len(order)).Draw(t, "features")]
		}
	}
}

// drawFCoE draws FIP snooping, for a Config in bridge mode whose VLANs are known.
func drawFCoE(t *rapid.T, c *Config) {
	limit := func(label string) int { return rapid.IntRange(1, maxFCoE).Draw(t, label) }
	c.FCoE = FCoE{MaxFCFs: rapid.IntRange(1, 1024).Draw(t, "max_fcfs"), MaxENodes: limit("max_enodes"),
		MaxSessions: limit("max_sessions"), MaxPending: limit("max_pending"), Instances: []FCoEInstance{}}
	vlans := make(map[uint16]bool)
	static := func(vlan uint16) bool {
		return slices.ContainsFunc(c.Forwarding.Static, func(s StaticEntry) bool { return s.VLAN == vlan })
	}
	for i := range c.Ports {
		p := &c.Ports[i]
		p.FCoE.Role = rapid.SampledFrom([]FCoERole{FCoEENode, FCoEFCF, FCoETrusted}).Draw(t, "role")
		p.FCoE.MaxENodes, p.FCoE.MaxSessions = min(portENodes, c.FCoE.MaxENodes), min(portSessions, c.FCoE.MaxSessions)
		p.FCoE.MaxPending = min(portPending, c.FCoE.MaxPending)
		p.FCoE.ENodes = []ENode{}
		if p.FCoE.Role != FCoEFCF {
			for i := range rapid.Byte().Draw(t, "enodes") % 3 {
				p.FCoE.ENodes = append(p.FCoE.ENodes, ENode{MAC: MAC{2, 0, 0, 0, 2, i}},
					ENode{WWPN: [8]byte{0x10 + i, 0, 2, 0, 0, 0, 2, i}})
			}
			p.FCoE.MaxENodes, p.FCoE.MaxSessions = limit("max_enodes of a port"), limit("max_sessions of a port")
			p.FCoE.MaxPending = limit("max_pending of a port")
		}
		vlan := p.VLANs[0].First
		short := func(p Port) bool { return p.Member(vlan) && min(p.MTU, p.PeerMTU) < FCoEMTU }
		if c.Memory.BufferSize > 2048 && !vlans[vlan] && !static(vlan) && !slices.ContainsFunc(c.Ports, short) &&
			rapid.Bool().Draw(t, "FCoE VLAN") {
			vlans[vlan] = true
			c.FCoE.Instances = append(c.FCoE.Instances, drawInstance(t, vlan))
		}
	}
}

func drawInstance(t *rapid.T, vlan uint16) FCoEInstance {
	in := FCoEInstance{Name: fmt.Sprint("fsb", vlan), VLAN: vlan, SPMA: rapid.Bool().Draw(t, "spma"),
		FCMap:         0x0efc00 + uint32(rapid.Byte().Draw(t, "fc_map")),
		AgeMultiplier: float64(rapid.IntRange(25, 50).Draw(t, "age_multiplier")) / 10, FCFs: []MAC{}}
	for i := range rapid.Byte().Draw(t, "fcfs") % 4 {
		in.FCFs = append(in.FCFs, MAC{2, 0, 0, 0, 1, i})
	}
	return in
}

// drawRefresh draws when pauses are repeated. Ports whose pauses are too short for that get no flow
// control.
func drawRefresh(t *rapid.T, c *Config, lossless bool) {
	latest := int(c.PFC.Quanta) - 1
	for i := range c.Ports {
		p := &c.Ports[i]
		if p.FlowControl == FlowOff || !lossless {
			continue
		}
		p.kept = losslessCoS(c)
		p.ControlAhead = p.controlAhead()
		if n := p.LatestRefresh(c.PFC.Quanta, p.Response); n >= 1 {
			latest = min(latest, n)
		} else {
			p.FlowControl = FlowOff
		}
	}
	c.PFC.Refresh = uint16(rapid.IntRange(1, latest).Draw(t, "refresh"))
	for i := range c.Ports {
		c.Ports[i].Refresh, c.Ports[i].ControlAhead, c.Ports[i].kept = c.PFC.Refresh, 0, 0
	}
}

func drawClass(t *rapid.T, cos []int) Class {
	number := func(low, high int, label string) int { return rapid.IntRange(low, high).Draw(t, label) }
	alpha := func(label string) int { return 1 << number(0, 10, label) }
	c := Class{
		Name: fmt.Sprint("class", cos[0]), CoS: cos,
		Lossless: rapid.Bool().Draw(t, "lossless"),
		Reserved: number(1, 1e6, "reserved"),
	}
	most := int(1e11) // maximum for marks
	if rapid.Bool().Draw(t, "dynamic") {
		c.Alpha = alpha("alpha")
	} else {
		c.Share = number(64, 1e11, "share")
		most = c.Share
	}
	switch {
	case c.Lossless:
		c.XON, c.XONOffset = number(0, most, "xon"), number(64, most, "xon_offset")
		// At 400G with a cable of 10 km a port needs 5 GB if each frame of 64 bytes takes a cell of
		// 65535.
		c.Headroom = rapid.OneOf(rapid.Just(0), rapid.IntRange(5e9, 1e10)).Draw(t, "headroom")
	case rapid.Bool().Draw(t, "dynamic queue"):
		c.QueueAlpha = alpha("queue_alpha")
	default:
		c.QueueLimit = number(2000, 1e11, "queue_limit")
	}
	if c.ECN = rapid.Bool().Draw(t, "ecn"); c.ECN || !c.Lossless && rapid.Bool().Draw(t, "wred") {
		longest := 8_000_000_000
		if c.QueueLimit > 0 {
			longest = min(longest, c.QueueLimit)
		}
		c.WRED.Max = number(65, longest, "max")
		c.WRED.Min, c.WRED.Probability = number(64, c.WRED.Max-1, "min"), number(1, 100, "probability")
		c.WRED.Smoothing = number(0, 16, "smoothing")
	}
	return c
}

// write returns a file for a Config in bridge mode.
func write(c *Config) string {
	var b strings.Builder
	m := c.Memory
	fmt.Fprintf(&b, "workers: %s\n", writeList(c.Workers))
	fmt.Fprintf(&b, "memory: {buffers: %d, buffer_size: %dB, profile: %s, cell: %dB, headroom_ratio: %g",
		m.Buffers, m.BufferSize, m.Profile, m.Cell, m.HeadroomRatio)
	if m.PortBuffer > 0 {
		fmt.Fprintf(&b, ", port_buffer: %dB", m.PortBuffer)
	} else {
		b.WriteString(", port_buffer: none")
	}
	if m.LosslessPool > 0 {
		fmt.Fprintf(&b, ", lossless_pool: %d%%", m.LosslessPool)
	}
	x := c.Transmitter
	fmt.Fprintf(&b, "}\ntransmitter: {cpu: %v, ring: %d", writeCPU(x.CPU), x.Ring)
	fmt.Fprintf(&b, "}\npfc: {enabled: %v, quanta: %d, refresh: %d, asymmetric: %v}\n", c.PFC.Enabled, c.PFC.Quanta,
		c.PFC.Refresh, c.PFC.Asymmetric)
	fmt.Fprintf(&b, "watchdog: {action: %s, detection: %dns, restoration: %dns}\n", c.Watchdog.Action,
		c.Watchdog.Detection, c.Watchdog.Restoration)
	fmt.Fprintf(&b,
		"forwarding: {mode: %s, wires: [], ageing: %dns, table: %d, flood_queues: %v, loop_guard: %s, static: [",
		c.Forwarding.Mode, c.Forwarding.Ageing, c.Forwarding.Table, c.Forwarding.FloodQueues,
		c.Forwarding.LoopGuard)
	for _, s := range c.Forwarding.Static {
		fmt.Fprintf(&b, "{mac: %q, vlan: %d, port: %s}, ", s.MAC, s.VLAN, s.Device)
	}
	b.WriteString("]}\n")
	socket := c.Control.Socket
	if socket == "" {
		socket = "none"
	}
	fmt.Fprintf(&b, "control: {socket: %s, group: %q}\n", socket, c.Control.Group)
	if c.Metrics.Listen == "" {
		b.WriteString("metrics: {listen: none}\n")
	} else {
		fmt.Fprintf(&b, "metrics: {listen: %q}\n", c.Metrics.Listen)
	}
	b.WriteString("ets:\n")
	for i := range c.ETS {
		writeETS(&b, &c.ETS[i])
	}
	b.WriteString("qos:\n")
	for i := range c.QoS {
		writeQoS(&b, &c.QoS[i])
	}
	b.WriteString("classes:\n")
	for i := range c.Classes {
		writeClass(&b, &c.Classes[i])
	}
	writeDCBX(&b, c)
	writeFCoE(&b, &c.FCoE)
	b.WriteString("ports:\n")
	for i := range c.Ports {
		writePort(&b, &c.Ports[i])
	}
	return b.String()
}

func writePort(b *strings.Builder, p *Port) {
	fmt.Fprintf(b, "- {device: %s, speed: %dK, link_speed: %dK, mtu: %d, peer_mtu: %d, vlans: [%d-%d], pvid: "+
		"%d, in_flight: %dB, mode: %s, worker: %d, default_cos: %d",
		p.Device, p.Speed/1000, p.LinkSpeed/1000, p.MTU, p.PeerMTU, p.VLANs[0].First, p.VLANs[0].Last, p.PVID,
		p.InFlight, p.Mode, p.Worker, p.DefaultCoS)
	fmt.Fprintf(b,
		", link: %s, mac_limit: %s, ets: %s, qos: %s, storm: {broadcast: %s, multicast: %s, unknown: %s}", p.Link,
		orNoneText(p.MACLimit), p.ETSName, p.QoSName, orNoneText(p.Storm.Broadcast), orNoneText(p.Storm.Multicast),
		orNoneText(p.Storm.Unknown))
	fmt.Fprintf(b, ", flow_control: %s, cable: %.3fm, medium: %s, response: %dns, tx: %s, s_tag: %s",
		p.FlowControl, p.Metres, p.Medium, p.Response, p.TX, p.STag)
	fmt.Fprintf(b, ", lldp: %s, dcbx: {version: %s, role: %s", p.LLDP, p.DCBX.Version, p.DCBX.Role)
	if p.DCBX.Role == Upstream {
		fmt.Fprintf(b, ", willing: [%s]", prose.Join(p.DCBX.Willing, ", "))
	}
	fmt.Fprintf(b, "}, fcoe: {role: %s", p.FCoE.Role)
	if p.FCoE.Role != FCoEFCF {
		fmt.Fprintf(b, ", max_enodes: %d, max_sessions: %d, max_pending: %d, enodes: [", p.FCoE.MaxENodes,
			p.FCoE.MaxSessions, p.FCoE.MaxPending)
		for _, e := range p.FCoE.ENodes {
			fmt.Fprintf(b, "%q, ", e.String())
		}
		b.WriteString("]")
	}
	b.WriteString("}}\n")
}

func writeDCBX(b *strings.Builder, c *Config) {
	l := &c.LLDP
	fmt.Fprintf(b, "lldp: {enabled: %v, interval: %dns, hold: %d", l.Enabled, l.Interval, l.Hold)
	if l.SystemName != "" {
		fmt.Fprintf(b, ", system_name: %q", l.SystemName)
	}
	if l.SystemDescription != "" {
		fmt.Fprintf(b, ", system_description: %q", l.SystemDescription)
	}
	if l.Management.IsValid() {
		fmt.Fprintf(b, ", management_address: %q", l.Management)
	}
	fmt.Fprintf(b, "}\ndcbx: {tie: %s, hold: %dns, applications: [", c.DCBX.Tie, c.DCBX.Hold)
	for _, a := range c.DCBX.Applications {
		key := [...]string{"ethertype", "tcp", "udp", "port", "dscp"}[a.Selector-1]
		fmt.Fprintf(b, "{%s: %d, priority: %d}, ", key, a.Protocol, a.Priority)
	}
	b.WriteString("]}\n")
}

func writeFCoE(b *strings.Builder, f *FCoE) {
	fmt.Fprintf(b, "fcoe: {max_fcfs: %d, max_enodes: %d, max_sessions: %d, max_pending: %d, instances: [", f.MaxFCFs,
		f.MaxENodes, f.MaxSessions, f.MaxPending)
	for _, in := range f.Instances {
		fmt.Fprintf(b, "{name: %s, vlan: %d, fc_map: %06x, age_multiplier: %g, spma: %v, fcfs: [", in.Name, in.VLAN,
			in.FCMap, in.AgeMultiplier, in.SPMA)
		for _, fcf := range in.FCFs {
			fmt.Fprintf(b, "%q, ", fcf)
		}
		b.WriteString("]}, ")
	}
	b.WriteString("]}\n")
}

func writeCPU(cpu int) any {
	switch cpu {
	case NoTransmitter:
		return "none"
	case WithWorker:
		return "worker"
	}
	return cpu
}

func writeList(numbers []int) string { return strings.ReplaceAll(fmt.Sprint(numbers), " ", ", ") }

func writeClass(b *strings.Builder, c *Class) {
	fmt.Fprintf(b, "- {cos: %s, name: %s, lossless: %v, reserved: %dB, ecn: %v", writeList(c.CoS), c.Name, c.Lossless,
		c.Reserved, c.ECN)
	if c.WRED.Max > 0 {
		fmt.Fprintf(b, ", wred: {min: %dB, max: %dB, probability: %d%%, smoothing: %d}", c.WRED.Min, c.WRED.Max,
			c.WRED.Probability, c.WRED.Smoothing)
	}
	alpha := func(value int) string {
		if value < cells.AlphaUnit {
			return fmt.Sprintf("1/%d", cells.AlphaUnit/value)
		}
		return fmt.Sprint(value / cells.AlphaUnit)
	}
	if c.Alpha > 0 {
		fmt.Fprintf(b, ", alpha: %s", alpha(c.Alpha))
	} else {
		fmt.Fprintf(b, ", share: %dB", c.Share)
	}
	if c.Headroom > 0 {
		fmt.Fprintf(b, ", headroom: %dB", c.Headroom)
	}
	switch {
	case c.Lossless:
		fmt.Fprintf(b, ", xon: %dB, xon_offset: %dB}\n", c.XON, c.XONOffset)
	case c.QueueAlpha > 0:
		fmt.Fprintf(b, ", queue_alpha: %s}\n", alpha(c.QueueAlpha))
	default:
		fmt.Fprintf(b, ", queue_limit: %dB}\n", c.QueueLimit)
	}
}

// FuzzParse: any file gives either a Config that keeps all promises, or errors with a fix.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "../../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(everything))
	for _, start := range []string{"%YAML 1.2\n---\n", "# \u2028", "# \u0085", "# \r",
		"control: {socket: \"/a\\nb\"}\n"} {
		f.Add([]byte(start + onePort))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err != nil {
			checkErrors(t, err.(Errors), data)
			return
		}
		if bad := bytes.IndexFunc(bytes.ReplaceAll(data, []byte("\r\n"), nil), ends); bad >= 0 {
			t.Fatalf("%q is accepted, with a line that not every reader ends at %d", data, bad)
		}
		checkConfig(t, c)
	})
}

// ends reports whether only some readers of YAML end a line at a character.
func ends(r rune) bool { return strings.ContainsRune("\r\v\f\u0085\u2028\u2029", r) }

func checkErrors(t fataler, errs Errors, data []byte) {
	lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
	for i, e := range errs {
		if e.Line < 1 || e.Column < 1 || e.File != "f" || e.Problem == "" || e.Remedy == "" {
			t.Fatalf("%+v", e)
		}
		if e.Line > lines+1 && lines > 1 {
			t.Fatalf("%v in a file of %d lines", e, lines)
		}
		if strings.ContainsAny(e.Error(), "\n\r") {
			t.Fatalf("%q is more than one line", e)
		}
		if i > 0 && (e.Line < errs[i-1].Line || e.Line == errs[i-1].Line && e.Column < errs[i-1].Column) {
			t.Fatalf("%v after %v", e, errs[i-1])
		}
	}
	if len(errs) == 0 {
		t.Fatalf("errors without an error")
	}
}

func checkConfig(t fataler, c *Config) {
	t.Helper()
	is := func(ok bool, what string) {
		if !ok {
			t.Fatalf("%s is not kept by %+v", what, values(c))
		}
	}
	m := c.Memory
	is(m.BufferSize&(m.BufferSize-1) == 0 && m.Cell <= m.BufferSize, "the geometry of buffers")
	is(len(c.FCoE.Instances) == 0 || m.Whole() >= FCoEMTU+FrameOverhead, "buffers for FIP frames")
	is(c.PFC.Refresh > 0 && c.PFC.Refresh < c.PFC.Quanta, "refresh in time")
	is(m.HeadroomRatio >= 1 && m.HeadroomRatio <= 100 && m.LosslessPool >= 0 &&
		m.LosslessPool < 100, "division of the memory")
	is(c.Watchdog.Action != "" && c.Watchdog.Detection > 0 && c.Watchdog.Restoration > 0, "a watchdog")
	x := c.Transmitter
	is(x.Ring&(x.Ring-1) == 0 && x.Ring >= 64, "a ring of a power of two")
	var ofCoS [8]int
	for _, class := range c.Classes {
		for _, cos := range class.CoS {
			ofCoS[cos]++
		}
		is(class.Name != "", "a name")
		is(class.WRED.Max == 0 && !class.ECN || class.WRED.Min < class.WRED.Max && (class.ECN || !class.Lossless),
			"WRED")
		is(class.Lossless || class.Headroom+class.XON+class.XONOffset == 0, "no marks of lossy classes")
		limits := 0
		for _, limit := range []int{class.QueueLimit, class.QueueAlpha} {
			if limit > 0 {
				limits++
			}
		}
		is(class.Lossless && limits == 0 || !class.Lossless && limits == 1, "one queue limit, of lossy classes")
		is(class.Alpha > 0 && class.Share == 0 || class.Alpha == 0 && class.XON <= class.Share &&
			class.Reserved+class.Share > 0, "room")
	}
	is(ofCoS == [8]int{1, 1, 1, 1, 1, 1, 1, 1}, "one class per CoS")
	seen := map[string]bool{}
	for i, p := range c.Ports {
		is(!seen[p.Device] && p.Device != "", "one port per device")
		seen[p.Device] = true
		checkPort(is, c, i)
	}
	is(len(c.Ports) > 0, "at least one port")
	is(!strings.ContainsFunc(c.Control.Socket+c.Metrics.WebConfig, unicode.IsControl), "paths of one line")
	for i := range c.FCoE.Instances {
		in := &c.FCoE.Instances[i]
		is(in.Name != "" && in.FCMap>>8 == 0x0efc && in.AgeTenths() >= 25 && in.AgeTenths() <= 50 &&
			c.Forwarding.Mode == Bridge, "an instance of FIP snooping")
		is(slices.ContainsFunc(c.Ports, func(p Port) bool { return p.Member(in.VLAN) }), "a port in each FCoE VLAN")
	}
	for _, s := range c.Forwarding.Static {
		is(c.Forwarding.Mode == Bridge && s.MAC[0]&1 == 0 && c.Ports[s.Port].Device == s.Device &&
			c.Ports[s.Port].Member(s.VLAN), "static entries")
	}
}

// checkPort checks the port at an index of a configuration.
func checkPort(is func(bool, string), c *Config, i int) {
	p, m := &c.Ports[i], c.Memory
	buffers := 1
	if p.MaxFrame() > m.Whole() {
		buffers = ceil(p.MaxFrame(), m.Part())
	}
	is(p.Parts == buffers, "the number of buffers that a frame occupies")
	is(p.Parts == 1 || m.Cell <= m.Part(), "a cell for each buffer of a frame")
	is(p.MTU >= 68 && p.MTU <= 9500, "an MTU that NICs have")
	is(p.PeerMTU >= 68 && p.PeerMTU <= p.MTU, "peer's frames that fit")
	is(p.Headroom%m.Cell == 0 && p.Headroom >= m.Cell, "headroom in cells")
	is(p.FlowControl != FlowOff || p.Headroom == m.Cell, "no more headroom than a cell where nobody is paused")
	is((p.FlowControl == FlowOff || c.PFC.Enabled) && p.FlowControl != "", "flow control")
	for _, class := range c.Classes {
		is(class.Headroom == 0 || p.FlowControl == FlowOff || ceil(class.Headroom, m.Cell)*m.Cell >= p.Headroom,
			"enough headroom")
	}
	is(p.Member(p.PVID) && p.PVID >= 1 && p.PVID <= 4094, "membership in the PVID")
	is(p.TX != "" && (p.TX != TXTransmitter || c.Transmitter.CPU >= 0), "a transmitter for who needs it")
	is(p.Worker >= 0 && p.Worker < max(1, len(c.Workers)), "a worker that exists")
	checkProfiles(is, c, p)
	is(p.Link != Access || slices.Equal(p.VLANs, []VLANRange{{p.PVID, p.PVID}}), "one VLAN of an access port")
	is((p.FCoE.Role == FCoEENode || p.FCoE.Role == FCoEFCF || p.FCoE.Role == FCoETrusted) && p.FCoE.MaxENodes > 0 &&
		p.FCoE.MaxSessions > 0 && p.FCoE.MaxPending > 0, "a role in FCoE VLANs, with limits")
	for range c.FCoEInstances(p) {
		is(min(p.MTU, p.PeerMTU) >= FCoEMTU, "room for FCoE frames")
	}
	is(p.STag == STagDrop || p.STag == STagPCP && p.Link != Access, "S-tags where tags are")
	is(p.MACLimit >= 0 && p.MACLimit <= c.Forwarding.Table, "a mac_limit within the table")
	is(p.Speed > 0 && p.InFlight > 0 && p.Speed <= p.LinkSpeed && p.LinkSpeed < math.MaxInt64, "speed")
	is(p.Refresh > 0 && p.Refresh <= c.PFC.Refresh, "a refresh no later than pfc has it")
	is(p.FlowControl == FlowOff || p.PFC == 0 || int(p.Refresh) <= p.LatestRefresh(c.PFC.Quanta, p.Response),
		"a refresh in time")
	is(c.Given(&c.PFC.Refresh) || p.Refresh >= max(1, c.PFC.Quanta/4),
		"a refresh not before a quarter of the quanta")
	if c.Forwarding.Mode == Bridge {
		is(p.Peer == -1, "no peers in bridge mode")
	} else {
		is(p.Peer >= 0 && p.Peer != i && c.Ports[p.Peer].Peer == i, "peers of each other")
	}
	c.Problem(&c.Ports[i].Device, "p", "r") // panics without a position
}
