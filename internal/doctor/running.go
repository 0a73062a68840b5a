package doctor

import "time"

// Running is what a running switch says of itself, as far as it matters here.
type Running struct {
	Socket        string // on which it answers
	LosslessDrops uint64
	Stalled       time.Duration // how long its control loop has not run; 0: it runs
	Ports         []RunningPort
	Workers       []RunningWorker
}

// RunningPort is a port of a running switch.
type RunningPort struct {
	Name       string
	Worker     int // index into Running.Workers: after a reload it need not be what the configuration alone would make of it
	Open       bool
	Mode       string // zero-copy, copy (native) or copy (generic)
	TX         string // who sends: afxdp.TXSocket, afxdp.TXTransmitter
	TXWhy      string // why it is not the transmitter that was asked for; empty: it is, or none was
	Ring       int    // frames that its receive ring takes; 0: not known
	Heard      uint64 // PFC frames of its link partner
	Behind     uint64 // iterations that left frames in its receive ring
	GivenTwice uint64 // buffers that its driver gave back without having them
}

// RunningWorker is a worker of a running switch.
type RunningWorker struct {
	CPU       int
	WorstGap  time.Duration // two iterations in a row, since the start
	RecentGap time.Duration // the same in the last ten minutes; 0: an older switch does not say
}

// port returns what a running switch says of a port that it has open; nil if there is none.
func (r *Running) port(device string) *RunningPort {
	if r == nil {
		return nil
	}
	for i := range r.Ports {
		if p := &r.Ports[i]; p.Name == device && p.Open {
			return p
		}
	}
	return nil
}
