package control

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/internal/dataplane"
)

const (
	// holdTime is how long peers are held in XOFF before the switch stops receiving, so that frames
	// under way arrive.
	holdTime = 200 * time.Millisecond
	// leaveTime is how long the last frame of a port may take to leave.
	leaveTime = 5 * time.Millisecond
	// drainTimeout bounds how long accepted frames may take to leave, since a peer may pause the
	// switch forever.
	drainTimeout = 5 * time.Second
)

// drain stops without loss. It holds every lossless priority of every peer in XOFF and forwards
// what was on its way; then it receives no more and sends what was accepted. It returns an error if
// some of that could not be sent. Links are still followed meanwhile.
func (s *Switch) drain() error {
	s.log.Info("draining")
	err := s.closeDead()
	if e := s.empty(); e != nil {
		return errors.Join(err, fmt.Errorf("not drained: %w", e))
	}
	s.log.Info("drained")
	return errors.Join(err, s.leave(""))
}

// empty takes what is on its way to the switch, and then lets it leave.
func (s *Switch) empty() error {
	deadline := time.Now().Add(s.holdTime + drainTimeout)
	s.stopping = dataplane.HoldPeers
	if err := s.hold(deadline); err != nil {
		return err
	}
	s.stopping = dataplane.Refuse
	if err := s.publish(); err != nil {
		return err
	}
	return s.waitEmpty(time.Now().Add(max(s.holdTime, time.Until(deadline))))
}

// hold holds peers in XOFF, those of all ports if the switch stops, otherwise those of ports that
// leave, until what was on its way has arrived and no frame stalls any more, or until the deadline.
func (s *Switch) hold(deadline time.Time) error {
	if err := s.publish(); err != nil {
		return err
	}
	if err := s.followLinks(s.holdTime); err != nil {
		return err
	}
	var stalled []string
	_, err := s.await(deadline, func(state *State) bool {
		stalled = stalled[:0]
		for i := range state.Ports {
			p := &state.Ports[i]
			device := p.PortInfo.Name
			if (s.stopping != dataplane.Running || s.port(device).leaving) && p.Up && !p.Reads {
				stalled = append(stalled, device)
			}
		}
		return len(stalled) == 0
	})
	if err == nil && len(stalled) > 0 {
		s.log.Warn("frames of ports still wait for a paused port", "ports", stalled)
	}
	return err
}

// leave tells the neighbours of a port, or of all ports if device is empty, that it stops. It comes
// after all that pauses protect, as a peer need not honour them any more.
func (s *Switch) leave(device string) error {
	if !s.config.LLDP.Enabled {
		return nil
	}
	s.discovery.Shutdown(s.now(), device)
	return s.followLinks(leaveTime)
}

// closeDead closes the ports that have no link: frames that their drivers hold can't leave. What
// goes wrong with one of them keeps no frame of the others from leaving.
func (s *Switch) closeDead() error {
	var errs []error
	for _, p := range s.ports {
		s.turn()
		if !s.plan.Links[p.number].Up {
			errs = append(errs, s.tolerate(p, s.close(p)))
		}
	}
	return errors.Join(errs...)
}

// followLinks handles link events for a time. If the switch is stopping, it closes ports that lose
// their link.
func (s *Switch) followLinks(within time.Duration) error {
	for over := time.After(within); ; {
		s.turn()
		select {
		case <-over:
			return nil
		case <-s.snooping.C:
			s.snoop() // logins go on while a port leaves or the switch stops
		case e := <-s.events:
			if err := s.handle(e); err != nil {
				return err
			}
			if s.stopping == dataplane.Running {
				continue
			}
			if err := s.closeDead(); err != nil {
				return err
			}
		}
	}
}

// waitEmpty waits until the switch holds no accepted frame.
func (s *Switch) waitEmpty(deadline time.Time) error {
	held := 0
	state, err := s.await(deadline, func(state *State) bool {
		held = 0
		for _, w := range state.Workers {
			held += w.CellsInUse // in use until the frame's buffer is back, wherever it is
		}
		return held == 0
	})
	if err == nil && held > 0 {
		return fmt.Errorf("%d cells are still in use after %v: %s", held, drainTimeout, whoHolds(state))
	}
	return err
}

// await waits until something holds for the state of the switch, but not beyond a deadline, and
// returns that state.
func (s *Switch) await(deadline time.Time, holds func(*State) bool) (*State, error) {
	for {
		if err := errors.Join(s.reclaimHeld(), s.followLinks(time.Millisecond)); err != nil {
			return nil, err
		}
		state, err := s.State() // fails while a worker is late
		if err == nil && holds(state) || time.Now().After(deadline) {
			return state, err
		}
	}
}

// whoHolds lists the ports at which frames wait.
func whoHolds(state *State) string {
	var all []string
	for i := range state.Ports {
		p := &state.Ports[i]
		if b := &p.Buffers; b.Queued+b.Sending > 0 {
			all = append(all,
				fmt.Sprintf("%s has %d buffers in queues and %d in its device, and its peer pauses %08b (CoS 7 to 0)",
					p.PortInfo.Name, b.Queued, b.Sending, p.Paused))
		}
	}
	return cmp.Or(strings.Join(all, "; "), "no port has frames to send")
}
