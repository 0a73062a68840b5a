package lldppeer

import (
	_ "embed" // dcbnl.c
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
)

// dcbnl is the source of the library that gives a device the DCB operations lldpad needs.
//
//go:embed preload/dcbnl.c
var dcbnl []byte

// LLDPAD is a running lldpad. Its timers are fixed: an LLDPDU every 30 s and at every change, a TTL
// of 120 s.
type LLDPAD struct {
	*program.Running
	in            *netns.Namespace
	device, state string // state: the file with the settings of the device
}

// Settings configure DCBX of an lldpad.
type Settings struct {
	PFC                    uint8 // bitmap of priorities
	PFCWilling, ETSWilling bool
	ETS, ETSRecommendation ETS
	Apps                   []App
}

// Device is what lldpad has set on its device: the operational values of its state machines.
type Device struct {
	PFC  uint8
	ETS  ETS
	Apps []App // sorted
}

// StartLLDPAD starts an lldpad on a device, which sends and receives all TLVs of IEEE DCBX. At
// first it is willing and has no priority with PFC, no application, and all traffic classes strict.
func StartLLDPAD(t *testing.T, in *netns.Namespace, device string) *LLDPAD {
	t.Helper()
	need(t, "lldpad", "lldptool", "cc")
	p := &LLDPAD{in: in, device: device, state: filepath.Join(t.TempDir(), "device.json")}
	p.Running = start(t, in, []string{"/dev/shm", "/run", "/var/lib/lldpad"}, "", "env", "LD_PRELOAD="+compile(t),
		"DCB_DEVICE="+device, "DCB_STATE="+p.state, "lldpad", "-t")
	program.Until(t, "lldpad's answer", func() bool {
		_, err := ask(in, "lldptool", "-L", "-i", device, "adminStatus=rxtx")
		return err == nil
	})
	for _, tlv := range []string{"ETS-CFG", "ETS-REC", "PFC", "APP"} {
		p.Set(tlv, "enableTx=yes")
	}
	return p
}

// compile compiles dcbnl and returns the path of the library.
func compile(t *testing.T) string {
	t.Helper()
	library := filepath.Join(t.TempDir(), "dcbnl.so")
	c := exec.Command("cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library,
		"-x", "c", "-")
	c.Stdin = strings.NewReader(string(dcbnl))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v (scripts/install-peers installs the compiler and its headers)\n%s", c, err, out)
	}
	return library
}

// Tool runs lldptool with a command and arguments for the device, and returns its output.
func (p *LLDPAD) Tool(command string, args ...string) string {
	p.T.Helper()
	args = append([]string{command, "-i", p.device}, args...)
	out, err := ask(p.in, "lldptool", args...)
	if err != nil {
		p.T.Fatalf("lldptool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Set changes settings of a TLV, as described in lldptool(8), lldptool-pfc(8), lldptool-ets(8) and
// lldptool-app(8).
func (p *LLDPAD) Set(tlv string, settings ...string) {
	p.T.Helper()
	p.Tool("-T", append([]string{"-V", tlv}, settings...)...)
}

// Configure sets everything in s. Applications are added to those that lldpad has, and bandwidths
// that are all 0 change nothing. lldpad sets and sends new applications when the next change comes
// from its peer, or 15 s after its start.
func (p *LLDPAD) Configure(s Settings) {
	p.T.Helper()
	for _, a := range s.Apps {
		p.Set("APP", fmt.Sprintf("app=%d,%d,%d", a.Priority, a.Selector, a.Protocol))
	}
	p.Set("ETS-CFG", append(s.ETS.settings(), "willing="+yes(s.ETSWilling))...)
	p.Set("ETS-REC", s.ETSRecommendation.settings()...)
	p.Set("PFC", "enabled="+priorities(s.PFC), "willing="+yes(s.PFCWilling))
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// priorities returns a bitmap as lldptool takes it.
func priorities(bits uint8) string {
	var list []string
	for i := range 8 {
		if bits>>i&1 == 1 {
			list = append(list, strconv.Itoa(i))
		}
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, ",")
}

// settings returns a table as lldptool takes it. lldpad refuses bandwidths that are all 0, although
// these are its default.
func (e ETS) settings() []string {
	names := map[uint8]string{Strict: "strict", CreditBased: "cb_shaper", Weighted: "ets", Vendor: "vendor"}
	var tsa, tc, bandwidth []string
	for i := range 8 {
		tsa = append(tsa, fmt.Sprintf("%d:%s", i, names[e.TSA[i]]))
		tc = append(tc, fmt.Sprintf("%d:%d", i, e.TC[i]))
		bandwidth = append(bandwidth, strconv.Itoa(int(e.Bandwidth[i])))
	}
	settings := []string{"tsa=" + strings.Join(tsa, ","), "up2tc=" + strings.Join(tc, ",")}
	if e.Bandwidth != [8]uint8{} {
		settings = append(settings, "tcbw="+strings.Join(bandwidth, ","))
	}
	return settings
}

// Device returns what lldpad has set on its device; the zero value if nothing yet.
func (p *LLDPAD) Device() (d Device) {
	p.T.Helper()
	text, err := os.ReadFile(p.state)
	if os.IsNotExist(err) {
		return d
	}
	program.Must(p.T, err)
	program.Must(p.T, json.Unmarshal(text, &d))
	d.Apps = sorted(d.Apps)
	return d
}

// Sent returns the LLDPDU that lldpad sends now, as lldptool decodes it.
func (p *LLDPAD) Sent() LLDPDU {
	p.T.Helper()
	return parseLLDPDU(p.T, p.Tool("-t"))
}

// Received returns the LLDPDU of lldpad's neighbour, as lldptool decodes it; the zero value if
// there is none, or it has aged out.
func (p *LLDPAD) Received() LLDPDU {
	p.T.Helper()
	return parseLLDPDU(p.T, p.Tool("-t", "-n"))
}

// Kill ends lldpad at once, without a shutdown LLDPDU.
func (p *LLDPAD) Kill() { kill(p.Running) }
