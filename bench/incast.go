package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

var incastScenario = Scenario{
	Name:  "incast",
	Shows: "2, 4 and 8 hosts send to one, more than it can take: loss, PFC, goodput and fairness",
	Peers: "sluice without PFC, testpmd net_af_xdp, the Linux bridge",
	Run: func(ctx context.Context, o Options, r *Report) error {
		return (&incast{Options: o}).run(ctx, r)
	},
}

// incast says what runs. The zero value of all but the options is a choice that makes sense.
type incast struct {
	Options
	speed    uint64 // bit/s of every port
	senders  []int  // how many, one after the other
	subjects []incastSubject
}

// incastSubject is a forwarder, and how its last port is made slow.
type incastSubject struct {
	Forwarder
	pfc  bool
	peer bool // not ours: if it fails, the others are measured without it
	slow slowPort
}

const (
	incastLength = 1514                   // bytes without FCS
	incastSettle = 200 * time.Millisecond // until queues are as long as they get
)

// run has every subject measured once a round with each number of senders.
func (c *incast) run(ctx context.Context, r *Report) error {
	c.setDefaults(r)
	c.announce(r)
	defer func() {
		for _, s := range c.subjects {
			r.noteSetup(s.Name(), s.Forwarder)
		}
		c.table(r)
	}()
	for round := range c.Trials {
		for _, n := range c.senders {
			for i := range turns(round, len(c.subjects)) {
				s := c.subjects[i]
				if s.peer && r.absent(s.Name()) {
					continue
				}
				o, err := c.trial(ctx, s, n)
				if err != nil && s.peer && r.goesOnWithout(ctx, s.Name(), round, err) {
					continue
				}
				if err != nil {
					return fmt.Errorf("%s with %d senders: %w", s.Name(), n, err)
				}
				c.add(r, s.Name(), n, round, &o)
				r.noteFallback(with(s.Name(), n), round, s.Forwarder)
			}
		}
	}
	return nil
}

func (c *incast) setDefaults(r *Report) {
	c.speed = bridgeSpeed(c.Options)
	if len(c.senders) == 0 {
		c.senders = []int{2, 4, 8}
		if c.Quick {
			c.senders = []int{2, 8}
		}
	}
	if len(c.subjects) > 0 {
		return
	}
	slow := slowPort{rate: uint64(lineRate(c.speed, incastLength) * incastLength)}
	meet := slowPort{rate: slow.rate, meet: true}
	c.subjects = []incastSubject{
		{Forwarder: newBridge("sluice", &c.Options, bridgeConfig{speed: c.speed, flow: "pfc"}), pfc: true},
		{Forwarder: newBridge("sluice, no PFC", &c.Options, bridgeConfig{speed: c.speed, flow: "off"})},
	}
	if t, err := NewTestpmd(); err == nil {
		c.subjects = append(c.subjects, incastSubject{Forwarder: t, peer: true, slow: meet})
	} else {
		r.Missing("testpmd", err.Error())
	}
	c.subjects = append(c.subjects, incastSubject{Forwarder: &LinuxBridge{}, peer: true, slow: slow})
}

// What is measured of an incast.
const (
	incastLost     = "lost"
	incastShare    = "share lost"
	incastGoodput  = "goodput of the egress rate"
	incastFairness = "Jain fairness"
	incastPFC      = "PFC frames a second"
	incastPaused   = "time that a sender is paused"
	incastDisorder = "out of order or twice"
)

// with returns the name of a metric with so many senders.
func with(metric string, senders int) string { return fmt.Sprintf("%s, %d senders", metric, senders) }

func (c *incast) announce(r *Report) {
	for _, n := range c.senders {
		subject := c.subjects[0].Name()
		r.Limit(fmt.Sprintf("vs_limit_goodput_0.95_N%d", n), with(incastGoodput, n), subject, 0.95, Higher)
		r.Limit(fmt.Sprintf("vs_limit_fairness_0.99_N%d", n), with(incastFairness, n), subject, 0.99, Higher)
	}
	r.Note("Every sender offers the rate of its line, %d Mbit/s in frames of %d B of CoS %d; the receiver's line has the same rate. "+
		"Hosts send from one thread in the kernel and obey PFC within microseconds.", c.speed/1e6, wireLength(incastLength), vethPriority)
	r.Note("The ports of sluice have that speed. The Linux bridge has a token bucket (tc tbf, 1 MB of queue) on the receiver's port. " +
		"testpmd in io mode joins pairs of ports and has no shaper, and AF_XDP sends past queue disciplines: there every sender's port has " +
		"one to send to, and what comes out of these meets in a Linux bridge with that token bucket. So most of its loss is not in testpmd " +
		"but behind it: it can stop nobody.")
	r.Note("Loss is of all frames from the first to the last; goodput, PFC and fairness are of the time in between. "+
		"What others on the machine disturb is repeated, whatever came of it. A switch that has no CPU for longer than a pause lasts, "+
		"%v here, can't stop anybody any more.", time.Duration(math.MaxUint16*512*uint64(time.Second)/c.speed).Round(time.Millisecond))
}

// trial measures a subject once.
func (c *incast) trial(ctx context.Context, s incastSubject, senders int) (o observation, err error) {
	p := bedParams{ports: senders + 1, speed: c.speed, cpus: c.CPUs, slow: s.slow}
	if s.pfc {
		p.priorities = 1 << vethPriority
	}
	rates := make([]float64, senders, senders+1)
	for i := range senders {
		p.streams = append(p.streams, stream{from: i, to: senders, priority: vethPriority, length: incastLength})
		rates[i] = lineRate(c.speed, incastLength)
	}
	p.streams = append(p.streams, stream{from: senders, to: 0, length: 60, hello: true})
	b, err := newBed(p)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.start(ctx, s.Forwarder); err != nil {
		return o, err
	}
	return b.observe(ctx, append(rates, stopped), incastSettle, c.Duration, liveAttempts(c.Options))
}

// add adds a trial's figures to the report.
func (c *incast) add(r *Report, name string, senders, round int, o *observation) {
	var sent, lost, disordered uint64
	var rates []float64
	total, frames, paused := 0.0, 0.0, 0.0
	for i := range senders {
		s := &o.streams[i]
		sent, lost, disordered = sent+s.sent, lost+s.lost(), disordered+s.disordered
		rates, total = append(rates, s.rate), total+s.rate
		frames += o.hosts[i].frames
		paused += o.hosts[i].paused[vethPriority] / float64(senders)
	}
	goodput := total / lineRate(c.speed, incastLength)
	detail := map[string]float64{
		"sent": float64(sent), "count": float64(sent - lost), "seconds": o.seconds, "disturbed": o.disturbed, "attempts": float64(o.attempts),
	}
	add := func(metric, unit string, value float64) {
		r.Add(Trial{Name: name, Metric: with(metric, senders), Unit: unit, Round: round, Value: value, Detail: detail})
	}
	add(incastLost, "frames", float64(lost))
	add(incastShare, "", float64(lost)/float64(sent))
	add(incastGoodput, "", goodput)
	add(incastFairness, "", jain(rates))
	add(incastPFC, "1/s", frames)
	add(incastPaused, "", paused)
	add(incastDisorder, "frames", float64(disordered))
	add(metricDiscarded, "frames", float64(o.discarded))
	r.noteDisturbed(with(name, senders), round, o.disturbed)
	c.Progress("%s, %d senders, %s: lost %d of %d, goodput %.1f %%, %.0f PFC frames/s, paused %.1f %%, Jain %.4f",
		name, senders, ofRounds(round, c.Trials), lost, sent, 100*goodput, frames, 100*paused, jain(rates))
}

// table puts everything side by side: medians of all rounds, but all that was lost.
func (c *incast) table(r *Report) {
	t := Table{
		Title: "Incast: medians; lost is the most of any round",
		Head:  []string{"senders", "forwarder", "lost", "lost %", "goodput %", "PFC frames/s", "paused %", "Jain", "out of order"},
	}
	for _, n := range c.senders {
		for _, s := range c.subjects {
			if len(r.Values(s.Name(), with(incastDisorder, n))) == 0 {
				continue
			}
			const percent = 0.01
			cell := func(metric, format string, unit float64) string {
				return r.cell(s.Name(), with(metric, n), format, unit)
			}
			t.Rows = append(t.Rows, []string{
				strconv.Itoa(n), s.Name(), r.most(s.Name(), with(incastLost, n)), cell(incastShare, "%.2f", percent),
				cell(incastGoodput, "%.1f", percent), cell(incastPFC, "%.0f", 1), cell(incastPaused, "%.1f", percent),
				cell(incastFairness, "%.4f", 1), r.most(s.Name(), with(incastDisorder, n)),
			})
		}
	}
	r.Table(t)
}
