package punt

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"sluice/internal/dataplane/bridge"
	"sluice/ring"
)

const (
	// minFrame is the length that shorter frames are padded to: the shortest on the wire, without
	// FCS.
	minFrame = 60
	header   = 14 // bytes: two addresses and the EtherType
)

// Injector carries frames from the control plane to the worker of one port. Push belongs to one
// goroutine, Peek and Release to the worker. Its slots grow to the longest frame that they have
// held.
type Injector struct {
	ring *ring.Ring[[]byte]
}

// NewInjector returns an injector for up to size frames, a power of two.
func NewInjector(size int) (*Injector, error) {
	r, err := ring.New[[]byte](size)
	return &Injector{r}, err
}

// Push copies a frame into the injector, padded to the least length of an Ethernet frame. It
// reports false if the injector is full or the frame is shorter than an Ethernet header.
func (i *Injector) Push(frame []byte) bool {
	free, _ := i.ring.Reserve(1)
	if len(free) == 0 || len(frame) < header {
		return false
	}
	b := append(free[0][:0], frame...)
	for len(b) < minFrame {
		b = append(b, 0)
	}
	free[0] = b
	i.ring.Submit(1)
	return true
}

// Peek returns the oldest frame, or nil if none waits. The frame is valid until Release.
func (i *Injector) Peek() []byte {
	oldest, _ := i.ring.Peek(1)
	if len(oldest) == 0 {
		return nil
	}
	return oldest[0]
}

// Release frees the oldest frame.
func (i *Injector) Release() { i.ring.Release(1) }

// Len returns how many frames wait. Any goroutine may call it.
func (i *Injector) Len() int { return i.ring.Len() }

// Gate is the way to the worker of one port.
type Gate struct {
	Injector *Injector
	Longest  int          // bytes of a frame
	Wanted   *atomic.Bool // set once a frame waits; the worker clears it before it looks
}

// Gates lead the control plane to the injectors of a switch's ports. Any goroutine may use them.
type Gates struct {
	mu    sync.Mutex
	gates map[bridge.PortID]Gate
}

// Set replaces all gates. When it returns, no more frames reach an injector that is not among them.
func (g *Gates) Set(gates map[bridge.PortID]Gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gates = gates
}

// ErrFull is returned by Inject if the frames that wait at the port leave no room: try again.
var ErrFull = errors.New("punt: the frames that wait at the port leave no room for another")

// Inject passes a frame to the port with an id. It fails if that gate is closed, if the frame is
// longer than the gate takes or shorter than an Ethernet header, or with ErrFull.
func (g *Gates) Inject(port bridge.PortID, frame []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate, is := g.gates[port]
	if !is {
		return fmt.Errorf("punt: no port has the id %d now", port)
	}
	if len(frame) > gate.Longest || len(frame) < header {
		return fmt.Errorf("punt: a frame of %d bytes where %d to %d are possible", len(frame), header, gate.Longest)
	}
	if !gate.Injector.Push(frame) {
		return ErrFull
	}
	gate.Wanted.Store(true)
	return nil
}
