package control

import (
	"errors"
	"time"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
)

// The loop guard has each port send probes: frames from its own address that other bridges flood. A
// frame from an own address that comes back, to any port, has been through a loop. The bridge drops
// and counts it (bridge.Own), so the frame path has nothing to do for the guard.

const (
	// probeInterval is the time between two probes of a VLAN. A loop shows within one, is shut
	// within two, and both fit into a second.
	probeInterval = 300 * time.Millisecond
	// probesAtOnce bounds the tagged probes of a port in an interval. A port with more VLANs takes
	// its VLANs in turn.
	probesAtOnce = 16
	// loopQuiet is how long after the last frame that came back a port still counts as looped.
	loopQuiet = 10 * time.Second
	// loopHold is how long the guard keeps a port shut.
	loopHold = 5 * time.Minute
)

// looped is what the loop guard knows of a port.
type looped struct {
	frames uint64    // that came back, as of the last look
	last   time.Time // when that grew last
	reopen time.Time // the guard has shut the port, and opens it then; zero: it has not
	vlan   uint16    // of the last tagged probe
}

// active reports whether the port is part of a loop, as far as is known at now.
func (l *looped) active(now time.Time) bool { return !l.reopen.IsZero() || now.Sub(l.last) < loopQuiet }

// guardLoops looks for loops, shuts one port of a loop or opens it again, and sends probes.
func (s *Switch) guardLoops(now time.Time) error {
	guard := s.config.Forwarding.LoopGuard
	if s.stopping != dataplane.Running {
		return nil
	}
	if guard != config.LoopOff {
		frames, err := s.cameBack()
		if err != nil {
			return nil // a worker is late: the next look finds what this one misses
		}
		if p := s.findLoop(now, frames); p != nil && guard == config.LoopShut {
			if err := s.breakLoop(p, now); err != nil {
				return err
			}
		}
	}
	if guard != config.LoopOff {
		s.reconsiderTX() // a peer that has stopped to take redirected frames would lose the probes
	}
	for _, p := range s.ports {
		if due := p.loop.reopen; !due.IsZero() && (guard != config.LoopShut || !now.Before(due)) {
			if _, err := s.openPort(p, "the loop guard"); errors.Is(err, errStuck) {
				return err
			}
		}
		if guard != config.LoopOff {
			s.probe(p)
		}
		if is := p.loop.active(now); is != p.info.Load().loop {
			s.share(p)
		}
	}
	return nil
}

// cameBack returns how many frames of the switch have come back to each port, by device.
func (s *Switch) cameBack() (frames map[string]uint64, err error) {
	frames = make(map[string]uint64)
	for _, w := range s.plane.Workers {
		seen, err := w.Snapshot(probeInterval / 10)
		if err != nil {
			return nil, err
		}
		for i := range seen.Ports {
			frames[seen.Ports[i].Name] = seen.Ports[i].Sources[bridge.Own].Frames
		}
	}
	return frames, nil
}

// findLoop notes to which ports more frames have come back since the last look. It returns the last
// of them in the file, if the look before has found some, too: until then, probes have passed the
// loop in all directions, so the choice does not depend on which one came first.
func (s *Switch) findLoop(now time.Time, frames map[string]uint64) (last *port) {
	for _, p := range s.ports {
		n := frames[p.Device]
		if n > p.loop.frames && !p.shut {
			p.loop.last, last = now, p
		}
		p.loop.frames = n
	}
	suspected := s.suspected
	if s.suspected = last != nil; !suspected {
		return nil
	}
	return last
}

// breakLoop shuts a port to end a loop. Frames that came back meanwhile are no reason to shut
// another one.
func (s *Switch) breakLoop(p *port, now time.Time) error {
	p.shut, p.loop.reopen = true, now.Add(loopHold)
	s.log.Error("port shut by the loop guard: frames of the switch came back to it", "port", p.Device, "for", loopHold)
	if err := s.tolerate(p, s.shutPort(p)); err != nil {
		return err
	}
	if frames, err := s.cameBack(); err == nil {
		s.findLoop(now, frames)
	}
	s.suspected = false
	return nil
}

// probe has a port send its probes: one without a tag, and some with one.
func (s *Switch) probe(p *port) {
	link := &s.plan.Links[p.number]
	if !link.Up || p.driver == nil {
		return
	}
	s.inject(p.Device, probe(link.MAC, 0))
	for _, vid := range p.nextVLANs() {
		s.inject(p.Device, probe(link.MAC, vid))
	}
}

// nextVLANs returns the VLANs whose turn it is to have a tagged probe: none but on a trunk.
func (p *port) nextVLANs() (vids []uint16) {
	const most = 4094
	for tried := 0; p.Link == config.Trunk && tried < most && len(vids) < probesAtOnce; tried++ {
		p.loop.vlan = p.loop.vlan%most + 1
		if vid := p.loop.vlan; vid != p.PVID && p.Member(vid) {
			vids = append(vids, vid)
		}
	}
	return vids
}

// probe returns a probe in a VLAN; 0: without a tag. It is a reply of the Configuration Testing
// Protocol (Digital, Intel, Xerox: The Ethernet, version 2.0, chapter 8), which stations ignore, to
// its multicast address, which bridges flood.
func probe(mac [6]byte, vid uint16) []byte {
	const loopback, reply = 0xcf00_0000_0000, 1
	b := make([]byte, 60)
	n := frame.PutHeader(b, loopback, frame.MACFrom(mac[:]), vid, bridge.Control, vid != 0, frame.TypeLoopback)
	b[n+2] = reply                     // behind the skip count of 2 bytes, which is 0; little-endian
	copy(b[n+6:], "Sluice loop guard") // behind function and receipt number, of 2 bytes each
	return b
}
