package memory

import (
	"fmt"
	"testing"

	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
)

// BenchmarkPipelineFCoE compares, like BenchmarkPipelineSubscribed, a switch with an FCoE VLAN and
// without: with ordinary frames in another VLAN, and with FCoE frames in that VLAN, which pass by a
// virtual link or, without it, by learned addresses.
func BenchmarkPipelineFCoE(b *testing.B) {
	for name, c := range map[string]struct {
		etherType, vlan uint16
	}{"ordinary": {frame.TypeIPv4, 2094}, "FCoE": {frame.TypeFCoE, 1}} {
		for _, length := range []int{60, 1514} {
			b.Run(fmt.Sprintf("%s/%dB", name, length+4), func(b *testing.B) {
				memory, err := umem.Map(loopgap.Buffers, 2048)
				if err != nil {
					b.Fatal(err)
				}
				defer memory.Close()
				x := startSwitchable(b, memory, loopgap.Load{Lengths: []int{length}, Type: c.etherType})
				x.turn = func(p *dataplane.Params) {
					p.Bridge.FCoE = new(bridge.VLANSet)
					p.Bridge.FCoE.Add(c.vlan)
				}
				err = x.s.SetVirtualLinks([]bridge.VirtualLink{{VID: 1, VN: loopgap.Address(0, 0),
					FCF: loopgap.Address(1, 0), FCFPort: 1}})
				if err != nil {
					b.Fatal(err)
				}
				x.compare()
			})
		}
	}
}
