// Package pmd is the poll-mode driver interface: how a worker exchanges bursts of frames with a
// port.
//
// All frames live in one memory of equally sized buffers (the UMEM). A port owns no memory: the
// worker hands it empty buffers for reception and gets them back filled, and hands it frames to
// send and gets their buffers back after the frames have left. An address is a byte offset into
// that memory.
//
// A frame that is too long for one buffer has several parts, each in a buffer and with a descriptor
// of its own, in order. Only whole frames change hands. Rings, buffers and completions count parts.
//
// The drivers are sub-packages: afxdp for real devices, mem for wires in memory.
package pmd

// Desc describes a frame of a burst, or a part of one. It is laid out like the kernel's struct
// xdp_desc (linux/if_xdp.h), so bursts are copied to and from the kernel's rings as they are.
type Desc struct {
	Addr    uint64 // byte offset of the first byte in the memory
	Len     uint32 // bytes, without FCS
	Options uint32 // Continued, or 0
}

// Continued in Desc.Options says that the frame goes on in the next descriptor (XDP_PKT_CONTD,
// linux/if_xdp.h). It is set in all parts of a frame but the last.
const Continued = 1

// MaxParts is the most parts that a frame has: Linux makes no more of one (MAX_SKB_FRAGS + 1,
// linux/skbuff.h).
const MaxParts = 18

// Port is one port of a poll-mode driver. Its methods work on bursts and never block. Except for
// Stats, they belong to the one worker that owns the port.
type Port interface {
	// Fill hands over empty buffers to receive into. It returns how many of addrs were taken,
	// starting with the first.
	Fill(addrs []uint64) int
	// Receive stores as many received frames in burst as wait and fit, and returns the number of
	// descriptors: 0 also if the first frame has more parts than burst has room for. Every frame
	// fits MaxParts. The caller then owns the buffers, each with room for at least a VLAN tag in
	// front of its bytes.
	Receive(burst []Desc) int
	// Waiting returns the number of descriptors that wait for Receive, or 0 if the driver can't
	// know it.
	Waiting() int
	// Transmit hands over frames in order; burst ends with the last part of one. It returns how
	// many descriptors were taken, starting with the first: those of whole frames. They can't be
	// called back; their buffers return through Complete.
	Transmit(burst []Desc) int
	// Complete stores the addresses of up to len(addrs) buffers whose bytes have left and returns
	// their number. An address may lie anywhere inside its buffer. The buffers of a frame may
	// return in several calls.
	Complete(addrs []uint64) int
	// Flush makes everything handed over visible to the device, with at most one wake-up per
	// direction.
	Flush()
	// Stats returns the driver's own counters. Any goroutine may call it.
	Stats() Stats
}

// Stats counts events between the device and the worker since the port was opened. The first six
// are the kernel's XDP_STATISTICS (linux/if_xdp.h, struct xdp_statistics). A driver leaves counters
// that it doesn't have at 0.
type Stats struct {
	RXDropped   uint64 // frames dropped for reasons other than a full RX ring, including an empty fill ring
	RXInvalid   uint64 // invalid descriptors in the fill ring
	TXInvalid   uint64 // invalid descriptors in the TX ring
	RXRingFull  uint64 // frames dropped because the RX ring was full
	RXFillEmpty uint64 // times the kernel wanted a buffer and the fill ring was empty
	TXRingEmpty uint64 // times the kernel looked for a frame and the TX ring was empty

	RXCorrupt uint64 // frames received with a wrong FCS: damaged on the wire, so not lost by the driver
	TXDropped uint64 // frames that the kernel accepted and dropped: the device was full or had no link
	TXRefused uint64 // frames that the device dropped because its peer had no room for them
	TXWakeups uint64 // system calls made to start sending
	RXWakeups uint64 // system calls made to start receiving
}

// Lost returns the number of frames that the driver is known to have lost in both directions.
// RXDropped includes frames that found no buffer.
func (s Stats) Lost() uint64 {
	return s.RXDropped + s.RXRingFull + s.TXInvalid + s.TXDropped + s.TXRefused
}
