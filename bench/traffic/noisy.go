package traffic

import (
	"fmt"
	"math/bits"
	"slices"

	"sluice/bench/traffic/line"
	"sluice/pmd"
)

// Noise makes mode noisy behave like a busy network function: frames wait in a queue, and every
// frame costs memory accesses at random addresses. With the zero value, mode noisy is mode io.
type Noise struct {
	Mode       string // io (or empty), mac, macswap or 5tswap: how frames are rewritten
	Queue      int    // frames that wait until later frames push them out, each part counted; 0: none
	FlushAfter int64  // ns without a frame leaving the queue after which it is flushed; 0: never

	Memory                    int // bytes of memory for the accesses
	Reads, Writes, ReadWrites int // per frame
}

func (n *Noise) validate() error {
	switch {
	case !slices.Contains([]string{"io", "mac", "macswap", "5tswap"}, n.Mode):
		return fmt.Errorf("mode noisy can't forward like %q: choose io, mac, macswap or 5tswap", n.Mode)
	case n.Queue < 0 || n.FlushAfter < 0 || n.Memory < 0 || n.Reads < 0 || n.Writes < 0 || n.ReadWrites < 0:
		return fmt.Errorf("mode noisy with %+v: the numbers must not be negative", *n)
	case n.Memory == 0 && n.Reads+n.Writes+n.ReadWrites > 0:
		return fmt.Errorf("%d reads, %d writes and %d reads with writes per frame need memory: give its size",
			n.Reads, n.Writes, n.ReadWrites)
	}
	return nil
}

// noisy is a mode with noise.
type noisy struct {
	rewriter
	noise Noise

	queue      []pmd.Desc // a ring, with room for one frame beyond Noise.Queue
	head, held int        // the oldest descriptor and their number
	out        []pmd.Desc // result of one call
	stirred    int64      // ns: the last time that the queue was empty or later frames pushed frames out

	memory []byte
	random uint64
	read   byte // sum of the bytes read, so that the compiler can't remove the reads
}

func newNoisy(l lane) rewriter {
	inner, err := ModeNamed(l.noise.Mode)
	if err != nil {
		panic(err) // already validated
	}
	return &noisy{
		rewriter: inner.rewriter(l), noise: l.noise,
		queue: make([]pmd.Desc, l.noise.Queue+pmd.MaxParts), out: make([]pmd.Desc, 0, l.burst),
		memory: make([]byte, l.noise.Memory), random: 1,
	}
}

func (n *noisy) rewrite(now int64, burst []pmd.Desc) (send, drop []pmd.Desc) {
	send, drop = n.rewriter.rewrite(now, burst)
	for range line.Frames(send) {
		n.access()
	}
	if n.noise.Queue == 0 {
		return send, drop
	}
	return n.pass(now, send), drop
}

// pass queues a burst and returns the frames that leave the queue: as many of the oldest as the new
// frames need room for, or up to a burst when the queue is flushed.
func (n *noisy) pass(now int64, burst []pmd.Desc) []pmd.Desc {
	n.out = n.out[:0]
	for _, d := range burst {
		n.queue[(n.head+n.held)%len(n.queue)] = d
		n.held++
		for d.Options&pmd.Continued == 0 && n.held > n.noise.Queue {
			n.pop()
		}
	}
	if len(n.out) > 0 || n.held == 0 {
		n.stirred = now
	}
	if n.noise.FlushAfter > 0 && now-n.stirred >= n.noise.FlushAfter {
		for n.held > 0 && len(n.out) < cap(n.out) {
			n.pop()
		}
	}
	return n.out
}

// pop moves the oldest frame out of the queue.
func (n *noisy) pop() {
	for more := true; more; {
		d := n.queue[n.head]
		n.head = (n.head + 1) % len(n.queue)
		n.held--
		n.out = append(n.out, d)
		more = d.Options&pmd.Continued != 0
	}
}

// access makes the memory accesses for one frame.
func (n *noisy) access() {
	for range n.noise.Reads {
		n.read += *n.place()
	}
	for range n.noise.Writes {
		*n.place() = byte(n.random)
	}
	for range n.noise.ReadWrites {
		*n.place()++
	}
}

// place returns a random byte of the memory.
func (n *noisy) place() *byte {
	n.random ^= n.random << 13 // xorshift64 (Marsaglia, Xorshift RNGs, 2003)
	n.random ^= n.random >> 7
	n.random ^= n.random << 17
	at, _ := bits.Mul64(n.random, uint64(len(n.memory)))
	return &n.memory[at]
}
