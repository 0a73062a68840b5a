package dataplane

import (
	"errors"
	"fmt"

	"sluice/pfc"
)

// Check tests conservation. Every buffer is in exactly one place, the marks for what drivers hold
// match the counts, and the accounts are consistent. The frames received, with the copies made of
// them, are those that were sent, dropped, consumed or are still held. Check reads all workers, so
// none may be running.
func (s *Switch) Check() error {
	var errs []error
	found, total := 0, 0
	var in, out uint64
	for _, w := range s.Workers {
		errs = append(errs, w.check())
		found += w.pool.Free()
		total += w.pool.Size()
		in, out = in+w.departed.In, out+w.departed.Out
		for _, p := range w.own {
			found += p.filled + p.sending + p.returned + p.flow.spare.N + p.injection.spare.N + p.queued() + p.later
			in += p.count.In()
			out += p.count.Out() + uint64(p.queued())
		}
		for _, o := range w.out {
			frames, home := o.Waiting()
			out += uint64(len(frames))
			found += w.buffers(frames) + w.buffers(home)
		}
	}
	if found != total {
		errs = append(errs, fmt.Errorf("dataplane: %d buffers found of %d", found, total))
	}
	if in != out {
		errs = append(errs, fmt.Errorf("dataplane: %d frames in, %d accounted for", in, out))
	}
	return errors.Join(errs...)
}

// buffers returns how many buffers frames have.
func (w *Worker) buffers(ids []uint32) int {
	n := len(ids)
	for _, id := range ids {
		n += w.later(id, w.frames[id])
	}
	return n
}

func (w *Worker) check() error {
	errs := []error{w.accounts.Check()}
	for _, p := range w.own {
		var marked, counted struct{ filled, sending, returned, bytes int }
		parts := map[uint32]int{} // with the driver, by head
		for id, holding := range p.held {
			switch holding {
			case holdingEmpty:
				marked.filled++
			case holdingFrame, holdingInjected:
				marked.sending++
				marked.bytes += onWire(w.frames[id].Length())
			case holdingControl:
				marked.sending++
				marked.bytes += pfc.FrameLength
			case holdingPart:
				marked.sending++
				parts[w.parts.Head(uint32(id))]++
			case holdingHead:
				errs = append(errs, fmt.Errorf("dataplane: port %s: buffer %d is left from a burst", p.Name, id))
			}
		}
		for head, n := range parts {
			marked.returned += w.parts.Buffers(head) - n
			marked.bytes += onWire(w.frames[head].Length())
			if n != w.parts.Sending(head) {
				errs = append(errs, fmt.Errorf("dataplane: port %s: %d parts of frame %d are marked as being sent, "+
					"it counts %d", p.Name, n, head, w.parts.Sending(head)))
			}
		}
		counted.filled, counted.sending, counted.returned, counted.bytes = p.filled, p.sending, p.returned, p.inFlight
		if marked != counted {
			errs = append(errs, fmt.Errorf("dataplane: port %s: marks say %+v, counts say %+v", p.Name, marked,
				counted))
		}
	}
	return errors.Join(errs...)
}

func (p *port) queued() int {
	n := 0
	for q := range Priorities {
		n += p.queues.Frames(q)
	}
	return n
}
