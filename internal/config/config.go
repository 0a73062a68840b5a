// Package config reads the switch's configuration file: YAML in, a validated Config out. It touches
// no device; what only the machine can tell, such as whether a device exists, is for the control
// plane to check, which reports it with Config.Problem so that every message names the line of the
// file that it is about.
//
// The keys of the file, with their defaults and meanings, stand in keys.go and nowhere else.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/cells/headroom"
)

const (
	// MaxFileSize bounds a configuration file, in bytes.
	MaxFileSize = 1 << 20
	// MaxBuffers bounds the number of frame buffers.
	MaxBuffers = 1 << 24
	// BufferReserve is how many bytes of a frame buffer can't hold a frame: the 256 that the kernel
	// keeps free in front of it (XDP_PACKET_HEADROOM, linux/bpf.h), and 128 of UMEM headroom, which
	// virtio-net needs for its header in zero-copy mode.
	BufferReserve = 256 + 128
	// FrameOverhead is how many bytes a frame may be longer than the MTU: Ethernet header and one
	// VLAN tag. See Port.Overhead.
	FrameOverhead = 14 + tagLength
	tagLength     = 4
)

// Config is a valid configuration with all defaults filled in.
type Config struct {
	Workers     []int // CPUs, one worker each; empty: one worker, on a CPU of the control plane's choice
	Transmitter Transmitter
	Memory      Memory
	// each CoS is in exactly one; those that the file does not list are in the last, or the last
	// two
	Classes    []Class
	ETS        []ETSProfile // the one called DefaultName is always there
	QoS        []QoSDomain  // the one called DefaultName is always there
	PFC        PFC
	Watchdog   Watchdog
	Forwarding Forwarding
	Control    Control
	Metrics    Metrics
	Ports      []Port

	source source
}

// MemoryProfile names a switch whose memory is imitated.
type MemoryProfile string

// The memory profiles. Source of the Nexus: Cisco, Priority Flow Control: Build Reliable Layer 2
// Infrastructure, 2009.
const (
	Generic   MemoryProfile = "generic"   // a cell is a whole buffer
	Nexus5000 MemoryProfile = "nexus5000" // cells of 160 bytes, 480 KiB of them to a port
	Nexus2000 MemoryProfile = "nexus2000" // cells of 80 bytes; the document does not say how many
)

// Memory is the memory for frames.
type Memory struct {
	Buffers    int // number of frame buffers
	BufferSize int // bytes, a power of two
	Profile    MemoryProfile
	Cell       int // bytes of accounting cell
	PortBuffer int // bytes, in cells, that the accounts of a port hold; 0: all there is
	// percent of the shared memory for lossless classes only, the rest for lossy ones; 0: one pool
	LosslessPool  int
	HeadroomRatio float64 // by what factor all headrooms may exceed the memory kept for them, 1 to 100
}

// Class is what memory a set of CoS values has and what may be lost of it, on every port alike;
// when its frames leave is for the ETSProfile to say. Sizes are in bytes.
type Class struct {
	Name       string
	CoS        []int
	Lossless   bool
	Reserved   int  // guaranteed to each (port, CoS)
	Share      int  // what each (port, CoS) may take of the shared memory; 0 if Alpha is not
	Alpha      int  // in place of Share: in cells.AlphaUnits of what is free of the shared memory; 0: Share counts
	Headroom   int  // lossless: kept for each (port, CoS); 0: see Port.HeadroomOf
	XON        int  // lossless: the peer may send again when use is down to the higher of XON and XONOffset below
	XONOffset  int  // the limit; XONOffset 0: XON alone counts
	QueueLimit int  // lossy: length at which each egress queue drops; 0 if QueueAlpha is not, and for lossless: never
	QueueAlpha int  // lossy, in place of QueueLimit: in cells.AlphaUnits of what is free of the memory for queues
	WRED       WRED // what each egress queue does before it is full; lossless: only with ECN
	ECN        bool // WRED marks frames that can carry a mark; it drops the others, or if Lossless lets them pass
}

// WRED is random early detection: between Min and Max the odds to be dropped, or marked, rise from
// 0 to Probability; above Max they are 1. Source: S. Floyd, V. Jacobson, "Random Early Detection
// Gateways for Congestion Avoidance", 1993.
type WRED struct {
	Min, Max    int // bytes of an egress queue; Max 0: no WRED
	Probability int // percent
	// 0 to 16: the length that counts follows the real one by 2^-Smoothing of the difference with
	// each frame
	Smoothing int
}

// PFC says whether and how priorities are paused.
type PFC struct {
	Enabled bool
	Quanta  uint16 // how long a PFC frame asks for, in quanta of 512 bit times of the link
	Refresh uint16 // quanta after which it is repeated at the latest, see Port.Refresh; below Quanta
	// Asymmetric: the peer may pause every priority, lossy ones too; we pause lossless ones only.
	Asymmetric bool

	prioPFC []bool // of the file, by CoS: lossless; Classes agree
}

// WatchdogAction is what is done with a priority in a pause storm.
type WatchdogAction string

// The watchdog actions.
const (
	WatchdogAlert   WatchdogAction = "alert"   // count and report it
	WatchdogDrop    WatchdogAction = "drop"    // discard its frames, and do not pause for it
	WatchdogForward WatchdogAction = "forward" // send in spite of the pause
	WatchdogOff     WatchdogAction = "off"     // do not look for storms
)

// Watchdog says when a paused priority is in a storm and what then.
type Watchdog struct {
	Action      WatchdogAction
	Detection   time.Duration // paused so long with frames to send, and none sent: a storm
	Restoration time.Duration // not paused so long: over
}

// ForwardingMode is how the egress port is found.
type ForwardingMode string

// The forwarding modes.
const (
	Bridge    ForwardingMode = "bridge" // by VLAN and learned addresses
	WirePairs ForwardingMode = "wire"   // from each port to its Peer
)

// Forwarding says where frames go.
type Forwarding struct {
	Mode   ForwardingMode
	Wires  []Wire
	Ageing time.Duration // of learned addresses
	Table  int           // addresses at the most, static ones included
	Static []StaticEntry // bridge mode; no address twice in a VLAN
	// FloodQueues: flooded frames of lossy classes wait in four queues for the eight CoS values
	// (Huawei, CX11x, CX31x and CX91x Series Switch Modules, Configuration Guide 12, table 10-10),
	// not in those of their CoS. Bridge mode.
	FloodQueues bool
}

// Metrics says where Prometheus finds what the switch counts.
type Metrics struct {
	Listen    string // IP address and port; without an address: all of the machine's; empty: nowhere
	WebConfig string // file that asks for TLS and passwords; empty: neither
}

// Port returns the TCP port of Listen, or 0 if that is empty.
func (m *Metrics) Port() uint16 {
	number, _ := strconv.ParseUint(m.Listen[strings.LastIndexByte(m.Listen, ':')+1:], 10, 16)
	return uint16(number)
}

// MAC is the address of a station, never that of a group.
type MAC [6]byte

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// StaticEntry is an address that is known from the start, never ages and never moves.
type StaticEntry struct {
	MAC    MAC
	VLAN   uint16
	Device string
	Port   int // its number: the port is a member of VLAN
}

// Wire is the devices at the ends of a wire.
type Wire [2]string

// XDPMode is how frames get between device and memory.
type XDPMode string

// The XDP modes.
const (
	Auto     XDPMode = "auto" // zero-copy where the driver can
	Copy     XDPMode = "copy"
	ZeroCopy XDPMode = "zero-copy"
)

// FlowControl is how a port and its peer pause each other.
type FlowControl string

// The kinds of flow control.
const (
	FlowPFC   FlowControl = "pfc"   // by priority (IEEE 802.1Qbb)
	FlowPause FlowControl = "pause" // everything at once (IEEE 802.3x); the port neither sends nor honours PFC
	FlowOff   FlowControl = "off"   // not at all
)

// Link is what tags the frames of a port have.
type Link string

// The kinds of link.
const (
	Transparent Link = "transparent" // frames leave with a tag or without, as they came
	Access      Link = "access"      // frames have no tag, coming or going; VLANs is the PVID alone
	Trunk       Link = "trunk"       // frames leave with a tag, those of the PVID without
)

// STag is what becomes of frames with an S-tag, the service tag of IEEE 802.1ad (TPID 0x88A8).
type STag string

// What can become of them.
const (
	STagDrop STag = "drop"
	STagPCP  STag = "pcp" // they pass with it; its PCP tells their CoS, and they are in the VLAN of untagged frames
)

// Storm is how many frames a second may come in on a port that would be flooded; 0: any number.
type Storm struct{ Broadcast, Multicast, Unknown int }

// Port is one port of the switch; its index in Config.Ports is its number.
type Port struct {
	Device      string
	Speed       uint64 // bit/s; see SendRate
	LinkSpeed   uint64 // bit/s; what pauses and headroom are counted by, here and at the peer
	MTU         int    // bytes; frames may be Overhead longer
	PeerMTU     int    // bytes; the same for frames of lossless classes; at most MTU
	Link        Link   // Transparent in wire mode
	VLANs       []VLANRange
	PVID        uint16      // a member of VLANs
	STag        STag        // STagDrop on access ports
	MACLimit    int         // addresses learned at the most; 0: as many as the table takes
	Storm       Storm       // bounds floods that come from here
	ETSName     string      // of ETS
	QoSName     string      // of QoS
	FlowControl FlowControl // FlowOff when PFC is not enabled
	Metres      float64     // length of the cable
	Medium      headroom.Medium
	Response    time.Duration // from XOFF to the peer's silence, beyond what the standard allows
	InFlight    int           // bytes at the most in the TX ring
	Mode        XDPMode
	TX          TXEngine
	BusyPoll    bool  // the worker's CPU does the device's work instead of its interrupts
	Worker      int   // index into Workers; 0 when that is empty
	DefaultCoS  uint8 // of untagged frames

	// What follows from the keys.

	ETS          *ETSProfile // one of Config.ETS
	QoS          *QoSDomain  // one of Config.QoS
	ControlAhead int         // PFC frames that may be with the device in front of one that stops another priority
	Peer         int         // number of the port at the other end of the wire, -1 in bridge mode
	Headroom     int         // bytes in whole cells: what a lossless class needs, see HeadroomOf
	Refresh      uint16      // quanta after which XOFF is repeated: PFC.Refresh, or earlier, see LatestRefresh
}

// Overhead returns how many bytes a frame may be longer than the MTU: Ethernet header and the tags
// that the port takes.
func (p *Port) Overhead() int {
	if p.STag == STagPCP {
		return FrameOverhead + tagLength // a C-tag behind the S-tag
	}
	return FrameOverhead
}

// MaxFrame and MaxLossless return the longest frames of the port, in bytes, and those of its
// lossless classes.
func (p *Port) MaxFrame() int    { return p.MTU + p.Overhead() }
func (p *Port) MaxLossless() int { return p.PeerMTU + p.Overhead() }

// DeviceMTU returns the least MTU that the port's device may have. Drivers take frames of the MTU
// and FrameOverhead: what may be longer has to be part of the MTU.
func (p *Port) DeviceMTU() int { return p.MaxFrame() - FrameOverhead }

// HeadroomOf returns what a lossless class keeps on the port for each of its CoS, in bytes: its own
// headroom, or else what the port needs; a cell where nobody is paused.
func (p *Port) HeadroomOf(class *Class) int {
	if class.Headroom > 0 && p.FlowControl != FlowOff {
		return class.Headroom
	}
	return p.Headroom
}

// VLANRange is the VLANs from First to Last, both included.
type VLANRange struct{ First, Last uint16 }

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

// Load reads and validates a file. If its contents are at fault the error is Errors, if there are
// none ErrUnreadable.
func Load(path string) (*Config, error) {
	// A FIFO that nobody writes to is an empty file then, and not one to wait for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, unreadable(err)
	}
	return Parse(path, data)
}

// ErrUnreadable means that there is no file to read, or that this process may not read it.
var ErrUnreadable = errors.New("configuration can't be read")

// unreadable says what to do about a file that can't be read.
func unreadable(err error) error {
	remedy := "name a file that can be read"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		remedy = "write one, beginning with one of examples/"
	case errors.Is(err, fs.ErrPermission):
		remedy = "let this user read it, or run as root"
	case errors.Is(err, syscall.EISDIR):
		remedy = "name a file in it"
	}
	return fmt.Errorf("%w: %w: %s", ErrUnreadable, err, remedy)
}

// SendRate returns the rate, in bit/s, that the port sends at: Speed, but not more than its link
// has.
func (p *Port) SendRate() uint64 { return min(p.Speed, p.LinkSpeed) }

// ControlsFlow tells whether a port stops its peer, or lets its peer stop it.
func (c *Config) ControlsFlow(p *Port) bool {
	lossless := c.Lossless()
	return p.FlowControl != FlowOff && (lossless || c.PFC.Asymmetric)
}

// Parse validates the contents of a file; name is what messages call it. The error, if any, is
// Errors.
func Parse(name string, data []byte) (*Config, error) { return parse(name, data, nil, nil) }

// OnLinks returns the Config that the same file describes where devices report these rates of their
// links, in bit/s. A rate that is reported overrules link_speed. The error, if any, is Errors: the
// file may not fit these links.
func (c *Config) OnLinks(rates map[string]uint64) (*Config, error) {
	return parse(c.source.file, c.source.text, rates, c.source.edits)
}

func parse(name string, data []byte, rates map[string]uint64, edits []edit) (*Config, error) {
	d := &decoder{
		source:  source{file: name, text: data, at: make(map[any]position), edits: edits},
		unsound: make(map[any]bool), rates: rates,
	}
	c := new(Config)
	if root := d.document(data); root != nil {
		for i := range edits {
			if !edits[i].apply(root) {
				panic(fmt.Sprintf("config: no place for an edit at %d:%d", edits[i].at.line, edits[i].at.column))
			}
		}
		read(d, root, mapping("the file", fileKeys), "the file", c)
		if d.sound(c) {
			check(d, c)
		}
	}
	if len(d.errors) > 0 {
		return nil, d.errors.sort()
	}
	c.source = d.source
	return c, nil
}
