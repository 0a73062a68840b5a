package adversary

import (
	"context"
	"runtime"
	"sync"
)

// Campaign attacks many switches, with consecutive seeds.
type Campaign struct {
	First    uint64 // seed
	Switches int
	Less     int    // as in Attack
	Omit     Tricks // likewise
	Jumbo    bool   // likewise
	Done     func() // called after each attack; may be nil
}

// Outcome is the result of a campaign. The campaign ends with the first switch that loses
// something.
type Outcome struct {
	Switches int `json:"switches"`
	Result
	Loss *Loss `json:"loss,omitempty"`
}

// Loss is the first switch that lost something.
type Loss struct {
	Seed   uint64   `json:"seed"`
	Omit   []string `json:"omit"` // tricks that the attack can omit and still cause a loss
	Result Result   `json:"result"`
	Config string   `json:"config"`
}

// Run attacks on all CPUs and shrinks the first successful attack. The outcome depends only on the
// campaign.
func (c Campaign) Run(ctx context.Context) (Outcome, error) {
	results := make([]Result, c.Switches)
	errs := make([]error, c.Switches)
	var mutex sync.Mutex
	next, end := 0, c.Switches // attacks after the first loss are irrelevant
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

func (c Campaign) attack(seed uint64) Attack {
	return Attack{Seed: seed, Less: c.Less, Omit: c.Omit, Jumbo: c.Jumbo}
}

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

// shrink omits one trick after another while the switch still loses something.
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
