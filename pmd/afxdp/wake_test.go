package afxdp

import (
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pmd"
	"sluice/ring"
)

// asking returns a ring whose kernel always asks for a wake-up.
func asking[T any](t *testing.T) kernelRing[T] {
	t.Helper()
	r, err := ring.New[T](8)
	if err != nil {
		t.Fatal(err)
	}
	flags := new(atomic.Uint32)
	flags.Store(unix.XDP_RING_NEED_WAKEUP)
	return kernelRing[T]{Ring: r, flags: flags}
}

// taker returns a socket that takes all that is sent, as a driver takes wake-ups.
func taker(t *testing.T) int {
	t.Helper()
	to, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close(); unix.Close(fd) })
	address := &unix.SockaddrInet4{Port: to.LocalAddr().(*net.UDPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Connect(fd, address); err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestFlushWakesOnce: a driver in zero-copy mode that always asks for a wake-up gets one for new
// frames, and another one after a time for those that it leaves in the ring. In copy mode, where
// the kernel sends nothing otherwise, each Flush wakes it.
func TestFlushWakesOnce(t *testing.T) {
	for _, zeroCopy := range []bool{true, false} {
		p := &Port{socket: &socket{fd: taker(t), zeroCopy: zeroCopy, tx: asking[pmd.Desc](t), fill: asking[uint64](t)}}
		expect := func(what string, flushes int, zero, copies uint64) {
			t.Helper()
			want := copies
			if zeroCopy {
				want = zero
			}
			before := p.txWakeups.Load()
			for range flushes {
				p.Flush()
			}
			if n := p.txWakeups.Load() - before; n != want {
				t.Errorf("zero-copy %t, %s: woken %d times by %d calls, not %d", zeroCopy, what, n, flushes, want)
			}
		}
		taken := make([]pmd.Desc, 2) // by the driver
		expect("no frames", 10, 0, 0)
		p.tx.Push(make([]pmd.Desc, 3))
		expect("new frames", 10, 1, 10)
		p.tx.Push(make([]pmd.Desc, 1))
		expect("one more", 10, 1, 10)
		p.tx.Pop(taken)
		expect("two taken", 10, 0, 10)
		expect("the others stay", 2*(forgetful+1), 2, 2*(forgetful+1))
		p.tx.Pop(taken)
		expect("all taken", 2*forgetful, 0, 0)
		p.fd = -1
		p.tx.Push(make([]pmd.Desc, 1))
		expect("wake-ups fail", 10, 10, 10)
	}
}
