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

// Cleared holds the counters as they were when they were cleared, to be subtracted when they are
// shown. The counters themselves go on, since Prometheus reads them. It is immutable.
type Cleared struct {
	At            time.Time
	State         *State // without ports that have left since, even if they came back: those count from 0
	LosslessDrops uint64 // including those of ports that have left since
}

// ClearCounters has State carry the counters as they are now in Cleared. Any goroutine may call it,
// like Override.
func (s *Switch) ClearCounters(ctx context.Context) error {
	return s.order(ctx, func() error {
		now, err := s.State()
		if err != nil {
			return err
		}
		now.Cleared, now.fsb = nil, nil
		s.cleared.Store(&Cleared{At: now.Time, State: now, LosslessDrops: now.LosslessDrops()})
		return nil
	})
}

// countAnew makes a port that is added count from 0.
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

// resetDisabled drops the baseline of counters whose feature is disabled: pauses and storms without
// flow control or watchdog, and FIP without snooping. Their owners drop the counters too, and count
// from 0 when the feature is enabled again.
func (s *Switch) resetDisabled() {
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
		if len(s.config.FCoE.Instances) == 0 {
			of.FCoE = nil
		}
	}
	next.State = &state
	s.cleared.Store(&next)
}

// ClearFDB deletes learned FDB entries: of one device, or of all if device is empty; of one VLAN,
// or of all if vlan is 0. Active senders are learned again at once. Any goroutine may call it, like
// Override.
func (s *Switch) ClearFDB(ctx context.Context, device string, vlan uint16) error {
	return s.order(ctx, func() error {
		if s.config.Forwarding.Mode == config.WirePairs {
			return errors.New("control: there is no FDB to clear: forwarding.mode is wire")
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

// flush has the workers delete FDB entries. An entry that one worker learns meanwhile and announces
// to another may be deleted there, or may be an old one. So all workers flush twice, and then
// announce what they know.
func (s *Switch) flush(f dataplane.Flush) error {
	for _, announce := range []bool{false, false, true} {
		f.Serial, f.Announce = s.plan.Flush.Serial+1, announce
		s.plan.Flush = f
		if err := s.publish(); err != nil {
			return fmt.Errorf("FDB entries not cleared: %w", err)
		}
	}
	return nil
}
