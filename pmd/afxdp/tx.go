package afxdp

import (
	"sluice/internal/transmitter"
)

// Who sends, as the configuration says it.
const (
	TXSocket      = "xsk"
	TXTransmitter = "resident"
)

// join has a transmitter send in the place of the socket, if it can.
func (p *Port) join(t *transmitter.Transmitter, d device) {
	p.transmitter, p.noTransmitter = t.Join(transmitter.Device{Name: d.name, Index: d.index, MTU: d.mtu})
}

// TX returns who sends, and why it is not the transmitter that was asked for. Any goroutine may
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

// TXRing returns how many frames the port takes to send before the first completes.
func (p *Port) TXRing() int {
	if p.transmitter != nil {
		return p.transmitter.Capacity()
	}
	return p.socket.tx.Cap()
}

// SetLink tells a transmitter whether the port's link is up, as it is from Open on
// (transmitter.Port.SetLink). Any goroutine may call it.
func (p *Port) SetLink(up bool) {
	if p.transmitter != nil {
		p.transmitter.SetLink(up)
	}
}

// Reconsider leaves sending to the socket if the transmitter can't go on with it, and gives it back
// once it can (transmitter.Port.Reconsider); TX says who it is. One goroutine at a time may call
// it, from time to time, before Close, on a thread in the device's network namespace.
func (p *Port) Reconsider() error {
	if p.transmitter == nil {
		return nil
	}
	return p.transmitter.Reconsider()
}
