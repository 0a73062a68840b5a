package config

import (
	"fmt"
	"math"
	"net"

	"sluice/internal/config/scalar"
)

// FCoEMTU is the least MTU for FCoE: the Ethernet payload of the longest Fibre Channel frame.
const FCoEMTU = 2158

// FCoE is FIP snooping: hosts (ENodes) reach only FCoE forwarders (FCFs) that they have logged in
// to, from the addresses that these gave them. Without Instances there is none.
type FCoE struct {
	// the maximum number of each in all VLANs together
	MaxFCFs, MaxENodes, MaxSessions, MaxPending int
	Instances                                   []FCoEInstance
}

// FCoEInstance is snooping in one VLAN, which carries nothing but FCoE and FIP.
type FCoEInstance struct {
	Name          string
	VLAN          uint16
	FCMap         uint32  // 24 bits: the first three bytes of VN_Ports' addresses
	FCFs          []MAC   // those that are accepted; empty: all
	AgeMultiplier float64 // keep-alive periods after which a silent FCF or ENode is gone, in steps of 0.1
	SPMA          bool    // ENodes may choose the addresses of their VN_Ports (server-provided MAC addresses)
}

// FCoERole is what a port faces.
type FCoERole string

// The roles.
const (
	FCoEENode   FCoERole = "enode"   // hosts
	FCoEFCF     FCoERole = "fcf"     // FCoE forwarders
	FCoETrusted FCoERole = "trusted" // another switch with FIP snooping

	fcoeVNP FCoERole = "vnp" // another name of FCoEFCF
)

// PortFCoE is FIP snooping on a port. The numbers are the maximum of each on the port.
type PortFCoE struct {
	Role                               FCoERole
	ENodes                             []ENode // those that may log in here, and nowhere else; empty: all others
	MaxENodes, MaxSessions, MaxPending int
}

// ENode names a host by its MAC address, or by the WWPN of a login; the other one is zero.
type ENode struct {
	MAC  MAC
	WWPN [8]byte
}

func (e ENode) String() string {
	if e.MAC != (MAC{}) {
		return e.MAC.String()
	}
	return net.HardwareAddr(e.WWPN[:]).String()
}

// What ports that face hosts may have by default.
const (
	portENodes   = 64
	portSessions = 256
	portPending  = 256
)

var fcoeKeys = []key[FCoE]{
	optional("instances", "[]", "the VLANs with FIP snooping, each with its settings; none: FCoE is ordinary traffic; "+
		"with one or more, FCoE in all other VLANs is dropped",
		list(0, maxFCoEVLANs, mapping("instance", fcoeInstanceKeys)),
		func(f *FCoE) *[]FCoEInstance { return &f.Instances }),
	optional("max_fcfs", "32", "the maximum number of FCFs",
		integer(1, 1024), func(f *FCoE) *int { return &f.MaxFCFs }),
	optional("max_enodes", "1024", "the maximum number of ENodes that have logged in",
		integer(1, maxFCoE), func(f *FCoE) *int { return &f.MaxENodes }),
	optional("max_sessions", "4096", "the maximum number of sessions, one for each VN_Port that has logged in",
		integer(1, maxFCoE), func(f *FCoE) *int { return &f.MaxSessions }),
	optional("max_pending", "4096", "the maximum number of logins that wait for the answer of an FCF",
		integer(1, maxFCoE), func(f *FCoE) *int { return &f.MaxPending }),
}

const (
	maxFCoEVLANs = 64
	maxFCoE      = 1 << 16
)

var fcoeInstanceKeys = []key[FCoEInstance]{
	required("name", "the name of the instance in reports and metrics",
		name(32, "the name of an instance"), func(i *FCoEInstance) *string { return &i.Name }),
	required("vlan", "the FCoE VLAN; it carries FCoE and FIP, and everything else in it is dropped",
		integer[uint16](1, 4094), func(i *FCoEInstance) *uint16 { return &i.VLAN }),
	optional("fc_map", "0EFC00", "the FC-MAP: the first three bytes of the addresses of VN_Ports",
		single(scalar.FCMap()), func(i *FCoEInstance) *uint32 { return &i.FCMap }),
	optional("fcfs", "[]", "the MAC addresses of the FCFs that are accepted; empty: all",
		list(0, 1024, unicast()), func(i *FCoEInstance) *[]MAC { return &i.FCFs }),
	optional("age_multiplier", "2.5", "after how many keep-alive periods a silent FCF or ENode is forgotten, "+
		"with its sessions; in steps of 0.1",
		decimal(2.5, 5), func(i *FCoEInstance) *float64 { return &i.AgeMultiplier }),
	optional("spma", "false", "true: hosts may choose the addresses of their VN_Ports (server-provided MAC "+
		"addresses); false: FCFs assign them",
		boolean(), func(i *FCoEInstance) *bool { return &i.SPMA }),
}

var portFCoEKeys = []key[PortFCoE]{
	optional("role", "enode", "enode: the port faces hosts, which are not trusted; fcf or vnp: it faces FCFs; "+
		"trusted: it faces another switch with FIP snooping",
		choice(FCoEENode, FCoEFCF, fcoeVNP, FCoETrusted), func(p *PortFCoE) *FCoERole { return &p.Role }),
	optional("enodes", "[]", "the hosts that may log in behind the port, each by its MAC address or the WWPN of a "+
		"login; they can't log in behind ports that do not list them; empty: all hosts that no other port lists",
		list(0, 1024, enode()), func(p *PortFCoE) *[]ENode { return &p.ENodes }),
	optional("max_enodes", "", "the maximum number of ENodes behind the port that have logged in; "+
		"default: 64; with role: trusted, that of the switch",
		integer(1, maxFCoE), func(p *PortFCoE) *int { return &p.MaxENodes }),
	optional("max_sessions", "", "the maximum number of their sessions; "+
		"default: 256; with role: trusted, that of the switch",
		integer(1, maxFCoE), func(p *PortFCoE) *int { return &p.MaxSessions }),
	optional("max_pending", "", "the maximum number of their logins that wait for the answer of an FCF; "+
		"default: 256; with role: trusted, that of the switch",
		integer(1, maxFCoE), func(p *PortFCoE) *int { return &p.MaxPending }),
}

// checkFCoE applies the rules for FIP snooping. They need what checkVLANs has found.
func checkFCoE(d *decoder, c *Config) {
	f := &c.FCoE
	if len(f.Instances) > 0 && d.sound(&c.Forwarding.Mode) && c.Forwarding.Mode == WirePairs {
		d.fail(&f.Instances, "FIP snooping needs VLANs, which wires do not look at",
			`set "mode: bridge" under forwarding, or remove instances`)
		return
	}
	if m := &c.Memory; len(f.Instances) > 0 && d.sound(&m.BufferSize) && m.Whole() < FCoEMTU+FrameOverhead {
		at := any(&m.BufferSize)
		if !d.given(at) {
			at = &f.Instances
		}
		d.fail(at, fmt.Sprintf("buffers of %d bytes are too small for FIP snooping: a buffer must hold a "+
			"whole FIP frame of %d bytes", m.BufferSize, FCoEMTU+FrameOverhead),
			fmt.Sprintf("set memory.buffer_size to %dB", page))
	}
	names, vlans := make(map[string]*string), make(map[uint16]*uint16)
	for i := range f.Instances {
		in := &f.Instances[i]
		checkName(d, names, &in.Name, "an instance")
		if line, twice := repeated(d, vlans, &in.VLAN); twice {
			d.fail(&in.VLAN, fmt.Sprintf("VLAN %d already has an instance (line %d)", in.VLAN, line),
				"keep one of the two")
			continue
		}
		checkFCoEInstance(d, c, in)
	}
	for i := range c.Ports {
		checkPortFCoE(d, f, &c.Ports[i])
	}
	for i := range c.Forwarding.Static {
		s := &c.Forwarding.Static[i]
		if d.sound(&s.VLAN) && vlans[s.VLAN] != nil {
			d.fail(&s.VLAN, fmt.Sprintf("a static entry is in FCoE VLAN %d, where FIP snooping decides where frames go",
				s.VLAN),
				"remove the entry, or choose another VLAN")
		}
	}
}

// checkFCoEInstance applies the rules for the VLAN of an instance.
func checkFCoEInstance(d *decoder, c *Config, in *FCoEInstance) {
	if d.sound(&in.AgeMultiplier) && float64(in.AgeTenths())/10 != in.AgeMultiplier {
		d.fail(&in.AgeMultiplier, fmt.Sprintf("age_multiplier %g has more than one decimal", in.AgeMultiplier),
			fmt.Sprintf("write %.1f", float64(in.AgeTenths())/10))
	}
	firsts := make(map[MAC]*MAC)
	for i := range in.FCFs {
		if line, twice := repeated(d, firsts, &in.FCFs[i]); twice {
			d.fail(&in.FCFs[i], fmt.Sprintf("FCF %v is already in fcfs (line %d)", in.FCFs[i], line), "list it once")
		}
		if d.sound(&in.FCFs[i], &in.FCMap) && in.FCFs[i].prefix() == in.FCMap {
			d.fail(&in.FCFs[i], fmt.Sprintf("%v begins with the FC-MAP, so it is the address of a VN_Port and not of "+
				"an FCF", in.FCFs[i]), "write the address from which the FCF advertises itself")
		}
	}
	if !d.sound(&in.VLAN, &c.Ports) {
		return
	}
	member := false
	for i := range c.Ports {
		p := &c.Ports[i]
		switch {
		case !d.sound(&p.VLANs, &p.PVID, &p.Link):
			member = true // perhaps
		case p.Member(in.VLAN):
			member = true
			checkFCoEMTU(d, p, in.VLAN)
		}
	}
	if !member {
		d.fail(&in.VLAN, fmt.Sprintf("no port is in VLAN %d, which has FIP snooping", in.VLAN),
			"add it to the vlans of the ports to hosts and to FCFs, or choose another VLAN")
	}
}

// checkFCoEMTU refuses a port in an FCoE VLAN that is too short for FCoE.
func checkFCoEMTU(d *decoder, p *Port, vlan uint16) {
	mtu, name := &p.MTU, "mtu"
	if d.given(&p.PeerMTU) && d.sound(&p.PeerMTU) && p.MTU >= FCoEMTU {
		mtu, name = &p.PeerMTU, "peer_mtu"
	}
	if d.sound(mtu) && *mtu < FCoEMTU {
		d.fail(mtu, fmt.Sprintf("port %s is in FCoE VLAN %d, but its %s of %d is too short for FCoE", p.Device, vlan,
			name, *mtu),
			fmt.Sprintf("set %s to at least %d, or list the vlans of the port without %d", name, FCoEMTU, vlan))
	}
}

// checkPortFCoE fills in the role and the limits of a port, and refuses limits without effect.
func checkPortFCoE(d *decoder, f *FCoE, p *Port) {
	x := &p.FCoE
	if x.Role == fcoeVNP {
		x.Role = FCoEFCF
	}
	if x.Role == FCoEFCF && len(x.ENodes) > 0 {
		d.fail(&x.ENodes, fmt.Sprintf("port %s has enodes, which lists hosts, but its role is fcf", p.Device),
			"remove enodes, or set role to enode or trusted")
	}
	firsts := make(map[ENode]*ENode)
	for i := range x.ENodes {
		if line, twice := repeated(d, firsts, &x.ENodes[i]); twice {
			d.fail(&x.ENodes[i], fmt.Sprintf("ENode %v is already in enodes (line %d)", x.ENodes[i], line),
				"list it once")
		}
	}
	for _, limit := range []struct {
		of               *int
		key              string
		onPort, onSwitch int
	}{
		{&x.MaxENodes, "max_enodes", portENodes, f.MaxENodes},
		{&x.MaxSessions, "max_sessions", portSessions, f.MaxSessions},
		{&x.MaxPending, "max_pending", portPending, f.MaxPending},
	} {
		switch given := d.given(limit.of); {
		case given && d.sound(limit.of, &x.Role) && x.Role == FCoEFCF:
			d.fail(limit.of, fmt.Sprintf("port %s has %s, which counts hosts, but its role is fcf", p.Device,
				limit.key),
				fmt.Sprintf("remove %s, or set role to enode or trusted", limit.key))
		case !given && x.Role == FCoETrusted:
			*limit.of = limit.onSwitch
		case !given:
			*limit.of = min(limit.onPort, limit.onSwitch)
		}
	}
}

// FCoEInstances returns the instances in whose VLANs a port is.
func (c *Config) FCoEInstances(p *Port) (all []*FCoEInstance) {
	for i := range c.FCoE.Instances {
		if in := &c.FCoE.Instances[i]; p.Member(in.VLAN) {
			all = append(all, in)
		}
	}
	return all
}

// AgeTenths returns AgeMultiplier in tenths.
func (i *FCoEInstance) AgeTenths() int { return int(math.Round(i.AgeMultiplier * 10)) }

// prefix returns the first three bytes, which are the FC-MAP in the address of a VN_Port.
func (m MAC) prefix() uint32 { return uint32(m[0])<<16 | uint32(m[1])<<8 | uint32(m[2]) }
