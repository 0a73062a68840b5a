package adversary

import (
	"context"
	"runtime"
	"sync"
)

// Campaign is attacks on many switches, one seed after the other.
type Campaign struct {
	First    uint64 // seed
	Switches int
	Less     int    // as in Attack
	Omit     Tricks // likewise
	Done     func() // called for each switch that has been attacked; may be nil
}

// Outcome is what came of a campaign. It ends with the first switch that loses something.
type Outcome struct {
	Switches int `json:"switches"`
	Result
	Loss *Loss `json:"loss,omitempty"`
}

// Loss is the first switch that lost something.
type Loss struct {
	Seed   uint64   `json:"seed"`
	Omit   []string `json:"omit"` // tricks without which it loses something, too
	Result Result   `json:"result"`
	Config string   `json:"config"`
}

// Run attacks on all CPUs, and shrinks the first attack that succeeds. The outcome depends on the
// campaign alone.
func (c Campaign) Run(ctx context.Context) (Outcome, error) {
	results := make([]Result, c.Switches)
	errs := make([]error, c.Switches)
	var mutex sync.Mutex
	next, end := 0, c.Switches // attacks behind the first loss are not of interest
	take := func() (int, bool) {
		mutex.Lock()
		defer mutex.Unlock()
		if next >= end || ctx.Err() != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i, more := take(); more; i, more = take() {
				results[i], errs[i] = c.attack(c.First + uint64(i)).Run()
				mutex.Lock()
				if results[i].Lost() || errs[i] != nil {
					end = min(end, i+1)
				}
				if c.Done != nil {
					c.Done()
				}
				mutex.Unlock()
			}
		})
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	return c.sum(results[:end], errs[:end])
}

func (c Campaign) attack(seed uint64) Attack { return Attack{Seed: seed, Less: c.Less, Omit: c.Omit} }

func (c Campaign) sum(results []Result, errs []error) (Outcome, error) {
	o := Outcome{Switches: len(results)}
	for i := range results {
		if errs[i] != nil {
			return o, errs[i]
		}
		o.add(&results[i])
		if results[i].Lost() {
			o.Loss = c.attack(c.First + uint64(i)).shrink(results[i])
		}
	}
	return o, nil
}

// shrink does without one trick after the other as long as the switch loses something all the same.
func (a Attack) shrink(r Result) *Loss {
	for t := Tricks(1); t < AllTricks+1; t <<= 1 {
		fewer := a
		fewer.Omit |= t
		if result, err := fewer.Run(); err == nil && result.Lost() {
			a, r = fewer, result
		}
	}
	config := r.config
	r.config = ""
	return &Loss{Seed: a.Seed, Omit: a.Omit.Names(), Result: r, Config: config}
}
