package live

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// wordSize is the size of what programs and Go code share: bytes.
const wordSize = 8

// shared is a BPF array map of one value that is mapped into this process: words that XDP programs and Go code both
// read and write while either runs. Each word has one writer.
type shared struct {
	table  *ebpf.Map
	memory []byte
	words  []uint64
}

func newShared(name string, words int) (*shared, error) {
	size := words * wordSize
	table, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(size), MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE,
	})
	if err != nil {
		return nil, fmt.Errorf("map %s of %d bytes: %w", name, size, err)
	}
	memory, err := unix.Mmap(table.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map %s: %w", name, err), table.Close())
	}
	return &shared{
		table: table, memory: memory,
		words: unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(memory))), words), // pages are aligned
	}, nil
}

func (s *shared) fd() int { return s.table.FD() }

func (s *shared) load(word int) uint64 { return atomic.LoadUint64(&s.words[word]) }

func (s *shared) store(word int, v uint64) { atomic.StoreUint64(&s.words[word], v) }

func (s *shared) close() error {
	return errors.Join(unix.Munmap(s.memory), s.table.Close())
}
