package confine

import (
	"testing"

	"golang.org/x/sys/unix"
)

// answer runs a filter on one system call as the kernel would (Linux,
// Documentation/networking/filter.rst).
func answer(t *testing.T, filter []unix.SockFilter, arch, number uint32, arguments ...uint32) uint32 {
	t.Helper()
	words := map[uint32]uint32{0: number, 4: arch}
	for i, a := range arguments {
		words[16+8*uint32(i)] = a
	}
	var accumulator uint32
	for at := 0; at < len(filter); at++ {
		i := filter[at]
		jump := func(taken bool) {
			if taken {
				at += int(i.Jt)
			} else {
				at += int(i.Jf)
			}
		}
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			accumulator = words[i.K]
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			accumulator &= i.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(accumulator == i.K)
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			jump(accumulator > i.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(accumulator >= i.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(accumulator&i.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		default:
			t.Fatalf("instruction %d: %+v", at, i)
		}
	}
	t.Fatal("a filter without end")
	return 0
}

// The process that the filters are for.
const here, elsewhere, pid = unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386, 4711

// errno is the answer of a filter that refuses a call with an error.
func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

func TestFilter(t *testing.T) {
	f := filter(here, pid, true)
	for _, test := range []struct {
		name      string
		arch      uint32
		number    uint32
		arguments []uint32
		want      uint32
	}{
		{"send", here, unix.SYS_SENDTO, []uint32{5}, unix.SECCOMP_RET_ALLOW},
		{"ask netlink", here, unix.SYS_SENDTO, []uint32{5, 0, 0, 0, 0, unix.SizeofSockaddrNetlink},
			unix.SECCOMP_RET_ALLOW},
		{"send by IPv4", here, unix.SYS_SENDTO, []uint32{5, 0, 0, 0, 0, unix.SizeofSockaddrInet4}, errno(unix.EPERM)},
		{"connect by sending", here, unix.SYS_SENDTO, []uint32{5, 0, 0, unix.MSG_FASTOPEN, 0, unix.SizeofSockaddrInet4},
			errno(unix.EPERM)},
		{"send to an endless address", here, unix.SYS_SENDTO, []uint32{5, 0, 0, 0, 0, 0xffff_ffff}, errno(unix.EPERM)},
		{"send a message", here, unix.SYS_SENDMSG, []uint32{5}, errno(unix.EPERM)},
		{"chmod", here, unix.SYS_FCHMODAT, nil, errno(unix.EPERM)},
		{"utimensat", here, unix.SYS_UTIMENSAT, nil, errno(unix.EPERM)},
		{"set up a device", here, unix.SYS_IOCTL, []uint32{5, unix.SIOCETHTOOL}, unix.SECCOMP_RET_ALLOW},
		{"type into a terminal", here, unix.SYS_IOCTL, []uint32{0, unix.TIOCSTI}, errno(unix.EPERM)},
		{"receive", here, unix.SYS_RECVFROM, []uint32{5}, unix.SECCOMP_RET_ALLOW},
		{"bpf", here, unix.SYS_BPF, nil, unix.SECCOMP_RET_ALLOW},
		{"a thread", here, unix.SYS_CLONE, []uint32{unix.CLONE_VM | unix.CLONE_THREAD}, unix.SECCOMP_RET_ALLOW},
		{"a user namespace", here, unix.SYS_CLONE, []uint32{unix.CLONE_NEWUSER | unix.CLONE_NEWNS}, errno(unix.EPERM)},
		{"clone3", here, unix.SYS_CLONE3, nil, errno(unix.ENOSYS)},
		{"exec", here, unix.SYS_EXECVE, nil, errno(unix.EPERM)},
		{"the last that is refused", here, unix.SYS_IO_URING_REGISTER, nil, errno(unix.EPERM)},
		{"AF_XDP", here, unix.SYS_SOCKET, []uint32{unix.AF_XDP}, unix.SECCOMP_RET_ALLOW},
		{"AF_UNIX", here, unix.SYS_SOCKET, []uint32{unix.AF_UNIX}, unix.SECCOMP_RET_ALLOW},
		{"AF_PACKET", here, unix.SYS_SOCKET, []uint32{unix.AF_PACKET}, errno(unix.EAFNOSUPPORT)},
		{"TCP", here, unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP},
			unix.SECCOMP_RET_ALLOW},
		{"multipath TCP", here, unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
			errno(unix.EPROTONOSUPPORT)},
		{"SCTP", here, unix.SYS_SOCKET, []uint32{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
			errno(unix.EPROTONOSUPPORT)},
		{"TCP as Go has it", here, unix.SYS_SOCKET,
			[]uint32{unix.AF_INET6, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, unix.SECCOMP_RET_ALLOW},
		{"UDP", here, unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_IP},
			errno(unix.ESOCKTNOSUPPORT)},
		{"UDP over IPv6", here, unix.SYS_SOCKET, []uint32{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC},
			errno(unix.ESOCKTNOSUPPORT)},
		{"raw TCP", here, unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP},
			errno(unix.ESOCKTNOSUPPORT)},
		{"ioctls of devices", here, unix.SYS_SOCKET, []uint32{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC},
			unix.SECCOMP_RET_ALLOW},
		{"route netlink", here, unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE},
			unix.SECCOMP_RET_ALLOW},
		{"generic netlink", here, unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC},
			unix.SECCOMP_RET_ALLOW},
		{"netfilter", here, unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
			errno(unix.EPROTONOSUPPORT)},
		{"kill itself", here, unix.SYS_KILL, []uint32{pid}, unix.SECCOMP_RET_ALLOW},
		{"kill another", here, unix.SYS_KILL, []uint32{pid + 1}, errno(unix.EPERM)},
		{"kill everyone", here, unix.SYS_KILL, []uint32{0xffff_ffff}, errno(unix.EPERM)},
		{"connect", here, unix.SYS_CONNECT, nil, errno(unix.EPERM)},
		{"limit itself", here, unix.SYS_PRLIMIT64, []uint32{0}, unix.SECCOMP_RET_ALLOW},
		{"limit another", here, unix.SYS_PRLIMIT64, []uint32{pid + 1}, errno(unix.EPERM)},
		{"preempt", here, unix.SYS_TGKILL, []uint32{pid, 1, 23}, unix.SECCOMP_RET_ALLOW},
		{"the second way", here, 0x4000_0000 + unix.SYS_SENDTO, nil, errno(unix.EPERM)},
		{"another architecture", elsewhere, unix.SYS_SENDTO, nil, errno(unix.EPERM)},
	} {
		if got := answer(t, f, test.arch, test.number, test.arguments...); got != test.want {
			t.Errorf("%s: answer %#x, want %#x", test.name, got, test.want)
		}
	}
	t.Logf("%d instructions", len(f))
}

// TestFilterRefusesCallsOfTheArchitecture checks the calls that only this architecture has.
func TestFilterRefusesCallsOfTheArchitecture(t *testing.T) {
	f := filter(here, pid, true)
	for _, call := range refusedHere {
		if got := answer(t, f, here, call); got != errno(unix.EPERM) {
			t.Errorf("call %d of this architecture: answer %#x", call, got)
		}
	}
}

// TestFilterWithoutListening checks the filter of a process that may not listen.
func TestFilterWithoutListening(t *testing.T) {
	deaf := filter(here, pid, false)
	for family, want := range map[uint32]uint32{unix.AF_INET: errno(unix.EAFNOSUPPORT),
		unix.AF_INET6: errno(unix.EAFNOSUPPORT), unix.AF_UNIX: unix.SECCOMP_RET_ALLOW} {
		if got := answer(t, deaf, here, unix.SYS_SOCKET, family, unix.SOCK_STREAM); got != want {
			t.Errorf("family %d of a process that may not listen: answer %#x, want %#x", family, got, want)
		}
	}
}
