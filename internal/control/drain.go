package control

import (
	"time"

	"sluice/internal/dataplane"
)

const (
	// holdTime is how long peers are held in XOFF before no more is taken: time for what was on its way to arrive.
	holdTime = 200 * time.Millisecond
	// drainTimeout bounds the wait for what was accepted to leave; a peer that pauses us for ever ends it.
	drainTimeout = 5 * time.Second
)

// drain stops without loss: every lossless priority of every peer is held in XOFF while what was on its way is still
// forwarded; then nothing is taken and what was accepted is sent.
func (s *Switch) drain() {
	s.log.Info("draining")
	for _, step := range []struct {
		drain dataplane.Drain
		quiet time.Duration
	}{{dataplane.HoldPeers, holdTime}, {dataplane.Refuse, 0}} {
		s.plan.Drain = step.drain
		if err := s.publish(); err != nil {
			s.log.Error("not drained", "error", err)
			return
		}
		time.Sleep(step.quiet)
	}
	for deadline := time.Now().Add(drainTimeout); ; time.Sleep(time.Millisecond) {
		held, err := s.held()
		if err != nil {
			s.log.Error("not drained", "error", err)
			return
		}
		if held == 0 {
			s.log.Info("drained")
			return
		}
		if time.Now().After(deadline) {
			s.log.Error("not drained: a peer takes nothing", "frames", held)
			return
		}
	}
}

// held returns how many frames the switch has accepted and not sent, those with drivers included.
func (s *Switch) held() (int, error) {
	state, err := s.State()
	if err != nil {
		return 0, err
	}
	held := 0
	for _, p := range state.Ports {
		held += p.Buffers.Queued + p.Buffers.Sending
	}
	for _, w := range state.Workers {
		held += w.CellsInUse // also what crosses between workers
	}
	return held, nil
}
