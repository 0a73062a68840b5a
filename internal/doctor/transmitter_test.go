package doctor

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/linux/netdev"
)

// transmitted is twoPorts with a transmitter.
const transmitted = "transmitter: {cpu: 2}" + twoPorts

// cable makes both devices veth devices whose peers accept redirected frames, and reserves the
// transmitter's CPU for it; more may introduce a problem.
func cable(more spoiler) spoiler {
	return func(m *Machine, files map[string]string, devices map[string]*Device) {
		files[cpuDirectory+"isolated"] = "2-3"
		for _, d := range devices {
			d.Kind, d.Driver, d.Speed, d.XDP = "veth", "veth", 0, netdev.Basic|netdev.Redirect|netdev.Target
		}
		if more != nil {
			more(m, files, devices)
		}
	}
}

// deaf gives a device a peer that accepts no redirected frames.
func deaf(peer *Peer) spoiler {
	return cable(device(func(d *Device) { d.XDP, d.Peer = netdev.Basic|netdev.Redirect, peer }))
}

// sent is a switch whose transmitter sends, apart from change.
func sent(change func(*Running)) func(*Running) {
	return func(r *Running) {
		for i := range r.Ports {
			r.Ports[i].Mode, r.Ports[i].TX = "copy (native)", "resident"
		}
		change(r)
	}
}

// fellBack makes the socket of port2 send.
func fellBack(r *Running) {
	r.Ports[1].TX, r.Ports[1].TXWhy = "xsk", "7 frames were lost because its peer had no room for them"
}

// spent sets the times for which the transmitter's thread has run and waited.
func spent(ran, waited time.Duration) spoiler {
	return cable(func(m *Machine, _ map[string]string, _ map[string]*Device) {
		m.Spent = func(int) (time.Duration, time.Duration) { return ran, waited }
	})
}

const (
	withoutSysAdmin = "000001ffffdfffff"
	withoutPerfmon  = "000001bfffdfffff" // also without cap_sys_admin, which includes it
	onAndOff        = " && ip link set dev port2 down && ip link set dev port2 up"
)

var transmitterAilments = []ailment{
	{name: "there could be one", spoil: cable(nil), status: Warning, about: "transmitter",
		say: []string{"2 ports", "CPU 2 is free"},
		fix: "transmitter: {cpu: 2}", at: "switch.yaml:2:1"},
	{name: "there could be one beside a switch", spoil: cable(nil),
		run: func(r *Running) { r.Ports[0].Mode = "copy (native)" }, status: Warning,
		about: "transmitter", say: []string{"1 ports"}, fix: "transmitter: {cpu: 2}", at: "switch.yaml:2:1"},
	{name: "too much memory", text: "memory: {buffers: 524288}\n" + transmitted, spoil: cable(nil), status: Warning,
		about: "transmitter",
		say:   []string{"the frames take 1.0 GiB", "511 MiB"}, fix: "buffers: 262142", at: "switch.yaml:1:19"},
	{name: "a capability is missing", text: transmitted, spoil: without(withoutPerfmon, allOfThem, cable(nil)),
		status: Warning, about: "transmitter",
		say: []string{"cap_perfmon", "CapabilityBoundingSet"},
		fix: strings.Replace(setcap, "setcap ", "setcap cap_perfmon,", 1)},
	{name: "a capability would help", text: transmitted, spoil: without(withoutSysAdmin, allOfThem, cable(nil)),
		status: Warning, about: "transmitter",
		say: []string{"nothing for 20 ms", "RestrictNamespaces=net"},
		fix: strings.Replace(setcap, "setcap ", "setcap cap_sys_admin,", 1)},
	{name: "no port uses it", text: strings.Replace(transmitted, "2}", "worker}", 1), spoil: cable(nil),
		status: Warning, about: "transmitter",
		say: []string{"no port uses it"}, fix: "tx: resident", at: "switch.yaml:4:5"},
	{name: "lazy preemption", text: strings.NewReplacer("2}", "worker}", "port2,",
		"port2, tx: resident,").Replace(transmitted),
		spoil: cable(file("/sys/kernel/debug/sched/preempt", "none voluntary full (lazy)")), status: Warning,
		about: "transmitter",
		say:   []string{"takes turns with a worker", "lazy"}, fix: "echo none > /sys/kernel/debug/sched/preempt"},
	{name: "a kernel that starves others", text: transmitted,
		spoil: cable(file("/proc/sys/kernel/sched_autogroup_enabled", "1")), status: Warning, about: "transmitter",
		say: []string{"for seconds", "6.18.45"}, fix: "sysctl kernel.sched_autogroup_enabled=0"},
	{name: "a kernel that starves others than a unit", text: strings.NewReplacer("2}", "worker}", "port2,",
		"port2, tx: resident,").Replace(transmitted),
		spoil: cable(file(cgroupDirectory+"/a.slice/b.service/cpu.weight", "100")), status: Warning,
		about: "transmitter", say: []string{"into no control group"}},
	{name: "turns with another worker", text: strings.NewReplacer("[3]", "[2, 3]", "port2,",
		"port2, tx: resident,").Replace(transmitted),
		spoil: cable(nil), status: Warning, about: "port2", say: []string{"the worker on CPU 2"}, fix: "worker: 0",
		at: "switch.yaml:5:5"},
	{name: "an old kernel", text: strings.Replace(transmitted, "port2,", "port2, tx: resident, mode: copy,", 1),
		spoil: cable(device(func(d *Device) { d.XDPKnown, d.XDP = false, 0 })), status: Warning, about: "port2",
		say: []string{"older than 6.3"}},
	{name: "no such CPU", text: strings.Replace(transmitted, "cpu: 2", "cpu: 7", 1), spoil: cable(nil), status: Warning,
		about: "transmitter",
		say:   []string{"CPU 7", "only CPUs 0-3"}, at: "switch.yaml:1:20"},
	{name: "a CPU for others", text: strings.Replace(transmitted, "cpu: 2", "cpu: 7", 1),
		spoil: cable(file(cpuDirectory+"online", "0-7")), status: Warning,
		about: "transmitter", say: []string{"may not use"}, fix: "taskset -p -c 0-7 $$"},
	{name: "its CPU is not isolated", text: transmitted, spoil: cable(file(cpuDirectory+"isolated", "3")),
		status: Warning, about: "transmitter",
		say: []string{"CPU 2, where frames may wait for 100µs", "other threads may run there", "isolcpus=2 to"}},
	{name: "its CPU is the last", text: strings.Replace(transmitted, "[3]", "[0, 1, 3]", 1), spoil: cable(nil),
		status: Warning, about: "cpus",
		say: []string{"workers and the transmitter use all 4"}},
	{name: "little time", text: transmitted, spoil: cable(file(cgroupDirectory+"/cpu.max", "200000 100000")),
		status: Warning, about: "cpus",
		say: []string{"the time of 2 CPUs,", "workers and the transmitter poll on 2"}},

	{name: "a peer without GRO", text: transmitted, spoil: deaf(&Peer{Device: "eth0", MTU: 1500}),
		status: Warning, about: "port2",
		say: []string{"GRO on"}, fix: "ethtool -K eth0 gro on"},
	{name: "a peer elsewhere", text: transmitted,
		spoil:  deaf(&Peer{Device: "eth0", MTU: 1500, Namespace: "/run/netns/a b"}),
		status: Warning, about: "port2",
		say: []string{"GRO on"}, fix: "nsenter --net='/run/netns/a b' ethtool -K eth0 gro on"},
	{name: "a peer who knows where", text: transmitted, spoil: deaf(nil), status: Warning, about: "port2",
		say: []string{"`ethtool -K PEER gro on` in its namespace"}},
	{name: "a driver that takes no frames of programs", text: strings.Replace(transmitted, "port2,",
		"port2, tx: resident,", 1),
		spoil:  cable(device(func(d *Device) { d.Kind, d.Driver, d.XDP = "device", "e1000", netdev.Basic })),
		status: Warning, about: "port2", say: []string{"its driver accepts no frames"}, fix: "tx: auto",
		at: "switch.yaml:5:25"},
	{name: "a longer MTU", text: "memory: {buffer_size: 4096B}\n" + transmitted,
		spoil: cable(device(func(d *Device) { d.MTU = 3600 })), status: Warning, about: "port2",
		say: []string{"3600 is more than the transmitter's maximum of 3382"}, fix: "ip link set dev port2 mtu 3382"},
	{name: "a longer MTU than a buffer holds", text: transmitted,
		spoil: cable(device(func(d *Device) { d.MTU = 2000 })), status: Warning, about: "port2",
		say: []string{"2000 is more than the transmitter's maximum of 1646"}, fix: "ip link set dev port2 mtu 1646"},
	{name: "long frames", text: "memory: {buffer_size: 4096B}\n" +
		strings.Replace(transmitted, "port2,", "port2, mtu: 9000,", 1),
		spoil: cable(device(func(d *Device) { d.MTU = 9000 })), status: Warning, about: "port2",
		say: []string{"its socket sends", "9000 is more than the transmitter's maximum of 3382"}, fix: "tx: xsk",
		at: "switch.yaml:6:5"},
	{name: "a longer MTU for longer frames", text: "memory: {buffer_size: 4096B}\n" +
		strings.Replace(transmitted, "port2,", "port2, mtu: 3600,", 1),
		spoil: cable(device(func(d *Device) { d.MTU = 3600 })), status: Warning, about: "port2",
		say: []string{"3600 is more than the transmitter's maximum of 3382"},
		fix: "tx: xsk", at: "switch.yaml:6:5"},

	{name: "its CPU is busy", text: transmitted, run: sent(func(*Running) {}),
		spoil: spent(9*time.Second, 3*time.Second), status: Warning, about: "transmitter",
		say: []string{"has waited 25.0 % of the last 12s", "isolcpus=2"}, fix: "cpu: worker",
		at: "switch.yaml:1:20"},
	{name: "there is none", text: transmitted, run: sent(func(*Running) {}), spoil: spent(0, 0), status: Warning,
		about: "transmitter",
		say:   []string{"no transmitter is visible on CPU 2", "sluice show ports"}},
	{name: "a peer had no room", text: transmitted, run: sent(fellBack), spoil: cable(nil), status: Warning,
		about: "port2", say: []string{"had no room"}},
	{name: "a peer turned GRO off", text: transmitted, run: sent(fellBack),
		spoil:  deaf(&Peer{Device: "eth0", MTU: 1500}),
		status: Warning, about: "port2",
		say: []string{"GRO on"}, fix: "ethtool -K eth0 gro on"},
	{name: "a longer MTU beside a switch", text: "memory: {buffer_size: 4096B}\n" + transmitted, run: sent(fellBack),
		spoil: cable(device(func(d *Device) { d.MTU = 3600 })), status: Warning, about: "port2",
		fix: "ip link set dev port2 mtu 3382" + onAndOff},
	{name: "a transmitter of a file that is not the switch's", text: transmitted,
		run: sent(func(r *Running) { r.Ports[1].TX = "xsk" }), spoil: cable(nil),
		status: Warning, about: "port2", say: []string{"with another configuration"}},
}

// TestTransmitterIsWell: with a transmitter, before a start and beside a running switch, on
// machines where it can send all frames.
func TestTransmitterIsWell(t *testing.T) {
	const takesTurns, free = "transmitter: {cpu: worker}",
		"workers: [3]\nports: [{device: port1, speed: 1G, tx: resident}, {device: port2, speed: 1G}]\n"
	for name, test := range map[string]struct {
		text  string
		spoil spoiler
		say   string
	}{
		"on a CPU of its own": {transmitted, cable(nil), "it accepts frames from the transmitter"},
		"with zero-copy":      {transmitted, cable(device(zeroCopying)), "CPU 2"},
		"on a worker's CPU":   {takesTurns + "\n" + free, cable(nil), "takes turns with a worker"},
		"on CPU 3, a worker's": {"transmitter: {cpu: 3}\n" + free, spent(time.Second, time.Second),
			"takes turns with a worker"},
		"a moment ago": {transmitted, spent(time.Millisecond, time.Millisecond), "CPU 2"},
		"with another driver": {transmitted,
			cable(device(func(d *Device) { d.Kind, d.XDP = "device", netdev.Basic|netdev.Redirect })), "port2"},
		"beside an unknown one": {transmitted, cable(device(func(d *Device) { d.XDPKnown, d.XDP = false, 0 })),
			"port2"},
		"on the last of the CPUs": {strings.NewReplacer("cpu: 2", "cpu: 3", "workers: [3]\n", "").Replace(transmitted),
			cable(func(_ *Machine, files map[string]string, _ map[string]*Device) {
				files[cpuDirectory+"cpu2/cpufreq/scaling_governor"] = "performance"
			}), "it is configured for CPU 3"},
	} {
		for _, runs := range []bool{false, true} {
			m, files, devices := wellMachine()
			p := Target{Config: parsed(t, test.text)}
			if runs {
				p.Running = runningSwitch(devices)
				if len(p.Config.Workers) == 0 {
					p.Running.Workers[0].CPU = 2 // the last one is left for the transmitter
				}
				sent(func(*Running) {})(p.Running)
			}
			test.spoil(&m, files, devices)
			r := Examine(m, p)
			if all := show(r); r.Errors+r.Warnings > 0 || !runs && !strings.Contains(all, test.say) {
				t.Errorf("%s, %v:\n%s", name, runs, all)
			}
		}
	}
}
