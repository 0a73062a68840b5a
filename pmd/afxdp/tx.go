package afxdp

import "errors"

// Who transmits.
const (
	TXSocket   = "xsk"
	TXResident = "resident"
)

// ErrRedirect means that a device does not take frames that programs redirect to it.
var ErrRedirect = errors.New("the device takes no frames of programs: of veth, the peer must have GRO on, `ethtool -K <peer> gro on` " +
	"in its namespace, or run an XDP program")

// joinResident has a Resident transmit, if it can.
func (p *Port) joinResident(r *Resident, d device) {
	var why error
	if p.resident, why = r.join(d); why != nil {
		p.why.Store(&why)
	} else if why = p.resident.check(p.index); why != nil {
		p.why.Store(&why)
		p.resident.store(slotAway, 1)
		p.resident.turn.Store(turnSocket)
	}
}

// TX returns who transmits, and why it is not the Resident that was asked for. Any goroutine may call it.
func (p *Port) TX() (who string, why error) {
	if e := p.why.Load(); e != nil {
		return TXSocket, *e
	}
	if p.resident != nil {
		return TXResident, nil
	}
	return TXSocket, nil
}

// TXRing returns how many frames the port takes to send before the first completes.
func (p *Port) TXRing() int {
	if p.resident != nil {
		return p.resident.tx.Cap()
	}
	return p.socket.tx.Cap()
}

// SetLink tells a Resident whether the port's link is up, as it is from Open on. While it is down, the Resident drops the frames
// that it has been handed, as the kernel drops those of a socket: they complete, and count as TXDropped. Else their buffers would be
// the driver's for as long as the cable is out, and their cells would keep the peers of other ports in XOFF. Any goroutine may call
// it.
func (p *Port) SetLink(up bool) {
	if p.resident != nil {
		p.resident.setLink(up)
	}
}

// Reconsider leaves transmission to the socket if the Resident can't go on with it, and gives it back to the Resident once the
// device takes its frames again; TX says what it is. From a peer that had no room for frames the Resident stays away. While nothing is
// known of the device it is as it was. One goroutine at a time may call it, from time to time, before Close, on a thread in the device's
// network namespace.
func (p *Port) Reconsider() error {
	if p.resident == nil {
		return nil
	}
	was, why := p.why.Load(), p.resident.check(p.index)
	switch {
	case errors.Is(why, errUnknown):
	case was == nil && why != nil:
		return p.retreat(why)
	case was != nil && why == nil:
		p.resident.giveBack()
		p.why.Store(nil)
	}
	return nil
}

func (p *Port) retreat(why error) error {
	if err := p.resident.giveToSocket(); err != nil {
		return err
	}
	p.why.Store(&why)
	return nil
}
