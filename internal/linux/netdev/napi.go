package netdev

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	napiGet          = 11 // NETDEV_CMD_NAPI_GET
	napiSet          = 14 // NETDEV_CMD_NAPI_SET
	napiDevice       = 1  // NETDEV_A_NAPI_IFINDEX
	napiID           = 2  // NETDEV_A_NAPI_ID
	napiThread       = 4  // NETDEV_A_NAPI_PID
	napiThreaded     = 8  // NETDEV_A_NAPI_THREADED
	napiThreadedTrue = 1
)

// ThreadNAPI gives each NAPI instance of a device in the calling thread's network namespace a
// kernel thread on one CPU. It returns the threads' IDs. Needs Linux 6.17.
func ThreadNAPI(device string, cpu int) (threads []int, err error) {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return nil, err
	}
	pollers, err := getNAPI(link.Attrs().Index)
	if err != nil {
		return nil, err
	}
	for _, p := range pollers {
		if _, err := ask(napiSet, 0,
			nl.NewRtAttr(napiID, nl.Uint32Attr(p[napiID])),
			nl.NewRtAttr(napiThreaded, nl.Uint32Attr(napiThreadedTrue))); err != nil {
			return nil, fmt.Errorf("start a thread for NAPI %d (needs Linux 6.17): %w", p[napiID], err)
		}
	}
	if pollers, err = getNAPI(link.Attrs().Index); err != nil {
		return nil, err
	}
	var set unix.CPUSet
	set.Set(cpu)
	for _, p := range pollers {
		thread := int(p[napiThread])
		if err := unix.SchedSetaffinity(thread, &set); err != nil {
			return nil, fmt.Errorf("bind NAPI thread %d to CPU %d: %w", thread, cpu, err)
		}
		threads = append(threads, thread)
	}
	if len(threads) == 0 {
		return nil, fmt.Errorf("%s has no NAPI", device)
	}
	return threads, nil
}

// getNAPI returns the numeric attributes of a device's NAPI instances.
func getNAPI(device int) (pollers []map[uint16]uint32, err error) {
	messages, err := ask(napiGet, unix.NLM_F_DUMP, nl.NewRtAttr(napiDevice, nl.Uint32Attr(uint32(device))))
	if err != nil {
		return nil, fmt.Errorf("query NAPI: %w", err)
	}
	for _, m := range messages {
		p := map[uint16]uint32{}
		for _, a := range m {
			if len(a.Value) == 4 {
				p[a.Attr.Type] = binary.NativeEndian.Uint32(a.Value)
			}
		}
		pollers = append(pollers, p)
	}
	return pollers, nil
}
