package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"sluice/bench/compare"
	"sluice/bench/sim"
	"sluice/bench/traffic/line"
	"sluice/cells"
	"sluice/internal/dataplane"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/linux/thread"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
)

const (
	crossingPorts   = 4                   // ports of the worker, all busy
	crossingBuffers = 4 * loopgap.Buffers // enough for 16 ports
	crossingLimit   = 256                 // cells of the lossless group before it uses headroom
	crossingXON     = 64                  // cells
	crossingBurst   = 48                  // frames that a port receives in an iteration: fewer than it can send
	crossingFlow    = 16                  // iterations for which the lossless class is not stopped
	crossingLinger  = 4                   // iterations for which it stays stopped after its sender was stopped
	crossingLeast   = 20                  // crossings to wait for, unless that takes too long
)

const (
	// crossingPatience is how long a trial may exceed its duration, ns, on a machine with other
	// busy processes.
	crossingPatience = 20e9
	// crossingPause is the longest pause of one XOFF, ns.
	crossingPause = math.MaxUint16 * pfc.QuantumBits * 1e9 / reactionSpeed
)

// crossings is a worker under load with two ports whose peers exchange PFC frames with it
// repeatedly. The receiving peer stops the lossless class, so the priority group fills. The worker
// stops the sending peer. Then the receiving peer resumes, and so does the worker.
type crossings struct {
	worker *dataplane.Worker
	clock  func() int64
	steps  int
	now    int64 // of the step
	state  crossingState
	since  int // step in which state began

	outstanding int   // lossless frames charged to the group: one cell each
	crossedAt   int64 // clock; 0: not since the last XON
	crossedIn   int   // step
	polledAt    int64 // when the stopped port was last polled
	polledAgo   int64 // time of the poll before that
	lastSent    int64 // when that port last took a lossless frame before its pause expired
	refusedAt   int64 // when that port received the XOFF
	mayRefuseAt int64 // the earliest time at which it could have arrived: just after the previous poll
	resumesAt   int64 // when the pause of that port's peer expires

	stopping *line.Histogram // ns from a crossing to the PFC frame in the TX ring
	inSteps  *line.Histogram // the same in steps; 1 is the step of the crossing
	// ns from the XOFF that a port received to the last frame of the priority that it took; 0: none
	obeying   *line.Histogram
	sinceThen *line.Histogram // ns to that frame from the earliest arrival of the XOFF
	late      int             // frames sent to a peer that had stopped them
	stray     int             // XOFFs without a crossing
}

// crossingState is the state of the two peers.
type crossingState uint8

const (
	classFlows   crossingState = iota // the lossless class passes
	classRefused                      // the receiving peer has stopped it
	classStopped                      // the worker has stopped the sending peer
	classResumed                      // the receiving peer has resumed it
)

// runCrossings runs crossings for duration on its own thread, with a switch of busy ports that tune
// has changed. If ctx is done, it ends early with ctx's error.
func runCrossings(ctx context.Context, cpu int, duration time.Duration, ports int,
	tune func(*dataplane.Params)) (*crossings, error) {
	memory, err := umem.Map(crossingBuffers, 2048)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	x := newCrossings(elapsedSince())
	load := loopgap.Load{Ports: ports, Lengths: []int{60}, Tune: tune, Wrap: func(port int, d *mem.Null) pmd.Port {
		p := partner{Null: d, crossings: x, memory: memory.Bytes()}
		switch port {
		case 0:
			return &sendingPartner{p}
		case 1:
			return &receivingPartner{p}
		}
		return &p
	}}
	s, _, err := load.Start(memory, 0)
	if err != nil {
		return nil, err
	}
	x.worker = s.Workers[0]
	err = thread.OnCPU(cpu, func() {
		for end := x.clock() + int64(duration); ; x.steps++ {
			x.now = x.clock()
			x.worker.Step(x.now)
			enough := x.stopping.Count() >= crossingLeast || x.late > 0 // which fails the trial
			if ctx.Err() != nil || x.now > end && (enough || x.now > end+crossingPatience) {
				break
			}
		}
	})
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	return x, x.check()
}

func newCrossings(clock func() int64) *crossings {
	return &crossings{clock: clock, stopping: new(line.Histogram), inSteps: new(line.Histogram),
		obeying: new(line.Histogram), sinceThen: new(line.Histogram)}
}

// tuneCrossings gives the lossless group a static limit, so that the crossing frame is known, and
// PFC a speed of 10 Gbit/s, at which a pause lasts 3.4 ms.
func tuneCrossings(p *dataplane.Params) {
	for i := range p.Ports {
		port := &p.Ports[i]
		port.Cells.Groups[sim.LosslessCoS] = cells.GroupParams{Lossless: true, Share: crossingLimit,
			Headroom: loopgap.Headroom, XON: crossingXON}
		port.Generator.Speed, port.Receiver.Speed = reactionSpeed, reactionSpeed
	}
}

// check finds errors that do not depend on the machine's speed.
func (x *crossings) check() error {
	ports := x.worker.Look(x.clock()).Ports
	for i := range ports {
		if n := ports[i].LosslessDrops(); n > 0 {
			return fmt.Errorf("bench: port %d dropped %d lossless frames", i, n)
		}
	}
	switch {
	case x.late > 0:
		return fmt.Errorf("bench: %d frames were sent to a peer that had paused them", x.late)
	case x.stray > 0:
		return fmt.Errorf("bench: %d XOFF without a crossing", x.stray)
	case x.stopping.Count() == 0 || x.obeying.Count() == 0:
		return fmt.Errorf("bench: in %d steps the worker sent %d XOFF and honoured %d: raise --duration",
			x.steps, x.stopping.Count(), x.obeying.Count())
	}
	return nil
}

func (x *crossings) add(r *compare.Report, round int) {
	detail := map[string]float64{"crossings": float64(x.stopping.Count()), "steps": float64(x.steps)}
	r.AddQuantiles(compare.Trial{Name: reactionSluice, Metric: metricSteps, Unit: "steps", Round: round,
		Detail: detail}, x.inSteps)
	r.AddTimes(reactionSluice, metricStopping, round, x.stopping, nil)
	r.Add(compare.Trial{Name: reactionSluice, Metric: metricLate, Unit: "frames", Round: round, Value: float64(x.late),
		Detail: detail})
	r.AddTimes(reactionSluice, metricObeying, round, x.obeying, nil)
	r.AddTimes(reactionSluice, metricSinceThen, round, x.sinceThen, nil)
}

func (x *crossings) enter(s crossingState) { x.state, x.since = s, x.steps }

// partner is the driver of any other port: it receives fewer frames in an iteration than it can
// send.
type partner struct {
	*mem.Null
	*crossings
	memory []byte
}

// Receive implements pmd.Port. On these ports the lossless class is never stopped.
func (p *partner) Receive(burst []pmd.Desc) int { return p.Null.Receive(burst[:crossingBurst]) }

func (p *partner) pcp(addr uint64) *byte { return &p.memory[addr+14] }

func (p *partner) lossless(addr uint64) bool { return *p.pcp(addr)>>5 == sim.LosslessCoS }

// sendingPartner is the peer that sends the lossless class and that the worker stops.
type sendingPartner struct{ partner }

// Receive implements pmd.Port.
func (p *sendingPartner) Receive(burst []pmd.Desc) int {
	n := p.partner.Receive(burst)
	for _, d := range burst[:n] {
		if !p.lossless(d.Addr) {
			continue
		}
		if p.state == classStopped || p.state == classResumed { // it is paused, so it sends lossy frames
			*p.pcp(d.Addr) = 0
			continue
		}
		if p.outstanding++; p.outstanding == crossingLimit+1 && p.crossedAt == 0 {
			p.crossedAt, p.crossedIn = p.clock(), p.steps
		}
	}
	return n
}

// Transmit implements pmd.Port. The time to parse a PFC frame is not part of the result.
func (p *sendingPartner) Transmit(burst []pmd.Desc) int {
	n := p.Null.Transmit(burst)
	if len(burst) == 1 && burst[0].Len == pfc.FrameLength {
		at := p.clock()
		var f pfc.Frame
		if kind, _ := pfc.Decode(p.memory[burst[0].Addr:][:pfc.FrameLength], &f); kind == pfc.PFC &&
			f.Enable>>sim.LosslessCoS&1 != 0 {
			p.hear(at, f.Quanta[sim.LosslessCoS] > 0)
		}
	}
	return n
}

// hear records an XOFF or XON in the TX ring.
func (p *sendingPartner) hear(at int64, xoff bool) {
	switch {
	case !xoff:
		p.crossedAt = 0
		p.enter(classFlows)
	case p.crossedAt == 0:
		p.stray++
	case p.state != classStopped && p.state != classResumed: // not a refresh
		p.stopping.Record(at-p.crossedAt, 1)
		p.inSteps.Record(int64(p.steps-p.crossedIn+1), 1)
		p.enter(classStopped)
	}
}

// receivingPartner is the peer that receives the lossless class and stops it.
type receivingPartner struct{ partner }

// Receive implements pmd.Port.
func (p *receivingPartner) Receive(burst []pmd.Desc) int {
	n := p.partner.Receive(burst)
	p.polledAgo, p.polledAt = p.polledAt, p.clock()
	switch {
	case n == 0:
	case p.state == classFlows && p.steps-p.since >= crossingFlow && p.lastSent > p.polledAgo:
		p.say(&burst[0], math.MaxUint16)
		p.refusedAt, p.mayRefuseAt = p.polledAt, p.polledAgo
		p.enter(classRefused)
	case p.state == classStopped && p.steps-p.since >= crossingLinger:
		p.obeying.Record(max(0, p.lastSent-p.refusedAt), 1)
		p.sinceThen.Record(p.lastSent-p.mayRefuseAt, 1)
		p.say(&burst[0], 0)
		p.enter(classResumed)
	case p.isStopped() && p.now > p.resumesAt-crossingPause/2:
		p.say(&burst[0], math.MaxUint16)
	}
	return n
}

// isStopped reports whether the receiving peer has stopped the lossless class.
func (x *crossings) isStopped() bool { return x.state == classRefused || x.state == classStopped }

// say replaces a received frame by a PFC frame.
func (p *receivingPartner) say(d *pmd.Desc, quanta uint16) {
	f := pfc.Frame{Enable: 1 << sim.LosslessCoS}
	f.Quanta[sim.LosslessCoS] = quanta
	p.resumesAt = p.now + int64(quanta)*pfc.QuantumBits*1e9/reactionSpeed
	f.Put(p.memory[d.Addr:][:pfc.FrameLength], [6]byte{0x02})
	d.Len = pfc.FrameLength
}

// Transmit implements pmd.Port.
func (p *receivingPartner) Transmit(burst []pmd.Desc) int {
	frames := 0
	for _, d := range burst {
		if p.lossless(d.Addr) {
			frames++
		}
	}
	switch {
	case frames == 0:
	case !p.isStopped():
		p.lastSent = p.clock()
	case p.now < p.resumesAt: // else the pause has expired on a machine too busy to renew it
		p.lastSent = p.clock()
		p.late += frames
	}
	return p.Null.Transmit(burst)
}

// Complete implements pmd.Port. It ends the charge of the frames.
func (p *receivingPartner) Complete(addrs []uint64) int {
	n := p.Null.Complete(addrs)
	for _, addr := range addrs[:n] {
		if p.lossless(addr) {
			p.outstanding--
		}
	}
	return n
}
