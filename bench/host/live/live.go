// Package live is a host inside the kernel, for loads that no host in user space can make and
// answers to PFC within microseconds, as a NIC's are. A Generator is an XDP program that runs for
// as long as wanted on frames that the kernel makes (BPF_PROG_RUN,
// Documentation/bpf/bpf_prog_run.rst): it builds frames, keeps to a rate per flow and obeys PFC
// (IEEE 802.1Qbb). A Sink is an XDP program on a device: it counts what the device receives, finds
// loss, reordering and duplicates, measures latency, and hears PFC and PAUSE.
//
// Frames are test frames as package gen has them: same EtherType, same stamp. But their check is 0
// and their bodies are zeros, for an XDP program has no time for either; a Sink looks at neither.
// It knows them by their EtherType: test frames over UDP are unknown to it.
//
// Times are of CLOCK_MONOTONIC, in ns. It needs root, and a kernel of 6.0 or later.
package live

import "sluice/internal/frame"

const (
	// MinSize and MaxSize bound a frame, in bytes without FCS. The kernel makes each in a page,
	// beside what it needs to know of it.
	MinSize, MaxSize = 60, 3300

	// MostFlows bounds the flows of one generator: all are looked at for each frame.
	MostFlows = 256
)

// Flow is a stream of frames of one size. They have a tag unless VID and PCP are both 0.
type Flow struct {
	// tells flows apart at sinks: unique among all that one sink receives, and below its
	// SinkParams.Flows
	ID       uint32
	Dst, Src frame.MAC
	VID      uint16  // 0 to 4094
	PCP      uint8   // 0 to 7: what PFC pauses
	Size     int     // bytes without FCS, MinSize to MaxSize
	Rate     float64 // packets/s to begin with; 0: as fast as it goes; < 0: none, until SetRate
}
