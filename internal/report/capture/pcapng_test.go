package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"pgregory.net/rapid"
)

// TestFilesAreReadBack: pcapgo, an independent reader, reads what was written.
func TestFilesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ports := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) port {
			return port{rapid.StringMatching(`[a-z]{1,15}`).Draw(t, "name"), rapid.Uint64().Draw(t, "speed")}
		}), 1, 5).Draw(t, "ports")
		packets := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) packet {
			data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
			return packet{
				port: rapid.IntRange(0, len(ports)-1).Draw(t, "port"), at: rapid.Int64Range(0, 1<<62).Draw(t, "at"),
				length: len(data) + rapid.IntRange(0, 2000).Draw(t, "cut"), data: data,
				inbound: rapid.Bool().Draw(t, "inbound"),
				lost:    rapid.Uint32Range(0, 2).Draw(t, "lost"),
				comment: []byte(rapid.StringN(0, 200, 800).Draw(t, "comment")),
			}
		}), 0, 20).Draw(t, "packets")
		accepted, lost := rapid.Uint64().Draw(t, "accepted"), rapid.Uint64().Draw(t, "lost")

		var file bytes.Buffer
		w, err := newFileWriter(&file, "sluice test", ports, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range packets {
			if err := w.packet(&packets[i]); err != nil {
				t.Fatal(err)
			}
		}
		for i := range ports {
			if err := w.statistics(i, statistics{from: 1e9, to: 3e9, accepted: accepted, lost: lost}); err != nil {
				t.Fatal(err)
			}
		}
		if w.written != int64(file.Len()) {
			t.Errorf("%d bytes written, %d counted", file.Len(), w.written)
		}
		checkFile(t, file.Bytes(), ports, packets, lost)
	})
}

// checkFile reads a file and compares.
func checkFile(t *rapid.T, file []byte, ports []port, packets []packet, lost uint64) {
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if app := r.SectionInfo().Application; app != "sluice test" {
		t.Errorf("written by %q", app)
	}
	for i, want := range packets {
		data, info, options, err := r.ReadPacketDataWithOptions()
		if err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		comment, missing, outbound := "", uint64(0), options.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound
		if len(options.Comments) > 0 {
			comment = options.Comments[0]
		}
		if options.DropCount != nil {
			missing = *options.DropCount
		}
		if !bytes.Equal(data, want.data) || info.Length != want.length || info.InterfaceIndex != want.port ||
			info.Timestamp.UnixNano() != want.at ||
			comment != string(want.comment) || missing != uint64(want.lost) || outbound == want.inbound {
			t.Errorf("packet %d: %v %+v %+v, was %+v", i, data, info, options, want)
		}
	}
	if _, _, err := r.ReadPacketData(); err != io.EOF {
		t.Fatalf("behind the last packet: %v", err)
	}
	if r.NInterfaces() != len(ports) {
		t.Fatalf("%d interfaces, want %d", r.NInterfaces(), len(ports))
	}
	for i, want := range ports {
		got, err := r.Interface(i)
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != want.name || got.LinkType != layers.LinkTypeEthernet || got.TimestampResolution != 9 {
			t.Errorf("interface %d: %+v, want %+v", i, got, want)
		}
		if s := got.Statistics; s.PacketsDropped != lost || s.StartTime.UnixNano() != 1e9 ||
			s.EndTime.UnixNano() != 3e9 {
			t.Errorf("interface %d: %+v", i, s)
		}
	}
}

// TestFilesKeepTheirLimit: a file, including its statistics, uses its limit but never exceeds it.
func TestFilesKeepTheirLimit(t *testing.T) {
	ports := []port{{"one", 1e10}, {"another", 1e9}}
	for limit := range int64(1200) {
		if limit == 0 {
			continue
		}
		var file bytes.Buffer
		w, err := newFileWriter(&file, "sluice", ports, 0, limit)
		if err != nil {
			if !errors.Is(err, errLimit) || limit > 600 || !strings.Contains(err.Error(), "allow some KiB more") {
				t.Fatalf("%d: %v", limit, err)
			}
			continue
		}
		n := 0
		for p := (packet{data: make([]byte, 60), length: 60, comment: []byte("x")}); err == nil && n < 100; n++ {
			err = w.packet(&p)
		}
		if !errors.Is(err, errLimit) {
			t.Fatalf("limit %d: %v", limit, err)
		}
		for i := range ports {
			if err := w.statistics(i, statistics{}); err != nil {
				t.Fatalf("limit %d: %v", limit, err)
			}
		}
		if over := int64(file.Len()) - limit; over > 0 || over < -124 {
			t.Fatalf("limit %d: %d bytes", limit, file.Len())
		}
	}
}

// TestTsharkReadsFiles: tshark, the usual reader, finds no fault with a file and reads what was
// written.
func TestTsharkReadsFiles(t *testing.T) {
	for _, tool := range []string{"tshark", "capinfos"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs tshark and capinfos (scripts/install-peers): %v", err)
		}
	}
	var file bytes.Buffer
	w, err := newFileWriter(&file, "sluice 1", []port{{"port1", 25e9}, {"port2", 1e9}}, 96, 0)
	if err != nil {
		t.Fatal(err)
	}
	// An IPv4 packet of 46 bytes, and padding.
	frame := append(bytes.Repeat([]byte{2}, 12), append([]byte{8, 0, 0x45, 0, 0, 46}, make([]byte, 46)...)...)
	comment := "verdict=dropped reason=queue_full port=port2 direction=tx cos=0 queue=0 from=port1"
	for _, p := range []packet{
		{port: 0, at: 1_700_000_000_123_456_789, length: 1500, data: frame, inbound: true,
			comment: []byte("verdict=forwarded port=port1")},
		{port: 1, at: 1_700_000_001_000_000_001, length: len(frame), data: frame, lost: 17, comment: []byte(comment)},
	} {
		if err := w.packet(&p); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		if err := w.statistics(i, statistics{from: 1_700_000_000e9, to: 1_700_000_002e9, accepted: 18, lost: 17,
			delivered: 1}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "file.pcapng")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("port1\t1\t1700000000.123456789\t1500\t64\t00000000\t\tverdict=forwarded "+
		"port=port1\nport2\t2\t1700000001.000000001\t64\t64\t00000000\t17\t%s\n", comment)
	got := run(t, "tshark", "-n", "-r", path, "-T", "fields", "-e", "frame.interface_name", "-e",
		"frame.packet_flags_direction",
		"-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.cap_len", "-e", "eth.trailer", "-e",
		"frame.drop_count", "-e", "frame.comment")
	if got = strings.ReplaceAll(got, "0x0000000", ""); got != want {
		t.Errorf("tshark reads\n%s, want\n%s", got, want)
	}
	about := run(t, "capinfos", path)
	for _, say := range []string{"Capture application: sluice 1", "Name = port1", "Speed = 25000000000",
		"Time precision = nanoseconds", "Number of packets = 1", "Name = port2", "Capture length = 96"} {
		if !strings.Contains(about, say) {
			t.Errorf("capinfos does not say %q:\n%s", say, about)
		}
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, complaints.Bytes())
	}
	return string(out)
}

// TestWritingAllocatesNothing: a capture must not cause garbage collections, which stop the
// workers.
func TestWritingAllocatesNothing(t *testing.T) {
	w, err := newFileWriter(io.Discard, "sluice", []port{{"port1", 1e10}}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := packet{data: make([]byte, 1500), length: 1500, comment: []byte("verdict=forwarded"), lost: 1}
	if err := w.packet(&p); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { err = errors.Join(err, w.packet(&p)) }); n != 0 || err != nil {
		t.Errorf("%v allocations for a packet, error %v", n, err)
	}
}
