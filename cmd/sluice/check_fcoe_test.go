package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/fcoe/snoop"
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

// TestCheckEndings: a configuration ends the sessions that don't fit it, and no others. The rule is
// that of snooping.
func TestCheckEndings(t *testing.T) {
	const text = fsb + `
ports:
  - {device: sw0, speed: 1G, mtu: 2158}
  - {device: sw1, speed: 1G, mtu: 2158, fcoe: {role: fcf}}
  - {device: sw2, speed: 1G, mtu: 2158}
`
	const fcf = "00:11:22:33:44:55"
	session := func(port, vn, enode string) state.FCoESession {
		return state.FCoESession{VLAN: 2094, Port: port, ENode: enode, FCFPort: "sw1", VNPort: vn, FCF: fcf,
			WWPN: "20:00:" + enode}
	}
	now := &state.Switch{
		FCoE: &state.FCoE{Instances: []state.FCoEInstance{{Name: "FSB", VLAN: 2094, FCMap: "0EFC10"}},
			FCFs: []state.FCF{{VLAN: 2094, MAC: fcf, Port: "sw1", FCMap: "0EFC10"}},
			Sessions: []state.FCoESession{session("sw0", "0e:fc:10:01:00:01", "02:00:00:00:00:01"),
				session("sw0", "02:00:00:00:00:02", "02:00:00:00:00:01"),
				session("sw2", "0e:fc:10:01:00:03", "02:00:00:00:00:03")}},
		Ports: []state.Port{{Name: "sw0", FCoE: &state.PortFCoE{Role: "enode"}},
			{Name: "sw1", FCoE: &state.PortFCoE{Role: "fcf"}}, {Name: "sw2", FCoE: &state.PortFCoE{Role: "enode"}}},
	}
	all := func(why string) []snoop.Ending { return []snoop.Ending{{Sessions: 3, Why: why}} }
	one := func(why string) []snoop.Ending { return []snoop.Ending{{Sessions: 1, Why: why}} }
	for _, test := range []struct {
		name, old, new string
		want           []snoop.Ending
	}{
		{"nothing", "", "", nil},
		{"another limit", "age_multiplier: 3", "age_multiplier: 4", nil},
		{"a further FCF", "fcfs: [", `fcfs: ["00:11:22:33:44:66", `, nil},
		{"no limit of FCFs", `fcfs: ["00:11:22:33:44:55"], `, "", nil},
		{"another VLAN", "2094", "2095", all("VLAN 2094 has no instance")},
		{"another FC-MAP", "0EFC10", "0EFC11", all("VLAN 2094 has another fc_map")},
		{"another FCF", "44:55", "44:66", all("FCF 00:11:22:33:44:55 is not in fcfs")},
		{"the address of a host", "fcfs: [", `fcfs: ["02:00:00:00:00:03", `,
			one("02:00:00:00:00:03, the address of a host, is in fcfs")},
		{"the address of a VN_Port", "fcfs: [", `fcfs: ["02:00:00:00:00:02", `,
			one("02:00:00:00:00:02, the address of a VN_Port, is in fcfs")},
		{"a port less", "  - {device: sw2, speed: 1G, mtu: 2158}\n", "", one("port sw2 is removed")},
		{"another role", "{role: fcf}", "{role: trusted}", all("port sw1 has another role")},
		{"no member", "sw0, speed: 1G, mtu: 2158", "sw0, speed: 1G, vlans: [1]",
			[]snoop.Ending{{Sessions: 2, Why: "port sw0 is no longer in VLAN 2094"}}},
		{"another host is listed", "sw2, speed: 1G, mtu: 2158", `sw2, speed: 1G, mtu: 2158, ` +
			`fcoe: {enodes: ["02:00:00:00:00:04"]}`, one("enodes does not allow its host at port sw2")},
		{"the WWPN is listed there", "sw2, speed: 1G, mtu: 2158", `sw2, speed: 1G, mtu: 2158, ` +
			`fcoe: {enodes: ["20:00:02:00:00:00:00:03"]}`, nil},
		{"the WWPN is listed elsewhere", "sw0, speed: 1G, mtu: 2158", `sw0, speed: 1G, mtu: 2158, ` +
			`fcoe: {enodes: ["20:00:02:00:00:00:00:03", "02:00:00:00:00:01"]}`,
			one("enodes does not allow its host at port sw2")},
		{"no SPMA", "spma: true", "spma: false", one("spma is off in VLAN 2094")},
	} {
		of := strings.Replace(text, "vlan: 2094", "vlan: 2094, spma: true", 1)
		if test.old != "" {
			of = strings.ReplaceAll(of, test.old, test.new)
		}
		c, err := config.Parse("test.yaml", []byte(of))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got, err := snoop.Reported(now).Ending(control.FCoEParams(c)); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %+v, %v, want %+v", test.name, got, err, test.want)
		}
	}
}

// TestCheckBeginnings: snooping begins in VLANs that had none.
func TestCheckBeginnings(t *testing.T) {
	const text = fsb + "ports: [{device: sw0, speed: 1G, mtu: 2158}]\n"
	now := &state.Switch{FCoE: &state.FCoE{Instances: []state.FCoEInstance{{VLAN: 2094}}}}
	for _, test := range []struct {
		now  *state.Switch
		want int
	}{{now, 0}, {&state.Switch{}, 2}, {&state.Switch{FCoE: &state.FCoE{}}, 1}} {
		c, err := config.Parse("test.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := beginnings(test.now, c); len(got) != test.want {
			t.Errorf("%q, want %d", got, test.want)
		}
	}
}

// TestCheckRunning compares a file with the switch that runs, and says so if none does.
func TestCheckRunning(t *testing.T) {
	s := program.NewSite(t, 1)
	socket := program.SocketPath(t)
	text := "control: {socket: " + socket + "}\n" + fsb + "ports: [{device: port1, speed: 1G, mtu: 2158, " +
		"fcoe: {role: trusted}}]\n"
	file := readable(t, text)
	var out, problems bytes.Buffer
	c := command()
	c.SetOut(&out)
	c.SetErr(&problems)
	c.SetArgs([]string{"check", "-c", file, "--running"})
	err := c.ExecuteContext(t.Context())
	if err == nil || err.Error() != "--running: no switch answers at "+socket+
		": set control.socket to that of the switch, or leave out --running" {
		t.Errorf("without a switch: %v", err)
	}
	if !strings.HasPrefix(out.String(), "ok\n") || strings.Contains(out.String(), "a reload") {
		t.Errorf("without a switch, this is printed:\n%s", &out)
	}
	p := program.StartSwitch(t, s.Home, "control: {socket: "+socket+"}\nports: [{device: port1, speed: 1G}]\n")
	var r checkReport
	check(t, "-c", file, "--running", "--json").Document(&r)
	want := []string{"from this reload on, FCoE in VLANs without an instance is dropped",
		"a reload begins FIP snooping on VLAN 2094"}
	if !slices.EqualFunc(r.Notes, want, strings.HasPrefix) {
		t.Errorf("notes %q, want %q", r.Notes, want)
	}
	p.Stop()
}
