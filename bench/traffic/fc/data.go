package fc

import (
	"sluice/bench/traffic/line"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

const (
	typeTest = 0xe0 // a vendor's FC-4 type, which no initiator or target speaks
	backlog  = 64   // frames that wait in a port's queue at most, so that PFC holds back the rest
)

// sender sends the data of a port's VN_Ports, in turn.
type sender struct {
	links []int // indices of the VN_Ports
	turn  int
	next  line.Moment // when the next frame is due
}

// FrameLength returns the length of a tagged frame with a Fibre Channel frame that has a payload of
// this many bytes, without FCS.
func FrameLength(payload int) int { return 18 + overhead + payload }

// generate queues the data frames of a port that are due.
func (x *ENodes) generate(now int64, port int) {
	s, q := &x.senders[port], x.ports[port]
	if !x.sending || x.p.Rate == 0 {
		return
	}
	s.next = s.next.NotBefore(now - catchUp)
	step := line.WireTime(FrameLength(x.p.Payload), x.p.Rate)
	for s.next.NS <= now && q.lossless.len() < backlog {
		e, l, to := x.nextLink(s)
		if l == nil {
			return
		}
		s.next = s.next.Add(step)
		x.sendData(now, e, l, to)
	}
}

// nextLink returns the VN_Port whose turn it is, if it and its peer are logged in, and its peer.
func (x *ENodes) nextLink(s *sender) (e *enode, from, to *link) {
	for range s.links {
		index := s.links[s.turn]
		if s.turn++; s.turn == len(s.links) {
			s.turn = 0
		}
		e, from := x.at(index)
		if !from.up || from.peer < 0 {
			continue
		}
		if _, to := x.at(from.peer); to.up {
			return e, from, to
		}
	}
	return nil, nil, nil
}

// sendData sends a data frame, a sequence of its own. Its flow is the index of the VN_Port.
func (x *ENodes) sendData(now int64, e *enode, from, to *link) {
	h := fcoe.Header{RCtl: 0x04, D: to.id, S: from.id, Type: typeTest, FCtl: fcoe.FCtlRequest, SeqID: uint8(from.sent),
		OXID: uint16(from.sent) &^ (1 << 15), RXID: fcoe.NoExchange}
	// A test frame without length and check: Fibre Channel's CRC is enough.
	stamp := line.Stamp{Flow: uint32(to.peer), Seq: from.sent, Scheduled: now, Sent: now}
	b := h.Append(x.fc[:0])
	b = append(b, make([]byte, line.FieldsLength)...)
	stamp.PutFields(b[fcoe.HeaderLength:])
	b = append(b, stamp.Body(x.p.Payload-line.FieldsLength)...)
	x.fc = b
	x.frame = appendFCoE(x.frame[:0], x.envelope(e, from.mac, e.fcf), fcoe.SOFi3, fcoe.EOFt, b)
	if x.ports[e.port].send(x.frame, true) {
		from.sent++
		x.counts.Sent++
		x.counts.SentBytes += uint64(len(x.frame))
	}
}

// receiveFCoE checks and counts a frame with FCoE.
func (x *ENodes) receiveFCoE(b []byte, h *frame.Header) {
	f, problem := fcoe.ParseFCoE(b[h.Payload:])
	if problem != fcoe.OK || fcoe.CRC(f.FC) != f.CRC {
		x.counts.Damaged++
		return
	}
	var header fcoe.Header
	fcoe.ParseHeader(f.FC, &header) // ParseFCoE has checked the length
	index, known := x.byVN[h.Dst]
	if !known {
		x.counts.Unauthorised++
		return
	}
	e, l := x.at(index)
	stamp, ours := line.ReadFields(f.FC[fcoe.HeaderLength:])
	switch {
	case h.Src != e.fcf || h.VID != e.vid || header.D != l.id:
		x.counts.Unauthorised++
	case header.Type != typeTest || !ours:
		x.counts.OtherFCoE++
	case int(stamp.Flow) != l.peer:
		x.counts.Misdelivered++
	case l.received.Count(stamp.Seq):
		x.counts.Received++
		x.counts.ReceivedBytes += uint64(len(b))
	}
}
