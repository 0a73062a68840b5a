package config

import (
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/cells/headroom"
	"sluice/internal/config/ets"
)

// autoFile has ports with every kind of flow control, and CoS 3 lossless.
const autoFile = `lldp: {enabled: true}
classes:
  - {cos: [3], name: storage, lossless: true}
  - {cos: [0, 1, 4], name: lan, share: 1MB, reserved: 4KB, queue_limit: 500KB, wred: {min: 10KB, max: 20KB}}
  - {cos: [5], name: voice, alpha: 1/2, queue_alpha: 1, wred: {min: 10KB, max: 20KB}, ecn: true}
ports:
  - {device: sw0, speed: 10G, flow_control: auto, dcbx: {version: auto}}
  - {device: sw1, speed: 10G, flow_control: auto, dcbx: {version: auto}}
  - {device: sw2, speed: 10G}
  - {device: sw3, speed: 10G, flow_control: pause}
  - {device: sw4, speed: 10G, flow_control: off}
`

// agree returns facts about agreements on PFC, by device.
func agree(pfc map[string]uint8) map[string]LinkFacts {
	facts := make(map[string]LinkFacts)
	for device, set := range pfc {
		facts[device] = LinkFacts{DCB: &Agreed{PFC: set}}
	}
	return facts
}

// onLinks fits a Config to links, on which it must fit.
func onLinks(t fataler, c *Config, facts map[string]LinkFacts) *Config {
	t.Helper()
	on, err := c.OnLinks(facts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return on
}

// TestAgreedPriorities: only ports with flow_control auto follow an agreement, and without one they
// count as if they had agreed on the lossless classes of the file.
func TestAgreedPriorities(t *testing.T) {
	c := mustParse(t, autoFile)
	for name, test := range map[string]struct {
		agreed map[string]uint8
		want   [5]uint8
	}{
		"nothing is known": {nil, [5]uint8{8, 8, 8, 8, 8}},
		"no PFC":           {map[string]uint8{"sw0": 0}, [5]uint8{0, 8, 8, 8, 8}},
		"the file's":       {map[string]uint8{"sw0": 8, "sw1": 0}, [5]uint8{8, 0, 8, 8, 8}},
		"others":           {map[string]uint8{"sw0": 0x30, "sw1": 0x18}, [5]uint8{0x30, 0x18, 8, 8, 8}},
		"of other ports": {map[string]uint8{"sw2": 0xff, "sw3": 0, "sw4": 0, "other": 0xff},
			[5]uint8{8, 8, 8, 8, 8}},
	} {
		on := onLinks(t, c, agree(test.agreed))
		for i := range on.Ports {
			p := &on.Ports[i]
			if p.PFC != test.want[i] {
				t.Errorf("%s: port %s has %#x, want %#x", name, p.Device, p.PFC, test.want[i])
			}
			for cos := range 8 {
				if p.Lossless(cos) != (test.want[i]>>cos&1 == 1) || p.Lossless(cos) && !on.Class(cos).Lossless {
					t.Errorf("%s: port %s, CoS %d: %v, class %+v", name, p.Device, cos, p.Lossless(cos), on.Class(cos))
				}
			}
			if i < 2 && !on.ControlsFlow(p) {
				t.Errorf("%s: port %s does no flow control", name, p.Device)
			}
		}
	}
	on := onLinks(t, c, map[string]LinkFacts{"sw0": {Rate: 25e9, DCB: &Agreed{}}})
	if p := &on.Ports[0]; p.LinkSpeed != 25e9 || p.PFC != 0 {
		t.Errorf("rate and agreement: %+v", p)
	}
}

// TestAgreedClasses: a CoS that peers want lossless gets a lossless class of its own, with the
// memory of its class in the file.
func TestAgreedClasses(t *testing.T) {
	c := mustParse(t, autoFile)
	on := onLinks(t, c, agree(map[string]uint8{"sw0": 0x30, "sw1": 0x02}))
	want := []Class{
		{Name: "storage", CoS: []int{3}, Lossless: true, Reserved: 16384, Share: 4e6, XON: 2e6},
		{Name: "lan", CoS: []int{0}, Reserved: 4e3, Share: 1e6, QueueLimit: 5e5, WRED: WRED{10e3, 20e3, 10, 0}},
		{Name: "voice", CoS: []int{5}, Lossless: true, Reserved: 16384, Alpha: 64, XONOffset: 32 << 10,
			WRED: WRED{10e3, 20e3, 10, 0}, ECN: true},
		{Name: "cos2,6,7", CoS: []int{2, 6, 7}, Reserved: 16384, Share: 4e6, QueueLimit: 1e6},
		{Name: "cos1", CoS: []int{1}, Lossless: true, Reserved: 4e3, Share: 1e6, XON: 5e5},
		{Name: "cos4", CoS: []int{4}, Lossless: true, Reserved: 4e3, Share: 1e6, XON: 5e5},
	}
	if !reflect.DeepEqual(on.Classes, want) {
		t.Errorf("got  %+v\nwant %+v", on.Classes, want)
	}
	for i := range on.Classes {
		on.Problem(&on.Classes[i].Share, "p", "r") // panics without a position
		on.Problem(&on.Classes[i].CoS, "p", "r")
	}
	on.Problem(&on.Classes[1].CoS[0], "p", "r")
	if again := onLinks(t, on, nil); !reflect.DeepEqual(values(again), values(c)) {
		t.Errorf("without agreements: %+v, want %+v", values(again), values(c))
	}

	c = mustParse(t, strings.Replace(autoFile, "name: voice", "name: cos4", 1))
	if got := onLinks(t, c, agree(map[string]uint8{"sw0": 0x10})).Class(4).Name; got != "cos4-lossless" {
		t.Errorf("beside a class cos4, the class of CoS 4 is called %s", got)
	}
}

// TestAgreementsOfTheFileAlwaysFit: the memory of a port is the same whether it has agreed on the
// lossless classes of the file, on some of them, or on none.
func TestAgreementsOfTheFileAlwaysFit(t *testing.T) {
	text := strings.Replace(autoFile, "{cos: [5],", "{cos: [5], lossless: true,", 1)
	text = strings.Replace(text, "queue_alpha: 1, ", "", 1)
	c := mustParse(t, text)
	for _, set := range []uint8{0, 0x08, 0x20, 0x28} {
		on := onLinks(t, c, agree(map[string]uint8{"sw0": set}))
		p, was := on.Ports[0], c.Ports[0]
		if promised(on, &p) != promised(c, &was) || p.PFC != set {
			t.Errorf("%#x: %d cells, and %d for %#x", set, promised(on, &p), promised(c, &was), was.PFC)
		}
		p.ETS, p.QoS, p.PFC, was.ETS, was.QoS, was.PFC = nil, nil, 0, nil, nil, 0
		if !reflect.DeepEqual(p, was) {
			t.Errorf("%#x: %+v, want %+v", set, p, was)
		}
	}
	more := onLinks(t, c, agree(map[string]uint8{"sw0": 0x10}))
	if got, was := &more.Ports[0], &c.Ports[0]; promised(more, got) <= promised(c, was) ||
		got.ControlAhead != was.ControlAhead+1 || got.Headroom <= was.Headroom {
		t.Errorf("one more priority: %+v, before %+v", got, was)
	}
}

// TestAgreedETS: a port sends as its peer recommends, even if it has no flow_control auto.
func TestAgreedETS(t *testing.T) {
	c := mustParse(t, autoFile)
	table := ETSTable{TC: [8]uint8{0, 0, 0, 2, 2, 0, 5, 5}, Bandwidth: [8]uint8{0: 30, 2: 70},
		TSA: [8]uint8{0: ets.Weighted, 2: ets.Weighted}}
	on := onLinks(t, c, map[string]LinkFacts{"sw2": {DCB: &Agreed{ETS: &table}}})
	want := ETSProfile{Name: "dcbx", Queues: []ETSQueue{}, Groups: []PriorityGroup{
		{PG: 0, Name: "pg0", CoS: []int{0, 1, 2, 5}, Weight: 30, Inner: InnerDRR},
		{PG: 2, Name: "pg2", CoS: []int{3, 4}, Weight: 70, Inner: InnerDRR},
		{PG: 15, Name: "pg15", CoS: []int{6, 7}, Inner: InnerStrict},
	}}
	p := &on.Ports[2]
	if got := *p.ETS; p.ETSName != "dcbx" || got.Name != want.Name || !reflect.DeepEqual(got.Groups, want.Groups) ||
		len(got.Queues) != 0 {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	on.Problem(&p.ETS.Groups[0].Weight, "p", "r") // panics without a position
	if table.TC[6], table.TC[7] = 3, 3; p.ETS.Table() != table {
		t.Errorf("its table is %v, want %v", p.ETS.Table(), table)
	}
	if len(on.ETS) != 1 || on.Ports[1].ETS != &on.ETS[0] {
		t.Errorf("other ports send by %+v", on.Ports[1].ETS)
	}
}

// TestMisfits: an error says which agreement does not fit, and where the file may be changed.
func TestMisfits(t *testing.T) {
	pfc := func(set uint8) *Agreed { return &Agreed{PFC: set} }
	for name, test := range map[string]struct {
		old, new string // in autoFile
		facts    map[string]LinkFacts
		want     string
		port     string
		feature  DCBXFeature
	}{
		"memory of the port": {"classes:\n", "memory: {port_buffer: 34MB}\nclasses:\n",
			map[string]LinkFacts{"sw0": {DCB: pfc(0x08)}, "sw1": {DCB: pfc(0x78)}},
			"f:2:23: port sw1: its peer wants priorities 4, 5, 6 lossless, but port_buffer of 34000000 bytes is " +
				"16601 cells, fewer than the", "sw1", FeaturePFC},
		"its remedy": {"classes:\n", "memory: {port_buffer: 34MB}\nclasses:\n",
			map[string]LinkFacts{"sw1": {DCB: pfc(0x18)}},
			" or more, or turn off PFC for priority 4 at the peer", "sw1", FeaturePFC},
		"headroom": {"lossless: true}", "lossless: true, headroom: 32834KB}",
			map[string]LinkFacts{"sw0": {DCB: pfc(0xff)}},
			"f:3:57: port sw0: its peer wants priorities 0, 1, 2, 4, 5, 6, 7 lossless, but headroom of 32834000 " +
				"bytes is 16033 cells, fewer than the 16038 that port sw0 may fill",
			"sw0", FeaturePFC},
		"classification": {"classes:\n", "qos: [{name: default, pcp_to_cos: {1: 4}}]\nclasses:\n",
			map[string]LinkFacts{"sw0": {DCB: pfc(0x10)}, "sw1": {DCB: pfc(0)}},
			"f:2:35: port sw0: its peer wants priority 4 lossless, but PCP 1 becomes CoS 4, of the lossless class " +
				"cos4",
			"sw0", FeaturePFC},
		"marking": {"classes:\n", "qos: [{name: default, cos_to_pcp: {4: 1}}]\nclasses:\n",
			map[string]LinkFacts{"sw0": {DCB: pfc(0x10)}},
			"port sw0: its peer wants priority 4 lossless, but CoS 4, of the lossless class cos4, is sent with PCP 1",
			"sw0", FeaturePFC},
		"bandwidth": {"", "", map[string]LinkFacts{"sw2": {DCB: &Agreed{ETS: &ETSTable{Bandwidth: [8]uint8{90},
			TSA: [8]uint8{2}}}}, "sw1": {DCB: &Agreed{ETS: new(ETSTable)}}},
			"f:9:5: port sw2: its peer recommends an ETS table, but its bandwidths sum to 90%, not to 100%: correct " +
				"the peer, or remove ets from willing", "sw2", FeatureETS},
		"shaper": {"", "", map[string]LinkFacts{"sw0": {DCB: &Agreed{PFC: 0x18, ETS: &ETSTable{TSA: [8]uint8{1}}}}},
			"port sw0: its peer recommends an ETS table, but traffic class 0 has the credit-based shaper", "sw0",
			FeatureETS},
		"rate": {"", "", map[string]LinkFacts{"sw0": {Rate: 999, DCB: pfc(0x18)}},
			"f:7:14: the link of device sw0 has", "", ""},
	} {
		text := strings.Replace(autoFile, test.old, test.new, 1)
		c, err := Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.OnLinks(test.facts)
		var all Errors
		if !errors.As(err, &all) || len(all) != 1 || !strings.Contains(all[0].Error(), test.want) ||
			all[0].Port != test.port || all[0].Feature != test.feature {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// TestBlameIsPassedOn: what someone else finds wrong with a fitted Config is explained once.
func TestBlameIsPassedOn(t *testing.T) {
	c := mustParse(t, autoFile)
	facts := agree(map[string]uint8{"sw0": 0x18, "sw1": 0x38})
	room := 5 // of lossless priorities
	try := func(facts map[string]LinkFacts) error {
		n, on := 0, onLinks(t, c, facts)
		for i := range on.Ports {
			n += bits.OnesCount8(on.Ports[i].PFC)
		}
		if n > room {
			return on.Problem(&on.Memory.Buffers, "too few", "raise buffers")
		}
		return nil
	}
	for _, test := range []struct {
		room       int
		want, port string
	}{
		{7, "port sw1: its peer wants priorities 4, 5 lossless, but too few: raise buffers, or turn off PFC", "sw1"},
		{5, "port sw0: its peer wants priority 4 lossless, but too few", "sw0"},
		{4, "test.yaml:1:1: too few: raise buffers", ""},
	} {
		room = test.room
		err := c.Blame(facts, try(facts), try)
		var one *Error
		if !errors.As(err, &one) || one.Port != test.port || !strings.Contains(err.Error(), test.want) {
			t.Errorf("room for %d: %v, want %s", room, err, test.want)
		}
		if again := c.Blame(facts, err, try); test.port != "" && again.Error() != err.Error() {
			t.Errorf("explained twice: %v", again)
		}
	}
	plain := fmt.Errorf("no device")
	if room = 7; !errors.Is(c.Blame(facts, plain, try), plain) {
		t.Error("an error that is not of the file is lost")
	}
	if err := c.Blame(facts, nil, try); err != nil {
		t.Errorf("blame for nothing: %v", err)
	}
}

// drawFacts draws agreements of ports.
func drawFacts(t *rapid.T, c *Config) map[string]LinkFacts {
	facts := make(map[string]LinkFacts)
	for i := range c.Ports {
		a := new(Agreed)
		a.PFC = rapid.OneOf(rapid.Just(c.source.lossless), rapid.Uint8(), rapid.Map(rapid.Uint8(), func(n uint8) uint8 {
			return n & c.source.lossless
		})).Draw(t, "pfc")
		if rapid.IntRange(0, 3).Draw(t, "recommends") == 0 {
			table := c.ETS[rapid.IntRange(0, len(c.ETS)-1).Draw(t, "table")].Table()
			if rapid.IntRange(0, 3).Draw(t, "broken") == 0 {
				table.TSA[rapid.IntRange(0, 7).Draw(t, "tc")] = rapid.Uint8().Draw(t, "tsa")
			}
			a.ETS = &table
		}
		if rapid.IntRange(0, 3).Draw(t, "agreed") > 0 {
			facts[c.Ports[i].Device] = LinkFacts{DCB: a}
		}
	}
	return facts
}

// drawAutoPorts draws a file in which most ports have flow_control auto. If it has a port_buffer,
// there is little room for more lossless priorities than the file has.
func drawAutoPorts(t *rapid.T) Config {
	drawn := drawConfig(t)
	drawn.LLDP.Enabled = true
	drawn.PFC.Quanta, drawn.PFC.Refresh = 65535, 30000
	for i := range drawn.Ports {
		if p := &drawn.Ports[i]; rapid.IntRange(0, 3).Draw(t, "auto") > 0 {
			p.FlowControl, p.LLDP, p.DCBX.Version = FlowAuto, LLDPBoth, DCBXAuto
		}
	}
	if c, err := Parse("f", []byte(write(&drawn))); err == nil && rapid.Bool().Draw(t, "tight") {
		most := 0
		for i := range c.Ports {
			most = max(most, promised(c, &c.Ports[i]))
		}
		more := rapid.IntRange(0, 1000).Draw(t, "percent")
		drawn.Memory.PortBuffer = min(1e11, max(4096, most*c.Memory.Cell*(100+more)/100))
	}
	return drawn
}

// TestAnyAgreement: a file fits agreements, or an error says which port's it does not fit. If it
// does, the lossless priorities of each port are exactly those that it agreed on, or those of the
// file, and there is enough memory for them.
func TestAnyAgreement(t *testing.T) {
	fit, misfit := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		drawn := drawAutoPorts(t)
		c, err := Parse("f", []byte(write(&drawn)))
		if err != nil {
			t.Fatal(err)
		}
		facts := drawFacts(t, c)
		on, err := c.OnLinks(facts)
		if err == nil {
			fit++
			checkAgreement(t, c, on, facts)
			return
		}
		misfit++
		for _, e := range err.(Errors) {
			device, a := e.Port, facts[e.Port].DCB
			if !strings.HasPrefix(e.Problem, "port "+device+": its peer ") || a == nil ||
				e.Feature == FeatureETS && a.ETS == nil || e.Feature == FeaturePFC && a.PFC&^c.source.lossless == 0 {
				t.Fatalf("%v in spite of %+v", e, a)
			}
		}
		checkErrors(t, err.(Errors), []byte(write(&drawn)))
	})
	t.Logf("%d fit, %d do not", fit, misfit)
	if (fit == 0 || misfit == 0) && !testing.Short() { // then, too few cases are drawn
		t.Errorf("%d fit, %d do not", fit, misfit)
	}
}

// checkAgreement checks a Config that fits agreements. c is the same file without them.
func checkAgreement(t fataler, c, on *Config, facts map[string]LinkFacts) {
	t.Helper()
	checkConfig(t, on)
	for i := range on.Ports {
		p := &on.Ports[i]
		want := c.source.lossless
		if a := facts[p.Device].DCB; a != nil && p.FlowControl == FlowAuto {
			want = a.PFC
		}
		if p.PFC != want {
			t.Fatalf("port %s has %#x, want %#x", p.Device, p.PFC, want)
		}
		for cos := range 8 {
			class := on.Class(cos)
			if !p.Lossless(cos) {
				continue
			}
			room, _ := on.Keeps(p, cos)
			link := p.Calculation(on.Memory.Cell, p.Response)
			link.OwnControl = bits.OnesCount8(p.PFC) + 1
			if p.FlowControl == FlowPause {
				link.OwnControl = 2
			}
			need, err := headroom.Compute(headroom.Measured, link)
			if err != nil || !class.Lossless || room != p.HeadroomOf(class) ||
				p.FlowControl != FlowOff && ceil(room, on.Memory.Cell) < need.Cells {
				t.Fatalf("port %s, CoS %d: %d bytes of headroom, needs %+v (%v), class %+v", p.Device, cos, room, need,
					err, class)
			}
		}
		if b := on.Memory.PortBuffer; b > 0 && promised(on, p) > b/on.Memory.Cell {
			t.Fatalf("port %s is promised %d of %d cells", p.Device, promised(on, p), b/on.Memory.Cell)
		}
		if a := facts[p.Device].DCB; a != nil && a.ETS != nil {
			if groups, _ := a.ETS.Groups(); len(groups) != len(p.ETS.Groups) || p.ETSName != AgreedName {
				t.Fatalf("port %s sends by %+v, its peer recommends %+v", p.Device, p.ETS, groups)
			}
		}
	}
	lossless := losslessCoS(on)
	if extra := lossless &^ c.source.lossless; extra != 0 && !slices.ContainsFunc(on.Ports, func(p Port) bool {
		return p.PFC&extra != 0
	}) {
		t.Fatalf("%#x is lossless without need", extra)
	}
}

// FuzzOnLinks: whatever peers agree to, any file either fits or an error says why not.
func FuzzOnLinks(f *testing.F) {
	f.Add([]byte(autoFile), uint8(0x18), uint8(0), []byte{0, 0, 0, 1, 0, 0, 2, 2, 60, 40, 0, 0, 0, 0, 0, 0, 2, 2, 0})
	f.Add([]byte(autoFile), uint8(0xff), uint8(8), []byte{})
	f.Add([]byte(everything), uint8(0x10), uint8(0x20), []byte{9})
	f.Fuzz(func(t *testing.T, data []byte, one, two uint8, tables []byte) {
		c, err := Parse("f", data)
		if err != nil {
			return
		}
		facts := make(map[string]LinkFacts)
		for i := range c.Ports {
			a := &Agreed{PFC: [...]uint8{one, two}[i%2]}
			if len(tables) > 0 && i == 0 {
				var table [24]uint8
				copy(table[:], tables)
				a.ETS = &ETSTable{TC: [8]uint8(table[:]), Bandwidth: [8]uint8(table[8:]), TSA: [8]uint8(table[16:])}
			}
			facts[c.Ports[i].Device] = LinkFacts{DCB: a}
		}
		on, err := c.OnLinks(facts)
		if err != nil {
			checkErrors(t, err.(Errors), data)
			return
		}
		checkAgreement(t, c, on, facts)
	})
}
