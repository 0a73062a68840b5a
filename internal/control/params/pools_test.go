package params

import (
	"strings"
	"testing"

	"sluice/bench/testkit/configtest"
	"sluice/cells"
	"sluice/internal/dataplane"
	"sluice/pfc"
)

// translate parses a file and builds the switch that it describes.
func translate(t *testing.T, text string) dataplane.Params {
	t.Helper()
	return translateOn(t, text, nil)
}

func TestPools(t *testing.T) {
	p := translate(t, `
memory: {buffers: 4096, cell: 160B, lossless_pool: 60%, headroom_ratio: 2}
classes:
  - {cos: [3], lossless: true, reserved: 160B, alpha: 1/4, xon: 1600B, xon_offset: 3200B, headroom: 48000B}
  - {cos: [0], reserved: 0B, queue_alpha: 2}
  - {cos: [1, 2, 4, 5, 6, 7], reserved: 0B, share: 1600B}
ports: [{device: a, speed: 10G, in_flight: 9KB, response: 0s}, {device: b, speed: 10G, in_flight: 9KB, response: 0s}]
`)
	const buffers = 4096 - 2*(1024+dataplane.OwnBuffers)
	account := p.Accounts[0]
	shared := buffers - 2*1 - 300 // reserved; twice 300 cells of headroom, over-subscribed by two
	want := []cells.PoolParams{{Name: "/lossless", Shared: shared * 60 / 100, Headroom: 300},
		{Name: "/lossy", Shared: shared - shared*60/100}}
	if account.Cells != buffers || len(account.Pools) != 2 || account.Pools[0] != want[0] ||
		account.Pools[1] != want[1] {
		t.Errorf("%+v, want %d cells and the pools %+v", account, buffers, want)
	}
	a := p.Ports[0].Cells
	if g, want := a.Groups[3],
		(cells.GroupParams{Lossless: true, Reserved: 1, Alpha: 32, Headroom: 300, XON: 10, XONOffset: 20}); g != want {
		t.Errorf("lossless group: %+v, want %+v", g, want)
	}
	if g := a.Groups[1]; g.Pool != 1 || g.Share != 10 {
		t.Errorf("lossy group: %+v, want a share of 10 in pool 1", g)
	}
	if q := a.Queues[0]; q.Alpha != 256 || q.Limit != 0 {
		t.Errorf("queue 0: %+v, want an alpha of 2", q)
	}
}

// TestPortBuffer: the Nexus 5000 has 3072 cells of 160 bytes per port.
func TestPortBuffer(t *testing.T) {
	text := `
memory: {buffers: 16384, profile: nexus5000}
classes: [{cos: [3], lossless: true, reserved: 0B, share: 64KB}, {cos: [0, 1, 2, 4, 5, 6, 7], reserved: 0B}]
ports: [{device: a, speed: 10G, cable: 300m, response: 0s}, {device: b, speed: 10G, cable: 300m, response: 0s}]
`
	p := translate(t, text)
	if p.CellSize != 160 || p.Accounts[0].Cells != 2*3072 {
		t.Errorf("cells of %d bytes, %d of them; want 160 and 6144", p.CellSize, p.Accounts[0].Cells)
	}
	for i, port := range p.Ports {
		pool := p.Accounts[0].Pools[i]
		if name := p.Accounts[0].Queues[i].Name; name != port.Name+"/" || pool.Name != name {
			t.Errorf("port %s: pools %q and %q, by which a reload can't tell them from other ports'", port.Name,
				pool.Name, name)
		}
		if n := pool.Shared + pool.Headroom; n != 3072 || port.Cells.Groups[0].Pool != i ||
			port.Cells.Groups[3].Pool != i {
			t.Errorf("port %s: %d cells, groups in the pools %d and %d; want 3072 in a pool of its own", port.Name, n,
				port.Cells.Groups[0].Pool, port.Cells.Groups[3].Pool)
		}
	}
	c := configtest.Parse(t, strings.Replace(text, "buffers: 16384", "buffers: 8192", 1))
	if _, err := Of(c, configtest.Memory(t, c)); err == nil || !strings.Contains(err.Error(), "test.yaml:2:") ||
		!strings.Contains(err.Error(), "raise buffers to") {
		t.Errorf("too few buffers: got %v, want an error at line 2 that says what to raise", err)
	}
}

// TestSharesAreCut: shares are limited to what there is, and marks with them: XON, half of the
// share by default, stays half.
func TestSharesAreCut(t *testing.T) {
	p := translate(t, `
memory: {buffers: 16384, profile: nexus5000}
classes: [{cos: [3], lossless: true, reserved: 0B, share: 4MB}, {cos: [0], reserved: 0B, queue_limit: 100GB}]
ports: [{device: a, speed: 1G, response: 0s}]
`)
	g, pool := p.Ports[0].Cells.Groups[3], p.Accounts[0].Pools[0]
	if g.Share != pool.Shared || g.Share == 0 || g.XON < g.Share/2-1 || g.XON > g.Share/2+1 {
		t.Errorf("share %d of a pool of %d, XON at %d; want all, and half of it", g.Share, pool.Shared, g.XON)
	}
}

func TestIdleWorker(t *testing.T) {
	c := configtest.Parse(t, "workers: [0, 1]\nports: [{device: a, speed: 1G}]\n")
	if _, err := Of(c, configtest.Memory(t, c)); err == nil ||
		!strings.HasPrefix(err.Error(), "test.yaml:1:14: the worker on CPU 1 has no port") {
		t.Errorf("got %v, want an error at the second CPU", err)
	}
}

func TestFlowControl(t *testing.T) {
	p := translate(t, `
classes: [{cos: [3], lossless: true, headroom: 6MB}]
watchdog: {action: forward, detection: 300ms, restoration: 400ms}
ports: [{device: a, speed: 1G}, {device: b, speed: 1G, flow_control: pause},
  {device: c, speed: 1G, flow_control: "off"}]
`)
	for i, want := range []struct {
		flowControl dataplane.FlowControl
		honoured    uint8
	}{{dataplane.PriorityFlowControl, 1 << 3}, {dataplane.LinkPause, 0xff}, {dataplane.NoFlowControl, 1 << 3}} {
		got := p.Ports[i]
		dog := pfc.WatchdogParams{Priorities: want.honoured, Detection: 300e6, Restoration: 400e6, Action: pfc.Forward}
		if got.FlowControl != want.flowControl || got.Receiver.Priorities != want.honoured ||
			got.Generator.Priorities != 1<<3 || got.Watchdog != dog {
			t.Errorf("port %s: %+v", got.Name, got)
		}
	}
	p = translate(t, `
classes: [{cos: [3], lossless: true, headroom: 6MB}]
pfc: {asymmetric: true}
watchdog: {action: "off"}
ports: [{device: a, speed: 1G, response: 0s}]
`)
	if a := p.Ports[0]; a.Receiver.Priorities != 0xff || a.Generator.Priorities != 1<<3 || a.Watchdog.Priorities != 0 {
		t.Errorf("asymmetric, no watchdog: %+v", a)
	}
}

// TestHeadroomFromTheLink: a lossless class without a configured headroom gets what its port's link
// needs.
func TestHeadroomFromTheLink(t *testing.T) {
	c := configtest.Parse(t, `
memory: {cell: 160B, buffers: 65536}
classes: [{cos: [3], lossless: true}]
ports: [{device: a, speed: 10G, cable: 300m}, {device: b, speed: 1G}]
`)
	p, err := Of(c, configtest.Memory(t, c))
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Ports {
		got := p.Ports[i].Cells.Groups[3].Headroom
		if got*160 != c.Ports[i].Headroom || got == 0 {
			t.Errorf("port %s: headroom of %d cells; the link's is %d bytes", c.Ports[i].Device, got,
				c.Ports[i].Headroom)
		}
	}
	if p.Ports[0].Cells.Groups[3].Headroom <= p.Ports[1].Cells.Groups[3].Headroom {
		t.Error("a link ten times as fast needs no more headroom")
	}
}
