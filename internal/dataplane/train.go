package dataplane

import (
	"encoding/binary"

	"sluice/internal/dataplane/bridge"
	"sluice/pmd"
)

// Traffic comes in trains: successive frames of a burst whose headers differ only in the priority
// of the tag. The decisions for the first frame of a train hold for its followers. A frame unlike
// its neighbours is a train of one.

// aloneFor is for how many bursts a port does not look for trains after a burst in which most
// frames were trains of one.
const aloneFor = 127

// follow parses the followers of a frame: the leading frames of behind that are like it. It stores
// their classes, and returns their number and the set of their classes.
//
//go:noinline
func (w *Worker) follow(
	p *port, f *bridge.Frame, head *pmd.Desc, behind []pmd.Desc, classes []uint8,
) (n int, set uint8) {
	if head.Len < bridge.TrainHeader {
		return 0, 0
	}
	like := bridge.LikenessOf(p.classifier, f, w.memory.Frame(head.Addr, head.Len))
	held, shift, memory, bytes := p.held, w.shift&63, w.memory, 0
	counts := uint64(0) // of frames, by class, 8 bits each
	classes = classes[:len(behind)]
	for i := range behind {
		d := &behind[i]
		id := d.Addr >> shift
		if id >= uint64(len(held)) || held[id] != holdingEmpty || d.Len < bridge.TrainHeader {
			break
		}
		b := memory.Frame(d.Addr, d.Len)
		third := binary.LittleEndian.Uint64(b[10:bridge.TrainHeader])
		if binary.LittleEndian.Uint64(b[:8])^like.First|uint64(binary.LittleEndian.Uint16(b[8:10])^like.Second)|
			(third^like.Third)&like.Mask != 0 {
			break
		}
		class := like.ByPCP[third>>bridge.PCPPlace&7] % Priorities
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
	shift, mask, frames, arena, accounts, words := w.shift&63, w.mask, w.frames, w.arena, w.accounts, &p.words
	for i := range burst {
		d, class := &burst[i], classes[i]
		id, length := uint32(d.Addr>>shift), int(d.Len)
		n := accounts.Cells(length)
		frames[id] = newWord(uint16(d.Addr)&mask, length, n, 0) | words[class%Priorities]
		g := &batches[class%Priorities]
		g.cells += n
		arena.Append(&g.frames, id, onWire(length))
	}
	return true
}
