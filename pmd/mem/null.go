package mem

import "sluice/pmd"

// nullHeader is the number of bytes that a Null port writes of each frame: fixed and small.
const nullHeader = 32

// Null is a port without a wire: it always has frames to receive and sends at once, like DPDK's
// net_null. It writes only the header of each frame, cycling through a list; the rest is whatever
// the buffer held before.
type Null struct {
	memory  []byte
	headers [][nullHeader]byte
	next    int
	length  uint32
	empty   fifo[uint64]
	done    fifo[uint64]
}

// NewNull returns a port that takes up to ring buffers for reception and ring frames for sending,
// and receives frames of length bytes that start with one of headers. Only the first 32 bytes of a
// header count; a shorter one is padded with zeros. Buffers must hold a frame and the 32 bytes of
// room in front of it (see pmd.Port).
func NewNull(memory []byte, ring, length int, headers ...[]byte) *Null {
	n := &Null{
		memory: memory, headers: make([][nullHeader]byte, len(headers)), length: uint32(length),
		empty: newFIFO[uint64](ring), done: newFIFO[uint64](ring),
	}
	for i, h := range headers {
		copy(n.headers[i][:], h)
	}
	return n
}

// Fill implements pmd.Port.
func (n *Null) Fill(addrs []uint64) int { return n.empty.pushFrom(addrs) }

// Receive implements pmd.Port.
func (n *Null) Receive(burst []pmd.Desc) int {
	k := min(len(burst), n.empty.len())
	first, rest := n.empty.front(k)
	n.receiveInto(burst, first)
	n.receiveInto(burst[len(first):], rest)
	n.empty.drop(k)
	return k
}

func (n *Null) receiveInto(burst []pmd.Desc, addrs []uint64) {
	memory, headers, next := n.memory, n.headers, n.next
	burst = burst[:len(addrs)]
	for i, addr := range addrs {
		addr += room
		d := &burst[i]
		d.Addr, d.Len, d.Options = addr, n.length, 0
		*(*[nullHeader]byte)(memory[addr : addr+nullHeader]) = headers[next]
		if next++; next == len(headers) {
			next = 0
		}
	}
	n.next = next
}

// Waiting implements pmd.Port: frames arrive only when asked for.
func (n *Null) Waiting() int { return 0 }

// Transmit implements pmd.Port.
func (n *Null) Transmit(burst []pmd.Desc) int {
	k := min(len(burst), n.done.free())
	first, rest := n.done.back(k)
	for i := range first {
		first[i] = burst[i].Addr
	}
	for i := range rest {
		rest[i] = burst[len(first)+i].Addr
	}
	n.done.add(k)
	return k
}

// Complete implements pmd.Port.
func (n *Null) Complete(addrs []uint64) int { return n.done.popInto(addrs) }

// Flush implements pmd.Port.
func (n *Null) Flush() {}

// Stats implements pmd.Port.
func (n *Null) Stats() pmd.Stats { return pmd.Stats{} }
