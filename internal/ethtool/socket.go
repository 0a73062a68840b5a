package ethtool

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Socket takes requests for devices of the network namespace in which it was opened, from any
// goroutine.
type Socket struct {
	fd  int
	one sync.Mutex // request at a time is in memory
	// memory is where the kernel reads a request and writes its answer, whether that fits or not:
	// names and values are more than the caller counted if a device got queues meanwhile. So memory
	// is not the collector's, which moves things, and mapped has a page behind it where the kernel
	// may not write: the request fails with EFAULT.
	memory, mapped []byte
}

const room = 1 << 20 // bytes, for the names of 32,000 statistics

// Open opens a socket in the thread's network namespace. Any family does for such requests; AF_UNIX
// reaches no network.
func Open() (*Socket, error) {
	mapped, err := unix.Mmap(-1, 0, room+os.Getpagesize(), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("ethtool: memory for requests: %w", err)
	}
	s := &Socket{fd: -1, mapped: mapped, memory: mapped[:room:room]}
	if err = unix.Mprotect(s.memory, unix.PROT_READ|unix.PROT_WRITE); err == nil {
		s.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("ethtool: socket for requests: %w", err)
	}
	return s, nil
}

// Close closes the socket. Nobody may use it any more.
func (s *Socket) Close() {
	unix.Close(s.fd)
	_ = unix.Munmap(s.mapped)
}

// ask makes a request. The parts are pointers and slices: what follows the command in the request's
// struct. The answer is read into them.
func (s *Socket) ask(device string, r request, parts ...any) (err error) {
	s.one.Lock()
	defer s.one.Unlock()
	memory := binary.NativeEndian.AppendUint32(s.memory[:0], r.command)
	for _, p := range parts {
		if memory, err = binary.Append(memory, binary.NativeEndian, p); err != nil {
			return r.failed(device, err)
		}
	}
	if len(memory) > len(s.memory) {
		return r.failed(device, unix.E2BIG)
	}
	if err := s.ioctl(device); err != nil {
		return r.failed(device, err)
	}
	answer := s.memory[4:]
	for _, p := range parts {
		n, err := binary.Decode(answer, binary.NativeEndian, p)
		if err != nil {
			return r.failed(device, err)
		}
		answer = answer[n:]
	}
	return nil
}
