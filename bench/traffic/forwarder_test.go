package traffic

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pmd"
	"sluice/pmd/mem"
)

const (
	benchMAC0 = frame.MAC(0x0200_0000_00a0)
	benchMAC1 = frame.MAC(0x0200_0000_00a1)
)

// table is a forwarder with an in-memory wire at each port. The test sends and receives at the far
// ends.
type table struct {
	t         rapid.TB
	now       int64
	forwarder *Forwarder
	wires     []*mem.Wire
	far       []far
}

// far is the other end of a wire.
type far struct {
	port   *mem.Port
	memory []byte
	next   uint64   // buffer to send from
	got    [][]byte // frames received
}

// drawParts draws how many bytes of a frame arrive in one buffer; 0: a whole frame.
func drawParts(t *rapid.T) int { return rapid.SampledFrom([]int{0, 60, 111, 1000}).Draw(t, "part") }

func newTable(t rapid.TB, ports, part int, p ForwarderParams) *table {
	t.Helper()
	x := &table{t: t, now: 1_000_000}
	p.BufferSize, p.Buffers = testBuffer, testBuffers*ports
	p.Memory = make([]byte, p.BufferSize*p.Buffers)
	for i := range ports {
		memory := make([]byte, testBuffer*testBuffers)
		w, err := mem.NewWire(mem.Params{Rate: 100 * gigabit, MTU: 900, Ring: testBuffers / 2, Part: part},
			mem.End{Memory: p.Memory, Buffer: testBuffer}, mem.End{Memory: memory, Buffer: testBuffer})
		if err != nil {
			t.Fatal(err)
		}
		for b := range uint64(testBuffers / 2) {
			w.B.Fill([]uint64{b * testBuffer})
		}
		x.wires = append(x.wires, w)
		x.far = append(x.far, far{port: w.B, memory: memory, next: testBuffers / 2})
		p.Ports = append(p.Ports, Station{Port: w.A, MAC: benchMAC0 + frame.MAC(i)})
	}
	f, err := NewForwarder(p)
	if err != nil {
		t.Fatal(err)
	}
	x.forwarder = f
	return x
}

// send sends a frame to a port at the next step.
func (x *table) send(port int, b []byte) {
	x.t.Helper()
	f := &x.far[port]
	addr := f.next * testBuffer
	if f.next++; f.next == testBuffers {
		f.next = testBuffers / 2
	}
	copy(f.memory[addr:], b)
	if f.port.Transmit([]pmd.Desc{{Addr: addr, Len: uint32(len(b))}}) != 1 {
		x.t.Fatal("the wire takes no more")
	}
	f.port.Complete(make([]uint64, 1))
}

// step steps the forwarder and advances time by a microsecond.
func (x *table) step() {
	x.forwarder.Step(x.now)
	x.now += 1000
	for i, w := range x.wires {
		w.Advance(x.now)
		f := &x.far[i]
		var burst [testBuffers]pmd.Desc
		bytes := line.NewWhole(f.memory)
		for rest := burst[:f.port.Receive(burst[:])]; len(rest) > 0; {
			parts := rest[:line.Parts(rest)]
			rest = rest[len(parts):]
			f.got = append(f.got, slices.Clone(bytes.Frame(parts)))
			for _, d := range parts {
				f.port.Fill([]uint64{d.Addr})
			}
		}
	}
}

func (x *table) run(steps int) {
	for range steps {
		x.step()
	}
}

// exchange sends a frame to a port and returns the frame that another port sends.
func (x *table) exchange(in, out int, b []byte) []byte {
	x.t.Helper()
	before := len(x.far[out].got)
	x.send(in, b)
	x.run(4)
	if got := x.far[out].got[before:]; len(got) == 1 {
		return got[0]
	}
	x.t.Fatalf("%d frames came out, not 1", len(x.far[out].got)-before)
	return nil
}

// conserved checks that at rest every buffer is free, in a fill ring, or held by the mode.
func (x *table) conserved(held int) {
	x.t.Helper()
	x.run(20)
	total := len(x.forwarder.free) + held
	seen := map[uint64]bool{}
	for i := range x.forwarder.ports {
		total += x.forwarder.ports[i].inFill
	}
	for _, addr := range x.forwarder.free {
		if seen[addr] || addr%testBuffer != 0 {
			x.t.Fatalf("buffer %#x is free twice, or is none", addr)
		}
		seen[addr] = true
	}
	if total != cap(x.forwarder.free) {
		x.t.Fatalf("%d buffers of %d", total, cap(x.forwarder.free))
	}
}

// serialize returns a frame with correct lengths and checksums.
func serialize(t rapid.TB, l ...gopacket.SerializableLayer) []byte {
	t.Helper()
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		l...); err != nil {
		t.Fatal(err)
	}
	out := slices.Clone(b.Bytes())
	if len(out) < MinSize {
		out = append(out, make([]byte, MinSize-len(out))...)
	}
	return out
}

// experimental is an unassigned protocol (RFC 3692, 2.1).
const experimental = layers.IPProtocol(253)

// drawn is a random frame.
type drawn struct {
	bytes     []byte
	transport bool // has UDP or TCP
}

// drawFrame draws a frame with zero to two tags, with IPv4 with options, IPv6 or neither, and with
// UDP, TCP or neither.
func drawFrame(t *rapid.T) (d drawn) {
	mac := func(name string) net.HardwareAddr { return rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, name) }
	e := &layers.Ethernet{SrcMAC: mac("src"), DstMAC: mac("dst")}
	stack := []gopacket.SerializableLayer{e}
	kind := &e.EthernetType
	for range rapid.IntRange(0, 2).Draw(t, "tags") {
		*kind = layers.EthernetTypeDot1Q
		tag := &layers.Dot1Q{VLANIdentifier: rapid.Uint16Range(0, 4094).Draw(t, "vlan"),
			Priority: rapid.Uint8Range(0, 7).Draw(t, "pcp")}
		stack, kind = append(stack, tag), &tag.Type
	}
	payload := gopacket.Payload(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"))
	protocol := rapid.SampledFrom([]layers.IPProtocol{layers.IPProtocolUDP, layers.IPProtocolTCP, experimental}).Draw(t,
		"protocol")
	var ip interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	}
	switch rapid.IntRange(0, 2).Draw(t, "version") {
	case 0:
		*kind = line.TestType
		d.bytes = serialize(t, append(stack, payload)...)
		return d
	case 1:
		*kind = layers.EthernetTypeIPv4
		v4 := &layers.IPv4{Version: 4, TTL: 64, Protocol: protocol,
			SrcIP: rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "srcIP"),
			DstIP: rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "dstIP")}
		if rapid.Bool().Draw(t, "options") {
			v4.Options = []layers.IPv4Option{{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 0}}}
		}
		ip = v4
	default:
		*kind = layers.EthernetTypeIPv6
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol,
			SrcIP: rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "srcIP"),
			DstIP: rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "dstIP")}
	}
	stack = append(stack, ip)
	src, dst := rapid.Uint16().Draw(t, "srcPort"), rapid.Uint16().Draw(t, "dstPort")
	switch protocol {
	case layers.IPProtocolUDP:
		udp := &layers.UDP{SrcPort: layers.UDPPort(src), DstPort: layers.UDPPort(dst)}
		_ = udp.SetNetworkLayerForChecksum(ip)
		d.transport, stack = true, append(stack, udp)
	case layers.IPProtocolTCP:
		tcp := &layers.TCP{SrcPort: layers.TCPPort(src), DstPort: layers.TCPPort(dst), Seq: 7}
		_ = tcp.SetNetworkLayerForChecksum(ip)
		d.transport, stack = true, append(stack, tcp)
	}
	d.bytes = serialize(t, append(stack, payload)...)
	return d
}

// parsed parses a frame with gopacket.
func parsed(b []byte) gopacket.Packet {
	p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
	if udp, ok := p.TransportLayer().(*layers.UDP); ok {
		_ = udp.SetNetworkLayerForChecksum(p.NetworkLayer())
	}
	if tcp, ok := p.TransportLayer().(*layers.TCP); ok {
		_ = tcp.SetNetworkLayerForChecksum(p.NetworkLayer())
	}
	return p
}

// checksumsRight reports whether gopacket accepts the checksums of IPv4, UDP and TCP.
func checksumsRight(t rapid.TB, b []byte) bool {
	t.Helper()
	p := parsed(b)
	err, mismatches := p.VerifyChecksums()
	if err != nil {
		t.Fatal(err)
	}
	return len(mismatches) == 0
}

func TestModeIO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newTable(t, 2, drawParts(t), ForwarderParams{Mode: "io"})
		b := drawFrame(t).bytes
		if !bytes.Equal(x.exchange(0, 1, b), b) || !bytes.Equal(x.exchange(1, 0, b), b) {
			t.Fatal("the frame was changed")
		}
		x.conserved(0)
	})
}

func TestSinglePortSendsBack(t *testing.T) {
	x := newTable(t, 1, 0, ForwarderParams{Mode: "io"})
	b := testFrame(macB, 1, 0, 100, true)
	if !bytes.Equal(x.exchange(0, 0, b), b) {
		t.Fatal("the frame was changed")
	}
}

func TestModeMAC(t *testing.T) {
	x := newTable(t, 4, 0, ForwarderParams{Mode: "mac"})
	for in, out := range []int{1, 0, 3, 2} {
		b := testFrame(macB, 1, 0, 100, true)
		got := x.exchange(in, out, b)
		want := slices.Concat(bytesOf(DefaultPeer(out)), bytesOf(benchMAC0+frame.MAC(out)), b[12:])
		if !bytes.Equal(got, want) {
			t.Errorf("from port %d to %d: % x", in, out, got[:14])
		}
	}
}

func bytesOf(m frame.MAC) []byte { b := m.Bytes(); return b[:] }

// TestSwapsAreInvolutions: swapping twice restores the frame, and one swap agrees with gopacket.
func TestSwapsAreInvolutions(t *testing.T) {
	for _, mode := range []string{"macswap", "5tswap"} {
		rapid.Check(t, func(t *rapid.T) {
			x := newTable(t, 2, drawParts(t), ForwarderParams{Mode: mode})
			d := drawFrame(t)
			once := x.exchange(0, 1, d.bytes)
			if twice := x.exchange(1, 0, once); !bytes.Equal(twice, d.bytes) {
				t.Fatalf("%s twice:\n% x\nbefore:\n% x", mode, twice, d.bytes)
			}
			p, was := parsed(once), parsed(d.bytes)
			if p.LinkLayer().LinkFlow() != was.LinkLayer().LinkFlow().Reverse() {
				t.Fatalf("%s: %v, was %v", mode, p.LinkLayer().LinkFlow(), was.LinkLayer().LinkFlow())
			}
			if mode == "macswap" {
				if !bytes.Equal(once[12:], d.bytes[12:]) {
					t.Fatal("macswap changed more than addresses")
				}
				return
			}
			if n := was.NetworkLayer(); n != nil && p.NetworkLayer().NetworkFlow() != n.NetworkFlow().Reverse() {
				t.Fatalf("%v, was %v", p.NetworkLayer().NetworkFlow(), n.NetworkFlow())
			}
			if d.transport && p.TransportLayer().TransportFlow() != was.TransportLayer().TransportFlow().Reverse() {
				t.Fatalf("%v, was %v", p.TransportLayer().TransportFlow(), was.TransportLayer().TransportFlow())
			}
			if !checksumsRight(t, once) {
				t.Fatal("checksums are wrong after a swap")
			}
		})
	}
}

// TestModeChecksum: csum corrects and counts wrong checksums, and changes nothing else behind the
// addresses.
func TestModeChecksum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newTable(t, 2, drawParts(t), ForwarderParams{Mode: "csum"})
		d := drawFrame(t)
		spoilt := slices.Clone(d.bytes)
		p := parsePacket(spoilt)
		var want Counters
		if p.version == 4 && rapid.Bool().Draw(t, "spoil IP") {
			spoilt[p.ip+10] ^= 0x55
			want.BadIPChecksums = 1
		}
		if d.transport && rapid.Bool().Draw(t, "spoil transport") {
			at := p.transport + map[uint8]int{protocolUDP: 6, protocolTCP: 16}[p.protocol]
			old := binary.BigEndian.Uint16(spoilt[at:])
			if old != 0x5500 { // UDP: 0 would mean no checksum
				spoilt[at] ^= 0x55
				want.BadTransportChecksums = 1
			}
		}
		got := x.exchange(0, 1, spoilt)
		if !bytes.Equal(got[12:], d.bytes[12:]) {
			t.Fatalf("\n% x, not\n% x", got[12:], d.bytes[12:])
		}
		if !bytes.Equal(got[:12], slices.Concat(bytesOf(DefaultPeer(1)), bytesOf(benchMAC1))) {
			t.Fatalf("addresses % x", got[:12])
		}
		c := x.forwarder.Counters()[0]
		if c.BadIPChecksums != want.BadIPChecksums || c.BadTransportChecksums != want.BadTransportChecksums {
			t.Fatalf("%+v, want %+v", c, want)
		}
	})
}

// TestModeChecksumLeavesAlone: csum adds no checksum to UDP without one, and touches only the IP
// checksum of fragments.
func TestModeChecksumLeavesAlone(t *testing.T) {
	udp := &layers.UDP{SrcPort: 1, DstPort: 2}
	ip := &layers.IPv4{Version: 4, TTL: 1, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{1, 2, 3, 4},
		DstIP: net.IP{5, 6, 7, 8}}
	_ = udp.SetNetworkLayerForChecksum(ip)
	e := &layers.Ethernet{SrcMAC: bytesOf(macA), DstMAC: bytesOf(macB), EthernetType: layers.EthernetTypeIPv4}
	none := serialize(t, e, ip, udp, gopacket.Payload("payload"))
	none[14+20+6], none[14+20+7] = 0, 0
	ip.Flags = layers.IPv4MoreFragments
	fragment := serialize(t, e, ip, udp, gopacket.Payload("payload"))
	fragment[14+20+6] ^= 1
	for name, b := range map[string][]byte{"no checksum": none, "fragment": fragment} {
		x := newTable(t, 2, 0, ForwarderParams{Mode: "csum"})
		if got := x.exchange(0, 1, b); !bytes.Equal(got[12:], b[12:]) {
			t.Errorf("%s: was changed", name)
		}
		x = newTable(t, 2, 0, ForwarderParams{Mode: "5tswap"})
		if got := x.exchange(0, 1, b); name == "fragment" && !bytes.Equal(got[34:], b[34:]) {
			t.Errorf("%s: what is no port was swapped", name)
		}
	}
}

func TestEchoAnswersARP(t *testing.T) {
	for _, tag := range []bool{false, true} {
		e := &layers.Ethernet{SrcMAC: bytesOf(macA), DstMAC: bytesOf(frame.Broadcast),
			EthernetType: layers.EthernetTypeARP}
		stack := []gopacket.SerializableLayer{e}
		if tag {
			e.EthernetType = layers.EthernetTypeDot1Q
			stack = append(stack, &layers.Dot1Q{VLANIdentifier: 100, Priority: 3, Type: layers.EthernetTypeARP})
		}
		request := &layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6,
			ProtAddressSize: 4,
			Operation:       layers.ARPRequest, SourceHwAddress: bytesOf(macA), SourceProtAddress: []byte{10, 0, 0, 1},
			DstHwAddress: make([]byte, 6), DstProtAddress: []byte{10, 0, 0, 2}}
		x := newTable(t, 2, 60, ForwarderParams{Mode: "icmpecho"})
		p := parsed(x.exchange(1, 1, serialize(t, append(stack, request)...)))
		got, _ := p.Layer(layers.LayerTypeARP).(*layers.ARP)
		if got == nil || got.Operation != layers.ARPReply || !bytes.Equal(got.SourceHwAddress, bytesOf(benchMAC1)) ||
			!bytes.Equal(got.SourceProtAddress, request.DstProtAddress) ||
			!bytes.Equal(got.DstHwAddress, bytesOf(macA)) ||
			!bytes.Equal(got.DstProtAddress, request.SourceProtAddress) {
			t.Errorf("answer %+v", got)
		}
		eth := p.LinkLayer().(*layers.Ethernet)
		if !bytes.Equal(eth.SrcMAC, bytesOf(benchMAC1)) || !bytes.Equal(eth.DstMAC, bytesOf(macA)) ||
			(p.Layer(layers.LayerTypeDot1Q) != nil) != tag {
			t.Errorf("answer in %+v", eth)
		}
	}
}

func TestEchoAnswersPing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dst := rapid.SampledFrom([]frame.MAC{benchMAC0, frame.Broadcast}).Draw(t, "dst")
		e := &layers.Ethernet{SrcMAC: bytesOf(macA), DstMAC: bytesOf(dst), EthernetType: layers.EthernetTypeIPv4}
		ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolICMPv4, SrcIP: net.IP{10, 0, 0, 1},
			DstIP: net.IP{10, 0, 0, 2}}
		icmp := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoRequest, 0),
			Id: rapid.Uint16().Draw(t, "id"), Seq: rapid.Uint16().Draw(t, "seq")}
		payload := gopacket.Payload(rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "payload"))
		request := serialize(t, e, ip, icmp, payload)
		x := newTable(t, 1, drawParts(t), ForwarderParams{Mode: "icmpecho"})

		e.SrcMAC, e.DstMAC = bytesOf(benchMAC0), bytesOf(macA)
		ip.SrcIP, ip.DstIP = ip.DstIP, ip.SrcIP
		icmp.TypeCode = layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoReply, 0)
		want := serialize(t, e, ip, icmp, payload)
		// Both forms of zero are the same sum (RFC 1624).
		got := x.exchange(0, 0, request)
		if !checksumsRight(t, got) {
			t.Fatal("checksums of the answer are wrong")
		}
		copy(got[36:38], want[36:38])
		if !bytes.Equal(got, want) {
			t.Fatalf("\n% x, want\n% x", got, want)
		}
	})
}

func TestEchoDropsWhatIsNoQuestion(t *testing.T) {
	x := newTable(t, 1, 0, ForwarderParams{Mode: "icmpecho"})
	for n := range 10 {
		x.send(0, testFrame(benchMAC0, 1, uint64(n), 100, n%2 == 0))
	}
	x.run(5)
	if c := x.forwarder.Counters()[0]; len(x.far[0].got) != 0 || c.RXPackets != 10 || c.Unanswered != 10 ||
		c.TXPackets != 0 {
		t.Errorf("%d frames came back, %+v", len(x.far[0].got), c)
	}
	x.conserved(0)
}

// TestNoisyQueue: the queue of mode noisy keeps the order and holds as many whole frames as it has
// room for, until it is flushed.
func TestNoisyQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue := rapid.IntRange(0, 100).Draw(t, "queue")
		const flush = 500_000
		part, parts := drawParts(t), 1
		if part == 60 {
			parts = 2
		}
		x := newTable(t, 2, part, ForwarderParams{Mode: "noisy", Burst: rapid.IntRange(1, 64).Draw(t, "burst"),
			Noise: Noise{Mode: "macswap", Queue: queue, FlushAfter: flush, Memory: 4096, Reads: 2, Writes: 1,
				ReadWrites: 1}})
		sent := 0
		for range 10 { // not long enough for a flush
			for range rapid.IntRange(0, 10).Draw(t, "frames") {
				x.send(0, testFrame(macB, 1, uint64(sent), 100, false))
				sent++
			}
			x.run(12) // time to receive all, even in bursts of one frame
		}
		if got, want := len(x.far[1].got), max(sent-queue/parts, 0); got != want {
			t.Fatalf("%d of %d frames came out of a queue of %d, not %d", got, sent, queue, want)
		}
		x.conserved(min(sent, queue/parts) * parts)
		x.run(flush/1000 + 150)
		if got := len(x.far[1].got); got != sent {
			t.Fatalf("%d of %d frames came out in the end", got, sent)
		}
		x.conserved(0)
		for n, b := range x.far[1].got {
			if want := testFrame(macB, 1, uint64(n), 100, false); !bytes.Equal(b[12:], want[12:]) ||
				frame.MACFrom(b[6:]) != macB {
				t.Fatalf("frame %d is another one, or its addresses are not swapped", n)
			}
		}
	})
}

func TestNoiseTouchesMemory(t *testing.T) {
	n := newNoisy(lane{burst: 4, noise: Noise{Mode: "io", Memory: 1000, Writes: 100, Reads: 3, ReadWrites: 3}}).(*noisy)
	n.rewrite(0, make([]pmd.Desc, 4))
	touched := 0
	for _, b := range n.memory {
		if b != 0 {
			touched++
		}
	}
	if touched < 250 {
		t.Errorf("%d bytes of 1000 were written by 412 writes", touched)
	}
}

// TestForwarderDropsWhatDoesNotFit: frames that a full TX ring does not take are dropped and
// counted, and their buffers come back.
func TestForwarderDropsWhatDoesNotFit(t *testing.T) {
	in, out := newFakePort(), newFakePort()
	memory := make([]byte, testBuffer*testBuffers)
	in.memory, out.memory = memory, memory
	f, err := NewForwarder(ForwarderParams{Mode: "io", Memory: memory, BufferSize: testBuffer, Buffers: testBuffers,
		Ports: []Station{{Port: in, MAC: benchMAC0}, {Port: out, MAC: benchMAC1}}})
	if err != nil {
		t.Fatal(err)
	}
	f.Step(0)
	for n := range 20 {
		in.deliver(testFrame(macB, 1, uint64(n), 100, false))
	}
	out.room = func() int { return 7 }
	f.Step(1)
	c := f.Counters()
	if c[0].RXPackets != 20 || c[0].RXBytes != 2000 || c[1].TXPackets != 7 || c[1].TXBytes != 700 ||
		c[1].TXDropped != 13 {
		t.Errorf("%+v", c)
	}
	if n := len(f.free) + f.ports[0].inFill + f.ports[1].inFill + len(out.tx); n != testBuffers {
		t.Errorf("%d buffers of %d", n, testBuffers)
	}
}

// completeTwice takes the frames to send from a port and completes each buffer twice, as some
// kernels do.
func completeTwice(p *fakePort) {
	for _, d := range p.tx {
		p.done = append(p.done, d.Addr, d.Addr+1)
	}
	p.tx = p.tx[:0]
}

// freeOnce fails if a buffer is on the free list twice.
func freeOnce(t *testing.T, free []uint64) {
	t.Helper()
	if n := len(free); len(slices.Compact(slices.Sorted(slices.Values(free)))) != n {
		t.Fatalf("of %d free buffers some are the same", n)
	}
}

// TestForwarderTakesBuffersBackOnce: a buffer that is completed twice is taken back once and
// counted.
func TestForwarderTakesBuffersBackOnce(t *testing.T) {
	port := newFakePort()
	f, err := NewForwarder(ForwarderParams{Mode: "io", Memory: port.memory, BufferSize: testBuffer,
		Buffers: testBuffers,
		Ports:   []Station{{Port: port, MAC: benchMAC0}}})
	if err != nil {
		t.Fatal(err)
	}
	f.Step(0)
	for n := range 200 {
		port.deliver(testFrame(macB, 1, uint64(n), 100, false))
		f.Step(1)
		completeTwice(port)
		freeOnce(t, f.free)
	}
	f.Step(2)
	if c := f.Counters()[0]; c.TXPackets != 200 || c.DuplicateCompletions != 200 {
		t.Errorf("%+v", c)
	}
	if n := len(f.free) + f.ports[0].inFill; n != testBuffers {
		t.Errorf("%d buffers of %d", n, testBuffers)
	}
}

func TestNewForwarderRefuses(t *testing.T) {
	good := func() ForwarderParams {
		return ForwarderParams{Mode: "io", Memory: make([]byte, 64*2048), BufferSize: 2048, Buffers: 64,
			Ports: []Station{{Port: newFakePort(), MAC: macA}, {Port: newFakePort(), MAC: macB}}}
	}
	if _, err := NewForwarder(good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*ForwarderParams){
		"one of io, mac, macswap, flowgen, rxonly, txonly, csum, icmpecho, noisy, 5tswap": func(p *ForwarderParams) {
			p.Mode = "swap"
		},
		"does not forward":        func(p *ForwarderParams) { p.Mode = "txonly" },
		"between pairs":           func(p *ForwarderParams) { p.Ports = append(p.Ports, p.Ports[0]) },
		"0 ports":                 func(p *ForwarderParams) { p.Ports = nil },
		"power of two":            func(p *ForwarderParams) { p.BufferSize = 100 },
		"bytes of memory":         func(p *ForwarderParams) { p.First = 1 },
		"must be 1 to 512":        func(p *ForwarderParams) { p.Burst = 513 },
		"too few for 2 ports":     func(p *ForwarderParams) { p.Noise.Queue = 60 },
		"choose io, mac, macswap": func(p *ForwarderParams) { p.Noise.Mode = "csum" },
		"not be negative":         func(p *ForwarderParams) { p.Noise.Reads = -1 },
		"per frame need memory":   func(p *ForwarderParams) { p.Noise.Writes = 1 },
	} {
		p := good()
		spoil(&p)
		if _, err := NewForwarder(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

func TestForwardingAllocatesNothing(t *testing.T) {
	ping := serialize(t, &layers.Ethernet{SrcMAC: bytesOf(macA), DstMAC: bytesOf(benchMAC0),
		EthernetType: layers.EthernetTypeIPv4},
		&layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolICMPv4, SrcIP: net.IP{10, 0, 0, 1},
			DstIP: net.IP{10, 0, 0, 2}},
		&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoRequest, 0)})
	for _, m := range Modes() {
		if !m.Forwards() {
			continue
		}
		in := newFakePort()
		p := ForwarderParams{Mode: m.Name, Memory: in.memory, BufferSize: testBuffer, Buffers: testBuffers,
			Ports: []Station{{Port: in, MAC: benchMAC0}}, Noise: Noise{Queue: 10, Memory: 100, Reads: 1}}
		f, err := NewForwarder(p)
		if err != nil {
			t.Fatal(err)
		}
		now := int64(0)
		mustAllocateNothing(t, func() {
			now += 1000
			in.deliver(ping)
			f.Step(now)
			for _, d := range in.tx {
				in.done = append(in.done, d.Addr)
			}
			in.tx = in.tx[:0]
		})
		if f.Counters()[0].TXPackets < 900 {
			t.Errorf("%s: %+v", m.Name, f.Counters()[0])
		}
	}
}

// FuzzModes: whatever arrives, no mode reads or writes beyond the frame, and the two swaps are
// involutions.
func FuzzModes(f *testing.F) {
	f.Add(testFrame(macB, 1, 0, 60, true))
	f.Add([]byte{1, 2, 3})
	f.Add(append(make([]byte, 12), 0x81, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7,
		8, 0, 1, 0, 2, 0, 8, 9, 9))
	f.Add(append(make([]byte, 12), 0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 6, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range Modes() {
			if m.rewriter == nil {
				continue
			}
			// The frame ends where the memory ends, so an access beyond it panics.
			memory := slices.Clone(b)[:len(b):len(b)]
			r := m.rewriter(lane{memory: memory, src: macA, peer: macB, counters: &Counters{},
				noise: Noise{Mode: "mac"}})
			burst := []pmd.Desc{{Len: uint32(len(b))}}
			send, drop := r.rewrite(0, burst)
			if len(send)+len(drop) != 1 {
				t.Fatalf("%s: %d frames to send, %d to give up", m.Name, len(send), len(drop))
			}
			if m.Name == "macswap" || m.Name == "5tswap" {
				if r.rewrite(0, burst); !bytes.Equal(memory, b) {
					t.Fatalf("%s twice: % x", m.Name, memory)
				}
			}
		}
	})
}
