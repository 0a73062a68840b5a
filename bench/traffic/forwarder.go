package traffic

import (
	"fmt"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pmd"
)

// ForwarderParams describes a Forwarder.
type ForwarderParams struct {
	Mode  string // a forwarding mode of Modes
	Ports []Station
	Noise Noise // for mode noisy

	Memory     []byte // of all ports (UMEM)
	BufferSize int    // bytes, a power of two
	First      int    // the forwarder alone uses buffers First..First+Buffers-1 of Memory
	Buffers    int    // shared equally by the ports: half of each share, less the queue of Noise, is for reception
	// Burst is the most frames received from a port in one Step, up to MaxBurst; each part of a
	// frame counts, but a Step receives at least one whole frame. Default 64.
	Burst int
}

// Station is a port of a Forwarder with its addresses.
type Station struct {
	Port pmd.Port
	MAC  frame.MAC // the port's own address
	Peer frame.MAC // address of the host behind the port; default 02:00:00:00:00:nn for port nn, as in testpmd
}

// Forwarder passes frames between its ports as testpmd does: between ports 0 and 1, 2 and 3, and so
// on. A single port sends back what it receives, and so does every port in mode icmpecho. Frames
// that a full TX ring does not take are dropped and counted. Like a Host, a Forwarder is stepped by
// its caller and belongs to that goroutine.
type Forwarder struct {
	memory []byte
	size   uint64 // BufferSize
	first  uint64 // id of the first buffer
	free   []uint64
	sent   []bool     // by id-first: handed over and not completed
	burst  []pmd.Desc // has room for most descriptors, and for pmd.MaxParts
	most   int        // ForwarderParams.Burst
	ports  []forwarderPort
}

// forwarderPort is a port and the direction of the frames that it receives.
type forwarderPort struct {
	pmd.Port
	to       int // the port that sends what this one receives
	mode     rewriter
	counters Counters
	fillMost int // most buffers for reception
	inFill   int // buffers in the fill ring, or with a frame that has not been received yet
}

// NewForwarder returns a forwarder. It starts with its first Step.
func NewForwarder(p ForwarderParams) (*Forwarder, error) {
	if p.Burst == 0 {
		p.Burst = burst
	}
	if p.Noise.Mode == "" {
		p.Noise.Mode = "io"
	}
	mode, err := ModeNamed(p.Mode)
	if err == nil {
		err = p.validate(mode)
	}
	if err != nil {
		return nil, fmt.Errorf("host: forwarder: %w", err)
	}
	f := &Forwarder{
		memory: p.Memory, size: uint64(p.BufferSize), first: uint64(p.First),
		free: make([]uint64, 0, p.Buffers), sent: make([]bool, p.Buffers),
		burst: make([]pmd.Desc, max(p.Burst, pmd.MaxParts)), most: p.Burst,
		ports: make([]forwarderPort, len(p.Ports)),
	}
	for id := p.First + p.Buffers - 1; id >= p.First; id-- {
		f.free = append(f.free, uint64(id*p.BufferSize))
	}
	for i := range f.ports {
		port := &f.ports[i]
		port.Port, port.fillMost = p.Ports[i].Port, (p.Buffers/len(p.Ports)-p.Noise.Queue)/2
		if port.to = i ^ 1; len(p.Ports) == 1 || mode.answers {
			port.to = i
		}
		port.mode = p.rewriter(mode, port)
	}
	return f, nil
}

func (p *ForwarderParams) validate(mode Mode) error {
	n := len(p.Ports)
	switch end := (p.First + p.Buffers) * p.BufferSize; {
	case !mode.Forwards():
		return fmt.Errorf("mode %s does not forward: choose one that does", mode.Name)
	case n == 0 || n > 1 && n%2 != 0 && !mode.answers:
		return fmt.Errorf("%d ports: give one, or an even number, since frames are forwarded between pairs", n)
	case p.BufferSize < MinSize || p.BufferSize&(p.BufferSize-1) != 0:
		return fmt.Errorf("buffer size of %d bytes must be a power of two, 64 or more", p.BufferSize)
	case p.First < 0 || p.Buffers < 0 || end > len(p.Memory):
		return fmt.Errorf("buffers %d to %d need %d bytes of memory, there are %d", p.First, p.First+p.Buffers-1, end,
			len(p.Memory))
	case p.Burst < 0 || p.Burst > MaxBurst:
		return fmt.Errorf("bursts of %d frames: must be 1 to %d", p.Burst, MaxBurst)
	}
	if err := p.Noise.validate(); err != nil {
		return err
	}
	if least := n * (p.Noise.Queue + 4); p.Buffers < least {
		return fmt.Errorf("%d buffers are too few for %d ports with queues of %d frames, which need %d: shorten the "+
			"queues", p.Buffers, n, p.Noise.Queue, least)
	}
	return nil
}

// rewriter returns the mode's rewriter for frames that a port receives.
func (p *ForwarderParams) rewriter(mode Mode, port *forwarderPort) rewriter {
	out := p.Ports[port.to]
	if out.Peer == 0 {
		out.Peer = DefaultPeer(port.to)
	}
	return mode.rewriter(lane{memory: p.Memory, src: out.MAC, peer: out.Peer, counters: &port.counters, burst: p.Burst,
		noise: p.Noise})
}

// DefaultPeer returns testpmd's default destination address for frames sent from a port.
func DefaultPeer(port int) frame.MAC { return 0x0200_0000_0000 + frame.MAC(port) }

// Step runs the forwarder once: each port takes back sent buffers, fills, and receives a burst,
// which its mode rewrites and its partner sends. It returns the number of buffers and frames moved;
// 0 means that there was nothing to do.
func (f *Forwarder) Step(now int64) int {
	work := 0
	for i := range f.ports {
		p := &f.ports[i]
		work += f.complete(p) + f.fill(p)
		n := line.Receive(p, f.burst, f.most)
		p.inFill -= n
		p.counters.RXPackets += uint64(line.Frames(f.burst[:n]))
		for _, d := range f.burst[:n] {
			p.counters.RXBytes += uint64(d.Len)
		}
		send, drop := p.mode.rewrite(now, f.burst[:n])
		f.giveUp(drop)
		f.transmit(&f.ports[p.to], send)
		work += n + len(send)
	}
	for i := range f.ports {
		f.ports[i].Flush()
	}
	return work
}

// complete takes back the buffers of sent frames, each one time only: some kernels complete a
// buffer twice.
func (f *Forwarder) complete(p *forwarderPort) int {
	n := p.Complete(f.free[len(f.free):cap(f.free)])
	for _, addr := range f.free[len(f.free) : len(f.free)+n] {
		sent := f.sentMark(addr)
		if !*sent {
			p.counters.DuplicateCompletions++
			continue
		}
		*sent = false
		f.free = append(f.free, f.buffer(addr))
	}
	return n
}

// buffer returns the address of the buffer that contains addr.
func (f *Forwarder) buffer(addr uint64) uint64 { return addr &^ (f.size - 1) }

func (f *Forwarder) sentMark(addr uint64) *bool { return &f.sent[addr/f.size-f.first] }

func (f *Forwarder) fill(p *forwarderPort) int {
	want := f.free[len(f.free)-min(p.fillMost-p.inFill, len(f.free)):]
	if len(want) == 0 {
		return 0
	}
	n := p.Fill(want)
	f.free = f.free[:len(f.free)-len(want)+copy(want, want[n:])]
	p.inFill += n
	return n
}

func (f *Forwarder) transmit(p *forwarderPort, burst []pmd.Desc) {
	if len(burst) == 0 {
		return
	}
	n := p.Transmit(burst)
	for _, d := range burst[:n] {
		p.counters.TXBytes += uint64(d.Len)
		*f.sentMark(d.Addr) = true
	}
	p.counters.TXPackets += uint64(line.Frames(burst[:n]))
	p.counters.TXDropped += uint64(line.Frames(burst[n:]))
	f.giveUp(burst[n:])
}

func (f *Forwarder) giveUp(burst []pmd.Desc) {
	for _, d := range burst {
		f.free = append(f.free, f.buffer(d.Addr))
	}
}

// Counters returns the counters of all ports. It allocates.
func (f *Forwarder) Counters() []Counters {
	all := make([]Counters, len(f.ports))
	for i := range f.ports {
		all[i] = f.ports[i].counters.with(f.ports[i].Port.Stats())
	}
	return all
}
