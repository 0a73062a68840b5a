package screen

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// unknown replaces a missing number, such as a rate when there is only one report.
const unknown = "-"

// number formats a number in at most five characters with three significant digits: 0.25, 7, 12.5,
// 640, 1.25k, 31.3M. Numbers that are negative or not finite are unknown.
func number(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return unknown
	}
	units := []string{"", "k", "M", "G", "T", "P", "E"}
	unit := 0
	for ; x >= 999.5 && unit < len(units)-1; unit++ {
		x /= 1000
	}
	switch {
	case x >= 999.5:
		return ">999E"
	case x >= 99.95 || unit == 0 && x == math.Trunc(x):
		return fmt.Sprintf("%.0f%s", x, units[unit])
	case x >= 9.995:
		return fmt.Sprintf("%.1f%s", x, units[unit])
	case unit == 0 && x < .005:
		return "<0.01"
	}
	return fmt.Sprintf("%.2f%s", x, units[unit])
}

// percent formats a share (1 is 100 %) in at most four characters. Only exactly 0 is shown as 0.
func percent(share float64) string {
	switch {
	case math.IsNaN(share) || math.IsInf(share, 0) || share < 0:
		return unknown
	case share == 0:
		return "0"
	case share < .01:
		return "<1"
	case share >= 9.995:
		return ">999"
	}
	return fmt.Sprintf("%.0f", 100*share)
}

// span formats a time in at most seven characters: 850ns, 12us, 3.4ms, 17s, 5m07s, 3h12m, 12d4h.
func span(ns float64) string {
	d := time.Duration(ns)
	switch {
	case math.IsNaN(ns) || ns < 0 || ns >= math.MaxInt64:
		return unknown
	case ns < 999.5:
		return fmt.Sprintf("%.0fns", ns)
	case ns < 999.5e3:
		return short(ns/1e3) + "us"
	case ns < 999.5e6:
		return short(ns/1e6) + "ms"
	case ns < 59.5e9:
		return short(ns/1e9) + "s"
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d/time.Second%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d/time.Minute%60)
	case d < 100*24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d/time.Hour%24)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// short formats a number below 1000 in at most three characters.
func short(x float64) string {
	if x < 9.95 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// bar draws a level of width characters with brackets around it: # up to the level, and | at the
// watermark if that is higher. Anything above 0 is visible; anything above the limit fills the bar.
func bar(width int, held, watermark, limit int) string {
	inside := width - 2
	if inside < 1 {
		return ""
	}
	cells := []byte(strings.Repeat(" ", inside))
	if at := share(inside, watermark, limit); at > 0 {
		cells[at-1] = '|'
	}
	for i := range share(inside, held, limit) {
		cells[i] = '#'
	}
	return "[" + string(cells) + "]"
}

// share returns how much of a width stands for n of a limit, at least 1 if n is above 0.
func share(width, n, limit int) int {
	if n <= 0 {
		return 0
	}
	if n >= limit {
		return width
	}
	return max(1, int(float64(width)*float64(n)/float64(limit)))
}

// fit cuts text to a width and replaces all but printable ASCII: the kernel allows any bytes in
// device names, and a terminal must not interpret them.
func fit(text string, width int) string {
	if width <= 0 {
		return ""
	}
	clean := []byte(text)
	for i, c := range clean {
		if c < ' ' || c > '~' {
			clean[i] = '?'
		}
	}
	if len(clean) > width {
		clean = append(clean[:width-1], '~')
	}
	return string(clean)
}

// ending cuts text like fit, but at its beginning: device names differ at their ends.
func ending(text string, width int) string {
	if len(text) <= width || width < 1 {
		return fit(text, width)
	}
	return "~" + fit(text[len(text)-width+1:], width-1)
}

// left and right pad text with blanks to a width, or cut it.
func left(text string, width int) string { return fmt.Sprintf("%-*s", max(width, 0), fit(text, width)) }

func right(text string, width int) string { return fmt.Sprintf("%*s", max(width, 0), fit(text, width)) }
