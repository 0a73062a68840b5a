package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/internal/linux/ethtool"
	"sluice/pmd/afxdp"
)

// asChild, an environment variable, makes the test binary do one of these and exit, because
// confinement can't be undone.
const asChild = "SLUICE_TEST_CONFINE"

const (
	tryToListen   = "listen" // confined without a port to listen on, try to listen
	tryEverything = "try"    // confined, print what still works
	openAPort     = "open"   // confined to the capabilities in the argument, open a port and give it back
	// confined by a kernel without the system calls in the argument, print the result
	lackSomething = "lack"
)

func TestMain(m *testing.M) {
	do := map[string]func(argument string) error{tryToListen: listens, tryEverything: tries, openAPort: opens,
		lackSomething: lacks}[os.Getenv(asChild)]
	if do == nil {
		os.Exit(m.Run())
	}
	if err := do(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child runs the test binary again in a namespace, or in this one if that is nil.
func child(t *testing.T, in *netns.Namespace, do, argument string) (stdout string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, log strings.Builder
	c := exec.Command(self, argument)
	c.Env = append(os.Environ(), asChild+"="+do)
	c.Stdout, c.Stderr = &out, &log
	start := c.Start
	if in != nil {
		start = func() error { return in.Start(c) }
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		return "", fmt.Errorf("%w: %s", err, log.String())
	}
	return out.String(), nil
}

// attempt is something that a confined process tries, with the kernel's expected answer.
type attempt struct {
	name string
	do   func(directory string) error
	want error
}

var attempts = []attempt{
	{"start a program", func(string) error { return unix.Exec("/bin/true", []string{"true"}, nil) }, unix.EPERM},
	{"trace its parent", func(string) error { return unix.PtraceAttach(os.Getppid()) }, unix.EPERM},
	{"signal its parent", func(string) error { return unix.Kill(os.Getppid(), 0) }, unix.EPERM},
	{"limit its parent",
		func(string) error { return unix.Prlimit(os.Getppid(), unix.RLIMIT_NOFILE, nil, new(unix.Rlimit)) },
		unix.EPERM},
	{"limit itself", func(string) error { return unix.Prlimit(os.Getpid(), unix.RLIMIT_NOFILE, nil, new(unix.Rlimit)) },
		nil},
	{"ask a service", func(d string) error { return connects(filepath.Join(d, "service")) }, unix.EPERM},
	{"tell one something", func(d string) error { return tells(filepath.Join(d, "news")) }, unix.EPERM},
	{"signal itself", func(string) error { return unix.Kill(os.Getpid(), 0) }, nil},
	{"make a user namespace", func(string) error { return unix.Unshare(unix.CLONE_NEWUSER) }, unix.EPERM},
	{"mount", func(d string) error { return unix.Mount("tmpfs", d, "tmpfs", 0, "") }, unix.EPERM},
	{"set the clock", func(string) error { return unix.Settimeofday(&unix.Timeval{Sec: 1}) }, unix.EPERM},
	{"a packet socket", socket(unix.AF_PACKET), unix.EAFNOSUPPORT},
	{"a socket of vsock", socket(unix.AF_VSOCK), unix.EAFNOSUPPORT},
	{"an AF_XDP socket", socket(unix.AF_XDP), nil},
	{"a netlink socket", socket(unix.AF_NETLINK), nil},
	{"generic netlink", ofProtocol(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC), nil},
	{"netlink of sockets", ofProtocol(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_INET_DIAG), unix.EPROTONOSUPPORT},
	{"netlink of the firewall", ofProtocol(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
		unix.EPROTONOSUPPORT},
	{"netlink of IPsec", ofProtocol(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM), unix.EPROTONOSUPPORT},
	{"netlink of audits", ofProtocol(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), unix.EPROTONOSUPPORT},
	{"multipath TCP", ofProtocol(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), unix.EPROTONOSUPPORT},
	{"listen on TCP", func(string) error { return closing(net.Listen("tcp", "127.0.0.1:0")) }, unix.EACCES},
	{"listen on the metrics port",
		func(string) error { return closing(net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", mayListen))) }, nil},
	{"connect by TCP", func(string) error { return closes(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", mayListen))) },
		unix.EPERM},
	{"connect with MSG_FASTOPEN", opensFast, unix.EPERM},
	{"UDP over IPv4", ofProtocol(unix.AF_INET, unix.SOCK_DGRAM, 0), unix.ESOCKTNOSUPPORT},
	{"UDP over IPv6", ofProtocol(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_IP), unix.ESOCKTNOSUPPORT},
	{"raw TCP", ofProtocol(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP), unix.ESOCKTNOSUPPORT},
	{"ioctls of devices", asksDevice, nil},
	{"sendmsg", func(string) error { return call(unix.SYS_SENDMSG, ^uintptr(0), 0) }, unix.EPERM},
	{"sendmmsg", func(string) error { return call(unix.SYS_SENDMMSG, ^uintptr(0), 0) }, unix.EPERM},
	{"chmod", func(d string) error { return os.Chmod(filepath.Join(d, "write/kept"), 0o4755) }, unix.EPERM},
	{"chown", func(d string) error { return os.Chown(filepath.Join(d, "write/kept"), 1, 1) }, unix.EPERM},
	{"lchown", func(d string) error { return os.Lchown(filepath.Join(d, "write/kept"), 1, 1) }, unix.EPERM},
	{"fchmod", opened(func(fd int) error { return unix.Fchmod(fd, 0o777) }), unix.EPERM},
	{"fchown", opened(func(fd int) error { return unix.Fchown(fd, 1, 1) }), unix.EPERM},
	{"fchmodat", opened(func(fd int) error {
		return unix.Fchmodat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), 0o777, unix.AT_SYMLINK_NOFOLLOW)
	}), unix.EPERM},
	{"setxattr", func(d string) error {
		return unix.Setxattr(filepath.Join(d, "write/kept"), "user.a", []byte("b"),
			0)
	}, unix.EPERM},
	{"fsetxattr", opened(func(fd int) error { return unix.Fsetxattr(fd, "user.a", []byte("b"), 0) }), unix.EPERM},
	{"removexattr", func(d string) error { return unix.Removexattr(filepath.Join(d, "write/kept"), "user.a") },
		unix.EPERM},
	{"utimensat", func(d string) error {
		return os.Chtimes(filepath.Join(d, "write/kept"), time.Unix(1, 0), time.Unix(1, 0))
	}, unix.EPERM},
	{"utimensat of a file out of reach",
		func(string) error { return os.Chtimes("/etc/shadow", time.Time{}, time.Time{}) }, unix.EPERM},
	{"utimes", func(d string) error { return unix.Utimes(filepath.Join(d, "write/kept"), make([]unix.Timeval, 2)) },
		unix.EPERM},
	{"futimesat", func(d string) error {
		return unix.Futimesat(unix.AT_FDCWD, filepath.Join(d, "write/kept"), make([]unix.Timeval, 2))
	}, unix.EPERM},
	{"type into a terminal", func(string) error { return call(unix.SYS_IOCTL, ^uintptr(0), unix.TIOCSTI) }, unix.EPERM},
	{"paste into a console", func(string) error { return call(unix.SYS_IOCTL, ^uintptr(0), unix.TIOCLINUX) },
		unix.EPERM},
	{"ask a terminal", func(string) error { return call(unix.SYS_IOCTL, ^uintptr(0), unix.TCGETS) }, unix.EBADF},
	{"make a device node",
		func(d string) error { return unix.Mknod(filepath.Join(d, "write/device"), unix.S_IFCHR|0o600, 0x103) },
		unix.EACCES},
	{"link to a file out of reach",
		func(d string) error { return os.Link("/etc/shadow", filepath.Join(d, "write/shadow")) }, unix.EXDEV},
	{"load a module", func(string) error { return unix.InitModule(nil, "") }, unix.EPERM},
	{"boot another kernel", func(string) error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) }, unix.EPERM},
	{"io_uring", func(string) error { return call(unix.SYS_IO_URING_SETUP, 1, 0) }, unix.EPERM},
	{"perf_event_open", func(string) error { return call(unix.SYS_PERF_EVENT_OPEN, 0, 0) }, unix.EPERM},
	{"setns", func(string) error { return call(unix.SYS_SETNS, 0, unix.CLONE_NEWNET) }, unix.EPERM},
	{"keyctl", func(string) error { return call(unix.SYS_KEYCTL, 0, 0) }, unix.EPERM},
	{"read what is readable", func(d string) error { return reads(filepath.Join(d, "read/file")) }, nil},
	{"write what is readable", func(d string) error { return writes(filepath.Join(d, "read/file")) }, unix.EACCES},
	{"make a file where it may", func(d string) error { return writes(filepath.Join(d, "write/new")) }, nil},
	{"remove it", func(d string) error { return os.Remove(filepath.Join(d, "write/new")) }, nil},
	{"a socket where it may",
		func(d string) error { return closing(net.Listen("unix", filepath.Join(d, "write/socket"))) }, nil},
	{"read a file of root's", func(string) error { return reads("/etc/shadow") }, unix.EACCES},
	{"read of itself", func(string) error { return reads("/proc/self/status") }, nil},
	{"read of devices", func(string) error { return reads("/sys/class/net/lo/mtu") }, nil},
	{"change the kernel", func(string) error { return writes("/proc/sys/kernel/hostname") }, unix.EACCES},
}

func socket(family int) func(string) error { return ofProtocol(family, unix.SOCK_RAW, 0) }

func ofProtocol(family, kind, protocol int) func(string) error {
	return func(string) error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

func connects(path string) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	return c.Close()
}

// tells sends a message to a socket without connecting to it.
func tells(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Sendto(fd, []byte("well"), 0, &unix.SockaddrUnix{Name: path}), unix.Close(fd))
}

// mayListen is the TCP port on which the process may listen.
const mayListen = 9473

func closes(c net.Conn, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}

// opensFast connects to the loopback address by sending (TCP fast open).
func opensFast(string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: mayListen, Addr: [4]byte{127, 0, 0, 1}}
	return errors.Join(unix.Sendto(fd, []byte("out"), unix.MSG_FASTOPEN, to), unix.Close(fd))
}

func asksDevice(string) error {
	s, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Features("lo")
	return err
}

// call makes a system call whose arguments the kernel would refuse even without the filter.
func call(number, first, second uintptr) error {
	if _, _, errno := unix.Syscall(number, first, second, 0); errno != 0 {
		return errno
	}
	return nil
}

// opened returns an attempt that calls do on an open file.
func opened(do func(fd int) error) func(string) error {
	return func(directory string) error {
		f, err := os.OpenFile(filepath.Join(directory, "write/kept"), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(do(int(f.Fd())), f.Close())
	}
}

func closing(l net.Listener, err error) error {
	if err != nil {
		return err
	}
	return l.Close()
}

func reads(path string) error {
	_, err := os.ReadFile(path)
	return err
}

func writes(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// tries confines this process to a directory and makes all attempts. It prints the unexpected
// results and the status of all threads.
func tries(directory string) error {
	held := make(chan struct{})
	for range 4 { // threads that are busy elsewhere
		go func() {
			runtime.LockOSThread()
			<-held
		}()
	}
	if err := Forgo(); err != nil {
		return err
	}
	c, err := Apply(Params{Read: []string{filepath.Join(directory, "read")},
		Write: []string{filepath.Join(directory, "write")}, Listen: []uint16{mayListen}})
	if err != nil {
		return err
	}
	var wrong []string
	for _, a := range attempts {
		if got := a.do(directory); !errors.Is(got, a.want) || a.want == nil && got != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v, want %v", a.name, got, a.want))
		}
	}
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		return err
	}
	var status []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		status = append(status, string(text))
	}
	return json.NewEncoder(os.Stdout).Encode(tried{c, wrong, status})
}

type tried struct {
	Confinement Confinement
	Wrong       []string
	Status      []string // of each thread
}

func TestConfined(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to have something to lose")
	}
	directory := t.TempDir()
	for _, d := range []string{"read", "write"} {
		if err := os.Mkdir(filepath.Join(directory, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writes(filepath.Join(directory, "read/file")),
		writes(filepath.Join(directory, "write/kept"))); err != nil {
		t.Fatal(err)
	}
	service, err := net.Listen("unix", filepath.Join(directory, "service"))
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	news, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(directory, "news"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer news.Close()
	out, err := child(t, nil, tryEverything, directory)
	if err != nil {
		t.Fatal(err)
	}
	var r tried
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v; %d threads", r.Confinement, len(r.Status))
	for _, w := range r.Wrong {
		t.Error(w)
	}
	if len(r.Status) < 5 {
		t.Errorf("only %d threads: this test shows little", len(r.Status))
	}
	var mask uint64
	for _, c := range Needs {
		mask |= 1 << c.Number
	}
	kept := fmt.Sprintf("%016x", mask)
	for _, text := range r.Status {
		for name, want := range map[string]string{
			"CapInh": "0000000000000000", "CapPrm": kept, "CapEff": kept, "CapBnd": "0000000000000000",
			"CapAmb":     "0000000000000000",
			"NoNewPrivs": "1", "Seccomp": "2",
		} {
			if line := fmt.Sprintf("%s:\t%s\n", name, want); !strings.Contains(text, line) {
				t.Errorf("a thread has not %q in its status:\n%s", line, text)
			}
		}
	}
}

// listens confines this process without ports to listen on, and calls listen on a socket without an
// address.
func listens(string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := Forgo(); err != nil {
		return err
	}
	if _, err := Apply(Params{}); err != nil {
		return err
	}
	if err := unix.Listen(fd, 1); !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("listen: %v, want %w", err, unix.EPERM)
	}
	if err := ofProtocol(unix.AF_INET, unix.SOCK_STREAM, 0)(""); !errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("another socket: %v, want %w", err, unix.EAFNOSUPPORT)
	}
	return nil
}

// TestNothingListens: a process without ports to listen on can't begin to listen, not even on a
// port chosen by the kernel.
func TestNothingListens(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to have something to lose")
	}
	if _, err := child(t, nil, tryToListen, ""); err != nil {
		t.Error(err)
	}
}

// lacks confines this process where the kernel or container does not support everything. calls are
// numbers of system calls with the errors that they return, such as "444:1,317:38".
func lacks(calls string) error {
	f := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the call's number is at 0
	for call := range strings.SplitSeq(calls, ",") {
		var number, errno uint32
		if _, err := fmt.Sscanf(call, "%d:%d", &number, &errno); err != nil {
			return err
		}
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno})
	}
	f = append(f, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := installFilter(f); err != nil {
		return err
	}
	if err := Forgo(); err != nil {
		return err
	}
	c, err := Apply(Params{})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(c)
}

// TestWhatIsMissing: features that the kernel lacks or the container denies are missing from the
// result, and no others.
func TestWhatIsMissing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to have something to lose")
	}
	version, err := landlockVersion()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, calls string
		landlock    int
		seccomp     bool
	}{
		{"no landlock", fmt.Sprintf("%d:%d", unix.SYS_LANDLOCK_CREATE_RULESET, unix.ENOSYS), 0, true},
		{"landlock not booted", fmt.Sprintf("%d:%d", unix.SYS_LANDLOCK_CREATE_RULESET, unix.EOPNOTSUPP), 0, true},
		{"landlock not for containers", fmt.Sprintf("%d:%d", unix.SYS_LANDLOCK_CREATE_RULESET, unix.EPERM), 0, true},
		{"no seccomp", fmt.Sprintf("%d:%d", unix.SYS_SECCOMP, unix.ENOSYS), version, false},
		{"no filters", fmt.Sprintf("%d:%d", unix.SYS_SECCOMP, unix.EINVAL), version, false},
	} {
		out, err := child(t, nil, lackSomething, test.calls)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var c Confinement
		if err := json.Unmarshal([]byte(out), &c); err != nil {
			t.Fatal(err)
		}
		if c.Landlock != test.landlock || c.Seccomp != test.seccomp || len(c.Capabilities) != len(Needs) {
			t.Errorf("%s: %+v", test.name, c)
		}
	}
}

// opens confines this process to some capabilities, separated by commas, and then opens port0 and
// gives it back. It locks more memory than the limit allows.
func opens(capabilities string) error {
	var keep []Capability
	for _, c := range Needs {
		if slices.Contains(strings.Split(capabilities, ","), c.Name) {
			keep = append(keep, c)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}); err != nil {
		return err
	}
	if err := afxdp.MakeStateDirectory(); err != nil {
		return err
	}
	const device, buffers, size = "port0", 512, 2048
	memory, err := unix.Mmap(-1, 0, buffers*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	if err := Forgo(); err != nil {
		return err
	}
	if _, err := apply(Params{Write: []string{afxdp.StateDirectory}}, keep); err != nil {
		return err
	}
	settings, err := afxdp.Prepare(device, afxdp.Options{})
	if err != nil {
		return err
	}
	port, err := afxdp.Open(afxdp.Config{Device: device, Memory: memory, BufferSize: size, RingSize: 64,
		Fill: []uint64{0}})
	if err == nil {
		err = port.Close()
	}
	return errors.Join(err, settings.Restore())
}

// TestEachIsNeeded opens a port with all kept capabilities, and without each of them. A capability
// that a kernel does not require must not be kept.
func TestEachIsNeeded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and AF_XDP sockets")
	}
	l, err := netns.New("confine")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	here, err := l.Namespace("here")
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Namespace("there")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Veth(here, "port0", there, "host0"); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range Needs {
		all = append(all, c.Name)
	}
	if _, err := child(t, here, openAPort, strings.Join(all, ",")); err != nil {
		t.Errorf("with all of them: %v", err)
	}
	for i, name := range all {
		rest := slices.Delete(slices.Clone(all), i, i+1)
		_, err := child(t, here, openAPort, strings.Join(rest, ","))
		if err == nil {
			t.Errorf("without %s, which is kept, a port is opened and given back", name)
		}
		t.Logf("without %s: %v", name, err)
	}
}
