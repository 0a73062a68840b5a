package sim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"sluice/cells/headroom"
)

// HeadroomSample compares the headroom that one method computes for a link with the link's real
// need.
type HeadroomSample struct {
	Method   headroom.Method
	Link     headroom.Params
	Computed int // cells
	Partial  int // cells for the frame that crosses the limit, if the method leaves it out of Computed
	Used     int // cells used by the LinkAttack with the worst frame sizes
}

// Ratio returns computed cells per needed cell. Below 1, the method loses frames.
func (s HeadroomSample) Ratio() float64 { return float64(s.Computed) / float64(s.Used) }

// HeadroomUse attacks random links of 10 Gbit/s and returns the headroom that each method would
// have given them. It covers the methods that compute headroom from a link's data, method by method
// within each link. The peers respond within the 60 quanta of IEEE 802.1Qbb. SONiC's further
// parameters have their default values, except the MTUs, which are the link's.
func HeadroomUse(seed uint64, links int) ([]HeadroomSample, error) {
	methods := []headroom.Method{
		headroom.Cisco, headroom.CiscoWire, headroom.DCFarm, headroom.AnnexO, headroom.SONiC, headroom.Exact,
	}
	samples := make([]HeadroomSample, 0, links*len(methods))
	for i := range links {
		l := randomLink(rand.New(rand.NewPCG(seed, uint64(i))), 10e9)
		l.ResponseBits = 60 * 512
		damage, err := LinkAttack{Link: l, Headroom: ampleHeadroom, Limit: 1}.Run()
		if err != nil {
			return nil, err
		}
		for _, m := range methods {
			r, err := headroom.Compute(m, l)
			if err != nil {
				return nil, fmt.Errorf("bench: %s of %+v: %w", m, l, err)
			}
			samples = append(samples, HeadroomSample{m, l, r.Cells, r.Partial, damage.Used})
		}
	}
	return samples, nil
}

// ampleHeadroom is more cells than 100 km at 400 Gbit/s can fill.
const ampleHeadroom = 1 << 24

// ethernetSpeeds are the speeds of IEEE 802.3 from 1 to 400 Gbit/s, in bit/s.
var ethernetSpeeds = []uint64{1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 50e9, 100e9, 200e9, 400e9}

// randomLink draws a link with a length up to 100 km, log-uniformly. Most other parameters have a
// usual value in half of all cases and any value in the other half.
func randomLink(rng *rand.Rand, speeds ...uint64) headroom.Params {
	mostly := func(usual []int, least, most int) int {
		if rng.IntN(2) == 0 {
			return usual[rng.IntN(len(usual))]
		}
		return least + rng.IntN(most-least+1)
	}
	mtus := []int{64, 1518, 1522, 2240, 9216}
	l := headroom.Params{
		Speed:        speeds[rng.IntN(len(speeds))],
		MTUOwn:       mostly(mtus, shortest, 9216),
		MTUPeer:      mostly(mtus, shortest, 9216),
		Metres:       math.Round(1000*math.Pow(100e3, rng.Float64())) / 1000, // whole millimetres
		Medium:       headroom.Media()[rng.IntN(len(headroom.Media()))],
		Cell:         mostly([]int{64, 80, 96, 160, 208, 256}, 64, 2048),
		Unstored:     4 * rng.IntN(2),
		Transceivers: int64(mostly([]int{0, 512}, 0, 5000)),
		ResponseBits: mostly([]int{60 * 512, 394 * 512}, 1, 500*512),
	}
	if rng.IntN(20) == 0 {
		l.Metres = 0
	}
	l.SONiC = headroom.SONiCDefaults()
	l.SONiC.LosslessMTU, l.SONiC.PortMTU = l.MTUPeer, l.MTUOwn
	return l
}
