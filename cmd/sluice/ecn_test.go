package main

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// ecnConfiguration has early detection with a sharp threshold: the first eight frames of a queue,
// of a cell each, are left alone; every further one is marked, or dropped if it can't be marked and
// its class is lossy. At 1 Mbit/s a pause lasts half a minute.
const ecnConfiguration = `
memory: {buffers: 4096, buffer_size: 2048B}
classes:
  - {cos: [3], lossless: true, share: 1MB, headroom: 1MB,
      wred: {min: 14336B, max: 16384B, probability: 100%}, ecn: true}
  - {cos: [0], wred: {min: 14336B, max: 16384B, probability: 100%}, ecn: true}
pfc: {asymmetric: true} # the host behind port2 pauses the lossy class too
watchdog: {action: off}
ports:
  - {device: port1, speed: 1M, mtu: 128, in_flight: 2KB, vlans: [100], pvid: 100}
  - {device: port2, speed: 1M, mtu: 128, in_flight: 2KB, vlans: [100], pvid: 100}
`

const (
	ecnUnmarked  = 8  // frames in the queue before early detection starts
	ecnOfEach    = 10 // frames of each kind after these
	ecnCongested = 3  // CE codepoint (RFC 3168)
)

// ecnFrame is a frame with an IP header that the test builds without the project's code.
type ecnFrame struct {
	cos    byte
	tagged bool // if false, cos is 0
	six    bool // IPv6
	ecn    byte // codepoint: 0 not ECT, 1 and 2 ECT, 3 CE
}

// bytes returns the frame with its number and random contents.
func (f ecnFrame) bytes(random *rand.Rand, number int) []byte {
	b := slices.Concat(receiverMAC, senderMAC)
	if f.tagged {
		b = append(b, 0x81, 0, f.cos<<5, 100)
	}
	class := byte(random.UintN(64))<<2 | f.ecn // DSCP above ECN
	payload := make([]byte, 40)
	for i := range payload {
		payload[i] = byte(random.Uint32())
	}
	if f.six { // RFC 8200: traffic class between version and flow label, length, next header, hop limit, addresses
		b = append(b, 0x86, 0xdd, 0x60|class>>4, class<<4|byte(random.UintN(16)), byte(number>>8), byte(number))
		b = append(b, 0, byte(len(payload)), experiment, 64)
		return slices.Concat(b, payload[:32], payload)
	}
	header := make([]byte, 20) // RFC 791
	header[0], header[1], header[3], header[8], header[9] = 0x45, class, byte(20+len(payload)), 64, experiment
	binary.BigEndian.PutUint16(header[4:], uint16(number))
	copy(header[12:], payload[:8]) // addresses
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return slices.Concat(b, []byte{8, 0}, header, payload)
}

// experiment is an IP protocol number for experiments (RFC 3692), which tshark does not decode.
const experiment = 253

// checksum returns the checksum of an IPv4 header (RFC 1071) whose checksum field is 0.
func checksum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// marked returns the frame with the CE mark and a new checksum.
func (f ecnFrame) marked(b []byte) []byte {
	b = slices.Clone(b)
	ip := b[14:]
	if f.tagged {
		ip = b[18:]
	}
	if f.six {
		ip[1] |= ecnCongested << 4
		return b
	}
	ip[1] |= ecnCongested
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], checksum(ip[:20]))
	return b
}

// ecnTraffic returns the frames to send for a class, first those that find a short queue and then
// some of every kind; the frames that should arrive; and the number that should be dropped.
func ecnTraffic(random *rand.Rand, cos byte) (sent, want [][]byte, dropped uint64) {
	for range ecnUnmarked {
		sent = append(sent, ecnFrame{cos: cos, tagged: true, ecn: byte(1 + len(sent)%2)}.bytes(random, len(sent)))
	}
	want = slices.Clone(sent)
	for kind := range 16 {
		f := ecnFrame{cos: cos, ecn: byte(kind & 3), six: kind&4 != 0, tagged: kind&8 != 0 || cos != 0}
		for range ecnOfEach {
			b := f.bytes(random, len(sent))
			sent = append(sent, b)
			switch {
			case f.ecn != 0:
				want = append(want, f.marked(b))
			case cos == lossless:
				want = append(want, b)
			default:
				dropped++
			}
		}
	}
	return sent, want, dropped
}

// pauseBoth returns a PFC frame that pauses both classes.
func pauseBoth(quanta uint16) []byte {
	f := pauseFrame(quanta)
	f[17] |= 1 << lossy
	binary.BigEndian.PutUint16(f[18+2*lossy:], quanta)
	return f
}

// TestCongestionIsMarked pauses the queues of both classes until they exceed the threshold. Frames
// beyond it must arrive marked, otherwise unchanged and with a checksum that tshark accepts. Frames
// that can't be marked are dropped and reported in the lossy class, and arrive unchanged in the
// lossless one.
func TestCongestionIsMarked(t *testing.T) {
	_, p, one, two := newPlainPair(t, ecnConfiguration)
	random := rand.New(rand.NewPCG(7, 8))
	two.send(pauseBoth(0xffff), greeting(senderMAC, receiverMAC))
	one.awaitReceived(1) // so the switch has processed everything before it
	lossySent, lossyWant, dropped := ecnTraffic(random, lossy)
	losslessSent, losslessWant, _ := ecnTraffic(random, lossless)
	one.send(lossySent...)
	one.send(losslessSent...)
	one.send(greeting(receiverMAC, senderMAC))
	two.awaitReceived(1) // the greeting, so the switch has processed everything before it
	two.send(pauseBoth(0))
	two.awaitReceived(1 + uint64(len(lossyWant)+len(losslessWant)))
	two.awaitQuiet()
	r := p.Stop()
	endCaptures(two)

	for cos, want := range map[string][][]byte{"0": lossyWant, "3": losslessWant} {
		filter := "vlan.priority == " + cos + " && (ip || ipv6)"
		if cos == "0" {
			filter += " || !vlan && (ip || ipv6)"
		}
		expectFrames(t, "class "+cos, two.frames(filter), want, 0)
	}
	if _, _, drops := r.Class(lossy); len(drops) != 1 || drops["early"] != dropped || r.Drops(lossless) != 0 {
		t.Errorf("dropped %v, and %d of the lossless class; want %d early", drops, r.Drops(lossless), dropped)
	}
	two.checkMarks(t, len(lossyWant)+len(losslessWant))
}

// checkMarks checks that this many IP frames arrived, with the expected codepoints and correct
// checksums according to tshark.
func (h *plainHost) checkMarks(t *testing.T, frames int) {
	t.Helper()
	seen := map[string]int{} // by version, codepoint and checksum status
	out := h.Tshark("ip || ipv6", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "separator=,",
		"-e", "ip.version", "-e", "ip.dsfield.ecn", "-e", "ip.checksum.status", "-e", "ipv6.tclass.ecn")
	for line := range strings.Lines(string(out)) {
		seen[strings.TrimSpace(line)]++
		frames--
	}
	// Unmarked are the first frames of both classes, half of them with either ECT codepoint, and in
	// the lossless class also the frames that can't be marked. The other three codepoints are
	// marked in both classes, with or without a VLAN tag.
	const each, good = ecnOfEach, "1"
	want := map[string]int{
		"4,1," + good + ",": ecnUnmarked, "4,2," + good + ",": ecnUnmarked,
		"4,0," + good + ",": 2 * each, "4,3," + good + ",": 12 * each,
		"6,,,0": 2 * each, "6,,,3": 12 * each,
	}
	t.Logf("version, codepoint, checksum good: %v", seen)
	for kind, n := range want {
		if seen[kind] != n {
			t.Errorf("%d frames of %q, want %d", seen[kind], kind, n)
		}
	}
	if frames != 0 || len(seen) != len(want) {
		t.Errorf("%v, %d frames too few", seen, frames)
	}
}
