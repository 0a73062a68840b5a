package afxdp

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"sluice/pmd"
	"sluice/ring"
)

// socket is an AF_XDP socket with its four rings.
type socket struct {
	fd         int
	fill       kernelRing[uint64]   // to the kernel: empty buffers
	completion kernelRing[uint64]   // from the kernel: buffers of frames that have left
	rx, tx     kernelRing[pmd.Desc] // from and to the kernel: frames
	bound      *unix.SockaddrXDP    // nil before bind
	zeroCopy   bool
	scatter    bool  // frames may have several parts (XDP_USE_SG)
	held       bool  // closed, but the kernel is not known to have released the memory
	fallback   error // why zero-copy is not in use
}

// kernelRing is a ring shared with the kernel, in memory that both map.
type kernelRing[T any] struct {
	*ring.Ring[T]
	flags *atomic.Uint32 // written by the kernel
	mem   []byte
}

// needsWakeup reports whether the kernel needs a system call to look at the ring. Submit stores the
// ring's index before this load, with a full fence between them (ring.Ring.Submit); the kernel sets
// the flag before its last look at the index. So at least one side sees the other's store.
func (r *kernelRing[T]) needsWakeup() bool { return r.flags.Load()&unix.XDP_RING_NEED_WAKEUP != 0 }

// newSocket returns an unbound socket, whose RX ring has rx entries. deviceRing is the number of
// entries of the device's own receive ring.
func newSocket(c Config, rx, deviceRing int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, refused(createSocket, err)
	}
	s := &socket{fd: fd}
	if err := s.setUp(c, rx, deviceRing); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *socket) setUp(c Config, rx, deviceRing int) error {
	if err := s.register(c); err != nil {
		return refused(registerMemory, err)
	}
	at, err := getsockopt[unix.XDPMmapOffsets](s.fd, unix.SOL_XDP, unix.XDP_MMAP_OFFSETS)
	if err != nil {
		return refused(createRing, err)
	}
	fill := fillSize(c.RingSize, deviceRing)
	var errs [4]error
	s.fill, errs[0] = mapRing[uint64](s.fd, unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_PGOFF_FILL_RING, at.Fr, fill)
	// Twice the TX ring, because frames that have left the TX ring but not yet the device hold an
	// entry, too.
	s.completion, errs[1] = mapRing[uint64](s.fd, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_UMEM_PGOFF_COMPLETION_RING,
		at.Cr, 2*c.RingSize)
	s.rx, errs[2] = mapRing[pmd.Desc](s.fd, unix.XDP_RX_RING, unix.XDP_PGOFF_RX_RING, at.Rx, rx)
	s.tx, errs[3] = mapRing[pmd.Desc](s.fd, unix.XDP_TX_RING, unix.XDP_PGOFF_TX_RING, at.Tx, c.RingSize)
	if err := errors.Join(errs[:]...); err != nil {
		return refused(createRing, err)
	}
	return nil
}

// fillSize returns the size of a fill ring with a buffer for every frame that the device's ring and
// the RX ring can hold. A smaller ring could run empty although the worker is not late.
func fillSize(ringSize, deviceRing int) int {
	return 1 << bits.Len(uint(ringSize+max(ringSize, deviceRing)-1))
}

// register makes the memory the socket's UMEM. Each socket registers the whole memory separately.
// The kernel's way to share a registration (XDP_SHARED_UMEM) would tie all sockets to the mode and
// flags of the first: a port without zero-copy would deny it to all, and the first port would have
// to close last. Buffers may still move between ports, because the kernel does not track their
// owners. The cost is page table entries in the kernel and, if locked memory is limited, that each
// port counts the whole memory.
func (s *socket) register(c Config) error {
	return setsockopt(s.fd, unix.SOL_XDP, unix.XDP_UMEM_REG, &unix.XDPUmemReg{
		Addr: address(c.Memory), Len: uint64(len(c.Memory)), Size: uint32(c.BufferSize), Headroom: headroom,
	})
}

// TryMemory tests whether the kernel accepts a memory with buffers of bufferSize bytes for a
// socket. Its errors are those of Open.
func TryMemory(memory []byte, bufferSize int) error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return refused(createSocket, err)
	}
	defer unix.Close(fd)
	if err := (&socket{fd: fd}).register(Config{Memory: memory, BufferSize: bufferSize}); err != nil {
		return refused(registerMemory, err)
	}
	return nil
}

// mapRing creates one of the four rings and maps it.
func mapRing[T any](fd, option int, offset int64, at unix.XDPRingOffset, size int) (r kernelRing[T], err error) {
	entries := uint32(size)
	if err := setsockopt(fd, unix.SOL_XDP, option, &entries); err != nil {
		return r, err
	}
	length := int(at.Desc) + size*sizeOf[T]()
	if r.mem, err = unix.Mmap(fd, offset, length, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return r, err
	}
	r.flags = flagsAt(r.mem, at.Flags)
	r.Ring, err = ring.Over[T](r.mem, ring.Layout{Producer: at.Producer, Consumer: at.Consumer, Slots: at.Desc}, size)
	return r, err
}

// bind binds the socket to a device's queue in the best allowed mode that the device supports. The
// flags always have a mode: without one, the kernel would copy without a word where a device has no
// frames of several parts in zero-copy mode.
func (s *socket) bind(d device, c Config, mode Mode) error {
	s.scatter = d.mtu > BufferMTU(c.BufferSize)
	if mode != Copy {
		s.fallback = s.bindZeroCopy(d, c.Queue, mode, c.BufferSize)
		switch {
		case s.fallback == nil, errors.Is(s.fallback, ErrBusy):
			return s.fallback
		case mode == ZeroCopy && errors.Is(s.fallback, ErrZeroCopy):
			return fmt.Errorf("%w: choose copy mode", s.fallback)
		case mode == ZeroCopy:
			return s.fallback
		}
	}
	needed := s.scatter
	s.scatter = needed || c.Scatter && c.Transmitter == nil
	err := s.tryBind(d, c.Queue, unix.XDP_COPY, bindTries)
	if s.scatter && !needed && errors.Is(err, unix.EINVAL) {
		s.scatter = false
		err = s.tryBind(d, c.Queue, unix.XDP_COPY, bindTries)
	}
	if s.scatter && errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%s: %w (%w): kernels before 6.6 receive no frames in several buffers: "+
			"run `ip link set dev %s mtu %d`", bindSocket, ErrMTU, err, d.name, BufferMTU(c.BufferSize))
	}
	if err != nil {
		return refused(bindSocket, err)
	}
	return nil
}

// bindZeroCopy binds the socket in zero-copy mode, if frames of the device arrive whole there.
func (s *socket) bindZeroCopy(d device, queue int, mode Mode, bufferSize int) error {
	if mode == Auto && drivers[d.driver].Replays {
		return ErrReplay
	}
	if err := d.checkZeroCopy(bufferSize); err != nil {
		return err
	}
	switch err := s.tryBind(d, queue, unix.XDP_ZEROCOPY, bindTries); {
	case err == nil:
		s.zeroCopy = true
		return nil
	case errors.Is(err, unix.EBUSY):
		return refused(bindSocket, err)
	default:
		return d.refusesZeroCopy(err, bufferSize)
	}
}

// bindTries makes tryBind wait up to a second.
const bindTries = 100

// tryBind waits for a queue that another socket held before: the kernel frees it some time after
// that socket was closed or its process killed. Tries are 10 ms apart.
func (s *socket) tryBind(d device, queue int, flags uint16, tries int) (err error) {
	flags |= unix.XDP_USE_NEED_WAKEUP
	if s.scatter {
		flags |= unix.XDP_USE_SG
	}
	to := &unix.SockaddrXDP{Ifindex: uint32(d.index), QueueID: uint32(queue), Flags: flags}
	for range tries {
		if err = unix.Bind(s.fd, to); err == nil {
			s.bound = to
		}
		if err != unix.EBUSY {
			return err
		}
		pause(10)
	}
	return err
}

// pause sleeps for ms milliseconds.
func pause(ms int) { _, _ = unix.Poll(nil, ms) }

// widen raises the kernel's limits per wake-up in copy mode, so that one wake-up sends the whole TX
// ring. Flush lasts as long as that takes; for a shorter Flush, hand over fewer frames.
func (s *socket) widen(c Config) error {
	if !s.zeroCopy {
		// Kernels before 6.17 lack this option and send 32 frames per call; the rest is EAGAIN.
		budget := uint32(c.RingSize)
		_ = setsockopt(s.fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, &budget)
		// Frames in flight count with their bookkeeping, which is no larger than a buffer. Without
		// CAP_NET_ADMIN, which attaching required, the limit stays: EAGAIN again.
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*c.RingSize*c.BufferSize)
	}
	if c.BusyPoll {
		return s.preferBusyPoll()
	}
	return nil
}

// close closes the socket and waits until the kernel is done with it. The rings' mappings also hold
// the socket, so they are unmapped first. A child that this process is starting has a copy of the
// descriptor until it executes its program: the lock waits for that.
func (s *socket) close() error {
	errs := []error{s.fill.unmap(), s.completion.unmap(), s.rx.unmap(), s.tx.unmap()}
	syscall.ForkLock.RLock()
	errs = append(errs, unix.Close(s.fd))
	syscall.ForkLock.RUnlock()
	// In copy mode, closing waits for the kernel's receive path. In zero-copy mode, the driver
	// releases the buffers a moment later.
	s.held = s.zeroCopy
	errs = append(errs, s.checkReleased(bindTries))
	return errors.Join(errs...)
}

// checkReleased returns ErrHeld unless the kernel has released the memory of a closed socket.
func (s *socket) checkReleased(tries int) error {
	if !s.held {
		return nil
	}
	if err := waitFree(s.bound, tries); err != nil {
		return fmt.Errorf("%w: %w", ErrHeld, err)
	}
	s.held = false
	return nil
}

// waitFree waits until the kernel has freed the queue of a closed socket, and so has told the
// driver to stop using the socket's memory. The only way to see this is to bind another socket.
func waitFree(queue *unix.SockaddrXDP, tries int) error {
	mem, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("map a page: %w", err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	s, err := newSocket(Config{Memory: mem, BufferSize: len(mem), RingSize: 1}, 1, 0)
	if err != nil {
		return err
	}
	d := device{index: int(queue.Ifindex)}
	if err := s.tryBind(d, int(queue.QueueID), unix.XDP_COPY, tries); errors.Is(err, unix.EBUSY) {
		return errors.Join(fmt.Errorf("queue %d of the device is still in use", queue.QueueID), s.close())
	}
	return s.close() // any other error: the device is gone, and no longer uses the memory
}

func (r *kernelRing[T]) unmap() error {
	if r.mem == nil {
		return nil
	}
	err := unix.Munmap(r.mem)
	*r = kernelRing[T]{} // a later use is a nil pointer, not a fault
	return err
}
