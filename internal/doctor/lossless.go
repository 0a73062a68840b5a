package doctor

import (
	"fmt"
	"math"
	"slices"
	"time"

	"sluice/cells/headroom"
	"sluice/internal/config"
	"sluice/internal/text/units"
)

// longestResponse is the maximum that the configuration accepts.
const longestResponse = time.Second

// gap is the longest time between two iterations of a worker's loop, and when it was measured.
type gap struct {
	worst time.Duration
	from  string
	known bool
}

// loopGap determines the workers' longest gaps and whether headroom covers them.
func loopGap(e *examination) {
	if e.Config == nil {
		return
	}
	gaps := map[int]gap{} // by worker
	for i, cpu := range e.workers() {
		gaps[i] = e.gapOn(i, cpu)
	}
	for i := range e.Config.Ports {
		p := &e.Config.Ports[i]
		e.overrun(p)
		if p.FlowControl != config.FlowOff {
			e.headroomOf(p, gaps[e.workerOf(p)])
		}
	}
}

// workerOf returns the index of a port's worker.
func (e *examination) workerOf(p *config.Port) int {
	if runs := e.Running.port(p.Device); runs != nil {
		return runs.Worker
	}
	return p.Worker
}

// gapOn returns the gap of one worker's loop. It measures only if that disturbs no switch.
func (e *examination) gapOn(worker, cpu int) gap {
	subject := fmt.Sprintf("cpu %d", cpu)
	if e.Running != nil {
		of := e.Running.Workers[worker]
		worst, recent := time.Duration(of.GapWaitNS).Round(time.Microsecond),
			time.Duration(of.GapRecentNS).Round(time.Microsecond)
		if of.GapRecentNS == 0 {
			e.ok(subject, "longest wait (two consecutive gaps of the worker's loop): %v since the start of the switch",
				worst)
			return gap{worst, "since the start", true}
		}
		e.ok(subject, "longest wait (two consecutive gaps of the worker's loop): %v in the last ten minutes, "+
			"%v since the start of the switch", recent, worst)
		return gap{recent, "in the last ten minutes", true}
	}
	if by := e.disturbed(cpu); by != "" {
		e.warn(subject, "", "the longest wait was not measured, because the measurement would disturb %s: "+
			"name the socket of a running switch with --socket", by)
		return gap{}
	}
	worst, err := e.Gap(cpu)
	if err != nil {
		e.warn(subject, "", "can't measure the longest wait: %v", err)
		return gap{}
	}
	worst = worst.Round(time.Microsecond)
	e.ok(subject, "longest wait (two consecutive gaps of a worker's loop): %v, measured for half a second", worst)
	return gap{worst, "just measured", true}
}

// disturbed returns what a loop on a CPU would disturb, or "".
func (e *examination) disturbed(cpu int) string {
	if e.Silent != nil {
		return "a switch that may be running but does not answer"
	}
	for i := range e.Config.Ports {
		name := e.Config.Ports[i].Device
		if d, err := e.Device(name); err == nil && d.Program != nil && (d.Program.Ours() || d.Program.Hidden) {
			return "the program that uses " + name
		}
	}
	if process := e.Poller(cpu); process != 0 {
		return fmt.Sprintf("process %d, a program of Sluice with a thread on this CPU", process)
	}
	return ""
}

// headroomOf compares the headroom of each lossless class on a port with that required by the
// loop's gap, and reports the headroom that the link partner needs.
func (e *examination) headroomOf(p *config.Port, g gap) {
	if !g.known {
		return
	}
	need, err := headroom.Compute(headroom.Measured, p.Calculation(e.Config.Memory.Cell, g.worst))
	if err != nil {
		e.warn(p.Device, "", "can't compute its headroom: %v", err)
		return
	}
	for i := range e.Config.Classes {
		if class := &e.Config.Classes[i]; slices.ContainsFunc(class.CoS, p.Lossless) {
			e.compare(p, class, need, g)
		}
	}
	if p.PFC == 0 {
		return
	}
	e.ring(p, g)
	e.repeats(p, g)
	peer, err := headroom.Compute(headroom.Measured, p.Calculation(e.Config.Memory.Cell, g.worst).Reversed())
	if err == nil {
		e.ok(p.Device, "its link partner needs %d cells of headroom (of %d bytes, as in this switch) for its own "+
			"pauses: the switch may take %v to honour one, with %d bytes in flight",
			peer.Cells, e.Config.Memory.Cell, g.worst, p.InFlight)
	}
}

// ring compares the time that a port's receive ring can hold frames with the gap of the loop. A
// full ring loses frames of any class, and headroom does not help.
func (e *examination) ring(p *config.Port, g gap) {
	entries := e.Ring
	if runs := e.Running.port(p.Device); runs != nil && runs.Buffers.Ring > 0 {
		entries = runs.Buffers.Ring // a running switch keeps the rings with which it was started
	}
	lasts := p.RingTime(entries).Round(time.Microsecond)
	text := fmt.Sprintf("its receive ring of %d frames covers a wait of %v, if the shortest frames arrive at the "+
		"rate of its link until the partner has stopped; the longest wait is %v (%s)", entries, lasts, g.worst,
		g.from)
	switch {
	case entries == 0:
	case lasts < g.worst:
		e.warn(p.Device, "", "%s: frames of any class may be lost. Raise memory.buffers (a ring has at most 4096 "+
			"entries), lower in_flight, or give the worker a CPU of its own", text)
	default:
		e.ok(p.Device, "%s", text)
	}
}

// overrun reports events on a port of a running switch that must not happen.
func (e *examination) overrun(p *config.Port) {
	r := e.Running.port(p.Device)
	if r == nil {
		return
	}
	if r.Behind > 0 {
		e.warn(p.Device, "", "in %d iterations, its worker left frames in the receive ring and paused the link "+
			"partner until it had read them: the worker can't keep up. Give it fewer ports, or a CPU of its own",
			r.Behind)
	}
	if r.GivenTwice > 0 {
		e.warn(p.Device, "", "its driver delivered frames in %d buffers that it had not been given to receive into; "+
			"the switch refused them. Set mode: copy, with which the kernel holds the buffers, not the driver",
			r.GivenTwice)
	}
}

// compare compares a class's headroom on a port with the need.
func (e *examination) compare(p *config.Port, class *config.Class, need headroom.Result, g gap) {
	keeps := p.HeadroomOf(class)
	text := fmt.Sprintf("class %s has %d bytes of headroom; with the longest wait of %v (%s), it needs %d", class.Name,
		keeps, g.worst, g.from, need.BufferBytes)
	if keeps >= need.BufferBytes {
		e.ok(p.Device, "%s", text)
		return
	}
	// The worst gap may be longer than the one observed.
	enough := min(roundUp(2*g.worst), longestResponse)
	if class.Headroom > 0 {
		more, err := headroom.Compute(headroom.Measured, p.Calculation(e.Config.Memory.Cell, enough))
		if err == nil {
			e.withRoom(Error, p.Device, &class.Headroom, fmt.Sprintf("headroom: %dB", more.BufferBytes), "%s", text)
		}
		return
	}
	if enough = min(enough, e.Config.LongestResponse(p)); enough < g.worst {
		e.fail(p.Device, "",
			"%s. A longer response does not help, because pauses could not be repeated in time: give the worker a "+
				"CPU of its own", text)
		return
	}
	e.withRoom(Error, p.Device, &p.Response, "response: "+units.Time(enough), "%s", text)
}

// roundUp rounds d up to one significant digit, at least 10 µs.
func roundUp(d time.Duration) time.Duration {
	unit := 10 * time.Microsecond
	for 10*unit <= d {
		unit *= 10
	}
	return time.Duration(math.Ceil(float64(d)/float64(unit))) * unit
}

// repeats reports if the loop's gap lets a pause expire before it is repeated. Headroom does not
// help against that.
func (e *examination) repeats(p *config.Port, g gap) {
	pfc := &e.Config.PFC
	latest := p.LatestRefresh(pfc.Quanta, g.worst)
	if latest >= int(p.Refresh) {
		return
	}
	text := fmt.Sprintf("a pause is repeated %v before it runs out, but a wait of %v (%s) with %d bytes in flight "+
		"takes longer: its link partner may send in between",
		p.PauseTime(pfc.Quanta-p.Refresh).Round(time.Microsecond), g.worst, g.from, p.InFlight)
	most := config.PFC{Quanta: math.MaxUint16}
	switch {
	case latest >= pfc.Quarter():
		refresh := max(pfc.Quarter(), min(int(p.Refresh)/2, latest))
		e.configured(Warning, p.Device, &pfc.Refresh, e.in(pfc, "pfc", fmt.Sprintf("refresh: %d", refresh)), "%s", text)
	case pfc.Quanta < most.Quanta && p.LatestRefresh(most.Quanta, g.worst) >= min(most.Quarter(), int(p.Refresh)):
		e.configured(Warning, p.Device, &pfc.Quanta, e.in(pfc, "pfc", fmt.Sprintf("quanta: %d", most.Quanta)), "%s",
			text)
	default:
		e.warn(p.Device, "", "%s. No configuration helps, only a shorter wait: give the worker a CPU of its own", text)
	}
}
