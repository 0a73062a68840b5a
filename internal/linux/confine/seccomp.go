package confine

import (
	"errors"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// refused are system calls that a switch does not need but an intruder would. It lists refused
// calls instead of allowed ones because a list of what a runtime needs is never complete, and a
// missing call would stop a healthy switch. The kernel answers EPERM.
var refused = []uint32{
	// other programs
	unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP,
	unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_TKILL,
	// other services: root can make systemd or a container's daemon start programs, through sockets
	// that landlock leaves open
	unix.SYS_CONNECT,
	// other rights: root's processes own root's files, and landlock does not prevent changing their
	// owner or setting a setuid bit
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_SETXATTR,
	unix.SYS_LSETXATTR,
	unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	unix.SYS_REMOVEXATTRAT,
	unix.SYS_FILE_SETATTR, unix.SYS_UTIMENSAT,
	// other machines; for sendto see filter
	unix.SYS_SENDMSG, unix.SYS_SENDMMSG,
	// other places
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS, unix.SYS_UNSHARE,
	unix.SYS_OPEN_BY_HANDLE_AT,
	// other identities
	unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID,
	unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_SETGROUPS,
	// the machine
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON,
	unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_CLOCK_ADJTIME,
	unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SYSLOG, unix.SYS_PERSONALITY,
	// large, old or often attacked parts of the kernel
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_IO_URING_SETUP,
	unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}

// limited is a system call with an argument that must have one of a few values.
type limited struct {
	call, argument uint32
	values         []uint32
	answer         unix.Errno // for other values
}

// limits returns the calls that process pid may use only on itself.
func limits(pid int) []limited {
	return []limited{
		{unix.SYS_KILL, 0, []uint32{uint32(pid)}, unix.EPERM},
		{unix.SYS_TGKILL, 0, []uint32{uint32(pid)}, unix.EPERM}, // Go uses it for preemption
		{unix.SYS_PRLIMIT64, 0, []uint32{0, uint32(pid)}, unix.EPERM},
	}
}

// sockets are the kinds of sockets that a switch uses: protocols by family. The Internet families
// are for listeners, and only TCP is allowed there. Landlock does not check the others: MPTCP,
// which Go prefers, SCTP, SMC, UDP, and raw sockets, which read what others receive.
var sockets = []struct {
	family    uint32
	listens   bool // only if the process may listen, and only SOCK_STREAM
	protocols []uint32
}{
	{unix.AF_UNIX, false, []uint32{0}},
	{unix.AF_INET, true, []uint32{unix.IPPROTO_IP, unix.IPPROTO_TCP}},
	{unix.AF_INET6, true, []uint32{unix.IPPROTO_IP, unix.IPPROTO_TCP}},
	{unix.AF_NETLINK, false, []uint32{unix.NETLINK_ROUTE, unix.NETLINK_GENERIC}},
	{unix.AF_XDP, false, []uint32{0}},
}

// architectures are the kernel's names of the architectures whose call numbers this package has.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// filterCalls installs the filter. It allows listen(2) if the process may still listen. It returns
// false if it has no filter for this architecture or the kernel supports none.
func filterCalls(listens bool) (bool, error) {
	architecture, known := architectures[runtime.GOARCH]
	if !known {
		return false, nil
	}
	err := installFilter(filter(architecture, os.Getpid(), listens))
	// a kernel without CONFIG_SECCOMP or without filters
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	return true, err
}

// assembler appends instructions to a filter.
type assembler []unix.SockFilter

func (f *assembler) load(offset uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

func (f *assembler) and(k uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: k})
}

// skip skips yes instructions if the loaded value compares with k, and no instructions if not.
func (f *assembler) skip(compare uint16, k uint32, yes, no uint8) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, K: k, Jt: yes, Jf: no})
}

func (f *assembler) answer(with uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with})
}

func (f *assembler) fail(errno unix.Errno) { f.answer(unix.SECCOMP_RET_ERRNO | uint32(errno)) }
func (f *assembler) allow()                { f.answer(unix.SECCOMP_RET_ALLOW) }

// when appends the code of then, which must end with an answer, for the case that the loaded value
// is k.
func (f *assembler) when(k uint32, then func()) {
	at := len(*f)
	f.skip(unix.BPF_JEQ, k, 0, 0)
	then()
	(*f)[at].Jf = uint8(len(*f) - at - 1)
}

// judgeSocket appends the rules for a socket(2) call whose arguments are at an offset.
func (f *assembler) judgeSocket(arguments uint32, listens bool) {
	const kind, stream = 0xf, unix.SOCK_STREAM // the other bits of the type are flags
	f.load(arguments)
	for _, s := range sockets {
		if s.listens && !listens {
			continue
		}
		f.when(s.family, func() {
			if s.listens {
				f.load(arguments + 8)
				f.and(kind)
				f.skip(unix.BPF_JEQ, stream, 1, 0)
				f.fail(unix.ESOCKTNOSUPPORT)
			}
			f.load(arguments + 8*2)
			for _, p := range s.protocols {
				f.when(p, f.allow)
			}
			f.fail(unix.EPROTONOSUPPORT)
		})
	}
	f.fail(unix.EAFNOSUPPORT)
}

// filter returns the program that the kernel runs on system calls. It allows most calls by their
// number alone, including a worker's recvfrom. The kernel remembers those and does not run the
// program for them again (seccomp_cache_prepare in kernel/seccomp.c).
func filter(architecture uint32, pid int, listens bool) []unix.SockFilter {
	var f assembler
	// offsets in struct seccomp_data; 8 bytes per argument, low half first
	const number, arch, arguments = 0, 4, 16
	const otherTable = 0x4000_0000 // higher numbers are those of x32, a second way to each call
	f.load(arch)
	f.skip(unix.BPF_JEQ, architecture, 1, 0)
	f.fail(unix.EPERM)
	f.load(number)
	// First sendto, with which a worker makes the kernel send. It may have no address, or one no
	// longer than that of netlink. This excludes other machines, reached by UDP or by TCP before
	// there is a connection (MSG_FASTOPEN), and services of this machine, except sockets whose
	// names have up to ten bytes, such as /dev/log.
	f.when(unix.SYS_SENDTO, func() {
		f.load(arguments + 8*5)
		f.skip(unix.BPF_JGT, unix.SizeofSockaddrNetlink, 0, 1)
		f.fail(unix.EPERM)
		f.allow()
	})
	f.skip(unix.BPF_JGE, otherTable, 0, 1)
	f.fail(unix.EPERM)
	for _, call := range slices.Concat(refused, refusedHere) {
		f.when(call, func() { f.fail(unix.EPERM) })
	}
	if !listens { // a socket without an address gets a port chosen by the kernel, unseen by landlock
		f.when(unix.SYS_LISTEN, func() { f.fail(unix.EPERM) })
	}
	// A user namespace would give a process all capabilities in it. Filters can't see the flags of
	// clone3, so it fails with ENOSYS, and callers fall back to clone.
	f.when(unix.SYS_CLONE3, func() { f.fail(unix.ENOSYS) })
	f.when(unix.SYS_CLONE, func() {
		f.load(arguments)
		f.skip(unix.BPF_JSET, unix.CLONE_NEWUSER, 0, 1)
		f.fail(unix.EPERM)
		f.allow()
	})
	f.when(unix.SYS_SOCKET, func() { f.judgeSocket(arguments, listens) })
	// These push input into a terminal. The shell that started the switch would read it as typed.
	f.when(unix.SYS_IOCTL, func() {
		f.load(arguments + 8)
		for _, command := range []uint32{unix.TIOCSTI, unix.TIOCLINUX} {
			f.when(command, func() { f.fail(unix.EPERM) })
		}
		f.allow()
	})
	for _, l := range limits(pid) {
		f.when(l.call, func() {
			f.load(arguments + 8*l.argument)
			for _, v := range l.values {
				f.when(v, f.allow)
			}
			f.fail(l.answer)
		})
	}
	f.allow()
	return f
}
