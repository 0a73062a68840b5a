package cli

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"sluice/internal/text/units"
)

// NewRate returns a flag in bit/s.
func NewRate(text string) Quantity {
	return newQuantity(text, "rate", "a rate such as 2.5G or 100G", "", units.Rates)
}

// NewLength returns a flag in metres.
func NewLength(text string) Quantity {
	return newQuantity(text, "length", "a length such as 300m or 10km", "m", units.Lengths)
}

// NewSize returns a flag in bytes.
func NewSize(text string) Quantity {
	return newQuantity(text, "size", "a size such as 64KB, 1MiB or 2GB", "", units.Sizes)
}

// Quantity is a flag that takes a number with a unit, 0 or more.
type Quantity struct {
	Value            float64
	text             string
	kind, like, base string
	units            []units.Unit
}

// newQuantity returns a flag with the default value text. like is an example for error messages,
// and base the unit of a number without one.
func newQuantity(text, kind, like, base string, of []units.Unit) Quantity {
	q := Quantity{kind: kind, like: like, base: base, units: of}
	if err := q.Set(text); err != nil {
		panic(err)
	}
	return q
}

// Set implements pflag.Value.
func (q *Quantity) Set(text string) error {
	if q.Parse(text, q.base, q.units) != nil {
		return fmt.Errorf("write %s", q.like)
	}
	return nil
}

// Parse sets the value to a number with one of the units in of, converted to the unit base. A
// number without a unit is in base.
func (q *Quantity) Parse(text, base string, of []units.Unit) error {
	end := strings.LastIndexAny(text, "0123456789") + 1
	number, err := strconv.ParseFloat(text[:end], 64)
	factor := units.Factor(cmp.Or(text[end:], base), of)
	if err != nil || factor == 0 || number < 0 || math.IsInf(number, 0) {
		return fmt.Errorf("%q is not a number with a unit", text)
	}
	q.Value, q.text = number*(float64(factor)/float64(units.Factor(base, of))), text
	return nil
}

// String implements pflag.Value.
func (q *Quantity) String() string { return q.text }

// Type implements pflag.Value.
func (q *Quantity) Type() string { return q.kind }
