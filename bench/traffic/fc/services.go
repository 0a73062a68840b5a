package fc

import (
	"encoding/binary"
	"slices"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// Further values of a Fibre Channel header (FC-FS-3 clause 9).
const (
	rctlCTRequest = 0x02
	rctlCTReply   = 0x03
	rctlAbort     = 0x81 // of basic link services
	rctlAborted   = 0x84
	typeBasic     = 0x00
	typeCT        = 0x20
	lastOfSeq     = 0x090000 // in F_CTL: last frame of its sequence, passes the initiative
)

// Extended link services that the fabric answers besides FLOGI, FDISC and LOGO (FC-LS-2).
const (
	elsPLOGI = 0x03
	elsRSCN  = 0x61
	elsSCR   = 0x62

	loginLength = 116 // of PLOGI in bytes
)

// wellKnown is the first of the addresses that belong to the fabric.
const wellKnown fcoe.FCID = 0xfffff0

// receiveFCoE takes a frame with FCoE: it is for another VN_Port or for a service of the fabric.
func (x *FCF) receiveFCoE(now int64, b []byte, h *frame.Header) {
	if h.Dst != x.p.Port.MAC || !slices.Contains(x.p.VLANs, h.VID) {
		x.counts.Strays++
		return
	}
	f, problem := fcoe.ParseFCoE(b[h.Payload:])
	if problem != fcoe.OK {
		x.counts.Malformed++
		return
	}
	if fcoe.CRC(f.FC) != f.CRC {
		x.counts.Damaged++
		return
	}
	var header fcoe.Header
	fcoe.ParseHeader(f.FC, &header) // ParseFCoE has checked the length
	from := x.byID(header.S)
	if from == nil || from.mac != h.Src || from.enode.vid != h.VID {
		x.counts.NoLink++
		return
	}
	if header.D >= wellKnown {
		x.serve(now, from, &header, f.FC[fcoe.HeaderLength:])
		return
	}
	to := x.byID(header.D)
	if to == nil {
		x.counts.UnknownDestination++
		return
	}
	to.mac.Put(b)
	x.p.Port.MAC.Put(b[6:])
	frame.SetVID(b, to.enode.vid)
	frame.SetPCP(b, x.p.Port.Priority)
	if x.port.send(b, true) {
		x.counts.Forwarded++
		x.counts.ForwardedBytes += uint64(len(b))
	}
}

// serve answers a request to a well-known address.
func (x *FCF) serve(now int64, from *vnPort, h *fcoe.Header, payload []byte) {
	switch {
	case h.Type == typeCT && h.RCtl == rctlCTRequest:
		x.serveCT(now, from, h, payload)
	case h.Type == fcoe.TypeELS && h.RCtl == fcoe.RCtlELSRequest && len(payload) >= 4:
		x.serveELS(from, h, payload)
	case h.Type == typeBasic && h.RCtl == rctlAbort:
		aborted := binary.BigEndian.AppendUint16(make([]byte, 4, 12), h.OXID)
		aborted = binary.BigEndian.AppendUint16(aborted, h.RXID)
		x.answer(from, h, rctlAborted, append(aborted, 0, 0, 0xff, 0xff)) // all frames of the exchange
	default: // such as the accept of an RSCN
		x.counts.Ignored++
	}
}

// serveELS answers a link service that FCoE frames carry.
func (x *FCF) serveELS(from *vnPort, h *fcoe.Header, payload []byte) {
	x.counts.LinkServices++
	accept := []byte{byte(fcoe.Accept), 0, 0, 0}
	switch {
	case payload[0] == elsPLOGI && len(payload) == loginLength:
		// The services take what the port offers: their answer is its request with other names.
		answer := slices.Concat(accept, payload[4:])
		binary.BigEndian.PutUint64(answer[20:], uint64(x.p.Name)|uint64(h.D&0xff)<<48)
		binary.BigEndian.PutUint64(answer[28:], uint64(x.p.Fabric))
		x.answer(from, h, fcoe.RCtlELSReply, answer)
	case payload[0] == byte(fcoe.LOGO):
		x.answer(from, h, fcoe.RCtlELSReply, accept)
	case payload[0] == elsSCR && len(payload) == 8 && h.D == fcoe.FabricController:
		// 1: what the fabric sees, 2: what ports report, 3: both, 255: nothing
		from.notified = payload[7] == 1 || payload[7] == 3
		x.answer(from, h, fcoe.RCtlELSReply, accept)
	default:
		reject := []byte{byte(fcoe.Reject), 0, 0, 0, 0, unsupported, requestNotSupported, 0}
		x.answer(from, h, fcoe.RCtlELSReply, reject)
	}
}

// answer sends the answer to a request, as one sequence of as many frames as it needs. Its length
// is a multiple of 4.
func (x *FCF) answer(to *vnPort, request *fcoe.Header, rctl uint8, payload []byte) {
	x.sequence(to, fcoe.Header{RCtl: rctl, D: to.id, S: request.D, Type: request.Type, FCtl: fcoe.FCtlReply,
		OXID: request.OXID, RXID: request.RXID}, payload)
}

// sequence sends a sequence to a VN_Port. The header is that of the last frame.
func (x *FCF) sequence(to *vnPort, h fcoe.Header, payload []byte) {
	last, sof := h.FCtl, fcoe.SOFi3
	for rest := payload; ; h.SeqCount++ {
		n, eof := min(len(rest), to.size), fcoe.EOFn
		h.FCtl = last &^ lastOfSeq
		if n == len(rest) {
			h.FCtl, eof = last, fcoe.EOFt
		}
		x.fc = append(h.Append(x.fc[:0]), rest[:n]...)
		x.frame = appendFCoE(x.frame[:0], x.envelope(to.mac, to.enode.vid), sof, eof, x.fc)
		x.port.send(x.frame, true)
		if rest, sof = rest[n:], fcoe.SOFn3; len(rest) == 0 {
			return
		}
	}
}

// changed notes that a VN_Port came, went or registered something else. Changes that follow each
// other closely share a notification.
func (x *FCF) changed(now int64, id fcoe.FCID) {
	x.notify = min(x.notify, now+50*millisecond)
	if len(x.changes) <= changesMost && !slices.Contains(x.changes, id) {
		x.changes = append(x.changes, id)
	}
}

// notifyAll sends an RSCN with all changes to each VN_Port that has registered for them, without
// its own.
func (x *FCF) notifyAll() {
	for i := range x.ports {
		if v := &x.ports[i]; v.up && v.notified {
			x.notifyOne(v)
		}
	}
	x.changes, x.notify = x.changes[:0], never
}

func (x *FCF) notifyOne(v *vnPort) {
	const wholeFabric = 3 // address format
	pages := []byte{elsRSCN, 4, 0, 0}
	for _, id := range x.changes {
		if id != v.id {
			pages = binary.BigEndian.AppendUint32(pages, uint32(id))
		}
	}
	switch {
	case len(x.changes) > changesMost:
		pages = append(pages[:4], wholeFabric, 0, 0, 0)
	case len(pages) == 4:
		return
	}
	binary.BigEndian.PutUint16(pages[2:], uint16(len(pages)))
	if x.exchange++; x.exchange == fcoe.NoExchange {
		x.exchange = 0
	}
	x.counts.Notifications++
	x.sequence(v, fcoe.Header{RCtl: fcoe.RCtlELSRequest, D: v.id, S: fcoe.FabricController, Type: fcoe.TypeELS,
		FCtl: fcoe.FCtlRequest, OXID: x.exchange, RXID: fcoe.NoExchange}, pages)
}
