package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/linux/microarch"
)

// cpuDirectory is the kernel's directory of CPUs.
const cpuDirectory = "/sys/devices/system/cpu/"

// workers returns the CPUs of the workers: those of the running switch, those in the configuration,
// or the one that a switch would choose.
func (e *examination) workers() (list []int) {
	switch {
	case e.Running != nil:
		for _, w := range e.Running.Workers {
			list = append(list, w.CPU)
		}
		return list
	case e.Config != nil && len(e.Config.Workers) > 0:
		return e.Config.Workers
	}
	allowed := cpuList(e.status["Cpus_allowed_list"])
	if n := len(allowed); n > 1 && e.transmits() && allowed[n-1] == e.Config.Transmitter.CPU {
		return allowed[n-2 : n-1]
	}
	return allowed[max(0, len(allowed)-1):]
}

// pollers returns the CPUs on which threads poll without rest, and the name of these threads.
func (e *examination) pollers() (list []int, who string) {
	if e.transmits() && !e.takesTurns() {
		return append(slices.Clone(e.workers()), e.Config.Transmitter.CPU), "workers and the transmitter"
	}
	return e.workers(), "workers"
}

// cpus checks the workers' CPUs, and how many are left for everything else.
func cpus(e *examination) {
	allowed, workers := cpuList(e.status["Cpus_allowed_list"]), e.workers()
	if len(allowed) == 0 || len(workers) == 0 {
		e.warn("cpus", "", "can't read which CPUs this process may use")
		return
	}
	for _, cpu := range workers {
		e.cpu(cpu, allowed)
	}
	if cpuinfo, _ := e.Read("/proc/cpuinfo"); microarch.Virtual(cpuinfo) {
		e.ok("cpus", "this machine is virtual: its host may take a CPU away for any time, whatever is set here. On "+
			"the host, pin the virtual CPU of each worker to a CPU that does nothing else")
	}
	taken, who := e.pollers()
	left := slices.DeleteFunc(slices.Clone(allowed), func(cpu int) bool { return slices.Contains(taken, cpu) })
	if len(left) == 0 {
		all := "the only CPU"
		if len(allowed) > 1 {
			all = fmt.Sprintf("all %d CPUs", len(allowed))
		}
		e.warn("cpus", "", "%s use %s of this process: the rest of the program and the kernel will delay them. "+
			"Leave one CPU free, or give the machine another", who, all)
		return
	}
	e.ok("cpus", "%s leave %d of %d CPUs to everything else", who, len(left), len(allowed))
}

// cpu checks one worker's CPU.
func (e *examination) cpu(cpu int, allowed []int) {
	subject := fmt.Sprintf("cpu %d", cpu)
	online, err := e.Read(cpuDirectory + "online")
	if err == nil && e.Config != nil && e.Running == nil && !slices.Contains(cpuList(online), cpu) {
		e.configured(Error, subject, &e.Config.Workers, "",
			"a worker is configured for this CPU, but only CPUs %s are online", online)
		return
	}
	if e.Running == nil && !slices.Contains(allowed, cpu) {
		e.fail(subject, fmt.Sprintf("taskset -p -c 0-%d $$", slices.Max(append(allowed, cpu))),
			"a worker is configured for this CPU, but this process may not use it. A container or unit must be "+
				"given the CPU (docker: --cpuset-cpus, systemd: AllowedCPUs=)")
		return
	}
	governor := fmt.Sprintf("%scpu%d/cpufreq/scaling_governor", cpuDirectory, cpu)
	if text, err := e.Read(governor); err == nil && text != "performance" {
		e.warn(subject, "echo performance > "+governor, "its governor is %s: it may be slow when a burst arrives", text)
	}
	if taken, _ := e.pollers(); err == nil && !slices.ContainsFunc(cpuList(online), func(cpu int) bool {
		return !slices.Contains(taken, cpu)
	}) {
		return // the kernel needs a CPU that is not isolated, and none would be left
	}
	isolated, _ := e.Read(cpuDirectory + "isolated")
	nohz, err := e.Read(cpuDirectory + "nohz_full") // kernels that can't stop their ticks have no such file
	var missing []string
	if !slices.Contains(cpuList(isolated), cpu) {
		missing = append(missing, fmt.Sprintf("isolcpus=%d", cpu))
	}
	if err == nil && !slices.Contains(cpuList(nohz), cpu) {
		missing = append(missing, fmt.Sprintf("nohz_full=%d", cpu))
	}
	if len(missing) > 0 {
		e.warn(subject, "",
			"other threads or timer ticks may interrupt the worker, which lengthens the gaps of its loop: "+
				"add %s to the kernel's command line and reboot", strings.Join(missing, " "))
		return
	}
	e.ok(subject, "isolated: no other threads run on it")
}

// cpuList parses a list of the kernel's, such as 0-2,5; it skips invalid parts.
func cpuList(text string) (list []int) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, span := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if span && err == nil {
			last, err = strconv.Atoi(to)
		}
		for cpu := first; err == nil && cpu <= last; cpu++ {
			list = append(list, cpu)
		}
	}
	return list
}

// processor reports the target of this build, and whether a build for newer processors would run.
func processor(e *examination) {
	const third = "amd64 v3"
	cpuinfo, _ := e.Read("/proc/cpuinfo")
	if e.Built < third && strings.HasPrefix(e.Built, "amd64") && microarch.HasThird(cpuinfo) {
		e.ok("processor", "the program was built for %s; this processor also runs builds for %s "+
			"(bin/sluice-v3 of make v3), which may need a few per cent less time for a frame", e.Built, third)
		return
	}
	e.ok("processor", "the program was built for %s", e.Built)
}
