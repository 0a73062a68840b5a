package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/fcoe/snoop"
)

// Reload changes over to another configuration while frames are forwarded. It returns nil when all
// workers run it. Otherwise nothing has changed; the error is a config.Errors if a key is at fault,
// which includes keys that can't change while the switch runs (Follow). Any goroutine may call it
// while Run runs.
//
// Everything but ports changes between two iterations. A port that is removed stops like a whole
// switch: its peer is held in XOFF while frames on their way are still forwarded. A port that is
// added opens when its device is up.
func (s *Switch) Reload(ctx context.Context, next *config.Config) error {
	return s.order(ctx, func() error { return s.reload(next) })
}

func (s *Switch) reload(file *config.Config) error {
	f, _, err := s.admit(file)
	if err != nil {
		return err
	}
	s.lookForDevices(f.config)
	came, err := s.change(f)
	if err != nil {
		return err
	}
	s.log.Info("configuration reloaded", "ports", len(s.ports))
	s.announceAll(file)
	if err := errors.Join(s.followFCoE(), s.introduce(file, f.refusals)); err != nil {
		return err
	}
	for _, p := range s.ports {
		p.logged = nil
		s.warnOfStalls(p)
		s.stopOwnPause(p)
	}
	for _, p := range came {
		if e, there := s.links[p.Device]; there {
			if err := s.handle(e); err != nil {
				return err
			}
		}
	}
	for _, device := range f.misfits {
		s.port(device).complaint = "" // log it again, with the line of this file
	}
	return s.bringUpAll()
}

// admit fits a file to the links, and finds the FCoE sessions that end with it. It fails if the
// switch can't change over to the file.
func (s *Switch) admit(file *config.Config) (f fitting, ending []snoop.Ending, err error) {
	if f, err = s.fit(file); err != nil {
		return f, nil, err
	}
	if ending, err = s.fsb.Ending(fcoeParams(f.config), f.misfits); err != nil {
		return f, nil, err
	}
	return f, ending, cmp.Or(checkDevices(f.config), s.checkOpen(f.config))
}

// change changes over to a configuration that may follow the running one. It returns the ports that
// were added.
func (s *Switch) change(f fitting) (came []*port, err error) {
	s.changing = true
	defer func() { s.changing = false }()
	next := f.config
	numbers, generation, err := s.prepare(next)
	if err != nil {
		return nil, err
	}
	if err := s.dismiss(next); err != nil {
		return nil, err
	}
	came = s.take(next, numbers)
	s.facts = f.facts
	s.holdDown(f.misfits)
	s.plan.Generation = generation
	if err := s.publish(); err != nil {
		return nil, err
	}
	s.running.Store(&running{next, s.ports})
	s.resetDisabled()
	return came, nil
}

// prepare returns what a change to a configuration needs: the numbers of its ports, and what the
// workers run.
func (s *Switch) prepare(next *config.Config) (numbers []int, g *dataplane.Generation, err error) {
	if numbers, err = s.numbersOf(next); err != nil {
		return nil, nil, err
	}
	p, err := s.paramsOf(next)
	if err != nil {
		return nil, nil, err
	}
	g, err = s.plane.Prepare(s.arrange(p, numbers))
	return numbers, g, err
}

// holdDown marks these devices as without a link in the next plan.
func (s *Switch) holdDown(devices []string) {
	for _, device := range devices {
		p := s.port(device)
		if s.plan.Links[p.number].Up = false; p.driver != nil {
			p.driver.SetLink(false)
		}
	}
}

// numbersOf returns the dataplane numbers of a configuration's ports, in the order of the
// configuration. Existing ports keep theirs; new ports get vacant numbers of their worker, or new
// ones.
func (s *Switch) numbersOf(next *config.Config) ([]int, error) {
	var vacant []int
	if slices.ContainsFunc(next.Ports, func(c config.Port) bool { return s.port(c.Device) == nil }) {
		var err error
		if vacant, err = s.vacant(); err != nil {
			return nil, err
		}
	}
	numbers, unused := make([]int, len(next.Ports)), len(s.plan.Links)
	for i := range next.Ports {
		c := &next.Ports[i]
		if p := s.port(c.Device); p != nil {
			numbers[i] = p.number
			continue
		}
		at := slices.IndexFunc(vacant, func(number int) bool { return s.plane.WorkerOf(number) == c.Worker })
		if at < 0 {
			numbers[i] = unused
			unused++
			continue
		}
		numbers[i] = vacant[at]
		vacant = slices.Delete(vacant, at, at+1)
	}
	return numbers, nil
}

// vacant returns the numbers that a new port may get: no port has them, the kernel has released the
// buffers of the last one, and no frame that came in there is still under way. Such frames may wait
// for as long as another port is paused. They are charged to that number, which would hold up its
// next port, and their ingress port is read from it.
func (s *Switch) vacant() (numbers []int, err error) {
	state, err := s.State()
	if err != nil {
		return nil, err
	}
	for i := range state.Workers {
		for _, p := range state.Workers[i].Ports {
			if p.Vacant && p.Held() == 0 && s.held[p.Number] == nil {
				numbers = append(numbers, p.Number)
			}
		}
	}
	return numbers, nil
}

// arrange puts the ports of p, which are in the order of the configuration, in the order of their
// numbers. Numbers without a port are vacant.
func (s *Switch) arrange(p dataplane.Params, numbers []int) dataplane.Params {
	ports := p.Ports
	bridges := p.Bridge.Ports
	count := max(len(s.plan.Links), slices.Max(numbers)+1)
	p.Ports = make([]dataplane.PortParams, count)
	p.Bridge.Ports = make([]bridge.PortParams, count)
	for n := range count {
		p.Ports[n].Vacant = true
		if n < len(s.plan.Links) {
			p.Ports[n].Worker = s.plane.WorkerOf(n)
		}
		p.Bridge.Ports[n] = bridge.PortParams{VLANs: new(bridge.VLANSet), Peer: -1}
	}
	for i, n := range numbers {
		p.Ports[n], p.Bridge.Ports[n] = ports[i], bridges[i]
		if peer := bridges[i].Peer; peer >= 0 {
			p.Bridge.Ports[n].Peer = numbers[peer]
		}
	}
	p.Bridge.Static = slices.Clone(p.Bridge.Static)
	for i := range p.Bridge.Static {
		p.Bridge.Static[i].Port = numbers[p.Bridge.Static[i].Port]
	}
	return p
}

// dismiss removes the ports that a configuration no longer has. If it fails, they stay, and are no
// longer held.
func (s *Switch) dismiss(next *config.Config) (err error) {
	leaving := s.leaving(next)
	if len(leaving) == 0 {
		return nil
	}
	defer func() {
		if err == nil || errors.Is(err, errStuck) {
			return
		}
		for _, p := range leaving {
			p.leaving = false
		}
		err = errors.Join(err, s.publish())
	}()
	for _, p := range leaving {
		p.leaving = true
	}
	if err := s.hold(time.Now().Add(drainTimeout)); err != nil {
		return err
	}
	for _, p := range leaving {
		if err := s.leave(p.Device); err != nil {
			return err
		}
		s.log.Info("port removed", "port", p.Device)
		if err := s.close(p); err != nil {
			err = fmt.Errorf("it is removed, but was not closed cleanly: %w", err)
			if err := s.tolerate(p, err); err != nil {
				return err
			}
		}
	}
	s.reportStorms() // storms and losses, for the last time for the ports that leave
	return nil
}

// leaving returns the ports that a configuration no longer has.
func (s *Switch) leaving(next *config.Config) (all []*port) {
	stays := make(map[string]bool)
	for i := range next.Ports {
		stays[next.Ports[i].Device] = true
	}
	for _, p := range s.ports {
		if !stays[p.Device] {
			all = append(all, p)
		}
	}
	return all
}

// take makes the ports those of a configuration, and returns the new ones.
func (s *Switch) take(next *config.Config, numbers []int) (came []*port) {
	ports, byName := make([]*port, len(next.Ports)), make(map[string]*port)
	for i, number := range numbers {
		c := &next.Ports[i]
		p := s.port(c.Device)
		if p == nil {
			p = newPort(c, number)
			s.countAnew(c.Device)
			came = append(came, p)
		}
		if p.Port = c; next.Watchdog.Action == config.WatchdogOff || c.FlowControl == config.FlowOff {
			p.storm = 0 // storms that the operator began end: without a watchdog they could not be released
		}
		ports[i], byName[c.Device] = p, p
	}
	for len(s.plan.Links) < slices.Max(numbers)+1 {
		s.plan.Links = append(s.plan.Links, dataplane.Link{Closed: true})
	}
	s.ports, s.byName, s.config = ports, byName, next
	return came
}
