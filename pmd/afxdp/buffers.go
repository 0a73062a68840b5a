package afxdp

import (
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"

	"sluice/internal/netdev"
)

// ReceiveRing returns how many entries the RX ring of a port has in zero-copy mode: ring, unless
// the driver must never run short of buffers. Then an RX ring full of frames leaves some of the
// port's buffers, even if the device's own ring is full of them, too. ErrReplay: there are too few
// buffers for that.
func ReceiveRing(driver string, ring, buffers, deviceRing int) (int, error) {
	if !drivers[driver].Replays {
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
	if unit := drivers[driver].unit; unit > 0 {
		return n - n%unit
	}
	return 1 << (bits.Len(uint(n)) - 1)
}

// MaxMTU returns the largest MTU in bytes for buffers of size bytes. A buffer holds one whole frame
// with header and tag.
func MaxMTU(size int) int { return room(size) - ethernetHeader - tag }

// maxZeroCopyMTU returns the largest MTU in bytes with which buffers of size bytes hold all frames
// that a device delivers in zero-copy mode; 0 or less: none.
func maxZeroCopyMTU(driver string, size int) int {
	t, n := drivers[driver], usable(driver, size)
	if n < t.accepts {
		return 0
	}
	most := n - ethernetHeader - tag
	if t.mostMTU > 0 {
		most = min(most, t.mostMTU)
	}
	return most
}

// KernelMTU returns the largest MTU in bytes with which kernels from 6.12 on allow zero-copy mode
// with buffers of size bytes, whatever the driver: xp_assign_dev rounds the room of a buffer down
// and compares it with a frame with header, two tags and checksum. 6.1 has no such limit.
func KernelMTU(size int) int {
	const unit, overhead = 128, ethernetHeader + 2*tag + 4
	n := room(size)
	return n - n%unit - overhead
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
	if drivers[driver].unit == 0 {
		why = fmt.Sprintf("it is not known whether the driver %s fills more than %d bytes of a buffer of %d", driver,
			usable(driver, size), size)
	}
	return enough, fmt.Errorf("%w: %s, and the MTU is %d", ErrRoom, why, mtu)
}

// checkZeroCopy returns why frames of the device would be lost in zero-copy mode, or not arrive
// whole. It leaves a device without that mode to the kernel, which refuses it.
func (d device) checkZeroCopy(size int) error {
	err := d.checkDescriptors()
	if err == nil {
		err = d.checkRoom(size)
	}
	if err == nil {
		return nil
	}
	if features, unknown := netdev.FeaturesOf(d.index); unknown == nil && features&netdev.ZeroCopy == 0 {
		return nil
	}
	return err
}

// checkRoom is WholeFrames for the device, with a fix.
func (d device) checkRoom(size int) error {
	switch enough, err := WholeFrames(d.driver, d.mtu, size); {
	case err == nil:
		return nil
	case enough == 0:
		return fmt.Errorf("%w: lower it, or choose copy mode", err)
	default:
		return fmt.Errorf("%w: set memory.buffer_size to %dB", err, enough)
	}
}

// refusesZeroCopy explains the kernel's refusal of zero-copy mode.
func (d device) refusesZeroCopy(err error, size int) error {
	err = fmt.Errorf("%w: %w", ErrZeroCopy, err)
	most := KernelMTU(size)
	if d.mtu <= most || !errors.Is(err, unix.EINVAL) {
		return err
	}
	return fmt.Errorf("%w: kernels from 6.12 on allow an MTU of at most %d with buffers of %d bytes, and it is %d: "+
		"lower it, or use larger buffers", err, most, size, d.mtu)
}
