package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/dataplane/drop"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/state"
)

// place is a position in the state.
type place struct {
	port   *state.Port
	cos    *state.CoS
	worker *state.Worker
}

// enter records the sender's position, and sends the metrics there that are not fields.
func (s *sender) enter(of any) {
	switch of := of.(type) {
	case *state.Port:
		s.at.port = of
		s.send(portInfo, 1, of.Name, of.Mode, cmp.Or(of.TX, "none"))
		s.drops(of)
	case *state.DCBX:
		s.send(dcbxInfo, 1, s.at.port.Name, of.Version, of.Role, s.at.port.FlowControl)
	case *state.PortFCoE:
		s.send(fcoeInfo, 1, s.at.port.Name, of.Role)
		s.fcoe(of)
	case *state.CoS:
		s.at.cos = of
	case *state.Worker:
		s.at.worker = of
	}
}

// rules report whether fields that name them have series: numbers that stay 0 have none. Since
// Prometheus sees no increase from nothing to a first value, series for alerts exist from the first
// scrape on.
var rules = map[string]func(*place) bool{
	"marked": func(p *place) bool { return p.cos.ECN || p.cos.Marked > 0 },
	"group":  func(p *place) bool { return p.cos.Lossless || p.cos.Received > 0 },
	"queue":  func(p *place) bool { return p.cos.Lossless || p.cos.Queue.Max > 0 },
	// Without flow control, the memory that is kept is no headroom.
	"headroom": (*place).pausable,
	// For a lossy priority, or without flow control, one end may still have sent a pause
	// (asymmetric PFC, PAUSE, an earlier configuration).
	"pause_sent":     func(p *place) bool { return p.pausable() || p.cos.PauseSent.XOFF > 0 },
	"pause_received": func(p *place) bool { return p.pausable() || p.cos.PauseReceived.XOFF > 0 },
	"watched": func(p *place) bool {
		return p.cos.Storms > 0 || p.port.Watchdog != nil && slices.Contains(p.port.Watchdog.CoS, p.cos.CoS)
	},
}

func (p *place) pausable() bool { return p.cos.Lossless && p.port.FlowControl != "off" }

var portInfo = declare("sluice_port_info",
	"1, with the mode of the device (zero-copy, copy (native) or copy (generic); or absent, set down or "+
		"closed) and the sender: xsk (the socket), resident (the transmitter), or none while the port is not "+
		"open", "device", "mode", "tx")

var dcbxInfo = declare("sluice_dcbx_info",
	"1, with the DCBX version that the port uses (ieee, cee or cin), its role (manual, upstream or downstream) "+
		"and its flow_control (with auto, DCBX decides on PFC)", "device", "version", "role", "flow_control")

// FIP snooping counts by reason, too: of those without an alert, only what has occurred has series.
var (
	fcoeInfo = declare("sluice_fcoe_port_info",
		"1, with the role of the port for FIP snooping (enode, fcf or trusted)", "device", "role")
	refusedFrames = declare("sluice_fip_refused_frames_total",
		"FIP frames received and dropped by FIP snooping, by reason (docs/fcoe.md)", "device", "reason")
	endedSessions = declare("sluice_fcoe_ended_sessions_total",
		"FCoE sessions of hosts behind the port that ended, by reason (docs/fcoe.md)", "device", "reason")

	fipAlerts   = reasons(snoop.Reasons, snoop.Reason.Alerts)
	endAlerts   = reasons(snoop.Causes, snoop.Cause.Alerts)
	fcoeReasons = append([]string{drop.FCoESession.String(), drop.FCoEVLAN.String()}, puntReasons...)
)

// fcoe sends the counters by reason of a port with FIP snooping.
func (s *sender) fcoe(p *state.PortFCoE) {
	refused, ended := zeros(fipAlerts), zeros(nil)
	if p.Role != "fcf" {
		ended = zeros(endAlerts)
	}
	for _, r := range p.Refusals {
		refused[r.Reason] = r.Frames
	}
	for _, e := range p.Endings {
		ended[e.Reason] = e.Sessions
	}
	for reason, n := range refused {
		s.send(refusedFrames, float64(n), s.at.port.Name, reason)
	}
	for reason, n := range ended {
		s.send(endedSessions, float64(n), s.at.port.Name, reason)
	}
}

// zeros returns a counter for each reason.
func zeros(reasons []string) map[string]uint64 {
	all := make(map[string]uint64)
	for _, reason := range reasons {
		all[reason] = 0
	}
	return all
}

// The series of drops are not made from fields of the state, whose list of drops has only those
// that occurred. Only congestion and storms (state.CoS) have the priority: other reasons concern a
// frame, a VLAN, a link or a device, and a port has 136 pairs of reason and priority.
var (
	droppedFrames = declare("sluice_dropped_frames_total",
		"Frames dropped, each under one reason: ingress reasons at the port where the frame arrived, "+
			"egress reasons at the port that it was bound for. A series begins with its first frame, except "+
			"punt_rate and punt_full of a port with LLDP, fcoe_session and fcoe_vlan of one with FIP snooping, and "+
			"parts of one whose frames may occupy several buffers",
		"device", "reason")
	losslessDrops = declare("sluice_lossless_dropped_frames_total",
		"Of sluice_dropped_frames_total, frames dropped for lack of room while their priority was lossless: "+
			"must stay 0",
		"device", "priority", "reason")
	lossyDrops = declare("sluice_lossy_dropped_frames_total",
		"Of sluice_dropped_frames_total, by priority, lossy frames that exceeded their share (ingress_full) "+
			"or the limit of a queue (queue_full), or that WRED dropped (early). "+
			"A series begins with its first frame",
		"device", "priority", "reason")
)

var (
	// losslessReasons are the possible reasons of a lossless drop for lack of room: a lossless
	// priority has no limit but headroom, and none in an egress queue.
	losslessReasons = reasons(drop.Reason(drop.Reasons), drop.Reason.Loss)
	lossyReasons    = reasons(drop.Reason(drop.Reasons), drop.Reason.Limit)
	// puntReasons are those of LLDPDUs and FIP frames that the switch does not process: they come
	// too fast.
	puntReasons = reasons(drop.Reason(drop.Reasons), drop.Reason.Punt)
)

// reasons returns the names of the reasons below n for which is holds.
func reasons[R interface {
	~uint8
	String() string
}](n R, is func(R) bool) (names []string) {
	for r := range n {
		if is(r) {
			names = append(names, r.String())
		}
	}
	return names
}

func (s *sender) drops(p *state.Port) {
	type source struct {
		cos    int
		reason string
	}
	frames, lost := make(map[string]uint64), make(map[source]uint64)
	for i := range p.ByCoS {
		for _, reason := range losslessReasons {
			if c := &p.ByCoS[i]; c.Lossless {
				lost[source{c.CoS, reason}] = 0
			}
		}
	}
	if p.Parts > 1 {
		frames[drop.Parts.String()] = 0
	}
	if p.LLDP != nil {
		maps.Copy(frames, zeros(puntReasons))
	}
	if p.FCoE != nil {
		maps.Copy(frames, zeros(fcoeReasons))
	}
	for _, d := range p.Drops {
		frames[d.Reason] += d.Frames
		if d.Lossless > 0 {
			lost[source{d.CoS, d.Reason}] = d.Lossless
		}
		if lossy := d.Frames - d.Lossless; lossy > 0 && slices.Contains(lossyReasons, d.Reason) {
			s.send(lossyDrops, float64(lossy), p.Name, strconv.Itoa(d.CoS), d.Reason)
		}
	}
	for reason, n := range frames {
		s.send(droppedFrames, float64(n), p.Name, reason)
	}
	for of, n := range lost {
		s.send(losslessDrops, float64(n), p.Name, strconv.Itoa(of.cos), of.reason)
	}
}

// gaps sends the histogram of the times between a worker's iterations. Their sum is how long the
// worker has run, since gaps follow each other without a break.
func (s *sender) gaps(f *family, gaps []state.Gap, labels []string) {
	w, buckets := s.at.worker, make(map[float64]uint64)
	for _, g := range gaps {
		buckets[float64(g.AtMostNS)/1e9] = g.Iterations
	}
	s.to <- prometheus.MustNewConstHistogram(f.desc, w.Iterations, float64(w.NowNS)/1e9, buckets, labels...)
}
