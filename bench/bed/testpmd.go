package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrAbsent says that a peer is not installed. It is reported so; its figures are never made up.
var ErrAbsent = errors.New("not installed")

// NullDevices are testpmd's ports that cost nothing.
var NullDevices = []string{"net_null0", "net_null1"}

const (
	TestpmdProgram = "dpdk-testpmd"
	StartLimit     = 20 * time.Second
	stopLimit      = 15 * time.Second
)

// Testpmd is DPDK's forwarder with its AF_XDP driver, in mode io: what comes in at a device of a
// pair goes out, as it came, at the other. The site's first two devices are a pair, the next two
// another.
type Testpmd struct {
	path    string
	mode    string   // of forwarding, as testpmd calls it
	more    []string // arguments
	process *Process
	version string
	setup   string // see Setup
}

// NewTestpmd fails with ErrAbsent where there is no testpmd.
func NewTestpmd() (*Testpmd, error) {
	path, err := exec.LookPath(TestpmdProgram)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w (scripts/install-peers installs it)", TestpmdProgram, ErrAbsent)
	}
	return &Testpmd{path: path, mode: "io"}, nil
}

// Sending returns a testpmd that sends frames of a length, bytes without FCS, which it makes,
// instead of forwarding any.
func (t *Testpmd) Sending(length int) *Testpmd {
	return &Testpmd{path: t.path, mode: "txonly", more: []string{"--txpkts=" + strconv.Itoa(length)}}
}

// Name implements Forwarder.
func (t *Testpmd) Name() string { return "testpmd" }

// Version returns what testpmd has said of itself, once it was started.
func (t *Testpmd) Version() string { return t.version }

// Setup returns the command line by which it was last started.
func (t *Testpmd) Setup() string { return t.setup }

// Start implements Forwarder.
func (t *Testpmd) Start(ctx context.Context, s Site) error {
	var devices []string
	for i, d := range s.Devices {
		devices = append(devices, afXDPDevice(i, d))
	}
	forwarding := make(chan struct{})
	var once sync.Once
	watch := func(line string) {
		readDPDKVersion(line, &t.version)
		if strings.HasPrefix(line, testpmdStatistics) {
			once.Do(func() { close(forwarding) })
		}
	}
	args := append(testpmdArguments(t.mode, devices, s.CPU, s.OtherCPU), t.more...)
	t.setup = commandLine(t.path, args)
	var err error
	if t.process, err = StartProcess(s.Namespace, watch, t.path, args...); err != nil {
		return err
	}
	return t.process.await(ctx, forwarding)
}

// afXDPDevice returns the arguments of a DPDK device over a kernel device, which isn't polled
// busily, like everybody's.
func afXDPDevice(i int, device string) string {
	return fmt.Sprintf("net_af_xdp%d,iface=%s,busy_budget=0", i, device)
}

// Stop implements Forwarder.
func (t *Testpmd) Stop() error { return t.process.Stop() }

// readDPDKVersion finds what a program of DPDK says of its version, given -v: "EAL: RTE Version:
// 'DPDK 22.11.7'".
func readDPDKVersion(line string, version *string) {
	if _, said, found := strings.Cut(line, "RTE Version: "); found {
		*version = strings.Trim(said, "' ")
	}
}

// Threads returns testpmd's threads by their numbers.
func (t *Testpmd) Threads() (map[string]Thread, error) { return t.process.threads() }

// testpmdStatistics begins the statistics that testpmd prints, the first time as soon as it
// forwards.
const testpmdStatistics = "Port statistics ="

// testpmdArguments gives the forwarding core one CPU and the main core, which prints, another.
// Without a terminal testpmd goes on only for as long as it has statistics to print.
func testpmdArguments(mode string, devices []string, cpu, otherCPU int) []string {
	frames, memory, huge := TestpmdMemory(len(devices))
	args := []string{"-v", "--no-pci", "--no-telemetry", "--main-lcore=0", fmt.Sprintf("--lcores=0@%d,1@%d", otherCPU,
		cpu),
		"-m", strconv.Itoa(memory)}
	if huge {
		args = append(args, "--in-memory")
	} else {
		args = append(args, "--no-huge", "--no-shconf")
	}
	for _, d := range devices {
		args = append(args, "--vdev="+d)
	}
	return append(args, "--", "--total-num-mbufs="+strconv.Itoa(frames), "--nb-cores=1", "--stats-period=1",
		"--forward-mode="+mode)
}

// TestpmdMemory returns the frames and the MiB that testpmd gets for so many devices, and whether
// in hugepages: if enough are free now.
func TestpmdMemory(devices int) (frames, memory int, huge bool) {
	const onePort = 4096 // frames: what its rings hold
	frames = max(16384, onePort*devices)
	memory = frames / 64
	return frames, memory, freeHugepages() >= memory/2
}

// freeHugepages returns the number of free pages of 2 MiB, 0 where the kernel has none.
func freeHugepages() int {
	text, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// MeasureNull measures what testpmd forwards between two ports that cost nothing (net_null), in
// packets/s of both directions together, one sample a second. Modes are testpmd's: io leaves the
// frames alone, macswap rewrites their addresses. It is the peer of the path between memory ports.
func (t *Testpmd) MeasureNull(ctx context.Context, mode string, cpu, otherCPU, samples int) ([]float64, error) {
	const unsettled = 1 // the first statistics are printed before there is a rate
	var rates testpmdRates
	enough := make(chan struct{})
	var once sync.Once
	watch := func(line string) {
		readDPDKVersion(line, &t.version)
		if rates.read(line); len(rates.complete) == unsettled+samples {
			once.Do(func() { close(enough) })
		}
	}
	ctx, cancel := context.WithTimeout(ctx, StartLimit+time.Duration(unsettled+samples)*time.Second)
	defer cancel()
	p, err := StartProcess(nil, watch, t.path, testpmdArguments(mode, NullDevices, cpu, otherCPU)...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.await(ctx, enough), p.Stop()); err != nil {
		return nil, err
	}
	return rates.complete[unsettled:][:samples], nil
}

// testpmdRates reads the packets/s sent by all ports out of the statistics that testpmd prints.
type testpmdRates struct {
	complete []float64 // by statistics
	sum      float64   // of the statistics being read
	open     bool
}

func (r *testpmdRates) read(line string) {
	if strings.HasPrefix(line, testpmdStatistics) {
		if r.open {
			r.complete = append(r.complete, r.sum)
		}
		r.open, r.sum = true, 0
		return
	}
	if f := strings.Fields(line); len(f) >= 2 && f[0] == "Tx-pps:" {
		n, _ := strconv.ParseFloat(f[1], 64)
		r.sum += n
	}
}

const lastLines = 20
