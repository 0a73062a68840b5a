package control

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// frequency returns the cycles of the time stamp counter in a second, 0 if the kernel does not tell. On processors with a
// constant TSC the kernel derives its delay loop from it, and prints twice that as BogoMIPS.
var frequency = sync.OnceValue(func() float64 {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !strings.Contains(string(text), "constant_tsc") {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "bogomips")
	line, _, _ := strings.Cut(rest, "\n")
	f, err := strconv.ParseFloat(strings.Trim(line, "\t :"), 64)
	if err != nil {
		return 0
	}
	return f / 2 * 1e6
})
