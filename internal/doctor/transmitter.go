package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/memory"
	"sluice/internal/netdev"
	"sluice/internal/thread"
	"sluice/internal/transmitter"
	"sluice/pmd/afxdp"
)

// Checks of the transmitter, which sends the ports' frames where sockets would copy them
// (docs/architecture.md, internal/transmitter).

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
			"there will be none, and sockets send: the frames take %s, and a program of the kernel reaches %s",
			memory.Text(bytes), memory.Text(most))
	case e.Running == nil && !e.has(unix.CAP_PERFMON) && !e.has(unix.CAP_SYS_ADMIN):
		e.warn(subject, e.grant("cap_perfmon"), "there will be none, and sockets send: at the start it takes "+
			"cap_perfmon, which this process lacks: "+
			"run as root, or give it to the program (systemd: CapabilityBoundingSet=)")
	case e.Running == nil && !e.has(unix.CAP_SYS_ADMIN):
		e.warn(subject, e.grant("cap_sys_admin"), "every some minutes it will send nothing for 20 ms, PFC frames "+
			"neither, unless it may make a network "+
			"namespace: run as root, or give the program cap_sys_admin (systemd: CapabilityBoundingSet=, "+
			"RestrictNamespaces=net)")
	case !slices.ContainsFunc(e.Config.Ports, uses):
		e.configured(Warning, subject, &e.Config.Ports[0].TX, "tx: resident",
			"no port uses it: tx: auto does only where it has a CPU of its own, "+
				"and tx: xsk never")
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
			"there will be none, and sockets send: it is to have CPU %d, and this machine has only %s", t.CPU, online)
		return
	case len(allowed) > 0 && !slices.Contains(allowed, t.CPU):
		e.warn(subject, fmt.Sprintf("taskset -p -c 0-%d $$", slices.Max(append(allowed, t.CPU))),
			"there will be none, and sockets send: "+
				"it is to have CPU %d, and this process may not use it", t.CPU)
		return
	}
	text := fmt.Sprintf("it is to have CPU %d", t.CPU)
	if e.disturbed(t.CPU) == "" {
		if worst, err := e.Gap(t.CPU); err == nil {
			text += fmt.Sprintf(", where a loop paused for %v at the worst, in half a second: so long may frames wait",
				worst.Round(time.Microsecond))
		}
	}
	if isolated, _ := e.Read(cpuDirectory + "isolated"); slices.Contains(cpuList(isolated), t.CPU) {
		e.ok(subject, "%s; nobody else runs there", text)
		return
	}
	e.warn(subject, "", "%s; and others may run there, for milliseconds at a time: add isolcpus=%d to the kernel's "+
		"command line and boot", text, t.CPU)
}

// starves checks whether the kernel is fair to other threads on the CPUs of transmitter and
// workers.
func (e *examination) starves(subject string) {
	yes, bySession := thread.Starves(e.Read)
	fix, other := "", "put the switch into no control group with the cpu controller (systemd: CPUWeight= and "+
		"CPUQuota=, of any unit)"
	switch {
	case !yes, e.Running != nil && !bySession: // a running switch has its own control group
		return
	case bySession:
		fix, other = "sysctl kernel.sched_autogroup_enabled=0",
			"turn the groups of sessions off before the switch starts"
	}
	e.warn(subject, fix, "this kernel may give everybody else on its CPU and the workers' nothing for seconds, its "+
		"own threads too, for which all CPUs wait, since it "+
		"misjudges groups of threads: boot one that has commit 101f3498b4bd, such as 6.18.45, or %s", other)
}

// turns checks whether a worker and the transmitter can take turns.
func (e *examination) turns(subject string) {
	const preemption = "/sys/kernel/debug/sched/preempt" // for example: none voluntary full (lazy); readable by root
	if modes, _ := e.Read(preemption); strings.Contains(modes, "(lazy)") {
		e.warn(subject, "echo none > "+preemption,
			"it takes turns with a worker, which this kernel ends with its tick only, after milliseconds: "+
				"preemption is lazy (preempt=none on the command line is for good)")
		return
	}
	e.ok(subject, "it takes turns with a worker on the CPU of that")
}

// transmitterWaits reports how long the transmitter of the running switch has waited for its CPU.
func (e *examination) transmitterWaits(subject string, t *config.Transmitter) {
	const (
		enough = time.Second // lifetime of the thread
		much   = .01         // share of the lifetime
	)
	ran, waited := e.Spent(t.CPU)
	part := float64(waited) / float64(ran+waited)
	text := fmt.Sprintf("CPU %d: of the last %v it has waited %.1f %% for it", t.CPU, (ran + waited).Round(time.Second),
		100*part)
	switch {
	case ran == 0:
		e.warn(subject, "",
			"nothing of a transmitter is to be seen on CPU %d: `sluice show ports` says who sends, and why", t.CPU)
	case ran+waited < enough:
		e.ok(subject, "CPU %d, where its thread has begun less than a second ago: ask again for how much it waits",
			t.CPU)
	case part < much:
		e.ok(subject, "%s", text)
	default:
		e.configured(Warning, subject, &t.CPU, "cpu: worker",
			"%s, since others run there, and frames wait meanwhile. Best is a CPU that nobody else "+
				"needs (isolcpus=%d); else it can take turns with a worker, and its ports need tx: resident then", text,
			t.CPU)
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
		if p.TX == config.TXAuto && p.copies() && mends && p.device.MTU <= longestMTU {
			ports++
		}
	}
	workers := e.workers()
	left := slices.DeleteFunc(cpuList(e.status["Cpus_allowed_list"]),
		func(cpu int) bool { return slices.Contains(workers, cpu) })
	switch n := len(left); {
	case ports == 0:
		e.ok(subject, "none, and no port that one would be of use for")
	case n < 2:
		e.ok(subject, "none, and no CPU to spare for one (cpu: worker does without, at the price of some "+
			"microseconds a frame)")
	default: // interrupts and everything else tend to run on the first CPUs
		e.configured(Warning, subject, &e.Config.Transmitter.CPU, e.in(&e.Config.Transmitter, "transmitter",
			fmt.Sprintf("cpu: %d", left[n-1])),
			"none: of each frame that %d ports send the kernel makes a socket buffer, which takes the worker longer "+
				"than all else. A transmitter "+
				"does without, on a CPU that it takes all of: %d can be spared", ports, left[n-1])
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

// longestMTU is the largest MTU of devices for which the transmitter can send all frames.
const longestMTU = transmitter.LongestFrame - config.FrameOverhead

// sender reports whether the transmitter can send the port's frames, if it has to.
func sender(e *examination, p port) {
	d := p.device
	takesNone := d.XDPKnown && d.XDP&netdev.Target == 0
	if !e.transmits() || !e.Config.UsesTransmitter(p.Port, e.takesTurns()) || !p.copies() {
		return
	}
	switch {
	case p.runs != nil && p.runs.TX == afxdp.TXTransmitter:
		e.ok(p.Device, "the transmitter sends")
	case e.Config.ServesOthers(e.workerOf(p.Port), e.workers()):
		workers := e.workers()
		cpu := e.Config.Transmitter.On(workers)
		e.configured(Warning, p.Device, &p.Port.Worker, fmt.Sprintf("worker: %d", slices.Index(workers, cpu)),
			"its socket sends, and not the "+
				"transmitter: that takes turns with the worker on CPU %d, and sends for the ports of that one only",
			cpu)
	case takesNone && d.Kind == "veth":
		e.peerTakesNone(p)
	case takesNone && p.TX == config.TXTransmitter:
		e.configured(Warning, p.Device, &p.Port.TX, "tx: auto",
			"its socket sends, and not the transmitter: its driver takes no frames of programs")
	case takesNone:
		e.ok(p.Device, "its socket sends: its driver takes no frames of the transmitter")
	case d.MTU > longestMTU && p.DeviceMTU() <= longestMTU:
		e.warn(p.Device, p.anew(fmt.Sprintf("ip link set dev %s mtu %d", quoted(p.Device), longestMTU)),
			"its socket sends, and not the transmitter: its MTU of %d is more than %d", d.MTU, longestMTU)
	case d.MTU > longestMTU:
		e.configured(Warning, p.Device, &p.Port.TX, "tx: xsk",
			"its socket sends, and not the transmitter: its MTU of %d is more than %d", d.MTU, longestMTU)
	case p.runs == nil && !d.XDPKnown:
		e.warn(p.Device, "", "its socket sends, and not the transmitter: the kernel, older than 6.3, does not say "+
			"whether it takes frames of programs")
	case p.runs != nil && p.runs.TXWhy != "":
		e.warn(p.Device, "", "its socket sends, and not the transmitter: %s", p.runs.TXWhy)
	case p.runs != nil:
		e.warn(p.Device, "", "its socket sends, and not the transmitter: the switch runs by another configuration")
	default:
		e.ok(p.Device, "it takes frames of the transmitter")
	}
}

// peerTakesNone reports a veth device whose peer accepts frames only from the kernel's stack.
func (e *examination) peerTakesNone(p port) {
	const text = "its socket sends, and not the transmitter: its peer takes frames of programs only if it has GRO " +
		"on, or an XDP program"
	peer := p.device.Peer
	if peer == nil {
		e.warn(p.Device, "", "%s: `ethtool -K PEER gro on` where that is", text)
		return
	}
	e.warn(p.Device, peer.in(fmt.Sprintf("ethtool -K %s gro on", quoted(peer.Device))), "%s", text)
}

// anew returns a command followed by those that make a running switch open the device anew; after
// that, the transmitter sends for the port.
func (p port) anew(command string) string {
	if p.runs == nil {
		return command
	}
	return fmt.Sprintf("%[1]s && ip link set dev %[2]s down && ip link set dev %[2]s up", command, quoted(p.Device))
}
