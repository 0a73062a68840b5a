package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/linux/ethtool"
	"sluice/internal/linux/netdev"
	"sluice/internal/state"
	"sluice/pmd/afxdp"
)

// twoPorts is a configuration with a lossless class, for wellMachine.
const twoPorts = `
workers: [3]
ports:
  - {device: port1, speed: 10G}
  - {device: port2, speed: 10G}
classes:
  - {cos: [3], lossless: true}
`

// wellMachine returns a machine without problems, its files and its devices. Changes to these two
// are visible in the machine.
func wellMachine() (Machine, map[string]string, map[string]*Device) {
	files := map[string]string{
		"/proc/sys/kernel/osrelease": "6.18.1-test",
		"/proc/self/status": "Name:\tdoctor\nCapEff:\t000001ffffffffff\n" +
			"CapBnd:\t000001ffffffffff\nCpus_allowed_list:\t0-3\n",
		"/proc/self/limits": "Limit  Soft  Hard  Units\nMax locked memory         " +
			"8388608              16777216             bytes\n",
		"/proc/meminfo": "MemTotal:       16000000 " +
			"kB\nMemAvailable:    8000000 kB\n",
		hugepageDirectory + "nr_hugepages":                                   "0",
		hugepageDirectory + "free_hugepages":                                 "0",
		cpuDirectory + "online":                                              "0-3",
		cpuDirectory + "isolated":                                            "3",
		"/proc/self/uid_map":                                                 "0          0 4294967295",
		"/proc/self/cgroup":                                                  "0::/a.slice/b.service",
		cgroupDirectory + "/a.slice/cpu.max":                                 "max 100000",
		cpuDirectory + "nohz_full":                                           "2-3",
		cpuDirectory + "cpu3/cpufreq/scaling_governor":                       "performance",
		"/sys/devices/system/clocksource/clocksource0/current_clocksource":   "tsc",
		"/sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm",
	}
	well := Device{
		Kind: "device", Driver: "mlx5_core", Up: true, Carrier: true, MTU: 1500, Speed: 10e9, Queues: 1,
		RX: Ring{2048, 8160}, TX: Ring{2048, 8160},
		XDP: netdev.Basic | netdev.Redirect | netdev.Fragments | netdev.ZeroCopy, XDPKnown: true, Segments: 1,
		Pause: &ethtool.Pause{Negotiated: true}, DCB: &DCB{},
	}
	one, two := well, well
	devices := map[string]*Device{"port1": &one, "port2": &two}
	return Machine{
		Read: func(path string) (string, error) {
			text, ok := files[path]
			if !ok {
				return "", fs.ErrNotExist
			}
			return text, nil
		},
		Write:    func(string) error { return nil },
		Socket:   func(int) error { return nil },
		Buffer:   func(int) error { return nil },
		Filtered: func() bool { return false },
		Listen:   func(string) error { return nil },
		Poller:   func(int) int { return 0 },
		Spent:    func(int) (ran, waited time.Duration) { return 10 * time.Second, 10 * time.Millisecond },
		Device: func(name string) (*Device, error) {
			if d := devices[name]; d != nil {
				return d, nil
			}
			return nil, fs.ErrNotExist
		},
		Gap:     func(int) (time.Duration, error) { return 100 * time.Microsecond, nil },
		Program: "/usr/bin/sluice",
		Built:   "amd64 v3",
	}, files, devices
}

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("switch.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// show formats a report for a test's log.
func show(r *Report) string {
	var text strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&text, "%s %s: %s [%s] %s\n", f.Status, f.Subject, f.Text, f.Fix, f.At)
	}
	return text.String()
}

func TestNothingIsWrong(t *testing.T) {
	m, _, _ := wellMachine()
	r := Examine(m, Target{Config: parsed(t, twoPorts)})
	t.Log(show(r))
	if r.Errors+r.Warnings > 0 {
		t.Errorf("%d errors, %d warnings", r.Errors, r.Warnings)
	}
	for _, f := range r.Findings {
		if f.Fix != "" || f.Text == "" || f.Subject == "" {
			t.Errorf("%+v", f)
		}
	}
}

const cgroupDirectory = "/sys/fs/cgroup"

// spoiler introduces a problem into a machine.
type spoiler func(m *Machine, files map[string]string, devices map[string]*Device)

// ailment is one problem of an otherwise healthy machine.
type ailment struct {
	name   string
	text   string // the configuration; default twoPorts
	ring   int    // frames
	spoil  spoiler
	run    func(*Running) // if not nil, a switch runs
	status Status
	about  string   // the subject of the finding
	say    []string // in its text
	fix    string
	at     string
}

// without returns a spoiler that removes capabilities from /proc/self/status.
func without(effective, bounding string, more spoiler) spoiler {
	return func(m *Machine, files map[string]string, devices map[string]*Device) {
		files["/proc/self/status"] = fmt.Sprintf("CapEff:\t%s\nCapBnd:\t%s\nCpus_allowed_list:\t0-3\n", effective,
			bounding)
		if more != nil {
			more(m, files, devices)
		}
	}
}

func file(path, text string) spoiler {
	return func(_ *Machine, files map[string]string, _ map[string]*Device) { files[path] = text }
}

func device(change func(*Device)) spoiler {
	return func(_ *Machine, _ map[string]string, devices map[string]*Device) { change(devices["port2"]) }
}

// igc makes a device one without frames in fragments, with an MTU.
func igc(mtu int) func(*Device) {
	return func(d *Device) { d.Driver, d.MTU, d.XDP = "igc", mtu, d.XDP&^netdev.Fragments }
}

// both spoils in two ways.
func both(a, b spoiler) spoiler {
	return func(m *Machine, files map[string]string, devices map[string]*Device) {
		a(m, files, devices)
		b(m, files, devices)
	}
}

// zeroCopying makes a device one that zero-copy mode serves.
func zeroCopying(d *Device) {
	d.Driver, d.XDP = "mlx5_core", d.XDP|netdev.ZeroCopy
}

// replaying makes a device one whose driver delivers buffers twice in zero-copy mode.
func replaying(d *Device) {
	d.Kind, d.Driver, d.XDP, d.RX.Size = "device", "igb", d.XDP|netdev.ZeroCopy, 256
}

// direct makes a device one without the descriptors that its driver needs in zero-copy mode.
func direct(d *Device) {
	d.Kind, d.Driver, d.XDP, d.Direct = "device", "virtio_net", d.XDP|netdev.ZeroCopy, true
}

// splitting makes a device one whose driver splits long frames in zero-copy mode.
func splitting(d *Device) {
	d.Kind, d.Driver, d.XDP = "device", "igc", d.XDP|netdev.ZeroCopy
}

const (
	setcap     = "setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep /usr/bin/sluice"
	noIPCLock  = "000001ffffffbfff"
	noNetAdmin = "000001ffffffefff"
	allOfThem  = "000001ffffffffff"
)

var machineAilments = []ailment{
	{name: "old kernel", spoil: file("/proc/sys/kernel/osrelease", "5.10.0-8"),
		status: Warning, about: "kernel", say: []string{"5.10.0-8", "Linux 6"}},
	{name: "a filter of system calls",
		spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
			m.Filtered = func() bool { return true }
		},
		status: Error, about: "capabilities", say: []string{"seccomp", "bpf(2)", "Docker", "--security-opt"}},
	{name: "busy polling of copies", text: strings.Replace(twoPorts, "port2, ", "port2, busy_poll: true, ", 1),
		spoil:  device(func(d *Device) { d.XDP &^= netdev.ZeroCopy }),
		status: Error, about: "port2", say: []string{"6.13"}, fix: "busy_poll: false", at: "switch.yaml:5:32"},
	{name: "a veth peer with a smaller MTU",
		spoil: device(func(d *Device) {
			d.Kind, d.Driver, d.XDP = "veth", "veth", d.XDP&^netdev.ZeroCopy
			d.Peer = &Peer{Device: "eth0", MTU: 1400, Namespace: "/run/netns/a"}
		}),
		status: Error, about: "port2", say: []string{"eth0", "1400", "TX_DROPPED"},
		fix: "nsenter --net=/run/netns/a ip link set dev eth0 mtu 1500"},
	{name: "kernel before veth pushed back", spoil: func(_ *Machine, files map[string]string,
		devices map[string]*Device) {
		files["/proc/sys/kernel/osrelease"], devices["port2"].Kind = "6.12.3", "veth"
	},
		status: Warning, about: "kernel", say: []string{"6.17.10", "veth"}},
	{name: "no AF_XDP", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Socket = func(int) error { return unix.EAFNOSUPPORT }
	}, status: Error, about: "AF_XDP", say: []string{"boot one that was built with CONFIG_XDP_SOCKETS"}},
	{name: "AF_XDP filtered out",
		spoil: without(allOfThem, allOfThem, func(m *Machine, files map[string]string, _ map[string]*Device) {
			m.Socket = func(int) error { return unix.EAFNOSUPPORT }
			files["/proc/self/status"] += "Seccomp:\t2\n"
		}), status: Error, about: "AF_XDP", say: []string{"RestrictAddressFamilies"}},
	{name: "rootless container",
		spoil:  file("/proc/self/uid_map", "         0       1000          1\n         1     100000      65536"),
		status: Error,
		about:  "capabilities", say: []string{"user namespace"}},
	{name: "no new privileges",
		spoil: without(noNetAdmin, allOfThem, func(_ *Machine, files map[string]string, _ map[string]*Device) {
			files["/proc/self/status"] += "NoNewPrivs:\t1\n"
		}), status: Error, about: "capabilities", say: []string{"lacks cap_net_admin", "no_new_privs"}},
	{name: "a capability is missing", spoil: without(noNetAdmin, allOfThem, nil), status: Error, about: "capabilities",
		say: []string{"lacks cap_net_admin", "root"}, fix: setcap},
	{name: "a capability can't be had", spoil: without(noNetAdmin, noNetAdmin, nil), status: Error,
		about: "capabilities",
		say:   []string{"bounding set lacks CAP_NET_ADMIN", "--cap-add"}},
	{name: "memlock", text: "memory: {buffers: 2048}\n" + lossyPorts,
		spoil:  without(noIPCLock, allOfThem, file("/proc/self/limits", "Max locked memory 65536 8388608 bytes\n")),
		status: Error, about: "memlock", say: []string{"64 KiB may be locked", "2 ports need 8 MiB",
			"LimitMEMLOCK=8388608"}, fix: "ulimit -S -l 8192"},
	{name: "memlock, hard", spoil: without(noIPCLock, allOfThem, nil), status: Error, about: "memlock",
		say: []string{"hard limit of 16 MiB"}, fix: setcap},
	{name: "memlock can't be read", spoil: without(noIPCLock, allOfThem, file("/proc/self/limits", "")),
		status: Warning, about: "memlock",
		say: []string{"can't read"}},
	{name: "little memory in the control group", spoil: file(cgroupDirectory+"/memory.max", "67108864"), status: Error,
		about: "memory",
		say:   []string{"the frames take 64 MiB", "control group / (memory.max) has 64 MiB left of 64 MiB"},
		fix:   "memory: {buffers: 10454}", at: "switch.yaml:2:1"},
	{name: "little time", spoil: file(cgroupDirectory+"/a.slice/b.service/cpu.max", "50000 100000"), status: Warning,
		about: "cpus",
		say:   []string{"the time of 0.5 CPUs", "workers poll on 1"}},
	{name: "little time, version 1", spoil: func(_ *Machine, files map[string]string, _ map[string]*Device) {
		files["/proc/self/cgroup"] = "9:memory:/x\n8:cpu,cpuacct:/x\n0::/"
		files[cgroupDirectory+"/cpu/cpu.cfs_quota_us"], files[cgroupDirectory+"/memory/memory.limit_in_bytes"] =
			"80000", "9223372036854771712"
	}, status: Warning, about: "cpus", say: []string{"the time of 0.8"}},
	{name: "little memory", spoil: file("/proc/meminfo", "MemTotal: 128000 kB\nMemAvailable: 65536 kB"), status: Error,
		about: "memory",
		say:   []string{"the frames take 64 MiB", "this machine has 64 MiB left of 125 MiB"},
		fix:   "memory: {buffers: 10454}", at: "switch.yaml:2:1"},
	{name: "little memory for hugepages", text: "memory: {buffers: 4194304, buffer_size: 8192B}\n" + lossyPorts,
		status: Error, about: "hugepages",
		say: []string{"need 16384 hugepages", "only 7.6 GiB are available"}, fix: "buffers: 500000",
		at: "switch.yaml:1:19"},
	{name: "a kernel without hugepages", text: "memory: {buffers: 4096, buffer_size: 8192B}\n" + lossyPorts,
		spoil: func(_ *Machine, files map[string]string, _ map[string]*Device) {
			delete(files, hugepageDirectory+"nr_hugepages")
		},
		status: Error, about: "hugepages", say: []string{"the kernel has none"}, fix: "buffer_size: 4096B",
		at: "switch.yaml:1:38"},
	{name: "no hugepages", text: "memory: {buffers: 4096, buffer_size: 8192B}\n" + lossyPorts, status: Error,
		about: "hugepages",
		say:   []string{"8192 bytes are larger than a page and need 16", "0 are free"}, fix: "echo 16 > " +
			hugepageDirectory + "nr_hugepages"},
	{name: "hugepages reserved", text: "memory: {buffers: 4096, buffer_size: 8192B}\n" + lossyPorts,
		spoil: func(_ *Machine, files map[string]string, _ map[string]*Device) {
			files[hugepageDirectory+"nr_hugepages"], files[hugepageDirectory+"free_hugepages"] = "20", "20"
			files[hugepageDirectory+"resv_hugepages"] = "14"
		}, status: Error, about: "hugepages", fix: "echo 30 > " + hugepageDirectory + "nr_hugepages"},
	{name: "hugepages in use", text: "memory: {buffers: 4096, buffer_size: 8192B}\n" + lossyPorts,
		spoil: func(_ *Machine, files map[string]string, _ map[string]*Device) {
			files[hugepageDirectory+"nr_hugepages"], files[hugepageDirectory+"free_hugepages"] = "20", "6"
		}, status: Error, about: "hugepages", fix: "echo 30 > " + hugepageDirectory + "nr_hugepages"},
	{name: "no large buffers", text: "memory: {buffers: 4096, buffer_size: 8192B}\n" + lossyPorts,
		spoil: func(m *Machine, files map[string]string, _ map[string]*Device) {
			files[hugepageDirectory+"nr_hugepages"], files[hugepageDirectory+"free_hugepages"] = "20", "16"
			m.Buffer = func(int) error { return unix.EINVAL }
		}, status: Error, about: "hugepages", fix: "buffer_size: 4096B", at: "switch.yaml:1:38"},
	{name: "state directory", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Write = func(string) error { return unix.EACCES }
	}, status: Error, about: afxdp.RunDirectory, say: []string{"permission denied"},
		fix: "install -d -o 0 " + afxdp.RunDirectory + " && install -d -o 0 -m 700 " + afxdp.StateDirectory},
	{name: "directory of the socket", text: "control: {socket: /run/$HOME/socket}\n" + twoPorts,
		spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
			m.Write = func(directory string) error {
				if strings.HasPrefix(directory, afxdp.RunDirectory) {
					return nil
				}
				return unix.ENOENT
			}
		}, status: Error, about: "control", say: []string{"/run/$HOME/socket"}, fix: "install -d -o 0 '/run/$HOME'"},
	{name: "a directory of somebody else's", text: "control: {socket: /etc/socket}\n" + twoPorts,
		spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
			m.Write = func(directory string) error {
				if strings.HasPrefix(directory, afxdp.RunDirectory) {
					return nil
				}
				return unix.EACCES
			}
		}, status: Error, about: "control", say: []string{"permission denied"}, fix: "socket: /run/sluice/sluice.sock",
		at: "switch.yaml:1:19"},
	{name: "slow clock", spoil: file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"),
		status: Warning, about: "clock",
		say: []string{"hpet", "tsc is faster"},
		fix: "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"},
	{name: "governor", spoil: file(cpuDirectory+"cpu3/cpufreq/scaling_governor", "powersave"), status: Warning,
		about: "cpu 3",
		say:   []string{"powersave"}, fix: "echo performance > " + cpuDirectory + "cpu3/cpufreq/scaling_governor"},
	{name: "not isolated", spoil: file(cpuDirectory+"isolated", ""), status: Warning, about: "cpu 3",
		say: []string{"isolcpus=3 to"}},
	{name: "timer ticks", spoil: file(cpuDirectory+"nohz_full", "0-2"), status: Warning, about: "cpu 3",
		say: []string{"add nohz_full=3 to"}},
	{name: "no CPU left", text: "workers: [0, 1, 2, 3]\nports: [{device: port1, speed: 1G}, {device: port2, speed: " +
		"1G}, {device: port1a, speed: 1G}, {device: port2a, speed: 1G}]",
		status: Warning, about: "cpus", say: []string{"all 4"}},
	{name: "no such CPU", text: strings.Replace(twoPorts, "[3]", "[7]", 1), status: Error, about: "cpu 7",
		say: []string{"only CPUs 0-3"}, at: "switch.yaml:2:10"},
	{name: "a CPU for others", text: strings.Replace(twoPorts, "[3]", "[7]", 1),
		spoil: file(cpuDirectory+"online", "0-7"), status: Error,
		about: "cpu 7", fix: "taskset -p -c 0-7 $$"},
}

const lossyPorts = "workers: [3]\nports: [{device: port1, speed: 10G}, {device: port2, speed: 10G}]\n"

// jumbo is twoPorts with buffers for an MTU of more than 1646.
const jumbo = twoPorts + "memory: {buffer_size: 4096B}\n"

var deviceAilments = []ailment{
	{name: "no device", text: strings.Replace(twoPorts, "port2", "nowhere", 1),
		status: Error, about: "nowhere", say: []string{"no such device", "ip link"}, at: "switch.yaml:5:14"},
	{name: "unfit",
		spoil:  device(func(d *Device) { d.Unfit = &afxdp.Unfit{Why: "port2 is odd", Instead: "use port3"} }),
		status: Error, about: "port2", say: []string{"can't be a port: port2 is odd: use port3"},
		at: "switch.yaml:5:14"},
	{name: "down", spoil: device(func(d *Device) { d.Up = false }), status: Error, about: "port2",
		fix: "ip link set dev port2 up"},
	{name: "no carrier", spoil: device(func(d *Device) { d.Carrier = false }), status: Warning, about: "port2",
		say: []string{"carrier"}},
	{name: "slower than configured", spoil: device(func(d *Device) { d.Speed = 25e8 }),
		status: Warning, about: "port2", say: []string{"2.5G", "10G", "sends at the rate of its link"},
		fix: "speed: 2.5G", at: "switch.yaml:5:28"},
	{name: "a link of another rate than the file says", text: strings.Replace(twoPorts, "port2, speed: 10G",
		"port2, speed: 1G, link_speed: 2.5G", 1),
		status: Warning, about: "port2", say: []string{"runs at 10G", "link_speed says 2.5G"}, fix: "link_speed: 10G",
		at: "switch.yaml:5:44"},
	{name: "a nominal rate that link_speed overrules", text: strings.Replace(twoPorts, "port2, speed: 10G",
		"port2, speed: 1G, link_speed: 2.5G", 1),
		spoil:  device(func(d *Device) { d.Driver, d.Speed, d.Nominal = "vmxnet3", 100e9, true }),
		status: OK, about: "port2",
		say: []string{"link_speed of 2.5G", "100G that the driver vmxnet3 reports is nominal", "sends at 1G"}},
	{name: "a nominal rate, and no link_speed",
		spoil:  device(func(d *Device) { d.Driver, d.Speed, d.Nominal = "vmxnet3", 25e8, true }),
		status: Warning, about: "port2", say: []string{"its link runs at 2.5G, less than the speed of 10G"},
		fix: "speed: 2.5G", at: "switch.yaml:5:28"},
	{name: "a link that headroom is too small for", text: strings.NewReplacer("true}", "true, headroom: 6MB}", "10G",
		"1G").Replace(twoPorts),
		status: Error, about: "links", say: []string{"may fill at 10G", "does not fit the rates of the links"},
		fix: "raise it to 32831488B or more, leave it out, so that each port " +
			"gets what it needs, or lower the port's response or in_flight", at: "switch.yaml:7:42"},
	{name: "a link with pauses too short", text: strings.Replace(twoPorts, "port2,", "port2, response: 1ms,", 1),
		spoil:  device(func(d *Device) { d.Speed = 100e9 }),
		status: Error, about: "links", say: []string{"port2 can't keep its peer paused", "100G"},
		fix: "lower response to 235us or less, if `sluice doctor` measures no more, or " +
			"in_flight", at: "switch.yaml:5:31"},
	{name: "no XDP in the driver", spoil: device(func(d *Device) { d.XDP = 0 }), status: Warning, about: "port2",
		say: []string{"no XDP"}},
	{name: "no zero-copy, demanded", text: strings.Replace(twoPorts, "port2, ", "port2, mode: zero-copy, ", 1),
		spoil:  device(func(d *Device) { d.XDP = netdev.Basic | netdev.Redirect }),
		status: Error, about: "port2", say: []string{"no zero-copy", "requires"}, fix: "mode: auto",
		at: "switch.yaml:5:27"},
	{name: "an MTU for no native XDP", text: jumbo, spoil: device(igc(1600)),
		status: Warning, about: "port2", say: []string{"only up to an MTU of 1500", "it is 1600", "copy, generic"},
		fix: "ip link set dev port2 mtu 1500"},
	{name: "an MTU for no native XDP, demanded",
		text:  strings.Replace(jumbo, "port2, ", "port2, mtu: 1600, mode: zero-copy, ", 1),
		spoil: device(igc(1600)), status: Error, about: "port2",
		say: []string{"only up to an MTU of 1500", "requires zero-copy"}, fix: "mode: auto", at: "switch.yaml:5:38"},
	{name: "an MTU that the kernel may refuse in zero-copy", spoil: device(func(d *Device) { d.MTU = 1639 }),
		status: Warning, about: "port2", say: []string{"kernels from 6.12 on", "MTU of 1638", "it is 1639"},
		fix: "ip link set dev port2 mtu 1638"},
	{name: "an MTU that the kernel may refuse in zero-copy, and that the port needs",
		text:  strings.Replace(twoPorts, "port2, ", "port2, mtu: 1639, ", 1),
		spoil: device(func(d *Device) { d.MTU = 1639 }), status: Warning, about: "port2",
		say: []string{"kernels from 6.12 on"}, fix: "memory: {buffer_size: 4096B}", at: "switch.yaml:2:1"},
	{name: "more queue pairs than CPUs", spoil: func(_ *Machine, files map[string]string, devices map[string]*Device) {
		files[cpuDirectory+"possible"], devices["port2"].Driver, devices["port2"].MostQueues = "0-3", "virtio_net", 5
	}, status: Warning, about: "port2", say: []string{"5 queue pairs", "each of the 4 CPUs", "QEMU: queues=4",
		"copy, generic"}},
	{name: "as many queue pairs as CPUs", spoil: func(_ *Machine, files map[string]string, devices map[string]*Device) {
		files[cpuDirectory+"possible"], devices["port2"].Driver, devices["port2"].MostQueues = "0-3", "virtio_net", 4
	}, status: OK, about: "port2", say: []string{"zero-copy"}},
	{name: "redirected frames lost", spoil: device(func(d *Device) { d.Driver, d.XDP = "ixgbevf", netdev.Basic }),
		status: Warning, about: "port2", say: []string{"loses redirected frames", "copy, generic"}},
	{name: "redirected frames lost outside zero-copy", spoil: device(func(d *Device) { d.Driver = "nfp" }),
		status: Warning, about: "port2", say: []string{"outside zero-copy mode", "try mode: zero-copy"}},
	{name: "redirected frames lost, but zero-copy demanded",
		text:   strings.Replace(twoPorts, "port2, ", "port2, mode: zero-copy, ", 1),
		spoil:  device(func(d *Device) { d.Driver, d.MTU = "ixgbevf", 1006; d.XDP = netdev.Basic }),
		status: Error, about: "port2", say: []string{"loses redirected frames", "requires zero-copy"},
		fix: "mode: auto", at: "switch.yaml:5:27"},
	{name: "pauses dropped", spoil: device(func(d *Device) { d.Driver = "ice" }), status: Error, about: "port2",
		say: []string{"drops the PFC and PAUSE frames", "another NIC", "let no lossless class arrive here"}},
	{name: "pauses dropped, but none sent", text: strings.Replace(twoPorts, "port2, ", "port2, flow_control: off, ", 1),
		spoil: device(func(d *Device) { d.Driver = "ice" }), status: OK, about: "port2",
		say: []string{"PAUSE and PFC of its hardware are off"}},
	{name: "pauses dropped, but nothing lossless", text: lossyPorts,
		spoil: device(func(d *Device) { d.Driver = "ice" }), status: OK, about: "port2",
		say: []string{"PAUSE and PFC of its hardware are off"}},
	{name: "queues that no command changes", spoil: device(func(d *Device) {
		d.Driver, d.XDP, d.Queues, d.OneQueue = "vmxnet3", netdev.Basic|netdev.Redirect, 2, "combined 1"
	}), status: Error, about: "port2", say: []string{"1 of 2 receive queues", "one CPU"}},
	{name: "frames split in zero-copy", spoil: device(splitting), status: Warning, about: "port2",
		say: []string{"igc", "fills only 1024 bytes of a buffer of 2048", "MTU is 1500", "copies each frame"},
		fix: "memory: {buffer_size: 4096B}",
		at:  "switch.yaml:2:1"},
	{name: "frames split in zero-copy, demanded",
		text:  strings.Replace(twoPorts, "port2, ", "port2, mode: zero-copy, ", 1),
		spoil: device(splitting), status: Error, about: "port2", say: []string{"too small for zero-copy"},
		fix: "memory: {buffer_size: 4096B}", at: "switch.yaml:2:1"},
	{name: "frames damaged in zero-copy, demanded",
		text: strings.Replace(twoPorts, "port2, ", "port2, mode: zero-copy, ", 1) +
			"memory: {buffer_size: 4096B}\n",
		spoil: device(replaying), status: OK, about: "port2", say: []string{"igb", "zero-copy"}},
	{name: "frames damaged in zero-copy, for lack of buffers", ring: 256,
		text: strings.Replace(twoPorts, "port2, ", "port2, mode: zero-copy, ", 1) +
			"memory: {buffer_size: 4096B}\n",
		spoil: device(replaying), status: Error, about: "port2", say: []string{"runs short", "256 buffers are too few"},
		fix: "mode: auto", at: "switch.yaml:5:27"},
	{name: "frames damaged in zero-copy, avoided", spoil: device(replaying), status: OK, about: "port2",
		say: []string{"igb", "copies each frame", "runs short of buffers"}},
	{name: "no indirect descriptors", spoil: device(direct), status: Warning, about: "port2",
		say: []string{"virtio_net", "copies each frame", "without indirect descriptors", "indirect_desc=on"}},
	{name: "no indirect descriptors, zero-copy demanded",
		text:  strings.Replace(twoPorts, "port2, ", "port2, mode: zero-copy, ", 1),
		spoil: device(direct), status: Error, about: "port2", say: []string{"loses frames", "indirect_desc=on"},
		fix: "mode: auto", at: "switch.yaml:5:27"},
	{name: "an unknown driver in zero-copy", spoil: device(func(d *Device) {
		d.Kind, d.Driver, d.XDP = "device", "new", d.XDP|netdev.ZeroCopy
	}), status: Warning, about: "port2", say: []string{"not known whether the driver new fills more than 1024"},
		fix: "memory: {buffer_size: 4096B}", at: "switch.yaml:2:1"},
	{name: "no buffers large enough for zero-copy, demanded",
		text: strings.Replace(twoPorts, "port2, ", "port2, mode: zero-copy, mtu: 3400, ", 1) +
			"memory: {buffer_size: 4096B}\n",
		spoil: device(func(d *Device) { d.Driver, d.MTU = "new", 3400 }), status: Error, about: "port2",
		say: []string{"too small for zero-copy"}, fix: "mode: auto", at: "switch.yaml:5:27"},
	{name: "MTU too small", spoil: device(func(d *Device) { d.MTU = 1400 }),
		status: Error, about: "port2", fix: "ip link set dev port2 mtu 1500"},
	{name: "MTU too small for S-tags", text: strings.Replace(twoPorts, "port2, ", "port2, s_tag: pcp, ", 1),
		spoil:  device(func(d *Device) { d.MTU = 1503 }),
		status: Error, about: "port2", say: []string{"1503", "1500 plus 4 bytes for an S-tag"},
		fix: "ip link set dev port2 mtu 1504"},
	{name: "MTU for S-tags", text: strings.Replace(twoPorts, "port2, ", "port2, s_tag: pcp, ", 1),
		spoil:  device(func(d *Device) { d.MTU = 1504 }),
		status: OK, about: "port2", say: []string{"MTU 1504"}},
	{name: "MTU too large", spoil: device(func(d *Device) { d.MTU = 30000 }),
		status: Error, about: "port2", fix: "ip link set dev port2 mtu 29934"},
	{name: "MTU too large for one buffer, on an old kernel", spoil: both(device(func(d *Device) { d.MTU = 9000 }),
		file("/proc/sys/kernel/osrelease", "6.1.176")), status: Error, about: "port2",
		say: []string{"9000", "more than the 1646", "older than 6.6"}, fix: "ip link set dev port2 mtu 1646"},
	{name: "MTU for several buffers", spoil: device(func(d *Device) { d.Driver, d.MTU, d.Segments = "ice", 9000, 8 }),
		text: jumbo, status: OK, about: "port2",
		say: []string{"MTU 9000", "of 4096 bytes holds frames up to an MTU of 3694", "up to 3 buffers"}},
	{name: "MTU for several segments", spoil: device(func(d *Device) { d.Driver, d.MTU, d.Segments = "ice", 9000, 8 }),
		text: jumbo, status: OK, about: "port2", say: []string{"ice", "zero-copy"}},
	{name: "long frames in several segments", text: strings.Replace(jumbo, "port2, ", "port2, mtu: 9000, ", 1),
		spoil:  device(func(d *Device) { d.Driver, d.MTU, d.Segments = "ice", 9000, 8 }),
		status: OK, about: "port2", say: []string{"ice", "zero-copy"}},
	{name: "frames split that cost one cell",
		text:   strings.Replace(lossyPorts, "port2, ", "port2, mtu: 3600, ", 1) + "memory: {buffer_size: 4096B}\n",
		spoil:  device(func(d *Device) { d.Driver, d.MTU, d.Segments = "ice", 9000, 8 }),
		status: Warning, about: "port2", say: []string{"copies each frame", "more than 3328 bytes are split"},
		fix: "ip link set dev port2 mtu 3686"},
	{name: "frames split that cost one cell, demanded",
		text:   strings.Replace(jumbo, "port2, ", "port2, mtu: 3600, mode: zero-copy, ", 1),
		spoil:  device(func(d *Device) { d.Driver, d.MTU, d.Segments = "ice", 9000, 8 }),
		status: Error, about: "port2", say: []string{"more than 3328 bytes are split"},
		fix: "ip link set dev port2 mtu 3686"},
	{name: "frames split that cost one cell, of an MTU that kernels refuse for whole frames",
		text:   strings.Replace(lossyPorts, "port2, ", "port2, mtu: 3687, ", 1) + "memory: {buffer_size: 4096B}\n",
		spoil:  device(func(d *Device) { d.Driver, d.MTU, d.Segments = "ice", 9000, 8 }),
		status: Warning, about: "port2", say: []string{"copies each frame", "more than 3328 bytes are split"},
		fix: "cell: 3328B", at: "switch.yaml:3:9"},
	{name: "MTU too small for long frames", text: strings.Replace(jumbo, "port2, ", "port2, mtu: 9216, ", 1),
		status: Error, about: "port2", fix: "ip link set dev port2 mtu 9216"},
	{name: "long frames for a driver without fragments",
		text:  strings.Replace(jumbo, "port2, ", "port2, mtu: 9000, ", 1),
		spoil: device(igc(9000)), status: Warning, about: "port2",
		say: []string{"only up to an MTU of 1500", "it is 9000", "copy, generic"}},
	{name: "MTU for too few segments", spoil: device(func(d *Device) { d.MTU = 9000 }), text: jumbo,
		status: Warning, about: "port2",
		say: []string{"copies each frame", "MTU is 9000", "needs 3 buffers", "in 1 at most", "largest MTU is 3694"},
		fix: "ip link set dev port2 mtu 1500"},
	{name: "MTU for too few segments, demanded", spoil: device(func(d *Device) { d.MTU = 9000 }),
		text:   strings.Replace(jumbo, "port2, ", "port2, mode: zero-copy, ", 1),
		status: Error, about: "port2", say: []string{"MTU is 9000", "in 1 at most"},
		fix: "ip link set dev port2 mtu 1500"},
	{name: "MTU that its peer limits", spoil: device(func(d *Device) {
		d.Kind, d.Driver, d.MTU, d.LargestMTU, d.XDP = "veth", "veth", 1400, 1450, d.XDP&^netdev.ZeroCopy
	}), status: Error, about: "port2", say: []string{"raised to 1450 only", "its peer", "HAS_FRAGS"},
		fix: "mtu: 1450", at: "switch.yaml:5:5"},
	{name: "small ring", spoil: device(func(d *Device) { d.RX.Size = 256 }),
		status: Warning, about: "port2", say: []string{"256", "8160"}, fix: "ethtool -G port2 rx 8160"},
	{name: "tags stripped", spoil: device(func(d *Device) { d.Offloads = []Offload{{afxdp.StripsTags, true}} }),
		status: Error, about: "port2", say: []string{"priorities"}},
	{name: "offload fixed",
		spoil:  device(func(d *Device) { d.Offloads = []Offload{{"rx-gro", true}, {"rx-lro", false}} }),
		status: Warning, about: "port2", say: []string{": rx-gro"}},
	{name: "foreign program on a link", spoil: device(func(d *Device) {
		d.Program = &Program{ID: 7, Name: "theirs", Mode: "native", Link: 12, Holder: 99, Of: "their"}
	}), status: Error, about: "port2", say: []string{`XDP program 7 "theirs", native, of process 99 (their)`,
		"does not belong to Sluice"}, fix: "bpftool link detach id 12"},
	{name: "in a bridge", spoil: device(func(d *Device) { d.Master = "br0" }), status: Warning, about: "port2",
		say: []string{"belongs to br0"},
		fix: "ip link set dev port2 nomaster"},
	{name: "with addresses", spoil: device(func(d *Device) { d.Uses = []string{"192.0.2.1/24"} }), status: Warning,
		about: "port2", say: []string{"192.0.2.1/24"}},
	{name: "nobody's queues", spoil: device(func(d *Device) { d.Queues = 16 }), status: Error, about: "port2",
		say: []string{"can't be changed"}},
	{name: "metrics taken", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Listen = func(string) error { return unix.EADDRINUSE }
	}, status: Error, about: "metrics", say: []string{"address already in use"}, at: "switch.yaml:2:1"},
	{name: "a program that can't be looked at",
		spoil:  device(func(d *Device) { d.Program = &Program{ID: 7, Mode: "native", Hidden: true} }),
		status: Error, about: "port2", say: []string{"as root"}},
	{name: "a name that means something to shells", text: strings.Replace(twoPorts, "port2", `"$a;b'c"`, 1),
		spoil: func(_ *Machine, _ map[string]string, devices map[string]*Device) {
			d := *devices["port2"]
			d.Up = false
			devices["$a;b'c"] = &d
		}, status: Error, about: "$a;b'c", fix: `ip link set dev '$a;b'\''c' up`},
	{name: "foreign program", spoil: device(func(d *Device) { d.Program = &Program{ID: 7, Mode: "generic"} }),
		status: Error, about: "port2", fix: "ip link set dev port2 xdpgeneric off"},
	{name: "another sluice", spoil: device(func(d *Device) {
		d.Program = &Program{ID: 7, Name: afxdp.ProgramName, Mode: "native", Link: 12, Holder: 99, Of: "sluice"}
	}), status: Error, about: "port2", say: []string{"another program of Sluice"}, fix: "kill 99"},
	{name: "PAUSE in hardware", spoil: device(func(d *Device) { d.Pause.RX = true }),
		status: OK, about: "port2", say: []string{"receives: true, sends: false", "turns it off"}},
	{name: "PAUSE in hardware, and no flow control", text: strings.Replace(twoPorts, "port2, ",
		"port2, flow_control: off, ", 1),
		spoil:  device(func(d *Device) { d.Pause.TX = true }),
		status: Warning, about: "port2", say: []string{"receives: false, sends: true", "no flow control"},
		fix: "ethtool -A port2 autoneg off rx off tx off"},
	{name: "PAUSE in hardware, and nothing lossless", text: lossyPorts,
		spoil:  device(func(d *Device) { d.Pause.RX = true }),
		status: Warning, about: "port2", say: []string{"no lossless class", "does not change the setting"},
		fix: "ethtool -A port2 autoneg off rx off tx off"},
	{name: "PAUSE in hardware, and nothing lossless but for peers", text: "pfc: {asymmetric: true}\n" + lossyPorts,
		spoil: device(func(d *Device) { d.Pause.RX = true }), status: OK, about: "port2",
		say: []string{"turns it off"}},
	{name: "PFC in hardware", spoil: device(func(d *Device) { d.DCB.PFC = 1 << 3 }),
		status: Warning, about: "port2", say: []string{"PFC priorities: 3"},
		fix: "dcb pfc set dev port2 prio-pfc all:off"},
	{name: "PFC in hardware, of the firmware's agent", text: strings.Replace(twoPorts, "port2, ",
		"port2, flow_control: off, ", 1),
		spoil:  device(func(d *Device) { d.Driver, d.DCB.PFC = "i40e", 1<<3 }),
		status: Warning, about: "port2", say: []string{"PFC priorities: 3"},
		fix: "ethtool --set-priv-flags port2 disable-fw-lldp on && dcb pfc set dev port2 prio-pfc all:off"},
	{name: "PAUSE in hardware that keeps its negotiation", text: lossyPorts,
		spoil:  device(func(d *Device) { d.Driver, d.Pause.RX = "ice", true }),
		status: Warning, about: "port2", say: []string{"no lossless class"},
		fix: "ethtool -A port2 rx off tx off"},
	{name: "loopback down", spoil: func(_ *Machine, _ map[string]string, devices map[string]*Device) {
		devices["lo"] =
			&Device{}
	},
		status: Warning, about: "metrics", say: []string{"127.0.0.1:9473"}, fix: "ip link set dev lo up"},
	{name: "too little headroom", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Gap = func(int) (time.Duration, error) { return 1300 * time.Microsecond, nil }
	}, status: Error, about: "port2", say: []string{"class cos3 has", "1.3ms", "just measured"},
		fix: "response: 2.367ms", at: "switch.yaml:5:5"},
	{name: "too little headroom, and little time", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Gap = func(int) (time.Duration, error) { return 2100 * time.Microsecond, nil }
	}, status: Error, about: "port2", say: []string{"class cos3 has", "2.1ms"}, fix: "response: 2.367ms",
		at: "switch.yaml:5:5"},
	{name: "a gap that pauses are too short for", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Gap = func(int) (time.Duration, error) { return 3300 * time.Microsecond, nil }
	}, status: Error, about: "port2", say: []string{"class cos3 has", "A longer response does not help"}},
	{name: "too little headroom for a short gap", text: strings.Replace(twoPorts, "port2,", "port2, response: 10us,",
		1), status: Error, about: "port2",
		say: []string{"100µs"}, fix: "response: 200us", at: "switch.yaml:5:31"},
	{name: "a receive ring that a gap fills", ring: 4096, spoil: func(m *Machine, _ map[string]string,
		_ map[string]*Device) {
		m.Gap = func(int) (time.Duration, error) { return 200 * time.Microsecond, nil }
	}, status: Warning, about: "port2", say: []string{"4096 frames", "198µs", "200µs", "may be lost"}},
	{name: "a pause runs out", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Gap = func(int) (time.Duration, error) { return 2 * time.Millisecond, nil }
	}, text: strings.Replace(twoPorts, "true}", "true, headroom: 100MB}", 1), status: Warning, about: "port2",
		say: []string{"runs out"}, fix: "pfc: {refresh: 16383}", at: "switch.yaml:2:1"},
	{name: "a pause runs out that could be repeated sooner", spoil: func(m *Machine, _ map[string]string,
		_ map[string]*Device) {
		m.Gap = func(int) (time.Duration, error) { return 2300 * time.Microsecond, nil }
	}, text: "pfc: {refresh: 30000, asymmetric: true}\n" + strings.Replace(twoPorts, "true}", "true, headroom: 100MB}",
		1), status: Warning, about: "port2",
		say: []string{"runs out"}, fix: "refresh: 16383", at: "switch.yaml:1:16"},
	{name: "a pause runs out unless it is repeated too often", spoil: func(m *Machine, _ map[string]string,
		_ map[string]*Device) {
		m.Gap = func(int) (time.Duration, error) { return 3 * time.Millisecond, nil }
	}, text: "pfc: {quanta: 65000}\n" + strings.Replace(twoPorts, "true}", "true, headroom: 100MB}", 1),
		status: Warning, about: "port2",
		say: []string{"runs out", "No configuration helps"}},
	{name: "a pause runs out, and none is longer", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Gap = func(int) (time.Duration, error) { return 4 * time.Millisecond, nil }
	}, text: strings.Replace(twoPorts, "true}", "true, headroom: 200MB}", 1), status: Warning, about: "port2",
		say: []string{"runs out", "shorter"}},
	{name: "a pause runs out that could be longer", text: "pfc: {quanta: 1000}\n" +
		strings.NewReplacer("true}", "true, headroom: 200MB}", "10G}", "10G, response: 0s, in_flight: 2KB}").Replace(
			twoPorts),
		status: Warning, about: "port2", say: []string{"runs out"}, fix: "quanta: 65535", at: "switch.yaml:1:15"},
}

var runningAilments = []ailment{
	{name: "elsewhere", run: func(*Running) {}, spoil: func(_ *Machine, _ map[string]string,
		devices map[string]*Device) {
		delete(devices, "port2")
	},
		status: Warning, about: "port2", say: []string{"in another network namespace", "ip netns exec"}},
	{name: "lossless drops", run: func(r *Running) { r.LosslessDrops = 3 },
		status: Error, about: "switch", say: []string{"3 frames"},
		fix: "sluice show drops --nonzero --socket /run/s.sock"},
	{name: "a control loop that stands still", run: func(r *Running) { r.StalledNS = 7e9 },
		status: Error, about: "switch", say: []string{"has not run for 7s", "links", "commands"}},
	{name: "no PFC heard", run: func(r *Running) { r.Ports[1].PFC.Received = 0 },
		status: Warning, about: "port2", say: []string{"no PFC frame", "--inject"}},
	{name: "a DCBX mismatch", run: func(r *Running) {
		r.Ports[1].DCBX = &state.DCBX{Mismatches: []state.Mismatch{{Kind: "ets"},
			{Kind: "pfc", Active: true, Text: "this port has 3, the peer 4"}}}
	}, status: Warning, about: "port2", say: []string{"DCBX mismatch pfc: this port has 3, the peer 4"}},
	{name: "a loop", run: func(r *Running) { r.Ports[1].Loop = true },
		status: Warning, about: "port2", say: []string{"part of a loop", "sluice port open port2"}},
	{name: "a rogue FCF", run: func(r *Running) {
		r.FCoE = &state.FCoE{}
		r.Ports[1].FCoE = &state.PortFCoE{Role: "enode", Refusals: []state.FCoERefusal{{Reason: "rogue_fcf",
			Serious: true, Last: &state.FCoERefusedFrame{AgoNS: 12e9, VLAN: 2094, Source: "00:1b:21:d9:d5:72",
				Text: "advertisement"}}}}
	}, status: Warning, about: "port2", say: []string{"12s ago", "rogue_fcf", "00:1b:21:d9:d5:72", "advertisement"}},
	{name: "an FCoE VLAN without an FCF", run: func(r *Running) {
		r.FCoE = &state.FCoE{Instances: []state.FCoEInstance{{Name: "FSB", VLAN: 2094}}}
	}, status: Warning, about: "switch", say: []string{"VLAN 2094", "no FCF", "no host can log in"}},
	{name: "a worker that can't keep up", run: func(r *Running) { r.Ports[1].Behind = 7 },
		status: Warning, about: "port2", say: []string{"7 iterations", "can't keep up"}},
	{name: "the ring that it was started with", ring: 4096, run: func(r *Running) {
		r.Ports[1].Buffers.Ring,
			r.Workers[0].GapWaitNS = 1024, 70_000
	},
		status: Warning, about: "port2", say: []string{"1024 frames", "70µs", "may be lost"}},
	{name: "a ring that it does not know", ring: 1024, run: func(r *Running) { r.Workers[0].GapWaitNS = 70_000 },
		status: Warning, about: "port2", say: []string{"1024 frames", "70µs", "may be lost"}},
	{name: "copies for a driver that splits frames", run: func(r *Running) { r.Ports[1].Mode = "copy (native)" },
		spoil: device(splitting), status: OK, about: "port2",
		say: []string{"open in mode copy (native)", "fills only 1024"}},
	{name: "copies for a driver that damages frames", run: func(r *Running) { r.Ports[1].Mode = "copy (native)" },
		spoil: device(replaying), status: OK, about: "port2", say: []string{"copy (native)", "runs short of buffers"}},
	{name: "copies without indirect descriptors", run: func(r *Running) { r.Ports[1].Mode = "copy (native)" },
		spoil: device(direct), status: OK, about: "port2", say: []string{"copy (native)", "the device has none"}},
	{name: "buffers given twice", run: func(r *Running) { r.Ports[1].GivenTwice = 9 },
		status: Warning, about: "port2", say: []string{"9 buffers", "mode: copy"}},
	{name: "its gap", run: func(r *Running) { r.Workers[0].GapWaitNS = 1_500_000 },
		status: Error, about: "port1", say: []string{"1.5ms (since the start)"}, fix: "response: 2.367ms",
		at: "switch.yaml:4:5"},
	{name: "its gap of late", run: func(r *Running) {
		r.Workers[0].GapWaitNS, r.Workers[0].GapRecentNS = 5_000_000, 1_500_000
	}, status: Error, about: "port1", say: []string{"1.5ms (in the last ten minutes)"}, fix: "response: 2.367ms",
		at: "switch.yaml:4:5"},
	{name: "a hiccup long ago", run: func(r *Running) {
		r.Workers[0].GapWaitNS, r.Workers[0].GapRecentNS = 5_000_000, 100_000
	}, status: OK, about: "cpu 3", say: []string{"100µs in the last ten minutes",
		"5ms since the start of the switch"}},
	{name: "the gap of another worker", run: func(r *Running) {
		r.Workers = append(r.Workers, state.Worker{CPU: 2, GapWaitNS: 1_500_000})
		r.Ports[1].Worker = 1
	}, spoil: file(cpuDirectory+"isolated", "2-3"), status: Error, about: "port2",
		say: []string{"1.5ms (since the start)"}, fix: "response: 2.367ms", at: "switch.yaml:5:5"},
	{name: "offload turned on", run: missing("offloads", "ethtool -K DEVICE rx-gro off"),
		spoil:  device(func(d *Device) { d.Offloads = []Offload{{"rx-gro", false}, {"rx-lro", true}} }),
		status: Warning, about: "port2", say: []string{"what it means"}, fix: "ethtool -K port2 rx-gro off"},
	{name: "PAUSE turned on", run: missing("pause", "ethtool -A DEVICE autoneg off rx off tx off"),
		spoil:  device(func(d *Device) { d.Pause.RX = true }),
		status: Warning, about: "port2", fix: "ethtool -A port2 autoneg off rx off tx off"},
	{name: "a veth peer without NAPI", run: missing("peer", ""),
		spoil: device(func(d *Device) {
			d.Kind, d.Peer = "veth", &Peer{Device: "eth0", MTU: 1500, Namespace: "/run/netns/a"}
		}),
		status: Warning, about: "port2", fix: "nsenter --net=/run/netns/a ethtool -K eth0 gro on"},
	{name: "frames lost by a device", run: func(r *Running) { r.Ports[1].Driver.TXDropped = 7 },
		status: Warning, about: "switch", say: []string{"lost by devices: 7 frames of any class"},
		fix: "sluice show drops --nonzero --socket /run/s.sock"},
	{name: "queues added", run: func(*Running) {},
		spoil:  device(func(d *Device) { d.Queues, d.OneQueue = 4, "combined 1" }),
		status: Error, about: "port2", fix: "ethtool -L port2 combined 1"},
	{name: "program gone", run: func(*Running) {}, spoil: device(func(d *Device) { d.Program = nil }),
		status: Error, about: "port2", fix: "ip link set dev port2 down && ip link set dev port2 up"},
}

// missing makes the second port of a running switch miss a setting.
func missing(setting, fix string) func(*Running) {
	return func(r *Running) {
		r.Ports[1].Missing = []state.Missing{{Setting: setting, Text: "what it means", Fix: fix}}
	}
}

// runningSwitch returns a switch on a healthy machine.
func runningSwitch(devices map[string]*Device) *Running {
	r := &Running{Socket: "/run/s.sock", Switch: &state.Switch{Workers: []state.Worker{{CPU: 3, GapWaitNS: 100_000}}}}
	for _, name := range []string{"port1", "port2"} {
		r.Ports = append(r.Ports, state.Port{Name: name, Mode: "zero-copy", PFC: state.PFC{Received: 10},
			ByCoS: []state.CoS{{CoS: 3, Lossless: true}}})
		devices[name].Program = &Program{ID: 5, Name: afxdp.ProgramName, Mode: "native", Link: 6, Holder: 1000,
			Of: "sluice"}
	}
	return r
}

// TestAilments examines machines with one problem each. The report must have that problem, its fix,
// and nothing else.
func TestAilments(t *testing.T) {
	groups := map[string][]ailment{
		"machine": machineAilments, "device": deviceAilments, "running": runningAilments,
		"transmitter": transmitterAilments,
	}
	for group, list := range maps.All(groups) {
		for _, a := range list {
			t.Run(group+"/"+a.name, func(t *testing.T) { a.test(t) })
		}
	}
}

// TestNoPFCHeardWhereNoneIsHonoured: without a lossless priority, as with flow_control auto before
// DCBX has agreed on any, missing PFC frames mean nothing.
func TestNoPFCHeardWhereNoneIsHonoured(t *testing.T) {
	m, _, devices := wellMachine()
	running := runningSwitch(devices)
	running.Ports[1].PFC.Received, running.Ports[1].ByCoS[0].Lossless = 0, false
	text := "lldp: {enabled: true}\n" + strings.Replace(twoPorts, "port2, speed: 10G",
		"port2, speed: 10G, flow_control: auto, dcbx: {version: auto}", 1)
	r := Examine(m, Target{Config: parsed(t, text), Running: running})
	if r.Errors+r.Warnings > 0 {
		t.Errorf("%d errors, %d warnings:\n%s", r.Errors, r.Warnings, show(r))
	}
}

func (a *ailment) test(t *testing.T) {
	m, files, devices := wellMachine()
	devices["port1a"], devices["port2a"] = devices["port1"], devices["port2"]
	if a.text == "" {
		a.text = twoPorts
	}
	p := Target{Config: parsed(t, a.text), Ring: a.ring}
	if a.run != nil {
		p.Running = runningSwitch(devices)
		a.run(p.Running)
	}
	if a.spoil != nil {
		a.spoil(&m, files, devices)
	}
	found := false
	r := Examine(m, p)
	for _, f := range r.Findings {
		if f.Subject != a.about || f.Status != a.status || f.Fix != a.fix || f.At != a.at {
			continue
		}
		missing := ""
		for _, words := range a.say {
			if !strings.Contains(f.Text, words) {
				missing = words
			}
		}
		if found = found || missing == ""; missing != "" {
			t.Logf("%q is not in %q", missing, f.Text)
		}
	}
	if !found {
		t.Errorf("not found; this is the report:\n%s", show(r))
	}
	if a.status == Error && r.Errors == 0 || a.status == Warning && r.Errors > 0 {
		t.Errorf("%d errors, %d warnings:\n%s", r.Errors, r.Warnings, show(r))
	}
}

// TestWithoutConfiguration: without a configuration, only the machine is examined, and nothing is
// measured.
func TestWithoutConfiguration(t *testing.T) {
	m, _, _ := wellMachine()
	m.Gap = func(int) (time.Duration, error) { t.Error("a loop was run"); return 0, nil }
	m.Device = func(string) (*Device, error) { t.Error("a device was looked at"); return nil, fs.ErrNotExist }
	if r := Examine(m, Target{}); r.Errors+r.Warnings > 0 {
		t.Error(show(r))
	}
}

// TestSwitchIsNotDisturbed: where a switch runs or may run, no loop is run, and no fix ends a
// switch that does not answer.
func TestSwitchIsNotDisturbed(t *testing.T) {
	for name, change := range map[string]func(*Machine, *Target, map[string]*Device){
		"answers": func(*Machine, *Target, map[string]*Device) {},
		"answers somebody who may not look at programs": func(_ *Machine, _ *Target, devices map[string]*Device) {
			for _, d := range devices {
				d.Program = &Program{ID: 5, Mode: "native", Hidden: true}
			}
		},
		"asked elsewhere": func(_ *Machine, p *Target, _ map[string]*Device) { p.Running = nil },
		"asked elsewhere, by somebody who may not look at programs": func(_ *Machine, p *Target,
			devices map[string]*Device) {
			p.Running, devices["port1"].Program, devices["port2"].Program = nil, &Program{ID: 5, Hidden: true}, nil
		},
		"does not answer": func(_ *Machine, p *Target, _ map[string]*Device) { p.Running, p.Silent = nil, unix.EACCES },
		"has other devices": func(m *Machine, p *Target, devices map[string]*Device) {
			p.Running, devices["port1"].Program, devices["port2"].Program = nil, nil, nil
			m.Poller = func(int) int { return 4711 }
		},
	} {
		m, files, devices := wellMachine()
		files[cgroupDirectory+"/cpu.max"] = "50000 100000" // the doctor's, not that of a running switch
		m.Gap = func(int) (time.Duration, error) { t.Errorf("%s: a loop was run", name); return 0, nil }
		p := Target{Config: parsed(t, twoPorts), Running: runningSwitch(devices)}
		change(&m, &p, devices)
		r := Examine(m, p)
		answers := p.Running != nil
		if all := show(r); answers && r.Errors+r.Warnings > 0 || !answers &&
			!strings.Contains(all, "wait was not measured") ||
			p.Silent != nil && (r.Errors > 0 || strings.Contains(all, "kill")) {
			t.Errorf("%s:\n%s", name, all)
		}
	}
}

// TestOtherMachines examines other healthy machines.
func TestOtherMachines(t *testing.T) {
	const clockFile = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
	for name, change := range map[string]spoiler{
		"a virtual machine":           file(clockFile, "kvm-clock"),
		"an older kernel and no veth": file("/proc/sys/kernel/osrelease", "6.12.3"),
		"no control groups": func(_ *Machine, files map[string]string,
			_ map[string]*Device) {
			delete(files, "/proc/self/cgroup")
		},
		"a container without user namespace": func(_ *Machine, files map[string]string, _ map[string]*Device) {
			files["/proc/self/cgroup"], files[cgroupDirectory+"/cpu.max"],
				files[cgroupDirectory+"/memory.max"] = "0::/", "150000 100000", "max"
		},
	} {
		m, files, devices := wellMachine()
		change(&m, files, devices)
		if r := Examine(m, Target{Config: parsed(t, twoPorts)}); r.Errors+r.Warnings > 0 {
			t.Errorf("%s:\n%s", name, show(r))
		}
	}
}

// TestOnlyCPU: a CPU that runs everything can't be isolated, so that is no advice.
func TestOnlyCPU(t *testing.T) {
	m, files, _ := wellMachine()
	files[cpuDirectory+"online"], files[cpuDirectory+"isolated"], files[cpuDirectory+"nohz_full"] = "0", "", ""
	files["/proc/self/status"] = strings.Replace(files["/proc/self/status"], "0-3", "0", 1)
	files["/proc/cpuinfo"] = "processor\t: 0\nflags\t\t: fpu hypervisor\n"
	all := show(Examine(m, Target{Config: parsed(t, strings.Replace(twoPorts, "[3]", "[0]", 1))}))
	if strings.Contains(all, "isolcpus") || !strings.Contains(all, "use the only CPU") ||
		!strings.Contains(all, "this machine is virtual") {
		t.Error(all)
	}
}

// TestNothingCanBeRead: a machine that reports nothing must not cause a crash.
func TestNothingCanBeRead(t *testing.T) {
	nothing := errors.New("no")
	m := Machine{
		Read: func(string) (string, error) { return "", nothing }, Write: func(string) error { return nothing },
		Socket: func(int) error { return nothing }, Device: func(string) (*Device, error) { return nil, nothing },
		Gap: func(int) (time.Duration, error) { return 0, nothing }, Listen: func(string) error { return nothing },
		Poller: func(int) int { return 0 },
	}
	for _, p := range []Target{{}, {Config: parsed(t, twoPorts)}, {Problem: nothing}} {
		if r := Examine(m, p); r.Errors == 0 {
			t.Errorf("all is well:\n%s", show(r))
		}
	}
}

// TestThisMachine: the functions of a real machine leave nothing behind.
func TestThisMachine(t *testing.T) {
	m := This(nil)
	directory := t.TempDir()
	for path, want := range map[string]error{".": nil, "one": nil, "one/two": unix.ENOENT} {
		if err := m.Write(filepath.Join(directory, path)); !errors.Is(err, want) {
			t.Errorf("%s may be written to: %v, want %v", path, err, want)
		}
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := m.Listen(address); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("%s can be listened on: %v", address, err)
	}
	listener.Close()
	for range 2 {
		if err := m.Listen(address); err != nil {
			t.Error(err)
		}
	}
}

// TestQuoted: a shell expands the quoted text to the original.
func TestQuoted(t *testing.T) {
	for _, text := range []string{"eth0", "eth0.5@x", "", "$HOME", "a;b", "it's", `\`, "`id`", "~", "*", "-x", "a b",
		"é", "'", "!x", "#"} {
		out, err := exec.Command("sh", "-c", "printf %s "+quoted(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q becomes %q by way of %s: %v", text, out, quoted(text), err)
		}
	}
	if got := quoted("enp0s31f6.100"); got != "enp0s31f6.100" {
		t.Errorf("%s is in quotes without need", got)
	}
}

func TestFaultyConfiguration(t *testing.T) {
	_, err := config.Parse("switch.yaml", []byte(strings.Replace(twoPorts, "true}", "true, headroom: 2048B}", 1)))
	m, _, _ := wellMachine()
	r := Examine(m, Target{Problem: err})
	f := r.Findings[0]
	if r.Errors != 1 || f.Status != Error || f.At != "switch.yaml:7:42" || !strings.Contains(f.Fix, "raise it to ") {
		t.Errorf("%+v of\n%s", f, show(r))
	}
}

// TestProcessor: a build for newer processors is suggested if it would run and is not in use.
func TestProcessor(t *testing.T) {
	const newer = "flags\t\t: cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave\n"
	for _, c := range []struct {
		built, cpuinfo string
		named          bool
	}{
		{"amd64 v1", "processor\t: 0\n" + newer, true}, {"amd64 v2", "processor\t: 0\n" + newer, true},
		{"amd64 v3", "processor\t: 0\n" + newer, false}, {"amd64 v4", "processor\t: 0\n" + newer, false},
		{"amd64 v1", "processor\t: 0\nflags\t\t: cx16\n", false}, {"amd64 v1", "", false}, {"arm64", "", false},
	} {
		m, files, _ := wellMachine()
		m.Built, files["/proc/cpuinfo"] = c.built, c.cpuinfo
		report := Examine(m, Target{Config: parsed(t, twoPorts)})
		text := show(report)
		if !strings.Contains(text, "ok processor: the program was built for "+c.built) ||
			strings.Contains(text, "sluice-v3") != c.named {
			t.Errorf("%+v: %s", c, text)
		}
	}
}
