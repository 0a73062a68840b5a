package control

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/internal/config"
	"sluice/internal/dataplane"
)

// A peer counts pauses by the rate of its link, and so does headroom. Only a device knows that rate, and it may be another each time
// the link comes up. So a configuration is fitted to the rates that devices report, when the switch starts, when it reloads, and
// when a link turns out to have another rate; that is a reload of the same file.

// onLinks returns a configuration as it is on the links of its devices, and their rates. Where a device says nothing now, as without
// a link, the rate it had counts.
func (s *Switch) onLinks(c *config.Config) (*config.Config, map[string]uint64, error) {
	rates := make(map[string]uint64)
	for i := range c.Ports {
		device := c.Ports[i].Device
		if rate := cmp.Or(s.linkSpeed(device), s.rates[device]); rate > 0 {
			rates[device] = rate
		}
	}
	if len(rates) == 0 {
		return c, rates, nil
	}
	on, err := c.OnLinks(rates)
	if err != nil {
		return nil, nil, fmt.Errorf("%w (with the rates that links have now: %s)", err, ratesText(rates))
	}
	return on, rates, nil
}

// announceAll logs which ports of a configuration, as the file has it, are on links of other rates, now that the switch has it.
func (s *Switch) announceAll(c *config.Config) {
	for i := range c.Ports {
		s.announce(c, &c.Ports[i], s.config.Ports[i].LinkSpeed)
	}
}

// announce logs that a port of a configuration is on a link of another rate.
func (s *Switch) announce(c *config.Config, p *config.Port, rate uint64) {
	if rate == p.LinkSpeed {
		return
	}
	log := s.log.Info
	if rate < p.Speed || c.Given(&p.LinkSpeed) {
		log = s.log.Warn
	}
	log("pauses and headroom follow the rate of the link", "port", p.Device, "link", config.RateText(rate),
		"assumed", config.RateText(p.LinkSpeed), "sends_at", config.RateText(min(rate, p.Speed)))
}

// ratesText lists rates by device.
func ratesText(rates map[string]uint64) string {
	var list []string
	for _, device := range slices.Sorted(maps.Keys(rates)) {
		list = append(list, device+" "+config.RateText(rates[device]))
	}
	return strings.Join(list, ", ")
}

// errLater means that a port has to wait until the switch has changed its configuration.
var errLater = errors.New("control: the configuration is being changed")

// followRate makes a port count by the rate that its link has now. It fails if the configuration does not fit that rate.
func (s *Switch) followRate(p *port) error {
	rate := s.linkSpeed(p.Device)
	if rate == 0 || rate == p.LinkSpeed {
		return nil
	}
	if s.changing || s.stopping != dataplane.Running {
		return errLater
	}
	rates := maps.Clone(s.rates)
	rates[p.Device] = rate
	before, was := s.config, p.Port
	next, err := before.OnLinks(rates)
	if err == nil {
		err = next.Follow(before)
	}
	if err == nil {
		_, err = s.change(next, rates)
	}
	if err != nil {
		return fmt.Errorf("its link has %s, and the configuration does not fit that: %w", config.RateText(rate), err)
	}
	s.announce(before, was, rate)
	s.warnOfStalls(p)
	return nil
}
