package afxdp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/pmd"
)

// TestUsable: igb, igc and ixgbe fill whole KiB of a buffer in zero-copy mode, unknown drivers are
// taken to fill a power of two. igc and igb deliver long frames whatever the MTU is.
func TestUsable(t *testing.T) {
	for _, test := range []struct {
		driver           string
		size, bytes, mtu int
	}{
		{"virtio_net", 2048, 1664, 1646}, {"mlx5_core", 2048, 1664, 1646}, {"i40e", 2048, 1664, 1646},
		{"ice", 4096, 3712, 3694}, {"ixgbe", 2048, 1024, 1006}, {"ixgbe", 4096, 3072, 3054},
		{"igc", 2048, 1024, 0}, {"igc", 4096, 3072, 3054}, {"igb", 2048, 1024, 0}, {"igb", 4096, 3072, 1510},
		{"other", 2048, 1024, 1006}, {"", 4096, 2048, 2030},
	} {
		if n := usable(test.driver, test.size); n != test.bytes {
			t.Errorf("%s fills %d of %d, not %d", test.driver, n, test.size, test.bytes)
		}
		if n := maxZeroCopyMTU(test.driver, test.size); n != test.mtu {
			t.Errorf("%s: an MTU of %d with %d, not %d", test.driver, n, test.size, test.mtu)
		}
	}
}

// TestCheckMTU: an open port tells an MTU with which it loses frames from one with which it may
// deliver damaged ones.
func TestCheckMTU(t *testing.T) {
	for _, test := range []struct {
		zeroCopy  bool
		parts     int // 0: opened for frames that fit one buffer
		size, mtu int
		want      error
	}{
		{false, 0, 2048, 1646, nil}, {false, 0, 2048, 1647, ErrMTU}, {false, 0, 4096, 1647, nil},
		{true, 0, 4096, 1510, nil}, {true, 0, 4096, 1511, ErrRoom}, {true, 0, 4096, 9000, ErrRoom},
		{false, 17, 2048, 1500, nil}, {false, 17, 2048, 29934, nil}, {false, 17, 2048, 29935, ErrParts},
		{true, 3, 4096, 1500, nil}, {true, 3, 4096, 9966, nil}, {true, 3, 4096, 9967, ErrParts},
	} {
		p := &Port{socket: &socket{zeroCopy: test.zeroCopy, scatter: test.parts > 0}, device: device{driver: "igb"},
			parts: test.parts, offsetMask: uint64(test.size) - 1}
		if err := p.CheckMTU(test.mtu); !errors.Is(err, test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestParts: a frame has no more parts than its length needs if each part but the last has the
// bytes that Part promises.
func TestParts(t *testing.T) {
	for _, test := range []struct{ size, part, most int }{{2048, 1664, 29934}, {4096, 3328, 59886}} {
		if n := Part(test.size); n != test.part {
			t.Errorf("a part in a buffer of %d has %d bytes, not %d", test.size, n, test.part)
		}
		if n := MaxMTU(test.size); n != test.most {
			t.Errorf("buffers of %d: an MTU of %d, not %d", test.size, n, test.most)
		}
	}
	for _, test := range []struct{ mtu, size, parts int }{
		{1500, 2048, 1}, {1646, 2048, 1}, {1647, 2048, 2}, {9216, 2048, 6}, {29934, 2048, pmd.MaxParts},
		{3694, 4096, 1}, {3695, 4096, 2}, {4200, 4096, 2}, {9000, 4096, 3}, {9216, 4096, 3}, {9500, 4096, 3},
		{59886, 4096, pmd.MaxParts}, {59887, 4096, pmd.MaxParts + 1},
	} {
		if n := Parts(test.mtu, test.size); n != test.parts {
			t.Errorf("MTU %d, buffers of %d: %d parts, not %d", test.mtu, test.size, n, test.parts)
		}
	}
}

// TestZeroCopySegments: zero-copy mode takes frames of several parts if the device has enough
// segments and its driver fills buffers as far as Part promises. The error has the numbers.
func TestZeroCopySegments(t *testing.T) {
	for _, test := range []struct {
		driver              string
		mtu, size, segments int
		enough              int
		say                 []string // nothing: no error
	}{
		{"i40e", 9216, 4096, 8, 4096, nil}, {"ice", 9500, 4096, 8, 4096, nil}, {"ice", 3695, 4096, 2, 4096, nil},
		{"ice", 1500, 2048, 8, 2048, nil}, {"ice", 3694, 4096, 1, 4096, nil},
		{"ice", 9216, 2048, 8, 4096, []string{"of 2048", "MTU is 9216"}},
		{"ice", 9216, 4096, 2, 0, []string{"MTU is 9216", "needs 3 buffers", "in 2 at most", "largest MTU is 6638"}},
		{"ice", 9216, 2048, 1, 0, []string{"needs 3 buffers", "in 1 at most", "largest MTU is 3694"}},
		{"igc", 9216, 4096, 1, 0, []string{"needs 3 buffers", "in 1 at most", "largest MTU is 3054"}},
		{"idpf", 9216, 4096, 10, 0, []string{"in 1 at most", "largest MTU is 2030"}},
	} {
		enough, err := WholeFrames(test.driver, test.mtu, test.size, test.segments)
		if enough != test.enough || (err == nil) != (test.say == nil) || err != nil && !errors.Is(err, ErrRoom) {
			t.Errorf("%+v: %d, %v", test, enough, err)
		}
		for _, say := range test.say {
			if !strings.Contains(fmt.Sprint(err), say) {
				t.Errorf("%+v: %v does not say %q", test, err, say)
			}
		}
	}
}

// TestDetached: an open port says when somebody has detached its program.
func TestDetached(t *testing.T) {
	c := newCable(t)
	left := newStation(t, c.left, Config{Device: leftDevice}, 64, 32)
	if err := c.left.Do(left.CheckDevice); err != nil {
		t.Errorf("attached: %v", err)
	}
	if err := left.program.link.Detach(); err != nil {
		t.Fatal(err)
	}
	if err := c.left.Do(left.CheckDevice); !errors.Is(err, ErrDetached) {
		t.Errorf("detached: %v", err)
	}
}

// TestCheckDevice: an open port says when its device loses or damages frames by a change, and only
// then.
func TestCheckDevice(t *testing.T) {
	c := newCable(t)
	var is device
	err := c.left.Do(func() (err error) {
		is, err = findDevice(leftDevice)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		change   func(opened *device) // what it was when the port was opened
		zeroCopy bool
		want     error
	}{
		"no change":           {func(*device) {}, true, nil},
		"fewer queues":        {func(d *device) { d.queues++ }, true, nil},
		"more queues":         {func(d *device) { d.queues-- }, false, ErrQueues},
		"another device":      {func(d *device) { d.queues, d.index = 0, d.index+1 }, false, nil},
		"gone":                {func(d *device) { d.queues, d.name = 0, "gone" }, false, nil},
		"longer ring":         {func(d *device) { d.driver, d.rxRing = "igb", -1 }, true, ErrReplay},
		"longer ring, copies": {func(d *device) { d.driver, d.rxRing = "igb", -1 }, false, nil},
		"longer ring, no igb": {func(d *device) { d.rxRing = -1 }, true, nil},
	} {
		opened := is
		test.change(&opened)
		p := &Port{socket: &socket{zeroCopy: test.zeroCopy}, device: opened}
		if err := c.left.Do(p.CheckDevice); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestReplays: Auto uses no zero-copy mode with a driver that damages frames there, whatever the
// buffers. The socket is never asked for that mode.
func TestReplays(t *testing.T) {
	igb := device{driver: "igb", mtu: 1000, index: 1 << 30}
	if err := (&socket{fd: -1}).bindZeroCopy(igb, 0, Auto, 4096); !errors.Is(err, ErrReplay) {
		t.Errorf("auto: %v", err)
	}
	if err := (&socket{fd: -1}).bindZeroCopy(igb, 0, ZeroCopy, 4096); errors.Is(err, ErrReplay) || err == nil {
		t.Errorf("demanded: %v", err)
	}
}

// TestReceiveRing: with a driver that must not run short of buffers, the frames of a full RX ring,
// the device's ring and a burst of the worker together have fewer than the port.
func TestReceiveRing(t *testing.T) {
	for _, test := range []struct {
		driver                         string
		ring, buffers, device, entries int
	}{
		{"igb", 4096, 4096, 256, 2048}, {"igb", 4096, 8192, 256, 4096}, {"igb", 4096, 4096, 4096, 0},
		{"igb", 512, 512, 256, 128}, {"igb", 256, 256, 256, 0}, {"igb", 64, 1024, 0, 64}, {"igc", 64, 64, 256, 64},
		{"virtio_net", 4096, 4096, 256, 4096},
	} {
		n, err := ReceiveRing(test.driver, test.ring, test.buffers, test.device)
		if n != test.entries || (err == nil) != (n > 0) || err != nil && !errors.Is(err, ErrReplay) {
			t.Errorf("%+v: %d, %v", test, n, err)
		}
		if n > 0 && drivers[test.driver].Replays && n+test.device+64 >= test.buffers {
			t.Errorf("%+v: %d frames may leave the fill ring empty", test, n)
		}
	}
}

// TestZeroCopyNeedsWholeFrames: the error has the numbers and a fix that helps. The index is of no
// device, so whether it has zero-copy is unknown.
func TestZeroCopyNeedsWholeFrames(t *testing.T) {
	for _, test := range []struct {
		driver    string
		size, mtu int
		say       []string // nothing: no error
	}{
		{"ixgbe", 2048, 1006, nil}, {"ixgbe", 4096, 1500, nil}, {"igc", 4096, 1500, nil},
		{"ixgbe", 2048, 1500, []string{"fills only 1024", "of 2048", "MTU is 1500", "buffer_size to 4096B"}},
		{"igc", 2048, 1000, []string{"fills only 1024", "buffer_size to 4096B"}},
		{"ixgbe", 4096, 3500, []string{"fills only 3072", "lower it, or choose copy mode"}},
		{"other", 2048, 1500, []string{"not known whether the driver other fills more than 1024", "4096B"}},
	} {
		err := device{name: "eth0", driver: test.driver, mtu: test.mtu, index: 1 << 30}.checkZeroCopy(test.size)
		if (err == nil) != (test.say == nil) || err != nil && !errors.Is(err, ErrRoom) {
			t.Errorf("%s, MTU %d, buffers of %d: %v", test.driver, test.mtu, test.size, err)
		}
		for _, word := range test.say {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%v does not say %q", err, word)
			}
		}
	}
}
