package fsb

import (
	"slices"

	"sluice/internal/dataplane/punt"
)

// queueSlots is how many FIP frames of one port may wait to leave another one, besides those in its
// injector.
const queueSlots = 512

// waiting are the frames that wait to leave a port. Those of each port that received them have a
// queue of their own, and the queues take turns. So a port that floods delays only itself.
type waiting struct {
	queues []queue // none is empty
	turn   int     // index of the next one
}

// queue holds frames that one port received, oldest first.
type queue struct {
	from   string
	frames []held
}

// held is a frame, which does not change any more. It leaves when the virtual links are those after
// a change (snoop.System.Serial) or after a later one.
type held struct {
	*punt.Frame
	after uint64
}

// add appends a frame that a port received. It reports false if that port's queue is full.
func (w *waiting) add(from string, f held) bool {
	i := slices.IndexFunc(w.queues, func(q queue) bool { return q.from == from })
	if i < 0 {
		i = len(w.queues)
		w.queues = append(w.queues, queue{from: from})
	}
	q := &w.queues[i]
	if len(q.frames) == queueSlots {
		return false
	}
	q.frames = append(q.frames, f)
	return true
}

// drain removes, one of each queue in turn, the frames that may leave once the virtual links are
// those after a change, as long as take takes them.
func (w *waiting) drain(opened uint64, take func(*punt.Frame) bool) {
	for held := 0; held < len(w.queues); {
		w.turn %= len(w.queues)
		q := &w.queues[w.turn]
		if q.frames[0].after > opened {
			held++
			w.turn++
			continue
		}
		if !take(q.frames[0].Frame) {
			return
		}
		held = 0
		q.frames[0].Frame = nil // for the garbage collector
		if q.frames = q.frames[1:]; len(q.frames) > 0 {
			w.turn++
		} else {
			w.queues = slices.Delete(w.queues, w.turn, w.turn+1)
		}
	}
}
