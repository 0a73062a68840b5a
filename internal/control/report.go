package control

import (
	"sluice/cells"
	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/budget"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/gaps"
	"sluice/internal/linux/thread"
	"sluice/internal/state"
	"sluice/pfc"
)

// Report returns the state of a switch whose program has a version, with its latest alarms.
// Counters are those since they were last cleared. Of the configuration it has only the file's
// name; a console.Reloader knows the rest.
func (s *State) Report(version string, alarms []Alarm) *state.Switch {
	r := s.Total()
	r.Version = version
	for _, a := range alarms {
		class := s.Config.Class(a.CoS).Name
		r.Alarms = append(r.Alarms, state.Alarm{
			Since: a.Since, Until: a.Until, Port: a.Device, CoS: a.CoS, Class: class, Reason: a.Reason,
			Frames: a.Frames,
		})
	}
	if s.Cleared != nil {
		r.CountFrom(s.Cleared.At, s.Cleared.before(s), s.Cleared.LosslessDrops)
	}
	return r
}

// before returns the counters as they were when cleared, without those of drivers that were
// replaced since.
func (c *Cleared) before(now *State) *state.Switch {
	r := c.State.Total()
	was, is := c.State.infos(), now.infos()
	for i := range r.Ports {
		b := &r.Ports[i]
		if now := is[b.Name]; now != nil && !now.SameDriver(was[b.Name]) {
			b.Driver, b.PutBack = state.Driver{}, 0
		}
	}
	return r
}

// infos returns how the ports ran, by name.
func (s *State) infos() map[string]*PortInfo {
	all := make(map[string]*PortInfo)
	for i := range s.Ports {
		all[s.Ports[i].PortInfo.Name] = &s.Ports[i].PortInfo
	}
	return all
}

// Total returns the state of the switch with counters from the start and without alarms. Any
// goroutine may call it.
func (s *Switch) Total() (*state.Switch, error) {
	now, err := s.State()
	if err != nil {
		return nil, err
	}
	return now.Total(), nil
}

// Total is Report without alarms, with counters from the start.
func (s *State) Total() *state.Switch {
	file, _ := s.Config.Source()
	lost := s.LosslessDrops()
	r := &state.Switch{
		Time: s.Time, LosslessDrops: lost, LosslessDropsTotal: lost, PauseStorms: s.Storms(),
		StalledNS:     s.Stalled.Nanoseconds(),
		Configuration: state.Configuration{File: file},
		Alarms:        []state.Alarm{}, Ports: []state.Port{}, Workers: []state.Worker{},
	}
	if s.fsb != nil {
		r.FCoE = s.fsb.Report()
	}
	workers := make(map[string]*dataplane.Snapshot) // by port
	for i := range s.Workers {
		w := &s.Workers[i]
		r.CellBytes, r.UptimeNS = w.CellSize, max(r.UptimeNS, w.Now)
		r.Workers = append(r.Workers, workerOf(w, s.CPUs[w.Worker]))
		for _, p := range w.Ports {
			workers[p.Name] = w
		}
	}
	configured := make(map[string]*config.Port) // by name
	for i := range s.Config.Ports {
		configured[s.Config.Ports[i].Device] = &s.Config.Ports[i]
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		if w := workers[p.PortInfo.Name]; w != nil {
			r.Ports = append(r.Ports, portOf(p, w, s.Config, configured[p.PortInfo.Name]))
		}
	}
	return r
}

// portOf returns the state of a port. of is its configuration, or nil.
func portOf(p *PortState, w *dataplane.Snapshot, c *config.Config, of *config.Port) state.Port {
	r := state.Port{
		Name: p.PortSnapshot.Name, Number: p.Number, Worker: w.Worker, NowNS: w.Now,
		Up: p.Up, Stalled: p.Up && !p.Reads, Shut: p.Shut,
		Loop: p.loop, Mode: p.Mode, DownWhy: p.why, DeviceMTU: p.mtu,
		Received: p.RXFrames, ReceivedBytes: p.RXBytes, ReceivedBursts: p.RXBursts, Sent: p.TXFrames,
		SentBytes: p.TXBytes, Dropped: p.Dropped(),
		FloodCopies: p.FloodCopies, Behind: p.Behind, GivenTwice: p.RXTwice, CompletedTwice: p.DuplicateCompletions,
		Missing: []state.Missing{},
		Drops:   []state.Drop{}, Driver: state.Driver(p.Driver), Buffers: buffersOf(&p.Buffers),
		Control: state.Control{Frames: p.Control, Short: p.ControlShort, Malformed: p.ControlMalformed,
			Unknown: p.ControlUnknown, Ignored: p.ControlIgnored, Misaddressed: p.ControlMisaddressed,
		},
		Own: ownOf(&p.PortCounters),
		PFC: state.PFC{Frames: p.PFCSent.Frames, Received: p.PFCReceived.Frames},
		Sources: state.Sources{
			Moved: p.Sources[bridge.Moved].Frames, NoRoom: p.Sources[bridge.NoRoom].Frames,
			Pinned: p.Sources[bridge.Pinned].Frames, Own: p.Sources[bridge.Own].Frames,
		},

		Watchdog:   watchdogOf(&p.Guard),
		PausedPeer: transitionsOf(&p.PFCSent.History, w.Now), Paused: transitionsOf(&p.PFCReceived.History, w.Now),
		Storms: []state.StormEvent{},
		LLDP:   p.LLDP, DCBX: p.DCBX, FCoE: p.FCoE,
	}
	if p.kept != nil {
		kept := p.kept.Kept()
		r.PutBack = kept.PutBack
		for _, m := range kept.Missing {
			r.Missing = append(r.Missing, state.Missing(m))
		}
	}
	tx, why := p.Sender()
	if r.TX = tx; why != nil {
		r.TXWhy = why.Error()
	}
	for _, e := range p.Watchdog.History.All() {
		r.Storms = append(r.Storms, state.StormEvent{AtNS: e.At, AgoNS: w.Now - e.At, CoS: e.Priority,
			Begins: e.Storming, Manual: e.Manual})
	}
	for cos := range dataplane.Priorities {
		r.ByCoS = append(r.ByCoS, cosOf(&p.PortSnapshot, cos, c.Class(cos)))
		addPauses(&r.PFC, &r.ByCoS[cos])
		for why := range p.Drops {
			if p.Drops[why][cos] > 0 {
				r.Drops = append(r.Drops, dropOf(&p.PortSnapshot, drop.Reason(why), cos))
			}
		}
	}
	if of == nil { // the port has left
		return r
	}
	r.Speed, r.LinkSpeed, r.ResponseNS = of.SendRate(), of.LinkSpeed, of.Response.Nanoseconds()
	r.MTU, r.Parts = of.MTU, of.Parts
	r.FlowControl, r.ETS, r.QoS = string(of.FlowControl), of.ETSName, of.QoSName
	for cos := range r.ByCoS {
		r.ByCoS[cos].ETS = etsOf(of.ETS, cos)
	}
	return r
}

func dropOf(p *dataplane.PortSnapshot, why drop.Reason, cos int) state.Drop {
	d := state.Drop{Reason: why.String(), CoS: cos, Frames: p.Drops[why][cos]}
	switch {
	case why.Congestion():
		d.Lossless = p.Lost[why][cos]
	case why.Failure():
		d.Failed = p.Lost[why][cos]
	}
	return d
}

func ownOf(c *dataplane.PortCounters) state.Own {
	o := state.Own{Sent: c.Injected, SentBytes: c.InjectedBytes, Dropped: c.InjectDropped}
	for _, n := range c.Punted {
		o.Received += n
	}
	return o
}

func cosOf(p *dataplane.PortSnapshot, cos int, class *config.Class) state.CoS {
	in := func(set uint8) bool { return set>>cos&1 == 1 }
	g, q, limits := &p.Groups[cos], &p.Queues[cos], &p.Limits[cos]
	r := state.CoS{
		CoS: cos, Class: class.Name, Lossless: in(p.Lossless), ECN: class.ECN, Received: p.RX[cos], Sent: p.TX[cos],
		Marked: p.Marked[cos],
		Group: state.Group{
			Used: g.Reserved + g.Shared, Reserved: g.Reserved, ReservedLimit: limits.Reserved,
			Shared:   state.Level{Used: g.Shared, Peak: g.PeakShared, Max: g.MaxShared, Limit: limits.Shared},
			Headroom: state.Level{Used: g.Headroom, Peak: g.PeakHeadroom, Max: g.MaxHeadroom, Limit: limits.Headroom},
		},
		Queue: state.Level{Used: q.Used, Peak: q.Peak, Max: q.Max, Limit: limits.Queue},
		PauseSent: state.PauseSent{
			Now: in(p.PausedPeer), XOFF: p.PFCSent.XOFF[cos], XON: p.PFCSent.XON[cos],
			Refreshes: p.PFCSent.Refreshes[cos], Lapses: p.PFCSent.Lapses[cos], PausedNS: p.PFCSent.PausedNS[cos],
		},
		PauseReceived: state.PauseReceived{
			Now: in(p.Paused), XOFF: p.PFCReceived.XOFF[cos], XON: p.PFCReceived.XON[cos],
			Pauses: p.PFCReceived.Transitions[cos], Refreshes: p.PFCReceived.XOFF[cos] - p.PFCReceived.Transitions[cos],
			Ignored: p.PFCReceived.Ignored[cos], PausedNS: p.PFCReceived.PausedNS[cos],
		},
		Storming: in(p.Watchdog.Storming), StormManual: in(p.Watchdog.Held),
		Storms: p.Watchdog.Storms[cos], StormsOver: p.Watchdog.Restorations[cos], StormNS: p.Watchdog.StormNS[cos],
		StormForwarded: p.StormForwarded[cos], StormDropped: p.Drops[drop.Storm][cos],
	}
	r.SentBytes = p.TXClassBytes[cos]
	r.GroupDropped, r.QueueDropped = p.ClassDrops(cos)
	r.Dropped = r.GroupDropped + r.QueueDropped
	return r
}

func etsOf(e *config.ETSProfile, cos int) state.ETS {
	g := e.Group(cos)
	return state.ETS{
		Group: g.PG, GroupName: g.Name, GroupPercent: g.Weight, Strict: g.PG == config.StrictGroup,
		Weight: e.Queue(cos).Weight, LeastPercent: e.Least(cos), Rate: e.Limit(cos),
	}
}

// addPauses adds the pauses of one class.
func addPauses(p *state.PFC, c *state.CoS) {
	p.XOFF += c.PauseSent.XOFF
	p.XON += c.PauseSent.XON
	p.Refreshes += c.PauseSent.Refreshes
	p.PausedPeerNS += c.PauseSent.PausedNS
	p.PausedNS += c.PauseReceived.PausedNS
}

func buffersOf(b *dataplane.PortBuffers) state.Buffers {
	return state.Buffers{Ring: b.Ring, Filled: b.Filled, Queued: b.Queued, Sending: b.Sending, Spare: b.Spare,
		InFlightBytes: b.InFlight}
}

func watchdogOf(p *pfc.WatchdogParams) *state.Watchdog {
	if p.Priorities == 0 {
		return nil
	}
	w := &state.Watchdog{Action: p.Action.String(), DetectionNS: p.Detection, RestorationNS: p.Restoration}
	for cos := range dataplane.Priorities {
		if p.Priorities>>cos&1 == 1 {
			w.CoS = append(w.CoS, cos)
		}
	}
	return w
}

func workerOf(w *dataplane.Snapshot, cpu int) state.Worker {
	r := state.Worker{
		Number: w.Worker, CPU: cpu, NowNS: w.Now,
		Iterations: w.Gap.Iterations(), Busy: w.Work.Iterations, BusyNS: w.Work.NS, LateIterations: w.Gap.Late,
		LateWaits: w.Gap.LateWaits,
		BurstSize: budget.Burst, Hz: thread.TSCFrequency(),
		Gaps: gapsOf(&w.Gap), GapP50NS: w.Gap.Quantile(.5), GapP99NS: w.Gap.Quantile(.99),
		GapP999NS:  w.Gap.Quantile(.999),
		GapP9999NS: w.Gap.Quantile(.9999), GapMaxNS: w.Gap.Max, GapWaitNS: w.Gap.Wait, GapRecentNS: w.Gap.Recent,
		Buffers: w.Buffers, Free: w.Free, CellsInUse: w.CellsInUse, Pools: poolsOf(w.Pools), Egress: poolsOf(w.Egress),
		FDB: state.FDB{
			Entries: w.Stations, Learned: w.Bridge.Learned, Removed: w.Bridge.Removed, Moved: w.Bridge.Moved,
			TableFull: w.Bridge.TableFull,
			PortFull:  w.Bridge.PortFull, Pinned: w.Bridge.Pinned, Own: w.Bridge.Own, Unknown: w.Bridge.Unknown,
		},
		DepartedLosslessDrops: w.Departed, DepartedFailed: w.Failed,
	}
	for i := range w.Ports {
		r.Frames += w.Ports[i].RXFrames
		r.Bursts += w.Ports[i].RXBursts
	}
	return r
}

// gapsOf returns the histogram of gaps as cumulative buckets that end at powers of two, from 1 µs
// to 1 s.
func gapsOf(h *gaps.Histogram) (gaps []state.Gap) {
	for bits := 10; bits <= 30; bits++ {
		longest := int64(1)<<bits - 1
		gaps = append(gaps, state.Gap{AtMostNS: longest, Iterations: h.AtMost(longest)})
	}
	return gaps
}

func poolsOf(usage []cells.PoolUsage) []state.Pool {
	pools := []state.Pool{}
	for _, p := range usage {
		pools = append(pools, state.Pool{
			Shared:   state.Level{Used: p.Used, Peak: p.Peak, Max: p.Max, Limit: p.Size},
			Headroom: state.Level{Used: p.Headroom, Peak: p.PeakHeadroom, Max: p.MaxHeadroom, Limit: p.HeadroomSize},
		})
	}
	return pools
}

func transitionsOf(h *pfc.History[pfc.Transition], now int64) []state.Transition {
	all := []state.Transition{}
	for _, t := range h.All() {
		all = append(all, state.Transition{AtNS: t.At, AgoNS: now - t.At, CoS: t.Priority, Cause: t.Cause.String(),
			Quanta: t.Quanta})
	}
	return all
}
