package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
)

// reloadable returns a configuration like slowSwitch with random values for everything that a
// reload can change, and optionally with a fourth port.
func reloadable(random *rand.Rand, fourth bool) string {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	upTo := func(n int) int { return 1 + random.IntN(n) }
	var b strings.Builder
	fmt.Fprintf(&b, "classes:\n")
	fmt.Fprintf(&b, "  - {cos: [3], lossless: true, share: %dKB, xon: %dKB, headroom: %dKB}\n", 128+upTo(256),
		upTo(128), 6000+upTo(500))
	fmt.Fprintf(&b, "  - {cos: [0], share: %dKB, queue_limit: %dKB%s}\n", 256+upTo(256), 128+upTo(128),
		pick("", ", wred: {min: 64KB, max: 120KB}"))
	fmt.Fprintf(&b, "  - {cos: [1, 2], reserved: %dKiB, %s}\n", upTo(32), pick("share: 1MB", "alpha: 1/8"))
	weight := 10 + upTo(80)
	fmt.Fprintf(&b, "ets:\n  - name: default\n    groups:\n")
	fmt.Fprintf(&b, "      - {pg: 0, cos: [0, 1, 2], weight: %d}\n", weight)
	fmt.Fprintf(&b, "      - {pg: 1, cos: [3, 4, 5], weight: %d, inner: %s}\n", 100-weight, pick("strict", "drr"))
	fmt.Fprintf(&b, "      - {pg: 15, cos: [6, 7]}\n")
	fmt.Fprintf(&b, "pfc: {quanta: %d}\n", 40000+upTo(25000))
	fmt.Fprintf(&b, "watchdog: {action: %s, detection: %dms}\n", pick("alert", "drop", "forward", "off"),
		4000+upTo(1000))
	fmt.Fprintf(&b, "forwarding: {ageing: %ds}\n", 100+upTo(400))
	fmt.Fprintf(&b, "ports:\n")
	for port, vlans := range []string{"1, 100, 101", "1, 100, 102", "1, 100-102"} {
		fmt.Fprintf(&b, "  - {device: port%d, speed: 20M, vlans: [%s, %d], mac_limit: %d}\n", port+1, vlans,
			200+upTo(50), 10+upTo(10))
	}
	if fourth {
		fmt.Fprintf(&b, "  - {device: port4, speed: 20M, vlans: [1]}\n")
	}
	return b.String()
}

// TestThousandReloads reloads a switch a thousand times while two hosts overload a third. No
// lossless frame may be lost, frames must stay in order, and nothing may leak. Every hundredth file
// is invalid and must change nothing.
func TestThousandReloads(t *testing.T) {
	reloads := 1000
	if testing.Short() {
		reloads = 50
	}
	s := program.NewSite(t, 4)
	before, files := statesOf(t, s), program.Remembered(t, s)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	control := program.WithSocket(t, "")
	p := program.StartSwitch(t, s.Home, reloadable(random, false)+control)
	file := p.Args[len(p.Args)-2]
	c := newCrew(t, s, 3, []int{target, 1, 2}, map[int][]traffic.Flow{
		1: {flowToTarget(1, 1, lossless), flowToTarget(2, 1, lossy)},
		2: {flowToTarget(3, 2, lossless), flowToTarget(4, 2, lossy)}})
	c.more(100, 1, 2, 3, 4)
	refused, settled := 0, 0.0 // settled: bytes resident after a tenth of the reloads
	for i := 1; i <= reloads; i++ {
		if i%100 == 50 {
			refused++
			write(t, file, "memory: {buffers: 65536}\n"+reloadable(random, false)+control)
			p.Signal(unix.SIGHUP)
			p.Await(refused, "msg=\"configuration not reloaded", "memory.buffers can't change while the switch runs",
				"it is 32768 now")
		}
		write(t, file, reloadable(random, i%20 >= 15)+control) // with port4 in five of every twenty
		p.Signal(unix.SIGHUP)
		p.Await(i, "msg=\"configuration reloaded\"")
		if i == reloads/10 {
			settled = p.Memory("VmRSS")
		}
	}
	if now := p.Memory("VmRSS"); now > settled+32e6 {
		t.Errorf("%.1f MB resident after %d reloads, %.1f after %d", now/1e6, reloads, settled/1e6, reloads/10)
	}
	c.more(100, 1, 2, 3, 4)
	c.settle(1, 3)
	sent, got := c.sent(), c.received()
	c.leave()
	r := p.Stop()
	checkRestored(t, s, before, files)
	checkLossless(t, r, sent, got, 1, 3)
	for _, id := range []uint32{2, 4} {
		if f := got[id]; f.Missing == 0 || f.Reordered+f.Duplicates+f.Stale > 0 {
			t.Errorf("lossy flow %d: sent %d, received %+v: want some lost, and order", id, sent[id], f)
		}
	}
}

// TestHangupsToTheEnd sends SIGHUP continuously to a switch until it has ended. It must end
// normally.
func TestHangupsToTheEnd(t *testing.T) {
	s := program.NewSite(t, 2)
	for range 10 {
		p := program.StartSwitch(t, s.Home, "ports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}]\n")
		for i := 0; !p.HasEnded(); i++ {
			if i == 200 {
				p.Signal(unix.SIGTERM)
			}
			_ = p.Process.Signal(unix.SIGHUP) // it may have ended
			time.Sleep(100 * time.Microsecond)
		}
		if code := p.ExitCode(); code != 0 || p.Output.Len() == 0 {
			t.Fatalf("exit code %d, with %d bytes of a report", code, p.Output.Len())
		}
	}
}

// write replaces a file atomically, as editors do.
func write(t *testing.T, file, text string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(file), "next")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
}

// TestPortsWaitForTheirDevices checks that a port whose device does not exist yet waits for it, at
// the start and after a reload, and that the switch says so.
func TestPortsWaitForTheirDevices(t *testing.T) {
	s := program.NewSite(t, 2)
	text := "ports:\n  - {device: port1, speed: 1G}\n  - {device: later0, speed: 1G}\n"
	control := program.WithSocket(t, "")
	file := readable(t, text+control)
	p := program.Launch(t, s.Home, "run", "-c", file, "--json")
	p.Await(1, "msg=forwarding")
	p.Await(1, `msg="port waits`, "port=later0", "sluice.yaml:3:14", "ip link")
	write(t, file, text+"  - {device: later1, speed: 1G}\n"+control)
	p.Signal(unix.SIGHUP)
	p.Await(1, `msg="port waits`, "port=later1", "sluice.yaml:4:14")
	for _, name := range []string{"later0", "later1"} {
		if err := s.Lab.Veth(s.Home, name, s.Hosts[0], "of-"+name); err != nil {
			t.Fatal(err)
		}
		p.Await(1, `msg="link changed"`, "port="+name, "up=true")
	}
	if r := p.Stop(); len(r.Ports) != 3 {
		t.Errorf("%d ports", len(r.Ports))
	}
}
