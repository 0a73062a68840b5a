// Package punt moves frames between a worker of the dataplane and the control plane. A Channel
// carries received frames to the control plane, an Injector frames of the control plane to the
// worker. Both are bounded, allocate nothing once they are built, and neither end waits for the
// other. A Subscriber says which frames of a port are for the control plane, and how many of them.
package punt

import (
	"fmt"

	"sluice/internal/dataplane/bridge"
	"sluice/ring"
)

// Kind is a protocol that the control plane speaks.
type Kind uint8

// The kinds.
const (
	LLDP  Kind = iota // and DCBX, which travels in LLDP
	FIP               // FCoE Initialization Protocol
	Kinds             // how many there are
)

var kindNames = [Kinds]string{"lldp", "fip"}

// String returns the stable name, for counters and tables.
func (k Kind) String() string {
	if k < Kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Frame is a frame for the control plane.
type Frame struct {
	At     int64         // ns, of the worker's clock: when the frame was read
	Port   bridge.PortID // that received it; it may be gone
	VID    uint16        // of its tag; 0: none, or only a priority
	VLAN   uint16        // of the frame: the VID, or the port's PVID
	Kind   Kind
	PCP    uint8 // of its tag, or 0
	Class  uint8 // class of service by which the switch counted it
	Tagged bool  // it has a C-tag, which is part of Bytes
	Length int   // bytes
	Bytes  []byte
}

// Channel carries frames from one worker to one goroutine of the control plane. Put belongs to the
// worker, Each to the goroutine.
type Channel struct {
	ring   *ring.Ring[Frame]
	slab   []byte // a slot of stride bytes for each place of the ring
	stride int
}

// NewChannel returns a channel for up to size frames, a power of two, of up to longest bytes.
func NewChannel(size, longest int) (*Channel, error) {
	r, err := ring.New[Frame](size)
	if err != nil {
		return nil, err
	}
	const page = 4096
	c := &Channel{ring: r, slab: make([]byte, size*longest), stride: longest}
	for i := 0; i < len(c.slab); i += page {
		c.slab[i] = 0 // has the kernel provide the page now, and not when a worker first writes to it
	}
	return c, nil
}

// Longest returns the longest frame that the channel takes, in bytes.
func (c *Channel) Longest() int { return c.stride }

// Put copies a frame, whose bytes are b, into the channel. It reports false if that would leave
// fewer than spare places, or if the frame is longer than Longest.
func (c *Channel) Put(f Frame, b []byte, spare int) bool {
	free, _ := c.ring.Reserve(1)
	if len(free) == 0 || c.ring.Len()+spare >= c.ring.Cap() || len(b) > c.stride {
		return false
	}
	start := (int(c.ring.Produced()) & (c.ring.Cap() - 1)) * c.stride
	f.Length, f.Bytes = len(b), c.slab[start:start+len(b):start+len(b)]
	copy(f.Bytes, b)
	free[0] = f
	c.ring.Submit(1)
	return true
}

// Each calls do for the frames that wait, the oldest first, and returns their number. A frame's
// Bytes are valid until do returns. Frames that arrive meanwhile wait for the next call, so it ends
// however fast they come.
func (c *Channel) Each(do func(Frame)) (n int) {
	for waiting := c.ring.Len(); n < waiting; n++ {
		oldest, _ := c.ring.Peek(1)
		do(oldest[0])
		c.ring.Release(1)
	}
	return n
}
