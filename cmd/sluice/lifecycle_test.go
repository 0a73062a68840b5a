package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/cli"
	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/internal/linux/ethtool"
	"sluice/pfc"
	"sluice/pmd/afxdp"
)

// deviceState is the state of a device that a running switch may change.
type deviceState struct {
	Features    map[string]ethtool.Feature
	Channels    ethtool.Channels
	Qdiscs      []string
	Promiscuity int
	MTU         int
	Program     uint32 // ID of the XDP program
}

// stateOf reads the state of a device inside its namespace.
func stateOf(t *testing.T, n *netns.Namespace, device string) (s deviceState) {
	t.Helper()
	err := n.Do(func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		tool, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer tool.Close()
		var errs [3]error
		s.Features, errs[0] = tool.Features(device)
		s.Channels, errs[1] = tool.Channels(device)
		all, err := netlink.QdiscList(link)
		errs[2] = err
		for _, q := range all {
			if q.Type() == "noqueue" { // the kernel's default for a device that is up
				continue
			}
			s.Qdiscs = append(s.Qdiscs, fmt.Sprint(q.Type(), " ", q.Attrs()))
		}
		at := link.Attrs()
		s.Promiscuity, s.MTU = at.Promisc, at.MTU
		if at.Xdp != nil {
			s.Program = at.Xdp.ProgId
		}
		return errors.Join(errs[:]...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// statesOf reads the states of all ports of a site.
func statesOf(t *testing.T, s program.Site) (all []deviceState) {
	t.Helper()
	for i := range s.Hosts {
		all = append(all, stateOf(t, s.Home, fmt.Sprintf("port%d", i+1)))
	}
	return all
}

// sameStates compares the states of devices.
func sameStates(t *testing.T, before, after []deviceState) {
	t.Helper()
	for i := range before {
		a, b := before[i], after[i]
		for name, was := range a.Features {
			if now := b.Features[name]; now != was {
				t.Errorf("port%d: %s was %+v, is %+v", i+1, name, was, now)
			}
		}
		if a.Features, b.Features = nil, nil; !reflect.DeepEqual(a, b) {
			t.Errorf("port%d was %+v, is %+v", i+1, a, b)
		}
	}
}

// bpftool returns the output of `bpftool net` in a namespace, or "" if bpftool is not installed.
func bpftool(t *testing.T, n *netns.Namespace) string {
	t.Helper()
	cmd := exec.Command("bpftool", "net")
	if cmd.Err != nil {
		t.Log("without bpftool: only netlink was asked")
		return ""
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := errors.Join(n.Start(cmd), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// checkRestored compares a site with its state before the first switch was started on it.
func checkRestored(t *testing.T, s program.Site, before []deviceState, files []string) {
	t.Helper()
	sameStates(t, before, statesOf(t, s))
	for _, f := range program.Remembered(t, s) {
		if !slices.Contains(files, f) {
			t.Errorf("%s left behind", f)
		}
	}
}

// checkNoProgram checks that the ports of a site have no XDP program.
func checkNoProgram(t *testing.T, s program.Site) {
	t.Helper()
	for i, now := range statesOf(t, s) {
		if now.Program != 0 {
			t.Errorf("port%d has XDP program %d", i+1, now.Program)
		}
	}
	if out := bpftool(t, s.Home); strings.Contains(out, "port") {
		t.Errorf("bpftool net:\n%s", out)
	}
}

// TestKilled kills a switch repeatedly under load.
func TestKilled(t *testing.T) {
	const kills = 20
	// With two queues each, the switch must also set and restore the channels.
	s := program.NewSite(t, 2, netns.Queues(2))
	before, files := statesOf(t, s), program.Remembered(t, s)
	c := newCrew(t, s, 2, []int{1, 2}, map[int][]traffic.Flow{
		1: {flow(1, 2, lossless), flow(2, 2, lossy)}, 2: {flow(3, 1, lossless), flow(4, 1, lossy)}})
	text, _, _ := strings.Cut(slowSwitch, "  - {device: port3")
	killUnderLoad(t, s, c, text, kills)
	checkRestored(t, s, before, files)
}

// killUnderLoad kills a switch with two ports repeatedly while the hosts exchange flows 1 to 4, and
// then runs one to its end.
func killUnderLoad(t *testing.T, s program.Site, c *crew, text string, kills int) {
	t.Helper()
	var slowest time.Duration
	for range kills {
		p := program.StartSwitch(t, s.Home, text)
		slowest = max(slowest, p.Await(1, "msg=forwarding"))
		c.more(20, 1, 2, 3, 4)
		for i, now := range statesOf(t, s) {
			if now.Program == 0 || now.Promiscuity == 0 || now.Channels.RX != 1 ||
				now.Features["rx-vlan-hw-parse"].Active {
				t.Fatalf("port%d of a running switch: %+v: so this test shows nothing", i+1, now)
			}
		}
		if out := bpftool(t, s.Home); out != "" && !strings.Contains(out, "port2") {
			t.Fatalf("bpftool net does not show port2 of a running switch:\n%s", out)
		}
		p.Signal(unix.SIGKILL)
		if code := p.ExitCode(); code != -1 {
			t.Fatalf("exit code %d of a killed process", code)
		}
		checkNoProgram(t, s)
	}
	t.Logf("slowest start: %v", slowest)
	p := program.StartSwitch(t, s.Home, text)
	c.more(20, 1, 2, 3, 4)
	c.leave()
	checkBuffers(t, text, p.Stop())
}

// TestKilledAndReconfigured kills a switch and starts one with other ports. A device that is no
// longer a port must be restored at once, and a port that was never opened when the switch ends.
func TestKilledAndReconfigured(t *testing.T) {
	s := program.NewSite(t, 3)
	before, files := statesOf(t, s), program.Remembered(t, s)
	p := program.StartSwitch(t, s.Home, slowSwitch)
	p.Await(1, "msg=forwarding")
	p.Signal(unix.SIGKILL)
	if code := p.ExitCode(); code != -1 {
		t.Fatalf("exit code %d of a killed process", code)
	}
	killed := statesOf(t, s)
	program.OnLink(t, s.Home, "port2", netlink.LinkSetDown)

	text, _, _ := strings.Cut(slowSwitch, "  - {device: port3")
	p = program.Launch(t, s.Home, "run", "-c", readable(t, program.WithTransmitter(t, program.WithSocket(t, text))),
		"--json")
	p.Await(1, "restored the settings of a device after a killed switch", "device=port3")
	p.Await(1, "msg=forwarding")
	sameStates(t, []deviceState{killed[1], before[2]}, statesOf(t, s)[1:])
	p.Stop()
	checkRestored(t, s, before, files)
}

// TestKilledWhileStarting kills a switch at various times before it forwards, and then starts and
// stops one.
func TestKilledWhileStarting(t *testing.T) {
	const kills = 10
	s := program.NewSite(t, 2, netns.Queues(2))
	before, files := statesOf(t, s), program.Remembered(t, s)
	text, _, _ := strings.Cut(slowSwitch, "  - {device: port3")
	file := readable(t, program.WithSocket(t, text))
	p := program.StartSwitch(t, s.Home, text)
	start := p.Await(1, "msg=forwarding")
	p.Stop()
	changed := 0
	for i := range kills {
		p := program.Launch(t, s.Home, "run", "-c", file)
		time.Sleep(start/2 + start/2*time.Duration(i)/kills) // devices are opened late in the start
		p.Signal(unix.SIGKILL)
		p.ExitCode()
		checkNoProgram(t, s)
		if len(program.Remembered(t, s)) > len(files) {
			changed++
		}
		program.StartSwitch(t, s.Home, text).Stop()
		checkRestored(t, s, before, files)
	}
	if t.Logf("%d of %d had begun to change devices", changed, kills); changed == 0 {
		t.Error("so this test shows nothing")
	}
}

// TestTerminatedUnderLoad ends a switch while two hosts send more than the third can receive.
func TestTerminatedUnderLoad(t *testing.T) {
	s := program.NewSite(t, 3)
	before, files := statesOf(t, s), program.Remembered(t, s)
	c := newCrew(t, s, 1, []int{target, 1, 2}, map[int][]traffic.Flow{
		1: {flowToTarget(1, 1, lossless), flowToTarget(2, 1, lossy)},
		2: {flowToTarget(3, 2, lossless), flowToTarget(4, 2, lossy)}})
	p := program.StartSwitch(t, s.Home, slowSwitch)
	c.Start(2)
	c.more(300, 1, 2, 3, 4)

	p.Signal(unix.SIGTERM)
	p.Await(1, "msg=drained")
	c.StopSending() // the lossless flows remain paused for at least another 0.75 s
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	var r program.Report
	p.Document(&r)
	sent, got := c.sent(), c.received()
	c.leave()
	checkRestored(t, s, before, files)
	checkLossless(t, r, sent, got, 1, 3)
	received, passed, drops := r.Class(lossy)
	t.Logf("lossy: switch received %d, sent %d, dropped %v", received, passed, drops)
	for _, n := range drops {
		passed += n
	}
	if received != passed {
		t.Errorf("lossy: %d received, %d sent or dropped", received, passed)
	}
	if drops["queue_full"]+drops["ingress_full"] == 0 || drops["draining"] == 0 {
		t.Errorf("lossy drops %v: there was no congestion, or no load at the end", drops)
	}
}

// checkLossless compares the lossless frames that the hosts sent, the switch forwarded and the
// hosts received. None may be missing or out of order.
func checkLossless(t *testing.T, r program.Report, sent map[uint32]uint64, got map[uint32]traffic.Received,
	flows ...uint32) {
	t.Helper()
	var offered, arrived uint64
	for _, id := range flows {
		offered += sent[id]
		arrived += got[id].Frames
		if f := got[id]; f.Frames == 0 || f.Missing+f.Reordered+f.Duplicates+f.Stale > 0 {
			t.Errorf("lossless flow %d: sent %d, received %+v", id, sent[id], f)
		}
	}
	received, passed, drops := r.Class(lossless)
	t.Logf("lossless: hosts sent %d, switch received %d and sent %d, dropped %v, hosts received %d", offered, received,
		passed, drops, arrived)
	if len(drops) > 0 || r.LosslessDrops > 0 {
		t.Errorf("lossless frames dropped: %v", drops)
	}
	if received != offered || passed != offered || arrived != offered {
		t.Error("lossless frames lost")
	}
	xoff := uint64(0)
	for _, p := range r.Ports {
		xoff += p.PFC.XOFF
		if p.Driver.Lost() > 0 {
			t.Errorf("%s: lost between device and switch: %+v", p.Name, p.Driver)
		}
	}
	if xoff == 0 {
		t.Error("nobody was told to stop: there was no congestion")
	}
}

// resources are the resources of a process that a driver could leak.
type resources struct {
	descriptors, mappings int // mappings of sockets
	resident              int // bytes
}

func resourcesOf(t *testing.T, pid int) (r resources) {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return resources{len(files), strings.Count(string(maps), "socket:"), pages * os.Getpagesize()}
}

// checkBuffers checks that at the end all buffers are free except those that the ports always keep
// for reception and for PFC frames.
func checkBuffers(t *testing.T, text string, r program.Report) {
	t.Helper()
	c, err := config.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	translated, err := params.Of(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := make([]int, len(r.Workers))
	for _, p := range translated.Ports {
		kept[p.Worker] += p.Buffers + dataplane.OwnBuffers
	}
	for i, w := range r.Workers {
		if w.Free != w.Buffers-kept[i] {
			t.Errorf("worker %d: %d of %d buffers are free, want all but %d", i, w.Free, w.Buffers, kept[i])
		}
	}
}

// socket is a host that receives and sends through the kernel's stack, independently of the
// project's code.
type socket struct {
	t  *testing.T
	fd int
	b  [2048]byte
}

// newSocket opens a packet socket on the device of a host.
func newSocket(t *testing.T, at *netns.Namespace) *socket {
	t.Helper()
	s := &socket{t: t, fd: -1}
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network order
	err := at.Do(func() error {
		device, err := netlink.LinkByName(program.HostDevice)
		if err != nil {
			return err
		}
		if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
			all); err != nil {
			return err
		}
		return unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: device.Attrs().Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hear waits for that many frames to an address.
func (s *socket) hear(frames int, to frame.MAC) {
	s.t.Helper()
	program.Until(s.t, fmt.Sprintf("%d frames to %v", frames, to), func() bool {
		for frames > 0 {
			n, err := unix.Read(s.fd, s.b[:])
			if err == unix.EAGAIN {
				return false
			}
			if err != nil && err != unix.ENETDOWN { // reported once if the device was down
				s.t.Fatal(err)
			}
			if n > 14 && frame.MACFrom(s.b[:]) == to {
				frames--
			}
		}
		return true
	})
}

// say sends a short frame.
func (s *socket) say(from, to frame.MAC) {
	s.t.Helper()
	b := make([]byte, 60)
	frame.PutHeader(b, to, from, 0, 0, false, 0x88b5)
	if _, err := unix.Write(s.fd, b); err != nil {
		s.t.Fatal(err)
	}
}

func (s *socket) close() {
	s.t.Helper()
	if err := unix.Close(s.fd); err != nil {
		s.t.Fatal(err)
	}
}

// TestDeviceGoesAndComes removes one of three devices in all possible ways while frames are being
// sent to it.
func TestDeviceGoesAndComes(t *testing.T) {
	s := program.NewSite(t, 3)
	p := program.StartSwitch(t, s.Home, slowSwitch)
	half := func(f traffic.Flow) traffic.Flow { f.Rate = slowSpeed / 2; return f }
	c := newCrew(t, s, 2, []int{1, 2}, map[int][]traffic.Flow{
		1: {half(flow(1, 2, lossless)), half(flow(2, target, lossless))},
		2: {half(flow(3, 1, lossless)), half(flow(4, target, lossless))}})
	goAndCome(t, s, p, c, slowSwitch)
}

// goAndCome removes and restores the device of the target. The others exchange flows 1 and 3, and
// send the target flows 2 and 4.
func goAndCome(t *testing.T, s program.Site, p *program.Running, c *crew, text string) {
	t.Helper()
	c.more(50, 1, 3)
	warm := c.received() // frames sent before the receivers were ready don't count
	first, last := takeAway(t, s, p, c)
	t.Logf("after 3 times %+v, at last %+v", first, last)
	flat := 8 << 20 // bytes by which the runtime's memory may vary
	if *program.TXEngine == afxdp.TXTransmitter {
		flat = 16 << 20 // up to 10 MB here, after 10 deletions as after 60
	}
	if program.UnderRace() {
		flat = 64 << 20
	}
	if last.descriptors != first.descriptors || last.mappings != first.mappings || last.resident > first.resident+flat {
		t.Errorf("%+v have become %+v", first, last)
	}
	c.settle(1, 3)
	sent, got := c.sent(), c.received()
	for _, id := range []uint32{1, 3} {
		f := got[id]
		t.Logf("flow %d: sent %d, received %+v", id, sent[id], f)
		if f.Frames+f.Missing != sent[id] || f.Missing != warm[id].Missing || f.Reordered+f.Duplicates+f.Stale > 0 {
			t.Errorf("flow %d between the other ports: sent %d, received %+v, and %d were missing at first; hosts: "+
				"%+v, %+v",
				id, sent[id], f, warm[id].Missing, c.Ports[0].Stats(), c.Ports[1].Stats())
		}
	}
	r := p.Stop()
	checkBuffers(t, text, r)
	received, passed, drops := r.Class(lossless)
	t.Logf("lossless: hosts sent %v, switch received %d, sent %d, dropped %v", sent, received, passed, drops)
	if r.LosslessDrops > 0 || drops["port_gone"]+drops["port_down"] == 0 {
		t.Errorf("drops %v, %d of them for want of room: want only such as a link that is gone has", drops,
			r.LosslessDrops)
	}
}

// takeAway deletes and recreates the device of port 3 ten times, and then sets each end of it down
// and up. Each time, flows 1 and 3 of the other ports must continue, and the target must receive
// frames again. takeAway returns the switch's resources after three deletions and at the end.
func takeAway(t *testing.T, s program.Site, p *program.Running, c *crew) (first, last resources) {
	t.Helper()
	const deletions, flaps = 10, 3
	at := s.Hosts[target-1]
	downs, ups := 0, 1
	out := func() {
		t.Helper()
		downs++
		p.Await(downs, `msg="link changed" port=port3 up=false`)
		c.more(50, 1, 3)
	}
	back := func() {
		t.Helper()
		ups++
		p.Await(ups, `msg="link changed" port=port3 up=true`)
		host := newSocket(t, at)
		defer host.close()
		host.say(hostMAC(target), hostMAC(1))
		host.hear(50, hostMAC(target))
	}
	for i := range deletions {
		program.OnLink(t, s.Home, "port3", netlink.LinkDel)
		p.Await(i+1, `msg="port closed" port=port3`)
		out()
		s.Veth(t, s.Home, "port3", at, program.HostDevice)
		back()
		if i == 2 {
			first = resourcesOf(t, p.Process.Pid)
		}
	}
	for range flaps {
		program.OnLink(t, s.Home, "port3", netlink.LinkSetDown)
		out()
		program.OnLink(t, s.Home, "port3", netlink.LinkSetUp)
		back()
		program.OnLink(t, at, program.HostDevice, netlink.LinkSetDown)
		out()
		program.OnLink(t, at, program.HostDevice, netlink.LinkSetUp)
		back()
	}
	return first, resourcesOf(t, p.Process.Pid)
}

// TestDeviceSetDown sets a device down while many short frames are being sent to it. Most of the
// frames that the device holds then stay there. They must neither stop their senders nor keep the
// switch from ending.
func TestDeviceSetDown(t *testing.T) {
	for range 5 {
		if stayed := setDownUnderLoad(t); stayed > 0 {
			return
		}
	}
	t.Error("no frame was with the device, so this test shows nothing")
}

// setDownUnderLoad returns the number of frames that stayed with the device.
func setDownUnderLoad(t *testing.T) (stayed uint64) {
	t.Helper()
	s := program.NewSite(t, 3)
	p := program.StartSwitch(t, s.Home, strings.NewReplacer("20M", "1G", "256KB", "64KB", "128KB",
		"8KB").Replace(slowSwitch))
	short := func(f traffic.Flow) traffic.Flow { f.Size = 100; return f }
	c := newCrew(t, s, 3, []int{target, 2, 1}, map[int][]traffic.Flow{
		1: {short(flow(1, 2, lossless)), short(flowToTarget(2, 1, lossless))},
		2: {short(flowToTarget(3, 2, lossless))}})
	for i := range 8 {
		c.more(1000, 1, 2, 3)
		program.OnLink(t, s.Home, "port3", netlink.LinkSetDown)
		p.Await(i+1, `msg="link changed" port=port3 up=false`)
		time.Sleep(20 * time.Millisecond) // would be enough to stop the senders
		c.more(1000, 1)
		program.OnLink(t, s.Home, "port3", netlink.LinkSetUp)
	}
	program.OnLink(t, s.Home, "port3", netlink.LinkSetDown)
	p.Signal(unix.SIGTERM)
	p.Await(1, "msg=drained")
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	var r program.Report
	p.Document(&r)
	_, _, drops := r.Class(lossless)
	return drops["port_gone"]
}

// TestTerminatedWhilePaused ends a switch whose peer pauses it forever. The switch must end and
// report what it could not send.
func TestTerminatedWhilePaused(t *testing.T) {
	s := program.NewSite(t, 3)
	before, files := statesOf(t, s), program.Remembered(t, s)
	c := newCrew(t, s, 2, []int{target, 1}, map[int][]traffic.Flow{1: {flowToTarget(1, 1, lossless)}})
	p := program.StartSwitch(t, s.Home, slowSwitch)
	c.more(100, 1)
	pause := pfc.Frame{Enable: 1 << lossless}
	pause.Quanta[lossless] = 0xffff
	last, since := uint64(0), time.Now()
	program.Until(t, "the target to receive nothing more", func() bool {
		c.Calls <- func(int64) { c.List[0].Inject(pause) }
		if n := c.received()[1].Frames; n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
	p.Signal(unix.SIGTERM)
	for !p.HasEnded() {
		c.Calls <- func(int64) { c.List[0].Inject(pause) }
		time.Sleep(50 * time.Millisecond)
	}
	checkRefusal(t, p, cli.ExitFailure, []string{"not drained", "cells are still in use", "port3 has ",
		"its peer pauses 00001000"})
	c.leave()
	checkRestored(t, s, before, files)
	var r program.Report
	p.Document(&r)
	received, passed, drops := r.Class(lossless)
	t.Logf("received %d, sent %d, dropped %v", received, passed, drops)
	for why, n := range drops {
		if why != "port_gone" { // as far as the worker knows, these were sent
			passed += n
		}
	}
	if drops["port_down"] == 0 || received != passed {
		t.Error("what was not sent is not named")
	}
}

// TestPortIsTriedAgain checks that the switch retries a device whose problem may disappear without
// a change of its link, and logs each problem only once.
func TestPortIsTriedAgain(t *testing.T) {
	s := program.NewSite(t, 2)
	p := program.StartSwitch(t, s.Home, "ports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}]")
	mtu := func(bytes int) func(netlink.Link) error {
		return func(l netlink.Link) error { return netlink.LinkSetMTU(l, bytes) }
	}
	program.OnLink(t, s.Home, "port2", netlink.LinkSetDown)
	p.Await(1, `msg="port closed"`, "port=port2") // after up=false it checks that the device is down
	program.OnLink(t, s.Home, "port2", mtu(1400))
	program.OnLink(t, s.Home, "port2", netlink.LinkSetUp)
	p.Await(1, `msg="port stays down"`, "mtu 1500 is more than the 1400 of device port2")
	program.OnLink(t, s.Home, "port2", mtu(40000))
	p.Await(1, `msg="port stays down"`, "the MTU is too large for the buffers")
	lines := len(p.Log.Find([]string{"port=port2"}))
	time.Sleep(2200 * time.Millisecond) // it retries every second
	if more := p.Log.Find([]string{"port=port2"})[lines:]; len(more) > 0 {
		t.Errorf("%d lines more about a port of which all is said", len(more))
	}
	program.OnLink(t, s.Home, "port2", mtu(1500))
	p.Await(2, `msg="link changed"`, "port=port2", "up=true")
	p.Stop()
}
