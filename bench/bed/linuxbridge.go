package bed

import (
	"context"
	"fmt"
	"strconv"

	"github.com/vishvananda/netlink"

	"sluice/bench/netns"
	"sluice/internal/ethtool"
	"sluice/internal/netdev"
)

// LinuxBridge is the kernel's own switch: a bridge device with the site's devices as its ports, as
// it comes (it learns, and has no spanning tree). It has no loop of its own but works wherever a
// frame is received, which on veth is the CPU of whoever sends. Here each port's receiver is a
// kernel thread on the forwarder's CPU (threaded NAPI), so that the bridge has a whole CPU and the
// generator the other, as for everybody else.
//
// The comparison leans a little to the others: with them the first half of reception, up to the XDP
// program that hands a frame to its socket, is done on the generator's CPU.
type LinuxBridge struct {
	site    *netns.Namespace
	threads kernelThreads
}

// bridgeDevice is what the bridge is called.
const bridgeDevice = "bridge"

// Name implements Forwarder.
func (b *LinuxBridge) Name() string { return "linux_bridge" }

// Start implements Forwarder.
func (b *LinuxBridge) Start(_ context.Context, s Site) error {
	b.site, b.threads = s.Namespace, nil
	if err := s.Namespace.Do(func() error { return b.build(s) }); err != nil {
		return fmt.Errorf("bench: Linux bridge: %w", err)
	}
	return nil
}

func (b *LinuxBridge) build(s Site) error {
	if err := addBridge(s.Devices...); err != nil {
		return err
	}
	for _, d := range s.Devices {
		if err := meetXDP(d); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
		threads, err := netdev.ThreadNAPI(d, s.CPU)
		if err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
		b.threads = append(b.threads, threads...)
	}
	return nil
}

// addBridge makes a bridge of devices in the calling thread's network namespace.
func addBridge(devices ...string) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeDevice, TxQLen: -1}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("add bridge: %w", err)
	}
	for _, d := range devices {
		link, err := netlink.LinkByName(d)
		if err == nil {
			err = netlink.LinkSetMaster(link, bridge)
		}
		if err != nil {
			return fmt.Errorf("%s into bridge: %w", d, err)
		}
	}
	return netlink.LinkSetUp(bridge)
}

// meetXDP makes a veth device whose peer runs XDP programs behave like one at a cable. It takes
// what such a program redirects to it if it has one itself or, as here, generic receive offload,
// which finds nothing to merge in the frames of tests. And it sends tags as bytes of the frame
// rather than beside it, where such a program would not see them.
func meetXDP(device string) error {
	tool, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.SetFeatures(device, map[string]bool{"rx-gro": true, "tx-vlan-hw-insert": false})
}

// Stop implements Forwarder.
func (b *LinuxBridge) Stop() error {
	return b.site.Do(func() error {
		bridge, err := netlink.LinkByName(bridgeDevice)
		if err != nil {
			return err
		}
		return netlink.LinkDel(bridge)
	})
}

// Threads returns the kernel's threads that receive, by their numbers.
func (b *LinuxBridge) Threads() (map[string]Thread, error) { return b.threads.read() }

// kernelThreads are threads of the kernel, by their numbers.
type kernelThreads []int

func (k kernelThreads) read() (map[string]Thread, error) {
	all := map[string]Thread{}
	for _, n := range k {
		t, err := ReadThread(fmt.Sprintf("/proc/%d", n))
		if err != nil {
			return nil, err
		}
		t.Sleeps = true
		all[strconv.Itoa(n)] = t
	}
	return all, nil
}
