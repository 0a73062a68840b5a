package traffic

import (
	"sluice/bench/traffic/line"
	"sluice/internal/discovery/lldp"
	"sluice/internal/frame"
	"sluice/pfc"
)

const defaultFlowIDs = 64

// sink checks and counts the frames that a host receives.
type sink struct {
	mac   frame.MAC
	flows []*track // by flow ID; nil: no frame of it yet, to save the memory of unused IDs

	control   uint64 // MAC control frames other than PFC
	others    uint64 // frames that are not test frames
	strangers uint64 // test frames to another address
	corrupt   uint64
	untracked uint64 // test frames with a flow ID of FlowIDs or above
}

func newSink(mac frame.MAC, flowIDs int) sink {
	if flowIDs == 0 {
		flowIDs = defaultFlowIDs
	}
	return sink{mac: mac, flows: make([]*track, flowIDs)}
}

// kind is what the host has to do about a received frame.
type kind uint8

const (
	sunk       kind = iota // nothing
	pauseFrame             // PFC
	lldpFrame              // not counted yet
)

// receive sinks one frame. It stores a PFC frame in control.
func (k *sink) receive(now int64, b []byte, control *pfc.Frame) kind {
	var h frame.Header
	switch problem := frame.Parse(b, &h); {
	case problem != frame.OK:
		k.others++
	case h.Type == frame.TypeMACControl:
		if kind, _ := pfc.Decode(b, control); kind == pfc.PFC {
			return pauseFrame
		}
		k.control++
	case h.Type == lldp.EtherType:
		return lldpFrame
	case h.Type != line.TestType && h.Type != frame.TypeIPv4:
		k.others++
	default:
		k.test(now, b, &h)
	}
	return sunk
}

func (k *sink) test(now int64, b []byte, h *frame.Header) {
	payload, sound := b[h.Payload:], true
	if h.Type == frame.TypeIPv4 {
		if payload, sound = testDatagram(b); payload == nil {
			k.others++
			return
		}
	}
	if h.Dst != k.mac && !h.Dst.Group() {
		k.strangers++
		return
	}
	s, intact := line.ReadStamp(payload, len(b))
	if !sound || !intact {
		k.corrupt++
		return
	}
	if uint64(s.Flow) >= uint64(len(k.flows)) {
		k.untracked++
		return
	}
	t := k.flows[s.Flow]
	if t == nil {
		t = &track{}
		k.flows[s.Flow] = t
	}
	if !t.Count(s.Seq) {
		return
	}
	t.bytes += uint64(len(b))
	t.fromSchedule.Record(now-s.Scheduled, 1)
	t.fromWire.Record(now-s.Sent, 1)
}

// track is the state of one flow.
type track struct {
	line.Track
	bytes                  uint64
	fromSchedule, fromWire line.Histogram
}
