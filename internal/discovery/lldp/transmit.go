package lldp

// sending returns whether the port sends LLDPDUs.
func (a *Agent) sending() bool { return a.link && a.params.Status.sends() }

// start begins to send: the first LLDPDU at once.
func (a *Agent) start() {
	a.fast, a.credit = 0, a.params.Credits
	a.signal()
}

// signal requests an LLDPDU and restarts the regular timer.
func (a *Agent) signal() {
	a.pending, a.regular = true, a.now+a.params.Interval
	if a.fast > 0 {
		a.regular = a.now + a.params.FastInterval
	}
}

// expire is the end of the regular timer.
func (a *Agent) expire() {
	if a.fast > 0 {
		a.fast--
	}
	a.signal()
}

// hurry sends at the fast interval, because there is a new neighbour.
func (a *Agent) hurry() {
	if a.fast == 0 {
		a.fast = a.params.FastCount
	}
	a.expire()
}

func (a *Agent) advanceSend() {
	if !a.sending() {
		return
	}
	ticks := (a.now - a.ticked) / second
	a.ticked += ticks * second
	a.credit = int(min(int64(a.params.Credits), int64(a.credit)+ticks))
	if a.regular <= a.now {
		a.expire()
	}
}

// nextSend returns the time at which an LLDPDU is due, or requested by the regular timer.
func (a *Agent) nextSend() int64 {
	switch {
	case a.leaving != nil:
		return a.now
	case !a.sending():
		return Never
	case !a.pending:
		return a.regular
	}
	at := a.now
	if a.credit == 0 {
		at = a.ticked + second
	}
	return min(max(at, a.silent), a.regular)
}

// Due returns whether an LLDPDU is to be sent now.
func (a *Agent) Due(now int64) bool {
	a.advance(now)
	return a.leaving != nil || a.sending() && a.pending && a.credit > 0 && a.now >= a.silent
}

// Send returns the Ethernet frame that is to be sent now, or nil if none is Due. organizational has
// the values (OUI, subtype, body) of TLVs of type 127 that it ends with, except for a shutdown
// LLDPDU. The frame is valid until the next call.
//
// An error names the TLV that did not fit; the frame is valid without it.
func (a *Agent) Send(now int64, organizational [][]byte) (frame []byte, err error) {
	if !a.Due(now) {
		return nil, nil
	}
	if frame = a.leaving; frame != nil {
		a.leaving, a.silent = nil, a.now+a.params.Reinit
	} else {
		a.pending = false
		a.credit--
		a.frame, err = a.params.Local.Append(a.frame[:0], a.params.ttl(), organizational)
		if frame = a.frame; err != nil {
			a.stats.LengthErrors++
		}
	}
	a.stats.FramesOut++
	return frame, err
}

// Shutdown turns LLDP off, as Configure would, and returns the shutdown frame, or nil if none is to
// be sent.
func (a *Agent) Shutdown(now int64) []byte {
	p := a.params
	p.Status = Off
	if err := a.Configure(now, p); err != nil {
		panic(err) // it was valid before
	}
	frame, _ := a.Send(now, nil)
	return frame
}
