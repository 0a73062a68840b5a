package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/pfc"
)

// Cleared is what counters said when they were cleared, for whoever shows them since. The counters
// themselves, which Prometheus gets, go on. It is immutable.
type Cleared struct {
	At            time.Time
	State         *State // without ports that have left since, or were taken out and put in again: these count from 0
	LosslessDrops uint64 // of ports that have left since, too
}

// ClearCounters has State say from now on what was counted up to this moment. Any goroutine may
// call it, as Override.
func (s *Switch) ClearCounters(ctx context.Context) error {
	return s.order(ctx, func() error {
		now, err := s.State()
		if err != nil {
			return err
		}
		now.Cleared = nil
		s.cleared.Store(&Cleared{At: now.Time, State: now, LosslessDrops: now.LosslessDrops()})
		return nil
	})
}

// countAnew has a port that comes count from 0.
func (s *Switch) countAnew(device string) {
	before := s.cleared.Load()
	if before == nil {
		return
	}
	next, state := *before, *before.State
	its := func(p PortState) bool { return p.PortInfo.Name == device }
	state.Ports = slices.DeleteFunc(slices.Clone(state.Ports), its)
	next.State = &state
	s.cleared.Store(&next)
}

// countPausesAnew forgets what ports without flow control, or without a watchdog, counted of it
// before counters were cleared. The workers have forgotten it, too: should it be turned on again,
// it counts from 0.
func (s *Switch) countPausesAnew() {
	before := s.cleared.Load()
	if before == nil {
		return
	}
	next, state := *before, *before.State
	state.Ports = slices.Clone(state.Ports)
	for i := range state.Ports {
		of := &state.Ports[i]
		p := s.port(of.PortInfo.Name)
		off := p == nil || p.FlowControl == config.FlowOff
		if off {
			of.PFCSent, of.PFCReceived = pfc.GeneratorStats{}, pfc.ReceiverStats{}
		}
		if off || s.config.Watchdog.Action == config.WatchdogOff {
			of.Watchdog = pfc.WatchdogStats{}
		}
	}
	next.State = &state
	s.cleared.Store(&next)
}

// ClearFDB forgets learned addresses: those of one device, or of all if that is empty; those
// of one VLAN, or of all if that is 0. Those that send are learned again at once. Any goroutine
// may call it, as Override.
func (s *Switch) ClearFDB(ctx context.Context, device string, vlan uint16) error {
	return s.order(ctx, func() error {
		if s.config.Forwarding.Mode == config.WirePairs {
			return errors.New("control: a switch of wires learns no addresses")
		}
		flush := dataplane.Flush{Port: dataplane.NoPort, VLAN: vlan}
		if device != "" {
			p := s.port(device)
			if p == nil {
				return s.noPort(device)
			}
			flush.Port = p.number
		}
		return s.flush(flush)
	})
}

// flush has the workers forget addresses. What one learns meanwhile and tells another may be
// forgotten there, or may be from before: so all forget a second time, and then announce again what
// they know.
func (s *Switch) flush(f dataplane.Flush) error {
	for _, announce := range []bool{false, false, true} {
		f.Serial, f.Announce = s.plan.Flush.Serial+1, announce
		s.plan.Flush = f
		if err := s.publish(); err != nil {
			return fmt.Errorf("addresses not cleared: %w", err)
		}
	}
	return nil
}
