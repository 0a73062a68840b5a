package umem

// MaxSpares is the most buffers that Spares hold.
const MaxSpares = 16

// Spares are buffers kept for one use, except those that are in use. They are in an array rather
// than a slice, because a cache miss delays the frame that they are for.
type Spares struct {
	N       int // buffers in IDs
	Lacking int // buffers that the pool could not provide yet
	IDs     [MaxSpares]uint32
}

// All returns the buffers.
func (s *Spares) All() []uint32 { return s.IDs[:s.N] }

// Put adds a buffer that is no longer in use.
func (s *Spares) Put(id uint32) {
	s.IDs[s.N] = id
	s.N++
}

// Fill takes the buffers that are lacking from a pool, as far as there are any.
func (s *Spares) Fill(p *Pool) {
	n := p.Get(s.IDs[s.N:][:s.Lacking])
	s.N += n
	s.Lacking -= n
}
