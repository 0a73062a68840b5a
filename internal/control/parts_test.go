package control

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/bench/netns"
	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/pmd/afxdp"
)

// TestSplitFrames: a device in zero-copy mode whose MTU needs several buffers also splits frames
// that would just fit one. If they don't cost as many cells, the port opens in copy mode, or not at
// all.
func TestSplitFrames(t *testing.T) {
	for _, test := range []struct {
		memory, port string
		mtu          int // of the device
		splits       bool
	}{
		{"buffer_size: 4096B", "mtu: 3694", 3694, false}, // the device does not split
		{"buffer_size: 4096B", "mtu: 3694", 3695, true},
		{"buffer_size: 4096B", "mtu: 3686", 3695, true},
		{"buffer_size: 4096B", "mtu: 3687", 3695, true},
		{"buffer_size: 4096B", "mtu: 3311", 9000, true},
		{"buffer_size: 4096B", "mtu: 3307, s_tag: pcp", 9000, true},
		{"buffer_size: 4096B", "mtu: 3310", 9000, false}, // a part holds any frame
		{"buffer_size: 4096B", "mtu: 9000", 9000, false}, // the default cell is a part
		{"buffer_size: 4096B, cell: 3328B", "mtu: 3694", 9000, false},
		{"buffer_size: 4096B, cell: 3329B", "mtu: 3694", 9000, true},
		{"buffer_size: 2048B", "mtu: 1646", 9000, false}, // a part is all that fits a buffer
	} {
		c := configtest.Parse(t, "memory: {"+test.memory+"}\nports: [{device: a, speed: 1G, "+test.port+"}, {device: "+
			"b, speed: 1G, mode: zero-copy, "+test.port+"}, {device: c, speed: 1G, mode: copy, "+test.port+"}]\n")
		s := &Switch{config: c, log: slog.New(slog.DiscardHandler)}
		want := []afxdp.Mode{afxdp.Auto, afxdp.ZeroCopy, afxdp.Copy}
		if test.splits {
			want[0] = afxdp.Copy
		}
		for i := range c.Ports {
			mode, err := s.modeFor(newPort(&c.Ports[i], i), test.mtu)
			if refused := test.splits && i == 1; refused != (err != nil) {
				t.Errorf("%+v, port %d: %v", test, i, err)
			} else if err == nil && mode != want[i] {
				t.Errorf("%+v, port %d opens in mode %v, want %v", test, i, mode, want[i])
			}
			if err == nil {
				continue
			}
			if fits := c.Ports[i].MTU <= 3686; strings.Contains(err.Error(), "ip link set dev b mtu 3686") != fits {
				t.Errorf("%v: want the MTU to set, but only if the port's frames fit it", err)
			}
		}
	}
}

// TestReloadToLongFrames: if memory.cell allows it, a reload may raise the mtu of ports such that
// frames occupy several buffers. The ports stay open, and no frame is lost: their peers need no
// pause. Without memory.cell in the file, such a reload is refused by name.
func TestReloadToLongFrames(t *testing.T) {
	y := emptyYard(t)
	text := func(cell, mtu string) string {
		return strings.NewReplacer("buffer_size: 2048B", "buffer_size: 2048B"+cell, ", headroom: 256KiB", "",
			"in_flight: 2KB", "in_flight: 2KB, mtu: "+mtu).Replace(reloadText(16, port2Text))
	}
	const cell = ", cell: 1664B"
	y.start(text(cell, "1500"))
	y.awaitState("the ports to be up", func(s *State) bool { return s.Ports[0].Up && s.Ports[1].Up })
	y.greet(1, 0)
	y.greet(0, 1)
	reload := func(text string) error { return y.Reload(t.Context(), configtest.Parse(t, text)) }
	err := reload(text(cell, "9000"))
	if err == nil || !strings.Contains(err.Error(), "ip link set dev port1 mtu 9000") {
		t.Errorf("beyond the MTU of the devices: %v", err)
	}
	for i, port := range []string{"port1", "port2"} {
		mtu := func(l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) }
		y.inHome(port, mtu)
		onLink(t, y.hosts[i].at, hostDevice, mtu)
	}
	before := y.state()
	for i := range 20 { // to and fro, while frames pass
		mtu := "9000"
		if i%2 == 1 {
			mtu = "1500"
		}
		done := make(chan error, 1)
		go func() { done <- reload(text(cell, mtu)) }()
		for running := true; running; time.Sleep(700 * time.Microsecond) { // in 672 µs a frame leaves
			select {
			case err := <-done:
				if running = false; err != nil {
					t.Fatal(err)
				}
			default:
				y.send(1, lossless)
				y.hosts[1].poll() // its socket has no room for all frames
			}
		}
	}
	if err := reload(text(cell, "9000")); err != nil {
		t.Fatal(err)
	}
	for i, p := range y.state().Ports {
		if !p.Up || !p.SameDriver(&before.Ports[i].PortInfo) {
			t.Errorf("port %s did not stay open", p.PortInfo.Name)
		}
	}
	for _, length := range []int{60, 1664, 1665, 3328, 3329, 9018} {
		y.hosts[0].sendLong(y.hosts[1], lossless, y.sent[lossless], length)
		y.sent[lossless]++
	}
	y.hosts[1].await(lossless, int(y.sent[lossless]))
	y.checkReceived(lossless, 0, y.sent[lossless])
	for _, p := range y.state().Total().Ports {
		if p.Parts != 6 || p.DeviceMTU != 9000 || p.MTU != 9000 {
			t.Errorf("port %s: frames in %d buffers, MTU %d, of the device %d; want 6, 9000, 9000", p.Name, p.Parts,
				p.MTU, p.DeviceMTU)
		}
	}
	if err := reload(text("", "1500")); !config.AtFault(err) ||
		!strings.Contains(err.Error(), "memory.cell can't change from 1664B to 2048B") {
		t.Errorf("without memory.cell: %v", err)
	}
	if err := reload(text(cell, "1500")); err != nil {
		t.Error(err)
	}
	y.greet(0, 1)
}

// TestTransmitterBesideLongFrames: with tx: resident, a port with an MTU of 9000 sends through its
// socket and says why, and the transmitter sends for a port with short frames. Both use the memory
// of the transmitter, and frames pass between them.
func TestTransmitterBesideLongFrames(t *testing.T) {
	y := emptyYard(t, netns.GRO())
	mtu := func(l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) }
	y.inHome("port1", mtu)
	onLink(t, y.hosts[0].at, hostDevice, mtu)
	y.start(fmt.Sprintf(`
memory: {buffers: 2048, buffer_size: 4096B}
transmitter: {cpu: worker}
classes:
  - {cos: [%d], lossless: true, reserved: 0B, share: 64KiB}
ports:
  - {device: port1, speed: 1M, mtu: 9000, tx: resident, in_flight: 2KB}
  - {device: port2, speed: 1M, tx: resident, in_flight: 2KB}
`, lossless))
	y.awaitState("the ports to be up", func(s *State) bool { return s.Ports[0].Up && s.Ports[1].Up })
	s := y.state().Total()
	if long := s.Ports[0]; long.TX != afxdp.TXSocket || !strings.Contains(long.TXWhy, "MTU of 9000") ||
		!strings.Contains(long.TXWhy, "maximum of 3400") {
		t.Errorf("port1: %s sends, because %q", long.TX, long.TXWhy)
	}
	if short := s.Ports[1]; short.TX != afxdp.TXTransmitter {
		t.Errorf("port2: %s sends, because %q", short.TX, short.TXWhy)
	}
	y.greet(1, 0)
	y.greet(0, 1)
	for range 20 {
		for _, length := range []int{60, 1514, 9014} { // the last is too long for port2
			y.hosts[0].sendLong(y.hosts[1], lossless, y.sent[lossless], length)
			if length < 9014 {
				y.sent[lossless]++
			}
		}
		y.greet(0, 1)
		y.greet(1, 0)
	}
	y.hosts[1].await(lossless, int(y.sent[lossless])) // greetings may overtake them
	y.checkReceived(lossless, 0, y.sent[lossless])
	if drops := y.state().LosslessDrops(); drops != 0 {
		t.Errorf("%d lossless drops", drops)
	}
}

// TestReloadOfOpenPorts: a reload does not raise the mtu of a port that was opened for shorter
// frames, here because the transmitter sends. Out of service, the port takes it.
func TestReloadOfOpenPorts(t *testing.T) {
	y := emptyYard(t, netns.GRO())
	text := func(mtu int) string {
		return fmt.Sprintf(`
memory: {buffers: 2048, buffer_size: 4096B, cell: 3328B}
transmitter: {cpu: worker}
ports:
  - {device: port1, speed: 1M, tx: resident, in_flight: 2KB, mtu: %d}
  - {device: port2, speed: 1M, in_flight: 2KB, mtu: %d}
`, mtu, mtu)
	}
	up := func(s *State) bool { return s.Ports[0].Up && s.Ports[1].Up }
	y.start(text(1500))
	y.awaitState("the ports to be up", up)
	y.greet(1, 0)
	y.greet(0, 1)
	for i, port := range []string{"port1", "port2"} {
		mtu := func(l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) }
		y.inHome(port, mtu)
		onLink(t, y.hosts[i].at, hostDevice, mtu)
	}
	for _, mtu := range []int{3383, 9000} {
		err := y.Reload(t.Context(), configtest.Parse(t, text(mtu)))
		for _, want := range []string{fmt.Sprintf("test.yaml:5:67: port port1 was opened for frames of up to 3400 "+
			"bytes, so mtu can't become %d", mtu), "lower mtu to 3382", "sluice port shut port1"} {
			if !config.AtFault(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("mtu %d: %v, want %s", mtu, err, want)
			}
		}
	}
	if err := y.Reload(t.Context(), configtest.Parse(t, text(3382))); err != nil {
		t.Error(err)
	}
	if err := y.Shut(t.Context(), "port1"); err != nil {
		t.Fatal(err)
	}
	if err := y.Reload(t.Context(), configtest.Parse(t, text(9000))); err != nil {
		t.Fatal(err)
	}
	if _, err := y.Open(t.Context(), "port1"); err != nil {
		t.Fatal(err)
	}
	y.awaitState("the ports to be up", up)
	if p := y.state().Total().Ports[0]; p.TX != afxdp.TXSocket || p.Parts != 3 {
		t.Errorf("%s sends, frames in %d buffers", p.TX, p.Parts)
	}
	y.greet(1, 0) // port1 has learned nothing since it was shut
	for _, length := range []int{60, 9018} {
		y.hosts[0].sendLong(y.hosts[1], lossless, y.sent[lossless], length)
		y.hosts[1].sendLong(y.hosts[0], lossless, y.sent[lossless], length)
		y.sent[lossless]++
	}
	y.hosts[0].await(lossless, 2)
	y.hosts[1].await(lossless, 2)
}

// TestLongFramesBesideTheTransmitter: the device of a port whose frames the transmitter sends gets
// a larger MTU while memory.cell allows frames of several parts. The port drops longer frames than
// its own mtu whole: none of their parts passes for a frame, and no buffer is lost.
func TestLongFramesBesideTheTransmitter(t *testing.T) {
	y := emptyYard(t, netns.GRO())
	y.start(`
memory: {buffers: 2048, buffer_size: 4096B, cell: 3328B}
transmitter: {cpu: worker}
ports:
  - {device: port1, speed: 1M, tx: resident, in_flight: 2KB}
  - {device: port2, speed: 1M, tx: resident, in_flight: 2KB}
`)
	y.awaitState("the ports to be up", func(s *State) bool { return s.Ports[0].Up && s.Ports[1].Up })
	mtu := func(l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) }
	y.inHome("port1", mtu)
	onLink(t, y.hosts[0].at, hostDevice, mtu)
	y.greet(1, 0)
	y.greet(0, 1)
	if p := y.state().Total().Ports[0]; p.TX != afxdp.TXTransmitter {
		t.Fatalf("%s sends, because %q", p.TX, p.TXWhy)
	}
	before := y.state().Ports[0]
	for range 20 {
		y.hosts[0].sendLong(y.hosts[1], 1, 0, 9014)
		y.greet(0, 1)
	}
	p := y.state().Ports[0]
	if p.RXTwice != 0 || p.RXFrames != before.RXFrames+20 || p.Buffers.Filled != before.Buffers.Filled {
		t.Errorf("of 20 frames and 20 that are too long: %d received, %d that were not the driver's; %d buffers with "+
			"it, before %d", p.RXFrames-before.RXFrames, p.RXTwice, p.Buffers.Filled, before.Buffers.Filled)
	}
}
