package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/control/memory"
	"sluice/internal/linux/netdev"
	"sluice/internal/linux/thread"
	"sluice/pmd/afxdp"
	"sluice/pmd/transmitter"
)

// Checks of the transmitter, which sends the ports' frames where sockets would copy them
// (docs/notes/transmitter.md).

// Beginnings of findings.
const (
	cantStart   = "the transmitter can't start, so sockets will send: "
	socketSends = "its socket sends instead of the transmitter: "
)

// transmits reports whether the configuration has a transmitter.
func (e *examination) transmits() bool { return e.Config != nil && e.Config.HasTransmitter() }

// transmission checks whether a transmitter can run, its ports and its CPU. Without one in the
// configuration, it reports whether one would help.
func transmission(e *examination) {
	const subject = "transmitter"
	if e.Config == nil {
		return
	}
	if !e.transmits() {
		e.spareCPU(subject)
		return
	}
	t, m := &e.Config.Transmitter, &e.Config.Memory
	uses := func(p config.Port) bool { return e.Config.UsesTransmitter(&p, e.takesTurns()) }
	bytes, most := e.memoryBytes(), uint64(transmitter.MostMemory)
	switch {
	case bytes > most:
		e.configured(Warning, subject, &m.Buffers,
			e.in(m, "memory", fmt.Sprintf("buffers: %d", most/uint64(m.BufferSize))),
			cantStart+"the frames take %s, more than the %s that a BPF program can reach", memory.Text(bytes),
			memory.Text(most))
	case e.Running == nil && !e.has(unix.CAP_PERFMON) && !e.has(unix.CAP_SYS_ADMIN):
		e.warn(subject, e.grant("cap_perfmon"), cantStart+"it needs cap_perfmon, which this process lacks. "+
			"Run as root, or grant it to the program (systemd: CapabilityBoundingSet=)")
	case e.Running == nil && !e.has(unix.CAP_SYS_ADMIN):
		e.warn(subject, e.grant("cap_sys_admin"), "every few minutes, it will send nothing for 20 ms, not even PFC "+
			"frames, because it may not create a network namespace: run as root, or grant cap_sys_admin to the "+
			"program (systemd: CapabilityBoundingSet=, RestrictNamespaces=net)")
	case !slices.ContainsFunc(e.Config.Ports, uses):
		e.configured(Warning, subject, &e.Config.Ports[0].TX, "tx: resident",
			"no port uses it: ports with tx: auto do so only if it has a CPU of its own, those with tx: xsk never")
	}
	e.starves(subject)
	e.transmitterCPU(subject, t)
}

// takesTurns reports whether the transmitter shares its CPU with a worker.
func (e *examination) takesTurns() bool {
	return e.transmits() && e.Config.SharesCPU(e.workers())
}

// transmitterCPU checks what else runs on the transmitter's CPU: frames wait meanwhile.
func (e *examination) transmitterCPU(subject string, t *config.Transmitter) {
	allowed := cpuList(e.status["Cpus_allowed_list"])
	online, err := e.Read(cpuDirectory + "online")
	switch {
	case e.takesTurns():
		e.turns(subject)
		return
	case e.Running != nil:
		e.transmitterWaits(subject, t)
		return
	case err == nil && !slices.Contains(cpuList(online), t.CPU):
		e.configured(Warning, subject, &t.CPU, "",
			cantStart+"it is configured for CPU %d, but only CPUs %s are online", t.CPU, online)
		return
	case len(allowed) > 0 && !slices.Contains(allowed, t.CPU):
		e.warn(subject, fmt.Sprintf("taskset -p -c 0-%d $$", slices.Max(append(allowed, t.CPU))),
			cantStart+"it is configured for CPU %d, which this process may not use", t.CPU)
		return
	}
	text := fmt.Sprintf("it is configured for CPU %d", t.CPU)
	if e.disturbed(t.CPU) == "" {
		if worst, err := e.Gap(t.CPU); err == nil {
			text += fmt.Sprintf(", where frames may wait for %v (two consecutive gaps of a loop, measured for half a "+
				"second)", worst.Round(time.Microsecond))
		}
	}
	if isolated, _ := e.Read(cpuDirectory + "isolated"); slices.Contains(cpuList(isolated), t.CPU) {
		e.ok(subject, "%s; no other threads run there", text)
		return
	}
	e.warn(subject, "", "%s; other threads may run there for milliseconds: add isolcpus=%d to the kernel's command "+
		"line and reboot", text, t.CPU)
}

// starves checks whether the kernel is fair to other threads on the CPUs of transmitter and
// workers.
func (e *examination) starves(subject string) {
	yes, bySession := thread.Starves(e.Read)
	fix, other := "", "put the switch into no control group with the cpu controller (systemd: no unit may have "+
		"CPUWeight= or CPUQuota=)"
	switch {
	case !yes, e.Running != nil && !bySession: // a running switch has its own control group
		return
	case bySession:
		fix, other = "sysctl kernel.sched_autogroup_enabled=0",
			"turn off autogroups, the groups of sessions, before the switch starts"
	}
	e.warn(subject, fix, "other threads on the CPUs of transmitter and workers may get no CPU time for seconds, "+
		"including the kernel's own, for which all CPUs wait: this kernel has a fault in scheduling groups of "+
		"threads. Boot one with commit 101f3498b4bd, such as 6.18.45, or %s", other)
}

// turns checks whether a worker and the transmitter can take turns.
func (e *examination) turns(subject string) {
	const preemption = "/sys/kernel/debug/sched/preempt" // for example: none voluntary full (lazy); readable by root
	if modes, _ := e.Read(preemption); strings.Contains(modes, "(lazy)") {
		e.warn(subject, "echo none > "+preemption,
			"it takes turns with a worker, but this kernel's preemption is lazy: a turn lasts until the next tick, "+
				"for milliseconds (preempt=none on the kernel's command line makes the fix permanent)")
		return
	}
	e.ok(subject, "it takes turns with a worker on the worker's CPU")
}

// transmitterWaits reports how long the transmitter of the running switch has waited for its CPU.
func (e *examination) transmitterWaits(subject string, t *config.Transmitter) {
	const (
		enough = time.Second // lifetime of the thread
		much   = .01         // share of the lifetime
	)
	ran, waited := e.Spent(t.CPU)
	part := float64(waited) / float64(ran+waited)
	text := fmt.Sprintf("it has waited %.1f %% of the last %v for CPU %d", 100*part, (ran + waited).Round(time.Second),
		t.CPU)
	switch {
	case ran == 0:
		e.warn(subject, "",
			"no transmitter is visible on CPU %d: `sluice show ports` says what sends instead, and why", t.CPU)
	case ran+waited < enough:
		e.ok(subject, "it started on CPU %d less than a second ago: run sluice doctor again to see how long it waits",
			t.CPU)
	case part < much:
		e.ok(subject, "%s", text)
	default:
		e.configured(Warning, subject, &t.CPU, "cpu: worker",
			"%s: other threads use it, and frames wait meanwhile. Keep them off the CPU (isolcpus=%d), or let it take "+
				"turns with a worker; its ports then need tx: resident", text, t.CPU)
	}
}

// spareCPU reports if a transmitter would be faster than sockets and a CPU is free for it.
func (e *examination) spareCPU(subject string) {
	ports := 0
	for i := range e.Config.Ports {
		p := port{Port: &e.Config.Ports[i]}
		var err error
		if p.device, err = e.Device(p.Device); err != nil {
			continue
		}
		p.runs = e.Running.port(p.Device)
		mends := p.device.Kind == "veth" || p.device.XDP&netdev.Target != 0
		if p.TX == config.TXAuto && p.copies() && mends && p.device.MTU <= e.longestMTU() {
			ports++
		}
	}
	workers := e.workers()
	left := slices.DeleteFunc(cpuList(e.status["Cpus_allowed_list"]),
		func(cpu int) bool { return slices.Contains(workers, cpu) })
	switch n := len(left); {
	case ports == 0:
		e.ok(subject, "none configured, and no port would use one")
	case n < 2:
		e.ok(subject, "none configured, and no CPU is free for one (cpu: worker needs none, but costs some "+
			"microseconds per frame)")
	default: // interrupts and everything else tend to run on the first CPUs
		e.configured(Warning, subject, &e.Config.Transmitter.CPU, e.in(&e.Config.Transmitter, "transmitter",
			fmt.Sprintf("cpu: %d", left[n-1])),
			"none configured: the kernel makes a socket buffer of each frame that %d ports send, which takes the "+
				"worker longer than everything else. A transmitter avoids this, but uses a whole CPU; CPU %d is free",
			ports, left[n-1])
	}
}

// copies reports whether the kernel copies each frame that the port's socket sends, as far as
// known.
func (p port) copies() bool {
	if p.runs != nil {
		return p.runs.Mode != string(config.ZeroCopy)
	}
	return p.Mode == config.Copy || p.device.XDPKnown && p.device.XDP&netdev.ZeroCopy == 0
}

// longestMTU returns the largest MTU of devices for which the transmitter can send all frames. Each
// must fit one buffer.
func (e *examination) longestMTU() int {
	return min(transmitter.LongestFrame-config.FrameOverhead, afxdp.BufferMTU(e.Config.Memory.BufferSize))
}

// sender reports whether the transmitter can send the port's frames, if it has to.
func sender(e *examination, p port) {
	d := p.device
	takesNone := d.XDPKnown && d.XDP&netdev.Target == 0
	if !e.transmits() || !e.Config.UsesTransmitter(p.Port, e.takesTurns()) || !p.copies() {
		return
	}
	most := e.longestMTU()
	switch {
	case p.runs != nil && p.runs.TX == afxdp.TXTransmitter:
		e.ok(p.Device, "the transmitter sends")
	case e.Config.ServesOthers(e.workerOf(p.Port), e.workers()):
		workers := e.workers()
		cpu := e.Config.Transmitter.On(workers)
		e.configured(Warning, p.Device, &p.Port.Worker, fmt.Sprintf("worker: %d", slices.Index(workers, cpu)),
			socketSends+"the transmitter takes turns with the worker on CPU %d, and serves only the ports of that "+
				"worker", cpu)
	case takesNone && d.Kind == "veth":
		e.peerTakesNone(p)
	case takesNone && p.TX == config.TXTransmitter:
		e.configured(Warning, p.Device, &p.Port.TX, "tx: auto",
			socketSends+"its driver accepts no frames from XDP programs")
	case takesNone:
		e.ok(p.Device, "its socket sends: its driver accepts no frames from the transmitter")
	case d.MTU > most && p.DeviceMTU() <= most:
		e.warn(p.Device, p.anew(setMTU(p, most)),
			socketSends+"its MTU of %d is more than the transmitter's maximum of %d", d.MTU, most)
	case d.MTU > most:
		e.configured(Warning, p.Device, &p.Port.TX, "tx: xsk",
			socketSends+"its MTU of %d is more than the transmitter's maximum of %d", d.MTU, most)
	case p.runs == nil && !d.XDPKnown:
		e.warn(p.Device, "", socketSends+"the kernel is older than 6.3, and does not report whether the device "+
			"accepts frames from XDP programs")
	case p.runs != nil && p.runs.TXWhy != "":
		e.warn(p.Device, "", socketSends+"%s", p.runs.TXWhy)
	case p.runs != nil:
		e.warn(p.Device, "", socketSends+"the switch runs with another configuration")
	default:
		e.ok(p.Device, "it accepts frames from the transmitter")
	}
}

// peerTakesNone reports a veth device whose peer accepts frames only from the kernel's stack.
func (e *examination) peerTakesNone(p port) {
	const text = socketSends + "its peer accepts frames from XDP programs only with GRO on, or with an XDP program " +
		"of its own"
	if p.device.Peer == nil {
		e.warn(p.Device, "", "%s: run `ethtool -K PEER gro on` in its namespace", text)
		return
	}
	e.warn(p.Device, p.device.Peer.run("ethtool -K %s gro on"), "%s", text)
}

// anew returns a command followed by those that make a running switch open the device anew; after
// that, the transmitter sends for the port.
func (p port) anew(command string) string {
	if p.runs == nil {
		return command
	}
	return fmt.Sprintf("%[1]s && ip link set dev %[2]s down && ip link set dev %[2]s up", command, quoted(p.Device))
}
