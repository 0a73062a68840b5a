package control

import (
	"cmp"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"time"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dcbx"
	"sluice/internal/discovery"
	"sluice/internal/frame"
	"sluice/internal/lldp"
	"sluice/internal/punt"
)

// listenInterval is how often frames for the control plane are taken from the workers. LLDP has no
// timer shorter than a second.
const listenInterval = 20 * time.Millisecond

// lldpLimit bounds the LLDPDUs that a port takes: enough for a thousand neighbours that send every
// 30 s.
var lldpLimit = punt.Limit{Rate: 100, Burst: 50}

// now returns the time for discovery.
func (s *Switch) now() int64 { return time.Since(s.began).Nanoseconds() }

// inject sends a frame of the switch at a port. A frame for which there is no room is counted at
// the port; LLDP repeats what it says.
func (s *Switch) inject(device string, frame []byte) {
	if id := slices.Index(s.plane.Names(), device); id >= 0 {
		s.plane.Inject(id, frame)
	}
}

// introduce has discovery speak for the ports of a file, with what the switch refuses of earlier
// agreements.
func (s *Switch) introduce(file *config.Config, refusals []refusal) error {
	if err := s.discovery.Configure(s.now(), s.discoveryParams(file)); err != nil {
		return err
	}
	s.refuse(refusals)
	if s.listening.Stop(); file.LLDP.Enabled {
		s.listening.Reset(listenInterval)
	}
	return nil
}

// discover exchanges frames between workers and discovery, tells it how the links are, and follows
// what ports and their peers have agreed on.
func (s *Switch) discover() error {
	now, names := s.now(), s.plane.Names()
	for _, p := range s.ports {
		link := &s.plan.Links[p.number]
		s.discovery.SetLink(now, p.Device, link.Up && p.driver != nil, link.MAC, link.Flaps)
	}
	s.plane.Punted(func(f punt.Frame) { s.discovery.Receive(now, names[f.Port], f.Bytes) })
	s.discovery.Advance(now)
	return s.agree()
}

// agree changes over to what ports and their peers have agreed on. What the configuration can't be
// fitted to is refused; the port then goes on without it.
func (s *Switch) agree() error {
	if s.changing || s.stopping != dataplane.Running || s.discovery.Serial() == s.settled {
		return nil
	}
	for range 2*len(s.ports) + 1 { // each port may refuse PFC and ETS
		s.settled = s.discovery.Serial()
		facts, devices := s.agreed()
		if len(devices) == 0 {
			break
		}
		next, err := s.on(s.config, facts)
		if err == nil {
			return s.changeTo(next, facts, devices)
		}
		s.refuse(s.blamed(err, devices))
	}
	return nil
}

// agreed returns the facts of the links with what ports and their peers have agreed on by now, and
// the devices for which that has changed.
func (s *Switch) agreed() (facts map[string]config.LinkFacts, devices []string) {
	facts = s.facts
	for device, a := range s.discovery.Agreements() {
		fact := s.facts[device]
		is := config.Agreed{PFC: a.PFC}
		if a.ETS != nil {
			is.ETS = &config.ETSTable{TC: a.ETS.TC, Bandwidth: a.ETS.Bandwidth, TSA: a.ETS.TSA}
		}
		if fact.DCB != nil && fact.DCB.Equal(&is) {
			continue
		}
		if devices == nil {
			facts = maps.Clone(s.facts)
		}
		fact.DCB = &is
		facts[device] = fact
		devices = append(devices, device)
	}
	slices.Sort(devices)
	return facts, devices
}

// changeTo changes over to a configuration that is fitted to new agreements of these devices.
func (s *Switch) changeTo(next *config.Config, facts map[string]config.LinkFacts, devices []string) error {
	if _, err := s.change(fitting{config: next, facts: facts}); err != nil {
		return err
	}
	for _, device := range devices {
		p := s.port(device)
		ets := "its own"
		if facts[device].DCB.ETS != nil {
			ets = "as agreed"
		}
		s.log.Info("DCBX agreement changed", "port", device, "pfc", config.Priorities(p.PFC), "ets", ets)
		s.warnOfStalls(p)
		s.stopOwnPause(p)
	}
	return nil
}

// blamed returns which agreement of these devices does not fit. If that can't be told apart, it is
// all of them.
func (s *Switch) blamed(err error, devices []string) (all []refusal) {
	var one *config.Error
	if errors.As(err, &one) && one.Port != "" {
		return []refusal{{one.Port, one.Feature, because(err)}}
	}
	for _, device := range devices {
		for _, f := range []config.DCBXFeature{config.FeaturePFC, config.FeatureETS} {
			all = append(all, refusal{device, f, because(err)})
		}
	}
	return all
}

// because says why an agreement is refused, in a line.
func because(err error) string {
	var one *config.Error
	if errors.As(err, &one) {
		return one.Problem + ": " + one.Remedy
	}
	return err.Error()
}

// refuse tells discovery what the switch can't run.
func (s *Switch) refuse(all []refusal) {
	for _, r := range all {
		s.log.Error("DCBX: agreement refused", "port", r.device, "feature", r.feature, "because", r.why)
		s.discovery.Refuse(s.now(), r.device, features[r.feature], r.why)
	}
}

var (
	features = map[config.DCBXFeature]dcbx.Feature{
		config.FeaturePFC: dcbx.FeaturePFC, config.FeatureETS: dcbx.FeatureETS, config.FeatureApp: dcbx.FeatureApp,
	}
	lldpModes = map[config.LLDPMode]lldp.Status{
		config.LLDPOff: lldp.Off, config.LLDPTransmit: lldp.TXOnly, config.LLDPReceive: lldp.RXOnly,
		config.LLDPBoth: lldp.RXTX,
	}
	dcbxVersions = map[config.DCBXVersion]dcbx.Version{
		config.DCBXAuto: dcbx.Auto, config.DCBXIEEE: dcbx.IEEE, config.DCBXCEE: dcbx.CEE, config.DCBXCIN: dcbx.CIN,
	}
	dcbxRoles = map[config.DCBXRole]discovery.Role{
		config.Manual: discovery.Manual, config.Upstream: discovery.Upstream, config.Downstream: discovery.Downstream,
	}
	ties = map[config.Tie]dcbx.Tie{config.LowerGivesWay: dcbx.TieLower, config.HigherGivesWay: dcbx.TieHigher}
)

// discoveryParams translates a file, not fitted to any links.
func (s *Switch) discoveryParams(c *config.Config) discovery.Params {
	p := discovery.Params{
		Interval: c.LLDP.Interval.Nanoseconds(), Hold: c.LLDP.Hold, Name: cmp.Or(c.LLDP.SystemName, hostName()),
		Description: cmp.Or(c.LLDP.SystemDescription, "Sluice "+s.version), Management: c.LLDP.Management,
		Bridge: c.Forwarding.Mode == config.Bridge, SourceHold: c.DCBX.Hold.Nanoseconds(), Chassis: chassis(c),
	}
	var apps []dcbx.App
	for _, a := range c.DCBX.Applications {
		apps = append(apps, dcbx.App{Selector: a.Selector, Protocol: a.Protocol, Priority: a.Priority})
	}
	for i := range c.Ports {
		port := discoveryPort(c, &c.Ports[i])
		port.Local.Apps = apps
		p.Ports = append(p.Ports, port)
	}
	return p
}

func discoveryPort(c *config.Config, p *config.Port) discovery.PortParams {
	d := discovery.PortParams{
		Name: p.Device, PVID: p.PVID, MaxFrame: p.MaxFrame() + frame.FCS, DCBX: p.DCBX.Version != config.DCBXOff,
		Role: dcbxRoles[p.DCBX.Role], Auto: p.FlowControl == config.FlowAuto,
	}
	if c.LLDP.Enabled {
		d.LLDP = lldpModes[p.LLDP]
	}
	table := p.ETS.Table()
	d.Local = dcbx.Config{
		Version: dcbxVersions[p.DCBX.Version], Tie: ties[c.DCBX.Tie],
		PFC: dcbx.PFC{Priorities: p.PFC, Capability: dataplane.Priorities},
		ETS: dcbx.ETS{TC: table.TC, Bandwidth: table.Bandwidth, TSA: table.TSA, MaxTCs: dataplane.Priorities},
	}
	for name, f := range features {
		d.Local.Enabled[f], d.Local.Willing[f] = true, p.DCBX.Takes(name)
	}
	d.Local.Enabled[dcbx.FeaturePFC] = p.FlowControl == config.FlowPFC || p.FlowControl == config.FlowAuto
	return d
}

// hostName returns the name of the machine.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "sluice"
	}
	return name
}

// chassis returns the address that identifies the switch: that of its first device that exists, or
// zero if none does.
func chassis(c *config.Config) (mac [6]byte) {
	for i := range c.Ports {
		if device, err := net.InterfaceByName(c.Ports[i].Device); err == nil && len(device.HardwareAddr) == len(mac) {
			return [6]byte(device.HardwareAddr)
		}
	}
	return mac
}
