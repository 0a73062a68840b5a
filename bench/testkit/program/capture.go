package program

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
)

// dumpcapTime is the longest time that a frame waits for dumpcap in the kernel's buffer.
const dumpcapTime = 250 * time.Millisecond

// Capture is a running dumpcap. It and tshark, which decodes the file, share no code with the
// switch, so the frames on the wire are what these tools say.
type Capture struct {
	t       *testing.T
	file    string
	dumpcap *Running
}

// NeedTshark skips the test if tshark or dumpcap is not installed.
func NeedTshark(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"tshark", "dumpcap"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs tshark (scripts/install-peers): %v", err)
		}
	}
}

// StartCapture captures what a device sends and receives. The arguments go to dumpcap, such as a
// filter.
func StartCapture(t *testing.T, in *netns.Namespace, device string, args ...string) *Capture {
	t.Helper()
	c := &Capture{t: t, file: filepath.Join(t.TempDir(), "capture.pcapng")}
	args = append([]string{"-q", "-n", "-i", device, "-B", "32", "-w", c.file}, args...)
	c.dumpcap = LaunchCommand(t, in, exec.Command("dumpcap", args...))
	c.dumpcap.Await(1, "File: ") // from now on it captures everything
	return c
}

// EndCaptures ends captures, so that their files are complete. Frames that dumpcap has missed fail
// the test.
func EndCaptures(captures ...*Capture) {
	time.Sleep(2 * dumpcapTime)
	for _, c := range captures {
		c.t.Helper()
		c.dumpcap.Signal(unix.SIGINT)
		if code := c.dumpcap.ExitCode(); code != 0 {
			c.t.Fatalf("exit code %d of dumpcap", code)
		}
		c.dumpcap.Await(1, "received/dropped on interface", "/0 (pcap:0/dumpcap:0/")
	}
}

// Decode returns the given fields of the frames that match a display filter. The capture must have
// ended.
func (c *Capture) Decode(filter string, fields ...string) (rows [][]string) {
	c.t.Helper()
	return Decode(c.t, c.file, filter, fields...)
}

// Decode returns the given fields of the frames of a file that match a display filter.
func Decode(t *testing.T, file, filter string, fields ...string) (rows [][]string) {
	t.Helper()
	args := []string{"-T", "fields", "-E", "separator=/t"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	for line := range strings.Lines(string(Tshark(t, file, filter, args...))) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}

// Tshark runs tshark on a capture that has ended; args select its output.
func (c *Capture) Tshark(filter string, args ...string) []byte {
	c.t.Helper()
	return Tshark(c.t, c.file, filter, args...)
}

// Tshark runs tshark on a file; args select its output.
func Tshark(t *testing.T, file, filter string, args ...string) []byte {
	t.Helper()
	c := exec.Command("tshark", append([]string{"-n", "-r", file, "-Y", filter}, args...)...)
	var complaint bytes.Buffer
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, &complaint)
	}
	return out
}
