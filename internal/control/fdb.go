package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/state"
)

// fdbTimeout bounds how long a worker may take for one piece of its table.
const fdbTimeout = time.Second

// FDB returns the FDB entries, by VLAN and address. Any goroutine may call it while Run runs. The
// workers gather them in pieces, so it is no snapshot: entries that are learned or move meanwhile
// may be missing.
func (s *Switch) FDB(ctx context.Context) ([]state.FDBEntry, error) {
	all := []state.FDBEntry{}
	for _, w := range s.plane.Workers {
		known, err := w.FDB(ctx, fdbTimeout)
		if err != nil {
			return nil, err
		}
		for _, k := range known {
			if name := s.plane.PortName(bridge.PortID(k.Port)); name != "" {
				all = append(all, state.FDBEntry{MAC: k.MAC.String(), VLAN: k.VID, Port: name, Static: k.Static,
					AgeNS: k.Age})
			}
		}
	}
	slices.SortFunc(all, func(a, b state.FDBEntry) int {
		return cmp.Or(cmp.Compare(a.VLAN, b.VLAN), cmp.Compare(a.MAC, b.MAC), cmp.Compare(a.AgeNS, b.AgeNS))
	})
	// An address that moved meanwhile may be found twice: the latest entry counts.
	return slices.CompactFunc(all, func(a, b state.FDBEntry) bool { return a.VLAN == b.VLAN && a.MAC == b.MAC }), nil
}
