package adversary

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

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

// Campaign attacks many switches, with the seeds from that of the attack on. It runs on all CPUs
// and shrinks the first attack that succeeds. The outcome depends only on its arguments.
func (a Attack) Campaign(ctx context.Context, switches int) (Outcome, error) {
	results, errs := make([]Result, switches), make([]error, switches)
	var next atomic.Int64
	var over atomic.Bool // attacks after the first loss are irrelevant
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for !over.Load() && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= switches {
					return
				}
				results[i], errs[i] = a.after(i).Run()
				if results[i].Lost() || errs[i] != nil {
					over.Store(true)
				}
			}
		})
	}
	wait.Wait()
	var o Outcome
	if err := ctx.Err(); err != nil {
		return o, err
	}
	for i := 0; i < switches && o.Loss == nil; i++ {
		if errs[i] != nil {
			return o, errs[i]
		}
		o.Switches++
		o.add(&results[i])
		if results[i].Lost() {
			o.Loss = a.after(i).shrink(results[i])
		}
	}
	return o, nil
}

// after returns the attack with a later seed.
func (a Attack) after(seeds int) Attack {
	a.Seed += uint64(seeds)
	return a
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
