package compare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Load is the result of one trial of a search. Both sides count frames alike. The caller decides
// what counts as loss; it may, for instance, exclude frames that the generator could not send.
type Load struct {
	Offered   float64 // frames that the generator was asked to send, above 0
	Sent      float64 // frames that it sent
	Received  float64 // frames that came out at the other end
	Loss      float64 // share of the frames sent that did not come out, 0 to 1
	Growing   bool    // queues were growing: a longer trial would have lost more (the q-full guard of TRex)
	Disturbed float64 // share of the time in which the generator or the subject had no CPU
	Seconds   float64 // duration of the trial
}

// SearchParams configure a search. Rates are in packets/s, or in any other unit that measure uses.
type SearchParams struct {
	Min, Max float64       // rates between which to search; Max must not exceed what the generator can send
	Width    float64       // of the interval at which a search ends, relative to its upper bound. Default 0.005
	Goals    []float64     // loss ratios, each with a highest rate to find: 0 is the NDR, 0.005 the PDR
	Trial    time.Duration // duration of the first trials, which only narrow the interval
	Final    time.Duration // duration of the trials that decide. Default: Trial
	Attempts int           // in all at a trial that is inconclusive. Default: 1

	// By default one trial of the duration Final decides whether a rate keeps a goal. On a machine
	// that other processes disturb, let several trials decide: a rate keeps the goal if, over
	// trials of the total duration Sum, at most the share Exceed fails.
	Sum    time.Duration // default: Final
	Exceed float64       // 0 to 1; 0.5 is the majority
}

// Searched is the result of a search.
type Searched struct {
	Goals     []Found // by SearchParams.Goals
	Trials    int     // made, including those discarded
	Discarded int     // trials that were inconclusive and were repeated
	Lost      float64 // frames lost in discarded trials
	Doubtful  int     // trials that count although every attempt was inconclusive
}

// Found is the highest rate that keeps a goal.
type Found struct {
	Rate   float64 // 0: not even Min keeps it
	Bound  bool    // the rate is at least this: no trial above it failed conclusively
	Trials int     // number of trials that decided about Rate…
	Load           // … their frames and seconds added up, their highest loss and disturbance
}

// Search finds, for each goal, the highest rate that keeps its loss ratio while a rate at most
// Width above it does not.
//
// A trial is inconclusive if the generator sent less than it was asked for, by more than Width and
// one frame, or if other processes had the CPU. Search repeats it, whatever it lost. If every
// attempt is inconclusive, the least disturbed one counts. A rate that was still not offered, or
// that may have failed because of other processes, bounds the search from above all the same.
//
// The algorithm is that of FD.io (draft-ietf-bmwg-mlrsearch). The first trial, at Max, warms up and
// is discarded. The second trial gives the starting point, since the throughput under overload is
// close to the throughput without loss. Then, for each goal, short trials find a wide interval and
// longer trials narrow it, each phase starting at the lower bound of the previous one: outwards in
// growing steps until the interval is enclosed by a rate that keeps the goal and one that does not,
// then by bisection. A trial counts for all goals. If rates contradict each other, the lower
// failing rate wins.
//
// The error comes from ctx or measure, or says which parameter is invalid.
func Search(ctx context.Context, p SearchParams, measure func(ctx context.Context, rate float64, d time.Duration) (Load,
	error)) (*Searched, error) {
	p.setDefaults()
	if err := p.check(); err != nil {
		return nil, err
	}
	s := search{SearchParams: p, measure: measure}
	if err := s.try(ctx, p.Max, p.Trial); err != nil {
		return nil, err
	}
	s.trials, s.result = nil, Searched{Trials: s.result.Trials}
	if err := s.try(ctx, p.Max, p.Trial); err != nil {
		return nil, err
	}
	overload := s.trials[0].Load
	for _, goal := range p.Goals {
		hint := p.Max * overload.Received / overload.Offered
		for _, ph := range p.phases() {
			var err error
			if hint, err = s.narrow(ctx, goal, ph, min(max(hint, p.Min), p.Max)); err != nil {
				return nil, err
			}
		}
		s.result.Goals = append(s.result.Goals, s.found(goal, hint))
	}
	return &s.result, nil
}

func (p *SearchParams) setDefaults() {
	if p.Width == 0 {
		p.Width = 0.005
	}
	if p.Final == 0 {
		p.Final = p.Trial
	}
	if p.Sum == 0 {
		p.Sum = p.Final
	}
	p.Attempts = max(p.Attempts, 1)
}

func (p *SearchParams) check() error {
	switch {
	case !(0 < p.Min && p.Min <= p.Max) || math.IsInf(p.Max, 0):
		return fmt.Errorf("bench: search from %v to %v: give rates above 0, the lower one first", p.Min, p.Max)
	case !(p.Width > 0 && p.Width <= 0.5):
		return fmt.Errorf("bench: search to a width of %v: give one above 0 and up to 0.5", p.Width)
	case p.Trial <= 0 || p.Final < p.Trial || p.Sum < p.Final:
		return fmt.Errorf(
			"bench: search with trials of %v, finally %v, in all %v: none may be shorter than the one before", p.Trial,
			p.Final, p.Sum)
	case !(p.Exceed >= 0 && p.Exceed < 1):
		return fmt.Errorf("bench: search in which a share of %v of the trials may fail: give one from 0 to below 1",
			p.Exceed)
	case len(p.Goals) == 0:
		return errors.New("bench: search without a goal: give loss ratios, 0 for the NDR")
	}
	for _, g := range p.Goals {
		if !(g >= 0 && g < 1) {
			return fmt.Errorf("bench: search for a loss ratio of %v: give one from 0 to below 1", g)
		}
	}
	return nil
}

// phase is one pass of the search for one goal.
type phase struct {
	duration, sum time.Duration // of each trial, and of all trials that decide about a rate
	width         float64
}

// phases returns three phases, each with longer trials and half the width of the one before, or
// only the last one if all trials have the same duration.
func (p *SearchParams) phases() []phase {
	last := phase{p.Final, p.Sum, p.Width}
	if p.Trial == p.Final {
		return []phase{last}
	}
	middle := time.Duration(math.Sqrt(float64(p.Trial) * float64(p.Final)))
	return []phase{{p.Trial, p.Trial, 4 * p.Width}, {middle, middle, 2 * p.Width}, last}
}

// trialAt is a trial of the search at one rate.
type trialAt struct {
	Load
	rate     float64
	duration time.Duration
	trouble  trouble
}

// trouble is what makes a trial inconclusive. Each value is relative to its limit: above 1, the
// trial is inconclusive.
type trouble struct {
	others float64 // other processes had the CPU
	short  float64 // the generator sent too little
}

func (t trouble) most() float64 { return max(t.others, t.short) }

// troubleOf is the only place that decides whether a trial is inconclusive.
func (p *SearchParams) troubleOf(l Load) trouble {
	return trouble{others: l.Disturbed / Disturbed, short: (l.Offered - l.Sent - 1) / (l.Offered * p.Width)}
}

// search is the state of a search.
type search struct {
	SearchParams
	result  Searched
	measure func(ctx context.Context, rate float64, d time.Duration) (Load, error)
	trials  []trialAt // that count
}

// try makes a trial and repeats it if it is inconclusive.
func (s *search) try(ctx context.Context, rate float64, d time.Duration) error {
	var best trialAt
	lost := 0.0
	for attempt := range s.Attempts {
		t, err := s.once(ctx, rate, d)
		if err != nil {
			return err
		}
		lost += t.Loss * t.Sent
		if attempt == 0 || t.trouble.most() < best.trouble.most() {
			best = t
		}
		if s.result.Discarded += min(attempt, 1); best.trouble.most() <= 1 {
			break
		}
	}
	if best.trouble.most() > 1 {
		s.result.Doubtful++
	}
	s.result.Lost += lost - best.Loss*best.Sent
	s.trials = append(s.trials, best)
	return nil
}

// once makes one attempt at a trial.
func (s *search) once(ctx context.Context, rate float64, d time.Duration) (t trialAt, err error) {
	if err := ctx.Err(); err != nil {
		return t, err
	}
	s.result.Trials++
	l, err := s.measure(ctx, rate, d)
	if err == nil && !(l.Offered > 0) {
		err = fmt.Errorf("bench: nothing was offered in a trial of %v", d)
	}
	if err != nil {
		return t, fmt.Errorf("at %.6g: %w", rate, err)
	}
	return trialAt{l, rate, d, s.troubleOf(l)}, nil
}

// found returns the last phase's result for a goal.
func (s *search) found(goal, rate float64) Found {
	phases := s.phases()
	last := phases[len(phases)-1]
	upper := s.bounds(goal, last).upper
	f := Found{Rate: rate, Bound: upper == 0 || s.judge(upper, goal, last) == void}
	for _, t := range s.trials {
		if t.rate != rate || t.duration < last.duration {
			continue
		}
		f.Trials++
		f.Load = Load{
			Offered: f.Offered + t.Offered, Sent: f.Sent + t.Sent, Received: f.Received + t.Received,
			Seconds: f.Seconds + t.Seconds,
			Loss:    max(f.Loss, t.Loss), Growing: f.Growing || t.Growing, Disturbed: max(f.Disturbed, t.Disturbed),
		}
	}
	return f
}

// narrow makes trials until the bounds of the rate that keeps a goal are as close as the phase
// requires. It returns the lower bound, or 0 if there is none.
func (s *search) narrow(ctx context.Context, goal float64, ph phase, hint float64) (float64, error) {
	for step := ph.width; ; {
		b := s.bounds(goal, ph)
		var rate float64
		switch {
		case b.undecided > 0:
			rate = b.undecided
		case b.lower > 0 && (b.lower == s.Max || b.upper > 0 && b.lower >= b.upper*(1-ph.width)):
			return b.lower, nil
		case b.lower > 0 && b.upper > 0:
			rate = math.Sqrt(b.lower * b.upper)
		case b.lower > 0:
			rate = min(b.lower/(1-step), s.Max)
			step = min(2*step, 0.5)
		case b.upper == s.Min:
			return 0, nil
		case b.upper > 0 && b.upper <= hint:
			rate = max(b.upper*(1-step), s.Min)
			step = min(2*step, 0.5)
		default:
			rate = hint
		}
		if err := s.try(ctx, rate, ph.duration); err != nil {
			return 0, err
		}
	}
}

// bounds are the bounds of the rate that keeps a goal, by the trials so far.
type bounds struct {
	upper     float64 // the lowest rate that fails or has an inconclusive verdict; 0: none
	lower     float64 // the highest rate below that keeps the goal; 0: none
	undecided float64 // a rate between them that needs more trials; 0: none
}

// bounds judges every rate by the trials that are long enough for the phase.
func (s *search) bounds(goal float64, ph phase) (b bounds) {
	verdicts := map[float64]verdict{}
	for _, t := range s.trials {
		if _, judged := verdicts[t.rate]; !judged && t.duration >= ph.duration {
			verdicts[t.rate] = s.judge(t.rate, goal, ph)
		}
	}
	for rate, v := range verdicts {
		if v == fails && (b.upper == 0 || rate < b.upper) {
			b.upper = rate
		}
	}
	below := func(rate float64) bool { return b.upper == 0 || rate < b.upper }
	for rate, v := range verdicts {
		if v == keeps && below(rate) {
			b.lower = max(b.lower, rate)
		}
	}
	for rate, v := range verdicts {
		if v == void && below(rate) && rate > b.lower { // does not count against a higher rate that keeps the goal
			b.upper = rate
		}
	}
	for rate, v := range verdicts {
		if v == open && below(rate) && rate > b.lower {
			b.undecided = max(b.undecided, rate)
		}
	}
	return b
}

// verdict says whether a rate keeps a goal.
type verdict int

const (
	open verdict = iota // more trials are needed
	keeps
	fails
	void // the trials are inconclusive
)

// judge decides as soon as the remaining trials can no longer change the verdict.
func (s *search) judge(rate, goal float64, ph phase) verdict {
	var good, bad, none time.Duration
	for _, t := range s.trials {
		switch {
		case t.rate != rate || t.duration < ph.duration:
		case t.Loss <= goal && !t.Growing && t.trouble.short <= 1:
			good += t.duration // even if other processes had the CPU
		case t.trouble.most() > 1:
			none += t.duration
		default:
			bad += t.duration
		}
	}
	all := max(ph.sum, good+bad+none)
	allowed := s.Exceed * float64(all)
	switch {
	case float64(bad) > allowed:
		return fails
	case float64(bad+none) > allowed:
		return void
	case float64(all-good) <= allowed:
		return keeps
	}
	return open
}
