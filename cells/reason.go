package cells

// Reason says why a frame was refused; the zero value says that it was not.
type Reason uint8

const (
	Admitted     Reason = iota
	IngressFull         // a lossy group had no room left for the whole frame
	HeadroomFull        // a lossless group had no room left for the whole frame: lossless operation has failed
	QueueFull           // the egress queue is at its limit, or the port has its part of it; see Grant
)

// NumReasons is the length of a table indexed by Reason.
const NumReasons = int(QueueFull) + 1

var reasonNames = [NumReasons]string{"admitted", "ingress_full", "headroom_full", "queue_full"}

// String returns the name used in counters; it is stable.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}
