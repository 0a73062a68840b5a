package scalar

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sluice/cells"
	"sluice/internal/config/schema"
	"sluice/internal/text/units"
)

// schemaOf describes quantities.
func schemaOf(kind, lowest, highest string, of []units.Unit) *schema.Schema {
	var suffixes []string
	for _, u := range of {
		suffixes = append(suffixes, u.Suffix)
	}
	s := &schema.Schema{Type: "string", Pattern: fmt.Sprintf(`^[0-9]+(\.[0-9]+)?(%s)$`, strings.Join(suffixes, "|"))}
	if low, _ := units.Parse(lowest, of); low == 0 {
		s = schema.Either(s, schema.Word("0"))
	}
	s.Form = fmt.Sprintf("a %s from %s to %s", kind, lowest, highest)
	return s
}

// bounded reads quantities from lowest to highest, which are written as in the file. of converts
// base units to the value.
func bounded[V any](kind, example, lowest, highest string, in []units.Unit, of func(uint64) V) Syntax[V] {
	low, problem1 := units.Parse(lowest, in)
	high, problem2 := units.Parse(highest, in)
	if problem1+problem2 != "" || high > math.MaxInt64 {
		panic(fmt.Sprintf("scalar: bounds %s and %s of a %s", lowest, highest, kind))
	}
	remedy := fmt.Sprintf("write a %s like %s, from %s to %s", kind, example, lowest, highest)
	return syntax(schemaOf(kind, lowest, highest, in), remedy, func(text string) (V, string) {
		value, problem := units.Parse(text, in)
		if problem == "" && (value < low || value > high) {
			problem = "is out of range"
		}
		return of(value), problem
	})
}

// Size reads bytes.
func Size(lowest, highest string) Syntax[int] {
	return bounded("size", "160B, 64KB or 2MiB", lowest, highest, units.Sizes,
		func(bytes uint64) int { return int(bytes) }).as(units.Size)
}

// Rate reads bit/s.
func Rate(lowest, highest string) Syntax[uint64] {
	return bounded("rate in bit/s", "500M, 2.5G or 10G", lowest, highest, units.Rates,
		func(rate uint64) uint64 { return rate }).as(units.Rate)
}

// Duration reads a time.
func Duration(lowest, highest string) Syntax[time.Duration] {
	return bounded("time", "200ms, 300s or 5min", lowest, highest, units.Times,
		func(ns uint64) time.Duration { return time.Duration(ns) }).
		as(func(d time.Duration) string { return units.Exact(uint64(d), units.Times) })
}

// Length reads metres.
func Length(lowest, highest string) Syntax[float64] {
	return bounded("length", "3m, 100m or 10km", lowest, highest, units.Lengths,
		func(mm uint64) float64 { return float64(mm) / 1000 }).
		as(func(metres float64) string { return units.Exact(uint64(math.Round(metres*1000)), units.Lengths) })
}

// Percent reads whole percents.
func Percent(lowest, highest string) Syntax[int] {
	return bounded("percentage", "60%", lowest, highest, units.Percents,
		func(percent uint64) int { return int(percent) }).
		as(func(percent int) string { return fmt.Sprintf("%d%%", percent) })
}

var decimalNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// Decimal reads a number without a unit, which may have a fraction.
func Decimal(lowest, highest float64) Syntax[float64] {
	remedy := fmt.Sprintf("write a number like 2 or 1.5, from %g to %g", lowest, highest)
	s := &schema.Schema{Type: "number", Minimum: &lowest, Maximum: &highest, Form: fmt.Sprintf("a number from %g to %g",
		lowest, highest)}
	return syntax(s, remedy, func(text string) (float64, string) {
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

// Alpha reads the factor of a dynamic limit, in 128ths.
func Alpha() Syntax[int] {
	var words []string
	values, texts := make(map[string]int), make(map[int]string)
	for value := 1; value <= 8*cells.AlphaUnit; value *= 2 {
		word := fmt.Sprint(value / cells.AlphaUnit)
		if value < cells.AlphaUnit {
			word = fmt.Sprintf("1/%d", cells.AlphaUnit/value)
		}
		words = append(words, word)
		values[word], texts[value] = value, word
	}
	return syntax(schema.OneOf(words), "choose "+strings.Join(words, ", "), func(text string) (int, string) {
		if value, ok := values[text]; ok {
			return value, ""
		}
		return 0, "is not valid"
	}).as(func(value int) string { return texts[value] })
}

// Integer reads a whole number without a unit.
func Integer[V int | uint8 | uint16](lowest, highest V) Syntax[V] {
	form := fmt.Sprintf("a whole number from %d to %d", lowest, highest)
	s := &schema.Schema{Type: "integer", Minimum: new(float64(lowest)), Maximum: new(float64(highest)), Form: form}
	return syntax(s, "write "+form, func(text string) (V, string) {
		value, problem := Digits(text)
		if problem == "" && (value < int(lowest) || value > int(highest)) {
			problem = "is out of range"
		}
		return V(value), problem
	})
}

// Digits reads decimal digits. A leading 0 is refused: YAML 1.1 reads such a number as octal, which
// is hardly meant.
func Digits(text string) (value int, problem string) {
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
	value, _ = strconv.Atoi(text) // at most 18 digits, nothing else
	return value, ""
}

// Boolean reads true or false.
func Boolean() Syntax[bool] {
	return syntax(&schema.Schema{Type: "boolean", Form: "true or false"}, "write true or false",
		func(text string) (bool, string) {
			if text != "true" && text != "false" {
				return false, "is neither true nor false"
			}
			return text == "true", ""
		})
}

// Choice reads one of a few words.
func Choice[V ~string](words ...V) Syntax[V] {
	var known []string
	for _, w := range words {
		known = append(known, string(w))
	}
	return syntax(schema.OneOf(known), "choose "+strings.Join(known, ", "), func(text string) (v V, problem string) {
		for _, w := range words {
			if text == string(w) {
				return w, ""
			}
		}
		return v, "is not valid"
	})
}
