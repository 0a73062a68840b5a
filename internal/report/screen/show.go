package screen

import (
	"math"

	"sluice/internal/state"
)

// PortRates are the rates of a port between two reports. Unknown rates are NaN.
type PortRates struct {
	Received, Sent Rate
	Dropped        float64 // frames/s
}

// Rate is one direction of a port.
type Rate struct {
	Bits   float64 // bit/s on the wire: FCS, preamble and gap included
	Frames float64 // frames/s
	Share  float64 // of the port's speed, 0 … 1
}

// Rates returns the rates of all ports of now, in order, since the report before. before is nil or
// from the same switch.
func Rates(now, before *state.Switch) []PortRates {
	v := View{Now: now, Before: before}
	all := make([]PortRates, len(now.Ports))
	for i := range all {
		r := ratesOf(v.port(i))
		all[i] = PortRates{r.in.rate(), r.out.rate(), r.dropped}
	}
	return all
}

func (f flow) rate() Rate { return Rate{f.l1, f.frames, f.share} }

// Number formats a number in at most five characters, such as 12.5 or 1.25k, or "-" if it is
// negative or not a number.
func Number(x float64) string { return number(x) }

// Known reports whether a rate is a number. The share of a port whose speed is unknown is not.
func Known(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
