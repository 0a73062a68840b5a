package traffic

import (
	"sluice/bench/traffic/line"
	"sluice/pfc"
	"sluice/pmd"
)

// Stats is a snapshot of a host's counters since New. Bytes are without FCS.
type Stats struct {
	Sent     []Sent     // in the order of Params.Flows and their streams
	Received []Received // flows with received frames, by ID

	Corrupt   uint64 // test frames that differ from what was sent; their flow counts them as missing
	Strangers uint64 // test frames to another address (flooded)
	Untracked uint64 // test frames of a flow that the sink does not track (Params.FlowIDs)
	Control   uint64 // MAC control frames other than PFC
	Others    uint64 // anything else
	Injected  uint64 // PFC frames sent

	PFC     pfc.ReceiverStats
	DCBX    *Agreement // nil: the host does not speak it
	Buffers Buffers
	Port    Counters
}

// Sent counts the frames of one flow at its source.
type Sent struct {
	ID     uint32 `json:"id"`
	Frames uint64 `json:"frames"` // taken by the port
	Bytes  uint64 `json:"bytes"`
}

// Received counts the frames of one flow at its sink. Sent and Received are final when the source
// has stopped and the wires are empty: the difference is the loss.
type Received struct {
	ID     uint32 `json:"id"`
	Frames uint64 `json:"frames"` // each frame once, without duplicates and stale frames
	Bytes  uint64 `json:"bytes"`
	// sequence numbers below the highest received one that have not arrived: lost so far
	Missing      uint64  `json:"missing"`
	Reordered    uint64  `json:"reordered"` // frames that came after one with a higher sequence number (RFC 4737, 3.3)
	Duplicates   uint64  `json:"duplicates"`
	Stale        uint64  `json:"stale"` // too late to tell from duplicates: about 4000 sequence numbers behind
	FromSchedule Latency `json:"from_schedule_ns"`
	FromWire     Latency `json:"from_wire_ns"`
}

// Latency is the latency of frames until the Step in which the sink received them. It begins when a
// frame was due by its flow's rate (FromSchedule: includes the time that PFC and the line held it
// back) or when it was handed to the port (FromWire).
//
// A quantile is at most 1/32 too high. All values are in ns.
type Latency struct {
	Mean  int64 `json:"mean"`
	P50   int64 `json:"p50"`
	P90   int64 `json:"p90"`
	P99   int64 `json:"p99"`
	P999  int64 `json:"p99.9"`
	P9999 int64 `json:"p99.99"`
	Max   int64 `json:"max"`
}

// LatencyOf returns the latency that a histogram has counted, or zeros without frames.
func LatencyOf(h *line.Histogram) Latency {
	at := func(share float64) int64 { return int64(h.Quantile(share)) }
	return Latency{Mean: int64(h.Mean()), P50: at(.5), P90: at(.9), P99: at(.99), P999: at(.999), P9999: at(.9999),
		Max: h.Max}
}

// Counters count all frames of a port, test frames or not. Bytes are without FCS.
type Counters struct {
	RXPackets uint64 `json:"rx_packets"`
	RXBytes   uint64 `json:"rx_bytes"`
	RXMissed  uint64 `json:"rx_missed"` // frames that found no buffer or no room in the ring
	RXErrors  uint64 `json:"rx_errors"` // frames that arrived damaged, and buffers that the driver refused
	TXPackets uint64 `json:"tx_packets"`
	TXBytes   uint64 `json:"tx_bytes"`
	TXDropped uint64 `json:"tx_dropped"` // frames dropped because the TX ring was full, or the peer's
	TXErrors  uint64 `json:"tx_errors"`  // frames that the driver took and dropped

	DuplicateCompletions uint64 `json:"duplicate_completions,omitempty"` // buffers that the driver completed twice

	BadIPChecksums        uint64 `json:"bad_ip_checksums,omitempty"`        // received in mode csum
	BadTransportChecksums uint64 `json:"bad_transport_checksums,omitempty"` // of TCP and UDP
	// frames that mode icmpecho can't answer
	Unanswered uint64 `json:"unanswered,omitempty"`
}

// with adds the driver's counters. Frames that the driver dropped do not count as sent.
func (c Counters) with(driver pmd.Stats) Counters {
	c.RXMissed = driver.RXDropped + driver.RXRingFull
	c.RXErrors = driver.RXCorrupt + driver.RXInvalid
	c.TXErrors = driver.TXInvalid + driver.TXDropped + driver.TXRefused
	c.TXPackets -= min(c.TXErrors, c.TXPackets)
	return c
}

// Buffers counts a host's buffers by place. Between Steps the sum is Params.Buffers.
type Buffers struct {
	Free int
	Fill int // in the fill ring, or with a frame that has not been received yet
	TX   int // handed to the port and not completed
}

// Stats returns the counters at time now. It allocates.
func (h *Host) Stats(now int64) Stats {
	s := Stats{
		Corrupt:   h.sink.corrupt,
		Strangers: h.sink.strangers,
		Untracked: h.sink.untracked,
		Control:   h.sink.control,
		Others:    h.sink.others,
		Injected:  h.injectHead,
		PFC:       h.reaction.receiver.Stats(now),
		Buffers:   Buffers{Free: len(h.buffers.Free), Fill: h.buffers.InFill, TX: h.buffers.InTX},
		Port:      h.Counters(),
	}
	for i := range h.flows {
		s.Sent = append(s.Sent, h.flows[i].counts()...)
	}
	if h.dcbx != nil {
		a := h.dcbx.Agreement()
		s.DCBX = &a
	}
	for id, t := range h.sink.flows {
		if t != nil {
			s.Received = append(s.Received, t.stats(uint32(id)))
		}
	}
	return s
}

func (t *track) stats(id uint32) Received {
	return Received{
		ID:           id,
		Frames:       t.Frames,
		Bytes:        t.bytes,
		Missing:      t.Next - t.Frames,
		Reordered:    t.Reordered,
		Duplicates:   t.Duplicates,
		Stale:        t.Stale,
		FromSchedule: LatencyOf(&t.fromSchedule),
		FromWire:     LatencyOf(&t.fromWire),
	}
}

// Counters returns the counters of the host's port only. It is cheap.
func (h *Host) Counters() Counters { return h.counters.with(h.port.Stats()) }
