package metrics

import (
	"cmp"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/dataplane"
)

var (
	portUp = gauge("sluice_port_up",
		"1 if the port has its link and takes frames.", "device")
	portShut = gauge("sluice_port_shut",
		"1 if the port was shut by hand (sluice port shut) and has not been opened since.", "device")
	portInfo = gauge("sluice_port_info",
		"1, with how the device hands over frames: zero-copy, copy (native), copy (generic), or absent; and who sends them: xsk (the socket), "+
			"resident (the transmitter), or none while it is absent.", "device", "mode", "tx")
	portSpeed = gauge("sluice_port_speed_bytes_per_second",
		"The rate that the port sends at, on the wire: its configured speed, but not more than its link has.", "device")
	portLinkSpeed = gauge("sluice_port_link_speed_bytes_per_second",
		"The rate of the link, by which both ends count pauses, and headroom is computed.", "device")
	portResponse = gauge("sluice_port_response_seconds",
		"How late the worker and the peer may be, by the configuration, for headroom to hold what arrives meanwhile.", "device")

	receivedFrames = counter("sluice_port_received_frames_total",
		"Frames received and classified, those dropped later included.", "device", "priority")
	sentFrames = counter("sluice_port_sent_frames_total",
		"Frames forwarded to the port and given to its device.", "device", "priority")
	receivedBytes = counter("sluice_port_received_bytes_total",
		"Bytes of all frames received, without preamble, FCS and gap.", "device")
	sentBytes = counter("sluice_port_sent_bytes_total",
		"Bytes of frames forwarded to the port and given to its device, without preamble, FCS and gap.", "device")
	receivedBursts = counter("sluice_port_received_bursts_total",
		"Bursts in which frames were taken from the device; frames divided by bursts is how full they are.", "device")
	floodCopies = counter("sluice_port_flood_copies_total",
		"Further copies of flooded frames that came in here, those dropped included.", "device")
	sourceAnomalies = counter("sluice_port_source_anomalies_total",
		"Frames received whose source address points to a loop, a flood of addresses or a wrong configuration: moved (seen on another port "+
			"before), no_room (not learned), pinned (has a static entry for another port), own (the switch's own). A series begins with its first frame.",
		"anomaly", "device")
	controlFrames = counter("sluice_port_control_frames_total",
		"MAC control frames received (IEEE 802.3 clause 31): PFC, PAUSE and others; none is forwarded.", "device")
	controlFaults = counter("sluice_port_control_faults_total",
		"MAC control frames that were odd: short (without padding, obeyed), malformed, unknown (opcode), "+
			"ignored (PFC or PAUSE that the port does not do), misaddressed (neither to 01-80-C2-00-00-01 nor to the port's own address, ignored).",
		"device", "reason")
	markedFrames = counter("sluice_ecn_marked_frames_total",
		"Frames sent on with congestion experienced (RFC 3168).", "device", "priority")

	droppedFrames = counter("sluice_dropped_frames_total",
		"Frames dropped, each under one reason; ingress reasons at the port they came by, egress reasons at the one they were for. "+
			"A series begins with its first frame.", "device", "reason")
	losslessDrops = counter("sluice_lossless_dropped_frames_total",
		"Of sluice_dropped_frames_total, frames dropped for want of room while their priority was lossless: must stay 0.",
		"device", "priority", "reason")
	lossyDrops = counter("sluice_lossy_dropped_frames_total",
		"Of sluice_dropped_frames_total, by priority, lossy frames beyond their share (ingress_full), the limit of a queue (queue_full) "+
			"or WRED (early). A series begins with its first frame.", "device", "priority", "reason")

	groupUsed = gauge("sluice_priority_group_used_bytes",
		"Memory that frames of the priority group hold, headroom not included.", "device", "priority")
	groupWatermark = gauge("sluice_priority_group_shared_watermark_bytes",
		"The most that the priority group has held beyond its reserved memory, headroom not included, since the watermarks were cleared.",
		"device", "priority")
	headroomUsed = gauge("sluice_headroom_used_bytes",
		"Headroom that frames of the lossless priority hold.", "device", "priority")
	headroomWatermark = gauge("sluice_headroom_watermark_bytes",
		"The most headroom that was held since the watermarks were cleared.", "device", "priority")
	headroomLimit = gauge("sluice_headroom_limit_bytes",
		"Headroom that there is; more than this is lost.", "device", "priority")
	queueUsed = gauge("sluice_queue_used_bytes",
		"Memory that frames in the egress queue, or with the device to be sent, hold.", "device", "priority")
	queueWatermark = gauge("sluice_queue_watermark_bytes",
		"The most that the egress queue has held since the watermarks were cleared.", "device", "priority")

	driverLost = counter("sluice_driver_lost_frames_total",
		"Frames that the driver lost, of whatever class: rx_dropped (an empty fill ring among others), rx_ring_full, tx_invalid, tx_dropped, "+
			"tx_refused (its peer had no room for what the transmitter sent).",
		"device", "reason")
	driverCorrupt = counter("sluice_driver_corrupt_frames_total",
		"Frames that arrived with a wrong FCS.", "device")
	driverInvalid = counter("sluice_driver_invalid_buffers_total",
		"Buffers to receive into that the kernel found invalid in the fill ring.", "device")
	driverEmpty = counter("sluice_driver_fill_ring_empty_total",
		"Times the kernel found no buffer to receive into.", "device")
	driverWakeups = counter("sluice_driver_wakeups_total",
		"System calls made to start receiving or sending.", "device", "direction")
	driverDuplicates = counter("sluice_driver_duplicate_completions_total",
		"Buffers that the kernel gave back twice.", "device")
	driverGivenTwice = counter("sluice_driver_buffers_refused_total",
		"Buffers that the driver gave back with a frame though it did not have them to receive into.", "device")
	portBehind = counter("sluice_port_behind_total",
		"Iterations that left frames in the receive ring and paused all lossless classes of the peer.", "device")
)

// port adds what is known of a port. running is the configuration, which has it as named.
func (s sink) port(p *control.PortState, named *config.Port, running *config.Config) {
	device, cell := named.Device, running.Memory.Cell
	s.flag(portUp, p.Up, device)
	s.flag(portShut, p.Shut, device)
	tx, _ := p.Sender()
	s.add(portInfo, 1, device, p.Mode, cmp.Or(tx, "none"))
	s.add(portSpeed, float64(named.SendRate())/8, device)
	s.add(portLinkSpeed, float64(named.LinkSpeed)/8, device)
	s.add(portResponse, named.Response.Seconds(), device)
	s.traffic(device, &p.PortCounters)
	s.drops(device, &p.Drops)
	s.driver(device, p)
	for what := range bridge.Anomalies {
		s.rare(sourceAnomalies, p.Sources[what].Frames, what.String(), device)
	}
	s.add(pfcFrames, float64(p.PFCReceived.Frames), device, received)
	s.add(pfcFrames, float64(p.PFCSent.Frames), device, sent)
	for i := range dataplane.Priorities {
		class := running.Class(i)
		lossless := p.Lossless>>i&1 != 0
		s.congestionDrops(device, i, p, lossless)
		s.memory(device, i, &p.PortSnapshot, cell)
		if lossless && named.FlowControl != config.FlowOff { // what is kept where nobody is paused is no headroom
			s.headroom(device, i, &p.PortSnapshot, cell)
		}
		if n := p.Marked[i]; n > 0 || class.ECN {
			s.add(markedFrames, float64(n), device, priorities[i])
		}
		s.pauses(device, i, &p.PortSnapshot, lossless && named.FlowControl != config.FlowOff)
		s.storms(device, i, &p.PortSnapshot)
	}
}

func (s sink) traffic(device string, n *dataplane.PortCounters) {
	for i, priority := range priorities {
		s.add(receivedFrames, float64(n.RX[i]), device, priority)
		s.add(sentFrames, float64(n.TX[i]), device, priority)
	}
	s.add(receivedBytes, float64(n.RXBytes), device)
	s.add(receivedBursts, float64(n.RXBursts), device)
	s.add(sentBytes, float64(n.TXBytes), device)
	s.add(floodCopies, float64(n.FloodCopies), device)
	s.add(controlFrames, float64(n.Control), device)
	s.rare(controlFaults, n.ControlShort, device, "short")
	s.rare(controlFaults, n.ControlMalformed, device, "malformed")
	s.rare(controlFaults, n.ControlUnknown, device, "unknown")
	s.rare(controlFaults, n.ControlIgnored, device, "ignored")
	s.rare(controlFaults, n.ControlMisaddressed, device, "misaddressed")
}

// drops adds what a port has dropped for each reason. Only congestion (congestionDrops) and storms have the priority too, in
// metrics of their own: other reasons are about a frame, a VLAN, a link or a device, and a port has 136 pairs of reason and
// priority.
func (s sink) drops(device string, drops *dataplane.Losses) {
	for why := range dataplane.Drop(dataplane.DropReasons) {
		frames := uint64(0)
		for _, n := range drops[why] {
			frames += n
		}
		s.rare(droppedFrames, frames, device, why.String())
	}
}

// congestionDrops adds what a priority has lost for want of room. From the first scrape on there are those that an alert is about:
// Prometheus sees no increase from nothing to a first value.
func (s sink) congestionDrops(device string, i int, p *control.PortState, lossless bool) {
	for why := range dataplane.Drop(dataplane.DropReasons) {
		n, lost := p.Drops[why][i], p.Lost[why][i]
		if lost > 0 || lossless && losesLossless(why) {
			s.add(losslessDrops, float64(lost), device, priorities[i], why.String())
		}
		switch why {
		case dataplane.DropIngressFull, dataplane.DropQueueFull, dataplane.DropEarly:
			s.rare(lossyDrops, n-lost, device, priorities[i], why.String())
		}
	}
}

// losesLossless tells for which want of room a frame of a lossless priority can be dropped at all: it has no limit but headroom,
// and none in an egress queue.
func losesLossless(why dataplane.Drop) bool {
	switch why {
	case dataplane.DropHeadroomFull, dataplane.DropNoBuffer, dataplane.DropRefusedByDriver:
		return true
	}
	return false
}

// memory adds what a priority holds, if there ever was a frame of it.
func (s sink) memory(device string, i int, p *dataplane.PortSnapshot, cell int) {
	priority := priorities[i]
	bytes := func(cells int) float64 { return float64(cells * cell) }
	lossless := p.Lossless>>i&1 != 0
	if g := &p.Groups[i]; lossless || p.RX[i] > 0 {
		s.add(groupUsed, bytes(g.Reserved+g.Shared), device, priority)
		s.add(groupWatermark, bytes(g.PeakShared), device, priority)
	}
	if q := p.Queues[i]; lossless || q != (cells.QueueUsage{}) {
		s.add(queueUsed, bytes(q.Used), device, priority)
		s.add(queueWatermark, bytes(q.Peak), device, priority)
	}
}

func (s sink) headroom(device string, i int, p *dataplane.PortSnapshot, cell int) {
	g, priority := &p.Groups[i], priorities[i]
	s.add(headroomUsed, float64(g.Headroom*cell), device, priority)
	s.add(headroomWatermark, float64(g.PeakHeadroom*cell), device, priority)
	s.add(headroomLimit, float64(p.Limits[i].Headroom*cell), device, priority)
}

func (s sink) driver(device string, p *control.PortState) {
	n := &p.Driver
	s.add(driverLost, float64(n.RXDropped), device, "rx_dropped")
	s.add(driverLost, float64(n.RXRingFull), device, "rx_ring_full")
	s.add(driverLost, float64(n.TXInvalid), device, "tx_invalid")
	s.add(driverLost, float64(n.TXDropped), device, "tx_dropped")
	s.add(driverLost, float64(n.TXRefused), device, "tx_refused")
	s.add(driverCorrupt, float64(n.RXCorrupt), device)
	s.rare(driverInvalid, n.RXInvalid, device)
	s.add(driverEmpty, float64(n.RXFillEmpty), device)
	s.add(driverWakeups, float64(n.RXWakeups), device, received)
	s.add(driverWakeups, float64(n.TXWakeups), device, sent)
	s.rare(driverDuplicates, p.DuplicateCompletions, device)
	s.rare(driverGivenTwice, p.RXTwice, device)
	s.add(portBehind, float64(p.Behind), device)
}
