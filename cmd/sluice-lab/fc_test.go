package main

import (
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/bench/traffic/fc"
)

// fcSite is two namespaces joined by a cable for FCoE: an FCF belongs on the host, ENodes on port1.
func fcSite(t *testing.T) program.Site { return program.NewSite(t, 1, netns.MTU(2180)) }

func launchFCF(t *testing.T, s program.Site, args ...string) *program.Running {
	t.Helper()
	p := program.Launch(t, s.Hosts[0], append([]string{"fcf", "-d", program.HostDevice, "--json"}, args...)...)
	p.Await(1, "FCF", "on", program.HostDevice)
	return p
}

func launchENodes(t *testing.T, s program.Site, args ...string) *program.Running {
	t.Helper()
	return program.Launch(t, s.Home, append([]string{"enode", "-d", "port1", "--json"}, args...)...)
}

// TestENodes: 200 ENodes with 4 VN_Ports each log in with an FCF, exchange data both ways without
// loss, and log out.
func TestENodes(t *testing.T) {
	s := fcSite(t)
	fcf := launchFCF(t, s)
	enodes := launchENodes(t, s, "--enodes", "200", "--logins", "4", "--rate", "100M", "--duration", "2s")
	if code := enodes.ExitCode(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var e fc.ENodesReport
	enodes.Document(&e)
	fcf.Signal(unix.SIGINT)
	if code := fcf.ExitCode(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var f fc.FCFReport
	fcf.Document(&f)
	if e.Active != 800 || e.AllUpNS == 0 || e.LOGO != 800 || f.FLOGI < 200 || f.FDISC < 600 || f.LOGO < 800 ||
		f.MostPorts != 800 || len(f.VNPorts) != 0 {
		t.Errorf("logins: %+v %+v", e.ENodesCounts, f.FCFCounts)
	}
	if e.Sent < 1000 || e.Received != e.Sent || f.Forwarded != e.Sent ||
		e.Lost+e.Reordered+e.Duplicates+e.Damaged+e.Misdelivered+e.Unauthorised > 0 {
		t.Errorf("data: %+v %+v", e.ENodesCounts, f.FCFCounts)
	}
	pairs := 0
	for _, l := range e.List {
		if l.Sent > 0 && l.Received > 0 {
			pairs++
		}
	}
	if pairs != 800 {
		t.Errorf("%d of 800 VN_Ports exchanged data", pairs)
	}
	t.Logf("all up after %d ms, %d frames each way", e.AllUpNS/1e6, e.Sent)
}

// TestENodesUnplugged: ENodes log in again when the link was down.
func TestENodesUnplugged(t *testing.T) {
	s := fcSite(t)
	launchFCF(t, s)
	enodes := launchENodes(t, s, "--enodes", "20", "--logins", "3")
	enodes.Await(1, "60 of 60 VN_Ports logged in")
	program.OnLink(t, s.Hosts[0], program.HostDevice, netlink.LinkSetDown)
	enodes.Await(2, "of 60 VN_Ports logged in") // 0 of them
	program.OnLink(t, s.Hosts[0], program.HostDevice, netlink.LinkSetUp)
	enodes.Await(3, "of 60 VN_Ports logged in")
}

// TestENodesComeBack: ENodes log in again after Clear Virtual Links, and when the FCF was killed
// and started again. What they cannot do in time is an error.
func TestENodesComeBack(t *testing.T) {
	s := fcSite(t)
	fcf := launchFCF(t, s, "--fka", "500ms", "--clear-after", "2s")
	enodes := launchENodes(t, s, "--enodes", "20", "--logins", "3")
	const all = "60 of 60 VN_Ports logged in"
	enodes.Await(1, all)
	enodes.Await(2, all) // --clear-after
	fcf.Signal(unix.SIGUSR1)
	enodes.Await(3, all)
	fcf.Signal(unix.SIGKILL)
	fcf.ExitCode()
	fcf = launchFCF(t, s, "--fka", "500ms")
	enodes.Await(4, all)
	enodes.Signal(unix.SIGINT)
	if code := enodes.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	fcf.Signal(unix.SIGINT)
	fcf.ExitCode()
	alone := launchENodes(t, s, "--patience", "1s")
	if code := alone.ExitCode(); code != 1 {
		t.Errorf("without an FCF: exit code %d", code)
	}
	alone.Await(1, "0 of 1 VN_Ports were logged in after 1s")
}

// TestFCFlags: what makes no sense is refused before a device is touched.
func TestFCFlags(t *testing.T) {
	s := fcSite(t)
	for _, args := range [][]string{
		{"fcf"}, {"fcf", "-d", "a,b"}, {"fcf", "-d", "a", "--fc-map", "0EFD00"}, {"fcf", "-d", "a", "--fc-map", "x"},
		{"fcf", "-d", "a", "--cos", "8"}, {"fcf", "-d", "a", "--duration", "-1s"},
		{"fcf", "-d", "a", "--clear-after", "-1s"}, {"fcf", "-d", "a", "--vlan", "0"},
		{"fcf", "-d", "a", "--domain", "0"},
		{"enode"}, {"enode", "-d", "a,a"}, {"enode", "-d", "a", "--stats-period", "-1"},
		{"enode", "-d", "port1", "--rate", "20G"}, {"enode", "-d", "port1", "--mac", "x"},
		{"enode", "-d", "port1", "--enodes", "0"}, {"enode", "-d", "port1", "--size", "2111"},
	} {
		p := program.Launch(t, s.Home, args...)
		if code := p.ExitCode(); code != 64 {
			t.Errorf("%v: exit code %d: %s", args, code, &p.Output)
		}
	}
}
