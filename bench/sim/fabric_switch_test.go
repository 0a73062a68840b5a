package sim

import (
	"testing"

	"sluice/internal/frame"
)

// besiegeSwitch attacks a port of a switch whose peer is another switch, with spare cells of
// headroom more, or fewer, than the switch computes. Both TX rings are full: the switch's with
// lossy frames in front of the XOFF, the peer's with lossless frames that it still sends after it
// has received the XOFF.
//
//	A, A2 ── up ── sw ── B, target
func besiegeSwitch(t *testing.T, seed uint64, spare int) (headroom, peak int, drops uint64) {
	t.Helper()
	f := NewFabric(seed)
	up := testSwitch(t, f, "up", 3, 1)
	sw, err := f.AddLosslessSwitch("sw", LosslessSwitch{
		Ports: 3, Cable: Cable{Rate: 10 * gbit, Metres: 300}, Spare: spare,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Join(up, 2, sw, 0, Cable{Rate: 10 * gbit, Metres: 300}); err != nil {
		t.Fatal(err)
	}
	const hostA2 = frame.MAC(0x0200_0000_001a)
	testHost(t, f, up, 0, hostA, 10*gbit, fromA(1))
	testHost(t, f, up, 1, hostA2, 10*gbit, fromA(2))
	testHost(t, f, sw, 1, hostB, 10*gbit, toA(3))
	besiege(t, f, testHost(t, f, sw, 2, target, 10*gbit, toA(4)))
	peak, drops = peakHeadroom(t, f, sw, 0)
	return sw.Params.Ports[0].Cells.Groups[LosslessCoS].Headroom, peak, drops
}

// TestSwitchesUnderFire: the headroom between two ends of a fabric suffices and is not much too
// large: with a quarter less, frames drop. Most of the unused part is the standard's response time,
// since a switch of a fabric responds at once.
func TestSwitchesUnderFire(t *testing.T) {
	for seed := range uint64(siegeSeeds) {
		headroom, peak, drops := besiegeSwitch(t, seed, 0)
		t.Logf("seed %d: used %d cells of %d, %.0f %%", seed, peak, headroom, 100*float64(peak)/float64(headroom))
		if drops != 0 || float64(peak) < 0.75*float64(headroom) {
			t.Errorf("seed %d: %d drops, used %d cells of %d", seed, drops, peak, headroom)
		}
		if _, _, drops := besiegeSwitch(t, seed, -headroom/4); drops == 0 {
			t.Errorf("seed %d: with three quarters of the headroom nothing drops", seed)
		}
	}
}
