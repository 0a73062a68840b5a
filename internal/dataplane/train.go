package dataplane

import (
	"encoding/binary"

	"sluice/internal/bridge"
	"sluice/pmd"
)

// Traffic comes in trains: successive frames of a burst whose headers differ only in the priority
// of the tag. The decisions for the first frame of a train hold for its followers. A frame unlike
// its neighbours is a train of one.

// trainHeader is how many bytes of two frames are compared: addresses, tag and type. A shorter
// frame is a train of one.
const trainHeader = 18

// aloneFor is for how many bursts a port does not look for trains after a burst in which most
// frames were trains of one.
const aloneFor = 127

// likeness is what the headers of a train have in common.
type likeness struct {
	first  uint64 // bytes 0 to 7
	second uint16 // bytes 8 and 9
	third  uint64 // bytes 10 to 17, compared under mask
	mask   uint64
	byPCP  [8]uint8 // class of a frame, by the bits where a tag would have its PCP
}

// In bytes 10 to 17 of a frame, read as a little-endian number:
const (
	pcpPlace = 37        // the first bit of the PCP of a tag
	untagged = 1<<32 - 1 // the bytes before a tag, or of the header of an untagged frame
)

// likenessOf returns what a frame must have in common with b, whose header is that of f.
func likenessOf(c *bridge.Classifier, f *bridge.Frame, b []byte) likeness {
	l := likeness{
		first: binary.LittleEndian.Uint64(b[:8]), second: binary.LittleEndian.Uint16(b[8:10]),
		third: binary.LittleEndian.Uint64(b[10:trainHeader]), mask: ^uint64(7 << pcpPlace), byPCP: c.PCP,
	}
	if !f.Header.Tagged {
		l.mask = untagged
		for i := range l.byPCP {
			l.byPCP[i] = c.Default
		}
	}
	return l
}

// follow parses the followers of a frame: the leading frames of behind that are like it. It stores
// their classes, and returns their number and the set of their classes.
//
//go:noinline
func (w *Worker) follow(
	p *port, f *bridge.Frame, head *pmd.Desc, behind []pmd.Desc, classes []uint8,
) (n int, set uint8) {
	if head.Len < trainHeader {
		return 0, 0
	}
	like := likenessOf(p.classifier, f, w.memory.Frame(head.Addr, head.Len))
	held, shift, memory, bytes := p.held, w.shift&63, w.memory, 0
	counts := uint64(0) // of frames, by class, 8 bits each
	classes = classes[:len(behind)]
	for i := range behind {
		d := &behind[i]
		id := d.Addr >> shift
		if id >= uint64(len(held)) || held[id] != holdingEmpty || d.Len < trainHeader {
			break
		}
		b := memory.Frame(d.Addr, d.Len)
		third := binary.LittleEndian.Uint64(b[10:trainHeader])
		if binary.LittleEndian.Uint64(b[:8])^like.first|uint64(binary.LittleEndian.Uint16(b[8:10])^like.second)|
			(third^like.third)&like.mask != 0 {
			break
		}
		class := like.byPCP[third>>pcpPlace&7] % Priorities
		if len(b) > p.longest[class] {
			break
		}
		held[id] = holdingNothing
		classes[i] = class
		counts += 1 << (class * 8 & 63)
		bytes += len(b)
		n++
	}
	p.filled -= n
	p.count.RXFrames += uint64(n)
	p.count.RXBytes += uint64(bytes)
	for class := range p.count.RX {
		if k := counts >> (class * 8 & 63) & 0xff; k > 0 {
			p.count.RX[class] += k
			set |= 1 << class
		}
	}
	return n, set
}

// directTrain sends the frames of a train where the bridge has decided for all of them: to a port,
// or nowhere. first is the place of the train's first frame in the current burst.
//
//go:noinline
func (w *Worker) directTrain(p *port, f *bridge.Frame, first int, set uint8) {
	end := first + 1 + int(f.Followers)
	burst, classes := w.burst[first:end], w.classes[first:end]
	classes[0] = f.Class
	if f.Out >= 0 && w.gatherTrain(p, burst, classes, set|1<<(f.Class%Priorities), w.ports[f.Out]) {
		return
	}
	for i := range burst {
		if f.Class = classes[i]; f.Out >= 0 {
			w.gather(p, f, &burst[i], f.Class, w.ports[f.Out])
		} else {
			w.reject(p, f, &burst[i])
		}
	}
}

// gatherTrain gathers the frames of a train. It does nothing and returns false where the frames
// might be changed on their way out, or where some must be admitted before others are gathered
// (begin).
//
//go:noinline
func (w *Worker) gatherTrain(p *port, burst []pmd.Desc, classes []uint8, set uint8, out *port) bool {
	if out.egress != nil || p.MaxFrame > out.longestOut {
		return false
	}
	batches := &out.batches
	for class := range batches {
		if g := &batches[class]; set>>class&1 != 0 && g.frames.Frames() != 0 && g.priority != uint8(class) {
			return false
		}
	}
	classes = classes[:len(burst)]
	for i := 0; i < len(classes) && set != 0; i++ { // batches are in the order of their first frames
		class := classes[i] % Priorities
		if g := &batches[class]; set>>class&1 != 0 && g.frames.Frames() == 0 {
			w.begin(p, g, class)
		}
		set &^= 1 << class
	}
	shift, mask, frames, arena, accounts, first := w.shift&63, w.mask, w.frames, w.arena, w.accounts, p.groups
	for i := range burst {
		d, class := &burst[i], classes[i]
		id, length := uint32(d.Addr>>shift), int(d.Len)
		n := accounts.Cells(length)
		frames[id] = newFrame(uint16(d.Addr)&mask, length, n, kindOf(first+uint16(class), class))
		g := &batches[class%Priorities]
		g.cells += n
		arena.Append(&g.frames, id, onWire(length))
	}
	return true
}
