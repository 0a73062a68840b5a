package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/pmd/afxdp"
)

// twoPorts is a configuration with a lossless class, for a machine of wellMachine.
const twoPorts = `
workers: [3]
ports:
  - {device: port1, speed: 10G}
  - {device: port2, speed: 10G}
classes:
  - {cos: [3], lossless: true}
`

// wellMachine returns a machine with nothing wrong: its files, its devices, and the view of both.
func wellMachine() (Machine, map[string]string, map[string]*Device) {
	files := map[string]string{
		"/proc/sys/kernel/osrelease":                   "6.18.1-test",
		"/proc/self/status":                            "Name:\tdoctor\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\nCpus_allowed_list:\t0-3\n",
		"/proc/self/limits":                            "Limit  Soft  Hard  Units\nMax locked memory         8388608              16777216             bytes\n",
		"/proc/meminfo":                                "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n",
		hugepageDirectory + "nr_hugepages":             "0",
		hugepageDirectory + "free_hugepages":           "0",
		cpuDirectory + "isolated":                      "3",
		cpuDirectory + "nohz_full":                     "2-3",
		cpuDirectory + "cpu3/cpufreq/scaling_governor": "performance",
		"/sys/devices/system/clocksource/clocksource0/current_clocksource":   "tsc",
		"/sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm",
	}
	well := Device{
		Kind: "device", Driver: "ice", Up: true, Carrier: true, MTU: 1500, Speed: 10e9, Queues: 1, RX: Ring{2048, 8160}, TX: Ring{2048, 8160},
		XDP: xdpBasic | xdpRedirect | xdpZeroCopy, XDPKnown: true, Pause: &Pause{Negotiated: true}, DCB: &DCB{},
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
		Write:  func(string) error { return nil },
		Socket: func(int) error { return nil },
		Buffer: func(int) error { return nil },
		Device: func(name string) (*Device, error) {
			if d := devices[name]; d != nil {
				return d, nil
			}
			return nil, fs.ErrNotExist
		},
		Gap:     func(int) (time.Duration, error) { return 100 * time.Microsecond, nil },
		Program: "/usr/bin/sluice",
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

// show writes a report as a test's log wants it.
func show(r *Report) string {
	var text strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&text, "%s %s: %s [%s] %s\n", f.Status, f.Subject, f.Text, f.Mend, f.At)
	}
	return text.String()
}

func TestNothingIsWrong(t *testing.T) {
	m, _, _ := wellMachine()
	r := Examine(m, Patient{Config: parsed(t, twoPorts)})
	t.Log(show(r))
	if r.Errors+r.Warnings > 0 {
		t.Errorf("%d errors, %d warnings", r.Errors, r.Warnings)
	}
	for _, f := range r.Findings {
		if f.Mend != "" || f.Text == "" || f.Subject == "" {
			t.Errorf("%+v", f)
		}
	}
}

// spoiler makes something wrong with a machine.
type spoiler func(m *Machine, files map[string]string, devices map[string]*Device)

// ailment is one thing wrong with a machine that is well else.
type ailment struct {
	name   string
	text   string // the configuration; twoPorts unless given
	spoil  spoiler
	run    func(*Running) // a switch runs, if not nil
	status Status
	about  string   // the subject of the finding
	say    []string // in its text
	mend   string
	at     string
}

// without returns what makes /proc/self/status lack capabilities.
func without(effective, bounding string, more spoiler) spoiler {
	return func(m *Machine, files map[string]string, devices map[string]*Device) {
		files["/proc/self/status"] = fmt.Sprintf("CapEff:\t%s\nCapBnd:\t%s\nCpus_allowed_list:\t0-3\n", effective, bounding)
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

const (
	setcap     = "setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep /usr/bin/sluice"
	noIPCLock  = "000001ffffffbfff"
	noNetAdmin = "000001ffffffefff"
	allOfThem  = "000001ffffffffff"
)

var machineAilments = []ailment{
	{name: "old kernel", spoil: file("/proc/sys/kernel/osrelease", "5.10.0-8"),
		status: Warning, about: "kernel", say: []string{"5.10.0-8", "Linux 6"}},
	{name: "kernel before veth pushed back", spoil: file("/proc/sys/kernel/osrelease", "6.12.3"),
		status: Warning, about: "kernel", say: []string{"6.17.10", "veth"}},
	{name: "no AF_XDP", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Socket = func(int) error { return unix.EAFNOSUPPORT }
	}, status: Error, about: "AF_XDP", say: []string{"CONFIG_XDP_SOCKETS"}},
	{name: "a capability is missing", spoil: without(noNetAdmin, allOfThem, nil), status: Error, about: "capabilities",
		say: []string{"lacks cap_net_admin", "root"}, mend: setcap},
	{name: "a capability can't be had", spoil: without(noNetAdmin, noNetAdmin, nil), status: Error, about: "capabilities",
		say: []string{"bounding set lacks CAP_NET_ADMIN", "--cap-add"}},
	{name: "memlock", text: "memory: {buffers: 2048}\n" + lossyPorts,
		spoil:  without(noIPCLock, allOfThem, file("/proc/self/limits", "Max locked memory 65536 8388608 bytes\n")),
		status: Error, about: "memlock", say: []string{"64 KiB may be locked", "2 ports need 8 MiB", "LimitMEMLOCK=8388608"}, mend: "ulimit -S -l 8192"},
	{name: "memlock, hard", spoil: without(noIPCLock, allOfThem, nil), status: Error, about: "memlock",
		say: []string{"hard limit of 16 MiB"}, mend: setcap},
	{name: "little memory", spoil: file("/proc/meminfo", "MemTotal: 64000 kB\nMemAvailable: 32768 kB"), status: Error, about: "memory",
		say: []string{"the frames take 64 MiB"}, mend: "buffers: 8192", at: "switch.yaml:2:1"},
	{name: "no hugepages", text: "memory: {buffers: 4096, buffer_size: 8192B}\n" + lossyPorts, status: Error, about: "hugepages",
		say: []string{"8192 bytes are larger than a page and need 16", "0 are free"}, mend: "echo 16 > " + hugepageDirectory + "nr_hugepages"},
	{name: "hugepages in use", text: "memory: {buffers: 4096, buffer_size: 8192B}\n" + lossyPorts,
		spoil: func(_ *Machine, files map[string]string, _ map[string]*Device) {
			files[hugepageDirectory+"nr_hugepages"], files[hugepageDirectory+"free_hugepages"] = "20", "6"
		}, status: Error, about: "hugepages", mend: "echo 30 > " + hugepageDirectory + "nr_hugepages"},
	{name: "no large buffers", text: "memory: {buffers: 4096, buffer_size: 8192B}\n" + lossyPorts,
		spoil: func(m *Machine, files map[string]string, _ map[string]*Device) {
			files[hugepageDirectory+"nr_hugepages"], files[hugepageDirectory+"free_hugepages"] = "20", "16"
			m.Buffer = func(int) error { return unix.EINVAL }
		}, status: Error, about: "hugepages", mend: "buffer_size: 4096B", at: "switch.yaml:1:38"},
	{name: "state directory", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Write = func(string) error { return unix.EACCES }
	}, status: Error, about: afxdp.StateDirectory, say: []string{"permission denied"}, mend: "install -d -o 0 " + afxdp.StateDirectory},
	{name: "slow clock", spoil: file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"),
		status: Warning, about: "clock",
		say: []string{"hpet", "tsc is quicker"}, mend: "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"},
	{name: "governor", spoil: file(cpuDirectory+"cpu3/cpufreq/scaling_governor", "powersave"), status: Warning, about: "cpu 3",
		say: []string{"powersave"}, mend: "echo performance > " + cpuDirectory + "cpu3/cpufreq/scaling_governor"},
	{name: "not isolated", spoil: file(cpuDirectory+"isolated", ""), status: Warning, about: "cpu 3", say: []string{"isolcpus=3 to"}},
	{name: "timer ticks", spoil: file(cpuDirectory+"nohz_full", "0-2"), status: Warning, about: "cpu 3", say: []string{"add nohz_full=3 to"}},
	{name: "no CPU left", text: "workers: [0, 1, 2, 3]\nports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}, {device: port1a, speed: 1G}, {device: port2a, speed: 1G}]",
		status: Warning, about: "cpus", say: []string{"all 4"}},
	{name: "no such CPU", text: strings.Replace(twoPorts, "[3]", "[7]", 1), status: Error, about: "cpu 7", mend: "taskset -p -c 0-7 $$"},
}

const lossyPorts = "workers: [3]\nports: [{device: port1, speed: 10G}, {device: port2, speed: 10G}]\n"

var deviceAilments = []ailment{
	{name: "no device", text: strings.Replace(twoPorts, "port2", "nowhere", 1),
		status: Error, about: "nowhere", say: []string{"no such device", "ip link"}, at: "switch.yaml:5:14"},
	{name: "down", spoil: device(func(d *Device) { d.Up = false }), status: Error, about: "port2", mend: "ip link set dev port2 up"},
	{name: "no carrier", spoil: device(func(d *Device) { d.Carrier = false }), status: Warning, about: "port2", say: []string{"carrier"}},
	{name: "slower than configured", spoil: device(func(d *Device) { d.Speed = 25e8 }),
		status: Warning, about: "port2", say: []string{"2500M", "10G"},
		mend: "speed: 2500M", at: "switch.yaml:5:28"},
	{name: "no XDP in the driver", spoil: device(func(d *Device) { d.XDP = 0 }), status: Warning, about: "port2", say: []string{"no XDP"}},
	{name: "no zero-copy, demanded", text: strings.Replace(twoPorts, "port2, ", "port2, mode: zero-copy, ", 1),
		spoil:  device(func(d *Device) { d.XDP = xdpBasic | xdpRedirect }),
		status: Error, about: "port2", say: []string{"no zero-copy", "demands"}, mend: "mode: auto", at: "switch.yaml:5:27"},
	{name: "MTU too small", spoil: device(func(d *Device) { d.MTU = 1400 }),
		status: Error, about: "port2", mend: "ip link set dev port2 mtu 1500"},
	{name: "MTU too large", spoil: device(func(d *Device) { d.MTU = 9000 }),
		status: Error, about: "port2", mend: "ip link set dev port2 mtu 1646"},
	{name: "small ring", spoil: device(func(d *Device) { d.RX.Size = 256 }),
		status: Warning, about: "port2", say: []string{"256", "8160"}, mend: "ethtool -G port2 rx 8160"},
	{name: "tags stripped", spoil: device(func(d *Device) { d.Offloads = []Offload{{afxdp.StripsTags, true}} }),
		status: Error, about: "port2", say: []string{"priorities"}},
	{name: "offload fixed", spoil: device(func(d *Device) { d.Offloads = []Offload{{"rx-gro", true}, {"rx-lro", false}} }),
		status: Warning, about: "port2", say: []string{": rx-gro"}},
	{name: "foreign program on a link", spoil: device(func(d *Device) {
		d.Program = &Program{ID: 7, Name: "theirs", Mode: "native", Link: 12, Holder: 99, Of: "their"}
	}), status: Error, about: "port2", say: []string{`XDP program 7 "theirs", native, of process 99 (their)`, "not ours"}, mend: "bpftool link detach id 12"},
	{name: "foreign program", spoil: device(func(d *Device) { d.Program = &Program{ID: 7, Mode: "generic"} }),
		status: Error, about: "port2", mend: "ip link set dev port2 xdpgeneric off"},
	{name: "another sluice", spoil: device(func(d *Device) {
		d.Program = &Program{ID: 7, Name: afxdp.ProgramName, Mode: "native", Link: 12, Holder: 99, Of: "sluice"}
	}), status: Error, about: "port2", say: []string{"another program of Sluice"}, mend: "kill 99"},
	{name: "PAUSE in hardware", spoil: device(func(d *Device) { d.Pause.RX = true }),
		status: Warning, about: "port2", mend: "ethtool -A port2 autoneg off rx off tx off"},
	{name: "PFC in hardware", spoil: device(func(d *Device) { d.DCB.PFC = 1 << 3 }),
		status: Warning, about: "port2", say: []string{"PFC of 3"}, mend: "dcb pfc set dev port2 prio-pfc all:off"},
	{name: "too little headroom", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Gap = func(int) (time.Duration, error) { return 1300 * time.Microsecond, nil }
	}, status: Error, about: "port2", say: []string{"class cos3 keeps", "1.3ms", "just measured"}, mend: "response: 3ms", at: "switch.yaml:5:5"},
	{name: "too little headroom for a short gap", text: strings.Replace(twoPorts, "port2,", "port2, response: 10us,", 1), status: Error, about: "port2",
		say: []string{"100µs"}, mend: "response: 200us", at: "switch.yaml:5:31"},
	{name: "a pause runs out", spoil: func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Gap = func(int) (time.Duration, error) { return 2 * time.Millisecond, nil }
	}, text: strings.Replace(twoPorts, "true}", "true, headroom: 100MB}", 1), status: Warning, about: "port2", say: []string{"runs out"}, mend: "refresh: 16383", at: "switch.yaml:2:1"},
}

var runningAilments = []ailment{
	{name: "lossless drops", run: func(r *Running) { r.LosslessDrops = 3 },
		status: Error, about: "switch", say: []string{"3 frames"}, mend: "sluice show drops --nonzero"},
	{name: "no PFC heard", run: func(r *Running) { r.Ports[1].Heard = 0 },
		status: Warning, about: "port2", say: []string{"no PFC frame", "--inject"}},
	{name: "its gap", run: func(r *Running) { r.Workers[0].WorstGap = 5 * time.Millisecond },
		status: Error, about: "port1", say: []string{"5ms (since the start)"}, mend: "response: 10ms", at: "switch.yaml:4:5"},
	{name: "offload turned on", run: func(*Running) {}, spoil: device(func(d *Device) { d.Offloads = []Offload{{"rx-gro", false}} }),
		status: Warning, about: "port2", say: []string{"rx-gro"},
		mend: "ethtool -K port2 gro off lro off tso off gso off rx off tx off rxvlan off txvlan off"},
	{name: "queues added", run: func(*Running) {}, spoil: device(func(d *Device) { d.Queues = 4 }),
		status: Error, about: "port2", mend: "ethtool -L port2 combined 1"},
	{name: "program gone", run: func(*Running) {}, spoil: device(func(d *Device) { d.Program = nil }),
		status: Error, about: "port2", mend: "ip link set dev port2 down && ip link set dev port2 up"},
}

// runningSwitch is one on a machine that is well.
func runningSwitch(devices map[string]*Device) *Running {
	r := &Running{Workers: []RunningWorker{{CPU: 3, WorstGap: 100 * time.Microsecond}}}
	for _, name := range []string{"port1", "port2"} {
		r.Ports = append(r.Ports, RunningPort{Name: name, Open: true, Mode: "zero-copy", Heard: 10})
		devices[name].Program = &Program{ID: 5, Name: afxdp.ProgramName, Mode: "native", Link: 6, Holder: 1000, Of: "sluice"}
	}
	return r
}

// TestAilments has machines with one thing wrong each. That and nothing else is to be found, with what mends it.
func TestAilments(t *testing.T) {
	groups := map[string][]ailment{"machine": machineAilments, "device": deviceAilments, "running": runningAilments}
	for group, list := range maps.All(groups) {
		for _, a := range list {
			t.Run(group+"/"+a.name, func(t *testing.T) { a.test(t) })
		}
	}
}

func (a *ailment) test(t *testing.T) {
	m, files, devices := wellMachine()
	devices["port1a"], devices["port2a"] = devices["port1"], devices["port2"]
	if a.text == "" {
		a.text = twoPorts
	}
	p := Patient{Config: parsed(t, a.text)}
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
		if f.Subject != a.about || f.Status != a.status || f.Mend != a.mend || f.At != a.at {
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

// TestWithoutConfiguration looks at the machine only, and measures nothing.
func TestWithoutConfiguration(t *testing.T) {
	m, _, _ := wellMachine()
	m.Gap = func(int) (time.Duration, error) { t.Error("a loop was run"); return 0, nil }
	m.Device = func(string) (*Device, error) { t.Error("a device was looked at"); return nil, fs.ErrNotExist }
	if r := Examine(m, Patient{}); r.Errors+r.Warnings > 0 {
		t.Error(show(r))
	}
}

// TestSwitchIsNotDisturbed: where a switch has a device, no loop is run, whether it answers or not.
func TestSwitchIsNotDisturbed(t *testing.T) {
	for _, answers := range []bool{true, false} {
		m, _, devices := wellMachine()
		m.Gap = func(int) (time.Duration, error) { t.Error("a loop was run"); return 0, nil }
		p := Patient{Config: parsed(t, twoPorts), Running: runningSwitch(devices)}
		if !answers {
			p.Running = nil
		}
		r := Examine(m, p)
		if answers && r.Errors+r.Warnings > 0 {
			t.Error(show(r))
		}
	}
}

// TestNothingCanBeRead: a machine that tells nothing is no reason to crash.
func TestNothingCanBeRead(t *testing.T) {
	nothing := errors.New("no")
	m := Machine{
		Read: func(string) (string, error) { return "", nothing }, Write: func(string) error { return nothing },
		Socket: func(int) error { return nothing }, Device: func(string) (*Device, error) { return nil, nothing },
		Gap: func(int) (time.Duration, error) { return 0, nothing },
	}
	for _, p := range []Patient{{}, {Config: parsed(t, twoPorts)}, {Problem: nothing}} {
		if r := Examine(m, p); r.Errors == 0 {
			t.Errorf("all is well:\n%s", show(r))
		}
	}
}

func TestFaultyConfiguration(t *testing.T) {
	_, err := config.Parse("switch.yaml", []byte(strings.Replace(twoPorts, "true}", "true, headroom: 2048B}", 1)))
	m, _, _ := wellMachine()
	r := Examine(m, Patient{Problem: err})
	f := r.Findings[0]
	if r.Errors != 1 || f.Status != Error || f.At != "switch.yaml:7:42" || !strings.Contains(f.Mend, "raise it to ") {
		t.Errorf("%+v of\n%s", f, show(r))
	}
}
