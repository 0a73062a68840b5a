package bridge

import "sluice/internal/frame"

// Anomaly is an irregularity of a frame's source address: a sign of a loop, of an address flood or
// of a configuration error.
type Anomaly uint8

// The anomalies.
const (
	Moved  Anomaly = iota // the address was on another port before; its entry moves to this one
	NoRoom                // not learned: the table, or the port's share of it, is full
	Pinned                // the address has a static entry for another port
	Own                   // the address is the switch's own: the frame came back through a loop

	Anomalies // how many there are
)

var anomalyNames = [Anomalies]string{"moved", "no_room", "pinned", "own"}

func (a Anomaly) String() string { return anomalyNames[a%Anomalies] }

// AnomalyCount counts the frames with an anomaly that a port received; the latest one is an
// example.
type AnomalyCount struct {
	Frames uint64
	MAC    frame.MAC
	VLAN   uint16
	// From is the number of the port on which the address was before (Moved), has its static entry
	// (Pinned), or which has the address (Own). It is -1 for NoRoom, and after that port has left.
	From int
}

// PortStats counts the anomalies of a port since it was added.
type PortStats [Anomalies]AnomalyCount

// PortStats returns the anomalies of the frames that a port received.
func (b *Bridge) PortStats(port int) PortStats { return b.anomalies[port] }

// note counts an anomaly of a frame received on port in.
func (b *Bridge) note(in int, what Anomaly, key uint64, from int) {
	s := &b.anomalies[in][what]
	*s = AnomalyCount{Frames: s.Frames + 1, MAC: macOf(key), VLAN: uint16(key & 0xfff), From: from}
}
