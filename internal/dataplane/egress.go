package dataplane

import (
	"sluice/cells"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
	"sluice/pfc"
)

// enqueue puts an admitted frame, from this worker or another, into its egress queue.
func (w *Worker) enqueue(out *port, id uint32) {
	f := w.frames[id]
	if out.shut>>(f.Queue()%Priorities)&1 != 0 {
		w.dropAdmitted(out, id, out.whyShut())
		return
	}
	if out.early>>(f.Queue()%Priorities)&1 != 0 {
		w.enqueueEarly(out, id)
		return
	}
	if why := w.chargeQueue(out, f); why != cells.Admitted {
		w.dropAdmitted(out, id, dropOfCells[why])
		return
	}
	out.later += w.later(id, f)
	out.queues.Enqueue(int(f.Queue()), id, onWire(f.Length()))
}

// chargeQueue charges a frame to its egress queue, if that has room. Whatever the queue's limit, it
// takes frames that came in as lossless: their class may be lossy here, or have become lossless in
// a generation that this worker does not run yet.
func (w *Worker) chargeQueue(out *port, f bufferWord) cells.Reason {
	if f&cameLossless != 0 {
		w.accounts.EnqueueLossless(out.number, int(f.Queue()), f.In(), f.Cells())
		return cells.Admitted
	}
	return w.accounts.Enqueue(out.number, int(f.Queue()), f.In(), f.Cells())
}

// enqueueEarly is enqueue for a queue with early detection, which depends on the depth before the
// frame.
func (w *Worker) enqueueEarly(out *port, id uint32) {
	f := w.frames[id]
	early := w.accounts.Early(out.number, int(f.Queue()))
	if why := w.chargeQueue(out, f); why != cells.Admitted {
		w.dropAdmitted(out, id, dropOfCells[why])
		return
	}
	if early && !w.warn(out, id) {
		w.accounts.Dequeue(out.number, int(f.Queue()), f.In(), f.Cells())
		w.dropAdmitted(out, id, drop.Early)
		return
	}
	out.later += w.later(id, f)
	out.queues.Enqueue(int(f.Queue()), id, onWire(f.Length()))
}

// onWire returns the length of a frame on the wire: devices pad frames to 60 bytes. Bytes in flight
// and the shares and rates of queues count this length.
func onWire(length int) int { return max(length, pfc.FrameLength) }

// warn marks a frame with congestion experienced. It returns false if the frame is to be dropped
// instead, because it can't be marked, and is lossy both here and where it came in.
func (w *Worker) warn(out *port, id uint32) bool {
	f, d := w.frames[id], w.descriptor(id)
	if out.ECN>>f.Priority()&1 != 0 && frame.MarkCE(w.bytes(&d)) {
		out.count.Marked[f.Priority()]++
		return true
	}
	return f&cameLossless != 0 || out.Cells.Groups[f.Priority()].Lossless
}

// dropAdmitted drops an admitted frame at its egress port.
func (w *Worker) dropAdmitted(out *port, id uint32, why drop.Reason) {
	f := w.frames[id]
	out.count.Drop(why, f.Priority(), f&cameLossless != 0, 1)
	if why == drop.Storm {
		out.count.StormQueued[f.Priority()]++
	}
	if w.tap != nil {
		w.tap.dropped(out, id, why)
	}
	w.release(id, f)
}

// whyShut returns why a queue is shut.
func (p *port) whyShut() drop.Reason {
	if !p.up {
		return drop.PortDown
	}
	return drop.Storm
}
