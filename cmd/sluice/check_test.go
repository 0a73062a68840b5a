package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/internal/cli"
	"sluice/internal/config"
	"sluice/internal/report/show"
)

// check runs `sluice check`, which must succeed.
func check(t *testing.T, args ...string) *program.Running {
	t.Helper()
	p := program.Launch(t, nil, append([]string{"check"}, args...)...)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("check %v: exit code %d", args, code)
	}
	return p
}

// checkDocument is what check --json prints.
type checkDocument struct {
	checkReport
	Configuration struct {
		ETS     []struct{ Groups []struct{ PG, Weight int } }
		QoS     []struct{ Trust string }
		Classes []struct{ Share string }
		Ports   []struct {
			Speed     string
			LinkSpeed string `json:"link_speed"`
			VLANs     []string
		}
	} `json:"configuration"`
}

// checkNote checks that check says a note about a text, and only this one; "" is none.
func checkNote(t *testing.T, text, note string) {
	t.Helper()
	var r checkDocument
	check(t, "-c", readable(t, text), "--json").Document(&r)
	if note == "" && len(r.Notes) > 0 || note != "" && (len(r.Notes) != 1 || !strings.Contains(r.Notes[0], note)) {
		t.Errorf("notes %q, want %q", r.Notes, note)
	}
}

// TestCheckExamples checks that every example is valid, and that --json prints one document.
func TestCheckExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		if out := check(t, "-c", file).Output.String(); !strings.HasPrefix(out, "ok\n") {
			t.Errorf("%s: what is printed does not begin with ok:\n%s", file, out)
		}
		var r checkDocument
		check(t, "-c", file, "--json").Document(&r)
		if c := r.Configuration; !r.OK || len(r.Ports) < 2 || len(c.Ports) != len(r.Ports) || len(c.ETS) == 0 ||
			len(c.QoS) == 0 || len(c.Classes) < 2 || len(r.Notes) > 0 {
			t.Errorf("%s: %+v", file, r)
		}
	}
}

// TestCheckPages checks that the configurations in documents are valid, and need no note.
func TestCheckPages(t *testing.T) {
	for _, page := range []string{"docs/dcbx.md", "docs/fcoe.md"} {
		blocks := strings.Split(read(t, page), "```yaml\n")[1:]
		if len(blocks) == 0 {
			t.Errorf("%s has no configuration", page)
		}
		for _, block := range blocks {
			text, _, closed := strings.Cut(block, "\n```\n")
			var r checkDocument
			check(t, "-c", readable(t, text), "--json").Document(&r)
			if !closed || !r.OK || len(r.Ports) < 2 || len(r.Notes) > 0 {
				t.Errorf("%s: %+v\n%s", page, r, text)
			}
		}
	}
}

// TestSwitchAHasItsName: neighbours of Huawei's example see the name of its switch.
func TestSwitchAHasItsName(t *testing.T) {
	c, err := config.Load("../../examples/switcha.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !c.LLDP.Enabled || c.LLDP.SystemName != "SwitchA" {
		t.Errorf("%+v", c.LLDP)
	}
}

// TestCheckSwitchA checks Huawei's example: group 0 with weight 60, group 1 with weight 40, and
// queue 7 in group 15.
func TestCheckSwitchA(t *testing.T) {
	const file = "../../examples/switcha.yaml"
	var r checkDocument
	check(t, "-c", file, "--json").Document(&r)
	if groups := r.Configuration.ETS[0].Groups; fmt.Sprint(groups) != "[{0 60} {1 40} {15 0}]" {
		t.Errorf("groups and weights %v", groups)
	}
	for _, p := range r.Configuration.Ports {
		if strings.Join(p.VLANs, " ") != "1 2094" || p.Speed != "10G" {
			t.Errorf("port %+v", p)
		}
	}
	if c := r.Configuration.Classes[0]; c.Share != "4MB" {
		t.Errorf("class %+v", c)
	}
	checkWords(t, check(t, "-c", file),
		"10ge1-0-1 10G 2158 trunk 1,2094 1 ets1 ds1 auto ", "10ge1-0-2 10G 2158 trunk 1,2094 1 ets1 ds1 auto ",
		"ets profile ets1 of 10ge1-0-1, 10ge1-0-2\n"+
			"group name scheduling weight inside rate burst cos\n15 ipc strict – strict – – 7\n"+
			"0 lan by weight 60% drr – – 0,1,2,4,5,6\n1 san by weight 40% drr – – 3\n\n"+
			"queue class group weight at least rate burst\n0 lan 0 1 10.0% – –\n1 lan 0 1 10.0% – –\n"+
			"2 lan 0 1 10.0% – –\n3 fcoe 1 1 40.0% – –\n4 lan 0 1 10.0% – –\n5 lan 0 1 10.0% – –\n"+
			"6 lan 0 1 10.0% – –\n7 ipc 15 – – – –\n\n",
		"fcoe 3 never")
}

// checkWords fails the test unless each wanted string starts a printed line, apart from spacing.
func checkWords(t *testing.T, p *program.Running, wanted ...string) {
	t.Helper()
	var printed strings.Builder
	for line := range strings.Lines(p.Output.String()) {
		printed.WriteString("\n" + strings.Join(strings.Fields(line), " "))
	}
	for _, line := range wanted {
		if !strings.Contains(printed.String(), "\n"+line) {
			t.Errorf("no line begins with %q:\n%s", line, &p.Output)
		}
	}
}

// TestCheckShowsWhatIsSaid checks that values are printed as the file has them, in the same units.
func TestCheckShowsWhatIsSaid(t *testing.T) {
	p := check(t, "-c", readable(t, `
classes:
  - {cos: [3], name: rdma, lossless: true, wred: {min: 150KB, max: 1.5MB, probability: 20%}, ecn: true}
ets:
  - name: fair
    groups: [{pg: 2, cos: [0, 1], weight: 75, rate: 2.5G, burst: 64KiB},
      {pg: 5, name: rest, cos: [2, 3, 4, 5, 6, 7], weight: 25, inner: strict}]
    queues: [{cos: 1, weight: 2, rate: 500M}]
  - {name: idle, groups: [{pg: 15, cos: [0, 1, 2, 3, 4, 5, 6, 7]}]}
qos: [{name: roce, trust: dscp, dscp_to_cos: {26: 3, 4: 1}, cos_to_pcp: {1: 2}, cos_to_dscp: {6: 48}}]
forwarding: {static: [{mac: 02:00:00:00:00:01, vlan: 100, port: sw0}]}
ports:
  - {device: sw0, speed: 1G, link_speed: 10G, response: 300us, ets: fair, qos: roce, link: trunk,
      vlans: [1, 100-199], mac_limit: 100, storm: {broadcast: 1000}}
  - {device: sw1, speed: 2.5G, link: access, pvid: 7}
`))
	checkWords(t, p,
		"sw0 1G 1500 trunk 1,100-199 1 fair roce pfc ", "sw1 2.5G 1500 access 7 7 default default pfc ",
		"sw0 10G 3.355ms 1.677ms 300us 4096 197us, less than response",
		"sw1 2.5G 13.421ms 6.71ms 1ms 4096 795us, less than response",
		"sw0 100 1000 – –", "02:00:00:00:00:01 100 sw0",
		"ets profile fair of sw0", "2 pg2 by weight 75% drr 2.5G 64KiB 0,1",
		"5 rest by weight 25% strict – – 2,3,4,5,6,7",
		"0 cos0,1,2,4,5,6,7 2 1 25.0% – –", "1 cos0,1,2,4,5,6,7 2 2 50.0% 500M –", "3 rdma 5 – – – –",
		"ets profile default of sw1", "0 lan by weight 50% drr", "qos domain roce of sw0: trust dscp",
		"dscp to cos 4→1 26→3, others: default_cos", "cos to pcp 0→0 1→2 2→2", "cos to dscp 6→48, others: unchanged",
		"rdma 3 never 16KiB 4MB of the port 2MB – 150KB to 1500KB, 20% yes",
		"note: no port uses the ets profile idle")
}

// TestCheckPauses checks how early a port repeats pauses. Ports without flow control or lossless
// classes have none.
func TestCheckPauses(t *testing.T) {
	const lossless = "memory: {buffers: 131072}\nclasses: [{cos: [3], lossless: true}]\n"
	const ports = "ports:\n  - {device: sw0, speed: 25G}\n  - {device: sw1, speed: 1G, flow_control: off}\n"
	var r checkDocument
	check(t, "-c", readable(t, lossless+ports), "--json").Document(&r)
	// RefreshNS is 16428 quanta of 20.48 ns. RingWaitsNS is the time of 4095 slots of 84 bytes less
	// 220,287 bytes of the TX ring, 252 of PFC, 5120 of the standard's response and 3207 of the
	// cable.
	if p := r.Ports[0].Pause; p == nil ||
		*p != (pauseFigures{NS: 1342156, RefreshNS: 336445, ResponseNS: 863e3, LeastNS: 26000, Ring: 4096,
			RingWaitsNS: 36836}) || r.Configuration.Ports[0].LinkSpeed != "25G" {
		t.Errorf("%+v, %+v", r.Ports[0], p)
	}
	checkWords(t, check(t, "-c", readable(t, lossless+"ports: [{device: sw0, speed: 10G, response: 20us}]\n")),
		"sw0 10G 3.355ms 1.677ms 20us, but the worker may take 26us 4096 197us")
	if p := r.Ports[1].Pause; p != nil {
		t.Errorf("sw1 has pauses: %+v", p)
	}
	r = checkDocument{}
	check(t, "-c", readable(t, ports), "--json").Document(&r)
	if p := r.Ports[0].Pause; p != nil {
		t.Errorf("without a lossless class sw0 has pauses: %+v", p)
	}
	checkRefusal(t, program.Launch(t, nil, "check", "-c",
		readable(t, lossless+"ports: [{device: sw0, speed: 100G, response: 1ms}]\n")), cli.ExitConfiguration,
		[]string{"sluice.yaml:3:46: port sw0 can't keep its peer paused", "lower response to 109us or less"})
}

// TestCheckRefusals checks that check reports errors like run does, with the same exit codes.
func TestCheckRefusals(t *testing.T) {
	const good = "ports:\n  - {device: port1, speed: 1G}\n  - {device: port2, speed: 1G}\n"
	for _, test := range []struct {
		name, text string
		say        []string
	}{
		{"several", strings.ReplaceAll(good, "1G", "1G, ets: fair"), []string{
			"sluice.yaml:2:37: ets profile \"fair\" does not exist", "sluice.yaml:3:37: "}},
		{"weights", "ets: [{name: a, groups: [{pg: 0, cos: [0, 1, 2, 3, 4, 5, 6, 7], weight: 90}]}]\n" + good,
			[]string{"sluice.yaml:1:25: ", "sum to 90", "raise them by 10"}},
		{"memory", "memory: {buffers: 256}\n" + good, []string{"sluice.yaml:1:19: ", "256 buffers",
			"raise buffers to"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := program.Launch(t, nil, "check", "-c", readable(t, test.text), "--json")
			checkRefusal(t, p, cli.ExitConfiguration, test.say)
			if p.Output.Len() > 0 {
				t.Errorf("on standard output: %s", &p.Output)
			}
		})
	}
	nowhere := filepath.Join(t.TempDir(), "none.yaml")
	checkRefusal(t, program.Launch(t, nil, "check", "-c", nowhere), cli.ExitNoInput,
		[]string{nowhere, unix.ENOENT.Error(), "examples/"})
	checkRefusal(t, program.Launch(t, nil, "check"), cli.ExitUsage, []string{`"config"`})
}

// TestResumption covers all ways to configure when a sender may resume.
func TestResumption(t *testing.T) {
	for _, test := range []struct {
		xon, offset int
		want        string
	}{{0, 0, "–"}, {2e6, 0, "2MB"}, {0, 32768, "32KiB below"}, {2e6, 32768, "2MB or 32KiB below"}} {
		if got := resumption(test.xon, test.offset); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}

// TestSizeText checks that printed sizes are exact and valid in a configuration.
func TestSizeText(t *testing.T) {
	for bytes, want := range map[int]string{
		0: "–", 1: "1B", 1000: "1KB", 1024: "1KiB", 16384: "16KiB", 6e6: "6MB", 4 << 20: "4MiB", 1500e3: "1500KB",
		1500001: "1500001B",
		1e9:     "1GB", 3 << 30: "3GiB", 256e3: "256KB",
	} {
		if got := sizeText(bytes); got != want {
			t.Errorf("%d bytes: %s, want %s", bytes, got, want)
		}
	}
	for rate, want := range map[uint64]string{
		0: "–", 1e6: "1M", 2.5e9: "2.5G", 20e6: "20M", 400e9: "400G", 1234567e3: "1234.567M", 1500e6: "1.5G",
		1234567: "1234.567K",
	} {
		if got := show.Rate(rate); got != want {
			t.Errorf("%d bit/s: %s, want %s", rate, got, want)
		}
	}
}

// TestCheckTouchesNothing checks that check needs no privileges.
func TestCheckTouchesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to do without it")
	}
	t.Setenv(without, root)
	check(t, "-c", readable(t, "ports: [{device: sw0, speed: 1G}]\n"))
}

// TestCheckDCBX checks what check says of LLDP and DCBX.
func TestCheckDCBX(t *testing.T) {
	const storage = "memory: {buffers: 65536}\nclasses: [{cos: [3], name: storage, lossless: true}]\n"
	checkWords(t, check(t, "-c", readable(t, storage+`
lldp: {enabled: true, system_name: SwitchA}
dcbx: {applications: [{protocol: fcoe, priority: 3}, {tcp: 860, priority: 4}]}
ports:
  - {device: sw0, speed: 1G, flow_control: auto, dcbx: {version: auto, role: upstream}}
  - {device: sw1, speed: 1G, flow_control: auto, dcbx: {version: cee, role: downstream}}
  - {device: sw2, speed: 1G}
`)), "lldp on, system name: SwitchA", "port dcbx role willing\nsw0 auto upstream pfc,ets,app\nsw1 cee downstream –\n\n",
		"application priority\nfcoe (ethertype 0x8906) 3\ntcp 860 4\n")
	checkWords(t, check(t, "-c", readable(t, "ports: [{device: sw0, speed: 1G}]\n")), "lldp off")
	checkWords(t, check(t, "-c", readable(t, "lldp: {enabled: true}\nports: [{device: sw0, speed: 1G}]\n")),
		"lldp on, system name: the host name")
}

// TestCheckDCBXNotes checks the notes on settings of DCBX that have no effect, or not the intended
// one, and that there are none without such settings.
func TestCheckDCBXNotes(t *testing.T) {
	const on = "lldp: {enabled: true}\n"
	const storage = on + "memory: {buffers: 65536}\nclasses: [{cos: [3], name: storage, lossless: true}]\n"
	port := func(keys string) string { return "ports: [{device: sw0, speed: 1G, " + keys + "}]\n" }
	two := func(first, second string) string {
		return "ports: [{device: sw0, speed: 1G, flow_control: auto, dcbx: {version: auto" + first +
			"}}, {device: sw1, speed: 1G, flow_control: auto, dcbx: {version: auto" + second + "}}]\n"
	}
	app := func(text string) string { return "dcbx: {applications: [{" + text + "}]}\n" }
	for _, test := range []struct{ name, text, note string }{
		{"downstream alone", storage + two(", role: downstream", ", role: downstream"),
			"no port has the role upstream, so the downstream ports tell the settings of this file (sw0, sw1)"},
		{"both roles", storage + two(", role: upstream", ", role: downstream"), ""},
		{"nothing to agree on", on + port("flow_control: auto, dcbx: {version: auto}"),
			"port sw0 has flow_control auto, but no class is lossless"},
		{"the peers decide", on + two(", role: upstream", ", role: downstream"), ""},
		{"the peer does not decide on PFC", on + port("flow_control: auto, dcbx: {version: auto, role: upstream, "+
			"willing: [ets]}"), "port sw0 has flow_control auto, but no class is lossless"},
		{"a role without DCBX", storage + port("dcbx: {role: upstream}"),
			"port sw0 has the role upstream, but its DCBX is off: add version: auto"},
		{"FCoE in a lossy class", storage + app("protocol: fcoe, priority: 4") + port("dcbx: {version: auto}"),
			"the application fcoe has priority 4, which is in no lossless class"},
		{"FCoE by its number", storage + app("ethertype: 0x8906, priority: 4") + port("dcbx: {version: auto}"),
			"the application fcoe has priority 4, which is in no lossless class"},
		{"another application", storage + app("tcp: 860, priority: 4") + port("dcbx: {version: auto}"), ""},
		{"FCoE in decimal", storage + app("ethertype: 8906, priority: 3") + port("dcbx: {version: auto}"),
			"an application has the EtherType 8906, which is 0x22ca: if 0x8906 is meant, write ethertype: 0x8906"},
		{"FIP in decimal", storage + app("ethertype: 8914, priority: 3") + port("dcbx: {version: auto}"),
			"write ethertype: 0x8914"},
		{"a TCP port", storage + app("tcp: 8906, priority: 3") + port("dcbx: {version: auto}"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			checkNote(t, test.text, test.note)
		})
	}
}
