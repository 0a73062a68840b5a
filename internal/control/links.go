package control

import (
	"errors"
	"fmt"
	"maps"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/text/units"
)

// A peer counts pauses by the rate of its link, and headroom depends on it too. Only the device
// knows that rate, and it may differ each time the link comes up. What a port and its peer agree on
// by DCBX is not in the file either. So a configuration is fitted to facts of the links: when the
// switch starts, when it reloads, and when a fact changes, as a reload of the same file. A port is
// down while the configuration does not fit the rate of its link, and does without what it has
// agreed on if that does not fit; the other ports go on.

// fitting is a configuration fitted to the links of its devices.
type fitting struct {
	config   *config.Config
	facts    map[string]config.LinkFacts // by device: what config is fitted to
	misfits  []string                    // devices to whose link rates it could not be: their ports stay down
	refusals []refusal
}

// refusal is an agreement that a configuration could not be fitted to.
type refusal struct {
	device  string
	feature config.DCBXFeature
	why     string
}

// fit fits a file to the current facts of the links, as far as possible. It fails if the file
// itself is wrong.
func (s *Switch) fit(file *config.Config) (f fitting, err error) {
	all := s.factsOf(file)
	if f.config, err = s.resolve(file, all); err == nil {
		f.facts = all
		return f, nil
	}
	f.facts = make(map[string]config.LinkFacts)
	for device, fact := range all {
		if fact.DCB != nil {
			f.facts[device] = config.LinkFacts{DCB: new(config.Agreed)}
		}
	}
	if f.config, err = s.resolve(file, f.facts); err != nil {
		return f, err
	}
	for i := range file.Ports {
		device := file.Ports[i].Device
		fact := f.facts[device]
		if fact.Rate = all[device].Rate; s.extend(&f, file, device, fact) != nil {
			f.misfits = append(f.misfits, device)
		}
		s.fitAgreement(&f, file, device, all[device].DCB)
	}
	return f, nil
}

// extend fits f to a further fact, if that is possible.
func (s *Switch) extend(f *fitting, file *config.Config, device string, fact config.LinkFacts) error {
	more := maps.Clone(f.facts)
	more[device] = fact
	next, err := s.resolve(file, more)
	if err == nil {
		f.config, f.facts = next, more
	}
	return err
}

// fitAgreement fits f to what a port has agreed on, feature by feature. Of priorities that do not
// fit, those remain that are lossless in the file: memory is kept for them.
func (s *Switch) fitAgreement(f *fitting, file *config.Config, device string, agreed *config.Agreed) {
	if agreed == nil {
		return
	}
	try := func(change func(*config.Agreed)) error {
		fact := f.facts[device]
		is := config.Agreed{}
		if fact.DCB != nil {
			is = *fact.DCB
		}
		change(&is)
		fact.DCB = &is
		return s.extend(f, file, device, fact)
	}
	if err := try(func(is *config.Agreed) { is.PFC = agreed.PFC }); err != nil {
		f.refusals = append(f.refusals, refusal{device, config.FeaturePFC, because(err)})
		if err := try(func(is *config.Agreed) { is.PFC = agreed.PFC & file.LosslessCoS() }); err != nil {
			s.log.Error("DCBX: can't keep priorities of the file lossless", "port", device, "error", err)
		}
	}
	if err := try(func(is *config.Agreed) { is.ETS = agreed.ETS }); err != nil {
		f.refusals = append(f.refusals, refusal{device, config.FeatureETS, because(err)})
		if err := try(func(is *config.Agreed) { is.ETS = nil }); err != nil {
			s.log.Error("DCBX: can't return to the ETS profile of the file", "port", device, "error", err)
		}
	}
}

// factsOf returns what is known of the links of a file's ports.
func (s *Switch) factsOf(file *config.Config) map[string]config.LinkFacts {
	facts := make(map[string]config.LinkFacts)
	for i := range file.Ports {
		p := &file.Ports[i]
		fact := config.LinkFacts{Rate: s.rateOf(file, p)}
		if p.DCBX.Version != config.DCBXOff {
			fact.DCB = new(config.Agreed)
			if before := s.facts[p.Device].DCB; before != nil {
				fact.DCB = before
			}
		}
		if fact != (config.LinkFacts{}) {
			facts[p.Device] = fact
		}
	}
	return facts
}

// resolve returns file resolved for these links. If an agreement is at fault, the error names its
// port.
func (s *Switch) resolve(file *config.Config, facts map[string]config.LinkFacts) (*config.Config, error) {
	next, err := s.onLinks(file, facts)
	if err == nil {
		return next, nil
	}
	return nil, file.Blame(facts, err, func(less map[string]config.LinkFacts) error {
		_, err := s.onLinks(file, less)
		return err
	})
}

// onLinks is resolve without the attribution of errors.
func (s *Switch) onLinks(file *config.Config, facts map[string]config.LinkFacts) (next *config.Config, err error) {
	if next, err = file.OnLinks(facts); err != nil {
		return nil, err
	}
	if s.config != nil {
		err = Follow(next, s.config)
	}
	if err == nil {
		_, err = s.paramsOf(next)
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
	if rate == s.facts[p.Device].Rate {
		return nil
	}
	if s.changing || s.stopping != dataplane.Running {
		return errLater
	}
	before, was := s.config, p.Port
	f := fitting{facts: s.facts}
	fact := s.facts[p.Device]
	fact.Rate = rate
	err := s.extend(&f, before, p.Device, fact)
	if err == nil {
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
