package veth

import (
	"context"
	"errors"
	"fmt"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
)

// HOL is head-of-line blocking: the effect of PFC on a flow that is not congested.
var HOL = compare.Scenario{
	Name: "hol",
	Shows: "head-of-line blocking (RFC 8239): rate of a flow to a free port while its sender is " +
		"paused for another",
	Peers: "sluice with PAUSE (802.3x), and without flow control",
	Page:  "congestion",
	Run: func(ctx context.Context, o compare.Options, r *compare.Report) error {
		return (&hol{Options: o}).run(ctx, r)
	},
}

type hol struct {
	compare.Options
	speed      uint64                   // bit/s of every port except the slow one
	forwarders map[string]bed.Forwarder // the last one of each kind
}

// holKind is a kind of flow control.
type holKind struct {
	name       string
	flow       string // flow_control of every port
	priorities uint8  // that hosts honour
	victim     uint8  // the victim's priority
}

// The victim has the priority of the congested flow, or another, lossy one.
const holOther = 0

var holKinds = []holKind{
	{"PFC, victim in another priority", "pfc", 1 << bed.LosslessPriority, holOther},
	{"PFC, victim in the same priority", "pfc", 1 << bed.LosslessPriority, bed.LosslessPriority},
	{"PAUSE", "pause", 0xff, holOther},
	{"no flow control", "off", 0, holOther},
}

// Hosts.
const (
	holFirst  = iota // sends to both receivers, to each with half of its line
	holSecond        // sends to the slow receiver with all of its line
	holSlow
	holFree
	holHosts
)

const (
	holSlower = 5    // ratio of the other ports' speed to that of the slow one
	holLength = 1514 // bytes without FCS
)

// Streams.
const (
	holCongested = iota
	holCulprit
	holVictim
	holHelloSlow
	holHelloFree
)

// Metrics.
const (
	holKept    = "victim's rate, relative to what it offers"
	holGoodput = "slow port's goodput, relative to its rate"
	holLost    = "lost to the slow port"
	holLostToo = "lost by the victim"
	holPaused  = "share of time that the victim's priority is paused"
	holPFC     = "PFC or PAUSE frames/s"
)

// run measures each kind once per round:
//
//	h0 ──▶ s0 ┐   ┌ s2 ──▶ h2 slow: congested by h0 and h1
//	h1 ──▶ s1 ┴───┴ s3 ──▶ h3 free: the victim's, from h0
func (h *hol) run(ctx context.Context, r *compare.Report) error {
	h.speed = bed.BridgeSpeed(h.Options)
	h.announce(r)
	defer func() {
		for _, k := range holKinds {
			bed.NoteSetup(r, k.name, h.forwarders[k.name])
		}
		h.table(r)
	}()
	for round := range h.Trials {
		for i := range compare.Turns(round, len(holKinds)) {
			k := holKinds[i]
			o, err := h.trial(ctx, k)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			h.add(r, k, round, &o)
			bed.NoteFallback(r, k.name, round, h.forwarders[k.name])
		}
	}
	return nil
}

func (h *hol) announce(r *compare.Report) {
	const best, pause = 0, 2
	r.Limit("vs_limit_victim_0.95", holKept, holKinds[best].name, 0.95, compare.Higher)
	r.Compare("vs_PAUSE_victim", holKept, holKinds[best].name, holKinds[pause].name, compare.Higher)
	r.Note("Ports have %d Mbit/s, the slow one a fifth of that.", h.speed/1e6)
}

func (h *hol) trial(ctx context.Context, k holKind) (o bed.Observation, err error) {
	b, err := bed.New(bed.Params{
		Ports: holHosts, CPUs: h.CPUs, Priorities: k.priorities, Speed: h.speed,
		Streams: []bed.Stream{
			holCongested: {From: holFirst, To: holSlow, Priority: bed.LosslessPriority, Length: holLength},
			holCulprit:   {From: holSecond, To: holSlow, Priority: bed.LosslessPriority, Length: holLength},
			holVictim:    {From: holFirst, To: holFree, Priority: k.victim, Length: holLength},
			holHelloSlow: {From: holSlow, To: holFirst, Length: 60, Hello: true},
			holHelloFree: {From: holFree, To: holFirst, Length: 60, Hello: true},
		},
	})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	f := bed.NewBridge("sluice", &h.Options, bed.BridgeConfig{Speed: h.speed, Flow: k.flow, Slow: holSlow,
		Slower: holSlower})
	if err := b.Start(ctx, f); err != nil {
		return o, err
	}
	if h.forwarders == nil {
		h.forwarders = map[string]bed.Forwarder{}
	}
	h.forwarders[k.name] = f
	line := bed.LineRate(h.speed, holLength)
	return b.Observe(ctx, []float64{line / 2, line, line / 2, bed.Stopped, bed.Stopped}, incastSettle, h.Duration,
		compare.LiveAttempts(h.Options))
}

func (h *hol) add(r *compare.Report, k holKind, round int, o *bed.Observation) {
	detail := map[string]float64{
		"sent":    float64(o.Streams[holCongested].Sent + o.Streams[holCulprit].Sent + o.Streams[holVictim].Sent),
		"seconds": o.Seconds, "disturbed": o.Disturbed, "attempts": float64(o.Attempts),
	}
	add := func(metric, unit string, value float64) {
		r.Add(compare.Trial{Name: k.name, Metric: metric, Unit: unit, Round: round, Value: value, Detail: detail})
	}
	s := o.Streams
	kept := s[holVictim].Rate / (bed.LineRate(h.speed, holLength) / 2)
	goodput := (s[holCongested].Rate + s[holCulprit].Rate) / bed.LineRate(h.speed/holSlower, holLength)
	lost, lostToo := s[holCongested].Lost()+s[holCulprit].Lost(), s[holVictim].Lost()
	add(holKept, "", kept)
	add(holGoodput, "", goodput)
	add(holLost, "frames", float64(lost))
	add(holLostToo, "frames", float64(lostToo))
	add(compare.MetricDiscarded, "frames", float64(o.Discarded))
	add(holPaused, "", o.Hosts[holFirst].Paused[k.victim])
	add(holPFC, "1/s", o.Hosts[holFirst].Frames+o.Hosts[holSecond].Frames)
	r.NoteDisturbed(k.name, round, o.Disturbed)
	h.Progress("%s, %s: victim keeps %.1f %%, slow port %.1f %%, lost %d and %d", k.name,
		compare.OfRounds(round, h.Trials),
		100*kept, 100*goodput, lost, lostToo)
}

func (h *hol) table(r *compare.Report) {
	t := compare.Table{
		Title: "Head-of-line blocking: medians; for lost frames, the maximum of all rounds",
		Head: []string{"flow control", "victim keeps %", "victim paused %", "slow port %", "control frames/s",
			"lost to the slow port", "lost by the victim"},
	}
	for _, k := range holKinds {
		if len(r.Values(k.name, holPFC)) == 0 {
			continue
		}
		const percent = 0.01
		t.Rows = append(t.Rows, []string{
			k.name, r.Cell(k.name, holKept, "%.1f", percent), r.Cell(k.name, holPaused, "%.1f", percent),
			r.Cell(k.name, holGoodput, "%.1f", percent), r.Cell(k.name, holPFC, "%.0f", 1),
			r.Most(k.name, holLost), r.Most(k.name, holLostToo),
		})
	}
	r.Table(t)
}
