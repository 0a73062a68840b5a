// Package live is a host inside the kernel. It makes loads that no host in user space can make and
// responds to PFC within microseconds, as a NIC does. A Generator is an XDP program that runs for
// as long as required on frames that the kernel makes (BPF_PROG_RUN,
// Documentation/bpf/bpf_prog_run.rst). It builds frames, keeps to a rate per flow and honours PFC
// (IEEE 802.1Qbb). A Sink is an XDP program on a device. It counts received frames, detects loss,
// reordering and duplicates, measures latency, and receives PFC and PAUSE. An LLDPSocket exchanges
// LLDP frames beside it.
//
// Frames are the test frames of package line. But check and body are 0, because an XDP program has
// no time to compute them, and a Sink verifies neither. A Sink recognises test frames by their
// EtherType; those over UDP count as unknown.
//
// Times are of CLOCK_MONOTONIC, in ns. Package live needs root and Linux 6.0 or later.
package live

import (
	"encoding/binary"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
)

const (
	// MinSize and MaxSize bound a generated frame, in bytes without FCS. The kernel makes each
	// frame in a page that also holds its metadata. A Sink receives frames of any length.
	MinSize, MaxSize = 60, 3408

	// MostFlows bounds the flows of a generator: the program may look at all of them for each
	// frame.
	MostFlows = 256
)

// Flow is a stream of frames of one size. They have a tag unless VID and PCP are both 0.
type Flow struct {
	// identifies the flow at sinks: unique among the flows of a sink, and below SinkParams.Flows
	ID       uint32
	Dst, Src frame.MAC
	VID      uint16  // 0 to 4094
	PCP      uint8   // 0 to 7, that PFC pauses
	Size     int     // bytes without FCS, MinSize to MaxSize
	Rate     float64 // packets/s at the start; 0: as fast as possible; < 0: none, until SetRate
}

// Put writes the flow's first frame, with times, check and body of 0, into the first Size bytes of
// b. It returns the offset of the stamp.
func (f *Flow) Put(b []byte) (stamp int) {
	b = b[:f.Size]
	clear(b)
	stamp = frame.PutHeader(b, f.Dst, f.Src, f.VID, f.PCP, f.VID != 0 || f.PCP != 0, line.TestType)
	line.Stamp{Flow: f.ID}.PutFields(b[stamp:])
	binary.BigEndian.PutUint32(b[stamp+line.LengthAt:], uint32(f.Size-stamp))
	return stamp
}
