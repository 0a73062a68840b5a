package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Load is what one trial of a search saw. Frames are counted alike on either side; loss is what the one who measures
// makes of them, for instance without what the generator could not send.
type Load struct {
	Offered  float64 // frames that the generator was asked for
	Sent     float64 // frames that it sent
	Received float64 // frames that came out at the other end
	Loss     float64 // share of the frames sent that did not, 0 to 1
	Growing  bool    // queues were growing: given time, it would have lost more (the q-full guard of TRex)
}

// SearchParams say what a search looks for. Rates are in packets/s, or in any other unit: it is measure's.
type SearchParams struct {
	Min, Max float64       // rates between which to search; Max at most what the generator can send
	Width    float64       // of the interval, relative to its upper bound, at which a search is over. Default 0.005
	Goals    []float64     // loss ratios to find the highest rate for: 0 is the NDR, 0.005 the PDR
	Trial    time.Duration // of the first trials, which only narrow the interval down
	Final    time.Duration // of the trials that decide. Default: Trial

	// By default one trial of the duration Final decides whether a rate keeps a goal. On a machine that others
	// disturb, let several: a rate keeps it if, in trials of the duration Sum in all, at most the share Exceed fails.
	Sum    time.Duration // default: Final
	Exceed float64       // 0 to 1; 0.5 is the majority
}

// Search returns, for each goal, the highest rate found that keeps its loss ratio while a rate not more than Width
// above does not; 0 if not even Min keeps it, Max if Max does. A trial in which the generator sends less than it is asked
// for, by more than Width and a frame, fails whatever it lost: the rate was never offered.
//
// It is the search of FD.io (draft-ietf-bmwg-mlrsearch): the first trial, at Max, warms up and is discarded; the second
// says where to begin, for what comes through under overload is near what comes through without loss. Then, for
// each goal, short trials find a wide interval and longer ones a narrower one, each beginning with the last one's lower
// bound: outwards in growing steps until a rate that keeps the goal and one that does not enclose it, then by bisection.
// A trial counts for all goals. Of rates that contradict each other the lower one that fails is believed.
//
// The error is ctx's, measure's, or says what is wrong with the parameters.
func Search(ctx context.Context, p SearchParams, measure func(ctx context.Context, rate float64, d time.Duration) (Load, error)) ([]float64, error) {
	p.setDefaults()
	if err := p.check(); err != nil {
		return nil, err
	}
	s := search{SearchParams: p, measure: measure}
	if err := s.try(ctx, p.Max, p.Trial); err != nil {
		return nil, err
	}
	s.trials = nil
	if err := s.try(ctx, p.Max, p.Trial); err != nil {
		return nil, err
	}
	overload := s.trials[0].Load
	rates := make([]float64, len(p.Goals))
	for i, goal := range p.Goals {
		hint := p.Max
		if overload.Offered > 0 {
			hint *= overload.Received / overload.Offered
		}
		for _, ph := range p.phases() {
			lower, err := s.narrow(ctx, goal, ph, min(max(hint, p.Min), p.Max))
			if err != nil {
				return nil, err
			}
			hint, rates[i] = lower, lower
		}
	}
	return rates, nil
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
}

func (p *SearchParams) check() error {
	switch {
	case !(0 < p.Min && p.Min <= p.Max) || math.IsInf(p.Max, 0):
		return fmt.Errorf("bench: search from %v to %v: give rates above 0, the lower one first", p.Min, p.Max)
	case !(p.Width > 0 && p.Width <= 0.5):
		return fmt.Errorf("bench: search to a width of %v: give one above 0 and up to 0.5", p.Width)
	case p.Trial <= 0 || p.Final < p.Trial || p.Sum < p.Final:
		return fmt.Errorf("bench: search with trials of %v, finally %v, in all %v: none may be shorter than the one before", p.Trial, p.Final, p.Sum)
	case !(p.Exceed >= 0 && p.Exceed < 1):
		return fmt.Errorf("bench: search where a share of %v of the trials may fail: give one from 0 to below 1", p.Exceed)
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

// phase is one pass of the search for a goal.
type phase struct {
	duration, sum time.Duration // of each trial, and of those that decide about a rate
	width         float64
}

// phases returns three, each with longer trials and half the width of the one before, or only the last one if trials
// have the same duration from the beginning.
func (p *SearchParams) phases() []phase {
	last := phase{p.Final, p.Sum, p.Width}
	if p.Trial == p.Final {
		return []phase{last}
	}
	middle := time.Duration(math.Sqrt(float64(p.Trial) * float64(p.Final)))
	return []phase{{p.Trial, p.Trial, 4 * p.Width}, {middle, middle, 2 * p.Width}, last}
}

// trialAt is a trial of the search.
type trialAt struct {
	Load
	rate     float64
	duration time.Duration
}

// search is a search under way.
type search struct {
	SearchParams
	measure func(ctx context.Context, rate float64, d time.Duration) (Load, error)
	trials  []trialAt
}

// try makes a trial.
func (s *search) try(ctx context.Context, rate float64, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l, err := s.measure(ctx, rate, d)
	if err != nil {
		return fmt.Errorf("at %.6g: %w", rate, err)
	}
	s.trials = append(s.trials, trialAt{l, rate, d})
	return nil
}

// narrow makes trials until the bounds of the rate that keeps a goal are as close as the phase wants them, and returns
// the lower one; 0 if there is none.
func (s *search) narrow(ctx context.Context, goal float64, ph phase, hint float64) (float64, error) {
	for step := ph.width; ; {
		b := s.bounds(goal, ph)
		rate := 0.0
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

// bounds are what the trials say so far of the rate that keeps a goal.
type bounds struct {
	upper     float64 // the lowest rate that fails; 0: none
	lower     float64 // the highest one below that keeps it; 0: none
	undecided float64 // a rate between them that has had trials, but not enough; 0: none
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
)

// judge has a verdict as soon as the trials still to come can't change it any more.
func (s *search) judge(rate, goal float64, ph phase) verdict {
	var good, bad time.Duration
	for _, t := range s.trials {
		switch {
		case t.rate != rate || t.duration < ph.duration:
		case t.Loss > goal || t.Growing || t.Sent+1 < t.Offered*(1-s.Width):
			bad += t.duration
		default:
			good += t.duration
		}
	}
	all := max(ph.sum, good+bad)
	allowed := s.Exceed * float64(all)
	switch {
	case float64(bad) > allowed:
		return fails
	case float64(all-good) <= allowed:
		return keeps
	}
	return open
}
