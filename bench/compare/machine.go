package compare

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/linux/microarch"
)

// Machine describes what the figures depend on.
type Machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Kernel   string            `json:"kernel"`
	Versions map[string]string `json:"versions"`
}

// thisMachine describes the machine without identifying it.
func thisMachine() Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), Kernel: "unknown", Versions: map[string]string{}}
	m.Versions["go"] = strings.TrimPrefix(runtime.Version(), "go") + " for " + microarch.Built()
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, found := strings.Cut(string(text), "model name"); found {
			line, _, _ := strings.Cut(rest, "\n")
			m.CPU = strings.Trim(line, "\t :")
		}
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if strings.HasSuffix(d.Path, "/xdp") || strings.HasSuffix(d.Path, "cilium/ebpf") {
				m.Versions[d.Path] = d.Version
			}
		}
	}
	return m
}

// AddVersion records the version of a program, if it is known.
func (m *Machine) AddVersion(program, version string) {
	if version != "" {
		m.Versions[program] = version
	}
}
