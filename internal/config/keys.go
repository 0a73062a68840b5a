package config

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"sluice/cells/headroom"
)

// The keys of the file: name, default as one would write it, what it is, what values it takes, where they go.
// What depends on several values is in check.go.

const (
	maxPorts = 1024
	maxMTU   = 65536 - BufferReserve - FrameOverhead // of the largest buffers
)

var fileKeys = []key[Config]{
	optional("workers", "[]", "the CPUs that forward, one worker each; none: one worker, on a CPU that is chosen at start",
		list(0, maxPorts, integer(0, 4095)), func(c *Config) *[]int { return &c.Workers }),
	optional("memory", "{}", "the memory for frames",
		mapping("memory", memoryKeys), func(c *Config) *Memory { return &c.Memory }),
	optional("classes", "[]", "how the eight CoS values are treated; one not listed is lossy, with weight 1",
		list(0, 8, mapping("class", classKeys)), func(c *Config) *[]Class { return &c.Classes }),
	optional("pfc", "{}", "priority-based flow control",
		mapping("pfc", pfcKeys), func(c *Config) *PFC { return &c.PFC }),
	optional("watchdog", "{}", "what to do about a peer that pauses and does not stop pausing",
		mapping("watchdog", watchdogKeys), func(c *Config) *Watchdog { return &c.Watchdog }),
	optional("forwarding", "{}", "where frames go",
		mapping("forwarding", forwardingKeys), func(c *Config) *Forwarding { return &c.Forwarding }),
	required("ports", "the devices that are the switch's ports",
		list(1, maxPorts, mapping("port", portKeys)), func(c *Config) *[]Port { return &c.Ports }),
}

var memoryKeys = []key[Memory]{
	optional("buffers", "32768", "number of frame buffers",
		integer(256, MaxBuffers), func(m *Memory) *int { return &m.Buffers }),
	optional("buffer_size", "2048B", "size of a buffer, a power of two; more than the 4096B of a page needs hugepages",
		size("2048B", "65536B"), func(m *Memory) *int { return &m.BufferSize }),
	optional("profile", "generic", "the switch whose cell and port_buffer are the defaults",
		choice(Generic, Nexus5000, Nexus2000), func(m *Memory) *MemoryProfile { return &m.Profile }),
	optional("cell", "", "unit in which frames are accounted; default: as the profile has it, in generic buffer_size",
		size("64B", "65535B"), func(m *Memory) *int { return &m.Cell }),
	optional("port_buffer", "", "what a port's frames may take in all; none: all there is; default: as the profile has it",
		orNone(size("4KiB", "100GB")), func(m *Memory) *int { return &m.PortBuffer }),
	optional("lossless_pool", "none", "part of the shared memory for lossless classes alone, such as 60%; none: all share it",
		orNone(percent("1%", "99%")), func(m *Memory) *int { return &m.LosslessPool }),
	optional("headroom_ratio", "1", "how many times over the memory kept for headroom is promised",
		decimal(1, 100), func(m *Memory) *float64 { return &m.HeadroomRatio }),
}

var classKeys = []key[Class]{
	required("cos", "the CoS values of the class, such as [3]",
		list(1, 8, integer(0, 7)), func(c *Class) *[]int { return &c.CoS }),
	optional("name", "", "what counters call it; default: cos and its values, such as cos0,1,2",
		name(32, "a class name"), func(c *Class) *string { return &c.Name }),
	optional("lossless", "false", "pause the sender with PFC instead of dropping",
		boolean(), func(c *Class) *bool { return &c.Lossless }),
	optional("strict", "false", "serve ahead of the classes with a weight, the highest CoS first",
		boolean(), func(c *Class) *bool { return &c.Strict }),
	optional("weight", "1", "share of what the strict classes leave, relative to the other weights; divided evenly among the CoS of the class",
		integer(1, 1000), func(c *Class) *int { return &c.Weight }),
	optional("reserved", "16KiB", "memory guaranteed to each CoS of each port",
		size("0B", "1GB"), func(c *Class) *int { return &c.Reserved }),
	optional("share", "4MB", "what a CoS of a port may take of the shared memory",
		size("0B", "100GB"), func(c *Class) *int { return &c.Share }),
	optional("alpha", "", "in place of share: this many times what is free of the shared memory at the moment",
		alpha(), func(c *Class) *int { return &c.Alpha }),
	optional("headroom", "", "lossless: memory kept for what arrives after the sender was told to stop; default: what each port needs",
		size("64B", "100GB"), func(c *Class) *int { return &c.Headroom }),
	optional("xon", "", "lossless: use below which the sender may go on; default: half of share; none with alpha or xon_offset",
		size("0B", "100GB"), func(c *Class) *int { return &c.XON }),
	optional("xon_offset", "", "lossless: the sender may also go on when use is so far below the limit; default: 32KiB with alpha and without xon",
		size("64B", "100GB"), func(c *Class) *int { return &c.XONOffset }),
	optional("queue_limit", "1MB", "lossy: length at which each egress queue drops",
		size("2KB", "100GB"), func(c *Class) *int { return &c.QueueLimit }),
	optional("queue_alpha", "", "lossy, in place of queue_limit: this many times what is free of the memory for queues",
		alpha(), func(c *Class) *int { return &c.QueueAlpha }),
}

var pfcKeys = []key[PFC]{
	optional("enabled", "true", "false: neither ask others to pause nor pause when asked",
		boolean(), func(p *PFC) *bool { return &p.Enabled }),
	optional("quanta", "65535", "how long a PFC frame asks for, in units of 512 bit times",
		integer[uint16](2, 65535), func(p *PFC) *uint16 { return &p.Quanta }),
	optional("refresh", "", "quanta after which it asks again; default: half of quanta",
		integer[uint16](1, 65534), func(p *PFC) *uint16 { return &p.Refresh }),
	optional("asymmetric", "false", "true: peers may pause every CoS; only lossless ones are paused by us, as ever",
		boolean(), func(p *PFC) *bool { return &p.Asymmetric }),
}

var watchdogKeys = []key[Watchdog]{
	optional("action", "alert", "alert: count and report a storm; drop: discard its frames; forward: send them nevertheless; off: let it be",
		choice(WatchdogAlert, WatchdogDrop, WatchdogForward, WatchdogOff), func(w *Watchdog) *WatchdogAction { return &w.Action }),
	optional("detection", "200ms", "a CoS that was paused for so long while it had frames to send is in a storm",
		duration("100ms", "5s"), func(w *Watchdog) *time.Duration { return &w.Detection }),
	optional("restoration", "200ms", "a CoS that was not paused for so long is out of the storm",
		duration("100ms", "60s"), func(w *Watchdog) *time.Duration { return &w.Restoration }),
}

var forwardingKeys = []key[Forwarding]{
	optional("mode", "bridge", "bridge: by VLAN and learned addresses; wire: between the ports of a pair",
		choice(Bridge, WirePairs), func(f *Forwarding) *ForwardingMode { return &f.Mode }),
	optional("wires", "[]", "wire mode: the pairs of devices",
		list(0, maxPorts/2, wire()), func(f *Forwarding) *[]Wire { return &f.Wires }),
	optional("ageing", "300s", "how long an address stays known after it was last seen",
		duration("1ms", "1000000s"), func(f *Forwarding) *time.Duration { return &f.Ageing }),
	optional("table", "16384", "number of addresses known at the most",
		integer(1, 1<<20), func(f *Forwarding) *int { return &f.Table }),
}

var portKeys = []key[Port]{
	required("device", "the network device",
		device(), func(p *Port) *string { return &p.Device }),
	required("speed", "the rate that the port sends at, and that PFC quanta are counted in, such as 10G",
		rate("1M", "400G"), func(p *Port) *uint64 { return &p.Speed }),
	optional("mtu", "1500", "frames longer than this and 18 bytes of header and tag are dropped",
		integer(68, maxMTU), func(p *Port) *int { return &p.MTU }),
	optional("peer_mtu", "", "the same for frames of lossless classes, which makes headroom smaller; default: mtu",
		integer(68, maxMTU), func(p *Port) *int { return &p.PeerMTU }),
	optional("vlans", "[all]", "the VLANs that the port is a member of",
		list(1, 4094, vlanRange()), func(p *Port) *[]VLANRange { return &p.VLANs }),
	optional("pvid", "1", "the VLAN of untagged frames",
		integer[uint16](1, 4094), func(p *Port) *uint16 { return &p.PVID }),
	optional("flow_control", "pfc", "pfc: the port and its peer pause each other by CoS; pause: altogether (IEEE 802.3x); off: not at all",
		choice(FlowPFC, FlowPause, FlowOff), func(p *Port) *FlowControl { return &p.FlowControl }),
	optional("cable", "100m", "length of the cable to the peer",
		length("0m", "100km"), func(p *Port) *float64 { return &p.Metres }),
	optional("medium", "fibre", "what the cable is made of",
		choice(headroom.Fibre, headroom.Copper), func(p *Port) *headroom.Medium { return &p.Medium }),
	optional("response", "1ms", "how much longer than the standard allows it takes to stop the peer: our loop and rings, and the peer's",
		duration("0s", "1s"), func(p *Port) *time.Duration { return &p.Response }),
	optional("in_flight", "64KB", "frames handed to the device at a time, at the most: a pause can't call them back",
		size("2KB", "1GB"), func(p *Port) *int { return &p.InFlight }),
	optional("mode", "auto", "how the device hands over frames; auto: zero-copy where its driver can",
		choice(Auto, Copy, ZeroCopy), func(p *Port) *XDPMode { return &p.Mode }),
	optional("busy_poll", "false", "the worker's CPU does the device's work instead of its interrupts; may help one port a worker, hurts several",
		boolean(), func(p *Port) *bool { return &p.BusyPoll }),
	optional("worker", "", "position in workers, from 0 on; default: one port after the other",
		integer(0, 4095), func(p *Port) *int { return &p.Worker }),
	optional("default_cos", "0", "the CoS of untagged frames",
		integer[uint8](0, 7), func(p *Port) *uint8 { return &p.DefaultCoS }),
}

// name reads a word that counters can carry.
func name(longest int, what string) codec[string] {
	remedy := fmt.Sprintf("%s has 1 to %d characters, none of them a space or a quote", what, longest)
	return scalar(remedy, func(text string) (string, string) {
		if text == "" || len(text) > longest {
			return "", fmt.Sprintf("has %d characters", len(text))
		}
		for _, r := range text {
			if r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\", r) {
				return "", fmt.Sprintf("contains %q", r)
			}
		}
		return text, ""
	})
}

// device reads a name that Linux accepts for a network device (dev_valid_name in net/core/dev.c).
func device() codec[string] {
	return scalar("write the name that `ip link` shows, at most 15 characters", func(text string) (string, string) {
		switch {
		case text == "" || text == "." || text == ".." || len(text) > 15:
			return "", "is no device name"
		case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '/' || r == ':' || r > '~' }):
			return "", "is no device name"
		}
		return text, ""
	})
}

// wire reads a pair of devices.
func wire() codec[Wire] {
	return codec[Wire]{read: func(d *decoder, n *yaml.Node, _ string, v *Wire) bool {
		if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
			return d.refuse(n, "a wire has two ends", "write [sw0, sw1]")
		}
		one := read(d, n.Content[0], device(), "device", &v[0])
		two := read(d, n.Content[1], device(), "device", &v[1])
		return one && two
	}}
}

// vlanRange reads one VLAN, a range of them, or all.
func vlanRange() codec[VLANRange] {
	return scalar("write 100, 200-299 or all; VLANs are 1 to 4094", func(text string) (VLANRange, string) {
		if text == "all" {
			return VLANRange{1, 4094}, ""
		}
		from, to, isRange := strings.Cut(text, "-")
		if !isRange {
			to = from
		}
		first, problem1 := digits(from)
		last, problem2 := digits(to)
		switch {
		case problem1+problem2 != "":
			return VLANRange{}, "is neither a VLAN nor a range"
		case first < 1 || last > 4094:
			return VLANRange{}, "is out of range"
		case first > last:
			return VLANRange{}, "ends before it starts"
		}
		return VLANRange{uint16(first), uint16(last)}, ""
	})
}
