package bed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrAbsent says that a peer is not installed. The report says so and has no figures for it.
var ErrAbsent = errors.New("not installed")

// NullDevices are testpmd ports without cost.
var NullDevices = []string{"net_null0", "net_null1"}

const (
	TestpmdProgram = "dpdk-testpmd"
	StartLimit     = 20 * time.Second
	stopLimit      = 15 * time.Second
)

// Testpmd is DPDK's forwarder in mode io: it sends the frames that a device of a pair receives,
// unchanged, from the other. The site's first two devices are a pair, the next two another.
type Testpmd struct {
	path    string
	driver  testpmdDriver
	process *Process
	version string
	setup   string // see Setup
}

// testpmdDriver is one of DPDK's drivers for kernel devices.
type testpmdDriver struct {
	forwarder string                                     // name of the Forwarder
	vdev      func(i int, device string, mtu int) string // arguments of a DPDK device
	mbuf      func(mtu int) int                          // bytes of a packet buffer; 0: testpmd's default
	longest   func() (int, string)                       // see Limited; nil: no limit
	prepare   func(device string) error                  // prepares a device; may be nil
}

// NewTestpmd returns a testpmd with DPDK's AF_XDP driver. It fails with ErrAbsent if testpmd is not
// installed.
func NewTestpmd() (*Testpmd, error) {
	return newTestpmd(testpmdDriver{
		forwarder: "testpmd",
		vdev:      func(i int, device string, _ int) string { return afXDPDevice(i, device) },
		mbuf:      afXDPBuffer,
		longest: func() (int, string) {
			const kernelHeadroom = 256
			return afXDPLargest - testpmdHeadroom - kernelHeadroom,
				"DPDK's AF_XDP driver takes no frames of several buffers, and a buffer is no larger than a page"
		},
	})
}

// TestpmdPacketsName is the name of a NewTestpmdPackets.
const TestpmdPacketsName = "testpmd_af_packet"

// NewTestpmdPackets returns a testpmd with DPDK's driver for packet sockets, which takes frames of
// any length.
func NewTestpmdPackets() (*Testpmd, error) {
	return newTestpmd(testpmdDriver{
		forwarder: TestpmdPacketsName,
		vdev: func(i int, device string, mtu int) string {
			slot := packetSlotSize(mtu)
			return fmt.Sprintf("net_af_packet%d,iface=%s,framesz=%d,blocksz=%d", i, device, slot, slot)
		},
		mbuf:    func(mtu int) int { return packetSlotSize(mtu) + testpmdHeadroom },
		prepare: meetXDP,
	})
}

func newTestpmd(d testpmdDriver) (*Testpmd, error) {
	path, err := exec.LookPath(TestpmdProgram)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w: run scripts/install-peers", TestpmdProgram, ErrAbsent)
	}
	return &Testpmd{path: path, driver: d}, nil
}

// testpmdHeadroom is how many bytes of a packet buffer are before the frame.
const testpmdHeadroom = 128

// afXDPLargest is the largest size in bytes of the packet buffers of DPDK's AF_XDP driver. They are
// the frames of its UMEM, and fit a page together with the headers of DPDK's memory pool.
const afXDPLargest = 3840

// afXDPBuffer returns the size of these buffers for devices with an MTU; 0: testpmd's default.
func afXDPBuffer(mtu int) int {
	const ethernet = 1500
	if mtu <= ethernet {
		return 0
	}
	return afXDPLargest
}

// packetSlotSize returns the bytes of a slot in the rings of DPDK's driver for packet sockets: a
// frame behind the kernel's header, in whole pages.
func packetSlotSize(mtu int) int {
	const header, page = 128, 4096
	return (header + mtu + page - 1) &^ (page - 1)
}

// Name implements Forwarder.
func (t *Testpmd) Name() string { return t.driver.forwarder }

// Longest implements Limited.
func (t *Testpmd) Longest() (int, string) {
	if t.driver.longest == nil {
		return math.MaxInt, ""
	}
	return t.driver.longest()
}

// Version returns the version that testpmd has reported, once it was started.
func (t *Testpmd) Version() string { return t.version }

// Setup returns the command line of the last start.
func (t *Testpmd) Setup() string { return t.setup }

// Start implements Forwarder.
func (t *Testpmd) Start(ctx context.Context, s Site) error {
	var devices []string
	for i, d := range s.Devices {
		devices = append(devices, t.driver.vdev(i, d, s.MTU))
		if prepare := t.driver.prepare; prepare != nil {
			if err := s.Namespace.Do(func() error { return prepare(d) }); err != nil {
				return fmt.Errorf("bench: prepare %s for testpmd: %w", d, err)
			}
		}
	}
	forwarding := make(chan struct{})
	var once sync.Once
	watch := func(line string) {
		readDPDKVersion(line, &t.version)
		if strings.HasPrefix(line, testpmdStatistics) {
			once.Do(func() { close(forwarding) })
		}
	}
	args := testpmdArguments("io", devices, s.CPU, s.OtherCPU, t.driver.mbuf(s.MTU))
	t.setup = commandLine(t.path, args)
	var err error
	if t.process, err = startProcess(s.Namespace, watch, t.path, args...); err != nil {
		return err
	}
	return t.process.await(ctx, forwarding)
}

// afXDPDevice returns the arguments of a DPDK device over a kernel device, without busy polling, as
// for all forwarders.
func afXDPDevice(i int, device string) string {
	return fmt.Sprintf("net_af_xdp%d,iface=%s,busy_budget=0", i, device)
}

// Stop implements Forwarder.
func (t *Testpmd) Stop() error { return t.process.Stop() }

// readDPDKVersion parses the version that a DPDK program prints, given -v: "EAL: RTE Version: 'DPDK
// 22.11.7'".
func readDPDKVersion(line string, version *string) {
	if _, said, found := strings.Cut(line, "RTE Version: "); found {
		*version = strings.Trim(said, "' ")
	}
}

// Threads returns testpmd's threads by their numbers.
func (t *Testpmd) Threads() (map[string]Thread, error) { return t.process.threads() }

// testpmdStatistics is the start of the statistics that testpmd prints, for the first time when it
// starts to forward.
const testpmdStatistics = "Port statistics ="

// testpmdArguments gives the forwarding core one CPU and the main core, which prints, another.
// Without a terminal testpmd runs only while it has statistics to print. mbuf is the size in bytes
// of its packet buffers; 0: the default.
func testpmdArguments(mode string, devices []string, cpu, otherCPU, mbuf int) []string {
	frames, memory, huge := TestpmdMemory(len(devices))
	memory += frames * mbuf >> 20
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
	args = append(args, "--", "--total-num-mbufs="+strconv.Itoa(frames), "--nb-cores=1", "--stats-period=1",
		"--forward-mode="+mode)
	if mbuf > 0 {
		args = append(args, "--mbuf-size="+strconv.Itoa(mbuf))
	}
	return args
}

// TestpmdMemory returns testpmd's number of frames and MiB for a number of devices, and whether to
// use hugepages: if enough are free now.
func TestpmdMemory(devices int) (frames, memory int, huge bool) {
	const onePort = 4096 // frames in a port's rings
	frames = max(16384, onePort*devices)
	memory = frames / 64
	return frames, memory, freeHugepages() >= memory/2
}

// freeHugepages returns the number of free pages of 2 MiB, 0 if the kernel has none.
func freeHugepages() int {
	text, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// MeasureNull measures testpmd's forwarding rate between two ports without cost (net_null), in
// packets/s of both directions together, one sample per second. Modes are testpmd's: io forwards
// frames unchanged, macswap rewrites their addresses. It is the peer of the path between memory
// ports.
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
	p, err := startProcess(nil, watch, t.path, testpmdArguments(mode, NullDevices, cpu, otherCPU, 0)...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.await(ctx, enough), p.Stop()); err != nil {
		return nil, err
	}
	return rates.complete[unsettled:][:samples], nil
}

// testpmdRates extracts the packets/s sent by all ports from the statistics that testpmd prints.
type testpmdRates struct {
	complete []float64 // by statistics
	sum      float64   // of the current statistics
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
