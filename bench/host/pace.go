package host

import "sluice/internal/frame"

// moment is a point in time with a fraction of a nanosecond: ns + frac/rate, where rate is that of
// the spans added to it. Adding spans accumulates no rounding error and needs no division.
type moment struct {
	ns   int64
	frac uint64
}

// span is the duration of a frame at a rate: ns + rest/rate nanoseconds.
type span struct {
	ns         int64
	rest, rate uint64
}

// wireTime returns the duration of a frame of size bytes at rate bit/s, overhead included. At rate
// 0 it is zero.
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

// notBefore returns the later of m and ns.
func (m moment) notBefore(ns int64) moment {
	if m.ns < ns {
		return moment{ns: ns}
	}
	return m
}
