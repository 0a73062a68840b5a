package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/report/capture"
	"sluice/internal/report/console"
)

var (
	chaosTime = flag.Duration("chaos", time.Minute, "how long TestChaos lasts")
	chaosSeed = flag.Uint64("chaos-seed", 0, "the seed of TestChaos; 0: another one each time")
)

// chaos is a scene with random events, all of them on port 3 or in the program.
type chaos struct {
	*scene
	*rand.Rand
	clients []net.Conn // that send nothing
	happens []happening
}

type happening struct {
	name  string
	do    func(c *chaos)
	times int
}

func newChaos(x *scene, random *rand.Rand) *chaos {
	return &chaos{scene: x, Rand: random, happens: []happening{
		{name: "reload", do: (*chaos).reload},
		{name: "link", do: func(c *chaos) { c.downAndUp(c.Hosts[2], program.HostDevice) }},
		{name: "device down", do: func(c *chaos) { c.downAndUp(c.Home, "port3") }},
		{name: "device deleted", do: func(c *chaos) {
			program.OnLink(c.t, c.Home, "port3", netlink.LinkDel)
			c.pause()
			c.Veth(c.t, c.Home, "port3", c.Hosts[2], program.HostDevice)
		}},
		{name: "capture", do: (*chaos).capture},
		{name: "storm", do: func(c *chaos) {
			order := console.StormOrder{Device: "port3", CoS: []int{c.IntN(8)}, On: c.IntN(2) == 0}
			_, _ = c.client.Storm(c.t.Context(), order) // rejected if there is no such class
		}},
		{name: "port shut and opened", do: func(c *chaos) {
			for _, shut := range []bool{true, false} {
				// Rejected while there is no port 3.
				_, _ = c.client.Port(c.t.Context(), console.PortOrder{Device: "port3", Shut: shut})
				c.pause()
			}
		}},
		{name: "clear", do: (*chaos).clear},
		{name: "silent client", do: (*chaos).silent},
		{name: "log blocked", do: func(c *chaos) {
			c.block()
			c.pause()
			c.read()
		}},
		{name: "out of descriptors", do: (*chaos).starve},
		{name: "malformed netlink", do: func(c *chaos) {
			b := make([]byte, 1+c.IntN(200))
			for i := range b {
				b[i] = byte(c.Uint32())
			}
			c.netlink(b)
		}},
	}}
}

// pause waits up to 100 ms.
func (c *chaos) pause() { time.Sleep(time.Duration(c.IntN(100)) * time.Millisecond) }

func (c *chaos) downAndUp(at *netns.Namespace, device string) {
	program.OnLink(c.t, at, device, netlink.LinkSetDown)
	c.pause()
	program.OnLink(c.t, at, device, netlink.LinkSetUp)
}

// reload makes the switch read one of four configurations; one is invalid, and one has no port 3.
func (c *chaos) reload() {
	text, err := os.ReadFile(c.file)
	if err != nil {
		c.t.Fatal(err)
	}
	_, tail, _ := strings.Cut(string(text), "metrics:")
	one, _, _ := strings.Cut(slowSwitch, "  - {device: port3")
	variant := []string{
		slowSwitch, strings.Replace(slowSwitch, "share: 512KB", "share: 400KB", 1), one, slowSwitch + "wrong: key\n",
	}[c.IntN(4)]
	write(c.t, c.file, program.WithTransmitter(c.t, variant+"metrics:"+tail))
	if c.IntN(2) == 0 {
		c.Signal(unix.SIGHUP)
		return
	}
	// This client may give up before the answer.
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(c.IntN(200))*time.Millisecond)
	defer cancel()
	_, _ = c.client.Reload(ctx)
}

// capture starts a capture of port 3, and disconnects in the middle.
func (c *chaos) capture() {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(c.IntN(200))*time.Millisecond)
	defer cancel()
	response, err := c.client.Call(ctx, "GET", capture.Path+"?ports=port3")
	if err != nil {
		return // there is one already, or no port 3
	}
	_, _ = new(bytes.Buffer).ReadFrom(response.Body)
	response.Body.Close()
}

// clear clears counters, watermarks, or the FDB of port 3 or of all ports.
func (c *chaos) clear() {
	var err error
	switch c.IntN(4) {
	case 0:
		_, err = c.client.ClearCounters(c.t.Context())
	case 1:
		_, err = c.client.ClearWatermarks(c.t.Context())
	case 2:
		_, err = c.client.ClearFDB(c.t.Context(), console.FDBOrder{})
	case 3:
		_, _ = c.client.ClearFDB(c.t.Context(), console.FDBOrder{Device: "port3"}) // rejected while there is no port 3
	}
	if err != nil {
		c.t.Error(err)
	}
}

// silent opens ten silent connections to the metrics, or closes all of them.
func (c *chaos) silent() {
	if c.IntN(4) == 0 {
		for _, client := range c.clients {
			client.Close()
		}
		c.clients = nil
		return
	}
	for range 10 {
		var client net.Conn
		err := c.Home.Do(func() (err error) {
			client, err = net.DialTimeout("tcp", metricsAddress, time.Second)
			return err
		})
		if err == nil {
			c.clients = append(c.clients, client)
		}
	}
}

// starve briefly leaves the switch without further file descriptors.
func (c *chaos) starve() {
	restore := c.scene.starve()
	c.pause()
	restore()
}

// goroutines returns the switch's number of goroutines.
func (c *chaos) goroutines() int {
	body := getIn(clientIn(c.Home), "http://"+metricsAddress+"/metrics")
	_, after, _ := bytes.Cut(body, []byte("\ngo_goroutines "))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	n, _ := strconv.Atoi(string(line))
	return n
}

// open lists the switch's open files, with the details of its sockets.
func (c *chaos) open() (list string) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.Process.Pid))
	for _, file := range files {
		target, _ := os.Readlink(file)
		list += target + "\n"
		inode, isSocket := strings.CutPrefix(strings.TrimSuffix(target, "]"), "socket:[")
		for _, kind := range []string{"tcp", "unix", "netlink"} {
			table, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", c.Process.Pid, kind))
			for line := range strings.Lines(string(table)) {
				if isSocket && slices.Contains(strings.Fields(line), inode) {
					list += "\t" + kind + ": " + line
				}
			}
		}
	}
	return list
}

// settled closes the clients, and waits until port 3 is up and the switch is down to the given
// goroutines and resources. With zero resources it does not wait for these, but returns the current
// ones.
func (c *chaos) settled(goroutines int, want resources) (int, resources) {
	c.t.Helper()
	for _, client := range c.clients {
		client.Close()
	}
	c.clients = nil
	program.Until(c.t, "port 3 to be up", c.portUp)
	var now resources
	has := 0
	quiet := func() bool {
		has = c.goroutines()
		time.Sleep(20 * time.Millisecond) // until that connection is closed
		now = resourcesOf(c.t, c.Process.Pid)
		return has > 0 && (want == resources{} || has <= goroutines && now.descriptors <= want.descriptors &&
			now.mappings <= want.mappings)
	}
	for deadline := time.Now().Add(program.Patience); !quiet(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Errorf("%d goroutines and %+v, want at most %d and %+v\n%s", has, now, goroutines, want, c.open())
			break
		}
	}
	return has, now
}

// TestChaos runs random events on port 3 and in the program while the hosts behind ports 1 and 2
// exchange lossless frames. None may be lost, and afterwards nothing may remain of the events.
func TestChaos(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaos %v -chaos-seed %d", *chaosTime, seed)
	s := program.NewSite(t, 3)
	before, files := statesOf(t, s), program.Remembered(t, s)
	crew := newCrew(t, s, 2, []int{1, 2}, map[int][]traffic.Flow{1: {flow(1, 2, lossless)}, 2: {flow(3, 1, lossless)}})
	c := newChaos(enter(t, s, direct), rand.New(rand.NewPCG(seed, 0)))
	text, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	crew.more(50, 1, 3)
	warm := crew.received()
	time.Sleep(time.Second) // until the runtime's goroutines run and the clients are gone
	goroutines, resources := c.settled(0, resources{})
	for end := time.Now().Add(*chaosTime); time.Now().Before(end); {
		happens := &c.happens[c.IntN(len(c.happens))]
		happens.do(c)
		happens.times++
		c.pause()
	}
	write(t, c.file, string(text))
	if _, err := c.client.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	nowGoroutines, nowResources := c.settled(goroutines, resources)
	total := 0
	for _, h := range c.happens {
		total += h.times
		t.Logf("%-20s %d", h.name, h.times)
	}
	t.Logf("%d events; %d goroutines and %+v at first, %d and %+v at last", total, goroutines, resources, nowGoroutines,
		nowResources)
	crew.more(50, 1, 3)
	crew.settle(1, 3)
	c.Signal(unix.SIGTERM)
	if code := c.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	sent, got := crew.sent(), crew.received()
	for _, id := range []uint32{1, 3} {
		r := got[id]
		t.Logf("flow %d: sent %d, received %+v", id, sent[id], r)
		if r.Frames+r.Missing != sent[id] || r.Missing != warm[id].Missing || r.Reordered+r.Duplicates+r.Stale > 0 {
			t.Errorf("flow %d between the other ports: sent %d, received %+v, and %d were missing at first", id,
				sent[id], r, warm[id].Missing)
		}
	}
	crew.leave()
	var r program.Report
	c.Document(&r)
	if r.LosslessDrops > 0 {
		t.Errorf("%d lossless drops", r.LosslessDrops)
	}
	checkRestored(t, s, before, files)
}
