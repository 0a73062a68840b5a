package afxdp

import (
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/sys/unix"

	"sluice/internal/netdev"
)

// wholeBuffers are drivers that use all of the room of a buffer in zero-copy mode, by their source
// in Linux: i40e and ice program it in units of 128 bytes (i40e_configure_rx_ring,
// ice_setup_rx_ctx), of which it is a multiple; mlx5_core refuses buffers that frames of the MTU do
// not fit (mlx5e_validate_xsk_param); virtio_net passes it on (virtnet_add_recvbuf_xsk).
var wholeBuffers = []string{"i40e", "ice", "mlx5_core", "virtio_net"}

// kibibytes are drivers that program it in whole KiB and lose the rest: BSIZEPKT of the register
// SRRCTL (igb_setup_srrctl, igc_configure_rx_ring; of ixgbe's devices only the 82599,
// ixgbe_configure_srrctl). A longer frame is lost, or arrives as two: igb, run in QEMU.
var kibibytes = []string{"igb", "igc", "ixgbe"}

// replaying are drivers that deliver buffers twice in zero-copy mode once the fill ring has run
// empty, so that frames are damaged or overtaken: igb, run in QEMU.
var replaying = []string{"igb"}

// Replays reports whether a driver is known to damage frames in zero-copy mode. Auto leaves that
// mode to other drivers.
func Replays(driver string) bool { return slices.Contains(replaying, driver) }

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

// checkZeroCopy returns ErrSplit if frames of the device's MTU would not arrive whole in zero-copy
// mode. It leaves a device without that mode to the kernel, which refuses it.
func (d device) checkZeroCopy(size int) error {
	limit := MaxZeroCopyMTU(d.driver, size)
	if d.mtu <= limit {
		return nil
	}
	if features, err := netdev.FeaturesOf(d.index); err == nil && features&netdev.ZeroCopy == 0 {
		return nil
	}
	advice := fmt.Sprintf("run `ip link set dev %s mtu %d`", d.name, limit)
	if page := unix.Getpagesize(); size < page && d.mtu <= MaxZeroCopyMTU(d.driver, page) {
		advice = fmt.Sprintf("set memory.buffer_size to %dB", page)
	}
	return fmt.Errorf("%w: buffers of %d bytes are enough for an MTU of %d there, and the MTU is %d: %s",
		ErrSplit, size, limit, d.mtu, advice)
}
