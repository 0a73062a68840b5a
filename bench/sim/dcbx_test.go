package sim

import (
	"log/slog"
	"slices"
	"testing"

	"sluice/bench/traffic"
	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/punt"
	"sluice/internal/discovery"
	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
	"sluice/internal/frame"
)

// autoSwitch has PFC for CoS 3 at ports that have agreed on it.
const autoSwitch = `
lldp: {enabled: true}
classes:
  - {cos: [3], lossless: true, share: 100KB}
  - {cos: [0], queue_limit: 100KB}
memory: {buffers: 16384, cell: 160B}
ports:
  - {device: a, speed: 10G, response: 20us, flow_control: auto, dcbx: {version: auto}}
  - {device: b, speed: 10G, response: 20us, flow_control: auto, dcbx: {version: auto}}
  - {device: c, speed: 10G, response: 20us, flow_control: auto, dcbx: {version: auto}}
`

// speaking is a switch that speaks DCBX in virtual time. Its control plane follows what is agreed
// as package control does, whenever poll is called.
type speaking struct {
	*Switch
	t       *testing.T
	f       *Fabric
	file    *config.Config
	facts   map[string]config.LinkFacts
	system  *discovery.System
	changes int // agreements that took effect
}

// newSpeaking adds a switch that speaks a version of DCBX. Nothing is agreed yet.
func newSpeaking(t *testing.T, f *Fabric, version dcbx.Version) *speaking {
	t.Helper()
	s := &speaking{t: t, f: f, facts: map[string]config.LinkFacts{}}
	var err error
	if s.file, err = config.Parse("test", []byte(autoSwitch)); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.file.Ports {
		s.facts[p.Device] = config.LinkFacts{DCB: &config.Agreed{}}
	}
	if s.Switch, err = f.AddConfigured(s.fitted()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s.system = discovery.New(slog.New(slog.DiscardHandler), func(port string, b []byte) {
		at := slices.IndexFunc(s.file.Ports, func(p config.Port) bool { return p.Device == port })
		s.Inject(s.PortID(at), b)
	})
	p := discovery.Params{Interval: 30e9, Hold: 4, Name: "switch", Bridge: true}
	for _, port := range s.file.Ports {
		p.Ports = append(p.Ports, discovery.PortParams{
			Name: port.Device, LLDP: lldp.RXTX, DCBX: true, Auto: true, Local: dcbx.Config{
				Version: version, Enabled: [dcbx.Features]bool{dcbx.FeaturePFC: true},
				PFC: dcbx.PFC{Priorities: 1 << lossless, Capability: 8},
			},
		})
	}
	if err := s.system.Configure(f.now, p); err != nil {
		t.Fatal(err)
	}
	return s
}

// fitted returns the configuration for what is agreed.
func (s *speaking) fitted() *config.Config {
	s.t.Helper()
	c, err := s.file.OnLinks(s.facts)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// poll exchanges frames between the workers and discovery, and puts what is agreed into effect.
func (s *speaking) poll() {
	s.t.Helper()
	for i := range s.file.Ports {
		s.system.SetLink(s.f.now, s.file.Ports[i].Device, s.links[i].Up, frame.MAC(0x0200_0000_0100+i).Bytes(), 0)
	}
	s.Punted(punt.LLDP, func(f punt.Frame) { s.system.Receive(s.f.now, s.PortName(f.Port), f.Bytes) })
	s.system.Advance(s.f.now)
	changed := false
	for name, a := range s.system.Agreements() {
		if s.facts[name].DCB.PFC != a.PFC {
			s.facts[name] = config.LinkFacts{DCB: &config.Agreed{PFC: a.PFC}}
			changed = true
		}
	}
	if !changed {
		return
	}
	s.changes++
	p, err := params.Of(s.fitted(), s.Params.Memory)
	if err != nil {
		s.t.Fatal(err)
	}
	p.Bridge.Seed = s.Params.Bridge.Seed
	g, err := s.Prepare(p)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Publish(&dataplane.Plan{Links: s.links, Generation: g})
	s.f.Run(10_000) // until all workers run it
	for name, fact := range s.facts {
		s.system.Runs(s.f.now, name, discovery.Agreement{PFC: fact.DCB.PFC})
	}
}

// run runs the fabric and polls the control plane every millisecond.
func (s *speaking) run(ms int) {
	s.t.Helper()
	for range ms {
		s.f.Run(1e6)
		s.poll()
	}
}

// drops returns the frames of the lossless class that the switch has dropped, and those of them
// that were dropped while the class was lossless.
func (s *speaking) drops() (all, lost uint64) {
	for _, p := range s.Ports(s.f.now) {
		in, out := p.ClassDrops(lossless)
		all, lost = all+in+out, lost+p.LosslessDrops()
	}
	return all, lost
}

// addHosts adds two hosts that overload a third one, with frames of both classes. With speaks, they
// are willing to learn where to honour PFC.
func (s *speaking) addHosts(speaks bool) (sink *Host, senders []*Host) {
	s.t.Helper()
	for i := range 3 {
		mac, flows := target, []traffic.Flow{{ID: 40, Dst: hostA, VID: 100, Size: traffic.MinSize, Rate: 1e8}}
		if i < 2 {
			id := uint32(8 * i)
			mac = hostA + frame.MAC(i)
			flows = []traffic.Flow{testFlow(id+lossless, lossless, 1000, 0), testFlow(id+lossy, lossy, 1000, 0)}
		}
		port := s.file.Ports[i]
		p := traffic.Params{MAC: mac, Speed: port.Speed, InFlight: 16 << 10, Flows: flows}
		if speaks {
			var err error
			if p.DCBX, err = traffic.NewNegotiator(traffic.NegotiatorParams{MAC: mac, Name: mac.String()}); err != nil {
				s.t.Fatal(err)
			}
		}
		h, err := s.f.AddHost(port.Device, s.Switch, i,
			Cable{Rate: port.Speed, Metres: port.Metres, MTU: port.MTU, Ring: s.Params.Ports[i].Buffers}, p)
		if err != nil {
			s.t.Fatal(err)
		}
		if i == 2 {
			return h, senders
		}
		senders = append(senders, h)
	}
	return nil, nil
}

// TestHostsLearnPFC overloads a port of a switch from hosts that know nothing of PFC. Until they
// have learned from the switch, the lossless class is an ordinary one at its ports, and drops. From
// then on it loses nothing.
func TestHostsLearnPFC(t *testing.T) {
	for _, version := range []dcbx.Version{dcbx.IEEE, dcbx.CEE, dcbx.CIN} {
		t.Run(version.String(), func(t *testing.T) { testHostsLearnPFC(t, version) })
	}
}

func testHostsLearnPFC(t *testing.T, version dcbx.Version) {
	f := NewFabric(1)
	s := newSpeaking(t, f, version)
	sink, senders := s.addHosts(true)
	f.Run(3e6)
	before, _ := s.drops()
	if before == 0 {
		t.Error("nothing was dropped before the agreement: the test tests nothing")
	}
	if h := senders[0].Stats(f.now); h.PFC.Frames > 0 || len(h.DCBX.PFC) > 0 {
		t.Errorf("the host was paused before: %+v", h.PFC)
	}
	s.run(5)
	for _, h := range append(senders, sink) {
		if a := h.Stats(f.now).DCBX; !slices.Equal(a.PFC, []int{lossless}) || a.Peer != "switch" ||
			a.Version != version.String() || a.State != "peer" {
			t.Errorf("host %s has agreed on %+v", h.Name, a)
		}
	}
	dropped, _ := s.drops()
	if dropped == before {
		t.Error("the switch dropped nothing while its control plane had not run yet")
	}
	s.run(10)
	lost := verify(t, f, sink, senders...)
	all, lossless := s.drops()
	if all != dropped || lossless != 0 || lost[LosslessCoS] != dropped || lost[lossy] == 0 {
		t.Errorf("%d frames of the lossless class dropped, %d while it was lossless, %d missing, %d dropped before "+
			"the agreement; %d lossy ones lost", all, lossless, lost[LosslessCoS], dropped, lost[lossy])
	}
	for i, p := range s.Ports(f.now)[:2] {
		if p.PFCSent.XOFF[LosslessCoS] == 0 {
			t.Errorf("port %d sent no XOFF: there was no overload", i)
		}
	}
	if s.changes == 0 || s.changes > 3 {
		t.Errorf("%d changes of the configuration", s.changes)
	}
}

// TestHostsWithoutDCBX: with hosts that do not speak DCBX, the lossless class stays an ordinary
// one, and drops to the end.
func TestHostsWithoutDCBX(t *testing.T) {
	f := NewFabric(1)
	s := newSpeaking(t, f, dcbx.Auto)
	sink, senders := s.addHosts(false)
	s.run(8)
	before, _ := s.drops()
	s.run(5)
	lost := verify(t, f, sink, senders...)
	all, lossless := s.drops()
	if all == before || lossless != 0 || lost[LosslessCoS] != all || s.changes != 0 {
		t.Errorf("%d frames dropped, %d of them before, %d lossless, %d missing, %d agreements", all, before, lossless,
			lost[LosslessCoS], s.changes)
	}
	if sent := s.Ports(f.now)[0].PFCSent.Frames; sent != 0 || sink.Stats(f.now).Others == 0 {
		t.Errorf("%d PFC frames sent, and %d LLDP frames arrived", sent, sink.Stats(f.now).Others)
	}
}
