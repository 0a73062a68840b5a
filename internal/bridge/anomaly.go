package bridge

import "sluice/internal/frame"

// Anomaly is something about the source address of a frame that tells of a loop, of a flood of
// addresses, or of a wrong configuration.
type Anomaly uint8

// The anomalies.
const (
	Moved  Anomaly = iota // the station was seen on another port before, and is followed to this one
	NoRoom                // not learned: the table, or the port's share of it, is full
	Pinned                // the station has a static entry for another port
	Own                   // the address is the switch's own: the frame has come back through a loop

	Anomalies // how many there are
)

var anomalyNames = [Anomalies]string{"moved", "no_room", "pinned", "own"}

func (a Anomaly) String() string { return anomalyNames[a%Anomalies] }

// AnomalyCount counts the frames with an anomaly that a port received, with the latest as an
// example.
type AnomalyCount struct {
	Frames uint64
	MAC    frame.MAC
	VLAN   uint16
	// From is the port number where the station was before (Moved), or has its static entry
	// (Pinned). It is -1 for other anomalies, and once that port has left.
	From int
}

// PortStats counts the anomalies of a port since it came into use.
type PortStats [Anomalies]AnomalyCount

// PortStats returns the anomalies of frames that a port received.
func (b *Bridge) PortStats(port int) PortStats { return b.anomalies[port] }

// note counts an anomaly of a frame that port in received.
func (b *Bridge) note(in int, what Anomaly, key uint64, from int) {
	s := &b.anomalies[in][what]
	*s = AnomalyCount{Frames: s.Frames + 1, MAC: macOf(key), VLAN: uint16(key & 0xfff), From: from}
}
