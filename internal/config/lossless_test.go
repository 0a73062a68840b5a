package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/cells/headroom"
	"sluice/internal/frame"
	"sluice/internal/text/units"
	"sluice/pfc"
)

func TestMemoryProfiles(t *testing.T) {
	for _, test := range []struct {
		memory           string
		cell, portBuffer int
	}{
		{"{}", 2048, 0},
		{"{buffer_size: 4096B}", 4096, 0},
		{"{buffer_size: 64KiB}", 65535, 0}, // the largest; no frame is longer
		{"{profile: generic, cell: 100B, port_buffer: 1MB}", 100, 1e6},
		{"{profile: nexus5000}", 160, 3072 * 160}, // Cisco 2009
		{"{profile: nexus5000, cell: 320B}", 320, 480 << 10},
		{"{profile: nexus5000, port_buffer: none}", 160, 0},
		{"{profile: nexus2000}", 80, 0},
		{"{profile: nexus2000, port_buffer: 240KiB}", 80, 240 << 10},
	} {
		m := mustParse(t, "memory: "+test.memory+"\n"+onePort).Memory
		if m.Cell != test.cell || m.PortBuffer != test.portBuffer {
			t.Errorf("%s: cells of %d bytes, %d bytes to a port, want %d and %d", test.memory, m.Cell, m.PortBuffer,
				test.cell, test.portBuffer)
		}
	}
}

// When a paused sender may go on: a fixed mark follows a fixed limit, an offset a dynamic one.
func TestXONDefaults(t *testing.T) {
	for _, test := range []struct {
		keys                  string
		share, xon, xonOffset int
	}{
		{"share: 3MB", 3e6, 15e5, 0},
		{"share: 3MB, xon: 1MB", 3e6, 1e6, 0},
		{"share: 3MB, xon: 0B", 3e6, 0, 0},
		{"share: 3MB, xon_offset: 64KB", 3e6, 0, 64e3},
		{"share: 3MB, xon_offset: 64KB, xon: 2MB", 3e6, 2e6, 64e3},
		{"alpha: 1", 0, 0, 32768},
		{"alpha: 1, xon: 1MB", 0, 1e6, 0},
		{"alpha: 1, xon_offset: 64KB", 0, 0, 64e3},
		{"alpha: 1, xon_offset: 64KB, xon: 9MB", 0, 9e6, 64e3},
	} {
		c := mustParse(t, onePort+"classes:\n  - {cos: [3], lossless: true, "+test.keys+"}\n").Class(3)
		if c.Share != test.share || c.XON != test.xon || c.XONOffset != test.xonOffset {
			t.Errorf("%s: share %d, xon %d, xon_offset %d, want %d, %d, %d",
				test.keys, c.Share, c.XON, c.XONOffset, test.share, test.xon, test.xonOffset)
		}
	}
}

func TestFlowControl(t *testing.T) {
	const classes = "classes: [{cos: [3], lossless: true}]\n"
	for _, test := range []struct {
		pfc, port string
		want      FlowControl
	}{
		{"true", "", FlowPFC}, {"true", ", flow_control: pfc", FlowPFC},
		{"true", ", flow_control: pause", FlowPause}, {"true", ", flow_control: off", FlowOff},
		{"false", "", FlowOff}, {"false", ", flow_control: pause", FlowOff},
	} {
		text := fmt.Sprintf("pfc: {enabled: %s}\n%sports: [{device: sw0, speed: 1G%s}]\n", test.pfc, classes, test.port)
		if got := mustParse(t, text).Ports[0].FlowControl; got != test.want {
			t.Errorf("%s, want %s in:\n%s", got, test.want, text)
		}
	}
}

// Computed by hand. At 10G, with frames of 9216 and 2240 bytes with FCS, as of FCoE beside jumbo
// frames, the switch receives what the peer begins to send in 12,027 byte times (1999 bytes in
// flight as 33 frames, with 24 on the wire each, and a frame of maximum length) + 168 (two PFC
// frames) + 84 (the PFC frame) + 3847.5 (300 m of fibre, both ways) + 3840 (60 quanta). In frames
// of 64 bytes, 84 on the wire, that is 237 whole frames, one cell each; and two of 2240 bytes, 14
// cells each: 265.
func TestHeadroomOfALink(t *testing.T) {
	const fcoe = "speed: 10G, mtu: 9194, peer_mtu: 2218, cable: 300m, response: 0s, in_flight: 2000B"
	with := func(old, new string) string { return strings.Replace(fcoe, old, new, 1) }
	for _, test := range []struct {
		cell     int
		cos      string // lossless
		port     string
		headroom int // cells
	}{
		{160, "3", fcoe, 265},
		{160, "3, 4", fcoe, 266}, // one more PFC frame
		{160, "3, 4", fcoe + ", flow_control: pause", 265},
		{160, "3", with("300m", "300m, medium: copper"), 262}, // 3570 byte times of cable
		{160, "3", with("300m", "10km"), 1746},                // 128,250
		{160, "3", with("10G", "1G"), 224},                    // 384.75
		{160, "3", with("2218", "9194"), 353},                 // 58 cells to a frame of 9216 bytes
		{160, "3", with("0s", "1ms"), 15146},                  // 1,250,000 byte times more
		{160, "3", with("2000B", "64KB"), 1298},               // 86,792 byte times more
		{80, "3", fcoe, 436},                                  // frames of 85 bytes, 105 on the wire, take two cells
		{160, "3", fcoe + ", flow_control: off", 1},
	} {
		text := fmt.Sprintf("memory: {buffer_size: 4KiB, cell: %dB}\nclasses: [{cos: [%s], lossless: "+
			"true}]\nports: [{device: sw0, %s}]\n",
			test.cell, test.cos, test.port)
		if p := mustParse(t, text).Ports[0]; p.Headroom != test.headroom*test.cell {
			t.Errorf("%d cells, want %d, in:\n%s", p.Headroom/test.cell, test.headroom, text)
		}
	}
}

// TestHeadroomWithSTags: with S-tags, the frames of both ends may be 4 bytes longer.
func TestHeadroomWithSTags(t *testing.T) {
	for _, mtu := range []int{1500, 3000, 9190} {
		text := "memory: {buffer_size: 4KiB, cell: 160B}\nports: [{device: sw0, speed: 10G, response: 0s, mtu: %d, " +
			"peer_mtu: %d, s_tag: %s}]\n"
		with := mustParse(t, fmt.Sprintf(text, mtu, mtu-100, STagPCP)).Ports[0]
		longer := mustParse(t, fmt.Sprintf(text, mtu+4, mtu-96, STagDrop)).Ports[0]
		if with.Headroom != longer.Headroom || with.MTU+with.Overhead() != longer.MTU+longer.Overhead() {
			t.Errorf("mtu %d: headroom of %d bytes, want %d", mtu, with.Headroom, longer.Headroom)
		}
	}
}

// Longer cables, longer frames, higher speeds and slower software never need less headroom.
func TestHeadroomGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.IntRange(64, 3328).Draw(t, "cell")
		var keys [2][]any
		for _, key := range []struct {
			name string
			low  int
			high int
		}{{"speed", 1, 9999}, {"mtu", 1500, 9500}, {"peer_mtu", 68, 1500}, {"cable", 0, 99}, {"response", 0, 999},
			{"in_flight", 2, 999}} {
			less := rapid.IntRange(key.low, key.high).Draw(t, key.name)
			keys[0], keys[1] = append(keys[0], less),
				append(keys[1], rapid.IntRange(less, key.high).Draw(t, "more "+key.name))
		}
		var ports [2]Port
		for i := range ports {
			ports[i] = mustParse(t, fmt.Sprintf("memory: {buffer_size: 4KiB, cell: %dB}\n", cell)+fmt.Sprintf(
				"ports: [{device: sw0, speed: %dM, mtu: %d, peer_mtu: %d, cable: %dkm, response: %dms, in_flight: "+
					"%dKB}]\n", keys[i]...)).Ports[0]
		}
		if ports[1].Headroom < ports[0].Headroom {
			t.Fatalf("%d bytes; with more of everything %d bytes", ports[0].Headroom, ports[1].Headroom)
		}
	})
}

// The sizes that messages recommend are enough, and less is not: headroom is rounded up to whole
// cells, a port buffer down.
func TestRecommendedSizesDo(t *testing.T) {
	for _, test := range []struct {
		text string
		less int // bytes
	}{
		{"memory: {cell: 160B}\nclasses: [{cos: [3], lossless: true, headroom: SIZE}]\nports: [{device: sw0, speed: " +
			"25G, cable: 2km}]\n", 160},
		{"memory: {cell: 160B, port_buffer: SIZE}\nclasses: [{cos: [3, 5], lossless: true}]\nports: [{device: sw0, " +
			"speed: 1G}]\n", 1},
		{"memory: {cell: 80B, port_buffer: SIZE, headroom_ratio: 1.5}\nclasses: [{cos: [3, 5], lossless: " +
			"true}]\nports: [{device: sw0, speed: 1G}]\n", 1},
	} {
		parse := func(bytes int) error {
			_, err := Parse("test.yaml", []byte(strings.Replace(test.text, "SIZE", fmt.Sprintf("%dB", bytes), 1)))
			return err
		}
		err := parse(4096)
		if err == nil {
			t.Errorf("4096 bytes are accepted in:\n%s", test.text)
			continue
		}
		bytes, err := strconv.Atoi(regexp.MustCompile(`raise .*to (\d+)B or more`).FindStringSubmatch(err.Error())[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := parse(bytes); err != nil {
			t.Errorf("what was recommended is refused: %v", err)
		}
		if parse(bytes-test.less) == nil {
			t.Errorf("%d bytes would have done in:\n%s", bytes-test.less, test.text)
		}
	}
}

// Frames under way and the duration of a pause depend on the rate of the link, not on the rate at
// which the port sends.
func TestHeadroomFollowsTheLink(t *testing.T) {
	port := func(speed string) Port {
		return mustParse(t, "ports: [{device: sw0, in_flight: 64KB, speed: "+speed+"}]\n").Ports[0]
	}
	fast, shaped := port("1G"), port("20M, link_speed: 1G")
	if shaped.LinkSpeed != 1e9 || shaped.Headroom != fast.Headroom || shaped.SendRate() != 20e6 {
		t.Errorf("a link of 1G needs %d bytes, one that 20M are sent on %d; it is sent at %d", fast.Headroom,
			shaped.Headroom, shaped.SendRate())
	}
	if slow := port("20M"); slow.LinkSpeed != 20e6 || slow.Headroom >= fast.Headroom {
		t.Errorf("the link of a port of 20M has %d bit/s and needs %d bytes", slow.LinkSpeed, slow.Headroom)
	}
}

// The rate that a device reports overrides the file, whether higher or lower, and the file is
// checked again.
func TestOnLinks(t *testing.T) {
	const text = "classes: [{cos: [3], lossless: true, headroom: 12MB}]\nports: [{device: sw0, speed: 1G, " +
		"link_speed: 2.5G}, {device: sw1, speed: 1G, response: 1ms}]\n"
	c := mustParse(t, text)
	c, err := c.OnLinks(AtRates(map[string]uint64{"sw0": 1e8, "sw1": 25e8, "other": 1e12}))
	if err != nil {
		t.Fatal(err)
	}
	sw0, sw1 := &c.Ports[0], &c.Ports[1]
	if sw0.LinkSpeed != 1e8 || sw0.Speed != 1e9 || sw0.SendRate() != 1e8 || sw1.LinkSpeed != 25e8 ||
		sw1.SendRate() != 1e9 {
		t.Errorf("%+v\n%+v", sw0, sw1)
	}
	if sw0.Headroom >= sw1.Headroom {
		t.Errorf("headroom of %d bytes at 100M, %d at 2.5G", sw0.Headroom, sw1.Headroom)
	}
	for rate, want := range map[uint64]string{
		10e9: "test.yaml:1:48: headroom of 12000000 bytes is 5860 cells, fewer than the 16031 that port sw1 may " +
			"fill at 10G before",
		100e9: "test.yaml:2:88: port sw1 can't keep its peer paused: at 100G a pause of 65535 quanta lasts",
		8e5: "test.yaml:2:62: the link of device sw1 has 800K, for which headroom can't be computed: set the " +
			"link to a rate from 1M to 400G",
		1e12: "test.yaml:2:62: the link of device sw1 has 1000G, for which headroom can't be computed: set the " +
			"link to a rate from 1M to 400G",
	} {
		_, err := c.OnLinks(AtRates(map[string]uint64{"sw1": rate}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a link of %s: %v, want %s", units.Rate(rate), err, want)
		}
	}
}

// Computed by hand, in byte times: the TX ring twice, each with the bytes in flight in frames of 60
// bytes, which take 24 more, and a frame of maximum length; two PFC frames of 84, the one in
// question and one ahead of it, as without a lossless class; the response; and the response of the
// standard, 3840 up to 10G and 25,216 at 100G. A quantum is 64.
func TestLatestRefresh(t *testing.T) {
	const small = "mtu: 9194, in_flight: 2000B, response: "
	for _, test := range []struct {
		port   string
		quanta uint16
		want   int
	}{
		// 2·(1999 + 33·24 + 9236) + 168 + 3840
		{"speed: 10G, " + small + "0s", 65535, 65535 - 439},
		{"speed: 10G, " + small + "0s, cable: 100km", 65535, 65535 - 439},    // delays both alike
		{"speed: 20M, link_speed: 10G, " + small + "0s", 65535, 65535 - 439}, //
		{"speed: 10G, " + small + "0s, peer_mtu: 68", 65535, 65535 - 439},    //
		{"speed: 10G, " + small + "1ms", 65535, 65535 - 19970},               // 1,250,000 more
		// 1,753,050 + 1,250,000 + 168 + 25,216
		{"speed: 100G, mtu: 1500, in_flight: 625000B, response: 100us", 65535, 65535 - 47320},
		// 182,250 + 1250 + 168 + 3840; never
		{"speed: 1G, mtu: 1500, in_flight: 64000B, response: 10us", 1000, 1000 - 2930},
	} {
		p := mustParse(t, "memory: {buffer_size: 16KiB}\nports: [{device: sw0, "+test.port+"}]\n").Ports[0]
		if got := p.LatestRefresh(test.quanta, p.Response); got != test.want {
			t.Errorf("%s, %d quanta: refresh after %d at the latest, want %d", test.port, test.quanta, got, test.want)
		}
	}
}

// A port repeats its pauses at half of their duration, or earlier if that would be too late.
// Without pauses, any time will do.
func TestRefreshOfAPort(t *testing.T) {
	const lossless = "classes: [{cos: [3], lossless: true}]\n"
	for _, test := range []struct {
		text, port string
		want       uint16
	}{
		{lossless, "speed: 10G", 32767},
		{lossless, "speed: 25G, response: 800us", 65535 - 46031}, // 440,574 + 2,500,000 + 3·84 + 5120
		{lossless, "speed: 25G", 65535 - 49107},                  // 863us
		{lossless + "pfc: {refresh: 100}\n", "speed: 25G, response: 1ms", 100},
		{lossless, "speed: 100G, response: 100us", 65535 - 47321},
		{lossless, "speed: 1G, link_speed: 100G, response: 100us, in_flight: 625000B", 65535 - 47321},
		{lossless + "pfc: {refresh: 15000}\n", "speed: 100G, response: 100us", 15000},
		{lossless, "speed: 400G, flow_control: off", 32767},
		{lossless + "pfc: {enabled: false}\n", "speed: 400G", 32767},
		{"", "speed: 400G", 32767},
	} {
		c := mustParse(t, test.text+"ports: [{device: sw1, speed: 1G}, {device: sw0, "+test.port+"}]\n")
		if got := c.Ports[1].Refresh; got != test.want {
			t.Errorf("%s%s: refresh after %d quanta, want %d", test.text, test.port, got, test.want)
		}
		if got := c.Ports[0].Refresh; got != c.PFC.Refresh {
			t.Errorf("%s%s: the other port repeats after %d quanta, want %d", test.text, test.port, got, c.PFC.Refresh)
		}
	}
}

// Unless the file says so, a port repeats no earlier than after a quarter of a pause. Its default
// response leaves time for that if this leaves at least 100 µs for the response; a longer response
// is refused. Computed by hand, in quanta: 49152 are three quarters, and all but the response takes
// 2912 of 51.2 ns at 10G, 11108 of 12.8 ns at 40G, 6968 of 20.48 ns at 25G (TestRefreshOfAPort),
// and 27790 of 5.12 ns at 100G.
func TestDefaultResponse(t *testing.T) {
	const lossless = "classes: [{cos: [3], lossless: true}]\n"
	for _, test := range []struct {
		text, port string
		want       time.Duration
	}{
		{lossless, "speed: 10G", time.Millisecond},
		{lossless, "speed: 25G", 863 * time.Microsecond},
		{lossless, "speed: 40G", 486 * time.Microsecond},
		{lossless, "speed: 1G, link_speed: 40G, in_flight: 250KB", 486 * time.Microsecond},
		{lossless, "speed: 100G", 109 * time.Microsecond},
		{lossless + "pfc: {refresh: 100}\n", "speed: 25G", 863 * time.Microsecond},
		{lossless + "pfc: {quanta: 32768}\n", "speed: 10G", time.Millisecond},
		{lossless + "pfc: {quanta: 20000}\n", "speed: 10G", 618 * time.Microsecond},
		{lossless + "pfc: {quanta: 20000}\n", "speed: 10G, response: 600us", 600 * time.Microsecond},
		{lossless, "speed: 400G, flow_control: off", time.Millisecond},
		{"", "speed: 400G", time.Millisecond},
	} {
		c := mustParse(t, test.text+"ports: [{device: sw0, "+test.port+"}]\n")
		p := &c.Ports[0]
		if p.Response != test.want {
			t.Errorf("%s%s: response %v, want %v", test.text, test.port, p.Response, test.want)
		}
		if !c.Given(&c.PFC.Refresh) && p.Refresh < c.PFC.Quanta/4 {
			t.Errorf("%s%s: a refresh after %d quanta of %d", test.text, test.port, p.Refresh, c.PFC.Quanta)
		}
	}
	for _, port := range []string{"speed: 25G, response: 865us", "speed: 200G", "speed: 400G"} {
		if _, err := Parse("test.yaml", []byte(lossless+"ports: [{device: sw0, "+port+"}]\n")); err == nil {
			t.Errorf("%s: accepted", port)
		}
	}
}

// The values that messages recommend for a pause that would expire are enough, and less is not.
func TestRecommendedPausesHold(t *testing.T) {
	plus := func(n int) func(string) string {
		return func(number string) string {
			is, unit, _ := strings.Cut(number, "us")
			value, err := strconv.Atoi(is)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(value+n) + strings.TrimSuffix(number, is+unit)
		}
	}
	for _, test := range []struct {
		text, refused, recommended string
		beyond                     func(recommended string) string
	}{
		{"ports: [{device: sw0, speed: 100G, response: VALUE}]\n", "1ms", `lower response to (\d+us) or less`, plus(1)},
		{"pfc: {quanta: VALUE}\nports: [{device: sw0, speed: 1G, response: 10us}]\n", "1000",
			`raise pfc.quanta to (\d+) or more`, plus(-1)},
		{"ports: [{device: sw0, speed: 200G, in_flight: 625KB, response: VALUE}]\n", "1ms",
			`lower response to (\d+us) or less`, plus(1)},
		{"pfc: {quanta: VALUE}\nports: [{device: sw0, speed: 10G, response: 1ms}]\n", "20000",
			`raise pfc.quanta to (\d+) or more`, plus(-1)},
		{"pfc: {quanta: VALUE, refresh: 50}\nports: [{device: sw0, speed: 10G, response: 1ms}]\n", "20000",
			`raise pfc.quanta to (\d+) or more`, plus(-1)},
		{"pfc: {refresh: 100}\nports: [{device: sw0, speed: 40G, response: VALUE}]\n", "2ms",
			`lower response to (\d+us) or less`, plus(1)},
		{"pfc: {refresh: 20000}\nports: [{device: sw0, speed: 100G, response: VALUE}]\n", "1ms",
			`lower response to (\d+us) or less`, plus(1)},
		{"pfc: {refresh: VALUE}\nports: [{device: sw0, speed: 25G}, {device: sw1, speed: 40G, response: 10us}]\n",
			"50000", `choose at most (\d+),`, plus(1)},
	} {
		parse := func(value string) error {
			c, err := Parse("test.yaml", []byte("classes: [{cos: [3], lossless: true}]\n"+
				strings.Replace(test.text, "VALUE", value, 1)))
			for i := 0; err == nil && i < len(c.Ports); i++ {
				if p := &c.Ports[i]; !c.Given(&c.PFC.Refresh) && p.Refresh < c.PFC.Quanta/4 {
					t.Errorf("%s: port %s repeats after %d quanta of %d", value, p.Device, p.Refresh, c.PFC.Quanta)
				}
			}
			return err
		}
		err := parse(test.refused)
		if err == nil {
			t.Errorf("%s is accepted in:\n%s", test.refused, test.text)
			continue
		}
		found := regexp.MustCompile(test.recommended).FindStringSubmatch(err.Error())
		if found == nil {
			t.Errorf("%v: recommends nothing like %s", err, test.recommended)
			continue
		}
		if err := parse(found[1]); err != nil {
			t.Errorf("what was recommended is refused: %v", err)
		}
		if beyond := test.beyond(found[1]); parse(beyond) == nil {
			t.Errorf("%s would have done in:\n%s", beyond, test.text)
		}
	}
}

// The engines agree with LatestRefresh: a pause that is repeated that late holds even if everything
// in between takes as long as it may. With the margin of the PFC frame, and as much again for
// rounding to quanta and ns, it expires.
func TestPausesHold(t *testing.T) {
	// bytes (802.1Qbb, 802.3 31B.3.7)
	responses := map[uint64]int64{1e9: 3840, 10e9: 3840, 25e9: 80 * 64, 40e9: 118 * 64, 100e9: 394 * 64,
		400e9: 905 * 64}
	rapid.Check(t, func(t *rapid.T) {
		speed := rapid.SampledFrom([]uint64{1e9, 10e9, 25e9, 40e9, 100e9, 400e9}).Draw(t, "speed")
		gap := time.Duration(rapid.IntRange(0, 3e6).Draw(t, "gap"))
		quanta := uint16(rapid.IntRange(2, 65535).Draw(t, "quanta"))
		p := Port{Speed: 1e6, LinkSpeed: speed, MTU: rapid.IntRange(68, 9000).Draw(t, "mtu"), PeerMTU: 68,
			Medium: headroom.Fibre,
			Metres: rapid.Float64Range(0, 1e5).Draw(t, "metres"), InFlight: rapid.IntRange(2000, 1e6).Draw(t,
				"in_flight")}
		latest := p.LatestRefresh(quanta, gap)
		if latest < 1 {
			return
		}
		before := p.InFlight - 1
		rings := 2 * (before + before/60*24 + p.MTU + FrameOverhead + frame.FCS + 20)
		holds := func(refresh int) bool {
			g, err := pfc.NewGenerator(pfc.GeneratorParams{Priorities: 1, Quanta: quanta, Refresh: uint16(refresh),
				Speed: speed})
			if err != nil {
				t.Fatal(err)
			}
			peer, err := pfc.NewReceiver(pfc.ReceiverParams{Priorities: 1, Speed: speed})
			if err != nil {
				t.Fatal(err)
			}
			ns := func(bytes int64) int64 { return bytes * 8e9 / int64(speed) }
			due := func(now int64) (f pfc.Frame) {
				if !g.Due(now, 1, &f) {
					t.Fatalf("nothing is due at %d", now)
				}
				g.Sent(now, &f)
				return f
			}
			wire := ns(84) + int64(p.Metres*5.13)
			f := due(0)
			peer.Receive(wire, &f) // at once
			late := ns(64*int64(refresh)) + 1 + gap.Nanoseconds()
			due(late) // the loop has been away since just before
			return peer.Paused(late+ns(int64(rings))+wire+ns(responses[speed])-2) == 1
		}
		if !holds(latest) {
			t.Fatalf("a refresh after %d quanta is too late", latest)
		}
		if later := latest + 5 + int(4*speed/512e9); later < int(quanta) && holds(later) {
			t.Fatalf("a refresh after %d quanta is early enough, and %d should be the latest", later, latest)
		}
	})
}

// TestParts: how many buffers a frame of maximum length occupies, and the default cell, which is a
// buffer, or what each of several buffers holds at least. A port with long frames changes the cell
// for all.
func TestParts(t *testing.T) {
	for _, test := range []struct {
		size, mtu  string
		more       string // of the port
		parts      int
		cell       int
		ofProfiles bool // the cell is that of a profile
	}{
		{"2048B", "1500", "", 1, 2048, false},
		{"2048B", "1646", "", 1, 2048, false},
		{"2048B", "1642", "s_tag: pcp", 1, 2048, false},
		{"2048B", "1643", "s_tag: pcp", 2, 1664, false},
		{"2048B", "1647", "", 2, 1664, false},
		{"2048B", "3310", "", 2, 1664, false},
		{"2048B", "3311", "", 3, 1664, false},
		{"2048B", "9000", "", 6, 1664, false},
		{"4096B", "3694", "", 1, 4096, false},
		{"4096B", "3695", "", 2, 3328, false},
		{"4096B", "4200", "", 2, 3328, false},
		{"4096B", "6638", "", 2, 3328, false},
		{"4096B", "6639", "", 3, 3328, false},
		{"4096B", "9216", "", 3, 3328, false},
		{"4096B", "9500", "s_tag: pcp", 3, 3328, false},
		{"8192B", "9500", "", 2, 7424, false},
		{"16KiB", "9500", "", 1, 16384, false},
		{"4096B", "9216", "", 3, 160, true},
	} {
		profile := Generic
		if test.ofProfiles {
			profile = Nexus5000
		}
		c := mustParse(t, fmt.Sprintf("memory: {buffer_size: %s, profile: %s}\nports: [{device: sw0, speed: 1G}, "+
			"{device: sw1, speed: 1G, mtu: %s, %s}]\n", test.size, profile, test.mtu, test.more))
		if p := c.Ports[1]; p.Parts != test.parts || c.Memory.Cell != test.cell || c.Ports[0].Parts != 1 {
			t.Errorf("mtu %s in buffers of %s: %d buffers, want %d; cells of %d bytes, want %d", test.mtu, test.size,
				p.Parts, test.parts, c.Memory.Cell, test.cell)
		}
	}
}

// TestRingTime: each buffer of a frame takes an entry of the ring, and the shortest frames fill it
// first. So all that long frames cost are the entries that the longest one needs at once.
func TestRingTime(t *testing.T) {
	const entries = 1024
	port := func(buffer string) Port {
		return mustParse(t, "memory: {buffer_size: "+buffer+"}\nports: [{device: sw0, speed: 10G, mtu: 9000, "+
			"response: 0s, in_flight: 2KB}]\n").Ports[0]
	}
	whole, parts := port("16KiB"), port("2048B")
	if whole.Parts != 1 || parts.Parts != 6 {
		t.Fatalf("%d and %d buffers", whole.Parts, parts.Parts)
	}
	a, b := whole.RingTime(entries), parts.RingTime(entries)
	if less := a - b; b <= 0 || less < 5*84*8/10-1 || less > 5*84*8/10+1 { // ns at 10G
		t.Errorf("whole frames %v, frames of six buffers %v; want five of the shortest frames less", a, b)
	}
}
