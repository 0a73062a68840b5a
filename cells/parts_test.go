package cells

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/linux/umem"
)

// partSizes is how many bytes of a frame lie in a buffer of 2048 bytes, and in one of 4096 if the
// driver copies and if it does not.
var partSizes = []int{1664, 3328, 3712}

// longestJumbo is the longest frame of an MTU of 9500, with Ethernet header and tag.
const longestJumbo = 9500 + 18

// partsOf counts the buffers of a frame one by one.
func partsOf(length, part int) int {
	n := 1
	for ; length > part; length -= part {
		n++
	}
	return n
}

// TestCellsCoverParts: if a cell is at most as large as a part, no frame lies in more buffers than
// it costs cells. If a cell is larger, some frame does.
func TestCellsCoverParts(t *testing.T) {
	for _, part := range partSizes {
		parts := make([]int, longestJumbo+1)
		for length := range parts {
			parts[length] = partsOf(length, part)
		}
		covers := func(cell int) bool {
			m := newManager(t, Params{CellSize: cell, Cells: 1})
			for length := 14; length <= longestJumbo; length++ {
				if parts[length] > m.Cells(length) {
					return false
				}
			}
			return true
		}
		for cell := 64; cell <= part; cell++ {
			if !covers(cell) {
				t.Errorf("cells of %d B, parts of %d: a frame has more parts than cells", cell, part)
			}
		}
		if covers(part + 1) {
			t.Errorf("cells of %d B cover parts of %d: the test tests nothing", part+1, part)
		}
	}
}

// storage is a manager beside the memory that it accounts for: as many buffers as cells.
type storage struct {
	*Manager
	pool   *umem.Pool
	part   int
	frames []storedFrame
}

type storedFrame struct {
	frame
	buffers []uint32
}

// store finds buffers for frames that were admitted.
func (s *storage) store(t *rapid.T, f frame, lengths ...int) {
	for _, length := range lengths {
		n := storedFrame{f, make([]uint32, partsOf(length, s.part))}
		if n.cells = s.Cells(length); s.pool.Get(n.buffers) < len(n.buffers) {
			t.Fatalf("a frame of %d B was admitted with %d cells in use of %d, and finds fewer than %d buffers",
				length, s.InUse(), s.pool.Size(), len(n.buffers))
		}
		s.frames = append(s.frames, n)
	}
}

func (s *storage) release(i int) {
	f := s.frames[i]
	s.Release(f.port, f.priority, f.cells)
	s.pool.Put(f.buffers)
	s.frames = append(s.frames[:i], s.frames[i+1:]...)
}

// TestAdmittedFramesFindBuffers fills accounts of any shape, with dynamic limits and
// over-subscribed headroom, with frames of any length. An admitted frame finds a buffer for each of
// its parts.
func TestAdmittedFramesFindBuffers(t *testing.T) {
	most := 0 // buffers in use, %
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		part := rapid.SampledFrom(partSizes).Draw(t, "part")
		p.CellSize = rapid.OneOf(rapid.Just(part), rapid.IntRange(64, part)).Draw(t, "cell size")
		s := &storage{Manager: newManager(t, p), pool: umem.NewPool(0, p.Cells), part: part}
		length := rapid.OneOf(rapid.IntRange(14, longestJumbo), rapid.IntRange(part-2, part+2),
			rapid.IntRange(2*part-2, 2*part+2), rapid.Just(60))
		t.Repeat(map[string]func(*rapid.T){
			"admit": func(t *rapid.T) {
				f, n := drawFrame(t, p), length.Draw(t, "length")
				if s.Admit(f.port, f.priority, s.Cells(n)) == Admitted {
					s.store(t, f, n)
				}
			},
			"admit together": func(t *rapid.T) {
				f, lengths := drawFrame(t, p), rapid.SliceOfN(length, 1, 8).Draw(t, "lengths")
				cells := 0
				for _, n := range lengths {
					cells += s.Cells(n)
				}
				if s.AdmitAll(f.port, f.priority, cells) || s.AdmitPastShare(f.port, f.priority, cells) {
					s.store(t, f, lengths...)
				}
			},
			"release": func(t *rapid.T) {
				if len(s.frames) > 0 {
					s.release(rapid.IntRange(0, len(s.frames)-1).Draw(t, "which"))
				}
			},
		})
		for _, i := range rapid.Permutation(indices(len(p.Ports)*Priorities)).Draw(t, "order") {
			f := frame{port: i / Priorities, priority: i % Priorities}
			for _, n := range []int{5 * part, 3 * part, part} { // what fills its buffers
				for s.Admit(f.port, f.priority, s.Cells(n)) == Admitted {
					s.store(t, f, n)
				}
			}
		}
		most = max(most, 100*(p.Cells-s.pool.Free())/p.Cells)
		for len(s.frames) > 0 {
			s.release(0)
		}
		if check(t, s.Manager); s.InUse() != 0 || s.pool.Free() != p.Cells {
			t.Fatalf("idle: %d cells in use, %d buffers free of %d", s.InUse(), s.pool.Free(), p.Cells)
		}
	})
	if most < 100 && !testing.Short() { // then, too few cases are drawn
		t.Errorf("at most %d %% of the buffers were in use: the test tests too little", most)
	}
}
