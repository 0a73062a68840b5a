package config

import (
	"time"

	"go.yaml.in/yaml/v4"

	"sluice/cells/headroom"
	"sluice/internal/config/scalar"
	"sluice/internal/config/schema"
)

// The keys of the file: name, default as in a file, meaning, values and destination. Rules between
// several values are in check.go.

const (
	maxPorts    = 1024
	maxProfiles = 64
	maxTable    = 1 << 20
	maxFrames   = 1_000_000_000 // a second
	maxMTU      = 9500          // bytes; no larger one was tried
)

var fileKeys = []key[Config]{
	optional("workers", "[]", "the CPUs that run a worker each; empty: one worker, on a CPU that is chosen at start",
		list(0, maxPorts, integer(0, 4095)), func(c *Config) *[]int { return &c.Workers }),
	optional("transmitter", "{}", "a program in the kernel that sends frames where AF_XDP would copy them, as on veth",
		mapping("transmitter", transmitterKeys), func(c *Config) *Transmitter { return &c.Transmitter }),
	optional("memory", "{}", "the memory for frames",
		mapping("memory", memoryKeys), func(c *Config) *Memory { return &c.Memory }),
	optional("classes", "[]", "the memory of each CoS, and whether it is lossless; a CoS that is not listed is lossy",
		list(0, 8, mapping("class", classKeys)), func(c *Config) *[]Class { return &c.Classes }),
	optional("ets", "[]", "profiles of enhanced transmission selection (IEEE 802.1Qaz); "+
		"ports without one use the profile named default",
		list(0, maxProfiles, mapping("ets profile", etsKeys)), func(c *Config) *[]ETSProfile { return &c.ETS }),
	optional("qos", "[]", "domains of classification and marking; ports without one use the domain named default",
		list(0, maxProfiles, mapping("qos domain", qosKeys)), func(c *Config) *[]QoSDomain { return &c.QoS }),
	optional("pfc", "{}", "priority-based flow control",
		mapping("pfc", pfcKeys), func(c *Config) *PFC { return &c.PFC }),
	optional("watchdog", "{}", "the reaction to a peer that does not stop pausing",
		mapping("watchdog", watchdogKeys), func(c *Config) *Watchdog { return &c.Watchdog }),
	optional("forwarding", "{}", "how the switch finds the egress port of a frame",
		mapping("forwarding", forwardingKeys), func(c *Config) *Forwarding { return &c.Forwarding }),
	optional("control", "{}", "local access for monitoring and commands",
		mapping("control", controlKeys), func(c *Config) *Control { return &c.Control }),
	optional("metrics", "{}", "metrics for Prometheus",
		mapping("metrics", metricsKeys), func(c *Config) *Metrics { return &c.Metrics }),
	optional("lldp", "{}", "the link layer discovery protocol (IEEE 802.1AB)",
		mapping("lldp", lldpKeys), func(c *Config) *LLDP { return &c.LLDP }),
	optional("dcbx", "{}", "how ports with dcbx agree with their peers on PFC, ETS and applications",
		mapping("dcbx", dcbxKeys), func(c *Config) *DCBX { return &c.DCBX }),
	optional("fcoe", "{}", "FIP snooping: which hosts may reach which FCoE forwarders (FCFs)",
		mapping("fcoe", fcoeKeys), func(c *Config) *FCoE { return &c.FCoE }),
	required("ports", "the devices that are the switch's ports",
		list(1, maxPorts, mapping("port", portKeys)), func(c *Config) *[]Port { return &c.Ports }),
}

var memoryKeys = []key[Memory]{
	optional("buffers", "32768", "the number of frame buffers",
		integer(256, MaxBuffers), func(m *Memory) *int { return &m.Buffers }),
	optional("buffer_size", "2048B", "the size of a buffer, a power of two; "+
		"more than the 4096B of a page needs huge pages and a kernel that supports such buffers, which Linux up to "+
		"6.18 does not",
		size("2048B", "65536B"), func(m *Memory) *int { return &m.BufferSize }),
	optional("profile", "generic", "the switch model whose cell and port_buffer are the defaults",
		choice(Generic, Nexus5000, Nexus2000), func(m *Memory) *MemoryProfile { return &m.Profile }),
	optional("cell", "", "the unit of accounting; a frame uses whole cells; default: that of the profile; "+
		"with generic buffer_size, or if the mtu of some port needs several buffers for a frame, "+
		"the least that each of them holds: 1664B of 2048B, 3328B of 4096B, which is also the maximum then",
		size("64B", "65535B"), func(m *Memory) *int { return &m.Cell }),
	optional("port_buffer", "", "the memory that all frames of a port may use together; none: no limit; "+
		"default: that of the profile",
		orNone(size("4KiB", "100GB")), func(m *Memory) *int { return &m.PortBuffer }),
	optional("lossless_pool", "none", "the part of the shared memory for lossless classes only, such as 60%; "+
		"none: all classes share it",
		orNone(percent("1%", "99%")), func(m *Memory) *int { return &m.LosslessPool }),
	optional("headroom_ratio", "1", "the factor by which the headroom of all ports may exceed the memory kept for it",
		decimal(1, 100), func(m *Memory) *float64 { return &m.HeadroomRatio }),
}

var classKeys = []key[Class]{
	required("cos", "the CoS values of the class, such as [3]",
		list(1, 8, integer(0, 7)), func(c *Class) *[]int { return &c.CoS }),
	optional("name", "", "the name of the class in counters; default: cos and its values, such as cos0,1,2",
		name(32, "a class name"), func(c *Class) *string { return &c.Name }),
	optional("lossless", "false", "true: pause the sender with PFC instead of dropping frames",
		boolean(), func(c *Class) *bool { return &c.Lossless }),
	optional("reserved", "16KiB", "the memory guaranteed to each CoS of each port",
		size("0B", "1GB"), func(c *Class) *int { return &c.Reserved }),
	optional("share", "4MB", "the shared memory that a CoS of a port may use",
		size("0B", "100GB"), func(c *Class) *int { return &c.Share }),
	optional("alpha", "", "instead of share: "+
		"a CoS of a port may use this many times the shared memory that is free at the moment",
		alpha(), func(c *Class) *int { return &c.Alpha }),
	optional("headroom", "", "lossless: the memory for frames that still arrive after XOFF; "+
		"default: what each port needs",
		size("64B", "100GB"), func(c *Class) *int { return &c.Headroom }),
	optional("xon", "", "lossless: the sender resumes when no more than this is in use; default: half of share; "+
		"none with alpha or xon_offset",
		size("0B", "100GB"), func(c *Class) *int { return &c.XON }),
	optional("xon_offset", "", "lossless: the sender also resumes when use is this far below the limit; "+
		"default: 32KiB with alpha and without xon",
		size("64B", "100GB"), func(c *Class) *int { return &c.XONOffset }),
	optional("queue_limit", "1MB", "lossy: the length at which each egress queue drops frames",
		size("2KB", "100GB"), func(c *Class) *int { return &c.QueueLimit }),
	optional("queue_alpha", "", "lossy, instead of queue_limit: "+
		"a queue may use this many times the memory for queues that is free at the moment",
		alpha(), func(c *Class) *int { return &c.QueueAlpha }),
	optional("wred", "",
		"drop frames at random before an egress queue is full, or mark them (see ecn); lossless: only mark",
		mapping("wred", wredKeys), func(c *Class) *WRED { return &c.WRED }),
	optional("ecn", "false", "true: instead of dropping frames, wred marks those of senders that use "+
		"explicit congestion notification (RFC 3168)",
		boolean(), func(c *Class) *bool { return &c.ECN }),
}

var wredKeys = []key[WRED]{
	required("min", "the queue length below which no frame is dropped or marked, such as 100KB",
		size("64B", "8GB"), func(w *WRED) *int { return &w.Min }),
	required("max", "the queue length above which every frame is dropped or marked, such as 400KB",
		size("64B", "8GB"), func(w *WRED) *int { return &w.Max }),
	optional("probability", "10%", "the probability of a drop or mark just below max; it rises from 0% at min",
		percent("1%", "100%"), func(w *WRED) *int { return &w.Probability }),
	optional("smoothing", "0", "n: with each frame, the averaged queue length moves "+
		"by 2^-n of its difference from the actual length; 0: no averaging",
		integer(0, 16), func(w *WRED) *int { return &w.Smoothing }),
}

var etsKeys = []key[ETSProfile]{
	required("name", "the name by which ports refer to the profile",
		name(32, "the name of a profile"), func(e *ETSProfile) *string { return &e.Name }),
	optional("groups", "", "the priority groups; each CoS is in one of them",
		list(1, 8, mapping("group", groupKeys)), func(e *ETSProfile) *[]PriorityGroup { return &e.Groups }),
	optional("prio_tc", "", "instead of groups, as with `dcb ets`: the traffic class of each CoS",
		table(8, integer(0, 7), unmapped), func(e *ETSProfile) *[]int { return &e.lists.prioTC }),
	optional("tc_tsa", "all:ets", "with prio_tc: ets: the traffic class is a group with a weight; "+
		"strict: it is sent before all that are not strict",
		table(8, choice(tsaETS, tsaStrict), itsETS), func(e *ETSProfile) *[]tsa { return &e.lists.tcTSA }),
	optional("tc_bw", "all:0",
		"with prio_tc: the weights, in percent of what strict traffic classes leave; they sum to 100",
		table(8, integer(0, 100), none), func(e *ETSProfile) *[]int { return &e.lists.tcBW }),
	optional("queues", "[]", "settings for the queues of single CoS values",
		list(0, 8, mapping("queue", queueKeys)), func(e *ETSProfile) *[]ETSQueue { return &e.Queues }),
}

var groupKeys = []key[PriorityGroup]{
	required("pg", "the number of the priority group, 0 to 7, or 15 for the group that is sent before all others",
		single(scalar.GroupNumber()), func(g *PriorityGroup) *int { return &g.PG }),
	required("cos", "the CoS values of the group, such as [0, 1, 2, 4, 5]",
		list(1, 8, integer(0, 7)), func(g *PriorityGroup) *[]int { return &g.CoS }),
	optional("name", "", "the name of the group in reports; default: pg and its number",
		name(32, "the name of a group"), func(g *PriorityGroup) *string { return &g.Name }),
	optional("weight", "", "the percentage of what group 15 leaves; the weights of a profile sum to 100; "+
		"every group but 15 has one",
		integer(1, 100), func(g *PriorityGroup) *int { return &g.Weight }),
	optional("inner", "", "how the CoS values of the group share its rate; drr: by the weights of their queues; "+
		"strict: the highest first; default: drr, in group 15 strict",
		choice(InnerDRR, InnerStrict), func(g *PriorityGroup) *Inner { return &g.Inner }),
	optional("rate", "none", "the maximum rate of the group, in bit/s on the wire",
		orNone(rate("1M", "400G")), func(g *PriorityGroup) *uint64 { return &g.Rate }),
	optional("burst", "", "with rate: what the group may send at once after it was idle; "+
		"default: one frame, plus 100us at the rate",
		size("64B", "256MB"), func(g *PriorityGroup) *int { return &g.Burst }),
}

var queueKeys = []key[ETSQueue]{
	required("cos", "the CoS of the queue",
		integer(0, 7), func(q *ETSQueue) *int { return &q.CoS }),
	optional("weight", "1",
		"the share of the group, relative to the weights of its other queues; not with inner: strict",
		integer(1, 100), func(q *ETSQueue) *int { return &q.Weight }),
	optional("rate", "none", "the maximum rate of the queue, in bit/s on the wire",
		orNone(rate("1M", "400G")), func(q *ETSQueue) *uint64 { return &q.Rate }),
	optional("burst", "", "with rate: what the queue may send at once after it was idle; "+
		"default: one frame, plus 100us at the rate",
		size("64B", "256MB"), func(q *ETSQueue) *int { return &q.Burst }),
}

var qosKeys = []key[QoSDomain]{
	required("name", "the name by which ports refer to the domain",
		name(32, "the name of a domain"), func(q *QoSDomain) *string { return &q.Name }),
	optional("trust", "pcp", "what determines the CoS; pcp: the PCP of the tag, or default_cos without a tag; "+
		"dscp: the DSCP of IP frames, and for others as with pcp",
		choice(TrustPCP, TrustDSCP), func(q *QoSDomain) *Trust { return &q.Trust }),
	optional("pcp_to_cos", "{}", "the CoS for each PCP of a tag; a PCP that is not listed is its own CoS",
		table(8, integer(0, 7), itself), func(q *QoSDomain) *[]int { return &q.PCPToCoS }),
	optional("dscp_to_cos", "{}", "with trust: dscp: the CoS for each DSCP; a DSCP that is not listed has default_cos",
		table(64, integer(0, 7), unmapped), func(q *QoSDomain) *[]int { return &q.DSCPToCoS }),
	optional("cos_to_pcp", "{}", "the PCP of tags that leave, for each CoS; a CoS that is not listed is its own PCP",
		table(8, integer(0, 7), itself), func(q *QoSDomain) *[]int { return &q.CoSToPCP }),
	optional("cos_to_dscp", "{}", "the DSCP of IP frames that leave, for each CoS; "+
		"with a CoS that is not listed it is unchanged",
		table(8, integer(0, 63), unmapped), func(q *QoSDomain) *[]int { return &q.CoSToDSCP }),
}

var pfcKeys = []key[PFC]{
	optional("enabled", "true", "false: the switch neither pauses its peers nor honours their pauses",
		boolean(), func(p *PFC) *bool { return &p.Enabled }),
	optional("prio_pfc", "", "as with `dcb pfc`: on for each lossless CoS; a CoS that is in no class gets one; "+
		"default: as in classes",
		table(8, single(scalar.OnOff()), off), func(p *PFC) *[]bool { return &p.prioPFC }),
	optional("quanta", "65535", "the duration of a pause, in units of 512 bit times of the link",
		integer[uint16](2, 65535), func(p *PFC) *uint16 { return &p.Quanta }),
	optional("refresh", "", "the quanta after which a pause is repeated; default: half of quanta, "+
		"or earlier if a port would be too late otherwise, but no earlier than a quarter",
		integer[uint16](1, 65534), func(p *PFC) *uint16 { return &p.Refresh }),
	optional("asymmetric", "false", "true: peers may pause every CoS; the switch still pauses lossless ones only",
		boolean(), func(p *PFC) *bool { return &p.Asymmetric }),
}

var watchdogKeys = []key[Watchdog]{
	optional("action", "alert", "alert: count and report a storm; drop: discard its frames; "+
		"forward: ignore the pause; off: no watchdog",
		choice(WatchdogAlert, WatchdogDrop, WatchdogForward, WatchdogOff),
		func(w *Watchdog) *WatchdogAction { return &w.Action }),
	optional("detection", "200ms", "a CoS is in a storm if it was paused for this time "+
		"while it had frames to send; time without a pause makes up for 100 times as much",
		duration("100ms", "5s"), func(w *Watchdog) *time.Duration { return &w.Detection }),
	optional("restoration", "200ms", "a storm ends when the peer has let the CoS send "+
		"for this time, at least 1 % of it",
		duration("100ms", "60s"), func(w *Watchdog) *time.Duration { return &w.Restoration }),
}

var forwardingKeys = []key[Forwarding]{
	optional("mode", "bridge", "bridge: by VLAN and learned addresses; wire: between the two ports of a pair",
		choice(Bridge, WirePairs), func(f *Forwarding) *ForwardingMode { return &f.Mode }),
	optional("wires", "[]", "wire mode: the pairs of devices",
		list(0, maxPorts/2, wire()), func(f *Forwarding) *[]Wire { return &f.Wires }),
	optional("ageing", "300s", "the time after which an FDB entry is removed if its address was not seen",
		duration("1ms", "1000000s"), func(f *Forwarding) *time.Duration { return &f.Ageing }),
	optional("table", "16384", "the maximum number of FDB entries, static ones included",
		integer(1, maxTable), func(f *Forwarding) *int { return &f.Table }),
	optional("static", "[]", "FDB entries that exist from the start, and never age or move",
		list(0, maxTable, mapping("static entry", staticKeys)),
		func(f *Forwarding) *[]StaticEntry { return &f.Static }),
	optional("flood_queues", "false", "true: flooded frames of lossy classes use four queues, "+
		"as in table 10-10 of Huawei's guide, instead of those of their CoS",
		boolean(), func(f *Forwarding) *bool { return &f.FloodQueues }),
	optional("loop_guard", "alert", "bridge mode: the reaction to a loop through ports of the switch; "+
		"alert: report it; shut: also shut one of its ports, the last one in this file, for 5 minutes; "+
		"off: do not look for loops",
		choice(LoopAlert, LoopShut, LoopOff), func(f *Forwarding) *LoopGuard { return &f.LoopGuard }),
}

var metricsKeys = []key[Metrics]{
	optional("listen", "127.0.0.1:9473", "the address and port that serve /metrics; none: not served",
		orNone(single(scalar.Listener())), func(m *Metrics) *string { return &m.Listen }),
	optional("web_config", "none", "a file with settings for TLS and passwords, "+
		"in the format of Prometheus exporters (exporter-toolkit); a relative path starts at this file",
		orNone(single(scalar.Path())), func(m *Metrics) *string { return &m.WebConfig }),
}

var staticKeys = []key[StaticEntry]{
	required("mac", "the MAC address, such as 02:00:00:00:00:01",
		unicast(), func(s *StaticEntry) *MAC { return &s.MAC }),
	optional("vlan", "1", "the VLAN of the address",
		integer[uint16](1, 4094), func(s *StaticEntry) *uint16 { return &s.VLAN }),
	required("port", "the device behind which the address is",
		device(), func(s *StaticEntry) *string { return &s.Device }),
}

var stormKeys = []key[Storm]{
	optional("broadcast", "none", "broadcast frames per second",
		orNone(integer(1, maxFrames)), func(s *Storm) *int { return &s.Broadcast }),
	optional("multicast", "none", "multicast frames per second",
		orNone(integer(1, maxFrames)), func(s *Storm) *int { return &s.Multicast }),
	optional("unknown", "none", "frames per second to unknown addresses",
		orNone(integer(1, maxFrames)), func(s *Storm) *int { return &s.Unknown }),
}

var portKeys = []key[Port]{
	required("device", "the network device, by its own name, not an alternative one (altname)",
		device(), func(p *Port) *string { return &p.Device }),
	required("speed", "the rate that the port sends at, such as 10G; at most that of its link",
		rate("1M", "400G"), func(p *Port) *uint64 { return &p.Speed }),
	optional("link_speed", "", "the rate of the link, by which both ends count pauses and headroom is computed; "+
		"a rate that the device reports takes precedence, except those of hypervisors' devices "+
		"(virtio_net, vmxnet3, hv_netvsc, Xen's vif) and of virtual ones such as veth; default: speed",
		rate("1M", "400G"), func(p *Port) *uint64 { return &p.LinkSpeed }),
	optional("mtu", "1500",
		"frames longer than this and 18 bytes of header and tag, or 22 with s_tag: pcp, are dropped; "+
			"the device needs this MTU, or 4 more with s_tag: pcp; frames longer than a buffer of memory.buffer_size "+
			"holds, 1664 or 3712 bytes, occupy several, which needs Linux 6.6",
		integer(68, maxMTU), func(p *Port) *int { return &p.MTU }),
	optional("peer_mtu", "", "the same for frames of lossless classes; a lower value needs less headroom; default: mtu",
		integer(68, maxMTU), func(p *Port) *int { return &p.PeerMTU }),
	optional("link", "transparent", "transparent: frames leave with or without a tag, as they came; "+
		"access: without a tag; trunk: with a tag, except those of the pvid",
		choice(Transparent, Access, Trunk), func(p *Port) *Link { return &p.Link }),
	optional("vlans", "[all]", "the VLANs of which the port is a member; an access port is a member of its pvid only",
		list(1, 4094, vlanRange()), func(p *Port) *[]VLANRange { return &p.VLANs }),
	optional("pvid", "1", "the VLAN of untagged frames",
		integer[uint16](1, 4094), func(p *Port) *uint16 { return &p.PVID }),
	optional("s_tag", "drop", "how to treat frames with an S-tag (IEEE 802.1ad, TPID 0x88A8); "+
		"drop: drop them as s_tag; pcp: keep the tag, use its PCP for the CoS, and the VLAN of untagged frames",
		choice(STagDrop, STagPCP), func(p *Port) *STag { return &p.STag }),
	optional("mac_limit", "none", "the maximum number of FDB entries learned on the port",
		orNone(integer(1, maxTable)), func(p *Port) *int { return &p.MACLimit }),
	optional("storm", "{}", "limits for received frames that would be flooded; more are dropped",
		mapping("storm", stormKeys), func(p *Port) *Storm { return &p.Storm }),
	optional("ets", DefaultName, "the name of the ets profile by which the port sends",
		name(32, "the name of a profile"), func(p *Port) *string { return &p.ETSName }),
	optional("qos", DefaultName, "the name of the qos domain by which the port classifies and marks",
		name(32, "the name of a domain"), func(p *Port) *string { return &p.QoSName }),
	optional("flow_control", "pfc", "pfc: the port and its peer pause each other by CoS; "+
		"auto: the same, but only for the CoS that they agreed on by DCBX; "+
		"pause: they pause all traffic (IEEE 802.3x); off: no flow control",
		choice(FlowPFC, FlowAuto, FlowPause, FlowOff), func(p *Port) *FlowControl { return &p.FlowControl }),
	optional("lldp", "rxtx", "rxtx: with lldp.enabled the port sends and receives LLDP; tx: it only sends; "+
		"rx: it only receives; off: neither",
		choice(LLDPBoth, LLDPTransmit, LLDPReceive, LLDPOff), func(p *Port) *LLDPMode { return &p.LLDP }),
	optional("dcbx", "{}", "data center bridging exchange: the port and its peer agree on PFC, ETS and applications",
		mapping("dcbx of a port", portDCBXKeys), func(p *Port) *PortDCBX { return &p.DCBX }),
	optional("fcoe", "{}", "FIP snooping on the port; it has an effect in FCoE VLANs, see fcoe.instances",
		mapping("fcoe of a port", portFCoEKeys), func(p *Port) *PortFCoE { return &p.FCoE }),
	optional("cable", "100m", "the length of the cable to the peer",
		single(scalar.Length("0m", "100km")), func(p *Port) *float64 { return &p.Metres }),
	optional("medium", "fibre", "the material of the cable",
		choice(headroom.Fibre, headroom.Copper), func(p *Port) *headroom.Medium { return &p.Medium }),
	optional("response", "", "how much longer than the standard allows it may take to stop the peer, "+
		"because of the loop and rings of the switch, and those of the peer; "+
		"default: 1ms, or what a pause of the link allows, down to 100us",
		duration("0s", "1s"), func(p *Port) *time.Duration { return &p.Response }),
	optional("in_flight", "", "the bytes of frames handed to the device at a time, at most: "+
		"a pause can't call them back; default: 64KB, or what the port sends in 50us if that is more",
		size("2KB", "1GB"), func(p *Port) *int { return &p.InFlight }),
	optional("mode", "auto", "how the device hands over frames; auto: zero-copy if its driver supports it, "+
		"and if buffer_size is enough for the driver to keep frames of the MTU whole",
		choice(Auto, Copy, ZeroCopy), func(p *Port) *XDPMode { return &p.Mode }),
	optional("tx", "auto", "what sends; xsk: the AF_XDP socket; "+
		"resident: the transmitter, unless the device takes no frames from it; "+
		"auto: the socket if it needs no copy, else the transmitter if it has a CPU of its own, else the socket",
		choice(TXAuto, TXSocket, TXTransmitter), func(p *Port) *TXEngine { return &p.TX }),
	optional("busy_poll", "false", "true: the worker's CPU does the device's work instead of interrupts; "+
		"may help with one port per worker, and hurts with several; since Linux 6.13 in zero-copy mode only",
		boolean(), func(p *Port) *bool { return &p.BusyPoll }),
	optional("worker", "", "the position in workers, from 0; default: the workers in turn",
		integer(0, 4095), func(p *Port) *int { return &p.Worker }),
	optional("default_cos", "0", "the CoS of untagged frames",
		integer[uint8](0, 7), func(p *Port) *uint8 { return &p.DefaultCoS }),
}

// wire reads a pair of devices.
func wire() codec[Wire] {
	s := &schema.Schema{Type: "array", Items: device().schema, MinItems: 2, MaxItems: 2,
		Form: "a pair of devices such as [sw0, sw1]"}
	return codec[Wire]{schema: s, read: func(d *decoder, n *yaml.Node, _ string, v *Wire) bool {
		if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
			return d.refuse(n, "a wire is not a pair of devices", "write a pair such as [sw0, sw1]")
		}
		one := read(d, n.Content[0], device(), "device", &v[0])
		two := read(d, n.Content[1], device(), "device", &v[1])
		return one && two
	}, plain: func(v *Wire) any { return *v }}
}
