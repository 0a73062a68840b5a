package afxdp

import (
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/sys/unix"

	"sluice/internal/netdev"
)

// wholeBuffers are drivers that use all of the room of a buffer in zero-copy mode, by their source
// in Linux 6.18: i40e and ice program it in units of 128 bytes (i40e_configure_rx_ring,
// ice_setup_rx_ctx), of which it is a multiple; virtio_net passes it on (virtnet_add_recvbuf_xsk).
var wholeBuffers = []string{"i40e", "ice", "virtio_net"}

// kibibytes are drivers that program it in whole KiB and so lose the rest: BSIZEPKT of the register
// SRRCTL (igb_setup_srrctl, igc_configure_rx_ring; ixgbe_configure_srrctl for the 82599). They
// spread a longer frame over two buffers, which arrive as two frames.
var kibibytes = []string{"igb", "igc", "ixgbe"}

// room returns how many bytes of frames buffers of size bytes hold, after the space reserved for
// XDP and this driver.
func room(size int) int { return size - unix.XDP_PACKET_HEADROOM - headroom }

// usable returns how many of the room bytes of a buffer a driver fills in zero-copy mode. Of an
// unknown driver it assumes only the largest power of two, the coarsest unit that is in use.
func usable(driver string, room int) int {
	switch {
	case slices.Contains(wholeBuffers, driver):
		return room
	case slices.Contains(kibibytes, driver):
		return room &^ (1<<10 - 1)
	}
	return 1 << (bits.Len(uint(room)) - 1)
}

// MaxMTU returns the largest MTU in bytes for buffers of size bytes. A buffer holds one whole frame
// with header and tag.
func MaxMTU(size int) int { return room(size) - ethernetHeader - tag }

// MaxZeroCopyMTU returns the largest MTU in bytes for buffers of size bytes in zero-copy mode,
// which is lower than MaxMTU for drivers that do not use all of a buffer.
func MaxZeroCopyMTU(driver string, size int) int {
	return usable(driver, room(size)) - ethernetHeader - tag
}

// checkZeroCopy returns why frames of the device's MTU would not arrive whole in zero-copy mode. It
// leaves a device without that mode to the kernel, which refuses it.
func (d device) checkZeroCopy(size int) error {
	features, err := netdev.FeaturesOf(d.index)
	limit := MaxZeroCopyMTU(d.driver, size)
	if d.mtu <= limit || err == nil && features&netdev.ZeroCopy == 0 {
		return nil
	}
	advice := fmt.Sprintf("lower it with `ip link set dev %s mtu %d`", d.name, limit)
	if page := unix.Getpagesize(); size < page && d.mtu <= MaxZeroCopyMTU(d.driver, page) {
		advice = fmt.Sprintf("set memory.buffer_size to %dB", page)
	}
	return fmt.Errorf("its driver would split frames of an MTU above %d over two buffers of %d bytes, and the MTU is "+
		"%d: %s", limit, size, d.mtu, advice)
}
