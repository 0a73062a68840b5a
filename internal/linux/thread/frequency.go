package thread

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// TSCFrequency returns the frequency of the time stamp counter in Hz, or 0 if the kernel does not
// tell. On processors with a constant TSC the kernel derives its delay loop from it, and prints
// twice that as BogoMIPS.
var TSCFrequency = sync.OnceValue(func() float64 {
	text, _ := os.ReadFile("/proc/cpuinfo")
	return frequencyIn(string(text))
})

func frequencyIn(cpuinfo string) float64 {
	if !strings.Contains(cpuinfo, "constant_tsc") {
		return 0
	}
	_, rest, _ := strings.Cut(cpuinfo, "bogomips")
	line, _, _ := strings.Cut(rest, "\n")
	f, _ := strconv.ParseFloat(strings.Trim(line, "\t :"), 64)
	return f / 2 * 1e6
}
