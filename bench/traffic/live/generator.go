package live

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"sluice/bench/netns"
	"sluice/bench/traffic/line"
	"sluice/pmd/xdprun"
)

// GeneratorParams describes a generator.
type GeneratorParams struct {
	CPU    int // of its thread, which needs the whole CPU
	Ports  []PortParams
	Pauses *Pauses // pauses by PFC, by port; nil: the generator ignores PFC

	// CatchUp bounds how far a flow may fall behind its rate and still catch up; default
	// DefaultCatchUp. The flow gives up the rest (Sent.Forgone).
	CatchUp time.Duration
}

// PortParams is a device through which a generator sends. The peer of a veth device receives
// nothing until it has an XDP program.
type PortParams struct {
	Namespace *netns.Namespace // nil: the calling thread's
	Device    string
	Flows     []Flow
}

// DefaultCatchUp is so short that a port can take the burst with which a flow catches up.
const DefaultCatchUp = 100 * time.Microsecond

// Generator sends flows through devices. Only one goroutine at a time may call its methods.
type Generator struct {
	sent    []Sent         // of all flows, port by port, as last read
	indices [][]int        // in sent, by port and flow
	flows   *xdprun.Shared // the flows' records, in the same order; nil once stopped
	pauses  *Pauses        // created if none were given
	devices *ebpf.Map
	meters  []*xdprun.Meter // by port
	program *ebpf.Program
	runner  *xdprun.Runner
}

// Start starts sending. Flows that may send take turns.
func Start(p GeneratorParams) (*Generator, error) {
	g := &Generator{}
	if p.CatchUp == 0 {
		p.CatchUp = DefaultCatchUp
	}
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("live: generator: %w", err)
	}
	longest := g.list(p.Ports)
	err := xdprun.Permitted(xdprun.BPF, xdprun.NetAdmin)
	if err == nil {
		err = g.load(p, longest)
	}
	if err == nil {
		g.runner, err = xdprun.Start(xdprun.Params{Program: g.program, Frame: make([]byte, longest), CPU: p.CPU})
	}
	if err != nil {
		return nil, fmt.Errorf("live: generator: %w", errors.Join(err, g.release()))
	}
	g.begin(p.Ports)
	return g, nil
}

func (p *GeneratorParams) validate() error {
	flows := 0
	for _, port := range p.Ports {
		for _, f := range port.Flows {
			if err := f.validate(); err != nil {
				return fmt.Errorf("port %s: flow %d: %w", port.Device, f.ID, err)
			}
		}
		flows += len(port.Flows)
	}
	switch {
	case flows == 0 || flows > MostFlows:
		return fmt.Errorf("%d flows: must be 1 to %d", flows, MostFlows)
	case p.CatchUp < 0:
		return fmt.Errorf("catch-up of %v must not be negative", p.CatchUp)
	case p.Pauses != nil && p.Pauses.ports < len(p.Ports):
		return fmt.Errorf("%d ports, but pauses for only %d", len(p.Ports), p.Pauses.ports)
	}
	return nil
}

func (f *Flow) validate() error {
	switch {
	case f.Size < MinSize || f.Size > MaxSize:
		return fmt.Errorf("size %d must be %d to %d bytes: a page of the kernel holds no more; hosts on AF_XDP "+
			"send longer frames", f.Size, MinSize, MaxSize)
	case f.VID > 4094:
		return fmt.Errorf("VLAN %d must be 0 to 4094", f.VID)
	case f.PCP >= priorities:
		return fmt.Errorf("priority %d must be 0 to 7", f.PCP)
	}
	_, err := step(f.Rate)
	return err
}

// load creates the program, its maps and the meters. No flow sends yet.
func (g *Generator) load(p GeneratorParams, longest int) (err error) {
	if p.Pauses == nil {
		if g.pauses, err = NewPauses(len(p.Ports)); err != nil {
			return err
		}
		p.Pauses = g.pauses
	}
	if g.devices, err = newDevices(p.Ports); err != nil {
		return err
	}
	for _, port := range p.Ports {
		err := within(port.Namespace, func() error {
			m, err := xdprun.NewMeter(port.Device)
			g.meters = append(g.meters, m)
			return err
		})
		if err != nil {
			return err
		}
	}
	if g.flows, err = xdprun.NewShared("flows", generatorWords(len(g.sent))); err != nil {
		return err
	}
	g.describe(p.Ports, longest)
	g.SetCatchUp(p.CatchUp)
	code := generatorCode(g.flows, p.Pauses.shared, g.devices, len(g.sent))
	g.program, err = xdprun.NewProgram("generate", code...)
	return err
}

// begin starts the flows.
func (g *Generator) begin(ports []PortParams) {
	for i, p := range ports {
		for j, f := range p.Flows {
			_ = g.SetRate(i, j, f.Rate) // the rate is valid
		}
	}
}

// newDevices returns the map from ports to devices.
func newDevices(ports []PortParams) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "devices", Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(len(ports)),
	})
	if err != nil {
		return nil, err
	}
	for i, p := range ports {
		err := within(p.Namespace, func() error {
			d, err := net.InterfaceByName(p.Device)
			if err != nil {
				return err
			}
			return m.Put(uint32(i), uint32(d.Index)) // the kernel resolves it in the caller's namespace
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("port %s: %w", p.Device, err), m.Close())
		}
	}
	return m, nil
}

// within runs f in a namespace, or in the current one if n is nil.
func within(n *netns.Namespace, f func() error) error {
	if n == nil {
		return f()
	}
	return n.Do(f)
}

// list records the flow of each counter and returns the length of the longest frame.
func (g *Generator) list(ports []PortParams) (longest int) {
	for i, p := range ports {
		g.indices = append(g.indices, nil)
		for j, f := range p.Flows {
			g.indices[i] = append(g.indices[i], len(g.sent))
			g.sent = append(g.sent, Sent{Port: i, Flow: j, ID: f.ID, size: uint64(f.Size)})
			longest = max(longest, f.Size)
		}
	}
	return longest
}

// describe writes the flows' records and their order. No flow sends yet.
func (g *Generator) describe(ports []PortParams, longest int) {
	var b [MaxSize]byte
	for i, s := range g.sent {
		f := ports[s.Port].Flows[s.Flow]
		header := f.Put(b[:])
		record := g.flows.Words[i*flowWords : (i+1)*flowWords]
		record[flowStep] = never
		record[flowPause] = uint64(s.Port*portPauseWords+int(f.PCP)*pauseWords) * xdprun.WordSize
		record[flowPort] = uint64(s.Port)
		record[flowTail] = uint64(f.Size - longest)
		record[flowHeader] = uint64(header)
		for w := range frontWords {
			record[flowFront+w] = binary.NativeEndian.Uint64(b[w*xdprun.WordSize:])
		}
		record[flowBack] = binary.NativeEndian.Uint64(b[header+line.LengthAt:])
	}
	order := g.flows.Words[orderWord(len(g.sent)):]
	for i := range order {
		order[i] = uint64(i % len(g.sent) * flowWords * xdprun.WordSize)
	}
}

// never is the flowStep of a stopped flow.
const never = math.MaxUint64

// step converts a rate in packets/s to a flowStep.
func step(rate float64) (uint64, error) {
	switch s := math.Round(1e9 * (1 << stepShift) / rate); {
	case rate == 0:
		return 0, nil
	case rate < 0:
		return never, nil
	case s >= 1 && s < 1<<63:
		return uint64(s), nil
	}
	return 0, fmt.Errorf("rate of %g packets/s must be 0, below 0, or at least 0.002", rate)
}

// SetRate sets a flow's rate in packets/s; 0: as fast as possible; below 0: none. A flow that is
// behind catches up, by at most CatchUp, at the new rate.
func (g *Generator) SetRate(port, flow int, rate float64) error {
	s, err := step(rate)
	if err != nil {
		return fmt.Errorf("live: generator: %w", err)
	}
	record := g.indices[port][flow] * flowWords
	if g.flows != nil {
		g.flows.Store(record+flowStep, s)
	}
	return nil
}

// SetCatchUp changes GeneratorParams.CatchUp for all flows.
//
// To measure latency from the schedule, let flows catch up without limit. Otherwise a stall of the
// generator postpones the schedule and hides the time that frames would have waited. To measure
// loss, keep CatchUp short: catching up is a burst beyond the requested rate.
func (g *Generator) SetCatchUp(d time.Duration) {
	if g.flows == nil {
		return
	}
	for i := range g.sent {
		g.flows.Store(i*flowWords+flowCatchUp, uint64(max(d, 0)))
	}
}

// Sent counts what one flow has sent.
type Sent struct {
	Port, Flow int    // indices of GeneratorParams.Ports and PortParams.Flows
	ID         uint32 // of the flow
	// Frames is the number of frames handed to the device, so also the next sequence number. A
	// device drops frames that its peer has no room for (Refused), and all frames while it is down;
	// sinks miss them. A device that is gone takes no frames.
	Frames, Bytes uint64

	// Forgone is how far the flow's schedule was postponed because it was behind by more than
	// CatchUp. It is updated when the flow sends again or SetRate stops it.
	Forgone time.Duration

	size uint64
}

// Sent returns what each flow has sent since Start, by port and flow.
func (g *Generator) Sent() []Sent {
	g.look()
	return slices.Clone(g.sent)
}

func (g *Generator) look() {
	if g.flows == nil {
		return
	}
	for i := range g.sent {
		s, record := &g.sent[i], i*flowWords
		s.Frames = g.flows.Load(record + flowFrames)
		s.Bytes = s.Frames * s.size
		s.Forgone = time.Duration(g.flows.Load(record + flowForgone))
	}
}

// Refused returns how many of the frames handed to a port's device it dropped because its peer had
// no room. It returns false if the device does not count them, or is gone.
func (g *Generator) Refused(port int) (frames uint64, known bool) {
	sent, known := g.meters[port].Read()
	return sent.Refused, known
}

// Thread returns how the sending thread has spent its time.
func (g *Generator) Thread() (xdprun.Times, error) { return g.runner.Times() }

// Stop stops sending, waits for the thread to end, about 10 ms, and releases all resources. After
// Stop, only Sent may be called.
func (g *Generator) Stop() error {
	err := g.runner.Stop()
	g.look()
	return errors.Join(err, g.release())
}

// release frees what load has created.
func (g *Generator) release() error {
	err := errors.Join(g.program.Close(), g.devices.Close()) // nil is allowed
	for _, m := range g.meters {
		m.Close()
	}
	if g.flows != nil {
		err = errors.Join(err, g.flows.Close())
		g.flows = nil
	}
	if g.pauses != nil {
		err = errors.Join(err, g.pauses.Close())
	}
	return err
}
