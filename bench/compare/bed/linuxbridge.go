package bed

import (
	"context"
	"fmt"
	"strconv"

	"github.com/vishvananda/netlink"

	"sluice/bench/netns"
	"sluice/internal/linux/ethtool"
	"sluice/internal/linux/netdev"
)

// LinuxBridge is the kernel's own switch: a bridge device with the site's devices as ports and
// default settings (it learns, and has no spanning tree). It has no loop of its own but runs where
// a frame is received, which on veth is the sender's CPU. Here each port's receiver is a kernel
// thread on the forwarder's CPU (threaded NAPI). So the bridge has a whole CPU and the generator
// the other, as for all forwarders.
//
// The comparison favours the others a little: for them, the first half of reception, up to the XDP
// program that hands a frame to its socket, runs on the generator's CPU.
type LinuxBridge struct {
	site    *netns.Namespace
	threads kernelThreads
}

// bridgeDevice is the name of the bridge.
const bridgeDevice = "bridge"

// Name implements Forwarder.
func (b *LinuxBridge) Name() string { return "linux_bridge" }

// Start implements Forwarder.
func (b *LinuxBridge) Start(_ context.Context, s Site) error {
	b.site, b.threads = s.Namespace, nil
	if err := s.Namespace.Do(func() error { return b.build(s) }); err != nil {
		return fmt.Errorf("bench: set up the Linux bridge: %w", err)
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

// addBridge creates a bridge of devices in the calling thread's network namespace.
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
			return fmt.Errorf("add %s to the bridge: %w", d, err)
		}
	}
	return netlink.LinkSetUp(bridge)
}

// meetXDP makes a veth device whose peer runs XDP programs behave like a device on a cable. A
// device accepts redirected frames only if it has an XDP program itself or, as here, generic
// receive offload, which finds nothing to merge in test frames. And the device sends tags in the
// frame rather than beside it, where the XDP program would not see them.
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

// Threads returns the receiving kernel threads, by their numbers.
func (b *LinuxBridge) Threads() (map[string]Thread, error) { return b.threads.read() }

// kernelThreads are kernel threads, by their numbers.
type kernelThreads []int

func (k kernelThreads) read() (map[string]Thread, error) {
	all := map[string]Thread{}
	for _, n := range k {
		t, err := readThread(fmt.Sprintf("/proc/%d", n))
		if err != nil {
			return nil, err
		}
		t.Sleeps = true
		all[strconv.Itoa(n)] = t
	}
	return all, nil
}
