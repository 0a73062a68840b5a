package control

import (
	"cmp"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/punt"
	"sluice/internal/discovery"
	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
	"sluice/internal/frame"
)

// listenInterval is how often frames for the control plane are taken from the workers. LLDP has no
// timer shorter than a second.
const listenInterval = 20 * time.Millisecond

// now returns the time for discovery.
func (s *Switch) now() int64 { return time.Since(s.began).Nanoseconds() }

// inject sends a frame of the switch at a port. A frame for which there is no room is lost; LLDP
// repeats what it says.
func (s *Switch) inject(device string, frame []byte) {
	if p := s.port(device); p != nil {
		s.plane.Inject(s.plane.PortID(p.number), frame)
	}
}

// introduce has discovery speak for the ports of a file, with what the switch refuses of earlier
// agreements.
func (s *Switch) introduce(file *config.Config, refusals []refusal) error {
	if s.chassis == [6]byte{} { // once it is chosen, neighbours know the switch by it
		s.chassis = chassis(file)
	}
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
	now := s.now()
	for _, p := range s.ports {
		link := &s.plan.Links[p.number]
		s.discovery.SetLink(now, p.Device, link.Up && p.driver != nil, link.MAC, link.Flaps)
	}
	s.plane.Punted(punt.LLDP, func(f punt.Frame) {
		device := s.plane.PortName(f.Port)
		s.discovery.Receive(s.arrival(&f, device), device, f.Bytes)
	})
	s.tellRuns()
	s.discovery.Advance(now)
	if err := s.favourPeers(); err != nil {
		return err
	}
	return s.agree()
}

// arrival returns when a frame arrived at a port, by the clock of discovery. If this goroutine was
// busy, neighbours whose LLDPDUs wait must not age out meanwhile.
func (s *Switch) arrival(f *punt.Frame, device string) int64 {
	if p := s.port(device); p != nil {
		if started := s.plane.Workers[p.Worker].Started(); started != nil {
			return started.Sub(s.began).Nanoseconds() + f.At
		}
	}
	return s.now()
}

// favourPeers tells the workers the addresses of the ports' peers: their LLDPDUs have a limit of
// their own, so that others at the port can't crowd them out.
func (s *Switch) favourPeers() error {
	changed := false
	for _, p := range s.ports {
		link := &s.plan.Links[p.number]
		if peer := s.discovery.Peer(p.Device); peer != link.Peer {
			link.Peer, changed = peer, true
		}
	}
	if !changed {
		return nil
	}
	return s.publish()
}

// A port may change what it has agreed on changesAtOnce times, and then once in changeInterval. So
// a peer that changes its settings all the time does not keep the switch busy, and a link that goes
// down and up a few times does without PFC no longer than it has to.
const (
	changesAtOnce  = 8
	changeInterval = 4 * time.Second
)

// allowance is what is left to a port: the time at which all changes are allowed again at once.
type allowance time.Time

// after returns when the next change is allowed.
func (a allowance) after() time.Time { return time.Time(a).Add(-(changesAtOnce - 1) * changeInterval) }

// less returns what is left after a change.
func (a allowance) less(now time.Time) allowance {
	if now.After(time.Time(a)) {
		a = allowance(now)
	}
	return allowance(time.Time(a).Add(changeInterval))
}

// agree changes over to what ports and their peers have agreed on. What the configuration can't be
// fitted to is refused, port by port; the port then goes on without it, and the others with theirs.
func (s *Switch) agree() error {
	now := time.Now()
	if s.changing || s.stopping != dataplane.Running || s.discovery.Serial() == s.settled && now.Before(s.lookAgain) {
		return nil
	}
	s.settled, s.lookAgain = s.discovery.Serial(), now.Add(time.Hour)
	changed := s.agreements(now)
	if len(changed) == 0 {
		return nil
	}
	f := fitting{config: s.config, facts: s.facts}
	for _, c := range changed {
		s.fitAgreement(&f, s.config, c.device, c.agreed)
	}
	err := s.changeTo(f, changed)
	if err != nil && !errors.Is(err, errStuck) { // an engine refuses what all checks let pass: the rest goes on
		for _, c := range changed {
			f.refusals = append(f.refusals, refusal{c.device, config.FeaturePFC, because(err)},
				refusal{c.device, config.FeatureETS, because(err)})
		}
		err = nil
	}
	s.refuse(f.refusals)
	return err
}

// agreement is what a port has agreed on.
type agreement struct {
	device string
	agreed *config.Agreed
}

// agreements returns what ports have agreed on other than what they run. Those that give up
// priorities come first, as that frees memory. Ports that have to wait are left for later.
func (s *Switch) agreements(now time.Time) (changed []agreement) {
	frees := func(a agreement) bool { return a.agreed.PFC&^s.facts[a.device].DCB.PFC == 0 }
	for device, a := range s.discovery.Agreements() {
		fact := s.facts[device]
		is := &config.Agreed{PFC: a.PFC}
		if a.ETS != nil {
			is.ETS = &config.ETSTable{TC: a.ETS.TC, Bandwidth: a.ETS.Bandwidth, TSA: a.ETS.TSA}
		}
		if fact.DCB == nil || fact.DCB.Equal(is) {
			continue
		}
		if after := s.port(device).allowance.after(); now.Before(after) {
			if after.Before(s.lookAgain) {
				s.lookAgain = after
			}
			continue
		}
		changed = append(changed, agreement{device, is})
	}
	slices.SortFunc(changed, func(a, b agreement) int {
		if frees(a) != frees(b) {
			if frees(a) {
				return -1
			}
			return 1
		}
		return strings.Compare(a.device, b.device)
	})
	return changed
}

// changeTo changes over to a configuration that is fitted to new agreements.
func (s *Switch) changeTo(f fitting, changed []agreement) error {
	before, now := s.facts, time.Now()
	runs := func(a agreement) bool { return f.facts[a.device].DCB.Equal(before[a.device].DCB) }
	if slices.ContainsFunc(changed, func(a agreement) bool { return !runs(a) }) {
		if _, err := s.change(fitting{config: f.config, facts: f.facts}); err != nil {
			return err
		}
	}
	for _, c := range changed {
		p := s.port(c.device)
		if p.allowance = p.allowance.less(now); !runs(c) { // it isn't refused
			s.warnOfStalls(p)
			s.stopOwnPause(p)
		}
	}
	return nil
}

// tellRuns tells discovery what all workers run of what ports have agreed on, and have memory for.
func (s *Switch) tellRuns() {
	for _, p := range s.ports {
		is := s.facts[p.Device].DCB
		if is == nil || is.PFC&^s.plane.Lossless(p.number) != 0 {
			continue
		}
		a := discovery.Agreement{PFC: is.PFC}
		if is.ETS != nil {
			a.ETS = &dcbx.ETS{TC: is.ETS.TC, Bandwidth: is.ETS.Bandwidth, TSA: is.ETS.TSA}
		}
		s.discovery.Runs(s.now(), p.Device, a)
	}
}

// because says why an agreement is refused, in a line.
func because(err error) string {
	var one *config.Error
	if errors.As(err, &one) {
		return one.Problem + ": " + one.Remedy
	}
	return err.Error()
}

// refuse tells discovery what the switch can't run. Discovery logs it.
func (s *Switch) refuse(all []refusal) {
	for _, r := range all {
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
		Bridge: c.Forwarding.Mode == config.Bridge, SourceHold: c.DCBX.Hold.Nanoseconds(), Chassis: s.chassis,
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

// hostName returns the name of the machine in printable characters, or that of the program if it
// has none.
func hostName() string {
	name, _ := os.Hostname()
	return cmp.Or(lldp.Printable([]byte(name)), "sluice")
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
