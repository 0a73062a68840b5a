package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
)

// thresholds are the limits of a lossless class in cells, and the frames sent to it.
type thresholds struct {
	cell, length         int // bytes; length without FCS
	share, headroom, xon int // cells
	mtu, buffer          int // bytes
}

// At 1 Mbit/s a pause of 65535 quanta lasts more than half a minute, so no pause expires or is
// refreshed during a test.
const thresholdsConfiguration = `
memory: {buffers: 4096, buffer_size: %[6]dB, cell: %[1]dB}
classes:
  - {cos: [3], lossless: true, reserved: 0B, share: %[2]dB, xon: %[3]dB, headroom: %[4]dB}
  - {cos: [0, 1, 2, 4, 5, 6, 7], reserved: 0B}
watchdog: {action: off}
ports:
  - {device: port1, speed: 1M, mtu: %[5]d, in_flight: 2KB}
  - {device: port2, speed: 1M, mtu: %[5]d, in_flight: 2KB}
`

func (c thresholds) configuration() string {
	return fmt.Sprintf(thresholdsConfiguration, c.cell, c.share*c.cell, c.xon*c.cell, c.headroom*c.cell,
		c.mtu, c.buffer)
}

func (c thresholds) cellsOfFrame() int { return (c.length + c.cell - 1) / c.cell }

// level is the fill level of a buffer.
type level struct {
	shared, headroom int // cells
	held, dropped    int // frames
}

// after computes the level after that many frames, one frame at a time.
func (c thresholds) after(frames int) (l level) {
	for range frames {
		shared := min(c.cellsOfFrame(), c.share-l.shared)
		headroom := c.cellsOfFrame() - shared
		if l.headroom+headroom > c.headroom {
			l.dropped++
			continue
		}
		l.held++
		l.shared += shared
		l.headroom += headroom
	}
	return l
}

// TestThresholdsAreExact fills a port's buffer exactly to each threshold and one frame beyond.
// Shared memory causes no pause. The first cell of headroom pauses the sender with one PFC frame.
// Nothing is dropped until the headroom is full; then the drop is at ingress.
func TestThresholdsAreExact(t *testing.T) {
	whole := thresholds{cell: 2048, length: 60, share: 8, headroom: 90, xon: 4, mtu: 128, buffer: 2048}
	// The fifth frame is partly in shared memory and partly in headroom.
	parts := thresholds{cell: 64, length: 100, share: 9, headroom: 170, xon: 5, mtu: 128, buffer: 2048}
	// The jumbo class of a Nexus 5000, whose headroom is 26,172 bytes or 409 cells for an MTU of
	// 9216 and 300 m. The frames have three parts.
	jumbo := thresholds{cell: 160, length: 9216 + 18, share: 1000, headroom: 409, xon: 500, mtu: 9216, buffer: 4096}
	for _, c := range []struct {
		thresholds
		frames int
		want   level
	}{
		{whole, 8, level{shared: 8, held: 8}},
		{whole, 9, level{shared: 8, headroom: 1, held: 9}},
		{whole, 98, level{shared: 8, headroom: 90, held: 98}},
		{whole, 99, level{shared: 8, headroom: 90, held: 98, dropped: 1}},
		{parts, 90, level{shared: 9, headroom: 169, held: 89, dropped: 1}},
		{jumbo, 17, level{shared: 17 * 58, held: 17}},
		{jumbo, 18, level{shared: 1000, headroom: 44, held: 18}},
		{jumbo, 25, level{shared: 1000, headroom: 392, held: 24, dropped: 1}},
	} {
		t.Run(fmt.Sprintf("cell=%d/frames=%d", c.cell, c.frames), func(t *testing.T) {
			if l := c.after(c.frames); l != c.want {
				t.Fatalf("the test counts %+v, not %+v", l, c.want)
			}
			c.fill(t, c.frames)
		})
	}
}

// fill sends n frames to a paused host and then resumes it.
func (c thresholds) fill(t *testing.T, n int) {
	s, p, one, two := newPlainPair(t, c.configuration(), netns.MTU(max(1500, c.mtu)))
	random := rand.New(rand.NewPCG(uint64(n), 0))
	frames := testFrames(random, n, 3)
	for i, f := range frames {
		for len(f) < c.length {
			f = append(f, byte(random.Uint32()))
		}
		frames[i] = f[:c.length]
	}
	greeted, told, passed := uint64(0), uint64(0), uint64(0) // frames: greetings each way, PFC, and of the class
	// greet passes a frame in each direction; afterwards the switch has processed all frames before
	// it.
	greet := func() {
		greeted++
		one.send(greeting(receiverMAC, senderMAC))
		two.awaitReceived(greeted + passed)
		two.send(greeting(senderMAC, receiverMAC))
		one.awaitReceived(greeted + told)
	}
	two.send(pauseFrame(0xffff))
	greet()
	for i, f := range frames {
		one.send(f)
		if c.after(i+1).headroom > 0 {
			told = 1 // XOFF
		}
		greet()
	}
	level := c.after(n)
	two.send(pauseFrame(0))
	told, passed = 2*told, uint64(level.held) // XOFF and XON
	two.awaitReceived(greeted + passed)
	one.awaitReceived(greeted + told)
	greet()
	r := p.Stop()
	endCaptures(one, two)

	c.checkReport(t, r, level)
	expectFrames(t, "lossless", two.frames("vlan.priority == 3"), frames[:level.held], 0)
	one.pauses(program.AddressIn(t, s.Home, "port1")) // checks that all are well-formed
	c.checkOrder(t, one, two, n)
}

// greeting returns a frame of the highest CoS.
func greeting(to, from []byte) []byte {
	return slices.Concat(to, from, []byte{0x81, 0, 7 << 5, 100, 0x88, 0xb5}, make([]byte, 42))
}

// checkReport compares the switch's report with the expected level.
func (c thresholds) checkReport(t *testing.T, r program.Report, l level) {
	t.Helper()
	in, out := r.Port(t, "port1"), r.Port(t, "port2")
	if cos := in.ByCoS[3]; cos.Group.Shared.Max != l.shared || cos.Group.Headroom.Max != l.headroom {
		t.Errorf("peaks of %d shared cells and %d of headroom, want %d and %d",
			cos.Group.Shared.Max, cos.Group.Headroom.Max, l.shared, l.headroom)
	}
	var drops []program.DropReport
	if l.dropped > 0 {
		lost := uint64(l.dropped)
		drops = []program.DropReport{{Reason: "headroom_full", CoS: 3, Frames: lost, Lossless: lost}}
	}
	if !slices.Equal(in.Drops, drops) || len(out.Drops) > 0 || r.LosslessDrops != uint64(l.dropped) {
		t.Errorf("dropped %+v at ingress and %+v at egress, %d of them lossless; want %+v at ingress alone",
			in.Drops, out.Drops, r.LosslessDrops, drops)
	}
}

// checkOrder checks the order of events on the sender's device: test frames sent (f), greetings
// received (g), XOFF and XON.
func (c thresholds) checkOrder(t *testing.T, one, two *plainHost, n int) {
	t.Helper()
	var got, want strings.Builder
	resumed := ""
	for _, row := range one.Decode("eth.src == 02:00:00:00:00:01 && vlan.priority == 3 || eth.dst == "+
		"02:00:00:00:00:01 || macc",
		"vlan.priority", "macc.cbfc.pause_time.c3", "frame.time_epoch") {
		switch {
		case row[0] == "3":
			got.WriteString("f")
		case row[0] == "7":
			got.WriteString("g")
		case row[1] == "0":
			got.WriteString(" XON ")
			resumed = row[2]
		default:
			got.WriteString(" XOFF" + row[1] + " ")
		}
	}
	const xoff = " XOFF65535 "
	want.WriteString("g")
	for i := range n {
		want.WriteString("f")
		if c.after(i).headroom == 0 && c.after(i+1).headroom > 0 {
			want.WriteString(xoff)
		}
		want.WriteString("g")
	}
	if c.after(n).headroom > 0 {
		want.WriteString(" XON ")
		c.checkXON(t, two, resumed, c.after(n).held)
	}
	want.WriteString("g" + xoff) // XOFF at the end of the switch
	if got.String() != want.String() {
		t.Errorf("on the sender's device:\n%s, want\n%s", &got, &want)
	}
}

// checkXON checks that the sender was not resumed before the other host had received all frames
// except those that XON allows to remain.
func (c thresholds) checkXON(t *testing.T, two *plainHost, resumed string, held int) {
	t.Helper()
	xon, err := strconv.ParseFloat(resumed, 64)
	if err != nil {
		t.Fatalf("no XON: %v", err)
	}
	before := 0
	for _, row := range two.Decode("vlan.priority == 3", "frame.time_epoch") {
		if at, err := strconv.ParseFloat(row[0], 64); err != nil {
			t.Fatal(err)
		} else if at < xon {
			before++
		}
	}
	least := held - c.xon/c.cellsOfFrame()
	if t.Logf("XON when %d of %d frames had been sent", before, held); before < least {
		t.Errorf("XON when %d of %d frames had been sent, want no fewer than %d", before, held, least)
	}
}
