package umem

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMapRefuses(t *testing.T) {
	for _, c := range []struct {
		buffers, size int
		want          string
	}{
		{1, 1024, "power of two of at least 2048"},
		{1, 3000, "power of two of at least 2048"},
		{1, -2048, "power of two of at least 2048"},
		{0, 2048, "must be 1 to 4294967295"},
		{1 << 40, 2048, "must be 1 to 4294967295"},
		{1 << 20, 1 << 50, "must be 1 to 4095"},
		{1 << 31, 1 << 20, "ask for fewer buffers"}, // 2 PiB: more than an address space has
	} {
		m, err := Map(c.buffers, c.size)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Map(%d, %d): %v, %v; want an error with %q", c.buffers, c.size, m, err, c.want)
		}
	}
}

func TestMemoryBuffers(t *testing.T) {
	const buffers, size = 5, 4096
	m, err := Map(buffers, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(m.Pages())
	if m.Buffers() != buffers || m.BufferSize() != size || len(m.Bytes()) != buffers*size {
		t.Fatalf("%d buffers of %d B in %d B", m.Buffers(), m.BufferSize(), len(m.Bytes()))
	}
	for id := range uint32(buffers) {
		b := m.Buffer(id)
		if len(b) != size || cap(b) != size || &b[0] != &m.Bytes()[int(id)*size] {
			t.Fatalf("buffer %d: %d B of capacity %d, or not in its place", id, len(b), cap(b))
		}
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if m.Bytes() != nil {
		t.Fatal("unmapped memory is still to be had")
	}
}

// TestMemoryNeverFaults counts the page faults while it touches every page.
func TestMemoryNeverFaults(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const buffers, size = 4096, 2048
	m, err := Map(buffers, size)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	before := threadFaults(t)
	for id := range uint32(buffers) {
		m.Buffer(id)[0] = 1
	}
	// Unpopulated pages would fault once each; a few faults are the runtime's own.
	pages := int64(buffers * size / os.Getpagesize())
	if n := threadFaults(t) - before; n > pages/10 {
		t.Fatalf("%d page faults in touching %d pages", n, pages)
	}
}

func threadFaults(t *testing.T) int64 {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return u.Minflt + u.Majflt
}

// TestPagesSayWhy checks that plain pages come with a reason, and reserved hugepages only where the
// kernel had free ones.
func TestPagesSayWhy(t *testing.T) {
	shortage := hugepageShortage(freeHugepages, 1)
	m, err := Map(1, 2048)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	switch pages := m.Pages(); {
	case pages == "2 MiB hugepages" && shortage == "":
	case strings.Contains(pages, " (reserved ") && (shortage == "" || strings.Contains(pages, shortage)):
	default:
		t.Fatalf("%q, though the kernel says %q", pages, shortage)
	}
}

func TestHugepageShortage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "free_hugepages")
	if why := hugepageShortage(file, 1); !strings.Contains(why, "no such file") {
		t.Errorf("without the file: %q", why)
	}
	for text, want := range map[string]string{"8\n": "", "7\n": "8 needed, 7 free", "x": "invalid syntax"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if why := hugepageShortage(file, 8); !strings.Contains(why, want) || (want == "") != (why == "") {
			t.Errorf("%q: %q, want %q", text, why, want)
		}
	}
}

// TestHugepagesPromisedInVain has a counter that shows more hugepages than there are. The kernel
// refuses them, and other pages take their place.
func TestHugepagesPromisedInVain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "free_hugepages")
	if err := os.WriteFile(file, []byte("1000000"), 0o600); err != nil {
		t.Fatal(err)
	}
	for length, want := range map[int]string{3 * 4096: "4 KiB pages (reserved hugepages: ", 4 << 20: "hugepages"} {
		mapping, pages, err := mapPages(length, file)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(mapping)
		if hugepageShortage(freeHugepages, 1) == "" {
			if pages != "2 MiB hugepages" {
				t.Fatalf("hugepages are free, yet %d B in %q", length, pages)
			}
		} else if !strings.Contains(pages, want) || !strings.Contains(pages, unix.ENOMEM.Error()) {
			t.Fatalf("no hugepages are free, yet %d B in %q", length, pages)
		}
	}
}

// TestTransparentHugepages compares Pages with the kernel's count of transparent hugepages.
func TestTransparentHugepages(t *testing.T) {
	const buffers, size = 2048 + 1, 2048
	m, err := Map(buffers, size)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	t.Log(m.Pages())
	file, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside, kB := false, -1
	for line := range strings.Lines(string(file)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= addressOf(m.bytes) && addressOf(m.bytes) < to
		}
		if inside {
			fmt.Sscanf(line, "AnonHugePages: %d", &kB)
		}
	}
	if claimed := strings.Contains(m.Pages(), "transparent hugepages ("); claimed != (kB == buffers*size>>21<<11) {
		t.Fatalf("%d kB are in huge pages, and Pages says %q", kB, m.Pages())
	}
}
