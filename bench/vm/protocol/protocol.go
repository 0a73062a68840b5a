// Package protocol is what a rig and the agent in its guest say to each other: calls of net/rpc
// over a virtio-serial port. The agent runs programs, and reads and writes files; it knows nothing
// of switches, so all logic and all assertions are on the host.
package protocol

import (
	"io/fs"
	"time"
)

const (
	// Port is the name of the virtio-serial port.
	Port = "sluice.agent"
	// Addresses is how the MAC addresses of the guest's NICs begin; the number of the NIC follows.
	Addresses = "52:54:00:01:00:"
	// Modules is the directory in the guest with the modules that the agent loads, in the order of
	// their names.
	Modules = "/modules"
	// Service is the name under which the agent's methods are registered.
	Service = "Agent"
)

// Nothing is the argument or the result of calls that have none.
type Nothing struct{}

// Hello is what a guest tells about itself.
type Hello struct {
	Kernel string        // release
	Uptime time.Duration // since its kernel began
}

// Command is a program to start.
type Command struct {
	Args []string // the first is its name or path
}

// Position asks for the output of a process from some point on.
type Position struct {
	Process        int
	Stdout, Stderr int           // bytes that the caller has already
	Patience       time.Duration // how long to wait for more, or for the end
}

// Output is what a process has written from a Position on, and how it ended.
type Output struct {
	Stdout, Stderr []byte
	Ended          bool
	Status         int // exit status; 128 and the signal's number if a signal ended it
}

// Signal is a signal for a process.
type Signal struct{ Process, Number int }

// File is a file to write, or one that was read.
type File struct {
	Path string
	Data []byte
	Mode fs.FileMode
}

// Link is a network device as the kernel describes it.
type Link struct {
	Name    string
	Flags   uint32 // IFF_ of netdevice(7)
	Promisc int    // how often promiscuous mode was asked for
	XDP     uint32 // the number of the XDP program attached to it; 0: none
	MTU     int
	Carrier bool
}
