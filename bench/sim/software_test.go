package sim

import (
	"fmt"
	"testing"

	"sluice/bench/traffic"
	"sluice/internal/config"
	"sluice/internal/frame"
	"sluice/pfc"
)

const (
	hostA = frame.MAC(0x0200_0000_000a)
	hostB = frame.MAC(0x0200_0000_000b)

	siegeSeeds = 4
)

// fromA returns a flow of the shortest lossless frames from host A to the target. toA returns the
// lossy flow that keeps the TX ring of host A's port full if two ports send it. Both run at line
// rate.
func fromA(id uint32) traffic.Flow { return testFlow(id, lossless, traffic.MinSize, 0) }

func toA(id uint32) traffic.Flow {
	return traffic.Flow{ID: id, Dst: hostA, VID: 100, PCP: lossy, Size: traffic.MinSize}
}

// besiege has the target stop and resume the lossless class repeatedly.
func besiege(t *testing.T, f *Fabric, sink *Host) {
	t.Helper()
	if err := Refuse(f, sink); err != nil {
		t.Fatal(err)
	}
}

// peakHeadroom returns the most cells of headroom that a port's lossless class has used, and its
// drops. It fails if the siege has not stopped and resumed the port's peer.
func peakHeadroom(t *testing.T, f *Fabric, s *Switch, port int) (cells int, drops uint64) {
	t.Helper()
	p := s.Ports(f.Now())[port]
	if p.PFCSent.XOFF[lossless] < 4 || p.PFCSent.XON[lossless] < 3 {
		t.Errorf("%d XOFF and %d XON: the test tests too little", p.PFCSent.XOFF[lossless], p.PFCSent.XON[lossless])
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	return p.Groups[lossless].PeakHeadroom, p.LosslessDrops()
}

// usersSwitch is a configuration as a user writes it, without headroom. The ends of its cables need
// little more time to respond than the standard allows, so most of the headroom covers the contents
// of its own TX rings.
const usersSwitch = `
memory: {buffers: 16384, cell: 160B}
classes:
  - {cos: [3], lossless: true, share: 40KB}
  - {cos: [0], queue_limit: 200KB}
ports:
  - {device: a, speed: 10G, in_flight: 64KB, response: 5us}
  - {device: b, speed: 10G, in_flight: 64KB, response: 5us}
  - {device: target, speed: 10G, in_flight: 64KB, response: 5us}
`

// besiegeUsersSwitch attacks port a of that switch, which gets only a part of its computed
// headroom. It returns that headroom, the peak use and the drops.
func besiegeUsersSwitch(t *testing.T, seed uint64, part float64) (headroom, peak int, drops uint64) {
	t.Helper()
	c, err := config.Parse("switch.yaml", []byte(usersSwitch))
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Ports {
		c.Ports[i].Headroom = int(part * float64(c.Ports[i].Headroom))
	}
	f := NewFabric(seed)
	defer f.Close()
	s, err := f.AddConfigured(c)
	if err != nil {
		t.Fatal(err)
	}
	addHost := func(port int, mac frame.MAC, flow traffic.Flow) *Host {
		cable := Cable{Rate: c.Ports[port].Speed, Metres: c.Ports[port].Metres, Ring: s.Params.Ports[port].Buffers}
		h, err := f.AddHost(fmt.Sprintf("host %v", mac), s, port, cable, traffic.Params{
			MAC: mac, Speed: cable.Rate, InFlight: 1000, Flows: []traffic.Flow{flow},
			Priorities: 1 << lossless, ReactionDelay: 60 * pfc.QuantumBits * 1e9 / int64(cable.Rate),
		})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	addHost(0, hostA, fromA(1))
	addHost(1, hostB, toA(2))
	besiege(t, f, addHost(2, target, toA(3)))
	peak, drops = peakHeadroom(t, f, s, 0)
	return s.Params.Ports[0].Cells.Groups[lossless].Headroom, peak, drops
}

// TestUsersSwitchUnderFire: the headroom that a software switch computes for itself suffices when
// its TX ring is full of the shortest frames, and is not much too large: with a seventh less,
// frames drop.
func TestUsersSwitchUnderFire(t *testing.T) {
	for seed := range uint64(siegeSeeds) {
		headroom, peak, drops := besiegeUsersSwitch(t, seed, 1)
		t.Logf("seed %d: used %d cells of %d, %.0f %%", seed, peak, headroom, 100*float64(peak)/float64(headroom))
		if drops != 0 || float64(peak) < 0.87*float64(headroom) {
			t.Errorf("seed %d: %d drops, used %d cells of %d", seed, drops, peak, headroom)
		}
		for _, part := range []float64{1. / 3, 6. / 7} {
			if _, _, drops := besiegeUsersSwitch(t, seed, part); drops == 0 {
				t.Errorf("seed %d: with %.2f of the headroom nothing drops", seed, part)
			}
		}
	}
}
