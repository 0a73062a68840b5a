package scalar

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"sluice/cells"
)

// Decimal numbers are plain: no exponent, no sign, no leading 0.
func TestDecimal(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "1.5": 1.5, "99.999": 99.999, "100": 100, "100.00": 100,
		"1.000001": 1.000001} {
		if got, problem := Decimal(1, 100).Parse(text); got != want || problem != "" {
			t.Errorf("%s is read as %g", text, got)
		}
	}
	for _, text := range []string{
		"", ".", "1.", ".5", "0.99", "100.01", "-1", "+2", "01", "1e1", "0x2", "NaN", "Inf", "1,5", " 2", "1.2.3",
		strings.Repeat("9", 999),
	} {
		if _, problem := Decimal(1, 100).Parse(text); problem == "" {
			t.Errorf("%q is accepted", text)
		}
	}
}

// The words for alpha are exactly the powers of two from 2^-7 to 2^3, in lowest terms.
func TestAlpha(t *testing.T) {
	alpha := Alpha()
	for numerator := range 200 {
		for denominator := 1; denominator < 300; denominator++ {
			text := fmt.Sprint(numerator)
			if denominator > 1 {
				text = fmt.Sprintf("%d/%d", numerator, denominator)
			}
			powers := bits.OnesCount(uint(numerator)) == 1 && bits.OnesCount(uint(denominator)) == 1
			allowed := powers && numerator <= 8 && denominator <= 128 && min(numerator, denominator) == 1
			value, problem := alpha.Parse(text)
			ok := problem == ""
			if ok != allowed || ok && value*denominator != numerator*cells.AlphaUnit {
				t.Errorf("%s is read as %d/%d, %v", text, value, cells.AlphaUnit, ok)
			}
		}
	}
}
