// Package config reads the switch's configuration file: YAML in, a validated Config out. It touches
// no device. The control plane checks what depends on the machine, such as whether a device exists,
// and reports it with Config.Problem, so that every message has a line of the file.
//
// The keys of the file, with their defaults and meanings, are defined in keys.go.
package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"sluice/cells/headroom"
	"sluice/internal/config/edit"
	"sluice/internal/config/plaintext"
)

const (
	// MaxFileSize bounds a configuration file, in bytes.
	MaxFileSize = 1 << 20
	// MaxBuffers bounds the number of frame buffers.
	MaxBuffers = 1 << 24
	// BufferReserve is how many bytes of a frame buffer can't hold a frame: the 256 that the kernel
	// keeps free in front of it (XDP_PACKET_HEADROOM, linux/bpf.h), and 128 of UMEM headroom for
	// the header of virtio-net in zero-copy mode.
	BufferReserve = 256 + 128
	// FrameOverhead is how many bytes a frame may be longer than the MTU: Ethernet header and one
	// VLAN tag. See Port.Overhead.
	FrameOverhead = 14 + tagLength
	tagLength     = 4

	page = 4096 // bytes
)

// Config is a valid configuration with all defaults filled in.
type Config struct {
	Workers     []int // CPUs, one worker each; empty: one worker, whose CPU the control plane chooses
	Transmitter Transmitter
	Memory      Memory
	// each CoS is in exactly one; CoS values that the file does not list are in the last one or two
	Classes    []Class
	ETS        []ETSProfile // includes the one called DefaultName
	QoS        []QoSDomain  // includes the one called DefaultName
	PFC        PFC
	Watchdog   Watchdog
	Forwarding Forwarding
	Control    Control
	Metrics    Metrics
	LLDP       LLDP
	DCBX       DCBX
	FCoE       FCoE
	Ports      []Port

	source source
}

// MemoryProfile names a switch whose memory is imitated.
type MemoryProfile string

// The memory profiles. Source for the Nexus: Cisco, Priority Flow Control: Build Reliable Layer 2
// Infrastructure, 2009.
const (
	Generic   MemoryProfile = "generic"   // a cell is a whole buffer
	Nexus5000 MemoryProfile = "nexus5000" // cells of 160 bytes, 480 KiB of them per port
	Nexus2000 MemoryProfile = "nexus2000" // cells of 80 bytes; the document does not say how many
)

// Memory is the memory for frames.
type Memory struct {
	Buffers    int // number of frame buffers
	BufferSize int // bytes, a power of two
	Profile    MemoryProfile
	Cell       int // bytes per accounting cell
	PortBuffer int // bytes, in cells, in the accounts of each port; 0: all there is
	// percent of the shared memory for lossless classes only, the rest for lossy ones; 0: one pool
	LosslessPool  int
	HeadroomRatio float64 // factor by which the sum of all headrooms may exceed the memory kept for them, 1 to 100
}

// Whole returns the length in bytes of the longest frame that one buffer holds. Longer frames
// occupy several buffers.
func (m *Memory) Whole() int { return m.BufferSize - BufferReserve }

// Part returns how many bytes of a frame that occupies several buffers each of them holds, except
// the last: at least this many. In zero-copy mode, which needs buffers of a page for such frames,
// the kernel may keep 320 bytes of each for a struct skb_shared_info, and drivers round down to 128
// (see pmd/afxdp).
func (m *Memory) Part() int {
	if m.BufferSize < page {
		return m.Whole()
	}
	return (m.Whole() - 320) / 128 * 128
}

// Class is the memory and the loss policy of a set of CoS values, the same on every port.
// Scheduling is in the ETSProfile. Sizes are in bytes.
type Class struct {
	Name       string
	CoS        []int
	Lossless   bool
	Reserved   int  // guaranteed to each (port, CoS)
	Share      int  // limit of each (port, CoS) in the shared memory; 0 if Alpha is not
	Alpha      int  // instead of Share: limit in cells.AlphaUnits of the free shared memory; 0: Share counts
	Headroom   int  // lossless: kept for each (port, CoS); 0: see Port.HeadroomOf
	XON        int  // lossless: the peer may send again when use falls to XON or to XONOffset below the limit,
	XONOffset  int  // whichever is higher; XONOffset 0: XON alone counts
	QueueLimit int  // lossy: length at which each egress queue drops; 0 if QueueAlpha is not, and for lossless: never
	QueueAlpha int  // lossy, instead of QueueLimit: in cells.AlphaUnits of the free memory for queues
	WRED       WRED // early detection in each egress queue; lossless: only with ECN
	ECN        bool // WRED marks ECN-capable frames; it drops others or, if Lossless, lets them pass
}

// WRED is random early detection: between Min and Max the probability of a drop, or mark, rises
// from 0 to Probability; above Max it is 1. Source: S. Floyd, V. Jacobson, "Random Early Detection
// Gateways for Congestion Avoidance", 1993.
type WRED struct {
	Min, Max    int // bytes of an egress queue; Max 0: no WRED
	Probability int // percent
	// 0 to 16: with each frame the average length moves towards the real one by 2^-Smoothing of the
	// difference
	Smoothing int
}

// PFC is how priorities are paused.
type PFC struct {
	Enabled bool
	Quanta  uint16 // duration that a PFC frame asks for, in quanta of 512 bit times of the link
	Refresh uint16 // quanta until it is repeated at the latest, see Port.Refresh; below Quanta
	// Asymmetric: the peer may pause every priority, lossy ones too; the switch pauses only
	// lossless ones.
	Asymmetric bool

	prioPFC []bool // from the file, by CoS: lossless; Classes agree
}

// WatchdogAction is what the watchdog does with a priority in a pause storm.
type WatchdogAction string

// The watchdog actions.
const (
	WatchdogAlert   WatchdogAction = "alert"   // count and report the storm
	WatchdogDrop    WatchdogAction = "drop"    // drop its frames, and do not pause the senders
	WatchdogForward WatchdogAction = "forward" // send despite the pause
	WatchdogOff     WatchdogAction = "off"     // do not look for storms
)

// Watchdog is how pause storms are detected and handled.
type Watchdog struct {
	Action      WatchdogAction
	Detection   time.Duration // a storm: paused for this long with frames to send
	Restoration time.Duration // its end: frames may leave again for this long
}

// ForwardingMode is how the egress port is determined.
type ForwardingMode string

// The forwarding modes.
const (
	Bridge    ForwardingMode = "bridge" // by VLAN and FDB
	WirePairs ForwardingMode = "wire"   // from each port to its Peer
)

// LoopGuard is what the switch does about a loop through its ports.
type LoopGuard string

// The kinds of loop guard.
const (
	LoopAlert LoopGuard = "alert" // report it
	LoopShut  LoopGuard = "shut"  // also shut one of the ports for a time
	LoopOff   LoopGuard = "off"   // do not look for it
)

// Forwarding is where frames go.
type Forwarding struct {
	Mode   ForwardingMode
	Wires  []Wire
	Ageing time.Duration // of learned FDB entries
	Table  int           // maximum number of FDB entries, including static ones
	Static []StaticEntry // bridge mode; no address twice in a VLAN
	// FloodQueues: flooded frames of lossy classes wait in four queues for the eight CoS values
	// (Huawei, CX11x, CX31x and CX91x Series Switch Modules, Configuration Guide 12, table 10-10),
	// not in the queues of their CoS. Bridge mode only.
	FloodQueues bool
	LoopGuard   LoopGuard // LoopOff in wire mode
}

// Metrics is where the switch serves Prometheus metrics.
type Metrics struct {
	Listen    string // IP address and port; without an address: all addresses; empty: nowhere
	WebConfig string // file that configures TLS and passwords; empty: neither
}

// Port returns the TCP port of Listen, or 0 if that is empty.
func (m *Metrics) Port() uint16 {
	number, _ := strconv.ParseUint(m.Listen[strings.LastIndexByte(m.Listen, ':')+1:], 10, 16)
	return uint16(number)
}

// MAC is a unicast MAC address.
type MAC [6]byte

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// StaticEntry is an FDB entry that exists from the start, never ages and never moves.
type StaticEntry struct {
	MAC    MAC
	VLAN   uint16
	Device string
	Port   int // number of a port that is a member of VLAN
}

// Wire is the devices at the two ends of a wire.
type Wire [2]string

// XDPMode is how frames get between device and memory.
type XDPMode string

// The XDP modes.
const (
	Auto     XDPMode = "auto" // zero-copy if the driver supports it
	Copy     XDPMode = "copy"
	ZeroCopy XDPMode = "zero-copy"
)

// FlowControl is how a port and its peer pause each other.
type FlowControl string

// The kinds of flow control.
const (
	FlowPFC   FlowControl = "pfc"   // by priority (IEEE 802.1Qbb)
	FlowAuto  FlowControl = "auto"  // the same, for the priorities that were agreed by DCBX
	FlowPause FlowControl = "pause" // all priorities at once (IEEE 802.3x); the port neither sends nor honours PFC
	FlowOff   FlowControl = "off"   // none
)

// Link is how frames of a port are tagged.
type Link string

// The kinds of link.
const (
	Transparent Link = "transparent" // frames leave tagged or untagged, as they came
	Access      Link = "access"      // frames are untagged in both directions; VLANs is only the PVID
	Trunk       Link = "trunk"       // frames leave tagged, those of the PVID untagged
)

// STag is how frames with an S-tag are handled, the service tag of IEEE 802.1ad (TPID 0x88A8).
type STag string

// The ways to handle them.
const (
	STagDrop STag = "drop"
	STagPCP  STag = "pcp" // they keep it; its PCP selects the CoS; their VLAN is that of untagged frames
)

// Storm bounds received frames that would be flooded, in frames per second; 0: no limit.
type Storm struct{ Broadcast, Multicast, Unknown int }

// Port is one port of the switch. Its index in Config.Ports is its number.
type Port struct {
	Device      string
	Speed       uint64 // bit/s; see SendRate
	LinkSpeed   uint64 // bit/s; the rate for pauses and headroom, here and at the peer
	MTU         int    // bytes; frames may be Overhead longer
	PeerMTU     int    // bytes; MTU of frames of lossless classes; at most MTU
	Link        Link   // Transparent in wire mode
	VLANs       []VLANRange
	PVID        uint16      // a member of VLANs
	STag        STag        // STagDrop on access ports
	MACLimit    int         // maximum number of learned FDB entries; 0: limited by the table only
	Storm       Storm       // bounds floods that this port receives
	ETSName     string      // name in Config.ETS
	QoSName     string      // name in Config.QoS
	FlowControl FlowControl // FlowOff when PFC is not enabled
	Metres      float64     // length of the cable
	Medium      headroom.Medium
	Response    time.Duration // from XOFF until the peer stops, beyond what the standard allows
	InFlight    int           // maximum bytes in the TX ring
	Mode        XDPMode
	TX          TXEngine
	BusyPoll    bool  // the worker's CPU does the device's work instead of its interrupts
	Worker      int   // index into Workers; 0 if Workers is empty
	DefaultCoS  uint8 // of untagged frames
	LLDP        LLDPMode
	DCBX        PortDCBX
	FCoE        PortFCoE

	// Derived from the keys, and from what OnLinks knows of the link.

	PFC          uint8       // bit n: priority n is lossless on this port; see Lossless
	ETS          *ETSProfile // one of Config.ETS, or what the peer recommends
	QoS          *QoSDomain  // one of Config.QoS
	ControlAhead int         // PFC frames that the device may hold ahead of one that stops another priority
	Peer         int         // number of the port at the other end of the wire; -1 in bridge mode
	Headroom     int         // bytes in whole cells that a lossless class needs, see HeadroomOf
	Parts        int         // maximum number of buffers that a frame occupies
	Refresh      uint16      // quanta until XOFF is repeated: PFC.Refresh or less, see LatestRefresh

	// bit n: memory is kept for priority n to be lossless: PFC and, with FlowAuto, the lossless
	// classes of the file
	kept uint8
}

// Overhead returns how many bytes a frame may be longer than the MTU: Ethernet header and the tags
// that the port accepts.
func (p *Port) Overhead() int {
	if p.STag == STagPCP {
		return FrameOverhead + tagLength // a C-tag behind the S-tag
	}
	return FrameOverhead
}

// MaxFrame and MaxLossless return the maximum length in bytes of the port's frames, and of those of
// lossless classes.
func (p *Port) MaxFrame() int    { return p.MTU + p.Overhead() }
func (p *Port) MaxLossless() int { return p.PeerMTU + p.Overhead() }

// DeviceMTU returns the least MTU that the port's device may have. Drivers accept frames of the MTU
// plus FrameOverhead; longer overhead has to be part of the MTU.
func (p *Port) DeviceMTU() int { return p.MaxFrame() - FrameOverhead }

// HeadroomOf returns the bytes that a lossless class keeps on the port for each CoS: its configured
// headroom, or what the port needs; one cell without flow control.
func (p *Port) HeadroomOf(class *Class) int {
	if class.Headroom > 0 && p.FlowControl != FlowOff {
		return class.Headroom
	}
	return p.Headroom
}

// VLANRange is the VLANs from First to Last, inclusive.
type VLANRange struct{ First, Last uint16 }

func (r VLANRange) String() string {
	if r.First == r.Last {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Class returns the class of a CoS, 0 to 7.
func (c *Config) Class(cos int) *Class {
	for i := range c.Classes {
		for _, of := range c.Classes[i].CoS {
			if of == cos {
				return &c.Classes[i]
			}
		}
	}
	panic(fmt.Sprintf("config: CoS %d is in no class", cos))
}

// ErrUnreadable means that there is no such file, or that this process may not read it.
var ErrUnreadable = plaintext.ErrUnreadable

// Load reads and validates a file. If its contents are wrong the error is Errors; if it can't be
// read, ErrUnreadable.
func Load(path string) (*Config, error) {
	data, err := plaintext.Read(path, MaxFileSize+1)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// SendRate returns the rate at which the port sends: Speed, but at most LinkSpeed, bit/s.
func (p *Port) SendRate() uint64 { return min(p.Speed, p.LinkSpeed) }

// ControlsFlow reports whether a port pauses its peer or honours its peer's pauses, or may do so
// once it has agreed on that.
func (c *Config) ControlsFlow(p *Port) bool {
	return p.Pauses() || p.FlowControl != FlowOff && c.PFC.Asymmetric
}

// Pauses reports whether a port pauses its peer, or may do so once it has agreed on that.
func (p *Port) Pauses() bool {
	return p.FlowControl == FlowAuto || p.FlowControl != FlowOff && p.PFC != 0
}

// Parse validates the contents of a file. name is what messages call the file. The error, if any,
// is Errors.
func Parse(name string, data []byte) (*Config, error) { return parse(name, data, nil, nil) }

// OnLinks returns the Config that the same file describes on these links, by device. A reported
// rate overrides link_speed. The error, if any, is Errors: the file may not fit the rate of a link,
// or what a port and its peer agreed on (Error.Port).
func (c *Config) OnLinks(facts map[string]LinkFacts) (*Config, error) {
	on := func(facts map[string]LinkFacts) (*Config, error) {
		return parse(c.source.file, c.source.text, facts, c.source.edits)
	}
	next, err := on(facts)
	if err != nil {
		err = c.Blame(facts, err, func(facts map[string]LinkFacts) error {
			_, err := on(facts)
			return err
		})
	}
	return next, err
}

func parse(name string, data []byte, facts map[string]LinkFacts, edits []edit.Line) (*Config, error) {
	d := &decoder{
		source:  source{file: name, text: data, at: make(map[any]position), edits: edits},
		unsound: make(map[any]bool), facts: facts,
	}
	c := new(Config)
	if root := d.document(data); root != nil {
		for i := range edits {
			if !edits[i].Apply(root) {
				panic(fmt.Sprintf("config: no place for an edit at %d:%d", edits[i].Row, edits[i].Column))
			}
		}
		read(d, root, mapping("the file", fileKeys), "the file", c)
		if d.sound(c) {
			check(d, c)
		}
	}
	if len(d.errors) > 0 {
		return nil, d.errors.Sort()
	}
	c.source = d.source
	return c, nil
}
