package sim

import (
	"math"
	"math/rand/v2"
)

// Drain is a receiver that empties its buffers faster than the link fills them, but stalls at
// random for exponentially distributed times. So a buffer of any size is sometimes too small, a
// larger one less often. The effect of buffer size and distance therefore shows as smooth curves
// rather than steps.
type Drain struct {
	Rate  uint64  // bit/s while it runs
	Stall float64 // ns: the mean length of a stall; 0: it never stalls
	Run   float64 // ns: the mean time from the end of a stall to the next
}

// Fluid returns the throughput of a link at rate in the fluid limit, at distance 0 and with room
// bytes of buffer at the receiver: the use of the link, 0 to 1, and how often the sender is
// stopped, per second.
//
// The level of the buffer rises at the link's rate u while the receiver stalls, and falls at v =
// Rate - u while it runs. In the steady state the upward flow of probability equals the downward
// flow at each level. This gives the density c·(1/u + 1/v)·exp(-θx) with θ = 1/(Stall·u) -
// 1/(Run·v), and the probabilities c·Stall·exp(-θ·room) of a full and c·Run of an empty
// buffer (D. Anick, D. Mitra, M. M. Sondhi, "Stochastic Theory of a Data-Handling System with
// Multiple Sources", BSTJ 61, 1982, for one source and a finite buffer).
func (d Drain) Fluid(rate uint64, room float64) (use, stops float64) {
	u, v := float64(rate)/8e9, float64(d.Rate-rate)/8e9 // bytes a ns
	theta := 1/(d.Stall*u) - 1/(d.Run*v)
	atRoom := math.Exp(-theta * room)
	between := room
	if theta != 0 {
		between = (1 - atRoom) / theta
	}
	c := 1 / ((1/u+1/v)*between + d.Stall*atRoom + d.Run)
	return 1 - c*d.Stall*atRoom, c * atRoom * 1e9
}

// stalls is the sequence of a receiver's stalls, determined by the seed.
type stalls struct {
	drain    Drain
	rng      *rand.Rand
	from, to int64 // ns: the current or next stall
}

func (d Drain) stalls(seed uint64) *stalls {
	s := &stalls{drain: d, rng: rand.New(rand.NewPCG(seed, 1))}
	s.next()
	return s
}

// next advances to the next stall.
func (s *stalls) next() {
	if s.drain.Stall == 0 {
		s.from, s.to = math.MaxInt64, math.MaxInt64
		return
	}
	s.from = s.to + int64(s.rng.ExpFloat64()*s.drain.Run)
	s.to = s.from + int64(s.rng.ExpFloat64()*s.drain.Stall)
}

// pass returns when the receiver can begin to drain a frame that is there at time ps, also in ps.
// Times must not decrease.
func (s *stalls) pass(ps int64) int64 {
	for s.drain.Stall != 0 && s.to*1000 <= ps {
		s.next()
	}
	if s.drain.Stall != 0 && s.from*1000 <= ps {
		return s.to * 1000
	}
	return ps
}
