package adversary

import (
	"maps"
	"math/rand/v2"
	"testing"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/pmd"
)

// TestDrawSending: drivers send parts as they came, or only full buffers. Even where one full
// buffer would hold the longest frame, no link says that its driver receives no frame of several
// parts.
func TestDrawSending(t *testing.T) {
	const size = 4096
	c := &config.Config{Memory: config.Memory{BufferSize: size}}
	for longest, full := range map[int]int{size - 40: 2, size: 2, size + 1: 2, 2*size + 1: 3} {
		got := map[int]bool{}
		for seed := range uint64(100) {
			w := &world{drawn: &drawn{config: c, part: 1}, rng: rand.New(rand.NewPCG(seed, 0))}
			var p peer
			w.drawSending(&p, &dataplane.PortParams{MaxFrame: longest})
			got[p.parts] = true
		}
		if want := map[int]bool{full: true, pmd.MaxParts: true}; !maps.Equal(got, want) {
			t.Errorf("frames of up to %d bytes in buffers of %d: drivers send %v parts, want %v", longest, size,
				got, want)
		}
	}
}
