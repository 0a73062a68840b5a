package bed

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"sluice/internal/linux/thread"
)

// RTERing identifies a figure of DPDK's ring_perf_autotest.
type RTERing struct {
	Cores int
	Kind  string // "single", "burst" or "bulk"
	Burst int    // values
	Bytes int    // per value
}

// DPDKTestProgram is the program of DPDK's own tests.
const DPDKTestProgram = "dpdk-test"

// errNoRTERing is the error of a run without figures.
var errNoRTERing = errors.New("ring_perf_autotest printed no figures")

// MeasureRTERing runs DPDK's own benchmark of its ring, single producer and single consumer, and
// returns the time of a burst in ns. On one core it is the time to enqueue and dequeue a burst; on
// two cores it is the time from one burst to the next.
//
// The program prints TSC cycles. On one core they are per burst, enqueued and dequeued; on two, per
// value, summed over both cores (app/test/test_ring_perf.c).
//
// If both CPUs are the same, there are only figures for one core.
func MeasureRTERing(ctx context.Context, cpus [2]int) (figures map[RTERing]float64, version string, err error) {
	path, err := exec.LookPath(DPDKTestProgram)
	if err != nil {
		return nil, "", fmt.Errorf("bench: %s: %w: run scripts/install-peers", DPDKTestProgram, ErrAbsent)
	}
	frequency := thread.TSCFrequency()
	if frequency == 0 {
		return nil, "", errors.New("bench: /proc/cpuinfo shows no constant TSC frequency")
	}
	cores := fmt.Sprintf("--lcores=0@%d", cpus[0])
	if cpus[1] != cpus[0] {
		cores += fmt.Sprintf(",1@%d", cpus[1])
	}
	reader := RTERingReader{Figures: map[RTERing]float64{}}
	watch := func(line string) {
		readDPDKVersion(line, &version)
		reader.Read(line)
	}
	p, err := startProcess(nil, watch, path, "-v", "--no-huge", "--no-shconf", "-m", "64", "--no-pci", "--no-telemetry",
		"--main-lcore=0", cores, "ring_perf_autotest")
	if err != nil {
		return nil, "", err
	}
	if err := p.wait(ctx); err != nil {
		return nil, "", err
	}
	for of, cycles := range reader.Figures {
		if of.Cores == 2 {
			cycles *= float64(of.Burst) / 2
		}
		reader.Figures[of] = cycles / frequency * 1e9
	}
	if len(reader.Figures) == 0 {
		return nil, "", fmt.Errorf("bench: run %s: %w", DPDKTestProgram, errNoRTERing)
	}
	return reader.Figures, version, nil
}

// rteRingLine matches a figure: "elem APIs: element size 16B: SP/SC: burst (size: 32): 64.25".
var rteRingLine = regexp.MustCompile(
	`^(?:legacy APIs|elem APIs: element size (\d+)B): ` +
		`SP/SC: (single|burst|bulk)(?: \(size: (\d+)\))?: ([0-9.]+)$`)

// RTERingReader collects the figures for one producer and one consumer, in cycles as printed.
type RTERingReader struct {
	Figures map[RTERing]float64
	cores   int // of the section; 0: a section to skip
}

// Read parses a line of DPDK's output.
func (r *RTERingReader) Read(line string) {
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
	of := RTERing{Cores: r.cores, Kind: m[2], Burst: 1, Bytes: pointer}
	if m[1] != "" {
		of.Bytes, _ = strconv.Atoi(m[1])
	}
	if m[3] != "" {
		of.Burst, _ = strconv.Atoi(m[3])
	}
	r.Figures[of], _ = strconv.ParseFloat(m[4], 64)
}
