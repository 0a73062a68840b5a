package drivers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/rigtest"
	"sluice/bench/vm/rig"
)

// BenchmarkModes compares zero-copy with copy mode: in each round, a switch in one guest forwards
// as many frames as it can in either mode, for the same time. It reports the median of the ratios
// of the two numbers, their least and their most. The numbers themselves are those of an emulated
// machine and mean nothing.
//
//	SLUICE_RIG=1 go test ./bench/vm/drivers -run - -bench Modes -benchtime 5x
func BenchmarkModes(b *testing.B) {
	const line = 1e9 // beyond what an emulated machine can forward
	for _, r := range []rigged{
		{driver: rig.VirtioNet, buffer: 2048, line: line}, {driver: rig.IGB, buffer: 4096, line: line},
	} {
		for _, bytes := range []int{64, 1514} {
			b.Run(fmt.Sprintf("%s/%d", r.driver.Name, bytes), func(b *testing.B) { compareModes(b, r, bytes) })
		}
	}
}

func compareModes(b *testing.B, r rigged, bytes int) {
	s := newSite(b, r)
	var ratios []float64
	for round := 0; b.Loop(); round++ {
		modes := []string{"copy", "zero-copy"}
		if round%2 == 1 {
			slices.Reverse(modes)
		}
		forwarded := map[string]float64{}
		for _, mode := range modes {
			forwarded[mode] = float64(forwardsIn(b, s, mode, bytes))
		}
		ratios = append(ratios, forwarded["zero-copy"]/forwarded["copy"])
		b.Logf("round %d: zero-copy/copy %.2f", round+1, ratios[round])
	}
	slices.Sort(ratios)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ratios[len(ratios)/2], "zero-copy/copy")
	b.ReportMetric(ratios[0], "least")
	b.ReportMetric(ratios[len(ratios)-1], "most")
}

// forwardsIn returns how many frames of some bytes the switch forwards in some seconds in a mode,
// when there are more than it can forward: otherwise the numbers of two modes would not compare the
// modes, but the sender with itself.
func forwardsIn(b *testing.B, s *site, mode string, bytes int) int {
	const warmUp, lasts, tooMany = time.Second, 3 * time.Second, 200e3 // frames/s
	s.mode = mode
	s.start(b)
	defer s.stop(b, unix.SIGTERM)
	for _, p := range s.state(b).Ports {
		if !strings.HasPrefix(p.Mode, mode) {
			b.Fatalf("%s: mode %s, not %s", p.Name, p.Mode, mode)
		}
	}
	f := s.Flow(0, 1, rig.Fixed(bytes, lossy))
	frames, began := int(tooMany*(warmUp+lasts).Seconds()), time.Now()
	sent := s.Send(0, f, frames, tooMany)
	time.Sleep(warmUp)
	before := s.Peers[1].Got(f).Frames
	time.Sleep(lasts)
	n := s.Peers[1].Got(f).Frames - before
	rigtest.Must(b, <-sent)
	offered := float64(frames) * float64(lasts) / float64(time.Since(began))
	s.Drain(b, 1, -1, f)
	s.Intact(b, 1, f, mode)
	if n == 0 || float64(n) > 0.9*offered {
		b.Fatalf("mode %s: %d frames forwarded of %.0f offered", mode, n, offered)
	}
	return n
}
