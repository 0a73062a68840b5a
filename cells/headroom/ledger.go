package headroom

import "math/big"

// ledger adds up terms without rounding. It shows each term as a whole number of bytes, so that the
// terms add up to the total, rounded up.
type ledger struct {
	total big.Rat
	terms []Term
}

func (l *ledger) add(name string, bytes *big.Rat, source string) {
	before := l.bytes()
	l.total.Add(&l.total, bytes)
	l.terms = append(l.terms, Term{Name: name, Bytes: l.bytes() - before, Source: source})
}

func (l *ledger) addBytes(name string, bytes int, source string) {
	l.add(name, rat(int64(bytes), 1), source)
}

// bytes returns the total, rounded up.
func (l *ledger) bytes() int { return ceil(&l.total) }

func (l *ledger) result() Result { return Result{Bytes: l.bytes(), Terms: l.terms, Notes: []string{}} }

func rat(numerator, denominator int64) *big.Rat { return big.NewRat(numerator, denominator) }

func product(factors ...*big.Rat) *big.Rat {
	p := rat(1, 1)
	for _, f := range factors {
		p.Mul(p, f)
	}
	return p
}

// ceil rounds r, which is 0 or more, up to a whole number.
func ceil(r *big.Rat) int {
	n := new(big.Int).Add(r.Num(), r.Denom())
	n.Sub(n, big.NewInt(1))
	return int(n.Quo(n, r.Denom()).Int64())
}
