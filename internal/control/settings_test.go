package control

import (
	"context"
	"testing"

	"github.com/vishvananda/netlink"

	"sluice/bench/netns"
)

const keptText = `
memory: {buffers: 2048, buffer_size: 2048B}
ports: [{device: port1, speed: 1M}, {device: port2, speed: 1M}]
`

// TestSettingsAreKept: what others change on the device of an open port is put back and counted,
// and what only a peer can set is missing until it does.
func TestSettingsAreKept(t *testing.T) {
	y := emptyYard(t)
	y.start(keptText)
	y.awaitState("a peer without NAPI", func(s *State) bool {
		r := s.Total()
		return r.Ports[1].Up && len(r.Ports[1].Missing) == 1 && r.Ports[1].Missing[0].Setting == "peer"
	})
	y.change("port2", netlink.SetPromiscOff)
	y.awaitState("promiscuous mode to be put back", func(s *State) bool { return s.Total().Ports[1].PutBack == 1 })
	y.change("port2", func(l netlink.Link) error {
		now, err := netlink.LinkByIndex(l.Attrs().Index)
		if err == nil && now.Attrs().Promisc == 0 {
			t.Error("it is not promiscuous")
		}
		return err
	})
	if r := y.state().Total(); r.Ports[0].PutBack > 0 {
		t.Errorf("put back at the other port: %+v", r.Ports[0])
	}
}

// TestClosedPortsKeepNothing: a device that the switch has given back belongs to others.
func TestClosedPortsKeepNothing(t *testing.T) {
	y := emptyYard(t, netns.GRO())
	y.start(keptText)
	y.awaitState("port2", func(s *State) bool { return s.Ports[1].Up })
	if err := y.Shut(context.Background(), "port2"); err != nil {
		t.Fatal(err)
	}
	if r := y.state().Total(); len(r.Ports[1].Missing) > 0 || y.port("port2").info.Load().kept != nil {
		t.Errorf("missing of a port that is shut: %+v", r.Ports[1].Missing)
	}
	y.keepSettings()
	y.change("port2", func(l netlink.Link) error {
		if l.Attrs().Promisc > 0 {
			t.Error("it is promiscuous")
		}
		return nil
	})
}

// change changes a device of the switch.
func (y *yard) change(device string, do func(netlink.Link) error) {
	y.t.Helper()
	if err := y.home.Do(func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return do(link)
	}); err != nil {
		y.t.Fatal(err)
	}
}
