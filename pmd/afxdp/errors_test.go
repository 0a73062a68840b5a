package afxdp

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
)

func TestRefused(t *testing.T) {
	for _, test := range []struct {
		step step
		err  error
		want error // nil: none of the sentinels
		say  string
	}{
		{createSocket, unix.EAFNOSUPPORT, ErrUnsupported, "CONFIG_XDP_SOCKETS"},
		{createSocket, unix.EPERM, ErrPermission, "CAP_NET_RAW"},
		{loadProgram, unix.EPERM, ErrPermission, "CAP_BPF"},
		{attachProgram, unix.EACCES, ErrPermission, "root"},
		{registerMemory, unix.ENOBUFS, ErrMemlock, "CAP_IPC_LOCK"},
		{registerMemory, unix.ENOMEM, ErrMemlock, "ulimit -l"},
		{registerMemory, unix.EINVAL, nil, "hugepages"},
		{attachProgram, unix.EBUSY, ErrProgram, "program"},
		{attachProgram, unix.EEXIST, ErrProgram, "program"},
		{bindSocket, unix.EBUSY, ErrBusy, "stop the program"},
		{bindSocket, unix.ENODEV, ErrNoDevice, "try again"},
		{bindSocket, unix.ENETDOWN, ErrDown, "set it up"},
		{bindSocket, unix.EINVAL, ErrQueues, "ethtool -l"},
		{createRing, unix.ENOMEM, nil, "rings"},
	} {
		err := refused(test.step, test.err)
		if !errors.Is(err, test.err) || test.want != nil && !errors.Is(err, test.want) ||
			!strings.Contains(err.Error(), test.say) {
			t.Errorf("%s, %v: %v", test.step, test.err, err)
		}
	}
}

func TestStateOf(t *testing.T) {
	for errno, want := range map[unix.Errno]State{
		0: StateRunning, unix.EAGAIN: StateRunning, unix.EBUSY: StateRunning, unix.EINTR: StateRunning,
		unix.ENOBUFS: StateNoMemory, unix.ENOMEM: StateNoMemory, unix.ENETDOWN: StateDown, unix.ENXIO: StateGone,
		unix.ENODEV: StateGone, unix.EINVAL: StateFailed, unix.EOPNOTSUPP: StateFailed,
	} {
		if s := stateOf(errno); s != want || s.String() == "" {
			t.Errorf("%v is %v, not %v", errno, s, want)
		}
	}
}

// otherProgram attaches another owner's program.
func otherProgram(t *testing.T, device string) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "somebody_elses", Type: ebpf.XDP,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		return err
	}
	t.Cleanup(func() { p.Close() })
	dev, err := findLink(device)
	if err != nil {
		return err
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: dev.Attrs().Index, Flags: link.XDPGenericMode})
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return err
}

// setLinkDown and bindQueue change a device before it is opened.
func setLinkDown(_ *testing.T, device string) error {
	l, err := findLink(device)
	return errors.Join(err, netlink.LinkSetDown(l))
}

func bindQueue(t *testing.T, device string) error {
	d, err := findDevice(device)
	if err != nil {
		return err
	}
	s, err := newSocket(Config{Memory: newMemory(t, 1<<16), BufferSize: bufferSize, RingSize: 64}, 64, 0)
	if err != nil {
		return err
	}
	t.Cleanup(func() { s.close() })
	return s.bind(d, Config{BufferSize: bufferSize}, Copy)
}

// refusals are the cases of TestOpenRefuses, each with one fault.
var refusals = []struct {
	name  string
	spoil func(t *testing.T, device string) error
	conf  func(c *Config)
	want  error
	say   []string
	pair  []netns.Option
}{
	{name: "no such device", conf: func(c *Config) { c.Device = "nowhere0" }, want: ErrNoDevice,
		say: []string{"nowhere0", "namespace"}},
	{name: "down", spoil: setLinkDown, want: ErrDown, say: []string{"ip link set dev left0 up"}},
	{name: "MTU", pair: []netns.Option{netns.MTU(29935)}, want: ErrMTU,
		say: []string{"29935", "18 buffers of 2048", "mtu 29934"}},
	{name: "rings shorter than a frame", pair: []netns.Option{netns.MTU(9216)},
		conf: func(c *Config) { c.RingSize = 4 }, want: ErrParts, say: []string{"9216", "6 parts", "4 entries"}},
	{name: "queues", pair: []netns.Option{netns.Queues(2)}, want: ErrQueues,
		say: []string{"2 receive queues", "ethtool -L left0"}},
	{name: "queue", conf: func(c *Config) { c.Queue = 1 }, want: ErrQueues, say: []string{"queue 1"}},
	{name: "program", spoil: otherProgram, want: ErrProgram, say: []string{`"somebody_elses"`, "generic", "id "}},
	{name: "native only", spoil: oneQueue, pair: []netns.Option{netns.Queues(2)},
		conf: func(c *Config) { c.Mode = ZeroCopy }, want: ErrNative},
	{name: "zero-copy", conf: func(c *Config) { c.Mode = ZeroCopy }, want: ErrZeroCopy, say: []string{"copy mode"}},
	{name: "in use", spoil: bindQueue, want: ErrBusy, say: []string{"another AF_XDP socket"}},
	{name: "negative queue", conf: func(c *Config) { c.Queue = -1 }, say: []string{"queue -1"}},
	{name: "mode", conf: func(c *Config) { c.Mode = 3 }, say: []string{"mode 3"}},
	{name: "buffer size", conf: func(c *Config) { c.BufferSize = 3000 }, say: []string{"3000", "power of two"}},
	{name: "small buffers", conf: func(c *Config) { c.BufferSize = 1024 }, say: []string{"2048"}},
	{name: "large buffers", conf: func(c *Config) { c.BufferSize = 1 << 15 }, say: []string{"hugepages"}},
	{name: "ring size", conf: func(c *Config) { c.RingSize = 100 }, say: []string{"100", "power of two"}},
	{name: "no memory", conf: func(c *Config) { c.Memory = nil }, say: []string{"page-aligned"}},
	{name: "odd memory", conf: func(c *Config) { c.Memory = c.Memory[1024:] }, say: []string{"page-aligned"}},
	{name: "half a buffer", conf: func(c *Config) { c.Memory = c.Memory[:1024] }, say: []string{"whole buffers"}},
	{name: "foreign buffer", conf: func(c *Config) { c.Fill = []uint64{0, 1 << 16} }, say: []string{"outside"}},
	{name: "too many buffers", conf: func(c *Config) { c.RingSize, c.Fill = 1, make([]uint64, 3) },
		say: []string{"3 initial buffers", "2 entries"}},
}

// TestOpenRefuses makes Open fail for each reason. Nothing may be left behind.
func TestOpenRefuses(t *testing.T) {
	for _, test := range refusals {
		t.Run(test.name, func(t *testing.T) {
			c := newCable(t, test.pair...)
			config := Config{Device: leftDevice, Memory: newMemory(t, 1<<16), BufferSize: bufferSize}
			if test.conf != nil {
				test.conf(&config)
			}
			err := c.left.Do(func() error {
				if test.spoil != nil {
					if err := test.spoil(t, leftDevice); err != nil {
						t.Fatal(err)
					}
				}
				before := xdpOf(t, c.left, leftDevice)
				p, err := Open(config)
				if err == nil {
					p.Close()
				}
				if after := xdpOf(t, c.left, leftDevice); after != before {
					t.Errorf("XDP program: %q before, %q after", before, after)
				}
				return err
			})
			if err == nil || test.want != nil && !errors.Is(err, test.want) ||
				!strings.Contains(err.Error(), config.Device) {
				t.Fatalf("error is %v", err)
			}
			for _, s := range test.say {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q is not in: %v", s, err)
				}
			}
		})
	}
}

// oneQueue leaves the device one receive queue while its peer keeps two transmit queues: native XDP
// on veth rejects that.
func oneQueue(t *testing.T, device string) error {
	s, err := Prepare(device, Options{})
	if err == nil {
		t.Cleanup(func() { s.memory.forget() })
	}
	return err
}

func TestOpenWithoutCapabilities(t *testing.T) {
	c := newCable(t)
	config := Config{Device: leftDevice, Memory: newMemory(t, 1<<20), BufferSize: bufferSize}
	var was unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_MEMLOCK, nil, &was); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: 1 << 16, Max: was.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &low, nil); err != nil {
		t.Fatal(err)
	}
	defer unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &was, nil)
	for _, test := range []struct {
		lacks []int
		want  error
	}{
		{[]int{unix.CAP_NET_RAW}, ErrPermission},
		{[]int{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}, ErrPermission},
		{[]int{unix.CAP_BPF, unix.CAP_SYS_ADMIN}, ErrPermission},
		{[]int{unix.CAP_IPC_LOCK}, ErrMemlock},
		{nil, nil},
	} {
		err := c.left.Do(func() error {
			return netns.Without(func() error {
				p, err := Open(config)
				if err == nil {
					err = p.Close()
				}
				return err
			}, test.lacks...)
		})
		if !errors.Is(err, test.want) {
			t.Errorf("without capabilities %v: %v", test.lacks, err)
		}
	}
	if m := xdpOf(t, c.left, leftDevice); m != "" {
		t.Errorf("a program stayed behind (%s)", m)
	}
}

func TestBufferMTU(t *testing.T) {
	for size, want := range map[int]int{2048: 1646, 4096: 3694} {
		if got := BufferMTU(size); got != want {
			t.Errorf("buffers of %d bytes: MTU %d, not %d", size, got, want)
		}
	}
	c := newCable(t, netns.MTU(1646)) // a frame at the limit must work
	left := newStation(t, c.left, Config{Device: leftDevice}, 64, 8)
	right := newStation(t, c.right, Config{Device: rightDevice}, 64, 8)
	if l, r := left.Parts(), right.Parts(); l != 1 || r != 1 {
		t.Errorf("frames of %d and %d parts", l, r)
	}
	frames := [][]byte{taggedFrame(newRand(), 1646+18, 1), taggedFrame(newRand(), 1646+18, 2)}
	equalFrames(t, frames, carry(t, left, right, frames))
}

// TestBusyPollIsRefused where the kernel does not poll for the socket.
func TestBusyPollIsRefused(t *testing.T) {
	if olderThan(6, 13) {
		t.Skip("this kernel polls for sockets in copy mode")
	}
	c := newCable(t)
	err := c.left.Do(func() error {
		_, err := Open(Config{Device: leftDevice, Memory: newMemory(t, 64*bufferSize), BufferSize: bufferSize,
			BusyPoll: true})
		return err
	})
	if !errors.Is(err, ErrBusyPoll) || !strings.Contains(err.Error(), leftDevice) {
		t.Errorf("opened: %v", err)
	}
	if m := xdpOf(t, c.left, leftDevice); m != "" {
		t.Errorf("its program is still attached (%s)", m)
	}
}

// TestFiltered: an open that a filter of system calls stops names the filter, and not the limit of
// locked memory.
func TestFiltered(t *testing.T) {
	c := newCable(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good, as its filter stays
		if Filtered() {
			t.Error("filtered at first")
		}
		done <- c.left.Do(func() error {
			refuseBPF(t)
			_, err := Open(Config{Device: leftDevice, Memory: newMemory(t, 64*bufferSize), BufferSize: bufferSize})
			return err
		})
	}()
	err := <-done
	if !errors.Is(err, ErrPermission) || !errors.Is(err, ErrFiltered) || strings.Contains(err.Error(), "MEMLOCK") {
		t.Errorf("opened: %v", err)
	}
}
