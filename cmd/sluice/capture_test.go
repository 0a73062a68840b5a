package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/internal/cli"
	"sluice/pfc"
)

// captureConfiguration gives many reasons to drop frames: port1 accepts shorter frames than its
// host sends, few broadcasts and one VLAN; port2 is slow and its queue short.
const captureConfiguration = `
classes:
  - {cos: [3], lossless: true, share: 128KiB, xon: 64KiB, headroom: 5MB}
  - {cos: [0], queue_limit: 16KiB}
ports:
  - {device: port1, speed: 100M, mtu: 1400, vlans: [100], pvid: 100, storm: {broadcast: 1}}
  - {device: port2, speed: 1M, mtu: 1400, vlans: [100], pvid: 100}
control: {socket: %s}
`

// startCapture starts `sluice capture` and waits until the switch captures.
func startCapture(t *testing.T, of *program.Running, captures int, socket string, args ...string) *program.Running {
	t.Helper()
	p := program.Launch(t, nil, append([]string{"capture", "--socket", socket}, args...)...)
	of.Await(captures, `msg="capture started"`, "id=")
	return p
}

// tsharkFields returns fields of the packets in a file that match a filter, one line per packet.
func tsharkFields(t *testing.T, file, filter string, fields ...string) (lines []string) {
	t.Helper()
	args := []string{"-T", "fields"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	out := program.Tshark(t, file, filter, args...)
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}

// TestCaptureOfDropsShowsTheReasons provokes drops. For each reason, port and class, tshark must
// find as many drops in the file as the switch counted, and the frames must be those that were
// sent.
func TestCaptureOfDropsShowsTheReasons(t *testing.T) {
	socket := program.SocketPath(t)
	_, p, one, two := newPlainPair(t, fmt.Sprintf(captureConfiguration, socket))
	two.send(plainFrame(senderMAC, receiverMAC, 100, 60)) // to be learned
	one.awaitReceived(1)
	file := filepath.Join(t.TempDir(), "drops.pcapng")
	// With this snap length, all of them are within the budget of an iteration.
	c := startCapture(t, p, 1, socket, "--drops", "--snaplen", "64", "-w", file)

	one.send(plainFrame(receiverMAC, senderMAC, 100, 1500)) // oversize
	one.send(plainFrame(receiverMAC, senderMAC, 200, 100))  // vlan_ingress
	one.send(groupFrame(0x0e))                              // reserved_address
	broadcast := plainFrame(senderMAC, senderMAC, 100, 100) // storm_limit
	copy(broadcast, []byte{255, 255, 255, 255, 255, 255})
	one.send(broadcast, broadcast, broadcast, broadcast)
	for range 300 {
		one.send(plainFrame(receiverMAC, senderMAC, 100, 1000)) // queue_full
	}
	two.awaitQuiet()
	c.Signal(unix.SIGINT)
	if code := c.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	c.Await(1, "frames captured")
	r := p.Stop()

	total := 0
	for _, port := range r.Ports {
		for _, d := range port.Drops {
			words := fmt.Sprintf(
				`frame.comment contains "verdict=dropped reason=%s port=%s " && frame.comment contains " cos=%d"`,
				d.Reason, port.Name, d.CoS)
			lines := tsharkFields(t, file, words, "frame.interface_name", "frame.len")
			if uint64(len(lines)) != d.Frames {
				t.Errorf("%s, %s, CoS %d: %d frames counted, %d captured", port.Name, d.Reason, d.CoS, d.Frames,
					len(lines))
			}
			for _, l := range lines {
				if !strings.HasPrefix(l, port.Name+"\t") {
					t.Errorf("%s, %s: %s", port.Name, d.Reason, l)
				}
			}
			total += len(lines)
			t.Logf("%s: %d dropped as %s in CoS %d, %q", port.Name, d.Frames, d.Reason, d.CoS, lines[:1])
		}
	}
	if all := tsharkFields(t, file, "frame", "frame.comment"); len(all) != total {
		t.Errorf("%d packets, %d of them drops: %q", len(all), total, all)
	}
	for reason, length := range map[string]string{"oversize": "1500", "vlan_ingress": "100", "reserved_address": "60",
		"storm_limit": "100", "queue_full": "1000"} {
		lines := tsharkFields(t, file, fmt.Sprintf(`frame.comment contains "reason=%s "`, reason), "frame.len")
		if len(lines) == 0 || lines[0] != length {
			t.Errorf("%s: %q", reason, lines)
		}
	}
}

// TestCaptureOfJumbo: a capture has every byte of frames of several parts, as received and as sent,
// or with a snap length the first bytes.
func TestCaptureOfJumbo(t *testing.T) {
	socket := program.SocketPath(t)
	_, p, one, two := newPlainPair(t, fmt.Sprintf(`
memory: {buffer_size: 4096B}
ports:
  - {device: port1, speed: 1G, mtu: %[1]d, vlans: [100], pvid: 100}
  - {device: port2, speed: 1G, mtu: %[1]d, vlans: [100], pvid: 100}
control: {socket: %[2]s}
`, jumboMTU, socket), netns.MTU(jumboMTU))
	two.send(plainFrame(senderMAC, receiverMAC, 100, 60)) // to be learned
	one.awaitReceived(1)
	random, frames := rand.New(rand.NewPCG(5, 6)), [][]byte(nil)
	for _, size := range jumboSizes {
		f := plainFrame(receiverMAC, senderMAC, 100, size)
		for i := 18; i < size; i++ {
			f[i] = byte(random.Uint32())
		}
		frames = append(frames, f)
	}
	const snap = 200
	for i, args := range [][]string{nil, {"--snaplen", fmt.Sprint(snap)}} {
		file := filepath.Join(t.TempDir(), "jumbo.pcapng")
		c := startCapture(t, p, i+1, socket, append([]string{"-w", file}, args...)...)
		for n, f := range frames { // one by one, so that no frame is beyond the budget of an iteration
			one.send(f)
			two.awaitReceived(uint64(i*len(frames) + n + 1))
		}
		c.Signal(unix.SIGINT)
		if code := c.ExitCode(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		want := frames
		if args != nil {
			want = nil
			for _, f := range frames {
				want = append(want, f[:min(snap, len(f))])
			}
		}
		for _, at := range []string{"port1", "port2"} {
			filter := fmt.Sprintf("frame.interface_name == %q && vlan.id == 100", at)
			expectFrames(t, at, framesIn(t, program.Tshark(t, file, filter, rawFrames...)), want, 0)
		}
	}
}

// plainFrame is a tagged frame of CoS 0.
func plainFrame(to, from []byte, vid byte, length int) []byte {
	f := make([]byte, length)
	copy(f, to)
	copy(f[6:], from)
	copy(f[12:], []byte{0x81, 0, 0, vid, 0x88, 0xb5})
	return f
}

// TestCaptureOnItsWay checks that a second capture at the same time is rejected, that a capture can
// go to a pipe, that it ends with its limit or with the switch, and that bad flags are reported.
func TestCaptureOnItsWay(t *testing.T) {
	socket := program.SocketPath(t)
	_, p, one, two := newPlainPair(t, fmt.Sprintf(captureConfiguration, socket))
	two.send(plainFrame(senderMAC, receiverMAC, 100, 60))
	one.awaitReceived(1)
	directory := t.TempDir()
	file := filepath.Join(directory, "first.pcapng")
	first := startCapture(t, p, 1, socket, "-w", file)

	second := program.Launch(t, nil, "capture", "--socket", socket, "-w", filepath.Join(directory, "second.pcapng"))
	if code := second.ExitCode(); code != cli.ExitFailure {
		t.Errorf("a second capture: exit code %d", code)
	}
	second.Await(1, "another capture is running")
	if _, err := os.Stat(filepath.Join(directory, "second.pcapng")); err == nil {
		t.Error("the second capture left a file")
	}
	checkRefusals(t, socket)

	told := make([]byte, pfc.FrameLength)
	(&pfc.Frame{Enable: 1 << 3}).Put(told, [6]byte(senderMAC))
	one.send(told)
	one.send(plainFrame(receiverMAC, senderMAC, 100, 90))
	two.awaitReceived(1)
	first.Signal(unix.SIGINT)
	first.ExitCode()
	first.Await(1, "3 of 3 frames captured")
	want := []string{
		"0x8808\t0x0101\t\tverdict=consumed port=port1 direction=rx control=pfc",
		"0x8100\t\t100\tverdict=forwarded port=port1 direction=rx cos=0 queue=0 to=port2",
		"0x8100\t\t100\tverdict=forwarded port=port2 direction=tx cos=0 queue=0 from=port1",
	}
	if got := tsharkFields(t, file, "frame", "eth.type", "macc.opcode", "vlan.id",
		"frame.comment"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}

	third := startCapture(t, p, 2, socket, "--direction", "rx", "--count", "2", "-w", "-")
	for range 3 {
		one.send(plainFrame(receiverMAC, senderMAC, 100, 90))
	}
	if code := third.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	piped := filepath.Join(directory, "piped.pcapng")
	if err := os.WriteFile(piped, third.Output.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tsharkFields(t, piped, "frame", "frame.len"); len(got) != 2 {
		t.Errorf("%q", got)
	}

	last := filepath.Join(directory, "last.pcapng")
	fourth := startCapture(t, p, 3, socket, "-w", last)
	one.send(plainFrame(receiverMAC, senderMAC, 100, 90))
	two.awaitReceived(5)
	p.Stop()
	if code := fourth.ExitCode(); code != 0 {
		t.Errorf("exit code %d after the end of the switch", code)
	}
	fourth.Await(1, "frames captured")
	if got := tsharkFields(t, last, `frame.comment contains "verdict=forwarded"`, "frame.len"); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// checkRefusals starts captures with invalid flags.
func checkRefusals(t *testing.T, socket string) {
	t.Helper()
	for _, wrong := range []struct {
		args string
		code int
		say  string
	}{
		{"--port port9", cli.ExitFailure, "port9 is not a port: choose one of [port1 port2]"},
		{"--port=", cli.ExitUsage, "--port is empty"},
		{"--cos=", cli.ExitUsage, "numbers from 0 to 7"},
		{"--cos 8", cli.ExitUsage, "numbers from 0 to 7"},
		{"--direction up", cli.ExitUsage, "rx, tx or both"},
	} {
		w := program.Launch(t, nil, append([]string{"capture", "--socket", socket, "-w", "-"},
			strings.Fields(wrong.args)...)...)
		if code := w.ExitCode(); code != wrong.code {
			t.Errorf("%s: exit code %d", wrong.args, code)
		}
		w.Await(1, wrong.say)
	}
}

// TestCaptureClientsThatFail checks that a full disk is reported, and that the switch keeps running
// and accepts the next capture after a client was killed.
func TestCaptureClientsThatFail(t *testing.T) {
	socket := program.SocketPath(t)
	_, p, one, two := newPlainPair(t, fmt.Sprintf(captureConfiguration, socket))
	two.send(plainFrame(senderMAC, receiverMAC, 100, 60))
	one.awaitReceived(1)
	full := program.Launch(t, nil, "capture", "--socket", socket, "-w", "/dev/full")
	if code := full.ExitCode(); code != cli.ExitFailure {
		t.Errorf("a full disk: exit code %d", code)
	}
	full.Await(1, "the capture can't be written", "no space left on device")
	p.Await(1, "capture aborted")

	killed := startCapture(t, p, 2, socket, "-w", filepath.Join(t.TempDir(), "killed.pcapng"))
	killed.Signal(unix.SIGKILL)
	killed.ExitCode()
	one.send(plainFrame(receiverMAC, senderMAC, 100, 90))
	two.awaitReceived(1)
	p.Await(1, "capture aborted", "id=2")
	last := startCapture(t, p, 3, socket, "--count", "2", "-w", filepath.Join(t.TempDir(), "last.pcapng"))
	one.send(plainFrame(receiverMAC, senderMAC, 100, 90))
	if code := last.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	last.Await(1, "2 of 2 frames captured")

	// Another user may have put a link where root captures.
	victim, link := filepath.Join(t.TempDir(), "victim"), filepath.Join(t.TempDir(), "link.pcapng")
	program.Must(t, errors.Join(os.WriteFile(victim, []byte("text"), 0o644), os.Symlink(victim, link)))
	misled := program.Launch(t, nil, "capture", "--socket", socket, "-w", link)
	if code := misled.ExitCode(); code != cli.ExitFailure {
		t.Errorf("a symbolic link: exit code %d", code)
	}
	misled.Await(1, "the capture can't be written", "is a symbolic link")
	if text, err := os.ReadFile(victim); err != nil || string(text) != "text" {
		t.Errorf("the file behind the link is %q, %v", text, err)
	}
	p.Stop()
}
