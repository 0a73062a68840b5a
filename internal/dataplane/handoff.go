package dataplane

import (
	"fmt"
	"slices"

	"sluice/internal/frame"
	"sluice/ring"
)

// outboxBurst is how many ids an outbox collects before it publishes them.
const outboxBurst = 64

// handoff leads from one worker to another, in rings with one producer and one consumer. A frame
// goes by the id of its buffer, the first one if it has several. A handoff carries:
type handoff struct {
	Frames *ring.Ring[uint32]       // the sender's frames for a port of the receiver
	Home   *ring.Ring[uint32]       // frames in the receiver's buffers that the sender is done with
	Learnt *ring.Ring[announcement] // addresses that the sender has learned on its ports, and asks for
}

// announcement is an address and the port where a worker has learned it, or a question where it is.
type announcement struct {
	MAC   frame.MAC
	Seen  int64  // ns: when it was last seen there
	Epoch uint32 // of the port's link
	VID   uint16 // 0: the port's PVID
	Port  uint16 // number; of a question, where the frame for the address came in
	Asked bool   // it is a question
}

// announcementRing bounds the addresses on their way to another worker.
const announcementRing = 4096

// newHandoff returns a handoff between workers with this many buffers each. Either ring of ids
// carries buffers of one worker only, and has room for all of them, so it can't be full.
func newHandoff(buffers int) (l handoff, err error) {
	size := 1
	for size < buffers {
		size *= 2
	}
	if l.Frames, err = ring.New[uint32](size); err != nil {
		return l, err
	}
	if l.Home, err = ring.New[uint32](size); err != nil {
		return l, err
	}
	l.Learnt, err = ring.New[announcement](announcementRing)
	return l, err
}

// outbox is the sending end of a handoff. It collects a burst, so that each ring's index is
// published only once per burst.
type outbox struct {
	handoff
	To     int // the receiving worker
	frames []uint32
	home   []uint32
}

// newOutbox returns the sending end of a handoff to a worker.
func newOutbox(to int, l handoff) *outbox {
	return &outbox{To: to, handoff: l, frames: make([]uint32, 0, outboxBurst), home: make([]uint32, 0, outboxBurst)}
}

// SendFrame sends a frame for a port of the receiver.
func (o *outbox) SendFrame(id uint32) {
	if o.frames = append(o.frames, id); len(o.frames) == outboxBurst {
		o.frames = pushIDs(o.Frames, o.frames)
	}
}

// SendHome sends a frame whose buffers are the receiver's to free.
func (o *outbox) SendHome(id uint32) {
	if o.home = append(o.home, id); len(o.home) == outboxBurst {
		o.home = pushIDs(o.Home, o.home)
	}
}

// Flush publishes what has been sent.
func (o *outbox) Flush() {
	o.frames = pushIDs(o.Frames, o.frames)
	o.home = pushIDs(o.Home, o.home)
}

// Waiting returns the frames under way in both directions, published or not. Neither worker may be
// running.
func (o *outbox) Waiting() (frames, home []uint32) {
	return slices.Concat(allIDs(o.Frames), o.frames), slices.Concat(allIDs(o.Home), o.home)
}

func allIDs(r *ring.Ring[uint32]) []uint32 {
	a, b := r.Peek(r.Cap())
	return slices.Concat(a, b)
}

// pushIDs publishes ids and returns the empty slice for the next ones.
func pushIDs(r *ring.Ring[uint32], ids []uint32) []uint32 {
	if len(ids) == 0 {
		return ids
	}
	if n := r.Push(ids); n != len(ids) {
		panic(fmt.Sprintf("handoff: a ring between workers holds more buffers than its worker has (%d of %d taken)",
			n, len(ids)))
	}
	return ids[:0]
}
