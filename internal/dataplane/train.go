package dataplane

import (
	"encoding/binary"

	"sluice/internal/bridge"
	"sluice/pmd"
)

// Traffic comes in trains: frames of a burst, one behind the other, whose headers are alike but for
// the priority in the tag. What is decided for the first of a train holds for its followers. A
// frame that is like no neighbour is a train too, of one.

// trainHeader is how much of two frames is compared: addresses, tag and type. Shorter ones are
// trains of one.
const trainHeader = 18

// aloneFor is for how many bursts a port does not look for trains once most frames of a burst were
// trains of one.
const aloneFor = 127

// likeness is what the headers of a train have in common.
type likeness struct {
	first  uint64 // bytes 0 to 7, as they are in memory
	second uint16 // bytes 8 and 9
	third  uint64 // bytes 10 to 17, of which mask says what counts
	mask   uint64
	byPCP  [8]uint8 // the class of a frame, by what is where the PCP of a tag would be
}

// In bytes 10 to 17 of a frame, read as a little-endian number:
const (
	pcpPlace = 37        // the first bit of the PCP of a tag
	untagged = 1<<32 - 1 // what is before the tag, or belongs to the header of a frame without one
)

// likenessOf returns what a frame is to have in common with b, which has the header of f.
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

// follow is parse for the followers of a frame: those that lead what comes behind it in its burst.
// It stores their classes, and returns how many they are, and the set of their classes.
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

// directTrain sends the frames of a train to where the bridge has decided for all of them: to a
// port, or nowhere. Its first one is so far back in the burst in hand.
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
			w.refuse(p, &burst[i], dropOfBridge[f.Reason], f.Class)
		}
	}
}

// gatherTrain is gather for the frames of a train. It does nothing, and says so, where they may not
// all leave as they came, or where some are to be admitted before others are gathered (begin).
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
