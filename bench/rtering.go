package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// rteRing is one figure that DPDK's ring_perf_autotest prints.
type rteRing struct {
	cores int
	kind  string // "single", "burst" or "bulk"
	burst int    // values
	bytes int    // of a value
}

const dpdkTestProgram = "dpdk-test"

// errNoRTERing is the reason of a run that printed no figures.
var errNoRTERing = errors.New("ring_perf_autotest has printed no figures")

// measureRTERing runs DPDK's own measurement of its ring, single producer and single consumer, and returns the time of a
// burst, in ns: on one core, to put it in and take it out; on two, from one burst to the next.
//
// The program prints cycles of the TSC. On one core these are of a burst, in and out; on two, of a value, those of
// both cores added up (app/test/test_ring_perf.c).
//
// If both CPUs are the same one, there are only the figures on one core.
func measureRTERing(ctx context.Context, cpus [2]int) (figures map[rteRing]float64, version string, err error) {
	path, err := exec.LookPath(dpdkTestProgram)
	if err != nil {
		return nil, "", fmt.Errorf("bench: %s: %w (scripts/install-peers installs it)", dpdkTestProgram, ErrAbsent)
	}
	frequency, err := tscFrequency()
	if err != nil {
		return nil, "", err
	}
	cores := fmt.Sprintf("--lcores=0@%d", cpus[0])
	if cpus[1] != cpus[0] {
		cores += fmt.Sprintf(",1@%d", cpus[1])
	}
	reader := rteRingReader{figures: map[rteRing]float64{}}
	watch := func(line string) {
		readDPDKVersion(line, &version)
		reader.read(line)
	}
	p, err := startProcess(nil, watch, path, "-v", "--no-huge", "--no-shconf", "-m", "64", "--no-pci", "--no-telemetry",
		"--main-lcore=0", cores, "ring_perf_autotest")
	if err != nil {
		return nil, "", err
	}
	if err := p.wait(ctx); err != nil {
		return nil, "", err
	}
	for of, cycles := range reader.figures {
		if of.cores == 2 {
			cycles *= float64(of.burst) / 2
		}
		reader.figures[of] = cycles / frequency * 1e9
	}
	if len(reader.figures) == 0 {
		return nil, "", fmt.Errorf("bench: %s: %w", dpdkTestProgram, errNoRTERing)
	}
	return reader.figures, version, nil
}

// rteRingLine is a figure: "elem APIs: element size 16B: SP/SC: burst (size: 32): 64.25".
var rteRingLine = regexp.MustCompile(`^(?:legacy APIs|elem APIs: element size (\d+)B): SP/SC: (single|burst|bulk)(?: \(size: (\d+)\))?: ([0-9.]+)$`)

// rteRingReader collects the figures for one producer and one consumer, in cycles as printed.
type rteRingReader struct {
	figures map[rteRing]float64
	cores   int // of the section; 0: one that is of no interest
}

func (r *rteRingReader) read(line string) {
	const pointer = 8 // bytes of a value of the legacy ring
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "###") {
		switch {
		case strings.Contains(line, "empty"):
			r.cores = 0
		case strings.Contains(line, "enq/deq"):
			r.cores = 1
		case strings.Contains(line, "two physical cores"):
			r.cores = 2
		default:
			r.cores = 0
		}
	}
	m := rteRingLine.FindStringSubmatch(line)
	if m == nil || r.cores == 0 {
		return
	}
	of := rteRing{cores: r.cores, kind: m[2], burst: 1, bytes: pointer}
	if m[1] != "" {
		of.bytes, _ = strconv.Atoi(m[1])
	}
	if m[3] != "" {
		of.burst, _ = strconv.Atoi(m[3])
	}
	r.figures[of], _ = strconv.ParseFloat(m[4], 64)
}

// tscFrequency returns the cycles of the time stamp counter in a second. On processors with a constant TSC the kernel
// derives its delay loop from it, and prints twice that as BogoMIPS.
func tscFrequency() (float64, error) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return 0, err
	}
	if _, rest, found := strings.Cut(string(text), "bogomips"); found && strings.Contains(string(text), "constant_tsc") {
		line, _, _ := strings.Cut(rest, "\n")
		if f, err := strconv.ParseFloat(strings.Trim(line, "\t :"), 64); err == nil && f > 0 {
			return f / 2 * 1e6, nil
		}
	}
	return 0, errors.New("bench: /proc/cpuinfo tells no constant frequency of the TSC")
}
