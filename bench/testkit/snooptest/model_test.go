package snooptest

import (
	"slices"
	"testing"

	"sluice/internal/fcoe"
)

// TestReader: the model's reader and the codec take the same frames. What the codec says is wrong
// with the others, the reader says, too.
func TestReader(t *testing.T) {
	m := New(DefaultConfig())
	traffic := NewTraffic(1, m)
	now := int64(0)
	var p fcoe.Packet
	good, bad, shown, standing := 0, map[string]int{}, 0, 0
	for range 50000 {
		e := traffic.Next(now)
		now += e.Step
		m.Apply(now, e)
		standing += len(m.links)
		if e.Kind != Receives {
			continue
		}
		got := fcoe.Parse(e.Bytes[14:], &p)
		msg, want := read(e.Bytes)
		if msg.betweenENodes() {
			continue
		}
		if got == fcoe.OK && len(want) == 0 {
			good++
			continue
		}
		bad[got.String()]++
		if !slices.Contains(want, got.String()) {
			if shown++; shown < 20 {
				t.Errorf("%s\nthe codec says %s, the reader %v", e, got, want)
			}
		}
	}
	t.Logf("%d good, %v; made %d ended %d, %.1f at a time", good, bad, m.Made, m.Ended, float64(standing)/50000)
}
