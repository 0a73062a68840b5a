// Package pmd is the poll-mode driver interface: how a worker exchanges bursts of frames with a
// port.
//
// All frames live in one memory of equal buffers (the UMEM). A port never owns memory: empty
// buffers are handed to it for reception, filled ones come back, frames to send are handed over and
// their buffers come back once the frames have left. An address is a byte offset into that memory.
//
// Sub-packages are the drivers: afxdp for real devices, mem for wires that exist in memory only.
package pmd

// Desc is one frame of a burst. Its layout is the kernel's struct xdp_desc (linux/if_xdp.h), so
// that a burst crosses the kernel's rings by copy.
type Desc struct {
	Addr    uint64 // byte offset of the frame's first byte in the memory
	Len     uint32 // bytes, without FCS
	Options uint32 // driver flags; 0 for a frame that fits one buffer
}

// Port is one port of a poll-mode driver. Every call is a burst, returns at once and never blocks.
// All methods but Stats belong to the one worker that owns the port.
type Port interface {
	// Fill hands over empty buffers to receive into and returns how many of addrs, from the first
	// on, were taken.
	Fill(addrs []uint64) int
	// Receive stores up to len(burst) received frames and returns how many. Their buffers are the
	// caller's. In front of each frame its buffer has room for a VLAN tag at least.
	Receive(burst []Desc) int
	// Waiting returns how many frames have been received and wait for Receive, or 0 if the driver
	// can't know.
	Waiting() int
	// Transmit hands frames over in order and returns how many, from the first on, were taken. What
	// was taken can't be called back; its buffers return through Complete.
	Transmit(burst []Desc) int
	// Complete stores addresses of up to len(addrs) buffers whose frames have left and returns how
	// many. An address may lie anywhere inside its buffer.
	Complete(addrs []uint64) int
	// Flush makes everything handed over visible to the device, with at most one wake-up a
	// direction.
	Flush()
	// Stats returns what only the driver can count. Any goroutine may call it.
	Stats() Stats
}

// Stats counts what happens between the device and the worker, since the port was opened. The first
// six are the kernel's XDP_STATISTICS (linux/if_xdp.h, struct xdp_statistics); a driver without
// such a counter leaves 0.
type Stats struct {
	RXDropped   uint64 // frames dropped for other reasons than a full RX ring, an empty fill ring among them
	RXInvalid   uint64 // invalid descriptors in the fill ring
	TXInvalid   uint64 // invalid descriptors in the TX ring
	RXRingFull  uint64 // frames dropped because the RX ring was full
	RXFillEmpty uint64 // times the kernel wanted a buffer and the fill ring was empty
	TXRingEmpty uint64 // times the kernel looked for a frame and the TX ring was empty

	RXCorrupt uint64 // frames that arrived with a wrong FCS: damaged on the wire, so not among what the driver lost
	TXDropped uint64 // frames that the kernel took and dropped: a full device, or no link
	TXRefused uint64 // frames that the device dropped since its peer had no room for them
	TXWakeups uint64 // system calls made to start sending
	RXWakeups uint64 // system calls made to start receiving
}

// Lost returns how many frames the driver is known to have lost, both directions. A frame that
// found no buffer is among RXDropped.
func (s Stats) Lost() uint64 {
	return s.RXDropped + s.RXRingFull + s.TXInvalid + s.TXDropped + s.TXRefused
}
