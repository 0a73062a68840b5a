package umem

import "fmt"

// Pool is the free buffers of one worker. It is a stack of buffer ids, because the buffer that came
// back last is the most likely to be in the cache. It belongs to one goroutine.
type Pool struct {
	ids   []uint32 // the stack at its full size; ids[:free] are free
	free  int
	first uint32 // the lowest id
}

// NewPool returns a pool with the buffers first to first+n-1, all free.
func NewPool(first, n int) *Pool {
	p := &Pool{ids: make([]uint32, n), free: n, first: uint32(first)}
	for i := range p.ids {
		p.ids[i] = uint32(first + i)
	}
	return p
}

// Get stores up to len(dst) free buffers in dst and returns how many it stored. They belong to the
// caller until Put.
func (p *Pool) Get(dst []uint32) int {
	n := min(len(dst), p.free)
	copy(dst, p.ids[p.free-n:p.free])
	p.free -= n
	return n
}

// Put returns buffers to the pool. It panics if more come back than the pool has handed out: a
// buffer came back twice, or belongs to another pool.
func (p *Pool) Put(ids []uint32) {
	if len(ids) > len(p.ids)-p.free {
		panic(fmt.Sprintf("umem: %d buffers put back into a pool of %d that has %d already", len(ids), len(p.ids),
			p.free))
	}
	p.free += copy(p.ids[p.free:], ids)
}

// PutOne is Put for one buffer.
func (p *Pool) PutOne(id uint32) {
	if p.free >= len(p.ids) {
		panic("umem: a buffer put back into a pool that has all of its buffers")
	}
	p.ids[p.free] = id
	p.free++
}

// Owns reports whether a buffer belongs to the pool.
func (p *Pool) Owns(id uint32) bool { return uint64(id-p.first) < uint64(len(p.ids)) }

// Free returns the number of free buffers.
func (p *Pool) Free() int { return p.free }

// Size returns the number of buffers that belong to the pool, free or not.
func (p *Pool) Size() int { return len(p.ids) }
