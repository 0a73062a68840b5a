package main

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/bench/testkit/program"
)

// pauseConfiguration uses PAUSE instead of PFC. At 10M a PAUSE of 65535 quanta lasts more than 3 s.
const pauseConfiguration = `
classes:
  - {cos: [3], lossless: true, reserved: 0B, share: 32KiB, xon: 8KiB, headroom: 3MB}
pfc: {quanta: 60000, refresh: 58000}
ports:
  - {device: port1, speed: 10M, in_flight: 16KB, vlans: [100], pvid: 100, flow_control: pause}
  - {device: port2, speed: 10M, in_flight: 16KB, vlans: [100], pvid: 100, flow_control: pause}
`

// TestPlainHostsAndPAUSE checks that a host that sends PAUSE receives nothing of any priority until
// it resumes, and that the switch, once congested, pauses the other host. tshark must find the
// switch's frames well-formed (IEEE 802.3 annex 31B).
func TestPlainHostsAndPAUSE(t *testing.T) {
	s, p, one, two := newPlainPair(t, pauseConfiguration)
	const frames = 30 // per priority: more than the share of 16 buffers, less than share and headroom
	hello := slices.Concat(senderMAC, receiverMAC, []byte{0x81, 0, 7 << 5, 100, 0x88, 0xb5}, make([]byte, 42))
	two.send(hello, pauseOfAll(0xffff))
	one.awaitReceived(1)
	two.send(hello) // the switch reads it after the PAUSE
	one.awaitReceived(2)
	random := rand.New(rand.NewPCG(5, 6))
	lossless, lossy := testFrames(random, frames, 3), testFrames(random, frames, 0)
	one.send(lossless...)
	one.send(lossy...)
	one.awaitReceived(3) // the switch's PAUSE
	before := two.received()
	two.send(pauseOfAll(0))
	two.awaitReceived(before + 2*frames)
	one.awaitReceived(4)
	two.awaitQuiet()
	r := p.Stop()
	endCaptures(one, two)

	if before != 0 {
		t.Errorf("%d frames arrived during the pause", before)
	}
	expectFrames(t, "lossless", two.frames("vlan.priority == 3"), lossless, 0)
	expectFrames(t, "lossy", two.frames("vlan.priority == 0"), lossy, 0)
	rows := one.Decode("macc", "macc.opcode", "macc.pause_time", "eth.dst", "eth.src", "frame.len",
		"_ws.expert.message")
	from := program.AddressIn(t, s.Home, "port1")
	for i, quanta := range []string{"60000", "0"} {
		want := []string{"0x0001", quanta, "01:80:c2:00:00:01", from, "60", ""}
		if i >= len(rows) || !slices.Equal(rows[i], want) {
			t.Errorf("control frame %d: %q, want %q", i, rows, want)
		}
	}
	if port := r.Port(t, "port2"); port.PFC.Received != 2 || r.LosslessDrops != 0 {
		t.Errorf("the switch heard %d control frames, want 2; %d lossless drops", port.PFC.Received, r.LosslessDrops)
	}
}

// pauseOfAll returns a PAUSE frame (IEEE 802.3 annex 31B), built without the project's code.
func pauseOfAll(quanta uint16) []byte {
	f := make([]byte, 60)
	copy(f, slices.Concat([]byte{1, 0x80, 0xc2, 0, 0, 1}, receiverMAC, []byte{0x88, 8, 0, 1}))
	binary.BigEndian.PutUint16(f[16:], quanta)
	return f
}
