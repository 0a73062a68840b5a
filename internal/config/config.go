// Package config reads the switch's configuration file: YAML in, a validated Config out. It touches no device; what
// only the machine can tell, such as whether a device exists, is for the control plane to check, which reports it
// with Config.Problem so that every message names the line of the file that it is about.
//
// The keys of the file, with their defaults and meanings, stand in keys.go and nowhere else.
package config

import (
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// MaxFileSize bounds a configuration file, in bytes.
	MaxFileSize = 1 << 20
	// BufferReserve is how many bytes of a frame buffer can't hold a frame: the 256 that the kernel keeps free in
	// front of it (XDP_PACKET_HEADROOM, linux/bpf.h), and 128 of UMEM headroom, which virtio-net needs for its header
	// in zero-copy mode.
	BufferReserve = 256 + 128
	// FrameOverhead is how many bytes a frame may be longer than the MTU: Ethernet header and one VLAN tag.
	FrameOverhead = 14 + 4
)

// Config is a valid configuration with all defaults filled in.
type Config struct {
	Workers    []int // CPUs, one worker each; empty: one worker, on a CPU of the control plane's choice
	Memory     Memory
	Classes    []Class // each CoS is in exactly one; those that the file does not list are in the last
	PFC        PFC
	Forwarding Forwarding
	Ports      []Port

	source source
}

// Memory is the memory for frames.
type Memory struct {
	Buffers    int // number of frame buffers
	BufferSize int // bytes, a power of two
	Cell       int // bytes of accounting cell
}

// Class is how a set of CoS values is treated, on every port alike. Sizes are in bytes.
type Class struct {
	Name       string
	CoS        []int
	Lossless   bool
	Strict     bool // served ahead of all classes that are not
	Weight     int  // DRR: share of what the strict classes leave, divided evenly among the CoS; 0 if Strict
	Reserved   int  // guaranteed to each (port, CoS)
	Share      int  // what each (port, CoS) may take of the shared memory
	Headroom   int  // kept for each (port, CoS) that is lossless; 0 otherwise
	XON        int  // lossless: use at which the peer may send again; 0 otherwise
	QueueLimit int  // lossy: length at which each egress queue drops; 0 for lossless: never
}

// PFC says whether and how priorities are paused.
type PFC struct {
	Enabled bool
	Quanta  uint16 // how long a PFC frame asks for, in quanta of 512 bit times
	Refresh uint16 // quanta after which it is repeated; below Quanta
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
	Table  int           // learned addresses at the most
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

// Port is one port of the switch; its index in Config.Ports is its number.
type Port struct {
	Device     string
	Speed      uint64 // bit/s
	MTU        int    // bytes; frames may be FrameOverhead longer
	VLANs      []VLANRange
	PVID       uint16 // a member of VLANs
	InFlight   int    // bytes at the most in the TX ring
	Mode       XDPMode
	BusyPoll   bool  // the worker's CPU does the device's work instead of its interrupts
	Worker     int   // index into Workers; 0 when that is empty
	DefaultCoS uint8 // of untagged frames
	Peer       int   // number of the port at the other end of the wire, -1 in bridge mode; not a key of the file
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

// Load reads and validates a file. If its contents are at fault the error is Errors.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration can't be read: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("configuration can't be read: %w", err)
	}
	return Parse(path, data)
}

// Parse validates the contents of a file; name is what messages call it. The error, if any, is Errors.
func Parse(name string, data []byte) (*Config, error) {
	d := &decoder{source: source{name, make(map[any]position)}, unsound: make(map[any]bool)}
	c := new(Config)
	if root := d.document(data); root != nil {
		read(d, root, fileKeys, "the file", c)
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
