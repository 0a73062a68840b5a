package lldppeer

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
)

const device = program.HostDevice

// link joins two hosts by a veth pair.
func link(t *testing.T) (a, b *netns.Namespace) {
	t.Helper()
	program.NeedRoot(t)
	lab, err := netns.New("lldp")
	program.Must(t, err)
	t.Cleanup(func() { program.Must(t, lab.Close()) })
	a, err = lab.Namespace("a")
	program.Must(t, err)
	b, err = lab.Namespace("b")
	program.Must(t, err)
	program.Must(t, lab.Veth(a, device, b, device))
	return a, b
}

// half gives priority 3 half of the link, and all others the other half.
var half = ETS{TC: [8]uint8{3: 1}, Bandwidth: [8]uint8{50, 50}, TSA: [8]uint8{Weighted, Weighted}}

// fifth gives priority 3 a fifth of the link. Traffic class 2, for priority 7, is strict.
var fifth = ETS{TC: [8]uint8{3: 1, 7: 2}, Bandwidth: [8]uint8{80, 20}, TSA: [8]uint8{Weighted, Weighted}}

// applications is sorted.
var applications = []App{
	{3, EtherType, 0x8906}, {4, TCP, 3260}, {5, UDP, 4791}, {6, AnyPort, 4420}, {6, DSCP, 8}, {6, DSCP, 46},
}

// dcbx returns the TLVs of DCBX in an LLDPDU.
func dcbx(d LLDPDU) LLDPDU {
	d.Text = nil
	return d
}

// TestLLDPADsAgree: a willing lldpad takes over PFC, ETS and applications of one that is not.
func TestLLDPADsAgree(t *testing.T) {
	a, b := link(t)
	one, two := StartLLDPAD(t, a, device), StartLLDPAD(t, b, device)
	one.Configure(Settings{PFC: 1 << 3, ETS: fifth, ETSRecommendation: half, Apps: applications})
	two.Configure(Settings{PFCWilling: true, ETSWilling: true})
	Await(t, "the willing one's device", Device{1 << 3, half, applications}, two.Device)
	Await(t, "the other one's device", Device{1 << 3, fifth, applications}, one.Device)
	sent := LLDPDU{
		PFC:               &PFC{Capability: 8, Enabled: 1 << 3},
		ETS:               &ETSConfiguration{MaxTCs: 8, ETS: fifth},
		ETSRecommendation: &half,
		Apps:              applications,
	}
	Await(t, "what the willing one has received", sent, func() LLDPDU { return dcbx(two.Received()) })
	Await(t, "what the other one sends", sent, func() LLDPDU { return dcbx(one.Sent()) })
	taken := LLDPDU{
		PFC:               &PFC{Willing: true, Capability: 8, Enabled: 1 << 3},
		ETS:               &ETSConfiguration{Willing: true, MaxTCs: 8, ETS: half},
		ETSRecommendation: &ETS{},
		Apps:              applications,
	}
	Await(t, "what the other one has received", taken, func() LLDPDU { return dcbx(one.Received()) })
}

// TestLLDPADsTie tries all combinations of willingness. If both ends are willing, the end with the
// lower MAC address takes PFC from the other (openlldp, lldp_8021qaz.c, pfc_sm), and each takes the
// other's recommendation for ETS.
func TestLLDPADsTie(t *testing.T) {
	a, b := link(t)
	if program.AddressIn(t, a, device) > program.AddressIn(t, b, device) {
		a, b = b, a
	}
	lower, higher := StartLLDPAD(t, a, device), StartLLDPAD(t, b, device)
	lower.Configure(Settings{PFC: 1 << 3, ETS: half, ETSRecommendation: half})
	higher.Configure(Settings{PFC: 1 << 5, ETS: fifth, ETSRecommendation: fifth})
	for _, c := range []struct {
		lower, higher               bool // willing
		lowerWants, higherWants     uint8
		lowerWantsETS, higherWantsE ETS
	}{
		{false, false, 1 << 3, 1 << 5, half, fifth},
		{true, false, 1 << 5, 1 << 5, fifth, fifth},
		{false, true, 1 << 3, 1 << 3, half, half},
		{true, true, 1 << 5, 1 << 5, fifth, half},
	} {
		for p, willing := range map[*LLDPAD]bool{lower: c.lower, higher: c.higher} {
			p.Set("PFC", "willing="+yes(willing))
			p.Set("ETS-CFG", "willing="+yes(willing))
		}
		what := fmt.Sprintf("lower willing: %v, higher willing: %v: the device of the ", c.lower, c.higher)
		Await(t, what+"lower", Device{c.lowerWants, c.lowerWantsETS, nil}, lower.Device)
		Await(t, what+"higher", Device{c.higherWants, c.higherWantsE, nil}, higher.Device)
	}
}

// pfcTLV is an 802.1Qaz PFC configuration TLV.
func pfcTLV(willing bool, enabled uint8) OrganizationTLV {
	flags := byte(8)
	if willing {
		flags |= 0x80
	}
	return OrganizationTLV{[3]byte{0x00, 0x80, 0xc2}, 0x0b, []byte{flags, enabled}}
}

// TestLLDPDStandsForADCBXPeer: lldpad takes PFC from an lldpd, follows a change, and uses its own
// settings again when the TTL of a killed lldpd ends.
func TestLLDPDStandsForADCBXPeer(t *testing.T) {
	a, b := link(t)
	one, two := StartLLDPAD(t, a, device), StartLLDPD(t, b, device)
	one.Configure(Settings{PFC: 1 << 2, PFCWilling: true})
	pfc := func() uint8 { return one.Device().PFC }
	for _, enabled := range []uint8{1 << 3, 1<<3 | 1<<4, 0} {
		two.SendTLV(pfcTLV(false, enabled))
		Await(t, "what lldpad has taken from lldpd", enabled, pfc)
	}
	two.Kill()
	if text := one.Received().Text; len(text) == 0 {
		t.Error("a killed lldpd has said goodbye")
	}
	Await(t, "what lldpad uses without a peer", 1<<2, pfc)
	Await(t, "lldpad's neighbour", LLDPDU{}, func() LLDPDU { return dcbx(one.Received()) })
	if text := one.Received().Text; len(text) > 0 {
		t.Errorf("lldpad still has a neighbour: %v", text)
	}
	StartLLDPD(t, b, device).SendTLV(pfcTLV(false, 1<<6))
	Await(t, "what lldpad has taken from another lldpd", 1<<6, pfc)
}

// TestLLDPDShowsLLDPAD: lldpd sees what lldpad sends, and what it does not decode, byte by byte.
func TestLLDPDShowsLLDPAD(t *testing.T) {
	a, b := link(t)
	one, two := StartLLDPAD(t, a, device), StartLLDPD(t, b, device)
	one.Configure(Settings{PFC: 1 << 3, ETS: fifth, ETSRecommendation: half, Apps: applications[:2]})
	one.Set("portDesc", "enableTx=yes")
	two.SendTLV(pfcTLV(false, 0)) // lldpad sends its applications to a DCBX peer
	mac := program.AddressIn(t, a, device)
	index := 0
	program.OnLink(t, a, device, func(l netlink.Link) error { index = l.Attrs().Index; return nil })
	bytes := func(subtype uint8, text string) OrganizationTLV {
		info, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		program.Must(t, err)
		return OrganizationTLV{[3]byte{0x00, 0x80, 0xc2}, subtype, info}
	}
	want := []Neighbor{{
		ChassisType: "mac", ChassisID: mac, PortType: "mac", PortID: mac, TTL: "120",
		PortDescription: fmt.Sprintf("Interface %3d as %s", index, device), Capabilities: map[string]bool{},
		Organization: []OrganizationTLV{
			bytes(0x09, "00 00010002 50 14 000000000000 02 02 000000000000"),
			bytes(0x0a, "00 00010000 32 32 000000000000 02 02 000000000000"),
			bytes(0x0b, "08 08"),
			bytes(0x0c, "00 82 0cbc 61 8906"),
		},
	}}
	Await(t, "the neighbour of lldpd", want, two.Neighbors)
}

// TestLLDPADSaysGoodbye: a terminated lldpad sends a shutdown LLDPDU, so lldpd forgets it before
// its TTL ends.
func TestLLDPADSaysGoodbye(t *testing.T) {
	a, b := link(t)
	one, two := StartLLDPAD(t, a, device), StartLLDPD(t, b, device)
	neighbors := func() int { return len(two.Neighbors()) }
	Await(t, "the number of lldpd's neighbours", 1, neighbors)
	one.Signal(unix.SIGTERM)
	one.ExitCode()
	Await(t, "the number of lldpd's neighbours after the end of lldpad", 0, neighbors)
}

// TestTsharkDecodes: tshark decodes the TLVs of an lldpad without complaint, and complains about
// one of lldpd, which is deprecated.
func TestTsharkDecodes(t *testing.T) {
	a, b := link(t)
	one := StartLLDPAD(t, a, device)
	one.Configure(Settings{PFC: 1 << 3, PFCWilling: true, ETS: fifth, ETSRecommendation: half, Apps: applications[:2]})
	c := StartCapture(t, b, device)
	two := StartLLDPD(t, b, device)
	two.SendTLV(pfcTLV(false, 1<<3)) // lldpad sends its applications to a DCBX peer
	Await(t, "the length of the application TLV that lldpd has received", 1+2*3, func() (length int) {
		for _, n := range two.Neighbors() {
			for _, v := range n.Organization {
				if v.Subtype == 0x0c {
					length = len(v.Info)
				}
			}
		}
		return length
	})
	program.Until(t, "lldpd's name", func() bool { return one.Received().Text["System Name TLV"] != "" })
	from := map[string][]Frame{}
	for _, f := range c.Frames() {
		from[f.From] = append(from[f.From], f)
	}
	frames := from[program.AddressIn(t, a, device)]
	if len(frames) == 0 {
		t.Fatalf("no LLDPDU of lldpad in %v", from)
	}
	for _, f := range frames {
		if len(f.Complaints) > 0 {
			t.Errorf("tshark complains about lldpad: %q", f.Complaints)
		}
	}
	const pg, tsa, pfc = "lldp.dcbx.feature.pg.", "lldp.dcbx.ieee.ets.tsa", "lldp.dcbx.feature.pfc.prio"
	checkFields(t, frames[len(frames)-1], 3, map[string]string{"lldp.time_to_live": "120"})
	checkFields(t, frames[len(frames)-1], 0x0080c209, map[string]string{"lldp.dcbx.ieee.willing": "0",
		pg + "pgid_prio0": "0", pg + "pgid_prio3": "1", pg + "pgid_prio7": "2", pg + "per0": "80", pg + "per1": "20",
		tsa + "0": "2", tsa + "1": "2", tsa + "2": "0"})
	checkFields(t, frames[len(frames)-1], 0x0080c20b, map[string]string{"lldp.dcbx.ieee.willing": "1",
		"lldp.dcbx.ieee.pfc.numtcs": "8", pfc + "2": "0", pfc + "3": "1"})
	checkFields(t, frames[len(frames)-1], 0x0080c20c, map[string]string{"lldp.dcbx.ieee.app.prio": "4,3",
		"lldp.dcbx.iee.app.sf": "2,1", "lldp.dcbx.feature.app.proto": "0x0cbc,0x8906"})

	for _, f := range from[program.AddressIn(t, b, device)] {
		if !slices.Contains(f.Complaints, "TLV has been deprecated") {
			t.Errorf("tshark does not complain about a deprecated TLV: %+v", f)
		}
	}
}

// checkFields checks fields of the only TLV with an ID.
func checkFields(t *testing.T, f Frame, id uint32, want map[string]string) {
	t.Helper()
	tlvs := f.Find(id)
	if len(tlvs) != 1 {
		t.Fatalf("%d TLVs %x: %+v", len(tlvs), id, f.TLVs)
	}
	for name, value := range want {
		if got := strings.Join(tlvs[0].Fields[name], ","); got != value {
			t.Errorf("%s: %s is %q, want %q", tlvs[0].Label, name, got, value)
		}
	}
}

// TestAgentsEnd: agents end with the tests' process, even if that is killed, and leave nothing at
// the paths that they share with agents of the machine.
func TestAgentsEnd(t *testing.T) {
	const variable = "SLUICE_LLDPPEER_TEST_FILE"
	if file := os.Getenv(variable); file != "" {
		a, b := link(t)
		one, two := StartLLDPAD(t, a, device), StartLLDPD(t, b, device)
		Await(t, "the number of lldpd's neighbours", 1, func() int { return len(two.Neighbors()) })
		program.Must(t, os.WriteFile(file+".new", fmt.Appendln(nil, one.Process.Pid, two.Process.Pid), 0o600))
		program.Must(t, os.Rename(file+".new", file))
		t.Fatal("lldpad has ended: ", one.ExitCode())
	}
	need(t, "lldpad", "lldptool", "cc", "lldpd", "lldpcli")
	before := sharedPaths(t)
	file := filepath.Join(t.TempDir(), "pids")
	c := exec.Command("/proc/self/exe", "-test.run", "^TestAgentsEnd$")
	c.Env = append(os.Environ(), variable+"="+file)
	program.Must(t, c.Start())
	program.Until(t, "the agents run", func() bool { _, err := os.Stat(file); return err == nil })
	text, err := os.ReadFile(file)
	program.Must(t, err)
	var groups []string
	for pid := range strings.FieldsSeq(string(text)) {
		groups = append(groups, namespaceOf(pid))
	}
	if after := sharedPaths(t); !reflect.DeepEqual(before, after) {
		t.Errorf("agents change the machine: %q, before %q", after, before)
	}
	program.Must(t, c.Process.Signal(unix.SIGKILL))
	_ = c.Wait()
	for _, group := range groups {
		program.Until(t, "the end of all processes of an agent", func() bool { return processesIn(t, group) == 0 })
	}
}

// sharedPaths returns what agents would leave behind without a mount namespace.
func sharedPaths(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"/dev/shm/*lldp*", "/run/*lldp*", "/var/lib/lldpad/*"} {
		found, err := filepath.Glob(pattern)
		program.Must(t, err)
		paths = append(paths, found...)
	}
	return paths
}

// namespaceOf returns the mount namespace of a process, or "" if it has ended.
func namespaceOf(pid string) string {
	name, _ := os.Readlink("/proc/" + pid + "/ns/mnt")
	return name
}

// processesIn counts the processes in a mount namespace.
func processesIn(t *testing.T, namespace string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	program.Must(t, err)
	for _, p := range all {
		if namespaceOf(filepath.Base(p)) == namespace {
			n++
		}
	}
	return n
}
