package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/internal/cli"
	"sluice/internal/fcoe"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
	"sluice/internal/state"
)

// fsb is the beginning of files with FIP snooping.
const fsb = `
memory: {buffers: 65536, buffer_size: 4096B}
classes: [{cos: [3], name: storage, lossless: true}]
fcoe: {instances: [{name: FSB, vlan: 2094, fc_map: 0EFC10, fcfs: ["00:11:22:33:44:55"], age_multiplier: 3}]}
`

// TestCheckFCoE checks what check says of FIP snooping.
func TestCheckFCoE(t *testing.T) {
	checkWords(t, check(t, "-c", readable(t, fsb+`
ports:
  - {device: sw0, speed: 1G, mtu: 2158, fcoe: {enodes: [02-00-00-00-00-01, "20:00:02:00:00:00:00:02"]}}
  - {device: sw1, speed: 1G, mtu: 2158, fcoe: {role: vnp}}
  - {device: sw2, speed: 1G, mtu: 2158, fcoe: {role: trusted, max_enodes: 5}}
  - {device: sw3, speed: 1G, vlans: [1]}
`)), "fcoe instance vlan fc-map fcfs forgets after spma\n"+
		"FSB 2094 0EFC10 00:11:22:33:44:55 3 keep-alive periods false\n",
		"port fcoe role fcoe vlans enodes max enodes max sessions max pending\n"+
			"sw0 enode 2094 02:00:00:00:00:01,20:00:02:00:00:00:00:02 64 256 256\n"+
			"sw1 fcf 2094 – – – –\nsw2 trusted 2094 all 5 4096 4096\nswitch – – – 1024 4096 4096\n",
		"FIP snooping knows a session from its login", "FCoE in VLANs without an instance is dropped.")
	if out := check(t, "-c", readable(t, onePortFile)).Output.String(); strings.Contains(out, "fcoe") {
		t.Errorf("a switch without FIP snooping:\n%s", out)
	}
}

const onePortFile = "ports: [{device: sw0, speed: 1G}]\n"

// TestCheckFCoENotes checks the notes on files with which hosts could not log in or would lose
// frames, and that there are none without such settings.
func TestCheckFCoENotes(t *testing.T) {
	ports := func(all ...string) string {
		var b strings.Builder
		b.WriteString("ports:\n")
		for i, keys := range all {
			fmt.Fprintf(&b, "  - {device: sw%d, speed: 1G, mtu: 2158, %s}\n", i, keys)
		}
		return b.String()
	}
	const fcf = "fcoe: {role: fcf}"
	lossy := strings.Replace(fsb, "cos: [3]", "cos: [4]", 1)
	for _, test := range []struct{ name, text, note string }{
		{"as it should be", fsb + ports("link: trunk", fcf), ""},
		{"no FCF", fsb + ports("link: trunk", "link: trunk"),
			"no port in VLAN 2094 has the role fcf or trusted, so no host can log in"},
		{"FCFs behind another switch", fsb + ports("link: trunk", "fcoe: {role: trusted}"), ""},
		{"a role without a VLAN", fsb + ports("link: trunk", fcf, "vlans: [1], fcoe: {role: vnp}"),
			"port sw2 has the role fcf of fcoe, but is in no FCoE VLAN"},
		{"a role without snooping", onePortFile[:len(onePortFile)-3] + ", fcoe: {role: trusted}}]\n",
			"port sw0 has the role trusted of fcoe, but is in no FCoE VLAN"},
		{"FCoE without a tag", fsb + ports("link: access, pvid: 2094", fcf),
			"port sw0 has FCoE VLAN 2094 as its pvid, so frames without a tag pass only if they are FCoE or FIP"},
		{"VLAN requests stop here", fsb + ports("pvid: 5", "vlans: [1, 2094], "+fcf),
			"hosts at port sw0 can't ask for the FCoE VLAN: they do so without a tag, in VLAN 5"},
		{"VLAN requests reach the FCF", fsb + ports("pvid: 5", "vlans: [1, 5, 2094], "+fcf), ""},
		{"FCoE in a lossy class", lossy + ports("link: trunk", fcf),
			"FCoE usually has priority 3, which is in no lossless class"},
		{"FCoE without a tag, lossy", fsb + ports("link: access, pvid: 2094", fcf),
			"FCoE without a tag may be lost, since it has CoS 0, which is in no lossless class: set default_cos"},
		{"a lossy CoS", "qos: [{name: q, pcp_to_cos: {3: 0}}]\n" + fsb + ports("qos: q", fcf),
			"FCoE that port sw0 receives may be lost: qos domain q gives its priority 3 the CoS 0"},
		{"a lossy CoS outside FCoE VLANs", "qos: [{name: q, pcp_to_cos: {3: 0}}]\n" + fsb +
			ports("link: trunk", fcf, "vlans: [1], qos: q"), ""},
		{"FCoE in another class", lossy + ports("link: trunk", fcf) +
			"dcbx: {applications: [{protocol: fcoe, priority: 4}]}\n", ""},
		{"no flow control", fsb + ports("flow_control: off", fcf), "no flow control, so FCoE may be lost (sw0)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			checkNote(t, test.text, test.note)
		})
	}
}

// previewed is a switch with three sessions, which is asked what a reload would change.
type previewed struct {
	*fcoeSwitch
	file, text string
}

// newPreviewed runs a switch with an FCF at port1, host 02:00:00:00:20:00 at port2 with two
// sessions, of which one has an address of its own choice, 02:00:00:00:20:ff, and host
// 02:00:00:00:20:01 at port3 with one.
func newPreviewed(t *testing.T) *previewed {
	s := newFCoESite(t, 3)
	spma := strings.Replace(fcoePorts(3, "400M"), "vlan: 2094", "vlan: 2094, spma: true", 1)
	p := &previewed{fcoeSwitch: startFCoESwitch(t, s, spma)}
	p.file = p.Args[len(p.Args)-2]
	text, err := os.ReadFile(p.file)
	program.Must(t, err)
	p.text = string(text)
	fabric := newFCFabric(t, s.Hosts[0], 8*time.Second)
	p.awaitFCF(1)
	const first, second, chosen frame.MAC = 0x0200_0000_2000, 0x0200_0000_2001, 0x0200_0000_20ff
	one := &fcENode{fcHost: newFCHost(t, s.Hosts[1], nil), fcf: fabric.mac}
	one.login(fcoe.FLOGI, first, 0x1000_0000_0000_2000)
	request := loginRequest(fcoe.FDISC, one.exchange+1, 0x1000_0000_0000_2100)
	request.Flags, request.MAC = fcoe.FP|fcoe.SP, chosen
	if is := one.request(first, request).mac; is != chosen {
		t.Fatalf("%v has the address %v", first, is)
	}
	two := &fcENode{fcHost: newFCHost(t, s.Hosts[2], nil), fcf: fabric.mac}
	two.login(fcoe.FLOGI, second, 0x1000_0000_0000_2001)
	return p
}

// TestCheckEndings: check --running knows which sessions a reload ends, for which reason, and ends
// none. The reload ends these.
func TestCheckEndings(t *testing.T) {
	p := newPreviewed(t)
	const fcf, host3 = `"02:00:00:00:0f:01"`, "vlans: [1, 2094], mtu: 2158, fcoe: {max"
	allow := func(more string) string { return "spma: true, fcfs: [" + fcf + more + "]" }
	list := func(names string) string { return "vlans: [1, 2094], mtu: 2158, fcoe: {enodes: [" + names + "], max" }
	end := func(sessions int, why string) []snoop.Ending { return []snoop.Ending{{Sessions: sessions, Why: why}} }
	before := p.state()
	var text string
	for _, test := range []struct {
		name, port, old, new string // in the line of the port
		want                 []snoop.Ending
	}{
		{"nothing", "", "", "", nil},
		{"another limit", "", "spma: true", "spma: true, age_multiplier: 4", nil},
		{"the FCF is allowed", "", "spma: true", allow(""), nil},
		{"another FCF", "", "spma: true", `spma: true, fcfs: ["02:00:00:00:0f:02"]`,
			end(3, "FCF 02:00:00:00:0f:01 is not in fcfs")},
		{"the address of a host", "", "spma: true", allow(`, "02:00:00:00:20:01"`),
			end(1, "02:00:00:00:20:01, the address of a host, is in fcfs")},
		{"another VLAN", "", "2094", "2095", end(3, "VLAN 2094 has no instance")},
		{"another FC-MAP", "", "spma: true", "spma: true, fc_map: 0EFC11", end(3, "VLAN 2094 has another fc_map")},
		{"another role", "port1", "role: fcf", "role: trusted", end(3, "port port1 has another role")},
		{"no member", "port2", "[1, 2094]", "[1]", end(2, "port port2 is no longer in VLAN 2094")},
		{"another host is listed", "port3", host3, list(`"02:00:00:00:00:04"`),
			end(1, "enodes does not allow its host at port port3")},
		{"the WWPN is listed there", "port3", host3, list(`"10:00:00:00:00:00:20:01"`), nil},
		{"the WWPN is listed elsewhere", "port2", host3, list(`"10:00:00:00:00:00:20:01", "02:00:00:00:20:00"`),
			end(1, "enodes does not allow its host at port port3")},
		{"no SPMA", "", "spma: true", "spma: false", end(1, "spma is off in VLAN 2094")},
		{"the address of a VN_Port", "", "spma: true", allow(`, "02:00:00:00:20:ff"`),
			end(1, "02:00:00:00:20:ff, the address of a VN_Port, is in fcfs")},
	} {
		start, rest, _ := strings.Cut(p.text, "device: "+test.port)
		text = start + "device: " + test.port + strings.Replace(rest, test.old, test.new, 1)
		if test.port == "" {
			text = strings.ReplaceAll(p.text, test.old, test.new)
		}
		var r checkDocument
		check(t, "-c", readable(t, text), "--running", "--json").Document(&r)
		if !slices.Equal(r.Reload.Ending, test.want) || *r.Reload.Sessions != 3 || len(r.Notes) == 0 {
			t.Errorf("%s: %+v, notes %q, want %+v", test.name, r.Reload, r.Notes, test.want)
		}
	}
	was, _ := sessions(before)
	if now := p.state(); now.Configuration.Reloads != 0 || len(now.FCoE.Sessions) != 3 {
		t.Errorf("%+v, %+v", now.Configuration, now.FCoE.Sessions)
	}
	write(t, p.file, text)
	p.Signal(unix.SIGHUP)
	p.Await(1, `msg="configuration reloaded"`)
	if now, _ := sessions(p.state()); len(now) != 2 || !slices.Contains(was, now[0]) || !slices.Contains(was, now[1]) ||
		slices.ContainsFunc(now, func(s state.FCoESession) bool { return s.VNPort == "02:00:00:00:20:ff" }) {
		t.Errorf("sessions %+v", now)
	}
	p.Stop()
}

// TestCheckRunning compares a file with the switch that runs, and says so if none does or if that
// would refuse the file.
func TestCheckRunning(t *testing.T) {
	s := newFCoESite(t, 1)
	socket := program.SocketPath(t)
	ports := fmt.Sprintf("memory: {buffers: 65536, buffer_size: 4096B}\nmetrics: {listen: none}\n"+
		"control: {socket: %s}\nports: [{device: port1, speed: 1G, mtu: 2158", socket)
	text := strings.Replace(fsb, "\nmemory: {buffers: 65536, buffer_size: 4096B}", "", 1) + ports +
		", fcoe: {role: trusted}}, {device: port2, speed: 1G, mtu: 2158}]\n"
	file := readable(t, text)
	var out, problems bytes.Buffer
	run := func(file string) error {
		out.Reset()
		c := command()
		c.SetOut(&out)
		c.SetErr(&problems)
		c.SetArgs([]string{"check", "-c", file, "--running"})
		return c.ExecuteContext(t.Context())
	}
	if err := run(file); err == nil || err.Error() != "--running: no switch answers at "+socket+
		": set control.socket to that of the switch, or leave out --running" {
		t.Errorf("without a switch: %v", err)
	}
	if !strings.HasPrefix(out.String(), "ok\n") || strings.Contains(out.String(), "a reload") {
		t.Errorf("without a switch, this is printed:\n%s", &out)
	}
	p := program.StartSwitch(t, s.Home, ports+"}]\n")
	var r checkDocument
	check(t, "-c", readable(t, program.WithTransmitter(t, text)), "--running", "--json").Document(&r)
	want := []string{"a reload adds port port2", "a reload drops FCoE in VLANs without an instance from then on",
		"a reload begins FIP snooping on VLAN 2094"}
	if !slices.EqualFunc(r.Notes, want, strings.HasPrefix) {
		t.Errorf("notes %q, want %q", r.Notes, want)
	}
	other := readable(t, strings.Replace(text, "65536", "131072", 1))
	err, refusal := run(other), " "+other+":4:19: memory.buffers can't change while the switch runs: it is 65536 now"
	if cli.ExitCode(err) != cli.ExitConfiguration || !strings.Contains(err.Error(), refusal) ||
		!strings.HasPrefix(out.String(), "ok\n") {
		t.Errorf("a reload that is refused: %v\n%s", err, &out)
	}
	p.Stop()
}
