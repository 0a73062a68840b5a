package afxdp

import (
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"

	"sluice/internal/linux/netdev"
	"sluice/pmd"
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

// BufferMTU returns the largest MTU in bytes with which each buffer of size bytes holds a whole
// frame with header and tag. With a larger one, frames have several parts.
func BufferMTU(size int) int { return room(size) - ethernetHeader - tag }

// MaxMTU returns the largest MTU in bytes with which frames fit pmd.MaxParts buffers of size bytes.
func MaxMTU(size int) int { return pmd.MaxParts*Part(size) - ethernetHeader - tag }

// Part returns how many bytes of a frame each part but the last has at least, in buffers of size
// bytes. In copy mode, a part fills the room of its buffer. In zero-copy mode, newer kernels keep
// room for a struct skb_shared_info at its end (xsk_pool_get_tailroom), and only buffers of a page
// are used for parts (ZeroCopySegments).
func Part(size int) int {
	if size < unix.Getpagesize() {
		return room(size)
	}
	return (room(size) - tailroom) / 128 * 128
}

// tailroom is the aligned size in bytes of struct skb_shared_info (linux/skbuff.h) with the default
// number of fragments.
const tailroom = 320

// Parts returns the most parts that a frame of a device with this MTU has in buffers of size bytes.
func Parts(mtu, size int) int {
	if mtu <= BufferMTU(size) {
		return 1
	}
	longest := mtu + ethernetHeader + tag
	return (longest + Part(size) - 1) / Part(size)
}

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

// ZeroCopySegments returns how many parts a frame has at most in zero-copy mode with buffers of
// size bytes, if the device can have one in this many buffers (netdev.Segments). It is 1 if a
// driver would not fill the parts of a frame as Part promises.
func ZeroCopySegments(driver string, size, segments int) int {
	if size < unix.Getpagesize() || usable(driver, size) < room(size) {
		return 1
	}
	return min(segments, pmd.MaxParts)
}

// WholeFrames returns ErrRoom if frames would be lost or split in zero-copy mode: from a driver
// whose device can have a frame in this many buffers (netdev.Segments), with the device's MTU and
// buffers of size bytes. enough is a size of buffers with which they would not; 0: there is none.
func WholeFrames(driver string, mtu, size, segments int) (enough int, err error) {
	fit := func(size int) bool {
		return mtu <= maxZeroCopyMTU(driver, size) ||
			mtu > BufferMTU(size) && Parts(mtu, size) <= ZeroCopySegments(driver, size, segments)
	}
	if fit(size) {
		return size, nil
	}
	page := unix.Getpagesize()
	if fit(page) {
		enough = page
	}
	if mtu > BufferMTU(page) && enough == 0 {
		return 0, fmt.Errorf("%w: the MTU is %d, so a frame needs %d buffers of %d bytes, and the driver %s has it in "+
			"%d at most: the largest MTU is %d", ErrRoom, mtu, Parts(mtu, page), page, driver,
			ZeroCopySegments(driver, page, segments), mostZeroCopyMTU(driver, page, segments))
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

// mostZeroCopyMTU returns the largest MTU in bytes that WholeFrames accepts.
func mostZeroCopyMTU(driver string, size, segments int) int {
	if n := ZeroCopySegments(driver, size, segments); n > 1 {
		return n*Part(size) - ethernetHeader - tag
	}
	return maxZeroCopyMTU(driver, size)
}

// checkRoom is WholeFrames for the device, with a fix.
func (d device) checkRoom(size int) error {
	segments, err := netdev.Segments(d.index)
	if err != nil {
		segments = 1
	}
	switch enough, err := WholeFrames(d.driver, d.mtu, size, segments); {
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
	if d.mtu <= most || d.mtu > BufferMTU(size) || !errors.Is(err, unix.EINVAL) {
		return err
	}
	return fmt.Errorf("%w: kernels from 6.12 on allow an MTU of at most %d with buffers of %d bytes, and it is %d: "+
		"lower it, or use larger buffers", err, most, size, d.mtu)
}
