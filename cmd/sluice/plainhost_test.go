package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
)

// In these tests the switch talks to hosts that share no code with it: they use the kernel's stack,
// and dumpcap and tshark capture and decode their frames. The frames on the wire are what these
// tools say.

const quietTime = 500 * time.Millisecond // after this time without a frame, no more are coming

var (
	senderMAC   = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	receiverMAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

// plainHost is one of these hosts.
type plainHost struct {
	*netns.Namespace
	*program.Capture
	t      *testing.T
	socket int // sends complete frames
}

// newPlainPair runs a switch between two plain hosts, on port1 and port2. It skips the test if
// tshark is not installed.
func newPlainPair(t *testing.T, text string, options ...netns.Option) (s program.Site, p *program.Running,
	one, two *plainHost) {
	t.Helper()
	s, p, hosts := newPlainHosts(t, 2, text, options...)
	return s, p, hosts[0], hosts[1]
}

// newPlainHosts runs a switch with n plain hosts, the first on port1.
func newPlainHosts(t *testing.T, n int, text string, options ...netns.Option) (s program.Site, p *program.Running,
	hosts []*plainHost) {
	t.Helper()
	s = program.NewSite(t, n, options...)
	program.NeedTshark(t)
	p = program.StartSwitch(t, s.Home, text+"\nforwarding: {loop_guard: off}\n") // hosts wait for silence
	for _, host := range s.Hosts {
		hosts = append(hosts, newPlainHost(t, host))
	}
	return s, p, hosts
}

// newPlainHost turns a host of a site into a plain host and starts its capture.
func newPlainHost(t *testing.T, in *netns.Namespace) *plainHost {
	t.Helper()
	h := newDeafHost(t, in)
	h.Capture = program.StartCapture(t, in, program.HostDevice)
	return h
}

// newDeafHost creates a plain host that does not capture.
func newDeafHost(t *testing.T, in *netns.Namespace) *plainHost {
	t.Helper()
	h := &plainHost{Namespace: in, t: t}
	err := in.Do(func() (err error) {
		device, err := netlink.LinkByName(program.HostDevice)
		if err != nil {
			return err
		}
		// Wait like hardware if the peer is busy; veth without a queueing discipline would drop.
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

// send sends complete frames, without FCS, one after the other.
func (h *plainHost) send(frames ...[]byte) {
	h.t.Helper()
	for _, f := range frames {
		_, err := unix.Write(h.socket, f)
		for errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR) { // queueing discipline is full
			_, err = unix.Write(h.socket, f)
		}
		if err != nil {
			h.t.Fatalf("sending %d bytes: %v", len(f), err)
		}
	}
}

// received returns the number of frames the kernel has received.
func (h *plainHost) received() (n uint64) {
	h.t.Helper()
	err := h.Do(func() error {
		device, err := netlink.LinkByName(program.HostDevice)
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

// awaitReceived waits until the kernel has received n frames.
func (h *plainHost) awaitReceived(n uint64) {
	h.t.Helper()
	for deadline := time.Now().Add(program.Patience); h.received() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("%s has received %d frames, not %d", h.Name, h.received(), n)
		}
	}
}

// awaitQuiet waits until the host has received nothing for quietTime.
func (h *plainHost) awaitQuiet() {
	h.t.Helper()
	last, since := h.received(), time.Now()
	for deadline := since.Add(program.Patience); time.Since(since) < quietTime; time.Sleep(10 * time.Millisecond) {
		if n := h.received(); n != last {
			last, since = n, time.Now()
		}
		if since.After(deadline) {
			h.t.Fatalf("%s still receives after %v", h.Name, program.Patience)
		}
	}
}

// endCaptures ends the captures of hosts, so that tshark can read the files.
func endCaptures(hosts ...*plainHost) {
	var captures []*program.Capture
	for _, h := range hosts {
		captures = append(captures, h.Capture)
	}
	program.EndCaptures(captures...)
}

// frames returns the bytes of the captured frames that match a display filter, in order.
func (h *plainHost) frames(filter string) (frames [][]byte) {
	h.t.Helper()
	return framesIn(h.t, h.Tshark(filter, rawFrames...))
}

// rawFrames has tshark print the bytes of frames, for framesIn.
var rawFrames = []string{"-T", "jsonraw", "-j", "frame"}

// framesIn returns the bytes of the frames in tshark's output.
func framesIn(t *testing.T, output []byte) (frames [][]byte) {
	t.Helper()
	var packets []struct {
		Source struct {
			Layers struct {
				Frame []any `json:"frame_raw"` // the first element is hexadecimal
			}
		} `json:"_source"`
	}
	program.Must(t, json.Unmarshal(output, &packets))
	for _, p := range packets {
		b, err := hex.DecodeString(p.Source.Layers.Frame[0].(string))
		program.Must(t, err)
		frames = append(frames, b)
	}
	return frames
}

// testFrames returns n frames of a CoS in VLAN 100 from host one to host two, of random lengths and
// contents, each with its number.
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

// The headroom has room for all frames, so even a host that ignores pauses loses nothing.
const overloadConfiguration = `
classes:
  - {cos: [3], lossless: true, share: 128KiB, xon: 64KiB, headroom: 5MB}
  - {cos: [0], queue_limit: 64KiB}
pfc: {quanta: 50000, refresh: 10000}
ports:
  - {device: port1, speed: 100M, vlans: [100], pvid: 100}
  - {device: port2, speed: 10M, vlans: [100], pvid: 100}
`

const (
	overloadLossless = 1600 // frames; they take more than a second at 10M
	overloadLossy    = 800
	overloadQuanta   = "50000"
	overloadRefresh  = 10000 * 512 * time.Second / 100e6 // between two refreshes
)

// TestPlainHostOverloadsAPort checks that the sender receives well-formed PFC frames for the
// lossless class, and that the receiver gets that class completely, and of the lossy class all
// frames that the switch does not report as dropped.
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
	two.awaitReceived(overloadLossless)
	two.awaitQuiet()
	drained := time.Now() // from now on the switch pauses its peers whatever the load
	r := p.Stop()
	endCaptures(one, two)

	if r.LosslessDrops != 0 {
		t.Errorf("the switch reports %d lossless drops", r.LosslessDrops)
	}
	dropped := r.Drops(0)
	if dropped == 0 {
		t.Error("no overload: nothing of the lossy class was dropped")
	}
	expectFrames(t, "lossless", two.frames("vlan.priority == 3"), lossless, 0)
	expectFrames(t, "lossy", two.frames("vlan.priority == 0"), lossy, dropped)
	if other := two.frames("!vlan && !macc"); len(other) > 0 {
		t.Errorf("the receiver got %d frames that nobody sent, such as %x", len(other), other[0])
	}

	pauses := one.pauses(program.AddressIn(t, s.Home, "port1"))
	if told := r.Port(t, "port1").PFC.Frames; told != uint64(len(pauses)) {
		t.Errorf("the switch reports %d PFC frames, the sender received %d", told, len(pauses))
	}
	checkPauses(t, slices.DeleteFunc(pauses, func(p pause) bool { return p.at > float64(drained.UnixNano())/1e9 }))
}

// TestLLDPDUAfterDraining ends a switch while many lossless frames wait. The LLDPDU with TTL 0, the
// last of a port, comes after all data and after the pauses that hold the sender. One more pause
// may follow it.
func TestLLDPDUAfterDraining(t *testing.T) {
	_, p, one, two := newPlainPair(t, overloadConfiguration+"lldp: {enabled: true}\n")
	one.send(testFrames(rand.New(rand.NewPCG(1, 2)), overloadLossless, 3)...)
	two.awaitReceived(overloadLossless / 10)
	p.Stop()
	endCaptures(one, two)
	isLast := func(row []string) bool { return row[1] == "0" }
	data := two.Decode("lldp || vlan", "eth.type", "lldp.time_to_live")
	if at := slices.IndexFunc(data, isLast); at != len(data)-1 || at < overloadLossless {
		t.Errorf("receiver: the last LLDPDU is frame %d of %d; %d frames of data were sent", at+1, len(data),
			overloadLossless)
	}
	pauses := one.Decode("lldp || macc", "eth.type", "lldp.time_to_live")
	if at := slices.IndexFunc(pauses, isLast); at <= len(pauses)/2 {
		t.Errorf("sender: the last LLDPDU is frame %d of %d LLDPDUs and pauses", at+1, len(pauses))
	}
}

// expectFrames compares received frames with those sent; missing is how many may be absent.
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

// pause is a PFC frame for priority 3, as tshark decodes it.
type pause struct {
	at     float64 // s since 1970
	quanta string
}

// pauses returns the PFC frames that the host received. All its MAC control frames must be PFC
// frames from one address and for priority 3 only.
func (h *plainHost) pauses(from string) (pauses []pause) {
	h.t.Helper()
	fields := []string{"frame.time_epoch", "macc.cbfc.pause_time.c3",
		"eth.dst", "eth.src", "frame.len", "macc.opcode", "macc.cbfc.enbv", "_ws.expert.message"}
	want := []string{"01:80:c2:00:00:01", from, "60", "0x0101", "0x0008", ""}
	for _, n := range []string{"0", "1", "2", "4", "5", "6", "7"} {
		fields, want = append(fields, "macc.cbfc.pause_time.c"+n), append(want, "0")
	}
	for _, row := range h.Decode("macc", fields...) {
		at, err := strconv.ParseFloat(row[0], 64)
		if err != nil || !slices.Equal(row[2:], want) {
			h.t.Fatalf("MAC control frame (%v) with %q:\n%q, want\n%q", err, fields[2:], row[2:], want)
		}
		pauses = append(pauses, pause{at, row[1]})
	}
	return pauses
}

// checkPauses checks that the sender was paused as configured, that pauses were refreshed in time,
// and that it was resumed at the end.
func checkPauses(t *testing.T, pauses []pause) {
	t.Helper()
	var intervals []float64 // s
	for i, p := range pauses {
		if p.quanta != overloadQuanta && p.quanta != "0" {
			t.Errorf("PFC frame %d of %d: %s quanta", i, len(pauses), p.quanta)
		}
		if i > 0 && p.quanta == overloadQuanta && pauses[i-1].quanta == overloadQuanta {
			intervals = append(intervals, p.at-pauses[i-1].at)
		}
	}
	if len(intervals) < 8 {
		t.Fatalf("only %d refreshes: %v", len(intervals), pauses)
	}
	if last := pauses[len(pauses)-1]; last.quanta != "0" {
		t.Errorf("the last of %d PFC frames does not resume: %s quanta", len(pauses), last.quanta)
	}
	slices.Sort(intervals)
	median, want := intervals[len(intervals)/2], overloadRefresh.Seconds()
	t.Logf("%d PFC frames; median of %d refreshes %.1f ms, configured %.1f", len(pauses), len(intervals), 1e3*median,
		1e3*want)
	if median < 0.7*want || median > 1.5*want {
		t.Errorf("refreshed every %.1f ms, configured is %.1f", 1e3*median, 1e3*want)
	}
}

// TestPlainHostPausesAPort checks that a host that pauses one priority receives only the others
// until it resumes.
func TestPlainHostPausesAPort(t *testing.T) {
	_, p, one, two := newPlainPair(t, overloadConfiguration)
	random := rand.New(rand.NewPCG(3, 4))
	const frames = 30 // per priority; the lossy queue just holds them
	hello := slices.Concat(senderMAC, receiverMAC, []byte{0x81, 0, 7 << 5, 100, 0x88, 0xb5}, make([]byte, 42))
	two.send(pauseFrame(0xffff), hello) // lasts more than 3 s
	one.awaitReceived(1)                // the hello, so the switch has processed everything before it
	one.send(testFrames(random, frames, 3)...)
	one.send(testFrames(random, frames, 0)...)
	two.awaitQuiet()
	two.send(pauseFrame(0))
	two.awaitQuiet()
	r := p.Stop()
	endCaptures(two)

	var seen strings.Builder // on two's device, without the pause that the switch sends at its end
	for _, row := range two.Decode("vlan || macc && eth.src == 02:00:00:00:00:02", "vlan.priority",
		"macc.cbfc.pause_time.c3") {
		switch row[1] {
		case "65535":
			seen.WriteString("pause,")
		case "0":
			seen.WriteString("resume,")
		default:
			seen.WriteString(row[0])
		}
	}
	if want := "pause,7" + strings.Repeat("0", frames) + "resume," +
		strings.Repeat("3", frames); seen.String() != want {
		t.Errorf("frames by priority:\n%s, want\n%s", &seen, want)
	}
	if port := r.Port(t, "port2"); port.PFC.Received != 2 || port.PFC.PausedNS < 100e6 || r.LosslessDrops != 0 {
		t.Errorf("the switch reports %+v, %d lossless drops", port.PFC, r.LosslessDrops)
	}
}

// pauseFrame returns a PFC frame for priority 3 only (802.1Q clause 36), built without the
// project's code.
func pauseFrame(quanta uint16) []byte {
	f := make([]byte, 60)
	copy(f, slices.Concat([]byte{1, 0x80, 0xc2, 0, 0, 1}, receiverMAC, []byte{0x88, 8, 1, 1, 0, 1 << 3}))
	binary.BigEndian.PutUint16(f[18+2*3:], quanta)
	return f
}

// TestReservedAddressesStay checks that the switch does not forward frames to the addresses
// reserved for the link, such as those of LLDP and PAUSE (802.1Q table 8-1), but forwards frames to
// all other groups, and BPDUs.
func TestReservedAddressesStay(t *testing.T) {
	_, p, one, two := newPlainPair(t, overloadConfiguration)
	const reserved = 16
	for last := range byte(reserved) {
		one.send(groupFrame(last, 0x88, 0xcc)) // type LLDP
	}
	bpdu := groupFrame(0, 0, 38, 0x42, 0x42, 3) // a length instead of a type, LLC
	one.send(bpdu)
	one.send(groupFrame(0xe, 0x81, 0, 0x60, 100, 0x88, 0xcc))
	one.send(groupFrame(1, 0x88, 8, 0, 1, 0xff, 0xff)) // PAUSE
	beyond := groupFrame(reserved, 0x88, 0xb5)
	one.send(beyond)
	two.awaitQuiet()
	r := p.Stop()
	endCaptures(one, two)

	const refused = reserved + 2
	if n := len(
		one.frames("eth.dst[0:5] == 01:80:c2:00:00 && eth.dst[5] <= 0x0f && eth.src == " +
			"02:00:00:00:00:01")); n != refused+1 {
		t.Errorf("%d frames to reserved addresses seen leaving the host, not %d", n, refused+1)
	}
	got := two.frames("eth.src == 02:00:00:00:00:01")
	passes := [][]byte{groupFrame(0, 0x88, 0xcc), bpdu, beyond}
	slices.SortFunc(got, bytes.Compare)
	slices.SortFunc(passes, bytes.Compare)
	if !slices.EqualFunc(got, passes, bytes.Equal) {
		t.Errorf("the other host received %x, not just %x", got, passes)
	}
	want := []program.DropReport{{Reason: "reserved_address", CoS: 0, Frames: reserved - 1},
		{Reason: "reserved_address", CoS: 3, Frames: 1}}
	if got := r.Port(t, "port1").Drops; !slices.Equal(got, want) {
		t.Errorf("dropped %+v, not %+v", got, want)
	}
}

// groupFrame returns a frame of minimum length to 01-80-C2-00-00-xx; behind is what follows the
// addresses.
func groupFrame(last byte, behind ...byte) []byte {
	f := make([]byte, 60)
	copy(f, slices.Concat([]byte{1, 0x80, 0xc2, 0, 0, last}, senderMAC, behind))
	return f
}
