package afxdp

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/linux/netdev"
)

// TestRedirects: a driver that runs programs but loses what they redirect is known by its features,
// or, on kernels that report none, by its name. nfp reports that it redirects, and does so in
// zero-copy mode only.
func TestRedirects(t *testing.T) {
	const whole = netdev.Basic | netdev.Redirect | netdev.ZeroCopy
	for _, test := range []struct {
		driver   string
		features netdev.Features
		mode     Mode
		say      string // "": no error
	}{
		{"new", whole, Auto, ""}, {"new", 0, Auto, ""}, {"veth", netdev.Basic | netdev.Redirect, Copy, ""},
		{"new", netdev.Basic, Auto, "driver new"}, {"new", netdev.Basic, ZeroCopy, "driver new"},
		{"ixgbevf", netdev.Basic, Copy, "loses redirected frames"}, {"ixgbevf", 0, Auto, "loses redirected frames"},
		{"nfp", whole, ZeroCopy, ""}, {"nfp", 0, ZeroCopy, ""}, {"nfp", whole, Auto, "try mode: zero-copy"},
		{"nfp", whole, Copy, "try mode: zero-copy"}, {"nfp", netdev.Basic, ZeroCopy, "driver nfp"},
	} {
		err := Redirects(test.driver, test.features, test.mode)
		if (err == nil) != (test.say == "") || err != nil && (!errors.Is(err, ErrRedirect) ||
			!strings.Contains(err.Error(), test.say)) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestNativeMTU: beyond the MTU for one fragment, native XDP is only for devices that report more.
func TestNativeMTU(t *testing.T) {
	const plain, fragments = netdev.Basic | netdev.Redirect, netdev.Basic | netdev.Redirect | netdev.Fragments
	for _, test := range []struct {
		driver   string
		features netdev.Features
		mtu      int
		exceeded bool
	}{
		{"virtio_net", plain, 3506, false}, {"virtio_net", plain, 3507, true}, {"virtio_net", fragments, 9000, false},
		{"virtio_net", 0, 9000, true}, {"igc", plain, 1501, true}, {"veth", fragments, 9000, false},
		{"new", plain, 9000, false},
	} {
		if got := NativeMTUExceeded(test.driver, test.features, test.mtu); got != test.exceeded {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

// TestNativeWithoutFragments: a driver that refuses no program is not left to lose long frames. A
// tap device gives programs no fragments.
func TestNativeWithoutFragments(t *testing.T) {
	c := newCable(t)
	err := c.left.Do(func() error {
		tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tap0"}, Mode: netlink.TUNTAP_MODE_TAP}
		if err := netlink.LinkAdd(tap); err != nil {
			return err
		}
		d, err := findDevice("tap0")
		if err != nil {
			return err
		}
		d.driver, d.mtu = "virtio_net", 9000
		if err := d.checkNative(); !errors.Is(err, ErrNative) || !strings.Contains(err.Error(), "at most 3506") {
			t.Errorf("MTU 9000 and no fragments: %v", err)
		}
		d.mtu = 3506
		return d.checkNative()
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNativeThatLosesFrames: a program is not left attached natively where frames would be lost:
// the driver loses redirected ones, or the device receives on further queues with a program.
func TestNativeThatLosesFrames(t *testing.T) {
	c := newCable(t)
	for _, test := range []struct {
		name     string
		change   func(*device)
		zeroCopy bool // it is demanded, so there is no generic mode
		want     error
	}{
		{"nothing", func(*device) {}, false, nil},
		{"redirects", func(d *device) { d.driver = "ixgbevf" }, false, ErrRedirect},
		{"queues", func(d *device) { d.queues = 0 }, false, ErrQueues},
		{"queues, zero-copy demanded", func(d *device) { d.queues = 0 }, true, ErrQueues},
	} {
		err := c.left.Do(func() error {
			d, err := findDevice(leftDevice)
			if err != nil {
				return err
			}
			test.change(&d)
			mode := Auto
			if test.zeroCopy {
				mode = ZeroCopy
			}
			p, err := attach(d, 0, mode)
			if err != nil {
				return err
			}
			if is := xdpOf(t, c.left, leftDevice); p.native != (test.want == nil) || (is == "native") != p.native {
				t.Errorf("%s: native: %v, attached %q", test.name, p.native, is)
			}
			return errors.Join(p.fallback, p.close())
		})
		if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v", test.name, err)
		}
		if left := xdpOf(t, c.left, leftDevice); left != "" {
			t.Errorf("%s: a program stayed behind (%s)", test.name, left)
		}
	}
}

// TestManyQueues: the advice is one that the driver follows.
func TestManyQueues(t *testing.T) {
	for driver, say := range map[string]string{
		"virtio_net": "ethtool -L eth0 combined 1", "vmxnet3": "one CPU", "sfc": "use another NIC", "": "ethtool -L",
	} {
		err := device{name: "eth0", driver: driver, up: true, mtu: 1500, queues: 2}.check(Config{BufferSize: 2048})
		if !errors.Is(err, ErrQueues) || !strings.Contains(err.Error(), say) ||
			strings.Contains(err.Error(), "ethtool -L") != strings.Contains(say, "ethtool -L") {
			t.Errorf("%s: %v", driver, err)
		}
	}
}

// TestIndirectDescriptors: virtio_net must have them in zero-copy mode. Where they are not known to
// be there, Auto copies. The socket is never asked for that mode.
func TestIndirectDescriptors(t *testing.T) {
	directory := t.TempDir()
	mount, err := os.Open(directory)
	if err != nil {
		t.Fatal(err)
	}
	defer mount.Close()
	if err := os.Mkdir(filepath.Join(directory, "device"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		features   string
		has, known bool
	}{
		{strings.Repeat("0", 28) + "1" + strings.Repeat("0", 35), true, true},
		{strings.Repeat("1", 28) + "0" + strings.Repeat("1", 99), false, true},
		{strings.Repeat("1", 28), false, false}, {"", false, false},
	} {
		file := filepath.Join(directory, "device/features")
		if err := os.WriteFile(file, []byte(test.features+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if has, err := (deviceFiles{mount: mount}).hasIndirect(); has != test.has || (err == nil) != test.known {
			t.Errorf("features %q: %t, %v", test.features, has, err)
		}
	}
	for _, mode := range []Mode{Auto, ZeroCopy} {
		d := device{name: "none", driver: "virtio_net", mtu: 1500, index: 1 << 30}
		if err := (&socket{fd: -1}).bindZeroCopy(d, 0, mode, 2048); !errors.Is(err, ErrDirect) {
			t.Errorf("mode %d: %v", mode, err)
		}
	}
}

// TestKernelMTU: the numbers are those with which Linux 7.3 accepted and refused zero-copy mode of
// virtio_net.
func TestKernelMTU(t *testing.T) {
	for size, want := range map[int]int{2048: 1638, 4096: 3686} {
		if n := KernelMTU(size); n != want {
			t.Errorf("buffers of %d: an MTU of %d, not %d", size, n, want)
		}
	}
}

// TestRefusalsNameTheMTU: the kernel only says EINVAL. The numbers are added where they can be the
// reason.
func TestRefusalsNameTheMTU(t *testing.T) {
	for _, test := range []struct {
		driver  string
		mtu     int
		kernel  error
		refused func(device, error) error
		say     string
		not     string
	}{
		{"virtio_net", 1639, unix.EINVAL, refusesZeroCopy, "at most 1638 with buffers of 2048 bytes, and it is 1639",
			"may need"},
		{"virtio_net", 1638, unix.EINVAL, refusesZeroCopy, "refuses zero-copy", "1638"},
		{"virtio_net", 1639, unix.EOPNOTSUPP, refusesZeroCopy, "refuses zero-copy", "1638"},
		{"igc", 1501, unix.EOPNOTSUPP, device.refusesNative, "at most 1500, and it is 1501", "transmit queues"},
		{"igc", 1501, unix.EOPNOTSUPP, device.refusesNative, "ip link set dev eth0 mtu 1500", "transmit queues"},
		{"igc", 1500, unix.EINVAL, device.refusesNative, "may need a smaller MTU", "at most"},
		{"e1000e", 1500, unix.EOPNOTSUPP, device.refusesNative, "the driver e1000e has no native XDP", "MTU"},
		{"igc", 1500, unix.EOPNOTSUPP, device.refusesNative, "may need a smaller MTU", "has no native XDP"},
		{"veth", 9000, unix.EINVAL, device.refusesNative, "transmit queues", "at most"},
	} {
		err := test.refused(device{name: "eth0", driver: test.driver, mtu: test.mtu}, test.kernel)
		if !errors.Is(err, test.kernel) || !strings.Contains(err.Error(), test.say) ||
			strings.Contains(err.Error(), test.not) {
			t.Errorf("%s, MTU %d: %v", test.driver, test.mtu, err)
		}
	}
}

func refusesZeroCopy(d device, err error) error { return d.refusesZeroCopy(err, 2048) }
