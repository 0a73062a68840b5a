package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/internal/lab"
)

var vethScenario = Scenario{
	Name:  "veth",
	Shows: "packets/s forwarded between two veth devices under overload",
	Peers: "testpmd net_af_xdp, a port over asavie/xdp",
	Run: func(ctx context.Context, o Options, r *Report) error {
		return (&veth{Options: o}).run(ctx, r)
	},
}

// veth says what runs. The zero value of all but the options is a choice that makes sense.
type veth struct {
	Options
	forwarders []Forwarder   // in this order; none: sluice, testpmd where it is installed, baseline
	lengths    []int         // of the frames, bytes without FCS; none: 60 and 1496
	warmUp     time.Duration // before each trial; 0: 500 ms
	attempts   int           // at a trial that others disturb, of a trial's duration each; 0: 5
}

// run loads one forwarder after the other beyond what it sustains and counts what comes out at the other end:
//
//	generator → h0 — s0 → forwarder → s1 — h1 → counter
//
// with s0 and s1 in a namespace of the switch, h0 and h1 in one of the hosts. Each trial has devices of its own:
// nothing that a forwarder leaves behind meets the next one.
func (o *veth) run(ctx context.Context, r *Report) error {
	o.setDefaults(r)
	defer o.addVersions(r)
	for _, length := range o.lengths {
		metric := fmt.Sprintf("forwarded under overload, %d B", wireLength(length))
		var subjects []Subject
		for _, f := range o.forwarders {
			subjects = append(subjects, Subject{f.Name(), metric, "packets/s", func(ctx context.Context) (float64, map[string]float64, error) {
				t, err := o.trial(ctx, f, length)
				return t.rate, t.detail(), err
			}})
			if f != o.forwarders[0] {
				name := fmt.Sprintf("vs_%s_%dB", f.Name(), wireLength(length))
				r.Compare(name, metric, o.forwarders[0].Name(), f.Name(), Higher)
			}
		}
		if err := r.Interleave(ctx, o.Options, subjects); err != nil {
			return err
		}
	}
	return nil
}

func (o *veth) setDefaults(r *Report) {
	o.warmUp = cmp.Or(o.warmUp, 500*time.Millisecond)
	o.attempts = cmp.Or(o.attempts, 5)
	if len(o.lengths) == 0 {
		o.lengths = []int{60, 1496}
	}
	if len(o.forwarders) == 0 {
		o.forwarders = []Forwarder{NewSluice(o.Program)}
		if t, err := NewTestpmd(); err == nil {
			o.forwarders = append(o.forwarders, t)
		} else {
			r.Missing("testpmd", err.Error())
		}
		o.forwarders = append(o.forwarders, NewBaseline(o.Program))
	}
}

// addVersions reports what forwarders have said of themselves once they were started.
func (o *veth) addVersions(r *Report) {
	for _, f := range o.forwarders {
		if v, ok := f.(interface{ Version() string }); ok && v.Version() != "" {
			r.Machine.Versions[f.Name()] = v.Version()
		}
	}
}

// wireLength is a frame's length with its FCS, by which it is known.
func wireLength(length int) int { return length + 4 }

// The devices of the scenario. The hosts' namespace has h0 and h1, the switch's s0 and s1.
var (
	hostDevices   = [2]string{"h0", "h1"}
	switchDevices = [2]string{"s0", "s1"}
)

// trial starts one forwarder and measures it once.
func (o *veth) trial(ctx context.Context, f Forwarder, length int) (t sample, err error) {
	l, err := lab.New("veth")
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	hosts, site, err := o.build(l)
	if err != nil {
		return t, err
	}
	c, err := NewCounter(hosts, hostDevices[1])
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := f.Start(ctx, site); err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	g, err := StartOverload(hosts, hostDevices[0], o.CPUs[1], TestFrame(length, 0))
	if err != nil {
		return t, err
	}
	defer func() {
		_, stop := g.Stop()
		err = errors.Join(err, stop)
	}()
	if err := forwards(ctx, c); err != nil {
		return t, err
	}
	return o.measure(ctx, f, length, c, g)
}

// build makes the namespaces and devices of a trial. The forwarder's devices get a queue discipline, whatever the
// forwarder does about it: without one, veth drops what does not fit its ring, with one it pushes back.
func (o *veth) build(l *lab.Lab) (hosts *lab.Namespace, site Site, err error) {
	if hosts, err = l.Namespace("hosts"); err != nil {
		return nil, site, err
	}
	site = Site{Devices: switchDevices, CPU: o.CPUs[0], OtherCPU: o.CPUs[1]}
	if site.Namespace, err = l.Namespace("switch"); err != nil {
		return nil, site, err
	}
	for i := range hostDevices {
		if err := l.Veth(site.Namespace, switchDevices[i], hosts, hostDevices[i]); err != nil {
			return nil, site, err
		}
		if err := site.Namespace.Do(func() error { return addQueue(switchDevices[i]) }); err != nil {
			return nil, site, fmt.Errorf("queue discipline of %s: %w", switchDevices[i], err)
		}
	}
	return hosts, site, nil
}

// addQueue makes a pfifo the root queue discipline of a device.
func addQueue(device string) error {
	index, err := deviceIndex(device)
	if err != nil {
		return err
	}
	return netlink.QdiscReplace(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		QdiscType:  "pfifo",
	})
}

// forwards waits until frames come out at the far end.
func forwards(ctx context.Context, c *Counter) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		got, err := c.Read()
		if err != nil || got.Frames > 0 {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("not a frame has come through: %w", err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// disturbed is the share of its time without a CPU above which a trial is repeated. Whether a trial counts does not
// depend on its result.
const disturbed = 0.02

// sample is one measurement.
type sample struct {
	seconds   float64
	rate      float64 // forwarded, packets/s
	offered   float64 // sent by the generator, packets/s; near rate, it is the generator that was measured
	disturbed float64 // share of the time in which the forwarder or the generator had no CPU
	attempts  int     // of which this was the one disturbed least
}

func (s sample) detail() map[string]float64 {
	return map[string]float64{
		"seconds": s.seconds, "offered": s.offered, "disturbed": s.disturbed, "attempts": float64(s.attempts),
	}
}

// measure takes the figures of the first attempt that nobody disturbs, or of the one that was disturbed least.
func (o *veth) measure(ctx context.Context, f Forwarder, length int, c *Counter, g *Overload) (best sample, err error) {
	if err := pause(ctx, o.warmUp); err != nil {
		return best, err
	}
	from, err := take(f, c, g)
	if err != nil {
		return best, err
	}
	for attempt := 1; attempt <= o.attempts; attempt++ {
		if err := pause(ctx, o.Duration); err != nil {
			return best, err
		}
		to, err := take(f, c, g)
		if err != nil {
			return best, err
		}
		if want := to.received.Frames * uint64(length); to.received.Bytes != want {
			return best, fmt.Errorf("%d frames came through with %d bytes, not %d", to.received.Frames, to.received.Bytes, want)
		}
		t := between(from, to)
		if attempt == 1 || t.disturbed < best.disturbed {
			best = t
		}
		if best.attempts = attempt; best.disturbed <= disturbed {
			break
		}
		from = to
	}
	if best.rate == 0 {
		return best, fmt.Errorf("not a frame came through in %v, though some had before", o.Duration)
	}
	return best, nil
}

// look is the counters at one moment.
type look struct {
	at             time.Time
	received, sent Tally
	generator      Thread
	forwarder      map[string]Thread // none if it does not say
}

// take looks until nothing has come between the clock and the counter: a look that took longer is not one moment.
func take(f Forwarder, c *Counter, g *Overload) (l look, err error) {
	const moment, attempts = 50 * time.Microsecond, 100
	for range attempts {
		before := time.Now()
		if l.received, err = c.Read(); err != nil {
			return l, err
		}
		if l.at = time.Now(); l.at.Sub(before) < moment {
			break
		}
	}
	if p, ok := f.(interface {
		Threads() (map[string]Thread, error)
	}); ok {
		if l.forwarder, err = p.Threads(); err != nil {
			return l, err
		}
	}
	if l.generator, err = g.Thread(); err != nil {
		return l, err
	}
	l.sent, err = g.Sent()
	return l, err
}

// between returns the figures of the time between two looks.
func between(from, to look) sample {
	elapsed := to.at.Sub(from.at)
	without := withoutCPU(elapsed, from.generator, to.generator)
	if number, polls := busiest(from.forwarder, to.forwarder); polls {
		without = max(without, withoutCPU(elapsed, from.forwarder[number], to.forwarder[number]))
	}
	seconds := elapsed.Seconds()
	return sample{
		seconds:   seconds,
		rate:      float64(to.received.Frames-from.received.Frames) / seconds,
		offered:   float64(to.sent.Frames-from.sent.Frames) / seconds,
		disturbed: without.Seconds() / seconds,
	}
}

// busiest returns the number of the thread that ran most between two looks: the one that forwards.
func busiest(from, to map[string]Thread) (number string, found bool) {
	most := time.Duration(-1)
	for n, t := range to {
		if ran := t.Ran - from[n].Ran; ran > most {
			most, number = ran, n
		}
	}
	return number, most >= 0
}

// withoutCPU returns for how long, of the time between two looks, a thread that never sleeps had no CPU. The kernel
// knows of a wait only when it is over: a thread that has hardly run is in the middle of one.
func withoutCPU(elapsed time.Duration, from, to Thread) time.Duration {
	const hardly = 8 // interrupts, which do not count as running, take no more than 7 of 8 parts
	if ran := to.Ran - from.Ran; ran < elapsed/hardly {
		return elapsed - ran
	}
	return to.Waited - from.Waited
}
