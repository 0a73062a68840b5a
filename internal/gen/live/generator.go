package live

import (
	"time"

	"sluice/internal/lab"
)

// GeneratorParams describes a generator.
type GeneratorParams struct {
	CPU    int // that its thread runs on, and needs all of
	Ports  []PortParams
	Pauses *Pauses // what PFC has paused, by port; nil: the generator ignores PFC

	// CatchUp bounds how far a flow may fall behind its rate and still make up for it; default 100 µs. What is further
	// behind is given up (Sent.Forgone).
	CatchUp time.Duration
}

// PortParams is a device through which a generator sends. The peer of a veth device takes nothing before it runs an XDP
// program.
type PortParams struct {
	Namespace *lab.Namespace
	Device    string
	Flows     []Flow
}

// Generator sends flows through devices. Its methods may be called by one goroutine at a time.
type Generator struct {
}

// Start starts to send. Flows that can go take turns.
func Start(p GeneratorParams) (*Generator, error) { panic("not yet") }

// SetRate changes how many packets/s a flow of a port sends, from now on; 0: as fast as it goes; below 0: none.
func (g *Generator) SetRate(port, flow int, rate float64) error { panic("not yet") }

// Sent is what one flow has sent.
type Sent struct {
	Port, Flow int    // indices of GeneratorParams.Ports and PortParams.Flows
	ID         uint32 // of the flow
	// Frames is how many were handed to the device, and so the next sequence number. A device drops those that its peer
	// has no room for (ethtool -S: tx_queue_0_xdp_xmit_errors); sinks miss them.
	Frames, Bytes uint64
	Forgone       time.Duration // by how much the flow's schedule was put off because it was behind by more than CatchUp
}

// Sent returns what was sent since Start, by port and flow.
func (g *Generator) Sent() []Sent { panic("not yet") }

// Thread tells how the thread that sends has spent its time.
func (g *Generator) Thread() (Thread, error) { panic("not yet") }

// Stop ends the sending, waits until it has ended, a few milliseconds, and releases everything. Sent still answers.
func (g *Generator) Stop() error { panic("not yet") }
