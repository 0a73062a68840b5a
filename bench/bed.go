package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/bench/host/live"
	"sluice/bench/netns"
	"sluice/internal/frame"
)

// bed is where a forwarder is measured: hosts inside the kernel, each at the end of a cable into the forwarder's site.
//
//	h0 — s0 ┐
//	h1 — s1 ┼ forwarder
//	h2 — s2 ┘
//
// One thread, on a CPU of its own, sends for all hosts. Each obeys PFC, if it does, like a NIC.
type bed struct {
	bedParams
	lab       *netns.Lab
	hosts     *netns.Namespace // h0, h1, …
	site      Site             // s0, s1, …
	forwarder Forwarder        // nil: not started
	pauses    *live.Pauses
	sinks     []*live.Sink // by host
	generator *live.Generator
	places    []place // of the streams
	begun     tally   // see begin
}

// bedParams describes a bed. A stream's number is its index.
type bedParams struct {
	ports      int // of the forwarder, each with a host
	streams    []stream
	priorities uint8  // bit n: the hosts obey a pause of priority n
	speed      uint64 // bit/s: what hosts count quanta by
	cpus       [2]int // of the forwarder and of the generator
	slow       slowPort

	// beat has the generator share the forwarder's CPU, each having it for so long in turn; 0: it has another.
	beat time.Duration
}

// generatorCPU returns where the generator runs.
func (p *bedParams) generatorCPU() int {
	if p.beat > 0 {
		return p.cpus[0]
	}
	return p.cpus[1]
}

// slowPort makes the last port slower than the forwarder, for forwarders that can't do so themselves.
type slowPort struct {
	rate uint64 // bytes/s of frames without FCS; 0: it is not slow
	// meet is for a forwarder that only joins pairs of devices: it has a device of its own for each sender to send to, and
	// what comes out of these meets in a bridge whose port to the last host is slow.
	//
	//	h0 — s0 = m0 ┐
	//	h1 — s1 = m1 ┴ bridge — h2
	meet bool
}

// stream is what one host sends to another: tagged frames of VLAN 1.
type stream struct {
	from, to int
	priority uint8
	length   int  // of a frame, bytes without FCS
	hello    bool // is sent to make its sender known, and need not arrive
}

// place is where the generator has a stream.
type place struct{ port, flow int }

const (
	stopped   = -1  // the rate of a stream that sends nothing
	helloRate = 500 // packets/s of every stream until all come through
)

// errBed is what fails for everybody, whoever forwards.
var errBed = errors.New("bench: namespaces, devices, sinks and generator")

// newBed makes the namespaces, devices and sinks of a bed. Nobody forwards or sends yet.
func newBed(p bedParams) (*bed, error) {
	b := &bed{bedParams: p}
	if err := b.build(); err != nil {
		return nil, fmt.Errorf("%w: %w", errBed, errors.Join(err, b.Close()))
	}
	return b, nil
}

func (b *bed) build() (err error) {
	if b.lab, err = netns.New("bench"); err != nil {
		return err
	}
	if b.hosts, err = b.lab.Namespace("hosts"); err != nil {
		return err
	}
	b.site = Site{CPU: b.cpus[0], OtherCPU: b.cpus[1]}
	if b.site.Namespace, err = b.lab.Namespace("switch"); err != nil {
		return err
	}
	if b.pauses, err = live.NewPauses(b.ports); err != nil {
		return err
	}
	if err := b.addCables(); err != nil {
		return err
	}
	for i := range b.ports {
		s, err := live.NewSink(b.hosts, hostDevice(i), live.SinkParams{
			Flows: len(b.streams), Priorities: b.priorities, Speed: b.speed, Pauses: b.pauses, Port: i,
		})
		if err != nil {
			return err
		}
		b.sinks = append(b.sinks, s)
	}
	return nil
}

func hostDevice(i int) string { return "h" + strconv.Itoa(i) }

// station is the address of a host: locally administered.
func station(host int) frame.MAC { return frame.MAC(0x0200_0000_0001 + host) }

// addCables joins hosts and forwarder.
func (b *bed) addCables() error {
	if b.slow.meet {
		return b.addMeeting()
	}
	for i := range b.ports {
		rate := uint64(0)
		if i == b.ports-1 {
			rate = b.slow.rate
		}
		if err := b.addPort("s"+strconv.Itoa(i), b.hosts, hostDevice(i), rate); err != nil {
			return err
		}
	}
	return nil
}

// addMeeting joins hosts and forwarder as slowPort.meet says.
func (b *bed) addMeeting() error {
	const out = "out" // of the bridge, to the last host
	there, err := b.lab.Namespace("meeting")
	if err != nil {
		return err
	}
	last, met := b.ports-1, []string{out}
	for i := range last {
		from := "m" + strconv.Itoa(i)
		err := errors.Join(
			b.addPort("s"+strconv.Itoa(i), b.hosts, hostDevice(i), 0),
			b.addPort(from, there, from, 0))
		if err != nil {
			return err
		}
		met = append(met, from)
	}
	if err := b.lab.Veth(there, out, b.hosts, hostDevice(last)); err != nil {
		return err
	}
	return there.Do(func() error { return errors.Join(addBridge(met...), meetXDP(out), addQueue(out, b.slow.rate)) })
}

// addPort adds a port to the forwarder, with a cable to a device elsewhere. It gets a queue discipline, whatever the
// forwarder does about it: without one, veth drops what does not fit its ring, with one it pushes back.
func (b *bed) addPort(port string, far *netns.Namespace, device string, rate uint64) error {
	b.site.Devices = append(b.site.Devices, port)
	if err := b.lab.Veth(b.site.Namespace, port, far, device); err != nil {
		return err
	}
	return b.site.Namespace.Do(func() error { return addQueue(port, rate) })
}

// addQueue gives a device a first-in-first-out queue, with a rate in bytes/s unless that is 0.
func addQueue(device string, rate uint64) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("queue discipline of %s: %w", device, err)
	}
	attributes := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	var queue netlink.Qdisc = &netlink.GenericQdisc{QdiscAttrs: attributes, QdiscType: "pfifo"}
	if rate > 0 {
		const burst, longest = 16 << 10, 1 << 20 // bytes; longest is what a queue of sluice holds by default
		queue = &netlink.Tbf{QdiscAttrs: attributes, Rate: rate, Limit: longest, Buffer: netlink.Xmittime(rate, burst)}
	}
	if err := netlink.QdiscReplace(queue); err != nil {
		return fmt.Errorf("queue discipline of %s: %w", device, err)
	}
	return nil
}

// start starts a forwarder and the generator, and returns when all streams have come through; then all are
// silent.
func (b *bed) start(ctx context.Context, f Forwarder) error {
	if err := f.Start(ctx, b.site); err != nil {
		return err
	}
	b.forwarder = f
	p := live.GeneratorParams{CPU: b.generatorCPU(), Beat: b.beat, Pauses: b.pauses, CatchUp: b.catchUp()}
	for i := range b.ports {
		p.Ports = append(p.Ports, live.PortParams{Namespace: b.hosts, Device: hostDevice(i)})
	}
	for i, s := range b.streams {
		port := &p.Ports[s.from]
		b.places = append(b.places, place{s.from, len(port.Flows)})
		port.Flows = append(port.Flows, live.Flow{
			ID: uint32(i), Dst: station(s.to), Src: station(s.from), VID: 1, PCP: s.priority, Size: s.length, Rate: helloRate,
		})
	}
	var err error
	if b.generator, err = live.Start(p); err != nil {
		return fmt.Errorf("%w: %w", errBed, err)
	}
	if err := b.awaitThrough(ctx); err != nil {
		return err
	}
	return b.silence(ctx)
}

// awaitThrough waits until frames of all streams have come out where they should, and a little longer: a station that
// was not known yet is now.
func (b *bed) awaitThrough(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		missing := -1
		for i, s := range b.streams {
			if !s.hello && b.sinks[s.to].Counters()[i].Frames == 0 {
				missing = i
			}
		}
		if missing < 0 {
			return pause(ctx, 20*time.Second/helloRate)
		}
		err := pause(ctx, 5*time.Millisecond)
		if p, ok := b.forwarder.(interface{ Running() bool }); ok && !p.Running() {
			err = errors.New("the forwarder has ended")
		}
		if err != nil {
			s := b.streams[missing]
			return fmt.Errorf("not a frame from host %d has come to host %d: %w%s", s.from, s.to, err, b.lastWords())
		}
	}
}

// lastWords returns what the forwarder has written at last, if it is a program.
func (b *bed) lastWords() string {
	p, ok := b.forwarder.(interface{ LastWords() string })
	if !ok {
		return ""
	}
	return "; its last words:\n" + p.LastWords()
}

// setRate sets the rate of a stream: packets/s; 0: as fast as it goes.
func (b *bed) setRate(stream int, rate float64) error {
	at := b.places[stream]
	return b.generator.SetRate(at.port, at.flow, rate)
}

// setRates sets the rate of all streams but hellos, which are silent.
func (b *bed) setRates(rate float64) error {
	var errs []error
	for i, s := range b.streams {
		if s.hello {
			errs = append(errs, b.setRate(i, stopped))
		} else {
			errs = append(errs, b.setRate(i, rate))
		}
	}
	return errors.Join(errs...)
}

// silence stops all streams and waits until nothing is under way any more: until all that was sent since begin has come,
// or else nothing has for so long that nothing will.
func (b *bed) silence(ctx context.Context) error {
	const quiet, silent, most = 5 * time.Millisecond, 100 * time.Millisecond, 5 * time.Second
	if err := b.setRates(stopped); err != nil {
		return err
	}
	begin, last := time.Now(), uint64(0)
	for since := begin; ; {
		if n := b.frames(); n != last {
			last, since = n, time.Now()
		}
		still, all := time.Since(since), b.count().since(b.begun)
		if still > silent || still > quiet && all.sent == all.received {
			return nil
		}
		if time.Since(begin) > most {
			return fmt.Errorf("frames still come %v after the last was sent", most)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// frames returns how many frames of all streams were received, or sent, so far: it stands still when nothing happens.
func (b *bed) frames() (n uint64) {
	for _, s := range b.generator.Sent() {
		n += s.Frames
	}
	for _, sink := range b.sinks {
		for _, c := range sink.Counters() {
			n += c.Frames + c.Duplicates + c.Stale
		}
	}
	return n
}

// sent returns how many frames of each stream were sent since start.
func (b *bed) sent() []uint64 {
	frames := make([]uint64, len(b.streams))
	for _, s := range b.generator.Sent() {
		frames[s.ID] = s.Frames
	}
	return frames
}

// received returns what came of each stream, since begin, to the host that it was meant for.
func (b *bed) received() []live.Counters {
	return b.ofStreams(b.counters())
}

// counters returns what has come to each host, by stream.
func (b *bed) counters() (hosts [][]live.Counters) {
	for _, s := range b.sinks {
		hosts = append(hosts, s.Counters())
	}
	return hosts
}

// ofStreams picks, for each stream, the counters of the host that it is meant for.
func (b *bed) ofStreams(hosts [][]live.Counters) []live.Counters {
	all := make([]live.Counters, len(b.streams))
	for i, s := range b.streams {
		all[i] = hosts[s.to][i]
	}
	return all
}

// Close ends everything that was started and removes what was made.
func (b *bed) Close() error {
	var errs []error
	if b.generator != nil {
		errs = append(errs, b.generator.Stop())
	}
	if b.forwarder != nil {
		errs = append(errs, b.forwarder.Stop())
	}
	for _, s := range b.sinks {
		errs = append(errs, s.Close())
	}
	if b.pauses != nil {
		errs = append(errs, b.pauses.Close())
	}
	if b.lab != nil {
		errs = append(errs, b.lab.Close())
	}
	return errors.Join(errs...)
}

// pause waits, and less if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
