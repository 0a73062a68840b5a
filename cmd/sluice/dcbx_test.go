package main

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/lldppeer"
	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/report/console"
	"sluice/internal/state"
)

// dcbxConfiguration has a port with DCBX, port1, and one without. Fill in the port's keys. The
// interval is also how long a test may wait for a change.
const dcbxConfiguration = `
memory: {buffers: 4096, buffer_size: 2048B}
classes:
  - {cos: [3], name: storage, lossless: true}
  - {cos: [0, 1, 2, 4, 5, 6, 7], name: lan}
ets:
  - name: san
    groups:
      - {pg: 0, name: lan, cos: [0, 1, 2, 4, 5, 6], weight: 60}
      - {pg: 1, name: san, cos: [3], weight: 40}
      - {pg: 15, name: ipc, cos: [7]}
forwarding: {loop_guard: off} # hosts wait for silence
lldp: {enabled: true, interval: 30s, system_name: switcha, management_address: 192.0.2.1}
dcbx:
  applications:
    - {protocol: fcoe, priority: 3}
    - {tcp: 3260, priority: 4}
ports:
  - {device: port1, speed: 1G, in_flight: 16KB, response: 100us, ets: san, %s}
  - {device: port2, speed: 1G, in_flight: 16KB, response: 100us, ets: san, flow_control: pfc}
`

// sanTable is the profile san as lldpad has it: group 15 is the next free traffic class.
var sanTable = lldppeer.ETS{TC: [8]uint8{3: 1, 7: 2}, Bandwidth: [8]uint8{60, 40},
	TSA: [8]uint8{lldppeer.Weighted, lldppeer.Weighted, lldppeer.Strict}}

var switchApps = []lldppeer.App{
	{Priority: 3, Selector: lldppeer.EtherType, Protocol: 0x8906},
	{Priority: 4, Selector: lldppeer.TCP, Protocol: 3260},
}

// dcbxSwitch is a switch with DCBX.
type dcbxSwitch struct {
	*program.Running
	socket string
}

// startDCBXSwitch starts a switch with DCBX on port1, on a site with two hosts.
func startDCBXSwitch(t *testing.T, s program.Site, port string) *dcbxSwitch {
	t.Helper()
	return startDCBXSwitchWith(t, s, fmt.Sprintf(dcbxConfiguration, port))
}

func startDCBXSwitchWith(t *testing.T, s program.Site, text string) *dcbxSwitch {
	t.Helper()
	x := &dcbxSwitch{socket: program.SocketPath(t)}
	x.Running = program.StartSwitch(t, s.Home, text+fmt.Sprintf("control: {socket: %s}\n", x.socket))
	return x
}

// port returns the state of port1.
func (x *dcbxSwitch) port() state.Port {
	x.T.Helper()
	return x.portNamed("port1")
}

func (x *dcbxSwitch) portNamed(name string) state.Port {
	x.T.Helper()
	r, err := console.Dial(x.socket).State(x.T.Context())
	program.Must(x.T, err)
	return program.Report{Switch: *r}.Port(x.T, name)
}

// pfc returns the priorities with PFC on port1.
func (x *dcbxSwitch) pfc() uint8 {
	x.T.Helper()
	return bitmap(x.port().DCBX.Operational.PFC)
}

func bitmap(s *state.PFCSettings) (bits uint8) {
	if s != nil {
		for _, p := range s.Priorities {
			bits |= 1 << p
		}
	}
	return bits
}

// table returns settings as lldpad has them.
func table(s *state.ETSSettings) (e lldppeer.ETS) {
	if s == nil {
		return e
	}
	algorithms := map[string]uint8{"strict": lldppeer.Strict, "cbs": lldppeer.CreditBased, "ets": lldppeer.Weighted,
		"vendor": lldppeer.Vendor}
	for _, c := range s.TrafficClasses {
		for _, p := range c.Priorities {
			e.TC[p] = uint8(c.TC)
		}
		e.Bandwidth[c.TC], e.TSA[c.TC] = uint8(c.Bandwidth), algorithms[c.Algorithm]
	}
	return e
}

// apps returns applications as lldpad has them.
func apps(list []state.Application) (all []lldppeer.App) {
	selectors := map[string]uint8{"ethertype": lldppeer.EtherType, "tcp": lldppeer.TCP, "udp": lldppeer.UDP,
		"port": lldppeer.AnyPort, "dscp": lldppeer.DSCP}
	for _, a := range list {
		all = append(all,
			lldppeer.App{Priority: uint8(a.Priority), Selector: selectors[a.Selector], Protocol: a.Protocol})
	}
	return all
}

// mismatches returns the kinds of the mismatches of port1.
func (x *dcbxSwitch) mismatches() []string {
	x.T.Helper()
	return mismatches(x.port())
}

func mismatches(p state.Port) (kinds []string) {
	for _, m := range p.DCBX.Mismatches {
		if m.Active {
			kinds = append(kinds, m.Kind)
		}
	}
	return kinds
}

// TestLLDPADTakesTheSwitchsSettings: what the switch recommends becomes operational in a willing
// lldpad, and the switch shows what lldpad sends.
func TestLLDPADTakesTheSwitchsSettings(t *testing.T) {
	s := program.NewSite(t, 2)
	x := startDCBXSwitch(t, s, "flow_control: pfc, dcbx: {version: auto}")
	p := lldppeer.StartLLDPAD(t, s.Hosts[0], program.HostDevice)
	p.Configure(lldppeer.Settings{PFCWilling: true, ETSWilling: true})
	lldppeer.Await(t, "lldpad's device", lldppeer.Device{PFC: 1 << 3, ETS: sanTable, Apps: switchApps}, p.Device)
	lldppeer.Await(t, "the PFC that the peer has, as the switch shows it", 1<<3,
		func() uint8 { return bitmap(x.port().DCBX.Remote.PFC) })
	lldppeer.Await(t, "the ETS that the peer has, as the switch shows it", sanTable,
		func() lldppeer.ETS { return table(x.port().DCBX.Remote.ETS) })
	lldppeer.Await(t, "the applications that the peer has, as the switch shows them", switchApps,
		func() []lldppeer.App { return apps(x.port().DCBX.Remote.Applications) })
	lldppeer.Await(t, "the mismatches", nil, x.mismatches)
	mac := program.AddressIn(t, s.Hosts[0], program.HostDevice)
	if n := x.port().LLDP.Neighbors; len(n) != 1 || n[0].ChassisID != mac || n[0].MAC != mac ||
		n[0].TTLNS != int64(120*time.Second) {
		t.Errorf("neighbours %+v, want one with the address %s and a TTL of 120 s", n, mac)
	}
	show := func(args ...string) string {
		c := program.Launch(t, nil, append(args, "--socket", x.socket)...)
		if code := c.ExitCode(); code != 0 {
			t.Errorf("exit code %d of %q", code, args)
		}
		return c.Output.String()
	}
	if text := show("show", "dcbx"); !strings.Contains(text, "port1") || !strings.Contains(text, "ieee") {
		t.Errorf("show dcbx:\n%s", text)
	}
	if text := show("show", "lldp", "neighbors"); !strings.Contains(text, mac) {
		t.Errorf("show lldp neighbors without %s:\n%s", mac, text)
	}
	x.Stop()
}

// TestLLDPADWillingness tries all combinations of willingness to take PFC. lldpad has priority 5,
// the switch priority 3. If both are willing, the lower MAC address takes the other's.
func TestLLDPADWillingness(t *testing.T) {
	for _, c := range []struct {
		name          string
		port          string
		willing, peer bool
	}{
		{"none", "flow_control: auto, dcbx: {version: auto}", false, false},
		{"lldpad", "flow_control: auto, dcbx: {version: auto}", false, true},
		{"switch", "flow_control: auto, dcbx: {version: auto, role: upstream, willing: [pfc, ets]}", true, false},
		{"both", "flow_control: auto, dcbx: {version: auto, role: upstream, willing: [pfc, ets]}", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := program.NewSite(t, 2)
			x := startDCBXSwitch(t, s, c.port)
			p := lldppeer.StartLLDPAD(t, s.Hosts[0], program.HostDevice)
			p.Configure(lldppeer.Settings{PFC: 1 << 5, PFCWilling: c.peer, ETSWilling: c.peer, ETS: lldpadTable,
				ETSRecommendation: lldpadTable})
			wantSwitch, wantPeer := uint8(1<<3), uint8(1<<5)
			lower := program.AddressIn(t, s.Home, "port1") < program.AddressIn(t, s.Hosts[0], program.HostDevice)
			switch {
			case !c.willing && !c.peer:
				wantSwitch = 0 // nothing is agreed
			case c.willing && (!c.peer || lower):
				wantSwitch = 1 << 5
			}
			if c.peer && (!c.willing || !lower) {
				wantPeer = 1 << 3
			}
			lldppeer.Await(t, "lldpad's PFC", wantPeer, func() uint8 { return p.Device().PFC })
			lldppeer.Await(t, "the switch's PFC", wantSwitch, x.pfc)
			wantETS, wantPeerETS := sanTable, lldpadTable // ETS has no tie: each end takes the other's
			if c.willing {
				wantETS = lldpadTable
			}
			if c.peer {
				wantPeerETS = sanTable
			}
			lldppeer.Await(t, "lldpad's ETS", wantPeerETS, func() lldppeer.ETS { return p.Device().ETS })
			lldppeer.Await(t, "the switch's ETS", wantETS,
				func() lldppeer.ETS { return table(x.port().DCBX.Operational.ETS) })
			var want []string
			if wantSwitch != wantPeer {
				want = []string{"pfc"}
			}
			lldppeer.Await(t, "the mismatches", want, func() []string {
				return slices.DeleteFunc(x.mismatches(), func(k string) bool { return k != "pfc" && k != "no-peer" })
			})
			x.Stop()
		})
	}
}

// lldpadTable is the ETS of an lldpad: half of the link for priority 5.
var lldpadTable = lldppeer.ETS{TC: [8]uint8{5: 1}, Bandwidth: [8]uint8{50, 50},
	TSA: [8]uint8{lldppeer.Weighted, lldppeer.Weighted}}

// TestLLDPADChangesPriorities changes the lossless priorities of lldpad and then of the switch
// while frames of all of them are on their way. Each change must reach the other end within one
// interval, and no frame may be lost.
func TestLLDPADChangesPriorities(t *testing.T) {
	s := program.NewSite(t, 2)
	x := startDCBXSwitch(t, s, "flow_control: auto, dcbx: {version: auto, role: upstream, willing: [pfc]}")
	p := lldppeer.StartLLDPAD(t, s.Hosts[0], program.HostDevice)
	p.Configure(lldppeer.Settings{PFC: 1 << 3, ETS: sanTable, ETSRecommendation: sanTable})
	lldppeer.Await(t, "the switch's PFC at first", 1<<3, x.pfc)
	one, two := newDeafHost(t, s.Hosts[0]), newDeafHost(t, s.Hosts[1])
	two.send(plainFrame(receiverMAC, senderMAC, 100, 60)) // to be learned
	stop := stream(t, one, 3, 4, 5)
	for _, change := range []struct {
		setting string
		want    uint8
	}{{"3,4", 1<<3 | 1<<4}, {"5", 1 << 5}, {"none", 0}, {"3", 1 << 3}} {
		p.Set("PFC", "enabled="+change.setting)
		lldppeer.Await(t, "the switch's PFC after a change of lldpad", change.want, x.pfc)
		lldppeer.Await(t, "the PFC that lldpad has received", change.want,
			func() uint8 { return received(p.Received().PFC) })
	}
	p.Set("PFC", "willing=yes")
	file := x.Args[len(x.Args)-2]
	text, err := os.ReadFile(file)
	program.Must(t, err)
	changed := strings.Replace(string(text), "role: upstream, willing: [pfc]", "role: manual", 1)
	changed = strings.Replace(changed, "cos: [3], name: storage", "cos: [4], name: storage", 1)
	changed = strings.Replace(changed, "cos: [0, 1, 2, 4, 5, 6, 7], name: lan",
		"cos: [0, 1, 2, 3, 5, 6, 7], name: lan", 1)
	write(t, file, changed)
	x.Signal(unix.SIGHUP)
	x.Await(1, `msg="configuration reloaded"`)
	lldppeer.Await(t, "lldpad's PFC after a change of the switch", 1<<4, func() uint8 { return p.Device().PFC })
	lldppeer.Await(t, "the switch's PFC after its change", 1<<4, x.pfc)
	sent := stop()
	two.awaitReceived(sent)
	two.awaitQuiet()
	r := x.Stop()
	if r.LosslessDrops > 0 {
		t.Errorf("%d lossless frames dropped", r.LosslessDrops)
	}
	for _, cos := range []int{3, 4, 5} {
		if n := r.Drops(cos); n > 0 {
			t.Errorf("%d frames of CoS %d dropped", n, cos)
		}
	}
	t.Logf("%d frames forwarded", sent)
}

// stream sends frames of some CoS from a host until stop is called, which returns their number.
func stream(t *testing.T, h *plainHost, classes ...byte) (stop func() uint64) {
	t.Helper()
	sent := uint64(0)
	end := repeat(t, func() error {
		for _, cos := range classes {
			header := slices.Concat(receiverMAC, senderMAC, []byte{0x81, 0, cos << 5, 100, 0x88, 0xb5})
			f := append(header, make([]byte, 1000)...)
			if _, err := unix.Write(h.socket, f); err != nil {
				return err
			}
			sent++
		}
		time.Sleep(time.Millisecond)
		return nil
	})
	return func() uint64 {
		t.Helper()
		end()
		return sent
	}
}

// repeat calls do, again and again beside the test, until stop is called or do fails; stop then
// fails the test.
func repeat(t *testing.T, do func() error) (stop func()) {
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			if err := do(); err != nil {
				ended <- err
				return
			}
			select {
			case <-done:
				ended <- nil
				return
			default:
			}
		}
	}()
	return func() {
		t.Helper()
		close(done)
		program.Must(t, <-ended)
	}
}

func received(pfc *lldppeer.PFC) uint8 {
	if pfc == nil {
		return 0
	}
	return pfc.Enabled
}

// TestLLDPADKilled: when the TTL of a killed lldpad ends, after two minutes, PFC of a port with
// flow_control auto is off, with an alarm. Until then it stays on.
func TestLLDPADKilled(t *testing.T) {
	s := program.NewSite(t, 2)
	x := startDCBXSwitch(t, s, "flow_control: auto, dcbx: {version: auto}")
	p := lldppeer.StartLLDPAD(t, s.Hosts[0], program.HostDevice)
	p.Configure(lldppeer.Settings{PFCWilling: true, ETSWilling: true})
	lldppeer.Await(t, "the PFC of both ends", [2]uint8{1 << 3, 1 << 3},
		func() [2]uint8 { return [2]uint8{x.pfc(), p.Device().PFC} })
	program.Until(t, "the next second", func() bool {
		return x.port().LLDP.Neighbors[0].ExpiresInNS < int64(119*time.Second)
	})
	p.Kill()
	if len(x.mismatches()) > 0 || x.pfc() != 1<<3 {
		t.Errorf("right after the end of lldpad: mismatches %q, PFC %b", x.mismatches(), x.pfc())
	}
	lldppeer.AwaitWithin(t, 130*time.Second, "the mismatches after lldpad's TTL", []string{"no-peer"}, x.mismatches)
	lldppeer.Await(t, "the switch's PFC after lldpad's TTL", 0, x.pfc)
	x.Await(1, `msg="DCBX mismatch"`, "port=port1", "kind=no-peer")
	if n := x.port().LLDP; n.AgedOut != 1 || len(n.Neighbors) > 0 {
		t.Errorf("%d neighbours aged out, %d are left", n.AgedOut, len(n.Neighbors))
	}
	x.Stop()
}

// TestPeerWithShortTTL is TestLLDPADKilled with an lldpd whose TTL is three seconds. It comes back,
// and ends with a shutdown LLDPDU.
func TestPeerWithShortTTL(t *testing.T) {
	s := program.NewSite(t, 2)
	x := startDCBXSwitch(t, s, "flow_control: auto, dcbx: {version: auto}")
	pfc := lldppeer.OrganizationTLV{OUI: [3]byte{0x00, 0x80, 0xc2}, Subtype: 0x0b, Info: []byte{0x88, 1 << 3}}
	for end, goodbye := range map[string]func(*lldppeer.LLDPD){
		"killed":     (*lldppeer.LLDPD).Kill,
		"terminated": func(p *lldppeer.LLDPD) { p.Signal(unix.SIGTERM); p.ExitCode() },
	} {
		p := lldppeer.StartLLDPD(t, s.Hosts[0], program.HostDevice)
		p.SendTLV(pfc)
		lldppeer.Await(t, "the switch's PFC with a peer", 1<<3, x.pfc)
		goodbye(p)
		lldppeer.Await(t, "the mismatches after a peer was "+end, []string{"no-peer"}, x.mismatches)
		lldppeer.Await(t, "the switch's PFC without a peer", 0, x.pfc)
	}
	if n := x.port().LLDP.AgedOut; n != 1 {
		t.Errorf("%d neighbours aged out, want the killed one only", n)
	}
	x.Stop()
}

// TestLLDPDShowsTheSwitch: lldpd shows all TLVs that the switch sends, those of DCBX byte by byte,
// and forgets the switch as soon as it stops.
func TestLLDPDShowsTheSwitch(t *testing.T) {
	s := program.NewSite(t, 2)
	x := startDCBXSwitch(t, s, "flow_control: pfc, dcbx: {version: ieee}")
	p := lldppeer.StartLLDPD(t, s.Hosts[0], program.HostDevice)
	program.Until(t, "a neighbour of lldpd", func() bool { return len(p.Neighbors()) == 1 })
	n := p.Neighbors()[0]
	if n.SystemName != "switcha" || !strings.Contains(n.SystemDescription, "Sluice") || n.PortID != "port1" ||
		n.PortType != "ifname" || n.ChassisType != "mac" || !n.Capabilities["Bridge"] || n.PVID != "1" ||
		!reflect.DeepEqual(n.ManagementAddresses, []string{"192.0.2.1"}) {
		t.Errorf("lldpd's neighbour: %+v", n)
	}
	if n.TTL != "121" {
		t.Errorf("TTL %s, want interval × hold + 1", n.TTL)
	}
	oui := [3]byte{0x00, 0x80, 0xc2}
	want := map[uint8][]byte{
		0x09: {0, 0x00, 0x01, 0x00, 0x02, 60, 40, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0},
		0x0a: {0, 0x00, 0x01, 0x00, 0x02, 60, 40, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0},
		0x0b: {0x08, 1 << 3},
		0x0c: {0, 3<<5 | 1, 0x89, 0x06, 4<<5 | 2, 0x0c, 0xbc},
	}
	got := map[uint8][]byte{}
	for _, v := range n.Organization {
		if v.OUI == oui {
			got[v.Subtype] = v.Info
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("TLVs of DCBX: %v, want %v", got, want)
	}
	x.Stop()
	lldppeer.Await(t, "the number of lldpd's neighbours after the end of the switch", 0,
		func() int { return len(p.Neighbors()) })
}

// TestLLDPDShowsCIN: lldpd shows the TLV of CIN as DCBX 1.00 defines it. tshark can't check it,
// because it reads the priority groups of CIN as those of CEE.
func TestLLDPDShowsCIN(t *testing.T) {
	s := program.NewSite(t, 2)
	x := startDCBXSwitch(t, s, "flow_control: pfc, dcbx: {version: cin}")
	p := lldppeer.StartLLDPD(t, s.Hosts[0], program.HostDevice)
	want := lldppeer.OrganizationTLV{OUI: [3]byte{0x00, 0x1b, 0x21}, Subtype: 1, Info: slices.Concat(
		[]byte{1 << 1, 10, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},                              // control: SeqNo 1, AckNo 0
		[]byte{2 << 1, 28, 0, 0, 0x80, 0, 60, 40, 0, 0, 0, 0, 0, 0},                   // priority groups: on; bandwidth
		[]byte{0, 17, 0, 17, 0, 17, 1 << 5, 100, 0, 17, 0, 16, 0, 16, 2<<5 | 2<<3, 0}, // group, strict; share
		[]byte{3 << 1, 5, 0, 0, 0x80, 0, 1 << 3},                                      // PFC
		[]byte{5 << 1, 5, 0, 0, 0x80, 0, 1 << 3},                                      // FCoE
		[]byte{5 << 1, 5, 0, 0, 0x80, 1, 1 << 4},                                      // iSCSI
	)}
	lldppeer.Await(t, "the TLV of CIN", want, func() (v lldppeer.OrganizationTLV) {
		for _, n := range p.Neighbors() {
			for _, v := range n.Organization {
				if v.OUI == want.OUI {
					return v
				}
			}
		}
		return v
	})
	x.Stop()
}

// TestTsharkDecodesLLDPDUs: tshark finds nothing wrong with the LLDPDUs of the switch, with IEEE
// and CEE.
func TestTsharkDecodesLLDPDUs(t *testing.T) {
	const pg, tsa, pfc, feature = "lldp.dcbx.feature.pg.", "lldp.dcbx.ieee.ets.tsa", "lldp.dcbx.feature.pfc.prio",
		"lldp.dcbx.feature."
	ieeeETS := map[string]string{pg + "pgid_prio0": "0", pg + "pgid_prio3": "1", pg + "pgid_prio7": "2",
		pg + "per0": "60", pg + "per1": "40", tsa + "0": "2", tsa + "1": "2", tsa + "2": "0"}
	for version, want := range map[string]map[uint32]map[string]string{
		"ieee": {
			0x0080c209: ieeeETS, 0x0080c20a: ieeeETS,
			0x0080c20b: {"lldp.dcbx.ieee.willing": "0", pfc + "2": "0", pfc + "3": "1"},
			0x0080c20c: {"lldp.dcbx.ieee.app.prio": "3,4", "lldp.dcbx.iee.app.sf": "1,2",
				"lldp.dcbx.feature.app.proto": "0x8906,0x0cbc"},
		},
		"cee": {0x001b2102: {"lldp.dcbx.control.seq": "1", feature + "willing": "0,0,0", feature + "enabled": "1,1,1",
			feature + "error": "0,0,0", pg + "pgid_prio3": "1", pg + "per0": "60", pg + "per1": "40", pfc + "3": "1"}},
	} {
		s := program.NewSite(t, 2)
		program.NeedTshark(t)
		c := lldppeer.StartCapture(t, s.Hosts[0], program.HostDevice)
		x := startDCBXSwitch(t, s, "flow_control: pfc, dcbx: {version: "+version+"}")
		lldppeer.Await(t, "LLDPDUs sent", true, func() bool { return x.port().LLDP.Sent > 0 })
		frames := c.Frames()
		x.Stop()
		if len(frames) == 0 {
			t.Fatalf("%s: no LLDPDU captured", version)
		}
		for _, f := range frames {
			if len(f.Complaints) > 0 {
				t.Errorf("%s: tshark complains: %q", version, f.Complaints)
			}
		}
		for id, fields := range want {
			tlvs := frames[0].Find(id)
			if len(tlvs) != 1 {
				t.Errorf("%s: %d TLVs %x: %+v", version, len(tlvs), id, frames[0])
				continue
			}
			for name, value := range fields {
				if got := strings.Join(tlvs[0].Fields[name], ","); got != value {
					t.Errorf("%s: %s: %s is %q, want %q", version, tlvs[0].Label, name, got, value)
				}
			}
		}
	}
}

// accessSwitch is an access switch between two servers and an FCoE forwarder, at port3, as in
// examples/switcha.yaml.
const accessSwitch = `
memory: {buffers: 8192, buffer_size: 2048B}
classes:
  - {cos: [3], name: storage, lossless: true}
  - {cos: [0, 1, 2, 4, 5, 6, 7], name: lan}
lldp: {enabled: true}
ports:
  - {device: port1, speed: 1G, response: 100us, flow_control: auto, dcbx: {version: auto, role: downstream}}
  - {device: port2, speed: 1G, response: 100us, flow_control: auto, dcbx: {version: auto, role: downstream}}
  - {device: port3, speed: 1G, response: 100us, flow_control: auto, dcbx: {version: auto, role: upstream}}
`

// TestAccessSwitch: what the forwarder says reaches both servers through the switch. Without DCBX
// of one server, PFC is off at its port alone.
func TestAccessSwitch(t *testing.T) {
	s := program.NewSite(t, 3)
	x := startDCBXSwitchWith(t, s, accessSwitch)
	forwarder := lldppeer.StartLLDPAD(t, s.Hosts[2], program.HostDevice)
	forwarder.Configure(lldppeer.Settings{PFC: 1 << 3, ETS: sanTable, ETSRecommendation: sanTable,
		Apps: switchApps[:1]})
	server := lldppeer.StartLLDPAD(t, s.Hosts[0], program.HostDevice)
	server.Configure(lldppeer.Settings{PFCWilling: true, ETSWilling: true})
	// The other server has a short TTL. It has taken what the switch says.
	other := lldppeer.StartLLDPD(t, s.Hosts[1], program.HostDevice)
	other.SendTLV(lldppeer.OrganizationTLV{OUI: [3]byte{0x00, 0x80, 0xc2}, Subtype: 0x0b, Info: []byte{0x88, 1 << 3}})

	lldppeer.Await(t, "the server's device", lldppeer.Device{PFC: 1 << 3, ETS: sanTable, Apps: switchApps[:1]},
		server.Device)
	pfc := func() (all [3]uint8) {
		for i := range all {
			all[i] = bitmap(x.portNamed(fmt.Sprintf("port%d", i+1)).DCBX.Operational.PFC)
		}
		return all
	}
	lldppeer.Await(t, "the PFC of the ports", [3]uint8{1 << 3, 1 << 3, 1 << 3}, pfc)
	other.Kill()
	lldppeer.Await(t, "the PFC of the ports without one server", [3]uint8{1 << 3, 0, 1 << 3}, pfc)
	for name, want := range map[string][]string{"port1": nil, "port2": {"no-peer"}, "port3": nil} {
		lldppeer.Await(t, "the mismatches of "+name, want, func() []string { return mismatches(x.portNamed(name)) })
	}
	x.Stop()
}

// TestLLDPADUnderLoad changes the priorities of an lldpad while two hosts send more than a third
// can receive, at other ports. Every change is a generation; none may lose a lossless frame.
func TestLLDPADUnderLoad(t *testing.T) {
	s := program.NewSite(t, 4)
	c := newCrew(t, s, 1, []int{target, 1, 2}, map[int][]traffic.Flow{
		1: {flowToTarget(1, 1, lossless), flowToTarget(2, 1, lossy)},
		2: {flowToTarget(3, 2, lossless), flowToTarget(4, 2, lossy)}})
	x := startDCBXSwitchWith(t, s, slowSwitch+
		"  - {device: port4, speed: 20M, vlans: [1], flow_control: auto, dcbx: {version: auto, role: upstream}}\n"+
		"lldp: {enabled: true}\nmemory: {buffers: 40960}\n")
	c.Start(2)
	p := lldppeer.StartLLDPAD(t, s.Hosts[3], program.HostDevice)
	p.Configure(lldppeer.Settings{ETS: sanTable, ETSRecommendation: sanTable})
	for range 3 {
		for _, want := range []uint8{1 << 3, 1<<3 | 1<<4, 1 << 4, 0} {
			p.Configure(lldppeer.Settings{PFC: want, ETS: sanTable, ETSRecommendation: sanTable})
			lldppeer.Await(t, "the PFC of port4", want,
				func() uint8 { return bitmap(x.portNamed("port4").DCBX.Operational.PFC) })
			c.more(30, 1, 2, 3, 4)
		}
	}
	c.settle(1, 3)
	r := x.Stop()
	sent, got := c.sent(), c.received()
	c.leave()
	checkLossless(t, r, sent, got, 1, 3)
}

// TestLLDPADAsksTooMuch: the switch refuses a priority that its memory can't make lossless, and
// keeps the others.
func TestLLDPADAsksTooMuch(t *testing.T) {
	s := program.NewSite(t, 2)
	text := strings.Replace(dcbxConfiguration, "buffers: 4096", "buffers: 2304", 1)
	x := startDCBXSwitchWith(t, s, fmt.Sprintf(text,
		"flow_control: auto, dcbx: {version: auto, role: upstream, willing: [pfc]}"))
	p := lldppeer.StartLLDPAD(t, s.Hosts[0], program.HostDevice)
	p.Configure(lldppeer.Settings{PFC: 1 << 3, ETS: sanTable, ETSRecommendation: sanTable})
	lldppeer.Await(t, "the switch's PFC", 1<<3, x.pfc)
	p.Set("PFC", "enabled=0,1,2,3,4,5,6,7")
	lldppeer.Await(t, "the mismatches", []string{"refused"}, x.mismatches)
	x.Await(1, `msg="DCBX mismatch"`, "port=port1", "kind=refused", "raise buffers")
	lldppeer.Await(t, "the switch's PFC", 1<<3, x.pfc)
	p.Set("PFC", "enabled=3")
	lldppeer.Await(t, "the mismatches", nil, x.mismatches)
	x.Stop()
}

// TestTwoSwitchesAgree: two switches agree in each version, and forget what they agreed on when one
// of them stops.
func TestTwoSwitchesAgree(t *testing.T) {
	const text = `
memory: {buffers: 8192, buffer_size: 2048B}
classes: [{cos: [%d], name: storage, lossless: true}]
lldp: {enabled: true, system_name: %s}
ports: [{device: %s, speed: 1G, response: 100us, dcbx: {%s}, flow_control: auto}]
`
	for _, version := range []string{"ieee", "cee", "cin"} {
		t.Run(version, func(t *testing.T) {
			s := program.NewSite(t, 1)
			core := startDCBXSwitchWith(t, s, fmt.Sprintf(text, 3, "core", "port1", "version: "+version))
			edge := &dcbxSwitch{socket: program.SocketPath(t)}
			edge.Running = program.StartSwitch(t, s.Hosts[0], fmt.Sprintf(text, 5, "edge", program.HostDevice,
				"version: auto, role: upstream")+fmt.Sprintf("control: {socket: %s}\n", edge.socket))
			program.Until(t, "agree on priority 3", func() bool {
				a, b := core.port(), edge.portNamed(program.HostDevice)
				return bitmap(a.DCBX.Operational.PFC) == 8 && bitmap(b.DCBX.Operational.PFC) == 8 &&
					a.ByCoS[3].Lossless && b.ByCoS[3].Lossless && !b.ByCoS[5].Lossless
			})
			a, b := core.port(), edge.portNamed(program.HostDevice)
			if a.DCBX.Version != version || b.DCBX.Version != version || !b.DCBX.Source {
				t.Errorf("core %+v, edge %+v", a.DCBX, b.DCBX)
			}
			if all := slices.Concat(mismatches(a), mismatches(b)); len(all) > 0 {
				t.Errorf("mismatches %v", all)
			}
			core.Signal(unix.SIGTERM)
			program.Until(t, "forget the switch that stopped", func() bool {
				b = edge.portNamed(program.HostDevice)
				return bitmap(b.DCBX.Operational.PFC) == 0 && !b.ByCoS[3].Lossless
			})
			if kinds := mismatches(b); !slices.Equal(kinds, []string{"no-peer"}) {
				t.Errorf("mismatches %v after the peer has stopped", kinds)
			}
			edge.Stop()
		})
	}
}
