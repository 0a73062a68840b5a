package config

import (
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"sluice/cells"
)

// unit is a suffix of a number and what it multiplies by.
type unit struct {
	suffix string
	factor uint64
}

var (
	sizeUnits = []unit{ // in bytes
		{"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	}
	rateUnits = []unit{ // in bit/s
		{"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
	}
	lengthUnits = []unit{ // in mm
		{"mm", 1}, {"m", 1e3}, {"km", 1e6},
	}
	percentUnits = []unit{{"%", 1}}
	timeUnits    = []unit{ // in ns
		{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9},
	}
)

// quantity reads a number with a unit, such as 64KB or 2.5G, to a whole number of the base unit. 0 needs no unit.
func quantity(text string, units []unit) (value uint64, problem string) {
	if strings.HasPrefix(text, "-") {
		return 0, "is negative"
	}
	end := strings.LastIndexAny(text, "0123456789") + 1
	number, suffix := text[:end], text[end:]
	whole, fraction, _ := strings.Cut(number, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" || strings.HasSuffix(number, ".") {
		return 0, "is not a number with a unit"
	}
	factor := uint64(0)
	for _, u := range units {
		if u.suffix == suffix {
			factor = u.factor
		}
	}
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
	digits, _ := strconv.ParseUint(whole+fraction, 10, 64) // at most 18 digits, and nothing else
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

// RateText writes a rate, in bit/s, as a file has it.
func RateText(rate uint64) string {
	for _, u := range []unit{{"G", 1e9}, {"M", 1e6}} {
		if rate >= u.factor && rate%(u.factor/1000) == 0 {
			return strconv.FormatFloat(float64(rate)/float64(u.factor), 'f', -1, 64) + u.suffix
		}
	}
	return strconv.FormatFloat(float64(rate)/1e3, 'f', -1, 64) + "K"
}

// TimeText writes a time below a minute as a file has it, rounded down to the microsecond where it has any.
func TimeText(t time.Duration) string {
	if t > time.Microsecond {
		t = t.Truncate(time.Microsecond)
	}
	return strings.Replace(t.String(), "µ", "u", 1)
}

// schemaOf describes quantities.
func schemaOf(kind, lowest, highest string, units []unit) *schema {
	var suffixes []string
	for _, u := range units {
		suffixes = append(suffixes, u.suffix)
	}
	s := &schema{Type: "string", Pattern: fmt.Sprintf(`^[0-9]+(\.[0-9]+)?(%s)$`, strings.Join(suffixes, "|"))}
	if low, _ := quantity(lowest, units); low == 0 {
		s = either(s, word("0"))
	}
	s.form = fmt.Sprintf("a %s from %s to %s", kind, lowest, highest)
	return s
}

// bounded reads quantities from lowest to highest, which are written as in the file. of turns base units into the value.
func bounded[V any](kind, example, lowest, highest string, units []unit, of func(uint64) V) codec[V] {
	low, problem1 := quantity(lowest, units)
	high, problem2 := quantity(highest, units)
	if problem1+problem2 != "" || high > math.MaxInt64 {
		panic(fmt.Sprintf("config: bounds %s and %s of a %s", lowest, highest, kind))
	}
	remedy := fmt.Sprintf("write a %s like %s, from %s to %s", kind, example, lowest, highest)
	return scalar(schemaOf(kind, lowest, highest, units), remedy, func(text string) (V, string) {
		value, problem := quantity(text, units)
		if problem == "" && (value < low || value > high) {
			problem = "is out of range"
		}
		return of(value), problem
	})
}

// size reads bytes.
func size(lowest, highest string) codec[int] {
	return bounded("size", "160B, 64KB or 2MiB", lowest, highest, sizeUnits, func(bytes uint64) int { return int(bytes) })
}

// rate reads bit/s.
func rate(lowest, highest string) codec[uint64] {
	return bounded("rate in bit/s", "500M, 2.5G or 10G", lowest, highest, rateUnits, func(rate uint64) uint64 { return rate })
}

// duration reads a time.
func duration(lowest, highest string) codec[time.Duration] {
	return bounded("time", "200ms, 300s or 5min", lowest, highest, timeUnits, func(ns uint64) time.Duration { return time.Duration(ns) })
}

// length reads metres.
func length(lowest, highest string) codec[float64] {
	return bounded("length", "3m, 100m or 10km", lowest, highest, lengthUnits, func(mm uint64) float64 { return float64(mm) / 1000 })
}

// percent reads whole percents.
func percent(lowest, highest string) codec[int] {
	return bounded("percentage", "60%", lowest, highest, percentUnits, func(percent uint64) int { return int(percent) })
}

var decimalNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// decimal reads a number without unit that may have a fraction.
func decimal(lowest, highest float64) codec[float64] {
	remedy := fmt.Sprintf("write a number like 2 or 1.5, from %g to %g", lowest, highest)
	s := &schema{Type: "number", Minimum: &lowest, Maximum: &highest, form: fmt.Sprintf("a number from %g to %g", lowest, highest)}
	return scalar(s, remedy, func(text string) (float64, string) {
		if !decimalNumber.MatchString(text) {
			return 0, "is not a number"
		}
		value, err := strconv.ParseFloat(text, 64) // err: out of any range
		if err != nil || value < lowest || value > highest {
			return 0, "is out of range"
		}
		return value, ""
	})
}

// alpha reads a factor of a dynamic limit, in 128ths.
func alpha() codec[int] {
	var words []string
	values := make(map[string]int)
	for value := 1; value <= 8*cells.AlphaUnit; value *= 2 {
		word := fmt.Sprint(value / cells.AlphaUnit)
		if value < cells.AlphaUnit {
			word = fmt.Sprintf("1/%d", cells.AlphaUnit/value)
		}
		words = append(words, word)
		values[word] = value
	}
	return scalar(oneOf(words), "choose "+strings.Join(words, ", "), func(text string) (int, string) {
		if value, ok := values[text]; ok {
			return value, ""
		}
		return 0, "is not a choice"
	})
}

// orNone reads what a codec reads, or the word none for a zero.
func orNone[V any](c codec[V]) codec[V] {
	var zero V
	return orWord("none", zero, c)
}

// orWord reads what a codec reads, or a word that stands for a value.
func orWord[V any](text string, value V, c codec[V]) codec[V] {
	return codec[V]{schema: either(c.schema, word(text)), spoil: c.spoil, read: func(d *decoder, n *yaml.Node, label string, v *V) bool {
		if n.Kind == yaml.ScalarNode && n.Value == text {
			*v = value
			return true
		}
		return c.read(d, n, label, v)
	}}
}

// integer reads a whole number without unit.
func integer[V int | uint8 | uint16](lowest, highest V) codec[V] {
	form := fmt.Sprintf("a whole number from %d to %d", lowest, highest)
	s := &schema{Type: "integer", Minimum: new(float64(lowest)), Maximum: new(float64(highest)), form: form}
	return scalar(s, "write "+form, func(text string) (V, string) {
		value, problem := digits(text)
		if problem == "" && (value < int(lowest) || value > int(highest)) {
			problem = "is out of range"
		}
		return V(value), problem
	})
}

// digits reads decimal digits. YAML 1.1 reads a number with a leading 0 as octal; no one means that.
func digits(text string) (value int, problem string) {
	switch {
	case strings.HasPrefix(text, "-"):
		return 0, "is negative"
	case text == "" || strings.Trim(text, "0123456789") != "":
		return 0, "is not a whole number"
	case len(text) > 1 && text[0] == '0':
		return 0, "starts with a 0"
	case len(text) > 18:
		return 0, "is out of range"
	}
	value, _ = strconv.Atoi(text) // at most 18 digits, and nothing else
	return value, ""
}

// boolean reads true or false.
func boolean() codec[bool] {
	return scalar(&schema{Type: "boolean", form: "true or false"}, "write true or false", func(text string) (bool, string) {
		if text != "true" && text != "false" {
			return false, "is neither true nor false"
		}
		return text == "true", ""
	})
}

// choice reads one of a few words.
func choice[V ~string](words ...V) codec[V] {
	var known []string
	for _, w := range words {
		known = append(known, string(w))
	}
	return scalar(oneOf(known), "choose "+strings.Join(known, ", "), func(text string) (v V, problem string) {
		for _, w := range words {
			if text == string(w) {
				return w, ""
			}
		}
		return v, "is not a choice"
	})
}
