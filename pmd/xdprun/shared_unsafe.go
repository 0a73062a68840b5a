package xdprun

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// WordSize is the size in bytes of the words that programs share with Go code.
const WordSize = 8

// Shared is a BPF array map with one value, mapped into this process: words that XDP programs and
// Go code read and write concurrently. Each word has one writer.
type Shared struct {
	Words  []uint64
	Memory []byte // the same, page aligned

	table *ebpf.Map
}

// NewShared returns the given number of words, all 0.
func NewShared(name string, words int) (*Shared, error) {
	size := words * WordSize
	table, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(size), MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE,
	})
	if err != nil {
		return nil, fmt.Errorf("create BPF map %s of %d bytes: %w", name, size, err)
	}
	memory, err := unix.Mmap(table.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mmap BPF map %s: %w", name, err), table.Close())
	}
	return &Shared{
		table: table, Memory: memory,
		Words: unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(memory))), words), // pages are aligned
	}, nil
}

// FD returns the map's descriptor, for asm.LoadMapValue.
func (s *Shared) FD() int { return s.table.FD() }

// Load reads a word that a program may be writing.
func (s *Shared) Load(word int) uint64 { return atomic.LoadUint64(&s.Words[word]) }

// Store writes a word that a program may be reading.
func (s *Shared) Store(word int, v uint64) { atomic.StoreUint64(&s.Words[word], v) }

// Close frees the memory. Close programs that use the map first; otherwise they keep it.
func (s *Shared) Close() error {
	return errors.Join(unix.Munmap(s.Memory), s.table.Close())
}
