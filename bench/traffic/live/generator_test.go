package live

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"sluice/bench/traffic/line"
	"sluice/pmd/xdprun"
)

// stillGenerator is a generator without a thread: its program runs when make is called.
type stillGenerator struct {
	*Generator
	t       testing.TB
	longest int
}

func newStillGenerator(t testing.TB, catchUp time.Duration, ports ...PortParams) stillGenerator {
	t.Helper()
	g := &Generator{}
	longest := g.list(ports)
	if err := g.load(GeneratorParams{Ports: ports, CatchUp: catchUp}, longest); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.release(); err != nil {
			t.Error(err)
		}
	})
	g.begin(ports)
	return stillGenerator{g, t, longest}
}

// made is a frame made by a generator.
type made struct {
	tag             *layers.Dot1Q
	src, dst        string
	size            int
	flow            uint32
	seq             uint64
	scheduled, sent int64
}

// make runs the program once and returns the frame that it would send, if any, decoded by gopacket.
func (g stillGenerator) make() (m made, any bool) {
	g.t.Helper()
	const redirected = 4 // XDP_REDIRECT
	out := make([]byte, 4096)
	o := ebpf.RunOptions{Data: make([]byte, g.longest), DataOut: out}
	verdict, err := g.program.Run(&o)
	if err != nil {
		g.t.Fatal(err)
	}
	if verdict == xdprun.XDPDrop {
		return m, false
	}
	if verdict != redirected {
		g.t.Fatalf("verdict %d", verdict)
	}
	m.size = len(o.DataOut)
	p := gopacket.NewPacket(o.DataOut, layers.LayerTypeEthernet, gopacket.Default)
	eth := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	m.src, m.dst = eth.SrcMAC.String(), eth.DstMAC.String()
	etherType, stamp := eth.EthernetType, eth.Payload
	if tag, tagged := p.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q); tagged {
		m.tag, etherType, stamp = tag, tag.Type, tag.Payload
	}
	data, any := line.ReadStamp(stamp, m.size)
	if etherType != line.TestType || !any || slices.Max(stamp[line.LengthAt+4:]) != 0 {
		g.t.Fatalf("type %#x, stamp %x", uint16(etherType), stamp)
	}
	m.flow, m.seq, m.scheduled, m.sent = data.Flow, data.Seq, data.Scheduled, data.Sent
	return m, true
}

// TestFramesSayWhatTheyAre decodes frames of several sizes, with and without a tag. Flows take
// turns.
func TestFramesSayWhatTheyAre(t *testing.T) {
	host, _ := newCable(t)
	flows := []Flow{
		{ID: 1, Dst: peerMAC, Src: hostMAC, VID: 4094, PCP: 7, Size: 60},
		{ID: 0xfedcba98, Dst: peerMAC, Src: hostMAC, Size: 1514},
		{ID: 3, Dst: peerMAC, Src: hostMAC, VID: 5, Size: MaxSize},
		{ID: 4, Dst: peerMAC, Src: hostMAC, PCP: 1, Size: 61},
	}
	g := newStillGenerator(t, time.Second, port(host, flows...))
	for i := range 40 {
		f := flows[i%len(flows)]
		m, any := g.make()
		if !any || m.size != f.Size || m.flow != f.ID || m.seq != uint64(i/len(flows)) || m.scheduled != m.sent ||
			m.src != hostMAC.String() || m.dst != peerMAC.String() {
			t.Fatalf("frame %d of flow %+v: %+v", i, f, m)
		}
		if tagged := f.VID != 0 || f.PCP != 0; tagged != (m.tag != nil) ||
			tagged && (m.tag.VLANIdentifier != f.VID || m.tag.Priority != f.PCP) {
			t.Fatalf("tag of flow %+v: %+v", f, m.tag)
		}
	}
	for _, s := range g.Sent() {
		if s.Frames != 10 || s.Bytes != 10*uint64(flows[s.Flow].Size) || s.ID != flows[s.Flow].ID {
			t.Errorf("%+v", s)
		}
	}
}

// TestRatesAreExact: by its stamp, frame n is due exactly n steps after the first, to 1 ns. No
// frame is sent before it is due. When no more frames are due, the number sent matches the rate.
func TestRatesAreExact(t *testing.T) {
	host, _ := newCable(t)
	rates := []float64{3000, 70, 999.99, -1}
	var flows []Flow
	for i, r := range rates {
		flows = append(flows, flow(uint32(i), 0, 60, r))
	}
	g := newStillGenerator(t, 24*time.Hour, port(host, flows...))
	var first [4]int64
	for begun, idle := monotonic(), false; !idle || monotonic()-begun < 200e6; {
		before := int64(monotonic())
		m, any := g.make()
		if idle = !any; any {
			if m.seq == 0 {
				first[m.flow] = m.scheduled
			}
			due := first[m.flow] + int64(float64(m.seq)*1e9/rates[m.flow])
			if off := m.scheduled - due; off < -1 || off > 1 || m.sent < m.scheduled {
				t.Fatalf("frame %+v is due at %d", m, due)
			}
			continue
		}
		after := int64(monotonic())
		for i, s := range g.Sent()[:3] {
			least := uint64(float64(before-first[i]-1)*rates[i]/1e9) + 1
			most := uint64(float64(after-first[i]+1)*rates[i]/1e9) + 1
			if first[i] > 0 && (s.Frames < least || s.Frames > most || s.Forgone > 0) {
				t.Fatalf("flow %d: %d frames, %v given up; want %d or %d", i, s.Frames, s.Forgone, least, most)
			}
		}
	}
	if n := g.Sent()[3].Frames; n > 0 {
		t.Errorf("%d frames of a flow that is stopped", n)
	}
}

// TestCatchUpIsBounded: after a silence a flow sends as many frames as CatchUp allows and reports
// what it has given up.
func TestCatchUpIsBounded(t *testing.T) {
	const catchUp, step = time.Second, time.Millisecond
	host, _ := newCable(t)
	g := newStillGenerator(t, catchUp, port(host, flow(0, 0, 60, float64(time.Second/step))))
	if _, any := g.make(); !any {
		t.Fatal("the first frame is not due")
	}
	g.flows.Words[flowNext] -= uint64(10 * catchUp) // as if the program had not run for so long
	late := 0
	for {
		m, any := g.make()
		if !any || m.sent-m.scheduled < int64(step) {
			break
		}
		if behind := time.Duration(m.sent - m.scheduled); behind > catchUp {
			t.Fatalf("frame %d is %v behind", m.seq, behind)
		}
		late++
	}
	forgone := g.Sent()[0].Forgone
	if most := int(catchUp/step) + 1; late < most-2 {
		t.Errorf("only %d frames were made up for, not %d", late, most)
	}
	if want := 9 * catchUp; forgone < want-step {
		t.Errorf("given up only %v, not %v", forgone, want)
	}
	g.SetCatchUp(time.Hour)
	g.flows.Words[flowNext] -= uint64(10 * catchUp)
	if m, any := g.make(); !any || time.Duration(m.sent-m.scheduled) < 10*catchUp-step ||
		g.Sent()[0].Forgone != forgone {
		t.Errorf("%v behind, and given up %v more, of a flow that may catch up", time.Duration(m.sent-m.scheduled),
			g.Sent()[0].Forgone-forgone)
	}
}

// TestCatchUpMayBeLong: with a long CatchUp a flow sends exactly the frames that it owes after a
// silence.
func TestCatchUpMayBeLong(t *testing.T) {
	const silence, step = 5 * time.Second, time.Millisecond
	host, _ := newCable(t)
	for _, catchUp := range []time.Duration{silence + time.Minute, math.MaxInt64} {
		g := newStillGenerator(t, catchUp, port(host, flow(0, 0, 60, float64(time.Second/step))))
		first, any := g.make()
		if !any {
			t.Fatal("the first frame is not due")
		}
		g.flows.Words[flowNext] -= uint64(silence) // as if the program had not run for so long
		frames := 1
		for ; any; frames++ {
			_, any = g.make()
		}
		owed := int((silence + time.Duration(int64(monotonic())-first.sent)) / step)
		if sent := g.Sent()[0]; sent.Forgone > 0 || frames < int(silence/step) || frames > owed+2 {
			t.Errorf("catch-up %v: %d frames, %v given up; owed are %d", catchUp, frames, sent.Forgone, owed)
		}
	}
}

// TestScheduleBeginsWithTheFirstLook at the flow after its start: the time that the thread took to
// get there does not count.
func TestScheduleBeginsWithTheFirstLook(t *testing.T) {
	host, _ := newCable(t)
	g := newStillGenerator(t, DefaultCatchUp, port(host, flow(0, 0, 60, 1000)))
	begins := func() {
		t.Helper()
		time.Sleep(10 * time.Millisecond)
		m, any := g.make()
		if forgone := g.Sent()[0].Forgone; !any || m.scheduled != m.sent || forgone > 0 {
			t.Errorf("%v, frame %+v, given up %v", any, m, forgone)
		}
	}
	begins()
	for _, rate := range []float64{-1, 1000} {
		if err := g.SetRate(0, 0, rate); err != nil {
			t.Fatal(err)
		}
		if rate > 0 {
			begins()
		} else if _, any := g.make(); any {
			t.Error("stopped: a frame")
		}
	}
}

// TestStoppedFlowsGiveUp their delay, and only one time.
func TestStoppedFlowsGiveUp(t *testing.T) {
	const behind = time.Minute
	host, _ := newCable(t)
	g := newStillGenerator(t, DefaultCatchUp, port(host, flow(0, 0, 60, 1)))
	if _, any := g.make(); !any {
		t.Fatal("the first frame is not due")
	}
	g.flows.Words[flowNext] -= uint64(behind)
	if err := g.SetRate(0, 0, -1); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, any := g.make(); any {
			t.Error("stopped: a frame")
		}
		if forgone := g.Sent()[0].Forgone; forgone < behind-time.Second-DefaultCatchUp || forgone > behind {
			t.Errorf("given up %v, not %v", forgone, behind)
		}
	}
}

// TestRateChanges: a stopped flow sends nothing, a started one has nothing to catch up, and a
// raised rate takes effect at once.
func TestRateChanges(t *testing.T) {
	host, _ := newCable(t)
	g := newStillGenerator(t, time.Hour, port(host, flow(0, 0, 60, 0)))
	set := func(rate float64) int64 {
		t.Helper()
		if err := g.SetRate(0, 0, rate); err != nil {
			t.Fatal(err)
		}
		return int64(monotonic())
	}
	for range 10 {
		if _, any := g.make(); !any {
			t.Fatal("as fast as it goes: no frame")
		}
	}
	set(-1)
	for range 10 {
		if _, any := g.make(); any {
			t.Fatal("stopped: a frame")
		}
	}
	time.Sleep(5 * time.Millisecond)
	set(0.01)
	if m, any := g.make(); !any || m.scheduled != m.sent || m.seq != 10 {
		t.Errorf("started: %v %+v", any, m)
	}
	if _, any := g.make(); any {
		t.Error("one frame in 100 s: two at once")
	}
	since := set(1000)
	if m, any := g.make(); !any || m.scheduled < since {
		t.Errorf("raised: %v %+v", any, m)
	}
	for _, rate := range []float64{1e-9, math.NaN(), math.Inf(1)} {
		if g.SetRate(0, 0, rate) == nil {
			t.Errorf("%g packets/s: no error", rate)
		}
	}
}

// TestManyFlows: the kernel accepts the program for the maximum number of flows, and each gets its
// turn.
func TestManyFlows(t *testing.T) {
	host, _ := newCable(t)
	var flows []Flow
	for i := range MostFlows {
		flows = append(flows, flow(uint32(i), uint8(i%8), 60+i, 0))
	}
	g := newStillGenerator(t, time.Second, port(host, flows...))
	for i := range 3 * MostFlows {
		if m, any := g.make(); !any || m.flow != uint32(i%MostFlows) || m.size != flows[m.flow].Size {
			t.Fatalf("frame %d: %+v", i, m)
		}
	}
}

func TestGeneratorRefusesNonsense(t *testing.T) {
	host, _ := newCable(t)
	good := flow(0, 0, 60, 0)
	bad := map[string]GeneratorParams{
		"no flow":        {Ports: []PortParams{port(host)}},
		"many flows":     {Ports: []PortParams{port(host, slices.Repeat([]Flow{good}, MostFlows+1)...)}},
		"short":          {Ports: []PortParams{port(host, flow(0, 0, MinSize-1, 0))}},
		"long":           {Ports: []PortParams{port(host, flow(0, 0, MaxSize+1, 0))}},
		"priority 8":     {Ports: []PortParams{port(host, flow(0, 8, 60, 0))}},
		"VLAN 4095":      {Ports: []PortParams{port(host, Flow{VID: 4095, Size: 60})}},
		"slow":           {Ports: []PortParams{port(host, flow(0, 0, 60, 1e-6))}},
		"negative":       {Ports: []PortParams{port(host, good)}, CatchUp: -1},
		"pauses":         {Ports: []PortParams{port(host, good), port(host, good)}, Pauses: newPauses(t, 1)},
		"no such device": {Ports: []PortParams{{Namespace: host, Device: "nowhere", Flows: []Flow{good}}}},
		"no such CPU":    {Ports: []PortParams{port(host, good)}, CPU: 4000},
	}
	for name, p := range bad {
		if g, err := Start(p); err == nil {
			t.Errorf("%s: no error", name)
			g.Stop()
		}
	}
}
