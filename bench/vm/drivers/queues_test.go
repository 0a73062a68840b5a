package drivers

import (
	"fmt"
	"strings"
	"testing"

	"sluice/bench/testkit/rigtest"
	"sluice/bench/vm/rig"
)

// TestVirtioMorePairs: with native XDP, virtio_net would receive on one more queue for each CPU, if
// the device has so many. The ports use generic mode instead, and all frames arrive.
func TestVirtioMorePairs(t *testing.T) {
	s := newSite(t, rigged{driver: rig.VirtioNet, mode: "zero-copy", buffer: 2048, queues: 4, cpus: 2})
	t.Run("zero-copy", func(t *testing.T) { checkRefused(t, s, "with native XDP", "no more queue pairs than") })
	s.mode, s.shows = "auto", "copy (generic)"
	s.start(t)
	checkMode(t, s)
	rigtest.Must(t, s.sw.Await(rigtest.Patience, len(s.devices), "port uses a slower mode", "has raised their number"))
	checkIdentity(t, s)
	checkRestore(t, s)
}

// TestVMXNET3Queues: with two CPUs, vmxnet3 has two receive queues, whose number is fixed. No port
// opens, the log says what helps, and the switch answers all the same. With one CPU online while
// the driver is bound to the devices, they have one queue.
func TestVMXNET3Queues(t *testing.T) {
	s := newSite(t, rigged{driver: rig.VMXNET3, mode: "auto", shows: "copy (native)", buffer: 2048, cpus: 2})
	checkRefused(t, s, "take the others offline", "take the others offline")
	s.rebind(t)
	s.start(t)
	checkMode(t, s)
	checkIdentity(t, s)
	checkRestore(t, s)
}

// rebind binds the driver to the devices anew, with one CPU online meanwhile.
func (s *site) rebind(t *testing.T) {
	t.Helper()
	online := func(digit string) {
		rigtest.Must(t, s.guest.WriteFile("/sys/devices/system/cpu/cpu1/online", []byte(digit), 0))
	}
	online("0")
	for n, d := range s.devices {
		_, info, _ := strings.Cut(s.run(t, "ethtool", "-i", d), "bus-info: ")
		address, _, _ := strings.Cut(info, "\n")
		for _, file := range []string{"unbind", "bind"} {
			path := fmt.Sprintf("/sys/bus/pci/drivers/%s/%s", s.driver.Name, file)
			rigtest.Must(t, s.guest.WriteFile(path, []byte(address), 0))
		}
		s.run(t, "ip", "link", "set", s.devices[n], "up")
	}
	online("1")
	s.initial = s.settings(t)
}

// checkRefused: doctor foresees that no port opens, and the log says what helps. The switch
// answers, and leaves the devices as they were.
func checkRefused(t *testing.T, s *site, foreseen, help string) {
	checkForeseen(t, s, foreseen)
	s.opensNoPort(t, "the receive queues do not fit", help)
}

// checkForeseen: doctor says something of each device.
func checkForeseen(t *testing.T, s *site, foreseen string) {
	rigtest.Must(t, s.guest.WriteFile(file, []byte(s.configuration(outRate)), 0o644))
	report, err := s.guest.Run("sluice", "doctor", "-c", file)
	rigtest.Must(t, err)
	if strings.Count(report.Stdout, foreseen) != len(s.devices) {
		t.Errorf("doctor does not say %q of each device:\n%s", foreseen, report.Stdout)
	}
}
