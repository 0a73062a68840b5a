package afxdp

import (
	"sluice/pmd/transmitter"
)

// The senders, as named in the configuration.
const (
	TXSocket      = "xsk"
	TXTransmitter = "resident"
)

// join makes a transmitter send in place of the socket, if it can.
func (p *Port) join(t *transmitter.Transmitter, d device) {
	p.transmitter, p.noTransmitter = t.Join(transmitter.Device{Name: d.name, Index: d.index, MTU: d.mtu,
		Buffer: room(int(p.offsetMask) + 1)})
}

// TX returns the sender, and why it is not the transmitter if one was requested. Any goroutine may
// call it.
func (p *Port) TX() (who string, why error) {
	why = p.noTransmitter
	if p.transmitter != nil {
		if why = p.transmitter.Declined(); why == nil {
			return TXTransmitter, nil
		}
	}
	return TXSocket, why
}

// RXRing returns how many received frames wait until the port loses further ones, beside those in
// the device's own ring.
func (p *Port) RXRing() int { return p.rx.Cap() }

// TXRing returns the number of frames that the port accepts before the first completes.
func (p *Port) TXRing() int {
	if p.transmitter != nil {
		return p.transmitter.Capacity()
	}
	return p.socket.tx.Cap()
}

// SetLink tells the transmitter whether the port's link is up (transmitter.Port.SetLink). After
// Open, it is taken to be up. Any goroutine may call it.
func (p *Port) SetLink(up bool) {
	if p.transmitter != nil {
		p.transmitter.SetLink(up)
	}
}

// Reconsider switches to the socket if the transmitter can't serve the device any more, and back
// once it can (transmitter.Port.Reconsider); TX returns the sender. Call it periodically until
// Close, from one goroutine at a time, on a thread in the device's network namespace.
func (p *Port) Reconsider() error {
	if p.transmitter == nil {
		return nil
	}
	return p.transmitter.Reconsider()
}
