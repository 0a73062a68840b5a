package snooptest_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"sluice/bench/testkit/snooptest"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
)

// plane is a bridge with the virtual links of the engine.
type plane struct {
	*bridge.Bridge
	links atomic.Pointer[bridge.VirtualLinks]
	fcoe  bridge.VLANSet
	ports []string
}

func newPlane(t *testing.T, c snooptest.Config) *plane {
	t.Helper()
	p := &plane{}
	for _, i := range c.Instances {
		p.fcoe.Add(i.VLAN)
	}
	params := bridge.Params{FCoE: &p.fcoe, VirtualLinks: &p.links}
	for _, o := range c.Ports {
		p.ports = append(p.ports, o.Name)
		member := &bridge.VLANSet{}
		for _, v := range o.VLANs {
			member.Add(v)
		}
		params.Ports = append(params.Ports, bridge.PortParams{VLANs: member})
	}
	var err error
	if p.Bridge, err = bridge.New(params); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *plane) set(t *testing.T, of []snoop.Link) {
	t.Helper()
	var all []bridge.VirtualLink
	for _, l := range of {
		all = append(all, bridge.VirtualLink{VID: l.VID, VN: l.VN, ENode: l.ENode, FCF: l.FCF,
			ENodePort: slices.Index(p.ports, l.ENodePort), FCFPort: slices.Index(p.ports, l.FCFPort)})
	}
	links, err := bridge.NewVirtualLinks(all)
	if err != nil {
		t.Fatal(err)
	}
	p.links.Store(links)
}

// forward returns where an FCoE frame goes, "" for nowhere.
func (p *plane) forward(t *testing.T, port string, vid uint16, dst, src frame.MAC) string {
	t.Helper()
	b := make([]byte, 64)
	frame.PutHeader(b, dst, src, vid, 3, true, frame.TypeFCoE)
	f := make([]bridge.Frame, 1)
	if problem := frame.Parse(b, &f[0].Header); problem != frame.OK {
		t.Fatal(problem)
	}
	p.Forward(1, slices.Index(p.ports, port), f)
	switch {
	case f[0].Out >= 0 && f[0].Reason == bridge.Forwarded:
		return p.ports[f[0].Out]
	case f[0].Out == bridge.Nowhere && f[0].Reason != bridge.Forwarded:
		return ""
	}
	return fmt.Sprint("out ", f[0].Out, " reason ", f[0].Reason) // a flood, for one
}

// TestDataplane: the bridge forwards FCoE frames where the model says, and nowhere else.
func TestDataplane(t *testing.T) {
	passed, dropped := 0, 0
	for seed := *first; seed < *first+8; seed++ {
		p := newPair()
		p.seldom = 1 << 30
		traffic := snooptest.NewTraffic(seed, p.model)
		d := newPlane(t, p.config)
		serial := ^uint64(0)
		for range *events / 4 {
			e := traffic.Next(p.now)
			p.apply(e) // TestRandom compares
			if e.Kind == snooptest.Configures {
				d, serial = newPlane(t, p.config), ^uint64(0)
			}
			if s := p.engine.Serial(); s != serial {
				d.set(t, p.engine.Links())
				serial = s
			}
			for range 8 {
				port, vid, dst, src := traffic.FCoE()
				want := p.model.FCoE(port, vid, dst, src)
				if !slices.Contains(d.ports, port) || !d.fcoe.Has(vid) {
					continue // FCoE off the FCoE VLANs does not get as far as this
				}
				if got := d.forward(t, port, vid, dst, src); got != want {
					t.Fatalf("seed %d: an FCoE frame from %v to %v in VLAN %d on %s goes to %q, not %q",
						seed, src, dst, vid, port, got, want)
				}
				if want == "" {
					dropped++
				} else {
					passed++
				}
			}
		}
	}
	t.Logf("%d frames forwarded, %d dropped", passed, dropped)
	if passed < 1000 || dropped < 1000 {
		t.Error("too few of one kind to tell")
	}
}
