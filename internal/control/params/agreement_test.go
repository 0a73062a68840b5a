package params

import (
	"slices"
	"strings"
	"testing"

	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
)

// translateOn is translate on links.
func translateOn(t *testing.T, text string, links map[string]config.LinkFacts) dataplane.Params {
	t.Helper()
	c, err := configtest.Parse(t, text).OnLinks(links)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Of(c, configtest.Memory(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dataplane.NewSwitch(p); err != nil {
		t.Fatalf("the dataplane refuses what was translated: %v", err)
	}
	return p
}

// TestAgreedParams: a port that has not agreed on a lossless class treats it as a lossy one, with
// the same share, without headroom and without pauses; its queue has no limit anywhere.
func TestAgreedParams(t *testing.T) {
	p := translateOn(t, configtest.Auto, configtest.Agreed(map[string]uint8{"a": 0, "b": 0x18}))
	for i, want := range []uint8{0, 0x18, 0x08} {
		port := &p.Ports[i]
		if port.Generator.Priorities != want || port.Receiver.Priorities != want || port.Watchdog.Priorities != want ||
			port.FlowControl != dataplane.PriorityFlowControl || port.Watchdog.Detection == 0 {
			t.Errorf("port %s: %+v, %+v, %+v, want %#x", port.Name, port.Generator, port.Receiver, port.Watchdog, want)
		}
		for cos := range dataplane.Priorities {
			g, lossless := port.Cells.Groups[cos], want>>cos&1 == 1
			if g.Lossless != lossless || lossless != (g.Headroom >= 250) || lossless != (g.XON > 0) || g.Reserved != 2 {
				t.Errorf("port %s, CoS %d: %+v", port.Name, cos, g)
			}
			if unlimited := cos == 3 || cos == 4; unlimited != (port.Cells.Queues[cos].Limit == 0) {
				t.Errorf("port %s, queue %d: %+v", port.Name, cos, port.Cells.Queues[cos])
			}
		}
		if share := port.Cells.Groups[3].Share; share != 200 {
			t.Errorf("port %s: a share of %d cells, want 200", port.Name, share)
		}
	}
	p = translateOn(t, "pfc: {asymmetric: true}"+configtest.Auto, configtest.Agreed(map[string]uint8{"a": 0}))
	if a := &p.Ports[0]; a.Receiver.Priorities != 0xff || a.Generator.Priorities != 0 {
		t.Errorf("asymmetric: %+v, %+v", a.Receiver, a.Generator)
	}
	p = translateOn(t, "watchdog: {action: off}"+configtest.Auto, nil)
	if a := &p.Ports[0]; a.Watchdog.Detection != 0 || a.Generator.Priorities != 8 {
		t.Errorf("without a watchdog: %+v", a.Watchdog)
	}
}

// TestFloodsOfAgreements: flooded frames that are lossless on some port wait in their own queue at
// every port, and no others join them.
func TestFloodsOfAgreements(t *testing.T) {
	text := "forwarding: {flood_queues: true}" + configtest.Auto
	for _, test := range []struct {
		b    uint8
		want bridge.QueueMap
	}{
		{0x00, bridge.QueueMap{0, 1, 1, 3, 2, 2, 6, 6}}, // CoS 3 is lossless on the third port
		{0x08, bridge.QueueMap{0, 1, 1, 3, 2, 2, 6, 6}},
		{0x28, bridge.QueueMap{0, 1, 1, 3, 2, 5, 6, 6}},
		{0x40, bridge.QueueMap{0, 1, 1, 3, 2, 2, 6, 7}},
		{0x04, bridge.QueueMap{0, 1, 2, 3, 4, 5, 6, 6}},
	} {
		if p := translateOn(t, text, configtest.Agreed(map[string]uint8{"b": test.b})); *p.Floods != test.want {
			t.Errorf("%#x: %v, want %v", test.b, *p.Floods, test.want)
		}
	}
}

// TestMemoryOfAgreements: the memory is divided in the same way whether ports have agreed on the
// lossless classes of the file or not, so an agreement on them never takes memory that is in use.
func TestMemoryOfAgreements(t *testing.T) {
	for _, key := range []string{"", ", headroom_ratio: 2", ", lossless_pool: 50%"} {
		text := strings.Replace(configtest.Auto, "cell: 160B", "cell: 160B"+key, 1)
		want := translateOn(t, text, nil).Accounts[0]
		for _, links := range []map[string]uint8{{"a": 0}, {"a": 0, "b": 0}, {"a": 8, "b": 0}} {
			got := translateOn(t, text, configtest.Agreed(links)).Accounts[0]
			same := slices.Clone(got.Pools)
			for i := range same {
				same[i].Headroom = want.Pools[i].Headroom
			}
			if got.Cells != want.Cells || !slices.Equal(same, want.Pools) ||
				got.Pools[0].Headroom > want.Pools[0].Headroom {
				t.Errorf("%v: %+v, want %+v", links, got, want)
			}
		}
	}
}
