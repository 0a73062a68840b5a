package screen

import (
	"math"
	"time"

	"sluice/internal/state"
)

// Bytes on the wire that byte counters, which exclude the FCS, leave out of each frame (IEEE
// 802.3): the FCS on layer 2, and preamble, start delimiter and inter-packet gap too on layer 1.
const (
	layer2 = 4
	layer1 = layer2 + 20
)

// port returns a port and its state in the earlier report. That is nil if the earlier report is
// from another run of the switch or the port was removed and added again since.
func (v *View) port(i int) (now, before *state.Port) {
	now = &v.Now.Ports[i]
	if v.continues() {
		for i := range v.Before.Ports {
			if before := &v.Before.Ports[i]; before.Name == now.Name && before.Worker == now.Worker &&
				goesOn(now, before) {
				return now, before
			}
		}
	}
	return now, nil
}

// goesOn reports whether a port's counters continue those in before. A new port restarts all
// counters, so one that has decreased shows that all are new.
func goesOn(now, before *state.Port) bool {
	return before.NowNS < now.NowNS && before.Number == now.Number &&
		before.Received <= now.Received && before.Sent <= now.Sent && before.Dropped <= now.Dropped
}

// worker returns a worker and its state in the earlier report, or nil if that report is from
// another run.
func (v *View) worker(i int) (now, before *state.Worker) {
	now = &v.Now.Workers[i]
	if v.continues() {
		for i := range v.Before.Workers {
			if before := &v.Before.Workers[i]; before.Number == now.Number && before.NowNS < now.NowNS {
				return now, before
			}
		}
	}
	return now, nil
}

// continues reports whether both reports are from the same run, and no counters were cleared in
// between. Runs are the same if they started at the same time, within the second that allows for
// adjustments of the clock.
func (v *View) continues() bool {
	if v.Before == nil || v.Before.UptimeNS > v.Now.UptimeNS {
		return false
	}
	if a, b := v.Before.CountersCleared, v.Now.CountersCleared; (a == nil) != (b == nil) || a != nil && !a.Equal(*b) {
		return false
	}
	started := func(r *state.Switch) time.Time { return r.Time.Add(-time.Duration(r.UptimeNS)) }
	return started(v.Now).Sub(started(v.Before)).Abs() < time.Second
}

// portRates are the rates of a port. Unknown rates are NaN.
type portRates struct {
	in, out              flow
	dropped              float64 // frames/s
	pfcSent, pfcReceived float64 // frames/s
}

// flow is one direction of a port.
type flow struct {
	l1, l2 float64 // bit/s
	frames float64 // frames/s
	share  float64 // of the port's speed, 0 … 1
}

func ratesOf(now, before *state.Port) portRates {
	if before == nil {
		nan := math.NaN()
		none := flow{nan, nan, nan, nan}
		return portRates{none, none, nan, nan, nan}
	}
	ns := now.NowNS - before.NowNS
	direction := func(frames, framesBefore, bytes, bytesBefore uint64) flow {
		f, b := perSecond(frames, framesBefore, ns), perSecond(bytes, bytesBefore, ns)
		r := flow{l1: 8 * (b + layer1*f), l2: 8 * (b + layer2*f), frames: f}
		r.share = r.l1 / float64(now.Speed)
		return r
	}
	return portRates{
		in:          direction(now.Received, before.Received, now.ReceivedBytes, before.ReceivedBytes),
		out:         direction(now.Sent, before.Sent, now.SentBytes, before.SentBytes),
		dropped:     perSecond(now.Dropped, before.Dropped, ns),
		pfcSent:     perSecond(now.PFC.Frames, before.PFC.Frames, ns),
		pfcReceived: perSecond(now.PFC.Received, before.PFC.Received, ns),
	}
}

// perSecond returns the rate of a counter, or NaN if the counter was restarted.
func perSecond(now, before uint64, ns int64) float64 {
	if now < before {
		return math.NaN()
	}
	return float64(now-before) / float64(ns) * 1e9
}
