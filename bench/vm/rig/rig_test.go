package rig

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
)

var update = flag.Bool("update", false, "pin the newest versions of all packages")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPins(t *testing.T) {
	if *update {
		pinNewest(t)
	}
	pins, err := parsePins(pinned)
	must(t, err)
	for _, need := range []string{"linux-binary-", "linux-modules-", "qemu-system-x86", "busybox-static"} {
		if !slices.ContainsFunc(pins, func(p pin) bool { return strings.HasPrefix(p.name, need) }) {
			t.Errorf("no package %s is pinned", need)
		}
	}
	twice := strings.Repeat("trixie zstd 1.5 "+digest64+"\n", 2)
	for _, wrong := range []string{"trixie zstd 1.5", "trixie zstd 1.5 abc", twice} {
		if pins, err := parsePins(wrong); err == nil {
			t.Errorf("%q was read as %v", wrong, pins)
		}
	}
}

var digest64 = strings.Repeat("0123456789abcdef", 4)

// pinNewest writes pins.txt with the newest versions that the mirror has.
func pinNewest(t *testing.T) {
	pins, err := parsePins(pinned)
	must(t, err)
	old := slices.Clone(pins)
	for i := range old {
		pins[i].version, pins[i].sha256 = "none", "" // which no mirror has
		pins[i].name = versionInName.ReplaceAllString(pins[i].name, "0.0")
	}
	a, err := newAPT(t.Context(), t.TempDir(), []string{"trixie", "trixie-backports"})
	must(t, err)
	_, err = a.run(t.Context(), "apt-get", "-qq", "update")
	must(t, err)
	chosen, err := a.choose(t.Context(), pins)
	must(t, err)
	must(t, a.download(t.Context(), chosen))
	pinned = repin(pinned, old, chosen)
	must(t, os.WriteFile("pins.txt", []byte(pinned), 0o644))
}

func TestCompareVersions(t *testing.T) {
	sorted := []string{"6.9", "6.12", "6.12.1", "7.0.4", "7.0.13"}
	for i, a := range sorted {
		for j, b := range sorted {
			if is, want := compareVersions(a, b), i-j; is*want < 0 || (is == 0) != (want == 0) {
				t.Errorf("%s and %s compare as %d", a, b, is)
			}
		}
	}
}

// bzImage returns a kernel image with a payload, as The Linux/x86 Boot Protocol describes it.
func bzImage(payload []byte) []byte {
	const setup, gap = 3, 7 // sectors; bytes before the payload
	b := make([]byte, (setup+1)*512+gap, 4096)
	b[0x1f1] = setup
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x206:], 0x20f)
	binary.LittleEndian.PutUint32(b[0x248:], gap)
	binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(payload)+4))
	return append(append(b, payload...), 1, 2, 3, 4)
}

func TestPayload(t *testing.T) {
	packed := []byte("\x28\xb5\x2f\xfdand so on")
	whole := bzImage(packed)
	got, err := payload(whole)
	if err != nil || !bytes.Equal(got, packed) {
		t.Errorf("%q, %v", got, err)
	}
	for what, image := range map[string][]byte{
		"short": whole[:700], "no image": make([]byte, 4096), "truncated": whole[:len(whole)-5],
		"another compression": bzImage([]byte("\xfd7zXZ\x00and so on")),
	} {
		if got, err := payload(image); err == nil {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// entries reads an archive as the kernel does (init/initramfs.c).
func entries(t *testing.T, archive []byte) (modes map[string]uint64, order []string) {
	t.Helper()
	modes = map[string]uint64{}
	for at := 0; ; {
		field := func(n int) int {
			v, err := strconv.ParseUint(string(archive[at+6+8*n:at+14+8*n]), 16, 32)
			must(t, err)
			return int(v)
		}
		if string(archive[at:at+6]) != "070701" {
			t.Fatalf("no magic at %d", at)
		}
		size, length := field(6), field(11)
		name := string(archive[at+110 : at+110+length-1])
		if name == "TRAILER!!!" {
			return modes, order
		}
		modes[name], order = uint64(field(1)), append(order, name)
		at = (at + 110 + length + 3) &^ 3
		if content := archive[at : at+size]; name == "bin/x" && string(content) != "program" {
			t.Errorf("%s has %q", name, content)
		}
		at = (at + size + 3) &^ 3
	}
}

func TestImage(t *testing.T) {
	var i image
	i.add("/bin/x", 0o100755, []byte("program"))
	i.add("bin/x", 0o100755, []byte("another"))
	i.add("bin/sh", 0o120777, []byte("x"))
	i.device("dev/console", 5, 1)
	modes, order := entries(t, i.finish())
	if want := []string{"bin", "bin/x", "bin/sh", "dev", "dev/console"}; !slices.Equal(order, want) {
		t.Errorf("entries %v, not %v", order, want)
	}
	if modes["bin"] != 0o40755 || modes["bin/x"] != 0o100755 || modes["dev/console"] != 0o20600 {
		t.Errorf("modes %v", modes)
	}
}

// TestEvery: each length and each tag is there, each length with each tag, and Frame makes such
// frames.
func TestEvery(t *testing.T) {
	f := Flow{ID: 7, Src: 1, Dst: frame.Broadcast, Shape: Every}
	lengths, tags, shapes := map[int]bool{}, map[Shape]bool{}, map[Shape]bool{}
	for n := range Lengths * kinds {
		s := Every(n)
		shapes[s], lengths[s.Bytes], tags[Shape{Tagged: s.Tagged, PCP: s.PCP}] = true, true, true
		if n%97 > 0 {
			continue
		}
		b := f.Frame(n)
		var h frame.Header
		if problem := frame.Parse(b, &h); problem != frame.OK || len(b) != s.Bytes || h.Tagged != s.Tagged ||
			h.PCP != s.PCP || h.Dst != f.Dst || h.Src != f.Src || h.Type != line.TestType {
			t.Fatalf("frame %d of shape %+v: %x", n, s, b)
		}
	}
	if len(lengths) != Lengths || len(tags) != kinds {
		t.Errorf("%d lengths and %d kinds of tags", len(lengths), len(tags))
	}
	if want := Lengths*kinds - 4; len(shapes) != want { // an untagged frame is at most 1514 bytes long
		t.Errorf("%d pairs of a length and a tag, not %d", len(shapes), want)
	}
}

// TestEverySpreads: 200 frames have lengths of the whole range, with each tag.
func TestEverySpreads(t *testing.T) {
	const frames, parts = 200, 10
	for _, first := range []int{0, 3000} {
		seen := map[[2]int]bool{} // part of the range, kind of tag
		for n := first; n < first+frames; n++ {
			s := Every(n)
			kind := kinds - 1
			if s.Tagged {
				kind = int(s.PCP)
			}
			seen[[2]int{(s.Bytes - shortest) * parts / Lengths, kind}] = true
		}
		if len(seen) != parts*kinds {
			t.Errorf("frames from %d on: %d of %d pairs of a tenth of the lengths and a tag", first, len(seen),
				parts*kinds)
		}
	}
}

// TestArrivals: a peer counts frames that are damaged, come twice or out of order, and no others.
func TestArrivals(t *testing.T) {
	p := &Peer{flows: map[uint32]*arrivals{}, pauses: pauses{rate: 512e6}}
	f := &Flow{ID: 7, Src: 1, Dst: 2, Shape: Every}
	p.Expect(f)
	now := time.Now()
	for _, n := range []int{0, 1, 2, 2, 18, 9, 3} { // 9 has the tag of 0 and 18
		p.take(f.Frame(n), now)
	}
	cut := f.Frame(20)
	p.take(cut[:len(cut)-1], now)
	p.take((&Flow{ID: 8, Shape: Every}).Frame(0), now)
	if a := p.Got(f); a.Frames != 6 || a.Twice != 1 || a.Disordered != 1 || a.Damaged != 1 || len(p.Strange()) != 1 {
		t.Errorf("%+v", a)
	}
}

// TestLate: a peer knows what comes wrongly after a flow was judged, and says so once.
func TestLate(t *testing.T) {
	p := &Peer{flows: map[uint32]*arrivals{}}
	f, other := &Flow{ID: 7, Shape: Every}, &Flow{ID: 8, Shape: Every}
	p.Expect(f)
	p.Expect(other)
	take := func(f *Flow, n int) { p.take(f.Frame(n), time.Now()) }
	for _, n := range []int{0, 0, 1} {
		take(f, n)
		take(other, n) // which nobody judges
	}
	if a := p.Judge(f); a.Frames != 2 || a.Twice != 1 || a.Faults() != 1 {
		t.Errorf("%+v", a)
	}
	take(f, 2)
	if late := p.Late(); len(late) > 0 {
		t.Errorf("late faults of %d flows before there was one", len(late))
	}
	take(f, 2)
	if late := p.Late(); len(late) != 1 || late[0] != f {
		t.Errorf("late faults of %d flows, not of the one with a frame twice", len(late))
	}
	if late := p.Late(); len(late) > 0 {
		t.Errorf("late faults of %d flows for the second time", len(late))
	}
}

// TestPeerIsPaused: a peer knows PFC frames, and how long each lasts.
func TestPeerIsPaused(t *testing.T) {
	p := &Peer{pauses: pauses{rate: 512e6}}
	b := make([]byte, shortest)
	copy(b[12:], []byte{0x88, 0x08, 1, 1, 0, 1<<3 | 1<<5})
	binary.BigEndian.PutUint16(b[18+2*3:], 1000)
	now := time.Now()
	p.take(b, now)
	if until := p.pauses.until(3); until != now.Add(time.Millisecond) {
		t.Errorf("paused for %v", until.Sub(now))
	}
	if xoff, xon := p.Pauses(3); xoff != 1 || xon != 0 {
		t.Errorf("priority 3: %d and %d", xoff, xon)
	}
	if xoff, xon := p.Pauses(5); xoff != 0 || xon != 1 {
		t.Errorf("priority 5: %d and %d", xoff, xon)
	}
	if xoff, xon := p.Pauses(0); xoff != 0 || xon != 0 {
		t.Errorf("priority 0: %d and %d", xoff, xon)
	}
}

// TestVerify: a package in the pinned version must be the pinned one.
func TestVerify(t *testing.T) {
	a := &apt{directory: t.TempDir()}
	p := pin{suite: "trixie", name: "x", version: "1:2~3", sha256: digest64}
	if err := a.verify(p); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a package that is missing: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(a.directory, "archives"), 0o755))
	file := filepath.Join(a.directory, "archives", "x_1%3a2~3_all.deb")
	must(t, os.WriteFile(file, []byte("content"), 0o644))
	if err := a.verify(p); err == nil || !strings.Contains(err.Error(), digest64) {
		t.Errorf("another package: %v", err)
	}
	var err error
	p.sha256, err = sum(file)
	must(t, err)
	must(t, a.verify(p))
}

func TestMachineIsChecked(t *testing.T) {
	for what, m := range map[string]Machine{
		"no driver": {NICs: 1}, "no NIC": {Driver: IGB}, "many NICs": {Driver: IGB, NICs: 9},
		"queues": {Driver: IGB, NICs: 1, Queues: 2},
	} {
		if err := m.complete(); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	m := Machine{Driver: VirtioNet, NICs: 3, Queues: 2}
	must(t, m.complete())
	c, _ := m.command(t.Context(), "/tree", os.Stdin, os.Stdin, os.Stdin, [][]*os.File{{os.Stdin, os.Stdin}})
	line := strings.Join(c.Args, " ")
	for _, words := range []string{"-smp 1", "-m 512M", "initrd /proc/self/fd/3", "fds=6:7", "mq=on,vectors=6"} {
		if !strings.Contains(line, words) {
			t.Errorf("%q is not in %s", words, line)
		}
	}
	const timer = "tsc=unstable -- agent"
	punctual := m
	punctual.Punctual = true
	if strings.Contains(m.kernelCommandLine(), timer) || !strings.HasSuffix(punctual.kernelCommandLine(), timer) {
		t.Errorf("%s; with a punctual clock: %s", m.kernelCommandLine(), punctual.kernelCommandLine())
	}
}

// TestPauseEndsEarly: a peer that is paused for long goes on as soon as it is resumed.
func TestPauseEndsEarly(t *testing.T) {
	p := &Peer{fd: -1, pauses: pauses{rate: 1e6}} // a pause lasts up to half a minute
	b := make([]byte, shortest)
	copy(b[12:], []byte{0x88, 0x08, 1, 1, 0, 1 << 3})
	resume := bytes.Clone(b)
	binary.BigEndian.PutUint16(b[18+2*3:], 65535)
	p.take(b, time.Now())
	sent := make(chan error)
	go func() { sent <- p.Send(&Flow{Shape: Fixed(100, 3)}, 1, 1000) }()
	time.Sleep(20 * time.Millisecond)
	p.take(resume, time.Now())
	select {
	case err := <-sent:
		if !errors.Is(err, unix.EBADF) { // there is no device
			t.Errorf("sent: %v", err)
		}
	case <-time.After(p.PauseTime() / 2):
		t.Error("it waits for the end of the pause")
	}
}
