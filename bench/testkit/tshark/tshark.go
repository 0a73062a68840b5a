// Package tshark lets tests compare their own reading of frames with that of Wireshark's tshark.
package tshark

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Fields returns fields of Ethernet frames as tshark decodes them: a row for each frame, in it a
// value for each field. Several values of a field are joined by commas. It skips the test if there
// is no tshark.
func Fields(t testing.TB, frames [][]byte, fields ...string) (rows [][]string) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skipf("needs tshark (scripts/install-peers): %v", err)
	}
	args := []string{"-n", "-r", Capture(t, frames), "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a",
		"-E", "aggregator=,"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	c := exec.Command("tshark", args...)
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, complaints.String())
	}
	for line := range strings.Lines(string(out)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != len(fields) {
			t.Fatalf("%d values of %d fields: %q", len(row), len(fields), line)
		}
		rows = append(rows, row)
	}
	if len(rows) != len(frames) {
		t.Fatalf("%d of %d frames", len(rows), len(frames))
	}
	return rows
}

// Capture writes Ethernet frames to a capture file of the test, and returns its path.
func Capture(t testing.TB, frames [][]byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "frames.pcap")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := pcapgo.NewWriter(file)
	if err := w.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(0, 0), CaptureLength: len(f), Length: len(f)}
		if err := w.WritePacket(info, f); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
