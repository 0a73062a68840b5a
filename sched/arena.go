package sched

// Arena holds, for every buffer id of a worker, the frame's length and the frame behind it in its queue. One arena
// serves the schedulers of all the worker's ports, since a buffer waits in at most one queue.
type Arena struct {
	links []link // by buffer id
}

// link is one buffer's place in its queue; next means something only while a frame is queued behind it.
type link struct {
	next   uint32
	length uint32 // bytes
}

// NewArena returns an arena for the buffer ids 0 to buffers-1.
func NewArena(buffers int) *Arena { return &Arena{links: make([]link, buffers)} }

// Length returns the length in bytes that the buffer was last enqueued with; it stays known after the frame left.
func (a *Arena) Length(id uint32) int { return int(a.links[id].length) }
