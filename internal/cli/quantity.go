package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// NewRate returns a flag in bit/s.
func NewRate(text string) Quantity {
	return newQuantity(text, "rate", "a rate such as 2.5G or 100G",
		map[string]float64{"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12})
}

// NewLength returns a flag in metres.
func NewLength(text string) Quantity {
	return newQuantity(text, "length", "a length such as 300m or 10km", map[string]float64{"": 1, "m": 1, "km": 1e3})
}

// NewSize returns a flag in bytes.
func NewSize(text string) Quantity {
	return newQuantity(text, "size", "a size such as 64KB, 1MiB or 2GB",
		map[string]float64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30})
}

// Quantity is a flag that takes a number with a unit, 0 or more.
type Quantity struct {
	Value      float64
	text       string
	kind, like string
	units      map[string]float64
}

// newQuantity returns the flag with a default value; like tells people what to write.
func newQuantity(text, kind, like string, units map[string]float64) Quantity {
	q := Quantity{kind: kind, like: like, units: units}
	if err := q.Set(text); err != nil {
		panic(err)
	}
	return q
}

// Set implements pflag.Value.
func (q *Quantity) Set(text string) error {
	if q.Parse(text, q.units) != nil {
		return fmt.Errorf("write %s", q.like)
	}
	return nil
}

// Parse sets the value to a number with one of some units.
func (q *Quantity) Parse(text string, units map[string]float64) error {
	end := strings.LastIndexAny(text, "0123456789") + 1
	number, err := strconv.ParseFloat(text[:end], 64)
	factor, known := units[text[end:]]
	if err != nil || !known || number < 0 || math.IsInf(number, 0) {
		return fmt.Errorf("%q is no number with a unit", text)
	}
	q.Value, q.text = number*factor, text
	return nil
}

// String implements pflag.Value.
func (q *Quantity) String() string { return q.text }

// Type implements pflag.Value.
func (q *Quantity) Type() string { return q.kind }
