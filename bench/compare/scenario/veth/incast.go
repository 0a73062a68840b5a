package veth

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
)

// Incast is many senders to one port.
var Incast = compare.Scenario{
	Name:  "incast",
	Shows: "2, 4 and 8 hosts send to one at line rate each: loss, PFC, goodput and fairness",
	Peers: "sluice without PFC, testpmd net_af_xdp, the Linux bridge",
	Page:  "congestion",
	Run: func(ctx context.Context, o compare.Options, r *compare.Report) error {
		return (&incast{Options: o}).run(ctx, r)
	},
}

// incast is one run of the scenario. Zero values, except in Options, have useful defaults.
type incast struct {
	compare.Options
	speed    uint64 // bit/s of every port
	senders  []int  // numbers of senders, measured one after the other
	subjects []incastSubject
}

// incastSubject is a forwarder, with how its last port is slowed down.
type incastSubject struct {
	bed.Forwarder
	pfc  bool
	peer bool // not ours: if it fails, the others are measured without it
	slow bed.SlowPort
}

const (
	incastLength = 1514                   // bytes without FCS
	incastSettle = 200 * time.Millisecond // until queues are as long as they get
)

// run measures every subject once per round with each number of senders.
func (c *incast) run(ctx context.Context, r *compare.Report) error {
	c.setDefaults(r)
	c.announce(r)
	defer func() {
		for _, s := range c.subjects {
			bed.NoteSetup(r, s.Name(), s.Forwarder)
		}
		c.table(r)
	}()
	for round := range c.Trials {
		for _, n := range c.senders {
			for i := range compare.Turns(round, len(c.subjects)) {
				s := c.subjects[i]
				if s.peer && r.IsAbsent(s.Name()) {
					continue
				}
				o, err := c.trial(ctx, s, n)
				if err != nil && s.peer && r.GoesOnWithout(ctx, s.Name(), round, err) {
					continue
				}
				if err != nil {
					return fmt.Errorf("%s with %d senders: %w", s.Name(), n, err)
				}
				c.add(r, s.Name(), n, round, &o)
				bed.NoteFallback(r, with(s.Name(), n), round, s.Forwarder)
			}
		}
	}
	return nil
}

func (c *incast) setDefaults(r *compare.Report) {
	c.speed = bed.BridgeSpeed(c.Options)
	if len(c.senders) == 0 {
		c.senders = []int{2, 4, 8}
		if c.Quick {
			c.senders = []int{2, 8}
		}
	}
	if len(c.subjects) > 0 {
		return
	}
	slow := bed.SlowPort{Rate: uint64(bed.LineRate(c.speed, incastLength) * incastLength)}
	meet := bed.SlowPort{Rate: slow.Rate, Meet: true}
	c.subjects = []incastSubject{
		{Forwarder: bed.NewBridge("sluice", &c.Options, bed.BridgeConfig{Speed: c.speed, Flow: "pfc"}), pfc: true},
		{Forwarder: bed.NewBridge("sluice, no PFC", &c.Options, bed.BridgeConfig{Speed: c.speed, Flow: "off"})},
	}
	if t, err := bed.NewTestpmd(); err == nil {
		c.subjects = append(c.subjects, incastSubject{Forwarder: t, peer: true, slow: meet})
	} else {
		r.Missing("testpmd", err.Error())
	}
	c.subjects = append(c.subjects, incastSubject{Forwarder: &bed.LinuxBridge{}, peer: true, slow: slow})
}

// Metrics.
const (
	incastLost     = "lost"
	incastShare    = "loss ratio"
	incastGoodput  = "goodput, relative to the egress rate"
	incastFairness = "Jain's fairness index"
	incastPFC      = "PFC frames/s"
	incastPaused   = "share of time that a sender is paused"
	incastDisorder = "out of order or twice"
)

// with returns the name of a metric with a number of senders.
func with(metric string, senders int) string { return fmt.Sprintf("%s, %d senders", metric, senders) }

func (c *incast) announce(r *compare.Report) {
	for _, n := range c.senders {
		subject := c.subjects[0].Name()
		r.Limit(fmt.Sprintf("vs_limit_goodput_0.95_N%d", n), with(incastGoodput, n), subject, 0.95, compare.Higher)
		r.Limit(fmt.Sprintf("vs_limit_fairness_0.99_N%d", n), with(incastFairness, n), subject, 0.99, compare.Higher)
	}
	r.Note("Every line has %d Mbit/s, where a pause lasts %v at most.", c.speed/1e6,
		time.Duration(math.MaxUint16*512*uint64(time.Second)/c.speed).Round(time.Millisecond))
}

// trial measures a subject once.
func (c *incast) trial(ctx context.Context, s incastSubject, senders int) (o bed.Observation, err error) {
	p := bed.Params{Ports: senders + 1, Speed: c.speed, CPUs: c.CPUs, Slow: s.slow}
	if s.pfc {
		p.Priorities = 1 << bed.LosslessPriority
	}
	rates := make([]float64, senders, senders+1)
	for i := range senders {
		p.Streams = append(p.Streams, bed.Stream{From: i, To: senders, Priority: bed.LosslessPriority,
			Length: incastLength})
		rates[i] = bed.LineRate(c.speed, incastLength)
	}
	p.Streams = append(p.Streams, bed.Stream{From: senders, To: 0, Length: 60, Hello: true})
	b, err := bed.New(p)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.Start(ctx, s.Forwarder); err != nil {
		return o, err
	}
	return b.Observe(ctx, append(rates, bed.Stopped), incastSettle, c.Duration, compare.LiveAttempts(c.Options))
}

// add adds a trial's figures to the report.
func (c *incast) add(r *compare.Report, name string, senders, round int, o *bed.Observation) {
	var sent, lost, disordered uint64
	var rates []float64
	total, frames, paused := 0.0, 0.0, 0.0
	for i := range senders {
		s := &o.Streams[i]
		sent, lost, disordered = sent+s.Sent, lost+s.Lost(), disordered+s.Disordered
		rates, total = append(rates, s.Rate), total+s.Rate
		frames += o.Hosts[i].Frames
		paused += o.Hosts[i].Paused[bed.LosslessPriority] / float64(senders)
	}
	goodput := total / bed.LineRate(c.speed, incastLength)
	detail := map[string]float64{
		"sent": float64(sent), "count": float64(sent - lost), "seconds": o.Seconds, "disturbed": o.Disturbed,
		"attempts": float64(o.Attempts),
	}
	add := func(metric, unit string, value float64) {
		r.Add(compare.Trial{Name: name, Metric: with(metric, senders), Unit: unit, Round: round, Value: value,
			Detail: detail})
	}
	add(incastLost, "frames", float64(lost))
	add(incastShare, "", float64(lost)/float64(sent))
	add(incastGoodput, "", goodput)
	add(incastFairness, "", bed.Jain(rates))
	add(incastPFC, "1/s", frames)
	add(incastPaused, "", paused)
	add(incastDisorder, "frames", float64(disordered))
	add(compare.MetricDiscarded, "frames", float64(o.Discarded))
	r.NoteDisturbed(with(name, senders), round, o.Disturbed)
	c.Progress("%s, %d senders, %s: lost %d of %d, goodput %.1f %%, %.0f PFC frames/s, paused %.1f %%, Jain %.4f",
		name, senders, compare.OfRounds(round, c.Trials), lost, sent, 100*goodput, frames, 100*paused, bed.Jain(rates))
}

// table shows all results side by side: medians of all rounds, and for loss the maximum.
func (c *incast) table(r *compare.Report) {
	t := compare.Table{
		Title: "Incast: medians; for frames lost and out of order, the maximum of all rounds",
		Head: []string{"senders", "forwarder", "lost", "lost %", "goodput %", "PFC frames/s", "senders paused %",
			"Jain", "out of order"},
	}
	for _, n := range c.senders {
		for _, s := range c.subjects {
			if len(r.Values(s.Name(), with(incastDisorder, n))) == 0 {
				continue
			}
			const percent = 0.01
			cell := func(metric, format string, unit float64) string {
				return r.Cell(s.Name(), with(metric, n), format, unit)
			}
			t.Rows = append(t.Rows, []string{
				strconv.Itoa(n), s.Name(), r.Most(s.Name(), with(incastLost, n)), cell(incastShare, "%.2f", percent),
				cell(incastGoodput, "%.1f", percent), cell(incastPFC, "%.0f", 1), cell(incastPaused, "%.1f", percent),
				cell(incastFairness, "%.4f", 1), r.Most(s.Name(), with(incastDisorder, n)),
			})
		}
	}
	r.Table(t)
}
