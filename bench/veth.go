package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/internal/lab"
)

// VethOptions say how RunVeth measures. The zero value of all but Sluice is a choice that makes sense.
type VethOptions struct {
	Sluice  string // path of this project's program
	Version string // its version, for the report

	Forwarders []Forwarder   // in this order; none: sluice, testpmd where it is installed, baseline
	Lengths    []int         // of the frames, bytes without FCS; none: 60 and 1496
	Trials     int           // of each forwarder with each length; 0: 10
	Duration   time.Duration // of a trial; 0: 2 s
	WarmUp     time.Duration // before each trial; 0: 500 ms
	Attempts   int           // at a trial that others disturb, of that duration each; 0: 5
	CPUs       [2]int        // of the forwarder and of the generator; equal: 0 and 1

	Log io.Writer // a line for each trial; nil: none
}

// RunVeth loads one forwarder after the other beyond what it sustains and counts what comes out at the other end:
//
//	generator → h0 — s0 → forwarder → s1 — h1 → counter
//
// with s0 and s1 in a namespace of the switch, h0 and h1 in one of the hosts. Forwarders take turns, trial by trial,
// so that what disturbs the machine disturbs all of them. Each trial has devices of its own: nothing that a forwarder
// leaves behind meets the next one.
func RunVeth(ctx context.Context, o VethOptions) (*Report, error) {
	r := &Report{Scenario: "veth", Machine: thisMachine(), Ratios: map[string]Ratio{}, Absent: map[string]string{}}
	o.setDefaults(r)
	for _, length := range o.Lengths {
		for round := range o.Trials {
			for _, f := range o.Forwarders {
				t, err := o.trial(ctx, f, length)
				if err != nil {
					return nil, fmt.Errorf("bench: veth: %s with frames of %d B: %w", f.Name(), length, err)
				}
				t.Round = round
				r.Trials = append(r.Trials, t)
				o.log("%-10s %5d B  round %d: %.3f Mpps of %.3f offered, %.1f %% disturbed, attempt %d\n",
					t.Forwarder, wireLength(length), round+1, t.Rate/1e6, t.Offered/1e6, 100*t.Disturbed, t.Attempts)
			}
		}
	}
	for _, f := range o.Forwarders {
		if v, ok := f.(interface{ Version() string }); ok && v.Version() != "" {
			r.Machine.Versions[f.Name()] = v.Version()
		}
	}
	r.summarise()
	return r, nil
}

func (o *VethOptions) setDefaults(r *Report) {
	o.Trials = cmp.Or(o.Trials, 10)
	o.Duration = cmp.Or(o.Duration, 2*time.Second)
	o.WarmUp = cmp.Or(o.WarmUp, 500*time.Millisecond)
	o.Attempts = cmp.Or(o.Attempts, 5)
	if len(o.Lengths) == 0 {
		o.Lengths = []int{60, 1496}
	}
	if o.CPUs[0] == o.CPUs[1] {
		o.CPUs = [2]int{0, 1}
	}
	if o.Version != "" {
		r.Machine.Versions["sluice"] = o.Version
	}
	if len(o.Forwarders) > 0 {
		return
	}
	o.Forwarders = []Forwarder{NewSluice(o.Sluice)}
	if t, err := NewTestpmd(); err == nil {
		o.Forwarders = append(o.Forwarders, t)
	} else {
		r.Absent["testpmd"] = err.Error()
	}
	o.Forwarders = append(o.Forwarders, NewBaseline(o.Sluice))
}

func (o *VethOptions) log(format string, args ...any) {
	if o.Log != nil {
		fmt.Fprintf(o.Log, format, args...)
	}
}

// The devices of the scenario. The hosts' namespace has h0 and h1, the switch's s0 and s1.
var (
	hostDevices   = [2]string{"h0", "h1"}
	switchDevices = [2]string{"s0", "s1"}
)

// trial starts one forwarder and measures it once.
func (o *VethOptions) trial(ctx context.Context, f Forwarder, length int) (t Trial, err error) {
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
func (o *VethOptions) build(l *lab.Lab) (hosts *lab.Namespace, site Site, err error) {
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

// measure takes the figures of the first attempt that nobody disturbs, or of the one that was disturbed least.
func (o *VethOptions) measure(ctx context.Context, f Forwarder, length int, c *Counter, g *Overload) (best Trial, err error) {
	if err := pause(ctx, o.WarmUp); err != nil {
		return best, err
	}
	from, err := take(f, c, g)
	if err != nil {
		return best, err
	}
	for attempt := 1; attempt <= o.Attempts; attempt++ {
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
		if attempt == 1 || t.Disturbed < best.Disturbed {
			best = t
		}
		if best.Attempts = attempt; best.Disturbed <= disturbed {
			break
		}
		from = to
	}
	if best.Rate == 0 {
		return best, fmt.Errorf("not a frame came through in %v, though some had before", o.Duration)
	}
	best.Forwarder, best.Length = f.Name(), length
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
func between(from, to look) Trial {
	elapsed := to.at.Sub(from.at)
	without := withoutCPU(elapsed, from.generator, to.generator)
	if number, polls := busiest(from.forwarder, to.forwarder); polls {
		without = max(without, withoutCPU(elapsed, from.forwarder[number], to.forwarder[number]))
	}
	seconds := elapsed.Seconds()
	return Trial{
		Seconds:   seconds,
		Rate:      float64(to.received.Frames-from.received.Frames) / seconds,
		Offered:   float64(to.sent.Frames-from.sent.Frames) / seconds,
		Disturbed: without.Seconds() / seconds,
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

// noisy is the CV above which a result is marked.
const noisy = 0.05
