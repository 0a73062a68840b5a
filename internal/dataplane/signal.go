package dataplane

import (
	"sluice/pfc"
	"sluice/pmd"
)

// signals is a port's flow control: what it tells its peer, and what the peer has told it.
type signals struct {
	on        bool
	mac       [6]byte
	lossless  uint8 // priorities
	generator *pfc.Generator
	receiver  *pfc.Receiver
	spare     []uint32  // buffers for PFC frames, not being sent
	heard     pfc.Frame // the PFC frame in hand
}

func newSignals(p PortParams) (signals, error) {
	s := signals{on: p.PFC}
	for i, g := range p.Cells.Groups {
		if g.Lossless {
			s.lossless |= 1 << i
		}
	}
	if !p.PFC {
		return s, nil
	}
	var err error
	if s.generator, err = pfc.NewGenerator(p.Generator); err != nil {
		return s, err
	}
	s.receiver, err = pfc.NewReceiver(p.Receiver)
	return s, err
}

// returned takes back the buffer of a PFC frame that has left, and returns the frame's length in bytes.
func (s *signals) returned(id uint32) int {
	s.spare = append(s.spare, id)
	return pfc.FrameLength
}

// receive obeys a MAC control frame. None is ever forwarded (802.3 clause 31).
func (s *signals) receive(now int64, b []byte, c *PortCounters) {
	c.Control++
	kind, short := pfc.Decode(b, &s.heard)
	if short {
		c.ControlShort++
	}
	switch {
	case kind == pfc.Malformed:
		c.ControlMalformed++
	case kind == pfc.PFC && s.on:
		s.receiver.Receive(now, &s.heard)
	case kind == pfc.Unknown:
		c.ControlUnknown++
	default: // PAUSE beside PFC, or either with flow control off: a port does one or the other
		c.ControlIgnored++
	}
}

// paused returns the priorities that the peer does not want now.
func (s *signals) paused(now int64) uint8 {
	if !s.on {
		return 0
	}
	return s.receiver.Paused(now)
}

// signal tells a port's peer what to stop and what to resume: one frame with every priority that changed or whose
// refresh is due, ahead of all data.
func (w *Worker) signal(p *port, now int64) {
	s := &p.signals
	if !s.on || !p.up {
		return
	}
	congested := w.accounts.Congested(p.local)
	if w.drain != Running {
		congested = s.lossless
	}
	f, due := s.generator.Due(now, congested)
	if !due || len(s.spare) == 0 || p.sending >= p.txRing {
		return // still due in the next iteration
	}
	id := s.spare[len(s.spare)-1]
	d := [1]pmd.Desc{{Addr: uint64(id) << w.shift, Len: pfc.FrameLength}}
	f.Put(w.memory[d[0].Addr:][:pfc.FrameLength], s.mac)
	w.burst[0] = d[0]
	if p.driver.Transmit(w.burst[:1]) == 0 {
		return
	}
	s.spare = s.spare[:len(s.spare)-1]
	p.held[id] = holdingControl
	p.sending++
	p.inFlight += pfc.FrameLength
	p.queues.Spend(now, pfc.FrameLength)
	s.generator.Sent(now, f)
}

// forget ends what was said and heard on a link that is gone.
func (s *signals) forget(now int64) {
	if s.on {
		s.generator.Reset(now)
		s.receiver.Reset(now)
	}
}
