package traffic

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"

	"sluice/bench/traffic/line"
	"sluice/pfc"
	"sluice/pmd"
)

func testUDP() *UDP {
	return &UDP{Src: netip.MustParseAddrPort("10.254.0.0:65530"), Dst: netip.MustParseAddrPort("10.253.0.250:1001")}
}

// TestStreamsAndSizes: streams alternate and have their own sequence numbers; sizes rotate over all
// frames; nothing is lost and the counters add up, even if the port takes fewer frames than
// offered.
func TestStreamsAndSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Flow{ID: 5, Dst: macB, PCP: 3, Streams: rapid.IntRange(0, 9).Draw(t, "streams"),
			Sizes: rapid.SliceOfN(rapid.OneOf(rapid.IntRange(MinUDPSize, 1514), rapid.IntRange(testBuffer-1, MaxSize)),
				1, 12).Draw(t, "sizes"),
			Count: rapid.Uint64Range(1, 100).Draw(t, "count")}
		if rapid.Bool().Draw(t, "udp") {
			f.UDP = testUDP()
		}
		r := newRig(t, Params{Speed: 10 * gigabit, Flows: []Flow{f}, Burst: rapid.IntRange(1, 70).Draw(t, "burst")},
			Params{Speed: 10 * gigabit})
		room := rapid.IntRange(0, 20)
		r.portA.room = func() int { return room.Draw(t, "room") }
		r.portB.part = rapid.IntRange(MaxSize/pmd.MaxParts+1, testBuffer-256).Draw(t, "part")
		var lengths []int
		r.tap = func(b []byte) { lengths = append(lengths, len(b)) }
		r.run(20_000, 1000)
		r.portA.room = nil
		r.run(1_000_000, 1000)
		if !r.a.Finished() || uint64(len(lengths)) != f.Count {
			t.Fatalf("%d frames, not %d", len(lengths), f.Count)
		}
		for i, n := range lengths {
			if n != f.Sizes[i%len(f.Sizes)] {
				t.Fatalf("frame %d has %d bytes, sizes are %v", i, n, f.Sizes)
			}
		}
		r.settle()
		checkPaired(t, r)
	})
}

// checkPaired checks that B received exactly what A sent, flow by flow.
func checkPaired(t rapid.TB, r *rig) {
	t.Helper()
	frames := uint64(0)
	for _, s := range r.a.Stats(r.now).Sent {
		frames += s.Frames
		if s.Frames == 0 {
			continue
		}
		if got := r.received(s.ID); got.Frames != s.Frames || got.Bytes != s.Bytes ||
			got.Missing+got.Reordered+got.Duplicates != 0 {
			t.Fatalf("sent %+v, received %+v", s, got)
		}
	}
	a, b := r.a.Stats(r.now).Port, r.b.Stats(r.now).Port
	if a.TXPackets != frames || b.RXPackets != frames || a.TXBytes != b.RXBytes {
		t.Fatalf("sent %d frames; %+v and %+v", frames, a, b)
	}
}

// TestDatagrams compares UDP test frames with those that gopacket builds.
func TestDatagrams(t *testing.T) {
	for _, pcp := range []uint8{0, 5} {
		r := newRig(t,
			Params{Speed: gigabit,
				Flows: []Flow{{ID: 1, Dst: macB, PCP: pcp, Size: MinUDPSize, UDP: testUDP(), Streams: 300,
					Count: 600}}},
			Params{Speed: gigabit, FlowIDs: 400})
		n := 0
		r.tap = func(b []byte) {
			p := parsed(b)
			udp, ip := p.TransportLayer().(*layers.UDP), p.NetworkLayer().(*layers.IPv4)
			src, dst := netip.AddrFrom4([4]byte(ip.SrcIP)), netip.AddrFrom4([4]byte(ip.DstIP))
			stream := n % 300
			want := netip.AddrFrom4([4]byte{10, 253, byte((250 + stream) >> 8), byte(250 + stream)})
			if src != netip.MustParseAddr("10.254.0.0") || dst != want || uint16(udp.SrcPort) != uint16(65530+stream) ||
				udp.DstPort != 1001 {
				t.Fatalf("frame %d goes from %v:%v to %v:%v", n, src, udp.SrcPort, dst, udp.DstPort)
			}
			tag, tagged := p.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q)
			tagBytes := 0
			if tagged {
				tagBytes = len(tag.LayerContents())
			}
			if tagged != (pcp != 0) || tagged && tag.Priority != pcp {
				t.Fatalf("tag %+v", tag)
			}
			if int(ip.Length) != len(b)-len(p.LinkLayer().LayerContents())-tagBytes ||
				len(udp.Payload) != int(udp.Length)-8 || !checksumsRight(t, b) {
				t.Fatalf("frame %d: lengths %d and %d of %d bytes, or checksums", n, ip.Length, udp.Length, len(b))
			}
			n++
		}
		r.run(2_000_000, 10_000)
		r.settle()
		if n != 600 {
			t.Fatalf("%d frames", n)
		}
		checkPaired(t, r)
	}
}

// TestDamagedDatagrams: a test frame with a wrong IP checksum counts as corrupt; other datagrams
// count as other frames.
func TestDamagedDatagrams(t *testing.T) {
	good := make([]byte, 100)
	h := newHeader(&Flow{Dst: macB, UDP: testUDP()}, macA)
	line.Stamp{Flow: 1}.Put(good[h.put(good, 0):])
	at := h.length
	for name, c := range map[string]struct {
		spoil   func(b []byte)
		counter func(*sink) uint64
	}{
		"good":             {func([]byte) {}, func(k *sink) uint64 { return k.flows[1].Frames }},
		"time to live":     {func(b []byte) { b[22]-- }, func(k *sink) uint64 { return k.corrupt }},
		"body":             {func(b []byte) { b[99]++ }, func(k *sink) uint64 { return k.corrupt }},
		"another datagram": {func(b []byte) { b[at]++ }, func(k *sink) uint64 { return k.others }},
		"length":           {func(b []byte) { b[at-3] = 200 }, func(k *sink) uint64 { return k.others }},
		"for another":      {func(b []byte) { b[5]++ }, func(k *sink) uint64 { return k.strangers }},
	} {
		b := append([]byte(nil), good...)
		c.spoil(b)
		k := newSink(macB, 3)
		var f pfc.Frame
		if k.receive(5, b, &f) != sunk || c.counter(&k) != 1 || total(&k) != 1 {
			t.Errorf("%s: counted elsewhere", name)
		}
	}
}

func TestInjectionOnceAndAgain(t *testing.T) {
	for _, c := range []struct {
		interval int64
		least    uint64
		most     uint64
	}{{0, 1, 1}, {10_000, 99, 101}} {
		f := pfc.Frame{Enable: 8, Quanta: [8]uint16{3: 0xffff}}
		r := newRig(t, Params{Speed: gigabit, Injection: Injection{Frame: f, Interval: c.interval}},
			Params{Speed: gigabit, Priorities: 8, Flows: []Flow{{ID: 1, Dst: macA, PCP: 3, Size: 100}}})
		r.run(1_000_000, 1000)
		s := r.a.Stats(r.now)
		if s.Injected < c.least || s.Injected > c.most || r.b.Stats(r.now).PFC.Frames != s.Injected {
			t.Errorf("interval %d: %d frames injected, %d received", c.interval, s.Injected,
				r.b.Stats(r.now).PFC.Frames)
		}
		if paused := r.b.Stats(r.now).PFC.PausedNS[3]; paused < 990_000 {
			t.Errorf("interval %d: paused for %d ns", c.interval, paused)
		}
		r.a.Stop()
		r.run(100_000, 1000)
		if after := r.a.Stats(r.now).Injected; after > s.Injected+1 {
			t.Errorf("%d frames injected after Stop", after-s.Injected)
		}
	}
}

// TestStormBeyondTheLine: a pause storm beyond line rate gets line rate and no more.
func TestStormBeyondTheLine(t *testing.T) {
	r := newRig(t, Params{Speed: gigabit, Injection: Injection{Frame: pfc.Frame{Enable: 1}, Interval: 1},
		Flows: []Flow{{ID: 1, Dst: macB, Size: 60}}}, Params{Speed: gigabit})
	r.run(1_000_000, 100)
	if n := r.a.Stats(r.now).Injected; n < 1400 || n > 1490 { // 672 ns each
		t.Errorf("%d frames injected in 1 ms", n)
	}
}

func TestFlowsThatAreRefused(t *testing.T) {
	for name, f := range map[string]Flow{
		"size 85 must be 86": {Size: 85, UDP: testUDP()},
		"size 59 must be 60": {Sizes: []int{60, 59}},
		"need two IPv4 addresses": {Size: 100, UDP: &UDP{Src: netip.MustParseAddrPort("[::1]:1"),
			Dst: netip.MustParseAddrPort("1.2.3.4:1")}},
		"-1 streams": {Size: 100, Streams: -1},
	} {
		if err := f.validate(2048, 64_000); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error that says %q", err, name)
		}
	}
	port := newFakePort()
	for want, p := range map[string]Params{
		"1 to 512":        {Burst: 513},
		"not be negative": {Injection: Injection{Interval: -1}},
	} {
		p.Port, p.Memory, p.BufferSize, p.Buffers, p.MAC, p.Speed = port, port.memory, testBuffer, testBuffers, macA,
			gigabit
		if _, err := New(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error that says %q", err, want)
		}
	}
}
