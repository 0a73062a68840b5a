package line

import "sluice/pmd"

// Parts returns how many descriptors the first frame of a burst has. The burst is not empty.
func Parts(burst []pmd.Desc) int {
	n := 1
	for n < len(burst) && burst[n-1].Options&pmd.Continued != 0 {
		n++
	}
	return n
}

// Frames returns how many frames a burst has.
func Frames(burst []pmd.Desc) (n int) {
	for i := range burst {
		if burst[i].Options&pmd.Continued == 0 {
			n++
		}
	}
	return n
}

// Receive receives up to most frames or parts of frames in burst, or one frame with more parts than
// that. burst has room for most descriptors and for pmd.MaxParts.
func Receive(port pmd.Port, burst []pmd.Desc, most int) int {
	n := port.Receive(burst[:most])
	if n == 0 && most < pmd.MaxParts && port.Waiting() > 0 {
		n = port.Receive(burst[:pmd.MaxParts])
	}
	return n
}

// Whole makes frames of several parts contiguous.
type Whole struct {
	memory []byte
	copied []byte // the latest frame of several parts
}

// NewWhole returns a Whole for the frames in a memory.
func NewWhole(memory []byte) Whole { return Whole{memory: memory} }

// Frame returns the bytes of the frame with these parts: those in the memory if there is only one
// part, else a copy that is valid until the next call.
func (w *Whole) Frame(parts []pmd.Desc) []byte {
	if len(parts) == 1 {
		return w.part(parts[0])
	}
	w.copied = w.copied[:0]
	for _, d := range parts {
		w.copied = append(w.copied, w.part(d)...)
	}
	return w.copied
}

// Store writes the bytes that Frame has returned back to the frame's parts.
func (w *Whole) Store(parts []pmd.Desc, b []byte) {
	if len(parts) == 1 {
		return // b is in the memory
	}
	for _, d := range parts {
		b = b[copy(w.part(d), b):]
	}
}

func (w *Whole) part(d pmd.Desc) []byte { return w.memory[d.Addr : d.Addr+uint64(d.Len)] }
