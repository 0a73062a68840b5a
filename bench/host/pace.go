package host

import "sluice/internal/frame"

// moment is a point in time, exact to a fraction of a nanosecond: ns and frac/rate, where rate is
// that of the spans added to it. Adding spans one by one accumulates no rounding error and needs no
// division.
type moment struct {
	ns   int64
	frac uint64
}

// span is how long a frame takes at a rate: ns and rest/rate nanoseconds.
type span struct {
	ns         int64
	rest, rate uint64
}

// wireTime returns how long a frame of size bytes takes at rate bit/s, overhead included. Rate 0
// takes no time.
func wireTime(size int, rate uint64) span {
	if rate == 0 {
		return span{rate: 1}
	}
	nanobits := uint64(size+frame.WireOverhead) * 8 * 1e9 // at most 8.1e13
	return span{ns: int64(nanobits / rate), rest: nanobits % rate, rate: rate}
}

func (m moment) add(s span) moment {
	m.ns += s.ns
	m.frac += s.rest
	if m.frac >= s.rate {
		m.frac -= s.rate
		m.ns++
	}
	return m
}

// notBefore returns m, or ns when that is later.
func (m moment) notBefore(ns int64) moment {
	if m.ns < ns {
		return moment{ns: ns}
	}
	return m
}
