// Package umem provides the memory for frame buffers, AF_XDP's UMEM, and each worker's pool of free
// buffers.
package umem

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	minBufferSize = 2048    // the smallest chunk that AF_XDP accepts (XDP_UMEM_MIN_CHUNK_SIZE)
	hugepageSize  = 2 << 20 // bytes
	freeHugepages = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
)

// Memory is an array of equal frame buffers outside the Go heap, the UMEM of AF_XDP. A buffer's id
// is its index, and its byte offset is id * BufferSize. All pages are present from the start, so
// touching a buffer never faults.
type Memory struct {
	mapping []byte // what mmap returned
	bytes   []byte // the buffers
	shift   int    // log2 of the buffer size
	pages   string
}

// Map maps buffers * size bytes. size must be a power of two of at least 2048 bytes. The memory is
// in 2 MiB hugepages if enough are reserved and free, otherwise in transparent hugepages, otherwise
// in plain pages; Pages says which, and why. The caller must Close the memory after everything that
// may still write to it (the kernel's sockets) is closed.
func Map(buffers, size int) (*Memory, error) {
	if size < minBufferSize || size&(size-1) != 0 {
		return nil, fmt.Errorf("umem: buffer size %d B: must be a power of two of at least %d", size, minBufferSize)
	}
	if most := min((math.MaxInt>>1)/size, math.MaxUint32); buffers < 1 || buffers > most {
		return nil, fmt.Errorf("umem: %d buffers of %d B: must be 1 to %d", buffers, size, most)
	}
	length := buffers * size
	mapping, pages, err := mapPages(length, freeHugepages)
	if err != nil {
		return nil, fmt.Errorf("umem: map %d buffers of %d B (%d MiB): %w: ask for fewer buffers or free memory",
			buffers, size, length>>20, err)
	}
	return &Memory{mapping: mapping, bytes: fromHugepage(mapping)[:length:length],
		shift: bits.TrailingZeros(uint(size)), pages: pages}, nil
}

// Over returns a memory of buffers of size bytes in bytes that are mapped already. The caller keeps
// them: Close does not unmap them. pages is the description that Pages returns.
func Over(bytes []byte, size int, pages string) (*Memory, error) {
	if size < minBufferSize || size&(size-1) != 0 || len(bytes) == 0 || len(bytes)%size != 0 {
		return nil, fmt.Errorf("umem: buffers of %d B in %d B: must be a power of two of at least %d, and "+
			"divide it", size,
			len(bytes), minBufferSize)
	}
	return &Memory{bytes: bytes[:len(bytes):len(bytes)], shift: bits.TrailingZeros(uint(size)), pages: pages}, nil
}

// mapPages maps memory and populates the length bytes from where a hugepage may begin. It uses
// hugepages if the kernel's counter in file shows enough free ones and the kernel then grants them.
// It returns a description of the pages.
func mapPages(length int, file string) (mapping []byte, pages string, err error) {
	const access, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	count := (length + hugepageSize - 1) / hugepageSize
	why := hugepageShortage(file, count)
	if why == "" {
		// munmap requires whole hugepages, so the mapping is rounded up to them.
		mapping, err = unix.Mmap(-1, 0, count*hugepageSize, access,
			flags|unix.MAP_POPULATE|unix.MAP_HUGETLB|unix.MAP_HUGE_2MB)
		if err == nil {
			return mapping, "2 MiB hugepages", nil
		}
		why = err.Error()
	}
	if mapping, err = unix.Mmap(-1, 0, length+hugepageSize, access, flags); err != nil {
		return nil, "", err
	}
	shortage, err := populate(fromHugepage(mapping)[:length])
	switch {
	case err != nil:
		return nil, "", errors.Join(err, unix.Munmap(mapping))
	case shortage != nil:
		return mapping, fmt.Sprintf("%d KiB pages (reserved hugepages: %s; transparent hugepages: %v)",
			os.Getpagesize()>>10, why, shortage), nil
	}
	return mapping, fmt.Sprintf("2 MiB transparent hugepages (reserved ones: %s)", why), nil
}

// populate makes all pages of memory present; memory begins where a hugepage may. It uses
// transparent hugepages, which the kernel makes from any free memory (Linux,
// Documentation/admin-guide/mm/transhuge.rst), except for a rest shorter than one. shortage says
// why, if more than that rest is in small pages. populate ignores transparent_hugepage/enabled,
// because this memory is never given back.
func populate(memory []byte) (shortage, err error) {
	whole := memory[:len(memory)&^(hugepageSize-1)]
	if len(whole) > 0 {
		shortage = unix.Madvise(whole, unix.MADV_HUGEPAGE)
	}
	if err := unix.Madvise(memory, unix.MADV_POPULATE_WRITE); err != nil {
		return nil, err
	}
	switch {
	case len(whole) == 0:
		return errors.New("the memory is smaller than one"), nil
	case shortage == nil:
		shortage = unix.Madvise(whole, unix.MADV_COLLAPSE) // merges small pages; fails unless all are now large
	}
	return shortage, nil
}

// hugepageShortage returns why count hugepages are not available according to the kernel's counter
// in file, or "" if they are.
func hugepageShortage(file string, count int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	free, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return file + ": " + err.Error()
	}
	if free < count {
		return fmt.Sprintf("%d needed, %d free; see vm.nr_hugepages", count, free)
	}
	return ""
}

// Bytes returns all buffers, in order.
func (m *Memory) Bytes() []byte { return m.bytes }

// Buffer returns the buffer with an id, at its full size.
func (m *Memory) Buffer(id uint32) []byte {
	start, end := int(id)<<m.shift, (int(id)+1)<<m.shift
	return m.bytes[start:end:end]
}

// BufferSize returns the size of a buffer in bytes.
func (m *Memory) BufferSize() int { return 1 << m.shift }

// Buffers returns the number of buffers.
func (m *Memory) Buffers() int { return len(m.bytes) >> m.shift }

// Pages describes the pages behind the memory: "2 MiB hugepages", "2 MiB transparent hugepages
// (reserved ones: <why not>)", or "4 KiB pages (reserved hugepages: <why not>; transparent
// hugepages: <why not>)".
func (m *Memory) Pages() string { return m.pages }

// Close unmaps the memory. Slices of it must not be used any more. Closing it again does nothing.
func (m *Memory) Close() error {
	if m.mapping == nil {
		return nil
	}
	mapping := m.mapping
	m.mapping, m.bytes = nil, nil
	if err := unix.Munmap(mapping); err != nil {
		return fmt.Errorf("umem: unmap: %w", err)
	}
	return nil
}
