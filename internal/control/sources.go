package control

import (
	"slices"
	"time"

	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
)

// sourceQuiet is the least time between two lines for the same source address anomaly on a port.
const sourceQuiet = time.Minute

// loggedSources is what was last logged of an anomaly on a port.
type loggedSources struct {
	frames uint64
	at     int64 // ns of the worker's clock
}

var anomalyMessages = [bridge.Anomalies]string{
	bridge.Moved:  "MAC address moved to this port; repeated moves indicate a loop",
	bridge.NoRoom: "MAC address not learned, frames to it are flooded: raise forwarding.table or the port's mac_limit",
	bridge.Pinned: "frame from a MAC address whose static entry names another port",
	bridge.Own:    "received a frame with the switch's own source address: there is a loop",
}

// reportSources logs frames whose source address points to a loop, a flood of addresses or a wrong
// configuration. For each port and anomaly it logs the first one, and later, at most once per
// sourceQuiet, their number and an example.
func (s *Switch) reportSources(p *port, seen *dataplane.PortSnapshot, now int64) {
	for what := range bridge.Anomalies {
		is, last := &seen.Sources[what], &p.sources[what]
		if is.Frames < last.frames { // the count restarted
			*last = loggedSources{}
		}
		if is.Frames == last.frames || last.frames > 0 && now-last.at < int64(sourceQuiet) {
			continue
		}
		about := []any{"port", p.Device, "mac", is.MAC.String(), "vlan", is.VLAN, "frames", is.Frames - last.frames}
		if i := slices.IndexFunc(s.ports, func(p *port) bool { return p.number == is.From }); i >= 0 {
			about = append(about, "other_port", s.ports[i].Device)
		}
		s.log.Warn(anomalyMessages[what], about...)
		*last = loggedSources{is.Frames, now}
	}
}
