package control

import (
	"errors"
	"fmt"
	"maps"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/units"
)

// A peer counts pauses by the rate of its link, and headroom depends on it too. Only the device
// knows that rate, and it may differ each time the link comes up. So a configuration is fitted to
// the rates that devices report: when the switch starts, when it reloads, and when a link comes up
// with another rate, as a reload of the same file. A port is down while the configuration does not
// fit the rate of its link; the other ports forward.

// fitting is a configuration fitted to the links of its devices.
type fitting struct {
	config  *config.Config
	rates   map[string]uint64 // of links, bit/s, by device: the rates that config is fitted to
	misfits []string          // devices whose link rates config could not be fitted to: their ports stay down
}

// fit fits a file to the current rates of the links, as far as possible. It fails if the file
// itself is wrong.
func (s *Switch) fit(file *config.Config) (f fitting, err error) {
	f.rates = make(map[string]uint64)
	for i := range file.Ports {
		if rate := s.rateOf(file, &file.Ports[i]); rate > 0 {
			f.rates[file.Ports[i].Device] = rate
		}
	}
	if f.config, err = s.on(file, config.AtRates(f.rates)); err == nil {
		return f, nil
	}
	all := f.rates
	f.rates = make(map[string]uint64)
	if f.config, err = s.on(file, config.AtRates(f.rates)); err != nil {
		return f, err
	}
	for i := range file.Ports {
		device := file.Ports[i].Device
		if all[device] == 0 {
			continue
		}
		more := maps.Clone(f.rates)
		more[device] = all[device]
		if next, err := s.on(file, config.AtRates(more)); err == nil {
			f.config, f.rates = next, more
		} else {
			f.misfits = append(f.misfits, device)
		}
	}
	return f, nil
}

// on returns a configuration fitted to these links, or why it can't be: config.Error says so if it
// is because of what a port agreed on.
func (s *Switch) on(file *config.Config, links map[string]config.LinkFacts) (*config.Config, error) {
	next, err := s.onLinks(file, links)
	if err == nil {
		return next, nil
	}
	return nil, file.Blame(links, err, func(links map[string]config.LinkFacts) error {
		_, err := s.onLinks(file, links)
		return err
	})
}

// onLinks is on with errors as if they were of the file, except those that the file alone explains.
func (s *Switch) onLinks(file *config.Config, links map[string]config.LinkFacts) (next *config.Config, err error) {
	if next, err = file.OnLinks(links); err != nil {
		return nil, err
	}
	if s.config != nil {
		err = Follow(next, s.config)
	}
	if err == nil {
		_, err = params(next, s.memory, s.ring)
	}
	return next, err
}

// rateOf returns the rate of a port's link, bit/s, or 0 if that of the file counts. A device that
// reports none, as without a link, has the rate that it reported last.
func (s *Switch) rateOf(c *config.Config, p *config.Port) uint64 {
	rate, nominal := s.linkSpeed(p.Device)
	if nominal && c.Given(&p.LinkSpeed) {
		return 0
	}
	if rate > 0 {
		s.reported[p.Device] = rate
	}
	return s.reported[p.Device]
}

// announceAll logs which ports have links with other rates than the file says.
func (s *Switch) announceAll(c *config.Config) {
	for i := range c.Ports {
		s.announce(c, &c.Ports[i], s.config.Ports[i].LinkSpeed)
	}
}

// announce logs that a port has a link with another rate than the file says.
func (s *Switch) announce(c *config.Config, p *config.Port, rate uint64) {
	if rate == p.LinkSpeed {
		return
	}
	log := s.log.Info
	if rate < p.Speed || c.Given(&p.LinkSpeed) {
		log = s.log.Warn
	}
	log("pauses and headroom follow the rate of the link", "port", p.Device, "link", units.Rate(rate),
		"assumed", units.Rate(p.LinkSpeed), "sends_at", units.Rate(min(rate, p.Speed)))
}

// errLater means that a port has to wait until the switch has changed its configuration.
var errLater = errors.New("control: the configuration is being changed")

// followRate refits the configuration to the current rate of a port's link. It fails if the
// configuration does not fit that rate.
func (s *Switch) followRate(p *port) error {
	rate := s.rateOf(s.config, p.Port)
	if rate == s.rates[p.Device] {
		return nil
	}
	if s.changing || s.stopping != dataplane.Running {
		return errLater
	}
	f := fitting{rates: maps.Clone(s.rates)}
	if f.rates[p.Device] = rate; rate == 0 {
		delete(f.rates, p.Device)
	}
	before, was := s.config, p.Port
	next, err := s.on(before, config.AtRates(f.rates))
	if f.config = next; err == nil {
		_, err = s.change(f)
	}
	switch {
	case err != nil && rate == 0:
		return fmt.Errorf("its device no longer reports a rate, and the configuration does not fit the rate in the "+
			"file: %w", err)
	case err != nil:
		return fmt.Errorf("its link has %s, and the configuration does not fit that rate: %w", units.Rate(rate), err)
	}
	s.announce(before, was, p.LinkSpeed)
	s.warnOfStalls(p)
	return nil
}
