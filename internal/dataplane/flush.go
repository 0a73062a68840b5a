package dataplane

import "sluice/internal/bridge"

// Flush makes the workers forget learned addresses.
type Flush struct {
	Serial   uint64
	Port     int    // number; NoPort: all
	VLAN     uint16 // 0: all
	Announce bool   // instead: announce each address to the other workers when it is next seen
}

func (w *Worker) flush(f *Flush, now int64) {
	if f.Announce {
		w.bridge.Announce(now)
		return
	}
	w.ignoreAnnouncements()
	port := f.Port
	if port == NoPort {
		port = bridge.AnyPort
	}
	w.bridge.Flush(now, port, f.VLAN)
}
