package sched

// Arena holds the length of every frame and its successor in a chain, by buffer id of a worker. One
// arena serves the schedulers of all the worker's ports, since a buffer is in at most one chain.
type Arena struct {
	links []link // by buffer id
}

// link is one buffer's place in its chain; next is valid only while a frame follows.
type link struct {
	next   uint32
	length uint32 // bytes
}

// NewArena returns an arena for the buffer ids 0 to buffers-1.
func NewArena(buffers int) *Arena { return &Arena{links: make([]link, buffers)} }

// Length returns the length in bytes with which the buffer was last appended, also after the frame
// has left.
func (a *Arena) Length(id uint32) int { return int(a.links[id].length) }

// Chain is a FIFO of frames linked through an arena. Each queue is a chain, and so are frames that
// are to be queued together. The zero Chain is empty.
type Chain struct {
	head, tail uint32 // buffer ids, while there are frames
	frames     int
	bytes      int // sum of the frames' lengths, without overhead
}

// Frames returns how many frames the chain has.
func (c *Chain) Frames() int { return c.frames }

// First returns the buffer of the first frame of a chain that is not empty.
func (c *Chain) First() (id uint32) { return c.head }

// Append adds a frame of length bytes (without FCS) to the end of a chain. The id must not be in
// any chain of the arena.
func (a *Arena) Append(c *Chain, id uint32, length int) {
	a.links[id].length = uint32(length)
	if c.frames == 0 {
		c.head = id
	} else {
		a.links[c.tail].next = id
	}
	c.tail = id
	c.frames++
	c.bytes += length
}

// Pop removes the first frame of a chain that is not empty.
func (a *Arena) Pop(c *Chain) (id uint32) {
	id = c.head
	c.frames--
	c.bytes -= int(a.links[id].length)
	c.head = a.links[id].next
	return id
}

// join moves the frames of one chain to the end of another.
func (a *Arena) join(to, from *Chain) {
	if to.frames == 0 {
		to.head = from.head
	} else {
		a.links[to.tail].next = from.head
	}
	to.tail = from.tail
	to.frames += from.frames
	to.bytes += from.bytes
	*from = Chain{}
}
