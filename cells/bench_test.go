package cells

import (
	"math/rand/v2"
	"testing"

	"sluice/internal/linux/umem"
)

const benchFrames = 4096

// benchManager returns a pool of 64 ports with only lossless groups, and frames in a random order.
func benchManager(b *testing.B) (*Manager, *[benchFrames]frame) {
	p := Params{CellSize: 160, Cells: 1 << 20, Ports: make([]PortParams, 64)}
	for n := range p.Ports {
		for i := range p.Ports[n].Groups {
			p.Ports[n].Groups[i] = GroupParams{Lossless: true, Reserved: 8, Share: 1000, Headroom: 400, XON: 800}
			p.Ports[n].Queues[i].Limit = 1 << 20
		}
	}
	frames := new([benchFrames]frame)
	for i := range frames {
		frames[i] = frame{rand.IntN(64), rand.IntN(8), 1 + rand.IntN(10), rand.IntN(64)}
	}
	return newManager(b, p), frames
}

func BenchmarkCells(b *testing.B) {
	m, _ := benchManager(b)
	sum := 0
	for i := uint(0); b.Loop(); i++ {
		sum += m.Cells(int(i & 0x3fff))
	}
	if sum == 0 {
		b.Fatal("no cells")
	}
}

func BenchmarkAdmitRelease(b *testing.B) {
	m, frames := benchManager(b)
	for i := uint(0); b.Loop(); i++ {
		f := &frames[i%benchFrames]
		m.Admit(f.port, f.priority, f.cells)
		m.Release(f.port, f.priority, f.cells)
	}
}

// BenchmarkAdmitReleaseHeadroom stays in XOFF: the slow path of Admit and Release.
func BenchmarkAdmitReleaseHeadroom(b *testing.B) {
	m, _ := benchManager(b)
	m.Admit(0, 3, 1100)
	for b.Loop() {
		m.Admit(0, 3, 10)
		m.Release(0, 3, 10)
	}
}

func BenchmarkEnqueueDequeue(b *testing.B) {
	m, frames := benchManager(b)
	for i := uint(0); b.Loop(); i++ {
		f := &frames[i%benchFrames]
		m.Enqueue(f.port, f.priority, f.from, f.cells)
		m.Dequeue(f.port, f.priority, f.from, f.cells)
	}
}

func BenchmarkCongested(b *testing.B) {
	m, _ := benchManager(b)
	sum := 0
	for i := uint(0); b.Loop(); i++ {
		sum += int(m.Congested(int(i & 63)))
	}
	if sum != 0 {
		b.Fatal("congested")
	}
}

// BenchmarkPool gets and puts a burst of 64 buffers.
func BenchmarkPool(b *testing.B) {
	p := umem.NewPool(0, 4096)
	var burst [64]uint32
	for b.Loop() {
		p.Put(burst[:p.Get(burst[:])])
	}
}
