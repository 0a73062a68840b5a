package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/lab"
)

// Here the switch talks to hosts that share nothing with it: they run the kernel's stack, and what they send and receive
// is captured by dumpcap and decoded by tshark. What these say the frames on the wire are, they are.

const (
	quietTime   = 500 * time.Millisecond // without a frame: nothing is on its way any more
	dumpcapTime = 250 * time.Millisecond // dumpcap looks at what the kernel has for it at least this often
)

var (
	senderMAC   = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	receiverMAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

// plainHost is such a host.
type plainHost struct {
	*lab.Namespace
	t       *testing.T
	socket  int // sends whole frames
	dumpcap *process
	file    string // of dumpcap
}

// newPlainPair runs a switch between two plain hosts, at port1 and port2. The test is skipped if it may not, or if
// there is no tshark.
func newPlainPair(t *testing.T, text string) (s site, p *process, one, two *plainHost) {
	t.Helper()
	s = newSite(t, 2)
	for _, tool := range []string{"tshark", "dumpcap"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs tshark, whose eye is not ours (scripts/install-peers): %v", err)
		}
	}
	p = startSwitch(t, s.home, text)
	return s, p, newPlainHost(t, s.hosts[0]), newPlainHost(t, s.hosts[1])
}

func newPlainHost(t *testing.T, in *lab.Namespace) *plainHost {
	t.Helper()
	h := &plainHost{Namespace: in, t: t, file: filepath.Join(t.TempDir(), "host.pcapng")}
	h.dumpcap = launchCommand(t, in, exec.Command("dumpcap", "-q", "-n", "-i", hostDevice, "-B", "32", "-w", h.file))
	h.dumpcap.await(1, "File: ") // from then on it misses nothing
	err := in.Do(func() (err error) {
		device, err := netlink.LinkByName(hostDevice)
		if err != nil {
			return err
		}
		// Like hardware, wait when the peer is busy; veth without a queueing discipline would drop.
		wait := &netlink.GenericQdisc{QdiscType: "pfifo", QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}}
		if err := netlink.QdiscAdd(wait); err != nil {
			return err
		}
		if h.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(h.socket, &unix.SockaddrLinklayer{Ifindex: device.Attrs().Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(h.socket) })
	return h
}

// send sends whole frames, without FCS, one after the other.
func (h *plainHost) send(frames ...[]byte) {
	h.t.Helper()
	for _, f := range frames {
		_, err := unix.Write(h.socket, f)
		for errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR) { // the queueing discipline is full
			_, err = unix.Write(h.socket, f)
		}
		if err != nil {
			h.t.Fatalf("sending %d bytes: %v", len(f), err)
		}
	}
}

// received returns how many frames the kernel has received.
func (h *plainHost) received() (n uint64) {
	h.t.Helper()
	err := h.Do(func() error {
		device, err := netlink.LinkByName(hostDevice)
		if err == nil {
			n = device.Attrs().Statistics.RxPackets
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// awaitQuiet returns when the host has received nothing for a while.
func (h *plainHost) awaitQuiet() {
	h.t.Helper()
	last, since := h.received(), time.Now()
	for deadline := since.Add(patience); time.Since(since) < quietTime; time.Sleep(10 * time.Millisecond) {
		if n := h.received(); n != last {
			last, since = n, time.Now()
		}
		if since.After(deadline) {
			h.t.Fatalf("%s still receives after %v", h.Name, patience)
		}
	}
}

// endCapture completes the file for tshark.
func (h *plainHost) endCapture() {
	h.t.Helper()
	time.Sleep(2 * dumpcapTime)
	h.dumpcap.signal(unix.SIGINT)
	if code := h.dumpcap.exitCode(); code != 0 {
		h.t.Fatalf("exit code %d of dumpcap", code)
	}
	h.dumpcap.await(1, "received/dropped on interface", "/0 (pcap:0/dumpcap:0/") // a capture with holes proves nothing
}

// decode returns what tshark makes of some fields of the captured frames that match a display filter.
func (h *plainHost) decode(filter string, fields ...string) (rows [][]string) {
	h.t.Helper()
	args := []string{"-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	for line := range strings.Lines(string(h.tshark(filter, args...))) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}

// frames returns the bytes of the captured frames that match a display filter, in order.
func (h *plainHost) frames(filter string) (frames [][]byte) {
	h.t.Helper()
	var packets []struct {
		Source struct {
			Layers struct {
				Frame []any `json:"frame_raw"` // hexadecimal first
			}
		} `json:"_source"`
	}
	if err := json.Unmarshal(h.tshark(filter, "-T", "jsonraw", "-j", "frame"), &packets); err != nil {
		h.t.Fatal(err)
	}
	for _, p := range packets {
		b, err := hex.DecodeString(p.Source.Layers.Frame[0].(string))
		if err != nil {
			h.t.Fatal(err)
		}
		frames = append(frames, b)
	}
	return frames
}

func (h *plainHost) tshark(filter string, args ...string) []byte {
	h.t.Helper()
	c := exec.Command("tshark", append([]string{"-n", "-r", h.file, "-Y", filter}, args...)...)
	var complaint bytes.Buffer
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", c, err, &complaint)
	}
	return out
}

// testFrames returns n frames of a CoS, in VLAN 100, from host one to host two: of any length, each with a number of
// its own and random bytes behind it.
func testFrames(random *rand.Rand, n int, cos byte) [][]byte {
	frames := make([][]byte, n)
	for i := range frames {
		f := slices.Concat(receiverMAC, senderMAC, []byte{0x81, 0, cos << 5, 100, 0x88, 0xb5})
		f = binary.BigEndian.AppendUint32(f, uint32(i))
		for length := 60 + random.IntN(1518-60+1); len(f) < length; {
			f = append(f, byte(random.Uint32()))
		}
		frames[i] = f
	}
	return frames
}

// With room for everything in the headroom, even a host that does not pause loses nothing.
const overloadConfiguration = `
classes:
  - {cos: [3], lossless: true, weight: 50, share: 128KiB, xon: 64KiB, headroom: 5MB}
  - {cos: [0], weight: 50, queue_limit: 64KiB}
pfc: {quanta: 50000, refresh: 10000}
ports:
  - {device: port1, speed: 100M, vlans: [100], pvid: 100}
  - {device: port2, speed: 10M, vlans: [100], pvid: 100}
`

const (
	overloadLossless = 1600 // frames, which take more than a second at 10M
	overloadLossy    = 800
	overloadQuanta   = "50000"
	overloadRefresh  = 10000 * 512 * time.Second / 100e6 // between two refreshes
)

// TestPlainHostOverloadsAPort: to the eye of the sender, the switch sends well-formed PFC for the lossless class; to the
// eye of the receiver, that class arrives to the last byte, and of the other what the switch does not say it dropped.
func TestPlainHostOverloadsAPort(t *testing.T) {
	s, p, one, two := newPlainPair(t, overloadConfiguration)
	random := rand.New(rand.NewPCG(1, 2))
	lossless, lossy := testFrames(random, overloadLossless, 3), testFrames(random, overloadLossy, 0)
	for i := range lossless {
		one.send(lossless[i])
		if i < len(lossy) {
			one.send(lossy[i])
		}
	}
	two.awaitQuiet()
	one.awaitQuiet()
	drained := time.Now() // from here on the switch holds its peers, whatever the load
	r := p.stop()
	one.endCapture()
	two.endCapture()

	if r.LosslessDrops != 0 {
		t.Errorf("the switch reports %d lossless drops", r.LosslessDrops)
	}
	dropped := r.drops(0)
	if dropped == 0 {
		t.Error("no overload: nothing of the lossy class was dropped")
	}
	expectFrames(t, "lossless", two.frames("vlan.priority == 3"), lossless, 0)
	expectFrames(t, "lossy", two.frames("vlan.priority == 0"), lossy, dropped)
	if other := two.frames("!vlan && !macc"); len(other) > 0 {
		t.Errorf("the receiver got %d frames that nobody sent, such as %x", len(other), other[0])
	}
	checkPFC(t, s.address(t, "port1"), one, r.port(t, "port1").PFC, drained)
}

// expectFrames compares received frames with those that were sent, of which a number may be missing.
func expectFrames(t *testing.T, class string, got, sent [][]byte, missing uint64) {
	t.Helper()
	if n := uint64(len(got)) + missing; n != uint64(len(sent)) {
		t.Errorf("%s: %d sent, %d received and %d dropped by the switch", class, len(sent), len(got), missing)
	}
	rest := sent
	for i, f := range got {
		at := slices.IndexFunc(rest, func(s []byte) bool { return bytes.Equal(s, f) })
		if at < 0 {
			t.Errorf("%s: frame %d received is none of those sent after the one before it: %x", class, i, f)
			return
		}
		rest = rest[at+1:]
	}
}

// checkPFC checks what tshark reads in the MAC control frames that a sender received, up to the time when the switch
// began to stop. They are PFC frames for priority 3 and no other, repeated as configured, and the last one resumes.
func checkPFC(t *testing.T, source string, h *plainHost, told pfcReport, until time.Time) {
	t.Helper()
	fields := []string{"frame.time_epoch", "macc.cbfc.pause_time.c3", "eth.dst", "eth.src", "frame.len", "macc.opcode", "macc.cbfc.enbv"}
	want := []string{"01:80:c2:00:00:01", source, "60", "0x0101", "0x0008"}
	for _, c := range []string{"c0", "c1", "c2", "c4", "c5", "c6", "c7"} {
		fields, want = append(fields, "macc.cbfc.pause_time."+c), append(want, "0")
	}
	fields, want = append(fields, "_ws.expert.message"), append(want, "")
	rows := h.decode("macc", fields...)
	if uint64(len(rows)) != told.Frames {
		t.Errorf("the host received %d PFC frames, the switch reports %d", len(rows), told.Frames)
	}
	var last, sent float64
	var quanta string
	var refreshes []time.Duration
	for _, row := range rows {
		if !slices.Equal(row[2:], want) {
			t.Fatalf("MAC control frame with %q:\n%q, want\n%q", fields[2:], row[2:], want)
		}
		sent, err := strconv.ParseFloat(row[0], 64)
		if err != nil {
			t.Fatal(err)
		}
	}
}
