package dataplane

import (
	"sluice/internal/dataplane/tap"
	"sluice/internal/linux/umem"
	"sluice/pfc"
)

// flowControl is a port's flow control: the pauses that it sends to its peer, and those that it
// receives.
type flowControl struct {
	obeys     pfc.Kind // the kind of control frames that it honours; Malformed: none
	mac       [6]byte
	lossless  uint8 // priorities that are lossless now; see finishChange
	generator *pfc.Generator
	receiver  *pfc.Receiver
	watchdog  *pfc.Watchdog // nil: none
	spare     umem.Spares   // buffers for control frames
	sending   int           // control frames with the driver
	received  pfc.Frame     // the control frame being received
}

// obeyed is the kind of control frames for each FlowControl.
var obeyed = [...]pfc.Kind{NoFlowControl: pfc.Malformed, PriorityFlowControl: pfc.PFC, LinkPause: pfc.Pause}

func newFlowControl(p PortParams) (flowControl, error) {
	s := flowControl{obeys: obeyed[p.FlowControl], spare: umem.Spares{Lacking: ControlBuffers}}
	if !s.on() {
		return s, nil
	}
	var err error
	p.Generator.Pause = p.FlowControl == LinkPause
	if s.generator, err = pfc.NewGenerator(p.Generator); err != nil {
		return s, err
	}
	if s.receiver, err = pfc.NewReceiver(p.Receiver); err != nil {
		return s, err
	}
	if p.Watchdog.Detection != 0 {
		s.watchdog, err = pfc.NewWatchdog(p.Watchdog)
	}
	return s, err
}

// takeOver continues from the state of old. If the kind of control frames changes, pauses sent in
// the old kind are not taken back: they expire. Pauses received in it also last until they expire,
// unless the peer sends newer ones, because the peer may still have no room.
func (s *flowControl) takeOver(old *flowControl, now int64) {
	s.mac, s.spare, s.sending = old.mac, old.spare, old.sending
	if !s.on() || !old.on() {
		return
	}
	if s.obeys != old.obeys {
		old.generator.Reset(now)
	}
	s.generator.TakeOver(now, old.generator)
	s.receiver.TakeOver(now, old.receiver)
	if s.watchdog != nil && old.watchdog != nil {
		s.watchdog.TakeOver(now, old.watchdog)
	}
}

func (s *flowControl) on() bool { return s.obeys != pfc.Malformed }

// returned takes back the buffer of a control frame that has left, and returns that frame's length
// in bytes.
func (s *flowControl) returned(id uint32) int {
	s.spare.Put(id)
	s.sending--
	return pfc.FrameLength
}

// receive honours a MAC control frame that arrived up to late ns after now. Such frames are never
// forwarded (802.3 clause 31).
func (s *flowControl) receive(now, late int64, b []byte, c *PortCounters) {
	c.Control++
	kind, short := pfc.Decode(b, &s.received)
	if short {
		c.ControlShort++
	}
	switch {
	case kind == pfc.Malformed:
		c.ControlMalformed++
	case kind == pfc.Misaddressed:
		c.ControlMisaddressed++
	case kind == s.obeys:
		s.receiver.ReceiveLate(now, late, &s.received)
	case kind == pfc.Unknown:
		c.ControlUnknown++
	default: // PAUSE at a PFC port, PFC at a PAUSE port, or either with flow control off
		c.ControlIgnored++
	}
}

// stopped returns the priorities that the peer has been told to stop, or all if the port sends no
// pauses.
func (s *flowControl) stopped() uint8 {
	if s.generator == nil {
		return allPriorities
	}
	return s.generator.Paused()
}

// paused returns the priorities that the peer has paused.
func (s *flowControl) paused(now int64) uint8 {
	if s.receiver == nil {
		return 0
	}
	return s.receiver.Paused(now)
}

// spareControl is how many of a port's PFC frames may be with its driver for other reasons than a
// new XOFF.
const spareControl = 2

// ControlAhead returns how many of its own PFC frames a port with this many lossless priorities may
// have with its driver in front of one that stops another priority. With PAUSE, which stops all
// priorities at once, lossless is 1.
func ControlAhead(lossless int) int { return lossless - 1 + spareControl }

// sendPauses tells a port's peer what to stop and what to resume, ahead of all data: one frame
// names every priority that has changed or whose refresh is due.
//
// A new XOFF goes out at once. XON and refreshes go out only while fewer than spareControl PFC
// frames are with the driver. A priority must be resumed before it can be stopped again, so the
// driver never has more of them than the port has lossless priorities, plus spareControl. So the
// next XOFF always finds a buffer, and the headroom knows how many frames may be ahead of it.
func (w *Worker) sendPauses(p *port, now int64) {
	s := &p.flow
	if !s.on() || !p.up {
		return
	}
	congested := w.accounts.Congested(p.number)
	if p.drain != Running || p.behind {
		congested |= s.lossless
	}
	if !p.reads {
		congested |= p.lossless // what the port is to have is not backed yet
	}
	congested &^= p.discarded
	if s.sending >= spareControl {
		if congested &^= s.generator.Paused(); congested == 0 {
			return
		}
		congested |= s.generator.Paused()
	}
	var f pfc.Frame
	if s.generator.Due(now, congested, &f) && w.sendControl(p, &f, now) {
		s.generator.Sent(now, &f)
	}
}

// sendControl gives a PFC frame to the driver, and reports whether the driver took it.
func (w *Worker) sendControl(p *port, f *pfc.Frame, now int64) bool {
	s := &p.flow
	if s.spare.N == 0 || p.sending >= p.txRing {
		return false
	}
	id := s.spare.IDs[s.spare.N-1]
	d := &w.burst[0]
	d.Addr, d.Len, d.Options = uint64(id)<<(w.shift&63), pfc.FrameLength, 0
	s.put(f, w.memory.Frame(d.Addr, d.Len))
	if p.driver.Transmit(w.burst[:1]) == 0 {
		return false
	}
	w.turns.Control = true
	s.spare.N--
	s.sending++
	p.held[id] = holdingControl
	p.sending++
	p.inFlight += pfc.FrameLength
	p.queues.Spend(now, pfc.FrameLength)
	if w.tap != nil {
		w.tap.control(p, d, tap.TX)
	}
	return true
}

func (s *flowControl) put(f *pfc.Frame, b []byte) {
	if s.obeys == pfc.Pause {
		f.PutPause(b, s.mac)
		return
	}
	f.Put(b, s.mac)
}

// forget ends the pauses sent and received on a link that went down. If it is up again, the peer
// may have sent the latter since.
func (s *flowControl) forget(now int64, up bool) {
	if s.on() {
		s.generator.Reset(now)
	}
	if s.on() && !up {
		s.receiver.Reset(now)
	}
	if s.watchdog != nil && !up {
		s.watchdog.Reset(now)
	}
}

func (s *flowControl) look(snapshot *PortSnapshot, now int64) {
	if s.on() {
		snapshot.PFCSent, snapshot.PFCReceived = s.generator.Stats(now), s.receiver.Stats(now)
	}
	if s.watchdog != nil {
		snapshot.Watchdog = s.watchdog.Stats(now)
	}
}
