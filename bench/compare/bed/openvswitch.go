package bed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// OpenVSwitch is Open vSwitch with its userspace datapath (datapath_type=netdev) over AF_XDP: a
// bridge with the site's devices as ports and default settings (it learns, and has no spanning
// tree). One PMD thread polls all ports on the forwarder's CPU; all other threads share the other
// CPU.
//
// It uses its own database, sockets and log, so it neither needs nor disturbs an Open vSwitch of
// the machine.
//
// The kernel datapath is not measured: it needs the kernel module openvswitch, which no kernel on
// which this ran had.
type OpenVSwitch struct {
	name      string
	path      string // of ovs-vswitchd
	dpdk      bool   // ports are DPDK's net_af_xdp, else Open vSwitch's own afxdp
	cpu       int    // of the PMD thread
	directory string // for all files that it writes
	database  *Process
	process   *Process
	version   openVSwitchVersion
	setup     string // see Setup
}

const (
	openVSwitchProgram = "ovs-vswitchd"
	// openVSwitchDPDK is Debian's path of the same program with DPDK.
	openVSwitchDPDK = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"

	OpenVSwitchAFXDPName = "ovs_afxdp"
	OpenVSwitchDPDKName  = "ovs_dpdk"
)

// openVSwitchTools are the programs that Open vSwitch needs besides its daemon.
var openVSwitchTools = []string{"ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-appctl"}

// NewOpenVSwitchAFXDP returns an OpenVSwitch with ports of type afxdp. It fails with ErrAbsent if
// Open vSwitch is not installed.
func NewOpenVSwitchAFXDP() (*OpenVSwitch, error) {
	return newOpenVSwitch(OpenVSwitchAFXDPName, openVSwitchProgram, false)
}

// NewOpenVSwitchDPDK returns an OpenVSwitch with ports of type dpdk, with DPDK's AF_XDP driver. It
// fails with ErrAbsent if that is not installed.
func NewOpenVSwitchDPDK() (*OpenVSwitch, error) {
	return newOpenVSwitch(OpenVSwitchDPDKName, openVSwitchDPDK, true)
}

func newOpenVSwitch(name, daemon string, dpdk bool) (*OpenVSwitch, error) {
	for _, program := range append(openVSwitchTools, daemon) {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("bench: %s: %w: run scripts/install-peers", program, ErrAbsent)
		}
	}
	return &OpenVSwitch{name: name, path: daemon, dpdk: dpdk}, nil
}

// Name implements Forwarder.
func (o *OpenVSwitch) Name() string { return o.name }

// Longest implements Limited.
func (o *OpenVSwitch) Longest() (int, string) {
	if o.dpdk {
		const ordinary = 1518
		return ordinary, "its ports of DPDK have an MTU of 1500"
	}
	return wholeFrames()
}

// Version returns the version that Open vSwitch has reported, once it was started.
func (o *OpenVSwitch) Version() string { return o.version.String() }

// Setup returns the command line of the last start, and the configuration as ovs-vsctl commands.
func (o *OpenVSwitch) Setup() string { return o.setup }

// Start implements Forwarder.
func (o *OpenVSwitch) Start(ctx context.Context, s Site) (err error) {
	o.cpu = s.CPU
	if o.directory, err = os.MkdirTemp("", "sluice-bench-ovs-"); err != nil {
		return fmt.Errorf("bench: start Open vSwitch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, StartLimit)
	defer cancel()
	if err = o.startDatabase(ctx, s); err == nil {
		err = o.startDaemon(ctx, s)
	}
	if err != nil {
		return errors.Join(err, o.clear())
	}
	return nil
}

// startDatabase starts a database with the configuration.
func (o *OpenVSwitch) startDatabase(ctx context.Context, s Site) (err error) {
	file := o.file("conf.db")
	if err := runTool(ctx, "ovsdb-tool", "create", file); err != nil {
		return err
	}
	cmd := exec.Command("ovsdb-server", noSyslog, "--unixctl="+o.file("ovsdb-server.ctl"), "--remote=p"+o.socket(),
		file)
	if o.database, err = startCommand(s.Namespace, nil, s.OtherCPU, cmd); err != nil {
		return err
	}
	args := []string{"--db=" + o.socket(), "--retry", "--no-wait", "init"}
	for _, command := range o.configuration(s) {
		args = append(args, append([]string{"--"}, command...)...)
	}
	return runTool(ctx, "ovs-vsctl", args...)
}

// startDaemon starts ovs-vswitchd and waits until it has its ports.
func (o *OpenVSwitch) startDaemon(ctx context.Context, s Site) (err error) {
	ready := make(chan struct{})
	var once sync.Once
	o.version = openVSwitchVersion{}
	watch := func(line string) {
		if o.version.read(line); o.version.own != "" {
			once.Do(func() { close(ready) })
		}
	}
	cmd := exec.Command(o.path, noSyslog, "--unixctl="+o.control(), o.socket())
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+o.directory) // bridges have sockets there, too
	o.setup = o.describe(s, cmd)
	if o.process, err = startCommand(s.Namespace, watch, s.OtherCPU, cmd); err != nil {
		return err
	}
	return o.process.await(ctx, ready)
}

// noSyslog makes programs of Open vSwitch log only to standard error.
const noSyslog = "-vsyslog:off"

func (o *OpenVSwitch) file(name string) string { return filepath.Join(o.directory, name) }
func (o *OpenVSwitch) socket() string          { return "unix:" + o.file("db.sock") }
func (o *OpenVSwitch) control() string         { return o.file("ovs-vswitchd.ctl") }

// describe returns the text for Setup.
func (o *OpenVSwitch) describe(s Site, cmd *exec.Cmd) string {
	var text strings.Builder
	for _, command := range o.configuration(s) {
		fmt.Fprintln(&text, "ovs-vsctl", strings.Join(command, " "))
	}
	started := strings.ReplaceAll(commandLine(o.path, cmd.Args[1:]), o.directory, "DIRECTORY")
	return started + ", with this configuration:\n\n" + indent(text.String())
}

// configuration returns ovs-vsctl commands: a bridge of the site's devices.
func (o *OpenVSwitch) configuration(s Site) [][]string {
	settings := []string{"set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=" + cpuMask(s.CPU)}
	if o.dpdk {
		settings = append(settings, "other_config:dpdk-init=true", "other_config:dpdk-lcore-mask="+cpuMask(s.OtherCPU),
			fmt.Sprintf("other_config:dpdk-extra=%q", strings.Join(openVSwitchEAL(len(s.Devices)), " ")))
	}
	commands := [][]string{settings, {"add-br", bridgeDevice}, {"set", "Bridge", bridgeDevice, "datapath_type=netdev"}}
	for i, d := range s.Devices {
		port := []string{"set", "Interface", d, "type=afxdp"}
		if o.dpdk {
			port = []string{"set", "Interface", d, "type=dpdk", "options:dpdk-devargs=" + afXDPDevice(i, d)}
		}
		commands = append(commands, []string{"add-port", bridgeDevice, d}, port)
	}
	return commands
}

// openVSwitchEAL returns arguments for DPDK's EAL, with testpmd's memory for the number of devices.
// It uses no hugepages: the kernel refuses Open vSwitch's packet buffers in them as UMEM.
// --legacy-mem keeps Open vSwitch from adding --in-memory, which DPDK does not allow together with
// --no-huge.
func openVSwitchEAL(devices int) []string {
	_, memory, _ := TestpmdMemory(devices)
	return []string{"--no-pci", "--no-telemetry", "-m", strconv.Itoa(memory), "--no-huge", "--legacy-mem",
		"--no-shconf"}
}

// cpuMask returns a hexadecimal mask of one CPU.
func cpuMask(cpu int) string { return fmt.Sprintf("0x%x%s", 1<<(cpu%4), strings.Repeat("0", cpu/4)) }

// Running reports whether it has not ended.
func (o *OpenVSwitch) Running() bool { return o.process.running() }

// LastWords returns the last lines of its log.
func (o *OpenVSwitch) LastWords() string { return o.process.output.words() }

// Threads returns the threads bound to the forwarder's CPU, by their numbers: the PMD thread, which
// polls, and with DPDK one that sleeps. The other threads do not forward.
func (o *OpenVSwitch) Threads() (map[string]Thread, error) {
	all, err := o.process.threads()
	maps.DeleteFunc(all, func(_ string, t Thread) bool { return t.CPU != cpuName(o.cpu) })
	return all, err
}

// Stop implements Forwarder.
func (o *OpenVSwitch) Stop() error { return errors.Join(o.exit(), o.clear()) }

// exit makes ovs-vswitchd detach its programs from the devices and exit. After a signal it would
// leave them.
func (o *OpenVSwitch) exit() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if err := runTool(ctx, "ovs-appctl", "--target="+o.control(), "exit", "--cleanup"); err != nil {
		return errors.Join(err, o.process.Stop())
	}
	return o.process.wait(ctx)
}

// clear stops the database and removes all files.
func (o *OpenVSwitch) clear() (err error) {
	if o.database != nil {
		err = o.database.Stop()
		o.database = nil
	}
	return errors.Join(err, os.RemoveAll(o.directory))
}

// openVSwitchVersion is the versions that ovs-vswitchd logs.
type openVSwitchVersion struct{ own, dpdk string }

// read parses "ovs-vswitchd (Open vSwitch) 3.1.0", which is logged once all ports are set up, and
// "Using DPDK 22.11.11".
func (v *openVSwitchVersion) read(line string) {
	if _, said, found := strings.Cut(line, "(Open vSwitch) "); found {
		v.own = said
	}
	if _, said, found := strings.Cut(line, "|Using DPDK "); found {
		v.dpdk = said
	}
}

func (v *openVSwitchVersion) String() string {
	switch {
	case v.own == "":
		return ""
	case v.dpdk == "":
		return v.own
	}
	return v.own + " with DPDK " + v.dpdk
}

// runTool runs a program to its end. If it fails, the error contains its output.
func runTool(ctx context.Context, path string, args ...string) error {
	if said, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("bench: run %s: %w\n%s", path, err, said)
	}
	return nil
}
