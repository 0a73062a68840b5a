package gen

import "sluice/pfc"

// Stats is a snapshot of a host's counters since it was made. Bytes are without FCS.
type Stats struct {
	Sent     []Sent     // in the order of Params.Flows
	Received []Received // flows of which a frame was received, by ID

	Corrupt   uint64 // test frames that differ from what was sent; their flow misses them
	Strangers uint64 // test frames for another station (flooded)
	Untracked uint64 // test frames of a flow that the sink doesn't follow (Params.FlowIDs)
	Control   uint64 // MAC control frames other than PFC
	Others    uint64 // anything else
	Injected  uint64 // PFC frames sent

	PFC     pfc.ReceiverStats
	Buffers Buffers
}

// Sent counts one flow at its source.
type Sent struct {
	ID            uint32
	Frames, Bytes uint64 // taken by the port
}

// Received counts one flow at its sink. Sent and Received settle once the source has stopped and the wires are
// empty: what was sent and not received is lost.
type Received struct {
	ID            uint32
	Frames, Bytes uint64 // each frame once: duplicates and stale ones are counted apart
	Missing       uint64 // sequence numbers below the highest one received that have not come yet: lost so far
	Reordered     uint64 // frames that came after one with a higher sequence number (RFC 4737, 3.3)
	Duplicates    uint64
	Stale         uint64 // too late to be told from duplicates: about 4000 sequence numbers behind
	FromSchedule  Latency
	FromWire      Latency
}

// Latency is how long frames took, from when they were due by their flow's rate (FromSchedule: includes the time
// they were held back by PFC and by the line) or from when they were handed to the port (FromWire), to the Step of
// the sink that received them.
type Latency struct{ Mean, Max int64 } // ns

// Buffers says where a host's buffers are. Between Steps the sum is Params.Buffers.
type Buffers struct {
	Free int
	Fill int // in the fill ring, or holding a frame that was not received yet
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
		Buffers:   Buffers{Free: len(h.buffers.free), Fill: h.buffers.inFill, TX: h.buffers.inTX},
	}
	for i := range h.flows {
		f := &h.flows[i]
		s.Sent = append(s.Sent, Sent{ID: f.flow.ID, Frames: f.seq, Bytes: f.seq * uint64(f.flow.Size)})
	}
	for id := range h.sink.flows {
		if t := &h.sink.flows[id]; t.received > 0 {
			s.Received = append(s.Received, t.stats(uint32(id)))
		}
	}
	return s
}

func (t *track) stats(id uint32) Received {
	return Received{
		ID:           id,
		Frames:       t.received,
		Bytes:        t.bytes,
		Missing:      t.order.next - t.received,
		Reordered:    t.reordered,
		Duplicates:   t.duplicates,
		Stale:        t.stale,
		FromSchedule: t.fromSchedule.stats(t.received),
		FromWire:     t.fromWire.stats(t.received),
	}
}

func (l latency) stats(n uint64) Latency {
	return Latency{Mean: l.sum / int64(n), Max: l.max}
}
