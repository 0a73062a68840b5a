package units

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestQuantity compares Parse with exact rational arithmetic.
func TestQuantity(t *testing.T) {
	all := slices.Concat(Sizes, Rates, Times, Lengths, Percents)
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.SampledFrom(all).Draw(t, "unit")
		number := rapid.StringMatching(`[0-9]{1,10}(\.[0-9]{1,8})?`).Draw(t, "number")
		value, ok := new(big.Rat).SetString(number)
		if !ok {
			t.Fatalf("%s is no number", number)
		}
		value.Mul(value, new(big.Rat).SetInt(new(big.Int).SetUint64(u.Factor)))
		got, problem := Parse(number+u.Suffix, all)
		switch {
		case !value.IsInt():
			if problem != "is not a whole number in the smallest unit" {
				t.Fatalf("%s%s: %d, %q", number, u.Suffix, got, problem)
			}
		case !value.Num().IsUint64():
			if problem != "is too large" {
				t.Fatalf("%s%s: %d, %q", number, u.Suffix, got, problem)
			}
		case problem != "" || got != value.Num().Uint64():
			t.Fatalf("%s%s: %d, %q, want %s", number, u.Suffix, got, problem, value.Num())
		}
	})
}

func TestQuantityLimits(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "0B": 0, "160B": 160, "2KiB": 2048, "1MB": 1e6, "1.5KiB": 1536, "0.000001GB": 1000,
		"17179869183GiB": 17179869183 << 30,
	} {
		if got, problem := Parse(text, Sizes); got != want || problem != "" {
			t.Errorf("%s: %d, %q, want %d", text, got, problem, want)
		}
	}
	if _, problem := Parse("17179869184GiB", Sizes); problem != "is too large" {
		t.Errorf("2^64 bytes: %q", problem)
	}
}

func TestWrite(t *testing.T) {
	for got, want := range map[string]string{
		Rate(10e9): "10G", Rate(2_500e6): "2.5G", Rate(1500): "1.5K", Time(1500 * time.Nanosecond): "1us",
		Time(2 * time.Millisecond): "2ms",
		Exact(0, Times):            "0", Exact(300e9, Times): "5min", Exact(1342156, Times): "1342156ns",
		Exact(100e3, Lengths): "100m", Exact(60, Percents): "60%",
		Size(0): "0", Size(2048): "2KiB", Size(64e3): "64KB", Size(160): "160B",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
