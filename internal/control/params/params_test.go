package params

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bench/testkit/configtest"
	"sluice/cells"
	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/pmd/afxdp"
	"sluice/sched"
)

func TestParams(t *testing.T) {
	c := configtest.Parse(t, `
memory: {cell: 160B, buffers: 16384}
classes:
  - {cos: [3], lossless: true, reserved: 1KB, share: 100KB, xon: 50KB, headroom: 48000B}
  - {cos: [0, 1, 2, 4, 5], queue_limit: 16000B}
  - {cos: [6, 7]}
ets:
  - name: ets1
    groups: [{pg: 0, cos: [0, 1, 2, 4, 5], weight: 60}, {pg: 1, cos: [3], weight: 40}, {pg: 15, cos: [6, 7]}]
pfc: {quanta: 1000, refresh: 300}
ports:
  - {device: a, speed: 10G, mtu: 1600, default_cos: 2, in_flight: 9KB, response: 0s,
      vlans: [10-20], pvid: 11, ets: ets1}
  - {device: b, speed: 1G, in_flight: 2KB, response: 1us, mtu: 1504, peer_mtu: 1400, s_tag: pcp}
`)
	p, err := Of(c, configtest.Memory(t, c))
	if err != nil {
		t.Fatal(err)
	}
	a := p.Ports[0]
	if a.MaxFrame != 1618 || a.InFlight != 9000 || a.Sched.Rate != 10e9 ||
		a.FlowControl != dataplane.PriorityFlowControl {
		t.Errorf("port a: %+v", a)
	}
	if b := p.Ports[1]; b.MaxFrame != 1526 || b.MaxLossless != 1422 || b.Sched.MaxFrame != 1526 || b.Response != 1000 {
		t.Errorf("frames of port b may have an S-tag and a C-tag: %+v", b)
	}
	if share := a.Cells.Groups[0].Share; share != 16384-2*(4096+dataplane.OwnBuffers+7+300+7*103) {
		t.Errorf("the default share is cut to %d, not to what there is to share", share)
	}
	want := cells.GroupParams{Lossless: true, Reserved: 7, Share: 625, XON: 313, Headroom: 300}
	if a.Cells.Groups[3] != want {
		t.Errorf("group 3 of port a: %+v, want %+v", a.Cells.Groups[3], want)
	}
	if a.Cells.Queues[3].Limit != 0 || a.Cells.Queues[0].Limit != 100 {
		t.Errorf("queues of port a: %+v", a.Cells.Queues)
	}
	g, q := a.Sched.Groups, a.Sched.Queues
	lan, san := sched.GroupParams{TSA: sched.ETS, Weight: 60}, sched.GroupParams{TSA: sched.ETS, Weight: 40}
	if g[0] != lan || g[1] != san || g[15] != (sched.GroupParams{}) || q[5].Group != 0 || q[3].Group != 1 ||
		q[6].Group != 15 ||
		q[5].TSA != sched.ETS || q[6].TSA != sched.StrictPriority {
		t.Errorf("port a: groups %+v, queues %+v; want 60 to 40, and group 15 strict", g, q)
	}
	if a.Generator.Priorities != 1<<3 || a.Generator.Quanta != 1000 || a.Generator.Refresh != 300 ||
		a.Receiver.Priorities != 1<<3 {
		t.Errorf("PFC of port a: %+v, %+v", a.Generator, a.Receiver)
	}
	v := p.Bridge.Ports[0]
	if v.PVID != 11 || !v.VLANs.Has(20) || v.VLANs.Has(21) || p.Bridge.Mode != bridge.Learning {
		t.Errorf("bridge: %+v", p.Bridge)
	}
	if _, err := dataplane.NewSwitch(p); err != nil {
		t.Errorf("the dataplane refuses what was translated: %v", err)
	}
}

// TestTutorial: the tutorial's configuration makes a switch.
func TestTutorial(t *testing.T) {
	tutorial, err := os.ReadFile("../../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(tutorial), "    echo '\n")
	text, _, found := strings.Cut(after, "    ' > tour/switch.yaml\n")
	if !found {
		t.Fatal("docs/tutorial.md shows no tour/switch.yaml")
	}
	c := configtest.Parse(t, text)
	if _, err := Of(c, configtest.Memory(t, c)); err != nil {
		t.Error(err)
	}
}

// TestExamples: every example makes a switch whose memory holds what it promises.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		c, err := config.Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		p, err := Of(c, configtest.Memory(t, c))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := dataplane.NewSwitch(p); err != nil {
			t.Errorf("%s: the dataplane refuses what was translated: %v", file, err)
		}
	}
}

// TestLimitsAgree: the driver accepts what the configuration accepts, and fills buffers as that
// assumes.
func TestLimitsAgree(t *testing.T) {
	for size := 2048; size <= 65536; size *= 2 {
		m := config.Memory{BufferSize: size}
		if c, d := m.Whole()-config.FrameOverhead, afxdp.BufferMTU(size); c != d {
			t.Errorf("buffers of %d bytes: whole frames of an MTU of %d, by the driver %d", size, c, d)
		}
		if c, d := m.Part(), afxdp.Part(size); c != d {
			t.Errorf("buffers of %d bytes hold %d bytes of a long frame, by the driver %d", size, c, d)
		}
		if most := afxdp.MaxMTU(size); most < 9504 { // the highest mtu, with an S-tag
			t.Errorf("buffers of %d bytes: the driver opens devices with an MTU of at most %d", size, most)
		}
	}
}

func TestParamsOfWires(t *testing.T) {
	c := configtest.Parse(t, `
forwarding: {mode: wire, wires: [[a, c], [d, b]]}
ports: [{device: a, speed: 1G}, {device: b, speed: 1G}, {device: c, speed: 1G}, {device: d, speed: 1G}]
`)
	p, err := Of(c, configtest.Memory(t, c))
	if err != nil {
		t.Fatal(err)
	}
	var peers []int
	for _, port := range p.Bridge.Ports {
		peers = append(peers, port.Peer)
	}
	if p.Bridge.Mode != bridge.Wire || len(peers) != 4 || peers[0] != 2 || peers[1] != 3 || peers[2] != 0 ||
		peers[3] != 1 {
		t.Errorf("mode %v, peers %v", p.Bridge.Mode, peers)
	}
}

// TestMemoryThatDoesNotFit: the number of buffers that the message recommends is enough.
func TestMemoryThatDoesNotFit(t *testing.T) {
	text := `
memory: {buffers: 4096}
classes: [{cos: [3], lossless: true, headroom: 6MB, share: 1MB}]
ports: [{device: a, speed: 1G}, {device: b, speed: 1G}]
`
	c := configtest.Parse(t, text)
	_, err := Of(c, configtest.Memory(t, c))
	if err == nil {
		t.Fatal("accepted")
	}
	if !strings.HasPrefix(err.Error(), "test.yaml:2:19: ") {
		t.Errorf("the message does not point to the buffers: %v", err)
	}
	_, after, _ := strings.Cut(err.Error(), "raise buffers to ")
	number := strings.Fields(after)[0]
	c = configtest.Parse(t, strings.Replace(text, "4096", number, 1))
	if _, err := Of(c, configtest.Memory(t, c)); err != nil {
		t.Errorf("%s buffers, which were recommended, are refused: %v", number, err)
	}
}

func TestRingsLeaveHalfOfTheMemory(t *testing.T) {
	for _, ports := range []int{1, 3, 8, 64} {
		size := ringSize(32768, ports)
		if size*ports > 16384 || size*ports*2 <= 16384 && size < maxRing || size&(size-1) != 0 {
			t.Errorf("%d ports: rings of %d entries", ports, size)
		}
	}
}

// TestLongFrames: with ports whose frames occupy several buffers, the accounts promise no more than
// the memory holds. A frame of any length costs at least as many cells as it occupies buffers, and
// there are no more cells than buffers that the drivers leave.
func TestLongFrames(t *testing.T) {
	for _, memory := range []string{"buffer_size: 2048B", "buffer_size: 4096B", "buffer_size: 4096B, cell: 160B",
		"buffer_size: 4096B, profile: nexus5000, buffers: 65536", "buffer_size: 2048B, headroom_ratio: 3"} {
		p := translate(t, "memory: {"+memory+`}
classes: [{cos: [3, 4], lossless: true, reserved: 4KB}, {cos: [0], queue_limit: 20KB, reserved: 0B}]
ports: [{device: a, speed: 1G, mtu: 9500, response: 100us, in_flight: 10KB},
  {device: b, speed: 1G, mtu: 4200, response: 100us, in_flight: 10KB},
  {device: c, speed: 1G, response: 100us, in_flight: 10KB}]
`)
		kept, promised := 0, 0
		for i := range p.Ports {
			port := &p.Ports[i]
			kept += port.Buffers + dataplane.OwnBuffers
			for _, g := range port.Cells.Groups {
				promised += g.Reserved + g.Headroom
			}
			for length := 60; length <= port.MaxFrame; length++ {
				buffers := 1
				if length > p.Memory.BufferSize()-config.BufferReserve {
					buffers = inCells(length, p.Part)
				}
				if cells := inCells(length, p.CellSize); buffers > port.Parts || cells < buffers {
					t.Fatalf("%s: port %s: a frame of %d bytes costs %d cells and occupies %d buffers of at most %d",
						memory, port.Name, length, cells, buffers, port.Parts)
				}
			}
		}
		account := &p.Accounts[0]
		if account.Cells > p.Memory.Buffers()-kept {
			t.Errorf("%s: %d cells, but drivers leave %d buffers", memory, account.Cells, p.Memory.Buffers()-kept)
		}
		if strings.Contains(memory, "ratio") {
			continue // headroom is overbooked
		}
		if promised > account.Cells {
			t.Errorf("%s: %d cells are promised, and there are %d", memory, promised, account.Cells)
		}
	}
}
