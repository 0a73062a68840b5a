package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/cells"
	"sluice/cells/headroom"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
)

// The jumbo class of Cisco's document: two ends of 300 m at 10 Gbit/s with frames of up to 9216
// bytes, FCS included, a buffer of 480 KiB in cells of 160 bytes for each port, of which 409 are
// headroom. Frames lie in buffers of 4096 bytes, in up to three parts.
const (
	jumboLongest  = 9216 - frame.FCS
	jumboCells    = (jumboLongest + CellSize - 1) / CellSize
	jumboPart     = 4096 - afxdpRoom
	jumboRate     = 10 * gbit
	jumboHeadroom = 409
	jumboLimit    = 3072 - jumboHeadroom
	jumboPoll     = 10      // ns: hardware would not poll
	notYet        = 1 << 50 // ns
)

// jumboClass is a switch that forwards between two ports like a wire, and their peers. The peer of
// port 1 has stopped the lossless class for good, so what port 0 receives of it stays in the
// switch.
type jumboClass struct {
	t        *testing.T
	s        *dataplane.Switch
	now      int64 // ns
	wires    [2]*mem.Wire
	memory   [2][]byte
	lineFree [2]int64              // ps
	length   func(*jumboClass) int // of the sender's next frame; nil: none
	most     int                   // frames that the sender may send
	sent     int
	cells    int   // that these take
	stopAt   int64 // ns: when the pause takes effect at the sender
	reverse  bool  // whether the other peer sends longest lossy frames without a gap
}

// jumboMemory returns memory for one jumboClass at a time.
func jumboMemory(t *testing.T) *umem.Memory {
	t.Helper()
	memory, err := umem.Map(8192, 4096)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	return memory
}

// newJumboClass returns the switch with that many cells of headroom.
func newJumboClass(t *testing.T, memory *umem.Memory, room int) *jumboClass {
	t.Helper()
	p := dataplane.Params{
		Memory: memory, CellSize: CellSize, Part: jumboPart, Workers: 1,
		Bridge: bridge.Params{Mode: bridge.Wire, Ports: []bridge.PortParams{{Peer: 1}, {Peer: 0}}},
	}
	for i := range 2 {
		port := losslessPort(fmt.Sprint(i), jumboLongest, 1, jumboRate)
		port.Parts = DivideUp(jumboLongest, jumboPart)
		port.Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: jumboLimit, Headroom: room}
		port.Cells.Groups[lossy] = cells.GroupParams{Share: 1000}
		port.Cells.Queues[lossy] = cells.QueueParams{Limit: 1000}
		p.Ports = append(p.Ports, port)
	}
	x := &jumboClass{t: t, stopAt: notYet, most: 1 << 30}
	var err error
	if x.s, err = dataplane.NewSwitch(p); err != nil {
		t.Fatal(err)
	}
	var plan dataplane.Plan
	for i := range x.wires {
		x.plug(i, memory)
		link := dataplane.Link{Driver: x.wires[i].A, Up: true, TXRing: 512, Parts: pmd.MaxParts}
		plan.Links = append(plan.Links, link)
	}
	x.s.Publish(&plan)
	stop := pfc.Frame{Enable: 1 << lossless}
	stop.Quanta[lossless] = 65535
	x.step()
	stop.Put(x.memory[1][8192*2:], [6]byte{2})
	x.transmit(1, 8192*2, pfc.FrameLength)
	for range 3_000 / jumboPoll {
		x.step()
	}
	return x
}

// plug connects a port to its peer, which receives into two buffers and sends from what is behind
// them.
func (x *jumboClass) plug(i int, memory *umem.Memory) {
	x.memory[i] = make([]byte, 4*16384)
	var err error
	x.wires[i], err = mem.NewWire(
		mem.Params{Rate: jumboRate, Delay: mem.Length(300), MTU: jumboLongest, Part: jumboPart, Ring: 512,
			Tap: func(at int64, toB bool, b []byte) {
				var f pfc.Frame
				if kind, _ := pfc.Decode(b, &f); i == 0 && toB && kind == pfc.PFC && x.stopAt == notYet {
					x.stopAt = at + 60*pfc.QuantumBits*1e9/int64(jumboRate)
				}
			}},
		mem.End{Memory: memory.Bytes(), Buffer: memory.BufferSize()},
		mem.End{Memory: x.memory[i], Buffer: 4096})
	if err != nil {
		x.t.Fatal(err)
	}
	x.wires[i].A.Fill(x.s.Parked(i))
	x.wires[i].B.Fill([]uint64{0, 4096, 2 * 4096, 3 * 4096})
}

// transmit sends bytes of a peer's memory.
func (x *jumboClass) transmit(i, at, length int) {
	if x.wires[i].B.Transmit([]pmd.Desc{{Addr: uint64(at), Len: uint32(length)}}) != 1 {
		x.t.Fatal("the wire takes no frame")
	}
	x.lineFree[i] = max(1000*x.now, x.lineFree[i]) + int64(length+frame.WireOverhead)*8e12/int64(jumboRate)
}

// step lets a poll's time pass: the peers send, the switch works.
func (x *jumboClass) step() {
	x.now += jumboPoll
	for _, w := range x.wires {
		w.Advance(x.now)
		var burst [pmd.MaxParts]pmd.Desc
		var addrs [pmd.MaxParts]uint64
		w.B.Complete(addrs[:])
		n := w.B.Receive(burst[:])
		for j, d := range burst[:n] {
			addrs[j] = d.Addr
		}
		w.B.Fill(addrs[:n])
	}
	for x.length != nil && x.sent < x.most && x.begins(0) < min(x.stopAt*1000, (x.now+jumboPoll)*1000) {
		length := x.length(x)
		x.data(0, lossless, length)
		x.sent, x.cells = x.sent+1, x.cells+DivideUp(length, CellSize)
	}
	for x.reverse && x.begins(1) < (x.now+jumboPoll)*1000 {
		x.data(1, lossy, jumboLongest)
	}
	x.s.Workers[0].Step(x.now)
}

// begins returns when the next frame of a peer begins, ps.
func (x *jumboClass) begins(i int) int64 { return max(1000*x.now, x.lineFree[i]) }

// data sends a frame of a class.
func (x *jumboClass) data(i int, class uint8, length int) {
	const at = 8192 * 2
	n := frame.PutHeader(x.memory[i][at:], 0x0200_0000_0002, 0x0200_0000_0001, 1, class, true, frame.TypeIPv4)
	binary.BigEndian.PutUint32(x.memory[i][at+n:], uint32(x.sent))
	x.transmit(i, at, length)
}

// run sends frames of these lengths until the sender has been stopped and all have arrived.
func (x *jumboClass) run(length func(*jumboClass) int) {
	x.length = length
	for end := x.now + 1_000_000; x.now < end && x.now < x.stopAt+10_000; {
		x.step()
	}
}

// worst is the length of the sender's next frame in the worst case. The longest frames fill the
// group, after shortest ones so that they do so exactly, and the last of them crosses the threshold
// with all its cells. Shortest frames follow, and a longest one just before the sender must stop.
func (x *jumboClass) worst() int {
	last := x.begins(0)+(60+frame.WireOverhead)*8e12/int64(jumboRate) >= x.stopAt*1000
	if (x.cells >= jumboLimit%jumboCells && x.cells <= jumboLimit) || last {
		return jumboLongest
	}
	return 60
}

// port returns the state of the port that the lossless frames come in at, and checks that no
// buffer and no frame in a driver is lost.
func (x *jumboClass) port() dataplane.PortSnapshot {
	x.t.Helper()
	if err := x.s.Check(); err != nil {
		x.t.Error(err)
	}
	for i, w := range x.wires {
		if s := w.A.Stats(); s.Lost() > 0 {
			x.t.Errorf("port %d: the driver lost frames: %+v", i, s)
		}
	}
	return x.s.Workers[0].Look(x.now).Ports[0]
}

// TestJumboThresholdToTheFrame: the frame that takes the first cell of headroom sends XOFF, the one
// before it doesn't.
func TestJumboThresholdToTheFrame(t *testing.T) {
	memory := jumboMemory(t)
	for _, length := range []int{jumboLongest, 9018, 4218, 3713, 3712, 1518, 60} {
		frames := jumboLimit / DivideUp(length, CellSize) // that fit below the threshold
		x := newJumboClass(t, memory, jumboHeadroom)
		x.most = frames
		x.run(func(*jumboClass) int { return length })
		if p := x.port(); x.sent != frames || p.PFCSent.XOFF[lossless] != 0 || p.Groups[lossless].Headroom != 0 {
			t.Errorf("%d frames of %d B: %d XOFF, %+v", x.sent, length, p.PFCSent.XOFF[lossless], p.Groups[lossless])
		}
		x.most++
		x.run(x.length)
		p := x.port()
		used := (frames+1)*DivideUp(length, CellSize) - jumboLimit
		if x.sent != frames+1 || p.PFCSent.XOFF[lossless] != 1 || p.Groups[lossless].Headroom != used {
			t.Errorf("one frame more: %d XOFF, %+v, want 1 and %d cells of headroom", p.PFCSent.XOFF[lossless],
				p.Groups[lossless], used)
		}
	}
}

// TestJumboHeadroomOfCisco: with the 409 cells of the document no frame is lost, whatever the
// lengths, and although the other direction is full of longest frames. The exact method needs 318;
// with room for one longest frame less, frames are lost.
func TestJumboHeadroomOfCisco(t *testing.T) {
	exact, err := headroom.Compute(headroom.Measured, headroom.Params{
		Speed: jumboRate, MTUOwn: 9216, MTUPeer: 9216, Metres: 300, Medium: headroom.Fibre, Cell: CellSize,
		Unstored: frame.FCS, ResponseBits: 60 * 512, OwnGap: jumboPoll,
	})
	if err != nil {
		t.Fatal(err)
	}
	memory, rng := jumboMemory(t), rand.New(rand.NewPCG(1, 0))
	lengths := map[string]func(x *jumboClass) int{
		"longest": func(*jumboClass) int { return jumboLongest },
		"mixed":   func(*jumboClass) int { return 60 + rng.IntN(jumboLongest-59) },
		"worst":   (*jumboClass).worst,
	}
	peak, lost := map[string]int{}, map[int]uint64{} // by lengths, by headroom
	const phases = 8                                 // in which the crossing meets a frame of the reverse direction
	for name, length := range lengths {
		rooms := []int{exact.Cells, jumboHeadroom}
		if name == "worst" {
			rooms = append(rooms, exact.Cells-jumboCells)
		}
		for _, room := range rooms {
			for phase := range int64(phases) {
				x := newJumboClass(t, memory, room)
				x.reverse = true
				for end := x.now + 20_000 + 8*int64(jumboLongest)/10*phase/phases; x.now < end; {
					x.step()
				}
				x.run(length)
				p := x.port()
				if p.PFCSent.XOFF[lossless] == 0 {
					t.Errorf("%s: no XOFF", name)
				}
				peak[name] = max(peak[name], p.Groups[lossless].PeakHeadroom)
				if lost[room] += p.LosslessDrops(); room >= exact.Cells && p.LosslessDrops() > 0 {
					t.Errorf("%s: %d frames lost with %d cells of headroom", name, p.LosslessDrops(), room)
				}
			}
		}
	}
	t.Logf("exact, with %d ns of polling: %d cells; used at most %v; lost %v by cells of headroom", jumboPoll,
		exact.Cells, peak, lost)
	if lost[exact.Cells-jumboCells] == 0 {
		t.Error("with headroom for one longest frame less nothing is lost")
	}
}
