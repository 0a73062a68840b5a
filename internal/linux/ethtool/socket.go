package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Socket makes requests for devices of the network namespace in which it was opened. Any goroutine
// may use it.
type Socket struct {
	fd  int
	one sync.Mutex // guards memory: one request at a time
	// memory is where the kernel reads a request and writes its answer. The kernel does not check
	// the size: if a device gets queues meanwhile, there are more names and values than were
	// counted. So memory lies outside the Go heap, and mapped ends with a page to which the kernel
	// may not write: the request then fails with EFAULT.
	memory, mapped []byte
}

const room = 1 << 20 // bytes: the names of 32,000 statistics

// spare is the memory of closed sockets, for the next ones. A switch opens a socket a second for
// each port, and unmapping memory interrupts every CPU that runs a thread of the process.
var spare struct {
	sync.Mutex
	mapped [][]byte
}

// Open opens a socket in the thread's network namespace. These requests work with any address
// family; AF_UNIX reaches no network.
func Open() (*Socket, error) {
	mapped, err := takeMemory()
	if err != nil {
		return nil, fmt.Errorf("ethtool: map memory for requests: %w", err)
	}
	s := &Socket{mapped: mapped, memory: mapped[:room:room]}
	if s.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		giveMemory(mapped)
		return nil, fmt.Errorf("ethtool: open a socket for requests: %w", err)
	}
	return s, nil
}

func takeMemory() ([]byte, error) {
	spare.Lock()
	defer spare.Unlock()
	if last := len(spare.mapped) - 1; last >= 0 {
		mapped := spare.mapped[last]
		spare.mapped = spare.mapped[:last]
		return mapped, nil
	}
	mapped, err := unix.Mmap(-1, 0, room+os.Getpagesize(), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	if err := unix.Mprotect(mapped[:room], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, errors.Join(err, unix.Munmap(mapped))
	}
	return mapped, nil
}

func giveMemory(mapped []byte) {
	spare.Lock()
	defer spare.Unlock()
	spare.mapped = append(spare.mapped, mapped)
}

// Close closes the socket. Later requests fail with os.ErrClosed.
func (s *Socket) Close() {
	s.one.Lock()
	defer s.one.Unlock()
	if s.memory == nil {
		return
	}
	unix.Close(s.fd)
	giveMemory(s.mapped)
	s.memory, s.mapped = nil, nil
}

// ask makes a request. parts are pointers and slices: the fields that follow the command in the
// request's struct. The answer is decoded into them.
func (s *Socket) ask(device string, r request, parts ...any) (err error) {
	s.one.Lock()
	defer s.one.Unlock()
	if s.memory == nil {
		return r.failed(device, os.ErrClosed)
	}
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
