package fcoe

import (
	"encoding/binary"
	"math/bits"

	"sluice/internal/frame"
)

// Operation is the operation of a FIP packet, 16 bits, and its suboperation, 8 bits.
type Operation uint32

// The operations of FIP. Those of VN2VN, for virtual links without an FCF, are read only so that
// they can be named.
const (
	Solicitation      Operation = 1<<8 | 1 // discovery
	Advertisement     Operation = 1<<8 | 2
	LoginRequest      Operation = 2<<8 | 1 // link service: FLOGI, FDISC, LOGO or ELP
	LoginReply        Operation = 2<<8 | 2
	KeepAlive         Operation = 3<<8 | 1
	ClearVirtualLinks Operation = 3<<8 | 2
	VLANRequest       Operation = 4<<8 | 1
	VLANNotification  Operation = 4<<8 | 2
	VN2VNVLANs        Operation = 4<<8 | 3 // notification of VLANs for VN2VN
	VN2VNProbe        Operation = 5<<8 | 1
	VN2VNProbeReply   Operation = 5<<8 | 2
	VN2VNClaim        Operation = 5<<8 | 3
	VN2VNClaimReply   Operation = 5<<8 | 4
	VN2VNBeacon       Operation = 5<<8 | 5
)

// VN2VN returns whether the operation serves virtual links without an FCF.
func (o Operation) VN2VN() bool { return o == VN2VNVLANs || o>>8 == 5 }

// Discovers reports whether a FIP payload, sent to an address, is of discovery, and so part of no
// session: a solicitation, a VLAN request, or an advertisement to a group. The payload may break
// any rule of the format.
func Discovers(payload []byte, dst frame.MAC) bool {
	if len(payload) < fipHeader {
		return false
	}
	switch readOperation(payload) {
	case Solicitation, VLANRequest:
		return true
	case Advertisement:
		return dst.Group()
	}
	return false
}

func readOperation(payload []byte) Operation {
	return Operation(binary.BigEndian.Uint16(payload[2:]))<<8 | Operation(payload[5])
}

// Flags are the flags of a FIP packet.
type Flags uint16

// Flags, with the names of FC-BB-5.
const (
	FP        Flags = 0x8000 // fabric-provided MAC addresses are asked for, supported or granted
	SP        Flags = 0x4000 // the same for server-provided ones
	FCF       Flags = 0x0020
	FDF       Flags = 0x0010
	RECP2P    Flags = 0x0008 // VN2VN: record the address, or point-to-point
	Available Flags = 0x0004 // A: the FCF accepts logins
	Solicited Flags = 0x0002 // S: the advertisement answers a solicitation
	FromFCF   Flags = 0x0001 // F: an FCF sent the packet
)

// Descriptor is the type of a descriptor. Packets with a critical one, 0 to 127, that the receiver
// does not know are invalid; it ignores others.
type Descriptor uint8

// The descriptors of FIP.
const (
	DescPriority Descriptor = 1
	DescMAC      Descriptor = 2
	DescFCMap    Descriptor = 3
	DescName     Descriptor = 4
	DescFabric   Descriptor = 5
	DescMaxSize  Descriptor = 6
	DescFLOGI    Descriptor = 7
	DescFDISC    Descriptor = 8
	DescLOGO     Descriptor = 9
	DescELP      Descriptor = 10 // exchange link parameters, between FCFs
	DescVxPort   Descriptor = 11
	DescPeriod   Descriptor = 12 // FKA_ADV_Period
	DescVendor   Descriptor = 13
	DescVLAN     Descriptor = 14
	DescFC4      Descriptor = 15 // FC-4 attributes, for VN2VN

	known         = 16  // descriptors from here on are unknown
	firstOptional = 128 // and ignored from here on
)

// set is a set of known descriptors.
type set uint16

func of(all ...Descriptor) (s set) {
	for _, d := range all {
		s |= 1 << d
	}
	return s
}

func (s set) has(d Descriptor) bool { return s>>d&1 != 0 }

var services, repeatable = of(DescFLOGI, DescFDISC, DescLOGO, DescELP), of(DescVxPort, DescVLAN)

// content says which descriptors a packet of an operation must have and which it may have too.
type content struct{ must, may set }

// contents follows the tables of FC-BB-5 clause 7.7.7, as far as Linux and Wireshark show them. A
// name in a VLAN request and the MAC address of a reply to LOGO or with a reject are optional
// because implementations differ.
var contents = map[Operation]content{
	Solicitation:      {of(DescMAC, DescName, DescMaxSize), of(DescFCMap, DescVendor)},
	Advertisement:     {of(DescPriority, DescMAC, DescName, DescFabric, DescPeriod), of(DescVendor)},
	LoginRequest:      {of(DescMAC), services | of(DescVendor)},
	LoginReply:        {0, services | of(DescMAC, DescVendor)},
	KeepAlive:         {of(DescMAC), of(DescVxPort, DescVendor)},
	ClearVirtualLinks: {of(DescMAC, DescName), of(DescVxPort, DescVendor)},
	VLANRequest:       {of(DescMAC), of(DescName, DescVendor)},
	VLANNotification:  {of(DescMAC), of(DescVLAN, DescName, DescVendor)},
	VN2VNVLANs:        {of(DescMAC), of(DescVLAN, DescName, DescVendor)},
	VN2VNProbe:        vn2vn,
	VN2VNProbeReply:   vn2vn,
	VN2VNClaim:        vn2vn,
	VN2VNClaimReply:   vn2vn,
	VN2VNBeacon:       vn2vn,
}

var vn2vn = content{of(DescMAC, DescName, DescVxPort), of(DescMaxSize, DescFC4, DescVendor)}

// lengths are the lengths of descriptors in words of 4 bytes, including type and length: two that
// are allowed besides that of a reject.
var lengths = [known][2]uint8{DescPriority: {1}, DescMAC: {2}, DescFCMap: {2}, DescName: {3}, DescFabric: {4},
	DescMaxSize: {1}, DescFLOGI: {36}, DescFDISC: {36}, DescLOGO: {11, 8}, DescELP: {33}, DescVxPort: {5},
	DescPeriod: {2}, DescVendor: {3}, DescVLAN: {1}, DescFC4: {41}}

// requests are the commands that the descriptors of link services may have in a request.
var requests = [known]Command{DescFLOGI: FLOGI, DescFDISC: FDISC, DescLOGO: LOGO}

const (
	fipHeader    = 10
	fipVersion   = 1
	word         = 4
	rejectWords  = (serviceStart + HeaderLength + rejectLength) / word
	serviceStart = 4 // of the Fibre Channel frame in its descriptor
)

// Packet is a FIP packet. Its slices are valid until the packet is parsed again; FC aliases what
// was parsed.
type Packet struct {
	Op    Operation
	Flags Flags

	Priority uint8     // of an FCF; the lowest is preferred
	MAC      frame.MAC // of the sender; the one asked for or granted in a login; of the FCF to clear
	FCMap    uint32
	Name     WWN // of the node or switch
	Fabric   Fabric
	MaxSize  uint16 // Max_FCoE_Size in bytes: longest payload of an Ethernet frame with FCoE
	Period   Period
	Vendor   uint64   // vendor ID; 0: none
	VLANs    []uint16 // FCoE VLANs that are offered; 12 bits each
	VxPorts  []VxPort

	Service Descriptor // of the link service, DescFLOGI to DescELP; 0: none
	ELS     ELS        // of the service unless it is DescELP
	FC      []byte     // of the service as received

	has set
}

// Fabric describes the fabric of an FCF.
type Fabric struct {
	VFID  uint16
	FCMap uint32
	Name  WWN
}

// Period is FKA_ADV_Period: how often an FCF advertises itself and ENodes send keep-alives.
type Period struct {
	Millis      uint32
	NoKeepAlive bool // D: ENodes and VN_Ports need not send any
}

// VxPort identifies a VN_Port or, from an FCF, its VF_Port.
type VxPort struct {
	MAC  frame.MAC
	ID   FCID
	Name WWN
}

// Has returns whether a parsed packet has the descriptor.
func (p *Packet) Has(d Descriptor) bool { return d < known && p.has.has(d) }

// Parse reads what follows the EtherType of FIP into p, all of it before it returns OK. With
// another result only Op and Flags are valid; Op is 0 if the header is not. What stands behind the
// descriptors is padding. Parse allocates only if the slices of p are too small.
func Parse(payload []byte, p *Packet) Problem {
	*p = Packet{VLANs: p.VLANs[:0], VxPorts: p.VxPorts[:0]}
	if len(payload) < fipHeader {
		return Truncated
	}
	if payload[0]>>4 != fipVersion {
		return BadVersion
	}
	if len(payload) > MaxPayload { // it fits no port that FCoE fits
		return BadLength
	}
	p.Op = readOperation(payload)
	p.Flags = Flags(binary.BigEndian.Uint16(payload[8:]))
	allowed, ok := contents[p.Op]
	if !ok {
		return BadOperation
	}
	length := int(binary.BigEndian.Uint16(payload[6:])) * word
	if len(payload)-fipHeader < length {
		return Truncated
	}
	if problem := p.parseList(payload[fipHeader:][:length], allowed); problem != OK {
		return problem
	}
	return p.checkService(allowed)
}

// parseList reads the descriptors.
func (p *Packet) parseList(list []byte, allowed content) Problem {
	for rest := list; len(rest) > 0; {
		kind, words := Descriptor(rest[0]), rest[1]
		length := int(words) * word
		if length == 0 || length > len(rest) {
			return BadLength
		}
		d := rest[:length]
		first := len(rest) == len(list)
		rest = rest[length:]
		switch {
		case kind >= firstOptional:
			continue
		case kind >= known || kind == 0:
			return UnknownCritical
		case !(allowed.must | allowed.may).has(kind):
			return Unexpected
		case p.has.has(kind) && !(repeatable.has(kind) && p.Op != KeepAlive),
			services.has(kind) && p.has&services != 0:
			return Duplicate
		case services.has(kind) && !first:
			return BadOrder
		case words != lengths[kind][0] && words != lengths[kind][1] && !(services.has(kind) && words == rejectWords):
			return BadDescriptor
		}
		p.has |= 1 << kind
		p.parseDescriptor(kind, d)
	}
	if p.has&allowed.must != allowed.must {
		return Missing
	}
	return OK
}

// parseDescriptor reads one descriptor, whose length is right.
func (p *Packet) parseDescriptor(kind Descriptor, d []byte) {
	switch kind {
	case DescPriority:
		p.Priority = d[3]
	case DescMAC:
		p.MAC = frame.MACFrom(d[2:])
	case DescFCMap:
		p.FCMap = get24(d[5:])
	case DescName:
		p.Name = WWN(binary.BigEndian.Uint64(d[4:]))
	case DescFabric:
		p.Fabric = Fabric{VFID: binary.BigEndian.Uint16(d[2:]), FCMap: get24(d[5:]),
			Name: WWN(binary.BigEndian.Uint64(d[8:]))}
	case DescMaxSize:
		p.MaxSize = binary.BigEndian.Uint16(d[2:])
	case DescPeriod:
		p.Period = Period{Millis: binary.BigEndian.Uint32(d[4:]), NoKeepAlive: d[3]&1 != 0}
	case DescVendor:
		p.Vendor = binary.BigEndian.Uint64(d[4:])
	case DescVLAN:
		p.VLANs = append(p.VLANs, binary.BigEndian.Uint16(d[2:])&0xfff)
	case DescVxPort:
		p.VxPorts = append(p.VxPorts, VxPort{MAC: frame.MACFrom(d[2:]), ID: FCID(get24(d[9:])),
			Name: WWN(binary.BigEndian.Uint64(d[12:]))})
	case DescFLOGI, DescFDISC, DescLOGO, DescELP:
		p.Service, p.FC = kind, d[serviceStart:]
	}
}

// checkService reads the link service of a request or reply and checks that it is one.
func (p *Packet) checkService(allowed content) Problem {
	if allowed.may&services == 0 {
		return OK
	}
	switch p.Service {
	case 0:
		return Missing
	case DescELP:
		if reject := len(p.FC) == rejectWords*word-serviceStart; reject && p.Op == LoginRequest {
			return BadDescriptor
		}
		return OK
	}
	if ParseELS(p.FC, &p.ELS) != OK {
		return BadELS
	}
	switch reply := p.Op == LoginReply; {
	case !reply && p.ELS.Command != requests[p.Service],
		reply && p.ELS.Command != Accept && p.ELS.Command != Reject,
		p.ELS.Command == Accept && p.ELS.HasParameters != (p.Service != DescLOGO):
		return BadELS
	case p.ELS.Command == Accept && p.ELS.HasParameters && !p.Has(DescMAC):
		return Missing
	}
	return OK
}

// Append appends what follows the EtherType of FIP: the descriptors that the operation requires,
// and those of the ones it allows that are not empty in p. FC is written for DescELP only,
// otherwise ELS. A packet that is too short for Ethernet is not padded.
func (p *Packet) Append(b []byte) []byte {
	start := len(b)
	b = append(b, fipVersion<<4, 0, byte(p.Op>>16), byte(p.Op>>8), 0, byte(p.Op), 0, 0, byte(p.Flags>>8), byte(p.Flags))
	if p.Service != 0 {
		at := len(b)
		b = append(b, byte(p.Service), 0, 0, 0)
		if p.Service == DescELP {
			b = append(b, p.FC...)
		} else {
			b = p.ELS.Append(b)
		}
		b[at+1] = byte((len(b) - at) / word)
	}
	write := contents[p.Op].must | contents[p.Op].may&p.filled()
	for rest := write &^ services; rest != 0; rest &= rest - 1 {
		b = p.appendDescriptor(b, Descriptor(bits.TrailingZeros16(uint16(rest))))
	}
	binary.BigEndian.PutUint16(b[start+6:], uint16((len(b)-start-fipHeader)/word))
	return b
}

// filled returns which descriptors are not empty, of those that some operation leaves optional. An
// accepted login has an address, be it zero.
func (p *Packet) filled() (s set) {
	for d, filled := range [known]bool{DescMAC: p.MAC != 0 || p.ELS.HasParameters, DescFCMap: p.FCMap != 0,
		DescName: p.Name != 0, DescMaxSize: p.MaxSize != 0, DescVxPort: len(p.VxPorts) > 0,
		DescVendor: p.Vendor != 0, DescVLAN: len(p.VLANs) > 0} {
		if filled {
			s |= 1 << d
		}
	}
	return s
}

// appendDescriptor appends the descriptor of one type, or all of a type that may be repeated.
func (p *Packet) appendDescriptor(b []byte, kind Descriptor) []byte {
	switch kind {
	case DescVLAN:
		for _, vid := range p.VLANs {
			b = append(b, byte(kind), 1, byte(vid>>8), byte(vid))
		}
		return b
	case DescVxPort:
		for _, v := range p.VxPorts {
			b = appendVxPort(b, v)
		}
		return b
	}
	var d [16]byte // the longest of the others
	d[0], d[1] = byte(kind), lengths[kind][0]
	switch kind {
	case DescPriority:
		d[3] = p.Priority
	case DescMAC:
		p.MAC.Put(d[2:])
	case DescFCMap:
		put24(d[5:], p.FCMap)
	case DescName:
		binary.BigEndian.PutUint64(d[4:], uint64(p.Name))
	case DescFabric:
		binary.BigEndian.PutUint16(d[2:], p.Fabric.VFID)
		put24(d[5:], p.Fabric.FCMap)
		binary.BigEndian.PutUint64(d[8:], uint64(p.Fabric.Name))
	case DescMaxSize:
		binary.BigEndian.PutUint16(d[2:], p.MaxSize)
	case DescPeriod:
		if p.Period.NoKeepAlive {
			d[3] = 1
		}
		binary.BigEndian.PutUint32(d[4:], p.Period.Millis)
	case DescVendor:
		binary.BigEndian.PutUint64(d[4:], p.Vendor)
	}
	return append(b, d[:int(d[1])*word]...)
}

func appendVxPort(b []byte, v VxPort) []byte {
	var d [20]byte
	d[0], d[1] = byte(DescVxPort), lengths[DescVxPort][0]
	v.MAC.Put(d[2:])
	put24(d[9:], uint32(v.ID))
	binary.BigEndian.PutUint64(d[12:], uint64(v.Name))
	return append(b, d[:]...)
}

// Pad appends zeros until b has n bytes. An FCF pads a solicited advertisement so that the payload
// of the Ethernet frame is as long as the Max_FCoE_Size of the solicitation: if it arrives, FCoE
// frames will.
func Pad(b []byte, n int) []byte {
	if len(b) < n {
		b = append(b, make([]byte, n-len(b))...)
	}
	return b
}
