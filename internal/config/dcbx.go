package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"sluice/internal/config/scalar"
)

// LLDP is what the switch tells its neighbours about itself (IEEE 802.1AB).
type LLDP struct {
	Enabled           bool
	Interval          time.Duration // between LLDPDUs while nothing changes (msgTxInterval)
	Hold              int           // intervals for which neighbours keep an LLDPDU, see TTL (msgTxHold)
	SystemName        string        // empty: the host name
	SystemDescription string        // empty: Sluice and its version
	Management        netip.Addr    // management address; the zero Addr: none
}

// TTL returns for how many seconds neighbours keep an LLDPDU (txTTL of IEEE 802.1AB).
func (l *LLDP) TTL() uint16 {
	const longest = 65535 * time.Second
	return uint16(min(longest, l.Interval*time.Duration(l.Hold)+time.Second) / time.Second)
}

// LLDPMode is in which directions a port uses LLDP.
type LLDPMode string

// The modes.
const (
	LLDPBoth     LLDPMode = "rxtx"
	LLDPTransmit LLDPMode = "tx"
	LLDPReceive  LLDPMode = "rx"
	LLDPOff      LLDPMode = "off"
)

// DCBX is how ports agree with their peers on PFC, ETS and the priorities of applications.
type DCBX struct {
	Tie          Tie           // used if both ends are willing to take the PFC of the other
	Hold         time.Duration // how long what a source gave stays after the source is gone
	Applications []Application // that ports with DCBX send
}

// Tie is which end gives way if both are willing: that with the lower or the higher MAC address.
type Tie string

// The ways to break a tie.
const (
	LowerGivesWay  Tie = "lower"
	HigherGivesWay Tie = "higher"
)

// Application is the priority of an application's frames. Selector and Protocol are as in the
// application priority TLV of IEEE 802.1Qaz.
type Application struct {
	Selector uint8 // 1 EtherType, 2 TCP or SCTP port, 3 UDP or DCCP port, 4 port of any of these, 5 DSCP
	Protocol uint16
	Priority uint8

	keys applicationKeys // from the file; checkApplications turns them into Selector and Protocol
}

type applicationKeys struct {
	name                            string
	ethertype, tcp, udp, port, dscp uint16
}

// applications are the protocols that have a name in the file.
var applications = map[string]Application{
	"fcoe": {Selector: 1, Protocol: 0x8906}, "fip": {Selector: 1, Protocol: 0x8914},
	"iscsi": {Selector: 2, Protocol: 3260},
	"roce":  {Selector: 1, Protocol: 0x8915}, "rocev2": {Selector: 3, Protocol: 4791},
}

// PortDCBX is the DCBX of one port.
type PortDCBX struct {
	Version DCBXVersion
	Role    DCBXRole
	Willing []DCBXFeature // what the port takes from its peer; empty unless Role is Upstream
}

// DCBXVersion is the version of DCBX that a port speaks.
type DCBXVersion string

// The versions.
const (
	DCBXOff  DCBXVersion = "off"
	DCBXAuto DCBXVersion = "auto" // begin with IEEE, follow the peer
	DCBXIEEE DCBXVersion = "ieee" // IEEE 802.1Qaz
	DCBXCEE  DCBXVersion = "cee"  // 1.01
	DCBXCIN  DCBXVersion = "cin"  // 1.00
)

// DCBXRole is where a port gets its configuration from.
type DCBXRole string

// The roles.
const (
	Manual     DCBXRole = "manual"     // from the file; it takes nothing from its peer
	Upstream   DCBXRole = "upstream"   // from its peer
	Downstream DCBXRole = "downstream" // from the upstream port that is the source
)

// DCBXFeature is one part of what ports agree on.
type DCBXFeature string

// The features.
const (
	FeaturePFC DCBXFeature = "pfc"
	FeatureETS DCBXFeature = "ets"
	FeatureApp DCBXFeature = "app"
)

// Takes reports whether a port takes a feature from its peer.
func (x *PortDCBX) Takes(f DCBXFeature) bool { return slices.Contains(x.Willing, f) }

var lldpKeys = []key[LLDP]{
	optional("enabled", "false", "true: ports send LLDP to their peers and receive theirs, unless their lldp is off",
		boolean(), func(l *LLDP) *bool { return &l.Enabled }),
	optional("interval", "30s", "the time between two messages to a peer while nothing changes",
		duration("1s", "3600s"), func(l *LLDP) *time.Duration { return &l.Interval }),
	optional("hold", "4", "the number of intervals for which a peer keeps a message, but no longer than 65535s",
		integer(1, 100), func(l *LLDP) *int { return &l.Hold }),
	optional("system_name", "", "the name of the switch; default: the host name",
		single(scalar.Line(255)), func(l *LLDP) *string { return &l.SystemName }),
	optional("system_description", "", "the description of the switch; default: Sluice and its version",
		single(scalar.Line(255)), func(l *LLDP) *string { return &l.SystemDescription }),
	optional("management_address", "none", "the IP address at which the switch is managed; none: not sent",
		orNone(single(scalar.Address())), func(l *LLDP) *netip.Addr { return &l.Management }),
}

var dcbxKeys = []key[DCBX]{
	optional("tie", "lower", "which end takes the PFC of the other if both are willing: "+
		"the one with the lower or the higher MAC address",
		choice(LowerGivesWay, HigherGivesWay), func(x *DCBX) *Tie { return &x.Tie }),
	optional("hold", "120s", "how long downstream ports keep what an upstream port gave them after its peer is gone",
		duration("0s", "3600s"), func(x *DCBX) *time.Duration { return &x.Hold }),
	optional("applications", "[]", "the priorities of applications, which ports with DCBX tell their peers",
		list(0, 64, application()), func(x *DCBX) *[]Application { return &x.Applications }),
}

var applicationsKeys = []key[Application]{
	optional("protocol", "", "the protocol by its name: fcoe (EtherType 0x8906), fip (0x8914), roce (0x8915), "+
		"iscsi (TCP port 3260) or rocev2 (UDP port 4791)",
		choice("fcoe", "fip", "iscsi", "roce", "rocev2"), func(a *Application) *string { return &a.keys.name }),
	optional("ethertype", "", "instead of protocol: the EtherType of its frames, such as 0x8906",
		single(scalar.EtherType()), func(a *Application) *uint16 { return &a.keys.ethertype }),
	optional("tcp", "", "instead of protocol: the TCP or SCTP port",
		integer[uint16](1, 65535), func(a *Application) *uint16 { return &a.keys.tcp }),
	optional("udp", "", "instead of protocol: the UDP or DCCP port",
		integer[uint16](1, 65535), func(a *Application) *uint16 { return &a.keys.udp }),
	optional("port", "", "instead of protocol: the TCP, SCTP, UDP or DCCP port",
		integer[uint16](1, 65535), func(a *Application) *uint16 { return &a.keys.port }),
	optional("dscp", "", "instead of protocol: the DSCP of its packets",
		integer[uint16](0, 63), func(a *Application) *uint16 { return &a.keys.dscp }),
	required("priority", "the priority that hosts use for it",
		integer[uint8](0, 7), func(a *Application) *uint8 { return &a.Priority }),
}

// application reads an application, and says it by its number.
func application() codec[Application] {
	c := mapping("application", applicationsKeys)
	c.plain = func(a *Application) any {
		selector := [...]string{1: "ethertype", 2: "tcp", 3: "udp", 4: "port", 5: "dscp"}[a.Selector]
		return map[string]any{selector: a.Protocol, "priority": a.Priority}
	}
	return c
}

var portDCBXKeys = []key[PortDCBX]{
	optional("version", "off", "auto: IEEE, unless the peer speaks only an older version; ieee: IEEE 802.1Qaz; "+
		"cee: CEE 1.01; cin: CIN 1.00; off: no DCBX",
		choice(DCBXOff, DCBXAuto, DCBXIEEE, DCBXCEE, DCBXCIN), func(x *PortDCBX) *DCBXVersion { return &x.Version }),
	optional("role", "manual", "manual: the port tells its peer what this file says; "+
		"upstream: it takes settings from its peer; downstream: it passes on those of the upstream ports",
		choice(Manual, Upstream, Downstream), func(x *PortDCBX) *DCBXRole { return &x.Role }),
	optional("willing", "", "upstream: what the port takes from its peer; "+
		"default: all, but pfc only with flow_control: auto",
		list(0, 3, choice(FeaturePFC, FeatureETS, FeatureApp)), func(x *PortDCBX) *[]DCBXFeature { return &x.Willing }),
}

// checkDCBX applies the rules for DCBX, which needs LLDP, and fills in what ports are willing to
// take.
func checkDCBX(d *decoder, c *Config) {
	checkApplications(d, &c.DCBX)
	for i := range c.Ports {
		p := &c.Ports[i]
		x := &p.DCBX
		if !d.sound(&x.Version, &x.Role, &p.FlowControl) {
			continue
		}
		off := x.Version == DCBXOff
		switch {
		case off && p.FlowControl == FlowAuto:
			d.fail(&p.FlowControl, fmt.Sprintf("port %s has flow_control auto, but no DCBX to agree on priorities",
				p.Device),
				`add "dcbx: {version: auto}" to the port, or write flow_control: pfc`)
		case !off && d.sound(&c.LLDP.Enabled) && !c.LLDP.Enabled:
			d.fail(&x.Version, fmt.Sprintf("port %s has dcbx, which is sent with LLDP, but LLDP is off", p.Device),
				`add "lldp: {enabled: true}" to the file, or set version to off`)
		case !off && d.sound(&p.LLDP) && p.LLDP != LLDPBoth:
			d.fail(&p.LLDP, fmt.Sprintf("port %s has dcbx, which both sends and receives LLDP, but its lldp is %s",
				p.Device, p.LLDP),
				"set lldp to rxtx, or the version of dcbx to off")
		}
		checkWilling(d, p)
	}
}

// checkWilling refuses features that a port can't take from its peer.
func checkWilling(d *decoder, p *Port) {
	x := &p.DCBX
	if !d.given(&x.Willing) {
		if x.Willing = nil; x.Role == Upstream {
			x.Willing = []DCBXFeature{FeaturePFC, FeatureETS, FeatureApp}
			if p.FlowControl != FlowAuto {
				x.Willing = x.Willing[1:]
			}
		}
		return
	}
	if !d.sound(&x.Willing) {
		return
	}
	if x.Role != Upstream {
		d.fail(&x.Willing, fmt.Sprintf("port %s is willing to take settings from its peer, but its role is %s",
			p.Device, x.Role),
			"set role to upstream, or remove willing")
		return
	}
	firsts := make(map[DCBXFeature]*DCBXFeature)
	for i := range x.Willing {
		f := &x.Willing[i]
		if line, twice := repeated(d, firsts, f); twice {
			d.fail(f, fmt.Sprintf("%s is already in willing (line %d)", *f, line), "list it once")
		} else if *f == FeaturePFC && p.FlowControl != FlowAuto {
			d.fail(f, fmt.Sprintf("port %s is willing to take PFC, but its flow_control is %s", p.Device,
				p.FlowControl),
				"write flow_control: auto, or remove pfc from willing")
		}
	}
}

// checkApplications finds the selectors and protocols of the applications.
func checkApplications(d *decoder, x *DCBX) {
	firsts := make(map[[2]uint16]*Application)
	for i := range x.Applications {
		a := &x.Applications[i]
		if !checkApplication(d, a) {
			continue
		}
		is := [2]uint16{uint16(a.Selector), a.Protocol}
		if first := firsts[is]; first != nil {
			d.fail(a, fmt.Sprintf("the application already has a priority (line %d)", d.at[first].line),
				"keep one of the two")
			continue
		}
		firsts[is] = a
	}
}

// checkApplication finds the selector and the protocol of an application, and reports whether it
// has exactly one.
func checkApplication(d *decoder, a *Application) bool {
	k := a.keys
	defer func() { a.keys = applicationKeys{} }()
	if !d.sound(&a.keys.name, &a.keys.ethertype, &a.keys.tcp, &a.keys.udp, &a.keys.port, &a.keys.dscp) {
		return false
	}
	const all = "protocol, ethertype, tcp, udp, port or dscp"
	found := false
	for _, one := range []struct {
		value    any
		selector uint8
		protocol uint16
	}{
		{&a.keys.name, applications[k.name].Selector, applications[k.name].Protocol},
		{&a.keys.ethertype, 1, k.ethertype},
		{&a.keys.tcp, 2, k.tcp}, {&a.keys.udp, 3, k.udp}, {&a.keys.port, 4, k.port}, {&a.keys.dscp, 5, k.dscp},
	} {
		if !d.given(one.value) {
			continue
		}
		if found {
			d.fail(one.value, "an application has two protocols", "keep one of "+all)
			return false
		}
		found, a.Selector, a.Protocol = true, one.selector, one.protocol
	}
	if !found {
		d.fail(a, "an application has no protocol", "add one of "+all)
	}
	return found
}
