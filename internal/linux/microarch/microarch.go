// Package microarch handles the x86-64 levels for which Go builds programs (x86-64 psABI 1.0, 3.1.1
// "Processor Architecture"; GOAMD64).
package microarch

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// Built returns the target of this build: "amd64 v1" to "amd64 v4", or the name of an architecture
// without levels.
func Built() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "GOAMD64" {
				return runtime.GOARCH + " " + s.Value
			}
		}
	}
	return runtime.GOARCH
}

// third are the flags that level v3 requires beyond v1, as in /proc/cpuinfo. abm is LZCNT. The
// kernel lists avx only if programs may use it (OSXSAVE).
var third = []string{
	"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3", // v2
	"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave",
}

// HasThird reports whether a processor with the flags in cpuinfo (the text of /proc/cpuinfo) can
// run a program built for level v3.
func HasThird(cpuinfo string) bool {
	has := flags(cpuinfo)
	return !slices.ContainsFunc(third, func(flag string) bool { return !has[flag] })
}

// Virtual reports whether a hypervisor runs the processor with the flags in cpuinfo.
func Virtual(cpuinfo string) bool { return flags(cpuinfo)["hypervisor"] }

func flags(cpuinfo string) map[string]bool {
	_, rest, _ := strings.Cut(cpuinfo, "\nflags")
	line, _, _ := strings.Cut(rest, "\n")
	has := map[string]bool{}
	for _, flag := range strings.Fields(strings.TrimLeft(line, "\t :")) {
		has[flag] = true
	}
	return has
}
