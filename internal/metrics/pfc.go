package metrics

import "sluice/internal/dataplane"

var (
	pfcFrames = counter("sluice_pfc_frames_total",
		"PFC frames, or PAUSE frames on a port that does PAUSE.", "device", "direction")
	pfcPauses = counter("sluice_pfc_pauses_total",
		"Times that a priority was stopped, not counting repetitions: received, by the peer; sent, the peer by us.",
		"device", "direction", "priority")
	pfcRefreshes = counter("sluice_pfc_refreshes_total",
		"Repetitions of a pause that lasts.", "device", "direction", "priority")
	pfcPaused = counter("sluice_pfc_paused_seconds_total",
		"Time that a priority was stopped, a pause that lasts included; its rate is the part of the time.",
		"device", "direction", "priority")
	pfcLapses = counter("sluice_pfc_lapses_total",
		"Pauses of the peer that ran out before they were repeated, so that it may have sent: the worker came too late.",
		"device", "priority")

	storming = gauge("sluice_pfc_storming",
		"1 while the priority is in a pause storm, found by the watchdog or made by hand.", "device", "priority")
	storms = counter("sluice_pfc_storms_total",
		"Pause storms that have begun.", "device", "priority")
	stormTime = counter("sluice_pfc_storm_seconds_total",
		"Time in pause storms, one that lasts included.", "device", "priority")
	stormForwarded = counter("sluice_pfc_storm_forwarded_frames_total",
		"Frames sent in spite of a pause, since the watchdog has taken it for a storm.", "device", "priority")
	stormDropped = counter("sluice_pfc_storm_dropped_frames_total",
		"Of sluice_dropped_frames_total, frames dropped since their priority was in a pause storm.", "device", "priority")
)

// pauses adds who has stopped whom. Where a priority is not lossless, or there is no flow control, one end may still be heard
// or have been told (asymmetric PFC, PAUSE, a configuration before).
func (s sink) pauses(device string, i int, p *dataplane.PortSnapshot, lossless bool) {
	heard, told, priority := &p.PFCReceived, &p.PFCSent, priorities[i]
	if lossless || heard.XOFF[i] > 0 {
		s.add(pfcPauses, float64(heard.Transitions[i]), device, received, priority)
		s.add(pfcRefreshes, float64(heard.XOFF[i]-heard.Transitions[i]), device, received, priority)
		s.add(pfcPaused, seconds(heard.PausedNS[i]), device, received, priority)
	}
	if lossless || told.XOFF[i] > 0 {
		s.add(pfcPauses, float64(told.XOFF[i]), device, sent, priority)
		s.add(pfcRefreshes, float64(told.Refreshes[i]), device, sent, priority)
		s.add(pfcPaused, seconds(told.PausedNS[i]), device, sent, priority)
		s.add(pfcLapses, float64(told.Lapses[i]), device, priority)
	}
}

// storms adds the pause storms of a priority, from the first scrape on where there can be one.
func (s sink) storms(device string, i int, p *dataplane.PortSnapshot) {
	dog, priority := &p.Watchdog, priorities[i]
	if p.Guard.Priorities>>i&1 != 0 || dog.Storms[i] > 0 {
		s.flag(storming, dog.Storming>>i&1 != 0, device, priority)
		s.add(storms, float64(dog.Storms[i]), device, priority)
		s.add(stormTime, seconds(dog.StormNS[i]), device, priority)
	}
	s.rare(stormForwarded, p.StormForwarded[i], device, priority)
	s.rare(stormDropped, p.Drops[dataplane.DropStorm][i], device, priority)
}
