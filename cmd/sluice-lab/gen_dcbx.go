package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/pflag"

	"sluice/bench/traffic"
	"sluice/bench/traffic/live"
	"sluice/internal/frame"
)

// Values of --dcbx.
const (
	dcbxOn  = "on"
	dcbxOff = "off"
)

// checkDCBX rejects flags that contradict --dcbx.
func (o *genOptions) checkDCBX(given *pflag.FlagSet) error {
	if err := checkDCBX(o.dcbx, given); err != nil {
		return err
	}
	o.willing = !given.Changed("pfc")
	switch {
	case o.dcbx == dcbxOff && !o.willing:
		return errors.New("--dcbx off is a host without PFC: leave out --pfc")
	case o.dcbx != dcbxOn && given.Changed("lldp-interval"):
		return errors.New("--lldp-interval needs LLDP: give --dcbx on, too")
	}
	return nil
}

// checkDCBX rejects invalid values of --dcbx.
func checkDCBX(value string, given *pflag.FlagSet) error {
	if given.Changed("dcbx") && value != dcbxOn && value != dcbxOff {
		return fmt.Errorf("--dcbx %s: choose %s or %s", value, dcbxOn, dcbxOff)
	}
	return nil
}

// negotiator returns the LLDP and DCBX of a host. pfc are the priorities of --pfc.
func (o *genOptions) negotiator(mac frame.MAC, pfc uint8) (*traffic.Negotiator, error) {
	name, err := os.Hostname()
	if err != nil {
		name = "sluice-lab"
	}
	p := traffic.NegotiatorParams{MAC: mac, Name: name, Interval: o.announce.Nanoseconds(), PFC: pfc}
	if o.willing {
		p.PFC = 0
	}
	n, err := traffic.NewNegotiator(p)
	if err != nil {
		return nil, fmt.Errorf("--lldp-interval %v: %w", o.announce, err)
	}
	return n, nil
}

// printChanges prints the agreements of hosts that differ from the texts in last, and stores them
// there.
func (o *genOptions) printChanges(out io.Writer, agreements []*traffic.Agreement, last []string) {
	for i, a := range agreements {
		if text := a.String(); text != last[i] {
			fmt.Fprintf(out, "%s: %s\n", o.devices[i], text)
			last[i] = text
		}
	}
}

// liveSpeaker speaks LLDP and DCBX for a device beside its sink.
type liveSpeaker struct {
	lock       sync.Mutex
	negotiator *traffic.Negotiator
	socket     *live.LLDPSocket
	sink       *live.Sink
}

// step exchanges the LLDP frames that are due, and has the sink honour PFC as agreed.
func (s *liveSpeaker) step(now int64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for range 64 { // so that a storm of them can't hold the others up
		if b := s.socket.Receive(); b != nil {
			s.negotiator.Receive(now, b)
		}
	}
	if now >= s.negotiator.Next() {
		s.send(s.negotiator.Step(now))
	}
	s.sink.SetPriorities(s.negotiator.Priorities())
}

func (s *liveSpeaker) send(b []byte) {
	if b != nil {
		s.socket.Send(b)
	}
}

func (s *liveSpeaker) leave(now int64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.send(s.negotiator.Shutdown(now))
	s.sink.SetPriorities(0)
}

func (s *liveSpeaker) settled(now int64) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.negotiator.Settled(now)
}

func (s *liveSpeaker) agreement() traffic.Agreement {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.negotiator.Agreement()
}
