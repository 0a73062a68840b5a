package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/internal/frame"
)

// Station is an address that the switch knows.
type Station struct {
	MAC    frame.MAC
	VLAN   uint16
	Device string
	Static bool
	Age    time.Duration // since a frame came from it, to about a µs; 0 if static
}

// stationsTimeout bounds how long a worker may take over one piece of its table.
const stationsTimeout = time.Second

// Stations returns the addresses that the switch knows, by VLAN and address. Any goroutine may call it while Run runs. The
// workers gather them in pieces, so it is no picture of one moment: what is learned or moves meanwhile may be missing.
func (s *Switch) Stations(ctx context.Context) ([]Station, error) {
	var all []Station
	for _, w := range s.plane.Workers {
		known, err := w.FDB(ctx, stationsTimeout)
		if err != nil {
			return nil, err
		}
		names := s.plane.Names()
		for _, k := range known {
			all = append(all, Station{k.MAC, k.VID, names[k.Port], k.Static, time.Duration(k.Age)})
		}
	}
	slices.SortFunc(all, func(a, b Station) int {
		return cmp.Or(cmp.Compare(a.VLAN, b.VLAN), cmp.Compare(a.MAC, b.MAC), cmp.Compare(a.Age, b.Age))
	})
	// Of a station that was met twice, on its way from one place to another, the latest counts.
	return slices.CompactFunc(all, func(a, b Station) bool { return a.VLAN == b.VLAN && a.MAC == b.MAC }), nil
}
