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
		in, out = in+w.departed.in, out+w.departed.out
		for _, p := range w.own {
			found += p.filled + p.sending + p.flow.spare.n + p.injection.spare.n + p.queued()
			in += p.count.in()
			out += p.count.out() + uint64(p.queued())
		}
		for _, o := range w.out {
			out += uint64(len(o.frames) + o.handoff.frames.Len())
			found += len(o.frames) + len(o.home) + o.handoff.frames.Len() + o.handoff.home.Len()
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

func (w *Worker) check() error {
	errs := []error{w.accounts.Check()}
	for _, p := range w.own {
		filled, sending, bytes := 0, 0, 0
		for id, holding := range p.held {
			switch holding {
			case holdingEmpty:
				filled++
			case holdingFrame, holdingInjected:
				sending++
				bytes += onWire(w.frames[id].length())
			case holdingControl:
				sending++
				bytes += pfc.FrameLength
			}
		}
		if filled != p.filled || sending != p.sending || bytes != p.inFlight {
			errs = append(errs,
				fmt.Errorf("dataplane: port %s: marks say %d empty, %d sending, %d bytes; counts say %d, %d, %d",
					p.Name, filled, sending, bytes, p.filled, p.sending, p.inFlight))
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
