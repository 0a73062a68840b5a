package mem

import "sluice/pmd"

// Null is a port with nothing behind it: it receives frames for ever and has sent at once, as DPDK's net_null does.
// Of a frame it writes the headers only, from a list that it goes through in turn; what follows is what the buffer
// held before.
type Null struct {
	memory  []byte
	headers [][]byte
	next    int
	length  uint32
	ring    int
	empty   fifo[uint64]
	done    fifo[uint64]
}

// NewNull returns a port that takes up to ring buffers for reception and as many frames for sending, and receives
// frames of length bytes that start with one of headers.
func NewNull(memory []byte, ring, length int, headers ...[]byte) *Null {
	return &Null{
		memory: memory, headers: headers, length: uint32(length), ring: ring,
		empty: newFIFO[uint64](ring), done: newFIFO[uint64](ring),
	}
}

// Fill implements pmd.Port.
func (n *Null) Fill(addrs []uint64) int {
	k := min(len(addrs), n.ring-n.empty.len())
	for _, a := range addrs[:k] {
		n.empty.push(a)
	}
	return k
}

// Receive implements pmd.Port.
func (n *Null) Receive(burst []pmd.Desc) int {
	k := min(len(burst), n.empty.len())
	for i := range burst[:k] {
		addr := n.empty.pop()
		copy(n.memory[addr:], n.headers[n.next])
		if n.next++; n.next == len(n.headers) {
			n.next = 0
		}
		burst[i] = pmd.Desc{Addr: addr, Len: n.length}
	}
	return k
}

// Transmit implements pmd.Port.
func (n *Null) Transmit(burst []pmd.Desc) int {
	k := min(len(burst), n.ring-n.done.len())
	for _, d := range burst[:k] {
		n.done.push(d.Addr)
	}
	return k
}

// Complete implements pmd.Port.
func (n *Null) Complete(addrs []uint64) int { return n.done.popInto(addrs) }

// Flush implements pmd.Port.
func (n *Null) Flush() {}

// Stats implements pmd.Port.
func (n *Null) Stats() pmd.Stats { return pmd.Stats{} }
