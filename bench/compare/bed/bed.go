// Package bed is the test bed of real devices. It has namespaces joined by veth pairs, hosts in the
// kernel that send and receive, and between them a Forwarder: this switch, or one of its peers.
package bed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/bench/compare"
	"sluice/bench/netns"
	"sluice/bench/traffic/live"
	"sluice/internal/frame"
)

// Bed is the test bed of a forwarder: hosts inside the kernel, each cabled to a port of the
// forwarder.
//
//	h0 — s0 ┐
//	h1 — s1 ┼ forwarder
//	h2 — s2 ┘
//
// One thread on its own CPU sends for all hosts. If a host honours PFC, it does so like a NIC.
type Bed struct {
	Params
	lab       *netns.Lab
	Hosts     *netns.Namespace // h0, h1, …
	Site      Site             // s0, s1, …
	Forwarder Forwarder        // nil: not started
	pauses    *live.Pauses
	Sinks     []*live.Sink // by host
	generator sender
	places    []place // of the streams
	begun     tally   // see Begin
}

// Params describes a bed. Streams are numbered by their index.
type Params struct {
	Ports      int // of the forwarder, each with a host
	Streams    []Stream
	Priorities uint8  // bit n: the hosts honour pauses of priority n
	Speed      uint64 // bit/s, for the duration of quanta at the hosts
	CPUs       [2]int // of the forwarder and of the generator
	Slow       SlowPort
}

// SlowPort makes the last port slower than the forwarder, for forwarders that can't limit it
// themselves.
type SlowPort struct {
	Rate uint64 // bytes/s of frames without FCS; 0: not slow
	// Meet is for a forwarder that only joins pairs of devices. It has one device pair per sender,
	// and the pairs meet in a bridge whose port to the last host is slow.
	//
	//	h0 — s0 = m0 ┐
	//	h1 — s1 = m1 ┴ bridge — h2
	Meet bool
}

// Stream is traffic from one host to another: tagged frames of VLAN 1.
type Stream struct {
	From, To int
	Priority uint8
	Length   int  // of a frame, bytes without FCS
	Hello    bool // only announces its sender's address, and need not arrive
}

// place locates a stream in the generator.
type place struct{ port, flow int }

const (
	Stopped   = -1  // rate of a stopped stream
	helloRate = 500 // packets/s of each stream until all have come through
)

// New creates the namespaces, devices and sinks of a bed, without forwarder and traffic.
func New(p Params) (*Bed, error) {
	b := &Bed{Params: p}
	if err := b.build(); err != nil {
		return nil, fmt.Errorf("%w: %w", compare.ErrBed, errors.Join(err, b.Close()))
	}
	return b, nil
}

func (b *Bed) build() (err error) {
	if b.lab, err = netns.New("bench"); err != nil {
		return err
	}
	if b.Hosts, err = b.lab.Namespace("hosts"); err != nil {
		return err
	}
	b.Site = Site{CPU: b.CPUs[0], OtherCPU: b.CPUs[1], MTU: b.mtu()}
	if b.Site.Namespace, err = b.lab.Namespace("switch"); err != nil {
		return err
	}
	if b.pauses, err = live.NewPauses(b.Ports); err != nil {
		return err
	}
	if err := b.addCables(); err != nil {
		return err
	}
	for i := range b.Ports {
		s, err := live.NewSink(b.Hosts, HostDevice(i), live.SinkParams{
			Flows: len(b.Streams), Priorities: b.Priorities, Speed: b.Speed, Pauses: b.pauses, Port: i,
		})
		if err != nil {
			return err
		}
		b.Sinks = append(b.Sinks, s)
	}
	return nil
}

// mtu returns the MTU of all devices, in bytes: the default one, or that of longer streams.
func (p *Params) mtu() int {
	const ethernet, header = 1500, 14
	mtu := ethernet
	for _, s := range p.Streams {
		mtu = max(mtu, s.Length-header)
	}
	return mtu
}

// LosslessPriority is the priority of lossless frames.
const LosslessPriority = 3

// HostDevice is the name of a host's device.
func HostDevice(i int) string { return "h" + strconv.Itoa(i) }

// station returns the locally administered address of a host.
func station(host int) frame.MAC { return frame.MAC(0x0200_0000_0001 + host) }

// addCables connects hosts and forwarder.
func (b *Bed) addCables() error {
	if b.Slow.Meet {
		return b.addMeeting()
	}
	for i := range b.Ports {
		rate := uint64(0)
		if i == b.Ports-1 {
			rate = b.Slow.Rate
		}
		if err := b.addPort("s"+strconv.Itoa(i), b.Hosts, HostDevice(i), rate); err != nil {
			return err
		}
	}
	return nil
}

// addMeeting connects hosts and forwarder as SlowPort.Meet describes.
func (b *Bed) addMeeting() error {
	const out = "out" // of the bridge, to the last host
	there, err := b.lab.Namespace("meeting")
	if err != nil {
		return err
	}
	last, met := b.Ports-1, []string{out}
	for i := range last {
		from := "m" + strconv.Itoa(i)
		err := errors.Join(
			b.addPort("s"+strconv.Itoa(i), b.Hosts, HostDevice(i), 0),
			b.addPort(from, there, from, 0))
		if err != nil {
			return err
		}
		met = append(met, from)
	}
	if err := b.lab.Veth(there, out, b.Hosts, HostDevice(last), netns.MTU(b.Site.MTU)); err != nil {
		return err
	}
	return there.Do(func() error { return errors.Join(addBridge(met...), meetXDP(out), addQueue(out, b.Slow.Rate)) })
}

// addPort adds a port to the forwarder, with a cable to a device elsewhere. The port always gets a
// queue discipline: without one, veth drops frames that do not fit its ring; with one, it pushes
// back.
func (b *Bed) addPort(port string, far *netns.Namespace, device string, rate uint64) error {
	b.Site.Devices = append(b.Site.Devices, port)
	if err := b.lab.Veth(b.Site.Namespace, port, far, device, netns.MTU(b.Site.MTU)); err != nil {
		return err
	}
	return b.Site.Namespace.Do(func() error { return addQueue(port, rate) })
}

// addQueue gives a device a FIFO queue, with a rate in bytes/s unless rate is 0.
func addQueue(device string, rate uint64) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("set the queue discipline of %s: %w", device, err)
	}
	attributes := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
		Parent: netlink.HANDLE_ROOT}
	var queue netlink.Qdisc = &netlink.GenericQdisc{QdiscAttrs: attributes, QdiscType: "pfifo"}
	if rate > 0 {
		const burst, longest = 16 << 10, 1 << 20 // bytes; longest is the default limit of a queue of sluice
		queue = &netlink.Tbf{QdiscAttrs: attributes, Rate: rate, Limit: longest, Buffer: netlink.Xmittime(rate, burst)}
	}
	if err := netlink.QdiscReplace(queue); err != nil {
		return fmt.Errorf("set the queue discipline of %s: %w", device, err)
	}
	return nil
}

// Start starts a forwarder and the generator. It returns when all streams have come through and are
// stopped again.
func (b *Bed) Start(ctx context.Context, f Forwarder) error {
	if err := f.Start(ctx, b.Site); err != nil {
		return err
	}
	b.Forwarder = f
	p := live.GeneratorParams{CPU: b.CPUs[1], Pauses: b.pauses, CatchUp: live.DefaultCatchUp}
	for i := range b.Ports {
		p.Ports = append(p.Ports, live.PortParams{Namespace: b.Hosts, Device: HostDevice(i)})
	}
	for i, s := range b.Streams {
		port := &p.Ports[s.From]
		b.places = append(b.places, place{s.From, len(port.Flows)})
		port.Flows = append(port.Flows, live.Flow{
			ID: uint32(i), Dst: station(s.To), Src: station(s.From), VID: 1, PCP: s.Priority, Size: s.Length,
			Rate: helloRate,
		})
	}
	var err error
	if b.generator, err = startSender(p); err != nil {
		return fmt.Errorf("%w: %w", compare.ErrBed, err)
	}
	if err := b.awaitThrough(ctx); err != nil {
		return err
	}
	return b.Silence(ctx)
}

// awaitThrough waits until frames of all streams have reached their hosts, and a little longer, so
// that the forwarder has learned all addresses.
func (b *Bed) awaitThrough(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartLimit)
	defer cancel()
	for {
		missing := -1
		for i, s := range b.Streams {
			if !s.Hello && b.Sinks[s.To].Counters()[i].Frames == 0 {
				missing = i
			}
		}
		if missing < 0 {
			return Pause(ctx, 20*time.Second/helloRate)
		}
		err := Pause(ctx, 5*time.Millisecond)
		if p, ok := b.Forwarder.(interface{ Running() bool }); ok && !p.Running() {
			err = errors.New("the forwarder has exited")
		}
		if err != nil {
			s := b.Streams[missing]
			return fmt.Errorf("no frame from host %d has reached host %d: %w%s", s.From, s.To, err, b.lastWords())
		}
	}
}

// lastWords returns the last output of the forwarder, if it is a program.
func (b *Bed) lastWords() string {
	p, ok := b.Forwarder.(interface{ LastWords() string })
	if !ok {
		return ""
	}
	return "; its last output:\n" + p.LastWords()
}

// SetRate sets the rate of a stream in packets/s; 0: as fast as possible.
func (b *Bed) SetRate(stream int, rate float64) error {
	at := b.places[stream]
	return b.generator.SetRate(at.port, at.flow, rate)
}

// setRates sets the rate of all streams but hellos, which it stops.
func (b *Bed) setRates(rate float64) error {
	var errs []error
	for i, s := range b.Streams {
		if s.Hello {
			errs = append(errs, b.SetRate(i, Stopped))
		} else {
			errs = append(errs, b.SetRate(i, rate))
		}
	}
	return errors.Join(errs...)
}

// Silence stops all streams and waits for frames in flight: until every frame sent since Begin has
// arrived, or until no frame has arrived for so long that none will.
func (b *Bed) Silence(ctx context.Context) error {
	const quiet, silent, most = 5 * time.Millisecond, 100 * time.Millisecond, 5 * time.Second
	if err := b.setRates(Stopped); err != nil {
		return err
	}
	begin, last := time.Now(), uint64(0)
	for since := begin; ; {
		if n := b.frames(); n != last {
			last, since = n, time.Now()
		}
		still, all := time.Since(since), b.count().Since(b.begun)
		if still > silent || still > quiet && all.Sent == all.Received {
			return nil
		}
		if time.Since(begin) > most {
			return fmt.Errorf("frames still arrive %v after the last one was sent", most)
		}
		if err := Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// frames returns how many frames of all streams were sent and received so far. It does not change
// when nothing moves.
func (b *Bed) frames() (n uint64) {
	for _, s := range b.generator.Sent() {
		n += s.Frames
	}
	for _, sink := range b.Sinks {
		for _, c := range sink.Counters() {
			n += c.Frames + c.Duplicates + c.Stale
		}
	}
	return n
}

// Sent returns how many frames of each stream were sent since Start.
func (b *Bed) Sent() []uint64 {
	frames := make([]uint64, len(b.Streams))
	for _, s := range b.generator.Sent() {
		frames[s.ID] = s.Frames
	}
	return frames
}

// received returns the counters of each stream since Begin, at its destination.
func (b *Bed) received() []live.Counters {
	return b.OfStreams(b.counters())
}

// counters returns the counters of each host, by stream.
func (b *Bed) counters() (hosts [][]live.Counters) {
	for _, s := range b.Sinks {
		hosts = append(hosts, s.Counters())
	}
	return hosts
}

// OfStreams selects the counters of each stream at its destination.
func (b *Bed) OfStreams(hosts [][]live.Counters) []live.Counters {
	all := make([]live.Counters, len(b.Streams))
	for i, s := range b.Streams {
		all[i] = hosts[s.To][i]
	}
	return all
}

// Close stops everything and removes the namespaces and devices.
func (b *Bed) Close() error {
	var errs []error
	if b.generator != nil {
		errs = append(errs, b.generator.Stop())
	}
	if b.Forwarder != nil {
		errs = append(errs, b.Forwarder.Stop())
	}
	for _, s := range b.Sinks {
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

// Pause waits for d or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
