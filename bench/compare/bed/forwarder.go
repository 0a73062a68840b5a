package bed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sluice/bench/compare"
	"sluice/bench/netns"
	"sluice/internal/config"
)

// Site is where a forwarder works: between the devices of a namespace, in all directions.
type Site struct {
	Namespace *netns.Namespace
	Devices   []string
	CPU       int // for the forwarding loop alone
	OtherCPU  int // for everything else that the forwarder runs
	MTU       int // of all devices, in bytes
}

// jumbo returns the settings of sluice for frames longer than those of ordinary Ethernet: of its
// memory and of a port. The first ones are of use for any frame, but a larger buffer costs more
// cache misses.
func (s Site) jumbo() (memory, port string) {
	if s.MTU <= 1500 {
		return "", ""
	}
	return ", buffer_size: 4096B", fmt.Sprintf(", mtu: %d", s.MTU)
}

// Forwarder is a subject of measurements. Start and Stop alternate. Optional methods: Threads()
// (map[string]Thread, error) lets a trial report disturbance by other processes; Version() string
// and Setup() string appear in the report; Running() bool ends a wait for a forwarder that has
// ended.
type Forwarder interface {
	Name() string
	Start(ctx context.Context, s Site) error // returns when it has started; it forwards soon after
	Stop() error                             // returns when it has ended; fails if it had ended before
}

// Limited is a Forwarder that does not forward frames longer than Longest says, in bytes without
// FCS, and says why.
type Limited interface {
	Longest() (bytes int, why string)
}

// wholeFrames is the limit of forwarders whose XDP programs take no frames of several buffers.
func wholeFrames() (int, string) {
	const mtu, header = 3506, 14 // veth_xdp_set of Linux, with pages of 4 KiB
	return mtu + header, fmt.Sprintf("its XDP program takes no frames of several buffers, and without that veth "+
		"allows MTUs of up to %d", mtu)
}

// Program is a Forwarder that is a process of one of this project's programs.
type Program struct {
	name, path string
	arguments  func(s Site) []string
	file       func(s Site) string  // text of a configuration file, whose name is the last argument; nil: none
	written    string               // name of that file
	watch      func(line string)    // gets its output; may be nil
	longest    func() (int, string) // see Limited; nil: no limit
	setup      string               // see Setup
	process    *Process
}

// NewSluice returns `sluice run` with a wire between the two devices.
func NewSluice(path string) *Program { return NewSluiceWith("sluice", path, WireConfig) }

// NewSluiceWith returns `sluice run` with a configuration for the site.
func NewSluiceWith(name, path string, config func(s Site) string) *Program {
	return &Program{name: name, path: path, arguments: func(Site) []string { return []string{"run", "-c"} },
		file: config}
}

// NewBaseline returns `sluice-lab bench baseline`, which calls RunBaseline.
func NewBaseline(path string) *Program {
	p := NewProgram("baseline", path, func(s Site) []string {
		return []string{"bench", "baseline", "--cpu", strconv.Itoa(s.CPU), s.Devices[0], s.Devices[1]}
	})
	p.longest = func() (int, string) {
		return baselineMaxFrame, fmt.Sprintf("its buffers are of %d bytes, as the library's are", baselineFrame)
	}
	return p
}

// NewProgram returns a program that forwards on the site given by its arguments.
func NewProgram(name, path string, arguments func(s Site) []string) *Program {
	return &Program{name: name, path: path, arguments: arguments}
}

// WireConfig is a configuration of sluice: a wire between ports without shapers and pauses, with
// defaults except for the memory. That many buffers make rings of 2048 frames, as in testpmd: a
// ring uses all of its buffers before it reuses one, so longer rings have more cache misses.
func WireConfig(s Site) string {
	a, b := s.Devices[0], s.Devices[1]
	memory, port := s.jumbo()
	return fmt.Sprintf(`workers: [%d]
forwarding:
  mode: wire
  wires: [[%s, %s]]
memory: {buffers: 8192%s}
ports:
  - {device: %[2]s, speed: 100G%[5]s}
  - {device: %[3]s, speed: 100G%[5]s}
%[6]s`, s.CPU, a, b, memory, port, nobodyLooks)
}

// nobodyLooks is the part of a configuration that turns off the control socket and metrics, so that
// switches can run side by side.
const nobodyLooks = "control: {socket: none}\nmetrics: {listen: none}\n"

// LosslessWireConfig is WireConfig with all frames lossless and ports of a speed in bit/s, which
// determines the duration of pauses and the shapers' rate.
func LosslessWireConfig(speed uint64) func(s Site) string {
	return func(s Site) string {
		a, b := s.Devices[0], s.Devices[1]
		memory, port := s.jumbo()
		return fmt.Sprintf(`workers: [%d]
forwarding:
  mode: wire
  wires: [[%s, %s]]
memory: {buffers: 131072%[7]s}
classes:
  - {name: lossless, cos: [%[4]d], lossless: true, share: 4MB}
ports:
  - {device: %[2]s, speed: %[5]dM%[8]s}
  - {device: %[3]s, speed: %[5]dM%[8]s}
%[6]s`, s.CPU, a, b, LosslessPriority, speed/1e6, nobodyLooks, memory, port)
	}
}

// BridgeConfig is a configuration of sluice: a bridge with one lossless priority, LosslessPriority.
type BridgeConfig struct {
	Speed  uint64 // bit/s of the ports
	Flow   string // flow_control of the ports: pfc, pause, or off, without a lossless priority
	Slow   int    // number of the slower port…
	Slower uint64 // … by this factor; 0: no slower port
	TX     config.TXEngine
}

// BridgeBuffers is the number of buffers of a switch of BridgeConfig.
const BridgeBuffers = 1 << 17 // of 2048 bytes

// BridgeSpeed returns the bit/s of a bridge's ports: a rate that the machine forwards with ease. In
// a quick run it is so low that the machine forwards it even if other processes take all its time.
func BridgeSpeed(o compare.Options) uint64 {
	if o.Quick {
		return 100e6
	}
	return 1e9
}

// Text returns the configuration for a site. A lossless queue may grow for 8 ms. Its headroom of
// 4000 buffers is for a worker that other processes delay and that then receives all frames at
// once.
func (c BridgeConfig) Text(s Site) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%sworkers: [%d]\nmemory: {buffers: %d}\nclasses:\n", nobodyLooks, s.CPU, BridgeBuffers)
	if c.Flow == "off" {
		fmt.Fprintf(&text, "  - {name: storage, cos: [%d]}\n", LosslessPriority)
	} else {
		fmt.Fprintf(&text, "  - {name: storage, cos: [%d], lossless: true, share: %dKB, headroom: 8MB}\n",
			LosslessPriority, c.Speed/1e6)
	}
	if c.TX == config.TXTransmitter {
		fmt.Fprintf(&text, "transmitter: {cpu: %d}\n", s.CPU)
	}
	text.WriteString("ports:\n")
	for i, d := range s.Devices {
		speed := c.Speed
		if i == c.Slow && c.Slower > 0 {
			speed /= c.Slower
		}
		fmt.Fprintf(&text, "  - {device: %s, speed: %dM, flow_control: %s, tx: %s}\n", d, speed/1e6, c.Flow, c.TX)
	}
	return text.String()
}

// NewBridge returns `sluice run` with such a configuration and the TX engine that the options
// select.
func NewBridge(name string, o *compare.Options, c BridgeConfig) Forwarder {
	c.TX = o.Engine()
	if c.TX == config.TXTransmitter {
		return NewTransmitterSluice(name, o.Program, c.Text)
	}
	return NewSluiceWith(name, o.Program, c.Text)
}

// Name implements Forwarder.
func (p *Program) Name() string { return p.name }

// Longest implements Limited.
func (p *Program) Longest() (int, string) {
	if p.longest == nil {
		return math.MaxInt, ""
	}
	return p.longest()
}

// Start implements Forwarder.
func (p *Program) Start(_ context.Context, s Site) (err error) {
	args := p.arguments(s)
	p.setup = commandLine(p.path, args)
	if p.file != nil {
		text := p.file(s)
		if p.written, err = writeTemporary(text); err != nil {
			return fmt.Errorf("bench: write the configuration of %s: %w", p.name, err)
		}
		p.setup += " FILE, with this file:\n\n" + indent(text)
		args = append(args, p.written)
	}
	if p.process, err = startProcess(s.Namespace, p.watch, p.path, args...); err != nil {
		return errors.Join(err, p.removeFile())
	}
	return nil
}

// Setup returns the command line and configuration text of the last start.
func (p *Program) Setup() string { return p.setup }

// commandLine returns a program's name, without its directory, and its arguments.
func commandLine(path string, args []string) string {
	return strings.Join(append([]string{filepath.Base(path)}, args...), " ")
}

// indent makes a text a verbatim block.
func indent(text string) string {
	return compare.Verbatim + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+compare.Verbatim)
}

// NoteSetup notes how a forwarder was started, and its version, if it provides them.
func NoteSetup(r *compare.Report, name string, f Forwarder) {
	if v, ok := f.(interface{ Version() string }); ok {
		r.Machine.AddVersion(f.Name(), v.Version())
	}
	if s, ok := f.(interface{ Setup() string }); ok && s.Setup() != "" {
		r.Note("%s was started as: %s", name, s.Setup())
	}
}

// LastWords returns the last lines of its output.
func (p *Program) LastWords() string { return p.process.output.words() }

// Running reports whether it has not ended.
func (p *Program) Running() bool { return p.process.running() }

// Stop implements Forwarder.
func (p *Program) Stop() error { return errors.Join(p.process.Stop(), p.removeFile()) }

func (p *Program) removeFile() error {
	if p.file == nil {
		return nil
	}
	return os.Remove(p.written)
}

// Threads returns the process's threads; see process.threads.
func (p *Program) Threads() (map[string]Thread, error) { return p.process.threads() }

func writeTemporary(text string) (name string, err error) {
	f, err := os.CreateTemp("", "sluice-bench-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	return f.Name(), errors.Join(err, f.Close())
}
