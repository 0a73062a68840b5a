package bed

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"sluice/bench/testkit/benchtest"
)

// openVSwitches are both kinds.
var openVSwitches = map[string]func() (*OpenVSwitch, error){
	OpenVSwitchAFXDPName: NewOpenVSwitchAFXDP,
	OpenVSwitchDPDKName:  NewOpenVSwitchDPDK,
}

func TestOpenVSwitchAbsent(t *testing.T) {
	t.Setenv("PATH", "")
	for name, open := range openVSwitches {
		if _, err := open(); !errors.Is(err, ErrAbsent) {
			t.Errorf("%s without its programs: %v", name, err)
		}
	}
}

// TestOpenVSwitch forwards frames, and leaves neither files nor XDP programs behind.
func TestOpenVSwitch(t *testing.T) {
	for name, open := range openVSwitches {
		t.Run(name, func(t *testing.T) {
			o, err := open()
			if errors.Is(err, ErrAbsent) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			checkOpenVSwitch(t, o)
		})
	}
}

func checkOpenVSwitch(t *testing.T, o *OpenVSwitch) {
	t.Helper()
	b := openVSwitchBed(t)
	if err := b.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	all, err1 := o.process.threads()
	forwarding, err2 := o.Threads()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for number, thread := range all {
		if thread.CPU == "" {
			t.Errorf("thread %s may use any CPU", number)
		}
	}
	if len(forwarding) == 0 || len(forwarding) == len(all) {
		t.Errorf("of the threads %v these forward: %v", all, forwarding)
	}
	if !strings.Contains(o.Version(), ".") || strings.Contains(o.Version(), "DPDK") != o.dpdk {
		t.Errorf("version %q", o.Version())
	}
	if !strings.Contains(o.Setup(), "ovs-vsctl add-port bridge s1") || strings.Contains(o.Setup(), os.TempDir()) {
		t.Errorf("set up by %s", o.Setup())
	}

	b.Forwarder = nil // stopped here, while the devices exist
	if err := o.Stop(); err != nil {
		t.Error(err)
	}
	wantNoFiles(t)
	for _, d := range b.Site.Devices {
		err := b.Site.Namespace.Do(func() error {
			link, err := netlink.LinkByName(d)
			if err == nil && link.Attrs().Xdp != nil && link.Attrs().Xdp.Attached {
				err = errors.New("still has an XDP program")
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
}

// openVSwitchBed returns a bed, and redirects temporary files to a separate directory.
func openVSwitchBed(t *testing.T) *Bed {
	t.Helper()
	benchtest.NeedRoot(t)
	t.Setenv("TMPDIR", t.TempDir())
	b, err := New(Params{
		Ports: 2, CPUs: [2]int{0, 1}, Streams: []Stream{{From: 0, To: 1, Length: 60},
			{From: 1, To: 0, Length: 60, Hello: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func wantNoFiles(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob(os.TempDir() + "/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestOpenVSwitchFails starts one whose daemon exits at once.
func TestOpenVSwitchFails(t *testing.T) {
	o, err := NewOpenVSwitchAFXDP()
	if errors.Is(err, ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := openVSwitchBed(t)
	o.path = "/bin/false"
	if err := o.Start(t.Context(), b.Site); err == nil || !strings.Contains(err.Error(), "exited unexpectedly") {
		t.Errorf("a daemon that ends at once: %v", err)
	}
	wantNoFiles(t)
}

func TestOpenVSwitchVersion(t *testing.T) {
	for _, c := range []struct {
		want  string
		lines []string
	}{
		{"", []string{"00001|ovs_numa|INFO|Discovered 2 CPU cores on NUMA node 0"}},
		{"3.1.0", []string{"00073|bridge|INFO|ovs-vswitchd (Open vSwitch) 3.1.0"}},
		{"3.1.0 with DPDK 22.11.11", []string{
			"00005|dpdk|INFO|Using DPDK 22.11.11", "00084|bridge|INFO|ovs-vswitchd-dpdk (Open vSwitch) 3.1.0",
		}},
	} {
		var v openVSwitchVersion
		for _, line := range c.lines {
			v.read(line)
		}
		if v.String() != c.want {
			t.Errorf("%q: version %q, want %q", c.lines, v.String(), c.want)
		}
	}
}

func TestCPUMask(t *testing.T) {
	var masks []string
	for _, cpu := range []int{0, 1, 7, 100} {
		masks = append(masks, cpuMask(cpu))
	}
	if want := []string{"0x1", "0x2", "0x80", "0x1" + strings.Repeat("0", 25)}; !slices.Equal(masks, want) {
		t.Errorf("%v, want %v", masks, want)
	}
}
