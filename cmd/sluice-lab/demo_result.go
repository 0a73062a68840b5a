package main

import (
	"fmt"

	"sluice/internal/control"
)

// demoResult is the result of the demo: frames the hosts sent and received, and PFC frames the
// switch sent.
type demoResult struct {
	Verdict  string             `json:"verdict"` // pass or fail
	Lossless classResult        `json:"lossless"`
	Lossy    classResult        `json:"lossy"`
	PFC      pfcResult          `json:"pfc"`
	Ports    []control.PortInfo `json:"ports"`
	Where    lossResult         `json:"lost_where"`
	DCBX     []demoAgreement    `json:"dcbx,omitempty"` // by port, with --dcbx
}

// lossResult says where frames were lost or dropped. All but LosslessDrops include lossy frames.
type lossResult struct {
	LosslessDrops uint64 `json:"switch_lossless_drops"` // because buffers were full
	SwitchDrops   uint64 `json:"switch_drops"`          // for any reason, including LosslessDrops
	SwitchDrivers uint64 `json:"switch_ports"`          // between the switch's devices and its workers
	HostDrivers   uint64 `json:"host_ports"`            // between the hosts' devices and the hosts

	// GapMS is the longest time between two iterations of the worker, in ms. If the buffers
	// of the ports do not last as long, frames are lost in the drivers.
	GapMS float64 `json:"worker_gap_max_ms"`
}

// classResult counts frames end to end.
type classResult struct {
	Sent      uint64 `json:"sent"`
	Received  uint64 `json:"received"`
	Lost      uint64 `json:"lost"`
	Reordered uint64 `json:"reordered"`
}

// pfcResult counts the PFC frames that the switch sent.
type pfcResult struct {
	XOFF     uint64  `json:"xoff"` // transitions, of all ports and priorities
	XON      uint64  `json:"xon"`
	Frames   uint64  `json:"frames"`    // including refreshes
	PausedMS float64 `json:"paused_ms"` // sum of the times that the hosts' lossless class was paused
}

// result compares the frames sent and received so far. After settle, missing frames are lost.
func (d *demo) result() (r demoResult, err error) {
	r.Ports = d.sw.Ports()
	classOf := func(flow uint32) *classResult {
		switch {
		case flow < demoSenders:
			return &r.Lossless
		case flow < demoHello:
			return &r.Lossy
		}
		return new(classResult)
	}
	for _, host := range d.hosts.Stats() {
		for _, s := range host.Sent {
			classOf(s.ID).Sent += s.Frames
		}
		for _, f := range host.Received {
			classOf(f.ID).Received += f.Frames
			classOf(f.ID).Reordered += f.Reordered
		}
		r.PFC.PausedMS += float64(host.PFC.PausedNS[demoLossless]) / 1e6
	}
	for _, c := range []*classResult{&r.Lossless, &r.Lossy} {
		c.Lost = c.Sent - c.Received
	}
	state, err := d.sw.State()
	if err != nil {
		return r, err
	}
	r.Where = lossResult{LosslessDrops: state.LosslessDrops(), HostDrivers: d.hosts.Lost()}
	for _, w := range state.Workers {
		r.Where.GapMS = max(r.Where.GapMS, float64(w.Gap.Max)/1e6)
	}
	for _, p := range state.Ports {
		r.Where.SwitchDrivers += p.Driver.Lost()
		r.Where.SwitchDrops += p.Dropped()
		r.PFC.Frames += p.PFCSent.Frames
		for priority := range p.PFCSent.XOFF {
			r.PFC.XOFF += p.PFCSent.XOFF[priority]
			r.PFC.XON += p.PFCSent.XON[priority]
		}
	}
	if d.dcbx != "" {
		if r.DCBX, err = d.agreements(); err != nil {
			return r, err
		}
	}
	r.Verdict = "fail"
	if r.Lossless.Received > 0 && r.Lossless.Lost == 0 && r.Lossy.Lost > 0 && r.PFC.XOFF > 0 && r.PFC.XON > 0 &&
		r.Lossless.Reordered+r.Lossy.Reordered == 0 {
		r.Verdict = "pass"
	}
	return r, nil
}

// String returns the verdict line, and with --dcbx before it what was agreed.
func (r demoResult) String() string {
	order := "order kept"
	if n := r.Lossless.Reordered + r.Lossy.Reordered; n > 0 {
		order = fmt.Sprintf("%d out of order", n)
	}
	where := ""
	if r.Verdict != "pass" {
		where = fmt.Sprintf("\ndropped by the switch: %d, %d of them lossless for lack of room; lost in the "+
			"drivers of the switch: %d, of the hosts: %d; longest gap of the switch's worker: %.1f ms",
			r.Where.SwitchDrops, r.Where.LosslessDrops, r.Where.SwitchDrivers, r.Where.HostDrivers, r.Where.GapMS)
	}
	return fmt.Sprintf("%s%s: lossless lost %d of %d, lossy lost %d of %d, PFC frames sent %d (XOFF %d, XON %d), %s%s",
		agreementTable(r.DCBX), r.Verdict, r.Lossless.Lost, r.Lossless.Sent, r.Lossy.Lost, r.Lossy.Sent,
		r.PFC.Frames, r.PFC.XOFF, r.PFC.XON, order, where)
}
