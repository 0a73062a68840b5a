package afxdp

import (
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"

	"sluice/internal/netdev"
)

// filling is how a driver and its device fill buffers in zero-copy mode.
type filling struct {
	unit    int  // bytes: the driver programs a multiple and loses the rest of a buffer
	accepts int  // bytes: the device accepts frames of this length, whatever its MTU
	mostMTU int  // bytes: above it the device accepts frames of any length; 0: no such limit
	replays bool // it delivers buffers twice, and overwrites frames, once the fill ring has run empty
}

// fillings are the drivers of which this is known, by their source in Linux, and igb also by
// running it in QEMU. Frames that do not fit a buffer are lost, or arrive as two.
var fillings = map[string]filling{
	// The room of a buffer is a multiple of the 128 bytes that these program
	// (i40e_configure_rx_ring, ice_setup_rx_ctx).
	"i40e": {unit: 128}, "ice": {unit: 128},
	// mlx5e_validate_xsk_param refuses buffers that are too small.
	"mlx5_core": {unit: 1},
	// virtnet_add_recvbuf_xsk passes the room on.
	"virtio_net": {unit: 1},
	// BSIZEPKT of the register SRRCTL counts KiB. ixgbe depends on it for the 82599 only
	// (ixgbe_configure_srrctl), but its devices have the same driver name.
	"ixgbe": {unit: 1024},
	// igc_set_rx_mode and igb_set_rx_mode accept these lengths at least; 16 bytes of a time stamp
	// may come before a frame.
	"igc": {unit: 1024, accepts: 1648 + 16},
	"igb": {unit: 1024, accepts: 1536 + 16, mostMTU: 1510, replays: true},
}

// Replays reports whether a driver is known to damage frames in zero-copy mode when it runs short
// of buffers. Auto leaves that mode to other drivers.
func Replays(driver string) bool { return fillings[driver].replays }

// ReceiveRing returns how many entries the RX ring of a port has in zero-copy mode: ring, unless
// the driver must never run short of buffers. Then an RX ring full of frames leaves some of the
// port's buffers, even if the device's own ring is full of them, too. ErrReplay: there are too few
// buffers for that.
func ReceiveRing(driver string, ring, buffers, deviceRing int) (int, error) {
	if !Replays(driver) {
		return ring, nil
	}
	const received = 128 // by the worker, which has not replaced them yet
	rest := buffers - deviceRing - received
	if rest < 1 {
		return 0, fmt.Errorf("%w: %d buffers are too few for a device with a receive ring of %d", ErrReplay, buffers,
			deviceRing)
	}
	return min(ring, 1<<(bits.Len(uint(rest))-1)), nil
}

// room returns how many bytes of frames buffers of size bytes hold, after the space reserved for
// XDP and this driver.
func room(size int) int { return size - unix.XDP_PACKET_HEADROOM - headroom }

// usable returns how many bytes of a buffer of size bytes a driver fills in zero-copy mode. Of an
// unknown driver it assumes only the largest power of two.
func usable(driver string, size int) int {
	n := room(size)
	if f, known := fillings[driver]; known {
		return n - n%f.unit
	}
	return 1 << (bits.Len(uint(n)) - 1)
}

// MaxMTU returns the largest MTU in bytes for buffers of size bytes. A buffer holds one whole frame
// with header and tag.
func MaxMTU(size int) int { return room(size) - ethernetHeader - tag }

// maxZeroCopyMTU returns the largest MTU in bytes with which buffers of size bytes hold all frames
// that a device delivers in zero-copy mode; 0 or less: none.
func maxZeroCopyMTU(driver string, size int) int {
	f, n := fillings[driver], usable(driver, size)
	if n < f.accepts {
		return 0
	}
	most := n - ethernetHeader - tag
	if f.mostMTU > 0 {
		most = min(most, f.mostMTU)
	}
	return most
}

// WholeFrames returns ErrRoom if frames would not arrive whole in zero-copy mode: from a driver,
// with the device's MTU and buffers of size bytes. enough is a size of buffers with which they
// would; 0: there is none.
func WholeFrames(driver string, mtu, size int) (enough int, err error) {
	if mtu <= maxZeroCopyMTU(driver, size) {
		return size, nil
	}
	if page := unix.Getpagesize(); mtu <= maxZeroCopyMTU(driver, page) {
		enough = page
	}
	why := fmt.Sprintf("the driver %s fills only %d bytes of a buffer of %d", driver, usable(driver, size), size)
	if _, known := fillings[driver]; !known {
		why = fmt.Sprintf("it is not known whether the driver %s fills more than %d bytes of a buffer of %d", driver,
			usable(driver, size), size)
	}
	return enough, fmt.Errorf("%w: %s, and the MTU is %d", ErrRoom, why, mtu)
}

// checkZeroCopy returns why frames of the device would not arrive whole in zero-copy mode. It
// leaves a device without that mode to the kernel, which refuses it.
func (d device) checkZeroCopy(size int) error {
	enough, err := WholeFrames(d.driver, d.mtu, size)
	if err == nil {
		return nil
	}
	if features, unknown := netdev.FeaturesOf(d.index); unknown == nil && features&netdev.ZeroCopy == 0 {
		return nil
	}
	if enough == 0 {
		return fmt.Errorf("%w: lower it, or choose copy mode", err)
	}
	return fmt.Errorf("%w: set memory.buffer_size to %dB", err, enough)
}
