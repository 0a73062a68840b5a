// Package units parses and formats quantities with units, such as 64KB, 2.5G or 200ms, for the
// configuration and the command line.
package units

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Unit is the suffix of a number and the factor it stands for.
type Unit struct {
	Suffix string
	Factor uint64
}

// The units of a configuration.
var (
	Sizes = []Unit{ // in bytes
		{"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	}
	Rates = []Unit{ // in bit/s
		{"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
	}
	Lengths = []Unit{ // in mm
		{"mm", 1}, {"m", 1e3}, {"km", 1e6},
	}
	Percents = []Unit{{"%", 1}}
	Times    = []Unit{ // in ns
		{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9},
	}
)

// Factor returns the factor of a suffix: 1 for no suffix, 0 for an unknown one.
func Factor(suffix string, units []Unit) uint64 {
	if suffix == "" {
		return 1
	}
	for _, u := range units {
		if u.Suffix == suffix {
			return u.Factor
		}
	}
	return 0
}

// Parse converts a number with a unit, such as 64KB or 2.5G, to a whole number of the base unit. It
// returns what is wrong with the text, or "". 0 needs no unit.
func Parse(text string, units []Unit) (value uint64, problem string) {
	if strings.HasPrefix(text, "-") {
		return 0, "is negative"
	}
	end := strings.LastIndexAny(text, "0123456789") + 1
	number, suffix := text[:end], text[end:]
	whole, fraction, _ := strings.Cut(number, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" || strings.HasSuffix(number, ".") {
		return 0, "is not a number with a unit"
	}
	factor := Factor(suffix, units)
	switch {
	case text == "0":
		return 0, ""
	case suffix == "":
		return 0, "has no unit"
	case factor == 0:
		return 0, fmt.Sprintf("has the unknown unit %q", suffix)
	case len(whole)+len(fraction) > 18:
		return 0, "has too many digits"
	}
	digits, _ := strconv.ParseUint(whole+fraction, 10, 64) // can't fail: at most 18 digits
	divisor := uint64(math.Pow10(len(fraction)))
	high, low := bits.Mul64(digits, factor)
	if high >= divisor {
		return 0, "is too large"
	}
	value, rest := bits.Div64(high, low, divisor)
	if rest != 0 {
		return 0, "is not a whole number in the smallest unit"
	}
	return value, ""
}

// Rate formats a rate in bit/s as the configuration writes it.
func Rate(rate uint64) string {
	for _, u := range []Unit{{"G", 1e9}, {"M", 1e6}} {
		if rate >= u.Factor && rate%(u.Factor/1000) == 0 {
			return strconv.FormatFloat(float64(rate)/float64(u.Factor), 'f', -1, 64) + u.Suffix
		}
	}
	return strconv.FormatFloat(float64(rate)/1e3, 'f', -1, 64) + "K"
}

// Exact formats a whole number of the base unit with the largest unit of which it is a multiple.
func Exact(value uint64, units []Unit) string {
	for _, u := range slices.Backward(units) {
		if value > 0 && value%u.Factor == 0 {
			return fmt.Sprintf("%d%s", value/u.Factor, u.Suffix)
		}
	}
	return "0"
}

// Time formats a time below one minute as the configuration writes it, rounded down to whole
// microseconds if it is longer than one.
func Time(t time.Duration) string {
	if t > time.Microsecond {
		t = t.Truncate(time.Microsecond)
	}
	return strings.Replace(t.String(), "µ", "u", 1)
}

// Size formats a number of bytes exactly, as the configuration writes it.
func Size(bytes int) string {
	if bytes == 0 {
		return "0"
	}
	for _, u := range []Unit{{"GB", 1e9}, {"GiB", 1 << 30}, {"MB", 1e6}, {"MiB", 1 << 20}, {"KB", 1e3},
		{"KiB", 1 << 10}} {
		if f := int(u.Factor); bytes%f == 0 {
			return fmt.Sprintf("%d%s", bytes/f, u.Suffix)
		}
	}
	return fmt.Sprintf("%dB", bytes)
}
