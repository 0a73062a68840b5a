package console

import (
	"slices"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/dataplane"
	"sluice/pfc"
)

// NewReport translates the state of a switch, whose program has a version, and its latest alarms. What it says of the
// configuration is the name of the file; the rest is for a Reloader to say.
func NewReport(version string, s *control.State, alarms []control.Alarm) *Report {
	r := newReport(version, s)
	for _, a := range alarms {
		class := s.Config.Class(a.CoS).Name
		r.Alarms = append(r.Alarms, Alarm{a.Since, a.Until, a.Device, a.CoS, class, a.Reason, a.Frames})
	}
	r.countSince(s)
	return r
}

// newReport is NewReport without alarms, and with counters from the start.
func newReport(version string, s *control.State) *Report {
	file, _ := s.Config.Source()
	lost := s.LosslessDrops()
	r := &Report{
		Version: version, Time: s.Time, LosslessDrops: lost, LosslessDropsTotal: lost, PauseStorms: s.Storms(),
		StalledNS:     s.Stalled.Nanoseconds(),
		Configuration: Configuration{File: file},
		Alarms:        []Alarm{}, Ports: []Port{}, Workers: []Worker{},
	}
	workers := make(map[string]*dataplane.Snapshot) // by port
	for i := range s.Workers {
		w := &s.Workers[i]
		r.CellBytes, r.UptimeNS = w.CellSize, max(r.UptimeNS, w.Now)
		r.Workers = append(r.Workers, newWorker(w, s.CPUs[w.Worker]))
		for _, p := range w.Ports {
			workers[p.Name] = w
		}
	}
	for i := range s.Ports {
		if w := workers[s.Ports[i].PortInfo.Name]; w != nil {
			r.Ports = append(r.Ports, newPort(&s.Ports[i], w, s.Config))
		}
	}
	return r
}

func newPort(p *control.PortState, w *dataplane.Snapshot, c *config.Config) Port {
	r := Port{
		Name: p.PortSnapshot.Name, Number: p.Number, Worker: w.Worker, NowNS: w.Now, Up: p.Up, Shut: p.Shut,
		Mode:     p.Mode,
		Received: p.RXFrames, ReceivedBytes: p.RXBytes, Sent: p.TXFrames, SentBytes: p.TXBytes, Dropped: p.Dropped(),
		FloodCopies: p.FloodCopies, Behind: p.Behind, GivenTwice: p.RXTwice, Drops: []Drop{}, Driver: p.Driver, Buffers: newBuffers(&p.Buffers),
		Control: Control{p.Control, p.ControlShort, p.ControlMalformed, p.ControlUnknown, p.ControlIgnored, p.ControlMisaddressed},
		PFC:     PFC{Frames: p.PFCSent.Frames, Received: p.PFCReceived.Frames},
		Sources: Sources{
			Moved: p.Sources[bridge.Moved].Frames, NoRoom: p.Sources[bridge.NoRoom].Frames,
			Pinned: p.Sources[bridge.Pinned].Frames, OwnAddress: p.Sources[bridge.Own].Frames,
		},

		Watchdog:   newWatchdog(&p.Guard),
		PausedPeer: transitions(&p.PFCSent.History, w.Now), Paused: transitions(&p.PFCReceived.History, w.Now),
		Storms: []StormEvent{},
	}
	tx, why := p.Sender()
	if r.TX = tx; why != nil {
		r.TXWhy = why.Error()
	}
	for _, e := range p.Watchdog.History.All() {
		r.Storms = append(r.Storms, StormEvent{e.At, ms(w.Now - e.At), e.Priority, e.Storming, e.ByHand})
	}
	if i := slices.IndexFunc(c.Ports, func(of config.Port) bool { return of.Device == r.Name }); i >= 0 {
		of := &c.Ports[i]
		r.Speed, r.LinkSpeed = of.SendRate(), of.LinkSpeed
		r.MTU, r.FlowControl, r.ETS, r.QoS = of.MTU, string(of.FlowControl), of.ETSName, of.QoSName
	}
	for cos := range r.ByCoS {
		r.ByCoS[cos] = newCoS(&p.PortSnapshot, cos, c.Class(cos).Name)
		r.PFC.add(&r.ByCoS[cos])
		for why := range p.Drops {
			if n := p.Drops[why][cos]; n > 0 {
				r.Drops = append(r.Drops, Drop{dataplane.Drop(why).String(), cos, n})
			}
		}
	}
	return r
}

func newCoS(p *dataplane.PortSnapshot, cos int, class string) CoS {
	in := func(set uint8) bool { return set>>cos&1 == 1 }
	g, q, limits := &p.Groups[cos], &p.Queues[cos], &p.Limits[cos]
	r := CoS{
		Class: class, Lossless: in(p.Lossless), Received: p.RX[cos], Sent: p.TX[cos], Marked: p.Marked[cos],
		Group: Group{
			Reserved: g.Reserved, ReservedLimit: limits.Reserved,
			Shared:   Level{g.Shared, g.PeakShared, g.MaxShared, limits.Shared},
			Headroom: Level{g.Headroom, g.PeakHeadroom, g.MaxHeadroom, limits.Headroom},
		},
		Queue: Level{q.Used, q.Peak, q.Max, limits.Queue},
		PauseSent: PauseSent{
			in(p.PausedPeer), p.PFCSent.XOFF[cos], p.PFCSent.XON[cos], p.PFCSent.Refreshes[cos], p.PFCSent.Lapses[cos], p.PFCSent.PausedNS[cos],
		},
		PauseHeard: PauseHeard{
			in(p.Paused), p.PFCReceived.XOFF[cos], p.PFCReceived.XON[cos], p.PFCReceived.Transitions[cos], p.PFCReceived.Ignored[cos], p.PFCReceived.PausedNS[cos],
		},
		Storming: in(p.Watchdog.Storming), StormByHand: in(p.Watchdog.Held),
		Storms: p.Watchdog.Storms[cos], StormsOver: p.Watchdog.Restorations[cos], StormNS: p.Watchdog.StormNS[cos],
		StormForwarded: p.StormForwarded[cos],
		PeakShared:     g.MaxShared, PeakHeadroom: g.MaxHeadroom, PeakQueue: q.Max,
	}
	r.SentBytes = p.TXClassBytes[cos]
	r.GroupDropped, r.QueueDropped = p.ClassDrops(cos)
	r.Dropped = r.GroupDropped + r.QueueDropped
	return r
}

// add adds the pauses of one class.
func (p *PFC) add(c *CoS) {
	p.XOFF += c.PauseSent.XOFF
	p.XON += c.PauseSent.XON
	p.Refreshes += c.PauseSent.Refreshes
	p.PausedPeerMS += ms(c.PauseSent.PausedNS)
	p.PausedMS += ms(c.PauseHeard.PausedNS)
}

func newBuffers(b *dataplane.PortBuffers) Buffers {
	return Buffers{b.Ring, b.Filled, b.Queued, b.Sending, b.Spare, b.InFlight}
}

func newWatchdog(p *pfc.WatchdogParams) *Watchdog {
	if p.Priorities == 0 {
		return nil
	}
	w := &Watchdog{Action: p.Action.String(), DetectionNS: p.Detection, RestorationNS: p.Restoration}
	for cos := range dataplane.Priorities {
		if p.Priorities>>cos&1 == 1 {
			w.CoS = append(w.CoS, cos)
		}
	}
	return w
}

func newWorker(w *dataplane.Snapshot, cpu int) Worker {
	r := Worker{
		Number: w.Worker, CPU: cpu, NowNS: w.Now,
		Iterations: w.Gap.Iterations(), Busy: w.Work.Iterations, BusyNS: w.Work.NS, BurstSize: dataplane.BurstSize, Hz: frequency(),
		GapP50: us(w.Gap.Quantile(.5)), GapP99: us(w.Gap.Quantile(.99)), GapP999: us(w.Gap.Quantile(.999)),
		GapP9999: us(w.Gap.Quantile(.9999)), GapMax: us(w.Gap.Max), GapWait: us(w.Gap.Wait), GapRecent: us(w.Gap.Recent),
		Buffers: w.Buffers, Free: w.Free, CellsInUse: w.CellsInUse, Pools: newPools(w.Pools), Egress: newPools(w.Egress),
		Stations: w.Stations, Learned: w.Bridge.Learned, Removed: w.Bridge.Removed, Moved: w.Bridge.Moved,
		NoRoom: w.Bridge.TableFull + w.Bridge.PortFull, Pinned: w.Bridge.Pinned, OwnAddresses: w.Bridge.Own, Unknown: w.Bridge.Unknown,
	}
	for i := range w.Ports {
		r.Frames += w.Ports[i].RXFrames
		r.Bursts += w.Ports[i].RXBursts
	}
	return r
}

func newPools(usage []cells.PoolUsage) []Pool {
	pools := []Pool{}
	for _, p := range usage {
		pools = append(pools, Pool{
			Shared: Level{p.Used, p.Peak, p.Max, p.Size}, Headroom: Level{p.Headroom, p.PeakHeadroom, p.MaxHeadroom, p.HeadroomSize},
			Cells: p.Size, Peak: p.Max, HeadroomCells: p.HeadroomSize, PeakHeadroom: p.MaxHeadroom,
		})
	}
	return pools
}

func transitions(h *pfc.History[pfc.Transition], now int64) []Transition {
	all := []Transition{}
	for _, t := range h.All() {
		all = append(all, Transition{t.At, ms(now - t.At), t.Priority, t.Cause.String(), t.Quanta})
	}
	return all
}

func us(ns int64) float64 { return float64(ns) / 1e3 }

func ms(ns int64) float64 { return float64(ns) / 1e6 }
