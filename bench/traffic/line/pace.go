package line

import "sluice/internal/frame"

// Moment is a point in time with a fraction of a nanosecond: NS + frac/rate, where rate is that of
// the spans added to it. Adding spans accumulates no rounding error and needs no division.
type Moment struct {
	NS   int64
	frac uint64
}

// Span is the duration of a frame at a rate: NS + rest/rate nanoseconds.
type Span struct {
	NS         int64
	rest, rate uint64
}

// WireTime returns the duration of a frame of size bytes at rate bit/s, overhead included. At rate
// 0 it is zero.
func WireTime(size int, rate uint64) Span {
	if rate == 0 {
		return Span{rate: 1}
	}
	nanobits := uint64(size+frame.WireOverhead) * 8 * 1e9 // at most 8.1e13
	return Span{NS: int64(nanobits / rate), rest: nanobits % rate, rate: rate}
}

// Add returns m and s later.
func (m Moment) Add(s Span) Moment {
	m.NS += s.NS
	m.frac += s.rest
	if m.frac >= s.rate {
		m.frac -= s.rate
		m.NS++
	}
	return m
}

// NotBefore returns the later of m and ns.
func (m Moment) NotBefore(ns int64) Moment {
	if m.NS < ns {
		return Moment{NS: ns}
	}
	return m
}
